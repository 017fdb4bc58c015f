//! Quotas hold however a call is written: in every binding and generation, 0.1 included.

use std::sync::atomic::{AtomicUsize, Ordering};

use a2a_gateway::a2a::Operation;
use serde_json::json;

use crate::harness::agent::{Agent, CARD, tasks};
use crate::harness::caller::{CALLERS, Caller};
use crate::harness::{Answer, Gateway, KEY, OPEN, call, config_of};

async fn agent() -> Agent {
    let count = AtomicUsize::new(0);
    Agent::with_card(
        CARD,
        tasks(move || format!("t-{}", count.fetch_add(1, Ordering::SeqCst))),
    )
    .await
}

/// At the root, because nothing stands before the paths of gRPC.
async fn start(agent: &Agent, limit: &str, more: &str) -> Gateway {
    let keys = format!("limits: [ {limit} ]\n    {more}");
    let yaml = config_of(&[agent.address], &keys, "").replace("path: /agent", "path: /");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    gateway
}

async fn reached(gateway: &Gateway, kind: &str) -> f64 {
    let line = format!(r#"a2a_gateway_limits_reached_total{{agent="agent",kind="{kind}"}}"#);
    gateway.metric(&line).await
}

/// One call is admitted, the next one of the same kind is not.
#[tokio::test]
async fn each_kind_of_quota_counts_calls_of_every_dialect() {
    let agent = agent().await;
    let message = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
    for (kind, limit, operation) in [
        ("rate", "{ per: principal, rate: 1/h }", Operation::Send),
        (
            "task_creations",
            "{ per: principal, task_creations: 1/h }",
            Operation::Send,
        ),
        ("open_tasks", "{ per: principal, open_tasks: 1 }", Operation::Send),
        ("polls", "{ per: principal, polls: 1/h }", Operation::Get),
        ("bytes_out", "{ per: principal, bytes_out: 1B/h }", Operation::Get),
        ("bytes_in", "{ per: principal, bytes_in: 1B/h }", Operation::Send),
        ("bytes_in", "{ per: agent, bytes_in: 1B/h }", Operation::Send),
    ] {
        for caller in CALLERS.map(Caller) {
            let gateway = start(&agent, limit, OPEN).await;
            let params = if operation == Operation::Get {
                json!({ "id": "t-0" })
            } else {
                message.clone()
            };
            let first = caller.by(KEY, &gateway, operation, &params).await;
            assert!(first.is_ok(), "{limit} {:?}: {first:?}", caller.0);
            let before = agent.received().len();
            let second = caller.by(KEY, &gateway, operation, &params).await;
            assert!(second.is_err(), "{limit} {:?}: {second:?}", caller.0);
            assert_eq!(agent.received().len(), before, "{limit} {:?}", caller.0);
            assert_eq!(reached(&gateway, kind).await, 1.0, "{limit} {:?}", caller.0);
        }
    }
}

/// Who has spent it over one binding has spent it.
#[tokio::test]
async fn what_is_spent_in_one_dialect_is_spent_in_all() {
    let agent = agent().await;
    let message = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
    let gateway = start(&agent, "{ per: principal, task_creations: 1/h }", OPEN).await;
    assert!(
        Caller(CALLERS[0])
            .by(KEY, &gateway, Operation::Send, &message)
            .await
            .is_ok()
    );
    for caller in CALLERS.map(Caller) {
        let answer = caller.by(KEY, &gateway, Operation::Send, &message).await;
        assert!(answer.is_err(), "{:?}", caller.0);
    }
    assert_eq!(agent.received().len(), 1);
}

async fn old(gateway: &Gateway, method: &str, task: &str) -> Answer {
    let message = json!({ "role": "user", "parts": [{ "type": "text", "text": "x" }] });
    let params = json!({ "id": task, "sessionId": "s", "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let fields = [("x-api-key", KEY), ("content-type", "application/json")];
    call(gateway.address, "POST", "/", &fields, &body).await
}

#[tokio::test]
async fn calls_of_0_1_are_counted_as_well() {
    for (limit, methods) in [
        (
            "{ per: principal, task_creations: 1/h }",
            ["tasks/send", "tasks/sendSubscribe"],
        ),
        ("{ per: principal, open_tasks: 1 }", ["tasks/send", "tasks/send"]),
        ("{ per: principal, bytes_in: 1B/h }", ["tasks/send", "tasks/get"]),
        ("{ per: principal, bytes_out: 1B/h }", ["tasks/send", "tasks/cancel"]),
    ] {
        let agent = agent().await;
        let gateway = start(&agent, limit, "v0_1: true").await;
        let first = old(&gateway, methods[0], "mine").await;
        assert_eq!(first.json()["result"]["id"], "mine", "{limit}: {}", first.text());
        let before = agent.received().len();
        let second = old(&gateway, methods[1], "other").await;
        assert_eq!(
            (second.status, second.code()),
            (429, -31429),
            "{limit}: {}",
            second.text()
        );
        assert_eq!(agent.received().len(), before, "{limit}");
    }
    // What goes on with a task of its own begins none.
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    let gateway = start(&agent, "{ per: principal, task_creations: 1/h }", "v0_1: true").await;
    for _ in 0..2 {
        assert_eq!(old(&gateway, "tasks/send", "mine").await.json()["result"]["id"], "mine");
    }
}
