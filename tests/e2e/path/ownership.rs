//! Tasks belong to whoever made them: for everybody else they do not exist.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2a_gateway::a2a::jsonrpc::MAX_ID_BYTES;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::harness::agent::{self, Agent, CARD_HYBRID, Received, Reply, task_event};
use crate::harness::{Answer, Gateway, call, config_of, eventually, get, of_task, send};

pub const ANN: &str = "test-key";
pub const BOB: &str = "other-key";
/// Ann, Bob and two more; who is a colleague of whom stands in the attributes.
const KEYS: &str = r#"[
      { id: ann, hash: "sha256:62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef", attributes: [ tenant=acme ] },
      { id: bob, hash: "sha256:580843d03d2216ff1a275d0991bad66e4d1af871171d929e9de604b7959f9bca", attributes: [ tenant=other, groups=ops, groups=dev ] },
      { id: carl, hash: "sha256:a87116b7a618deae2d130f14db4b56bd7eb4f1c7502f95245fe1c5bfe154cd92", attributes: [ tenant=acme ] },
      { id: dora, hash: "sha256:3df50265d17675f77124db6543e67b8e7452beaf8741119581f8dc216367904a" } ]"#;
const CARL: &str = "carl-key";
const DORA: &str = "dora-key";

pub(super) fn yaml(endpoints: &[SocketAddr], more: &str) -> String {
    with_keys(&config_of(endpoints, more, ""))
}

/// The same configuration with a key for each caller.
pub fn with_keys(plain: &str) -> String {
    let (before, rest) = plain.split_once("keys: [").expect("the keys");
    let (_, after) = rest.split_once("] }").expect("their end");
    format!("{before}keys: {} }}{after}", KEYS)
}

pub(super) async fn start(agent: &Agent, more: &str) -> Gateway {
    let gateway = Gateway::start(&yaml(&[agent.address], more)).await;
    gateway.ready().await;
    gateway
}

pub async fn by(key: &str, gateway: &Gateway, body: &str) -> Answer {
    let fields = [("X-API-Key", key), ("content-type", "application/json")];
    call(gateway.address, "POST", "/agent", &fields, body).await
}

/// Tasks `t-0`, `t-1`, …, each in its context `ctx-t-…`.
async fn numbered() -> Agent {
    let count = AtomicUsize::new(0);
    let make = agent::tasks(move || format!("t-{}", count.fetch_add(1, Ordering::SeqCst)));
    Agent::with_card(CARD_HYBRID, make).await
}

fn task_of(answer: &Answer) -> String {
    answer.json()["result"]["task"]["id"]
        .as_str()
        .unwrap_or_else(|| panic!("no task: {}", answer.text()))
        .to_owned()
}

fn rpc(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"c","method":"{method}","params":{params}}}"#)
}

/// Every way to name a task, a context, a task that is referred to or one to be told of by push, in both generations. `TASK` and `CONTEXT` stand for ids.
const WAYS: [(&str, &str); 27] = [
    ("GetTask", r#"{"id":"TASK"}"#),
    ("CancelTask", r#"{"id":"TASK"}"#),
    ("SubscribeToTask", r#"{"id":"TASK"}"#),
    (
        "CreateTaskPushNotificationConfig",
        r#"{"taskId":"TASK","url":"https://x.example/"}"#,
    ),
    ("GetTaskPushNotificationConfig", r#"{"taskId":"TASK","id":"p"}"#),
    ("ListTaskPushNotificationConfigs", r#"{"taskId":"TASK"}"#),
    ("DeleteTaskPushNotificationConfig", r#"{"taskId":"TASK","id":"p"}"#),
    (
        "SendMessage",
        r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"TASK"}}"#,
    ),
    (
        "SendMessage",
        r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"referenceTaskIds":["TASK"]}}"#,
    ),
    (
        "SendMessage",
        r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"TASK","contextId":"CONTEXT"}}"#,
    ),
    (
        "SendStreamingMessage",
        r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"TASK"}}"#,
    ),
    (
        "SendStreamingMessage",
        r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"referenceTaskIds":["TASK"]}}"#,
    ),
    (
        "SendMessage",
        r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"taskPushNotificationConfig":{"taskId":"TASK","url":"https://x.example/"}}}"#,
    ),
    (
        "SendStreamingMessage",
        r#"{"configuration":{"task_push_notification_config":{"task_id":"TASK","url":"https://x.example/"}},"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#,
    ),
    ("tasks/get", r#"{"id":"TASK"}"#),
    ("tasks/cancel", r#"{"id":"TASK"}"#),
    ("tasks/resubscribe", r#"{"id":"TASK"}"#),
    (
        "tasks/pushNotificationConfig/set",
        r#"{"taskId":"TASK","pushNotificationConfig":{"url":"https://x.example/"}}"#,
    ),
    ("tasks/pushNotificationConfig/get", r#"{"id":"TASK"}"#),
    ("tasks/pushNotificationConfig/list", r#"{"id":"TASK"}"#),
    (
        "tasks/pushNotificationConfig/delete",
        r#"{"id":"TASK","pushNotificationConfigId":"p"}"#,
    ),
    (
        "message/send",
        r#"{"message":{"messageId":"m","role":"user","kind":"message","parts":[{"kind":"text","text":"x"}],"taskId":"TASK"}}"#,
    ),
    (
        "message/send",
        r#"{"message":{"messageId":"m","role":"user","kind":"message","parts":[{"kind":"text","text":"x"}],"referenceTaskIds":["TASK"]}}"#,
    ),
    (
        "message/stream",
        r#"{"message":{"messageId":"m","role":"user","kind":"message","parts":[{"kind":"text","text":"x"}],"taskId":"TASK"}}"#,
    ),
    (
        "message/stream",
        r#"{"message":{"messageId":"m","role":"user","kind":"message","parts":[{"kind":"text","text":"x"}],"referenceTaskIds":["TASK"]}}"#,
    ),
    (
        "message/send",
        r#"{"message":{"messageId":"m","role":"user","kind":"message","parts":[{"kind":"text","text":"x"}]},"configuration":{"pushNotificationConfig":{"taskId":"TASK","url":"https://x.example/"}}}"#,
    ),
    (
        "message/stream",
        r#"{"message":{"messageId":"m","role":"user","kind":"message","parts":[{"kind":"text","text":"x"}]},"configuration":{"pushNotificationConfig":{"taskId":"TASK","url":"https://x.example/"}}}"#,
    ),
];

fn without_its_own_id(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let headers = answer
        .headers
        .iter()
        .filter(|(name, _)| *name != "x-request-id" && *name != "date")
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    (answer.status, headers, answer.body.clone())
}

#[tokio::test]
async fn somebody_elses_task_is_byte_for_byte_an_unknown_one_whatever_is_asked() {
    let agent = numbered().await;
    let gateway = start(&agent, "").await;
    let task = task_of(&by(ANN, &gateway, &send("1", "x")).await);
    let calls = agent.received().len();
    for (method, params) in WAYS {
        let body = |task: &str| {
            let context = format!("ctx-{task}");
            rpc(method, &params.replace("TASK", task).replace("CONTEXT", &context))
        };
        let foreign = by(BOB, &gateway, &body(&task)).await;
        let unknown = by(BOB, &gateway, &body("t-77")).await;
        // A caller of 0.3 that asks for a stream reads an error there only.
        let as_event = ["message/stream", "tasks/resubscribe"].contains(&method);
        let media_type = if as_event {
            "text/event-stream"
        } else {
            "application/json"
        };
        assert_eq!(foreign.header("content-type"), Some(media_type), "{method} {params}");
        let text = foreign.text();
        let json = if as_event {
            text.strip_prefix("data: ").expect("an event")
        } else {
            &text
        };
        let error: Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(
            (foreign.status, error["error"]["code"].as_i64()),
            (200, Some(-32001)),
            "{method} {params}"
        );
        assert_eq!(
            without_its_own_id(&foreign),
            without_its_own_id(&unknown),
            "{method} {params}"
        );
        assert_eq!(agent.received().len(), calls, "{method} {params}: no agent was asked");
    }
    for (count, (method, params)) in WAYS.into_iter().enumerate() {
        let context = format!("ctx-{task}");
        let body = rpc(method, &params.replace("TASK", &task).replace("CONTEXT", &context));
        by(ANN, &gateway, &body).await;
        assert_eq!(agent.received().len(), calls + count + 1, "{method} {params}: her own");
    }
    let refused = gateway.access(1 + WAYS.len() * 3).await;
    let details = |detail: &str| refused.iter().filter(|record| record["detail"] == detail).count();
    assert_eq!(
        (details("foreign"), details("unknown")),
        (WAYS.len(), WAYS.len()),
        "operators see which"
    );
}

#[tokio::test]
async fn a_push_configuration_for_the_task_to_be_made_goes_on() {
    let agent = numbered().await;
    let gateway = start(&agent, "").await;
    // As SDKs write it: without the task, or with an empty one.
    for named in ["", r#""taskId":"","#] {
        let message = r#""message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}"#;
        let push = format!(r#""taskPushNotificationConfig":{{{named}"url":"https://x.example/"}}"#);
        let params = format!(r#"{{{message},"configuration":{{{push}}}}}"#);
        task_of(&by(BOB, &gateway, &rpc("SendMessage", &params)).await);
    }
}

#[tokio::test]
async fn a_context_of_somebody_else_takes_no_message() {
    let agent = numbered().await;
    let gateway = start(&agent, "").await;
    let task = task_of(&by(ANN, &gateway, &send("1", "x")).await);
    let calls = agent.received().len();
    let into =
        |context: &str| send("1", "x").replace("\"messageId\"", &format!("\"contextId\":\"{context}\",\"messageId\""));
    for method in ["SendMessage", "SendStreamingMessage"] {
        let body = into(&format!("ctx-{task}")).replace("SendMessage", method);
        assert_eq!(by(BOB, &gateway, &body).await.code(), -32001, "{method}");
    }
    assert_eq!(agent.received().len(), calls, "no agent was asked");
    // A context that nobody has is one that the caller begins.
    assert_eq!(by(BOB, &gateway, &into("new")).await.status, 200);
    assert_eq!(agent.received().len(), calls + 1);
}

#[tokio::test]
async fn a_conversation_that_two_callers_begin_at_once_belongs_to_the_first() {
    let (first, mut begun) = mpsc::channel::<tokio::sync::oneshot::Sender<String>>(1);
    let agent = Agent::start(move |_: &Received| {
        let (answer, later) = tokio::sync::oneshot::channel();
        first.try_send(answer).expect("one call");
        Reply::Later(later)
    })
    .await;
    let gateway = start(&agent, "").await;
    let body = send("1", "x").replace("\"messageId\"", "\"contextId\":\"fresh\",\"messageId\"");
    let (address, sent) = (gateway.address, body.clone());
    let anns = tokio::spawn(async move {
        let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
        call(address, "POST", "/agent", &fields, &sent).await
    });
    let answer = begun.recv().await.expect("her call arrived");
    assert_eq!(by(BOB, &gateway, &body).await.code(), -32001);
    answer
        .send(r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"fresh","status":{"state":"TASK_STATE_WORKING"}}}}"#.to_owned())
        .expect("she waits");
    assert_eq!(task_of(&anns.await.expect("her call")), "t");
    assert_eq!(agent.received().len(), 1);
}

#[tokio::test]
async fn an_open_agent_has_no_owners_unless_told() {
    let agent = numbered().await;
    for (more, code) in [
        ("security: [ { key: [] }, {} ]", None),
        (
            "security: [ { key: [] }, {} ]\n    policy: { task_owner: principal }",
            Some(-32001),
        ),
        ("policy: { task_owner: none }", None),
    ] {
        let gateway = start(&agent, more).await;
        let task = task_of(&by(ANN, &gateway, &send("1", "x")).await);
        let got = by(BOB, &gateway, &of_task("GetTask", &task)).await;
        assert_eq!(got.json()["error"]["code"].as_i64(), code, "{more}: {}", got.text());
    }
}

#[tokio::test]
async fn a_claim_can_own_tasks_for_everybody_who_has_it() {
    let agent = numbered().await;
    let gateway = start(&agent, "policy: { task_owner: \"claim:tenant\" }").await;
    let task = task_of(&by(ANN, &gateway, &send("1", "x")).await);
    let asked = of_task("GetTask", &task);
    assert_eq!(
        by(CARL, &gateway, &asked).await.json()["result"]["id"],
        task.as_str(),
        "a colleague"
    );
    assert_eq!(by(BOB, &gateway, &asked).await.code(), -32001, "another tenant");
    let calls = agent.received().len();
    assert_eq!(
        by(DORA, &gateway, &send("1", "x")).await.status,
        403,
        "no tenant at all"
    );
    assert_eq!(agent.received().len(), calls);
    let record = get(gateway.admin, &format!("/tasks/agent/{task}")).await.json();
    assert_eq!(record["owner"], "tenant=acme");
}

#[tokio::test]
async fn sharing_opens_tasks_to_a_group_as_far_as_it_says() {
    let agent = numbered().await;
    let rule = |access: &str| {
        format!("policy: {{ task_sharing: [ {{ with: [ groups=ops ], owners: [ \"key:a*\" ]{access} }} ] }}")
    };
    for (access, full) in [("", false), (", access: full", true)] {
        let gateway = start(&agent, &rule(access)).await;
        let task = task_of(&by(ANN, &gateway, &send("1", "x")).await);
        let got = by(BOB, &gateway, &of_task("GetTask", &task)).await;
        assert_eq!(got.json()["result"]["id"], task.as_str(), "he reads");
        let canceled = by(BOB, &gateway, &of_task("CancelTask", &task)).await;
        assert_eq!(canceled.json()["error"].is_null(), full, "{}", canceled.text());
        assert_eq!(
            by(CARL, &gateway, &of_task("GetTask", &task)).await.code(),
            -32001,
            "not in the group"
        );
        let carls = task_of(&by(CARL, &gateway, &send("1", "x")).await);
        assert_eq!(
            by(BOB, &gateway, &of_task("GetTask", &carls)).await.code(),
            -32001,
            "not of these owners"
        );
        let record = get(gateway.admin, &format!("/tasks/agent/{task}")).await.json();
        assert_eq!(record["owner"], "key:ann", "using it does not make it his");
    }
}

#[tokio::test]
async fn an_operator_can_give_a_task_to_somebody_else() {
    let agent = numbered().await;
    let gateway = start(&agent, "").await;
    let task = task_of(&by(ANN, &gateway, &send("1", "x")).await);
    let change = |path: String, media: &'static str, body: &'static str| {
        let admin = gateway.admin;
        async move { call(admin, "POST", &path, &[("content-type", media)], body).await }
    };
    let json = "application/json";
    let of_task_path = || format!("/tasks/agent/{task}/owner");
    // What a page in a browser could send without being asked first.
    let plain = change(of_task_path(), "text/plain", r#"{"owner":"key:bob"}"#).await;
    assert_eq!(plain.status, 415);
    assert_eq!(change(of_task_path(), json, "{}").await.status, 400);
    assert_eq!(
        change("/tasks/agent/none/owner".to_owned(), json, r#"{"owner":"key:bob"}"#)
            .await
            .status,
        404
    );
    assert_eq!(
        by(BOB, &gateway, &of_task("GetTask", &task)).await.code(),
        -32001,
        "nothing has changed"
    );
    let given = change(of_task_path(), json, r#"{"owner":"key:bob"}"#).await;
    assert_eq!((given.status, given.json()["owner"].as_str()), (200, Some("key:bob")));
    assert_eq!(
        by(BOB, &gateway, &of_task("GetTask", &task)).await.json()["result"]["id"],
        task.as_str()
    );
    assert_eq!(
        by(ANN, &gateway, &of_task("GetTask", &task)).await.code(),
        -32001,
        "it is hers no more"
    );
    let context = change(
        format!("/contexts/agent/ctx-{task}/owner"),
        json,
        r#"{"owner":"key:bob"}"#,
    )
    .await;
    assert_eq!(context.json()["context"], format!("ctx-{task}"));
    assert_eq!(
        get(gateway.admin, &format!("/contexts/agent/ctx-{task}")).await.json()["owner"],
        "key:bob"
    );
}

#[tokio::test]
async fn an_answer_that_tells_of_somebody_elses_task_is_withheld() {
    let agent = Agent::start(|request: &Received| {
        let call = request.json();
        if call["method"] == "SendStreamingMessage" {
            let (events, chunks) = mpsc::channel(1);
            events.try_send(Some(task_event("1", "only"))).expect("room");
            return Reply::Stream(chunks);
        }
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"task":{{"id":"only","contextId":"x","status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#,
            call["id"]
        ))
    })
    .await;
    let gateway = start(&agent, "").await;
    assert_eq!(task_of(&by(ANN, &gateway, &send("1", "x")).await), "only");
    let whole = by(BOB, &gateway, &send("1", "x")).await;
    assert_eq!(whole.status, 502);
    assert!(!whole.text().contains("only"), "{}", whole.text());
    let fields = [("X-API-Key", BOB), ("content-type", "application/json")];
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let response = crate::harness::client::open(gateway.address, "POST", "/agent", &fields, &body).await;
    let (text, clean) = crate::harness::client::read(response).await;
    assert!(!clean && !text.contains("only"), "{text}");
    assert_eq!(gateway.metric("a2a_gateway_owner_conflicts_total").await, 2.0);
}

#[tokio::test]
async fn owners_outlive_the_gateway() {
    let agent = numbered().await;
    let folder = tempfile::tempdir().expect("a folder");
    let state = format!("state: {{ store: embedded, path: \"{}\" }}", folder.path().display());
    let yaml = yaml(&[agent.address], "").replace("state: { store: memory }", &state);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let task = task_of(&by(ANN, &gateway, &send("1", "x")).await);
    let given = task_of(&by(ANN, &gateway, &send("1", "x")).await);
    let path = format!("/tasks/agent/{given}/owner");
    call(
        gateway.admin,
        "POST",
        &path,
        &[("content-type", "application/json")],
        r#"{"owner":"key:bob"}"#,
    )
    .await;
    assert!(gateway.shutdown().await);
    let gateway = Gateway::start(&yaml).await;
    eventually("the gateway is ready", || async {
        get(gateway.admin, "/ready").await.status == 200
    })
    .await;
    for (task, owner, other) in [(&task, ANN, BOB), (&given, BOB, ANN)] {
        let got: Value = by(owner, &gateway, &of_task("GetTask", task)).await.json();
        assert_eq!(got["result"]["id"], task.as_str());
        assert_eq!(by(other, &gateway, &of_task("GetTask", task)).await.code(), -32001);
    }
}

#[tokio::test]
async fn every_id_that_a_call_may_name_has_an_owner() {
    let agent = Agent::start(|request: &Received| {
        let call = request.json();
        let message = &call["params"]["message"];
        let (id, result) = match call["method"].as_str() {
            Some("SendMessage") => (message["parts"][0]["text"].clone(), "task"),
            _ => (call["params"]["id"].clone(), ""),
        };
        let context = message["contextId"].as_str().unwrap_or("plain");
        let task = format!(r#"{{"id":{id},"contextId":"{context}","status":{{"state":"TASK_STATE_WORKING"}}}}"#);
        let result = if result.is_empty() {
            task
        } else {
            format!(r#"{{"{result}":{task}}}"#)
        };
        Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, call["id"]))
    })
    .await;
    let gateway = start(&agent, "").await;
    let longest = |letter: &str| letter.repeat(MAX_ID_BYTES);
    let into = |context: &str, task: &str| {
        send("1", task).replace("\"messageId\"", &format!("\"contextId\":\"{context}\",\"messageId\""))
    };
    let (task, context) = (longest("t"), longest("c"));
    for (task, body) in [("short", into(&context, "short")), (&*task, send("1", &task))] {
        assert_eq!(task_of(&by(ANN, &gateway, &body).await), task);
        let got = by(ANN, &gateway, &of_task("GetTask", task)).await;
        assert_eq!(got.json()["result"]["id"], task, "it was told to her: {}", got.text());
        assert_eq!(by(BOB, &gateway, &of_task("GetTask", task)).await.code(), -32001);
    }
    let calls = agent.received().len();
    let joined = by(BOB, &gateway, &into(&context, "other")).await;
    assert_eq!(joined.code(), -32001, "her conversation: {}", joined.text());
    assert_eq!(agent.received().len(), calls);
}

#[tokio::test]
async fn a_conversation_has_an_owner_also_if_the_agent_does_not_repeat_its_name() {
    let agent = Agent::start(|request: &Received| {
        let call = request.json();
        let message = r#"{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":"hello"}]}}"#;
        if call["method"] == "SendStreamingMessage" {
            let (events, chunks) = mpsc::channel(1);
            let event = agent::event(&call["id"].to_string(), message);
            events.try_send(Some(event)).expect("room");
            return Reply::Stream(chunks);
        }
        Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{message}}}"#, call["id"]))
    })
    .await;
    let gateway = start(&agent, "").await;
    for method in ["SendMessage", "SendStreamingMessage"] {
        let named = format!("\"contextId\":\"of-{method}\",\"messageId\"");
        let body = send("1", "x")
            .replace("\"messageId\"", &named)
            .replace("SendMessage", method);
        let hers = by(ANN, &gateway, &body).await;
        assert!(hers.text().contains("hello"), "{}", hers.text());
        let calls = agent.received().len();
        let joined = by(BOB, &gateway, &body).await;
        assert_eq!(joined.code(), -32001, "{method}: {}", joined.text());
        assert_eq!(agent.received().len(), calls, "{method}");
        assert!(
            by(ANN, &gateway, &body).await.text().contains("hello"),
            "{method}: she goes on"
        );
    }
}
