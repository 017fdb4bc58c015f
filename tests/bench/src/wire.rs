//! Reads HTTP/1.1 messages, whole or in pieces: requests for the agent, responses for the load generator.
//!
//! Understands `Content-Length`, chunked and read-to-close bodies, keeps nothing of a body itself and checks no more
//! than it needs to find the message's end: its peers are the proxies under test, not attackers.

use std::error::Error;

use memchr::memmem;

/// The largest head; every proxy under test sends far less.
const MAX_HEAD: usize = 16 * 1024;

type Failure = Box<dyn Error>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Request,
    Response,
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    ToClose,
    Done,
}

/// One message being read; `reset` makes it ready for the next on the same connection.
pub struct Message {
    kind: Kind,
    state: State,
    /// A head or a line that came in pieces.
    partial: Vec<u8>,
    /// Of a response.
    pub status: u16,
    /// Of a request: method and target, as sent.
    pub line: Vec<u8>,
    /// The sender closes after this message.
    pub close: bool,
    pub event_stream: bool,
    /// What `Content-Length` says, where it tells where the body ends.
    pub length: Option<u64>,
    pub etag: Vec<u8>,
}

impl Message {
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            state: State::Head,
            partial: Vec::new(),
            status: 0,
            line: Vec::new(),
            close: false,
            event_stream: false,
            length: None,
            etag: Vec::new(),
        }
    }

    pub fn reset(&mut self) {
        self.state = State::Head;
        self.partial.clear();
        self.status = 0;
        self.line.clear();
        self.close = false;
        self.event_stream = false;
        self.length = None;
        self.etag.clear();
    }

    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Nothing of the message has come yet.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        matches!(self.state, State::Head) && self.partial.is_empty()
    }

    /// The connection ended. True when that is how this message was to end.
    #[must_use]
    pub const fn ends_here(&self) -> bool {
        matches!(self.state, State::ToClose | State::Done)
    }

    /// Takes bytes until the message ends and gives its body's to `body`; returns how many belonged to it.
    pub fn feed(&mut self, mut input: &[u8], body: &mut impl FnMut(&[u8])) -> Result<usize, Failure> {
        let offered = input.len();
        loop {
            match self.state {
                State::Done => return Ok(offered - input.len()),
                State::Head => {
                    let Some(head) = take_until(&mut self.partial, &mut input, b"\r\n\r\n")? else {
                        return Ok(offered);
                    };
                    self.read_head(&head)?;
                    self.partial = head.reuse();
                }
                State::Length(left) => {
                    let (data, left) = take_data(&mut input, left);
                    if !data.is_empty() {
                        body(data);
                    }
                    if left > 0 {
                        self.state = State::Length(left);
                        return Ok(offered);
                    }
                    self.state = State::Done;
                }
                State::ToClose => {
                    if !input.is_empty() {
                        body(input);
                    }
                    return Ok(offered);
                }
                State::ChunkSize => {
                    let Some(line) = take_until(&mut self.partial, &mut input, b"\r\n")? else {
                        return Ok(offered);
                    };
                    let size = chunk_size(&line)?;
                    self.partial = line.reuse();
                    self.state = if size == 0 {
                        State::Trailers
                    } else {
                        State::ChunkData(size)
                    };
                }
                State::ChunkData(left) => {
                    let (data, left) = take_data(&mut input, left);
                    if !data.is_empty() {
                        body(data);
                    }
                    if left > 0 {
                        self.state = State::ChunkData(left);
                        return Ok(offered);
                    }
                    self.state = State::ChunkEnd;
                }
                State::ChunkEnd | State::Trailers => {
                    let Some(line) = take_until(&mut self.partial, &mut input, b"\r\n")? else {
                        return Ok(offered);
                    };
                    let empty = line.is_empty();
                    self.partial = line.reuse();
                    if matches!(self.state, State::ChunkEnd) {
                        if !empty {
                            return Err("a chunk is longer than it says".into());
                        }
                        self.state = State::ChunkSize;
                    } else if empty {
                        self.state = State::Done;
                    }
                }
            }
        }
    }

    fn read_head(&mut self, head: &[u8]) -> Result<(), Failure> {
        let first = memmem::find(head, b"\r\n").unwrap_or(head.len());
        let (line, mut rest) = head.split_at(first);
        match self.kind {
            Kind::Request => self.line.extend_from_slice(line),
            Kind::Response => {
                let code = line.get(9..12).ok_or("a short status line")?;
                self.status = std::str::from_utf8(code)?.parse()?;
            }
        }
        let mut length = None;
        let mut chunked = false;
        while let Some(after) = rest.strip_prefix(b"\r\n") {
            let end = memmem::find(after, b"\r\n").unwrap_or(after.len());
            let (line, next) = after.split_at(end);
            rest = next;
            if let Some(value) = header(line, b"content-length") {
                length = Some(std::str::from_utf8(value)?.parse::<u64>()?);
            } else if let Some(value) = header(line, b"transfer-encoding") {
                chunked = value.eq_ignore_ascii_case(b"chunked");
            } else if let Some(value) = header(line, b"connection") {
                self.close = value.eq_ignore_ascii_case(b"close");
            } else if let Some(value) = header(line, b"content-type") {
                self.event_stream = value.starts_with(b"text/event-stream");
            } else if let Some(value) = header(line, b"etag") {
                self.etag.extend_from_slice(value);
            }
        }
        if self.kind == Kind::Response && self.status == 304 {
            // Its length would be that of the body which it spares (RFC 9112 §6.3).
            self.state = State::Done;
            return Ok(());
        }
        self.length = length.filter(|_| !chunked);
        self.state = match (chunked, length, self.kind) {
            (true, _, _) => State::ChunkSize,
            (false, Some(length), _) => State::Length(length),
            (false, None, Kind::Request) => State::Done,
            (false, None, Kind::Response) => State::ToClose,
        };
        Ok(())
    }
}

/// A head or line: in place when it came in one piece, else put together.
enum Piece<'a> {
    Whole(&'a [u8]),
    Joined(Vec<u8>, usize),
}

impl Piece<'_> {
    /// Gives the buffer back for the next piece.
    fn reuse(self) -> Vec<u8> {
        match self {
            Piece::Whole(_) => Vec::new(),
            Piece::Joined(mut buffer, _) => {
                buffer.clear();
                buffer
            }
        }
    }
}

impl std::ops::Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::Whole(bytes) => bytes,
            Piece::Joined(buffer, length) => buffer.get(..*length).unwrap_or_default(),
        }
    }
}

fn take_until<'a>(partial: &mut Vec<u8>, input: &mut &'a [u8], end: &[u8]) -> Result<Option<Piece<'a>>, Failure> {
    if partial.is_empty() {
        if let Some(at) = memmem::find(input, end) {
            let (piece, rest) = input.split_at(at);
            *input = rest.get(end.len()..).unwrap_or_default();
            return Ok(Some(Piece::Whole(piece)));
        }
        partial.extend_from_slice(input);
        *input = &[];
    } else {
        let before = partial.len();
        // The end mark may lie across the border.
        let from = before.saturating_sub(end.len() - 1);
        partial.extend_from_slice(input);
        if let Some(at) = partial.get(from..).and_then(|tail| memmem::find(tail, end)) {
            let length = from + at;
            *input = input.get(length + end.len() - before..).unwrap_or_default();
            return Ok(Some(Piece::Joined(std::mem::take(partial), length)));
        }
        *input = &[];
    }
    if partial.len() > MAX_HEAD {
        return Err("a head that does not end".into());
    }
    Ok(None)
}

fn take_data<'a>(input: &mut &'a [u8], wanted: u64) -> (&'a [u8], u64) {
    let count = usize::try_from(wanted).map_or(input.len(), |wanted| wanted.min(input.len()));
    let (data, rest) = input.split_at(count);
    *input = rest;
    (data, wanted - count as u64)
}

fn chunk_size(line: &[u8]) -> Result<u64, Failure> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    Ok(u64::from_str_radix(std::str::from_utf8(digits)?.trim(), 16)?)
}

/// The value of a header line when it is `name`'s.
fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    if !found.eq_ignore_ascii_case(name) {
        return None;
    }
    Some(value.strip_prefix(b":")?.trim_ascii())
}
