//! Keeps the connection: makes it, tries it, leaves a mark every second, and makes a new one when it broke.
//!
//! The mark is the time, under keys of this gateway alone. It proves that the server takes writes, and tells what the
//! server lost: after a restart or a failover the last mark that is found is as old as the data. In a cluster there are
//! many marks, so that most likely every node has some.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::command::{Command, Fault, Reply};
use super::connect::Link;
use super::{Inner, Live};

/// How often a mark is left. What is in doubt after a failover grows with it.
const MARK_EVERY: Duration = Duration::from_secs(1);
/// A longer outage makes everything doubtful, which is only work.
const MARK_LIVES: u32 = 24 * 3600;
/// Of 20 masters, the odds that a certain one has no mark are 1 to 26.
const CLUSTER_MARKS: usize = 64;
/// A write of the same second as a mark may have come after it.
const MARK_MARGIN: u32 = 2;

/// Between attempts to connect, at first and at last.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(2);
/// A connection that lived so long was a good one.
const STEADY: Duration = Duration::from_secs(10);

/// What the marks tell.
enum Marks {
    /// Everything that was written before `since` is there.
    Found {
        since: u32,
    },
    /// None was left before.
    First,
    Refused,
}

impl Inner {
    pub(super) async fn keep(self: Arc<Self>) {
        // Of this process: another one has written other records.
        let names = self.names();
        let mut pause = PAUSE_FIRST;
        loop {
            match self.attempt(&names).await {
                Ok(live) => {
                    let born = Instant::now();
                    self.attempted.send_replace(true);
                    self.watch(&live, &names).await;
                    if born.elapsed() >= STEADY {
                        pause = PAUSE_FIRST;
                    }
                }
                Err(fault) => {
                    self.errors.with_label_values(&[fault.reason()]).inc();
                    self.away(&fault.to_string());
                    self.attempted.send_replace(true);
                }
            }
            // Gateways that lost the server together must not come back in step.
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    fn names(&self) -> Vec<Vec<u8>> {
        let id = uuid::Uuid::new_v4();
        let count = if self.connector.is_cluster() { CLUSTER_MARKS } else { 1 };
        (0..count)
            .map(|number| format!("{}g:{id}:{number}", self.prefix).into_bytes())
            .collect()
    }

    async fn attempt(&self, names: &[Vec<u8>]) -> Result<Arc<Live>, Fault> {
        let live = Arc::new(Live {
            link: self.connector.connect().await?,
        });
        self.rehearse(&live.link).await?;
        let now = self.now();
        let marks = self.mark(&live.link, names, now).await?;
        // Whatever a replica lacks that became a master was written since its last mark.
        if let Marks::Found { since } = marks {
            self.doubt
                .fetch_min(since.saturating_sub(MARK_MARGIN), Ordering::AcqRel);
        }
        self.noted(&marks, now);
        self.live.store(Some(Arc::clone(&live)));
        self.back();
        self.news.notify_one();
        Ok(live)
    }

    /// Until the connection is no longer used.
    async fn watch(&self, live: &Arc<Live>, names: &[Vec<u8>]) {
        loop {
            tokio::select! {
                () = self.broken.notified() => {}
                () = sleep(MARK_EVERY) => {
                    let now = self.now();
                    match self.mark(&live.link, names, now).await {
                        Ok(marks) => self.compare(&marks, now),
                        Err(fault) => self.lost(live, &fault),
                    }
                }
            }
            if !self
                .live
                .load()
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, live))
            {
                return;
            }
        }
    }

    /// Everything that will be asked, so that a user who may not do it is found out here.
    async fn rehearse(&self, link: &Link) -> Result<(), Fault> {
        let key = |name: &str| format!("{}{name}", self.prefix).into_bytes();
        let commands = [
            Command::Learn {
                key: key("probe"),
                record: vec![0; 4],
                keep: 60,
            },
            Command::Read {
                key: key("probe"),
                keep: 60,
            },
            Command::Take {
                key: key("probe:rate"),
                each: 1,
                burst: 1_000_000,
            },
        ];
        self.all(link, &commands).await?;
        Ok(())
    }

    async fn mark(&self, link: &Link, names: &[Vec<u8>], now: u32) -> Result<Marks, Fault> {
        let commands: Vec<Command> = names
            .iter()
            .map(|key| Command::Mark {
                key: key.clone(),
                mark: now,
                keep: MARK_LIVES,
            })
            .collect();
        let mut oldest = u32::MAX;
        for reply in self.all(link, &commands).await? {
            match reply {
                Reply::Refused => return Ok(Marks::Refused),
                Reply::Nothing => oldest = 0,
                Reply::Bytes(text) => {
                    let mark = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                    oldest = oldest.min(mark.unwrap_or(0));
                }
                Reply::Number(_) => return Err(Fault::Strange),
            }
        }
        if self.marked.load(Ordering::Relaxed) == 0 {
            return Ok(Marks::First);
        }
        Ok(Marks::Found { since: oldest })
    }

    /// A server that was emptied, or replaced by another one, without the connection breaking.
    fn compare(&self, marks: &Marks, now: u32) {
        if let Marks::Found { since } = *marks
            && since < self.marked.load(Ordering::Relaxed)
        {
            tracing::warn!("the shared store has lost records; what this gateway knows is written again");
            self.doubt
                .fetch_min(since.saturating_sub(MARK_MARGIN), Ordering::AcqRel);
            self.news.notify_one();
        }
        self.noted(marks, now);
    }

    fn noted(&self, marks: &Marks, now: u32) {
        match marks {
            Marks::Refused => self.refuse(),
            Marks::Found { .. } | Marks::First => {
                self.marked.store(now, Ordering::Relaxed);
                if self.refuses.swap(false, Ordering::AcqRel) {
                    tracing::info!("the shared store takes records again");
                    self.news.notify_one();
                }
            }
        }
    }

    async fn all(&self, link: &Link, commands: &[Command]) -> Result<Vec<Reply>, Fault> {
        let all = join_all(commands.iter().map(|command| command.run(link)));
        // A cluster finds its nodes on the way; a server that has just started is slow.
        let Ok(replies) = timeout(self.timeout.max(MARK_EVERY), all).await else {
            return Err(Fault::Timeout);
        };
        replies.into_iter().collect()
    }
}
