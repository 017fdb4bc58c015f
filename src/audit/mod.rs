//! The audit trail: a line for each event that matters to security, in a file, chained by hashes.
//!
//! Whoever has something to tell records it here (`Trail::record`), which costs a look at one number where nothing is recorded. Lines wait
//! in a queue, bounded by their number, until one writer has taken them: what came meanwhile is written together, so that a
//! slow disk holds up no call. The queue is in the order of the file.
//!
//! What is promised. Each line names the hash of the one before, over restarts, reloads, renamed files and another key, so
//! that a line that was changed, removed, moved or put in is found (`verify`). Whole lines that are missing at the end are not,
//! from the file alone: the number of the last one is a metric and stands in the log. `kill -9` loses what was recorded in the
//! last milliseconds, and may leave an unfinished line, which is cut off at the next start and told of.
//!
//! When lines cannot be written, they wait, and after that events are lost, counted, and told of in the trail itself. Where
//! the configuration says `block`, a call that would leave a line has a place in the queue before it goes to an agent
//! (`Trail::admit`), and there is none while writing fails: what such a call leaves behind is kept until it is written.
//!
//! Lines that stand in the file can be sent elsewhere as well (`outbox`).
//!
//! Not here: which events there are of a request (`observe`), and what a refused call is answered (`respond`).

mod chain;
mod event;
mod file;
mod outbox;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub use self::event::Event;
pub use self::file::Error;
pub use self::outbox::{Exported, Outbox};
pub use self::verify::{Broken, Verified, verify};
use self::writer::{Pending, Writer, Written};
use crate::clock::Clock;
use crate::config::{self, AuditEvent, OnFull};
use crate::drain::Drain;

/// What one call leaves at most: the task that it makes, and how it ended.
const LINES_OF_A_CALL: usize = 2;
/// Between two writes, so that lines of a busy gateway are written together.
const WRITE_EVERY: Duration = Duration::from_millis(5);
/// Between two attempts while the disk takes nothing.
const TRY_EVERY: Duration = Duration::from_millis(250);

/// Cheap to clone; one for the process. Off until `turn`.
#[derive(Clone)]
pub struct Trail(Arc<Inner>);

impl std::fmt::Debug for Trail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Trail").field(&self.stats()).finish()
    }
}

struct Inner {
    clock: Clock,
    /// A bit for each event that is recorded; 0 while the trail is off.
    events: AtomicU32,
    blocks: AtomicBool,
    capacity: AtomicU64,
    sync_milliseconds: AtomicU64,
    queue: Mutex<Queue>,
    /// The next writer, which takes over when everything before is written.
    next: Mutex<Option<Opened>>,
    /// Held while writing, which blocks; never together with the queue but to take from it.
    desk: Mutex<Desk>,
    wake: Notify,
    failing: AtomicBool,
    lost: AtomicU64,
    sequence: AtomicU64,
    outbox: Outbox,
}

#[derive(Default)]
struct Queue {
    lines: Vec<Box<str>>,
    /// Lines that are not in the file: here and at the writer.
    waiting: u64,
    /// Promised to calls under way.
    reserved: u64,
    /// Events since the last line that are not recorded.
    lost: u64,
}

#[derive(Default)]
struct Desk {
    writer: Option<Writer>,
    pending: Pending,
}

/// What a configuration wants, opened; nothing of it is at work before `Trail::turn`.
pub struct Opened {
    settings: Option<Box<config::Audit>>,
    /// `None`: the writer at work goes on, or none is wanted.
    writer: Option<Box<Writer>>,
}

/// For metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Of the last line in the file.
    pub sequence: u64,
    pub waiting: u64,
    pub lost: u64,
    pub failing: bool,
}

/// The call cannot be recorded, and may not go on without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit trail cannot take the call")]
pub struct Blocked;

/// The lines of one call have a place in the queue as long as this lasts.
pub struct Room(Arc<Inner>);

impl Drop for Room {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        queue.reserved = queue.reserved.saturating_sub(LINES_OF_A_CALL as u64);
    }
}

impl Trail {
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            clock,
            events: AtomicU32::new(0),
            blocks: AtomicBool::new(false),
            capacity: AtomicU64::new(0),
            sync_milliseconds: AtomicU64::new(1000),
            queue: Mutex::default(),
            next: Mutex::default(),
            desk: Mutex::default(),
            wake: Notify::new(),
            failing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            outbox: Outbox::default(),
        }))
    }

    pub fn is_on(&self) -> bool {
        self.0.events.load(Ordering::Relaxed) != 0
    }

    pub fn wants(&self, event: AuditEvent) -> bool {
        self.0.events.load(Ordering::Relaxed) & bit(event) != 0
    }

    /// Never waits.
    pub fn record(&self, event: &Event<'_>) {
        self.push(event, false);
    }

    /// The same for a call that has a `Room`.
    pub fn record_in_room(&self, event: &Event<'_>) {
        self.push(event, true);
    }

    fn push(&self, event: &Event<'_>, has_room: bool) {
        if !self.wants(event.event) {
            return;
        }
        let inner = &*self.0;
        let line = event.members(inner.clock.now());
        let mut queue = lock(&inner.queue);
        // What is promised to others is not taken.
        let promised = if has_room { 0 } else { queue.reserved };
        if queue.waiting + promised >= inner.capacity.load(Ordering::Relaxed) {
            queue.lost += 1;
            inner.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            queue.waiting += 1;
            queue.lines.push(line);
        }
        drop(queue);
        inner.wake.notify_one();
    }

    /// Whether what leaves a line must not happen at this moment.
    pub fn is_blocked(&self) -> bool {
        let queue = lock(&self.0.queue);
        self.0.is_blocked(&queue)
    }

    /// To be asked before a call goes to an agent that would leave one of these; what is given is kept until its last line.
    pub fn admit(&self, events: &[AuditEvent]) -> Result<Option<Room>, Blocked> {
        let inner = &self.0;
        if !inner.blocks.load(Ordering::Relaxed) || !events.iter().any(|event| self.wants(*event)) {
            return Ok(None);
        }
        let mut queue = lock(&inner.queue);
        if inner.is_blocked(&queue) {
            return Err(Blocked);
        }
        queue.reserved += LINES_OF_A_CALL as u64;
        Ok(Some(Room(inner.clone())))
    }

    pub fn stats(&self) -> Stats {
        let inner = &*self.0;
        Stats {
            sequence: inner.sequence.load(Ordering::Relaxed),
            waiting: lock(&inner.queue).waiting,
            lost: inner.lost.load(Ordering::Relaxed),
            failing: inner.failing.load(Ordering::Relaxed),
        }
    }

    /// Opens what the configuration wants. A file that was renamed or removed is made anew. Blocking.
    pub fn open(&self, config: Option<&config::Audit>) -> Result<Opened, Error> {
        let Some(config) = config else {
            return Ok(Opened {
                settings: None,
                writer: None,
            });
        };
        let kept = lock(&self.0.desk)
            .writer
            .as_ref()
            .is_some_and(|writer| writer.is_at(config));
        let writer = match kept {
            true => None,
            false => Some(Box::new(Writer::open(config)?)),
        };
        Ok(Opened {
            settings: Some(Box::new(config.clone())),
            writer,
        })
    }

    /// Puts in force what was opened, once what waits is written. Blocking.
    pub fn turn(&self, opened: Opened) {
        self.enter(opened);
        self.flush(true);
    }

    fn enter(&self, opened: Opened) {
        let inner = &*self.0;
        let events = opened.settings.as_ref().map_or(0, |settings| {
            settings.events.iter().fold(0, |all, event| all | bit(*event))
        });
        if let Some(settings) = &opened.settings {
            let blocks = settings.on_full == OnFull::Block;
            inner.blocks.store(blocks, Ordering::Relaxed);
            inner.capacity.store(settings.queue as u64, Ordering::Relaxed);
            let interval = u64::try_from(settings.sync_interval.as_millis()).unwrap_or(u64::MAX);
            inner.sync_milliseconds.store(interval, Ordering::Relaxed);
        } else {
            inner.blocks.store(false, Ordering::Relaxed);
        }
        *lock(&inner.next) = Some(opened);
        inner.events.store(events, Ordering::Relaxed);
        inner.wake.notify_one();
    }

    /// What is to be sent elsewhere of what is written.
    pub fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    /// Writes in the background until the process stops.
    pub fn start(&self, drain: &Drain) {
        let trail = self.clone();
        drain.service(async move {
            let mut synced = Instant::now();
            loop {
                if trail.is_idle() {
                    trail.0.wake.notified().await;
                }
                let interval = Duration::from_millis(trail.0.sync_milliseconds.load(Ordering::Relaxed));
                let failing = trail.0.failing.load(Ordering::Relaxed);
                let patience = if failing { TRY_EVERY } else { interval };
                if !trail.has_work() {
                    let _nothing_new = tokio::time::timeout(patience, trail.0.wake.notified()).await;
                }
                let sync = synced.elapsed() >= interval;
                if sync {
                    synced = Instant::now();
                }
                let writer = trail.clone();
                let _panicked = tokio::task::spawn_blocking(move || writer.flush(sync)).await;
                let failing = trail.0.failing.load(Ordering::Relaxed);
                tokio::time::sleep(if failing { TRY_EVERY } else { WRITE_EVERY }).await;
            }
        });
    }

    /// There is no trail.
    fn is_idle(&self) -> bool {
        // Somebody who writes at this moment has work.
        !self.is_on() && !self.has_work() && self.0.desk.try_lock().is_ok_and(|desk| desk.writer.is_none())
    }

    fn has_work(&self) -> bool {
        !lock(&self.0.queue).lines.is_empty() || lock(&self.0.next).is_some()
    }

    /// Writes what waits. Blocking.
    pub(crate) fn flush(&self, sync: bool) {
        let inner = &*self.0;
        let mut desk = lock(&inner.desk);
        inner.work(&mut desk);
        let next = lock(&inner.next).take();
        if let Some(next) = next {
            inner.turn_to(&mut desk, next);
            inner.work(&mut desk);
        }
        if let Some(writer) = desk.writer.as_mut().filter(|_| sync)
            && let Err(error) = writer.sync()
        {
            inner.failed(&error);
        }
    }

    /// The last step of the process. Blocking.
    pub fn close(&self) {
        let inner = &*self.0;
        self.flush(true);
        let mut desk = lock(&inner.desk);
        let Some(mut writer) = desk.writer.take() else {
            return;
        };
        let unwritten = desk.pending.lines.len();
        if unwritten > 0 {
            tracing::error!(unwritten, "events are lost: the audit file takes no writes");
            return;
        }
        inner.end(&mut writer, "the gateway stops");
    }
}

impl Inner {
    fn is_blocked(&self, queue: &Queue) -> bool {
        let places = self.capacity.load(Ordering::Relaxed);
        self.blocks.load(Ordering::Relaxed)
            && (self.failing.load(Ordering::Relaxed)
                || queue.waiting + queue.reserved + LINES_OF_A_CALL as u64 > places)
    }

    fn work(&self, desk: &mut Desk) {
        {
            let mut queue = lock(&self.queue);
            desk.pending.lines.extend(queue.lines.drain(..));
            desk.pending.lost += std::mem::take(&mut queue.lost);
        }
        let Desk { writer, pending } = desk;
        let Some(writer) = writer else { return };
        match writer.write(pending, &self.clock, |written| self.written(written)) {
            Ok(()) => {
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("the audit file takes writes again");
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    fn written(&self, written: &Written<'_>) {
        let Written { count, last, bytes } = *written;
        self.outbox.offer(bytes);
        let mut queue = lock(&self.queue);
        queue.waiting = queue.waiting.saturating_sub(count as u64);
        self.sequence.store(last.sequence, Ordering::Relaxed);
    }

    fn failed(&self, error: &std::io::Error) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            let blocks = self.blocks.load(Ordering::Relaxed);
            tracing::error!(%error, blocks, "the audit file cannot be written; events wait, and are lost when too many do");
        }
    }

    /// Lines that the writer before could not write, the next one does.
    fn turn_to(&self, desk: &mut Desk, next: Opened) {
        let Some(settings) = next.settings else {
            if let Some(mut writer) = desk.writer.take() {
                self.end(&mut writer, "the configuration has no audit trail any more");
            }
            self.forget(&mut desk.pending);
            return;
        };
        match (next.writer, &mut desk.writer) {
            (None, Some(writer)) => {
                writer.change(settings.max_bytes, settings.keep);
                if !writer.has_key_of(&settings) {
                    self.end(writer, "the chain goes on with another key");
                    if let Err(error) = writer.rekey(&settings) {
                        let cause = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::error!(%error, cause, "the audit file goes on with the key that it had");
                    }
                }
            }
            (None, None) => {}
            (Some(writer), known) => {
                if let Some(mut before) = known.take() {
                    self.end(&mut before, "the chain goes on in another file");
                    desk.writer = Some(writer.following(before.last()));
                } else {
                    desk.writer = Some(*writer);
                }
            }
        }
    }

    fn end(&self, writer: &mut Writer, why: &str) {
        let closed = writer.close(&self.clock, why, |written| self.written(written));
        if let Err(error) = closed {
            tracing::error!(%error, "the last line of the audit file cannot be written");
        }
        let last = writer.last();
        tracing::info!(sequence = last.sequence, hash = %last.hash, "audit file closed");
    }

    /// Nobody is left to write it.
    fn forget(&self, pending: &mut Pending) {
        let count = pending.lines.len() as u64;
        pending.lines.clear();
        pending.lost = 0;
        let mut queue = lock(&self.queue);
        queue.waiting = queue.waiting.saturating_sub(count);
        self.failing.store(false, Ordering::Relaxed);
    }
}

/// Why the file of a configuration cannot be written, without writing it. Blocking.
pub fn fault(file: &Path) -> Option<String> {
    file::fault(file)
}

fn bit(event: AuditEvent) -> u32 {
    1 << event as u32
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
