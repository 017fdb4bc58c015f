//! A message of the gRPC binding, as every request and every answer. What must hold stands in `checks`.
#![no_main]

#[expect(dead_code, reason = "the checks of the other targets")]
#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::grpc::message(bytes));
