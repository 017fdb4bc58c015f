//! Callers of the envelope protocol who show their credential in a message: the same verifiers, a token of the gateway, and
//! nothing of a body before that but what an `authentication` message needs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use argon2::{Algorithm, Argon2, CustomizedPasswordHasher, Params, Version};
use jsonwebtoken::EncodingKey;
use jsonwebtoken::jwk::Jwk;
use rcgen::KeyPair;
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::envelope::{config, gateway, message, refused, responds, say};
use super::ownership::{ANN, BOB};
use crate::harness::agent::Agent;
use crate::harness::authority::{Authority, TLS_13};
use crate::harness::client::{PATIENCE, raw};
use crate::harness::{Answer, Gateway, call};

const JSON: (&str, &str) = ("content-type", "application/json");

fn authentication(id: &str, sender: &str, content: Value) -> Value {
    message(id, sender, "agent_auth", "authentication", content)
}

fn by_key(id: &str, sender: &str, key: &str) -> Value {
    authentication(
        id,
        sender,
        json!({"auth_method": "api_key", "credentials": {"api_key": key}}),
    )
}

fn request(id: &str, sender: &str) -> Value {
    message(id, sender, "agent_yard", "request", json!({}))
}

/// With nothing in the head.
async fn bare(gateway: &Gateway, message: &Value) -> Answer {
    call(gateway.address, "POST", "/envelope", &[JSON], &message.to_string()).await
}

async fn with_token(gateway: &Gateway, token: &str, message: &Value) -> Answer {
    let token = format!("Envelope {token}");
    let fields = [JSON, ("authorization", token.as_str())];
    call(gateway.address, "POST", "/envelope", &fields, &message.to_string()).await
}

#[track_caller]
fn token(answer: &Answer) -> String {
    let said = answer.json();
    assert_eq!(
        (answer.status, &said["message_type"]),
        (200, &json!("response")),
        "{said}"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let data = &said["content"]["data"];
    assert_eq!(data["token_type"], "Envelope");
    data["token"].as_str().expect("a token").to_owned()
}

async fn start(settings: &str) -> (Agent, Agent, Gateway) {
    let (harbour, yard) = (Agent::start(responds).await, Agent::start(responds).await);
    let gateway = gateway(&[harbour.address], &[yard.address], settings).await;
    (harbour, yard, gateway)
}

#[tokio::test]
async fn a_credential_in_a_message_gives_a_token_for_its_sender() {
    let (_harbour, yard, gateway) = start("").await;
    let answer = bare(&gateway, &by_key("m1", "guest_1", ANN)).await;
    assert_eq!(answer.json()["content"]["data"]["expires_in"], 900);
    let ann = token(&answer);
    let said = with_token(&gateway, &ann, &request("m2", "guest_1")).await;
    assert_eq!(said.status, 200, "{}", said.text());
    let received = yard.received().pop().expect("a message");
    assert_eq!(
        (received.field("authorization"), received.field("x-api-key")),
        (None, None)
    );
    // Ann may send as the pilot, too, but did not authenticate as such.
    refused(
        &with_token(&gateway, &ann, &request("m3", "agent_pilot")).await,
        403,
        "sender_foreign",
    );
    let bob = token(&bare(&gateway, &by_key("m1", "guest_1", BOB)).await);
    assert_eq!(
        with_token(&gateway, &bob, &request("m2", "guest_1")).await.status,
        200,
        "Bob's m2"
    );
    refused(
        &with_token(&gateway, &ann, &request("m2", "guest_1")).await,
        200,
        "message_duplicate",
    );
    let records = gateway.access(4).await;
    let principals: Vec<_> = records.iter().map(|record| record["principal"].clone()).collect();
    assert_eq!(principals[..2], ["key:ann", "key:ann"]);
    let log = json!(records).to_string();
    for secret in [ANN, BOB, &ann, &bob] {
        assert!(!log.contains(secret), "{log}");
    }
    assert_eq!(
        gateway
            .metric("a2a_gateway_envelope_entries{table=\"authentications\"}")
            .await,
        2.0
    );
    assert_eq!(yard.received().len(), 2);
}

#[tokio::test]
async fn an_authentication_never_goes_on() {
    let (harbour, yard, gateway) = start("").await;
    for (number, to) in ["agent_yard", "agent_harbour", "agent_nobody"].into_iter().enumerate() {
        let content = json!({"auth_method": "api_key", "credentials": {"api_key": ANN}});
        let said = message(&format!("m{number}"), "agent_pilot", to, "authentication", content);
        token(&bare(&gateway, &said).await);
        let mut again = said.clone();
        again["message_id"] = json!(format!("n{number}"));
        token(&say(&gateway, ANN, &again).await);
    }
    assert_eq!((harbour.received().len(), yard.received().len()), (0, 0));
}

#[tokio::test]
async fn what_is_shown_must_be_good() {
    let (harbour, yard, gateway) = start("").await;
    let token_of = |text: &str| json!({"auth_method": "token", "credentials": {"token": text}});
    for (what, said) in [
        ("a wrong key", by_key("m", "agent_pilot", "wrong")),
        ("an empty key", by_key("m", "agent_pilot", "")),
        ("a key with a line end", by_key("m", "agent_pilot", "test-key\r\nx: y")),
        (
            "a token nobody verifies",
            authentication("m", "agent_pilot", token_of(ANN)),
        ),
        (
            "no credential",
            authentication("m", "agent_pilot", json!({"auth_method": "token"})),
        ),
        ("sealed", authentication("m", "agent_pilot", json!("sealed"))),
        ("another message", request("m", "agent_pilot")),
        ("none", json!({})),
    ] {
        let answer = bare(&gateway, &said).await;
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        refused(&answer, 401, "unauthenticated");
        assert!(answer.header("www-authenticate").is_some(), "{what}");
    }
    refused(
        &bare(&gateway, &by_key("m", "agent_pilot", BOB)).await,
        403,
        "sender_foreign",
    );
    for forged in ["", "x", &"A".repeat(43)] {
        refused(
            &with_token(&gateway, forged, &request("m", "agent_pilot")).await,
            401,
            "unauthenticated",
        );
    }
    let both = [JSON, ("authorization", "Envelope x"), ("x-api-key", ANN)];
    let answer = call(
        gateway.address,
        "POST",
        "/envelope",
        &both,
        &request("m", "agent_pilot").to_string(),
    )
    .await;
    refused(&answer, 401, "unauthenticated");
    assert_eq!((harbour.received().len(), yard.received().len()), (0, 0));
}

#[tokio::test]
async fn of_somebody_unknown_little_is_read() {
    let (_harbour, _yard, gateway) = start("authentication: { body_bytes: 2KiB }").await;
    let padded = |length: usize| {
        let mut said = by_key(&format!("m{length}"), "agent_pilot", ANN);
        said["metadata"] = json!({"x": ""});
        let left = length - said.to_string().len();
        said["metadata"]["x"] = json!("x".repeat(left));
        assert_eq!(said.to_string().len(), length);
        said
    };
    token(&bare(&gateway, &padded(2048)).await);
    refused(&bare(&gateway, &padded(2049)).await, 413, "body_too_large");
    token(&say(&gateway, ANN, &padded(2049)).await);
    // Something wrong in the head is refused before anything is read.
    for shown in ["x-api-key: wrong", "authorization: Envelope forged"] {
        let head = format!(
            "POST /envelope HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n{shown}\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n"
        );
        let answer = raw(gateway.address, head.as_bytes(), Duration::from_secs(2)).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
}

#[tokio::test]
async fn of_somebody_unknown_few_messages_are_read() {
    let (_harbour, yard, gateway) = start("authentication: { rate: 3/h }").await;
    for number in 0..3 {
        refused(
            &bare(&gateway, &by_key("m", "agent_pilot", &format!("guess-{number}"))).await,
            401,
            "unauthenticated",
        );
    }
    let limited = bare(&gateway, &by_key("m", "agent_pilot", ANN)).await;
    refused(&limited, 429, "rate_limited");
    assert!(limited.header("retry-after").is_some());
    assert_eq!(
        say(&gateway, ANN, &request("m", "agent_pilot")).await.status,
        200,
        "who is known goes on"
    );
    assert_eq!(yard.received().len(), 1);
}

#[tokio::test]
async fn at_most_so_many_tokens_are_held() {
    let (_harbour, _yard, gateway) = start("authentication: { most: 2 }").await;
    let mut tokens = Vec::new();
    for number in 0..3 {
        tokens.push(token(
            &bare(&gateway, &by_key(&format!("m{number}"), "agent_pilot", ANN)).await,
        ));
        assert_eq!(
            gateway
                .metric("a2a_gateway_envelope_evictions_total{table=\"authentications\"}")
                .await,
            if number == 2 { 1.0 } else { 0.0 }
        );
    }
    for (number, (token, good)) in tokens.iter().zip([false, true, true]).enumerate() {
        let answer = with_token(&gateway, token, &request(&format!("r{number}"), "agent_pilot")).await;
        assert_eq!(answer.status == 200, good, "{number}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_token_ends_with_the_credential_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let private = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).expect("a key");
    let algorithm = jsonwebtoken::Algorithm::ES256;
    let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&private, algorithm).expect("a key")).expect("JSON");
    jwk["kid"] = "k".into();
    std::fs::write(folder.path().join("jwks.json"), json!({"keys": [jwk]}).to_string()).expect("a file");
    let cheap = Params::new(8, 1, 1, None).expect("parameters");
    let hash = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
        .hash_password_customized(b"pass:word", b"0123456789abcdef", Some("argon2id"), None, cheap)
        .expect("a hash");
    let users = format!("users: [ {{ name: carl, password_hash: \"{hash}\" }} ]\n");
    std::fs::write(folder.path().join("users.yaml"), users).expect("a file");

    let (harbour, yard) = (Agent::start(responds).await, Agent::start(responds).await);
    let yaml = config(&[harbour.address], &[yard.address], "")
        .replace(
            "security_schemes:\n",
            "security_schemes:\n  jwt: { type: http, scheme: bearer, issuer: \"https://login.example\", audience: [ a2a ], jwks_file: jwks.json }\n  basic: { type: http, scheme: basic, users_file: users.yaml }\n",
        )
        .replace("security: [ { key: [] } ]", "security: [ { key: [] }, { jwt: [] }, { basic: [] } ]")
        .replace(
            "callers: [ \"key:ann\", \"key:bob\" ]",
            "callers: [ \"jwt:*#dora\", \"basic:carl\", \"key:ann\" ]",
        );
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, &yaml).expect("a file");
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;

    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let jwt = |seconds: u64| {
        let mut header = jsonwebtoken::Header::new(algorithm);
        header.kid = Some("k".to_owned());
        let claims = json!({"iss": "https://login.example", "aud": "a2a", "sub": "dora", "exp": now + seconds});
        jsonwebtoken::encode(&header, &claims, &private).expect("a token")
    };
    let shown = |id: &str, content: Value| authentication(id, "guest_1", content);
    let by_jwt = |seconds: u64| json!({"auth_method": "token", "credentials": {"token": jwt(seconds)}});
    let short = bare(&gateway, &shown("m1", by_jwt(300))).await;
    let left = short.json()["content"]["data"]["expires_in"]
        .as_u64()
        .expect("a number");
    assert!(left <= 300, "never longer than the JWT: {left}");
    let long = bare(&gateway, &shown("m2", by_jwt(5000))).await;
    assert_eq!(long.json()["content"]["data"]["expires_in"], 900);
    let dora = token(&long);
    assert_eq!(with_token(&gateway, &dora, &request("m3", "guest_1")).await.status, 200);
    let basic = json!({"auth_method": "basic", "credentials": {"username": "carl", "password": "pass:word"}});
    let carl = token(&bare(&gateway, &shown("m4", basic)).await);
    assert_eq!(with_token(&gateway, &carl, &request("m5", "guest_1")).await.status, 200);
    let ann = token(&bare(&gateway, &by_key("m6", "guest_1", ANN)).await);
    // A credential that the next configuration does not know ends its tokens; others, and sessions, go on.
    std::fs::write(&file, yaml.replace("{ id: ann,", "{ id: anna,")).expect("a file");
    assert!(gateway.reload().await);
    refused(
        &with_token(&gateway, &ann, &request("m7", "guest_1")).await,
        401,
        "unauthenticated",
    );
    assert_eq!(with_token(&gateway, &dora, &request("m8", "guest_1")).await.status, 200);
    refused(
        &with_token(&gateway, &dora, &request("m3", "guest_1")).await,
        200,
        "message_duplicate",
    );
}

/// The answer to one message over TLS.
async fn over_tls(gateway: &Gateway, client: &TlsConnector, field: &str, message: &Value) -> String {
    let body = message.to_string();
    let stream = TcpStream::connect(gateway.address).await.expect("the gateway listens");
    let name = ServerName::try_from("a.example").expect("a name");
    let mut stream = client.connect(name, stream).await.expect("a handshake");
    let request = format!(
        "POST /envelope HTTP/1.1\r\nhost: a.example\r\ncontent-type: application/json\r\nconnection: close\r\n{field}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    let _end = read.expect("in time");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_token_does_not_stand_for_a_client_certificate() {
    let authority = Authority::new();
    let (harbour, yard) = (Agent::start(responds).await, Agent::start(responds).await);
    let yaml = config(&[harbour.address], &[yard.address], "")
        .replace(
            "listeners: [ { name: public, address: \"127.0.0.1:0\" } ]",
            "listeners: [ { name: public, address: \"127.0.0.1:0\", tls: { certificate: a.example.crt, private_key: a.example.key, client_certificates: optional, client_ca: ca.pem } } ]",
        )
        .replace(
            "security_schemes:\n",
            "security_schemes:\n  machine: { type: mutualTLS, allow: [ \"dns:client.example\" ] }\n",
        )
        .replace("security: [ { key: [] } ]", "security: [ { key: [], machine: [] } ]")
        .replace("callers: [ \"key:ann\" ]", "callers: [ \"*\" ]");
    let gateway = Gateway::start_in(&yaml, authority.folder.path()).await;
    gateway.ready().await;
    let [with, without] = [Some(&authority), None].map(|shown| authority.client(TLS_13, &["http/1.1"], shown));
    let shown = by_key("m1", "agent_pilot", ANN);
    let refused = over_tls(&gateway, &without, "", &shown).await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "both are needed: {refused}");
    let answer = over_tls(&gateway, &with, "", &shown).await;
    let (_, token) = answer.split_once("\"token\":\"").unwrap_or_else(|| panic!("{answer}"));
    let field = format!("authorization: Envelope {}\r\n", &token[..43]);
    for (client, id, status) in [(&with, "m2", 200), (&without, "m3", 401), (&with, "m4", 200)] {
        let answer = over_tls(&gateway, client, &field, &request(id, "agent_pilot")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{id}: {answer}");
    }
    assert_eq!(yard.received().len(), 2);
}
