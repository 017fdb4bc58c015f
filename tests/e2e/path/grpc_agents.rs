//! Agents that speak gRPC alone: what they are asked by callers of each dialect, and what those get.

use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::Operation::{
    self, Cancel, ExtendedCard, Get, List, PushCreate, PushDelete, PushGet, PushList, Send, Stream, Subscribe,
};
use a2a_gateway::a2a::grpc::{self, Status};
use a2a_gateway::a2a::model::{Request, Response};
use a2a_gateway::a2a::{Binding, Generation, Generation::V0_1, Generation::V0_3, Generation::V1_0};
use serde_json::{Value, json};

use super::grpc::{OPEN, hello};
use crate::harness::agent::CARD;
use crate::harness::authority::Authority;
use crate::harness::caller::{CALLERS, Caller, dialect};
use crate::harness::client::{Rpc, open_grpc};
use crate::harness::grpc::{CARD_GRPC, CARD_GRPC_0_3, GrpcAgent, Piece, Received, Reply, failed, fields, framed, good};
use crate::harness::{Gateway, KEY, call, eventually, get, with_upstream};

pub(super) fn card(generation: Generation) -> &'static str {
    match generation {
        V0_1 | V0_3 => CARD_GRPC_0_3,
        V1_0 => CARD_GRPC,
    }
}

pub(super) fn task(id: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})
}

pub(super) fn update(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": format!("TASK_STATE_{state}")}}})
}

fn config() -> Value {
    json!({"taskId": "t1", "id": "p1", "url": "https://hook.example"})
}

/// The message of a response of the canonical model.
pub(super) fn message(generation: Generation, operation: Operation, response: &Value) -> Vec<u8> {
    grpc::from_json(generation, operation, response.to_string().as_bytes()).unwrap()
}

/// What an agent, all of whose tasks are `t1`, answers to an operation.
pub(super) fn result(operation: Operation) -> Value {
    match operation {
        Send => json!({"task": task("t1")}),
        Stream | Subscribe => json!([{"task": task("t1")}, update("COMPLETED")]),
        Get | Cancel => task("t1"),
        List => json!({"tasks": [task("t1")], "nextPageToken": "", "pageSize": 50, "totalSize": 1}),
        PushCreate | PushGet => config(),
        PushList => json!({"configs": [config()], "nextPageToken": ""}),
        PushDelete => Value::Null,
        ExtendedCard => serde_json::from_str(CARD).unwrap(),
    }
}

pub(super) fn answer(request: &Received) -> Reply {
    let method = request.method();
    let told = result(method.operation);
    let framed_one = |told: &Value| framed(&message(method.generation, method.operation, told));
    match told.as_array() {
        Some(events) => Reply::of(events.iter().map(framed_one).chain([good()]).collect()),
        None => Reply::of(vec![framed_one(&told), good()]),
    }
}

/// What the agent was asked, as the canonical model says it.
pub(super) fn asked(request: &Received) -> Value {
    let method = request.method();
    let message = request.message();
    let mut out = Vec::new();
    let read = grpc::read_request(method.generation, method.operation, &message).unwrap();
    Request::write(read, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

pub(super) async fn start(agent: &GrpcAgent, more: &str) -> Gateway {
    let gateway = Gateway::start(&agent.config(more)).await;
    gateway.ready().await;
    gateway
}

pub(super) fn params(operation: Operation) -> Value {
    match operation {
        Send | Stream => {
            let mut send = hello();
            // What is the default over JSON-RPC and gRPC of 1.0 is not in 0.3.
            send["configuration"] = json!({"returnImmediately": true, "historyLength": 3});
            send
        }
        Get => json!({"id": "t1", "historyLength": 2}),
        Cancel | Subscribe => json!({"id": "t1"}),
        List => json!({"contextId": "c"}),
        PushCreate => config(),
        PushGet | PushDelete => json!({"taskId": "t1", "id": "p1"}),
        PushList => json!({"taskId": "t1"}),
        ExtendedCard => json!({}),
    }
}

#[tokio::test]
async fn callers_of_every_dialect_are_served() {
    for generation in Generation::SPOKEN {
        let agent = GrpcAgent::start(card(generation), answer).await;
        let gateway = start(&agent, OPEN).await;
        for caller in CALLERS.map(Caller) {
            for operation in [Send, Stream, Get, Cancel, Subscribe, PushGet, PushList, PushDelete] {
                let what = format!("{operation:?} of {:?} at {generation:?}", caller.0);
                let got = caller.ask(&gateway, operation, &params(operation)).await;
                let mut expected = match result(operation).as_array() {
                    Some(events) => events.clone(),
                    None => vec![result(operation)],
                };
                // The gateway's own get is the first event there.
                if (operation, caller.0.generation, generation) == (Subscribe, V1_0, V0_3) {
                    expected.insert(0, expected[0].clone());
                }
                assert_eq!(got, Ok(expected), "{what}");
                let received = agent.received();
                let received = received.iter().rfind(|it| it.method().operation == operation);
                let received = received.expect("a call");
                assert_eq!(received.method().generation, generation, "{what}");
                assert_eq!(asked(received), params(operation), "{what}");
                let version = (generation == V1_0).then_some("1.0");
                for (name, value) in [
                    ("content-type", Some("application/grpc")),
                    ("te", Some("trailers")),
                    ("a2a-version", version),
                    ("accept", None),
                    ("x-api-key", None),
                    ("grpc-accept-encoding", None),
                    ("grpc-timeout", None),
                ] {
                    assert_eq!(received.field(name), value, "{name} in {what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn webhooks_are_set_by_callers_of_its_own_generation() {
    for generation in Generation::SPOKEN {
        let agent = GrpcAgent::start(card(generation), answer).await;
        let gateway = start(&agent, OPEN).await;
        for caller in CALLERS.map(Caller) {
            let got = caller.ask(&gateway, PushCreate, &config()).await;
            let expected = match caller.0.generation == generation {
                true => Ok(vec![config()]),
                // Nobody relays them.
                false => Err(-32003),
            };
            assert_eq!(got, expected, "{:?} at {generation:?}", caller.0);
        }
    }
}

#[tokio::test]
async fn lists_are_asked_for_where_there_are_some() {
    let agent = GrpcAgent::start(CARD_GRPC, answer).await;
    let gateway = start(&agent, OPEN).await;
    let old = GrpcAgent::start(CARD_GRPC_0_3, answer).await;
    let old_gateway = start(&old, OPEN).await;
    for caller in CALLERS.map(Caller).into_iter().filter(|it| it.0.generation == V1_0) {
        let got = caller.ask(&gateway, List, &params(List)).await;
        assert_eq!(got, Ok(vec![result(List)]), "{:?}", caller.0);
        assert_eq!(asked(&agent.received().pop().unwrap()), params(List));
        assert_eq!(caller.ask(&old_gateway, List, &params(List)).await, Err(-32004));
    }
    assert!(old.received().is_empty());
}

#[tokio::test]
async fn lists_of_owned_tasks_are_gathered() {
    let agent = GrpcAgent::start(CARD_GRPC, answer).await;
    let gateway = start(&agent, "").await;
    for (index, caller) in CALLERS
        .map(Caller)
        .into_iter()
        .filter(|it| it.0.generation == V1_0)
        .enumerate()
    {
        let listed = caller.ask(&gateway, List, &json!({})).await.unwrap();
        assert_eq!(listed[0]["totalSize"], json!(usize::from(index > 0)), "{:?}", caller.0);
        assert_eq!(caller.ask(&gateway, Send, &hello()).await, Ok(vec![result(Send)]));
        let listed = caller.ask(&gateway, List, &json!({})).await.unwrap();
        assert_eq!(listed[0]["tasks"], json!([task("t1")]), "{:?}", caller.0);
        assert_eq!(
            caller.ask(&gateway, Get, &json!({"id": "t1"})).await,
            Ok(vec![task("t1")])
        );
        assert_eq!(caller.ask(&gateway, Get, &json!({"id": "t2"})).await, Err(-32001));
    }
}

#[tokio::test]
async fn a_task_is_found_at_the_endpoint_that_knows_it() {
    let knows = GrpcAgent::start(CARD_GRPC, answer).await;
    let not = Status {
        code: 5,
        message: "Task not found".to_owned(),
        details: None,
    };
    let other = GrpcAgent::start(CARD_GRPC, move |_| Reply::failed(&not)).await;
    let both = format!("/\" }}, {{ url: \"http://{}/\" }} ]", other.address);
    let gateway = Gateway::start(&knows.config(OPEN).replace("/\" } ]", &both)).await;
    gateway.ready().await;
    let tenant = json!({"tenant": "north", "id": "t1"});
    let got = Caller(dialect(V1_0, Binding::Grpc))
        .ask(&gateway, Cancel, &tenant)
        .await;
    assert_eq!(got, Ok(vec![task("t1")]));
    let operations: Vec<_> = knows.received().iter().map(|it| it.method().operation).collect();
    assert_eq!((operations, other.received().len()), (vec![Get, Cancel], 1));
    let probed = asked(&other.received()[0]);
    assert_eq!(probed, json!({"tenant": "north", "id": "t1", "historyLength": 0}));
}

#[tokio::test]
async fn pages_of_webhooks_are_put_together_for_callers_without_pages() {
    let page = |token: &str| message(V1_0, PushList, &json!({"configs": [config()], "nextPageToken": token}));
    let pages = [("", "n"), ("n", "")].map(|(asked, next)| (asked.to_owned(), page(next)));
    let agent = GrpcAgent::start(CARD_GRPC, move |request| {
        let token = asked(request)["pageToken"].as_str().unwrap_or_default().to_owned();
        Reply::message(&pages.iter().find(|(asked, _)| *asked == token).unwrap().1)
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    for binding in Binding::ALL {
        let got = Caller(dialect(V0_3, binding))
            .ask(&gateway, PushList, &params(PushList))
            .await;
        assert_eq!(got.unwrap()[0]["configs"], json!([config(), config()]), "{binding:?}");
    }
}

#[tokio::test]
async fn its_errors_are_told_in_the_form_of_the_caller() {
    for generation in Generation::SPOKEN {
        let said: Arc<Mutex<Status>> = Arc::default();
        let script = said.clone();
        let agent = GrpcAgent::start(card(generation), move |_| Reply::failed(&script.lock().unwrap())).await;
        let gateway = start(&agent, OPEN).await;
        // Which says nothing of A2A.
        let details = grpc::write_refusal(0, "", "something", None).details;
        // By its class, by its code alone.
        for (code, text, expected) in [
            (12, "PushNotificationNotSupportedError: no", -32003),
            (5, "no such task", -32001),
            (3, "bad", -32602),
            (12, "what?", -32004),
            (2, "boom: é %", -32603),
            (13, "", -32603),
        ] {
            *said.lock().unwrap() = Status {
                code,
                message: text.to_owned(),
                details: details.clone(),
            };
            for caller in CALLERS.map(Caller) {
                for operation in [Get, Stream] {
                    let got = caller.ask(&gateway, operation, &params(operation)).await;
                    assert_eq!(got, Err(expected), "{operation:?} of {:?}: {code} {text}", caller.0);
                }
            }
        }
        // What is about the gateway itself stays here, as 401 and 403 do.
        for code in [7, 16] {
            said.lock().unwrap().code = code;
            let refused = call(gateway.address, "GET", "/tasks/t1", &[("x-api-key", KEY)], "").await;
            assert_eq!(refused.status, 502);
        }
        let records = gateway.access(74).await;
        assert_eq!(records.last().unwrap()["outcome"], "upstream_refused");
    }
}

#[tokio::test]
async fn calls_of_its_own_dialect_pass_untouched() {
    for generation in Generation::SPOKEN {
        let path = grpc::path(generation, Get).unwrap();
        // A field that nobody knows, and numbers in more bytes than they need.
        let unknown = [0xfa, 0x01, 0x03, b'n', b'e', b'w'];
        let sent = [&message_of(generation)[..], &unknown, &[0x18, 0x82, 0x80, 0x00]].concat();
        let told = [&message(generation, Get, &task("t1"))[..], &unknown].concat();
        let reply = told.clone();
        let agent = GrpcAgent::start(card(generation), move |_| {
            let head = fields(&[
                ("a2a-extensions", "https://x.example"),
                ("server", "s"),
                ("grpc-encoding", "identity"),
            ]);
            Reply::message(&reply).with(&head)
        })
        .await;
        let gateway = start(&agent, OPEN).await;
        let framed = grpc::frame(&sent).unwrap().to_vec();
        let sent_fields = [
            ("x-api-key", KEY),
            ("grpc-timeout", "10S"),
            ("grpc-accept-encoding", "identity, gzip"),
            ("x-trace", "1"),
            ("accept", "x/y"),
        ];
        let rpc =
            Rpc::read(open_grpc(gateway.address, &format!("{path}?q=1"), &sent_fields, framed.clone()).await).await;
        assert_eq!((rpc.status(), &rpc.body), (0, &grpc::frame(&told).unwrap().to_vec()));
        assert!(rpc.trailers.is_some());
        assert_eq!(rpc.headers["a2a-extensions"], "https://x.example");
        assert_eq!(rpc.headers["content-type"], "application/grpc");
        for absent in ["server", "grpc-encoding"] {
            assert!(!rpc.headers.contains_key(absent), "{absent}");
        }
        let received = agent.received().pop().expect("a call");
        assert_eq!((&*received.path, &received.body), (path, &framed));
        assert_eq!(received.field("x-trace"), Some("1"));
        for absent in ["x-api-key", "grpc-accept-encoding", "accept"] {
            assert_eq!(received.field(absent), None, "{absent}");
        }
        let left = grpc::read_timeout(received.field("grpc-timeout").unwrap()).unwrap();
        assert!(left.as_secs() < 10, "less than the caller's: {left:?}");
    }
}

/// A get of `t1`.
fn message_of(generation: Generation) -> Vec<u8> {
    let params = json!({"id": "t1"}).to_string();
    grpc::write_request(generation, Request::read(Get, &params).unwrap()).unwrap()
}

#[tokio::test]
async fn errors_of_its_own_dialect_pass_untouched() {
    let status = Status {
        code: 9,
        message: "no: é".to_owned(),
        details: grpc::write_refusal(9, "other text", "busy", Some(3)).details,
    };
    let told = status.clone();
    let agent = GrpcAgent::start(CARD_GRPC, move |request| {
        let operation = request.method().operation;
        // Behind a head, as some servers do, and behind a message.
        let mut pieces = vec![Piece::Trailers(failed(&told))];
        if operation == Get {
            return Reply::failed(&told);
        }
        if operation.streams() {
            pieces.insert(0, framed(&message(V1_0, Stream, &json!({"task": task("t1")}))));
        }
        Reply::of(pieces)
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    for operation in [Get, Cancel, Stream, Subscribe] {
        let written = Caller(dialect(V1_0, Binding::Grpc)).write(operation, &params(operation));
        let rpc = Rpc::read(open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body).await).await;
        let expected = failed(&status);
        for (name, value) in &expected {
            assert_eq!(rpc.field(name.as_str()), value.to_str().ok(), "{name} of {operation:?}");
        }
        assert_eq!(rpc.body.is_empty(), !operation.streams(), "{operation:?}");
    }
}

#[tokio::test]
async fn a_refused_subscription_to_a_task_that_has_ended_is_unsupported_in_1_0() {
    // Agents of the Python SDK 0.3 refuse without a stream and without a word.
    let refused = Status {
        code: 3,
        message: String::new(),
        details: None,
    };
    for (state, expected) in [("TASK_STATE_COMPLETED", -32004), ("TASK_STATE_WORKING", -32602)] {
        let refused = refused.clone();
        let agent = GrpcAgent::start(CARD_GRPC_0_3, move |request| {
            if request.method().operation == Get {
                let told = json!({"id": "t1", "contextId": "c", "status": {"state": state}});
                return Reply::of(vec![framed(&message(V0_3, Get, &told)), good()]);
            }
            Reply::failed(&refused)
        })
        .await;
        let gateway = start(&agent, OPEN).await;
        for caller in CALLERS.map(Caller) {
            let got = caller.ask(&gateway, Subscribe, &params(Subscribe)).await;
            let expected = if caller.0.generation == V1_0 { expected } else { -32602 };
            assert_eq!(got, Err(expected), "{state}, {:?}", caller.0);
        }
    }
}

#[tokio::test]
async fn lists_and_cards_are_written_anew() {
    let unknown = [0xfa, 0x01, 0x03, b'n', b'e', b'w'];
    let agent = GrpcAgent::start(CARD_GRPC, move |request| {
        let operation = request.method().operation;
        Reply::message(&[&message(V1_0, operation, &result(operation))[..], &unknown].concat())
    })
    .await;
    let gateway = start(&agent, "").await;
    let ask = async |operation: Operation| {
        let written = Caller(dialect(V1_0, Binding::Grpc)).write(operation, &json!({}));
        let response = open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body).await;
        Rpc::read(response).await
    };
    for operation in [List, ExtendedCard] {
        let rpc = ask(operation).await;
        assert_eq!(
            (rpc.status(), rpc.body.ends_with(&unknown)),
            (0, false),
            "{operation:?}: {rpc:?}"
        );
    }
}

#[tokio::test]
async fn of_an_agents_trailers_only_its_status_goes_on() {
    let long = "x".repeat(5000);
    let status = Status {
        code: 5,
        message: long.clone(),
        details: Some(long.into()),
    };
    let agent = GrpcAgent::start(CARD_GRPC, move |_| {
        let mut trailers = failed(&status);
        trailers.extend(fields(&[("x-inner", "1")]));
        Reply::of(vec![Piece::Trailers(trailers)])
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    let written = Caller(dialect(V1_0, Binding::Grpc)).write(Get, &params(Get));
    let rpc = Rpc::read(open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body).await).await;
    assert_eq!((rpc.status(), rpc.field("grpc-message").map(str::len)), (5, Some(1024)));
    assert_eq!(
        (rpc.field("grpc-status-details-bin"), rpc.field("x-inner")),
        (None, None)
    );
}

#[tokio::test]
async fn the_extended_card_is_rewritten() {
    for generation in Generation::SPOKEN {
        let agent = GrpcAgent::start(card(generation), move |_| {
            let mut card: Value = serde_json::from_str(card(generation)).unwrap();
            card["skills"] = json!([{"id": "secret", "name": "s", "description": "d", "tags": []}]);
            Reply::message(&message(generation, ExtendedCard, &card))
        })
        .await;
        let gateway = start(&agent, OPEN).await;
        for caller in CALLERS.map(Caller) {
            let got = caller.ask(&gateway, ExtendedCard, &json!({})).await.unwrap().remove(0);
            assert_eq!(got["skills"][0]["id"], "secret", "{:?}", caller.0);
            let text = got.to_string();
            assert!(
                text.contains("gateway.example") && !text.contains("agent.internal"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn the_published_card_offers_every_binding() {
    let agent = GrpcAgent::start(CARD_GRPC, answer).await;
    let rooted = start(&agent, OPEN).await;
    let prefixed = Gateway::start(&agent.config(OPEN).replace("path: /\n", "path: /agent\n")).await;
    prefixed.ready().await;
    for (gateway, path, expected) in [
        (&rooted, "", &["GRPC", "JSONRPC", "HTTP+JSON"][..]),
        (&prefixed, "/agent", &["JSONRPC", "HTTP+JSON"]),
    ] {
        let card = get(gateway.address, &format!("{path}/.well-known/agent-card.json"))
            .await
            .json();
        let offered: Vec<_> = card["supportedInterfaces"].as_array().unwrap().iter().collect();
        let mut names: Vec<_> = offered
            .iter()
            .map(|it| it["protocolBinding"].as_str().unwrap())
            .collect();
        names.dedup();
        assert_eq!(names, expected);
        assert!(!card.to_string().contains("agent.internal"), "{card}");
    }
}

#[tokio::test]
async fn an_agent_is_called_over_grpc_where_it_is_said_or_nothing_else_is_offered() {
    let both = CARD.replace(
        "\"supportedInterfaces\":[",
        "\"supportedInterfaces\":[{\"url\":\"agent.internal:1\",\"protocolBinding\":\"GRPC\",\"protocolVersion\":\"1.0\"},",
    );
    let agent = GrpcAgent::start(&both, answer).await;
    let said = with_upstream(&agent.config(OPEN), "protocol: { binding: grpc }");
    let gateway = Gateway::start(&said).await;
    gateway.ready().await;
    let caller = Caller(dialect(V1_0, Binding::JsonRpc));
    assert_eq!(caller.ask(&gateway, Get, &params(Get)).await, Ok(vec![task("t1")]));
    // JSON-RPC comes first.
    let gateway = start(&agent, OPEN).await;
    let got = call(gateway.address, "GET", "/tasks/t1", &[("x-api-key", KEY)], "").await;
    assert_eq!((got.status, agent.received().len()), (502, 1));
    // Before there is a card, with all of it said.
    agent.card.hide_card();
    let open = format!("{OPEN}\n    security: [ {{ key: [] }} ]");
    let said = with_upstream(&agent.config(&open), "protocol: { binding: grpc, generation: \"1.0\" }");
    let gateway = Gateway::start(&said).await;
    assert_eq!(caller.ask(&gateway, Get, &params(Get)).await, Ok(vec![task("t1")]));
}

#[tokio::test]
async fn over_tls_http_2_is_agreed_on() {
    let authority = Authority::new();
    let agent = GrpcAgent::over_tls(&authority.server("localhost"), CARD_GRPC, answer).await;
    let tls = "tls: { ca: ca.pem, client_certificate: a.example.crt, client_private_key: a.example.key }";
    let yaml = with_upstream(&agent.config(OPEN), tls).replace(
        &format!("url: \"http://{}", agent.address),
        &format!("url: \"https://localhost:{}", agent.address.port()),
    );
    let gateway = Gateway::start_in(&yaml, authority.folder.path()).await;
    gateway.ready().await;
    for operation in [Get, Stream] {
        let got = Caller(dialect(V1_0, Binding::JsonRpc))
            .ask(&gateway, operation, &params(operation))
            .await;
        assert!(got.is_ok(), "{operation:?}: {got:?}");
    }
}

#[tokio::test]
async fn an_agent_is_called_in_what_its_card_has_come_to_offer() {
    let agent = GrpcAgent::start(CARD, answer).await;
    let yaml = agent
        .config(OPEN)
        .replace("agent-card.json\" }", "agent-card.json\", refresh: 100ms }");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let caller = Caller(dialect(V1_0, Binding::JsonRpc));
    assert_eq!(
        caller.ask(&gateway, Get, &params(Get)).await,
        Err(-32006),
        "no server of JSON-RPC"
    );
    agent.card.set_card(CARD_GRPC);
    eventually("it is called over gRPC", || async {
        caller.ask(&gateway, Get, &params(Get)).await == Ok(vec![task("t1")])
    })
    .await;
}

#[tokio::test]
async fn an_agent_of_grpc_alone_is_out_of_service_over_http_1() {
    let agent = GrpcAgent::start(CARD_GRPC, answer).await;
    let gateway = Gateway::start(&with_upstream(&agent.config(OPEN), "http: http1")).await;
    eventually("the agent is out of service", || async {
        get(gateway.admin, "/ready").await.text().contains("needs HTTP/2")
    })
    .await;
    let got = call(gateway.address, "GET", "/tasks/t1", &[("x-api-key", KEY)], "").await;
    assert_eq!((got.status, agent.received().len()), (503, 0));
}

#[tokio::test]
async fn a_response_is_what_the_library_says() {
    // The helper above must not agree with itself alone.
    let read = grpc::read_response(V1_0, Get, b"\n\x02t1\x12\x01c\x1a\x02\x08\x02").unwrap();
    let mut out = Vec::new();
    Response::write(read, &mut out).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), task("t1"));
    assert_eq!(message(V1_0, Get, &task("t1")), b"\n\x02t1\x12\x01c\x1a\x02\x08\x02");
}
