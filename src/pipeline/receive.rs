//! The way back: the agent's answer is learned from, and only then goes on.
//!
//! A stream goes on event by event (`respond::stream`). A whole answer is read to its end even if the caller leaves, checked,
//! learned from, and at last rewritten where it has to be: an extended card, or an answer for a caller of another dialect.

use std::sync::Arc;

use bytes::Bytes;

use super::extended::{believed, signing, unpublished};
use super::reading::{Begun, Reading};
use super::send::Sent;
use super::translate::{First, Translating};
use super::{Agent, Downstream, Pipeline};
use crate::a2a::answer::End;
use crate::a2a::card::{CardError, Finish, OriginCard, Shown};
use crate::a2a::{self, Binding, Dialect, Operation, grpc};
use crate::authorize::Permit;
use crate::balance::Fault;
use crate::observe::{Outcome, Reason};
use crate::respond::answer::Standing;
use crate::respond::answered::{Answered, Content};
use crate::respond::body::Held;
use crate::respond::learn;
use crate::respond::stream::{EventStream, UntilLearned};
use crate::respond::{Reject, answer, stream};
use crate::upstream::{Answer, Head};

impl Pipeline {
    /// Learns from the answer and only then lets it go.
    pub(super) async fn receive(
        &self,
        reading: Reading,
        downstream: &Arc<Downstream>,
        sent: Sent,
        mut translating: Option<Translating>,
        held: &mut Held,
    ) -> Result<Answered, Reject> {
        let Reading {
            agent, permit, speaks, ..
        } = &reading;
        let speaks = *speaks;
        let Sent {
            selected,
            answer,
            reservation,
        } = sent;
        let until_learned = UntilLearned {
            reservation,
            under_way: translating.as_mut().and_then(|it| it.under_way.take()),
            place: reading.place.clone(),
        };
        let principal = &permit.principal().id;
        let Answer { mut parts, body } = answer;
        let standing = Standing::of(&parts);
        let refused = |reason| {
            agent.metrics.upstream_failed(reason);
            if reason == Reason::UpstreamBadAnswer && standing != Standing::Refused {
                selected.endpoint().failed(Fault::Answer, principal);
            }
            Reject::new(reason)
        };
        answer::check_head(&parts, speaks).map_err(refused)?;
        let head = Head::of(&mut parts, &body, speaks);
        let streams = answer::is_stream(&parts, &head, permit.call().operation);
        if streams {
            reading.claim(&selected).await?;
        }
        let learner = reading.learner(&selected);
        if streams {
            // An answer that is rewritten, or that names no task, does not come in pieces.
            if !permit.call().operation.streams() {
                return Err(refused(Reason::UpstreamBadAnswer));
            }
            let mut first = None;
            if let Some(translating) = &mut translating {
                match Box::pin(translating.first_event(agent, permit, &selected, &learner, self.json)).await? {
                    First::None => {}
                    First::Event { bytes, revealed } => {
                        translating.knows(&revealed);
                        first = Some(bytes);
                    }
                    First::Instead(error) => {
                        return translating.finish(permit.call(), parts, &error, &[], Outcome::AgentError);
                    }
                }
                translating.open(&mut parts);
            }
            let settings = stream::Settings {
                speaks,
                translation: translating.as_ref().map(|it| stream::Translation {
                    pair: it.pair.clone(),
                    first,
                }),
                event_bytes: agent.event_bytes,
                idle: agent.stream_idle,
                limits: self.json,
                leave: self.leave(permit, downstream),
            };
            selected.endpoint().succeeded();
            let mut stream = EventStream::new(body, selected, permit.call(), learner, until_learned, settings);
            let begun = Box::pin(stream.begin(&mut held.record)).await;
            if let (Some(error), Some(translating)) = (begun.map_err(Reject::new)?, &translating) {
                return translating.finish(permit.call(), parts, &error, &[], Outcome::AgentError);
            }
            return Ok(Answered {
                parts,
                content: Content::Stream(Box::new(stream)),
                left_out: 0,
                status: None,
            });
        }
        // An answer that has begun is read to its end even if the caller leaves, so that its task is not lost; and the caller's
        // places are kept as long as the endpoint's.
        let asked = translating.is_some().then(|| selected.endpoint().url.clone());
        let begun = Begun {
            selected,
            standing,
            head,
            body,
        };
        let reader = reading.clone();
        let finishing = async move { reader.finish(begun, until_learned).await };
        let finishing = self.drain.finishing(held.slot.take(), finishing);
        let (finished, slot) = finishing.await;
        held.slot = slot;
        let (mut whole, outcome, revealed) = finished?;
        learn::note(&mut held.record, &revealed);
        let is_card = permit.call().operation == Operation::ExtendedCard;
        if is_card {
            let at = (&**downstream, held.record.address);
            let (body, believed) = extended_card(agent, speaks, outcome, whole.body).await?;
            let believed = believed.as_ref();
            let write = |shown: Shown<'_>| publish_extended(agent, permit, &body, (speaks, outcome), believed, shown);
            whole.body = self.shown_to(agent, permit, at, write)??;
        }
        let is_turned = is_card && speaks.binding == Binding::Grpc && outcome == Outcome::Ok;
        match (translating, asked) {
            (Some(mut translating), Some(asked)) => {
                if outcome == Outcome::AgentError {
                    let ended = translating.ended(agent, permit, &asked, &learner, self.json);
                    Box::pin(ended).await?;
                }
                if is_turned {
                    translating.reads_json();
                    whole.end = End::Http(200);
                }
                let pages = translating.all_pages(agent, permit, &asked, whole, outcome, self.json);
                let (whole, outcome) = Box::pin(pages).await?;
                translating.finish(permit.call(), parts, &whole, &revealed, outcome)
            }
            _ => {
                if is_turned {
                    let message = grpc::from_json(speaks.generation, Operation::ExtendedCard, &whole.body);
                    whole.body = message.map_err(|_| Reject::new(Reason::UpstreamBadAnswer))?.into();
                }
                whole.body = conceal(agent, permit, speaks, whole.body)?;
                let untouched = Answered::untouched(parts, whole, outcome);
                untouched.map_err(|_| Reject::new(Reason::UpstreamAnswerTooLarge))
            }
        }
    }
}

/// An answer that goes on as it came may show webhooks that were set in the other generation, under the gateway's addresses.
fn conceal(agent: &Agent, permit: &Permit, speaks: Dialect, body: Bytes) -> Result<Bytes, Reject> {
    let operation = permit.call().operation;
    let Some(relay) = agent.relay.as_ref().filter(|_| operation.shows_webhooks()) else {
        return Ok(body);
    };
    let bad = || Reject::new(Reason::UpstreamBadAnswer);
    let Dialect { generation, binding } = speaks;
    let shown = match binding {
        Binding::JsonRpc | Binding::HttpJson => body.clone(),
        // An error.
        Binding::Grpc if body.is_empty() => return Ok(body),
        Binding::Grpc => Bytes::from(grpc::to_json(generation, operation, &body).map_err(|_| bad())?),
    };
    match (relay.conceal(&shown, permit.owner()).map_err(|_| bad())?, binding) {
        (None, _) => Ok(body),
        (Some(concealed), Binding::JsonRpc | Binding::HttpJson) => Ok(concealed),
        (Some(concealed), Binding::Grpc) => {
            let message = grpc::from_json(generation, operation, &concealed);
            message.map(Bytes::from).map_err(|_| bad())
        }
    }
}

/// The answer with the extended card, and what of it is believed. One that came over gRPC is in JSON then, which has the forms of all
/// generations.
async fn extended_card(
    agent: &Agent,
    speaks: Dialect,
    outcome: Outcome,
    mut body: Bytes,
) -> Result<(Bytes, Option<OriginCard>), Reject> {
    if speaks.binding == Binding::Grpc && outcome != Outcome::AgentError {
        let json = grpc::to_json(speaks.generation, Operation::ExtendedCard, &body);
        body = json.map_err(|_| unpublished(agent, &CardError::NotAnAnswer))?.into();
    }
    let believed = believed(agent, || match speaks.binding {
        Binding::JsonRpc => a2a::card::read_extended_answer(&body),
        Binding::HttpJson | Binding::Grpc if outcome == Outcome::AgentError => Ok(None),
        Binding::HttpJson | Binding::Grpc => a2a::card::read(&body).map(Some),
    });
    let believed = believed.await?;
    Ok((body, believed))
}

/// Rewritten like the public card, with the skills that its caller may use.
fn publish_extended(
    agent: &Agent,
    permit: &Permit,
    bytes: &Bytes,
    (speaks, outcome): (Dialect, Outcome),
    believed: Option<&OriginCard>,
    shown: Shown<'_>,
) -> Result<Bytes, Reject> {
    let current = agent.card.current().ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
    let publication = current.publication.of(permit.call().generation);
    let finish = Finish {
        shown,
        sign: &signing(agent, &publication),
        believed,
    };
    let rewritten = match speaks.binding {
        Binding::JsonRpc => a2a::card::rewrite_extended_answer(bytes, &publication, finish),
        Binding::HttpJson | Binding::Grpc if outcome == Outcome::AgentError => Ok(bytes.clone()),
        Binding::HttpJson | Binding::Grpc => a2a::card::rewrite_extended_card(bytes, &publication, finish),
    };
    rewritten.map_err(|error| unpublished(agent, &error))
}
