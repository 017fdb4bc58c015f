//! `Via` (RFC 9110 §7.6.3): which gateways of this kind a call has passed, so that one that comes round is found.
//!
//! Each process has a pseudonym of its own, which says nothing of where it is. What other proxies and callers write there stays behind:
//! an agent learns of no hosts in front of the gateway, and reads nothing that a caller made up.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Version, request};

/// How every pseudonym begins; 16 hexadecimal digits follow.
const PREFIX: &str = "a2a-gateway-";
const DIGITS: usize = 16;
/// A call that has passed so many gateways goes in a circle, of several that share an address among them: real chains have two or three.
pub const MOST: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loop {
    #[error("the call was here before")]
    Again,
    #[error("the call has passed too many gateways")]
    TooMany,
}

#[derive(Clone, Debug)]
pub struct Hops {
    pseudonym: String,
    /// Where this gateway is the first: of HTTP/1.0, HTTP/1.1 and HTTP/2.
    first: [HeaderValue; 3],
}

impl Hops {
    /// `random` tells gateways apart.
    pub fn new(random: u64) -> Self {
        let pseudonym = format!("{PREFIX}{random:016x}");
        let first = ["1.0", "1.1", "2"].map(|version| super::hygiene::value(&format!("{version} {pseudonym}")));
        Self { pseudonym, first }
    }

    /// Writes into the head of a call that it passes here, unless it goes in a circle.
    pub fn pass(&self, parts: &mut request::Parts) -> Result<(), Loop> {
        let [first_1_0, first_1_1, first_2] = &self.first;
        let own = match parts.version {
            Version::HTTP_2 => first_2,
            Version::HTTP_10 | Version::HTTP_09 => first_1_0,
            _ => first_1_1,
        };
        let own = match self.before(&parts.headers)? {
            None => own.clone(),
            Some(before) => super::hygiene::value(&format!("{before}, {}", own.to_str().unwrap_or_default())),
        };
        parts.headers.insert(header::VIA, own);
        Ok(())
    }

    /// The gateways of this kind that it has passed.
    fn before(&self, headers: &HeaderMap) -> Result<Option<String>, Loop> {
        let mut known: Option<String> = None;
        let mut count = 0;
        let fields = headers.get_all(header::VIA).iter();
        let entries = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
        for (version, pseudonym) in entries.filter_map(entry) {
            if pseudonym == self.pseudonym {
                return Err(Loop::Again);
            }
            count += 1;
            if count >= MOST {
                return Err(Loop::TooMany);
            }
            let known = known.get_or_insert_default();
            if !known.is_empty() {
                known.push_str(", ");
            }
            known.push_str(version);
            known.push(' ');
            known.push_str(pseudonym);
        }
        Ok(known)
    }
}

/// The protocol and the pseudonym, if it is one of a gateway of this kind.
fn entry(text: &[u8]) -> Option<(&'static str, &str)> {
    let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let (protocol, pseudonym) = (words.next()?, words.next()?);
    let protocol = ["1.0", "1.1", "2"].into_iter().find(|known| *known == protocol)?;
    let digits = pseudonym.strip_prefix(PREFIX)?;
    let is_own_kind = digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_own_kind.then_some((protocol, pseudonym))
}
