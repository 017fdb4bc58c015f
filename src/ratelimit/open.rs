//! How many tasks are open, of each owner and of each agent.
//!
//! Whoever keeps the records of tasks tells of each that begins to count and of each that counts no more; limits on open tasks
//! ask here. A send that may begin a task holds a place from before it is sent until its answer was learned from, so that of two
//! sends at once one gets the last place. Bounded by construction: an owner stands here only while it has an open task or a
//! place. One lock, held for a step and never across an await.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ahash::RandomState;
use hashbrown::HashTable;

use super::ledger::{Lease, Ledger};

/// The counts of all agents.
#[derive(Default)]
pub struct OpenTasks {
    counts: Mutex<Counts>,
    /// Tells other gateways.
    ledger: OnceLock<Arc<Ledger>>,
}

#[derive(Default)]
struct Counts {
    table: HashTable<Count>,
    hasher: RandomState,
}

struct Count {
    agent: Arc<str>,
    /// `None`: of all owners.
    owner: Option<Arc<str>>,
    tasks: u32,
    /// Of sends that have not been answered.
    places: u32,
}

/// What of a count changes.
#[derive(Clone, Copy)]
enum Of {
    Tasks,
    Places,
}

/// How many tasks there are, those included that sends may begin at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub of_owner: u32,
    pub of_agent: u32,
}

impl Open {
    /// But for one place.
    pub(super) fn without_one(self) -> Self {
        Self {
            of_owner: self.of_owner.saturating_sub(1),
            of_agent: self.of_agent.saturating_sub(1),
        }
    }
}

/// The place of a task that a send may begin; given back on drop.
pub struct Place {
    open: Arc<OpenTasks>,
    agent: Arc<str>,
    owner: Arc<str>,
    /// Over all gateways.
    leases: Vec<Lease>,
}

impl OpenTasks {
    /// Tells others of what is told here.
    pub fn share(&self, ledger: &Arc<Ledger>) {
        let _one = self.ledger.set(Arc::clone(ledger));
    }

    /// A task of this owner is known that has not ended.
    pub fn opened(&self, agent: &Arc<str>, owner: &Arc<str>, task: &str) {
        self.lock().add(agent, owner, Of::Tasks);
        if let Some(ledger) = self.ledger.get() {
            ledger.opened(agent, owner, task);
        }
    }

    /// It has ended, or is not this owner's any more.
    pub fn closed(&self, agent: &str, owner: &str, task: &str) {
        self.forgotten(agent, owner);
        if let Some(ledger) = self.ledger.get() {
            ledger.closed(agent, owner, task);
        }
    }

    /// It is not known here any more.
    pub fn forgotten(&self, agent: &str, owner: &str) {
        self.lock().subtract(agent, owner, Of::Tasks);
    }

    pub fn of(&self, agent: &str, owner: &str) -> Open {
        self.lock().open(agent, owner)
    }

    /// Takes a place unless there are too many open tasks; what is judged is how many there are before.
    pub fn enter<E>(
        self: &Arc<Self>,
        agent: &Arc<str>,
        owner: &Arc<str>,
        judge: impl FnOnce(Open) -> Result<(), E>,
    ) -> Result<Place, E> {
        let mut counts = self.lock();
        judge(counts.open(agent, owner))?;
        counts.add(agent, owner, Of::Places);
        Ok(Place {
            open: Arc::clone(self),
            agent: Arc::clone(agent),
            owner: Arc::clone(owner),
            leases: Vec::new(),
        })
    }

    /// Memory that the counts take; their names are those of records.
    pub fn bytes(&self) -> usize {
        self.lock().table.allocation_size()
    }

    #[cfg(test)]
    pub fn keys(&self) -> usize {
        self.lock().table.len()
    }

    /// Nothing here panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn open(&self, agent: &str, owner: &str) -> Open {
        let count = |owner| {
            let hash = self.hasher.hash_one((agent, owner));
            let found = self.table.find(hash, |count| count.is(agent, owner));
            found.map_or(0, |count| count.tasks.saturating_add(count.places))
        };
        Open {
            of_owner: count(Some(owner)),
            of_agent: count(None),
        }
    }

    fn add(&mut self, agent: &Arc<str>, owner: &Arc<str>, of: Of) {
        for owner in [Some(owner), None] {
            let Self { table, hasher } = self;
            let text = owner.map(|owner| &**owner);
            let hash = hasher.hash_one((&**agent, text));
            let found = table.entry(
                hash,
                |count| count.is(agent, text),
                |count| hasher.hash_one((&*count.agent, count.owner.as_deref())),
            );
            let mut entry = found.or_insert_with(|| Count {
                agent: Arc::clone(agent),
                owner: owner.cloned(),
                tasks: 0,
                places: 0,
            });
            let count = entry.get_mut().of(of);
            *count = count.saturating_add(1);
        }
    }

    fn subtract(&mut self, agent: &str, owner: &str, of: Of) {
        for owner in [Some(owner), None] {
            let hash = self.hasher.hash_one((agent, owner));
            let Ok(mut found) = self.table.find_entry(hash, |count| count.is(agent, owner)) else {
                continue;
            };
            let count = found.get_mut();
            let less = count.of(of);
            *less = less.saturating_sub(1);
            if count.tasks == 0 && count.places == 0 {
                found.remove();
            }
        }
        let most = self.table.len().saturating_mul(4).max(FLOOR);
        if self.table.capacity() > most {
            let Self { table, hasher } = self;
            table.shrink_to(most / 2, |count| {
                hasher.hash_one((&*count.agent, count.owner.as_deref()))
            });
        }
    }
}

/// Below so many nothing is given back.
const FLOOR: usize = 1024;

impl Count {
    fn is(&self, agent: &str, owner: Option<&str>) -> bool {
        *self.agent == *agent && self.owner.as_deref() == owner
    }

    fn of(&mut self, of: Of) -> &mut u32 {
        match of {
            Of::Tasks => &mut self.tasks,
            Of::Places => &mut self.places,
        }
    }
}

impl Place {
    /// What other gateways know it by.
    pub(super) fn hold(&mut self, leases: Vec<Lease>) {
        self.leases.extend(leases);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().subtract(&self.agent, &self.owner, Of::Places);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.agent).field(&self.owner).finish()
    }
}
