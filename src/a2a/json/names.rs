//! Whether an object has two members of one name.
//!
//! Most objects have few members: their names stand in an array on the stack, told apart by a tag of length and first bytes,
//! and a filter of 64 bits answers nearly all of the questions. From `SMALL` members on a hash table takes over, keyed at
//! random so that a caller cannot aim for collisions. It holds positions in the document, not names, so it takes at most nine
//! times the bytes of the object (just after it has grown, with the shortest names there are).

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::text::Name;

/// Most names that are compared one by one.
pub(super) const SMALL: usize = 16;

/// Length of a tag's text; a name that is no longer is equal when its tag is.
const TAGGED: usize = 7;

pub(super) struct Names {
    count: usize,
    /// A bit for each tag that is there, and maybe for others.
    filter: u64,
    few: [(u64, Span); SMALL],
    many: Option<Box<Many>>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self {
            count: 0,
            filter: 0,
            few: [(0, Span { start: 0, len: 0 }); SMALL],
            many: None,
        }
    }

    /// Adds the name that is written at `start` of `document`; false when the object has it already.
    #[inline]
    pub(super) fn insert(&mut self, document: &[u8], start: usize, name: Name<'_>) -> bool {
        let span = Span::new(start, name);
        let tag = tag(document, start, name);
        let bit = 1 << (tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58);
        match self.few.get_mut(self.count) {
            Some(slot) if self.filter & bit == 0 => {
                self.filter |= bit;
                *slot = (tag, span);
                self.count += 1;
                true
            }
            Some(_) | None => self.insert_slowly(document, tag, span, name),
        }
    }

    #[inline(never)]
    fn insert_slowly(&mut self, document: &[u8], tag: u64, span: Span, name: Name<'_>) -> bool {
        if let Some(many) = &mut self.many {
            return many.insert(document, span, name);
        }
        let is_known = |(known, span): &(u64, Span)| *known == tag && span.name(document) == name;
        if self.few.iter().take(self.count).any(is_known) {
            return false;
        }
        if let Some(slot) = self.few.get_mut(self.count) {
            *slot = (tag, span);
            self.count += 1;
            return true;
        }
        let many = self.many.insert(Box::new(Many::new()));
        for (_, known) in self.few {
            many.insert(document, known, known.name(document));
        }
        many.insert(document, span, name)
    }
}

/// The length (at most 255) and the first `TAGGED` bytes of a name as it reads.
#[inline]
fn tag(document: &[u8], start: usize, name: Name<'_>) -> u64 {
    match document.get(start..).and_then(|rest| rest.first_chunk()) {
        Some(word) if !name.is_escaped() => {
            let text = u64::from_le_bytes(*word) & !(u64::MAX << (8 * name.raw().len().min(TAGGED)));
            text | length(name.raw().len())
        }
        Some(_) | None => slow_tag(&name.decode()),
    }
}

/// The same, for a name that has escapes or that stands at the very end.
#[inline(never)]
fn slow_tag(name: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(name.iter().take(TAGGED)) {
        *to = *from;
    }
    u64::from_le_bytes(word) | length(name.len())
}

fn length(len: usize) -> u64 {
    (len.min(0xFF) as u64) << 56
}

/// Where a name is written. Documents are shorter than 2^31 bytes (`MAX_BYTES`), so the top bit of the length is free
/// to say that the name has escapes.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
}

const ESCAPED: u32 = 1 << 31;

impl Span {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "positions in a document are below `MAX_BYTES`"
    )]
    fn new(start: usize, name: Name<'_>) -> Self {
        let escaped = if name.is_escaped() { ESCAPED } else { 0 };
        Self {
            start: start as u32,
            len: name.raw().len() as u32 | escaped,
        }
    }

    fn name(self, document: &[u8]) -> Name<'_> {
        let start = self.start as usize;
        let end = start + (self.len & !ESCAPED) as usize;
        Name::new(document.get(start..end).unwrap_or_default(), self.len & ESCAPED != 0)
    }
}

/// Open addressing with linear probing; `slots` holds one more than the index in `entries`, zero is free.
struct Many {
    keys: RandomState,
    entries: Vec<Entry>,
    slots: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    span: Span,
}

impl Many {
    fn new() -> Self {
        Self {
            keys: RandomState::new(),
            entries: Vec::with_capacity(2 * SMALL),
            slots: vec![0; 4 * SMALL],
        }
    }

    fn insert(&mut self, document: &[u8], span: Span, name: Name<'_>) -> bool {
        if self.entries.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let decoded = name.decode();
        #[expect(clippy::cast_possible_truncation, reason = "any 32 bits of a hash are a hash")]
        let hash = self.keys.hash_one(&*decoded) as u32;
        let mut at = self.first(hash);
        while let Some(entry) = self.entry(at) {
            if entry.hash == hash && entry.span.name(document) == name {
                return false;
            }
            at = self.next(at);
        }
        self.entries.push(Entry { hash, span });
        self.occupy(at, self.entries.len());
        true
    }

    /// Twice the slots; at least half of them are always free, so that probing ends.
    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for index in 0..self.entries.len() {
            let Some(entry) = self.entries.get(index) else {
                break;
            };
            let mut at = self.first(entry.hash);
            while self.entry(at).is_some() {
                at = self.next(at);
            }
            self.occupy(at, index + 1);
        }
    }

    fn first(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn entry(&self, at: usize) -> Option<Entry> {
        let slot = self.slots.get(at).copied().unwrap_or(0) as usize;
        self.entries.get(slot.checked_sub(1)?).copied()
    }

    fn occupy(&mut self, at: usize, number: usize) {
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = u32::try_from(number).unwrap_or(u32::MAX);
        }
    }
}
