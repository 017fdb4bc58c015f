//! The audit trail: a file that can be named, a key that cannot be guessed.

use super::super::Secret;
use super::super::model::{Audit, AuditCollector, AuditEvent, OnFull};
use super::super::raw::{RawAudit, RawAuditCollector, RawAuditEvent, RawOnFull};
use super::super::units::Size;
use super::pages::{LEAST_KEY, TOO_SHORT};
use super::tokens::private_url;
use super::{Check, HOUR, MILLISECOND, SECOND, credential};

/// A line is at most a few KiB.
const LEAST_FILE: Size = Size::kib(16);
const MOST_FILE: Size = Size::mib(1 << 20);

/// The outer `None`: something is wrong with it.
pub fn audit(check: &mut Check<'_>, raw: Option<&RawAudit>) -> Option<Option<Audit>> {
    let Some(raw) = raw else {
        return Some(None);
    };
    let file = match raw.file.as_deref() {
        // It may not be there yet.
        Some(file) => check.folder("audit.file", file),
        None => None,
    };
    let key = key(check, raw);
    let max_bytes = check.size("audit.max_bytes", raw.max_bytes, LEAST_FILE, MOST_FILE);
    let keep = check.count("audit.keep", raw.keep, 1, 1000);
    let queue = check.count("audit.queue", raw.queue, 16, 1_000_000);
    let sync_interval = check.time("audit.sync_interval", raw.sync_interval, MILLISECOND * 10, HOUR);
    let otlp = match &raw.otlp {
        Some(raw) => collector(check, raw).map(Some),
        None => Some(None),
    };
    let mut events: Vec<AuditEvent> = raw.events.items().map(|(_, named)| event(*named)).collect();
    if raw.events.is_empty() {
        let usual = AuditEvent::ALL
            .iter()
            .filter(|event| **event != AuditEvent::RateLimited);
        events.extend(usual);
    }
    Some(Some(Audit {
        file: file?,
        key: key?,
        max_bytes: u64::try_from(max_bytes).unwrap_or(u64::MAX),
        keep,
        on_full: match raw.on_full {
            RawOnFull::Block => OnFull::Block,
            RawOnFull::Drop => OnFull::Drop,
        },
        events,
        queue,
        sync_interval,
        otlp: otlp?,
    }))
}

fn collector(check: &mut Check<'_>, raw: &RawAuditCollector) -> Option<AuditCollector> {
    let url = raw.url.as_deref();
    let parsed = url.and_then(|url| private_url(check, "audit.otlp.url", url, "the trail says who does what"));
    if raw.ca.is_some() && parsed.as_ref().is_some_and(|url| !url.secure) {
        check.problem("audit.otlp.ca", "has no effect: `url` is http");
    }
    let ca = check.optional_path("audit.otlp.ca", raw.ca.as_ref());
    let header = match &raw.header {
        Some(raw) => credential::header(check, "audit.otlp.header", raw).map(Some),
        None => Some(None),
    };
    let timeout = check.time("audit.otlp.timeout", raw.timeout, MILLISECOND, SECOND * 60);
    let queue = check.count("audit.otlp.queue", raw.queue, 16, 1_000_000);
    parsed?;
    Some(AuditCollector {
        url: url?.to_owned(),
        ca,
        header: header?,
        timeout,
        queue,
    })
}

/// The outer `None`: it is given, and is none.
fn key(check: &mut Check<'_>, raw: &RawAudit) -> Option<Option<Secret<String>>> {
    if raw.key.is_none() && raw.key_file.is_none() {
        return Some(None);
    }
    let (key, secret) = check.secret("audit", "key", raw.key.as_ref(), raw.key_file.as_ref())?;
    if secret.expose().chars().count() < LEAST_KEY {
        check.problem(&key, TOO_SHORT);
        return None;
    }
    Some(Some(secret))
}

fn event(raw: RawAuditEvent) -> AuditEvent {
    match raw {
        RawAuditEvent::AuthenticationFailed => AuditEvent::AuthenticationFailed,
        RawAuditEvent::Denied => AuditEvent::Denied,
        RawAuditEvent::RateLimited => AuditEvent::RateLimited,
        RawAuditEvent::TaskCreated => AuditEvent::TaskCreated,
        RawAuditEvent::TaskCancel => AuditEvent::TaskCancel,
        RawAuditEvent::TaskTransferred => AuditEvent::TaskTransferred,
        RawAuditEvent::ContextTransferred => AuditEvent::ContextTransferred,
        RawAuditEvent::PushSet => AuditEvent::PushSet,
        RawAuditEvent::PushDelete => AuditEvent::PushDelete,
        RawAuditEvent::CardPublished => AuditEvent::CardPublished,
        RawAuditEvent::AgentInService => AuditEvent::AgentInService,
        RawAuditEvent::AgentOutOfService => AuditEvent::AgentOutOfService,
        RawAuditEvent::EndpointDrained => AuditEvent::EndpointDrained,
        RawAuditEvent::EndpointUndrained => AuditEvent::EndpointUndrained,
        RawAuditEvent::ConfigurationLoaded => AuditEvent::ConfigurationLoaded,
        RawAuditEvent::ConfigurationReloaded => AuditEvent::ConfigurationReloaded,
        RawAuditEvent::ConfigurationRefused => AuditEvent::ConfigurationRefused,
        RawAuditEvent::KeysChanged => AuditEvent::KeysChanged,
        RawAuditEvent::GatewayStarted => AuditEvent::GatewayStarted,
        RawAuditEvent::GatewayStopped => AuditEvent::GatewayStopped,
    }
}
