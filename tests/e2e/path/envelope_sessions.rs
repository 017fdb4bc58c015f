//! Sessions of the envelope protocol: kept at one endpoint from their creation to their end, and by their owner alone.

use serde_json::{Value, json};

use super::envelope::{config, gateway, message, refused, responds, say};
use super::ownership::{ANN, BOB};
use crate::harness::agent::{Agent, Received, Reply};
use crate::harness::{Gateway, eventually};

pub(super) fn in_session(id: &str, session: &str, from: &str, to: &str, message_type: &str, content: Value) -> Value {
    let mut said = message(id, from, to, message_type, content);
    said["session_id"] = session.into();
    said
}

fn create(id: &str, session: &str, from: &str, to: &str) -> Value {
    in_session(id, session, from, to, "session_control", json!({"action": "create"}))
}

fn terminate(id: &str, session: &str, from: &str, to: &str) -> Value {
    in_session(id, session, from, to, "session_control", json!({"action": "terminate"}))
}

fn request(id: &str, session: &str) -> Value {
    in_session(id, session, "agent_pilot", "agent_yard", "request", json!({}))
}

fn delegated(id: &str, session: &str) -> Value {
    let content = json!({"task_id": "task-1", "description": "d"});
    in_session(id, session, "agent_pilot", "agent_harbour", "task_delegation", content)
}

/// An A2A agent whose tasks are in a context of its own.
async fn harbour(context: &'static str) -> Agent {
    Agent::start(move |received| {
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"task":{{"id":"t-{}","contextId":"{context}","status":{{"state":"TASK_STATE_COMPLETED"}}}}}}}}"#,
            received.id(),
            received.json()["params"]["message"]["messageId"].as_str().unwrap_or_default(),
        ))
    })
    .await
}

async fn three(script: fn(&Received) -> Reply) -> [Agent; 3] {
    [
        Agent::start(script).await,
        Agent::start(script).await,
        Agent::start(script).await,
    ]
}

fn counts(agents: &[Agent]) -> Vec<usize> {
    agents.iter().map(|agent| agent.received().len()).collect()
}

#[tokio::test]
async fn a_session_is_kept_at_one_endpoint_until_it_is_terminated() {
    let harbour = harbour("c").await;
    let yards = three(responds).await;
    let addresses = yards.each_ref().map(|yard| yard.address);
    let gateway = gateway(&[harbour.address], &addresses, "").await;
    let mut used = [false; 3];
    for session in 0..12 {
        let name = format!("s{session}");
        let before = counts(&yards);
        let created = say(
            &gateway,
            ANN,
            &create(&format!("c{session}"), &name, "agent_pilot", "agent_yard"),
        )
        .await;
        assert_eq!(created.status, 200, "{}", created.text());
        for number in 0..5 {
            let answer = say(&gateway, ANN, &request(&format!("m{session}-{number}"), &name)).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let more: Vec<_> = counts(&yards)
            .iter()
            .zip(&before)
            .map(|(after, before)| after - before)
            .collect();
        assert!(more.contains(&6), "all six at one endpoint: {more:?}");
        for (used, more) in used.iter_mut().zip(more) {
            *used |= more > 0;
        }
    }
    assert!(
        used.iter().filter(|used| **used).count() > 1,
        "not every session is at the same one"
    );
    assert_eq!(
        gateway.metric("a2a_gateway_envelope_entries{table=\"sessions\"}").await,
        12.0
    );
    let ended = say(&gateway, ANN, &terminate("t", "s1", "agent_pilot", "agent_yard")).await;
    assert_eq!(ended.status, 200, "{}", ended.text());
    refused(
        &say(&gateway, ANN, &request("after", "s1")).await,
        200,
        "session_unknown",
    );
    assert_eq!(
        gateway.metric("a2a_gateway_envelope_entries{table=\"sessions\"}").await,
        11.0
    );
}

#[tokio::test]
async fn what_is_delegated_in_a_session_stays_at_one_endpoint_and_in_one_context() {
    let agents = [harbour("context-a").await, harbour("context-b").await];
    let addresses = agents.each_ref().map(|agent| agent.address);
    let gateway = gateway(&addresses, &[], "").await;
    for session in 0..6 {
        let name = format!("s{session}");
        let before = counts(&agents);
        let created = say(
            &gateway,
            ANN,
            &create(&format!("c{session}"), &name, "agent_pilot", "agent_harbour"),
        )
        .await;
        assert_eq!(
            created.json()["content"]["data"],
            json!({"timeout": 1800}),
            "{}",
            created.text()
        );
        // The first two at once: neither knows a context yet.
        let (first, second) = [0, 1]
            .map(|number| delegated(&format!("m{session}-{number}"), &name))
            .into();
        let (first, second) = tokio::join!(say(&gateway, ANN, &first), say(&gateway, ANN, &second));
        let third = say(&gateway, ANN, &delegated(&format!("m{session}-2"), &name)).await;
        for answer in [first, second, third] {
            assert_eq!(answer.json()["content"]["status"], "success", "{}", answer.text());
            assert_eq!(answer.json()["session_id"], name);
        }
        let after = counts(&agents);
        let at = (0..2)
            .find(|at| after[*at] == before[*at] + 3)
            .expect("all three at one endpoint");
        let last = agents[at].received().pop().expect("a call").json();
        assert_eq!(last["params"]["message"]["contextId"], ["context-a", "context-b"][at]);
    }
    let ended = say(&gateway, ANN, &terminate("t", "s1", "agent_pilot", "agent_harbour")).await;
    assert_eq!(ended.json()["content"]["status"], "success", "{}", ended.text());
    refused(
        &say(&gateway, ANN, &delegated("after", "s1")).await,
        200,
        "session_unknown",
    );
}

#[tokio::test]
async fn somebody_elses_session_is_answered_like_one_that_does_not_exist() {
    let harbour = harbour("c").await;
    let yard = Agent::start(responds).await;
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    for to in ["agent_yard", "agent_harbour"] {
        let of = |id: &str, session: &str, message_type: &str, content: Value| {
            in_session(&format!("{to}-{id}"), session, "guest_1", to, message_type, content)
        };
        let created = say(&gateway, ANN, &create(&format!("{to}-c"), "s", "guest_1", to)).await;
        assert_eq!(created.status, 200, "{}", created.text());
        let before = yard.received().len() + harbour.received().len();
        for (number, (message_type, content)) in [
            ("request", json!({})),
            ("task_delegation", json!({"description": "d"})),
            ("session_control", json!({"action": "terminate"})),
            ("session_control", json!({"action": "set_encryption"})),
        ]
        .into_iter()
        .enumerate()
        {
            let strip = |answer: &crate::harness::Answer| {
                let mut said = answer.json();
                for unlike in ["message_id", "timestamp", "session_id"] {
                    said[unlike].take();
                }
                said["content"]["in_response_to"].take();
                (answer.status, said)
            };
            let foreign = say(
                &gateway,
                BOB,
                &of(&format!("f{number}"), "s", message_type, content.clone()),
            )
            .await;
            let unknown = say(&gateway, BOB, &of(&format!("u{number}"), "none", message_type, content)).await;
            refused(&foreign, 200, "session_unknown");
            assert_eq!(strip(&foreign), strip(&unknown));
        }
        let taken = say(&gateway, BOB, &create(&format!("{to}-c2"), "s", "guest_1", to)).await;
        refused(&taken, 200, "session_unknown");
        assert_eq!(yard.received().len() + harbour.received().len(), before);
        let own = say(
            &gateway,
            ANN,
            &of("own", "s", "task_delegation", json!({"description": "d"})),
        )
        .await;
        assert_eq!(
            own.json()["message_type"],
            "response",
            "it is still there: {}",
            own.text()
        );
        // Between others the name is free.
        let other = say(&gateway, BOB, &create(&format!("{to}-c3"), "s", "guest_2", to)).await;
        assert_eq!(other.json()["message_type"], "response", "{}", other.text());
    }
}

#[tokio::test]
async fn a_session_ends_when_nobody_uses_it() {
    let harbour = harbour("c").await;
    let gateway = gateway(&[harbour.address], &[], "session_timeout: 1h").await;
    let with = |id: &str, session: &str, timeout: u64| {
        let content = json!({"action": "create", "session_parameters": {"timeout": timeout}});
        in_session(id, session, "guest_1", "agent_harbour", "session_control", content)
    };
    let long = say(&gateway, ANN, &with("c1", "long", 1_000_000)).await.json();
    assert_eq!(long["content"]["data"]["timeout"], 3600, "no longer than is configured");
    let short = say(&gateway, ANN, &with("c2", "short", 1)).await.json();
    assert_eq!(short["content"]["data"]["timeout"], 1);
    // Bob's tries hold nothing of Ann's.
    let mut number = 0;
    eventually("it ends by itself", || {
        number += 1;
        let (gateway, again) = (&gateway, with(&format!("again-{number}"), "short", 1));
        async move { say(gateway, BOB, &again).await.json()["message_type"] == "response" }
    })
    .await;
    refused(
        &say(&gateway, BOB, &with("c3", "long", 1)).await,
        200,
        "session_unknown",
    );
}

#[tokio::test]
async fn the_session_of_a_dead_endpoint_is_unavailable_and_a_new_one_goes_elsewhere() {
    let harbour = harbour("c").await;
    let mut yards = three(responds).await.map(Some);
    let addresses: Vec<_> = yards.iter().flatten().map(|yard| yard.address).collect();
    let gateway = gateway(&[harbour.address], &addresses, "").await;
    assert_eq!(
        say(&gateway, ANN, &create("c", "s", "agent_pilot", "agent_yard"))
            .await
            .status,
        200
    );
    let at = yards
        .iter()
        .position(|yard| yard.as_ref().is_some_and(|yard| !yard.received().is_empty()))
        .expect("one has it");
    yards[at] = None;
    eventually("its endpoint is gone", || async {
        say(&gateway, ANN, &request(&format!("m{}", fastrand::u64(..)), "s"))
            .await
            .status
            == 503
    })
    .await;
    let said = request("kept", "s");
    refused(&say(&gateway, ANN, &said).await, 503, "owner_unavailable");
    refused(&say(&gateway, ANN, &said).await, 503, "owner_unavailable");
    let others: usize = yards.iter().flatten().map(|yard| yard.received().len()).sum();
    assert_eq!(others, 0, "nobody else got it");
    for number in 0..4 {
        let name = format!("n{number}");
        let created = say(
            &gateway,
            ANN,
            &create(&format!("c{number}"), &name, "agent_pilot", "agent_yard"),
        )
        .await;
        assert_eq!(created.status, 200, "{}", created.text());
        assert_eq!(
            say(&gateway, ANN, &request(&format!("r{number}"), &name)).await.status,
            200
        );
    }
    let ended = say(&gateway, ANN, &terminate("t", "s", "agent_pilot", "agent_yard")).await;
    refused(&ended, 503, "owner_unavailable");
    refused(
        &say(&gateway, ANN, &request("still", "s")).await,
        503,
        "owner_unavailable",
    );
}

#[tokio::test]
async fn at_most_so_many_sessions_are_held() {
    let harbour = harbour("c").await;
    let gateway = gateway(&[harbour.address], &[], "max_sessions: 2").await;
    for name in ["a", "b"] {
        let created = say(&gateway, ANN, &create(name, name, "agent_pilot", "agent_harbour")).await;
        assert_eq!(created.json()["message_type"], "response");
    }
    assert_eq!(
        gateway
            .metric("a2a_gateway_envelope_evictions_total{table=\"sessions\"}")
            .await,
        0.0
    );
    assert_eq!(
        say(&gateway, ANN, &delegated("m1", "a")).await.json()["message_type"],
        "response"
    );
    let created = say(&gateway, BOB, &create("c", "c", "agent_tug", "agent_harbour")).await;
    assert_eq!(created.json()["message_type"], "response");
    assert_eq!(
        gateway
            .metric("a2a_gateway_envelope_evictions_total{table=\"sessions\"}")
            .await,
        1.0
    );
    refused(&say(&gateway, ANN, &delegated("m2", "b")).await, 200, "session_unknown");
    assert_eq!(
        say(&gateway, ANN, &delegated("m3", "a")).await.json()["message_type"],
        "response"
    );
}

#[tokio::test]
async fn both_sides_of_a_session_talk_in_it() {
    let harbour = harbour("c").await;
    let (yard, pilot) = (Agent::start(responds).await, Agent::start(responds).await);
    let yaml = config(&[harbour.address], &[yard.address], "").replace(
        "\n  - name: yard",
        &format!(
            "\n  - name: pilot\n    envelope: {{ agent_id: agent_pilot }}\n    upstream: {{ protocol: {{ binding: envelope }}, endpoints: [ {{ url: \"http://{}/\" }} ] }}\n  - name: yard",
            pilot.address
        ),
    );
    // Bob's key is the yard's own.
    let yaml = yaml.replace("agent_id: agent_tug", "agent_id: agent_yard");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let back =
        |id: &str, session: &str| in_session(id, session, "agent_yard", "agent_pilot", "notification", json!({}));
    refused(&say(&gateway, BOB, &back("b0", "s")).await, 200, "session_unknown");
    assert_eq!(
        say(&gateway, ANN, &create("c", "s", "agent_pilot", "agent_yard"))
            .await
            .status,
        200
    );
    assert_eq!(say(&gateway, BOB, &back("b1", "s")).await.status, 200);
    assert_eq!(pilot.received().len(), 1);
    let ended = say(&gateway, BOB, &terminate("b2", "s", "agent_yard", "agent_pilot")).await;
    assert_eq!(ended.status, 200, "{}", ended.text());
    refused(&say(&gateway, ANN, &request("m", "s")).await, 200, "session_unknown");
}

#[tokio::test]
async fn a_session_that_its_agent_refuses_is_none() {
    let harbour = harbour("c").await;
    let yard = Agent::start(|received| {
        let content = json!({"in_response_to": received.json()["message_id"], "error_code": "full", "error_message": "no", "severity": "error"});
        Reply::Json(message("a", "agent_yard", "agent_pilot", "error", content).to_string())
    })
    .await;
    let gateway = gateway(&[harbour.address], &[yard.address], "").await;
    let created = say(&gateway, ANN, &create("c", "s", "agent_pilot", "agent_yard")).await;
    assert_eq!(created.json()["content"]["error_code"], "full");
    refused(&say(&gateway, ANN, &request("m", "s")).await, 200, "session_unknown");
    let nameless = message(
        "n",
        "agent_pilot",
        "agent_yard",
        "session_control",
        json!({"action": "create"}),
    );
    refused(&say(&gateway, ANN, &nameless).await, 200, "invalid_request");
}
