//! A gateway before one agent, and the whole check of a refusal.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::wire::Wire;
use crate::harness::agent::{CARD_HYBRID, Received};
use crate::harness::client::{PATIENCE, collect};
use crate::harness::{Agent, Answer, Gateway, KEY, KEY_HASH, Reply, eventually, get};

pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const CREDENTIAL: (&str, &str) = ("x-api-key", KEY);

/// While somebody else is being hostile; far more than a call takes, and far less than anything times out by default.
const SERVED_WITHIN: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    One,
    Two,
}

pub const BOTH: [Http; 2] = [Http::One, Http::Two];

/// The names that the two generations have for the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    pub version: &'static str,
    pub send: &'static str,
    pub stream: &'static str,
    pub get: &'static str,
    pub push_create: &'static str,
}

pub const GENERATIONS: [Names; 2] = [
    Names {
        version: "1.0",
        send: "SendMessage",
        stream: "SendStreamingMessage",
        get: "GetTask",
        push_create: "CreateTaskPushNotificationConfig",
    },
    Names {
        version: "0.3",
        send: "message/send",
        stream: "message/stream",
        get: "tasks/get",
        push_create: "tasks/pushNotificationConfig/set",
    },
];

impl Names {
    /// A send with id 7 and these members of `params.message` beside a text.
    pub fn sending(&self, more: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{}","params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"hi"}}]{more}}}}}}}"#,
            self.send
        )
    }

    pub fn streaming(&self) -> String {
        self.sending("").replace(self.send, self.stream)
    }

    /// A call with id 7 and these params.
    pub fn call(&self, method: &str, params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
    }
}

/// A good call of 1.0.
pub fn good() -> String {
    GENERATIONS[0].sending("")
}

/// What differs from the usual configuration; texts go into the YAML as they are.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Keys of the listener, behind its address.
    pub listener: &'a str,
    pub schemes: &'a str,
    pub security: &'a str,
    /// Keys of the agent, indented by four.
    pub agent: &'a str,
    /// Keys of the file.
    pub top: &'a str,
    pub base: &'a Path,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            listener: "",
            schemes: "  key: { type: apiKey, in: header, name: X-API-Key, keys: [ { id: tester, hash: \"KEY_HASH\" } ] }",
            security: "[ { key: [] } ]",
            agent: "",
            top: "",
            base: Path::new("/"),
        }
    }
}

impl Setup<'_> {
    fn yaml(&self, agent: std::net::SocketAddr) -> String {
        let Self {
            listener,
            schemes,
            security,
            agent: more,
            top,
            ..
        } = self;
        let schemes = schemes.replace("KEY_HASH", KEY_HASH);
        format!(
            r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" {listener} }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
{schemes}
security: {security}
agents:
  - name: agent
    path: /agent
    upstream: {{ endpoints: [ {{ url: "http://{agent}/" }} ] }}
    policy: {{ task_owner: none }} # the fake agent gives everybody the same task
    {more}
{top}
"#
        )
    }
}

/// Whoever makes one must call `done` at the end.
pub struct Site {
    pub agent: Agent,
    pub gateway: Gateway,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    /// Calls that reached the agent by right.
    passed: usize,
    refusals: BTreeMap<&'static str, usize>,
    /// What the access records of these requests must say.
    outcomes: BTreeMap<String, &'static str>,
    done: bool,
}

impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.tally.lock().expect("tally").done, "`Site::done` was not called");
        }
    }
}

/// How a refusal must look.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    pub reason: &'static str,
    /// The raw id of the JSON-RPC form; `None` for the plain form.
    pub id: Option<&'static str>,
}

pub fn rpc(reason: &'static str, id: &'static str) -> Refusal {
    Refusal { reason, id: Some(id) }
}

pub fn plain(reason: &'static str) -> Refusal {
    Refusal { reason, id: None }
}

/// Status and JSON-RPC code of every reason that a caller can bring about, written down here once more.
fn meaning(reason: &str) -> (u16, i64) {
    match reason {
        "bad_head" | "body_malformed" => (400, -31400),
        "unauthenticated" => (401, -31401),
        "forbidden" => (403, -31403),
        "no_route" => (404, -31404),
        "method_not_allowed" => (405, -31405),
        "header_timeout" | "body_timeout" => (408, -31408),
        "body_too_large" => (413, -31413),
        "target_too_long" => (414, -31414),
        "unsupported_media_type" => (415, -32005),
        "rate_limited" => (429, -31429),
        "header_too_large" => (431, -31431),
        "parse_error" => (200, -32700),
        "batch" | "notification" | "invalid_request" => (200, -32600),
        "unknown_method" => (200, -32601),
        "invalid_params" => (200, -32602),
        "version_not_supported" => (200, -32009),
        other => panic!("not in the table: {other}"),
    }
}

/// After these the rest of the connection cannot be trusted.
pub fn closes(reason: &str) -> bool {
    matches!(
        reason,
        "bad_head"
            | "target_too_long"
            | "header_too_large"
            | "header_timeout"
            | "body_too_large"
            | "body_timeout"
            | "body_malformed"
    )
}

/// Answers calls with id 7 of both generations with a task. Reads no JSON: bodies at the bounds are too much for most readers.
pub fn task(request: &Received) -> Reply {
    let of_1_0 = request.body.windows(13).any(|text| text == b"\"SendMessage\"");
    let task = r#"{"id":"t1","contextId":"c1","kind":"task","status":{"state":"completed"}}"#;
    let result = if of_1_0 {
        format!(r#"{{"task":{task}}}"#)
    } else {
        task.to_owned()
    };
    Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#))
}

impl Site {
    pub async fn usual() -> Self {
        Self::start(Setup::default()).await
    }

    pub async fn start(setup: Setup<'_>) -> Self {
        Self::with(setup, task).await
    }

    pub async fn with(setup: Setup<'_>, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let agent = Agent::with_card(CARD_HYBRID, script).await;
        let gateway = Gateway::start_in(&setup.yaml(agent.address), setup.base).await;
        gateway.ready().await;
        Self {
            agent,
            gateway,
            tally: Mutex::default(),
        }
    }

    /// A request of exactly these bytes over HTTP/1.1; the answer, and the connection.
    pub async fn raw(&self, bytes: impl AsRef<[u8]>) -> (Answer, Wire) {
        let mut wire = Wire::to(self.gateway.address).await;
        wire.send(bytes).await;
        (wire.answer().await, wire)
    }

    /// A `POST` to the agent's path with these fields.
    pub async fn post(&self, http: Http, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
        self.request(http, "POST", "/agent", fields, body).await
    }

    pub async fn request(
        &self,
        http: Http,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let body = body.as_ref();
        match http {
            Http::One => {
                let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: gateway.example\r\n").into_bytes();
                for (name, value) in fields {
                    bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                }
                bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                bytes.extend_from_slice(body);
                self.raw(bytes).await.0
            }
            Http::Two => {
                let mut request = Request::builder()
                    .method(method)
                    .uri(format!("http://gateway.example{target}"));
                for (name, value) in fields {
                    request = request.header(*name, *value);
                }
                let request = request.body(Full::from(body.to_vec())).expect("a request");
                let response = tokio::time::timeout(PATIENCE, self.http2().await.send_request(request)).await;
                collect(response.expect("in time").expect("an answer")).await
            }
        }
    }

    /// An HTTP/2 connection with prior knowledge.
    pub async fn http2(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.gateway.address)
            .await
            .expect("the gateway listens");
        let (sender, conn) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("a connection");
        tokio::spawn(conn);
        sender
    }

    /// The answer is this refusal, whole, and does not hinder the next caller.
    pub async fn refused(&self, what: &str, answer: &Answer, expected: Refusal) {
        self.is_refusal(what, answer, expected);
        self.works().await;
    }

    /// The same for an answer after which nobody could be served, such as of a rate limit.
    pub fn is_refusal(&self, what: &str, answer: &Answer, expected: Refusal) {
        let (status, code) = meaning(expected.reason);
        let text = answer.text();
        let what = format!("{what}: {} {text}", answer.status);
        assert_eq!(answer.status, status, "status of {what}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{what}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
        let json = answer.json();
        match expected.id {
            Some(id) => {
                assert_eq!(json["jsonrpc"], "2.0", "{what}");
                assert_eq!(json["error"]["code"], code, "code of {what}");
                assert!(text.contains(&format!("\"id\":{id}")), "id {id} of {what}");
                assert!(json.get("result").is_none(), "{what}");
            }
            None => {
                assert!(
                    json.get("jsonrpc").is_none() && json.get("id").is_none(),
                    "the plain form: {what}"
                );
                assert_eq!(json["error"]["code"], status, "{what}");
                let reason = expected.reason.to_ascii_uppercase();
                assert_eq!(json["error"]["details"][0]["reason"], reason.as_str(), "{what}");
            }
        }
        assert!(!text.contains(KEY), "the credential is not repeated: {what}");
        let request = answer
            .header("x-request-id")
            .unwrap_or_else(|| panic!("an id for the log: {what}"));
        let mut tally = self.tally.lock().expect("tally");
        *tally.refusals.entry(expected.reason).or_default() += 1;
        tally.outcomes.insert(request.to_owned(), expected.reason);
    }

    /// These bytes over HTTP/1.1 are refused so; where the reason asks for it the connection ends with the answer.
    pub async fn refuses(&self, what: &str, bytes: impl AsRef<[u8]>, expected: Refusal) {
        println!("{what}");
        let (answer, mut wire) = self.raw(bytes).await;
        self.is_refusal(what, &answer, expected);
        if closes(expected.reason) {
            assert_eq!(answer.header("connection"), Some("close"), "{what}");
            wire.closes().await;
        }
        self.works().await;
    }

    /// The answer is the agent's own.
    pub fn passed(&self, what: &str, answer: &Answer) {
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert!(answer.json().get("result").is_some(), "{what}: {}", answer.text());
        self.note_passed(1);
    }

    /// So many more calls may have been seen by the agent.
    pub fn note_passed(&self, calls: usize) {
        self.tally.lock().expect("tally").passed += calls;
    }

    /// Refusals whose answers nobody read.
    pub fn note_refused(&self, reason: &'static str, count: usize) {
        *self.tally.lock().expect("tally").refusals.entry(reason).or_default() += count;
    }

    /// Another caller is served, soon.
    pub async fn works(&self) {
        let fields = [JSON, CREDENTIAL];
        let answer = tokio::time::timeout(SERVED_WITHIN, self.post(Http::One, &fields, good())).await;
        self.passed("another caller", &answer.expect("another caller is served soon"));
    }

    /// How often the gateway answered by itself, by reason.
    pub async fn rejects(&self) -> BTreeMap<String, usize> {
        let text = get(self.gateway.admin, "/metrics").await.text();
        text.lines()
            .filter(|line| line.starts_with("a2a_gateway_rejects_total{"))
            .filter_map(|line| {
                let (_, rest) = line.split_once("reason=\"")?;
                let (reason, _) = rest.split_once('"')?;
                let count = line.rsplit(' ').next()?.parse::<usize>().ok()?;
                (count > 0).then(|| (reason.to_owned(), count))
            })
            .collect()
    }

    /// Every refusal stands in the metric under its reason, and no other; every record tells the same; the agent saw what
    /// passed and nothing else.
    pub async fn done(&self) {
        self.agent_saw_only_what_passed();
        let (expected, outcomes) = {
            let mut tally = self.tally.lock().expect("tally");
            tally.done = true;
            let refusals: BTreeMap<String, usize> = tally
                .refusals
                .iter()
                .map(|(reason, count)| ((*reason).to_owned(), *count))
                .collect();
            (refusals, std::mem::take(&mut tally.outcomes))
        };
        // Counted when the answer is handed over, so at the latest when it was read.
        assert_eq!(self.rejects().await, expected, "a2a_gateway_rejects_total by reason");
        for (request, outcome) in outcomes {
            let record = self.record(&request).await;
            assert_eq!(record["outcome"], outcome, "the record says why: {record}");
        }
    }

    pub fn agent_saw_only_what_passed(&self) {
        let passed = self.tally.lock().expect("tally").passed;
        let received = self.agent.received();
        assert_eq!(
            received.len(),
            passed,
            "nothing else reached the agent: {:?}",
            received.last()
        );
    }

    /// The access record of one request.
    pub async fn record(&self, request: &str) -> serde_json::Value {
        let found = Mutex::new(None);
        eventually("the record is written", || async {
            let records = self.gateway.access(0).await;
            let record = records.into_iter().find(|record| record["request"] == request);
            let is_there = record.is_some();
            *found.lock().expect("found") = record;
            is_there
        })
        .await;
        found.into_inner().expect("found").expect("found")
    }
}
