//! Values that never show, and the files that some of them stand in alone.

use std::fmt;
use std::path::{Path, PathBuf};

use zeroize::{Zeroize, Zeroizing};

use super::{files, with_causes};

/// A value that never shows in logs, errors or `/config`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Zeroize> {
    value: Zeroizing<T>,
    file: Option<PathBuf>,
}

impl<T: Zeroize> Secret<T> {
    pub fn new(value: T) -> Self {
        Self {
            value: Zeroizing::new(value),
            file: None,
        }
    }

    pub fn expose(&self) -> &T {
        &self.value
    }

    /// The file that it was read from, if it has one of its own.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl Secret<String> {
    /// What a file holds, one newline at the end dropped; perhaps nothing. Blocking.
    pub fn read(path: PathBuf) -> Result<Self, files::Error> {
        let text = Zeroizing::new(files::read_text(&path)?);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        Ok(Self {
            file: Some(path),
            ..Self::new(line.to_owned())
        })
    }

    /// What its file holds now; the same secret where it has none. Blocking. The cause of a failure names the file and
    /// repeats nothing of it.
    pub fn read_again(&self) -> Result<Self, String> {
        let Some(path) = &self.file else {
            return Ok(self.clone());
        };
        let secret = Self::read(path.clone()).map_err(|error| with_causes(&error))?;
        if secret.expose().is_empty() {
            return Err(format!("{} is empty", path.display()));
        }
        Ok(secret)
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
