//! A disk that takes no more of the audit trail: calls go on and are counted, or are refused before they reach an agent. The
//! disk is a limit on the size of files, which is set and taken away while the gateway runs.

use std::net::SocketAddr;

use super::audit::{ANN, Ground, JSON};
use crate::harness::{Answer, call, eventually, get, of_task, send};
use crate::lifecycle::program::Program;

async fn post(address: SocketAddr, body: &str) -> Answer {
    call(address, "POST", "/agent", &[JSON, ("x-api-key", ANN)], body).await
}

async fn metric(admin: SocketAddr, name: &str) -> u64 {
    let text = get(admin, "/metrics").await.text();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("a2a_gateway_audit_{name} ")));
    value.expect("the metric").parse().unwrap()
}

async fn started(ground: &Ground) -> (Program, SocketAddr, SocketAddr) {
    let mut gateway = ground.program();
    let (public, admin) = gateway.addresses().await;
    eventually("the gateway is ready", || async {
        get(admin, "/ready").await.status == 200
    })
    .await;
    // It is ready before its cards' lines are written.
    ground.of("card_published", 2).await;
    (gateway, public, admin)
}

/// The file takes no whole line more.
fn fill(ground: &Ground, gateway: &Program) {
    let length = std::fs::metadata(ground.path("audit.log")).unwrap().len();
    gateway.limit_files(Some(length + 40));
}

#[tokio::test]
async fn calls_go_on_and_what_is_lost_is_counted_and_told() {
    let ground = Ground::new("queue: 16").await;
    let (gateway, public, admin) = started(&ground).await;
    fill(&ground, &gateway);
    for _ in 0..40 {
        assert_eq!(post(public, &send("1", "x")).await.status, 200);
    }
    eventually("the loss is counted", || async {
        metric(admin, "lost_total").await == 24
    })
    .await;
    assert_eq!(
        (metric(admin, "degraded").await, metric(admin, "queued").await),
        (1, 16)
    );
    assert_eq!(get(admin, "/ready").await.json()["audit_degraded"], true);
    assert_eq!(ground.agent.received().len(), 40);
    ground.holds(&["audit.log"]);
    gateway.limit_files(None);
    let lost = ground.of("lost", 1).await;
    assert_eq!(lost[0]["count"], 24);
    ground.of("task_created", 16).await;
    eventually("it is well again", || async { metric(admin, "degraded").await == 0 }).await;
    assert_eq!(post(public, &send("1", "x")).await.status, 200);
    ground.of("task_created", 17).await;
    assert_eq!(gateway.terminate().await.code, Some(0));
    assert_eq!(ground.holds(&["audit.log"]).lines, ground.lines().len() as u64);
}

#[tokio::test]
async fn calls_that_cannot_be_recorded_are_refused_before_they_reach_an_agent() {
    let ground = Ground::new("on_full: block, queue: 64").await;
    let (gateway, public, admin) = started(&ground).await;
    assert_eq!(post(public, &send("1", "x")).await.status, 200);
    ground.of("task_created", 1).await;
    fill(&ground, &gateway);
    // Nobody knows that the disk is full before something is written.
    let url = format!("http://{}/", ground.agent.address);
    let drain = format!("/agents/agent/endpoints/undrain?url={url}");
    assert_eq!(call(admin, "POST", &drain, &[JSON], "").await.status, 200);
    eventually("the trail is degraded", || async {
        metric(admin, "degraded").await == 1
    })
    .await;
    let reached = ground.agent.received().len();
    let webhook = r#"{"jsonrpc":"2.0","id":"c","method":"CreateTaskPushNotificationConfig","params":{"taskId":"t-0","url":"https://hooks.example/"}}"#;
    let stream = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    for body in [&*send("1", "x"), &stream, &of_task("CancelTask", "t-0"), webhook] {
        let refused = post(public, body).await;
        assert_eq!((refused.status, refused.code()), (503, -31503), "{}", refused.text());
        assert_eq!(refused.header("retry-after"), Some("5"));
    }
    let rejects = get(admin, "/metrics").await.text();
    let counted = "a2a_gateway_rejects_total{fault=\"internal\",reason=\"audit_unavailable\"} 4";
    assert!(rejects.contains(counted), "{rejects}");
    assert_eq!(ground.agent.received().len(), reached, "nothing reached the agent");
    let refused = call(admin, "POST", &drain, &[JSON], "").await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    let given = call(
        admin,
        "POST",
        "/tasks/agent/t-0/owner",
        &[JSON],
        r#"{"owner":"key:bob"}"#,
    )
    .await;
    assert_eq!(given.status, 503, "{}", given.text());
    // What leaves no line goes on.
    assert_eq!(post(public, &of_task("GetTask", "t-0")).await.status, 200);
    gateway.limit_files(None);
    eventually("it is well again", || async { metric(admin, "degraded").await == 0 }).await;
    assert_eq!(post(public, &send("1", "x")).await.status, 200);
    ground.of("task_created", 2).await;
    ground.of("endpoint_undrained", 1).await;
    assert_eq!(metric(admin, "lost_total").await, 0, "what had gone on was kept");
    assert_eq!(gateway.terminate().await.code, Some(0));
    ground.holds(&["audit.log"]);
}

#[tokio::test]
async fn a_device_that_is_full_from_the_start_blocks_and_does_not_end_the_gateway() {
    let ground = Ground::new("on_full: block").await;
    let text = std::fs::read_to_string(ground.path("gateway.yaml")).unwrap();
    ground.write("gateway.yaml", &text.replace("file: audit.log", "file: /dev/full"));
    let gateway = ground.start().await;
    eventually("the trail is degraded", || async {
        metric(gateway.admin, "degraded").await == 1
    })
    .await;
    assert_eq!(post(gateway.address, &send("1", "x")).await.status, 503);
    assert_eq!(ground.agent.received().len(), 0);
    ground.write("gateway.yaml", &text);
    assert!(gateway.reload().await, "another file ends it");
    eventually("calls go on", || async {
        post(gateway.address, &send("1", "x")).await.status == 200
    })
    .await;
    ground.of("gateway_started", 1).await;
    ground.of("task_created", 1).await;
    assert!(gateway.shutdown().await);
    ground.holds(&["audit.log"]);
}
