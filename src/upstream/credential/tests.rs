//! What is shown to agents: values that are clean, questions and answers of token servers, when what is got anew.

use std::time::Duration;

use super::server::{is_asked_for, refresh_after};
use super::*;
use crate::config::Secret;

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
fn a_callers_token_never_shows() {
    let subject = Subject::new("s3cret", &Arc::from("jwt:me"), Duration::from_secs(u64::MAX));
    let shown = format!("{:?}", InName::Caller(Some(Arc::new(subject))));
    assert!(shown.contains("jwt:me") && !shown.contains("s3cret"), "{shown}");
}
