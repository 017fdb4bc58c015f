//! What is remembered of callers for a while: bounded in number and time, and no caller pushes out what others have.
//!
//! At capacity what nobody asks for any more goes first; then a caller who holds more than a tenth makes room among its own,
//! else the entry longest unseen goes. Time is passed in.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ahash::RandomState;
use prometheus::{IntCounter, IntGauge};

/// One caller may hold this part of a table before it makes room among its own.
const SHARE: usize = 10;

pub struct Table<K, V> {
    inner: Mutex<Inner<K, V>>,
    held: IntGauge,
    evicted: IntCounter,
}

struct Inner<K, V> {
    most: usize,
    entries: HashMap<K, Entry<V>, RandomState>,
    /// From the one longest unseen.
    order: BTreeMap<u64, K>,
    next: u64,
    owners: HashMap<Arc<str>, usize, RandomState>,
}

struct Entry<V> {
    value: V,
    owner: Arc<str>,
    place: u64,
    /// Since when nobody asked for it, and how long it stays then.
    seen: Instant,
    stays: Duration,
}

impl<K: Clone + Eq + Hash, V: Clone> Table<K, V> {
    pub fn new(most: usize, held: IntGauge, evicted: IntCounter) -> Self {
        Self {
            inner: Mutex::new(Inner {
                most,
                entries: HashMap::default(),
                order: BTreeMap::new(),
                next: 0,
                owners: HashMap::default(),
            }),
            held,
            evicted,
        }
    }

    /// From the next entry on.
    pub fn set_most(&self, most: usize) {
        self.lock().most = most;
    }

    /// Puts an entry in, unless there is one of this key: gives whether it did.
    pub fn insert(&self, key: K, owner: &Arc<str>, value: V, stays: Duration, now: Instant) -> bool {
        let mut inner = self.lock();
        inner.expire(now);
        if inner.get(&key, now).is_some() {
            return false;
        }
        while inner.entries.len() >= inner.most.max(1) {
            inner.make_room(owner);
            self.evicted.inc();
        }
        let place = inner.next;
        inner.next += 1;
        inner.order.insert(place, key.clone());
        *inner.owners.entry(owner.clone()).or_default() += 1;
        let entry = Entry {
            value,
            owner: owner.clone(),
            place,
            seen: now,
            stays,
        };
        inner.entries.insert(key, entry);
        self.count(&inner);
        true
    }

    /// What is there, without holding it longer.
    pub fn look(&self, key: &K, now: Instant) -> Option<V> {
        let found = self.lock().get(key, now).cloned();
        found.map(|entry| entry.value)
    }

    /// What is there, which stays longer for that. `change` may write to it.
    pub fn touch<T>(&self, key: &K, now: Instant, change: impl FnOnce(&mut V) -> T) -> Option<T> {
        let mut inner = self.lock();
        inner.get(key, now)?;
        let place = inner.next;
        inner.next += 1;
        let entry = inner.entries.get_mut(key)?;
        let before = std::mem::replace(&mut entry.place, place);
        entry.seen = now;
        let changed = change(&mut entry.value);
        inner.order.remove(&before);
        inner.order.insert(place, key.clone());
        Some(changed)
    }

    pub fn remove(&self, key: &K) {
        let mut inner = self.lock();
        inner.take(key);
        self.count(&inner);
    }

    fn count(&self, inner: &Inner<K, V>) {
        self.held.set(i64::try_from(inner.entries.len()).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Inner<K, V> {
    fn get(&mut self, key: &K, now: Instant) -> Option<&Entry<V>> {
        let gone = self.entries.get(key)?.is_over(now);
        if gone {
            self.take(key);
        }
        self.entries.get(key)
    }

    fn take(&mut self, key: &K) {
        let Some(entry) = self.entries.remove(key) else {
            return;
        };
        self.order.remove(&entry.place);
        if let Some(count) = self.owners.get_mut(&entry.owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&entry.owner);
            }
        }
    }

    /// Those at the old end whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some((_, key)) = self.order.first_key_value()
            && self.entries.get(key).is_none_or(|entry| entry.is_over(now))
        {
            let key = key.clone();
            self.take(&key);
        }
    }

    fn make_room(&mut self, owner: &Arc<str>) {
        let own = self.owners.get(owner).copied().unwrap_or_default();
        let much = own > 0 && own >= (self.most / SHARE).max(1);
        let is_own = |key: &K| self.entries.get(key).is_some_and(|entry| entry.owner == *owner);
        let oldest = self.order.values().find(|key| !much || is_own(key)).cloned();
        if let Some(key) = oldest {
            self.take(&key);
        }
    }
}

impl<V> Entry<V> {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.seen) >= self.stays
    }
}

impl<V: Clone> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            owner: self.owner.clone(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAYS: Duration = Duration::from_secs(10);

    struct Fixture {
        table: Table<String, u32>,
        start: Instant,
    }

    fn fixture(most: usize) -> Fixture {
        Fixture {
            table: Table::new(
                most,
                IntGauge::new("held", "h").unwrap(),
                IntCounter::new("evicted", "e").unwrap(),
            ),
            start: Instant::now(),
        }
    }

    impl Fixture {
        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn put(&self, owner: &str, key: &str, seconds: u64) -> bool {
            self.table
                .insert(key.to_owned(), &Arc::from(owner), 0, STAYS, self.at(seconds))
        }

        fn has(&self, key: &str, seconds: u64) -> bool {
            self.table.look(&key.to_owned(), self.at(seconds)).is_some()
        }
    }

    #[test]
    fn a_key_is_there_once_until_its_time_is_over() {
        let known = fixture(10);
        assert!(known.put("ann", "a", 0));
        assert!(!known.put("ann", "a", 9), "it is there");
        assert!(!known.put("bob", "a", 9), "whoever asks");
        assert!(known.put("ann", "a", 10), "looking did not hold it longer");
        known.table.remove(&"a".to_owned());
        assert!(known.put("ann", "a", 10));
        assert_eq!(known.table.held.get(), 1);
    }

    #[test]
    fn what_is_used_stays() {
        let known = fixture(10);
        known.put("ann", "a", 0);
        let key = "a".to_owned();
        let used = known.table.touch(&key, known.at(9), |value| {
            *value += 1;
            *value
        });
        assert_eq!(used, Some(1));
        assert!(known.has("a", 18));
        assert!(!known.has("a", 19));
        assert_eq!(known.table.touch(&key, known.at(19), |value| *value), None);
    }

    #[test]
    fn at_the_bound_the_longest_unseen_goes_and_past_it_nothing_more_is_held() {
        let known = fixture(3);
        for (key, at) in [("a", 0), ("b", 1), ("c", 2)] {
            known.put(key, key, at);
        }
        assert_eq!(
            (known.table.held.get(), known.table.evicted.get()),
            (3, 0),
            "at the bound"
        );
        known.table.touch(&"a".to_owned(), known.at(3), |_| ());
        known.put("d", "d", 4);
        assert_eq!(
            (known.table.held.get(), known.table.evicted.get()),
            (3, 1),
            "one past it"
        );
        let left = ["a", "b", "c", "d"].map(|key| known.has(key, 4));
        assert_eq!(left, [true, false, true, true]);
        known.table.set_most(1);
        known.put("e", "e", 5);
        assert_eq!(
            known.table.held.get(),
            1,
            "a smaller bound holds from the next entry on"
        );
    }

    #[test]
    fn whoever_holds_more_than_a_tenth_makes_room_among_its_own() {
        let known = fixture(20);
        known.put("ann", "kept", 0);
        for number in 0..19 {
            known.put("bob", &format!("b{number}"), 1);
        }
        for number in 19..60 {
            known.put("bob", &format!("b{number}"), 2);
        }
        assert!(known.has("kept", 3), "ann is older, but bob has the most");
        assert!(known.has("b59", 3) && !known.has("b40", 3));
        assert_eq!(known.table.held.get(), 20);
        known.put("carl", "c", 3);
        assert!(known.has("c", 3) && !known.has("kept", 3), "the longest unseen of all");
    }

    #[test]
    fn what_is_over_makes_room_before_anything_else() {
        let known = fixture(2);
        known.put("ann", "a", 0);
        known.put("bob", "b", 5);
        known.put("carl", "c", 12);
        assert!(known.has("b", 12) && known.has("c", 12));
        assert_eq!(known.table.evicted.get(), 0, "nobody lost anything");
    }
}
