//! Two gateways in front of the same replicas, with one Redis between them.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::agent::{self, Agent, Reply, task_event};
use crate::harness::redis::Server;
use crate::harness::{Answer, Gateway, KEY, call, client, config_of, eventually, get, of_task, post, send};

/// Of another caller, and its hash.
const OTHER: &str = "other-key";
const OTHER_HASH: &str = "sha256:580843d03d2216ff1a275d0991bad66e4d1af871171d929e9de604b7959f9bca";

pub async fn replicas() -> (Agent, Agent) {
    let make = |name: &'static str| {
        let count = AtomicUsize::new(0);
        agent::tasks(move || format!("{name}-{}", count.fetch_add(1, Ordering::SeqCst)))
    };
    (Agent::start(make("a")).await, Agent::start(make("b")).await)
}

async fn gateway(server: &Server, agents: &[&Agent]) -> Gateway {
    gateway_with(server, agents, "").await
}

pub async fn gateway_with(server: &Server, agents: &[&Agent], more: &str) -> Gateway {
    let addresses: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    let state = format!(
        "state: {{ store: redis, redis: {{ url: \"{}\", timeout: 500ms }} }}",
        server.url()
    );
    let keys = format!("keys: [ {{ id: bob, hash: \"{OTHER_HASH}\" }}, ");
    let yaml = config_of(&addresses, more, "")
        .replace("state: { store: memory }", &state)
        .replace("keys: [ ", &keys);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    gateway
}

async fn readiness(gateway: &Gateway) -> (u16, Value) {
    let answer = get(gateway.admin, "/ready").await;
    (answer.status, answer.json())
}

pub async fn made(gateway: &Gateway) -> String {
    let made = post(gateway.address, "/agent", &send("1", "x")).await.json();
    made["result"]["task"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_made_through_one_is_followed_through_the_other() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let one = gateway(&server, &[&a, &b]).await;
    let other = gateway(&server, &[&a, &b]).await;
    for _ in 0..20 {
        let task = made(&one).await;
        let home = if task.starts_with('a') { &a } else { &b };
        let before = home.received().len();
        let got = post(other.address, "/agent", &of_task("GetTask", &task)).await.json();
        assert_eq!(got["result"]["id"], task.as_str());
        assert_eq!(home.received().len(), before + 1, "{task} went home");
        let known = get(other.admin, &format!("/tasks/agent/{task}")).await;
        assert_eq!(known.status, 200, "{task}");
    }
    assert!(
        one.metric("a2a_gateway_store_round_trip_seconds_count{operation=\"learn\"}")
            .await
            >= 20.0
    );
    assert!(
        other
            .metric("a2a_gateway_store_round_trip_seconds_count{operation=\"lookup\"}")
            .await
            >= 20.0
    );
    assert_eq!(readiness(&one).await.1["store_degraded"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_reveals_its_task_when_every_gateway_can_find_it() {
    let server = Server::start();
    let a = Agent::start(|received| {
        if received.json()["method"] == "GetTask" {
            let task = r#"{"id":"t","status":{"state":"TASK_STATE_WORKING"}}"#;
            return Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{task}}}"#, received.id()));
        }
        let (events, chunks) = mpsc::channel(1);
        events.try_send(Some(task_event("1", "t"))).unwrap();
        Reply::Stream(chunks)
    })
    .await;
    let b =
        Agent::start(|_| Reply::Json(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}"#.to_owned()))
            .await;
    let one = gateway(&server, &[&a]).await;
    let other = gateway(&server, &[&a, &b]).await;
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let fields = [("X-API-Key", KEY), ("content-type", "application/json")];
    let opened = client::open(one.address, "POST", "/agent", &fields, &body).await;
    let (text, clean) = client::read(opened).await;
    assert!(text.contains("\"t\"") && clean, "{text}");
    for _ in 0..4 {
        let got = post(other.address, "/agent", &of_task("GetTask", "t")).await.json();
        assert_eq!(got["result"]["id"], "t", "{got}");
    }
    assert_eq!(b.received().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_while_the_store_is_away_and_nothing_is_lost() {
    let (mut server, (a, b)) = (Server::start(), replicas().await);
    let one = gateway(&server, &[&a, &b]).await;
    let other = gateway(&server, &[&a, &b]).await;
    let before = made(&one).await;
    server.freeze();
    made(&one).await;
    server.thaw();
    server.kill();
    let meanwhile = made(&one).await;
    let got = post(one.address, "/agent", &of_task("GetTask", &before)).await.json();
    assert_eq!(got["result"]["id"], before.as_str(), "what is known is followed");
    let unknown = post(other.address, "/agent", &of_task("GetTask", &meanwhile)).await;
    assert_eq!(unknown.status, 503, "somebody knows it: {}", unknown.text());
    assert!(unknown.header("retry-after").is_some());
    let (status, shown) = readiness(&one).await;
    assert_eq!(status, 200, "still ready");
    assert_eq!(shown["store_degraded"], true);
    assert!(shown["store_outage"].is_string(), "{shown}");
    assert!(one.metric("a2a_gateway_store_unwritten").await >= 1.0);

    // It comes back with nothing.
    server.start_again();
    for task in [&before, &meanwhile] {
        eventually("the other gateway finds the task", || async {
            let got = post(other.address, "/agent", &of_task("GetTask", task)).await;
            got.status == 200 && got.json()["result"]["id"] == task.as_str()
        })
        .await;
    }
    eventually("it says so", || async {
        readiness(&one).await.1["store_degraded"] == false
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_starts_and_serves_without_its_store() {
    let (mut server, (a, b)) = (Server::start(), replicas().await);
    server.kill();
    let one = gateway(&server, &[&a, &b]).await;
    let task = made(&one).await;
    let got = post(one.address, "/agent", &of_task("GetTask", &task)).await.json();
    assert_eq!(got["result"]["id"], task.as_str());
    server.start_again();
    eventually("what was learned is written", || async { !server.records().is_empty() }).await;
    assert!(one.shutdown().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_over_all_gateways_and_each_alone_without_the_store() {
    let (mut server, (a, b)) = (Server::start(), replicas().await);
    let limits =
        "limits: [ { per: principal, rate: 4/h }, { per: agent, rate: 100/h }, { per: address, rate: 200/h } ]";
    let one = gateway_with(&server, &[&a, &b], limits).await;
    let other = gateway_with(&server, &[&a, &b], limits).await;
    let status = async |gateway: &Gateway| post(gateway.address, "/agent", &send("1", "x")).await.status;
    for _ in 0..2 {
        assert_eq!(status(&one).await, 200);
        assert_eq!(status(&other).await, 200);
    }
    let refused = post(one.address, "/agent", &send("1", "x")).await;
    assert_eq!(refused.status, 429, "the fifth of all");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(status(&other).await, 429);
    assert_eq!(a.received().len() + b.received().len(), 4);
    let life: i64 = server.ask(&["PTTL", "a2a:l:agent:principal-rate:p:key%3Atester"]);
    assert!(life > 0, "it is forgotten when it is whole again");

    server.kill();
    eventually("it is away", || async {
        readiness(&one).await.1["store_degraded"] == true
    })
    .await;
    // Each has counted three calls of its own.
    assert_eq!(status(&one).await, 200);
    assert_eq!(status(&one).await, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn begun_tasks_and_polls_count_over_all_gateways() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let limits = "limits: [ { per: principal, task_creations: 3/h }, { per: principal, polls: 2/h } ]";
    let one = gateway_with(&server, &[&a, &b], limits).await;
    let other = gateway_with(&server, &[&a, &b], limits).await;
    let refused_by = async |gateway: &Gateway, body: &str| {
        let answer = post(gateway.address, "/agent", body).await;
        assert_eq!(answer.status, 429, "{}", answer.text());
        let policy = answer.header("ratelimit-policy").expect("a policy");
        policy.split('"').nth(1).expect("a name").to_owned()
    };
    let task = made(&one).await;
    made(&one).await;
    made(&other).await;
    assert_eq!(
        refused_by(&other, &send("1", "x")).await,
        "principal-task-creations",
        "the fourth of all"
    );
    let get = of_task("GetTask", &task);
    for gateway in [&one, &other] {
        assert_eq!(post(gateway.address, "/agent", &get).await.status, 200);
    }
    assert_eq!(refused_by(&one, &get).await, "principal-polls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_cannot_be_read_leaves_each_gateway_its_own() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let limits = "limits: [ { per: principal, rate: 2/h } ]";
    let one = gateway_with(&server, &[&a, &b], limits).await;
    let key = "a2a:l:agent:principal-rate:p:key%3Atester";
    let _: i64 = server.ask(&["LPUSH", key, "x"]);
    let statuses = async |gateway: &Gateway| {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(post(gateway.address, "/agent", &send("1", "x")).await.status);
        }
        statuses
    };
    assert_eq!(statuses(&one).await, [200, 200, 429]);
    assert_eq!(readiness(&one).await.1["store_degraded"], false, "the store is well");
    assert_eq!(one.metric("a2a_gateway_store_errors_total").await, 0.0);
    let kind: String = server.ask(&["TYPE", key]);
    assert_eq!(kind, "list", "what somebody else wrote is left alone");

    // It holds over all again as soon as it can be read.
    let _: i64 = server.ask(&["DEL", key]);
    let other = gateway_with(&server, &[&a, &b], limits).await;
    assert_eq!(statuses(&other).await, [200, 200, 429]);
    let third = gateway_with(&server, &[&a, &b], limits).await;
    assert_eq!(statuses(&third).await, [429, 429, 429]);
}

pub async fn by_another(gateway: &Gateway, body: &str) -> Answer {
    let fields = [("X-API-Key", OTHER), ("content-type", "application/json")];
    call(gateway.address, "POST", "/agent", &fields, body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_made_for_a_caller_the_other_shows_to_nobody_else() {
    let (mut server, (a, b)) = (Server::start(), replicas().await);
    let one = gateway(&server, &[&a, &b]).await;
    let other = gateway(&server, &[&a, &b]).await;
    let task = made(&one).await;
    let asked = a.received().len() + b.received().len();
    for gateway in [&other, &one] {
        let foreign = by_another(gateway, &of_task("GetTask", &task)).await;
        let unknown = by_another(gateway, &of_task("GetTask", "never-made")).await;
        assert_eq!(foreign.json()["error"]["code"], -32001, "{}", foreign.text());
        assert_eq!((foreign.status, foreign.text()), (unknown.status, unknown.text()));
    }
    assert_eq!(a.received().len() + b.received().len(), asked, "no agent is asked");

    // An operator gives it to the other caller, at one gateway.
    let fields = [("content-type", "application/json")];
    let path = format!("/tasks/agent/{task}/owner");
    let body = json!({ "owner": "key:bob" }).to_string();
    let given = call(one.admin, "POST", &path, &fields, &body).await;
    assert_eq!(given.status, 200, "{}", given.text());
    assert_eq!(by_another(&one, &of_task("GetTask", &task)).await.status, 200);
    let third = gateway(&server, &[&a, &b]).await;
    let got = by_another(&third, &of_task("GetTask", &task)).await;
    assert_eq!(got.json()["result"]["id"], task.as_str(), "{}", got.text());

    // While the store is away, unknown and foreign are one answer still.
    server.kill();
    eventually("it is away", || async {
        readiness(&other).await.1["store_degraded"] == true
    })
    .await;
    let task = made(&one).await;
    for task in [&task, "never-made"] {
        let foreign = by_another(&one, &of_task("GetTask", task)).await;
        let elsewhere = by_another(&other, &of_task("GetTask", task)).await;
        assert_eq!(foreign.status, 503, "{}", foreign.text());
        assert_eq!((foreign.status, foreign.text()), (elsewhere.status, elsewhere.text()));
    }
    let refused = call(other.admin, "POST", &path, &fields, &body).await;
    assert_eq!(refused.status, 503, "others would undo it");
    let begun = send("1", "x").replace("\"messageId\"", "\"contextId\":\"somebodys\",\"messageId\"");
    assert_eq!(
        post(other.address, "/agent", &begun).await.status,
        503,
        "perhaps somebody else's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_store_gives_nobodys_context_to_whoever_asks_first() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let one = gateway(&server, &[&a, &b]).await;
    let third = gateway(&server, &[&a, &b]).await;
    let task = made(&one).await;
    let named =
        |context: &str| send("1", "x").replace("\"messageId\"", &format!("\"contextId\":\"{context}\",\"messageId\""));
    let (hers, nobodys) = (named(&format!("ctx-{task}")), named("never-begun"));
    let asked = || a.received().len() + b.received().len();
    let before = asked();
    let _: String = server.ask(&["FLUSHALL"]);
    // The third does not know it; the first does, and must not show that.
    for gateway in [&third, &one] {
        let foreign = by_another(gateway, &hers).await;
        let unknown = by_another(gateway, &nobodys).await;
        assert_eq!((foreign.status, foreign.code()), (503, -31503), "{}", foreign.text());
        assert!(foreign.header("retry-after").is_some());
        assert_eq!((foreign.status, foreign.text()), (unknown.status, unknown.text()));
        let task = by_another(gateway, &of_task("GetTask", &task)).await;
        assert_eq!(task.status, 503, "{}", task.text());
    }
    assert_eq!(asked(), before, "no agent was asked");
    let shown = "a2a_gateway_store_recovering";
    for gateway in [&third, &one] {
        eventually("it is shown", || async { gateway.metric(shown).await == 1.0 }).await;
        assert_eq!(readiness(gateway).await.1["store_recovering"], true);
    }
    assert_eq!(
        post(one.address, "/agent", &hers).await.status,
        200,
        "what is known goes on"
    );
    assert_eq!(
        by_another(&third, &send("1", "x")).await.status,
        200,
        "so does what is new"
    );

    eventually("it is written back", || async {
        server.records().contains(&format!("a2a:c:agent:ctx-{task}"))
    })
    .await;
    let left = || server.ask::<i64>(&["TTL", "a2a:recovering"]);
    eventually("half of the declaration's time is over", || async { left() <= 5 }).await;
    eventually("all of it is", || async { left() < 0 }).await;
    for gateway in [&third, &one] {
        eventually("it is shown", || async { gateway.metric(shown).await == 0.0 }).await;
        assert_eq!(by_another(gateway, &hers).await.code(), -32001);
        assert_eq!(
            post(gateway.address, "/agent", &hers).await.status,
            200,
            "hers as before"
        );
    }
    assert_eq!(by_another(&third, &nobodys).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_and_unknown_cost_the_same_round_trips() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let one = gateway(&server, &[&a, &b]).await;
    let other = gateway(&server, &[&a, &b]).await;
    let task = made(&one).await;
    let asked = async |gateway: &Gateway, task: &str| {
        let lookups = "a2a_gateway_store_round_trip_seconds_count{operation=\"lookup\"}";
        let before = gateway.metric(lookups).await;
        assert_eq!(by_another(gateway, &of_task("GetTask", task)).await.code(), -32001);
        gateway.metric(lookups).await - before
    };
    for gateway in [&one, &other, &other] {
        assert_eq!(asked(gateway, &task).await, asked(gateway, "never-made").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_holds_no_record_does_not_take_the_store_away() {
    let (server, (a, b)) = (Server::start(), replicas().await);
    let one = gateway(&server, &[&a, &b]).await;
    let _: i64 = server.ask(&["LPUSH", "a2a:t:agent:strange", "x"]);
    for _ in 0..5 {
        let got = post(one.address, "/agent", &of_task("GetTask", "strange")).await;
        assert_eq!(got.status, 503, "perhaps somebody's: {}", got.text());
        assert_eq!(readiness(&one).await.1["store_degraded"], false);
    }
    assert_eq!(one.metric("a2a_gateway_store_errors_total").await, 0.0);
}
