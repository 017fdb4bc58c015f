//! A2A 0.3 as its HTTP+JSON binding writes it: ProtoJSON of the protobuf of 0.3, which looks like neither its JSON-RPC
//! bodies nor like 1.0. Types that turn into the canonical model and back.
//!
//! Names are read in camelCase and in snake_case, as ProtoJSON readers do. Only members that the protobuf has are written:
//! agents in Python refuse a body with any other. What is left out for that stands in `LOSSES.md`.

mod message;
mod name;
mod push;
mod task;

use serde::{Deserialize, Serialize};

use self::message::Message;
pub(in crate::a2a) use self::name::ResourceName;
use self::push::{ConfigPage, CreateConfig, TaskPushConfig};
use self::task::{Event, Task};
use super::push::PushConfig;
use super::{Error, Operation};
use crate::a2a::model::wire::{Json, Text, is_false, or_default, whole};
use crate::a2a::model::{self, Response};

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SendRequest<'a> {
    /// `request` in the protobuf, with the JSON name `message`.
    #[serde(alias = "request")]
    message: Message<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<Configuration<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// `SendMessageConfiguration`.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Configuration<'a> {
    #[serde(
        default,
        alias = "accepted_output_modes",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    accepted_output_modes: Vec<Text<'a>>,
    #[serde(default, alias = "push_notification", skip_serializing_if = "Option::is_none")]
    push_notification: Option<PushConfig<'a>>,
    /// Zero is as good as unset.
    #[serde(
        default,
        alias = "history_length",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    history_length: Option<i32>,
    /// Unset is false here, other than in JSON-RPC.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    blocking: bool,
}

#[derive(Serialize)]
struct CancelRequest {
    name: String,
}

/// Reads the body of a send.
pub(in crate::a2a) fn read_send(body: &[u8]) -> Result<model::SendMessageRequest<'_>, Error> {
    let request: SendRequest<'_> = serde_json::from_slice(body)?;
    let message: model::Message<'_> = request.message.try_into()?;
    // So reads a body of JSON-RPC or of 1.0, of whose parts nothing would be left.
    if message.role == model::Role::Unspecified || message.parts.is_empty() {
        return Err(Error::Malformed);
    }
    Ok(model::SendMessageRequest {
        tenant: Text::default(),
        message,
        configuration: configuration(request.configuration.unwrap_or_default()),
        metadata: request.metadata,
    })
}

fn configuration(configuration: Configuration<'_>) -> Option<model::Configuration<'_>> {
    let configuration = model::Configuration {
        accepted_output_modes: configuration.accepted_output_modes,
        task_push_notification_config: configuration.push_notification.map(Into::into),
        history_length: configuration.history_length.filter(|length| *length != 0),
        return_immediately: !configuration.blocking,
    };
    Some(configuration).filter(|configuration| *configuration != model::Configuration::default())
}

/// Writes the body of a send.
pub(in crate::a2a) fn write_send(request: model::SendMessageRequest<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    if request.message.role == model::Role::Unspecified {
        return Err(Error::Malformed);
    }
    let configuration = request.configuration.unwrap_or_default();
    let request = SendRequest {
        message: request.message.try_into()?,
        configuration: Some(Configuration {
            accepted_output_modes: configuration.accepted_output_modes,
            push_notification: configuration.task_push_notification_config.map(Into::into),
            history_length: configuration.history_length.filter(|length| *length != 0),
            blocking: !configuration.return_immediately,
        }),
        metadata: request.metadata,
    };
    Ok(serde_json::to_writer(out, &request)?)
}

/// Writes the body of a cancel. An id with a slash has no name that every agent would read as its own.
pub(in crate::a2a) fn write_cancel(task: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    if task.contains('/') {
        return Err(Error::Malformed);
    }
    let name = name::of_task(task);
    Ok(serde_json::to_writer(out, &CancelRequest { name })?)
}

/// Reads the body that creates a push configuration; the path says of which task.
pub(in crate::a2a) fn read_config(body: &[u8]) -> Result<model::PushConfig<'_>, Error> {
    serde_json::from_slice::<CreateConfig<'_>>(body)?.try_into()
}

/// Writes the body that creates a push configuration. Agents in Python take the task from it, up to the next slash.
pub(in crate::a2a) fn write_config(config: model::PushConfig<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    if config.task_id.as_str().contains('/') || config.id.as_str().contains('/') {
        return Err(Error::Malformed);
    }
    Ok(serde_json::to_writer(out, &CreateConfig::from(config))?)
}

/// Reads the body of an answer that is no error, or the data of an event.
pub(in crate::a2a) fn read_response(operation: Operation, body: &str) -> Result<Response<'_>, Error> {
    Ok(match operation {
        Operation::Send | Operation::Stream | Operation::Subscribe => {
            Response::Event(serde_json::from_str::<Event<'_>>(body)?.try_into()?)
        }
        Operation::Get | Operation::Cancel => Response::Task(serde_json::from_str::<Task<'_>>(body)?.try_into()?),
        Operation::PushCreate | Operation::PushGet => {
            Response::Push(serde_json::from_str::<TaskPushConfig<'_>>(body)?.into())
        }
        Operation::PushList => Response::Pushes(serde_json::from_str::<ConfigPage<'_>>(body)?.into()),
        Operation::PushDelete => Response::Nothing,
        Operation::ExtendedCard => Response::Card(serde_json::from_str(body)?),
        Operation::List => return Err(Error::Unsupported),
    })
}

/// Writes the body of an answer, or the data of an event.
pub(in crate::a2a) fn write_response(response: Response<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match response {
        Response::Event(event) => serde_json::to_writer(out, &Event::try_from(event)?)?,
        Response::Task(task) => serde_json::to_writer(out, &Task::try_from(task)?)?,
        Response::Push(config) => serde_json::to_writer(out, &TaskPushConfig::from(config))?,
        Response::Pushes(page) => serde_json::to_writer(out, &ConfigPage::from(page))?,
        Response::Nothing => out.extend_from_slice(b"{}"),
        Response::Tasks(_) => return Err(Error::Unsupported),
        Response::Card(card) => out.extend_from_slice(card.get().as_bytes()),
    }
    Ok(())
}
