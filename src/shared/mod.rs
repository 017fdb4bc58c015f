//! The Redis or Valkey that several gateways share: one connection, asked with a bound on every wait.
//!
//! Whoever asks waits at most `timeout`. Whatever goes wrong opens a circuit: from then on nobody waits at all, every
//! question is answered with `Away` at once, until `keep` has made a new connection and tried it. It is asked in a few
//! ways (`Command`), each about one key, so that a cluster needs no two keys in one slot; commands asked together go out
//! together and cost one round trip.
//!
//! Knows nothing of tasks: keys and records are bytes. What a server lost while it was away (a restart without its data, a
//! failover to a replica that lagged) is told by a mark that this gateway leaves every second: `doubts` gives the time
//! since when writes may be missing. Until all gateways have written back what was lost, `look` says that what is missing
//! may be somebody's. Types of the `redis` crate do not leave this folder.

mod command;
mod connect;
mod keep;
mod key;
mod recovery;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use prometheus::{Histogram, IntCounterVec};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

pub use command::{Command, Reply};
pub use key::key;

use crate::clock::Clock;
use crate::config;
use crate::drain::Drain;
use crate::observe::Metrics;
use command::Fault;
use connect::{Connector, Link};
use recovery::{Recovery, Standing};

/// The store was not asked, or did not answer in time: nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shared store is away")]
pub struct Away;

/// What is asked, for the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Who owns a task: a call waits.
    Lookup,
    /// A new owner: an answer waits.
    Learn,
    /// What changed: nobody waits.
    Flush,
    /// A rate limit: a call waits.
    Limit,
}

/// What a question for records found.
pub struct Looked {
    pub replies: Vec<Reply>,
    /// What is missing is nobody's. Not so where records were lost that gateways may still write back.
    pub whole: bool,
}

/// Clones share the connection.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    connector: Connector,
    timeout: Duration,
    prefix: Box<str>,
    clock: Clock,
    /// `None` while it is away.
    live: ArcSwapOption<Live>,
    /// Full: it answers, but takes no new records.
    refuses: AtomicBool,
    recovery: Recovery,
    /// Keys of the marks. Of this process: another one has written other records.
    marks: Vec<Vec<u8>>,
    /// Seconds.
    mark_lives: u32,
    /// What is asked beside records: the mark, unless there are many, and whether a loss is declared. In this order: who
    /// leaves a mark anew has declared the loss before.
    beside: Vec<Command>,
    /// The mark that all servers had last; 0 if none was left.
    marked: AtomicU32,
    /// The connection broke.
    broken: Notify,
    /// A question found the mark gone.
    suspected: Notify,
    /// It is back, or takes records again.
    news: Notify,
    /// The first attempt to connect is over.
    attempted: watch::Sender<bool>,
    outage: Mutex<Outage>,
    /// In the order of `Purpose`.
    round_trips: [Histogram; 4],
    errors: IntCounterVec,
}

/// Why it is away.
#[derive(Default)]
struct Outage {
    cause: Option<String>,
    /// Causes that were logged: each once an outage.
    said: Vec<String>,
}

/// Most causes that are logged of one outage.
const MOST_SAID: usize = 8;

struct Live {
    link: Link,
}

impl Store {
    /// `retention` is for how long records live that nobody asks for.
    pub fn new(config: &config::Redis, retention: Duration, clock: Clock, metrics: &Metrics) -> Self {
        let of = |operation| metrics.store_round_trip.with_label_values(&[operation]);
        let connector = Connector::new(config);
        let recovery = Recovery::new(&config.key_prefix);
        let marks = keep::marks(&config.key_prefix, connector.is_cluster());
        let own = match &*marks {
            [key] => Some(Command::Peek { key: key.clone() }),
            // Of a cluster: what one node lost is found by the next marks.
            _ => None,
        };
        let beside = own.into_iter().chain([recovery.look()]).collect();
        Self(Arc::new(Inner {
            connector,
            timeout: config.timeout,
            prefix: Box::from(config.key_prefix.as_str()),
            clock,
            live: ArcSwapOption::empty(),
            refuses: AtomicBool::new(false),
            recovery,
            marks,
            mark_lives: keep::mark_lives(retention),
            beside,
            marked: AtomicU32::new(0),
            broken: Notify::new(),
            suspected: Notify::new(),
            news: Notify::new(),
            attempted: watch::Sender::new(false),
            outage: Mutex::default(),
            round_trips: ["lookup", "learn", "flush", "limit"].map(of),
            errors: metrics.store_errors.clone(),
        }))
    }

    /// Connects, and connects again whenever needed, until the process stops.
    pub fn start(&self, drain: &Drain) {
        drain.service(Arc::clone(&self.0).keep());
    }

    /// Resolves when the first attempt to connect has succeeded or failed.
    pub async fn attempted(&self) {
        let mut attempted = self.0.attempted.subscribe();
        // The sender lives as long as this.
        let _over = attempted.wait_for(|over| *over).await;
    }

    /// What every key begins with.
    pub fn prefix(&self) -> &str {
        &self.0.prefix
    }

    pub fn is_up(&self) -> bool {
        self.0.live.load().is_some()
    }

    /// It is up and has room for new records.
    pub fn takes_records(&self) -> bool {
        self.is_up() && !self.0.refuses.load(Ordering::Relaxed)
    }

    /// It has lost records that gateways may still write back, as far as was last seen.
    pub fn is_recovering(&self) -> bool {
        self.0.recovery.is_seen()
    }

    /// Why it is away, for operators.
    pub fn outage(&self) -> Option<String> {
        self.0.outage().cause.clone()
    }

    /// Asks everything at once. A reply for each command, or nothing at all.
    pub async fn ask(&self, purpose: Purpose, commands: &[Command]) -> Result<Vec<Reply>, Away> {
        self.0.ask(purpose, commands.iter()).await
    }

    /// Asks for records, and in the same round trip whether one that is missing can have been lost.
    pub async fn look(&self, commands: &[Command]) -> Result<Looked, Away> {
        let inner = &*self.0;
        // Before the question: a mark that is left meanwhile is as good.
        let last = inner.marked.load(Ordering::Relaxed);
        let all = commands.iter().chain(&inner.beside);
        let mut replies = inner.ask(Purpose::Lookup, all).await?;
        let beside = replies.split_off(commands.len());
        let standing = match &*beside {
            [mark, declared] => recovery::judge(last, Some(mark), declared),
            [declared] => recovery::judge(last, None, declared),
            _ => Standing::Declared,
        };
        // Once: from then on the next mark is soon enough.
        if standing == Standing::Found && !inner.recovery.is_seen() {
            inner.suspected.notify_one();
        }
        Ok(Looked {
            replies,
            // What this gateway could not declare, on a server that takes nothing, holds for itself.
            whole: standing == Standing::Whole && !inner.recovery.is_behind(),
        })
    }

    /// Since when writes may be missing, in Unix seconds; told once.
    pub fn doubts(&self) -> Option<u32> {
        self.0.recovery.doubts()
    }

    /// Everything is written back that `doubts` told of.
    pub fn caught_up(&self) {
        self.0.recovery.caught_up();
    }

    /// Resolves when it came back, takes records again, or has lost some. For one listener.
    pub async fn news(&self) {
        self.0.news.notified().await;
    }
}

impl Inner {
    async fn ask(&self, purpose: Purpose, commands: impl Iterator<Item = &Command>) -> Result<Vec<Reply>, Away> {
        let Some(live) = self.live.load_full() else {
            return Err(Away);
        };
        let started = Instant::now();
        let all = join_all(commands.map(|command| command.run(&live.link)));
        let Ok(answered) = timeout(self.timeout, all).await else {
            self.lost(&live, &Fault::Timeout);
            return Err(Away);
        };
        if let Some(histogram) = self.round_trips.get(purpose as usize) {
            histogram.observe(started.elapsed().as_secs_f64());
        }
        let mut replies = Vec::with_capacity(answered.len());
        for answer in answered {
            match answer {
                Ok(reply) => {
                    if reply == Reply::Refused {
                        self.refuse();
                    }
                    replies.push(reply);
                }
                Err(fault) => {
                    self.lost(&live, &fault);
                    return Err(Away);
                }
            }
        }
        Ok(replies)
    }

    /// Opens the circuit, unless another connection has taken this one's place.
    fn lost(&self, live: &Arc<Live>, fault: &Fault) {
        self.errors.with_label_values(&[fault.reason()]).inc();
        let expected = Some(Arc::clone(live));
        let before = self.live.compare_and_swap(&expected, None);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, live)) {
            self.away(&fault.to_string());
            self.broken.notify_one();
        }
    }

    /// Full. What is read goes on; whether it has room again is tried every second.
    fn refuse(&self) {
        self.errors.with_label_values(&["full"]).inc();
        if !self.refuses.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                "the shared store is full and takes no records (`maxmemory`): what is learned stays in memory until it \
                 does; give it more memory, or a policy that evicts"
            );
        }
    }

    /// Says why, once an outage and for each cause.
    fn away(&self, cause: &str) {
        let mut outage = self.outage();
        outage.cause = Some(cause.to_owned());
        if outage.said.len() >= MOST_SAID || outage.said.iter().any(|said| said == cause) {
            return;
        }
        if outage.said.is_empty() {
            tracing::warn!(
                cause,
                "the shared store is away; calls go on from what this gateway knows"
            );
        } else {
            tracing::warn!(cause, "the shared store is still away");
        }
        outage.said.push(cause.to_owned());
    }

    fn back(&self) {
        let before = std::mem::take(&mut *self.outage());
        if before.cause.is_some() {
            tracing::info!("the shared store is back");
        }
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u32 {
        u32::try_from(self.clock.unix_seconds()).unwrap_or(u32::MAX - 1)
    }
}
