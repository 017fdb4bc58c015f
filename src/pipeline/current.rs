//! The configuration in force, and what a connection outlives it with.
//!
//! A request looks once, at its head. An open stream looks again when there is another configuration, or another owner of some
//! task, and ends if its caller would not be admitted, or not to its task.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use ipnet::IpNet;
use tokio::time::Instant;

use super::Pipeline;
use crate::authenticate::Principal;
use crate::authorize::{Again, Asks, Judgement, Permit, Why};
use crate::http::framing::Refusal;
use crate::observe::{Outcome, Reason};
use crate::respond::Reject;
use crate::respond::body::Held;
use crate::respond::standing::{self, Asked, Leave, Standing, Touched};
use crate::tls::{Acceptor, Peer};

/// The configuration in force. A request takes it once, at its head, and keeps it to its last byte.
pub struct Current {
    pipeline: ArcSwap<Pipeline>,
    /// The pipeline's, for those who look often.
    version: AtomicU64,
    /// Held while one takes the place of another, so that the numbers come in order.
    changing: Mutex<()>,
}

impl Current {
    pub fn new(pipeline: Pipeline) -> Self {
        Self {
            version: AtomicU64::new(pipeline.version),
            pipeline: ArcSwap::from_pointee(pipeline),
            changing: Mutex::default(),
        }
    }

    pub fn load(&self) -> Arc<Pipeline> {
        self.pipeline.load_full()
    }

    /// From the next request on. Open streams ask whether they may go on.
    pub fn replace(&self, next: Pipeline) {
        self.change(|_| next);
    }

    /// Open streams ask whether they may go on, of the same configuration: what it says of their tasks is another thing.
    pub fn ask_again(&self) {
        self.change(|now| Pipeline {
            until: now.drain.until_deadline(),
            ..now.clone()
        });
    }

    fn change(&self, next: impl FnOnce(&Pipeline) -> Pipeline) {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.pipeline.load_full();
        let version = before.version + 1;
        let next = Pipeline {
            version,
            ..next(&before)
        };
        self.pipeline.store(Arc::new(next));
        self.version.store(version, Ordering::Release);
        before.until.cancel();
    }
}

/// What the connection tells of a request.
pub struct Downstream {
    pub peer: Peer,
    /// The listener's name when the connection was accepted. Another configuration may call it otherwise.
    pub listener: Arc<str>,
    /// By which configurations know the listener, whatever they call it; `None`: by its name.
    pub door: Option<u64>,
    pub trusted_proxies: Arc<[IpNet]>,
    /// The peer's address as a header value, made once a connection.
    pub address: HeaderValue,
    pub refusal: Refusal,
    pub current: Arc<Current>,
    /// What the listener verifies clients with at the moment; present if this one showed a certificate.
    pub acceptor: Option<Arc<ArcSwapOption<Acceptor>>>,
}

impl Downstream {
    /// The client certificate of the connection, if there is one, is still believed.
    fn is_trusted(&self) -> bool {
        let Some((chain, acceptor)) = self.peer.chain.as_ref().zip(self.acceptor.as_ref()) else {
            return true;
        };
        let acceptor = acceptor.load();
        acceptor.as_ref().is_some_and(|acceptor| acceptor.trusts(chain))
    }

    /// A connection that showed what is not believed any more carries no further request.
    pub(super) fn trusted(&self, held: &mut Held) -> Result<(), Reject> {
        if self.is_trusted() {
            return Ok(());
        }
        held.record.detail = Some(NOT_TRUSTED);
        let reject = Reject::new(Reason::Unauthenticated);
        Err(reject.challenging("MutualTLS realm=\"a2a-gateway\"").closing())
    }

    /// How long the first is good of what permitted a stream and expires.
    fn left(&self, held: &standing::Held, now: u64) -> Option<Duration> {
        let ends = held
            .principals()
            .filter_map(|known| known.expires_after(now, &self.peer));
        ends.min().map(|end| Duration::from_secs(end.saturating_sub(now)))
    }
}

impl Standing for Downstream {
    fn version(&self) -> u64 {
        self.current.version.load(Ordering::Acquire)
    }

    fn ask(&self, agent: &str, held: &standing::Held, touched: Touched<'_>) -> Asked {
        let pipeline = self.current.load();
        if pipeline.drain.is_past_deadline() {
            return Asked::End {
                outcome: Outcome::Drained,
                detail: None,
            };
        }
        let now = pipeline.observer.clock.unix_seconds();
        let ended = if !self.is_trusted() {
            Err(NOT_TRUSTED)
        } else if held.principals().any(|known| known.outlives(&self.peer, now)) {
            Err(NOT_VALID)
        } else {
            pipeline.revoked(agent, self, held, touched)
        };
        let left = self.left(held, now);
        match ended {
            Ok(None) => pipeline.goes_on(left, None),
            Ok(Some(asks)) => {
                let expires = left.map(|left| Instant::now() + left);
                Asked::Asking {
                    until: pipeline.drain.until_deadline().cancelled_owned(),
                    answer: Box::pin(async move {
                        match asks.answered().await {
                            Ok(judgement) => {
                                let left = expires.map(|end| end.saturating_duration_since(Instant::now()));
                                pipeline.goes_on(left, Some(judgement))
                            }
                            Err(refused) => pipeline.ends(match refused.why {
                                Why::Denied => NOT_ALLOWED,
                                Why::NoAnswer | Why::TooMany => "decision-unavailable",
                            }),
                        }
                    }),
                }
            }
            Err(reason) => pipeline.ends(reason),
        }
    }
}

/// The client certificate was good when the connection began.
const NOT_TRUSTED: &str = "certificate-not-trusted";
const NOT_VALID: &str = "credential-not-valid";
/// By the rules, or by a decision point.
const NOT_ALLOWED: &str = "not-allowed";

impl Pipeline {
    /// What a stream that this configuration permits waits on.
    pub(super) fn leave(&self, permit: &Permit, downstream: &Arc<Downstream>) -> Leave {
        let until = self.until.clone().cancelled_owned();
        let principal = permit.principal().clone();
        let now = self.observer.clock.unix_seconds();
        let held = standing::Held {
            principal,
            judgement: permit.judgement().cloned(),
        };
        // What ended within the leeway is asked about at once.
        let ended = held.principals().filter_map(Principal::expires).any(|end| end <= now);
        let left = if ended {
            Some(Duration::ZERO)
        } else {
            downstream.left(&held, now)
        };
        Leave::new(downstream.clone(), held, left, self.version, until)
    }

    /// As far as this configuration says.
    fn goes_on(&self, left: Option<Duration>, judgement: Option<Arc<Judgement>>) -> Asked {
        Asked::GoOn {
            version: self.version,
            until: self.until.clone().cancelled_owned(),
            left,
            judgement,
        }
    }

    fn ends(&self, reason: &'static str) -> Asked {
        let metrics = &self.observer.metrics;
        metrics.streams_revoked.with_label_values(&[reason]).inc();
        Asked::End {
            outcome: Outcome::Revoked,
            detail: Some(reason),
        }
    }

    /// Why a stream that an earlier configuration permitted may not go on, if it may not; else who is to be asked first.
    fn revoked(
        &self,
        name: &str,
        downstream: &Downstream,
        held: &standing::Held,
        touched: Touched<'_>,
    ) -> Result<Option<Box<Asks>>, &'static str> {
        let principal = &*held.principal;
        let Some(agent) = self.agents.iter().find(|known| *known.metrics.name == *name) else {
            return Err("agent-removed");
        };
        let known = || self.verifiers.know_still(principal);
        let enforced = agent.enforced.load();
        let Some(enforced) = enforced.as_ref() else {
            // Its card will tell. Until then the credential has to be good at least.
            return if known() { Ok(None) } else { Err(NOT_VALID) };
        };
        let Some(again) = enforced.requirement.readmit(principal) else {
            return Err(if known() { "requirement-not-met" } else { NOT_VALID });
        };
        let admits = |judgement: &Arc<Judgement>| enforced.admits_to(judgement, principal);
        if !held.judgement.as_ref().is_none_or(admits) {
            return Err("requirement-not-met");
        }
        let ownership = &enforced.ownership;
        let owner = touched.task.and_then(|task| self.affinity.task(name, task));
        let policies = self.policies(downstream, agent);
        let asks = match held
            .judgement
            .as_ref()
            .map(|judgement| judgement.again(policies, &again))
        {
            Some(Again::Stands) => None,
            Some(Again::Asks(asks)) => Some(asks),
            None if policies.is_open() => None,
            Some(Again::Falls) | None => return Err(NOT_ALLOWED),
        };
        let permitted = match (ownership.owner(&again), owner) {
            (Some(own), Some(owner)) => ownership.permits(&again, &own, &owner.principal, touched.operation),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if permitted { Ok(asks) } else { Err("task-not-permitted") }
    }
}
