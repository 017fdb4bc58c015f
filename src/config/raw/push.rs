//! Webhooks of callers of another generation than their agent's, as users write it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::{Rate, Size, Time};
use super::{List, RawPageTokenKey};

/// Webhooks of callers whose A2A generation the agent does not speak. The agent is given an address of the gateway, which
/// sends what comes there on to the caller's webhook, in the caller's generation. Off without `keys`: then such a webhook is
/// refused. Webhooks of callers of the agent's own generation are between the two, and pass as they are.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Push")]
pub struct RawPush {
    /// Keys that seal the caller's webhook into the address that the agent is given: the first seals, all of them open. One
    /// switches this on. None by default, for two reasons: with a key that does not outlive the process, webhooks would die
    /// with it and nobody would be told; and the gateway then connects to where callers want, which is for you to decide.
    /// Gateways behind one address share them. To change a key, put the new one behind the old one everywhere, then before it,
    /// then take the old one away after `lifetime`.
    pub keys: List<RawPageTokenKey>,
    /// Where agents reach the gateway: scheme, host and optional path, in the place of `public_url`, which it is by default. A
    /// notification that comes before its task has a record is taken where the call that makes it is under way.
    pub url: Option<String>,
    /// Only webhooks at these hosts; `*` stands for any run of characters, e.g. `*.example.com`. Every host by default: the
    /// addresses that a host has are what decides.
    pub hosts: List<String>,
    /// Networks (CIDR) and addresses where webhooks may be although they are not public. None by default: loopback, private,
    /// link-local and other special addresses are where the gateway's own surroundings are, metadata services among them.
    pub networks: List<String>,
    /// Also `http` webhooks. Off: what a task says, and the token that the webhook knows the sender by, would go in clear.
    pub http: bool,
    /// PEM file with CA certificates to believe instead of the system's.
    pub ca: Option<String>,
    /// How long the address that the agent is given holds. A week, as long as the record of a task that nobody looks at.
    pub lifetime: Time,
    /// For one notification at the webhook, connecting included; of its answer only the status is read. Ten seconds: the
    /// least that A2A recommends.
    pub timeout: Time,
    /// Largest notification. As large as an event of a stream, which tells the same.
    pub body_bytes: Size,
    /// Most notifications of one agent under way; it is told to come again for more. Enough for 6 a second at webhooks that
    /// all take the whole `timeout`, and at most 256 MiB of them.
    pub concurrent: u32,
    /// Most notifications of one agent, all its tasks together. Far above what tasks that change a few times a second need.
    pub rate: Rate,
}

impl Default for RawPush {
    fn default() -> Self {
        Self {
            keys: List::default(),
            url: None,
            hosts: List::default(),
            networks: List::default(),
            http: false,
            ca: None,
            lifetime: Time::seconds(7 * 24 * 60 * 60),
            timeout: Time::seconds(10),
            body_bytes: Size::mib(4),
            concurrent: 64,
            rate: Rate {
                count: 100,
                period: std::time::Duration::from_secs(1),
            },
        }
    }
}

/// Webhooks of the callers of one agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AgentPush")]
pub struct RawAgentPush {
    /// Where this agent reaches the gateway's address of itself, its `path` included. By default what `push.url`, else
    /// `public_url`, makes of its `path` or `host`.
    pub url: Option<String>,
}
