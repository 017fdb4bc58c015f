//! A2A 1.0 §4.5.2 and A2A 0.3 §5.5 (`APIKeySecurityScheme`, after the Security Scheme Object of OpenAPI): a key in a field, a parameter of the query or a
//! cookie (RFC 6265 §4.2).

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

use super::Site;
use crate::harness::{Answer, call, send};

const KEY: &str = "k3y-of-ann-0123456789abcdef";
const JSON: (&str, &str) = ("content-type", "application/json");

fn scheme(place: &str, name: &str, more: &str) -> String {
    let hash = digest(&SHA256, KEY.as_bytes());
    let digits = hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    format!("type: apiKey, in: {place}, name: {name}, keys: [ {{ id: ann, hash: \"sha256:{digits}\" {more} }} ]")
}

async fn show(site: &Site, path: &str, fields: &[(&str, &str)]) -> Answer {
    let fields: Vec<(&str, &str)> = fields.iter().copied().chain([JSON]).collect();
    call(site.address(), "POST", path, &fields, &send("1", "hi")).await
}

/// Nothing of the key reaches the agent or an operator.
async fn keeps_it(site: &Site) {
    for received in site.agent.received() {
        assert!(!received.head.contains(KEY), "{}", received.head);
    }
    site.hides(KEY).await;
}

#[tokio::test]
async fn in_a_field_of_the_head() {
    let site = Site::start(&scheme("header", "X-Key", "")).await;
    let good = show(&site, "/agent", &[("x-key", KEY)]).await;
    site.admits("the key", &good, "key:ann").await;
    for (what, path, fields, detail) in [
        ("none", "/agent".to_owned(), vec![], "missing"),
        ("in the query", format!("/agent?X-Key={KEY}"), vec![], "missing"),
        (
            "as a token",
            "/agent".to_owned(),
            vec![("authorization", KEY)],
            "missing",
        ),
        ("another", "/agent".to_owned(), vec![("x-key", "other")], "unknown-key"),
        (
            "twice",
            "/agent".to_owned(),
            vec![("x-key", KEY), ("x-key", KEY)],
            "ambiguous",
        ),
        (
            "its hash",
            "/agent".to_owned(),
            vec![("x-key", "sha256:")],
            "unknown-key",
        ),
    ] {
        let answer = show(&site, &path, &fields).await;
        site.refuses(what, &answer, detail).await;
    }
    keeps_it(&site).await;
}

#[tokio::test]
async fn in_the_query() {
    let site = Site::start(&scheme("query", "key", "")).await;
    let good = show(&site, &format!("/agent?a=b&key={KEY}&c=d"), &[]).await;
    site.admits("the key", &good, "key:ann").await;
    // RFC 3986 §2.1: what is percent-encoded says the same.
    let encoded = show(&site, &format!("/agent?%6Bey={}", KEY.replace('-', "%2D")), &[]).await;
    site.admits("encoded", &encoded, "key:ann").await;
    for (what, path, detail) in [
        ("another", "/agent?key=other".to_owned(), "unknown-key"),
        ("twice", format!("/agent?key={KEY}&key={KEY}"), "ambiguous"),
        (
            "twice, one encoded",
            format!("/agent?key={KEY}&%6bey=other"),
            "ambiguous",
        ),
        ("another name", format!("/agent?Key={KEY}"), "missing"),
    ] {
        let answer = show(&site, &path, &[]).await;
        site.refuses(what, &answer, detail).await;
    }
    keeps_it(&site).await;
}

#[tokio::test]
async fn in_a_cookie() {
    let site = Site::start(&scheme("cookie", "session", "")).await;
    let pair = format!("a=b; session={KEY}; c=d");
    let good = show(&site, "/agent", &[("cookie", &pair)]).await;
    site.admits("the key", &good, "key:ann").await;
    let twice = format!("session={KEY}; session={KEY}");
    let named = format!("Session={KEY}");
    for (what, fields, detail) in [
        ("another", vec![("cookie", "session=other")], "unknown-key"),
        ("twice", vec![("cookie", twice.as_str())], "ambiguous"),
        (
            "in two fields",
            vec![("cookie", pair.as_str()), ("cookie", pair.as_str())],
            "ambiguous",
        ),
        ("another name", vec![("cookie", named.as_str())], "missing"),
    ] {
        let answer = show(&site, "/agent", &fields).await;
        site.refuses(what, &answer, detail).await;
    }
    keeps_it(&site).await;
}

#[tokio::test]
async fn a_key_has_an_end_and_scopes() {
    let site = Site::start(&scheme("header", "X-Key", ", expires: \"2020-01-01T00:00:00Z\"")).await;
    let answer = show(&site, "/agent", &[("x-key", KEY)]).await;
    site.refuses("over", &answer, "expired").await;

    for (scopes, status) in [("read", 403), ("read, write", 200)] {
        let scheme = scheme("header", "X-Key", &format!(", scopes: [ {scopes} ]"));
        let site = Site::asking(&scheme, "[ { s: [ write ] } ]", "").await;
        site.gateway.ready().await;
        let answer = show(&site, "/agent", &[("x-key", KEY)]).await;
        assert_eq!(answer.status, status, "{scopes}: {}", answer.text());
    }
}
