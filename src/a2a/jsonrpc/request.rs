//! Which call a request body asks for.
//!
//! The whole body is walked before anything is decided, because member order is free and the id of a refused request may
//! stand at its end. Whatever two parsers could read differently is refused: two spellings of one member with different
//! values, and at the levels that ids are read from, names that differ from a known one only in case (agents in Go match
//! names without it). Does not check anything that only the agent needs.

use std::fmt;

use bytes::Bytes;

use super::methods::{method, method_of_0_1};
use super::params::Params;
use super::{MAX_RPC_ID_BYTES, code};
use crate::a2a::json::{self, Kind, Limits, Name, Strict, Text, Value};
use crate::a2a::{Call, RpcId, v0_1};

/// Most `referenceTaskIds` of one message: each of them is looked up, and held as long as the call.
pub const MAX_REFERENCES: usize = 256;

/// Why a body is no call that the gateway passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    pub kind: RequestErrorKind,
    /// The id of the request, if it is beyond doubt; an answer without it says `null`.
    pub id: Option<RpcId>,
    /// Where in the body; the end where something is missing.
    pub at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestErrorKind {
    Json(json::ErrorKind),
    /// A top-level array. No A2A version defines batches.
    Batch,
    /// No `id` member: the agent would act, and nobody would hear of it.
    Notification,
    /// Not an object, another `jsonrpc` version, an `id` or `method` of the wrong kind.
    InvalidRequest,
    /// A name beside `jsonrpc`, `id`, `method` or `params` that differs from it only in case.
    LookAlikeMember,
    UnknownMethod,
    /// Something that ids are read from has the wrong kind.
    InvalidParams,
    MissingTaskId,
    IdTooLong,
    TooManyReferences,
    /// `taskId` and `task_id` (or the like) with different values.
    ConflictingSpellings,
    /// In `params` or `params.message`, a name that differs from a known one only in case.
    LookAlikeParam,
    /// Path, query and body of an HTTP+JSON request name different tasks, tenants or push configurations.
    ConflictingPlaces,
    /// A query parameter that is no list stands there twice.
    RepeatedParam,
}

impl RequestErrorKind {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json(kind) => kind.as_str(),
            Self::Batch => "batch",
            Self::Notification => "notification",
            Self::InvalidRequest => "invalid_request",
            Self::LookAlikeMember => "look_alike_member",
            Self::UnknownMethod => "unknown_method",
            Self::InvalidParams => "invalid_params",
            Self::MissingTaskId => "missing_task_id",
            Self::IdTooLong => "id_too_long",
            Self::TooManyReferences => "too_many_references",
            Self::ConflictingSpellings => "conflicting_spellings",
            Self::LookAlikeParam => "look_alike_param",
            Self::ConflictingPlaces => "conflicting_places",
            Self::RepeatedParam => "repeated_param",
        }
    }

    /// The JSON-RPC error code.
    pub fn code(self) -> i64 {
        match self {
            Self::Json(_) => code::PARSE_ERROR,
            Self::Batch | Self::Notification | Self::InvalidRequest | Self::LookAlikeMember => code::INVALID_REQUEST,
            Self::UnknownMethod => code::METHOD_NOT_FOUND,
            Self::InvalidParams
            | Self::MissingTaskId
            | Self::IdTooLong
            | Self::TooManyReferences
            | Self::ConflictingSpellings
            | Self::LookAlikeParam
            | Self::ConflictingPlaces
            | Self::RepeatedParam => code::INVALID_PARAMS,
        }
    }

    /// The text for the caller; quotes nothing of the body.
    pub fn message(self) -> &'static str {
        match self {
            Self::Json(kind) => kind.message(),
            Self::Batch => "batches are not supported",
            Self::Notification => "a request needs an id",
            Self::InvalidRequest => "the body is not a JSON-RPC 2.0 request",
            Self::LookAlikeMember => "a member name differs from a JSON-RPC one only in case",
            Self::UnknownMethod => "the method is unknown",
            Self::InvalidParams => "a parameter has the wrong type or is empty",
            Self::MissingTaskId => "the task id is missing",
            Self::IdTooLong => "a task or context id is too long",
            Self::TooManyReferences => "the message refers to too many tasks",
            Self::ConflictingSpellings => "a parameter stands there in two spellings that differ",
            Self::LookAlikeParam => "a parameter name differs from a known one only in case",
            Self::ConflictingPlaces => "path, query and body name different tasks, tenants or configurations",
            Self::RepeatedParam => "a query parameter stands there twice",
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind.message(), self.at)
    }
}

impl std::error::Error for RequestError {}

/// Reads the call that a body asks for.
pub fn read_request(body: &Bytes, limits: Limits) -> Result<Call, RequestError> {
    read_request_or_0_1(body, limits, None)
}

/// The same where callers of 0.1 are served, by these methods. The task of theirs is named as they call it.
pub fn read_request_or_0_1(body: &Bytes, limits: Limits, v0_1: Option<v0_1::Methods>) -> Result<Call, RequestError> {
    let mut envelope = Envelope::default();
    match envelope.walk(body, limits) {
        Ok(()) => {}
        Err(Walk { error, level }) => {
            let id_is_certain =
                error.kind.is_well_formed() && !(error.kind == json::ErrorKind::DuplicateName && level == 1);
            return Err(RequestError {
                kind: RequestErrorKind::Json(error.kind),
                id: envelope.rpc_id().filter(|_| id_is_certain),
                at: error.at,
            });
        }
    }
    let id = envelope.rpc_id();
    envelope
        .judge(body.len(), v0_1)
        .map_err(|Problem { kind, at }| RequestError { kind, id, at })
}

/// A document that is refused, and how many levels were open there.
struct Walk {
    error: json::Error,
    level: usize,
}

pub(in crate::a2a) struct Problem {
    pub(in crate::a2a) kind: RequestErrorKind,
    pub(in crate::a2a) at: usize,
}

pub(in crate::a2a) fn problem<T>(kind: RequestErrorKind, at: usize) -> Result<T, Problem> {
    Err(Problem { kind, at })
}

/// What the walk has gathered, before it is known which method it belongs to.
#[derive(Default)]
struct Envelope<'a> {
    /// `None` for an object.
    not_object: Option<RequestErrorKind>,
    version: Option<bool>,
    id: Option<Result<&'a str, usize>>,
    method: Option<Result<Text<'a>, usize>>,
    method_at: usize,
    params: Params<'a>,
    look_alike: Option<usize>,
}

const ENVELOPE: &[&str] = &["jsonrpc", "id", "method", "params"];
impl<'a> Envelope<'a> {
    fn walk(&mut self, body: &'a [u8], limits: Limits) -> Result<(), Walk> {
        let mut cursor = Strict::new(body, limits).map_err(|error| Walk { error, level: 0 })?;
        let walked = match cursor.kind() {
            Kind::Object => cursor.object(|cursor, name| self.member(cursor, name)),
            Kind::Array => {
                self.not_object = Some(RequestErrorKind::Batch);
                cursor.skip()
            }
            Kind::Text | Kind::Number | Kind::Bool | Kind::Null | Kind::Nothing => {
                self.not_object = Some(RequestErrorKind::InvalidRequest);
                cursor.skip()
            }
        };
        let level = cursor.level();
        walked
            .and_then(|()| cursor.finish())
            .map_err(|error| Walk { error, level })
    }

    fn member(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        match &*name.decode() {
            b"jsonrpc" => {
                self.version = Some(match cursor.value()? {
                    Value::Text(version) => version == *"2.0",
                    Value::Null | Value::Other => false,
                });
            }
            b"id" => {
                let kind = cursor.kind();
                let raw = cursor.raw()?;
                self.id = Some(if is_rpc_id(kind, raw) { Ok(raw) } else { Err(at) });
            }
            b"method" => {
                self.method_at = at;
                self.method = Some(match cursor.value()? {
                    Value::Text(method) => Ok(method),
                    Value::Null | Value::Other => Err(at),
                });
            }
            b"params" => match cursor.kind() {
                Kind::Object => {
                    return cursor.object(|cursor, name| self.params.member(cursor, name));
                }
                // Clients that always print the member.
                Kind::Null => cursor.skip()?,
                Kind::Array | Kind::Text | Kind::Number | Kind::Bool | Kind::Nothing => {
                    self.params.bad = Some(at);
                    cursor.skip()?;
                }
            },
            other => {
                if is_look_alike(other, ENVELOPE) {
                    self.look_alike = Some(at);
                }
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn rpc_id(&self) -> Option<RpcId> {
        match self.id {
            // A copy, because a slice would hold the whole body as long as the call.
            Some(Ok(raw)) => Some(RpcId(Bytes::copy_from_slice(raw.as_bytes()))),
            Some(Err(_)) | None => None,
        }
    }

    fn judge(&self, end: usize, v0_1: Option<v0_1::Methods>) -> Result<Call, Problem> {
        if let Some(kind) = self.not_object {
            return problem(kind, 0);
        }
        if let Some(at) = self.look_alike {
            return problem(RequestErrorKind::LookAlikeMember, at);
        }
        if self.version != Some(true) {
            return problem(RequestErrorKind::InvalidRequest, end);
        }
        if let Some(Err(at)) = self.id {
            return problem(RequestErrorKind::InvalidRequest, at);
        }
        let name = match self.method {
            Some(Ok(name)) => name.decode(),
            Some(Err(at)) => return problem(RequestErrorKind::InvalidRequest, at),
            None => return problem(RequestErrorKind::InvalidRequest, end),
        };
        let Some(id) = self.rpc_id() else {
            return problem(RequestErrorKind::Notification, end);
        };
        if let Some(method) = method(&name) {
            return self.params.judge(method, id, end);
        }
        match v0_1.and_then(|methods| method_of_0_1(&name, methods)) {
            Some(method) => self.params.judge(&method, id, end),
            None => problem(RequestErrorKind::UnknownMethod, self.method_at),
        }
    }
}

/// A string, a whole number or null (JSON-RPC 2.0 §4); fractions are refused, because not every agent can repeat them.
fn is_rpc_id(kind: Kind, raw: &str) -> bool {
    let fits = match kind {
        Kind::Text | Kind::Null => true,
        Kind::Number => !raw.contains(['.', 'e', 'E']),
        Kind::Object | Kind::Array | Kind::Bool | Kind::Nothing => false,
    };
    fits && raw.len() <= MAX_RPC_ID_BYTES
}

/// The name is none of the known ones, but reads as one of them to a parser that does not mind case.
///
/// That of Go folds by Unicode, where two letters outside ASCII fold into it: `ſ` (U+017F) and `K` (U+212A).
pub(in crate::a2a) fn is_look_alike(name: &[u8], known: &[&str]) -> bool {
    let is_known = |name: &[u8]| known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    if name.is_ascii() {
        return is_known(name);
    }
    let folded = String::from_utf8_lossy(name)
        .replace('\u{17F}', "s")
        .replace('\u{212A}', "k");
    is_known(folded.as_bytes())
}
