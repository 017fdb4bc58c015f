//! Agents that tell a webhook of a task before they answer the call that makes it, where tasks have owners.

use std::sync::Mutex;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::ownership::{ANN, BOB, by};
use super::push::{given, message_0_3, notify, old, secret, shared, task_0_3, task_1_0, told, webhook};
use crate::harness::agent::{Agent, Reply, task_event};
use crate::harness::client::open;
use crate::harness::{Gateway, eventually, get};

/// An agent that answers its one call so, which makes task `t1`. It knows that task from then on.
async fn slow(reply: Reply) -> Agent {
    let reply = Mutex::new(Some(reply));
    Agent::start(move |request| {
        let asked = request.json();
        let result = |result: &Value| {
            let id = request.id();
            Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
        };
        let mut reply = reply.lock().expect("the reply");
        match asked["method"].as_str().unwrap_or_default() {
            "SendMessage" | "SendStreamingMessage" => reply.take().expect("one call"),
            "GetTask" if asked["params"]["id"] == "t1" && reply.is_none() => {
                result(&task_1_0("t1", "TASK_STATE_WORKING"))
            }
            "GetTask" => Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32001,"message":"Task not found"}}}}"#,
                request.id()
            )),
            other => panic!("{other}"),
        }
    })
    .await
}

fn sending(method: &str, hook: &Agent) -> String {
    let configuration = json!({"pushNotificationConfig": secret(hook)});
    old(
        method,
        &json!({"message": message_0_3(), "configuration": configuration}),
    )
}

fn working(task: &str) -> Value {
    json!({"task": task_1_0(task, "TASK_STATE_WORKING")})
}

async fn called(agent: &Agent) -> String {
    eventually("the agent is called", || async { !agent.received().is_empty() }).await;
    given(agent)
}

async fn status_of(gateway: &Gateway, path: &str, body: &Value) -> u16 {
    notify(gateway, path, body).await.status
}

#[tokio::test]
async fn a_webhook_hears_of_a_task_before_its_call_is_answered() {
    let (release, answer) = oneshot::channel();
    let (agent, hook) = (slow(Reply::Later(answer)).await, webhook().await);
    let gateway = shared(&[&agent]).await;
    let telling = async {
        let path = called(&agent).await;
        let status = json!({"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
        assert_eq!(status_of(&gateway, &path, &json!({"statusUpdate": status})).await, 200);
        assert_eq!(told(&hook).json(), task_0_3("t1", "working"));
        assert_eq!(status_of(&gateway, &path, &working("t1")).await, 200);
        // A call makes one task.
        assert_eq!(status_of(&gateway, &path, &working("t2")).await, 503);
        assert_eq!(hook.received().len(), 2);
        let record = get(gateway.admin, "/tasks/agent/t1").await.json();
        assert_eq!(record["owner"], "key:ann", "{record}");
        let task = task_1_0("t1", "TASK_STATE_COMPLETED");
        let answer = json!({"jsonrpc": "2.0", "id": 7, "result": {"task": task}});
        release.send(answer.to_string()).expect("the agent waits");
        path
    };
    let call = sending("message/send", &hook);
    let (sent, path) = tokio::join!(by(ANN, &gateway, &call), telling);
    assert_eq!(sent.json()["result"], task_0_3("t1", "completed"), "{}", sent.text());
    assert_eq!(status_of(&gateway, &path, &working("t1")).await, 200, "it has a record");
    let get = old("tasks/get", &json!({"id": "t1"}));
    assert_eq!(by(ANN, &gateway, &get).await.json()["result"]["id"], "t1");
    assert_eq!(by(BOB, &gateway, &get).await.code(), -32001);
}

#[tokio::test]
async fn after_its_call_an_address_vouches_for_nothing() {
    let (release, answer) = oneshot::channel();
    let (agent, hook) = (slow(Reply::Later(answer)).await, webhook().await);
    let gateway = shared(&[&agent]).await;
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]});
    let answer = json!({"jsonrpc": "2.0", "id": 7, "result": {"message": message}});
    release.send(answer.to_string()).expect("the agent waits");
    let sent = by(ANN, &gateway, &sending("message/send", &hook)).await;
    assert_eq!(sent.json()["result"]["kind"], "message", "{}", sent.text());
    let path = given(&agent);
    let early = notify(&gateway, &path, &working("t1")).await;
    assert_eq!(
        (early.status, early.header("retry-after")),
        (503, Some("1")),
        "{}",
        early.text()
    );
    assert_eq!(hook.received().len(), 0);
}

#[tokio::test]
async fn a_webhook_hears_of_a_task_before_its_stream_begins() {
    let (events, stream) = mpsc::channel(4);
    let (agent, hook) = (slow(Reply::Stream(stream)).await, webhook().await);
    let gateway = shared(&[&agent]).await;
    let fields = [("x-api-key", ANN), ("content-type", "application/json")];
    let body = sending("message/stream", &hook);
    let opening = open(gateway.address, "POST", "/agent", &fields, &body);
    let telling = async {
        let path = called(&agent).await;
        assert_eq!(status_of(&gateway, &path, &working("t1")).await, 200);
        path
    };
    let (mut opened, path) = tokio::join!(opening, telling);
    events
        .send(Some(task_event("7", "t1")))
        .await
        .expect("the stream is read");
    let first = opened.body_mut().frame().await.expect("an event").expect("unbroken");
    let first = String::from_utf8_lossy(first.data_ref().expect("data")).into_owned();
    assert!(first.contains(r#""id":"t1""#), "{first}");
    // What it makes is known from its first event on.
    assert_eq!(status_of(&gateway, &path, &working("t2")).await, 503);
    assert_eq!(status_of(&gateway, &path, &working("t1")).await, 200);
    assert_eq!(hook.received().len(), 2);
}

#[tokio::test]
async fn a_task_that_is_told_of_early_belongs_to_the_endpoint_that_has_it() {
    let [(release, answer), (other_release, other_answer)] = [oneshot::channel(), oneshot::channel()];
    let agents = [slow(Reply::Later(answer)).await, slow(Reply::Later(other_answer)).await];
    let hook = webhook().await;
    let gateway = shared(&[&agents[0], &agents[1]]).await;
    let telling = async {
        let is_called = || async { agents.iter().any(|agent| !agent.received().is_empty()) };
        eventually("one of the agents is called", is_called).await;
        let (agent, release) = match agents[0].received().is_empty() {
            false => (&agents[0], release),
            true => (&agents[1], other_release),
        };
        let path = given(agent);
        assert_eq!(status_of(&gateway, &path, &working("t1")).await, 200);
        let record = get(gateway.admin, "/tasks/agent/t1").await.json();
        assert_eq!(record["endpoint"], format!("http://{}/", agent.address), "{record}");
        let answer = json!({"jsonrpc": "2.0", "id": 7, "result": {"task": task_1_0("t1", "TASK_STATE_WORKING")}});
        release.send(answer.to_string()).expect("the agent waits");
    };
    let call = sending("message/send", &hook);
    let (sent, ()) = tokio::join!(by(ANN, &gateway, &call), telling);
    assert_eq!(sent.json()["result"]["id"], "t1", "{}", sent.text());
    assert_eq!(hook.received().len(), 1);
}
