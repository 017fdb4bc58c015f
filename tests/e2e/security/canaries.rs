//! Canaries in every place that holds a secret: none of them may be seen anywhere but where it belongs (A2A 1.0 §13; RFC 6750 §5.3, RFC
//! 7617 §4).

use std::fmt::Write as _;

use argon2::password_hash::CustomizedPasswordHasher as _;
use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use serde_json::json;

use super::tokens::{Key, but, claims};
use super::{ISSUER, Server};
use crate::harness::agent::{self, Agent, Reply};
use crate::harness::{call, eventually, get};
use crate::lifecycle::binary::file;
use crate::lifecycle::program::Program;

/// Every secret has it in it, in the clear or, in what Basic makes of it, encoded.
const CANARY: &str = "canary";
const COLLECTOR: &str = "/logs?key=canary-collector";

fn sha256(secret: &str) -> String {
    let digest = digest(&SHA256, secret.as_bytes());
    digest.as_ref().iter().fold("sha256:".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn password_hash(password: &str) -> String {
    let cheap = Params::new(8, 1, 1, None).unwrap();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
        .hash_password_customized(password.as_bytes(), b"0123456789abcdef", Some("argon2id"), None, cheap)
        .unwrap()
        .to_string()
}

/// The status that a call is answered with, its path, and the field that shows who calls.
type Call<'a> = (u16, &'a str, Option<(&'a str, String)>);

struct Ground {
    folder: tempfile::TempDir,
    agent: Agent,
    key: Key,
    yaml: String,
    signing: String,
}

/// A gateway with a scheme of each kind, and a secret wherever one can stand.
async fn ground(server: &Server) -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let key = Key::new("k");
    let signing = KeyPair::generate().unwrap().serialize_pem();
    for (name, text) in [
        ("keys.json", key.set().to_string()),
        ("signing.pem", signing.clone()),
        ("client-secret", "canary-client-file".to_owned()),
        (
            "users.yaml",
            format!(
                "users: [ {{ name: ann, password_hash: \"{}\" }} ]",
                password_hash("canary-password")
            ),
        ),
        ("revoked.yaml", "tokens: [ canary-jti ]".to_owned()),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let yaml = format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json, level: trace }}
audit: {{ file: audit.log, key: canary-audit-key-0123456789abcdef, otlp: {{ url: "{}", header: {{ name: X-Collector, value: canary-collector-header }} }} }}
page_tokens: {{ keys: [ {{ value: canary-page-key-0123456789abcdef }} ] }}
push: {{ keys: [ {{ value: canary-push-key-0123456789abcdef }} ], http: true, networks: [ 127.0.0.0/8 ] }}
assertions: {{ keys: [ {{ private_key: signing.pem }} ] }}
revocations_file: revoked.yaml
security_schemes:
  header: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: h, hash: "{}", attributes: [ groups=ops ] }} ] }}
  query: {{ type: apiKey, in: query, name: key, keys: [ {{ id: q, hash: "{}" }} ] }}
  cookie: {{ type: apiKey, in: cookie, name: session, keys: [ {{ id: c, hash: "{}" }} ] }}
  people: {{ type: http, scheme: basic, users_file: users.yaml }}
  signed: {{ type: http, scheme: bearer, issuer: "{ISSUER}", audience: [ a2a ], jwks_file: keys.json }}
  opaque: {{ type: http, scheme: bearer, issuer: "https://other.example", introspection: {{ url: "{}?key=canary-url", client_id: gateway, client_secret_file: client-secret }} }}
  checked: {{ type: http, scheme: digest, check: {{ url: "{}?key=canary-check" }} }}
decision_points: {{ p: {{ kind: opa, url: "{}?key=canary-decision-url", token: canary-decision-token }} }}
security: [ {{ header: [] }}, {{ query: [] }}, {{ cookie: [] }}, {{ people: [] }}, {{ signed: [] }}, {{ opaque: [] }}, {{ checked: [] }} ]
agents:
  - name: agent
    path: /agent
    upstream:
      endpoints: [ {{ url: "http://{}/" }} ]
      credential: {{ header: {{ name: X-Agent-Key, value: canary-agent-key }} }}
      assertion: {{}}
    policy: {{ task_owner: none, decision_point: p, allow: [ {{ name: any, when: "principal.name != 'canary-nobody'" }}, {{ when: "message.metadata.pin == 'x'" }} ] }}
"#,
        server.url(COLLECTOR),
        sha256("canary-header"),
        sha256("canary-query"),
        sha256("canary-cookie"),
        server.url("/introspect"),
        server.url("/check"),
        server.url("/decide"),
        agent.address
    );
    Ground {
        folder,
        agent,
        key,
        yaml,
        signing,
    }
}

#[tokio::test]
async fn no_secret_is_seen_where_it_does_not_belong() {
    let server = Server::start().await;
    server.does("/introspect?key=canary-url", |question| {
        let known = String::from_utf8_lossy(&question.body).contains("token=canary-opaque&");
        Reply::Json(json!({ "active": known, "sub": "ann" }).to_string())
    });
    server.says("/check?key=canary-check", 200, json!({ "sub": "ann" }));
    server.says(COLLECTOR, 200, json!({}));
    let decided = "/decide?key=canary-decision-url";
    server.says(decided, 200, json!({ "result": true, "why": "canary-reason" }));
    let Ground {
        folder,
        agent,
        key,
        yaml,
        signing,
    } = ground(&server).await;
    let path = file(&folder, &yaml);
    let mut gateway = Program::gateway(["run", "--config", path.to_str().unwrap()]);
    let (public, admin) = gateway.addresses().await;
    eventually("the agent is ready", || async {
        get(admin, "/ready").await.status == 200
    })
    .await;

    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("ann:{password}")));
    let signed = key.token();
    let revoked = key.sign_as(None, &but(claims(), &json!({ "jti": "canary-jti" })));
    let foreign = Key::new("k").token();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"canary-text"}],"metadata":{"pin":"canary-pin"}}}}"#;
    let bearer = |token: &str| ("authorization", format!("Bearer {token}"));
    let shown: Vec<Call<'_>> = vec![
        (200, "/agent", Some(("x-api-key", "canary-header".to_owned()))),
        (401, "/agent", Some(("x-api-key", "canary-header-wrong".to_owned()))),
        (200, "/agent?key=canary-query", None),
        (401, "/agent?key=canary-query-wrong", None),
        (200, "/agent", Some(("cookie", "session=canary-cookie".to_owned()))),
        (
            401,
            "/agent",
            Some(("cookie", "session=canary-cookie-wrong".to_owned())),
        ),
        (200, "/agent", Some(("authorization", basic("canary-password")))),
        (401, "/agent", Some(("authorization", basic("canary-password-wrong")))),
        (200, "/agent", Some(bearer(&signed))),
        (401, "/agent", Some(bearer(&revoked))),
        (200, "/agent", Some(bearer("canary-opaque"))),
        (
            200,
            "/agent",
            Some(("authorization", "Digest canary-digest".to_owned())),
        ),
        (404, "/elsewhere?key=canary-query", Some(bearer(&foreign))),
    ];
    let mut seen = String::new();
    for (status, path, credential) in &shown {
        let mut fields = vec![
            ("content-type", "application/json"),
            ("a2a-version", "1.0"),
            ("authorization-extra", "canary-other"),
        ];
        fields.extend(credential.iter().map(|(name, value)| (*name, value.as_str())));
        let answer = call(public, "POST", path, &fields, body).await;
        assert_eq!(answer.status, *status, "{path} {credential:?}: {}", answer.text());
        writeln!(seen, "{:?}{}", answer.headers, answer.text()).unwrap();
    }
    for page in [
        "/config",
        "/ready",
        "/metrics",
        "/health",
        "/agents/agent/endpoints",
        "/tasks/agent/t",
    ] {
        writeln!(seen, "{}", get(admin, page).await.text()).unwrap();
    }
    assert!(seen.contains("\"signed\""), "the configuration is shown");
    let card = get(public, "/agent/.well-known/agent-card.json").await;
    writeln!(
        seen,
        "{}{}",
        card.text(),
        get(public, "/.well-known/jwks.json").await.text()
    )
    .unwrap();
    let ended = gateway.terminate().await;
    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(audit.contains("authentication_failed") && ended.stdout.contains("\"access\""));
    writeln!(seen, "{audit}\n{}\n{}", ended.stdout, ended.stderr).unwrap();
    let exported = server.questions(COLLECTOR);
    assert!(!exported.is_empty());
    for request in exported {
        writeln!(seen, "{}", String::from_utf8_lossy(&request.body)).unwrap();
    }
    let config = a2a_gateway::config::parse(&yaml, folder.path(), &a2a_gateway::config::Environment::default());
    let config = config.expect("good");
    writeln!(seen, "{config:?}\n{}", a2a_gateway::config::redacted(&config)).unwrap();

    let mut secrets = vec![CANARY.to_owned(), signing.lines().nth(1).unwrap().to_owned()];
    secrets.extend([&signed, &revoked, &foreign].map(|token| token.rsplit('.').next().unwrap().to_owned()));
    secrets.extend(
        ["canary-password", "canary-password-wrong"].map(|password| STANDARD.encode(format!("ann:{password}"))),
    );
    let assertions = agent.received();
    let told = assertions.iter().filter_map(|call| call.field("a2a-gateway-assertion"));
    secrets.extend(told.map(|told| told.rsplit('.').next().unwrap().to_owned()));
    for secret in secrets {
        // A rule is shown as it was written.
        let lines = seen
            .lines()
            .filter(|line| line.replace("canary-nobody", "").contains(&secret));
        let lines: Vec<String> = lines.map(|line| line.chars().take(400).collect()).collect();
        assert_eq!(lines, Vec::<String>::new(), "{secret}");
    }

    // The decision point gets its token and what the message says of itself, and nothing that callers showed.
    let questions = server.questions(decided);
    assert_eq!(questions.len(), 7);
    for question in questions {
        assert_eq!(question.field("authorization"), Some("Bearer canary-decision-token"));
        let told = question
            .head
            .replace("canary-decision-url", "")
            .replace("canary-decision-token", "");
        let body = String::from_utf8_lossy(&question.body).replace("canary-pin", "");
        assert!(!told.contains(CANARY) && !body.contains(CANARY), "{told}{body}");
    }

    // The agent gets what it should, and nothing of what callers showed.
    let calls: Vec<_> = agent
        .received()
        .into_iter()
        .filter(|call| call.line().starts_with("POST"))
        .collect();
    assert_eq!(calls.len(), 7);
    for call in calls {
        assert_eq!(call.field("x-agent-key"), Some("canary-agent-key"));
        for name in ["authorization", "x-api-key", "cookie"] {
            assert_eq!(call.field(name), None, "{name}");
        }
    }
}
