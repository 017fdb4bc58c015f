//! What a line tells of an event.
//!
//! Every text is bounded and stands as a JSON string in ASCII, so that nobody composes a line, or a character that a viewer
//! obeys. Bodies, credentials and paths of requests have no member here.

use std::net::IpAddr;
use std::time::SystemTime;

use crate::config::AuditEvent;

/// Ids are opaque and may be long. What is cut ends with `…`.
const MAX_TEXT: usize = 256;
/// What the gateway itself says may be longer: names of what changed.
const MAX_DETAIL: usize = 1024;

/// Something that happened. What is `None` or empty has no member in the line.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    pub event: AuditEvent,
    /// How it ended: `ok`, or a label of the access log's outcomes.
    pub outcome: &'a str,
    /// Why the gateway refused.
    pub reason: Option<&'a str>,
    /// More of it, in the gateway's own words.
    pub detail: Option<&'a str>,
    pub principal: Option<&'a str>,
    /// Where the request came from.
    pub client: Option<IpAddr>,
    pub listener: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub operation: Option<&'a str>,
    pub binding: Option<&'a str>,
    pub generation: Option<&'a str>,
    pub endpoint: Option<&'a str>,
    pub task: Option<&'a str>,
    pub context: Option<&'a str>,
    /// Whose something is from now on, and was before.
    pub owner: Option<&'a str>,
    pub owner_before: Option<&'a str>,
    /// The rule that decided.
    pub rule: Option<&'a str>,
    pub request_id: Option<&'a str>,
    pub trace_id: Option<&'a str>,
}

impl Event<'_> {
    pub fn new(event: AuditEvent, outcome: &'static str) -> Self {
        Self {
            event,
            outcome,
            reason: None,
            detail: None,
            principal: None,
            client: None,
            listener: None,
            agent: None,
            operation: None,
            binding: None,
            generation: None,
            endpoint: None,
            task: None,
            context: None,
            owner: None,
            owner_before: None,
            rule: None,
            request_id: None,
            trace_id: None,
        }
    }

    /// As members of a JSON object.
    pub(super) fn members(&self, now: SystemTime) -> Box<str> {
        let mut out = begin(now, self.event.as_str());
        let client = self.client.map(|client| client.to_string());
        for (name, value) in [
            ("outcome", Some(self.outcome)),
            ("reason", self.reason),
            ("principal", self.principal),
            ("client", client.as_deref()),
            ("listener", self.listener),
            ("agent", self.agent),
            ("operation", self.operation),
            ("binding", self.binding),
            ("generation", self.generation),
            ("endpoint", self.endpoint),
            ("task", self.task),
            ("context", self.context),
            ("owner", self.owner),
            ("owner_before", self.owner_before),
            ("rule", self.rule),
            ("request_id", self.request_id),
            ("trace_id", self.trace_id),
        ] {
            member(&mut out, name, value, MAX_TEXT);
        }
        member(&mut out, "detail", self.detail, MAX_DETAIL);
        out.into_boxed_str()
    }
}

/// Of the trail itself.
pub(super) fn of_trail(now: SystemTime, event: &str, detail: &str) -> Box<str> {
    let mut out = begin(now, event);
    member(&mut out, "detail", Some(detail), MAX_DETAIL);
    out.into_boxed_str()
}

/// So many events are not recorded.
pub(super) fn lost(now: SystemTime, count: u64) -> Box<str> {
    let mut out = begin(now, "lost");
    out.push_str(&format!(",\"count\":{count}"));
    out.into_boxed_str()
}

fn begin(now: SystemTime, event: &str) -> String {
    let mut out = String::with_capacity(512);
    out.push_str("\"time\":\"");
    out.push_str(&rfc3339(now));
    out.push('"');
    member(&mut out, "event", Some(event), MAX_TEXT);
    out
}

/// RFC 3339 in UTC with milliseconds.
fn rfc3339(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|time| format!("{time:.3}"))
        .unwrap_or_default()
}

fn member(out: &mut String, name: &str, value: Option<&str>, most: usize) {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return;
    };
    let kept = value.get(..value.floor_char_boundary(most)).unwrap_or_default();
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":\"");
    kept.chars().for_each(|character| escaped(out, character));
    if kept.len() < value.len() {
        escaped(out, '…');
    }
    out.push('"');
}

fn escaped(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        ' '..='~' => out.push(character),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}
