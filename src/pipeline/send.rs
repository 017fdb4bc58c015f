//! Which endpoint a call goes to, and what is tried again.
//!
//! A call with an owner goes to the owner or nowhere. A send that was written is never sent again; a read may be, once, on
//! its owner or, without one, elsewhere. Every other try is paid from the agent's retry budget. What an endpoint did is
//! told to the balance as it happens; a caller who leaves tells nothing, because this is dropped then.

use std::sync::Arc;
use std::time::Instant;

use super::reading::Reading;
use super::{Agent, Pipeline};
use crate::a2a::{Call, ContextId, Operation};
use crate::affinity::{Owner, Reservation, Reserved};
use crate::authorize::{Ownership, Permit};
use crate::balance::{Ask, Endpoint, Selected};
use crate::observe::Reason;
use crate::respond::body::Held;
use crate::respond::{Reject, answer};
use crate::upstream::{Answer, Outgoing};

impl Pipeline {
    /// To the owner, or to nobody; new work to the chosen endpoint, and to another one when it cannot have been seen. With a
    /// `reading` it is awaited without its caller too.
    #[expect(clippy::too_many_arguments, reason = "what a call is sent with, once")]
    pub(super) async fn send(
        &self,
        agent: &Agent,
        permit: &Permit,
        ownership: &Ownership,
        mut way: Way,
        mut outgoing: Box<Outgoing>,
        held: &mut Held,
        reading: Option<&Reading>,
    ) -> Result<Sent, Reject> {
        let retries = &agent.endpoints.retries;
        retries.called(held.record.started());
        let mut tried = Vec::new();
        let mut refused = None;
        // A read may be repeated once, wherever it broke off.
        let mut repeatable = permit.call().operation.is_read();
        loop {
            let endpoint;
            (endpoint, way) = match self.select(agent, permit, ownership, way, &tried) {
                Ok(selected) => selected,
                // What the last endpoint did says more than that there is no other.
                Err(reject) if reject.reason == Reason::UpstreamConnect => return Err(refused.unwrap_or(reject)),
                Err(reject) => return Err(reject),
            };
            held.record.endpoint = Some(endpoint.url.clone());
            let selected = match endpoint.enter() {
                Some(selected) => selected,
                None => Box::pin(place(agent, endpoint)).await?,
            };
            let again = repeatable.then(|| outgoing.clone());
            let sent = match reading {
                None => {
                    let sent = agent.upstream.send(permit, &selected, outgoing).await;
                    sent.map(|answer| (selected, answer))
                }
                Some(reading) => Box::pin(reading.send(&self.drain, &mut held.slot, selected, outgoing)).await,
            };
            let failure = match sent {
                Ok((selected, answer)) => {
                    return Ok(Sent {
                        selected,
                        answer,
                        reservation: way.reservation(),
                    });
                }
                Err(failure) => failure,
            };
            let reject = answer::failed(&agent.metrics, &failure.error);
            if let Some(fault) = failure.error.fault() {
                endpoint.failed(fault, &permit.principal().id);
            }
            tried.push(endpoint.index);
            let broke = failure.is_of_dead_connection();
            outgoing = match (&way, failure.unsent, again) {
                (Way::Owned(_), Some(_), _) => return Err(Reject::new(Reason::OwnerUnavailable)),
                // The endpoint is at work, for other calls of the conversation too.
                (Way::Reserved(held), _, _) if reject.reason == Reason::UpstreamBusy && held.is_shared() => {
                    return Err(reject);
                }
                (Way::Free | Way::Reserved(_), Some(unsent), _) if tried.len() < agent.endpoints.configured().len() => {
                    unsent
                }
                (Way::Owned(_) | Way::Free, None, Some(again)) if broke => {
                    repeatable = false;
                    if tried.len() >= agent.endpoints.configured().len() {
                        tried.clear();
                    }
                    again
                }
                (Way::Owned(_) | Way::Free | Way::Reserved(_), _, _) => return Err(reject),
            };
            let now = Instant::now();
            let granted = if broke { retries.repeat(now) } else { retries.retry(now) };
            if !granted {
                agent.metrics.retries_refused.inc();
                return Err(reject);
            }
            agent.metrics.upstream_retries.inc();
            refused = Some(reject);
        }
    }

    /// The endpoint of the next try. A conversation that no endpoint is known for is reserved before its call is sent.
    fn select<'a>(
        &self,
        agent: &'a Agent,
        permit: &Permit,
        ownership: &Ownership,
        way: Way,
        tried: &[usize],
    ) -> Result<(&'a Arc<Endpoint>, Way), Reject> {
        if let Way::Owned(owner) = &way {
            return Ok((agent.endpoints.owner(owner)?, way));
        }
        let chosen = agent.endpoints.choose(ask(permit), tried)?;
        let Some(context) = begun(agent, ownership, permit.call()) else {
            return Ok((chosen, way));
        };
        let owner = || self.affinity.context(&agent.metrics.name, context);
        let permits = |owner: &str| permit.may_use(ownership, owner);
        let url = &chosen.url;
        let reserved = match way.reservation() {
            Some(reservation) => reservation.elsewhere(url, owner),
            None => agent.reservations.reserve(context, url, permit.owner(), permits, owner),
        };
        match reserved {
            Reserved::Owned(owner) if !permits(&owner.principal) => Err(Reject::new(Reason::TaskNotFound)),
            Reserved::Foreign => Err(Reject::new(Reason::TaskNotFound)),
            Reserved::Held(held) if held.endpoint() == url => Ok((chosen, Way::Reserved(held))),
            Reserved::Held(held) => Ok((agent.endpoints.owner(held.endpoint())?, Way::Reserved(held))),
            Reserved::Owned(Owner { endpoint, .. }) => Ok((agent.endpoints.owner(&endpoint)?, Way::Owned(endpoint))),
            Reserved::Unnamed => Ok((chosen, Way::Free)),
        }
    }
}

/// What decides the endpoint of a call.
pub(super) enum Way {
    /// The endpoint that owns its task or context.
    Owned(Arc<str>),
    /// The other calls that begin the same conversation.
    Reserved(Reservation),
    /// The balance.
    Free,
}

impl Way {
    fn reservation(self) -> Option<Reservation> {
        match self {
            Self::Reserved(reservation) => Some(reservation),
            Self::Owned(_) | Self::Free => None,
        }
    }
}

/// The context of a call that may begin a conversation, where there is a choice of endpoints or of owners for it.
fn begun<'a>(agent: &Agent, ownership: &Ownership, call: &'a Call) -> Option<&'a ContextId> {
    let begins = matches!(call.operation, Operation::Send | Operation::Stream);
    let chosen = agent.endpoints.all().len() > 1 || ownership.is_enforced();
    call.context.as_ref().filter(|_| begins && chosen)
}

/// A place at an endpoint that has none at once.
pub(super) async fn place(agent: &Agent, endpoint: &Arc<Endpoint>) -> Result<Selected, Reject> {
    agent.metrics.queued.inc();
    endpoint.wait().await.map_err(|error| {
        let reject = Reject::from(error);
        agent.metrics.upstream_failed(reject.reason);
        reject
    })
}

fn ask(permit: &Permit) -> Ask<'_> {
    let principal = permit.principal();
    Ask {
        context: permit.call().context.as_ref().map(ContextId::as_str),
        principal: (!principal.is_anonymous()).then_some(&*principal.id),
    }
}

/// A call that an endpoint has begun to answer.
pub(super) struct Sent {
    pub selected: Selected,
    pub answer: Answer,
    /// To be kept until the answer was learned from.
    pub reservation: Option<Reservation>,
}
