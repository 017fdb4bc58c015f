//! The embedded store: an append-only journal of task and context records in one folder.
//!
//! Why a journal of our own. An answer may leave only when the owner that it reveals is written, so the write stands on
//! the path of a call. A synced commit of an embedded database takes milliseconds; a `write` of some hundred bytes into the
//! page cache takes microseconds, and one serves all answers of a turn of the event loop (group commit). All questions are
//! answered from memory, so a store needs to do three things: take a record, give all of them back at start, stay small.
//!
//! What is promised. Once `commit` returns, what was appended before survives the end of the process, `kill -9` included:
//! the kernel has it. A sync in the background bounds what a power loss can take to `sync_interval`. The folder opens after a crash at
//! any moment, in the middle of any write, rotation or compaction.
//!
//! How. Changes are appended to the newest segment, `tasks-<n>.log`, each as a frame with its checksum; a record is
//! absolute, so replaying all files in order gives the last state of each key whatever was replayed before. A removal
//! waits in memory for the next write: losing it brings back a record that was true. When the files are larger than
//! `COMPACT_FLOOR` and four times the live records, writing moves on to segment `n + 1`, the records in memory become
//! `snapshot-<n + 1>.log`, and what is older is deleted. The snapshot is taken while traffic changes the records: each
//! such change is in segment `n + 1` too, which is replayed after the snapshot, so both together are exact.
//!
//! Damage. After each sync a mark says how far the file is on the disk. Damage after the last mark of a segment is what a
//! crash leaves: an incomplete last record is cut off, a hole is skipped. Damage before a mark, or in a snapshot, is a
//! failing disk: the folder does not open, the error names file and place, and only a start that was told to recover goes
//! on with the records that are whole.
//!
//! A full or failing disk does not stop traffic. Records stay in memory, the journal is degraded; as soon as a write
//! succeeds again a snapshot of everything makes up for what was missed.
//!
//! One process owns the folder (`lock`). Nothing here knows what a record means; locks of the tables are taken before the
//! writer's lock, never after it. Not here: reads by key, replication, a second process, a downgrade of the format.

pub(super) mod record;
pub(super) mod volume;

mod compact;
mod files;
mod replay;
mod scan;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(super) use compact::Step;
pub(super) use replay::{Mode, open};

use self::record::{Kind, Put, Record};
use self::volume::Volume;
use super::lock;

/// What waits is written when it is this much, asked for or not.
const WAITING: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make the state folder {path}; give the gateway a folder that it may write to")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another process uses the state folder {path}; end it, or give each gateway a folder of its own")]
    InUse { path: PathBuf },
    #[error("cannot lock {path}")]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{path} is damaged at byte {offset}; check the disk, then restore the folder from a backup or start once with \
         --recover, which keeps every whole record"
    )]
    Corrupt { path: PathBuf, offset: u64 },
    #[error(
        "{path} is missing; restore the folder from a backup or start once with --recover, which keeps every whole record"
    )]
    Missing { path: PathBuf },
    #[error(
        "{path} has format {version}, this program knows formats up to {known}; start the newer program or use another folder",
        known = files::VERSION
    )]
    Newer { path: PathBuf, version: u32 },
}

pub(super) struct Journal {
    folder: PathBuf,
    volume: Arc<dyn Volume>,
    writer: Mutex<Writer>,
    /// One compaction at a time. The number of the segment that the next snapshot belongs to, where writing has moved on
    /// to it but no snapshot was finished.
    compaction: Mutex<Option<u64>>,
    /// Bytes of all files but the one that is written to.
    closed_bytes: AtomicU64,
    write_errors: AtomicU64,
    degraded: AtomicBool,
    /// Records wait in the buffer. Set and cleared under the writer's lock.
    uncommitted: AtomicBool,
    _lock: FolderLock,
}

/// The lock of the folder. The kernel gives it back however the process ends.
struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that was just started holds a copy of it until it executes.
        let _unlocked = self.0.unlock();
    }
}

struct Writer {
    file: Arc<File>,
    number: u64,
    salt: u32,
    /// End of the last whole frame. A write that fails leaves it, so the next one overwrites what it left.
    length: u64,
    /// Frames for the next write.
    buffer: Vec<u8>,
    /// Something was written since the last sync began.
    unsynced: bool,
    /// Failed writes and syncs; what they lost is made up by a snapshot that begins after them.
    failures: u64,
}

impl Journal {
    /// Takes records, for the next `commit`, or the next sync.
    pub(super) fn append(&self, puts: [Option<Put<'_>>; 2]) {
        let mut writer = lock(&self.writer);
        for put in puts.into_iter().flatten() {
            writer.push(&Record::Put(put));
        }
        self.uncommitted.store(true, Ordering::Release);
        self.wait(&mut writer);
    }

    /// A removal, which nobody waits for.
    pub(super) fn forget(&self, kind: Kind, agent: &str, id: &str) {
        let mut writer = lock(&self.writer);
        writer.push(&Record::Forget { kind, agent, id });
        self.wait(&mut writer);
    }

    /// Records were appended that no `commit` has written.
    pub(super) fn is_uncommitted(&self) -> bool {
        self.uncommitted.load(Ordering::Acquire)
    }

    /// On return the records appended before survive the process. A failure is counted, and made up for later.
    pub(super) fn commit(&self) {
        if self.is_uncommitted() {
            self.flush(&mut lock(&self.writer));
        }
    }

    /// Waits until everything written so far is on the disk. Writers do not wait for it.
    pub(super) fn sync(&self) {
        let (file, number, length) = {
            let mut writer = lock(&self.writer);
            self.flush(&mut writer);
            if !writer.unsynced {
                return;
            }
            writer.unsynced = false;
            (Arc::clone(&writer.file), writer.number, writer.length)
        };
        let synced = self.volume.sync(&file);
        let mut writer = lock(&self.writer);
        match synced {
            Ok(()) if writer.number == number => writer.push(&Record::Synced(length)),
            Ok(()) => {}
            Err(error) => {
                writer.unsynced = true;
                self.failed(&mut writer, &error);
            }
        }
    }

    /// Syncs, and writes the mark of it.
    pub(super) fn close(&self) {
        self.sync();
        self.flush(&mut lock(&self.writer));
    }

    /// Whether the disk takes a write. What it writes means nothing.
    pub(super) fn probe(&self) -> bool {
        let mut writer = lock(&self.writer);
        writer.push(&Record::Synced(0));
        let before = writer.failures;
        self.flush(&mut writer);
        writer.failures == before
    }

    pub(super) fn bytes(&self) -> u64 {
        self.closed_bytes.load(Ordering::Relaxed) + lock(&self.writer).length
    }

    pub(super) fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    pub(super) fn degraded(&self) -> bool {
        self.degraded.load(Ordering::Relaxed)
    }

    fn wait(&self, writer: &mut Writer) {
        writer.unsynced = true;
        if writer.buffer.len() >= WAITING {
            self.flush(writer);
        }
    }

    fn flush(&self, writer: &mut Writer) {
        if writer.buffer.is_empty() {
            return;
        }
        match self.volume.write(&writer.file, &writer.buffer, writer.length) {
            Ok(()) => writer.length += writer.buffer.len() as u64,
            Err(error) => {
                // Part of it may have been written. Cutting it off is tidy but not needed: see `Writer::length`.
                let _cut = self.volume.truncate(&writer.file, writer.length);
                self.failed(writer, &error);
            }
        }
        writer.buffer.clear();
        self.uncommitted.store(false, Ordering::Release);
    }

    fn failed(&self, writer: &mut Writer, error: &io::Error) {
        writer.failures += 1;
        self.write_errors.fetch_add(1, Ordering::Relaxed);
        if !self.degraded.swap(true, Ordering::Relaxed) {
            tracing::error!(
                folder = %self.folder.display(),
                %error,
                "cannot write task records; they are kept in memory only until the disk takes writes again",
            );
        }
    }
}

impl Writer {
    fn push(&mut self, record: &Record<'_>) {
        record::encode(&mut self.buffer, self.salt, record);
    }
}
