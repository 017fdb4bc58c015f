//! What belongs to one session of the envelope protocol stays in it, and a session ends when it should and not before.

use std::sync::Mutex;

use serde_json::json;
use tokio::sync::oneshot;

use super::envelope::{answer, config, gateway, message, refused, responds, say};
use super::envelope_sessions::in_session;
use super::ownership::{ANN, BOB};
use crate::harness::agent::{Agent, Received, Reply};
use crate::harness::{Answer, Gateway, eventually};

/// Ann and Bob may both send as this one.
const GUEST: &str = "guest_1";

async fn control(gateway: &Gateway, key: &str, id: &str, session: &str, to: &str, action: &str) -> Answer {
    // As short as a session can be.
    let content = json!({"action": action, "session_parameters": {"timeout": 1}});
    let said = in_session(id, session, GUEST, to, "session_control", content);
    say(gateway, key, &said).await
}

async fn delegate(gateway: &Gateway, key: &str, id: &str, session: &str, from: &str, to: &str) -> Answer {
    let content = json!({"description": "d"});
    say(
        gateway,
        key,
        &in_session(id, session, from, to, "task_delegation", content),
    )
    .await
}

async fn request(gateway: &Gateway, id: &str, session: &str) -> Answer {
    let said = in_session(id, session, GUEST, "agent_yard", "request", json!({}));
    say(gateway, ANN, &said).await
}

fn done(received: &Received, context: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"task":{{"id":"t-{}","contextId":"{context}","status":{{"state":"TASK_STATE_COMPLETED"}}}}}}}}"#,
        received.id(),
        received.json()["params"]["message"]["messageId"]
            .as_str()
            .unwrap_or_default(),
    )
}

/// An A2A agent of one context.
async fn of_context(context: &'static str) -> Agent {
    Agent::start(move |received| Reply::Json(done(received, context))).await
}

/// Its first answer is given by the test.
async fn slow(then: fn(&Received) -> Reply) -> (Agent, oneshot::Sender<String>) {
    let (tell, told) = oneshot::channel();
    let told = Mutex::new(Some(told));
    let agent = Agent::start(move |received| {
        let first = told.lock().expect("a lock").take();
        first.map_or_else(|| then(received), Reply::Later)
    });
    (agent.await, tell)
}

fn contexts(agent: &Agent) -> Vec<serde_json::Value> {
    let received = agent.received();
    let context = |received: &Received| received.json()["params"]["message"]["contextId"].clone();
    received.iter().map(context).collect()
}

#[track_caller]
fn succeeded(answer: &Answer) {
    assert_eq!(answer.json()["content"]["status"], "success", "{}", answer.text());
}

#[tokio::test]
async fn what_a_session_learns_after_its_end_is_not_the_next_ones_of_its_name() {
    let (harbour, tell) = slow(|received| Reply::Json(done(received, "new"))).await;
    let gateway = gateway(&[harbour.address], &[], "").await;
    succeeded(&control(&gateway, ANN, "c1", "s", "agent_harbour", "create").await);
    let old = delegate(&gateway, ANN, "old", "s", GUEST, "agent_harbour");
    let (old, ()) = tokio::join!(old, async {
        eventually("it is under way", || async { !harbour.received().is_empty() }).await;
        succeeded(&control(&gateway, ANN, "t", "s", "agent_harbour", "terminate").await);
        succeeded(&control(&gateway, BOB, "c2", "s", "agent_harbour", "create").await);
        tell.send(done(&harbour.received()[0], "old")).expect("it waits");
    });
    succeeded(&old);
    for id in ["m1", "m2"] {
        succeeded(&delegate(&gateway, BOB, id, "s", GUEST, "agent_harbour").await);
    }
    assert_eq!(contexts(&harbour), [json!(null), json!(null), json!("new")]);
}

#[tokio::test]
async fn each_side_of_a_session_has_a_context_of_its_own() {
    let (harbour, pilot) = (of_context("harbours").await, of_context("pilots").await);
    let yard = Agent::start(responds).await;
    let yaml = config(&[harbour.address], &[yard.address], "")
        .replace(
            "\n  - name: yard",
            &format!(
                "\n  - name: pilot\n    path: /pilot\n    envelope: {{ agent_id: agent_pilot }}\n    upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }}\n  - name: yard",
                pilot.address
            ),
        )
        // Bob's key is the harbour's own.
        .replace("agent_id: agent_tug", "agent_id: agent_harbour");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let create = in_session(
        "c",
        "s",
        "agent_pilot",
        "agent_harbour",
        "session_control",
        json!({"action": "create"}),
    );
    succeeded(&say(&gateway, ANN, &create).await);
    for id in ["m1", "m2"] {
        succeeded(&delegate(&gateway, ANN, id, "s", "agent_pilot", "agent_harbour").await);
        succeeded(&delegate(&gateway, BOB, id, "s", "agent_harbour", "agent_pilot").await);
    }
    assert_eq!(contexts(&harbour), [json!(null), json!("harbours")]);
    assert_eq!(contexts(&pilot), [json!(null), json!("pilots")]);
}

#[tokio::test]
async fn a_session_does_not_run_out_under_a_message_nor_before_it_is_there() {
    let (harbour, tell_harbour) = slow(|received| Reply::Json(done(received, "c"))).await;
    let (yard, tell_yard) = slow(responds).await;
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    succeeded(&control(&gateway, ANN, "c1", "used", "agent_harbour", "create").await);
    let used = delegate(&gateway, ANN, "m", "used", GUEST, "agent_harbour");
    let created = control(&gateway, ANN, "c2", "created", "agent_yard", "create");
    let (used, created, ()) = tokio::join!(used, created, async {
        eventually("both are under way", || async {
            !harbour.received().is_empty() && !yard.received().is_empty()
        })
        .await;
        // As short as the others, and begun later.
        succeeded(&control(&gateway, ANN, "c3", "idle", "agent_harbour", "create").await);
        let mut number = 0;
        eventually("the idle one is over", || {
            number += 1;
            let (gateway, id) = (&gateway, format!("b{number}"));
            async move {
                let taken = control(gateway, BOB, &id, "idle", "agent_harbour", "create").await;
                taken.json()["message_type"] == "response"
            }
        })
        .await;
        for (session, to) in [("used", "agent_harbour"), ("created", "agent_yard")] {
            let taken = control(&gateway, BOB, session, session, to, "create").await;
            refused(&taken, 200, "session_unknown");
        }
        let answers = [done(&harbour.received()[0], "c"), answer(&yard.received()[0])];
        let [harbours, yards] = answers;
        tell_harbour.send(harbours).expect("it waits");
        tell_yard.send(yards).expect("it waits");
    });
    succeeded(&used);
    succeeded(&created);
}

#[tokio::test]
async fn a_session_is_there_until_its_agent_took_its_end() {
    let yard = Agent::start(|received| {
        let asked = received.json();
        let answers =
            |message_type, content| Reply::Json(message("a", "agent_yard", GUEST, message_type, content).to_string());
        match asked["message_id"].as_str() {
            Some("refused") => answers(
                "error",
                json!({"in_response_to": "refused", "error_code": "busy", "error_message": "no", "severity": "error"}),
            ),
            Some("failed") => answers("response", json!({"in_response_to": "failed", "status": "failure"})),
            Some("lost") => Reply::Whole(500, "", String::new()),
            _ => responds(received),
        }
    })
    .await;
    let harbour = of_context("c").await;
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    let create = |id: &'static str| {
        let content = json!({"action": "create"});
        in_session(id, "s", GUEST, "agent_yard", "session_control", content)
    };
    // Nor is there one that its agent did not take.
    let failed = say(&gateway, ANN, &create("failed")).await;
    assert_eq!(failed.json()["content"]["status"], "failure");
    refused(&request(&gateway, "m0", "s").await, 200, "session_unknown");
    let gateway = self::gateway(&[harbour.address], &[yard.address], "").await;
    succeeded(&say(&gateway, ANN, &create("c")).await);
    for id in ["refused", "failed", "lost"] {
        control(&gateway, ANN, id, "s", "agent_yard", "terminate").await;
        succeeded(&request(&gateway, &format!("after-{id}"), "s").await);
    }
    succeeded(&control(&gateway, ANN, "t", "s", "agent_yard", "terminate").await);
    refused(&request(&gateway, "m1", "s").await, 200, "session_unknown");
}
