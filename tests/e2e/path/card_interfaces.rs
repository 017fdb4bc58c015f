//! Every interface that a published card names is called, and answers.

use std::collections::BTreeSet;

use a2a_gateway::a2a::{Binding, Dialect, Generation, Generation::V0_3, Generation::V1_0, Operation, card};
use serde_json::{Value, json};

use super::{grpc_agents, http_json_agents, v0_1, v0_1_agents};
use crate::harness::agent::{Agent, CARD_0_3, CARD_HTTP_JSON_0_3, CARD_HYBRID, Reply, tasks};
use crate::harness::caller::{Caller, dialect};
use crate::harness::grpc::GrpcAgent;
use crate::harness::{Gateway, KEY, call, config_of, get};

const OPEN: &str = "policy: { task_owner: none }";
/// Where the agent is found: at a path, at the root of the gateway, at a host of its own.
const ROUTES: [(&str, &str); 3] = [("path: /agent", "/agent"), ("path: /", ""), ("host: 127.0.0.1", "")];

fn binding(name: &str) -> Binding {
    let mut all = Binding::ALL.into_iter();
    all.find(|binding| binding.as_str() == name)
        .unwrap_or_else(|| panic!("{name}"))
}

fn generation(version: &Value) -> Generation {
    card::generation(version.as_str().unwrap()).unwrap_or_else(|| panic!("{version}"))
}

/// What the card says of where its agent is.
fn interfaces(card: &Value) -> Vec<(Dialect, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{card}")).to_owned();
    let entries = |name: &str| card[name].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for entry in entries("supportedInterfaces") {
        let of = dialect(
            generation(&entry["protocolVersion"]),
            binding(&text(&entry["protocolBinding"])),
        );
        found.push((of, text(&entry["url"])));
    }
    if card.get("url").is_some() {
        let old = generation(&card["protocolVersion"]);
        found.push((
            dialect(old, binding(&text(&card["preferredTransport"]))),
            text(&card["url"]),
        ));
        for entry in entries("additionalInterfaces") {
            found.push((dialect(old, binding(&text(&entry["transport"]))), text(&entry["url"])));
        }
    }
    found
}

/// The path below the gateway, after its own name was looked at.
fn path(url: &str, binding: Binding) -> String {
    if binding == Binding::Grpc {
        assert!(["gateway.example:443", "127.0.0.1:443"].contains(&url), "{url}");
        return String::new();
    }
    let rest = url.strip_prefix("https://").unwrap_or_else(|| panic!("{url}"));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    assert!(["gateway.example", "127.0.0.1"].contains(&host), "{url}");
    format!("/{path}").trim_end_matches('/').to_owned()
}

/// Calls all that its cards name; how many dialects these are.
async fn calls_all(yaml: &str, base: &str, (operation, params): (Operation, &Value)) -> usize {
    let gateway = Gateway::start(yaml).await;
    gateway.ready().await;
    let mut called = BTreeSet::new();
    for version in [None, Some("0.3"), Some("1.0")] {
        let fields: Vec<_> = version.map(|version| ("a2a-version", version)).into_iter().collect();
        for name in ["agent-card.json", "agent.json"] {
            let place = format!("{base}/.well-known/{name}");
            let got = call(gateway.address, "GET", &place, &fields, "").await;
            // Of the one version that is not served there is none.
            if got.status != 200 {
                assert_eq!(got.status, 400, "{place}: {}", got.text());
                continue;
            }
            for (dialect, url) in interfaces(&got.json()) {
                if !called.insert(format!("{dialect:?} {url}")) {
                    continue;
                }
                let base = path(&url, dialect.binding);
                let told = Caller(dialect).at(&base, KEY, &gateway, operation, params).await;
                assert!(told.is_ok(), "{dialect:?} at {url}: {told:?}\n{yaml}");
            }
        }
    }
    assert!(!called.is_empty());
    let dialects: BTreeSet<_> = called.iter().map(|call| call.split(" http").next().unwrap()).collect();
    dialects.len()
}

async fn at_every_route(yaml: &str, spoken: &[Dialect]) {
    let get = (Operation::Get, &json!({"id": "t1"}));
    for form in ["hybrid", "by_version"] {
        for (route, base) in ROUTES {
            let yaml = yaml.replace("path: /agent", route);
            let yaml = match yaml.contains("card: { ") {
                true => yaml.replace("card: { ", &format!("card: {{ form: {form}, ")),
                false => yaml.replace(OPEN, &format!("{OPEN}\n    card: {{ form: {form} }}")),
            };
            let expected = if base.is_empty() { 6 } else { 4 };
            assert_eq!(calls_all(&yaml, base, get).await, expected, "{route}");
            if base.is_empty() || spoken[0].binding != Binding::Grpc {
                let alone = yaml.replace(OPEN, &format!("{OPEN}\n    translate: false"));
                assert_eq!(
                    calls_all(&alone, base, get).await,
                    spoken.len(),
                    "{route}, without translation"
                );
            }
        }
    }
}

#[tokio::test]
async fn of_agents_of_json_rpc() {
    let agent = Agent::start(tasks(|| "t1".to_owned())).await;
    at_every_route(
        &config_of(&[agent.address], OPEN, ""),
        &[dialect(V1_0, Binding::JsonRpc)],
    )
    .await;

    let old = |request: &crate::harness::agent::Received| {
        assert_eq!(request.json()["method"], "tasks/get");
        let task = r#"{"kind":"task","id":"t1","contextId":"c","status":{"state":"working"}}"#;
        Reply::Json(format!(r#"{{"id":{},"jsonrpc":"2.0","result":{task}}}"#, request.id()))
    };
    let agent = Agent::with_card(CARD_0_3, old).await;
    at_every_route(
        &config_of(&[agent.address], OPEN, ""),
        &[dialect(V0_3, Binding::JsonRpc)],
    )
    .await;

    let new = tasks(|| "t1".to_owned());
    let agent = Agent::with_card(CARD_HYBRID, move |request| match request.json()["method"].as_str() {
        Some("tasks/get") => old(request),
        _ => new(request),
    })
    .await;
    let both = [dialect(V1_0, Binding::JsonRpc), dialect(V0_3, Binding::JsonRpc)];
    at_every_route(&config_of(&[agent.address], OPEN, ""), &both).await;
}

#[tokio::test]
async fn of_agents_of_http_json() {
    let agent = http_json_agents::agent().await;
    at_every_route(
        &config_of(&[agent.address], OPEN, ""),
        &[dialect(V1_0, Binding::HttpJson)],
    )
    .await;

    let agent = Agent::over_http_json(CARD_HTTP_JSON_0_3, |request| {
        assert!(request.line().starts_with("GET /v1/tasks/t1"), "{}", request.head);
        Reply::Json(http_json_agents::task("t1").to_string())
    })
    .await;
    at_every_route(
        &config_of(&[agent.address], OPEN, ""),
        &[dialect(V0_3, Binding::HttpJson)],
    )
    .await;
}

#[tokio::test]
async fn of_agents_of_grpc() {
    for generation in [V0_3, V1_0] {
        let agent = GrpcAgent::start(grpc_agents::card(generation), grpc_agents::answer).await;
        let yaml = agent.config(OPEN).replace("path: /", "path: /agent");
        at_every_route(&yaml, &[dialect(generation, Binding::Grpc)]).await;
    }
}

#[tokio::test]
async fn of_agents_of_0_1() {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]});
    let params = json!({"message": message});
    for (route, base) in ROUTES {
        let agent = v0_1_agents::agent().await;
        let yaml = config_of(&[agent.address], OPEN, "").replace("path: /agent", route);
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        let card = get(gateway.address, &format!("{base}/.well-known/agent.json"))
            .await
            .json();
        assert_eq!(card.get("supportedInterfaces"), None, "the card of 0.1: {card}");
        let path = format!("{}/", path(card["url"].as_str().unwrap(), Binding::JsonRpc));
        let path = if base.is_empty() { path } else { base.to_owned() };
        let fields = [("x-api-key", KEY), ("content-type", "application/json")];
        let got = call(gateway.address, "POST", &path, &fields, &v0_1::send_to("t1", "x")).await;
        assert_eq!(
            (got.status, &got.json()["result"]["id"]),
            (200, &json!("t1")),
            "{}",
            got.text()
        );

        let mut called = BTreeSet::new();
        let card = get(gateway.address, &format!("{base}/.well-known/agent-card.json"))
            .await
            .json();
        for (dialect, url) in interfaces(&card) {
            let base = self::path(&url, dialect.binding);
            let told = Caller(dialect).at(&base, KEY, &gateway, Operation::Send, &params).await;
            assert!(told.is_ok(), "{dialect:?} at {url}: {told:?}");
            called.insert(format!("{dialect:?}"));
        }
        assert_eq!(called.len(), if base.is_empty() { 6 } else { 4 }, "{card}");
    }
}
