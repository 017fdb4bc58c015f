//! What an agent's answer, or one event of its stream, tells, in whichever dialect the agent speaks: the one place that
//! knows which reader that is.
//!
//! Over JSON-RPC a body says by itself whether it is an error and which request it answers. Over HTTP+JSON the status, or
//! the name of the event, says the first, and the connection the second; over gRPC the status at the end, and the connection.

use std::fmt;

use bytes::Bytes;

use super::grpc::{self, Status};
use super::json::Limits;
use super::jsonrpc::{self, Answer};
use super::{Binding, Dialect, Operation, RpcId, http_json};

/// A whole answer, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Over gRPC the message without its prefix; an error has none.
    pub body: Bytes,
    pub end: End,
}

/// What a whole answer says of itself beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The HTTP status.
    Http(u16),
    /// The status of gRPC.
    Grpc(Status),
}

impl Whole {
    pub fn http(status: u16, body: Bytes) -> Self {
        Self {
            body,
            end: End::Http(status),
        }
    }

    /// Before its body was read.
    pub fn told(&self) -> Told<'_> {
        match &self.end {
            End::Http(status) => Told::whole(*status, &self.body),
            End::Grpc(status) => self.found(status.code != 0),
        }
    }

    /// Once it is known whether it is an error.
    pub fn found(&self, failed: bool) -> Told<'_> {
        let by = match &self.end {
            End::Http(status) => Failed::Http(*status),
            End::Grpc(status) => Failed::Grpc(status),
        };
        Told {
            body: &self.body,
            failed: failed.then_some(by),
        }
    }
}

/// A whole answer, or the data of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    pub body: &'a [u8],
    /// What is known to be an error without looking into the body.
    pub failed: Option<Failed<'a>>,
}

/// What says, beside a body, that it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed<'a> {
    /// The HTTP status; 200 of an event.
    Http(u16),
    /// The status of gRPC; the body is empty.
    Grpc(&'a Status),
}

impl<'a> Told<'a> {
    /// A whole answer of an HTTP status.
    pub fn whole(status: u16, body: &'a [u8]) -> Self {
        let failed = !(200..300).contains(&status);
        Self {
            body,
            failed: failed.then_some(Failed::Http(status)),
        }
    }

    /// The data of an event, of which it is known whether it is an error.
    pub fn event(body: &'a [u8], failed: bool) -> Self {
        Self {
            body,
            failed: failed.then_some(Failed::Http(200)),
        }
    }

    /// As an answer of its own.
    pub fn into_whole(self) -> Whole {
        Whole {
            body: Bytes::copy_from_slice(self.body),
            end: match self.failed {
                Some(Failed::Grpc(status)) => End::Grpc(status.clone()),
                Some(Failed::Http(status)) => End::Http(status),
                None => End::Http(200),
            },
        }
    }

    /// What a stream of gRPC ends with, if that is an error.
    pub fn ended(status: &'a Status) -> Self {
        Self {
            body: &[],
            failed: Some(Failed::Grpc(status)),
        }
    }
}

/// Why nobody can tell what an agent told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Json(jsonrpc::AnswerError),
    Message(grpc::AnswerError),
    /// An HTTP status where gRPC has one of its own.
    Status,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => error.fmt(f),
            Self::Message(error) => error.fmt(f),
            Self::Status => f.write_str("an HTTP status is no status of gRPC"),
        }
    }
}

impl std::error::Error for Error {}

/// Reads what the agent of a dialect told. An error is told by its code in JSON-RPC, whatever the binding.
pub fn read(speaks: Dialect, told: Told<'_>, operation: Operation, limits: Limits) -> Result<Answer<'_>, Error> {
    let Dialect { generation, binding } = speaks;
    let error = |code| Answer {
        error: Some(code),
        ..Answer::default()
    };
    match (binding, told.failed) {
        (_, Some(Failed::Grpc(status))) => Ok(error(grpc::read_fault(status).code)),
        (Binding::JsonRpc, _) => jsonrpc::read_answer(told.body, generation, operation, limits).map_err(Error::Json),
        (Binding::HttpJson, None) => {
            http_json::read_answer(told.body, false, generation, operation, limits).map_err(Error::Json)
        }
        (Binding::HttpJson, Some(Failed::Http(status))) => Ok(error(http_json::read_fault(status, told.body).code)),
        (Binding::Grpc, None) => grpc::read_answer(told.body, generation, operation).map_err(Error::Message),
        (Binding::Grpc, Some(Failed::Http(_))) => Err(Error::Status),
    }
}

/// The answer belongs to the request of this id.
pub fn belongs(speaks: Dialect, answer: &Answer<'_>, request: &RpcId) -> bool {
    speaks.binding != Binding::JsonRpc || answer.answers(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Generation::V1_0;
    use crate::a2a::jsonrpc::code;

    const TASK: &str = r#"{"id":"t","status":{"state":"TASK_STATE_WORKING"}}"#;

    fn told(binding: Binding, told: Told<'_>) -> Result<(Option<i64>, usize, bool), Error> {
        let speaks = Dialect {
            generation: V1_0,
            binding,
        };
        let id = RpcId::one();
        let answer = read(speaks, told, Operation::Get, Limits::default())?;
        Ok((answer.error, answer.revealed.len(), belongs(speaks, &answer, &id)))
    }

    #[test]
    fn each_binding_has_its_envelope() {
        use Binding::{Grpc, HttpJson, JsonRpc};
        let wrapped = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{TASK}}}"#);
        let of_another = wrapped.replace(r#""id":1"#, r#""id":2"#);
        let check = |binding, status, body: &str, expected| {
            let read = told(binding, Told::whole(status, body.as_bytes()));
            assert_eq!(read.ok(), expected, "{binding:?} {status} {body}");
        };
        check(JsonRpc, 200, &wrapped, Some((None, 1, true)));
        check(JsonRpc, 200, &of_another, Some((None, 1, false)));
        // Whatever the status: the body says it.
        check(JsonRpc, 404, &wrapped, Some((None, 1, true)));
        check(HttpJson, 200, TASK, Some((None, 1, true)));
        check(HttpJson, 200, "<p>", None);
        let error = r#"{"error":{"code":404,"message":"no"}}"#;
        check(HttpJson, 404, error, Some((Some(code::TASK_NOT_FOUND), 0, true)));
        check(Grpc, 200, TASK, None);
        // A task of the id `t`, whose state is 2.
        check(Grpc, 200, "\n\u{1}t\u{1a}\u{2}\u{8}\u{2}", Some((None, 1, true)));
        check(Grpc, 404, "", None);
    }

    #[test]
    fn an_event_is_an_error_by_its_name_or_by_its_body() {
        let error = br#"{"error":{"code":500,"message":"boom"}}"#;
        let check = |body: &[u8], named, expected| {
            let read = told(Binding::HttpJson, Told::event(body, named));
            assert_eq!(read.ok().and_then(|(error, ..)| error), expected);
        };
        check(error, true, Some(code::INTERNAL_ERROR));
        check(error, false, Some(0));
        check(TASK.as_bytes(), false, None);
    }

    #[test]
    fn over_grpc_the_end_says_it() {
        let check = |code: u32, expected: Option<i64>| {
            let status = Status {
                code,
                message: "no".to_owned(),
                details: None,
            };
            let whole = Whole {
                body: Bytes::from_static(b"\n\x01t"),
                end: End::Grpc(status),
            };
            let read = told(Binding::Grpc, whole.told());
            assert_eq!(
                read.ok(),
                Some((expected, usize::from(expected.is_none()), true)),
                "{code}"
            );
        };
        check(0, None);
        check(5, Some(code::TASK_NOT_FOUND));
        check(14, Some(code::INTERNAL_ERROR));
    }
}
