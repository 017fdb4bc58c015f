//! A list shows the tasks of its caller, whatever else the agent has, also where there is one endpoint.

use super::list::{list, page};
use crate::harness::agent::Agent;
use crate::harness::tasks::{Tasks, task};
use crate::harness::{Answer, Gateway, call, config_of, get, send};

const ANN: &str = "test-key";
const BOB: &str = "other-key";
const KEYS: &str = r#"[
      { id: ann, hash: "sha256:62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef" },
      { id: bob, hash: "sha256:580843d03d2216ff1a275d0991bad66e4d1af871171d929e9de604b7959f9bca" } ]"#;

async fn start(agents: &[&Agent], more: &str) -> Gateway {
    let addresses: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    let plain = config_of(&addresses, more, "");
    let (before, rest) = plain.split_once("keys: [").unwrap();
    let (_, after) = rest.split_once("] }").unwrap();
    let gateway = Gateway::start(&format!("{before}keys: {KEYS} }}{after}")).await;
    gateway.ready().await;
    gateway
}

async fn by(key: &str, gateway: &Gateway, body: &str) -> Answer {
    let fields = [("X-API-Key", key), ("content-type", "application/json")];
    call(gateway.address, "POST", "/agent", &fields, body).await
}

async fn make(key: &str, gateway: &Gateway) -> String {
    let made = by(key, gateway, &send("1", "x")).await;
    made.json()["result"]["task"]["id"].as_str().unwrap().to_owned()
}

/// Every page's ids, and what each says that there are in all.
async fn walk(key: &str, gateway: &Gateway, size: usize) -> Vec<(Vec<String>, u64)> {
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let got = by(
            key,
            gateway,
            &list(&format!(r#""pageSize":{size},"pageToken":"{token}""#)),
        )
        .await;
        let (ids, next) = page(&got);
        pages.push((ids, got.json()["result"]["totalSize"].as_u64().unwrap()));
        if next.is_empty() {
            return pages;
        }
        assert!(pages.len() < 100, "the walk ends");
        token = next;
    }
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

#[tokio::test]
async fn everybody_sees_their_own_in_full_pages() {
    for endpoints in [1, 3] {
        let names = ["a", "b", "c"];
        let mut agents = Vec::new();
        for name in names.iter().take(endpoints) {
            agents.push(Agent::start(Tasks::default().script(name)).await);
        }
        let gateway = start(&agents.iter().collect::<Vec<_>>(), "").await;
        let (mut anns, mut bobs) = (Vec::new(), Vec::new());
        for number in 0..30 {
            anns.push(make(ANN, &gateway).await);
            if number % 3 == 0 {
                bobs.push(make(BOB, &gateway).await);
            }
        }
        for (key, own) in [(ANN, anns), (BOB, bobs)] {
            let pages = walk(key, &gateway, 4).await;
            let ids: Vec<String> = pages.iter().flat_map(|(ids, _)| ids.clone()).collect();
            assert_eq!(sorted(ids), sorted(own.clone()), "{endpoints} endpoints, {key}");
            let (last, full) = pages.split_last().unwrap();
            assert!(full.iter().all(|(ids, _)| ids.len() == 4), "pages are full");
            // Less than all on the way, and exact at the end.
            assert!(
                full.iter()
                    .enumerate()
                    .all(|(at, (_, total))| *total == 4 * (at as u64 + 1))
            );
            assert_eq!(last.1, own.len() as u64);
        }
    }
}

#[tokio::test]
async fn tasks_that_nobody_is_known_to_own_are_shown_to_nobody_and_become_nobodys() {
    let tasks = Tasks::of([task("old", Some("2027-01-01T00:00:00Z"))]);
    let agent = Agent::start(tasks.script("a")).await;
    let gateway = start(&[&agent], "").await;
    let own = make(ANN, &gateway).await;
    assert_eq!(walk(ANN, &gateway, 9).await, [(vec![own], 1)]);
    assert_eq!(walk(BOB, &gateway, 9).await, [(Vec::new(), 0)]);
    assert_eq!(get(gateway.admin, "/tasks/agent/old").await.status, 404);
}

#[tokio::test]
async fn what_is_shared_is_listed() {
    let agent = Agent::start(Tasks::default().script("a")).await;
    let sharing = r#"policy: { task_sharing: [ { owners: [ "key:ann" ], with: [ "key:bob" ], access: read } ] }"#;
    let gateway = start(&[&agent], sharing).await;
    let (anns, bobs) = (make(ANN, &gateway).await, make(BOB, &gateway).await);
    assert_eq!(walk(BOB, &gateway, 9).await, [(vec![bobs.clone(), anns.clone()], 2)]);
    assert_eq!(walk(ANN, &gateway, 9).await, [(vec![anns], 1)]);
}

#[tokio::test]
async fn somebody_elses_conversation_is_an_empty_one() {
    let (a, b) = (
        Agent::start(Tasks::default().script("a")).await,
        Agent::start(Tasks::default().script("b")).await,
    );
    let gateway = start(&[&a, &b], "").await;
    let own = make(ANN, &gateway).await;
    let of = |context: &str| list(&format!(r#""contextId":"{context}""#));
    let (mine, _) = page(&by(ANN, &gateway, &of(&format!("ctx-{own}"))).await);
    assert_eq!(mine, [own.as_str()]);
    let calls = || (a.received().len(), b.received().len());
    let before = calls();
    let foreign = by(BOB, &gateway, &of(&format!("ctx-{own}"))).await;
    assert_eq!(page(&foreign), (Vec::new(), String::new()));
    let after = calls();
    assert_eq!(
        (after.0 - before.0, after.1 - before.1),
        (1, 1),
        "where it is does not show"
    );
    let unknown = by(BOB, &gateway, &of("ctx-nobodys")).await;
    assert_eq!(foreign.text(), unknown.text());
}

#[tokio::test]
async fn a_page_of_few_among_many_may_be_short_and_goes_on() {
    // More tasks of others than one call looks through.
    let others = (0..1700).map(|number| task(&format!("o{number}"), Some("2027-01-01T00:00:00Z")));
    let tasks = Tasks::of(others);
    let agent = Agent::start(tasks.script("a")).await;
    let gateway = start(&[&agent], "").await;
    let own = make(ANN, &gateway).await;
    // It is the oldest.
    tasks.set(
        (0..1700)
            .map(|number| task(&format!("o{number}"), Some("2027-01-01T00:00:00Z")))
            .chain([task(&own, None)])
            .collect(),
    );
    let before = agent.received().len();
    let pages = walk(ANN, &gateway, 50).await;
    assert_eq!(pages, [(Vec::new(), 0), (Vec::new(), 0), (vec![own], 1)]);
    assert_eq!(
        agent.received().len() - before,
        18,
        "eight times a page, a hundred tasks each time"
    );
    assert_eq!(
        gateway
            .metric(r#"a2a_gateway_lists_total{agent="agent",result="short"}"#)
            .await,
        2.0
    );
}
