//! From the file to the checked `Config`; the only reader of the configuration, of named files and of the environment.
//!
//! `tree` parses, `expand` and `overlay` lay the environment over it, `shape` fits it to the `schema` made from `raw`,
//! `check` makes the `model`. Each step reports what it finds and goes on with the rest, so that one start shows every
//! mistake. Whether the named certificates, keys and folders are good is found out by the stages that use them; `Invalid`
//! keeps for them what of a configuration with mistakes names files.

mod card;
mod check;
mod envelope;
mod environment;
mod expand;
pub mod files;
mod fragments;
mod load;
pub mod model;
mod overlay;
mod places;
mod raw;
mod redact;
mod running;
mod schema;
mod secret;
mod shape;
mod start;
mod suggest;
mod tree;
mod units;

#[cfg(test)]
mod tests;

use std::fmt;

pub use check::{Invalid, Sound, url};
pub use envelope::{AgentEnvelope, Envelope, EnvelopeSender};
pub use environment::Environment;
pub use fragments::{Blame, Fragment, Fragments, RefusedFragment, Standing};
pub use load::{examine, examine_again, load, parse};
pub use model::*;
pub use places::Places;
pub use redact::{redacted, shown_url};
pub use schema::schema;
pub use secret::Secret;
pub use start::{Arguments, from_arguments};
pub use units::Moment;

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

/// All problems for a terminal, one a line.
pub fn render(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// An error and its causes in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The key of an entry in a section; the root has the empty key.
fn join(section: &str, key: &str) -> String {
    if section.is_empty() {
        key.to_owned()
    } else {
        format!("{section}.{key}")
    }
}

/// The key of an element of a list.
fn place(list: &str, index: usize) -> String {
    format!("{list}[{index}]")
}
