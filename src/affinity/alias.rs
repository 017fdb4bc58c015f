//! What callers of A2A 0.1 call their tasks: there the client names a task, in later generations its agent does.
//!
//! A record tells which task of the agent an id stands for. It is kept like the others, in a table of its own and in the
//! same stores, under the hash of its owner and the id, because two owners may choose the same. What it stands for is in the
//! place of the endpoint, with the session that the caller began the task with.
//!
//! It is nothing without the record of its task, and stays as long as that: a send under a name that went earlier would begin
//! a second task. So its own age does not end it, and at capacity go names whose tasks have gone (`make_room_for_names`).
//! Where gateways share records, this one need not know the task's, and a name grows old by itself.
//!
//! Until an answer has told of the task, the call that begins it holds the name (`Beginnings`): another one under the same
//! would begin a second task.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use ahash::RandomState;
use aws_lc_rs::digest;

use super::entry::Entry;
use super::journal::record::Kind;
use super::{Affinity, Inquiry, lock};
use crate::a2a::TaskId;

/// A caller's name of a task, among those of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Alias(Box<str>);

/// What an alias stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// As the agent calls it.
    pub task: TaskId,
    /// As the caller called it when it began the task; empty if it did not.
    pub session: Box<str>,
}

impl Alias {
    pub fn new(owner: &str, id: &TaskId) -> Self {
        let mut digest = digest::Context::new(&digest::SHA256);
        // The length tells where the owner ends.
        digest.update(&(owner.len() as u64).to_le_bytes());
        digest.update(owner.as_bytes());
        digest.update(id.as_str().as_bytes());
        let mut text = String::with_capacity(64);
        for byte in digest.finish().as_ref() {
            // Writing to a string cannot fail.
            let _written = write!(text, "{byte:02x}");
        }
        Self(text.into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Meaning {
    /// The task's length, the task and the session: ids are any text.
    pub(super) fn write(&self) -> Arc<str> {
        let Self { task, session } = self;
        Arc::from(format!("{}:{task}{session}", task.as_str().len()))
    }

    fn read(text: &str) -> Option<Self> {
        let (length, rest) = text.split_once(':')?;
        let (task, session) = rest.split_at_checked(length.parse().ok()?)?;
        Some(Self {
            task: TaskId::new(task),
            session: Box::from(session),
        })
    }
}

impl Affinity {
    /// What must be awaited before `alias`.
    pub fn inquire_alias(self: &Arc<Self>, agent: &str, alias: &Alias) -> Inquiry {
        self.inquire_named(agent, [(Kind::Alias, alias.as_str())])
    }

    /// What an alias stands for. Being asked for, both it and its task count as being seen.
    pub fn alias(&self, agent: &str, alias: &Alias) -> Option<Meaning> {
        let record = self.aliases.owner(agent, alias.as_str(), self.now())?;
        let meaning = Meaning::read(&record.endpoint)?;
        // Where gateways share records, this one need not know those of all tasks, and they go there together.
        if self.store.sharing().is_none() && self.task(agent, &meaning.task).is_none() {
            self.aliases.forget(agent, alias.as_str(), &self.store);
            return None;
        }
        Some(meaning)
    }
}

/// A name more than there are tasks drops some of those whose tasks have gone: of so many that are looked at. So there are a
/// sixteenth more names than tasks at most, as long as each task has one.
const LOOKED_AT: usize = 16;

/// The bound of names, for so many tasks. It is not met before tasks have several names each.
pub(super) fn most(max_tasks: usize) -> usize {
    max_tasks.saturating_mul(2)
}

impl Affinity {
    pub(super) fn make_room_for_names(&self) {
        if self.aliases.has(self.tasks.max()) {
            self.weed_names(LOOKED_AT);
        }
    }

    /// Drops names whose tasks have gone, of so many.
    pub(super) fn weed_names(&self, count: usize) {
        if self.store.sharing().is_none() {
            self.aliases.weed(count, &self.store, &|name| self.keeps_name(name));
        }
    }

    /// The task of a name is known, and no other gateway could know better.
    pub(super) fn keeps_name(&self, name: &Entry) -> bool {
        let knows = |meaning: Meaning| self.tasks.holds(name.agent(), meaning.task.as_str());
        self.store.sharing().is_none() && Meaning::read(name.endpoint()).is_some_and(knows)
    }

    /// Whoever has more than a tenth of all names, because its tasks have several, makes room among its own.
    pub(super) fn is_greedy_of_names(&self, principal: &str) -> bool {
        self.aliases.is_full() && self.names_of_aliases.uses(principal) > self.aliases.max() / 10
    }
}

/// The names under which calls to one agent begin tasks at this moment. In memory only; bounded by the calls under way.
#[derive(Debug, Default)]
pub struct Beginnings(Mutex<HashSet<Alias, RandomState>>);

/// A call's hold on a name; given up on drop.
#[derive(Debug)]
pub struct Beginning {
    all: Arc<Beginnings>,
    alias: Alias,
}

impl Beginnings {
    /// `None` while another call holds the name. To be followed by another look for the alias: whoever learns it gives up the
    /// name only afterwards, so that one of the two is always seen.
    pub fn begin(self: &Arc<Self>, alias: &Alias) -> Option<Beginning> {
        lock(&self.0).insert(alias.clone()).then(|| Beginning {
            all: self.clone(),
            alias: alias.clone(),
        })
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.alias);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_owners_are_two_wherever_the_owner_ends() {
        let alias = |owner: &str, id: &str| Alias::new(owner, &TaskId::new(id));
        assert_eq!(alias("key:ann", "t"), alias("key:ann", "t"));
        for (owner, id) in [("key:bob", "t"), ("key:an", "nt"), ("key:annt", ""), ("", "key:annt")] {
            assert_ne!(alias("key:ann", "t"), alias(owner, id), "{owner} {id}");
        }
    }

    #[test]
    fn a_meaning_reads_as_it_was_written() {
        for (task, session) in [("t", ""), ("3:a", "4:b"), ("", "s"), ("ü\n", "\u{0}"), (":", ":")] {
            let meaning = Meaning {
                task: TaskId::new(task),
                session: Box::from(session),
            };
            assert_eq!(Meaning::read(&meaning.write()), Some(meaning));
        }
        for broken in ["", "1", ":", "x:t", "2:t", "1:ü", "-1:t"] {
            assert_eq!(Meaning::read(broken), None, "{broken}");
        }
    }

    #[test]
    fn one_call_begins_a_task_of_a_name() {
        let all: Arc<Beginnings> = Arc::default();
        let alias = |id: &str| Alias::new("key:ann", &TaskId::new(id));
        let first = all.begin(&alias("t"));
        assert!(first.is_some());
        assert!(all.begin(&alias("t")).is_none(), "under way");
        assert!(all.begin(&alias("u")).is_some(), "another name");
        drop(first);
        assert!(all.begin(&alias("t")).is_some(), "given up");
        assert!(lock(&all.0).is_empty(), "nothing stays");
    }
}
