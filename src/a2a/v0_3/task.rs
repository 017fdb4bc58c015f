//! Tasks, artifacts and the events of a stream (A2A 0.3 §6.1 to §6.7, §7.2).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Error;
use super::message::{Message, Part};
use crate::a2a::listing::Stamp;
use crate::a2a::model;
use crate::a2a::model::wire::{Json, Text, or_default};
use crate::a2a::{Generation, TaskState};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Task<'a> {
    #[serde(default, deserialize_with = "or_default")]
    kind: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "context_id")]
    context_id: Text<'a>,
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
    #[serde(serialize_with = "write_state", deserialize_with = "read_state")]
    state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    timestamp: Text<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Artifact<'a> {
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "artifact_id")]
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
    #[serde(default, deserialize_with = "or_default")]
    kind: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "task_id")]
    task_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "context_id")]
    context_id: Text<'a>,
    status: TaskStatus<'a>,
    #[serde(default, deserialize_with = "or_default")]
    r#final: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ArtifactUpdate<'a> {
    #[serde(default, deserialize_with = "or_default")]
    kind: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "task_id")]
    task_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "context_id")]
    context_id: Text<'a>,
    artifact: Artifact<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    append: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "last_chunk")]
    last_chunk: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// What a send answers with, and what a stream tells: `kind` says which, or else the members do.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Event<'a> {
    Task(Task<'a>),
    Message(Message<'a>),
    Status(StatusUpdate<'a>),
    Artifact(ArtifactUpdate<'a>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Event<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct Shape<'a> {
            #[serde(default, deserialize_with = "or_default")]
            kind: Text<'a>,
            #[serde(default)]
            #[serde(alias = "message_id")]
            message_id: Option<Json<'a>>,
            #[serde(default)]
            artifact: Option<Json<'a>>,
            #[serde(default)]
            #[serde(alias = "task_id")]
            task_id: Option<Json<'a>>,
        }
        // Read twice, because what comes first may not be what says which it is.
        let raw = Json::deserialize(deserializer)?;
        let text = match raw.0 {
            std::borrow::Cow::Borrowed(raw) => raw.get(),
            std::borrow::Cow::Owned(_) => return Err(serde::de::Error::custom("not borrowed")),
        };
        let shape: Shape<'a> = serde_json::from_str(text).map_err(serde::de::Error::custom)?;
        let read = match shape.kind.as_str() {
            "task" => serde_json::from_str(text).map(Self::Task),
            "message" => serde_json::from_str(text).map(Self::Message),
            "status-update" => serde_json::from_str(text).map(Self::Status),
            "artifact-update" => serde_json::from_str(text).map(Self::Artifact),
            _ if shape.message_id.is_some() => serde_json::from_str(text).map(Self::Message),
            _ if shape.artifact.is_some() => serde_json::from_str(text).map(Self::Artifact),
            _ if shape.task_id.is_some() => serde_json::from_str(text).map(Self::Status),
            _ => serde_json::from_str(text).map(Self::Task),
        };
        read.map_err(serde::de::Error::custom)
    }
}

impl<'a> TryFrom<Event<'a>> for model::Event<'a> {
    type Error = Error;

    fn try_from(event: Event<'a>) -> Result<Self, Error> {
        Ok(match event {
            Event::Task(task) => Self::Task(task.try_into()?),
            Event::Message(message) => Self::Message(message.try_into()?),
            Event::Status(update) => Self::StatusUpdate(model::StatusUpdate {
                task_id: update.task_id,
                context_id: update.context_id,
                status: update.status.try_into()?,
                metadata: update.metadata,
            }),
            Event::Artifact(update) => Self::ArtifactUpdate(model::ArtifactUpdate {
                task_id: update.task_id,
                context_id: update.context_id,
                artifact: update.artifact.try_into()?,
                append: update.append.unwrap_or_default(),
                last_chunk: update.last_chunk.unwrap_or_default(),
                metadata: update.metadata,
            }),
        })
    }
}

impl<'a> TryFrom<model::Event<'a>> for Event<'a> {
    type Error = Error;

    fn try_from(event: model::Event<'a>) -> Result<Self, Error> {
        Ok(match event {
            model::Event::Task(task) => Self::Task(task.try_into()?),
            model::Event::Message(message) => Self::Message(message.try_into()?),
            model::Event::StatusUpdate(update) => {
                let last = ends_a_stream(update.status.state);
                Self::Status(StatusUpdate {
                    kind: Text::from("status-update"),
                    task_id: update.task_id,
                    context_id: update.context_id,
                    status: update.status.try_into()?,
                    r#final: last,
                    metadata: update.metadata,
                })
            }
            model::Event::ArtifactUpdate(update) => Self::Artifact(ArtifactUpdate {
                kind: Text::from("artifact-update"),
                task_id: update.task_id,
                context_id: update.context_id,
                artifact: update.artifact.try_into()?,
                append: update.append.then_some(true),
                last_chunk: update.last_chunk.then_some(true),
                metadata: update.metadata,
            }),
        })
    }
}

impl<'a> TryFrom<Task<'a>> for model::Task<'a> {
    type Error = Error;

    fn try_from(task: Task<'a>) -> Result<Self, Error> {
        Ok(Self {
            id: task.id,
            context_id: task.context_id,
            status: task.status.try_into()?,
            artifacts: task
                .artifacts
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            history: task
                .history
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            metadata: task.metadata,
        })
    }
}

impl<'a> TryFrom<model::Task<'a>> for Task<'a> {
    type Error = Error;

    fn try_from(task: model::Task<'a>) -> Result<Self, Error> {
        Ok(Self {
            kind: Text::from("task"),
            id: task.id,
            context_id: task.context_id,
            status: task.status.try_into()?,
            artifacts: task
                .artifacts
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            history: task
                .history
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
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
            parts: artifact
                .parts
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
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
            parts: artifact
                .parts
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            metadata: artifact.metadata,
            extensions: artifact.extensions,
        })
    }
}

/// Streams of 1.0 end here too, and readers of 0.3 wait for an event that says so. At `auth-required` some agents go on.
pub(in crate::a2a) fn ends_a_stream(state: TaskState) -> bool {
    state.is_terminal() || state == TaskState::InputRequired
}

/// The years 1 to 9999, which is what a protobuf timestamp has.
const YEARS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// With nine digits behind the second.
const LONGEST: usize = "2026-11-21T00:00:00.123456789Z".len();

/// RFC 3339 in UTC, as ProtoJSON wants it; a text without an offset is taken for UTC. Nothing, if it is no time: the readers
/// of 1.0 would refuse the whole task.
pub(in crate::a2a) fn utc(timestamp: Text<'_>) -> Text<'_> {
    let text = timestamp.as_str();
    if text.is_empty() {
        return timestamp;
    }
    let read = Stamp::parse(text).or_else(|| Stamp::parse(&format!("{text}Z")));
    match read.filter(|time| YEARS.contains(&time.seconds)) {
        // As it stands, if ProtoJSON has so many digits and such seconds.
        Some(_) if text.ends_with('Z') && text.len() <= LONGEST && text.get(17..19) != Some("60") => timestamp,
        Some(time) => Text::from(time.to_string()),
        None => Text::default(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn write_state<S: Serializer>(state: &TaskState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name(Generation::V0_3))
}

fn read_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
    Text::deserialize(deserializer).map(|state| TaskState::from_name(state.as_str()))
}
