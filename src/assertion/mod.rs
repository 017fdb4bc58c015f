//! What the gateway tells agents of callers, in words that it signed: JSON Web Tokens (RFC 7519).
//!
//! Each is made for one call and has an id of its own, so that an agent may take it once; signing takes some tens of
//! microseconds. What it is for stands in its type (RFC 8725 §3.11): no other token passes for one. Only callers that a
//! scheme vouched for are told of. The keys do not change: a reload makes another signer.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use http::HeaderValue;
use serde_json::json;
use uuid::Uuid;

use crate::authenticate::Principal;
use crate::clock::Clock;
use crate::config::{Assertions, Problem, UpstreamAssertion};
use crate::http::query;
use crate::signing::{Keys, Kinds, base64};

/// In the header, as `typ`.
pub const TYPE: &str = "a2a-gateway-assertion+jwt";

/// Signs with the first key.
pub struct Signer {
    config: Assertions,
    keys: Keys,
    /// The protected header, in base64url.
    header: String,
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
        let keys = Keys::read("assertions", &config.keys, Kinds::Fast)?;
        let header = keys
            .first()
            .map(|key| json!({ "alg": key.algorithm(), "typ": TYPE, "kid": key.id() }));
        Ok(Some(Self {
            config: config.clone(),
            header: base64(header.unwrap_or_default().to_string().as_bytes()),
            keys,
            clock: clock.clone(),
        }))
    }

    /// Another one would be the same. Blocking: reads files.
    pub fn is_of(&self, config: &Assertions) -> bool {
        self.config == *config && self.keys.is_of(&config.keys)
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
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
        let claims = base64(claims.to_string().as_bytes());
        let signature = key.sign(&self.header, &claims).ok_or(Error)?;
        // The compact form (RFC 7515 §7.1).
        let signed = format!("{}.{claims}.{signature}", self.header);
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
