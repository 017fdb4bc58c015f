//! Keys that the gateway signs with, the set of their public halves (RFC 7517) by which others check, and signatures of cards.
//!
//! The keys do not change: a reload makes other ones. Private halves leave this module in no form.

mod cards;
mod key;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::config::{Problem, SigningKey, files};
use crate::tls::sha256;

pub use cards::CardSigner;
pub use key::{Key, Kinds};

/// Where the public keys are published (RFC 8615).
pub const PLACE: &str = "/.well-known/jwks.json";

/// The keys of one section of the configuration.
pub struct Keys {
    section: &'static str,
    configured: Vec<SigningKey>,
    keys: Vec<Arc<Key>>,
    /// Of the files; never too new.
    digest: Option<[u8; 32]>,
}

impl Keys {
    /// Blocking: reads files.
    pub fn read(section: &'static str, configured: &[SigningKey], kinds: Kinds) -> Result<Self, Vec<Problem>> {
        // First: what is written in between is another content to the next reading.
        let digest = digest(configured);
        let (mut keys, mut problems) = (Vec::<Arc<Key>>::new(), Vec::new());
        for (index, configured) in configured.iter().enumerate() {
            let place = format!("{section}.keys[{index}]");
            match Key::read(configured, kinds) {
                Ok(key) if keys.iter().any(|known| known.id() == key.id()) => {
                    let cause = format!("has the id `{}`, which another key has", key.id());
                    problems.push(Problem::new(place, cause));
                }
                Ok(key) => keys.push(Arc::new(key)),
                Err(cause) => problems.push(Problem::new(format!("{place}.private_key"), cause)),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            section,
            configured: configured.to_vec(),
            keys,
            digest,
        })
    }

    /// Others would be the same. Blocking: reads files.
    pub fn is_of(&self, configured: &[SigningKey]) -> bool {
        self.configured == configured && self.digest.is_some() && self.digest == digest(configured)
    }

    pub fn first(&self) -> Option<&Arc<Key>> {
        self.keys.first()
    }

    /// The first of each algorithm.
    fn first_of_each(&self) -> impl Iterator<Item = &Arc<Key>> {
        let before = |index: usize| self.keys.iter().take(index);
        let keys = self.keys.iter().enumerate();
        let first = keys.filter(move |(index, key)| before(*index).all(|known| known.algorithm() != key.algorithm()));
        first.map(|(_, key)| key)
    }
}

/// The set of all public keys (RFC 7517 §5): a key that stands in several sections once. One id is one key, or nobody could tell
/// which to check by.
pub fn key_set(all: &[&Keys]) -> Result<Bytes, Vec<Problem>> {
    let (mut set, mut problems) = (Vec::<Value>::new(), Vec::new());
    for keys in all {
        for (index, key) in keys.keys.iter().enumerate() {
            let public = key.public();
            match set.iter().find(|known| known.get("kid") == public.get("kid")) {
                Some(known) if *known == public => {}
                Some(_) => {
                    let place = format!("{}.keys[{index}]", keys.section);
                    let cause = format!("has the id `{}`, which another key has", key.id());
                    problems.push(Problem::new(place, cause));
                }
                None => set.push(public),
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Bytes::from(json!({ "keys": set }).to_string()))
}

fn digest(keys: &[SigningKey]) -> Option<[u8; 32]> {
    let mut digests = Vec::new();
    for key in keys {
        let pem = zeroize::Zeroizing::new(files::read(&key.private_key).ok()?);
        digests.extend(sha256(&pem));
    }
    Some(sha256(&digests))
}

pub fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
