//! Rates per key, with a bound on the keys.
//!
//! A key that used nothing of its budget lately is the same as one never seen, so such keys are dropped on a timer, and at
//! the bound at most once a second. If the bound still holds, keys that are not known share buckets: strangers one, and
//! every known principal one of a few hundred that are picked by its id. So a flood of addresses throttles strangers
//! together, those with an entry of their own keep it, and in a rule per principal no caller is put behind the flood.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ahash::RandomState;
use dashmap::{DashMap, Entry};
use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::state::{InMemoryState, NotKeyed, StateStore};
use governor::{Quota, RateLimiter};

use super::Key;
use crate::authenticate::ANONYMOUS;

/// At the bound a sweep walks the whole map, about 1 ms for 100,000 keys; this keeps a flood from doing it per request.
const SWEEP_GAP: Duration = Duration::from_secs(1);
/// Shared by the principals that come first while the map is full; 8 bytes each.
const OVERFLOW_BUCKETS: usize = 256;

pub(super) struct Buckets<C: Clock> {
    limiter: RateLimiter<Lookup, Handle, C, NoOpMiddleware<C::Instant>>,
    /// The same, but that nothing is taken.
    onlooker: RateLimiter<Lookup, Onlooker, C, NoOpMiddleware<C::Instant>>,
    store: Arc<Store>,
    swept: Mutex<C::Instant>,
}

/// A key, and the bucket that it shares if there is no room for it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Lookup {
    key: Key,
    overflow: Option<usize>,
}

struct Store {
    max_keys: usize,
    states: DashMap<Key, InMemoryState, RandomState>,
    /// Of `states`, whose own count asks every shard. Off by the few calls that race a sweep, until the next one.
    count: AtomicUsize,
    strangers: InMemoryState,
    principals: Box<[InMemoryState]>,
    hasher: RandomState,
}

impl<C: Clock> Buckets<C> {
    pub(super) fn new(count: u32, period: Duration, burst: u32, max_keys: usize, clock: &C) -> Self
    where
        C: Clone,
    {
        // The configuration refuses zeros; one is the nearest rate that exists.
        let each = (period / count.max(1)).max(Duration::from_nanos(1));
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(each)
            .unwrap_or(Quota::per_second(NonZeroU32::MIN))
            .allow_burst(burst);
        let store = Arc::new(Store {
            max_keys,
            states: DashMap::with_hasher(RandomState::new()),
            count: AtomicUsize::new(0),
            strangers: InMemoryState::default(),
            principals: (0..OVERFLOW_BUCKETS).map(|_| InMemoryState::default()).collect(),
            hasher: RandomState::new(),
        });
        Self {
            limiter: RateLimiter::new(quota, Handle(Arc::clone(&store)), clock.clone()),
            onlooker: RateLimiter::new(quota, Onlooker(Arc::clone(&store)), clock.clone()),
            store,
            swept: Mutex::new(clock.now()),
        }
    }

    /// Takes one call out of the key's budget, or says how long until there is one.
    pub(super) fn take(&self, key: Key, principal: &str) -> Result<(), Duration> {
        if self.store.is_full() && !self.store.states.contains_key(&key) {
            self.sweep_if_due();
        }
        let overflow = self.store.overflow(principal);
        self.limiter
            .check_key(&Lookup { key, overflow })
            .map_err(|until| until.wait_time_from(self.limiter.clock().now()))
    }

    /// The same, and nothing is taken.
    pub(super) fn look(&self, key: Key, principal: &str) -> Result<(), Duration> {
        let overflow = self.store.overflow(principal);
        self.onlooker
            .check_key(&Lookup { key, overflow })
            .map_err(|until| until.wait_time_from(self.onlooker.clock().now()))
    }

    pub(super) fn sweep(&self) {
        self.limiter.retain_recent();
    }

    fn sweep_if_due(&self) {
        let now = self.limiter.clock().now();
        // Whoever does not get the lock finds somebody sweeping.
        let Ok(mut swept) = self.swept.try_lock() else {
            return;
        };
        if Duration::from(now.duration_since(*swept)) >= SWEEP_GAP {
            *swept = now;
            self.sweep();
        }
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.store.states.len()
    }
}

impl Store {
    fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.max_keys
    }

    fn overflow(&self, principal: &str) -> Option<usize> {
        if principal == ANONYMOUS {
            return None;
        }
        let buckets = self.principals.len() as u64;
        usize::try_from(self.hasher.hash_one(principal) % buckets.max(1)).ok()
    }

    fn shared(&self, overflow: Option<usize>) -> &InMemoryState {
        overflow
            .and_then(|index| self.principals.get(index))
            .unwrap_or(&self.strangers)
    }
}

/// The store as the limiter owns it.
struct Handle(Arc<Store>);

impl StateStore for Handle {
    type Key = Lookup;

    fn measure_and_replace<T, F, E>(&self, lookup: &Lookup, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let store = &*self.0;
        if let Some(state) = store.states.get(&lookup.key) {
            return state.measure_and_replace(&NotKeyed::NonKey, f);
        }
        if store.is_full() {
            return store.shared(lookup.overflow).measure_and_replace(&NotKeyed::NonKey, f);
        }
        let state = match store.states.entry(lookup.key.clone()) {
            Entry::Occupied(entry) => entry.into_ref(),
            Entry::Vacant(entry) => {
                store.count.fetch_add(1, Ordering::Relaxed);
                entry.insert(InMemoryState::default())
            }
        };
        state.measure_and_replace(&NotKeyed::NonKey, f)
    }
}

/// The store as it is looked at.
struct Onlooker(Arc<Store>);

impl StateStore for Onlooker {
    type Key = Lookup;

    fn measure_and_replace<T, F, E>(&self, lookup: &Lookup, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let store = &*self.0;
        let known = Cell::new(None);
        let look = |state: &InMemoryState| {
            let _unchanged = state.measure_and_replace(&NotKeyed::NonKey, |at| {
                known.set(at);
                Err::<((), Nanos), ()>(())
            });
        };
        match store.states.get(&lookup.key) {
            Some(state) => look(&state),
            None if store.is_full() => look(store.shared(lookup.overflow)),
            None => {}
        }
        f(known.get()).map(|(told, _)| told)
    }
}

impl ShrinkableKeyedStateStore<Lookup> for Handle {
    fn retain_recent(&self, drop_below: Nanos) {
        let store = &*self.0;
        ShrinkableKeyedStateStore::retain_recent(&store.states, drop_below);
        store.count.store(store.states.len(), Ordering::Relaxed);
    }

    fn len(&self) -> usize {
        self.0.states.len()
    }

    fn is_empty(&self) -> bool {
        self.0.states.is_empty()
    }
}
