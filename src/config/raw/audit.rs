//! The audit trail, as users write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::units::{SecretText, Size, Time};
use super::{List, RawHeaderCredential};

/// A file with one line for each event that matters to security, chained by hashes so that a change can be found
/// (`a2a-gateway audit verify`). Off without this section.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Audit", extend("required" = ["file"]))]
pub struct RawAudit {
    /// The file that lines are appended to; made if it is not there, in a folder that is. One gateway each: it is locked.
    pub file: Option<String>,
    /// At least 32 characters that nobody can guess; from the environment with `${NAME}`. The chain is made with it
    /// (HMAC-SHA-256), so that who can write the file cannot write another chain that holds. Without one the hashes are plain
    /// SHA-256: they show a mistake, and a change only to who has the last hash from elsewhere. None by default: a key that
    /// stands beside the file would prove nothing.
    pub key: Option<SecretText>,
    /// File with the key; one newline at the end is dropped. Read at start and at each reload. Another key begins another file.
    pub key_file: Option<String>,
    /// A file that would become larger is renamed to `<file>.1`, `.1` to `.2` and so on, and the chain goes on in a new one.
    /// 100 MiB hold some 200,000 lines, and are still searched in a second.
    pub max_bytes: Size,
    /// How many renamed files are kept; the oldest is replaced. Ten, with the file itself some 1 GiB: who must keep more, or for
    /// a time that is prescribed, collects them before that.
    pub keep: u32,
    /// What becomes of calls when an event cannot be recorded, because the disk is full or too many wait: `drop` lets traffic go
    /// on, counts what is lost, and records how much as soon as it can; `block` refuses calls that would leave a line, and
    /// changes by operators, with 503 (`audit_unavailable`) before they reach an agent. `drop`, because a full disk stops no
    /// traffic elsewhere in the gateway either: who must be able to show every act chooses `block`.
    pub on_full: RawOnFull,
    /// The events that are recorded. All but `rate_limited` by default: refusals by a rate limit are many and say little.
    pub events: List<RawAuditEvent>,
    /// Most events that wait to be written, those of calls under way included. Room for a second of refusals at full speed, at
    /// most some 16 MiB.
    pub queue: u32,
    /// How often the file is synced to disk: what a power cut may lose. A crash of the process loses what came in its last
    /// milliseconds. A second, as for the task store.
    pub sync_interval: Time,
    /// A collector to which each line goes as well, as a log record of OpenTelemetry (OTLP/HTTP, JSON). Off without this section.
    pub otlp: Option<RawAuditCollector>,
}

/// A collector of logs. The file stays the record: no call waits for the collector.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AuditCollector", extend("required" = ["url"]))]
pub struct RawAuditCollector {
    /// Where log records are posted, the path included, e.g. `https://collector.internal:4318/v1/logs`. https, because it says who does
    /// what; http only on a loopback address. No redirect is followed.
    pub url: Option<String>,
    /// PEM file with CA certificates to believe at `url` instead of the system's. Read again when it changes.
    pub ca: Option<String>,
    /// A header that the collector wants to see, such as `Authorization`. None by default.
    pub header: Option<RawHeaderCredential>,
    /// For one request, connecting included. Ten seconds, as OpenTelemetry has it.
    pub timeout: Time,
    /// Most lines that wait while the collector is away; later ones stand in the file alone, and are counted. Some ten minutes of
    /// a busy gateway, at most some 32 MiB.
    pub queue: u32,
}

impl Default for RawAuditCollector {
    fn default() -> Self {
        Self {
            url: None,
            ca: None,
            header: None,
            timeout: Time::seconds(10),
            queue: 16_384,
        }
    }
}

impl Default for RawAudit {
    fn default() -> Self {
        Self {
            file: None,
            key: None,
            key_file: None,
            max_bytes: Size::mib(100),
            keep: 10,
            on_full: RawOnFull::Drop,
            events: List::default(),
            queue: 8192,
            sync_interval: Time::seconds(1),
            otlp: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawOnFull {
    Block,
    Drop,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawAuditEvent {
    AuthenticationFailed,
    Denied,
    RateLimited,
    TaskCreated,
    TaskCancel,
    TaskTransferred,
    ContextTransferred,
    PushSet,
    PushDelete,
    CardPublished,
    AgentInService,
    AgentOutOfService,
    EndpointDrained,
    EndpointUndrained,
    ConfigurationLoaded,
    ConfigurationReloaded,
    ConfigurationRefused,
    KeysChanged,
    GatewayStarted,
    GatewayStopped,
}
