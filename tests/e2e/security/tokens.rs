//! Keys and signed tokens of a test.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};

use super::ISSUER;

/// An ES256 key by its id.
pub struct Key {
    id: &'static str,
    private: EncodingKey,
    jwk: Value,
}

impl Key {
    pub fn new(id: &'static str) -> Self {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        // Uncompressed: a byte, then both coordinates.
        let point = pair.der_bytes();
        let (x, y) = point[1..].split_at(32);
        let jwk = json!({
            "kty": "EC", "crv": "P-256", "kid": id, "use": "sig",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        });
        Self {
            id,
            private: EncodingKey::from_ec_der(&pair.serialize_der()),
            jwk,
        }
    }

    pub fn set(&self) -> Value {
        json!({ "keys": [self.jwk] })
    }

    /// With this `typ` and these claims.
    pub fn sign_as(&self, kind: Option<&str>, claims: &Value) -> String {
        let header = json!({ "alg": "ES256", "kid": self.id, "typ": kind.unwrap_or("JWT") });
        self.sign_with(&header, claims)
    }

    /// The key as others may see it, and nothing else of it.
    pub fn public(&self) -> Value {
        but(self.jwk.clone(), &json!({ "kid": null, "use": null }))
    }

    /// With exactly this header and these claims.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.private, Algorithm::ES256).unwrap();
        format!("{message}.{signature}")
    }

    /// A good token of `ann`.
    pub fn token(&self) -> String {
        self.sign_as(None, &claims())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tokens of a test are good at the time of the machine, like the gateway"
)]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": "a2a", "sub": "ann", "exp": now() + 600 })
}

/// The same with some replaced; `null` takes one away.
pub fn but(mut claims: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}
