//! Tasks, artifacts and the events of a stream (A2A 0.1, `Task`, `TaskStatusUpdateEvent`, `TaskArtifactUpdateEvent`).

use serde::{Serialize, Serializer};

use super::message::{Message, Part, parts};
use super::{Error, Told};
use crate::a2a::TaskState;
use crate::a2a::model;
use crate::a2a::model::wire::{Json, Text};
use crate::a2a::v0_3::ends_a_stream;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task<'a> {
    id: Text<'a>,
    #[serde(skip_serializing_if = "Text::is_empty")]
    session_id: Text<'a>,
    status: TaskStatus<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<Artifact<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

#[derive(Serialize)]
pub(super) struct TaskStatus<'a> {
    #[serde(serialize_with = "write_state")]
    state: TaskState,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Text::is_empty")]
    timestamp: Text<'a>,
}

/// Told from others of its task by its place among them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact<'a> {
    #[serde(skip_serializing_if = "Text::is_empty")]
    name: Text<'a>,
    #[serde(skip_serializing_if = "Text::is_empty")]
    description: Text<'a>,
    parts: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    append: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_chunk: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Event<'a> {
    Status {
        id: Text<'a>,
        status: TaskStatus<'a>,
        r#final: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Json<'a>>,
    },
    Artifact {
        id: Text<'a>,
        artifact: Artifact<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Json<'a>>,
    },
}

/// The places of artifacts, which an agent of a later generation names: the order in which a stream first tells of them, as
/// it is that of its task.
#[derive(Debug, Default)]
pub struct Indices(Vec<Box<str>>);

impl Indices {
    /// Most artifacts of one stream that are told apart. Agents make a few.
    pub const MOST: usize = 1024;

    pub(super) fn of(&mut self, artifact: &str) -> Result<usize, Error> {
        if let Some(at) = self.0.iter().position(|known| **known == *artifact) {
            return Ok(at);
        }
        if self.0.len() == Self::MOST {
            return Err(Error::Malformed);
        }
        self.0.push(Box::from(artifact));
        Ok(self.0.len() - 1)
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
    pub(super) fn of(event: model::Event<'a>, told: Told<'a>, indices: &mut Indices) -> Result<Vec<Self>, Error> {
        let task = match event {
            model::Event::StatusUpdate(update) => return Ok(vec![Self::status(update.status, update.metadata, told)?]),
            model::Event::ArtifactUpdate(update) => {
                let index = indices.of(update.artifact.artifact_id.as_str())?;
                let artifact = Artifact {
                    append: Some(update.append),
                    last_chunk: Some(update.last_chunk),
                    ..Artifact::of(update.artifact, index)?
                };
                return Ok(vec![Self::artifact(artifact, update.metadata, told)]);
            }
            model::Event::Message(message) => answered(message),
            model::Event::Task(task) => task,
        };
        let mut events = Vec::with_capacity(task.artifacts.len() + 1);
        for artifact in task.artifacts {
            let index = indices.of(artifact.artifact_id.as_str())?;
            events.push(Self::artifact(Artifact::of(artifact, index)?, None, told));
        }
        events.push(Self::status(task.status, task.metadata, told)?);
        Ok(events)
    }

    fn status(status: model::TaskStatus<'a>, metadata: Option<Json<'a>>, told: Told<'a>) -> Result<Self, Error> {
        Ok(Self::Status {
            id: Text::from(told.task),
            r#final: ends_a_stream(status.state),
            status: status.try_into()?,
            metadata,
        })
    }

    fn artifact(artifact: Artifact<'a>, metadata: Option<Json<'a>>, told: Told<'a>) -> Self {
        Self::Artifact {
            id: Text::from(told.task),
            artifact,
            metadata,
        }
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
