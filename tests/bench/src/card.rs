//! A published card: what it was when first asked for, and whether a later answer is right.

use serde_json::Value;

use crate::wire::Message;

pub struct Card {
    body: Vec<u8>,
    etag: Vec<u8>,
    /// The caller has it already: answers are to say so (304).
    known: bool,
}

impl Card {
    /// The card in an answer with this whole body. Fails when it is none: another status than 200, no `Content-Length`, no
    /// JSON object with `supportedInterfaces` (A2A 1.0) or `url` (before), and with `known`, no `ETag` to ask with.
    pub fn read(answer: &Message, body: &[u8], known: bool) -> Result<Self, String> {
        let shown = || String::from_utf8_lossy(body.get(..200).unwrap_or(body)).into_owned();
        if answer.status != 200 {
            return Err(format!("a card with status {}: {}", answer.status, shown()));
        }
        if answer.length != Some(body.len() as u64) {
            return Err(format!("a card of {} bytes, announced {:?}", body.len(), answer.length));
        }
        let parsed: Value = serde_json::from_slice(body).map_err(|error| format!("a card that is no JSON: {error}"))?;
        if !(parsed["supportedInterfaces"].is_array() || parsed["url"].is_string()) {
            return Err(format!("no card: neither supportedInterfaces nor url in {}", shown()));
        }
        if known && answer.etag.is_empty() {
            return Err("a card without an ETag".to_owned());
        }
        Ok(Self {
            body: body.to_vec(),
            etag: answer.etag.clone(),
            known,
        })
    }

    /// What to send as `If-None-Match`, if anything.
    #[must_use]
    pub fn known_as(&self) -> Option<&str> {
        std::str::from_utf8(&self.etag).ok().filter(|_| self.known)
    }

    /// How long it is, in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.body.len()
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Whether a finished answer, of whose body `beginning` was kept, is this card, or says that it is unchanged.
    pub fn check(&self, answer: &Message, beginning: &[u8]) -> Result<(), String> {
        let expected = if self.known { 304 } else { 200 };
        if answer.status != expected {
            let shown = String::from_utf8_lossy(beginning);
            return Err(format!("status {} instead of {expected}: {shown}", answer.status));
        }
        if self.known {
            return if answer.etag == self.etag {
                Ok(())
            } else {
                Err("304 with another ETag".to_owned())
            };
        }
        if answer.length != Some(self.body.len() as u64) {
            let length = self.body.len();
            return Err(format!("a card of {:?} bytes instead of {length}", answer.length));
        }
        if !self.body.starts_with(beginning) {
            return Err(format!("another card: {}", String::from_utf8_lossy(beginning)));
        }
        Ok(())
    }
}
