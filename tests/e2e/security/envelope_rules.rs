//! Messages of the envelope protocol under what holds for calls: rules, limits, what agents are told of callers, and tokens for theirs.

use serde_json::{Value, json};

use super::token_server::{Issuer, field, token, url};
use crate::harness::agent::{Agent, Reply, tasks};
use crate::harness::{Answer, Gateway, call};
use crate::path::envelope::{config, delegation, message, say, yard};
use crate::path::ownership::{ANN, BOB};

const HARBOUR: &str = "envelope: { agent_id: agent_harbour }";
const YARD: &str = "envelope: { agent_id: agent_yard }\n";

/// More keys of the A2A agent, and of the one that speaks the protocol.
async fn start(harbour: &Agent, yard: &Agent, of_harbour: &str, of_yard: &str) -> Gateway {
    let yaml = config(&[harbour.address], &[yard.address], "");
    assert!(yaml.contains(HARBOUR) && yaml.contains(YARD), "{yaml}");
    let yaml = yaml
        .replace(YARD, &format!("{YARD}    {of_yard}\n"))
        .replace(HARBOUR, &format!("{HARBOUR}\n    {of_harbour}"));
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    gateway
}

async fn both() -> (Agent, Agent) {
    (Agent::start(tasks(|| "t".to_owned())).await, yard().await)
}

fn to_yard(id: &str, from: &str, kind: &str) -> Value {
    message(
        id,
        from,
        "agent_yard",
        kind,
        json!({ "task_id": "1", "description": "x" }),
    )
}

fn with(mut message: Value, metadata: &Value) -> Value {
    message["metadata"] = metadata.clone();
    message
}

#[track_caller]
fn is(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
}

#[tokio::test]
async fn rules_are_asked_of_messages_too() {
    let (harbour, yard) = both().await;
    let policy = "policy: { allow: [ { when: \"principal.id == 'key:bob' && operation == 'send'\" } ] }";
    let gateway = start(&harbour, &yard, policy, policy).await;
    let guest = |id: &str, to: &str| message(id, "guest_1", to, "task_delegation", json!({ "description": "x" }));
    for to in ["agent_harbour", "agent_yard"] {
        is(&say(&gateway, ANN, &guest(&format!("a-{to}"), to)).await, 403, to);
        is(&say(&gateway, BOB, &guest(&format!("b-{to}"), to)).await, 200, to);
    }
    assert_eq!((harbour.received().len(), yard.received().len()), (1, 1));
}

/// A delegation has its metadata from the message; of one that passes as it came nothing is read, so that a rule that reads it
/// allows nothing.
#[tokio::test]
async fn rules_read_the_metadata_of_a_delegation_and_of_nothing_else() {
    let (harbour, yard) = both().await;
    let reads = "policy: { allow: [ { when: \"message.metadata.level == 3\" } ] }";
    let gateway = start(&harbour, &yard, reads, reads).await;
    let good = json!({ "level": 3 });
    is(&say(&gateway, ANN, &delegation("m1")).await, 403, "none");
    is(
        &say(&gateway, ANN, &with(delegation("m2"), &good)).await,
        200,
        "a good one",
    );
    let passing = with(to_yard("m3", "agent_pilot", "task_delegation"), &good);
    is(&say(&gateway, ANN, &passing).await, 403, "nothing of it is read");
    assert_eq!((harbour.received().len(), yard.received().len()), (1, 0));

    let skill = "policy: { skill: skill, allow: [ { name: any }, { name: pay, skills: [ pay ], when: 'false' } ] }";
    let gateway = start(&harbour, &yard, skill, "").await;
    let pay = with(delegation("m4"), &json!({ "skill": "pay" }));
    is(&say(&gateway, ANN, &pay).await, 403, "a skill with rules of its own");
    is(&say(&gateway, ANN, &delegation("m5")).await, 200, "no skill");
}

#[tokio::test]
async fn limits_count_messages_that_pass_as_they_came() {
    let (harbour, yard) = both().await;
    let limits = "limits: [ { per: principal, bytes_in: 1B/h } ]";
    let gateway = start(&harbour, &yard, limits, limits).await;
    is(
        &say(&gateway, ANN, &to_yard("m1", "agent_pilot", "request")).await,
        200,
        "the first",
    );
    is(
        &say(&gateway, ANN, &to_yard("m2", "agent_pilot", "request")).await,
        429,
        "bytes",
    );
    is(
        &say(&gateway, BOB, &to_yard("m3", "guest_1", "request")).await,
        200,
        "of another",
    );
    is(&say(&gateway, ANN, &delegation("m4")).await, 200, "of another agent");
    is(
        &say(&gateway, ANN, &delegation("m5")).await,
        429,
        "bytes of a delegation",
    );

    for limit in ["task_creations: 1/h", "bytes_out: 1B/h", "rate: 1/h"] {
        let limits = format!("limits: [ {{ per: principal, {limit} }} ]");
        let gateway = start(&harbour, &yard, &limits, &limits).await;
        let first = to_yard("m1", "agent_pilot", "task_delegation");
        is(&say(&gateway, ANN, &first).await, 200, limit);
        let second = to_yard("m2", "agent_pilot", "task_delegation");
        is(&say(&gateway, ANN, &second).await, 429, limit);
        is(&say(&gateway, ANN, &delegation("m3")).await, 200, limit);
        is(&say(&gateway, ANN, &delegation("m4")).await, 429, limit);
    }
    let limits = "limits: [ { per: principal, task_creations: 1/h } ]";
    let gateway = start(&harbour, &yard, limits, limits).await;
    for id in ["m1", "m2"] {
        is(
            &say(&gateway, ANN, &to_yard(id, "agent_pilot", "request")).await,
            200,
            "it begins no task",
        );
    }
}

/// The one that the gateway signs is the only one.
#[tokio::test]
async fn agents_are_told_who_sends() {
    let (harbour, yard) = both().await;
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    std::fs::write(folder.path().join("one.pem"), pair.serialize_pem()).unwrap();
    let yaml = config(&[harbour.address], &[yard.address], "");
    let told = yaml.replace("upstream: { ", "upstream: { assertion: {}, ").replace(
        "envelope: { senders",
        "assertions: { keys: [ { private_key: one.pem } ] }\nenvelope: { senders",
    );
    assert_ne!(told, yaml);
    let gateway = Gateway::start_in(&told, folder.path()).await;
    gateway.ready().await;
    for (id, said) in [
        ("m1", delegation("m1")),
        ("m2", to_yard("m2", "agent_pilot", "request")),
    ] {
        let fields = [
            ("X-API-Key", ANN),
            ("content-type", "application/json"),
            ("a2a-gateway-assertion", "forged"),
            ("x-forwarded-client-cert", "forged"),
        ];
        let answer = call(gateway.address, "POST", "/envelope", &fields, &said.to_string()).await;
        is(&answer, 200, id);
    }
    for received in harbour.received().iter().chain(&yard.received()) {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        assert!(!received.head.contains("forged"), "{}", received.head);
        let assertion = received.field("a2a-gateway-assertion").expect("an assertion");
        let claims = URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1).unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims["sub"], "key:ann", "{claims}");
    }
    assert_eq!((harbour.received().len(), yard.received().len()), (1, 1));
}

#[tokio::test]
async fn a_token_in_the_head_is_exchanged_and_no_other() {
    let (harbour, yard) = both().await;
    let server = Agent::start(|_| Reply::Json(token("exchanged", 600))).await;
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path());
    let exchange = format!(
        "credential: {{ token_exchange: {{ token_url: \"{}\", client_id: g, client_secret: s }} }}, ",
        url(&server)
    );
    let yaml = config(&[harbour.address], &[yard.address], "")
        .replace("upstream: { ", &format!("upstream: {{ {exchange}"))
        .replace(
            "security_schemes:\n",
            &format!("security_schemes:\n{}\n", Issuer::scheme()),
        )
        .replace("security: [ { key: [] } ]", "security: [ { token: [] }, { key: [] } ]")
        .replace("callers: [ \"key:ann\" ]", "callers: [ \"key:ann\", \"jwt:*#ann\" ]");
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    let shown = issuer.token("ann", json!({}));
    let bearer = format!("Bearer {shown}");
    for said in [delegation("m1"), to_yard("m2", "agent_pilot", "request")] {
        let fields = [("authorization", &*bearer), ("content-type", "application/json")];
        let answer = call(gateway.address, "POST", "/envelope", &fields, &said.to_string()).await;
        is(&answer, 200, "a token");
    }
    for said in [delegation("m3"), to_yard("m4", "agent_pilot", "request")] {
        is(&say(&gateway, ANN, &said).await, 403, "a key");
    }
    let asked = server.received();
    assert_eq!(asked.len(), 2, "each agent has an exchange of its own");
    assert!(
        asked
            .iter()
            .all(|asked| field(asked, "subject_token").as_deref() == Some(&*shown))
    );
    for received in harbour.received().iter().chain(&yard.received()) {
        assert_eq!(received.field("authorization"), Some("Bearer exchanged"));
    }
    assert_eq!((harbour.received().len(), yard.received().len()), (1, 1));
}
