//! Page tokens of gathered lists hold for one caller, one question and a time, and for nobody else.

use super::list::{list, page};
use crate::harness::agent::Agent;
use crate::harness::tasks::{Tasks, task};
use crate::harness::{Answer, Gateway, KEY_HASH, OPEN, call, config_of, eventually, post};

const SHARED: &str = "page_tokens: { keys: [ { value: 0123456789abcdef0123456789abcdef } ] }";
const OTHER_KEY: &str = "other-key";
const OTHER_HASH: &str = "sha256:580843d03d2216ff1a275d0991bad66e4d1af871171d929e9de604b7959f9bca";

async fn agents() -> (Agent, Agent) {
    let tasks = |name: &str| Tasks::of((0..5).map(|number| task(&format!("{name}{number}"), None)));
    (
        Agent::start(tasks("a").script("a")).await,
        Agent::start(tasks("b").script("b")).await,
    )
}

/// With a second caller, and a second agent that is the same.
async fn gateway(agents: &(Agent, Agent), top: &str) -> Gateway {
    let yaml = config_of(&[agents.0.address, agents.1.address], OPEN, "");
    let second = format!("{{ id: other, hash: \"{OTHER_HASH}\" }} ] }}");
    let yaml = yaml.replace(
        &format!("\"{KEY_HASH}\" }} ] }}"),
        &format!("\"{KEY_HASH}\" }}, {second}"),
    );
    let (_, agent) = yaml.split_once("agents:\n").unwrap();
    let twin = agent.replace("name: agent", "name: twin").replace("/agent", "/twin");
    let gateway = Gateway::start(&format!("{yaml}{twin}\n{top}\n")).await;
    gateway.ready().await;
    gateway
}

async fn first(gateway: &Gateway, params: &str) -> String {
    let (_, token) = page(&post(gateway.address, "/agent", &list(params)).await);
    assert!(!token.is_empty());
    token
}

fn refused(got: &Answer, why: &str) {
    assert_eq!((got.status, got.code()), (200, -32602), "{why}: {}", got.text());
    assert!(got.text().contains("page token"), "{why}: {}", got.text());
}

fn with(params: &str, token: &str) -> String {
    list(&format!(r#"{params},"pageToken":"{token}""#))
}

#[tokio::test]
async fn a_token_is_for_one_caller_one_agent_and_one_question() {
    let agents = agents().await;
    let gateway = gateway(&agents, "").await;
    let asked = r#""pageSize":3,"status":"TASK_STATE_WORKING""#;
    let token = first(&gateway, asked).await;
    let calls = || agents.0.received().len() + agents.1.received().len();
    let before = calls();

    let fields = [("X-API-Key", OTHER_KEY), ("content-type", "application/json")];
    let foreign = call(gateway.address, "POST", "/agent", &fields, &with(asked, &token)).await;
    refused(&foreign, "another caller");
    refused(
        &post(gateway.address, "/twin", &with(asked, &token)).await,
        "another agent",
    );
    for other in [
        r#""pageSize":3"#,
        r#""pageSize":3,"status":"TASK_STATE_COMPLETED""#,
        r#""pageSize":3,"status":"TASK_STATE_WORKING","contextId":"c""#,
        r#""pageSize":3,"status":"TASK_STATE_WORKING","tenant":"t""#,
    ] {
        refused(&post(gateway.address, "/agent", &with(other, &token)).await, other);
    }
    for forged in [
        "x",
        "AAAA",
        &token[1..],
        &token[..token.len() - 1],
        &format!("{token}A"),
    ] {
        refused(&post(gateway.address, "/agent", &with(asked, forged)).await, forged);
    }
    assert_eq!(calls(), before, "nobody was asked");

    let (ids, _) = page(&post(gateway.address, "/agent", &with(asked, &token)).await);
    assert_eq!(ids.len(), 3, "the token itself is good, and may be used again");
    let reordered = r#""status":"TASK_STATE_WORKING","pageSize":2"#;
    let (ids, _) = page(&post(gateway.address, "/agent", &with(reordered, &token)).await);
    assert_eq!(ids.len(), 2, "order and page size are no part of the question");
    let records = gateway.access(10).await;
    assert!(records.iter().any(|record| record["detail"] == "page_token"));
}

#[tokio::test]
async fn a_token_expires() {
    let agents = agents().await;
    let gateway = gateway(&agents, "page_tokens: { lifetime: 1s }").await;
    let asked = r#""pageSize":3"#;
    let token = first(&gateway, asked).await;
    eventually("the token has expired", || async {
        let got = post(gateway.address, "/agent", &with(asked, &token)).await;
        got.text().contains("expired") && got.code() == -32602
    })
    .await;
}

#[tokio::test]
async fn gateways_that_share_a_key_share_tokens() {
    let agents = agents().await;
    let (one, other, alone) = (
        gateway(&agents, SHARED).await,
        gateway(
            &agents,
            &SHARED.replace("[ {", "[ { value: fedcba9876543210fedcba9876543210 }, {"),
        )
        .await,
        gateway(&agents, "").await,
    );
    let asked = r#""pageSize":3"#;
    let token = first(&one, asked).await;
    let (ids, next) = page(&post(other.address, "/agent", &with(asked, &token)).await);
    assert_eq!(ids, ["a3", "a4", "b0"]);
    refused(
        &post(alone.address, "/agent", &with(asked, &token)).await,
        "a key of its own",
    );
    refused(
        &post(one.address, "/agent", &with(asked, &next)).await,
        "made with the key that only the other one has",
    );
}

#[tokio::test]
async fn a_cursor_that_its_endpoint_forgot_ends_the_walk() {
    let tasks = Tasks::of((0..5).map(|number| task(&format!("a{number}"), None)));
    let a = Agent::start(tasks.script("a")).await;
    let b = Agent::start(Tasks::default().script("b")).await;
    let address = a.address;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    let token = first(&gateway, r#""pageSize":3"#).await;
    drop(a);
    // The same endpoint after a restart: its old cursors mean nothing to it.
    let mut socket = None;
    eventually("the port is free", || {
        let bound = std::net::TcpListener::bind(address).ok();
        let free = bound.is_some();
        socket = socket.take().or(bound);
        async move { free }
    })
    .await;
    let socket = socket.unwrap();
    socket.set_nonblocking(true).unwrap();
    let socket = tokio::net::TcpListener::from_std(socket).unwrap();
    let _restarted = Agent::on(socket, crate::harness::agent::CARD, tasks.script("restarted"));
    eventually("the walk is refused", || async {
        let got = post(gateway.address, "/agent", &with(r#""pageSize":3"#, &token)).await;
        got.status == 200 && got.code() == -32602 && got.text().contains("list again")
    })
    .await;
}
