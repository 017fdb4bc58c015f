//! Places for calls under way, per key.
//!
//! Bounded by construction: a key stands in the map only while it holds a place, so there are never more keys than
//! requests.

use std::fmt;
use std::sync::Arc;

use ahash::RandomState;
use dashmap::DashMap;

use super::Key;

pub(super) struct Counters {
    limit: u32,
    taken: DashMap<Key, u32, RandomState>,
}

/// One place, given back on drop.
pub(super) struct Guard {
    counters: Arc<Counters>,
    key: Key,
}

impl Counters {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            taken: DashMap::with_hasher(RandomState::new()),
        }
    }

    pub(super) fn enter(self: &Arc<Self>, key: Key) -> Option<Guard> {
        if self.limit == 0 {
            return None;
        }
        {
            let mut taken = self.taken.entry(key.clone()).or_insert(0);
            if *taken >= self.limit {
                return None;
            }
            *taken += 1;
        }
        Some(Guard {
            counters: Arc::clone(self),
            key,
        })
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.taken.len()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.counters.taken.remove_if_mut(&self.key, |_, taken| {
            *taken = taken.saturating_sub(1);
            *taken == 0
        });
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.key).finish()
    }
}
