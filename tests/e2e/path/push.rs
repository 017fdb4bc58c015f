//! Notifications of agents of one generation at webhooks of callers of the other, over the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::ownership::{ANN, BOB, by, yaml};
use crate::harness::agent::{Agent, CARD, CARD_0_3, CARD_HYBRID, Received, Reply};
use crate::harness::{Answer, Gateway, KEY, call, eventually, get, post};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Relays to loopback, and reaches the gateway where the test does.
const PUSH: &str = "keys: [ { value: a-key-of-webhooks-with-32-characters } ], http: true, networks: [ 127.0.0.0/8 ]";

pub(super) fn push(more: &str) -> String {
    format!("push: {{ {PUSH}, {more} }}")
}

pub(super) fn task_1_0(id: &str, state: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": state}})
}

pub(super) fn task_0_3(id: &str, state: &str) -> Value {
    json!({"kind": "task", "id": id, "contextId": "c", "status": {"state": state}})
}

/// An agent that remembers webhooks as they were set, makes task `t1`, and answers gets of any task.
fn keeps(card: &'static str) -> impl Future<Output = Agent> {
    let hooks: std::sync::Mutex<Vec<Value>> = std::sync::Mutex::default();
    let is_old = card == CARD_0_3;
    Agent::with_card(card, move |request| {
        let asked = request.json();
        let (params, mut hooks) = (&asked["params"], hooks.lock().expect("webhooks"));
        let result = match asked["method"].as_str().unwrap_or_default() {
            "SendMessage" => json!({"task": task_1_0("t1", "TASK_STATE_WORKING")}),
            "message/send" => task_0_3("t1", "working"),
            "GetTask" => task_1_0(params["id"].as_str().unwrap_or_default(), "TASK_STATE_COMPLETED"),
            "tasks/get" => task_0_3(params["id"].as_str().unwrap_or_default(), "completed"),
            "CreateTaskPushNotificationConfig" | "tasks/pushNotificationConfig/set" => {
                hooks.push(params.clone());
                params.clone()
            }
            "GetTaskPushNotificationConfig" | "tasks/pushNotificationConfig/get" => {
                hooks.last().cloned().unwrap_or_default()
            }
            "ListTaskPushNotificationConfigs" => json!({"configs": *hooks}),
            "tasks/pushNotificationConfig/list" => json!(*hooks),
            _ if is_old => {
                hooks.clear();
                Value::Null
            }
            _ => {
                hooks.clear();
                json!({})
            }
        };
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
            request.id()
        ))
    })
}

/// A caller's webhook: takes what comes.
pub(super) async fn webhook() -> Agent {
    Agent::start(|_| Reply::Whole(202, "", String::new())).await
}

async fn gateway(agent: &Agent, more: &str) -> Gateway {
    Gateway::of(&[agent.address], "", &push(more)).await
}

/// For Ann and Bob, whose tasks are their own.
pub(super) async fn shared(agents: &[&Agent]) -> Gateway {
    let endpoints: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    let gateway = Gateway::start(&format!("{}{}\n", yaml(&endpoints, ""), push(""))).await;
    gateway.ready().await;
    gateway
}

pub(super) fn old(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
}

pub(super) async fn ask(gateway: &Gateway, method: &str, params: &Value) -> Answer {
    post(gateway.address, "/agent", &old(method, params)).await
}

/// The webhook with everything that is kept from the agent.
pub(super) fn secret(hook: &Agent) -> Value {
    json!({"id": "p1", "url": format!("http://{}/hook?k=v", hook.address), "token": "s3cret",
        "authentication": {"schemes": ["Bearer"], "credentials": "hunter2"}})
}

pub(super) fn secret_1_0(hook: &Agent) -> Value {
    json!({"id": "p1", "url": format!("http://{}/hook?k=v", hook.address), "token": "s3cret",
        "authentication": {"scheme": "Bearer", "credentials": "hunter2"}})
}

pub(super) fn message_0_3() -> Value {
    json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]})
}

fn message_1_0() -> Value {
    json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]})
}

/// The address that the agent was given in its last call, as a path.
pub(super) fn given(agent: &Agent) -> String {
    let received = agent.received().pop().expect("a call");
    let params = &received.json()["params"];
    let config = [
        &params["configuration"]["taskPushNotificationConfig"],
        &params["configuration"]["pushNotificationConfig"],
        &params["pushNotificationConfig"],
        params,
    ];
    let config = config.into_iter().find(|it| it["url"].is_string()).expect("a webhook");
    assert_eq!(
        (&config["token"], &config["authentication"]),
        (&Value::Null, &Value::Null)
    );
    let text = String::from_utf8_lossy(&received.body);
    assert!(!text.contains("s3cret") && !text.contains("hunter2"), "{text}");
    let url = config["url"].as_str().unwrap_or_default();
    url.strip_prefix("https://gateway.example")
        .expect("the gateway's address")
        .to_owned()
}

/// What the agent does with an address: posts there.
pub(super) async fn notify(gateway: &Gateway, path: &str, body: &Value) -> Answer {
    call(gateway.address, "POST", path, &[JSON], &body.to_string()).await
}

/// The address of a webhook that a 0.3 caller set for `t1` at a 1.0 agent.
async fn registered(gateway: &Gateway, agent: &Agent, hook: &Agent) -> String {
    let sent = ask(gateway, "message/send", &json!({"message": message_0_3()})).await;
    assert_eq!(sent.json()["result"]["id"], "t1");
    let params = json!({"taskId": "t1", "pushNotificationConfig": secret(hook)});
    let set = ask(gateway, "tasks/pushNotificationConfig/set", &params).await;
    assert_eq!(set.json()["result"], params, "{}", set.text());
    given(agent)
}

pub(super) fn told(hook: &Agent) -> Received {
    let mut received = hook.received();
    assert_eq!(received.len(), 1, "one notification");
    received.remove(0)
}

#[tokio::test]
async fn an_old_caller_hears_of_tasks_of_a_new_agent() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    let configuration = json!({"pushNotificationConfig": secret(&hook)});
    let params = json!({"message": message_0_3(), "configuration": configuration});
    let sent = ask(&gateway, "message/send", &params).await;
    assert_eq!(sent.json()["result"], task_0_3("t1", "working"), "{}", sent.text());
    let path = given(&agent);
    assert!(path.starts_with("/agent/push/"), "{path}");

    let answered = notify(
        &gateway,
        &path,
        &json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")}),
    )
    .await;
    assert_eq!((answered.status, answered.text()), (200, String::new()));
    let heard = told(&hook);
    assert!(heard.head.starts_with("POST /hook?k=v HTTP/1.1\r\n"), "{}", heard.head);
    assert_eq!(heard.json(), task_0_3("t1", "completed"));
    assert_eq!(heard.field("content-type"), Some("application/json"));
    assert_eq!(heard.field("x-a2a-notification-token"), Some("s3cret"));
    assert_eq!(heard.field("authorization"), Some("Bearer hunter2"));
    assert_eq!(heard.field("a2a-version"), None);
    let line = r#"a2a_gateway_push_deliveries_total{agent="agent",result="delivered"}"#;
    assert_eq!(gateway.metric(line).await, 1.0);
    let record = gateway.access(2).await.pop().expect("a record");
    assert_eq!(
        (&record["outcome"], &record["task"]),
        (&"delivered".into(), &"t1".into())
    );
    assert_eq!(record["principal"], "key:tester");
}

#[tokio::test]
async fn an_update_is_told_as_the_whole_task_that_the_agent_has() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    let path = registered(&gateway, &agent, &hook).await;
    let status = json!({"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
    let answered = notify(&gateway, &path, &json!({"statusUpdate": status})).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert_eq!(told(&hook).json(), task_0_3("t1", "completed"));
    let asked = agent.received().pop().expect("a get");
    assert_eq!(asked.json()["method"], "GetTask");
    assert_eq!(asked.json()["params"], json!({"id": "t1"}));
    assert_eq!(asked.field("a2a-version"), Some("1.0"));
}

#[tokio::test]
async fn a_new_caller_hears_of_tasks_of_an_old_agent() {
    let (agent, hook) = (keeps(CARD_0_3).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    let configuration = json!({"taskPushNotificationConfig": secret_1_0(&hook)});
    let sent = ask(
        &gateway,
        "SendMessage",
        &json!({"message": message_1_0(), "configuration": configuration}),
    )
    .await;
    assert_eq!(sent.json()["result"]["task"]["id"], "t1", "{}", sent.text());
    let inline = given(&agent);
    let mut params = secret_1_0(&hook);
    params["taskId"] = json!("t1");
    let set = ask(&gateway, "CreateTaskPushNotificationConfig", &params).await;
    assert_eq!(set.json()["result"], params);
    let created = given(&agent);
    for path in [inline, created] {
        let before = hook.received().len();
        let answered = notify(&gateway, &path, &task_0_3("t1", "completed")).await;
        assert_eq!(answered.status, 200, "{}", answered.text());
        let heard = hook.received().pop().expect("a notification");
        assert_eq!(hook.received().len(), before + 1);
        assert_eq!(heard.json(), json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")}));
        assert_eq!(heard.field("content-type"), Some("application/a2a+json"));
        assert_eq!(heard.field("a2a-version"), Some("1.0"));
        assert_eq!(heard.field("x-a2a-notification-token"), Some("s3cret"));
        assert_eq!(heard.field("authorization"), Some("Bearer hunter2"));
    }
}

#[tokio::test]
async fn callers_see_their_own_webhooks() {
    for (card, names) in [
        (
            CARD,
            ["set", "get", "list", "delete"].map(|name| format!("tasks/pushNotificationConfig/{name}")),
        ),
        (
            CARD_0_3,
            ["CreateTask", "GetTask", "ListTask", "DeleteTask"].map(|name| {
                format!(
                    "{name}PushNotificationConfig{}",
                    if name == "ListTask" { "s" } else { "" }
                )
            }),
        ),
    ] {
        let (agent, hook) = (keeps(card).await, webhook().await);
        let gateway = gateway(&agent, "").await;
        let [set, get, list, delete] = names;
        let (send, params, one, all): (_, Value, _, _) = if card == CARD {
            let config = json!({"taskId": "t1", "pushNotificationConfig": secret(&hook)});
            let name = json!({"id": "t1", "pushNotificationConfigId": "p1"});
            (("message/send", message_0_3()), config.clone(), name, json!([config]))
        } else {
            let mut config = secret_1_0(&hook);
            config["taskId"] = json!("t1");
            let all = json!({"configs": [config], "nextPageToken": ""});
            (
                ("SendMessage", message_1_0()),
                config,
                json!({"taskId": "t1", "id": "p1"}),
                all,
            )
        };
        ask(&gateway, send.0, &json!({"message": send.1})).await;
        assert_eq!(ask(&gateway, &set, &params).await.json()["result"], params);
        assert_eq!(ask(&gateway, &get, &one).await.json()["result"], params);
        let named = if card == CARD {
            json!({"id": "t1"})
        } else {
            json!({"taskId": "t1"})
        };
        assert_eq!(ask(&gateway, &list, &named).await.json()["result"], all);
        let deleted = ask(&gateway, &delete, &one).await;
        assert_eq!(deleted.json()["result"], Value::Null, "{}", deleted.text());
        let none = if card == CARD {
            json!([])
        } else {
            json!({"configs": [], "nextPageToken": ""})
        };
        assert_eq!(ask(&gateway, &list, &named).await.json()["result"], none);
    }
}

#[tokio::test]
async fn what_a_notification_tells_is_learned() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = shared(&[&agent]).await;
    let params = json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": secret(&hook)}});
    by(ANN, &gateway, &old("message/send", &params)).await;
    let path = given(&agent);
    let answered = notify(
        &gateway,
        &path,
        &json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")}),
    )
    .await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    let record = get(gateway.admin, "/tasks/agent/t1").await.json();
    assert_eq!(record["finished"], true, "{record}");
}

#[tokio::test]
async fn nobody_claims_a_task_by_a_notification() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = shared(&[&agent]).await;
    let params = json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": secret(&hook)}});
    by(ANN, &gateway, &old("message/send", &params)).await;
    let path = given(&agent);
    // It may be somebody's whose record is lost, and whoever posts may be anybody who saw the address.
    let early = notify(&gateway, &path, &json!({"task": task_1_0("t2", "TASK_STATE_WORKING")})).await;
    assert_eq!(
        (early.status, early.header("retry-after")),
        (503, Some("1")),
        "{}",
        early.text()
    );
    assert_eq!(hook.received().len(), 0);
    for key in [ANN, BOB] {
        let answered = by(key, &gateway, &old("tasks/get", &json!({"id": "t2"}))).await;
        assert_eq!(answered.code(), -32001);
    }
}

#[tokio::test]
async fn callers_of_the_agents_own_generation_see_no_sealed_address() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    registered(&gateway, &agent, &hook).await;
    let named = json!({"taskId": "t1", "id": "p1"});
    let one = ask(&gateway, "GetTaskPushNotificationConfig", &named).await;
    let all = ask(&gateway, "ListTaskPushNotificationConfigs", &json!({"taskId": "t1"})).await;
    let url = format!("http://{}/hook?k=v", hook.address);
    assert_eq!(one.json()["result"]["url"], url);
    assert_eq!(all.json()["result"]["configs"][0]["url"], url);
    assert!(!one.text().contains("/push/") && !all.text().contains("/push/"));
}

#[tokio::test]
async fn no_notification_tells_of_somebody_elses_task() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = shared(&[&agent]).await;
    by(BOB, &gateway, &old("message/send", &json!({"message": message_0_3()}))).await;
    // Ann's webhook, which names no task; `t1` is Bob's.
    let params = json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": secret(&hook)}});
    by(ANN, &gateway, &old("message/send", &params)).await;
    let path = given(&agent);
    let status = json!({"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
    for body in [
        json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")}),
        json!({"statusUpdate": status}),
    ] {
        let answered = notify(&gateway, &path, &body).await;
        assert_eq!(answered.status, 403, "{}", answered.text());
    }
    assert_eq!(hook.received().len(), 0);
    let line = r#"a2a_gateway_push_deliveries_total{agent="agent",result="push_foreign"}"#;
    assert_eq!(gateway.metric(line).await, 2.0);
}

#[tokio::test]
async fn an_address_for_one_task_tells_of_no_other() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    let path = registered(&gateway, &agent, &hook).await;
    let answered = notify(
        &gateway,
        &path,
        &json!({"task": task_1_0("t2", "TASK_STATE_COMPLETED")}),
    )
    .await;
    assert_eq!(answered.status, 403, "{}", answered.text());
    let message = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}});
    assert_eq!(notify(&gateway, &path, &message).await.status, 403);
    assert_eq!(hook.received().len(), 0);
    // The same again is delivered again: at least once.
    for times in 1..3 {
        let answered = notify(&gateway, &path, &json!({"task": task_1_0("t1", "TASK_STATE_WORKING")})).await;
        assert_eq!((answered.status, hook.received().len()), (200, times));
    }
}

#[tokio::test]
async fn addresses_that_nobody_was_given_lead_nowhere() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    let path = registered(&gateway, &agent, &hook).await;
    let task = json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")});
    let changed = format!("{}A{}", &path[..40], &path[41..]);
    let changed = if changed == path {
        format!("{}B{}", &path[..40], &path[41..])
    } else {
        changed
    };
    for wrong in [
        &*changed,
        &path[..path.len() - 1],
        "/agent/push/AQ",
        &format!("{path}/x"),
        "/agent/push/",
    ] {
        let answered = notify(&gateway, wrong, &task).await;
        assert_eq!(answered.status, 404, "{wrong}: {}", answered.text());
    }
    let asked = call(gateway.address, "GET", &path, &[], "").await;
    assert_eq!(asked.status, 404);
    assert_eq!(hook.received().len(), 0);
}

#[tokio::test]
async fn an_address_is_good_for_its_agent_and_its_key_while_it_holds() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let more = format!(
        "- {{ name: other, path: /other, upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }} }}",
        agent.address
    );
    let top = format!("  {more}\n{}", push("lifetime: 1s"));
    let gateway = Gateway::of(&[agent.address], "", &top).await;
    let path = registered(&gateway, &agent, &hook).await;
    let task = json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")});
    assert_eq!(
        notify(&gateway, &path.replacen("/agent", "/other", 1), &task)
            .await
            .status,
        404
    );
    let another = Gateway::of(
        &[agent.address],
        "",
        &push("").replace("a-key-of-webhooks", "b-key-of-webhooks"),
    )
    .await;
    assert_eq!(notify(&another, &path, &task).await.status, 404);
    eventually("the address expires", || async {
        notify(&gateway, &path, &task).await.status == 404
    })
    .await;
    let line = r#"a2a_gateway_push_deliveries_total{agent="agent",result="push_unknown"}"#;
    assert_eq!(gateway.metric(line).await, 1.0);
    // Whoever set it still sees it as it was.
    let get = json!({"id": "t1", "pushNotificationConfigId": "p1"});
    let shown = ask(&gateway, "tasks/pushNotificationConfig/get", &get).await;
    assert_eq!(shown.json()["result"]["pushNotificationConfig"], secret(&hook));
}

#[tokio::test]
async fn bodies_that_are_no_notification_are_refused() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = gateway(&agent, "body_bytes: 1KiB").await;
    let path = registered(&gateway, &agent, &hook).await;
    let send = |fields: &'static [(&str, &str)], body: String| {
        let (address, path) = (gateway.address, path.clone());
        async move { call(address, "POST", &path, fields, &body).await.status }
    };
    assert_eq!(send(&[JSON], "{".to_owned()).await, 400);
    assert_eq!(send(&[JSON], "{}".to_owned()).await, 400);
    assert_eq!(send(&[JSON], json!({"jsonrpc": "2.0"}).to_string()).await, 400);
    assert_eq!(send(&[("content-type", "text/plain")], "{}".to_owned()).await, 415);
    let mut task = task_1_0("t1", "TASK_STATE_COMPLETED");
    task["metadata"] = json!({"filler": ""});
    let bare = json!({ "task": task }).to_string().len();
    for (size, status) in [(1024, 200), (1025, 413)] {
        task["metadata"] = json!({"filler": "x".repeat(size - bare)});
        let body = json!({ "task": task }).to_string();
        assert_eq!(body.len(), size);
        assert_eq!(send(&[("content-type", "application/a2a+json")], body).await, status);
    }
    assert_eq!(hook.received().len(), 1);
}

#[tokio::test]
async fn the_agent_hears_that_a_webhook_did_not_take_it() {
    let agent = keeps(CARD).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, elsewhere) = (calls.clone(), webhook().await);
    let target = format!("http://{}/", elsewhere.address);
    // By turns: an error, a redirect, silence, and at last success.
    let hook = Agent::start(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Whole(500, "", "no".to_owned()),
        1 => Reply::Raw(format!("HTTP/1.1 307 X\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n").into_bytes()),
        2 => Reply::Silence,
        _ => Reply::Whole(200, "", String::new()),
    })
    .await;
    let gateway = gateway(&agent, "timeout: 300ms").await;
    let path = registered(&gateway, &agent, &hook).await;
    let task = json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")});
    for (detail, status) in [
        ("webhook_refused", 502),
        ("webhook_refused", 502),
        ("webhook_slow", 502),
        ("", 200),
    ] {
        let answered = notify(&gateway, &path, &task).await;
        assert_eq!(answered.status, status, "{detail}: {}", answered.text());
        let seen = 2 + calls.load(Ordering::SeqCst);
        let record = gateway.access(seen).await.pop().expect("a record");
        assert_eq!(record["detail"].as_str().unwrap_or_default(), detail, "{record}");
    }
    assert_eq!(elsewhere.received().len(), 0, "no redirect is followed");
    drop(hook);
    let answered = notify(&gateway, &path, &task).await;
    assert_eq!(answered.status, 502);
    assert!(!answered.text().contains("127.0.0.1"), "{}", answered.text());
}

#[tokio::test]
async fn webhooks_where_none_may_be_are_refused() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let keys = PUSH.split(", http").next().unwrap_or_default();
    let gateway = Gateway::of(&[agent.address], "", &format!("push: {{ {keys} }}")).await;
    ask(&gateway, "message/send", &json!({"message": message_0_3()})).await;
    let before = agent.received().len();
    for url in [
        "http://hooks.example.com/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://[::ffff:7f00:1]/",
    ] {
        let config = json!({"url": url});
        let set = json!({"taskId": "t1", "pushNotificationConfig": config});
        let refused = ask(&gateway, "tasks/pushNotificationConfig/set", &set).await;
        assert_eq!(refused.code(), -32602, "{url}: {}", refused.text());
        let send = json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": config}});
        assert_eq!(ask(&gateway, "message/send", &send).await.code(), -32602, "{url}");
    }
    assert_eq!(agent.received().len(), before, "the agent is not asked");
    drop(hook);
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_connected_to() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    // `localhost` passes as text, and leads to an address that is not allowed.
    let yaml = push("").replace("127.0.0.0/8", "127.0.0.1/32");
    let gateway = Gateway::of(&[agent.address], "", &yaml).await;
    ask(&gateway, "message/send", &json!({"message": message_0_3()})).await;
    let url = format!("http://localhost:{}/", hook.address.port());
    let set = json!({"taskId": "t1", "pushNotificationConfig": {"url": url}});
    let set = ask(&gateway, "tasks/pushNotificationConfig/set", &set).await;
    assert_eq!(set.json()["error"], Value::Null, "{}", set.text());
    let path = given(&agent);
    let task = json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")});
    assert_eq!(notify(&gateway, &path, &task).await.status, 200, "where it is allowed");
    // The same key, and no networks.
    let keys = PUSH.split(", networks").next().unwrap_or_default();
    let strict = Gateway::of(&[agent.address], "", &format!("push: {{ {keys} }}")).await;
    let answered = notify(&strict, &path, &task).await;
    assert_eq!(answered.status, 502, "{}", answered.text());
    assert_eq!(hook.received().len(), 1);
    let record = strict.access(1).await.pop().expect("a record");
    assert_eq!(record["detail"], "webhook_forbidden");
}

#[tokio::test]
async fn more_than_may_be_under_way_is_told_to_come_again() {
    let agent = keeps(CARD).await;
    let (release, held) = oneshot::channel();
    let held = std::sync::Mutex::new(Some(held));
    let hook = Agent::start(move |_| match held.lock().expect("held").take() {
        Some(held) => Reply::Later(held),
        None => Reply::Whole(200, "", String::new()),
    })
    .await;
    let gateway = gateway(&agent, "concurrent: 1, rate: 4/h").await;
    let path = registered(&gateway, &agent, &hook).await;
    let task = json!({"task": task_1_0("t1", "TASK_STATE_WORKING")});
    let first = tokio::spawn({
        let (address, path, body) = (gateway.address, path.clone(), task.to_string());
        async move { call(address, "POST", &path, &[JSON], &body).await }
    });
    eventually("the webhook is called", || async { hook.received().len() == 1 }).await;
    let busy = notify(&gateway, &path, &task).await;
    assert_eq!(
        (busy.status, busy.header("retry-after")),
        (503, Some("1")),
        "{}",
        busy.text()
    );
    release.send("{}".to_owned()).expect("the webhook waits");
    assert_eq!(first.await.expect("no panic").status, 200);
    assert_eq!(notify(&gateway, &path, &task).await.status, 200);
    assert_eq!(notify(&gateway, &path, &task).await.status, 200);
    let limited = notify(&gateway, &path, &task).await;
    assert_eq!(
        (limited.status, limited.header("retry-after")),
        (429, Some("1")),
        "one past the rate"
    );
}

#[tokio::test]
async fn without_keys_webhooks_of_the_other_generation_are_refused() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = Gateway::of(&[agent.address], "", "").await;
    ask(&gateway, "message/send", &json!({"message": message_0_3()})).await;
    let params = json!({"taskId": "t1", "pushNotificationConfig": secret(&hook)});
    assert_eq!(
        ask(&gateway, "tasks/pushNotificationConfig/set", &params).await.code(),
        -32003
    );
    let unknown = notify(&gateway, "/agent/push/AQAA", &json!({})).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn webhooks_of_the_agents_own_generation_pass_as_they_are() {
    let (agent, hook) = (keeps(CARD_HYBRID).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    for (method, params) in [
        (
            "message/send",
            json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": secret(&hook)}}),
        ),
        (
            "SendMessage",
            json!({"message": message_1_0(), "configuration": {"taskPushNotificationConfig": secret_1_0(&hook)}}),
        ),
    ] {
        let sent = ask(&gateway, method, &params).await;
        assert_eq!(sent.json()["error"], Value::Null, "{}", sent.text());
        assert_eq!(agent.received().pop().expect("a call").json()["params"], params);
    }
}

#[tokio::test]
async fn the_agent_reaches_the_gateway_where_it_is_told() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let check = |agent_keys: &'static str, more: &'static str, expected: &'static str| {
        let (agent, hook) = (&agent, &hook);
        async move {
            let gateway = Gateway::of(&[agent.address], agent_keys, &push(more)).await;
            let params = json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": secret(hook)}});
            let sent = ask(&gateway, "message/send", &params).await;
            assert_eq!(sent.json()["error"], Value::Null, "{}", sent.text());
            let received = agent.received().pop().expect("a call").json();
            let url = received["params"]["configuration"]["taskPushNotificationConfig"]["url"].clone();
            assert!(url.as_str().is_some_and(|url| url.starts_with(expected)), "{url}");
        }
    };
    check("", "", "https://gateway.example/agent/push/").await;
    check(
        "",
        "url: \"http://gw.internal:8080/in/\"",
        "http://gw.internal:8080/in/agent/push/",
    )
    .await;
    check(
        "push: { url: \"http://10.0.0.1/a\" }",
        "url: \"http://gw.internal\"",
        "http://10.0.0.1/a/push/",
    )
    .await;
}

#[tokio::test]
async fn a_reload_keeps_what_agents_were_given() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gateway.yaml");
    let yaml = crate::harness::config_of(&[agent.address], "", &push(""));
    std::fs::write(&path, &yaml).expect("written");
    let gateway = Gateway::from_file(&path).await;
    gateway.ready().await;
    let address = registered(&gateway, &agent, &hook).await;
    let task = json!({"task": task_1_0("t1", "TASK_STATE_WORKING")});
    let both = yaml.replace(
        "keys: [ { value: a-key",
        "keys: [ { value: b-key-of-webhooks-with-32-characters }, { value: a-key",
    );
    std::fs::write(&path, &both).expect("written");
    assert!(gateway.reload().await);
    assert_eq!(notify(&gateway, &address, &task).await.status, 200, "the old key opens");
    std::fs::write(&path, yaml.replace("a-key", "b-key")).expect("written");
    assert!(gateway.reload().await);
    assert_eq!(
        notify(&gateway, &address, &task).await.status,
        404,
        "the old key is gone"
    );
}

#[tokio::test]
async fn callers_of_http_json_are_told_like_the_others() {
    let (agent, hook) = (keeps(CARD).await, webhook().await);
    let gateway = gateway(&agent, "").await;
    let fields = [("x-api-key", KEY), JSON];
    let message = json!({"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]});
    let config = json!({"id": "p1", "url": format!("http://{}/hook", hook.address), "token": "s3cret"});
    let body = json!({"message": message, "configuration": {"pushNotification": config}}).to_string();
    let sent = call(gateway.address, "POST", "/agent/v1/message:send", &fields, &body).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let path = given(&agent);
    let answered = notify(
        &gateway,
        &path,
        &json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")}),
    )
    .await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    // In the form of JSON-RPC, whatever binding set it.
    assert_eq!(told(&hook).json(), task_0_3("t1", "completed"));
}

#[tokio::test]
async fn an_agent_that_leaves_ends_its_notification() {
    let agent = keeps(CARD).await;
    let hook = Agent::start(|_| Reply::Silence).await;
    let gateway = gateway(&agent, "").await;
    let path = registered(&gateway, &agent, &hook).await;
    let body = json!({"task": task_1_0("t1", "TASK_STATE_WORKING")}).to_string();
    let address = gateway.address;
    let leaving = tokio::spawn(async move { call(address, "POST", &path, &[JSON], &body).await });
    eventually("the webhook is called", || async { hook.received().len() == 1 }).await;
    leaving.abort();
    let _aborted = leaving.await;
    drop(hook);
    assert!(
        tokio::time::timeout(Duration::from_secs(30), gateway.shutdown())
            .await
            .is_ok()
    );
}
