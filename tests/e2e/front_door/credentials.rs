//! What callers show at the front door: to whom it is shown, where it stands, and what guesses of it cost.

use serde_json::{Value, json};

use super::{ANN, by, sends, start, yaml};
use crate::harness::agent::Agent;
use crate::harness::tasks::Tasks;
use crate::harness::{Gateway, call};

const LIST: &str = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;
const CARD: &str = r#"{"jsonrpc":"2.0","id":"e","method":"GetExtendedAgentCard","params":{}}"#;

async fn agents() -> (Agent, Agent) {
    let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(super::WEATHER, Tasks::default().script("w")).await;
    (maps, weather)
}

/// With these fields beside those of every call.
async fn shows(gateway: &Gateway, path: &str, fields: &[(&str, &str)], body: &str) -> crate::harness::Answer {
    let mut all = vec![("content-type", "application/json"), ("A2A-Version", "1.0")];
    all.extend_from_slice(fields);
    let method = if body.is_empty() { "GET" } else { "POST" };
    call(gateway.address, method, path, &all, body).await
}

fn ids(page: &Value) -> Vec<&str> {
    let tasks = page["tasks"].as_array().unwrap_or_else(|| panic!("{page}"));
    tasks.iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_key_in_the_query_lists_the_tasks_of_all() {
    let (maps, weather) = agents().await;
    let yaml = yaml(&maps, &weather, "", "");
    let yaml = yaml.replace("in: header\n    name: X-API-Key", "in: query\n    name: key");
    let gateway = start(&yaml).await;
    let sent = shows(&gateway, "/?key=test-key", &[], &sends(r#""tenant":"maps""#, "")).await;
    assert_eq!(sent.json()["result"]["task"]["id"], "m0", "{}", sent.text());
    let listed = shows(&gateway, "/?key=test-key", &[], LIST).await;
    assert_eq!(ids(&listed.json()["result"]), ["m0"], "{}", listed.text());
    let listed = shows(&gateway, "/tasks?pageSize=5&key=test-key", &[], "").await;
    assert_eq!(ids(&listed.json()), ["m0"], "{}", listed.text());
    for agent in [&maps, &weather] {
        for received in agent.received() {
            let all = format!("{}{}", received.head, String::from_utf8_lossy(&received.body));
            assert!(!all.contains("test-key"), "{all}");
        }
    }
}

#[tokio::test]
async fn an_agent_that_gets_its_credential_gets_no_other_agents() {
    let (maps, weather) = agents().await;
    let gateway = start(&yaml(&maps, &weather, "", "forward_credentials: true")).await;
    let fields = [
        ("X-API-Key", ANN),
        ("X-Weather-Key", "carl-key"),
        ("Authorization", "Bearer of-somebody"),
    ];
    shows(&gateway, "/", &fields, &sends(r#""tenant":"maps""#, "")).await;
    shows(&gateway, "/", &fields, LIST).await;
    let received = maps.received();
    assert_eq!(received.len(), 2);
    for received in received {
        assert_eq!(received.field("x-api-key"), Some(ANN), "{}", received.head);
        assert_eq!(received.field("x-weather-key"), None, "{}", received.head);
        assert_eq!(received.field("authorization"), None, "{}", received.head);
    }
}

#[tokio::test]
async fn guesses_for_an_agent_cost_what_they_cost_at_its_own_address() {
    let (maps, weather) = agents().await;
    let yaml = yaml(&maps, &weather, "", "").replace(
        "    path: /agents/weather\n    security: [ { key: [] }, { other: [] } ]",
        "    path: /agents/weather\n    security: [ { other: [] } ]\n    limits: [ { per: address, rate: 2/h } ]",
    );
    let gateway = start(&yaml).await;
    let guess = |key: &'static str| {
        let gateway = &gateway;
        async move { shows(gateway, "/", &[("X-API-Key", ANN), ("X-Weather-Key", key)], CARD).await }
    };
    for wrong in ["a", "b"] {
        guess(wrong).await;
    }
    let answer = guess("carl-key").await;
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert!(!answer.text().contains("weather/route"), "{}", answer.text());
}

#[tokio::test]
async fn a_list_that_lacks_endpoints_says_so() {
    let (maps, weather) = agents().await;
    let away = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = away.local_addr().unwrap();
    drop(away);
    let yaml = yaml(&maps, &weather, "", "");
    let one = format!("endpoints: [ {{ url: \"http://{}/\" }} ]", maps.address);
    let two = format!(
        "endpoints: [ {{ url: \"http://{}/\" }}, {{ url: \"http://{address}/\" }} ], list: {{ partial: true }}",
        maps.address
    );
    let gateway = start(&yaml.replace(&one, &two)).await;
    let fields = [("X-API-Key", ANN)];
    let own = shows(&gateway, "/agents/maps", &fields, LIST).await;
    assert_eq!(own.header("a2a-gateway-partial"), Some("1"), "{}", own.text());
    let all = shows(&gateway, "/", &fields, LIST).await;
    assert_eq!(all.status, 200, "{}", all.text());
    assert_eq!(all.header("a2a-gateway-partial"), Some("1"), "{}", all.text());
}

#[tokio::test]
async fn the_tasks_of_a_context_that_several_agents_have_are_listed() {
    let (maps, weather) = agents().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    for tenant in ["maps", "weather"] {
        let body = sends(&format!(r#""tenant":"{tenant}""#), r#""contextId":"shared""#);
        let sent = by(ANN, &gateway, &body).await;
        assert_eq!(sent.status, 200, "{}", sent.text());
    }
    let body = LIST.replace("{}", r#"{"contextId":"shared"}"#);
    let listed = by(ANN, &gateway, &body).await;
    assert_eq!(listed.json()["error"], Value::Null, "{}", listed.text());
}

/// Written with an escape it is the same parameter.
#[tokio::test]
async fn a_tenant_of_the_query_does_not_go_on() {
    use crate::harness::agent::{CARD_HTTP_JSON, Reply};
    let reply = r#"{"task":{"id":"h-0","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
    let card = CARD_HTTP_JSON.replace(r#""protocolBinding""#, r#""tenant":"north","protocolBinding""#);
    let rest = Agent::over_http_json(&card, move |_| Reply::Json(reply.to_owned())).await;
    let weather = super::making("w", super::WEATHER).await;
    let gateway = start(&yaml(&rest, &weather, "default: maps", "")).await;
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#;
    let fields = [("X-API-Key", ANN)];
    assert_eq!(shows(&gateway, "/message:send", &fields, body).await.status, 200);
    let got = shows(&gateway, "/maps/tasks/h-0?%74enant=maps&historyLength=1", &fields, "").await;
    assert_ne!(got.status, 400, "{}", got.text());
    assert_eq!(rest.received()[1].line(), "GET /north/tasks/h-0?historyLength=1");
}

/// RFC 9449 §4.3: a proof is for the method and the URL that its caller wrote, not for what becomes of them on the way.
#[tokio::test]
async fn proofs_are_for_the_url_of_the_front_door() {
    use crate::security::oauth2_dpop::{bound, header, proven};
    use crate::security::tokens::{Key, but};
    use crate::security::{ISSUER, Server};
    let (server, issuer, sender) = (Server::start().await, Key::new("k"), Key::new("sender"));
    server.says("/keys", 200, issuer.set());
    let (maps, weather) = agents().await;
    let scheme = format!(
        "  token: {{ type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_url: \"{}\" }}\nagents:\n",
        server.url("/keys")
    );
    let yaml = yaml(&maps, &weather, "path: /all", "")
        .replace("agents:\n", &scheme)
        .replace("security: [ { key: [] } ]", "security: [ { token: [] } ]")
        .replace(
            "security: [ { key: [] }, { other: [] } ]",
            "security: [ { token: [] } ]",
        );
    let gateway = start(&yaml).await;
    let token = bound(&issuer, &sender);
    let authorization = format!("DPoP {token}");
    let ask = |path: &'static str, body: String| {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let at = json!({ "htm": method, "htu": format!("https://gateway.example{path}") });
        let proof = sender.sign_with(&header(&sender), &but(proven(&token), &at));
        let (gateway, authorization) = (&gateway, &authorization);
        async move {
            let fields = [("authorization", authorization.as_str()), ("dpop", proof.as_str())];
            shows(gateway, path, &fields, &body).await
        }
    };
    let sent = ask("/all", sends(r#""tenant":"maps""#, "")).await;
    assert_eq!(sent.json()["result"]["task"]["id"], "m0", "{}", sent.text());
    let listed = ask("/all", LIST.to_owned()).await;
    assert_eq!(ids(&listed.json()["result"]), ["m0"], "{}", listed.text());
    let listed = ask("/all/tasks", String::new()).await;
    assert_eq!(ids(&listed.json()), ["m0"], "{}", listed.text());
    // One proof for the cards of all, too.
    let seen = ask("/all", CARD.to_owned()).await;
    assert!(
        seen.text().contains("maps/route") && seen.text().contains("weather/route"),
        "{}",
        seen.text()
    );
    let got = ask("/all/maps/tasks/m0", String::new()).await;
    assert_eq!(got.json()["id"], "m0", "{}", got.text());
}

/// It takes a key or a token; by the key its caller is known, and the token is for somebody else.
#[tokio::test]
async fn an_agent_gets_the_credential_alone_that_was_verified_for_it() {
    use crate::security::tokens::Key;
    use crate::security::{ISSUER, Server};
    let (server, issuer) = (Server::start().await, Key::new("k"));
    server.says("/keys", 200, issuer.set());
    let (maps, weather) = agents().await;
    let scheme = format!(
        "  token: {{ type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_url: \"{}\" }}\nagents:\n",
        server.url("/keys")
    );
    let yaml = yaml(&maps, &weather, "", "forward_credentials: true")
        .replace("agents:\n", &scheme)
        .replace("security: [ { key: [] } ]", "security: [ { key: [] }, { token: [] } ]");
    let gateway = start(&yaml).await;
    let token = format!("Bearer {}", issuer.token());
    let both = [("X-API-Key", ANN), ("Authorization", token.as_str())];
    let named = sends(r#""tenant":"maps""#, "");
    for path in ["/", "/agents/maps"] {
        for (fields, key, bearer) in [
            (&both[..], Some(ANN), None),
            (&both[..1], Some(ANN), None),
            (&both[1..], None, Some(token.as_str())),
        ] {
            let sent = shows(&gateway, path, fields, &named).await;
            assert_eq!(sent.status, 200, "{}", sent.text());
            let received = maps.received().pop().unwrap();
            assert_eq!(received.field("x-api-key"), key, "{path}: {}", received.head);
            assert_eq!(received.field("authorization"), bearer, "{path}: {}", received.head);
        }
    }
}
