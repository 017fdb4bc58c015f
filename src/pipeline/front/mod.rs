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

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{header, request};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio_util::sync::DropGuard;

use super::{Agent, Downstream, Enforced, Pipeline, note_call};
use crate::a2a::card::{Edits, Publication, gather};
use crate::a2a::json::Limits;
use crate::a2a::{Addressed, Binding, Call, Generation, Operation, grpc, tenant, v0_1};
use crate::authenticate::{self, Principal, Requirement, Resource, Verifiers};
use crate::authorize::{self, Admitted, Asked, Ownership, Policies};
use crate::card::{self, CardStore, Published};
use crate::config::{self, Listed, Policy, TaskOwner};
use crate::drain::Drain;
use crate::http::hygiene;
use crate::observe::record::RequestId;
use crate::observe::{Reason, TraceId};
use crate::ratelimit::{Ledger, Limited, Metered, RateLimiter, Slot, Stage};
use crate::respond::Reject;
use crate::respond::answered::Answered;
use crate::respond::body::Held;
use crate::route::{AgentIndex, Place, RouteMatch};
use crate::signing::CardSigner;
use crate::{a2a, parse};

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

/// The agents behind it as they are at a moment, and what follows from that.
pub(super) struct Scene {
    members: Vec<Member>,
    requirement: Requirement,
    served: Vec<Generation>,
    bindings: Vec<Binding>,
    v0_1: Option<v0_1::Methods>,
    publication: Publication,
    pub(super) metadata: Option<Arc<Published>>,
}

/// An agent that may be called.
struct Member {
    index: AgentIndex,
    agent: Arc<Agent>,
    enforced: Arc<Enforced>,
    card: Arc<card::Current>,
    listed: Listed,
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

    /// Where there is an agent that may be called.
    pub(super) fn scene(&self, verifiers: &Verifiers) -> Result<Arc<Scene>, Reject> {
        let not_ready = || Reject::new(Reason::AgentNotReady);
        if let Some(known) = self.scene.load().as_ref().filter(|scene| self.shows(scene)) {
            return Ok(Arc::clone(known));
        }
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.scene.load().as_ref().filter(|scene| self.shows(scene)) {
            return Ok(Arc::clone(known));
        }
        let scene = Arc::new(self.make(verifiers).ok_or_else(not_ready)?);
        let parts = parts(&scene.members, |member| member.listed == Listed::Public);
        let origin = gather::gather(&parts, &scene.publication.enforced, &self.section.card, |_, _| true);
        self.store.accept(NAME, origin, scene.publication.clone());
        self.scene.store(Some(Arc::clone(&scene)));
        Ok(scene)
    }

    pub(super) fn card(&self, verifiers: &Verifiers) -> Result<Arc<card::Current>, Reject> {
        self.scene(verifiers)?;
        self.store.current().ok_or_else(|| Reject::new(Reason::AgentNotReady))
    }

    fn members(&self) -> impl Iterator<Item = (&Behind, Arc<Enforced>, Arc<card::Current>)> {
        self.behind.iter().filter_map(|behind| {
            let enforced = behind.agent.in_service().ok()?;
            Some((behind, enforced, behind.agent.card.current()?))
        })
    }

    /// Those that are not in service at this moment.
    fn absent<'a>(&'a self, scene: &'a Scene) -> impl Iterator<Item = &'a Behind> {
        let is_there = |behind: &&Behind| scene.members.iter().any(|member| member.index == behind.index);
        self.behind.iter().filter(move |behind| !is_there(behind))
    }

    fn shows(&self, scene: &Scene) -> bool {
        let mut known = scene.members.iter();
        let same = self.members().all(|(_, enforced, card)| {
            known
                .next()
                .is_some_and(|member| Arc::ptr_eq(&member.enforced, &enforced) && Arc::ptr_eq(&member.card, &card))
        });
        same && known.next().is_none()
    }

    fn make(&self, verifiers: &Verifiers) -> Option<Scene> {
        let all: Vec<_> = self.members().collect();
        let served = Generation::SPOKEN.into_iter();
        let served: Vec<_> = served
            .filter(|generation| all.iter().all(|(_, enforced, _)| enforced.served.contains(generation)))
            .collect();
        let speaks = |enforced: &Enforced, binding| enforced.spoken.iter().any(|spoken| spoken.binding == binding);
        let bindings = Binding::ALL.into_iter();
        let bindings: Vec<_> = bindings
            .filter(|binding| *binding != Binding::Grpc || self.rooted)
            .filter(|binding| {
                let serves = |(behind, enforced, _): &(&Behind, Arc<Enforced>, _)| {
                    behind.translates || speaks(enforced, *binding)
                };
                all.iter().all(serves)
            })
            .collect();
        if all.is_empty() {
            return None;
        }
        if served.is_empty() || bindings.is_empty() {
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    "the front door serves nothing, because its agents have no generation or no binding in common; set \
                     `translate: true` or leave some out of front_door.agents"
                );
            }
            return None;
        }
        self.told.store(false, Ordering::Relaxed);
        let of_0_1 = all.iter().map(|(behind, enforced, _)| {
            let strict = enforced.is_of_0_1().then_some(v0_1::Methods::Strict);
            behind.agent.v0_1.or(strict)
        });
        let of_0_1: Option<Vec<_>> = of_0_1.collect();
        // Whatever one of them takes; another one refuses what it does not.
        let v0_1 = of_0_1.map(|methods| match methods.contains(&v0_1::Methods::Lenient) {
            true => v0_1::Methods::Lenient,
            false => v0_1::Methods::Strict,
        });
        let members: Vec<Member> = all
            .into_iter()
            .map(|(behind, enforced, card)| Member {
                index: behind.index,
                agent: behind.agent.clone(),
                enforced,
                card,
                listed: behind.listed,
            })
            .collect();
        let enforced = gather::any_of(members.iter().map(|member| &member.card.publication.enforced));
        let requirement = verifiers.resolve(&enforced, &self.resource).ok()?;
        let name = self.section.card.get("name").and_then(serde_json::Value::as_str);
        let metadata = verifiers.describe(&enforced, &self.resource, name);
        let parts = parts(&members, |_| true);
        let pushes = |claims: fn(&Publication) -> bool| parts.iter().all(|part| claims(part.publication));
        let publication = Publication {
            public_url: self.public_url.clone(),
            served: served.clone(),
            by_version: false,
            v0_1: v0_1.is_some(),
            // Made of published cards, which leave nothing out.
            written: Generation::V0_3,
            bindings: bindings.clone(),
            spoken: Binding::JsonRpc,
            schemes: gather::schemes(&parts),
            enforced,
            streaming: true,
            push: pushes(|publication| publication.push),
            push_v0_1: pushes(|publication| publication.push_v0_1),
            extended: true,
            upstream: Vec::new(),
            original: false,
            edits: Edits::default(),
        };
        drop(parts);
        Some(Scene {
            members,
            requirement,
            served,
            bindings,
            v0_1,
            publication,
            metadata: metadata.map(|body| Arc::new(Published::new(body, self.section.max_age))),
        })
    }
}

fn parts<'m>(members: &'m [Member], named: impl Fn(&Member) -> bool) -> Vec<gather::Part<'m>> {
    let parts = members.iter().map(|member| gather::Part {
        named: named(member),
        name: &member.agent.metrics.name,
        origin: &member.card.origin,
        publication: &member.card.publication,
    });
    parts.collect()
}

impl Scene {
    pub(super) fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The paths of the other bindings say it themselves.
    fn serves(&self, addressed: &Addressed) -> Result<(), Reject> {
        match addressed {
            Addressed::JsonRpc if !self.bindings.contains(&Binding::JsonRpc) => Err(Reject::new(Reason::NoRoute)),
            Addressed::JsonRpc | Addressed::HttpJson(_) | Addressed::Grpc(_) => Ok(()),
        }
    }

    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| *member.agent.metrics.name == *name)
    }

    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.iter().map(|member| &member.agent.metrics.name)
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

    /// What callers show for other agents is withheld from one that gets their credentials; others get none.
    fn withhold(&self, member: &Member, parts: &mut request::Parts) {
        if !member.agent.forward_credentials {
            return;
        }
        let mut others = self.verifiers.places().clone();
        others.headers.push(header::AUTHORIZATION);
        for requirement in member.enforced.requirements() {
            others = others.but(&requirement.own_places());
        }
        for name in &others.headers {
            parts.headers.remove(name);
        }
        let kept = parts.uri.query().map(|query| others.strip_query(query));
        if let Some(Cow::Owned(query)) = kept {
            let target = match query.as_str() {
                "" => parts.uri.path().to_owned(),
                query => format!("{}?{query}", parts.uri.path()),
            };
            authenticate::keep(parts);
            parts.uri = target.parse().unwrap_or_default();
        }
    }

    /// Makes of the call one to the agent; what comes back is its body.
    fn turn(
        &self,
        came: &mut Came<'_>,
        member: &Member,
        told: Option<&str>,
        place: &mut Place,
        parts: &mut request::Parts,
    ) -> Result<Bytes, Reject> {
        if came.bytes.len() > member.agent.body_bytes {
            return Err(Reject::new(Reason::BodyTooLarge));
        }
        self.address(came, member, told, place, parts)?;
        self.withhold(member, parts);
        match came.addressed {
            Addressed::Grpc(_) => grpc::frame(&came.bytes).map_err(|_| Reject::new(Reason::BodyTooLarge)),
            Addressed::JsonRpc | Addressed::HttpJson(_) => Ok(came.bytes.clone()),
        }
    }

    /// The agent is told its own tenant, whatever its caller chose it by.
    fn address(
        &self,
        came: &mut Came<'_>,
        member: &Member,
        told: Option<&str>,
        place: &mut Place,
        parts: &mut request::Parts,
    ) -> Result<(), Reject> {
        let own = own_tenant(member, came.call.generation);
        if told == own || came.call.generation != Generation::V1_0 {
            return Ok(());
        }
        let unreadable = |_: a2a::json::Error| Reject::new(Reason::ParseError);
        came.bytes = tenant::write(&came.addressed, &came.bytes, own, self.json).map_err(unreadable)?;
        hygiene::drop_digests(&mut parts.headers);
        if let Addressed::HttpJson(target) = &came.addressed {
            let base = match place {
                Place::Below { base } => *base,
                Place::Rpc | Place::Card | Place::Metadata => 0,
            };
            let path = parts.uri.path().get(base..).unwrap_or_default();
            let (target, mut path) = tenant::write_target(target, path, own);
            if let Some(query) = parts.uri.query().and_then(tenant::without_in_query) {
                path.push('?');
                path.push_str(&query);
            }
            authenticate::keep(parts);
            parts.uri = path.parse().map_err(|_| Reject::new(Reason::BadHead))?;
            came.addressed = Addressed::HttpJson(Box::new(target));
            *place = Place::Below { base: 0 };
        }
        Ok(())
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

/// What an agent wants to be told with calls that come in this generation.
fn own_tenant(member: &Member, generation: Generation) -> Option<&str> {
    let spoken = member.enforced.spoken(generation)?;
    let spoken = (spoken.generation == Generation::V1_0).then_some(spoken)?;
    spoken.tenant.as_deref()
}
