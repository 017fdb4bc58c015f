//! What the journal does to the disk, as a trait, so that tests can let any single step fail.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub(in crate::affinity) trait Volume: Send + Sync {
    /// Makes an empty file that only its owner may read; replaces one of the same name.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// Writes all of `bytes` at `offset`.
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn truncate(&self, file: &File, length: u64) -> io::Result<()>;
    /// Waits until the bytes of the file are on the disk.
    fn sync(&self, file: &File) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Waits until the names in the folder are on the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

pub(in crate::affinity) struct Disk;

impl Volume for Disk {
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
    }

    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
