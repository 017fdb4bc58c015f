//! One record in memory: what an id stands for, when it was seen, and what the stores have of it.

use std::sync::Arc;

use super::Owner;
use super::journal::record::{self, Kind, Put};
use super::shared::Held;
use crate::a2a::{Generation, TaskState};

/// `seen` reaches the journal again when what stands there is older than this: often enough for retention, which is
/// counted in days, and never more than one write an hour for a record that does not change. Being asked for is not
/// written at all: questions never touch the disk.
pub(super) const SEEN_WRITTEN_EVERY: u32 = 3600;

pub(super) struct Entry {
    pub(super) id: Box<str>,
    pub(super) agent: Arc<str>,
    pub(super) endpoint: Arc<str>,
    pub(super) principal: Arc<str>,
    /// When it was last asked for or revealed, in Unix seconds.
    pub(super) seen: u32,
    /// The `seen` that the journal has.
    pub(super) written: u32,
    pub(super) prev: u32,
    pub(super) next: u32,
    /// Kept so that growing the index does not read every id again.
    pub(super) hash: u32,
    pub(super) generation: Generation,
    pub(super) state: Option<TaskState>,
    pub(super) shared: Shared,
    /// How often it was given to another owner; 0 as it was learned. The journal does not have it: nobody else who may know
    /// another owner reads that. A byte, which takes no memory here; after 255 who comes first owns it.
    pub(super) transfers: u8,
}

const _: () = assert!(size_of::<Option<Entry>>() == 88, "a byte more would take eight");

/// What the store that gateways share has of an entry; `Settled` without such a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    Settled,
    /// It was never told, and an answer waits for that: the owner may be another one.
    New,
    /// The same, and no answer waits.
    Left,
    /// It has the owner, and perhaps not the rest.
    Changed,
}

impl Shared {
    pub(super) fn is_untold(self) -> bool {
        matches!(self, Self::New | Self::Left)
    }
}

impl Entry {
    pub(super) fn put(&self, kind: Kind) -> Put<'_> {
        Put {
            kind,
            agent: &self.agent,
            id: &self.id,
            endpoint: &self.endpoint,
            principal: &self.principal,
            generation: self.generation,
            state: self.state,
            seen: self.seen,
        }
    }

    pub(super) fn owner(&self) -> Owner {
        Owner {
            endpoint: Arc::clone(&self.endpoint),
            principal: Arc::clone(&self.principal),
            state: self.state,
            generation: self.generation,
        }
    }

    pub(super) fn shared_agent(&self) -> Arc<str> {
        Arc::clone(&self.agent)
    }

    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn principal(&self) -> &str {
        &self.principal
    }

    pub(super) fn shared(&self) -> Shared {
        self.shared
    }

    pub(super) fn transfers(&self) -> u8 {
        self.transfers
    }

    pub(super) fn written(&self) -> u32 {
        self.written
    }

    /// The state to keep beside the owner that the shared store holds: ours where it is news there, and an end that was seen
    /// here.
    pub(super) fn news(&self, held: &Held<'_>) -> Option<TaskState> {
        let ended = self.state.is_some_and(TaskState::is_terminal);
        let told = self.shared == Shared::Settled;
        let same = *self.endpoint == *held.endpoint && *self.principal == *held.principal;
        if !same || (told && !ended) || held.state.is_some_and(TaskState::is_terminal) {
            return held.state;
        }
        next_state(held.state, self.state).or(held.state)
    }

    pub(super) fn queue(&self) -> Queue {
        if self.state.is_some_and(TaskState::is_terminal) {
            Queue::Finished
        } else {
            Queue::Live
        }
    }

    pub(super) fn encoded(&self) -> u64 {
        record::put_size(&self.agent, &self.id, &self.endpoint, &self.principal)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Finished,
    Live,
}

/// The state to take over, if what was revealed says more. An end is final: a late or repeated answer undoes nothing.
pub(super) fn next_state(known: Option<TaskState>, revealed: Option<TaskState>) -> Option<TaskState> {
    let revealed = revealed?;
    match known {
        Some(known) if known.is_terminal() || known == revealed => None,
        Some(_) | None => Some(revealed),
    }
}
