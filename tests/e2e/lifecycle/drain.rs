//! Shutdown of the gateway: what runs may finish, what is new is refused, and what does not finish is seen to be broken.

use std::sync::Mutex;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::adversarial::wire::Wire;
use crate::faults::{CREDENTIAL, JSON};
use crate::harness::agent::{Agent, Reply, task_event};
use crate::harness::authority::{Authority, TLS_13};
use crate::harness::client::{open, open_http2, read};
use crate::harness::{Gateway, KEY, agent, config_of, eventually, get, post, send};

pub fn request() -> String {
    send("1", "x").replace("SendMessage", "SendStreamingMessage")
}

/// A gateway with this drain deadline, and an agent whose first call is a stream that the test feeds.
async fn streaming(drain: &str) -> (Agent, Gateway, mpsc::Sender<Option<String>>) {
    let (events, chunks) = mpsc::channel(16);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| match chunks.lock().unwrap().take() {
        Some(chunks) => Reply::Stream(chunks),
        None => Reply::Silence,
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", &format!("drain: {drain}")).await;
    (agent, gateway, events)
}

/// A gateway with this drain deadline, and an agent that answers its only call when the test does.
async fn held(drain: &str) -> (Agent, Gateway, oneshot::Sender<String>) {
    let (answer, later) = oneshot::channel();
    let later = Mutex::new(Some(later));
    let agent = Agent::start(move |_| Reply::Later(later.lock().unwrap().take().expect("one call"))).await;
    let gateway = Gateway::of(&[agent.address], "", &format!("drain: {drain}")).await;
    (agent, gateway, answer)
}

/// A call as it goes over the wire.
pub fn written(body: &str) -> String {
    format!(
        "POST /agent HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The drain has begun, as operators see it.
async fn draining(admin: std::net::SocketAddr) {
    eventually("the drain begins", || async {
        get(admin, "/ready").await.json()["draining"] == true
    })
    .await;
}

#[tokio::test]
async fn an_idle_gateway_ends_clean_and_leaves_no_connection_open() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
    assert!(gateway.shutdown().await, "nothing was cut off");
    eventually("connections to the agent are closed", || async { agent.open() == 0 }).await;
}

#[tokio::test]
async fn a_running_call_finishes_during_the_drain() {
    let (agent, gateway, answer) = held("25s").await;
    let (address, admin) = (gateway.address, gateway.admin);
    let caller = tokio::spawn(async move { post(address, "/agent", &send("1", "x")).await });
    eventually("the call is at the agent", || async { agent.received().len() == 1 }).await;
    let shutdown = tokio::spawn(gateway.shutdown());
    draining(admin).await;
    let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}}"#;
    answer.send(whole.to_owned()).unwrap();
    let got = caller.await.unwrap();
    assert_eq!((got.status, got.text()), (200, whole.to_owned()));
    assert!(shutdown.await.unwrap(), "nothing was cut off");
}

#[tokio::test]
async fn a_call_past_the_deadline_gets_no_answer() {
    let (agent, gateway, mut answer) = held("200ms").await;
    let mut caller = Wire::to(gateway.address).await;
    caller.send(written(&send("1", "x"))).await;
    eventually("the call is at the agent", || async { agent.received().len() == 1 }).await;
    assert!(!gateway.shutdown().await, "a call was cut off");
    caller.closes().await;
    answer.closed().await;
}

#[tokio::test]
async fn a_stream_that_ends_in_time_ends_clean_with_its_last_event() {
    for http2 in [false, true] {
        let (_agent, gateway, events) = streaming("25s").await;
        events.send(Some(task_event("1", "first"))).await.unwrap();
        let response = opened(gateway.address, http2).await;
        let admin = gateway.admin;
        let shutdown = tokio::spawn(gateway.shutdown());
        draining(admin).await;
        events.send(Some(task_event("1", "last"))).await.unwrap();
        drop(events);
        let expected = task_event("1", "first") + &task_event("1", "last");
        assert_eq!(read(response).await, (expected, true), "HTTP/2: {http2}");
        assert!(shutdown.await.unwrap(), "HTTP/2: {http2}: nothing was cut off");
    }
}

#[tokio::test]
async fn a_stream_past_the_deadline_ends_broken() {
    for http2 in [false, true] {
        let (_agent, gateway, events) = streaming("200ms").await;
        events.send(Some(task_event("1", "t"))).await.unwrap();
        let response = opened(gateway.address, http2).await;
        let log = gateway.log();
        let shutdown = tokio::spawn(gateway.shutdown());
        assert_eq!(read(response).await, (task_event("1", "t"), false), "HTTP/2: {http2}");
        assert!(!shutdown.await.unwrap(), "HTTP/2: {http2}: a stream was cut off");
        assert_eq!(log.records()[0]["outcome"], "drained", "HTTP/2: {http2}");
        eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
    }
}

#[tokio::test]
async fn a_stream_past_the_deadline_has_no_last_chunk() {
    let (_agent, gateway, events) = streaming("200ms").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let mut caller = Wire::to(gateway.address).await;
    caller.send(written(&request())).await;
    assert_eq!(caller.answer_head().await.expect("a head").status, 200);
    assert!(!gateway.shutdown().await);
    while caller.more().await.is_some() {}
    let text = String::from_utf8_lossy(caller.received()).into_owned();
    assert!(text.ends_with("\r\n\r\n\r\n") && !text.contains("\n0\r\n"), "{text:?}");
}

#[tokio::test]
async fn with_no_patience_a_stream_ends_at_once_and_broken() {
    let (_agent, gateway, events) = streaming("0s").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let response = opened(gateway.address, false).await;
    let shutdown = tokio::spawn(gateway.shutdown());
    assert_eq!(read(response).await, (task_event("1", "t"), false));
    assert!(!shutdown.await.unwrap());
}

#[tokio::test]
async fn while_draining_nothing_new_is_taken_and_operators_see_why() {
    let (_agent, gateway, events) = streaming("25s").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let response = opened(gateway.address, false).await;
    let (address, admin) = (gateway.address, gateway.admin);
    let shutdown = tokio::spawn(gateway.shutdown());
    draining(admin).await;
    eventually("new connections are refused", || async {
        TcpStream::connect(address)
            .await
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    })
    .await;
    let ready = get(admin, "/ready").await;
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &serde_json::json!(false)));
    assert_eq!(get(admin, "/health").await.status, 200, "it still works");
    drop(events);
    assert!(read(response).await.1);
    assert!(shutdown.await.unwrap());
}

#[tokio::test]
async fn an_idle_kept_connection_is_closed_when_the_drain_begins() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let mut caller = Wire::to(gateway.address).await;
    caller.send(written(&send("1", "x"))).await;
    assert_eq!(caller.answer().await.status, 200);
    assert!(gateway.shutdown().await, "it did not hold the drain up");
    caller.closes().await;
}

#[tokio::test]
async fn a_connection_without_a_request_does_not_hold_the_drain_up() {
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // An HTTP/2 caller's first frame, SETTINGS without any; it answers nothing from then on.
    let settings = format!("{preface}\0\0\0\x04\0\0\0\0\0");
    for begin in ["", &preface[..10], "POST /agent HTTP/1.1\r\nhost:", &settings] {
        let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
        let gateway = Gateway::of(&[agent.address], "", "drain: 5s\nlimits: { request_header: 20s }").await;
        let mut caller = Wire::to(gateway.address).await;
        caller.send(begin).await;
        eventually("it is accepted", || async {
            gateway.metric("a2a_gateway_connections_open").await == 1.0
        })
        .await;
        assert!(gateway.shutdown().await, "{begin:?}: nobody was cut off");
        while caller.more().await.is_some() {}
        assert!(
            !String::from_utf8_lossy(caller.received()).contains("HTTP/1.1"),
            "{begin:?}"
        );
    }
}

#[tokio::test]
async fn a_tls_connection_without_a_request_does_not_hold_the_drain_up() {
    let authority = Authority::new();
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let tls = "tls: { certificate: a.example.crt, private_key: a.example.key }";
    let limits = "drain: 5s\nlimits: { request_header: 20s, tls_handshake: 20s }";
    let yaml = config_of(&[agent.address], "", limits).replace(
        "address: \"127.0.0.1:0\" } ]",
        &format!("address: \"127.0.0.1:0\", {tls} }} ]"),
    );
    for shakes_hands in [false, true] {
        let gateway = Gateway::start_in(&yaml, authority.folder.path()).await;
        gateway.ready().await;
        let stream = TcpStream::connect(gateway.address).await.unwrap();
        let client = authority.client(TLS_13, &["http/1.1"], None);
        let name = ServerName::try_from("a.example").unwrap();
        let _open: Box<dyn std::any::Any> = if shakes_hands {
            Box::new(client.connect(name, stream).await.unwrap())
        } else {
            Box::new(stream)
        };
        eventually("it is accepted", || async {
            gateway.metric("a2a_gateway_connections_open").await == 1.0
        })
        .await;
        assert!(gateway.shutdown().await, "handshake {shakes_hands}: nobody was cut off");
    }
}

async fn opened(address: std::net::SocketAddr, http2: bool) -> http::Response<hyper::body::Incoming> {
    if http2 {
        open_http2(address, "/agent", &[JSON, CREDENTIAL], &request()).await
    } else {
        open(address, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await
    }
}
