//! Bytes behind a request whose answer is still under way: kept back in bounds, and no way to hide that the caller left.

use std::sync::Mutex;

use tokio::sync::{mpsc, oneshot};

use super::wire::Wire;
use crate::harness::agent::{Received, event, task_event};
use crate::harness::{Agent, Gateway, KEY, Reply, eventually, send};

fn post(body: &str) -> String {
    format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn streaming(id: &str) -> String {
    post(&send(id, "x").replace("SendMessage", "SendStreamingMessage"))
}

fn task(request: &Received) -> Reply {
    Reply::Json(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"task":{{"id":"t","contextId":"c","status":{{"state":"TASK_STATE_COMPLETED"}}}}}}}}"#,
        request.id()
    ))
}

/// The first call is a stream that the test feeds; the others are answered at once.
async fn one_stream(limits: &str) -> (Agent, Gateway, mpsc::Sender<Option<String>>) {
    let (events, chunks) = mpsc::channel(16);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |request| match chunks.lock().expect("chunks").take() {
        Some(chunks) => Reply::Stream(chunks),
        None => task(request),
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", limits).await;
    events.send(Some(task_event("1", "t"))).await.expect("room");
    (agent, gateway, events)
}

/// Reads until the wire has brought this text.
async fn brings(wire: &mut Wire, text: &str) {
    while !String::from_utf8_lossy(wire.received()).contains(text) {
        assert!(
            wire.more().await.is_some(),
            "ended before {text:?}: {}",
            String::from_utf8_lossy(wire.received())
        );
    }
}

#[tokio::test]
async fn a_caller_who_pipelines_and_leaves_takes_its_stream_along() {
    let whole = post(&send("2", "x"));
    let head = whole.len() - send("2", "x").len();
    let cases = [
        ("one byte", "P"),
        ("half a head", &whole[..20]),
        ("a head without its body", &whole[..head]),
        ("a request", &whole),
        ("two requests", &whole.repeat(2)),
        (
            "a head that is refused",
            "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        ),
    ];
    for (what, more) in cases {
        for at_once in [true, false] {
            let (agent, gateway, events) = one_stream("").await;
            let mut wire = Wire::to(gateway.address).await;
            if at_once {
                wire.send(streaming("1") + more).await;
                brings(&mut wire, "data:").await;
            } else {
                wire.send(streaming("1")).await;
                brings(&mut wire, "data:").await;
                wire.send(more).await;
            }
            drop(wire);
            eventually(
                &format!("the agent's stream is dropped: {what}, at once: {at_once}"),
                || async { events.is_closed() },
            )
            .await;
            assert_eq!(gateway.access(1).await[0]["outcome"], "downstream_gone", "{what}");
            assert_eq!(agent.received().len(), 1, "{what}: nothing behind the stream was begun");
        }
    }
}

#[tokio::test]
async fn what_waits_behind_a_stream_has_its_turn_when_it_ends() {
    for more in [
        post(&send("2", "x")),
        // The rest of the head comes later.
        post(&send("2", "x"))[..20].to_owned(),
    ] {
        let (_agent, gateway, events) = one_stream("limits: { request_header: 20s }").await;
        let mut wire = Wire::to(gateway.address).await;
        wire.send(streaming("1") + &more).await;
        brings(&mut wire, "data:").await;
        drop(events);
        brings(&mut wire, "\r\n0\r\n\r\n").await;
        wire.send(&post(&send("2", "x"))[more.len()..]).await;
        brings(&mut wire, "\"id\":2").await;
    }
    let (_agent, gateway, events) = one_stream("").await;
    let mut wire = Wire::to(gateway.address).await;
    wire.send(streaming("1") + "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        .await;
    brings(&mut wire, "data:").await;
    drop(events);
    brings(&mut wire, "HTTP/1.1 400 ").await;
    while wire.more().await.is_some() {}
}

#[tokio::test]
async fn more_than_a_header_section_behind_a_stream_ends_the_connection() {
    let (_agent, gateway, events) = one_stream("limits: { header_bytes: 8KiB }").await;
    let ended = "a2a_gateway_connections_ended_total{limit=\"header_bytes\"}";
    let mut wire = Wire::to(gateway.address).await;
    wire.send(streaming("1")).await;
    brings(&mut wire, "data:").await;
    wire.send("x".repeat(8 * 1024)).await;
    let update = event("1", r#"{"statusUpdate":{"taskId":"t","contextId":"ctx-t"}}"#);
    events.send(Some(update)).await.expect("open");
    brings(&mut wire, "statusUpdate").await;
    assert_eq!(gateway.metric(ended).await, 0.0, "the bound");
    wire.send("x").await;
    while wire.more().await.is_some() {}
    eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
    assert_eq!(gateway.access(1).await[0]["outcome"], "downstream_gone");
    assert_eq!(gateway.metric(ended).await, 1.0);

    // The same when it is there before the stream is.
    let (_agent, gateway, events) = one_stream("limits: { header_bytes: 8KiB }").await;
    let mut wire = Wire::to(gateway.address).await;
    wire.send(streaming("1") + &"x".repeat(100 * 1024)).await;
    while wire.more().await.is_some() {}
    eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
    assert_eq!(gateway.metric(ended).await, 1.0);
}

#[tokio::test]
async fn a_large_request_may_wait_behind_a_whole_answer() {
    let (answer, later) = oneshot::channel();
    let later = Mutex::new(Some(later));
    let agent = Agent::start(move |request| match later.lock().expect("later").take() {
        Some(later) => Reply::Later(later),
        None => task(request),
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "limits: { header_bytes: 8KiB }").await;
    let mut wire = Wire::to(gateway.address).await;
    wire.send(post(&send("1", "x")) + &post(&send("2", &"x".repeat(300 * 1024))))
        .await;
    eventually("the first call is with the agent", || async {
        agent.received().len() == 1
    })
    .await;
    let first = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}"#;
    answer.send(first.to_owned()).expect("the agent waits");
    assert_eq!(wire.answer().await.json()["id"], 1);
    assert_eq!(wire.answer().await.json()["id"], 2);
    assert_eq!(agent.received().len(), 2);
}

#[tokio::test]
async fn an_answer_that_does_not_wait_for_the_body_says_that_it_closes() {
    let (_agent, gateway, _events) = one_stream("").await;
    let head = |path: &str, media: &str, rest: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: {media}\r\n{rest}\r\n\r\n")
    };
    for (path, media, status) in [("/nobody", "application/json", 404), ("/agent", "text/plain", 415)] {
        for framing in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
            let mut wire = Wire::to(gateway.address).await;
            wire.send(head(path, media, framing)).await;
            let answer = wire.answer().await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.headers["connection"], "close");
            wire.closes().await;
        }
        // What came whole is passed over, and the connection goes on.
        let mut wire = Wire::to(gateway.address).await;
        for _ in 0..2 {
            wire.send(head(path, media, "Content-Length: 3") + "abc").await;
            let answer = wire.answer().await;
            assert_eq!(answer.status, status);
            assert!(!answer.headers.contains_key("connection"));
        }
    }
}
