//! Where strings and numbers end, and whether they are well formed.
//!
//! Strings carry nearly all bytes of a body, so they are looked at eight bytes at a time, and long ones in chunks. Works on
//! bytes that are known to be UTF-8.

use memchr::memchr2;

use super::{Error, ErrorKind};

/// Checks a string from its first byte after the quote; gives the position of its closing quote, and whether it has escapes.
#[inline(always)]
pub(super) fn string(bytes: &[u8], start: usize) -> Result<(usize, bool), Error> {
    let at = plain(bytes, start);
    if bytes.get(at) == Some(&b'"') {
        return Ok((at, false));
    }
    Ok((escaped_string(bytes, at)?, true))
}

/// The same, from the first byte that is not plain.
#[inline(never)]
fn escaped_string(bytes: &[u8], start: usize) -> Result<usize, Error> {
    let mut at = start;
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at),
            Some(b'\\') => at = plain(bytes, escape(bytes, at)?),
            // A control character, or the end.
            Some(_) | None => return Err(syntax(at)),
        }
    }
}

const WORD: usize = 8;

/// The next position, from `start` on, of a quote, a backslash or a control character; else the end.
#[inline(never)]
fn plain(bytes: &[u8], start: usize) -> usize {
    let mut rest = bytes.get(start..).unwrap_or_default();
    for _ in 0..SHORT {
        let Some((word, behind)) = rest.split_first_chunk() else {
            break;
        };
        if let Some(at) = first_special(word) {
            return bytes.len() - rest.len() + at;
        }
        rest = behind;
    }
    bytes.len() - long_plain(rest)
}

/// So many words are looked at first: names and UUIDs end within them.
const SHORT: usize = 5;

/// How many bytes are left from the first that is not plain.
///
/// Two looks at vector speed: where the string could end, and whether a control character stands before that.
fn long_plain(rest: &[u8]) -> usize {
    let end = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    let span = rest.get(..end).unwrap_or_default();
    // Without a branch, so that the compiler makes vector instructions of it.
    let control = span.iter().fold(0_u8, |control, &byte| control | u8::from(byte < b' '));
    if control == 0 {
        return rest.len() - end;
    }
    let first = span.iter().position(|&byte| byte < b' ').unwrap_or(end);
    rest.len() - first
}

/// Where in a word the first byte stands that is a quote, a backslash or a control character.
///
/// Tests all bytes at once. Borrows may set bits above the first hit, never below it, so the lowest set bit is exact.
#[inline]
fn first_special(word: &[u8; WORD]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; WORD]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; WORD]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; WORD]);
    const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; WORD]);
    const SPACES: u64 = u64::from_ne_bytes([b' '; WORD]);
    let word = u64::from_le_bytes(*word);
    let quote = word ^ QUOTES;
    let backslash = word ^ BACKSLASHES;
    let special = ((quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(SPACES) & !word))
        & TOPS;
    (special != 0).then(|| (special.trailing_zeros() / 8) as usize)
}

/// Checks the escape whose backslash stands at `at`; gives the position after it.
fn escape(bytes: &[u8], at: usize) -> Result<usize, Error> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            let unit = hex4(bytes, at + 2)?;
            match unit {
                0xD800..=0xDBFF => {
                    let low = match (bytes.get(at + 6), bytes.get(at + 7)) {
                        (Some(b'\\'), Some(b'u')) => hex4(bytes, at + 8)?,
                        _ => 0,
                    };
                    if (0xDC00..=0xDFFF).contains(&low) {
                        Ok(at + 12)
                    } else {
                        Err(lone_surrogate(at))
                    }
                }
                0xDC00..=0xDFFF => Err(lone_surrogate(at)),
                _ => Ok(at + 6),
            }
        }
        Some(_) | None => Err(syntax(at)),
    }
}

/// Four hexadecimal digits.
fn hex4(bytes: &[u8], at: usize) -> Result<u32, Error> {
    let digits = bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<4>())
        .ok_or(syntax(at))?;
    let mut unit = 0;
    for &digit in digits {
        let value = char::from(digit).to_digit(16).ok_or(syntax(at))?;
        unit = unit << 4 | value;
    }
    Ok(unit)
}

/// Checks a number (RFC 8259 §6) that begins at `start`; gives the position after it.
pub(super) fn number(bytes: &[u8], start: usize, most_digits: usize) -> Result<usize, Error> {
    let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
    let mut count = 0;
    if bytes.get(at) == Some(&b'0') {
        at += 1;
        count += 1;
    } else {
        at = digits(bytes, at, &mut count)?;
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1, &mut count)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(bytes, at, &mut count)?;
    }
    if count > most_digits {
        return Err(Error {
            kind: ErrorKind::NumberTooLong,
            at: start,
        });
    }
    Ok(at)
}

/// At least one digit; gives the position after the last.
fn digits(bytes: &[u8], start: usize, count: &mut usize) -> Result<usize, Error> {
    let mut at = start;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at == start {
        return Err(syntax(at));
    }
    *count += at - start;
    Ok(at)
}

fn syntax(at: usize) -> Error {
    Error {
        kind: ErrorKind::Syntax,
        at,
    }
}

fn lone_surrogate(at: usize) -> Error {
    Error {
        kind: ErrorKind::Surrogate,
        at,
    }
}
