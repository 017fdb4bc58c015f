//! Opening: takes the folder, replays what stands in it, and decides what damage means.
//!
//! Replay order: the newest snapshot, then the segments from its number on, which must be all there. See `journal` for
//! the difference between what a crash leaves and damage.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use super::files::{self, FileKind, HEADER, Listing, Name};
use super::record::Record;
use super::scan::{Found, Scan};
use super::volume::Volume;
use super::{Error, FolderLock, Journal, Writer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::affinity) enum Mode {
    /// Damage is an error.
    Strict,
    /// Keep every whole record, whatever stands between. Damaged files stay as `*.damaged`.
    Recover,
}

pub(in crate::affinity) struct Opened {
    pub journal: Journal,
    /// Damage was skipped: a compaction should replace the files that have it.
    pub rewrite: bool,
}

/// Blocking. Gives every record to `apply`, oldest first.
pub(in crate::affinity) fn open(
    folder: &Path,
    volume: Arc<dyn Volume>,
    mode: Mode,
    apply: &mut dyn FnMut(Record<'_>),
) -> Result<Opened, Error> {
    let lock = take(folder)?;
    let listing = files::list(folder).map_err(|source| Error::Read {
        path: folder.to_owned(),
        source,
    })?;
    for path in &listing.unfinished {
        volume.remove(path).map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
    }
    let (names, complete) = order(folder, &listing, mode)?;
    let mut bytes = 0;
    let mut rewrite = !complete;
    let mut last = None;
    for &name in &names {
        let replayed = replay(folder, name, mode, apply)?;
        bytes += replayed.length + replayed.torn;
        rewrite |= replayed.skipped;
        last = Some((name, replayed));
    }
    let newest = names.last().map_or(0, |name| name.number);
    let (writer, unfinished) = match last {
        Some((
            Name {
                kind: FileKind::Segment,
                number,
            },
            replayed,
        )) if !rewrite => {
            bytes -= replayed.length + replayed.torn;
            (
                resume(folder, &*volume, number, &replayed)?,
                // Its number is above 1 and no snapshot has it: a compaction stopped between the two.
                (number > 1 && !listing.snapshots.contains(&number)).then_some(number),
            )
        }
        _ => {
            let writer = begin(folder, &*volume, newest + 1)?;
            (writer, rewrite.then_some(newest + 1))
        }
    };
    let journal = Journal {
        folder: folder.to_owned(),
        volume,
        writer: Mutex::new(writer),
        compaction: Mutex::new(unfinished),
        closed_bytes: AtomicU64::new(bytes),
        write_errors: AtomicU64::new(0),
        // Until the damaged files are replaced the next start would stumble over them.
        degraded: AtomicBool::new(rewrite),
        uncommitted: AtomicBool::new(false),
        _lock: lock,
    };
    if let Some(&base) = listing.snapshots.last()
        && (listing.segments.first() < Some(&base) || listing.snapshots.len() > 1)
    {
        journal.remove_before(base);
    }
    Ok(Opened { journal, rewrite })
}

/// Makes the folder and takes its lock.
fn take(folder: &Path) -> Result<FolderLock, Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| Error::Folder {
            path: folder.to_owned(),
            source,
        })?;
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|source| Error::Folder {
            path: folder.to_owned(),
            source,
        })?;
    match file.try_lock() {
        Ok(()) => Ok(FolderLock(file)),
        Err(TryLockError::WouldBlock) => Err(Error::InUse {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(Error::Lock { path, source }),
    }
}

/// The files to replay, in order, and whether they are all there.
fn order(folder: &Path, listing: &Listing, mode: Mode) -> Result<(Vec<Name>, bool), Error> {
    let base = listing.snapshots.last().copied();
    let first = base.unwrap_or(1);
    let mut names: Vec<Name> = base.map(Name::snapshot).into_iter().collect();
    let mut expected = first;
    let mut missing = None;
    for &number in listing.segments.range(first..) {
        if number != expected {
            missing = missing.or(Some(expected));
        }
        names.push(Name::segment(number));
        expected = number + 1;
    }
    if base == Some(expected) {
        // Its segment was begun before the snapshot.
        missing = base;
    }
    match missing {
        Some(number) if mode == Mode::Strict => Err(Error::Missing {
            path: Name::segment(number).path(folder),
        }),
        Some(_) | None => Ok((names, missing.is_none())),
    }
}

struct Replayed {
    salt: u32,
    /// The end of the last whole frame.
    length: u64,
    /// Bytes after it: an incomplete record.
    torn: u64,
    /// Records are or may be missing.
    skipped: bool,
}

fn replay(folder: &Path, name: Name, mode: Mode, apply: &mut dyn FnMut(Record<'_>)) -> Result<Replayed, Error> {
    let path = name.path(folder);
    match scan(&path, name, mode, apply) {
        Err(error @ Error::Corrupt { .. }) if mode == Mode::Recover => {
            // The header: without its salt no checksum can be checked.
            tracing::warn!(%error, "recovery goes on without the file");
            keep(&path);
            Ok(Replayed {
                salt: 0,
                length: 0,
                torn: 0,
                skipped: true,
            })
        }
        other => other,
    }
}

fn scan(path: &Path, name: Name, mode: Mode, apply: &mut dyn FnMut(Record<'_>)) -> Result<Replayed, Error> {
    let unreadable = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let salt = files::read_header(&mut file, path, name)?;
    let mut scan = Scan::new(file, salt, HEADER);
    let mut damage: Option<(u64, u64)> = None;
    let mut holes = false;
    let (mut synced, mut records, mut end) = (0, 0, None);
    let length = loop {
        match scan.next().map_err(unreadable)? {
            Found::Record(record) => {
                holes |= damage.is_some();
                match record {
                    Record::Put(_) | Record::Forget { .. } => {
                        records += 1;
                        apply(record);
                    }
                    Record::Synced(offset) => synced = synced.max(offset),
                    Record::End(count) => end = Some(count),
                }
            }
            Found::Damage { from, to } => {
                let first = damage.map_or(from, |(first, _)| first);
                damage = Some((first, to));
            }
            Found::End => break scan.offset(),
        }
    };
    let damaged = match name.kind {
        // Named only when it was whole.
        FileKind::Snapshot if end != Some(records) => Some(damage.map_or(length, |(from, _)| from)),
        FileKind::Snapshot | FileKind::Segment => damage
            .map(|(from, _)| from)
            .filter(|&from| from < synced || name.kind == FileKind::Snapshot),
    };
    if let Some(offset) = damaged {
        let error = Error::Corrupt {
            path: path.to_owned(),
            offset,
        };
        match mode {
            Mode::Strict => return Err(error),
            Mode::Recover => {
                tracing::warn!(%error, records, "recovery keeps the whole records of the file");
                keep(path);
            }
        }
    } else if let Some((from, _)) = damage {
        tracing::warn!(
            path = %path.display(),
            from,
            bytes = length - from,
            holes,
            "a write was interrupted; its incomplete records are left out",
        );
    }
    let whole = damage.map_or(length, |(from, _)| from);
    Ok(Replayed {
        salt,
        length: whole,
        torn: length - whole,
        skipped: holes || damaged.is_some(),
    })
}

/// Keeps a damaged file for whoever wants to look; a second recovery replaces it.
fn keep(path: &Path) {
    let copy: PathBuf = path.with_extension("damaged");
    let _replaced = fs::remove_file(&copy);
    if let Err(error) = fs::hard_link(path, &copy) {
        tracing::warn!(path = %path.display(), %error, "cannot keep a copy of the damaged file");
    }
}

/// Goes on writing to the newest segment, after its last whole frame.
fn resume(folder: &Path, volume: &dyn Volume, number: u64, replayed: &Replayed) -> Result<Writer, Error> {
    let path = Name::segment(number).path(folder);
    let fail = |source| Error::Write {
        path: path.clone(),
        source,
    };
    let file = OpenOptions::new().write(true).open(&path).map_err(fail)?;
    if replayed.torn > 0 {
        volume.truncate(&file, replayed.length).map_err(fail)?;
    }
    Ok(Writer::new(file, number, replayed.salt, replayed.length))
}

fn begin(folder: &Path, volume: &dyn Volume, number: u64) -> Result<Writer, Error> {
    let name = Name::segment(number);
    let (file, salt) = files::create(volume, folder, name)?;
    files::finish(volume, folder, name, &file)?;
    Ok(Writer::new(file, number, salt, HEADER))
}

impl Writer {
    fn new(file: File, number: u64, salt: u32, length: u64) -> Self {
        Self {
            file: Arc::new(file),
            number,
            salt,
            length,
            buffer: Vec::new(),
            // What a crash left unsynced is synced with the first write.
            unsynced: true,
            failures: 0,
        }
    }
}
