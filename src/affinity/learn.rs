//! Taking in what an answer reveals: the only change of a record that a call makes.
//!
//! Most answers say what is known. Those take each shard's lock once and write nothing. The others make room first, then
//! hold the locks of both shards (task before context, always) until the journal has taken both records. Before any answer
//! leaves, `confirm` waits for what the journal has taken and not yet written, whoever's it is: an answer that repeats
//! what another has just revealed leaves no earlier than that one.

use std::sync::Arc;

use super::entry::{Entry, Shared};
use super::journal::record::{MAX_ID, MAX_NAME, Put};
use super::names::Names;
use super::shard::Finding;
use super::store::Store;
use super::table::{Claim, Hash, Locked, Room, Table};
use super::{Affinity, Alias, Confirmed, Confirming, Learned, Meaning};
use crate::a2a::{ContextId, Generation, Revealed, TaskId, TaskState};

impl Affinity {
    /// Records what an answer of `endpoint` to a call of `principal` revealed. To be followed by `confirm`.
    pub fn learn(
        &self,
        agent: &str,
        endpoint: &Arc<str>,
        principal: &Arc<str>,
        generation: Generation,
        revealed: &Revealed,
    ) -> Learned {
        let now = self.now();
        let claim = |id, state| Claim {
            agent,
            id,
            endpoint,
            principal,
            generation,
            state,
            stale_after: self.store.stale_after(),
        };
        let task = revealed.task.as_ref().map(TaskId::as_str);
        let task = named(task).map(|id| claim(id, revealed.state));
        let context = revealed.context.as_ref().map(ContextId::as_str);
        let context = named(context).map(|id| claim(id, None));
        if [task, context].iter().flatten().any(Claim::is_too_long) {
            return Learned::TooLong;
        }

        let task = task.map(|claim| Revelation::examine(&self.tasks, claim, now));
        let context = context.map(|claim| Revelation::examine(&self.contexts, claim, now));
        self.take_in([task, context], &self.names, || self.is_greedy(principal), now)
    }

    /// Records what an answer to a call under this alias told it to stand for, after `learn` has taken in the task. To be
    /// followed by `confirm_with`. `Conflict`: it stands for something else.
    pub fn learn_alias(
        &self,
        agent: &str,
        alias: &Alias,
        meaning: &Meaning,
        principal: &Arc<str>,
        state: Option<TaskState>,
    ) -> Learned {
        let now = self.now();
        let meaning = meaning.write();
        let claim = Claim {
            agent,
            id: alias.as_str(),
            endpoint: &meaning,
            principal,
            generation: Generation::V0_1,
            state,
            stale_after: self.store.stale_after(),
        };
        if claim.is_too_long() {
            return Learned::TooLong;
        }
        self.make_room_for_names();
        let found = [Some(Revelation::examine(&self.aliases, claim, now)), None];
        self.take_in(
            found,
            &self.names_of_aliases,
            || self.is_greedy_of_names(principal),
            now,
        )
    }

    fn take_in(
        &self,
        found: [Option<Revelation<'_>>; 2],
        names: &Names,
        is_greedy: impl FnOnce() -> bool,
        now: u32,
    ) -> Learned {
        let [task, context] = found;
        let both = [task.as_ref(), context.as_ref()];
        if let Some(learned) = both
            .into_iter()
            .flatten()
            .try_fold(Learned::Known, |learned, it| Some(learned.max(it.settled()?)))
        {
            return learned;
        }

        // Room first: the newest must not be its own victim, and a thread locks one shard of a table at a time.
        let principal = both.into_iter().flatten().next().map(|it| &**it.claim.principal);
        let greedy = principal.filter(|_| is_greedy());
        let [task_room, context_room] = both.map(|it| it.and_then(|it| it.room(&self.store, greedy)));
        let learned = {
            let mut task = task.map(|it| it.take_in(now, names, task_room));
            let mut context = context.map(|it| it.take_in(now, names, context_room));
            if let Some(sharing) = self.store.sharing() {
                sharing.note([task.as_mut(), context.as_mut()].into_iter().flatten());
            }
            let both = [task.as_ref(), context.as_ref()];
            let puts = both.map(|it| it.and_then(Taken::put));
            if puts.iter().any(Option::is_some) {
                self.store.append(puts);
            }
            both.into_iter()
                .flatten()
                .fold(Learned::Known, |learned, it| learned.max(it.learned))
        };
        self.trim();
        learned
    }

    /// What must be awaited before an answer may leave that reveals these ids, after `learn` has taken them in. `None` if
    /// nothing needs to be. Dropped early, it loses nothing: what was not written or told is so later.
    pub fn confirm(self: &Arc<Self>, agent: &str, revealed: &[Revealed]) -> Option<Confirming> {
        self.confirm_with(agent, revealed, None)
    }

    /// The same, and for an alias that was learned.
    pub fn confirm_with(
        self: &Arc<Self>,
        agent: &str,
        revealed: &[Revealed],
        alias: Option<&Alias>,
    ) -> Option<Confirming> {
        match &self.store {
            Store::Memory => None,
            Store::Embedded(journal) => journal.is_uncommitted().then(|| self.commit_in_turn()),
            Store::Shared(sharing) => self.tell_new(sharing, agent, revealed, alias),
        }
    }

    /// Lets the other answers of this turn of the event loop come first: the first that goes on writes the records of all.
    fn commit_in_turn(self: &Arc<Self>) -> Confirming {
        let affinity = Arc::clone(self);
        Box::pin(async move {
            tokio::task::yield_now().await;
            affinity.commit();
            Confirmed::Stored
        })
    }

    /// Writes down what was learned; on return it survives the end of the process.
    pub fn commit(&self) {
        self.store.commit();
    }
}

impl Affinity {
    /// At capacity, whoever holds more than a tenth of both tables makes room among its own: else one caller who makes tasks
    /// without end would push out everybody's.
    fn is_greedy(&self, principal: &str) -> bool {
        let full = self.tasks.is_full() || self.contexts.is_full();
        full && self.names.uses(principal) > self.tasks.max() / 5
    }
}

/// An empty id names nothing.
fn named(id: Option<&str>) -> Option<&str> {
    id.filter(|id| !id.is_empty())
}

impl Claim<'_> {
    fn is_too_long(&self) -> bool {
        let names: [&str; 3] = [self.agent, self.endpoint, self.principal];
        self.id.len() > MAX_ID || names.iter().any(|name| name.len() > MAX_NAME)
    }
}

/// One id of an answer, and what the table made of it at first sight.
struct Revelation<'a> {
    table: &'a Table,
    claim: Claim<'a>,
    hash: Hash,
    finding: Finding,
    foreign: bool,
}

impl<'a> Revelation<'a> {
    fn examine(table: &'a Table, claim: Claim<'a>, now: u32) -> Self {
        let hash = table.hash(claim.agent, claim.id);
        let (finding, foreign) = table.examine(hash, &claim, now);
        Self {
            table,
            claim,
            hash,
            finding,
            foreign,
        }
    }

    /// Nothing is left to do.
    fn settled(&self) -> Option<Learned> {
        match self.finding {
            Finding::Settled if self.foreign => Some(Learned::Foreign),
            Finding::Settled => Some(Learned::Known),
            Finding::Conflict => Some(Learned::Conflict),
            Finding::Missing | Finding::Stale | Finding::Changed => None,
        }
    }

    fn room(&self, store: &Store, greedy: Option<&str>) -> Option<Room<'a>> {
        (self.finding == Finding::Missing).then(|| self.table.room(store, greedy))
    }

    /// Locks the shard and looks again: another call may have been faster.
    fn take_in(self, now: u32, names: &Names, room: Option<Room<'a>>) -> Taken<'a> {
        let mut shard = self.table.lock(self.hash);
        let (learned, slot) = shard.learn(self.hash.key(), &self.claim, now, names);
        if learned == Learned::New && slot.is_some() {
            // Without room the record was evicted since the first look; `trim` makes up for it.
            room.unwrap_or_else(|| self.table.room_beyond()).fill();
        }
        Taken {
            table: self.table,
            shard,
            learned,
            slot,
        }
    }
}

/// A record in its locked shard.
pub(super) struct Taken<'a> {
    table: &'a Table,
    shard: Locked<'a>,
    learned: Learned,
    /// What is to be written.
    slot: Option<u32>,
}

impl Taken<'_> {
    /// Notes what is to be written to the shared store. True if it knows the owner: then nobody waits for it.
    pub(super) fn share(&mut self) -> bool {
        let Some(slot) = self.slot else {
            return false;
        };
        let never_told =
            self.learned == Learned::New || self.shard.entry(slot).is_some_and(|entry| entry.shared().is_untold());
        self.shard
            .share(slot, if never_told { Shared::New } else { Shared::Changed });
        !never_told
    }

    fn put(&self) -> Option<Put<'_>> {
        let entry: &Entry = self.shard.entry(self.slot?)?;
        Some(entry.put(self.table.kind()))
    }
}
