//! Callers of A2A 0.1 at agents of A2A 0.1: a task has one name, and bytes pass untouched.

use std::sync::Mutex;

use a2a_gateway::a2a::Binding;
use a2a_gateway::a2a::Generation::{V0_3, V1_0};
use a2a_gateway::a2a::Operation::{Get, Send};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::ownership::{ANN, BOB, with_keys};
use super::v0_1_agents::{Tasks, agent, answer, begin, callers, last, message, methods, start, yaml};
use crate::harness::agent::{Agent, CARD_0_1, Reply};
use crate::harness::caller::{Caller, dialect};
use crate::harness::client::open;
use crate::harness::redis::Server;
use crate::harness::{Answer, Gateway, OPEN, call, eventually, get};

fn rpc(method: &str, params: &Value) -> String {
    // Spelled as no writer of JSON here would.
    format!(r#"{{ "params":{params} , "jsonrpc":"2.0","id":"\u0072", "method":"{method}"}}"#)
}

fn send_to(task: &str) -> String {
    let parts = json!([{"type": "text", "text": "x", "metadata": null}]);
    rpc(
        "tasks/send",
        &json!({"id": task, "sessionId": format!("s of {task}"), "message": {"role": "user", "parts": parts}, "draft": 1}),
    )
}

fn about(method: &str, task: &str) -> String {
    rpc(method, &json!({"id": task}))
}

async fn by(key: &str, gateway: &Gateway, body: &str) -> Answer {
    let fields = [("X-API-Key", key), ("content-type", "application/json")];
    call(gateway.address, "POST", "/", &fields, body).await
}

/// What the agent was sent, and what it answers to that when it is asked directly.
async fn direct(agent: &Agent) -> (String, Answer) {
    let body = String::from_utf8(agent.received().pop().expect("a call").body).unwrap();
    let fields = [("content-type", "application/json")];
    (body.clone(), call(agent.address, "POST", "/", &fields, &body).await)
}

#[tokio::test]
async fn bytes_pass_untouched_both_ways() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    for body in [
        send_to("t"),
        about("tasks/get", "t"),
        send_to("t"),
        about("tasks/resubscribe", "t"),
        send_to("u").replace("tasks/send", "tasks/sendSubscribe"),
        about("tasks/get", "u"),
        about("tasks/cancel", "u"),
    ] {
        let got = by(ANN, &gateway, &body).await;
        let (sent, expected) = direct(&agent).await;
        assert_eq!(sent, body);
        assert_eq!((got.status, got.text()), (200, expected.text()), "{body}");
    }
    let told: Vec<_> = (gateway.access(7).await.iter())
        .map(|record| ["operation", "generation", "task"].map(|key| record[key].as_str().unwrap_or("-").to_owned()))
        .collect();
    let expected = [
        ("send", "t"),
        ("get", "t"),
        ("send", "t"),
        ("subscribe", "t"),
        ("stream", "u"),
        ("get", "u"),
        ("cancel", "u"),
    ];
    assert_eq!(told, expected.map(|(operation, task)| [operation, "0.1", task]));
    assert_eq!(gateway.metric("a2a_gateway_task_aliases").await, 0.0);
}

#[tokio::test]
async fn names_of_no_version_reach_the_agent_as_its_own() {
    let agent = agent().await;
    let gateway = start(&agent, "v0_1: true\n    lenient_methods: true").await;
    for (own, lenient) in [("tasks/send", "sendTask"), ("tasks/sendSubscribe", "sendTaskSubscribe")] {
        let called = |name: &str| send_to("t").replace("\"tasks/send\"", &format!("\"{name}\""));
        let got = by(ANN, &gateway, &called(lenient)).await;
        let (sent, expected) = direct(&agent).await;
        assert_eq!((sent, got.text()), (called(own), expected.text()), "{lenient}");
    }
}

#[tokio::test]
async fn an_id_is_whose_send_came_first() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    let not_found = |got: Answer| {
        let text = got.text();
        let error = serde_json::from_str::<Value>(text.trim_start_matches("data: ").trim()).unwrap();
        assert_eq!((got.status, &error["error"]["code"]), (200, &json!(-32001)), "{text}");
    };
    // Only a send begins a task.
    for method in [
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "tasks/pushNotification/get",
    ] {
        not_found(by(ANN, &gateway, &about(method, "t")).await);
    }
    assert_eq!(agent.received().len(), 0);
    assert_eq!(by(ANN, &gateway, &send_to("t")).await.json()["result"]["id"], "t");
    let hook = json!({"id": "t", "pushNotificationConfig": {"url": "https://hook.example/"}});
    for body in [
        send_to("t"),
        send_to("t").replace("tasks/send", "tasks/sendSubscribe"),
        about("tasks/get", "t"),
        about("tasks/cancel", "t"),
        about("tasks/resubscribe", "t"),
        rpc("tasks/pushNotification/set", &hook),
        about("tasks/pushNotification/get", "t"),
        // A session is somebody's as well.
        send_to("another").replace("s of another", "s of t"),
    ] {
        not_found(by(BOB, &gateway, &body).await);
    }
    assert_eq!(agent.received().len(), 1, "the agent was not asked");
    assert_eq!(by(BOB, &gateway, &send_to("his")).await.json()["result"]["id"], "his");
}

#[tokio::test]
async fn one_call_at_a_time_begins_a_task() {
    let (agent, answered) = slow().await;
    let gateway = start(&agent, "").await;
    let send = send_to("t");
    let first = async { by(ANN, &gateway, &send).await };
    let others = async {
        eventually("the first is under way", || async { agent.received().len() == 1 }).await;
        for key in [ANN, BOB] {
            let second = by(key, &gateway, &send).await;
            assert_eq!((second.status, second.code()), (409, -31409), "{}", second.text());
        }
        assert_eq!(agent.received().len(), 1, "no second task was begun");
        let task = json!({"id": "t", "sessionId": "s", "status": {"state": "working"}});
        answered
            .send(json!({"jsonrpc": "2.0", "id": "r", "result": task}).to_string())
            .unwrap();
    };
    let (first, ()) = tokio::join!(first, others);
    assert_eq!(first.json()["result"]["id"], "t");
    assert_eq!(by(ANN, &gateway, &send).await.status, 200, "it is there");
    assert_eq!(by(BOB, &gateway, &send).await.json()["error"]["code"], -32001);
}

/// An agent that answers its first call when it is told to.
async fn slow() -> (Agent, oneshot::Sender<String>) {
    let (answered, later) = oneshot::channel();
    let later = Mutex::new(Some(later));
    let tasks = Tasks::default();
    let agent = Agent::with_card(CARD_0_1, move |request| match later.lock().unwrap().take() {
        Some(later) => Reply::Later(later),
        None => answer(request, &tasks),
    });
    (agent.await, answered)
}

#[tokio::test]
async fn a_task_is_its_callers_who_left_before_the_answer() {
    let (agent, answered) = slow().await;
    let gateway = start(&agent, "").await;
    let send = send_to("t");
    tokio::select! {
        _ = by(ANN, &gateway, &send) => panic!("nobody has answered"),
        () = eventually("it is under way", || async { agent.received().len() == 1 }) => {}
    }
    assert_eq!(gateway.access(1).await[0]["outcome"], "downstream_gone");
    assert_eq!(by(BOB, &gateway, &send).await.code(), -31409);
    let task = json!({"id": "t", "sessionId": "s of t", "status": {"state": "working"}});
    answered
        .send(json!({"jsonrpc": "2.0", "id": "r", "result": task}).to_string())
        .expect("the agent's answer is awaited");
    eventually("the task has an owner", || async {
        by(BOB, &gateway, &send).await.code() == -32001
    })
    .await;
    assert_eq!(agent.received().len(), 1, "nobody else's call got there");
    let got = by(ANN, &gateway, &send).await.json();
    assert_eq!(got["result"]["id"], "t", "its owner's does");
}

#[tokio::test]
async fn a_stream_makes_the_task_its_callers_before_it_tells_of_it() {
    let (_silent, events) = mpsc::channel(1);
    let events = Mutex::new(Some(events));
    let agent = Agent::with_card(CARD_0_1, move |_| {
        let events = events.lock().unwrap().take();
        events.map_or(Reply::Silence, Reply::Stream)
    })
    .await;
    let gateway = start(&agent, "").await;
    let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
    let send = send_to("t").replace("tasks/send", "tasks/sendSubscribe");
    let stream = open(gateway.address, "POST", "/", &fields, &send).await;
    assert_eq!(stream.status(), 200);
    for _ in 0..2 {
        assert_eq!(by(BOB, &gateway, &send_to("t")).await.code(), -32001);
    }
    drop(stream);
    assert_eq!(by(BOB, &gateway, &send_to("t")).await.code(), -32001);
    assert_eq!(agent.received().len(), 1, "the agent was not asked");
}

#[tokio::test]
async fn an_id_is_free_again_where_no_task_was_begun() {
    let agent = Agent::with_card(CARD_0_1, |_| {
        let error = r#"{"jsonrpc":"2.0","id":"r","error":{"code":-32007,"message":"who?"}}"#;
        Reply::Whole(400, "content-type: application/json\r\n", error.to_owned())
    })
    .await;
    let gateway = start(&agent, "").await;
    for key in [ANN, BOB, ANN] {
        let got = by(key, &gateway, &send_to("t")).await;
        assert_eq!(
            (got.status, got.code()),
            (400, -32007),
            "the agent's own: {}",
            got.text()
        );
    }
    let failures = gateway.metric("a2a_gateway_upstream_failures_total").await;
    assert_eq!(failures, 0.0, "an agent that refuses works");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_gateways_that_begin_a_task_under_one_id_one_makes_it_its_callers() {
    let server = Server::start();
    let (answers, waiting): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
    let (waiting, tasks) = (Mutex::new(waiting), Tasks::default());
    let agent = Agent::with_card(CARD_0_1, move |request| match waiting.lock().unwrap().pop() {
        Some(waiting) => Reply::Later(waiting),
        None => answer(request, &tasks),
    })
    .await;
    let state = format!("state: {{ store: redis, redis: {{ url: \"{}\" }} }}", server.url());
    let yaml = with_keys(&yaml(&[agent.address], "")).replace("state: { store: memory }", &state);
    let (one, other) = (Gateway::start(&yaml).await, Gateway::start(&yaml).await);
    one.ready().await;
    other.ready().await;
    let send = send_to("t");
    let telling = async {
        eventually("both are under way", || async { agent.received().len() == 2 }).await;
        for answer in answers {
            let task = json!({"id": "t", "sessionId": "s of t", "status": {"state": "working"}});
            let told = json!({"jsonrpc": "2.0", "id": "r", "result": task});
            answer.send(told.to_string()).expect("the agent waits");
        }
    };
    let (anns, bobs, ()) = tokio::join!(by(ANN, &one, &send), by(BOB, &other, &send), telling);
    let ((owner, told), (stranger, withheld)) = match anns.json()["result"].is_object() {
        true => ((ANN, anns), (BOB, bobs)),
        false => ((BOB, bobs), (ANN, anns)),
    };
    assert_eq!(told.json()["result"]["id"], "t", "{}", told.text());
    assert_eq!(withheld.json().get("result"), None, "{}", withheld.text());
    assert_eq!(
        by(owner, &one, &send).await.json()["result"]["id"],
        "t",
        "the agent has it"
    );
    for gateway in [&one, &other] {
        let get = about("tasks/get", "t");
        assert_eq!(by(owner, gateway, &get).await.json()["result"]["id"], "t");
        assert_eq!(by(stranger, gateway, &get).await.code(), -32001);
    }
}

#[tokio::test]
async fn shared_calls_are_of_the_generation_in_which_the_task_was_begun() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    let is_of_0_3 = |got: &Answer| got.json()["result"]["kind"] == "task";
    assert_eq!(by(ANN, &gateway, &send_to("t")).await.status, 200);
    for caller in callers() {
        let task = begin(caller, ANN, &gateway).await;
        let id = task["id"].as_str().unwrap();
        assert!(
            is_of_0_3(&by(ANN, &gateway, &about("tasks/get", id)).await),
            "{:?}",
            caller.0
        );
    }
    // Whoever speaks of it meanwhile: later generations have methods of their own for a send.
    let of_1_0 = Caller(dialect(V1_0, Binding::JsonRpc));
    let got = of_1_0.by(ANN, &gateway, Get, &json!({"id": "t"})).await.unwrap();
    assert_eq!((&got[0]["id"], &got[0]["contextId"]), (&json!("t"), &json!("s of t")));
    let of_0_3 = Caller(dialect(V0_3, Binding::JsonRpc));
    let more = message(Some(&json!({"id": "t", "contextId": "s of t"})));
    assert_eq!(
        of_0_3.by(ANN, &gateway, Send, &more).await.unwrap()[0]["task"]["id"],
        "t"
    );
    let got = by(ANN, &gateway, &about("tasks/get", "t")).await;
    assert!(
        !is_of_0_3(&got) && got.json()["result"]["sessionId"] == "s of t",
        "{}",
        got.text()
    );
}

#[tokio::test]
async fn webhooks_are_the_agents_to_call() {
    let agent = Agent::with_card(CARD_0_1, |request| {
        let asked = request.json();
        let result = match asked["method"].as_str().unwrap_or_default() {
            "tasks/send" => json!({"id": asked["params"]["id"], "sessionId": "s", "status": {"state": "working"}}),
            _ => json!({"id": asked["params"]["id"], "pushNotificationConfig": {"url": "https://hook.example/"}}),
        };
        Reply::Json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string())
    })
    .await;
    let gateway = start(&agent, "").await;
    let hook = json!({"url": "https://hook.example/", "token": "t"});
    let inline = send_to("t").replace("\"draft\":1", &format!("\"pushNotification\":{hook}"));
    assert!(inline.contains("pushNotification"), "{inline}");
    for body in [
        inline,
        rpc(
            "tasks/pushNotification/set",
            &json!({"id": "t", "pushNotificationConfig": hook}),
        ),
        about("tasks/pushNotification/get", "t"),
    ] {
        let got = by(ANN, &gateway, &body).await;
        let (sent, expected) = direct(&agent).await;
        assert_eq!((sent, got.text()), (body, expected.text()));
    }
}

#[tokio::test]
async fn where_tasks_are_nobodys_every_call_passes() {
    let agent = agent().await;
    let gateway = start(&agent, OPEN).await;
    let unknown = by(ANN, &gateway, &about("tasks/get", "t")).await;
    assert_eq!((unknown.status, unknown.code()), (400, -32001), "the agent's own");
    assert_eq!(by(ANN, &gateway, &send_to("t")).await.json()["result"]["id"], "t");
    for body in [send_to("t"), about("tasks/get", "t")] {
        assert_eq!(by(BOB, &gateway, &body).await.json()["result"]["id"], "t");
    }
    assert_eq!(last(&agent)["method"], "tasks/get");
}

#[tokio::test]
async fn a_task_that_no_replica_knows_is_begun_at_one() {
    let (a, b) = (agent().await, agent().await);
    let gateway = Gateway::start(&with_keys(&yaml(&[a.address, b.address], OPEN))).await;
    gateway.ready().await;
    assert_eq!(by(ANN, &gateway, &send_to("t")).await.json()["result"]["id"], "t");
    let sends = |agent: &Agent| methods(agent).iter().filter(|method| *method == "tasks/send").count();
    assert_eq!(sends(&a) + sends(&b), 1);
    // It stays there, and is found where nothing is known of it any more.
    let knows = if sends(&a) == 1 { &a } else { &b };
    let other = Gateway::start(&with_keys(&yaml(&[a.address, b.address], OPEN))).await;
    other.ready().await;
    for gateway in [&gateway, &other] {
        let before = sends(knows);
        assert_eq!(by(ANN, gateway, &send_to("t")).await.json()["result"]["id"], "t");
        assert_eq!(sends(knows), before + 1);
    }
}

#[tokio::test]
async fn the_card_at_their_place_is_one_of_0_1() {
    let agent = agent().await;
    let gateway = start(&agent, "").await;
    let card = get(gateway.address, "/.well-known/agent.json").await.json();
    assert_eq!(card["authentication"], json!({"schemes": ["ApiKey"]}));
    assert_eq!(
        card["capabilities"],
        json!({"streaming": true, "pushNotifications": true})
    );
    assert_eq!(card["url"], "https://gateway.example/");
    assert_eq!(card.get("protocolVersion"), None);
}
