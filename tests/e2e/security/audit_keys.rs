//! Keys that change while the gateway runs are on record, whoever changes them.

use std::fs;

use serde_json::Value;

use super::tokens::{Key, but, claims};
use super::{ISSUER, Server};
use crate::harness::agent::{Agent, tasks};
use crate::harness::{Gateway, call, eventually, send};

#[tokio::test]
async fn other_keys_of_an_issuer_and_another_list_of_what_is_revoked_have_their_lines() {
    let (server, agent) = (Server::start().await, Agent::start(tasks(|| "t".to_owned())).await);
    let (one, two) = (Key::new("one"), Key::new("two"));
    server.says("/keys", 200, one.set());
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("revoked.yaml"), "{}").unwrap();
    let yaml = format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
audit: {{ file: audit.log }}
revocations_file: revoked.yaml
security_schemes:
  corp: {{ type: http, scheme: bearer, issuer: "{ISSUER}", audience: [ a2a ], jwks_url: "{}", jwks_refresh: 1h, jwks_cooldown: 1s }}
security: [ {{ corp: [] }} ]
agents:
  - {{ name: agent, path: /agent, upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }} }}
"#,
        server.url("/keys"),
        agent.address
    );
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(path("audit.log")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == "keys_changed").collect()
    };
    let status = async |token: &str| {
        let token = format!("Bearer {token}");
        let fields = [
            ("authorization", &*token),
            ("content-type", "application/json"),
            ("a2a-version", "1.0"),
        ];
        call(gateway.address, "POST", "/agent", &fields, &send("1", "x"))
            .await
            .status
    };
    assert_eq!(status(&one.token()).await, 200);
    assert!(lines().is_empty(), "the first keys change nothing");
    server.says("/keys", 200, two.set());
    eventually("the new key is fetched", || async { status(&two.token()).await == 200 }).await;
    eventually("the change is on record", || async { lines().len() == 1 }).await;
    assert_eq!(lines()[0]["detail"], "corp");

    let token = two.sign_as(None, &but(claims(), &serde_json::json!({ "jti": "gone" })));
    fs::write(path("revoked.yaml"), "tokens: [ gone ]").unwrap();
    assert!(gateway.reload().await);
    assert_eq!(status(&token).await, 401);
    eventually("the list is on record", || async { lines().len() == 2 }).await;
    assert_eq!(lines()[1]["detail"], "(revocations_file)");
}
