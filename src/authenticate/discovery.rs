//! Discovery documents: where an issuer's keys are (OpenID Connect Discovery 1.0 §3, RFC 8414 §2).
//!
//! The document stands at a configured URL and is believed only if it names the configured issuer, letter by letter
//! (OpenID Connect Discovery 1.0 §4.3, RFC 8414 §3.3). What it names is fetched over https, or over http on a loopback
//! address if the document itself came that way: no provider elsewhere sends the gateway to its own machine in the clear.

use serde::Deserialize;

use crate::config::url;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("it is not a discovery document with `issuer` and `jwks_uri`")]
    Json(#[source] serde_json::Error),
    #[error("it is of another issuer than the configured one")]
    Issuer,
    #[error("its `jwks_uri` is no URL")]
    Url,
    #[error("its `jwks_uri` is not https")]
    Insecure,
}

/// The URL of the keys, from a document that was read at `place`.
pub(super) fn keys_url(document: &[u8], place: &str, issuer: &str) -> Result<String, Error> {
    /// Either of the two a second time is refused by the derive.
    #[derive(Deserialize)]
    struct Document {
        issuer: String,
        jwks_uri: String,
    }

    let document: Document = serde_json::from_slice(document).map_err(Error::Json)?;
    if document.issuer != issuer {
        return Err(Error::Issuer);
    }
    let keys = url::verify(&document.jwks_uri).map_err(|_| Error::Url)?;
    let is_near = || url::verify(place).is_ok_and(|place| !place.secure && place.is_loopback());
    let is_safe = keys.secure || (keys.is_loopback() && is_near());
    if !is_safe {
        return Err(Error::Insecure);
    }
    Ok(document.jwks_uri)
}
