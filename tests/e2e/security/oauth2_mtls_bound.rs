//! RFC 8705 §3: tokens bound to the client certificate of the connection that shows them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::tokens::{Key, but, claims, now};
use super::{ISSUER, Server};
use crate::harness::agent::{Agent, tasks};
use crate::harness::authority::{Authority, TLS_13};
use crate::harness::client::PATIENCE;
use crate::harness::{Gateway, eventually, send};

/// Somebody with a certificate.
struct Holder {
    connector: TlsConnector,
    thumbprint: String,
}

impl Holder {
    fn new(authority: &Authority) -> Self {
        let issued = authority.issue("client.example");
        let der = CertificateDer::from_pem_slice(issued.0.as_bytes()).unwrap();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
        Self {
            connector: authority.client_with(&["http/1.1"], &issued),
            thumbprint: URL_SAFE_NO_PAD.encode(digest),
        }
    }

    /// Of a token for this certificate (§3.1).
    fn confirmation(&self) -> Value {
        json!({ "x5t#S256": self.thumbprint })
    }
}

struct Place {
    gateway: Gateway,
    agent: Agent,
}

impl Place {
    async fn start(authority: &Authority, scheme: &str) -> Self {
        let agent = Agent::start(tasks(|| "t".to_owned())).await;
        let yaml = format!(
            r#"
public_url: https://a.example
listeners:
  - name: public
    address: "127.0.0.1:0"
    tls: {{ certificate: a.example.crt, private_key: a.example.key, client_certificates: optional, client_ca: ca.pem }}
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  s: {{ type: http, scheme: bearer, issuer: "{ISSUER}", {scheme} }}
security: [ {{ s: [] }} ]
agents:
  - {{ name: agent, path: /agent, upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }} }}
"#,
            agent.address
        );
        let gateway = Gateway::start_in(&yaml, authority.folder.path()).await;
        gateway.ready().await;
        Self { gateway, agent }
    }

    async fn with_keys(authority: &Authority, server: &Server, key: &Key, more: &str) -> Self {
        server.says("/keys", 200, key.set());
        let scheme = format!("audience: [ a2a ], jwks_url: \"{}\"{more}", server.url("/keys"));
        Self::start(authority, &scheme).await
    }

    /// A call on a connection of its own, with its bytes.
    async fn show(&self, connector: &TlsConnector, token: &str) -> String {
        let body = send("1", "hi");
        let stream = TcpStream::connect(self.gateway.address)
            .await
            .expect("the gateway listens");
        let name = ServerName::try_from("a.example").expect("a name");
        let mut stream = connector.connect(name, stream).await.expect("a handshake");
        let request = format!(
            "POST /agent HTTP/1.1\r\nhost: a.example\r\ncontent-type: application/json\r\na2a-version: 1.0\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        let _end = read.expect("in time");
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn admits(&self, what: &str, connector: &TlsConnector, token: &str) {
        let before = self.agent.received().len();
        let answer = self.show(connector, token).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{what}: {answer}");
        assert_eq!(self.agent.received().len(), before + 1, "{what}");
    }

    async fn refuses(&self, what: &str, connector: &TlsConnector, token: &str, detail: &str) {
        let before = self.agent.received().len();
        let answer = self.show(connector, token).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{what}: {answer}");
        assert!(answer.contains("error=\"invalid_token\""), "{what}: {answer}");
        assert_eq!(self.agent.received().len(), before, "{what}");
        let id = answer
            .split("x-request-id: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next());
        let id = id.expect("an id").to_owned();
        let log = self.gateway.log();
        let find = || {
            log.records()
                .into_iter()
                .find(|record| record["request"] == id.as_str())
        };
        eventually("the record is written", || async { find().is_some() }).await;
        assert_eq!(find().unwrap()["detail"], detail, "{what}");
    }
}

fn token(key: &Key, confirmation: &Value) -> String {
    key.sign_as(None, &but(claims(), &json!({ "cnf": confirmation })))
}

#[tokio::test]
async fn a_bound_token_is_good_with_its_certificate_alone() {
    let (authority, server, key) = (Authority::new(), Server::start().await, Key::new("k"));
    let (ann, eve) = (Holder::new(&authority), Holder::new(&authority));
    let nobody = authority.client(TLS_13, &["http/1.1"], None);
    let place = Place::with_keys(&authority, &server, &key, "").await;
    let bound = token(&key, &ann.confirmation());
    // In turns: a token that is remembered is asked all the same.
    for _ in 0..2 {
        place.admits("its certificate", &ann.connector, &bound).await;
        place.refuses("another one", &eve.connector, &bound, "not-bound").await;
        place.refuses("none", &nobody, &bound, "not-bound").await;
    }
    place.admits("a token that is not bound", &nobody, &key.token()).await;
    place.admits("whatever is shown", &eve.connector, &key.token()).await;
}

/// What a token says of its sender is understood, or the token is refused.
#[tokio::test]
async fn what_cannot_be_checked_admits_nobody() {
    let (authority, server, key) = (Authority::new(), Server::start().await, Key::new("k"));
    let ann = Holder::new(&authority);
    let place = Place::with_keys(&authority, &server, &key, "").await;
    let standard = base64::engine::general_purpose::STANDARD.encode([0xff; 32]);
    for (confirmation, detail) in [
        (json!({}), "unknown-binding"),
        (json!({ "kid": "1" }), "unknown-binding"),
        (json!({ "x5t": ann.thumbprint }), "unknown-binding"),
        (json!({ "jwk": { "kty": "oct", "k": "AAAA" } }), "unknown-binding"),
        (json!("x"), "malformed"),
        (json!([]), "malformed"),
        (json!({ "x5t#S256": "" }), "malformed"),
        (json!({ "x5t#S256": 1 }), "malformed"),
        (json!({ "x5t#S256": [ann.thumbprint] }), "malformed"),
        (json!({ "x5t#S256": &ann.thumbprint[1..] }), "malformed"),
        (json!({ "x5t#S256": format!("{}=", ann.thumbprint) }), "malformed"),
        (json!({ "x5t#S256": standard }), "malformed"),
        // Both have to be shown.
        (
            json!({ "x5t#S256": ann.thumbprint, "jkt": ann.thumbprint }),
            "not-bound",
        ),
    ] {
        let what = confirmation.to_string();
        place
            .refuses(&what, &ann.connector, &token(&key, &confirmation), detail)
            .await;
    }
    // RFC 7800 §3.1: what is not known is ignored beside what is.
    let more = json!({ "x5t#S256": ann.thumbprint, "other": 1 });
    place
        .admits("more than is known", &ann.connector, &token(&key, &more))
        .await;
}

#[tokio::test]
async fn a_constraint_takes_bound_tokens_alone() {
    let (authority, server, key) = (Authority::new(), Server::start().await, Key::new("k"));
    let ann = Holder::new(&authority);
    for constraint in ["mtls", "required"] {
        let more = format!(", sender_constraint: {constraint}");
        let place = Place::with_keys(&authority, &server, &key, &more).await;
        place
            .admits(constraint, &ann.connector, &token(&key, &ann.confirmation()))
            .await;
        place
            .refuses("a plain token", &ann.connector, &key.token(), "not-bound")
            .await;
    }
    let place = Place::with_keys(&authority, &server, &key, ", sender_constraint: dpop").await;
    let answer = place.show(&ann.connector, &token(&key, &ann.confirmation())).await;
    assert!(
        answer.starts_with("HTTP/1.1 401 "),
        "another binding is not the one: {answer}"
    );
}

/// RFC 8705 §3.2: the same of what a server says of a token.
#[tokio::test]
async fn a_server_that_is_asked_may_call_a_token_bound() {
    let (authority, server) = (Authority::new(), Server::start().await);
    let (ann, eve) = (Holder::new(&authority), Holder::new(&authority));
    let said = json!({ "active": true, "sub": "ann", "exp": now() + 600, "cnf": ann.confirmation() });
    server.says("/introspect", 200, said);
    let scheme = format!(
        "introspection: {{ url: \"{}\", client_id: c, client_secret: s, cache_ttl: 1h }}",
        server.url("/introspect")
    );
    let place = Place::start(&authority, &scheme).await;
    for _ in 0..2 {
        place.admits("its certificate", &ann.connector, "opaque").await;
        place
            .refuses("another one", &eve.connector, "opaque", "not-bound")
            .await;
    }
    assert_eq!(server.asked("/introspect"), 1);
}
