//! The messages of `a2a.v1` (A2A 0.3, and 0.2 from 0.2.2), which turn into the canonical model and back.
//!
//! Tasks stand in resource names (`name`). Where 1.0 tells unset from zero, this cannot; what else is lost stands in `LOSSES.md`.

mod message;
mod push;
mod task;

use prost::Message as _;

use self::message::Message;
use self::push::{CreateRequest, PushConfig, PushPage, TaskPushConfig};
use self::task::{SendMessageResponse, StreamResponse, Task};
use super::Error;
use super::card;
use super::convert::{fields, metadata, nonzero, string, strings, texts};
use super::name;
use super::value::Struct;
use crate::a2a::model::wire::Text;
use crate::a2a::model::{self, Request, Response};
use crate::a2a::{Generation, Operation};

#[derive(Clone, PartialEq, prost::Message)]
struct SendMessageRequest {
    /// `request` in the definition.
    #[prost(message, optional, tag = "1")]
    message: Option<Message>,
    #[prost(message, optional, tag = "2")]
    configuration: Option<Configuration>,
    #[prost(message, optional, tag = "3")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Configuration {
    #[prost(string, repeated, tag = "1")]
    accepted_output_modes: Vec<String>,
    #[prost(message, optional, tag = "2")]
    push_notification: Option<PushConfig>,
    #[prost(int32, tag = "3")]
    history_length: i32,
    /// Other than over JSON-RPC, unset does not block.
    #[prost(bool, tag = "4")]
    blocking: bool,
}

/// Of every request about a task or one of its push configurations.
#[derive(Clone, PartialEq, prost::Message)]
struct NameRequest {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GetTaskRequest {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "2")]
    history_length: i32,
}

/// `ListTaskPushNotificationConfigRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct PushListRequest {
    #[prost(string, tag = "1")]
    parent: String,
    #[prost(int32, tag = "2")]
    page_size: i32,
    #[prost(string, tag = "3")]
    page_token: String,
}

pub(super) fn read_request(operation: Operation, message: &[u8]) -> Result<Request<'static>, Error> {
    let task = |message| {
        let NameRequest { name } = NameRequest::decode(message)?;
        Ok::<_, Error>(model::TaskRequest {
            id: task_of(&name)?,
            ..model::TaskRequest::default()
        })
    };
    let config = |message| {
        let NameRequest { name } = NameRequest::decode(message)?;
        let task_id = task_of(&name)?;
        let id = name::config_of(&name).map(|id| Text::from(id.to_owned()));
        Ok::<_, Error>(model::PushName {
            tenant: Text::default(),
            // A configuration without an id of its own has that of its task.
            id: id.unwrap_or_else(|| task_id.clone()),
            task_id,
        })
    };
    Ok(match operation {
        Operation::Send => Request::Send(SendMessageRequest::decode(message)?.try_into()?),
        Operation::Stream => Request::Stream(SendMessageRequest::decode(message)?.try_into()?),
        Operation::Get => {
            let request = GetTaskRequest::decode(message)?;
            Request::Get(model::GetTaskRequest {
                tenant: Text::default(),
                id: task_of(&request.name)?,
                history_length: nonzero(request.history_length),
            })
        }
        Operation::Cancel => Request::Cancel(task(message)?),
        Operation::Subscribe => Request::Subscribe(task(message)?),
        Operation::PushCreate => Request::PushCreate(CreateRequest::decode(message)?.try_into()?),
        Operation::PushGet => Request::PushGet(config(message)?),
        Operation::PushDelete => Request::PushDelete(config(message)?),
        Operation::PushList => {
            let request = PushListRequest::decode(message)?;
            Request::PushList(model::PushListRequest {
                tenant: Text::default(),
                task_id: task_of(&request.parent)?,
                page_size: nonzero(request.page_size),
                page_token: Text::from(request.page_token),
            })
        }
        Operation::ExtendedCard => {
            <()>::decode(message)?;
            Request::ExtendedCard {
                tenant: Text::default(),
            }
        }
        Operation::List => return Err(Error::Unsupported),
    })
}

pub(super) fn write_request(request: Request<'_>) -> Result<Vec<u8>, Error> {
    let named = |name: Option<String>| {
        let name = name.ok_or(Error::Malformed)?;
        Ok::<_, Error>(NameRequest { name }.encode_to_vec())
    };
    Ok(match request {
        Request::Send(request) | Request::Stream(request) => SendMessageRequest::try_from(request)?.encode_to_vec(),
        Request::Get(request) => GetTaskRequest {
            name: name::of_task(request.id.as_str()).ok_or(Error::Malformed)?,
            history_length: request.history_length.unwrap_or_default(),
        }
        .encode_to_vec(),
        Request::Cancel(request) | Request::Subscribe(request) => named(name::of_task(request.id.as_str()))?,
        Request::PushCreate(config) => CreateRequest::try_from(config)?.encode_to_vec(),
        Request::PushGet(request) | Request::PushDelete(request) => {
            named(name::of_config(request.task_id.as_str(), request.id.as_str()))?
        }
        Request::PushList(request) => PushListRequest {
            parent: name::of_task(request.task_id.as_str()).ok_or(Error::Malformed)?,
            page_size: request.page_size.unwrap_or_default(),
            page_token: string(request.page_token),
        }
        .encode_to_vec(),
        Request::ExtendedCard { .. } => Vec::new(),
        Request::List(_) => return Err(Error::Unsupported),
    })
}

pub(super) fn read_response(operation: Operation, message: &[u8]) -> Result<Response<'static>, Error> {
    Ok(match operation {
        Operation::Send => Response::Event(SendMessageResponse::decode(message)?.try_into()?),
        Operation::Stream | Operation::Subscribe => Response::Event(StreamResponse::decode(message)?.try_into()?),
        Operation::Get | Operation::Cancel => Response::Task(Task::decode(message)?.try_into()?),
        Operation::PushCreate | Operation::PushGet => Response::Push(TaskPushConfig::decode(message)?.try_into()?),
        Operation::PushList => Response::Pushes(PushPage::decode(message)?.try_into()?),
        Operation::PushDelete => {
            <()>::decode(message)?;
            Response::Nothing
        }
        Operation::ExtendedCard => Response::Card(card::read(Generation::V0_3, message)?),
        Operation::List => return Err(Error::Unsupported),
    })
}

pub(super) fn write_response(operation: Operation, response: Response<'_>) -> Result<Vec<u8>, Error> {
    Ok(match response {
        Response::Event(event) if operation == Operation::Send => SendMessageResponse::try_from(event)?.encode_to_vec(),
        Response::Event(event) => StreamResponse::try_from(event)?.encode_to_vec(),
        Response::Task(task) => Task::try_from(task)?.encode_to_vec(),
        Response::Push(config) => TaskPushConfig::try_from(config)?.encode_to_vec(),
        Response::Pushes(page) => PushPage::try_from(page)?.encode_to_vec(),
        Response::Nothing => Vec::new(),
        Response::Card(card) => card::write(Generation::V0_3, &card)?,
        Response::Tasks(_) => return Err(Error::Unsupported),
    })
}

fn task_of(name: &str) -> Result<Text<'static>, Error> {
    let task = name::task_of(name).ok_or(Error::Malformed)?;
    Ok(Text::from(task.to_owned()))
}

impl TryFrom<SendMessageRequest> for model::SendMessageRequest<'static> {
    type Error = Error;

    fn try_from(request: SendMessageRequest) -> Result<Self, Error> {
        Ok(Self {
            tenant: Text::default(),
            message: request.message.ok_or(Error::Malformed)?.try_into()?,
            // One that is not there reads as an empty one, which does not block.
            configuration: Some(request.configuration.unwrap_or_default().into()),
            metadata: metadata(request.metadata)?,
        })
    }
}

impl TryFrom<model::SendMessageRequest<'_>> for SendMessageRequest {
    type Error = Error;

    fn try_from(request: model::SendMessageRequest<'_>) -> Result<Self, Error> {
        Ok(Self {
            message: Some(request.message.try_into()?),
            // One that is not there blocks in 1.0.
            configuration: Some(request.configuration.unwrap_or_default().into()),
            metadata: fields(request.metadata)?,
        })
    }
}

impl From<Configuration> for model::Configuration<'static> {
    fn from(configuration: Configuration) -> Self {
        Self {
            accepted_output_modes: texts(configuration.accepted_output_modes),
            task_push_notification_config: configuration.push_notification.map(Into::into),
            history_length: nonzero(configuration.history_length),
            return_immediately: !configuration.blocking,
        }
    }
}

impl From<model::Configuration<'_>> for Configuration {
    fn from(configuration: model::Configuration<'_>) -> Self {
        Self {
            accepted_output_modes: strings(configuration.accepted_output_modes),
            push_notification: configuration.task_push_notification_config.map(Into::into),
            history_length: configuration.history_length.unwrap_or_default(),
            blocking: !configuration.return_immediately,
        }
    }
}
