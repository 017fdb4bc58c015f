//! Credentials against verifiers. Time is set by hand, keys are made by the run; only `remote` and `ask` use a socket.

mod again;
mod api_key;
mod ask;
mod basic;
mod bound;
mod certificate;
mod jwt;
mod remote;
mod requirement;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderName, HeaderValue, Request, request};
use tempfile::NamedTempFile;

use super::*;
use crate::a2a::security::{SchemeUse, Security};
use crate::clock::Clock;
use crate::config::{ApiKey, ApiKeyPlace, CertificateRule, KeySource, Mapping, Problem, Scheme, SchemeKind};
use crate::tls::{Peer, PeerCertificate};

/// 2027-01-15; whole, so that tokens are easy to read.
const NOW: u64 = 1_800_000_000;

/// A clock that starts at `NOW`.
#[derive(Clone)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(NOW)))
    }

    fn clock(&self) -> Clock {
        let seconds = Arc::clone(&self.0);
        Clock::from_fn(move || UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed)))
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

fn peer() -> Peer {
    Peer {
        address: "127.0.0.1:1".parse().unwrap(),
        secure: true,
        certificate: None,
        chain: None,
    }
}

fn peer_with(certificate: PeerCertificate) -> Peer {
    Peer {
        certificate: Some(Arc::new(certificate)),
        ..peer()
    }
}

/// The head of a request.
fn head(uri: &str, fields: &[(&str, &str)]) -> request::Parts {
    let mut request = Request::builder().uri(uri).body(()).unwrap();
    for (name, value) in fields {
        request.headers_mut().append(
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    request.into_parts().0
}

fn with_authorization(value: &str) -> request::Parts {
    head("/", &[("authorization", value)])
}

fn scheme(kind: SchemeKind) -> Scheme {
    Scheme {
        description: None,
        kind,
        principal: Mapping::default(),
    }
}

/// `key_of(id)` is the key of each id.
fn inline_keys(ids: &[&str]) -> KeySource {
    KeySource::Inline(
        ids.iter()
            .map(|id| ApiKey {
                id: (*id).to_owned(),
                sha256: sha256(&[key_of(id).as_bytes()]),
                salt: Vec::new(),
                scopes: Vec::new(),
                attributes: Vec::new(),
                expires: None,
                label: String::new(),
            })
            .collect(),
    )
}

fn key_of(id: &str) -> String {
    format!("secret-of-{id}")
}

fn header_keys(name: &str, ids: &[&str]) -> Scheme {
    scheme(SchemeKind::ApiKey {
        place: ApiKeyPlace::Header,
        name: name.to_owned(),
        keys: inline_keys(ids),
    })
}

fn try_build(schemes: Vec<(&str, Scheme)>, time: &Time) -> Result<Verifiers, Vec<Problem>> {
    let schemes: BTreeMap<String, Scheme> = schemes
        .into_iter()
        .map(|(name, scheme)| (name.to_owned(), scheme))
        .collect();
    Verifiers::build(&schemes, &time.clock())
}

/// Reads the files again; the schemes that have changed.
fn reload(verifiers: &mut Verifiers) -> Result<Vec<String>, Vec<Problem>> {
    let schemes = Arc::clone(&verifiers.schemes);
    let renewed = verifiers.renewed(&schemes, &Time::new().clock())?;
    let changed = renewed.changed().to_vec();
    *verifiers = renewed.take();
    Ok(changed)
}

fn build(schemes: Vec<(&str, Scheme)>) -> Verifiers {
    try_build(schemes, &Time::new()).unwrap()
}

/// `"a:s1,s2+b | c"`: a with scopes s1 and s2 and b, or c. `-` is the empty alternative.
fn security(text: &str) -> Security {
    let alternative = |text: &str| -> Vec<SchemeUse> {
        text.split('+')
            .map(str::trim)
            .filter(|part| *part != "-")
            .map(|part| {
                let (scheme, scopes) = part.split_once(':').unwrap_or((part, ""));
                SchemeUse {
                    scheme: scheme.to_owned(),
                    scopes: scopes
                        .split(',')
                        .filter(|scope| !scope.is_empty())
                        .map(str::to_owned)
                        .collect(),
                }
            })
            .collect()
    };
    Security {
        alternatives: text
            .split('|')
            .filter(|text| !text.trim().is_empty())
            .map(alternative)
            .collect(),
    }
}

/// The id of the principal, or the label of the refusal.
async fn outcome(requirement: &Requirement, peer: &Peer, parts: &request::Parts) -> String {
    match identify(requirement, peer, peer.address.ip(), parts).await {
        Ok(principal) => principal.id.to_string(),
        Err(error) => format!("! {}", error.as_str()),
    }
}

async fn one(verifiers: &Verifiers, name: &str, parts: &request::Parts) -> String {
    let requirement = verifiers.resolve(&security(name), &Resource::default()).unwrap();
    outcome(&requirement, &peer(), parts).await
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn rewrite(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn names_are_encoded_so_that_none_can_pose_as_another() {
    let check = |name: &str, expected: &str| assert_eq!(encode(name), expected);
    check("partner-7", "partner-7");
    check("spiffe://example.com/a", "spiffe://example.com/a");
    check("a+basic:bob", "a%2Bbasic:bob");
    check("a%2Bb", "a%252Bb");
    check("a b\r\nc", "a%20b%0D%0Ac");
    check("é", "%C3%A9");
}

#[test]
fn labels_are_distinct() {
    let mut labels: Vec<&str> = Invalid::ALL.iter().map(|reason| reason.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), Invalid::ALL.len());
}
