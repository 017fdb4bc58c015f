//! Signatures of published cards (A2A 1.0 §8.4, 0.3 §4.4.7): one for each kind of reader by each algorithm.
//!
//! What was signed once is not signed again as long as it is remembered: a card that is the same stays the same to its bytes, so that
//! its entity tag holds, although two signatures on P-256 are never alike. Published cards and extended ones are remembered apart, because
//! there may be as many of the latter as callers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use quick_cache::sync::Cache;
use serde_json::{Value, json};

use super::{Key, Keys, Kinds, PLACE, base64};
use crate::a2a::Generation;
use crate::a2a::card::{PublishedCard, payloads};
use crate::config::{CardSignatures, Problem};
use crate::tls::sha256;

/// Some KiB each; more than agents stand behind one gateway.
const PUBLISHED: usize = 4096;
/// Enough for agents whose extended cards are the same for many callers.
const EXTENDED: usize = 256;

/// Signs with the first key of each algorithm.
pub struct CardSigner {
    keys: Keys,
    place: String,
    /// With its protected header, in base64url.
    signing: Vec<(Arc<Key>, String)>,
    published: Cache<[u8; 32], Arc<Value>>,
    extended: Cache<[u8; 32], Arc<Value>>,
}

impl std::fmt::Debug for CardSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CardSigner")
    }
}

impl CardSigner {
    /// `None` without keys. Blocking: reads files.
    pub fn build(config: &CardSignatures, public_url: &str) -> Result<Option<Self>, Vec<Problem>> {
        if config.keys.is_empty() {
            return Ok(None);
        }
        let keys = Keys::read("card_signatures", &config.keys, Kinds::All)?;
        let place = format!("{public_url}{PLACE}");
        let header = |key: &Key| {
            let header = json!({ "alg": key.algorithm(), "kid": key.id(), "typ": "JOSE", "jku": place });
            base64(header.to_string().as_bytes())
        };
        let signing = keys.first_of_each().map(|key| (key.clone(), header(key))).collect();
        Ok(Some(Self {
            keys,
            place,
            signing,
            published: Cache::new(PUBLISHED),
            extended: Cache::new(EXTENDED),
        }))
    }

    /// Another one would be the same. Blocking: reads files.
    pub fn is_of(&self, config: &CardSignatures, public_url: &str) -> bool {
        self.place.strip_suffix(PLACE) == Some(public_url) && self.keys.is_of(&config.keys)
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// A card that everybody gets, in the forms of these generations.
    pub fn published(&self, card: PublishedCard, forms: &[Generation]) -> PublishedCard {
        self.sign(&self.published, card, forms)
    }

    /// A card that one caller gets.
    pub fn extended(&self, card: PublishedCard, forms: &[Generation]) -> PublishedCard {
        self.sign(&self.extended, card, forms)
    }

    fn sign(&self, known: &Cache<[u8; 32], Arc<Value>>, card: PublishedCard, forms: &[Generation]) -> PublishedCard {
        let PublishedCard { mut value, bytes } = card;
        let Some(members) = value.as_object_mut() else {
            return PublishedCard { value, bytes };
        };
        // The forms show in what the card has.
        let signatures = known.get_or_insert_with(&sha256(&bytes), || {
            let payloads = payloads(members, forms);
            let payloads = payloads.iter().map(|payload| base64(payload.as_bytes()));
            let signatures = payloads.flat_map(|payload| {
                let one = move |(key, header): &(Arc<Key>, String)| {
                    let Some(signature) = key.sign(header, &payload) else {
                        tracing::error!(key = key.id(), "a card could not be signed");
                        return None;
                    };
                    Some(json!({ "protected": header, "signature": signature }))
                };
                self.signing.iter().filter_map(one)
            });
            Ok::<_, Infallible>(Arc::new(Value::Array(signatures.collect())))
        });
        let Ok(signatures) = signatures;
        if signatures.as_array().is_none_or(Vec::is_empty) {
            return PublishedCard { value, bytes };
        }
        members.insert("signatures".to_owned(), Value::clone(&signatures));
        PublishedCard {
            bytes: Bytes::from(value.to_string()),
            value,
        }
    }
}
