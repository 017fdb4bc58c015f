//! RFC 9449 §4.3 and §7: tokens bound to a key, and the proof of it that comes with each request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::tokens::{Key, but, claims, now};
use super::{ISSUER, Server, Site};
use crate::harness::client::call_http2;
use crate::harness::{Answer, call, send};

const ANN: &str = "jwt:https://login.example.com#ann";
/// `public_url` and the path of the agent.
const URL: &str = "https://gateway.example/agent";

async fn site(server: &Server, key: &Key, more: &str) -> Site {
    Site::start(&scheme(server, key, more)).await
}

fn scheme(server: &Server, key: &Key, more: &str) -> String {
    server.says("/keys", 200, key.set());
    format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_url: \"{}\"{more}",
        server.url("/keys")
    )
}

pub fn digest(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    URL_SAFE_NO_PAD.encode(digest)
}

/// RFC 7638 §3.
pub fn thumbprint(sender: &Key) -> String {
    let jwk = sender.public();
    let [x, y] = ["x", "y"].map(|name| jwk[name].as_str().unwrap().to_owned());
    digest(&format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#))
}

/// A token that is bound to the sender's key.
pub fn bound(issuer: &Key, sender: &Key) -> String {
    let cnf = json!({ "cnf": { "jkt": thumbprint(sender) } });
    issuer.sign_as(None, &but(claims(), &cnf))
}

pub fn header(sender: &Key) -> Value {
    json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": sender.public() })
}

/// Of a good proof, with an id of its own.
pub fn proven(token: &str) -> Value {
    json!({
        "jti": fastrand::u64(..).to_string(), "htm": "POST", "htu": URL, "iat": now(), "ath": digest(token),
    })
}

fn proof(sender: &Key, token: &str) -> String {
    sender.sign_with(&header(sender), &proven(token))
}

/// A call with a token and these proofs.
async fn show(site: &Site, scheme: &str, token: &str, proofs: &[&str]) -> Answer {
    show_at(site, "/agent", scheme, token, proofs).await
}

async fn show_at(site: &Site, path: &str, scheme: &str, token: &str, proofs: &[&str]) -> Answer {
    let authorization = format!("{scheme} {token}");
    let mut fields = vec![
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("a2a-version", "1.0"),
    ];
    fields.extend(proofs.iter().map(|proof| ("dpop", *proof)));
    call(site.address(), "POST", path, &fields, &send("1", "hi")).await
}

fn challenges(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("www-authenticate").iter();
    all.map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_proof_of_the_key_admits_once() {
    let (server, issuer, sender) = (Server::start().await, Key::new("k"), Key::new("sender"));
    let site = site(&server, &issuer, "").await;
    let token = bound(&issuer, &sender);
    for scheme in ["DPoP", "dpop"] {
        let good = proof(&sender, &token);
        let answer = show(&site, scheme, &token, &[&good]).await;
        site.admits(scheme, &answer, ANN).await;
        // §11.1, also of a token that is remembered.
        let again = show(&site, scheme, &token, &[&good]).await;
        site.refuses("the same proof", &again, "replayed-proof").await;
        assert!(
            challenges(&again)[1].contains("error=\"invalid_dpop_proof\""),
            "{:?}",
            challenges(&again)
        );
    }
    let other = bound(&issuer, &sender);
    let used = proven(&token);
    let first = sender.sign_with(&header(&sender), &used);
    site.admits("an id", &show(&site, "DPoP", &token, &[&first]).await, ANN)
        .await;
    // With another token and another signature the id is the same.
    let second = sender.sign_with(&header(&sender), &but(used, &json!({ "ath": digest(&other) })));
    let answer = show(&site, "DPoP", &other, &[&second]).await;
    site.refuses("the id again", &answer, "replayed-proof").await;
    for received in site.agent.received() {
        assert_eq!(received.field("authorization"), None, "the token stays here");
        assert_eq!(received.field("dpop"), None, "and the proof");
    }
    site.hides(&token).await;
}

/// §7.2: a bound token is no bearer token, and one that is not bound gains nothing by a proof.
#[tokio::test]
async fn neither_kind_of_token_passes_for_the_other() {
    let (server, issuer, sender) = (Server::start().await, Key::new("k"), Key::new("sender"));
    let site = site(&server, &issuer, "").await;
    let (token, plain) = (bound(&issuer, &sender), issuer.token());
    site.admits("a plain token", &site.bearer(&plain).await, ANN).await;
    let answer = site.bearer(&token).await;
    site.refuses("without a proof", &answer, "not-bound").await;
    assert!(challenges(&answer)[1].contains("error=\"invalid_token\""));
    let answer = show(&site, "Bearer", &token, &[&proof(&sender, &token)]).await;
    site.refuses("as a bearer token", &answer, "not-bound").await;
    let answer = show(&site, "DPoP", &plain, &[&proof(&sender, &plain)]).await;
    site.refuses("a plain one with a proof", &answer, "not-bound").await;
    assert_eq!(site.agent.received().len(), 1, "nothing else came to the agent");
}

/// §4.3, whose number stands with each.
#[tokio::test]
async fn every_bad_proof_is_refused() {
    let (server, issuer) = (Server::start().await, Key::new("k"));
    let (sender, thief) = (Key::new("sender"), Key::new("thief"));
    let site = site(&server, &issuer, "").await;
    let token = bound(&issuer, &sender);
    let with = |more: Value| sender.sign_with(&header(&sender), &but(proven(&token), &more));
    let headed = |more: Value| sender.sign_with(&but(header(&sender), &more), &proven(&token));
    let jwk = |more: Value| headed(json!({ "jwk": but(sender.public(), &more) }));
    let good = proof(&sender, &token);
    let unsigned = good.rsplit_once('.').unwrap().0.to_owned();
    let cases = [
        ("2: no JWT", "x".to_owned(), "bad-proof"),
        ("2: two parts", unsigned.clone(), "bad-proof"),
        ("2: four parts", format!("{good}.x"), "bad-proof"),
        ("2: 9 KiB", "x".repeat(9 * 1024), "bad-proof"),
        ("3: no id", with(json!({ "jti": null })), "bad-proof"),
        ("3: an empty id", with(json!({ "jti": "" })), "bad-proof"),
        ("3: an id that is a number", with(json!({ "jti": 1 })), "bad-proof"),
        ("3: no method", with(json!({ "htm": null })), "bad-proof"),
        ("3: no URL", with(json!({ "htu": null })), "bad-proof"),
        ("3: no time", with(json!({ "iat": null })), "bad-proof"),
        ("3: a time that is a text", with(json!({ "iat": "now" })), "bad-proof"),
        ("3: no key", headed(json!({ "jwk": null })), "bad-proof"),
        ("4: no type", headed(json!({ "typ": null })), "bad-proof"),
        ("4: another type", headed(json!({ "typ": "JWT" })), "bad-proof"),
        ("4: an access token", token.clone(), "bad-proof"),
        ("5: no algorithm", headed(json!({ "alg": null })), "bad-proof"),
        ("5: none", headed(json!({ "alg": "none" })), "bad-proof"),
        (
            "5: none at all",
            format!("{}.", headless("none", &sender, &token)),
            "bad-proof",
        ),
        ("5: symmetric", headed(json!({ "alg": "HS256" })), "bad-proof"),
        (
            "5: of another kind of key",
            headed(json!({ "alg": "RS256" })),
            "bad-proof",
        ),
        ("6: no signature", format!("{unsigned}."), "bad-proof"),
        (
            "6: somebody else's signature",
            thief.sign_with(&header(&sender), &proven(&token)),
            "bad-proof",
        ),
        ("7: with its private half", jwk(json!({ "d": "AAAA" })), "bad-proof"),
        (
            "7: a symmetric key",
            headed(json!({ "jwk": { "kty": "oct", "k": "AAAA" } })),
            "bad-proof",
        ),
        ("7: for encryption", jwk(json!({ "use": "enc" })), "bad-proof"),
        ("7: a text", headed(json!({ "jwk": "key" })), "bad-proof"),
        ("8: another method", with(json!({ "htm": "GET" })), "bad-proof"),
        ("8: a method in lower case", with(json!({ "htm": "post" })), "bad-proof"),
        (
            "9: another path",
            with(json!({ "htu": format!("{URL}/v1") })),
            "bad-proof",
        ),
        (
            "9: another host",
            with(json!({ "htu": "https://evil.example/agent" })),
            "bad-proof",
        ),
        (
            "9: another scheme",
            with(json!({ "htu": "http://gateway.example/agent" })),
            "bad-proof",
        ),
        (
            "9: another port",
            with(json!({ "htu": "https://gateway.example:444/agent" })),
            "bad-proof",
        ),
        (
            "9: a name before the host",
            with(json!({ "htu": "https://a@gateway.example/agent" })),
            "bad-proof",
        ),
        ("9: a path alone", with(json!({ "htu": "/agent" })), "bad-proof"),
        (
            "9: the listener's address",
            with(json!({ "htu": format!("http://{}/agent", site.address()) })),
            "bad-proof",
        ),
        ("11: too old", with(json!({ "iat": now() - 120 })), "bad-proof"),
        ("11: of the future", with(json!({ "iat": now() + 120 })), "bad-proof"),
        (
            "11: expired by itself",
            with(json!({ "exp": now() - 120 })),
            "bad-proof",
        ),
        ("12: no token", with(json!({ "ath": null })), "bad-proof"),
        (
            "12: another token",
            with(json!({ "ath": digest(&issuer.token()) })),
            "bad-proof",
        ),
        ("12: another key", proof(&thief, &token), "not-bound"),
        ("critical extensions", headed(json!({ "crit": ["exp"] })), "bad-proof"),
    ];
    for (what, proof, detail) in &cases {
        let answer = show(&site, "DPoP", &token, &[proof]).await;
        site.refuses(what, &answer, detail).await;
        let error = match *detail {
            "bad-proof" => "error=\"invalid_dpop_proof\"",
            _ => "error=\"invalid_token\"",
        };
        assert!(
            challenges(&answer)[1].contains(error),
            "{what}: {:?}",
            challenges(&answer)
        );
    }
    // 1: not more than one, and one at all.
    for proofs in [&[][..], &[good.as_str(), good.as_str()], &[good.as_str(), "x"]] {
        let answer = show(&site, "DPoP", &token, proofs).await;
        site.refuses(&format!("1: {} proofs", proofs.len()), &answer, "bad-proof")
            .await;
    }
    // Only what was refused for something else may come again: none of them has used its id up.
    site.admits("a good one", &show(&site, "DPoP", &token, &[&good]).await, ANN)
        .await;
    assert_eq!(site.agent.received().len(), 1);
}

fn headless(algorithm: &str, sender: &Key, token: &str) -> String {
    let header = but(header(sender), &json!({ "alg": algorithm }));
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encoded(&header), encoded(&proven(token)))
}

/// §4.3: URLs are compared in normal form, without query and fragment, and by what callers are told.
#[tokio::test]
async fn urls_may_be_written_in_other_ways() {
    let (server, issuer, sender) = (Server::start().await, Key::new("k"), Key::new("sender"));
    let site = site(&server, &issuer, "").await;
    let token = bound(&issuer, &sender);
    let with = |url: &str| {
        let claims = but(proven(&token), &json!({ "htu": url }));
        sender.sign_with(&header(&sender), &claims)
    };
    for url in [
        "HTTPS://GATEWAY.example/agent",
        "https://gateway.example:443/agent",
        "https://gateway.example:/agent",
        "https://gateway.example/%61gent",
        "https://gateway.example/agent?x=1",
        "https://gateway.example/agent#x",
    ] {
        let answer = show(&site, "DPoP", &token, &[&with(url)]).await;
        site.admits(url, &answer, ANN).await;
    }
    let answer = show_at(&site, "/agent?y=2", "DPoP", &token, &[&with(URL)]).await;
    site.admits("a query", &answer, ANN).await;
    let answer = show_at(&site, "/agent/", "DPoP", &token, &[&with(URL)]).await;
    site.refuses("another path", &answer, "bad-proof").await;
    let answer = show_at(&site, "/agent/", "DPoP", &token, &[&with(&format!("{URL}/"))]).await;
    site.admits("the same path", &answer, ANN).await;
    let authorization = format!("DPoP {token}");
    let proof = with(URL);
    let fields = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("dpop", &proof),
    ];
    let answer = call_http2(site.address(), "POST", "/agent", &fields, &send("1", "hi")).await;
    site.admits("over HTTP/2", &answer, ANN).await;
}

#[tokio::test]
async fn a_constraint_takes_bound_tokens_alone() {
    let (server, issuer, sender) = (Server::start().await, Key::new("k"), Key::new("sender"));
    for (constraint, schemes) in [("dpop", &["DPoP"][..]), ("required", &["Bearer", "DPoP"])] {
        let more = format!(", sender_constraint: {constraint}, dpop_lifetime: 5s");
        let site = site(&server, &issuer, &more).await;
        let token = bound(&issuer, &sender);
        let answer = site.bearer(&issuer.token()).await;
        site.refuses("a plain token", &answer, "not-bound").await;
        let shown = challenges(&answer);
        assert_eq!(shown.len(), schemes.len(), "{shown:?}");
        for (challenge, scheme) in shown.iter().zip(schemes) {
            assert!(challenge.starts_with(&format!("{scheme} realm=")), "{challenge}");
        }
        let answer = show(&site, "DPoP", &token, &[&proof(&sender, &token)]).await;
        site.admits("a bound one", &answer, ANN).await;
        let old = but(proven(&token), &json!({ "iat": now() - 50 }));
        let answer = show(&site, "DPoP", &token, &[&sender.sign_with(&header(&sender), &old)]).await;
        site.refuses("older than lifetime and leeway", &answer, "bad-proof")
            .await;
    }
}

/// What was taken is remembered over a reload that makes another verifier.
#[tokio::test]
async fn a_reload_forgets_no_proof() {
    let (server, issuer, sender) = (Server::start().await, Key::new("k"), Key::new("sender"));
    server.says("/keys", 200, issuer.set());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, issuer.set().to_string()).unwrap();
    let scheme = format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_file: \"{}\"",
        file.display()
    );
    let site = Site::start(&scheme).await;
    let token = bound(&issuer, &sender);
    let shown = proof(&sender, &token);
    let answer = show(&site, "DPoP", &token, &[&shown]).await;
    site.admits("before", &answer, ANN).await;
    // Another content, the same key.
    std::fs::write(&file, format!("{}\n", issuer.set())).unwrap();
    assert!(site.gateway.reload().await);
    let answer = show(&site, "DPoP", &token, &[&shown]).await;
    site.refuses("after", &answer, "replayed-proof").await;
    let answer = show(&site, "DPoP", &token, &[&proof(&sender, &token)]).await;
    site.admits("another proof", &answer, ANN).await;
}

/// §6.2: what a server says of a token, whose type is `DPoP` then.
#[tokio::test]
async fn a_server_that_is_asked_may_call_a_token_bound() {
    let (server, sender) = (Server::start().await, Key::new("sender"));
    let said = json!({
        "active": true, "sub": "ann", "exp": now() + 600, "token_type": "DPoP", "cnf": { "jkt": thumbprint(&sender) },
    });
    server.says("/introspect", 200, said);
    let site = Site::start(&format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", introspection: {{ url: \"{}\", client_id: c, client_secret: s, cache_ttl: 1h }}",
        server.url("/introspect")
    ))
    .await;
    for _ in 0..2 {
        let answer = show(&site, "DPoP", "opaque", &[&proof(&sender, "opaque")]).await;
        site.admits("with a proof", &answer, ANN).await;
        let answer = site.bearer("opaque").await;
        site.refuses("without", &answer, "not-bound").await;
    }
    assert_eq!(
        server.asked("/introspect"),
        1,
        "the token is remembered, the proof is not"
    );
}
