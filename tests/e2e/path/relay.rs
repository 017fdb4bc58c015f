//! Answers and streams pass untouched, and nothing else passes.

use std::time::Duration;

use http_body_util::BodyExt;
use tokio::sync::mpsc;

use crate::harness::agent::{self, Agent, Reply, event, task_event};
use crate::harness::client::{call_http2, open};
use crate::harness::{Gateway, KEY, call, eventually, of_task, post, send};

const JSON: (&str, &str) = ("content-type", "application/json");
const CREDENTIAL: (&str, &str) = ("x-api-key", KEY);

#[tokio::test]
async fn an_answer_passes_byte_for_byte() {
    let answer = "{ \"result\" : {\"task\":{\"id\":\"t1\",\"contextId\":\"c1\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}, \"x-unknown\": 1.0e2}},\n\"id\":7 , \"jsonrpc\":\"2.0\"}";
    let agent = Agent::start(move |_| Reply::Json(answer.to_owned())).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    for http2 in [false, true] {
        let body = send("7", "a \\u00e9 \\ud83d\\ude00 é");
        let fields = [JSON, CREDENTIAL, ("a2a-version", "1.0.1"), ("x-custom", "kept")];
        let got = if http2 {
            call_http2(gateway.address, "POST", "/agent", &fields, &body).await
        } else {
            call(gateway.address, "POST", "/agent/", &fields, &body).await
        };
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.text(), answer);
        assert_eq!(got.header("content-type"), Some("application/json"));
        let received = agent.received().pop().expect("the agent was called");
        assert_eq!(String::from_utf8_lossy(&received.body), body, "the body is not touched");
        assert_eq!(received.field("a2a-version"), Some("1.0"), "without the patch part");
        assert_eq!(received.field("x-custom"), Some("kept"));
        assert_eq!(received.field("x-api-key"), None, "the credential stops here");
        assert_eq!(received.field("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(received.field("host"), Some(agent.address.to_string().as_str()));
        assert_eq!(received.field("x-request-id"), got.header("x-request-id"));
    }
}

#[tokio::test]
async fn connections_to_the_agent_are_reused() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    for _ in 0..50 {
        assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
    }
    // One for the card, one for the calls; a second one would be tolerable, fifty would not.
    assert!(
        agent.connections() <= 3,
        "{} connections for 50 calls",
        agent.connections()
    );
}

#[tokio::test]
async fn events_pass_one_by_one_as_they_come() {
    let (events, chunks) = mpsc::channel(4);
    let chunks = std::sync::Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| Reply::Stream(chunks.lock().unwrap().take().expect("one stream"))).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let opening = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &body);
    let first = task_event("1", "t1");
    let (response, sent) = tokio::join!(opening, events.send(Some(first.clone())));
    sent.expect("the agent sends");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut body = response.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(5), body.frame())
            .await
            .expect("in time");
        frame.map(|frame| {
            String::from_utf8(frame.expect("a whole frame").into_data().expect("data").to_vec()).expect("text")
        })
    };
    assert_eq!(next().await.as_deref(), Some(first.as_str()));
    assert_eq!(gateway.metric("a2a_gateway_open_streams{agent=\"agent\"}").await, 1.0);
    // The agent sends the second one only after the first was read: nothing is held back for company.
    for text in [
        ": ping\r\n\r\n".to_owned(),
        event(
            "1",
            r#"{"statusUpdate":{"taskId":"t1","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}"#,
        ),
    ] {
        events.send(Some(text.clone())).await.expect("the agent sends");
        assert_eq!(next().await.as_deref(), Some(text.as_str()));
    }
    drop(events);
    assert_eq!(next().await, None, "a clean end");
    let record = gateway.access(1).await.pop().expect("a record");
    assert_eq!(
        (&record["outcome"], &record["events"], &record["task"]),
        (&"ok".into(), &2.into(), &"t1".into())
    );
    assert_eq!(gateway.metric("a2a_gateway_open_streams{agent=\"agent\"}").await, 0.0);
}

#[tokio::test]
async fn the_owner_is_known_before_the_first_event_arrives() {
    // The first event comes in pieces; nothing of it may pass before its task can be found.
    let (events, chunks) = mpsc::channel(4);
    let chunks = std::sync::Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| Reply::Stream(chunks.lock().unwrap().take().expect("one stream"))).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let first = task_event("1", "early");
    let (begin, end) = first.split_at(first.len() - 3);
    events.send(Some(begin.to_owned())).await.unwrap();
    let mut body = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &body)
        .await
        .into_body();
    let early = tokio::time::timeout(Duration::from_millis(300), body.frame()).await;
    assert!(early.is_err(), "a part of the first event passed");
    events.send(Some(end.to_owned())).await.unwrap();
    let frame = body
        .frame()
        .await
        .expect("an event")
        .expect("whole")
        .into_data()
        .expect("data");
    assert_eq!(String::from_utf8_lossy(&frame), first);
    let known = crate::harness::get(gateway.admin, "/tasks/agent/early").await;
    assert_eq!(known.status, 200, "{}", known.text());
    assert_eq!(known.json()["owner"], "key:tester");
}

#[tokio::test]
async fn a_caller_who_leaves_takes_the_agents_stream_along_but_cancels_nothing() {
    let (events, chunks) = mpsc::channel(4);
    let chunks = std::sync::Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| Reply::Stream(chunks.lock().unwrap().take().expect("one stream"))).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    events.send(Some(task_event("1", "t1"))).await.unwrap();
    let mut response = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &body).await;
    response.body_mut().frame().await.expect("an event").expect("whole");
    drop(response);
    eventually("the agent's stream is dropped", || async { events.is_closed() }).await;
    let record = gateway.access(1).await.pop().unwrap();
    assert_eq!(record["outcome"], "downstream_gone");
    assert_eq!(agent.received().len(), 1, "no cancel was sent");
}

#[tokio::test]
async fn an_answer_that_has_begun_is_learned_from_though_its_caller_left() {
    let (send_rest, rest) = mpsc::channel::<()>(1);
    let rest = std::sync::Mutex::new(Some(rest));
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"orphan","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}"#;
    // A raw agent: half an answer, the other half when told.
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let half = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        loop {
            let (mut stream, _) = socket.accept().await.unwrap();
            let mut part = [0; 4096];
            let count = stream.read(&mut part).await.unwrap();
            if part[..count].starts_with(b"GET") {
                let card = agent::CARD;
                let text = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{card}",
                    card.len()
                );
                stream.write_all(text.as_bytes()).await.unwrap();
                continue;
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&body.as_bytes()[..20]).await.unwrap();
            let mut rest = rest.lock().unwrap().take().unwrap();
            rest.recv().await.unwrap();
            stream.write_all(&body.as_bytes()[20..]).await.unwrap();
        }
    });
    let gateway = Gateway::of(&[address], "", "").await;
    let request = send("1", "x");
    let leaving = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), leaving).await.is_err(),
        "the answer is not whole"
    );
    gateway.access(1).await;
    send_rest.send(()).await.unwrap();
    eventually("the task is known", || async {
        crate::harness::get(gateway.admin, "/tasks/agent/orphan").await.status == 200
    })
    .await;
    half.abort();
}

#[tokio::test]
async fn an_error_of_the_agent_passes_with_its_status() {
    let agent = Agent::start(|request| {
        let error = format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32001,"message":"Task not found"}}}}"#,
            request.id()
        );
        Reply::Whole(400, "content-type: application/json\r\n", error)
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let got = post(gateway.address, "/agent", &of_task("GetTask", "nobody")).await;
    assert_eq!((got.status, got.code()), (400, -32001));
    assert_eq!(gateway.access(1).await[0]["outcome"], "agent_error");
}
