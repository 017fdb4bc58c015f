//! A token for each caller, for the one that it showed (OAuth 2.0 token exchange, RFC 8693).
//!
//! Tokens are kept by the hash of what they were given for, and neither beyond their own end nor beyond that of the caller's.
//! What a server refuses is remembered for a while, and so is for a second that it failed. One exchange of a token is under
//! way at a time, as a job: a caller that leaves cancels nothing, and others with the same token wait for it. The lock is
//! held over no await.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahash::RandomState;
use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderValue;
use quick_cache::sync::Cache;
use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::Error;
use super::server::{self, ACCESS_TOKEN, Granted, Server};
use crate::config::{self, Problem};
use crate::drain::Drain;
use crate::observe::{AgentMetrics, Obtained};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// For so long a server that failed is not asked for the same token again: each of its calls would wait anew.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// The bearer token by which a caller proved who it is. It goes to the token server, and never on.
#[derive(Clone)]
pub struct Subject {
    token: Arc<Zeroizing<String>>,
    digest: [u8; 32],
    principal: Arc<str>,
    /// When it ends.
    ends: Instant,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.principal).finish()
    }
}

impl Subject {
    /// `holds` is what is left of its life.
    pub fn new(token: &str, principal: &Arc<str>, holds: Duration) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self {
            token: Arc::new(Zeroizing::new(token.to_owned())),
            digest: hash,
            principal: principal.clone(),
            ends: Instant::now() + holds.min(server::MAX_LIFETIME),
        }
    }
}

/// What came of an exchange.
#[derive(Debug)]
pub struct Kept {
    word: Word,
    number: u64,
    begun: Instant,
    /// When to ask again while it still holds.
    fresh: Instant,
    until: Instant,
}

#[derive(Debug)]
enum Word {
    Token(HeaderValue),
    Refused,
    Failed,
}

impl Kept {
    /// The token and its number.
    fn told(&self) -> Result<(HeaderValue, u64), Error> {
        match &self.word {
            Word::Token(value) => Ok((value.clone(), self.number)),
            Word::Refused => Err(Error::Refused),
            Word::Failed => Err(Error::Unavailable),
        }
    }
}

type Results = Cache<[u8; 32], Arc<Kept>>;

pub struct Exchange {
    server: Server,
    config: config::TokenExchange,
    /// Shared with the next configuration that asks in the same way.
    kept: Arc<Results>,
    under_way: Mutex<HashMap<[u8; 32], UnderWay, RandomState>>,
    drain: Drain,
    metrics: Arc<AgentMetrics>,
}

struct UnderWay {
    principal: Arc<str>,
    result: watch::Receiver<Option<Arc<Kept>>>,
}

/// Tells one token from another, in the whole process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl Exchange {
    /// Blocking: reads files.
    pub fn build(
        config: &config::TokenExchange,
        key: &str,
        before: Option<&Self>,
        drain: &Drain,
        metrics: &Arc<AgentMetrics>,
    ) -> Result<Self, Vec<Problem>> {
        Ok(Self {
            server: Server::build(&config.server, key)?,
            kept: before.map_or_else(|| Arc::new(Cache::new(config.tokens)), |before| before.kept.clone()),
            config: config.clone(),
            under_way: Mutex::default(),
            drain: drain.clone(),
            metrics: metrics.clone(),
        })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What is known, if that is enough. A token that should be followed by another is used, and the other one asked for.
    pub fn at_hand(self: &Arc<Self>, subject: &Subject) -> Option<Result<(HeaderValue, u64), Error>> {
        let now = Instant::now();
        let kept = self.kept.get(&subject.digest).filter(|kept| now < kept.until)?;
        if kept.fresh <= now {
            let _busy = self.begin(subject);
        }
        Some(kept.told())
    }

    pub async fn token(self: &Arc<Self>, subject: &Subject) -> Result<(HeaderValue, u64), Error> {
        if let Some(known) = self.at_hand(subject) {
            return known;
        }
        self.begun(subject).await.and_then(|kept| kept.told())
    }

    async fn begun(self: &Arc<Self>, subject: &Subject) -> Result<Arc<Kept>, Error> {
        let mut result = self.begin(subject)?;
        let told = result.wait_for(Option::is_some).await;
        // A job that ended without a word is one that failed.
        let told = told.ok().and_then(|told| told.clone());
        told.ok_or(Error::Unavailable)
    }

    /// The agent did not take the token of this number: another one is got, but for the same caller's token at most once a
    /// `cooldown`.
    pub fn refused(self: &Arc<Self>, subject: &Subject, number: u64) {
        if self.may_ask_again(subject, number) {
            let _busy = self.begin(subject);
        }
    }

    /// The same; waits for the other one.
    pub async fn after(self: &Arc<Self>, subject: &Subject, number: u64) -> bool {
        let is_other = |kept: &Kept| kept.number != number && matches!(kept.word, Word::Token(_));
        match self.kept.get(&subject.digest) {
            Some(kept) if is_other(&kept) => true,
            Some(_) | None if !self.may_ask_again(subject, number) => false,
            Some(_) | None => self.begun(subject).await.is_ok_and(|kept| is_other(&kept)),
        }
    }

    fn may_ask_again(&self, subject: &Subject, number: u64) -> bool {
        let kept = self.kept.get(&subject.digest);
        kept.is_none_or(|kept| kept.number == number && kept.begun.elapsed() >= self.server.config().cooldown)
    }

    /// Joins the exchange of the token that is under way, or begins one.
    fn begin(self: &Arc<Self>, subject: &Subject) -> Result<watch::Receiver<Option<Arc<Kept>>>, Error> {
        let mut under_way = self.lock();
        if let Some(known) = under_way.get(&subject.digest) {
            return Ok(known.result.clone());
        }
        let most = self.config.concurrent;
        let is_own = |known: &&UnderWay| known.principal == subject.principal;
        if under_way.len() >= most || under_way.values().filter(is_own).count() >= most.div_ceil(2) {
            self.metrics.obtained(Obtained::Busy);
            return Err(Error::Unavailable);
        }
        let (tell, result) = watch::channel(None);
        let known = UnderWay {
            principal: subject.principal.clone(),
            result: result.clone(),
        };
        under_way.insert(subject.digest, known);
        let leaves = Leaves {
            exchange: self.clone(),
            digest: subject.digest,
        };
        let subject = subject.clone();
        self.drain.job(async move {
            let kept = Box::pin(leaves.exchange.exchange(&subject)).await;
            // Kept before nobody joins any more: whoever comes later finds it.
            leaves.exchange.kept.insert(subject.digest, kept.clone());
            drop(leaves);
            tell.send_replace(Some(kept));
        });
        Ok(result)
    }

    async fn exchange(&self, subject: &Subject) -> Arc<Kept> {
        let begun = Instant::now();
        let mut grant = vec![
            ("grant_type", GRANT),
            ("subject_token", subject.token.as_str()),
            ("subject_token_type", ACCESS_TOKEN),
        ];
        let requested = self.config.requested_token_type.as_deref();
        grant.extend(requested.map(|requested| ("requested_token_type", requested)));
        let asked = self.server.ask(&grant).await.and_then(|granted| {
            if server::is_asked_for(granted.issued_type.as_deref(), requested) {
                return Ok(granted);
            }
            Err(server::Error::Answer(
                "its `issued_token_type` is not the one that is wanted",
            ))
        });
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let over = |word, pause| {
            let until = Instant::now() + pause;
            Kept {
                word,
                number,
                begun,
                fresh: until,
                until,
            }
        };
        let agent = &*self.metrics.name;
        Arc::new(match asked {
            Ok(Granted { value, lifetime, .. }) => {
                self.metrics.obtained(Obtained::Token);
                let until = (begun + lifetime).min(subject.ends);
                Kept {
                    word: Word::Token(value),
                    number,
                    begun,
                    fresh: (begun + server::refresh_after(lifetime)).min(until),
                    until,
                }
            }
            Err(error) if error.is_about_subject() => {
                self.metrics.obtained(Obtained::Refused);
                let principal = &*subject.principal;
                tracing::info!(agent, principal, %error, "a caller's token was not exchanged");
                over(Word::Refused, self.config.refused_for)
            }
            Err(error) => {
                self.metrics.obtained(Obtained::Failed);
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(agent, error = cause, "no token for a caller could be got");
                match self.kept.get(&subject.digest) {
                    // The one before goes on while it holds.
                    Some(before) if matches!(before.word, Word::Token(_)) && Instant::now() < before.until => Kept {
                        word: match &before.word {
                            Word::Token(value) => Word::Token(value.clone()),
                            Word::Refused | Word::Failed => Word::Failed,
                        },
                        number: before.number,
                        begun,
                        fresh: Instant::now() + FAILED_FOR,
                        until: before.until,
                    },
                    Some(_) | None => over(Word::Failed, FAILED_FOR),
                }
            }
        })
    }

    /// Nothing here panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], UnderWay, RandomState>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes an exchange off the list, however it ends.
struct Leaves {
    exchange: Arc<Exchange>,
    digest: [u8; 32],
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.exchange.lock().remove(&self.digest);
    }
}
