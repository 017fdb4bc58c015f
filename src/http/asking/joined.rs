//! One question for all that ask the same at once: a future that each of them polls, which ends when the last has left.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use futures_util::future::{FutureExt, Shared, WeakShared};

type Question<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The questions under way, by a digest of all that they ask.
pub struct Joined<T> {
    under_way: Mutex<HashMap<[u8; 32], UnderWay<T>, RandomState>>,
    next_entry: AtomicU64,
}

struct UnderWay<T> {
    entry: u64,
    question: WeakShared<Question<T>>,
}

/// Takes the question out of those under way, if it still is that one.
struct Entry<T> {
    joined: Arc<Joined<T>>,
    digest: [u8; 32],
    entry: u64,
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let mut under_way = self.joined.under_way();
        if under_way
            .get(&self.digest)
            .is_some_and(|known| known.entry == self.entry)
        {
            under_way.remove(&self.digest);
        }
    }
}

impl<T> Joined<T> {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            under_way: Mutex::default(),
            next_entry: AtomicU64::new(0),
        })
    }

    /// Never held across an await, nor while a question is dropped.
    fn under_way(&self) -> MutexGuard<'_, HashMap<[u8; 32], UnderWay<T>, RandomState>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Send + Sync + 'static> Joined<T> {
    /// The question under way about the same, or a new one; what is `known` meanwhile, or why nothing can be asked, is the error.
    pub fn join<F>(
        self: &Arc<Self>,
        digest: [u8; 32],
        known: impl FnOnce() -> Option<T>,
        question: impl FnOnce() -> Result<F, T>,
    ) -> Result<Shared<Question<T>>, T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut under_way = self.under_way();
        // One that nobody waits for any more is about to go.
        if let Some(shared) = under_way.get(&digest).and_then(|known| known.question.upgrade()) {
            return Ok(shared);
        }
        // It may have been answered between the first look and the lock.
        if let Some(known) = known() {
            return Err(known);
        }
        let asked = question()?;
        let entry = self.next_entry.fetch_add(1, Ordering::Relaxed);
        let on_end = Entry {
            joined: Arc::clone(self),
            digest,
            entry,
        };
        let shared = async move {
            let _on_end = on_end;
            asked.await
        };
        let shared = (Box::pin(shared) as Question<T>).shared();
        if let Some(question) = shared.downgrade() {
            under_way.insert(digest, UnderWay { entry, question });
        }
        Ok(shared)
    }
}
