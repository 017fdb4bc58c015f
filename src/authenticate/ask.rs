//! Asks somebody about a credential: the issuer about a token, a service about what an HTTP scheme sends.
//!
//! What was said is remembered under a digest of all that was asked, for a while that the configuration bounds, and never
//! past the expiry that the answer names; what is good and what is bad apart, so that guesses push out no caller. Requests
//! that show the same at once share one question. Questions under way are bounded, and one address gets a part of them. An
//! error, a late answer and one that says nothing are the same: nobody is admitted, nothing is remembered, and what was
//! remembered goes on for its time. A question is polled by those who wait for it and ends when the last of them has left.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ahash::RandomState;
use bytes::Bytes;
use futures_util::future::{FutureExt, Shared, WeakShared};
use http::{HeaderMap, StatusCode};
use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::queue::{Place, Queue};
use super::trust::{System, Trust};
use super::verifiers::Commit;
use super::{Invalid, Proof, Shown};
use crate::config::{Asking, Problem};
use crate::http::fetch;
use crate::observe::metrics::{CredentialQuestions, Metrics};

/// Good ones that are remembered, some 400 bytes each, and more with every claim that a policy asks for; the least used one
/// makes room.
const MAX_GOOD: usize = 10_000;
/// Bad ones, of which only the digest is kept.
const MAX_BAD: usize = 10_000;
/// Of an answer. The claims of somebody with hundreds of groups have some 20 KiB.
const MAX_BYTES: usize = 64 * 1024;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// One address gets a quarter of the questions, so that nobody alone takes them all.
const PART_OF_ONE: usize = 4;

/// The log tells of failures at most this often.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// What somebody said of a credential.
pub(super) enum Said {
    Good {
        proof: Arc<Proof>,
        /// In seconds since 1970.
        expires: Option<u64>,
    },
    Bad(Invalid),
}

/// What was answered.
pub(super) enum Answer {
    /// 200 and a body.
    Told(Bytes),
    /// 401 or 403.
    Refused,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
    #[error("the answer has status {0}")]
    Status(StatusCode),
    #[error("the gateway's own credential is refused")]
    Client,
    #[error("the answer cannot be used: {0}")]
    Answer(&'static str),
}

/// What is sent.
pub(super) enum Request {
    Get(HeaderMap),
    Post(HeaderMap, Bytes),
}

type Question = Pin<Box<dyn Future<Output = Shown> + Send>>;

pub(super) struct Asker {
    scheme: Arc<str>,
    asking: Asking,
    trust: Trust,
    good: Cache<[u8; 32], Good>,
    bad: Cache<[u8; 32], Bad>,
    queue: Arc<Queue>,
    under_way: Mutex<HashMap<[u8; 32], UnderWay, RandomState>>,
    next_entry: AtomicU64,
    failing: Mutex<Failing>,
    counters: OnceLock<CredentialQuestions>,
}

/// What the log was told: the first failure and the first success after it, and of what callers may cause over and over once
/// in a while.
#[derive(Default)]
struct Failing {
    is_told: bool,
    told: Option<Instant>,
}

#[derive(Clone)]
struct Good {
    proof: Arc<Proof>,
    until: Instant,
    expires: Option<u64>,
}

#[derive(Clone)]
struct Bad {
    reason: Invalid,
    until: Instant,
}

struct UnderWay {
    entry: u64,
    question: WeakShared<Question>,
}

/// Takes the question out of those under way, if it still is that one.
struct Entry {
    asker: Arc<Asker>,
    digest: [u8; 32],
    entry: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut under_way = self.asker.under_way();
        if under_way
            .get(&self.digest)
            .is_some_and(|known| known.entry == self.entry)
        {
            under_way.remove(&self.digest);
        }
    }
}

impl Asker {
    /// Blocking. `key` is where the section stands.
    pub(super) fn load(scheme: &Arc<str>, key: &str, asking: &Asking) -> Result<Arc<Self>, Problem> {
        let trust = Trust::load(asking.ca.as_deref(), System::of(&asking.url))
            .map_err(|cause| Problem::new(ca_key(key), cause))?;
        Ok(Arc::new(Self {
            scheme: Arc::clone(scheme),
            asking: asking.clone(),
            trust,
            good: Cache::new(MAX_GOOD),
            bad: Cache::new(MAX_BAD),
            queue: Queue::new(asking.concurrent, (asking.concurrent / PART_OF_ONE).max(1)),
            under_way: Mutex::default(),
            next_entry: AtomicU64::new(0),
            failing: Mutex::default(),
            counters: OnceLock::new(),
        }))
    }

    pub(super) fn url(&self) -> &str {
        &self.asking.url
    }

    /// Questions are counted from then on.
    pub(super) fn count(&self, metrics: &Metrics) {
        self.counters.get_or_init(|| metrics.credential_questions(&self.scheme));
    }

    /// Takes what the CA file says by now. Blocking.
    pub(super) fn trust_again(self: &Arc<Self>, key: &str) -> Result<Option<Commit>, Problem> {
        let changed = self.trust.changed();
        let changed = changed.map_err(|cause| Problem::new(ca_key(key), cause))?;
        let asker = Arc::clone(self);
        Ok(changed.map(|new| Box::new(move || asker.trust.believe(new)) as Commit))
    }

    /// `digest` is of all that `question` sends; `now` in seconds since 1970. `question` gives what is sent and what reads the
    /// answer.
    pub(super) async fn ask<R>(
        self: &Arc<Self>,
        digest: [u8; 32],
        client: IpAddr,
        now: u64,
        question: impl FnOnce() -> (Request, R),
    ) -> Shown
    where
        R: FnOnce(Answer) -> Result<Said, Error> + Send + 'static,
    {
        if let Some(known) = self.remembered(&digest, now) {
            return known;
        }
        // What holds for one request is not shared with others.
        if self.asking.cache_ttl.is_zero() {
            let Some(place) = self.enter(client) else {
                return Shown::Unknowable;
            };
            let (request, read) = question();
            return Box::pin(Arc::clone(self).question(digest, request, read, place)).await;
        }
        match self.join(digest, client, now, question) {
            Ok(shared) => shared.await,
            Err(known) => known,
        }
    }

    /// The question under way about the same, or a new one; what is known meanwhile, or that nothing can be asked, is the error.
    fn join<R>(
        self: &Arc<Self>,
        digest: [u8; 32],
        client: IpAddr,
        now: u64,
        question: impl FnOnce() -> (Request, R),
    ) -> Result<Shared<Question>, Shown>
    where
        R: FnOnce(Answer) -> Result<Said, Error> + Send + 'static,
    {
        let mut under_way = self.under_way();
        // One that nobody waits for any more is about to go.
        if let Some(shared) = under_way.get(&digest).and_then(|known| known.question.upgrade()) {
            return Ok(shared);
        }
        // It may have been answered between the first look and the lock.
        if let Some(known) = self.remembered(&digest, now) {
            return Err(known);
        }
        let place = self.enter(client).ok_or(Shown::Unknowable)?;
        let (request, read) = question();
        let entry = self.next_entry.fetch_add(1, Ordering::Relaxed);
        let on_end = Entry {
            asker: Arc::clone(self),
            digest,
            entry,
        };
        let asked = Arc::clone(self).question(digest, request, read, place);
        let shared = async move {
            let _on_end = on_end;
            asked.await
        };
        let shared = (Box::pin(shared) as Question).shared();
        if let Some(question) = shared.downgrade() {
            under_way.insert(digest, UnderWay { entry, question });
        }
        Ok(shared)
    }

    async fn question<R>(self: Arc<Self>, digest: [u8; 32], request: Request, read: R, place: Place) -> Shown
    where
        R: FnOnce(Answer) -> Result<Said, Error>,
    {
        let answer = self.send(request).await;
        drop(place);
        let said = answer.and_then(read);
        self.tell(said.as_ref().err());
        match said {
            Ok(Said::Good { proof, expires }) => {
                self.counted(|counters| counters.good.inc());
                if !self.asking.cache_ttl.is_zero() {
                    let known = Good {
                        proof: Arc::clone(&proof),
                        until: Instant::now() + self.asking.cache_ttl,
                        expires,
                    };
                    self.good.insert(digest, known);
                }
                Shown::Proof(proof)
            }
            Ok(Said::Bad(reason)) => {
                self.counted(|counters| counters.bad.inc());
                // What was good a moment ago is not any more.
                self.good.remove(&digest);
                if !self.asking.negative_ttl.is_zero() {
                    let until = Instant::now() + self.asking.negative_ttl;
                    self.bad.insert(digest, Bad { reason, until });
                }
                Shown::Refused(reason)
            }
            Err(_) => {
                self.counted(|counters| counters.failed.inc());
                Shown::Unknowable
            }
        }
    }

    /// Tells the log how the last question ended.
    fn tell(&self, error: Option<&Error>) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None if failing.is_told => {
                failing.is_told = false;
                tracing::info!(scheme = &*self.scheme, "questions about credentials are answered again");
            }
            Some(error) if !failing.is_told && failing.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) => {
                *failing = Failing {
                    is_told: true,
                    told: Some(Instant::now()),
                };
                tracing::warn!(
                    scheme = &*self.scheme,
                    error = error as &dyn std::error::Error,
                    "a question about a credential has no answer; its caller is told to come again"
                );
            }
            None | Some(_) => {}
        }
    }

    async fn send(&self, request: Request) -> Result<Answer, Error> {
        let options = |headers| fetch::Options {
            headers,
            max_bytes: MAX_BYTES,
            max_header_bytes: MAX_HEADER_BYTES,
            timeout: self.asking.timeout,
            ..fetch::Options::default()
        };
        let believed = self.trust.now();
        let fetched = match request {
            Request::Get(headers) => believed.fetcher.get(&self.asking.url, &options(headers)).await?,
            Request::Post(headers, body) => {
                let options = options(headers);
                believed.fetcher.submit(&self.asking.url, body, &options).await?
            }
        };
        match fetched.status {
            StatusCode::OK => Ok(Answer::Told(fetched.body)),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(Answer::Refused),
            other => Err(Error::Status(other)),
        }
    }

    fn remembered(&self, digest: &[u8; 32], now: u64) -> Option<Shown> {
        if let Some(known) = self.good.get(digest) {
            if Instant::now() < known.until && known.expires.is_none_or(|expires| now < expires) {
                return Some(Shown::Proof(known.proof));
            }
            self.good.remove(digest);
        }
        let known = self.bad.get(digest)?;
        if Instant::now() < known.until {
            return Some(Shown::Refused(known.reason));
        }
        self.bad.remove(digest);
        None
    }

    fn enter(&self, client: IpAddr) -> Option<Place> {
        let place = self.queue.enter(client);
        if place.is_none() {
            self.counted(|counters| counters.refused.inc());
        }
        place
    }

    fn counted(&self, count: impl FnOnce(&CredentialQuestions)) {
        if let Some(counters) = self.counters.get() {
            count(counters);
        }
    }

    /// Never held across an await, nor while a question is dropped.
    fn under_way(&self) -> MutexGuard<'_, HashMap<[u8; 32], UnderWay, RandomState>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ca_key(key: &str) -> String {
    format!("{key}.ca")
}
