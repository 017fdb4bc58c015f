//! A token of the gateway's own (OAuth 2.0 client credentials, RFC 6749 §4.4).
//!
//! One job does all asking, so there is never more than one request under way, and a caller that leaves cancels nothing. It
//! asks again before a token ends; if that fails it tries on, further and further apart, and the token is used while it
//! holds. Calls wait only for a request that is under way. An agent that refuses a token rings a bell, which the job ignores
//! within `cooldown` of its last request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Error;
use super::server::{self, Granted, Server};
use crate::config::{Problem, TokenServer};
use crate::observe::{AgentMetrics, Obtained};

/// Attempts that fail follow each other this fast at first and `MAX_BACKOFF` apart at last.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Between two requests, however short the tokens live.
const PAUSE: Duration = Duration::from_millis(500);

/// Tells one token from another, in the whole process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

pub struct Token {
    pub value: HeaderValue,
    pub number: u64,
    /// When to get another one.
    refresh: Instant,
    ends: Instant,
}

pub struct Grant {
    server: Server,
    /// Shared with the grant of the next configuration that asks in the same way.
    token: Arc<ArcSwapOption<Token>>,
    /// The next request waits for nothing: there is another secret.
    urgent: AtomicBool,
    bell: Notify,
    attempts: watch::Sender<Attempts>,
    metrics: Arc<AgentMetrics>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Attempts {
    begun: Option<Instant>,
    under_way: bool,
    ended: u64,
}

impl Grant {
    /// Blocking: reads files.
    pub fn build(
        config: &TokenServer,
        key: &str,
        before: Option<&Self>,
        metrics: &Arc<AgentMetrics>,
    ) -> Result<Self, Vec<Problem>> {
        let server = Server::build(config, key)?;
        Ok(Self {
            token: before.map_or_else(Arc::default, |before| before.token.clone()),
            urgent: AtomicBool::new(before.is_some_and(|before| !before.server.has_secret_of(&server))),
            server,
            bell: Notify::new(),
            attempts: watch::Sender::new(Attempts::default()),
            metrics: metrics.clone(),
        })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn take(&self, renewed: server::Renewed) {
        self.server.take(renewed);
        self.urgent.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    /// Gets tokens for as long as it is polled.
    pub async fn run(self: Arc<Self>) {
        let mut failures = 0u32;
        // The one that is there may be of the configuration before.
        let known = self.current().filter(|_| !self.urgent.load(Ordering::Acquire));
        if let Some(token) = known {
            self.attempts.send_modify(|attempts| attempts.ended += 1);
            self.rest(token.refresh).await;
        }
        loop {
            let next = match self.attempt().await {
                Ok(refresh) => {
                    failures = 0;
                    refresh.max(Instant::now() + PAUSE)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let pause = backoff(failures);
                    tracing::warn!(
                        agent = &*self.metrics.name,
                        error = &error as &dyn std::error::Error,
                        has_one = self.current().is_some(),
                        retry_in = ?pause,
                        "no token for the agent could be got"
                    );
                    Instant::now() + pause
                }
            };
            self.rest(next).await;
        }
    }

    /// Until then, or until the bell is rung for good.
    async fn rest(&self, until: Instant) {
        loop {
            if self.urgent.load(Ordering::Acquire) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                () = self.bell.notified() => {
                    if !self.is_cooling() {
                        return;
                    }
                }
            }
        }
    }

    fn is_cooling(&self) -> bool {
        let begun = self.attempts.borrow().begun;
        begun.is_some_and(|begun| begun.elapsed() < self.server.config().cooldown)
    }

    /// Gives when the token is to be followed by another.
    async fn attempt(&self) -> Result<Instant, server::Error> {
        let begun = Instant::now();
        self.urgent.store(false, Ordering::Release);
        self.attempts.send_modify(|attempts| {
            attempts.under_way = true;
            attempts.begun = Some(begun);
        });
        let asked = self.server.ask(&[("grant_type", "client_credentials")]).await;
        let outcome = asked.map(|granted| {
            let Granted { value, lifetime, .. } = granted;
            // From the moment of the question: the server counts from a later one.
            let refresh = begun + server::refresh_after(lifetime);
            self.token.store(Some(Arc::new(Token {
                value,
                number: NUMBERS.fetch_add(1, Ordering::Relaxed),
                refresh,
                ends: begun + lifetime,
            })));
            refresh
        });
        self.metrics.obtained(match &outcome {
            Ok(_) => Obtained::Token,
            Err(server::Error::Refused { .. }) => Obtained::Refused,
            Err(_) => Obtained::Failed,
        });
        self.attempts.send_modify(|attempts| {
            attempts.under_way = false;
            attempts.ended += 1;
        });
        outcome
    }

    /// The token, while it holds.
    pub fn current(&self) -> Option<Arc<Token>> {
        self.token.load_full().filter(|token| Instant::now() < token.ends)
    }

    /// Waits for the first one, and for what is under way.
    pub async fn token(&self) -> Result<Arc<Token>, Error> {
        let mut attempts = self.attempts.subscribe();
        // Looked at before the token, so that no attempt can end between the two unseen.
        let seen = *attempts.borrow_and_update();
        if let Some(token) = self.current() {
            return Ok(token);
        }
        if seen.ended > 0 && !seen.under_way {
            return Err(Error::Unavailable);
        }
        let ended = attempts.wait_for(|now| now.ended != seen.ended);
        let _patience_ended = tokio::time::timeout(self.server.config().timeout, ended).await;
        self.current().ok_or(Error::Unavailable)
    }

    /// The agent did not take the token of this number.
    pub fn refused(&self, number: u64) {
        let is_it = self.token.load().as_ref().is_some_and(|token| token.number == number);
        if is_it && !self.is_cooling() {
            self.bell.notify_one();
        }
    }

    /// The same; waits for another one, if it is asked for.
    pub async fn after(&self, number: u64) -> Option<Arc<Token>> {
        let other = || self.current().filter(|token| token.number != number);
        let mut attempts = self.attempts.subscribe();
        let seen = *attempts.borrow_and_update();
        if let Some(token) = other() {
            return Some(token);
        }
        if !seen.under_way {
            if self.is_cooling() {
                return None;
            }
            self.bell.notify_one();
        }
        let ended = attempts.wait_for(|now| now.ended != seen.ended);
        let _patience_ended = tokio::time::timeout(self.server.config().timeout, ended).await;
        other()
    }
}

/// Give or take a tenth, so that many gateways do not ask in step.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = MIN_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF);
    pause.mul_f64(0.9 + 0.2 * fastrand::f64())
}
