//! What is sent to an agent: the target, the gateway's own credential, the caller's head without its credentials.

use super::*;
use crate::balance::tests::{balancing, build};

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
fn credentials_of_callers_go_on_only_where_nothing_strips_them() {
    let (mut parts, ()) = Request::post("/?key=s&A2A-Version=1.0&x=1")
        .header("authorization", "Bearer s")
        .header("x-key", "s")
        .header("x-trace", "1")
        .header("x-says-who", "me")
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
    // What the gateway itself says of callers comes from none, whatever else goes on.
    let own = [header::HeaderName::from_static("x-says-who")];
    let stripped = outgoing(&mut parts.clone(), &Withheld::All(&places), &own, Bytes::new());
    assert_eq!(names(&stripped), ["x-trace"]);
    assert_eq!(stripped.query.as_deref(), Some("x=1"));
    let others = Withheld::Others(places);
    let known = outgoing(&mut parts.clone(), &others, &own, Bytes::new());
    assert_eq!(names(&known), ["authorization", "x-trace"]);
    assert_eq!(known.query.as_deref(), Some("x=1"));
    let whole = outgoing(&mut parts, &Withheld::Nothing, &own, Bytes::new());
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
    let mut outgoing = outgoing(&mut parts, &Withheld::Nothing, &[], Bytes::from_static(b"{}"));
    for (endpoint, target, host) in [(0, "http://a:1/rpc?k=v&x=1", "a:1"), (1, "http://b:2/?x=1", "b:2")] {
        let own = HeaderValue::from_static("the gateway's");
        outgoing.headers.insert("x-key", own);
        let request = outgoing.request(&endpoints.all()[endpoint]);
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
