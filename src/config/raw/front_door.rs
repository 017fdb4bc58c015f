//! The front door, as users write it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::Time;
use super::{List, RawRateLimit};

/// One agent in front of all: its card has the skills of the agents behind it, and calls to it go to one of them. Off without this section.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "FrontDoor")]
pub struct RawFrontDoor {
    /// Its path. `/` by default, where clients look that know no more than a host. Either this or `host`.
    pub path: Option<String>,
    /// A host name that belongs to it alone, without a port. Either this or `path`.
    pub host: Option<String>,
    /// Names of the agents behind it. All agents of A2A by default.
    pub agents: List<String>,
    /// Members of its card, e.g. `name`, `description`, `provider`. Not those that the gateway writes from what the agents say, serve and
    /// demand: addresses, skills, modes, capabilities, security.
    pub card: serde_json::Map<String, serde_json::Value>,
    /// How long callers may keep its card (`Cache-Control: max-age`). As for the agents' cards.
    pub max_age: Time,
    /// A key of a message's `metadata`, or else of the call's, in which callers name the agent, too, e.g. `agent`. None by default: the
    /// extension that its card declares and the `tenant` of A2A 1.0 always can.
    pub metadata_key: Option<String>,
    /// To which agent calls go that name none and belong to no known task or context: the first rule that holds decides.
    pub rules: List<RawFrontRule>,
    /// The agent that gets what no rule sends anywhere. None by default: such a call is answered with the names of the agents.
    pub default: Option<String>,
    /// Rate limits of callers of the front door, asked after the general `rate_limits` and before those of the agent that a call goes to.
    pub limits: List<RawRateLimit>,
}

impl Default for RawFrontDoor {
    fn default() -> Self {
        Self {
            path: None,
            host: None,
            agents: List::default(),
            card: serde_json::Map::new(),
            max_age: Time::seconds(5 * 60),
            metadata_key: None,
            rules: List::default(),
            default: None,
            limits: List::default(),
        }
    }
}

/// One rule of the front door.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "FrontRule", extend("required" = ["when", "agent"]))]
pub struct RawFrontRule {
    /// What must hold: an expression in CEL over `principal`, `operation`, `generation`, `binding`, `task`, `message`, `source` and `time`
    /// that gives true or false. One that cannot be evaluated, because it reads something that is not there, does not hold.
    pub when: Option<String>,
    /// The name of the agent that gets such calls.
    pub agent: Option<String>,
}
