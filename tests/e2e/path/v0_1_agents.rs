//! Agents of A2A 0.1: what they are asked by callers of each later dialect, and what those get.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::Binding;
use a2a_gateway::a2a::Operation::{
    Cancel, ExtendedCard, Get, List, PushCreate, PushDelete, PushGet, PushList, Send, Stream, Subscribe,
};
use a2a_gateway::a2a::{Generation::V0_3, Generation::V1_0, v0_1};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::ownership::{ANN, BOB, with_keys};
use crate::harness::agent::{Agent, CARD_0_1, CARD_0_3, Received, Reply, event};
use crate::harness::caller::{CALLERS, Caller, dialect};
use crate::harness::{Gateway, OPEN, call, config_of, eventually, get, with_upstream};

/// Of tasks by their ids, as clients named them: the session of each.
pub(super) type Tasks = Arc<Mutex<BTreeMap<String, String>>>;

fn status(state: &str, text: &str) -> Value {
    let parts = json!([{"type": "text", "text": text}]);
    json!({"state": state, "message": {"role": "agent", "parts": parts}, "timestamp": "2026-11-21T04:21:14.475331"})
}

/// Keeps tasks as agents of 0.1 do: a send under a new id begins one. One that says `fail` gets the error of that code.
pub(super) fn answer(request: &Received, tasks: &Tasks) -> Reply {
    let asked = request.json();
    let (id, params) = (&asked["id"], &asked["params"]);
    let method = asked["method"].as_str().unwrap_or_default();
    let task = params["id"].as_str().expect("an id").to_owned();
    let mut tasks = tasks.lock().unwrap();
    if method.starts_with("tasks/send") {
        let session = params["sessionId"].as_str().unwrap_or("its own");
        tasks.entry(task.clone()).or_insert_with(|| session.to_owned());
    }
    let Some(session) = tasks.get(&task) else {
        // Statuses say nothing in 0.1, and some errors no id.
        let error = r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Task not found"}}"#;
        return Reply::Whole(400, "content-type: application/json\r\n", error.to_owned());
    };
    let whole = |state: &str| {
        let artifact = json!({"name": "a", "parts": [{"type": "text", "text": "x"}], "index": 0});
        let task = json!({"id": task, "sessionId": session, "status": status(state, "hi"), "artifacts": [artifact],
            "history": []});
        Reply::Json(json!({"jsonrpc": "2.0", "id": id, "result": task}).to_string())
    };
    match method {
        "tasks/send" | "tasks/get" => whole("working"),
        "tasks/cancel" => whole("canceled"),
        "tasks/sendSubscribe" | "tasks/resubscribe" => {
            let chunk = |text: &str, more: bool| {
                let parts = json!([{"type": "text", "text": text}]);
                json!({"id": task, "artifact": {"parts": parts, "index": 2, "append": more, "lastChunk": more}})
            };
            let told = [
                json!({"id": task, "status": {"state": "working"}, "final": false}),
                chunk("a", false),
                chunk("b", true),
                json!({"id": task, "status": status("completed", "done"), "final": true}),
            ];
            let (events, chunks) = mpsc::channel(told.len());
            for result in told {
                events
                    .try_send(Some(event(&id.to_string(), &result.to_string())))
                    .unwrap();
            }
            Reply::Stream(chunks)
        }
        other => panic!("{other}"),
    }
}

pub(super) async fn agent() -> Agent {
    let tasks = Tasks::default();
    Agent::with_card(CARD_0_1, move |request| answer(request, &tasks)).await
}

pub(super) fn yaml(endpoints: &[SocketAddr], more: &str) -> String {
    config_of(endpoints, more, "").replace("path: /agent", "path: /")
}

pub(super) async fn start(agent: &Agent, more: &str) -> Gateway {
    let gateway = Gateway::start(&with_keys(&yaml(&[agent.address], more))).await;
    gateway.ready().await;
    gateway
}

pub(super) fn callers() -> [Caller; 6] {
    CALLERS.map(Caller)
}

/// A message to a new task, or to this one.
pub(super) fn message(task: Option<&Value>) -> Value {
    let mut message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]});
    if let Some(task) = task {
        message["taskId"] = task["id"].clone();
        message["contextId"] = task["contextId"].clone();
    }
    json!({ "message": message })
}

/// Begins a task; gives it as its caller was told.
pub(super) async fn begin(caller: Caller, key: &str, gateway: &Gateway) -> Value {
    let got = caller.by(key, gateway, Send, &message(None)).await.unwrap();
    got[0]["task"].clone()
}

pub(super) fn last(agent: &Agent) -> Value {
    agent.received().pop().expect("a call").json()
}

pub(super) fn methods(agent: &Agent) -> Vec<String> {
    let method = |one: &Received| one.json()["method"].as_str().unwrap_or_default().to_owned();
    agent.received().iter().map(method).collect()
}

fn is_uuid(text: &Value) -> bool {
    let text = text.as_str().unwrap_or_default();
    let dashes: Vec<_> = text.match_indices('-').map(|(at, _)| at).collect();
    text.len() == 36 && dashes == [8, 13, 18, 23] && text.as_bytes()[14] == b'4'
}

/// Without the ids of messages, which the gateway makes.
fn told(mut task: Value) -> Value {
    let id = task["status"]["message"]["messageId"].take();
    assert!(id.as_str().is_some_and(|id| id.len() == 32), "{id}");
    task["status"]["message"].as_object_mut().unwrap().remove("messageId");
    task
}

fn expected(task: &Value, state: &str) -> Value {
    let message = json!({"role": "ROLE_AGENT", "parts": [{"text": "hi"}]});
    json!({"id": task["id"], "contextId": task["contextId"],
        "status": {"state": format!("TASK_STATE_{state}"), "message": message,
            "timestamp": "2026-11-21T04:21:14.475331Z"},
        "artifacts": [{"artifactId": "0", "name": "a", "parts": [{"text": "x"}]}]})
}

/// The events of a stream about a task, without the task that may come first.
fn updates(task: &Value) -> Vec<Value> {
    let of = |name: &str, mut update: Value| {
        update["taskId"] = task["id"].clone();
        update["contextId"] = task["contextId"].clone();
        json!({ name: update })
    };
    let artifact = |text: &str| json!({"artifactId": "2", "parts": [{"text": text}]});
    vec![
        of("statusUpdate", json!({"status": {"state": "TASK_STATE_WORKING"}})),
        of("artifactUpdate", json!({"artifact": artifact("a")})),
        of(
            "artifactUpdate",
            json!({"artifact": artifact("b"), "append": true, "lastChunk": true}),
        ),
    ]
}

/// What a caller was told of a whole stream: whether a task came first, and then what.
fn check_stream(what: &str, got: &[Value], task: &Value, first: Option<&Value>) {
    let mut got = got.to_vec();
    if let Some(first) = first {
        assert_eq!(got.remove(0)["task"], *first, "{what}");
    }
    let end = got.pop().expect("an end");
    assert_eq!(got, updates(task), "{what}");
    let end = told(end["statusUpdate"].clone());
    assert_eq!(
        (&end["taskId"], &end["contextId"]),
        (&task["id"], &task["contextId"]),
        "{what}"
    );
    assert_eq!(end["status"]["state"], "TASK_STATE_COMPLETED", "{what}");
}

#[tokio::test]
async fn callers_of_every_dialect_are_served() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    for caller in callers() {
        let what = format!("{:?}", caller.0);
        let task = begin(caller, ANN, &gateway).await;
        assert!(is_uuid(&task["id"]) && is_uuid(&task["contextId"]), "{what}: {task}");
        assert_ne!(task["id"], task["contextId"]);
        assert_eq!(told(task.clone()), expected(&task, "WORKING"), "{what}");
        let sent = agent.received().pop().expect("a call");
        let parts = json!([{"type": "text", "text": "x"}]);
        let params = json!({"id": task["id"], "sessionId": task["contextId"],
            "message": {"role": "user", "parts": parts}});
        assert_eq!(
            (&sent.json()["method"], &sent.json()["params"]),
            (&json!("tasks/send"), &params),
            "{what}"
        );
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("a2a-version", None),
            ("x-api-key", None),
            ("grpc-timeout", None),
        ] {
            assert_eq!(
                sent.field(name).filter(|_| name != "grpc-timeout" || value.is_some()),
                value,
                "{name}: {what}"
            );
        }

        let id = json!({"id": task["id"], "historyLength": 2});
        let got = caller.by(ANN, &gateway, Get, &id).await.unwrap().remove(0);
        assert_eq!(got, task, "{what}");
        assert_eq!(last(&agent)["params"], id, "{what}");
        let id = json!({"id": task["id"]});
        let got = caller.by(ANN, &gateway, Cancel, &id).await.unwrap().remove(0);
        assert_eq!(told(got), expected(&task, "CANCELED"), "{what}");
        assert_eq!(
            (&last(&agent)["method"], &last(&agent)["params"]),
            (&json!("tasks/cancel"), &id),
            "{what}"
        );

        let got = caller.by(ANN, &gateway, Subscribe, &id).await.unwrap();
        check_stream(&what, &got, &task, Some(&task));
        let got = caller.by(ANN, &gateway, Stream, &message(Some(&task))).await.unwrap();
        // A stream of 1.0 begins with a task.
        let opening = json!({"id": task["id"], "contextId": task["contextId"],
            "status": {"state": "TASK_STATE_WORKING"}});
        check_stream(&what, &got, &task, (caller.0.generation == V1_0).then_some(&opening));
        let params = last(&agent)["params"].clone();
        assert_eq!(
            (&params["id"], &params["sessionId"]),
            (&task["id"], &task["contextId"]),
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_task_that_a_stream_begins_is_its_callers() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    for caller in callers() {
        let what = format!("{:?}", caller.0);
        let got = caller.by(ANN, &gateway, Stream, &message(None)).await.unwrap();
        let first = if caller.0.generation == V1_0 {
            &got[0]["task"]
        } else {
            &got[0]["statusUpdate"]
        };
        let id = first.get("id").unwrap_or(&first["taskId"]);
        let task = json!({"id": id, "contextId": first["contextId"]});
        assert!(is_uuid(&task["id"]) && is_uuid(&task["contextId"]), "{what}: {task}");
        let begun = caller.by(ANN, &gateway, Get, &json!({"id": id})).await.unwrap();
        assert_eq!(begun[0]["contextId"], task["contextId"], "{what}");
        assert_eq!(
            caller.by(BOB, &gateway, Get, &json!({"id": id})).await,
            Err(-32001),
            "{what}"
        );
        // Events do not say the session, and it is known all the same.
        let mut taken = message(None);
        taken["message"]["contextId"] = task["contextId"].clone();
        assert_eq!(caller.by(BOB, &gateway, Send, &taken).await, Err(-32001), "{what}");
    }
}

#[tokio::test]
async fn the_session_is_the_context_that_the_caller_names() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    let caller = Caller(dialect(V1_0, Binding::JsonRpc));
    let mut named = message(None);
    named["message"]["contextId"] = "its name".into();
    let got = caller.by(ANN, &gateway, Send, &named).await.unwrap();
    assert_eq!(got[0]["task"]["contextId"], "its name");
    assert_eq!(last(&agent)["params"]["sessionId"], "its name");
    // The agent goes by the session of the task, and is the one who knows it.
    let mut more = message(Some(&got[0]["task"]));
    more["message"].as_object_mut().unwrap().remove("contextId");
    for caller in callers() {
        let before = methods(&agent).len();
        let got = caller.by(ANN, &gateway, Send, &more).await.unwrap();
        assert_eq!(got[0]["task"]["contextId"], "its name", "{:?}", caller.0);
        assert_eq!(last(&agent)["params"]["sessionId"], "its name", "{:?}", caller.0);
        assert_eq!(methods(&agent).split_off(before), ["tasks/get", "tasks/send"]);
        let got = caller.by(ANN, &gateway, Stream, &more).await.unwrap();
        let contexts: Vec<_> = got.iter().map(context_of).collect();
        assert!(contexts.iter().all(|context| *context == "its name"), "{contexts:?}");
        assert_eq!(last(&agent)["params"]["sessionId"], "its name", "{:?}", caller.0);
    }
    more["message"]["contextId"] = "its name".into();
    let before = methods(&agent).len();
    callers()[0].by(ANN, &gateway, Send, &more).await.unwrap();
    assert_eq!(
        methods(&agent).split_off(before),
        ["tasks/send"],
        "who says it is not asked for"
    );
}

#[tokio::test]
async fn the_agent_is_asked_for_the_session_with_what_the_caller_shows() {
    let tasks = Tasks::default();
    let agent = Agent::with_card(CARD_0_1, move |request| match request.field("x-api-key") {
        Some(_) => answer(request, &tasks),
        None => Reply::Whole(401, "", "who?".to_owned()),
    })
    .await;
    let gateway = start(&agent, "forward_credentials: true").await;
    for caller in callers() {
        let task = begin(caller, ANN, &gateway).await;
        let mut more = message(Some(&task));
        more["message"].as_object_mut().unwrap().remove("contextId");
        let got = caller.by(ANN, &gateway, Send, &more).await;
        assert_eq!(got.unwrap()[0]["task"]["id"], task["id"], "{:?}", caller.0);
        assert_eq!(last(&agent)["params"]["sessionId"], task["contextId"], "{:?}", caller.0);
    }
}

#[tokio::test]
async fn a_send_goes_on_where_the_agent_does_not_say_the_session() {
    let tasks = Tasks::default();
    let agent = Agent::with_card(CARD_0_1, move |request| match request.json()["method"].as_str() {
        Some("tasks/get") => Reply::Whole(500, "content-type: text/html\r\n", "<p>no</p>".to_owned()),
        _ => answer(request, &tasks),
    })
    .await;
    let gateway = start(&agent, "").await;
    let caller = callers()[0];
    let task = begin(caller, ANN, &gateway).await;
    let mut more = message(Some(&task));
    more["message"].as_object_mut().unwrap().remove("contextId");
    let got = caller.by(ANN, &gateway, Send, &more).await;
    assert_eq!(got.unwrap()[0]["task"]["id"], task["id"]);
    assert_eq!(last(&agent)["params"].get("sessionId"), None);
}

/// The context of an event in the form of 1.0.
fn context_of(event: &Value) -> &Value {
    let told = event.as_object().and_then(|event| event.values().next());
    &told.expect("one member")["contextId"]
}

#[tokio::test]
async fn a_task_is_its_owners_alone() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    for caller in callers() {
        let task = begin(caller, ANN, &gateway).await;
        let before = agent.received().len();
        let id = json!({"id": task["id"]});
        let mut other = message(Some(&task));
        other["message"].as_object_mut().unwrap().remove("contextId");
        for (operation, params) in [
            (Get, &id),
            (Cancel, &id),
            (Subscribe, &id),
            (Send, &other),
            (Stream, &other),
        ] {
            let got = caller.by(BOB, &gateway, operation, params).await;
            assert_eq!(got, Err(-32001), "{operation:?} of {:?}", caller.0);
        }
        // Nobody's is the same, though the agent would begin a task.
        let mut unknown = other.clone();
        unknown["message"]["taskId"] = "nobody's".into();
        assert_eq!(caller.by(ANN, &gateway, Send, &unknown).await, Err(-32001));
        assert_eq!(agent.received().len(), before, "the agent was not asked");
    }
}

#[tokio::test]
async fn what_0_1_does_not_have_is_refused() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    for caller in callers() {
        let task = begin(caller, ANN, &gateway).await;
        let before = agent.received().len();
        let id = &task["id"];
        let hook = json!({"taskId": id, "id": "p", "url": "https://hook.example/"});
        let mut inline = message(None);
        inline["configuration"] = json!({"taskPushNotificationConfig": {"url": "https://hook.example/"}});
        let one = json!({"taskId": id, "id": "p"});
        for (operation, params, expected) in [
            (PushCreate, &hook, -32003),
            (PushGet, &one, -32003),
            (Send, &inline, -32003),
            (Stream, &inline, -32003),
            (PushList, &one, -32004),
            (PushDelete, &one, -32004),
            (ExtendedCard, &json!({}), -32004),
            (List, &json!({}), -32004),
        ] {
            if (operation, caller.0.generation) == (List, V0_3) {
                continue;
            }
            let params = match operation {
                PushList => &json!({"taskId": id}),
                Send | Stream | Get | List | Cancel | Subscribe | PushCreate | PushGet | PushDelete | ExtendedCard => {
                    params
                }
            };
            let got = caller.by(ANN, &gateway, operation, params).await;
            assert_eq!(got, Err(expected), "{operation:?} of {:?}", caller.0);
        }
        assert_eq!(agent.received().len(), before, "the agent was not asked");
    }
}

#[tokio::test]
async fn its_errors_are_told_in_the_form_of_the_caller() {
    let agent = Agent::with_card(CARD_0_1, |request| {
        let asked = request.json();
        let code: i64 = asked["params"]["id"].as_str().unwrap().parse().unwrap();
        let error = json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": "no"}});
        Reply::Whole(400, "content-type: application/json\r\n", error.to_string())
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    for caller in callers() {
        for (code, expected) in [
            (-32001, -32001),
            (-32002, -32002),
            (-32004, -32004),
            (-32005, -32005),
            (-32006, -32004),
            (-32007, -32603),
            (-32602, -32602),
        ] {
            let code = code.to_string();
            for operation in [Send, Stream, Get, Cancel, Subscribe] {
                // Of a task that nobody knows they are taken for calls of 0.1.
                if caller.0 == dialect(V0_3, Binding::JsonRpc) && v0_1::is_shared(operation) {
                    continue;
                }
                let params = match operation == Send || operation == Stream {
                    true => message(Some(&json!({ "id": code }))),
                    false => json!({ "id": code }),
                };
                let got = caller.by(ANN, &gateway, operation, &params).await;
                assert_eq!(got, Err(expected), "{operation:?} of {:?}: {code}", caller.0);
            }
        }
    }
    // The status is the agent's way to say it; clients of JSON-RPC read the body of a 200.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "-32001"}}).to_string();
    let fields = [
        ("x-api-key", ANN),
        ("a2a-version", "1.0"),
        ("content-type", "application/json"),
    ];
    let got = call(gateway.address, "POST", "/", &fields, &body).await;
    assert_eq!((got.status, got.code()), (200, -32001));
    let failures = gateway.metric("a2a_gateway_upstream_failures_total").await;
    assert_eq!(failures, 0.0, "an agent that refuses works");
}

#[tokio::test]
async fn an_answer_about_another_task_is_none() {
    let agent = Agent::with_card(CARD_0_1, |request| {
        let asked = request.json();
        let result = json!({"id": "another", "sessionId": "s", "status": {"state": "working"}});
        if asked["method"] != "tasks/sendSubscribe" {
            return Reply::Json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string());
        }
        let (events, chunks) = mpsc::channel(1);
        events
            .try_send(Some(event(&request.id(), &result.to_string())))
            .unwrap();
        Reply::Stream(chunks)
    })
    .await;
    let gateway = start(&agent, "").await;
    let caller = Caller(dialect(V1_0, Binding::JsonRpc));
    assert_eq!(caller.by(ANN, &gateway, Send, &message(None)).await, Err(-32006));
    let grpc = Caller(dialect(V1_0, Binding::Grpc));
    assert!(
        grpc.by(ANN, &gateway, Stream, &message(None)).await.is_err(),
        "a broken end"
    );
    assert_eq!(
        caller.by(ANN, &gateway, Get, &json!({"id": "another"})).await,
        Err(-32001)
    );
    assert_eq!(
        get(gateway.admin, "/tasks/agent/another").await.status,
        404,
        "nothing was learned"
    );
}

#[tokio::test]
async fn a_subscription_to_a_task_that_has_ended_is_unsupported() {
    let agent = Agent::with_card(CARD_0_1, |request| {
        let asked = request.json();
        if asked["method"] == "tasks/resubscribe" {
            let error = json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32603, "message": "no"}});
            return Reply::Json(error.to_string());
        }
        let state = if asked["method"] == "tasks/send" {
            "working"
        } else {
            "completed"
        };
        let task = json!({"id": asked["params"]["id"], "sessionId": "s", "status": {"state": state}});
        Reply::Json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": task}).to_string())
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    for caller in callers() {
        let task = begin(caller, ANN, &gateway).await;
        let got = caller.by(ANN, &gateway, Subscribe, &json!({"id": task["id"]})).await;
        assert_eq!(got, Err(-32004), "{:?}", caller.0);
    }
}

#[tokio::test]
async fn a_task_stays_at_its_endpoint() {
    let (a, b) = (agent().await, agent().await);
    let yaml = with_upstream(&yaml(&[a.address, b.address], ""), "balance: round_robin");
    let gateway = Gateway::start(&with_keys(&yaml)).await;
    gateway.ready().await;
    for caller in callers() {
        for _ in 0..2 {
            let before = [a.received().len(), b.received().len()];
            let task = begin(caller, ANN, &gateway).await;
            let began = [a.received().len(), b.received().len()];
            for operation in [Get, Cancel, Send] {
                let params = match operation == Send {
                    true => message(Some(&task)),
                    false => json!({"id": task["id"]}),
                };
                assert!(
                    caller.by(ANN, &gateway, operation, &params).await.is_ok(),
                    "{operation:?}"
                );
            }
            let after = [a.received().len(), b.received().len()];
            let grew = |from: [usize; 2], to: [usize; 2]| [to[0] - from[0], to[1] - from[1]];
            assert_eq!(
                grew(began, after),
                grew(before, began).map(|one| 3 * one),
                "{:?}",
                caller.0
            );
        }
    }
    assert!(!a.received().is_empty() && !b.received().is_empty());
}

#[tokio::test]
async fn a_task_without_a_record_is_looked_for_with_a_get_of_0_1() {
    let (a, b) = (agent().await, agent().await);
    let known = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": {"id": "t", "sessionId": "s",
        "message": {"role": "user", "parts": []}}});
    let fields = [("content-type", "application/json")];
    call(b.address, "POST", "/", &fields, &known.to_string()).await;
    let gateway = Gateway::start(&with_keys(&yaml(&[a.address, b.address], OPEN))).await;
    gateway.ready().await;
    let caller = Caller(dialect(V0_3, Binding::Grpc));
    let got = caller.by(ANN, &gateway, Cancel, &json!({"id": "t"})).await.unwrap();
    assert_eq!((&got[0]["id"], &got[0]["contextId"]), (&json!("t"), &json!("s")));
    assert_eq!(
        (methods(&a), methods(&b)),
        (
            vec!["tasks/get".to_owned()],
            ["tasks/send", "tasks/get", "tasks/cancel"].map(str::to_owned).to_vec()
        )
    );
    assert_eq!(a.received()[0].json()["params"], json!({"id": "t", "historyLength": 0}));
    let got = caller
        .by(ANN, &gateway, Send, &message(Some(&json!({"id": "u"}))))
        .await;
    assert_eq!(got, Err(-32001), "a task that nobody has is not begun");
}

#[tokio::test]
async fn its_card_is_published_in_the_later_forms() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    let card = get(gateway.address, "/.well-known/agent-card.json").await.json();
    assert_eq!(card["protocolVersion"], "0.3.0");
    let interfaces: Vec<_> = (card["supportedInterfaces"].as_array().unwrap().iter())
        .map(|one| {
            (
                one["protocolBinding"].as_str().unwrap(),
                one["protocolVersion"].as_str().unwrap(),
            )
        })
        .collect();
    let both = |binding| [(binding, "1.0"), (binding, "0.3")];
    assert_eq!(interfaces, ["JSONRPC", "HTTP+JSON", "GRPC"].map(both).concat());
    assert_eq!(card["capabilities"]["streaming"], true);
    assert_eq!(card["capabilities"]["pushNotifications"], false);
    assert_eq!(card["supportsAuthenticatedExtendedCard"], false);
    assert_eq!(card.get("authentication"), None);
    assert_eq!(card["security"], json!([{"key": []}]));
    // What 0.1 may leave out and others may not.
    assert_eq!(
        (&card["description"], &card["defaultInputModes"]),
        (&json!(""), &json!(["text/plain"]))
    );
    assert_eq!(
        card["skills"],
        json!([{"id": "s", "name": "S", "description": "", "tags": []}])
    );
    assert!(!card.to_string().contains("agent.internal"), "{card}");
}

#[tokio::test]
async fn an_agent_whose_card_does_not_tell_is_configured() {
    let tasks = Tasks::default();
    let agent = Agent::with_card(CARD_0_3, move |request| answer(request, &tasks)).await;
    let yaml = with_upstream(&yaml(&[agent.address], ""), "protocol: { generation: \"0.1\" }");
    let gateway = Gateway::start(&with_keys(&yaml)).await;
    gateway.ready().await;
    for caller in callers() {
        let task = begin(caller, ANN, &gateway).await;
        assert!(is_uuid(&task["id"]), "{task}");
    }
    assert!(methods(&agent).iter().all(|method| method == "tasks/send"));
}

#[tokio::test]
async fn without_translation_it_is_out_of_service() {
    let agent = agent().await;
    let gateway = Gateway::start(&yaml(&[agent.address], "translate: false")).await;
    eventually("the agent is out of service", || async {
        get(gateway.admin, "/ready")
            .await
            .text()
            .contains("set `translate: true`")
    })
    .await;
}

#[tokio::test]
async fn where_tasks_are_nobodys_a_send_begins_the_task_that_it_names() {
    let agent = agent().await;
    let gateway = start(&agent, OPEN).await;
    let caller = Caller(dialect(V1_0, Binding::HttpJson));
    let got = caller
        .by(ANN, &gateway, Send, &message(Some(&json!({"id": "u"}))))
        .await
        .unwrap();
    assert_eq!(got[0]["task"]["id"], "u");
    assert_eq!(
        caller.by(BOB, &gateway, Get, &json!({"id": "u"})).await.unwrap()[0]["id"],
        "u"
    );
}
