//! Agents of A2A 0.1: what they are asked, and what they answer.
//!
//! They take the id of a task from their caller, and say in answers to a send alone what its session is. What a caller of a later
//! generation is owed beside that is made up, the same each time: ids of artifacts from their place, those of messages from
//! what they say.

use serde_json::value::RawValue;

use super::message::Message;
use super::push::TaskPushConfig;
use super::task::{Task, read_event};
use super::{Error, SendParams, TaskParams};
use crate::a2a::Operation;
use crate::a2a::jsonrpc::code;
use crate::a2a::model::wire::Text;
use crate::a2a::model::{self, Request, Response, Role};

/// What an agent of 0.1 is told that a task is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub task: Box<str>,
    /// What its caller is told where the agent does not say it; empty: nobody knows.
    pub session: Box<str>,
}

/// Writes `params`.
pub fn write_request(request: Request<'_>, asked: Option<&Asked>, out: &mut Vec<u8>) -> Result<(), Error> {
    let task = |id, history_length, metadata| TaskParams {
        id,
        history_length,
        metadata,
    };
    match request {
        Request::Send(request) | Request::Stream(request) => {
            let asked = asked.ok_or(Error::Malformed)?;
            serde_json::to_writer(out, &send(request, asked)?)?;
        }
        Request::Get(request) => serde_json::to_writer(out, &task(request.id, request.history_length, None))?,
        Request::Cancel(request) => serde_json::to_writer(out, &task(request.id, None, request.metadata))?,
        Request::Subscribe(request) => serde_json::to_writer(out, &task(request.id, None, None))?,
        Request::PushCreate(config) => {
            let asked = asked.ok_or(Error::Malformed)?;
            serde_json::to_writer(out, &TaskPushConfig::of(config, &asked.task))?;
        }
        // A task has one.
        Request::PushGet(name) => serde_json::to_writer(out, &task(name.task_id, None, None))?,
        Request::List(_) | Request::PushList(_) | Request::PushDelete(_) | Request::ExtendedCard { .. } => {
            return Err(Error::Unsupported);
        }
    }
    Ok(())
}

fn send<'a>(request: model::SendMessageRequest<'a>, asked: &'a Asked) -> Result<SendParams<'a>, Error> {
    if request.message.role == Role::Unspecified {
        return Err(Error::Malformed);
    }
    let configuration = request.configuration.unwrap_or_default();
    Ok(SendParams {
        id: Text::from(&*asked.task),
        session_id: Text::from(&*asked.session),
        message: request.message.try_into()?,
        accepted_output_modes: configuration.accepted_output_modes,
        push_notification: configuration.task_push_notification_config.map(Into::into),
        history_length: configuration.history_length,
        metadata: request.metadata,
    })
}

/// Reads `result`. `session` is told where it says none.
pub fn read_response<'a>(
    operation: Operation,
    result: Option<&'a RawValue>,
    session: &'a str,
) -> Result<Response<'a>, Error> {
    let text = result.ok_or(Error::Malformed)?.get();
    let task = || serde_json::from_str::<Task<'a>>(text)?.into_model(session);
    Ok(match operation {
        Operation::Send => Response::Event(model::Event::Task(task()?)),
        Operation::Get | Operation::Cancel => Response::Task(task()?),
        Operation::Stream | Operation::Subscribe => Response::Event(read_event(text, session)?),
        Operation::PushCreate | Operation::PushGet => {
            Response::Push(serde_json::from_str::<TaskPushConfig<'a>>(text)?.told())
        }
        Operation::List | Operation::PushList | Operation::PushDelete | Operation::ExtendedCard => {
            return Err(Error::Unsupported);
        }
    })
}

/// What a code of 0.1 is in later generations, where some of those that its text defines mean something else.
pub fn later_code(known: i64) -> i64 {
    match known {
        // No streams; the task has ended, or is in another state that does not go with the call.
        -32_006 | -32_009 => code::UNSUPPORTED_OPERATION,
        // Authentication, authorization, limits and resources.
        -32_007 | -32_008 | -32_010 | -32_011 => code::INTERNAL_ERROR,
        known => known,
    }
}

impl<'a> Message<'a> {
    /// The same message of a task has the same id wherever it is told.
    pub(super) fn into_model(self, task: &str) -> Result<model::Message<'a>, Error> {
        let said = serde_json::to_vec(&self)?;
        let id = hash(task.bytes().chain([0]).chain(said));
        Ok(model::Message {
            message_id: Text::from(format!("{id:032x}")),
            ..self.try_into()?
        })
    }
}

/// FNV-1a of 128 bits: nobody gains by two messages of one agent that have one id.
fn hash(bytes: impl Iterator<Item = u8>) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
