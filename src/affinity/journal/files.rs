//! The files of the journal: their names and their headers.
//!
//! `tasks-<n>.log` is a segment, `snapshot-<n>.log` stands for every segment before `<n>`. Both begin with a header:
//! magic (8), version (4), kind (4), number (8), salt (4), CRC-32 of these (4). A file gets its name only when its header
//! (and for a snapshot every record) is on the disk, so a named file is never half made; `*.tmp` is what a crash left.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Error;
use super::volume::Volume;

/// The end of line characters show a file that was moved as text.
const MAGIC: &[u8; 8] = b"a2aj\r\n\x1a\n";
/// Raised when an older program could not read what a newer one writes.
pub(super) const VERSION: u32 = 1;
/// Length of the header.
pub(super) const HEADER: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileKind {
    Snapshot,
    Segment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub kind: FileKind,
    pub number: u64,
}

impl Name {
    pub(super) fn segment(number: u64) -> Self {
        Self {
            kind: FileKind::Segment,
            number,
        }
    }

    pub(super) fn snapshot(number: u64) -> Self {
        Self {
            kind: FileKind::Snapshot,
            number,
        }
    }

    /// Digits enough that a listing shows the order.
    pub(super) fn path(self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{:010}.log", self.kind.prefix(), self.number))
    }

    pub(super) fn unfinished(self, folder: &Path) -> PathBuf {
        self.path(folder).with_extension("tmp")
    }

    fn parse(text: &str) -> Option<Self> {
        let (prefix, number) = text.strip_suffix(".log")?.split_once('-')?;
        let kind = [FileKind::Snapshot, FileKind::Segment]
            .into_iter()
            .find(|kind| kind.prefix() == prefix)?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            kind,
            number: number.parse().ok()?,
        })
    }
}

impl FileKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Segment => "tasks",
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Snapshot => 1,
            Self::Segment => 2,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Listing {
    pub snapshots: BTreeSet<u64>,
    pub segments: BTreeSet<u64>,
    pub unfinished: Vec<PathBuf>,
}

pub(super) fn list(folder: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        // What the journal does not name is not its own.
        let Some(text) = name.to_str() else { continue };
        if let Some(name) = Name::parse(text) {
            match name.kind {
                FileKind::Snapshot => listing.snapshots.insert(name.number),
                FileKind::Segment => listing.segments.insert(name.number),
            };
        } else if let Some(stem) = text.strip_suffix(".tmp")
            && Name::parse(&format!("{stem}.log")).is_some()
        {
            listing.unfinished.push(folder.join(text));
        }
    }
    Ok(listing)
}

/// Makes a file with its header under its unfinished name. Gives the file and its salt.
pub(super) fn create(volume: &dyn Volume, folder: &Path, name: Name) -> Result<(File, u32), Error> {
    let path = name.unfinished(folder);
    let salt = salt(name.number);
    let fail = |source| Error::Write {
        path: path.clone(),
        source,
    };
    let file = volume.create(&path).map_err(fail)?;
    volume.write(&file, &header(name, salt), 0).map_err(fail)?;
    Ok((file, salt))
}

/// Gives a file its name once all that stands in it is on the disk.
pub(super) fn finish(volume: &dyn Volume, folder: &Path, name: Name, file: &File) -> Result<(), Error> {
    let path = name.unfinished(folder);
    volume
        .sync(file)
        .and_then(|()| volume.rename(&path, &name.path(folder)))
        .and_then(|()| volume.sync_folder(folder))
        .map_err(|source| Error::Write { path, source })
}

/// Reads the header; gives the salt.
pub(super) fn read_header(file: &mut File, path: &Path, name: Name) -> Result<u32, Error> {
    let mut bytes = Vec::new();
    file.take(HEADER)
        .read_to_end(&mut bytes)
        .map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
    let corrupt = || Error::Corrupt {
        path: path.to_owned(),
        offset: 0,
    };
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(corrupt)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
    let version = u32::from_le_bytes(*version);
    if version > VERSION {
        return Err(Error::Newer {
            path: path.to_owned(),
            version,
        });
    }
    let salt = rest
        .get(12..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map(|salt| u32::from_le_bytes(*salt))
        .ok_or_else(corrupt)?;
    if bytes != header(name, salt) {
        return Err(corrupt());
    }
    Ok(salt)
}

fn header(name: Name, salt: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&name.kind.code().to_le_bytes());
    bytes.extend_from_slice(&name.number.to_le_bytes());
    bytes.extend_from_slice(&salt.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Unknown to whoever makes ids; see `record`.
fn salt(number: u64) -> u32 {
    let random = RandomState::new().hash_one(number);
    #[expect(clippy::cast_possible_truncation, reason = "any 32 bits of a keyed hash do")]
    let salt = random as u32;
    salt
}
