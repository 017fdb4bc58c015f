//! Where the agent does not speak the caller's generation: the call on its way there, the answer on its way back.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header, response};

use super::{Agent, Enforced};
use crate::a2a::translate::Pair;
use crate::a2a::{Call, Generation, json, jsonrpc, sse};
use crate::authorize::Permit;
use crate::balance::Selected;
use crate::http::hygiene;
use crate::observe::{Outcome, Reason};
use crate::respond::learn::Learner;
use crate::respond::{Reject, answer};
use crate::upstream::Outgoing;

/// A call between two generations.
pub(super) struct Translating {
    pub pair: Arc<Pair>,
    /// The head of the call, where the gateway has to ask the agent something besides.
    again: Option<Box<Outgoing>>,
}

impl Enforced {
    /// How calls of this generation go on; `None`: as they came.
    fn pair(&self, caller: Generation) -> Option<Pair> {
        if self.spoken.is_empty() || self.spoken.iter().any(|spoken| spoken.generation == caller) {
            return None;
        }
        let newest = self.spoken.iter().max_by_key(|spoken| spoken.generation)?;
        Some(Pair {
            caller,
            agent: newest.generation,
            tenant: newest.tenant.clone(),
        })
    }
}

impl Translating {
    /// Turns the call into one of the agent's generation, if it has to.
    pub fn begin(enforced: &Enforced, call: &Call, outgoing: &mut Outgoing) -> Result<Option<Self>, Reject> {
        let Some(pair) = enforced.pair(call.generation) else {
            return Ok(None);
        };
        outgoing.body = pair.request(call, &outgoing.body)?.into();
        let headers = &mut outgoing.headers;
        match pair.agent {
            Generation::V0_3 => headers.remove(hygiene::A2A_VERSION),
            Generation::V1_0 => headers.insert(hygiene::A2A_VERSION, HeaderValue::from_static("1.0")),
        };
        rename_extensions(headers, pair.agent);
        let again = pair.owes_task(call.operation).then(|| Box::new(outgoing.clone()));
        Ok(Some(Self {
            pair: Arc::new(pair),
            again,
        }))
    }

    /// Turns a whole answer into one of the caller's generation.
    pub fn finish(
        &self,
        call: &Call,
        parts: &mut response::Parts,
        bytes: &[u8],
        outcome: Outcome,
    ) -> Result<Bytes, Reject> {
        let answer = self.pair.answer(call.operation, &call.id, bytes).map_err(|error| {
            tracing::warn!(
                ?error,
                "the agent's answer cannot be turned into the caller's generation"
            );
            Reject::new(Reason::UpstreamBadAnswer)
        })?;
        rename_extensions(&mut parts.headers, self.pair.caller);
        // Callers of 0.3 who asked for a stream read nothing else.
        let event = outcome == Outcome::AgentError && self.pair.caller == Generation::V0_3 && call.operation.streams();
        let (bytes, media_type) = if event {
            (sse::one_event(&answer), "text/event-stream")
        } else {
            (Bytes::from(answer), "application/json")
        };
        let media_type = HeaderValue::from_static(media_type);
        parts.headers.insert(header::CONTENT_TYPE, media_type);
        Ok(bytes)
    }

    /// The event with which the stream of the caller begins, where the agent's own may not begin with a task.
    pub async fn first_event(
        &self,
        agent: &Agent,
        permit: &Permit,
        selected: &Selected,
        learner: &Learner,
        json: json::Limits,
    ) -> Result<First, Reject> {
        let (Some(again), Some(probe)) = (&self.again, permit.probe(self.pair.agent)) else {
            return Ok(First::None);
        };
        let call = probe.call();
        let (endpoint, principal) = (selected.endpoint(), &permit.principal().id);
        let failed = |error: &crate::upstream::Error| {
            if let Some(fault) = error.fault() {
                endpoint.failed(fault, principal);
            }
            answer::failed(&agent.metrics, error)
        };
        let mut outgoing = again.clone();
        if let Some(task) = &call.task {
            let tenant = self.pair.tenant.as_deref();
            outgoing.body = jsonrpc::write_get(self.pair.agent, &call.id, task, tenant);
        }
        let sent = agent.upstream.send(&probe, selected, outgoing).await;
        let answer = sent.map_err(|failure| failed(&failure.error))?;
        answer::check_head(&answer.parts).map_err(Reject::new)?;
        let whole = agent.upstream.whole(answer.body, answer.lease, endpoint).await;
        let bytes = whole.map_err(|error| failed(&error))?;
        let read = answer::check(&bytes, self.pair.agent, call, json).map_err(Reject::new)?;
        if learner.learn_at_once(&read.revealed).is_err() {
            return Err(Reject::new(Reason::UpstreamBadAnswer));
        }
        if read.error.is_some() {
            return Ok(First::Instead(bytes.clone()));
        }
        let id = &permit.call().id;
        match self.pair.task_event(id, &bytes) {
            Ok(Some(event)) => Ok(First::Event(event)),
            Ok(None) => Err(Reject::new(Reason::UnsupportedOperation).because("the task has ended")),
            Err(_) => Err(Reject::new(Reason::UpstreamBadAnswer)),
        }
    }
}

/// What goes before an agent's own events.
pub(super) enum First {
    None,
    Event(Vec<u8>),
    /// The agent's error, of which there is no stream.
    Instead(Bytes),
}

/// Says the same under the name of a generation. Whoever sends both names means the other's generation too.
fn rename_extensions(headers: &mut HeaderMap, to: Generation) {
    let (from, to): (HeaderName, HeaderName) = match to {
        Generation::V0_3 => (hygiene::A2A_EXTENSIONS, hygiene::X_A2A_EXTENSIONS),
        Generation::V1_0 => (hygiene::X_A2A_EXTENSIONS, hygiene::A2A_EXTENSIONS),
    };
    let values: Vec<HeaderValue> = headers.get_all(&from).iter().cloned().collect();
    headers.remove(&from);
    if !headers.contains_key(&to) {
        for value in values {
            headers.append(&to, value);
        }
    }
}
