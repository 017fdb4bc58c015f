//! Serving and calling HTTP: what the libraries let through is refused here.
//!
//! `framing` guards the bytes of HTTP/1.1 connections, `hygiene` the parsed head and what is forwarded of it, `hops` whether a call goes in a circle, `body` is the
//! only reader of whole bodies, `serve` runs one downstream connection, `activity` knows what it is busy with, `streams`
//! runs those of HTTP/2, `fetch` is the small client for cards and keys, `asking` asks services with it, `form` writes what token
//! servers read, `query` reads the query of a target, `grpc` what gRPC says beside its messages.

mod activity;
pub mod asking;
pub mod body;
pub mod fetch;
pub mod form;
pub mod forwarded;
pub mod framing;
pub mod grpc;
pub mod hops;
pub mod hygiene;
pub mod panic;
pub mod query;
pub mod serve;
mod streams;
#[cfg(test)]
mod tests;
mod woken;
