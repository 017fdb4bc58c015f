//! Metric names and handles. Handles are taken once, so that counting a call is a few atomic additions.

mod agent;

use std::sync::Arc;

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

pub use self::agent::AgentMetrics;
use super::outcome::Reason;

pub const CALLS: &str = "a2a_gateway_calls_total";
pub const CALL_DURATION: &str = "a2a_gateway_call_duration_seconds";
pub const FIRST_EVENT: &str = "a2a_gateway_first_event_seconds";
pub const OPEN_STREAMS: &str = "a2a_gateway_open_streams";
pub const STREAM_EVENTS: &str = "a2a_gateway_stream_events_total";
pub const REJECTS: &str = "a2a_gateway_rejects_total";
pub const CREDENTIAL_QUESTIONS: &str = "a2a_gateway_credential_questions_total";
pub const DECISIONS: &str = "a2a_gateway_decisions_total";
pub const CONNECTIONS_OPEN: &str = "a2a_gateway_connections_open";
pub const CONNECTIONS: &str = "a2a_gateway_connections_total";
pub const CONNECTIONS_REFUSED: &str = "a2a_gateway_connections_refused_total";
pub const CONNECTIONS_ENDED: &str = "a2a_gateway_connections_ended_total";
pub const TLS_FAILURES: &str = "a2a_gateway_tls_handshake_failures_total";
pub const CERTIFICATE_EXPIRY: &str = "a2a_gateway_certificate_expiry_timestamp_seconds";
pub const RELOADS: &str = "a2a_gateway_reloads_total";
pub const CONFIG_APPLIED: &str = "a2a_gateway_config_applied_timestamp_seconds";
pub const FRAGMENTS_REFUSED: &str = "a2a_gateway_fragments_refused";
pub const SRV_FAILURES: &str = "a2a_gateway_srv_failures_total";
pub const FRONT_DOOR: &str = "a2a_gateway_front_door_calls_total";
pub const STREAMS_REVOKED: &str = "a2a_gateway_streams_revoked_total";
pub const AGENT_READY: &str = "a2a_gateway_agent_ready";
pub const CARD_UNAPPROVED: &str = "a2a_gateway_card_unapproved";
pub const UPSTREAM_CONNECTIONS: &str = "a2a_gateway_upstream_connections_opened_total";
pub const UPSTREAM_FAILURES: &str = "a2a_gateway_upstream_failures_total";
pub const TOKENS: &str = "a2a_gateway_upstream_tokens_total";
pub const UPSTREAM_RETRIES: &str = "a2a_gateway_upstream_retries_total";
pub const LIMITS_REACHED: &str = "a2a_gateway_limits_reached_total";
pub const RETRIES_REFUSED: &str = "a2a_gateway_upstream_retries_refused_total";
pub const ENDPOINTS: &str = "a2a_gateway_endpoints";
pub const EJECTIONS: &str = "a2a_gateway_endpoint_ejections_total";
pub const HEALTH_CHECKS: &str = "a2a_gateway_health_checks_total";
pub const PANICS: &str = "a2a_gateway_balance_panics_total";
pub const QUEUED: &str = "a2a_gateway_queued_calls_total";
pub const OWNER_CONFLICTS: &str = "a2a_gateway_owner_conflicts_total";
pub const LISTS: &str = "a2a_gateway_lists_total";
pub const PROBES: &str = "a2a_gateway_probes_total";
pub const PUSHES: &str = "a2a_gateway_push_deliveries_total";
pub const ENVELOPE_MESSAGES: &str = "a2a_gateway_envelope_messages_total";
pub const ENVELOPE_ENTRIES: &str = "a2a_gateway_envelope_entries";
pub const ENVELOPE_EVICTIONS: &str = "a2a_gateway_envelope_evictions_total";
pub const TASKS: &str = "a2a_gateway_tasks";
pub const CONTEXTS: &str = "a2a_gateway_contexts";
pub const ALIASES: &str = "a2a_gateway_task_aliases";
pub const EVICTIONS: &str = "a2a_gateway_task_evictions_total";
pub const JOURNAL_BYTES: &str = "a2a_gateway_journal_bytes";
pub const STORE_DEGRADED: &str = "a2a_gateway_store_degraded";
pub const STORE_RECOVERING: &str = "a2a_gateway_store_recovering";
pub const STORE_WRITE_ERRORS: &str = "a2a_gateway_store_write_errors_total";
pub const STORE_ROUND_TRIP: &str = "a2a_gateway_store_round_trip_seconds";
pub const STORE_ERRORS: &str = "a2a_gateway_store_errors_total";
pub const STORE_UNWRITTEN: &str = "a2a_gateway_store_unwritten";
pub const STORE_DROPPED: &str = "a2a_gateway_store_dropped_total";
pub const ACCESS_LINES_DROPPED: &str = "a2a_gateway_access_lines_dropped_total";
pub const AUDIT_SEQUENCE: &str = "a2a_gateway_audit_sequence";
pub const AUDIT_QUEUED: &str = "a2a_gateway_audit_queued";
pub const AUDIT_LOST: &str = "a2a_gateway_audit_lost_total";
pub const AUDIT_DEGRADED: &str = "a2a_gateway_audit_degraded";
pub const AUDIT_EXPORTED: &str = "a2a_gateway_audit_exported_total";
pub const AUDIT_EXPORT_QUEUED: &str = "a2a_gateway_audit_export_queued";
pub const AUDIT_EXPORT_LOST: &str = "a2a_gateway_audit_export_lost_total";
pub const BUILD_INFO: &str = "a2a_gateway_build_info";

/// Every metric: its name and what it tells. The table in `deploy/README.md` repeats it, and a test compares.
pub const HELP: &[(&str, &str)] = &[
    (CALLS, "Calls by agent, operation and outcome."),
    (
        CALL_DURATION,
        "From the request head to the last byte of the answer; streams not included.",
    ),
    (
        FIRST_EVENT,
        "From the request head to the first stream event passed on.",
    ),
    (OPEN_STREAMS, "Event streams open at this moment."),
    (STREAM_EVENTS, "Stream events passed on."),
    (REJECTS, "Answers that the gateway made itself, by reason and fault."),
    (
        CREDENTIAL_QUESTIONS,
        "Questions about credentials to those who know them, by scheme and by result: `good`, `bad`, `failed` without an answer that says either, `refused` and not asked because too many were under way.",
    ),
    (
        DECISIONS,
        "Questions to decision points whether calls are allowed, by decision point and by outcome: `allowed`, `denied`, `failed` without an answer that says either, `refused` and not asked because too many were under way.",
    ),
    (CONNECTIONS_OPEN, "Downstream connections open at this moment."),
    (CONNECTIONS, "Downstream connections accepted."),
    (
        CONNECTIONS_REFUSED,
        "Downstream connections closed at once, by the limit that was reached.",
    ),
    (
        CONNECTIONS_ENDED,
        "Downstream connections, or single HTTP/2 streams, ended without an answer, by the limit that was reached.",
    ),
    (TLS_FAILURES, "TLS handshakes that failed, by reason."),
    (
        CERTIFICATE_EXPIRY,
        "When the listener's certificate that expires first does, in seconds since 1970.",
    ),
    (
        RELOADS,
        "Reloads of the configuration and of the files that it names, by result.",
    ),
    (
        CONFIG_APPLIED,
        "When the configuration in force was read and found good last, in seconds since 1970.",
    ),
    (
        FRAGMENTS_REFUSED,
        "Files of `agents_directory` whose newest version is not in force, because something is wrong with it.",
    ),
    (
        SRV_FAILURES,
        "Questions for the SRV records of an agent's endpoints without an answer that names any.",
    ),
    (
        FRONT_DOOR,
        "Calls at the front door, by how their agent was found: `affinity`, `named`, `rule`, `default`, `all` for lists and cards, or `none`.",
    ),
    (
        STREAMS_REVOKED,
        "Open event streams ended because a new configuration, or a new owner of their task, does not permit them, by reason.",
    ),
    (
        AGENT_READY,
        "1 when the agent's card and security requirement are known.",
    ),
    (
        CARD_UNAPPROVED,
        "1 while the agent's own card differs from the approved one: held, or published with `on_change: alert`.",
    ),
    (
        UPSTREAM_CONNECTIONS,
        "Connections opened to agents; far below the calls when reuse works.",
    ),
    (UPSTREAM_FAILURES, "Failed exchanges with agents, by reason."),
    (
        TOKENS,
        "Tokens to show agents that were asked for at token servers, by what came of it.",
    ),
    (
        UPSTREAM_RETRIES,
        "Exchanges that were tried again because nothing can have happened upstream.",
    ),
    (
        LIMITS_REACHED,
        "Calls that a limit refused, by the kind of limit; those of the front door as of an agent `front door`.",
    ),
    (
        RETRIES_REFUSED,
        "Exchanges that were not tried again because the retry budget was spent.",
    ),
    (
        ENDPOINTS,
        "Endpoints by state: `open` for new work, `draining`, `unhealthy` by checks, `ejected` after failed calls or unreachable, `removed` by a reload and not gone yet.",
    ),
    (EJECTIONS, "Endpoints ejected after failed calls."),
    (HEALTH_CHECKS, "Health checks of endpoints, by result."),
    (
        PANICS,
        "Choices among all endpoints because fewer than the panic threshold were healthy.",
    ),
    (
        QUEUED,
        "Calls that waited because their endpoint had as many under way as it may.",
    ),
    (
        OWNER_CONFLICTS,
        "Ids that an endpoint returned although they belong to another endpoint or another caller.",
    ),
    (
        LISTS,
        "Lists of tasks gathered from several endpoints, by whether the page was whole.",
    ),
    (
        PROBES,
        "Searches among the endpoints for a task without a record, by what was found.",
    ),
    (
        PUSHES,
        "Notifications for webhooks of callers of another generation than their agent's, by what became of them.",
    ),
    (
        ENVELOPE_MESSAGES,
        "Messages of the envelope protocol from senders who are known, by type.",
    ),
    (
        ENVELOPE_ENTRIES,
        "What is remembered for the envelope protocol: sessions, ids of messages, tokens of those who authenticated in one.",
    ),
    (
        ENVELOPE_EVICTIONS,
        "What went for something newer before its time, of what is remembered for the envelope protocol.",
    ),
    (TASKS, "Task records held."),
    (CONTEXTS, "Context records held."),
    (ALIASES, "Names held that callers of A2A 0.1 gave their tasks."),
    (
        EVICTIONS,
        "Task records dropped at capacity, by whether the task was finished; and callers' own names of tasks (`alias`).",
    ),
    (JOURNAL_BYTES, "Size of the embedded store's journal."),
    (
        STORE_DEGRADED,
        "1 while the store cannot be written, or the shared one not be asked; calls go on from memory.",
    ),
    (
        STORE_RECOVERING,
        "1 while gateways write back what the shared store has lost; ids that are not found are unavailable.",
    ),
    (STORE_WRITE_ERRORS, "Failed writes of the embedded store."),
    (
        STORE_ROUND_TRIP,
        "Answered questions to the shared store, by what was asked.",
    ),
    (
        STORE_ERRORS,
        "Questions that the shared store did not answer, or refused, by reason.",
    ),
    (
        STORE_UNWRITTEN,
        "Records that the shared store does not have yet, or not as they are.",
    ),
    (
        STORE_DROPPED,
        "Records that went for newer ones, or by age, before the shared store had them.",
    ),
    (
        ACCESS_LINES_DROPPED,
        "Access records lost because the log could not be written fast enough.",
    ),
    (
        AUDIT_SEQUENCE,
        "Number of the last line of the audit trail that this process has written.",
    ),
    (AUDIT_QUEUED, "Events that wait to be written to the audit trail."),
    (
        AUDIT_LOST,
        "Events that are not in the audit trail because too many waited.",
    ),
    (AUDIT_DEGRADED, "1 while the audit trail cannot be written."),
    (AUDIT_EXPORTED, "Lines of the audit trail that its collector has taken."),
    (
        AUDIT_EXPORT_QUEUED,
        "Lines of the audit trail that wait for its collector.",
    ),
    (
        AUDIT_EXPORT_LOST,
        "Lines of the audit trail that its collector did not get: too many waited, or it refused them. They stand in the file.",
    ),
    (BUILD_INFO, "Always 1; the version stands in the label."),
];

#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    calls: IntCounterVec,
    duration: HistogramVec,
    first_event: HistogramVec,
    open_streams: IntGaugeVec,
    stream_events: IntCounterVec,
    rejects: Arc<[IntCounter]>,
    credential_questions: IntCounterVec,
    decisions: IntCounterVec,
    pub connections_open: IntGaugeVec,
    pub connections: IntCounterVec,
    pub connections_refused: IntCounterVec,
    pub connections_ended: IntCounterVec,
    pub tls_failures: IntCounterVec,
    pub certificate_expiry: GaugeVec,
    pub reloads: IntCounterVec,
    pub config_applied: Gauge,
    pub fragments_refused: IntGauge,
    pub srv_failures: IntCounterVec,
    pub streams_revoked: IntCounterVec,
    pub front_door: IntCounterVec,
    agent_ready: IntGaugeVec,
    card_unapproved: IntGaugeVec,
    upstream_connections: IntCounterVec,
    upstream_failures: IntCounterVec,
    tokens: IntCounterVec,
    upstream_retries: IntCounterVec,
    retries_refused: IntCounterVec,
    limits_reached: IntCounterVec,
    endpoints: IntGaugeVec,
    ejections: IntCounterVec,
    health_checks: IntCounterVec,
    panics: IntCounterVec,
    queued: IntCounterVec,
    owner_conflicts: IntCounterVec,
    lists: IntCounterVec,
    probes: IntCounterVec,
    pushes: IntCounterVec,
    envelope: EnvelopeMetrics,
    pub tasks: IntGauge,
    pub contexts: IntGauge,
    pub aliases: IntGauge,
    pub evicted_finished: IntGauge,
    pub evicted_live: IntGauge,
    pub evicted_aliases: IntGauge,
    pub journal_bytes: IntGauge,
    pub store_degraded: IntGauge,
    pub store_recovering: IntGauge,
    pub store_write_errors: IntGauge,
    pub store_round_trip: HistogramVec,
    pub store_errors: IntCounterVec,
    pub store_unwritten: IntGauge,
    pub store_dropped: IntGauge,
    pub access_lines_dropped: IntCounter,
    pub audit_sequence: IntGauge,
    pub audit_queued: IntGauge,
    pub audit_lost: IntGauge,
    pub audit_degraded: IntGauge,
    pub audit_exported: IntGauge,
    pub audit_export_queued: IntGauge,
    pub audit_export_lost: IntGauge,
}

/// The envelope protocol has no agent before it has a message.
#[derive(Clone)]
pub struct EnvelopeMetrics {
    messages: IntCounterVec,
    entries: IntGaugeVec,
    evictions: IntCounterVec,
}

impl EnvelopeMetrics {
    /// `kind` is one of a closed set.
    pub fn message(&self, kind: &str) {
        self.messages.with_label_values(&[kind]).inc();
    }

    /// What a table holds, and what went before its time.
    pub fn table(&self, name: &str) -> (IntGauge, IntCounter) {
        let label = &[name];
        (
            self.entries.with_label_values(label),
            self.evictions.with_label_values(label),
        )
    }
}

/// What became of questions to one service.
#[derive(Clone)]
pub struct Questions {
    pub yes: IntCounter,
    pub no: IntCounter,
    /// There was no answer, or none that says anything.
    pub failed: IntCounter,
    /// Not asked: too many were under way.
    pub refused: IntCounter,
}

impl Questions {
    fn of(counters: &IntCounterVec, name: &str, yes: &str, no: &str) -> Self {
        let counter = |outcome: &str| counters.with_label_values(&[name, outcome]);
        Self {
            yes: counter(yes),
            no: counter(no),
            failed: counter("failed"),
            refused: counter("refused"),
        }
    }
}

impl Metrics {
    /// `agent` is one, or the front door; `kind` the label of a kind of limit.
    pub fn limit_reached(&self, agent: &str, kind: &'static str) {
        self.limits_reached.with_label_values(&[agent, kind]).inc();
    }

    /// # Errors
    /// Only when two metrics have one name, which the unit test would show.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let make = Maker(&registry);
        let rejects_by_reason = make.counters(REJECTS, &["reason", "fault"])?;
        let rejects = Reason::ALL
            .iter()
            .map(|reason| rejects_by_reason.with_label_values(&[reason.as_str(), reason.fault().as_str()]))
            .collect();
        let evictions = make.gauges(EVICTIONS, &["state"])?;
        let build: Gauge = make
            .gauges_f64(BUILD_INFO, &["version"])?
            .with_label_values(&[env!("CARGO_PKG_VERSION")]);
        build.set(1.0);
        Ok(Self {
            calls: make.counters(CALLS, &["agent", "operation", "outcome"])?,
            duration: make.histograms(CALL_DURATION, &["agent", "operation"])?,
            first_event: make.histograms(FIRST_EVENT, &["agent"])?,
            open_streams: make.gauges(OPEN_STREAMS, &["agent"])?,
            stream_events: make.counters(STREAM_EVENTS, &["agent"])?,
            rejects,
            credential_questions: make.counters(CREDENTIAL_QUESTIONS, &["scheme", "result"])?,
            decisions: make.counters(DECISIONS, &["decision_point", "outcome"])?,
            connections_open: make.gauges(CONNECTIONS_OPEN, &["listener"])?,
            connections: make.counters(CONNECTIONS, &["listener"])?,
            connections_refused: make.counters(CONNECTIONS_REFUSED, &["listener", "limit"])?,
            connections_ended: make.counters(CONNECTIONS_ENDED, &["limit"])?,
            tls_failures: make.counters(TLS_FAILURES, &["listener", "reason"])?,
            certificate_expiry: make.gauges_f64(CERTIFICATE_EXPIRY, &["listener"])?,
            reloads: make.counters(RELOADS, &["result"])?,
            config_applied: make.gauges_f64(CONFIG_APPLIED, &[])?.with_label_values::<&str>(&[]),
            fragments_refused: make.gauge(FRAGMENTS_REFUSED)?,
            srv_failures: make.counters(SRV_FAILURES, &["agent"])?,
            streams_revoked: make.counters(STREAMS_REVOKED, &["reason"])?,
            front_door: make.counters(FRONT_DOOR, &["choice"])?,
            agent_ready: make.gauges(AGENT_READY, &["agent"])?,
            card_unapproved: make.gauges(CARD_UNAPPROVED, &["agent"])?,
            upstream_connections: make.counters(UPSTREAM_CONNECTIONS, &["agent"])?,
            upstream_failures: make.counters(UPSTREAM_FAILURES, &["agent", "reason"])?,
            tokens: make.counters(TOKENS, &["agent", "result"])?,
            upstream_retries: make.counters(UPSTREAM_RETRIES, &["agent"])?,
            retries_refused: make.counters(RETRIES_REFUSED, &["agent"])?,
            limits_reached: make.counters(LIMITS_REACHED, &["agent", "kind"])?,
            endpoints: make.gauges(ENDPOINTS, &["agent", "state"])?,
            ejections: make.counters(EJECTIONS, &["agent"])?,
            health_checks: make.counters(HEALTH_CHECKS, &["agent", "result"])?,
            panics: make.counters(PANICS, &["agent"])?,
            queued: make.counters(QUEUED, &["agent"])?,
            owner_conflicts: make.counters(OWNER_CONFLICTS, &["agent"])?,
            lists: make.counters(LISTS, &["agent", "result"])?,
            probes: make.counters(PROBES, &["agent", "result"])?,
            pushes: make.counters(PUSHES, &["agent", "result"])?,
            envelope: EnvelopeMetrics {
                messages: make.counters(ENVELOPE_MESSAGES, &["type"])?,
                entries: make.gauges(ENVELOPE_ENTRIES, &["table"])?,
                evictions: make.counters(ENVELOPE_EVICTIONS, &["table"])?,
            },
            tasks: make.gauge(TASKS)?,
            contexts: make.gauge(CONTEXTS)?,
            aliases: make.gauge(ALIASES)?,
            evicted_finished: evictions.with_label_values(&["finished"]),
            evicted_live: evictions.with_label_values(&["live"]),
            evicted_aliases: evictions.with_label_values(&["alias"]),
            journal_bytes: make.gauge(JOURNAL_BYTES)?,
            store_degraded: make.gauge(STORE_DEGRADED)?,
            store_recovering: make.gauge(STORE_RECOVERING)?,
            store_write_errors: make.gauge(STORE_WRITE_ERRORS)?,
            store_round_trip: make.histograms(STORE_ROUND_TRIP, &["operation"])?,
            store_errors: make.counters(STORE_ERRORS, &["reason"])?,
            store_unwritten: make.gauge(STORE_UNWRITTEN)?,
            store_dropped: make.gauge(STORE_DROPPED)?,
            access_lines_dropped: make.counters(ACCESS_LINES_DROPPED, &[])?.with_label_values::<&str>(&[]),
            audit_sequence: make.gauge(AUDIT_SEQUENCE)?,
            audit_queued: make.gauge(AUDIT_QUEUED)?,
            audit_lost: make.gauge(AUDIT_LOST)?,
            audit_degraded: make.gauge(AUDIT_DEGRADED)?,
            audit_exported: make.gauge(AUDIT_EXPORTED)?,
            audit_export_queued: make.gauge(AUDIT_EXPORT_QUEUED)?,
            audit_export_lost: make.gauge(AUDIT_EXPORT_LOST)?,
            registry,
        })
    }

    pub fn envelope(&self) -> EnvelopeMetrics {
        self.envelope.clone()
    }

    /// `scheme` is a name of the configuration.
    pub fn credential_questions(&self, scheme: &str) -> Questions {
        Questions::of(&self.credential_questions, scheme, "good", "bad")
    }

    /// `point` is a name of the configuration.
    pub fn decisions(&self, point: &str) -> Questions {
        Questions::of(&self.decisions, point, "allowed", "denied")
    }

    /// The listener is gone, or has no certificates any more.
    pub fn no_certificates(&self, listener: &str) {
        let _unknown = self.certificate_expiry.remove_label_values(&[listener]);
    }

    pub fn rejected(&self, reason: Reason) {
        if let Some(counter) = self.rejects.get(reason as usize) {
            counter.inc();
        }
    }

    /// The Prometheus text format, version 0.0.4.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// From half a millisecond, which loopback agents reach, to five minutes, which blocking sends reach.
const BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn counters(&self, name: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
        let made = IntCounterVec::new(Opts::new(name, help(name)), labels)?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn gauges(&self, name: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
        let made = IntGaugeVec::new(Opts::new(name, help(name)), labels)?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn gauges_f64(&self, name: &str, labels: &[&str]) -> Result<GaugeVec, prometheus::Error> {
        let made = GaugeVec::new(Opts::new(name, help(name)), labels)?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn gauge(&self, name: &str) -> Result<IntGauge, prometheus::Error> {
        Ok(self.gauges(name, &[])?.with_label_values::<&str>(&[]))
    }

    fn histograms(&self, name: &str, labels: &[&str]) -> Result<HistogramVec, prometheus::Error> {
        let options = HistogramOpts::new(name, help(name)).buckets(BUCKETS.to_vec());
        let made = HistogramVec::new(options, labels)?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }
}

fn help(name: &str) -> &'static str {
    HELP.iter()
        .find(|(known, _)| *known == name)
        .map_or("", |(_, help)| help)
}
