//! `CLOCK_MONOTONIC` as nanoseconds: one timeline for every process of the machine.
//!
//! `std::time::Instant` reads the same clock but does not show its number, so two processes could not compare.

use rustix::time::{ClockId, Timespec, clock_gettime};

const SECOND: u64 = 1_000_000_000;

#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Both parts are positive: the clock counts from boot.
    now.tv_sec.unsigned_abs() * SECOND + now.tv_nsec.unsigned_abs()
}

#[must_use]
pub fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / SECOND).cast_signed(),
        tv_nsec: (ns % SECOND).cast_signed(),
    }
}
