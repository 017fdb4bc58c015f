//! Names that many records share: agents, endpoints, principals.
//!
//! A record holds the `Arc<str>` itself, so that reading it needs nothing from here; this set only finds the equal one
//! that exists already. Principals come and go, so a name that no record uses any more is dropped when the set has
//! doubled: it holds at most twice the names in use, and the work is constant per call on average.

use std::sync::{Arc, Mutex};

use ahash::RandomState;
use hashbrown::HashTable;

use super::lock;

/// Below this many names nothing is ever dropped.
const FLOOR: usize = 1024;

#[derive(Default)]
pub(super) struct Names {
    set: Mutex<Set>,
}

struct Set {
    names: HashTable<Arc<str>>,
    hasher: RandomState,
    /// Drop unused names at this size.
    threshold: usize,
}

impl Default for Set {
    fn default() -> Self {
        Self {
            names: HashTable::new(),
            hasher: RandomState::new(),
            threshold: FLOOR,
        }
    }
}

impl Names {
    /// The one copy of `name`; made by `make` if there is none yet.
    pub(super) fn share(&self, name: &str, make: impl FnOnce() -> Arc<str>) -> Arc<str> {
        let mut set = lock(&self.set);
        let hash = set.hasher.hash_one(name);
        if let Some(known) = set.names.find(hash, |known| **known == *name) {
            return Arc::clone(known);
        }
        if set.names.len() >= set.threshold {
            // Clones are made here, under this lock, or from a clone that exists: a count of one cannot grow meanwhile.
            set.names.retain(|known| Arc::strong_count(known) > 1);
            set.threshold = FLOOR.max(set.names.len().saturating_mul(2));
        }
        let new = make();
        let Set { names, hasher, .. } = &mut *set;
        names.insert_unique(hash, Arc::clone(&new), |known| hasher.hash_one(&**known));
        new
    }

    /// How many records have this name, or a few more.
    pub(super) fn uses(&self, name: &str) -> usize {
        let set = lock(&self.set);
        let hash = set.hasher.hash_one(name);
        let known = set.names.find(hash, |known| **known == *name);
        known.map_or(0, Arc::strong_count)
    }

    pub(super) fn bytes(&self) -> usize {
        let set = lock(&self.set);
        set.names.allocation_size()
            + set
                .names
                .iter()
                .map(|name| name.len() + 2 * size_of::<usize>())
                .sum::<usize>()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.set).names.len()
    }
}
