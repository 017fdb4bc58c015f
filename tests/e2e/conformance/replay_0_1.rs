//! Recorded traffic of 0.1, replayed in front of an agent of 1.0: the requests go in as they were recorded, and what comes back
//! has no member that no recorded answer has. What is answered otherwise than it was recorded is listed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::replay::{Exchange, recorded};
use crate::harness::agent::{Agent, Received, Reply, event};
use crate::harness::{Gateway, KEY, call};

/// The recorded webhooks are on loopback.
const PUSH: &str =
    "push: { keys: [ { value: a-key-of-webhooks-with-32-characters } ], http: true, networks: [ 127.0.0.0/8 ] }";

/// Errors, by the end of their name; all other exchanges are answered with a task, or with events.
const ERRORS: &[(&str, i64, &str)] = &[
    ("error-batch", -32600, "as recorded"),
    ("error-parse", -32700, "as recorded"),
    ("error-get-unknown", -32001, "as recorded"),
    ("error-cancel-unknown", -32001, "as recorded"),
    ("error-resubscribe-unknown", -32001, "as recorded"),
    (
        "error-invalid-params",
        -32602,
        "the call names no task; recorded: -32600",
    ),
    ("error-unknown-method", -32602, "0.3 has it, and the call no message"),
    (
        "error-seed-method-sendTask",
        -32601,
        "no method of the specification; recorded: -32600",
    ),
    ("error-seed-method-sendTaskSubscribe", -32601, "likewise"),
    ("notification-no-id", -32600, "a call without an id would act unseen"),
    (
        "error-push-get-unknown",
        -32001,
        "the task is not there; recorded: -32603",
    ),
];

/// The paths of all members.
fn members(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(all) => {
            for (name, value) in all {
                let path = format!("{path}.{name}");
                members(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(all) => all.iter().for_each(|value| members(value, path, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The results of an answer, or of the events of a stream.
fn results(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let bodies: Vec<&str> = if text.starts_with("data: ") {
        lines.collect()
    } else {
        vec![&text]
    };
    let read = |body: &str| serde_json::from_str::<Value>(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    bodies
        .into_iter()
        .map(read)
        .filter_map(|body| body.get("result").cloned())
        .collect()
}

/// Tells as much of a task as there is to tell.
fn answer(request: &Received, count: &AtomicUsize, hook: &Mutex<Value>) -> Reply {
    let call = request.json();
    let message = &call["params"]["message"];
    let id = match message["taskId"].as_str().or(call["params"]["id"].as_str()) {
        Some(id) => id.to_owned(),
        None => format!("theirs-{}", count.fetch_add(1, Ordering::SeqCst)),
    };
    let ids = json!({"taskId": id, "contextId": "theirs"});
    let said = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Berth allotted."}]});
    let status = json!({"state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-21T04:21:14Z", "message": said});
    let artifact = json!({"artifactId": "a", "name": "Berth plan", "parts": [{"text": "Berth 14"}]});
    let task = json!({"id": id, "contextId": "theirs", "status": status, "artifacts": [artifact], "history": [said]});
    let update = |name: &str, member: &str, value: &Value| {
        let mut update = ids.clone();
        update[member] = value.clone();
        json!({ name: update })
    };
    match call["method"].as_str().unwrap_or_default() {
        "SendMessage" => Reply::Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}}).to_string()),
        "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig" => {
            let mut hook = hook.lock().unwrap();
            if call["params"]["url"].is_string() {
                *hook = call["params"].clone();
            }
            Reply::Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": *hook}).to_string())
        }
        "GetTask" | "CancelTask" => {
            Reply::Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": task}).to_string())
        }
        _ => {
            let (events, chunks) = tokio::sync::mpsc::channel(3);
            let first = json!({"task": {"id": id, "contextId": "theirs", "status": {"state": "TASK_STATE_WORKING"}}});
            let made = update("artifactUpdate", "artifact", &artifact);
            for result in [first, made, update("statusUpdate", "status", &status)] {
                events
                    .try_send(Some(event(&request.id(), &result.to_string())))
                    .unwrap();
            }
            Reply::Stream(chunks)
        }
    }
}

#[tokio::test]
async fn recorded_calls_of_0_1_are_answered_in_its_shape() {
    let mut exchanges = recorded("0.1", &["jsonrpc"]);
    exchanges.retain(|exchange| exchange.meta["request"]["method"] == "POST");
    let body = |exchange: &Exchange| String::from_utf8(exchange.file("request").expect("a body")).expect("text");
    // What is asked about was sent before.
    exchanges.sort_by_key(|exchange| {
        let body = body(exchange);
        (!body.contains("tasks/send"), body.contains("pushNotification/get"))
    });
    assert!(exchanges.len() > 20, "only {} exchanges", exchanges.len());
    let mut known = BTreeSet::new();
    for exchange in &exchanges {
        for result in results(&exchange.file("response").expect("a body")) {
            members(&result, "", &mut known);
        }
    }
    let (count, hook) = (AtomicUsize::new(0), Mutex::default());
    let agent = Agent::start(move |request| answer(request, &count, &hook)).await;
    let gateway = Gateway::of(&[agent.address], "v0_1: true", PUSH).await;
    let mut unused: BTreeSet<&str> = ERRORS.iter().map(|(name, ..)| *name).collect();
    for exchange in &exchanges {
        let (name, request) = (&exchange.name, body(exchange));
        let fields = [("X-API-Key", KEY), ("content-type", "application/json")];
        let got = call(gateway.address, "POST", "/agent", &fields, &request).await;
        assert_eq!(got.status, 200, "{name}: {}", got.text());
        let short = name.rsplit('/').next().unwrap_or_default();
        if let Some((short, code, why)) = ERRORS.iter().find(|(known, ..)| *known == short) {
            unused.remove(short);
            let text = got.text();
            let error: Value = serde_json::from_str(text.trim().trim_start_matches("data: ")).expect("an error");
            assert_eq!(error["error"]["code"], *code, "{name}, {why}: {text}");
            continue;
        }
        let params = serde_json::from_str::<Value>(&request).expect("a call")["params"].clone();
        let told = results(&got.body);
        assert!(!told.is_empty(), "{name}: {}", got.text());
        for result in &told {
            assert_eq!(result["id"], params["id"], "{name}");
            let mut found = BTreeSet::new();
            members(result, "", &mut found);
            let strange: Vec<_> = found.difference(&known).collect();
            assert!(strange.is_empty(), "{name}: {strange:?}");
        }
        let streams = got.header("content-type") == Some("text/event-stream");
        let last = told.last().expect("one");
        assert_eq!(last.get("final").is_some(), streams, "{name}");
        assert!(!streams || last["final"] == true, "{name}");
        if !streams && params["sessionId"].is_string() {
            assert_eq!(last["sessionId"], params["sessionId"], "{name}");
        }
    }
    assert!(unused.is_empty(), "matched nothing: {unused:?}");
}
