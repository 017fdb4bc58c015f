//! Webhooks of callers of another generation: in the requests that set them, in the answers that show them, and what agents
//! post to them (A2A 0.3 §9.5, 1.0 §4.3).
//!
//! 0.1 and 0.3 tell a webhook of whole tasks, 1.0 of events, of which a task is one. What an agent posts is read by what it is: official
//! servers of 1.0 post their own form also where 0.3 was registered. Who stands in the place of a webhook is not known here.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Error, Pair, Told, Written, open};
use crate::a2a::model::{Event, GetTaskRequest, PushConfig, Request, Response};
use crate::a2a::{Binding, Call, Dialect, Generation, Operation, Revealed, RpcId, json, jsonrpc, v0_1, v0_3};

/// Who stands between an agent and the webhooks of a call.
pub trait Webhooks {
    /// Puts an address in the place of the caller's webhook, for an agent of another generation.
    fn register(&self, config: &mut PushConfig<'_>) -> Result<(), Error>;
    /// Puts the caller's own back.
    fn show(&self, config: &mut PushConfig<'_>);
}

/// What an agent posted to a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub revealed: Revealed,
    pub relayed: Relayed,
}

/// What the webhook is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relayed {
    /// This body.
    Body(Bytes),
    /// The task as it is by then, which the agent has to be asked for: 0.1 and 0.3 know no notification of less.
    Task,
    /// 0.1 and 0.3 have no notification of a message without a task.
    Nothing,
}

/// What tells one form of a notification from another.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form<'a> {
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

impl Form<'_> {
    /// As the answer to which operation of which generation it reads.
    fn dialect(&self) -> (Generation, Operation) {
        match self {
            Self { kind: Some(_), .. } => (Generation::V0_3, Operation::Stream),
            Self { status: Some(_), .. } => (Generation::V0_3, Operation::Get),
            Self { .. } => (Generation::V1_0, Operation::Stream),
        }
    }
}

impl Pair {
    /// Reads what the agent posted, for a webhook of the caller's generation. Agents of 0.1 post tasks.
    pub fn notification(&self, body: &[u8], limits: json::Limits) -> Result<Notification, Error> {
        let (generation, operation) = match self.agent.generation {
            Generation::V0_1 => (Generation::V0_1, Operation::Get),
            Generation::V0_3 | Generation::V1_0 => serde_json::from_slice::<Form<'_>>(body)?.dialect(),
        };
        let id = RpcId::null();
        let mut answer = Vec::with_capacity(64 + body.len());
        open(&mut answer, &id);
        answer.extend_from_slice(br#","result":"#);
        answer.extend_from_slice(body);
        answer.push(b'}');
        let read = jsonrpc::read_answer(&answer, generation, operation, limits).map_err(|_| Error::Malformed)?;
        if read.is_strange {
            return Err(Error::Malformed);
        }
        // In what form it came may be another than that of its calls.
        let pair = Self {
            agent: Dialect {
                generation,
                binding: Binding::JsonRpc,
            },
            ..self.clone()
        };
        let told = Told {
            body: &answer,
            failed: None,
        };
        let Ok(response) = pair.read_judged(operation, told, &read.revealed)? else {
            return Err(Error::Malformed);
        };
        let revealed = read.revealed.into_iter().next().unwrap_or_default();
        // A message alone is about no task; what else is told is, and nobody could judge whose it is.
        if revealed.task.is_none() && !matches!(response, Response::Event(Event::Message(_))) {
            return Err(Error::Malformed);
        }
        let relayed = self.relayed(response)?;
        Ok(Notification { revealed, relayed })
    }

    fn relayed(&self, response: Response<'_>) -> Result<Relayed, Error> {
        let event = match response {
            Response::Event(event) => event,
            Response::Task(task) => Event::Task(task),
            Response::Tasks(_) | Response::Push(_) | Response::Pushes(_) | Response::Nothing | Response::Card(_) => {
                return Err(Error::Malformed);
            }
        };
        let mut out = Vec::with_capacity(1024);
        match (self.caller.generation, event) {
            (Generation::V1_0, event) => Response::Event(event).write(&mut out)?,
            (Generation::V0_3, Event::Task(task)) => v0_3::write_response(Response::Task(task), &mut out)?,
            (Generation::V0_1, Event::Task(task)) => {
                v0_1::write_response(Response::Task(task), self.named()?.told(), &mut out)?;
            }
            (Generation::V0_1 | Generation::V0_3, Event::Message(message)) if message.task_id.is_empty() => {
                return Ok(Relayed::Nothing);
            }
            (
                Generation::V0_1 | Generation::V0_3,
                Event::Message(_) | Event::StatusUpdate(_) | Event::ArtifactUpdate(_),
            ) => return Ok(Relayed::Task),
        }
        Ok(Relayed::Body(out.into()))
    }

    /// Puts addresses in the place of the webhooks of a request. Nobody who could is nobody who may.
    pub(super) fn register(&self, request: &mut Request<'_>, webhooks: Option<&dyn Webhooks>) -> Result<(), Error> {
        let config = match request {
            Request::PushCreate(config) => Some(config),
            Request::Send(request) | Request::Stream(request) => (request.configuration.as_mut())
                .and_then(|configuration| configuration.task_push_notification_config.as_mut()),
            // One that was set by itself is an address of whoever relays.
            Request::PushGet(_) if webhooks.is_none() && self.is_with_0_1() => return Err(Error::Push),
            Request::Get(_)
            | Request::List(_)
            | Request::Cancel(_)
            | Request::Subscribe(_)
            | Request::PushGet(_)
            | Request::PushList(_)
            | Request::PushDelete(_)
            | Request::ExtendedCard { .. } => None,
        };
        match config {
            None => Ok(()),
            Some(config) => webhooks.ok_or(Error::Push)?.register(config),
        }
    }

    fn is_with_0_1(&self) -> bool {
        [self.caller.generation, self.agent.generation].contains(&Generation::V0_1)
    }

    /// Puts the caller's own webhooks back into an answer.
    pub(super) fn show(response: &mut Response<'_>, webhooks: &dyn Webhooks) {
        match response {
            Response::Push(config) => webhooks.show(config),
            Response::Pushes(page) => page.configs.iter_mut().for_each(|config| webhooks.show(config)),
            Response::Event(_) | Response::Task(_) | Response::Tasks(_) | Response::Nothing | Response::Card(_) => {}
        }
    }

    /// A get, in the agent's dialect, of the whole task of this call.
    pub fn ask_task(&self, call: &Call) -> Result<Written, Error> {
        let request = GetTaskRequest {
            tenant: self.tenant.as_deref().unwrap_or_default().into(),
            id: call.task.as_ref().map_or("", |task| task.as_str()).into(),
            history_length: None,
        };
        self.write_request(call, Request::Get(request), 256)
    }

    /// The notification that a task makes, as a get of the agent's dialect answered it.
    pub fn task_notification(&self, body: &[u8], judged: &[Revealed]) -> Result<Bytes, Error> {
        let told = Told { body, failed: None };
        let Ok(Response::Task(task)) = self.read_judged(Operation::Get, told, judged)? else {
            return Err(Error::Malformed);
        };
        match self.relayed(Response::Event(Event::Task(task)))? {
            Relayed::Body(body) => Ok(body),
            Relayed::Task | Relayed::Nothing => Err(Error::Malformed),
        }
    }
}
