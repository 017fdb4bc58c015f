//! JSON Web Key Sets (RFC 7517): which public key checks which token.
//!
//! A key decides the algorithms that it may be used with, never the token: an RSA key admits the RSA algorithms, or the
//! one that its `alg` names, an elliptic curve exactly one. Keys that cannot be used are skipped, because sets hold keys
//! for other purposes too; a set without one usable key is an error. Symmetric keys are never usable: whoever can read
//! the set could sign.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Invalid, sha256};

/// More is no key set but an attempt to fill memory; large issuers publish about ten.
pub(super) const MAX_KEYS: usize = 100;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("it is not a JSON Web Key Set")]
    Json(#[source] serde_json::Error),
    #[error("it holds {0} keys, more than {MAX_KEYS}")]
    TooMany(usize),
    #[error(
        "it holds no key that can check a signature (RSA of 2048 to 8192 bits, EC P-256 or P-384, Ed25519; `use` absent or \
         sig)"
    )]
    NoUsableKey,
}

#[derive(Debug)]
pub(super) struct KeySet {
    keys: Vec<Key>,
    /// Differs for every set that was ever made: what was checked with another one is checked again.
    pub(super) generation: u64,
    /// Of the bytes that it was read from.
    pub(super) digest: [u8; 32],
}

#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
}

impl KeySet {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        static GENERATION: AtomicU64 = AtomicU64::new(1);

        #[derive(Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            keys: Vec<&'a RawValue>,
        }

        let raw: Raw<'_> = serde_json::from_slice(bytes).map_err(Error::Json)?;
        if raw.keys.len() > MAX_KEYS {
            return Err(Error::TooMany(raw.keys.len()));
        }
        let mut keys: Vec<Key> = Vec::with_capacity(raw.keys.len());
        for (index, raw) in raw.keys.into_iter().enumerate() {
            match Key::parse(raw.get()) {
                Ok(key) => keys.push(key),
                Err(reason) => tracing::debug!(index, reason, "a key of a key set is not used"),
            }
        }
        if keys.is_empty() {
            return Err(Error::NoUsableKey);
        }
        Ok(Self {
            keys,
            generation: GENERATION.fetch_add(1, Ordering::Relaxed),
            digest: sha256(&[bytes]),
        })
    }

    /// The key that a token names, if it admits the token's algorithm. Without a name there must be only one that fits:
    /// trying keys in turn would let a caller spend our time.
    pub(super) fn select(&self, id: Option<&str>, algorithm: Algorithm) -> Result<&Key, Invalid> {
        let mut named = self
            .keys
            .iter()
            .filter(|key| id.is_none() || key.id.as_deref() == id)
            .peekable();
        if named.peek().is_none() {
            return Err(Invalid::UnknownKeyId);
        }
        let mut fitting = named.filter(|key| key.algorithms.contains(&algorithm));
        let key = fitting.next().ok_or(Invalid::BadAlgorithm)?;
        if fitting.next().is_some() {
            return Err(Invalid::UnknownKeyId);
        }
        Ok(key)
    }
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Members of keys that are not for others (RFC 7518 §6.2.2, §6.3.2 and §6.4.1).
#[derive(Deserialize)]
struct Private {
    #[serde(default)]
    d: Present,
    #[serde(default)]
    p: Present,
    #[serde(default)]
    q: Present,
    #[serde(default)]
    dp: Present,
    #[serde(default)]
    dq: Present,
    #[serde(default)]
    qi: Present,
    #[serde(default)]
    oth: Present,
    #[serde(default)]
    k: Present,
}

/// A member stands there, whatever its value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Present(pub bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

impl Key {
    /// A key that somebody shows as his own, and its thumbprint (RFC 7638); `None`: it does not fit the algorithm, cannot be used,
    /// or has more in it than is for others (RFC 9449 §4.3).
    pub(super) fn shown(text: &str, algorithm: Algorithm) -> Option<(Self, [u8; 32])> {
        let Private {
            d,
            p,
            q,
            dp,
            dq,
            qi,
            oth,
            k,
        } = serde_json::from_str(text).ok()?;
        if [d, p, q, dp, dq, qi, oth, k].contains(&Present(true)) {
            return None;
        }
        let key = Self::parse(text)
            .ok()
            .filter(|key| key.algorithms.contains(&algorithm))?;
        let raw: RawKey = serde_json::from_str(text).ok()?;
        Some((key, raw.thumbprint()?))
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let raw: RawKey = serde_json::from_str(text).map_err(|_| "it is malformed")?;
        if raw.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return Err("its `use` is not sig");
        }
        if raw
            .key_ops
            .as_ref()
            .is_some_and(|operations| !operations.iter().any(|op| op == "verify"))
        {
            return Err("its `key_ops` lacks verify");
        }
        let (mut algorithms, decoding) = match raw.kty.as_str() {
            "RSA" => {
                let n = field(raw.n.as_deref())?;
                let e = field(raw.e.as_deref())?;
                let n = without_leading_zeros(&n);
                if !(256..=1024).contains(&n.len()) {
                    return Err("its modulus has not 2048 to 8192 bits");
                }
                (
                    vec![
                        Algorithm::RS256,
                        Algorithm::RS384,
                        Algorithm::RS512,
                        Algorithm::PS256,
                        Algorithm::PS384,
                        Algorithm::PS512,
                    ],
                    DecodingKey::from_rsa_raw_components(n, &e),
                )
            }
            "EC" => {
                let (algorithm, size) = match raw.crv.as_deref() {
                    Some("P-256") => (Algorithm::ES256, 32),
                    Some("P-384") => (Algorithm::ES384, 48),
                    Some(_) | None => return Err("its curve is not supported"),
                };
                let (x, y) = (field(raw.x.as_deref())?, field(raw.y.as_deref())?);
                if x.len() != size || y.len() != size {
                    return Err("its coordinates have the wrong length");
                }
                // SEC 1 §2.3.3, uncompressed.
                let point = [&[4], x.as_slice(), y.as_slice()].concat();
                (vec![algorithm], DecodingKey::from_ec_der(&point))
            }
            "OKP" if raw.crv.as_deref() == Some("Ed25519") => {
                let x = field(raw.x.as_deref())?;
                if x.len() != 32 {
                    return Err("its coordinate has the wrong length");
                }
                (vec![Algorithm::EdDSA], DecodingKey::from_ed_der(&x))
            }
            "oct" => return Err("it is symmetric"),
            _ => return Err("its type is not supported"),
        };
        if let Some(name) = &raw.alg {
            // RFC 9864 names the curve; tokens still say EdDSA.
            let name = if name == "Ed25519" { "EdDSA" } else { name };
            algorithms.retain(|algorithm| algorithm_name(*algorithm) == Some(name));
            if algorithms.is_empty() {
                return Err("its `alg` does not fit its type or is not supported");
            }
        }
        Ok(Self {
            id: raw.kid,
            algorithms,
            decoding,
        })
    }
}

impl RawKey {
    /// RFC 7638 §3.2: over the members that the key needs, in the order of their names. Their values are base64url or were
    /// compared, so that nothing in them is to be escaped.
    fn thumbprint(&self) -> Option<[u8; 32]> {
        let text = match self.kty.as_str() {
            "RSA" => format!(
                r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#,
                self.e.as_ref()?,
                self.n.as_ref()?
            ),
            "EC" => format!(
                r#"{{"crv":"{}","kty":"EC","x":"{}","y":"{}"}}"#,
                self.crv.as_ref()?,
                self.x.as_ref()?,
                self.y.as_ref()?
            ),
            "OKP" => format!(
                r#"{{"crv":"{}","kty":"OKP","x":"{}"}}"#,
                self.crv.as_ref()?,
                self.x.as_ref()?
            ),
            _ => return None,
        };
        Some(sha256(&[text.as_bytes()]))
    }
}

fn field(text: Option<&str>) -> Result<Vec<u8>, &'static str> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text.ok_or("a member is missing")?)
        .map_err(|_| "a member is not base64url")?;
    if bytes.is_empty() {
        return Err("a member is empty");
    }
    Ok(bytes)
}

/// The algorithms that tokens may use; `None` for the symmetric ones.
fn algorithm_name(algorithm: Algorithm) -> Option<&'static str> {
    SUPPORTED
        .iter()
        .find(|(_, known)| *known == algorithm)
        .map(|(name, _)| *name)
}

pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    SUPPORTED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, algorithm)| *algorithm)
}

/// The names of all.
pub(super) fn names() -> [&'static str; 9] {
    SUPPORTED.map(|(name, _)| name)
}

const SUPPORTED: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Some issuers write the sign byte of the DER form (RFC 7518 §6.3.1.1 forbids it, and the check of the size counts it).
fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}
