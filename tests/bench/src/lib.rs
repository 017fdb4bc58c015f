//! What the benchmark's programs share: a readiness loop, an HTTP/1.1 message reader, the bodies and the clock.
//!
//! `agent` and `load` run on one core beside each other while the proxy under test has another to itself. Whatever they
//! cost is cost that hides the proxy's, so they use neither an async runtime nor an HTTP library. `bare` shares nothing
//! with them: it is the peer that the gateway is compared with and uses the gateway's libraries.

pub mod args;
pub mod card;
pub mod clock;
pub mod payload;
pub mod reactor;
pub mod wire;
