//! What the gateway does with callers who mean harm, or who are broken enough to look like it.
//!
//! Every refusal is checked whole, see `site::Site::refused`: status, JSON-RPC code or plain form, id, header fields, the
//! closed reason in the metric and in the access record, that nothing reached the agent, and that the next caller is served.
//! Where bytes matter they are written to the socket as they are, with no client library in between.

mod connections;
mod credentials;
mod flood;
mod frames;
mod head;
mod http2;
mod json;
mod jwt;
mod limits;
mod log;
mod pipelining;
mod readers;
mod site;
mod size;
mod time;
mod tls;
pub mod wire;
