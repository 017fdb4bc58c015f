//! Where strings and numbers end, and whether they are well formed.
//!
//! Strings carry nearly all bytes of a body, so they are looked at eight bytes at a time, and long ones in blocks that the
//! compiler turns into vector instructions. Works on bytes that are known to be UTF-8.

use super::{Error, ErrorKind};

/// Checks a string from its first byte after the quote; gives the position of its closing quote, and whether it has escapes.
pub(super) fn string(bytes: &[u8], start: usize) -> Result<(usize, bool), Error> {
    let mut at = start;
    let mut escaped = false;
    loop {
        at = plain(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return Ok((at, escaped)),
            Some(b'\\') => {
                escaped = true;
                at = escape(bytes, at)?;
            }
            // A control character, or the end.
            Some(_) | None => return Err(syntax(at)),
        }
    }
}

const WORD: usize = 8;
const BLOCK: usize = 64;

/// After so many bytes a string counts as long, and blocks pay.
const SHORT: usize = 4 * WORD;

/// The next position, from `at` on, of a quote, a backslash or a control character; else the end.
fn plain(bytes: &[u8], mut at: usize) -> usize {
    let blocks_from = at + SHORT;
    loop {
        if at >= blocks_from {
            at = plain_blocks(bytes, at);
        }
        let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<WORD>()) else {
            break;
        };
        let special = special(u64::from_le_bytes(*word));
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += WORD;
    }
    while bytes
        .get(at)
        .is_some_and(|&byte| byte != b'"' && byte != b'\\' && byte >= 0x20)
    {
        at += 1;
    }
    at
}

fn plain_blocks(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let special = block.iter().fold(0_u8, |seen, &byte| {
            seen | u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20)
        });
        if special != 0 {
            break;
        }
        at += BLOCK;
    }
    at
}

/// The top bit of the first byte of a little-endian word that is a quote, a backslash or a control character.
///
/// Borrows may set bits above the first hit, never below it, so the lowest set bit is exact.
fn special(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; WORD]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; WORD]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; WORD]);
    const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; WORD]);
    const SPACES: u64 = u64::from_ne_bytes([b' '; WORD]);
    let quote = word ^ QUOTES;
    let backslash = word ^ BACKSLASHES;
    ((quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(SPACES) & !word))
        & TOPS
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
