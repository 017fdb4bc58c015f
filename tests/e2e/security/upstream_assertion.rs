//! What agents are told of callers: JSON Web Tokens (RFC 7519) that the gateway signs, and the key set that checks them (RFC
//! 7517), looked at with another library as an agent would.

use std::path::Path;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use rcgen::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::token_server::{Issuer, now};
use crate::harness::agent::{CARD, CARD_HTTP_JSON, Received};
use crate::harness::{
    Agent, Answer, Gateway, KEY, OPEN, Reply, agent, call, config_of, eventually, get, of_task, post, send,
    with_upstream,
};

const PLACE: &str = "/.well-known/jwks.json";
const HEADER: &str = "a2a-gateway-assertion";

fn new_key(folder: &Path, name: &str) {
    let pair = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    std::fs::write(folder.join(name), pair.serialize_pem()).unwrap();
}

struct Site {
    issuer: Issuer,
    gateway: Gateway,
    folder: TempDir,
}

/// `assertion` and `keys` are the sections.
async fn site(agents: &[&Agent], assertion: &str, keys: &str, change: impl Fn(String) -> String) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path());
    new_key(folder.path(), "one.pem");
    new_key(folder.path(), "two.pem");
    let addresses: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    let top = format!("assertions: {{ keys: [ {keys} ] }}");
    let yaml = with_upstream(
        &config_of(&addresses, OPEN, &top),
        &format!("assertion: {{ {assertion} }}"),
    )
    .replace(
        "security_schemes:\n",
        &format!("security_schemes:\n{}\n", Issuer::scheme()),
    )
    .replace("id: tester,", "id: tester, attributes: [ tenant=acme ],")
    .replace("security: [ { key: [] } ]", "security: [ { token: [] }, { key: [] } ]");
    let gateway = Gateway::start_in(&change(yaml), folder.path()).await;
    gateway.ready().await;
    Site {
        issuer,
        gateway,
        folder,
    }
}

impl Site {
    async fn ask(&self, token: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let fields = [("authorization", &*bearer), ("content-type", "application/json")];
        call(self.gateway.address, "POST", "/agent", &fields, body).await
    }

    async fn keys(&self) -> JwkSet {
        let answer = get(self.gateway.address, PLACE).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The claims of what the agent was told with a request, as it checks them.
    async fn told(&self, request: &Received, header: &str, audience: &str) -> Value {
        let keys = self.keys().await;
        let values: Vec<_> = request
            .head
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with(&format!("{header}:")))
            .collect();
        assert_eq!(values.len(), 1, "{}", request.head);
        let token = request.field(header).unwrap();
        let head = decode_header(token).unwrap();
        assert_eq!(head.typ.as_deref(), Some("a2a-gateway-assertion+jwt"), "RFC 8725 §3.11");
        let key = DecodingKey::from_jwk(keys.find(&head.kid.unwrap()).expect("a published key")).unwrap();
        let mut validation = Validation::new(head.alg);
        validation.set_audience(&[audience]);
        validation.set_issuer(&["https://gateway.example"]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        decode::<Value>(token, &key, &validation).unwrap().claims
    }
}

fn working() -> impl Fn(&Received) -> Reply + Send + Sync {
    agent::tasks(|| "t".to_owned())
}

const ONE: &str = "{ private_key: one.pem }";

#[tokio::test]
async fn an_agent_is_told_who_calls() {
    let agent = Agent::start(working()).await;
    let site = site(&[&agent], "claims: [ groups, tenant ]", ONE, |yaml| yaml).await;
    let origin = format!("http://{}", agent.address);
    let exp = now() + 20;
    let ann = site.issuer.token(
        "ann",
        json!({ "groups": ["a b", "c"], "email": "ann@example.com", "exp": exp }),
    );
    let answer = site.ask(&ann, &send("1", "x")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let request = agent.received().pop().unwrap();
    assert!(
        !request.head.contains(&ann),
        "the caller's own token stays: {}",
        request.head
    );
    let told = site.told(&request, HEADER, &origin).await;
    assert_eq!(told["sub"], "jwt:https://login.example.com#ann");
    assert_eq!(told["agent"], "agent");
    assert_eq!(
        told["attributes"],
        json!({ "groups": ["a b", "c"] }),
        "and no other claim: {told}"
    );
    assert_eq!(told["exp"], exp, "no longer than the caller's own token");
    assert!(told["iat"].as_u64().unwrap() <= now());

    // Other callers at once, each by itself.
    let (key, again) = (
        post(site.gateway.address, "/agent", &send("1", "x")).await,
        site.ask(&ann, &send("1", "x")).await,
    );
    assert_eq!((key.status, again.status), (200, 200));
    let received = agent.received();
    let key = site.told(&received[1], HEADER, &origin).await;
    assert_eq!(
        (&key["sub"], &key["attributes"]),
        (&json!("key:tester"), &json!({ "tenant": ["acme"] }))
    );
    assert_eq!(key["exp"].as_u64().unwrap(), key["iat"].as_u64().unwrap() + 60);
    let again = site.told(&received[2], HEADER, &origin).await;
    assert_eq!(again["sub"], told["sub"]);
    assert_ne!(again["jti"], told["jti"], "each may be taken once");
}

#[tokio::test]
async fn what_a_caller_sends_under_the_name_never_reaches_an_agent() {
    let (agent, other) = (Agent::start(working()).await, Agent::start(working()).await);
    let second = format!(
        "  - {{ name: other, path: /other, forward_credentials: true, {OPEN}, upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }} }}\n",
        other.address
    );
    let site = site(&[&agent], "header: X-Who, audience: maps", ONE, |yaml| {
        yaml.replace("assertions:", &format!("{second}assertions:"))
            .replace("security: [", "security: [ {},")
    })
    .await;
    let fields = [
        ("x-api-key", KEY),
        ("x-who", "forged"),
        ("X-WHO", "forged too"),
        ("a2a-gateway-assertion", "forged"),
        ("content-type", "application/json"),
    ];
    for path in ["/agent", "/other"] {
        assert_eq!(
            call(site.gateway.address, "POST", path, &fields, &send("1", "x"))
                .await
                .status,
            200
        );
    }
    let (told, untold) = (agent.received().pop().unwrap(), other.received().pop().unwrap());
    assert!(!told.head.contains("forged"), "{}", told.head);
    assert_eq!(site.told(&told, "x-who", "maps").await["sub"], "key:tester");
    // Also where the agent is told nothing, and credentials go on.
    assert_eq!(untold.field("x-api-key"), Some(KEY));
    assert_eq!(untold.field("x-who"), None, "{}", untold.head);
    assert_eq!(untold.field(HEADER), None, "{}", untold.head);
    // And of callers who are nobody.
    let nobody: Vec<_> = fields[1..].to_vec();
    assert_eq!(
        call(site.gateway.address, "POST", "/agent", &nobody, &send("1", "x"))
            .await
            .status,
        200
    );
    let request = agent.received().pop().unwrap();
    assert!(
        !request.head.contains("forged") && request.field("x-who").is_none(),
        "{}",
        request.head
    );
}

#[tokio::test]
async fn every_request_for_a_caller_tells_of_it_and_no_other_one_does() {
    let answers = |request: &Received| {
        let call = request.json();
        let id = &call["id"];
        let result = match call["method"].as_str().unwrap() {
            "ListTasks" => json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}),
            "GetExtendedAgentCard" => serde_json::from_str(CARD).unwrap(),
            _ => json!({"id": call["params"]["id"], "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}),
        };
        Reply::Json(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
    };
    let (one, two) = (Agent::start(answers).await, Agent::start(answers).await);
    let site = site(&[&one, &two], "", ONE, |yaml| yaml).await;
    let ann = site.issuer.token("ann", json!({}));
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;
    let card = r#"{"jsonrpc":"2.0","id":"l","method":"GetExtendedAgentCard"}"#;
    for body in [list, &*of_task("GetTask", "t9"), card] {
        let answer = site.ask(&ann, body).await;
        assert!(
            answer.status == 200 && answer.json().get("error").is_none(),
            "{}",
            answer.text()
        );
    }
    for agent in [&one, &two] {
        assert!(agent.received().len() >= 2);
        for request in agent.received() {
            // For the endpoint that gets it, and no other.
            let told = site.told(&request, HEADER, &format!("http://{}", agent.address)).await;
            assert_eq!(told["sub"], "jwt:https://login.example.com#ann");
        }
        assert!(agent.card_requests().iter().all(|card| card.field(HEADER).is_none()));
    }
    let watched = Agent::over_http_json(CARD_HTTP_JSON, |_| Reply::Json("{}".to_owned())).await;
    let _site = self::site(&[&watched], "", ONE, |yaml| {
        yaml.replace(
            "assertion: {",
            "health: { path: /healthz, interval: 1s, timeout: 1s }, assertion: {",
        )
    })
    .await;
    eventually("the endpoint is checked", || async { !watched.received().is_empty() }).await;
    assert_eq!(watched.received()[0].field(HEADER), None);
}

#[tokio::test]
async fn the_key_set_is_public_and_kept_by_whoever_asks() {
    let agent = Agent::start(working()).await;
    let keys = "{ private_key: one.pem, id: first }, { private_key: two.pem }";
    let site = site(&[&agent], "", keys, |yaml| yaml).await;
    let address = site.gateway.address;
    let answer = get(address, PLACE).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    let set = answer.json();
    assert_eq!(set["keys"].as_array().unwrap().len(), 2);
    assert_eq!(set["keys"][0]["kid"], "first");
    for key in set["keys"].as_array().unwrap() {
        let mut members: Vec<_> = key.as_object().unwrap().keys().map(String::as_str).collect();
        members.sort_unstable();
        assert_eq!(
            members,
            ["alg", "crv", "kid", "kty", "use", "x"],
            "nothing private (RFC 8037 §2)"
        );
    }
    let etag = answer.header("etag").unwrap();
    let again = call(address, "GET", PLACE, &[("if-none-match", etag)], "").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let head = call(address, "HEAD", PLACE, &[], "").await;
    assert_eq!(
        (head.status, head.body.len(), head.header("etag")),
        (200, 0, Some(etag))
    );
    let posted = post(address, PLACE, "{}").await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
    assert!(agent.received().is_empty());

    // Without keys there is nothing.
    let gateway = Gateway::of(&[agent.address], OPEN, "").await;
    assert_eq!(get(gateway.address, PLACE).await.status, 404);
}

#[tokio::test]
async fn keys_are_changed_under_a_running_gateway() {
    let agent = Agent::start(working()).await;
    let site = site(&[&agent], "audience: maps", ONE, |yaml| yaml).await;
    let body = send("1", "x");
    let ask = || post(site.gateway.address, "/agent", &body);
    assert_eq!(ask().await.status, 200);
    let old = site.keys().await;
    let before = agent.received().pop().unwrap();
    site.told(&before, HEADER, "maps").await;
    new_key(site.folder.path(), "one.pem");
    eventually("the new key is published", || async { site.keys().await != old }).await;
    assert_eq!(ask().await.status, 200);
    site.told(&agent.received().pop().unwrap(), HEADER, "maps").await;
    // One that is none changes nothing.
    let known = site.keys().await;
    std::fs::write(site.folder.path().join("one.pem"), "hunter2").unwrap();
    assert!(!site.gateway.reload().await);
    assert_eq!(site.keys().await, known);
    assert_eq!(ask().await.status, 200);
    site.told(&agent.received().pop().unwrap(), HEADER, "maps").await;
}
