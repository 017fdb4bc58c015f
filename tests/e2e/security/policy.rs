//! Rules for calls, in every dialect: what they allow, what they read, and that nothing of a refused call reaches its agent (A2A 1.0
//! §7, §13.1).

use a2a_gateway::a2a::{Binding, Dialect, Generation, Operation};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::agent::{self, Agent, CARD};
use crate::harness::caller::Caller;
use crate::harness::{Answer, Gateway, call, config_of};
use crate::path::ownership::{ANN, BOB, by, with_keys};

const NOT_ALLOWED: i64 = -31403;
const SKILL: &str = "https://example.com/skill/v1";

async fn agent() -> Agent {
    Agent::start(agent::tasks(|| "t1".to_owned())).await
}

async fn start(agent: &Agent, policy: &str) -> Gateway {
    let yaml = with_keys(&config_of(&[agent.address], &format!("policy: {policy}"), ""));
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    gateway
}

fn message(metadata: &Value) -> String {
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }], "metadata": metadata });
    json!({ "jsonrpc": "2.0", "id": "c", "method": "SendMessage", "params": { "message": message } }).to_string()
}

fn code(answer: &Answer) -> i64 {
    answer.json()["error"]["code"].as_i64().unwrap_or(0)
}

#[tokio::test]
async fn a_group_may_send_and_everybody_may_read_in_every_dialect() {
    let agent = agent().await;
    let policy = "{ task_owner: none, allow: [ { name: ops, when: \"'ops' in principal.groups\" }, { name: reads, operations: [ get ] } ] }";
    let yaml = with_keys(&config_of(&[agent.address], &format!("policy: {policy}"), ""));
    let gateway = Gateway::start(&yaml.replace("path: /agent", "path: /")).await;
    gateway.ready().await;
    let sent = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
    for binding in Binding::ALL {
        for generation in Generation::SPOKEN {
            let caller = Caller(Dialect { generation, binding });
            let before = agent.received().len();
            let refused = caller.by(ANN, &gateway, Operation::Send, &sent).await;
            assert_eq!(agent.received().len(), before, "nothing reaches the agent");
            assert!(refused.is_err(), "{generation} {binding:?}: {refused:?}");
            assert!(caller.by(BOB, &gateway, Operation::Send, &sent).await.is_ok());
            assert!(
                caller
                    .by(ANN, &gateway, Operation::Get, &json!({ "id": "t1" }))
                    .await
                    .is_ok()
            );
        }
    }
    let answer = call(
        gateway.address,
        "POST",
        "/message:send",
        &[
            ("x-api-key", ANN),
            ("a2a-version", "1.0"),
            ("content-type", "application/json"),
        ],
        &sent.to_string(),
    )
    .await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    let records = gateway.access(19).await;
    let refused: Vec<_> = records
        .iter()
        .filter(|record| record["outcome"] == "not_allowed")
        .collect();
    assert_eq!(refused.len(), 7);
    for record in refused {
        assert_eq!(
            (&record["detail"], &record["principal"]),
            (&json!("no_rule"), &json!("key:ann"))
        );
    }
    let by_rule = |rule: &str| records.iter().filter(|record| record["rule"] == rule).count();
    assert_eq!((by_rule("ops"), by_rule("reads")), (6, 6));
}

#[tokio::test]
async fn who_may_not_call_at_all_is_refused_before_the_body_is_sent() {
    let agent = agent().await;
    let gateway = start(&agent, "{ allow: [ { when: \"'ops' in principal.groups\" } ] }").await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!(
        "POST /agent HTTP/1.1\r\nhost: x\r\nx-api-key: {ANN}\r\ncontent-type: application/json\r\ncontent-length: 1000\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut part = vec![0; 4096];
    let count = stream.read(&mut part).await.unwrap();
    let text = String::from_utf8_lossy(&part[..count]);
    assert!(text.starts_with("HTTP/1.1 403 "), "no 100 before: {text}");
    assert_eq!(agent.received().len(), 0);
}

#[tokio::test]
async fn a_rule_that_reads_what_is_not_there_allows_nothing_and_is_named() {
    let agent = agent().await;
    let gateway = start(
        &agent,
        "{ allow: [ { name: level, when: \"principal.claims.level == '3'\" } ] }",
    )
    .await;
    assert_eq!(by(BOB, &gateway, &message(&json!({}))).await.status, 403);
    let policy = "{ allow: [ { name: level, operations: [ send ], when: \"message.metadata.level == 3\" } ] }";
    let gateway = start(&agent, policy).await;
    let sent = |metadata: Value| {
        let gateway = &gateway;
        async move { by(BOB, gateway, &message(&metadata)).await }
    };
    assert_eq!(code(&sent(json!({ "level": 3 })).await), 0);
    assert_eq!(code(&sent(json!({ "level": 4 })).await), NOT_ALLOWED);
    assert_eq!(code(&sent(json!({ "other": 3 })).await), NOT_ALLOWED);
    assert_eq!(code(&sent(json!({ "level": [3] })).await), NOT_ALLOWED);
    let large: Vec<u32> = vec![0; 300];
    assert_eq!(code(&sent(json!({ "level": 3, "large": large })).await), NOT_ALLOWED);
    let records = gateway.access(5).await;
    let why: Vec<_> = records
        .iter()
        .map(|record| record["detail"].as_str().unwrap_or("-"))
        .collect();
    assert_eq!(why, ["-", "no_rule", "rule_failed", "no_rule", "rule_failed"]);
    assert_eq!(records[2]["rule"], "level");
    assert_eq!(agent.received().len(), 1);
}

#[tokio::test]
async fn a_skill_has_rules_of_its_own_and_the_demands_of_the_card() {
    let card = CARD.replace(
        "\"skills\":[]",
        r#""securitySchemes":{"key":{"apiKeySecurityScheme":{"location":"header","name":"X-API-Key"}},"gone":{"mtlsSecurityScheme":{}}},
        "skills":[{"id":"forecast","name":"F","description":"d","tags":[]},
        {"id":"payout","name":"P","description":"d","tags":[],"securityRequirements":[{"schemes":{"key":{"list":["pay"]}}}]},
        {"id":"lost","name":"L","description":"d","tags":[],"securityRequirements":[{"schemes":{"gone":{}}}]}]"#,
    );
    let agent = Agent::with_card(&card, agent::tasks(|| "t1".to_owned())).await;
    let policy = format!(
        "{{ task_owner: none, skill: \"{SKILL}\", allow: [ {{ name: any }}, {{ name: forecast, skills: [ forecast ], when: \"'ops' in principal.groups\" }} ] }}"
    );
    let gateway = start(&agent, &policy).await;
    let sent = |key: &'static str, metadata: Value| {
        let gateway = &gateway;
        async move {
            let answer = by(key, gateway, &message(&metadata)).await;
            (answer.status, code(&answer))
        }
    };
    assert_eq!(sent(ANN, json!({})).await, (200, 0), "no skill");
    assert_eq!(sent(ANN, json!({ SKILL: "unknown" })).await, (200, 0));
    assert_eq!(sent(ANN, json!({ SKILL: "forecast" })).await, (403, NOT_ALLOWED));
    assert_eq!(sent(BOB, json!({ SKILL: "forecast" })).await, (200, 0));
    assert_eq!(
        sent(BOB, json!({ SKILL: "payout" })).await,
        (403, -31403),
        "the scope is missing"
    );
    assert_eq!(
        sent(BOB, json!({ SKILL: "lost" })).await,
        (403, -31403),
        "nobody can show what it demands"
    );
    assert_eq!(sent(BOB, json!({ SKILL: ["forecast"] })).await, (200, -32602));
    assert_eq!(sent(BOB, json!({ SKILL: "" })).await, (200, -32602));
    assert_eq!(agent.received().len(), 3);
    // The call's own metadata counts where the message says nothing.
    let mut of_call: Value = serde_json::from_str(&message(&json!({}))).unwrap();
    of_call["params"]["metadata"] = json!({ SKILL: "forecast" });
    assert_eq!(code(&by(ANN, &gateway, &of_call.to_string()).await), NOT_ALLOWED);
}

#[tokio::test]
async fn rules_do_not_tell_whether_somebody_elses_task_exists() {
    let agent = agent().await;
    let policy =
        "{ allow: [ { operations: [ send ] }, { when: \"task.state == 'working' && task.owner == principal.id\" } ] }";
    let gateway = start(&agent, policy).await;
    assert_eq!(by(ANN, &gateway, &message(&json!({}))).await.status, 200);
    let get = |key: &'static str, task: &'static str| {
        let gateway = &gateway;
        async move { by(key, gateway, &crate::harness::of_task("GetTask", task)).await }
    };
    let (foreign, unknown) = (get(BOB, "t1").await, get(BOB, "t2").await);
    assert_eq!((code(&foreign), code(&unknown)), (-32001, -32001));
    assert_eq!(foreign.body, unknown.body);
}

#[tokio::test]
async fn the_rules_of_a_listener_hold_beside_those_of_the_agent() {
    let agent = agent().await;
    let yaml = with_keys(&config_of(
        &[agent.address],
        "policy: { task_owner: none, allow: [ { operations: [ send, get ] } ] }",
        "",
    ));
    let listener = "listeners: [ { name: public, address: \"127.0.0.1:0\" }";
    assert!(yaml.contains(listener));
    let ruled = "listeners: [ { name: public, address: \"127.0.0.1:0\", policy: { allow: [ { name: mine, operations: [ get, cancel ], when: \"source.listener == 'public' && source.address.inNetwork('127.0.0.0/8') && !source.tls\" } ] } }";
    let gateway = Gateway::start(&yaml.replace(listener, ruled)).await;
    gateway.ready().await;
    let task = |method: &'static str| crate::harness::of_task(method, "t1");
    assert_eq!(
        by(ANN, &gateway, &message(&json!({}))).await.status,
        403,
        "the agent's alone"
    );
    assert_eq!(
        by(ANN, &gateway, &task("CancelTask")).await.status,
        403,
        "the listener's alone"
    );
    assert_eq!(by(ANN, &gateway, &task("GetTask")).await.status, 200);
    // The card is everybody's.
    assert_eq!(
        call(gateway.address, "GET", "/agent/.well-known/agent-card.json", &[], "")
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_policy_that_cannot_hold_is_refused_at_the_start() {
    let agent = agent().await;
    let wrong = |policy: &str| {
        let yaml = config_of(&[agent.address], &format!("policy: {policy}"), "");
        a2a_gateway::config::parse(
            &yaml,
            std::path::Path::new("."),
            &a2a_gateway::config::Environment::default(),
        )
        .map(|_| ())
        .map_err(|invalid| format!("{invalid:?}"))
    };
    let error = wrong("{ allow: [ { when: \"principal.group == 'x'\" } ] }").unwrap_err();
    assert!(
        error.contains("agents[0].policy.allow[0].when") && error.contains("there is no member `group`"),
        "{error}"
    );
    let error = wrong("{ allow: [ { skills: [ a ] } ] }").unwrap_err();
    assert!(error.contains("has no effect without `policy.skill`"), "{error}");
    let error = wrong("{ allow: [ { name: a }, { name: a } ] }").unwrap_err();
    assert!(error.contains("already used"), "{error}");
    assert!(wrong("{ allow: [ { operations: [ sing ] } ] }").is_err());
    assert!(wrong("{ allow: [ { when: \"true\" } ] }").is_ok());
}
