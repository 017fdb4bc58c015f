//! Tasks, artifacts and the events of a stream (A2A 0.1, `Task`, `TaskStatusUpdateEvent`, `TaskArtifactUpdateEvent`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::message::{Message, Part, parts};
use super::{Error, Told};
use crate::a2a::TaskState;
use crate::a2a::model;
use crate::a2a::model::wire::{Json, Text, or_default};
use crate::a2a::v0_3::{ends_a_stream, utc};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Task<'a> {
    #[serde(default, deserialize_with = "or_default")]
    id: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    session_id: Text<'a>,
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
pub(super) struct TaskStatus<'a> {
    #[serde(serialize_with = "write_state", deserialize_with = "read_state")]
    state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    timestamp: Text<'a>,
}

/// Told from others of its task by its place among them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Artifact<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    name: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    description: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    parts: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    index: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    append: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_chunk: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Event<'a> {
    Status(StatusUpdate<'a>),
    Artifact(ArtifactUpdate<'a>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct StatusUpdate<'a> {
    #[serde(default, deserialize_with = "or_default")]
    id: Text<'a>,
    /// Of no definition.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    session_id: Text<'a>,
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
    id: Text<'a>,
    /// Of no definition.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    session_id: Text<'a>,
    artifact: Artifact<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// What a stream has told, as far as its next events go by it.
#[derive(Debug, Default)]
pub struct Progress {
    /// The places of artifacts, which an agent of a later generation names: the order in which a stream first tells of them, as
    /// it is that of its task.
    artifacts: Vec<Box<str>>,
    /// The final event, if the stream ends here. A task shows how it stands, which may be with a question whose answer is under way.
    end: Option<Vec<u8>>,
}

impl Progress {
    /// Most artifacts of one stream that are told apart. Agents make a few.
    pub const MOST: usize = 1024;

    /// The `result` of the event that ends the stream, where no event has said yet that it is the final one.
    pub fn end(&mut self) -> Option<Vec<u8>> {
        self.end.take()
    }

    pub(super) fn index(&mut self, artifact: &str) -> Result<usize, Error> {
        if let Some(at) = self.artifacts.iter().position(|known| **known == *artifact) {
            return Ok(at);
        }
        if self.artifacts.len() == Self::MOST {
            return Err(Error::Malformed);
        }
        self.artifacts.push(Box::from(artifact));
        Ok(self.artifacts.len() - 1)
    }
}

impl<'a> Task<'a> {
    pub(super) fn of(task: model::Task<'a>, told: Told<'a>) -> Result<Self, Error> {
        let artifacts = task.artifacts.into_iter().enumerate();
        let history = task.history.into_iter().map(TryInto::try_into);
        Ok(Self {
            id: Text::from(told.task),
            session_id: match told.session {
                "" => task.context_id,
                session => Text::from(session),
            },
            status: task.status.try_into()?,
            artifacts: artifacts
                .map(|(index, artifact)| Artifact::of(artifact, index))
                .collect::<Result<_, _>>()?,
            history: history.collect::<Result<_, _>>()?,
            metadata: task.metadata,
        })
    }
}

impl<'a> Task<'a> {
    pub(super) fn into_model(self, session: &'a str) -> Result<model::Task<'a>, Error> {
        let artifacts = self.artifacts.into_iter().map(TryInto::try_into);
        let history = self.history.into_iter();
        let history = history.map(|message| message.into_model(self.id.as_str()));
        Ok(model::Task {
            artifacts: artifacts.collect::<Result<_, _>>()?,
            history: history.collect::<Result<_, _>>()?,
            status: self.status.into_model(self.id.as_str())?,
            context_id: told_or(self.session_id, session),
            id: self.id,
            metadata: self.metadata,
        })
    }
}

impl<'a> TaskStatus<'a> {
    fn into_model(self, task: &str) -> Result<model::TaskStatus<'a>, Error> {
        Ok(model::TaskStatus {
            state: self.state,
            message: self.message.map(|message| message.into_model(task)).transpose()?,
            timestamp: utc(self.timestamp),
        })
    }
}

/// A task that says what an agent answers without one: it is done with that.
pub(super) fn answered(message: model::Message<'_>) -> model::Task<'_> {
    model::Task {
        context_id: message.context_id.clone(),
        status: model::TaskStatus {
            state: TaskState::Completed,
            message: Some(message),
            timestamp: Text::default(),
        },
        ..model::Task::default()
    }
}

impl<'a> Event<'a> {
    /// A task is what it has made and how it stands.
    pub(super) fn of(event: model::Event<'a>, told: Told<'a>, progress: &mut Progress) -> Result<Vec<Self>, Error> {
        let task = match event {
            model::Event::StatusUpdate(update) => {
                let last = ends_a_stream(update.status.state);
                return Ok(vec![Self::status(update.status, update.metadata, told, last)?]);
            }
            model::Event::ArtifactUpdate(update) => {
                let index = progress.index(update.artifact.artifact_id.as_str())?;
                let artifact = Artifact {
                    append: Some(update.append),
                    last_chunk: Some(update.last_chunk),
                    ..Artifact::of(update.artifact, index)?
                };
                return Ok(vec![Self::artifact(artifact, update.metadata, told)]);
            }
            model::Event::Message(message) => {
                let task = answered(message);
                return Ok(vec![Self::status(task.status, task.metadata, told, true)?]);
            }
            model::Event::Task(task) => task,
        };
        let mut events = Vec::with_capacity(task.artifacts.len() + 1);
        for artifact in task.artifacts {
            let index = progress.index(artifact.artifact_id.as_str())?;
            events.push(Self::artifact(Artifact::of(artifact, index)?, None, told));
        }
        if ends_a_stream(task.status.state) {
            let last = Self::status(task.status.clone(), task.metadata.clone(), told, true)?;
            progress.end = Some(serde_json::to_vec(&last)?);
        }
        events.push(Self::status(task.status, task.metadata, told, false)?);
        Ok(events)
    }

    fn status(
        status: model::TaskStatus<'a>,
        metadata: Option<Json<'a>>,
        told: Told<'a>,
        last: bool,
    ) -> Result<Self, Error> {
        Ok(Self::Status(StatusUpdate {
            id: Text::from(told.task),
            session_id: Text::default(),
            r#final: last,
            status: status.try_into()?,
            metadata,
        }))
    }

    fn artifact(artifact: Artifact<'a>, metadata: Option<Json<'a>>, told: Told<'a>) -> Self {
        Self::Artifact(ArtifactUpdate {
            id: Text::from(told.task),
            session_id: Text::default(),
            artifact,
            metadata,
        })
    }
}

/// Reads one event. One that makes an artifact says which; of those that tell how a task stands, some agents send whole tasks.
pub(super) fn read_event<'a>(text: &'a str, session: &'a str) -> Result<model::Event<'a>, Error> {
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Shape<'a> {
        #[serde(default)]
        artifact: Option<Json<'a>>,
        #[serde(default)]
        r#final: Option<Json<'a>>,
        #[serde(default)]
        artifacts: Option<Json<'a>>,
        #[serde(default)]
        history: Option<Json<'a>>,
    }
    let shape: Shape<'a> = serde_json::from_str(text)?;
    if shape.artifact.is_some() {
        let update: ArtifactUpdate<'a> = serde_json::from_str(text)?;
        return Ok(model::Event::ArtifactUpdate(model::ArtifactUpdate {
            task_id: update.id,
            context_id: told_or(update.session_id, session),
            append: update.artifact.append.unwrap_or_default(),
            last_chunk: update.artifact.last_chunk.unwrap_or_default(),
            artifact: update.artifact.try_into()?,
            metadata: update.metadata,
        }));
    }
    if shape.r#final.is_none() && (shape.artifacts.is_some() || shape.history.is_some()) {
        let task: Task<'a> = serde_json::from_str(text)?;
        return Ok(model::Event::Task(task.into_model(session)?));
    }
    let update: StatusUpdate<'a> = serde_json::from_str(text)?;
    Ok(model::Event::StatusUpdate(model::StatusUpdate {
        status: update.status.into_model(update.id.as_str())?,
        task_id: update.id,
        context_id: told_or(update.session_id, session),
        metadata: update.metadata,
    }))
}

fn told_or<'a>(told: Text<'a>, session: &'a str) -> Text<'a> {
    match told.as_str() {
        "" => Text::from(session),
        _ => told,
    }
}

impl<'a> Artifact<'a> {
    fn of(artifact: model::Artifact<'a>, index: usize) -> Result<Self, Error> {
        Ok(Self {
            name: artifact.name,
            description: artifact.description,
            parts: parts(artifact.parts)?,
            metadata: artifact.metadata,
            index,
            append: None,
            last_chunk: None,
        })
    }
}

/// Its chunks have its place in common.
impl<'a> TryFrom<Artifact<'a>> for model::Artifact<'a> {
    type Error = Error;

    fn try_from(artifact: Artifact<'a>) -> Result<Self, Error> {
        let parts = artifact.parts.into_iter().map(TryInto::try_into);
        Ok(Self {
            artifact_id: Text::from(artifact.index.to_string()),
            name: artifact.name,
            description: artifact.description,
            parts: parts.collect::<Result<_, _>>()?,
            metadata: artifact.metadata,
            extensions: Vec::new(),
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

/// 0.1 knows no rejection, which is a failure to whoever waits, and no missing credential, for which the agent waits as it
/// does for other input.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn write_state<S: Serializer>(state: &TaskState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired | TaskState::AuthRequired => "input-required",
        TaskState::Completed => "completed",
        TaskState::Canceled => "canceled",
        TaskState::Failed | TaskState::Rejected => "failed",
        TaskState::Unknown => "unknown",
    })
}

fn read_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
    Text::deserialize(deserializer).map(|state| TaskState::from_name(state.as_str()))
}
