//! Event streams that break: a broken end is never turned into a clean one.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{CREDENTIAL, JSON};
use crate::harness::agent::{Agent, Reply, event, task_event};
use crate::harness::client::{open, open_http2, raw, read};
use crate::harness::{Gateway, KEY, OPEN, config_of, eventually, post, send, with_upstream};

type Chunk = Option<String>;

/// An agent whose streams are fed by the test; `settings` are added to the upstream.
async fn streaming(settings: &str) -> (Agent, Gateway, mpsc::Sender<Chunk>) {
    streaming_as("", settings).await
}

/// The same, with more keys of the agent.
async fn streaming_as(more: &str, settings: &str) -> (Agent, Gateway, mpsc::Sender<Chunk>) {
    let (events, chunks) = mpsc::channel(16);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| match chunks.lock().unwrap().take() {
        Some(chunks) => Reply::Stream(chunks),
        None => Reply::Silence,
    })
    .await;
    let yaml = with_upstream(&config_of(&[agent.address], more, ""), settings);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    (agent, gateway, events)
}

fn request() -> String {
    send("1", "x").replace("SendMessage", "SendStreamingMessage")
}

#[tokio::test]
async fn a_stream_that_breaks_off_between_events_ends_broken() {
    for http2 in [false, true] {
        let (_agent, gateway, events) = streaming("pool_idle: 4s").await;
        events.send(Some(task_event("1", "t"))).await.unwrap();
        let response = if http2 {
            open_http2(gateway.address, "/agent", &[JSON, CREDENTIAL], &request()).await
        } else {
            open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await
        };
        events.send(None).await.unwrap();
        let (text, clean) = read(response).await;
        assert_eq!((text, clean), (task_event("1", "t"), false), "HTTP/2: {http2}");
        assert_eq!(gateway.access(1).await[0]["outcome"], "stream_broken");
    }
}

#[tokio::test]
async fn a_stream_that_ends_inside_an_event_ends_broken() {
    let (_agent, gateway, events) = streaming("pool_idle: 4s").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    events.send(Some("data: {\"jsonrpc\":".to_owned())).await.unwrap();
    drop(events);
    let (text, clean) = read(open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await).await;
    assert!(text.starts_with(&task_event("1", "t")), "{text}");
    assert!(!clean, "the end was passed on as clean");
}

#[tokio::test]
async fn silence_past_the_bound_ends_broken() {
    let (_agent, gateway, events) = streaming("stream_idle_timeout: 300ms").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let (_, clean) = read(open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await).await;
    assert!(!clean);
    eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
}

#[tokio::test]
async fn the_first_event_is_bounded_and_without_owners_later_ones_pass() {
    let padded = |size: usize| {
        event(
            "1",
            &format!(r#"{{"statusUpdate":{{"taskId":"t","x":"{}"}}}}"#, "a".repeat(size)),
        )
    };
    let (_agent, gateway, events) = streaming("event_bytes: 2KiB").await;
    events.send(Some(padded(4096))).await.unwrap();
    let body = request();
    let head = format!(
        "POST /agent HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let text = raw(gateway.address, (head + &body).as_bytes(), Duration::from_secs(5)).await;
    assert!(
        !text.contains("data:") && !text.ends_with("0\r\n\r\n"),
        "nothing of it passed, no clean end: {text}"
    );
    let record = &gateway.access(1).await[0];
    assert_eq!(
        (&record["outcome"], &record["detail"]),
        (&"stream_broken".into(), &"event_too_large".into())
    );

    let (_agent, gateway, events) = streaming_as(OPEN, "event_bytes: 2KiB").await;
    let texts = [task_event("1", "t"), padded(4096), task_event("1", "t")];
    for text in &texts {
        events.send(Some(text.clone())).await.unwrap();
    }
    drop(events);
    let (text, clean) = read(open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await).await;
    assert_eq!((text, clean), (texts.concat(), true));
}

#[tokio::test]
async fn a_streaming_method_may_be_answered_with_plain_json() {
    let agent = Agent::start(|request| {
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32004,"message":"no"}}}}"#,
            request.id()
        ))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let got = post(gateway.address, "/agent", &request()).await;
    assert_eq!(
        (got.status, got.code(), got.header("content-type")),
        (200, -32004, Some("application/json"))
    );
}

#[tokio::test]
async fn a_slow_reader_slows_its_own_agent_and_nobody_else() {
    let (agent, gateway, events) = streaming("pool_idle: 4s").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let response = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await;
    // Nobody reads `response`. The agent writes until every buffer on the way is full; that must come soon.
    let chunk = event(
        "1",
        &format!(
            r#"{{"statusUpdate":{{"taskId":"t","x":"{}"}}}}"#,
            "a".repeat(256 * 1024)
        ),
    );
    let mut written = 0;
    while let Ok(sent) = tokio::time::timeout(Duration::from_millis(500), events.send(Some(chunk.clone()))).await {
        sent.unwrap();
        written += 1;
        assert!(written < 200, "50 MiB went into a stream that nobody reads");
    }
    assert_eq!(
        crate::harness::get(gateway.address, "/agent/.well-known/agent-card.json")
            .await
            .status,
        200
    );
    drop(response);
    eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
    drop(agent);
}

#[tokio::test]
async fn nothing_that_is_no_event_is_collected_past_the_bound() {
    let (_agent, gateway, events) = streaming("event_bytes: 2KiB").await;
    events.send(Some("event: message\n".to_owned())).await.unwrap();
    for _ in 0..4 {
        events.send(Some(format!(": {}\n", "a".repeat(1024)))).await.unwrap();
    }
    let (text, clean) = read(open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await).await;
    assert_eq!((text.as_str(), clean), ("", false));
    eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
}

#[tokio::test]
async fn a_first_event_that_cannot_be_learned_from_does_not_pass() {
    let unreadable = [
        event("2", r#"{"task":{"id":"of another request","status":{}}}"#),
        event("1", r#"{"task":{"id":"t","status":{}},"n":"\ud800"}"#),
        "data: <html>\n\n".to_owned(),
    ];
    for first in unreadable {
        let (_agent, gateway, events) = streaming("pool_idle: 4s").await;
        events.send(Some(first.clone())).await.unwrap();
        events.send(Some(task_event("1", "t"))).await.unwrap();
        let (text, clean) = read(open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await).await;
        assert_eq!((text.as_str(), clean), ("", false), "{first}");
    }
}

#[tokio::test]
async fn a_call_that_does_not_stream_is_not_answered_with_a_stream() {
    let agent = Agent::start(|_| {
        let (events, chunks) = mpsc::channel(1);
        events.try_send(Some(task_event("1", "t"))).unwrap();
        Reply::Stream(chunks)
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let got = post(gateway.address, "/agent", &send("1", "x")).await;
    assert_eq!(got.status, 502, "{}", got.text());
}
