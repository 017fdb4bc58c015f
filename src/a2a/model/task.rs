//! Tasks, artifacts and what streams tell of them (A2A 1.0 §4.1, §4.2).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::wire::{Json, Text, enumerated, is_false, or_default};
use super::{Message, Part};
use crate::a2a::{Generation, TaskState};

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

pub(super) fn unspecified() -> TaskState {
    TaskState::Unknown
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
pub(super) fn is_unspecified(state: &TaskState) -> bool {
    *state == TaskState::Unknown
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
pub(super) fn write_state<S: Serializer>(state: &TaskState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name(Generation::V1_0))
}

pub(super) fn read_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
    enumerated(deserializer, TaskState::from_name, TaskState::from_number)
}
