//! Agents that misbehave: one script a misbehaviour, and what the caller must see.

mod answers;
mod cards;
mod connections;
mod endpoints;
mod grpc;
mod streams;

use crate::harness::agent::{Agent, Received, Reply};
use crate::harness::{Gateway, KEY, post, send};

pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const CREDENTIAL: (&str, &str) = ("x-api-key", KEY);

/// A send to an agent with this script is refused so, in the caller's form and with the caller's id; the gateway goes on.
pub async fn refused(
    script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    more: &str,
    status: u16,
    outcome: &str,
) {
    let agent = Agent::start(script).await;
    let gateway = Gateway::of(&[agent.address], more, "").await;
    let got = post(gateway.address, "/agent", &send("\"q-7\"", "x")).await;
    assert_eq!(got.status, status, "{outcome}: {}", got.text());
    assert_eq!(got.json()["id"], "q-7", "{outcome}: the caller's id");
    assert!(got.code() < 0, "{outcome}");
    let text = got.text();
    assert!(
        !text.contains("html") && !text.contains("127.0.0.1") && !text.contains("secret"),
        "{outcome}: {text}"
    );
    assert_eq!(
        got.header("www-authenticate"),
        None,
        "{outcome}: the agent's demands stay here"
    );
    assert_eq!(gateway.access(1).await[0]["outcome"], outcome);
    let failures = format!("a2a_gateway_upstream_failures_total{{agent=\"agent\",reason=\"{outcome}\"}}");
    assert_eq!(gateway.metric(&failures).await, 1.0, "{outcome} is counted");
    assert_eq!(agent.received().len(), 1, "{outcome}: a send is not repeated");
}
