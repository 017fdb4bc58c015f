//! Where records outlive the process: nowhere, in the journal of this gateway, or in a store that several gateways share.
//!
//! The tables answer every question in each case, and a store hears of each change. The shared one does not hear it from
//! here: it is reached across an await, which no lock may cross. `shared` asks it when a table knows nothing, and tells it
//! what the shards have noted as unwritten.

use super::entry::{Entry, SEEN_WRITTEN_EVERY};
use super::journal::Journal;
use super::journal::record::{Kind, Put};
use super::shared::Sharing;

pub(super) enum Store {
    Memory,
    Embedded(Box<Journal>),
    Shared(Box<Sharing>),
}

impl Store {
    /// Takes what was learned, for the next `commit`.
    ///
    /// Called under the locks of the shards that hold the records, so that changes of a key are written in their order.
    pub(super) fn append(&self, puts: [Option<Put<'_>>; 2]) {
        match self {
            Self::Memory | Self::Shared(_) => {}
            Self::Embedded(journal) => journal.append(puts),
        }
    }

    /// On return, what was appended survives the end of the process. Nothing to do for a store that none waits for here.
    pub(super) fn commit(&self) {
        match self {
            Self::Memory | Self::Shared(_) => {}
            Self::Embedded(journal) => journal.commit(),
        }
    }

    /// Notes that a record is gone; reaches the store with the next commit. A record that comes back after a crash because
    /// its removal was not written is still a true one.
    pub(super) fn forget(&self, kind: Kind, entry: &Entry) {
        match self {
            Self::Memory => {}
            Self::Embedded(journal) => journal.forget(kind, entry.agent(), entry.id()),
            // Others may still need it; there it goes when nobody has seen it for long.
            Self::Shared(sharing) => sharing.dropped(entry),
        }
    }

    /// See `SEEN_WRITTEN_EVERY`.
    pub(super) fn stale_after(&self) -> u32 {
        match self {
            Self::Memory | Self::Embedded(_) => SEEN_WRITTEN_EVERY,
            Self::Shared(sharing) => sharing.stale_after(),
        }
    }

    pub(super) fn sharing(&self) -> Option<&Sharing> {
        match self {
            Self::Memory | Self::Embedded(_) => None,
            Self::Shared(sharing) => Some(sharing),
        }
    }

    pub(super) fn journal(&self) -> Option<&Journal> {
        match self {
            Self::Memory | Self::Shared(_) => None,
            Self::Embedded(journal) => Some(journal),
        }
    }
}
