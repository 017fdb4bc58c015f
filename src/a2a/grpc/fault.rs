//! Errors of the protocol as gRPC tells them (A2A 0.3 §8, 1.0 §5.4, §10.6).
//!
//! 1.0 tells them apart by an ErrorInfo in the details of the status. 0.3 says nothing of it: its SDKs go by the name of the
//! class that the message begins with, by the code, or by the ErrorInfo as in 1.0, so all three are told. A status that names
//! neither class nor reason is what it is by its code, if that leaves no doubt.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::status::Status;
use super::value::{Kind, Value};
use crate::a2a::Generation;
use crate::a2a::jsonrpc::code;
use crate::a2a::model::Fault;
use crate::a2a::model::wire::{Json, Text, or_default};

const INVALID_ARGUMENT: u32 = 3;
const NOT_FOUND: u32 = 5;
const FAILED_PRECONDITION: u32 = 9;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;
const UNKNOWN: u32 = 2;

/// An error, by the code of JSON-RPC.
struct Row {
    code: i64,
    /// The class of 0.3, and the code that its servers give it. They differ; where one of its clients goes by the code, it is that.
    class: &'static str,
    old_status: u32,
    status: u32,
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(code::TASK_NOT_FOUND, "TaskNotFoundError", NOT_FOUND, NOT_FOUND),
    row(code::TASK_NOT_CANCELABLE, "TaskNotCancelableError", FAILED_PRECONDITION, FAILED_PRECONDITION),
    row(code::PUSH_NOTIFICATION_NOT_SUPPORTED, "PushNotificationNotSupportedError", UNIMPLEMENTED, FAILED_PRECONDITION),
    row(code::UNSUPPORTED_OPERATION, "UnsupportedOperationError", UNIMPLEMENTED, FAILED_PRECONDITION),
    row(code::CONTENT_TYPE_NOT_SUPPORTED, "ContentTypeNotSupportedError", UNIMPLEMENTED, INVALID_ARGUMENT),
    row(code::INVALID_AGENT_RESPONSE, "InvalidAgentResponseError", INTERNAL, INTERNAL),
    row(code::EXTENDED_AGENT_CARD_NOT_CONFIGURED, "AuthenticatedExtendedCardNotConfiguredError", FAILED_PRECONDITION, FAILED_PRECONDITION),
    // Not in 0.3, but told as its others are.
    row(code::EXTENSION_SUPPORT_REQUIRED, "ExtensionSupportRequiredError", FAILED_PRECONDITION, FAILED_PRECONDITION),
    row(code::VERSION_NOT_SUPPORTED, "VersionNotSupportedError", FAILED_PRECONDITION, FAILED_PRECONDITION),
    row(code::PARSE_ERROR, "JSONParseError", INVALID_ARGUMENT, INVALID_ARGUMENT),
    row(code::INVALID_REQUEST, "InvalidRequestError", INVALID_ARGUMENT, INVALID_ARGUMENT),
    row(code::METHOD_NOT_FOUND, "MethodNotFoundError", UNIMPLEMENTED, UNIMPLEMENTED),
    row(code::INVALID_PARAMS, "InvalidParamsError", INVALID_ARGUMENT, INVALID_ARGUMENT),
    row(code::INTERNAL_ERROR, "InternalError", INTERNAL, INTERNAL),
];

const fn row(code: i64, class: &'static str, old_status: u32, status: u32) -> Row {
    Row {
        code,
        class,
        old_status,
        status,
    }
}

const DOMAIN: &str = "a2a-protocol.org";
const TYPES: &str = "type.googleapis.com/";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(uint32, tag = "1")]
    code: u32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes, tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.ErrorInfo`, in protobuf and in JSON.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    reason: String,
    #[prost(string, tag = "2")]
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    #[serde(default, deserialize_with = "texts", skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

/// `google.rpc.BadRequest`.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    field_violations: Vec<FieldViolation>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    field: String,
    #[prost(string, tag = "2")]
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    description: String,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Seconds>,
}

/// `google.protobuf.Duration`, whole.
#[derive(Clone, PartialEq, prost::Message)]
struct Seconds {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// One of the details in JSON.
#[derive(Serialize, Deserialize)]
#[serde(tag = "@type")]
enum Detail {
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo(ErrorInfo),
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest")]
    BadRequest(BadRequest),
}

/// What an error of either generation is.
pub fn read_fault(status: &Status) -> Fault<'static> {
    let read = status
        .details
        .as_deref()
        .and_then(|details| RpcStatus::decode(details).ok());
    let details: Vec<Detail> = read
        .iter()
        .flat_map(|read| &read.details)
        .filter_map(Detail::read)
        .collect();
    let by_reason = details.iter().find_map(|detail| match detail {
        Detail::ErrorInfo(info) if info.domain == DOMAIN => code::of_reason(&info.reason),
        Detail::ErrorInfo(_) | Detail::BadRequest(_) => None,
    });
    let by_class = status.message.split_once(": ");
    let by_class = by_class.and_then(|(class, rest)| Some((ROWS.iter().find(|row| row.class == class)?, rest)));
    let (code, message) = match (by_reason, by_class) {
        (Some(code), Some((row, rest))) if row.code == code => (code, rest),
        (Some(code), _) => (code, &*status.message),
        (None, Some((row, rest))) => (row.code, rest),
        (None, None) => (by_status(status.code), &*status.message),
    };
    Fault {
        code,
        message: Text::from(message.to_owned()),
        details: Some(details)
            .filter(|details| !details.is_empty())
            .and_then(|details| json(&details)),
    }
}

/// An error in the form of a generation. Details that are not known are left out.
pub fn write_fault(generation: Generation, fault: &Fault<'_>) -> Status {
    let row = ROWS.iter().find(|row| row.code == fault.code);
    let text = fault.message.as_str();
    let (code, message) = match (row, generation) {
        (None, _) => (UNKNOWN, text.to_owned()),
        (Some(row), Generation::V0_1 | Generation::V0_3) => (row.old_status, format!("{}: {text}", row.class)),
        (Some(row), Generation::V1_0) => (row.status, text.to_owned()),
    };
    let details = write_details(fault);
    let details = (!details.is_empty()).then(|| {
        let message = message.clone();
        Bytes::from(RpcStatus { code, message, details }.encode_to_vec())
    });
    Status { code, message, details }
}

/// An error that is none of A2A: the gateway's own, with its reason, and how many seconds to wait.
pub fn write_refusal(code: u32, message: &str, reason: &str, wait: Option<u32>) -> Status {
    let info = ErrorInfo {
        reason: reason.to_ascii_uppercase(),
        domain: "a2a-gateway".to_owned(),
        metadata: BTreeMap::new(),
    };
    let wait = wait.map(|seconds| {
        let retry_delay = Some(Seconds {
            seconds: i64::from(seconds),
        });
        any("google.rpc.RetryInfo", &RetryInfo { retry_delay })
    });
    let details = [any("google.rpc.ErrorInfo", &info)].into_iter().chain(wait);
    let status = RpcStatus {
        code,
        message: message.to_owned(),
        details: details.collect(),
    };
    Status {
        code,
        message: message.to_owned(),
        details: Some(status.encode_to_vec().into()),
    }
}

fn any(name: &str, message: &impl prost::Message) -> Any {
    Any {
        type_url: format!("{TYPES}{name}"),
        value: message.encode_to_vec(),
    }
}

/// Those that the fault has, and an ErrorInfo before them if none of them says which error of the protocol it is.
fn write_details(fault: &Fault<'_>) -> Vec<Any> {
    let given: Vec<&RawValue> = match &fault.details {
        // Free-form in 0.3.
        Some(details) => serde_json::from_str(details.get()).unwrap_or_default(),
        None => Vec::new(),
    };
    let mut details: Vec<Detail> = given
        .iter()
        .filter_map(|one| serde_json::from_str(one.get()).ok())
        .collect();
    let has_info = |detail: &Detail| matches!(detail, Detail::ErrorInfo(info) if info.domain == DOMAIN);
    if let Some(reason) = code::any_reason(fault.code)
        && !details.iter().any(has_info)
    {
        let info = ErrorInfo {
            reason: reason.to_owned(),
            domain: DOMAIN.to_owned(),
            metadata: BTreeMap::new(),
        };
        details.insert(0, Detail::ErrorInfo(info));
    }
    details.iter().map(Detail::write).collect()
}

impl Detail {
    fn read(any: &Any) -> Option<Self> {
        let value = &*any.value;
        match any.type_url.strip_prefix(TYPES)? {
            "google.rpc.ErrorInfo" => ErrorInfo::decode(value).ok().map(Self::ErrorInfo),
            "google.rpc.BadRequest" => BadRequest::decode(value).ok().map(Self::BadRequest),
            _ => None,
        }
    }

    fn write(&self) -> Any {
        match self {
            Self::ErrorInfo(info) => any("google.rpc.ErrorInfo", info),
            Self::BadRequest(bad) => any("google.rpc.BadRequest", bad),
        }
    }
}

/// What is left, where nothing but the code says it: only two errors of the protocol are told by a code of their own.
fn by_status(status: u32) -> i64 {
    match status {
        INVALID_ARGUMENT => code::INVALID_PARAMS,
        NOT_FOUND => code::TASK_NOT_FOUND,
        // Of a method that is not there as well as of one that is not supported.
        UNIMPLEMENTED => code::UNSUPPORTED_OPERATION,
        _ => code::INTERNAL_ERROR,
    }
}

fn json(details: &[Detail]) -> Option<Json<'static>> {
    Json::owned(serde_json::to_string(details).ok()?)
}

/// Values that are text; some SDKs write others, against the type.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let members: Option<BTreeMap<String, Value>> = Option::deserialize(deserializer)?;
    let members = members.unwrap_or_default().into_iter().map(|(name, value)| {
        let text = match value.kind {
            Some(Kind::Text(text)) => text,
            Some(Kind::Null(_) | Kind::Number(_) | Kind::Bool(_) | Kind::Object(_) | Kind::List(_)) | None => {
                serde_json::to_string(&value).map_err(D::Error::custom)?
            }
        };
        Ok((name, text))
    });
    members.collect()
}
