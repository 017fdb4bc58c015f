//! RFC 9110 §11: HTTP authentication schemes that the gateway does not know, about whose credentials a service is asked.

use serde_json::{Value, json};

use super::bound_tokens::{agent, streaming};
use super::tokens::now;
use super::{Server, Site};
use crate::harness::agent::task_event;
use crate::harness::client::{open, read};
use crate::harness::{Gateway, call, config_of, eventually, get, send};

const PLACE: &str = "/check";
const DIGEST: &str = "Digest username=\"ann\", uri=\"/agent\", response=\"hunter2\"";
const ANN: &str = "http:digest:ann";

/// `more` are keys of `check`.
fn scheme(server: &Server, more: &str) -> String {
    format!(
        "type: http, scheme: Digest, check: {{ url: \"{}\", {more} }}",
        server.url(PLACE)
    )
}

#[tokio::test]
async fn the_service_gets_the_credential_and_nothing_else_of_the_request() {
    let server = Server::start().await;
    server.says(PLACE, 200, json!({ "sub": "ann" }));
    let site = Site::start(&scheme(&server, "")).await;
    let fields = [
        ("authorization", DIGEST),
        ("content-type", "application/json"),
        ("a2a-version", "1.0"),
        ("cookie", "session=secret"),
        ("x-api-key", "secret"),
        ("x-forwarded-uri", "/forged"),
    ];
    let answer = call(site.address(), "POST", "/agent?key=secret", &fields, &send("1", "hi")).await;
    site.admits("a good credential", &answer, ANN).await;
    let questions = server.questions(PLACE);
    assert_eq!(questions.len(), 1);
    let mut head: Vec<&str> = questions[0].head.trim_end().split("\r\n").collect();
    assert_eq!(head.remove(0), "GET /check HTTP/1.1");
    head.sort_unstable();
    let names: Vec<&str> = head.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "accept",
            "authorization",
            "connection",
            "host",
            "user-agent",
            "x-forwarded-method",
            "x-forwarded-uri"
        ]
    );
    for (name, value) in [
        ("authorization", DIGEST),
        ("x-forwarded-method", "POST"),
        ("x-forwarded-uri", "/agent"),
    ] {
        assert_eq!(questions[0].field(name), Some(value));
    }
    assert!(questions[0].body.is_empty());
    assert_eq!(site.agent.received()[0].field("authorization"), None);
    site.hides("hunter2").await;
}

#[tokio::test]
async fn only_a_caller_with_a_name_is_admitted() {
    let server = Server::start().await;
    let site = Site::start(&scheme(&server, "negative_ttl: 0s")).await;
    let unclear = "";
    for (what, status, body, detail) in [
        ("refused", 401, json!({ "sub": "ann" }).to_string(), "denied"),
        ("forbidden", 403, json!({ "sub": "ann" }).to_string(), "denied"),
        (
            "not active",
            200,
            json!({ "active": false, "sub": "ann" }).to_string(),
            "denied",
        ),
        (
            "perhaps active",
            200,
            json!({ "active": "true", "sub": "ann" }).to_string(),
            unclear,
        ),
        ("no name", 200, "{}".to_owned(), "missing-claim"),
        ("an empty name", 200, json!({ "sub": "" }).to_string(), "malformed"),
        ("two names", 200, r#"{"sub":"ann","sub":"root"}"#.to_owned(), unclear),
        ("over", 200, json!({ "sub": "ann", "exp": 1 }).to_string(), "expired"),
        ("nothing", 200, String::new(), unclear),
        ("a page", 200, "<html>".to_owned(), unclear),
        ("no content", 204, String::new(), unclear),
        ("a redirect", 307, json!({ "sub": "ann" }).to_string(), unclear),
        ("a server that fails", 500, json!({ "sub": "ann" }).to_string(), unclear),
        ("nothing there", 404, json!({ "sub": "ann" }).to_string(), unclear),
    ] {
        server.says(PLACE, status, body);
        let answer = site.show(DIGEST).await;
        if detail.is_empty() {
            site.cannot_tell(what, &answer).await;
        } else {
            site.refuses(what, &answer, detail).await;
            let challenge = answer.header("www-authenticate");
            assert_eq!(challenge, Some("Digest realm=\"a2a-gateway\""), "{what}");
        }
    }
    assert_eq!(site.agent.received().len(), 0);
    server.says(PLACE, 200, json!({ "active": true, "sub": "a/b:c" }));
    site.admits("at last", &site.show(DIGEST).await, "http:digest:a/b:c")
        .await;
    drop(server);
    site.cannot_tell("away", &site.show(DIGEST).await).await;
}

#[tokio::test]
async fn credentials_of_other_schemes_do_not_go_there() {
    let server = Server::start().await;
    server.says(PLACE, 200, json!({ "sub": "ann" }));
    let site = Site::start(&scheme(&server, "")).await;
    for other in ["Bearer t", "Basic YTpi", "Digestive x"] {
        assert_eq!(site.show(other).await.status, 401, "{other}");
    }
    site.refuses("nothing in it", &site.show("Digest").await, "malformed")
        .await;
    let twice = [("authorization", DIGEST), ("authorization", DIGEST)];
    let answer = call(site.address(), "POST", "/agent", &twice, &send("1", "hi")).await;
    site.refuses("twice", &answer, "ambiguous").await;
    assert_eq!(server.asked(PLACE), 0);
    site.admits("in any case", &site.show("dIGEST x").await, ANN).await;
}

/// What many schemes send is good for one request.
#[tokio::test]
async fn every_request_is_asked_about_unless_the_configuration_says_otherwise() {
    let server = Server::start().await;
    server.says(PLACE, 200, json!({ "sub": "ann" }));
    let site = Site::start(&scheme(&server, "")).await;
    for count in 1..=3 {
        site.admits("each", &site.show(DIGEST).await, ANN).await;
        assert_eq!(server.asked(PLACE), count);
    }
    let site = Site::start(&scheme(&server, "cache_ttl: 1h")).await;
    for _ in 0..3 {
        site.admits("remembered", &site.show(DIGEST).await, ANN).await;
    }
    assert_eq!(server.asked(PLACE), 4);
    // The credential may be for one path.
    let fields = [("authorization", DIGEST), ("content-type", "application/json")];
    let body = send("1", "hi");
    call(site.address(), "POST", "/agent/", &fields, &body).await;
    assert_eq!(server.asked(PLACE), 5);
    assert_eq!(server.questions(PLACE)[4].field("x-forwarded-uri"), Some("/agent/"));
}

#[tokio::test]
async fn scopes_of_the_answer_count() {
    let server = Server::start().await;
    server.says(PLACE, 200, json!({ "sub": "ann", "scope": "read" }));
    for (needed, status) in [("read", 200), ("write", 403)] {
        let security = format!("[ {{ s: [ {needed} ] }} ]");
        let site = Site::asking(&scheme(&server, ""), &security, "").await;
        site.gateway.ready().await;
        assert_eq!(site.show(DIGEST).await.status, status, "{needed}");
    }
}

#[tokio::test]
async fn cards_name_the_scheme() {
    let server = Server::start().await;
    let site = Site::start(&scheme(&server, "")).await;
    let card: Value = get(site.address(), "/agent/.well-known/agent-card.json").await.json();
    let scheme = &card["securitySchemes"]["s"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&json!("http"), &json!("Digest")));
    assert_eq!(scheme["httpAuthSecurityScheme"], json!({ "scheme": "Digest" }));
}

/// Nobody is asked about a stream again, so that it lasts as long as the service said and no longer.
#[tokio::test]
async fn a_stream_ends_when_the_service_said_so() {
    let (server, agent) = (Server::start().await, agent().await);
    server.says(PLACE, 200, json!({ "sub": "ann", "exp": now() + 3 }));
    let yaml = config_of(&[agent.address], "", "")
        .replace(
            "security_schemes:\n",
            &format!("security_schemes:\n  s: {{ {} }}\n", scheme(&server, "")),
        )
        .replace("security: [ { key: [] } ]", "security: [ { s: [] } ]");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let fields = [("authorization", DIGEST), ("content-type", "application/json")];
    let stream = open(gateway.address, "POST", "/agent", &fields, &streaming()).await;
    assert_eq!(stream.status(), 200);
    assert_eq!(read(stream).await, (task_event("1", "t"), false));
    let counted = "a2a_gateway_streams_revoked_total{reason=\"credential-not-valid\"}";
    eventually("it is counted", || async { gateway.metric(counted).await == 1.0 }).await;
}
