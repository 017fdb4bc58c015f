//! Agents that speak HTTP+JSON alone: what they are asked by callers of each dialect, and what those get.

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::agent::{Agent, CARD_HTTP_JSON, CARD_HTTP_JSON_0_3, Received, Reply};
use crate::harness::client::{open, read};
use crate::harness::{Answer, Gateway, KEY, call, config_of, get, of_task, with_upstream};

const SEND: &str = r#"{"message":{"messageId":"m","role":"ROLE_USER", "parts":[{"text":"x"}]}}"#;
const OLD_SEND: &str = r#"{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"x"}]}}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

pub(super) async fn ask(gateway: &Gateway, method: &str, path: &str, body: &str) -> Answer {
    by(KEY, gateway, method, path, body).await
}

pub(super) async fn by(key: &str, gateway: &Gateway, method: &str, path: &str, body: &str) -> Answer {
    let mut fields = vec![("x-api-key", key)];
    if !path.starts_with("/v1") {
        fields.push(("a2a-version", "1.0"));
    }
    if !body.is_empty() {
        fields.push(JSON);
    }
    call(gateway.address, method, &format!("/agent{path}"), &fields, body).await
}

pub(super) async fn rpc(gateway: &Gateway, body: &str) -> Answer {
    call(gateway.address, "POST", "/agent", &[("x-api-key", KEY), JSON], body).await
}

fn params(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": "r", "method": method, "params": params }).to_string()
}

pub(super) fn task(id: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})
}

/// What callers of 0.3 over JSON-RPC know it as.
fn old_task(id: &str) -> Value {
    json!({"kind": "task", "id": id, "contextId": "c", "status": {"state": "working"}})
}

fn config() -> Value {
    json!({"taskId": "t1", "id": "p1", "url": "https://hook.example"})
}

fn a2a(status: u16, body: &Value) -> Reply {
    Reply::Whole(status, "content-type: application/a2a+json\r\n", body.to_string())
}

/// An agent of 1.0 whose tasks are all `t1`, with the statuses of JavaScript.
pub(super) async fn agent() -> Agent {
    Agent::over_http_json(CARD_HTTP_JSON, |request| {
        let line = request.line();
        let (method, target) = line.split_once(' ').unwrap();
        let path = target.split('?').next().unwrap();
        match (method, path.trim_start_matches("/north")) {
            ("POST", "/message:send" | "/message%3Asend") => a2a(201, &json!({"task": task("t1")})),
            ("GET", "/tasks/t1") => a2a(200, &task("t1")),
            ("GET", "/tasks") => a2a(
                200,
                &json!({"tasks": [task("t1")], "nextPageToken": "", "pageSize": 50, "totalSize": 1}),
            ),
            ("POST", "/tasks/t1:cancel") => a2a(202, &task("t1")),
            ("POST", "/tasks/t1/pushNotificationConfigs") => a2a(201, &config()),
            ("GET", "/tasks/t1/pushNotificationConfigs/p1") => a2a(200, &config()),
            ("GET", "/tasks/t1/pushNotificationConfigs") => {
                a2a(200, &json!({"configs": [config()], "nextPageToken": ""}))
            }
            ("DELETE", "/tasks/t1/pushNotificationConfigs/p1") => Reply::Whole(204, "", String::new()),
            ("GET", "/extendedAgentCard") => {
                let mut card: Value = serde_json::from_str(CARD_HTTP_JSON).unwrap();
                card["skills"] = json!([{"id": "secret", "name": "s", "description": "d", "tags": []}]);
                a2a(200, &card)
            }
            _ => panic!("{line}"),
        }
    })
    .await
}

#[tokio::test]
async fn calls_of_its_own_dialect_pass_untouched() {
    let agent = agent().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let hook = r#"{ "id":"p1","url":"https://hook.example" , "draft":1}"#;
    let check = async |method: &str, path: &str, body: &str, status: u16| {
        let got = ask(&gateway, method, path, body).await;
        let received = agent.received().pop().expect("a call");
        assert_eq!(received.line(), format!("{method} {path}"));
        assert_eq!(received.body, body.as_bytes(), "{method} {path}");
        assert_eq!(got.status, status, "{method} {path}: {}", got.text());
        assert_eq!(received.field("a2a-version"), Some("1.0"));
        got
    };
    let sent = check("POST", "/message:send?utm=x&y=%20", SEND, 201).await;
    assert_eq!(sent.json(), json!({"task": task("t1")}));
    assert_eq!(sent.header("content-type"), Some("application/a2a+json"));
    check("POST", "/message%3Asend", SEND, 201).await;
    check("GET", "/tasks/t1?historyLength=3", "", 200).await;
    check("GET", "/north/tasks/t1", "", 200).await;
    check("GET", "/tasks?contextId=c", "", 200).await;
    check("POST", "/tasks/t1:cancel", "", 202).await;
    check("POST", "/tasks/t1:cancel", r#"{ "metadata":{"why":1}}"#, 202).await;
    check("POST", "/tasks/t1/pushNotificationConfigs", hook, 201).await;
    check("GET", "/tasks/t1/pushNotificationConfigs/p1", "", 200).await;
    check("GET", "/tasks/t1/pushNotificationConfigs", "", 200).await;
    let deleted = check("DELETE", "/tasks/t1/pushNotificationConfigs/p1", "", 204).await;
    assert!(deleted.body.is_empty());
    let card = check("GET", "/extendedAgentCard", "", 200).await.json();
    assert_eq!(card["skills"][0]["id"], "secret");
    assert!(!card.to_string().contains("agent.internal"), "{card}");
    let record = gateway.access(1).await.remove(0);
    assert_eq!(
        (&record["binding"], &record["task"]),
        (&"HTTP+JSON".into(), &"t1".into())
    );
}

#[tokio::test]
async fn the_agent_reads_a_call_as_it_was_read_here() {
    let agent = agent().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    // No version, and one that goes on as it is asked for nowhere else; credentials and conditions stay here.
    let fields = [
        ("x-api-key", KEY),
        ("if-none-match", "\"e\""),
        ("range", "bytes=0-1"),
        ("x-trace", "1"),
    ];
    let got = call(gateway.address, "GET", "/agent/tasks/t1", &fields, "").await;
    assert_eq!(got.status, 200);
    let received = agent.received().pop().expect("a call");
    assert_eq!(
        (received.field("a2a-version"), received.field("x-trace")),
        (Some("1.0"), Some("1"))
    );
    for absent in ["x-api-key", "if-none-match", "range"] {
        assert_eq!(received.field(absent), None, "{absent}");
    }
    let fields = [("x-api-key", KEY), ("a2a-version", "0.3")];
    let refused = call(gateway.address, "GET", "/agent/tasks/t1", &fields, "").await;
    assert_eq!((refused.status, agent.received().len()), (400, 1));
}

#[tokio::test]
async fn paths_stand_behind_the_endpoints_own() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON, |_| a2a(200, &task("t1"))).await;
    let yaml = config_of(&[agent.address], "policy: { task_owner: none }", "");
    let yaml = yaml.replace("/\" } ]", "/rest\" } ]");
    let card = format!(
        "card: {{ url: \"http://{}/.well-known/agent-card.json\" }}\n    policy:",
        agent.address
    );
    let gateway = Gateway::start(&yaml.replace("policy:", &card)).await;
    gateway.ready().await;
    ask(&gateway, "GET", "/tasks/t1?historyLength=1", "").await;
    rpc(&gateway, &of_task("GetTask", "t1")).await;
    let lines: Vec<_> = agent.received().iter().map(|it| it.line().to_owned()).collect();
    assert_eq!(lines, ["GET /rest/tasks/t1?historyLength=1", "GET /rest/tasks/t1"]);
}

#[tokio::test]
async fn callers_of_json_rpc_are_served() {
    let agent = agent().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let check = async |method: &str, given: Value, line: &str, body: Value, result: Value| {
        let got = rpc(&gateway, &params(method, &given)).await;
        let received = agent.received().pop().expect("a call");
        assert_eq!((received.line(), received.json()), (line, body), "{method}");
        assert_eq!(
            (got.status, got.json()),
            (200, json!({"jsonrpc": "2.0", "id": "r", "result": result})),
            "{method}"
        );
        assert_eq!(got.header("content-type"), Some("application/json"));
        assert_eq!(received.field("a2a-version"), Some("1.0"));
        let posts = line.starts_with("POST");
        assert_eq!(
            received.field("content-type"),
            posts.then_some("application/json"),
            "{method}"
        );
        assert_eq!(received.field("accept"), Some("application/a2a+json, application/json"));
    };
    let send: Value = serde_json::from_str(SEND).unwrap();
    let id = json!({"id": "t1"});
    check(
        "SendMessage",
        send.clone(),
        "POST /message:send",
        send,
        json!({"task": task("t1")}),
    )
    .await;
    check("GetTask", id.clone(), "GET /tasks/t1", Value::Null, task("t1")).await;
    let some = json!({"tenant": "north", "id": "t1", "historyLength": 2});
    check(
        "GetTask",
        some,
        "GET /north/tasks/t1?historyLength=2",
        Value::Null,
        task("t1"),
    )
    .await;
    check(
        "CancelTask",
        id.clone(),
        "POST /tasks/t1:cancel",
        id.clone(),
        task("t1"),
    )
    .await;
    let page = json!({"tasks": [task("t1")], "nextPageToken": "", "pageSize": 50, "totalSize": 1});
    check(
        "ListTasks",
        json!({"contextId": "c"}),
        "GET /tasks?contextId=c",
        Value::Null,
        page,
    )
    .await;
    let configs = "/tasks/t1/pushNotificationConfigs";
    let create = format!("POST {configs}");
    check(
        "CreateTaskPushNotificationConfig",
        config(),
        &create,
        config(),
        config(),
    )
    .await;
    let named = json!({"taskId": "t1", "id": "p1"});
    let get = format!("GET {configs}/p1");
    check(
        "GetTaskPushNotificationConfig",
        named.clone(),
        &get,
        Value::Null,
        config(),
    )
    .await;
    let list = format!("GET {configs}");
    let all = json!({"configs": [config()], "nextPageToken": ""});
    check(
        "ListTaskPushNotificationConfigs",
        json!({"taskId": "t1"}),
        &list,
        Value::Null,
        all,
    )
    .await;
    let delete = format!("DELETE {configs}/p1");
    check(
        "DeleteTaskPushNotificationConfig",
        named,
        &delete,
        Value::Null,
        json!(null),
    )
    .await;
    let got = rpc(&gateway, &params("GetExtendedAgentCard", &json!({}))).await.json();
    assert_eq!(got["result"]["skills"][0]["id"], "secret");
    assert!(!got.to_string().contains("agent.internal"), "{got}");
    // A query of JSON-RPC callers is none of the agent's.
    let fields = [("x-api-key", KEY), JSON];
    call(
        gateway.address,
        "POST",
        "/agent?historyLength=9",
        &fields,
        &of_task("GetTask", "t1"),
    )
    .await;
    assert_eq!(agent.received().pop().unwrap().line(), "GET /tasks/t1");
}

#[tokio::test]
async fn callers_of_the_other_generation_are_served() {
    let agent = agent().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let got = ask(&gateway, "POST", "/v1/message:send", OLD_SEND).await;
    assert_eq!((got.status, got.json()), (200, json!({"task": task("t1")})));
    assert_eq!(agent.received().pop().unwrap().line(), "POST /message:send");
    let got = rpc(&gateway, &params("tasks/get", &json!({"id": "t1"}))).await;
    assert_eq!(got.json()["result"], old_task("t1"));
    assert_eq!(ask(&gateway, "GET", "/v1/tasks/t1", "").await.json(), task("t1"));
}

#[tokio::test]
async fn agents_of_0_3_are_asked_under_v1() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON_0_3, |request| match request.line() {
        "POST /v1/message:send" => Reply::Json(json!({"task": task("t1")}).to_string()),
        "GET /v1/tasks/t1" | "POST /v1/tasks/t1:cancel" => Reply::Json(task("t1").to_string()),
        "GET /v1/card" => Reply::Json(CARD_HTTP_JSON_0_3.to_owned()),
        line => panic!("{line}"),
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let line = || agent.received().pop().unwrap().line().to_owned();
    // As it came.
    let got = ask(&gateway, "POST", "/v1/message:send", OLD_SEND).await;
    assert_eq!(got.json(), json!({"task": task("t1")}));
    assert_eq!(agent.received().pop().unwrap().body, OLD_SEND.as_bytes());
    // Callers of 1.0, and of JSON-RPC in both generations.
    assert_eq!(
        ask(&gateway, "POST", "/message:send", SEND).await.json(),
        json!({"task": task("t1")})
    );
    let received = agent.received().pop().unwrap();
    assert_eq!(received.json()["message"]["content"], json!([{"text": "x"}]));
    assert_eq!(received.field("a2a-version"), None);
    let got = rpc(&gateway, &of_task("CancelTask", "t1")).await;
    assert_eq!(
        (got.json()["result"].clone(), line().as_str()),
        (task("t1"), "POST /v1/tasks/t1:cancel")
    );
    let got = rpc(&gateway, &params("tasks/get", &json!({"id": "t1"}))).await;
    assert_eq!(
        (got.json()["result"].clone(), line().as_str()),
        (old_task("t1"), "GET /v1/tasks/t1")
    );
    assert_eq!(rpc(&gateway, &params("ListTasks", &json!({}))).await.code(), -32004);
    // Where callers of 0.2 ask for it.
    for path in ["/v1/card", "/agent/authenticatedExtendedCard"] {
        let card = call(
            gateway.address,
            "GET",
            &format!("/agent{path}"),
            &[("x-api-key", KEY)],
            "",
        )
        .await;
        assert_eq!((card.status, line().as_str()), (200, "GET /v1/card"), "{path}");
        assert!(!card.text().contains("agent.internal"), "{}", card.text());
    }
}

#[tokio::test]
async fn errors_are_the_agents_own() {
    let reply: std::sync::Arc<Mutex<(u16, &str, String)>> = Mutex::new((0, "", String::new())).into();
    let told = reply.clone();
    let agent = Agent::over_http_json(CARD_HTTP_JSON, move |_| {
        let (status, kind, body) = told.lock().unwrap().clone();
        Reply::Whole(status, kind, body)
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let json_type = "content-type: application/json\r\n";
    let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_CANCELABLE",
        "domain": "a2a-protocol.org"}]);
    let error = json!({"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "no", "details": details}});
    *reply.lock().unwrap() = (400, json_type, error.to_string());
    let got = ask(&gateway, "POST", "/tasks/t1:cancel", "").await;
    assert_eq!((got.status, got.text()), (400, error.to_string()));
    let got = rpc(&gateway, &of_task("CancelTask", "t1")).await;
    assert_eq!((got.status, got.code()), (200, -32002));
    assert_eq!(
        (&got.json()["error"]["message"], &got.json()["error"]["data"]),
        (&"no".into(), &details)
    );
    let old = rpc(&gateway, &params("tasks/cancel", &json!({"id": "t1"}))).await;
    assert_eq!((old.status, old.code()), (200, -32002));
    let outcomes: Vec<_> = gateway.access(3).await.iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, ["agent_error", "agent_error", "agent_error"]);
    // A stream that does not begin is an event to callers who read nothing else.
    let old = rpc(&gateway, &params("tasks/resubscribe", &json!({"id": "t1"}))).await;
    assert_eq!(old.header("content-type"), Some("text/event-stream"));
    assert!(old.text().contains("-32002"), "{}", old.text());
    let check = async |status, kind, body: &str, expected: (u16, i64)| {
        *reply.lock().unwrap() = (status, kind, body.to_owned());
        let got = rpc(&gateway, &of_task("GetTask", "t1")).await;
        assert_eq!((got.status, got.code()), expected, "{status} {body}");
    };
    check(404, json_type, r#"{"message":"Task not found"}"#, (200, -32001)).await;
    check(405, "", "Method Not Allowed", (200, -32004)).await;
    check(
        500,
        json_type,
        r#"{"error":{"code":500,"message":"boom"}}"#,
        (200, -32603),
    )
    .await;
    // Of the server, of a proxy, or of nobody.
    check(404, "content-type: text/html\r\n", "<h1>Not Found</h1>", (502, -32006)).await;
    check(404, json_type, r#"{"detail":"Not Found"}"#, (502, -32006)).await;
    check(500, "", "Internal Server Error", (502, -32006)).await;
    check(200, json_type, r#"{"status":"ok"}"#, (502, -32006)).await;
    check(304, "", "", (502, -32006)).await;
    let got = ask(&gateway, "GET", "/tasks/t1", "").await;
    assert_eq!((got.status, got.json()["error"]["code"].clone()), (502, 502.into()));
}

/// What a caller gets of a stream of these chunks, and what the agent was asked.
async fn stream(card: &str, path: &str, body: &str, chunks: &[&str]) -> (String, bool, Received) {
    let (sender, receiver) = mpsc::channel(chunks.len().max(1));
    for chunk in chunks {
        sender.send(Some((*chunk).to_owned())).await.unwrap();
    }
    drop(sender);
    let receiver = Mutex::new(Some(receiver));
    let agent = Agent::over_http_json(card, move |request| {
        if request.line().starts_with("GET") && !request.line().ends_with(":subscribe") {
            return a2a(200, &task("t1"));
        }
        Reply::Stream(receiver.lock().unwrap().take().expect("one stream"))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let fields = [("x-api-key", KEY), JSON, ("accept", "text/event-stream")];
    let response = open(gateway.address, "POST", &format!("/agent{path}"), &fields, body).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (text, clean) = read(response).await;
    (text, clean, agent.received().pop().unwrap())
}

fn data(text: &str) -> Vec<Value> {
    let events = text.split("\n\n").filter(|event| !event.is_empty());
    let lines = events.flat_map(|event| event.lines().filter_map(|line| line.strip_prefix("data: ")));
    lines.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn streams_are_bare_events() {
    let first = format!(": ping\r\n\r\ndata: {}\r\n\r\n", json!({"task": task("t1")}));
    let update =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}});
    let last = format!("id: 2\ndata: {update}\n\n");
    let chunks = [&*first, &*last];
    // As it came.
    let (text, clean, received) = stream(CARD_HTTP_JSON, "/message:stream", SEND, &chunks).await;
    assert_eq!((text, clean), (chunks.concat(), true));
    assert_eq!(received.line(), "POST /message:stream");
    // In the envelope of JSON-RPC.
    let send: Value = serde_json::from_str(SEND).unwrap();
    let body = params("SendStreamingMessage", &send);
    let (text, clean, received) = stream(CARD_HTTP_JSON, "", &body, &chunks).await;
    let wrapped = |result: Value| json!({"jsonrpc": "2.0", "id": "r", "result": result});
    assert!(clean);
    assert_eq!(
        data(&text),
        [wrapped(json!({"task": task("t1")})), wrapped(update.clone())]
    );
    assert_eq!(received.field("accept"), Some("text/event-stream"));
    // In that of 0.3.
    let message =
        json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]});
    let body = params("message/stream", &json!({ "message": message }));
    let (text, _, _) = stream(CARD_HTTP_JSON, "", &body, &chunks).await;
    assert_eq!(data(&text)[1]["result"]["final"], true);
    // From an agent of 0.3, whose subscription a caller of 1.0 opens with the task.
    let (text, clean, received) = stream(CARD_HTTP_JSON_0_3, "", &of_task("SubscribeToTask", "t1"), &[&last]).await;
    let results: Vec<_> = data(&text).iter().map(|it| it["result"].clone()).collect();
    assert_eq!(
        (results.as_slice(), clean),
        (&[json!({"task": task("t1")}), update][..], true)
    );
    assert_eq!(received.line(), "GET /v1/tasks/t1");
}

#[tokio::test]
async fn errors_in_streams_are_known_by_their_name_or_their_form() {
    let first = format!("data: {}\n\n", json!({"task": task("t1")}));
    let error = json!({"error": {"code": 500, "status": "INTERNAL", "message": "boom"}});
    let send: Value = serde_json::from_str(SEND).unwrap();
    let body = params("SendStreamingMessage", &send);
    for last in [format!("event: error\ndata: {error}\n\n"), format!("data: {error}\n\n")] {
        let (text, clean, _) = stream(CARD_HTTP_JSON, "", &body, &[&first, &last]).await;
        let failed = data(&text).pop().unwrap()["error"].clone();
        assert_eq!(
            (&failed["code"], &failed["message"], clean),
            (&(-32603).into(), &"boom".into(), true)
        );
        let (text, ..) = stream(CARD_HTTP_JSON, "/message:stream", SEND, &[&first, &last]).await;
        assert_eq!(text, format!("{first}{last}"));
    }
    // What breaks off stays broken.
    let (text, clean, _) = stream(CARD_HTTP_JSON, "", &body, &[&first, "data: {\"task\""]).await;
    assert_eq!((data(&text).len(), clean), (1, false));
}

#[tokio::test]
async fn the_card_offers_both_bindings_or_the_agents_own() {
    let agent = agent().await;
    let card = async |gateway: &Gateway| get(gateway.address, "/agent/.well-known/agent-card.json").await.json();
    let offered = |card: &Value| -> Vec<String> {
        let all = card["supportedInterfaces"].as_array().unwrap();
        let text = |it: &Value| format!("{} {}", it["protocolBinding"], it["protocolVersion"]).replace('"', "");
        all.iter().map(text).collect()
    };
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let both = card(&gateway).await;
    assert_eq!(
        offered(&both),
        ["HTTP+JSON 1.0", "HTTP+JSON 0.3", "JSONRPC 1.0", "JSONRPC 0.3"]
    );
    assert_eq!(
        (&both["preferredTransport"], &both["url"]),
        (&"HTTP+JSON".into(), &"https://gateway.example/agent".into())
    );
    let gateway = Gateway::of(
        &[agent.address],
        "translate: false\n    policy: { task_owner: none }",
        "",
    )
    .await;
    let own = card(&gateway).await;
    assert_eq!(
        (offered(&own), own.get("url")),
        (vec!["HTTP+JSON 1.0".to_owned()], None)
    );
    assert_eq!(ask(&gateway, "GET", "/tasks/t1", "").await.status, 200);
    assert_eq!(ask(&gateway, "GET", "/v1/tasks/t1", "").await.status, 400);
    let before = agent.received().len();
    let refused = rpc(&gateway, &of_task("GetTask", "t1")).await;
    assert_eq!(
        (refused.status, agent.received().len()),
        (404, before),
        "{}",
        refused.text()
    );
}

#[tokio::test]
async fn the_binding_of_an_agent_of_both_is_chosen() {
    let own = r#"{"url":"http://agent.internal/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},"#;
    let both = crate::harness::agent::CARD.replace(
        r#""supportedInterfaces":["#,
        &format!(r#""supportedInterfaces":[{own}"#),
    );
    let agent = Agent::over_http_json(&both, |request| {
        let result = json!({"jsonrpc": "2.0", "id": "c", "result": task("t1")});
        Reply::Json(if request.line() == "POST /" { result } else { task("t1") }.to_string())
    })
    .await;
    let check = async |settings: &str, line: &str| {
        let yaml = with_upstream(
            &config_of(&[agent.address], "policy: { task_owner: none }", ""),
            settings,
        );
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        let got = rpc(&gateway, &of_task("GetTask", "t1")).await;
        assert_eq!(got.json()["result"], task("t1"), "{settings}");
        assert_eq!(agent.received().pop().unwrap().line(), line, "{settings}");
    };
    check("protocol: { binding: auto }", "POST /").await;
    check("protocol: { binding: jsonrpc }", "POST /").await;
    check("protocol: { binding: http_json }", "GET /tasks/t1").await;
    agent.hide_card();
    // Without a card, where the configuration says all that it would say.
    let said = "security: [ { key: [] } ]\n    policy: { task_owner: none }";
    let yaml = with_upstream(
        &config_of(&[agent.address], said, ""),
        "protocol: { binding: http_json, generation: \"1.0\" }",
    );
    let gateway = Gateway::start(&yaml).await;
    assert_eq!(
        rpc(&gateway, &of_task("GetTask", "t1")).await.json()["result"],
        task("t1")
    );
    assert_eq!(agent.received().pop().unwrap().line(), "GET /tasks/t1");
    let yaml = with_upstream(
        &config_of(&[agent.address], said, ""),
        "protocol: { binding: http_json }",
    );
    let gateway = Gateway::start(&yaml).await;
    assert_eq!(rpc(&gateway, &of_task("GetTask", "t1")).await.status, 503);
}
