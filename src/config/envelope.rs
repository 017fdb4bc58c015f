//! The envelope protocol in the checked configuration.

use std::time::Duration;

use super::model::{Agent, CallerPattern, RateLimit};
use crate::a2a::security::Security;

/// The envelope protocol as a way in.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    pub path: String,
    /// What senders must show, whoever their message is for.
    pub security: Security,
    pub senders: Vec<EnvelopeSender>,
    /// The general ones.
    pub rate_limits: Vec<RateLimit>,
    pub session_timeout: Duration,
    pub max_sessions: usize,
    pub duplicate_window: Duration,
    pub max_messages: usize,
    pub authentication_lifetime: Duration,
    pub max_authentications: usize,
    /// Most bytes of a body that are read of somebody who shows nothing.
    pub authentication_bytes: usize,
    /// Most such bodies of one address, in such a period.
    pub authentication_rate: (u32, Duration),
}

/// In whose name some callers send. `*` in the name stands for any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeSender {
    pub agent_id: String,
    /// Any of these.
    pub callers: Vec<CallerPattern>,
}

/// An agent in the envelope protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEnvelope {
    pub agent_id: String,
    /// It speaks that protocol itself, and no A2A.
    pub speaks: bool,
}

impl Agent {
    /// It speaks the envelope protocol, and no A2A.
    pub fn speaks_envelope(&self) -> bool {
        self.envelope.as_ref().is_some_and(|envelope| envelope.speaks)
    }
}
