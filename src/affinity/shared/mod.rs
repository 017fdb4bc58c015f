//! Records that several gateways share.
//!
//! The tables are the cache: endpoint and principal of a record do not change by themselves, so what is known is not asked
//! for again before `cache_ttl`. What is not known is asked for in one round trip, and an answer that nobody knows it is not
//! kept. A new owner is told to the store, and the answer that reveals it waits for that: who comes first owns it,
//! and whoever comes second takes over the first one's record. States follow behind; no answer waits for them.
//!
//! A record says how often an operator gave it to another owner, and the one with more transfers holds: a store that has lost
//! one gets it from any gateway that knows of it, whoever comes first.
//!
//! The tables are the queue too: a record that the store does not have is marked as such in its shard until the store has
//! taken it. So an outage of any length needs no memory of its own, the bound is `max_tasks`, and what goes at
//! that bound goes in its order. After an outage, what the store may have lost is marked again. While the store is away
//! nothing waits for it, and a question that could not be asked is told apart from one whose answer is "nobody". So is
//! what is not found while gateways write back what the store has lost.

mod record;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

pub(super) use record::Held;

use super::entry::{Entry, SEEN_WRITTEN_EVERY, Shared};
use super::journal::record::{Kind, MAX_ID, MAX_NAME};
use super::learn::Taken;
use super::table::{Hash, Table};
use super::{Affinity, Alias, Owner};
use crate::a2a::{ContextId, Revealed, TaskId};
use crate::shared::{Away, Command, Purpose, Reply, Store};

/// Records that go out together: a few KiB, and well below a millisecond of the server's time.
const BATCH: usize = 64;
/// Between two batches: writing everything again must leave the server to the calls.
const BETWEEN_BATCHES: Duration = Duration::from_millis(2);
/// How often what was left behind is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A new record belongs for so many seconds to the answer that waits for it, which may be given up with its caller.
const OWN_ERRAND: u32 = 2;
/// At the end of the process, for what is still to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How the tables are shared.
pub(super) struct Sharing {
    store: Store,
    /// Seconds that a record lives in the store after it was last seen.
    keep: u32,
    /// In seconds.
    cache_ttl: u32,
    dropped: AtomicU64,
    /// Something changed that no answer waits for.
    work: Notify,
}

/// What must happen before memory is asked.
pub enum Inquiry {
    /// Memory knows what anybody knows.
    Settled,
    /// Memory does not know all of it, and nobody can be asked.
    Away,
    Asking(Asking),
}

pub type Asking = Pin<Box<dyn Future<Output = Knowledge> + Send>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// What memory does not know, nobody does.
    Whole,
    /// The shared store is away, or has lost records that gateways write back: what memory does not know, others may.
    Partial,
}

/// What became of new owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confirmed {
    /// They are in the store.
    Stored,
    /// The store is away; they are told to it when it is back.
    Later,
    /// Another gateway was first and told another owner, which holds from now on here too.
    Conflict,
}

pub type Confirming = Pin<Box<dyn Future<Output = Confirmed> + Send>>;

/// An id to ask for.
struct Wanted {
    kind: Kind,
    id: Box<str>,
    known: bool,
}

/// A record as it is told to the store.
struct Draft {
    kind: Kind,
    hash: Hash,
    agent: Arc<str>,
    id: Box<str>,
    owner: Owner,
    transfers: u8,
}

impl Sharing {
    pub(super) fn new(store: Store, retention: u32, cache_ttl: Duration) -> Self {
        Self {
            store,
            keep: retention.max(1),
            cache_ttl: u32::try_from(cache_ttl.as_secs()).unwrap_or(u32::MAX),
            dropped: AtomicU64::new(0),
            work: Notify::new(),
        }
    }

    /// Often enough that no record is forgotten by the store that is seen here.
    pub(super) fn stale_after(&self) -> u32 {
        SEEN_WRITTEN_EVERY.min(self.keep / 4)
    }

    /// Notes what a call learned, under the locks of its shards.
    pub(super) fn note<'a, 'b: 'a>(&self, taken: impl Iterator<Item = &'a mut Taken<'b>>) {
        let mut changed = false;
        for one in taken {
            changed |= one.share();
        }
        if changed {
            self.work.notify_one();
        }
    }

    pub(super) fn dropped(&self, entry: &Entry) {
        if entry.shared() != Shared::Settled {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn is_degraded(&self) -> bool {
        !self.store.takes_records()
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.store.is_recovering()
    }
}

impl Affinity {
    /// What must be awaited before `task` and `context` can tell what is known of these ids. At once `Settled` without a
    /// shared store.
    pub fn inquire<'a>(
        self: &Arc<Self>,
        agent: &str,
        tasks: impl IntoIterator<Item = &'a TaskId>,
        contexts: impl IntoIterator<Item = &'a ContextId>,
    ) -> Inquiry {
        let Some(sharing) = self.store.sharing() else {
            return Inquiry::Settled;
        };
        self.inquire_beyond(sharing, sharing.cache_ttl, agent, all(tasks, contexts))
    }

    /// The same for other ids.
    pub(super) fn inquire_named<'a>(
        self: &Arc<Self>,
        agent: &str,
        named: impl IntoIterator<Item = (Kind, &'a str)>,
    ) -> Inquiry {
        match self.store.sharing() {
            None => Inquiry::Settled,
            Some(sharing) => self.inquire_beyond(sharing, sharing.cache_ttl, agent, named),
        }
    }

    /// The same, and whatever memory knows is asked for as well.
    pub fn inquire_anew<'a>(
        self: &Arc<Self>,
        agent: &str,
        tasks: impl IntoIterator<Item = &'a TaskId>,
        contexts: impl IntoIterator<Item = &'a ContextId>,
    ) -> Inquiry {
        let Some(sharing) = self.store.sharing() else {
            return Inquiry::Settled;
        };
        self.inquire_beyond(sharing, 0, agent, all(tasks, contexts))
    }

    /// What memory knows for less than `ttl` seconds is not asked for.
    fn inquire_beyond<'a>(
        self: &Arc<Self>,
        sharing: &Sharing,
        ttl: u32,
        agent: &str,
        named: impl IntoIterator<Item = (Kind, &'a str)>,
    ) -> Inquiry {
        let now = self.now();
        let wanted: Vec<Wanted> = named
            .into_iter()
            // What is longer is never remembered.
            .filter(|(_, id)| (1..=MAX_ID).contains(&id.len()))
            .filter_map(|(kind, id)| {
                let known = match self.table(kind).age(agent, id, now) {
                    Some(age) if age < ttl => return None,
                    age => age.is_some(),
                };
                let id = Box::from(id);
                Some(Wanted { kind, id, known })
            })
            .collect();
        if wanted.is_empty() {
            Inquiry::Settled
        } else if sharing.store.is_up() {
            let (affinity, agent) = (Arc::clone(self), Arc::<str>::from(agent));
            Inquiry::Asking(Box::pin(async move { affinity.ask(&agent, &wanted).await }))
        } else {
            match knowledge_without(&wanted) {
                Knowledge::Whole => Inquiry::Settled,
                Knowledge::Partial => Inquiry::Away,
            }
        }
    }

    /// There is a shared store, and it cannot be asked.
    pub fn is_away(&self) -> bool {
        self.store.sharing().is_some_and(|sharing| !sharing.store.is_up())
    }

    /// Tells other gateways that a task is given to another owner, which they see within `cache_ttl`; to be followed by
    /// `transfer_task`. Nothing to do without a shared store, or without a record.
    pub async fn tell_task_owner(&self, agent: &str, id: &TaskId, owner: &Arc<str>) -> Result<(), Away> {
        self.tell_owner(Kind::Task, agent, id.as_str(), owner).await
    }

    /// The same for a context.
    pub async fn tell_context_owner(&self, agent: &str, id: &ContextId, owner: &Arc<str>) -> Result<(), Away> {
        self.tell_owner(Kind::Context, agent, id.as_str(), owner).await
    }

    async fn tell_owner(&self, kind: Kind, agent: &str, id: &str, owner: &Arc<str>) -> Result<(), Away> {
        let Some(sharing) = self.store.sharing() else {
            return Ok(());
        };
        let Some(known) = self.table(kind).draft_if(agent, id, |_| true) else {
            return Ok(());
        };
        let given = Held {
            principal: owner,
            transfers: known.transfers.saturating_add(1),
            ..known.held()
        };
        // What is too long is refused by `transfer`.
        let Some(record) = record::encode(&given).filter(|_| owner.len() <= MAX_NAME) else {
            return Ok(());
        };
        let command = Command::Put {
            key: record::key(sharing.store.prefix(), kind, agent, id),
            record,
            keep: sharing.keep,
        };
        let replies = sharing.store.ask(Purpose::Learn, &[command]).await?;
        if replies.contains(&Reply::Refused) {
            return Err(Away);
        }
        Ok(())
    }

    /// Why the shared store is away, for operators.
    pub fn outage(&self) -> Option<String> {
        self.store.sharing()?.store.outage()
    }

    async fn ask(&self, agent: &str, wanted: &[Wanted]) -> Knowledge {
        let Some(sharing) = self.store.sharing() else {
            return Knowledge::Whole;
        };
        let commands: Vec<Command> = wanted
            .iter()
            .map(|one| Command::Read {
                key: record::key(sharing.store.prefix(), one.kind, agent, &one.id),
                keep: sharing.keep,
            })
            .collect();
        let Ok(looked) = sharing.store.look(&commands).await else {
            return knowledge_without(wanted);
        };
        let now = self.now();
        let mut knowledge = if looked.whole {
            Knowledge::Whole
        } else {
            Knowledge::Partial
        };
        for (one, reply) in wanted.iter().zip(looked.replies) {
            match reply {
                Reply::Bytes(value) => match record::decode(&value) {
                    Some(held) => self.adopt(one.kind, agent, &one.id, &held, now),
                    // Perhaps a newer gateway's: it has an owner.
                    None if !one.known => knowledge = Knowledge::Partial,
                    None => {}
                },
                // The store has lost what is known here.
                Reply::Nothing if one.known => self.table(one.kind).mark_changed(agent, &one.id),
                Reply::Nothing => {}
                Reply::Refused | Reply::Number(_) if one.known => {}
                Reply::Refused | Reply::Number(_) => knowledge = Knowledge::Partial,
            }
        }
        knowledge
    }

    fn adopt(&self, kind: Kind, agent: &str, id: &str, held: &Held<'_>, now: u32) {
        let table = self.table(kind);
        if table.adopt(agent, id, held, now, self.names(table.kind()), &self.store) {
            self.transferred_one(kind);
        }
    }

    /// `None` if every gateway finds these ids, or none can be told at this moment.
    pub(super) fn tell_new(
        self: &Arc<Self>,
        sharing: &Sharing,
        agent: &str,
        revealed: &[Revealed],
        alias: Option<&Alias>,
    ) -> Option<Confirming> {
        let tasks = revealed.iter().filter_map(|one| one.task.as_ref());
        let contexts = revealed.iter().filter_map(|one| one.context.as_ref());
        let alias = alias.map(|alias| (Kind::Alias, alias.as_str()));
        let mut drafts: Vec<Draft> = Vec::new();
        for (kind, id) in all(tasks, contexts).chain(alias) {
            let known = drafts.iter().any(|draft| draft.kind == kind && *draft.id == *id);
            if !known {
                // Those that the store was never told of.
                let untold = |entry: &Entry| entry.shared().is_untold();
                drafts.extend(self.table(kind).draft_if(agent, id, untold));
            }
        }
        if drafts.is_empty() {
            return None;
        }
        if !sharing.store.takes_records() {
            self.leave(&drafts);
            return None;
        }
        let affinity = Arc::clone(self);
        Some(Box::pin(async move {
            let told = affinity.tell_all(Purpose::Learn, &drafts).await;
            let confirmed = told.unwrap_or(Confirmed::Later);
            // Those that were settled stay so.
            affinity.leave(&drafts);
            confirmed
        }))
    }

    /// The answers go on; what they revealed is told when it can be.
    fn leave(&self, drafts: &[Draft]) {
        for draft in drafts {
            self.table(draft.kind).leave(draft);
        }
    }

    /// Tells the store of records, and settles what it replies.
    async fn tell_all(&self, purpose: Purpose, drafts: &[Draft]) -> Result<Confirmed, Away> {
        let Some(sharing) = self.store.sharing() else {
            return Err(Away);
        };
        let commands: Vec<Command> = drafts
            .iter()
            .map(|draft| Command::Learn {
                key: record::key(sharing.store.prefix(), draft.kind, &draft.agent, &draft.id),
                record: record::encode(&draft.held()).unwrap_or_default(),
                keep: sharing.keep,
            })
            .collect();
        let replies = sharing.store.ask(purpose, &commands).await?;
        let now = self.now();
        let mut confirmed = Confirmed::Stored;
        for (draft, reply) in drafts.iter().zip(replies) {
            confirmed = confirmed.max(self.settle(draft, &reply, now));
        }
        Ok(confirmed)
    }

    fn settle(&self, draft: &Draft, reply: &Reply, now: u32) -> Confirmed {
        let table = self.table(draft.kind);
        match reply {
            Reply::Bytes(value) => match record::decode(value) {
                // Of the same owner, or of one from whom it was taken.
                Some(held) if draft.is_of(&held) || held.transfers < draft.transfers => {
                    table.settle(draft, held.transfers, now);
                }
                Some(held) => {
                    tracing::warn!(
                        agent = &*draft.agent,
                        id = &*draft.id,
                        "another gateway has told another owner of a task or context first, or after a transfer; that one holds"
                    );
                    self.adopt(draft.kind, &draft.agent, &draft.id, &held, now);
                    return Confirmed::Conflict;
                }
                // Nothing that can be done here would make it readable.
                None => table.settle(draft, 0, now),
            },
            Reply::Nothing | Reply::Number(_) => table.settle(draft, 0, now),
            Reply::Refused => return Confirmed::Later,
        }
        Confirmed::Stored
    }

    /// Tells the store what no answer waits for, until the process stops.
    pub(super) async fn tell(self: Arc<Self>) {
        let Some(sharing) = self.store.sharing() else {
            return;
        };
        loop {
            tokio::select! {
                () = sharing.work.notified() => {}
                () = sharing.store.news() => {}
                () = sleep(LOOK_EVERY) => {}
            }
            if let Some(since) = sharing.store.doubts() {
                self.blocking(move |affinity| {
                    for table in affinity.tables() {
                        table.doubt(since);
                    }
                })
                .await;
            }
            if self.tell_unwritten(OWN_ERRAND).await {
                sharing.store.caught_up();
            }
        }
    }

    /// Tells the store of the last changes, before the process ends.
    pub async fn last_words(&self) {
        let _given_up = tokio::time::timeout(LAST_WORDS, self.tell_unwritten(0)).await;
    }

    /// New records younger than `own_errand` seconds are left to the answers that wait for them. True if all others were told
    /// that were unwritten when it began.
    async fn tell_unwritten(&self, own_errand: u32) -> bool {
        let takes_records = || {
            self.store
                .sharing()
                .is_some_and(|sharing| sharing.store.takes_records())
        };
        let mut batch = Vec::new();
        for table in self.tables() {
            for index in Table::shards() {
                if !takes_records() {
                    self.give_back(&batch);
                    return false;
                }
                // The list of a shard is taken whole: what fails is given back.
                let slots = table.lock_shard(index).take_unwritten();
                let mut slots = slots.into_iter();
                loop {
                    let room = BATCH - batch.len();
                    let some = slots.by_ref().take(room);
                    batch.extend(table.drafts(index, some, self.now(), own_errand));
                    let full = batch.len() >= BATCH;
                    if full && !self.tell_batch(&mut batch).await {
                        table.give_back(index, slots);
                        return false;
                    }
                    if slots.len() == 0 {
                        break;
                    }
                }
            }
        }
        batch.is_empty() || self.tell_batch(&mut batch).await
    }

    /// False if the store takes no more.
    async fn tell_batch(&self, batch: &mut Vec<Draft>) -> bool {
        let drafts = std::mem::take(batch);
        let told = self.tell_all(Purpose::Flush, &drafts).await;
        // What was settled is not taken back.
        self.give_back(&drafts);
        if told.is_err() || told == Ok(Confirmed::Later) {
            return false;
        }
        if drafts.len() >= BATCH {
            sleep(BETWEEN_BATCHES).await;
        }
        true
    }

    fn give_back(&self, drafts: &[Draft]) {
        for draft in drafts {
            self.table(draft.kind).give_back_draft(draft);
        }
    }
}

fn all<'a>(
    tasks: impl IntoIterator<Item = &'a TaskId>,
    contexts: impl IntoIterator<Item = &'a ContextId>,
) -> impl Iterator<Item = (Kind, &'a str)> {
    let tasks = tasks.into_iter().map(|id| (Kind::Task, id.as_str()));
    let contexts = contexts.into_iter().map(|id| (Kind::Context, id.as_str()));
    tasks.chain(contexts)
}

/// What can be said when nobody could be asked.
fn knowledge_without(wanted: &[Wanted]) -> Knowledge {
    if wanted.iter().all(|one| one.known) {
        Knowledge::Whole
    } else {
        Knowledge::Partial
    }
}

impl Draft {
    fn held(&self) -> Held<'_> {
        Held {
            endpoint: &self.owner.endpoint,
            principal: &self.owner.principal,
            generation: self.owner.generation,
            state: self.owner.state,
            transfers: self.transfers,
        }
    }

    fn is_of(&self, held: &Held<'_>) -> bool {
        *self.owner.endpoint == *held.endpoint && *self.owner.principal == *held.principal
    }
}

/// What the tables do for sharing; each takes one lock for one step.
impl Table {
    /// Seconds since the store last said what it has of a record; none if the store has yet to hear of it.
    fn age(&self, agent: &str, id: &str, now: u32) -> Option<u32> {
        let hash = self.hash(agent, id);
        let shard = self.lock(hash);
        let entry = shard.entry(shard.find(hash.key(), agent, id)?)?;
        Some(match entry.shared() {
            Shared::Settled => now.saturating_sub(entry.written()),
            Shared::New | Shared::Left | Shared::Changed => 0,
        })
    }

    fn mark_changed(&self, agent: &str, id: &str) {
        let hash = self.hash(agent, id);
        let mut shard = self.lock(hash);
        if let Some(slot) = shard.find(hash.key(), agent, id) {
            shard.lacks(slot);
        }
    }

    fn draft_if(&self, agent: &str, id: &str, wanted: impl FnOnce(&Entry) -> bool) -> Option<Draft> {
        let hash = self.hash(agent, id);
        let shard = self.lock(hash);
        let entry = shard.entry(shard.find(hash.key(), agent, id)?)?;
        wanted(entry).then(|| self.draft(entry))
    }

    fn draft(&self, entry: &Entry) -> Draft {
        Draft {
            kind: self.kind(),
            hash: self.hash(entry.agent(), entry.id()),
            agent: entry.shared_agent(),
            id: Box::from(entry.id()),
            owner: entry.owner(),
            transfers: entry.transfers(),
        }
    }

    fn drafts(&self, index: usize, slots: impl Iterator<Item = u32>, now: u32, own_errand: u32) -> Vec<Draft> {
        let mut shard = self.lock_shard(index);
        let mut drafts = Vec::new();
        for slot in slots {
            let Some(entry) = shard.entry(slot) else { continue };
            let awaited = entry.shared() == Shared::New && now.saturating_sub(entry.written()) < own_errand;
            if awaited {
                shard.give_back(slot);
            } else if entry.shared() != Shared::Settled {
                drafts.push(self.draft(entry));
            }
        }
        drafts
    }

    /// The store has what was told; what changed meanwhile is told next time.
    fn settle(&self, draft: &Draft, transfers: u8, now: u32) {
        let mut shard = self.lock(draft.hash);
        let Some(slot) = shard.find(draft.hash.key(), &draft.agent, &draft.id) else {
            return;
        };
        shard.confirm(slot, transfers, now);
        let as_told = shard.entry(slot).is_some_and(|entry| entry.owner() == draft.owner);
        shard.share(slot, if as_told { Shared::Settled } else { Shared::Changed });
    }

    fn leave(&self, draft: &Draft) {
        let mut shard = self.lock(draft.hash);
        if let Some(slot) = shard.find(draft.hash.key(), &draft.agent, &draft.id)
            && shard.entry(slot).is_some_and(|entry| entry.shared() == Shared::New)
        {
            shard.share(slot, Shared::Left);
        }
    }

    fn give_back(&self, index: usize, slots: impl Iterator<Item = u32>) {
        let mut shard = self.lock_shard(index);
        for slot in slots {
            shard.give_back(slot);
        }
    }

    fn give_back_draft(&self, draft: &Draft) {
        let mut shard = self.lock(draft.hash);
        if let Some(slot) = shard.find(draft.hash.key(), &draft.agent, &draft.id) {
            shard.give_back(slot);
        }
    }
}
