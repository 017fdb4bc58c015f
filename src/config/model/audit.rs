//! The audit trail.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;

use super::super::Secret;

#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    pub file: PathBuf,
    /// At least 32 characters; `None`: the hashes have no key.
    pub key: Option<Secret<String>>,
    pub max_bytes: u64,
    /// Renamed files, at least one.
    pub keep: usize,
    pub on_full: OnFull,
    /// At least one.
    pub events: Vec<AuditEvent>,
    /// Most events that wait.
    pub queue: usize,
    pub sync_interval: Duration,
    /// Where lines are sent as well.
    pub otlp: Option<AuditCollector>,
}

/// A collector of logs (OTLP/HTTP).
#[derive(Clone, Debug, PartialEq)]
pub struct AuditCollector {
    pub url: String,
    /// Instead of the system's roots.
    pub ca: Option<PathBuf>,
    /// What it is shown.
    pub header: Option<(HeaderName, Secret<String>)>,
    /// For one request.
    pub timeout: Duration,
    /// Most lines that wait.
    pub queue: usize,
}

/// What becomes of a call whose events cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    Block,
    Drop,
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $label:literal;)*) => {
        /// What the audit trail has lines of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditEvent {
            $($(#[$doc])* $name,)*
        }

        impl AuditEvent {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }
        }
    };
}

events! {
    /// Nobody was shown to call, or somebody else.
    AuthenticationFailed = "authentication_failed";
    /// Somebody who is known asked for what is not theirs.
    Denied = "denied";
    RateLimited = "rate_limited";
    TaskCreated = "task_created";
    TaskCancel = "task_cancel";
    TaskTransferred = "task_transferred";
    ContextTransferred = "context_transferred";
    PushSet = "push_set";
    PushDelete = "push_delete";
    CardPublished = "card_published";
    /// An agent's card differs from the approved one, and is not published.
    CardHeld = "card_held";
    /// The same, and it is published.
    CardAlert = "card_alert";
    /// By an operator.
    CardApproved = "card_approved";
    AgentInService = "agent_in_service";
    AgentOutOfService = "agent_out_of_service";
    EndpointDrained = "endpoint_drained";
    EndpointUndrained = "endpoint_undrained";
    ConfigurationLoaded = "configuration_loaded";
    ConfigurationReloaded = "configuration_reloaded";
    ConfigurationRefused = "configuration_refused";
    /// What the verifier of a scheme believes.
    KeysChanged = "keys_changed";
    GatewayStarted = "gateway_started";
    GatewayStopped = "gateway_stopped";
}
