//! The extended card as each caller sees it.

use a2a_gateway::a2a::{Binding, Generation::V1_0, Operation};
use serde_json::{Value, json};

use super::ownership::{ANN, BOB, with_keys};
use crate::harness::agent::{Agent, CARD, CARD_0_3, Received, Reply};
use crate::harness::caller::{CALLERS, Caller, dialect};
use crate::harness::client::{Rpc, open_grpc};
use crate::harness::grpc::{CARD_GRPC, GrpcAgent, framed, good};
use crate::harness::{Gateway, call, config_of};

/// Bob may send for one skill, Ann for any.
const POLICY: &str = r#"policy:
      task_owner: none
      skill: skill
      allow:
        - { name: cards, operations: [ extended-card ] }
        - { name: plans, operations: [ send ], skills: [ plan ] }
        - { name: ann, when: "principal.id == 'key:ann'" }
"#;

fn with_skills(card: &str) -> String {
    let skills = ["plan", "pay"].map(|id| json!({"id": id, "name": "n", "description": "d", "tags": ["t"]}));
    card.replace("\"skills\":[]", &format!("\"skills\":{}", json!(skills)))
}

fn answer(request: &Received) -> Reply {
    let card = with_skills(CARD);
    Reply::Json(format!(r#"{{"id":{},"jsonrpc":"2.0","result":{card}}}"#, request.id()))
}

fn ids(card: &Value) -> Vec<&str> {
    let skills = card["skills"].as_array().into_iter().flatten();
    skills.filter_map(|skill| skill["id"].as_str()).collect()
}

async fn start(yaml: &str) -> Gateway {
    let gateway = Gateway::start(&with_keys(yaml)).await;
    gateway.ready().await;
    gateway
}

async fn each_sees_its_own(gateway: &Gateway) {
    for caller in CALLERS.map(Caller) {
        for (key, expected) in [(ANN, vec!["plan", "pay"]), (BOB, vec!["plan"])] {
            let got = caller
                .by(key, gateway, Operation::ExtendedCard, &json!({}))
                .await
                .unwrap();
            assert_eq!(ids(&got[0]), expected, "{:?}, {key}: {}", caller.0, got[0]);
        }
    }
}

/// A2A 1.0 §3.1.11.
#[tokio::test]
async fn a_caller_sees_the_skills_that_it_may_use_over_every_binding() {
    let agent = Agent::with_card(&with_skills(CARD), answer).await;
    let yaml = config_of(&[agent.address], POLICY, "").replace("path: /agent", "path: /");
    each_sees_its_own(&start(&yaml).await).await;

    let agent = Agent::over_http_json(&with_skills(crate::harness::agent::CARD_HTTP_JSON), |request| {
        assert_eq!(request.line(), "GET /extendedAgentCard");
        Reply::Json(with_skills(crate::harness::agent::CARD_HTTP_JSON))
    })
    .await;
    let yaml = config_of(&[agent.address], POLICY, "").replace("path: /agent", "path: /");
    each_sees_its_own(&start(&yaml).await).await;

    let agent = GrpcAgent::start(&with_skills(CARD_GRPC), |request| {
        let method = request.method();
        let card = super::grpc_agents::message(
            method.generation,
            method.operation,
            &serde_json::from_str(&with_skills(CARD)).unwrap(),
        );
        crate::harness::grpc::Reply::of(vec![framed(&card), good()])
    })
    .await;
    each_sees_its_own(&start(&agent.config(POLICY)).await).await;
}

#[tokio::test]
async fn a_card_that_is_fetched_is_for_its_caller_too() {
    let card = with_skills(CARD_0_3).replace("0.3.0", "0.2.6").replacen(
        '{',
        "{\"supportsAuthenticatedExtendedCard\":true,",
        1,
    );
    let shown = card.clone();
    let agent = Agent::with_card(&card, move |_| Reply::Json(shown.clone())).await;
    let gateway = start(&config_of(&[agent.address], POLICY, "")).await;
    for (key, expected) in [(ANN, vec!["plan", "pay"]), (BOB, vec!["plan"])] {
        let got = call(
            gateway.address,
            "GET",
            "/agent/agent/authenticatedExtendedCard",
            &[("x-api-key", key)],
            "",
        )
        .await;
        assert_eq!(ids(&got.json()), expected, "{}", got.text());
        assert_eq!(got.header("cache-control"), Some("private, no-store"));
        assert_eq!(got.header("vary"), Some("Authorization"));
    }
}

#[tokio::test]
async fn no_cache_keeps_it() {
    let agent = Agent::with_card(&with_skills(CARD), |request| {
        let answer = format!(r#"{{"id":{},"jsonrpc":"2.0","result":{CARD}}}"#, request.id());
        Reply::Whole(
            200,
            "content-type: application/json\r\ncache-control: public, max-age=9\r\netag: \"a\"\r\n",
            answer,
        )
    })
    .await;
    let yaml = config_of(&[agent.address], POLICY, "").replace("path: /agent", "path: /");
    let gateway = start(&yaml).await;
    let fields = [("x-api-key", ANN), ("a2a-version", "1.0")];
    let told = |header: &dyn Fn(&str) -> Option<String>| {
        assert_eq!(header("cache-control").as_deref(), Some("private, no-store"));
        assert_eq!(header("vary").as_deref(), Some("Authorization"));
        assert_eq!(header("etag"), None);
    };
    let got = call(gateway.address, "GET", "/extendedAgentCard", &fields, "").await;
    assert_eq!(got.status, 200, "{}", got.text());
    told(&|name| got.header(name).map(str::to_owned));
    let body = r#"{"jsonrpc":"2.0","id":9,"method":"GetExtendedAgentCard"}"#;
    let posted = [&fields[..], &[("content-type", "application/json")]].concat();
    let got = call(gateway.address, "POST", "/", &posted, body).await;
    assert_eq!(got.status, 200, "{}", got.text());
    told(&|name| got.header(name).map(str::to_owned));
    let written = Caller(dialect(V1_0, Binding::Grpc)).write(Operation::ExtendedCard, &json!({}));
    let rpc = Rpc::read(open_grpc(gateway.address, &written.path, &fields, written.body).await).await;
    assert_eq!(rpc.status(), 0, "{rpc:?}");
    told(&|name| rpc.headers.get(name).map(|value| value.to_str().unwrap().to_owned()));
}

/// Where callers may show a credential and need not.
#[tokio::test]
async fn strangers_are_told_how_to_get_it_and_the_agent_is_not_asked() {
    let agent = Agent::with_card(CARD, answer).await;
    let yaml = config_of(&[agent.address], "policy: { task_owner: none }", "")
        .replace("path: /agent", "path: /")
        .replace("security: [ { key: [] } ]", "security: [ { key: [] }, {} ]");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let body = r#"{"jsonrpc":"2.0","id":9,"method":"GetExtendedAgentCard"}"#;
    let json = ("content-type", "application/json");
    for (method, path, fields, body) in [
        ("POST", "/", vec![json], body),
        ("GET", "/extendedAgentCard", vec![("a2a-version", "1.0")], ""),
        ("GET", "/v1/card", vec![], ""),
    ] {
        let got = call(gateway.address, method, path, &fields, body).await;
        assert_eq!(got.status, 401, "{path}: {}", got.text());
        assert!(got.header("www-authenticate").is_some(), "{path}");
    }
    let written = Caller(dialect(V1_0, Binding::Grpc)).write(Operation::ExtendedCard, &json!({}));
    let rpc = Rpc::read(open_grpc(gateway.address, &written.path, &[], written.body).await).await;
    assert_eq!(rpc.status(), 16, "{rpc:?}");
    assert!(agent.received().is_empty());

    // Nobody is asked for a credential for what is not there.
    agent.set_card(&CARD.replace(",\"extendedAgentCard\":true", ""));
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let got = call(gateway.address, "POST", "/", &[json], body).await;
    assert_eq!((got.status, got.code()), (200, -32007), "{}", got.text());
    assert!(agent.received().is_empty());
}
