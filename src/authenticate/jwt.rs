//! Bearer tokens that are JWTs (RFC 7519, RFC 8725, RFC 9068).
//!
//! The algorithm comes from the key, the key from the configured issuer; nothing in a token's header can change either.
//! Times are compared with the gateway's clock here, everything else about claims is required by `validation`. A token
//! that was verified is remembered by its SHA-256 until it expires or the keys change, so that a caller costs one
//! signature check a token. Only the `Authorization` field is read: a token in a query or a body (RFC 6750 §2.2, §2.3)
//! ends in logs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation};
use quick_cache::sync::Cache;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::claims::Claims;
use super::facts::{Facts, Given};
use super::jwks::{self, KeySet};
use super::remote::Remote;
use super::verifiers::Commit;
use super::{Authorization, Credential, Invalid, Proof, Shown, authorization, sha256};
use crate::clock::Clock;
use crate::config::{self, JwksSource, Mapping, Problem, files};
use crate::drain::Drain;

/// Refused before it is parsed; header sections are bounded at 64 KiB, tokens of issuers rarely pass 4 KiB.
pub(super) const MAX_TOKEN: usize = 8 * 1024;
/// Verified tokens that are remembered, about 300 bytes each; the least used one makes room.
const MAX_VERIFIED: usize = 10_000;

pub(super) struct Verifier {
    scheme: Arc<str>,
    issuer: String,
    audience: Vec<String>,
    /// Seconds.
    leeway: u64,
    principal_claim: String,
    /// Those that are kept.
    claims: Vec<String>,
    mapping: Mapping,
    clock: Clock,
    keys: Arc<ArcSwapOption<KeySet>>,
    source: Arc<Source>,
    verified: Cache<[u8; 32], Verified>,
}

enum Source {
    File(PathBuf),
    Url {
        remote: Arc<Remote>,
        /// Ends the job with the last verifier that needs it.
        stop: CancellationToken,
        _stop_with_me: DropGuard,
    },
}

#[derive(Clone)]
struct Verified {
    proof: Arc<Proof>,
    generation: u64,
    expires: u64,
}

impl Verifier {
    /// `before` is the verifier of an earlier configuration whose keys come from the same place: if that is a URL, they and
    /// the job that fetches them are shared.
    pub(super) fn load(
        scheme: &Arc<str>,
        key: &str,
        jwt: &config::Jwt,
        mapping: &Mapping,
        clock: &Clock,
        before: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if jwt.issuer.is_empty() || jwt.issuer.contains('#') {
            problems.push(Problem::new(
                format!("{key}.issuer"),
                "must be an issuer URL without a fragment; `#` separates it from the subject in the principal's id",
            ));
        }
        if jwt.audience.is_empty() || jwt.audience.iter().any(String::is_empty) {
            problems.push(Problem::new(
                format!("{key}.audience"),
                "must name at least one audience; without it tokens for other services would be accepted",
            ));
        }
        if jwt.principal_claim.is_empty() {
            problems.push(Problem::new(format!("{key}.principal_claim"), "must name a claim"));
        }
        let mut keys = Arc::new(ArcSwapOption::empty());
        let source = match &jwt.keys {
            JwksSource::File(path) => match read_keys(key, path) {
                Ok(set) => {
                    keys.store(Some(Arc::new(set)));
                    Some(Arc::new(Source::File(path.clone())))
                }
                Err(problem) => {
                    problems.push(problem);
                    None
                }
            },
            JwksSource::Url {
                url,
                ca,
                refresh,
                cooldown,
            } => match before {
                Some(before) => {
                    keys = Arc::clone(&before.keys);
                    Some(Arc::clone(&before.source))
                }
                None => match Remote::new(scheme, url, ca.as_deref(), *refresh, *cooldown, Arc::clone(&keys)) {
                    Ok(remote) => {
                        let stop = CancellationToken::new();
                        Some(Arc::new(Source::Url {
                            remote: Arc::new(remote),
                            stop: stop.clone(),
                            _stop_with_me: stop.drop_guard(),
                        }))
                    }
                    Err(cause) => {
                        problems.push(Problem::new(format!("{key}.jwks_ca"), cause));
                        None
                    }
                },
            },
        };
        match source {
            Some(source) if problems.is_empty() => Ok(Self {
                scheme: Arc::clone(scheme),
                issuer: jwt.issuer.clone(),
                audience: jwt.audience.clone(),
                leeway: jwt.leeway.as_secs(),
                principal_claim: jwt.principal_claim.clone(),
                claims: jwt.claims.clone(),
                mapping: mapping.clone(),
                clock: clock.clone(),
                keys,
                source,
                verified: Cache::new(MAX_VERIFIED),
            }),
            Some(_) | None => Err(problems),
        }
    }

    /// The verifier of what the file holds by now, if that is something else. Keys at a URL renew themselves.
    pub(super) fn renewed(&self, key: &str) -> Result<Option<Self>, Vec<Problem>> {
        let Source::File(path) = &*self.source else {
            return Ok(None);
        };
        let new = read_keys(key, path).map_err(|problem| vec![problem])?;
        if self
            .keys
            .load()
            .as_ref()
            .is_some_and(|known| known.digest == new.digest)
        {
            return Ok(None);
        }
        Ok(Some(Self {
            scheme: Arc::clone(&self.scheme),
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            leeway: self.leeway,
            principal_claim: self.principal_claim.clone(),
            claims: self.claims.clone(),
            mapping: self.mapping.clone(),
            clock: self.clock.clone(),
            keys: Arc::new(ArcSwapOption::from_pointee(new)),
            source: Arc::clone(&self.source),
            verified: Cache::new(MAX_VERIFIED),
        }))
    }

    /// Takes what the CA file says by now about where the keys are fetched.
    pub(super) fn trust_again(&self, key: &str) -> Result<Option<Commit>, Vec<Problem>> {
        let Source::Url { remote, .. } = &*self.source else {
            return Ok(None);
        };
        let trust = remote
            .changed_trust()
            .map_err(|cause| vec![Problem::new(format!("{key}.jwks_ca"), cause)])?;
        let remote = Arc::clone(remote);
        Ok(trust.map(|trust| Box::new(move || remote.trust(trust)) as Commit))
    }

    /// Whether a token that was good before has not expired, and is for this issuer and one of these audiences: more cannot be told without it.
    pub(super) fn expects(&self, id: &str, audience: &[String], expires: u64) -> bool {
        let issuer = format!("jwt:{}", super::encode(&format!("{}#", self.issuer)));
        self.clock.unix_seconds() < expires
            && id.starts_with(&issuer)
            && audience.iter().any(|audience| self.audience.contains(audience))
    }

    /// Starts the job that fetches the keys, if they stand at a URL.
    pub(super) fn start(&self, drain: &Drain) {
        if let Source::Url { remote, stop, .. } = &*self.source
            && remote.claim_start()
        {
            let (remote, stop) = (Arc::clone(remote), stop.clone());
            drain.service(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = remote.run() => {}
                }
            });
        }
    }

    pub(super) fn ready(&self) -> bool {
        self.keys.load().is_some()
    }

    pub(super) async fn verify(&self, parts: &request::Parts) -> Shown {
        let token = match bearer(parts) {
            Ok(Some(token)) => token,
            Ok(None) => return Shown::Nothing,
            Err(reason) => return Shown::Refused(reason),
        };
        let digest = sha256(&[token]);
        let now = self.clock.unix_seconds();
        if let Some(proof) = self.remembered(&digest, now) {
            return Shown::Proof(proof);
        }
        // The issuer is looked at before any key is: a token of somebody else's must not make us ask this issuer.
        let shape = match Shape::read(token, &self.issuer) {
            Ok(shape) => shape,
            Err(reason) => return Shown::Refused(reason),
        };
        let Some(keys) = self.keys.load_full() else {
            return Shown::Unknowable;
        };
        let mut checked = self.check(token, &shape, &keys, now);
        if let (Err(reason), Source::Url { remote, .. }) = (&checked, &*self.source)
            && shape.may_be_newer_than_keys(*reason)
            && remote.newer_than(keys.generation).await
            && let Some(keys) = self.keys.load_full()
        {
            checked = self.check(token, &shape, &keys, now);
        }
        match checked {
            Ok(verified) => {
                let proof = Arc::clone(&verified.proof);
                self.verified.insert(digest, verified);
                Shown::Proof(proof)
            }
            Err(reason) => Shown::Refused(reason),
        }
    }

    fn remembered(&self, digest: &[u8; 32], now: u64) -> Option<Arc<Proof>> {
        let verified = self.verified.get(digest)?;
        let generation = self.keys.load().as_ref()?.generation;
        if verified.generation == generation && now < verified.expires {
            return Some(verified.proof);
        }
        self.verified.remove(digest);
        None
    }

    fn check(&self, token: &[u8], shape: &Shape, keys: &KeySet, now: u64) -> Result<Verified, Invalid> {
        let key = keys.select(shape.key_id.as_deref(), shape.algorithm)?;
        let validation = validation(shape.algorithm, &self.issuer, &self.audience);
        let token =
            jsonwebtoken::decode::<Claims>(token, &key.decoding, &validation).map_err(|error| reason(error.kind()))?;
        let claims = token.claims;
        claims.issuer(&self.issuer)?;
        claims.audience(&self.audience)?;
        let expires = claims.times(now, self.leeway)?;
        // With a mapping the claim is not needed.
        let name = match self.mapping.name {
            Some(_) => "",
            None => claims.principal(&self.principal_claim)?,
        };
        let given = Given::Token {
            claims: claims.all(),
            kept: &self.claims,
            issuer: &self.issuer,
        };
        let facts = Facts::new(&self.mapping, name, claims.scopes()?, &given)?;
        let credential = Credential::Token {
            audience: claims.matched(&self.audience),
            expires,
        };
        Ok(Verified {
            proof: Proof::new(&self.scheme, "jwt", facts, credential),
            generation: keys.generation,
            expires,
        })
    }
}

/// The only place that makes one: the library leaves `aud` and `iss` optional.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the constructor that the ban points to"
)]
fn validation(algorithm: Algorithm, issuer: &str, audience: &[String]) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.set_required_spec_claims(&["exp", "aud", "iss"]);
    validation.set_issuer(&[issuer]);
    validation.set_audience(audience);
    // `Claims::times` checks both: the library reads the system's clock, and takes a token one second too long.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation
}

fn reason(kind: &ErrorKind) -> Invalid {
    if matches!(kind, ErrorKind::InvalidSignature) {
        Invalid::BadSignature
    } else if matches!(kind, ErrorKind::MissingRequiredClaim(_)) {
        Invalid::MissingClaim
    } else if matches!(kind, ErrorKind::InvalidIssuer) {
        Invalid::WrongIssuer
    } else if matches!(kind, ErrorKind::InvalidAudience) {
        Invalid::WrongAudience
    } else if matches!(kind, ErrorKind::InvalidAlgorithm) {
        Invalid::BadAlgorithm
    } else {
        Invalid::Malformed
    }
}

fn read_keys(key: &str, path: &Path) -> Result<KeySet, Problem> {
    let key = format!("{key}.jwks_file");
    let bytes = files::read(path).map_err(|error| Problem::new(&*key, super::api_key::describe(&error)))?;
    KeySet::parse(&bytes).map_err(|error| Problem::new(&*key, format!("{} is refused: {error}", path.display())))
}

/// The token of the `Authorization` field, `None` if the field is absent or for another scheme.
fn bearer(parts: &request::Parts) -> Result<Option<&[u8]>, Invalid> {
    match authorization(&parts.headers) {
        Authorization::Absent => Ok(None),
        Authorization::Repeated => Err(Invalid::Ambiguous),
        Authorization::One { scheme, .. } if !scheme.eq_ignore_ascii_case(b"bearer") => Ok(None),
        Authorization::One { credentials, .. } => {
            if credentials.len() > MAX_TOKEN {
                return Err(Invalid::TooLong);
            }
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
            if credentials.is_empty() || !credentials.iter().all(plain) {
                return Err(Invalid::Malformed);
            }
            Ok(Some(credentials))
        }
    }
}

/// What an unverified token says about how to verify it.
struct Shape {
    key_id: Option<String>,
    algorithm: Algorithm,
}

impl Shape {
    fn read(token: &[u8], issuer: &str) -> Result<Self, Invalid> {
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(header), Some(claims), Some(_signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Invalid::Malformed);
        };
        let header: Header = read_part(header)?;
        let Ok(claims) = read_part::<Claims>(claims) else {
            return Err(Invalid::Malformed);
        };
        let algorithm = jwks::algorithm(&header.alg).ok_or(Invalid::BadAlgorithm)?;
        // RFC 7515 §4.1: none of these is needed to find the key of a configured issuer, all were used in attacks.
        let forbidden = [header.crit, header.jwk, header.jku, header.x5u, header.x5c];
        if forbidden.contains(&Present(true)) {
            return Err(Invalid::ForbiddenHeader);
        }
        if let Some(kind) = &header.typ {
            let kind = kind.to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            if kind != "jwt" && kind != "at+jwt" {
                return Err(Invalid::WrongType);
            }
        }
        claims.issuer(issuer)?;
        Ok(Self {
            key_id: header.kid,
            algorithm,
        })
    }

    /// Whether a fetch of the keys might turn this refusal around.
    fn may_be_newer_than_keys(&self, reason: Invalid) -> bool {
        match reason {
            Invalid::UnknownKeyId => true,
            // Without a name, the one key that fits may have been replaced.
            Invalid::BadSignature | Invalid::BadAlgorithm => self.key_id.is_none(),
            Invalid::Ambiguous
            | Invalid::Malformed
            | Invalid::TooLong
            | Invalid::UnknownKey
            | Invalid::BadPassword
            | Invalid::ForbiddenHeader
            | Invalid::WrongType
            | Invalid::MissingClaim
            | Invalid::WrongIssuer
            | Invalid::WrongAudience
            | Invalid::Expired
            | Invalid::NotYetValid
            | Invalid::CertificateMissing
            | Invalid::CertificateNotAllowed
            | Invalid::CertificateExpired => false,
        }
    }
}

fn read_part<T: serde::de::DeserializeOwned>(part: &[u8]) -> Result<T, Invalid> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| Invalid::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| Invalid::Malformed)
}

/// Duplicate members are refused by the derive.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    #[serde(default)]
    crit: Present,
    #[serde(default)]
    jwk: Present,
    #[serde(default)]
    jku: Present,
    #[serde(default)]
    x5u: Present,
    #[serde(default)]
    x5c: Present,
}

/// A member stands there, whatever its value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}
