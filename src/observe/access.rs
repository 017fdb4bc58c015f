//! The access log: one line a request, written in the background.
//!
//! A line is appended to a shared buffer (about 50 ns) and a service writes the buffer out, so that a slow terminal or pipe
//! never holds up a call. The buffer is bounded: past `MAX_BUFFER` a line is dropped and counted.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::drain::Drain;

/// About 20,000 lines: two seconds of a saturated core, so that a short stall of the pipe loses nothing.
const MAX_BUFFER: usize = 8 * 1024 * 1024;
/// Written at once when this much waits.
const WRITE_AT: usize = 64 * 1024;
/// Long enough to batch under load, short enough for a person who watches.
const WRITE_EVERY: Duration = Duration::from_millis(50);

type Sink = dyn Fn(&[u8]) + Send + Sync;

#[derive(Clone)]
pub struct AccessLog(Arc<Inner>);

struct Inner {
    waiting: Mutex<Vec<u8>>,
    full: Notify,
    sink: Box<Sink>,
}

impl AccessLog {
    /// To standard output.
    pub fn stdout() -> Self {
        Self::to(|bytes| {
            let mut out = std::io::stdout().lock();
            // A closed standard output must not end the gateway; there is nowhere left to say so.
            let _closed = out.write_all(bytes).and_then(|()| out.flush());
        })
    }

    pub fn to(sink: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            waiting: Mutex::new(Vec::new()),
            full: Notify::new(),
            sink: Box::new(sink),
        }))
    }

    pub fn start(&self, drain: &Drain) {
        let log = self.clone();
        drain.service(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(WRITE_EVERY) => {}
                    () = log.0.full.notified() => {}
                }
                let writer = log.clone();
                let _panicked = tokio::task::spawn_blocking(move || writer.flush()).await;
            }
        });
    }

    /// Lets `write` append one line. Returns false when the line was dropped because the buffer is full.
    pub fn line(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_BUFFER {
            return false;
        }
        let before = waiting.len();
        write(&mut waiting);
        if before < WRITE_AT && waiting.len() >= WRITE_AT {
            self.0.full.notify_one();
        }
        true
    }

    /// Blocking: writes what waits. Also called at the end, after the last request.
    pub fn flush(&self) {
        let ready = {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.is_empty() {
                return;
            }
            std::mem::take(&mut *waiting)
        };
        (self.0.sink)(&ready);
    }
}
