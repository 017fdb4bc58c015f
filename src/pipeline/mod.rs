//! The life of a request: the stages in order.
//!
//! Read `Pipeline::call` first. Each stage takes the value that the one before it made and gives its own, so that a check
//! cannot be skipped. Whatever fails becomes a `Reject`, and `respond::reject` alone knows what that looks like.

mod agent;
mod catalogue;
mod current;
mod deliver;
mod enter;
mod envelope;
mod explain;
mod extended;
mod front;
mod gathering;
mod judging;
mod naming;
mod reading;
mod receive;
mod send;
mod translate;
mod usable;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderName, HeaderValue, Method, Request, Response, header, request};
use hyper::body::Incoming;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::a2a::{Addressed, Call, Operation, RpcId, grpc, json};
use crate::affinity::{Affinity, Inquiry, Knowledge};
use crate::authenticate::{self, Principal, Verifiers};
use crate::authorize::{self, Permit, Ruled, Rules};
use crate::drain::Drain;
use crate::envelope::Desk as EnvelopeDesk;
use crate::gather::probe::Asker;
use crate::gather::token::Tokens;
use crate::http::hops::Hops;
use crate::http::{forwarded, hygiene};
use crate::observe::record::Observer;
use crate::observe::{Outcome, Reason, Record, TraceId};
use crate::owners::Named;
use crate::push::Desk;
use crate::ratelimit::{Metered, Slot, Stage};
use crate::respond::answered::Answered;
use crate::respond::body::Held;
use crate::respond::reject::Form;
use crate::respond::{Body, Reject};
use crate::route::{self, Place, RouteMatch, Routes};
use crate::upstream::{self, InName, Outgoing, Subject, Withheld};
use crate::{a2a, card, parse};

pub use self::agent::{Agent, Enforced, Spoken};
pub use self::catalogue::{Budget, Catalogue};
pub use self::current::{Current, Downstream};
use self::enter::Entry;
pub use self::explain::Explanation;
pub use self::front::{Behind, FrontDoor, Ground as FrontGround};
pub use self::judging::{CallPolicy, ListenerRule, ListenerRules, SkillDemand};
use self::judging::{Case, Shown};
use self::reading::Reading;
use self::send::Way;
use self::translate::{Head, Translating};

/// One configuration at work: everything that its requests share. Built by `app`, replaced whole by a reload.
#[derive(Clone)]
pub struct Pipeline {
    /// Another one than that of every other one of the process; `Current` gives it.
    pub version: u64,
    /// Cancelled when another one takes the place of this one, and at the drain deadline.
    pub until: CancellationToken,
    pub routes: Routes,
    pub agents: Vec<Arc<Agent>>,
    pub listeners: ListenerRules,
    /// For listeners without rules.
    pub open: Rules,
    pub verifiers: Arc<Verifiers>,
    pub affinity: Arc<Affinity>,
    pub observer: Arc<Observer>,
    pub drain: Drain,
    pub head: hygiene::Bounds,
    pub hops: Arc<Hops>,
    /// By which agents are told who calls: none comes from a caller.
    pub own_headers: Arc<[HeaderName]>,
    pub json: json::Limits,
    pub tokens: Arc<Tokens>,
    /// `None`: the envelope protocol is off.
    pub envelope: Option<Arc<EnvelopeDesk>>,
    /// `None`: there is none.
    pub front: Option<Arc<FrontDoor>>,
    /// By which others check what is signed here, if anything is.
    pub keys: Option<Arc<card::Published>>,
    /// Whose pages may read what is published, if anybody's.
    pub cors: Option<card::Cors>,
    /// `None`: agents are not listed.
    pub catalogue: Option<Arc<Catalogue>>,
    pub body_idle: std::time::Duration,
    pub body_whole: std::time::Duration,
}

/// Who makes a call and where it goes, as the message has shown that it stands for.
struct Delegated {
    principal: Arc<Principal>,
    /// Its session is kept there.
    endpoint: Option<Arc<str>>,
}

impl Pipeline {
    /// The service of one connection.
    ///
    /// Here and below, futures are kept small: each call writes its own once, into cold memory. An `async fn` holds what it
    /// is given by value twice, and once more in each that hands it on.
    pub fn serve(
        self: Arc<Self>,
        downstream: Arc<Downstream>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send {
        let (mut parts, body) = request.into_parts();
        authenticate::prepare(&mut parts);
        async move {
            let client = forwarded::client(
                downstream.peer.address.ip(),
                &parts.headers,
                &downstream.trusted_proxies,
            );
            let record = Record::begin(&self.observer, &downstream.listener, client, parts.method.clone());
            let mut held = Held { record, slot: None };
            if self.observer.audit.is_on() {
                held.record.trace = TraceId::of(&parts.headers);
            }
            // Nothing may be known of a call, but whoever posts wants to read JSON-RPC.
            let mut form = match parts.method {
                _ if hygiene::is_grpc(&parts) => Form::Grpc(grpc::generation(parts.uri.path())),
                Method::POST => Form::JsonRpc(RpcId::null()),
                _ => Form::Plain,
            };
            let mut deadline = None;
            let answered = match self.enter(&downstream, &parts, &mut held) {
                Ok(Entry::Card(current)) => self.card(current.as_deref(), &parts, held),
                Ok(Entry::Published(published)) => Ok(self.published(&published, &parts, held)),
                Ok(Entry::Catalogue(catalogue, document)) => {
                    Box::pin(self.catalogue(&catalogue, document, client, &downstream, &parts, held)).await
                }
                Ok(Entry::Preflight) => Ok(self.preflight(&parts, held)),
                Ok(Entry::Metadata(enforced)) => match &enforced.metadata {
                    Some(metadata) => Ok(self.published(metadata, &parts, held)),
                    None => Err((Reject::new(Reason::NoRoute), held)),
                },
                Ok(Entry::Call(route, addressed)) => {
                    match &addressed {
                        Addressed::JsonRpc => {}
                        Addressed::HttpJson(target) => form = Form::HttpJson(target.generation),
                        Addressed::Grpc(_) => {
                            deadline = hygiene::deadline(&parts.headers, held.record.started().into());
                        }
                    }
                    let called = match &self.front {
                        Some(front) if front.index == route.agent => Either::Right(Box::pin(self.at_front(
                            front,
                            route,
                            addressed,
                            client,
                            &downstream,
                            &mut parts,
                            body,
                            &mut held,
                        ))),
                        _ => Either::Left(self.call(
                            route,
                            addressed,
                            client,
                            &downstream,
                            &mut parts,
                            body,
                            &mut held,
                            None,
                        )),
                    };
                    match until(deadline, called).await {
                        Ok(answered) => Ok(answered.into_response(held, deadline)),
                        Err(reject) => Err((reject, held)),
                    }
                }
                Ok(Entry::Notification(route, sealed)) => {
                    form = Form::Plain;
                    Box::pin(self.deliver(route, &sealed, client, &parts, body, held)).await
                }
                Ok(Entry::Message) => Box::pin(self.converse(client, &downstream, &mut parts, body, held)).await,
                Err(reject) => Err((reject, held)),
            };
            let mut response = answered.unwrap_or_else(|(reject, held)| reject.response(form, held));
            if downstream.refusal.is_in_body() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response)
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a request is made of, once")]
    async fn call<B>(
        &self,
        route: RouteMatch,
        addressed: Addressed,
        client: IpAddr,
        downstream: &Arc<Downstream>,
        parts: &mut request::Parts,
        body: B,
        held: &mut Held,
        delegated: Option<&Delegated>,
    ) -> Result<Answered, Reject>
    where
        B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
    {
        let agent = self.agent(route)?;
        let enforced = agent.in_service()?;
        enforced.serves(&addressed)?;
        // A message that stands for a call has passed.
        if delegated.is_none() {
            self.hops.pass(parts)?;
        }
        // What an address may ask counts before anybody's credential is checked.
        let limited = |limited| agent.limited(&limited);
        // Those of a way in before it, which last as long as its own.
        let slot = held.slot.get_or_insert_default();
        let budget = agent.limiter.admit(slot, client, Stage::Address);
        budget.await.map_err(limited)?;
        let principal = match delegated {
            None => authenticate::identify(&enforced.requirement, &downstream.peer, client, parts)
                .await
                .inspect_err(|error| held.record.detail = Some(error.as_str()))
                .map_err(|error| Reject::from(&error))?,
            Some(delegated) => enforced.readmit(&delegated.principal)?,
        };
        held.record.principal = Some(principal.id.clone());
        let policies = self.policies(downstream, agent);
        let source = self.asked(downstream, agent, client);
        let admitted = authorize::route(route, principal, &enforced.ownership, policies, &source)
            .inspect_err(|error| held.record.detail = Some(error.as_str()))
            .map_err(Reject::from)?;
        let caller = &admitted.principal().id;
        let budget = agent.limiter.admit(slot, client, Stage::Caller(caller));
        budget.await.map_err(limited)?;

        let asked = hygiene::asked_version(parts)?;
        let mut bounds = self.bounds(agent, &enforced);
        if delegated.is_some() {
            // The message was within them, and what is made of it may be larger.
            bounds.body.bytes = usize::MAX;
        }
        let body = Metered { body, slot };
        let (call, bytes) = parse::read(&admitted, parts, &addressed, body, bounds)
            .await
            .map_err(|error| {
                held.record.detail = error.as_str().or(held.record.detail);
                Reject::from(&error)
            })?;
        note_call(&mut held.record, &call, &bytes);
        let caller = &admitted.principal().id;
        let stage = Stage::Call(caller, call.operation);
        let budget = agent.limiter.admit(slot, client, stage);
        budget.await.map_err(|it| limited(it).answering(&call))?;
        let shown = Shown {
            downstream,
            client,
            parts,
            delegated,
        };
        let about = Box::pin(self.about(agent, &enforced, admitted.principal(), (&call, &bytes), shown));
        let about = about.await.map_err(|reject| reject.answering(&call))?;
        let met_by = about.met_by().cloned();
        let (call, naming, fresh) = match naming::may_name(agent, &enforced, &call) {
            true => Box::pin(self.read_name(agent, &enforced, &admitted, call, &mut held.record)).await?,
            false => (call, None, None),
        };
        let checked = authorize::call(admitted, call, &enforced.served, asked.as_ref())
            .map_err(|(error, call)| Reject::from(error).serving(&enforced.served).answering(&call))?;
        let call = checked.call().clone();
        let in_form = |reject: Reject| reject.answering(&call);
        let named = Named {
            affinity: &self.affinity,
            agent: &agent.metrics.name,
            call: &call,
        };
        let told = match named.inquire() {
            Inquiry::Settled => None,
            Inquiry::Away => Some(Knowledge::Partial),
            Inquiry::Asking(asking) => Some(asking.await),
        };
        let mut owners = named.owners();
        if told == Some(Knowledge::Partial) {
            owners = owners.alone(&enforced.ownership, &call)?;
        }
        let permit = match authorize::tasks(checked, &enforced.ownership, &owners) {
            Ok(owned) => {
                let case = Case {
                    policies,
                    asked: source,
                    stated: about,
                    path: parts.uri.path(),
                };
                match self.allowed(owned, case, &owners, &mut held.record).map_err(in_form)? {
                    Ruled::Allowed(permit) => permit,
                    Ruled::Asks(pending) => {
                        let decided = Box::pin(judging::decided(pending, &mut held.record));
                        decided.await.map_err(in_form)?
                    }
                }
            }
            Err(error) => {
                held.record.detail = Some(owners.why_not_found());
                return Err(in_form(named.refused(error, told).await));
            }
        };
        let place = match reading::begins_task(&call, fresh.as_ref()) && agent.limiter.asks_beginnings() {
            true => {
                let slot = held.slot.get_or_insert_default();
                let place = Box::pin(self.place(agent, client, &permit, slot));
                place.await.map_err(in_form)?
            }
            false => None,
        };
        extended::known(agent, &enforced, permit.principal(), call.operation).map_err(in_form)?;
        held.record.admit(call.operation).map_err(|it| in_form(it.into()))?;
        let task_owner = owners.task_owner().filter(|_| agent.relay.is_some()).cloned();
        let owner = owners.endpoint(&permit, &enforced.ownership).map_err(in_form)?;
        let caller = (&**permit.principal(), met_by.as_deref());
        let mut outgoing = self.outgoing(agent, caller, downstream, client, parts, asked, &held.record, bytes);
        if let Some(obtaining) = agent.upstream.obtain(&outgoing.in_name) {
            obtaining.await.map_err(|error| in_form(Reject::from(&error)))?;
        }
        let ownership = &enforced.ownership;
        // One endpoint's list would not be all of it, or would show tasks of others.
        let gathered = call.operation == Operation::List && (agent.is_replicated() || ownership.is_enforced());
        let head = Head {
            addressed: &addressed,
            path: match route.place {
                Place::Below { base } => parts.uri.path().get(base..).unwrap_or_default(),
                Place::Rpc | Place::Card | Place::Metadata => "",
            },
            parts,
            came: held.record.started().into(),
        };
        let desk = || self.desk(agent, &permit, task_owner);
        let whole = match enforced.owes_session(&call) {
            true => Box::pin(self.with_session(agent, &enforced, &permit, owner.as_ref(), &outgoing)).await,
            false => Ok(None),
        };
        let whole = whole.map_err(in_form)?;
        let told = whole.as_ref().unwrap_or(&call);
        let translating = Translating::begin(&enforced, told, head, &mut outgoing, gathered, desk, naming);
        let translating = translating.map_err(in_form)?;
        if enforced.fetches(call.operation) {
            let record = &mut held.record;
            let answered = extended::ask(self, downstream, agent, &permit, outgoing, translating, record);
            return Box::pin(answered).await.map(extended::private).map_err(in_form);
        }
        if gathered {
            let spoken = enforced.spoken(call.generation).map(Spoken::dialect);
            let speaks = spoken.unwrap_or(call.dialect());
            let listed = Box::pin(self.list(agent, &permit, &enforced, speaks, owner, &outgoing, &mut held.record));
            let listed = listed.await.map_err(in_form)?;
            return match &translating {
                Some(translating) => translating.finish_list(&call, listed).map_err(in_form),
                None => Ok(listed),
            };
        }
        let way = match owner.or_else(|| delegated?.endpoint.clone()) {
            Some(owner) => Way::Owned(owner),
            // Where tasks have owners, a task without a record has been refused before.
            None if call.task.is_some() && agent.is_replicated() => {
                let asker = Asker {
                    client,
                    slot: held.slot.as_mut().map(Slot::share),
                };
                let speaks = translating.as_ref().map_or(call.dialect(), |it| it.pair.agent);
                let found = Box::pin(self.find(agent, &permit, speaks, ownership, asker, &outgoing));
                match found.await {
                    Err(nobodys) if nobodys.reason == Reason::TaskNotFound && enforced.may_begin(&call) => Way::Free,
                    found => found.map_err(in_form)?,
                }
            }
            None => Way::Free,
        };
        let reading = Reading {
            agent: agent.clone(),
            permit,
            ownership: ownership.clone(),
            affinity: self.affinity.clone(),
            naming: translating.as_ref().and_then(|it| it.naming.clone()),
            fresh: fresh.map(Arc::new),
            place,
            witness: reading::makes_task(&call, ownership)
                .then(|| held.record.witness())
                .flatten(),
            // What goes on as it came came in the agent's own dialect.
            speaks: translating.as_ref().map_or(call.dialect(), |it| it.pair.agent),
            pair: translating.as_ref().map(|it| it.pair.clone()),
            limits: self.json,
        };
        let awaited = reading.begins().then_some(&reading);
        let sent = self
            .send(agent, &reading.permit, ownership, way, outgoing, held, awaited)
            .await
            .map_err(in_form)?;
        let received = self.receive(reading, downstream, sent, translating, held).await;
        let is_card = call.operation == Operation::ExtendedCard;
        let private = |received| if is_card { extended::private(received) } else { received };
        received.map(private).map_err(in_form)
    }

    /// For the webhooks of a call, where they are relayed.
    fn desk(&self, agent: &Agent, permit: &Permit, task_owner: Option<Arc<str>>) -> Option<Desk> {
        let relay = agent.relay.clone()?;
        let call = permit.call();
        Some(Desk {
            relay,
            registrant: permit.owner().clone(),
            owner: task_owner.unwrap_or_else(|| permit.owner().clone()),
            task: call.task.clone(),
            generation: call.generation,
            named: None,
            now: self.observer.clock.unix_seconds(),
            under_way: OnceLock::new(),
        })
    }

    fn bounds(&self, agent: &Agent, enforced: &Enforced) -> parse::Bounds {
        // Those of 0.1 are an agent's own.
        let of_0_1 = || enforced.is_of_0_1().then_some(a2a::v0_1::Methods::Strict);
        parse::Bounds {
            body: crate::http::body::Bounds {
                bytes: agent.body_bytes,
                idle: Some(self.body_idle),
                whole: Some(self.body_whole),
            },
            json: self.json,
            v0_1: agent.v0_1.or_else(of_0_1),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the head of a request is made of all of these, once"
    )]
    fn outgoing(
        &self,
        agent: &Agent,
        (principal, met_by): (&Principal, Option<&Principal>),
        downstream: &Downstream,
        client: IpAddr,
        parts: &mut request::Parts,
        version: Option<HeaderValue>,
        record: &Record,
        body: Bytes,
    ) -> Box<Outgoing> {
        let verifiers = &self.verifiers;
        let withheld = if !agent.forward_credentials {
            Withheld::All(verifiers.places())
        } else if principal.is_anonymous() {
            Withheld::Nothing
        } else {
            let others = verifiers.places().clone().but(&verifiers.places_of(principal));
            Withheld::Others(match met_by {
                Some(met_by) => others.but(&verifiers.places_of(met_by)),
                None => others,
            })
        };
        let host = parts.headers.get(header::HOST).cloned();
        let subject = agent.upstream.wants_subject().then(|| self.subject(principal, parts));
        let mut outgoing = upstream::outgoing(parts, &withheld, &self.own_headers, body);
        outgoing.in_name = InName::Caller(subject.flatten());
        let headers = &mut outgoing.headers;
        if let Some(version) = version {
            headers.insert(hygiene::A2A_VERSION, version);
        }
        headers.insert(hygiene::X_REQUEST_ID, record.id.header());
        let address = if client == downstream.peer.address.ip() {
            downstream.address.clone()
        } else {
            hygiene::value(&client.to_string())
        };
        headers.insert(hygiene::X_FORWARDED_FOR, address);
        let scheme = if downstream.peer.secure { "https" } else { "http" };
        headers.insert(hygiene::X_FORWARDED_PROTO, HeaderValue::from_static(scheme));
        if let Some(host) = host {
            headers.insert(hygiene::X_FORWARDED_HOST, host);
        }
        outgoing
    }

    /// The caller's own token, if it is by that that the caller is known.
    fn subject(&self, principal: &Principal, parts: &request::Parts) -> Option<Arc<Subject>> {
        let (token, expires) = authenticate::bearer(principal, &parts.headers)?;
        let holds = expires.saturating_sub(self.observer.clock.unix_seconds());
        let holds = std::time::Duration::from_secs(holds);
        Some(Arc::new(Subject::new(token, &principal.id, holds)))
    }

    fn card(
        &self,
        current: Option<&card::Current>,
        parts: &request::Parts,
        held: Held,
    ) -> Result<Response<Body>, (Reject, Held)> {
        let Some(current) = current else {
            return Err((Reject::new(Reason::AgentNotReady), held));
        };
        match self.asked_card(current, parts) {
            Ok(card) => Ok(self.published(card, parts, held)),
            Err(reject) => Err((reject, held)),
        }
    }

    fn published(&self, published: &card::Published, parts: &request::Parts, held: Held) -> Response<Body> {
        let mut response = card::serve(published, parts);
        if let Some(cors) = &self.cors {
            cors.dress(&parts.headers, response.headers_mut());
        }
        served(response, held)
    }

    fn preflight(&self, parts: &request::Parts, held: Held) -> Response<Body> {
        let answer = self.cors.as_ref().map(|cors| cors.preflight(parts));
        served(answer.unwrap_or_default(), held)
    }

    /// The card in the version that the caller asks for, where there is one of each.
    fn asked_card<'a>(
        &self,
        current: &'a card::Current,
        parts: &request::Parts,
    ) -> Result<&'a card::Published, Reject> {
        if parts.uri.path().ends_with(route::ORIGINAL_CARD_PATH) {
            return current.original.as_ref().ok_or_else(|| Reject::new(Reason::NoRoute));
        }
        if let Some(published) = current
            .v0_1
            .as_ref()
            .filter(|_| parts.uri.path().ends_with(route::OLD_CARD_PATH))
        {
            return Ok(published);
        }
        if !current.varies() {
            return Ok(&current.published);
        }
        let asked = hygiene::asked_version(parts)?;
        let asked = asked.as_ref().map(HeaderValue::as_bytes);
        let refused = |_: card::NoVersion| Reject::no_card(&current.publication.served);
        current.asked(asked).map_err(refused)
    }

    fn agent(&self, route: RouteMatch) -> Result<&Arc<Agent>, Reject> {
        self.agents
            .get(route.agent.0)
            .ok_or_else(|| Reject::new(Reason::NoRoute))
    }
}

fn served(response: Response<Bytes>, mut held: Held) -> Response<Body> {
    let (mut head, bytes) = response.into_parts();
    held.record.status = head.status.as_u16();
    head.headers.insert(hygiene::X_REQUEST_ID, held.record.id.header());
    Response::from_parts(head, Body::whole(bytes, Outcome::Served, held))
}

fn note_call(record: &mut Record, call: &Call, bytes: &Bytes) {
    record.operation = Some(call.operation);
    record.dialect = Some(call.dialect());
    record.task.clone_from(&call.task);
    record.context.clone_from(&call.context);
    record.webhook = call.webhook;
    record.bytes_in = bytes.len() as u64;
}

/// A call, as long as its caller waits. Who answers goes on, as when the caller leaves.
fn until<T>(
    deadline: Option<Instant>,
    call: impl Future<Output = Result<T, Reject>>,
) -> impl Future<Output = Result<T, Reject>> {
    match deadline {
        None => Either::Left(call),
        Some(at) => Either::Right(Box::pin(async move {
            let in_time = tokio::time::timeout_at(at, call).await;
            in_time.unwrap_or_else(|_| Err(Reject::new(Reason::DeadlineExceeded)))
        })),
    }
}
