//! A message of the envelope protocol, from its post to its answer.
//!
//! Who sends is known before the body is read, by the head of the request. The one exception is somebody who shows nothing: of
//! whom a small body is read, a few times a minute, because it may be an `authentication` message; anything else is refused then.
//! Its recipient is known with the body; the requirement, the limits and the policy of that agent are asked before anything
//! goes on. An agent that speaks the protocol gets the bytes as they came. To an A2A agent a delegated task goes as a call like any
//! other (`Pipeline::call`), and sessions and versions are the gateway's own affair.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, Uri, header, request};
use http_body_util::Full;
use hyper::body::Incoming;

use super::judging::{Case, Stated, decided};
use super::send::{Sent, Way};
use super::translate::{CONDITIONS, drop_fields};
use super::{Agent, Delegated, Downstream, EnvelopeDesk, Pipeline};
use crate::a2a::envelope::{self, About, Control, Credential, Kind, Message, Told};
use crate::a2a::{Addressed, Binding, Call, Dialect, Generation, Operation, RpcId};
use crate::authenticate::{self, identify};
use crate::authorize::{self, Permit, Ruled};
use crate::balance::{Ask, Fault};
use crate::config::Direction;
use crate::envelope::{Beginning, Caller, Found};
use crate::http::{body, hygiene};
use crate::observe::record::rfc3339;
use crate::observe::{self, Outcome, Reason};
use crate::owners::Named;
use crate::parse;
use crate::ratelimit::{Slot, Stage};
use crate::respond::answer::Standing;
use crate::respond::answered::{Answered, Content};
use crate::respond::body::Held;
use crate::respond::{Body, Reject, answer, reject};
use crate::route::{AgentIndex, Place, RouteMatch};
use crate::upstream::{Answer, Head};

/// As messages are posted to agents that speak the protocol, and answered.
const POSTED: Dialect = Dialect {
    generation: Generation::V1_0,
    binding: Binding::JsonRpc,
};
/// The scheme of the tokens that the gateway gives for `authentication` messages.
const SCHEME: &str = "Envelope";
const CHALLENGE: &str = "Envelope realm=\"a2a-gateway\"";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Pipeline {
    pub(super) async fn converse(
        &self,
        client: IpAddr,
        downstream: &Arc<Downstream>,
        parts: &mut request::Parts,
        body: Incoming,
        mut held: Held,
    ) -> Result<Response<Body>, (Reject, Held)> {
        let Some(desk) = &self.envelope else {
            return Err((Reject::new(Reason::NoRoute), held));
        };
        let mut talk = Talk {
            pipeline: self,
            desk,
            client,
            downstream,
            about: About::default(),
        };
        let passed = self.hops.pass(parts).map_err(Reject::from);
        let taken = match passed {
            Ok(()) => talk.take(parts, body, &mut held).await,
            Err(circle) => Err(circle),
        };
        match taken {
            Ok(answered) => Ok(answered.into_response(held, None)),
            Err(reject) => {
                let timestamp = talk.timestamp();
                Err((reject.in_envelope(timestamp, talk.about), held))
            }
        }
    }
}

/// One message, and what it came with.
struct Talk<'a> {
    pipeline: &'a Pipeline,
    desk: &'a EnvelopeDesk,
    client: IpAddr,
    downstream: &'a Arc<Downstream>,
    /// What an answer repeats, as far as the message was read.
    about: About,
}

/// A message whose sender and recipient are known.
struct Known<'a> {
    caller: &'a Caller,
    message: &'a Message<'a>,
    bytes: &'a Bytes,
    index: AgentIndex,
    agent: &'a Arc<Agent>,
    session: Option<Found<'a>>,
}

impl Talk<'_> {
    async fn take(&mut self, parts: &mut request::Parts, body: Incoming, held: &mut Held) -> Result<Answered, Reject> {
        let limiter = &self.desk.limiters.known;
        let limited = |limited| Reject::from(&limited);
        let mut slot = Slot::default();
        let budget = limiter.admit(&mut slot, self.client, Stage::Address);
        budget.await.map_err(limited)?;
        let shown = self.caller(parts, held).await?;
        match &shown {
            Ok(caller) => {
                held.record.principal = Some(caller.principal.id.clone());
                let stage = Stage::Caller(&caller.principal.id);
                let budget = limiter.admit(&mut slot, self.client, stage);
                budget.await.map_err(limited)?;
            }
            Err(_) => {
                let mut counted = Slot::default();
                let unknown = &self.desk.limiters.unknown;
                let budget = unknown.admit(&mut counted, self.client, Stage::Address);
                budget.await.map_err(limited)?;
            }
        }
        held.slot = Some(slot);
        if !parse::is_json(parts) {
            return Err(shown.err().unwrap_or_else(|| Reject::new(Reason::UnsupportedMediaType)));
        }
        let bounds = body::Bounds {
            bytes: if shown.is_ok() {
                self.desk.body_bytes
            } else {
                self.desk.authentication_bytes
            },
            idle: Some(self.pipeline.body_idle),
            whole: Some(self.pipeline.body_whole),
        };
        let read = body::read_whole(body, bounds).await;
        let bytes = read.map_err(|error| Reject::from(&parse::Error::Body(error)))?;
        held.record.bytes_in = bytes.len() as u64;
        if let Some(slot) = &held.slot {
            slot.charge(Direction::In, bytes.len());
        }
        let message = match (envelope::read(&bytes, self.pipeline.json), &shown) {
            (Ok(message), _) => message,
            (Err(_), Err(missing)) => return Err(missing.clone()),
            (Err(error), Ok(_)) => {
                self.about = error.about;
                held.record.detail = Some(error.kind.as_str());
                return Err(Reject::from(error.kind));
            }
        };
        self.about = message.about();
        if let Kind::Authentication(credential) = &message.kind {
            return self.authenticate(credential, &message, held).await;
        }
        let caller = shown?;
        self.desk.count(&message.kind);
        let sender = &*message.sender.agent_id;
        let is_own = caller.agent_id.as_ref().is_none_or(|own| **own == *sender);
        if !is_own || !self.desk.may_send(&caller.principal, sender) {
            return Err(Reject::new(Reason::SenderForeign));
        }
        let unknown = || Reject::new(Reason::NoRoute).because("no agent has this recipient.agent_id");
        let index = self.desk.recipient(&message).ok_or_else(unknown)?;
        let agent = self.pipeline.agents.get(index.0).ok_or_else(unknown)?;
        held.record.agent = Some(agent.metrics.clone());
        if bytes.len() > agent.body_bytes {
            return Err(Reject::new(Reason::BodyTooLarge));
        }
        let session = self.session(&caller, &message)?;
        let taken = self.desk.take(&caller, &message);
        let taken = taken.ok_or_else(|| Reject::new(Reason::MessageDuplicate))?;
        let known = Known {
            caller: &caller,
            message: &message,
            bytes: &bytes,
            index,
            agent,
            session,
        };
        let answered = self.answer(&known, parts, held).await;
        if let Err(reject) = &answered
            && reaches_nobody(reject.reason)
        {
            self.desk.forget(&taken);
        }
        answered
    }

    /// Who sends, by the head of the request; the inner error is for those who show nothing.
    async fn caller(&self, parts: &mut request::Parts, held: &mut Held) -> Result<Result<Caller, Reject>, Reject> {
        if let Some(token) = token(&parts.headers) {
            let holder = self.desk.holder(&token);
            let (peer, now) = (&self.downstream.peer, self.pipeline.observer.clock.unix_seconds());
            let holder = holder.filter(|caller| caller.principal.is_at(peer) && !caller.principal.outlives(peer, now));
            // Nobody else has a use for it.
            parts.headers.remove(header::AUTHORIZATION);
            return match holder {
                Some(caller) => Ok(Ok(caller)),
                None => {
                    held.record.detail = Some("token_unknown");
                    Err(Reject::new(Reason::Unauthenticated).challenging(CHALLENGE))
                }
            };
        }
        let peer = &self.downstream.peer;
        match identify(&self.desk.requirement, peer, self.client, parts).await {
            Ok(principal) => Ok(Ok(Caller {
                principal,
                agent_id: None,
            })),
            Err(error) => {
                held.record.detail = Some(error.as_str());
                let reject = Reject::from(&error).challenging(CHALLENGE);
                match error {
                    authenticate::Error::Missing { .. } => Ok(Err(reject)),
                    authenticate::Error::Invalid { .. }
                    | authenticate::Error::MissingScope { .. }
                    | authenticate::Error::Unavailable { .. } => Err(reject),
                }
            }
        }
    }

    /// What an `authentication` message shows goes to the verifiers of the head, and ends here.
    async fn authenticate(
        &self,
        credential: &Credential<'_>,
        message: &Message<'_>,
        held: &mut Held,
    ) -> Result<Answered, Reject> {
        self.desk.count(&message.kind);
        held.record.detail = None;
        let refused = || Reject::new(Reason::Unauthenticated).challenging(CHALLENGE);
        let requirement = &self.desk.requirement;
        let head = requirement.head(credential).ok_or_else(refused)?;
        let principal = identify(requirement, &self.downstream.peer, self.client, &head)
            .await
            .inspect_err(|error| held.record.detail = Some(error.as_str()))
            .map_err(|error| Reject::from(&error))?;
        // Of a kind that nothing reads.
        if principal.is_anonymous() {
            return Err(refused());
        }
        held.record.principal = Some(principal.id.clone());
        let sender = &*message.sender.agent_id;
        if !self.desk.may_send(&principal, sender) {
            return Err(Reject::new(Reason::SenderForeign));
        }
        let caller = Caller {
            principal,
            agent_id: None,
        };
        if self.desk.take(&caller, message).is_none() {
            return Err(Reject::new(Reason::MessageDuplicate));
        }
        let now = self.pipeline.observer.clock.unix_seconds();
        let (token, lifetime) = (self.desk.admit(&caller.principal, sender, now))
            .inspect_err(|error| tracing::error!(%error, "nobody can authenticate in a message"))
            .map_err(|_| Reject::new(Reason::Internal))?;
        let data = format!(
            r#"{{"token":"{token}","token_type":"{SCHEME}","expires_in":{}}}"#,
            lifetime.as_secs()
        );
        Ok(self.respond(held, &data))
    }

    /// The session that the message names, which must be there unless the message creates it.
    fn session(&self, caller: &Caller, message: &Message<'_>) -> Result<Option<Found<'_>>, Reject> {
        let needs_id = || Reject::new(Reason::InvalidRequest).because("this action needs a session_id");
        let control = match &message.kind {
            Kind::Control(control) => Some(control),
            Kind::Request
            | Kind::Response
            | Kind::Notification
            | Kind::Error
            | Kind::Authentication(_)
            | Kind::Delegation
            | Kind::Extension => None,
        };
        let found = self.desk.session(caller, message);
        match (control, &message.session, found) {
            (Some(Control::Create { .. } | Control::Terminate), None, _) => Err(needs_id()),
            (Some(Control::Create { .. }), _, Some(_)) => {
                Err(Reject::new(Reason::InvalidRequest).because("there is a session of this id"))
            }
            (Some(Control::Create { .. }), _, None) | (_, None, _) => Ok(None),
            (_, Some(_), Some(found)) => Ok(Some(found)),
            (_, Some(_), None) => Err(Reject::new(Reason::SessionUnknown)),
        }
    }

    async fn answer(&self, known: &Known<'_>, parts: &mut request::Parts, held: &mut Held) -> Result<Answered, Reject> {
        // The query may be a credential, and agents have no use for it.
        parts.uri = Uri::from_static("/");
        if known.agent.speaks_envelope {
            return self.forward(known, parts, held).await;
        }
        if let Kind::Delegation = known.message.kind {
            return self.delegate(known, parts, held).await;
        }
        let permit = self.permit(known, &*known.agent.in_service()?, held).await?;
        let caller = permit.principal();
        match (&known.message.kind, &known.session) {
            (Kind::Control(Control::Create { timeout }), _) => {
                let ask = Ask {
                    context: None,
                    principal: (!caller.is_anonymous()).then_some(&*caller.id),
                };
                let endpoint = known.agent.endpoints.choose(ask, &[])?;
                let idle = self.begin(known, *timeout)?.keep(&endpoint.url);
                Ok(self.respond(held, &format!(r#"{{"timeout":{}}}"#, idle.as_secs())))
            }
            (Kind::Control(Control::Terminate), Some(session)) => {
                session.end();
                Ok(self.respond(held, "{}"))
            }
            (Kind::Control(Control::NegotiateVersion { offered }), _) if Control::offers_known(offered) => {
                Ok(self.respond(held, &envelope::versions()))
            }
            (Kind::Control(Control::NegotiateVersion { .. }), _) => Err(Reject::new(Reason::VersionNotSupported)),
            (
                Kind::Control(Control::Terminate | Control::SetEncryption | Control::Other)
                | Kind::Request
                | Kind::Response
                | Kind::Notification
                | Kind::Error
                | Kind::Authentication(_)
                | Kind::Delegation
                | Kind::Extension,
                _,
            ) => Err(Reject::new(Reason::UnsupportedOperation).because(
                "an A2A agent takes task_delegation, and session_control of create, terminate and negotiate_version",
            )),
        }
    }

    /// The task goes to an A2A agent, as a send.
    async fn delegate(
        &self,
        known: &Known<'_>,
        parts: &mut request::Parts,
        held: &mut Held,
    ) -> Result<Answered, Reject> {
        let session = known.session.as_ref();
        let context = session.and_then(Found::context);
        let written = envelope::write_send(known.message, context.as_ref(), self.pipeline.json);
        let (body, task_id) = written
            .inspect_err(|error| held.record.detail = Some(error.as_str()))
            .map_err(Reject::from)?;
        let delegated = Delegated {
            principal: known.caller.principal.clone(),
            endpoint: self.endpoint(known)?,
        };
        parts.headers.insert(header::CONTENT_TYPE, JSON);
        parts.headers.insert(header::ACCEPT, JSON);
        parts
            .headers
            .insert(hygiene::A2A_VERSION, HeaderValue::from_static("1.0"));
        let mut own = held.slot.take();
        held.slot = own.as_mut().map(Slot::share);
        let route = RouteMatch {
            agent: known.index,
            place: Place::Rpc,
        };
        let called = self.pipeline.call(
            route,
            Addressed::JsonRpc,
            self.client,
            self.downstream,
            parts,
            Full::new(Bytes::from(body)),
            held,
            Some(&delegated),
        );
        let called = Box::pin(called).await;
        if let Some(own) = own {
            held.slot.get_or_insert_default().join(own);
        }
        let Content::Whole(bytes, outcome) = called?.content else {
            return Err(Reject::new(Reason::UpstreamBadAnswer));
        };
        if let (Some(found), Some(context)) = (session, &held.record.context) {
            found.continue_in(context);
        }
        let sent = envelope::read_sent(&bytes, task_id).map_err(|_| Reject::new(Reason::UpstreamBadAnswer))?;
        let timestamp = self.timestamp();
        let reply = self.reply(held, &timestamp);
        let bytes = match &sent {
            envelope::Sent::Done(done) => envelope::write_delegated(reply, done),
            envelope::Sent::Failed { code, text } => envelope::write_error(reply, true, code, text, false),
        };
        Ok(message(bytes.into(), outcome))
    }

    /// To an agent that speaks the protocol: the bytes as they came, and its own answer.
    async fn forward(
        &self,
        known: &Known<'_>,
        parts: &mut request::Parts,
        held: &mut Held,
    ) -> Result<Answered, Reject> {
        let (agent, pipeline) = (known.agent, self.pipeline);
        let (permit, ownership) = {
            let enforced = agent.in_service()?;
            let permit = self.permit(known, &enforced, held).await?;
            (permit, enforced.ownership.clone())
        };
        // Until it is answered: what a delegation begins there, nothing here knows.
        let _place = match matches!(known.message.kind, Kind::Delegation) && agent.limiter.asks_beginnings() {
            true => {
                let slot = held.slot.get_or_insert_default();
                Box::pin(pipeline.place(agent, self.client, &permit, slot)).await?
            }
            false => None,
        };
        let way = match self.endpoint(known)? {
            Some(endpoint) => Way::Owned(endpoint),
            None => Way::Free,
        };
        let beginning = if let Kind::Control(Control::Create { timeout }) = &known.message.kind {
            Some(self.begin(known, *timeout)?)
        } else {
            None
        };
        drop_fields(&mut parts.headers, &CONDITIONS);
        parts.headers.remove(hygiene::A2A_VERSION);
        let body = known.bytes.clone();
        let caller = permit.principal();
        let outgoing = pipeline.outgoing(
            agent,
            (caller, None),
            self.downstream,
            self.client,
            parts,
            None,
            &held.record,
            body,
        );
        let sent = pipeline.send(agent, &permit, &ownership, way, outgoing, held, None);
        let Sent { selected, answer, .. } = Box::pin(sent).await?;
        let endpoint = selected.endpoint();
        let principal = &permit.principal().id;
        let Answer { parts, body } = answer;
        let standing = Standing::of(&parts);
        answer::check_head(&parts, POSTED).map_err(|reason| {
            agent.metrics.upstream_failed(reason);
            if reason == Reason::UpstreamBadAnswer {
                endpoint.failed(Fault::Answer, principal);
            }
            Reject::new(reason)
        })?;
        let head = Head::Http(parts.status.as_u16());
        let whole = agent.upstream.whole(head, body, endpoint).await.map_err(|error| {
            if let Some(fault) = error.fault() {
                endpoint.failed(fault, principal);
            }
            answer::failed(&agent.metrics, &error)
        })?;
        let bytes = whole.body;
        let taken = bytes.is_empty() && parts.status.is_success();
        let told = if taken {
            Some(Told::Done)
        } else {
            envelope::read_answer(&bytes, known.message, pipeline.json)
        };
        match standing.with(told.is_some()) {
            Some(true) => endpoint.succeeded(),
            Some(false) => endpoint.failed(Fault::Answer, principal),
            None => {}
        }
        let told = told.ok_or_else(|| {
            agent.metrics.upstream_failed(Reason::UpstreamBadAnswer);
            Reject::new(Reason::UpstreamBadAnswer)
        })?;
        let outcome = match told {
            Told::Error => Outcome::AgentError,
            Told::Failure | Told::Done => Outcome::Ok,
        };
        if told == Told::Done {
            if let Some(beginning) = beginning {
                beginning.keep(&endpoint.url);
            }
            if let (Kind::Control(Control::Terminate), Some(session)) = (&known.message.kind, &known.session) {
                session.end();
            }
        }
        let mut answered = message(bytes, outcome);
        if taken {
            answer::restate(&mut answered.parts, 202);
        }
        Ok(answered)
    }

    /// What any call to the agent would need.
    async fn permit(&self, known: &Known<'_>, enforced: &super::Enforced, held: &mut Held) -> Result<Permit, Reject> {
        let operation = Operation::Send;
        held.record.operation = Some(operation);
        let principal = enforced.readmit(&known.caller.principal)?;
        held.record.principal = Some(principal.id.clone());
        let (limiter, id) = (&known.agent.limiter, principal.id.clone());
        let limited = |limited| known.agent.limited(&limited);
        let mut slot = Slot::default();
        let budget = limiter.admit(&mut slot, self.client, Stage::Address);
        budget.await.map_err(limited)?;
        let route = RouteMatch {
            agent: known.index,
            place: Place::Rpc,
        };
        let pipeline = self.pipeline;
        let policies = pipeline.policies(self.downstream, known.agent);
        let asked = pipeline.asked(self.downstream, known.agent, self.client);
        let admitted = authorize::route(route, principal, &enforced.ownership, policies, &asked)?;
        for stage in [Stage::Caller(&id), Stage::Call(&id, operation)] {
            limiter.admit(&mut slot, self.client, stage).await.map_err(limited)?;
        }
        // It was read before its agent was known.
        slot.charge(Direction::In, known.bytes.len());
        held.slot.get_or_insert_default().join(slot);
        // A message names no task, whatever it says.
        let call = Call {
            binding: Binding::JsonRpc,
            generation: Generation::V1_0,
            operation,
            id: RpcId::one(),
            task: None,
            context: None,
            references: Vec::new(),
            webhook: false,
        };
        let checked = authorize::call(admitted, call, &[], None).map_err(|(error, _)| Reject::from(error))?;
        let call = checked.call().clone();
        let named = Named {
            affinity: &pipeline.affinity,
            agent: &known.agent.metrics.name,
            call: &call,
        };
        let owners = named.owners();
        let owned = authorize::tasks(checked, &enforced.ownership, &owners)?;
        let case = Case {
            policies,
            asked,
            stated: Stated::default(),
            path: &self.desk.path,
        };
        match pipeline.allowed(owned, case, &owners, &mut held.record)? {
            Ruled::Allowed(permit) => Ok(permit),
            Ruled::Asks(pending) => Box::pin(decided(pending, &mut held.record)).await,
        }
    }

    fn begin(&self, known: &Known<'_>, timeout: Option<u64>) -> Result<Beginning<'_>, Reject> {
        let begun = self.desk.begin(known.caller, known.message, timeout);
        begun.ok_or_else(|| Reject::new(Reason::SessionUnknown))
    }

    /// Where the session is kept with the recipient; from now on, if it was nowhere.
    fn endpoint(&self, known: &Known<'_>) -> Result<Option<Arc<str>>, Reject> {
        let Some(found) = &known.session else {
            return Ok(None);
        };
        if let Some(endpoint) = found.endpoint() {
            return Ok(Some(endpoint));
        }
        let ask = Ask {
            context: None,
            principal: Some(&*known.caller.principal.id),
        };
        let chosen = known.agent.endpoints.choose(ask, &[])?;
        Ok(Some(found.bind(&chosen.url)))
    }

    /// The gateway's own answer, in the recipient's place.
    fn respond(&self, held: &Held, data: &str) -> Answered {
        let timestamp = self.timestamp();
        let bytes = envelope::write_response(self.reply(held, &timestamp), "success", data);
        message(bytes.into(), Outcome::Served)
    }

    fn reply<'r>(&'r self, held: &'r Held, timestamp: &'r str) -> envelope::Reply<'r> {
        envelope::Reply {
            id: held.record.id.as_str(),
            timestamp,
            about: &self.about,
        }
    }

    fn timestamp(&self) -> String {
        rfc3339(self.pipeline.observer.clock.now())
    }
}

/// What was refused so has changed nothing at any agent.
fn reaches_nobody(reason: Reason) -> bool {
    reason.fault() == observe::Fault::Downstream || reject::retry_after(reason).is_some()
}

/// The token of the gateway's own, if that is the one credential in the field.
fn token(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim().to_owned())
}

/// Nobody in between may keep one.
fn message(bytes: Bytes, outcome: Outcome) -> Answered {
    let mut answered = Answered::gathered(bytes, outcome, 0);
    let no_store = HeaderValue::from_static("no-store");
    answered.parts.headers.insert(header::CACHE_CONTROL, no_store);
    answered
}
