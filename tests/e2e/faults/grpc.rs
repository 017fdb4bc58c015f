//! Agents of gRPC whose answers are none: each is one outcome for callers of JSON-RPC, and `UNAVAILABLE` over gRPC.

use a2a_gateway::a2a::Generation::V1_0;
use a2a_gateway::a2a::Operation::{self, Get, Stream};
use a2a_gateway::a2a::grpc::{self, Status};
use serde_json::{Value, json};

use super::{CREDENTIAL, JSON};
use crate::harness::client::{Rpc, collect, open, open_grpc, read};
use crate::harness::grpc::{CARD_GRPC, GrpcAgent, Piece, Reply, failed, fields, framed, good};
use crate::harness::{Answer, Gateway, call, eventually, of_task, send, with_upstream};

const OPEN: &str = "policy: { task_owner: none }";
/// Of 1 KiB.
const SMALL: &str = "answer_bytes: 1KiB, event_bytes: 1KiB";

fn task(context: &str) -> Vec<u8> {
    let task = json!({"id": "t1", "contextId": context, "status": {"state": "TASK_STATE_WORKING"}});
    grpc::from_json(V1_0, Get, task.to_string().as_bytes()).unwrap()
}

/// A task of so many bytes.
fn task_of(size: usize) -> Vec<u8> {
    let more = size - task("").len() - 2;
    let task = task(&"x".repeat(if more > 127 { more - 1 } else { more }));
    assert_eq!(task.len(), size);
    task
}

async fn start(agent: &GrpcAgent, upstream: &str) -> Gateway {
    let gateway = Gateway::start(&with_upstream(&agent.config(OPEN), upstream)).await;
    gateway.ready().await;
    gateway
}

async fn get(gateway: &Gateway) -> Answer {
    call(
        gateway.address,
        "POST",
        "/",
        &[CREDENTIAL, JSON],
        &of_task("GetTask", "t1"),
    )
    .await
}

async fn ask(gateway: &Gateway, operation: Operation, message: &[u8]) -> Rpc {
    let path = grpc::path(V1_0, operation).unwrap();
    let body = grpc::frame(message).unwrap().to_vec();
    Rpc::read(open_grpc(gateway.address, path, &[CREDENTIAL], body).await).await
}

#[tokio::test]
async fn what_is_no_answer_does_not_pass() {
    let check = async |what: &str, reply: fn() -> Reply, status: u16, outcome: &str| {
        let agent = GrpcAgent::start(CARD_GRPC, move |_| reply()).await;
        let gateway = start(&agent, SMALL).await;
        let got = get(&gateway).await;
        assert_eq!(got.status, status, "{what}: {}", got.text());
        let rpc = ask(&gateway, Get, b"\x12\x02t1").await;
        let expected = if status == 200 { 0 } else { 14 };
        assert_eq!(rpc.status(), expected, "{what}: {rpc:?}");
        for record in gateway.access(2).await {
            assert_eq!(record["outcome"], outcome, "{what}");
        }
    };
    let bad = "upstream_bad_answer";
    check("as it should be", || Reply::message(&task("c")), 200, "ok").await;
    check("no trailers", || Reply::of(vec![framed(&task("c"))]), 502, bad).await;
    check("nothing", Reply::head_only, 502, bad).await;
    check(
        "other trailers",
        || Reply::of(vec![framed(&task("c")), Piece::Trailers(fields(&[("x-status", "0")]))]),
        502,
        bad,
    )
    .await;
    check(
        "a status that is none",
        || {
            Reply::of(vec![
                framed(&task("c")),
                Piece::Trailers(fields(&[("grpc-status", "OK")])),
            ])
        },
        502,
        bad,
    )
    .await;
    check(
        "two statuses",
        || {
            let mut two = fields(&[("grpc-status", "0")]);
            two.append("grpc-status", "5".parse().unwrap());
            Reply::of(vec![framed(&task("c")), Piece::Trailers(two)])
        },
        502,
        bad,
    )
    .await;
    check("no message", || Reply::of(vec![good()]), 502, bad).await;
    check(
        "no message and no body",
        || Reply::head_only().with(&fields(&[("grpc-status", "0")])),
        502,
        bad,
    )
    .await;
    check(
        "two messages",
        || Reply::of(vec![framed(&task("c")), framed(&task("c")), good()]),
        502,
        bad,
    )
    .await;
    check(
        "a part of a message",
        || {
            Reply::of(vec![
                Piece::Data(grpc::frame(&task("c")).unwrap()[..9].to_vec()),
                good(),
            ])
        },
        502,
        bad,
    )
    .await;
    check(
        "more than a message",
        || Reply::of(vec![framed(&task("c")), Piece::Data(vec![0]), good()]),
        502,
        bad,
    )
    .await;
    check(
        "compressed",
        || Reply::of(vec![Piece::Data(vec![1, 0, 0, 0, 1, 0]), good()]),
        502,
        bad,
    )
    .await;
    check(
        "a coding that nobody asked for",
        || Reply::message(&task("c")).with(&fields(&[("grpc-encoding", "gzip")])),
        502,
        bad,
    )
    .await;
    check(
        "no flag",
        || Reply::of(vec![Piece::Data(vec![7, 0, 0, 0, 0]), good()]),
        502,
        bad,
    )
    .await;
    check("no protobuf", || Reply::message(&[0xff; 9]), 502, bad).await;
    check("no task", || Reply::message(b""), 502, bad).await;
    check(
        "another media type",
        || Reply::message(&task("c")).with(&fields(&[("content-type", "application/json")])),
        502,
        bad,
    )
    .await;
    check("a proxy's page", || Reply::message(&task("c")).status(503), 502, bad).await;
    check("a path that is not there", || Reply::head_only().status(404), 502, bad).await;
    check("a redirect", || Reply::head_only().status(302), 502, bad).await;
    check(
        "no credential",
        || Reply::head_only().status(401),
        502,
        "upstream_refused",
    )
    .await;
    check(
        "no credential, in gRPC",
        || Reply::head_only().with(&fields(&[("grpc-status", "16")])),
        502,
        "upstream_refused",
    )
    .await;
    check(
        "a reset",
        || Reply::of(vec![framed(&task("c")), Piece::Broken]),
        502,
        "upstream_closed",
    )
    .await;
    check(
        "a status in a head with a message, and none behind it",
        || Reply::of(vec![framed(&task("c"))]).with(&fields(&[("grpc-status", "0")])),
        502,
        bad,
    )
    .await;
    check("at the bound", || Reply::message(&task_of(1024)), 200, "ok").await;
    check(
        "too large",
        || Reply::message(&task_of(1025)),
        502,
        "upstream_answer_too_large",
    )
    .await;
}

#[tokio::test]
async fn a_status_in_a_head_says_nothing_where_there_is_more() {
    let agent = GrpcAgent::start(CARD_GRPC, |request| {
        let missing = Status {
            code: 5,
            message: "gone".to_owned(),
            details: None,
        };
        let end = Piece::Trailers(failed(&missing));
        let told = if request.method().operation == Stream {
            event("c")
        } else {
            task("c")
        };
        let pieces = vec![framed(&told), end];
        Reply::of(pieces).with(&fields(&[("grpc-status", "0"), ("grpc-message", "fine")]))
    })
    .await;
    let gateway = start(&agent, SMALL).await;
    for (operation, message, first) in [
        (Get, &b"\x12\x02t1"[..], vec![]),
        (Stream, b"\x12\x05\x0a\x01m\x20\x01", event("c")),
    ] {
        let rpc = ask(&gateway, operation, message).await;
        assert_eq!(rpc.status(), 5, "{operation:?}: {rpc:?}");
        assert_eq!(rpc.body.get(5..).unwrap_or_default(), first, "{operation:?}");
    }
    for record in gateway.access(2).await {
        assert_eq!(record["outcome"], "agent_error");
    }
}

#[tokio::test]
async fn messages_of_errors_are_decoded() {
    let agent = GrpcAgent::start(CARD_GRPC, |_| {
        let status = Status {
            code: 5,
            message: "100 % é\n".to_owned(),
            details: None,
        };
        Reply::failed(&status)
    })
    .await;
    let gateway = start(&agent, SMALL).await;
    let got = get(&gateway).await;
    assert_eq!((got.status, got.code()), (200, -32001));
    assert_eq!(got.json()["error"]["message"], "100 % é\n");
    let agent = GrpcAgent::start(CARD_GRPC, |_| {
        let fields = fields(&[("grpc-status", "5"), ("grpc-message", "50%2 %zz %41")]);
        Reply::head_only().with(&fields)
    })
    .await;
    let gateway = start(&agent, SMALL).await;
    assert_eq!(get(&gateway).await.json()["error"]["message"], "50%2 %zz A");
}

fn event(context: &str) -> Vec<u8> {
    let event = json!({"task": {"id": "t1", "contextId": context, "status": {"state": "TASK_STATE_WORKING"}}});
    grpc::from_json(V1_0, Stream, event.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn a_stream_ends_broken_at_what_is_no_event() {
    let hello = |text: &str| send("1", text).replace("SendMessage", "SendStreamingMessage");
    let check = async |what: &str, bad: Vec<u8>, is_first: bool, detail: Value| {
        let mut pieces = vec![Piece::Data(bad.clone()), good()];
        if !is_first {
            pieces.insert(0, framed(&event("c")));
        }
        let agent = GrpcAgent::start(CARD_GRPC, move |_| Reply::of(pieces.clone())).await;
        let gateway = start(&agent, SMALL).await;
        let response = open(gateway.address, "POST", "/", &[CREDENTIAL, JSON], &hello("x")).await;
        let (text, clean) = read(response).await;
        assert_eq!((text.contains("\"t1\""), clean), (!is_first, false), "{what}: {text}");
        let record = gateway.access(1).await.remove(0);
        assert_eq!(
            (&record["outcome"], &record["detail"]),
            (&json!("stream_broken"), &detail),
            "{what}"
        );
        let rpc = ask(&gateway, Stream, b"\x12\x05\x0a\x01m\x20\x01").await;
        assert_eq!((rpc.status(), rpc.body.is_empty()), (14, is_first), "{what}: {rpc:?}");
    };
    let frame = |message: &[u8]| grpc::frame(message).unwrap().to_vec();
    for is_first in [true, false] {
        check(
            "too large",
            frame(&event(&"x".repeat(1024))),
            is_first,
            json!("event_too_large"),
        )
        .await;
        check(
            "compressed",
            vec![1, 0, 0, 0, 1, 0],
            is_first,
            json!("event_unreadable"),
        )
        .await;
        check("cut", frame(&event("c"))[..7].to_vec(), is_first, Value::Null).await;
    }
    check("no protobuf", frame(&[0xff; 9]), true, json!("event_unreadable")).await;
}

#[tokio::test]
async fn an_agent_that_refuses_the_gateway_refuses_no_caller_of_a_stream() {
    let stream = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    for code in [7, 16] {
        let refusal = Status {
            code,
            message: "who are you".to_owned(),
            details: None,
        };
        for first in [true, false] {
            let mut pieces = vec![Piece::Trailers(failed(&refusal))];
            if !first {
                pieces.insert(0, framed(&event("c")));
            }
            let agent = GrpcAgent::start(CARD_GRPC, move |_| Reply::of(pieces.clone())).await;
            let gateway = start(&agent, SMALL).await;
            let response = open(gateway.address, "POST", "/", &[CREDENTIAL, JSON], &stream).await;
            if first {
                let got = collect(response).await;
                assert_eq!((got.status, got.code()), (502, -31502), "{code}: {}", got.text());
            } else {
                let (text, clean) = read(response).await;
                assert!(text.contains("\"t1\"") && !clean, "{code}: {text}");
            }
            let rpc = ask(&gateway, Stream, b"\x12\x05\x0a\x01m\x20\x01").await;
            assert_eq!((rpc.status(), rpc.body.is_empty()), (14, first), "{code}: {rpc:?}");
            assert!(!format!("{rpc:?}").contains("who"), "{rpc:?}");
            for record in gateway.access(2).await {
                assert_eq!(record["outcome"], "upstream_refused", "{code}");
            }
            let counted = gateway
                .metric("a2a_gateway_upstream_failures_total{agent=\"agent\",reason=\"upstream_refused\"}")
                .await;
            assert!((counted - 2.0).abs() < 0.1, "{counted}");
        }
    }
}

#[tokio::test]
async fn an_agent_that_says_it_is_unavailable_is_left_out_after_its_health_was_asked() {
    let gone = || {
        Reply::failed(&Status {
            code: 14,
            message: "going".to_owned(),
            details: None,
        })
    };
    let away = GrpcAgent::start(CARD_GRPC, move |_| gone()).await;
    let works = GrpcAgent::start(CARD_GRPC, |request| match &*request.path {
        grpc::HEALTH => Reply::failed(&Status {
            code: 12,
            ..Status::default()
        }),
        _ => Reply::message(&event("c")),
    })
    .await;
    let both = format!("/\" }}, {{ url: \"http://{}/\" }} ]", works.address);
    let config = with_upstream(
        &away.config(OPEN),
        "balance: round_robin, ejection: { consecutive_failures: 2 }",
    );
    let gateway = Gateway::start(&config.replace("/\" } ]", &both)).await;
    gateway.ready().await;
    eventually("calls go to the one that works alone", || async {
        let before = away.received().iter().filter(|it| it.path != grpc::HEALTH).count();
        for _ in 0..6 {
            ask(&gateway, Operation::Send, b"\x12\x05\x0a\x01m\x20\x01").await;
        }
        away.received().iter().filter(|it| it.path != grpc::HEALTH).count() == before
    })
    .await;
    assert!(away.received().iter().any(|it| it.path == grpc::HEALTH));
}
