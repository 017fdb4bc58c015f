//! Streams of agents that speak gRPC alone.

use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::Binding;
use a2a_gateway::a2a::Generation::{self, V1_0};
use a2a_gateway::a2a::Operation::{Get, List, Send, Stream};
use a2a_gateway::a2a::grpc::{self, Status};
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::sync::mpsc;

use super::grpc::{OPEN, results};
use super::grpc_agents::{card, message, params, start, task, update};
use super::ownership::{ANN, BOB, with_keys};
use crate::harness::caller::{CALLERS, Caller, dialect};
use crate::harness::client::{Rpc, open, open_grpc, open_grpc_by, read};
use crate::harness::grpc::{CARD_GRPC, GrpcAgent, Piece, Received, Reply, failed, fields, framed, good};
use crate::harness::{Gateway, KEY, eventually, with_upstream};

#[tokio::test]
async fn events_go_on_one_by_one() {
    for caller in CALLERS.map(Caller) {
        let (sender, receiver) = mpsc::channel(1);
        let receiver = Mutex::new(Some(receiver));
        let agent = GrpcAgent::start(CARD_GRPC, move |_| {
            Reply::open(receiver.lock().unwrap().take().unwrap())
        })
        .await;
        let gateway = start(&agent, OPEN).await;
        let first = framed(&message(V1_0, Stream, &json!({"task": task("t1")})));
        let Piece::Data(bytes) = first else { panic!() };
        let (head, tail) = bytes.split_at(9);
        let asking = {
            let gateway = &gateway;
            async move { caller.ask(gateway, Stream, &params(Stream)).await }
        };
        let telling = async {
            sender.send(Piece::Data(head.to_vec())).await.unwrap();
            sender.send(Piece::Data(tail.to_vec())).await.unwrap();
            // It is known, and so on its way, before there is anything more.
            eventually("the first event was learned", || async {
                gateway.metric("a2a_gateway_stream_events_total").await >= 1.0
            })
            .await;
            let update = message(V1_0, Stream, &update("COMPLETED"));
            let two = [grpc::frame(&update).unwrap(), grpc::frame(&update).unwrap()].concat();
            sender.send(Piece::Data(two)).await.unwrap();
            sender.send(good()).await.unwrap();
            drop(sender);
        };
        let (got, ()) = tokio::join!(asking, telling);
        let events = got.unwrap();
        assert_eq!(events.len(), 3, "{:?}: {events:?}", caller.0);
    }
}

#[tokio::test]
async fn an_error_after_events_is_the_last_one() {
    for generation in Generation::SPOKEN {
        for caller in CALLERS.map(Caller) {
            let agent = GrpcAgent::start(card(generation), move |_| {
                let status = Status {
                    code: 13,
                    message: "boom".to_owned(),
                    details: None,
                };
                let event = message(generation, Stream, &json!({"task": task("t1")}));
                Reply::of(vec![framed(&event), Piece::Trailers(failed(&status))])
            })
            .await;
            let gateway = start(&agent, OPEN).await;
            let got = caller.ask(&gateway, Stream, &params(Stream)).await;
            assert_eq!(got, Err(-32603), "{:?}", caller.0);
            let record = gateway.access(1).await.remove(0);
            assert_eq!(
                (&record["outcome"], &record["task"]),
                (&json!("agent_error"), &json!("t1"))
            );
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_left_is_left_at_the_agent() {
    let (sender, receiver) = mpsc::channel(1);
    let receiver = Mutex::new(Some(receiver));
    let agent = GrpcAgent::start(CARD_GRPC, move |_| {
        Reply::open(receiver.lock().unwrap().take().unwrap())
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    let written = Caller(dialect(V1_0, Binding::Grpc)).write(Stream, &params(Stream));
    sender
        .send(framed(&message(V1_0, Stream, &json!({"task": task("t1")}))))
        .await
        .unwrap();
    drop(open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body).await);
    eventually("the agent's stream is closed", || async { sender.is_closed() }).await;
}

/// Answers everything but streams with a task.
fn task_or(stream: impl Fn() -> Reply) -> impl Fn(&Received) -> Reply {
    move |received| {
        if received.method().operation == Stream {
            stream()
        } else {
            Reply::message(&message(V1_0, Get, &task("t1")))
        }
    }
}

#[tokio::test]
async fn an_agent_that_allows_few_streams_gets_more_connections() {
    let (sender, receiver) = mpsc::channel(1);
    let receiver = Mutex::new(Some(receiver));
    let script = task_or(move || Reply::open(receiver.lock().unwrap().take().unwrap()));
    let agent = GrpcAgent::allowing(1, CARD_GRPC, script).await;
    let gateway = start(&agent, OPEN).await;
    let caller = Caller(dialect(V1_0, Binding::Grpc));
    // From now on the gateway knows what is allowed.
    assert!(caller.ask(&gateway, Get, &params(Get)).await.is_ok());
    let written = caller.write(Stream, &params(Stream));
    sender
        .send(framed(&message(V1_0, Stream, &json!({"task": task("t1")}))))
        .await
        .unwrap();
    let open = open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body).await;
    for _ in 0..2 {
        assert!(caller.ask(&gateway, Get, &params(Get)).await.is_ok());
    }
    let opened = gateway.metric("a2a_gateway_upstream_connections_opened_total").await;
    assert!((opened - 2.0).abs() < 0.1, "{opened} connections");
    drop(open);
}

#[tokio::test]
async fn callers_who_read_nothing_hold_up_no_other() {
    let event = json!({"task": {"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"},
        "metadata": {"filling": "x".repeat(300 * 1024)}}});
    let event = message(V1_0, Stream, &event);
    let agent = GrpcAgent::start(
        CARD_GRPC,
        task_or(move || Reply::of((0..4).map(|_| framed(&event)).collect())),
    )
    .await;
    let gateway = start(&agent, OPEN).await;
    let caller = Caller(dialect(V1_0, Binding::Grpc));
    // One connection for all that follows.
    assert!(caller.ask(&gateway, Get, &params(Get)).await.is_ok());
    let mut takes_nothing = http2::Builder::new(TokioExecutor::new());
    takes_nothing.initial_stream_window_size(1);
    let mut unread = Vec::new();
    for _ in 0..20 {
        let written = caller.write(Stream, &params(Stream));
        let key = [("x-api-key", KEY)];
        unread.push(open_grpc_by(&takes_nothing, gateway.address, &written.path, &key, written.body).await);
    }
    assert!(caller.ask(&gateway, Get, &params(Get)).await.is_ok());
    drop(unread);
}

#[tokio::test]
async fn a_connection_that_fell_silent_gets_no_further_calls() {
    let (sender, receiver) = mpsc::channel(1);
    let receiver = Mutex::new(Some(receiver));
    let script = task_or(move || Reply::open(receiver.lock().unwrap().take().unwrap()));
    let agent = GrpcAgent::start(CARD_GRPC, move |received| {
        if received.method().operation == List {
            Reply::silence()
        } else {
            script(received)
        }
    })
    .await;
    let gateway = Gateway::start(&with_upstream(&agent.config(OPEN), "first_byte_timeout: 1s")).await;
    gateway.ready().await;
    let caller = Caller(dialect(V1_0, Binding::Grpc));
    let written = caller.write(Stream, &params(Stream));
    let event = message(V1_0, Stream, &json!({"task": task("t1")}));
    sender.send(framed(&event)).await.unwrap();
    let open = open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body).await;
    assert!(caller.ask(&gateway, Get, &params(Get)).await.is_ok());
    let opened = async |expected: f64| {
        let opened = gateway.metric("a2a_gateway_upstream_connections_opened_total").await;
        assert!((opened - expected).abs() < 0.1, "{opened} connections");
    };
    opened(1.0).await;
    let written = caller.write(List, &json!({}));
    let silent = open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body).await;
    assert_eq!(Rpc::read(silent).await.status(), 4);
    for _ in 0..2 {
        assert!(caller.ask(&gateway, Get, &params(Get)).await.is_ok());
        opened(2.0).await;
    }
    // What was under way goes on.
    sender.send(framed(&event)).await.unwrap();
    sender.send(good()).await.unwrap();
    let rpc = Rpc::read(open).await;
    assert_eq!((rpc.status(), results(&rpc, V1_0, Stream).len()), (0, 2));
}

#[tokio::test]
async fn a_stream_without_an_end_is_a_broken_one() {
    let event = message(V1_0, Stream, &json!({"task": task("t1")}));
    let receivers: Arc<Mutex<Vec<mpsc::Receiver<Piece>>>> = Arc::default();
    let script = receivers.clone();
    let agent = GrpcAgent::start(CARD_GRPC, move |_| Reply::open(script.lock().unwrap().pop().unwrap())).await;
    let gateway = start(&agent, OPEN).await;
    let mut count = 0.0;
    // One event, and then this; what the caller gets of it.
    let mut tell = async |end: Option<Piece>, binding: Binding| {
        let (sender, receiver) = mpsc::channel(4);
        receivers.lock().unwrap().push(receiver);
        sender.send(framed(&event)).await.unwrap();
        count += 1.0;
        let written = Caller(dialect(V1_0, binding)).write(Stream, &params(Stream));
        let telling = async {
            eventually("the event was passed", || async {
                gateway.metric("a2a_gateway_stream_events_total").await >= count
            })
            .await;
            if let Some(piece) = end {
                sender.send(piece).await.unwrap();
            }
            drop(sender);
        };
        if binding == Binding::Grpc {
            let asking = open_grpc(gateway.address, &written.path, &[("x-api-key", KEY)], written.body);
            let (rpc, ()) = tokio::join!(async { Rpc::read(asking.await).await }, telling);
            assert_eq!((rpc.status(), rpc.body.len()), (14, event.len() + 5), "{rpc:?}");
        } else {
            let fields = [("x-api-key", KEY), ("content-type", "application/json")];
            let body = String::from_utf8(written.body).unwrap();
            let asking = open(gateway.address, "POST", "/", &fields, &body);
            let ((text, clean), ()) = tokio::join!(async { read(asking.await).await }, telling);
            assert!(text.contains("\"t1\"") && !clean, "{text}");
        }
    };
    for binding in [Binding::JsonRpc, Binding::Grpc] {
        tell(None, binding).await;
        tell(Some(Piece::Broken), binding).await;
        tell(Some(Piece::Trailers(fields(&[("x-y", "z")]))), binding).await;
    }
}

#[tokio::test]
async fn somebody_elses_task_is_withheld() {
    let agent = GrpcAgent::start(CARD_GRPC, move |request| {
        let operation = request.method().operation;
        let told = |id: &str| framed(&message(V1_0, operation, &json!({ "task": task(id) })));
        Reply::of(match operation.streams() {
            _ if operation == Get => vec![framed(&message(V1_0, Get, &task("t2"))), good()],
            true => vec![told("t2"), told("t1"), good()],
            false => vec![told("t1"), good()],
        })
    })
    .await;
    let gateway = Gateway::start(&with_keys(&agent.config(""))).await;
    gateway.ready().await;
    let caller = Caller(dialect(V1_0, Binding::Grpc));
    let sent = caller.by(ANN, &gateway, Send, &params(Send)).await;
    assert_eq!(sent, Ok(vec![json!({ "task": task("t1") })]));
    let written = caller.write(Stream, &params(Stream));
    let rpc = Rpc::read(open_grpc(gateway.address, &written.path, &[("x-api-key", BOB)], written.body).await).await;
    assert_eq!(rpc.status(), 14, "{rpc:?}");
    let events = results(&rpc, V1_0, Stream);
    assert_eq!(events, [json!({ "task": task("t2") })], "what came before it stays");
    assert_eq!(
        caller
            .by(BOB, &gateway, Get, &json!({"id": "t2"}))
            .await
            .map(|it| it.len()),
        Ok(1)
    );
    assert_eq!(caller.by(BOB, &gateway, Get, &json!({"id": "t1"})).await, Err(-32001));
    let body = String::from_utf8(
        Caller(dialect(V1_0, Binding::JsonRpc))
            .write(Stream, &params(Stream))
            .body,
    )
    .unwrap();
    let fields = [("x-api-key", BOB), ("content-type", "application/json")];
    let (text, clean) = read(open(gateway.address, "POST", "/", &fields, &body).await).await;
    assert!(!text.contains("\"t1\"") && !clean, "{text}");
}
