//! Whether text is UTF-8 (RFC 3629 §4), block by block.
//!
//! Three lookups, for the halves of a byte and the upper half of the next one, say what may be wrong with the two; what all
//! three say is wrong with them. Only whether a third or fourth byte is owed takes a look further back. (Keiser, Lemire:
//! Validating UTF-8 in less than one instruction per byte, 2020.)

use fearless_simd::{prelude::*, u8x64};

use super::block::{BLOCK, Block, lookup};

/// What was seen of a text up to the end of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Characters {
    /// Its last three bytes are not all ASCII, so the last character may go on.
    is_open: bool,
}

impl Characters {
    /// Whether the block at `base` goes on well. A character that the block leaves open is judged with the next one.
    #[inline(always)]
    pub fn take<S: Simd>(&mut self, block: &Block<S>, bytes: &[u8], base: usize) -> bool {
        let high = block.at_least(0x80);
        let was_open = std::mem::replace(&mut self.is_open, high >> (BLOCK - 3) != 0);
        if high == 0 && !was_open {
            return true;
        }
        let now = block.0;
        let before = if was_open {
            Block::at(now.simd, bytes, base - BLOCK).0
        } else {
            u8x64::splat(now.simd, b' ')
        };
        let first = before.slide::<{ BLOCK - 1 }>(now);
        let wrong = lookup(&FIRST_HIGH, first >> 4) & lookup(&FIRST_LOW, first & 0x0F) & lookup(&NEXT_HIGH, now >> 4);
        // The top bit where a byte goes on with a character of three or four for the second or third time.
        let third = before.slide::<{ BLOCK - 2 }>(now).max(LEADS_3 - 1) - (LEADS_3 - TOP);
        let fourth = before.slide::<{ BLOCK - 3 }>(now).max(LEADS_4 - 1) - (LEADS_4 - TOP);
        let owed = (third | fourth) & TOP;
        // Two bytes that go on are wrong but there, and nothing else is wrong anywhere.
        !(wrong ^ owed).simd_ne(0).any_true()
    }
}

const TOP: u8 = 0x80;
/// First bytes of characters of three bytes or more.
const LEADS_3: u8 = 0xE0;
/// The same, of four or more.
const LEADS_4: u8 = 0xF0;

// What may be wrong with two bytes.
const TOO_SHORT: u8 = 1;
const TOO_LONG: u8 = 1 << 1;
const OVERLONG_2: u8 = 1 << 2;
const OVERLONG_3: u8 = 1 << 3;
/// Or, with a first byte that begins no character, what this byte makes of it: too large.
const OVERLONG_4: u8 = 1 << 4;
const TOO_LARGE: u8 = 1 << 5;
const SURROGATE: u8 = 1 << 6;
/// Both go on with a character.
const BOTH_GO_ON: u8 = TOP;

const FIRST_HIGH: [u8; 16] = {
    let lead_2 = TOO_SHORT | OVERLONG_2;
    let lead_3 = TOO_SHORT | OVERLONG_3 | SURROGATE;
    let lead_4 = TOO_SHORT | OVERLONG_4 | TOO_LARGE;
    let [a, c] = [TOO_LONG, BOTH_GO_ON];
    [a, a, a, a, a, a, a, a, c, c, c, c, lead_2, TOO_SHORT, lead_3, lead_4]
};

const FIRST_LOW: [u8; 16] = {
    let any = TOO_SHORT | TOO_LONG | BOTH_GO_ON;
    let large = any | TOO_LARGE | OVERLONG_4;
    let least = any | OVERLONG_2 | OVERLONG_3 | OVERLONG_4;
    let [l, s] = [large, large | SURROGATE];
    [
        least,
        any | OVERLONG_2,
        any,
        any,
        any | TOO_LARGE,
        l,
        l,
        l,
        l,
        l,
        l,
        l,
        l,
        s,
        l,
        l,
    ]
};

const NEXT_HIGH: [u8; 16] = {
    let goes_on = TOO_LONG | OVERLONG_2 | BOTH_GO_ON;
    let from_80 = goes_on | OVERLONG_3 | OVERLONG_4;
    let from_90 = goes_on | OVERLONG_3 | TOO_LARGE;
    let from_a0 = goes_on | SURROGATE | TOO_LARGE;
    let s = TOO_SHORT;
    [s, s, s, s, s, s, s, s, from_80, from_90, from_a0, from_a0, s, s, s, s]
};
