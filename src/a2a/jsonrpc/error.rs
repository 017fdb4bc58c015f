//! Errors that the gateway itself answers with.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::a2a::RpcId;
use crate::a2a::json::write_text;

/// Error codes of JSON-RPC 2.0 §5.1 and of A2A 0.3 §8.2, 1.0 §5.4 that a gateway has use for.
pub mod code {
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
    pub const TASK_NOT_FOUND: i64 = -32001;
    pub const CONTENT_TYPE_NOT_SUPPORTED: i64 = -32005;
    pub const VERSION_NOT_SUPPORTED: i64 = -32009;
}

/// An error response with the id of its request; `data` goes in as it is.
pub fn write_error(id: &RpcId, code: i64, message: &str, data: Option<&RawValue>) -> Bytes {
    let data = data.map(RawValue::get);
    let mut out = Vec::with_capacity(80 + id.0.len() + message.len() + data.map_or(0, str::len));
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(br#","error":{"code":"#);
    out.extend_from_slice(code.to_string().as_bytes());
    out.extend_from_slice(br#","message":"#);
    write_text(&mut out, message);
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(data.as_bytes());
    }
    out.extend_from_slice(b"}}");
    Bytes::from(out)
}
