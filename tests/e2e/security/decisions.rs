//! A gateway that asks a decision point: what the tests of both kinds share. The service is scripted and keeps to what each kind
//! documents, but where a test is about one that does not: of neither there is a server to install here.

use std::net::SocketAddr;

use serde_json::json;

use super::{Server, Site};
use crate::harness::agent::{Agent, tasks};
use crate::harness::{Answer, Gateway, call, config_of};
use crate::path::ownership::with_keys;

/// Where the service is asked.
pub const PLACE: &str = "/v1/data/a2a/allow";
/// What the gateway shows there.
pub const TOKEN: &str = "decision-point-token";
pub const NOT_ALLOWED: i64 = -31403;
pub const UNAVAILABLE: i64 = -31503;

/// A gateway in front of one agent, whose decision point `p` is at `server`.
pub struct Desk {
    pub site: Site,
    pub server: Server,
}

/// The section of a decision point; `more` are keys of it.
pub fn section(kind: &str, server: &Server, more: &str) -> String {
    format!(
        "decision_points: {{ p: {{ kind: {kind}, url: \"{}\", token: {TOKEN}, {more} }} }}",
        server.url(PLACE)
    )
}

/// The agent at `/agent`, with callers of the ownership tests. `policy` are keys of it beside the decision point.
pub fn config(agent: SocketAddr, policy: &str, points: &str) -> String {
    let policy = format!("policy: {{ decision_point: p, {policy} }}");
    with_keys(&config_of(&[agent], &policy, points))
}

impl Desk {
    pub async fn start(kind: &str, policy: &str, more: &str) -> Self {
        let server = Server::start().await;
        let agent = Agent::start(tasks(|| "t1".to_owned())).await;
        let gateway = Gateway::start(&config(agent.address, policy, &section(kind, &server, more))).await;
        gateway.ready().await;
        Self {
            site: Site { gateway, agent },
            server,
        }
    }

    pub async fn call(&self, key: &str, body: &str) -> Answer {
        let fields = [
            ("x-api-key", key),
            ("content-type", "application/json"),
            ("a2a-version", "1.0"),
        ];
        call(self.site.address(), "POST", "/agent?q=hidden", &fields, body).await
    }

    /// A send with this text.
    pub async fn send(&self, key: &str, text: &str) -> Answer {
        self.call(key, &message(text)).await
    }

    pub fn asked(&self) -> usize {
        self.server.asked(PLACE)
    }

    pub fn reached(&self) -> usize {
        self.site.agent.received().len()
    }

    pub async fn decisions(&self, outcome: &str) -> f64 {
        let line = format!("a2a_gateway_decisions_total{{decision_point=\"p\",outcome=\"{outcome}\"}}");
        self.site.gateway.metric(&line).await
    }

    pub fn allows(&self, what: &str, answer: &Answer) {
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert!(answer.json()["error"].is_null(), "{what}: {}", answer.text());
    }

    /// The decision point said no.
    pub async fn denies(&self, what: &str, answer: &Answer) {
        assert_eq!((answer.status, answer.code()), (403, NOT_ALLOWED), "{what}");
        let record = self.site.record(answer).await;
        let told = (&record["outcome"], &record["detail"], &record["rule"]);
        let wanted = (
            &json!("not_allowed"),
            &json!("decision_point"),
            &json!("decision_point:p"),
        );
        assert_eq!(told, wanted, "{what}");
    }

    /// It did not say, or was not asked.
    pub async fn cannot_tell(&self, what: &str, answer: &Answer, detail: &str) {
        assert_eq!((answer.status, answer.code()), (503, UNAVAILABLE), "{what}");
        assert!(answer.header("retry-after").is_some(), "{what}");
        let record = self.site.record(answer).await;
        let told = (&record["outcome"], &record["detail"], &record["rule"]);
        let wanted = (
            &json!("decision_unavailable"),
            &json!(detail),
            &json!("decision_point:p"),
        );
        assert_eq!(told, wanted, "{what}");
    }
}

pub fn message(text: &str) -> String {
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": text }] });
    json!({ "jsonrpc": "2.0", "id": "c", "method": "SendMessage", "params": { "message": message } }).to_string()
}

/// The same in a context, with metadata.
pub fn message_in(context: &str, metadata: &serde_json::Value) -> String {
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }], "contextId": context, "metadata": metadata });
    json!({ "jsonrpc": "2.0", "id": "c", "method": "SendMessage", "params": { "message": message } }).to_string()
}
