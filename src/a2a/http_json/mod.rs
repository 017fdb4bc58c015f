//! The HTTP+JSON binding of A2A 0.3 (§3.2.3) and 1.0 (§11): which call a request asks for, what an answer reveals, and both
//! directions of requests, answers and errors for translation.
//!
//! Pure: methods, paths, queries and bodies are text, status codes are numbers. Paths are read and written by one table
//! (`target`). What two readers could read differently is refused: a path that means something else once its escapes are
//! undone, ids that stand in several places and differ. Bodies of 1.0 are the canonical model's own form; those of 0.3 have
//! types of their own (`v0_3::rest`).

mod answer;
mod call;
mod fault;
mod percent;
mod query;
mod request;
mod target;
#[cfg(test)]
mod tests;

use std::fmt;

pub use answer::{read_answer, read_response, write_response};
pub use call::read_call;
pub use fault::{TOO_MANY_REQUESTS, is_fault, is_of_agent, read_fault, write_fault};
pub use percent::{decode_form, encoded};
pub use request::{Written, read_request, write_request};
pub use target::{EXTENDED_CARD_OF_0_2, Target, TargetError, read_target};

/// A method of HTTP that this binding has a use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    pub const ALL: [Self; 3] = [Self::Get, Self::Post, Self::Delete];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
