//! What an answer, or the data of one event, reveals, and its translation. The body is what JSON-RPC has in `result`.

use super::fault;
use crate::a2a::json::{Lenient, Limits};
use crate::a2a::jsonrpc::{Answer, AnswerError, Variants, read_result};
use crate::a2a::model::Response;
use crate::a2a::translate::Error;
use crate::a2a::v0_3::rest;
use crate::a2a::{Generation, Operation};

/// Reads an answer to a call. `is_error`: its status is no success, or the event says that it is an error; such an answer is
/// never broken, only without a code.
pub fn read_answer(
    body: &[u8],
    is_error: bool,
    generation: Generation,
    operation: Operation,
    limits: Limits,
) -> Result<Answer<'_>, AnswerError> {
    let failed = |code: Option<i64>| Answer {
        error: Some(code.unwrap_or(0)),
        ..Answer::default()
    };
    if is_error {
        return Ok(failed(fault::read_code(body)));
    }
    let mut answer = Answer {
        has_result: true,
        ..Answer::default()
    };
    // Some servers answer a delete with nothing, some with an empty object.
    if body.is_empty() && operation == Operation::PushDelete {
        return Ok(answer);
    }
    let variants = match generation {
        Generation::V0_1 | Generation::V0_3 => Variants::MembersAndFinal,
        Generation::V1_0 => Variants::Members,
    };
    let mut cursor = Lenient::new(body, limits)?;
    read_result(&mut cursor, variants, operation, &mut answer)?;
    cursor.finish()?;
    // Agents in Go write an error as an event like the others.
    if answer.is_strange && fault::is_wrapped(body) {
        return Ok(failed(fault::read_code(body)));
    }
    Ok(answer)
}

/// Reads the body of an answer that is no error, or the data of an event, for translation.
pub fn read_response(generation: Generation, operation: Operation, body: &[u8]) -> Result<Response<'_>, Error> {
    if operation == Operation::PushDelete {
        return Ok(Response::Nothing);
    }
    let text = std::str::from_utf8(body).map_err(|_| Error::Malformed)?;
    match generation {
        Generation::V0_1 | Generation::V0_3 => rest::read_response(operation, text),
        Generation::V1_0 => Ok(Response::read(operation, text)?),
    }
}

/// Writes the body of an answer with status 200, or the data of an event.
pub fn write_response(generation: Generation, response: Response<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match (response, generation) {
        // `google.protobuf.Empty`
        (Response::Nothing, _) => out.extend_from_slice(b"{}"),
        (response, Generation::V0_1 | Generation::V0_3) => rest::write_response(response, out)?,
        (response, Generation::V1_0) => response.write(out)?,
    }
    Ok(())
}
