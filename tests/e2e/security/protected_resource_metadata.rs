//! RFC 9728 §3 and §5: what callers are told of how to get a token for an agent.

use serde_json::{Value, json};

use super::tokens::{Key, claims};
use super::{ISSUER, Server};
use crate::harness::agent::{Agent, tasks};
use crate::harness::{Answer, Gateway, call, eventually, get, send};

const PLACE: &str = "/.well-known/oauth-protected-resource";

struct Place {
    gateway: Gateway,
    _agent: Agent,
}

async fn place(server: &Server, key: &Key, url: &str) -> Place {
    server.says("/keys", 200, key.set());
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    let upstream = format!(
        "upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }}",
        agent.address
    );
    let tokens = |more: &str| {
        format!(
            "{{ type: http, scheme: bearer, audience: [ a2a ], jwks_url: \"{}\", {more} }}",
            server.url("/keys")
        )
    };
    let yaml = format!(
        r#"
public_url: {url}
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  s: {}
  t: {}
  k: {{ type: apiKey, in: header, name: x-k, keys: [ {{ id: ann, hash: "sha256:{}" }} ] }}
agents:
  - {{ name: maps, path: /agents/maps, security: [ {{ s: [ read, write ] }}, {{ k: [] }}, {{ s: [ read ], t: [ all ] }} ], {upstream}, card: {{ max_age: 7s, overrides: {{ name: Maps }} }} }}
  - {{ name: bound, path: /agents/bound, security: [ {{ t: [] }} ], {upstream} }}
  - {{ name: keys, path: /agents/keys, security: [ {{ k: [] }} ], {upstream} }}
  - {{ name: open, path: /agents/open, security: [], {upstream}, policy: {{ task_owner: none }} }}
  - {{ name: host, host: maps.example, security: [ {{ s: [] }} ], {upstream} }}
  - {{ name: root, path: /, security: [ {{ s: [] }} ], {upstream} }}
"#,
        tokens(&format!("issuer: \"{ISSUER}\"")),
        tokens("issuer: \"https://other.example\", sender_constraint: dpop"),
        "00".repeat(32),
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    Place { gateway, _agent: agent }
}

async fn metadata(place: &Place, path: &str) -> Value {
    let answer = get(place.gateway.address, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

async fn ask(place: &Place, path: &str, fields: &[(&str, &str)]) -> Answer {
    let fields = [&[("content-type", "application/json")], fields].concat();
    call(place.gateway.address, "POST", path, &fields, &send("1", "hi")).await
}

fn challenges(answer: &Answer) -> Vec<&str> {
    let all = answer.headers.get_all("www-authenticate").iter();
    all.map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test]
async fn each_agent_says_where_its_tokens_come_from() {
    let (server, key) = (Server::start().await, Key::new("k"));
    let place = place(&server, &key, "https://gateway.example").await;
    let algorithms = json!([
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"
    ]);
    let path = format!("{PLACE}/agents/maps");
    eventually("the card is read", || async {
        get(place.gateway.address, &path).await.text().contains("Maps")
    })
    .await;
    assert_eq!(
        metadata(&place, &path).await,
        json!({
            "resource": "https://gateway.example/agents/maps",
            "resource_name": "Maps",
            "authorization_servers": [ISSUER, "https://other.example"],
            "scopes_supported": ["read", "write", "all"],
            "bearer_methods_supported": ["header"],
            "dpop_signing_alg_values_supported": algorithms,
        })
    );
    let bound = metadata(&place, &format!("{PLACE}/agents/bound")).await;
    assert_eq!(bound["resource"], "https://gateway.example/agents/bound");
    assert_eq!(bound["dpop_bound_access_tokens_required"], true);
    assert_eq!(bound["authorization_servers"], json!(["https://other.example"]));
    assert_eq!(bound.get("scopes_supported"), None);
    // §3.1: nothing is inserted before the path of a root.
    let root = metadata(&place, PLACE).await;
    assert_eq!(root["resource"], "https://gateway.example/");
    let answer = call(place.gateway.address, "GET", PLACE, &[("host", "maps.example")], "").await;
    assert_eq!(answer.json()["resource"], "https://maps.example/", "{}", answer.text());
    for agent in ["keys", "open"] {
        let answer = get(place.gateway.address, &format!("{PLACE}/agents/{agent}")).await;
        assert_eq!(answer.status, 404, "{agent} asks for no tokens");
    }
    for path in ["/agents/none", "/agents/maps/", "/agents"] {
        let answer = get(place.gateway.address, &format!("{PLACE}{path}")).await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn it_is_served_like_a_card() {
    let (server, key) = (Server::start().await, Key::new("k"));
    let place = place(&server, &key, "https://gateway.example").await;
    let path = format!("{PLACE}/agents/maps");
    let answer = get(place.gateway.address, &path).await;
    assert_eq!(answer.header("cache-control"), Some("public, max-age=7"));
    let etag = answer.header("etag").expect("an entity tag").to_owned();
    let again = call(place.gateway.address, "GET", &path, &[("if-none-match", &etag)], "").await;
    assert_eq!((again.status, again.text().as_str()), (304, ""));
    let head = call(place.gateway.address, "HEAD", &path, &[], "").await;
    assert_eq!((head.status, head.text().as_str()), (200, ""));
    let posted = ask(&place, &path, &[]).await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
}

/// §5.1, on 401 and 403.
#[tokio::test]
async fn challenges_name_its_place() {
    let (server, key) = (Server::start().await, Key::new("k"));
    let place = place(&server, &key, "https://gateway.example").await;
    let at = |path: &str| format!("resource_metadata=\"https://gateway.example{PLACE}{path}\"");
    let bearer = format!("Bearer {}", key.sign_as(None, &claims()));
    for (path, fields, status, parameter, told) in [
        ("/agents/maps", &[][..], 401, at("/agents/maps"), 2),
        (
            "/agents/maps",
            &[("authorization", "Bearer x")],
            401,
            at("/agents/maps"),
            2,
        ),
        (
            "/agents/maps",
            &[("authorization", bearer.as_str())],
            403,
            at("/agents/maps"),
            2,
        ),
        ("/agents/bound", &[], 401, at("/agents/bound"), 1),
        ("/", &[], 401, at(""), 2),
        ("/agents/keys", &[], 401, at(""), 0),
    ] {
        let answer = ask(&place, path, fields).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let all = challenges(&answer);
        let naming = all.iter().filter(|challenge| challenge.contains(&parameter)).count();
        assert!(
            naming >= told && (told > 0 || naming == 0),
            "{path} {fields:?}: {all:?}"
        );
    }
    let answer = call(
        place.gateway.address,
        "POST",
        "/",
        &[("host", "maps.example"), ("content-type", "application/json")],
        &send("1", "hi"),
    )
    .await;
    let all = challenges(&answer);
    let parameter = format!("resource_metadata=\"https://maps.example{PLACE}\"");
    assert!(all.iter().all(|challenge| challenge.contains(&parameter)), "{all:?}");
}

/// A path of `public_url`, which whoever forwards to the gateway takes away or leaves.
#[tokio::test]
async fn a_path_of_the_gateway_stands_before_that_of_the_agent() {
    let (server, key) = (Server::start().await, Key::new("k"));
    let place = place(&server, &key, "https://gateway.example/a2a").await;
    for path in ["/agents/maps", "/a2a/agents/maps"] {
        let metadata = metadata(&place, &format!("{PLACE}{path}")).await;
        assert_eq!(metadata["resource"], "https://gateway.example/a2a/agents/maps");
    }
    let answer = ask(&place, "/agents/maps", &[]).await;
    let parameter = format!("resource_metadata=\"https://gateway.example{PLACE}/a2a/agents/maps\"");
    assert!(challenges(&answer)[0].contains(&parameter), "{:?}", challenges(&answer));
}
