//! External authorization over HTTP as a decision point: Envoy's documentation, "External Authorization", `http_service`: the
//! status of the answer decides.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::decisions::{Desk, PLACE, TOKEN, config, message, message_in, section};
use super::{Server, Site};
use crate::harness::agent::{Agent, CARD, Reply, tasks};
use crate::harness::{Gateway, of_task};
use crate::path::ownership::{ANN, by};

async fn desk(policy: &str, more: &str) -> Desk {
    Desk::start("ext_authz", policy, more).await
}

#[tokio::test]
async fn the_service_is_told_of_the_call_in_fields_and_of_no_credential() {
    let desk = desk("task_owner: none, skill: skill", "").await;
    desk.server.says(PLACE, 200, "");
    let metadata = json!({ "skill": "a%b\u{e9} c" });
    let answer = desk.call(ANN, &message_in("c\u{2028}1", &metadata)).await;
    desk.allows("yes", &answer);
    let questions = desk.server.questions(PLACE);
    assert_eq!(questions.len(), 1);
    let question = &questions[0];
    assert_eq!(question.line(), format!("POST {PLACE}"));
    assert_eq!((question.field("content-length"), question.body.len()), (Some("0"), 0));
    let token = format!("Bearer {TOKEN}");
    for (name, expected) in [
        ("x-a2a-principal", Some("key:ann")),
        ("x-a2a-agent", Some("agent")),
        ("x-a2a-operation", Some("send")),
        ("x-a2a-generation", Some("1.0")),
        ("x-a2a-binding", Some("JSONRPC")),
        ("x-a2a-skill", Some("a%25b%C3%A9%20c")),
        ("x-a2a-context", Some("c%E2%80%A81")),
        ("x-a2a-task", None),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-method", Some("POST")),
        ("x-forwarded-uri", Some("/agent")),
        ("x-request-id", answer.header("x-request-id")),
        ("authorization", Some(&*token)),
        ("x-api-key", None),
    ] {
        assert_eq!(question.field(name), expected, "{name}");
    }
    assert!(
        !question.head.contains(ANN) && !question.head.contains("hidden"),
        "{}",
        question.head
    );
    desk.allows("of a task", &desk.call(ANN, &of_task("GetTask", "t1")).await);
    let question = desk.server.questions(PLACE).pop().unwrap();
    assert_eq!(question.field("x-a2a-task"), Some("t1"));
    assert_eq!(question.field("x-a2a-operation"), Some("get"));
    assert_eq!(question.field("x-a2a-context"), None);
    desk.site.hides(TOKEN).await;
    for received in desk.site.agent.received() {
        assert!(!received.head.contains(TOKEN), "{}", received.head);
    }
}

#[tokio::test]
async fn the_status_decides_and_200_alone_allows() {
    let desk = desk("task_owner: none", "timeout: 10s").await;
    for status in [400, 401, 403, 404, 429] {
        desk.server.says(PLACE, status, "yes");
        desk.denies(&status.to_string(), &desk.send(ANN, "x").await).await;
    }
    for status in [201, 204, 302, 307, 500, 502, 503] {
        desk.server.says(PLACE, status, "");
        let answer = desk.send(ANN, "x").await;
        desk.cannot_tell(&status.to_string(), &answer, "no_answer").await;
    }
    desk.server.says(PLACE, 200, "x".repeat(65 * 1024));
    let answer = desk.send(ANN, "x").await;
    desk.cannot_tell("more than anybody reads", &answer, "no_answer").await;
    desk.server.does(PLACE, |_| Reply::Raw(b"HTTP/1.1 2".to_vec()));
    let answer = desk.send(ANN, "x").await;
    desk.cannot_tell("half a head", &answer, "no_answer").await;
    assert_eq!(desk.reached(), 0);
    assert_eq!(
        (desk.decisions("denied").await, desk.decisions("failed").await),
        (5.0, 9.0)
    );
    desk.server.says(PLACE, 200, "no");
    desk.allows("whatever the body says", &desk.send(ANN, "x").await);
}

/// What an answer tells Envoy to add or to remove goes nowhere.
#[tokio::test]
async fn nothing_of_an_answer_goes_on() {
    let desk = desk("task_owner: none", "").await;
    let more = "x-auth-added: canary\r\nset-cookie: canary=1\r\n";
    desk.server
        .does(PLACE, move |_| Reply::Whole(200, more, "canary".to_owned()));
    let allowed = desk.send(ANN, "x").await;
    desk.allows("yes", &allowed);
    desk.server
        .does(PLACE, move |_| Reply::Whole(403, more, "canary".to_owned()));
    let denied = desk.send(ANN, "x").await;
    desk.denies("no", &denied).await;
    for answer in [allowed, denied] {
        assert!(!format!("{:?}{}", answer.headers, answer.text()).contains("canary"));
    }
    for received in desk.site.agent.received() {
        assert!(!received.head.contains("canary"), "{}", received.head);
    }
}

#[tokio::test]
async fn what_was_said_is_remembered_whatever_the_request_is_called() {
    let desk = desk("task_owner: none", "cache_ttl: 1h").await;
    desk.server.says(PLACE, 200, "");
    for _ in 0..3 {
        desk.allows("remembered", &desk.send(ANN, "x").await);
    }
    assert_eq!(desk.asked(), 1);
    desk.server.says(PLACE, 403, "");
    for _ in 0..2 {
        let answer = desk.call(ANN, &of_task("GetTask", "t1")).await;
        desk.denies("of another task", &answer).await;
    }
    assert_eq!(desk.asked(), 2);
    desk.server.says(PLACE, 503, "");
    for _ in 0..2 {
        let answer = desk.call(ANN, &of_task("GetTask", "t2")).await;
        desk.cannot_tell("what says nothing is not remembered", &answer, "no_answer")
            .await;
    }
    assert_eq!(desk.asked(), 4);
}

/// Metadata is not told, so that nobody is refused for it.
#[tokio::test]
async fn a_message_may_have_any_metadata() {
    let desk = desk("task_owner: none", "").await;
    desk.server.says(PLACE, 200, "");
    let large: Vec<u32> = vec![0; 300];
    let answer = desk.call(ANN, &message_in("c", &json!({ "large": large }))).await;
    desk.allows("large metadata", &answer);
}

/// One that comes and goes: each question stands for itself.
#[tokio::test]
async fn a_service_that_flaps_is_asked_again() {
    let server = Server::start().await;
    let count = AtomicUsize::new(0);
    server.does(PLACE, move |_| {
        let fails = count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        Reply::Whole(if fails { 503 } else { 200 }, "", String::new())
    });
    let agent = Agent::with_card(CARD, tasks(|| "t1".to_owned())).await;
    let yaml = config(agent.address, "task_owner: none", &section("ext_authz", &server, ""));
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let site = Site { gateway, agent };
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(by(ANN, &site.gateway, &message("x")).await.status);
    }
    assert_eq!(statuses, [503, 200, 503, 200]);
    assert_eq!(site.agent.received().len(), 2);
}
