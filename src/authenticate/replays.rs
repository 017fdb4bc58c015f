//! Proofs of possession that were taken, so that none is taken twice (RFC 9449 §11.1).
//!
//! One table for all schemes, which outlives reloads: a proof that one scheme took is no other's. Only proofs of good tokens
//! come here. Each is kept for as long as it could be shown again, by the longest time that any scheme has had; where there is no
//! room it is refused, because one that is forgotten could be taken twice, and one key gets a part of the room alone. Nothing is
//! taken that is as old as what was forgotten: a reload may give proofs more time than they had. The table is of this process: another gateway,
//! or this one after a restart, knows nothing of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ahash::RandomState;
use http::request;
use tokio::time::Instant;

use super::Invalid;
use super::token::{PROOF_FIELD, Refusal};

/// Proofs that are remembered, some 100 bytes each. By default one is kept for two minutes, so that this is enough for 8,000 calls a
/// second.
const MAX_PROOFS: usize = 1_000_000;
/// One key gets a quarter, so that nobody alone takes all the room.
const PART_OF_ONE: usize = 4;
/// The log tells that there is no room at most this often.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// A proof that is good but for being shown before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// The thumbprint of its key (RFC 7638).
    pub key: [u8; 32],
    /// Of its key and its `jti`.
    pub id: [u8; 32],
    /// When it was made, as it says.
    pub made: u64,
    /// The last second in which it is good.
    pub until: u64,
}

pub(super) struct Replays {
    most: usize,
    /// How many seconds proofs have at most.
    longest: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    seen: HashSet<[u8; 32], RandomState>,
    /// By the last second in which they are good.
    ends: BTreeMap<u64, Vec<Ends>>,
    of_key: HashMap<[u8; 32], usize, RandomState>,
    /// When the latest was made of those that are forgotten.
    forgotten: u64,
    told: Option<Instant>,
}

struct Ends {
    id: [u8; 32],
    key: [u8; 32],
    made: u64,
}

/// Stands with a request that shows a proof: the proof that was taken for it. Several schemes, and what a skill demands, may
/// ask for the same one.
#[derive(Clone, Default)]
struct Taken(Arc<OnceLock<[u8; 32]>>);

/// Lets what a request shows be asked for by several; nothing happens to requests without a proof.
pub fn prepare(parts: &mut request::Parts) {
    if parts.headers.contains_key(PROOF_FIELD) {
        parts.extensions.insert(Taken::default());
    }
}

impl Default for Replays {
    fn default() -> Self {
        Self::of(MAX_PROOFS)
    }
}

impl Replays {
    pub(super) fn of(most: usize) -> Self {
        Self {
            most,
            longest: AtomicU64::new(0),
            table: Mutex::default(),
        }
    }

    /// Some scheme takes proofs for so many seconds after they were made.
    pub(super) fn keep_for(&self, seconds: u64) {
        self.longest.fetch_max(seconds, Ordering::Relaxed);
    }

    /// `now` in seconds since 1970.
    pub(super) fn take(&self, parts: &request::Parts, proof: &Proof, now: u64) -> Result<(), Refusal> {
        let taken = parts.extensions.get::<Taken>();
        if taken.is_some_and(|taken| taken.0.get() == Some(&proof.id)) {
            return Ok(());
        }
        self.insert(proof, now)?;
        if let Some(taken) = taken {
            // A request has one proof.
            let _known = taken.0.set(proof.id);
        }
        Ok(())
    }

    pub(super) fn insert(&self, proof: &Proof, now: u64) -> Result<(), Refusal> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.forget(now);
        if table.seen.contains(&proof.id) || proof.made <= table.forgotten {
            return Err(Refusal::Because(Invalid::ReplayedProof));
        }
        let of_key = table.of_key.get(&proof.key).copied().unwrap_or_default();
        if table.seen.len() >= self.most || of_key >= (self.most / PART_OF_ONE).max(1) {
            if table.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
                table.told = Some(Instant::now());
                tracing::warn!(
                    proofs = table.seen.len(),
                    of_key,
                    "a DPoP proof is refused because too many are remembered; lower dpop_lifetime or limit the rate of callers"
                );
            }
            return Err(Refusal::Full);
        }
        table.seen.insert(proof.id);
        *table.of_key.entry(proof.key).or_default() += 1;
        let ends = Ends {
            id: proof.id,
            key: proof.key,
            made: proof.made,
        };
        let longest = self.longest.load(Ordering::Relaxed);
        let until = proof.until.max(proof.made.saturating_add(longest));
        table.ends.entry(until).or_default().push(ends);
        Ok(())
    }
}

impl Table {
    /// Those that could not be shown again: each is looked at once.
    fn forget(&mut self, now: u64) {
        while let Some(first) = self.ends.first_entry()
            && *first.key() < now
        {
            for Ends { id, key, made } in first.remove() {
                self.forgotten = self.forgotten.max(made);
                self.seen.remove(&id);
                if let Some(count) = self.of_key.get_mut(&key) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        self.of_key.remove(&key);
                    }
                }
            }
        }
    }
}
