//! Whether a chain holds, and if not, where it breaks first.
//!
//! Files are read line by line, from the oldest to the newest; memory is bounded by the longest line. What is missing at the
//! end of the last file cannot be told from it: the number of the last line is given, to be compared with what the gateway says.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use super::chain::{Hasher, Line, Link, MAX_LINE};
use super::file::reader;

/// A chain that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    pub lines: u64,
    /// The first line follows this one, which is not in the files.
    pub after: Link,
    pub last: Link,
    /// Bytes at the end that are no whole line.
    pub unfinished: usize,
}

/// The first place where a chain does not hold.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {fault}", file.display())]
pub struct Broken {
    pub file: PathBuf,
    /// 1-based.
    pub line: u64,
    #[source]
    pub fault: Fault,
}

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("the file cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error("the line is none of an audit trail")]
    Foreign,
    #[error("the line was changed or put in: its hash is not that of what it says")]
    Changed,
    #[error("no line of the file is verified: it was made with another key, or without one, or all of it was changed")]
    Key,
    #[error("lines {from} to {to} are missing before it")]
    Missing { from: u64, to: u64 },
    #[error("the line stands in another order, or twice: it is number {sequence}, and follows number {before}")]
    Order { sequence: u64, before: u64 },
    #[error("the line is of another chain: it does not follow the one before it")]
    Unlinked,
    #[error("the line breaks off in the middle, and another file follows")]
    Unfinished,
}

/// `keys` are those that the files may have been made with, each file with one; none: they were made without.
pub fn verify<K: AsRef<str>>(files: &[PathBuf], keys: &[K]) -> Result<Verified, Box<Broken>> {
    let mut hashers: Vec<Hasher> = keys.iter().map(|key| Hasher::new(Some(key.as_ref()))).collect();
    if hashers.is_empty() {
        hashers.push(Hasher::new(None));
    }
    let mut walk = Walk {
        hashers: &hashers,
        verified: Verified {
            lines: 0,
            after: Link::NONE,
            last: Link::NONE,
            unfinished: 0,
        },
    };
    for (index, file) in files.iter().enumerate() {
        let mut number = 0;
        walk.file(file, &mut number)
            .and_then(|()| match walk.verified.unfinished > 0 && index + 1 < files.len() {
                true => Err(Fault::Unfinished),
                false => Ok(()),
            })
            .map_err(|fault| Broken {
                file: file.clone(),
                line: number,
                fault,
            })?;
    }
    Ok(walk.verified)
}

struct Walk<'a> {
    hashers: &'a [Hasher],
    verified: Verified,
}

impl Walk<'_> {
    /// `number` is the line that is looked at.
    fn file(&mut self, path: &Path, number: &mut u64) -> Result<(), Fault> {
        let mut lines = reader(path).map_err(Fault::Read)?;
        let mut hasher = None;
        let mut bytes = Vec::new();
        loop {
            *number += 1;
            let is_whole = next(&mut lines, &mut bytes)?;
            if bytes.is_empty() && !is_whole {
                return Ok(());
            }
            if !is_whole {
                self.verified.unfinished = bytes.len();
                return Ok(());
            }
            let line = Line::read(&bytes).ok_or(Fault::Foreign)?;
            let known = hasher.or_else(|| self.hashers.iter().find(|hasher| line.is_of(hasher)));
            let Some(known) = known else {
                return Err(self.other_key(&mut lines));
            };
            if !line.is_of(known) {
                return Err(Fault::Changed);
            }
            hasher = Some(known);
            self.follow(&line)?;
        }
    }

    /// The first line of a file is verified by no key: is any other one?
    fn other_key(&self, lines: &mut impl BufRead) -> Fault {
        let mut bytes = Vec::new();
        match next(lines, &mut bytes) {
            Err(fault) => fault,
            Ok(true) => match Line::read(&bytes) {
                Some(line) if self.hashers.iter().any(|hasher| line.is_of(hasher)) => Fault::Changed,
                Some(_) | None => Fault::Key,
            },
            Ok(false) => Fault::Key,
        }
    }

    fn follow(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let last = &mut self.verified.last;
        if self.verified.lines == 0 {
            *last = Link {
                sequence: line.sequence.saturating_sub(1),
                hash: line.previous,
            };
            self.verified.after = *last;
        }
        let next = last.sequence.saturating_add(1);
        if line.sequence > next {
            return Err(Fault::Missing {
                from: next,
                to: line.sequence - 1,
            });
        }
        if line.sequence < next {
            return Err(Fault::Order {
                sequence: line.sequence,
                before: last.sequence,
            });
        }
        if line.previous != last.hash {
            return Err(Fault::Unlinked);
        }
        *last = line.link();
        self.verified.lines += 1;
        Ok(())
    }
}

/// The next line without its end; false: the file ends before that.
fn next(lines: &mut impl BufRead, bytes: &mut Vec<u8>) -> Result<bool, Fault> {
    bytes.clear();
    let mut bounded = io::Read::take(lines, MAX_LINE as u64);
    bounded.read_until(b'\n', bytes).map_err(Fault::Read)?;
    if bytes.pop_if(|last| *last == b'\n').is_some() {
        return Ok(true);
    }
    match bytes.len() < MAX_LINE {
        true => Ok(false),
        false => Err(Fault::Foreign),
    }
}
