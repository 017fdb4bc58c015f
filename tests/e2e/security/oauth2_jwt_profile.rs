//! RFC 9068 §2 and §4: what an access token must be where `profile: at+jwt` asks for one.

use serde_json::{Value, json};

use super::tokens::{Key, but, claims, now};
use super::{ISSUER, Server, Site};

const ANN: &str = "jwt:https://login.example.com#ann";

async fn site(server: &Server, profile: &str) -> Site {
    let scheme = format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_url: \"{}\", profile: {profile}",
        server.url("/keys")
    );
    Site::start(&scheme).await
}

fn access_token() -> Value {
    but(claims(), &json!({ "client_id": "app", "iat": now(), "jti": "1" }))
}

#[tokio::test]
async fn an_access_token_says_so_and_has_every_claim() {
    let key = Key::new("k");
    let server = Server::start().await;
    server.says("/keys", 200, key.set());
    let site = site(&server, "at+jwt").await;
    for kind in ["at+jwt", "AT+JWT", "application/at+jwt"] {
        let answer = site.bearer(&key.sign_as(Some(kind), &access_token())).await;
        site.admits(kind, &answer, ANN).await;
    }
    for kind in ["JWT", "id_token", "application/jwt", "jwt+at", ""] {
        let answer = site.bearer(&key.sign_as(Some(kind), &access_token())).await;
        site.refuses(kind, &answer, "wrong-type").await;
    }
    for (claim, detail) in [
        ("iss", "missing-claim"),
        ("exp", "missing-claim"),
        ("aud", "missing-claim"),
        ("sub", "missing-claim"),
        ("client_id", "missing-claim"),
        ("iat", "missing-claim"),
        ("jti", "missing-claim"),
    ] {
        let claims = but(access_token(), &json!({ claim: null }));
        let answer = site.bearer(&key.sign_as(Some("at+jwt"), &claims)).await;
        site.refuses(claim, &answer, detail).await;
    }
    for (more, detail) in [
        (json!({ "client_id": "" }), "malformed"),
        (json!({ "jti": 1 }), "malformed"),
        (json!({ "iat": "now" }), "malformed"),
        (json!({ "iat": now() + 600 }), "not-yet-valid"),
        (json!({ "aud": "other" }), "wrong-audience"),
    ] {
        let answer = site
            .bearer(&key.sign_as(Some("at+jwt"), &but(access_token(), &more)))
            .await;
        site.refuses(&more.to_string(), &answer, detail).await;
    }
}

#[tokio::test]
async fn the_default_takes_either() {
    let key = Key::new("k");
    let server = Server::start().await;
    server.says("/keys", 200, key.set());
    let site = site(&server, "jwt").await;
    for (kind, claims) in [("JWT", claims()), ("at+jwt", access_token()), ("at+jwt", claims())] {
        let answer = site.bearer(&key.sign_as(Some(kind), &claims)).await;
        site.admits(kind, &answer, ANN).await;
    }
    let answer = site.bearer(&key.sign_as(Some("secevent+jwt"), &claims())).await;
    site.refuses("another kind", &answer, "wrong-type").await;
}
