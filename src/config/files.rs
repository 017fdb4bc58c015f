//! Reading the files that the configuration names: bounded, with the path and the cause in the error. And whether a folder
//! that it names can be written, without writing it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// The largest file that the configuration may name; a CA bundle is the largest real one (about 250 KiB).
pub const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Most files of agents in a folder: as many agents have room in one process.
pub const MAX_FRAGMENTS: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path} has more than {MAX_FRAGMENTS} files of agents")]
    TooMany { path: PathBuf },
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is larger than {MAX_FILE} bytes")]
    TooLarge { path: PathBuf },
    #[error("{path} is not UTF-8 text")]
    NotText { path: PathBuf },
}

/// Blocking; at start, or on the blocking pool when files are reloaded.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(fail)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// The names of the files in a folder that hold agents: `*.yaml`, hidden ones apart. In order.
pub fn fragments(folder: &Path) -> Result<Vec<String>, Error> {
    let fail = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // Where it leads, if it is a symlink.
        if name.ends_with(".yaml") && !name.starts_with('.') && !entry.path().is_dir() {
            names.push(name);
        }
        if names.len() > MAX_FRAGMENTS {
            return Err(Error::TooMany {
                path: folder.to_owned(),
            });
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
    String::from_utf8(read(path)?).map_err(|_| Error::NotText { path: path.to_owned() })
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
