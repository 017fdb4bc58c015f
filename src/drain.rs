//! The only place that spawns: jobs that shutdown waits for.
//!
//! Two kinds. A *job* does work that a caller waits for (connections, streams, answers being finished); drain waits for
//! it. A *service* runs for as long as the process (refreshers, writers); it is told to stop and then waited for.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Clone, Debug, Default)]
pub struct Drain {
    jobs: TaskTracker,
    services: TaskTracker,
    /// Take nothing new, finish what runs.
    draining: CancellationToken,
    /// The deadline has passed: end now.
    deadline: CancellationToken,
    /// Services stop after the last job.
    stop: CancellationToken,
}

impl Drain {
    pub fn new() -> Self {
        Self::default()
    }

    /// Work that a caller waits for. The job watches `draining` and `deadline` itself.
    pub fn job<F>(&self, job: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.jobs.spawn(job);
    }

    /// Work of the gateway itself; dropped at its next await when the process stops.
    pub fn service<F>(&self, service: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        self.services.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = service => {}
            }
        });
    }

    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves when drain begins.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Resolves when the drain deadline has passed.
    pub async fn deadline(&self) {
        self.deadline.cancelled().await;
    }

    /// Drains: at most `patience` for the jobs, then `grace` for the ends that the deadline makes them send.
    /// Returns whether every job finished by itself.
    pub async fn run(&self, patience: Duration, grace: Duration) -> bool {
        self.draining.cancel();
        self.jobs.close();
        let clean = tokio::time::timeout(patience, self.jobs.wait())
            .await
            .is_ok();
        self.deadline.cancel();
        if !clean {
            let _expired = tokio::time::timeout(grace, self.jobs.wait()).await;
        }
        self.stop.cancel();
        self.services.close();
        let _expired = tokio::time::timeout(grace, self.services.wait()).await;
        clean
    }
}
