//! The messages of `lf.a2a.v1` (A2A 1.0), which turn into the canonical model and back without loss but for free-form numbers.

mod message;
mod push;
mod task;

use prost::Message as _;

use self::message::Message;
use self::push::{PushConfig, PushPage};
use self::task::{SendMessageResponse, StreamResponse, Task, TaskPage};
use super::Error;
use super::card;
use super::convert::{fields, metadata, nonzero, state, string, strings, texts, time_text};
use super::value::{Struct, Timestamp};
use crate::a2a::model::wire::Text;
use crate::a2a::model::{self, Request, Response};
use crate::a2a::{Generation, Operation};

#[derive(Clone, PartialEq, prost::Message)]
struct SendMessageRequest {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(message, optional, tag = "2")]
    message: Option<Message>,
    #[prost(message, optional, tag = "3")]
    configuration: Option<Configuration>,
    #[prost(message, optional, tag = "4")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Configuration {
    #[prost(string, repeated, tag = "1")]
    accepted_output_modes: Vec<String>,
    #[prost(message, optional, tag = "2")]
    task_push_notification_config: Option<PushConfig>,
    #[prost(int32, optional, tag = "3")]
    history_length: Option<i32>,
    #[prost(bool, tag = "4")]
    return_immediately: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GetTaskRequest {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(int32, optional, tag = "3")]
    history_length: Option<i32>,
}

/// `CancelTaskRequest`; `SubscribeToTaskRequest` has no metadata.
#[derive(Clone, PartialEq, prost::Message)]
struct TaskRequest {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(message, optional, tag = "3")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ListTasksRequest {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(int32, tag = "3")]
    status: i32,
    #[prost(int32, optional, tag = "4")]
    page_size: Option<i32>,
    #[prost(string, tag = "5")]
    page_token: String,
    #[prost(int32, optional, tag = "6")]
    history_length: Option<i32>,
    #[prost(message, optional, tag = "7")]
    status_timestamp_after: Option<Timestamp>,
    #[prost(bool, optional, tag = "8")]
    include_artifacts: Option<bool>,
}

/// Of getting and deleting a push configuration.
#[derive(Clone, PartialEq, prost::Message)]
struct PushName {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    task_id: String,
    #[prost(string, tag = "3")]
    id: String,
}

/// Alone among the requests it has its tenant last.
#[derive(Clone, PartialEq, prost::Message)]
struct PushListRequest {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(int32, tag = "2")]
    page_size: i32,
    #[prost(string, tag = "3")]
    page_token: String,
    #[prost(string, tag = "4")]
    tenant: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ExtendedCardRequest {
    #[prost(string, tag = "1")]
    tenant: String,
}

pub(super) fn read_request(operation: Operation, message: &[u8]) -> Result<Request<'static>, Error> {
    let named = |name: PushName| model::PushName {
        tenant: Text::from(name.tenant),
        task_id: Text::from(name.task_id),
        id: Text::from(name.id),
    };
    Ok(match operation {
        Operation::Send => Request::Send(SendMessageRequest::decode(message)?.try_into()?),
        Operation::Stream => Request::Stream(SendMessageRequest::decode(message)?.try_into()?),
        Operation::Get => {
            let request = GetTaskRequest::decode(message)?;
            Request::Get(model::GetTaskRequest {
                tenant: Text::from(request.tenant),
                id: Text::from(request.id),
                history_length: request.history_length,
            })
        }
        Operation::List => Request::List(ListTasksRequest::decode(message)?.into()),
        Operation::Cancel => Request::Cancel(TaskRequest::decode(message)?.try_into()?),
        Operation::Subscribe => Request::Subscribe(model::TaskRequest {
            metadata: None,
            ..TaskRequest::decode(message)?.try_into()?
        }),
        Operation::PushCreate => Request::PushCreate(PushConfig::decode(message)?.into()),
        Operation::PushGet => Request::PushGet(named(PushName::decode(message)?)),
        Operation::PushDelete => Request::PushDelete(named(PushName::decode(message)?)),
        Operation::PushList => {
            let request = PushListRequest::decode(message)?;
            Request::PushList(model::PushListRequest {
                tenant: Text::from(request.tenant),
                task_id: Text::from(request.task_id),
                page_size: nonzero(request.page_size),
                page_token: Text::from(request.page_token),
            })
        }
        Operation::ExtendedCard => Request::ExtendedCard {
            tenant: Text::from(ExtendedCardRequest::decode(message)?.tenant),
        },
    })
}

pub(super) fn write_request(request: Request<'_>) -> Result<Vec<u8>, Error> {
    Ok(match request {
        Request::Send(request) | Request::Stream(request) => SendMessageRequest::try_from(request)?.encode_to_vec(),
        Request::Get(request) => GetTaskRequest {
            tenant: string(request.tenant),
            id: string(request.id),
            history_length: request.history_length,
        }
        .encode_to_vec(),
        Request::List(request) => ListTasksRequest::try_from(request)?.encode_to_vec(),
        Request::Cancel(request) => TaskRequest::try_from(request)?.encode_to_vec(),
        Request::Subscribe(mut request) => {
            request.metadata = None;
            TaskRequest::try_from(request)?.encode_to_vec()
        }
        Request::PushCreate(config) => PushConfig::from(config).encode_to_vec(),
        Request::PushGet(name) | Request::PushDelete(name) => PushName {
            tenant: string(name.tenant),
            task_id: string(name.task_id),
            id: string(name.id),
        }
        .encode_to_vec(),
        Request::PushList(request) => PushListRequest {
            task_id: string(request.task_id),
            page_size: request.page_size.unwrap_or_default(),
            page_token: string(request.page_token),
            tenant: string(request.tenant),
        }
        .encode_to_vec(),
        Request::ExtendedCard { tenant } => ExtendedCardRequest { tenant: string(tenant) }.encode_to_vec(),
    })
}

pub(super) fn read_response(operation: Operation, message: &[u8]) -> Result<Response<'static>, Error> {
    Ok(match operation {
        Operation::Send => Response::Event(SendMessageResponse::decode(message)?.try_into()?),
        Operation::Stream | Operation::Subscribe => Response::Event(StreamResponse::decode(message)?.try_into()?),
        Operation::Get | Operation::Cancel => Response::Task(Task::decode(message)?.try_into()?),
        Operation::List => Response::Tasks(TaskPage::decode(message)?.try_into()?),
        Operation::PushCreate | Operation::PushGet => Response::Push(PushConfig::decode(message)?.into()),
        Operation::PushList => Response::Pushes(PushPage::decode(message)?.into()),
        Operation::PushDelete => {
            <()>::decode(message)?;
            Response::Nothing
        }
        Operation::ExtendedCard => Response::Card(card::read(Generation::V1_0, message)?),
    })
}

pub(super) fn write_response(operation: Operation, response: Response<'_>) -> Result<Vec<u8>, Error> {
    Ok(match response {
        Response::Event(event) if operation == Operation::Send => SendMessageResponse::try_from(event)?.encode_to_vec(),
        Response::Event(event) => StreamResponse::try_from(event)?.encode_to_vec(),
        Response::Task(task) => Task::try_from(task)?.encode_to_vec(),
        Response::Tasks(page) => TaskPage::try_from(page)?.encode_to_vec(),
        Response::Push(config) => PushConfig::from(config).encode_to_vec(),
        Response::Pushes(page) => PushPage::from(page).encode_to_vec(),
        Response::Nothing => Vec::new(),
        Response::Card(card) => card::write(Generation::V1_0, &card)?,
    })
}

impl TryFrom<SendMessageRequest> for model::SendMessageRequest<'static> {
    type Error = Error;

    fn try_from(request: SendMessageRequest) -> Result<Self, Error> {
        Ok(Self {
            tenant: Text::from(request.tenant),
            message: request.message.ok_or(Error::Malformed)?.try_into()?,
            configuration: request.configuration.map(Into::into),
            metadata: metadata(request.metadata)?,
        })
    }
}

impl TryFrom<model::SendMessageRequest<'_>> for SendMessageRequest {
    type Error = Error;

    fn try_from(request: model::SendMessageRequest<'_>) -> Result<Self, Error> {
        Ok(Self {
            tenant: string(request.tenant),
            message: Some(request.message.try_into()?),
            configuration: request.configuration.map(Into::into),
            metadata: fields(request.metadata)?,
        })
    }
}

impl From<Configuration> for model::Configuration<'static> {
    fn from(configuration: Configuration) -> Self {
        Self {
            accepted_output_modes: texts(configuration.accepted_output_modes),
            task_push_notification_config: configuration.task_push_notification_config.map(Into::into),
            history_length: configuration.history_length,
            return_immediately: configuration.return_immediately,
        }
    }
}

impl From<model::Configuration<'_>> for Configuration {
    fn from(configuration: model::Configuration<'_>) -> Self {
        Self {
            accepted_output_modes: strings(configuration.accepted_output_modes),
            task_push_notification_config: configuration.task_push_notification_config.map(Into::into),
            history_length: configuration.history_length,
            return_immediately: configuration.return_immediately,
        }
    }
}

impl TryFrom<TaskRequest> for model::TaskRequest<'static> {
    type Error = Error;

    fn try_from(request: TaskRequest) -> Result<Self, Error> {
        Ok(Self {
            tenant: Text::from(request.tenant),
            id: Text::from(request.id),
            metadata: metadata(request.metadata)?,
        })
    }
}

impl TryFrom<model::TaskRequest<'_>> for TaskRequest {
    type Error = Error;

    fn try_from(request: model::TaskRequest<'_>) -> Result<Self, Error> {
        Ok(Self {
            tenant: string(request.tenant),
            id: string(request.id),
            metadata: fields(request.metadata)?,
        })
    }
}

impl From<ListTasksRequest> for model::ListTasksRequest<'static> {
    fn from(request: ListTasksRequest) -> Self {
        Self {
            tenant: Text::from(request.tenant),
            context_id: Text::from(request.context_id),
            status: state(request.status),
            page_size: request.page_size,
            page_token: Text::from(request.page_token),
            history_length: request.history_length,
            status_timestamp_after: time_text(request.status_timestamp_after),
            include_artifacts: request.include_artifacts,
        }
    }
}

impl TryFrom<model::ListTasksRequest<'_>> for ListTasksRequest {
    type Error = Error;

    fn try_from(request: model::ListTasksRequest<'_>) -> Result<Self, Error> {
        let after = request.status_timestamp_after.as_str();
        Ok(Self {
            tenant: string(request.tenant),
            context_id: string(request.context_id),
            status: request.status.number(),
            page_size: request.page_size,
            page_token: string(request.page_token),
            history_length: request.history_length,
            // Without it, tasks would be listed that were not asked for.
            status_timestamp_after: match after {
                "" => None,
                after => Some(Timestamp::read(after).ok_or(Error::Malformed)?),
            },
            include_artifacts: request.include_artifacts,
        })
    }
}
