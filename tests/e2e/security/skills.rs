//! What skills demand by the card (A2A 1.0 §4.4.5): in calls however they name a skill, after a reload, and on open streams.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::agent::{Agent, CARD, Received, Reply, task_event, tasks};
use crate::harness::client::{open, read};
use crate::harness::{Answer, Gateway, KEY, KEY_HASH, call, eventually};

/// The key of the skill, in a file of its own.
fn write(folder: &Path, key: &str) {
    let mut hash = String::new();
    for byte in digest(&SHA256, key.as_bytes()).as_ref() {
        write!(hash, "{byte:02x}").unwrap();
    }
    let text = format!("keys: [ {{ id: vault, hash: \"sha256:{hash}\" }} ]");
    std::fs::write(folder.join("vault.yaml"), text).unwrap();
}

/// Whose skill `payout` demands a key beside that of the agent; its streams stay open.
async fn agent() -> Agent {
    let card = CARD.replace(
        "\"skills\":[]",
        r#""securitySchemes":{"vault":{"apiKeySecurityScheme":{"location":"header","name":"X-Vault"}}},
        "skills":[{"id":"payout","name":"P","description":"d","tags":[],"securityRequirements":[{"schemes":{"vault":{}}}]}]"#,
    );
    let (open, tasks) = (Mutex::new(Vec::new()), tasks(|| "t".to_owned()));
    Agent::with_card(&card, move |received: &Received| {
        if received.json()["method"] != "SendStreamingMessage" {
            return tasks(received);
        }
        let (events, feed) = mpsc::channel(4);
        events.try_send(Some(task_event("1", "t"))).expect("room");
        open.lock().expect("streams").push(events);
        Reply::Stream(feed)
    })
    .await
}

async fn start(folder: &Path, agent: &Agent, policy: &str) -> Gateway {
    write(folder, "one");
    let yaml = format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: tester, hash: "{KEY_HASH}" }} ] }}
  vault: {{ type: apiKey, in: header, name: X-Vault, keys_file: vault.yaml }}
security: [ {{ key: [] }} ]
agents:
  - {{ name: agent, path: /agent, policy: {{ task_owner: none, skill: skill, {policy} }}, upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }} }}
"#,
        agent.address
    );
    std::fs::write(folder.join("gateway.yaml"), yaml).unwrap();
    let gateway = Gateway::from_file(&folder.join("gateway.yaml")).await;
    gateway.ready().await;
    gateway
}

fn body(method: &str, message: &Value, of_call: &Value) -> String {
    let mut said = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] });
    for (name, value) in message.as_object().unwrap() {
        said[name] = value.clone();
    }
    let mut params = json!({ "message": said });
    for (name, value) in of_call.as_object().unwrap() {
        params[name] = value.clone();
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

async fn ask(gateway: &Gateway, vault: Option<&str>, body: &str) -> Answer {
    let mut fields = vec![("x-api-key", KEY), ("content-type", "application/json")];
    fields.extend(vault.map(|vault| ("x-vault", vault)));
    call(gateway.address, "POST", "/agent", &fields, body).await
}

fn payout(method: &str) -> String {
    body(method, &json!({ "metadata": { "skill": "payout" } }), &json!({}))
}

#[tokio::test]
async fn a_key_that_is_gone_meets_no_demand_of_a_skill() {
    let (folder, agent) = (tempfile::tempdir().unwrap(), agent().await);
    let gateway = start(folder.path(), &agent, "").await;
    let sent = payout("SendMessage");
    assert_eq!(ask(&gateway, None, &sent).await.status, 401);
    assert_eq!(ask(&gateway, Some("one"), &sent).await.status, 200);
    let fields = [
        ("x-api-key", KEY),
        ("x-vault", "one"),
        ("content-type", "application/json"),
    ];
    let stream = open(
        gateway.address,
        "POST",
        "/agent",
        &fields,
        &payout("SendStreamingMessage"),
    )
    .await;
    assert_eq!(stream.status(), 200);
    let plain = body("SendStreamingMessage", &json!({}), &json!({}));
    let goes_on = open(gateway.address, "POST", "/agent", &fields, &plain).await;
    assert_eq!(goes_on.status(), 200);
    // Only the skill asks for a key of this file.
    write(folder.path(), "two");
    assert!(gateway.reload().await);
    assert_eq!(ask(&gateway, Some("one"), &sent).await.status, 401);
    assert_eq!(ask(&gateway, Some("two"), &sent).await.status, 200);
    assert_eq!(read(stream).await, (task_event("1", "t"), false));
    let counted = "a2a_gateway_streams_revoked_total{reason=\"requirement-not-met\"}";
    eventually("one stream is ended", || async { gateway.metric(counted).await == 1.0 }).await;
    drop(goes_on);
}

/// An agent may look for the skill in either place, and one in Go reads names without case.
#[tokio::test]
async fn no_skill_is_named_so_that_its_agent_alone_finds_it() {
    let (folder, agent) = (tempfile::tempdir().unwrap(), agent().await);
    let gateway = start(folder.path(), &agent, "").await;
    let (payout, other) = (json!({ "skill": "payout" }), json!({ "skill": "other" }));
    for (what, message, of_call) in [
        (
            "two skills",
            json!({ "metadata": other }),
            json!({ "metadata": payout }),
        ),
        (
            "the other way",
            json!({ "metadata": payout }),
            json!({ "metadata": other }),
        ),
        ("a name in capitals", json!({ "Metadata": payout }), json!({})),
        ("of the call", json!({}), json!({ "METADATA": payout })),
        (
            "beside a good one",
            json!({ "metadata": other, "metaData": payout }),
            json!({}),
        ),
        (
            "a name that folds into it",
            json!({ "metadata": other }),
            json!({ "Metadata": payout }),
        ),
    ] {
        let answer = ask(&gateway, None, &body("SendMessage", &message, &of_call)).await;
        assert_eq!(answer.code(), -32602, "{what}: {}", answer.text());
    }
    assert!(agent.received().is_empty());
    let same = body(
        "SendMessage",
        &json!({ "metadata": payout }),
        &json!({ "metadata": payout }),
    );
    assert_eq!(ask(&gateway, None, &same).await.status, 401, "both say the same");
    assert_eq!(ask(&gateway, Some("one"), &same).await.status, 200);
}
