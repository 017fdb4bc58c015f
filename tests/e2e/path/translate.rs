//! Callers of one generation at agents of another: what goes in, what the agent gets, what comes back.

use std::sync::Mutex;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::ownership::{ANN, BOB, by, start};
use crate::harness::agent::{Agent, CARD, CARD_0_3, Received, Reply, event};
use crate::harness::client::{open, read};
use crate::harness::{Answer, Gateway, KEY, call, config_of, get, of_task, send, with_upstream};

const JSON: (&str, &str) = ("content-type", "application/json");
const CREDENTIAL: (&str, &str) = ("x-api-key", KEY);

fn old(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
}

fn old_send(method: &str) -> String {
    let message =
        json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]});
    old(method, &json!({ "message": message }))
}

async fn ask(gateway: &Gateway, fields: &[(&str, &str)], body: &str) -> Answer {
    let fields: Vec<_> = [JSON, CREDENTIAL].iter().chain(fields).copied().collect();
    call(gateway.address, "POST", "/agent", &fields, body).await
}

fn answer(request: &Received, result: &Value) -> String {
    format!(r#"{{"result":{result},"id":{},"jsonrpc":"2.0"}}"#, request.id())
}

fn task_1_0(id: &str, state: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": state}})
}

fn task_0_3(id: &str, state: &str) -> Value {
    json!({"kind": "task", "id": id, "contextId": "c", "status": {"state": state}})
}

/// The data of the events of a whole stream.
fn events(text: &str) -> Vec<Value> {
    text.split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
        .collect()
}

fn info(reason: &str) -> Value {
    json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}])
}

#[tokio::test]
async fn an_old_caller_sends_to_a_new_agent() {
    let agent = Agent::start(|request| {
        let body = answer(request, &json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")}));
        Reply::Whole(
            200,
            "content-type: application/a2a+json\r\na2a-extensions: https://ext.example/1\r\n",
            body,
        )
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let extensions = ("x-a2a-extensions", "https://ext.example/1");
    let got = ask(&gateway, &[extensions], &old_send("message/send")).await;
    assert_eq!(
        got.json(),
        json!({"jsonrpc": "2.0", "id": 7, "result": task_0_3("t1", "completed")})
    );
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(got.header("x-a2a-extensions"), Some("https://ext.example/1"));
    assert_eq!(got.header("a2a-extensions"), None);

    let received = agent.received().pop().expect("a call");
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]});
    let expected = json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": message}});
    assert_eq!(received.json(), expected);
    assert_eq!(received.field("a2a-version"), Some("1.0"));
    assert_eq!(received.field("a2a-extensions"), Some("https://ext.example/1"));
    assert_eq!(received.field("x-a2a-extensions"), None);
    assert_eq!(
        received.field("content-length"),
        Some(&*received.body.len().to_string())
    );
    let record = gateway.access(1).await.pop().expect("a record");
    assert_eq!((&record["generation"], &record["task"]), (&"0.3".into(), &"t1".into()));
}

#[tokio::test]
async fn a_new_caller_sends_to_an_old_agent() {
    let agent = Agent::with_card(CARD_0_3, |request| {
        Reply::Json(answer(request, &task_0_3("t1", "input-required")))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let fields = [("a2a-version", "1.0"), ("a2a-extensions", "https://ext.example/1")];
    let got = ask(&gateway, &fields, &send("\"s\"", "x")).await;
    let task = task_1_0("t1", "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(
        got.json(),
        json!({"jsonrpc": "2.0", "id": "s", "result": {"task": task}})
    );

    let received = agent.received().pop().expect("a call");
    let message =
        json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]});
    let expected = json!({"jsonrpc": "2.0", "id": "s", "method": "message/send", "params": {"message": message}});
    assert_eq!(received.json(), expected);
    assert_eq!(received.field("a2a-version"), None);
    assert_eq!(received.field("a2a-extensions"), None);
    assert_eq!(received.field("x-a2a-extensions"), Some("https://ext.example/1"));
}

#[tokio::test]
async fn the_card_offers_what_is_translated() {
    for card in [CARD, CARD_0_3] {
        let agent = Agent::with_card(card, |_| Reply::Silence).await;
        let gateway = Gateway::of(&[agent.address], "", "").await;
        let card = get(gateway.address, "/agent/.well-known/agent-card.json").await.json();
        assert_eq!(card["preferredTransport"], "JSONRPC", "{card}");
        assert!(
            card["protocolVersion"]
                .as_str()
                .is_some_and(|version| version.starts_with("0.3")),
            "{card}"
        );
        let interfaces = card["supportedInterfaces"].as_array().expect("interfaces");
        let offered: Vec<_> = (interfaces.iter())
            .map(|it| [&it["protocolBinding"], &it["protocolVersion"]].map(|text| text.as_str().unwrap()))
            .collect();
        let expected = [
            ["JSONRPC", "1.0"],
            ["JSONRPC", "0.3"],
            ["HTTP+JSON", "1.0"],
            ["HTTP+JSON", "0.3"],
        ];
        assert_eq!(offered, expected);
        assert!(interfaces.iter().all(|it| it["url"] == card["url"]), "{card}");
        let transports: Vec<_> = (card["additionalInterfaces"].as_array().expect("interfaces").iter())
            .map(|it| it["transport"].as_str().unwrap())
            .collect();
        assert_eq!(transports, ["JSONRPC", "HTTP+JSON"]);
    }
}

#[tokio::test]
async fn nothing_is_translated_where_it_is_switched_off() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let gateway = Gateway::of(&[agent.address], "translate: false", "").await;
    let got = ask(&gateway, &[], &old_send("message/send")).await;
    assert_eq!((got.status, got.code()), (200, -32009));
    let card = get(gateway.address, "/agent/.well-known/agent-card.json").await.json();
    assert_eq!(card["supportedInterfaces"].as_array().map(Vec::len), Some(1));
    assert_eq!(card.get("protocolVersion"), None);
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn streams_are_translated_event_by_event() {
    let (sender, chunks) = mpsc::channel(4);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| Reply::Stream(chunks.lock().unwrap().take().expect("one stream"))).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let status = |state: &str| {
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": state}}}).to_string()
    };
    let task = json!({"task": task_1_0("t1", "TASK_STATE_SUBMITTED")}).to_string();
    sender.send(Some(event("7", &task))).await.unwrap();
    let response = open(
        gateway.address,
        "POST",
        "/agent",
        &[JSON, CREDENTIAL],
        &old_send("message/stream"),
    )
    .await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(5), body.frame())
            .await
            .expect("in time");
        frame.map(|frame| String::from_utf8(frame.expect("whole").into_data().expect("data").to_vec()).expect("text"))
    };
    let data = |result: Value| json!({"jsonrpc": "2.0", "id": 7, "result": result});
    assert_eq!(
        events(&next().await.expect("an event")),
        [data(task_0_3("t1", "submitted"))]
    );
    let update = |state: &str, last: bool| {
        data(
            json!({"kind": "status-update", "taskId": "t1", "contextId": "c", "final": last, "status": {"state": state}}),
        )
    };
    // The agent sends each one only after the one before was read.
    sender.send(Some(": ping\r\n\r\n".to_owned())).await.unwrap();
    assert_eq!(next().await.as_deref(), Some(":\n\n"));
    // A comment in two pieces, the second with the beginning of an event.
    sender.send(Some(": ping - 2026".to_owned())).await.unwrap();
    assert_eq!(next().await.as_deref(), Some(":\n\n"));
    sender
        .send(Some(
            "-11-21\r\n\r\n".to_owned() + &event("7", &status("TASK_STATE_SUBMITTED")),
        ))
        .await
        .unwrap();
    assert_eq!(events(&next().await.expect("an event")), [update("submitted", false)]);
    let whole = event("7", &status("TASK_STATE_WORKING"));
    let (begin, end) = whole.split_at(40);
    sender.send(Some(begin.to_owned())).await.unwrap();
    sender.send(Some(end.to_owned())).await.unwrap();
    assert_eq!(events(&next().await.expect("an event")), [update("working", false)]);
    sender
        .send(Some(event("7", &status("TASK_STATE_COMPLETED"))))
        .await
        .unwrap();
    assert_eq!(events(&next().await.expect("an event")), [update("completed", true)]);
    drop(sender);
    assert_eq!(next().await, None, "a clean end");
    let record = gateway.access(1).await.pop().expect("a record");
    let told = (&record["outcome"], &record["events"], &record["task"]);
    assert_eq!(told, (&"ok".into(), &4.into(), &"t1".into()));
}

/// What a caller gets of a stream of these chunks, and whether it ended cleanly.
async fn stream(card: &str, body: &str, chunks: &[Option<String>]) -> (String, bool) {
    let (sender, receiver) = mpsc::channel(chunks.len().max(1));
    for chunk in chunks {
        sender.send(chunk.clone()).await.unwrap();
    }
    drop(sender);
    let receiver = Mutex::new(Some(receiver));
    let agent = Agent::with_card(card, move |_| {
        Reply::Stream(receiver.lock().unwrap().take().expect("one stream"))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let response = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], body).await;
    read(response).await
}

#[tokio::test]
async fn a_broken_stream_stays_broken_and_so_does_one_that_cannot_be_translated() {
    let task = event("7", &json!({"task": task_1_0("t1", "TASK_STATE_WORKING")}).to_string());
    let send = old_send("message/stream");
    let (text, clean) = stream(CARD, &send, &[Some(task.clone()), None]).await;
    assert_eq!((events(&text).len(), clean), (1, false), "{text}");
    let (text, clean) = stream(CARD, &send, &[Some(task.clone())]).await;
    assert_eq!((events(&text).len(), clean), (1, true), "{text}");
    let strange = [
        event("7", r#"{"somethingElse":{}}"#),
        event("7", r#"{"task":{"id":"t2"},"message":{}}"#),
        event(
            "7",
            r#"{"artifactUpdate":{"taskId":"t1","artifact":{"artifactId":"a","parts":[{}]}}}"#,
        ),
        "data: {not json\r\n\r\n".to_owned(),
    ];
    for strange in strange {
        let (text, clean) = stream(CARD, &send, &[Some(task.clone()), Some(strange.clone())]).await;
        assert_eq!((events(&text).len(), clean), (1, false), "{strange}: {text}");
    }
    // No event of the protocol, but nothing in it that could be lost.
    let done = "data: [DONE]\r\n\r\n".to_owned();
    let (text, clean) = stream(CARD, &send, &[Some(task), Some(done)]).await;
    assert_eq!((events(&text).len(), clean), (1, true), "{text}");
}

#[tokio::test]
async fn answers_that_cannot_be_translated_are_the_agents_fault() {
    let strange = [
        json!({"task": {"id": "t1", "status": "working"}}),
        json!({"task": ["t1", "c"]}),
        json!({"something": {}}),
    ];
    for strange in strange {
        let result = strange.clone();
        let agent = Agent::start(move |request| Reply::Json(answer(request, &result))).await;
        let gateway = Gateway::of(&[agent.address], "", "").await;
        let got = ask(&gateway, &[], &old_send("message/send")).await;
        assert_eq!((got.status, got.code()), (502, -32006), "{strange}");
    }
}

#[tokio::test]
async fn half_a_surrogate_pair_is_no_text() {
    const HALF: &str = r"\ud83d";
    let told = |more: &str| {
        format!(r#"{{"task":{{"id":"t1","contextId":"c","status":{{"state":"TASK_STATE_WORKING"}},{more}}}}}"#)
    };
    let text = told(&format!(
        r#""artifacts":[{{"artifactId":"a","parts":[{{"text":"{HALF}"}}]}}]"#
    ));
    let free = told(&format!(r#""metadata":{{"said":"{HALF}"}}"#));
    // Free JSON stays as it is written, and so does what is not translated.
    for (told, status) in [(&text, 502), (&free, 200)] {
        let result = told.clone();
        let agent = Agent::start(move |request| {
            let id = request.id();
            Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
        })
        .await;
        let gateway = Gateway::of(&[agent.address], "", "").await;
        let got = ask(&gateway, &[], &old_send("message/send")).await;
        assert_eq!((got.status, got.text().contains(HALF)), (status, status == 200));
        let got = ask(&gateway, &[], &send("1", "x")).await;
        assert_eq!((got.status, got.text().contains(HALF)), (200, true));
    }
    let good = event("7", &json!({"task": task_1_0("t1", "TASK_STATE_WORKING")}).to_string());
    let (text, clean) = stream(
        CARD,
        &old_send("message/stream"),
        &[Some(good), Some(event("7", &text))],
    )
    .await;
    assert_eq!((events(&text).len(), clean), (1, false), "{text}");
}

#[tokio::test]
async fn parameters_that_are_none_of_the_method_reach_no_agent() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let got = ask(
        &gateway,
        &[],
        &old("message/send", &json!({"message": {"role": "user", "parts": [{}]}})),
    )
    .await;
    assert_eq!((got.status, got.code()), (200, -32602));
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn errors_come_in_the_callers_form() {
    let error = r#"{"code":-32002,"message":"too late","data":[{"@type":"x"}]}"#;
    let fail =
        move |request: &Received| Reply::Json(format!(r#"{{"jsonrpc":"2.0","error":{error},"id":{}}}"#, request.id()));
    let agent = Agent::start(fail).await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let error: Value = serde_json::from_str(error).unwrap();
    let got = ask(&gateway, &[], &old("tasks/cancel", &json!({"id": "t1"}))).await;
    assert_eq!(got.json()["error"], error);
    // Callers of 0.3 read nothing but events where they asked for a stream.
    let got = ask(&gateway, &[], &old_send("message/stream")).await;
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
    assert_eq!(events(&got.text())[0]["error"], error);

    let agent = Agent::with_card(CARD_0_3, fail).await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let got = ask(&gateway, &[], &of_task("CancelTask", "t1")).await;
    let expected = json!({"code": -32002, "message": "too late", "data": info("TASK_NOT_CANCELABLE")});
    assert_eq!(got.json()["error"], expected);
    assert_eq!(gateway.access(1).await[0]["outcome"], "agent_error");
}

#[tokio::test]
async fn what_an_old_agent_does_not_have_is_unsupported() {
    let agent = Agent::with_card(CARD_0_3, |_| Reply::Silence).await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let got = ask(
        &gateway,
        &[],
        r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}"#,
    )
    .await;
    assert_eq!((got.status, got.code()), (200, -32004));
    assert_eq!(got.json()["error"]["data"], info("UNSUPPORTED_OPERATION"));
    let hook = r#"{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t1","url":"https://hook.example"}}"#;
    let got = ask(&gateway, &[], hook).await;
    assert_eq!((got.status, got.code()), (200, -32003));
    assert_eq!(got.json()["error"]["data"], info("PUSH_NOTIFICATION_NOT_SUPPORTED"));
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn tasks_have_owners_whatever_their_callers_speak() {
    let agent = Agent::start(|request| match request.json()["method"].as_str() {
        Some("SendMessage") => Reply::Json(answer(request, &json!({"task": task_1_0("t1", "TASK_STATE_WORKING")}))),
        _ => Reply::Json(answer(request, &task_1_0("t1", "TASK_STATE_WORKING"))),
    })
    .await;
    let gateway = start(&agent, "").await;
    assert_eq!(
        by(ANN, &gateway, &old_send("message/send")).await.json()["result"]["id"],
        "t1"
    );
    let get = old("tasks/get", &json!({"id": "t1"}));
    assert_eq!(
        by(ANN, &gateway, &get).await.json()["result"],
        task_0_3("t1", "working")
    );
    assert_eq!(
        by(ANN, &gateway, &of_task("GetTask", "t1")).await.json()["result"]["id"],
        "t1"
    );
    assert_eq!(by(BOB, &gateway, &get).await.code(), -32001);
    let unknown = by(BOB, &gateway, &old("tasks/get", &json!({"id": "t2"}))).await;
    assert_eq!(by(BOB, &gateway, &get).await.text(), unknown.text());
    assert_eq!(agent.received().len(), 3);
}

/// An agent of 0.3 that tells nothing of a task to whom subscribes, as the Python SDK's do.
async fn reticent(state: &'static str, streams: mpsc::Receiver<Option<String>>) -> Agent {
    let streams = Mutex::new(Some(streams));
    Agent::with_card(CARD_0_3, move |request| match request.json()["method"].as_str() {
        Some("tasks/resubscribe") => Reply::Stream(streams.lock().unwrap().take().expect("one stream")),
        Some("tasks/get") if state == "gone" => Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32001,"message":"Task not found"}}}}"#,
            request.id()
        )),
        _ => Reply::Json(answer(request, &task_0_3("t1", state))),
    })
    .await
}

#[tokio::test]
async fn a_new_callers_subscription_begins_with_the_task() {
    let (sender, streams) = mpsc::channel(2);
    let agent = reticent("working", streams).await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let body = of_task("SubscribeToTask", "t1");
    let response = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &body).await;
    let mut body = response.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(5), body.frame())
            .await
            .expect("in time");
        frame.map(|frame| String::from_utf8(frame.expect("whole").into_data().expect("data").to_vec()).expect("text"))
    };
    // Nothing came of the agent's stream yet.
    let task = task_1_0("t1", "TASK_STATE_WORKING");
    let first = json!({"jsonrpc": "2.0", "id": "c", "result": {"task": task}});
    assert_eq!(events(&next().await.expect("an event")), [first]);
    let done = json!({"kind": "status-update", "taskId": "t1", "contextId": "c", "final": true, "status": {"state": "completed"}});
    sender.send(Some(event("\"c\"", &done.to_string()))).await.unwrap();
    let update = json!({"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
    let second = json!({"jsonrpc": "2.0", "id": "c", "result": {"statusUpdate": update}});
    assert_eq!(events(&next().await.expect("an event")), [second]);
    drop(sender);
    assert_eq!(next().await, None);
    let methods: Vec<_> = agent.received().iter().map(|it| it.json()["method"].clone()).collect();
    assert_eq!(
        methods,
        ["tasks/resubscribe", "tasks/get"],
        "nothing may happen between them unseen"
    );
}

#[tokio::test]
async fn a_subscription_and_the_get_of_its_task_share_a_place() {
    let (sender, streams) = mpsc::channel(1);
    let agent = reticent("working", streams).await;
    let config = config_of(&[agent.address], "policy: { task_owner: none }", "");
    let gateway = Gateway::start(&with_upstream(&config, "max_in_flight: 1, queue: { timeout: 30s }")).await;
    gateway.ready().await;
    drop(sender);
    let got = ask(&gateway, &[], &of_task("SubscribeToTask", "t1")).await;
    assert_eq!(
        events(&got.text())[0]["result"]["task"],
        task_1_0("t1", "TASK_STATE_WORKING")
    );
    let queued = gateway.metric("a2a_gateway_queued_calls_total").await;
    assert!(queued < 1.0, "{queued} waited");
}

#[tokio::test]
async fn a_new_caller_cannot_subscribe_to_what_has_ended_or_never_was() {
    for (state, code, reason) in [
        ("completed", -32004, "UNSUPPORTED_OPERATION"),
        ("gone", -32001, "TASK_NOT_FOUND"),
    ] {
        let (_sender, streams) = mpsc::channel(1);
        let agent = reticent(state, streams).await;
        let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
        let got = ask(&gateway, &[], &of_task("SubscribeToTask", "t1")).await;
        assert_eq!((got.status, got.code()), (200, code));
        assert_eq!(got.header("content-type"), Some("application/json"));
        assert_eq!(got.json()["error"]["data"], info(reason));
    }
}

#[tokio::test]
async fn a_subscription_that_is_refused_whole_is_unsupported_only_if_the_task_has_ended() {
    for (state, code, reason) in [
        ("completed", -32004, Some("UNSUPPORTED_OPERATION")),
        ("working", -32602, None),
    ] {
        let agent = Agent::with_card(CARD_0_3, move |request| match request.json()["method"].as_str() {
            Some("tasks/get") => Reply::Json(answer(request, &task_0_3("t1", state))),
            _ => Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":"It has ended"}}}}"#,
                request.id()
            )),
        })
        .await;
        let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
        let got = ask(&gateway, &[], &of_task("SubscribeToTask", "t1")).await;
        assert_eq!((got.status, got.code()), (200, code), "{state}");
        if let Some(reason) = reason {
            assert_eq!(got.json()["error"]["data"], info(reason));
        }
        let methods: Vec<_> = agent.received().iter().map(|it| it.json()["method"].clone()).collect();
        assert_eq!(methods, ["tasks/resubscribe", "tasks/get"], "{state}");
    }
}

#[tokio::test]
async fn a_task_without_a_record_is_looked_for_in_the_agents_generation() {
    let replica = |known: bool| async move {
        Agent::with_card(CARD_0_3, move |request| {
            if known {
                return Reply::Json(answer(request, &task_0_3("t1", "working")));
            }
            Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32001,"message":"Task not found"}}}}"#,
                request.id()
            ))
        })
        .await
    };
    let (one, two) = (replica(false).await, replica(true).await);
    let gateway = Gateway::of(&[one.address, two.address], "policy: { task_owner: none }", "").await;
    let got = ask(&gateway, &[], &of_task("CancelTask", "t1")).await;
    assert_eq!(got.json()["result"], task_1_0("t1", "TASK_STATE_WORKING"));
    let methods: Vec<_> = two.received().iter().map(|it| it.json()["method"].clone()).collect();
    assert_eq!(methods, ["tasks/get", "tasks/cancel"]);
    assert_eq!(one.received().len(), 1);
}

#[tokio::test]
async fn a_new_agents_tenant_is_told_for_old_callers() {
    let card = CARD.replace(
        r#""protocolVersion":"1.0""#,
        r#""tenant":"north","protocolVersion":"1.0""#,
    );
    let agent = Agent::with_card(&card, |request| {
        Reply::Json(answer(request, &task_1_0("t1", "TASK_STATE_WORKING")))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    ask(&gateway, &[], &old("tasks/get", &json!({"id": "t1"}))).await;
    assert_eq!(
        agent.received()[0].json()["params"],
        json!({"tenant": "north", "id": "t1"})
    );
}

#[tokio::test]
async fn extended_cards_are_published_to_every_generation() {
    let agent = Agent::start(|request| {
        let card: Value = serde_json::from_str(CARD).unwrap();
        Reply::Json(answer(request, &card))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"agent/getAuthenticatedExtendedCard"}"#;
    let card = ask(&gateway, &[], body).await.json()["result"].clone();
    assert_eq!(card["preferredTransport"], "JSONRPC", "{card}");
    assert_eq!(agent.received()[0].json()["method"], "GetExtendedAgentCard");
    assert!(!card.to_string().contains("agent.internal"), "{card}");
}

/// An agent of 1.0 with this many webhooks for a task, each on a page of its own.
async fn paging(pages: usize) -> Agent {
    Agent::start(move |request| {
        let page: usize = request.json()["params"]["pageToken"]
            .as_str()
            .map_or(0, |token| token.parse().unwrap());
        let next = if page + 1 < pages {
            (page + 1).to_string()
        } else {
            String::new()
        };
        let config = json!({"taskId": "t1", "id": format!("p{page}"), "url": "https://hook.example"});
        Reply::Json(answer(request, &json!({"configs": [config], "nextPageToken": next})))
    })
    .await
}

#[tokio::test]
async fn an_old_caller_gets_all_pages_at_once() {
    let list = old("tasks/pushNotificationConfig/list", &json!({"id": "t1"}));
    for pages in [1, 3, 100] {
        let agent = paging(pages).await;
        let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
        let got = ask(&gateway, &[], &list).await.json();
        let ids: Vec<_> = (got["result"].as_array().expect("a list").iter())
            .map(|it| it["pushNotificationConfig"]["id"].as_str().unwrap().to_owned())
            .collect();
        let expected: Vec<_> = (0..pages).map(|page| format!("p{page}")).collect();
        assert_eq!((ids, agent.received().len()), (expected, pages));
    }
    let agent = paging(101).await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let got = ask(&gateway, &[], &list).await;
    assert_eq!((got.status, agent.received().len()), (502, 100));
}

#[tokio::test]
async fn all_pages_have_the_time_of_one_answer() {
    let (_page, pages) = mpsc::channel(1);
    let pages = Mutex::new(Some(pages));
    let agent = Agent::start(move |request| match request.json()["params"]["pageToken"].as_str() {
        None => Reply::Json(answer(request, &json!({"configs": [], "nextPageToken": "1"}))),
        // It begins, and does not end.
        Some(_) => Reply::Pieces(pages.lock().unwrap().take().expect("one page")),
    })
    .await;
    let config = config_of(&[agent.address], "policy: { task_owner: none }", "");
    let gateway = Gateway::start(&with_upstream(&config, "first_byte_timeout: 1s")).await;
    gateway.ready().await;
    let list = old("tasks/pushNotificationConfig/list", &json!({"id": "t1"}));
    let got = ask(&gateway, &[], &list).await;
    assert_eq!((got.status, agent.received().len()), (504, 2), "{}", got.text());
    assert_eq!(gateway.access(1).await[0]["outcome"], "upstream_timeout");
}

#[tokio::test]
async fn lists_are_no_objects() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let gateway = start(&agent, "").await;
    let hook = json!(["tenant", "id", "bobs", "https://hook.example"]);
    for configuration in [
        json!({"taskPushNotificationConfig": hook}),
        json!([[], {"taskId": "bobs", "url": "u"}]),
    ] {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]});
        let params = json!({"message": message, "configuration": configuration});
        let rest = [("x-api-key", ANN), JSON];
        let got = call(
            gateway.address,
            "POST",
            "/agent/message:send",
            &rest,
            &params.to_string(),
        )
        .await;
        assert_eq!(got.status, 400, "{configuration}: {}", got.text());
        let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).to_string();
        assert_eq!(by(ANN, &gateway, &rpc).await.code(), -32602, "{configuration}");
    }
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn an_answer_is_told_as_what_it_was_judged_to_be() {
    let secret = json!([{"artifactId": "a", "parts": [{"kind": "text", "text": "SECRET"}]}]);
    let status = json!({"state": "working"});
    let answers = [
        json!({"task_id": "t1", "id": "bobs", "contextId": "c", "status": status, "artifacts": secret}),
        json!({"kind": "status-update", "taskId": "t1", "id": "bobs", "status": status, "artifacts": secret}),
        json!({"kind": "message", "id": "bobs", "role": "agent", "status": status, "artifacts": secret}),
        json!({"taskId": null, "message_id": "x", "id": "bobs", "status": status, "artifacts": secret}),
        json!(["task", "bobs", "c", {"state": "working"}, secret]),
    ];
    for strange in answers {
        let told = strange.clone();
        let agent = Agent::with_card(CARD_0_3, move |request| {
            match request.json()["params"]["message"].as_object() {
                Some(message) => {
                    let id = if message["messageId"] == "bobs" { "bobs" } else { "t1" };
                    Reply::Json(answer(request, &task_0_3(id, "working")))
                }
                None => Reply::Json(answer(request, &told)),
            }
        })
        .await;
        let gateway = start(&agent, "").await;
        by(BOB, &gateway, &send("1", "x").replace("\"m\"", "\"bobs\"")).await;
        by(ANN, &gateway, &send("1", "x")).await;
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let got = by(ANN, &gateway, &of_task(method, "t1")).await;
            assert!(!got.text().contains("SECRET"), "{method} {strange}: {}", got.text());
        }
    }
}

#[tokio::test]
async fn an_unknown_version_is_refused_though_the_agent_would_never_see_it() {
    let agent = Agent::with_card(CARD_0_3, |request| {
        Reply::Json(answer(request, &task_0_3("t1", "working")))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    for (version, code) in [
        ("9.9", Some(-32009)),
        ("0.3", Some(-32009)),
        ("1.0", None),
        ("1.0.1", None),
    ] {
        let got = ask(&gateway, &[("a2a-version", version)], &of_task("GetTask", "t1")).await;
        assert_eq!(got.json()["error"]["code"].as_i64(), code, "{version}");
    }
    let rest = [CREDENTIAL, ("a2a-version", "9.9")];
    assert_eq!(
        call(gateway.address, "GET", "/agent/tasks/t1", &rest, "").await.status,
        400
    );
    assert_eq!(agent.received().len(), 2);
}

#[tokio::test]
async fn fields_about_another_body_do_not_go_on() {
    let agent = Agent::start(|request| {
        let body = answer(request, &task_1_0("t1", "TASK_STATE_WORKING"));
        let fields =
            "content-type: application/json\r\netag: \"x\"\r\ncontent-digest: sha-256=:x:\r\na2a-version: 1.0\r\n";
        Reply::Whole(200, fields, body)
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let fields = [CREDENTIAL, ("if-none-match", "\"x\""), ("range", "bytes=0-1")];
    let got = call(gateway.address, "GET", "/agent/v1/tasks/t1", &fields, "").await;
    assert_eq!(got.status, 200);
    for name in ["etag", "content-digest", "a2a-version"] {
        assert_eq!(got.header(name), None, "{name}");
    }
    for name in ["if-none-match", "range"] {
        assert_eq!(agent.received()[0].field(name), None, "{name}");
    }
}
