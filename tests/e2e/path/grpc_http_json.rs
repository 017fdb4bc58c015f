//! Callers of gRPC at agents that speak HTTP+JSON alone.

use std::sync::Mutex;

use a2a_gateway::a2a::Operation::{Cancel, ExtendedCard, Get, List, PushDelete, Send, Stream};
use a2a_gateway::a2a::{Generation, Generation::V1_0};
use serde_json::json;
use tokio::sync::mpsc;

use super::grpc::{OPEN, ask, by, hello, results, start};
use super::http_json_agents::{agent, task};
use super::ownership::{ANN, BOB, yaml};
use crate::harness::Gateway;
use crate::harness::agent::{Agent, CARD_HTTP_JSON, CARD_HTTP_JSON_0_3, Reply};

#[tokio::test]
async fn calls_go_by_paths_and_answers_come_as_messages() {
    let agent = agent().await;
    let gateway = start(&agent, OPEN).await;
    for generation in Generation::SPOKEN {
        let id = || json!({"id": "t1"});
        for (operation, params, line, told) in [
            (Send, hello(), "POST /message:send", json!({"task": task("t1")})),
            (Get, id(), "GET /tasks/t1", task("t1")),
            (Cancel, id(), "POST /tasks/t1:cancel", task("t1")),
        ] {
            let rpc = ask(&gateway, generation, operation, &params).await;
            let received = agent.received().pop().expect("a call");
            assert_eq!((rpc.status(), received.line()), (0, line), "{rpc:?}");
            assert_eq!(results(&rpc, generation, operation), [told], "{line}");
            assert_eq!(rpc.headers["content-type"], "application/grpc");
            assert_eq!(received.field("a2a-version"), Some("1.0"));
            for name in ["te", "grpc-timeout", "grpc-accept-encoding"] {
                assert_eq!(received.field(name), None, "{name}");
            }
        }
    }
    let named = json!({"taskId": "t1", "id": "p1"});
    let deleted = ask(&gateway, V1_0, PushDelete, &named).await;
    assert_eq!((deleted.status(), &*deleted.body), (0, &[0; 5][..]), "an empty message");
    let card = ask(&gateway, V1_0, ExtendedCard, &json!({})).await;
    let text = String::from_utf8_lossy(&card.body).into_owned();
    assert!(
        text.contains("secret") && text.contains("gateway.example:443") && !text.contains("agent.internal"),
        "{text}"
    );
}

#[tokio::test]
async fn its_errors_are_statuses() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON_0_3, |_| {
        let kind = "content-type: application/json\r\n";
        Reply::Whole(404, kind, r#"{"message":"Task not found"}"#.to_owned())
    })
    .await;
    let gateway = start(&agent, OPEN).await;
    for generation in Generation::SPOKEN {
        let rpc = ask(&gateway, generation, Get, &json!({"id": "t1"})).await;
        let message = rpc.field("grpc-message").unwrap_or_default();
        assert!(rpc.status() == 5 && message.ends_with("Task not found"), "{rpc:?}");
        assert_eq!(agent.received().pop().expect("a call").line(), "GET /v1/tasks/t1");
    }
}

#[tokio::test]
async fn its_events_are_messages() {
    let update =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}});
    let events = [json!({"task": task("t1")}), update];
    let (sender, receiver) = mpsc::channel(events.len());
    for event in &events {
        sender.send(Some(format!("data: {event}\n\n"))).await.unwrap();
    }
    drop(sender);
    let receiver = Mutex::new(Some(receiver));
    let script = move |_: &_| Reply::Stream(receiver.lock().unwrap().take().expect("one stream"));
    let agent = Agent::over_http_json(CARD_HTTP_JSON, script).await;
    let gateway = start(&agent, OPEN).await;
    let rpc = ask(&gateway, V1_0, Stream, &hello()).await;
    assert_eq!(rpc.status(), 0, "{rpc:?}");
    assert_eq!(results(&rpc, V1_0, Stream), events);
    let received = agent.received().pop().expect("a call");
    assert_eq!(received.line(), "POST /message:stream");
    assert_eq!(received.field("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn tasks_have_owners() {
    let agent = agent().await;
    let prefixed = yaml(&[agent.address], "");
    let gateway = Gateway::start(&prefixed.replace("path: /agent", "path: /")).await;
    gateway.ready().await;
    let get = json!({"id": "t1"});
    assert_eq!(by(ANN, &gateway, V1_0, Send, &hello()).await.status(), 0);
    assert_eq!(by(ANN, &gateway, V1_0, Get, &get).await.status(), 0);
    assert_eq!(by(BOB, &gateway, V1_0, Get, &get).await.status(), 5);
    for (key, count) in [(ANN, 1), (BOB, 0)] {
        let listed = by(key, &gateway, V1_0, List, &json!({})).await;
        assert_eq!(results(&listed, V1_0, List)[0]["totalSize"], json!(count), "{listed:?}");
    }
}
