//! Who may do what: one file for each scheme, grant and policy, with the section of its standard; and that what they did is on record.

mod api_key;
mod audit;
mod audit_export;
mod audit_full;
mod audit_keys;
mod bound_tokens;
mod canaries;
mod card_verification;
mod catalogue;
mod decision_ext_authz;
mod decision_opa;
mod decisions;
mod envelope_rules;
mod explain;
mod explain_agrees;
mod http_basic;
mod http_bearer_jwt;
mod http_external_check;
mod mutual_tls;
pub mod oauth2_dpop;
mod oauth2_introspection;
mod oauth2_jwt_profile;
mod oauth2_mtls_bound;
mod open_id_connect_discovery;
mod policy;
mod protected_resource_metadata;
mod quotas;
mod quotas_bindings;
mod revocations;
mod skills;
pub mod token_server;
pub mod tokens;
mod upstream_assertion;
mod upstream_client_credentials;
mod upstream_forwarding;
mod upstream_secrecy;
mod upstream_token_exchange;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::agent::{Agent, Received, Reply, tasks};
use crate::harness::{Answer, Gateway, call, eventually, get, send};

/// The issuer of every token.
pub const ISSUER: &str = "https://login.example.com";

type Script = dyn Fn(&Received) -> Reply + Send + Sync;

/// Somebody whom the gateway asks: each path answers what the test says, until it says something else.
pub struct Server {
    agent: Agent,
    scripts: Arc<Mutex<HashMap<String, Arc<Script>>>>,
}

impl Server {
    pub async fn start() -> Self {
        let scripts: Arc<Mutex<HashMap<String, Arc<Script>>>> = Arc::default();
        let known = scripts.clone();
        let agent = Agent::over_http_json("", move |received| {
            let path = path_of(received);
            let script = known.lock().unwrap().get(&path).cloned();
            script.map_or_else(|| Reply::Whole(404, "", String::new()), |script| script(received))
        })
        .await;
        Self { agent, scripts }
    }

    pub fn does(&self, path: &str, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) {
        self.scripts.lock().unwrap().insert(path.to_owned(), Arc::new(script));
    }

    pub fn says(&self, path: &str, status: u16, body: impl ToString) {
        let body = body.to_string();
        self.does(path, move |_| {
            Reply::Whole(status, "content-type: application/json\r\n", body.clone())
        });
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.agent.address)
    }

    /// What came there.
    pub fn questions(&self, path: &str) -> Vec<Received> {
        let all = self.agent.received();
        all.into_iter().filter(|received| path_of(received) == path).collect()
    }

    pub fn asked(&self, path: &str) -> usize {
        self.questions(path).len()
    }
}

fn path_of(received: &Received) -> String {
    let path = received.line().split(' ').nth(1).unwrap_or_default();
    path.to_owned()
}

/// A gateway in front of one agent that asks for one scheme.
pub struct Site {
    pub gateway: Gateway,
    pub agent: Agent,
}

impl Site {
    /// `scheme` is what stands below its name; `more` are keys of the file.
    pub async fn unready(scheme: &str, more: &str) -> Self {
        Self::asking(scheme, "[ { s: [] } ]", more).await
    }

    pub async fn asking(scheme: &str, security: &str, more: &str) -> Self {
        let agent = Agent::start(tasks(|| "t".to_owned())).await;
        let yaml = format!(
            r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  s: {{ {scheme} }}
security: {security}
agents:
  - {{ name: agent, path: /agent, upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }} }}
{more}
"#,
            agent.address
        );
        let gateway = Gateway::start(&yaml).await;
        Self { gateway, agent }
    }

    pub async fn start(scheme: &str) -> Self {
        let site = Self::unready(scheme, "").await;
        site.gateway.ready().await;
        site
    }

    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// A call with this `Authorization` field.
    pub async fn show(&self, authorization: &str) -> Answer {
        let fields = [
            ("authorization", authorization),
            ("content-type", "application/json"),
            ("a2a-version", "1.0"),
        ];
        call(self.address(), "POST", "/agent", &fields, &send("1", "hi")).await
    }

    pub async fn bearer(&self, token: &str) -> Answer {
        self.show(&format!("Bearer {token}")).await
    }

    /// The access record of an answer.
    pub async fn record(&self, answer: &Answer) -> Value {
        let request = answer.header("x-request-id").expect("an id").to_owned();
        let log = self.gateway.log();
        let find = || {
            log.records()
                .into_iter()
                .find(|record| record["request"] == request.as_str())
        };
        eventually("the record is written", || async { find().is_some() }).await;
        find().unwrap()
    }

    /// The answer admits this caller.
    pub async fn admits(&self, what: &str, answer: &Answer, principal: &str) {
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert_eq!(self.record(answer).await["principal"], principal, "{what}");
    }

    /// The answer refuses the credential for this reason.
    pub async fn refuses(&self, what: &str, answer: &Answer, detail: &str) {
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        assert!(answer.header("www-authenticate").is_some(), "{what}");
        assert_eq!(self.record(answer).await["detail"], detail, "{what}");
    }

    /// The answer tells the caller to come again.
    pub async fn cannot_tell(&self, what: &str, answer: &Answer) {
        assert_eq!(answer.status, 503, "{what}: {}", answer.text());
        assert!(answer.header("retry-after").is_some(), "{what}");
        let record = self.record(answer).await;
        assert_eq!(record["outcome"], "authentication_unavailable", "{what}");
    }

    pub async fn questions(&self, result: &str) -> f64 {
        let line = format!("a2a_gateway_credential_questions_total{{result=\"{result}\",scheme=\"s\"}}");
        self.gateway.metric(&line).await
    }

    /// Nothing that the operators see has this in it.
    pub async fn hides(&self, secret: &str) {
        for page in ["/config", "/metrics", "/ready"] {
            let text = get(self.gateway.admin, page).await.text();
            assert!(!text.contains(secret), "{page} shows {secret}: {text}");
        }
        let log: Vec<String> = self.gateway.log().records().iter().map(Value::to_string).collect();
        assert!(!log.join("\n").contains(secret), "the log shows {secret}");
    }
}
