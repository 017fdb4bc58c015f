//! Is there budget: the limits of one agent.
//!
//! Asked as more is known: the rules per address, before a credential is checked; the other rules for every
//! operation, before the body is read; those for some operations and for open streams; at last, of a send that is allowed and begins a
//! task, those about that. Each asks narrow rules (principal, address) before wide ones (agent), so that a caller over its own budget does not drain
//! everybody's, and concurrency before rate, so that a call that cannot run costs no token. A refusal gives back the
//! places that were taken on the way to it; tokens of narrower rules stay spent.
//!
//! Bytes are charged as they pass (`bytes`), to the budgets that the slot of their request names. How many tasks are open is told by
//! whoever keeps their records (`open`).
//!
//! With a store that gateways share, each limit is one over all of them, which is asked last. See `global` and `ledger`.
//!
//! Callers are told apart by principal or by address, IPv6 by /64, the least that one subscriber gets (RFC 6177).
//! Anonymous callers have no principal, so rules per principal tell them apart by address too. What is kept is bounded:
//! see `rate` for what happens at the bound. Nothing is written down: a restart or a new configuration starts afresh.

mod bytes;
mod concurrency;
mod global;
mod ledger;
mod limited;
mod open;
mod rate;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};

pub use self::bytes::Metered;
pub use self::ledger::Ledger;
pub use limited::{Kind, Limited};
pub use open::{OpenTasks, Place};

use self::bytes::{Budgets, Meter};
use crate::a2a::Operation;
use crate::authenticate::ANONYMOUS;
use crate::config::{self, Direction, LimitBound, LimitKey, RateOf};
use crate::drain::Drain;
use crate::http::forwarded;
use concurrency::{Counters, Guard};
use global::{Asking, Global, Granted, Pace, Question, Share};
use ledger::{BytePace, Lease, Watched};
use limited::Policy;
use open::Open;
use rate::Buckets;

/// Keys whose budget is full again are forgotten this often.
const SWEEP: Duration = Duration::from_secs(60);
/// When to come back after a concurrency rule refused: nobody knows when a call ends.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The same after one on open tasks: these take seconds to hours, and whoever asks for them learns of an end at once.
const TASKS_TRY_AGAIN: Duration = Duration::from_secs(10);

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
    /// About sends that begin a task.
    beginning: Vec<Rule<C>>,
    /// Stands for the caller while it is not known.
    nobody: Arc<str>,
}

struct Rule<C: Clock> {
    policy: Arc<Policy>,
    /// What of it is shared, should there be a store for that.
    share: Option<Share>,
    per: LimitKey,
    /// Empty: every operation.
    operations: Vec<Operation>,
    bound: Bound<C>,
}

enum Bound<C: Clock> {
    Rate(Box<Buckets<C>>),
    Concurrent(Arc<Counters>),
    OpenStreams(Arc<Counters>),
    OpenTasks(u32),
    Bytes(Arc<Budgets<C>>, Direction),
}

/// When a rule is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    General,
    Specific,
    Beginning,
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
    /// It begins a task.
    Begin(&'a Arc<str>, Beginning<'a>),
}

/// Whose task a send begins.
#[derive(Clone, Copy)]
pub struct Beginning<'a> {
    pub open: &'a Arc<OpenTasks>,
    pub agent: &'a Arc<str>,
    pub owner: &'a Arc<str>,
}

impl fmt::Debug for Beginning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Beginning").field(self.agent).field(self.owner).finish()
    }
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
    held: Vec<Held>,
    /// Those that work outside of the request holds too.
    shared: Vec<Arc<Held>>,
    /// Few requests have one.
    quota: Option<Box<Quota>>,
}

/// A place in a rule.
#[derive(Debug)]
#[expect(dead_code, reason = "held for their drop")]
enum Held {
    Here(Guard),
    Everywhere(Lease),
}

#[derive(Debug, Default)]
struct Quota {
    /// What the bytes of the request are charged to.
    meters: Vec<(Direction, Meter)>,
    /// Of the task that it may begin.
    place: Option<Place>,
}

impl Slot {
    /// The places of both, for one request.
    pub fn join(&mut self, mut other: Self) {
        self.held.append(&mut other.held);
        self.shared.append(&mut other.shared);
        match (&mut self.quota, other.quota) {
            (Some(own), Some(mut other)) => {
                own.meters.append(&mut other.meters);
                own.place = own.place.take().or(other.place);
            }
            (None, other) => self.quota = other,
            (Some(_), None) => {}
        }
    }

    /// To be called as bytes of the request's body or of its answer's pass.
    pub fn charge(&self, direction: Direction, bytes: usize) {
        let Some(quota) = &self.quota else { return };
        for (of, meter) in &quota.meters {
            if *of == direction {
                meter.charge(bytes as u64);
            }
        }
    }

    /// The place of the task that the call may begin, to be held until its answer was learned from.
    pub fn take_place(&mut self) -> Option<Place> {
        self.quota.as_mut()?.place.take()
    }

    /// The same places, for work that may go on when the request has ended: they are given back when both have let go.
    pub fn share(&mut self) -> Self {
        self.shared.extend(self.held.drain(..).map(Arc::new));
        Self {
            held: Vec::new(),
            shared: self.shared.clone(),
            quota: None,
        }
    }
}

impl RateLimiter {
    /// `max_keys` bounds what one rate rule remembers.
    pub fn build(rules: &[config::RateLimit], max_keys: usize) -> Self {
        Self::with_clock(rules, max_keys, &DefaultClock::default())
    }

    /// Counts for this agent over all gateways that share the ledger's store.
    #[must_use]
    pub fn sharing(mut self, ledger: &Arc<Ledger>, agent: &str) -> Self {
        self.global = Some(Arc::new(Global {
            ledger: Arc::clone(ledger),
            agent: Arc::from(agent),
        }));
        self
    }
}

impl<C: Clock + Clone> RateLimiter<C> {
    fn with_clock(rules: &[config::RateLimit], max_keys: usize, clock: &C) -> Self {
        let of = |asked| {
            let rules = rules.iter().filter(|rule| Asked::of(rule) == asked);
            let mut rules: Vec<_> = rules.map(|rule| Rule::new(rule, max_keys, clock)).collect();
            // Stable: rules of the same rank stay in the order of the configuration.
            rules.sort_by_key(Rule::rank);
            rules
        };
        Self {
            inner: Arc::new(Inner {
                general: of(Asked::General),
                specific: of(Asked::Specific),
                beginning: of(Asked::Beginning),
                nobody: Arc::from(ANONYMOUS),
            }),
            global: None,
        }
    }
}

impl<C> RateLimiter<C>
where
    C: Clock + Send + Sync + 'static,
    C::Instant: Send + Sync,
{
    /// Asks the rules of a stage, here and then over all gateways. What the slot holds already it keeps, whatever the answer.
    pub async fn admit(&self, slot: &mut Slot, address: IpAddr, stage: Stage<'_>) -> Result<(), Limited> {
        let mut taken = Slot::default();
        let by_all = self.inner.beginning.iter().any(|rule| self.is_counted_by_all(rule));
        self.take(&mut taken, address, stage)?;
        let granted = match self.ask(address, stage) {
            Some(asking) => asking.await?,
            None => Granted::default(),
        };
        if by_all && !granted.whole {
            self.without_others(stage)?;
        }
        taken.held.extend(granted.leases.into_iter().map(Held::Everywhere));
        if let Some(place) = taken.quota.as_mut().and_then(|quota| quota.place.as_mut()) {
            place.hold(granted.of_task);
        }
        slot.join(taken);
        Ok(())
    }

    /// Whether a request from this address would find a call left in the rates per address, as far as this gateway knows; nothing is
    /// taken.
    pub fn look(&self, address: IpAddr) -> Result<(), Limited> {
        let principal = &self.inner.nobody;
        self.rules(Stage::Address).try_for_each(|rule| match &rule.bound {
            Bound::Rate(buckets) => {
                let looked = buckets.look(rule.key(principal, address), principal);
                looked.map_err(|wait| rule.policy.refuse(wait))
            }
            Bound::Concurrent(_) | Bound::OpenStreams(_) | Bound::OpenTasks(_) | Bound::Bytes(..) => Ok(()),
        })
    }

    fn rules<'a>(&'a self, stage: Stage<'a>) -> impl Iterator<Item = &'a Rule<C>> {
        let general = self.inner.general.iter().filter(move |rule| match stage {
            Stage::Address => rule.per == LimitKey::Address,
            Stage::Caller(_) => rule.per != LimitKey::Address,
            Stage::Call(..) | Stage::Begin(..) => false,
        });
        let specific = self.inner.specific.iter().filter(move |rule| match stage {
            Stage::Address | Stage::Caller(_) | Stage::Begin(..) => false,
            Stage::Call(_, operation) => rule.concerns(operation),
        });
        let begins = matches!(stage, Stage::Begin(..));
        let beginning = self.inner.beginning.iter().filter(move |_| begins);
        general.chain(specific).chain(beginning)
    }

    fn principal<'a>(&'a self, stage: Stage<'a>) -> &'a Arc<str> {
        match stage {
            Stage::Address => &self.inner.nobody,
            Stage::Caller(principal) | Stage::Call(principal, _) | Stage::Begin(principal, _) => principal,
        }
    }

    fn take(&self, slot: &mut Slot, address: IpAddr, stage: Stage<'_>) -> Result<(), Limited> {
        let principal = self.principal(stage);
        let mut taken = Slot::default();
        for rule in self.rules(stage) {
            if !self.is_counted_by_all(rule) {
                rule.ask(&mut taken, principal, address, stage, self.global.as_deref())?;
            }
        }
        if let Stage::Begin(_, beginning) = stage
            && self.counts_tasks()
        {
            let place = self.place(beginning)?;
            taken.quota.get_or_insert_default().place = Some(place);
        }
        slot.join(taken);
        Ok(())
    }

    /// The store went away before it said how many tasks are open: what is known here counts, the place that was just taken
    /// left out.
    fn without_others(&self, stage: Stage<'_>) -> Result<(), Limited> {
        let Stage::Begin(_, Beginning { open, agent, owner }) = stage else {
            return Ok(());
        };
        let now = open.of(agent, owner).without_one();
        self.inner.beginning.iter().try_for_each(|rule| rule.has_room(now))
    }

    /// There are limits on tasks that begin.
    pub fn asks_beginnings(&self) -> bool {
        !self.inner.beginning.is_empty()
    }

    fn counts_tasks(&self) -> bool {
        let mut rules = self.inner.beginning.iter();
        rules.any(|rule| matches!(rule.bound, Bound::OpenTasks(_)))
    }

    /// Of two sends at once one gets the last place, whatever both heard before.
    fn place(&self, beginning: Beginning<'_>) -> Result<Place, Limited> {
        let Beginning { open, agent, owner } = beginning;
        open.enter(agent, owner, |now| {
            let mut here = self.inner.beginning.iter().filter(|rule| !self.is_counted_by_all(rule));
            here.try_for_each(|rule| rule.has_room(now))
        })
    }

    /// Of open tasks this gateway may know one whose end another has seen, so that all of them have the say as long as they can be
    /// asked.
    fn is_counted_by_all(&self, rule: &Rule<C>) -> bool {
        let is_shared = matches!(rule.share, Some(Share::Tasks(_)));
        is_shared && self.global.as_ref().is_some_and(|global| global.store().is_up())
    }

    /// `None` where there is nothing to ask the other gateways, or nobody.
    fn ask(&self, address: IpAddr, stage: Stage<'_>) -> Option<Asking> {
        let global = self.global.as_ref().filter(|global| global.store().is_up())?;
        let principal = self.principal(stage);
        let owner = match stage {
            Stage::Begin(_, Beginning { owner, .. }) => Some(&**owner),
            Stage::Address | Stage::Caller(_) | Stage::Call(..) => None,
        };
        let questions: Vec<Question> = self
            .rules(stage)
            .filter_map(|rule| {
                let key = rule.key(principal, address);
                Some(global.question(&rule.policy, &key, rule.share?, owner))
            })
            .collect();
        (!questions.is_empty()).then(|| Box::pin(global::ask(global.store().clone(), questions)) as Asking)
    }

    /// Forgets the keys whose budget is full again.
    pub fn sweep(&self) {
        for rule in self.inner.rules() {
            match &rule.bound {
                Bound::Rate(buckets) => buckets.sweep(),
                Bound::Bytes(budgets, _) => budgets.sweep(),
                // Entries go with the last call or task of their key.
                Bound::Concurrent(_) | Bound::OpenStreams(_) | Bound::OpenTasks(_) => {}
            }
        }
    }
}

impl<C: Clock> Inner<C> {
    fn rules(&self) -> impl Iterator<Item = &Rule<C>> {
        self.general.iter().chain(&self.specific).chain(&self.beginning)
    }
}

impl<C> RateLimiter<C>
where
    C: Clock + Send + Sync + 'static,
    C::Instant: Send + Sync,
{
    /// Sweeps for as long as somebody else holds the limiter and the process runs.
    pub fn start(&self, drain: &Drain) {
        if let Some(global) = &self.global {
            let mut watched = Watched::default();
            for rule in &self.inner.beginning {
                if let Some(Share::Tasks(_)) = rule.share {
                    watched.of_agent |= rule.per == LimitKey::Agent;
                    watched.of_owner |= rule.per != LimitKey::Agent;
                }
            }
            global.watch(watched);
        }
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
        let share = match rule.bound {
            LimitBound::Rate {
                count, period, burst, ..
            } => Share::Rate(Pace::new(count, period, burst)),
            LimitBound::Concurrent(limit) | LimitBound::OpenStreams(limit) => Share::Places(limit),
            LimitBound::OpenTasks(limit) => Share::Tasks(limit),
            LimitBound::Bytes { bytes, period, .. } => Share::Bytes(BytePace { bytes, period }),
        };
        let (policy, bound) = match rule.bound {
            LimitBound::Rate {
                count,
                period,
                burst,
                of,
            } => {
                let kind = match of {
                    RateOf::Calls => Kind::Rate,
                    RateOf::TaskCreations => Kind::TaskCreations,
                    RateOf::Polls => Kind::Polls,
                };
                (
                    Policy::rate(&rule.name, kind, u64::from(count), period),
                    Bound::Rate(Box::new(Buckets::new(count, period, burst, max_keys, clock))),
                )
            }
            LimitBound::Concurrent(limit) => (
                Policy::concurrent(&rule.name, Kind::Concurrent, limit),
                Bound::Concurrent(Arc::new(Counters::new(limit))),
            ),
            LimitBound::OpenStreams(limit) => (
                Policy::concurrent(&rule.name, Kind::OpenStreams, limit),
                Bound::OpenStreams(Arc::new(Counters::new(limit))),
            ),
            LimitBound::OpenTasks(limit) => (
                Policy::concurrent(&rule.name, Kind::OpenTasks, limit),
                Bound::OpenTasks(limit),
            ),
            LimitBound::Bytes {
                bytes,
                period,
                direction,
            } => {
                let kind = match direction {
                    Direction::In => Kind::BytesIn,
                    Direction::Out => Kind::BytesOut,
                };
                (
                    Policy::rate(&rule.name, kind, bytes, period),
                    Bound::Bytes(Arc::new(Budgets::new(bytes, period, max_keys, clock)), direction),
                )
            }
        };
        Self {
            policy: Arc::new(policy),
            share: rule.shared.then_some(share),
            per: rule.per,
            operations: rule.operations.clone(),
            bound,
        }
    }
}

impl Asked {
    fn of(rule: &config::RateLimit) -> Self {
        match rule.bound {
            LimitBound::Rate {
                of: RateOf::TaskCreations,
                ..
            }
            | LimitBound::OpenTasks(_) => Self::Beginning,
            LimitBound::OpenStreams(_) => Self::Specific,
            LimitBound::Rate {
                of: RateOf::Calls | RateOf::Polls,
                ..
            }
            | LimitBound::Concurrent(_)
            | LimitBound::Bytes { .. } => match rule.operations.is_empty() {
                true => Self::General,
                false => Self::Specific,
            },
        }
    }
}

impl<C: Clock> Rule<C> {
    fn rank(&self) -> (u8, u8) {
        let width = match self.per {
            LimitKey::Principal => 0,
            LimitKey::Address => 1,
            LimitKey::Agent => 2,
        };
        let cost = match self.bound {
            Bound::Concurrent(_) | Bound::OpenStreams(_) | Bound::OpenTasks(_) | Bound::Bytes(..) => 0,
            Bound::Rate(_) => 1,
        };
        (width, cost)
    }

    fn concerns(&self, operation: Operation) -> bool {
        let named = self.operations.is_empty() || self.operations.contains(&operation);
        match self.bound {
            Bound::Rate(_) | Bound::Concurrent(_) | Bound::Bytes(..) => named,
            Bound::OpenStreams(_) => named && operation.streams(),
            Bound::OpenTasks(_) => false,
        }
    }

    fn key(&self, principal: &Arc<str>, address: IpAddr) -> Key {
        match self.per {
            LimitKey::Principal => Key::caller(principal, address),
            LimitKey::Address => Key::Address(forwarded::subscriber(address)),
            LimitKey::Agent => Key::Agent,
        }
    }

    /// Of a rule about open tasks, whether there may be one more.
    fn has_room(&self, open: Open) -> Result<(), Limited> {
        let Bound::OpenTasks(limit) = self.bound else {
            return Ok(());
        };
        let now = match self.per {
            LimitKey::Principal => open.of_owner,
            // The configuration refuses addresses: tasks have none.
            LimitKey::Address | LimitKey::Agent => open.of_agent,
        };
        if now < limit {
            Ok(())
        } else {
            Err(self.policy.refuse(TASKS_TRY_AGAIN))
        }
    }
}

impl<C> Rule<C>
where
    C: Clock + Send + Sync + 'static,
    C::Instant: Send + Sync,
{
    /// What is taken goes into the slot.
    fn ask(
        &self,
        taken: &mut Slot,
        principal: &Arc<str>,
        address: IpAddr,
        stage: Stage<'_>,
        global: Option<&Global>,
    ) -> Result<(), Limited> {
        let key = self.key(principal, address);
        match &self.bound {
            Bound::Rate(buckets) => buckets.take(key, principal).map_err(|wait| self.policy.refuse(wait))?,
            Bound::Concurrent(counters) | Bound::OpenStreams(counters) => {
                let guard = counters.enter(key);
                let guard = guard.ok_or_else(|| self.policy.refuse(TRY_AGAIN))?;
                taken.held.push(Held::Here(guard));
            }
            // Looked at in turn, so that whoever has too many takes nothing of wider budgets; taken when the others have agreed.
            Bound::OpenTasks(_) => match stage {
                Stage::Begin(_, Beginning { open, agent, owner }) => self.has_room(open.of(agent, owner))?,
                Stage::Address | Stage::Caller(_) | Stage::Call(..) => {}
            },
            Bound::Bytes(budgets, direction) => {
                budgets.ask(&key).map_err(|wait| self.policy.refuse(wait))?;
                let quota = taken.quota.get_or_insert_default();
                let everywhere = global.zip(self.share).and_then(|(global, share)| match share {
                    Share::Bytes(pace) => Some(global.account(self.policy.rule(), &key, pace)),
                    Share::Rate(_) | Share::Places(_) | Share::Tasks(_) => None,
                });
                quota.meters.push((*direction, Meter::of(budgets, key, everywhere)));
            }
        }
        Ok(())
    }
}
