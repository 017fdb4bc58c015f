//! A key to sign with: on P-256, of Ed25519, or of RSA.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::RSAPublicKey;
use zeroize::Zeroizing;

use super::base64;
use crate::config::{SigningKey, files};
use crate::tls::sha256;

/// Which keys will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Those that sign in some tens of microseconds: P-256 and Ed25519.
    Fast,
    /// RSA from 2048 bits as well, which takes a millisecond.
    All,
}

pub struct Key {
    id: String,
    pair: Pair,
}

enum Pair {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

/// RFC 7518 §3.3 demands no less.
const LEAST_RSA_BYTES: usize = 256;

impl Key {
    /// What is wrong with it names the file and repeats nothing of it. Blocking.
    pub fn read(configured: &SigningKey, kinds: Kinds) -> Result<Self, String> {
        let path = configured.private_key.display();
        let pem = files::read(&configured.private_key).map(Zeroizing::new);
        let pem = pem.map_err(|error| crate::tls::chain_of(&error))?;
        let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| format!("{path} holds no private key in PEM"))?;
        let pair = Pair::of(&der, kinds).ok_or_else(|| match kinds {
            Kinds::Fast => format!("{path} holds no key on the curve P-256 or of Ed25519"),
            Kinds::All => {
                format!("{path} holds no key on the curve P-256, of Ed25519 or of RSA from 2048 to 8192 bits")
            }
        })?;
        let id = match &configured.id {
            Some(id) => id.clone(),
            None => base64(&sha256(pair.members().to_string().as_bytes())),
        };
        Ok(Self { id, pair })
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

    /// As headers name it (RFC 7518 §3.1, RFC 8037 §3.1).
    pub fn algorithm(&self) -> &'static str {
        self.pair.algorithm()
    }

    /// What a header in base64url and a payload in base64url are signed with, in base64url (RFC 7515 §5.1).
    pub fn sign(&self, header: &str, payload: &str) -> Option<String> {
        let text = format!("{header}.{payload}");
        let signature = match &self.pair {
            Pair::Es256(pair) => base64(pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?.as_ref()),
            Pair::EdDsa(pair) => base64(pair.sign(text.as_bytes()).as_ref()),
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
                    .ok()?;
                base64(&signature)
            }
        };
        Some(signature)
    }
}

impl Pair {
    fn of(der: &PrivateKeyDer<'_>, kinds: Kinds) -> Option<Self> {
        let bytes = der.secret_der();
        if let Ok(pair) = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes) {
            return Some(Self::Es256(pair));
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8(bytes) {
            return Some(Self::EdDsa(pair));
        }
        if kinds == Kinds::Fast {
            return None;
        }
        let pair = RsaKeyPair::from_pkcs8(bytes)
            .or_else(|_| RsaKeyPair::from_der(bytes))
            .ok()?;
        let is_long = pair.public_modulus_len() >= LEAST_RSA_BYTES;
        is_long.then_some(Self::Rs256(pair))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
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
            Self::Rs256(pair) => {
                let key = RSAPublicKey::from_der(pair.public_key().as_ref());
                let (n, e) = key.map_or_else(|_| Default::default(), |(_, key)| (key.modulus, key.exponent));
                json!({ "e": number(e), "kty": "RSA", "n": number(n) })
            }
        }
    }
}

/// Of DER, whose numbers have a sign (RFC 7518 §6.3.1.1).
fn number(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    base64(bytes.get(zeros..).unwrap_or_default())
}
