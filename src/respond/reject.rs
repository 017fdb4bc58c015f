//! The one table from an error of a stage to the answer that a caller gets.
//!
//! Four decisions for each reason, each in a `match` without a wildcard: the HTTP status, the JSON-RPC code, the text for
//! outside, whether the caller may try again. The texts are fixed: nothing of a token, an address or an agent's body leaves.
//!
//! What any A2A server would answer as a JSON-RPC error goes out with HTTP 200, as those servers do (the official clients
//! read the body only then); what is about HTTP, the caller or the way to the agent has its own status.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::body::{Body, Held};
use super::grpc;
use crate::a2a::envelope::{self, About};
use crate::a2a::model::Fault;
use crate::a2a::model::wire::{Json, Text};
use crate::a2a::{self, Binding, Call, Generation, RpcId, http_json, jsonrpc, sse, v0_1};
use crate::http::hygiene;
use crate::observe::{Outcome, Reason};

/// How the caller wants to read an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON-RPC 2.0, with the request's id where it could be read.
    JsonRpc(RpcId),
    /// HTTP+JSON in the form of a generation.
    HttpJson(Generation),
    /// gRPC in the form of a generation.
    Grpc(Generation),
    /// A message of the envelope protocol.
    Envelope { timestamp: String, about: Box<About> },
    /// AIP-193, for requests that are no call.
    Plain,
}

/// Callers of 0.1 and 0.3 over JSON-RPC read nothing but events where they asked for a stream, errors of the protocol
/// included.
pub fn reads_events_alone(call: &Call) -> bool {
    call.generation != Generation::V1_0 && call.binding == Binding::JsonRpc && call.operation.streams()
}

/// An answer that the gateway makes itself.
#[derive(Clone, Debug)]
pub struct Reject {
    pub reason: Reason,
    more: Box<More>,
}

/// What some rejections say besides their reason.
#[derive(Clone, Debug, Default)]
struct More {
    headers: HeaderMap,
    /// `error.data`, or `details` in the plain form.
    details: Option<serde_json::Value>,
    /// Where it is known better than by whoever answers.
    form: Option<Form>,
    /// One more text, for callers whose body has a mistake; nothing of what was sent.
    explanation: Option<Cow<'static, str>>,
    /// As the one event of a stream.
    event: bool,
    /// By the codes of 0.1.
    v0_1: bool,
}

impl Reject {
    pub fn new(reason: Reason) -> Self {
        Self {
            reason,
            more: Box::default(),
        }
    }

    pub(super) fn with_id(mut self, id: RpcId) -> Self {
        self.more.form = Some(Form::JsonRpc(id));
        self
    }

    /// In the form of the call, with its id, and in 1.0 with what its clients tell errors apart by (A2A 1.0 §9.5). In 0.3 an
    /// error of the protocol is an event where a stream was asked for: its clients read nothing else there.
    pub fn answering(mut self, call: &Call) -> Self {
        if let Some(reason) = protocol_error(self.reason).filter(|_| call.generation == Generation::V1_0) {
            self.more.details = Some(json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason,
                "domain": "a2a-protocol.org",
            }]));
        }
        self.more.form = Some(match call.binding {
            Binding::JsonRpc => Form::JsonRpc(call.id.clone()),
            Binding::HttpJson => Form::HttpJson(call.generation),
            Binding::Grpc => Form::Grpc(call.generation),
        });
        self.more.v0_1 = call.generation == Generation::V0_1;
        self.more.event = reads_events_alone(call) && status(self.reason) == StatusCode::OK;
        self
    }

    /// The value for `WWW-Authenticate`.
    pub fn challenging(mut self, challenge: &'static str) -> Self {
        let challenge = HeaderValue::from_static(challenge);
        self.more.headers.append(header::WWW_AUTHENTICATE, challenge);
        self
    }

    /// The connection ends with the answer.
    pub fn closing(mut self) -> Self {
        let close = HeaderValue::from_static("close");
        self.more.headers.insert(header::CONNECTION, close);
        self
    }

    pub fn allowing(mut self, methods: &'static str) -> Self {
        self.more
            .headers
            .insert(header::ALLOW, HeaderValue::from_static(methods));
        self
    }

    /// Names what is served, in the ErrorInfo that 1.0 defines (A2A 1.0 §9.5).
    pub fn serving(mut self, served: &[Generation]) -> Self {
        let versions: Vec<&str> = served.iter().map(|generation| generation.as_str()).collect();
        self.more.details = Some(json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "VERSION_NOT_SUPPORTED",
            "domain": "a2a-protocol.org",
            "metadata": { "supportedVersions": versions.join(",") },
        }]));
        self
    }

    /// There is no card of the version that was asked for, but of these: in the form of 1.0, which has versions.
    pub fn no_card(served: &[Generation]) -> Self {
        let mut reject = Self::new(Reason::VersionNotSupported).serving(served);
        reject.more.form = Some(Form::HttpJson(Generation::V1_0));
        reject
    }

    /// A parameter of a query is wrong: in the form of HTTP alone.
    pub fn bad_query(explanation: &'static str) -> Self {
        let mut reject = Self::new(Reason::InvalidParams).because(explanation);
        reject.more.form = Some(Form::HttpJson(Generation::V1_0));
        reject
    }

    /// In a message of the envelope protocol, whatever the call that stands behind it would have been answered with.
    pub fn in_envelope(mut self, timestamp: String, about: About) -> Self {
        let about = Box::new(about);
        self.more.form = Some(Form::Envelope { timestamp, about });
        self.more.event = false;
        self
    }

    pub(super) fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.more.headers
    }

    /// Adds a text, for callers whose call has a mistake. It repeats nothing of the call.
    pub fn because(mut self, explanation: impl Into<Cow<'static, str>>) -> Self {
        self.more.explanation = Some(explanation.into());
        self
    }

    pub fn response(self, form: Form, mut held: Held) -> Response<Body> {
        let More {
            headers: own_headers,
            details,
            form: own_form,
            explanation,
            event,
            v0_1,
        } = *self.more;
        let mut status = status(self.reason);
        let code = if v0_1 {
            v0_1::error_code(code(self.reason))
        } else {
            code(self.reason)
        };
        let text = match explanation {
            Some(explanation) => &format!("{}: {explanation}", text(self.reason)),
            None => text(self.reason),
        };
        let mut ends = None;
        let bytes = match own_form.unwrap_or(form) {
            Form::JsonRpc(id) => {
                let data = details.and_then(|data| serde_json::value::to_raw_value(&data).ok());
                let error = jsonrpc::write_error(&id, code, text, data.as_deref());
                if event { sse::one_event(&error) } else { error }
            }
            Form::Grpc(generation) => {
                ends = Some(if status == StatusCode::OK {
                    let fault = Fault {
                        code,
                        message: Text::from(text),
                        details: details.and_then(|details| Json::owned(details.to_string())),
                    };
                    a2a::grpc::write_fault(generation, &fault)
                } else {
                    let own = own_headers.get(header::RETRY_AFTER);
                    let wait = own.and_then(|own| own.to_str().ok()?.parse().ok());
                    let wait = wait.or_else(|| retry_after(self.reason));
                    a2a::grpc::write_refusal(grpc::code(self.reason), text, self.reason.as_str(), wait)
                });
                status = StatusCode::OK;
                Bytes::new()
            }
            // Of the protocol: the binding has statuses of its own for them.
            Form::HttpJson(generation) if status == StatusCode::OK => {
                let fault = Fault {
                    code,
                    message: Text::from(text),
                    details: details.and_then(|details| Json::owned(details.to_string())),
                };
                let mut out = Vec::new();
                let told = http_json::write_fault(generation, &fault, &mut out);
                status = StatusCode::from_u16(told).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Bytes::from(out)
            }
            Form::Envelope { timestamp, about } => {
                let reply = envelope::Reply {
                    id: held.record.id.as_str(),
                    timestamp: &timestamp,
                    about: &about,
                };
                let again = retry_after(self.reason).is_some();
                envelope::write_error(reply, false, self.reason.as_str(), text, again).into()
            }
            Form::HttpJson(Generation::V0_1 | Generation::V0_3) => {
                Bytes::from(json!({ "code": code, "message": text }).to_string())
            }
            Form::HttpJson(Generation::V1_0) | Form::Plain => Bytes::from(
                json!({ "error": {
                    "code": status.as_u16(),
                    "status": canonical(status),
                    "message": text,
                    "details": details.unwrap_or_else(|| json!([{
                        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                        "reason": self.reason.as_str().to_ascii_uppercase(),
                        "domain": "a2a-gateway",
                    }])),
                }})
                .to_string(),
            ),
        };
        held.record.status = status.as_u16();
        held.record.refused = Some(self.reason);
        let request_id = held.record.id.header();
        let outcome = Outcome::Rejected(self.reason);
        let head = held.record.method == http::Method::HEAD;
        let length = bytes.len();
        let mut response = Response::new(Body::whole(if head { Bytes::new() } else { bytes }, outcome, held));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        *headers = own_headers;
        if let Some(status) = ends {
            grpc::head(&status, headers);
        } else {
            let media_type = if event { "text/event-stream" } else { "application/json" };
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(hygiene::X_REQUEST_ID, request_id);
        if head {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        if let Some(seconds) = retry_after(self.reason)
            && !headers.contains_key(header::RETRY_AFTER)
        {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if closes(self.reason) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

pub fn status(reason: Reason) -> StatusCode {
    match reason {
        Reason::BadHead | Reason::BodyMalformed | Reason::PushUnreadable => StatusCode::BAD_REQUEST,
        Reason::TargetTooLong => StatusCode::URI_TOO_LONG,
        Reason::HeaderTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Reason::HeaderTimeout | Reason::BodyTimeout | Reason::DeadlineExceeded => StatusCode::REQUEST_TIMEOUT,
        Reason::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Reason::NoRoute | Reason::PushUnknown => StatusCode::NOT_FOUND,
        Reason::Unauthenticated => StatusCode::UNAUTHORIZED,
        Reason::Forbidden
        | Reason::NotAllowed
        | Reason::PushForeign
        | Reason::SenderForeign
        | Reason::CallerTokenMissing
        | Reason::CallerTokenRefused => StatusCode::FORBIDDEN,
        Reason::TaskBeginning => StatusCode::CONFLICT,
        Reason::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Reason::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Reason::ParseError
        | Reason::Batch
        | Reason::Notification
        | Reason::InvalidRequest
        | Reason::UnknownMethod
        | Reason::InvalidParams
        | Reason::TaskNotFound
        | Reason::OwnersDiffer
        | Reason::AgentNotNamed
        | Reason::UnsupportedOperation
        | Reason::PushNotSupported
        | Reason::ExtendedCardNotConfigured
        | Reason::SessionUnknown
        | Reason::MessageDuplicate
        | Reason::VersionNotSupported => StatusCode::OK,
        Reason::AuthenticationUnavailable
        | Reason::DecisionUnavailable
        | Reason::AgentNotReady
        | Reason::OwnerUnavailable
        | Reason::EndpointUnavailable
        | Reason::UpstreamBusy
        | Reason::CredentialUnavailable
        | Reason::PushBusy
        | Reason::PushEarly
        | Reason::AuditUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Reason::PushFailed
        | Reason::UpstreamConnect
        | Reason::UpstreamClosed
        | Reason::UpstreamBadAnswer
        | Reason::UpstreamAnswerTooLarge
        | Reason::UpstreamRefused => StatusCode::BAD_GATEWAY,
        Reason::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
        Reason::LoopDetected => StatusCode::LOOP_DETECTED,
        Reason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// JSON-RPC and A2A codes where the protocol has one; otherwise `-31000` less the HTTP status, outside the range that
/// JSON-RPC reserves (-32768 to -32000).
pub fn code(reason: Reason) -> i64 {
    match reason {
        Reason::ParseError => -32700,
        // Told in messages, which have no numbers.
        Reason::SessionUnknown | Reason::MessageDuplicate => -32600,
        Reason::Batch | Reason::Notification | Reason::InvalidRequest => -32600,
        Reason::UnknownMethod => -32601,
        Reason::InvalidParams | Reason::OwnersDiffer | Reason::AgentNotNamed => -32602,
        Reason::Internal => -32603,
        Reason::TaskNotFound => -32001,
        Reason::PushNotSupported => -32003,
        Reason::UnsupportedOperation => -32004,
        Reason::UnsupportedMediaType => -32005,
        Reason::UpstreamBadAnswer => -32006,
        Reason::ExtendedCardNotConfigured => -32007,
        Reason::VersionNotSupported => -32009,
        Reason::BadHead
        | Reason::TargetTooLong
        | Reason::HeaderTooLarge
        | Reason::HeaderTimeout
        | Reason::MethodNotAllowed
        | Reason::NoRoute
        | Reason::Unauthenticated
        | Reason::Forbidden
        | Reason::NotAllowed
        | Reason::AuthenticationUnavailable
        | Reason::DecisionUnavailable
        | Reason::RateLimited
        | Reason::BodyTooLarge
        | Reason::BodyTimeout
        | Reason::BodyMalformed
        | Reason::AgentNotReady
        | Reason::LoopDetected
        | Reason::TaskBeginning
        | Reason::OwnerUnavailable
        | Reason::EndpointUnavailable
        | Reason::UpstreamConnect
        | Reason::UpstreamBusy
        | Reason::UpstreamTimeout
        | Reason::DeadlineExceeded
        | Reason::UpstreamClosed
        | Reason::UpstreamAnswerTooLarge
        | Reason::UpstreamRefused
        | Reason::CredentialUnavailable
        | Reason::CallerTokenMissing
        | Reason::CallerTokenRefused
        | Reason::PushUnknown
        | Reason::PushForeign
        | Reason::PushUnreadable
        | Reason::PushEarly
        | Reason::PushBusy
        | Reason::PushFailed
        | Reason::SenderForeign
        | Reason::AuditUnavailable => -31000 - i64::from(status(reason).as_u16()),
    }
}

/// The name in 1.0 of an error that agents would answer the same call with.
fn protocol_error(of: Reason) -> Option<&'static str> {
    let told = matches!(
        of,
        Reason::TaskNotFound | Reason::UnsupportedOperation | Reason::PushNotSupported
    );
    jsonrpc::code::reason(code(of)).filter(|_| told)
}

/// What a caller may read; see `deploy/README.md` for what an operator does about it.
pub fn text(reason: Reason) -> &'static str {
    match reason {
        Reason::BadHead => "The request head is malformed",
        Reason::TargetTooLong => "The request target is too long",
        Reason::HeaderTooLarge => "The request header section is too large",
        Reason::HeaderTimeout => "The request header did not arrive in time",
        Reason::MethodNotAllowed => "The HTTP method is not allowed here",
        Reason::NoRoute => "No agent is served at this address",
        Reason::Unauthenticated => "Authentication is required",
        Reason::Forbidden => "The credential lacks a required scope or claim",
        Reason::NotAllowed => "No rule allows this call",
        Reason::AuthenticationUnavailable => "Credentials cannot be verified at the moment",
        Reason::DecisionUnavailable => "It cannot be decided at the moment whether the call is allowed",
        Reason::RateLimited => "Too many requests",
        Reason::BodyTooLarge => "The request body is too large",
        Reason::BodyTimeout => "The request body did not arrive in time",
        Reason::BodyMalformed => "The request body is malformed",
        Reason::UnsupportedMediaType => "The request body must be application/json",
        Reason::ParseError => "Invalid JSON payload",
        Reason::Batch => "Batch requests are not supported",
        Reason::Notification => "A request id is required",
        Reason::InvalidRequest => "Request payload validation error",
        Reason::UnknownMethod => "Method not found",
        Reason::InvalidParams => "Invalid parameters",
        Reason::VersionNotSupported => "The A2A version is not supported by this agent",
        Reason::TaskNotFound => "Task not found",
        Reason::TaskBeginning => "Another call begins a task of this id at this moment",
        Reason::OwnersDiffer => "The task and the context do not belong together",
        Reason::AgentNotNamed => "It is not clear which agent the call is for",
        Reason::UnsupportedOperation => "This operation is not supported",
        Reason::PushNotSupported => "Push Notification is not supported",
        Reason::PushUnknown => "No webhook is known at this address",
        Reason::PushForeign => "The notification is not about a task of this webhook",
        Reason::PushUnreadable => "The body is no notification of A2A",
        Reason::PushEarly => "It is not known yet whose the task is",
        Reason::PushBusy => "Too many notifications of the agent are under way",
        Reason::PushFailed => "The webhook did not take the notification",
        Reason::SenderForeign => "The message is not from the caller",
        Reason::SessionUnknown => "Session not found",
        Reason::MessageDuplicate => "A message of this id was sent before",
        Reason::ExtendedCardNotConfigured => "Authenticated Extended Card is not configured",
        Reason::AgentNotReady => "The agent is not available at the moment",
        Reason::LoopDetected => "The call has come back to a gateway that it went through",
        Reason::OwnerUnavailable => "The agent that holds this task is not available at the moment",
        Reason::EndpointUnavailable => "A part of the agent is not available at the moment",
        Reason::UpstreamConnect => "The agent cannot be reached",
        Reason::UpstreamBusy => "The agent is busy",
        Reason::UpstreamTimeout => "The agent did not answer in time",
        Reason::DeadlineExceeded => "The caller's deadline has passed",
        Reason::UpstreamClosed => "The agent closed the connection before its answer was whole",
        Reason::UpstreamBadAnswer => "The agent sent an invalid answer",
        Reason::UpstreamAnswerTooLarge => "The agent's answer is too large",
        Reason::UpstreamRefused => "The agent refused the gateway",
        Reason::AuditUnavailable => "The call cannot be recorded at the moment",
        Reason::CredentialUnavailable => "The gateway has no credential for the agent at the moment",
        Reason::CallerTokenMissing => "The agent is called in the caller's name, which takes a bearer token",
        Reason::CallerTokenRefused => "The caller's token gives no access to this agent",
        Reason::Internal => "Internal error",
    }
}

/// Seconds after which another try may go better.
pub fn retry_after(reason: Reason) -> Option<u32> {
    match reason {
        Reason::RateLimited | Reason::TaskBeginning | Reason::UpstreamBusy | Reason::PushBusy | Reason::PushEarly => {
            Some(1)
        }
        Reason::AuthenticationUnavailable
        | Reason::DecisionUnavailable
        | Reason::AgentNotReady
        | Reason::OwnerUnavailable
        | Reason::EndpointUnavailable
        | Reason::AuditUnavailable
        | Reason::CredentialUnavailable
        | Reason::UpstreamConnect => Some(5),
        Reason::BadHead
        | Reason::TargetTooLong
        | Reason::HeaderTooLarge
        | Reason::HeaderTimeout
        | Reason::MethodNotAllowed
        | Reason::NoRoute
        | Reason::Unauthenticated
        | Reason::Forbidden
        | Reason::NotAllowed
        | Reason::BodyTooLarge
        | Reason::BodyTimeout
        | Reason::BodyMalformed
        | Reason::UnsupportedMediaType
        | Reason::ParseError
        | Reason::Batch
        | Reason::Notification
        | Reason::InvalidRequest
        | Reason::UnknownMethod
        | Reason::InvalidParams
        | Reason::VersionNotSupported
        | Reason::TaskNotFound
        | Reason::OwnersDiffer
        | Reason::AgentNotNamed
        | Reason::UnsupportedOperation
        | Reason::PushNotSupported
        | Reason::ExtendedCardNotConfigured
        | Reason::LoopDetected
        | Reason::UpstreamTimeout
        | Reason::DeadlineExceeded
        | Reason::UpstreamClosed
        | Reason::UpstreamBadAnswer
        | Reason::UpstreamAnswerTooLarge
        | Reason::UpstreamRefused
        | Reason::CallerTokenMissing
        | Reason::CallerTokenRefused
        | Reason::PushUnknown
        | Reason::PushForeign
        | Reason::PushUnreadable
        | Reason::PushFailed
        | Reason::SenderForeign
        | Reason::SessionUnknown
        | Reason::MessageDuplicate
        | Reason::Internal => None,
    }
}

/// After these, what else the connection carries cannot be trusted or is not worth reading.
fn closes(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::BadHead
            | Reason::TargetTooLong
            | Reason::HeaderTooLarge
            | Reason::HeaderTimeout
            | Reason::BodyTooLarge
            | Reason::BodyTimeout
            | Reason::BodyMalformed
    )
}

fn canonical(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 | 405 | 408 | 413 | 414 | 415 | 431 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}
