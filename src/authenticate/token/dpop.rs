//! Proofs of possession in the `DPoP` field (RFC 9449 §4): that who shows a token has the key that it is bound to.
//!
//! Everything of §4.3 but nonces (§8), which are not given out. The key stands in the proof itself and proves nothing alone:
//! whoever asks compares its thumbprint with the token's. What the caller wrote is not repeated.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderName;
use http::request;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::claims::Claims;
use super::super::jwks::{self, Present};
use super::super::places::Found;
use super::super::replays::Proof;
use super::super::resource::Resource;
use super::super::{Invalid, came, sha256};
use super::bearer::MAX_TOKEN;

/// Where proofs stand.
pub(in super::super) const FIELD: HeaderName = HeaderName::from_static("dpop");
/// RFC 9449 §4.2.
const TYPE: &str = "dpop+jwt";

/// When a proof may have been made.
pub(super) struct Window {
    /// Seconds.
    pub lifetime: u64,
    pub leeway: u64,
    pub now: u64,
}

/// A good proof for this token and this request, of whatever key.
pub(super) fn check(parts: &request::Parts, token: &[u8], at: &Resource, window: &Window) -> Result<Proof, Invalid> {
    let proof = match Found::only(parts.headers.get_all(FIELD).iter()) {
        Found::One(value) => value.as_bytes(),
        Found::Nothing | Found::Several => return Err(Invalid::BadProof),
    };
    if proof.len() > MAX_TOKEN {
        return Err(Invalid::BadProof);
    }
    read(proof, parts, token, at, window).ok_or(Invalid::BadProof)
}

fn read(proof: &[u8], parts: &request::Parts, token: &[u8], at: &Resource, window: &Window) -> Option<Proof> {
    let text = std::str::from_utf8(proof).ok()?;
    let (message, signature) = text.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let header: Header = part(header)?;
    // RFC 8725 §3.11 and RFC 7515 §4.1.9: a type has no case, and may have its prefix.
    let kind = header.typ.to_ascii_lowercase();
    if kind.strip_prefix("application/").unwrap_or(&kind) != TYPE || header.crit == Present(true) {
        return None;
    }
    let algorithm = jwks::algorithm(&header.alg)?;
    let (key, thumbprint) = jwks::Key::shown(header.jwk.get(), algorithm)?;
    if !jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key.decoding, algorithm).ok()? {
        return None;
    }
    let claims: Claims = part(claims)?;
    let id = claims.text("jti")?;
    if claims.text("htm")? != came::method(parts).as_str() || !at.is_at(claims.text("htu")?, came::uri(parts).path()) {
        return None;
    }
    if URL_SAFE_NO_PAD.decode(claims.text("ath")?).ok()? != sha256(&[token]) {
        return None;
    }
    // Not from the future, and not expired where it says when it does.
    claims.times(window.now, window.leeway).ok()?;
    let made = claims.date("iat").ok()??;
    let until = made.saturating_add(window.lifetime).saturating_add(window.leeway);
    (window.now <= until).then(|| Proof {
        id: sha256(&[&thumbprint, id.as_bytes()]),
        key: thumbprint,
        made,
        until,
    })
}

fn part<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// Duplicate members are refused by the derive.
#[derive(Deserialize)]
struct Header {
    typ: String,
    alg: String,
    jwk: Box<RawValue>,
    #[serde(default)]
    crit: Present,
}
