//! One agent in front of all.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{AgentRoute, RateLimit};
use crate::expression::Expression;

#[derive(Clone, Debug, PartialEq)]
pub struct FrontDoor {
    pub route: AgentRoute,
    /// The names of the agents behind it, in the order of the configuration. At least one.
    pub agents: Vec<String>,
    /// Members of its card.
    pub card: Map<String, Value>,
    pub max_age: Duration,
    /// The key of metadata that names the agent, too.
    pub metadata_key: Option<String>,
    pub rules: Vec<FrontRule>,
    /// The name of the agent that gets the rest.
    pub default: Option<String>,
    pub rate_limits: Vec<RateLimit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontRule {
    pub when: Expression,
    /// Its name.
    pub agent: String,
}
