//! What goes on in one downstream connection: which requests are under way, and since when none is.
//!
//! Over HTTP/1.1 it also tells the guard in front of hyper whose turn it is: from a request's head to the end of its answer
//! nothing of the next head is handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

#[derive(Clone)]
pub struct Activity(Arc<Counts>);

struct Counts {
    begun: Instant,
    active: AtomicUsize,
    used: AtomicBool,
    /// Milliseconds from `begun` to the end of the last answer.
    last: AtomicU64,
    /// A head was handed over, and its answer has not ended.
    answering: AtomicBool,
    /// That answer is a stream, whose end nobody knows.
    streaming: AtomicBool,
    /// Who waits for one of the two to change.
    reader: AtomicWaker,
}

impl Activity {
    pub fn new() -> Self {
        Self(Arc::new(Counts {
            begun: Instant::now(),
            active: AtomicUsize::new(0),
            used: AtomicBool::new(false),
            last: AtomicU64::new(0),
            answering: AtomicBool::new(false),
            streaming: AtomicBool::new(false),
            reader: AtomicWaker::new(),
        }))
    }

    pub fn enter(&self) -> Active {
        self.0.active.fetch_add(1, Ordering::AcqRel);
        self.0.used.store(true, Ordering::Release);
        Active(self.clone())
    }

    /// There was a request.
    pub fn is_used(&self) -> bool {
        self.0.used.load(Ordering::Acquire)
    }

    /// `Err` with what is left of the period, or with the whole of it while a request is under way.
    pub fn idle_for(&self, period: Duration) -> Result<(), Duration> {
        if self.0.active.load(Ordering::Acquire) > 0 {
            return Err(period);
        }
        let since = self.0.begun + Duration::from_millis(self.0.last.load(Ordering::Acquire));
        match period.checked_sub(since.elapsed()) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(left) => Err(left),
        }
    }

    /// An HTTP/1.1 head is handed over: until the `Active` that comes of it is dropped, its answer is under way.
    pub fn hands_over(&self) {
        self.0.answering.store(true, Ordering::Release);
    }

    pub fn is_answering(&self) -> bool {
        self.0.answering.load(Ordering::Acquire)
    }

    pub fn is_streaming(&self) -> bool {
        self.0.streaming.load(Ordering::Acquire)
    }

    /// Wakes when the present answer ends, or turns out to be a stream. To be called before the look at either.
    pub fn wake(&self, waker: &Waker) {
        self.0.reader.register(waker);
    }
}

/// One request under way; until its answer's body is dropped.
pub struct Active(Activity);

impl Active {
    pub fn streams(&self) {
        let counts = &self.0.0;
        counts.streaming.store(true, Ordering::Release);
        counts.reader.wake();
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let counts = &self.0.0;
        let now = u64::try_from(counts.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        counts.last.store(now, Ordering::Release);
        counts.active.fetch_sub(1, Ordering::AcqRel);
        counts.streaming.store(false, Ordering::Release);
        counts.answering.store(false, Ordering::Release);
        counts.reader.wake();
    }
}
