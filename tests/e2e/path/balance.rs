//! Where new work goes.

use crate::harness::agent::{self, Agent};
use crate::harness::{Gateway, config_of, post, send, with_upstream};

/// A send that names a context.
fn send_in(context: &str) -> String {
    send("1", "x").replace("\"messageId\"", &format!("\"contextId\":\"{context}\",\"messageId\""))
}

#[tokio::test]
async fn a_hash_sends_a_context_to_the_same_endpoint_also_after_a_restart() {
    let a = Agent::start(agent::tasks(|| "t-a".to_owned())).await;
    let b = Agent::start(agent::tasks(|| "t-b".to_owned())).await;
    let yaml = config_of(&[a.address, b.address], "", "");
    let yaml = with_upstream(&yaml, "balance: consistent_hash, hash_on: context");
    let mut homes = Vec::new();
    for _ in 0..2 {
        // Each gateway starts without records: only the hash can know.
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        let mut found = String::new();
        for context in 0..24 {
            let made = post(gateway.address, "/agent", &send_in(&format!("ctx-{context}"))).await;
            found += made.json()["result"]["task"]["id"].as_str().expect("a task");
        }
        homes.push(found);
        gateway.shutdown().await;
    }
    assert_eq!(homes[0], homes[1]);
    assert!(
        homes[0].contains("t-a") && homes[0].contains("t-b"),
        "both work: {}",
        homes[0]
    );
}

#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    // `localhost` may be an IPv6 address first, where nobody listens.
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let yaml = config_of(&[agent.address], "", "").replace("127.0.0.1:", "localhost:");
    let yaml = yaml.replace("address: \"localhost:", "address: \"127.0.0.1:");
    let gateway = Gateway::start(&with_upstream(&yaml, "dns_refresh: 100ms")).await;
    gateway.ready().await;
    for _ in 0..3 {
        assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
    }
    // What the name still says is kept.
    assert_eq!(
        gateway.metric("a2a_gateway_upstream_connections_opened_total").await,
        1.0
    );
}
