//! Tasks, artifacts and the events of a stream.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Error;
use super::message::{Message, Part, read_parts, write_parts};
use crate::a2a::model;
use crate::a2a::model::wire::{Json, Text, enumerated, is_false, or_default};
use crate::a2a::v0_3::task::{ends_a_stream, utc};
use crate::a2a::{Generation, TaskState};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Task<'a> {
    #[serde(default, deserialize_with = "or_default")]
    id: Text<'a>,
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    context_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    status: TaskStatus<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<Artifact<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    history: Vec<Message<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct TaskStatus<'a> {
    #[serde(
        default = "unspecified",
        serialize_with = "write_state",
        deserialize_with = "read_state",
        skip_serializing_if = "is_unspecified"
    )]
    state: TaskState,
    /// `update` in the protobuf, with the JSON name `message`.
    #[serde(default, alias = "update", skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    timestamp: Text<'a>,
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

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Artifact<'a> {
    #[serde(default, alias = "artifact_id", deserialize_with = "or_default")]
    artifact_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    name: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    description: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    parts: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct StatusUpdate<'a> {
    #[serde(default, alias = "task_id", deserialize_with = "or_default")]
    task_id: Text<'a>,
    #[serde(default, alias = "context_id", deserialize_with = "or_default")]
    context_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    status: TaskStatus<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    r#final: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ArtifactUpdate<'a> {
    #[serde(default, alias = "task_id", deserialize_with = "or_default")]
    task_id: Text<'a>,
    #[serde(default, alias = "context_id", deserialize_with = "or_default")]
    context_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    artifact: Artifact<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    append: bool,
    #[serde(
        default,
        alias = "last_chunk",
        deserialize_with = "or_default",
        skip_serializing_if = "is_false"
    )]
    last_chunk: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// `SendMessageResponse` and `StreamResponse`: exactly one member.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Event<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Task<'a>>,
    /// `msg` in the protobuf, with the JSON name `message`.
    #[serde(default, alias = "msg", skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(default, alias = "status_update", skip_serializing_if = "Option::is_none")]
    status_update: Option<StatusUpdate<'a>>,
    #[serde(default, alias = "artifact_update", skip_serializing_if = "Option::is_none")]
    artifact_update: Option<ArtifactUpdate<'a>>,
}

impl<'a> TryFrom<Event<'a>> for model::Event<'a> {
    type Error = Error;

    fn try_from(event: Event<'a>) -> Result<Self, Error> {
        Ok(
            match (event.task, event.message, event.status_update, event.artifact_update) {
                (Some(task), None, None, None) => Self::Task(task.try_into()?),
                (None, Some(message), None, None) => Self::Message(message.try_into()?),
                (None, None, Some(update), None) => Self::StatusUpdate(model::StatusUpdate {
                    task_id: update.task_id,
                    context_id: update.context_id,
                    status: update.status.try_into()?,
                    metadata: update.metadata,
                }),
                (None, None, None, Some(update)) => Self::ArtifactUpdate(model::ArtifactUpdate {
                    task_id: update.task_id,
                    context_id: update.context_id,
                    artifact: update.artifact.try_into()?,
                    append: update.append,
                    last_chunk: update.last_chunk,
                    metadata: update.metadata,
                }),
                _ => return Err(Error::Malformed),
            },
        )
    }
}

impl<'a> TryFrom<model::Event<'a>> for Event<'a> {
    type Error = Error;

    fn try_from(event: model::Event<'a>) -> Result<Self, Error> {
        let none = Self::default();
        Ok(match event {
            model::Event::Task(task) => Self {
                task: Some(task.try_into()?),
                ..none
            },
            model::Event::Message(message) => Self {
                message: Some(message.try_into()?),
                ..none
            },
            model::Event::StatusUpdate(update) => Self {
                status_update: Some(StatusUpdate {
                    task_id: update.task_id,
                    context_id: update.context_id,
                    r#final: ends_a_stream(update.status.state),
                    status: update.status.try_into()?,
                    metadata: update.metadata,
                }),
                ..none
            },
            model::Event::ArtifactUpdate(update) => Self {
                artifact_update: Some(ArtifactUpdate {
                    task_id: update.task_id,
                    context_id: update.context_id,
                    artifact: update.artifact.try_into()?,
                    append: update.append,
                    last_chunk: update.last_chunk,
                    metadata: update.metadata,
                }),
                ..none
            },
        })
    }
}

impl<'a> TryFrom<Task<'a>> for model::Task<'a> {
    type Error = Error;

    fn try_from(task: Task<'a>) -> Result<Self, Error> {
        let artifacts = task.artifacts.into_iter().map(TryInto::try_into);
        let history = task.history.into_iter().map(TryInto::try_into);
        Ok(Self {
            id: task.id,
            context_id: task.context_id,
            status: task.status.try_into()?,
            artifacts: artifacts.collect::<Result<_, _>>()?,
            history: history.collect::<Result<_, _>>()?,
            metadata: task.metadata,
        })
    }
}

impl<'a> TryFrom<model::Task<'a>> for Task<'a> {
    type Error = Error;

    fn try_from(task: model::Task<'a>) -> Result<Self, Error> {
        let artifacts = task.artifacts.into_iter().map(TryInto::try_into);
        let history = task.history.into_iter().map(TryInto::try_into);
        Ok(Self {
            id: task.id,
            context_id: task.context_id,
            status: task.status.try_into()?,
            artifacts: artifacts.collect::<Result<_, _>>()?,
            history: history.collect::<Result<_, _>>()?,
            metadata: task.metadata,
        })
    }
}

impl<'a> TryFrom<TaskStatus<'a>> for model::TaskStatus<'a> {
    type Error = Error;

    fn try_from(status: TaskStatus<'a>) -> Result<Self, Error> {
        Ok(Self {
            state: status.state,
            message: status.message.map(TryInto::try_into).transpose()?,
            timestamp: utc(status.timestamp),
        })
    }
}

impl<'a> TryFrom<model::TaskStatus<'a>> for TaskStatus<'a> {
    type Error = Error;

    fn try_from(status: model::TaskStatus<'a>) -> Result<Self, Error> {
        Ok(Self {
            state: status.state,
            message: status.message.map(TryInto::try_into).transpose()?,
            timestamp: status.timestamp,
        })
    }
}

impl<'a> TryFrom<Artifact<'a>> for model::Artifact<'a> {
    type Error = Error;

    fn try_from(artifact: Artifact<'a>) -> Result<Self, Error> {
        Ok(Self {
            artifact_id: artifact.artifact_id,
            name: artifact.name,
            description: artifact.description,
            parts: read_parts(artifact.parts)?,
            metadata: artifact.metadata,
            extensions: artifact.extensions,
        })
    }
}

impl<'a> TryFrom<model::Artifact<'a>> for Artifact<'a> {
    type Error = Error;

    fn try_from(artifact: model::Artifact<'a>) -> Result<Self, Error> {
        Ok(Self {
            artifact_id: artifact.artifact_id,
            name: artifact.name,
            description: artifact.description,
            parts: write_parts(artifact.parts)?,
            metadata: artifact.metadata,
            extensions: artifact.extensions,
        })
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
    serializer.serialize_str(match state {
        // The only one that 1.0 has spelt anew.
        TaskState::Canceled => "TASK_STATE_CANCELLED",
        TaskState::Submitted
        | TaskState::Working
        | TaskState::InputRequired
        | TaskState::AuthRequired
        | TaskState::Completed
        | TaskState::Failed
        | TaskState::Rejected
        | TaskState::Unknown => state.name(Generation::V1_0),
    })
}

fn read_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
    enumerated(deserializer, TaskState::from_name, TaskState::from_number)
}
