//! How endpoints are watched and what they take at once, as users write it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::{Percent, Time};

/// Checks that the gateway makes of each endpoint by itself. Off unless this section is given: they are requests that the
/// agent's server must expect, and what calls show of an endpoint is watched anyway (`ejection`).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Health")]
pub struct RawHealth {
    /// What is fetched with GET: `card`, the agent's card at the endpoint, or a path of its server, e.g. `/healthz`. An
    /// answer of 2xx is healthy. The card by default, because every A2A server has one; where gRPC is spoken, whose servers
    /// answer no GET, its own question for health takes the place of the card.
    pub path: String,
    /// From one check to the next, give or take a quarter, so that gateways do not check together. Ten seconds: three
    /// failures are known within half a minute, and an idle endpoint pays six small requests a minute.
    pub interval: Time,
    /// For one check, connecting included. A living server answers in milliseconds; two seconds forgive a busy moment.
    pub timeout: Time,
    /// So many good checks in a row make an unhealthy endpoint healthy. Two, because a server that starts may answer once
    /// and fall again.
    pub healthy_after: u32,
    /// So many bad checks in a row make a healthy endpoint unhealthy. Three, because one lost packet says nothing.
    pub unhealthy_after: u32,
}

impl Default for RawHealth {
    fn default() -> Self {
        Self {
            path: "card".to_owned(),
            interval: Time::seconds(10),
            timeout: Time::seconds(2),
            healthy_after: 2,
            unhealthy_after: 3,
        }
    }
}

/// Takes an endpoint out of the choice for new work after failures in a row. Only where there are several endpoints. What a
/// caller did never counts: 4xx, JSON-RPC errors, a caller that leaves or reads slowly.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Ejection")]
pub struct RawEjection {
    /// Watches calls for failures. On, because a dead endpoint would get its share of new work for as long as it is dead.
    pub enabled: bool,
    /// So many failures in a row. Five, which chance does not reach at an endpoint that works.
    pub consecutive_failures: u32,
    /// How long the first time. Ten seconds: what a restart takes.
    pub base: Time,
    /// Each time doubles, up to this; the doublings wear off again while the endpoint works. Five minutes, so that an
    /// endpoint that was repaired is not forgotten.
    pub max: Time,
    /// Most endpoints that are out at once, but always one. Half: past that the cause is more likely common to all.
    pub most: Percent,
}

impl Default for RawEjection {
    fn default() -> Self {
        Self {
            enabled: true,
            consecutive_failures: 5,
            base: Time::seconds(10),
            max: Time::seconds(5 * 60),
            most: Percent(50),
        }
    }
}

/// Where calls wait while an endpoint has as many under way as it may.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Queue")]
pub struct RawQueue {
    /// Most calls that wait for one endpoint; a further one is refused at once. `0` queues none. A hundred evens out a burst
    /// without holding many callers.
    pub length: u32,
    /// How long a call waits, then it is refused. One second: whoever waits longer does better to ask again later.
    pub timeout: Time,
}

impl Default for RawQueue {
    fn default() -> Self {
        Self {
            length: 100,
            timeout: Time::seconds(1),
        }
    }
}
