//! An operator gives a task to another owner while streams tell of it.

use std::sync::{Arc, Mutex};

use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::ownership::{ANN, BOB, by, start, yaml};
use crate::harness::agent::{Agent, Received, Reply, event, task_event};
use crate::harness::client::{PATIENCE, open, open_http2, read};
use crate::harness::redis::Server;
use crate::harness::{Gateway, call, eventually, get, of_task, send};

const JSON: (&str, &str) = ("content-type", "application/json");
const CUT: (String, bool) = (String::new(), false);

/// An agent whose streams tell of the task that is named or asked for by text, and then what the test sends to all.
struct Streams {
    agent: Agent,
    open: Arc<Mutex<Vec<mpsc::Sender<Option<String>>>>>,
}

impl Streams {
    async fn start() -> Self {
        let open: Arc<Mutex<Vec<mpsc::Sender<Option<String>>>>> = Arc::default();
        let opened = open.clone();
        let agent = Agent::start(move |request: &Received| {
            let call = request.json();
            let task = match call["method"].as_str() {
                Some("SendStreamingMessage") => &call["params"]["message"]["parts"][0]["text"],
                Some("SubscribeToTask") => &call["params"]["id"],
                _ => {
                    let task = format!(r#"{{"id":{},"contextId":"c","status":{{}}}}"#, call["params"]["id"]);
                    return Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":"c","result":{task}}}"#));
                }
            };
            let (events, chunks) = mpsc::channel(4);
            let first = task_event("1", task.as_str().expect("a task"));
            events.try_send(Some(first)).expect("room");
            opened.lock().unwrap().push(events);
            Reply::Stream(chunks)
        })
        .await;
        Self { agent, open }
    }

    async fn tell(&self, text: &str) {
        let open = self.open.lock().unwrap().clone();
        for stream in open {
            let _gone = stream.send(Some(text.to_owned())).await;
        }
    }

    /// Those that are left end clean.
    fn end(&self) {
        self.open.lock().unwrap().clear();
    }
}

/// What opens a stream of this task, or follows it.
fn opening(task: &str) -> String {
    send("1", task).replace("SendMessage", "SendStreamingMessage")
}

fn following(task: &str) -> String {
    of_task("SubscribeToTask", task).replace("\"c\"", "1")
}

/// A stream behind its first event.
async fn begun(gateway: &Gateway, key: &str, body: &str, http2: bool) -> Response<Incoming> {
    let fields = [("x-api-key", key), JSON];
    let mut response = if http2 {
        open_http2(gateway.address, "/agent", &fields, body).await
    } else {
        open(gateway.address, "POST", "/agent", &fields, body).await
    };
    let frame = tokio::time::timeout(PATIENCE, response.body_mut().frame()).await;
    let first = frame.expect("in time").expect("an event").expect("whole").into_data();
    assert!(first.expect("data").starts_with(b"data: "));
    response
}

async fn give(gateway: &Gateway, path: &str, owner: &str) {
    let body = format!(r#"{{"owner":"{owner}"}}"#);
    let given = call(gateway.admin, "POST", &format!("{path}/owner"), &[JSON], &body).await;
    assert_eq!(given.status, 200, "{path}: {}", given.text());
}

/// So many streams were ended for this, and recorded so.
async fn ended(gateway: &Gateway, count: usize) {
    eventually("the records say so", || async {
        let records = gateway.log().records();
        let revoked = records.iter().filter(|record| record["outcome"] == "revoked");
        revoked
            .filter(|record| record["detail"] == "task-not-permitted")
            .count()
            == count
    })
    .await;
    let counted = gateway
        .metric("a2a_gateway_streams_revoked_total{reason=\"task-not-permitted\"}")
        .await;
    assert_eq!(counted, count as f64);
}

#[tokio::test]
async fn the_streams_of_a_task_that_is_given_away_end_at_once_and_others_go_on() {
    for http2 in [false, true] {
        let streams = Streams::start().await;
        let gateway = start(&streams.agent, "").await;
        let made = begun(&gateway, ANN, &opening("given"), http2).await;
        let follows = begun(&gateway, ANN, &following("given"), http2).await;
        let kept = begun(&gateway, ANN, &opening("kept"), http2).await;
        let foreign = begun(&gateway, BOB, &opening("bobs"), http2).await;
        // A context's tasks keep their owners, and so their streams.
        give(&gateway, "/contexts/agent/ctx-kept", "key:bob").await;
        give(&gateway, "/tasks/agent/given", "key:bob").await;
        assert_eq!(read(made).await, CUT, "HTTP/2: {http2}");
        assert_eq!(read(follows).await, CUT, "HTTP/2: {http2}");
        ended(&gateway, 2).await;
        eventually("the agent is told", || async { streams.agent.open() <= 3 }).await;
        let follows = begun(&gateway, BOB, &following("given"), http2).await;
        let said = event("1", r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[]}}"#);
        streams.tell(&said).await;
        streams.end();
        for stream in [kept, foreign, follows] {
            assert_eq!(read(stream).await, (said.clone(), true), "HTTP/2: {http2}");
        }
    }
}

#[tokio::test]
async fn who_shares_in_the_task_of_its_new_owner_goes_on() {
    let streams = Streams::start().await;
    let rule = "policy: { task_sharing: [ { with: [ \"key:ann\" ], owners: [ \"key:bob\" ] } ] }";
    let gateway = start(&streams.agent, rule).await;
    let made = begun(&gateway, ANN, &opening("given"), false).await;
    let follows = begun(&gateway, ANN, &following("given"), false).await;
    give(&gateway, "/tasks/agent/given", "key:bob").await;
    assert_eq!(read(made).await, CUT, "to read is not to send");
    ended(&gateway, 1).await;
    streams.end();
    assert_eq!(read(follows).await, (String::new(), true));
}

#[tokio::test]
async fn a_transfer_without_owners_ends_nothing() {
    let streams = Streams::start().await;
    let gateway = start(&streams.agent, crate::harness::OPEN).await;
    let goes_on = begun(&gateway, ANN, &opening("given"), false).await;
    give(&gateway, "/tasks/agent/given", "key:bob").await;
    streams.tell(&task_event("1", "given")).await;
    streams.end();
    assert_eq!(read(goes_on).await, (task_event("1", "given"), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_gateway_ends_its_streams_when_it_hears_of_the_transfer() {
    let server = Server::start();
    let streams = Streams::start().await;
    let state = format!(
        "state: {{ store: redis, redis: {{ url: \"{}\", cache_ttl: 1s }} }}",
        server.url()
    );
    let text = yaml(&[streams.agent.address], "").replace("state: { store: memory }", &state);
    let (one, other) = (Gateway::start(&text).await, Gateway::start(&text).await);
    one.ready().await;
    other.ready().await;
    // Because a call there names the task again.
    let asked = begun(&other, ANN, &opening("asked"), false).await;
    give(&one, "/tasks/agent/asked", "key:bob").await;
    eventually("it is hers no more", || async {
        by(ANN, &other, &of_task("GetTask", "asked")).await.json()["error"]["code"] == -32001
    })
    .await;
    assert_eq!(read(asked).await, CUT);
    ended(&other, 1).await;
    // Because the stream tells of another state, which the store is told.
    let told = begun(&other, ANN, &opening("told"), false).await;
    give(&one, "/tasks/agent/told", "key:bob").await;
    let done = task_event("1", "told").replace("WORKING", "INPUT_REQUIRED");
    streams.tell(&done).await;
    assert_eq!(read(told).await, (done, false));
    ended(&other, 2).await;
    assert_eq!(get(other.admin, "/tasks/agent/told").await.json()["owner"], "key:bob");
}
