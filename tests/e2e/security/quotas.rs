//! Quotas that know A2A: how many tasks a caller has open and begins, how often it polls, and how many bytes it moves. Periods
//! are long and budgets small, so that nothing comes back while a test runs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};

use crate::harness::agent::{event, task_event};
use crate::harness::client::{open, read};
use crate::harness::{Agent, Answer, Gateway, Reply, config_of, eventually, of_task, send};
use crate::path::ownership::{ANN, BOB, by, with_keys};

/// The code of a refusal with this status.
const LIMITED: i64 = -31429;

/// An agent that begins a task unless the text says something else. Tasks have ended when somebody asks for them.
struct Site {
    gateway: Gateway,
    agent: Agent,
    yaml: String,
    late: Arc<Mutex<VecDeque<oneshot::Receiver<String>>>>,
    streams: Arc<Mutex<VecDeque<mpsc::Receiver<Option<String>>>>>,
}

impl Site {
    async fn start(limits: &str) -> Self {
        Self::with(limits, |yaml| yaml).await
    }

    async fn with(limits: &str, change: impl Fn(String) -> String) -> Self {
        let late = Arc::<Mutex<VecDeque<oneshot::Receiver<String>>>>::default();
        let streams = Arc::<Mutex<VecDeque<mpsc::Receiver<Option<String>>>>>::default();
        let (waiting, feeds, count) = (late.clone(), streams.clone(), AtomicUsize::new(0));
        let agent = Agent::start(move |request| {
            let call = request.json();
            let id = &call["id"];
            let text = call["params"]["message"]["parts"][0]["text"]
                .as_str()
                .unwrap_or_default();
            let named = call["params"]["message"]["taskId"]
                .as_str()
                .or(call["params"]["id"].as_str());
            let task = named.map_or_else(|| format!("t-{}", count.fetch_add(1, Ordering::SeqCst)), str::to_owned);
            match (call["method"].as_str().unwrap_or_default(), text) {
                ("SendMessage", "message") => {
                    Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{MESSAGE}}}"#))
                }
                ("SendMessage", "error") => Reply::Json(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no"}}}}"#
                )),
                ("SendMessage", "late") => Reply::Later(waiting.lock().unwrap().pop_front().expect("one is late")),
                ("SendMessage", text) => Reply::Json(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{}}}}}"#,
                    state(&task, if text == "done" { "COMPLETED" } else { "WORKING" })
                )),
                ("SendStreamingMessage", _) => Reply::Stream(feeds.lock().unwrap().pop_front().expect("a stream")),
                ("CancelTask", _) => Reply::Json(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#,
                    state(&task, "CANCELED")
                )),
                _ => Reply::Json(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#,
                    state(&task, "COMPLETED")
                )),
            }
        })
        .await;
        let yaml = config_of(&[agent.address], &format!("limits: [ {limits} ]"), "");
        let yaml = change(with_keys(&yaml));
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        Self {
            gateway,
            agent,
            yaml,
            late,
            streams,
        }
    }

    async fn send(&self, key: &str, text: &str) -> Answer {
        by(key, &self.gateway, &send("1", text)).await
    }

    /// Sends what begins a task, and gives its name.
    async fn begin(&self, key: &str) -> String {
        let answer = self.send(key, "work").await;
        let task = answer.json()["result"]["task"]["id"].as_str().map(str::to_owned);
        task.unwrap_or_else(|| panic!("no task: {}", answer.text()))
    }

    async fn ask(&self, key: &str, method: &str, task: &str) -> Answer {
        by(key, &self.gateway, &of_task(method, task)).await
    }

    async fn stream(&self, key: &str) -> (http::Response<hyper::body::Incoming>, mpsc::Sender<Option<String>>) {
        let (events, feed) = mpsc::channel(64);
        self.streams.lock().unwrap().push_back(feed);
        let fields = [("X-API-Key", key), ("content-type", "application/json")];
        let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
        let response = open(self.gateway.address, "POST", "/agent", &fields, &body).await;
        (response, events)
    }

    async fn reached(&self, kind: &str) -> f64 {
        let line = format!(r#"a2a_gateway_limits_reached_total{{agent="agent",kind="{kind}"}}"#);
        self.gateway.metric(&line).await
    }
}

const MESSAGE: &str = r#"{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}"#;

fn state(task: &str, state: &str) -> String {
    format!(r#"{{"id":"{task}","contextId":"ctx-{task}","status":{{"state":"TASK_STATE_{state}"}}}}"#)
}

fn to_task(task: &str) -> String {
    send("1", "more").replace(r#""messageId""#, &format!(r#""taskId":"{task}","messageId""#))
}

/// Refused with everything that a caller needs to know of the limit.
#[track_caller]
fn limited(answer: &Answer, policy: &str) {
    assert_eq!((answer.status, answer.code()), (429, LIMITED), "{}", answer.text());
    assert_eq!(answer.header("ratelimit-policy"), Some(policy));
    let wait = answer.header("retry-after").expect("Retry-After").parse::<u64>();
    assert!(wait.expect("seconds") > 0);
}

#[tokio::test]
async fn an_end_of_a_task_frees_its_place() {
    let site = Site::start("{ per: principal, open_tasks: 2 }").await;
    let policy = "\"principal-open-tasks\";q=2;qu=\"open-tasks\"";
    let tasks = [site.begin(ANN).await, site.begin(ANN).await];
    let answer = site.send(ANN, "work").await;
    limited(&answer, policy);
    assert_eq!(answer.header("ratelimit"), Some("\"principal-open-tasks\";r=0"));
    assert_eq!(answer.json()["id"], 1, "the call is known");
    assert_eq!(site.agent.received().len(), 2, "nothing of it reached the agent");
    site.begin(BOB).await;
    let more = by(ANN, &site.gateway, &to_task(&tasks[0])).await;
    assert_eq!(more.status, 200, "it begins none: {}", more.text());
    limited(&site.send(ANN, "work").await, policy);
    for (method, task) in ["GetTask", "CancelTask"].into_iter().zip(&tasks) {
        assert_eq!(site.ask(ANN, method, task).await.status, 200);
        site.begin(ANN).await;
        limited(&site.send(ANN, "work").await, policy);
    }
    assert_eq!(site.reached("open_tasks").await, 4.0);
}

#[tokio::test]
async fn what_began_no_task_gives_its_place_back() {
    let site = Site::start("{ per: principal, open_tasks: 1 }").await;
    for text in ["message", "error", "done", "message", "error", "done"] {
        assert_eq!(site.send(ANN, text).await.status, 200, "{text}");
    }
    site.begin(ANN).await;
    assert_eq!(
        site.send(ANN, "message").await.status,
        429,
        "nobody knows yet what it begins"
    );
}

#[tokio::test]
async fn of_two_sends_at_once_one_gets_the_last_place() {
    let site = Site::start("{ per: principal, open_tasks: 1 }").await;
    let (answer, late) = oneshot::channel();
    site.late.lock().unwrap().push_back(late);
    let address = site.gateway.address;
    let first = tokio::spawn(async move {
        let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
        crate::harness::call(address, "POST", "/agent", &fields, &send("1", "late")).await
    });
    eventually("the first is at the agent", || async {
        site.agent.received().len() == 1
    })
    .await;
    assert_eq!(site.send(ANN, "work").await.status, 429);
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{MESSAGE}}}"#);
    answer.send(message).expect("the agent waits");
    assert_eq!(first.await.expect("no panic").status, 200);
    site.begin(ANN).await;
}

#[tokio::test]
async fn a_caller_who_leaves_has_its_task_open_until_somebody_hears_of_its_end() {
    let site = Site::start("{ per: principal, open_tasks: 1 }").await;
    let (mut response, events) = site.stream(ANN).await;
    events.send(Some(task_event("1", "left"))).await.expect("a stream");
    let first = response.body_mut().frame().await.expect("an event");
    assert!(first.is_ok());
    drop(response);
    eventually("the agent's stream has ended", || async { events.is_closed() }).await;
    assert_eq!(site.send(ANN, "work").await.status, 429);
    assert_eq!(site.ask(ANN, "GetTask", "left").await.status, 200);
    let task = site.begin(ANN).await;
    assert_eq!(site.ask(ANN, "CancelTask", &task).await.status, 200);
    // Who leaves before it was told of a task has none.
    let (response, events) = site.stream(ANN).await;
    assert_eq!(site.send(ANN, "work").await.status, 429);
    drop(response);
    eventually("the place is free", || async {
        site.send(ANN, "done").await.status == 200
    })
    .await;
    assert!(events.is_closed());
}

#[tokio::test]
async fn an_event_that_tells_of_the_end_frees_the_place_while_the_stream_is_open() {
    let site = Site::start("{ per: principal, open_tasks: 1 }").await;
    let (mut response, events) = site.stream(ANN).await;
    events.send(Some(task_event("1", "t"))).await.expect("a stream");
    assert!(response.body_mut().frame().await.expect("an event").is_ok());
    assert_eq!(site.send(ANN, "work").await.status, 429);
    let end = r#"{"statusUpdate":{"taskId":"t","contextId":"ctx-t","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    events.send(Some(event("1", end))).await.expect("a stream");
    assert!(response.body_mut().frame().await.expect("an event").is_ok());
    site.begin(ANN).await;
}

#[tokio::test]
async fn open_tasks_are_known_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("state: {{ store: embedded, path: \"{}\" }}", folder.path().display());
    let limits = "{ per: principal, open_tasks: 2 }";
    let mut site = Site::with(limits, |yaml| yaml.replace("state: { store: memory }", &store)).await;
    let tasks = [site.begin(ANN).await, site.begin(ANN).await];
    site.begin(BOB).await;
    assert!(site.gateway.shutdown().await);
    site.gateway = Gateway::start(&site.yaml).await;
    site.gateway.ready().await;
    assert_eq!(site.send(ANN, "work").await.status, 429);
    site.begin(BOB).await;
    assert_eq!(site.send(BOB, "work").await.status, 429);
    assert_eq!(site.ask(ANN, "GetTask", &tasks[0]).await.status, 200);
    site.begin(ANN).await;
    assert_eq!(site.send(ANN, "work").await.status, 429);
}

#[tokio::test]
async fn a_task_that_is_given_away_counts_for_who_has_it() {
    let site = Site::start("{ per: principal, open_tasks: 1 }").await;
    let task = site.begin(ANN).await;
    assert_eq!(site.send(ANN, "work").await.status, 429);
    let path = format!("/tasks/agent/{task}/owner");
    let json = [("content-type", "application/json")];
    let given = crate::harness::call(site.gateway.admin, "POST", &path, &json, r#"{"owner":"key:bob"}"#).await;
    assert_eq!(given.status, 200, "{}", given.text());
    assert_eq!(site.send(BOB, "work").await.status, 429);
    site.begin(ANN).await;
    assert_eq!(site.ask(BOB, "CancelTask", &task).await.status, 200);
    site.begin(BOB).await;
    assert_eq!(site.send(ANN, "work").await.status, 429);
}

#[tokio::test]
async fn the_narrow_limit_is_asked_before_the_wide_one() {
    let limits =
        "{ per: agent, task_creations: 3/h }, { per: agent, open_tasks: 9 }, { per: principal, open_tasks: 1 }";
    let site = Site::start(limits).await;
    site.begin(ANN).await;
    for _ in 0..5 {
        limited(
            &site.send(ANN, "work").await,
            "\"principal-open-tasks\";q=1;qu=\"open-tasks\"",
        );
    }
    // Ann's refusals have cost nothing of what all may begin.
    assert_eq!(site.send(BOB, "done").await.status, 200);
    assert_eq!(site.send(BOB, "done").await.status, 200);
    limited(&site.send(BOB, "done").await, "\"agent-task-creations\";q=3;w=3600");
}

#[tokio::test]
async fn only_sends_that_name_no_task_are_creations() {
    let site = Site::start("{ per: principal, task_creations: 2/h }").await;
    let policy = "\"principal-task-creations\";q=2;w=3600";
    let task = site.begin(ANN).await;
    site.begin(ANN).await;
    limited(&site.send(ANN, "work").await, policy);
    let streaming = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    limited(&by(ANN, &site.gateway, &streaming).await, policy);
    assert_eq!(by(ANN, &site.gateway, &to_task(&task)).await.status, 200);
    assert_eq!(site.ask(ANN, "GetTask", &task).await.status, 200);
    site.begin(BOB).await;
    assert_eq!(site.reached("task_creations").await, 2.0);
}

#[tokio::test]
async fn gets_and_lists_are_polls() {
    let site = Site::start("{ per: principal, polls: 2/h }").await;
    let task = site.begin(ANN).await;
    for _ in 0..2 {
        assert_eq!(site.ask(ANN, "GetTask", &task).await.status, 200);
    }
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}"#;
    let policy = "\"principal-polls\";q=2;w=3600";
    limited(&site.ask(ANN, "GetTask", &task).await, policy);
    limited(&by(ANN, &site.gateway, list).await, policy);
    assert_eq!(site.ask(ANN, "CancelTask", &task).await.status, 200);
    site.begin(ANN).await;
    assert_eq!(site.reached("polls").await, 2.0);
}

#[tokio::test]
async fn bytes_of_requests_are_charged_as_they_are_read() {
    let site = Site::start("{ per: principal, bytes_in: 2KiB/h }").await;
    let policy = "\"principal-bytes-in\";q=2048;qu=\"content-bytes\";w=3600";
    assert_eq!(site.send(ANN, "done").await.status, 200, "within the budget");
    assert_eq!(site.send(ANN, &"x".repeat(4000)).await.status, 200, "something is left");
    limited(&site.send(ANN, "done").await, policy);
    // What is no call was read all the same.
    assert_eq!(by(BOB, &site.gateway, &"{".repeat(3000)).await.status, 200);
    limited(&site.send(BOB, "done").await, policy);
    assert_eq!(site.reached("bytes_in").await, 2.0);
}

#[tokio::test]
async fn a_stream_goes_on_past_the_budget_of_bytes_and_nothing_comes_after_it() {
    let site = Site::start("{ per: principal, bytes_out: 4KiB/h }").await;
    let policy = "\"principal-bytes-out\";q=4096;qu=\"content-bytes\";w=3600";
    let (response, events) = site.stream(ANN).await;
    events.send(Some(task_event("1", "t"))).await.expect("a stream");
    let text = "x".repeat(2000);
    let artifact = format!(
        r#"{{"artifactUpdate":{{"taskId":"t","contextId":"ctx-t","artifact":{{"artifactId":"a","parts":[{{"text":"{text}"}}]}}}}}}"#
    );
    for _ in 0..8 {
        events.send(Some(event("1", &artifact))).await.expect("a stream");
    }
    drop(events);
    let (text, clean) = read(response).await;
    assert!(clean && text.len() > 16_000, "{}", text.len());
    limited(&site.send(ANN, "done").await, policy);
    limited(&site.ask(ANN, "GetTask", "t").await, policy);
    assert_eq!(site.send(BOB, "done").await.status, 200);
    assert_eq!(site.reached("bytes_out").await, 2.0);
}

#[tokio::test]
async fn a_budget_of_bytes_may_be_about_some_operations() {
    let site = Site::start("{ per: agent, bytes_out: 1B/h, operations: [ get ] }").await;
    let task = site.begin(ANN).await;
    site.begin(ANN).await;
    assert_eq!(site.ask(ANN, "GetTask", &task).await.status, 200);
    let policy = "\"agent-bytes-out\";q=1;qu=\"content-bytes\";w=3600";
    limited(&site.ask(ANN, "GetTask", &task).await, policy);
    site.begin(BOB).await;
}
