//! Messages of the envelope protocol: routed by their recipient, answered in their own form, and translated for A2A agents.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::ownership::{ANN, BOB, yaml};
use crate::harness::agent::{Agent, CARD, CARD_0_3, CARD_HTTP_JSON, Received, Reply};
use crate::harness::client::call_http2;
use crate::harness::{Answer, Gateway, call};

/// Ann is the pilot, Bob the tug, and both may be a guest.
pub const SENDERS: &str = r#"senders: [
    { agent_id: agent_pilot, callers: [ "key:ann" ] },
    { agent_id: agent_tug, callers: [ "tenant=other" ] },
    { agent_id: "guest_*", callers: [ "key:ann", "key:bob" ] } ]"#;

/// An A2A agent `agent_harbour`, and one that speaks the protocol itself: `agent_yard`.
pub async fn gateway(harbour: &[SocketAddr], yard: &[SocketAddr], settings: &str) -> Gateway {
    let gateway = Gateway::start(&config(harbour, yard, settings)).await;
    gateway.ready().await;
    gateway
}

pub fn config(harbour: &[SocketAddr], yard: &[SocketAddr], settings: &str) -> String {
    let mut more = "envelope: { agent_id: agent_harbour }".to_owned();
    if !yard.is_empty() {
        let yard: Vec<_> = yard
            .iter()
            .map(|address| format!("{{ url: \"http://{address}/inbox\" }}"))
            .collect();
        more += &format!(
            "\n  - name: yard\n    envelope: {{ agent_id: agent_yard }}\n    upstream: {{ protocol: {{ binding: envelope }}, endpoints: [ {} ] }}",
            yard.join(", ")
        );
    }
    format!("{}envelope: {{ {SENDERS}, {settings} }}\n", yaml(harbour, &more))
}

pub fn message(id: &str, from: &str, to: &str, message_type: &str, content: Value) -> Value {
    json!({
        "message_id": id,
        "timestamp": "2026-11-21T04:00:00Z",
        "sender": {"agent_id": from, "agent_type": "assistant"},
        "recipient": {"agent_id": to, "agent_type": "expert"},
        "message_type": message_type,
        "content": content,
    })
}

pub fn delegation(id: &str) -> Value {
    let content = json!({"task_id": "task-77", "description": "Find a berth", "parameters": {"loa": 120}});
    message(id, "agent_pilot", "agent_harbour", "task_delegation", content)
}

pub async fn say(gateway: &Gateway, key: &str, message: &Value) -> Answer {
    say_bytes(gateway, key, &message.to_string()).await
}

async fn say_bytes(gateway: &Gateway, key: &str, body: &str) -> Answer {
    let fields = [("X-API-Key", key), ("content-type", "application/json")];
    call(gateway.address, "POST", "/envelope", &fields, body).await
}

/// The gateway's own refusal of a message.
#[track_caller]
pub fn refused(answer: &Answer, status: u16, code: &str) {
    let said = answer.json();
    assert_eq!(
        (answer.status, &said["message_type"], &said["content"]["error_code"]),
        (status, &json!("error"), &json!(code)),
        "{said}"
    );
    assert_eq!(said["sender"]["agent_id"], "a2a-gateway", "{said}");
    assert!(
        said["message_id"].is_string() && said["timestamp"].is_string(),
        "{said}"
    );
}

/// An agent of the protocol: it answers every message.
pub async fn yard() -> Agent {
    Agent::start(responds).await
}

pub fn responds(received: &Received) -> Reply {
    Reply::Json(answer(received))
}

pub fn answer(received: &Received) -> String {
    let asked = received.json();
    let mut said = message(
        "answer",
        "agent_yard",
        "agent_pilot",
        "response",
        json!({"in_response_to": asked["message_id"], "status": "success", "data": {}}),
    );
    said["session_id"] = asked["session_id"].clone();
    // Not as a writer of the gateway's would have it.
    format!(" {said:#}\n")
}

/// Completes what it is sent, in the dialect of its card.
async fn harbour(card: &'static str) -> Agent {
    let done = move |received: &Received| {
        let asked = received.json();
        Reply::Json(match card {
            CARD_0_3 => format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"kind":"task","id":"t1","contextId":"c1","status":{{"state":"completed"}}}}}}"#,
                asked["id"]
            ),
            CARD_HTTP_JSON => {
                r#"{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}"#.to_owned()
            }
            _ => format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"task":{{"id":"t1","contextId":"c1","status":{{"state":"TASK_STATE_COMPLETED"}}}}}}}}"#,
                asked["id"]
            ),
        })
    };
    if card == CARD_HTTP_JSON {
        Agent::over_http_json(card, done).await
    } else {
        Agent::with_card(card, done).await
    }
}

#[tokio::test]
async fn a_delegated_task_reaches_an_a2a_agent_in_its_own_dialect() {
    for (card, at) in [
        (CARD, "/params/message"),
        (CARD_0_3, "/params/message"),
        (CARD_HTTP_JSON, "/message"),
    ] {
        let agent = harbour(card).await;
        let gateway = gateway(&[agent.address], &[], "").await;
        let answer = say(&gateway, ANN, &delegation("m1")).await;
        let said = answer.json();
        assert_eq!(
            (answer.status, &said["message_type"]),
            (200, &json!("response")),
            "{said}"
        );
        assert_eq!(
            said["content"],
            json!({"in_response_to": "m1", "status": "success", "data": {"task_id": "task-77",
                "task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}}})
        );
        assert_eq!(
            (&said["sender"], &said["recipient"]),
            (
                &json!({"agent_id": "agent_harbour", "agent_type": "expert"}),
                &json!({"agent_id": "agent_pilot", "agent_type": "assistant"})
            )
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let [received] = &agent.received()[..] else {
            panic!("one call");
        };
        let sent = received.json();
        let sent = sent.pointer(at).expect("a message");
        assert_eq!(sent["messageId"], "m1", "{sent}");
        assert_eq!(sent["parts"][0]["text"], "Find a berth", "{sent}");
        assert_eq!(sent["parts"][1]["data"]["parameters"]["loa"], 120, "{sent}");
        assert_eq!(received.field("x-api-key"), None, "credentials end at the gateway");
        // The task is Ann's, by whichever way she asks for it.
        let get = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}"#;
        assert_eq!(super::ownership::by(BOB, &gateway, get).await.code(), -32001);
        assert_eq!(agent.received().len(), 1, "nothing was asked for Bob");
        let records = gateway.access(1).await;
        let of_message = records
            .iter()
            .find(|record| record["operation"] == "send")
            .expect("a record");
        assert_eq!(
            (&of_message["agent"], &of_message["principal"], &of_message["task"]),
            (&json!("agent"), &json!("key:ann"), &json!("t1"))
        );
    }
}

#[tokio::test]
async fn an_agents_error_and_its_task_that_goes_on_are_told() {
    let agent = Agent::start(|received| {
        let asked = received.json();
        let id = &asked["id"];
        Reply::Json(if asked["params"]["message"]["messageId"] == "m1" {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32004,"message":"not today"}}}}"#)
        } else {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"id":"t","contextId":"c","status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#
            )
        })
    })
    .await;
    let gateway = gateway(&[agent.address], &[], "").await;
    let failed = say(&gateway, ANN, &delegation("m1")).await.json();
    assert_eq!(failed["sender"]["agent_id"], "agent_harbour", "{failed}");
    assert_eq!(
        failed["content"],
        json!({"in_response_to": "m1", "error_code": "unsupported_operation", "error_message": "not today", "severity": "error"})
    );
    let begun = say(&gateway, ANN, &delegation("m2")).await.json();
    assert_eq!(begun["content"]["status"], "in_progress", "{begun}");
}

#[tokio::test]
async fn messages_are_routed_by_their_recipient_and_pass_untouched() {
    let (harbour, yard) = (harbour(CARD).await, yard().await);
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    for (number, message_type) in [
        "request",
        "response",
        "notification",
        "error",
        "x-tide_watch",
        "task_delegation",
    ]
    .into_iter()
    .enumerate()
    {
        let mut said = message(
            &format!("m{number}"),
            "agent_pilot",
            "agent_yard",
            message_type,
            json!({"x_odd": 1.50, "in_response_to": "m0"}),
        );
        said["x_more"] = json!([1]);
        let body = format!("\n{said:#}  ");
        let answer = say_bytes(&gateway, ANN, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(
            answer.text().starts_with(" {\n"),
            "as it was answered: {}",
            answer.text()
        );
        let received = yard.received().pop().expect("a message");
        assert_eq!(received.body, body.as_bytes(), "{message_type}");
        assert_eq!(received.line(), "POST /inbox");
        assert_eq!(received.field("x-api-key"), None);
    }
    let over_http2 = message("h2", "agent_pilot", "agent_yard", "request", json!({})).to_string();
    let fields = [("x-api-key", ANN), ("content-type", "application/json")];
    let answer = call_http2(gateway.address, "POST", "/envelope", &fields, &over_http2).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(yard.received().pop().expect("a message").body, over_http2.as_bytes());
    assert_eq!(harbour.received().len(), 0, "nobody else got one");
    let nowhere = message("m9", "agent_pilot", "agent_nobody", "request", json!({}));
    refused(&say(&gateway, ANN, &nowhere).await, 404, "no_route");
    assert!(gateway.metric("a2a_gateway_envelope_messages_total{type=\"x\"}").await >= 1.0);
}

#[tokio::test]
async fn an_a2a_agent_takes_tasks_and_sessions_alone() {
    let agent = harbour(CARD).await;
    let gateway = gateway(&[agent.address], &[], "").await;
    let control = |action: &str| json!({"action": action});
    for (number, (message_type, content)) in [
        ("request", json!({})),
        ("response", json!({"in_response_to": "m"})),
        ("notification", json!({})),
        ("error", json!({})),
        ("x-tide_watch", json!({})),
        ("session_control", control("set_encryption")),
        ("session_control", control("dance")),
        ("session_control", json!("sealed")),
    ]
    .into_iter()
    .enumerate()
    {
        let said = message(
            &format!("m{number}"),
            "agent_pilot",
            "agent_harbour",
            message_type,
            content,
        );
        refused(&say(&gateway, ANN, &said).await, 200, "unsupported_operation");
    }
    let opaque = message(
        "m20",
        "agent_pilot",
        "agent_harbour",
        "task_delegation",
        json!("sealed"),
    );
    refused(&say(&gateway, ANN, &opaque).await, 200, "invalid_request");
    assert_eq!(agent.received().len(), 0);
}

#[tokio::test]
async fn a_version_is_negotiated_by_whoever_speaks_the_protocol() {
    let (harbour, yard) = (harbour(CARD).await, yard().await);
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    let offer = |id: &str, to: &str, versions: Value| {
        let content = json!({"action": "negotiate_version", "supported_versions": versions});
        message(id, "agent_pilot", to, "session_control", content)
    };
    let answer = say(&gateway, ANN, &offer("m1", "agent_harbour", json!(["1.1.0", "1.0.0"]))).await;
    assert_eq!(
        answer.json()["content"],
        json!({"in_response_to": "m1", "status": "success",
            "data": {"selected_version": "1.0.0", "supported_versions": ["1.0.0"]}})
    );
    let newer = say(&gateway, ANN, &offer("m2", "agent_harbour", json!(["2.0.0"]))).await;
    refused(&newer, 200, "version_not_supported");
    assert_eq!((harbour.received().len(), yard.received().len()), (0, 0));
    assert_eq!(
        say(&gateway, ANN, &offer("m3", "agent_yard", json!(["2.0.0"])))
            .await
            .status,
        200
    );
    assert_eq!(yard.received().len(), 1, "its own affair");
}

#[tokio::test]
async fn a_message_comes_once() {
    let yard = yard().await;
    let harbour = harbour(CARD).await;
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    let from = |sender: &str| message("same", sender, "agent_yard", "request", json!({}));
    assert_eq!(say(&gateway, ANN, &from("agent_pilot")).await.status, 200);
    refused(
        &say(&gateway, ANN, &from("agent_pilot")).await,
        200,
        "message_duplicate",
    );
    refused(&say(&gateway, ANN, &delegation("same")).await, 200, "message_duplicate");
    assert_eq!(
        say(&gateway, BOB, &from("agent_tug")).await.status,
        200,
        "Bob's is another"
    );
    assert_eq!(yard.received().len(), 2);
    assert_eq!(harbour.received().len(), 0);
    assert!(
        gateway
            .metric("a2a_gateway_rejects_total{fault=\"downstream\",reason=\"message_duplicate\"}")
            .await
            >= 2.0
    );
}

#[tokio::test]
async fn what_reached_nobody_may_come_again() {
    let harbour = harbour(CARD).await;
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = dead.local_addr().expect("an address");
    drop(dead);
    let gateway = gateway(&[harbour.address], &[address], "").await;
    let said = message("m1", "agent_pilot", "agent_yard", "request", json!({}));
    refused(&say(&gateway, ANN, &said).await, 502, "upstream_connect");
    refused(&say(&gateway, ANN, &said).await, 502, "upstream_connect");
}

#[tokio::test]
async fn nobody_sends_in_the_name_of_another() {
    let yard = yard().await;
    let harbour = harbour(CARD).await;
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    for (key, sender, allowed) in [
        (ANN, "agent_pilot", true),
        (BOB, "agent_pilot", false),
        (BOB, "agent_tug", true),
        (ANN, "agent_tug", false),
        (ANN, "guest_1", true),
        (BOB, "guest_1", true),
        (ANN, "key:ann", true),
        (ANN, "key:bob", false),
        (ANN, "agent_yard", false),
        (ANN, "a2a-gateway", false),
    ] {
        let before = yard.received().len();
        let said = message(&format!("{key}-{sender}"), sender, "agent_yard", "request", json!({}));
        let answer = say(&gateway, key, &said).await;
        if allowed {
            assert_eq!(answer.status, 200, "{key} as {sender}: {}", answer.text());
        } else {
            refused(&answer, 403, "sender_foreign");
        }
        assert_eq!(yard.received().len(), before + usize::from(allowed));
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused_in_the_form_of_the_protocol() {
    let harbour = harbour(CARD).await;
    let gateway = gateway(&[harbour.address], &[], "").await;
    let good = delegation("m1").to_string();
    let twice = good.replace("\"sender\"", "\"recipient\":{\"agent_id\":\"agent_yard\"},\"sender\"");
    let nested = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (body, code) in [
        ("", "parse_error"),
        ("{", "parse_error"),
        (twice.as_str(), "parse_error"),
        (nested.as_str(), "parse_error"),
        ("[]", "invalid_request"),
        ("{}", "invalid_request"),
        (&good.replace("task_delegation", "dance"), "invalid_request"),
        (&good.replace("recipient", "Recipient"), "invalid_request"),
        (&good.replace("\"timestamp\"", "\"jsonrpc\""), "invalid_request"),
        (&good.replace("m1", &"m".repeat(257)), "invalid_request"),
    ] {
        refused(&say_bytes(&gateway, ANN, body).await, 200, code);
    }
    let unreadable = say_bytes(&gateway, ANN, &good.replace("task_delegation", "dance")).await;
    assert_eq!(
        unreadable.json()["content"]["in_response_to"],
        "m1",
        "as far as it could be read"
    );
    let text = [("X-API-Key", ANN), ("content-type", "text/plain")];
    let answer = call(gateway.address, "POST", "/envelope", &text, &good).await;
    refused(&answer, 415, "unsupported_media_type");
    let fetched = call(gateway.address, "GET", "/envelope", &[("X-API-Key", ANN)], "").await;
    assert_eq!((fetched.status, fetched.header("allow")), (405, Some("POST")));
    let large = good.replace("Find a berth", &"x".repeat(4 * 1024 * 1024));
    refused(&say_bytes(&gateway, ANN, &large).await, 413, "body_too_large");
    assert_eq!(harbour.received().len(), 0);
}

#[tokio::test]
async fn an_answer_that_is_none_is_the_agents_fault() {
    let harbour = harbour(CARD).await;
    let yard = Agent::start(|received| match received.json()["message_id"].as_str() {
        Some("html") => Reply::Whole(200, "content-type: text/html\r\n", "<html>".to_owned()),
        Some("other") => {
            let content = json!({"in_response_to": "another", "status": "success"});
            Reply::Json(message("a", "agent_yard", "agent_pilot", "response", content).to_string())
        }
        Some("refused") => Reply::Whole(401, "", String::new()),
        Some("error") => {
            let content =
                json!({"in_response_to": "error", "error_code": "x", "error_message": "no", "severity": "info"});
            Reply::Whole(
                400,
                "",
                message("a", "agent_yard", "agent_pilot", "error", content).to_string(),
            )
        }
        Some("empty") => Reply::Whole(204, "", String::new()),
        _ => Reply::Whole(500, "", String::new()),
    })
    .await;
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    let ask = |id: &'static str| {
        let said = message(id, "agent_pilot", "agent_yard", "request", json!({}));
        let gateway = &gateway;
        async move { say(gateway, ANN, &said).await }
    };
    refused(&ask("html").await, 502, "upstream_bad_answer");
    refused(&ask("other").await, 502, "upstream_bad_answer");
    refused(&ask("broken").await, 502, "upstream_bad_answer");
    refused(&ask("refused").await, 502, "upstream_refused");
    let error = ask("error").await;
    assert_eq!(
        (error.status, &error.json()["content"]["error_code"]),
        (200, &json!("x"))
    );
    let taken = ask("empty").await;
    assert_eq!((taken.status, taken.text().as_str()), (202, ""));
    refused(&ask("html").await, 200, "message_duplicate");
}

#[tokio::test]
async fn what_an_agent_refuses_does_not_count_against_it() {
    let harbour = harbour(CARD).await;
    let refuses = |received: &Received| match received.json()["message_type"].as_str() {
        Some("request") => Reply::Whole(404, "content-type: text/plain\r\n", "no such".to_owned()),
        _ => responds(received),
    };
    let yards = [Agent::start(refuses).await, Agent::start(refuses).await];
    let yaml = config(&[harbour.address], &yards.each_ref().map(|yard| yard.address), "").replace(
        "binding: envelope }, ",
        "binding: envelope }, balance: round_robin, ejection: { consecutive_failures: 2 }, ",
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    for round in 0..4 {
        // Both callers at both endpoints.
        for (number, key) in [ANN, ANN, BOB, BOB].into_iter().enumerate() {
            let id = format!("m{round}-{number}");
            let said = message(&id, "guest_1", "agent_yard", "request", json!({}));
            refused(&say(&gateway, key, &said).await, 502, "upstream_bad_answer");
        }
    }
    assert_eq!(gateway.metric("a2a_gateway_endpoint_ejections_total").await, 0.0);
    assert!(yards.iter().all(|yard| yard.received().len() == 8), "both are at work");
}

#[tokio::test]
async fn the_agents_own_requirement_holds_too() {
    let (harbour, yard) = (harbour(CARD).await, yard().await);
    const OWN: &str = "security: [ { key: [ work ] } ]";
    let yaml = config(&[harbour.address], &[yard.address], "")
        .replace("{ id: ann,", "{ id: ann, scopes: [ work ],")
        .replace("- name: yard\n", &format!("- name: yard\n    {OWN}\n"))
        .replace("- name: agent\n", &format!("- name: agent\n    {OWN}\n"));
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    for to in ["agent_harbour", "agent_yard"] {
        let from = |sender: &str| message(to, sender, to, "task_delegation", json!({"description": "d"}));
        refused(&say(&gateway, BOB, &from("agent_tug")).await, 403, "forbidden");
        let answer = say(&gateway, ANN, &from("agent_pilot")).await;
        assert_eq!(answer.json()["message_type"], "response", "{}", answer.text());
    }
    assert_eq!((harbour.received().len(), yard.received().len()), (1, 1));
}

#[tokio::test]
async fn the_agents_rate_limits_hold() {
    let (harbour, yard) = (harbour(CARD).await, yard().await);
    let limit = "limits: [ { per: principal, rate: 1/h } ]";
    let yaml = config(&[harbour.address], &[yard.address], "")
        .replace("- name: yard\n", &format!("- name: yard\n    {limit}\n"))
        .replace(
            "envelope: { agent_id: agent_harbour }",
            &format!("envelope: {{ agent_id: agent_harbour }}\n    {limit}"),
        );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let request = |id: &str| message(id, "agent_pilot", "agent_yard", "request", json!({}));
    assert_eq!(say(&gateway, ANN, &request("m1")).await.status, 200);
    refused(&say(&gateway, ANN, &request("m2")).await, 429, "rate_limited");
    assert_eq!(say(&gateway, ANN, &delegation("m3")).await.status, 200);
    refused(&say(&gateway, ANN, &delegation("m4")).await, 429, "rate_limited");
    for (id, action) in [("m5", "create"), ("m6", "negotiate_version")] {
        let content = json!({"action": action, "supported_versions": ["1.0.0"]});
        let mut said = message(id, "agent_pilot", "agent_harbour", "session_control", content);
        if action == "create" {
            said["session_id"] = "s".into();
        }
        refused(&say(&gateway, ANN, &said).await, 429, "rate_limited");
    }
    assert_eq!((harbour.received().len(), yard.received().len()), (1, 1));
}

#[tokio::test]
async fn the_general_rate_limits_hold_for_the_path() {
    let harbour = harbour(CARD).await;
    let yaml = config(&[harbour.address], &[], "");
    let gateway = Gateway::start(&format!("{yaml}rate_limits: [ {{ per: principal, rate: 2/h }} ]\n")).await;
    gateway.ready().await;
    let offer = |id: &str| {
        let content = json!({"action": "negotiate_version", "supported_versions": ["1.0.0"]});
        message(id, "guest_1", "agent_harbour", "session_control", content)
    };
    for id in ["m1", "m2"] {
        assert_eq!(say(&gateway, ANN, &offer(id)).await.status, 200);
    }
    refused(&say(&gateway, ANN, &offer("m3")).await, 429, "rate_limited");
    assert_eq!(say(&gateway, BOB, &offer("m1")).await.status, 200, "Bob has his own");
}

#[tokio::test]
async fn a_message_is_as_large_as_its_recipient_takes() {
    let (harbour, yard) = (harbour(CARD).await, yard().await);
    let yaml = config(&[harbour.address], &[yard.address], "")
        .replace("- name: yard\n", "- name: yard\n    body_bytes: 4KiB\n");
    let gateway = Gateway::start(&format!("{yaml}limits: {{ body_bytes: 1KiB }}\n")).await;
    gateway.ready().await;
    let of = |id: &str, to: &str, length: usize| {
        let bare = message(id, "agent_pilot", to, "task_delegation", json!({"description": ""}));
        let description = "x".repeat(length - bare.to_string().len());
        let said = message(
            id,
            "agent_pilot",
            to,
            "task_delegation",
            json!({"description": description}),
        );
        assert_eq!(said.to_string().len(), length);
        said
    };
    for (id, to, length, status) in [
        ("m0", "agent_harbour", 1024, 200),
        ("m1", "agent_harbour", 1025, 413),
        ("m2", "agent_yard", 1025, 200),
        ("m3", "agent_yard", 4096, 200),
        ("m4", "agent_yard", 4097, 413),
    ] {
        let answer = say(&gateway, ANN, &of(id, to, length)).await;
        assert_eq!(answer.status, status, "{length} to {to}: {}", answer.text());
    }
    assert_eq!((harbour.received().len(), yard.received().len()), (1, 2));
}

#[tokio::test]
async fn an_agent_of_the_protocol_is_no_agent_of_a2a_and_without_the_section_there_is_no_path() {
    let (harbour, yard) = (harbour(CARD).await, yard().await);
    let gateway = gateway(&[harbour.address], &[yard.address], "path: /letters").await;
    let at = |path: &'static str| {
        let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
        let body = message("m1", "agent_pilot", "agent_yard", "request", json!({})).to_string();
        let address = gateway.address;
        async move { call(address, "POST", path, &fields, &body).await.status }
    };
    assert_eq!(at("/envelope").await, 404);
    assert_eq!(at("/letters/").await, 404);
    assert_eq!(at("/yard").await, 404);
    assert_eq!(at("/letters").await, 200);
    let agents = &crate::harness::get(gateway.admin, "/ready").await.json()["agents"];
    assert_eq!(agents["yard"], json!({"ready": true}));
}

#[tokio::test]
async fn recorded_messages_are_answered() {
    let yard = Agent::start(|received| {
        let asked = received.json();
        let content = json!({"in_response_to": asked["message_id"], "status": "success", "data": {}});
        Reply::Json(message("a", "agent_harbour", "agent_pilot", "response", content).to_string())
    })
    .await;
    let harbour = harbour(CARD).await;
    let read = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/corpus/envelope-001/{name}.json"));
        std::fs::read_to_string(file).expect("a recording")
    };
    for speaks in [false, true] {
        let mut yaml = config(&[harbour.address], &[yard.address], "");
        if speaks {
            yaml = yaml
                .replace("agent_harbour", "agent_other")
                .replace("agent_yard", "agent_harbour");
        }
        // The pilot is a caller here; the harbour's own messages are for nobody that is configured.
        let yaml = yaml.replace("agent_id: agent_tug", "agent_id: agent_harbour");
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        for (name, key, to_a2a, to_speaker) in [
            ("session-create", ANN, "response", "response"),
            ("request", ANN, "unsupported_operation", "response"),
            ("extension-type", ANN, "unsupported_operation", "response"),
            ("session-negotiate-version", ANN, "response", "response"),
            ("session-set-encryption", ANN, "unsupported_operation", "response"),
            ("task-delegation", ANN, "response", "response"),
            ("notification", BOB, "no_route", "no_route"),
            ("response", BOB, "no_route", "no_route"),
            ("error", BOB, "no_route", "no_route"),
            ("session-terminate", ANN, "response", "response"),
            ("authentication-no-session", ANN, "unauthenticated", "unauthenticated"),
        ] {
            let body = read(name);
            let before = yard.received().len();
            let said = say_bytes(&gateway, key, &body).await.json();
            let expected = if speaks { to_speaker } else { to_a2a };
            let told = match said["content"]["error_code"].as_str() {
                Some(code) => code,
                None => said["message_type"].as_str().unwrap_or_default(),
            };
            assert_eq!(told, expected, "{name}, speaks {speaks}: {said}");
            if speaks && expected == "response" {
                assert_eq!(yard.received().last().expect("it").body, body.as_bytes(), "{name}");
            } else {
                assert_eq!(yard.received().len(), before, "{name}");
            }
        }
    }
}
