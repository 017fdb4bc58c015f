//! Gateways behind gateways, and calls that come back to where they were.

use std::net::SocketAddr;
use std::path::Path;

use crate::harness::agent::{Agent, CARD, tasks};
use crate::harness::{Answer, Gateway, call, config_of, eventually, get, post, send};

const OPEN: &str = "policy: { task_owner: none }";

/// In front of `/agent` at an address, with a card of its own and the key that a gateway asks for.
fn behind(address: SocketAddr) -> String {
    let yaml = config_of(&[address], &format!("{OPEN}\n    card: {{ file: card.json }}"), "");
    let credential = "credential: { header: { name: X-API-Key, value: test-key } }";
    yaml.replace("/\" } ] }\n", &format!("/agent\" }} ], {credential} }}\n"))
}

fn write(folder: &Path, yaml: &str) -> std::path::PathBuf {
    std::fs::write(folder.join("card.json"), CARD).unwrap();
    let file = folder.join("gateway.yaml");
    std::fs::write(&file, yaml).unwrap();
    file
}

async fn ask(gateway: &Gateway) -> Answer {
    post(gateway.address, "/agent", &send("1", "hi")).await
}

fn hops(head: &str) -> Vec<String> {
    let via = head
        .lines()
        .find_map(|line| line.strip_prefix("via: "))
        .unwrap_or_default();
    via.split(", ").map(str::to_owned).collect()
}

#[tokio::test]
async fn a_gateway_may_stand_behind_another_one() {
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    let inner = Gateway::of(&[agent.address], OPEN, "").await;
    // Its agent's card is the one that the inner one publishes.
    let credential = "credential: { header: { name: X-API-Key, value: test-key } }";
    let yaml =
        config_of(&[inner.address], OPEN, "").replace("/\" } ] }\n", &format!("/agent\" }} ], {credential} }}\n"));
    let outer = Gateway::start(&yaml).await;
    outer.ready().await;
    assert_eq!(ask(&outer).await.status, 200);
    let received = agent.received().pop().unwrap();
    let passed = hops(&received.head);
    assert_eq!(passed.len(), 2, "{}", received.head);
    for hop in &passed {
        let name = hop.strip_prefix("1.1 a2a-gateway-").unwrap_or_else(|| panic!("{hop}"));
        assert_eq!(name.len(), 16);
    }
    assert_ne!(passed[0], passed[1]);

    // What a caller writes there stays behind.
    let fields = [
        ("x-api-key", "test-key"),
        ("content-type", "application/json"),
        ("via", "1.1 evil.example"),
    ];
    let got = call(inner.address, "POST", "/agent", &fields, &send("1", "hi")).await;
    assert_eq!(got.status, 200);
    let received = agent.received().pop().unwrap();
    assert_eq!(hops(&received.head).len(), 1, "{}", received.head);
    assert!(!received.head.contains("evil"), "{}", received.head);
}

/// RFC 5842 §7.2.
#[tokio::test]
async fn a_call_that_comes_back_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    let file = write(folder.path(), &behind(agent.address));
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    std::fs::write(&file, behind(gateway.address)).unwrap();
    assert!(gateway.reload().await);
    let got = ask(&gateway).await;
    assert_eq!(got.code(), -31508, "{}", got.text());
    assert_eq!(got.status, 508, "{}", got.text());
    let records = gateway.access(2).await;
    assert_eq!(records.len(), 2, "one circle: {records:?}");
    assert!(
        records.iter().any(|record| record["outcome"] == "loop_detected"),
        "{records:?}"
    );
}

#[tokio::test]
async fn a_circle_of_two_gateways_is_found() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    let one_file = write(folders[0].path(), &behind(agent.address));
    let one = Gateway::from_file(&one_file).await;
    let other = Gateway::from_file(&write(folders[1].path(), &behind(one.address))).await;
    other.ready().await;
    std::fs::write(&one_file, behind(other.address)).unwrap();
    assert!(one.reload().await);
    let got = ask(&one).await;
    assert_eq!(got.code(), -31508, "{}", got.text());
    assert_eq!(one.access(2).await.len(), 2);
    assert_eq!(other.access(1).await.len(), 1);
}

/// What it publishes is no card before there is one.
#[tokio::test]
async fn a_gateway_that_is_its_own_agent_has_no_card_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    let own = |address: SocketAddr| config_of(&[address], OPEN, "").replace("/\" } ] }\n", "/agent\" } ] }\n");
    let file = write(folder.path(), &own(agent.address));
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    std::fs::write(&file, own(gateway.address)).unwrap();
    assert!(gateway.reload().await);
    eventually("its own card was asked for", || async {
        get(gateway.admin, "/ready").await.text().contains("agent-card.json")
    })
    .await;
    assert_eq!(get(gateway.admin, "/ready").await.status, 503);
    let got = get(gateway.address, "/agent/.well-known/agent-card.json").await;
    assert_eq!(got.status, 503, "{}", got.text());
}
