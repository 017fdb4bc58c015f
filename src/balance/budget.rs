//! How often calls of an agent may be tried again: a share of its calls, so that retries cannot multiply the load of an
//! agent that is in trouble, and a few a second all the same, so that an agent with few calls has retries too.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::lock;

/// What counts, in seconds.
const WINDOW: u64 = 10;
/// Retries a second that are free.
const FLOOR: u64 = 3;
/// One for each second of the window, and the one that runs.
const CELLS: usize = 11;

#[derive(Debug)]
pub struct RetryBudget {
    percent: u64,
    since: Instant,
    calls: Counts,
    /// Locked, so that two cannot both have the last one.
    retries: Mutex<Counts>,
}

impl RetryBudget {
    pub fn new(percent: u32) -> Self {
        Self {
            percent: percent.into(),
            since: Instant::now(),
            calls: Counts::default(),
            retries: Mutex::default(),
        }
    }

    /// A call, counted when it came.
    pub fn called(&self, at: Instant) {
        self.calls.add(self.second(at));
    }

    /// Whether a call that nobody can have seen may be tried again; counted if so.
    pub fn retry(&self, at: Instant) -> bool {
        self.grant(at, 1)
    }

    /// Whether a read that broke off may be repeated; counted if so. What a caller asks for may break every answer, and must
    /// not take the retries of others: this stops at half of them.
    pub fn repeat(&self, at: Instant) -> bool {
        self.grant(at, 2)
    }

    fn grant(&self, at: Instant, part: u64) -> bool {
        let second = self.second(at);
        let retries = lock(&self.retries);
        let room = FLOOR * WINDOW + self.calls.sum(second) * self.percent / 100;
        let granted = retries.sum(second) < room / part;
        if granted {
            retries.add(second);
        }
        granted
    }

    /// From 1, because a cell that was never used says 0.
    fn second(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.since).max(Duration::ZERO).as_secs() + 1
    }
}

/// Counts of the last seconds, each cell with the second that it is of in its upper half.
#[derive(Debug, Default)]
struct Counts([AtomicU64; CELLS]);

impl Counts {
    fn add(&self, second: u64) {
        let cell = usize::try_from(second % CELLS as u64)
            .ok()
            .and_then(|at| self.0.get(at));
        if let Some(cell) = cell {
            let _set = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |cell| {
                let of_this = cell >> 32 == second & u64::from(u32::MAX);
                // A call that came longer ago than the window does not matter.
                Some(if of_this {
                    cell.saturating_add(1)
                } else {
                    second << 32 | 1
                })
            });
        }
    }

    fn sum(&self, now: u64) -> u64 {
        let counted = |cell: &AtomicU64| {
            let cell = cell.load(Ordering::Relaxed);
            let second = cell >> 32;
            let recent = second > 0 && second <= now && now - second < WINDOW;
            if recent { cell & u64::from(u32::MAX) } else { 0 }
        };
        self.0.iter().map(counted).sum()
    }
}
