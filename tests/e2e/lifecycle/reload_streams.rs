//! Open streams when the configuration changes: they go on, unless what permitted them is gone.

use std::fmt::Write as _;
use std::sync::Mutex;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::{broadcast, mpsc};

use super::drain::request;
use super::reload::replace;
use super::reload_agents::{Desk, yaml};
use crate::faults::JSON;
use crate::harness::agent::{Agent, Reply, task_event};
use crate::harness::authority::{Authority, CLIENT, TLS_13};
use crate::harness::client::{PATIENCE, open, open_http2, read};
use crate::harness::{KEY, call, eventually, send};
use crate::security::token_server::Issuer;

/// An agent that answers every streaming call with one event of a task, and then with what the test sends to all. The task is
/// called as the message says, or `t`: those of two callers must be two.
pub(super) struct Streams {
    pub agent: Agent,
    events: Mutex<Option<broadcast::Sender<String>>>,
}

impl Streams {
    pub async fn start() -> Self {
        let (events, _) = broadcast::channel::<String>(16);
        let all = events.clone().downgrade();
        let agent = Agent::start(move |received| {
            if received.json()["method"] == "SendMessage" {
                let id = received.id();
                return Reply::Json(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"id":"t","contextId":"c","status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#
                ));
            }
            let (chunks, out) = mpsc::channel(16);
            let all = all.upgrade().map(|all| all.subscribe());
            let call = received.json();
            let text = call["params"]["message"]["parts"][0]["text"].as_str().unwrap_or("x");
            let first = task_event("1", if text == "x" { "t" } else { text });
            tokio::spawn(async move {
                let _gone = chunks.send(Some(first)).await;
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

/// The stream behind its first event: from there on it is the configuration that ends it.
pub(super) async fn begun(mut response: Response<Incoming>) -> Response<Incoming> {
    let frame = tokio::time::timeout(PATIENCE, response.body_mut().frame()).await;
    let first = frame.expect("in time").expect("an event").expect("whole").into_data();
    assert!(first.expect("data").starts_with(b"data: "));
    response
}

/// What opens the stream of a task.
fn opening(task: &str) -> String {
    request().replace("\"x\"", &format!("\"{task}\""))
}

pub(super) const CUT: (String, bool) = (String::new(), false);

/// A stream of one kind goes on, another ends broken: by the record, the metric and the agent's own connections.
pub(super) async fn ended(desk: &Desk, reason: &str, count: usize) {
    let counted = format!("a2a_gateway_streams_revoked_total{{reason=\"{reason}\"}}");
    eventually("streams are ended and counted", || async {
        desk.gateway.metric(&counted).await == count as f64
    })
    .await;
    eventually("the records say so", || async {
        let records = desk.gateway.log().records();
        let revoked = records.iter().filter(|record| record["outcome"] == "revoked");
        revoked.filter(|record| record["detail"] == reason).count() == count
    })
    .await;
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
    let of = |key: &'static str| async move {
        begun(open(address, "POST", "/a", &[JSON, ("x-api-key", key)], &opening(key)).await).await
    };
    let (stays, goes) = (of("stays").await, of("goes").await);
    let goes2 = begun(open_http2(address, "/a", &[JSON, ("x-api-key", "goes")], &opening("goes")).await).await;
    replace(desk.folder.path(), "keys.yaml", &keys(&["other", "stays"]));
    assert_eq!(read(goes).await, CUT);
    assert_eq!(read(goes2).await, CUT);
    ended(&desk, "credential-not-valid", 2).await;
    eventually("the agent is told", || async { streams.agent.open() <= 2 }).await;
    streams.send(&task_event("1", "t"));
    streams.end();
    assert_eq!(read(stays).await, (task_event("1", "t"), true));
}

#[tokio::test]
async fn a_stream_ends_when_its_key_expires() {
    let streams = Streams::start().await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let at = i64::try_from(now.as_secs() + 3).unwrap();
    let expires = jiff::Timestamp::from_second(at).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let late = keys(&["late"]).replace(" }", &format!(", expires: {expires} }}"));
    let stays = keys(&["stays"]).replace("keys:\n", "");
    std::fs::write(folder.path().join("keys.yaml"), format!("{late}{stays}")).unwrap();
    let text = yaml(&[("a", &[streams.agent.address], "")], "");
    let scheme = "  key: { type: apiKey, in: header, name: X-API-Key, keys_file: keys.yaml }";
    let desk = Desk::in_folder(folder, &with_scheme(&text, scheme)).await;
    let address = desk.gateway.address;
    let of = |key: &'static str| async move {
        begun(open(address, "POST", "/a", &[JSON, ("x-api-key", key)], &opening(key)).await).await
    };
    let (stays, late) = (of("stays").await, of("late").await);
    assert_eq!(read(late).await, CUT);
    ended(&desk, "credential-not-valid", 1).await;
    streams.end();
    assert_eq!(read(stays).await, (String::new(), true));
}

#[tokio::test]
async fn a_stream_ends_when_the_next_rules_do_not_allow_it() {
    let streams = Streams::start().await;
    let with = |rules: &str| {
        let policy = format!("policy: {{ allow: [ {rules} ] }}");
        yaml(&[("a", &[streams.agent.address], &policy)], "")
    };
    let desk = Desk::of(&with("{ when: \"principal.id == 'key:tester'\" }")).await;
    let address = desk.gateway.address;
    let stream = begun(open(address, "POST", "/a", &[JSON, ("x-api-key", KEY)], &opening("x")).await).await;
    // Others that allow it as well, by what the call was.
    desk.apply(&with("{ operations: [ stream ] }, { when: 'false' }")).await;
    desk.apply(&with("{ when: \"generation == '1.0' && operation == 'stream'\" }"))
        .await;
    streams.send(&task_event("1", "t"));
    desk.apply(&with("{ operations: [ get ] }")).await;
    assert_eq!(read(stream).await, (task_event("1", "t"), false));
    ended(&desk, "not-allowed", 1).await;
}

#[tokio::test]
async fn the_streams_of_who_is_revoked_end_and_those_of_others_go_on() {
    let streams = Streams::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.yaml"), keys(&["stays", "goes"])).unwrap();
    std::fs::write(folder.path().join("revoked.yaml"), "principals: []").unwrap();
    let text = yaml(&[("a", &[streams.agent.address], "")], "revocations_file: revoked.yaml");
    let scheme = "  key: { type: apiKey, in: header, name: X-API-Key, keys_file: keys.yaml }";
    let desk = Desk::in_folder(folder, &with_scheme(&text, scheme)).await;
    let address = desk.gateway.address;
    let of = |key: &'static str| async move {
        begun(open(address, "POST", "/a", &[JSON, ("x-api-key", key)], &opening(key)).await).await
    };
    let (stays, goes) = (of("stays").await, of("goes").await);
    replace(desk.folder.path(), "revoked.yaml", "principals: [ \"key:goes\" ]");
    assert_eq!(read(goes).await, CUT);
    ended(&desk, "credential-not-valid", 1).await;
    let refused = call(address, "POST", "/a", &[JSON, ("x-api-key", "goes")], &send("1", "x")).await;
    assert_eq!(refused.status, 401);
    streams.end();
    assert_eq!(read(stays).await, (String::new(), true));
}

#[tokio::test]
async fn streams_of_a_removed_agent_end_broken() {
    let (streams, others) = (Streams::start().await, Streams::start().await);
    let (a, b) = (streams.agent.address, others.agent.address);
    let desk = Desk::of(&yaml(&[("a", &[a], ""), ("b", &[b], "")], "")).await;
    let address = desk.gateway.address;
    let at = |path: &'static str| async move {
        begun(open(address, "POST", path, &[JSON, ("x-api-key", KEY)], &request()).await).await
    };
    let (goes, stays) = (at("/a").await, at("/b").await);
    desk.apply(&yaml(&[("b", &[b], "")], "")).await;
    assert_eq!(read(goes).await, CUT);
    ended(&desk, "agent-removed", 1).await;
    others.end();
    assert_eq!(read(stays).await, (String::new(), true));
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
    let stream = |task: &'static str| async move {
        begun(
            open(
                address,
                "POST",
                "/a",
                &[JSON, ("x-api-key", KEY), ("x-other", "o")],
                &opening(task),
            )
            .await,
        )
        .await
    };
    let by_key = stream("one").await;
    // One of two is enough, and it is the one that was shown.
    desk.apply(&at("security: [ { other: [] }, { key: [] } ]")).await;
    desk.apply(&at("security: []")).await;
    desk.apply(&at("security: [ { other: [] } ]")).await;
    assert_eq!(read(by_key).await, CUT);
    ended(&desk, "requirement-not-met", 1).await;
    let by_other = stream("other").await;
    let renamed = at("security: [ { renamed: [] } ]").replace("  other:", "  renamed:");
    desk.apply(&renamed).await;
    assert_eq!(read(by_other).await, CUT, "the scheme is gone");
    eventually("it is counted", || async {
        desk.gateway
            .metric("a2a_gateway_streams_revoked_total{reason=\"credential-not-valid\"}")
            .await
            == 1.0
    })
    .await;
}

/// Tokens are not kept, so that nobody knows whose one would be that is read in another way.
#[tokio::test]
async fn the_stream_of_a_token_ends_when_tokens_are_read_in_another_way() {
    let streams = Streams::start().await;
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path());
    let token = format!("Bearer {}", issuer.token("ann", json!({ "org": "acme" })));
    let text = yaml(&[("a", &[streams.agent.address], "security: [ { token: [] } ]")], "");
    let at = |mapping: &str, audience: &str| {
        let scheme = Issuer::scheme().replace("[ a2a ]", audience);
        let mapped = scheme.replace(" }", &format!("{mapping} }}"));
        text.replace("\nsecurity_schemes:", &format!("\nsecurity_schemes:\n{mapped}"))
    };
    let desk = Desk::in_folder(folder, &at("", "[ a2a ]")).await;
    let address = desk.gateway.address;
    let fields = [JSON, ("authorization", token.as_str())];
    let stream = begun(open(address, "POST", "/a", &fields, &opening("t")).await).await;
    desk.apply(&at("", "[ a2a, other ]")).await;
    streams.send(&task_event("1", "t"));
    let stream = begun(stream).await;
    desk.apply(&at(", principal: { name: claims.org }", "[ a2a, other ]"))
        .await;
    assert_eq!(read(stream).await, CUT);
    ended(&desk, "credential-not-valid", 1).await;
}

#[tokio::test]
async fn a_stream_of_a_task_that_is_shared_no_more_ends_and_its_owners_goes_on() {
    let streams = Streams::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.yaml"), keys(&["ann", "bob"])).unwrap();
    let scheme = "  key: { type: apiKey, in: header, name: X-API-Key, keys_file: keys.yaml }";
    let with = |more: &str| with_scheme(&yaml(&[("a", &[streams.agent.address], more)], ""), scheme);
    let shared = with("policy: { task_sharing: [ { with: [ \"key:bob\" ] } ] }");
    let desk = Desk::in_folder(folder, &shared).await;
    let address = desk.gateway.address;
    let fields = |key: &'static str| [JSON, ("x-api-key", key)];
    assert_eq!(
        call(address, "POST", "/a", &fields("ann"), &send("1", "x"))
            .await
            .status,
        200
    );
    let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}"#;
    let of = |key: &'static str| async move { begun(open(address, "POST", "/a", &fields(key), subscribe).await).await };
    let (owner, other) = (of("ann").await, of("bob").await);
    desk.apply(&with("policy: { task_sharing: [ { with: [ \"key:carl\" ] } ] }"))
        .await;
    assert_eq!(read(other).await, CUT);
    ended(&desk, "task-not-permitted", 1).await;
    streams.end();
    assert_eq!(read(owner).await, (String::new(), true));
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
    let asked = |body: String| {
        let request = Request::post("https://a.example/a").header("content-type", "application/json");
        let mut sender = sender.clone();
        async move {
            sender
                .send_request(request.body(Full::new(Bytes::from(body))).unwrap())
                .await
                .unwrap()
        }
    };
    assert_eq!(asked(send("1", "x")).await.status(), 200);
    let open = begun(asked(request()).await).await;
    // Another list, and the client is not on it.
    replace(
        authority.folder.path(),
        "clients.crl",
        &authority.revoked(&[CLIENT + 2]),
    );
    assert!(desk.gateway.reload().await);
    assert_eq!(asked(send("1", "x")).await.status(), 200);
    replace(authority.folder.path(), "clients.crl", &authority.revoked(&[CLIENT]));
    assert!(desk.gateway.reload().await);
    assert_eq!(read(open).await, CUT);
    let refused = asked(send("1", "x")).await;
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
