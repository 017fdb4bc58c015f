//! Compaction: the live records become a snapshot, the files before it go.
//!
//! Each step leaves a folder that opens: a new segment is made whole before it is named; the snapshot likewise; older
//! files go last, and `replay` ignores and deletes those that a crash left.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::files::{self, HEADER, Name};
use super::record::{self, Put, Record};
use super::{Error, Journal, lock};

/// Records of a snapshot are written in pieces of this size.
const PIECE: usize = 256 * 1024;

/// What a page of live records was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::affinity) enum Step {
    More,
    Done,
    /// Give up: the process ends.
    Stop,
}

/// Shows the next page of live records.
pub(in crate::affinity) type Pages<'a> = dyn FnMut(&mut dyn FnMut(&Put<'_>)) -> Step + 'a;

impl Journal {
    /// Whether the files have grown far beyond the live records, which take `live` bytes.
    pub(in crate::affinity) fn is_large(&self, floor: u64, live: u64) -> bool {
        self.bytes() > floor.max(live.saturating_mul(4))
    }

    /// Writes a snapshot and deletes what it stands for. False if it was given up. Blocking, for seconds.
    pub(in crate::affinity) fn compact(&self, pages: &mut Pages<'_>) -> Result<bool, Error> {
        let mut compaction = lock(&self.compaction);
        let outcome = self.snapshot(&mut compaction, pages);
        if outcome.is_err() {
            self.write_errors.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn snapshot(&self, unfinished: &mut Option<u64>, pages: &mut Pages<'_>) -> Result<bool, Error> {
        // A snapshot may be younger than its segment: what came between is in both. So after a failed attempt writing need
        // not move on once more, and a full disk does not collect segments.
        let number = match *unfinished {
            Some(number) => number,
            None => *unfinished.insert(self.rotate()?),
        };
        // Before the first page: what failed until here is in memory, so it will be in the snapshot.
        let failures = lock(&self.writer).failures;
        let Some(bytes) = self.write_snapshot(number, pages)? else {
            return Ok(false);
        };
        *unfinished = None;
        self.closed_bytes.store(bytes, Ordering::Relaxed);
        let made_up = lock(&self.writer).failures == failures;
        if made_up && self.degraded.swap(false, Ordering::Relaxed) {
            tracing::info!(
                folder = %self.folder.display(),
                "the task journal is complete again",
            );
        }
        self.remove_before(number);
        Ok(true)
    }

    /// Moves writing on to a new segment. Writers wait only while the files are swapped.
    fn rotate(&self) -> Result<u64, Error> {
        // Only compaction changes the number, and this is the only one.
        let number = lock(&self.writer).number + 1;
        let name = Name::segment(number);
        let (file, salt) = files::create(&*self.volume, &self.folder, name)?;
        files::finish(&*self.volume, &self.folder, name, &file)?;
        let (closed, closed_salt, length) = {
            let mut writer = lock(&self.writer);
            self.flush(&mut writer);
            let closed = mem::replace(&mut writer.file, Arc::new(file));
            let closed_salt = mem::replace(&mut writer.salt, salt);
            let length = mem::replace(&mut writer.length, HEADER);
            writer.number = number;
            self.closed_bytes.fetch_add(length, Ordering::Relaxed);
            (closed, closed_salt, length)
        };
        // The closed segment counts until the snapshot is finished, so it is synced and marked like any other.
        let mut mark = Vec::new();
        record::encode(&mut mark, closed_salt, &Record::Synced(length));
        let marked = self
            .volume
            .sync(&closed)
            .and_then(|()| self.volume.write(&closed, &mark, length));
        if let Err(error) = marked {
            self.failed(&mut lock(&self.writer), &error);
        }
        Ok(number)
    }

    fn write_snapshot(&self, number: u64, pages: &mut Pages<'_>) -> Result<Option<u64>, Error> {
        let name = Name::snapshot(number);
        let written = self.write_pages(name, pages);
        if !matches!(written, Ok(Some(_))) {
            // Gives the space back at once; the next start would do it as well.
            let _removed = self.volume.remove(&name.unfinished(&self.folder));
        }
        written
    }

    fn write_pages(&self, name: Name, pages: &mut Pages<'_>) -> Result<Option<u64>, Error> {
        let (file, salt) = files::create(&*self.volume, &self.folder, name)?;
        let mut length = HEADER;
        let mut records = 0;
        let mut piece = Vec::with_capacity(PIECE + PIECE / 4);
        loop {
            let step = pages(&mut |put| {
                record::encode(&mut piece, salt, &Record::Put(*put));
                records += 1;
            });
            match step {
                Step::More if piece.len() < PIECE => continue,
                Step::More => {}
                Step::Done => record::encode(&mut piece, salt, &Record::End(records)),
                Step::Stop => return Ok(None),
            }
            self.volume
                .write(&file, &piece, length)
                .map_err(|source| Error::Write {
                    path: name.unfinished(&self.folder),
                    source,
                })?;
            length += piece.len() as u64;
            piece.clear();
            if step == Step::Done {
                files::finish(&*self.volume, &self.folder, name, &file)?;
                return Ok(Some(length));
            }
        }
    }

    /// Deletes the files that a snapshot stands for. What cannot be deleted is ignored at start, and tried again then.
    pub(super) fn remove_before(&self, number: u64) {
        let removed = files::list(&self.folder).and_then(|listing| {
            let old = |numbers: &std::collections::BTreeSet<u64>| numbers.range(..number).copied().collect::<Vec<_>>();
            let segments = old(&listing.segments).into_iter().map(Name::segment);
            let snapshots = old(&listing.snapshots).into_iter().map(Name::snapshot);
            for name in segments.chain(snapshots) {
                self.volume.remove(&name.path(&self.folder))?;
            }
            self.volume.sync_folder(&self.folder)
        });
        if let Err(error) = removed {
            tracing::warn!(
                folder = %self.folder.display(),
                %error,
                "cannot delete old journal files; they take space until the next start",
            );
        }
    }
}
