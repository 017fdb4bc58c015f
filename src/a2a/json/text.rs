//! Strings of a document: as they are written, and as they read.

use std::borrow::Cow;

/// A string whose escapes have been checked, as it is written between its quotes.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    pub(super) fn new(raw: &'a str, escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// As it is written, escapes and all.
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// As it reads; borrowed when nothing is escaped.
    #[inline]
    pub fn decode(self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.raw))
        } else {
            Cow::Borrowed(self.raw)
        }
    }
}

/// The name of a member, as it is written between its quotes. Bytes, because names are only compared, and nobody needs to
/// check that those of a `Lenient` walk are UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Name<'a> {
    pub(super) fn new(raw: &'a [u8], escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// As it is written, escapes and all.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Has escapes, so that `raw` is not what it reads as.
    pub fn is_escaped(self) -> bool {
        self.escaped
    }

    /// As it reads; borrowed when nothing is escaped.
    #[inline]
    pub fn decode(self) -> Cow<'a, [u8]> {
        if self.escaped {
            Cow::Owned(unescape(&String::from_utf8_lossy(self.raw)).into_bytes())
        } else {
            Cow::Borrowed(self.raw)
        }
    }
}

/// Two names are equal when they read the same, however they are written.
impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.decode() == other.decode()
    }
}

impl PartialEq<str> for Name<'_> {
    fn eq(&self, other: &str) -> bool {
        *self.decode() == *other.as_bytes()
    }
}

/// Two strings are equal when they read the same, however they are written.
impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.decode() == other.decode()
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.decode() == other
    }
}

/// Never longer than `raw`: the shortest text of an escape is shorter than the escape.
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut after = escape.chars();
        match after.next() {
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('u') => after = unicode(after.as_str(), &mut text).chars(),
            Some(itself) => text.push(itself),
            None => {}
        }
        rest = after.as_str();
    }
    text.push_str(rest);
    text
}

/// Reads what follows `\u`, the second half of a surrogate pair included; gives the rest.
fn unicode<'a>(escape: &'a str, text: &mut String) -> &'a str {
    let Some((unit, rest)) = hex4(escape) else {
        return escape;
    };
    if let Some(character) = char::from_u32(unit) {
        text.push(character);
        return rest;
    }
    let Some((low, rest)) = rest.strip_prefix("\\u").and_then(hex4) else {
        return rest;
    };
    let code = 0x10000 + ((unit & 0x3FF) << 10) + (low & 0x3FF);
    text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    rest
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x00..=0x1F | 0x7F => {
                out.extend_from_slice(b"\\u00");
                out.extend([byte >> 4, byte & 0xF].map(|digit| match digit {
                    0..=9 => b'0' + digit,
                    _ => b'a' + digit - 10,
                }));
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
