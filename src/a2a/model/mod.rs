//! The canonical model: A2A 1.0 §4 as types, which read and write its JSON form.
//!
//! Whatever is translated passes through these types: a dialect that is not 1.0 has types of its own that turn into these
//! and back. Bodies that need no translation never get here. Text and free-form JSON are borrowed from the body.
//! Members that A2A 1.0 does not define are not kept (see `LOSSES.md`).

pub mod fault;
mod part;
pub mod wire;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::part::{Content, Part};
use self::wire::{Json, Text, enumerated, is_false, or_default, whole};
use super::{Operation, TaskState};

/// Who speaks (A2A 1.0 §4.1.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Unspecified,
    User,
    Agent,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct SendMessageRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    pub message: Message<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
}

/// `SendMessageConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Configuration<'a> {
    #[serde(
        default,
        alias = "accepted_output_modes",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub accepted_output_modes: Vec<Text<'a>>,
    #[serde(
        default,
        alias = "task_push_notification_config",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_push_notification_config: Option<PushConfig<'a>>,
    #[serde(
        default,
        alias = "history_length",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub history_length: Option<i32>,
    #[serde(
        default,
        alias = "return_immediately",
        deserialize_with = "or_default",
        skip_serializing_if = "is_false"
    )]
    pub return_immediately: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Message<'a> {
    #[serde(default, alias = "message_id", deserialize_with = "or_default")]
    pub message_id: Text<'a>,
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub context_id: Text<'a>,
    #[serde(
        default,
        alias = "task_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub task_id: Text<'a>,
    #[serde(default)]
    pub role: Role,
    #[serde(default, deserialize_with = "or_default")]
    pub parts: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Text<'a>>,
    #[serde(
        default,
        alias = "reference_task_ids",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reference_task_ids: Vec<Text<'a>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Task<'a> {
    #[serde(default, deserialize_with = "or_default")]
    pub id: Text<'a>,
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub context_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub status: TaskStatus<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub struct TaskStatus<'a> {
    #[serde(
        default = "unspecified",
        serialize_with = "write_state",
        deserialize_with = "read_state",
        skip_serializing_if = "is_unspecified"
    )]
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub timestamp: Text<'a>,
}

impl Default for TaskStatus<'_> {
    fn default() -> Self {
        Self {
            state: TaskState::Unknown,
            message: None,
            timestamp: Text::default(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Artifact<'a> {
    #[serde(default, alias = "artifact_id", deserialize_with = "or_default")]
    pub artifact_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub name: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub description: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub parts: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Text<'a>>,
}

/// `TaskStatusUpdateEvent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct StatusUpdate<'a> {
    #[serde(default, alias = "task_id", deserialize_with = "or_default")]
    pub task_id: Text<'a>,
    #[serde(default, alias = "context_id", deserialize_with = "or_default")]
    pub context_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub status: TaskStatus<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
}

/// `TaskArtifactUpdateEvent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ArtifactUpdate<'a> {
    #[serde(default, alias = "task_id", deserialize_with = "or_default")]
    pub task_id: Text<'a>,
    #[serde(default, alias = "context_id", deserialize_with = "or_default")]
    pub context_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub artifact: Artifact<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub append: bool,
    #[serde(
        default,
        alias = "last_chunk",
        deserialize_with = "or_default",
        skip_serializing_if = "is_false"
    )]
    pub last_chunk: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
}

/// `StreamResponse`, and `SendMessageResponse` where it is a task or a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    try_from = "EventMembers<'a>",
    bound(deserialize = "'de: 'a")
)]
pub enum Event<'a> {
    Task(Task<'a>),
    Message(Message<'a>),
    StatusUpdate(StatusUpdate<'a>),
    ArtifactUpdate(ArtifactUpdate<'a>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct EventMembers<'a> {
    #[serde(default)]
    task: Option<Task<'a>>,
    #[serde(default)]
    message: Option<Message<'a>>,
    #[serde(default, alias = "status_update")]
    status_update: Option<StatusUpdate<'a>>,
    #[serde(default, alias = "artifact_update")]
    artifact_update: Option<ArtifactUpdate<'a>>,
}

impl<'a> TryFrom<EventMembers<'a>> for Event<'a> {
    type Error = &'static str;

    fn try_from(members: EventMembers<'a>) -> Result<Self, Self::Error> {
        let EventMembers {
            task,
            message,
            status_update,
            artifact_update,
        } = members;
        match (task, message, status_update, artifact_update) {
            (Some(task), None, None, None) => Ok(Self::Task(task)),
            (None, Some(message), None, None) => Ok(Self::Message(message)),
            (None, None, Some(update), None) => Ok(Self::StatusUpdate(update)),
            (None, None, None, Some(update)) => Ok(Self::ArtifactUpdate(update)),
            _ => Err("not exactly one of task, message, statusUpdate and artifactUpdate"),
        }
    }
}

/// `GetTaskRequest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct GetTaskRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    pub id: Text<'a>,
    #[serde(
        default,
        alias = "history_length",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub history_length: Option<i32>,
}

/// `CancelTaskRequest`; `SubscribeToTaskRequest` has no metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub struct TaskRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    pub id: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
}

/// `TaskPushNotificationConfig`: also the request that creates it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushConfig<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub id: Text<'a>,
    #[serde(
        default,
        alias = "task_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub task_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub url: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub token: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication<'a>>,
}

/// `AuthenticationInfo`: what the receiver of push notifications wants to see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub struct Authentication<'a> {
    #[serde(default, deserialize_with = "or_default")]
    pub scheme: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub credentials: Text<'a>,
}

/// Names one push configuration of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushName<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(alias = "task_id")]
    pub task_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub id: Text<'a>,
}

/// `ListTaskPushNotificationConfigsRequest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushListRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(alias = "task_id")]
    pub task_id: Text<'a>,
    #[serde(
        default,
        alias = "page_size",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub page_size: Option<i32>,
    #[serde(
        default,
        alias = "page_token",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub page_token: Text<'a>,
}

/// `ListTaskPushNotificationConfigsResponse`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushPage<'a> {
    #[serde(default, deserialize_with = "or_default")]
    pub configs: Vec<PushConfig<'a>>,
    #[serde(default, alias = "next_page_token", deserialize_with = "or_default")]
    pub next_page_token: Text<'a>,
}

/// `ListTasksRequest` (A2A 1.0 §3.1.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ListTasksRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub context_id: Text<'a>,
    #[serde(
        default = "unspecified",
        serialize_with = "write_state",
        deserialize_with = "read_state",
        skip_serializing_if = "is_unspecified"
    )]
    pub status: TaskState,
    #[serde(
        default,
        alias = "page_size",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub page_size: Option<i32>,
    #[serde(
        default,
        alias = "page_token",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub page_token: Text<'a>,
    #[serde(
        default,
        alias = "history_length",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub history_length: Option<i32>,
    #[serde(
        default,
        alias = "status_timestamp_after",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub status_timestamp_after: Text<'a>,
    #[serde(
        default,
        alias = "include_artifacts",
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub include_artifacts: Option<bool>,
}

impl Default for ListTasksRequest<'_> {
    fn default() -> Self {
        Self {
            tenant: Text::default(),
            context_id: Text::default(),
            status: TaskState::Unknown,
            page_size: None,
            page_token: Text::default(),
            history_length: None,
            status_timestamp_after: Text::default(),
            include_artifacts: None,
        }
    }
}

/// `ListTasksResponse`; all members are always there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct TaskPage<'a> {
    #[serde(default, deserialize_with = "or_default")]
    pub tasks: Vec<Task<'a>>,
    #[serde(default, alias = "next_page_token", deserialize_with = "or_default")]
    pub next_page_token: Text<'a>,
    #[serde(default, alias = "page_size", deserialize_with = "or_default")]
    pub page_size: i32,
    #[serde(default, alias = "total_size", deserialize_with = "or_default")]
    pub total_size: i32,
}

/// `GetExtendedAgentCardRequest`.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct TenantOnly<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    tenant: Text<'a>,
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    Send(SendMessageRequest<'a>),
    Stream(SendMessageRequest<'a>),
    Get(GetTaskRequest<'a>),
    /// Only in 1.0.
    List(ListTasksRequest<'a>),
    Cancel(TaskRequest<'a>),
    Subscribe(TaskRequest<'a>),
    PushCreate(PushConfig<'a>),
    PushGet(PushName<'a>),
    PushList(PushListRequest<'a>),
    PushDelete(PushName<'a>),
    ExtendedCard {
        tenant: Text<'a>,
    },
}

impl<'a> Request<'a> {
    /// Reads `params`.
    pub fn read(operation: Operation, params: &'a str) -> serde_json::Result<Self> {
        Ok(match operation {
            Operation::Send => Self::Send(serde_json::from_str(params)?),
            Operation::Stream => Self::Stream(serde_json::from_str(params)?),
            Operation::Get => Self::Get(serde_json::from_str(params)?),
            Operation::Cancel => Self::Cancel(serde_json::from_str(params)?),
            Operation::Subscribe => Self::Subscribe(TaskRequest {
                metadata: None,
                ..serde_json::from_str(params)?
            }),
            Operation::PushCreate => Self::PushCreate(serde_json::from_str(params)?),
            Operation::PushGet => Self::PushGet(serde_json::from_str(params)?),
            Operation::PushList => Self::PushList(serde_json::from_str(params)?),
            Operation::PushDelete => Self::PushDelete(serde_json::from_str(params)?),
            Operation::ExtendedCard => {
                let TenantOnly { tenant } = serde_json::from_str(params)?;
                Self::ExtendedCard { tenant }
            }
            Operation::List => Self::List(serde_json::from_str(params)?),
        })
    }

    /// Writes `params`.
    pub fn write(self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Send(request) | Self::Stream(request) => serde_json::to_writer(out, &request),
            Self::Get(request) => serde_json::to_writer(out, &request),
            Self::List(request) => serde_json::to_writer(out, &request),
            Self::Cancel(request) | Self::Subscribe(request) => serde_json::to_writer(out, &request),
            Self::PushCreate(config) => serde_json::to_writer(out, &config),
            Self::PushGet(name) | Self::PushDelete(name) => serde_json::to_writer(out, &name),
            Self::PushList(request) => serde_json::to_writer(out, &request),
            Self::ExtendedCard { tenant } => serde_json::to_writer(out, &TenantOnly { tenant }),
        }
    }

    /// What an agent that serves several tenants routes by (A2A 1.0 §4.4.6).
    pub fn tenant_mut(&mut self) -> &mut Text<'a> {
        match self {
            Self::Send(request) | Self::Stream(request) => &mut request.tenant,
            Self::Get(request) => &mut request.tenant,
            Self::List(request) => &mut request.tenant,
            Self::Cancel(request) | Self::Subscribe(request) => &mut request.tenant,
            Self::PushCreate(request) => &mut request.tenant,
            Self::PushGet(request) | Self::PushDelete(request) => &mut request.tenant,
            Self::PushList(request) => &mut request.tenant,
            Self::ExtendedCard { tenant } => tenant,
        }
    }
}

/// Why a call failed (A2A 1.0 §5.4), whatever the binding calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault<'a> {
    /// The JSON-RPC code; -32603 where a binding gives none.
    pub code: i64,
    pub message: Text<'a>,
    /// `data` of JSON-RPC, `details` of HTTP+JSON: in 1.0 a list of objects with `@type`.
    pub details: Option<Json<'a>>,
}

/// The result of a call that did not fail, or one event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    Event(Event<'a>),
    Task(Task<'a>),
    Tasks(TaskPage<'a>),
    Push(PushConfig<'a>),
    Pushes(PushPage<'a>),
    Nothing,
    /// Cards have their own way (`a2a::card`).
    Card(Json<'a>),
}

impl<'a> Response<'a> {
    /// Reads `result`.
    pub fn read(operation: Operation, result: &'a str) -> serde_json::Result<Self> {
        Ok(match operation {
            Operation::Send | Operation::Stream | Operation::Subscribe => Self::Event(serde_json::from_str(result)?),
            Operation::Get | Operation::Cancel => Self::Task(serde_json::from_str(result)?),
            Operation::PushCreate | Operation::PushGet => Self::Push(serde_json::from_str(result)?),
            Operation::PushList => Self::Pushes(serde_json::from_str(result)?),
            Operation::PushDelete => Self::Nothing,
            Operation::ExtendedCard => Self::Card(serde_json::from_str(result)?),
            Operation::List => Self::Tasks(serde_json::from_str(result)?),
        })
    }

    /// Writes `result`.
    pub fn write(self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Event(event) => serde_json::to_writer(out, &event),
            Self::Task(task) => serde_json::to_writer(out, &task),
            Self::Tasks(page) => serde_json::to_writer(out, &page),
            Self::Push(config) => serde_json::to_writer(out, &config),
            Self::Pushes(page) => serde_json::to_writer(out, &page),
            Self::Nothing => serde_json::to_writer(out, &()),
            Self::Card(card) => serde_json::to_writer(out, &card),
        }
    }
}

impl Role {
    fn from_name(name: &str) -> Self {
        match name {
            "ROLE_USER" => Self::User,
            "ROLE_AGENT" => Self::Agent,
            _ => Self::Unspecified,
        }
    }

    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Self::User,
            2 => Self::Agent,
            _ => Self::Unspecified,
        }
    }

    /// The number of the protobuf enum, the same in all generations.
    pub fn number(self) -> i32 {
        match self {
            Self::Unspecified => 0,
            Self::User => 1,
            Self::Agent => 2,
        }
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Unspecified => "ROLE_UNSPECIFIED",
            Self::User => "ROLE_USER",
            Self::Agent => "ROLE_AGENT",
        })
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        enumerated(deserializer, Self::from_name, Self::from_number)
    }
}

fn unspecified() -> TaskState {
    TaskState::Unknown
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn is_unspecified(state: &TaskState) -> bool {
    *state == TaskState::Unknown
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn write_state<S: Serializer>(state: &TaskState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name(super::Generation::V1_0))
}

fn read_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
    enumerated(deserializer, TaskState::from_name, TaskState::from_number)
}
