//! The endpoints of an agent under the next configuration, and what becomes of those that it has no more.
//!
//! What is removed leaves: it takes no new work, but for as long as a drain may take, what belongs to its tasks and contexts
//! goes to it. It is one of the agent's endpoints meanwhile, with the settings that the next configuration gives to them.
//! One that a later configuration has again is like every other. Bounded by what configurations removed within the time of
//! a drain.
//!
//! How an endpoint stands belongs to the endpoint, not to the configuration: it goes over to the next one. Calls that are
//! under way meanwhile tell the next one nothing more.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Endpoint, Endpoints};
use crate::config;

impl Endpoint {
    /// How long it is still there, if it leaves.
    pub fn leaves(&self) -> Option<Duration> {
        self.leaves.map(|leaves| leaves.saturating_sub(self.since.elapsed()))
    }
}

impl Endpoints {
    /// Those of the next configuration. What it has no more leaves within `patience`, or when an earlier one said.
    ///
    /// # Errors
    /// The URL that is none; the configuration's check refuses it before.
    pub fn next(
        &self,
        endpoints: &[config::Endpoint],
        config: &config::Balancing,
        retry_budget: u32,
        patience: Duration,
    ) -> Result<Self, http::uri::InvalidUri> {
        self.next_at(endpoints, config, retry_budget, patience, self.since.elapsed())
    }

    pub(super) fn next_at(
        &self,
        endpoints: &[config::Endpoint],
        config: &config::Balancing,
        retry_budget: u32,
        patience: Duration,
        now: Duration,
    ) -> Result<Self, http::uri::InvalidUri> {
        let removed = self
            .list
            .iter()
            .filter(|known| !endpoints.iter().any(|endpoint| *endpoint.url == *known.url));
        let mut leaving: Vec<(config::Endpoint, Duration)> = removed
            .map(|known| {
                let endpoint = config::Endpoint {
                    url: known.url.to_string(),
                    drain: self.watch.is_drained_by_file(known.index),
                };
                (endpoint, known.leaves.unwrap_or(now.saturating_add(patience)))
            })
            .filter(|(_, leaves)| *leaves > now)
            .collect();
        leaving.sort_by_key(|(_, leaves)| Reverse(*leaves));
        Self::with(endpoints, &leaving, self.since, config, retry_budget, &self.metrics)
    }

    /// How the endpoints stood under the configuration before, of which these are the `next`. For the moment in which these
    /// take the place of those.
    pub fn take_over(&self, before: &Self) {
        self.take_over_at(before, self.since.elapsed());
    }

    pub(super) fn take_over_at(&self, before: &Self, now: Duration) {
        for endpoint in &self.list {
            let known = before.all().iter().find(|known| known.url == endpoint.url);
            match known {
                Some(known) => self.watch.take_over(endpoint.index, &before.watch, known.index, now),
                None => self.watch.begin(endpoint.index, now),
            }
        }
    }

    /// The time of one that leaves is over.
    pub fn part(&self, endpoint: &Endpoint) {
        // Those behind it went before.
        let last = endpoint.index.max(self.configured);
        self.present.fetch_min(last, Ordering::Relaxed);
    }

    /// The configuration has it: new work may go there.
    pub fn is_configured(&self, url: &str) -> bool {
        self.configured().iter().any(|endpoint| &*endpoint.url == url)
    }
}
