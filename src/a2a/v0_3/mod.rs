//! A2A 0.3 as its JSON-RPC binding writes it (and 0.2, which has the same members): types that turn into the canonical
//! model and back. The form of its HTTP+JSON binding is another one (`rest`).
//!
//! Reading is as tolerant as the official servers' clients: `kind` may be missing where the members tell what it is.
//! What a turn into the other generation cannot carry stands in `LOSSES.md`.

mod message;
mod push;
pub(super) mod rest;
mod task;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::message::Message;
pub(super) use self::message::{standard, unwrap, wrap};
use self::push::{PushConfig, TaskPushConfig};
use self::task::{Event, Task};
pub(super) use self::task::{ends_a_stream, utc};
use super::Operation;
use super::model::wire::{Json, Text, or_default, whole};
use super::model::{self, Error, Request, Response};

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SendParams<'a> {
    message: Message<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<Configuration<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// `MessageSendConfiguration` (A2A 0.3 §7.1.1).
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Configuration<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "accepted_output_modes")]
    accepted_output_modes: Vec<Text<'a>>,
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    #[serde(alias = "history_length")]
    history_length: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "push_notification_config")]
    push_notification_config: Option<PushConfig<'a>>,
    /// Absent: the agent decides, and all known ones block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocking: Option<bool>,
}

/// `TaskQueryParams`, and `TaskIdParams` without the history.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct TaskParams<'a> {
    id: Text<'a>,
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    #[serde(alias = "history_length")]
    history_length: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// Of `tasks/pushNotificationConfig/get`, `list` and `delete`: here `id` is the task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct PushParams<'a> {
    id: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    #[serde(alias = "push_notification_config_id")]
    push_notification_config_id: Text<'a>,
}

/// Reads `params`.
pub fn read_request<'a>(operation: Operation, params: Option<&'a RawValue>) -> Result<Request<'a>, Error> {
    let params = params.map_or("{}", RawValue::get);
    let task = |params: TaskParams<'a>| model::TaskRequest {
        id: params.id,
        metadata: params.metadata,
        ..model::TaskRequest::default()
    };
    Ok(match operation {
        Operation::Send => Request::Send(serde_json::from_str::<SendParams<'a>>(params)?.try_into()?),
        Operation::Stream => Request::Stream(serde_json::from_str::<SendParams<'a>>(params)?.try_into()?),
        Operation::Get => {
            let params: TaskParams<'a> = serde_json::from_str(params)?;
            Request::Get(model::GetTaskRequest {
                tenant: Text::default(),
                id: params.id,
                history_length: params.history_length,
            })
        }
        Operation::Cancel => Request::Cancel(task(serde_json::from_str(params)?)),
        Operation::Subscribe => Request::Subscribe(model::TaskRequest {
            metadata: None,
            ..task(serde_json::from_str(params)?)
        }),
        Operation::PushCreate => Request::PushCreate(serde_json::from_str::<TaskPushConfig<'a>>(params)?.into()),
        Operation::PushGet => Request::PushGet(serde_json::from_str::<PushParams<'a>>(params)?.into()),
        Operation::PushDelete => Request::PushDelete(serde_json::from_str::<PushParams<'a>>(params)?.into()),
        Operation::PushList => {
            let params: PushParams<'a> = serde_json::from_str(params)?;
            Request::PushList(model::PushListRequest {
                task_id: params.id,
                ..model::PushListRequest::default()
            })
        }
        Operation::ExtendedCard => Request::ExtendedCard {
            tenant: Text::default(),
        },
        Operation::List => return Err(Error::Unsupported),
    })
}

/// Writes `params`; nothing for a call that has none.
pub fn write_request(request: Request<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let task = |id, history_length, metadata| TaskParams {
        id,
        history_length,
        metadata,
    };
    match request {
        Request::Send(request) | Request::Stream(request) => {
            serde_json::to_writer(out, &SendParams::try_from(request)?)?;
        }
        Request::Get(request) => serde_json::to_writer(out, &task(request.id, request.history_length, None))?,
        Request::Cancel(request) => serde_json::to_writer(out, &task(request.id, None, request.metadata))?,
        Request::Subscribe(request) => serde_json::to_writer(out, &task(request.id, None, None))?,
        Request::PushCreate(config) => serde_json::to_writer(out, &TaskPushConfig::from(config))?,
        Request::PushGet(name) | Request::PushDelete(name) => serde_json::to_writer(out, &PushParams::from(name))?,
        Request::PushList(request) => {
            // 0.3 has no pages, so nobody was given a token.
            if !request.page_token.is_empty() {
                return Err(Error::Malformed);
            }
            let params = PushParams {
                id: request.task_id,
                push_notification_config_id: Text::default(),
            };
            serde_json::to_writer(out, &params)?;
        }
        Request::ExtendedCard { .. } => {}
        Request::List(_) => return Err(Error::Unsupported),
    }
    Ok(())
}

/// Reads `result`.
pub fn read_response<'a>(operation: Operation, result: Option<&'a RawValue>) -> Result<Response<'a>, Error> {
    let result = result.filter(|result| result.get() != "null");
    if operation == Operation::PushDelete {
        return Ok(Response::Nothing);
    }
    let text = result.ok_or(Error::Malformed)?.get();
    Ok(match operation {
        Operation::Send | Operation::Stream | Operation::Subscribe => {
            Response::Event(serde_json::from_str::<Event<'a>>(text)?.try_into()?)
        }
        Operation::Get | Operation::Cancel => Response::Task(serde_json::from_str::<Task<'a>>(text)?.try_into()?),
        Operation::PushCreate | Operation::PushGet => {
            Response::Push(serde_json::from_str::<TaskPushConfig<'a>>(text)?.into())
        }
        Operation::PushList => {
            let configs: Vec<TaskPushConfig<'a>> = serde_json::from_str(text)?;
            Response::Pushes(model::PushPage {
                configs: configs.into_iter().map(Into::into).collect(),
                next_page_token: Text::default(),
            })
        }
        Operation::ExtendedCard => Response::Card(serde_json::from_str(text)?),
        Operation::PushDelete => Response::Nothing,
        Operation::List => return Err(Error::Unsupported),
    })
}

/// Writes `result`.
pub fn write_response(response: Response<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match response {
        Response::Event(event) => serde_json::to_writer(out, &Event::try_from(event)?)?,
        Response::Task(task) => serde_json::to_writer(out, &Task::try_from(task)?)?,
        Response::Push(config) => serde_json::to_writer(out, &TaskPushConfig::from(config))?,
        Response::Pushes(page) => {
            let configs: Vec<_> = page.configs.into_iter().map(TaskPushConfig::from).collect();
            serde_json::to_writer(out, &configs)?;
        }
        Response::Nothing => out.extend_from_slice(b"null"),
        Response::Tasks(_) => return Err(Error::Unsupported),
        Response::Card(card) => out.extend_from_slice(card.get().as_bytes()),
    }
    Ok(())
}

impl<'a> TryFrom<SendParams<'a>> for model::SendMessageRequest<'a> {
    type Error = Error;

    fn try_from(params: SendParams<'a>) -> Result<Self, Error> {
        Ok(Self {
            tenant: Text::default(),
            message: params.message.try_into()?,
            configuration: params.configuration.map(Into::into),
            metadata: params.metadata,
        })
    }
}

impl<'a> TryFrom<model::SendMessageRequest<'a>> for SendParams<'a> {
    type Error = Error;

    fn try_from(request: model::SendMessageRequest<'a>) -> Result<Self, Error> {
        if request.message.role == model::Role::Unspecified {
            return Err(Error::Malformed);
        }
        Ok(Self {
            message: request.message.try_into()?,
            configuration: request.configuration.map(Into::into),
            metadata: request.metadata,
        })
    }
}

impl<'a> From<Configuration<'a>> for model::Configuration<'a> {
    fn from(configuration: Configuration<'a>) -> Self {
        Self {
            accepted_output_modes: configuration.accepted_output_modes,
            task_push_notification_config: configuration.push_notification_config.map(Into::into),
            history_length: configuration.history_length,
            return_immediately: configuration.blocking == Some(false),
        }
    }
}

impl<'a> From<model::Configuration<'a>> for Configuration<'a> {
    fn from(configuration: model::Configuration<'a>) -> Self {
        Self {
            accepted_output_modes: configuration.accepted_output_modes,
            history_length: configuration.history_length,
            push_notification_config: configuration.task_push_notification_config.map(Into::into),
            // Said in either case: to some agents a configuration that says nothing does not block.
            blocking: Some(!configuration.return_immediately),
        }
    }
}

impl<'a> From<PushParams<'a>> for model::PushName<'a> {
    fn from(params: PushParams<'a>) -> Self {
        // A configuration without an id of its own has that of its task, in the official servers of both generations.
        let id = Some(params.push_notification_config_id).filter(|id| !id.is_empty());
        Self {
            tenant: Text::default(),
            id: id.unwrap_or_else(|| params.id.clone()),
            task_id: params.id,
        }
    }
}

impl<'a> From<model::PushName<'a>> for PushParams<'a> {
    fn from(name: model::PushName<'a>) -> Self {
        Self {
            id: name.task_id,
            push_notification_config_id: name.id,
        }
    }
}
