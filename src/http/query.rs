//! The query of a request target as agents read it: pairs, percent-decoded.
//!
//! Whoever reads a parameter here, and whoever takes one out, shares this walk: a spelling that is read is also the spelling
//! that is removed.

use std::borrow::Cow;

/// Names and values as they stand.
pub fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').map(split)
}

pub fn split(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or((pair, ""))
}

/// Percent-decodes; an invalid escape stays as it stands, and so does `+`: nothing here is a form field.
pub fn decode(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        match (byte, after) {
            (b'%', [high, low, tail @ ..]) => {
                if let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low)) {
                    decoded.push(high << 4 | low);
                    rest = tail;
                } else {
                    decoded.push(byte);
                    rest = after;
                }
            }
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    Cow::Owned(decoded)
}

pub fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
