//! What gRPC says in the heads of requests, and in the heads and trailers of answers (gRPC over HTTP/2).

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, response};

use super::hygiene;
use crate::a2a::grpc::{self, Status};

pub const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub const STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
pub const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// So that whoever sends a coded message learns what is taken.
pub const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
pub const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const MESSAGE_TYPE: HeaderName = HeaderName::from_static("grpc-message-type");

/// Takes out of a request what gRPC says of its messages: the gateway makes them anew, or goes on without.
pub fn drop_request_fields(headers: &mut HeaderMap) {
    for name in [&TIMEOUT, &ENCODING, &ACCEPT_ENCODING, &MESSAGE_TYPE] {
        headers.remove(name);
    }
}

/// The head is of an answer in messages that are not coded.
pub fn is_answer(head: &response::Parts) -> bool {
    let media_type = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_uncoded = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    head.status == StatusCode::OK
        && media_type.is_some_and(hygiene::is_grpc_type)
        && head.headers.get_all(&ENCODING).iter().all(is_uncoded)
}

/// Whoever answers does not take what it was shown: 401 (RFC 6750 §3.1), over gRPC `UNAUTHENTICATED` in a head that is the
/// whole answer.
pub fn is_unauthenticated(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::UNAUTHORIZED || headers.get(&STATUS).is_some_and(|status| status == "16")
}

/// Takes the fields of gRPC out of a head or of trailers; `None` if there is no one status that can be read.
pub fn take_status(fields: &mut HeaderMap) -> Option<Status> {
    fields.remove(&ENCODING);
    fields.remove(&ACCEPT_ENCODING);
    let details = fields.remove(&STATUS_DETAILS);
    let message = fields.remove(&MESSAGE);
    let is_one = fields.get_all(&STATUS).iter().nth(1).is_none();
    let code = fields.remove(&STATUS).filter(|_| is_one)?;
    Some(Status {
        code: code.to_str().ok()?.parse().ok()?,
        message: message.map_or_else(String::new, |message| grpc::decode_message(message.as_bytes())),
        details: details.and_then(|details| grpc::decode_details(details.as_bytes())),
    })
}
