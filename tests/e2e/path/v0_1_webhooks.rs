//! Notifications of agents of later generations at webhooks of callers of A2A 0.1, over the gateway.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::ownership::{ANN, BOB, by, yaml};
use super::push::{given, notify, push, secret, told, webhook};
use super::v0_1::{STRICT, Speaks, about, not_found, result, rpc, send_to};
use crate::harness::agent::{Agent, Received, Reply};
use crate::harness::{Gateway, eventually, get};

/// Remembers the webhook that was set last, and tells it in its answers; a task that is asked for is completed.
async fn keeping(speaks: Speaks) -> Agent {
    let (count, hook) = (AtomicUsize::new(0), Mutex::default());
    Agent::with_card(speaks.card(), move |request| answer(speaks, request, &count, &hook)).await
}

fn answer(speaks: Speaks, request: &Received, count: &AtomicUsize, hook: &Mutex<Value>) -> Reply {
    let call = request.json();
    let mut hook = hook.lock().unwrap();
    let result = match call["method"].as_str().unwrap_or_default() {
        "CreateTaskPushNotificationConfig" | "tasks/pushNotificationConfig/set" => {
            *hook = call["params"].clone();
            hook.clone()
        }
        "GetTaskPushNotificationConfig" | "tasks/pushNotificationConfig/get" => hook.clone(),
        "GetTask" | "tasks/get" => {
            speaks.task(call["params"]["id"].as_str().unwrap_or_default(), "theirs", "completed")
        }
        _ => return speaks.answer(request, count),
    };
    Reply::Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": result}).to_string())
}

/// One of 1.0 that answers its first call, which makes the task `theirs-0`, when it is told to.
async fn slow() -> (Agent, oneshot::Sender<String>) {
    let (release, later) = oneshot::channel();
    let (count, hook, later) = (AtomicUsize::new(1), Mutex::default(), Mutex::new(Some(later)));
    let agent = Agent::start(move |request| match later.lock().unwrap().take() {
        Some(later) => Reply::Later(later),
        None => answer(Speaks::V1_0, request, &count, &hook),
    });
    (agent.await, release)
}

async fn start(agent: &Agent) -> Gateway {
    let gateway = Gateway::start(&format!("{}{}\n", yaml(&[agent.address], STRICT), push(""))).await;
    gateway.ready().await;
    gateway
}

/// The webhook as callers of 0.1 have it.
fn config(hook: &Agent) -> Value {
    let mut config = secret(hook);
    config.as_object_mut().unwrap().remove("id");
    config
}

fn with_webhook(send: &str, config: &Value) -> String {
    let mut call: Value = serde_json::from_str(send).unwrap();
    call["params"]["pushNotification"] = config.clone();
    call.to_string()
}

fn set(task: &str, config: &Value) -> String {
    rpc(
        "tasks/pushNotification/set",
        &json!({"id": task, "pushNotificationConfig": config}),
    )
}

/// What the webhook is told of the task that its caller calls `mine`.
fn check_told(hook: &Agent, session: &str, state: &str) {
    let received = hook.received().pop().expect("a notification");
    assert_eq!(
        received.json(),
        json!({"id": "mine", "sessionId": session, "status": {"state": state}})
    );
    assert_eq!(received.field("content-type"), Some("application/json"));
    assert_eq!(received.field("x-a2a-notification-token"), Some("s3cret"));
    assert_eq!(received.field("authorization"), Some("Bearer hunter2"));
    assert_eq!(received.field("a2a-version"), None);
}

#[tokio::test]
async fn a_webhook_of_a_send_is_told_of_the_task_under_its_callers_name() {
    for speaks in [Speaks::V0_3, Speaks::V1_0] {
        let (agent, hook) = (keeping(speaks).await, webhook().await);
        let gateway = start(&agent).await;
        let sent = by(ANN, &gateway, &with_webhook(&send_to("mine", "x"), &config(&hook))).await;
        assert_eq!(result(&sent)["id"], "mine", "{speaks:?}: {}", sent.text());
        let path = given(&agent);
        let posted = speaks.told(speaks.task("theirs-0", "my session", "working"));
        let notified = notify(&gateway, &path, &posted).await;
        assert_eq!(notified.status, 200, "{speaks:?}: {}", notified.text());
        check_told(&hook, "my session", "working");
        // What is no whole task is told as the task that the agent has by then.
        let update = speaks.update("theirs-0", "my session", "working");
        assert_eq!(notify(&gateway, &path, &update).await.status, 200, "{speaks:?}");
        check_told(&hook, "my session", "completed");
        let before = hook.received().len();
        let another = speaks.told(speaks.task("theirs-1", "my session", "working"));
        assert_ne!(notify(&gateway, &path, &another).await.status, 200, "{speaks:?}");
        assert_eq!(hook.received().len(), before, "{speaks:?}: of no other task");
    }
}

#[tokio::test]
async fn callers_set_a_webhook_for_their_task_and_see_it() {
    for speaks in [Speaks::V0_3, Speaks::V1_0] {
        let (agent, hook) = (keeping(speaks).await, webhook().await);
        let gateway = start(&agent).await;
        // One that names no session has that of the agent.
        let message = json!({"role": "user", "parts": [{"type": "text", "text": "x"}]});
        by(
            ANN,
            &gateway,
            &rpc("tasks/send", &json!({"id": "mine", "message": message})),
        )
        .await;
        let shown = json!({"id": "mine", "pushNotificationConfig": config(&hook)});
        let answered = by(ANN, &gateway, &set("mine", &config(&hook))).await;
        assert_eq!(result(&answered), shown, "{speaks:?}");
        let path = given(&agent);
        let got = by(ANN, &gateway, &about("tasks/pushNotification/get", "mine")).await;
        assert_eq!(result(&got), shown, "{speaks:?}");
        let asked = agent.received().pop().expect("a call").json()["params"].clone();
        let named = match speaks {
            Speaks::V0_3 => json!({"id": "theirs-0", "pushNotificationConfigId": "0.1"}),
            Speaks::V1_0 => json!({"taskId": "theirs-0", "id": "0.1"}),
        };
        assert_eq!(asked, named, "{speaks:?}");
        let posted = speaks.told(speaks.task("theirs-0", "theirs", "completed"));
        assert_eq!(notify(&gateway, &path, &posted).await.status, 200, "{speaks:?}");
        told(&hook);
        check_told(&hook, "theirs", "completed");
    }
}

#[tokio::test]
async fn a_webhook_for_no_task_of_the_callers_is_not_found() {
    let (agent, hook) = (keeping(Speaks::V1_0).await, webhook().await);
    let gateway = start(&agent).await;
    by(ANN, &gateway, &send_to("mine", "x")).await;
    let before = agent.received().len();
    for (key, task) in [(ANN, "another"), (BOB, "mine")] {
        for body in [set(task, &config(&hook)), about("tasks/pushNotification/get", task)] {
            assert_eq!(by(key, &gateway, &body).await.json(), not_found(), "{body}");
        }
    }
    assert_eq!(agent.received().len(), before);
    // Nothing is held for it.
    let sent = by(BOB, &gateway, &send_to("mine", "x").replace("my session", "another")).await;
    assert_eq!(result(&sent)["id"], "mine", "{}", sent.text());
}

#[tokio::test]
async fn a_webhook_is_told_before_its_send_is_answered() {
    let ((agent, release), hook) = (slow().await, webhook().await);
    let gateway = start(&agent).await;
    let send = with_webhook(&send_to("mine", "x"), &config(&hook));
    let telling = async {
        eventually("the agent is called", || async { !agent.received().is_empty() }).await;
        let (path, rpc) = (
            given(&agent),
            agent.received().pop().expect("a call").json()["id"].clone(),
        );
        // The name is one of a task that is being made.
        let early = by(ANN, &gateway, &set("mine", &config(&hook))).await;
        assert_eq!((early.status, early.code()), (409, -31409));
        let working = Speaks::V1_0.told(Speaks::V1_0.task("theirs-0", "my session", "working"));
        assert_eq!(notify(&gateway, &path, &working).await.status, 200);
        check_told(&hook, "my session", "working");
        // Whoever has heard of it may ask for it.
        assert_eq!(
            result(&by(ANN, &gateway, &about("tasks/get", "mine")).await)["id"],
            "mine"
        );
        assert_eq!(
            agent.received().pop().expect("a call").json()["params"]["id"],
            "theirs-0"
        );
        assert_eq!(by(BOB, &gateway, &about("tasks/get", "mine")).await.json(), not_found());
        let another = Speaks::V1_0.told(Speaks::V1_0.task("theirs-7", "my session", "working"));
        assert_ne!(notify(&gateway, &path, &another).await.status, 200, "it makes one task");
        let answer = json!({"jsonrpc": "2.0", "id": rpc, "result": working});
        release.send(answer.to_string()).expect("the agent waits");
    };
    let (sent, ()) = tokio::join!(by(ANN, &gateway, &send), telling);
    assert_eq!(result(&sent)["id"], "mine", "{}", sent.text());
    let record = get(gateway.admin, "/tasks/agent/theirs-0").await.json();
    assert_eq!(record["owner"], "key:ann", "{record}");
}

#[tokio::test]
async fn a_webhook_is_told_of_the_task_of_its_name_alone() {
    for speaks in [Speaks::V0_3, Speaks::V1_0] {
        let (agent, hook) = (keeping(speaks).await, webhook().await);
        let gateway = start(&agent).await;
        // Her own too: the webhook would take it for that of its name.
        by(ANN, &gateway, &send_to("old", "x")).await;
        by(ANN, &gateway, &with_webhook(&send_to("mine", "x"), &config(&hook))).await;
        let path = given(&agent);
        let done = speaks.told(speaks.task("theirs-0", "my session", "completed"));
        assert_eq!(notify(&gateway, &path, &done).await.status, 403, "{speaks:?}");
        let mut nameless = speaks.task("", "my session", "completed");
        assert_eq!(
            notify(&gateway, &path, &speaks.told(nameless.clone())).await.status,
            400
        );
        nameless.as_object_mut().unwrap().remove("id");
        assert_eq!(notify(&gateway, &path, &speaks.told(nameless)).await.status, 400);
        assert!(hook.received().is_empty(), "{speaks:?}");
        let done = speaks.told(speaks.task("theirs-1", "my session", "completed"));
        assert_eq!(notify(&gateway, &path, &done).await.status, 200, "{speaks:?}");
        check_told(&hook, "my session", "completed");
    }
}

#[tokio::test]
async fn a_task_that_was_told_of_is_that_of_its_name_though_the_send_fails() {
    let ((agent, release), hook) = (slow().await, webhook().await);
    let gateway = start(&agent).await;
    let send = with_webhook(&send_to("mine", "x"), &config(&hook));
    let telling = async {
        eventually("the agent is called", || async { !agent.received().is_empty() }).await;
        let (path, rpc) = (
            given(&agent),
            agent.received().pop().expect("a call").json()["id"].clone(),
        );
        let working = Speaks::V1_0.told(Speaks::V1_0.task("theirs-0", "my session", "working"));
        assert_eq!(notify(&gateway, &path, &working).await.status, 200);
        let error = json!({"code": -32603, "message": "lost it"});
        let answer = json!({"jsonrpc": "2.0", "id": rpc, "error": error});
        release.send(answer.to_string()).expect("the agent waits");
        path
    };
    let (sent, path) = tokio::join!(by(ANN, &gateway, &send), telling);
    assert_eq!(sent.code(), -32603, "{}", sent.text());
    by(ANN, &gateway, &send_to("mine", "again")).await;
    let message = agent.received().pop().expect("a call").json()["params"]["message"].clone();
    assert_eq!(message["taskId"], "theirs-0", "one task has the name");
    let done = Speaks::V1_0.told(Speaks::V1_0.task("theirs-0", "my session", "completed"));
    assert_eq!(notify(&gateway, &path, &done).await.status, 200);
    check_told(&hook, "my session", "completed");
}

#[tokio::test]
async fn a_webhook_that_is_not_allowed_is_refused() {
    let agent = keeping(Speaks::V1_0).await;
    let gateway = start(&agent).await;
    by(ANN, &gateway, &send_to("mine", "x")).await;
    let before = agent.received().len();
    let forbidden = json!({"url": "http://10.0.0.1/"});
    for body in [set("mine", &forbidden), with_webhook(&send_to("new", "x"), &forbidden)] {
        assert_eq!(by(ANN, &gateway, &body).await.code(), -32602, "{body}");
    }
    assert_eq!(agent.received().len(), before);
}

#[tokio::test]
async fn without_keys_webhooks_are_refused_and_the_card_says_so() {
    let agent = keeping(Speaks::V1_0).await;
    let hook = webhook().await;
    let claimed = async |gateway: &Gateway| {
        let card = get(gateway.address, "/agent/.well-known/agent.json").await.json();
        card["capabilities"]["pushNotifications"].clone()
    };
    assert_eq!(claimed(&start(&agent).await).await, true);

    let gateway = super::ownership::start(&agent, STRICT).await;
    assert_eq!(claimed(&gateway).await, false);
    by(ANN, &gateway, &send_to("mine", "x")).await;
    let before = agent.received().len();
    for body in [
        set("mine", &config(&hook)),
        about("tasks/pushNotification/get", "mine"),
        with_webhook(&send_to("new", "x"), &config(&hook)),
    ] {
        assert_eq!(by(ANN, &gateway, &body).await.code(), -32003, "{body}");
    }
    assert_eq!(agent.received().len(), before);
}
