//! Callers of every dialect at the front door of agents of every generation.

use a2a_gateway::a2a::Operation;
use serde_json::{Value, json};

use super::{making, start, yaml};
use crate::harness::agent::{Agent, CARD_0_3, CARD_HTTP_JSON, Reply};
use crate::harness::caller::{CALLERS, Caller};
use crate::harness::tasks::Tasks;
use crate::harness::{OPEN, call};

fn message(agent: &str) -> Value {
    json!({ "message": {
        "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }],
        "metadata": { "urn:a2a-gateway:extension:agent:v1": agent },
    } })
}

/// A task that is made, told of and cancelled, in 0.3.
fn of_0_3(request: &crate::harness::agent::Received) -> Reply {
    let call = request.json();
    let state = match call["method"].as_str().unwrap() {
        "tasks/cancel" => "canceled",
        _ => "working",
    };
    Reply::Json(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"kind":"task","id":"old-0","contextId":"c","status":{{"state":"{state}"}}}}}}"#,
        call["id"]
    ))
}

#[tokio::test]
async fn every_caller_is_served_by_every_agent() {
    let old = Agent::with_card(CARD_0_3, of_0_3).await;
    let young = making("young", super::WEATHER).await;
    let gateway = start(&yaml(&old, &young, "", "")).await;
    for dialect in CALLERS {
        let caller = Caller(dialect);
        for (agent, prefix) in [("maps", "old-"), ("weather", "young-")] {
            let sent = caller.ask(&gateway, Operation::Send, &message(agent)).await;
            let sent = sent.unwrap_or_else(|code| panic!("{dialect:?} to {agent}: {code}"));
            let task = sent[0]["task"]["id"].as_str().unwrap().to_owned();
            assert!(task.starts_with(prefix), "{dialect:?} to {agent}: {task}");
            for operation in [Operation::Get, Operation::Cancel] {
                let got = caller.ask(&gateway, operation, &json!({ "id": task })).await;
                let got = got.unwrap_or_else(|code| panic!("{dialect:?} of {agent}, {operation:?}: {code}"));
                assert_eq!(got[0]["id"], *task, "{dialect:?} of {agent}");
            }
        }
        let nameless = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] } });
        let unclear = caller.ask(&gateway, Operation::Send, &nameless).await;
        assert_eq!(unclear, Err(-32602), "{dialect:?}");
    }
}

#[tokio::test]
async fn lists_and_cards_are_told_in_every_dialect() {
    let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(super::WEATHER, Tasks::default().script("w")).await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let sent = Caller(CALLERS[1])
        .ask(&gateway, Operation::Send, &message("maps"))
        .await;
    assert_eq!(sent.unwrap()[0]["task"]["id"], "m0");
    for dialect in CALLERS {
        let card = Caller(dialect).ask(&gateway, Operation::ExtendedCard, &json!({})).await;
        let card = card.unwrap_or_else(|code| panic!("{dialect:?}: {code}"));
        let text = card[0].to_string();
        assert!(
            text.contains("maps/route") && text.contains("weather/route"),
            "{dialect:?}: {text}"
        );
        if dialect.generation == a2a_gateway::a2a::Generation::V1_0 {
            let listed = Caller(dialect).ask(&gateway, Operation::List, &json!({})).await;
            let listed = listed.unwrap_or_else(|code| panic!("{dialect:?}: {code}"));
            assert_eq!(listed[0]["tasks"][0]["id"], "m0", "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn streams_pass_as_they_come() {
    let maps = Agent::with_card(super::MAPS, |request| {
        let (events, stream) = tokio::sync::mpsc::channel(4);
        let id = request.id();
        tokio::spawn(async move {
            let first = crate::harness::agent::task_event(&id, "s-0");
            let _gone = events.send(Some(first.replace('\r', ""))).await;
            let last =
                r#"{"statusUpdate":{"taskId":"s-0","contextId":"ctx-s-0","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
            let last = crate::harness::agent::event(&id, last).replace('\r', "");
            let _gone = events.send(Some(last)).await;
        });
        Reply::Stream(stream)
    })
    .await;
    let weather = making("w", super::WEATHER).await;
    let gateway = start(&yaml(&maps, &weather, "default: maps", "")).await;
    for dialect in CALLERS {
        let events = Caller(dialect).ask(&gateway, Operation::Stream, &message("maps")).await;
        let events = events.unwrap_or_else(|code| panic!("{dialect:?}: {code}"));
        assert_eq!(events.len(), 2, "{dialect:?}");
        let resumed = Caller(dialect)
            .ask(&gateway, Operation::Subscribe, &json!({ "id": "s-0" }))
            .await;
        assert!(resumed.is_ok(), "{dialect:?}: {resumed:?}");
    }
}

#[tokio::test]
async fn open_agents_have_an_open_front_door() {
    let rest = Agent::over_http_json(CARD_HTTP_JSON, |_| {
        Reply::Json(r#"{"task":{"id":"h-0","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#.to_owned())
    })
    .await;
    let top = "front_door: { path: /all }";
    let yaml =
        crate::harness::config_of(&[rest.address], OPEN, top).replace("security: [ { key: [] } ]", "security: []");
    let gateway = start(&yaml).await;
    let card = crate::harness::get(gateway.address, "/all/.well-known/agent-card.json")
        .await
        .json();
    assert!(
        card.get("security").is_none() && card.get("securityRequirements").is_none(),
        "{card}"
    );
    assert_eq!(card["capabilities"]["extendedAgentCard"], false);
    // One agent alone is meant, whatever is said.
    let fields = [("content-type", "application/json"), ("A2A-Version", "1.0")];
    let body = super::sends("", "");
    let answer = call(gateway.address, "POST", "/all", &fields, &body).await;
    assert_eq!(answer.json()["result"]["task"]["id"], "h-0", "{}", answer.text());
    let refused = r#"{"jsonrpc":"2.0","id":"e","method":"GetExtendedAgentCard","params":{}}"#;
    let answer = call(gateway.address, "POST", "/all", &fields, refused).await;
    assert_eq!(answer.code(), -32007);
}

/// Callers of 0.1 name their tasks themselves, each owner apart.
#[tokio::test]
async fn callers_of_0_1_find_their_tasks_by_the_names_that_they_gave() {
    let (maps, weather) = super::two().await;
    let yaml = yaml(&maps, &weather, "default: maps, metadata_key: agent", "v0_1: true").replace(
        "    path: /agents/weather\n",
        "    path: /agents/weather\n    v0_1: true\n",
    );
    let gateway = start(&yaml).await;
    let card = crate::harness::get(gateway.address, "/.well-known/agent.json")
        .await
        .json();
    assert_eq!(card["url"], "https://gateway.example/", "{card}");
    assert!(card.get("supportedInterfaces").is_none() && card.get("protocolVersion").is_none());
    assert_eq!(card["authentication"]["schemes"], json!(["ApiKey"]));
    let asks = |key: &'static str, method: &str, params: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let address = gateway.address;
        async move {
            let fields = [("X-API-Key", key), ("content-type", "application/json")];
            call(address, "POST", "/", &fields, &body).await
        }
    };
    let send = |id: &str, more: &str| {
        format!(r#"{{"id":"{id}","message":{{"role":"user","parts":[{{"type":"text","text":"hi"}}]{more}}}}}"#)
    };
    let at = r#","metadata":{"agent":"weather"}"#;
    for (id, more, asked) in [("one", "", &maps), ("two", at, &weather)] {
        let sent = asks(super::ANN, "tasks/send", &send(id, more)).await;
        assert_eq!(sent.json()["result"]["id"], id, "{}", sent.text());
        let before = asked.received().len();
        let got = asks(super::ANN, "tasks/get", &format!(r#"{{"id":"{id}"}}"#)).await;
        assert_eq!(got.json()["result"]["id"], id, "{}", got.text());
        assert_eq!(asked.received().len(), before + 1);
    }
    assert_eq!((maps.received().len(), weather.received().len()), (2, 2));
    // Bob has no such task, wherever he is sent.
    let theirs = asks(super::BOB, "tasks/get", r#"{"id":"two"}"#).await;
    let nobodys = asks(super::BOB, "tasks/get", r#"{"id":"nobodys"}"#).await;
    assert_eq!(theirs.code(), -32001, "{}", theirs.text());
    assert_eq!(theirs.body, nobodys.body);
}
