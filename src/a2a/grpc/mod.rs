//! The messages of the gRPC binding of A2A 0.3 (`a2a.v1.A2AService`, also of 0.2) and 1.0 (`lf.a2a.v1.A2AService`): which call
//! a message asks for, what an answer reveals, and both as the canonical model.
//!
//! For calls that are passed on, ids are read from the bytes where they stand (`call`, `answer`). Only what is translated is
//! decoded whole. Streams and trailers are the caller's: no sockets, no HTTP here.

mod answer;
mod call;
mod frame;
mod methods;
mod name;
#[cfg(test)]
mod tests;
mod wire;

pub use answer::{AnswerError, read_answer};
pub use call::{CallError, read_call};
pub use frame::{FrameError, Frames, PREFIX_BYTES, frame};
pub use methods::{Method, method, path};
pub use wire::WireError;
