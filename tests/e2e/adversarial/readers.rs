//! Callers who ask and do not read: what waits for them is held for so long, and no longer.

use std::sync::Mutex;
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::sync::mpsc;

use super::frames::{self, DATA, Frames, GOAWAY, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE};
use super::wire::Wire;
use crate::harness::agent::{Received, event, task_event};
use crate::harness::{Agent, Gateway, KEY, Reply, eventually, get, send};

const ENDED: &str = "a2a_gateway_connections_ended_total{limit=\"response_idle\"}";
/// More than the buffers of both kernels take.
const LARGE: usize = 14 * 1024 * 1024;
/// RFC 9113 §7.
const CANCEL: u32 = 8;

/// Answers with a task of this size.
fn large(size: usize) -> impl Fn(&Received) -> Reply + Send + Sync {
    move |request| {
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"task":{{"id":"t","contextId":"c","status":{{"state":"TASK_STATE_COMPLETED"}},"metadata":{{"x":"{}"}}}}}}}}"#,
            request.id(),
            "x".repeat(size)
        ))
    }
}

/// An agent with one stream, which the test feeds; further ones are silent.
async fn streaming() -> (Agent, mpsc::Sender<Option<String>>) {
    let (events, chunks) = mpsc::channel(1);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| match chunks.lock().expect("chunks").take() {
        Some(chunks) => Reply::Stream(chunks),
        None => Reply::Silence,
    })
    .await;
    (agent, events)
}

/// Events until nobody takes them any more.
fn flood(events: &mpsc::Sender<Option<String>>) {
    let events = events.clone();
    tokio::spawn(async move {
        let update = event(
            "1",
            &format!(
                r#"{{"statusUpdate":{{"taskId":"t","contextId":"ctx-t","x":"{}"}}}}"#,
                "x".repeat(200 * 1024)
            ),
        );
        let mut next = task_event("1", "t");
        while events.send(Some(next)).await.is_ok() {
            next = update.clone();
        }
    });
}

fn post(body: &str) -> String {
    format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn stream_call() -> String {
    send("1", "x").replace("SendMessage", "SendStreamingMessage")
}

/// A caller whose kernel takes little for it.
async fn small(gateway: &Gateway) -> Wire {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a small buffer");
    Wire::over(socket.connect(gateway.address).await.expect("the gateway listens"))
}

async fn given_up(gateway: &Gateway) {
    eventually("the caller is given up", || async {
        gateway.metric(ENDED).await >= 1.0
    })
    .await;
    assert_eq!(gateway.access(1).await[0]["outcome"], "downstream_gone");
}

async fn closed(gateway: &Gateway) {
    eventually("its connection is closed", || async {
        gateway
            .metric("a2a_gateway_connections_open{listener=\"public\"}")
            .await
            == 0.0
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_held_for_so_long() {
    let agent = Agent::start(large(LARGE)).await;
    let gateway = Gateway::of(&[agent.address], "", "limits: { response_idle: 1s }").await;
    let mut wire = small(&gateway).await;
    wire.send(post(&send("1", "x"))).await;
    given_up(&gateway).await;
    closed(&gateway).await;
    drop(wire);

    // Over HTTP/2 with all the window there can be: the connection may be left, but not the answer.
    let gateway = Gateway::of(&[agent.address], "", "limits: { response_idle: 1s }").await;
    let mut frames = Frames::over(small(&gateway).await.stream).await;
    open_wide(&mut frames).await;
    call(&mut frames, 1, &send("1", "x")).await;
    given_up(&gateway).await;
}

#[tokio::test]
async fn a_slow_reader_gets_everything() {
    let agent = Agent::start(large(LARGE)).await;
    let gateway = Gateway::of(&[agent.address], "", "limits: { response_idle: 1s }").await;
    let mut wire = small(&gateway).await;
    wire.send(post(&send("1", "x"))).await;
    wire.answer_head().await.expect("a head");
    let mut pause = 0;
    while wire.received().len() < LARGE {
        wire.more().await.expect("more of the answer");
        if wire.received().len() / (512 * 1024) > pause {
            pause += 1;
            // All of them together are longer than the limit.
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }
    assert_eq!(gateway.metric(ENDED).await, 0.0);
}

#[tokio::test]
async fn a_stream_that_nobody_reads_ends_with_its_agents() {
    for http2 in [false, true] {
        let (agent, events) = streaming().await;
        let gateway = Gateway::of(&[agent.address], "", "limits: { response_idle: 1s }").await;
        flood(&events);
        let mut wire = small(&gateway).await;
        let unread = if http2 {
            let mut frames = Frames::over(wire.stream).await;
            open_wide(&mut frames).await;
            call(&mut frames, 1, &stream_call()).await;
            frames.stream
        } else {
            wire.send(post(&stream_call())).await;
            wire.stream
        };
        eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
        given_up(&gateway).await;
        if !http2 {
            closed(&gateway).await;
        }
        drop(unread);
    }
}

#[tokio::test]
async fn a_stream_without_a_window_ends_and_its_connection_goes_on() {
    let agent = Agent::start(large(200 * 1024)).await;
    let gateway = Gateway::of(&[agent.address], "", "limits: { response_idle: 1s }").await;
    let mut frames = Frames::to(gateway.address).await;
    // No window but what is given: none to the first, half an answer to the second.
    frames.send(&frames::frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).await;
    frames.send(&window(0, 1 << 30)).await;
    for (count, stream, given) in [(1.0, 1, 0), (2.0, 3, 100 * 1024)] {
        call(&mut frames, stream, &send("1", "x")).await;
        if given > 0 {
            frames.send(&window(stream, given)).await;
        }
        let mut taken = 0;
        loop {
            let frame = frames.telling().await.expect("the connection goes on");
            assert_ne!(frame.kind, GOAWAY);
            assert_eq!(frame.stream, stream);
            match frame.kind {
                DATA => taken += frame.payload.len(),
                RST_STREAM => {
                    assert_eq!(frame.error(), CANCEL);
                    break;
                }
                kind => assert_eq!(kind, HEADERS),
            }
        }
        assert_eq!(taken, given as usize, "what was asked for");
        assert_eq!(gateway.metric(ENDED).await, count);
        assert_eq!(gateway.access(1).await[0]["outcome"], "downstream_gone");
    }
    // A window in time, a little at once.
    call(&mut frames, 5, &send("1", "x")).await;
    let mut taken = 0;
    while taken < 200 * 1024 {
        frames.send(&window(5, 20 * 1024)).await;
        let mut now = 0;
        while now < 20 * 1024 && taken < 200 * 1024 {
            let frame = frames.telling().await.expect("open");
            if frame.kind == DATA {
                now += frame.payload.len();
                taken += frame.payload.len();
            } else {
                assert_eq!((frame.kind, frame.stream), (HEADERS, 5));
            }
        }
        // All of them together are longer than the limit.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(gateway.metric(ENDED).await, 2.0);
}

#[tokio::test]
async fn an_event_stream_without_a_window_ends_with_its_agents() {
    let (agent, events) = streaming().await;
    let gateway = Gateway::of(&[agent.address], "", "limits: { response_idle: 1s }").await;
    flood(&events);
    let mut frames = Frames::to(gateway.address).await;
    call(&mut frames, 1, &stream_call()).await;
    eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
    assert_eq!(gateway.metric(ENDED).await, 1.0);
    assert_eq!(gateway.access(1).await[0]["outcome"], "downstream_gone");
    assert_eq!(
        get(gateway.address, "/agent/.well-known/agent-card.json").await.status,
        200
    );
}

#[tokio::test]
async fn a_quiet_stream_with_a_reader_stays() {
    for http2 in [false, true] {
        let (agent, events) = streaming().await;
        let gateway = Gateway::of(&[agent.address], "", "limits: { response_idle: 200ms }").await;
        events.send(Some(task_event("1", "t"))).await.expect("room");
        let fields = [("content-type", "application/json"), ("x-api-key", KEY)];
        let response = if http2 {
            crate::harness::client::open_http2(gateway.address, "/agent", &fields, &stream_call()).await
        } else {
            crate::harness::client::open(gateway.address, "POST", "/agent", &fields, &stream_call()).await
        };
        tokio::time::sleep(Duration::from_millis(600)).await;
        events.send(Some(task_event("1", "t"))).await.expect("still open");
        drop(events);
        let (text, clean) = crate::harness::client::read(response).await;
        assert_eq!((text, clean), (task_event("1", "t").repeat(2), true), "HTTP/2: {http2}");
        assert_eq!(gateway.metric(ENDED).await, 0.0);
    }
}

fn window(stream: u32, more: u32) -> Vec<u8> {
    frames::frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

async fn open_wide(frames: &mut Frames) {
    frames
        .send(&frames::frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]))
        .await;
    frames.send(&window(0, 1 << 30)).await;
}

async fn call(frames: &mut Frames, stream: u32, body: &str) {
    frames
        .headers(stream, &frames::block(&frames::call_fields()), false)
        .await;
    frames.data(stream, body.as_bytes(), true).await;
}
