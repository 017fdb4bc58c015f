//! Asks somebody about a credential: the issuer about a token, a service about what an HTTP scheme sends.
//!
//! What was said is remembered under a digest of all that was asked, for a while that the configuration bounds, and never
//! past the expiry that the answer names; what is good and what is bad apart, so that guesses push out no caller. Requests
//! that show the same at once share one question. Questions under way are bounded, and one address gets a part of them. An
//! error, a late answer and one that says nothing are the same: nobody is admitted, nothing is remembered, and what was
//! remembered goes on for its time. A question is polled by those who wait for it and ends when the last of them has left.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::StatusCode;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::verifiers::Commit;
use super::{Invalid, Proof, Shown};
use crate::config::{Asking, Problem};
use crate::http::asking::{Joined, News, Place, Service};
use crate::http::fetch;
use crate::observe::metrics::{Metrics, Questions};

pub(super) use crate::http::asking::Request;

/// Good ones that are remembered, some 400 bytes each, and more with every claim that a policy asks for; the least used one
/// makes room.
const MAX_GOOD: usize = 10_000;
/// Bad ones, of which only the digest is kept.
const MAX_BAD: usize = 10_000;

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

pub(super) struct Asker {
    scheme: Arc<str>,
    asking: Asking,
    service: Service,
    good: Cache<[u8; 32], Good>,
    bad: Cache<[u8; 32], Bad>,
    joined: Arc<Joined<Shown>>,
    counters: OnceLock<Questions>,
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

impl Asker {
    /// Blocking. `key` is where the section stands.
    pub(super) fn load(scheme: &Arc<str>, key: &str, asking: &Asking) -> Result<Arc<Self>, Problem> {
        let service = Service::load(&asking.url, asking.ca.as_deref(), asking.timeout, asking.concurrent);
        let service = service.map_err(|cause| Problem::new(ca_key(key), cause))?;
        Ok(Arc::new(Self {
            scheme: Arc::clone(scheme),
            asking: asking.clone(),
            service,
            good: Cache::new(MAX_GOOD),
            bad: Cache::new(MAX_BAD),
            joined: Joined::new(),
            counters: OnceLock::new(),
        }))
    }

    pub(super) fn url(&self) -> &str {
        self.service.url()
    }

    /// Questions are counted from then on.
    pub(super) fn count(&self, metrics: &Metrics) {
        self.counters.get_or_init(|| metrics.credential_questions(&self.scheme));
    }

    /// Takes what the CA file says by now. Blocking.
    pub(super) fn trust_again(self: &Arc<Self>, key: &str) -> Result<Option<Commit>, Problem> {
        let changed = self.service.trust().changed();
        let changed = changed.map_err(|cause| Problem::new(ca_key(key), cause))?;
        let asker = Arc::clone(self);
        Ok(changed.map(|new| Box::new(move || asker.service.trust().believe(new)) as Commit))
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
        let ask = || {
            let place = self.enter(client).ok_or(Shown::Unknowable)?;
            let (request, read) = question();
            Ok(Arc::clone(self).question(digest, request, read, place))
        };
        match self.joined.join(digest, || self.remembered(&digest, now), ask) {
            Ok(joined) => joined.await,
            Err(known) => known,
        }
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
                self.counted(|counters| counters.yes.inc());
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
                self.counted(|counters| counters.no.inc());
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
        match (self.service.note(error.is_some()), error) {
            (Some(News::WorksAgain), _) => {
                tracing::info!(scheme = &*self.scheme, "questions about credentials are answered again");
            }
            (Some(News::Fails), Some(error)) => {
                tracing::warn!(
                    scheme = &*self.scheme,
                    error = error as &dyn std::error::Error,
                    "a question about a credential has no answer; its caller is told to come again"
                );
            }
            (Some(News::Fails), None) | (None, _) => {}
        }
    }

    async fn send(&self, request: Request) -> Result<Answer, Error> {
        let fetched = self.service.send(request).await?;
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
        let place = self.service.enter(client);
        if place.is_none() {
            self.counted(|counters| counters.refused.inc());
        }
        place
    }

    fn counted(&self, count: impl FnOnce(&Questions)) {
        if let Some(counters) = self.counters.get() {
            count(counters);
        }
    }
}

fn ca_key(key: &str) -> String {
    format!("{key}.ca")
}
