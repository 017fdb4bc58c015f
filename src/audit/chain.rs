//! How lines hang together: each names the hash of the one before it, and its own covers everything else that it says.
//!
//! A line is one JSON object in ASCII: `{"sequence":7,…,"previous":"<hash>","hash":"<hash>"}`. What is hashed are its bytes up to the
//! end of `previous`, so that nobody needs a canonical form of JSON to verify it. The first line of all names sixty-four zeros.

use aws_lc_rs::{digest, hmac};

const BEFORE_PREVIOUS: &[u8] = b",\"previous\":\"";
const BEFORE_HASH: &[u8] = b"\",\"hash\":\"";
const END: &[u8] = b"\"}";
const BEGIN: &[u8] = b"{\"sequence\":";

/// Longer than any line: the values of one are bounded (`event`), and there are some twenty.
pub(super) const MAX_LINE: usize = 64 * 1024;
/// What a line has besides what it tells, at most.
pub(super) const AROUND: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    const NONE: Self = Self([0; 32]);

    fn read(hex: &[u8]) -> Option<Self> {
        let digit = |byte: &u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, []) = hex.as_chunks::<2>() else {
            return None;
        };
        let bytes: Option<Vec<u8>> = pairs
            .iter()
            .map(|[high, low]| Some(digit(high)? << 4 | digit(low)?))
            .collect();
        Some(Self(bytes?.try_into().ok()?))
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The last line of a chain, which the next one hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// 0: there is none.
    pub sequence: u64,
    pub hash: Hash,
}

impl Link {
    /// Before the first line of all.
    pub(super) const NONE: Self = Self {
        sequence: 0,
        hash: Hash::NONE,
    };
}

/// What a line that was not written to its end looks like.
pub(super) fn begins_line(bytes: &[u8]) -> bool {
    bytes.starts_with(BEGIN) || BEGIN.starts_with(bytes)
}

/// With a key nobody can make hashes who does not have it (HMAC, RFC 2104, with SHA-256).
pub(super) struct Hasher(Option<hmac::Key>);

impl Hasher {
    pub(super) fn new(key: Option<&str>) -> Self {
        Self(key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())))
    }

    fn hash(&self, bytes: &[u8]) -> Hash {
        let mut hash = [0; 32];
        match &self.0 {
            Some(key) => hash.copy_from_slice(hmac::sign(key, bytes).as_ref()),
            None => hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref()),
        }
        Hash(hash)
    }

    /// Writes the line that follows `last` and says `members`.
    pub(super) fn append(&self, out: &mut Vec<u8>, last: Link, members: &str) -> Link {
        let begin = out.len();
        let sequence = last.sequence.saturating_add(1);
        out.extend_from_slice(BEGIN);
        out.extend_from_slice(format!("{sequence},").as_bytes());
        out.extend_from_slice(members.as_bytes());
        out.extend_from_slice(BEFORE_PREVIOUS);
        out.extend_from_slice(last.hash.to_string().as_bytes());
        let hash = self.hash(out.get(begin..).unwrap_or_default());
        out.extend_from_slice(BEFORE_HASH);
        out.extend_from_slice(hash.to_string().as_bytes());
        out.extend_from_slice(END);
        out.push(b'\n');
        Link { sequence, hash }
    }
}

/// A line as it stands in a file, without its end.
pub(super) struct Line<'a> {
    pub sequence: u64,
    pub previous: Hash,
    pub hash: Hash,
    covered: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None`: it is no line of a chain.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_suffix(END)?;
        let (rest, hash) = last_64(rest)?;
        let rest = rest.strip_suffix(BEFORE_HASH)?;
        let (told, previous) = last_64(rest)?;
        let digits = told.strip_suffix(BEFORE_PREVIOUS)?.strip_prefix(BEGIN)?;
        let digits = digits.split(|byte| *byte == b',').next()?;
        Some(Self {
            sequence: std::str::from_utf8(digits).ok()?.parse().ok()?,
            previous: Hash::read(previous)?,
            hash: Hash::read(hash)?,
            covered: rest,
        })
    }

    pub(super) fn is_of(&self, hasher: &Hasher) -> bool {
        hasher.hash(self.covered) == self.hash
    }

    pub(super) fn link(&self) -> Link {
        Link {
            sequence: self.sequence,
            hash: self.hash,
        }
    }
}

fn last_64(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(bytes.len().checked_sub(64)?)
}
