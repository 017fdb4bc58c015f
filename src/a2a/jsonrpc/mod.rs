//! The JSON-RPC binding of A2A 0.3 and 1.0, and the requests of 0.1: which call a body asks for, what an answer reveals, and
//! errors of our own.
//!
//! Bodies are read, never rewritten. Ids stand where tables say (`methods` for requests, `answer` for answers).

mod answer;
mod error;
mod methods;
mod params;
mod probe;
mod request;
#[cfg(test)]
mod tests;

pub use answer::{Answer, AnswerError, AnswerErrorKind, MAX_REVEALED, read_answer};
pub(super) use answer::{Variants, read_result};
pub use error::{code, write_error};
pub use methods::{Method, method, method_name};
pub(super) use params::{Field, Params};
pub use probe::{read_tenant, write_get};
pub use request::{MAX_REFERENCES, RequestError, RequestErrorKind, read_request, read_request_or_0_1};
pub(super) use request::{Problem, is_look_alike, problem};

use super::RpcId;
use super::json::{Kind, Limits, Strict, Value};

/// Longest task or context id, in bytes. Those of all official SDKs have 36; memory of owners is bounded by it.
pub const MAX_ID_BYTES: usize = 1024;

/// Longest id of a JSON-RPC request, as it is written; it is kept as long as the call, and repeated in every event.
pub const MAX_RPC_ID_BYTES: usize = 1024;

/// An answer with this id (raw, `None` if it has none) belongs to the request.
///
/// Strings are compared as they read, numbers as they are written. An error may leave the id out or say `null`: agents do
/// when they could not read it (JSON-RPC 2.0 §5).
pub fn id_matches(request: &RpcId, answer: Option<&str>, is_error: bool) -> bool {
    match answer {
        None | Some("null") if is_error => true,
        None => false,
        Some(raw) => raw.as_bytes() == &*request.0 || same_text(&request.0, raw.as_bytes()),
    }
}

fn same_text(one: &[u8], other: &[u8]) -> bool {
    fn text(raw: &[u8]) -> Option<String> {
        let mut cursor = Strict::new(raw, Limits::default()).ok()?;
        match (cursor.kind(), cursor.value().ok()?) {
            (Kind::Text, Value::Text(text)) => Some(text.decode().into_owned()),
            _ => None,
        }
    }
    match (text(one), text(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}
