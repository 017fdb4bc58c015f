//! How answers end over gRPC (gRPC over HTTP/2, "Responses"): the status of HTTP is 200, and how a call went is said in the
//! trailers, or in the head where there is no body.
//!
//! Whatever breaks a stream is said there too: callers of gRPC take a reset for a fault of the network between.

use http::header::{self, HeaderMap, HeaderValue};

use crate::a2a::grpc::{self, Status};
use crate::http::grpc::{ACCEPT_ENCODING, MESSAGE, STATUS, STATUS_DETAILS};
use crate::http::hygiene;
use crate::observe::{Outcome, Reason};

use super::reject;

pub use crate::http::grpc::MEDIA_TYPE;

/// Most bytes of a message or of details in a field: callers bound all trailers together, usually by 8 KiB.
const MOST_TEXT: usize = 1024;
const MOST_DETAILS: usize = 4 * 1024;

pub fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(3);
    put(&mut trailers, status);
    trailers
}

/// An answer that is nothing but its status.
pub fn head(status: &Status, headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    put(headers, status);
}

fn put(headers: &mut HeaderMap, status: &Status) {
    headers.insert(STATUS, HeaderValue::from(status.code));
    if !status.message.is_empty() {
        let end = status.message.floor_char_boundary(MOST_TEXT);
        let text = status.message.get(..end).unwrap_or_default();
        headers.insert(MESSAGE, hygiene::value(&grpc::encode_message(text)));
    }
    if let Some(details) = status.details.as_ref().filter(|details| details.len() <= MOST_DETAILS) {
        headers.insert(STATUS_DETAILS, hygiene::value(&grpc::encode_details(details)));
    }
}

/// What a stream ends with that ends before its end.
pub fn broken(outcome: Outcome) -> Status {
    let (reason, message) = match outcome {
        Outcome::Rejected(reason) => (reason, reject::text(reason)),
        Outcome::Revoked => (Reason::Forbidden, "The stream is not permitted any more"),
        Outcome::Drained => (Reason::AgentNotReady, "The gateway is shutting down"),
        Outcome::Ok
        | Outcome::AgentError
        | Outcome::Served
        | Outcome::Delivered
        | Outcome::DownstreamGone
        | Outcome::StreamBroken => (Reason::UpstreamClosed, "The agent's stream broke off"),
    };
    Status {
        code: code(reason),
        message: message.to_owned(),
        details: None,
    }
}

/// The code of a reason that is none of the protocol's errors.
pub fn code(reason: Reason) -> u32 {
    match reject::status(reason).as_u16() {
        401 => 16,
        403 => 7,
        // Of a method and of an agent alike: nothing is served there.
        404 | 405 | 415 => 12,
        413 | 429 => 8,
        400 | 414 | 431 => 3,
        502 | 503 => 14,
        408 | 504 => 4,
        409 => 10,
        _ => 13,
    }
}
