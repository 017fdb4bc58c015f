//! The body of an agent's answer, over whichever HTTP it comes.
//!
//! It holds the connection, and gives it back the moment that its end was seen; dropped before, it closes an HTTP/1.1
//! connection and resets an HTTP/2 stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::connect::Io;
use super::pool::{Home, Share};
use super::{http1, whole};

/// Why an exchange on an open connection, or its answer's body, failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Error {
    Http1(#[from] http1::Error),
    Http2(#[from] hyper::Error),
    Grpc(#[from] whole::Error),
}

impl Error {
    /// The agent answered, with something else than an HTTP answer.
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Http1(error) => error.is_malformed(),
            Self::Http2(error) => error.is_parse() || error.is_parse_too_large(),
            Self::Grpc(_) => true,
        }
    }
}

pub struct Body(Kind);

enum Kind {
    Http1(http1::Body<Io>, Home),
    Http2 {
        body: Incoming,
        _share: Share,
    },
    /// The connection serves others.
    Over,
}

impl Body {
    pub(super) fn http1(body: http1::Body<Io>, home: Home) -> Self {
        let mut body = Self(Kind::Http1(body, home));
        body.give_back();
        body
    }

    pub(super) fn http2(body: Incoming, share: Share) -> Self {
        Self(Kind::Http2 { body, _share: share })
    }

    /// From here on, data comes in pieces as large as possible; an empty one says that some came.
    pub(super) fn in_large_pieces(&mut self) {
        match &mut self.0 {
            Kind::Http1(body, _) => body.in_one_piece(),
            Kind::Http2 { .. } | Kind::Over => {}
        }
    }

    /// There is nothing more, no trailers either.
    pub(super) fn has_ended(&self) -> bool {
        match &self.0 {
            Kind::Http1(body, _) => body.has_ended(),
            Kind::Http2 { body, .. } => body.is_end_stream(),
            Kind::Over => true,
        }
    }

    /// Once it has ended.
    fn give_back(&mut self) {
        if self.has_ended()
            && let Kind::Http1(body, home) = std::mem::replace(&mut self.0, Kind::Over)
            && let Some(connection) = body.into_connection()
        {
            home.take_back(connection);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let polled = match &mut this.0 {
            Kind::Http1(body, _) => ready!(body.poll_data(cx)).map(|data| data.map(Frame::data).map_err(Error::Http1)),
            Kind::Http2 { body, .. } => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Error::Http2)),
            Kind::Over => None,
        };
        match &polled {
            Some(Ok(_)) | None => this.give_back(),
            Some(Err(_)) => {}
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Over)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Http1(body, _) => body.left().map_or_else(SizeHint::default, SizeHint::with_exact),
            Kind::Http2 { body, .. } => body.size_hint(),
            Kind::Over => SizeHint::with_exact(0),
        }
    }
}
