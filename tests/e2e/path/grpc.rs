//! Callers of gRPC at agents that speak JSON-RPC.

use std::sync::Mutex;

use a2a_gateway::a2a::Operation::{
    self, Cancel, ExtendedCard, Get, List, PushCreate, PushDelete, PushGet, PushList, Send, Stream, Subscribe,
};
use a2a_gateway::a2a::grpc::{self, Frames};
use a2a_gateway::a2a::model::Request;
use a2a_gateway::a2a::{Generation, Generation::V0_3, Generation::V1_0};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::ownership::{ANN, BOB};
use crate::harness::agent::{Agent, CARD_0_3, Received, Reply, event};
use crate::harness::client::{PATIENCE, Rpc, call_http2, open_grpc};
use crate::harness::{Gateway, KEY, call, config_of, get};

/// The agent stands at the root, because nothing stands before the paths of gRPC.
pub(super) async fn start(agent: &Agent, more: &str) -> Gateway {
    let config = config_of(&[agent.address], more, "").replace("path: /agent", "path: /");
    let gateway = Gateway::start(&config).await;
    gateway.ready().await;
    gateway
}

pub(super) const OPEN: &str = "policy: { task_owner: none }";

fn message(generation: Generation, operation: Operation, params: &Value) -> Vec<u8> {
    let params = params.to_string();
    let request = Request::read(operation, &params).unwrap();
    grpc::write_request(generation, request).unwrap()
}

pub(super) async fn ask(gateway: &Gateway, generation: Generation, operation: Operation, params: &Value) -> Rpc {
    by(KEY, gateway, generation, operation, params).await
}

pub(super) async fn by(
    key: &str,
    gateway: &Gateway,
    generation: Generation,
    operation: Operation,
    params: &Value,
) -> Rpc {
    let message = message(generation, operation, params);
    let path = grpc::path(generation, operation).unwrap();
    with(
        gateway,
        path,
        &[("x-api-key", key)],
        grpc::frame(&message).unwrap().to_vec(),
    )
    .await
}

async fn with(gateway: &Gateway, path: &str, fields: &[(&str, &str)], body: Vec<u8>) -> Rpc {
    Rpc::read(open_grpc(gateway.address, path, fields, body).await).await
}

/// The messages of an answer as the canonical model says them.
pub(super) fn results(rpc: &Rpc, generation: Generation, operation: Operation) -> Vec<Value> {
    let mut frames = Frames::new(1 << 20);
    frames.push(rpc.body.clone().into());
    let mut out = Vec::new();
    while let Some(message) = frames.take().unwrap() {
        let mut text = Vec::new();
        let response = grpc::read_response(generation, operation, &message).unwrap();
        response.write(&mut text).unwrap();
        out.push(serde_json::from_slice(&text).unwrap());
    }
    assert!(!frames.has_partial());
    out
}

fn answer(request: &Received, result: &Value) -> Reply {
    Reply::Json(json!({ "jsonrpc": "2.0", "id": request.json()["id"], "result": result }).to_string())
}

fn task(id: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})
}

pub(super) fn hello() -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}})
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
    let gateway = start(&agent, OPEN).await;
    let config = json!({"taskId": "t1", "id": "p1", "url": "https://hook.example"});
    let page = json!({"tasks": [task("t1")], "nextPageToken": "", "pageSize": 50, "totalSize": 1});
    let check = async |operation: Operation, params: Value, name: &str, result: Value| {
        let rpc = ask(&gateway, V1_0, operation, &params).await;
        assert_eq!(rpc.status(), 0, "{operation:?}: {rpc:?}");
        assert!(rpc.trailers.is_some());
        assert_eq!(rpc.headers["content-type"], "application/grpc");
        assert_eq!(results(&rpc, V1_0, operation), [result], "{operation:?}");
        let received = agent.received().pop().expect("a call");
        let told = received.json();
        assert_eq!((&told["method"], &told["params"]), (&name.into(), &params));
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("a2a-version", Some("1.0")),
            ("te", None),
        ] {
            assert_eq!(received.field(name), value, "{name}");
        }
        assert!(received.head.starts_with("POST / "), "{}", received.head);
    };
    let id = json!({"id": "t1"});
    let named = json!({"taskId": "t1", "id": "p1"});
    check(Send, hello(), "SendMessage", json!({"task": task("t1")})).await;
    check(
        Get,
        json!({"id": "a:b%c?d/e", "historyLength": 3}),
        "GetTask",
        task("a:b%c?d/e"),
    )
    .await;
    check(Cancel, id.clone(), "CancelTask", task("t1")).await;
    check(List, json!({"contextId": "c"}), "ListTasks", page).await;
    check(
        PushCreate,
        config.clone(),
        "CreateTaskPushNotificationConfig",
        config.clone(),
    )
    .await;
    check(PushGet, named.clone(), "GetTaskPushNotificationConfig", config.clone()).await;
    let configs = json!({"configs": [config], "nextPageToken": ""});
    check(
        PushList,
        json!({"taskId": "t1"}),
        "ListTaskPushNotificationConfigs",
        configs,
    )
    .await;
    check(Get, json!({"tenant": "north", "id": "t1"}), "GetTask", task("t1")).await;
    let deleted = ask(&gateway, V1_0, PushDelete, &named).await;
    assert_eq!((deleted.status(), &*deleted.body), (0, &[0; 5][..]), "an empty message");
}

#[tokio::test]
async fn both_generations_meet_both() {
    let new = agent().await;
    let old = Agent::with_card(CARD_0_3, |request| {
        let task = json!({"kind": "task", "id": "t1", "contextId": "c", "status": {"state": "completed"}});
        answer(request, &task)
    })
    .await;
    for (agent, state, method) in [(&new, "WORKING", "GetTask"), (&old, "COMPLETED", "tasks/get")] {
        let gateway = start(agent, OPEN).await;
        for generation in Generation::SPOKEN {
            let rpc = ask(&gateway, generation, Get, &json!({"id": "t1"})).await;
            let results = results(&rpc, generation, Get);
            assert_eq!(results[0]["status"]["state"], format!("TASK_STATE_{state}"));
            assert_eq!(agent.received().pop().unwrap().json()["method"], method);
        }
        let card = get(gateway.address, "/.well-known/agent-card.json").await.json();
        let told = |list: &str, name: &str| {
            let all = card[list].as_array().unwrap().iter();
            all.filter(|one| one[name] == "GRPC")
                .map(|one| one["url"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(told("additionalInterfaces", "transport"), ["gateway.example:443"]);
        assert_eq!(
            told("supportedInterfaces", "protocolBinding"),
            ["gateway.example:443"; 2]
        );
    }
    let gateway = start(&old, OPEN).await;
    let listed = ask(&gateway, V1_0, List, &json!({})).await;
    assert_eq!(listed.status(), 9, "0.3 has no list: {listed:?}");
}

/// What a caller gets of a stream of these events; `None` breaks it off.
async fn stream(generation: Generation, events: Vec<Option<String>>) -> Rpc {
    let (sender, receiver) = mpsc::channel(events.len().max(1));
    for event in events {
        sender.send(event).await.unwrap();
    }
    drop(sender);
    let receiver = Mutex::new(Some(receiver));
    let agent = Agent::start(move |_| Reply::Stream(receiver.lock().unwrap().take().expect("one stream"))).await;
    let gateway = start(&agent, "").await;
    let rpc = ask(&gateway, generation, Stream, &hello()).await;
    assert_eq!(agent.received()[0].field("accept"), Some("text/event-stream"));
    assert_eq!(rpc.headers["content-type"], "application/grpc");
    rpc
}

#[tokio::test]
async fn streams_are_messages_and_end_with_a_status() {
    let update =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}});
    let events = [json!({"task": task("t1")}), update];
    let told = || {
        events
            .iter()
            .map(|it| Some(event("1", &it.to_string())))
            .collect::<Vec<_>>()
    };
    for generation in Generation::SPOKEN {
        let rpc = stream(generation, told()).await;
        assert_eq!((rpc.status(), rpc.trailers.is_some()), (0, true));
        assert_eq!(results(&rpc, generation, Stream), events);
        let failed = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"boom\"}}\n\n";
        let rpc = stream(generation, [told(), vec![Some(failed.to_owned())]].concat()).await;
        assert_eq!(results(&rpc, generation, Stream), events);
        assert_eq!(rpc.status(), 13, "{rpc:?}");
        assert!(rpc.field("grpc-message").unwrap().ends_with("boom"));
        let comment = vec![Some(": here\n\n".to_owned())];
        let rpc = stream(generation, [told(), comment, vec![None]].concat()).await;
        assert_eq!(results(&rpc, generation, Stream), events);
        assert_eq!(rpc.status(), 14, "broken off: {rpc:?}");
    }
}

#[tokio::test]
async fn a_deadline_ends_calls_and_streams() {
    let (sender, receiver) = mpsc::channel(1);
    sender
        .send(Some(event("1", &json!({"task": task("t1")}).to_string())))
        .await
        .unwrap();
    let receiver = Mutex::new(Some(receiver));
    let agent = Agent::start(move |request| match request.json()["method"].as_str() {
        Some("SendStreamingMessage") => Reply::Stream(receiver.lock().unwrap().take().expect("one stream")),
        _ => Reply::Silence,
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    let fields = [("x-api-key", KEY), ("grpc-timeout", "300m")];
    for (operation, params, messages) in [(Get, json!({"id": "t1"}), 0), (Stream, hello(), 1)] {
        let message = message(V1_0, operation, &params);
        let path = grpc::path(V1_0, operation).unwrap();
        let rpc = with(&gateway, path, &fields, grpc::frame(&message).unwrap().to_vec()).await;
        assert_eq!(rpc.status(), 4, "{rpc:?}");
        assert_eq!(results(&rpc, V1_0, operation).len(), messages);
    }
    let outcomes: Vec<_> = gateway.access(2).await.iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, ["deadline_exceeded"; 2]);
    drop(sender);
}

#[tokio::test]
async fn a_deadline_ends_a_stream_that_always_has_more() {
    let (sender, receiver) = mpsc::channel(64);
    let flood = tokio::spawn(async move {
        let event = event("1", &json!({"task": task("t1")}).to_string());
        while sender.send(Some(event.clone())).await.is_ok() {}
    });
    let receiver = Mutex::new(Some(receiver));
    let agent = Agent::start(move |_| Reply::Stream(receiver.lock().unwrap().take().expect("one stream"))).await;
    let gateway = start(&agent, OPEN).await;
    let message = grpc::frame(&message(V1_0, Stream, &hello())).unwrap().to_vec();
    let fields = [("x-api-key", KEY), ("grpc-timeout", "300m")];
    let path = grpc::path(V1_0, Stream).unwrap();
    let ended = tokio::time::timeout(PATIENCE, with(&gateway, path, &fields, message)).await;
    assert_eq!(ended.expect("an end").status(), 4);
    flood.abort();
}

#[tokio::test]
async fn errors_are_told_in_the_trailers() {
    let agent = Agent::start(|request| {
        let error = json!({"code": -32001, "message": "Task not found: é"});
        Reply::Json(json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}).to_string())
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    let tells_the_reason = |rpc: &Rpc| {
        let details = rpc.field("grpc-status-details-bin").expect("details");
        let details = grpc::decode_details(details.as_bytes()).unwrap();
        assert!(String::from_utf8_lossy(&details).contains("TASK_NOT_FOUND"));
    };
    for operation in [Get, Subscribe] {
        let rpc = ask(&gateway, V1_0, operation, &json!({"id": "t1"})).await;
        assert_eq!((rpc.status(), rpc.trailers.is_some(), rpc.body.len()), (5, false, 0));
        assert_eq!(rpc.field("grpc-message"), Some("Task not found: %C3%A9"));
        tells_the_reason(&rpc);
        let rpc = ask(&gateway, V0_3, operation, &json!({"id": "t1"})).await;
        assert_eq!(rpc.status(), 5);
        assert_eq!(
            rpc.field("grpc-message"),
            Some("TaskNotFoundError: Task not found: %C3%A9")
        );
        tells_the_reason(&rpc);
    }
}

#[tokio::test]
async fn what_is_no_call_is_refused_in_the_form_of_grpc() {
    let agent = agent().await;
    let gateway = start(&agent, "body_bytes: 2KiB").await;
    let path = grpc::path(V1_0, Get).unwrap();
    let call = message(V1_0, Get, &json!({"id": "t1"}));
    let good = grpc::frame(&call).unwrap().to_vec();
    let key = ("x-api-key", KEY);
    let check = async |what: &str, path: &str, fields: &[(&str, &str)], body: &[u8], status: u32| {
        let rpc = with(&gateway, path, fields, body.to_vec()).await;
        assert_eq!(rpc.status(), status, "{what}: {rpc:?}");
        assert_eq!(rpc.headers["content-type"], "application/grpc", "{what}");
        assert!(rpc.trailers.is_none() && rpc.body.is_empty(), "{what}");
        assert!(rpc.field("grpc-message").is_some(), "{what}");
        rpc
    };
    let refused = check("no credential", path, &[], &good, 16).await;
    assert!(refused.headers.contains_key("www-authenticate"));
    check("wrong credential", path, &[("x-api-key", "wrong")], &good, 16).await;
    check("unknown method", "/lf.a2a.v1.A2AService/Nothing", &[key], &good, 12).await;
    check("another service", "/grpc.health.v1.Health/Check", &[key], &good, 12).await;
    check("the path of JSON-RPC", "/", &[key], &good, 12).await;
    check(
        "JSON",
        path,
        &[key, ("content-type", "application/grpc+json")],
        &good,
        12,
    )
    .await;
    let coded = check("coded", path, &[key, ("grpc-encoding", "gzip")], &good, 12).await;
    assert_eq!(coded.headers["grpc-accept-encoding"], "identity");
    let mut flagged = good.clone();
    flagged[0] = 1;
    check("compressed", path, &[key], &flagged, 12).await;
    flagged[0] = 2;
    check("no flag", path, &[key], &flagged, 3).await;
    check("nothing", path, &[key], &[], 3).await;
    check("half a prefix", path, &[key], &good[..3], 3).await;
    check("half a message", path, &[key], &good[..good.len() - 1], 3).await;
    check("two messages", path, &[key], &[&*good, &*good].concat(), 3).await;
    check("more bytes", path, &[key], &[&*good, &[0]].concat(), 3).await;
    let frame = |message: &[u8]| grpc::frame(message).unwrap().to_vec();
    check("no protobuf", path, &[key], &frame(&[0xff; 12]), 3).await;
    let cut = check("a truncated varint", path, &[key], &frame(&[0x0a, 0x80]), 3).await;
    let text = "The request body is malformed: the protobuf message is cut off";
    assert_eq!(cut.field("grpc-message"), Some(text));
    check("no task", path, &[key], &frame(&[]), 3).await;
    check(
        "an id too long",
        path,
        &[key],
        &frame(&[&[0x12, 0x81, 8][..], &[b'x'; 1025]].concat()),
        3,
    )
    .await;
    let most = |size: usize| {
        frame(&message(
            V1_0,
            Send,
            &json!({"message": {"messageId": "x".repeat(size), "role": "ROLE_USER", "parts": [{"text": "x"}]}}),
        ))
    };
    let send = grpc::path(V1_0, Send).unwrap();
    let hello = frame(&message(V1_0, Send, &hello()));
    check("another version", send, &[key, ("a2a-version", "0.9")], &hello, 9).await;
    let over = most(2048);
    check("too large", send, &[key], &over, 8).await;
    let excess = over.len() - grpc::PREFIX_BYTES - 2048;
    let reached = agent.received().len();
    let rpc = with(&gateway, send, &[key], most(2048 - excess)).await;
    assert_eq!(rpc.status(), 0, "at the bound: {rpc:?}");
    assert_eq!(
        (reached, agent.received().len()),
        (0, 1),
        "nothing else reached the agent"
    );
    // Not gRPC, which needs HTTP/2 and a media type of its own.
    let typed = [key, ("content-type", "application/grpc")];
    let got = call_1(&gateway, path, &typed).await;
    assert_eq!(got, 404);
    let web = [key, ("content-type", "application/grpc-web")];
    assert_eq!(call_http2(gateway.address, "POST", path, &web, "").await.status, 404);
    assert_eq!(
        call_http2(gateway.address, "GET", path, &typed, "").await.status,
        200,
        "told in the head"
    );
}

async fn call_1(gateway: &Gateway, path: &str, fields: &[(&str, &str)]) -> u16 {
    call(gateway.address, "POST", path, fields, "").await.status
}

#[tokio::test]
async fn agents_under_a_prefix_and_without_translation_have_no_grpc() {
    let agent = agent().await;
    let good = grpc::frame(&message(V1_0, Get, &json!({"id": "t1"}))).unwrap().to_vec();
    let path = grpc::path(V1_0, Get).unwrap();
    let prefixed = Gateway::of(&[agent.address], OPEN, "").await;
    for path in [path, &format!("/agent{path}")] {
        assert_eq!(
            with(&prefixed, path, &[("x-api-key", KEY)], good.clone())
                .await
                .status(),
            12
        );
    }
    let card = get(prefixed.address, "/agent/.well-known/agent-card.json").await;
    assert!(!card.text().contains("GRPC"), "{}", card.text());
    let gateway = start(&agent, "translate: false").await;
    assert_eq!(with(&gateway, path, &[("x-api-key", KEY)], good).await.status(), 12);
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn tasks_have_owners_in_every_binding() {
    let agent = agent().await;
    let prefixed = super::ownership::yaml(&[agent.address], "");
    let gateway = Gateway::start(&prefixed.replace("path: /agent", "path: /")).await;
    gateway.ready().await;
    let id = |id: &str| json!({ "id": id });
    assert_eq!(by(ANN, &gateway, V1_0, Send, &hello()).await.status(), 0);
    assert_eq!(by(ANN, &gateway, V1_0, Get, &id("t1")).await.status(), 0);
    for generation in Generation::SPOKEN {
        for operation in [Get, Cancel, Subscribe] {
            let foreign = by(BOB, &gateway, generation, operation, &id("t1")).await;
            let unknown = by(BOB, &gateway, generation, operation, &id("t2")).await;
            assert_eq!(foreign.status(), 5);
            for name in ["grpc-status", "grpc-message", "grpc-status-details-bin"] {
                assert_eq!(foreign.field(name), unknown.field(name), "{name}");
            }
        }
    }
    let listed = results(&by(ANN, &gateway, V1_0, List, &json!({})).await, V1_0, List);
    assert_eq!(
        (&listed[0]["tasks"][0]["id"], &listed[0]["totalSize"]),
        (&json!("t1"), &json!(1))
    );
    let listed = results(&by(BOB, &gateway, V1_0, List, &json!({})).await, V1_0, List);
    assert_eq!(listed[0]["totalSize"], json!(0));
    let record = gateway.access(1).await.swap_remove(0);
    assert_eq!(
        (&record["binding"], &record["generation"]),
        (&json!("GRPC"), &json!("1.0"))
    );
}

#[tokio::test]
async fn what_an_agent_does_wrong_is_unavailable_or_internal() {
    for (reply, status) in [
        (Reply::Whole(500, "text/html", "<p>no</p>".to_owned()), 14),
        (Reply::Whole(401, "application/json", "{}".to_owned()), 14),
        (Reply::Raw(Vec::new()), 14),
    ] {
        let reply = Mutex::new(Some(reply));
        let agent = Agent::start(move |_| reply.lock().unwrap().take().unwrap_or(Reply::Raw(Vec::new()))).await;
        let gateway = start(&agent, OPEN).await;
        let rpc = ask(&gateway, V1_0, Send, &hello()).await;
        assert_eq!(rpc.status(), status, "{rpc:?}");
    }
    let agent = agent().await;
    let gateway = start(&agent, "limits: [ { per: principal, rate: 1/h, burst: 1 } ]").await;
    assert_eq!(ask(&gateway, V1_0, Send, &hello()).await.status(), 0);
    let limited = ask(&gateway, V1_0, Send, &hello()).await;
    assert_eq!(limited.status(), 8);
    assert!(limited.headers.contains_key("retry-after"));
    let details = limited.field("grpc-status-details-bin").unwrap();
    let details = grpc::decode_details(details.as_bytes()).unwrap();
    assert!(String::from_utf8_lossy(&details).contains("google.rpc.RetryInfo"));
}

#[tokio::test]
async fn the_extended_card_is_a_message_too() {
    let card = json!({"name": "x (extended)", "description": "d", "version": "1", "supportedInterfaces": [
        {"url": "http://agent.internal/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": []});
    let agent = Agent::start(move |request| answer(request, &card)).await;
    let gateway = start(&agent, "").await;
    for generation in Generation::SPOKEN {
        let rpc = ask(&gateway, generation, ExtendedCard, &json!({})).await;
        assert_eq!(rpc.status(), 0, "{rpc:?}");
        let text = String::from_utf8_lossy(&rpc.body).into_owned();
        assert!(
            text.contains("x (extended)") && text.contains("gateway.example:443"),
            "{text}"
        );
        assert!(!text.contains("agent.internal"), "{text}");
    }
}
