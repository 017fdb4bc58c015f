//! What is shown to agents: values that are clean, questions and answers of token servers, when what is got anew.

use std::time::Duration;

use super::server::{is_asked_for, read, refresh_after, refusal};
use super::*;
use crate::config::Secret;
use crate::http::grpc;

const KEY: &str = "agents[0].upstream.credential";

#[test]
fn the_own_credential_is_sensitive_and_clean() {
    let check = |given: UpstreamCredential, name: &str, value: &str| {
        let credential = Fixed::build(&given, KEY).unwrap();
        let sent = credential.value();
        assert_eq!((credential.name().as_str(), sent.to_str().unwrap()), (name, value));
        assert!(sent.is_sensitive(), "{name} must not be shown by Debug");
    };
    check(
        UpstreamCredential::Bearer(secret("t0ken")),
        "authorization",
        "Bearer t0ken",
    );
    let basic = UpstreamCredential::Basic {
        username: "ann".to_owned(),
        password: secret("pa:ss"),
    };
    check(basic, "authorization", "Basic YW5uOnBhOnNz");
    let header = |value: &str| UpstreamCredential::Header {
        name: header::HeaderName::from_static("x-key"),
        value: secret(value),
    };
    check(header("k"), "x-key", "k");

    let problem = Fixed::build(&header("k\r\nx-evil: 1"), KEY).map(|_| ()).unwrap_err();
    assert_eq!(problem.key, KEY);
    assert!(!problem.to_string().contains("evil"), "{problem}");
}

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

#[test]
fn a_token_is_followed_by_another_before_it_ends() {
    let check = |lifetime: f64, after: f64| {
        let found = refresh_after(Duration::from_secs_f64(lifetime)).as_secs_f64();
        assert!((found - after).abs() < 1e-6, "{lifetime}: {found}");
    };
    check(3600.0, 2880.0);
    check(100.0, 80.0);
    check(50.0, 40.0);
    // Ten seconds before its end.
    check(40.0, 30.0);
    check(20.0, 10.0);
    // Where that leaves less than half of it.
    check(10.0, 5.0);
    check(1.0, 0.5);
}

#[test]
fn an_exchanged_token_is_of_the_type_that_was_asked_for() {
    // RFC 8693 §2.2.1.
    let check = |issued: Option<&str>, requested: Option<&str>, expected: bool| {
        let name = |short: &str| format!("urn:ietf:params:oauth:token-type:{short}");
        let (issued, requested) = (issued.map(name), requested.map(name));
        assert_eq!(
            is_asked_for(issued.as_deref(), requested.as_deref()),
            expected,
            "{issued:?} {requested:?}"
        );
    };
    check(None, None, true);
    check(Some("access_token"), None, true);
    check(Some("jwt"), None, true);
    check(Some("refresh_token"), None, false);
    check(Some("id_token"), None, false);
    check(Some("id_token"), Some("id_token"), true);
    check(Some("access_token"), Some("jwt"), false);
}

#[test]
fn answers_of_token_servers_are_read_strictly() {
    // RFC 6749 §5.1.
    let check = |body: &str, expected: Option<(&str, u64)>| {
        let found = read(body.as_bytes(), Duration::from_secs(300));
        let found = found.ok().map(|granted| {
            assert!(granted.value.is_sensitive(), "{body}");
            (granted.value.to_str().unwrap().to_owned(), granted.lifetime.as_secs())
        });
        let expected = expected.map(|(token, lifetime)| (format!("Bearer {token}"), lifetime));
        assert_eq!(found, expected, "{body}");
    };
    let with = |rest: &str| format!(r#"{{"access_token":"a.b-c_d~e+f/g=","token_type":"Bearer"{rest}}}"#);
    let token = "a.b-c_d~e+f/g=";
    check(&with(""), Some((token, 300)));
    check(&with(r#","expires_in":null"#), Some((token, 300)));
    check(&with(r#","expires_in":60,"scope":"x","other":[1]"#), Some((token, 60)));
    check(&with(r#","expires_in":"60""#), Some((token, 60)));
    check(&with(r#","expires_in":60.9"#), Some((token, 60)));
    // A day at most.
    check(&with(r#","expires_in":315360000"#), Some((token, 86_400)));
    check(&with(r#","expires_in":"99999999999999999999""#), None);
    for none in ["0", "-1", "\"soon\"", "\"-1\"", "true", "[60]", "1e999"] {
        check(&with(&format!(r#","expires_in":{none}"#)), None);
    }
    check(r#"{"access_token":"a","token_type":"bEARER"}"#, Some(("a", 300)));
    for refused in [
        r#"{"access_token":"a"}"#,
        r#"{"access_token":"a","token_type":"DPoP"}"#,
        r#"{"access_token":"a b","token_type":"Bearer"}"#,
        r#"{"access_token":"a\u0000","token_type":"Bearer"}"#,
        r#"{"access_token":"ä","token_type":"Bearer"}"#,
        r#"{"access_token":["a"],"token_type":"Bearer"}"#,
        r#"{"access_token":"a","token_type":"Bearer","token_type":"Bearer"}"#,
        r#"["a"]"#,
        "",
    ] {
        check(refused, None);
    }
    let long = |length: usize| format!(r#"{{"access_token":"{}","token_type":"Bearer"}}"#, "a".repeat(length));
    check(&long(16 * 1024), Some((&"a".repeat(16 * 1024), 300)));
    check(&long(16 * 1024 + 1), None);
}

#[test]
fn of_what_a_server_refuses_with_only_known_codes_are_told() {
    let check = |body: &str, expected: Option<&str>| assert_eq!(refusal(body.as_bytes()), expected, "{body}");
    check(
        r#"{"error":"invalid_grant","error_description":"x"}"#,
        Some("invalid_grant"),
    );
    check(r#"{"error":"hunter2"}"#, Some("an error of its own"));
    check(r#"{"error":{"code":"invalid_grant"}}"#, None);
    check("<html>", None);
}

#[test]
fn an_answer_that_refuses_the_credential_is_known_in_every_binding() {
    let check = |status: u16, grpc_status: Option<&'static str>, expected: bool| {
        let mut headers = HeaderMap::new();
        headers.extend(grpc_status.map(|status| (grpc::STATUS, HeaderValue::from_static(status))));
        let status = http::StatusCode::from_u16(status).unwrap();
        assert_eq!(
            grpc::is_unauthenticated(status, &headers),
            expected,
            "{status} {grpc_status:?}"
        );
    };
    check(401, None, true);
    check(403, None, false);
    check(200, None, false);
    check(200, Some("16"), true);
    check(200, Some("7"), false);
}

#[test]
fn a_callers_token_never_shows() {
    let subject = Subject::new("s3cret", &Arc::from("jwt:me"), Duration::from_secs(u64::MAX));
    let shown = format!("{:?}", InName::Caller(Some(Arc::new(subject))));
    assert!(shown.contains("jwt:me") && !shown.contains("s3cret"), "{shown}");
}
