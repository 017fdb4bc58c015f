//! One agent as its requests find it, and what is enforced for it at this moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::judging::{CallPolicy, SkillDemand};
use crate::a2a::{self, Addressed, Binding, Generation};
use crate::affinity::{Beginnings, Reservations};
use crate::authenticate::{Principal, Requirement, Verifiers};
use crate::authorize::Ownership;
use crate::balance::Endpoints;
use crate::card::{CardState, CardStore, Published};
use crate::gather::probe::Probes;
use crate::http::fetch;
use crate::observe::{AgentMetrics, Reason};
use crate::push::Relay;
use crate::ratelimit::{Limited, RateLimiter};
use crate::respond::Reject;
use crate::upstream::Upstream;

/// One agent at work.
pub struct Agent {
    pub metrics: Arc<AgentMetrics>,
    pub limiter: RateLimiter,
    pub endpoints: Arc<Endpoints>,
    pub reservations: Arc<Reservations>,
    pub beginnings: Arc<Beginnings>,
    /// By which methods callers of 0.1 are served, if they are; an agent of 0.1 serves them anyway.
    pub v0_1: Option<a2a::v0_1::Methods>,
    pub upstream: Arc<Upstream>,
    pub card: Arc<CardStore>,
    /// How its cards are fetched from its own servers.
    pub card_options: fetch::Options,
    /// What callers must show and what is served: from the configuration, else from the agent's card.
    pub enforced: ArcSwapOption<Enforced>,
    pub policy: CallPolicy,
    pub probes: Arc<Probes>,
    /// Endpoints that do not answer are left out of lists.
    pub list_partial: bool,
    /// Where webhooks of callers of another generation are relayed.
    pub relay: Option<Arc<Relay>>,
    /// The envelope protocol and no A2A: it has no card.
    pub speaks_envelope: bool,
    pub forward_credentials: bool,
    pub body_bytes: usize,
    pub event_bytes: usize,
    pub stream_idle: Option<std::time::Duration>,
}

pub struct Enforced {
    pub requirement: Requirement,
    /// The generations that callers may use; empty while unknown.
    pub served: Vec<Generation>,
    /// The bindings that callers may use.
    pub bindings: Vec<a2a::Binding>,
    /// What the agent is called in; empty while unknown.
    pub spoken: Vec<Spoken>,
    /// The agent has its extended card for a GET only.
    pub extended_is_fetched: bool,
    pub ownership: Ownership,
    /// What callers may know of how to get a token, where one is asked for.
    pub metadata: Option<Published>,
    /// What skills demand beside it; `None`: it is not known yet.
    pub skills: Option<BTreeMap<String, SkillDemand>>,
}

/// A dialect that an agent speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    pub generation: Generation,
    pub binding: a2a::Binding,
    /// What the agent wants to be told with every request.
    pub tenant: Option<Arc<str>>,
}

impl Agent {
    /// What is enforced at this moment; an agent out of service, or of which nothing is known, has nothing to enforce.
    pub(super) fn in_service(&self) -> Result<Arc<Enforced>, Reject> {
        let refused = matches!(*self.card.state(), CardState::OutOfService { .. });
        self.enforced
            .load_full()
            .filter(|_| !refused)
            .ok_or_else(|| Reject::new(Reason::AgentNotReady))
    }

    /// A limit of it refuses a call.
    pub(super) fn limited(&self, limited: &Limited) -> Reject {
        self.metrics.limit_reached(limited.kind.as_str());
        Reject::from(limited)
    }

    /// One endpoint does not know of the others' tasks.
    pub(super) fn is_replicated(&self) -> bool {
        self.endpoints.all().len() > 1
    }

    /// The card, if it has one, is known and the agent may be called.
    pub fn is_ready(&self) -> bool {
        (self.speaks_envelope || self.card.current().is_some()) && self.enforced.load().is_some()
    }
}

impl Enforced {
    /// Whether all that callers must show, for skills too, would be verified by the same.
    pub fn is_of(&self, verifiers: &Verifiers) -> bool {
        self.requirements().all(|requirement| requirement.is_of(verifiers))
    }

    /// Of all calls, and of its skills.
    pub(super) fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        let skills = self.skills.iter().flat_map(BTreeMap::values);
        let met = skills.filter_map(|demand| match demand {
            SkillDemand::Met(requirement) => Some(requirement),
            SkillDemand::Unmet => None,
        });
        [&self.requirement].into_iter().chain(met)
    }

    /// Whether calls that are addressed so may be for this agent.
    pub(super) fn serves(&self, addressed: &Addressed) -> Result<(), Reject> {
        match addressed {
            Addressed::JsonRpc if !self.bindings.contains(&Binding::JsonRpc) => Err(Reject::new(Reason::NoRoute)),
            // By their paths.
            Addressed::JsonRpc | Addressed::HttpJson(_) | Addressed::Grpc(_) => Ok(()),
        }
    }

    /// Who somebody that has shown its credentials already is to this agent.
    pub(super) fn readmit(&self, principal: &Principal) -> Result<Arc<Principal>, Reject> {
        let admitted = self.requirement.readmit(principal);
        admitted.ok_or_else(|| Reject::new(Reason::Forbidden))
    }
}
