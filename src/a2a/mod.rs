//! The A2A protocol as types and pure functions.
//!
//! No sockets, no clock, no tokio, no hyper: everything here maps bytes to values and values to bytes, so that it can be
//! tested with tables and fuzzed. Ids are opaque text and are rewritten for callers of 0.1 alone (`v0_1`).

pub mod answer;
pub mod card;
pub mod envelope;
pub mod grpc;
pub mod http_json;
pub mod json;
pub mod jsonrpc;
pub mod listing;
pub mod metadata;
pub mod model;
pub mod security;
pub mod sse;
pub mod tenant;
pub mod translate;
pub mod v0_1;
pub mod v0_3;

use std::fmt;
use std::sync::Arc;

/// A protocol generation: the `Major.Minor` that decides method names and the place of the ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Generation {
    /// A2A 0.1: `tasks/send`; clients name their tasks themselves. Over JSON-RPC alone: the other bindings have no form of it, and
    /// take it for the generation next to it.
    V0_1,
    /// A2A 0.3 (and the names it shares with 0.2): `message/send`, `kind` members.
    V0_3,
    /// A2A 1.0: `SendMessage`, ProtoJSON members.
    V1_0,
}

impl Generation {
    pub const ALL: [Self; 3] = [Self::V0_1, Self::V0_3, Self::V1_0];
    /// Those that callers may choose by a version.
    pub const SPOKEN: [Self; 2] = [Self::V0_3, Self::V1_0];

    /// The `Major.Minor` text, as `A2A-Version` and cards spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V0_3 => "0.3",
            Self::V1_0 => "1.0",
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How calls are written down (A2A 1.0 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    JsonRpc,
    /// Paths and query parameters, with ProtoJSON bodies.
    HttpJson,
    /// Protobuf messages.
    Grpc,
}

impl Binding {
    /// Of those that an agent has, the first one is taken to call it in.
    pub const ALL: [Self; 3] = [Self::JsonRpc, Self::HttpJson, Self::Grpc];

    /// The name in cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
        }
    }
}

/// What one side speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dialect {
    pub generation: Generation,
    pub binding: Binding,
}

/// What the head of a request says of its call: in JSON-RPC nothing, else which one it is.
#[derive(Clone, Debug)]
pub enum Addressed {
    JsonRpc,
    HttpJson(Box<http_json::Target>),
    Grpc(&'static grpc::Method),
}

/// What a call does, whatever its generation calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    PushCreate,
    PushGet,
    PushList,
    PushDelete,
    ExtendedCard,
}

impl Operation {
    pub const ALL: [Self; 11] = [
        Self::Send,
        Self::Stream,
        Self::Get,
        Self::List,
        Self::Cancel,
        Self::Subscribe,
        Self::PushCreate,
        Self::PushGet,
        Self::PushList,
        Self::PushDelete,
        Self::ExtendedCard,
    ];

    /// The label in metrics, logs and rate-limit rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Stream => "stream",
            Self::Get => "get",
            Self::List => "list",
            Self::Cancel => "cancel",
            Self::Subscribe => "subscribe",
            Self::PushCreate => "push-create",
            Self::PushGet => "push-get",
            Self::PushList => "push-list",
            Self::PushDelete => "push-delete",
            Self::ExtendedCard => "extended-card",
        }
    }

    /// The answer is normally an event stream (A2A 1.0 §3.1.2, §3.1.6).
    pub fn streams(self) -> bool {
        matches!(self, Self::Stream | Self::Subscribe)
    }

    /// The answer has push configurations in it.
    pub fn shows_webhooks(self) -> bool {
        matches!(self, Self::PushCreate | Self::PushGet | Self::PushList)
    }

    /// Repeating the call changes nothing at the agent.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Self::Get | Self::List | Self::PushGet | Self::PushList | Self::ExtendedCard
        )
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Arc<str>);

        impl $name {
            pub fn new(text: &str) -> Self {
                Self(Arc::from(text))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// Names a task; unique only within the agent that made it.
    TaskId
}
text_id! {
    /// Groups the tasks and messages of one conversation (`contextId`).
    ContextId
}

/// Where a task stands, as far as a gateway needs to know (A2A 1.0 §4.1.3). Unknown states are not terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    Submitted,
    Working,
    InputRequired,
    AuthRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
    /// A state that this gateway does not know; passed on untouched.
    Unknown,
}

impl TaskState {
    /// As 0.3 calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::AuthRequired => "auth-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }

    /// From the text of any generation and binding.
    pub fn from_name(name: &str) -> Self {
        match name {
            "submitted" | "TASK_STATE_SUBMITTED" => Self::Submitted,
            "working" | "TASK_STATE_WORKING" => Self::Working,
            "input-required" | "TASK_STATE_INPUT_REQUIRED" => Self::InputRequired,
            "auth-required" | "TASK_STATE_AUTH_REQUIRED" => Self::AuthRequired,
            "completed" | "TASK_STATE_COMPLETED" => Self::Completed,
            "failed" | "TASK_STATE_FAILED" => Self::Failed,
            "canceled" | "TASK_STATE_CANCELED" | "TASK_STATE_CANCELLED" => Self::Canceled,
            "rejected" | "TASK_STATE_REJECTED" => Self::Rejected,
            _ => Self::Unknown,
        }
    }

    /// From the number of the protobuf enum, the same in all generations.
    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Submitted,
            2 => Self::Working,
            3 => Self::Completed,
            4 => Self::Failed,
            5 => Self::Canceled,
            6 => Self::InputRequired,
            7 => Self::Rejected,
            8 => Self::AuthRequired,
            _ => Self::Unknown,
        }
    }

    /// The number of the protobuf enum.
    pub fn number(self) -> i32 {
        match self {
            Self::Unknown => 0,
            Self::Submitted => 1,
            Self::Working => 2,
            Self::Completed => 3,
            Self::Failed => 4,
            Self::Canceled => 5,
            Self::InputRequired => 6,
            Self::Rejected => 7,
            Self::AuthRequired => 8,
        }
    }

    /// The text in JSON-RPC bodies of a generation.
    pub fn name(self, generation: Generation) -> &'static str {
        let (v0_3, v1_0) = match self {
            Self::Submitted => ("submitted", "TASK_STATE_SUBMITTED"),
            Self::Working => ("working", "TASK_STATE_WORKING"),
            Self::InputRequired => ("input-required", "TASK_STATE_INPUT_REQUIRED"),
            Self::AuthRequired => ("auth-required", "TASK_STATE_AUTH_REQUIRED"),
            Self::Completed => ("completed", "TASK_STATE_COMPLETED"),
            Self::Failed => ("failed", "TASK_STATE_FAILED"),
            Self::Canceled => ("canceled", "TASK_STATE_CANCELED"),
            Self::Rejected => ("rejected", "TASK_STATE_REJECTED"),
            Self::Unknown => ("unknown", "TASK_STATE_UNSPECIFIED"),
        };
        match generation {
            Generation::V0_1 | Generation::V0_3 => v0_3,
            Generation::V1_0 => v1_0,
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }
}

/// The id of a JSON-RPC request as the caller wrote it: the raw JSON text of a string, a number or `null`.
///
/// Kept as text because large integers do not survive a float; answers repeat it byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcId(pub bytes::Bytes);

impl RpcId {
    /// The id of a call that came without one.
    pub fn one() -> Self {
        Self(bytes::Bytes::from_static(b"1"))
    }

    /// The id of an answer to a request whose id could not be read.
    pub fn null() -> Self {
        Self(bytes::Bytes::from_static(b"null"))
    }
}

/// One A2A call, read from a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub binding: Binding,
    pub generation: Generation,
    pub operation: Operation,
    /// `null` in bindings without one.
    pub id: RpcId,
    /// The task that the call names (never the push configuration id; see `jsonrpc`).
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
    /// Other tasks that the message touches, never routed by: its `referenceTaskIds`, and the one that an inline push
    /// configuration names.
    pub references: Vec<TaskId>,
    /// A send asks for a webhook of its task to be told.
    pub webhook: bool,
}

impl Call {
    pub fn dialect(&self) -> Dialect {
        Dialect {
            generation: self.generation,
            binding: self.binding,
        }
    }
}

/// The ids that an answer or a stream event reveals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revealed {
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
    pub state: Option<TaskState>,
}
