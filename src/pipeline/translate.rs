//! Where the agent does not speak the caller's dialect: the call on its way there, the answer on its way back.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header, request, response};
use tokio::time::Instant;
use uuid::Uuid;

use super::naming::Named;
use super::send::place;
use super::{Agent, Enforced, Pipeline, Spoken};
use crate::a2a::answer::{End, Whole};
use crate::a2a::grpc::frame;
use crate::a2a::translate::{self, Original, Pair, Standing, Webhooks, Written};
use crate::a2a::{
    Addressed, Binding, Call, Dialect, Generation, Operation, Revealed, TaskId, http_json, json, sse, v0_1,
};
use crate::authorize::Permit;
use crate::balance::Selected;
use crate::http::grpc::drop_request_fields;
use crate::http::hygiene;
use crate::observe::{Outcome, Reason};
use crate::push::{Desk, UnderWay};
use crate::respond::answered::{Answered, Content};
use crate::respond::learn::{Learner, Naming};
use crate::respond::{Reject, answer, grpc, reject};
use crate::upstream::{self, Head as AnswerHead, InName, Outgoing};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const V1_0: HeaderValue = HeaderValue::from_static("1.0");

/// Most pages of push configurations that are put together: no agent has so many webhooks for one task.
const MOST_PAGES: usize = 100;

/// A call between two dialects.
pub(super) struct Translating {
    pub pair: Arc<Pair>,
    /// The head of the call, where the gateway has to ask the agent something besides.
    again: Option<Box<Outgoing>>,
    /// Where the answer shows webhooks.
    desk: Option<Box<Desk>>,
    /// Of a call of 0.1, until its answer was learned from.
    pub naming: Option<Arc<Naming>>,
    /// To be kept until the answer was learned from.
    pub under_way: Option<UnderWay>,
}

impl Enforced {
    /// What the agent is called in for calls of this generation; `None` while that is not known.
    pub(super) fn spoken(&self, caller: Generation) -> Option<&Spoken> {
        let same = self.spoken.iter().find(|spoken| spoken.generation == caller);
        same.or_else(|| self.spoken.iter().max_by_key(|spoken| spoken.generation))
    }

    /// Agents of 0.1 go by the session of a task, which callers of later generations need not name with it.
    pub(super) fn owes_session(&self, call: &Call) -> bool {
        let sends = matches!(call.operation, Operation::Send | Operation::Stream);
        let unsaid = sends && call.task.is_some() && call.context.is_none();
        unsaid && call.generation != Generation::V0_1 && self.is_of_0_1()
    }
}

impl Spoken {
    pub(super) fn dialect(&self) -> Dialect {
        Dialect {
            generation: self.generation,
            binding: self.binding,
        }
    }
}

/// The head of a call, and what was read in it.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub addressed: &'a Addressed,
    /// Below the agent's base, as it was sent.
    pub path: &'a str,
    pub parts: &'a request::Parts,
    pub came: Instant,
}

impl Translating {
    /// Turns the call into one of the agent's dialect, if it has to. Lists that are `gathered` are asked for in JSON-RPC.
    pub fn begin(
        enforced: &Enforced,
        call: &Call,
        head: Head<'_>,
        outgoing: &mut Outgoing,
        gathered: bool,
        desk: impl FnOnce() -> Option<Desk>,
        named: Option<Named>,
    ) -> Result<Option<Self>, Reject> {
        let Head {
            addressed,
            path,
            parts,
            came,
        } = head;
        let caller = call.dialect();
        let Some(spoken) = enforced.spoken(call.generation) else {
            // What an agent speaks may not be known yet, but how its paths are called is no question of JSON-RPC.
            return match addressed {
                Addressed::JsonRpc if named.is_none() => Ok(None),
                Addressed::JsonRpc | Addressed::HttpJson(_) | Addressed::Grpc(_) => {
                    Err(Reject::new(Reason::AgentNotReady))
                }
            };
        };
        let speaks = spoken.dialect();
        let agent = match gathered {
            true => Dialect {
                binding: Binding::JsonRpc,
                ..speaks
            },
            false => speaks,
        };
        if caller == agent && speaks.binding == Binding::JsonRpc {
            // Names that no version has are taken for methods of 0.1 here, and by no agent.
            let respelled = (caller.generation == Generation::V0_1)
                .then(|| v0_1::respelled(&outgoing.body, call.operation, json::Limits::default()))
                .flatten();
            if let Some(body) = respelled {
                outgoing.body = body.into();
            }
            return Ok(None);
        }
        // The agent is told its own version, so that nobody else would refuse one that does not exist.
        let asked = outgoing.headers.get(hygiene::A2A_VERSION).map(HeaderValue::as_bytes);
        if call.generation == Generation::V1_0 && asked.is_some_and(|asked| !is_v1_0(asked)) {
            return Err(Reject::new(Reason::VersionNotSupported).serving(&enforced.served));
        }
        if let (Addressed::Grpc(_), Binding::Grpc) = (addressed, speaks.binding) {
            outgoing.deadline = hygiene::deadline(&outgoing.headers, came);
        }
        if caller == agent {
            if let Addressed::Grpc(method) = addressed {
                // Under the name that the caller knows: those of 0.2 are others.
                method.path.clone_into(&mut outgoing.path);
                outgoing.query = None;
                let framed = frame(&outgoing.body).map_err(|_| Reject::new(Reason::BodyTooLarge))?;
                outgoing.body = framed;
                outgoing.describe(agent, call.operation);
            }
            if let Addressed::HttpJson(_) = addressed {
                outgoing.method = parts.method.clone();
                // Agents of HTTP+JSON have another path for what callers of 0.2 ask here.
                let path = if path == http_json::EXTENDED_CARD_OF_0_2 {
                    "/v1/card"
                } else {
                    path
                };
                path.clone_into(&mut outgoing.path);
                drop_fields(&mut outgoing.headers, &CONDITIONS);
                // Some servers of both generations go by this field, and must take the call for what it was read as.
                if call.generation == Generation::V1_0 {
                    outgoing.headers.insert(hygiene::A2A_VERSION, V1_0);
                }
            }
            return Ok(None);
        }
        let asked = match agent.generation {
            Generation::V0_1 => Some(Box::new(names_of(call))),
            Generation::V0_3 | Generation::V1_0 => None,
        };
        let (words, naming) = named.map(|Named { words, naming }| (words, naming)).unzip();
        let pair = Pair {
            caller,
            agent,
            tenant: spoken.tenant.clone(),
            named: words,
            asked,
        };
        let original = Original {
            addressed,
            query: parts.uri.query(),
            body: &outgoing.body,
        };
        let mut desk = concerns_webhooks(call.operation).then(desk).flatten();
        if let Some(desk) = &mut desk {
            desk.named.clone_from(&pair.named);
        }
        if let (Some(desk), Some(asked)) = (&mut desk, &pair.asked) {
            // Of a new task too: it is named here.
            desk.task = Some(TaskId::new(&asked.task));
        }
        let webhooks = desk.as_ref().map(|desk| desk as &dyn Webhooks);
        let written = pair.request(call, original, webhooks)?;
        let under_way = desk.as_mut().and_then(|desk| desk.under_way.take());
        if caller.binding != Binding::JsonRpc {
            // The parameters are in what is asked now.
            outgoing.query = None;
            drop_request_fields(&mut outgoing.headers);
        }
        outgoing.ask(written);
        drop_fields(&mut outgoing.headers, &CONDITIONS);
        drop_fields(&mut outgoing.headers, &OF_ANOTHER_BODY);
        if (pair.caller.binding, pair.agent.binding) != (Binding::JsonRpc, Binding::JsonRpc) {
            outgoing.describe(pair.agent, call.operation);
        }
        let headers = &mut outgoing.headers;
        match pair.agent.generation {
            Generation::V0_1 | Generation::V0_3 => headers.remove(hygiene::A2A_VERSION),
            Generation::V1_0 => headers.insert(hygiene::A2A_VERSION, V1_0),
        };
        rename_extensions(headers, pair.agent.generation);
        let asks = pair.owes_task(call.operation) || pair.owes_pages(call.operation);
        let again = asks.then(|| Box::new(outgoing.clone()));
        Ok(Some(Self {
            pair: Arc::new(pair),
            again,
            desk: desk.filter(|_| !call.operation.streams()).map(Box::new),
            naming,
            under_way,
        }))
    }

    /// The gateway's own answer to a call, which is one of JSON-RPC in this generation, in the caller's form.
    pub fn told(call: &Call, generation: Generation, answer: Bytes) -> Result<Answered, Reject> {
        let told = Dialect {
            generation,
            binding: Binding::JsonRpc,
        };
        if call.dialect() == told {
            return Ok(Answered::gathered(answer, Outcome::Ok, 0));
        }
        let translating = Self {
            pair: Arc::new(Pair::plain(call.dialect(), told)),
            again: None,
            desk: None,
            naming: None,
            under_way: None,
        };
        let (parts, ()) = http::Response::new(()).into_parts();
        translating.finish(call, parts, &Whole::http(200, answer), &[], Outcome::Ok)
    }

    /// What an agent of 0.1 told of its task, whose events do not say it.
    pub fn knows(&mut self, revealed: &[Revealed]) {
        let context = revealed.iter().find_map(|one| one.context.as_ref());
        if let (Some(asked), Some(context)) = (&mut Arc::make_mut(&mut self.pair).asked, context) {
            asked.session = Box::from(context.as_str());
        }
    }

    /// The answer is in JSON and nothing more, whatever the agent speaks.
    pub fn reads_json(&mut self) {
        Arc::make_mut(&mut self.pair).agent.binding = Binding::HttpJson;
    }

    /// Turns a whole answer, which reveals the ids that were `judged`, into one of the caller's dialect.
    pub fn finish(
        &self,
        call: &Call,
        mut parts: response::Parts,
        whole: &Whole,
        judged: &[Revealed],
        outcome: Outcome,
    ) -> Result<Answered, Reject> {
        let told = whole.found(outcome == Outcome::AgentError);
        // It may not be the answer that the head came with.
        if let End::Http(status) = whole.end {
            answer::restate(&mut parts, status);
        }
        let webhooks = self.desk.as_deref().map(|desk| desk as &dyn Webhooks);
        let answer = self
            .pair
            .answer(call.operation, &call.id, told, judged, webhooks)
            .map_err(|error| {
                tracing::warn!(?error, "the agent's answer cannot be turned into the caller's form");
                Reject::new(Reason::UpstreamBadAnswer)
            })?;
        self.restate(&mut parts);
        let mut status = None;
        match answer.standing {
            // What the agent's status may have said, over HTTP+JSON or in 0.1, the body says now.
            Standing::Unsaid => answer::restate(&mut parts, 200),
            Standing::Http(code) => answer::restate(&mut parts, code),
            Standing::Grpc(told) => {
                answer::restate(&mut parts, 200);
                status = Some(told);
            }
        }
        let event = outcome == Outcome::AgentError && reject::reads_events_alone(call);
        let (bytes, media_type) = if event {
            (sse::one_event(&answer.body), HeaderValue::from_static(EVENTS))
        } else if status.is_some() {
            (Bytes::from(answer.body), grpc::MEDIA_TYPE)
        } else {
            (Bytes::from(answer.body), HeaderValue::from_static(JSON))
        };
        parts.headers.insert(header::CONTENT_TYPE, media_type);
        Ok(Answered {
            status,
            ..Answered::whole(parts, bytes, outcome)
        })
    }

    /// The same for a list that was gathered.
    pub fn finish_list(&self, call: &Call, listed: Answered) -> Result<Answered, Reject> {
        match listed.content {
            Content::Whole(bytes, outcome) => Ok(Answered {
                left_out: listed.left_out,
                ..self.finish(call, listed.parts, &Whole::http(200, bytes), &[], outcome)?
            }),
            Content::Stream(_) => Ok(listed),
        }
    }

    /// The head of a stream.
    pub fn open(&self, parts: &mut response::Parts) {
        self.restate(parts);
        let media_type = match self.pair.caller.binding {
            Binding::JsonRpc | Binding::HttpJson => HeaderValue::from_static(EVENTS),
            Binding::Grpc => grpc::MEDIA_TYPE,
        };
        if self.pair.caller.binding != self.pair.agent.binding {
            parts.headers.insert(header::CONTENT_TYPE, media_type);
        }
    }

    fn restate(&self, parts: &mut response::Parts) {
        drop_fields(&mut parts.headers, &OF_ANOTHER_BODY);
        parts.headers.remove(hygiene::A2A_VERSION);
        rename_extensions(&mut parts.headers, self.pair.caller.generation);
    }

    /// The first page of an answer with those that follow, where the caller knows no pages; or the error that one of those is.
    pub async fn all_pages(
        &self,
        agent: &Agent,
        permit: &Permit,
        url: &str,
        first: Whole,
        outcome: Outcome,
        json: json::Limits,
    ) -> Result<(Whole, Outcome), Reject> {
        let call = permit.call();
        let owes = self.pair.owes_pages(call.operation) && outcome == Outcome::Ok;
        let Some(again) = self.again.as_ref().filter(|_| owes) else {
            return Ok((first, outcome));
        };
        let bad = |_: translate::Error| Reject::new(Reason::UpstreamBadAnswer);
        let most = agent.upstream.answer_bytes();
        let Whole { body, end } = first;
        let mut pages = vec![body];
        let mut size = 0;
        // All together, in the time for one answer: an agent could begin page after page.
        let until = Instant::now() + agent.upstream.patience();
        while let Some(page) = pages.last()
            && let Some(written) = self.pair.next_page(call, page).map_err(bad)?
        {
            size += page.len();
            if pages.len() == MOST_PAGES || size > most {
                return Err(Reject::new(Reason::UpstreamAnswerTooLarge));
            }
            let mut outgoing = again.clone();
            outgoing.ask(written);
            let asked = async {
                let endpoint = agent.endpoints.owner(url)?;
                let selected = match endpoint.enter() {
                    Some(selected) => selected,
                    None => place(agent, endpoint).await?,
                };
                ask(agent, permit, self.pair.agent, &selected, outgoing).await
            };
            let in_time = tokio::time::timeout_at(until, asked).await;
            let whole = in_time.unwrap_or_else(|_| {
                agent.metrics.upstream_failed(Reason::UpstreamTimeout);
                Err(Reject::new(Reason::UpstreamTimeout))
            })?;
            let read = answer::check(&whole, self.pair.agent, call, json).map_err(Reject::new)?;
            if read.error.is_some() {
                drop(read);
                return Ok((whole, Outcome::AgentError));
            }
            pages.push(whole.body);
        }
        let body = match pages.as_slice() {
            [one] => one.clone(),
            all => self.pair.join_pages(call, all).map_err(bad)?.into(),
        };
        Ok((Whole { body, end }, Outcome::Ok))
    }

    /// Of an agent that refused to begin a stream it is asked too whether the task has ended, which it may say by any error. Any
    /// other answer leaves that error as it is.
    pub async fn ended(
        &self,
        agent: &Agent,
        permit: &Permit,
        url: &str,
        learner: &Learner,
        json: json::Limits,
    ) -> Result<(), Reject> {
        if !self.pair.owes_task(permit.call().operation) {
            return Ok(());
        }
        let asked = async {
            let endpoint = agent.endpoints.owner(url)?;
            let selected = match endpoint.enter() {
                Some(selected) => selected,
                None => place(agent, endpoint).await?,
            };
            self.first_event(agent, permit, &selected, learner, json).await
        };
        match asked.await {
            Err(ended) if ended.reason == Reason::UnsupportedOperation => Err(ended),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The event with which the stream of the caller begins, where the agent's own may not begin with a task. What it asks goes
    /// at the place of the stream (`selected`), which has nothing else to do meanwhile: waiting for another one, subscriptions
    /// that hold all of an endpoint's places would wait for each other.
    pub async fn first_event(
        &self,
        agent: &Agent,
        permit: &Permit,
        selected: &Selected,
        learner: &Learner,
        json: json::Limits,
    ) -> Result<First, Reject> {
        let (Some(again), Some(probe)) = (&self.again, permit.probe(self.pair.agent.generation)) else {
            return Ok(First::None);
        };
        let call = probe.call();
        let mut outgoing = again.clone();
        if let Some(task) = &call.task {
            // No agent of 0.3 has tenants.
            outgoing.ask(translate::write_get(self.pair.agent, &call.id, task, None)?);
        }
        outgoing.describe(self.pair.agent, call.operation);
        let whole = ask(agent, &probe, self.pair.agent, selected, outgoing).await?;
        let read = answer::check(&whole, self.pair.agent, call, json).map_err(Reject::new)?;
        if read.error.is_some() {
            drop(read);
            return Ok(First::Instead(whole));
        }
        let bad = || Reject::new(Reason::UpstreamBadAnswer);
        let asked = matches!(read.revealed.as_slice(), [one] if one.task == call.task);
        if read.is_strange || !asked {
            return Err(bad());
        }
        if let Some(confirming) = learner.learn(&read.revealed).map_err(|_| bad())? {
            let confirmed = confirming.await;
            learner.confirmed(confirmed, &read.revealed).map_err(|_| bad())?;
        }
        let id = &permit.call().id;
        match self.pair.task_event(id, &whole.body, &read.revealed) {
            Ok(Some(bytes)) => Ok(First::Event {
                bytes,
                revealed: read.revealed,
            }),
            Ok(None) => Err(Reject::new(Reason::UnsupportedOperation).because("the task has ended")),
            Err(_) => Err(Reject::new(Reason::UpstreamBadAnswer)),
        }
    }
}

impl Pipeline {
    /// The call with the session of its task, of which the agent itself is asked. `None` where it does not know the task.
    pub(super) async fn with_session(
        &self,
        agent: &Agent,
        enforced: &Enforced,
        permit: &Permit,
        owner: Option<&Arc<str>>,
        outgoing: &Outgoing,
    ) -> Result<Option<Call>, Reject> {
        let call = permit.call();
        let speaks = enforced.spoken(call.generation).map(Spoken::dialect);
        let (Some(speaks), Some(url), Some(probe)) = (speaks, owner, permit.probe(Generation::V0_1)) else {
            return Ok(None);
        };
        let asked = probe.call();
        let Some(task) = &asked.task else {
            return Ok(None);
        };
        let endpoint = agent.endpoints.owner(url)?;
        let selected = match endpoint.enter() {
            Some(selected) => selected,
            None => place(agent, endpoint).await?,
        };
        // With what the agent is told of the caller.
        let mut outgoing = Box::new(outgoing.clone());
        outgoing.query = None;
        let headers = &mut outgoing.headers;
        drop_request_fields(headers);
        drop_fields(headers, &CONDITIONS);
        drop_fields(headers, &OF_ANOTHER_BODY);
        headers.remove(hygiene::A2A_VERSION);
        rename_extensions(headers, speaks.generation);
        outgoing.ask(translate::write_get(speaks, &asked.id, task, None)?);
        outgoing.describe(speaks, Operation::Get);
        // What is wrong with an agent that does not say it, the send will tell.
        let Ok(whole) = ask(agent, &probe, speaks, &selected, outgoing).await else {
            return Ok(None);
        };
        let found = match answer::check(&whole, speaks, asked, self.json) {
            Ok(read) if read.error.is_none() => match read.revealed.as_slice() {
                [one] if one.task == asked.task => one.context.clone(),
                _ => None,
            },
            Ok(_) | Err(_) => None,
        };
        Ok(found.map(|context| Call {
            context: Some(context),
            ..Call::clone(call)
        }))
    }
}

/// What the gateway asks by itself: nothing of it comes from a caller.
pub(super) fn question(speaks: Dialect, written: Written) -> Box<Outgoing> {
    let mut headers = HeaderMap::new();
    if speaks.generation == Generation::V1_0 {
        headers.insert(hygiene::A2A_VERSION, V1_0);
    }
    let mut outgoing = Box::new(Outgoing {
        headers,
        in_name: InName::Gateway,
        method: Method::POST,
        path: String::new(),
        query: None,
        body: Bytes::new(),
        deadline: None,
    });
    outgoing.ask(written);
    outgoing.describe(speaks, Operation::Get);
    outgoing
}

/// What the gateway asks the agent besides, for a call that it has permitted: one whole answer.
pub(super) async fn ask(
    agent: &Agent,
    permit: &Permit,
    speaks: Dialect,
    selected: &Selected,
    outgoing: Box<Outgoing>,
) -> Result<Whole, Reject> {
    let endpoint = selected.endpoint();
    let failed = |error: &upstream::Error| {
        if let Some(fault) = error.fault() {
            endpoint.failed(fault, &permit.principal().id);
        }
        answer::failed(&agent.metrics, error)
    };
    let sent = agent.upstream.send(permit, selected, outgoing).await;
    let mut answer = sent.map_err(|failure| failed(&failure.error))?;
    answer::check_head(&answer.parts, speaks).map_err(Reject::new)?;
    let head = AnswerHead::of(&mut answer.parts, &answer.body, speaks);
    let whole = agent.upstream.whole(head, answer.body, endpoint).await;
    whole.map_err(|error| failed(&error))
}

/// What goes before an agent's own events.
pub(super) enum First {
    None,
    Event {
        bytes: Bytes,
        revealed: Vec<Revealed>,
    },
    /// The agent's error, of which there is no stream.
    Instead(Whole),
}

/// What an agent of 0.1 is told that the task of a call is called: a new one is named here, as clients of 0.1 do.
fn names_of(call: &Call) -> v0_1::Asked {
    let made = || Box::from(Uuid::new_v4().to_string());
    let named = call.context.as_ref().map(|context| Box::from(context.as_str()));
    match &call.task {
        Some(task) => v0_1::Asked {
            task: Box::from(task.as_str()),
            session: named.unwrap_or_default(),
        },
        None => v0_1::Asked {
            task: made(),
            session: named.unwrap_or_else(made),
        },
    }
}

/// Calls that may set a webhook, or whose answers show some.
fn concerns_webhooks(operation: Operation) -> bool {
    match operation {
        Operation::Send | Operation::Stream | Operation::PushCreate | Operation::PushGet | Operation::PushList => true,
        Operation::Get
        | Operation::List
        | Operation::Cancel
        | Operation::Subscribe
        | Operation::PushDelete
        | Operation::ExtendedCard => false,
    }
}

/// Patches are not considered, and no version at all leaves it to the method (A2A 1.0 §3.6).
fn is_v1_0(asked: &[u8]) -> bool {
    asked.is_empty() || asked == b"1.0" || asked.starts_with(b"1.0.")
}

/// Fields about a body that is not the one that goes on.
pub(super) const OF_ANOTHER_BODY: [&str; 6] = [
    "etag",
    "last-modified",
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
];

/// Fields by which an agent would answer with less than all of it, or with nothing: an answer must be read to be judged.
pub(super) const CONDITIONS: [&str; 6] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
];

pub(super) fn drop_fields(headers: &mut HeaderMap, names: &[&str]) {
    for name in names {
        headers.remove(*name);
    }
}

/// Says the same under the name of a generation. Whoever sends both names means the other's generation too.
fn rename_extensions(headers: &mut HeaderMap, to: Generation) {
    let (from, to): (HeaderName, HeaderName) = match to {
        Generation::V0_1 | Generation::V0_3 => (hygiene::A2A_EXTENSIONS, hygiene::X_A2A_EXTENSIONS),
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
