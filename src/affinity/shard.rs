//! One shard of a table: entries in a slab, an index over them, and two queues in the order in which they were last seen.
//!
//! Finished and live entries queue separately, so that the next victim of either kind is the head of a list: constant
//! time, no sampling. An entry takes 88 bytes and 5 to 10 bytes of index, its id not counted. Plain data: `table` locks it.

use std::sync::Arc;

use hashbrown::HashTable;

use super::entry::{Entry, Queue, Shared, next_state};
use super::journal::record::Put;
use super::table::Claim;
use super::{Learned, Owner, names::Names};
use crate::ratelimit::OpenTasks;

/// No slot. A shard never grows that far: the table's bound is reached first.
const NONE: u32 = u32::MAX;

/// A list through the slab; the head is longest unseen.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE };

pub(super) struct Shard {
    index: HashTable<u32>,
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    finished: List,
    live: List,
    /// Bytes of the ids held.
    id_bytes: usize,
    /// Bytes that the entries take in a journal.
    encoded: u64,
    /// Entries that the shared store does not have as they are, and their slots; of slots that were given up or settled
    /// meanwhile there may be some.
    unwritten: usize,
    to_write: Vec<u32>,
    /// The head of a list changed, or its `seen`.
    pub(super) moved: bool,
    /// Is told which tasks are open; `None` for what is no task.
    open: Option<Arc<OpenTasks>>,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            finished: EMPTY,
            live: EMPTY,
            id_bytes: 0,
            encoded: 0,
            unwritten: 0,
            to_write: Vec::new(),
            moved: true,
            open: None,
        }
    }
}

/// What a claim means for the record that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Missing,
    /// Says what is known, and the journal knows it well enough.
    Settled,
    /// Says what is known, but the journal's `seen` is old.
    Stale,
    Changed,
    /// Another endpoint owns it.
    Conflict,
}

impl Shard {
    pub(super) fn telling(open: Option<Arc<OpenTasks>>) -> Self {
        Self {
            open,
            ..Self::default()
        }
    }

    pub(super) fn find(&self, hash: u32, agent: &str, id: &str) -> Option<u32> {
        self.index
            .find(wide(hash), |&slot| {
                self.entry(slot)
                    .is_some_and(|entry| entry.hash == hash && *entry.id == *id && *entry.agent == *agent)
            })
            .copied()
    }

    pub(super) fn entry(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn examine(&self, slot: Option<u32>, claim: &Claim<'_>, now: u32) -> Finding {
        let Some(entry) = slot.and_then(|slot| self.entry(slot)) else {
            return Finding::Missing;
        };
        if entry.endpoint != *claim.endpoint {
            return Finding::Conflict;
        }
        if next_state(entry.state, claim.state).is_some() {
            return Finding::Changed;
        }
        if now.saturating_sub(entry.written) >= claim.stale_after {
            return Finding::Stale;
        }
        Finding::Settled
    }

    /// The record belongs to another principal than the claim's.
    pub(super) fn is_foreign(&self, slot: Option<u32>, claim: &Claim<'_>) -> bool {
        slot.and_then(|slot| self.entry(slot))
            .is_some_and(|entry| entry.principal != *claim.principal)
    }

    /// Moves an entry to the end of its queue. One second is fine enough for an order of victims.
    pub(super) fn touch(&mut self, slot: u32, now: u32) {
        let Some(entry) = self.entry_mut(slot) else {
            return;
        };
        if entry.seen >= now {
            return;
        }
        entry.seen = now;
        let queue = entry.queue();
        self.unlink(slot, queue);
        self.push_back(slot, queue);
    }

    /// Takes in what a claim says. Gives what became of it and the slot to write down, if anything changed.
    pub(super) fn learn(&mut self, hash: u32, claim: &Claim<'_>, now: u32, names: &Names) -> (Learned, Option<u32>) {
        let slot = self.find(hash, claim.agent, claim.id);
        let told = |learned| {
            if self.is_foreign(slot, claim) {
                Learned::Foreign
            } else {
                learned
            }
        };
        let (known, updated) = (told(Learned::Known), told(Learned::Updated));
        match (slot, self.examine(slot, claim, now)) {
            (None, _) | (_, Finding::Missing) => {
                let slot = self.insert(Entry {
                    id: Box::from(claim.id),
                    agent: names.share(claim.agent, || Arc::from(claim.agent)),
                    endpoint: names.share(claim.endpoint, || Arc::clone(claim.endpoint)),
                    // A copy, so that its uses are those of records, and of one kind where kinds are counted apart.
                    principal: names.share(claim.principal, || Arc::from(&**claim.principal)),
                    seen: now,
                    written: now,
                    prev: NONE,
                    next: NONE,
                    hash,
                    generation: claim.generation,
                    state: claim.state,
                    shared: Shared::Settled,
                    transfers: 0,
                });
                (Learned::New, slot)
            }
            (Some(slot), Finding::Settled) => {
                self.touch(slot, now);
                (known, None)
            }
            (Some(slot), Finding::Stale) => {
                self.touch(slot, now);
                self.mark_written(slot);
                (known, Some(slot))
            }
            (Some(slot), Finding::Changed) => {
                self.update(slot, claim, now);
                (updated, Some(slot))
            }
            (Some(_), Finding::Conflict) => (Learned::Conflict, None),
        }
    }

    fn mark_written(&mut self, slot: u32) {
        if let Some(entry) = self.entry_mut(slot) {
            entry.written = entry.seen;
        }
    }

    /// Gives a record to another owner. Gives what it was.
    pub(super) fn transfer(&mut self, slot: u32, owner: Arc<str>, now: u32) -> Option<Owner> {
        self.touch(slot, now);
        let entry = self.entry_mut(slot)?;
        let before = entry.owner();
        let size = entry.encoded();
        let (agent, is_open) = (Arc::clone(&entry.agent), entry.queue() == Queue::Live);
        entry.principal = Arc::clone(&owner);
        entry.transfers = entry.transfers.saturating_add(1);
        entry.written = entry.seen;
        let resized = entry.encoded();
        self.encoded = self.encoded - size + resized;
        if let Some(open) = self.open.as_ref().filter(|_| is_open) {
            let id = self.entry(slot).map_or("", |entry| &entry.id);
            open.closed(&agent, &before.principal, id);
            open.opened(&agent, &owner, id);
        }
        Some(before)
    }

    fn update(&mut self, slot: u32, claim: &Claim<'_>, now: u32) {
        let Some(entry) = self.entry_mut(slot) else {
            return;
        };
        let before = entry.queue();
        if let Some(state) = next_state(entry.state, claim.state) {
            entry.state = Some(state);
        }
        entry.seen = entry.seen.max(now);
        entry.written = entry.seen;
        let after = entry.queue();
        self.unlink(slot, before);
        self.push_back(slot, after);
        if let (Some(open), Queue::Live, Queue::Finished) = (&self.open, before, after)
            && let Some(entry) = self.entry(slot)
        {
            open.closed(&entry.agent, &entry.principal, &entry.id);
        }
    }

    /// Puts back what a journal or the shared store says, whatever stands here. True if the entry is new.
    pub(super) fn restore(&mut self, hash: u32, put: &Put<'_>, transfers: u8, names: &Names) -> bool {
        let known = self.find(hash, put.agent, put.id);
        if let Some(slot) = known {
            self.remove(slot);
        }
        self.insert(Entry {
            id: Box::from(put.id),
            agent: names.share(put.agent, || Arc::from(put.agent)),
            endpoint: names.share(put.endpoint, || Arc::from(put.endpoint)),
            principal: names.share(put.principal, || Arc::from(put.principal)),
            seen: put.seen,
            written: put.seen,
            prev: NONE,
            next: NONE,
            hash,
            generation: put.generation,
            state: put.state,
            shared: Shared::Settled,
            transfers,
        });
        known.is_none()
    }

    fn insert(&mut self, entry: Entry) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => u32::try_from(self.slots.len()).ok().filter(|&n| n < NONE)?,
        };
        let (hash, queue) = (entry.hash, entry.queue());
        self.id_bytes += entry.id.len();
        self.encoded += entry.encoded();
        if let Some(open) = self.open.as_ref().filter(|_| queue == Queue::Live) {
            open.opened(&entry.agent, &entry.principal, &entry.id);
        }
        match self.slots.get_mut(slot as usize) {
            Some(vacant) => *vacant = Some(entry),
            None => self.slots.push(Some(entry)),
        }
        let Self { index, slots, .. } = self;
        index.insert_unique(wide(hash), slot, |&slot| {
            slots
                .get(slot as usize)
                .and_then(Option::as_ref)
                .map_or(0, |entry| wide(entry.hash))
        });
        self.push_back(slot, queue);
        Some(slot)
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Entry> {
        let queue = self.entry(slot)?.queue();
        self.unlink(slot, queue);
        let entry = self.slots.get_mut(slot as usize)?.take()?;
        if let Ok(found) = self.index.find_entry(wide(entry.hash), |&known| known == slot) {
            found.remove();
        }
        self.id_bytes -= entry.id.len();
        self.encoded -= entry.encoded();
        if let Some(open) = self.open.as_ref().filter(|_| queue == Queue::Live) {
            open.forgotten(&entry.agent, &entry.principal);
        }
        self.unwritten -= usize::from(entry.shared != Shared::Settled);
        self.free.push(slot);
        Some(entry)
    }

    /// The shared store has lost an entry that it had.
    pub(super) fn lacks(&mut self, slot: u32) {
        if self.entry(slot).is_some_and(|entry| entry.shared == Shared::Settled) {
            self.share(slot, Shared::Changed);
        }
    }

    /// Notes what the shared store has of an entry; what it lacks waits to be written.
    pub(super) fn share(&mut self, slot: u32, shared: Shared) {
        let Some(entry) = self.entry_mut(slot) else {
            return;
        };
        let before = std::mem::replace(&mut entry.shared, shared);
        match (before == Shared::Settled, shared == Shared::Settled) {
            (true, false) => {
                self.unwritten += 1;
                self.wait_to_be_written(slot);
            }
            (false, true) => self.unwritten -= 1,
            (true, true) | (false, false) => {}
        }
    }

    /// Each slot once at most, as soon as there are twice as many as there can be.
    fn wait_to_be_written(&mut self, slot: u32) {
        if self.to_write.len() > 2 * self.slots.len() {
            self.to_write.sort_unstable();
            self.to_write.dedup();
        }
        self.to_write.push(slot);
    }

    /// Slots that wait to be written; what is not settled then must be given back.
    pub(super) fn take_unwritten(&mut self) -> Vec<u32> {
        let mut taken = std::mem::take(&mut self.to_write);
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        if self.entry(slot).is_some_and(|entry| entry.shared != Shared::Settled) {
            self.wait_to_be_written(slot);
        }
    }

    /// Entries in `slots[from..from + count]` that were written at `since` or later: the shared store may lack them.
    pub(super) fn doubt(&mut self, from: usize, count: usize, since: u32) {
        let end = self.slots.len().min(from.saturating_add(count));
        for slot in (from..end).filter_map(|slot| u32::try_from(slot).ok()) {
            let doubtful = |entry: &Entry| entry.shared == Shared::Settled && entry.written >= since;
            if self.entry(slot).is_some_and(doubtful) {
                self.share(slot, Shared::Changed);
            }
        }
    }

    /// The shared store has just told or taken an entry, and had this owner for so many transfers.
    pub(super) fn confirm(&mut self, slot: u32, transfers: u8, now: u32) {
        if let Some(entry) = self.entry_mut(slot) {
            entry.written = now;
            entry.transfers = entry.transfers.max(transfers);
        }
    }

    pub(super) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// Takes out the longest unseen of a queue.
    pub(super) fn pop(&mut self, queue: Queue) -> Option<Entry> {
        let head = self.list(queue).head;
        self.remove(head)
    }

    /// The next victim of a queue belongs to this owner.
    pub(super) fn is_next(&self, queue: Queue, owner: &str) -> bool {
        let next = self.entry(self.list(queue).head);
        next.is_some_and(|entry| *entry.principal == *owner)
    }

    /// Of `count` slots from one on, the entry of this owner that is finished, or unseen for longest.
    pub(super) fn sample(&self, owner: &str, from: usize, count: usize) -> Option<(u32, Queue)> {
        self.around(from, count)
            .filter(|(_, entry)| *entry.principal == *owner)
            .min_by_key(|(_, entry)| (entry.queue() == Queue::Live, entry.seen))
            .map(|(slot, entry)| (slot, entry.queue()))
    }

    /// When the head of a queue was last seen.
    pub(super) fn oldest(&self, queue: Queue) -> Option<u32> {
        self.entry(self.list(queue).head).map(|entry| entry.seen)
    }

    /// Slots of entries in `slots[from..from + count]` that were last seen more than `retention` ago.
    pub(super) fn expired(&mut self, from: usize, count: usize, now: u32, retention: u32) -> Vec<u32> {
        let mut expired = Vec::new();
        self.moved = true;
        for (slot, entry) in (0_u32..).zip(&mut self.slots).skip(from).take(count) {
            let Some(entry) = entry else { continue };
            // The clock was set back: without this, the entry would stay for as long as the clock was wrong.
            entry.seen = entry.seen.min(now);
            if now - entry.seen > retention {
                expired.push(slot);
            }
        }
        expired
    }

    /// Of `count` slots from one on, those of entries that are not `kept`.
    pub(super) fn unkept(&self, from: usize, count: usize, kept: &dyn Fn(&Entry) -> bool) -> Vec<u32> {
        self.around(from, count)
            .filter(|(_, entry)| !kept(entry))
            .map(|(slot, _)| slot)
            .collect()
    }

    /// The entries in `count` slots from one on, and on from the first after the last.
    fn around(&self, from: usize, count: usize) -> impl Iterator<Item = (u32, &Entry)> {
        let slots = (0_u32..).zip(&self.slots);
        let around = slots.clone().skip(from).chain(slots.take(from)).take(count);
        around.filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    pub(super) fn page(&self, from: usize, count: usize) -> impl Iterator<Item = &Entry> {
        self.slots.iter().skip(from).take(count).flatten()
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Gives the memory back once nothing is left.
    pub(super) fn shrink(&mut self) {
        if self.index.is_empty() {
            *self = Self::telling(self.open.take());
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Entry>>()
            + (self.free.capacity() + self.to_write.capacity()) * size_of::<u32>()
            + self.index.allocation_size()
            + self.id_bytes
    }

    pub(super) fn encoded(&self) -> u64 {
        self.encoded
    }

    /// Brings the queues into the order of `seen`; a journal replays in the order of writing.
    pub(super) fn sort(&mut self) {
        let mut order: Vec<(u32, u32, Queue)> = (0_u32..)
            .zip(&self.slots)
            .filter_map(|(slot, entry)| {
                let entry = entry.as_ref()?;
                Some((entry.seen, slot, entry.queue()))
            })
            .collect();
        order.sort_by_key(|&(seen, _, _)| seen);
        self.finished = EMPTY;
        self.live = EMPTY;
        for (_, slot, queue) in order {
            self.push_back(slot, queue);
        }
        self.moved = true;
    }

    fn list(&self, queue: Queue) -> List {
        match queue {
            Queue::Finished => self.finished,
            Queue::Live => self.live,
        }
    }

    fn list_mut(&mut self, queue: Queue) -> &mut List {
        match queue {
            Queue::Finished => &mut self.finished,
            Queue::Live => &mut self.live,
        }
    }

    fn unlink(&mut self, slot: u32, queue: Queue) {
        let Some(entry) = self.entry(slot) else {
            return;
        };
        let (prev, next) = (entry.prev, entry.next);
        match self.entry_mut(prev) {
            Some(before) => before.next = next,
            None => {
                self.list_mut(queue).head = next;
                self.moved = true;
            }
        }
        match self.entry_mut(next) {
            Some(after) => after.prev = prev,
            None => self.list_mut(queue).tail = prev,
        }
    }

    fn push_back(&mut self, slot: u32, queue: Queue) {
        let tail = self.list(queue).tail;
        match self.entry_mut(tail) {
            Some(last) => last.next = slot,
            None => {
                self.list_mut(queue).head = slot;
                self.moved = true;
            }
        }
        self.list_mut(queue).tail = slot;
        if let Some(entry) = self.entry_mut(slot) {
            entry.prev = tail;
            entry.next = NONE;
        }
    }
}

/// The index wants its high and its low bits to differ between keys; 32 bits serve both ends.
fn wide(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
