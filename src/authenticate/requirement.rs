//! What a caller of one agent must show, and the check of it.
//!
//! An OR of ANDs: the first alternative that holds names the principal. Where the requirement admits anonymous callers
//! too, only a caller that shows none of its credentials is anonymous: one that shows a wrong or insufficient one believes
//! to act as somebody, and would otherwise create tasks that it cannot find again, or see a public answer as its own.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use http::request;

use super::error::Challenges;
use super::facts::Facts;
use super::head;
use super::resource::{self, Resource, Told};
use super::revoked::Revoked;
use super::token::Asked;
use super::verifiers::{Verifier, Verifiers};
use super::{CredentialPlaces, Error, Invalid, Principal, Proof, Shown};
use crate::a2a::envelope::Credential;
use crate::a2a::security::Security;
use crate::tls::Peer;

/// Longest `scope` that a challenge repeats; the scopes come from a card.
const MAX_SCOPE: usize = 1024;

/// Cheap to clone.
#[derive(Clone)]
pub struct Requirement(Arc<Inner>);

struct Inner {
    /// Those that ask for something.
    alternatives: Vec<Alternative>,
    /// Callers that show nothing are admitted.
    open: bool,
    /// Each verifier that an alternative names, once.
    verifiers: Vec<Arc<Verifier>>,
    places: Arc<CredentialPlaces>,
    revoked: Arc<Revoked>,
    anonymous: Arc<Principal>,
    at: Resource,
    missing: Challenges,
    invalid: Challenges,
    /// Where it is the proof of possession that is wrong.
    bad_proof: Challenges,
}

struct Alternative {
    needs: Vec<Need>,
    scopes: Arc<[String]>,
    insufficient: Challenges,
}

struct Need {
    verifier: Arc<Verifier>,
    /// Its place in `Inner::verifiers`.
    index: usize,
    scopes: Vec<String>,
}

impl Requirement {
    /// `find` gives the verifier of a scheme; the names of those without one are the error.
    pub(super) fn new<'v>(
        security: &Security,
        (places, revoked): (&Arc<CredentialPlaces>, &Arc<Revoked>),
        at: &Resource,
        find: impl Fn(&str) -> Option<&'v Arc<Verifier>>,
    ) -> Result<Self, Vec<String>> {
        let mut verifiers: Vec<Arc<Verifier>> = Vec::new();
        let mut unknown = BTreeSet::new();
        let mut alternatives = Vec::new();
        for uses in &security.alternatives {
            let mut needs = Vec::with_capacity(uses.len());
            for one in uses {
                let Some(verifier) = find(&one.scheme) else {
                    unknown.insert(one.scheme.clone());
                    continue;
                };
                let known = verifiers.iter().position(|v| Arc::ptr_eq(v, verifier));
                let index = known.unwrap_or_else(|| {
                    verifiers.push(Arc::clone(verifier));
                    verifiers.len() - 1
                });
                needs.push(Need {
                    verifier: Arc::clone(verifier),
                    index,
                    scopes: one.scopes.clone(),
                });
            }
            if !uses.is_empty() {
                alternatives.push(Alternative::new(needs, at));
            }
        }
        if !unknown.is_empty() {
            return Err(unknown.into_iter().collect());
        }
        let challenges = |told| {
            Challenges::from(distinct(
                verifiers.iter().flat_map(|verifier| verifier.challenges(told, at)),
            ))
        };
        Ok(Self(Arc::new(Inner {
            alternatives,
            open: security.is_open(),
            at: at.clone(),
            missing: challenges(Told::Missing),
            invalid: challenges(Told::Invalid),
            bad_proof: challenges(Told::BadProof),
            verifiers,
            places: Arc::clone(places),
            revoked: Arc::clone(revoked),
            anonymous: Arc::new(Principal::anonymous()),
        })))
    }

    /// Callers that show no credential are admitted.
    pub fn is_open(&self) -> bool {
        self.0.open
    }

    /// What to answer a caller who is admitted without a credential and asks for what needs one; `None`: there is none to show.
    pub fn missing(&self) -> Option<Error> {
        let challenges = &self.0.missing;
        (!challenges.is_empty()).then(|| Error::Missing {
            challenges: Arc::clone(challenges),
        })
    }

    /// Who a caller that an earlier requirement admitted is to this one for the same credentials, if it admits the caller.
    pub fn readmit(&self, principal: &Principal) -> Option<Arc<Principal>> {
        let again = |verifier: &Arc<Verifier>| Some(self.0.unless_revoked(verifier.again(principal)));
        let again = self.0.verifiers.iter().map(again);
        let again: Vec<_> = again.collect();
        let covered = self
            .0
            .alternatives
            .iter()
            .find(|alternative| alternative.covered(&again));
        match covered.and_then(|alternative| alternative.proofs(&again)) {
            Some(proofs) => Some(join(&proofs)),
            None => self.0.refuse(&again).ok(),
        }
    }

    /// Whether a request shows anything where one of its credentials stands, be it right or wrong.
    pub fn is_shown(&self, peer: &Peer, parts: &request::Parts) -> bool {
        self.0.verifiers.iter().any(|verifier| verifier.is_shown(peer, parts))
    }

    /// Whether a request shows something, right or wrong, by which somebody who is known elsewhere already could be known here, too.
    pub fn may_know(&self, principal: &Principal, peer: &Peer, parts: &request::Parts) -> bool {
        let is_proven = |need: &Need| principal.schemes.contains(need.verifier.name());
        self.0.alternatives.iter().any(|alternative| {
            let mut needs = alternative.needs.iter();
            needs.all(|need| is_proven(need) || need.verifier.is_shown(peer, parts))
                && !alternative.needs.iter().all(is_proven)
        })
    }

    /// The head of a request that shows this credential at its place, for callers who write it into a message: the same
    /// verifiers read it. `None`: no head can hold it.
    pub fn head(&self, credential: &Credential<'_>) -> Option<request::Parts> {
        let places = self.0.verifiers.iter().filter_map(|verifier| verifier.key_place());
        head::showing(credential, places)
    }

    /// Whether it would be resolved to the same: each of its verifiers stands in the others, too.
    pub fn is_of(&self, verifiers: &Verifiers) -> bool {
        Arc::ptr_eq(&self.0.revoked, &verifiers.revoked)
            && self.0.verifiers.iter().all(|verifier| verifiers.have(verifier))
    }

    /// Where the credentials stand that it asks for.
    pub fn own_places(&self) -> CredentialPlaces {
        let mut own = CredentialPlaces::default();
        for verifier in &self.0.verifiers {
            verifier.add_places(&mut own);
        }
        own
    }

    /// Where the credentials of all configured schemes stand, those that this requirement does not ask for included: a
    /// caller that sends a key for one agent to another must not hand it over.
    pub fn places(&self) -> &CredentialPlaces {
        &self.0.places
    }
}

/// Reads the head of the request only. Waits for nothing unless a password must be checked, a token names a key that may have
/// been published since the last fetch, or somebody must be asked about the credential. `client` is the caller's address as seen through trusted proxies.
pub async fn identify(
    requirement: &Requirement,
    peer: &Peer,
    client: IpAddr,
    parts: &request::Parts,
) -> Result<Arc<Principal>, Error> {
    let inner = &*requirement.0;
    if inner.alternatives.is_empty() {
        return Ok(Arc::clone(&inner.anonymous));
    }
    let asked = Asked {
        peer,
        client,
        parts,
        at: &inner.at,
    };
    // One scheme and nothing else is what most agents ask for.
    if let [alternative] = inner.alternatives.as_slice()
        && let [need] = alternative.needs.as_slice()
    {
        let shown = inner.unless_revoked(need.verifier.verify(&asked).await);
        if let Shown::Proof(proof) = &shown
            && proof.covers(&need.scopes)
        {
            return Ok(Arc::clone(&proof.principal));
        }
        return inner.refuse(&[Some(shown)]);
    }
    // Boxed, so that calls of one scheme do not carry the room for it.
    Box::pin(identify_by_several(inner, asked)).await
}

async fn identify_by_several(inner: &Inner, asked: Asked<'_>) -> Result<Arc<Principal>, Error> {
    let mut shown: Vec<Option<Shown>> = vec![None; inner.verifiers.len()];
    for alternative in &inner.alternatives {
        for need in &alternative.needs {
            let Some(slot) = shown.get_mut(need.index) else {
                continue;
            };
            let proven = match slot {
                Some(known) => known,
                None => slot.insert(inner.unless_revoked(need.verifier.verify(&asked).await)),
            };
            if !matches!(proven, Shown::Proof(proof) if proof.covers(&need.scopes)) {
                break;
            }
        }
        if let Some(proofs) = alternative.proofs(&shown)
            && alternative.covered(&shown)
        {
            return Ok(join(&proofs));
        }
    }
    for (slot, verifier) in shown.iter_mut().zip(&inner.verifiers) {
        if slot.is_none() {
            *slot = Some(inner.unless_revoked(verifier.verify(&asked).await));
        }
    }
    inner.refuse(&shown)
}

/// The same for several requirements of one place: each verifier is asked once, however many of them name it.
pub async fn identify_each(
    requirements: &[Requirement],
    peer: &Peer,
    client: IpAddr,
    parts: &request::Parts,
) -> Vec<Result<Arc<Principal>, Error>> {
    let mut known: Vec<(&Arc<Verifier>, Shown)> = Vec::new();
    let mut identified = Vec::with_capacity(requirements.len());
    for Requirement(inner) in requirements {
        let asked = Asked {
            peer,
            client,
            parts,
            at: &inner.at,
        };
        let mut shown = Vec::with_capacity(inner.verifiers.len());
        for verifier in &inner.verifiers {
            let before = known.iter().find(|(one, _)| Arc::ptr_eq(one, verifier));
            let proven = match before {
                Some((_, shown)) => shown.clone(),
                None => {
                    let proven = inner.unless_revoked(verifier.verify(&asked).await);
                    known.push((verifier, proven.clone()));
                    proven
                }
            };
            shown.push(Some(proven));
        }
        identified.push(inner.judge(&shown));
    }
    identified
}

impl Inner {
    /// By what every verifier has found.
    fn judge(&self, shown: &[Option<Shown>]) -> Result<Arc<Principal>, Error> {
        if self.alternatives.is_empty() {
            return Ok(Arc::clone(&self.anonymous));
        }
        let mut alternatives = self.alternatives.iter();
        let met = alternatives.find(|alternative| alternative.covered(shown));
        match met.and_then(|alternative| alternative.proofs(shown)) {
            Some(proofs) => Ok(join(&proofs)),
            None => self.refuse(shown),
        }
    }

    fn unless_revoked(&self, shown: Shown) -> Shown {
        match &shown {
            Shown::Proof(proof) if self.revoked.names(&proof.principal) => Shown::Refused(Invalid::Revoked),
            Shown::Nothing | Shown::Proof(_) | Shown::Refused(_) | Shown::Unknowable => shown,
        }
    }

    /// No alternative holds. What the caller is told goes from the most to the least useful: it lacks a scope, come back
    /// later, this credential is wrong, here is what to show. Anonymous only if nothing was shown.
    fn refuse(&self, shown: &[Option<Shown>]) -> Result<Arc<Principal>, Error> {
        for alternative in &self.alternatives {
            if let Some(proofs) = alternative.proofs(shown) {
                return Err(Error::MissingScope {
                    principal: Arc::clone(&join(&proofs).id),
                    scopes: Arc::clone(&alternative.scopes),
                    challenges: Arc::clone(&alternative.insufficient),
                });
            }
        }
        let shown_to = || {
            self.verifiers
                .iter()
                .zip(shown)
                .filter_map(|(verifier, shown)| Some((verifier, shown.as_ref()?)))
        };
        for (verifier, shown) in shown_to() {
            if *shown == Shown::Unknowable {
                return Err(Error::Unavailable {
                    scheme: Arc::clone(verifier.name()),
                });
            }
        }
        let refused = shown_to()
            .filter_map(|(verifier, shown)| match shown {
                Shown::Refused(reason) => Some((verifier, *reason)),
                Shown::Nothing | Shown::Proof(_) | Shown::Unknowable => None,
            })
            // With two issuers, the one that did not issue the token has nothing to say about it.
            .min_by_key(|(_, reason)| *reason == Invalid::WrongIssuer)
            .or_else(|| self.certificate_missing(shown));
        if let Some((verifier, reason)) = refused {
            return Err(Error::Invalid {
                scheme: Arc::clone(verifier.name()),
                reason,
                challenges: Arc::clone(match reason.is_of_proof() {
                    true => &self.bad_proof,
                    false => &self.invalid,
                }),
            });
        }
        if self.open && shown_to().all(|(_, shown)| *shown == Shown::Nothing) {
            return Ok(Arc::clone(&self.anonymous));
        }
        Err(Error::Missing {
            challenges: Arc::clone(&self.missing),
        })
    }

    /// The scheme for which the only thing that an alternative still lacks is the certificate of the connection.
    fn certificate_missing(&self, shown: &[Option<Shown>]) -> Option<(&Arc<Verifier>, Invalid)> {
        let at = |need: &Need| shown.get(need.index).and_then(Option::as_ref);
        self.alternatives.iter().find_map(|alternative| {
            let mut lacking = alternative
                .needs
                .iter()
                .filter(|need| !matches!(at(need), Some(Shown::Proof(_))));
            let only = lacking.next()?;
            let alone = alternative.needs.len() > 1 && lacking.next().is_none();
            (alone && only.verifier.is_certificate()).then_some((&only.verifier, Invalid::CertificateMissing))
        })
    }
}

impl Alternative {
    fn new(needs: Vec<Need>, at: &Resource) -> Self {
        let mut scopes: Vec<String> = Vec::new();
        for scope in needs.iter().flat_map(|need| &need.scopes) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let lacking = needs.iter().filter(|need| !need.scopes.is_empty());
        let insufficient = distinct(lacking.flat_map(|need| match need.verifier.constraint() {
            Some(constraint) => resource::challenges(constraint, Told::Insufficient(&scope(&need.scopes)), at),
            None => Vec::new(),
        }));
        Self {
            needs,
            scopes: scopes.into(),
            insufficient: insufficient.into(),
        }
    }

    /// Every scheme is proven, whatever the scopes.
    fn proofs<'s>(&self, shown: &'s [Option<Shown>]) -> Option<Vec<&'s Arc<Proof>>> {
        self.needs
            .iter()
            .map(|need| match shown.get(need.index)?.as_ref()? {
                Shown::Proof(proof) => Some(proof),
                Shown::Nothing | Shown::Refused(_) | Shown::Unknowable => None,
            })
            .collect()
    }

    fn covered(&self, shown: &[Option<Shown>]) -> bool {
        self.needs
            .iter()
            .all(|need| matches!(shown.get(need.index), Some(Some(Shown::Proof(proof))) if proof.covers(&need.scopes)))
    }
}

fn join(proofs: &[&Arc<Proof>]) -> Arc<Principal> {
    if let [only] = proofs {
        return Arc::clone(&only.principal);
    }
    let ids: Vec<&str> = proofs.iter().map(|proof| &*proof.principal.id).collect();
    Arc::new(Principal {
        id: Arc::from(ids.join("+")),
        schemes: proofs
            .iter()
            .flat_map(|proof| proof.principal.schemes.iter().cloned())
            .collect(),
        attributes: distinct(
            proofs
                .iter()
                .flat_map(|proof| proof.principal.attributes.iter().cloned()),
        ),
        facts: Arc::new(Facts::joined(proofs.iter().map(|proof| &*proof.principal.facts))),
        evidence: proofs
            .iter()
            .flat_map(|proof| proof.principal.evidence.iter().cloned())
            .collect(),
    })
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// The parameter of RFC 6750 §3. Scopes that are no scope-tokens (RFC 6749 §3.3) come from a broken card and are left out.
fn scope(scopes: &[String]) -> String {
    let token =
        |scope: &String| !scope.is_empty() && scope.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
    let scope = scopes.join(" ");
    if scopes.iter().all(token) && scope.len() <= MAX_SCOPE {
        return format!(", scope=\"{scope}\"");
    }
    String::new()
}
