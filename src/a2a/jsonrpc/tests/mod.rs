//! Requests and answers of A2A 0.3 and 1.0 as JSON-RPC carries them.

mod answers;
mod requests;
