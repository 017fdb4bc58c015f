//! A strict guard in front of hyper's HTTP/1.1 parser.
//!
//! hyper is a parser, not a policy: it drops a second `Content-Length`, lets `Transfer-Encoding` win over one, accepts bare
//! line feeds and cuts a fragment off a target. Whoever stands before or behind the gateway may read such bytes
//! differently, which is request smuggling. The guard follows the framing of the byte stream (RFC 9112 §6), hands hyper only
//! whole and clean heads, and counts every size and wait of a head itself.
//!
//! A head that is refused never reaches hyper: the guard hands over a harmless head instead, leaves the reason in
//! `Refusal`, and lets nothing more in. So the service answers every refusal in the caller's form and in the order of requests.
//!
//! In the usual case, a whole head in one read, nothing is copied.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::observe::Reason;

/// What hyper is given in place of a refused head.
const HARMLESS: &[u8] = b"POST / HTTP/1.1\r\nhost: refused\r\ncontent-length: 0\r\n\r\n";
/// How much of a refused body is read and thrown away, so that the caller gets to read the answer before the connection
/// is reset, and for how long. nginx lingers for 5 s a read; a caller that still sends after two has no reader to lose.
const LINGER_BYTES: usize = 32 * 1024 * 1024;
const LINGER: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub header_bytes: usize,
    pub header_fields: usize,
    pub target_bytes: usize,
    /// From accept, or from the first byte of a later head, to its end.
    pub header_timeout: Duration,
}

/// Why the guard ended the input; shared with the service of the same connection.
#[derive(Clone, Debug, Default)]
pub struct Refusal(Arc<OnceLock<Reason>>);

impl Refusal {
    /// The refusal of the head that stands in for the present request, if it is one.
    ///
    /// The harmless head is the only one whose `Host` is `refused` after a refusal was set; any clean head before it keeps
    /// its own.
    pub fn of(&self, parts: &http::request::Parts) -> Option<Reason> {
        let reason = *self.0.get()?;
        let stands_in = parts
            .headers
            .get(http::header::HOST)
            .is_some_and(|host| host == "refused")
            && parts.headers.len() == 2;
        // A broken body has a clean head, and nothing stands in for it: whoever reads the body sees it end early. The head
        // of an earlier request may still be waiting, and is not to blame.
        (stands_in && reason != Reason::BodyMalformed).then_some(reason)
    }

    /// The input ended inside a body, not in a head.
    pub(super) fn is_of_body(&self) -> bool {
        self.0.get() == Some(&Reason::BodyMalformed)
    }
}

enum State {
    /// Between messages, or in a head of which `held` keeps what came so far.
    Head,
    Body {
        left: u64,
    },
    Chunks(Chunks),
    /// The head that hyper gets instead, and how much of it was handed over; then the end of the input.
    Refused {
        given: usize,
    },
}

/// Where in a chunked body the stream stands (RFC 9112 §7.1).
struct Chunks {
    line: Vec<u8>,
    place: Place,
}

enum Place {
    Size,
    Data { left: u64 },
    DataEnd { cr: bool },
    Trailer { bytes: usize },
}

/// A chunk-size line with its extensions; hyper allows 16 KiB of extensions in all, no sane caller sends any.
const MAX_CHUNK_LINE: usize = 256;
const MAX_TRAILER: usize = 8 * 1024;

pub struct Guard<IO> {
    io: IO,
    bounds: Bounds,
    state: State,
    /// The beginning of a head that came in pieces.
    held: Vec<u8>,
    /// A whole clean head (and what followed it) that did not fit the reader's buffer.
    out: Vec<u8>,
    out_given: usize,
    deadline: Option<Pin<Box<Sleep>>>,
    accepted: Instant,
    first: bool,
    refusal: Refusal,
    lingered: usize,
    linger: Option<Pin<Box<Sleep>>>,
}

impl<IO> Guard<IO> {
    /// The time for the first head counts from `accepted`.
    pub fn new(io: IO, bounds: Bounds, refusal: Refusal, accepted: Instant) -> Self {
        Self {
            io,
            bounds,
            state: State::Head,
            held: Vec::new(),
            out: Vec::new(),
            out_given: 0,
            deadline: None,
            accepted,
            first: true,
            refusal,
            lingered: 0,
            linger: None,
        }
    }

    fn refuse(&mut self, reason: Reason) {
        // Set once: the input ends with the first refusal.
        let _already = self.refusal.0.set(reason);
        self.held = Vec::new();
        self.deadline = None;
        self.state = State::Refused { given: 0 };
    }

    /// Follows `new` bytes. Returns how many of them hyper may see now; the rest is held or dropped.
    fn follow(&mut self, new: &[u8]) -> usize {
        let mut at = 0;
        while let Some(rest) = new.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.state {
                State::Refused { .. } => return at,
                State::Body { left } => {
                    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= step as u64;
                    at += step;
                    if *left == 0 {
                        self.state = State::Head;
                    }
                }
                State::Chunks(chunks) => match chunks.follow(rest) {
                    Ok((step, done)) => {
                        at += step;
                        if done {
                            self.state = State::Head;
                        }
                    }
                    Err(BrokenChunk) => {
                        // hyper gets what came before; its reader sees the body end early.
                        self.refuse(Reason::BodyMalformed);
                        return at;
                    }
                },
                State::Head => match head_end(&[], rest, self.bounds) {
                    Ok(Some(end)) => match rest.get(..end).map(|head| read_head(head, self.bounds)) {
                        Some(Ok(next)) => {
                            self.first = false;
                            self.state = next;
                            at += end;
                        }
                        Some(Err(reason)) => {
                            self.refuse(reason);
                            return at;
                        }
                        None => return at,
                    },
                    Ok(None) => {
                        self.held.extend_from_slice(rest);
                        return at;
                    }
                    Err(reason) => {
                        self.refuse(reason);
                        return at;
                    }
                },
            }
        }
        at
    }
}

impl<IO: AsyncRead + Unpin> Guard<IO> {
    fn poll_input(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.out_given < self.out.len() {
                let rest = self.out.get(self.out_given..).unwrap_or_default();
                let step = rest.len().min(buf.remaining());
                buf.put_slice(rest.get(..step).unwrap_or_default());
                self.out_given += step;
                if self.out_given == self.out.len() {
                    self.out = Vec::new();
                    self.out_given = 0;
                }
                return Poll::Ready(Ok(()));
            }
            if let State::Refused { given } = &mut self.state {
                if self.refusal.is_of_body() {
                    return Poll::Ready(Ok(()));
                }
                let rest = HARMLESS.get(*given..).unwrap_or_default();
                let step = rest.len().min(buf.remaining());
                buf.put_slice(rest.get(..step).unwrap_or_default());
                *given += step;
                // Not an end of the input: hyper would take that for a caller who left, and drop the answer.
                return if step == 0 { Poll::Pending } else { Poll::Ready(Ok(())) };
            }
            let before = buf.filled().len();
            match Pin::new(&mut self.io).poll_read(cx, buf) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(self.poll_deadline(cx));
                    continue;
                }
            }
            if buf.filled().len() == before {
                // The caller closed. Half a head is nobody's request.
                self.held = Vec::new();
                return Poll::Ready(Ok(()));
            }
            if self.held.is_empty() {
                let new = buf.filled().get(before..).unwrap_or_default();
                // `follow` needs the bytes and the state at once; the read buffer is not ours, so this borrows nothing of self.
                let keep = self.follow(new);
                buf.set_filled(before + keep);
                if !self.held.is_empty() || matches!(self.state, State::Refused { .. }) {
                    if keep > 0 {
                        return Poll::Ready(Ok(()));
                    }
                    continue;
                }
                self.deadline = None;
                return Poll::Ready(Ok(()));
            }
            // A head in pieces: look at the whole of it, from the old end on.
            let new = buf.filled().get(before..).unwrap_or_default().to_vec();
            buf.set_filled(before);
            let mut whole = std::mem::take(&mut self.held);
            let old = whole.len();
            match head_end(&whole, &new, self.bounds) {
                Err(reason) => self.refuse(reason),
                Ok(None) => {
                    whole.extend_from_slice(&new);
                    self.held = whole;
                }
                Ok(Some(_)) => {
                    whole.reserve_exact(new.len());
                    whole.extend_from_slice(&new);
                    let keep = self.follow(&whole);
                    debug_assert!(keep >= old || matches!(self.state, State::Refused { .. }));
                    whole.truncate(keep);
                    self.deadline = None;
                    self.out = whole;
                }
            }
        }
    }

    /// Ready when the head's time is up: the guard has refused, or the silent connection is at its end.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.state, State::Head) || (!self.first && self.held.is_empty()) {
            return Poll::Pending;
        }
        let (accepted, timeout, first) = (self.accepted, self.bounds.header_timeout, self.first);
        let deadline = self.deadline.get_or_insert_with(|| {
            let from = if first { accepted } else { Instant::now() };
            Box::pin(tokio::time::sleep_until(from + timeout))
        });
        ready!(deadline.as_mut().poll(cx));
        self.refuse(Reason::HeaderTimeout);
        Poll::Ready(())
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Guard<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_input(cx, buf)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Closes our side, then reads on for a while when the caller is still sending: closing a socket with unread bytes
    /// resets it, and the caller would lose the answer that says why.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
        if matches!(this.state, State::Head) && this.held.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let linger = this.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        let mut scratch = [0_u8; 8 * 1024];
        while this.lingered < LINGER_BYTES {
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut this.io).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => this.lingered += buf.filled().len(),
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return linger.as_mut().poll(cx).map(Ok),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// Where the head that begins in `held` and goes on in `new` ends, counted in the two together.
///
/// Looks at `new` only, with the last three bytes before it, so that a head in many pieces costs no more than one in one.
fn head_end(held: &[u8], new: &[u8], bounds: Bounds) -> Result<Option<usize>, Reason> {
    let tail_from = held.len().saturating_sub(3);
    let tail = held.get(tail_from..).unwrap_or_default();
    let seam: Vec<u8>;
    let (text, from) = if tail.is_empty() {
        (new, held.len())
    } else {
        seam = [tail, new].concat();
        (seam.as_slice(), tail_from)
    };
    let mut at = 0;
    let mut end = None;
    while let Some(found) = text.get(at..).and_then(|rest| memchr(b'\n', rest)) {
        let feed = at + found;
        let before = |back: usize| feed.checked_sub(back).and_then(|place| text.get(place)).copied();
        // A bare line feed is refused when the head is read; an empty line made of one ends the head all the same.
        if before(1) == Some(b'\n') || (before(1) == Some(b'\r') && before(2) == Some(b'\n')) {
            end = Some(from + feed + 1);
            break;
        }
        at = feed + 1;
    }
    let size = end.unwrap_or(held.len() + new.len());
    if size > bounds.header_bytes {
        // A head whose first line alone is too long has a target that is.
        let first_line = memchr(b'\n', held).or_else(|| memchr(b'\n', new).map(|at| held.len() + at));
        return Err(match first_line {
            Some(line) if line <= bounds.target_bytes + 32 => Reason::HeaderTooLarge,
            _ => Reason::TargetTooLong,
        });
    }
    Ok(end)
}

/// Checks one whole head and tells how its message is framed.
fn read_head(head: &[u8], bounds: Bounds) -> Result<State, Reason> {
    let mut lines = Lines(head);
    // RFC 9112 §2.2 lets a server skip an empty line before a request; there is no reason to.
    let request_line = lines.next().ok_or(Reason::BadHead)??;
    let version = read_request_line(request_line, bounds)?;
    let mut fields = 0;
    let mut length: Option<u64> = None;
    let mut chunked = false;
    let mut hosts = 0;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        fields += 1;
        if fields > bounds.header_fields {
            return Err(Reason::HeaderTooLarge);
        }
        let colon = memchr(b':', line).ok_or(Reason::BadHead)?;
        let (name, value) = line.split_at(colon);
        // No space before the colon, no continuation line, no empty name (RFC 9112 §5.1, §5.2).
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return Err(Reason::BadHead);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        // Without a branch inside, so that the compiler makes vector instructions of it.
        let forbidden = |byte: u8| ((byte < 0x20) & (byte != b'\t')) | (byte == 0x7f);
        if value.iter().fold(false, |found, byte| found | forbidden(*byte)) {
            return Err(Reason::BadHead);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            if length.is_some() {
                return Err(Reason::BadHead);
            }
            length = Some(read_length(value)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") || version == Version::Http10 {
                return Err(Reason::BadHead);
            }
            chunked = true;
        } else if name.eq_ignore_ascii_case(b"host") {
            hosts += 1;
        }
    }
    if hosts != 1 || (chunked && length.is_some()) {
        return Err(Reason::BadHead);
    }
    Ok(match (chunked, length) {
        (true, _) => State::Chunks(Chunks {
            line: Vec::new(),
            place: Place::Size,
        }),
        (false, None | Some(0)) => State::Head,
        (false, Some(left)) => State::Body { left },
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

fn read_request_line(line: &[u8], bounds: Bounds) -> Result<Version, Reason> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Reason::BadHead);
    };
    if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
        return Err(Reason::BadHead);
    }
    if target.len() > bounds.target_bytes {
        return Err(Reason::TargetTooLong);
    }
    // No fragment (RFC 9112 §3.2 has none), nothing outside visible ASCII.
    if target.is_empty() || !target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
        return Err(Reason::BadHead);
    }
    match version {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        _ => Err(Reason::BadHead),
    }
}

/// Digits only: no sign, no list, no space inside (RFC 9112 §6.2).
fn read_length(value: &[u8]) -> Result<u64, Reason> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Reason::BadHead);
    }
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Reason::BadHead)
}

/// The lines of a head without their ends; a bare line feed or carriage return is an error.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], Reason>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let feed = memchr(b'\n', self.0)?;
        let (line, rest) = self.0.split_at(feed);
        self.0 = rest.get(1..).unwrap_or_default();
        Some(match line.split_last() {
            Some((b'\r', line)) if memchr(b'\r', line).is_none() => Ok(line),
            _ => Err(Reason::BadHead),
        })
    }
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    TOKEN.get(usize::from(byte)).is_some_and(|token| *token)
}

/// A look-up, because every byte of every field name is asked.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let character = byte as u8;
        #[expect(clippy::indexing_slicing, reason = "below 256; evaluated by the compiler")]
        {
            table[byte] = character.is_ascii_alphanumeric()
                || matches!(
                    character,
                    b'!' | b'#'
                        | b'$'
                        | b'%'
                        | b'&'
                        | b'\''
                        | b'*'
                        | b'+'
                        | b'-'
                        | b'.'
                        | b'^'
                        | b'_'
                        | b'`'
                        | b'|'
                        | b'~'
                );
        }
        byte += 1;
    }
    table
};

struct BrokenChunk;

impl Chunks {
    /// Returns how many bytes belong to this body and whether it ended with them.
    fn follow(&mut self, bytes: &[u8]) -> Result<(usize, bool), BrokenChunk> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.place {
                Place::Data { left } => {
                    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= step as u64;
                    at += step;
                    if *left == 0 {
                        self.place = Place::DataEnd { cr: false };
                    }
                }
                Place::DataEnd { cr } => {
                    match (*cr, rest.first()) {
                        (false, Some(b'\r')) => *cr = true,
                        (true, Some(b'\n')) => self.place = Place::Size,
                        _ => return Err(BrokenChunk),
                    }
                    at += 1;
                }
                Place::Size => {
                    let Some(step) = self.take_line(rest, MAX_CHUNK_LINE)? else {
                        return Ok((bytes.len(), false));
                    };
                    at += step;
                    let size = read_chunk_size(&self.line)?;
                    self.line = Vec::new();
                    self.place = if size == 0 {
                        Place::Trailer { bytes: 0 }
                    } else {
                        Place::Data { left: size }
                    };
                }
                Place::Trailer { bytes: seen } => {
                    let seen = *seen;
                    let Some(step) = self.take_line(rest, MAX_TRAILER - seen)? else {
                        return Ok((bytes.len(), false));
                    };
                    at += step;
                    let last = self.line.is_empty();
                    let seen = seen + self.line.len() + 2;
                    self.line = Vec::new();
                    if last {
                        return Ok((at, true));
                    }
                    if seen >= MAX_TRAILER {
                        return Err(BrokenChunk);
                    }
                    self.place = Place::Trailer { bytes: seen };
                }
            }
        }
        Ok((at, false))
    }

    /// Collects a line into `self.line` without its CRLF; `None` when it has not ended yet.
    fn take_line(&mut self, bytes: &[u8], most: usize) -> Result<Option<usize>, BrokenChunk> {
        let feed = memchr(b'\n', bytes);
        let part = bytes.get(..feed.unwrap_or(bytes.len())).unwrap_or_default();
        if self.line.len() + part.len() > most {
            return Err(BrokenChunk);
        }
        self.line.extend_from_slice(part);
        let Some(feed) = feed else { return Ok(None) };
        if self.line.pop() != Some(b'\r') || memchr(b'\r', &self.line).is_some() {
            return Err(BrokenChunk);
        }
        Ok(Some(feed + 1))
    }
}

fn read_chunk_size(line: &[u8]) -> Result<u64, BrokenChunk> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(BrokenChunk);
    }
    let text = std::str::from_utf8(digits).map_err(|_| BrokenChunk)?;
    u64::from_str_radix(text, 16).map_err(|_| BrokenChunk)
}
