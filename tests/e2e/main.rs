//! The real gateway, real sockets: what callers, agents and operators see. See `tests/README.md`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test that cannot go on must fail, with the place in the message"
)]

mod adversarial;
mod conformance;
mod faults;
mod front_door;
mod harness;
mod lifecycle;
mod path;
mod security;
