//! What is sent to an agent: the target, the gateway's own credential, the caller's head without its credentials.

use super::*;
use crate::balance::tests::{balancing, build};
use crate::config::{Secret, UpstreamCredential};

const KEY: &str = "agents[0].upstream.credential";

#[test]
fn the_query_of_the_caller_stands_behind_the_endpoints_own() {
    let check = |endpoint: &'static str, query: Option<&str>, expected: &str| {
        let joined = target(&Uri::from_static(endpoint), "", query);
        assert_eq!(joined.to_string(), expected, "{endpoint} {query:?}");
    };
    check("http://a:1/rpc", None, "http://a:1/rpc");
    check("http://a:1/rpc", Some("x=1"), "http://a:1/rpc?x=1");
    check("http://a:1/rpc?k=v", None, "http://a:1/rpc?k=v");
    check("http://a:1/rpc?k=v", Some("x=1&y"), "http://a:1/rpc?k=v&x=1&y");
    check("http://a:1/", Some("not a query"), "http://a:1/");
}

#[test]
fn the_path_of_a_call_stands_behind_the_endpoints_own() {
    let check = |endpoint: &'static str, path: &str, query: Option<&str>, expected: &str| {
        let joined = target(&Uri::from_static(endpoint), path, query);
        assert_eq!(joined.to_string(), expected, "{endpoint} {path} {query:?}");
    };
    check("http://a:1", "/tasks/t", None, "http://a:1/tasks/t");
    check("http://a:1/", "/message:send", None, "http://a:1/message:send");
    check(
        "http://a:1/rest",
        "/message%3Asend",
        None,
        "http://a:1/rest/message%3Asend",
    );
    check(
        "http://a:1/rest/?k=v",
        "/v1/tasks/t",
        Some("x=1"),
        "http://a:1/rest/v1/tasks/t?k=v&x=1",
    );
}

#[test]
fn the_own_credential_is_sensitive_and_clean() {
    let check = |given: UpstreamCredential, name: &str, value: &str| {
        let credential = Credential::build(&given, KEY).unwrap();
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

    let problem = Credential::build(&header("k\r\nx-evil: 1"), KEY)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(problem.key, KEY);
    assert!(!problem.to_string().contains("evil"), "{problem}");
}

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

#[test]
fn credentials_of_callers_go_on_only_where_nothing_strips_them() {
    let (mut parts, ()) = Request::post("/?key=s&A2A-Version=1.0&x=1")
        .header("authorization", "Bearer s")
        .header("x-key", "s")
        .header("x-trace", "1")
        .header("connection", "x-hop")
        .header("x-hop", "1")
        .body(())
        .unwrap()
        .into_parts();
    let places = CredentialPlaces {
        headers: vec![header::HeaderName::from_static("x-key")],
        query: vec!["key".to_owned()],
    };
    let names = |outgoing: &Outgoing| {
        let mut names: Vec<String> = outgoing.headers.keys().map(ToString::to_string).collect();
        names.sort();
        names
    };
    let stripped = outgoing(&mut parts.clone(), Some(&places), Bytes::new());
    assert_eq!(names(&stripped), ["x-trace"]);
    assert_eq!(stripped.query.as_deref(), Some("x=1"));
    let whole = outgoing(&mut parts, None, Bytes::new());
    assert_eq!(names(&whole), ["authorization", "x-key", "x-trace"]);
    assert_eq!(whole.query.as_deref(), Some("key=s&x=1"));
}

#[test]
fn a_request_that_came_back_unwritten_goes_elsewhere_whole() {
    let urls = ["http://a:1/rpc?k=v", "http://b:2/"].map(str::to_owned);
    let endpoints = build(&urls, &balancing(config::Balance::RoundRobin));
    let (mut parts, ()) = Request::post("/?x=1")
        .header("x-trace", "1")
        .header("x-trace", "2")
        .header("x-key", "the caller's")
        .body(())
        .unwrap()
        .into_parts();
    let mut outgoing = outgoing(&mut parts, None, Bytes::from_static(b"{}"));
    let name = header::HeaderName::from_static("x-key");
    let credential = || Some((&name, HeaderValue::from_static("the gateway's")));
    for (endpoint, target, host) in [(0, "http://a:1/rpc?k=v&x=1", "a:1"), (1, "http://b:2/?x=1", "b:2")] {
        let request = outgoing.request(&endpoints.all()[endpoint], credential());
        assert_eq!(request.uri(), target);
        let mut fields: Vec<(&str, &[u8])> = request
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                ("host", host.as_bytes()),
                ("x-key", b"the gateway's"),
                ("x-trace", b"1"),
                ("x-trace", b"2"),
            ]
        );
        assert_eq!(outgoing.body, "{}");
        outgoing.take_back(request);
    }
}
