//! Open streams when the configuration changes: they go on, unless what permitted them is gone.

use std::fmt::Write as _;
use std::sync::Mutex;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{broadcast, mpsc};

use super::drain::request;
use super::reload::replace;
use super::reload_agents::{Desk, yaml};
use crate::faults::JSON;
use crate::harness::agent::{Agent, Reply, task_event};
use crate::harness::authority::{Authority, CLIENT, TLS_13};
use crate::harness::client::{open, open_http2, read};
use crate::harness::{KEY, eventually, send};

/// An agent that answers every streaming call with one event, and then with what the test sends to all.
pub(super) struct Streams {
    pub agent: Agent,
    events: Mutex<Option<broadcast::Sender<String>>>,
}

impl Streams {
    pub async fn start() -> Self {
        let (events, _) = broadcast::channel::<String>(16);
        let all = events.clone().downgrade();
        let agent = Agent::start(move |received| {
            if received.json()["method"] != "SendStreamingMessage" {
                let id = received.id();
                return Reply::Json(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"id":"t","contextId":"c","status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#
                ));
            }
            let (chunks, out) = mpsc::channel(16);
            let all = all.upgrade().map(|all| all.subscribe());
            tokio::spawn(async move {
                let _gone = chunks.send(Some(task_event("1", "t"))).await;
                let Some(mut all) = all else { return };
                while let Ok(text) = all.recv().await {
                    if chunks.send(Some(text)).await.is_err() {
                        return;
                    }
                }
            });
            Reply::Stream(out)
        })
        .await;
        Self {
            agent,
            events: Mutex::new(Some(events)),
        }
    }

    pub fn send(&self, text: &str) {
        let events = self.events.lock().unwrap().clone().expect("not ended");
        events.send(text.to_owned()).unwrap();
    }

    /// Every stream ends clean.
    pub fn end(&self) {
        self.events.lock().unwrap().take();
    }
}

fn hash(key: &str) -> String {
    let mut hash = "sha256:".to_owned();
    for byte in digest(&SHA256, key.as_bytes()).as_ref() {
        write!(hash, "{byte:02x}").unwrap();
    }
    hash
}

fn keys(keys: &[&str]) -> String {
    let lines = keys
        .iter()
        .map(|key| format!("  - {{ id: {key}, hash: \"{}\" }}\n", hash(key)));
    format!("keys:\n{}", lines.collect::<String>())
}

/// The scheme of the file replaced, and what the agent asks for.
fn with_scheme(text: &str, scheme: &str) -> String {
    let lines = text
        .lines()
        .map(|line| if line.starts_with("  key:") { scheme } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// A stream of one kind goes on, another ends broken: by the record, the metric and the agent's own connections.
async fn ended(desk: &Desk, reason: &str, count: usize) {
    let counted = format!("a2a_gateway_streams_revoked_total{{reason=\"{reason}\"}}");
    eventually("streams are ended and counted", || async {
        desk.gateway.metric(&counted).await == count as f64
    })
    .await;
    let records = desk.gateway.access(count).await;
    let revoked = records.iter().filter(|record| record["outcome"] == "revoked");
    let details: Vec<_> = revoked
        .map(|record| record["detail"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(details, vec![reason; count], "{records:?}");
}

#[tokio::test]
async fn the_stream_of_a_removed_key_ends_broken_and_that_of_another_goes_on() {
    let streams = Streams::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.yaml"), keys(&["stays", "goes"])).unwrap();
    let text = yaml(&[("a", &[streams.agent.address], "")], "");
    let scheme = "  key: { type: apiKey, in: header, name: X-API-Key, keys_file: keys.yaml }";
    let desk = Desk::in_folder(folder, &with_scheme(&text, scheme)).await;
    let address = desk.gateway.address;
    let of =
        |key: &'static str| async move { open(address, "POST", "/a", &[JSON, ("x-api-key", key)], &request()).await };
    let (stays, goes) = (of("stays").await, of("goes").await);
    let goes2 = open_http2(address, "/a", &[JSON, ("x-api-key", "goes")], &request()).await;
    replace(desk.folder.path(), "keys.yaml", &keys(&["other", "stays"]));
    assert_eq!(read(goes).await, (task_event("1", "t"), false));
    assert_eq!(read(goes2).await, (task_event("1", "t"), false));
    ended(&desk, "credential-not-valid", 2).await;
    eventually("the agent is told", || async { streams.agent.open() <= 2 }).await;
    streams.send(&task_event("1", "t"));
    streams.end();
    assert_eq!(read(stays).await, (task_event("1", "t").repeat(2), true));
}

#[tokio::test]
async fn streams_of_a_removed_agent_end_broken() {
    let (streams, others) = (Streams::start().await, Streams::start().await);
    let (a, b) = (streams.agent.address, others.agent.address);
    let desk = Desk::of(&yaml(&[("a", &[a], ""), ("b", &[b], "")], "")).await;
    let address = desk.gateway.address;
    let at =
        |path: &'static str| async move { open(address, "POST", path, &[JSON, ("x-api-key", KEY)], &request()).await };
    let (goes, stays) = (at("/a").await, at("/b").await);
    desk.apply(&yaml(&[("b", &[b], "")], "")).await;
    assert_eq!(read(goes).await, (task_event("1", "t"), false));
    ended(&desk, "agent-removed", 1).await;
    others.end();
    assert_eq!(read(stays).await, (task_event("1", "t"), true));
}

#[tokio::test]
async fn a_stream_ends_when_its_caller_would_not_be_admitted_any_more() {
    const OTHER: &str = "  other: { type: apiKey, in: header, name: X-Other, keys: [ { id: o, hash: \"HASH\" } ] }";
    let streams = Streams::start().await;
    let at = |more: &str| {
        let text = yaml(&[("a", &[streams.agent.address], more)], "");
        text.replace(
            "\nsecurity: [",
            &format!("\n{}\nsecurity: [", OTHER.replace("HASH", &hash("o"))),
        )
    };
    let desk = Desk::of(&at("")).await;
    let address = desk.gateway.address;
    let stream = || async {
        open(
            address,
            "POST",
            "/a",
            &[JSON, ("x-api-key", KEY), ("x-other", "o")],
            &request(),
        )
        .await
    };
    let by_key = stream().await;
    // One of two is enough, and it is the one that was shown.
    desk.apply(&at("security: [ { other: [] }, { key: [] } ]")).await;
    desk.apply(&at("security: []")).await;
    desk.apply(&at("security: [ { other: [] } ]")).await;
    assert_eq!(read(by_key).await, (task_event("1", "t"), false));
    ended(&desk, "requirement-not-met", 1).await;
    let by_other = stream().await;
    let renamed = at("security: [ { renamed: [] } ]").replace("  other:", "  renamed:");
    desk.apply(&renamed).await;
    assert_eq!(
        read(by_other).await,
        (task_event("1", "t"), false),
        "the scheme is gone"
    );
    eventually("it is counted", || async {
        desk.gateway
            .metric("a2a_gateway_streams_revoked_total{reason=\"credential-not-valid\"}")
            .await
            == 1.0
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_never_pauses_ends_too() {
    let streams = Streams::start().await;
    let a = streams.agent.address;
    let desk = Desk::of(&yaml(&[("a", &[a], "")], "")).await;
    let stream = open(
        desk.gateway.address,
        "POST",
        "/a",
        &[JSON, ("x-api-key", KEY)],
        &request(),
    )
    .await;
    let events = streams.events.lock().unwrap().clone().unwrap();
    let busy = tokio::spawn(async move {
        while events.send(task_event("1", "t")).is_ok() {
            tokio::task::yield_now().await;
        }
    });
    let reading = tokio::spawn(read(stream));
    desk.apply(
        &yaml(&[("a", &[a], "security: [ { late: [] } ]")], "")
            .replace("  key: {", "  late: {")
            .replace("security: [ { key: [] } ]\n", "security: [ { late: [] } ]\n"),
    )
    .await;
    let (text, clean) = reading.await.unwrap();
    assert!(!clean && text.starts_with(&task_event("1", "t")));
    busy.abort();
}

#[tokio::test]
async fn streams_and_calls_on_a_connection_whose_certificate_is_revoked_end() {
    let authority = Authority::new();
    let path = |name: &str| authority.folder.path().join(name);
    std::fs::write(path("clients.crl"), authority.revoked(&[CLIENT + 1])).unwrap();
    let streams = Streams::start().await;
    let text = yaml(&[("a", &[streams.agent.address], "")], "");
    let at = |name: &str| path(name).display().to_string();
    let tls = format!(
        "\"127.0.0.1:0\", tls: {{ certificate: {}, private_key: {}, client_certificates: optional, client_ca: {}, client_crls: [ {} ] }} }} ]\nadmin",
        at("a.example.crt"),
        at("a.example.key"),
        at("ca.pem"),
        at("clients.crl")
    );
    let text = text.replace("\"127.0.0.1:0\" } ]\nadmin", &tls);
    let text = with_scheme(&text, "  key: { type: mutualTLS, allow: [ \"dns:client.example\" ] }");
    let desk = Desk::of(&text).await;
    let client = authority.client(TLS_13, &["h2"], Some(&authority));
    let stream = TcpStream::connect(desk.gateway.address).await.unwrap();
    let stream = client
        .connect(ServerName::try_from("a.example").unwrap(), stream)
        .await
        .unwrap();
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let call = |body: String| {
        let request = Request::post("https://a.example/a").header("content-type", "application/json");
        let mut sender = sender.clone();
        async move {
            sender
                .send_request(request.body(Full::new(Bytes::from(body))).unwrap())
                .await
                .unwrap()
        }
    };
    assert_eq!(call(send("1", "x")).await.status(), 200);
    let open = call(request()).await;
    // Another list, and the client is not on it.
    replace(
        authority.folder.path(),
        "clients.crl",
        &authority.revoked(&[CLIENT + 2]),
    );
    assert!(desk.gateway.reload().await);
    assert_eq!(call(send("1", "x")).await.status(), 200);
    replace(authority.folder.path(), "clients.crl", &authority.revoked(&[CLIENT]));
    assert!(desk.gateway.reload().await);
    assert_eq!(read(open).await, (task_event("1", "t"), false));
    let refused = call(send("1", "x")).await;
    assert_eq!(refused.status(), 401);
    assert!(refused.headers().contains_key("www-authenticate"));
    eventually("it is counted", || async {
        desk.gateway
            .metric("a2a_gateway_streams_revoked_total{reason=\"certificate-not-trusted\"}")
            .await
            == 1.0
    })
    .await;
    let records = desk.gateway.access(4).await;
    assert_eq!(records[3]["detail"], "certificate-not-trusted", "{records:?}");
}
