//! Errors (A2A 0.3 §8, 1.0 §5.4, §11.6).
//!
//! 1.0 writes the form of AIP-193, `{"error": {"code", "status", "message", "details"}}`, where `code` is the HTTP status.
//! For 0.3 nothing is laid down: agents in JavaScript write `{"code", "message", "data"}` with the code of JSON-RPC, those in
//! Python `{"message"}` alone. Problem documents (RFC 9457) are read too, as drafts of 1.0 had them. Status codes of one
//! error differ between agents, so an error is known by its `reason`, else by a code of JSON-RPC, and only then by the status.

use serde::{Deserialize, Serialize};

use crate::a2a::Generation;
use crate::a2a::jsonrpc::code;
use crate::a2a::model::Fault;
use crate::a2a::model::fault::{error_info, is_typed, reason};
use crate::a2a::model::wire::{Json, Text};

/// What all forms may have; members of a kind that they should not have count as absent.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Body<'a> {
    #[serde(default)]
    error: Option<Json<'a>>,
    #[serde(default)]
    code: Option<Json<'a>>,
    #[serde(default)]
    message: Option<Json<'a>>,
    #[serde(default)]
    details: Option<Json<'a>>,
    #[serde(default)]
    data: Option<Json<'a>>,
    /// Of a problem document.
    #[serde(default)]
    r#type: Option<Json<'a>>,
    #[serde(default)]
    title: Option<Json<'a>>,
    #[serde(default)]
    detail: Option<Json<'a>>,
}

/// An error, as far as its body tells.
struct Told<'a> {
    message: Text<'a>,
    details: Option<Json<'a>>,
    /// Of JSON-RPC, told or named by a reason.
    code: Option<i64>,
    /// It has a reason, known or not.
    has_reason: bool,
    /// The HTTP status that it repeats.
    status: Option<u16>,
    /// It has one of the forms, so it comes from an agent.
    is_formed: bool,
}

/// Reads an error of a status, or one event's (`status` 200). Whatever the body is, it is some error.
pub fn read_fault(status: u16, body: &[u8]) -> Fault<'_> {
    let told = read(body);
    let status = if (200..300).contains(&status) {
        told.status.unwrap_or(500)
    } else {
        status
    };
    Fault {
        code: told.code.unwrap_or_else(|| of_status(status, &told)),
        message: told.message,
        details: told.details,
    }
}

/// An agent's own error, if its status is no success: in one of the forms, or of a method that its server knows by name
/// and does not serve. Pages of servers and proxies are none.
pub fn is_fault(status: u16, body: &[u8]) -> bool {
    matches!(status, 405 | 501) || read(body).is_formed
}

/// The same, and what made it works. Statuses by which proxies speak for an agent that does not are its own word only with
/// an error of A2A in it.
pub fn is_of_agent(status: u16, body: &[u8]) -> bool {
    let told = read(body);
    match status {
        502..=504 => told.code.is_some(),
        405 | 501 => true,
        _ => told.is_formed,
    }
}

/// The code of an error's body; `None` if only its status may tell.
pub(super) fn read_code(body: &[u8]) -> Option<i64> {
    read(body).code
}

/// The body is an object with an error in it.
pub(super) fn is_wrapped(body: &[u8]) -> bool {
    serde_json::from_slice::<Body<'_>>(body).is_ok_and(|body| body.error.is_some_and(|error| error.is_object()))
}

fn read(body: &[u8]) -> Told<'_> {
    let outer: Body<'_> = serde_json::from_slice(body).unwrap_or_default();
    let inner = outer.error.as_ref().and_then(|error| borrowed(error));
    // OAuth and others write a text.
    let plain = inner.and_then(|error| serde_json::from_str::<Text<'_>>(error).ok());
    let Body {
        code,
        message,
        details,
        data,
        r#type: kind,
        title,
        detail,
        ..
    } = inner
        .and_then(|error| serde_json::from_str(error).ok())
        .unwrap_or(outer);
    let details = details.or(data);
    let problem = text(kind.as_ref());
    let number: Option<i64> = code.and_then(|code| code.get().parse().ok());
    let reason_code = details.as_ref().and_then(reason);
    let has_reason = reason_code.is_some();
    let named = reason_code
        .and_then(|reason| code::of_reason(reason.as_str()))
        .or_else(|| problem.as_ref().and_then(|kind| of_problem(kind.as_str())));
    let message = text(message.as_ref())
        .or(plain)
        .or_else(|| text(detail.as_ref()))
        .or_else(|| text(title.as_ref()));
    Told {
        is_formed: message.is_some() && (inner.is_some() || detail.is_none() || problem.is_some()) || number.is_some(),
        message: message.unwrap_or_default(),
        code: named.or(number.filter(|number| *number < 0 && *number != TOO_MANY_REQUESTS)),
        has_reason,
        status: number.and_then(|number| u16::try_from(number).ok()),
        details,
    }
}

/// The text of a value that was read from the body, and lives as long as it.
fn borrowed<'a>(json: &Json<'a>) -> Option<&'a str> {
    match json.0 {
        std::borrow::Cow::Borrowed(raw) => Some(raw.get()),
        std::borrow::Cow::Owned(_) => None,
    }
}

fn text<'a>(json: Option<&Json<'a>>) -> Option<Text<'a>> {
    serde_json::from_str(borrowed(json?)?).ok()
}

/// `https://a2a-protocol.org/errors/task-not-found`
fn of_problem(kind: &str) -> Option<i64> {
    let name = kind.rsplit('/').next()?;
    code::of_reason(&name.to_ascii_uppercase().replace('-', "_"))
}

/// What an error most likely is, of which nothing but the status is known.
fn of_status(status: u16, told: &Told<'_>) -> i64 {
    match status {
        429 => TOO_MANY_REQUESTS,
        // An error of a later version, or of the agent's own.
        400..=499 if told.has_reason => code::INVALID_REQUEST,
        404 if told.is_formed => code::TASK_NOT_FOUND,
        // No such route: the agent does not serve the call.
        404 | 405 | 501 => code::UNSUPPORTED_OPERATION,
        409 => code::TASK_NOT_CANCELABLE,
        415 => code::CONTENT_TYPE_NOT_SUPPORTED,
        400 | 422 => code::INVALID_PARAMS,
        502 if told.is_formed => code::INVALID_AGENT_RESPONSE,
        _ => code::INTERNAL_ERROR,
    }
}

/// What an agent says by the status of HTTP alone, and callers are told by it; as the gateway's own refusal is numbered.
pub const TOO_MANY_REQUESTS: i64 = -31429;

#[derive(Serialize)]
struct Written1_0<'a> {
    error: Status<'a>,
}

/// `google.rpc.Status` (AIP-193).
#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    status: &'static str,
    message: &'a Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Json<'a>>,
}

#[derive(Serialize)]
struct Written0_3<'a> {
    code: i64,
    message: &'a Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json<'a>>,
}

/// Writes the body of an error in the form of a generation, and gives its status.
///
/// The statuses of 1.0 are those of A2A 1.0.1. For 0.3 there is no table; these are the ones of its agents in Python, which
/// their clients know, but 400 instead of 422 for parameters, which both official SDKs use for what is malformed.
///
/// | error | 0.3 | 1.0 |
/// | --- | --- | --- |
/// | TaskNotFound | 404 | 404 |
/// | TaskNotCancelable | 409 | 400 |
/// | PushNotificationNotSupported, UnsupportedOperation | 501 | 400 |
/// | ContentTypeNotSupported | 415 | 400 |
/// | InvalidAgentResponse | 502 | 500 |
/// | ExtendedAgentCardNotConfigured | 404 | 400 |
/// | ExtensionSupportRequired, VersionNotSupported | 400 | 400 |
/// | parse error, invalid request, invalid parameters | 400 | 400 |
/// | method not found | 404 | 404 |
/// | internal error, and codes that A2A does not know | 500 | 500 |
/// | too many requests, if a status of HTTP said it | 429 | 429 |
pub fn write_fault(generation: Generation, fault: &Fault<'_>, out: &mut Vec<u8>) -> u16 {
    let status = status_of(generation, fault.code);
    let written = match generation {
        Generation::V0_1 | Generation::V0_3 => serde_json::to_writer(
            &mut *out,
            &Written0_3 {
                code: fault.code,
                message: &fault.message,
                data: fault.details.as_ref(),
            },
        ),
        Generation::V1_0 => {
            // Free-form `data` has no place in a list of typed details.
            let typed = fault.details.as_ref().filter(|details| is_typed(details));
            let made = match typed {
                None => code::any_reason(fault.code).and_then(error_info),
                Some(_) => None,
            };
            let error = Status {
                code: status,
                status: name_of(status, fault.code),
                message: &fault.message,
                details: typed.or(made.as_ref()),
            };
            serde_json::to_writer(&mut *out, &Written1_0 { error })
        }
    };
    // Text and JSON that was read before are written without fail.
    debug_assert!(written.is_ok());
    status
}

fn status_of(generation: Generation, code: i64) -> u16 {
    let (v0_3, v1_0) = match code {
        code::TASK_NOT_FOUND | code::METHOD_NOT_FOUND => (404, 404),
        code::TASK_NOT_CANCELABLE => (409, 400),
        code::PUSH_NOTIFICATION_NOT_SUPPORTED | code::UNSUPPORTED_OPERATION => (501, 400),
        code::CONTENT_TYPE_NOT_SUPPORTED => (415, 400),
        code::INVALID_AGENT_RESPONSE => (502, 500),
        code::EXTENDED_AGENT_CARD_NOT_CONFIGURED => (404, 400),
        code::EXTENSION_SUPPORT_REQUIRED
        | code::VERSION_NOT_SUPPORTED
        | code::PARSE_ERROR
        | code::INVALID_REQUEST
        | code::INVALID_PARAMS => (400, 400),
        TOO_MANY_REQUESTS => (429, 429),
        _ => (500, 500),
    };
    match generation {
        Generation::V0_1 | Generation::V0_3 => v0_3,
        Generation::V1_0 => v1_0,
    }
}

/// The name of `google.rpc.Code` (A2A 1.0.1 §5.4; the others by AIP-193).
fn name_of(status: u16, code: i64) -> &'static str {
    match code {
        code::TASK_NOT_CANCELABLE
        | code::PUSH_NOTIFICATION_NOT_SUPPORTED
        | code::UNSUPPORTED_OPERATION
        | code::EXTENDED_AGENT_CARD_NOT_CONFIGURED
        | code::EXTENSION_SUPPORT_REQUIRED
        | code::VERSION_NOT_SUPPORTED => "FAILED_PRECONDITION",
        _ => match status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            409 => "ABORTED",
            429 => "RESOURCE_EXHAUSTED",
            501 => "UNIMPLEMENTED",
            502 | 503 => "UNAVAILABLE",
            408 | 504 => "DEADLINE_EXCEEDED",
            400..=499 => "INVALID_ARGUMENT",
            _ => "INTERNAL",
        },
    }
}
