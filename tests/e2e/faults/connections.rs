//! Agents that cannot be reached, or that leave.

use tokio::net::TcpListener;

use crate::harness::agent::{self, Agent, Reply};
use crate::harness::{Gateway, config_of, of_task, post, send, with_upstream};

/// An address where nobody listens.
async fn nobody() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_dead_endpoint_costs_new_work_nothing_when_another_one_lives() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let gateway = Gateway::of(&[nobody().await, agent.address], "", "").await;
    for _ in 0..20 {
        let got = post(gateway.address, "/agent", &send("1", "x")).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
    assert_eq!(agent.received().len(), 20);
}

#[tokio::test]
async fn when_nobody_listens_the_caller_may_try_again() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let address = agent.address;
    let gateway = Gateway::of(&[address], "", "").await;
    drop(agent);
    let got = post(gateway.address, "/agent", &send("5", "x")).await;
    assert!(matches!(got.status, 502), "{} {}", got.status, got.text());
    assert_eq!(got.json()["id"], 5);
    assert!(got.header("retry-after").is_some() || got.code() == -31502);
}

#[tokio::test]
async fn a_send_that_was_written_is_never_sent_again_but_a_read_is_once() {
    // Answers the first call on a connection, and hangs up on the second one after reading it.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let agent = Agent::start(move |request| {
        let first = count
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst)
            .is_multiple_of(2);
        if first {
            agent::tasks(|| "t".to_owned())(request)
        } else {
            Reply::Raw(Vec::new())
        }
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
    let got = post(gateway.address, "/agent", &send("2", "x")).await;
    assert_eq!(
        (got.status, agent.received().len()),
        (502, 2),
        "the send was seen once: {}",
        got.text()
    );
    // The next call is answered, the one after it is hung up on: a read is asked again, on another connection.
    assert_eq!(post(gateway.address, "/agent", &send("3", "x")).await.status, 200);
    let got = post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
    assert_eq!((got.status, agent.received().len()), (200, 5), "{}", got.text());
}

#[tokio::test]
async fn connections_to_an_endpoint_are_bounded() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let yaml = with_upstream(&config_of(&[agent.address], "", ""), "max_connections: 1");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let address = gateway.address;
    let first = tokio::spawn(async move { post(address, "/agent", &send("1", "x")).await });
    crate::harness::eventually("the first call is at the agent", || async {
        agent.received().len() == 1
    })
    .await;
    let got = post(address, "/agent", &send("2", "x")).await;
    assert_eq!(
        (got.status, got.code(), got.header("retry-after")),
        (503, -31503, Some("1")),
        "{}",
        got.text()
    );
    first.abort();
}

#[tokio::test]
async fn connections_that_idle_for_calls_of_another_kind_make_room() {
    let task = r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    let agent = Agent::start(move |request| {
        let (id, answer) = (request.id(), request.json()["method"] == "SendMessage");
        if answer {
            return Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{task}}}"#));
        }
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        sender
            .try_send(Some(crate::harness::agent::event(&id, task)))
            .expect("room");
        Reply::Stream(receiver)
    })
    .await;
    let yaml = with_upstream(&config_of(&[agent.address], "", ""), "max_connections: 1");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    for _ in 0..3 {
        for body in [
            send("1", "x"),
            send("1", "x").replace("SendMessage", "SendStreamingMessage"),
        ] {
            let got = post(gateway.address, "/agent", &body).await;
            assert_eq!(got.status, 200, "{}", got.text());
        }
    }
}

#[tokio::test]
async fn a_second_answer_to_one_request_is_nobodys() {
    let answer = |id: &str, task: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"id":"{task}","contextId":"c","status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#
        );
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    // The first call is answered twice, the second time for the call that comes next.
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let agent = Agent::start(move |_| {
        let reply = match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => answer("1", "own") + &answer("2", "forged"),
            _ => answer("2", "own"),
        };
        Reply::RawKept(reply.into_bytes())
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    for id in ["1", "2"] {
        let got = post(gateway.address, "/agent", &send(id, "x")).await;
        assert_eq!(
            (got.status, &got.json()["result"]["task"]["id"]),
            (200, &"own".into()),
            "{id}"
        );
    }
    assert_eq!(agent.received().len(), 2);
}

#[tokio::test]
async fn an_idle_connection_that_the_agent_closed_costs_no_call() {
    let agent = Agent::start(|_| {
        let body = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        // Closed behind an answer that does not say so.
        Reply::Raw((head + body).into_bytes())
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    for call in 1..=20 {
        let got = post(gateway.address, "/agent", &send("1", "x")).await;
        assert_eq!(got.status, 200, "{call}: {}", got.text());
    }
    assert_eq!(agent.received().len(), 20);
}
