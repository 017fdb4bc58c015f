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
    pub const TASK_NOT_CANCELABLE: i64 = -32002;
    pub const PUSH_NOTIFICATION_NOT_SUPPORTED: i64 = -32003;
    pub const UNSUPPORTED_OPERATION: i64 = -32004;
    pub const CONTENT_TYPE_NOT_SUPPORTED: i64 = -32005;
    pub const INVALID_AGENT_RESPONSE: i64 = -32006;
    pub const EXTENDED_AGENT_CARD_NOT_CONFIGURED: i64 = -32007;
    pub const EXTENSION_SUPPORT_REQUIRED: i64 = -32008;
    pub const VERSION_NOT_SUPPORTED: i64 = -32009;

    /// The errors that 1.0 tells apart by a `reason` of A2A itself (A2A 1.0 §5.4).
    const REASONS: [(i64, &str); 9] = [
        (TASK_NOT_FOUND, "TASK_NOT_FOUND"),
        (TASK_NOT_CANCELABLE, "TASK_NOT_CANCELABLE"),
        (PUSH_NOTIFICATION_NOT_SUPPORTED, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        (UNSUPPORTED_OPERATION, "UNSUPPORTED_OPERATION"),
        (CONTENT_TYPE_NOT_SUPPORTED, "CONTENT_TYPE_NOT_SUPPORTED"),
        (INVALID_AGENT_RESPONSE, "INVALID_AGENT_RESPONSE"),
        (EXTENDED_AGENT_CARD_NOT_CONFIGURED, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
        (EXTENSION_SUPPORT_REQUIRED, "EXTENSION_SUPPORT_REQUIRED"),
        (VERSION_NOT_SUPPORTED, "VERSION_NOT_SUPPORTED"),
    ];

    /// Those of JSON-RPC, which only bindings without its codes have to name, in the words of the official servers.
    const GENERAL: [(i64, &str); 5] = [
        (INVALID_PARAMS, "INVALID_PARAMS"),
        (INVALID_REQUEST, "INVALID_REQUEST"),
        (METHOD_NOT_FOUND, "METHOD_NOT_FOUND"),
        (INTERNAL_ERROR, "INTERNAL_ERROR"),
        (PARSE_ERROR, "PARSE_ERROR"),
    ];

    /// The `reason` by which 1.0 names an error of the protocol; the others have none.
    pub fn reason(code: i64) -> Option<&'static str> {
        let found = REASONS.iter().find(|(known, _)| *known == code);
        found.map(|(_, reason)| *reason)
    }

    /// The `reason` where there is no code beside it, so that errors of JSON-RPC have one too.
    pub fn any_reason(code: i64) -> Option<&'static str> {
        let found = GENERAL.iter().find(|(known, _)| *known == code);
        reason(code).or(found.map(|(_, reason)| *reason))
    }

    /// The code of a `reason`.
    pub fn of_reason(reason: &str) -> Option<i64> {
        let mut all = REASONS.iter().chain(&GENERAL);
        all.find(|(_, known)| *known == reason).map(|(code, _)| *code)
    }
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
