//! The handles of one agent.

use std::sync::{Arc, OnceLock};

use prometheus::{Histogram, IntCounter, IntGauge};

use super::super::outcome::{Gathering, Obtained, Outcome, Probed, Reason};
use super::Metrics;
use crate::a2a::Operation;

/// As `balance` counts endpoints.
const ENDPOINT_STATES: [&str; 5] = ["open", "draining", "unhealthy", "ejected", "removed"];
const OPERATIONS: usize = Operation::ALL.len() + 1;
const OUTCOMES: usize = 8 + Reason::ALL.len();

impl Metrics {
    pub fn agent(&self, name: &str) -> Arc<AgentMetrics> {
        Arc::new(AgentMetrics {
            name: Arc::from(name),
            calls: (0..OPERATIONS * OUTCOMES).map(|_| OnceLock::new()).collect(),
            durations: (0..OPERATIONS).map(|_| OnceLock::new()).collect(),
            first_event: self.first_event.with_label_values(&[name]),
            open_streams: self.open_streams.with_label_values(&[name]),
            stream_events: self.stream_events.with_label_values(&[name]),
            ready: self.agent_ready.with_label_values(&[name]),
            card_unapproved: self.card_unapproved.with_label_values(&[name]),
            upstream_connections: self.upstream_connections.with_label_values(&[name]),
            upstream_retries: self.upstream_retries.with_label_values(&[name]),
            retries_refused: self.retries_refused.with_label_values(&[name]),
            endpoints: ENDPOINT_STATES.map(|state| self.endpoints.with_label_values(&[name, state])),
            ejections: self.ejections.with_label_values(&[name]),
            checks_good: self.health_checks.with_label_values(&[name, "good"]),
            checks_bad: self.health_checks.with_label_values(&[name, "bad"]),
            panics: self.panics.with_label_values(&[name]),
            queued: self.queued.with_label_values(&[name]),
            owner_conflicts: self.owner_conflicts.with_label_values(&[name]),
            metrics: self.clone(),
        })
    }

    /// The agent is not configured any more: there is nothing to say about its readiness and its endpoints.
    pub fn agent_gone(&self, name: &str) {
        // An error says that nothing was ever said.
        let _unknown = self.agent_ready.remove_label_values(&[name]);
        let _unknown = self.card_unapproved.remove_label_values(&[name]);
        for state in ENDPOINT_STATES {
            let _unknown = self.endpoints.remove_label_values(&[name, state]);
        }
    }

    /// The agent was built for a configuration that was refused.
    pub fn agent_refused(&self, name: &str) {
        self.agent_gone(name);
        let agent = &[name];
        let _unknown = [
            self.first_event.remove_label_values(agent),
            self.open_streams.remove_label_values(agent),
            self.stream_events.remove_label_values(agent),
            self.upstream_connections.remove_label_values(agent),
            self.upstream_retries.remove_label_values(agent),
            self.retries_refused.remove_label_values(agent),
            self.ejections.remove_label_values(agent),
            self.health_checks.remove_label_values(&[name, "good"]),
            self.health_checks.remove_label_values(&[name, "bad"]),
            self.panics.remove_label_values(agent),
            self.queued.remove_label_values(agent),
            self.owner_conflicts.remove_label_values(agent),
            self.srv_failures.remove_label_values(agent),
        ];
    }
}

/// The handles of one agent.
pub struct AgentMetrics {
    pub name: Arc<str>,
    calls: Box<[OnceLock<IntCounter>]>,
    durations: Box<[OnceLock<Histogram>]>,
    pub first_event: Histogram,
    pub open_streams: IntGauge,
    pub stream_events: IntCounter,
    pub ready: IntGauge,
    pub card_unapproved: IntGauge,
    pub upstream_connections: IntCounter,
    pub upstream_retries: IntCounter,
    pub retries_refused: IntCounter,
    /// Open, draining, unhealthy, ejected, removed.
    pub endpoints: [IntGauge; 5],
    pub ejections: IntCounter,
    pub checks_good: IntCounter,
    pub checks_bad: IntCounter,
    pub panics: IntCounter,
    pub queued: IntCounter,
    pub owner_conflicts: IntCounter,
    metrics: Metrics,
}

impl std::fmt::Debug for AgentMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AgentMetrics").field(&self.name).finish()
    }
}

impl AgentMetrics {
    /// Counts a finished call; `seconds` only for answers that are not streams.
    pub fn finished(&self, operation: Option<Operation>, outcome: Outcome, seconds: Option<f64>) {
        let place = operation_index(operation);
        let label = operation.map_or("none", Operation::as_str);
        if let Some(slot) = self.calls.get(place * OUTCOMES + outcome_index(outcome)) {
            slot.get_or_init(|| {
                self.metrics
                    .calls
                    .with_label_values(&[&*self.name, label, outcome.as_str()])
            })
            .inc();
        }
        if let (Some(seconds), Some(slot)) = (seconds, self.durations.get(place)) {
            slot.get_or_init(|| self.metrics.duration.with_label_values(&[&*self.name, label]))
                .observe(seconds);
        }
    }

    pub fn upstream_failed(&self, reason: Reason) {
        self.metrics
            .upstream_failures
            .with_label_values(&[&*self.name, reason.as_str()])
            .inc();
    }

    /// `kind` is the label of a kind of limit.
    pub fn limit_reached(&self, kind: &'static str) {
        self.metrics.limit_reached(&self.name, kind);
    }

    pub fn obtained(&self, result: Obtained) {
        let labels = [&*self.name, result.as_str()];
        self.metrics.tokens.with_label_values(&labels).inc();
    }

    pub fn gathered(&self, result: Gathering) {
        let labels = [&*self.name, result.as_str()];
        self.metrics.lists.with_label_values(&labels).inc();
    }

    /// `result` is the label of an outcome or of a reason.
    pub fn pushed(&self, result: &'static str) {
        self.metrics.pushes.with_label_values(&[&*self.name, result]).inc();
    }

    pub fn probed(&self, result: Probed) {
        let labels = [&*self.name, result.as_str()];
        self.metrics.probes.with_label_values(&labels).inc();
    }
}

fn operation_index(operation: Option<Operation>) -> usize {
    operation.map_or(0, |operation| operation as usize + 1)
}

fn outcome_index(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Ok => 0,
        Outcome::AgentError => 1,
        Outcome::Served => 2,
        Outcome::DownstreamGone => 3,
        Outcome::StreamBroken => 4,
        Outcome::Drained => 5,
        Outcome::Revoked => 6,
        Outcome::Delivered => 7,
        Outcome::Rejected(reason) => 8 + reason as usize,
    }
}
