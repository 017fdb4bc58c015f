//! Budgets of bytes, per key, with a bound on the keys.
//!
//! How many bytes a call moves is known only when it has moved them. So a call is admitted while anything is left, and charged as its
//! bytes pass, beyond the budget too: what it took too much is owed, and comes back at the pace of the budget before anybody
//! is admitted again. A key that owes nothing is the same as one never seen, and goes as in `rate`; where there is no room, those that
//! are not known share debts in the same way: strangers one, principals some hundred.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::bytes::Bytes;
use ahash::RandomState;
use dashmap::{DashMap, Entry};
use governor::clock::{Clock, Reference};
use http_body::{Body, Frame, SizeHint};

use super::ledger::Account;
use super::{Key, Slot};
use crate::config::Direction;

/// As for rates: a sweep walks the whole map.
const SWEEP_GAP: Duration = Duration::from_secs(1);
/// As for rates: shared by the principals that come first while the map is full.
const OVERFLOW: usize = 256;

pub(super) struct Budgets<C: Clock> {
    bytes: u64,
    period: Duration,
    max_keys: usize,
    clock: C,
    debts: DashMap<Key, Debt<C>, RandomState>,
    /// Of `debts`, whose own count asks every shard. Off by the few calls that race a sweep, until the next one.
    count: AtomicUsize,
    strangers: Mutex<Debt<C>>,
    principals: Box<[Mutex<Debt<C>>]>,
    hasher: RandomState,
    swept: Mutex<C::Instant>,
}

/// What was moved and has not come back.
struct Debt<C: Clock> {
    /// In bytes times nanoseconds of the period, so that no part of a byte is lost however often it is counted.
    owed: u128,
    at: C::Instant,
}

/// One request's account at one budget.
pub(super) struct Meter {
    charge: Arc<dyn Charge>,
    key: Key,
    /// Over all gateways.
    everywhere: Option<Account>,
}

trait Charge: Send + Sync {
    fn charge(&self, key: &Key, bytes: u64);
}

impl<C: Clock> Budgets<C> {
    pub(super) fn new(bytes: u64, period: Duration, max_keys: usize, clock: &C) -> Self
    where
        C: Clone,
    {
        let now = clock.now();
        let debt = || Mutex::new(Debt { owed: 0, at: now });
        Self {
            // The configuration refuses zeros.
            bytes: bytes.max(1),
            period: period.max(Duration::from_nanos(1)),
            max_keys,
            clock: clock.clone(),
            debts: DashMap::with_hasher(RandomState::new()),
            count: AtomicUsize::new(0),
            strangers: debt(),
            principals: (0..OVERFLOW).map(|_| debt()).collect(),
            hasher: RandomState::new(),
            swept: Mutex::new(now),
        }
    }

    /// Whether anything is left, or how long until there is.
    pub(super) fn ask(&self, key: &Key) -> Result<(), Duration> {
        let now = self.clock.now();
        let owed = match self.debts.get_mut(key) {
            Some(mut debt) => self.owed(&mut debt, now),
            None if self.is_full() => self.with_shared(key, |debt| self.owed(debt, now)),
            None => 0,
        };
        let most = u128::from(self.bytes) * self.period.as_nanos();
        if owed < most {
            return Ok(());
        }
        let nanos = (owed - most) / u128::from(self.bytes) + 1;
        Err(u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos))
    }

    fn charge(&self, key: &Key, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.is_full() && !self.debts.contains_key(key) {
            self.sweep_if_due();
        }
        let now = self.clock.now();
        let more = u128::from(bytes).saturating_mul(self.period.as_nanos());
        let add = |debt: &mut Debt<C>| debt.owed = self.owed(debt, now).saturating_add(more);
        if let Some(mut debt) = self.debts.get_mut(key) {
            return add(&mut debt);
        }
        if self.is_full() {
            return self.with_shared(key, add);
        }
        let mut debt = match self.debts.entry(key.clone()) {
            Entry::Occupied(entry) => entry.into_ref(),
            Entry::Vacant(entry) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                entry.insert(Debt { owed: 0, at: now })
            }
        };
        add(&mut debt);
    }

    /// Brings a debt up to date.
    fn owed(&self, debt: &mut Debt<C>, now: C::Instant) -> u128 {
        let passed = Duration::from(now.duration_since(debt.at)).as_nanos();
        debt.owed = debt.owed.saturating_sub(passed.saturating_mul(u128::from(self.bytes)));
        debt.at = now;
        debt.owed
    }

    fn with_shared<T>(&self, key: &Key, of: impl FnOnce(&mut Debt<C>) -> T) -> T {
        let own = match key {
            Key::Principal(principal) => {
                let index = self.hasher.hash_one(principal) % OVERFLOW as u64;
                usize::try_from(index).ok().and_then(|index| self.principals.get(index))
            }
            Key::Address(_) | Key::Agent => None,
        };
        let debt = own.unwrap_or(&self.strangers);
        of(&mut debt.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.max_keys
    }

    pub(super) fn sweep(&self) {
        let now = self.clock.now();
        self.debts.retain(|_, debt| self.owed(debt, now) > 0);
        self.count.store(self.debts.len(), Ordering::Relaxed);
    }

    fn sweep_if_due(&self) {
        let now = self.clock.now();
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
        self.debts.len()
    }
}

impl<C> Charge for Budgets<C>
where
    C: Clock + Send + Sync,
    C::Instant: Send + Sync,
{
    fn charge(&self, key: &Key, bytes: u64) {
        Self::charge(self, key, bytes);
    }
}

/// A request's body whose bytes are charged as they are read.
pub struct Metered<'a, B> {
    pub body: B,
    pub slot: &'a Slot,
}

impl<B> Body for Metered<'_, B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.slot.charge(Direction::In, data.len());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Meter {
    pub(super) fn of<C>(budgets: &Arc<Budgets<C>>, key: Key, everywhere: Option<Account>) -> Self
    where
        C: Clock + Send + Sync + 'static,
        C::Instant: Send + Sync,
    {
        Self {
            charge: Arc::<Budgets<C>>::clone(budgets),
            key,
            everywhere,
        }
    }

    pub(super) fn charge(&self, bytes: u64) {
        self.charge.charge(&self.key, bytes);
        if let Some(account) = self.everywhere.as_ref().filter(|_| bytes > 0) {
            account.charge(bytes);
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.key).finish()
    }
}
