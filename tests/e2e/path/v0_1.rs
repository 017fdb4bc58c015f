//! Callers of A2A 0.1, who name their tasks themselves, at agents of later generations.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::ownership::{ANN, BOB, by, start, yaml};
use crate::harness::agent::{Agent, CARD, CARD_0_3, CARD_HTTP_JSON, Received, Reply, event};
use crate::harness::client::{open, read};
use crate::harness::redis::Server;
use crate::harness::{Answer, Gateway, call, eventually, get, of_task, with_upstream};

pub(super) const STRICT: &str = "v0_1: true";

pub(super) fn rpc(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": "r", "method": method, "params": params}).to_string()
}

pub(super) fn send_to(task: &str, text: &str) -> String {
    let message = json!({"role": "user", "parts": [{"type": "text", "text": text}]});
    rpc(
        "tasks/send",
        &json!({"id": task, "sessionId": "my session", "message": message}),
    )
}

fn stream_to(task: &str) -> String {
    send_to(task, "x").replace("tasks/send", "tasks/sendSubscribe")
}

pub(super) fn about(method: &str, task: &str) -> String {
    rpc(method, &json!({"id": task}))
}

/// What an agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    V0_3,
    V1_0,
}

impl Speaks {
    pub(super) fn card(self) -> &'static str {
        match self {
            Self::V0_3 => CARD_0_3,
            Self::V1_0 => CARD,
        }
    }

    pub(super) fn task(self, id: &str, context: &str, state: &str) -> Value {
        match self {
            Self::V0_3 => json!({"kind": "task", "id": id, "contextId": context, "status": {"state": state}}),
            Self::V1_0 => {
                let state = format!("TASK_STATE_{}", state.to_uppercase());
                json!({"id": id, "contextId": context, "status": {"state": state}})
            }
        }
    }

    /// As an answer to a send, or as an event.
    pub(super) fn told(self, task: Value) -> Value {
        match self {
            Self::V0_3 => task,
            Self::V1_0 => json!({ "task": task }),
        }
    }

    pub(super) fn update(self, id: &str, context: &str, state: &str) -> Value {
        match self {
            Self::V0_3 => json!({"kind": "status-update", "taskId": id, "contextId": context, "final": true,
                "status": {"state": state}}),
            Self::V1_0 => {
                let state = format!("TASK_STATE_{}", state.to_uppercase());
                json!({"statusUpdate": {"taskId": id, "contextId": context, "status": {"state": state}}})
            }
        }
    }

    /// Makes the tasks `theirs-0`, `theirs-1`, …, in the context that it is told, else in `theirs`.
    async fn agent(self) -> Agent {
        let count = AtomicUsize::new(0);
        Agent::with_card(self.card(), move |request| self.answer(request, &count)).await
    }

    pub(super) fn answer(self, request: &Received, count: &AtomicUsize) -> Reply {
        let call = request.json();
        let params = &call["params"];
        let message = &params["message"];
        let context = message["contextId"].as_str().unwrap_or("theirs");
        let named = message["taskId"].as_str().or(params["id"].as_str());
        let id = match named {
            Some(id) => id.to_owned(),
            None => format!("theirs-{}", count.fetch_add(1, Ordering::SeqCst)),
        };
        let whole =
            |result: &Value| Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, call["id"]));
        let stream = |results: &[Value]| {
            let (events, chunks) = mpsc::channel(results.len());
            for result in results {
                events
                    .try_send(Some(event(&request.id(), &result.to_string())))
                    .unwrap();
            }
            Reply::Stream(chunks)
        };
        let working = || self.told(self.task(&id, context, "working"));
        match call["method"].as_str().unwrap_or_default() {
            "SendMessage" | "message/send" => whole(&working()),
            "GetTask" | "tasks/get" => whole(&self.task(&id, context, "working")),
            "CancelTask" | "tasks/cancel" => whole(&self.task(&id, context, "canceled")),
            "SendStreamingMessage" | "message/stream" | "SubscribeToTask" | "tasks/resubscribe" => {
                stream(&[working(), self.update(&id, context, "completed")])
            }
            other => panic!("{other}"),
        }
    }
}

fn events(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
        .collect()
}

pub(super) fn result(answer: &Answer) -> Value {
    let answer = answer.json();
    assert_eq!(
        (&answer["jsonrpc"], &answer["id"]),
        (&json!("2.0"), &json!("r")),
        "{answer}"
    );
    answer["result"].clone()
}

/// The answer that tasks get that are not there, whoever asks.
pub(super) fn not_found() -> Value {
    json!({"jsonrpc": "2.0", "id": "r", "error": {"code": -32001, "message": "Task not found"}})
}

#[tokio::test]
async fn a_task_is_its_callers_own_from_its_first_send_to_its_last_call() {
    for speaks in [Speaks::V0_3, Speaks::V1_0] {
        let agent = speaks.agent().await;
        let gateway = start(&agent, STRICT).await;
        let ann = async |body: &str| by(ANN, &gateway, body).await;
        let asked = || agent.received().pop().expect("a call");
        let task = |state: &str| json!({"id": "mine", "sessionId": "my session", "status": {"state": state}});
        // The agent calls the context of later answers otherwise.
        assert_eq!(result(&ann(&send_to("mine", "x")).await), task("working"), "{speaks:?}");
        let message = asked().json()["params"]["message"].clone();
        assert_eq!(
            (&message["contextId"], message.get("taskId")),
            (&json!("my session"), None)
        );
        let first = message["messageId"].as_str().expect("an id").to_owned();
        assert_eq!(first.len(), 16, "{first}");

        assert_eq!(result(&ann(&about("tasks/get", "mine")).await), task("working"));
        assert_eq!(asked().json()["params"]["id"], "theirs-0");
        assert_eq!(result(&ann(&send_to("mine", "more")).await), task("working"));
        let message = asked().json()["params"]["message"].clone();
        assert_eq!(
            (&message["taskId"], message.get("contextId")),
            (&json!("theirs-0"), None)
        );
        assert_ne!(message["messageId"], *first, "each message has an id of its own");

        let streamed = ann(&about("tasks/resubscribe", "mine")).await;
        assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
        let status = |state: &str, last: bool| {
            let result = json!({"id": "mine", "status": {"state": state}, "final": last});
            json!({"jsonrpc": "2.0", "id": "r", "result": result})
        };
        let expected = [status("working", false), status("completed", true)];
        assert_eq!(events(&streamed.text()), expected);
        assert_eq!(asked().json()["params"]["id"], "theirs-0");
        assert_eq!(result(&ann(&about("tasks/cancel", "mine")).await), task("canceled"));

        let told: Vec<_> = (gateway.access(5).await.iter())
            .map(|record| ["operation", "generation", "task"].map(|key| record[key].as_str().unwrap_or("-").to_owned()))
            .collect();
        let expected = ["send", "get", "send", "subscribe", "cancel"].map(|operation| [operation, "0.1", "theirs-0"]);
        assert_eq!(told, expected);
        assert_eq!(gateway.metric("a2a_gateway_task_aliases").await, 1.0);
    }
}

#[tokio::test]
async fn a_task_that_begins_with_a_stream_is_found_by_its_name() {
    for speaks in [Speaks::V0_3, Speaks::V1_0] {
        let agent = speaks.agent().await;
        let gateway = start(&agent, STRICT).await;
        let streamed = by(ANN, &gateway, &stream_to("mine")).await.text();
        let told: Vec<_> = (events(&streamed).iter())
            .map(|event| (event["result"]["id"].clone(), event["result"]["final"].clone()))
            .collect();
        assert_eq!(
            told,
            [(json!("mine"), json!(false)), (json!("mine"), json!(true))],
            "{streamed}"
        );
        assert!(!streamed.contains("theirs"), "{streamed}");
        let got = result(&by(ANN, &gateway, &about("tasks/get", "mine")).await);
        assert_eq!((&got["id"], &got["sessionId"]), (&json!("mine"), &json!("my session")));
    }
}

#[tokio::test]
async fn two_owners_of_one_name_do_not_see_each_other() {
    let agent = Speaks::V1_0.agent().await;
    let gateway = start(&agent, STRICT).await;
    let bobs = || send_to("mine", "x").replace("my session", "his session");
    assert_eq!(result(&by(ANN, &gateway, &send_to("mine", "x")).await)["id"], "mine");
    for method in ["tasks/get", "tasks/cancel"] {
        let before = agent.received().len();
        assert_eq!(
            by(BOB, &gateway, &about(method, "mine")).await.json(),
            not_found(),
            "somebody else's"
        );
        assert_eq!(by(BOB, &gateway, &about(method, "nobody's")).await.json(), not_found());
        assert_eq!(agent.received().len(), before, "no agent was asked");
    }
    let streamed = by(BOB, &gateway, &about("tasks/resubscribe", "mine")).await;
    assert_eq!(events(&streamed.text()), [not_found()]);
    assert_eq!(result(&by(BOB, &gateway, &bobs()).await)["sessionId"], "his session");
    for (key, theirs) in [(ANN, "theirs-0"), (BOB, "theirs-1")] {
        assert_eq!(
            result(&by(key, &gateway, &about("tasks/get", "mine")).await)["id"],
            "mine"
        );
        assert_eq!(agent.received().pop().expect("a call").json()["params"]["id"], theirs);
    }
}

#[tokio::test]
async fn a_session_of_somebody_else_is_not_found() {
    let agent = Speaks::V1_0.agent().await;
    let gateway = start(&agent, STRICT).await;
    by(ANN, &gateway, &send_to("mine", "x")).await;
    let before = agent.received().len();
    assert_eq!(by(BOB, &gateway, &send_to("his", "x")).await.json(), not_found());
    assert_eq!(agent.received().len(), before);
}

#[tokio::test]
async fn calls_that_0_1_shares_with_0_3_are_of_0_3_where_the_id_is_the_agents() {
    let agent = Speaks::V1_0.agent().await;
    let gateway = start(&agent, STRICT).await;
    by(ANN, &gateway, &send_to("mine", "x")).await;
    let got = result(&by(ANN, &gateway, &about("tasks/get", "theirs-0")).await);
    assert_eq!((&got["kind"], &got["id"]), (&json!("task"), &json!("theirs-0")));
    let got = by(ANN, &gateway, &of_task("GetTask", "mine")).await;
    assert_eq!(got.code(), -32001, "1.0 has no names of callers");
}

#[tokio::test]
async fn a_message_is_a_task_that_is_done_and_not_there_afterwards() {
    let agent = Agent::start(|request| {
        let parts = json!([{"text": "hi"}]);
        let message = json!({"messageId": "m", "contextId": "theirs", "role": "ROLE_AGENT", "parts": parts});
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"message":{message}}}}}"#,
            request.id()
        ))
    })
    .await;
    let gateway = start(&agent, STRICT).await;
    for _ in 0..2 {
        let status = json!({"state": "completed",
            "message": {"role": "agent", "parts": [{"type": "text", "text": "hi"}]}});
        let expected = json!({"id": "mine", "sessionId": "my session", "status": status});
        assert_eq!(result(&by(ANN, &gateway, &send_to("mine", "x")).await), expected);
        assert_eq!(by(ANN, &gateway, &about("tasks/get", "mine")).await.json(), not_found());
    }
    let sent: Vec<_> = agent
        .received()
        .iter()
        .map(|sent| sent.json()["params"]["message"]["taskId"].clone())
        .collect();
    assert_eq!(sent, [Value::Null, Value::Null], "each began anew");
}

#[tokio::test]
async fn one_call_at_a_time_begins_a_task_of_a_name() {
    let (answer, answered) = oneshot::channel();
    let answered = Mutex::new(Some(answered));
    let count = AtomicUsize::new(0);
    let agent = Agent::start(move |request| match answered.lock().unwrap().take() {
        Some(answered) => Reply::Later(answered),
        None => Speaks::V1_0.answer(request, &count),
    })
    .await;
    let gateway = start(&agent, STRICT).await;
    let send = send_to("mine", "x");
    let first = async { by(ANN, &gateway, &send).await };
    let second = async {
        eventually("the first is under way", || async { agent.received().len() == 1 }).await;
        let second = by(ANN, &gateway, &send).await;
        assert_eq!((second.status, second.code()), (409, -31409), "{}", second.text());
        assert_eq!(second.header("retry-after"), Some("1"));
        assert_eq!(agent.received().len(), 1, "no second task was begun");
        let told = json!({"task": Speaks::V1_0.task("late", "c", "working")});
        answer
            .send(json!({"jsonrpc": "2.0", "id": "r", "result": told}).to_string())
            .unwrap();
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(result(&first)["id"], "mine");
    assert_eq!(result(&by(ANN, &gateway, &send).await)["id"], "mine");
    assert_eq!(
        agent.received().pop().expect("a call").json()["params"]["message"]["taskId"],
        "late"
    );
}

#[tokio::test]
async fn a_name_is_free_again_where_no_task_was_begun() {
    let agent = Agent::start(|request| {
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32007,"message":"not today"}}}}"#,
            request.id()
        ))
    })
    .await;
    let gateway = start(&agent, STRICT).await;
    for _ in 0..2 {
        let got = by(ANN, &gateway, &send_to("mine", "x")).await;
        assert_eq!(
            got.json()["error"],
            json!({"code": -32603, "message": "not today"}),
            "0.1 has another -32007"
        );
    }
    let streamed = by(ANN, &gateway, &stream_to("mine")).await;
    assert_eq!(events(&streamed.text())[0]["error"]["code"], -32603);
}

#[tokio::test]
async fn an_answer_about_another_task_is_withheld() {
    let count = AtomicUsize::new(0);
    let agent = Agent::start(move |request| {
        let made = format!("theirs-{}", count.fetch_add(1, Ordering::SeqCst));
        let task = Speaks::V1_0.task(&made, "c", "working");
        let result = if request.json()["method"] == "SendMessage" {
            json!({ "task": task })
        } else {
            task
        };
        if request.json()["method"] == "SendStreamingMessage" {
            let (sender, events) = mpsc::channel(1);
            let told = event(&request.id(), &json!({ "task": result }).to_string());
            sender.try_send(Some(told)).expect("room");
            return Reply::Stream(events);
        }
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
            request.id()
        ))
    })
    .await;
    let gateway = start(&agent, STRICT).await;
    assert_eq!(result(&by(ANN, &gateway, &send_to("mine", "x")).await)["id"], "mine");
    for body in [send_to("mine", "x"), about("tasks/get", "mine")] {
        let got = by(ANN, &gateway, &body).await;
        assert_eq!((got.status, got.code()), (502, -32603), "{}", got.text());
        assert!(!got.text().contains("theirs"), "{}", got.text());
    }
    // The head is gone by then.
    let fields = [("content-type", "application/json"), ("x-api-key", ANN)];
    let streamed = open(gateway.address, "POST", "/agent", &fields, &stream_to("mine")).await;
    assert_eq!(read(streamed).await, (String::new(), false), "a broken end");
}

/// Begins a task under a name at an agent that has not answered, and leaves.
async fn begin_and_leave(gateway: &Gateway, agent: &Agent) {
    let send = send_to("mine", "x");
    tokio::select! {
        _ = by(ANN, gateway, &send) => panic!("nobody has answered"),
        () = eventually("it is under way", || async { agent.received().len() == 1 }) => {}
    }
    let record = gateway.access(1).await.remove(0);
    assert_eq!(record["outcome"], "downstream_gone");
}

/// An agent that answers its first call when it is told to.
async fn slow() -> (Agent, oneshot::Sender<String>) {
    let (answer, answered) = oneshot::channel();
    let answered = Mutex::new(Some(answered));
    let count = AtomicUsize::new(0);
    let agent = Agent::start(move |request| match answered.lock().unwrap().take() {
        Some(answered) => Reply::Later(answered),
        None => Speaks::V1_0.answer(request, &count),
    });
    (agent.await, answer)
}

#[tokio::test]
async fn a_task_that_was_begun_is_learned_of_without_its_caller() {
    let (agent, answer) = slow().await;
    let gateway = start(&agent, STRICT).await;
    begin_and_leave(&gateway, &agent).await;
    let again = by(ANN, &gateway, &send_to("mine", "x")).await;
    assert_eq!((again.status, again.code()), (409, -31409), "{}", again.text());
    let task = json!({ "task": Speaks::V1_0.task("first", "c", "input-required") });
    let id = agent.received()[0].id();
    answer
        .send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{task}}}"#))
        .expect("the agent's answer is awaited");
    eventually("the name stands for the task", || async {
        by(ANN, &gateway, &about("tasks/get", "mine")).await.status == 200
            && agent.received().last().expect("a call").json()["params"]["id"] == "first"
    })
    .await;
    assert_eq!(by(ANN, &gateway, &send_to("mine", "x")).await.status, 200);
    let message = agent.received().pop().expect("a call").json()["params"]["message"].clone();
    assert_eq!(message["taskId"], "first");
}

#[tokio::test]
async fn a_name_is_free_again_when_the_agent_has_nothing_to_say_to_nobody() {
    let (agent, _answer) = slow().await;
    let config = with_upstream(&yaml(&[agent.address], STRICT), "first_byte_timeout: 1s");
    let gateway = Gateway::start(&config).await;
    gateway.ready().await;
    begin_and_leave(&gateway, &agent).await;
    let send = send_to("mine", "x");
    assert_eq!(by(ANN, &gateway, &send).await.status, 409);
    eventually("the name is free", || async {
        by(ANN, &gateway, &send).await.status == 200
    })
    .await;
    let message = agent.received().pop().expect("a call").json()["params"]["message"].clone();
    assert_eq!((agent.received().len(), message.get("taskId")), (2, None));
}

#[tokio::test]
async fn nobody_is_served_0_1_who_has_no_tasks_of_its_own() {
    let agent = Speaks::V1_0.agent().await;
    let open = "v0_1: true\n    security: []\n    policy: { task_owner: principal }";
    let gateway = start(&agent, open).await;
    let fields = [("content-type", "application/json")];
    let got = call(gateway.address, "POST", "/agent", &fields, &send_to("mine", "x")).await;
    assert_eq!((got.status, got.code()), (200, -32004));
    assert!(got.text().contains("tasks have no owners"), "{}", got.text());
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn methods_of_0_1_are_unknown_unless_they_are_served() {
    let agent = Speaks::V1_0.agent().await;
    let lenient = send_to("mine", "x").replace("tasks/send", "sendTask");
    for (more, strict, leniently) in [
        ("", Some(-32601), Some(-32601)),
        (STRICT, None, Some(-32601)),
        ("v0_1: true\n    lenient_methods: true", None, None),
    ] {
        let gateway = start(&agent, more).await;
        for (body, expected) in [(send_to("mine", "x"), strict), (lenient.clone(), leniently)] {
            let got = by(ANN, &gateway, &body).await;
            assert_eq!(got.json()["error"]["code"].as_i64(), expected, "{more} {body}");
        }
        let card = |path: &str| {
            let path = format!("/agent/.well-known/{path}");
            async move { get(gateway.address, &path).await.json() }
        };
        let old = card("agent.json").await;
        let (names, interfaces) = (old["authentication"]["schemes"].clone(), old.get("supportedInterfaces"));
        if more.is_empty() {
            assert!(names.is_null() && interfaces.is_some(), "{old}");
        } else {
            assert_eq!((names, interfaces), (json!(["ApiKey"]), None), "{old}");
            assert_eq!(old["url"], "https://gateway.example/agent");
            assert_eq!(
                old["capabilities"],
                json!({"streaming": true, "pushNotifications": false})
            );
        }
        assert!(card("agent-card.json").await.get("supportedInterfaces").is_some());
    }
}

#[tokio::test]
async fn an_agent_of_http_json_serves_them_too() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON, |request| {
        let task = Speaks::V1_0.task("theirs", "my session", "working");
        let sent = request.line().ends_with("/message:send");
        Reply::Json(if sent { json!({ "task": task }) } else { task }.to_string())
    })
    .await;
    let gateway = start(&agent, STRICT).await;
    let expected = json!({"id": "mine", "sessionId": "my session", "status": {"state": "working"}});
    for body in [
        send_to("mine", "x"),
        about("tasks/get", "mine"),
        about("tasks/cancel", "mine"),
    ] {
        assert_eq!(result(&by(ANN, &gateway, &body).await), expected);
    }
    let asked: Vec<_> = agent
        .received()
        .iter()
        .map(|request| request.line().to_owned())
        .collect();
    assert_eq!(
        asked,
        ["POST /message:send", "GET /tasks/theirs", "POST /tasks/theirs:cancel"]
    );
}

#[tokio::test]
async fn names_outlive_the_gateway() {
    let agent = Speaks::V1_0.agent().await;
    let folder = tempfile::tempdir().expect("a folder");
    let state = format!("state: {{ store: embedded, path: \"{}\" }}", folder.path().display());
    let yaml = yaml(&[agent.address], STRICT).replace("state: { store: memory }", &state);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    by(ANN, &gateway, &send_to("mine", "x")).await;
    assert!(gateway.shutdown().await);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let got = result(&by(ANN, &gateway, &about("tasks/get", "mine")).await);
    assert_eq!((&got["id"], &got["sessionId"]), (&json!("mine"), &json!("my session")));
    assert_eq!(by(BOB, &gateway, &about("tasks/get", "mine")).await.json(), not_found());
}

#[tokio::test]
async fn a_name_goes_with_the_record_of_its_task() {
    let agent = Speaks::V1_0.agent().await;
    let yaml = yaml(&[agent.address], STRICT).replace("store: memory", "store: memory, max_tasks: 1");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    by(ANN, &gateway, &send_to("first", "x")).await;
    by(ANN, &gateway, &send_to("second", "x")).await;
    assert_eq!(
        by(ANN, &gateway, &about("tasks/get", "first")).await.json(),
        not_found()
    );
    by(ANN, &gateway, &send_to("first", "x")).await;
    let message = agent.received().pop().expect("a call").json()["params"]["message"].clone();
    assert_eq!(message.get("taskId"), None, "it begins a task anew");
    assert!(
        gateway
            .metric("a2a_gateway_task_evictions_total{state=\"alias\"}")
            .await
            >= 1.0
    );
}

fn on_redis(server: &Server, agent: &Agent) -> String {
    let url = server.url();
    let state = format!("state: {{ store: redis, redis: {{ url: \"{url}\", timeout: 500ms }} }}");
    yaml(&[agent.address], STRICT).replace("state: { store: memory }", &state)
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_share_a_store_know_the_same_names() {
    let (server, agent) = (Server::start(), Speaks::V1_0.agent().await);
    let yaml = on_redis(&server, &agent);
    let (one, other) = (Gateway::start(&yaml).await, Gateway::start(&yaml).await);
    one.ready().await;
    other.ready().await;
    assert_eq!(result(&by(ANN, &one, &send_to("mine", "x")).await)["id"], "mine");
    for body in [about("tasks/get", "mine"), send_to("mine", "more")] {
        let got = result(&by(ANN, &other, &body).await);
        assert_eq!((&got["id"], &got["sessionId"]), (&json!("mine"), &json!("my session")));
        assert!(agent.received().pop().expect("a call").head.starts_with("POST"));
    }
    let message = agent.received().pop().expect("a call").json()["params"]["message"].clone();
    assert_eq!(message["taskId"], "theirs-0");
    assert_eq!(by(BOB, &other, &about("tasks/get", "mine")).await.json(), not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_gateways_that_begin_a_task_under_one_name_the_second_is_refused() {
    let server = Server::start();
    let (answers, waiting): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
    let waiting = Mutex::new(waiting);
    let agent = Agent::start(move |request| match waiting.lock().unwrap().pop() {
        Some(waiting) => Reply::Later(waiting),
        None => Speaks::V1_0.answer(request, &AtomicUsize::new(0)),
    })
    .await;
    let yaml = on_redis(&server, &agent);
    let (one, other) = (Gateway::start(&yaml).await, Gateway::start(&yaml).await);
    one.ready().await;
    other.ready().await;
    let send = send_to("mine", "x");
    let answer = async {
        eventually("both are under way", || async { agent.received().len() == 2 }).await;
        for (number, answer) in answers.into_iter().enumerate() {
            let task = Speaks::V1_0.task(&format!("made-{number}"), "c", "working");
            let told = json!({"jsonrpc": "2.0", "id": "r", "result": {"task": task}});
            answer.send(told.to_string()).unwrap();
        }
    };
    let (first, second, ()) = tokio::join!(by(ANN, &one, &send), by(ANN, &other, &send), answer);
    let (told, refused) = if first.status == 200 {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(result(&told)["id"], "mine");
    assert_eq!((refused.status, refused.code()), (409, -31409), "{}", refused.text());
    let mut asked = Vec::new();
    for gateway in [&one, &other] {
        assert_eq!(
            result(&by(ANN, gateway, &about("tasks/get", "mine")).await)["id"],
            "mine"
        );
        asked.push(agent.received().pop().expect("a call").json()["params"]["id"].clone());
    }
    assert_eq!(asked[0], asked[1], "both know one meaning");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_no_name_is_taken_that_others_may_know() {
    let (mut server, agent) = (Server::start(), Speaks::V1_0.agent().await);
    let gateway = Gateway::start(&on_redis(&server, &agent)).await;
    gateway.ready().await;
    assert_eq!(result(&by(ANN, &gateway, &send_to("mine", "x")).await)["id"], "mine");
    server.kill();
    eventually("the store is away", || async {
        by(ANN, &gateway, &send_to("new", "x")).await.status == 503
    })
    .await;
    assert_eq!(agent.received().len(), 1, "no second task was begun");
    let got = result(&by(ANN, &gateway, &about("tasks/get", "mine")).await);
    assert_eq!(got["id"], "mine", "what is known is followed");
}

#[tokio::test]
async fn a_broken_stream_stays_broken_and_its_name_stays_known() {
    let agent = Agent::start(|request| {
        if request.json()["method"] != "SendStreamingMessage" {
            return Speaks::V1_0.answer(request, &AtomicUsize::new(0));
        }
        let (events, chunks) = mpsc::channel(2);
        let task = json!({"task": Speaks::V1_0.task("theirs", "c", "working")});
        events.try_send(Some(event(&request.id(), &task.to_string()))).unwrap();
        events.try_send(None).unwrap();
        Reply::Stream(chunks)
    })
    .await;
    let gateway = start(&agent, STRICT).await;
    let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
    let (text, clean) = read(open(gateway.address, "POST", "/agent", &fields, &stream_to("mine")).await).await;
    assert_eq!((events(&text).len(), clean), (1, false), "{text}");
    assert_eq!(
        result(&by(ANN, &gateway, &about("tasks/get", "mine")).await)["id"],
        "mine"
    );
    assert_eq!(agent.received().pop().expect("a call").json()["params"]["id"], "theirs");
}

/// An agent that is told the answer to its question begins with the task as that found it.
#[tokio::test]
async fn only_the_end_of_a_stream_is_final() {
    let asked = |last: bool| ("input-required", last);
    for (updates, clean, expected) in [
        (
            vec!["working", "completed"],
            true,
            vec![asked(false), ("working", false), ("completed", true)],
        ),
        (vec![], true, vec![asked(false), asked(true)]),
        (vec![], false, vec![asked(false)]),
    ] {
        let agent = Agent::start(move |request| {
            let (events, chunks) = mpsc::channel(4);
            let task = json!({"task": Speaks::V1_0.task("theirs", "c", "input_required")});
            let updates = updates.iter().map(|state| Speaks::V1_0.update("theirs", "c", state));
            for result in std::iter::once(task).chain(updates) {
                events
                    .try_send(Some(event(&request.id(), &result.to_string())))
                    .unwrap();
            }
            if !clean {
                events.try_send(None).unwrap();
            }
            Reply::Stream(chunks)
        })
        .await;
        let gateway = start(&agent, STRICT).await;
        let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
        let answer = open(gateway.address, "POST", "/agent", &fields, &stream_to("mine")).await;
        let (text, ended) = read(answer).await;
        let told = events(&text);
        let told: Vec<_> = (told.iter().map(|event| &event["result"]))
            .map(|event| (event["status"]["state"].as_str().unwrap_or(""), event["final"] == true))
            .collect();
        assert_eq!((told, ended), (expected, clean), "{text}");
    }
}
