//! A task's calls go to the endpoint that holds it.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::agent::{self, Agent};
use crate::harness::{Gateway, eventually, get, of_task, post, send};

async fn replicas() -> (Agent, Agent) {
    let make = |name: &'static str| {
        let count = AtomicUsize::new(0);
        agent::tasks(move || format!("{name}-{}", count.fetch_add(1, Ordering::SeqCst)))
    };
    (Agent::start(make("a")).await, Agent::start(make("b")).await)
}

#[tokio::test]
async fn calls_follow_their_task_and_its_context() {
    let (a, b) = replicas().await;
    let gateway = Gateway::of(&[a.address, b.address], "", "").await;
    let mut tasks = Vec::new();
    for _ in 0..40 {
        let made = post(gateway.address, "/agent", &send("1", "x")).await.json();
        tasks.push(made["result"]["task"]["id"].as_str().unwrap().to_owned());
    }
    assert!(
        tasks.iter().any(|task| task.starts_with('a')) && tasks.iter().any(|task| task.starts_with('b')),
        "both work"
    );
    for task in &tasks {
        let home = if task.starts_with('a') { &a } else { &b };
        for method in ["GetTask", "CancelTask"] {
            let before = home.received().len();
            let got = post(gateway.address, "/agent", &of_task(method, task)).await;
            assert_eq!(got.json()["result"]["id"], task.as_str(), "{method} {task}");
            assert_eq!(home.received().len(), before + 1, "{method} {task} went home");
        }
        let push = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"GetTaskPushNotificationConfig","params":{{"taskId":"{task}","id":"other"}}}}"#
        );
        let before = home.received().len();
        post(gateway.address, "/agent", &push).await;
        assert_eq!(
            home.received().len(),
            before + 1,
            "push calls follow the task, not the configuration id"
        );
        let again = send("1", "x").replace("\"messageId\"", &format!("\"contextId\":\"ctx-{task}\",\"messageId\""));
        let made = post(gateway.address, "/agent", &again).await.json();
        let id = made["result"]["task"]["id"].as_str().unwrap();
        assert_eq!(
            id.as_bytes()[0],
            task.as_bytes()[0],
            "the conversation stays where it began"
        );
    }
}

#[tokio::test]
async fn a_task_and_a_context_of_two_endpoints_are_refused() {
    let (a, b) = replicas().await;
    let gateway = Gateway::of(&[a.address, b.address], "", "").await;
    let (mut of_a, mut of_b) = (None, None);
    while of_a.is_none() || of_b.is_none() {
        let made = post(gateway.address, "/agent", &send("1", "x")).await.json();
        let id = made["result"]["task"]["id"].as_str().unwrap().to_owned();
        if id.starts_with('a') {
            of_a = Some(id)
        } else {
            of_b = Some(id)
        }
    }
    let before = a.received().len() + b.received().len();
    let ids = format!(
        "\"taskId\":\"{}\",\"contextId\":\"ctx-{}\",\"messageId\"",
        of_a.unwrap(),
        of_b.unwrap()
    );
    let got = post(
        gateway.address,
        "/agent",
        &send("1", "x").replace("\"messageId\"", &ids),
    )
    .await;
    assert_eq!((got.status, got.code()), (200, -32602), "{}", got.text());
    assert_eq!(a.received().len() + b.received().len(), before, "no agent was asked");
}

#[tokio::test]
async fn a_known_task_never_falls_back_to_another_endpoint() {
    let (a, b) = replicas().await;
    let gateway = Gateway::of(&[a.address, b.address], "", "").await;
    let mut of_b = None;
    while of_b.is_none() {
        let made = post(gateway.address, "/agent", &send("1", "x")).await.json();
        of_b = made["result"]["task"]["id"]
            .as_str()
            .filter(|id| id.starts_with('b'))
            .map(str::to_owned);
    }
    let task = of_b.unwrap();
    drop(b);
    let calls = a.received().len();
    // Idle connections to the dead endpoint end with it; from then on nobody answers there.
    eventually("the owner is unavailable", || async {
        let got = post(gateway.address, "/agent", &of_task("CancelTask", &task)).await;
        got.status == 503 && got.header("retry-after").is_some()
    })
    .await;
    assert_eq!(a.received().len(), calls, "nobody else was asked");
    assert_eq!(
        get(gateway.admin, &format!("/tasks/agent/{task}")).await.status,
        200,
        "the record stays"
    );
}
