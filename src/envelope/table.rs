//! What is remembered of callers for a while: bounded in number and time, and no caller pushes out what others have.
//!
//! At capacity what is over goes first; then a caller who holds more than a tenth makes room among its own, else the entry
//! longest unseen goes. What somebody still holds is not over, however long it takes. Time is passed in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    /// Since when each is over if nobody holds it, with its place.
    due: BTreeSet<(Instant, u64)>,
    next: u64,
    owners: HashMap<Arc<str>, usize, RandomState>,
}

struct Entry<V> {
    /// Tells it from another one of the same key, earlier or later.
    value: Arc<V>,
    owner: Arc<str>,
    /// In the order; 0 before it has one.
    place: u64,
    /// How long it stays while nobody asks for it, and until when.
    stays: Duration,
    due: Instant,
}

impl<K: Clone + Eq + Hash, V> Table<K, V> {
    pub fn new(most: usize, held: IntGauge, evicted: IntCounter) -> Self {
        Self {
            inner: Mutex::new(Inner {
                most,
                entries: HashMap::default(),
                order: BTreeMap::new(),
                due: BTreeSet::new(),
                next: 1,
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

    /// Puts an entry in, unless there is one of this key.
    pub fn insert(&self, key: K, owner: &Arc<str>, value: V, stays: Duration, now: Instant) -> Option<Arc<V>> {
        let mut inner = self.lock();
        inner.expire(now);
        if inner.get(&key, now).is_some() {
            return None;
        }
        while inner.entries.len() >= inner.most.max(1) {
            inner.make_room(owner);
            self.evicted.inc();
        }
        *inner.owners.entry(owner.clone()).or_default() += 1;
        let value = Arc::new(value);
        let entry = Entry {
            value: value.clone(),
            owner: owner.clone(),
            place: 0,
            stays,
            due: now,
        };
        inner.entries.insert(key.clone(), entry);
        inner.see(&key, now);
        self.count(&inner);
        Some(value)
    }

    /// What is there. It does not stay longer for that, but is not over either before it is dropped.
    pub fn look(&self, key: &K, now: Instant) -> Option<Arc<V>> {
        self.lock().get(key, now).map(|entry| entry.value.clone())
    }

    /// This very entry stays longer, if it is still there.
    pub fn touch(&self, key: &K, value: &Arc<V>, now: Instant) {
        let mut inner = self.lock();
        if inner.is(key, value) {
            inner.see(key, now);
        }
    }

    /// Takes this very entry out, if it is still there.
    pub fn remove(&self, key: &K, value: &Arc<V>) {
        let mut inner = self.lock();
        if inner.is(key, value) {
            inner.take(key);
        }
        self.count(&inner);
    }

    fn count(&self, inner: &Inner<K, V>) {
        self.held.set(i64::try_from(inner.entries.len()).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, V> Inner<K, V> {
    fn get(&mut self, key: &K, now: Instant) -> Option<&Entry<V>> {
        let gone = self.entries.get(key)?.is_over(now);
        if gone {
            self.take(key);
        }
        self.entries.get(key)
    }

    fn is(&self, key: &K, value: &Arc<V>) -> bool {
        self.entries
            .get(key)
            .is_some_and(|entry| Arc::ptr_eq(&entry.value, value))
    }

    /// Puts an entry last in order.
    fn see(&mut self, key: &K, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        self.order.remove(&entry.place);
        self.due.remove(&(entry.due, entry.place));
        entry.place = self.next;
        entry.due = now.checked_add(entry.stays).unwrap_or(entry.due);
        self.next += 1;
        self.order.insert(entry.place, key.clone());
        self.due.insert((entry.due, entry.place));
    }

    fn take(&mut self, key: &K) {
        let Some(entry) = self.entries.remove(key) else {
            return;
        };
        self.order.remove(&entry.place);
        self.due.remove(&(entry.due, entry.place));
        if let Some(count) = self.owners.get_mut(&entry.owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&entry.owner);
            }
        }
    }

    /// What is over goes; what is held then counts as seen.
    fn expire(&mut self, now: Instant) {
        let due: Vec<_> = self.due.range(..=(now, u64::MAX)).map(|(_, place)| *place).collect();
        for key in due
            .iter()
            .filter_map(|place| self.order.get(place).cloned())
            .collect::<Vec<_>>()
        {
            if self.get(&key, now).is_some() {
                self.see(&key, now);
            }
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
        self.due <= now && Arc::strong_count(&self.value) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAYS: Duration = Duration::from_secs(10);
    const BRIEF: Duration = Duration::from_secs(1);

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
                .is_some()
        }

        fn put_briefly(&self, owner: &str, key: &str, seconds: u64) -> Arc<u32> {
            let at = self.at(seconds);
            let put = self.table.insert(key.to_owned(), &Arc::from(owner), 0, BRIEF, at);
            put.expect("there is none")
        }

        fn held(&self, key: &str, seconds: u64) -> Arc<u32> {
            let found = self.table.look(&key.to_owned(), self.at(seconds));
            found.expect("it is there")
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
        known.table.remove(&"a".to_owned(), &known.held("a", 10));
        assert!(known.put("ann", "a", 10));
        assert_eq!(known.table.held.get(), 1);
    }

    #[test]
    fn what_is_used_stays() {
        let known = fixture(10);
        known.put("ann", "a", 0);
        let key = "a".to_owned();
        known.table.touch(&key, &known.held("a", 9), known.at(9));
        assert!(known.has("a", 18));
        assert!(!known.has("a", 19));
    }

    #[test]
    fn what_is_held_is_not_over_before_it_is_dropped() {
        let known = fixture(2);
        let key = "a".to_owned();
        let held = known.put_briefly("ann", "a", 0);
        known.put("bob", "b", 5);
        assert!(known.has("a", 6), "whoever looks");
        known.put("carl", "c", 6);
        assert!(
            known.has("a", 6) && !known.has("b", 6),
            "whoever comes: it was used last"
        );
        known.table.touch(&key, &held, known.at(100));
        drop(held);
        assert!(known.has("a", 100), "dropped, it stays its time");
        assert!(!known.has("a", 101));
    }

    #[test]
    fn another_one_of_the_same_key_is_left_alone() {
        let known = fixture(2);
        let key = "a".to_owned();
        let old = known.put_briefly("ann", "a", 0);
        known.table.remove(&key, &old);
        known.put("bob", "a", 0);
        known.table.remove(&key, &old);
        known.table.touch(&key, &old, known.at(9));
        assert!(known.has("a", 9), "it is not the one that was removed");
        assert!(!known.has("a", 10), "nor the one that was touched");
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
        known.table.touch(&"a".to_owned(), &known.held("a", 3), known.at(3));
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

    #[test]
    fn what_is_over_makes_room_behind_what_is_not_too() {
        let known = fixture(3);
        known.put("ann", "a", 0);
        drop(known.put_briefly("bob", "b", 1));
        drop(known.put_briefly("bob", "c", 1));
        assert!(known.put("carl", "d", 3));
        assert!(known.has("a", 3), "older, but not over");
        assert_eq!((known.table.held.get(), known.table.evicted.get()), (2, 0));
    }
}
