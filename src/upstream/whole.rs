//! Whole answers, read to their end. Over gRPC that is one message and a status behind it, or a status alone, which stands in
//! the trailers, or in a head that ends the answer. In any other head it says nothing.

use bytes::Bytes;
use futures_util::TryFutureExt as _;
use futures_util::future::Either;
use http::response;

use super::{Body, Error as Failed, Upstream};
use crate::a2a::answer::{End, Whole};
use crate::a2a::grpc::{FrameError, PREFIX_BYTES, Status, only_message};
use crate::a2a::{Binding, Dialect};
use crate::balance::Endpoint;
use crate::http::{body, grpc};

/// Why an answer over gRPC is none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it ends without one readable `grpc-status`")]
    NoStatus,
    #[error("its body is not one message")]
    Frame(#[source] FrameError),
}

/// What a head says of the answer that follows.
pub enum Head {
    Http(u16),
    /// Of an answer that goes on: its status stands behind it.
    Grpc,
    /// There is nothing more, and this is its status.
    Ended(Option<Status>),
}

impl Head {
    /// Takes what is gRPC's own out of a head: who gets the answer is told anew.
    pub fn of(parts: &mut response::Parts, body: &Body, speaks: Dialect) -> Self {
        match speaks.binding {
            Binding::Grpc => {
                let status = grpc::take_status(&mut parts.headers);
                if body.has_ended() {
                    Self::Ended(status)
                } else {
                    Self::Grpc
                }
            }
            Binding::JsonRpc | Binding::HttpJson => Self::Http(parts.status.as_u16()),
        }
    }
}

impl Upstream {
    /// Reads an answer that is not a stream, to its end.
    pub fn whole<'a>(
        &self,
        head: Head,
        mut body: Body,
        endpoint: &'a Endpoint,
    ) -> impl Future<Output = Result<Whole, Failed>> + use<'a> {
        body.in_large_pieces();
        let mut bounds = self.answer;
        let failed = |source| Failed::Body {
            endpoint: endpoint.url.clone(),
            source,
        };
        match head {
            Head::Http(status) => Either::Left(
                body::read_whole(body, bounds)
                    .map_ok(move |bytes| Whole::http(status, bytes))
                    .map_err(failed),
            ),
            Head::Grpc | Head::Ended(_) => {
                bounds.bytes = bounds.bytes.saturating_add(PREFIX_BYTES);
                Either::Right(Box::pin(async move {
                    let (bytes, trailers) = body::read_with_trailers(body, bounds).await.map_err(failed)?;
                    let status = match head {
                        Head::Ended(status) => status,
                        Head::Grpc | Head::Http(_) => {
                            trailers.and_then(|mut trailers| grpc::take_status(&mut trailers))
                        }
                    };
                    one(bytes, status).map_err(|error| Failed::Broken {
                        endpoint: endpoint.url.clone(),
                        source: error.into(),
                    })
                }))
            }
        }
    }
}

/// The answer that this body and this status are together. A message before an error says nothing.
fn one(body: Bytes, status: Option<Status>) -> Result<Whole, Error> {
    let status = status.ok_or(Error::NoStatus)?;
    let body = match status.code {
        0 => only_message(body, usize::MAX).map_err(Error::Frame)?,
        _ => Bytes::new(),
    };
    Ok(Whole {
        body,
        end: End::Grpc(status),
    })
}
