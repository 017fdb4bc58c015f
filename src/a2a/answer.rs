//! What an agent's answer, or one event of its stream, tells, in whichever dialect the agent speaks: the one place that
//! knows which reader that is.
//!
//! Over JSON-RPC a body says by itself whether it is an error and which request it answers. Over HTTP+JSON the status, or
//! the name of the event, says the first, and the connection the second.

use super::json::Limits;
use super::jsonrpc::{self, Answer, AnswerError, AnswerErrorKind};
use super::{Binding, Dialect, Operation, RpcId, http_json};

/// A whole answer, or the data of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    pub body: &'a [u8],
    /// The HTTP status of what is known to be an error without looking into the body; 200 of an event.
    pub failed: Option<u16>,
}

impl<'a> Told<'a> {
    /// A whole answer of a status.
    pub fn whole(status: u16, body: &'a [u8]) -> Self {
        let failed = !(200..300).contains(&status);
        Self {
            body,
            failed: failed.then_some(status),
        }
    }

    /// The data of an event, of which it is known whether it is an error.
    pub fn event(body: &'a [u8], failed: bool) -> Self {
        Self {
            body,
            failed: failed.then_some(200),
        }
    }
}

/// Reads what the agent of a dialect told. An error is told by its code in JSON-RPC, whatever the binding.
pub fn read(speaks: Dialect, told: Told<'_>, operation: Operation, limits: Limits) -> Result<Answer<'_>, AnswerError> {
    let Dialect { generation, binding } = speaks;
    match (binding, told.failed) {
        (Binding::JsonRpc, _) => jsonrpc::read_answer(told.body, generation, operation, limits),
        (Binding::HttpJson, None) => http_json::read_answer(told.body, false, generation, operation, limits),
        (Binding::HttpJson, Some(status)) => Ok(Answer {
            error: Some(http_json::read_fault(status, told.body).code),
            ..Answer::default()
        }),
        (Binding::Grpc, _) => Err(AnswerError {
            kind: AnswerErrorKind::NotObject,
            at: 0,
        }),
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

    fn told(binding: Binding, told: Told<'_>) -> Result<(Option<i64>, usize, bool), AnswerError> {
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
}
