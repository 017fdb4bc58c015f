//! One HTTP/1.1 connection to an agent, as its client: one request at a time, and the answer to it.
//!
//! Whoever makes the call moves its own connection on: no job, no channel, and no buffer while nothing is there to read. What
//! an agent sends is read strictly wherever two readers could take it for two things, because the next exchange on the
//! connection may be somebody else's: a connection is used again only after an answer whose end was seen, with nothing
//! behind it, and only while nothing came unasked.
//!
//! Not here: HTTP/2, upgrades, pipelining, trailers (thrown away), and time: whoever waits knows how long.

mod body;
mod chunks;
mod encode;
mod exchange;
mod head;
#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

pub use body::Body;
use encode::Outbound;
pub use exchange::Exchange;

/// How much is read at once. It is on the stack, and what came is copied to where it fits: a connection that waits for an
/// answer or an event holds no buffer. An answer of the usual size comes with one read.
const READ: usize = 8 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the connection ended")]
    Ended,
    #[error("bytes came that nobody had asked for")]
    Unasked,
    #[error("cannot read")]
    Read(#[source] io::Error),
    #[error("cannot write")]
    Write(#[source] io::Error),
    #[error("malformed head")]
    Head(#[from] head::Error),
    #[error("malformed chunk")]
    Chunk,
}

impl Error {
    /// The agent answered, with something else than an HTTP answer.
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Head(_) | Self::Chunk => true,
            Self::Ended | Self::Unasked | Self::Read(_) | Self::Write(_) => false,
        }
    }
}

/// An open connection on which no exchange is under way.
pub struct Connection<T> {
    io: T,
    /// Read and not taken yet.
    input: Bytes,
    /// How large the last answer was, with its head, if it took more than one read of the usual size: the next is likely to
    /// be so too, and comes with one read then.
    expected: usize,
    /// Nothing had come yet when it was looked for.
    waited: bool,
    header_bytes: usize,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Connection<T> {
    /// `header_bytes` bounds the head of an answer.
    pub fn new(io: T, header_bytes: usize) -> Self {
        Self {
            io,
            input: Bytes::new(),
            expected: 0,
            waited: false,
            header_bytes,
        }
    }

    /// Nothing came since the last exchange, and the agent has not left. What comes unasked would be taken for the answer
    /// to the next request.
    pub fn check_quiet(&mut self) -> Result<(), Error> {
        if !self.input.is_empty() {
            return Err(Error::Unasked);
        }
        let io = &mut self.io;
        let look = poll_fn(|cx| {
            let mut byte = [0];
            let mut read = ReadBuf::new(&mut byte);
            Pin::new(&mut *io)
                .poll_read(cx, &mut read)
                .map_ok(|()| read.filled().len())
        });
        // Unconstrained: a task that has looked at many would be told to wait, as if nothing had come. Nobody waits; the
        // next exchange leaves a waker of its own.
        let look = pin!(tokio::task::unconstrained(look));
        match look.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(0)) => Err(Error::Ended),
            Poll::Ready(Ok(_)) => Err(Error::Unasked),
            Poll::Ready(Err(error)) => Err(Error::Read(error)),
        }
    }

    /// Sends the request and waits for the head of the answer. The target is sent in origin form.
    pub fn send(self, request: Request<Bytes>) -> Exchange<T> {
        Exchange::new(self, Outbound::new(request))
    }

    /// Reads more behind what was read before; 0 is the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.expected > 0 && self.waited && self.input.is_empty() {
            return self.poll_fill_at_once(cx);
        }
        let mut space = [const { MaybeUninit::uninit() }; READ];
        let mut read = ReadBuf::uninit(&mut space);
        let polled = Pin::new(&mut self.io).poll_read(cx, &mut read);
        self.waited = polled.is_pending();
        ready!(polled)?;
        let came = read.filled();
        if self.input.is_empty() {
            self.input = Bytes::copy_from_slice(came);
        } else {
            let mut joined = BytesMut::from(std::mem::take(&mut self.input));
            joined.extend_from_slice(came);
            self.input = joined.freeze();
        }
        Poll::Ready(Ok(came.len()))
    }

    /// Nothing is held while nothing comes: this is for a connection that was woken.
    fn poll_fill_at_once(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = BytesMut::with_capacity(self.expected);
        let count = ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut space))?;
        self.waited = false;
        self.input = if count < self.expected / 2 {
            self.expected = 0;
            Bytes::copy_from_slice(&space)
        } else {
            space.freeze()
        };
        Poll::Ready(Ok(count))
    }
}
