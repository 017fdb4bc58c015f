//! Open streams when the decision point of their agent comes, goes or is another one: they are asked about, and nothing of
//! them passes before they are allowed.

use std::sync::Mutex;
use std::time::Duration;

use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::oneshot;

use super::drain::request;
use super::reload_agents::{Desk, yaml};
use super::reload_streams::{CUT, Streams, begun, ended};
use crate::faults::JSON;
use crate::harness::agent::{Reply, task_event};
use crate::harness::client::{open, read};
use crate::harness::{KEY, eventually};
use crate::security::Server;

const P: &str = "/p";
const Q: &str = "/q";

/// An agent whose policy has these keys, beside two decision points.
fn with(streams: &Streams, server: &Server, policy: &str, more: &str) -> String {
    let points = format!(
        "decision_points: {{ p: {{ kind: opa, url: \"{}\", {more} }}, q: {{ kind: ext_authz, url: \"{}\", timeout: 10s }} }}",
        server.url(P),
        server.url(Q)
    );
    let policy = format!("policy: {{ task_owner: none, {policy} }}");
    yaml(&[("a", &[streams.agent.address], &policy)], &points)
}

fn says(server: &Server, allowed: bool) {
    server.says(P, 200, json!({ "result": allowed }));
    server.says(Q, if allowed { 200 } else { 403 }, "");
}

async fn stream(desk: &Desk) -> http::Response<Incoming> {
    stream_of(desk, "/a").await
}

async fn stream_of(desk: &Desk, path: &str) -> http::Response<Incoming> {
    let fields = [JSON, ("x-api-key", KEY)];
    begun(open(desk.gateway.address, "POST", path, &fields, &request()).await).await
}

#[tokio::test]
async fn nothing_of_a_stream_passes_while_it_is_asked_about() {
    let (streams, server) = (Streams::start().await, Server::start().await);
    let (answer, coming) = oneshot::channel();
    let coming = Mutex::new(Some(coming));
    server.does(P, move |_| {
        Reply::Later(coming.lock().unwrap().take().expect("one question"))
    });
    let beside = format!(
        "  - {{ name: b, path: /b, policy: {{ task_owner: none }}, upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }} }}\n",
        streams.agent.address
    );
    let text = |policy: &str| with(&streams, &server, policy, "timeout: 15s") + &beside;
    let desk = Desk::of(&text("")).await;
    let (held, mut free) = (stream(&desk).await, stream_of(&desk, "/b").await);
    desk.apply(&text("decision_point: p")).await;
    eventually("it is asked about", || async { server.asked(P) == 1 }).await;
    // What comes of both agents at once is there for one caller.
    for _ in 0..5 {
        streams.send(&task_event("1", "t"));
        free = begun(free).await;
    }
    answer.send(json!({ "result": false }).to_string()).unwrap();
    assert_eq!(read(held).await, CUT);
    ended(&desk, "not-allowed", 1).await;
}

#[tokio::test]
async fn a_stream_that_the_next_decision_point_denies_ends() {
    let (streams, server) = (Streams::start().await, Server::start().await);
    says(&server, false);
    let desk = Desk::of(&with(&streams, &server, "", "")).await;
    for (count, point) in [(1, "p"), (2, "q")] {
        desk.apply(&with(&streams, &server, "", "")).await;
        let open = stream(&desk).await;
        assert_eq!(server.asked(P) + server.asked(Q), count - 1, "nobody is to be asked");
        let policy = format!("decision_point: {point}");
        desk.apply(&with(&streams, &server, &policy, "")).await;
        assert_eq!(read(open).await, CUT);
        ended(&desk, "not-allowed", count).await;
    }
    let input = server.questions(P)[0].json()["input"].clone();
    assert_eq!(
        (&input["operation"], &input["principal"]["id"]),
        (&json!("stream"), &json!("key:tester"))
    );
    assert!(input["message"].is_null(), "it was not kept");
    let question = &server.questions(Q)[0];
    for (name, expected) in [
        ("x-forwarded-method", "POST"),
        ("x-forwarded-uri", "/a"),
        ("x-a2a-operation", "stream"),
    ] {
        assert_eq!(question.field(name), Some(expected), "{name}");
    }
}

#[tokio::test]
async fn a_stream_goes_on_with_decision_points_that_allow_it_each_asked_once() {
    let (streams, server) = (Streams::start().await, Server::start().await);
    says(&server, true);
    let desk = Desk::of(&with(&streams, &server, "decision_point: p", "")).await;
    let open = stream(&desk).await;
    assert_eq!(server.asked(P), 1);
    // Another timeout is no other decision point, and other rules are no reason to ask it again.
    desk.apply(&with(&streams, &server, "decision_point: p", "timeout: 2s"))
        .await;
    let ruled = "decision_point: p, allow: [ { operations: [ stream ] } ]";
    desk.apply(&with(&streams, &server, ruled, "timeout: 2s")).await;
    streams.send(&task_event("1", "t"));
    eventually("its event has passed", || async {
        desk.gateway
            .metric("a2a_gateway_stream_events_total{agent=\"a\"}")
            .await
            >= 2.0
    })
    .await;
    assert_eq!((server.asked(P), server.asked(Q)), (1, 0));
    desk.apply(&with(&streams, &server, "decision_point: q", "")).await;
    eventually("the other one is asked", || async { server.asked(Q) == 1 }).await;
    let question = server.questions(Q).pop().unwrap();
    assert_eq!(question.field("x-forwarded-uri"), Some("/a"));
    assert_eq!(question.field("x-a2a-operation"), Some("stream"));
    // It is known from then on.
    desk.apply(&with(&streams, &server, "decision_point: q, allow: [ {} ]", ""))
        .await;
    desk.apply(&with(&streams, &server, "", "")).await;
    streams.send(&task_event("1", "t"));
    streams.end();
    let text = format!("{0}{0}", task_event("1", "t"));
    assert_eq!(read(open).await, (text, true));
    assert_eq!((server.asked(P), server.asked(Q)), (1, 1));
}

#[tokio::test]
async fn a_stream_ends_when_the_next_decision_point_does_not_answer() {
    let (streams, server) = (Streams::start().await, Server::start().await);
    server.does(P, |_| Reply::Silence);
    let desk = Desk::of(&with(&streams, &server, "", "timeout: 100ms")).await;
    let open = stream(&desk).await;
    desk.apply(&with(&streams, &server, "decision_point: p", "timeout: 100ms"))
        .await;
    assert_eq!(read(open).await, CUT);
    ended(&desk, "decision-unavailable", 1).await;
}

/// More than may be asked at once: each waits for its turn.
#[tokio::test]
async fn streams_wait_for_a_place_among_the_questions() {
    let (streams, server) = (Streams::start().await, Server::start().await);
    says(&server, true);
    let one = "concurrent: 1, timeout: 10s";
    let desk = Desk::of(&with(&streams, &server, "", one)).await;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(stream(&desk).await);
    }
    desk.apply(&with(&streams, &server, "decision_point: p", one)).await;
    eventually("all are asked about", || async { server.asked(P) == 5 }).await;
    streams.send(&task_event("1", "t"));
    streams.end();
    for stream in open {
        assert_eq!(read(stream).await, (task_event("1", "t"), true));
    }
    let refused = "a2a_gateway_decisions_total{decision_point=\"p\",outcome=\"refused\"}";
    assert_eq!(desk.gateway.metric(refused).await, 0.0);
}

/// The gateway does not wait for a decision point when it has to end.
#[tokio::test]
async fn a_stream_that_waits_for_an_answer_ends_at_the_drain_deadline() {
    let (streams, server) = (Streams::start().await, Server::start().await);
    server.does(P, |_| Reply::Silence);
    let slow = "timeout: 60s";
    let text = |policy: &str| with(&streams, &server, policy, slow).replace("public_url:", "drain: 100ms\npublic_url:");
    let desk = Desk::of(&text("")).await;
    let open = stream(&desk).await;
    desk.apply(&text("decision_point: p")).await;
    eventually("it is asked", || async { server.asked(P) == 1 }).await;
    let reading = tokio::spawn(read(open));
    let log = desk.gateway.log();
    let ended = tokio::time::timeout(Duration::from_secs(30), desk.gateway.shutdown()).await;
    assert!(ended.is_ok(), "the gateway ends");
    assert!(!reading.await.unwrap().1, "broken");
    let drained = log.records().iter().any(|record| record["outcome"] == "drained");
    assert!(drained, "{:?}", log.records());
}
