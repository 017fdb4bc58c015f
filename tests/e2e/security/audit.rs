//! The audit trail of a running gateway: a line for each event, none with a secret, one chain over restarts, crashes and reloads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use a2a_gateway::audit;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::harness::agent::{self, Agent, CARD, Reply, task_event};
use crate::harness::client::open;
use crate::harness::{Answer, Gateway, KEY_HASH, call, eventually, get, of_task, send};
use crate::lifecycle::program::Program;
use crate::lifecycle::reload::users;

pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const ANN: &str = "test-key";
const BOB: &str = "other-key";
const BOB_HASH: &str = "sha256:580843d03d2216ff1a275d0991bad66e4d1af871171d929e9de604b7959f9bca";
pub const AUDIT_KEY: &str = "the-key-of-the-chain-has-32-characters";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Ann and Bob at `/agent`; at `/strict` nobody has what is asked.
pub fn yaml(agent: &Agent, audit: &str) -> String {
    let url = format!("http://{}/", agent.address);
    format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
audit: {{ file: audit.log, key_file: audit.key, {audit} }}
security_schemes:
  key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: ann, hash: "{KEY_HASH}" }}, {{ id: bob, hash: "{BOB_HASH}" }} ] }}
  query: {{ type: apiKey, in: query, name: key, keys: [ {{ id: ann, hash: "{KEY_HASH}" }} ] }}
  cookie: {{ type: apiKey, in: cookie, name: key, keys: [ {{ id: ann, hash: "{KEY_HASH}" }} ] }}
  people: {{ type: http, scheme: basic, users_file: users.yaml }}
security: [ {{ key: [] }}, {{ query: [] }}, {{ cookie: [] }}, {{ people: [] }} ]
agents:
  - name: agent
    path: /agent
    card: {{ refresh: 100ms }}
    upstream: {{ endpoints: [ {{ url: "{url}" }} ] }}
  - name: strict
    path: /strict
    security: [ {{ key: [ admin ] }} ]
    upstream: {{ endpoints: [ {{ url: "{url}" }} ] }}
"#
    )
}

/// What an audited gateway stands on.
pub struct Ground {
    pub folder: TempDir,
    pub agent: Agent,
}

impl Ground {
    pub async fn new(audit: &str) -> Self {
        Self::before(Agent::start(agent::tasks(numbered())).await, audit)
    }

    fn before(agent: Agent, audit: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ground = Self { folder, agent };
        ground.write("audit.key", AUDIT_KEY);
        ground.write("users.yaml", &users(&[("eve", "p4ssword-of-eve")]));
        ground.write("gateway.yaml", &yaml(&ground.agent, audit));
        ground
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As a whole, so that nobody reads half of it.
    pub fn write(&self, name: &str, text: &str) {
        let temporary = self.path("temporary");
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, self.path(name)).unwrap();
    }

    pub async fn start(&self) -> Gateway {
        let gateway = Gateway::from_file(&self.path("gateway.yaml")).await;
        gateway.ready().await;
        gateway
    }

    pub fn program(&self) -> Program {
        Program::gateway(["run", "--config", self.path("gateway.yaml").to_str().unwrap()])
    }

    pub fn lines(&self) -> Vec<Value> {
        lines(&self.path("audit.log"))
    }

    /// The lines of an event, once there are so many.
    pub async fn of(&self, event: &str, count: usize) -> Vec<Value> {
        let found = || -> Vec<Value> { self.lines().into_iter().filter(|line| line["event"] == event).collect() };
        let what = format!("{count} lines of {event}");
        eventually(&what, || async { found().len() >= count }).await;
        let found = found();
        assert_eq!(found.len(), count, "{event}: {found:#?}");
        found
    }

    pub fn holds(&self, files: &[&str]) -> audit::Verified {
        let files: Vec<PathBuf> = files.iter().map(|name| self.path(name)).collect();
        audit::verify(&files, &[AUDIT_KEY]).unwrap_or_else(|broken| panic!("{broken}"))
    }
}

/// `t-0`, `t-1` and so on.
fn numbered() -> impl Fn() -> String + Send + Sync {
    let count = std::sync::atomic::AtomicUsize::new(0);
    move || format!("t-{}", count.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
}

/// Whole lines.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn by(key: &str, gateway: &Gateway, path: &str, body: &str) -> Answer {
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let fields = [("X-API-Key", key), JSON, ("traceparent", &*traceparent)];
    call(gateway.address, "POST", path, &fields, body).await
}

fn is(line: &Value, members: &[(&str, &str)]) {
    for (name, value) in members {
        assert_eq!(line[name], *value, "{name} of {line:#}");
    }
}

#[tokio::test]
async fn every_event_of_a_call_has_its_line() {
    let ground = Ground::new("").await;
    let gateway = ground.start().await;

    let refused = by("wrong", &gateway, "/agent", &send("1", "x")).await;
    assert_eq!(refused.status, 401);
    let line = &ground.of("authentication_failed", 1).await[0];
    is(
        line,
        &[
            ("outcome", "refused"),
            ("reason", "unauthenticated"),
            ("client", "127.0.0.1"),
            ("listener", "public"),
            ("agent", "agent"),
            ("trace_id", TRACE),
            ("request_id", refused.header("x-request-id").unwrap()),
        ],
    );
    assert_eq!(line.get("principal"), None);

    assert_eq!(by(ANN, &gateway, "/strict", &send("1", "x")).await.status, 403);
    is(
        &ground.of("denied", 1).await[0],
        &[("reason", "forbidden"), ("agent", "strict"), ("outcome", "refused")],
    );

    assert_eq!(by(ANN, &gateway, "/agent", &send("1", "x")).await.status, 200);
    is(
        &ground.of("task_created", 1).await[0],
        &[
            ("principal", "key:ann"),
            ("owner", "key:ann"),
            ("task", "t-0"),
            ("context", "ctx-t-0"),
            ("operation", "send"),
            ("binding", "JSONRPC"),
            ("generation", "1.0"),
            ("trace_id", TRACE),
            ("endpoint", &format!("http://{}/", ground.agent.address)),
        ],
    );

    assert_eq!(
        by(BOB, &gateway, "/agent", &of_task("GetTask", "t-0")).await.code(),
        -32001
    );
    is(
        &ground.of("denied", 2).await[1],
        &[
            ("principal", "key:bob"),
            ("reason", "task_not_found"),
            ("detail", "foreign"),
            ("operation", "get"),
            ("task", "t-0"),
        ],
    );
    // A task of nobody is a mistake, and no line.
    assert_eq!(
        by(BOB, &gateway, "/agent", &of_task("GetTask", "nobody's"))
            .await
            .code(),
        -32001
    );

    assert_eq!(
        by(ANN, &gateway, "/agent", &of_task("CancelTask", "t-0")).await.status,
        200
    );
    is(
        &ground.of("task_cancel", 1).await[0],
        &[("principal", "key:ann"), ("outcome", "ok"), ("task", "t-0")],
    );

    let webhook = r#"{"jsonrpc":"2.0","id":"c","method":"CreateTaskPushNotificationConfig","params":{"taskId":"t-0","id":"p","url":"https://hooks.example/","token":"t0ken"}}"#;
    assert_eq!(by(ANN, &gateway, "/agent", webhook).await.status, 200);
    is(
        &ground.of("push_set", 1).await[0],
        &[("outcome", "ok"), ("task", "t-0")],
    );
    let delete =
        r#"{"jsonrpc":"2.0","id":"c","method":"DeleteTaskPushNotificationConfig","params":{"taskId":"t-0","id":"p"}}"#;
    assert_eq!(by(ANN, &gateway, "/agent", delete).await.status, 200);
    is(
        &ground.of("push_delete", 1).await[0],
        &[("outcome", "ok"), ("task", "t-0")],
    );

    // A webhook may come with the message.
    let hook = r#"},"configuration":{"taskPushNotificationConfig":{"url":"https://hooks.example/"}}}}"#;
    let sent = send("1", "x").replace("}}}", hook);
    assert_eq!(by(ANN, &gateway, "/agent", &sent).await.status, 200);
    is(
        &ground.of("push_set", 2).await[1],
        &[("outcome", "ok"), ("task", "t-1"), ("operation", "send")],
    );

    // What is asked again makes nothing.
    assert_eq!(
        by(ANN, &gateway, "/agent", &of_task("GetTask", "t-0")).await.status,
        200
    );
    assert!(gateway.shutdown().await);
    let count = |event: &str| ground.lines().iter().filter(|line| line["event"] == event).count();
    assert_eq!(
        (count("task_created"), count("denied"), count("authentication_failed")),
        (2, 2, 1)
    );
    assert_eq!(ground.holds(&["audit.log"]).lines, ground.lines().len() as u64);
}

#[tokio::test]
async fn every_event_of_an_operator_a_card_and_the_gateway_has_its_line() {
    let ground = Ground::new("").await;
    let gateway = ground.start().await;
    let begun: Vec<String> = ground.lines().iter().map(|line| line["event"].to_string()).collect();
    assert_eq!(
        begun[..3],
        [r#""trail_opened""#, r#""gateway_started""#, r#""configuration_loaded""#],
    );
    let cards = ground.of("card_published", 2).await;
    assert!(cards.iter().any(|line| line["agent"] == "agent"), "{cards:?}");

    let url = format!("http://{}/", ground.agent.address);
    for (change, event) in [("drain", "endpoint_drained"), ("undrain", "endpoint_undrained")] {
        let path = format!("/agents/agent/endpoints/{change}?url={url}");
        assert_eq!(call(gateway.admin, "POST", &path, &[JSON], "").await.status, 200);
        is(
            &ground.of(event, 1).await[0],
            &[
                ("agent", "agent"),
                ("endpoint", &url),
                ("listener", "admin"),
                ("client", "127.0.0.1"),
            ],
        );
    }
    assert_eq!(by(ANN, &gateway, "/agent", &send("1", "x")).await.status, 200);
    for (path, event, kind, id) in [
        ("/tasks/agent/t-0/owner", "task_transferred", "task", "t-0"),
        (
            "/contexts/agent/ctx-t-0/owner",
            "context_transferred",
            "context",
            "ctx-t-0",
        ),
    ] {
        let given = call(gateway.admin, "POST", path, &[JSON], r#"{"owner":"key:bob"}"#).await;
        assert_eq!(given.status, 200, "{}", given.text());
        is(
            &ground.of(event, 1).await[0],
            &[
                (kind, id),
                ("owner", "key:bob"),
                ("owner_before", "key:ann"),
                ("agent", "agent"),
            ],
        );
    }
    let nobodys = call(
        gateway.admin,
        "POST",
        "/tasks/agent/none/owner",
        &[JSON],
        r#"{"owner":"x"}"#,
    )
    .await;
    assert_eq!(nobodys.status, 404, "what changes nothing leaves no line");

    ground.agent.set_card(&CARD.replace("\"Fake\"", "\"Other\""));
    let cards = ground.lines().len();
    eventually("the changed card is published", || async {
        let lines = ground.lines();
        let changed = |line: &&Value| line["event"] == "card_published" && line["agent"] == "agent";
        cards <= lines.len() && lines.iter().filter(changed).count() == 2
    })
    .await;
    ground
        .agent
        .set_card(&CARD.replace("\"protocolVersion\":\"1.0\"", "\"protocolVersion\":\"9.0\""));
    let out = |lines: Vec<Value>, event: &str| {
        let of = |line: &&Value| line["event"] == event && line["agent"] == "agent";
        lines.iter().filter(of).count()
    };
    eventually("it is out of service", || async {
        out(ground.lines(), "agent_out_of_service") == 1
    })
    .await;
    ground.agent.set_card(CARD);
    eventually("it is back", || async { out(ground.lines(), "agent_in_service") == 1 }).await;

    let good = fs::read_to_string(ground.path("gateway.yaml")).unwrap();
    ground.write(
        "gateway.yaml",
        &good.replace("drain", "drian").replace("path: /strict", "path: strict"),
    );
    assert!(!gateway.reload().await);
    eventually("the refused reload is recorded", || async {
        let lines = ground.lines();
        let refused = lines.iter().find(|line| line["event"] == "configuration_refused");
        refused.is_some_and(|line| line["outcome"] == "refused" && line["detail"] == "agents[1].path")
    })
    .await;
    ground.write("gateway.yaml", &good.replace("id: bob", "id: bert"));
    assert!(gateway.reload().await);
    let keys = ground.of("keys_changed", 1).await;
    is(&keys[0], &[("detail", "key")]);
    eventually("the reload is recorded", || async {
        let lines = ground.lines();
        let applied = |line: &&Value| {
            line["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains("schemes changed: key"))
        };
        lines
            .iter()
            .filter(applied)
            .any(|line| line["event"] == "configuration_reloaded")
    })
    .await;

    assert!(gateway.shutdown().await);
    let ended: Vec<String> = ground
        .lines()
        .iter()
        .rev()
        .take(2)
        .map(|line| line["event"].to_string())
        .collect();
    assert_eq!(ended, [r#""trail_closed""#, r#""gateway_stopped""#]);
    ground.holds(&["audit.log"]);
}

#[tokio::test]
async fn a_stream_that_makes_a_task_leaves_one_line_also_if_its_caller_leaves() {
    let (events, chunks) = mpsc::channel(4);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| Reply::Stream(chunks.lock().unwrap().take().unwrap())).await;
    let ground = Ground::before(agent, "");
    let gateway = ground.start().await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let stream = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let fields = [("X-API-Key", ANN), JSON];
    let response = open(gateway.address, "POST", "/agent", &fields, &stream).await;
    assert_eq!(response.status(), 200);
    is(
        &ground.of("task_created", 1).await[0],
        &[("task", "t"), ("operation", "stream"), ("principal", "key:ann")],
    );
    drop(response);
    gateway.access(1).await;
    assert!(gateway.shutdown().await);
    ground.of("task_created", 1).await;
    ground.holds(&["audit.log"]);
}

#[tokio::test]
async fn refusals_by_a_rate_limit_are_recorded_only_if_they_are_named() {
    for (events, expected) in [("", 0), ("events: [ rate_limited ]", 1)] {
        let ground = Ground::new(events).await;
        let text = fs::read_to_string(ground.path("gateway.yaml")).unwrap();
        ground.write(
            "gateway.yaml",
            &format!("{text}rate_limits: [ {{ per: principal, rate: 1/h }} ]\n"),
        );
        let gateway = ground.start().await;
        assert_eq!(by(ANN, &gateway, "/agent", &send("1", "x")).await.status, 200);
        assert_eq!(by(ANN, &gateway, "/agent", &send("1", "x")).await.status, 429);
        assert!(gateway.shutdown().await);
        let lines = ground.lines();
        let limited = lines.iter().filter(|line| line["event"] == "rate_limited").count();
        assert_eq!(limited, expected, "{events}: {lines:#?}");
        assert_eq!(lines.iter().any(|line| line["event"] == "task_created"), expected == 0);
    }
}

#[tokio::test]
async fn no_secret_and_no_word_of_a_body_stands_in_any_line() {
    let ground = Ground::new("").await;
    let gateway = ground.start().await;
    let address = gateway.address;
    let body = |text: &str| send("\"c4nary-id\"", text);
    let coded = STANDARD.encode("eve:c4nary-password");
    let basic = format!("Basic {coded}");
    let good = format!("Basic {}", STANDARD.encode("eve:p4ssword-of-eve"));
    let mut statuses = Vec::new();
    for (path, field) in [
        ("/agent", ("x-api-key", "c4nary-header")),
        ("/agent?key=c4nary-query", ("x-other", "c4nary-field")),
        ("/agent", ("cookie", "key=c4nary-cookie")),
        ("/agent", ("authorization", &basic)),
        ("/agent", ("authorization", "Bearer c4nary-token")),
        ("/agent", ("traceparent", "00-c4nary-b7ad6b7169203331-01")),
        (
            "/agent?key=test-key&more=c4nary-more",
            ("x-request-id", "c4nary-request"),
        ),
        ("/agent", ("cookie", "key=test-key; other=c4nary")),
        ("/agent", ("authorization", &good)),
        ("/c4nary-path", ("x-api-key", ANN)),
    ] {
        let answer = call(address, "POST", path, &[JSON, field], &body("c4nary-text")).await;
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 401, 200, 200, 200, 404]);
    let webhook = r#"{"jsonrpc":"2.0","id":"c","method":"CreateTaskPushNotificationConfig","params":{"taskId":"t-0","url":"https://hooks.example/c4nary-hook","token":"c4nary-push","authentication":{"scheme":"Bearer","credentials":"c4nary-credentials"}}}"#;
    assert_eq!(by(ANN, &gateway, "/agent", webhook).await.status, 200);
    let broken = format!("{{\"c4nary\":{}", body("c4nary"));
    assert_eq!(by(ANN, &gateway, "/agent", &broken).await.code(), -32700);
    ground.of("authentication_failed", 6).await;
    ground.of("task_created", 3).await;
    ground.of("push_set", 1).await;
    let metrics = get(gateway.admin, "/metrics").await.text();
    let shown = get(gateway.admin, "/config").await.text();
    let log = gateway.log();
    assert!(gateway.shutdown().await);
    let records: String = log.records().iter().map(Value::to_string).collect();
    let trail = fs::read_to_string(ground.path("audit.log")).unwrap();
    for (name, text) in [
        ("trail", trail),
        ("log", records),
        ("metrics", metrics),
        ("config", shown),
    ] {
        assert!(text.len() > 100, "{name} says something");
        for secret in ["c4nary", &coded, "test-key", "p4ssword-of-eve", AUDIT_KEY, BOB] {
            assert!(!text.contains(secret), "{secret} in the {name}: {text}");
        }
    }
}

/// The verifier as a program.
async fn verify(ground: &Ground, files: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a2a-gateway"));
    command
        .args(["audit", "verify", "--key-file"])
        .arg(ground.path("audit.key"));
    command.args(files.iter().map(|name| ground.path(name)));
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let Output { status, stdout, stderr } = run.await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[tokio::test]
async fn after_kill_9_the_chain_goes_on() {
    let ground = Ground::new("").await;
    let post = async |address, body: String| call(address, "POST", "/agent", &[JSON, ("x-api-key", ANN)], &body).await;
    let mut sequence = 0;
    for round in 0..3 {
        let mut gateway = ground.program();
        let (public, admin) = gateway.addresses().await;
        eventually("the gateway is ready", || async {
            get(admin, "/ready").await.status == 200
        })
        .await;
        for _ in 0..5 {
            assert_eq!(post(public, send("1", "x")).await.status, 200);
        }
        ground.of("task_created", (round + 1) * 5).await;
        gateway.signal(Signal::KILL);
        assert_eq!(gateway.end().await.code, None);
        let verified = ground.holds(&["audit.log"]);
        assert!(verified.last.sequence > sequence, "round {round}");
        sequence = verified.last.sequence;
    }
    // In the middle of a line.
    let path = ground.path("audit.log");
    let whole = fs::read_to_string(&path).unwrap();
    let last = whole.lines().last().unwrap().to_owned();
    fs::write(&path, format!("{whole}{}", &last[..last.len() / 2])).unwrap();
    let (code, said, note) = verify(&ground, &["audit.log"]).await;
    assert_eq!(code, Some(0), "{note}");
    assert!(
        said.contains(&format!("last line: sequence {sequence}, hash ")),
        "{said}"
    );
    assert!(
        note.contains(&format!("unfinished line of {} bytes", last.len() / 2)),
        "{note}"
    );
    let mut gateway = ground.program();
    let (public, admin) = gateway.addresses().await;
    eventually("the gateway is ready", || async {
        get(admin, "/ready").await.status == 200
    })
    .await;
    assert_eq!(post(public, send("1", "x")).await.status, 200);
    ground.of("task_created", 16).await;
    let opened = ground.of("trail_opened", 4).await;
    let told = opened[3]["detail"].as_str().unwrap();
    assert!(told.contains("was cut off"), "{told}");
    let shown = get(admin, "/metrics").await.text();
    let ended = gateway.terminate().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let (code, said, note) = verify(&ground, &["audit.log"]).await;
    assert_eq!((code, &*note), (Some(0), ""));
    // The log has number and hash of the last line; the metric had the number.
    let last = ground.holds(&["audit.log"]).last;
    assert!(
        said.contains(&format!("last line: sequence {}, hash {}", last.sequence, last.hash)),
        "{said}"
    );
    assert!(ended.stderr.contains(&last.hash.to_string()), "{}", ended.stderr);
    let metric = shown
        .lines()
        .find_map(|line| line.strip_prefix("a2a_gateway_audit_sequence "));
    let metric: u64 = metric.expect("the metric").parse().unwrap();
    assert!(metric > sequence && metric <= last.sequence, "{metric}");
    // Somebody hides something.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"task\":\"t-3\"", "\"task\":\"t-9\"")).unwrap();
    let (code, said, note) = verify(&ground, &["audit.log"]).await;
    assert_eq!((code, &*said), (Some(1), ""));
    assert!(
        note.contains("audit.log:") && note.contains("the line was changed or put in"),
        "{note}"
    );
    let (code, _, note) = verify(&ground, &["audit.log", "missing.log"]).await;
    assert_eq!(code, Some(1), "{note}");
}

#[tokio::test]
async fn reloads_follow_a_renamed_file_and_switch_the_trail_off_and_on() {
    let ground = Ground::new("").await;
    let gateway = ground.start().await;
    let wrong = async || assert_eq!(by("wrong", &gateway, "/agent", &send("1", "x")).await.status, 401);
    wrong().await;
    ground.of("authentication_failed", 1).await;
    fs::rename(ground.path("audit.log"), ground.path("audit.old")).unwrap();
    assert!(gateway.reload().await, "nothing is different but the file");
    wrong().await;
    ground.of("authentication_failed", 1).await;
    let first = ground.holds(&["audit.old"]).last.sequence;
    assert!(ground.holds(&["audit.old", "audit.log"]).last.sequence > first);

    let with = fs::read_to_string(ground.path("gateway.yaml")).unwrap();
    let without = with
        .lines()
        .filter(|line| !line.starts_with("audit:"))
        .collect::<Vec<_>>()
        .join("\n");
    ground.write("gateway.yaml", &without);
    assert!(gateway.reload().await);
    ground.of("trail_closed", 1).await;
    wrong().await;
    ground.write("gateway.yaml", &with);
    assert!(gateway.reload().await);
    wrong().await;
    ground.of("authentication_failed", 2).await;

    // A file that cannot be written is refused, and the one before stays.
    ground.write(
        "gateway.yaml",
        &with.replace("file: audit.log", "file: missing/audit.log"),
    );
    assert!(!gateway.reload().await);
    let refused = ground.of("configuration_refused", 1).await;
    is(&refused[0], &[("detail", "audit.file")]);
    wrong().await;
    ground.of("authentication_failed", 3).await;
    assert!(gateway.shutdown().await);
    ground.holds(&["audit.old", "audit.log"]);
}

#[tokio::test]
async fn two_gateways_with_one_file_do_not_both_start() {
    let ground = Ground::new("").await;
    let gateway = ground.start().await;
    let ended = ground.program().end().await;
    assert_eq!(ended.code, Some(74), "{}", ended.stderr);
    assert!(ended.stderr.contains("another process writes"), "{}", ended.stderr);
    assert!(gateway.shutdown().await);
}
