//! The front door: one agent in front of all.
//!
//! Its card has what the agents behind it have, and its requirement takes whoever one of them takes. A call is read, its agent chosen
//! (`choose`), and then it is a call of that agent like any other: its requirement, limits, rules and owners are asked as if the caller
//! had come to it. Lists span the agents (`list`); the extended card shows a caller what it may use of them (`extended`).
//!
//! What it knows of the agents is made anew when one of their cards was, by whoever asks first.

mod choose;
mod explain;
mod extended;
mod known;
mod list;
mod scene;
mod turn;

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::request;
use http_body_util::Full;
use hyper::body::Incoming;
use tokio_util::sync::DropGuard;

use self::scene::Scene;
use super::{Agent, Downstream, Pipeline, note_call};
use crate::a2a::json::Limits;
use crate::a2a::{Addressed, Call, Generation, Operation, tenant};
use crate::authenticate::{self, Principal, Resource};
use crate::authorize::{self, Admitted, Asked, Ownership, Policies};
use crate::card::CardStore;
use crate::config::{self, Listed, Policy, TaskOwner};
use crate::drain::Drain;
use crate::http::hygiene;
use crate::observe::TraceId;
use crate::observe::record::RequestId;
use crate::parse;
use crate::ratelimit::{Ledger, Limited, Metered, RateLimiter, Slot, Stage};
use crate::respond::Reject;
use crate::respond::answered::Answered;
use crate::respond::body::Held;
use crate::route::{AgentIndex, Place, RouteMatch};
use crate::signing::CardSigner;

/// What it is called where agents have names: no agent can be called so.
pub const NAME: &str = "front door";

pub struct FrontDoor {
    section: config::FrontDoor,
    /// Its place among the routes, behind all agents.
    pub index: AgentIndex,
    public_url: String,
    resource: Resource,
    /// Nothing stands before its paths.
    rooted: bool,
    behind: Vec<Behind>,
    limiter: RateLimiter,
    rate_limit_keys: usize,
    store: Arc<CardStore>,
    scene: ArcSwapOption<Scene>,
    /// Held while it is made anew.
    making: Mutex<()>,
    /// The log knows that nothing is served, which is found again by everybody who asks.
    told: AtomicBool,
    _jobs: Arc<DropGuard>,
}

/// An agent behind it.
#[derive(Clone)]
pub struct Behind {
    pub index: AgentIndex,
    pub agent: Arc<Agent>,
    /// It serves bindings that the agent does not speak.
    pub translates: bool,
    pub listed: Listed,
}

/// What it is built with.
pub struct Ground<'a> {
    pub drain: &'a Drain,
    pub ledger: Option<&'a Arc<Ledger>>,
    pub rate_limit_keys: usize,
    pub public_url: String,
    pub card_signer: Option<&'a Arc<CardSigner>>,
    pub resource: Resource,
    pub rooted: bool,
    pub index: AgentIndex,
}

/// A call that came, and what it came with.
struct Came<'a> {
    front: &'a FrontDoor,
    scene: &'a Scene,
    client: IpAddr,
    downstream: &'a Arc<Downstream>,
    principal: Arc<Principal>,
    call: Call,
    addressed: Addressed,
    /// Of gRPC the message.
    bytes: Bytes,
    asked: Asked,
    /// By which it is known to the log and to everybody who is asked for it.
    id: RequestId,
    trace: Option<TraceId>,
}

impl FrontDoor {
    /// `before` is the one of the configuration in force: what is spent of its limits and known of its card goes on.
    pub fn build(section: &config::FrontDoor, behind: Vec<Behind>, ground: Ground<'_>, before: Option<&Self>) -> Self {
        let kept = before.filter(|before| {
            before.section.rate_limits == section.rate_limits && before.rate_limit_keys == ground.rate_limit_keys
        });
        let (limiter, jobs) = match kept {
            Some(before) => (before.limiter.clone(), before._jobs.clone()),
            None => {
                let limiter = RateLimiter::build(&section.rate_limits, ground.rate_limit_keys);
                let limiter = match ground.ledger {
                    Some(ledger) => limiter.sharing(ledger, NAME),
                    None => limiter,
                };
                let (scope, jobs) = ground.drain.scope();
                limiter.start(&scope);
                (limiter, Arc::new(jobs))
            }
        };
        let store = before.filter(|before| before.section.max_age == section.max_age);
        let store = store.map_or_else(
            || Arc::new(CardStore::new(NAME, section.max_age)),
            |before| before.store.clone(),
        );
        store.sign_with(ground.card_signer);
        Self {
            section: section.clone(),
            index: ground.index,
            public_url: ground.public_url,
            resource: ground.resource,
            rooted: ground.rooted,
            behind,
            limiter,
            rate_limit_keys: ground.rate_limit_keys,
            store,
            scene: ArcSwapOption::empty(),
            making: Mutex::default(),
            told: AtomicBool::new(false),
            _jobs: jobs,
        }
    }
}

impl Pipeline {
    /// A call at the front door, to its answer.
    #[expect(clippy::too_many_arguments, reason = "what a request is made of, once")]
    pub(super) async fn at_front(
        &self,
        front: &FrontDoor,
        route: RouteMatch,
        addressed: Addressed,
        client: IpAddr,
        downstream: &Arc<Downstream>,
        parts: &mut request::Parts,
        body: Incoming,
        held: &mut Held,
    ) -> Result<Answered, Reject> {
        let scene = front.scene(&self.verifiers)?;
        scene.serves(&addressed)?;
        let limited = |limited: Limited| {
            self.observer.metrics.limit_reached(NAME, limited.kind.as_str());
            Reject::from(&limited)
        };
        let mut slot = Slot::default();
        let budget = front.limiter.admit(&mut slot, client, Stage::Address);
        budget.await.map_err(limited)?;
        let identified = authenticate::identify(&scene.requirement, &downstream.peer, client, parts).await;
        let principal = match identified {
            Ok(principal) => principal,
            Err(error) => {
                held.record.detail = Some(error.as_str());
                Box::pin(scene.guessed(downstream, client, parts)).await?;
                return Err(Reject::from(&error));
            }
        };
        scene.has_room(&principal, client)?;
        held.record.principal = Some(principal.id.clone());
        let budget = front.limiter.admit(&mut slot, client, Stage::Caller(&principal.id));
        budget.await.map_err(limited)?;
        let asked_version = hygiene::asked_version(parts)?;
        let (admitted, asked) = self.admitted_at_front(route, &principal, downstream, client)?;
        let bounds = self.bounds_at_front(&scene);
        let body = Metered { body, slot: &slot };
        let read = parse::read(&admitted, parts, &addressed, body, bounds).await;
        let (call, bytes) = read.map_err(|error| {
            held.record.detail = error.as_str().or(held.record.detail);
            Reject::from(&error)
        })?;
        note_call(&mut held.record, &call, &bytes);
        let stage = Stage::Call(&principal.id, call.operation);
        let budget = front.limiter.admit(&mut slot, client, stage);
        budget.await.map_err(|it| limited(it).answering(&call))?;
        authorize::call(admitted, call.clone(), &scene.served, asked_version.as_ref())
            .map_err(|(error, call)| Reject::from(error).serving(&scene.served).answering(&call))?;
        held.slot = Some(slot);
        let came = Came {
            front,
            scene: &scene,
            client,
            downstream,
            principal,
            call,
            addressed,
            bytes,
            asked,
            id: held.record.id,
            trace: held.record.trace,
        };
        self.come(came, route.place, parts, held).await
    }

    /// Nothing is decided of it yet: rules are those of the agent that it goes to.
    fn admitted_at_front(
        &self,
        route: RouteMatch,
        principal: &Arc<Principal>,
        downstream: &Downstream,
        client: IpAddr,
    ) -> Result<(Admitted, Asked), Reject> {
        let nobodys = Ownership::new(
            &Policy {
                task_owner: Some(TaskOwner::Nobody),
                ..Policy::default()
            },
            true,
        );
        let open = Policies {
            listener: &self.open,
            agent: &self.open,
        };
        let asked = self.asked_of(downstream, &Arc::from(NAME), client);
        let admitted = authorize::route(route, principal.clone(), &nobodys, open, &asked).map_err(Reject::from)?;
        Ok((admitted, asked))
    }

    /// The widest of the agents.
    fn bounds_at_front(&self, scene: &Scene) -> parse::Bounds {
        let most = scene.members.iter().map(|member| member.agent.body_bytes).max();
        parse::Bounds {
            body: crate::http::body::Bounds {
                bytes: most.unwrap_or_default(),
                idle: Some(self.body_idle),
                whole: Some(self.body_whole),
            },
            json: self.json,
            v0_1: scene.v0_1,
        }
    }

    async fn come(
        &self,
        mut came: Came<'_>,
        place: Place,
        parts: &mut request::Parts,
        held: &mut Held,
    ) -> Result<Answered, Reject> {
        let call = came.call.clone();
        let in_form = |reject: Reject| reject.answering(&call);
        let told = came.tenant(self.json);
        let chosen = Box::pin(self.choose(&came, told.as_deref(), parts)).await;
        let metrics = &self.observer.metrics;
        let count = |choice: &str| metrics.front_door.with_label_values(&[choice]).inc();
        let (choice, member) = match chosen.inspect_err(|_| count("none")).map_err(in_form)? {
            choose::Chosen::All => {
                count("all");
                if call.operation == Operation::List {
                    return Box::pin(self.list_all(&came, parts)).await.map_err(in_form);
                }
                return Box::pin(self.extended_of_all(&came, parts)).await.map_err(in_form);
            }
            choose::Chosen::One(choice, member) => (choice, member),
        };
        count(choice.as_str());
        held.record.agent = Some(member.agent.metrics.clone());
        let mut place = place;
        let body = self
            .turn(&mut came, member, told.as_deref(), &mut place, parts)
            .map_err(in_form)?;
        let mut own = held.slot.take();
        held.slot = own.as_mut().map(Slot::share);
        let route = RouteMatch {
            agent: member.index,
            place,
        };
        let called = self.call(
            route,
            came.addressed,
            came.client,
            came.downstream,
            parts,
            Full::new(body),
            held,
            None,
        );
        let called = Box::pin(called).await;
        if let Some(own) = own {
            held.slot.get_or_insert_default().join(own);
        }
        called
    }
}

impl Came<'_> {
    /// The tenant that it names.
    fn tenant(&self, limits: Limits) -> Option<Box<str>> {
        let has_tenants = self.call.generation == Generation::V1_0;
        has_tenants
            .then(|| tenant::read(&self.addressed, &self.bytes, limits))
            .flatten()
    }
}
