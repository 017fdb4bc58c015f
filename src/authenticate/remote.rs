//! A key set at a URL: fetched in the background, and once more when a token names a key that is not known.
//!
//! The URL is configured, or a discovery document at a configured URL names it. One job per source does all fetching, so there is never more than one fetch under way, and a caller that leaves cancels
//! nothing. Requests only ring a bell; the job ignores it within `cooldown` of the last attempt, so tokens with invented
//! key ids cause one fetch a cooldown and no more. When a fetch fails the known keys go on without limit: an issuer's
//! outage must not become ours. Until the first success there is no key, and nobody is admitted.
//!
//! A discovery document is fetched first, again with each refresh and after a failed fetch of the keys, and once it was
//! read never twice within `cooldown`. One that cannot be had leaves the place that was known; one that says something
//! wrong is refused, nothing is fetched from what it names, and the known keys go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::discovery;
use super::jwks::{self, KeySet};
use crate::audit::{Event, Trail};
use crate::config::{AuditEvent, FetchedKeys, KeysPlace};
use crate::http::asking::{System, Trust};
use crate::http::fetch;

/// Sets and documents of large issuers have about 10 KiB.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_HEADER_BYTES: usize = 64 * 1024;
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request waits for keys that its token may need; its caller sees an unknown key id after it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the first success, attempts follow each other this fast at first and `MAX_BACKOFF` apart at last.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
    #[error("the answer has status {0} instead of 200")]
    Status(StatusCode),
    #[error("the answer cannot be used")]
    Keys(#[source] jwks::Error),
    #[error("the discovery document is refused")]
    Document(#[source] discovery::Error),
}

pub(super) struct Remote {
    scheme: Arc<str>,
    place: KeysPlace,
    refresh: Duration,
    cooldown: Duration,
    keys: Arc<ArcSwapOption<KeySet>>,
    pub(super) trust: Trust,
    started: AtomicBool,
    bell: Notify,
    trail: OnceLock<Trail>,
    attempts: watch::Sender<Attempts>,
}

/// What the job knows of a discovery document.
#[derive(Default)]
struct Document {
    /// Where the keys are by the last good one.
    keys: Option<String>,
    asked: Option<Instant>,
    /// It is to be looked at again.
    due: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Attempts {
    /// The job runs; without it nobody would answer the bell.
    running: bool,
    begun: Option<Instant>,
    under_way: bool,
    ended: u64,
}

impl Remote {
    /// Blocking.
    pub(super) fn new(
        scheme: &Arc<str>,
        fetched: &FetchedKeys,
        keys: &Arc<ArcSwapOption<KeySet>>,
    ) -> Result<Self, String> {
        let system = match &fetched.place {
            KeysPlace::Url(url) => System::of(url),
            // The keys may be at another place than the document.
            KeysPlace::Discovery { url, .. } => match System::of(url) {
                System::Unneeded => System::Wanted,
                known @ (System::Needed | System::Wanted) => known,
            },
        };
        Ok(Self {
            scheme: Arc::clone(scheme),
            place: fetched.place.clone(),
            refresh: fetched.refresh,
            cooldown: fetched.cooldown,
            keys: Arc::clone(keys),
            trust: Trust::load(fetched.ca.as_deref(), system)?,
            started: AtomicBool::new(false),
            bell: Notify::new(),
            trail: OnceLock::new(),
            attempts: watch::Sender::new(Attempts::default()),
        })
    }

    /// True once: whoever gets it runs the job.
    pub(super) fn claim_start(&self) -> bool {
        !self.started.swap(true, Ordering::Relaxed)
    }

    /// Keys that take the place of others are on record from then on.
    pub(super) fn tell(&self, trail: &Trail) {
        self.trail.get_or_init(|| trail.clone());
    }

    /// Fetches for as long as it is polled.
    pub(super) async fn run(&self) {
        let mut failures = 0u32;
        let mut document = Document::default();
        loop {
            let pause = match self.attempt(&mut document).await {
                Ok(()) => {
                    failures = 0;
                    jitter(self.refresh)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let known = self.keys.load().is_some();
                    let pause = self.backoff(failures, known);
                    tracing::warn!(
                        scheme = &*self.scheme,
                        error = &error as &dyn std::error::Error,
                        keys_known = known,
                        retry_in = ?pause,
                        "the key set could not be fetched"
                    );
                    pause
                }
            };
            let next = Instant::now() + pause;
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(next) => {
                        document.due = true;
                        break;
                    }
                    () = self.bell.notified() => {
                        if !self.cooling() {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// A token named a key that the set of this generation has not: whether there is another set by now.
    pub(super) async fn newer_than(&self, generation: u64) -> bool {
        let newer = || {
            self.keys
                .load()
                .as_ref()
                .is_some_and(|keys| keys.generation != generation)
        };
        // Subscribed before the look at the keys, so that no attempt can end between the two unseen.
        let mut attempts = self.attempts.subscribe();
        let seen = *attempts.borrow_and_update();
        if newer() {
            return true;
        }
        if !seen.running || (!seen.under_way && self.cooling()) {
            return false;
        }
        self.bell.notify_one();
        let ended = attempts.wait_for(|now| now.ended != seen.ended);
        let _patience_ended = tokio::time::timeout(PATIENCE, ended).await;
        newer()
    }

    fn cooling(&self) -> bool {
        self.attempts
            .borrow()
            .begun
            .is_some_and(|begun| begun.elapsed() < self.cooldown)
    }

    async fn attempt(&self, document: &mut Document) -> Result<(), Error> {
        self.attempts.send_modify(|attempts| {
            attempts.running = true;
            attempts.under_way = true;
            attempts.begun = Some(Instant::now());
        });
        let outcome = self.fetch(document).await;
        self.attempts.send_modify(|attempts| {
            attempts.under_way = false;
            attempts.ended += 1;
        });
        outcome
    }

    async fn fetch(&self, document: &mut Document) -> Result<(), Error> {
        let url = self.locate(document).await?;
        // Until the keys are read.
        document.due = true;
        let answer = self.get(&url, "application/jwk-set+json, application/json").await?;
        let new = KeySet::parse(&answer).map_err(Error::Keys)?;
        document.due = false;
        // The same set again keeps its generation, so that the checks of the last hour stay good.
        let known = self.keys.load_full();
        if known.as_ref().is_none_or(|known| known.digest != new.digest) {
            self.keys.store(Some(Arc::new(new)));
            // The first ones change nothing.
            if let Some(trail) = self.trail.get().filter(|_| known.is_some()) {
                trail.record(&Event {
                    detail: Some(&self.scheme),
                    ..Event::new(AuditEvent::KeysChanged, "ok")
                });
            }
            tracing::info!(scheme = &*self.scheme, "the key set has changed");
        }
        Ok(())
    }

    /// The URL of the keys.
    async fn locate(&self, document: &mut Document) -> Result<String, Error> {
        let (url, issuer) = match &self.place {
            KeysPlace::Url(url) => return Ok(url.clone()),
            KeysPlace::Discovery { url, issuer } => (url, issuer),
        };
        let is_recent = document.asked.is_some_and(|asked| asked.elapsed() < self.cooldown);
        if let Some(known) = &document.keys
            && (!document.due || is_recent)
        {
            return Ok(known.clone());
        }
        document.asked = Some(Instant::now());
        let answer = match (self.get(url, "application/json").await, &document.keys) {
            (Ok(answer), _) => answer,
            (Err(error), Some(known)) => {
                tracing::warn!(
                    scheme = &*self.scheme,
                    error = &error as &dyn std::error::Error,
                    "the discovery document could not be fetched; the keys are fetched from where they were"
                );
                return Ok(known.clone());
            }
            (Err(error), None) => return Err(error),
        };
        // Of a refused one nothing holds, what an earlier one said included.
        let known = document.keys.take();
        let named = discovery::keys_url(&answer, url, issuer).map_err(Error::Document)?;
        if known.as_ref() != Some(&named) {
            tracing::info!(
                scheme = &*self.scheme,
                "the discovery document names the place of the keys"
            );
        }
        Ok(document.keys.insert(named).clone())
    }

    async fn get(&self, url: &str, accept: &'static str) -> Result<Bytes, Error> {
        let mut options = fetch::Options {
            max_bytes: MAX_BYTES,
            max_header_bytes: MAX_HEADER_BYTES,
            timeout: FETCH_TIMEOUT,
            ..fetch::Options::default()
        };
        options.headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let fetched = self.trust.now().fetcher.get(url, &options).await?;
        if fetched.status != StatusCode::OK {
            return Err(Error::Status(fetched.status));
        }
        Ok(fetched.body)
    }

    fn backoff(&self, failures: u32, known: bool) -> Duration {
        if known {
            let pause = self.cooldown.max(MIN_BACKOFF);
            return match self.place {
                KeysPlace::Url(_) => pause.min(self.refresh),
                // A document that was refused is asked for again first of all.
                KeysPlace::Discovery { .. } => pause,
            };
        }
        let doublings = failures.saturating_sub(1).min(16);
        MIN_BACKOFF
            .saturating_mul(1 << doublings)
            .min(MAX_BACKOFF)
            .min(self.refresh)
    }
}

/// Up to a tenth less, so that many gateways do not ask in step.
fn jitter(period: Duration) -> Duration {
    period.mul_f64(1.0 - 0.1 * fastrand::f64())
}
