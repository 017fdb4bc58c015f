//! Bearer tokens that are JWTs (RFC 7519, RFC 8725, RFC 9068).
//!
//! The algorithm comes from the key, the key from the configured issuer; nothing in a token's header can change either.
//! Times are compared with the gateway's clock here, everything else about claims is required by `validation`. A token
//! that was verified is remembered by its SHA-256 until it expires or the keys change, so that a caller costs one
//! signature check a token.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation};
use quick_cache::sync::Cache;
use serde::Deserialize;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::claims::Claims;
use super::super::jwks::{self, KeySet, Present};
use super::super::remote::Remote;
use super::super::verifiers::Commit;
use super::super::{Invalid, Proof, Shown, api_key, sha256};
use super::Terms;
use crate::audit::Trail;
use crate::config::{JwksSource, Problem, TokenProfile, files};
use crate::drain::Drain;

/// Verified tokens that are remembered, about 300 bytes each; the least used one makes room.
const MAX_VERIFIED: usize = 10_000;

pub(super) struct Verifier {
    terms: Arc<Terms>,
    profile: TokenProfile,
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
    /// `before` is the verifier of an earlier configuration whose keys come from the same place: if they are fetched, they and
    /// the job that fetches them are shared.
    pub(super) fn load(
        terms: &Arc<Terms>,
        key: &str,
        keys_from: &JwksSource,
        profile: TokenProfile,
        before: Option<&Self>,
    ) -> Result<Self, Problem> {
        let (keys, source) = match (keys_from, before) {
            (JwksSource::File(path), _) => {
                let keys = ArcSwapOption::from_pointee(read_keys(key, path)?);
                (Arc::new(keys), Arc::new(Source::File(path.clone())))
            }
            (JwksSource::Fetched(_), Some(before)) => (Arc::clone(&before.keys), Arc::clone(&before.source)),
            (JwksSource::Fetched(fetched), None) => {
                let keys = Arc::new(ArcSwapOption::empty());
                let remote = Remote::new(&terms.scheme, fetched, &keys)
                    .map_err(|cause| Problem::new(format!("{key}.jwks_ca"), cause))?;
                let stop = CancellationToken::new();
                let source = Source::Url {
                    remote: Arc::new(remote),
                    stop: stop.clone(),
                    _stop_with_me: stop.drop_guard(),
                };
                (keys, Arc::new(source))
            }
        };
        Ok(Self {
            terms: Arc::clone(terms),
            profile,
            keys,
            source,
            verified: Cache::new(MAX_VERIFIED),
        })
    }

    /// The verifier of what the file holds by now, if that is something else. Keys that are fetched renew themselves.
    pub(super) fn renewed(&self, key: &str) -> Result<Option<Self>, Problem> {
        let Source::File(path) = &*self.source else {
            return Ok(None);
        };
        let new = read_keys(key, path)?;
        if self
            .keys
            .load()
            .as_ref()
            .is_some_and(|known| known.digest == new.digest)
        {
            return Ok(None);
        }
        Ok(Some(Self {
            terms: Arc::clone(&self.terms),
            profile: self.profile,
            keys: Arc::new(ArcSwapOption::from_pointee(new)),
            source: Arc::clone(&self.source),
            verified: Cache::new(MAX_VERIFIED),
        }))
    }

    /// Takes what the CA file says by now about where the keys are fetched.
    pub(super) fn trust_again(&self, key: &str) -> Result<Option<Commit>, Problem> {
        let Source::Url { remote, .. } = &*self.source else {
            return Ok(None);
        };
        let changed = remote.trust.changed();
        let changed = changed.map_err(|cause| Problem::new(format!("{key}.jwks_ca"), cause))?;
        let remote = Arc::clone(remote);
        Ok(changed.map(|new| Box::new(move || remote.trust.believe(new)) as Commit))
    }

    /// Starts the job that fetches the keys, if they are fetched.
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

    pub(super) fn tell(&self, trail: &Trail) {
        if let Source::Url { remote, .. } = &*self.source {
            remote.tell(trail);
        }
    }

    pub(super) fn ready(&self) -> bool {
        self.keys.load().is_some()
    }

    pub(super) async fn verify(&self, token: &[u8]) -> Shown {
        let digest = sha256(&[token]);
        let now = self.terms.clock.unix_seconds();
        if let Some(proof) = self.remembered(&digest, now) {
            return Shown::Proof(proof);
        }
        // The issuer is looked at before any key is: a token of somebody else's must not make us ask this issuer.
        let shape = match Shape::read(token, &self.terms.issuer, self.profile) {
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
        let terms = &*self.terms;
        let key = keys.select(shape.key_id.as_deref(), shape.algorithm)?;
        let validation = validation(shape.algorithm, &terms.issuer, &terms.audience);
        let token =
            jsonwebtoken::decode::<Claims>(token, &key.decoding, &validation).map_err(|error| reason(error.kind()))?;
        let claims = token.claims;
        claims.issuer(&terms.issuer)?;
        claims.audience(&terms.audience)?;
        let expires = claims.times(now, terms.leeway)?.ok_or(Invalid::MissingClaim)?;
        match self.profile {
            TokenProfile::Jwt => {}
            TokenProfile::AccessToken => claims.access_token()?,
        }
        Ok(Verified {
            proof: terms.proof(&claims, Some(expires))?,
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
    let bytes = files::read(path).map_err(|error| Problem::new(&*key, api_key::describe(&error)))?;
    KeySet::parse(&bytes).map_err(|error| Problem::new(&*key, format!("{} is refused: {error}", path.display())))
}

/// What an unverified token says about how to verify it.
struct Shape {
    key_id: Option<String>,
    algorithm: Algorithm,
}

impl Shape {
    fn read(token: &[u8], issuer: &str, profile: TokenProfile) -> Result<Self, Invalid> {
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
        let kind = header.typ.map(|kind| kind.to_ascii_lowercase());
        let kind = kind
            .as_deref()
            .map(|kind| kind.strip_prefix("application/").unwrap_or(kind));
        let is_right = match (profile, kind) {
            (TokenProfile::Jwt, None | Some("jwt")) | (_, Some("at+jwt")) => true,
            // RFC 9068 §4: everything else may be an ID token.
            (TokenProfile::Jwt | TokenProfile::AccessToken, _) => false,
        };
        if !is_right {
            return Err(Invalid::WrongType);
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
            | Invalid::Inactive
            | Invalid::Denied
            | Invalid::Revoked
            | Invalid::NotBound
            | Invalid::UnknownBinding
            | Invalid::BadProof
            | Invalid::ReplayedProof
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
