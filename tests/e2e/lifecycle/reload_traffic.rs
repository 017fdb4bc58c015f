//! Traffic over many reloads: nothing is cut and nothing is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::drain::{request, written};
use super::reload::OK;
use super::reload_agents::{Desk, yaml};
use super::reload_streams::Streams;
use crate::adversarial::wire::Wire;
use crate::faults::{CREDENTIAL, JSON};
use crate::harness::agent::{Reply, task_event};
use crate::harness::client::{open, read};
use crate::harness::{Agent, agent, eventually, post, send};

/// What differs from one reload to the next: limits, rules, the upstream's connections, a whole agent.
fn variant(round: usize, a: SocketAddr, b: SocketAddr) -> String {
    let more = match round % 5 {
        0 => "",
        1 => "body_bytes: 64KiB",
        2 => "limits: [ { per: principal, rate: 1000000/s } ]",
        3 => "card: { overrides: { name: Renamed } }",
        _ => "forward_credentials: true",
    };
    let text = match round % 2 {
        0 => yaml(&[("a", &[a], more)], ""),
        _ => yaml(&[("b", &[b], ""), ("a", &[a], more)], "limits: { json_depth: 64 }"),
    };
    let timeout = format!("], connect_timeout: {}s }}", 5 + round % 3);
    text.replace("] }\n    ", &format!("{timeout}\n    "))
}

#[tokio::test]
async fn a_stream_and_a_slow_call_run_through_reloads() {
    let streams = Streams::start().await;
    let (answer, later) = oneshot::channel();
    let later = Mutex::new(Some(later));
    let slow = Agent::start(move |_| Reply::Later(later.lock().unwrap().take().expect("one call"))).await;
    let (a, b) = (slow.address, streams.agent.address);
    let desk = Desk::of(&variant(1, a, b)).await;
    let address = desk.gateway.address;
    let caller = tokio::spawn(async move { post(address, "/a", &send("1", "x")).await });
    let stream = open(address, "POST", "/b", &[JSON, CREDENTIAL], &request()).await;
    eventually("the call is at the agent", || async { slow.received().len() == 1 }).await;
    for round in 1..=5 {
        desk.apply(&variant(2 * round + 1, a, b)).await;
        streams.send(&task_event("1", "t"));
    }
    assert!(desk.gateway.metric(OK).await >= 5.0);
    streams.end();
    assert_eq!(read(stream).await, (task_event("1", "t").repeat(6), true));
    let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}}"#;
    answer.send(whole.to_owned()).unwrap();
    let got = caller.await.unwrap();
    assert_eq!((got.status, got.text()), (200, whole.to_owned()));
}

#[tokio::test]
async fn a_hundred_reloads_under_traffic_lose_no_call() {
    let (a, b) = (
        Agent::start(agent::tasks(|| "t".to_owned())).await,
        Agent::start(agent::tasks(|| "t".to_owned())).await,
    );
    let desk = Desk::of(&variant(0, a.address, b.address)).await;
    let services = desk.gateway.services();
    let address = desk.gateway.address;
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|caller| {
            let over = over.clone();
            tokio::spawn(async move {
                let call = written(&send("1", "x")).replace("/agent", "/a");
                let mut wire = Wire::to(address).await;
                let mut calls = 0_u32;
                while !over.load(Ordering::Relaxed) {
                    // Two callers keep their connection, two make a new one for each call.
                    if caller % 2 == 0 {
                        wire = Wire::to(address).await;
                    }
                    wire.send(&call).await;
                    let answer = wire.answer().await;
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    for round in 1..=100 {
        desk.apply(&variant(round, a.address, b.address)).await;
    }
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
    assert!(desk.gateway.metric(OK).await >= 100.0);
    eventually("no job is left over", || async { desk.gateway.services() <= services }).await;
    eventually("agents see no connection of old upstreams", || async {
        a.open() + b.open() <= 8
    })
    .await;
}
