//! Callers of the HTTP+JSON binding at agents that speak JSON-RPC.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::ownership::{ANN, BOB, start};
use crate::harness::agent::{Agent, CARD, CARD_0_3, Received, Reply, event};
use crate::harness::client::{open, read};
use crate::harness::{Answer, Gateway, KEY, call, eventually};

const SEND: &str = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#;
const OLD_SEND: &str = r#"{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"x"}]}}"#;

async fn ask(gateway: &Gateway, method: &str, path: &str, body: &str) -> Answer {
    by(KEY, gateway, method, path, body).await
}

async fn by(key: &str, gateway: &Gateway, method: &str, path: &str, body: &str) -> Answer {
    let mut fields = vec![
        ("x-api-key", key),
        ("a2a-version", if path.starts_with("/v1") { "0.3" } else { "1.0" }),
    ];
    if !body.is_empty() {
        fields.push(("content-type", "application/a2a+json"));
    }
    call(gateway.address, method, &format!("/agent{path}"), &fields, body).await
}

fn answer(request: &Received, result: &Value) -> Reply {
    Reply::Json(json!({ "jsonrpc": "2.0", "id": request.json()["id"], "result": result }).to_string())
}

fn task(id: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})
}

/// An agent of 1.0 whose tasks are all `t1`.
async fn agent() -> Agent {
    Agent::start(|request| {
        let params = &request.json()["params"];
        let config = json!({"taskId": "t1", "id": "p1", "url": "https://hook.example"});
        answer(
            request,
            &match request.json()["method"].as_str().unwrap() {
                "SendMessage" => json!({"task": task("t1")}),
                "ListTasks" => json!({"tasks": [task("t1")], "nextPageToken": "", "pageSize": 50, "totalSize": 1}),
                "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig" => config,
                "ListTaskPushNotificationConfigs" => json!({"configs": [config], "nextPageToken": ""}),
                "DeleteTaskPushNotificationConfig" => json!(null),
                _ => task(params["id"].as_str().unwrap()),
            },
        )
    })
    .await
}

#[tokio::test]
async fn every_call_of_1_0_goes_on_and_comes_back() {
    let agent = agent().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let config = json!({"taskId": "t1", "id": "p1", "url": "https://hook.example"});
    let hook = r#"{"id":"p1","url":"https://hook.example"}"#;
    let page = json!({"tasks": [task("t1")], "nextPageToken": "", "pageSize": 50, "totalSize": 1});
    let check = async |method: &str, path: &str, body: &str, expected: (&str, Value, Value)| {
        let got = ask(&gateway, method, path, body).await;
        let (name, params, result) = expected;
        assert_eq!((got.status, got.json()), (200, result), "{method} {path}");
        assert_eq!(got.header("content-type"), Some("application/json"));
        let received = agent.received().pop().expect("a call");
        assert_eq!(
            (&received.json()["method"], &received.json()["params"]),
            (&name.into(), &params),
            "{method} {path}"
        );
        assert_eq!(received.field("content-type"), Some("application/json"));
        assert_eq!(received.field("a2a-version"), Some("1.0"));
        assert!(received.head.starts_with("POST / "), "{}", received.head);
        assert!(!received.json()["id"].is_null());
    };
    let send: Value = serde_json::from_str(SEND).unwrap();
    let id = json!({"id": "t1"});
    check(
        "POST",
        "/message:send",
        SEND,
        ("SendMessage", send.clone(), json!({"task": task("t1")})),
    )
    .await;
    check(
        "POST",
        "/message%3Asend",
        SEND,
        ("SendMessage", send, json!({"task": task("t1")})),
    )
    .await;
    check("GET", "/tasks/t1", "", ("GetTask", id.clone(), task("t1"))).await;
    let some = json!({"id": "a:b%c?d", "historyLength": 3});
    check(
        "GET",
        "/tasks/a%3Ab%25c%3Fd?historyLength=3",
        "",
        ("GetTask", some, task("a:b%c?d")),
    )
    .await;
    check("POST", "/tasks/t1:cancel", "", ("CancelTask", id.clone(), task("t1"))).await;
    let why = json!({"id": "t1", "metadata": {"why": 1}});
    check(
        "POST",
        "/tasks/t1:cancel",
        r#"{"metadata":{"why":1}}"#,
        ("CancelTask", why, task("t1")),
    )
    .await;
    check(
        "GET",
        "/tasks?contextId=c&utm=x&A2A-Version=1.0",
        "",
        ("ListTasks", json!({"contextId": "c"}), page),
    )
    .await;
    let create = ("CreateTaskPushNotificationConfig", config.clone(), config.clone());
    check("POST", "/tasks/t1/pushNotificationConfigs", hook, create).await;
    let named = json!({"taskId": "t1", "id": "p1"});
    let get = ("GetTaskPushNotificationConfig", named.clone(), config.clone());
    check("GET", "/tasks/t1/pushNotificationConfigs/p1", "", get).await;
    let list = (
        "ListTaskPushNotificationConfigs",
        json!({"taskId": "t1"}),
        json!({"configs": [config], "nextPageToken": ""}),
    );
    check("GET", "/tasks/t1/pushNotificationConfigs", "", list).await;
    let delete = ("DeleteTaskPushNotificationConfig", named, json!({}));
    check("DELETE", "/tasks/t1/pushNotificationConfigs/p1", "", delete).await;
    let tenant = json!({"tenant": "north", "id": "t1"});
    check("GET", "/north/tasks/t1", "", ("GetTask", tenant, task("t1"))).await;
}

#[tokio::test]
async fn callers_of_0_3_are_served_under_v1() {
    let agent = agent().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let got = ask(&gateway, "POST", "/v1/message:send", OLD_SEND).await;
    let task = json!({"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
    assert_eq!((got.status, got.json()), (200, json!({ "task": task })));
    let received = agent.received().pop().expect("a call").json();
    assert_eq!(received["method"], "SendMessage");
    // Unset is not blocking in this binding.
    assert_eq!(received["params"]["configuration"], json!({"returnImmediately": true}));
    assert_eq!(received["params"]["message"]["parts"], json!([{"text": "x"}]));
    let got = ask(&gateway, "GET", "/v1/tasks/t1", "").await;
    assert_eq!((got.status, &got.json()["id"]), (200, &json!("t1")));
}

#[tokio::test]
async fn old_agents_are_reached_too() {
    let agent = Agent::with_card(CARD_0_3, |request| {
        let task = json!({"kind": "task", "id": "t1", "contextId": "c", "status": {"state": "completed"}});
        answer(request, &task)
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let expected = json!({"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
    assert_eq!(ask(&gateway, "GET", "/tasks/t1", "").await.json(), expected);
    assert_eq!(ask(&gateway, "GET", "/v1/tasks/t1", "").await.json()["id"], "t1");
    let methods: Vec<_> = agent.received().iter().map(|it| it.json()["method"].clone()).collect();
    assert_eq!(methods, ["tasks/get", "tasks/get"]);
}

/// What a caller of this path gets of a stream of these events.
async fn stream(path: &str, body: &str, chunks: Vec<String>) -> (String, bool) {
    let (sender, receiver) = mpsc::channel(chunks.len().max(1));
    for chunk in chunks {
        sender.send(Some(chunk)).await.unwrap();
    }
    drop(sender);
    let receiver = Mutex::new(Some(receiver));
    let agent = Agent::start(move |_| Reply::Stream(receiver.lock().unwrap().take().expect("one stream"))).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let fields = [("x-api-key", KEY), ("content-type", "application/json")];
    let response = open(gateway.address, "POST", &format!("/agent{path}"), &fields, body).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(agent.received()[0].field("accept"), Some("text/event-stream"));
    read(response).await
}

#[tokio::test]
async fn streams_carry_bare_events_and_named_errors() {
    let update =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}});
    let failed = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"boom\"}}\n\n".to_owned();
    let chunks = |last: Option<String>| {
        let events = [json!({"task": task("t1")}), update.clone()].map(|it| event("1", &it.to_string()));
        events.into_iter().chain(last).collect::<Vec<_>>()
    };
    let (text, clean) = stream("/message:stream", SEND, chunks(None)).await;
    let events: Vec<Value> = (text.split("\n\n").filter_map(|it| it.strip_prefix("data: ")))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert!(clean);
    assert_eq!(events, [json!({"task": task("t1")}), update.clone()]);
    let (text, clean) = stream("/message:stream", SEND, chunks(Some(failed))).await;
    let (_, error) = text.rsplit_once("event: error\ndata: ").expect("a named event");
    let error: Value = serde_json::from_str(error.trim_end()).unwrap();
    assert!(clean);
    assert_eq!(error["error"]["message"], "boom");
    let (text, clean) = stream("/v1/message:stream", OLD_SEND, chunks(None)).await;
    assert!(clean);
    assert!(text.contains(r#""final":true"#), "{text}");
}

#[tokio::test]
async fn an_error_that_a_stream_begins_with_is_the_whole_answer() {
    let failed = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":\"gone\"}}\n\n";
    for card in [CARD, CARD_0_3] {
        let streams: Arc<Mutex<Vec<mpsc::Receiver<Option<String>>>>> = Arc::default();
        let script = streams.clone();
        let agent = Agent::with_card(card, move |_| Reply::Stream(script.lock().unwrap().pop().unwrap())).await;
        let gateway = Gateway::of(&[agent.address], "", "").await;
        let opens = || {
            let (sender, receiver) = mpsc::channel(2);
            streams.lock().unwrap().push(receiver);
            sender
        };
        for (path, body) in [("/message:stream", SEND), ("/v1/message:stream", OLD_SEND)] {
            // Before the end of the agent's stream.
            let sender = opens();
            sender.send(Some(failed.to_owned())).await.unwrap();
            let got = ask(&gateway, "POST", path, body).await;
            assert_eq!(
                (got.status, got.header("content-type")),
                (404, Some("application/json")),
                "{path}"
            );
            let error = got.json();
            let message = error.pointer("/error/message").unwrap_or(&error["message"]);
            assert_eq!(message, "gone", "{path}");
            eventually("the agent's stream is left", || async { sender.is_closed() }).await;
            // A comment says that there is a stream, and the head goes on.
            let sender = opens();
            sender.send(Some(": ping\n\n".to_owned())).await.unwrap();
            let fields = [("x-api-key", KEY), ("content-type", "application/json")];
            let response = open(gateway.address, "POST", &format!("/agent{path}"), &fields, body).await;
            assert_eq!(response.status(), 200);
            sender.send(Some(failed.to_owned())).await.unwrap();
            drop(sender);
            let (text, clean) = read(response).await;
            assert!(clean && text.contains("event: error\ndata: "), "{text}");
        }
        for record in gateway.access(4).await {
            assert_eq!(record["outcome"], "agent_error");
        }
    }
}

#[tokio::test]
async fn errors_have_the_status_of_the_binding() {
    let agent = Agent::start(|request| {
        let error = json!({"code": -32001, "message": "Task not found", "data": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}]});
        Reply::Json(json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}).to_string())
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let check = async |method: &str, path: &str, body: &str, status: u16| {
        let got = ask(&gateway, method, path, body).await;
        assert_eq!(got.status, status, "{method} {path}: {}", got.text());
        got
    };
    let got = check("GET", "/tasks/t1", "", 404).await.json();
    assert_eq!(
        (&got["error"]["code"], &got["error"]["status"]),
        (&json!(404), &json!("NOT_FOUND"))
    );
    assert_eq!(got["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
    let got = check("GET", "/v1/tasks/t1", "", 404).await.json();
    assert_eq!(got["message"], "Task not found");
    // A stream that does not begin.
    check("POST", "/message:stream", SEND, 404).await;
    // Of the gateway.
    let reached = agent.received().len();
    let got = check("POST", "/message:send", "{", 400).await.json();
    assert_eq!(got["error"]["code"], 400);
    check(
        "POST",
        "/message:send",
        r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{}]}}"#,
        400,
    )
    .await;
    check("POST", "/v1/message:send", "[]", 400).await;
    check(
        "POST",
        "/tasks/t1/pushNotificationConfigs",
        r#"{"taskId":"t2","url":"u"}"#,
        400,
    )
    .await;
    check("GET", "/nothing/here/at/all", "", 404).await;
    check("GET", "/tasks/", "", 404).await;
    // Servers in between disagree about what an encoded slash separates, so it is refused in every path.
    check("GET", "/tasks/a%2Fb", "", 400).await;
    let got = check("GET", "/message:send", "", 405).await;
    assert_eq!(got.header("allow"), Some("POST"));
    let got = call(gateway.address, "GET", "/agent/tasks/t1", &[], "").await;
    assert_eq!(got.status, 401);
    assert!(got.header("www-authenticate").is_some());
    assert_eq!(got.json()["error"]["code"], 401);
    let typed = [("x-api-key", KEY), ("content-type", "text/plain")];
    assert_eq!(
        call(gateway.address, "POST", "/agent/message:send", &typed, SEND)
            .await
            .status,
        415
    );
    assert_eq!(agent.received().len(), reached, "nothing of it reached the agent");
}

#[tokio::test]
async fn tasks_have_owners_in_every_binding() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    assert_eq!(
        by(ANN, &gateway, "POST", "/message:send", SEND).await.json()["task"]["id"],
        "t1"
    );
    assert_eq!(by(ANN, &gateway, "GET", "/tasks/t1", "").await.status, 200);
    let foreign = by(BOB, &gateway, "GET", "/tasks/t1", "").await;
    let unknown = by(BOB, &gateway, "GET", "/tasks/t2", "").await;
    assert_eq!((foreign.status, foreign.text()), (404, unknown.text()));
    let record = gateway.access(4).await.pop().expect("a record");
    assert_eq!(
        (&record["binding"], &record["generation"]),
        (&json!("HTTP+JSON"), &json!("1.0"))
    );
    let listed = by(ANN, &gateway, "GET", "/tasks", "").await.json();
    assert_eq!(
        (&listed["tasks"][0]["id"], &listed["totalSize"]),
        (&json!("t1"), &json!(1))
    );
    assert_eq!(by(BOB, &gateway, "GET", "/tasks", "").await.json()["tasks"], json!([]));
}

#[tokio::test]
async fn the_binding_is_switched_off_with_translation() {
    let agent = agent().await;
    let gateway = Gateway::of(&[agent.address], "translate: false", "").await;
    assert_eq!(ask(&gateway, "POST", "/message:send", SEND).await.status, 404);
    assert!(agent.received().is_empty());
}
