//! The file of the trail: opened at its end, appended to, renamed when it is full.
//!
//! It is locked as long as it is open, because two writers would make two chains in it. What is not a file of a disk, such as
//! `/dev/stdout`, is written to and has no end to read and no limit.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::chain::{self, MAX_LINE};
use crate::config::files;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open {path}; give the gateway a file that it may write to, in a folder that exists")]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another process writes {path}; end it, or give each gateway a file of its own")]
    InUse { path: PathBuf },
    #[error("cannot lock {path}")]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read the end of {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot cut off the unfinished last line of {path}")]
    Cut {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot rename {path}, which holds something else than this chain")]
    Rename {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

pub(super) struct Output {
    path: PathBuf,
    file: Locked,
    /// Of a disk: with a length, and a name of its own.
    regular: bool,
    /// A failed write left something behind this length.
    torn: Option<u64>,
}

/// The kernel gives the lock back however the process ends.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that was just started holds a copy of it until it executes.
        let _unlocked = self.0.unlock();
    }
}

/// How a file ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// `None`: the file is empty, or has no end.
    pub line: Option<Vec<u8>>,
    /// Bytes behind it that are the beginning of a line.
    pub unfinished: u64,
    /// What stands behind it was never one.
    pub foreign: bool,
}

impl Output {
    /// Opens the file, makes it if need be, and cuts off a line that was not finished.
    pub(super) fn open(path: &Path) -> Result<(Self, Tail), Error> {
        let at = || path.to_owned();
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path);
        let mut file = opened.map_err(|source| Error::Open { path: at(), source })?;
        let read = |source| Error::Read { path: at(), source };
        let found = file.metadata().map_err(read)?;
        let mut tail = Tail {
            line: None,
            unfinished: 0,
            foreign: false,
        };
        if found.is_file() {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::InUse { path: at() }),
                Err(TryLockError::Error(source)) => return Err(Error::Lock { path: at(), source }),
            }
            tail = read_tail(&mut file, found.len()).map_err(read)?;
            if tail.unfinished > 0 {
                file.set_len(found.len() - tail.unfinished)
                    .map_err(|source| Error::Cut { path: at(), source })?;
            }
        }
        let output = Self {
            path: at(),
            file: Locked(file),
            regular: found.is_file(),
            torn: None,
        };
        Ok((output, tail))
    }

    /// The last whole line of the newest renamed file.
    pub(super) fn line_before(&self) -> Option<Vec<u8>> {
        let mut file = File::open(numbered(&self.path, 1)).ok()?;
        let found = file.metadata().ok().filter(fs::Metadata::is_file)?;
        read_tail(&mut file, found.len()).ok()?.line
    }

    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.path == path
    }

    /// The file still has its name: nobody renamed or removed it.
    pub(super) fn is_in_place(&self) -> bool {
        if !self.regular {
            return true;
        }
        let same = |one: &fs::Metadata, other: &fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        match (fs::metadata(&self.path), self.file.0.metadata()) {
            (Ok(named), Ok(open)) => same(&named, &open),
            (Ok(_) | Err(_), _) => false,
        }
    }

    /// 0 where there is no limit.
    pub(super) fn length(&self) -> io::Result<u64> {
        match self.regular {
            true => Ok(self.torn.unwrap_or(self.file.0.metadata()?.len())),
            false => Ok(0),
        }
    }

    /// All of `bytes`, or nothing of them.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let before = self.length()?;
        if let Some(length) = self.torn {
            self.file.0.set_len(length)?;
            self.torn = None;
        }
        self.file.0.write_all(bytes).inspect_err(|_| {
            if self.regular && self.file.0.set_len(before).is_err() {
                self.torn = Some(before);
            }
        })
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self.regular {
            true => self.file.0.sync_data(),
            false => Ok(()),
        }
    }

    /// Renames the file to `.1`, `.1` to `.2` and so on to `.<keep>`, and goes on with an empty one.
    pub(super) fn rotate(&mut self, keep: usize) -> Result<(), Error> {
        // Where it has another name by now, somebody else has renamed it.
        if self.is_in_place() {
            let rename = |from: &Path, to: &Path| match fs::rename(from, to) {
                // Some of them may not be there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                renamed => renamed,
            };
            let failed = |source| Error::Rename {
                path: self.path.clone(),
                source,
            };
            for number in (1..keep).rev() {
                let (from, to) = (numbered(&self.path, number), numbered(&self.path, number + 1));
                rename(&from, &to).map_err(failed)?;
            }
            rename(&self.path, &numbered(&self.path, 1)).map_err(failed)?;
        }
        let (next, _) = Self::open(&self.path)?;
        // What it held is on the disk before anything that follows it.
        if let Err(error) = self.sync() {
            tracing::warn!(path = %self.path.display(), %error, "an audit file that was renamed cannot be synced");
        }
        *self = next;
        if let Some(folder) = self.path.parent().and_then(|folder| File::open(folder).ok()) {
            // Some file systems have no sync of folders.
            let _unsynced = folder.sync_all();
        }
        Ok(())
    }
}

/// `file.1` is the newest.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn read_tail(file: &mut File, length: u64) -> io::Result<Tail> {
    // Two lines: the last one, and one that was not finished.
    let most = 2 * MAX_LINE as u64;
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let end = memchr::memrchr(b'\n', &bytes);
    let whole = bytes.get(..end.unwrap_or(0)).unwrap_or_default();
    let rest = bytes.get(end.map_or(0, |end| end + 1)..).unwrap_or_default();
    let begin = memchr::memrchr(b'\n', whole).map_or(0, |at| at + 1);
    // Somebody's else file is not cut.
    let own = chain::begins_line(rest) && rest.len() <= MAX_LINE;
    Ok(Tail {
        line: end.and_then(|_| whole.get(begin..)).map(<[u8]>::to_vec),
        unfinished: if own { rest.len() as u64 } else { 0 },
        foreign: !own,
    })
}

/// Why a file cannot be written, or made; nothing is changed.
pub(super) fn fault(path: &Path) -> Option<String> {
    if path.exists() {
        let opened = OpenOptions::new().append(true).open(path);
        return opened
            .err()
            .map(|error| format!("{} cannot be written: {error}", path.display()));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.as_os_str().is_empty() && !folder.is_dir() {
        return Some(format!("{} is not a folder; make it", folder.display()));
    }
    files::folder_fault(folder)
}

/// For the verifier: the lines of a file, as they come.
pub(super) fn reader(path: &Path) -> io::Result<io::BufReader<File>> {
    File::open(path).map(io::BufReader::new)
}
