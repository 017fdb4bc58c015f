//! Tokens (RFC 6750, RFC 9449): whose they must be, what proves it, and who may use them.
//!
//! A token proves by its signature (`jwt`), or the issuer says what it is worth (`introspection`). Either way its claims are
//! read by the same code, and its caller has the same id: somebody stays who it is whatever form its tokens have.

mod bearer;
mod dpop;
mod introspection;
mod jwt;
mod sender;
#[cfg(test)]
mod tests;

use std::sync::Arc;

#[cfg(test)]
pub(super) use bearer::MAX_TOKEN;
pub(super) use dpop::FIELD as PROOF_FIELD;
pub(super) use sender::{Asked, Refusal};

use self::sender::{Presented, Senders};

use super::claims::Claims;
use super::facts::{Facts, Given, Reading};
use super::replays::Replays;
use super::verifiers::Commit;
use super::{Credential, Evidence, Invalid, Proof, Shown};
use crate::audit::Trail;
use crate::clock::Clock;
use crate::config::{self, Mapping, Problem, SenderConstraint, TokenProof};
use crate::drain::Drain;
use crate::observe::metrics::Metrics;

/// Before the issuer and the name of a caller in its id.
const KIND: &str = "jwt";

pub(super) struct Verifier {
    terms: Arc<Terms>,
    means: Means,
}

enum Means {
    Signature(jwt::Verifier),
    Introspection(introspection::Verifier),
}

/// Whose tokens are taken.
struct Terms {
    scheme: Arc<str>,
    issuer: String,
    /// Perhaps none where the issuer is asked.
    audience: Vec<String>,
    /// Seconds.
    leeway: u64,
    /// Those that are kept.
    claims: Vec<String>,
    reading: Arc<Reading>,
    senders: Senders,
    clock: Clock,
}

impl Verifier {
    /// `before` is the verifier of an earlier configuration whose keys come from the same place. Blocking.
    pub(super) fn load(
        scheme: &Arc<str>,
        key: &str,
        tokens: &config::Tokens,
        mapping: &Mapping,
        (clock, proofs): (&Clock, &Arc<Replays>),
        before: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if tokens.issuer.is_empty() || tokens.issuer.contains('#') {
            problems.push(Problem::new(
                format!("{key}.issuer"),
                "must be an issuer URL without a fragment; `#` separates it from the subject in the principal's id",
            ));
        }
        let is_asked = matches!(tokens.proof, TokenProof::Introspection { .. });
        if (tokens.audience.is_empty() && !is_asked) || tokens.audience.iter().any(String::is_empty) {
            problems.push(Problem::new(
                format!("{key}.audience"),
                "must name at least one audience; without it tokens for other services would be accepted",
            ));
        }
        if tokens.principal_claim.is_empty() {
            problems.push(Problem::new(format!("{key}.principal_claim"), "must name a claim"));
        }
        let terms = Arc::new(Terms {
            scheme: Arc::clone(scheme),
            issuer: tokens.issuer.clone(),
            audience: tokens.audience.clone(),
            leeway: tokens.leeway.as_secs(),
            claims: tokens.claims.clone(),
            reading: Arc::new(Reading {
                claim: tokens.principal_claim.clone(),
                mapping: mapping.clone(),
            }),
            senders: Senders::new(tokens.sender, tokens.dpop_lifetime, tokens.leeway, proofs),
            clock: clock.clone(),
        });
        let means = match &tokens.proof {
            TokenProof::Signature { keys, profile } => {
                let before = before.and_then(|before| match &before.means {
                    Means::Signature(verifier) => Some(verifier),
                    Means::Introspection(_) => None,
                });
                jwt::Verifier::load(&terms, key, keys, *profile, before).map(Means::Signature)
            }
            TokenProof::Introspection { asking, client } => {
                introspection::Verifier::load(&terms, key, asking, client).map(Means::Introspection)
            }
        };
        match means {
            Ok(means) if problems.is_empty() => Ok(Self { terms, means }),
            Ok(_) => Err(problems),
            Err(problem) => {
                problems.push(problem);
                Err(problems)
            }
        }
    }

    /// The verifier of what the files hold by now, if that is something else. Blocking.
    pub(super) fn renewed(&self, key: &str) -> Result<Option<Self>, Vec<Problem>> {
        let means = match &self.means {
            Means::Signature(verifier) => verifier.renewed(key).map_err(|problem| vec![problem])?,
            Means::Introspection(_) => None,
        };
        Ok(means.map(|verifier| Self {
            terms: Arc::clone(&self.terms),
            means: Means::Signature(verifier),
        }))
    }

    /// Takes what the CA file says by now about where keys are fetched or tokens asked about. Blocking.
    pub(super) fn trust_again(&self, key: &str) -> Result<Option<Commit>, Vec<Problem>> {
        let commit = match &self.means {
            Means::Signature(verifier) => verifier.trust_again(key),
            Means::Introspection(verifier) => verifier.trust_again(key),
        };
        commit.map_err(|problem| vec![problem])
    }

    /// What a caller whose token was good before would show now: whether it has not expired, was of this issuer and for one of
    /// these audiences, and was read as it would be now.
    /// More cannot be told without the token.
    pub(super) fn again(&self, evidence: &Evidence) -> Option<Arc<Proof>> {
        match &evidence.credential {
            Credential::Token {
                audience,
                expires,
                bound,
                read,
            } => {
                let issuer = format!("{KIND}:{}", super::encode(&format!("{}#", self.terms.issuer)));
                // One that was for nobody in particular is good only where that is enough.
                let is_for_us = match self.terms.audience.as_slice() {
                    [] => audience.is_empty(),
                    ours => audience.iter().any(|audience| ours.contains(audience)),
                };
                let holds = expires.is_none_or(|end| self.terms.clock.unix_seconds() < end);
                let expected = holds
                    && *read == self.terms.reading
                    && evidence.id.starts_with(&issuer)
                    && is_for_us
                    && self.terms.senders.allow(bound);
                expected.then(|| Proof::repeated(evidence))
            }
            Credential::Key { .. }
            | Credential::User { .. }
            | Credential::Vouched { .. }
            | Credential::Certificate(_) => None,
        }
    }

    /// Starts the job that fetches the keys, if they are fetched.
    pub(super) fn start(&self, drain: &Drain) {
        match &self.means {
            Means::Signature(verifier) => verifier.start(drain),
            Means::Introspection(_) => {}
        }
    }

    /// Other keys that are fetched are on record from then on.
    pub(super) fn tell(&self, trail: &Trail) {
        match &self.means {
            Means::Signature(verifier) => verifier.tell(trail),
            Means::Introspection(_) => {}
        }
    }

    pub(super) fn count(&self, metrics: &Metrics) {
        match &self.means {
            Means::Signature(_) => {}
            Means::Introspection(verifier) => verifier.count(metrics),
        }
    }

    pub(super) fn constraint(&self) -> SenderConstraint {
        self.terms.senders.constraint
    }

    pub(super) fn ready(&self) -> bool {
        match &self.means {
            Means::Signature(verifier) => verifier.ready(),
            Means::Introspection(_) => true,
        }
    }

    pub(super) async fn verify(&self, asked: &Asked<'_>) -> Shown {
        let (presented, token) = match bearer::token(asked.parts) {
            Ok(Some(found)) => found,
            Ok(None) => return Shown::Nothing,
            Err(reason) => return Shown::Refused(reason),
        };
        let shown = match &self.means {
            Means::Signature(verifier) => verifier.verify(token).await,
            // Boxed, so that calls with signed tokens do not carry the room for it.
            Means::Introspection(verifier) => Box::pin(verifier.verify(asked.client, token)).await,
        };
        match &shown {
            Shown::Proof(proof) => self.sent(proof, presented, token, asked).unwrap_or(shown),
            Shown::Nothing | Shown::Refused(_) | Shown::Unknowable => shown,
        }
    }

    /// What the caller shows instead, if a good token is not its own. Asked of each request: nothing of it is remembered with the
    /// token.
    fn sent(&self, proof: &Proof, presented: Presented, token: &[u8], asked: &Asked<'_>) -> Option<Shown> {
        let now = self.terms.clock.unix_seconds();
        let bound = proof.principal.evidence.iter().find_map(Evidence::bound);
        // What is no token here is none of ours.
        let proven = match bound {
            Some(bound) => self.terms.senders.prove(bound, presented, token, asked, now),
            None => Err(Refusal::Because(Invalid::UnknownBinding)),
        };
        match proven {
            Ok(()) => None,
            Err(Refusal::Because(reason)) => Some(Shown::Refused(reason)),
            Err(Refusal::Full) => Some(Shown::Unknowable),
        }
    }
}

/// Whether the keys come from the same place.
pub(super) fn same_keys(one: &config::Tokens, other: &config::Tokens) -> bool {
    match (&one.proof, &other.proof) {
        (TokenProof::Signature { keys, .. }, TokenProof::Signature { keys: others, .. }) => keys == others,
        (TokenProof::Signature { .. } | TokenProof::Introspection { .. }, _) => false,
    }
}

impl Terms {
    /// Of claims that are of this issuer, for this audience and in time.
    fn proof(&self, claims: &Claims, expires: Option<u64>) -> Result<Arc<Proof>, Invalid> {
        // With a mapping the claim is not needed.
        let Reading { claim, mapping } = &*self.reading;
        let name = match mapping.name {
            Some(_) => "",
            None => claims.principal(claim)?,
        };
        let given = Given::Token {
            claims: claims.all(),
            kept: &self.claims,
            issuer: Some(&self.issuer),
        };
        let facts = Facts::new(mapping, name, claims.scopes()?, &given)?;
        let credential = Credential::Token {
            audience: claims.matched(&self.audience),
            expires,
            bound: claims.bound()?,
            read: Arc::clone(&self.reading),
        };
        Ok(Proof::new(&self.scheme, KIND, facts, credential))
    }
}
