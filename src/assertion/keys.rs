//! Keys to sign with: on P-256 or of Ed25519, the two that every library of JOSE can check by now.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{TYPE, base64};
use crate::config::{AssertionKey, files};
use crate::tls::sha256;

pub struct Key {
    id: String,
    pair: Pair,
    /// The protected header, in base64url.
    header: String,
}

enum Pair {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl Key {
    /// What is wrong with it names the file and repeats nothing of it. Blocking.
    pub fn read(configured: &AssertionKey) -> Result<Self, String> {
        let path = configured.private_key.display();
        let pem = files::read(&configured.private_key).map(Zeroizing::new);
        let pem = pem.map_err(|error| crate::tls::chain_of(&error))?;
        let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| format!("{path} holds no private key in PEM"))?;
        let pair = Pair::of(&der).ok_or_else(|| format!("{path} holds no key on the curve P-256 or of Ed25519"))?;
        let id = match &configured.id {
            Some(id) => id.clone(),
            None => base64(&sha256(pair.members().to_string().as_bytes())),
        };
        let header = json!({ "alg": pair.algorithm(), "typ": TYPE, "kid": id });
        Ok(Self {
            header: base64(header.to_string().as_bytes()),
            id,
            pair,
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// As it stands in a set (RFC 7517 §4).
    pub fn public(&self) -> Value {
        let mut public = self.pair.members();
        if let Some(members) = public.as_object_mut() {
            members.insert("kid".to_owned(), json!(self.id));
            members.insert("use".to_owned(), json!("sig"));
            members.insert("alg".to_owned(), json!(self.pair.algorithm()));
        }
        public
    }

    /// The compact form (RFC 7515 §7.1).
    pub fn sign(&self, claims: &str) -> Option<String> {
        let mut text = format!("{}.{}", self.header, base64(claims.as_bytes()));
        let signature = match &self.pair {
            Pair::Es256(pair) => pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?,
            Pair::EdDsa(pair) => pair.sign(text.as_bytes()),
        };
        text.push('.');
        text.push_str(&base64(signature.as_ref()));
        Some(text)
    }
}

impl Pair {
    fn of(der: &PrivateKeyDer<'_>) -> Option<Self> {
        let bytes = der.secret_der();
        if let Ok(pair) = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes) {
            return Some(Self::Es256(pair));
        }
        Ed25519KeyPair::from_pkcs8(bytes).ok().map(Self::EdDsa)
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
        }
    }

    /// The required ones, in the order of their thumbprint (RFC 7638 §3.2, RFC 8037 §2).
    fn members(&self) -> Value {
        match self {
            Self::Es256(pair) => {
                // A byte for the form, and two numbers of 32 bytes.
                let point = pair.public_key().as_ref();
                let (x, y) = point
                    .get(1..)
                    .unwrap_or_default()
                    .split_at_checked(32)
                    .unwrap_or_default();
                json!({ "crv": "P-256", "kty": "EC", "x": base64(x), "y": base64(y) })
            }
            Self::EdDsa(pair) => json!({ "crv": "Ed25519", "kty": "OKP", "x": base64(pair.public_key().as_ref()) }),
        }
    }
}
