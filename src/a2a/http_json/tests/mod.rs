//! Requests, answers and errors over HTTP+JSON: tables, and what holds for anything.

mod answers;
mod calls;
mod faults;
mod generated;
mod requests;
mod targets;

use serde_json::{Value, json};

use super::*;
use crate::a2a::Generation::{self, V0_3, V1_0};
use crate::a2a::Operation;
use crate::a2a::model::{Request, Response};
use crate::a2a::translate::Error;

/// The target of a path that is one.
fn target(method: &str, path: &str, served: &[Generation]) -> Target {
    read_target(method, path, served).unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))
}

/// The body of a response, as a value.
fn written(generation: Generation, response: Response<'_>) -> Result<Value, Error> {
    let mut out = Vec::new();
    write_response(generation, response, &mut out)?;
    Ok(serde_json::from_slice(&out).unwrap())
}

/// A request as it would be sent: method, path, query, body.
fn sent(written: &Written) -> (&'static str, &str, Option<&str>, Value) {
    let body = if written.body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&written.body).unwrap()
    };
    (written.verb.as_str(), &written.path, written.query.as_deref(), body)
}

fn message_1_0() -> Value {
    json!({
        "messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "ROLE_USER",
        "parts": [
            {"text": "berth for 120 m"},
            {"raw": "SGFyYm91cg==", "mediaType": "text/plain"},
            {"url": "https://files.example/a.pdf", "mediaType": "application/pdf"},
            {"data": {"loa": 120, "imo": 9_007_199_254_740_993_u64}},
        ],
        "metadata": {"trace": 1}, "extensions": ["https://ext.example/1"],
    })
}

fn message_0_3() -> Value {
    json!({
        "messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "ROLE_USER",
        "content": [
            {"text": "berth for 120 m"},
            {"file": {"fileWithBytes": "SGFyYm91cg==", "mimeType": "text/plain"}},
            {"file": {"fileWithUri": "https://files.example/a.pdf", "mimeType": "application/pdf"}},
            {"data": {"data": {"loa": 120, "imo": 9_007_199_254_740_993_u64}}},
        ],
        "metadata": {"trace": 1}, "extensions": ["https://ext.example/1"],
    })
}
