//! Sends what stands in the file of the audit trail to a collector of logs, too (`otlp`).
//!
//! The file is the record, what is sent is a copy of it: a line goes out when it is written, in the order of the file, and no call ever
//! waits for the collector. While that is away lines wait, bounded by their number; later ones are counted and stand in
//! the file alone. An answer that says that the lines cannot be taken as they are (400, 413, 422) gives them up; any other failure
//! is tried again, ever more slowly, so that a collector that restarts, or a credential that is put right, loses nothing.

mod otlp;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tokio::sync::Notify;

use crate::audit::Trail;
use crate::config::{AuditCollector, Problem};
use crate::drain::Drain;
use crate::http::asking::{System, Trust};
use crate::http::fetch;

/// Lines of a second go together.
const EVERY: Duration = Duration::from_secs(1);
/// For what still waits when the process ends: orchestrators give it some 30 seconds for everything.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Of an answer, which has nothing but what was not taken.
const MAX_BYTES: usize = 64 * 1024;
const MAX_HEADER_BYTES: usize = 16 * 1024;
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// What a collector may ask for by `Retry-After`.
const MAX_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Where lines are sent.
pub struct Collector {
    config: AuditCollector,
    headers: HeaderMap,
    trust: Trust,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
    #[error("the collector answered with status {status}")]
    Status {
        status: StatusCode,
        retry_after: Option<Duration>,
    },
    #[error("the collector refuses the lines with status {0}; they stand in the file alone")]
    Refused(StatusCode),
}

impl Collector {
    /// Blocking: reads files.
    pub fn build(config: &AuditCollector) -> Result<Self, Vec<Problem>> {
        let trust = Trust::load(config.ca.as_deref(), System::of(&config.url));
        let trust = trust.map_err(|cause| vec![Problem::new("audit.otlp.ca", cause)])?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = &config.header {
            let (name, value) = credential(name, value.expose())?;
            headers.insert(name, value);
        }
        Ok(Self {
            config: config.clone(),
            headers,
            trust,
        })
    }

    /// It would be built the same. Blocking.
    pub fn is_of(&self, config: &AuditCollector) -> bool {
        self.config == *config && matches!(self.trust.changed(), Ok(None))
    }

    /// How many of the lines were not taken.
    async fn send(&self, lines: &[Box<str>]) -> Result<u64, Error> {
        let options = fetch::Options {
            headers: self.headers.clone(),
            max_bytes: MAX_BYTES,
            max_header_bytes: MAX_HEADER_BYTES,
            timeout: self.config.timeout,
            ..fetch::Options::default()
        };
        let body = Bytes::from(otlp::request(lines).to_string());
        let answer = self
            .trust
            .now()
            .fetcher
            .submit(&self.config.url, body, &options)
            .await?;
        match answer.status {
            status if status.is_success() => Ok(otlp::rejected(&answer.body)),
            status @ (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY) => {
                Err(Error::Refused(status))
            }
            status => Err(Error::Status {
                status,
                retry_after: retry_after(&answer.headers),
            }),
        }
    }
}

fn credential(name: &HeaderName, value: &str) -> Result<(HeaderName, HeaderValue), Vec<Problem>> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        vec![Problem::new(
            "audit.otlp.header",
            "has a value that fits into no header",
        )]
    })?;
    value.set_sensitive(true);
    Ok((name.clone(), value))
}

/// RFC 9110 §10.2.3; a date is not understood.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_PAUSE))
}

/// Sends the lines of a trail, wherever the configuration in force says. Cheap to clone; one for the process.
#[derive(Clone)]
pub struct Exporter(Arc<Inner>);

struct Inner {
    trail: Trail,
    collector: ArcSwapOption<Collector>,
    /// There is another collector.
    turned: Notify,
    failing: AtomicBool,
}

impl Exporter {
    pub fn new(trail: &Trail) -> Self {
        Self(Arc::new(Inner {
            trail: trail.clone(),
            collector: ArcSwapOption::empty(),
            turned: Notify::new(),
            failing: AtomicBool::new(false),
        }))
    }

    /// Lines go there from now on.
    pub fn turn(&self, collector: Option<Arc<Collector>>) {
        let most = collector.as_ref().map_or(0, |collector| collector.config.queue);
        self.0.collector.store(collector);
        self.0.trail.outbox().hold(most);
        self.0.turned.notify_one();
    }

    /// Sends in the background until the process stops.
    pub fn start(&self, drain: &Drain) {
        let exporter = self.clone();
        drain.service(async move {
            let mut failures = 0u32;
            loop {
                exporter.0.trail.outbox().filled().await;
                tokio::time::sleep(EVERY).await;
                let Err(pause) = exporter.send_all().await else {
                    failures = 0;
                    continue;
                };
                let backoff = MIN_BACKOFF.saturating_mul(1 << failures.min(6)).min(MAX_BACKOFF);
                failures = failures.saturating_add(1);
                tokio::select! {
                    () = tokio::time::sleep(backoff.max(pause)) => {}
                    () = exporter.0.turned.notified() => {}
                }
            }
        });
    }

    /// The last step of the process: sends what was written last.
    pub async fn last_words(&self) {
        let _unsent = tokio::time::timeout(LAST_WORDS, self.send_all()).await;
    }

    /// Everything that waits; the error is what the collector asks to wait.
    async fn send_all(&self) -> Result<(), Duration> {
        let Inner {
            trail,
            collector,
            failing,
            ..
        } = &*self.0;
        let outbox = trail.outbox();
        while let Some(lines) = outbox.next() {
            let Some(collector) = collector.load_full() else {
                return Ok(());
            };
            let count = lines.len() as u64;
            match collector.send(&lines).await {
                Ok(rejected) => {
                    let rejected = rejected.min(count);
                    if rejected > 0 {
                        tracing::warn!(rejected, "the collector of the audit trail takes some lines not");
                    }
                    outbox.done(count - rejected, rejected);
                    if failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("the audit trail is exported again");
                    }
                }
                Err(error) => {
                    // Of an outage the first failure.
                    if !failing.swap(true, Ordering::Relaxed) {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "the audit trail cannot be exported; its file goes on");
                    }
                    match error {
                        Error::Refused(_) => outbox.done(0, count),
                        Error::Status { retry_after, .. } => return Err(retry_after.unwrap_or_default()),
                        Error::Fetch(_) => return Err(Duration::ZERO),
                    }
                }
            }
        }
        Ok(())
    }
}
