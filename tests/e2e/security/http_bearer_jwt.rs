//! RFC 6750 §2.1 and §3, RFC 7519 §4.1: signed bearer tokens. Forged ones are in `adversarial/jwt.rs` (RFC 8725).

use serde_json::{Value, json};

use super::tokens::{Key, but, claims, now};
use super::{ISSUER, Server, Site};
use crate::harness::{call, send};

const ANN: &str = "jwt:https://login.example.com#ann";

async fn site(key: &Key, security: &str) -> (Site, Server) {
    let server = Server::start().await;
    server.says("/keys", 200, key.set());
    let scheme = format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a, a2a-other ], jwks_url: \"{}\", leeway: 30s",
        server.url("/keys")
    );
    let site = Site::asking(&scheme, security, "").await;
    site.gateway.ready().await;
    (site, server)
}

/// What claims come to.
type Case = (&'static str, Value, Result<&'static str, &'static str>);

#[tokio::test]
async fn each_claim_is_verified() {
    let key = Key::new("k");
    let (site, _server) = site(&key, "[ { s: [] } ]").await;
    let hour = 60 * 60;
    let cases: Vec<Case> = vec![
        ("as it should be", json!({}), Ok(ANN)),
        ("§4.1.3: one of several", json!({ "aud": ["x", "a2a-other"] }), Ok(ANN)),
        ("§4.1.3: nobody", json!({ "aud": [] }), Err("wrong-audience")),
        ("§4.1.3: somebody else", json!({ "aud": "A2A" }), Err("wrong-audience")),
        ("§4.1.3: missing", json!({ "aud": null }), Err("missing-claim")),
        (
            "§4.1.1: somebody else",
            json!({ "iss": format!("{ISSUER}/") }),
            Err("wrong-issuer"),
        ),
        ("§4.1.1: missing", json!({ "iss": null }), Err("missing-claim")),
        ("§4.1.2: missing", json!({ "sub": null }), Err("missing-claim")),
        ("§4.1.2: empty", json!({ "sub": "" }), Err("malformed")),
        ("§4.1.4: over", json!({ "exp": now() - hour }), Err("expired")),
        ("§4.1.4: within the leeway", json!({ "exp": now() - 5 }), Ok(ANN)),
        ("§4.1.4: missing", json!({ "exp": null }), Err("missing-claim")),
        (
            "§4.1.4: no number",
            json!({ "exp": (now() + hour).to_string() }),
            Err("missing-claim"),
        ),
        ("§4.1.5: not yet", json!({ "nbf": now() + hour }), Err("not-yet-valid")),
        ("§4.1.5: within the leeway", json!({ "nbf": now() + 5 }), Ok(ANN)),
        (
            "§4.1.6: made later",
            json!({ "iat": now() + hour }),
            Err("not-yet-valid"),
        ),
    ];
    for (what, more, expected) in cases {
        let answer = site.bearer(&key.sign_as(None, &but(claims(), &more))).await;
        match expected {
            Ok(principal) => site.admits(what, &answer, principal).await,
            Err(detail) => {
                site.refuses(what, &answer, detail).await;
                // RFC 6750 §3.1.
                let challenge = answer.header("www-authenticate").unwrap();
                assert!(challenge.starts_with("Bearer ") && challenge.contains("error=\"invalid_token\""));
            }
        }
    }
}

#[tokio::test]
async fn a_token_stands_in_its_field_alone() {
    let key = Key::new("k");
    let (site, _server) = site(&key, "[ { s: [] } ]").await;
    let token = key.token();
    let field = format!("Bearer {token}");
    let json = ("content-type", "application/json");
    // RFC 6750 §2.2 and §2.3 are other places for it, of which the first is a body's and the second ends in logs.
    for (what, path, fields, detail) in [
        (
            "in the query",
            format!("/agent?access_token={token}"),
            vec![json],
            "missing",
        ),
        (
            "twice",
            "/agent".to_owned(),
            vec![json, ("authorization", &*field), ("authorization", &*field)],
            "ambiguous",
        ),
        (
            "by another scheme",
            "/agent".to_owned(),
            vec![json, ("authorization", &token)],
            "missing",
        ),
    ] {
        let answer = call(site.address(), "POST", &path, &fields, &send("1", "hi")).await;
        site.refuses(what, &answer, detail).await;
    }
    // RFC 6750 §3: who shows nothing is told of no error.
    let nothing = call(site.address(), "POST", "/agent", &[json], &send("1", "hi")).await;
    site.refuses("nothing", &nothing, "missing").await;
    assert!(!nothing.header("www-authenticate").unwrap().contains("error"));
    site.hides(&token).await;
    assert!(site.agent.received().is_empty());
}

#[tokio::test]
async fn scopes_are_those_of_the_requirement() {
    let key = Key::new("k");
    let (site, _server) = site(&key, "[ { s: [ read, write ] }, { s: [ admin ] } ]").await;
    for (scope, status) in [
        (json!("read write"), 200),
        (json!("x write read"), 200),
        (json!("admin"), 200),
        (json!("read"), 403),
        (json!("readwrite"), 403),
        (json!("READ WRITE"), 403),
        (json!(null), 403),
    ] {
        let answer = site
            .bearer(&key.sign_as(None, &but(claims(), &json!({ "scope": scope }))))
            .await;
        assert_eq!(answer.status, status, "{scope}: {}", answer.text());
        if status == 403 {
            // RFC 6750 §3.1.
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
        }
    }
}
