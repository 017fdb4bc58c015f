//! Limits that are one over all gateways that share a Redis: open tasks, open streams, calls under way, bytes.

use std::sync::Mutex;

use http::Response;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::shared::{by_another, gateway_with, made, replicas};
use crate::harness::agent::{Agent, Reply, task_event};
use crate::harness::redis::Server;
use crate::harness::{Gateway, KEY, client, eventually, of_task, post, send};

async fn refused_by(gateway: &Gateway, body: &str) -> String {
    let answer = post(gateway.address, "/agent", body).await;
    assert_eq!(answer.status, 429, "{}", answer.text());
    let policy = answer.header("ratelimit-policy").expect("a policy");
    policy.split('"').nth(1).expect("a name").to_owned()
}

/// Streams a task, and goes on until the caller leaves.
async fn endless() -> Agent {
    let open = Mutex::new(Vec::new());
    Agent::start(move |_| {
        let (events, chunks) = mpsc::channel(1);
        events.try_send(Some(task_event("1", "t"))).unwrap();
        open.lock().unwrap().push(events);
        Reply::Stream(chunks)
    })
    .await
}

async fn stream(gateway: &Gateway, key: &str) -> Response<Incoming> {
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let fields = [("X-API-Key", key), ("content-type", "application/json")];
    client::open(gateway.address, "POST", "/agent", &fields, &body).await
}

fn members(server: &Server, key: &str) -> i64 {
    server.ask(&["ZCARD", key])
}

#[tokio::test(flavor = "multi_thread")]
async fn open_tasks_count_over_all_until_anybody_hears_of_their_end() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let limits = "limits: [ { per: principal, open_tasks: 2 }, { per: agent, open_tasks: 3 } ]";
    let one = gateway_with(&server, &[&a, &b], limits).await;
    let other = gateway_with(&server, &[&a, &b], limits).await;
    let task = made(&one).await;
    made(&other).await;
    for gateway in [&one, &other] {
        assert_eq!(refused_by(gateway, &send("1", "x")).await, "principal-open-tasks");
    }
    // Of another caller there may be one more, which is the last of the agent's.
    assert_eq!(by_another(&other, &send("1", "x")).await.status, 200);
    let refused = by_another(&one, &send("1", "x")).await;
    assert_eq!(
        (refused.status, refused.header("ratelimit-policy")),
        (429, Some("\"agent-open-tasks\";q=3;qu=\"open-tasks\""))
    );
    let key = "a2a:o:agent:o:key%3Abob";
    eventually(
        "what the wide limit refused holds no place of the narrow one",
        || async { members(&server, key) == 1 },
    )
    .await;
    // The gateway that did not begin it hears of its end.
    assert_eq!(
        post(other.address, "/agent", &of_task("GetTask", &task)).await.status,
        200
    );
    eventually("the place is free for all", || async {
        members(&server, "a2a:o:agent:o:key%3Atester") == 1
    })
    .await;
    made(&other).await;
    let life: i64 = server.ask(&["PTTL", key]);
    assert!(life > 0, "nothing is kept for ever");
}

/// The gateway that began a task knows it as open as long as it does not hear of its end.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_another_gateway_saw_counts_here_too() {
    let (mut server, (a, b)) = (Server::start(), replicas().await);
    let limits = "limits: [ { per: principal, open_tasks: 1 } ]";
    let one = gateway_with(&server, &[&a, &b], limits).await;
    let other = gateway_with(&server, &[&a, &b], limits).await;
    let task = made(&one).await;
    assert_eq!(refused_by(&other, &send("1", "x")).await, "principal-open-tasks");
    assert_eq!(
        post(other.address, "/agent", &of_task("GetTask", &task)).await.status,
        200
    );
    eventually("the place is free", || async {
        members(&server, "a2a:o:agent:o:key%3Atester") == 0
    })
    .await;
    made(&one).await;
    // Alone each counts what it knows: here two, there none.
    server.kill();
    for gateway in [&one, &other] {
        eventually("the store is away", || async {
            gateway.metric("a2a_gateway_store_degraded").await == 1.0
        })
        .await;
    }
    assert_eq!(refused_by(&one, &send("1", "x")).await, "principal-open-tasks");
    made(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_and_calls_under_way_count_over_all() {
    for (limit, key, policy) in [
        (
            "open_streams: 1",
            "a2a:p:agent:principal-streams:p:key%3Atester",
            "principal-streams",
        ),
        (
            "concurrent: 1",
            "a2a:p:agent:principal-concurrent:p:key%3Atester",
            "principal-concurrent",
        ),
    ] {
        let (server, agent) = (Server::start(), endless().await);
        let limits = format!("limits: [ {{ per: principal, {limit} }} ]");
        let one = gateway_with(&server, &[&agent], &limits).await;
        let other = gateway_with(&server, &[&agent], &limits).await;
        let opened = stream(&one, KEY).await;
        assert_eq!(opened.status(), 200);
        let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
        assert_eq!(refused_by(&other, &body).await, policy);
        assert_eq!(members(&server, key), 1);
        let life: i64 = server.ask(&["PTTL", key]);
        assert!(
            (1..=30_000).contains(&life),
            "a gateway that dies gives its places back: {life} ms"
        );
        drop(opened);
        eventually("the place is given back", || async { members(&server, key) == 0 }).await;
        assert_eq!(stream(&other, KEY).await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_whose_lease_is_over_counts_no_more() {
    let (server, agent) = (Server::start(), endless().await);
    let limits = "limits: [ { per: principal, open_streams: 1 } ]";
    let one = gateway_with(&server, &[&agent], limits).await;
    let key = "a2a:p:agent:principal-streams:p:key%3Atester";
    // Of a gateway that is not there: once for ever, once until long ago.
    let _: i64 = server.ask(&["ZADD", key, "9999999999999", "gone:1"]);
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    assert_eq!(refused_by(&one, &body).await, "principal-streams");
    let _: i64 = server.ask(&["ZADD", key, "1", "gone:1"]);
    assert_eq!(stream(&one, KEY).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_owed_to_all() {
    let (mut server, (a, b)) = (Server::start(), replicas().await);
    let limits = "limits: [ { per: principal, bytes_in: 2KiB/h }, { per: principal, bytes_out: 1MiB/h } ]";
    let one = gateway_with(&server, &[&a, &b], limits).await;
    let other = gateway_with(&server, &[&a, &b], limits).await;
    let body = send("1", &"x".repeat(3000));
    assert_eq!(post(one.address, "/agent", &body).await.status, 200);
    let key = "a2a:b:agent:principal-bytes-in:p:key%3Atester";
    eventually("it is told", || async { server.ask::<i64>(&["EXISTS", key]) == 1 }).await;
    assert_eq!(refused_by(&other, &send("1", "x")).await, "principal-bytes-in");
    let out: i64 = server.ask(&["EXISTS", "a2a:b:agent:principal-bytes-out:p:key%3Atester"]);
    assert_eq!(out, 1, "answers are, too");
    assert_eq!(by_another(&other, &send("1", "x")).await.status, 200);

    // While the store is away each counts by itself, and tells when it is back.
    server.kill();
    eventually("it is away", || async {
        other.metric("a2a_gateway_store_degraded").await == 1.0
    })
    .await;
    assert_eq!(post(other.address, "/agent", &body).await.status, 200);
    server.start_again();
    eventually("it is told", || async { server.ask::<i64>(&["EXISTS", key]) == 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_share_counts_alone() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let limits = "limits: [ { per: principal, open_tasks: 1, shared: false }, { per: principal, bytes_in: 100KiB/h, shared: false }, { per: principal, concurrent: 5, shared: false } ]";
    let one = gateway_with(&server, &[&a, &b], limits).await;
    let other = gateway_with(&server, &[&a, &b], limits).await;
    made(&one).await;
    made(&other).await;
    assert_eq!(refused_by(&one, &send("1", "x")).await, "principal-open-tasks");
    for pattern in ["a2a:o:*", "a2a:b:*", "a2a:p:*"] {
        let keys: Vec<String> = server.ask(&["KEYS", pattern]);
        assert!(keys.is_empty(), "{keys:?}");
    }
}
