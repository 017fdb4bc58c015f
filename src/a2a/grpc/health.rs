//! The question whether a server works, as servers of gRPC answer it (`grpc.health.v1`).

use super::status::Status;
use super::wire::{WireError, walk};

pub const HEALTH: &str = "/grpc.health.v1.Health/Check";

const SERVING: u64 = 1;
const UNAVAILABLE: u32 = 14;

/// The server works: it says so, or anything else than that it does not, as those without this service do.
pub fn is_serving(message: &[u8], status: &Status) -> bool {
    if status.code != 0 {
        return status.code != UNAVAILABLE;
    }
    let mut told = 0;
    let read = walk(message, |number, field| {
        if number == 1 {
            told = field.enumerated()?;
        }
        Ok::<_, WireError>(())
    });
    read.is_ok() && told == SERVING
}
