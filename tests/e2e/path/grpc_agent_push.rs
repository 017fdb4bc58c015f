//! Webhooks of callers of 0.3 at an agent that speaks gRPC of 1.0 alone.

use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::Binding;
use a2a_gateway::a2a::Generation::{V0_3, V1_0};
use a2a_gateway::a2a::Operation::{Get, PushCreate, PushGet, PushList, Send};
use serde_json::{Value, json};

use super::grpc::hello;
use super::grpc_agents::{asked, message, result, task};
use super::push::{push, secret_1_0, webhook};
use crate::harness::caller::{Caller, dialect};
use crate::harness::grpc::{CARD_GRPC, GrpcAgent, Reply};
use crate::harness::{Gateway, call};

const JSON: (&str, &str) = ("content-type", "application/json");

/// An agent that remembers webhooks as they were set.
async fn agent() -> GrpcAgent {
    let hook: Arc<Mutex<Value>> = Arc::default();
    GrpcAgent::start(CARD_GRPC, move |request| {
        let operation = request.method().operation;
        let mut hook = hook.lock().unwrap();
        if operation == PushCreate {
            *hook = asked(request);
        }
        let told = if operation == Get {
            json!({"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}})
        } else if operation == PushList {
            json!({"configs": [*hook], "nextPageToken": ""})
        } else if operation.shows_webhooks() {
            hook.clone()
        } else {
            result(operation)
        };
        Reply::message(&message(V1_0, operation, &told))
    })
    .await
}

#[tokio::test]
async fn webhooks_are_relayed_and_shown_to_whom_they_belong() {
    let (agent, hook) = (agent().await, webhook().await);
    let gateway = Gateway::start(&format!("{}{}\n", agent.config(""), push(""))).await;
    gateway.ready().await;
    let old = Caller(dialect(V0_3, Binding::JsonRpc));
    let mut secret = secret_1_0(&hook);
    secret["taskId"] = json!("t1");
    let mut inline = hello();
    inline["configuration"] = json!({ "taskPushNotificationConfig": secret_1_0(&hook) });
    assert_eq!(
        old.ask(&gateway, Send, &inline).await,
        Ok(vec![json!({ "task": task("t1") })])
    );
    let sent = asked(&agent.received().pop().unwrap());
    let inline = sent["configuration"]["taskPushNotificationConfig"].clone();
    assert_eq!(old.ask(&gateway, PushCreate, &secret).await, Ok(vec![secret.clone()]));
    let kept = asked(&agent.received().pop().unwrap());
    for config in [&inline, &kept] {
        let url = config["url"].as_str().unwrap();
        assert!(url.starts_with("https://gateway.example/push/"), "{config}");
        assert_eq!(
            (&config["token"], &config["authentication"]),
            (&Value::Null, &Value::Null)
        );
    }
    // To callers of the agent's own dialect, whose answers pass untouched otherwise, and of its generation: no sealed address.
    let url = secret["url"].clone();
    for caller in [Binding::Grpc, Binding::JsonRpc].map(|binding| Caller(dialect(V1_0, binding))) {
        let name = json!({"taskId": "t1", "id": "p1"});
        let shown = caller.ask(&gateway, PushGet, &name).await.unwrap().remove(0);
        assert_eq!(shown["url"], url, "{:?}", caller.0);
        let listed = caller
            .ask(&gateway, PushList, &json!({"taskId": "t1"}))
            .await
            .unwrap()
            .remove(0);
        assert_eq!(listed["configs"][0]["url"], url, "{:?}", caller.0);
    }
    let listed = old
        .ask(&gateway, PushList, &json!({"taskId": "t1"}))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(listed["configs"], json!([secret]));

    // What the agent tells of an update becomes the whole task, which it is asked for over gRPC.
    let before = agent.received().len();
    let path = kept["url"]
        .as_str()
        .unwrap()
        .strip_prefix("https://gateway.example")
        .unwrap();
    let update =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}});
    let told = call(gateway.address, "POST", path, &[JSON], &update.to_string()).await;
    assert_eq!(told.status, 200, "{}", told.text());
    let operations: Vec<_> = agent.received()[before..]
        .iter()
        .map(|it| it.method().operation)
        .collect();
    assert_eq!(operations, [Get]);
    let notified = hook.received().pop().expect("a notification");
    assert_eq!(notified.json()["status"]["state"], "completed");
    assert_eq!(notified.json()["kind"], "task");
}
