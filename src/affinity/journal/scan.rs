//! Reads the frames of a file one after the other, in a window of bounded size, and finds the next whole one after damage.

use std::io::{self, Read};

use super::record::{self, HEAD, MAX_PAYLOAD, Record};

/// Longest frame; a window always has one, unless the file ends.
const MAX_FRAME: usize = HEAD + MAX_PAYLOAD;
const WINDOW: usize = 1024 * 1024;

pub(super) struct Scan<R> {
    source: R,
    salt: u32,
    window: Vec<u8>,
    /// Where in the window the next frame begins.
    at: usize,
    /// Where in the file it begins.
    offset: u64,
    ended: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Record(Record<'a>),
    /// Bytes that are no frame, up to the next whole frame or the end of the file.
    Damage {
        from: u64,
        to: u64,
    },
    End,
}

impl<R: Read> Scan<R> {
    /// `offset` is where `source` stands in its file.
    pub(super) fn new(source: R, salt: u32, offset: u64) -> Self {
        Self {
            source,
            salt,
            window: Vec::with_capacity(WINDOW + MAX_FRAME),
            at: 0,
            offset,
            ended: false,
        }
    }

    /// Where the next frame begins; after `End`, the length of the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> io::Result<Found<'_>> {
        let from = self.offset;
        loop {
            self.fill()?;
            let rest = self.window.get(self.at..).unwrap_or_default();
            let size = record::payload(rest, self.salt).map(<[u8]>::len);
            match size {
                Some(size) if self.offset == from => {
                    let start = self.at + HEAD;
                    self.advance(HEAD + size);
                    let payload = self.window.get(start..start + size).unwrap_or_default();
                    // Intact but unreadable is as good as damaged.
                    return Ok(record::decode(payload).map_or(Found::Damage { from, to: self.offset }, Found::Record));
                }
                None if !rest.is_empty() => self.advance(1),
                Some(_) | None if self.offset > from => {
                    return Ok(Found::Damage { from, to: self.offset });
                }
                Some(_) | None => return Ok(Found::End),
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.ended || self.window.len() - self.at >= MAX_FRAME {
            return Ok(());
        }
        self.window.drain(..self.at);
        self.at = 0;
        let wanted = (WINDOW - self.window.len()) as u64;
        let read = (&mut self.source).take(wanted).read_to_end(&mut self.window)?;
        self.ended = (read as u64) < wanted;
        Ok(())
    }
}
