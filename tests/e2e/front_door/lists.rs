//! ListTasks at the front door: the tasks of all agents, each once, in order.

use serde_json::Value;

use super::{ANN, BOB, by, sends, start, yaml};
use crate::harness::agent::{Agent, CARD_0_3};
use crate::harness::call;
use crate::harness::tasks::{Tasks, error};

fn list(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{{{params}}}}}"#)
}

fn ids(page: &Value) -> Vec<&str> {
    let tasks = page["tasks"].as_array().unwrap_or_else(|| panic!("{page}"));
    tasks.iter().map(|task| task["id"].as_str().unwrap()).collect()
}

async fn agents() -> (Agent, Agent) {
    let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(super::WEATHER, Tasks::default().script("w")).await;
    (maps, weather)
}

#[tokio::test]
async fn a_walk_gives_the_tasks_of_all_agents_once_and_in_order() {
    let (maps, weather) = agents().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let mut made = Vec::new();
    for number in 0..6 {
        for (tenant, name) in [("maps", "m"), ("weather", "w")] {
            let answer = by(ANN, &gateway, &sends(&format!(r#""tenant":"{tenant}""#), "")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            made.push((number, format!("{name}{number}")));
        }
    }
    // Somebody else's.
    by(BOB, &gateway, &sends(r#""tenant":"maps""#, "")).await;
    // The latest first, the agents in the order of the configuration.
    made.sort_by_key(|(number, id)| (-number, id.clone()));
    let expected: Vec<&str> = made.iter().map(|(_, id)| id.as_str()).collect();
    for size in [1, 5, 12, 100] {
        let (mut found, mut token, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let params = match token.as_str() {
                "" => format!(r#""pageSize":{size}"#),
                token => format!(r#""pageSize":{size},"pageToken":"{token}""#),
            };
            let answer = by(ANN, &gateway, &list(&params)).await;
            let page = &answer.json()["result"];
            assert!(!answer.text().contains("cursor"), "no agent's cursor is shown");
            found.extend(ids(page).into_iter().map(str::to_owned));
            pages += 1;
            assert!(pages <= 20);
            page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, expected, "pages of {size}");
    }
    // Of one agent alone, and of one context.
    let answer = by(ANN, &gateway, &list(r#""tenant":"weather""#)).await;
    assert_eq!(ids(&answer.json()["result"]).len(), 6);
    assert!(ids(&answer.json()["result"]).iter().all(|id| id.starts_with('w')));
    let answer = by(BOB, &gateway, &list("")).await;
    assert_eq!(ids(&answer.json()["result"]), ["m6"]);
    // Over HTTP+JSON the same.
    let fields = [("X-API-Key", ANN), ("A2A-Version", "1.0")];
    let answer = call(gateway.address, "GET", "/tasks?pageSize=3", &fields, "").await;
    assert_eq!(ids(&answer.json()), expected[..3]);
}

#[tokio::test]
async fn a_token_is_of_its_caller_and_its_question() {
    let (maps, weather) = agents().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    for _ in 0..2 {
        by(ANN, &gateway, &sends(r#""tenant":"maps""#, "")).await;
    }
    let answer = by(ANN, &gateway, &list(r#""pageSize":1"#)).await;
    let token = answer.json()["result"]["nextPageToken"].as_str().unwrap().to_owned();
    assert!(!token.is_empty());
    let page = |token: &str, more: &str| list(&format!(r#""pageSize":1,"pageToken":"{token}"{more}"#));
    assert_eq!(by(BOB, &gateway, &page(&token, "")).await.code(), -32602);
    assert_eq!(
        by(ANN, &gateway, &page(&token, r#","status":"TASK_STATE_WORKING""#))
            .await
            .code(),
        -32602
    );
    assert_eq!(by(ANN, &gateway, &page("nonsense", "")).await.code(), -32602);
    assert_eq!(by(ANN, &gateway, &list(r#""pageSize":101"#)).await.code(), -32602);
    let answer = by(ANN, &gateway, &page(&token, "")).await;
    assert_eq!(ids(&answer.json()["result"]), ["m0"]);
}

#[tokio::test]
async fn agents_without_lists_or_for_others_have_no_tasks_in_it() {
    let maps = Agent::with_card(CARD_0_3, |request| error(&request.json(), -32601, "Method not found")).await;
    let weather = Agent::with_card(super::WEATHER, Tasks::default().script("w")).await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    by(ANN, &gateway, &sends(r#""tenant":"weather""#, "")).await;
    let answer = by(ANN, &gateway, &list("")).await;
    assert_eq!(ids(&answer.json()["result"]), ["w0"], "{}", answer.text());
    // Carl is nobody to maps.
    let fields = [
        ("X-Weather-Key", "carl-key"),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let answer = call(gateway.address, "POST", "/", &fields, &list("")).await;
    assert!(ids(&answer.json()["result"]).is_empty(), "{}", answer.text());
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_not_left_out_silently() {
    let (maps, weather) = agents().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    by(ANN, &gateway, &sends(r#""tenant":"weather""#, "")).await;
    drop(maps);
    let answer = by(ANN, &gateway, &list("")).await;
    assert!(answer.status >= 500, "{}", answer.text());
}
