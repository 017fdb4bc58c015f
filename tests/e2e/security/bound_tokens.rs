//! Tokens that are bound to their sender (RFC 8705 §3, RFC 9449), on streams, in every binding and where they are exchanged.

use std::sync::Mutex;

use a2a_gateway::a2a::model::Request as Asked;
use a2a_gateway::a2a::{Generation, Operation, grpc};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::ISSUER;
use super::oauth2_dpop::{bound, header, proven};
use super::token_server::{field, token, url};
use super::tokens::{Key, but, claims, now};
use crate::harness::agent::{Agent, Received, Reply, task_event, tasks};
use crate::harness::authority::Authority;
use crate::harness::client::{Rpc, open, open_grpc, read};
use crate::harness::{Answer, Gateway, call, eventually, send};

/// Its streams tell of their task and stay open.
pub async fn agent() -> Agent {
    let (open, tasks) = (Mutex::new(Vec::new()), tasks(|| "t".to_owned()));
    Agent::start(move |received: &Received| {
        let method = received.json()["method"].as_str().unwrap_or_default().to_owned();
        if !matches!(&*method, "SendStreamingMessage" | "SubscribeToTask") {
            return tasks(received);
        }
        let (events, feed) = mpsc::channel(4);
        events.try_send(Some(task_event("1", "t"))).expect("room");
        open.lock().expect("streams").push(events);
        Reply::Stream(feed)
    })
    .await
}

pub fn streaming() -> String {
    send("1", "x").replace("SendMessage", "SendStreamingMessage")
}

/// Somebody with a certificate.
struct Holder {
    sender: SendRequest<Full<Bytes>>,
    /// Of the DER, SHA-256.
    fingerprint: Vec<u8>,
}

impl Holder {
    async fn connect(authority: &Authority, gateway: &Gateway, issued: &(String, String)) -> Self {
        let der = CertificateDer::from_pem_slice(issued.0.as_bytes()).unwrap();
        let fingerprint = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
        let stream = TcpStream::connect(gateway.address).await.unwrap();
        let name = ServerName::try_from("a.example").unwrap();
        let connector = authority.client_with(&["h2"], issued);
        let stream = connector.connect(name, stream).await.unwrap();
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            fingerprint: fingerprint.as_ref().to_vec(),
        }
    }

    fn token(&self, key: &Key) -> String {
        let thumbprint = URL_SAFE_NO_PAD.encode(&self.fingerprint);
        key.sign_as(None, &but(claims(), &json!({ "cnf": { "x5t#S256": thumbprint } })))
    }

    async fn ask(&self, token: Option<&str>, body: String) -> Response<Incoming> {
        let mut request = Request::post("https://a.example/agent")
            .header("content-type", "application/json")
            .header("a2a-version", "1.0");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        self.sender.clone().send_request(request).await.unwrap()
    }
}

/// A gateway that asks for certificates and believes the key's tokens.
async fn secure(authority: &Authority, key: &Key, agent: &Agent, security: &str) -> Gateway {
    let folder = authority.folder.path();
    std::fs::write(folder.join("keys.json"), key.set().to_string()).unwrap();
    std::fs::write(folder.join("revoked.yaml"), "{}").unwrap();
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
revocations_file: revoked.yaml
security_schemes:
  token: {{ type: http, scheme: bearer, issuer: "{ISSUER}", audience: [ a2a ], jwks_file: keys.json }}
  machine: {{ type: mutualTLS, allow: [ "dns:*.example" ] }}
security: {security}
agents:
  - {{ name: agent, path: /agent, policy: {{ task_owner: none }}, upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }} }}
"#,
        agent.address
    );
    let gateway = Gateway::start_in(&yaml, folder).await;
    gateway.ready().await;
    gateway
}

async fn revoked(gateway: &Gateway, count: f64) {
    let counted = "a2a_gateway_streams_revoked_total{reason=\"credential-not-valid\"}";
    eventually("the streams that ended are counted", || async {
        gateway.metric(counted).await == count
    })
    .await;
}

/// Whoever showed it is nobody afterwards, though the connection lasts.
async fn ends_with_its_certificate(security: &str, is_by_token: bool) {
    let (authority, key, agent) = (Authority::new(), Key::new("k"), agent().await);
    let gateway = secure(&authority, &key, &agent, security).await;
    let lasting = Holder::connect(&authority, &gateway, &authority.issue("lasting.example")).await;
    let ending = authority.issue_until("ending.example", now() + 3);
    let ending = Holder::connect(&authority, &gateway, &ending).await;
    let shown = |holder: &Holder| is_by_token.then(|| holder.token(&key));
    let goes_on = lasting.ask(shown(&lasting).as_deref(), streaming()).await;
    assert_eq!(goes_on.status(), 200);
    let ends = ending.ask(shown(&ending).as_deref(), streaming()).await;
    assert_eq!(ends.status(), 200);
    assert_eq!(read(ends).await, (task_event("1", "t"), false));
    revoked(&gateway, 1.0).await;
    let after = ending.ask(shown(&ending).as_deref(), send("1", "x")).await;
    assert_eq!(after.status(), 401);
    let other = lasting.ask(shown(&lasting).as_deref(), send("1", "x")).await;
    assert_eq!(other.status(), 200);
    drop(goes_on);
}

/// RFC 5280 §4.1.2.5.
#[tokio::test]
async fn a_stream_ends_with_the_certificate_of_its_caller() {
    ends_with_its_certificate("[ { machine: [] } ]", false).await;
}

/// RFC 8705 §3: the token is good with the certificate alone.
#[tokio::test]
async fn a_stream_ends_with_the_certificate_that_its_token_is_bound_to() {
    ends_with_its_certificate("[ { token: [] } ]", true).await;
}

#[tokio::test]
async fn a_token_is_not_good_with_a_certificate_that_is_revoked() {
    let (authority, key, agent) = (Authority::new(), Key::new("k"), agent().await);
    let gateway = secure(&authority, &key, &agent, "[ { token: [] } ]").await;
    let ann = Holder::connect(&authority, &gateway, &authority.issue("ann.example")).await;
    let bob = Holder::connect(&authority, &gateway, &authority.issue("bob.example")).await;
    let (of_ann, of_bob) = (ann.token(&key), bob.token(&key));
    let stream = ann.ask(Some(&of_ann), streaming()).await;
    assert_eq!(stream.status(), 200);
    let digits: String = ann.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = format!("certificates: [ \"{digits}\" ]");
    std::fs::write(authority.folder.path().join("revoked.yaml"), list).unwrap();
    assert!(gateway.reload().await);
    assert!(!read(stream).await.1, "its stream ends");
    revoked(&gateway, 1.0).await;
    assert_eq!(ann.ask(Some(&of_ann), send("1", "x")).await.status(), 401);
    assert_eq!(bob.ask(Some(&of_bob), send("1", "x")).await.status(), 200);
    let records = gateway.access(3).await;
    assert!(
        records.iter().any(|record| record["detail"] == "revoked"),
        "{records:?}"
    );
}

/// A gateway whose agent stands at the root, where every binding is; `upstream` are more of its keys.
async fn rooted(folder: &std::path::Path, key: &Key, agent: &Agent, upstream: &str) -> Gateway {
    std::fs::write(folder.join("keys.json"), key.set().to_string()).unwrap();
    let yaml = format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }}, {{ name: other, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  token: {{ type: http, scheme: bearer, issuer: "{ISSUER}", audience: [ a2a ], jwks_file: keys.json }}
security: [ {{ token: [] }} ]
agents:
  - {{ name: agent, path: /, policy: {{ task_owner: none }}, upstream: {{ endpoints: [ {{ url: "http://{}/" }} ], {upstream} }} }}
"#,
        agent.address
    );
    let gateway = Gateway::start_in(&yaml, folder).await;
    gateway.ready().await;
    gateway
}

fn proof(sender: &Key, token: &str, path: &str) -> String {
    let claims = but(
        proven(token),
        &json!({ "htu": format!("https://gateway.example{path}") }),
    );
    sender.sign_with(&header(sender), &claims)
}

async fn post(gateway: &Gateway, path: &str, token: &str, proof: &str, body: &str) -> Answer {
    let token = format!("DPoP {token}");
    let fields = [
        ("authorization", &*token),
        ("dpop", proof),
        ("content-type", "application/json"),
        ("a2a-version", "1.0"),
    ];
    call(gateway.address, "POST", path, &fields, body).await
}

/// RFC 9449 §4.2: `htu` is the URL of the binding's own request, so that a proof for one is none for another.
#[tokio::test]
async fn a_proof_is_for_one_binding_and_one_listener_takes_it_for_all() {
    let (folder, agent) = (tempfile::tempdir().unwrap(), agent().await);
    let (issuer, sender) = (Key::new("k"), Key::new("sender"));
    let gateway = rooted(folder.path(), &issuer, &agent, "").await;
    let token = bound(&issuer, &sender);
    let path = grpc::path(Generation::V1_0, Operation::Send).unwrap();
    let params =
        json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } }).to_string();
    let message = grpc::write_request(Generation::V1_0, Asked::read(Operation::Send, &params).unwrap()).unwrap();
    let rpc = async |proof: &str| {
        let token = format!("DPoP {token}");
        let fields = [("authorization", &*token), ("dpop", proof)];
        let body = grpc::frame(&message).unwrap().to_vec();
        Rpc::read(open_grpc(gateway.address, path, &fields, body).await)
            .await
            .status()
    };
    let good = proof(&sender, &token, path);
    assert_eq!(rpc(&good).await, 0);
    assert_eq!(rpc(&good).await, 16, "once");
    assert_eq!(rpc(&proof(&sender, &token, "/")).await, 16, "a proof for JSON-RPC");

    let good = proof(&sender, &token, "/message:send");
    assert_eq!(
        post(&gateway, "/message:send", &token, &good, &params).await.status,
        200
    );
    assert_eq!(
        post(&gateway, "/message:send", &token, &good, &params).await.status,
        401
    );
    let other = proof(&sender, &token, path);
    assert_eq!(
        post(&gateway, "/message:send", &token, &other, &params).await.status,
        401
    );

    let good = proof(&sender, &token, "/");
    assert_eq!(post(&gateway, "/", &token, &good, &send("1", "x")).await.status, 200);
    let listener = gateway.listener("other").expect("another listener");
    let bearer = format!("DPoP {token}");
    let fields = [
        ("authorization", &*bearer),
        ("dpop", &*good),
        ("content-type", "application/json"),
    ];
    let again = call(listener, "POST", "/", &fields, &send("1", "x")).await;
    assert_eq!(again.status, 401, "{}", again.text());
    assert_eq!(agent.received().len(), 3);
}

#[tokio::test]
async fn a_stream_goes_on_by_its_proof_until_the_token_ends() {
    let (folder, agent) = (tempfile::tempdir().unwrap(), agent().await);
    let (issuer, sender) = (Key::new("k"), Key::new("sender"));
    let gateway = rooted(folder.path(), &issuer, &agent, "").await;
    let lasting = bound(&issuer, &sender);
    let ending = issuer.sign_as(
        None,
        &but(
            claims(),
            &json!({ "exp": now() + 3, "cnf": { "jkt": super::oauth2_dpop::thumbprint(&sender) } }),
        ),
    );
    let stream = async |token: &str, proof: &str| {
        let token = format!("DPoP {token}");
        let fields = [
            ("authorization", &*token),
            ("dpop", proof),
            ("content-type", "application/json"),
            ("a2a-version", "1.0"),
        ];
        open(gateway.address, "POST", "/", &fields, &streaming()).await
    };
    let used = proof(&sender, &lasting, "/");
    let goes_on = stream(&lasting, &used).await;
    assert_eq!(goes_on.status(), 200);
    assert_eq!(
        stream(&lasting, &used).await.status(),
        401,
        "a stream takes a proof of its own"
    );
    let ends = stream(&ending, &proof(&sender, &ending, "/")).await;
    assert_eq!(ends.status(), 200);
    assert_eq!(read(ends).await, (task_event("1", "t"), false));
    revoked(&gateway, 1.0).await;
    drop(goes_on);
}

/// RFC 8693 §2.1: the token is exchanged, its proof is nobody's but the gateway's.
#[tokio::test]
async fn a_bound_token_is_exchanged_for_who_proves_to_be_its_sender() {
    let (folder, agent) = (tempfile::tempdir().unwrap(), agent().await);
    let (issuer, sender, thief) = (Key::new("k"), Key::new("sender"), Key::new("thief"));
    let server = Agent::start(|_| Reply::Json(token("exchanged", 600))).await;
    let upstream = format!(
        "credential: {{ token_exchange: {{ token_url: \"{}\", client_id: g, client_secret: s }} }}",
        url(&server)
    );
    let gateway = rooted(folder.path(), &issuer, &agent, &upstream).await;
    let shown = bound(&issuer, &sender);
    let forged = proof(&thief, &shown, "/");
    assert_eq!(post(&gateway, "/", &shown, &forged, &send("1", "x")).await.status, 401);
    assert!(server.received().is_empty(), "nothing of a stolen token goes anywhere");
    for _ in 0..2 {
        let good = proof(&sender, &shown, "/");
        let answer = post(&gateway, "/", &shown, &good, &send("1", "x")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let asked = server.received();
    assert_eq!(asked.len(), 1, "one exchange a token");
    assert_eq!(field(&asked[0], "subject_token").as_deref(), Some(&*shown));
    assert!(asked[0].field("dpop").is_none());
    for received in agent.received() {
        assert_eq!(received.field("authorization"), Some("Bearer exchanged"));
        assert_eq!(received.field("dpop"), None);
    }
}
