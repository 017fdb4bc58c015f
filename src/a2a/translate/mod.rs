//! Calls of one dialect (a generation and a binding) made to an agent of another: requests on their way there, answers and
//! events on their way back. What is the agent's side of it stands in `agent`.
//!
//! Each body is read into the canonical model and written from it in the other form, one at a time, so an event waits for
//! nothing but itself. The id of the request, and the codes and texts of errors, stay as they are. What does not survive
//! stands in `LOSSES.md`, each with the test that shows it.
//!
//! Knows nothing of ownership: what a body reveals is read from the agent's own bytes (`a2a::answer`).

mod agent;
mod error;
mod push;
#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::push::{Notification, Relayed, Webhooks};
pub use super::answer::Told;
pub use super::http_json::Written;
pub use super::model::Error;
pub use agent::{read_tenant, write_get, write_list, written_list};

use super::http_json;
use super::model::wire::Text;
use super::model::{self, Request, Response};
use super::{Addressed, Binding, Call, ContextId, Dialect, Generation, Operation, Revealed, RpcId, TaskState};
use super::{grpc, jsonrpc, sse, v0_1, v0_3};

/// The dialects of a caller and of an agent that are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub caller: Dialect,
    pub agent: Dialect,
    /// What the agent's own card wants to be told with every request (A2A 1.0 §4.4.6).
    pub tenant: Option<Arc<str>>,
    /// Of a caller of 0.1, which alone names tasks itself.
    pub named: Option<Box<v0_1::Named>>,
    /// For an agent of 0.1, which is told how tasks are called.
    pub asked: Option<Box<v0_1::Asked>>,
}

/// A request as its caller wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    pub addressed: &'a Addressed,
    pub query: Option<&'a str>,
    /// Of gRPC the message.
    pub body: &'a [u8],
}

/// A whole answer in the caller's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub standing: Standing,
    pub body: Vec<u8>,
}

/// How an answer says whether it is an error, beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does not (JSON-RPC).
    Unsaid,
    /// The status of HTTP.
    Http(u16),
    /// The status in the trailers; an error has no body.
    Grpc(grpc::Status),
}

/// One or two events of a stream in the caller's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub bytes: Bytes,
    /// The stream ends with it.
    pub ends: Option<grpc::Status>,
}

/// What an agent answered: a result, or an error.
type Read<'a> = Result<Response<'a>, model::Fault<'a>>;

#[derive(Deserialize)]
struct RequestBody<'a> {
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

impl Pair {
    /// With nothing that an agent or a caller would be told besides.
    pub fn plain(caller: Dialect, agent: Dialect) -> Self {
        Self {
            caller,
            agent,
            tenant: None,
            named: None,
            asked: None,
        }
    }

    /// What the agent is asked for a call. Without somebody who stands in for `webhooks`, none is set at an agent of
    /// another generation: it would call them in its own.
    pub fn request(
        &self,
        call: &Call,
        original: Original<'_>,
        webhooks: Option<&dyn Webhooks>,
    ) -> Result<Written, Error> {
        let mut request = self.read(call, original)?;
        if self.caller.generation != self.agent.generation {
            self.register(&mut request, webhooks)?;
            *request.tenant_mut() = self.tenant.as_deref().map(Text::from).unwrap_or_default();
        }
        self.write_request(call, request, 256 + original.body.len())
    }

    /// What the caller gets for what the agent answered. `judged` are the ids that its owner was looked up by: an answer that
    /// is about others to the readers of this module is none.
    pub fn answer(
        &self,
        operation: Operation,
        id: &RpcId,
        told: Told<'_>,
        judged: &[Revealed],
        webhooks: Option<&dyn Webhooks>,
    ) -> Result<Answer, Error> {
        let mut read = self.read_judged(operation, told, judged)?;
        if let (Ok(response), Some(webhooks)) = (&mut read, webhooks) {
            Self::show(response, webhooks);
        }
        let mut body = Vec::with_capacity(64 + told.body.len() + told.body.len() / 4);
        let standing = self.write(operation, id, read, &mut body)?;
        Ok(Answer { standing, body })
    }

    /// The same for one event of the agent; `progress` belongs to its stream. A stream of 1.0 `opens` with a task or a message (A2A 1.0
    /// §3.1.2): where an older agent begins with an update, the task that it is about goes before.
    pub fn event(
        &self,
        operation: Operation,
        id: &RpcId,
        told: Told<'_>,
        judged: &[Revealed],
        opens: bool,
        progress: &mut v0_1::Progress,
    ) -> Result<Event, Error> {
        // The stream did not end with the one before.
        let _earlier = progress.end();
        let read = self.read_judged(operation, told, judged)?;
        let data = told.body;
        let read = match (&self.named, read) {
            (Some(named), Ok(Response::Event(event))) => return write_events_of_0_1(named, id, event, progress),
            (_, read) => read,
        };
        let generations = (self.caller.generation, self.agent.generation);
        if opens
            && operation == Operation::Stream
            && matches!(generations, (Generation::V1_0, Generation::V0_1 | Generation::V0_3))
            && let Ok(Response::Event(event)) = &read
            && let Some(task) = task_of(event)
        {
            let first = self.write_event(operation, id, Ok(Response::Event(model::Event::Task(task))), 256)?;
            let second = self.write_event(operation, id, read, data.len())?;
            let bytes = [first.bytes, second.bytes].concat();
            return Ok(Event {
                bytes: bytes.into(),
                ends: second.ends,
            });
        }
        self.write_event(operation, id, read, data.len())
    }

    /// Agents of 0.3 may tell nothing of a task to whom subscribes to it until it changes; callers of 1.0 are promised how it
    /// stands first (A2A 1.0 §3.1.6). Events of 0.1 do not say the context, which callers of both are promised, and a task does.
    pub fn owes_task(&self, operation: Operation) -> bool {
        let generations = (self.caller.generation, self.agent.generation);
        operation == Operation::Subscribe
            && matches!(
                generations,
                (Generation::V1_0, Generation::V0_3) | (Generation::V0_3 | Generation::V1_0, Generation::V0_1)
            )
    }

    /// Before anything is learned of an answer: that of an agent of 0.1 must be about the task that it was told of, and is of
    /// the session that it was told of where it says none.
    pub fn complete(&self, answer: &mut jsonrpc::Answer<'_>) -> Result<(), Error> {
        let Some(asked) = &self.asked else {
            return Ok(());
        };
        for one in &mut answer.revealed {
            if one.task.as_ref().is_none_or(|task| *task.as_str() != *asked.task) {
                return Err(Error::Malformed);
            }
            if one.context.is_none() && !asked.session.is_empty() {
                one.context = Some(ContextId::new(&asked.session));
            }
        }
        Ok(())
    }

    /// The event that a task, as a get of the agent's dialect answered it, makes of a stream. `None`: a task that has
    /// ended, of which there is nothing to subscribe to (A2A 1.0 §3.1.6).
    pub fn task_event(&self, id: &RpcId, body: &[u8], judged: &[Revealed]) -> Result<Option<Bytes>, Error> {
        let Ok(Response::Task(task)) = self.read_judged(Operation::Get, Told { body, failed: None }, judged)? else {
            return Err(Error::Malformed);
        };
        if task.status.state.is_terminal() {
            return Ok(None);
        }
        let task = Response::Event(model::Event::Task(task));
        let event = self.write_event(Operation::Subscribe, id, Ok(task), body.len())?;
        Ok(Some(event.bytes))
    }

    fn read<'a>(&'a self, call: &'a Call, original: Original<'a>) -> Result<Request<'a>, Error> {
        match original.addressed {
            Addressed::JsonRpc => {}
            Addressed::HttpJson(target) => return http_json::read_request(target, original.query, original.body),
            Addressed::Grpc(method) => return grpc::read_request(method.generation, method.operation, original.body),
        }
        let RequestBody { params } = serde_json::from_slice(original.body)?;
        match self.caller.generation {
            Generation::V0_1 => {
                let names = v0_1::Names {
                    task: call.task.as_ref().map_or("", |task| task.as_str()),
                    message: &self.named()?.message,
                };
                v0_1::read_request(call.operation, params, names)
            }
            Generation::V0_3 => v0_3::read_request(call.operation, params),
            Generation::V1_0 => Ok(Request::read(call.operation, params.map_or("{}", RawValue::get))?),
        }
    }

    fn named(&self) -> Result<&v0_1::Named, Error> {
        self.named.as_deref().ok_or(Error::Unsupported)
    }

    /// Whose a task is was decided by what `answer::read` reads in the body; what is told must be about the same.
    fn read_judged<'a>(&'a self, operation: Operation, told: Told<'a>, judged: &[Revealed]) -> Result<Read<'a>, Error> {
        let read = self.read_answer(operation, told)?;
        let told = read.as_ref().ok().and_then(ids_of);
        let known = judged.first();
        let task = known.and_then(|it| it.task.as_ref()).map_or("", |id| id.as_str());
        let context = known.and_then(|it| it.context.as_ref()).map_or("", |id| id.as_str());
        if told.is_some_and(|told| told != (task, context)) {
            return Err(Error::Malformed);
        }
        Ok(read)
    }

    /// `size`: about as long as it will be.
    fn write_event(&self, operation: Operation, id: &RpcId, event: Read<'_>, size: usize) -> Result<Event, Error> {
        // Readers of HTTP+JSON tell an error by the name of its event.
        let named = self.caller.binding == Binding::HttpJson && event.is_err();
        let mut out = Vec::with_capacity(64 + size + size / 4);
        let standing = self.write(operation, id, event, &mut out)?;
        Ok(match standing {
            Standing::Grpc(status) => Event {
                bytes: out.into(),
                ends: Some(status).filter(|status| status.code != 0),
            },
            Standing::Unsaid | Standing::Http(_) => Event {
                bytes: if named {
                    sse::one_error(&out)
                } else {
                    sse::one_event(&out)
                },
                ends: None,
            },
        })
    }

    fn write(&self, operation: Operation, id: &RpcId, answer: Read<'_>, out: &mut Vec<u8>) -> Result<Standing, Error> {
        let generation = self.caller.generation;
        match (self.caller.binding, answer) {
            (Binding::HttpJson, Ok(response)) => {
                http_json::write_response(generation, response, out)?;
                Ok(Standing::Http(200))
            }
            (Binding::HttpJson, Err(fault)) => Ok(Standing::Http(http_json::write_fault(generation, &fault, out))),
            (Binding::Grpc, Ok(response)) => {
                let message = grpc::write_response(generation, operation, response)?;
                out.extend_from_slice(&grpc::frame(&message).map_err(|_| Error::Malformed)?);
                Ok(Standing::Grpc(grpc::Status::default()))
            }
            (Binding::Grpc, Err(fault)) => Ok(Standing::Grpc(grpc::write_fault(generation, &fault))),
            (Binding::JsonRpc, Ok(response)) => {
                open(out, id);
                out.extend_from_slice(br#","result":"#);
                match generation {
                    Generation::V0_1 => v0_1::write_response(response, self.named()?.told(), out)?,
                    Generation::V0_3 => v0_3::write_response(response, out)?,
                    Generation::V1_0 => response.write(out)?,
                }
                out.push(b'}');
                Ok(Standing::Unsaid)
            }
            (Binding::JsonRpc, Err(fault)) => {
                open(out, id);
                out.extend_from_slice(br#","error":"#);
                error::write(&fault, out)?;
                out.push(b'}');
                Ok(Standing::Unsaid)
            }
        }
    }
}

/// A stream of 0.1 has no tasks and no messages: one event may be several there.
fn write_events_of_0_1(
    named: &v0_1::Named,
    id: &RpcId,
    event: model::Event<'_>,
    progress: &mut v0_1::Progress,
) -> Result<Event, Error> {
    let mut bytes = Vec::new();
    v0_1::write_events(event, named.told(), progress, |result| {
        bytes.extend_from_slice(&event_of_0_1(id, result));
    })?;
    Ok(Event {
        bytes: bytes.into(),
        ends: None,
    })
}

/// The event that ends a stream of 0.1 whose agent has ended it with a task, which says how it stands and not that this is all.
pub fn end_of_0_1(id: &RpcId, progress: &mut v0_1::Progress) -> Option<Bytes> {
    progress.end().map(|result| event_of_0_1(id, &result))
}

fn event_of_0_1(id: &RpcId, result: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(64 + id.0.len() + result.len());
    open(&mut out, id);
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(result);
    out.push(b'}');
    sse::one_event(&out)
}

/// The task and the context that an answer is about.
fn ids_of<'a>(response: &'a Response<'_>) -> Option<(&'a str, &'a str)> {
    let (task, context) = match response {
        Response::Task(task) | Response::Event(model::Event::Task(task)) => (&task.id, &task.context_id),
        Response::Event(model::Event::Message(message)) => (&message.task_id, &message.context_id),
        Response::Event(model::Event::StatusUpdate(update)) => (&update.task_id, &update.context_id),
        Response::Event(model::Event::ArtifactUpdate(update)) => (&update.task_id, &update.context_id),
        Response::Tasks(_) | Response::Push(_) | Response::Pushes(_) | Response::Nothing | Response::Card(_) => {
            return None;
        }
    };
    Some((task.as_str(), context.as_str()))
}

/// The task that an update is about, as far as the update tells; one that makes artifacts is at work.
fn task_of<'a>(event: &model::Event<'a>) -> Option<model::Task<'a>> {
    let (task, context, status) = match event {
        model::Event::StatusUpdate(update) => (&update.task_id, &update.context_id, update.status.clone()),
        model::Event::ArtifactUpdate(update) => {
            let status = model::TaskStatus {
                state: TaskState::Working,
                ..model::TaskStatus::default()
            };
            (&update.task_id, &update.context_id, status)
        }
        model::Event::Task(_) | model::Event::Message(_) => return None,
    };
    Some(model::Task {
        id: task.clone(),
        context_id: context.clone(),
        status,
        ..model::Task::default()
    })
}

fn open(out: &mut Vec<u8>, id: &RpcId) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(&id.0);
}
