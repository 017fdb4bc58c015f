//! What is asked: the body, read once, bounded, and classified.
//!
//! Needs `Admitted` and a `Slot`, so nothing is read of a caller who may not call.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{Method, header, request};

use crate::a2a::{Addressed, Call, RpcId, grpc, http_json, json, jsonrpc, v0_1};
use crate::authorize::Admitted;
use crate::http::body;

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub body: body::Bounds,
    pub json: json::Limits,
    /// By which methods callers of 0.1 are served, if they are.
    pub v0_1: Option<v0_1::Methods>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the body is not declared as what the binding has, or coded")]
    MediaType,
    #[error("cannot read the body")]
    Body(#[source] body::Error),
    #[error("the body is no call")]
    Request(#[source] jsonrpc::RequestError),
    #[error("the body is no message of gRPC")]
    Frame(#[source] grpc::FrameError),
    #[error("the message is no call")]
    Message(#[source] grpc::CallError),
}

impl Error {
    /// The label in logs, where there is more to say than the reason.
    pub fn as_str(&self) -> Option<&'static str> {
        match self {
            Self::MediaType | Self::Body(_) => None,
            Self::Request(error) => Some(error.kind.as_str()),
            Self::Frame(error) => Some(error.as_str()),
            Self::Message(error) => Some(error.as_str()),
        }
    }
}

pub async fn read<B>(
    _admitted: &Admitted,
    parts: &request::Parts,
    addressed: &Addressed,
    body: B,
    mut bounds: Bounds,
) -> Result<(Call, Bytes), Error>
where
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    let is_declared = match addressed {
        Addressed::JsonRpc => is_json(parts),
        Addressed::HttpJson(_) if parts.method == Method::POST => is_a2a_json(parts),
        Addressed::HttpJson(_) => true,
        Addressed::Grpc(_) => is_protobuf(parts),
    };
    if !is_declared {
        return Err(Error::MediaType);
    }
    let most = bounds.body.bytes;
    if let Addressed::Grpc(_) = addressed {
        bounds.body.bytes = most.saturating_add(grpc::PREFIX_BYTES);
    }
    let bytes = body::read_whole(body, bounds.body).await.map_err(Error::Body)?;
    let (mut call, bytes) = match addressed {
        Addressed::JsonRpc => {
            let call = jsonrpc::read_request_or_0_1(&bytes, bounds.json, bounds.v0_1).map_err(Error::Request)?;
            return Ok((call, bytes));
        }
        Addressed::HttpJson(target) => {
            let call = http_json::read_call(target, parts.uri.query(), &bytes, bounds.json);
            (call.map_err(Error::Request)?, bytes)
        }
        Addressed::Grpc(method) => {
            let message = grpc::only_message(bytes, most).map_err(Error::Frame)?;
            (grpc::read_call(method, &message).map_err(Error::Message)?, message)
        }
    };
    // For agents that are spoken to in JSON-RPC: one call a connection at a time, and some refuse `null`.
    call.id = RpcId::one();
    Ok((call, bytes))
}

/// A `charset`, which the media type does not define (RFC 8259 §11), names none but UTF-8: frameworks exist that obey it, and
/// would read another call than the one that was checked.
fn is_utf8(media_type: &[u8]) -> bool {
    media_type.split(|byte| *byte == b';').skip(1).all(|parameter| {
        match parameter.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                let (name, value) = parameter.split_at(at);
                let value = value.get(1..).unwrap_or_default().trim_ascii();
                let value = value.strip_prefix(b"\"").unwrap_or(value);
                let value = value.strip_suffix(b"\"").unwrap_or(value);
                !name.trim_ascii().eq_ignore_ascii_case(b"charset")
                    || [&b"utf-8"[..], b"utf8"]
                        .iter()
                        .any(|known| value.eq_ignore_ascii_case(known))
            }
            None => true,
        }
    })
}

/// JSON-RPC keeps `application/json` in every generation (A2A 1.0 §9.1); a coded body could not be read on the way.
pub fn is_json(parts: &request::Parts) -> bool {
    is_uncoded(parts, &[b"application/json"])
}

/// HTTP+JSON has a media type of its own from 1.0.1 on, and takes the general one as well (A2A 1.0 §11.1). A body that is not
/// there needs none: a cancel may say nothing more than its path.
pub fn is_a2a_json(parts: &request::Parts) -> bool {
    let empty = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .is_none_or(|length| length == "0")
        && !parts.headers.contains_key(header::CONTENT_TYPE)
        && !parts.headers.contains_key(header::TRANSFER_ENCODING);
    empty || is_uncoded(parts, &[b"application/json", b"application/a2a+json"])
}

/// gRPC names the coding of messages in a field of its own; none is offered.
fn is_protobuf(parts: &request::Parts) -> bool {
    is_uncoded(parts, &[b"application/grpc", b"application/grpc+proto"])
        && (parts.headers.get_all("grpc-encoding").iter())
            .all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn is_uncoded(parts: &request::Parts, known: &[&[u8]]) -> bool {
    let mut types = parts.headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = first.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    known
        .iter()
        .any(|known| essence.trim_ascii().eq_ignore_ascii_case(known))
        && is_utf8(first.as_bytes())
        && parts
            .headers
            .get_all(header::CONTENT_ENCODING)
            .iter()
            .all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}
