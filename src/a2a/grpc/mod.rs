//! The messages of the gRPC binding of A2A 0.3 (`a2a.v1.A2AService`, also of 0.2) and 1.0 (`lf.a2a.v1.A2AService`): which call
//! a message asks for, what an answer reveals, and both as the canonical model.
//!
//! The ids of a call are read from the bytes where they stand (`call`), before it is decoded whole. Streams and trailers are
//! whoever has the connection's: no sockets, no HTTP here.

mod answer;
mod call;
mod card;
mod convert;
mod fault;
mod frame;
mod health;
mod methods;
mod name;
mod status;
#[cfg(test)]
mod tests;
mod v0_3;
mod v1_0;
mod value;
mod wire;

pub use super::model::Error;
pub use answer::{AnswerError, read_answer};
pub use call::{CallError, read_call, read_tenant, with_tenant};
pub use fault::{read_fault, write_fault, write_refusal};
pub use frame::{FrameError, Frames, PREFIX_BYTES, frame, only_message};
pub use health::{HEALTH, is_serving};
pub use methods::{Method, generation, method, path};
pub use status::{Status, decode_details, decode_message, encode_details, encode_message, read_timeout, write_timeout};
pub use wire::WireError;

use super::model::{Request, Response};
use super::{Generation, Operation};

/// Reads the request of a call.
pub fn read_request(generation: Generation, operation: Operation, message: &[u8]) -> Result<Request<'static>, Error> {
    match generation {
        Generation::V0_1 | Generation::V0_3 => v0_3::read_request(operation, message),
        Generation::V1_0 => v1_0::read_request(operation, message),
    }
}

/// Writes the request of a call.
pub fn write_request(generation: Generation, request: Request<'_>) -> Result<Vec<u8>, Error> {
    match generation {
        Generation::V0_1 | Generation::V0_3 => v0_3::write_request(request),
        Generation::V1_0 => v1_0::write_request(request),
    }
}

/// Reads the answer to a call, or one message of its stream.
pub fn read_response(generation: Generation, operation: Operation, message: &[u8]) -> Result<Response<'static>, Error> {
    match generation {
        Generation::V0_1 | Generation::V0_3 => v0_3::read_response(operation, message),
        Generation::V1_0 => v1_0::read_response(operation, message),
    }
}

/// Writes the answer to a call, or one message of its stream.
pub fn write_response(generation: Generation, operation: Operation, response: Response<'_>) -> Result<Vec<u8>, Error> {
    match generation {
        Generation::V0_1 | Generation::V0_3 => v0_3::write_response(operation, response),
        Generation::V1_0 => v1_0::write_response(operation, response),
    }
}

/// The message of an answer as the JSON of the model; of a card as that of its generation.
pub fn to_json(generation: Generation, operation: Operation, message: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(2 * message.len());
    read_response(generation, operation, message)?.write(&mut out)?;
    Ok(out)
}

/// The same back.
pub fn from_json(generation: Generation, operation: Operation, json: &[u8]) -> Result<Vec<u8>, Error> {
    let text = std::str::from_utf8(json).map_err(|_| Error::Malformed)?;
    write_response(generation, operation, Response::read(operation, text)?)
}

impl From<prost::DecodeError> for Error {
    fn from(_: prost::DecodeError) -> Self {
        Self::Malformed
    }
}
