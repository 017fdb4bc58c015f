//! An answer of an agent that goes on, from its head to the body that the caller gets.

use bytes::Bytes;
use http::{HeaderValue, Response, header, response};

use super::answer;
use super::body::{Body, Held};
use super::stream::EventStream;
use crate::http::hygiene;
use crate::observe::Outcome;

pub struct Answered {
    pub parts: response::Parts,
    pub content: Content,
}

pub enum Content {
    Whole(Bytes, Outcome),
    Stream(Box<EventStream>),
    /// Made of several endpoints' answers. So many endpoints are left out.
    Gathered(Bytes, Outcome, usize),
}

impl Answered {
    /// Of several endpoints: none of their heads goes on.
    pub fn gathered(bytes: Bytes, outcome: Outcome, left_out: usize) -> Self {
        let (parts, ()) = Response::new(()).into_parts();
        Self {
            parts,
            content: Content::Gathered(bytes, outcome, left_out),
        }
    }

    pub fn into_response(self, mut held: Held) -> Response<Body> {
        let streams = matches!(self.content, Content::Stream(_));
        let (status, mut headers) = answer::head(self.parts, streams);
        held.record.status = status.as_u16();
        let request_id = held.record.id.header();
        let body = match self.content {
            Content::Whole(bytes, outcome) => Body::whole(bytes, outcome, held),
            Content::Stream(stream) => Body::stream(stream, held),
            Content::Gathered(bytes, outcome, left_out) => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                if left_out > 0 {
                    headers.insert(hygiene::A2A_GATEWAY_PARTIAL, left_out.into());
                }
                Body::whole(bytes, outcome, held)
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.headers_mut().insert(hygiene::X_REQUEST_ID, request_id);
        response
    }
}
