//! The claims of a token, read strictly.
//!
//! What the library is lenient about is refused here: a claim that stands twice, an array of issuers, a malformed
//! audience. Knows nothing of signatures: `token::jwt` asks for claims before and after one is checked, others read what
//! somebody said of a credential, in claims of the same names (RFC 7662 §2.2).

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Bound, Invalid};

/// OpenID Connect Core §2: `sub` has at most 255 characters.
const MAX_PRINCIPAL: usize = 255;

/// The claims of a token; a name that stands twice is refused, because two readers may take different ones.
pub(super) struct Claims(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = BTreeMap<String, Value>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of claims")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut claims = BTreeMap::new();
                while let Some((name, value)) = map.next_entry()? {
                    if claims.insert(name, value).is_some() {
                        return Err(A::Error::custom("a claim stands twice"));
                    }
                }
                Ok(claims)
            }
        }

        deserializer.deserialize_map(Members).map(Self)
    }
}

impl Claims {
    /// RFC 7519 §4.1.1: one string. An array is refused although the library takes it.
    pub(super) fn issuer(&self, expected: &str) -> Result<(), Invalid> {
        match self.0.get("iss").ok_or(Invalid::MissingClaim)? {
            Value::String(issuer) if issuer == expected => Ok(()),
            Value::String(_) => Err(Invalid::WrongIssuer),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(Invalid::Malformed)
            }
        }
    }

    /// RFC 7519 §4.1.3: one string or an array of strings, one of which must be ours.
    pub(super) fn audience(&self, expected: &[String]) -> Result<(), Invalid> {
        let audience = self.0.get("aud").ok_or(Invalid::MissingClaim)?;
        let given = strings(audience).ok_or(Invalid::Malformed)?;
        if given
            .iter()
            .any(|given| expected.iter().any(|expected| expected == given))
        {
            Ok(())
        } else {
            Err(Invalid::WrongAudience)
        }
    }

    /// What RFC 9068 §2.2 requires of an access token beside `iss`, `aud` and `exp`.
    pub(super) fn access_token(&self) -> Result<(), Invalid> {
        for claim in ["sub", "client_id", "jti"] {
            match self.0.get(claim).ok_or(Invalid::MissingClaim)? {
                Value::String(text) if !text.is_empty() => {}
                Value::String(_)
                | Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => return Err(Invalid::Malformed),
            }
        }
        self.date("iat")?.ok_or(Invalid::MissingClaim).map(|_| ())
    }

    pub(super) fn has(&self, claim: &str) -> bool {
        self.0.contains_key(claim)
    }

    /// RFC 7662 §2.2: whether the one who was asked calls it good. `None`: nothing of that, or no boolean.
    pub(super) fn active(&self) -> Option<bool> {
        self.0.get("active").and_then(Value::as_bool)
    }

    /// Whether it is to be shown as an access token of the kind that it is, as far as it says how: one that is bound to a key
    /// is of a type of its own (RFC 9449 §6.2).
    pub(super) fn is_shown(&self, bound: &Bound) -> bool {
        match self.0.get("token_type") {
            None | Some(Value::Null) => true,
            Some(Value::String(kind)) if kind.eq_ignore_ascii_case("dpop") => bound.key.is_some(),
            // Some servers write what RFC 8693 §3 has a name for.
            Some(Value::String(kind)) => kind.eq_ignore_ascii_case("bearer") || kind == "access_token",
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => false,
        }
    }

    /// Those of its audiences that are expected.
    pub(super) fn matched(&self, expected: &[String]) -> Vec<String> {
        let given = self.0.get("aud").and_then(strings).unwrap_or_default();
        let matched = expected.iter().filter(|expected| given.contains(&expected.as_str()));
        matched.cloned().collect()
    }

    /// Returns when the token expires, without the leeway, if it says so.
    pub(super) fn times(&self, now: u64, leeway: u64) -> Result<Option<u64>, Invalid> {
        let expires = self.date("exp")?;
        // "On or after which" it must not be accepted: RFC 7519 §4.1.4.
        if expires.is_some_and(|expires| now >= expires.saturating_add(leeway)) {
            return Err(Invalid::Expired);
        }
        for claim in ["nbf", "iat"] {
            if self.date(claim)?.is_some_and(|from| from > now.saturating_add(leeway)) {
                return Err(Invalid::NotYetValid);
            }
        }
        Ok(expires)
    }

    /// What its sender must have (RFC 7800 §3.1): the certificate of RFC 8705 §3.1, the key of RFC 9449 §6.1. Members that are
    /// not known are ignored, as RFC 7800 says, but not where there is no other.
    pub(super) fn bound(&self) -> Result<Bound, Invalid> {
        let members = match self.0.get("cnf") {
            None => return Ok(Bound::default()),
            Some(Value::Object(members)) => members,
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err(Invalid::Malformed);
            }
        };
        let digest = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(value) => {
                let bytes = value.as_str().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
                let digest = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
                digest.map(Some).ok_or(Invalid::Malformed)
            }
        };
        let bound = Bound {
            certificate: digest("x5t#S256")?,
            key: digest("jkt")?,
        };
        if bound == Bound::default() {
            return Err(Invalid::UnknownBinding);
        }
        Ok(bound)
    }

    /// A claim that is a text with something in it.
    pub(super) fn text(&self, claim: &str) -> Option<&str> {
        self.0.get(claim)?.as_str().filter(|text| !text.is_empty())
    }

    /// Seconds, which need not be whole (RFC 7519 §2); a part of a second is cut off.
    pub(super) fn date(&self, claim: &str) -> Result<Option<u64>, Invalid> {
        let Some(value) = self.0.get(claim) else {
            return Ok(None);
        };
        let Value::Number(number) = value else {
            return Err(Invalid::Malformed);
        };
        if let Some(seconds) = number.as_u64() {
            return Ok(Some(seconds));
        }
        let seconds = number.as_f64().ok_or(Invalid::Malformed)?;
        // Beyond this a float is no longer exact, and no date.
        if !(0.0..=9_007_199_254_740_992.0).contains(&seconds) {
            return Err(Invalid::Malformed);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked above; the fraction is meant to go"
        )]
        Ok(Some(seconds as u64))
    }

    pub(super) fn principal(&self, claim: &str) -> Result<&str, Invalid> {
        match self.0.get(claim).ok_or(Invalid::MissingClaim)? {
            Value::String(name) if name.is_empty() => Err(Invalid::Malformed),
            Value::String(name) if name.len() > MAX_PRINCIPAL => Err(Invalid::TooLong),
            Value::String(name) => Ok(name),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(Invalid::Malformed)
            }
        }
    }

    pub(super) fn all(&self) -> &BTreeMap<String, Value> {
        &self.0
    }

    /// `scope` (RFC 8693 §4.2), else `scp` as some issuers write it; each as a list in one string, `scp` as an array too.
    pub(super) fn scopes(&self) -> Result<Vec<String>, Invalid> {
        let Some(value) = self.0.get("scope").or_else(|| self.0.get("scp")) else {
            return Ok(Vec::new());
        };
        let texts = strings(value).ok_or(Invalid::Malformed)?;
        Ok(texts
            .iter()
            .flat_map(|text| text.split_ascii_whitespace())
            .map(str::to_owned)
            .collect())
    }
}

/// A string, or an array of nothing but strings.
fn strings(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(values) => values.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}
