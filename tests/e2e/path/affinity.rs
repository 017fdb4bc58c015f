//! A task's calls go to the endpoint that holds it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::harness::agent::{self, Agent, Received, Reply, event};
use crate::harness::{Answer, Gateway, config_of, eventually, get, of_task, post, send, with_upstream};

async fn replicas() -> (Agent, Agent) {
    let make = |name: &'static str| {
        let count = AtomicUsize::new(0);
        agent::tasks(move || format!("{name}-{}", count.fetch_add(1, Ordering::SeqCst)))
    };
    (Agent::start(make("a")).await, Agent::start(make("b")).await)
}

#[tokio::test]
async fn calls_follow_their_task_and_its_context() {
    let (a, b) = replicas().await;
    let gateway = Gateway::of(&[a.address, b.address], "", "").await;
    let mut tasks = Vec::new();
    for _ in 0..40 {
        let made = post(gateway.address, "/agent", &send("1", "x")).await.json();
        tasks.push(made["result"]["task"]["id"].as_str().unwrap().to_owned());
    }
    assert!(
        tasks.iter().any(|task| task.starts_with('a')) && tasks.iter().any(|task| task.starts_with('b')),
        "both work"
    );
    for task in &tasks {
        let home = if task.starts_with('a') { &a } else { &b };
        for method in ["GetTask", "CancelTask"] {
            let before = home.received().len();
            let got = post(gateway.address, "/agent", &of_task(method, task)).await;
            assert_eq!(got.json()["result"]["id"], task.as_str(), "{method} {task}");
            assert_eq!(home.received().len(), before + 1, "{method} {task} went home");
        }
        let push = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"GetTaskPushNotificationConfig","params":{{"taskId":"{task}","id":"other"}}}}"#
        );
        let before = home.received().len();
        post(gateway.address, "/agent", &push).await;
        assert_eq!(
            home.received().len(),
            before + 1,
            "push calls follow the task, not the configuration id"
        );
        let again = send("1", "x").replace("\"messageId\"", &format!("\"contextId\":\"ctx-{task}\",\"messageId\""));
        let made = post(gateway.address, "/agent", &again).await.json();
        let id = made["result"]["task"]["id"].as_str().unwrap();
        assert_eq!(
            id.as_bytes()[0],
            task.as_bytes()[0],
            "the conversation stays where it began"
        );
    }
}

#[tokio::test]
async fn a_task_and_a_context_of_two_endpoints_are_refused() {
    let (a, b) = replicas().await;
    let gateway = Gateway::of(&[a.address, b.address], "", "").await;
    let (mut of_a, mut of_b) = (None, None);
    while of_a.is_none() || of_b.is_none() {
        let made = post(gateway.address, "/agent", &send("1", "x")).await.json();
        let id = made["result"]["task"]["id"].as_str().unwrap().to_owned();
        if id.starts_with('a') {
            of_a = Some(id)
        } else {
            of_b = Some(id)
        }
    }
    let before = a.received().len() + b.received().len();
    let ids = format!(
        "\"taskId\":\"{}\",\"contextId\":\"ctx-{}\",\"messageId\"",
        of_a.unwrap(),
        of_b.unwrap()
    );
    let got = post(
        gateway.address,
        "/agent",
        &send("1", "x").replace("\"messageId\"", &ids),
    )
    .await;
    assert_eq!((got.status, got.code()), (200, -32602), "{}", got.text());
    assert_eq!(a.received().len() + b.received().len(), before, "no agent was asked");
}

#[tokio::test]
async fn a_known_task_never_falls_back_to_another_endpoint() {
    let (a, b) = replicas().await;
    let gateway = Gateway::of(&[a.address, b.address], "", "").await;
    let mut of_b = None;
    while of_b.is_none() {
        let made = post(gateway.address, "/agent", &send("1", "x")).await.json();
        of_b = made["result"]["task"]["id"]
            .as_str()
            .filter(|id| id.starts_with('b'))
            .map(str::to_owned);
    }
    let task = of_b.unwrap();
    drop(b);
    let calls = a.received().len();
    // Idle connections to the dead endpoint end with it; from then on nobody answers there.
    eventually("the owner is unavailable", || async {
        let got = post(gateway.address, "/agent", &of_task("CancelTask", &task)).await;
        got.status == 503 && got.header("retry-after").is_some()
    })
    .await;
    assert_eq!(a.received().len(), calls, "nobody else was asked");
    assert_eq!(
        get(gateway.admin, &format!("/tasks/agent/{task}")).await.status,
        200,
        "the record stays"
    );
}

// Conversations that callers begin: their ids are known to nobody before the first answer.

/// Answers that the test gives, in the order of the calls; of several agents all calls wait here.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<Vec<Wait>>>);

type Wait = (Received, oneshot::Sender<String>);

impl Waiting {
    fn script(&self) -> impl Fn(&Received) -> Reply + Send + Sync + use<> {
        let waiting = self.0.clone();
        move |request| {
            let (answer, later) = oneshot::channel();
            waiting.lock().unwrap().push((request.clone(), answer));
            Reply::Later(later)
        }
    }

    async fn count(&self, count: usize) {
        eventually("the agents have the calls", || async {
            self.0.lock().unwrap().len() == count
        })
        .await;
    }

    /// Answers every call that waits with what `answer` makes of it.
    fn release(&self, answer: impl Fn(&Received) -> String) {
        for (request, waits) in self.0.lock().unwrap().drain(..) {
            waits.send(answer(&request)).expect("the caller waits");
        }
    }
}

fn in_context(context: &str) -> String {
    send("1", "x").replace("\"messageId\"", &format!("\"contextId\":\"{context}\",\"messageId\""))
}

/// A task in the context that the call names.
fn made(request: &Received) -> String {
    let call = request.json();
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"task":{{"id":"t-{}","contextId":{},"status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#,
        call["id"],
        fastrand::u64(..),
        call["params"]["message"]["contextId"]
    )
}

fn refusal(request: &Received) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32603,"message":"no"}}}}"#,
        request.json()["id"]
    )
}

fn posted(address: SocketAddr, body: &str) -> tokio::task::JoinHandle<Answer> {
    let body = body.to_owned();
    tokio::spawn(async move { post(address, "/agent", &body).await })
}

/// Two endpoints that take turns, so that a second call goes to the other one unless something holds it.
async fn taking_turns() -> (Agent, Agent, Gateway, Waiting) {
    let waiting = Waiting::default();
    let (a, b) = (
        Agent::start(waiting.script()).await,
        Agent::start(waiting.script()).await,
    );
    let yaml = with_upstream(&config_of(&[a.address, b.address], "", ""), "balance: round_robin");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    (a, b, gateway, waiting)
}

#[tokio::test]
async fn calls_that_begin_one_conversation_at_once_go_to_one_endpoint() {
    let (a, b, gateway, waiting) = taking_turns().await;
    let mut calls = Vec::new();
    for count in 1..=5 {
        calls.push(posted(gateway.address, &in_context("new")));
        waiting.count(count).await;
    }
    let (of_a, of_b) = (a.received().len(), b.received().len());
    assert!(
        of_a == 0 || of_b == 0,
        "{of_a} calls of one conversation here and {of_b} there"
    );
    waiting.release(made);
    for call in calls {
        assert_eq!(call.await.unwrap().status, 200);
    }
    // What the answers taught holds them there from now on.
    let later = posted(gateway.address, &in_context("new"));
    waiting.count(1).await;
    waiting.release(made);
    assert_eq!(later.await.unwrap().status, 200);
    assert!(a.received().is_empty() || b.received().is_empty());
    assert_eq!(gateway.metric("a2a_gateway_owner_conflicts_total").await, 0.0);
}

#[tokio::test]
async fn different_conversations_do_not_wait_for_each_other() {
    let (a, b, gateway, waiting) = taking_turns().await;
    let calls = [
        posted(gateway.address, &in_context("one")),
        posted(gateway.address, &in_context("two")),
    ];
    waiting.count(2).await;
    assert_eq!((a.received().len(), b.received().len()), (1, 1), "both endpoints work");
    waiting.release(made);
    for call in calls {
        assert_eq!(call.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_call_that_ended_without_a_conversation_holds_nobody_to_its_endpoint() {
    let (a, b, gateway, waiting) = taking_turns().await;
    for _ in 0..2 {
        let call = posted(gateway.address, &in_context("refused"));
        waiting.count(1).await;
        waiting.release(refusal);
        assert_eq!(call.await.unwrap().code(), -32603);
    }
    assert_eq!(
        (a.received().len(), b.received().len()),
        (1, 1),
        "the next call was free"
    );
}

#[tokio::test]
async fn a_call_that_is_tried_elsewhere_takes_its_conversation_along() {
    let waiting = Waiting::default();
    let (a, b) = (
        Agent::start(waiting.script()).await,
        Agent::start(waiting.script()).await,
    );
    // Nobody listens here.
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = socket.local_addr().unwrap();
    drop(socket);
    let yaml = with_upstream(
        &config_of(&[dead, a.address, b.address], "", ""),
        "balance: round_robin",
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    for round in 0..6 {
        let context = format!("c{round}");
        let before = (a.received().len(), b.received().len());
        let mut calls = Vec::new();
        // Two: with three, every first call could find the same turn of three endpoints.
        for count in 1..=2 {
            calls.push(posted(gateway.address, &in_context(&context)));
            waiting.count(count).await;
        }
        let new = (a.received().len() - before.0, b.received().len() - before.1);
        assert!(new == (2, 0) || new == (0, 2), "{context}: {new:?}");
        waiting.release(made);
        for call in calls {
            assert_eq!(call.await.unwrap().status, 200);
        }
    }
    assert!(
        gateway.metric("a2a_gateway_upstream_retries_total").await >= 1.0,
        "the dead endpoint was chosen now and then"
    );
}

#[tokio::test]
async fn a_stream_holds_its_conversation_until_it_has_told_of_it() {
    let make = || async {
        let streams: Arc<Mutex<Vec<mpsc::Sender<Option<String>>>>> = Arc::default();
        let kept = streams.clone();
        let agent = Agent::start(move |_| {
            let (events, chunks) = mpsc::channel(4);
            kept.lock().unwrap().push(events);
            Reply::Stream(chunks)
        })
        .await;
        (agent, streams)
    };
    let ((a, of_a), (b, of_b)) = (make().await, make().await);
    let yaml = with_upstream(&config_of(&[a.address, b.address], "", ""), "balance: round_robin");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let received = |count: usize| {
        let (a, b) = (&a, &b);
        async move {
            eventually("the agents have the calls", || async {
                a.received().len() + b.received().len() == count
            })
            .await;
            (a.received().len(), b.received().len())
        }
    };
    let body = |context: &str| in_context(context).replace("SendMessage", "SendStreamingMessage");

    // Ended without an event: the next call of the conversation is free.
    let first = posted(gateway.address, &body("ended"));
    received(1).await;
    of_a.lock().unwrap().clear();
    of_b.lock().unwrap().clear();
    assert_eq!(first.await.unwrap().status, 200);
    let second = posted(gateway.address, &body("ended"));
    assert_eq!(received(2).await, (1, 1));
    of_a.lock().unwrap().clear();
    of_b.lock().unwrap().clear();
    assert_eq!(second.await.unwrap().status, 200);

    // While the first event is awaited, and after it.
    let mut calls = vec![posted(gateway.address, &body("open"))];
    let before = received(3).await;
    calls.push(posted(gateway.address, &body("open")));
    let after = received(4).await;
    assert!(
        after == (before.0 * 2 - 1, 1) || after == (1, before.1 * 2 - 1),
        "{before:?} {after:?}"
    );
    let task = event(
        "1",
        r#"{"task":{"id":"t","contextId":"open","status":{"state":"TASK_STATE_WORKING"}}}"#,
    );
    let open: Vec<_> = of_a
        .lock()
        .unwrap()
        .iter()
        .chain(&*of_b.lock().unwrap())
        .cloned()
        .collect();
    for stream in open {
        stream.send(Some(task.clone())).await.unwrap();
    }
    eventually("the record is there", || async {
        get(gateway.admin, "/tasks/agent/t").await.status == 200
    })
    .await;
    calls.push(posted(gateway.address, &body("open")));
    let last = received(5).await;
    assert!(last.0 == 1 || last.1 == 1, "{last:?}");
    of_a.lock().unwrap().clear();
    of_b.lock().unwrap().clear();
    for call in calls {
        assert_eq!(call.await.unwrap().status, 200);
    }
}
