//! 64 bytes of a document in a vector, the widest that the processor has; what is asked of them is answered with a bit a byte,
//! the first byte lowest.
//!
//! What takes a `Simd` must be inlined into `dispatch!`, or it is compiled for the oldest processors.

use fearless_simd::{prelude::*, u8x64};

pub(super) const BLOCK: usize = 64;

/// Blanks stand behind the end of the document.
pub(super) struct Block<S: Simd>(pub u8x64<S>);

impl<S: Simd> Block<S> {
    #[inline(always)]
    pub fn at(simd: S, bytes: &[u8], base: usize) -> Self {
        let rest = bytes.get(base..).unwrap_or_default();
        match rest.first_chunk::<BLOCK>() {
            Some(block) => Self((*block).simd_into(simd)),
            None => Self(last(rest).simd_into(simd)),
        }
    }

    #[inline(always)]
    pub fn equal(&self, byte: u8) -> u64 {
        self.0.simd_eq(byte).to_bitmask()
    }

    #[inline(always)]
    pub fn at_least(&self, byte: u8) -> u64 {
        self.0.simd_ge(byte).to_bitmask()
    }

    #[inline(always)]
    pub fn controls(&self) -> u64 {
        self.0.simd_le(0x1F).to_bitmask()
    }

    /// What makes an escape with a backslash before it; the backslash itself and `u` left out.
    #[inline(always)]
    pub fn escaped(&self) -> u64 {
        let low = lookup(&ESCAPED.low, self.0 & 0x0F);
        let high = lookup(&ESCAPED.high, self.0 >> 4);
        (low & high).simd_ne(0).to_bitmask()
    }

    /// Equal but for the bit that tells brackets from braces.
    #[inline(always)]
    pub fn folded(&self, bracket: u8) -> u64 {
        (self.0 & !0x20).simd_eq(bracket).to_bitmask()
    }

    /// Brackets or braces, in strings or not.
    #[inline(always)]
    pub fn has_brackets(&self) -> bool {
        let folded = self.0 & !0x20;
        (folded.simd_eq(b'[') | folded.simd_eq(b']')).any_true()
    }
}

/// What `table` has for each index; indices are below 16.
#[inline(always)]
pub(super) fn lookup<S: Simd>(table: &[u8; 16], indices: u8x64<S>) -> u8x64<S> {
    u8x64::block_splat((*table).simd_into(indices.simd)).swizzle_dyn_within_blocks(indices)
}

/// A set of bytes, by their halves: those whose halves have a bit in common.
struct Set {
    low: [u8; 16],
    high: [u8; 16],
}

const ESCAPED: Set = Set::of(b"\"/bfnrt");

impl Set {
    /// Each upper half has a bit of its own, so it must be below 8: ASCII.
    #[expect(clippy::indexing_slicing, reason = "halves are below 16")]
    const fn of(bytes: &[u8]) -> Self {
        let mut set = Self {
            low: [0; 16],
            high: [0; 16],
        };
        let mut at = 0;
        while at < bytes.len() {
            let (high, low) = (bytes[at] >> 4, bytes[at] & 0x0F);
            set.high[high as usize] |= 1 << high;
            set.low[low as usize] |= 1 << high;
            at += 1;
        }
        set
    }
}

#[cold]
fn last(rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    for (to, from) in block.iter_mut().zip(rest) {
        *to = *from;
    }
    block
}
