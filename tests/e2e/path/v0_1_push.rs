//! Notifications of agents of A2A 0.1 at webhooks of callers of later generations, over the gateway.

use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::Generation::V1_0;
use a2a_gateway::a2a::Operation::{Get, PushCreate, PushGet, Send, Stream};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::ownership::{ANN, BOB, with_keys};
use super::push::{given, notify, push, secret_1_0, webhook};
use super::v0_1_agents::{begin, callers, message};
use crate::harness::agent::{Agent, CARD_0_1, Received, Reply};
use crate::harness::{Gateway, call, config_of, eventually, get};

fn task(id: &Value, state: &str) -> Value {
    json!({"id": id, "sessionId": "s", "status": {"state": state}})
}

/// Remembers the webhook that was set last, and tells it in its answers.
fn answer(request: &Received, hook: &Mutex<Value>) -> Reply {
    let asked = request.json();
    let (id, params) = (&asked["params"]["id"], &asked["params"]);
    let mut hook = hook.lock().unwrap();
    let result = match asked["method"].as_str().unwrap_or_default() {
        "tasks/pushNotification/set" => {
            *hook = params["pushNotificationConfig"].clone();
            params.clone()
        }
        "tasks/pushNotification/get" => json!({"id": id, "pushNotificationConfig": *hook}),
        _ => task(id, "working"),
    };
    Reply::Json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string())
}

async fn agent() -> Agent {
    let hook = Mutex::default();
    Agent::with_card(CARD_0_1, move |request| answer(request, &hook)).await
}

async fn start(agent: &Agent) -> Gateway {
    let yaml = config_of(&[agent.address], "", &push("")).replace("path: /agent", "path: /");
    let gateway = Gateway::start(&with_keys(&yaml)).await;
    gateway.ready().await;
    gateway
}

/// With a webhook inside.
fn inline(hook: &Value) -> Value {
    let mut send = message(None);
    send["configuration"] = json!({ "taskPushNotificationConfig": hook });
    send
}

/// What the webhook was told last, for a caller of this generation.
fn check_told(hook: &Agent, new: bool, id: &Value, state: &str) {
    let received = hook.received().pop().expect("a notification");
    let expected = if new {
        json!({"task": {"id": id, "contextId": "s", "status": {"state": format!("TASK_STATE_{}", state.to_uppercase())}}})
    } else {
        json!({"kind": "task", "id": id, "contextId": "s", "status": {"state": state}})
    };
    assert_eq!(received.json(), expected);
    assert_eq!(received.field("x-a2a-notification-token"), Some("s3cret"));
    assert_eq!(received.field("authorization"), Some("Bearer hunter2"));
}

#[tokio::test]
async fn a_webhook_is_told_in_the_form_of_its_caller() {
    let (agent, hook) = (agent().await, webhook().await);
    let gateway = start(&agent).await;
    for caller in callers() {
        let what = format!("{:?}", caller.0);
        let is_new = caller.0.generation == V1_0;
        let task_of = begin(caller, ANN, &gateway).await;
        let id = &task_of["id"];
        let mut config = secret_1_0(&hook);
        config["taskId"] = id.clone();
        let set = caller.by(ANN, &gateway, PushCreate, &config).await.unwrap().remove(0);
        // The one configuration of a task has its id.
        config["id"] = id.clone();
        assert_eq!(set, config, "{what}");
        let path = given(&agent);
        let asked = json!({"taskId": id, "id": id});
        let got = caller.by(ANN, &gateway, PushGet, &asked).await.unwrap().remove(0);
        assert_eq!(got, config, "{what}");
        assert_eq!(caller.by(BOB, &gateway, PushGet, &asked).await, Err(-32001), "{what}");

        let notified = notify(&gateway, &path, &task(id, "completed")).await;
        assert_eq!(notified.status, 200, "{what}: {}", notified.text());
        check_told(&hook, is_new, id, "completed");
        let before = hook.received().len();
        for (body, status) in [(task(&json!("another"), "completed"), 403), (json!({"id": id}), 400)] {
            assert_eq!(notify(&gateway, &path, &body).await.status, status, "{what}: {body}");
        }
        assert_eq!(hook.received().len(), before);
    }
}

#[tokio::test]
async fn a_webhook_of_a_send_is_told_before_the_send_is_answered() {
    let held: Arc<Mutex<Option<oneshot::Receiver<String>>>> = Arc::default();
    let (hook, script) = (webhook().await, held.clone());
    let kept = Mutex::default();
    let agent = Agent::with_card(CARD_0_1, move |request| match script.lock().unwrap().take() {
        Some(later) => Reply::Later(later),
        None => answer(request, &kept),
    })
    .await;
    let gateway = start(&agent).await;
    for (count, caller) in callers().into_iter().enumerate() {
        let what = format!("{:?}", caller.0);
        let (answered, later) = oneshot::channel();
        *held.lock().unwrap() = Some(later);
        let before = agent.received().len();
        let send = inline(&secret_1_0(&hook));
        let sending = async { caller.by(ANN, &gateway, Send, &send).await };
        let notifying = async {
            eventually("the agent was asked", || async { agent.received().len() > before }).await;
            let id = agent.received().pop().expect("a call").json()["params"]["id"].clone();
            let inside = agent.received().pop().expect("a call").json()["params"]["pushNotification"].clone();
            assert!(inside["url"].is_string() && inside.get("token").is_none(), "{inside}");
            let path = inside["url"]
                .as_str()
                .unwrap()
                .strip_prefix("https://gateway.example")
                .unwrap();
            assert_eq!(
                notify(&gateway, path, &task(&id, "working")).await.status,
                200,
                "{what}"
            );
            check_told(&hook, caller.0.generation == V1_0, &id, "working");
            let result = task(&id, "working");
            let rpc = agent.received().pop().expect("a call").json()["id"].clone();
            answered
                .send(json!({"jsonrpc": "2.0", "id": rpc, "result": result}).to_string())
                .unwrap();
            id
        };
        let (sent, id) = tokio::join!(sending, notifying);
        assert_eq!(sent.unwrap()[0]["task"]["id"], id, "{what}");
        assert_eq!(hook.received().len(), count + 1);
        let got = caller.by(ANN, &gateway, Get, &json!({"id": id})).await;
        assert_eq!(
            got.unwrap()[0]["contextId"],
            "s",
            "{what}: in the generation of its caller"
        );
        assert_eq!(
            caller.by(BOB, &gateway, Get, &json!({"id": id})).await,
            Err(-32001),
            "{what}"
        );
    }
}

#[tokio::test]
async fn an_agent_that_asks_first_gets_its_text_back() {
    let (agent, hook) = (agent().await, webhook().await);
    let gateway = start(&agent).await;
    let caller = callers()[1];
    caller
        .by(ANN, &gateway, Send, &inline(&secret_1_0(&hook)))
        .await
        .unwrap();
    let sent = agent.received().pop().expect("a call").json();
    let url = sent["params"]["pushNotification"]["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix("https://gateway.example").unwrap();
    let ask = async |path: &str, query: &str| get(gateway.address, &format!("{path}?{query}")).await;
    let got = ask(path, "validationToken=8c1f-4a_b.2").await;
    assert_eq!((got.status, got.text().as_str()), (200, "8c1f-4a_b.2"));
    assert_eq!(got.header("content-type"), Some("text/plain"));
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
    let most = "t".repeat(256);
    assert_eq!(ask(path, &format!("a=b&validationToken={most}")).await.text(), most);
    for query in [
        "",
        "validationToken=",
        "validationToken=%3Cb%3E",
        "token=x",
        &format!("validationToken={most}t"),
    ] {
        assert_eq!(ask(path, query).await.status, 400, "{query}");
    }
    assert_eq!(
        ask(&format!("{path}A"), "validationToken=x").await.status,
        404,
        "forged"
    );
    assert!(hook.received().is_empty(), "the webhook is not asked");
}

#[tokio::test]
async fn a_webhook_that_is_not_allowed_is_refused() {
    let agent = agent().await;
    let gateway = start(&agent).await;
    for caller in callers() {
        let before = agent.received().len();
        for operation in [Send, Stream] {
            let forbidden = inline(&json!({"url": "http://10.0.0.1/"}));
            assert_eq!(
                caller.by(ANN, &gateway, operation, &forbidden).await,
                Err(-32602),
                "{:?}",
                caller.0
            );
        }
        assert_eq!(agent.received().len(), before);
    }
}

#[tokio::test]
async fn its_card_says_that_webhooks_are_told() {
    let agent = agent().await;
    let gateway = start(&agent).await;
    let card = get(gateway.address, "/.well-known/agent-card.json").await.json();
    assert_eq!(card["capabilities"]["pushNotifications"], true);
    // An address of another kind of agent answers no question.
    let newer = Agent::start(|_| Reply::Silence).await;
    let gateway = start(&newer).await;
    assert_eq!(
        call(gateway.address, "GET", "/push/abc?validationToken=x", &[], "")
            .await
            .status,
        404
    );
}
