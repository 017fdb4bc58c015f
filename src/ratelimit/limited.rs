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
    /// Calls in `window`, or calls at the same time.
    pub limit: u32,
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

/// What can be said of a rule before anybody asks.
pub(super) struct Policy {
    rule: Arc<str>,
    /// The rule's name as the inside of a structured-field string (RFC 9651 §3.3.3).
    name: Arc<str>,
    limit: u32,
    window: Option<Duration>,
    header: HeaderValue,
}

impl Policy {
    pub(super) fn rate(rule: &str, count: u32, period: Duration) -> Self {
        let name = structured(rule);
        let text = format!("\"{name}\";q={count};w={}", seconds(period));
        Self::new(rule, &name, count, Some(period), text)
    }

    pub(super) fn concurrent(rule: &str, limit: u32) -> Self {
        let name = structured(rule);
        let text = format!("\"{name}\";q={limit};qu=\"concurrent-requests\"");
        Self::new(rule, &name, limit, None, text)
    }

    fn new(rule: &str, name: &str, limit: u32, window: Option<Duration>, text: String) -> Self {
        Self {
            rule: Arc::from(rule),
            name: Arc::from(name),
            limit,
            window,
            header: HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("\"limit\"")),
        }
    }

    pub(super) fn rule(&self) -> &str {
        &self.rule
    }

    pub(super) fn refuse(&self, wait: Duration) -> Limited {
        Limited {
            rule: Arc::clone(&self.rule),
            retry_after: Duration::from_secs(seconds(wait)),
            limit: self.limit,
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
