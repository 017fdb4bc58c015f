//! Calls of one generation made to an agent of another: requests on their way there, answers and events on their way back.
//!
//! Each body is read into the canonical model and written from it in the other form, one at a time, so an event waits for
//! nothing but itself. The id of the request, and the codes and texts of errors, stay as they are. What does not survive
//! stands in `LOSSES.md`, each with the test that shows it.
//!
//! Knows nothing of ownership: what a body reveals is read from the agent's own bytes (`jsonrpc::read_answer`).

mod error;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use super::v0_3::Error;

use super::model::wire::Text;
use super::model::{self, Request, Response};
use super::{Call, Generation, Operation, RpcId, jsonrpc, v0_3};

/// The generations of a caller and of an agent that are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub caller: Generation,
    pub agent: Generation,
    /// What the agent's own card wants to be told with every request (A2A 1.0 §4.4.6).
    pub tenant: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct RequestBody<'a> {
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AnswerBody<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Pair {
    /// The body that the agent gets for a call and its body.
    pub fn request(&self, call: &Call, body: &[u8]) -> Result<Vec<u8>, Error> {
        let body: RequestBody<'_> = serde_json::from_slice(body)?;
        let mut request = read_request(self.caller, call.operation, body.params)?;
        if has_webhook(&request) {
            return Err(Error::Push);
        }
        if let Some(tenant) = &self.tenant {
            *request.tenant_mut() = Text::from(&**tenant);
        }
        let method = jsonrpc::method_name(self.agent, call.operation).ok_or(Error::Unsupported)?;
        let mut out = Vec::with_capacity(256 + body.params.map_or(0, |params| params.get().len()));
        open(&mut out, &call.id);
        out.extend_from_slice(format!(r#","method":"{method}","params":"#).as_bytes());
        let before = out.len();
        write_request(self.agent, request, &mut out)?;
        if out.len() == before {
            out.extend_from_slice(b"{}");
        }
        out.push(b'}');
        Ok(out)
    }

    /// The body, or the data of one event, that the caller gets for what the agent answered.
    pub fn answer(&self, operation: Operation, id: &RpcId, body: &[u8]) -> Result<Vec<u8>, Error> {
        let read: AnswerBody<'_> = serde_json::from_slice(body)?;
        let mut out = Vec::with_capacity(64 + body.len() + body.len() / 4);
        open(&mut out, id);
        match read.error.filter(|error| error.get() != "null") {
            Some(failed) => {
                out.extend_from_slice(br#","error":"#);
                error::write(failed, self.caller, &mut out)?;
            }
            None => {
                out.extend_from_slice(br#","result":"#);
                let response = read_response(self.agent, operation, read.result)?;
                write_response(self.caller, response, &mut out)?;
            }
        }
        out.push(b'}');
        Ok(out)
    }

    /// Agents of 0.3 may tell nothing of a task to whom subscribes to it until it changes; callers of 1.0 are promised how it
    /// stands first (A2A 1.0 §3.1.6).
    pub fn owes_task(&self, operation: Operation) -> bool {
        operation == Operation::Subscribe && self.agent == Generation::V0_3 && self.caller == Generation::V1_0
    }

    /// The event that a task, as a get of the agent's generation answered it, makes of a stream. `None`: a task that has
    /// ended, of which there is nothing to subscribe to (A2A 1.0 §3.1.6).
    pub fn task_event(&self, id: &RpcId, body: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let read: AnswerBody<'_> = serde_json::from_slice(body)?;
        let Response::Task(task) = read_response(self.agent, Operation::Get, read.result)? else {
            return Err(Error::Malformed);
        };
        if task.status.state.is_terminal() {
            return Ok(None);
        }
        let mut out = Vec::with_capacity(64 + body.len() + body.len() / 4);
        open(&mut out, id);
        out.extend_from_slice(br#","result":"#);
        write_response(self.caller, Response::Event(model::Event::Task(task)), &mut out)?;
        out.push(b'}');
        Ok(Some(out))
    }
}

/// The agent would call it in its own generation.
fn has_webhook(request: &Request<'_>) -> bool {
    match request {
        Request::PushCreate(_) => true,
        Request::Send(request) | Request::Stream(request) => (request.configuration.as_ref())
            .is_some_and(|configuration| configuration.task_push_notification_config.is_some()),
        Request::Get(_)
        | Request::List(_)
        | Request::Cancel(_)
        | Request::Subscribe(_)
        | Request::PushGet(_)
        | Request::PushList(_)
        | Request::PushDelete(_)
        | Request::ExtendedCard { .. } => false,
    }
}

fn open(out: &mut Vec<u8>, id: &RpcId) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(&id.0);
}

fn read_request(generation: Generation, operation: Operation, params: Option<&RawValue>) -> Result<Request<'_>, Error> {
    match generation {
        Generation::V0_3 => v0_3::read_request(operation, params),
        Generation::V1_0 => Ok(Request::read(operation, params.map_or("{}", RawValue::get))?),
    }
}

fn write_request(generation: Generation, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match generation {
        Generation::V0_3 => v0_3::write_request(request, out),
        Generation::V1_0 => Ok(request.write(out)?),
    }
}

fn read_response(
    generation: Generation,
    operation: Operation,
    result: Option<&RawValue>,
) -> Result<Response<'_>, Error> {
    match generation {
        Generation::V0_3 => v0_3::read_response(operation, result),
        Generation::V1_0 => {
            let result = result.map_or("null", RawValue::get);
            Ok(Response::read(operation, result)?)
        }
    }
}

fn write_response(generation: Generation, response: Response<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match generation {
        Generation::V0_3 => v0_3::write_response(response, out),
        Generation::V1_0 => Ok(response.write(out)?),
    }
}
