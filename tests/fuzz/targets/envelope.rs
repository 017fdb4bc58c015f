//! A body, read as a message of the envelope protocol. What must hold stands in `checks`.
#![no_main]

#[expect(dead_code, reason = "the checks of the other targets")]
#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::envelope(bytes));
