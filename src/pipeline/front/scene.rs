//! What stands behind the front door at a moment: the agents in service, and what it serves, asks for and publishes with them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::{Behind, FrontDoor, NAME};
use crate::a2a::card::{Edits, Publication, gather};
use crate::a2a::{Addressed, Binding, Generation, v0_1};
use crate::authenticate::{Requirement, Verifiers};
use crate::card::{self, Published};
use crate::config::Listed;
use crate::observe::Reason;
use crate::pipeline::{Agent, Enforced};
use crate::respond::Reject;
use crate::route::AgentIndex;

/// The agents behind it as they are at a moment, and what follows from that.
pub(in crate::pipeline) struct Scene {
    pub(super) members: Vec<Member>,
    pub(super) requirement: Requirement,
    pub(super) served: Vec<Generation>,
    pub(super) bindings: Vec<Binding>,
    pub(super) v0_1: Option<v0_1::Methods>,
    pub(super) publication: Publication,
    pub(in crate::pipeline) metadata: Option<Arc<Published>>,
}

/// An agent that may be called.
pub(super) struct Member {
    pub(super) index: AgentIndex,
    pub(super) agent: Arc<Agent>,
    pub(super) enforced: Arc<Enforced>,
    pub(super) card: Arc<card::Current>,
    pub(super) listed: Listed,
}

impl FrontDoor {
    /// Where there is an agent that may be called.
    pub(in crate::pipeline) fn scene(&self, verifiers: &Verifiers) -> Result<Arc<Scene>, Reject> {
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

    pub(in crate::pipeline) fn card(&self, verifiers: &Verifiers) -> Result<Arc<card::Current>, Reject> {
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
    pub(super) fn absent<'a>(&'a self, scene: &'a Scene) -> impl Iterator<Item = &'a Behind> {
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

pub(super) fn parts<'m>(members: &'m [Member], named: impl Fn(&Member) -> bool) -> Vec<gather::Part<'m>> {
    let parts = members.iter().map(|member| gather::Part {
        named: named(member),
        name: &member.agent.metrics.name,
        origin: &member.card.origin,
        publication: &member.card.publication,
    });
    parts.collect()
}

impl Scene {
    pub(in crate::pipeline) fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The paths of the other bindings say it themselves.
    pub(super) fn serves(&self, addressed: &Addressed) -> Result<(), Reject> {
        match addressed {
            Addressed::JsonRpc if !self.bindings.contains(&Binding::JsonRpc) => Err(Reject::new(Reason::NoRoute)),
            Addressed::JsonRpc | Addressed::HttpJson(_) | Addressed::Grpc(_) => Ok(()),
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| *member.agent.metrics.name == *name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.iter().map(|member| &member.agent.metrics.name)
    }
}
