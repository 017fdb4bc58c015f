//! A notification on its way from an agent to the webhook of a caller of another generation.
//!
//! What is sealed in the address is the credential: nothing is read before it was opened. The task must be the one of the
//! webhook, and its owner's; what the notification tells of it is learned before it goes on. Where the webhook wants the whole
//! task and the agent told less, the agent is asked for it: that get is all that a notification permits. The agent is
//! answered with success only after the webhook took it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header, request};
use hyper::body::Incoming;

use super::send::{Way, place};
use super::translate::{ask, question};
use super::{Agent, Enforced, Pipeline, Spoken};
use crate::a2a::translate::{Notification, Pair, Relayed};
use crate::a2a::{Binding, Dialect, Generation, Revealed, TaskId, v0_1};
use crate::affinity::{Alias, Inquiry, Knowledge};
use crate::authorize::{self, Permit};
use crate::gather::probe::Asker;
use crate::http::{body, hygiene};
use crate::observe::{Outcome, Reason};
use crate::owners::Named;
use crate::parse;
use crate::push::{Relay, Ticket};
use crate::respond::body::Held;
use crate::respond::learn::{self, Learner, Naming};
use crate::respond::{Body, Reject, answer};
use crate::route::RouteMatch;

/// What became of the question whether there is a webhook.
const CONFIRMED: &str = "confirmed";

/// Longest text that comes back to an agent that asks.
const MOST_ECHOED: usize = 256;

/// What became of a notification of which there was nothing to tell.
const UNTOLD: &str = "untold";

impl Pipeline {
    /// The answer to the agent.
    pub(super) async fn deliver(
        &self,
        route: RouteMatch,
        sealed: &str,
        client: IpAddr,
        parts: &request::Parts,
        body: Incoming,
        mut held: Held,
    ) -> Result<Response<Body>, (Reject, Held)> {
        let agent = match self.agent(route) {
            Ok(agent) => agent,
            Err(reject) => return Err((reject, held)),
        };
        let delivered = if parts.method == Method::GET {
            self.confirm(agent, sealed, parts, &mut held)
                .map(|token| (CONFIRMED, token))
        } else {
            let relayed = self.relay(agent, route, sealed, client, parts, body, &mut held).await;
            relayed.map(|result| (result, Bytes::new()))
        };
        match delivered {
            Ok((result, told)) => {
                agent.metrics.pushed(result);
                held.record.status = 200;
                let request_id = held.record.id.header();
                let echoes = !told.is_empty();
                let mut response = Response::new(Body::whole(told, Outcome::Delivered, held));
                let headers = response.headers_mut();
                headers.insert(hygiene::X_REQUEST_ID, request_id);
                if echoes {
                    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
                    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                }
                Ok(response)
            }
            Err(reject) => {
                agent.metrics.pushed(reject.reason.as_str());
                Err((reject, held))
            }
        }
    }

    /// An agent of 0.1 may ask at an address whether its notifications are wanted there, and expects its text back.
    fn confirm(&self, agent: &Agent, sealed: &str, parts: &request::Parts, held: &mut Held) -> Result<Bytes, Reject> {
        self.ticket(agent, sealed, held)?;
        let mut query = parts.uri.query().unwrap_or_default().split('&');
        let token = query.find_map(|pair| pair.strip_prefix("validationToken="));
        // Nothing that a reader could take for more than a text.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let token = token.filter(|token| (1..=MOST_ECHOED).contains(&token.len()) && token.bytes().all(is_plain));
        let token = token.ok_or_else(|| Reject::new(Reason::PushUnreadable))?;
        held.record.detail = Some(CONFIRMED);
        Ok(Bytes::copy_from_slice(token.as_bytes()))
    }

    /// What is sealed in an address, of as many as may come.
    fn ticket<'a>(&self, agent: &'a Agent, sealed: &str, held: &mut Held) -> Result<(&'a Relay, Ticket), Reject> {
        let relay = agent.relay.as_ref().ok_or_else(|| Reject::new(Reason::NoRoute))?;
        let ticket = relay
            .open(sealed, self.observer.clock.unix_seconds())
            .inspect_err(|unknown| held.record.detail = Some(unknown.as_str()))
            .map_err(|_| Reject::new(Reason::PushUnknown))?;
        held.record.principal = Some(ticket.registrant.clone());
        // Who is revoked is told nothing more.
        if self.verifiers.revoked().names_id(&ticket.registrant) {
            held.record.detail = Some("revoked");
            return Err(Reject::new(Reason::PushUnknown));
        }
        if !relay.admit() {
            return Err(Reject::new(Reason::RateLimited));
        }
        Ok((relay, ticket))
    }

    #[expect(clippy::too_many_arguments, reason = "what a request is made of, once")]
    async fn relay(
        &self,
        agent: &Arc<Agent>,
        route: RouteMatch,
        sealed: &str,
        client: IpAddr,
        parts: &request::Parts,
        body: Incoming,
        held: &mut Held,
    ) -> Result<&'static str, Reject> {
        let (relay, ticket) = self.ticket(agent, sealed, held)?;
        let _place = relay.enter().ok_or_else(|| Reject::new(Reason::PushBusy))?;
        let enforced = agent.in_service()?;
        if !parse::is_a2a_json(parts) {
            return Err(Reject::new(Reason::UnsupportedMediaType));
        }
        let bounds = body::Bounds {
            bytes: relay.body_bytes(),
            idle: Some(self.body_idle),
            whole: Some(self.body_whole),
        };
        let read = body::read_whole(body, bounds).await;
        let bytes = read.map_err(|error| Reject::from(&parse::Error::Body(error)))?;
        held.record.bytes_in = bytes.len() as u64;
        let pair = enforced.pair_of(&ticket);
        let read = pair.notification(&bytes, self.json);
        let Notification { revealed, relayed } = read.map_err(|_| Reject::new(Reason::PushUnreadable))?;
        drop(bytes);
        learn::note(&mut held.record, std::slice::from_ref(&revealed));
        if ticket.task.is_some() && revealed.task != ticket.task {
            held.record.detail = Some("another_task");
            return Err(Reject::new(Reason::PushForeign));
        }
        let relayed = match &revealed.task {
            None => relayed,
            Some(task) => {
                // Before its record is looked for: a call that ends meanwhile has made one.
                let vouched = ticket.task.is_some() || relay.makes(sealed, task);
                let judging = self.judge(agent, &enforced, route, &ticket, &pair, task, vouched, client, held);
                let learner = Box::pin(judging).await?;
                learn(&learner, &revealed).await?;
                match relayed {
                    Relayed::Task => {
                        let asking = self.ask_task(agent, &pair, &learner, held);
                        Relayed::Body(Box::pin(asking).await?)
                    }
                    Relayed::Body(_) | Relayed::Nothing => relayed,
                }
            }
        };
        let Relayed::Body(body) = relayed else {
            held.record.detail = Some(UNTOLD);
            return Ok(UNTOLD);
        };
        relay.post(&ticket, body).await.map_err(|failure| {
            held.record.detail = Some(failure.as_str());
            answer::undelivered(&agent.metrics, &failure, failure.as_str())
        })?;
        Ok(Outcome::Delivered.as_str())
    }

    /// What the task that is told of may be learned with: it is its owner's, and some endpoint has it.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a notification has become by then, used once"
    )]
    async fn judge(
        &self,
        agent: &Arc<Agent>,
        enforced: &Enforced,
        route: RouteMatch,
        ticket: &Ticket,
        pair: &Pair,
        task: &TaskId,
        vouched: bool,
        client: IpAddr,
        held: &mut Held,
    ) -> Result<Learner, Reject> {
        let generation = match pair.agent.generation {
            // Its record must not say that a caller of 0.1 began the task.
            Generation::V0_1 => ticket.generation,
            spoken @ (Generation::V0_3 | Generation::V1_0) => spoken,
        };
        let notified = authorize::notified(route, &ticket.owner, task.clone(), generation, vouched);
        let named = Named {
            affinity: &self.affinity,
            agent: &agent.metrics.name,
            call: notified.call(),
        };
        let knowledge = match named.inquire() {
            Inquiry::Settled => Knowledge::Whole,
            Inquiry::Away => Knowledge::Partial,
            Inquiry::Asking(asking) => asking.await,
        };
        let ownership = &enforced.ownership;
        let mut owners = named.owners();
        if knowledge == Knowledge::Partial {
            owners = owners.alone(ownership, named.call)?;
        }
        let permit = authorize::told(notified, ownership, &owners).map_err(|error| match error {
            authorize::Error::Unrecorded => Reject::from(error),
            authorize::Error::TaskNotFound
            | authorize::Error::NotAllowed
            | authorize::Error::Ownerless
            | authorize::Error::Version => {
                agent.metrics.owner_conflicts.inc();
                held.record.detail = Some(owners.why_not_found());
                Reject::new(Reason::PushForeign)
            }
        })?;
        let endpoint = match owners.endpoint(&permit, ownership)? {
            Some(endpoint) => endpoint,
            None => self.endpoint_of(agent, enforced, &permit, pair, client).await?,
        };
        held.record.endpoint = Some(endpoint.clone());
        let naming = match &ticket.named {
            None => None,
            Some(named) => Some(self.naming_of(agent, ticket, named, task, vouched).await?),
        };
        Ok(Learner {
            affinity: self.affinity.clone(),
            metrics: agent.metrics.clone(),
            endpoint,
            permit,
            ownership: ownership.clone(),
            naming,
            // Of the call under way.
            witness: held.record.witness(),
        })
    }

    /// The name of a caller of 0.1, which must be that of this task: it is all that the webhook is told of which task it is. What is
    /// told before the call is answered that makes the task tells what the name stands for.
    async fn naming_of(
        &self,
        agent: &Agent,
        ticket: &Ticket,
        named: &v0_1::Named,
        task: &TaskId,
        vouched: bool,
    ) -> Result<Arc<Naming>, Reject> {
        let name = &*agent.metrics.name;
        let alias = Alias::new(&ticket.registrant, &TaskId::new(&named.task));
        let knowledge = match self.affinity.inquire_alias(name, &alias) {
            Inquiry::Settled => Knowledge::Whole,
            Inquiry::Away => Knowledge::Partial,
            Inquiry::Asking(asking) => asking.await,
        };
        let is_its_own = match self.affinity.alias(name, &alias) {
            Some(meaning) => meaning.task == *task,
            None if knowledge == Knowledge::Partial => return Err(Reject::new(Reason::OwnerUnavailable)),
            None => vouched,
        };
        if !is_its_own {
            return Err(Reject::new(Reason::PushForeign));
        }
        Ok(Arc::new(Naming {
            alias,
            session: named.session.clone(),
            beginning: None,
        }))
    }

    /// Where a task is that no answer has told of yet: a notification may come before the answer to the send.
    async fn endpoint_of(
        &self,
        agent: &Arc<Agent>,
        enforced: &Enforced,
        permit: &Permit,
        pair: &Pair,
        client: IpAddr,
    ) -> Result<Arc<str>, Reject> {
        if let [only] = agent.endpoints.all() {
            return Ok(only.url.clone());
        }
        let asker = Asker { client, slot: None };
        let outgoing = question(pair.agent, pair.ask_task(permit.call())?);
        let found = self.find(agent, permit, pair.agent, &enforced.ownership, asker, &outgoing);
        match found.await {
            Ok(Way::Owned(endpoint)) => Ok(endpoint),
            Ok(Way::Free | Way::Reserved(_)) => Err(Reject::new(Reason::UpstreamBusy)),
            // None of the agent's endpoints knows the task that one of them told of.
            Err(reject) if reject.reason == Reason::TaskNotFound => Err(Reject::new(Reason::PushForeign)),
            Err(reject) => Err(reject),
        }
    }

    /// The notification of the task as the agent tells it by now.
    async fn ask_task(
        &self,
        agent: &Arc<Agent>,
        pair: &Pair,
        learner: &Learner,
        held: &mut Held,
    ) -> Result<Bytes, Reject> {
        let permit = &learner.permit;
        let outgoing = question(pair.agent, pair.ask_task(permit.call())?);
        let endpoint = agent.endpoints.owner(&learner.endpoint)?;
        let selected = match endpoint.enter() {
            Some(selected) => selected,
            None => place(agent, endpoint).await?,
        };
        let whole = ask(agent, permit, pair.agent, &selected, outgoing).await?;
        let bad = || Reject::new(Reason::UpstreamBadAnswer);
        let read = answer::check(&whole, pair.agent, permit.call(), self.json).map_err(Reject::new)?;
        let asked = matches!(read.revealed.as_slice(), [one] if one.task == permit.call().task);
        if read.error.is_some() || read.is_strange || !asked {
            held.record.detail = Some("task_not_told");
            return Err(bad());
        }
        if let [revealed] = read.revealed.as_slice() {
            learn(learner, revealed).await?;
        }
        pair.task_notification(&whole.body, &read.revealed).map_err(|_| bad())
    }
}

impl Enforced {
    /// Between the generation of a webhook and what the agent speaks.
    fn pair_of(&self, ticket: &Ticket) -> Pair {
        let caller = Dialect {
            generation: ticket.generation,
            binding: Binding::JsonRpc,
        };
        // The agent may have learned the other generation since.
        let spoken = self.spoken(ticket.generation);
        Pair {
            caller,
            agent: spoken.map_or(caller, Spoken::dialect),
            tenant: spoken.and_then(|spoken| spoken.tenant.clone()),
            named: ticket.named.clone(),
            asked: None,
        }
    }
}

async fn learn(learner: &Learner, revealed: &Revealed) -> Result<(), Reject> {
    let one = std::slice::from_ref(revealed);
    let foreign = || Reject::new(Reason::PushForeign);
    if let Some(confirming) = learner.learn(one).map_err(|_| foreign())? {
        learner.confirmed(confirming.await, one).map_err(|_| foreign())?;
    }
    Ok(())
}
