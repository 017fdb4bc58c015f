//! What is asked: the body, read once, bounded, and classified.
//!
//! Needs `Admitted` and a `Slot`, so nothing is read of a caller who may not call.

use bytes::Bytes;
use http::{header, request};
use hyper::body::Incoming;

use crate::a2a::{Call, json, jsonrpc};
use crate::authorize::Admitted;
use crate::http::body;

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub body: body::Bounds,
    pub json: json::Limits,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the body is not declared as plain application/json")]
    MediaType,
    #[error("cannot read the body")]
    Body(#[source] body::Error),
    #[error("the body is no call")]
    Request(#[source] jsonrpc::RequestError),
}

pub async fn read(
    _admitted: &Admitted,
    parts: &request::Parts,
    body: Incoming,
    bounds: Bounds,
) -> Result<(Call, Bytes), Error> {
    if !is_json(parts) {
        return Err(Error::MediaType);
    }
    let bytes = body::read_whole(body, bounds.body).await.map_err(Error::Body)?;
    let call = jsonrpc::read_request(&bytes, bounds.json).map_err(Error::Request)?;
    Ok((call, bytes))
}

/// JSON-RPC keeps `application/json` in every generation (A2A 1.0 §9.1); a coded body could not be read on the way.
fn is_json(parts: &request::Parts) -> bool {
    let mut types = parts.headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = first.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
        && parts
            .headers
            .get_all(header::CONTENT_ENCODING)
            .iter()
            .all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}
