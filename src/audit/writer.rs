//! The one who writes: takes what waits, makes the chain of it, appends it to the file.
//!
//! Blocking. What cannot be written stays here, in its order, and is tried again; the chain is only as long as the file.

use std::collections::VecDeque;

use super::chain::{AROUND, Hasher, Line, Link};
use super::event;
use super::file::{Error, Output};
use crate::clock::Clock;
use crate::config;

/// Written at once. Some two hundred lines: a failure takes back no more.
const CHUNK: usize = 128 * 1024;

/// A file at whose end a chain goes on.
pub(super) struct Writer {
    output: Output,
    hasher: Hasher,
    key: Option<config::Secret<String>>,
    max_bytes: u64,
    keep: usize,
    last: Link,
    unsynced: bool,
    /// What the first line says.
    opened: Option<String>,
    /// Nothing stood in the file when it was opened.
    empty: bool,
    /// The file is too long, and cannot be renamed.
    overlong: bool,
}

/// What came to stand in the file.
pub(super) struct Written<'a> {
    /// Events of others than the trail itself.
    pub count: usize,
    pub last: Link,
    /// The lines.
    pub bytes: &'a [u8],
}

impl Written<'_> {
    /// Of the trail itself, for which nobody waits.
    fn uncounted(&self) -> Self {
        Self { count: 0, ..*self }
    }
}

/// What waits at the writer.
#[derive(Default)]
pub(super) struct Pending {
    pub lines: VecDeque<Box<str>>,
    /// Events that came after these and are lost.
    pub lost: u64,
}

impl Writer {
    pub(super) fn open(config: &config::Audit) -> Result<Self, Error> {
        let hasher = hasher(config);
        let (mut output, tail) = Output::open(&config.file)?;
        let line = tail.line.as_deref().map(Line::read);
        let (last, said) = match line {
            _ if tail.foreign => {
                output.rotate(config.keep)?;
                let last = line.flatten().map_or(Link::NONE, |line| line.link());
                (last, "the file before ends with what is no line of a chain".to_owned())
            }
            Some(Some(line)) if line.is_of(&hasher) => (line.link(), continued(tail.unfinished)),
            Some(line) => {
                output.rotate(config.keep)?;
                let last = line.map_or(Link::NONE, |line| line.link());
                let said = "the last line of the file before is not verified by this key";
                (last, said.to_owned())
            }
            None => {
                let line = output.line_before();
                match line.as_deref().and_then(Line::read) {
                    Some(line) => (line.link(), continued(tail.unfinished)),
                    None => (Link::NONE, "a new chain".to_owned()),
                }
            }
        };
        let empty = tail.line.is_none();
        Ok(Self {
            output,
            hasher,
            key: config.key.clone(),
            max_bytes: config.max_bytes,
            keep: config.keep,
            last,
            unsynced: false,
            opened: Some(said),
            empty,
            overlong: false,
        })
    }

    /// The chain of this process goes on here, unless the file has one of its own.
    pub(super) fn following(mut self, last: Link) -> Self {
        if self.empty {
            self.last = last;
            self.opened = Some(continued(0));
        }
        self
    }

    /// It would go on in the same file, which still has its name.
    pub(super) fn is_at(&self, config: &config::Audit) -> bool {
        self.output.is_at(&config.file) && self.output.is_in_place()
    }

    pub(super) fn has_key_of(&self, config: &config::Audit) -> bool {
        self.key == config.key
    }

    /// A file is of one key.
    pub(super) fn rekey(&mut self, config: &config::Audit) -> Result<(), Error> {
        self.output.rotate(config.keep)?;
        self.hasher = hasher(config);
        self.key.clone_from(&config.key);
        self.opened = Some("the chain goes on with another key".to_owned());
        Ok(())
    }

    pub(super) fn change(&mut self, max_bytes: u64, keep: usize) {
        (self.max_bytes, self.keep) = (max_bytes, keep);
    }

    pub(super) fn last(&self) -> Link {
        self.last
    }

    /// Everything that waits.
    pub(super) fn write(
        &mut self,
        pending: &mut Pending,
        clock: &Clock,
        mut written: impl FnMut(&Written<'_>),
    ) -> std::io::Result<()> {
        if let Some(said) = &self.opened {
            let line = event::of_trail(clock.now(), "trail_opened", said);
            self.all(&mut VecDeque::from([line]), |done| written(&done.uncounted()))?;
            self.opened = None;
        }
        self.all(&mut pending.lines, &mut written)?;
        if pending.lost > 0 {
            let line = event::lost(clock.now(), pending.lost);
            self.all(&mut VecDeque::from([line]), |done| written(&done.uncounted()))?;
            pending.lost = 0;
        }
        Ok(())
    }

    /// The last line that this process writes to the file.
    pub(super) fn close(
        &mut self,
        clock: &Clock,
        why: &str,
        mut written: impl FnMut(&Written<'_>),
    ) -> std::io::Result<()> {
        let line = event::of_trail(clock.now(), "trail_closed", why);
        self.all(&mut VecDeque::from([line]), |done| written(&done.uncounted()))?;
        self.sync()
    }

    pub(super) fn sync(&mut self) -> std::io::Result<()> {
        if self.unsynced {
            self.output.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }

    fn all(&mut self, lines: &mut VecDeque<Box<str>>, mut written: impl FnMut(&Written<'_>)) -> std::io::Result<()> {
        let mut may_rotate = true;
        while !lines.is_empty() {
            let length = self.output.length()?;
            let (mut out, mut last, mut count) = (Vec::new(), self.last, 0);
            for members in &*lines {
                let long = length + (out.len() + members.len() + AROUND) as u64;
                let is_full = may_rotate && long > self.max_bytes && (length > 0 || !out.is_empty());
                if is_full || out.len() >= CHUNK {
                    break;
                }
                last = self.hasher.append(&mut out, last, members);
                count += 1;
            }
            if count == 0 {
                may_rotate = self.rotate();
                continue;
            }
            self.output.write(&out)?;
            self.unsynced = true;
            self.last = last;
            lines.drain(..count);
            written(&Written {
                count,
                last,
                bytes: &out,
            });
        }
        Ok(())
    }

    /// False: the file has to take what comes, however long it gets.
    fn rotate(&mut self) -> bool {
        match self.output.rotate(self.keep) {
            Ok(()) => {
                self.overlong = false;
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.overlong, true) {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::error!(%error, cause, "the audit file grows beyond its size");
                }
                false
            }
        }
    }
}

fn hasher(config: &config::Audit) -> Hasher {
    Hasher::new(config.key.as_ref().map(|key| key.expose().as_str()))
}

fn continued(unfinished: u64) -> String {
    match unfinished {
        0 => "the chain goes on".to_owned(),
        bytes => format!("the chain goes on; an unfinished line of {bytes} bytes was cut off"),
    }
}
