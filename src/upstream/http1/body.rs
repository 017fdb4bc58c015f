//! The body of an answer, up to its end and not a byte further.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::poll_read_buf;

use super::chunks::Chunks;
use super::encode::Outbound;
use super::head::Framing;
use super::{Connection, Error, READ};

/// How much is taken at once on the word of an announced length; past it, memory grows with the bytes that really come.
const AHEAD: usize = 256 * 1024;

pub struct Body<T> {
    connection: Connection<T>,
    place: Place,
    /// The connection may serve another exchange once this one has ended.
    persists: bool,
    /// Data comes in pieces as large as possible.
    whole: bool,
    /// What came of such a piece.
    gathered: BytesMut,
    /// What the agent has not taken of the request, though it has begun to answer.
    outbound: Option<Box<Outbound>>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Length(u64),
    Chunks(Chunks),
    Close,
    End,
    Broken,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Body<T> {
    pub(super) fn new(connection: Connection<T>, framing: Framing, persists: bool, outbound: Option<Outbound>) -> Self {
        Self {
            connection,
            place: match framing {
                Framing::Length(0) => Place::End,
                Framing::Length(length) => Place::Length(length),
                Framing::Chunked => Place::Chunks(Chunks::START),
                Framing::Close => Place::Close,
            },
            persists,
            whole: false,
            gathered: BytesMut::new(),
            outbound: outbound.map(Box::new),
        }
    }

    /// From here on, data of an announced length comes in one piece where it can. An empty piece says that some came.
    pub fn in_one_piece(&mut self) {
        self.whole = true;
    }

    /// The end was seen, and all data was given.
    pub fn has_ended(&self) -> bool {
        matches!(self.place, Place::End)
    }

    /// How many bytes are to come, where that is known.
    pub fn left(&self) -> Option<u64> {
        match self.place {
            Place::Length(left) => Some(left),
            Place::End => Some(0),
            Place::Chunks(_) | Place::Close | Place::Broken => None,
        }
    }

    /// The connection, if it can serve another exchange: not before the end.
    pub fn into_connection(self) -> Option<Connection<T>> {
        let clean = self.has_ended() && self.persists && self.outbound.is_none() && self.connection.input.is_empty();
        clean.then_some(self.connection)
    }

    /// The next data; `None` at the end.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(outbound) = &mut self.outbound {
            match outbound.poll_write(&mut self.connection.io, cx) {
                Poll::Ready(Ok(())) => self.outbound = None,
                Poll::Ready(Err(_)) => {
                    // It has answered without.
                    self.outbound = None;
                    self.persists = false;
                }
                Poll::Pending => {}
            }
        }
        let polled = self.poll_place(cx);
        if let Poll::Ready(Some(Err(_))) = polled {
            self.place = Place::Broken;
        }
        polled
    }

    fn poll_place(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.whole
            && let Place::Length(left) = self.place
        {
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            if self.connection.input.len() < left {
                return self.poll_gathered(cx, left);
            }
        }
        loop {
            let input = &mut self.connection.input;
            match &mut self.place {
                Place::End => return Poll::Ready(None),
                Place::Broken => return Poll::Ready(Some(Err(Error::Ended))),
                Place::Length(left) if !input.is_empty() => {
                    let size = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                    *left -= size as u64;
                    if *left == 0 {
                        self.place = Place::End;
                    }
                    return Poll::Ready(Some(Ok(take(input, size))));
                }
                Place::Chunks(chunks) if !input.is_empty() => {
                    let data = chunks.next(input)?;
                    if matches!(chunks, Chunks::End) {
                        self.place = Place::End;
                    }
                    if input.is_empty() {
                        *input = Bytes::new();
                    }
                    if let Some(data) = data {
                        return Poll::Ready(Some(Ok(data)));
                    }
                    continue;
                }
                Place::Close if !input.is_empty() => return Poll::Ready(Some(Ok(std::mem::take(input)))),
                Place::Length(_) | Place::Chunks(_) | Place::Close => {}
            }
            match ready!(self.connection.poll_fill(cx)) {
                Ok(0) if matches!(self.place, Place::Close) => self.place = Place::End,
                Ok(0) => return Poll::Ready(Some(Err(Error::Ended))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(Error::Read(error)))),
            }
        }
    }

    /// Reads to where the data is to lie. `left` is what is to come with what was gathered.
    fn poll_gathered(&mut self, cx: &mut Context<'_>, left: usize) -> Poll<Option<Result<Bytes, Error>>> {
        let piece = left.min(AHEAD);
        if self.gathered.capacity() == 0 {
            // One more than there is to read: a read that does not fill its space has seen that nothing is behind it.
            self.gathered = BytesMut::with_capacity(piece + 1);
            let input = std::mem::take(&mut self.connection.input);
            let (first, rest) = input.split_at(input.len().min(piece));
            self.gathered.extend_from_slice(first);
            self.connection.input = Bytes::copy_from_slice(rest);
        }
        let before = self.gathered.len();
        while self.gathered.len() < piece {
            match poll_read_buf(Pin::new(&mut self.connection.io), cx, &mut self.gathered) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Some(Err(Error::Ended))),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(Error::Read(error)))),
                Poll::Pending if self.gathered.len() > before => return Poll::Ready(Some(Ok(Bytes::new()))),
                Poll::Pending => return Poll::Pending,
            }
        }
        if piece == left {
            self.connection.expected = left + READ;
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        self.connection.input = gathered.split_off(piece).freeze();
        self.place = if piece == left {
            Place::End
        } else {
            Place::Length((left - piece) as u64)
        };
        Poll::Ready(Some(Ok(gathered.freeze())))
    }
}

/// What is taken whole leaves nothing behind that would keep its memory.
fn take(input: &mut Bytes, size: usize) -> Bytes {
    if size < input.len() {
        let rest = input.split_off(size);
        return std::mem::replace(input, rest);
    }
    std::mem::take(input)
}
