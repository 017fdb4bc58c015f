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
//! Nothing of a next head, nor the harmless one, is handed over before the present answer has ended: with unread input in
//! hand hyper does not look whether the caller is still there, and the answer may be a stream that never ends. The guard
//! keeps what comes meanwhile, goes on to look for the end of the input, and tells hyper of it at once. It keeps
//! `header_bytes`; past that it stops reading until the answer has ended, and ends the connection if the answer is a stream.
//!
//! In the usual case, a whole head in one read, nothing is copied.

mod chunks;
mod head;

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use prometheus::IntCounter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use self::chunks::{BrokenChunk, Chunks};
use self::head::{Framing, head_end, read_head};
use super::activity::Activity;
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

/// What became of reading ahead.
enum Ahead {
    /// There is something to look at.
    Goes,
    /// The caller closed.
    Ended,
}

/// Why the guard ended the input, and whether more of the present request is to come; shared with the service of the same
/// connection.
#[derive(Clone, Debug, Default)]
pub struct Refusal(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    reason: OnceLock<Reason>,
    in_body: AtomicBool,
}

impl Refusal {
    /// The refusal of the head that stands in for the present request, if it is one.
    ///
    /// The harmless head is the only one whose `Host` is `refused` after a refusal was set; any clean head before it keeps
    /// its own.
    pub fn of(&self, parts: &http::request::Parts) -> Option<Reason> {
        let reason = *self.0.reason.get()?;
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
        self.0.reason.get() == Some(&Reason::BodyMalformed)
    }

    /// Not all of the present request's body has come. hyper closes the connection behind an answer that does not wait for
    /// it, so that the answer has to say so (RFC 9112 §9.6). Never over HTTP/2, which has no guard.
    pub fn is_in_body(&self) -> bool {
        self.0.in_body.load(Ordering::Acquire)
    }

    fn set_in_body(&self, in_body: bool) {
        self.0.in_body.store(in_body, Ordering::Release);
    }
}

enum State {
    /// Between messages, or in a head.
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

/// What came with pipelined requests while a stream was under way, and was more than the guard keeps.
#[derive(Debug, thiserror::Error)]
#[error("too much was pipelined behind a stream")]
struct Pipelined;

pub struct Guard<IO> {
    io: IO,
    bounds: Bounds,
    state: State,
    /// What hyper may not see yet; begins where a head does.
    held: BytesMut,
    /// How much of `held` is known not to hold the end of its head.
    searched: usize,
    /// A whole clean head and what came of its body, when they could not stay in the reader's buffer.
    out: Bytes,
    activity: Activity,
    /// Counts connections that were ended for what they pipelined.
    pipelined: IntCounter,
    deadline: Option<Pin<Box<Sleep>>>,
    accepted: Instant,
    first: bool,
    refusal: Refusal,
    lingered: usize,
    linger: Option<Pin<Box<Sleep>>>,
}

impl<IO> Guard<IO> {
    /// The time for the first head counts from `accepted`.
    pub fn new(
        io: IO,
        bounds: Bounds,
        refusal: Refusal,
        accepted: Instant,
        activity: Activity,
        pipelined: IntCounter,
    ) -> Self {
        Self {
            io,
            bounds,
            state: State::Head,
            held: BytesMut::new(),
            searched: 0,
            out: Bytes::new(),
            activity,
            pipelined,
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
        let _already = self.refusal.0.reason.set(reason);
        self.held = BytesMut::new();
        self.deadline = None;
        self.state = State::Refused { given: 0 };
    }

    fn is_refused(&self) -> bool {
        matches!(self.state, State::Refused { .. })
    }

    /// Follows `new` bytes to the end of the message that they belong to or begin. Returns how many of them hyper may see
    /// now. None, without a refusal: they hold no whole head yet.
    fn follow(&mut self, new: &[u8]) -> usize {
        let mut at = 0;
        if matches!(self.state, State::Head) {
            match read_head(new, self.bounds) {
                Ok(Some((end, framing))) => {
                    self.first = false;
                    self.deadline = None;
                    self.activity.hands_over();
                    at = end;
                    self.state = match framing {
                        Framing::None => return at,
                        Framing::Length(left) => State::Body { left },
                        Framing::Chunked => State::Chunks(Chunks::new()),
                    };
                }
                Ok(None) => {}
                // Judged when the whole of it is there, as a head in pieces is.
                Err(reason) => match head_end(&[], new, self.bounds) {
                    Ok(None) => {}
                    Ok(Some(_)) => self.refuse(reason),
                    Err(reason) => self.refuse(reason),
                },
            }
        }
        let rest = new.get(at..).unwrap_or_default();
        match &mut self.state {
            State::Head | State::Refused { .. } => return at,
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
                // hyper gets what came before; its reader sees the body end early.
                Err(BrokenChunk) => self.refuse(Reason::BodyMalformed),
            },
        }
        self.refusal.set_in_body(!matches!(self.state, State::Head));
        at
    }

    /// Looks at what was held, once it is its turn.
    fn follow_held(&mut self) {
        let (old, new) = self.held.split_at(self.searched);
        match head_end(old, new, self.bounds) {
            Err(reason) => self.refuse(reason),
            Ok(None) => self.searched = self.held.len(),
            Ok(Some(_)) => {
                let mut held = std::mem::take(&mut self.held);
                self.searched = 0;
                let pass = self.follow(&held);
                self.out = held.split_to(pass).freeze();
                if !self.is_refused() {
                    self.held = held;
                }
            }
        }
    }
}

impl<IO: AsyncRead + Unpin> Guard<IO> {
    fn poll_input(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.out.is_empty() {
                let step = self.out.len().min(buf.remaining());
                buf.put_slice(self.out.get(..step).unwrap_or_default());
                self.out.advance(step);
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
            if matches!(self.state, State::Head) && self.activity.is_answering() {
                match ready!(self.poll_ahead(cx, buf)) {
                    Ok(Ahead::Goes) => continue,
                    Ok(Ahead::Ended) => return Poll::Ready(Ok(())),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if self.searched < self.held.len() {
                self.follow_held();
                continue;
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
            let new = buf.filled().get(before..).unwrap_or_default();
            if new.is_empty() {
                // The caller closed. Half a head is nobody's request.
                self.held = BytesMut::new();
                return Poll::Ready(Ok(()));
            }
            if !self.held.is_empty() {
                // A head in pieces: look at the whole of it, from the old end on.
                self.held.extend_from_slice(new);
                buf.set_filled(before);
                continue;
            }
            let pass = self.follow(new);
            let rest = new.get(pass..).unwrap_or_default();
            if !rest.is_empty() && !self.is_refused() {
                self.held.extend_from_slice(rest);
                self.searched = if pass == 0 { rest.len() } else { 0 };
            }
            buf.set_filled(before + pass);
            if pass > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads on while an answer is under way, into `held` only: `buf` is lent.
    fn poll_ahead(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<Ahead>> {
        let room = (self.bounds.header_bytes + 1).saturating_sub(self.held.len());
        if room > 0 {
            let mut lent = buf.take(room);
            match Pin::new(&mut self.io).poll_read(cx, &mut lent) {
                Poll::Ready(Ok(())) if lent.filled().is_empty() => {
                    self.held = BytesMut::new();
                    return Poll::Ready(Ok(Ahead::Ended));
                }
                Poll::Ready(Ok(())) => {
                    self.held.extend_from_slice(lent.filled());
                    return Poll::Ready(Ok(Ahead::Goes));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // hyper asks again when something comes.
                Poll::Pending if self.held.is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        // Once it has an answer out hyper waits for what the socket brings, but the next head is here already.
        self.activity.wake(cx.waker());
        if !self.activity.is_answering() {
            return Poll::Ready(Ok(Ahead::Goes));
        }
        if room == 0 && self.activity.is_streaming() {
            self.pipelined.inc();
            return Poll::Ready(Err(io::Error::other(Pipelined)));
        }
        Poll::Pending
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
