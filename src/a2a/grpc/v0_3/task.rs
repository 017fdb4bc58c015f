//! Tasks, artifacts and the events of a stream (A2A 0.3 §6, §7.2, `a2a.v1`).

use super::message::{Message, Part};
use crate::a2a::grpc::Error;
use crate::a2a::grpc::convert::{all, fields, maybe, metadata, state, string, strings, texts, time, time_text};
use crate::a2a::grpc::value::{Struct, Timestamp};
use crate::a2a::model;
use crate::a2a::model::wire::Text;
use crate::a2a::v0_3::ends_a_stream;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Task {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(message, optional, tag = "3")]
    status: Option<TaskStatus>,
    #[prost(message, repeated, tag = "4")]
    artifacts: Vec<Artifact>,
    #[prost(message, repeated, tag = "5")]
    history: Vec<Message>,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TaskStatus {
    #[prost(int32, tag = "1")]
    state: i32,
    #[prost(message, optional, tag = "2")]
    update: Option<Message>,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Artifact {
    #[prost(string, tag = "1")]
    artifact_id: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(message, repeated, tag = "5")]
    parts: Vec<Part>,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
    #[prost(string, repeated, tag = "7")]
    extensions: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StatusUpdate {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(message, optional, tag = "3")]
    status: Option<TaskStatus>,
    #[prost(bool, tag = "4")]
    r#final: bool,
    #[prost(message, optional, tag = "5")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ArtifactUpdate {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(message, optional, tag = "3")]
    artifact: Option<Artifact>,
    #[prost(bool, tag = "4")]
    append: bool,
    #[prost(bool, tag = "5")]
    last_chunk: bool,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StreamResponse {
    #[prost(oneof = "Payload", tags = "1, 2, 3, 4")]
    payload: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Payload {
    #[prost(message, tag = "1")]
    Task(Task),
    #[prost(message, tag = "2")]
    Message(Message),
    #[prost(message, tag = "3")]
    StatusUpdate(StatusUpdate),
    #[prost(message, tag = "4")]
    ArtifactUpdate(ArtifactUpdate),
}

/// To whose readers the updates of a stream are unknown fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SendMessageResponse {
    #[prost(oneof = "Answer", tags = "1, 2")]
    payload: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Answer {
    #[prost(message, tag = "1")]
    Task(Task),
    #[prost(message, tag = "2")]
    Message(Message),
}

impl TryFrom<SendMessageResponse> for model::Event<'static> {
    type Error = Error;

    fn try_from(response: SendMessageResponse) -> Result<Self, Error> {
        Ok(match response.payload.ok_or(Error::Malformed)? {
            Answer::Task(task) => Self::Task(task.try_into()?),
            Answer::Message(message) => Self::Message(message.try_into()?),
        })
    }
}

impl TryFrom<model::Event<'_>> for SendMessageResponse {
    type Error = Error;

    fn try_from(event: model::Event<'_>) -> Result<Self, Error> {
        let payload = match event {
            model::Event::Task(task) => Answer::Task(task.try_into()?),
            model::Event::Message(message) => Answer::Message(message.try_into()?),
            model::Event::StatusUpdate(_) | model::Event::ArtifactUpdate(_) => return Err(Error::Malformed),
        };
        Ok(Self { payload: Some(payload) })
    }
}

impl TryFrom<StreamResponse> for model::Event<'static> {
    type Error = Error;

    fn try_from(event: StreamResponse) -> Result<Self, Error> {
        Ok(match event.payload.ok_or(Error::Malformed)? {
            Payload::Task(task) => Self::Task(task.try_into()?),
            Payload::Message(message) => Self::Message(message.try_into()?),
            Payload::StatusUpdate(update) => Self::StatusUpdate(model::StatusUpdate {
                task_id: Text::from(update.task_id),
                context_id: Text::from(update.context_id),
                status: maybe(update.status)?.unwrap_or_default(),
                metadata: metadata(update.metadata)?,
            }),
            Payload::ArtifactUpdate(update) => Self::ArtifactUpdate(model::ArtifactUpdate {
                task_id: Text::from(update.task_id),
                context_id: Text::from(update.context_id),
                artifact: maybe(update.artifact)?.unwrap_or_default(),
                append: update.append,
                last_chunk: update.last_chunk,
                metadata: metadata(update.metadata)?,
            }),
        })
    }
}

impl TryFrom<model::Event<'_>> for StreamResponse {
    type Error = Error;

    fn try_from(event: model::Event<'_>) -> Result<Self, Error> {
        let payload = match event {
            model::Event::Task(task) => Payload::Task(task.try_into()?),
            model::Event::Message(message) => Payload::Message(message.try_into()?),
            model::Event::StatusUpdate(update) => Payload::StatusUpdate(StatusUpdate {
                task_id: string(update.task_id),
                context_id: string(update.context_id),
                r#final: ends_a_stream(update.status.state),
                status: Some(update.status.try_into()?),
                metadata: fields(update.metadata)?,
            }),
            model::Event::ArtifactUpdate(update) => Payload::ArtifactUpdate(ArtifactUpdate {
                task_id: string(update.task_id),
                context_id: string(update.context_id),
                artifact: Some(update.artifact.try_into()?),
                append: update.append,
                last_chunk: update.last_chunk,
                metadata: fields(update.metadata)?,
            }),
        };
        Ok(Self { payload: Some(payload) })
    }
}

impl TryFrom<Task> for model::Task<'static> {
    type Error = Error;

    fn try_from(task: Task) -> Result<Self, Error> {
        Ok(Self {
            id: Text::from(task.id),
            context_id: Text::from(task.context_id),
            status: maybe(task.status)?.unwrap_or_default(),
            artifacts: all(task.artifacts)?,
            history: all(task.history)?,
            metadata: metadata(task.metadata)?,
        })
    }
}

impl TryFrom<model::Task<'_>> for Task {
    type Error = Error;

    fn try_from(task: model::Task<'_>) -> Result<Self, Error> {
        Ok(Self {
            id: string(task.id),
            context_id: string(task.context_id),
            status: Some(task.status.try_into()?),
            artifacts: all(task.artifacts)?,
            history: all(task.history)?,
            metadata: fields(task.metadata)?,
        })
    }
}

impl TryFrom<TaskStatus> for model::TaskStatus<'static> {
    type Error = Error;

    fn try_from(status: TaskStatus) -> Result<Self, Error> {
        Ok(Self {
            state: state(status.state),
            message: maybe(status.update)?,
            timestamp: time_text(status.timestamp),
        })
    }
}

impl TryFrom<model::TaskStatus<'_>> for TaskStatus {
    type Error = Error;

    fn try_from(status: model::TaskStatus<'_>) -> Result<Self, Error> {
        Ok(Self {
            state: status.state.number(),
            update: maybe(status.message)?,
            timestamp: time(&status.timestamp),
        })
    }
}

impl TryFrom<Artifact> for model::Artifact<'static> {
    type Error = Error;

    fn try_from(artifact: Artifact) -> Result<Self, Error> {
        Ok(Self {
            artifact_id: Text::from(artifact.artifact_id),
            name: Text::from(artifact.name),
            description: Text::from(artifact.description),
            parts: all(artifact.parts)?,
            metadata: metadata(artifact.metadata)?,
            extensions: texts(artifact.extensions),
        })
    }
}

impl TryFrom<model::Artifact<'_>> for Artifact {
    type Error = Error;

    fn try_from(artifact: model::Artifact<'_>) -> Result<Self, Error> {
        Ok(Self {
            artifact_id: string(artifact.artifact_id),
            name: string(artifact.name),
            description: string(artifact.description),
            parts: all(artifact.parts)?,
            metadata: fields(artifact.metadata)?,
            extensions: strings(artifact.extensions),
        })
    }
}
