//! A task without a record is looked for among the endpoints.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::faults::JSON;
use crate::harness::agent::{Agent, CARD_0_3, Received, Reply};
use crate::harness::tasks::{Tasks, error, task};
use crate::harness::{Gateway, OPEN, call, config_of, eventually, get, of_task, post, send, with_upstream};

const NOBODYS: &str =
    r#"[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]"#;

fn methods(agent: &Agent) -> Vec<String> {
    let received = agent.received();
    received
        .iter()
        .map(|one| one.json()["method"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn whoever_knows_the_task_gets_the_call_and_those_that_follow() {
    let calls = [
        ("GetTask", of_task("GetTask", "t")),
        ("CancelTask", of_task("CancelTask", "t")),
        ("SubscribeToTask", of_task("SubscribeToTask", "t")),
        (
            "GetTaskPushNotificationConfig",
            of_task("GetTaskPushNotificationConfig", "p").replace("\"id\":\"p\"", "\"taskId\":\"t\",\"id\":\"p\""),
        ),
        (
            "SendMessage",
            send("1", "x").replace("\"messageId\"", "\"taskId\":\"t\",\"messageId\""),
        ),
    ];
    for (method, body) in calls {
        let a = Agent::start(Tasks::default().script("a")).await;
        let b = Agent::start(Tasks::of([task("t", None)]).script("b")).await;
        let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
        let got = post(gateway.address, "/agent", &body).await;
        assert_eq!(got.status, 200, "{method}: {}", got.text());
        assert!(got.json()["error"].is_null(), "{method}: {}", got.text());
        assert_eq!(methods(&a), ["GetTask"], "{method}: asked, and no more");
        assert_eq!(methods(&b), ["GetTask", method], "{method}");
        let asked = &b.received()[0];
        assert_eq!(
            asked.json()["params"],
            serde_json::json!({ "id": "t", "historyLength": 0 })
        );
        assert_eq!(asked.field("x-api-key"), None);
        assert_eq!(
            gateway
                .metric(r#"a2a_gateway_probes_total{agent="agent",result="found"}"#)
                .await,
            1.0
        );

        post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
        assert_eq!((methods(&a).len(), methods(&b).len()), (1, 3), "{method}: it is known");
        let record = get(gateway.admin, "/tasks/agent/t").await;
        assert!(record.text().contains(&b.address.to_string()), "{}", record.text());
    }
}

#[tokio::test]
async fn what_nobody_knows_is_not_found() {
    let (a, b) = (
        Agent::start(Tasks::default().script("a")).await,
        Agent::start(Tasks::default().script("b")).await,
    );
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    for round in 1..=2 {
        let got = post(gateway.address, "/agent", &of_task("CancelTask", "t")).await;
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":"c","error":{{"code":-32001,"message":"Task not found","data":{NOBODYS}}}}}"#
        );
        assert_eq!((got.status, got.text()), (200, expected));
        assert_eq!(
            (methods(&a).len(), methods(&b).len()),
            (round, round),
            "nothing is remembered of it"
        );
    }
    assert_eq!(get(gateway.admin, "/tasks/agent/t").await.status, 404);
    assert_eq!(
        gateway
            .metric(r#"a2a_gateway_probes_total{agent="agent",result="unknown"}"#)
            .await,
        2.0
    );
    assert_eq!(
        gateway
            .metric(r#"a2a_gateway_rejects_total{fault="downstream",reason="task_not_found"}"#)
            .await,
        2.0
    );
}

#[tokio::test]
async fn older_agents_are_asked_in_their_own_words() {
    let (a, b) = (
        Agent::with_card(CARD_0_3, Tasks::default().script("a")).await,
        Agent::with_card(CARD_0_3, Tasks::of([task("t", None)]).script("b")).await,
    );
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    let got = post(gateway.address, "/agent", &of_task("tasks/cancel", "t")).await;
    assert_eq!(got.json()["result"]["id"], "t");
    assert_eq!(methods(&b), ["tasks/get", "tasks/cancel"]);
    let got = post(gateway.address, "/agent", &of_task("tasks/cancel", "u")).await;
    assert_eq!(
        got.text(),
        r#"{"jsonrpc":"2.0","id":"c","error":{"code":-32001,"message":"Task not found"}}"#
    );
}

#[tokio::test]
async fn the_callers_tenant_is_asked() {
    let scoped = |request: &Received| {
        let call = request.json();
        match call["params"]["tenant"].as_str() {
            Some("mine") => Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#,
                call["id"],
                task("t", None)
            )),
            _ => error(&call, -32001, "Task not found"),
        }
    };
    let (a, b) = (
        Agent::start(Tasks::default().script("a")).await,
        Agent::start(scoped).await,
    );
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    let of =
        |tenant: &str| of_task("GetTask", "t").replace("\"id\":\"t\"", &format!(r#""tenant":"{tenant}","id":"t""#));
    assert_eq!(post(gateway.address, "/agent", &of("other")).await.code(), -32001);
    assert_eq!(
        post(gateway.address, "/agent", &of("mine")).await.json()["result"]["id"],
        "t"
    );
}

#[tokio::test]
async fn somebody_who_does_not_answer_leaves_it_unclear() {
    let know = Tasks::of([task("known", None)]);
    let a = Agent::start(know.script("a")).await;
    type Script = fn(&Value) -> Reply;
    let scripts: [(&str, Script); 3] = [
        ("silence", |_| Reply::Silence),
        ("an error", |call| error(call, -32603, "no")),
        ("another task", |call| {
            Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#,
                call["id"],
                task("other", None)
            ))
        }),
    ];
    for (what, script) in scripts {
        let bad = Agent::start(move |request| script(&request.json())).await;
        let yaml = with_upstream(
            &config_of(&[a.address, bad.address], OPEN, ""),
            "probe: { timeout: 500ms }",
        );
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        let got = post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
        assert_eq!((got.status, got.code()), (503, -31503), "{what}: {}", got.text());
        assert!(got.header("retry-after").is_some(), "{what}");
        assert_eq!(
            gateway
                .metric(r#"a2a_gateway_probes_total{agent="agent",result="failed"}"#)
                .await,
            1.0
        );
        // Who knows it, knows it.
        let got = post(gateway.address, "/agent", &of_task("GetTask", "known")).await;
        assert_eq!(got.json()["result"]["id"], "known", "{what}");
    }
}

/// Gets that wait until the test has counted them.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<Vec<oneshot::Sender<String>>>>);

impl Waiting {
    fn script(&self, asked: Arc<AtomicUsize>) -> impl Fn(&Received) -> Reply + Send + Sync + use<> {
        let waiting = self.0.clone();
        move |request| {
            asked.fetch_add(1, Ordering::SeqCst);
            if request.json()["id"] != "probe" {
                return error(&request.json(), -32001, "its own words");
            }
            let (answer, later) = oneshot::channel();
            waiting.lock().unwrap().push(answer);
            Reply::Later(later)
        }
    }

    fn release(&self) {
        for waits in self.0.lock().unwrap().drain(..) {
            let not_found = r#"{"jsonrpc":"2.0","id":"probe","error":{"code":-32001,"message":"no"}}"#;
            // Whoever asked may have left.
            let _gone = waits.send(not_found.to_owned());
        }
    }
}

fn asks(address: SocketAddr, task: &str) -> tokio::task::JoinHandle<i64> {
    let body = of_task("GetTask", task);
    tokio::spawn(async move { post(address, "/agent", &body).await.code() })
}

#[tokio::test]
async fn searches_are_bounded_and_outlive_whoever_began_them() {
    let (waiting, asked) = (Waiting::default(), Arc::new(AtomicUsize::new(0)));
    let (a, b) = (
        Agent::start(waiting.script(asked.clone())).await,
        Agent::start(waiting.script(asked.clone())).await,
    );
    let anybody = format!("{OPEN}\n    security: []");
    let yaml = with_upstream(
        &config_of(&[a.address, b.address], &anybody, ""),
        "probe: { timeout: 10s, concurrent: 3 }",
    )
    .replace(":0\" } ]", ":0\", trusted_proxies: [ 127.0.0.0/8 ] } ]");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let count = |count: usize| {
        let asked = asked.clone();
        async move {
            eventually("the agents are asked", || async {
                asked.load(Ordering::SeqCst) == count
            })
            .await
        }
    };
    let mut calls = vec![asks(gateway.address, "one")];
    count(2).await;
    calls.push(asks(gateway.address, "two"));
    count(4).await;
    // Beyond what one caller may have: one endpoint gets the call itself, and answers for itself.
    let refused = r#"a2a_gateway_probes_total{agent="agent",result="refused"}"#;
    let beyond = post(gateway.address, "/agent", &of_task("GetTask", "three")).await;
    assert_eq!(beyond.json()["error"]["message"], "its own words");
    count(5).await;
    assert_eq!(gateway.metric(refused).await, 1.0);
    // Somebody else has the rest, and past that nobody.
    let from = |address: &'static str, task: &str| {
        let (body, gateway) = (of_task("GetTask", task), gateway.address);
        let head = [JSON, ("x-forwarded-for", address)];
        tokio::spawn(async move { call(gateway, "POST", "/agent", &head, &body).await.code() })
    };
    calls.push(from("1.1.1.1", "four"));
    count(7).await;
    assert_eq!(from("2.2.2.2", "five").await.unwrap(), -32001);
    count(8).await;
    assert_eq!(gateway.metric(refused).await, 2.0);
    // The same task again, and whoever began it leaves: the other one still gets its answer.
    calls.push(asks(gateway.address, "one"));
    calls.remove(0).abort();
    eventually("everybody has an answer", || {
        waiting.release();
        let all = calls.iter().all(tokio::task::JoinHandle::is_finished);
        async move { all }
    })
    .await;
    for call in calls {
        assert_eq!(call.await.unwrap(), -32001);
    }
}

#[tokio::test]
async fn a_search_keeps_the_place_of_who_began_it() {
    let (waiting, asked) = (Waiting::default(), Arc::new(AtomicUsize::new(0)));
    let (a, b) = (
        Agent::start(waiting.script(asked.clone())).await,
        Agent::start(waiting.script(asked.clone())).await,
    );
    let more = format!("{OPEN}\n    limits: [ {{ per: address, concurrent: 1 }} ]");
    let yaml = with_upstream(&config_of(&[a.address, b.address], &more, ""), "probe: { timeout: 1m }");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let left = asks(gateway.address, "one");
    eventually("the agents are asked", || async { asked.load(Ordering::SeqCst) == 2 }).await;
    left.abort();
    gateway.access(1).await;
    for task in ["two", "three"] {
        let got = post(gateway.address, "/agent", &of_task("GetTask", task)).await;
        assert_eq!(got.status, 429, "{}", got.text());
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "nobody is asked more");
    waiting.release();
    // The next search waits for its answers again.
    let next = eventually("the place is free", || async {
        let next = asks(gateway.address, "four");
        eventually("it is refused or asks", || async {
            next.is_finished() || asked.load(Ordering::SeqCst) == 4
        })
        .await;
        waiting.release();
        next.await.unwrap() == -32001
    });
    next.await;
}

#[tokio::test]
async fn one_endpoint_is_not_asked_twice() {
    let a = Agent::start(Tasks::default().script("a")).await;
    let gateway = Gateway::of(&[a.address], OPEN, "").await;
    let got = post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
    assert_eq!((got.code(), methods(&a).len()), (-32001, 1));
    assert!(got.json()["error"]["data"].is_null(), "the agent's own answer");
}
