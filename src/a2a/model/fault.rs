//! Errors and their details: in 1.0 a list of objects that each say their type (A2A 1.0 §9.5, §11.6), of which an `ErrorInfo`
//! tells by its `reason` which error it is.

use serde::{Deserialize, Serialize};

use super::wire::{Json, Text};
use crate::a2a::jsonrpc::code;

/// The type of an `ErrorInfo`; any prefix of it names the same.
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const ERROR_INFO_NAME: &str = "google.rpc.ErrorInfo";

#[derive(Serialize)]
struct ErrorInfo {
    #[serde(rename = "@type")]
    kind: &'static str,
    reason: &'static str,
    domain: &'static str,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Detail<'a> {
    #[serde(rename = "@type")]
    kind: Text<'a>,
    #[serde(default)]
    reason: Option<Text<'a>>,
}

/// The details of an error of A2A.
pub fn error_info(reason: &'static str) -> Option<Json<'static>> {
    let info = ErrorInfo {
        kind: ERROR_INFO,
        reason,
        domain: "a2a-protocol.org",
    };
    Json::owned(serde_json::to_string(&[info]).ok()?)
}

impl Fault<'_> {
    /// With an `ErrorInfo` before its details, a list in 1.0, if none of them says by an error of A2A or JSON-RPC which it is.
    pub fn named(mut self) -> Self {
        let known = self.details.as_ref().and_then(reason);
        if known.is_some_and(|reason| code::of_reason(reason.as_str()).is_some()) {
            return self;
        }
        let Some(info) = code::any_reason(self.code).and_then(error_info) else {
            return self;
        };
        let given = self.details.take().filter(is_typed);
        let rest = given.as_ref().and_then(|given| given.get().trim().strip_prefix('['));
        self.details = match (rest, info.get().strip_suffix(']')) {
            (Some(rest), Some(own)) if rest.trim() != "]" => Json::owned(format!("{own},{rest}")),
            _ => Some(info),
        };
        self
    }
}

/// The details are such a list, which 1.0 asks for, and no free form of 0.3.
pub fn is_typed(details: &Json<'_>) -> bool {
    serde_json::from_str::<Vec<Detail<'_>>>(details.get()).is_ok()
}

/// The `reason` that a list of details gives.
pub fn reason<'a>(details: &'a Json<'_>) -> Option<Text<'a>> {
    let details: Vec<Detail<'a>> = serde_json::from_str(details.get()).ok()?;
    let mut infos = details.into_iter().filter(|detail| {
        let name = detail.kind.as_str().rsplit('/').next();
        name == Some(ERROR_INFO_NAME)
    });
    infos.find_map(|info| info.reason)
}

/// Why a call failed (A2A 1.0 §5.4), whatever the binding calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault<'a> {
    /// The JSON-RPC code; -32603 where a binding gives none.
    pub code: i64,
    pub message: Text<'a>,
    /// `data` of JSON-RPC, `details` of HTTP+JSON: in 1.0 a list of objects with `@type`.
    pub details: Option<Json<'a>>,
}
