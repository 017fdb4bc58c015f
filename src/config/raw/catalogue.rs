//! The list of agents, as users open it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::units::{Rate, Time};

/// Lists the agents for callers: as JSON at `path`, as an API catalogue (RFC 9727) at `/.well-known/api-catalog` and as an AI Catalog at
/// `/.well-known/ai-catalog.json`. What is told of an agent is what its published card says. Off without this section.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Catalogue")]
pub struct RawCatalogue {
    /// Where the list is, on every listener and host. Whoever shows a credential there sees the agents that it may call, everybody else
    /// those that are public.
    pub path: String,
    /// How many agents a page of the list has when nobody says it.
    pub page_size: u32,
    /// Most agents of one page, whatever a caller asks for.
    pub max_page_size: u32,
    /// How long callers may keep what is public (`Cache-Control: max-age`). As long as cards.
    pub max_age: Time,
    /// Most requests for the list from one address (IPv6: from one /64), before a credential is checked; the general `rate_limits` count
    /// beside it. Two a second: each may be a guess, and a program needs the list now and then.
    pub rate: Rate,
}

impl Default for RawCatalogue {
    fn default() -> Self {
        Self {
            path: "/agents".to_owned(),
            page_size: 50,
            max_page_size: 100,
            max_age: Time::seconds(5 * 60),
            rate: Rate {
                count: 120,
                period: std::time::Duration::from_secs(60),
            },
        }
    }
}

/// Who sees that there is an agent.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawListed {
    Public,
    Callers,
    Never,
}
