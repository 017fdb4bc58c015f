//! API keys: a secret in a header field, a query parameter or a cookie, known here only by its hash.
//!
//! Keys are random, so one SHA-256 is enough: there is nothing to guess, and the check is cheap on every request. An
//! unsalted hash is found by its digest, so a lookup tells an attacker nothing that hashing at home would not; a salted
//! one costs a hash per stored key and is compared in constant time with all of them. The principal of a key is made when
//! the file is read. One id may have several keys: that is how a key is rotated without changing who its owner is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ahash::RandomState;
use http::{HeaderName, request};
use serde::Deserialize;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::came;
use super::facts::{Facts, Given};
use super::places::{self, Found};
use super::verifiers::read_yaml;
use super::{Credential, Invalid, Proof, Shown, sha256};
use crate::clock::Clock;

use crate::config::{ApiKey, ApiKeyPlace, Attribute, KeySource, Mapping, Moment, Problem, files};

/// Longest key that is hashed; a salted table hashes it once per stored key.
pub(super) const MAX_KEY: usize = 1024;
/// A check against salted hashes costs one hash each, about 0.2 ms in all at this number.
const MAX_SALTED: usize = 1_000;
const MAX_KEYS: usize = 100_000;

#[derive(Clone)]
pub(super) enum Place {
    Header(HeaderName),
    Query(String),
    Cookie(String),
}

impl Place {
    pub(super) fn new(key: &str, place: ApiKeyPlace, name: &str) -> Result<Self, Problem> {
        let wrong = |cause: &str| Problem::new(format!("{key}.name"), cause);
        match place {
            ApiKeyPlace::Header => HeaderName::try_from(name)
                .map(Self::Header)
                .map_err(|_| wrong("is not a name of a header field")),
            ApiKeyPlace::Query => {
                let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\&=#%".contains(&byte);
                if name.is_empty() || !name.bytes().all(plain) {
                    return Err(wrong("must be visible ASCII without quotes, backslash, &, =, # and %"));
                }
                Ok(Self::Query(name.to_owned()))
            }
            ApiKeyPlace::Cookie => {
                // A cookie name is a token (RFC 6265 §4.1.1), as is a header name; case counts here.
                if HeaderName::try_from(name).is_err() {
                    return Err(wrong("is not a name of a cookie"));
                }
                Ok(Self::Cookie(name.to_owned()))
            }
        }
    }
}

pub(super) struct Verifier {
    scheme: Arc<str>,
    place: Place,
    source: KeySource,
    mapping: Mapping,
    table: Table,
    clock: Clock,
}

impl Verifier {
    pub(super) fn load(
        scheme: &Arc<str>,
        key: &str,
        place: Place,
        source: &KeySource,
        mapping: &Mapping,
        clock: &Clock,
    ) -> Result<Self, Vec<Problem>> {
        let table = Table::load(scheme, key, source, mapping)?;
        Ok(Self {
            scheme: Arc::clone(scheme),
            place,
            source: source.clone(),
            mapping: mapping.clone(),
            table,
            clock: clock.clone(),
        })
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The verifier of what the source holds by now, if that is something else.
    pub(super) fn renewed(&self, key: &str) -> Result<Option<Self>, Vec<Problem>> {
        let table = Table::load(&self.scheme, key, &self.source, &self.mapping)?;
        Ok((self.table.keys != table.keys).then(|| Self {
            scheme: Arc::clone(&self.scheme),
            place: self.place.clone(),
            source: self.source.clone(),
            mapping: self.mapping.clone(),
            table,
            clock: self.clock.clone(),
        }))
    }

    /// What a key that was shown before proves here.
    pub(super) fn again(&self, sha256: &[u8; 32], salt: &[u8]) -> Option<Arc<Proof>> {
        let known = self.table.of_hash(sha256, salt)?;
        known.holds(&self.clock).then(|| Arc::clone(&known.proof))
    }

    fn found<'p>(&'p self, parts: &'p request::Parts) -> Found<Cow<'p, [u8]>> {
        match &self.place {
            Place::Header(name) => Found::only(
                parts
                    .headers
                    .get_all(name)
                    .iter()
                    .map(|value| Cow::Borrowed(value.as_bytes())),
            ),
            Place::Query(name) => Found::only(places::query_values(came::uri(parts).query().unwrap_or_default(), name)),
            Place::Cookie(name) => Found::only(places::cookie_values(&parts.headers, name).map(Cow::Borrowed)),
        }
    }

    pub(super) fn is_shown(&self, parts: &request::Parts) -> bool {
        !matches!(self.found(parts), Found::Nothing)
    }

    pub(super) fn verify(&self, parts: &request::Parts) -> Shown {
        match self.found(parts) {
            Found::Nothing => Shown::Nothing,
            Found::Several => Shown::Refused(Invalid::Ambiguous),
            Found::One(secret) if secret.is_empty() => Shown::Refused(Invalid::Malformed),
            Found::One(secret) if secret.len() > MAX_KEY => Shown::Refused(Invalid::TooLong),
            Found::One(secret) => match self.table.find(&secret) {
                Some(known) if known.holds(&self.clock) => Shown::Proof(Arc::clone(&known.proof)),
                Some(_) => Shown::Refused(Invalid::Expired),
                None => Shown::Refused(Invalid::UnknownKey),
            },
        }
    }
}

/// A key that is known.
struct Known {
    proof: Arc<Proof>,
    expires: Option<u64>,
}

impl Known {
    /// Most keys have no end, and are not compared with a clock.
    fn holds(&self, clock: &Clock) -> bool {
        self.expires.is_none_or(|end| clock.unix_seconds() < end)
    }
}

struct Table {
    plain: HashMap<[u8; 32], Known, RandomState>,
    salted: Vec<Salted>,
    /// What the table was made from, to see whether a reload changes anything.
    keys: Vec<ApiKey>,
}

struct Salted {
    salt: Vec<u8>,
    sha256: [u8; 32],
    known: Known,
}

impl Table {
    fn load(scheme: &Arc<str>, key: &str, source: &KeySource, mapping: &Mapping) -> Result<Self, Vec<Problem>> {
        let member = match source {
            KeySource::Inline(_) => "keys",
            KeySource::File(_) => "keys_file",
        };
        Self::new(scheme, &format!("{key}.{member}"), keys_of(key, source)?, mapping)
    }

    fn new(scheme: &Arc<str>, key: &str, keys: Vec<ApiKey>, mapping: &Mapping) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut plain = HashMap::with_hasher(RandomState::new());
        let mut salted: Vec<Salted> = Vec::new();
        let empty = sha256(&[]);
        for (index, entry) in keys.iter().enumerate() {
            let mut wrong = |cause: &str| {
                problems.push(Problem::new(key, format!("keys[{index}] ({}): {cause}", entry.id)));
            };
            if entry.id.is_empty() || entry.id.len() > 255 {
                wrong("the id must have 1 to 255 characters");
            }
            if entry.sha256 == empty && entry.salt.is_empty() {
                wrong("this is the hash of nothing; was the variable with the key unset?");
            }
            let credential = Credential::Key {
                sha256: entry.sha256,
                salt: entry.salt.clone(),
                expires: entry.expires,
            };
            let given = Given::Entry {
                attributes: &entry.attributes,
            };
            let Ok(facts) = Facts::new(mapping, &entry.id, entry.scopes.clone(), &given) else {
                if !entry.id.is_empty() {
                    wrong("the scheme's `principal.name` gives no name for it");
                }
                continue;
            };
            let known = Known {
                proof: Proof::new(scheme, "key", facts, credential),
                expires: entry.expires,
            };
            let duplicate = if entry.salt.is_empty() {
                plain.insert(entry.sha256, known).is_some()
            } else {
                let same = |other: &Salted| other.sha256 == entry.sha256 && other.salt == entry.salt;
                let duplicate = salted.len() <= MAX_SALTED && salted.iter().any(same);
                salted.push(Salted {
                    salt: entry.salt.clone(),
                    sha256: entry.sha256,
                    known,
                });
                duplicate
            };
            if duplicate {
                wrong("the same hash stands above; one key cannot have two owners");
            }
        }
        if salted.len() > MAX_SALTED {
            problems.push(Problem::new(
                key,
                format!("more than {MAX_SALTED} salted hashes; random keys need no salt"),
            ));
        }
        if keys.len() > MAX_KEYS {
            problems.push(Problem::new(key, format!("more than {MAX_KEYS} keys")));
        }
        if problems.is_empty() {
            Ok(Self { plain, salted, keys })
        } else {
            Err(problems)
        }
    }

    fn of_hash(&self, sha256: &[u8; 32], salt: &[u8]) -> Option<&Known> {
        if salt.is_empty() {
            return self.plain.get(sha256);
        }
        let entry = self
            .salted
            .iter()
            .find(|entry| entry.sha256 == *sha256 && entry.salt == salt);
        entry.map(|entry| &entry.known)
    }

    fn find(&self, secret: &[u8]) -> Option<&Known> {
        let digest = sha256(&[secret]);
        if let Some((stored, known)) = self.plain.get_key_value(&digest)
            && bool::from(stored.ct_eq(&digest))
        {
            return Some(known);
        }
        // Every entry is compared, and the comparison never branches: which entry matched does not show in the time.
        let mut found = u32::MAX;
        for (index, entry) in (0u32..).zip(&self.salted) {
            let equal: Choice = sha256(&[&entry.salt, secret]).ct_eq(&entry.sha256);
            found.conditional_assign(&index, equal);
        }
        let entry = self.salted.get(usize::try_from(found).ok()?)?;
        Some(&entry.known)
    }
}

/// The keys of the scheme at this key of the configuration, as they stand there or in its file.
pub(super) fn keys_of(key: &str, source: &KeySource) -> Result<Vec<ApiKey>, Vec<Problem>> {
    match source {
        KeySource::Inline(keys) => Ok(keys.clone()),
        KeySource::File(path) => {
            let key = format!("{key}.keys_file");
            let text = files::read_text(path).map_err(|error| vec![Problem::new(&*key, describe(&error))])?;
            parse(&key, path, &text)
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    id: String,
    hash: String,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    attributes: Vec<String>,
    #[serde(default)]
    expires: Option<String>,
    #[serde(default)]
    label: String,
}

const EXPECTED: &str = "expected a list `keys` of `{ id, hash, scopes, attributes, expires, label }`";

pub(super) fn parse(key: &str, path: &Path, text: &str) -> Result<Vec<ApiKey>, Vec<Problem>> {
    let raw: RawFile = read_yaml(key, path, text, EXPECTED).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let mut keys = Vec::with_capacity(raw.keys.len());
    for (index, raw) in raw.keys.into_iter().enumerate() {
        let attributes = attributes(&raw.attributes, |cause| {
            problems.push(Problem::new(
                key,
                format!("keys[{index}].attributes in {} {cause}", path.display()),
            ));
        });
        let expires = raw.expires.as_deref().map(Moment::parse).transpose();
        let expires = expires.unwrap_or_else(|cause| {
            problems.push(Problem::new(
                key,
                format!("keys[{index}].expires in {}: {cause}", path.display()),
            ));
            None
        });
        match ApiKey::parse_hash(&raw.hash) {
            Some((salt, sha256)) => keys.push(ApiKey {
                id: raw.id,
                sha256,
                salt,
                scopes: raw.scopes,
                attributes,
                expires: expires.map(|moment| moment.0),
                label: raw.label,
            }),
            // The value itself is not repeated: it may be the key.
            None => problems.push(Problem::new(
                key,
                format!(
                    "keys[{index}].hash in {} must be \"sha256:<64 hex digits>\" or \"sha256:<salt in hex>:<64 hex \
                     digits>\"; keys never stand here in the clear: `printf %s KEY | sha256sum` makes the digits",
                    path.display()
                ),
            )),
        }
    }
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

pub(super) fn attributes(texts: &[String], mut wrong: impl FnMut(&str)) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    for text in texts {
        match Attribute::parse(text) {
            Some(attribute) => attributes.push(attribute),
            None => wrong(Attribute::EXPECTED),
        }
    }
    attributes
}

/// The error of a file with its cause: both name only the path and the operating system's reason.
pub(super) fn describe(error: &files::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
