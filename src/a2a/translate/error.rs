//! Errors of one generation in the form of another (A2A 0.3 §8, 1.0 §5.4, §9.5).
//!
//! The codes that both define mean the same, but for some of the text of 0.1, and the texts are the agent's own. 1.0 tells errors apart by an ErrorInfo in
//! `data`, which is made from the code; 0.3 leaves `data` free, so what stands there stays.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::Error;
use crate::a2a::jsonrpc::code;
use crate::a2a::model::Fault;
use crate::a2a::model::fault::error_info;
use crate::a2a::model::wire::{Json, Text, or_default};
use crate::a2a::{Binding, Generation, http_json, v0_1};

#[derive(Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RpcError<'a> {
    #[serde(default, deserialize_with = "code_or_internal")]
    code: i64,
    #[serde(default, deserialize_with = "or_default")]
    message: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Json<'a>>,
}

/// Reads an `error` of JSON-RPC, for a caller of this binding.
pub(super) fn read(error: &RawValue, caller: Binding) -> Result<Fault<'_>, Error> {
    let RpcError { code, message, data } = serde_json::from_str(error.get())?;
    // An agent has no status of HTTP to tell here.
    let is_status = caller == Binding::HttpJson && code == http_json::TOO_MANY_REQUESTS;
    Ok(Fault {
        code: if is_status { code::INTERNAL_ERROR } else { code },
        message,
        details: data,
    })
}

/// An error of one generation as another tells it.
pub(super) fn told(fault: Fault<'_>, by: Generation, to: Generation) -> Fault<'_> {
    let fault = match by {
        Generation::V0_1 => Fault {
            code: v0_1::later_code(fault.code),
            ..fault
        },
        Generation::V0_3 | Generation::V1_0 => fault,
    };
    match to {
        Generation::V0_1 => Fault {
            code: v0_1::error_code(fault.code),
            ..fault
        },
        Generation::V1_0 if by != to => Fault {
            // Free-form `data` has no place in a list of typed details.
            details: code::reason(fault.code).and_then(error_info),
            ..fault
        },
        Generation::V0_3 | Generation::V1_0 => fault,
    }
}

/// Writes an `error` of JSON-RPC.
pub(super) fn write(fault: &Fault<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let error = RpcError {
        code: fault.code,
        message: fault.message.clone(),
        data: fault.details.clone(),
    };
    Ok(serde_json::to_writer(out, &error)?)
}

/// What is no whole number says no more than that something went wrong.
fn code_or_internal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let code = Json::deserialize(deserializer)?;
    Ok(code.get().parse().unwrap_or(code::INTERNAL_ERROR))
}
