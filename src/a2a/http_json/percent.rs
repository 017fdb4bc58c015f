//! Percent-encoding (RFC 3986 §2.1), strictly: a broken escape is no text.

use std::borrow::Cow;

/// A piece of a path as it reads. `None`: a broken escape, or bytes that are not UTF-8.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let ([high, low], after) = after.split_first_chunk()?;
            bytes.push(digit(*high)? << 4 | digit(*low)?);
            rest = after;
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// A name or a value of a query as it reads: `+` is a space, for every server of an SDK takes queries for forms.
pub fn decode_form(text: &str) -> Option<Cow<'_, str>> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return decode(&spaced).map(|text| Cow::Owned(text.into_owned()));
    }
    decode(text)
}

/// A text as one segment of a path.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    encode(text, &mut out);
    out
}

/// Appends a text with everything escaped that is not unreserved (RFC 3986 §2.3), so that it reads the same in a path, in a
/// query and in a form.
pub(super) fn encode(text: &str, out: &mut String) {
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 0xF] {
                out.extend(char::from_digit(u32::from(digit), 16).map(|digit| digit.to_ascii_uppercase()));
            }
        }
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
