//! Where records outlive the process: nowhere, or in the journal of this gateway.
//!
//! The tables hold every record in either case and answer every question; a store hears of each change. A store that
//! several gateways share is one more variant here: it hears the same changes, and is asked when a table knows nothing.

use super::journal::Journal;
use super::journal::record::{Kind, Put};

pub(super) enum Store {
    Memory,
    Embedded(Box<Journal>),
}

impl Store {
    /// Writes down what was learned; on return it survives the end of the process.
    ///
    /// Called under the locks of the shards that hold the records, so that changes of a key are written in their order.
    pub(super) fn write(&self, puts: [Option<Put<'_>>; 2]) {
        match self {
            Self::Memory => {}
            Self::Embedded(journal) => journal.write(puts),
        }
    }

    /// Notes that a record is gone; reaches the store with the next write. A record that comes back after a crash because
    /// its removal was not written is still a true one.
    pub(super) fn forget(&self, kind: Kind, agent: &str, id: &str) {
        match self {
            Self::Memory => {}
            Self::Embedded(journal) => journal.forget(kind, agent, id),
        }
    }

    pub(super) fn journal(&self) -> Option<&Journal> {
        match self {
            Self::Memory => None,
            Self::Embedded(journal) => Some(journal),
        }
    }
}
