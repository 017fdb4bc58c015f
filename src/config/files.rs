//! Reading the files that the configuration names: bounded, with the path and the cause in the error. And whether a folder
//! that it names can be written, without writing it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags};

/// The largest file that the configuration may name; a CA bundle is the largest real one (about 250 KiB).
pub const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Most files of agents in a folder: as many agents have room in one process.
pub const MAX_FRAGMENTS: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is no file that ends")]
    Endless { path: PathBuf },
    #[error("{path} is larger than {MAX_FILE} bytes")]
    TooLarge { path: PathBuf },
    #[error("{path} is not UTF-8 text")]
    NotText { path: PathBuf },
}

/// Blocking; at start, or on the blocking pool when files are reloaded. What is no regular file is refused: a pipe would be waited for
/// until somebody writes, and is empty when it is read again.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    // It means nothing for files.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
    let file = opened.map(File::from).map_err(|source| failed(path, source))?;
    let found = file.metadata().map_err(|source| failed(path, source))?;
    if !found.is_file() && !found.is_dir() {
        return Err(Error::Endless { path: path.to_owned() });
    }
    whole(file, path)
}

/// The same of what a command is given once, which may be a pipe.
pub fn read_any(path: &Path) -> Result<Vec<u8>, Error> {
    whole(File::open(path).map_err(|source| failed(path, source))?, path)
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Read {
        path: path.to_owned(),
        source,
    }
}

fn whole(file: File, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|source| failed(path, source))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// The names of the files in a folder that hold agents, in order: `*.yaml`, hidden ones apart. `Err` has the name, as far as it can be
/// told, of one that is not UTF-8.
pub fn fragments(folder: &Path) -> Result<Vec<Result<String, String>>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|source| failed(folder, source))? {
        let entry = entry.map_err(|source| failed(folder, source))?;
        let name = entry.file_name();
        let told = name.to_string_lossy();
        // Where it leads, if it is a symlink.
        if told.ends_with(".yaml") && !told.starts_with('.') && !entry.path().is_dir() {
            let told = told.into_owned();
            names.push(name.into_string().map_err(|_| told));
        }
    }
    names.sort();
    Ok(names)
}

/// Whether there is a folder at this path.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

pub fn read_text(path: &Path) -> Result<String, Error> {
    text(read(path)?, path)
}

/// The same as `read_any`.
pub fn read_any_text(path: &Path) -> Result<String, Error> {
    text(read_any(path)?, path)
}

fn text(bytes: Vec<u8>, path: &Path) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::NotText { path: path.to_owned() })
}

/// Why a folder cannot be used, or made, by this process; nothing is changed. Whoever may do everything may also do this.
pub fn folder_fault(folder: &Path) -> Option<String> {
    for at in folder.ancestors() {
        let at = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        let shown = at.display();
        match fs::metadata(at) {
            Ok(found) if !found.is_dir() => return Some(format!("{shown} is not a folder")),
            Ok(_) => {
                let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
                let error = io::Error::from(rustix::fs::access(at, wanted).err()?);
                return Some(if at == folder {
                    format!("{shown} cannot be written: {error}")
                } else {
                    format!(
                        "{} cannot be made: {shown} cannot be written: {error}",
                        folder.display()
                    )
                });
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Some(format!("{shown} cannot be used: {error}")),
        }
    }
    None
}
