//! One record per request: filled by the stages, written when the answer's last byte left or the caller did.
//!
//! It belongs to the response body, so that a caller who leaves is recorded by `Drop` like every other end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::a2a::{ContextId, Dialect, Operation, TaskId};
use crate::audit::{Room, Trail};
use crate::clock::Clock;
use crate::config::LogFormat;

use super::access::AccessLog;
use super::audited::TraceId;
use super::metrics::{AgentMetrics, Metrics};
use super::outcome::{Outcome, Reason};

/// Ids are opaque and may be long; a log line is not the place to keep them whole.
const MAX_LOGGED: usize = 128;

/// What a record is written with; one for the process.
pub struct Observer {
    pub metrics: Metrics,
    /// `None`: no access log.
    pub access: Option<(AccessLog, LogFormat)>,
    pub audit: Trail,
    pub clock: Clock,
}

pub struct Record {
    observer: Arc<Observer>,
    started: Instant,
    pub id: RequestId,
    pub address: IpAddr,
    pub method: http::Method,
    pub listener: Arc<str>,
    pub agent: Option<Arc<AgentMetrics>>,
    pub operation: Option<Operation>,
    pub dialect: Option<Dialect>,
    pub principal: Option<Arc<str>>,
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
    pub endpoint: Option<Arc<str>>,
    pub status: u16,
    /// `DownstreamGone` until somebody knows better: a record dropped early tells the truth.
    pub outcome: Outcome,
    /// A closed label that says more than the outcome, such as why a credential was refused.
    pub detail: Option<&'static str>,
    /// The rule that allowed the call, or the one that could not be evaluated.
    pub rule: Option<Arc<str>>,
    /// A send sets a webhook.
    pub webhook: bool,
    /// As the caller says.
    pub trace: Option<TraceId>,
    /// The gateway's own answer, whether it was taken or not.
    pub refused: Option<Reason>,
    /// The place of its lines in the audit trail, until its end.
    pub(super) room: Option<Room>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub events: u64,
    stream: bool,
    first_event: Option<Duration>,
}

impl Record {
    /// When the request came.
    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn begin(observer: &Arc<Observer>, listener: &Arc<str>, address: IpAddr, method: http::Method) -> Box<Self> {
        Box::new(Self {
            observer: observer.clone(),
            started: Instant::now(),
            id: RequestId::random(),
            address,
            method,
            listener: listener.clone(),
            agent: None,
            operation: None,
            dialect: None,
            principal: None,
            task: None,
            context: None,
            endpoint: None,
            status: 0,
            outcome: Outcome::DownstreamGone,
            detail: None,
            rule: None,
            webhook: false,
            trace: None,
            refused: None,
            room: None,
            bytes_in: 0,
            bytes_out: 0,
            events: 0,
            stream: false,
            first_event: None,
        })
    }

    pub fn trail(&self) -> &Trail {
        &self.observer.audit
    }

    /// The answer is an event stream: counted as open until the record ends.
    pub fn opens_stream(&mut self) {
        if !self.stream {
            self.stream = true;
            if let Some(agent) = &self.agent {
                agent.open_streams.inc();
            }
        }
    }

    pub fn event_passed(&mut self) {
        self.events += 1;
        let Some(agent) = &self.agent else { return };
        agent.stream_events.inc();
        if self.first_event.is_none() {
            let delay = self.started.elapsed();
            agent.first_event.observe(delay.as_secs_f64());
            self.first_event = Some(delay);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        self.audit();
        if let Some(agent) = &self.agent {
            let seconds = (!self.stream).then_some(elapsed.as_secs_f64());
            agent.finished(self.operation, self.outcome, seconds);
            if self.stream {
                agent.open_streams.dec();
            }
        }
        if let Outcome::Rejected(reason) = self.outcome {
            self.observer.metrics.rejected(reason);
        }
        let Some((log, format)) = &self.observer.access else {
            return;
        };
        let line = Line::of(self, elapsed);
        let kept = log.line(|out| match format {
            LogFormat::Json => line.json(out),
            LogFormat::Text => line.text(out),
        });
        if !kept {
            self.observer.metrics.access_lines_dropped.inc();
        }
    }
}

/// Names one request in logs, in the answer's `x-request-id` and towards the agent. Made here, never taken from a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId([u8; 16]);

impl RequestId {
    pub fn random() -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut left = fastrand::u64(..);
        Self(std::array::from_fn(|_| {
            let digit = HEX.get((left & 15) as usize).copied().unwrap_or(b'0');
            left >>= 4;
            digit
        }))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub fn header(&self) -> http::HeaderValue {
        http::HeaderValue::from_bytes(&self.0).unwrap_or_else(|_| http::HeaderValue::from_static("-"))
    }
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    kind: &'static str,
    request: &'a str,
    listener: &'a str,
    address: IpAddr,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<&'a str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    status: u16,
    seconds: f64,
    bytes_in: u64,
    bytes_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_event_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record, elapsed: Duration) -> Self {
        Self {
            time: rfc3339(record.observer.clock.now()),
            kind: "access",
            request: record.id.as_str(),
            listener: &record.listener,
            address: record.address,
            method: method(&record.method),
            agent: record.agent.as_deref().map(|agent| &*agent.name),
            operation: record.operation.map(Operation::as_str),
            generation: record.dialect.map(|dialect| dialect.generation.as_str()),
            binding: record.dialect.map(|dialect| dialect.binding.as_str()),
            principal: record.principal.as_deref().map(shortened),
            outcome: record.outcome.as_str(),
            detail: record.detail,
            rule: record.rule.as_deref(),
            status: record.status,
            seconds: micros(elapsed),
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            events: record.stream.then_some(record.events),
            first_event_seconds: record.first_event.map(micros),
            endpoint: record.endpoint.as_deref(),
            task: record.task.as_ref().map(|task| shortened(task.as_str())),
            context: record.context.as_ref().map(|context| shortened(context.as_str())),
        }
    }

    fn json(&self, out: &mut Vec<u8>) {
        let before = out.len();
        if serde_json::to_writer(&mut *out, self).is_err() {
            out.truncate(before);
            return;
        }
        out.push(b'\n');
    }

    /// `time access key=value …`; texts that a caller could compose stand as JSON strings.
    fn text(&self, out: &mut Vec<u8>) {
        let Ok(serde_json::Value::Object(members)) = serde_json::to_value(self) else {
            return;
        };
        out.extend_from_slice(self.time.as_bytes());
        out.extend_from_slice(b" access");
        for (name, value) in members
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "time" | "kind"))
        {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            match value.as_str().filter(|text| is_plain(text)) {
                Some(plain) => out.extend_from_slice(plain.as_bytes()),
                None => push_ascii(out, &value.to_string()),
            }
        }
        out.push(b'\n');
    }
}

/// Methods that are not served may be any text of any length, and a log is not where callers write.
fn method(method: &http::Method) -> &str {
    use http::Method;
    let served = [Method::GET, Method::HEAD, Method::POST, Method::DELETE, Method::OPTIONS];
    if served.contains(method) {
        method.as_str()
    } else {
        "other"
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'='))
}

/// Terminals and log viewers obey some of what is beyond ASCII: other line ends, changes of direction.
fn push_ascii(out: &mut Vec<u8>, json: &str) {
    for character in json.chars() {
        if character.is_ascii() {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
    }
}

fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_LOGGED)).unwrap_or_default()
}

fn micros(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}

/// RFC 3339 in UTC with microseconds.
pub fn rfc3339(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|time| format!("{time:.6}"))
        .unwrap_or_default()
}
