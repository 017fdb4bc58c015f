//! Is there budget: the rate and concurrency rules of one agent.
//!
//! Asked three times, as more is known: the rules per address, before a credential is checked; the other rules for every
//! operation, before the body is read; those for some operations and for open streams.
//! Each asks narrow rules (principal, address) before wide ones (agent), so that a caller over its own budget does not drain
//! everybody's, and concurrency before rate, so that a call that cannot run costs no token. A refusal gives back the
//! places that were taken on the way to it; tokens of narrower rules stay spent.
//!
//! With a store that gateways share, a rate is one budget over all of them, which is asked last. See `global`.
//!
//! Callers are told apart by principal or by address, IPv6 by /64, the least that one subscriber gets (RFC 6177).
//! Anonymous callers have no principal, so rules per principal tell them apart by address too. What is kept is bounded:
//! see `rate` for what happens at the bound. Nothing is written down: a restart or a new configuration starts afresh.

mod concurrency;
mod global;
mod limited;
mod rate;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};

pub use limited::Limited;

use crate::a2a::Operation;
use crate::authenticate::ANONYMOUS;
use crate::config::{self, LimitBound, LimitKey};
use crate::drain::Drain;
use crate::http::forwarded;
use crate::shared;
use concurrency::{Counters, Guard};
use global::{Asking, Global, Pace, Question};
use limited::Policy;
use rate::Buckets;

/// Keys whose budget is full again are forgotten this often.
const SWEEP: Duration = Duration::from_secs(60);
/// When to come back after a concurrency rule refused: nobody knows when a call ends.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The rules of one agent. Cheap to clone; clones share their budgets.
pub struct RateLimiter<C: Clock = DefaultClock> {
    inner: Arc<Inner<C>>,
    global: Option<Arc<Global>>,
}

impl<C: Clock> Clone for RateLimiter<C> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            global: self.global.clone(),
        }
    }
}

struct Inner<C: Clock> {
    /// For every operation.
    general: Vec<Rule<C>>,
    /// For some operations, and for open streams.
    specific: Vec<Rule<C>>,
    /// Stands for the caller while it is not known.
    nobody: Arc<str>,
}

struct Rule<C: Clock> {
    policy: Arc<Policy>,
    /// Of a rate that is shared, should there be a store for that.
    pace: Option<Pace>,
    per: LimitKey,
    /// Empty: every operation.
    operations: Vec<Operation>,
    bound: Bound<C>,
}

enum Bound<C: Clock> {
    Rate(Box<Buckets<C>>),
    Concurrent(Arc<Counters>),
    OpenStreams(Arc<Counters>),
}

/// What is known of a request, which says what rules hold.
#[derive(Clone, Copy, Debug)]
pub enum Stage<'a> {
    /// Where it comes from: guesses cost their address something too.
    Address,
    /// Whose it is.
    Caller(&'a Arc<str>),
    /// What it asks.
    Call(&'a Arc<str>, Operation),
}

/// Whose budget it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Principal(Arc<str>),
    /// Of an IPv6 address, the first 64 bits.
    Address(IpAddr),
    Agent,
}

impl Key {
    /// Tells callers apart: anonymous ones by their address.
    pub fn caller(principal: &Arc<str>, address: IpAddr) -> Self {
        if &**principal == ANONYMOUS {
            Self::Address(forwarded::subscriber(address))
        } else {
            Self::Principal(Arc::clone(principal))
        }
    }
}

/// The places of one request in the concurrency rules. Belongs to the response body: it is given back on drop, so it must
/// live until the last byte; and to what goes on at an endpoint for a caller who left, or callers could have more under way
/// than they may by leaving early.
#[derive(Debug, Default)]
#[must_use = "dropping the slot gives its places back"]
pub struct Slot {
    guards: Vec<Guard>,
    /// Those that work outside of the request holds too.
    shared: Vec<Arc<Guard>>,
}

impl Slot {
    /// The places of both, for one request.
    pub fn join(&mut self, mut other: Self) {
        self.guards.append(&mut other.guards);
        self.shared.append(&mut other.shared);
    }

    /// The same places, for work that may go on when the request has ended: they are given back when both have let go.
    pub fn share(&mut self) -> Self {
        self.shared.extend(self.guards.drain(..).map(Arc::new));
        Self {
            guards: Vec::new(),
            shared: self.shared.clone(),
        }
    }
}

impl RateLimiter {
    /// `max_keys` bounds what one rate rule remembers.
    pub fn build(rules: &[config::RateLimit], max_keys: usize) -> Self {
        Self::with_clock(rules, max_keys, &DefaultClock::default())
    }

    /// Counts the rates of this agent over all gateways that share `store`.
    #[must_use]
    pub fn sharing(mut self, store: &shared::Store, agent: &str) -> Self {
        self.global = Some(Arc::new(Global {
            store: store.clone(),
            agent: Arc::from(agent),
        }));
        self
    }
}

impl<C: Clock + Clone> RateLimiter<C> {
    fn with_clock(rules: &[config::RateLimit], max_keys: usize, clock: &C) -> Self {
        let (mut general, mut specific): (Vec<_>, Vec<_>) = rules
            .iter()
            .map(|rule| Rule::new(rule, max_keys, clock))
            .partition(Rule::is_general);
        // Stable: rules of the same rank stay in the order of the configuration.
        general.sort_by_key(Rule::rank);
        specific.sort_by_key(Rule::rank);
        Self {
            inner: Arc::new(Inner {
                general,
                specific,
                nobody: Arc::from(ANONYMOUS),
            }),
            global: None,
        }
    }
}

impl<C: Clock> RateLimiter<C> {
    /// Asks the rules of a stage, here and then over all gateways. What the slot holds already it keeps, whatever the answer.
    pub async fn admit(&self, slot: &mut Slot, address: IpAddr, stage: Stage<'_>) -> Result<(), Limited> {
        self.take(slot, address, stage)?;
        match self.ask(address, stage) {
            Some(asking) => asking.await,
            None => Ok(()),
        }
    }

    fn rules<'a>(&'a self, stage: Stage<'a>) -> impl Iterator<Item = &'a Rule<C>> {
        let general = self.inner.general.iter().filter(move |rule| match stage {
            Stage::Address => rule.per == LimitKey::Address,
            Stage::Caller(_) => rule.per != LimitKey::Address,
            Stage::Call(..) => false,
        });
        let specific = self.inner.specific.iter().filter(move |rule| match stage {
            Stage::Address | Stage::Caller(_) => false,
            Stage::Call(_, operation) => rule.concerns(operation),
        });
        general.chain(specific)
    }

    fn principal<'a>(&'a self, stage: Stage<'a>) -> &'a Arc<str> {
        match stage {
            Stage::Address => &self.inner.nobody,
            Stage::Caller(principal) | Stage::Call(principal, _) => principal,
        }
    }

    fn take(&self, slot: &mut Slot, address: IpAddr, stage: Stage<'_>) -> Result<(), Limited> {
        let principal = self.principal(stage);
        let mut taken = Vec::new();
        for rule in self.rules(stage) {
            taken.extend(rule.ask(principal, address)?);
        }
        slot.guards.append(&mut taken);
        Ok(())
    }

    /// `None` where there is nothing to ask the other gateways, or nobody.
    fn ask(&self, address: IpAddr, stage: Stage<'_>) -> Option<Asking> {
        let global = self.global.as_ref().filter(|global| global.store.is_up())?;
        let principal = self.principal(stage);
        let questions: Vec<Question> = self
            .rules(stage)
            .filter_map(|rule| {
                let key = rule.key(principal, address);
                Some(Question {
                    command: global.command(rule.policy.rule(), &key, rule.pace?),
                    policy: Arc::clone(&rule.policy),
                    wide: key == Key::Agent,
                })
            })
            .collect();
        (!questions.is_empty()).then(|| Box::pin(global::ask(global.store.clone(), questions)) as Asking)
    }

    /// Forgets the keys whose budget is full again.
    pub fn sweep(&self) {
        for rule in self.inner.general.iter().chain(&self.inner.specific) {
            match &rule.bound {
                Bound::Rate(buckets) => buckets.sweep(),
                // Entries go with the last call of their key.
                Bound::Concurrent(_) | Bound::OpenStreams(_) => {}
            }
        }
    }
}

impl<C> RateLimiter<C>
where
    C: Clock + Send + Sync + 'static,
    C::Instant: Send,
{
    /// Sweeps for as long as somebody else holds the limiter and the process runs.
    pub fn start(&self, drain: &Drain) {
        let inner = Arc::downgrade(&self.inner);
        drain.service(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let Some(inner) = inner.upgrade() else {
                    return;
                };
                Self { inner, global: None }.sweep();
            }
        });
    }
}

impl<C: Clock + Clone> Rule<C> {
    fn new(rule: &config::RateLimit, max_keys: usize, clock: &C) -> Self {
        let mut pace = None;
        let (policy, bound) = match rule.bound {
            LimitBound::Rate {
                count,
                period,
                burst,
                shared,
            } => {
                pace = shared.then(|| Pace::new(count, period, burst));
                (
                    Policy::rate(&rule.name, count, period),
                    Bound::Rate(Box::new(Buckets::new(count, period, burst, max_keys, clock))),
                )
            }
            LimitBound::Concurrent(limit) => (
                Policy::concurrent(&rule.name, limit),
                Bound::Concurrent(Arc::new(Counters::new(limit))),
            ),
            LimitBound::OpenStreams(limit) => (
                Policy::concurrent(&rule.name, limit),
                Bound::OpenStreams(Arc::new(Counters::new(limit))),
            ),
        };
        Self {
            policy: Arc::new(policy),
            pace,
            per: rule.per,
            operations: rule.operations.clone(),
            bound,
        }
    }
}

impl<C: Clock> Rule<C> {
    fn is_general(&self) -> bool {
        match self.bound {
            Bound::Rate(_) | Bound::Concurrent(_) => self.operations.is_empty(),
            Bound::OpenStreams(_) => false,
        }
    }

    fn rank(&self) -> (u8, u8) {
        let width = match self.per {
            LimitKey::Principal => 0,
            LimitKey::Address => 1,
            LimitKey::Agent => 2,
        };
        let cost = match self.bound {
            Bound::Concurrent(_) | Bound::OpenStreams(_) => 0,
            Bound::Rate(_) => 1,
        };
        (width, cost)
    }

    fn concerns(&self, operation: Operation) -> bool {
        let named = self.operations.is_empty() || self.operations.contains(&operation);
        match self.bound {
            Bound::Rate(_) | Bound::Concurrent(_) => named,
            Bound::OpenStreams(_) => named && operation.streams(),
        }
    }

    /// The place taken, if the rule counts places.
    fn ask(&self, principal: &Arc<str>, address: IpAddr) -> Result<Option<Guard>, Limited> {
        let key = self.key(principal, address);
        match &self.bound {
            Bound::Rate(buckets) => buckets
                .take(key, principal)
                .map(|()| None)
                .map_err(|wait| self.policy.refuse(wait)),
            Bound::Concurrent(counters) | Bound::OpenStreams(counters) => counters
                .enter(key)
                .map(Some)
                .ok_or_else(|| self.policy.refuse(TRY_AGAIN)),
        }
    }

    fn key(&self, principal: &Arc<str>, address: IpAddr) -> Key {
        match self.per {
            LimitKey::Principal => Key::caller(principal, address),
            LimitKey::Address => Key::Address(forwarded::subscriber(address)),
            LimitKey::Agent => Key::Agent,
        }
    }
}
