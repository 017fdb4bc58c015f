//! What a caller is told about the rule that refused it.
//!
//! `RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-10; they stand only on refusals, where
//! they help, so that admitted calls cost nothing.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

/// A rule refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {rule} is reached")]
pub struct Limited {
    pub rule: Arc<str>,
    /// At least a second, because the fields count in seconds.
    pub retry_after: Duration,
    /// Calls or bytes in `window`, or calls or tasks at the same time.
    pub limit: u64,
    pub kind: Kind,
    pub remaining: u32,
    /// `None` for rules on concurrency.
    pub window: Option<Duration>,
    policy: HeaderValue,
    name: Arc<str>,
}

impl Limited {
    /// Adds all three fields.
    pub fn headers(&self, headers: &mut http::HeaderMap) {
        headers.insert("ratelimit-policy", self.policy_header());
        headers.insert("ratelimit", self.state_header());
        headers.insert(http::header::RETRY_AFTER, self.retry_after_header());
    }

    /// For `RateLimit-Policy`: `"calls";q=60;w=60`.
    pub fn policy_header(&self) -> HeaderValue {
        self.policy.clone()
    }

    /// For `RateLimit`: `"calls";r=0;t=12`; no time for rules on concurrency, because nobody knows it.
    pub fn state_header(&self) -> HeaderValue {
        let mut text = format!("\"{}\";r={}", self.name, self.remaining);
        if self.window.is_some() {
            text.push_str(&format!(";t={}", seconds(self.retry_after)));
        }
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("\"limit\";r=0"))
    }

    /// For `Retry-After`.
    pub fn retry_after_header(&self) -> HeaderValue {
        HeaderValue::from(seconds(self.retry_after))
    }
}

/// What a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rate,
    TaskCreations,
    Polls,
    Concurrent,
    OpenStreams,
    OpenTasks,
    BytesIn,
    BytesOut,
}

impl Kind {
    /// The label of metrics and of the access log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::TaskCreations => "task_creations",
            Self::Polls => "polls",
            Self::Concurrent => "concurrent",
            Self::OpenStreams => "open_streams",
            Self::OpenTasks => "open_tasks",
            Self::BytesIn => "bytes_in",
            Self::BytesOut => "bytes_out",
        }
    }

    /// The quota unit; `None` for requests, which need not be said. The draft has none for tasks, and a unit that nobody knows misleads
    /// less than a wrong one.
    fn unit(self) -> Option<&'static str> {
        match self {
            Self::Rate | Self::TaskCreations | Self::Polls => None,
            Self::Concurrent | Self::OpenStreams => Some("concurrent-requests"),
            Self::OpenTasks => Some("open-tasks"),
            Self::BytesIn | Self::BytesOut => Some("content-bytes"),
        }
    }
}

/// What can be said of a rule before anybody asks.
pub(super) struct Policy {
    rule: Arc<str>,
    /// The rule's name as the inside of a structured-field string (RFC 9651 §3.3.3).
    name: Arc<str>,
    limit: u64,
    kind: Kind,
    window: Option<Duration>,
    header: HeaderValue,
}

impl Policy {
    /// What callers may do so often, or so much of, in a period.
    pub(super) fn rate(rule: &str, kind: Kind, count: u64, period: Duration) -> Self {
        let name = structured(rule);
        let unit = kind.unit().map_or_else(String::new, |unit| format!(";qu=\"{unit}\""));
        let text = format!("\"{name}\";q={count}{unit};w={}", seconds(period));
        Self::new(rule, &name, kind, count, Some(period), text)
    }

    /// What callers may have at one time.
    pub(super) fn concurrent(rule: &str, kind: Kind, limit: u32) -> Self {
        let name = structured(rule);
        let unit = kind.unit().unwrap_or("requests");
        let text = format!("\"{name}\";q={limit};qu=\"{unit}\"");
        Self::new(rule, &name, kind, u64::from(limit), None, text)
    }

    fn new(rule: &str, name: &str, kind: Kind, limit: u64, window: Option<Duration>, text: String) -> Self {
        Self {
            rule: Arc::from(rule),
            name: Arc::from(name),
            limit,
            kind,
            window,
            header: HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("\"limit\"")),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn rule(&self) -> &str {
        &self.rule
    }

    pub(super) fn refuse(&self, wait: Duration) -> Limited {
        Limited {
            rule: Arc::clone(&self.rule),
            retry_after: Duration::from_secs(seconds(wait)),
            limit: self.limit,
            kind: self.kind,
            remaining: 0,
            window: self.window,
            policy: self.header.clone(),
            name: Arc::clone(&self.name),
        }
    }
}

/// Whole seconds, upwards: a caller that comes back must not be early.
fn seconds(duration: Duration) -> u64 {
    let part = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(part).max(1)
}

fn structured(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            ' '..='~' => text.push(character),
            _ => text.push('_'),
        }
    }
    text
}
