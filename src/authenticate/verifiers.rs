//! The verifiers of the configured schemes: made at start, made anew from another configuration or other files.
//!
//! Verifiers do not change, but for keys that they fetch and answers that they remember. Of the next ones, those that would be the same are the same, with
//! what they remember. So a requirement that was resolved before goes on with what it was resolved to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, header, request};
use serde::de::DeserializeOwned;

use super::api_key::{self, Place};
use super::replays::Replays;
use super::requirement::Requirement;
use super::resource::{self, Resource, Told};
use super::revoked::Revoked;
use super::{Credential, CredentialPlaces, Evidence, Invalid, Principal, Shown, basic, certificate, check, token};
use crate::a2a::security::{SchemeName, Security};
use crate::audit::Trail;
use crate::clock::Clock;
use crate::config::{Problem, Scheme, SchemeKind, SenderConstraint};
use crate::drain::Drain;
use crate::observe::metrics::Metrics;
use crate::tls::Peer;

/// Puts a table that was read into place.
pub(super) type Commit = Box<dyn FnOnce() + Send>;

/// A requirement names schemes that nothing here verifies; the agent must stay out of service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no verifier is configured for the security schemes {}; add them to `security_schemes`",
    shortly(names)
)]
pub struct UnknownScheme {
    pub names: Vec<SchemeName>,
}

/// Cards name as many as they like, of any length.
fn shortly(names: &[SchemeName]) -> String {
    let (most, longest) = (8, 64);
    let shown = names.iter().take(most).map(|name| name.chars().take(longest).collect());
    let more = names.len().saturating_sub(most);
    let rest = (more > 0).then(|| format!("{more} more"));
    shown.chain(rest).collect::<Vec<String>>().join(", ")
}

/// Cheap to clone. By default there is no scheme.
#[derive(Clone, Default)]
pub struct Verifiers {
    pub(super) schemes: Arc<BTreeMap<SchemeName, Scheme>>,
    verifiers: Arc<BTreeMap<SchemeName, Arc<Verifier>>>,
    places: Arc<CredentialPlaces>,
    pub(super) revoked: Arc<Revoked>,
    /// Outlives every configuration.
    proofs: Arc<Replays>,
}

impl Verifiers {
    /// Blocking: reads the files that the schemes name. Keys at URLs are fetched after `start`.
    pub fn build(schemes: &BTreeMap<SchemeName, Scheme>, clock: &Clock) -> Result<Self, Vec<Problem>> {
        Self::default().renewed(schemes, clock).map(Renewed::take)
    }

    /// The very same, whatever their files hold by now.
    pub fn kept(&self) -> Renewed {
        Renewed {
            verifiers: self.clone(),
            changed: Vec::new(),
            commits: Vec::new(),
        }
    }

    /// The verifiers of another configuration, or of the same one and what its files hold by now. Nothing changes before
    /// they are taken. Blocking.
    pub fn renewed(&self, schemes: &BTreeMap<SchemeName, Scheme>, clock: &Clock) -> Result<Renewed, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut verifiers = BTreeMap::new();
        let mut changed = Vec::new();
        let mut commits = Vec::new();
        for (name, scheme) in schemes {
            let before = self.schemes.get(name).zip(self.verifiers.get(name));
            let made = match before {
                Some((known, verifier)) if known.kind == scheme.kind && known.principal == scheme.principal => {
                    verifier.renewed().map(|next| match next {
                        Next::Same => Arc::clone(verifier),
                        Next::Trusting(commit) => {
                            changed.push(name.clone());
                            commits.push(commit);
                            Arc::clone(verifier)
                        }
                        Next::Other(other) => {
                            changed.push(name.clone());
                            Arc::new(other)
                        }
                    })
                }
                Some((known, verifier)) => {
                    changed.push(name.clone());
                    let before = Some((&known.kind, &**verifier));
                    Verifier::load(name, scheme, (clock, &self.proofs), before).and_then(|verifier| {
                        commits.extend(verifier.trust_again()?);
                        Ok(Arc::new(verifier))
                    })
                }
                None => {
                    changed.push(name.clone());
                    Verifier::load(name, scheme, (clock, &self.proofs), None).map(Arc::new)
                }
            };
            match made {
                Ok(verifier) => {
                    verifiers.insert(name.clone(), verifier);
                }
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let gone = self.schemes.keys().filter(|name| !schemes.contains_key(*name));
        changed.extend(gone.cloned());
        let mut places = CredentialPlaces::default();
        for verifier in verifiers.values() {
            verifier.add_places(&mut places);
        }
        Ok(Renewed {
            verifiers: Self {
                schemes: Arc::new(schemes.clone()),
                verifiers: Arc::new(verifiers),
                places: Arc::new(places),
                revoked: Arc::clone(&self.revoked),
                proofs: Arc::clone(&self.proofs),
            },
            changed,
            commits,
        })
    }

    /// Whether every credential by which a caller was admitted before is good for these.
    pub fn know_still(&self, principal: &Principal) -> bool {
        !self.revoked.names(principal)
            && principal.evidence.iter().all(|evidence| {
                let verifier = self.verifiers.get(&*evidence.scheme);
                verifier.is_some_and(|verifier| matches!(verifier.again(principal), Shown::Proof(_)))
            })
    }

    /// Where the credentials stand by which a caller is known.
    pub fn places_of(&self, principal: &Principal) -> CredentialPlaces {
        let mut places = CredentialPlaces::default();
        for scheme in &principal.schemes {
            if let Some(verifier) = self.verifiers.get(&**scheme) {
                verifier.add_places(&mut places);
            }
        }
        places
    }

    pub fn revoked(&self) -> &Arc<Revoked> {
        &self.revoked
    }

    pub(super) fn have(&self, verifier: &Arc<Verifier>) -> bool {
        let known = self.verifiers.get(&*verifier.name);
        known.is_some_and(|known| Arc::ptr_eq(known, verifier))
    }

    /// Starts the jobs that fetch key sets; they end with the drain, or with the last user of the verifiers. Once is enough.
    pub fn start(&self, drain: &Drain) {
        for verifier in self.verifiers.values() {
            if let Kind::Bearer(verifier) = &verifier.kind {
                verifier.start(drain);
            }
        }
    }

    /// Keys that issuers exchange are on record from then on.
    pub fn tell(&self, trail: &Trail) {
        for verifier in self.verifiers.values() {
            if let Kind::Bearer(verifier) = &verifier.kind {
                verifier.tell(trail);
            }
        }
    }

    /// From then on it is counted who is asked about credentials, and what became of it.
    pub fn count(&self, metrics: &Metrics) {
        for verifier in self.verifiers.values() {
            match &verifier.kind {
                Kind::Bearer(verifier) => verifier.count(metrics),
                Kind::Checked(verifier) => verifier.count(metrics),
                Kind::ApiKey(_) | Kind::Basic(_) | Kind::Certificate(_) => {}
            }
        }
    }

    /// Every scheme can tell right from wrong: each key set was loaded at least once.
    pub fn ready(&self) -> bool {
        self.waiting_for().is_empty()
    }

    /// The schemes whose keys have not been loaded yet.
    pub fn waiting_for(&self) -> Vec<SchemeName> {
        self.verifiers
            .iter()
            .filter(|(_, verifier)| match &verifier.kind {
                Kind::Bearer(verifier) => !verifier.ready(),
                Kind::ApiKey(_) | Kind::Basic(_) | Kind::Checked(_) | Kind::Certificate(_) => false,
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Where the credentials of all configured schemes stand.
    pub fn places(&self) -> &CredentialPlaces {
        &self.places
    }

    pub fn resolve(&self, security: &Security, at: &Resource) -> Result<Requirement, UnknownScheme> {
        Requirement::new(security, (&self.places, &self.revoked), at, |name| {
            self.verifiers.get(name)
        })
        .map_err(|names| UnknownScheme { names })
    }

    /// What callers may know of how to get a token for a requirement (RFC 9728 §2), where it asks for tokens.
    pub fn describe(&self, security: &Security, at: &Resource, name: Option<&str>) -> Option<Bytes> {
        at.describe(security, &self.schemes, name)
    }
}

/// The next verifiers, not yet in force.
pub struct Renewed {
    verifiers: Verifiers,
    changed: Vec<SchemeName>,
    /// What is trusted from then on where keys are fetched.
    commits: Vec<Commit>,
}

impl Renewed {
    pub fn verifiers(&self) -> &Verifiers {
        &self.verifiers
    }

    /// With another list of what is revoked.
    #[must_use]
    pub fn revoking(mut self, revoked: &Arc<Revoked>) -> Self {
        self.verifiers.revoked = Arc::clone(revoked);
        self
    }

    /// The schemes that came, went or are verified by something else.
    pub fn changed(&self) -> &[SchemeName] {
        &self.changed
    }

    pub fn take(self) -> Verifiers {
        for commit in self.commits {
            commit();
        }
        self.verifiers
    }
}

/// What becomes of a verifier whose files were read again.
enum Next {
    Same,
    /// The same, once what it trusts is replaced.
    Trusting(Commit),
    Other(Verifier),
}

/// How one scheme is verified.
pub(super) struct Verifier {
    name: Arc<str>,
    kind: Kind,
}

enum Kind {
    ApiKey(Box<api_key::Verifier>),
    Bearer(Box<token::Verifier>),
    Basic(Box<basic::Verifier>),
    Checked(Box<check::Verifier>),
    Certificate(certificate::Verifier),
}

impl Verifier {
    /// `before` is what the scheme was.
    fn load(
        name: &str,
        scheme: &Scheme,
        (clock, proofs): (&Clock, &Arc<Replays>),
        before: Option<(&SchemeKind, &Self)>,
    ) -> Result<Self, Vec<Problem>> {
        let key = problem_key(name);
        let name: Arc<str> = Arc::from(name);
        let mapping = &scheme.principal;
        let kind = match &scheme.kind {
            SchemeKind::ApiKey {
                place,
                name: place_name,
                keys,
            } => {
                let place = Place::new(&key, *place, place_name).map_err(|problem| vec![problem])?;
                Kind::ApiKey(Box::new(api_key::Verifier::load(
                    &name, &key, place, keys, mapping, clock,
                )?))
            }
            SchemeKind::Bearer { tokens, .. }
            | SchemeKind::OAuth2 { tokens, .. }
            | SchemeKind::OpenIdConnect { tokens, .. } => {
                let before = before.and_then(|(kind, verifier)| {
                    let same = kind.tokens().is_some_and(|known| token::same_keys(known, tokens));
                    verifier.bearer().filter(|_| same)
                });
                Kind::Bearer(Box::new(token::Verifier::load(
                    &name,
                    &key,
                    tokens,
                    mapping,
                    (clock, proofs),
                    before,
                )?))
            }
            SchemeKind::Http {
                scheme,
                check: asking,
                claims,
            } => {
                let verifier = check::Verifier::load(&name, &key, scheme, asking, (claims, mapping), clock);
                Kind::Checked(Box::new(verifier.map_err(|problem| vec![problem])?))
            }
            SchemeKind::Basic { users_file } => Kind::Basic(Box::new(basic::Verifier::load(
                &name, &key, users_file, mapping, clock,
            )?)),
            SchemeKind::MutualTls { allow } => {
                Kind::Certificate(certificate::Verifier::new(&name, allow, mapping, clock))
            }
        };
        Ok(Self { name, kind })
    }

    fn renewed(&self) -> Result<Next, Vec<Problem>> {
        let key = problem_key(&self.name);
        let other = match &self.kind {
            Kind::ApiKey(verifier) => verifier.renewed(&key)?.map(Box::new).map(Kind::ApiKey),
            Kind::Basic(verifier) => verifier.renewed(&key)?.map(|other| Kind::Basic(Box::new(other))),
            Kind::Certificate(_) => None,
            Kind::Bearer(verifier) => match self.trust_again()? {
                Some(commit) => return Ok(Next::Trusting(commit)),
                None => verifier.renewed(&key)?.map(|other| Kind::Bearer(Box::new(other))),
            },
            Kind::Checked(_) => return Ok(self.trust_again()?.map_or(Next::Same, Next::Trusting)),
        };
        Ok(other.map_or(Next::Same, |kind| {
            Next::Other(Self {
                name: Arc::clone(&self.name),
                kind,
            })
        }))
    }

    /// What is to be trusted by now where keys are fetched or credentials asked about, if that is something else.
    fn trust_again(&self) -> Result<Option<Commit>, Vec<Problem>> {
        let key = problem_key(&self.name);
        match &self.kind {
            Kind::Bearer(verifier) => verifier.trust_again(&key),
            Kind::Checked(verifier) => verifier.trust_again(&key).map_err(|problem| vec![problem]),
            Kind::ApiKey(_) | Kind::Basic(_) | Kind::Certificate(_) => Ok(None),
        }
    }

    /// The verifier of tokens, if it is one.
    fn bearer(&self) -> Option<&token::Verifier> {
        match &self.kind {
            Kind::Bearer(verifier) => Some(verifier),
            Kind::ApiKey(_) | Kind::Basic(_) | Kind::Checked(_) | Kind::Certificate(_) => None,
        }
    }

    /// What a caller who proved itself to this scheme, perhaps in an earlier configuration, would show now.
    pub(super) fn again(&self, principal: &Principal) -> Shown {
        let of_this = |evidence: &&Evidence| *evidence.scheme == *self.name;
        let Some(evidence) = principal.evidence.iter().find(of_this) else {
            return Shown::Nothing;
        };
        let Evidence { id, credential, .. } = evidence;
        let proof = match (&self.kind, credential) {
            (Kind::ApiKey(verifier), Credential::Key { sha256, salt, .. }) => verifier.again(sha256, salt),
            (Kind::Basic(verifier), Credential::User { name, hash }) => verifier.again(name, hash),
            (Kind::Bearer(verifier), _) => verifier.again(evidence),
            (Kind::Checked(verifier), _) => verifier.again(evidence),
            (Kind::Certificate(verifier), Credential::Certificate(certificate)) => match verifier.check(certificate) {
                Shown::Proof(proof) => Some(proof),
                Shown::Nothing | Shown::Refused(_) | Shown::Unknowable => None,
            },
            (Kind::ApiKey(_) | Kind::Basic(_) | Kind::Certificate(_), _) => None,
        };
        // A key that names somebody else by now proves nothing for whom it named.
        match proof {
            Some(proof) if proof.principal.id == *id => Shown::Proof(proof),
            Some(_) | None => Shown::Refused(Invalid::UnknownKey),
        }
    }

    /// Whether something stands where it reads, whatever that is.
    pub(super) fn is_shown(&self, peer: &Peer, parts: &request::Parts) -> bool {
        match &self.kind {
            Kind::ApiKey(verifier) => verifier.is_shown(parts),
            Kind::Bearer(_) | Kind::Basic(_) | Kind::Checked(_) => parts.headers.contains_key(header::AUTHORIZATION),
            Kind::Certificate(_) => peer.certificate.is_some(),
        }
    }

    pub(super) fn add_places(&self, places: &mut CredentialPlaces) {
        match &self.kind {
            Kind::ApiKey(verifier) => match verifier.place() {
                Place::Header(name) => add(&mut places.headers, name),
                Place::Query(name) => add(&mut places.query, name),
                // No cookie goes on.
                Place::Cookie(_) => {}
            },
            Kind::Bearer(_) => {
                add(&mut places.headers, &header::AUTHORIZATION);
                add(&mut places.headers, &token::PROOF_FIELD);
            }
            Kind::Basic(_) | Kind::Checked(_) => {
                add(&mut places.headers, &header::AUTHORIZATION);
            }
            Kind::Certificate(_) => {}
        }
    }

    /// Where it reads an API key.
    pub(super) fn key_place(&self) -> Option<&Place> {
        match &self.kind {
            Kind::ApiKey(verifier) => Some(verifier.place()),
            Kind::Bearer(_) | Kind::Basic(_) | Kind::Checked(_) | Kind::Certificate(_) => None,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Who may use its tokens, if it has any.
    pub(super) fn constraint(&self) -> Option<SenderConstraint> {
        self.bearer().map(token::Verifier::constraint)
    }

    pub(super) fn is_certificate(&self) -> bool {
        matches!(self.kind, Kind::Certificate(_))
    }

    pub(super) async fn verify(&self, asked: &token::Asked<'_>) -> Shown {
        let token::Asked {
            peer, client, parts, ..
        } = *asked;
        match &self.kind {
            Kind::ApiKey(verifier) => verifier.verify(parts),
            Kind::Bearer(verifier) => verifier.verify(asked).await,
            // Boxed, so that calls of other schemes do not carry the room for it.
            Kind::Checked(verifier) => Box::pin(verifier.verify(client, parts)).await,
            Kind::Basic(verifier) => verifier.verify(client, parts).await,
            Kind::Certificate(verifier) => verifier.verify(peer),
        }
    }

    /// The values for `WWW-Authenticate`, after what was shown. API keys and certificates have no
    /// registered scheme, but a 401 needs a challenge (RFC 9110 §15.5.2), so they get descriptive ones.
    pub(super) fn challenges(&self, told: Told<'_>, at: &Resource) -> Vec<HeaderValue> {
        vec![match &self.kind {
            Kind::ApiKey(verifier) => {
                let (place, name) = match verifier.place() {
                    Place::Header(name) => ("header", name.as_str()),
                    Place::Query(name) => ("query", name.as_str()),
                    Place::Cookie(name) => ("cookie", name.as_str()),
                };
                HeaderValue::try_from(format!("ApiKey realm=\"a2a-gateway\", {place}=\"{name}\""))
                    .unwrap_or(HeaderValue::from_static("ApiKey realm=\"a2a-gateway\""))
            }
            Kind::Bearer(verifier) => return resource::challenges(verifier.constraint(), told, at),
            Kind::Basic(_) => HeaderValue::from_static("Basic realm=\"a2a-gateway\", charset=\"UTF-8\""),
            Kind::Checked(verifier) => verifier.challenge().clone(),
            Kind::Certificate(_) => HeaderValue::from_static("MutualTLS realm=\"a2a-gateway\""),
        }]
    }
}

fn add<T: Clone + PartialEq>(list: &mut Vec<T>, value: &T) {
    if !list.contains(value) {
        list.push(value.clone());
    }
}

fn problem_key(scheme: &str) -> String {
    format!("security_schemes.{scheme}")
}

/// Reads a file of secrets. The parser's own words are not passed on, because they may quote a line of the file.
pub(super) fn read_yaml<T: DeserializeOwned>(key: &str, path: &Path, text: &str, expected: &str) -> Result<T, Problem> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error
            .location()
            .map_or_else(String::new, |at| format!(" at line {}", at.line()));
        Problem::new(
            key,
            format!(
                "{} cannot be read{line}: {expected}, each member once and no others",
                path.display()
            ),
        )
    })
}
