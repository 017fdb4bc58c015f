//! A2A 0.1, over JSON-RPC alone: requests of its callers that turn into the canonical model, and what of the model they are
//! answered; its agents stand in `agent`.
//!
//! In 0.1 clients name their tasks themselves, agents of later generations do that. Who keeps which name stands for which is
//! not decided here (`affinity::alias`): requests are read with the agent's name of a task, answers written with the
//! caller's. Both are given; ids within messages are left out, because 0.1 has none there. At an agent of 0.1 a task has one
//! name, which a caller of a later generation gets from the gateway.
//!
//! What 0.1 cannot carry stands in `LOSSES.md`.

mod agent;
mod message;
mod methods;
mod push;
mod task;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::agent::{Asked, later_code, read_response, write_request};
use self::message::Message;
pub use self::methods::{Methods, is_shared, method_name, only_0_1, respelled};
use self::push::{PushConfig, TaskPushConfig};
pub use self::task::Progress;
use self::task::{Event, Task};
use super::Operation;
use super::jsonrpc::code;
use super::model::wire::{Json, Text, or_default, whole};
use super::model::{self, Error, Request, Response};

/// What a caller of 0.1 does not say and an agent of a later generation wants to be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// The agent's own name of the task; empty where the agent has yet to make it.
    pub task: &'a str,
    /// For the message, which has no id in 0.1.
    pub message: &'a str,
}

/// What the caller calls the task that an answer is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told<'a> {
    pub task: &'a str,
    /// The `sessionId` with which it was begun; empty: that of the agent.
    pub session: &'a str,
}

/// What a call needs to be told in the words of its caller, and its caller in its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The caller's name of the task.
    pub task: Box<str>,
    /// The `sessionId` with which the caller began the task; empty where it named none.
    pub session: Box<str>,
    /// For the message of the call.
    pub message: Box<str>,
}

impl Named {
    pub fn told(&self) -> Told<'_> {
        Told {
            task: &self.task,
            session: &self.session,
        }
    }
}

/// `TaskSendParams`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct SendParams<'a> {
    #[serde(default, deserialize_with = "or_default")]
    id: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    session_id: Text<'a>,
    message: Message<'a>,
    /// Of the samples, not of the definition.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    accepted_output_modes: Vec<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    push_notification: Option<PushConfig<'a>>,
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    history_length: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// `TaskQueryParams` and `TaskIdParams`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct TaskParams<'a> {
    #[serde(default, deserialize_with = "or_default")]
    id: Text<'a>,
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    history_length: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// Reads `params`.
pub fn read_request<'a>(
    operation: Operation,
    params: Option<&'a RawValue>,
    names: Names<'a>,
) -> Result<Request<'a>, Error> {
    // A list would be read as the members in their order.
    let text = params.map(RawValue::get).filter(|text| text.starts_with('{'));
    let text = text.ok_or(Error::Malformed)?;
    let named = || match names.task {
        "" => Err(Error::Malformed),
        task => Ok(Text::from(task)),
    };
    let params = || Ok::<TaskParams<'a>, Error>(serde_json::from_str(text)?);
    Ok(match operation {
        Operation::Send => Request::Send(read_send(text, names)?),
        Operation::Stream => Request::Stream(read_send(text, names)?),
        Operation::Get => Request::Get(model::GetTaskRequest {
            tenant: Text::default(),
            id: named()?,
            history_length: params()?.history_length,
        }),
        Operation::Cancel => Request::Cancel(model::TaskRequest {
            tenant: Text::default(),
            id: named()?,
            metadata: params()?.metadata,
        }),
        Operation::Subscribe => Request::Subscribe(model::TaskRequest {
            id: named()?,
            ..model::TaskRequest::default()
        }),
        Operation::PushCreate => {
            let params: TaskPushConfig<'a> = serde_json::from_str(text)?;
            Request::PushCreate(params.into_model(named()?))
        }
        Operation::PushGet => Request::PushGet(model::PushName {
            tenant: Text::default(),
            task_id: named()?,
            id: Text::from(push::ONLY),
        }),
        Operation::PushList | Operation::PushDelete | Operation::ExtendedCard | Operation::List => {
            return Err(Error::Unsupported);
        }
    })
}

fn read_send<'a>(text: &'a str, names: Names<'a>) -> Result<model::SendMessageRequest<'a>, Error> {
    let params: SendParams<'a> = serde_json::from_str(text)?;
    let mut message: model::Message<'a> = params.message.try_into()?;
    message.message_id = Text::from(names.message);
    if names.task.is_empty() {
        message.context_id = params.session_id;
    } else {
        // The task says it, and its agent may have named the context otherwise.
        message.task_id = Text::from(names.task);
    }
    let configuration = model::Configuration {
        accepted_output_modes: params.accepted_output_modes,
        task_push_notification_config: params
            .push_notification
            .map(|config| config.into_model(Text::default())),
        history_length: params.history_length,
        return_immediately: false,
    };
    Ok(model::SendMessageRequest {
        tenant: Text::default(),
        message,
        configuration: (configuration != model::Configuration::default()).then_some(configuration),
        metadata: params.metadata,
    })
}

/// Writes the `result` of a call that is no stream.
pub fn write_response(response: Response<'_>, told: Told<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match response {
        Response::Event(model::Event::Task(task)) | Response::Task(task) => {
            serde_json::to_writer(out, &Task::of(task, told)?)?;
        }
        Response::Event(model::Event::Message(message)) => {
            serde_json::to_writer(out, &Task::of(task::answered(message), told)?)?;
        }
        Response::Push(config) => serde_json::to_writer(out, &TaskPushConfig::of(config, told.task))?,
        // Those of streams, and what no call of 0.1 answers.
        Response::Event(model::Event::StatusUpdate(_) | model::Event::ArtifactUpdate(_)) => {
            return Err(Error::Malformed);
        }
        Response::Pushes(_) | Response::Nothing | Response::Tasks(_) | Response::Card(_) => {
            return Err(Error::Unsupported);
        }
    }
    Ok(())
}

/// Calls back with the `result` of each event that an event of an agent's stream is to a caller of 0.1, which knows no tasks
/// and no messages there. `progress` belongs to the stream.
pub fn write_events(
    event: model::Event<'_>,
    told: Told<'_>,
    progress: &mut Progress,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Error> {
    let mut out = Vec::new();
    for event in Event::of(event, told, progress)? {
        out.clear();
        serde_json::to_writer(&mut out, &event)?;
        each(&out);
    }
    Ok(())
}

/// The code of an error. Some mean something else in the text of 0.1, and its definition does not have them.
pub fn error_code(known: i64) -> i64 {
    match known {
        code::INVALID_AGENT_RESPONSE
        | code::EXTENDED_AGENT_CARD_NOT_CONFIGURED
        | code::EXTENSION_SUPPORT_REQUIRED
        | code::VERSION_NOT_SUPPORTED => code::INTERNAL_ERROR,
        known => known,
    }
}
