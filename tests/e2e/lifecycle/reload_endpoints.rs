//! Another configuration under a running gateway: endpoints that go drain, and come back.

use std::net::SocketAddr;

use serde_json::Value;

use super::reload_agents::{Desk, yaml};
use crate::faults::JSON;
use crate::harness::agent::{Agent, Received, Reply};
use crate::harness::tasks::Tasks;
use crate::harness::{Answer, agent, call, eventually, get, of_task, post, send, with_upstream};

/// Makes a task of this name, and knows it.
async fn named(name: &'static str) -> Agent {
    Agent::start(agent::tasks(move || name.to_owned())).await
}

/// Answers a listing with nothing and every other call like `named`.
async fn listing(name: &'static str) -> Agent {
    let others = agent::tasks(move || name.to_owned());
    Agent::start(move |request: &Received| -> Reply {
        if request.json()["method"] != "ListTasks" {
            return others(request);
        }
        Tasks::of([]).script(name)(request)
    })
    .await
}

fn of(endpoints: &[SocketAddr], drain: &str) -> String {
    yaml(&[("a", endpoints, "")], &format!("drain: {drain}"))
}

async fn ask(desk: &Desk, body: &str) -> Answer {
    post(desk.gateway.address, "/a", body).await
}

/// The task of a new call.
async fn made(desk: &Desk) -> String {
    let answer = ask(desk, &send("1", "x")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["result"]["task"]["id"].as_str().unwrap().to_owned()
}

/// What operators see of the endpoint.
async fn shown(desk: &Desk, address: SocketAddr) -> Option<Value> {
    let all = get(desk.gateway.admin, "/agents/a/endpoints").await.json();
    let list = all["endpoints"].as_array().unwrap().clone();
    let url = format!("http://{address}/");
    list.into_iter().find(|one| one["url"] == url.as_str())
}

async fn removed(desk: &Desk) -> f64 {
    let line = "a2a_gateway_endpoints{agent=\"a\",state=\"removed\"}";
    desk.gateway.metric(line).await
}

#[tokio::test]
async fn a_removed_endpoint_drains() {
    let (a, b) = (named("of-a").await, named("of-b").await);
    let desk = Desk::of(&of(&[a.address], "1h")).await;
    assert_eq!(made(&desk).await, "of-a");
    desk.apply(&of(&[b.address], "1h")).await;
    desk.answers("/a").await;
    for _ in 0..4 {
        assert_eq!(made(&desk).await, "of-b", "nothing new goes there");
    }
    let before = a.received().len();
    let got = ask(&desk, &of_task("GetTask", "of-a")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let more = send("1", "x").replace("\"messageId\"", "\"contextId\":\"ctx-of-a\",\"messageId\"");
    assert_eq!(ask(&desk, &more).await.status, 200);
    assert_eq!(a.received().len(), before + 2, "its task and its context");

    let one = shown(&desk, a.address).await.unwrap();
    let left = one["removed_for_seconds"].as_f64().unwrap();
    assert!(left > 3000.0 && left <= 3600.0, "{one}");
    assert_eq!((&one["draining"], &one["open"]), (&true.into(), &false.into()), "{one}");
    let other = shown(&desk, b.address).await.unwrap();
    assert!(other["removed_for_seconds"].is_null() && other["draining"] == false);
    assert_eq!(removed(&desk).await, 1.0);
    let path = format!("/agents/a/endpoints/undrain?url=http://{}/", a.address);
    let refused = call(desk.gateway.admin, "POST", &path, &[JSON], "").await;
    assert_eq!(refused.status, 409, "{}", refused.text());
}

#[tokio::test]
async fn a_removed_endpoint_goes_when_its_time_is_over() {
    let (a, b) = (named("of-a").await, named("of-b").await);
    let desk = Desk::of(&of(&[a.address, b.address], "1h")).await;
    let before = desk.gateway.services();
    while made(&desk).await != "of-a" {}
    desk.apply(&of(&[b.address], "100ms")).await;
    eventually("it is gone", || async { shown(&desk, a.address).await.is_none() }).await;
    assert_eq!(removed(&desk).await, 0.0);
    let got = ask(&desk, &of_task("GetTask", "of-a")).await;
    assert_eq!((got.status, got.code()), (503, -31503), "{}", got.text());
    eventually("its connections are closed", || async { a.open() == 0 }).await;
    eventually("nothing works for it any more", || async {
        desk.gateway.services() < before
    })
    .await;
    // Until a configuration has it again.
    desk.apply(&of(&[b.address, a.address], "100ms")).await;
    let got = ask(&desk, &of_task("GetTask", "of-a")).await;
    assert_eq!(got.status, 200, "{}", got.text());
}

#[tokio::test]
async fn a_removed_endpoint_that_comes_back_takes_new_work() {
    let (a, b) = (named("of-a").await, named("of-b").await);
    let both = of(&[a.address, b.address], "1h");
    let desk = Desk::of(&both).await;
    desk.apply(&of(&[b.address], "1h")).await;
    assert_eq!(removed(&desk).await, 1.0);
    // A change elsewhere does not prolong it, and does not end it.
    let left = async || shown(&desk, a.address).await.unwrap()["removed_for_seconds"].as_f64();
    let first = left().await;
    desk.apply(&of(&[b.address], "30m")).await;
    let then = left().await;
    assert!(then <= first && then > Some(1800.0), "{then:?}");
    desk.apply(&both).await;
    assert_eq!(removed(&desk).await, 0.0);
    while made(&desk).await != "of-a" {}
}

#[tokio::test]
async fn a_removed_endpoint_that_is_down_fails_no_list() {
    let (a, b) = (listing("of-a").await, listing("of-b").await);
    let desk = Desk::of(&of(&[a.address, b.address], "1h")).await;
    let list = async || ask(&desk, r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}"#).await;
    assert_eq!(list().await.status, 200);
    let down = a.address;
    drop(a);
    assert_eq!(list().await.status, 503);
    desk.apply(&of(&[b.address], "1h")).await;
    let listed = list().await;
    assert_eq!(listed.status, 200, "{}", listed.text());
    assert_eq!(listed.header("a2a-gateway-partial"), Some("1"));
    assert!(shown(&desk, down).await.is_some());
}

#[tokio::test]
async fn a_removed_endpoint_that_is_down_changes_no_error_of_a_list() {
    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}"#;
    async fn without_lists() -> Agent {
        let others = agent::tasks(|| "t".to_owned());
        Agent::start(move |request: &Received| -> Reply {
            if request.json()["method"] != "ListTasks" {
                return others(request);
            }
            let id = request.id();
            Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32004,"message":"no lists"}}}}"#
            ))
        })
        .await
    }
    let (a, b) = (without_lists().await, without_lists().await);
    let desk = Desk::of(&of(&[a.address, b.address], "1h")).await;
    let listed = async || {
        let answer = ask(&desk, LIST).await;
        (answer.status, answer.code())
    };
    assert_eq!(listed().await, (200, -32004));
    drop(a);
    assert_eq!(listed().await, (503, -31503));
    desk.apply(&of(&[b.address], "1h")).await;
    assert_eq!(listed().await, (200, -32004));
    // Without any that answers there is no error to pass on.
    drop(b);
    assert_eq!(listed().await, (503, -31503));
}

#[tokio::test]
async fn an_ejected_endpoint_stays_out_when_another_one_comes() {
    let (a, b, c) = (named("of-a").await, named("of-b").await, named("of-c").await);
    let of = |endpoints: &[SocketAddr]| {
        let settings = "balance: round_robin, slow_start: 1h, ejection: { consecutive_failures: 2, base: 5m }";
        with_upstream(&of(endpoints, "1h"), settings)
    };
    let desk = Desk::of(&of(&[a.address, b.address])).await;
    let down = a.address;
    drop(a);
    let ejected = async || shown(&desk, down).await.unwrap()["ejected_for_seconds"].as_f64();
    eventually("it is ejected", || async {
        ask(&desk, &send("1", "x")).await;
        ejected().await.is_some()
    })
    .await;
    let before = ejected().await;
    desk.apply(&of(&[down, b.address, c.address])).await;
    let after = ejected().await;
    assert!(after.is_some() && after <= before, "{before:?} {after:?}");
    let failures = desk.gateway.metric("a2a_gateway_upstream_failures_total").await;
    let mut of_c = 0;
    for _ in 0..40 {
        if made(&desk).await == "of-c" {
            of_c += 1;
        }
    }
    assert_eq!(
        desk.gateway.metric("a2a_gateway_upstream_failures_total").await,
        failures,
        "nobody had to find out again"
    );
    assert!(of_c < 20, "{of_c} of 40: a tenth against a whole");
}
