//! The only place that spawns: jobs that shutdown waits for.
//!
//! Two kinds. A *job* does work that a caller waits for (connections, streams, answers being finished); drain waits for
//! it. A *service* runs for as long as the process (refreshers, writers); it is told to stop and then waited for. What
//! stands *aside* is neither: it ends with what it works for.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
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
        // Boxed, because an async block would hold it twice: once as captured, once as awaited.
        let service = Box::pin(service);
        self.services.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = service => {}
            }
        });
    }

    /// Work that nobody waits for, because it ends with what it works for: an open connection to an agent.
    pub fn aside<F>(&self, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        #[expect(clippy::disallowed_methods, reason = "shutdown need not wait for it")]
        tokio::spawn(work);
    }

    /// Jobs and services begun through what this returns are those of this drain; the services end with the guard, too.
    pub fn scope(&self) -> (Self, DropGuard) {
        let stop = self.stop.child_token();
        let scope = Self {
            stop: stop.clone(),
            ..self.clone()
        };
        (scope, stop.drop_guard())
    }

    /// The same jobs, which can be told alone to take nothing new (`leave`).
    pub fn branch(&self) -> Self {
        Self {
            draining: self.draining.child_token(),
            ..self.clone()
        }
    }

    /// What is served through this branch takes nothing new and finishes what runs.
    pub fn leave(&self) {
        self.draining.cancel();
    }

    /// Services that have not ended.
    pub fn services(&self) -> usize {
        self.services.len()
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

    pub fn is_past_deadline(&self) -> bool {
        self.deadline.is_cancelled()
    }

    /// Cancelled at the drain deadline at the latest.
    pub fn until_deadline(&self) -> CancellationToken {
        self.deadline.child_token()
    }

    /// Runs in place; what is left when it is dropped goes on as a job. `held` lasts as long as the work, and comes back with
    /// what came of it.
    pub fn finishing<F, H>(&self, held: H, work: F) -> Finishing<F, H>
    where
        F: Future + Send + 'static,
        H: Send + Unpin + 'static,
    {
        Finishing {
            work: Some((Box::pin(work), held)),
            jobs: self.jobs.clone(),
        }
    }

    /// Drains: at most `patience` for the jobs, then `grace` for the ends that the deadline makes them send.
    /// Returns whether every job finished by itself.
    pub async fn run(&self, patience: Duration, grace: Duration) -> bool {
        self.draining.cancel();
        self.jobs.close();
        let clean = tokio::time::timeout(patience, self.jobs.wait()).await.is_ok();
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

/// hyper runs HTTP/2 streams as jobs of their own.
impl<F> hyper::rt::Executor<F> for Drain
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, job: F) {
        self.jobs.spawn(async move {
            job.await;
        });
    }
}

/// See [`Drain::finishing`].
pub struct Finishing<F, H>
where
    F: Future + Send + 'static,
    H: Send + Unpin + 'static,
{
    work: Option<(Pin<Box<F>>, H)>,
    jobs: TaskTracker,
}

impl<F, H> Future for Finishing<F, H>
where
    F: Future + Send + 'static,
    H: Send + Unpin + 'static,
{
    type Output = (F::Output, H);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((work, _)) = &mut self.work else {
            return Poll::Pending;
        };
        let output = ready!(work.as_mut().poll(cx));
        match self.work.take() {
            Some((_, held)) => Poll::Ready((output, held)),
            None => Poll::Pending,
        }
    }
}

impl<F, H> Drop for Finishing<F, H>
where
    F: Future + Send + 'static,
    H: Send + Unpin + 'static,
{
    fn drop(&mut self) {
        if let Some((work, held)) = self.work.take() {
            self.jobs.spawn(async move {
                work.await;
                drop(held);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn services_of_a_scope_end_with_its_guard_and_the_others_go_on() {
        let drain = Drain::new();
        let (scope, guard) = drain.scope();
        scope.service(std::future::pending());
        drain.service(std::future::pending());
        assert_eq!(drain.services(), 2);
        drop(guard);
        while drain.services() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(drain.run(Duration::ZERO, Duration::from_secs(10)).await);
        assert_eq!(drain.services(), 0);
    }

    #[tokio::test]
    async fn what_is_held_lasts_as_long_as_the_work_also_when_it_is_left() {
        let drain = Drain::new();
        let held = std::sync::Arc::new(());
        let (output, back) = drain.finishing(held.clone(), async { 7 }).await;
        assert_eq!((output, std::sync::Arc::strong_count(&held)), (7, 2));
        drop(back);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        drop(drain.finishing(held.clone(), ended));
        tokio::task::yield_now().await;
        assert_eq!(std::sync::Arc::strong_count(&held), 2, "the work goes on");
        end.send(()).expect("the work waits");
        assert!(drain.run(Duration::from_secs(10), Duration::ZERO).await);
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_branch_leaves_alone_and_drains_with_the_whole() {
        let drain = Drain::new();
        let (one, other) = (drain.branch(), drain.branch());
        one.leave();
        assert_eq!(
            (one.is_draining(), other.is_draining(), drain.is_draining()),
            (true, false, false)
        );
        let until = drain.until_deadline();
        assert!(drain.run(Duration::ZERO, Duration::ZERO).await);
        assert!(other.is_draining() && until.is_cancelled() && drain.is_past_deadline());
    }
}
