//! The verifiers of the configured schemes: made at start, reloaded as a whole.
//!
//! A reload reads every file first and swaps only if all of them are valid, so a half-written file changes nothing. Each
//! verifier swaps its own table; requirements that were resolved before see the new one with the next request.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderValue, header, request};
use serde::de::DeserializeOwned;

use super::api_key::{self, Place};
use super::requirement::Requirement;
use super::{CredentialPlaces, Shown, basic, certificate, jwt};
use crate::a2a::security::{SchemeName, Security};
use crate::clock::Clock;
use crate::config::{Problem, Scheme, SchemeKind};
use crate::drain::Drain;
use crate::tls::Peer;

/// Puts a table that was read into place.
pub(super) type Commit = Box<dyn FnOnce() + Send>;

/// A requirement names schemes that nothing here verifies; the agent must stay out of service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no verifier is configured for the security schemes {}; add them to `security_schemes`", names.join(", ")
)]
pub struct UnknownScheme {
    pub names: Vec<SchemeName>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Verifiers {
    verifiers: Arc<BTreeMap<SchemeName, Arc<Verifier>>>,
    places: Arc<CredentialPlaces>,
}

impl Verifiers {
    /// Blocking: reads the files that the schemes name. Keys at URLs are fetched after `start`.
    pub fn build(schemes: &BTreeMap<SchemeName, Scheme>, clock: &Clock) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut verifiers = BTreeMap::new();
        for (name, scheme) in schemes {
            match Verifier::load(name, scheme, clock) {
                Ok(verifier) => {
                    verifiers.insert(name.clone(), Arc::new(verifier));
                }
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut places = CredentialPlaces::default();
        for verifier in verifiers.values() {
            verifier.add_places(&mut places);
        }
        Ok(Self {
            verifiers: Arc::new(verifiers),
            places: Arc::new(places),
        })
    }

    /// Blocking: reads every file again. All of them valid, or everything stays as it was. Returns the schemes that have
    /// changed.
    pub fn reload(&self) -> Result<Vec<SchemeName>, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut commits = Vec::new();
        for (name, verifier) in &*self.verifiers {
            match verifier.reload(&problem_key(name)) {
                Ok(Some(commit)) => commits.push((name.clone(), commit)),
                Ok(None) => {}
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut changed = Vec::with_capacity(commits.len());
        for (name, commit) in commits {
            commit();
            changed.push(name);
        }
        Ok(changed)
    }

    /// Starts the jobs that fetch key sets; they end with the drain, or with the last user of the verifiers. Once is enough.
    pub fn start(&self, drain: &Drain) {
        for verifier in self.verifiers.values() {
            if let Kind::Bearer(verifier) = &verifier.kind {
                verifier.start(drain);
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
                Kind::ApiKey(_) | Kind::Basic(_) | Kind::Certificate(_) => false,
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Every file that `reload` reads.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self
            .verifiers
            .values()
            .filter_map(|verifier| match &verifier.kind {
                Kind::ApiKey(verifier) => verifier.file(),
                Kind::Bearer(verifier) => verifier.file(),
                Kind::Basic(verifier) => Some(verifier.file()),
                Kind::Certificate(_) => None,
            })
            .map(Path::to_owned)
            .collect();
        files.sort();
        files.dedup();
        files
    }

    /// Where the credentials of all configured schemes stand.
    pub fn places(&self) -> &CredentialPlaces {
        &self.places
    }

    pub fn resolve(&self, security: &Security) -> Result<Requirement, UnknownScheme> {
        Requirement::new(security, &self.places, |name| self.verifiers.get(name))
            .map_err(|names| UnknownScheme { names })
    }
}

/// How one scheme is verified.
pub(super) struct Verifier {
    name: Arc<str>,
    kind: Kind,
}

enum Kind {
    ApiKey(api_key::Verifier),
    Bearer(Box<jwt::Verifier>),
    Basic(Box<basic::Verifier>),
    Certificate(certificate::Verifier),
}

impl Verifier {
    fn load(name: &str, scheme: &Scheme, clock: &Clock) -> Result<Self, Vec<Problem>> {
        let key = problem_key(name);
        let name: Arc<str> = Arc::from(name);
        let kind = match &scheme.kind {
            SchemeKind::ApiKey {
                place,
                name: place_name,
                keys,
            } => {
                let place = Place::new(&key, *place, place_name).map_err(|problem| vec![problem])?;
                Kind::ApiKey(api_key::Verifier::load(&name, &key, place, keys)?)
            }
            SchemeKind::Bearer { jwt, .. } | SchemeKind::OAuth2 { jwt, .. } | SchemeKind::OpenIdConnect { jwt, .. } => {
                Kind::Bearer(Box::new(jwt::Verifier::load(&name, &key, jwt, clock)?))
            }
            SchemeKind::Basic { users_file } => {
                Kind::Basic(Box::new(basic::Verifier::load(&name, &key, users_file, clock)?))
            }
            SchemeKind::MutualTls { allow } => Kind::Certificate(certificate::Verifier::new(&name, allow, clock)),
        };
        Ok(Self { name, kind })
    }

    fn reload(&self, key: &str) -> Result<Option<Commit>, Vec<Problem>> {
        match &self.kind {
            Kind::ApiKey(verifier) => verifier.reload(key),
            Kind::Bearer(verifier) => verifier.reload(key),
            Kind::Basic(verifier) => verifier.reload(key),
            Kind::Certificate(_) => Ok(None),
        }
    }

    fn add_places(&self, places: &mut CredentialPlaces) {
        match &self.kind {
            Kind::ApiKey(verifier) => match verifier.place() {
                Place::Header(name) => add(&mut places.headers, name),
                Place::Query(name) => add(&mut places.query, name),
                // No cookie goes on.
                Place::Cookie(_) => {}
            },
            Kind::Bearer(_) | Kind::Basic(_) => {
                add(&mut places.headers, &header::AUTHORIZATION);
            }
            Kind::Certificate(_) => {}
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn is_bearer(&self) -> bool {
        matches!(self.kind, Kind::Bearer(_))
    }

    pub(super) fn is_certificate(&self) -> bool {
        matches!(self.kind, Kind::Certificate(_))
    }

    /// `client` is the caller's address as seen through trusted proxies.
    pub(super) async fn verify(&self, peer: &Peer, client: IpAddr, parts: &request::Parts) -> Shown {
        match &self.kind {
            Kind::ApiKey(verifier) => verifier.verify(parts),
            Kind::Bearer(verifier) => verifier.verify(parts).await,
            Kind::Basic(verifier) => verifier.verify(client, parts).await,
            Kind::Certificate(verifier) => verifier.verify(peer),
        }
    }

    /// The value for `WWW-Authenticate`; `invalid` after a credential was refused. API keys and certificates have no
    /// registered scheme, but a 401 needs a challenge (RFC 9110 §15.5.2), so they get descriptive ones.
    pub(super) fn challenge(&self, invalid: bool) -> HeaderValue {
        match &self.kind {
            Kind::ApiKey(verifier) => {
                let (place, name) = match verifier.place() {
                    Place::Header(name) => ("header", name.as_str()),
                    Place::Query(name) => ("query", name.as_str()),
                    Place::Cookie(name) => ("cookie", name.as_str()),
                };
                HeaderValue::try_from(format!("ApiKey realm=\"a2a-gateway\", {place}=\"{name}\""))
                    .unwrap_or(HeaderValue::from_static("ApiKey realm=\"a2a-gateway\""))
            }
            Kind::Bearer(_) if invalid => {
                HeaderValue::from_static("Bearer realm=\"a2a-gateway\", error=\"invalid_token\"")
            }
            Kind::Bearer(_) => HeaderValue::from_static("Bearer realm=\"a2a-gateway\""),
            Kind::Basic(_) => HeaderValue::from_static("Basic realm=\"a2a-gateway\", charset=\"UTF-8\""),
            Kind::Certificate(_) => HeaderValue::from_static("MutualTLS realm=\"a2a-gateway\""),
        }
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
