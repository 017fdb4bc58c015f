//! A whole answer: read to its end, checked and learned from, whether its caller still waits for it or not.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::naming::Fresh;
use super::{Agent, Pipeline};
use crate::a2a::answer::Whole;
use crate::a2a::translate::Pair;
use crate::a2a::{Call, Dialect, Operation, Revealed, json};
use crate::affinity::{Affinity, Inquiry};
use crate::authorize::{Ownership, Permit};
use crate::balance::{Fault, Selected};
use crate::drain::Drain;
use crate::observe::{Outcome, Reason, Witness};
use crate::ratelimit::{Beginning, Place, Slot, Stage};
use crate::respond::answer::Standing;
use crate::respond::learn::{Learner, Naming};
use crate::respond::stream::UntilLearned;
use crate::respond::{Reject, answer};
use crate::upstream::{self, Answer, Body, Failure, Head, Outgoing};

/// An answer of so many bytes does not wait for others.
const LARGE: usize = 16 * 1024;

/// What that needs; nothing of it is the caller's own.
#[derive(Clone)]
pub(super) struct Reading {
    pub agent: Arc<Agent>,
    pub permit: Permit,
    pub ownership: Ownership,
    pub affinity: Arc<Affinity>,
    pub naming: Option<Arc<Naming>>,
    pub fresh: Option<Arc<Fresh>>,
    /// Of the task that the call may begin.
    pub place: Option<Arc<Place>>,
    /// Of a call that may make a task.
    pub witness: Option<Arc<Witness>>,
    /// What the agent speaks.
    pub speaks: Dialect,
    /// Where the caller speaks something else.
    pub pair: Option<Arc<Pair>>,
    pub limits: json::Limits,
}

/// An answer whose head is good.
pub(super) struct Begun {
    pub selected: Selected,
    pub standing: Standing,
    pub head: Head,
    pub body: Body,
}

/// The call names no task, or one that nobody has.
pub(super) fn begins_task(call: &Call, fresh: Option<&Fresh>) -> bool {
    matches!(call.operation, Operation::Send | Operation::Stream) && (call.task.is_none() || fresh.is_some())
}

/// A task without a record that its answer tells of is new. Where tasks have no owners, a task that the call names may have
/// lost its record.
pub(super) fn makes_task(call: &Call, ownership: &Ownership) -> bool {
    matches!(call.operation, Operation::Send | Operation::Stream) && (call.task.is_none() || ownership.is_enforced())
}

impl Pipeline {
    /// Asks the limits on tasks that begin. The place, if there is a limit on open ones, is the task's until its record stands for it.
    pub(super) async fn place(
        &self,
        agent: &Agent,
        client: IpAddr,
        permit: &Permit,
        slot: &mut Slot,
    ) -> Result<Option<Arc<Place>>, Reject> {
        let begins = Beginning {
            open: self.affinity.open_tasks(),
            agent: &agent.metrics.name,
            owner: permit.owner(),
        };
        let stage = Stage::Begin(&permit.principal().id, begins);
        let budget = agent.limiter.admit(slot, client, stage);
        budget.await.map_err(|it| agent.limited(&it))?;
        Ok(slot.take_place().map(Arc::new))
    }
}

impl Reading {
    pub fn learner(&self, selected: &Selected) -> Learner {
        Learner {
            affinity: self.affinity.clone(),
            metrics: self.agent.metrics.clone(),
            endpoint: selected.endpoint().url.clone(),
            permit: self.permit.clone(),
            ownership: self.ownership.clone(),
            naming: self.naming.clone(),
            witness: self.witness.clone(),
        }
    }

    /// The call begins a task under a name of its caller's, who cannot know whether it did when it leaves, and asks again.
    pub fn begins(&self) -> bool {
        let begins = self.naming.as_ref().is_some_and(|naming| naming.beginning.is_some());
        self.fresh.is_some() || begins && !self.permit.call().operation.streams()
    }

    /// What an agent of 0.1 streams is about the task that its caller named, who may leave before an event tells of it.
    pub async fn claim(&self, selected: &Selected) -> Result<(), Reject> {
        let Some(fresh) = &self.fresh else {
            return Ok(());
        };
        let revealed = [Revealed {
            task: Some(fresh.task.clone()),
            context: self.permit.call().context.clone(),
            ..Revealed::default()
        }];
        let learner = self.learner(selected);
        if let Some(confirming) = learner.learn_at_once(&revealed)? {
            learner.confirmed(confirming.await, &revealed)?;
        }
        Ok(())
    }

    /// Sends such a call. If its caller leaves, the answer is awaited all the same, for as long as that of a read, and learned
    /// from; the name is held meanwhile, and so are the caller's places.
    pub async fn send(
        &self,
        drain: &Drain,
        slot: &mut Option<Slot>,
        selected: Selected,
        outgoing: Box<Outgoing>,
    ) -> Result<(Selected, Answer), Failure> {
        let (mut tell, told) = oneshot::channel();
        let url = selected.endpoint().url.clone();
        let reading = self.clone();
        let work = async move {
            let upstream = &reading.agent.upstream;
            let sent = {
                let sending = pin!(upstream.send(&reading.permit, &selected, outgoing));
                let left = async {
                    tell.closed().await;
                    tokio::time::sleep(upstream.patience()).await;
                };
                tokio::select! {
                    sent = sending => sent,
                    () = left => return,
                }
            };
            if let Err(Ok((selected, answer))) = tell.send(sent.map(|answer| (selected, answer))) {
                reading.take_in(selected, answer).await;
            }
        };
        let ((), kept) = drain.finishing(slot.take(), work).await;
        *slot = kept;
        // As long as somebody waits, the work tells before it ends.
        told.await.unwrap_or_else(|_| {
            Err(Failure {
                error: upstream::Error::FirstByte { endpoint: url },
                unsent: None,
            })
        })
    }

    /// An answer that nobody waits for.
    async fn take_in(&self, selected: Selected, answer: Answer) {
        let Answer { mut parts, body } = answer;
        let standing = Standing::of(&parts);
        if answer::check_head(&parts, self.speaks).is_err() {
            return;
        }
        let head = Head::of(&mut parts, &body, self.speaks);
        if answer::is_stream(&parts, &head, self.permit.call().operation) {
            let _nobody_asks = self.claim(&selected).await;
            return;
        }
        let begun = Begun {
            selected,
            standing,
            head,
            body,
        };
        let until_learned = UntilLearned {
            reservation: None,
            under_way: None,
            place: self.place.clone(),
        };
        let _nobody_asks = self.finish(begun, until_learned).await;
    }

    pub async fn finish(
        &self,
        begun: Begun,
        until_learned: UntilLearned,
    ) -> Result<(Whole, Outcome, Vec<Revealed>), Reject> {
        let Begun {
            selected,
            standing,
            head,
            body,
        } = begun;
        let learner = self.learner(&selected);
        let (agent, endpoint) = (&self.agent, selected.endpoint());
        let principal = &self.permit.principal().id;
        let read = agent.upstream.whole(head, body, endpoint).await;
        let whole = read.map_err(|error| {
            if let Some(fault) = error.fault() {
                endpoint.failed(fault, principal);
            }
            answer::failed(&agent.metrics, &error)
        })?;
        let read = answer::check(&whole, self.speaks, self.permit.call(), self.limits);
        // What is translated is read by other rules, which must not find a task where there was none to learn of.
        let read = read.and_then(|mut read| {
            if let Some(pair) = &self.pair
                && (read.is_strange || pair.complete(&mut read).is_err())
            {
                return Err(Reason::UpstreamBadAnswer);
            }
            Ok(read)
        });
        match standing.told(self.speaks, &whole).with(read.is_ok()) {
            Some(true) => endpoint.succeeded(),
            Some(false) => endpoint.failed(Fault::Answer, principal),
            None => {}
        }
        let read = read.map_err(|reason| {
            agent.metrics.upstream_failed(reason);
            Reject::new(reason)
        })?;
        if let Inquiry::Asking(asking) = learner.inquire(&read.revealed) {
            asking.await;
        }
        let begun = learner.begun(&read.revealed, read.error.is_some());
        // The others of this turn would push a large answer out of the cache: that costs more than a write of its own.
        let learned = if whole.body.len() < LARGE {
            learner.learn(&begun)
        } else {
            learner.learn_at_once(&begun)
        };
        if let Some(confirming) = learned? {
            learner.confirmed(confirming.await, &begun)?;
        }
        drop(until_learned);
        let outcome = if read.error.is_some() {
            Outcome::AgentError
        } else {
            Outcome::Ok
        };
        let revealed = read.revealed;
        Ok((whole, outcome, revealed))
    }
}
