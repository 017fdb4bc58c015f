//! How the endpoints of an agent stand: what takes new work, what is asked about its tasks, and how large its share is.
//!
//! An endpoint may be drained by operators, unhealthy by the gateway's own checks, ejected by failed calls, or dead: no
//! connection can be made; or it leaves, because the configuration has it no more. None of it moves a task. Calls of tasks go to their endpoint however it stands; while it is
//! ejected or dead one a second does, to find out, and the others are told to come back.
//!
//! What each call reads are atomics; the ledger behind them is locked when something fails or changes, never across an
//! await. Time is since the start and given.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::ejection::{Backoff, Fault, Run, Suspicion, Verdict};
use super::lock;
use crate::config::{Balancing, Ejection, Endpoint, shown_url};
use crate::observe::AgentMetrics;

const DRAINING: u8 = 1;
/// By the gateway's checks.
const UNHEALTHY: u8 = 1 << 1;
/// By failed calls; until its time has passed.
const EJECTED: u8 = 1 << 2;
/// No connection could be made, as calls or the gateway's own attempt show; for as long as an ejection.
const DEAD: u8 = 1 << 3;
/// The same, by the gateway's checks, until one is good.
const UNREACHABLE: u8 = 1 << 4;
/// Its share grows.
const WARMING: u8 = 1 << 5;

const GONE: u8 = 1;
const FAILING: u8 = 1 << 1;

/// How often a call may find out whether an ejected endpoint is back.
const TRIAL: Duration = Duration::from_secs(1);
/// The share of an endpoint that begins to warm up.
const LEAST_SHARE: f64 = 0.1;

/// What a check of the gateway's own has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    Good,
    Bad,
    /// No connection could be made.
    Unreachable,
}

/// For operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub draining: bool,
    /// By checks.
    pub healthy: bool,
    /// For how long still.
    pub ejected: Option<Duration>,
    pub reachable: bool,
    /// Draining because the configuration has it no more, and for how long still.
    pub leaves: Option<Duration>,
}

impl State {
    pub fn takes_new_work(self) -> bool {
        !self.draining && self.healthy && self.ejected.is_none() && self.reachable
    }
}

/// The endpoints of one agent.
#[derive(Debug)]
pub struct Watch {
    marks: Box<[Mark]>,
    /// How many of them may take new work; the others leave.
    configured: usize,
    ledger: Mutex<Vec<Account>>,
    ejection: Option<Ejection>,
    is_checked: bool,
    healthy_after: u32,
    unhealthy_after: u32,
    warm_up: Option<Duration>,
    metrics: Arc<AgentMetrics>,
}

/// What is read of an endpoint with each call.
#[derive(Debug, Default)]
struct Mark {
    /// For the log.
    name: String,
    /// The configuration drains it. An operator may have said otherwise.
    drained_by_file: bool,
    flags: AtomicU8,
    /// A success has something to wipe out.
    failing: AtomicU8,
    /// When the ejection ends, in milliseconds, as are all times.
    until: AtomicU64,
    warming_since: AtomicU64,
    /// When the next call may find out.
    trial: AtomicU64,
    asked: AtomicU8,
    suspected: Notify,
}

/// What is known of an endpoint when something goes wrong.
#[derive(Clone, Debug, Default)]
struct Account {
    run: Run,
    backoff: Backoff,
    /// Checks in a row.
    good: u32,
    bad: u32,
    unreachable: u32,
}

impl Watch {
    pub fn new(
        config: &Balancing,
        endpoints: &[Endpoint],
        leaving: &[(Endpoint, Duration)],
        metrics: &Arc<AgentMetrics>,
    ) -> Self {
        let several = endpoints.len() > 1;
        let mark = |endpoint: &Endpoint| Mark {
            name: shown_url(&endpoint.url),
            drained_by_file: endpoint.drain,
            flags: AtomicU8::new(if endpoint.drain { DRAINING } else { 0 }),
            ..Mark::default()
        };
        let leaving = leaving.iter().map(|(endpoint, _)| endpoint);
        let marks: Box<[Mark]> = endpoints.iter().chain(leaving).map(mark).collect();
        Self {
            ledger: Mutex::new(marks.iter().map(|_| Account::default()).collect()),
            marks,
            configured: endpoints.len(),
            // Where there is no other endpoint, being out helps nobody.
            ejection: config.ejection.clone().filter(|_| several),
            is_checked: config.health.is_some(),
            healthy_after: config.health.as_ref().map_or(1, |health| health.healthy_after),
            unhealthy_after: config.health.as_ref().map_or(1, |health| health.unhealthy_after),
            warm_up: config.slow_start,
            metrics: metrics.clone(),
        }
    }

    /// An endpoint goes on as it stood under the configuration before, as far as this one asks about it. What an operator has
    /// said of it, other than that configuration did, holds until the process ends. Both count time from the same moment.
    pub fn take_over(&self, at: usize, before: &Self, known_at: usize, now: Duration) {
        let (Some(mark), Some(known)) = (self.marks.get(at), before.marks.get(known_at)) else {
            return;
        };
        let account = lock(&before.ledger).get(known_at).cloned();
        if let Some((account, own)) = account.zip(lock(&self.ledger).get_mut(at)) {
            *own = account;
        }
        let was = known.flags.load(Ordering::Relaxed);
        let copy = |to: &AtomicU64, from: &AtomicU64| to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        copy(&mark.until, &known.until);
        copy(&mark.warming_since, &known.warming_since);
        copy(&mark.trial, &known.trial);
        mark.failing
            .store(known.failing.load(Ordering::Relaxed), Ordering::Relaxed);
        mark.asked.store(known.asked.load(Ordering::Relaxed), Ordering::Relaxed);
        // What nothing would take back does not stay.
        let kept = [
            (self.ejection.is_some(), EJECTED | DEAD),
            (self.is_checked, UNHEALTHY | UNREACHABLE),
            (self.warm_up.is_some(), WARMING),
        ];
        let kept = kept.iter().filter(|(is_kept, _)| *is_kept);
        let kept = kept.fold(0, |flags, (_, kept)| flags | kept);
        let was_drained = was & DRAINING != 0;
        let is_drained = if was_drained == known.drained_by_file {
            mark.drained_by_file
        } else {
            was_drained
        };
        let drained = if is_drained { DRAINING } else { 0 };
        mark.flags.store(was & kept | drained, Ordering::Relaxed);
        if (was_drained || known_at >= before.configured) && !is_drained && at < self.configured {
            self.warm_up(mark, now);
        }
    }

    /// A new endpoint beside others that were there before.
    pub fn begin(&self, at: usize, now: Duration) {
        if let Some(mark) = self.marks.get(at) {
            self.warm_up(mark, now);
        }
    }

    pub fn is_drained_by_file(&self, at: usize) -> bool {
        self.marks.get(at).is_some_and(|mark| mark.drained_by_file)
    }

    /// Calls are watched for failures.
    pub fn is_passive(&self) -> bool {
        self.ejection.is_some()
    }

    /// Nothing is out of the ordinary with any endpoint that may take new work.
    pub fn is_calm(&self) -> bool {
        let mut configured = self.marks.iter().take(self.configured);
        configured.all(|mark| mark.flags.load(Ordering::Relaxed) == 0)
    }

    /// May be given new work.
    pub fn is_usable(&self, at: usize, now: Duration) -> bool {
        self.flags(at, now) & !WARMING == 0
    }

    /// May be given new work when there is too little else: not what operators drain.
    pub fn is_last_resort(&self, at: usize, now: Duration) -> bool {
        self.flags(at, now) & (DRAINING | DEAD | UNREACHABLE) == 0
    }

    pub fn is_draining(&self, at: usize) -> bool {
        self.marks
            .get(at)
            .is_none_or(|mark| mark.flags.load(Ordering::Relaxed) & DRAINING != 0)
    }

    /// How much of an ordinary share it should have; `None`: all of it.
    pub fn share(&self, at: usize, now: Duration) -> Option<f64> {
        let mark = self.marks.get(at)?;
        let window = self.warm_up?;
        if self.flags(at, now) & WARMING == 0 {
            return None;
        }
        let since = Duration::from_millis(mark.warming_since.load(Ordering::Relaxed));
        let grown = now.saturating_sub(since).as_secs_f64() / window.as_secs_f64();
        if grown >= 1.0 {
            mark.flags.fetch_and(!WARMING, Ordering::Relaxed);
            return None;
        }
        Some(grown.max(LEAST_SHARE))
    }

    /// Whether a call of one of its tasks may go to it. One a second may, to find out, while it is ejected or dead.
    pub fn admits(&self, at: usize, now: impl FnOnce() -> Duration) -> bool {
        const OPEN: u8 = EJECTED | DEAD | UNREACHABLE;
        let Some(mark) = self.marks.get(at) else { return true };
        if mark.flags.load(Ordering::Relaxed) & OPEN == 0 {
            return true;
        }
        let now = now();
        if self.flags(at, now) & OPEN == 0 {
            return true;
        }
        let now = millis(now);
        let next = mark.trial.load(Ordering::Relaxed);
        now >= next
            && mark
                .trial
                .compare_exchange(next, now + millis(TRIAL), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The endpoint has answered a call. Costs two reads where nothing was wrong.
    pub fn succeeded(&self, at: usize, now: impl FnOnce() -> Duration) {
        let Some(mark) = self.marks.get(at) else { return };
        let out = mark.flags.load(Ordering::Relaxed) & (EJECTED | DEAD) != 0;
        if !out && mark.failing.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut ledger = lock(&self.ledger);
        mark.failing.store(0, Ordering::Relaxed);
        if let Some(account) = ledger.get_mut(at) {
            account.run.clear();
            self.readmit(mark, account, now());
        }
    }

    /// A call has failed. `caller` tells one principal from another.
    pub fn failed(&self, at: usize, fault: Fault, caller: u64, now: Duration) {
        let (Some(config), Some(mark)) = (&self.ejection, self.marks.get(at)) else {
            return;
        };
        let flags = self.flags(at, now);
        // Whether the endpoint is there at all can be known at once.
        if fault != Fault::Answer && flags & (EJECTED | DEAD) == 0 {
            mark.ask(GONE);
        }
        // What was under way when it was ejected says nothing new.
        if fault == Fault::Stream || flags & EJECTED != 0 {
            return;
        }
        let mut ledger = lock(&self.ledger);
        let Some(account) = ledger.get_mut(at) else { return };
        mark.failing.store(1, Ordering::Relaxed);
        match account.run.add(fault, caller, config.consecutive_failures) {
            Verdict::Go => {}
            Verdict::Doubt => mark.ask(FAILING),
            Verdict::Eject { dead } => self.eject(at, mark, account, dead, config, now),
        }
    }

    /// The next thing to find out about an endpoint.
    pub async fn suspected(&self, at: usize) -> Suspicion {
        let Some(mark) = self.marks.get(at) else {
            return std::future::pending().await;
        };
        loop {
            let asked = mark.asked.swap(0, Ordering::AcqRel);
            if asked & FAILING != 0 {
                return Suspicion::Failing;
            }
            if asked & GONE != 0 {
                return Suspicion::Gone;
            }
            mark.suspected.notified().await;
        }
    }

    /// What came of a suspicion.
    pub fn found(&self, at: usize, suspicion: Suspicion, found: Check, now: Duration) {
        let (Some(config), Some(mark)) = (&self.ejection, self.marks.get(at)) else {
            return;
        };
        let out = self.flags(at, now) & (EJECTED | DEAD) != 0;
        let mut ledger = lock(&self.ledger);
        let Some(account) = ledger.get_mut(at) else { return };
        match (found, suspicion) {
            (Check::Unreachable, _) if !out => self.eject(at, mark, account, true, config, now),
            (Check::Bad, Suspicion::Failing) if !out => self.eject(at, mark, account, false, config, now),
            // It works: the calls that failed are their callers' affair.
            (Check::Good, Suspicion::Failing) => account.run.clear(),
            (Check::Good | Check::Bad | Check::Unreachable, _) => {}
        }
    }

    /// What a regular check has shown.
    pub fn checked(&self, at: usize, check: Check, now: Duration) {
        let Some(mark) = self.marks.get(at) else { return };
        let mut ledger = lock(&self.ledger);
        let Some(account) = ledger.get_mut(at) else { return };
        if check == Check::Good {
            (account.bad, account.unreachable) = (0, 0);
            account.good = account.good.saturating_add(1);
            mark.flags.fetch_and(!UNREACHABLE, Ordering::Relaxed);
            if account.good < self.healthy_after {
                return;
            }
            if mark.flags.fetch_and(!UNHEALTHY, Ordering::Relaxed) & UNHEALTHY != 0 {
                tracing::info!(
                    agent = &*self.metrics.name,
                    endpoint = &*mark.name,
                    "endpoint is healthy"
                );
                self.warm_up(mark, now);
            }
            // What was dead lives. What failed calls may answer checks all the same.
            if mark.flags.load(Ordering::Relaxed) & DEAD != 0 {
                self.readmit(mark, account, now);
            }
            return;
        }
        account.good = 0;
        account.bad = account.bad.saturating_add(1);
        account.unreachable = match check {
            Check::Unreachable => account.unreachable.saturating_add(1),
            Check::Good | Check::Bad => 0,
        };
        if account.bad >= self.unhealthy_after && mark.flags.fetch_or(UNHEALTHY, Ordering::Relaxed) & UNHEALTHY == 0 {
            tracing::warn!(
                agent = &*self.metrics.name,
                endpoint = &*mark.name,
                "endpoint is unhealthy"
            );
        }
        if account.unreachable >= self.unhealthy_after {
            mark.flags.fetch_or(UNREACHABLE, Ordering::Relaxed);
        }
    }

    pub fn drain(&self, at: usize, draining: bool, now: Duration) {
        let Some(mark) = self.marks.get(at) else { return };
        if draining {
            mark.flags.fetch_or(DRAINING, Ordering::Relaxed);
        } else if mark.flags.fetch_and(!DRAINING, Ordering::Relaxed) & DRAINING != 0 {
            self.warm_up(mark, now);
        }
    }

    pub fn state(&self, at: usize, now: Duration) -> State {
        let flags = self.flags(at, now);
        let until = self.marks.get(at).map_or(0, |mark| mark.until.load(Ordering::Relaxed));
        State {
            draining: flags & DRAINING != 0 || at >= self.configured,
            healthy: flags & UNHEALTHY == 0,
            ejected: (flags & EJECTED != 0).then(|| Duration::from_millis(until).saturating_sub(now)),
            reachable: flags & (DEAD | UNREACHABLE) == 0,
            leaves: None,
        }
    }

    /// How it stands, once an ejection whose time has passed is over.
    fn flags(&self, at: usize, now: Duration) -> u8 {
        let Some(mark) = self.marks.get(at) else { return 0 };
        let flags = mark.flags.load(Ordering::Relaxed);
        if flags & (EJECTED | DEAD) == 0 || millis(now) < mark.until.load(Ordering::Relaxed) {
            return flags;
        }
        let mut ledger = lock(&self.ledger);
        // Another thread may have been faster, and yet another have ejected it again.
        if millis(now) >= mark.until.load(Ordering::Relaxed)
            && let Some(account) = ledger.get_mut(at)
        {
            account.run.clear();
            self.readmit(mark, account, now);
        }
        mark.flags.load(Ordering::Relaxed)
    }

    fn readmit(&self, mark: &Mark, account: &mut Account, now: Duration) {
        if mark.flags.fetch_and(!(EJECTED | DEAD), Ordering::Relaxed) & (EJECTED | DEAD) != 0 {
            account.backoff.ended(now);
            tracing::info!(
                agent = &*self.metrics.name,
                endpoint = &*mark.name,
                "endpoint gets new work again"
            );
            self.warm_up(mark, now);
        }
    }

    /// The ledger is locked: no two endpoints can both be the last that may go.
    fn eject(&self, at: usize, mark: &Mark, account: &mut Account, dead: bool, config: &Ejection, now: Duration) {
        let configured = self.marks.iter().take(self.configured).enumerate();
        let others = configured.filter(|(other, mark)| {
            *other != at
                && mark.flags.load(Ordering::Relaxed) & EJECTED != 0
                && millis(now) < mark.until.load(Ordering::Relaxed)
        });
        let most = (self.configured * usize::try_from(config.most).unwrap_or(100) / 100).max(1);
        // One that leaves is no loss to new work.
        let allowed = at >= self.configured || others.count() < most;
        account.run.clear();
        let gained = if allowed { EJECTED } else { 0 } | if dead { DEAD } else { 0 };
        if gained == 0 {
            return;
        }
        let time = account.backoff.next(config, now);
        mark.until.store(millis(now + time), Ordering::Relaxed);
        mark.trial.store(millis(now + TRIAL), Ordering::Relaxed);
        mark.flags.fetch_or(gained, Ordering::Relaxed);
        if allowed {
            self.metrics.ejections.inc();
        }
        let (agent, endpoint) = (&*self.metrics.name, &*mark.name);
        match (allowed, dead) {
            (true, true) => tracing::warn!(agent, endpoint, ?time, "endpoint ejected: no connection can be made"),
            (true, false) => tracing::warn!(agent, endpoint, ?time, "endpoint ejected: it fails calls"),
            (false, _) => tracing::warn!(
                agent,
                endpoint,
                ?time,
                "endpoint is dead; as many as may be are ejected already"
            ),
        }
    }

    fn warm_up(&self, mark: &Mark, now: Duration) {
        if self.warm_up.is_some() {
            mark.warming_since.store(millis(now), Ordering::Relaxed);
            mark.flags.fetch_or(WARMING, Ordering::Relaxed);
        }
    }
}

impl Mark {
    fn ask(&self, what: u8) {
        self.asked.fetch_or(what, Ordering::AcqRel);
        self.suspected.notify_one();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
