//! The endpoints of an agent, how they stand, how busy they are, and the choice among them.
//!
//! A call with an owner goes to the owner or nowhere. New work goes to endpoints that nothing is held against; when those
//! are too few, to all that may be alive. While nothing is out of the ordinary, a choice reads a few counters and neither
//! allocates nor locks nor asks for the time.

mod budget;
mod choice;
mod ejection;
mod health;
mod queue;
mod succession;
#[cfg(test)]
pub mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config;
use crate::http::hygiene;
use crate::observe::AgentMetrics;

pub use budget::RetryBudget;
pub use choice::Ask;
use choice::Choice;
pub use ejection::{Fault, Suspicion};
use health::Watch;
pub use health::{Check, State};
use queue::Slots;

/// One address of an upstream.
#[derive(Debug)]
pub struct Endpoint {
    /// The normalised URL: the endpoint's identity in task records, across restarts.
    pub url: Arc<str>,
    pub uri: http::Uri,
    /// The `Host` of requests to it.
    pub host: http::HeaderValue,
    /// The place in the list: first what is configured, in the order of the configuration.
    pub index: usize,
    /// What its draws in a hash begin with.
    seed: u64,
    slots: Slots,
    watch: Arc<Watch>,
    since: Instant,
    /// When it goes, after `since`, if the configuration has it no more.
    leaves: Option<Duration>,
}

#[derive(Debug)]
pub struct Endpoints {
    /// Those of the configuration, then those that leave, the first to go last.
    list: Vec<Arc<Endpoint>>,
    configured: usize,
    /// How many of the list have not gone.
    present: AtomicUsize,
    choice: Choice,
    watch: Arc<Watch>,
    panic_threshold: usize,
    pub retries: Arc<RetryBudget>,
    since: Instant,
    metrics: Arc<AgentMetrics>,
}

/// The endpoint for one call; counted as in flight until dropped.
#[derive(Debug)]
pub struct Selected(Arc<Endpoint>);

impl Selected {
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        queue::leave(&self.0);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the endpoint that owns the task is not configured any more")]
    OwnerGone,
    #[error("the endpoint that owns the task does not answer at the moment")]
    OwnerAway,
    #[error("every endpoint was tried")]
    NoneLeft,
    #[error("no endpoint is healthy")]
    NoneHealthy,
    #[error("every endpoint is being drained")]
    Drained,
    #[error("the endpoint has as many calls under way, and waiting, as it may")]
    Busy,
}

impl Endpoint {
    pub fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }

    /// Calls that wait for a place.
    pub fn waiting(&self) -> usize {
        self.slots.waiting()
    }

    /// A place for a call, if there is one at once.
    pub fn enter(self: &Arc<Self>) -> Option<Selected> {
        queue::enter(self)
    }

    /// A place for a call, once the calls before it have theirs.
    pub async fn wait(self: &Arc<Self>) -> Result<Selected, Error> {
        queue::wait(self).await
    }

    /// It has answered a call.
    pub fn succeeded(&self) {
        self.watch.succeeded(self.index, || self.since.elapsed());
    }

    /// It has failed a call of this principal.
    pub fn failed(&self, fault: Fault, principal: &str) {
        let caller = choice::caller(principal);
        self.watch.failed(self.index, fault, caller, self.since.elapsed());
    }

    /// The next thing that the gateway should find out about it.
    pub async fn suspected(&self) -> Suspicion {
        self.watch.suspected(self.index).await
    }

    /// What came of a suspicion.
    pub fn found(&self, suspicion: Suspicion, found: Check) {
        self.watch.found(self.index, suspicion, found, self.since.elapsed());
    }

    /// What a regular check has shown.
    pub fn checked(&self, check: Check) {
        self.watch.checked(self.index, check, self.since.elapsed());
    }

    /// While it is drained it takes no new work.
    pub fn drain(&self, draining: bool) {
        self.watch.drain(self.index, draining, self.since.elapsed());
    }

    pub fn state(&self) -> State {
        let now = self.since.elapsed();
        State {
            leaves: self.leaves.map(|leaves| leaves.saturating_sub(now)),
            ..self.watch.state(self.index, now)
        }
    }
}

impl Endpoints {
    /// # Errors
    /// The URL that is none; the configuration's check refuses it before.
    pub fn build(
        endpoints: &[config::Endpoint],
        config: &config::Balancing,
        retry_budget: u32,
        metrics: &Arc<AgentMetrics>,
    ) -> Result<Self, http::uri::InvalidUri> {
        Self::with(endpoints, &[], Instant::now(), config, retry_budget, metrics)
    }

    /// `leaving` is what the configuration has no more, each with its time, the first to go last.
    fn with(
        endpoints: &[config::Endpoint],
        leaving: &[(config::Endpoint, Duration)],
        since: Instant,
        config: &config::Balancing,
        retry_budget: u32,
        metrics: &Arc<AgentMetrics>,
    ) -> Result<Self, http::uri::InvalidUri> {
        let watch = Arc::new(Watch::new(config, endpoints, leaving, metrics));
        let configured = endpoints.iter().map(|endpoint| (endpoint, None));
        let leaving = leaving.iter().map(|(endpoint, leaves)| (endpoint, Some(*leaves)));
        let list = configured
            .chain(leaving)
            .enumerate()
            .map(|(index, (endpoint, leaves))| {
                let uri: http::Uri = endpoint.url.parse()?;
                let host = uri.authority().map_or("", |authority| authority.as_str());
                Ok(Arc::new(Endpoint {
                    url: Arc::from(endpoint.url.as_str()),
                    host: hygiene::value(host),
                    uri,
                    index,
                    seed: choice::seed(&endpoint.url),
                    slots: Slots::new(config),
                    watch: watch.clone(),
                    since,
                    leaves,
                }))
            })
            .collect::<Result<Vec<_>, http::uri::InvalidUri>>()?;
        let choice = Choice::new(config.balance, endpoints.len());
        Ok(Self {
            configured: endpoints.len(),
            present: AtomicUsize::new(list.len()),
            list,
            choice,
            watch,
            panic_threshold: usize::try_from(config.panic_threshold).unwrap_or(0),
            retries: Arc::new(RetryBudget::new(retry_budget)),
            since,
            metrics: metrics.clone(),
        })
    }

    /// All that tasks may live at: what is configured, and what leaves.
    pub fn all(&self) -> &[Arc<Endpoint>] {
        let present = self.present.load(Ordering::Relaxed);
        self.list.get(..present).unwrap_or(&self.list)
    }

    /// All that new work may go to.
    pub fn configured(&self) -> &[Arc<Endpoint>] {
        self.list.get(..self.configured).unwrap_or(&self.list)
    }

    /// What the configuration has no more, the first to go last.
    pub fn leaving(&self) -> &[Arc<Endpoint>] {
        self.all().get(self.configured..).unwrap_or_default()
    }

    /// Calls are watched for failures.
    pub fn is_passive(&self) -> bool {
        self.watch.is_passive()
    }

    /// The endpoint that owns the task or context of a call.
    pub fn owner(&self, url: &str) -> Result<&Arc<Endpoint>, Error> {
        let found = self.all().iter().find(|endpoint| &*endpoint.url == url);
        let owner = found.ok_or(Error::OwnerGone)?;
        let admitted = self.watch.admits(owner.index, || self.since.elapsed());
        admitted.then_some(owner).ok_or(Error::OwnerAway)
    }

    /// An endpoint for new work, none of `tried`.
    pub fn choose(&self, ask: Ask<'_>, tried: &[usize]) -> Result<&Arc<Endpoint>, Error> {
        if self.watch.is_calm() {
            if let ([only], []) = (self.configured(), tried) {
                return Ok(only);
            }
            return self.among(ask, tried, |_| true, |_| None).ok_or(Error::NoneLeft);
        }
        self.choose_at(ask, tried, self.since.elapsed())
    }

    /// The same while endpoints stand differently.
    fn choose_at(&self, ask: Ask<'_>, tried: &[usize], now: Duration) -> Result<&Arc<Endpoint>, Error> {
        let all = || self.configured().iter().map(|endpoint| endpoint.index);
        let open = all().filter(|at| !self.watch.is_draining(*at)).count();
        if open == 0 {
            return Err(Error::Drained);
        }
        let usable = all().filter(|at| self.watch.is_usable(*at, now)).count();
        let share = |endpoint: &Endpoint| self.watch.share(endpoint.index, now);
        let chosen = if usable * 100 < self.panic_threshold * open {
            self.metrics.panics.inc();
            let alive = |endpoint: &Endpoint| self.watch.is_last_resort(endpoint.index, now);
            let undrained = |endpoint: &Endpoint| !self.watch.is_draining(endpoint.index);
            self.among(ask, tried, alive, share)
                .or_else(|| self.among(ask, tried, undrained, share))
        } else {
            let usable = |endpoint: &Endpoint| self.watch.is_usable(endpoint.index, now);
            self.among(ask, tried, usable, share)
        };
        chosen.ok_or(if tried.is_empty() {
            Error::NoneHealthy
        } else {
            Error::NoneLeft
        })
    }

    /// One with room, if there is one. A hash stays with its endpoint, and waits there.
    fn among(
        &self,
        ask: Ask<'_>,
        tried: &[usize],
        may: impl Fn(&Endpoint) -> bool,
        share: impl Fn(&Endpoint) -> Option<f64>,
    ) -> Option<&Arc<Endpoint>> {
        let untried = |endpoint: &Endpoint| !tried.contains(&endpoint.index) && may(endpoint);
        let roomy = |endpoint: &Endpoint| endpoint.slots.has_room() && untried(endpoint);
        if !self.choice.is_bound(ask)
            && let Some(chosen) = self.choice.among(self.configured(), ask, roomy, &share)
        {
            return Some(chosen);
        }
        self.choice.among(self.configured(), ask, untried, &share)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
