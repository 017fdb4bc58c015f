//! What one gateway has of limits that several share: places that it holds, tasks that are open, bytes that it owes.
//!
//! Places stand in the store as members of a set, each with a lease that is renewed as long as it is held, so that those of a gateway
//! that died come free by themselves. Whoever takes a place asks the store; giving it back, open tasks and bytes are told
//! later, all together, and again when the store is back. Bounded: by what is held, by the keys of budgets, and for the rest by
//! `MOST_UNTOLD`; what is beyond is not told, and comes right when the leases end.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahash::RandomState;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::drain::Drain;
use crate::shared::{self, Command, Purpose, Store};

/// How long a place is held of which nobody hears any more.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Between two tellings: how late other gateways hear of bytes, of ended tasks and of places that are free again.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// In one round trip.
const BATCH: usize = 256;
/// Some 20 MiB, while the store is away.
const MOST_UNTOLD: usize = 100_000;

/// One for the process.
pub struct Ledger {
    store: Store,
    /// Tells the places of this process from those of others.
    gateway: String,
    next: AtomicU64,
    /// For how long a task counts that nobody asks for.
    retention: Duration,
    pages: Mutex<Pages>,
    wake: Notify,
}

#[derive(Default)]
struct Pages {
    /// Places by their number, and what they are places of.
    held: HashMap<u64, Arc<[u8]>, RandomState>,
    /// In the order of their happening.
    untold: VecDeque<Command>,
    owed: HashMap<Arc<[u8]>, Owed, RandomState>,
    /// Agents whose open tasks are counted, and of whom.
    watched: HashMap<Arc<str>, Watched, RandomState>,
}

#[derive(Clone, Copy)]
struct Owed {
    bytes: u64,
    pace: BytePace,
}

/// So many bytes a period.
#[derive(Clone, Copy, Debug)]
pub(super) struct BytePace {
    pub bytes: u64,
    pub period: Duration,
}

impl BytePace {
    /// In microseconds.
    pub(super) fn period(self) -> u64 {
        u64::try_from(self.period.as_micros()).unwrap_or(u64::MAX)
    }

    /// How many microseconds these bytes take to come back, upwards.
    fn time_of(self, bytes: u64) -> u64 {
        let time = u128::from(bytes) * self.period.as_micros();
        u64::try_from(time.div_ceil(u128::from(self.bytes.max(1)))).unwrap_or(u64::MAX)
    }
}

/// What of an agent's open tasks limits are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watched {
    pub of_owner: bool,
    pub of_agent: bool,
}

/// A place that is asked for, or held. Given back on drop.
pub(super) struct Lease {
    ledger: Arc<Ledger>,
    key: Arc<[u8]>,
    number: u64,
}

/// What of a budget of bytes one request owes.
pub(super) struct Account {
    ledger: Arc<Ledger>,
    key: Arc<[u8]>,
    pace: BytePace,
}

impl Account {
    pub(super) fn new(ledger: &Arc<Ledger>, key: Vec<u8>, pace: BytePace) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            key: Arc::from(key),
            pace,
        }
    }

    pub(super) fn charge(&self, bytes: u64) {
        let Self { ledger, key, pace } = self;
        let mut pages = ledger.pages();
        let owed = pages
            .owed
            .entry(Arc::clone(key))
            .or_insert(Owed { bytes: 0, pace: *pace });
        owed.bytes = owed.bytes.saturating_add(bytes);
        drop(pages);
        ledger.wake.notify_one();
    }
}

impl Ledger {
    /// `retention` is for how long records of tasks live.
    pub fn new(store: Store, retention: Duration) -> Arc<Self> {
        Arc::new(Self {
            store,
            gateway: uuid::Uuid::new_v4().simple().to_string(),
            next: AtomicU64::new(0),
            retention,
            pages: Mutex::default(),
            wake: Notify::new(),
        })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Tells and renews until the process stops.
    pub fn start(self: &Arc<Self>, drain: &Drain) {
        let ledger = Arc::clone(self);
        drain.service(async move {
            let mut renewed = Instant::now();
            loop {
                if ledger.is_idle() {
                    ledger.wake.notified().await;
                }
                tokio::time::sleep(TELL_EVERY).await;
                if renewed.elapsed() >= RENEW_EVERY {
                    renewed = Instant::now();
                    ledger.renew().await;
                }
                ledger.tell().await;
            }
        });
    }

    /// The last step of a process, so that nobody waits for its leases to end.
    pub async fn last_words(&self) {
        self.tell().await;
    }

    /// A place for which the store is to be asked by what is given.
    pub(super) fn lease(self: &Arc<Self>, key: Vec<u8>, limit: u32) -> (Lease, Command) {
        let key: Arc<[u8]> = Arc::from(key);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.pages().held.insert(number, Arc::clone(&key));
        self.wake.notify_one();
        let command = self.occupy(&key, number, limit);
        let lease = Lease {
            ledger: Arc::clone(self),
            key,
            number,
        };
        (lease, command)
    }

    fn occupy(&self, key: &[u8], number: u64, limit: u32) -> Command {
        Command::Occupy {
            key: key.to_vec(),
            member: self.member(number),
            limit,
            keep: milliseconds(LEASE),
        }
    }

    fn member(&self, number: u64) -> Vec<u8> {
        format!("{}:{number}", self.gateway).into_bytes()
    }

    /// The limits on open tasks of an agent, from now on.
    pub(super) fn watch(&self, agent: &Arc<str>, watched: Watched) {
        self.pages().watched.insert(Arc::clone(agent), watched);
    }

    /// What stands for the open tasks of an owner, or of all owners.
    pub(super) fn tasks(&self, agent: &str, owner: Option<&str>) -> Vec<u8> {
        match owner {
            Some(owner) => shared::key(self.store.prefix(), 'o', &[agent, "o", owner]),
            None => shared::key(self.store.prefix(), 'o', &[agent, "g"]),
        }
    }

    /// A task is known that has not ended.
    pub(super) fn opened(&self, agent: &str, owner: &str, task: &str) {
        let keep = milliseconds(self.retention);
        self.of_task(agent, owner, |key| Command::Occupy {
            key,
            member: named(task),
            limit: 0,
            keep,
        });
    }

    /// It has ended, or is not this owner's any more.
    pub(super) fn closed(&self, agent: &str, owner: &str, task: &str) {
        self.of_task(agent, owner, |key| Command::Vacate {
            key,
            member: named(task),
        });
    }

    fn of_task(&self, agent: &str, owner: &str, command: impl Fn(Vec<u8>) -> Command) {
        let mut pages = self.pages();
        let Some(Watched { of_owner, of_agent }) = pages.watched.get(agent).copied() else {
            return;
        };
        if of_owner {
            pages.push(command(self.tasks(agent, Some(owner))));
        }
        if of_agent {
            pages.push(command(self.tasks(agent, None)));
        }
        drop(pages);
        self.wake.notify_one();
    }

    fn is_idle(&self) -> bool {
        let pages = self.pages();
        pages.held.is_empty() && pages.untold.is_empty() && pages.owed.is_empty()
    }

    async fn tell(&self) {
        if !self.store.is_up() {
            return;
        }
        loop {
            let (batch, owed) = {
                let mut pages = self.pages();
                let count = pages.untold.len().min(BATCH);
                let batch: Vec<Command> = pages.untold.drain(..count).collect();
                (batch, std::mem::take(&mut pages.owed))
            };
            if batch.is_empty() && owed.is_empty() {
                return;
            }
            let mut commands = batch;
            let told = commands.len();
            commands.extend(owed.iter().map(|(key, owed)| Command::Owe {
                key: key.to_vec(),
                amount: owed.pace.time_of(owed.bytes),
                most: owed.pace.period(),
            }));
            if self.store.ask(Purpose::Flush, &commands).await.is_err() {
                commands.truncate(told);
                self.pages().put_back(commands, owed);
                return;
            }
        }
    }

    async fn renew(&self) {
        let held: Vec<(u64, Arc<[u8]>)> = {
            let pages = self.pages();
            let held = pages.held.iter().map(|(number, key)| (*number, Arc::clone(key)));
            held.collect()
        };
        for held in held.chunks(BATCH) {
            let commands: Vec<Command> = held.iter().map(|(number, key)| self.occupy(key, *number, 0)).collect();
            if !self.store.is_up() || self.store.ask(Purpose::Flush, &commands).await.is_err() {
                return;
            }
            // Those given back meanwhile must not stand for another lease.
            let mut pages = self.pages();
            for (number, key) in held {
                if !pages.held.contains_key(number) {
                    let member = self.member(*number);
                    pages.push(Command::Vacate {
                        key: key.to_vec(),
                        member,
                    });
                }
            }
        }
    }

    /// Nothing here panics while it holds the lock.
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn push(&mut self, command: Command) {
        if self.untold.len() < MOST_UNTOLD {
            self.untold.push_back(command);
        }
    }

    fn put_back(&mut self, commands: Vec<Command>, owed: HashMap<Arc<[u8]>, Owed, RandomState>) {
        for command in commands.into_iter().rev() {
            self.untold.push_front(command);
        }
        for (key, before) in owed {
            let owed = self.owed.entry(key).or_insert(Owed { bytes: 0, ..before });
            owed.bytes = owed.bytes.saturating_add(before.bytes);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut pages = self.ledger.pages();
        pages.held.remove(&self.number);
        pages.push(Command::Vacate {
            key: self.key.to_vec(),
            member: self.ledger.member(self.number),
        });
        drop(pages);
        self.ledger.wake.notify_one();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.number).finish()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

/// No gateway's place has such a name; a long id stands as its hash.
fn named(task: &str) -> Vec<u8> {
    shared::key("", 't', &[task])
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
