//! Secrets that operators put into URLs: sent to whoever they are for, shown to nobody.

use super::binary::file;
use super::program::Program;
use crate::harness::{Agent, Reply, agent, config_of, eventually, get, post, send};

const SECRET: &str = "hunter2";

#[tokio::test]
async fn secrets_in_urls_are_used_and_never_shown() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    // It has no card and no keys.
    let other = Agent::start(|_| Reply::Silence).await;
    let card = format!(
        "card: {{ url: \"http://{}/.well-known/agent-card.json?key={SECRET}\", refresh: 1s, \
         overrides: {{ iconUrl: \"https://user:{SECRET}@icons.example/?key={SECRET}\" }} }}",
        agent.address
    );
    let schemes = format!(
        "security_schemes:\n  \
         token: {{ type: http, scheme: bearer, issuer: i, audience: [ a ], jwks_url: \"http://{0}/keys?key={SECRET}\" }}\n  \
         open: {{ type: openIdConnect, openIdConnectUrl: \"https://i/?key={SECRET}\", issuer: j, audience: [ a ], \
         jwks_url: \"http://127.0.0.1:1/keys?key={SECRET}\" }}\n  \
         oauth: {{ type: oauth2, flows: {{ clientCredentials: {{ tokenUrl: \"https://u:{SECRET}@i/\", scopes: {{}} }} }}, \
         oauth2MetadataUrl: \"https://i/?key={SECRET}\", issuer: k, audience: [ a ], jwks_url: \"http://127.0.0.1:1/?key={SECRET}\" }}\n",
        other.address
    );
    let absent = format!(
        "  - {{ name: absent, path: /absent, upstream: {{ endpoints: [ {{ url: \"http://127.0.0.1:1/\" }} ] }}, \
         card: {{ url: \"http://127.0.0.1:1/card?key={SECRET}\" }} }}\n  \
         - {{ name: wrong, path: /wrong, upstream: {{ endpoints: [ {{ url: \"http://127.0.0.1:1/\" }} ] }}, \
         card: {{ url: \"http://{}/none?key={SECRET}\" }} }}\n",
        other.address
    );
    let yaml = config_of(&[agent.address], &card, &absent)
        .replace("security_schemes:\n", &schemes)
        .replace("log: {", "log: { level: debug,");
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &yaml);
    let mut gateway = Program::gateway(["run", "--config", path.to_str().unwrap()]);
    let (public, admin) = gateway.addresses().await;
    eventually("every agent and key set was asked for", || async {
        let told = get(admin, "/ready").await.json();
        ["agent", "absent"]
            .iter()
            .all(|name| told["agents"][name]["card"].is_string() || told["agents"][name]["last_error"].is_string())
    })
    .await;
    assert_eq!(post(public, "/agent", &send("1", "x")).await.status, 200);
    let mut shown = String::new();
    for page in ["/config", "/ready", "/metrics", "/tasks/agent/t", "/health"] {
        shown.push_str(&get(admin, page).await.text());
    }
    let public_card = get(public, "/agent/.well-known/agent-card.json").await;
    assert_eq!(public_card.status, 200, "the card was found");
    for place in [
        "agent-card.json?redacted",
        "/card?redacted",
        "/keys?redacted",
        "https://icons.example/?redacted",
    ] {
        assert!(shown.contains(place), "{place} is missing:\n{shown}");
    }
    let ended = gateway.terminate().await;
    shown.push_str(&ended.stdout);
    shown.push_str(&ended.stderr);
    assert!(ended.stderr.contains("agent card published"), "{}", ended.stderr);
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains(SECRET)).collect();
    assert_eq!(lines, Vec::<&str>::new());
}

#[tokio::test]
async fn a_secret_in_a_url_on_the_command_line_is_refused_and_not_shown() {
    let url = format!("http://user:{SECRET}@localhost:1/?key={SECRET}");
    let ended = Program::gateway(["run", "--agent", &url]).end().await;
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
    assert!(ended.stderr.contains("must not have a query"), "{}", ended.stderr);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
}
