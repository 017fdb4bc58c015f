//! One agent in front of all: its card, where its calls go, what it tells whom.

mod absent;
mod calls;
mod card;
mod certificates;
mod changes;
mod choice;
mod credentials;
mod limits;
mod lists;

use crate::harness::agent::Agent;
use crate::harness::{Answer, Gateway, KEY_HASH, call};

/// Skills, and a way to pay for one.
pub const MAPS: &str = r#"{"name":"Maps","description":"d","version":"1","supportedInterfaces":[{"url":"http://agent.internal/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["image/png"],"skills":[{"id":"route","name":"Route","description":"r","tags":["maps"]},{"id":"draw","name":"Draw","description":"w","tags":[],"outputModes":["image/svg+xml"]}]}"#;
pub const WEATHER: &str = r#"{"name":"Weather","description":"d","version":"1","supportedInterfaces":[{"url":"http://weather.internal/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"north"}],"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"route","name":"Route of a storm","description":"s","tags":["storm"]}]}"#;

/// Callers: `maps` takes a key in X-API-Key (`test-key` is ann's, `other-key` bob's), `weather` takes it, too, or one in X-Weather-Key.
pub fn yaml(maps: &Agent, weather: &Agent, front: &str, maps_more: &str) -> String {
    format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  key:
    type: apiKey
    in: header
    name: X-API-Key
    keys:
      - {{ id: ann, hash: "{KEY_HASH}" }}
      - {{ id: bob, hash: "sha256:580843d03d2216ff1a275d0991bad66e4d1af871171d929e9de604b7959f9bca" }}
  other:
    type: apiKey
    in: header
    name: X-Weather-Key
    keys: [ {{ id: carl, hash: "sha256:a87116b7a618deae2d130f14db4b56bd7eb4f1c7502f95245fe1c5bfe154cd92" }} ]
agents:
  - name: maps
    path: /agents/maps
    security: [ {{ key: [] }} ]
    upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }}
    {maps_more}
  - name: weather
    path: /agents/weather
    security: [ {{ key: [] }}, {{ other: [] }} ]
    upstream: {{ endpoints: [ {{ url: "http://{}/rpc" }} ] }}
front_door: {{ {front} }}
"#,
        maps.address, weather.address
    )
}

pub const ANN: &str = "test-key";
pub const BOB: &str = "other-key";

pub async fn start(yaml: &str) -> Gateway {
    let gateway = Gateway::start(yaml).await;
    gateway.ready().await;
    gateway
}

pub async fn by(key: &str, gateway: &Gateway, body: &str) -> Answer {
    let fields = [
        ("X-API-Key", key),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    call(gateway.address, "POST", "/", &fields, body).await
}

/// A `SendMessage` with these members beside the message, and these of the message.
pub fn sends(call: &str, message: &str) -> String {
    let comma = |members: &str| {
        if members.is_empty() {
            String::new()
        } else {
            format!(",{members}")
        }
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"x-odd":1.0e2,"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"hi"}}]{}}}{}}}}}"#,
        comma(message),
        comma(call)
    )
}

/// Two agents with a card each, that make tasks of names of their own.
pub async fn two() -> (Agent, Agent) {
    (making("m", MAPS).await, making("w", WEATHER).await)
}

pub async fn making(name: &'static str, card: &str) -> Agent {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let count = AtomicUsize::new(0);
    let make = crate::harness::agent::tasks(move || format!("{name}-{}", count.fetch_add(1, Ordering::SeqCst)));
    Agent::with_card(card, make).await
}

pub fn task_of(answer: &Answer) -> String {
    let task = answer.json()["result"]["task"]["id"].as_str().map(str::to_owned);
    task.unwrap_or_else(|| panic!("no task: {}", answer.text()))
}
