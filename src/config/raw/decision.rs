//! Decision points as users write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::units::{SecretText, Time};
use super::List;

/// A service that is asked whether calls are allowed, beside the rules and after them. Only its clear yes allows a call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "DecisionPoint", extend("required" = ["kind", "url"]))]
pub struct RawDecisionPoint {
    /// How it is asked. `opa`: the Data API of Open Policy Agent, a POST of `{"input": …}`; allowed by 200 with
    /// `{"result": true}` or `{"result": {"allow": true}}`. `ext_authz`: as Envoy asks an HTTP service for external authorization,
    /// with what is known of the call in header fields and without a body; allowed by 200, denied by any 4xx.
    pub kind: Option<RawDecisionKind>,
    /// URL that questions are posted to: `https`, or `http` on a loopback address, because who answers in its place decides. With
    /// `opa` that of the rule, e.g. `https://opa.example.com/v1/data/a2a/allow`.
    pub url: Option<String>,
    /// PEM file with the CA certificates for `url`, instead of the system's.
    pub ca: Option<String>,
    /// A token that the gateway shows there (`Authorization: Bearer`); from the environment with `${NAME}`. None by default:
    /// neither kind asks for one by itself.
    pub token: Option<SecretText>,
    /// File with the token; one newline at the end is dropped. Read again when it changes.
    pub token_file: Option<String>,
    /// For one question, connecting included; then the call is refused as one that cannot be decided about. 500 ms: every call waits
    /// for it, and a decision point that works answers in some milliseconds.
    pub timeout: Time,
    /// How long an answer, yes or no, is taken for calls of which everything is the same that is sent, but their time and id. `0s`
    /// asks about every call: how long an old answer does no harm, only who wrote the policy knows.
    pub cache_ttl: Time,
    /// Most questions under way, each on a connection of its own; calls that would need one more are refused as those that
    /// cannot be decided about. One address gets a quarter. 256 at half a second each are 512 calls a second at the slowest.
    pub concurrent: u32,
    /// With `opa`: names of claims of the caller's token, or `attributes` of its key or user, that are sent. None by default: the
    /// decision point learns of callers what it is meant to.
    pub claims: List<String>,
}

impl Default for RawDecisionPoint {
    fn default() -> Self {
        Self {
            kind: None,
            url: None,
            ca: None,
            token: None,
            token_file: None,
            timeout: Time::milliseconds(500),
            cache_ttl: Time::seconds(0),
            concurrent: 256,
            claims: List::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawDecisionKind {
    Opa,
    ExtAuthz,
}
