//! OpenID Connect Discovery 1.0 §4 and RFC 8414 §3: the issuer's keys found through its own document.

use serde_json::{Value, json};

use super::tokens::Key;
use super::{ISSUER, Server, Site};
use crate::harness::{eventually, get};

const ANN: &str = "jwt:https://login.example.com#ann";
const DOCUMENT: &str = "/document";
const KEYS: &str = "/keys";

/// `more` are keys of the scheme.
fn scheme(server: &Server, more: &str) -> String {
    format!(
        "type: openIdConnect, openIdConnectUrl: \"{}\", issuer: \"{ISSUER}\", audience: [ a2a ], {more}",
        server.url(DOCUMENT)
    )
}

fn document(server: &Server) -> Value {
    json!({ "issuer": ISSUER, "jwks_uri": server.url(KEYS), "token_endpoint": "https://elsewhere.example/token" })
}

async fn provider(key: &Key) -> Server {
    let server = Server::start().await;
    server.says(DOCUMENT, 200, document(&server));
    server.says(KEYS, 200, key.set());
    server
}

#[tokio::test]
async fn keys_are_where_the_document_says() {
    let key = Key::new("a");
    let server = provider(&key).await;
    let site = Site::start(&scheme(&server, "")).await;
    site.admits("a token", &site.bearer(&key.token()).await, ANN).await;
    let other = Key::new("a");
    site.refuses("forged", &site.bearer(&other.token()).await, "bad-signature")
        .await;
    assert_eq!((server.asked(DOCUMENT), server.asked(KEYS)), (1, 1));
    let shown = get(site.gateway.admin, "/config").await.json();
    assert_eq!(shown["security_schemes"]["s"]["openIdConnectUrl"], server.url(DOCUMENT));
}

/// RFC 8414 §3: an authorisation server of plain OAuth has such a document too.
#[tokio::test]
async fn the_metadata_of_an_authorisation_server_will_do() {
    let key = Key::new("a");
    let server = provider(&key).await;
    let scheme = format!(
        "type: oauth2, flows: {{ clientCredentials: {{ tokenUrl: \"https://t\", scopes: {{}} }} }}, oauth2MetadataUrl: \"{}\", issuer: \"{ISSUER}\", audience: [ a2a ]",
        server.url(DOCUMENT)
    );
    let site = Site::start(&scheme).await;
    site.admits("a token", &site.bearer(&key.token()).await, ANN).await;
}

/// OpenID Connect Discovery 1.0 §4.3, RFC 8414 §3.3: of a document that does not name the configured issuer nothing is used.
#[tokio::test]
async fn a_document_that_cannot_be_believed_leads_nowhere() {
    let key = Key::new("a");
    let server = Server::start().await;
    server.says(KEYS, 200, key.set());
    let keys = server.url(KEYS);
    let with = |issuer: &str, keys: &str| json!({ "issuer": issuer, "jwks_uri": keys }).to_string();
    let far = |keys: &str| with(ISSUER, keys);
    let port = keys.trim_start_matches("http://127.0.0.1");
    for (what, status, body) in [
        ("another issuer", 200, with("https://evil.example", &keys)),
        ("almost this one", 200, with(&format!("{ISSUER}/"), &keys)),
        ("in capitals", 200, with("https://LOGIN.example.com", &keys)),
        ("no issuer", 200, json!({ "jwks_uri": keys }).to_string()),
        (
            "several",
            200,
            json!({ "issuer": [ISSUER], "jwks_uri": keys }).to_string(),
        ),
        (
            "twice",
            200,
            format!(r#"{{"issuer":"https://evil.example","issuer":"{ISSUER}","jwks_uri":"{keys}"}}"#),
        ),
        (
            "two places",
            200,
            format!(r#"{{"issuer":"{ISSUER}","jwks_uri":"https://a.example","jwks_uri":"{keys}"}}"#),
        ),
        ("no place", 200, json!({ "issuer": ISSUER }).to_string()),
        ("a place in the clear", 200, far("http://192.0.2.1/keys")),
        ("a file", 200, far("file:///etc/passwd")),
        ("a user", 200, far(&format!("http://127.0.0.1@evil.example{port}"))),
        ("a path", 200, far(KEYS)),
        ("a page", 200, "<html>".to_owned()),
        ("a list", 200, "[]".to_owned()),
        ("no such document", 404, document(&server).to_string()),
        ("a redirect", 302, document(&server).to_string()),
        ("a server that fails", 500, document(&server).to_string()),
        (
            "too much",
            200,
            format!("{}{}", document(&server), " ".repeat(1024 * 1024)),
        ),
    ] {
        server.says(DOCUMENT, status, body);
        let before = server.asked(DOCUMENT);
        let site = Site::unready(&scheme(&server, ""), "").await;
        eventually("a look at the document", || async { server.asked(DOCUMENT) > before }).await;
        site.cannot_tell(what, &site.bearer(&key.token()).await).await;
        assert_eq!(get(site.gateway.admin, "/ready").await.status, 503, "{what}");
        assert!(site.gateway.shutdown().await, "{what}");
        assert_eq!(server.asked(KEYS), 0, "{what}");
    }
}

#[tokio::test]
async fn a_document_that_begins_to_lie_changes_nothing_and_a_good_one_is_followed_again() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let server = provider(&old).await;
    let evil = Key::new("evil");
    server.says("/evil", 200, evil.set());
    let site = Site::start(&scheme(&server, "jwks_refresh: 1s, jwks_cooldown: 1s")).await;
    site.admits("before", &site.bearer(&old.token()).await, ANN).await;
    server.says(
        DOCUMENT,
        200,
        json!({ "issuer": "https://evil.example", "jwks_uri": server.url("/evil") }),
    );
    let before = server.asked(DOCUMENT);
    eventually("two looks at the lie", || async {
        server.asked(DOCUMENT) >= before + 2
    })
    .await;
    site.admits("known keys go on", &site.bearer(&old.token()).await, ANN)
        .await;
    site.refuses("the liar's", &site.bearer(&evil.token()).await, "unknown-key-id")
        .await;
    assert_eq!(server.asked("/evil"), 0);
    // The keys have moved.
    server.says("/elsewhere", 200, new.set());
    server.says(
        DOCUMENT,
        200,
        json!({ "issuer": ISSUER, "jwks_uri": server.url("/elsewhere") }),
    );
    eventually("the new key is known", || async {
        site.bearer(&new.token()).await.status == 200
    })
    .await;
    site.refuses("withdrawn", &site.bearer(&old.token()).await, "unknown-key-id")
        .await;
}

#[tokio::test]
async fn a_flood_of_unknown_key_ids_costs_the_provider_nothing() {
    let key = Key::new("a");
    let server = provider(&key).await;
    let site = Site::start(&scheme(&server, "jwks_cooldown: 1h")).await;
    let stranger = Key::new("b");
    for _ in 0..50 {
        site.refuses(
            "an unknown key",
            &site.bearer(&stranger.token()).await,
            "unknown-key-id",
        )
        .await;
    }
    assert_eq!((server.asked(DOCUMENT), server.asked(KEYS)), (1, 1));
}

/// A document that cannot be had is no reason to miss a rotation.
#[tokio::test]
async fn a_rotation_is_seen_while_the_document_is_away() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let server = provider(&old).await;
    let site = Site::start(&scheme(&server, "jwks_refresh: 1h, jwks_cooldown: 1s")).await;
    site.admits("before", &site.bearer(&old.token()).await, ANN).await;
    server.says(DOCUMENT, 500, "");
    server.says(KEYS, 200, new.set());
    eventually("the new key is known", || async {
        site.bearer(&new.token()).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn known_keys_go_on_without_the_provider() {
    let key = Key::new("a");
    let server = provider(&key).await;
    let site = Site::start(&scheme(&server, "jwks_refresh: 1s, jwks_cooldown: 1s")).await;
    let stranger = Key::new("b");
    server.says(DOCUMENT, 500, "");
    server.says(KEYS, 500, "");
    let before = server.asked(DOCUMENT);
    eventually("two failed refreshes", || async {
        server.asked(DOCUMENT) >= before + 2
    })
    .await;
    drop(server);
    site.admits("a token", &site.bearer(&key.token()).await, ANN).await;
    site.refuses(
        "an unknown key",
        &site.bearer(&stranger.token()).await,
        "unknown-key-id",
    )
    .await;
}
