//! What the gateway tells agents of callers, in words that it signed: JSON Web Tokens (RFC 7519), and the set of public keys
//! by which others check them (RFC 7517).
//!
//! Each is made for one call and has an id of its own, so that an agent may take it once; signing takes some tens of
//! microseconds. What it is for stands in its type (RFC 8725 §3.11): no other token passes for one. Only callers that a
//! scheme vouched for are told of. The keys do not change: a reload makes another signer.

mod keys;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::json;
use uuid::Uuid;

use self::keys::Key;
use crate::authenticate::Principal;
use crate::clock::Clock;
use crate::config::{Assertions, Problem, UpstreamAssertion, files};
use crate::http::query;
use crate::tls::sha256;

/// Where the public keys are published (RFC 8615).
pub const PLACE: &str = "/.well-known/jwks.json";
/// In the header, as `typ`.
pub const TYPE: &str = "a2a-gateway-assertion+jwt";

/// Signs with the first key, publishes all of them.
pub struct Signer {
    config: Assertions,
    keys: Vec<Key>,
    published: Bytes,
    /// Of the files; never too new.
    digest: Option<[u8; 32]>,
    clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing can be signed")]
pub struct Error;

impl Signer {
    /// `None` without keys. Blocking: reads files.
    pub fn build(config: &Assertions, clock: &Clock) -> Result<Option<Self>, Vec<Problem>> {
        if config.keys.is_empty() {
            return Ok(None);
        }
        // First: what is written in between is another content to the next reading.
        let digest = digest(config);
        let (mut keys, mut problems) = (Vec::<Key>::new(), Vec::new());
        for (index, configured) in config.keys.iter().enumerate() {
            let place = format!("assertions.keys[{index}]");
            match Key::read(configured) {
                Ok(key) if keys.iter().any(|known| known.id() == key.id()) => {
                    let cause = format!("has the id `{}`, which another key has", key.id());
                    problems.push(Problem::new(place, cause));
                }
                Ok(key) => keys.push(key),
                Err(cause) => problems.push(Problem::new(format!("{place}.private_key"), cause)),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let all: Vec<_> = keys.iter().map(Key::public).collect();
        Ok(Some(Self {
            config: config.clone(),
            published: Bytes::from(json!({ "keys": all }).to_string()),
            keys,
            digest,
            clock: clock.clone(),
        }))
    }

    /// Another one would be the same. Blocking: reads files.
    pub fn is_of(&self, config: &Assertions) -> bool {
        self.config == *config && self.digest.is_some() && self.digest == digest(config)
    }

    /// The set of public keys.
    pub fn published(&self) -> &Bytes {
        &self.published
    }

    pub fn max_age(&self) -> Duration {
        self.config.max_age
    }

    /// What `agent` is told of a caller at this moment; `None` of one that nobody vouched for.
    pub fn tell(
        &self,
        principal: &Principal,
        agent: &str,
        audience: &str,
        told: &UpstreamAssertion,
    ) -> Result<Option<HeaderValue>, Error> {
        if principal.is_anonymous() {
            return Ok(None);
        }
        let now = self.clock.unix_seconds();
        let ends = now.saturating_add(told.lifetime.as_secs());
        // No longer than the caller may call; clocks that differ may have let it in at the very end of its token.
        let ends = principal
            .expires()
            .map_or(ends, |expires| ends.min(expires.max(now + 1)));
        let mut claims = json!({
            "iss": self.config.issuer,
            "sub": &*principal.id,
            "aud": audience,
            "iat": now,
            "exp": ends,
            "jti": Uuid::new_v4().to_string(),
            "agent": agent,
        });
        let attributes = attributes(principal, &told.claims);
        if !attributes.is_empty()
            && let Some(claims) = claims.as_object_mut()
        {
            claims.insert("attributes".to_owned(), json!(attributes));
        }
        let key = self.keys.first().ok_or(Error)?;
        let signed = key.sign(&claims.to_string()).ok_or(Error)?;
        let mut value = HeaderValue::from_str(&signed).map_err(|_| Error)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// By name; each has a list of values, because a caller may have several.
fn attributes(principal: &Principal, names: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for attribute in &principal.attributes {
        let Some((name, value)) = attribute.split_once('=') else {
            continue;
        };
        let name = decoded(name);
        if names.contains(&name) {
            found.entry(name).or_default().push(decoded(value));
        }
    }
    found
}

/// Of what stands in ids and attributes percent-encoded.
fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&query::decode(text)).into_owned()
}

fn digest(config: &Assertions) -> Option<[u8; 32]> {
    let mut digests = Vec::new();
    for key in &config.keys {
        let pem = zeroize::Zeroizing::new(files::read(&key.private_key).ok()?);
        digests.extend(sha256(&pem));
    }
    Some(sha256(&digests))
}

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
