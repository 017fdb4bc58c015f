//! Reading the files that the configuration names: bounded, with the path and the cause in the error.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest file that the configuration may name; a CA bundle is the largest real one (about 250 KiB).
pub const MAX_FILE: u64 = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
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

pub fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read(path)?).map_err(|_| Error::NotText { path: path.to_owned() })
}
