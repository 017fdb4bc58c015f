//! The body of an answer, with everything that lasts until its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::grpc;
use super::stream::EventStream;
use crate::config::Direction;
use crate::observe::{Outcome, Reason, Record};
use crate::ratelimit::Slot;

/// Why an answer ends without its end; hyper then resets the stream or cuts the connection, which callers can tell from
/// success.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the stream broke off")]
pub struct Broken;

/// What is released, counted and logged when the last byte left or the caller did.
pub struct Held {
    pub record: Box<Record>,
    /// Gives its places in the concurrency limits back when dropped.
    pub slot: Option<Slot>,
}

/// A whole answer goes on in pieces of this size, so that what is held lasts until most of it really left: a caller that
/// asks much and reads slowly must not get its place in the concurrency limits back at once.
const PIECE: usize = 64 * 1024;

pub struct Body {
    kind: Kind,
    held: Option<Held>,
}

enum Kind {
    Whole {
        bytes: Bytes,
        /// It goes on in pieces.
        large: bool,
        outcome: Outcome,
        trailers: Option<Box<HeaderMap>>,
    },
    Stream {
        stream: Box<EventStream>,
        /// The caller takes no more after it (`grpc-timeout`).
        deadline: Option<Pin<Box<Sleep>>>,
    },
}

impl Held {
    /// Counts what goes to the caller.
    pub fn leaves(&mut self, bytes: usize) {
        self.record.bytes_out += bytes as u64;
        if let Some(slot) = &self.slot {
            slot.charge(Direction::Out, bytes);
        }
    }
}

impl Body {
    /// `outcome` is what the record says once the bytes were taken.
    pub fn whole(bytes: Bytes, outcome: Outcome, held: Held) -> Self {
        let mut body = Self {
            kind: Kind::Whole {
                large: bytes.len() > PIECE,
                bytes,
                outcome,
                trailers: None,
            },
            held: Some(held),
        };
        if body.is_empty() {
            body.finish(outcome);
        }
        body
    }

    pub fn with_trailers(bytes: Bytes, outcome: Outcome, trailers: HeaderMap, held: Held) -> Self {
        Self {
            kind: Kind::Whole {
                large: bytes.len() > PIECE,
                bytes,
                outcome,
                trailers: Some(Box::new(trailers)),
            },
            held: Some(held),
        }
    }

    pub fn stream(stream: Box<EventStream>, mut held: Held, deadline: Option<Instant>) -> Self {
        held.record.opens_stream();
        Self {
            kind: Kind::Stream {
                stream,
                deadline: deadline.map(|at| Box::pin(tokio::time::sleep_until(at))),
            },
            held: Some(held),
        }
    }

    fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Whole { bytes, trailers, .. } => bytes.is_empty() && trailers.is_none(),
            Kind::Stream { .. } => false,
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        if let Some(mut held) = self.held.take() {
            held.record.outcome = outcome;
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        match &mut this.kind {
            Kind::Whole {
                bytes,
                large,
                outcome,
                trailers,
            } => {
                if bytes.is_empty() {
                    let trailers = trailers.take();
                    return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(*trailers))));
                }
                let mut piece = bytes.split_to(bytes.len().min(PIECE));
                let last = bytes.is_empty().then_some(*outcome);
                if *large && last.is_some() {
                    // The last piece may wait for its caller; the whole answer need not wait with it.
                    piece = Bytes::copy_from_slice(&piece);
                }
                if let Some(held) = &mut this.held {
                    held.leaves(piece.len());
                }
                if let Some(outcome) = last {
                    this.finish(outcome);
                }
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Kind::Stream { stream, deadline } => {
                let Some(held) = &mut this.held else {
                    return Poll::Ready(None);
                };
                // First: a stream that always has more would never come to it.
                let late = (deadline.as_mut()).is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready());
                let next = if late {
                    Some(Err(Outcome::Rejected(Reason::DeadlineExceeded)))
                } else {
                    ready!(stream.poll_chunk(cx, &mut held.record))
                };
                // Over gRPC every end is told, and told apart, in the trailers.
                let trailers = match &next {
                    Some(Ok(_)) => None,
                    Some(Err(outcome)) => stream.is_grpc().then(|| grpc::trailers(&grpc::broken(*outcome))),
                    None => stream.status().map(|status| grpc::trailers(&status)),
                };
                if let Some(trailers) = trailers {
                    let outcome = match next {
                        Some(Err(outcome)) => outcome,
                        Some(Ok(_)) | None => stream.outcome(),
                    };
                    this.finish(outcome);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                match next {
                    Some(Ok(chunk)) => {
                        held.leaves(chunk.len());
                        Poll::Ready(Some(Ok(Frame::data(chunk))))
                    }
                    Some(Err(outcome)) => {
                        this.finish(outcome);
                        Poll::Ready(Some(Err(Broken)))
                    }
                    None => {
                        let outcome = stream.outcome();
                        this.finish(outcome);
                        Poll::Ready(None)
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole {
                bytes, trailers: None, ..
            } => SizeHint::with_exact(bytes.len() as u64),
            Kind::Whole { .. } | Kind::Stream { .. } => SizeHint::default(),
        }
    }
}
