//! What the gateway gives somebody else to carry: sealed, so that nobody reads or changes it.
//!
//! Sealed text is base64url of a version, a nonce and what AES-256-GCM-SIV makes of the bytes. That cipher forgives a repeated
//! nonce, so that gateways which share a key for years need not count. What a text is for is additional data: one that was
//! sealed for something else does not open. Knows nothing of what is sealed.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::config::Secret;

const VERSION: u8 = 1;
/// A version, a nonce and a tag.
const ADDED: usize = 1 + NONCE_LEN + 16;

/// Seals with the first key, opens with any.
pub struct Keys(Vec<LessSafeKey>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no key can be made")]
pub struct Error;

impl Keys {
    /// Without secrets a key is made, which lasts as long as the process.
    pub fn build(secrets: &[Secret<String>]) -> Result<Self, Error> {
        let mut keys = Vec::with_capacity(secrets.len().max(1));
        for secret in secrets {
            let hash = digest::digest(&digest::SHA256, secret.expose().as_bytes());
            keys.push(key(hash.as_ref())?);
        }
        if keys.is_empty() {
            let mut random = Zeroizing::new([0; 32]);
            rand::fill(&mut *random).map_err(|_| Error)?;
            keys.push(key(&*random)?);
        }
        Ok(Self(keys))
    }

    pub fn seal(&self, purpose: &[u8], bytes: Vec<u8>) -> Result<String, Error> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| Error)?;
        self.seal_with(nonce, purpose, bytes)
    }

    /// The same bytes give the same text, which tells who carries it that they are the same, and nothing else (RFC 8452 §9).
    pub fn seal_alike(&self, purpose: &[u8], bytes: Vec<u8>) -> Result<String, Error> {
        self.seal_with([0; NONCE_LEN], purpose, bytes)
    }

    fn seal_with(&self, nonce: [u8; NONCE_LEN], purpose: &[u8], mut bytes: Vec<u8>) -> Result<String, Error> {
        let key = self.0.first().ok_or(Error)?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(purpose), &mut bytes)
            .map_err(|_| Error)?;
        let mut whole = Vec::with_capacity(ADDED + bytes.len());
        whole.push(VERSION);
        whole.extend_from_slice(&nonce);
        whole.append(&mut bytes);
        Ok(URL_SAFE_NO_PAD.encode(whole))
    }

    /// `None`: no key of these sealed it, or not for this.
    pub fn open(&self, purpose: &[u8], text: &str) -> Option<Vec<u8>> {
        let whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (VERSION, rest) = whole.split_first().map(|(version, rest)| (*version, rest))? else {
            return None;
        };
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        for key in &self.0 {
            let mut bytes = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            if let Ok(opened) = key.open_in_place(nonce, aad(purpose), &mut bytes) {
                let length = opened.len();
                bytes.truncate(length);
                return Some(bytes);
            }
        }
        None
    }
}

fn key(bytes: &[u8]) -> Result<LessSafeKey, Error> {
    UnboundKey::new(&AES_256_GCM_SIV, bytes)
        .map(LessSafeKey::new)
        .map_err(|_| Error)
}

/// The version goes before everything, as in the text.
fn aad(purpose: &[u8]) -> Aad<Vec<u8>> {
    let mut out = Vec::with_capacity(1 + purpose.len());
    out.push(VERSION);
    out.extend_from_slice(purpose);
    Aad::from(out)
}

/// Appends a part of what cannot be told apart otherwise: its length, then itself.
pub fn put(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&(part.len() as u64).to_be_bytes());
    out.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[&str]) -> Keys {
        let secrets: Vec<_> = secrets.iter().map(|text| Secret::new((*text).to_owned())).collect();
        Keys::build(&secrets).unwrap()
    }

    #[test]
    fn what_was_sealed_opens_for_the_same_purpose_and_key_alone() {
        let sealed = keys(&["one"]).seal(b"lists", b"content".to_vec()).unwrap();
        let check = |secrets: &[&str], purpose: &[u8], opens: bool| {
            let opened = keys(secrets).open(purpose, &sealed);
            assert_eq!(opened.as_deref(), opens.then_some(&b"content"[..]), "{secrets:?}");
        };
        check(&["one"], b"lists", true);
        check(&["two", "one"], b"lists", true);
        check(&["two"], b"lists", false);
        check(&["one"], b"webhooks", false);
        check(&[], b"lists", false);
    }

    #[test]
    fn what_is_sealed_alike_is_the_same_text_and_opens() {
        let keys = keys(&["one"]);
        let sealed = keys.seal_alike(b"lists", b"content".to_vec()).unwrap();
        assert_eq!(keys.seal_alike(b"lists", b"content".to_vec()).unwrap(), sealed);
        assert_ne!(keys.seal_alike(b"others", b"content".to_vec()).unwrap(), sealed);
        assert_ne!(keys.seal(b"lists", b"content".to_vec()).unwrap(), sealed);
        assert_eq!(keys.open(b"lists", &sealed).as_deref(), Some(&b"content"[..]));
        assert_eq!(keys.open(b"others", &sealed), None);
    }

    #[test]
    fn nothing_changed_or_cut_opens() {
        let keys = keys(&["one"]);
        let sealed = keys.seal(b"p", b"content".to_vec()).unwrap();
        assert!(keys.open(b"p", &sealed).is_some());
        let whole = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(keys.open(b"p", &URL_SAFE_NO_PAD.encode(&changed)), None, "byte {at}");
            assert_eq!(
                keys.open(b"p", &URL_SAFE_NO_PAD.encode(&whole[..at])),
                None,
                "cut at {at}"
            );
        }
        assert_eq!(keys.open(b"p", ""), None);
        assert_eq!(keys.open(b"p", "not base64 at all!"), None);
    }
}
