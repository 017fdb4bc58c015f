//! Server-sent events, found in bytes as they pass (HTML Living Standard §9.2).
//!
//! A `Scanner` is fed the chunks of a stream however they were cut, and says where in a chunk each event ends and what its
//! data is; the bytes themselves are relayed by somebody else, untouched. Data is borrowed from the chunk where it can be. Only
//! an event in pieces, or one of several data lines, is copied, into a buffer that is bounded and that is given back at the end
//! of the event: an idle stream holds nothing but the `Scanner`. Comments, `id:` and `retry:` are passed over.

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::Bytes;
use memchr::memchr2;

/// An event that ended in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    pub content: Content<'a>,
    /// The chunk up to here belongs to this event and to what stood before it.
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The `data:` lines, joined with line feeds. Events without data are none (§9.2.6).
    Data { name: Name, data: &'a [u8] },
    /// The event is larger than the scanner bears. Said once, as soon as it is seen, so `end` lies within the event; what
    /// is left of it is skipped.
    TooLarge,
}

/// The `event:` field, as far as anybody here asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Name {
    /// No name, or `message`.
    #[default]
    Message,
    /// Some agents mark error events so.
    Error,
    Other,
}

/// An event with this data, which is one line.
pub fn one_event(data: &[u8]) -> Bytes {
    [b"data: ", data, b"\n\n"].concat().into()
}

/// The event that is an error in the HTTP+JSON binding.
pub fn one_error(data: &[u8]) -> Bytes {
    [b"event: error\ndata: ", data, b"\n\n"].concat().into()
}

/// Finds the events of one stream.
#[derive(Debug)]
pub struct Scanner {
    /// The present event as far as it had to be copied: its data, then the line that is not finished.
    buffer: Vec<u8>,
    /// The data in `buffer`; the unfinished line begins behind it.
    data: Option<Range<usize>>,
    /// Bytes of the finished lines of the present event from its first field on, and those of an unfinished comment.
    size: usize,
    most: usize,
    place: Place,
    name: Name,
    /// The present event has a field.
    has_fields: bool,
    /// The present event is too large.
    skips: bool,
    /// `buffer` was handed out as the data of the last event.
    spent: bool,
    /// How much of a byte order mark the stream has begun with; all of it once that is settled.
    mark: usize,
}

/// What the last chunk ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    LineStart,
    /// A CR, which may be half of a CRLF.
    AfterCr,
    InLine,
    /// A line that nobody asks for: a comment, or part of an event that is too large.
    InIdleLine,
}

/// What a line says.
enum Line {
    Blank,
    Comment,
    /// Data, from this byte of the line on.
    Data(usize),
    Name(Name),
    OtherField,
}

enum Found {
    InChunk(Range<usize>),
    InBuffer(Range<usize>),
    TooLarge,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl Scanner {
    /// `most` bounds the bytes of one event as they come, from its first field up to the empty line that ends it, and with
    /// them what is held.
    pub fn new(most: usize) -> Self {
        Self {
            buffer: Vec::new(),
            data: None,
            size: 0,
            most,
            place: Place::LineStart,
            name: Name::Message,
            has_fields: false,
            skips: false,
            spent: false,
            mark: 0,
        }
    }

    /// Hands every event that ends in this chunk to `on_event`.
    pub fn push(&mut self, chunk: &[u8], mut on_event: impl FnMut(Event<'_>)) {
        let mut at = 0;
        while let Some(event) = self.next(chunk, &mut at) {
            on_event(event);
        }
    }

    /// The next event that ends in `chunk` behind `at`, which moves to its end.
    ///
    /// To be asked of every chunk, from 0, until there is none.
    pub fn next<'s>(&'s mut self, chunk: &'s [u8], at: &mut usize) -> Option<Event<'s>> {
        if self.spent {
            self.release();
        }
        let (found, name) = self.advance(chunk, at)?;
        let content = match found {
            Found::InChunk(data) => Content::Data {
                name,
                data: chunk.get(data).unwrap_or_default(),
            },
            Found::InBuffer(data) => Content::Data {
                name,
                data: self.buffer.get(data).unwrap_or_default(),
            },
            Found::TooLarge => Content::TooLarge,
        };
        Some(Event { content, end: *at })
    }

    /// The stream ended here would end in the middle of an event, or of a line.
    pub fn has_partial(&self) -> bool {
        self.has_fields
            || matches!(self.place, Place::InLine | Place::InIdleLine)
            || (1..BYTE_ORDER_MARK.len()).contains(&self.mark)
    }

    /// How many of the bytes so far belong to an event that is not finished. What stood before it may go on: events that
    /// ended, and comments.
    pub fn partial_len(&self) -> usize {
        let line = match self.place {
            Place::InLine => self.buffer.len() - self.line_start(),
            Place::LineStart | Place::AfterCr | Place::InIdleLine => 0,
        };
        self.size + line
    }

    fn advance(&mut self, chunk: &[u8], at: &mut usize) -> Option<(Found, Name)> {
        self.pass_mark(chunk, at);
        // The only data line of the present event, while it stands whole in this chunk.
        let mut borrowed = None;
        while let Some(rest) = chunk.get(*at..).filter(|rest| !rest.is_empty()) {
            if self.place == Place::AfterCr {
                self.place = Place::LineStart;
                if rest.first() == Some(&b'\n') {
                    *at += 1;
                    if self.grow(1) {
                        return Some(self.skip());
                    }
                    continue;
                }
            }
            let Some(len) = memchr2(b'\n', b'\r', rest) else {
                *at = chunk.len();
                self.keep_data(chunk, borrowed.take());
                return self.keep_line(rest).then(|| self.skip());
            };
            let line = *at..*at + len;
            let piece = rest.get(..len).unwrap_or_default();
            *at = line.end + 1;
            let place = std::mem::replace(&mut self.place, Place::LineStart);
            if chunk.get(line.end) == Some(&b'\r') {
                match chunk.get(*at) {
                    Some(b'\n') => *at += 1,
                    Some(_) => {}
                    None => self.place = Place::AfterCr,
                }
            }
            let ends = *at - line.end;
            let is_blank = match place {
                Place::LineStart | Place::AfterCr => self.whole_line(chunk, line, &mut borrowed),
                Place::InLine => self.end_line(piece),
                Place::InIdleLine => {
                    self.grow(len);
                    false
                }
            };
            if is_blank {
                if let Some(event) = self.end_event(borrowed.take()) {
                    return Some(event);
                }
            } else if self.grow(ends) {
                return Some(self.skip());
            }
        }
        self.keep_data(chunk, borrowed);
        None
    }

    /// Passes over a byte order mark at the beginning of the stream, in however many pieces.
    fn pass_mark(&mut self, chunk: &[u8], at: &mut usize) {
        while let Some(expected) = BYTE_ORDER_MARK.get(self.mark) {
            match chunk.get(*at) {
                None => return,
                Some(byte) if byte == expected => {
                    *at += 1;
                    self.mark += 1;
                }
                // It was none, so what was passed over belongs to the first line.
                Some(_) => {
                    if let Some(begun) = BYTE_ORDER_MARK.get(..self.mark).filter(|it| !it.is_empty()) {
                        self.buffer.extend_from_slice(begun);
                        self.place = Place::InLine;
                    }
                    self.mark = BYTE_ORDER_MARK.len();
                }
            }
        }
    }

    /// Reads a line that stands whole in the chunk; true if it is blank.
    fn whole_line(&mut self, chunk: &[u8], line: Range<usize>, borrowed: &mut Option<Range<usize>>) -> bool {
        let bytes = chunk.get(line.clone()).unwrap_or_default();
        let value = match self.note(bytes) {
            Line::Blank => return true,
            Line::Comment | Line::Name(_) | Line::OtherField => return false,
            Line::Data(from) => line.start + from..line.end,
        };
        if self.data.is_none() && borrowed.is_none() {
            *borrowed = Some(value);
        } else {
            self.keep_data(chunk, borrowed.take());
            self.buffer.push(b'\n');
            self.buffer.extend_from_slice(chunk.get(value).unwrap_or_default());
            self.stretch_data();
        }
        false
    }

    /// Reads the line in the buffer, of which this is the last piece; true if it is blank.
    fn end_line(&mut self, piece: &[u8]) -> bool {
        self.buffer.extend_from_slice(piece);
        let start = self.line_start();
        let buffer = std::mem::take(&mut self.buffer);
        let line = self.note(buffer.get(start..).unwrap_or_default());
        self.buffer = buffer;
        match (line, &self.data) {
            (Line::Blank, _) => return true,
            (Line::Comment | Line::Name(_) | Line::OtherField, _) => self.buffer.truncate(start),
            // The data may stay where it is.
            (Line::Data(from), None) => self.data = Some(start + from..self.buffer.len()),
            // A line feed takes the place of the field's name, which is longer.
            (Line::Data(from), Some(_)) => {
                if let Some(byte) = self.buffer.get_mut(start) {
                    *byte = b'\n';
                }
                self.buffer.drain(start + 1..start + from);
                self.stretch_data();
            }
        }
        false
    }

    /// Says what a line is, and remembers what is not its data.
    fn note(&mut self, line: &[u8]) -> Line {
        let read = read_line(line);
        match read {
            Line::Blank => return read,
            Line::Comment => {
                self.grow(line.len());
                return read;
            }
            Line::Name(name) => self.name = name,
            Line::Data(_) | Line::OtherField => {}
        }
        self.has_fields = true;
        if self.skips {
            return Line::OtherField;
        }
        self.grow(line.len());
        read
    }

    /// Counts bytes of the present event, if there is one; true if it gets too large by them.
    fn grow(&mut self, by: usize) -> bool {
        if !self.has_fields || self.skips {
            return false;
        }
        self.size = self.size.saturating_add(by);
        self.size > self.most
    }

    /// Copies the data that the chunk would take away.
    fn keep_data(&mut self, chunk: &[u8], borrowed: Option<Range<usize>>) {
        if let Some(data) = borrowed.and_then(|data| chunk.get(data)) {
            self.buffer.extend_from_slice(data);
            self.data = Some(0..self.buffer.len());
        }
    }

    /// Takes a piece of a line that goes on in the next chunk; true if the event gets too large by it.
    fn keep_line(&mut self, piece: &[u8]) -> bool {
        let begins = matches!(self.place, Place::LineStart | Place::AfterCr);
        if self.skips || self.place == Place::InIdleLine || (begins && piece.starts_with(b":")) {
            self.place = Place::InIdleLine;
            return self.grow(piece.len());
        }
        self.place = Place::InLine;
        let size = self.size + (self.buffer.len() - self.line_start()) + piece.len();
        if size > self.most {
            self.place = Place::InIdleLine;
            self.has_fields = true;
            return true;
        }
        self.buffer.extend_from_slice(piece);
        false
    }

    /// Gives up on the present event.
    fn skip(&mut self) -> (Found, Name) {
        self.skips = true;
        self.release();
        (Found::TooLarge, self.name)
    }

    /// A blank line: gives the event, if there is one, and begins another.
    fn end_event(&mut self, borrowed: Option<Range<usize>>) -> Option<(Found, Name)> {
        let name = std::mem::take(&mut self.name);
        self.size = 0;
        self.has_fields = false;
        self.skips = false;
        let found = match (borrowed, self.data.take()) {
            (Some(data), _) if !data.is_empty() => {
                self.release();
                Found::InChunk(data)
            }
            (None, Some(data)) if !data.is_empty() => {
                self.spent = true;
                Found::InBuffer(data)
            }
            (Some(_), _) | (None, _) => {
                self.release();
                return None;
            }
        };
        Some((found, name))
    }

    fn line_start(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.end)
    }

    /// Everything in the buffer behind the data belongs to it.
    fn stretch_data(&mut self) {
        let end = self.buffer.len();
        if let Some(data) = &mut self.data {
            data.end = end;
        }
    }

    fn release(&mut self) {
        self.spent = false;
        self.data = None;
        self.buffer = Vec::new();
    }
}

fn read_line(line: &[u8]) -> Line {
    if line.is_empty() {
        return Line::Blank;
    }
    let colon = memchr::memchr(b':', line.get(..FIELD).unwrap_or(line));
    let (name, value) = match colon {
        Some(0) => return Line::Comment,
        Some(colon) => {
            let space = usize::from(line.get(colon + 1) == Some(&b' '));
            (line.get(..colon), colon + 1 + space)
        }
        None => (Some(line), line.len()),
    };
    match name {
        Some(b"data") => Line::Data(value),
        Some(b"event") => Line::Name(match line.get(value..) {
            Some(b"" | b"message") => Name::Message,
            Some(b"error") => Name::Error,
            Some(_) | None => Name::Other,
        }),
        Some(_) | None => Line::OtherField,
    }
}

/// The colon of any field that matters stands within so many bytes.
const FIELD: usize = 8;
