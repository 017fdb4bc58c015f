//! The records in memory: a bounded map from (agent, id) to its owner. Tasks have one table, contexts and aliases others.
//!
//! Sharded by the hash of the key; a shard's lock is held for one step and never given out, callers get owned values. A
//! thread that holds a shard's lock may take the journal's writer lock, never another shard of the same table. What is
//! written down is written under the shard's lock, so that the journal has the changes of a key in their order.
//!
//! At capacity the newest is not refused: it makes room first. The victim is the finished task unseen for longest in the
//! whole table, or without any finished one the live record unseen for longest. Each shard publishes how old its two
//! candidates are, so choosing reads 64 pairs of numbers and locks one shard.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ahash::RandomState;

use super::entry::{Entry, Queue, Shared};
use super::journal::record::{Kind, Put};
use super::names::Names;
use super::shard::{Finding, Shard};
use super::shared::Held;
use super::store::Store;
use super::{Owner, lock};
use crate::a2a::{Generation, TaskState};
use crate::ratelimit::OpenTasks;

/// A power of two; enough that workers rarely meet, few enough that choosing a victim stays cheap.
const SHARDS: usize = 64;

/// Entries visited under one lock by the sweeper and by snapshots, so that no call waits longer than some 50 µs for them.
const PAGE: usize = 256;

/// Entries of a shard that are looked at for one of a certain owner: of one who holds a tenth of all, six are among them.
const SAMPLE: usize = 64;

/// No candidate. As a time it is the year 2106.
const NOBODY: u32 = u32::MAX;

/// What an answer says about one id.
#[derive(Clone, Copy)]
pub(super) struct Claim<'a> {
    pub agent: &'a str,
    pub id: &'a str,
    pub endpoint: &'a Arc<str>,
    pub principal: &'a Arc<str>,
    pub generation: Generation,
    pub state: Option<TaskState>,
    /// Seconds after which a record is written again although it did not change.
    pub stale_after: u32,
}

pub(super) struct Table {
    kind: Kind,
    /// Seeded at start: ids come from agents and callers, who must not be able to aim at one bucket.
    hasher: RandomState,
    shards: Box<[Mutex<Shard>; SHARDS]>,
    oldest: Box<[Oldest; SHARDS]>,
    /// Entries, and room taken for entries to come.
    count: AtomicUsize,
    max: usize,
    evicted_finished: AtomicU64,
    evicted_live: AtomicU64,
    expired: AtomicU64,
}

/// When the candidates of a shard were last seen.
struct Oldest {
    finished: AtomicU32,
    live: AtomicU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hash {
    shard: usize,
    key: u32,
}

/// How far a walk over all entries has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    shard: usize,
    slot: usize,
}

impl Table {
    /// Of tasks, `open` is told which have not ended.
    pub(super) fn new(kind: Kind, max: usize, open: Option<&Arc<OpenTasks>>) -> Self {
        Self {
            kind,
            hasher: RandomState::new(),
            shards: Box::new(std::array::from_fn(|_| Mutex::new(Shard::telling(open.cloned())))),
            oldest: Box::new(std::array::from_fn(|_| Oldest {
                finished: AtomicU32::new(NOBODY),
                live: AtomicU32::new(NOBODY),
            })),
            count: AtomicUsize::new(0),
            max: max.max(1),
            evicted_finished: AtomicU64::new(0),
            evicted_live: AtomicU64::new(0),
            expired: AtomicU64::new(0),
        }
    }

    /// Being asked for counts as being seen.
    pub(super) fn owner(&self, agent: &str, id: &str, now: u32) -> Option<Owner> {
        let hash = self.hash(agent, id);
        let mut shard = self.shard(hash.shard);
        let slot = shard.find(hash.key, agent, id)?;
        shard.touch(slot, now);
        shard.entry(slot).map(Entry::owner)
    }

    /// What a claim means here, and whether the record is somebody else's. Marks the record as seen where nothing else is to
    /// be done.
    pub(super) fn examine(&self, hash: Hash, claim: &Claim<'_>, now: u32) -> (Finding, bool) {
        let mut shard = self.shard(hash.shard);
        let slot = shard.find(hash.key, claim.agent, claim.id);
        let finding = shard.examine(slot, claim, now);
        if let (Some(slot), Finding::Settled) = (slot, finding) {
            shard.touch(slot, now);
        }
        (finding, shard.is_foreign(slot, claim))
    }

    /// Gives a record to another owner; to be followed by a commit. Gives what it was.
    pub(super) fn transfer(&self, agent: &str, id: &str, owner: Arc<str>, now: u32, store: &Store) -> Option<Owner> {
        let hash = self.hash(agent, id);
        let mut shard = self.shard(hash.shard);
        let slot = shard.find(hash.key, agent, id)?;
        let before = shard.transfer(slot, owner, now)?;
        store.append([shard.entry(slot).map(|entry| entry.put(self.kind)), None]);
        Some(before)
    }

    pub(super) fn hash(&self, agent: &str, id: &str) -> Hash {
        let hash = self.hasher.hash_one((agent, id));
        #[expect(clippy::cast_possible_truncation, reason = "two independent halves of one hash")]
        Hash {
            shard: (hash >> 32) as usize & (SHARDS - 1),
            key: hash as u32,
        }
    }

    /// Takes room for one entry more; evicts for it at capacity, of `greedy` if there is one.
    pub(super) fn room(&self, store: &Store, greedy: Option<&str>) -> Room<'_> {
        let room = Room(&self.count);
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.max
            && !greedy.is_some_and(|greedy| self.evict_of(greedy, store))
        {
            self.evict(store);
        }
        room
    }

    /// The next entry evicts another one.
    pub(super) fn is_full(&self) -> bool {
        self.has(self.max)
    }

    /// There are so many entries, or more.
    pub(super) fn has(&self, count: usize) -> bool {
        self.count.load(Ordering::Relaxed) >= count
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Takes room without evicting, where a lock is held already; `trim` must follow.
    pub(super) fn room_beyond(&self) -> Room<'_> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Room(&self.count)
    }

    /// Evicts what is above the bound: after a replay under a smaller bound, or when threads met.
    pub(super) fn trim(&self, store: &Store) {
        while self.count.load(Ordering::Relaxed) > self.max && self.evict(store) {}
    }

    fn evict(&self, store: &Store) -> bool {
        // Another thread may take the same victim first; then the next choice is made. That cannot go on for long.
        for _ in 0..SHARDS {
            let Some((index, queue)) = self.candidate() else {
                return false;
            };
            let mut shard = self.shard(index);
            if let Some(entry) = shard.pop(queue) {
                self.evicted(&entry, queue, store);
                return true;
            }
        }
        false
    }

    /// Evicts one entry of this owner: the one that would go anyhow if it is the owner's, else the one of a sample that is
    /// finished, or unseen for longest.
    fn evict_of(&self, owner: &str, store: &Store) -> bool {
        let Some((first, queue)) = self.candidate() else {
            return false;
        };
        if self.shard(first).is_next(queue, owner) {
            return self.evict(store);
        }
        let first = fastrand::usize(..SHARDS);
        for index in (first..SHARDS).chain(0..first) {
            let mut shard = self.shard(index);
            let from = fastrand::usize(..shard.slots().max(1));
            if let Some((slot, queue)) = shard.sample(owner, from, SAMPLE)
                && let Some(entry) = shard.remove(slot)
            {
                self.evicted(&entry, queue, store);
                return true;
            }
        }
        false
    }

    fn evicted(&self, entry: &Entry, queue: Queue, store: &Store) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        let evicted = match queue {
            Queue::Finished => &self.evicted_finished,
            Queue::Live => &self.evicted_live,
        };
        evicted.fetch_add(1, Ordering::Relaxed);
        store.forget(self.kind, entry);
    }

    fn candidate(&self) -> Option<(usize, Queue)> {
        let longest_unseen = |seen: fn(&Oldest) -> &AtomicU32| {
            self.oldest
                .iter()
                .map(|oldest| seen(oldest).load(Ordering::Relaxed))
                .enumerate()
                .filter(|&(_, seen)| seen != NOBODY)
                .min_by_key(|&(_, seen)| seen)
                .map(|(index, _)| index)
        };
        if let Some(index) = longest_unseen(|oldest| &oldest.finished) {
            return Some((index, Queue::Finished));
        }
        longest_unseen(|oldest| &oldest.live).map(|index| (index, Queue::Live))
    }

    /// Forgets what was not seen for `retention` seconds, unless it is `kept`; stops early when `stopping` says so.
    pub(super) fn sweep(
        &self,
        now: u32,
        retention: u32,
        store: &Store,
        kept: &dyn Fn(&Entry) -> bool,
        stopping: &dyn Fn() -> bool,
    ) {
        for index in 0..SHARDS {
            let mut from = 0;
            loop {
                let mut shard = self.shard(index);
                if from >= shard.slots() {
                    shard.shrink();
                    break;
                }
                let expired = shard.expired(from, PAGE, now, retention);
                for slot in expired {
                    if shard.entry(slot).is_some_and(kept) {
                        continue;
                    }
                    let Some(entry) = shard.remove(slot) else { continue };
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    self.expired.fetch_add(1, Ordering::Relaxed);
                    store.forget(self.kind, &entry);
                }
                from += PAGE;
            }
            if stopping() {
                return;
            }
        }
    }

    /// Looks at `count` entries, from any one on, and drops those that are not `kept`.
    pub(super) fn weed(&self, mut count: usize, store: &Store, kept: &dyn Fn(&Entry) -> bool) {
        let first = fastrand::usize(..SHARDS);
        for index in (first..SHARDS).chain(0..first) {
            let mut shard = self.shard(index);
            let from = fastrand::usize(..shard.slots().max(1));
            let looked_at = count.min(shard.slots());
            for slot in shard.unkept(from, looked_at, kept) {
                let queue = shard.entry(slot).map(Entry::queue);
                if let (Some(queue), Some(entry)) = (queue, shard.remove(slot)) {
                    self.evicted(&entry, queue, store);
                }
            }
            count -= looked_at;
            if count == 0 {
                return;
            }
        }
    }

    /// Without counting as being asked for.
    pub(super) fn holds(&self, agent: &str, id: &str) -> bool {
        let hash = self.hash(agent, id);
        self.shard(hash.shard).find(hash.key, agent, id).is_some()
    }

    /// Shows the next page of entries; false when there are no more. What changes meanwhile may or may not be seen.
    pub(super) fn walk(&self, cursor: &mut Cursor, visit: &mut dyn FnMut(&Put<'_>)) -> bool {
        if cursor.shard >= SHARDS {
            return false;
        }
        let shard = self.shard(cursor.shard);
        for entry in shard.page(cursor.slot, PAGE) {
            visit(&entry.put(self.kind));
        }
        cursor.slot += PAGE;
        if cursor.slot >= shard.slots() {
            *cursor = Cursor {
                shard: cursor.shard + 1,
                slot: 0,
            };
        }
        true
    }

    /// Puts back a record of a journal.
    pub(super) fn restore(&self, put: &Put<'_>, names: &Names) {
        let hash = self.hash(put.agent, put.id);
        if self.shard(hash.shard).restore(hash.key, put, 0, names) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes over what the shared store holds, whatever stands here unless a transfer is known here that the store has lost;
    /// what is news here and not there stays to be told. True if it was another's here.
    pub(super) fn adopt(&self, agent: &str, id: &str, held: &Held<'_>, now: u32, names: &Names, store: &Store) -> bool {
        let hash = self.hash(agent, id);
        let room = {
            let missing = self.shard(hash.shard).find(hash.key, agent, id).is_none();
            missing.then(|| self.room(store, None))
        };
        let mut shard = self.shard(hash.shard);
        let slot = shard.find(hash.key, agent, id);
        if let Some(slot) = slot
            && shard
                .entry(slot)
                .is_some_and(|entry| entry.transfers() > held.transfers)
        {
            shard.lacks(slot);
            return false;
        }
        let known = slot.and_then(|slot| shard.entry(slot));
        let transferred = known.is_some_and(|entry| entry.principal() != held.principal);
        let state = match known {
            Some(entry) => entry.news(held),
            None => held.state,
        };
        let put = Put {
            kind: self.kind,
            agent,
            id,
            endpoint: held.endpoint,
            principal: held.principal,
            generation: held.generation,
            state,
            seen: now,
        };
        if shard.restore(hash.key, &put, held.transfers, names) {
            room.unwrap_or_else(|| self.room_beyond()).fill();
        }
        if state != held.state
            && let Some(slot) = shard.find(hash.key, agent, id)
        {
            shard.share(slot, Shared::Changed);
        }
        drop(shard);
        self.trim(store);
        transferred
    }

    /// Drops a record that says nothing any more.
    pub(super) fn forget(&self, agent: &str, id: &str, store: &Store) {
        let hash = self.hash(agent, id);
        let mut shard = self.shard(hash.shard);
        if let Some(slot) = shard.find(hash.key, agent, id)
            && let Some(entry) = shard.remove(slot)
        {
            self.count.fetch_sub(1, Ordering::Relaxed);
            store.forget(self.kind, &entry);
        }
    }

    /// Takes back a record that a journal says was forgotten.
    pub(super) fn unrestore(&self, agent: &str, id: &str) {
        let hash = self.hash(agent, id);
        let mut shard = self.shard(hash.shard);
        if let Some(slot) = shard.find(hash.key, agent, id)
            && shard.remove(slot).is_some()
        {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends a replay.
    pub(super) fn restored(&self) {
        for index in 0..SHARDS {
            self.shard(index).sort();
        }
    }

    pub(super) fn shards() -> std::ops::Range<usize> {
        0..SHARDS
    }

    /// For work on every entry of a shard in turn; `index` is one of `shards`.
    pub(super) fn lock_shard(&self, index: usize) -> Locked<'_> {
        self.shard(index)
    }

    /// Makes the shared store doubtful for what was written at `since` or later.
    pub(super) fn doubt(&self, since: u32) {
        for index in 0..SHARDS {
            let mut from = 0;
            loop {
                let mut shard = self.shard(index);
                if from >= shard.slots() {
                    break;
                }
                shard.doubt(from, PAGE, since);
                from += PAGE;
            }
        }
    }

    /// Entries that the shared store does not have as they are.
    pub(super) fn unwritten(&self) -> u64 {
        self.sum(|shard| shard.unwritten() as u64)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn len(&self) -> u64 {
        self.sum(|shard| shard.len() as u64)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sum(|shard| shard.bytes() as u64)
    }

    /// Bytes that all entries take in a journal.
    pub(super) fn encoded(&self) -> u64 {
        self.sum(Shard::encoded)
    }

    fn sum(&self, of: impl Fn(&Shard) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(&lock(shard))).sum()
    }

    pub(super) fn evicted_finished(&self) -> u64 {
        self.evicted_finished.load(Ordering::Relaxed)
    }

    pub(super) fn evicted_live(&self) -> u64 {
        self.evicted_live.load(Ordering::Relaxed)
    }

    pub(super) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// For the one change that is written down under the lock; see `learn`.
    pub(super) fn lock(&self, hash: Hash) -> Locked<'_> {
        self.shard(hash.shard)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "every index is below SHARDS: a masked hash, a loop over the shards, a place in `oldest`"
    )]
    fn shard(&self, index: usize) -> Locked<'_> {
        Locked {
            shard: lock(&self.shards[index]),
            oldest: &self.oldest[index],
        }
    }
}

impl Hash {
    pub(super) fn key(self) -> u32 {
        self.key
    }
}

/// Room for one entry; given back unless it was used.
pub(super) struct Room<'a>(&'a AtomicUsize);

impl Room<'_> {
    pub(super) fn fill(self) {
        mem::forget(self);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A locked shard; publishes its candidates when it is unlocked. Does not leave this folder, and no `await` is near.
pub(super) struct Locked<'a> {
    shard: MutexGuard<'a, Shard>,
    oldest: &'a Oldest,
}

impl Deref for Locked<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if !mem::take(&mut self.shard.moved) {
            return;
        }
        let of = |queue| self.shard.oldest(queue).unwrap_or(NOBODY);
        self.oldest.finished.store(of(Queue::Finished), Ordering::Relaxed);
        self.oldest.live.store(of(Queue::Live), Ordering::Relaxed);
    }
}
