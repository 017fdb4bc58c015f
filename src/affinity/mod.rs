//! Which endpoint owns a task or a context, and which principal it was made for.
//!
//! Learns owners from answers, before the bytes that reveal them leave, and tells them to later calls. An owner is never
//! replaced: what another endpoint says of a known id is a conflict. A terminal state is never undone. Bounded: at
//! capacity a finished task goes first, then the record longest unseen, and of an owner who holds a tenth of all its own;
//! the newest is never refused; what was unseen for `retention` is forgotten. Every question is answered from memory, so neither `task` nor `context` waits for a disk;
//! `learn` tells the store only if something changed, and `confirm` awaits that the store has it before it is revealed.
//!
//! With a store that several gateways share, memory is a cache of it: `inquire` fills the cache before a question. See
//! `shared`.
//!
//! What no answer has told yet is reserved by the calls themselves: see `reserve`. What callers of A2A 0.1 call their tasks
//! stands in records of the same kind: see `alias`.
//!
//! Knows nothing of endpoint health or of the configured endpoints: `balance` decides what a lost owner means. Does not
//! decide who may see a task: it tells whose it is. No lock leaves this folder, none is held across an await.

mod alias;
mod entry;
mod journal;
mod learn;
mod names;
mod reserve;
mod shard;
mod shared;
mod store;
mod table;
mod upkeep;

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

pub use self::alias::{Alias, Beginning, Beginnings, Meaning};
pub use self::journal::Error;
use self::journal::record::{Kind, MAX_NAME, Record};
use self::journal::volume::{Disk, Volume};
use self::journal::{Journal, Mode};
use self::names::Names;
pub use self::reserve::{Reservation, Reservations, Reserved};
use self::shared::Sharing;
pub use self::shared::{Asking, Confirmed, Confirming, Inquiry, Knowledge};
use self::store::Store;
use self::table::Table;
use crate::a2a::{ContextId, Generation, TaskId, TaskState};
use crate::clock::Clock;
use crate::config;
use crate::ratelimit::OpenTasks;

/// A journal below this size is not worth compacting: it replays in a fraction of a second.
const COMPACT_FLOOR: u64 = 64 * 1024 * 1024;

/// Where a task or a context lives and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The text of the endpoint's URL.
    pub endpoint: Arc<str>,
    /// To whom it belongs: to the one to whom it was first revealed, as `authorize::Ownership` names it.
    pub principal: Arc<str>,
    /// The last state that an answer told; `None` for contexts and for tasks without one.
    pub state: Option<TaskState>,
    /// The generation of the call whose answer told of it first.
    pub generation: Generation,
}

/// What became of what an answer revealed; of a task and its context the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Learned {
    /// Nothing that was not known, or nothing at all.
    Known,
    /// A known record has a new state.
    Updated,
    New,
    /// It belongs to another principal, or rather to whatever text stood for one. The record keeps its owner.
    Foreign,
    /// Another endpoint owns it. The record stays as it was.
    Conflict,
    /// An id or a name is longer than any record may be; nothing is remembered.
    TooLong,
}

/// Gauges and counters since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub tasks: u64,
    pub contexts: u64,
    /// Callers' own names of tasks.
    pub aliases: u64,
    /// Memory that the records take, without what the allocator adds.
    pub bytes: u64,
    /// Bytes on the disk.
    pub journal_bytes: u64,
    /// Finished tasks that went for newer ones.
    pub evicted_finished: u64,
    /// Live tasks that went for newer ones: calls for them no longer find their endpoint. `max_tasks` is too small.
    pub evicted_live: u64,
    pub evicted_contexts: u64,
    /// Callers' own names of tasks that went for newer ones, as a rule because their tasks had gone.
    pub evicted_aliases: u64,
    /// Records unseen for longer than `retention`.
    pub expired: u64,
    pub write_errors: u64,
    /// Records that the shared store does not have yet, or not as they are.
    pub unwritten: u64,
    /// Records that went before the shared store had them.
    pub dropped: u64,
    /// Records are in memory that the journal does not have, or the shared store cannot be asked or written.
    pub degraded: bool,
    /// The shared store has lost records that gateways may still write back.
    pub recovering: bool,
}

pub struct Affinity {
    tasks: Table,
    contexts: Table,
    aliases: Table,
    /// Of the records of tasks, how many have not ended.
    open: Arc<OpenTasks>,
    names: Names,
    /// Apart, so that whose tasks and contexts are many can be told from `names`.
    names_of_aliases: Names,
    store: Store,
    clock: Clock,
    /// In seconds.
    retention: u32,
    sweep_interval: Duration,
    sync_interval: Duration,
    compact_floor: u64,
    stopping: AtomicBool,
    /// A task has another owner.
    transfers: Notify,
}

impl Affinity {
    /// Opens the store and replays it; blocking, for about a second per million records.
    pub fn open(state: &config::State, clock: Clock) -> Result<Self, Error> {
        Self::open_with(state, clock, Mode::Strict, Arc::new(Disk), COMPACT_FLOOR)
    }

    /// Opens a damaged store with every record that is whole. Damaged files stay beside it as `*.damaged`.
    pub fn open_recovering(state: &config::State, clock: Clock) -> Result<Self, Error> {
        Self::open_with(state, clock, Mode::Recover, Arc::new(Disk), COMPACT_FLOOR)
    }

    fn open_with(
        state: &config::State,
        clock: Clock,
        mode: Mode,
        volume: Arc<dyn Volume>,
        compact_floor: u64,
    ) -> Result<Self, Error> {
        let open = Arc::default();
        let mut affinity = Self {
            tasks: Table::new(Kind::Task, state.max_tasks, Some(&open)),
            contexts: Table::new(Kind::Context, state.max_tasks, None),
            aliases: Table::new(Kind::Alias, alias::most(state.max_tasks), None),
            open,
            names: Names::default(),
            names_of_aliases: Names::default(),
            store: Store::Memory,
            clock,
            retention: u32::try_from(state.retention.as_secs()).unwrap_or(u32::MAX),
            sweep_interval: upkeep::sweep_interval(state.retention),
            sync_interval: Duration::MAX,
            compact_floor,
            stopping: AtomicBool::new(false),
            transfers: Notify::new(),
        };
        match &state.store {
            // The shared store is added by `sharing`; until then, and whenever it is away, this is memory.
            config::Store::Memory | config::Store::Redis(_) => {}
            config::Store::Embedded { path, sync_interval } => {
                affinity.sync_interval = *sync_interval;
                let opened = journal::open(path, volume, mode, &mut |record| {
                    affinity.restore(&record);
                })?;
                for table in affinity.tables() {
                    table.restored();
                }
                affinity.store = Store::Embedded(Box::new(opened.journal));
                affinity.tasks.trim(&affinity.store);
                affinity.weed_names(usize::MAX);
                affinity.trim();
                affinity.sweep();
                if opened.rewrite {
                    affinity.compact();
                }
            }
        }
        Ok(affinity)
    }

    /// Shares every record through `store`.
    #[must_use]
    pub fn sharing(mut self, store: crate::shared::Store, cache_ttl: Duration) -> Self {
        self.store = Store::Shared(Box::new(Sharing::new(store, self.retention, cache_ttl)));
        self
    }

    fn restore(&self, record: &Record<'_>) {
        match *record {
            Record::Put(put) => self.table(put.kind).restore(&put, self.names(put.kind)),
            Record::Forget { kind, agent, id } => self.table(kind).unrestore(agent, id),
            Record::Synced(_) | Record::End(_) => {}
        }
    }

    fn table(&self, kind: Kind) -> &Table {
        match kind {
            Kind::Task => &self.tasks,
            Kind::Context => &self.contexts,
            Kind::Alias => &self.aliases,
        }
    }

    fn names(&self, kind: Kind) -> &Names {
        match kind {
            Kind::Task | Kind::Context => &self.names,
            Kind::Alias => &self.names_of_aliases,
        }
    }

    fn tables(&self) -> [&Table; 3] {
        [&self.tasks, &self.contexts, &self.aliases]
    }

    fn trim(&self) {
        for table in self.tables() {
            table.trim(&self.store);
        }
    }

    fn sum(&self, of: impl Fn(&Table) -> u64) -> u64 {
        self.tables().into_iter().map(of).sum()
    }

    pub fn task(&self, agent: &str, id: &TaskId) -> Option<Owner> {
        self.tasks.owner(agent, id.as_str(), self.now())
    }

    pub fn context(&self, agent: &str, id: &ContextId) -> Option<Owner> {
        self.contexts.owner(agent, id.as_str(), self.now())
    }

    /// How many tasks have not ended, as the records have it.
    pub fn open_tasks(&self) -> &Arc<OpenTasks> {
        &self.open
    }

    /// Gives a task to another owner, on an operator's word; on return it is written. Gives what it was before; `None`: there
    /// is no record, or no record may have an owner as long as this.
    pub fn transfer_task(&self, agent: &str, id: &TaskId, owner: &Arc<str>) -> Option<Owner> {
        self.transfer(&self.tasks, agent, id.as_str(), owner)
    }

    /// The same for a context. Its tasks keep theirs.
    pub fn transfer_context(&self, agent: &str, id: &ContextId, owner: &Arc<str>) -> Option<Owner> {
        self.transfer(&self.contexts, agent, id.as_str(), owner)
    }

    fn transfer(&self, table: &Table, agent: &str, id: &str, owner: &Arc<str>) -> Option<Owner> {
        if owner.len() > MAX_NAME {
            return None;
        }
        let owner = self.names.share(owner, || Arc::clone(owner));
        let before = table.transfer(agent, id, owner.clone(), self.now(), &self.store);
        self.commit();
        let before = before?;
        if before.principal != owner {
            self.transferred_one(table.kind());
        }
        Some(before)
    }

    /// Resolves when a task was given to another owner since this last did, here or, as far as this gateway has heard of it, by
    /// another one. For one waiter.
    pub async fn transferred(&self) {
        self.transfers.notified().await;
    }

    /// What of a context is told goes on: its tasks keep their owners.
    fn transferred_one(&self, kind: Kind) {
        if kind == Kind::Task {
            self.transfers.notify_one();
        }
    }

    pub fn stats(&self) -> Stats {
        let journal = self.store.journal();
        Stats {
            tasks: self.tasks.len(),
            contexts: self.contexts.len(),
            aliases: self.aliases.len(),
            bytes: self.sum(Table::bytes)
                + (self.names.bytes() + self.names_of_aliases.bytes() + self.open.bytes()) as u64,
            journal_bytes: journal.map_or(0, Journal::bytes),
            evicted_finished: self.tasks.evicted_finished(),
            evicted_live: self.tasks.evicted_live(),
            evicted_contexts: self.contexts.evicted_live(),
            evicted_aliases: self.aliases.evicted_finished() + self.aliases.evicted_live(),
            expired: self.sum(Table::expired),
            write_errors: journal.map_or(0, Journal::write_errors),
            unwritten: self.sum(Table::unwritten),
            dropped: self.store.sharing().map_or(0, Sharing::lost),
            degraded: journal.is_some_and(Journal::degraded) || self.store.sharing().is_some_and(Sharing::is_degraded),
            recovering: self.store.sharing().is_some_and(Sharing::is_recovering),
        }
    }

    /// Unix seconds; the records have room for them until 2106.
    fn now(&self) -> u32 {
        u32::try_from(self.clock.unix_seconds()).unwrap_or(u32::MAX - 1)
    }
}

/// Nothing here panics while it holds a lock, and a record is whole at any moment: a poisoned lock is as good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
