//! What a line says, and that nobody else composes it.

use std::net::{IpAddr, Ipv4Addr};

use super::{KEY, begin, denied, holds, keyed, off, parsed, record, settings, text};
use crate::audit::Event;
use crate::audit::chain::Link;
use crate::config::AuditEvent;

#[test]
fn a_line_says_what_happened_and_hangs_on_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder);
    let trail = begin(&settings);
    trail.record(&Event {
        reason: Some("forbidden"),
        detail: Some("missing-scope"),
        principal: Some("key:ann"),
        client: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        listener: Some("public"),
        agent: Some("maps"),
        operation: Some("send"),
        binding: Some("jsonrpc"),
        generation: Some("1.0"),
        endpoint: Some("http://10.0.0.1/"),
        task: Some("t"),
        context: Some("c"),
        owner: Some("key:bob"),
        owner_before: Some("key:ann"),
        rule: Some("no-night-shifts"),
        request_id: Some("0123456789abcdef"),
        trace_id: Some("0af7651916cd43dd8448eb211c80319c"),
        ..Event::new(AuditEvent::Denied, "refused")
    });
    trail.flush(false);
    let lines = parsed(&settings.file);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["event"], "trail_opened");
    assert_eq!(lines[0]["detail"], "a new chain");
    assert_eq!(lines[0]["previous"], "0".repeat(64));
    let line = &lines[1];
    assert_eq!(line["previous"], lines[0]["hash"]);
    assert_eq!(line["sequence"], 2);
    assert_eq!(line["time"], "1970-01-01T00:00:01.500Z");
    for (name, value) in [
        ("event", "denied"),
        ("outcome", "refused"),
        ("reason", "forbidden"),
        ("detail", "missing-scope"),
        ("principal", "key:ann"),
        ("client", "127.0.0.1"),
        ("listener", "public"),
        ("agent", "maps"),
        ("operation", "send"),
        ("binding", "jsonrpc"),
        ("generation", "1.0"),
        ("endpoint", "http://10.0.0.1/"),
        ("task", "t"),
        ("context", "c"),
        ("owner", "key:bob"),
        ("owner_before", "key:ann"),
        ("rule", "no-night-shifts"),
        ("request_id", "0123456789abcdef"),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ] {
        assert_eq!(line[name], value, "{name}");
    }
    let all = holds(std::slice::from_ref(&settings.file), &[]);
    assert_eq!((all.lines, all.last.sequence, all.after), (2, 2, Link::NONE));
    assert_eq!(all.last.hash.to_string(), line["hash"]);
    assert_eq!(trail.stats().sequence, 2);
}

#[test]
fn what_callers_compose_is_one_bounded_text_in_ascii() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder);
    let trail = begin(&settings);
    let forged = "t\"}\n{\"sequence\":9,\"hash\":\"\u{202e}\u{7f}\u{0}\\ \u{1f600}";
    let long = "\u{e9}".repeat(4000);
    record(&trail, &[forged, &long]);
    let text = text(&settings.file);
    assert!(
        text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)),
        "{text}"
    );
    assert_eq!(text.lines().count(), 3, "{text}");
    let lines = parsed(&settings.file);
    assert_eq!(lines[1]["task"], forged);
    assert_eq!(lines[2]["task"], format!("{}…", "\u{e9}".repeat(128)));
    holds(std::slice::from_ref(&settings.file), &[]);
}

#[test]
fn only_the_events_that_are_wanted_leave_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&folder);
    settings.events = vec![AuditEvent::TaskCreated];
    let trail = begin(&settings);
    assert!(trail.wants(AuditEvent::TaskCreated) && !trail.wants(AuditEvent::Denied));
    record(&trail, &["t"]);
    assert_eq!(parsed(&settings.file).len(), 1, "trail_opened alone");
    let off = off();
    assert!(!off.is_on() && AuditEvent::ALL.iter().all(|event| !off.wants(*event)));
    off.record(&denied("t"));
    assert_eq!(off.stats(), crate::audit::Stats::default());
}

#[test]
fn a_secret_key_shows_in_no_line_and_no_debug() {
    let folder = tempfile::tempdir().unwrap();
    let settings = keyed(&folder, KEY);
    let trail = begin(&settings);
    record(&trail, &["t"]);
    assert!(!text(&settings.file).contains(KEY));
    assert!(!format!("{settings:?}{trail:?}").contains(KEY));
}
