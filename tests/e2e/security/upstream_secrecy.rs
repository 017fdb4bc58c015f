//! Secrets and tokens that the gateway gets, is shown and signs stand in no log, page or answer (RFC 6750 §5.3, RFC 8693 §5).

use rcgen::KeyPair;
use serde_json::json;

use super::token_server::{Issuer, error, field, token, url};
use crate::harness::{Agent, OPEN, Reply, agent, call, config_of, eventually, get, send, with_upstream};
use crate::lifecycle::binary::file;
use crate::lifecycle::program::Program;

/// In the client's secret, and in every token that the server gives.
const SECRET: &str = "hunter2";

#[tokio::test]
async fn secrets_and_tokens_are_shown_to_nobody_else() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let server = Agent::start(|request| match field(request, "subject_token") {
        None => Reply::Json(token(&format!("own-{SECRET}"), 2)),
        Some(subject) if subject.len() % 2 == 0 => Reply::Json(token(&format!("for-{SECRET}"), 2)),
        // It says what it was sent, which is not repeated.
        Some(subject) => Reply::Whole(
            400,
            "",
            json!({ "error": "invalid_grant", "error_description": subject, "hint": SECRET }).to_string(),
        ),
    })
    .await;
    let broken = Agent::start(|_| error(400, SECRET)).await;
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path());
    let key = KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(folder.path().join("key.pem"), &key).unwrap();
    let of = |name: &str, server: &Agent, grant: &str| {
        format!(
            "  - {{ name: {name}, path: /{name}, {OPEN}, upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ], assertion: {{}}, \
             credential: {{ {grant}: {{ token_url: \"{}?key={SECRET}\", client_id: gateway, client_secret: {SECRET} }} }} }} }}\n",
            agent.address,
            url(server)
        )
    };
    let others = [
        of("granted", &server, "client_credentials"),
        of("exchanged", &server, "token_exchange"),
        of("broken", &broken, "client_credentials"),
    ];
    let top = format!(
        "{}assertions: {{ keys: [ {{ private_key: key.pem }} ] }}",
        others.concat()
    );
    let yaml = with_upstream(&config_of(&[agent.address], OPEN, &top), "assertion: {}")
        .replace(
            "security_schemes:\n",
            &format!("security_schemes:\n{}\n", Issuer::scheme()),
        )
        .replace("security: [ { key: [] } ]", "security: [ { token: [] } ]")
        .replace("log: {", "log: { level: trace,");
    let path = file(&folder, &yaml);
    let mut gateway = Program::gateway(["run", "--config", path.to_str().unwrap()]);
    let (public, admin) = gateway.addresses().await;
    eventually("agents were asked for", || async {
        let told = get(admin, "/ready").await.json();
        told["agents"]["granted"]["card"].is_string() && told["agents"]["broken"]["last_error"].is_string()
    })
    .await;
    let mut shown = String::new();
    let mut secrets = vec![SECRET.to_owned()];
    // Of either length.
    for subject in ["ann", "anna", "annab", "annabe"] {
        let caller = issuer.token(subject, json!({}));
        let bearer = format!("Bearer {caller}");
        let fields = [("authorization", &*bearer), ("content-type", "application/json")];
        for path in ["/granted", "/exchanged", "/broken"] {
            let answer = call(public, "POST", path, &fields, &send("1", "x")).await;
            shown.push_str(&format!("{:?}{}", answer.headers, answer.text()));
        }
        secrets.push(caller);
    }
    let received = agent.received();
    let told: Vec<_> = received
        .iter()
        .filter_map(|call| call.field("a2a-gateway-assertion"))
        .collect();
    assert!(!told.is_empty());
    // Signatures, and what is in clear in them.
    secrets.extend(told.iter().map(|told| told.rsplit('.').next().unwrap().to_owned()));
    secrets.push(key.lines().nth(1).unwrap().to_owned());
    for page in ["/config", "/ready", "/metrics", "/health"] {
        shown.push_str(&get(admin, page).await.text());
    }
    for expected in ["caller_token_refused", "credential_unavailable"] {
        assert!(
            shown.to_lowercase().contains(expected),
            "{expected} did not happen:\n{shown}"
        );
    }
    let ended = gateway.terminate().await;
    assert!(
        ended.stderr.contains("no token for the agent could be got"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("a caller's token was not exchanged"),
        "{}",
        ended.stderr
    );
    shown.push_str(&ended.stdout);
    shown.push_str(&ended.stderr);
    for secret in secrets {
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains(&secret)).collect();
        assert_eq!(lines, Vec::<&str>::new(), "{secret}");
    }
}
