//! Errors of one generation in the form of another (A2A 0.3 §8, 1.0 §5.4, §9.5).
//!
//! The codes that both define mean the same, and the texts are the agent's own. 1.0 tells errors apart by an ErrorInfo in
//! `data`, which is made from the code; 0.3 leaves `data` free, so what stands there stays.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Error;
use crate::a2a::Generation;
use crate::a2a::jsonrpc::code;
use crate::a2a::model::wire::{Json, Text, or_default};

#[derive(Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RpcError<'a> {
    code: Json<'a>,
    #[serde(default, deserialize_with = "or_default")]
    message: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Json<'a>>,
}

#[derive(Serialize)]
struct ErrorInfo {
    #[serde(rename = "@type")]
    kind: &'static str,
    reason: &'static str,
    domain: &'static str,
}

/// Writes an error of the other generation for a caller.
pub(super) fn write(error: &RawValue, caller: Generation, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut error: RpcError<'_> = serde_json::from_str(error.get())?;
    if caller == Generation::V1_0 {
        // Free-form `data` has no place in a list of typed details.
        error.data = error.code.get().parse().ok().and_then(code::reason).and_then(info);
    }
    Ok(serde_json::to_writer(out, &error)?)
}

fn info(reason: &'static str) -> Option<Json<'static>> {
    let info = ErrorInfo {
        kind: "type.googleapis.com/google.rpc.ErrorInfo",
        reason,
        domain: "a2a-protocol.org",
    };
    Json::owned(serde_json::to_string(&[info]).ok()?)
}
