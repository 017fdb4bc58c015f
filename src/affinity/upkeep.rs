//! What keeps the store small and on the disk while calls go on: sweeps, syncs, compaction. Nothing here is on the path of
//! a call; disk work runs on the blocking pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::entry::Entry;
use super::journal::Step;
use super::journal::record::Kind;
use super::table::{Cursor, Table};
use super::{Affinity, Journal};
use crate::drain::Drain;

/// How often the size and the health of the journal are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// A compaction that failed is not tried again sooner than this, at first and at last: on a full disk each attempt costs
/// the disk what it still has.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(60);

/// A sync costs the disk a few milliseconds; more often than this it would do nothing else.
const SYNC_AT_MOST_EVERY: Duration = Duration::from_millis(10);

/// A record may outlive `retention` by a tenth of it, but not by more than ten minutes. A sweep looks at every record.
pub(super) fn sweep_interval(retention: Duration) -> Duration {
    (retention / 10).clamp(Duration::from_secs(1), Duration::from_secs(600))
}

impl Affinity {
    /// Runs the upkeep until the process stops.
    pub fn start(self: &Arc<Self>, drain: &Drain) {
        drain.service(Arc::clone(self).upkeep());
        if self.store.journal().is_some() {
            // Apart from the rest: a compaction takes seconds, and syncs must not wait for it.
            drain.service(Arc::clone(self).syncs());
        }
        if self.store.sharing().is_some() {
            drain.service(Arc::clone(self).tell());
        }
    }

    async fn upkeep(self: Arc<Self>) {
        let mut next_sweep = Instant::now() + self.sweep_interval;
        let mut next_compaction = Instant::now();
        let mut pause = RETRY_FIRST;
        loop {
            sleep(INTERVAL).await;
            if Instant::now() >= next_sweep {
                self.blocking(Self::sweep).await;
                next_sweep = Instant::now() + self.sweep_interval;
            }
            if Instant::now() < next_compaction {
                continue;
            }
            if self.blocking(Self::care).await == Some(false) {
                next_compaction = Instant::now() + pause;
                pause = (pause * 2).min(RETRY_LAST);
            } else {
                pause = RETRY_FIRST;
            }
        }
    }

    async fn syncs(self: Arc<Self>) {
        loop {
            sleep(self.sync_interval.max(SYNC_AT_MOST_EVERY)).await;
            self.blocking(|affinity| affinity.store.journal().map(Journal::sync))
                .await;
        }
    }

    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let affinity = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&affinity)).await.ok()
    }

    /// Forgets what was unseen for longer than `retention`; names after the tasks that they stand for.
    pub(super) fn sweep(&self) {
        let now = self.now();
        let stopping = || self.stopping.load(Ordering::Relaxed);
        for table in self.tables() {
            let kept = |entry: &Entry| table.kind() == Kind::Alias && self.keeps_name(entry);
            table.sweep(now, self.retention, &self.store, &kept, &stopping);
        }
    }

    /// Compacts the journal where it is large or lacks records. False if that was needed and failed.
    pub(super) fn care(&self) -> bool {
        let Some(journal) = self.store.journal() else {
            return true;
        };
        let live = self.sum(Table::encoded);
        if journal.degraded() {
            journal.probe() && self.compact()
        } else if journal.is_large(self.compact_floor, live) {
            self.compact()
        } else {
            true
        }
    }

    /// Blocking; calls go on meanwhile. False if it failed.
    pub(super) fn compact(&self) -> bool {
        let Some(journal) = self.store.journal() else {
            return true;
        };
        let mut tables = self.tables().into_iter();
        let mut table = tables.next();
        let mut cursor = Cursor::default();
        let compacted = journal.compact(&mut |visit| {
            if self.stopping.load(Ordering::Relaxed) {
                return Step::Stop;
            }
            let Some(current) = table else {
                return Step::Done;
            };
            if !current.walk(&mut cursor, visit) {
                table = tables.next();
                cursor = Cursor::default();
            }
            Step::More
        });
        match compacted {
            Ok(_finished_or_stopping) => true,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "cannot compact the task journal; it grows until this succeeds");
                false
            }
        }
    }

    /// The last step of the process: what waits is written and synced, a compaction under way gives up. Blocking.
    pub fn close(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(journal) = self.store.journal() {
            journal.close();
        }
    }
}
