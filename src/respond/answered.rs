//! An answer of an agent that goes on, from its head to the body that the caller gets.

use bytes::Bytes;
use http::{HeaderValue, Response, header, response};

use tokio::time::Instant;

use super::body::{Body, Held};
use super::stream::EventStream;
use super::{answer, grpc};
use crate::a2a::answer::{End, Whole};
use crate::a2a::grpc::{FrameError, Status, frame};
use crate::http::hygiene;
use crate::observe::Outcome;

pub struct Answered {
    pub parts: response::Parts,
    pub content: Content,
    /// So many endpoints are left out of a list.
    pub left_out: usize,
    /// Of a whole answer over gRPC.
    pub status: Option<Status>,
}

pub enum Content {
    Whole(Bytes, Outcome),
    Stream(Box<EventStream>),
}

impl Answered {
    /// Of several endpoints: none of their heads goes on.
    pub fn gathered(bytes: Bytes, outcome: Outcome, left_out: usize) -> Self {
        let (mut parts, ()) = Response::new(()).into_parts();
        let json = HeaderValue::from_static("application/json");
        parts.headers.insert(header::CONTENT_TYPE, json);
        Self {
            left_out,
            ..Self::whole(parts, bytes, outcome)
        }
    }

    pub fn whole(parts: response::Parts, bytes: Bytes, outcome: Outcome) -> Self {
        Self {
            parts,
            content: Content::Whole(bytes, outcome),
            left_out: 0,
            status: None,
        }
    }

    /// As the agent, which speaks the caller's dialect, told it.
    pub fn untouched(mut parts: response::Parts, whole: Whole, outcome: Outcome) -> Result<Self, FrameError> {
        let status = match whole.end {
            End::Http(_) => return Ok(Self::whole(parts, whole.body, outcome)),
            End::Grpc(status) => status,
        };
        parts.headers.insert(header::CONTENT_TYPE, grpc::MEDIA_TYPE);
        let message = match status.code {
            0 => frame(&whole.body)?,
            _ => Bytes::new(),
        };
        Ok(Self {
            status: Some(status),
            ..Self::whole(parts, message, outcome)
        })
    }

    /// `deadline` is the caller's, for a stream.
    pub fn into_response(self, mut held: Held, deadline: Option<Instant>) -> Response<Body> {
        let streams = matches!(self.content, Content::Stream(_));
        let (status, mut headers) = answer::head(self.parts, streams);
        held.record.status = status.as_u16();
        let request_id = held.record.id.header();
        if self.left_out > 0 {
            headers.insert(hygiene::A2A_GATEWAY_PARTIAL, self.left_out.into());
        }
        let body = match (self.content, self.status) {
            (Content::Whole(bytes, outcome), None) => Body::whole(bytes, outcome, held),
            (Content::Whole(bytes, outcome), Some(status)) if bytes.is_empty() => {
                grpc::head(&status, &mut headers);
                Body::whole(bytes, outcome, held)
            }
            (Content::Whole(bytes, outcome), Some(status)) => {
                Body::with_trailers(bytes, outcome, grpc::trailers(&status), held)
            }
            (Content::Stream(stream), _) => Body::stream(stream, held, deadline),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.headers_mut().insert(hygiene::X_REQUEST_ID, request_id);
        response
    }
}
