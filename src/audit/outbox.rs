//! What waits to be sent elsewhere of what stands in the file (`export`): whole lines, in their order, bounded by their number.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Lines in one request: some 800 KiB at most of what is usual; collectors take 4 MiB and more.
const BATCH: usize = 512;

#[derive(Default)]
pub struct Outbox {
    /// Most lines that wait; 0: nobody wants them.
    most: AtomicUsize,
    lines: Mutex<Lines>,
    wake: Notify,
    sent: AtomicU64,
    lost: AtomicU64,
}

#[derive(Default)]
struct Lines {
    waiting: VecDeque<Box<str>>,
    /// Those of the request under way, or of the last one that failed.
    sending: Arc<[Box<str>]>,
}

/// For metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub sent: u64,
    pub waiting: u64,
    pub lost: u64,
}

impl Outbox {
    /// So many lines may wait from now on; 0: what waits is dropped, and nothing more is taken.
    pub fn hold(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
        if most == 0 {
            *self.lines() = Lines::default();
        }
    }

    /// Takes what was just written to the file: whole lines.
    pub(super) fn offer(&self, written: &[u8]) {
        let most = self.most.load(Ordering::Relaxed);
        if most == 0 {
            return;
        }
        let text = std::str::from_utf8(written).unwrap_or_default();
        let mut lines = self.lines();
        for line in text.lines() {
            if lines.waiting.len() + lines.sending.len() < most {
                lines.waiting.push_back(Box::from(line));
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(lines);
        self.wake.notify_one();
    }

    /// What is to be sent next; what could not be sent before all. For one sender.
    pub fn next(&self) -> Option<Arc<[Box<str>]>> {
        let mut lines = self.lines();
        if lines.sending.is_empty() {
            let count = lines.waiting.len().min(BATCH);
            lines.sending = lines.waiting.drain(..count).collect();
        }
        (!lines.sending.is_empty()).then(|| Arc::clone(&lines.sending))
    }

    /// Of what was to be sent, so many lines were taken and so many were not.
    pub fn done(&self, sent: u64, lost: u64) {
        self.lines().sending = Arc::default();
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Resolves when something waits.
    pub async fn filled(&self) {
        while self.is_empty() {
            self.wake.notified().await;
        }
    }

    pub fn stats(&self) -> Exported {
        let lines = self.lines();
        Exported {
            sent: self.sent.load(Ordering::Relaxed),
            waiting: (lines.waiting.len() + lines.sending.len()) as u64,
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    fn is_empty(&self) -> bool {
        let lines = self.lines();
        lines.waiting.is_empty() && lines.sending.is_empty()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
