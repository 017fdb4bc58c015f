//! What one request leaves behind: its counters, and its line in the access log. No runtime: nothing is written out.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use super::access::AccessLog;
use super::record::{Observer, rfc3339};
use super::{Metrics, Outcome, Reason, Record};
use crate::a2a::{Operation, TaskId};
use crate::audit::Trail;
use crate::clock::Clock;
use crate::config::LogFormat;

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

#[test]
fn times_have_microseconds() {
    assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00.000000Z");
}
