//! From the first byte of a request to the head of its answer.
//!
//! Written and read at once: an agent may answer before it took the whole request, and may wait for its answer to be read.
//! Dropped, it closes the connection.
//!
//! Twice it lets everybody else who is ready go first: before it writes, and when the answer begins to come. So what is ready
//! together leaves together, towards the agent and towards the callers. Whoever it is for is awake from the first on;
//! waking it for each costs more than all the rest of an exchange.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::response;
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::Body;
use super::encode::Outbound;
use super::head::{self, Head};
use super::{Connection, Error};

/// Interim answers (1xx) before the real one; nobody needs more than one or two.
const INTERIM: u8 = 16;

pub struct Exchange<T> {
    turn: Turn,
    /// Until the head is here.
    connection: Option<Connection<T>>,
    /// `None`: written, or the agent does not take it any more.
    outbound: Option<Outbound>,
    unwritten: Option<std::io::Error>,
    /// How many bytes of the input were looked at without finding the end of the head.
    seen: usize,
    interim: u8,
}

enum Turn {
    /// Others go first.
    First,
    /// Nothing of the answer is here.
    Asking,
    Answered,
}

impl<T> Exchange<T> {
    pub(super) fn new(connection: Connection<T>, outbound: Outbound) -> Self {
        Self {
            turn: Turn::First,
            connection: Some(connection),
            outbound: Some(outbound),
            unwritten: None,
            seen: 0,
            interim: 0,
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Future for Exchange<T> {
    type Output = Result<(response::Parts, Body<T>), Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(connection) = &mut this.connection else {
            return Poll::Pending;
        };
        if matches!(this.turn, Turn::First) {
            this.turn = Turn::Asking;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(outbound) = &mut this.outbound {
            match outbound.poll_write(&mut connection.io, cx) {
                Poll::Ready(Ok(())) => this.outbound = None,
                Poll::Ready(Err(error)) => {
                    // It may have answered before it stopped to listen.
                    this.outbound = None;
                    this.unwritten = Some(error);
                }
                Poll::Pending => {}
            }
        }
        loop {
            match head::read(&mut connection.input, &mut this.seen, connection.header_bytes) {
                Ok(Some(Head { parts, .. })) if parts.status.is_informational() => {
                    this.interim += 1;
                    if this.interim > INTERIM {
                        return Poll::Ready(Err(head::Error::Interim.into()));
                    }
                    continue;
                }
                Ok(Some(Head {
                    parts,
                    framing,
                    persists,
                })) => {
                    let Some(connection) = this.connection.take() else {
                        return Poll::Pending;
                    };
                    let persists = persists && this.unwritten.is_none();
                    let body = Body::new(connection, framing, persists, this.outbound.take());
                    return Poll::Ready(Ok((parts, body)));
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            let error = match connection.poll_fill(cx) {
                Poll::Ready(Ok(0)) => Error::Ended,
                Poll::Ready(Ok(_)) if matches!(this.turn, Turn::Asking) => {
                    this.turn = Turn::Answered;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(_)) => continue,
                Poll::Ready(Err(error)) => Error::Read(error),
                Poll::Pending if this.unwritten.is_none() => return Poll::Pending,
                Poll::Pending => Error::Ended,
            };
            return Poll::Ready(Err(this.unwritten.take().map_or(error, Error::Write)));
        }
    }
}
