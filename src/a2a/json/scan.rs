//! Where strings, skipped values and numbers end, and whether they are well formed.
//!
//! Strings carry nearly all bytes of a body. They are looked at in blocks of 64 bytes: a few vector instructions, the widest
//! that the processor has, give one bit a byte for what is special, and ends are found by counting zeros, however many escapes
//! stand before them.

use fearless_simd::{Level, dispatch, prelude::*};

use super::block::{BLOCK, Block};
use super::characters::Characters;
use super::{Error, ErrorKind, utf8};

/// Finds the ends of strings, one after the other; remembers the block that it has looked at last. Minds whether they are
/// `UTF8`, and whatever else stands in their blocks.
pub(super) struct Strings<const UTF8: bool> {
    level: Level,
    /// The first byte of the block; before there is one, a place that no document reaches.
    base: usize,
    /// Quotes that no backslash takes.
    ends: u64,
    backslashes: u64,
    /// Control characters.
    controls: u64,
    /// What follows a backslash and makes no escape with it.
    unknown: u64,
    /// The byte after the block is taken by a backslash.
    taken: bool,
    /// Where a surrogate pair ends, maybe behind the block: its second half has been checked.
    paired: usize,
    characters: Characters,
}

impl<const UTF8: bool> Strings<UTF8> {
    pub(super) fn new(level: Level) -> Self {
        Self {
            level,
            base: usize::MAX / 2,
            ends: 0,
            backslashes: 0,
            controls: 0,
            unknown: 0,
            taken: false,
            paired: 0,
            characters: Characters::default(),
        }
    }

    /// Checks a string from its first byte after the quote; gives the position of its closing quote, and whether it has
    /// escapes.
    #[inline]
    pub(super) fn end(&mut self, bytes: &[u8], start: usize) -> Result<(usize, bool), Error> {
        let offset = start.wrapping_sub(self.base);
        if offset < BLOCK {
            let within = u64::MAX << offset;
            let special = (self.ends | self.controls | self.unknown) & within;
            if special != 0 {
                return self.found(bytes, special, self.backslashes & within, false);
            }
            let escaped = self.backslashes & within != 0;
            let next = self.base + BLOCK;
            dispatch!(self.level, simd => self.seek(simd, bytes, next, escaped))
        } else {
            self.taken = false;
            self.characters = Characters::default();
            dispatch!(self.level, simd => self.seek(simd, bytes, start, false))
        }
    }

    #[inline(always)]
    fn found(&self, bytes: &[u8], special: u64, backslashes: u64, escaped: bool) -> Result<(usize, bool), Error> {
        let first = special & special.wrapping_neg();
        let at = self.base + special.trailing_zeros() as usize;
        if self.ends & first != 0 {
            Ok((at, escaped | (backslashes & (first - 1) != 0)))
        } else {
            Err(self.fault(bytes, at, first))
        }
    }

    /// Goes on block by block from `base`, which follows the remembered block or the quote that begins a string.
    #[inline(always)]
    fn seek<S: Simd>(
        &mut self,
        simd: S,
        bytes: &[u8],
        mut base: usize,
        mut escaped: bool,
    ) -> Result<(usize, bool), Error> {
        while base < bytes.len() {
            let block = Block::at(simd, bytes, base);
            if UTF8 && !self.characters.take(&block, bytes, base) {
                return Err(not_utf8(bytes, base));
            }
            self.base = base;
            self.ends = block.equal(b'"');
            self.controls = block.controls();
            self.backslashes = block.equal(b'\\');
            self.unknown = 0;
            if self.backslashes != 0 || self.taken {
                let escapes = Escapes::of(self.backslashes, self.taken);
                self.taken = escapes.taken;
                self.ends &= !escapes.letters;
                self.controls &= !escapes.letters;
                let others = escapes.letters & !block.escaped();
                if others != 0 {
                    self.look_at(bytes, others);
                }
            }
            let special = self.ends | self.controls | self.unknown;
            if special != 0 {
                return self.found(bytes, special, self.backslashes, escaped);
            }
            escaped |= self.backslashes != 0;
            base += BLOCK;
        }
        Err(syntax(bytes.len() - usize::from(self.taken)))
    }

    /// Checks the escapes that are not of one letter, or none.
    #[cold]
    fn look_at(&mut self, bytes: &[u8], mut letters: u64) {
        while letters != 0 {
            let at = self.base + letters.trailing_zeros() as usize;
            let first = letters & letters.wrapping_neg();
            letters ^= first;
            match bytes.get(at) {
                Some(b'u') if at < self.paired => {}
                Some(b'u') => match unicode_escape(bytes, at - 1) {
                    Ok(end) => self.paired = end,
                    Err(_) => self.unknown |= first,
                },
                Some(_) | None => self.unknown |= first,
            }
        }
    }

    /// The error of the byte that is wrong there.
    #[cold]
    fn fault(&self, bytes: &[u8], at: usize, bit: u64) -> Error {
        if self.unknown & bit == 0 {
            syntax(at)
        } else if bytes.get(at) == Some(&b'u') {
            unicode_escape(bytes, at - 1).err().unwrap_or(syntax(at))
        } else {
            syntax(at - 1)
        }
    }
}

/// What the backslashes of a block take.
struct Escapes {
    /// Bytes after a backslash that is not itself taken, other backslashes left out.
    letters: u64,
    /// The first byte behind the block is taken.
    taken: bool,
}

impl Escapes {
    /// Every second backslash of a run is taken by the one before it, so a run of odd length takes what follows it. A sum
    /// carries each run's beginning to its end; whether those are an odd way apart shows in their positions.
    #[inline(always)]
    fn of(backslashes: u64, taken: bool) -> Self {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let taken = u64::from(taken);
        let runs = backslashes & !taken;
        let begins = runs & !(runs << 1);
        let from_even = runs.wrapping_add(begins & EVEN);
        let (from_odd, reaches_out) = runs.overflowing_add(begins & !EVEN);
        let behind = (from_even & !EVEN | from_odd & EVEN) & !runs;
        Self {
            letters: (behind | taken) & !backslashes,
            taken: reaches_out,
        }
    }
}

/// Passes over the object or array that begins at `start`, looking only for its end; gives the position after it.
///
/// What stands in it may be anything with balanced brackets. No part of it is read twice or remembered.
pub(super) fn leap(level: Level, bytes: &[u8], start: usize) -> Result<usize, Error> {
    dispatch!(level, simd => leap_with(simd, bytes, start))
}

#[inline(always)]
fn leap_with<S: Simd>(simd: S, bytes: &[u8], start: usize) -> Result<usize, Error> {
    let mut depth = 0_usize;
    let mut taken = false;
    // All bits set while a string goes on from the block before.
    let mut in_string = 0_u64;
    let mut base = start;
    while base < bytes.len() {
        let block = Block::at(simd, bytes, base);
        let escapes = Escapes::of(block.equal(b'\\'), taken);
        taken = escapes.taken;
        base += BLOCK;
        let quotes = block.equal(b'"') & !escapes.letters;
        if quotes == 0 && in_string != 0 {
            continue;
        }
        let strings = parity(quotes) ^ in_string;
        in_string = 0_u64.wrapping_sub(strings >> (BLOCK - 1));
        if !block.has_brackets() {
            continue;
        }
        let opens = block.folded(b'[') & !strings;
        let mut closes = block.folded(b']') & !strings;
        let opened = opens.count_ones() as usize;
        let closed = closes.count_ones() as usize;
        if closed < depth {
            depth = depth + opened - closed;
        } else {
            for seen in 1..=closed {
                let first = closes & closes.wrapping_neg();
                if depth + (opens & (first - 1)).count_ones() as usize == seen {
                    return Ok(base - BLOCK + closes.trailing_zeros() as usize + 1);
                }
                closes ^= first;
            }
            depth = depth + opened - closed;
        }
    }
    Err(syntax(bytes.len()))
}

/// Each bit says whether the bits up to it, itself included, are odd in number: set from a quote to before the next.
#[inline(always)]
fn parity(quotes: u64) -> u64 {
    [1, 2, 4, 8, 16, 32]
        .iter()
        .fold(quotes, |bits, shift| bits ^ bits << shift)
}

/// Checks the `\u` whose backslash stands at `at`, the second half of a surrogate pair included; gives the position after it.
#[inline(never)]
fn unicode_escape(bytes: &[u8], at: usize) -> Result<usize, Error> {
    match hex4(bytes, at + 2)? {
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

/// Where the document is not UTF-8; found at the block at `base`.
#[cold]
fn not_utf8(bytes: &[u8], base: usize) -> Error {
    utf8(bytes, 0).err().unwrap_or(syntax(base))
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
