//! Whose a token is to use: everybody's who has it, or only of who proves to be the one that it was given to.
//!
//! What a token says of that (`cnf`, RFC 7800 §3.1) is kept with it and asked of every request, whether the token was
//! remembered or not: a certificate of the connection (RFC 8705 §3), a proof of possession (RFC 9449). A token that is bound
//! is never good without, whatever the configuration says; that only decides which tokens have to be bound.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::request;

use super::super::replays::Replays;
use super::super::resource::Resource;
use super::super::{Bound, Invalid};
use super::dpop::{self, Window};
use crate::config::SenderConstraint;
use crate::tls::Peer;

/// What a request comes with.
pub(in super::super) struct Asked<'a> {
    pub peer: &'a Peer,
    /// The caller's address as seen through trusted proxies.
    pub client: IpAddr,
    pub parts: &'a request::Parts,
    pub at: &'a Resource,
}

/// By which HTTP scheme a token was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presented {
    Bearer,
    Dpop,
}

/// Why a token does not stand for who shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Refusal {
    Because(Invalid),
    /// Too many proofs are remembered to take one more.
    Full,
}

/// Who may use tokens.
pub(super) struct Senders {
    pub(super) constraint: SenderConstraint,
    lifetime: u64,
    leeway: u64,
    replays: Arc<Replays>,
}

impl Senders {
    pub(super) fn new(
        constraint: SenderConstraint,
        lifetime: Duration,
        leeway: Duration,
        replays: &Arc<Replays>,
    ) -> Self {
        replays.keep_for(lifetime.as_secs().saturating_add(leeway.as_secs()));
        Self {
            constraint,
            lifetime: lifetime.as_secs(),
            leeway: leeway.as_secs(),
            replays: Arc::clone(replays),
        }
    }

    /// Whether a token that is bound like this is taken at all.
    pub(super) fn allow(&self, bound: &Bound) -> bool {
        match self.constraint {
            SenderConstraint::Optional => true,
            SenderConstraint::Mtls => bound.certificate.is_some(),
            SenderConstraint::Dpop => bound.key.is_some(),
            SenderConstraint::Required => bound.certificate.is_some() || bound.key.is_some(),
        }
    }

    /// Whether a good token stands for who shows it. The last thing that is asked: a proof is taken once.
    pub(super) fn prove(
        &self,
        bound: &Bound,
        presented: Presented,
        token: &[u8],
        asked: &Asked<'_>,
        now: u64,
    ) -> Result<(), Refusal> {
        let because = |reason| Err(Refusal::Because(reason));
        if !self.allow(bound) {
            return because(Invalid::NotBound);
        }
        if let Some(thumbprint) = &bound.certificate {
            match &asked.peer.certificate {
                Some(shown) if shown.fingerprint == *thumbprint => {
                    // A connection may outlive its certificate.
                    if i64::try_from(now).is_ok_and(|now| now > shown.not_after) {
                        return because(Invalid::CertificateExpired);
                    }
                }
                Some(_) | None => return because(Invalid::NotBound),
            }
        }
        match (presented, &bound.key) {
            (Presented::Bearer, None) => Ok(()),
            // RFC 9449 §7.2: neither may pass for the other.
            (Presented::Bearer, Some(_)) | (Presented::Dpop, None) => because(Invalid::NotBound),
            (Presented::Dpop, Some(key)) => {
                let window = Window {
                    lifetime: self.lifetime,
                    leeway: self.leeway,
                    now,
                };
                let proof = dpop::check(asked.parts, token, asked.at, &window).map_err(Refusal::Because)?;
                if proof.key != *key {
                    return because(Invalid::NotBound);
                }
                self.replays.take(asked.parts, &proof, now)
            }
        }
    }
}
