//! The way back: the agent's answer is learned from, and only then goes on.
//!
//! A stream goes on event by event (`respond::stream`). A whole answer is read to its end even if the caller leaves, checked,
//! learned from, and at last rewritten where it has to be: an extended card, or an answer for a caller of another dialect.

use std::sync::Arc;

use bytes::Bytes;

use super::send::Sent;
use super::translate::{First, Translating};
use super::{Agent, Downstream, Pipeline};
use crate::a2a::{self, Binding, Operation};
use crate::affinity::Inquiry;
use crate::authorize::{Ownership, Permit};
use crate::balance::Fault;
use crate::observe::{Outcome, Reason};
use crate::respond::answered::{Answered, Content};
use crate::respond::body::Held;
use crate::respond::learn::{self, Learner};
use crate::respond::stream::EventStream;
use crate::respond::{Reject, answer, stream};
use crate::upstream::Answer;

impl Pipeline {
    /// Learns from the answer and only then lets it go.
    #[expect(clippy::too_many_arguments, reason = "what a call has become by then, used once")]
    pub(super) async fn receive(
        &self,
        agent: &Arc<Agent>,
        permit: &Permit,
        ownership: &Ownership,
        downstream: &Arc<Downstream>,
        sent: Sent,
        translating: Option<Translating>,
        held: &mut Held,
    ) -> Result<Answered, Reject> {
        let Sent {
            selected,
            answer,
            reservation,
        } = sent;
        let principal = &permit.principal().id;
        let refused = |reason| {
            agent.metrics.upstream_failed(reason);
            if reason == Reason::UpstreamBadAnswer {
                selected.endpoint().failed(Fault::Answer, principal);
            }
            Reject::new(reason)
        };
        let Answer { mut parts, body } = answer;
        answer::check_head(&parts).map_err(refused)?;
        let standing = answer::Standing::of(&parts);
        // What goes on as it came came in the agent's own dialect.
        let spoken = translating.as_ref().map(|it| it.pair.agent);
        let speaks = spoken.unwrap_or(permit.call().dialect());
        let status = parts.status.as_u16();
        let learner = Learner {
            affinity: self.affinity.clone(),
            metrics: agent.metrics.clone(),
            endpoint: selected.endpoint().url.clone(),
            permit: permit.clone(),
            ownership: ownership.clone(),
            naming: translating.as_ref().and_then(|it| it.naming.clone()),
        };
        if answer::is_stream(&parts) {
            // An answer that is rewritten, or that names no task, does not come in pieces.
            if !permit.call().operation.streams() {
                return Err(refused(Reason::UpstreamBadAnswer));
            }
            let mut first = None;
            if let Some(translating) = &translating {
                match Box::pin(translating.first_event(agent, permit, &selected, &learner, self.json)).await? {
                    First::None => {}
                    First::Event(event) => first = Some(event),
                    First::Instead(status, error) => {
                        answer::restate(&mut parts, status);
                        return translating.finish(permit.call(), parts, &error, &[], Outcome::AgentError);
                    }
                }
                translating.open(&mut parts);
            }
            let settings = stream::Settings {
                speaks,
                translation: translating.map(|it| stream::Translation { pair: it.pair, first }),
                event_bytes: agent.event_bytes,
                idle: agent.stream_idle,
                limits: self.json,
                leave: self.leave(permit, downstream),
            };
            selected.endpoint().succeeded();
            let stream = EventStream::new(body, selected, permit.call(), learner, reservation, settings);
            return Ok(Answered {
                parts,
                content: Content::Stream(Box::new(stream)),
                left_out: 0,
                status: None,
            });
        }
        // An answer that has begun is read to its end even if the caller leaves, so that its task is not lost; and the caller's
        // places are kept as long as the endpoint's.
        let translates = translating.is_some();
        let asked = translates.then(|| selected.endpoint().url.clone());
        let (reader, call, limits) = (agent.clone(), permit.call().clone(), self.json);
        let principal = principal.clone();
        let finishing = self.drain.finishing(held.slot.take(), async move {
            let endpoint = selected.endpoint();
            let read = reader.upstream.whole(body, endpoint).await;
            let bytes = read.map_err(|error| {
                if let Some(fault) = error.fault() {
                    endpoint.failed(fault, &principal);
                }
                answer::failed(&reader.metrics, &error)
            })?;
            let read = answer::check(status, &bytes, speaks, &call, limits);
            // What is translated is read by other rules, which must not find a task where there was none to learn of.
            let read = read.and_then(|read| {
                if translates && read.is_strange {
                    return Err(Reason::UpstreamBadAnswer);
                }
                Ok(read)
            });
            match standing.told(speaks, status, &bytes).with(read.is_ok()) {
                Some(true) => endpoint.succeeded(),
                Some(false) => endpoint.failed(Fault::Answer, &principal),
                None => {}
            }
            let read = read.map_err(|reason| {
                reader.metrics.upstream_failed(reason);
                Reject::new(reason)
            })?;
            if let Inquiry::Asking(asking) = learner.inquire(&read.revealed) {
                asking.await;
            }
            let begun = learner.begun(&read.revealed, read.error.is_some());
            if let Some(confirming) = learner.learn(&begun)? {
                learner.confirmed(confirming.await, &begun)?;
            }
            drop(reservation);
            let outcome = if read.error.is_some() {
                Outcome::AgentError
            } else {
                Outcome::Ok
            };
            let revealed = read.revealed;
            Ok::<_, Reject>((bytes, outcome, revealed))
        });
        let (whole, slot) = finishing.await;
        held.slot = slot;
        let (bytes, outcome, revealed) = whole?;
        learn::note(&mut held.record, &revealed);
        let bytes = if permit.call().operation == Operation::ExtendedCard {
            extended_card(agent, permit, &bytes, speaks.binding, outcome)?
        } else {
            bytes
        };
        match (translating, asked) {
            (Some(translating), Some(asked)) => {
                let pages = translating.all_pages(agent, permit, &asked, bytes, self.json);
                let (bytes, failed) = Box::pin(pages).await?;
                let mut outcome = outcome;
                if let Some(status) = failed {
                    outcome = Outcome::AgentError;
                    answer::restate(&mut parts, status);
                }
                translating.finish(permit.call(), parts, &bytes, &revealed, outcome)
            }
            _ => {
                let bytes = conceal(agent, permit, bytes)?;
                Ok(Answered::whole(parts, bytes, outcome))
            }
        }
    }
}

/// An answer that goes on as it came may show webhooks that were set in the other generation, under the gateway's addresses.
fn conceal(agent: &Agent, permit: &Permit, bytes: Bytes) -> Result<Bytes, Reject> {
    let Some(relay) = agent
        .relay
        .as_ref()
        .filter(|_| permit.call().operation.shows_webhooks())
    else {
        return Ok(bytes);
    };
    let concealed = relay.conceal(&bytes, permit.owner());
    let concealed = concealed.map_err(|_| Reject::new(Reason::UpstreamBadAnswer))?;
    Ok(concealed.unwrap_or(bytes))
}

/// The extended card, rewritten like the public one; only for callers who proved who they are (A2A 1.0 §3.1.11).
fn extended_card(
    agent: &Agent,
    permit: &Permit,
    bytes: &Bytes,
    binding: Binding,
    outcome: Outcome,
) -> Result<Bytes, Reject> {
    let current = agent.card.current().ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
    if permit.principal().is_anonymous() {
        return Err(Reject::new(Reason::ExtendedCardNotConfigured));
    }
    let publication = current.publication.of(permit.call().generation);
    let rewritten = match binding {
        Binding::JsonRpc | Binding::Grpc => a2a::card::rewrite_extended_answer(bytes, &publication),
        Binding::HttpJson if outcome == Outcome::AgentError => Ok(bytes.clone()),
        Binding::HttpJson => a2a::card::rewrite_extended_card(bytes, &publication),
    };
    rewritten.map_err(|error| {
        tracing::warn!(agent = &*agent.metrics.name, %error, "the extended card cannot be published");
        Reject::new(Reason::UpstreamBadAnswer)
    })
}
