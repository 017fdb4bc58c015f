//! The envelope protocol, as users write it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::{Rate, Size, Time};
use super::{List, RawSecurity};

/// The envelope protocol of early, unreleased A2A texts: one JSON message a POST, routed by its `recipient.agent_id` to the agents
/// that have an `envelope.agent_id`. Off without this section.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Envelope")]
pub struct RawEnvelope {
    /// Where messages are posted, on every listener and host.
    pub path: String,
    /// What senders must show, before the agent's own requirement is asked for the same credentials. By default the general
    /// `security`; one of both is needed, because no card says it.
    pub security: Option<RawSecurity>,
    /// In whose name callers send. Whoever is not named here sends only in the name that is its principal's whole id, e.g.
    /// `key:pilot`: agents believe the `sender` of a message.
    pub senders: List<RawEnvelopeSender>,
    /// How long a session may be without a message; one that asks for less when it is created gets that. Half an hour outlasts
    /// a person who thinks.
    pub session_timeout: Time,
    /// Most sessions held. At capacity a caller who holds more than a tenth makes room among its own, else the one longest without a
    /// message goes; what has run out goes before any. Ten thousand need some 10 MB.
    pub max_sessions: u32,
    /// How long a `message_id` is remembered: the same caller's second message of that id is refused. Ten minutes outlast what
    /// senders try again.
    pub duplicate_window: Time,
    /// Most ids of messages remembered; who makes room is decided as for sessions. A hundred thousand are 160 messages a second
    /// in ten minutes, and need some 50 MB.
    pub max_messages: u32,
    /// Callers who show their credential in an `authentication` message.
    pub authentication: RawEnvelopeAuthentication,
}

impl Default for RawEnvelope {
    fn default() -> Self {
        Self {
            path: "/envelope".to_owned(),
            security: None,
            senders: List::default(),
            session_timeout: Time::seconds(30 * 60),
            max_sessions: 10_000,
            duplicate_window: Time::seconds(10 * 60),
            max_messages: 100_000,
            authentication: RawEnvelopeAuthentication::default(),
        }
    }
}

/// In whose name some callers send.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "EnvelopeSender", extend("required" = ["agent_id", "callers"]))]
pub struct RawEnvelopeSender {
    /// The `sender.agent_id` of messages; `*` stands for any run of characters.
    pub agent_id: Option<String>,
    /// The callers who may use it: ids of principals (`key:pilot`) or claims and attributes (`groups=harbour`); `*` as above. Any
    /// one suffices.
    pub callers: List<String>,
}

/// Callers who show their credential in an `authentication` message, and a token of the gateway from then on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "EnvelopeAuthentication")]
pub struct RawEnvelopeAuthentication {
    /// How long the token holds; never longer than a JWT that it was given for. A quarter of an hour: as long as tokens of
    /// identity providers usually do.
    pub lifetime: Time,
    /// Most tokens held; who makes room is decided as for sessions. As many as sessions.
    pub most: u32,
    /// Largest body that is read of somebody who shows nothing in the head. Room for several large tokens.
    pub body_bytes: Size,
    /// Most such bodies of one address (IPv6: of one /64). Each may be a guess; a sender needs one every `lifetime`.
    pub rate: Rate,
}

impl Default for RawEnvelopeAuthentication {
    fn default() -> Self {
        Self {
            lifetime: Time::seconds(15 * 60),
            most: 10_000,
            body_bytes: Size::kib(16),
            rate: Rate {
                count: 30,
                period: std::time::Duration::from_secs(60),
            },
        }
    }
}

/// One agent in the envelope protocol.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AgentEnvelope")]
pub struct RawAgentEnvelope {
    /// The `recipient.agent_id` of messages for this agent; unique. An A2A agent takes tasks that are delegated to it
    /// (`task_delegation`); one with `upstream.protocol.binding: envelope` takes every message.
    pub agent_id: Option<String>,
}
