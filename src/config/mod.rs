//! From the file to the checked `Config`; the only reader of the configuration, of named files and of the environment.

pub mod files;
pub mod model;

use std::fmt;

pub use model::*;

/// One thing that is wrong with the configuration: where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key as written in the file, e.g. `agents[0].upstream.endpoints[1].url`.
    pub key: String,
    /// 1-based line in the file, where known.
    pub line: Option<u32>,
    pub cause: String,
}

impl Problem {
    pub fn new(key: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            line: None,
            cause: cause.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} (line {line}): {}", self.key, self.cause),
            None => write!(f, "{}: {}", self.key, self.cause),
        }
    }
}

/// A value that never shows in logs, errors or `/config`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: zeroize::Zeroize>(zeroize::Zeroizing<T>);

impl<T: zeroize::Zeroize> Secret<T> {
    pub fn new(value: T) -> Self {
        Self(zeroize::Zeroizing::new(value))
    }

    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: zeroize::Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
