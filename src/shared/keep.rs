//! Keeps the connection: makes it, tries it, leaves a mark every second, and makes a new one when it broke.
//!
//! The mark is the time, under keys of this gateway alone. It proves that the server takes writes, and tells what the
//! server lost: after a restart or a failover the last mark that is found is as old as the data. In a cluster there are
//! many marks, so that most likely every node has some. What was lost is declared to all before new marks are left: see
//! `recovery`. Behind a new connection the server is asked whether it is the process that it was. A cluster, whose
//! connections are made anew without this stage, is asked every second.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::command::{Command, Fault, Reply};
use super::connect::Link;
use super::{Inner, Live, recovery};

/// How often a mark is left. What is in doubt after a failover grows with it.
const MARK_EVERY: Duration = Duration::from_secs(1);
/// A longer outage makes everything doubtful.
const MARK_LIVES_LEAST: u32 = 30 * 24 * 3600;
/// Of 20 masters, the odds that a certain one has no mark are 1 to 26.
const CLUSTER_MARKS: usize = 64;

/// Between attempts to connect, at first and at last.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(2);
/// A connection that lived so long was a good one.
const STEADY: Duration = Duration::from_secs(10);

/// What stood there before the marks were left.
struct Stood {
    /// The oldest mark; 0 if one was gone.
    oldest: u32,
    /// A loss is declared.
    declared: bool,
    refused: bool,
}

/// Seconds. Longer than records live: a server that evicts what expires next must not take the marks first, which would be
/// a loss of everything.
pub(super) fn mark_lives(retention: Duration) -> u32 {
    let twice = retention.as_secs().saturating_mul(2);
    u32::try_from(twice).unwrap_or(u32::MAX).max(MARK_LIVES_LEAST)
}

/// Keys of this process alone.
pub(super) fn marks(prefix: &str, cluster: bool) -> Vec<Vec<u8>> {
    let id = uuid::Uuid::new_v4();
    let count = if cluster { CLUSTER_MARKS } else { 1 };
    (0..count)
        .map(|number| format!("{prefix}g:{id}:{number}").into_bytes())
        .collect()
}

impl Inner {
    pub(super) async fn keep(self: Arc<Self>) {
        let mut pause = PAUSE_FIRST;
        loop {
            match self.attempt().await {
                Ok(live) => {
                    let born = Instant::now();
                    self.attempted.send_replace(true);
                    self.watch(&live).await;
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

    async fn attempt(&self) -> Result<Arc<Live>, Fault> {
        let live = Arc::new(Live {
            link: self.connector.connect().await?,
        });
        self.rehearse(&live.link).await?;
        let runs = self.runs(&live.link).await?;
        self.meet(runs);
        self.mark(&live.link).await?;
        self.live.store(Some(Arc::clone(&live)));
        self.back();
        self.news.notify_one();
        Ok(live)
    }

    /// Until the connection is no longer used.
    async fn watch(&self, live: &Arc<Live>) {
        loop {
            let due = tokio::select! {
                () = self.broken.notified() => false,
                () = self.suspected.notified() => true,
                () = sleep(MARK_EVERY) => true,
            };
            if due && let Err(fault) = self.look_after(&live.link).await {
                self.lost(live, &fault);
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

    async fn look_after(&self, link: &Link) -> Result<(), Fault> {
        if self.connector.is_cluster() {
            let runs = self.runs(link).await?;
            if !runs.is_empty() {
                self.meet(runs);
            }
        }
        self.mark(link).await
    }

    /// What is in doubt now that these processes are the server. Of another process nothing is known that was written since
    /// the last mark, and what it lacks besides is found by the next one. The same has it all, but for what went under with
    /// the connection.
    fn meet(&self, runs: Vec<String>) {
        let known = self.recovery.knows(runs);
        let (now, last) = (self.now(), self.marked.load(Ordering::Relaxed));
        // Nothing was written by this process that could be missing.
        if last == 0 {
            return;
        }
        self.recovery.tick(last, now);
        let since = self.recovery.since(last, now);
        if !known {
            self.recovery.lost(since);
            self.news.notify_one();
        } else if self.live.load().is_none() {
            self.recovery.doubt(since);
        }
    }

    async fn runs(&self, link: &Link) -> Result<Vec<String>, Fault> {
        match timeout(self.patience(), link.runs()).await {
            Ok(runs) => runs,
            Err(_) => Err(Fault::Timeout),
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
            Command::Put {
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
            Command::Occupy {
                key: key("probe:places"),
                member: b"probe".to_vec(),
                limit: 1_000_000,
                keep: 60_000,
            },
            Command::Vacate {
                key: key("probe:places"),
                member: b"probe".to_vec(),
            },
            Command::Owe {
                key: key("probe:bytes"),
                amount: 1,
                most: 1_000_000,
            },
        ];
        self.all(link, &commands).await?;
        Ok(())
    }

    /// Leaves the marks. A loss shows in the marks until it is declared: whoever finds a new one finds the declaration too.
    async fn mark(&self, link: &Link) -> Result<(), Fault> {
        let (now, last) = (self.now(), self.marked.load(Ordering::Relaxed));
        self.recovery.tick(last, now);
        let stood = self.leave(link, now, last).await?;
        let lost = recovery::is_lost(last, stood.oldest);
        if lost {
            self.recovery.lost(self.recovery.since(stood.oldest, now));
            self.news.notify_one();
        }
        let mut refused = stood.refused;
        let behind = self.recovery.is_behind();
        self.recovery.saw(behind || stood.declared);
        if behind {
            let replies = self.all(link, &[self.recovery.declare(now)]).await?;
            if replies.contains(&Reply::Refused) {
                refused = true;
            } else {
                self.recovery.declared();
            }
        }
        // One of a clock that was ahead would stay until then.
        if (lost || stood.oldest > now) && !refused {
            refused = self.leave(link, now, 0).await?.refused;
        }
        if refused {
            self.refuse();
            return Ok(());
        }
        self.marked.store(now, Ordering::Relaxed);
        if self.refuses.swap(false, Ordering::AcqRel) {
            tracing::info!("the shared store takes records again");
            self.news.notify_one();
        }
        Ok(())
    }

    /// One that is older than `after` stays.
    async fn leave(&self, link: &Link, mark: u32, after: u32) -> Result<Stood, Fault> {
        let leave = |key: &Vec<u8>| Command::Mark {
            key: key.clone(),
            mark,
            after,
            keep: self.mark_lives,
        };
        let mut commands: Vec<Command> = self.marks.iter().map(leave).collect();
        commands.push(self.recovery.look());
        let mut replies = self.all(link, &commands).await?;
        let declared = replies.pop().is_some_and(|declared| declared != Reply::Nothing);
        let refused = replies.contains(&Reply::Refused);
        // What is refused says nothing of what stood there.
        let stood = replies.iter().filter(|reply| **reply != Reply::Refused);
        Ok(Stood {
            oldest: stood.map(recovery::time_of).min().unwrap_or(after),
            declared,
            refused,
        })
    }

    async fn all(&self, link: &Link, commands: &[Command]) -> Result<Vec<Reply>, Fault> {
        let all = join_all(commands.iter().map(|command| command.run(link)));
        let Ok(replies) = timeout(self.patience(), all).await else {
            return Err(Fault::Timeout);
        };
        replies.into_iter().collect()
    }

    /// With what no call waits for: a cluster finds its nodes on the way; a server that has just started is slow.
    fn patience(&self) -> Duration {
        self.timeout.max(MARK_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    #[track_caller]
    fn check(retention: Duration, days: u64) {
        assert_eq!(u64::from(mark_lives(retention)), days * DAY);
    }

    #[test]
    fn marks_outlive_records() {
        check(Duration::from_secs(1), 30);
        check(Duration::from_secs(7 * DAY), 30);
        check(Duration::from_secs(15 * DAY), 30);
        check(Duration::from_secs(90 * DAY), 180);
        assert_eq!(mark_lives(Duration::MAX), u32::MAX);
    }
}
