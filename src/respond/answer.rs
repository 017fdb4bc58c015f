//! What an agent's answer is taken for: a call's answer to pass on, or nothing that a caller should see.

use http::{StatusCode, header, response};

use super::Reject;
use crate::a2a::answer::{self, End, Failed, Whole};
use crate::a2a::grpc::Status;
use crate::a2a::json;
use crate::a2a::jsonrpc::Answer;
use crate::a2a::{Binding, Call, Dialect, Operation, http_json};
use crate::http::{grpc, hygiene};
use crate::observe::{AgentMetrics, Fault, Reason};
use crate::upstream::{self, Head};

/// The answer is an event stream: over gRPC where one was asked for, unless it is nothing but a status.
pub fn is_stream(parts: &response::Parts, head: &Head, operation: Operation) -> bool {
    match head {
        Head::Grpc => operation.streams(),
        Head::Ended(_) => false,
        Head::Http(_) => has_events(parts),
    }
}

fn has_events(parts: &response::Parts) -> bool {
    let essence = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.as_bytes().split(|byte| *byte == b';').next())
        .unwrap_or_default();
    parts.status.is_success() && essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Why an answer does not go on, if so before its body is read.
pub fn check_head(parts: &response::Parts, speaks: Dialect) -> Result<(), Reason> {
    match parts.status {
        // The agent did not like the gateway's own credential: nothing that the caller could mend.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(Reason::UpstreamRefused)
        }
        status if status.is_redirection() || status.is_informational() => Err(Reason::UpstreamBadAnswer),
        // Whatever else is no answer of gRPC comes from what stands before the agent.
        _ if speaks.binding == Binding::Grpc && !grpc::is_answer(parts) => Err(Reason::UpstreamBadAnswer),
        _ => Ok(()),
    }
}

/// Whether a card that was asked for with a GET is there; or why the answer says nothing of that.
pub fn is_there(status: StatusCode) -> Result<bool, Reason> {
    match status {
        StatusCode::OK => Ok(true),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => Ok(false),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(Reason::UpstreamRefused)
        }
        _ => Err(Reason::UpstreamBadAnswer),
    }
}

/// Statuses of gRPC by which an agent, or what stands before it, refuses the gateway itself, as 401 and 403 do.
const PERMISSION_DENIED: u32 = 7;
const UNAUTHENTICATED: u32 = 16;
/// The agent refuses the gateway itself.
pub fn refuses(status: &Status) -> bool {
    matches!(status.code, PERMISSION_DENIED | UNAUTHENTICATED)
}

/// Told by servers that go, and by proxies for servers that are gone.
const UNAVAILABLE: u32 = 14;

/// What the head of an answer says of the endpoint that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// If the rest can be read.
    Good,
    /// The call was refused: by an agent that works, or by whatever stands before it.
    Refused,
    /// 5xx.
    Bad,
}

impl Standing {
    pub fn of(parts: &response::Parts) -> Self {
        if parts.status.is_server_error() {
            Self::Bad
        } else if parts.status.is_client_error() {
            Self::Refused
        } else {
            Self::Good
        }
    }

    /// The same for a whole answer. Over HTTP+JSON errors of the protocol have statuses of their own, and whoever tells one works.
    pub fn told(self, speaks: Dialect, whole: &Whole) -> Self {
        match &whole.end {
            End::Http(status) => {
                let works = || http_json::is_of_agent(*status, &whole.body);
                if self == Self::Bad && speaks.binding == Binding::HttpJson && works() {
                    return Self::Good;
                }
                self
            }
            End::Grpc(status) if refuses(status) => Self::Refused,
            End::Grpc(status) if status.code == UNAVAILABLE => Self::Bad,
            End::Grpc(_) => self,
        }
    }

    /// Whether the endpoint answered as it should, once its answer is whole; `None`: nobody can tell.
    pub fn with(self, readable: bool) -> Option<bool> {
        match (self, readable) {
            (Self::Bad, _) => Some(false),
            (Self::Refused, false) => None,
            (Self::Good, readable) => Some(readable),
            (Self::Refused, true) => Some(true),
        }
    }
}

/// Reads a whole answer of an agent of this dialect. HTML error pages, cut JSON and answers to other requests end here.
pub fn check<'a>(whole: &'a Whole, speaks: Dialect, call: &Call, limits: json::Limits) -> Result<Answer<'a>, Reason> {
    let told = whole.told();
    if let Some(Failed::Grpc(status)) = told.failed
        && refuses(status)
    {
        return Err(Reason::UpstreamRefused);
    }
    let answer = answer::read(speaks, told, call.operation, limits).map_err(|error| {
        tracing::debug!(%error, "the agent's answer cannot be read");
        Reason::UpstreamBadAnswer
    })?;
    let is_one = match (speaks.binding, told.failed) {
        (Binding::JsonRpc, _) => {
            // Success without `result` is how some agents answer a deleted push configuration.
            let says_something = answer.has_result || answer.error.is_some() || call.operation == Operation::PushDelete;
            says_something && answer.answers(&call.id)
        }
        // There is no envelope: only its content tells that an answer is one of A2A.
        (Binding::HttpJson, Some(Failed::Http(status))) => http_json::is_fault(status, told.body),
        (Binding::HttpJson | Binding::Grpc, Some(_)) => true,
        (Binding::HttpJson | Binding::Grpc, None) => !answer.is_strange,
    };
    if is_one {
        Ok(answer)
    } else {
        Err(Reason::UpstreamBadAnswer)
    }
}

/// Gives an answer the status that it has in the caller's binding.
pub fn restate(parts: &mut response::Parts, status: u16) {
    parts.status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
}

/// The head that the caller gets with it.
pub fn head(parts: response::Parts, streams: bool) -> (StatusCode, http::HeaderMap) {
    let mut headers = hygiene::answered(parts.headers);
    if streams {
        // Proxies in between must not collect events, nor keep them.
        headers
            .entry(header::CACHE_CONTROL)
            .or_insert(http::HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    }
    (parts.status, headers)
}

/// Counts and logs an exchange that failed, and gives what the caller gets.
pub fn failed(metrics: &AgentMetrics, error: &upstream::Error) -> Reject {
    let reject = Reject::from(error);
    // The agent was not asked, because of what the caller showed.
    if reject.reason.fault() == Fault::Downstream {
        return reject;
    }
    metrics.upstream_failed(reject.reason);
    tracing::warn!(
        agent = &*metrics.name,
        reason = reject.reason.as_str(),
        error = %Chain(error),
        "a call to the agent failed"
    );
    reject
}

/// Logs a notification that a webhook did not take, and gives what the agent gets. Nothing of the webhook but its host shows.
pub fn undelivered(metrics: &AgentMetrics, error: &dyn std::error::Error, detail: &'static str) -> Reject {
    tracing::warn!(
        agent = &*metrics.name,
        detail,
        error = %Chain(error),
        "a webhook did not take a notification"
    );
    Reject::new(Reason::PushFailed)
}

/// An error with its causes.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
