//! What one request leaves behind: its counters, and its line in the access log. No runtime: nothing is written out.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use super::access::AccessLog;
use super::record::{Observer, rfc3339};
use super::{Metrics, Outcome, Reason, Record, TraceId};
use crate::a2a::{Operation, TaskId};
use crate::audit::Trail;
use crate::clock::Clock;
use crate::config::{self, AuditEvent, LogFormat};

/// Lets `fill` describe a request, ends it, and gives the metrics and the log.
fn recorded(format: LogFormat, fill: impl FnOnce(&mut Record, &Metrics)) -> (String, String) {
    let written = Arc::new(Mutex::new(Vec::new()));
    let sink = written.clone();
    let log = AccessLog::to(move |bytes| sink.lock().unwrap().extend_from_slice(bytes));
    let observer = Arc::new(Observer {
        metrics: Metrics::new().expect("every metric has a name of its own"),
        access: Some((log.clone(), format)),
        audit: Trail::new(Clock::system()),
        clock: Clock::from_fn(|| UNIX_EPOCH + Duration::from_micros(1_500_000)),
    });
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut record = Record::begin(&observer, &Arc::from("main"), address, http::Method::POST);
    fill(&mut record, &observer.metrics);
    drop(record);
    log.flush();
    let line = String::from_utf8(written.lock().unwrap().clone()).unwrap();
    (observer.metrics.render().unwrap(), line)
}

#[test]
fn every_reject_is_shown_before_it_happens() {
    let (metrics, _) = recorded(LogFormat::Text, |_, _| {});
    for reason in Reason::ALL {
        let row = format!(
            "a2a_gateway_rejects_total{{fault=\"{}\",reason=\"{}\"}} 0",
            reason.fault().as_str(),
            reason.as_str()
        );
        assert!(metrics.contains(&row), "{row} in:\n{metrics}");
    }
}

#[test]
fn a_call_is_counted_by_agent_operation_and_outcome() {
    let (metrics, line) = recorded(LogFormat::Text, |record, metrics| {
        record.agent = Some(metrics.agent("maps"));
        record.operation = Some(Operation::Send);
        record.outcome = Outcome::Rejected(Reason::UpstreamBusy);
    });
    for row in [
        "a2a_gateway_calls_total{agent=\"maps\",operation=\"send\",outcome=\"upstream_busy\"} 1",
        "a2a_gateway_call_duration_seconds_count{agent=\"maps\",operation=\"send\"} 1",
        "a2a_gateway_rejects_total{fault=\"upstream\",reason=\"upstream_busy\"} 1",
    ] {
        assert!(metrics.contains(row), "{row} in:\n{metrics}");
    }
    assert!(line.contains(" outcome=upstream_busy "), "{line}");
}

#[test]
fn a_stream_is_open_until_its_record_ends() {
    let (metrics, line) = recorded(LogFormat::Text, |record, metrics| {
        record.agent = Some(metrics.agent("maps"));
        record.opens_stream();
        record.opens_stream();
        let open = metrics.render().unwrap();
        assert!(open.contains("a2a_gateway_open_streams{agent=\"maps\"} 1"), "{open}");
        record.event_passed();
        record.event_passed();
    });
    for row in [
        "a2a_gateway_open_streams{agent=\"maps\"} 0",
        "a2a_gateway_stream_events_total{agent=\"maps\"} 2",
        "a2a_gateway_first_event_seconds_count{agent=\"maps\"} 1",
    ] {
        assert!(metrics.contains(row), "{row} in:\n{metrics}");
    }
    assert!(
        !metrics.contains("a2a_gateway_call_duration_seconds_count"),
        "{metrics}"
    );
    assert!(line.contains(" events=2 "), "{line}");
}

#[test]
fn a_record_that_is_dropped_early_says_that_the_caller_left() {
    let (_, line) = recorded(LogFormat::Text, |_, _| {});
    assert!(
        line.starts_with("1970-01-01T00:00:01.500000Z access request="),
        "{line}"
    );
    assert!(line.contains(" outcome=downstream_gone status=0 "), "{line}");
}

#[test]
fn what_callers_compose_cannot_forge_a_line() {
    let forged = "ann\noutcome=ok \"x\"";
    let fill = |record: &mut Record, _: &Metrics| {
        record.principal = Some(Arc::from(forged));
        record.method = http::Method::from_bytes(b"EVIL").unwrap();
        record.task = Some(TaskId::new(&"\u{e9}".repeat(100)));
    };
    let (_, text) = recorded(LogFormat::Text, fill);
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    assert!(text.contains(r#" principal="ann\noutcome=ok \"x\"" "#), "{text}");
    assert!(text.contains(" method=other "), "{text}");
    assert!(text.is_ascii() && text.contains(r" task="), "{text}");
    let (_, json) = recorded(LogFormat::Json, fill);
    assert_eq!(json.matches('\n').count(), 1, "{json}");
    let line: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(line["principal"], forged);
    assert_eq!(line["task"], "\u{e9}".repeat(64), "cut at a character within 128 bytes");
}

/// The lines of the audit trail that a request leaves.
fn audited(fill: impl FnOnce(&mut Record, &Metrics)) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let settings = config::Audit {
        file: file.clone(),
        key: None,
        max_bytes: 1 << 20,
        keep: 1,
        on_full: config::OnFull::Drop,
        events: AuditEvent::ALL.to_vec(),
        queue: 16,
        sync_interval: Duration::from_secs(1),
        otlp: None,
    };
    let audit = Trail::new(Clock::system());
    audit.turn(audit.open(Some(&settings)).unwrap());
    let observer = Arc::new(Observer {
        metrics: Metrics::new().expect("every metric has a name of its own"),
        access: None,
        audit: audit.clone(),
        clock: Clock::system(),
    });
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut record = Record::begin(&observer, &Arc::from("main"), address, http::Method::POST);
    fill(&mut record, &observer.metrics);
    drop(record);
    audit.close();
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let own = |line: &serde_json::Value| !line["event"].as_str().unwrap().starts_with("trail_");
    lines.filter(own).collect()
}

/// The only line: its event, outcome and reason.
fn told(fill: impl FnOnce(&mut Record)) -> Option<(String, String, String)> {
    let lines = audited(|record, _| fill(record));
    assert!(lines.len() < 2, "{lines:?}");
    let text = |name: &str| lines[0][name].as_str().unwrap_or_default().to_owned();
    (!lines.is_empty()).then(|| (text("event"), text("outcome"), text("reason")))
}

fn line(event: &str, outcome: &str, reason: &str) -> Option<(String, String, String)> {
    Some((event.to_owned(), outcome.to_owned(), reason.to_owned()))
}

#[test]
fn each_refusal_that_matters_to_security_is_on_record() {
    for reason in Reason::ALL {
        let expected = match reason.as_str() {
            "unauthenticated" | "authentication_unavailable" | "push_unknown" => Some("authentication_failed"),
            "forbidden"
            | "not_allowed"
            | "decision_unavailable"
            | "caller_token_missing"
            | "caller_token_refused"
            | "sender_foreign"
            | "push_foreign" => Some("denied"),
            "rate_limited" => Some("rate_limited"),
            _ => None,
        };
        let found = told(|record| record.outcome = Outcome::Rejected(*reason));
        assert_eq!(
            found,
            expected.and_then(|event| line(event, "refused", reason.as_str()))
        );
    }
    let task = |detail| {
        told(|record| {
            record.outcome = Outcome::Rejected(Reason::TaskNotFound);
            record.detail = Some(detail);
        })
    };
    assert_eq!(task("foreign"), line("denied", "refused", "task_not_found"));
    assert_eq!(task("unknown"), None);
    assert_eq!(
        told(|record| record.outcome = Outcome::Revoked),
        line("denied", "revoked", "")
    );
    assert_eq!(told(|record| record.outcome = Outcome::Ok), None);
}

#[test]
fn who_leaves_before_the_refusal_was_told_is_on_record_all_the_same() {
    let found = told(|record| record.refused = Some(Reason::Unauthenticated));
    assert_eq!(found, line("authentication_failed", "refused", "unauthenticated"));
}

#[test]
fn what_a_call_did_at_its_agent_is_on_record_with_what_came_of_it() {
    for operation in Operation::ALL {
        let event = match operation.as_str() {
            "cancel" => Some("task_cancel"),
            "push-create" => Some("push_set"),
            "push-delete" => Some("push_delete"),
            _ => None,
        };
        for outcome in [Outcome::Ok, Outcome::AgentError, Outcome::DownstreamGone] {
            let found = told(|record| {
                record.operation = Some(operation);
                record.endpoint = Some(Arc::from("http://user:secret@a/"));
                record.outcome = outcome;
            });
            assert_eq!(found, event.and_then(|event| line(event, outcome.as_str(), "")));
        }
        let nowhere = told(|record| {
            record.operation = Some(operation);
            record.outcome = Outcome::Ok;
        });
        assert_eq!(nowhere, None, "{operation:?} that reached no endpoint");
    }
    let webhook = told(|record| {
        record.operation = Some(Operation::Stream);
        record.endpoint = Some(Arc::from("http://a/"));
        record.webhook = true;
        record.outcome = Outcome::Ok;
    });
    assert_eq!(webhook, line("push_set", "ok", ""), "of a send that sets one");
    let lines = audited(|record, _| {
        record.operation = Some(Operation::Cancel);
        record.endpoint = Some(Arc::from("http://user:secret@a/"));
        record.outcome = Outcome::Rejected(Reason::UpstreamTimeout);
    });
    assert_eq!(lines[0]["event"], "task_cancel");
    assert_eq!(lines[0]["reason"], "upstream_timeout");
    assert_eq!(lines[0]["endpoint"], "http://a/");
}

#[test]
fn only_a_well_formed_trace_is_taken() {
    let id = "0af7651916cd43dd8448eb211c80319c";
    let good = format!("00-{id}-b7ad6b7169203331-01");
    let of = |values: &[&str]| {
        let mut headers = http::HeaderMap::new();
        for value in values {
            headers.append("traceparent", http::HeaderValue::from_str(value).unwrap());
        }
        TraceId::of(&headers).map(|trace| trace.as_str().to_owned())
    };
    assert_eq!(of(&[&good]).as_deref(), Some(id));
    assert_eq!(
        of(&[&format!("cc-{id}-b7ad6b7169203331-01-more")]).as_deref(),
        Some(id),
        "a later version"
    );
    for bad in [
        "",
        "x",
        id,
        &good.to_uppercase(),
        &good.replace("00-", "ff-"),
        &good.replace(id, &"0".repeat(32)),
        &good.replace("b7ad6b7169203331", &"0".repeat(16)),
        &good.replace("-01", ""),
        &format!("{good}-more"),
        &format!("{good}0"),
        &format!(" {good}"),
        &good.replace("0af7", "0ag7"),
    ] {
        assert_eq!(of(&[bad]), None, "{bad}");
    }
    assert_eq!(of(&[&good, &good]), None, "twice");
}

#[test]
fn times_have_microseconds() {
    assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00.000000Z");
}
