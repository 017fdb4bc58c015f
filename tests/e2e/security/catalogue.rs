//! What of the list of agents a caller sees: what it may use, by requirement, scope, rule and skill; and what a wrong credential costs.

use serde_json::json;

use super::oauth2_dpop::{bound, header, proven};
use super::tokens::{Key, but};
use super::{ISSUER, Server};
use crate::harness::agent::CARD;
use crate::harness::{Gateway, KEY, call, get};
use crate::lifecycle::binary::run;
use crate::path::catalogue::{ask, named, names, start, with_card, yaml};
use crate::path::ownership::{ANN, BOB, with_keys};

const LIST: &str = "/agents";

async fn with_both(yaml: &str) -> Gateway {
    let gateway = Gateway::start(&with_keys(yaml)).await;
    gateway.ready().await;
    gateway
}

#[tokio::test]
async fn whoever_shows_a_credential_sees_what_it_may_call() {
    let (open, closed, inner, hidden) = (
        named("Open", "").await,
        named("Closed", "").await,
        named("Inner", "").await,
        named("Hidden", "").await,
    );
    let gateway = start(
        &[
            ("open", &open, "security: []"),
            ("closed", &closed, ""),
            ("inner", &inner, "listed: callers"),
            ("hidden", &hidden, "listed: never"),
        ],
        "catalogue: {}",
    )
    .await;
    let public = get(gateway.address, LIST).await;
    assert_eq!(names(&public), ["Closed", "Open"]);
    let required: Vec<_> = public.json()["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["credentialRequired"].clone())
        .collect();
    assert_eq!(required, [true, false]);
    let own = ask(&gateway, LIST, KEY).await;
    assert_eq!(names(&own), ["Closed", "Inner", "Open"]);
    assert_eq!(own.header("cache-control"), Some("private, no-store"));
    assert_eq!(
        (own.header("etag"), own.header("content-type")),
        (None, Some("application/json"))
    );
    let head = call(gateway.address, "HEAD", LIST, &[("x-api-key", KEY)], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(own.body.len().to_string().as_str()));

    let wrong = ask(&gateway, LIST, "wrong").await;
    assert_eq!(wrong.status, 401, "never a stranger's list: {}", wrong.text());
    assert!(wrong.header("www-authenticate").is_some());
    assert_eq!(wrong.json()["error"]["status"], "UNAUTHENTICATED");
    for path in ["/.well-known/api-catalog", "/.well-known/ai-catalog.json"] {
        let got = ask(&gateway, path, "wrong").await;
        assert_eq!(got.status, 200, "{path} is everybody's");
        let text = got.text();
        assert!(!text.contains("inner") && !text.contains("hidden"), "{text}");
    }
    let records = gateway.access(6).await;
    let of = |outcome: &str, principal: &str| {
        let is_it = |record: &&serde_json::Value| record["outcome"] == outcome && record["principal"] == principal;
        records.iter().filter(is_it).count()
    };
    assert_eq!(of("served", "key:tester"), 2);
    let refused = records
        .iter()
        .find(|record| record["outcome"] == "unauthenticated")
        .unwrap();
    assert_eq!(refused["detail"], "unknown-key");
}

#[tokio::test]
async fn rules_and_demands_of_skills_hold_for_the_list() {
    let card = CARD.replace(
        "\"skills\":[]",
        r#""securitySchemes":{"key":{"apiKeySecurityScheme":{"location":"header","name":"X-API-Key"}}},
        "skills":[{"id":"forecast","name":"Forecast","description":"d","tags":["weather"]},
        {"id":"open","name":"Open","description":"d","tags":["free"]},
        {"id":"payout","name":"Payout","description":"d","tags":["money"],"securityRequirements":[{"schemes":{"key":{"list":["pay"]}}}]}]"#,
    );
    let (skilled, ops, reads) = (
        with_card(&card.replace("\"name\":\"Fake\"", "\"name\":\"Skilled\"")).await,
        named("Ops", "").await,
        named("Reads", "").await,
    );
    let skill = "policy: { skill: \"https://example.com/skill/v1\", allow: [ { name: any }, { skills: [ forecast ], when: \"'ops' in principal.groups\" } ] }";
    let gateway = with_both(&yaml(
        &[
            ("skilled", &skilled, skill),
            (
                "ops",
                &ops,
                "policy: { allow: [ { when: \"'ops' in principal.groups\" } ] }",
            ),
            ("reads", &reads, "policy: { allow: [ { operations: [ get, list ] } ] }"),
        ],
        "catalogue: {}",
    ))
    .await;
    let skills = async |key: &str| {
        let list = ask(&gateway, &format!("{LIST}?q=skilled"), key).await.json();
        let skills = list["agents"][0]["skills"].as_array().unwrap().clone();
        skills
            .iter()
            .map(|skill| skill["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&ask(&gateway, LIST, ANN).await), ["Skilled"]);
    assert_eq!(
        names(&ask(&gateway, LIST, BOB).await),
        ["Ops", "Skilled"],
        "nobody may send to the third"
    );
    assert_eq!(names(&get(gateway.address, LIST).await), ["Ops", "Reads", "Skilled"]);
    assert_eq!(
        skills(ANN).await,
        ["open"],
        "the rule of one and the scope of another are not met"
    );
    assert_eq!(skills(BOB).await, ["forecast", "open"]);
    assert_eq!(skills("").await, ["forecast", "open", "payout"], "as the card says");
    // What is not seen is not found either.
    for (query, key, expected) in [
        ("skill=forecast", ANN, &[][..]),
        ("skill=forecast", BOB, &["Skilled"]),
        ("tag=weather", ANN, &[]),
        ("q=payout", BOB, &[]),
        ("q=free", ANN, &["Skilled"]),
    ] {
        let found = ask(&gateway, &format!("{LIST}?{query}"), key).await;
        assert_eq!(names(&found), expected, "{query}");
    }
}

#[tokio::test]
async fn a_claim_that_owns_tasks_is_needed_to_see_the_agent() {
    let agent = named("Owned", "").await;
    let yaml = yaml(
        &[("a", &agent, "policy: { task_owner: \"claim:groups\" }")],
        "catalogue: {}",
    );
    let gateway = with_both(&yaml).await;
    // Bob is in two groups, and Ann in none: neither has one owner.
    for key in [ANN, BOB] {
        assert!(names(&ask(&gateway, LIST, key).await).is_empty());
    }
}

#[tokio::test]
async fn a_caller_without_a_scope_that_any_agent_takes_is_told() {
    let agent = named("Paid", "").await;
    let yaml = yaml(&[("a", &agent, "security: [ { key: [ pay ] } ]")], "catalogue: {}");
    let gateway = with_both(&yaml).await;
    let got = ask(&gateway, LIST, ANN).await;
    assert_eq!(
        (got.status, &got.json()["error"]["status"]),
        (403, &json!("PERMISSION_DENIED"))
    );
}

/// However many agents ask for it in however many ways, a credential is checked once.
#[tokio::test]
async fn each_verifier_is_asked_once() {
    let server = Server::start().await;
    server.says("/check", 200, json!({ "sub": "ann", "scope": "read" }));
    let (a, b, c) = (named("A", "").await, named("B", "").await, named("C", "").await);
    let yaml = yaml(
        &[
            ("a", &a, "security: [ { asked: [] } ]"),
            ("b", &b, "security: [ { asked: [ read ] }, { key: [] } ]"),
            ("c", &c, "security: [ { asked: [ write ] } ]"),
        ],
        "catalogue: {}",
    )
    .replace(
        "security_schemes:\n",
        &format!(
            "security_schemes:\n  asked: {{ type: http, scheme: Digest, check: {{ url: \"{}\", cache_ttl: 0s, negative_ttl: 0s }} }}\n",
            server.url("/check")
        ),
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let fields = [("authorization", "Digest response=\"x\"")];
    let got = call(gateway.address, "GET", LIST, &fields, "").await;
    assert_eq!(names(&got), ["A", "B"]);
    assert_eq!(server.asked("/check"), 1);
    let vary = get(gateway.address, LIST).await;
    assert_eq!(vary.header("vary"), Some("Authorization, X-API-Key"));
    assert_eq!(server.asked("/check"), 1, "nothing was shown");
    server.says("/check", 401, json!({}));
    let refused = call(gateway.address, "GET", LIST, &fields, "").await;
    assert_eq!((refused.status, server.asked("/check")), (401, 2));
    let challenges: Vec<_> = refused.headers.get_all("www-authenticate").iter().collect();
    assert_eq!(challenges.len(), 2, "of every scheme: {challenges:?}");
    server.says("/check", 500, json!({}));
    let unknown = call(gateway.address, "GET", LIST, &fields, "").await;
    assert_eq!((unknown.status, server.asked("/check")), (503, 3));
}

#[tokio::test]
async fn guesses_cost_their_address_its_budget() {
    let agent = named("A", "").await;
    let top = "catalogue: { rate: 3/h }";
    let gateway = start(&[("a", &agent, "")], top).await;
    for guess in ["one", "two", "three"] {
        assert_eq!(ask(&gateway, LIST, guess).await.status, 401);
    }
    for key in ["four", KEY, ""] {
        let got = ask(&gateway, LIST, key).await;
        assert_eq!(got.status, 429, "{key}");
        assert!(got.header("retry-after").is_some());
    }
    assert_eq!(get(gateway.address, "/.well-known/ai-catalog.json").await.status, 200);
    let general = "catalogue: {}\nrate_limits: [ { per: principal, rate: 2/h } ]";
    let gateway = start(&[("a", &agent, "")], general).await;
    for key in [KEY, ""] {
        for expected in [200, 200, 429] {
            assert_eq!(
                ask(&gateway, LIST, key).await.status,
                expected,
                "the general rules count for the list"
            );
        }
    }
}

#[tokio::test]
async fn what_would_become_of_a_request_for_a_list_is_explained() {
    let agent = named("A", "").await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let config = write("gateway.yaml", &yaml(&[("a", &agent, "")], "catalogue: {}"));
    for (place, route, decision) in [
        (
            LIST,
            "the list of agents, of which everybody sees those that it may call",
            "only a running gateway can tell",
        ),
        (
            "/.well-known/api-catalog",
            "a list of the agents that are public, which is everybody's",
            "allowed",
        ),
    ] {
        let request = write("list.http", &format!("GET {place} HTTP/1.1\n\n"));
        let explained = run(&["explain", "--config", &config, "--request", &request]).await;
        assert_eq!(explained.code, Some(0), "{}", explained.stderr);
        let expected = format!("route        {route}\ndecision     {decision}\n");
        assert!(explained.stdout.ends_with(&expected), "{}", explained.stdout);
    }
}

/// RFC 9449 §4.3: for the URL of the list, whichever agents ask for the token; taken once, by all of them together.
#[tokio::test]
async fn a_proof_of_possession_is_for_the_list() {
    let (server, issuer, sender) = (Server::start().await, Key::new("k"), Key::new("sender"));
    server.says("/keys", 200, issuer.set());
    let (a, b) = (named("A", "").await, named("B", "").await);
    let agents = [
        ("a", &a, "security: [ { token: [] } ]"),
        ("b", &b, "security: [ { token: [] }, { key: [] } ]"),
    ];
    let scheme = format!(
        "security_schemes:\n  token: {{ type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_url: \"{}\" }}\n",
        server.url("/keys")
    );
    let gateway = Gateway::start(&yaml(&agents, "catalogue: {}").replace("security_schemes:\n", &scheme)).await;
    gateway.ready().await;
    let token = bound(&issuer, &sender);
    let authorization = format!("DPoP {token}");
    let show = async |proof: &str| {
        let fields = [("authorization", authorization.as_str()), ("dpop", proof)];
        call(gateway.address, "GET", LIST, &fields, "").await
    };
    let of = |url: &str| {
        let claims = but(proven(&token), &json!({ "htm": "GET", "htu": url }));
        sender.sign_with(&header(&sender), &claims)
    };
    let good = of("https://gateway.example/agents");
    assert_eq!(names(&show(&good).await), ["A", "B"]);
    assert_eq!(show(&good).await.status, 401, "it was taken");
    assert_eq!(show(&of("https://gateway.example/a")).await.status, 401, "for an agent");
}
