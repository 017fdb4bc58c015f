//! A key set at a URL: fetched in the background, and once more when a token names a key that is not known.
//!
//! One job per URL does all fetching, so there is never more than one fetch under way, and a caller that leaves cancels
//! nothing. Requests only ring a bell; the job ignores it within `cooldown` of the last attempt, so tokens with invented
//! key ids cause one fetch a cooldown and no more. When a fetch fails the known keys go on without limit: an issuer's
//! outage must not become ours. Until the first success there is no key, and nobody is admitted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::{HeaderValue, StatusCode, header};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::jwks::{self, KeySet};
use super::sha256;
use crate::config::files;
use crate::http::fetch::{self, Fetcher};

/// Sets of large issuers have about 10 KiB.
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
}

pub(super) struct Remote {
    scheme: Arc<str>,
    url: String,
    ca: Option<PathBuf>,
    refresh: Duration,
    cooldown: Duration,
    keys: Arc<ArcSwapOption<KeySet>>,
    trust: ArcSwap<Trust>,
    started: AtomicBool,
    bell: Notify,
    attempts: watch::Sender<Attempts>,
}

/// A fetcher, and what it was made from.
pub(super) struct Trust {
    fetcher: Fetcher,
    /// Of the CA file; zeros for the system's roots.
    digest: [u8; 32],
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
    pub(super) fn new(
        scheme: &Arc<str>,
        url: &str,
        ca: Option<&Path>,
        refresh: Duration,
        cooldown: Duration,
        keys: Arc<ArcSwapOption<KeySet>>,
    ) -> Result<Self, String> {
        Ok(Self {
            scheme: Arc::clone(scheme),
            url: url.to_owned(),
            ca: ca.map(Path::to_owned),
            refresh,
            cooldown,
            keys,
            trust: ArcSwap::from_pointee(Trust::load(url, ca)?),
            started: AtomicBool::new(false),
            bell: Notify::new(),
            attempts: watch::Sender::new(Attempts::default()),
        })
    }

    /// What the CA file says now, if it says something new.
    pub(super) fn changed_trust(&self) -> Result<Option<Trust>, String> {
        if self.ca.is_none() {
            return Ok(None);
        }
        let new = Trust::load(&self.url, self.ca.as_deref())?;
        Ok((new.digest != self.trust.load().digest).then_some(new))
    }

    pub(super) fn trust(&self, trust: Trust) {
        self.trust.store(Arc::new(trust));
    }

    /// True once: whoever gets it runs the job.
    pub(super) fn claim_start(&self) -> bool {
        !self.started.swap(true, Ordering::Relaxed)
    }

    /// Fetches for as long as it is polled.
    pub(super) async fn run(&self) {
        let mut failures = 0u32;
        loop {
            let pause = match self.attempt().await {
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
                    () = tokio::time::sleep_until(next) => break,
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

    async fn attempt(&self) -> Result<(), Error> {
        self.attempts.send_modify(|attempts| {
            attempts.running = true;
            attempts.under_way = true;
            attempts.begun = Some(Instant::now());
        });
        let outcome = self.fetch().await;
        self.attempts.send_modify(|attempts| {
            attempts.under_way = false;
            attempts.ended += 1;
        });
        outcome
    }

    async fn fetch(&self) -> Result<(), Error> {
        let trust = self.trust.load_full();
        let mut options = fetch::Options {
            max_bytes: MAX_BYTES,
            max_header_bytes: MAX_HEADER_BYTES,
            timeout: FETCH_TIMEOUT,
            ..fetch::Options::default()
        };
        options.headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/jwk-set+json, application/json"),
        );
        let fetched = trust.fetcher.get(&self.url, &options).await?;
        if fetched.status != StatusCode::OK {
            return Err(Error::Status(fetched.status));
        }
        let new = KeySet::parse(&fetched.body).map_err(Error::Keys)?;
        // The same set again keeps its generation, so that the checks of the last hour stay good.
        let known = self.keys.load_full();
        if known.is_none_or(|known| known.digest != new.digest) {
            self.keys.store(Some(Arc::new(new)));
            tracing::info!(scheme = &*self.scheme, "the key set has changed");
        }
        Ok(())
    }

    fn backoff(&self, failures: u32, known: bool) -> Duration {
        if known {
            return self.cooldown.max(MIN_BACKOFF).min(self.refresh);
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

impl Trust {
    fn load(url: &str, ca: Option<&Path>) -> Result<Self, String> {
        let mut roots = rustls::RootCertStore::empty();
        let mut digest = [0; 32];
        match ca {
            Some(path) => {
                let pem = files::read(path).map_err(|error| super::api_key::describe(&error))?;
                digest = sha256(&[&pem]);
                for certificate in CertificateDer::pem_slice_iter(&pem) {
                    let certificate = certificate.map_err(|error| format!("{} is not PEM: {error}", path.display()))?;
                    roots
                        .add(certificate)
                        .map_err(|error| format!("a certificate in {} is invalid: {error}", path.display()))?;
                }
                if roots.is_empty() {
                    return Err(format!("{} holds no certificate", path.display()));
                }
            }
            None if url.starts_with("http://") => {}
            None => {
                // One unreadable certificate of the system's must not keep the gateway from starting.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err("the system has no root certificates; name a CA file".to_owned());
                }
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            fetcher: Fetcher::new(Arc::new(config)),
            digest,
        })
    }
}
