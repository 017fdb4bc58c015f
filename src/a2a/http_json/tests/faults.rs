//! Errors of all forms.

use super::*;
use crate::a2a::jsonrpc::code;
use crate::a2a::model::Fault;
use crate::a2a::model::wire::{Json, Text};

fn read(status: u16, body: &str, code: i64, message: &str, details: Option<&str>) {
    let fault = read_fault(status, body.as_bytes());
    assert_eq!(fault.code, code, "{status} {body}");
    assert_eq!(fault.message.as_str(), message, "{status} {body}");
    assert_eq!(
        fault.details.as_ref().map(|details| details.get()),
        details,
        "{status} {body}"
    );
}

const INFO: &str = r#"[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"VERSION_NOT_SUPPORTED","domain":"a2a-protocol.org"}]"#;

#[test]
fn a_reason_decides_then_a_code_then_the_status() {
    let aip = |rest: &str| format!(r#"{{"error":{{"code":400,"status":"FAILED_PRECONDITION","message":"m"{rest}}}}}"#);
    read(400, &aip(&format!(r#","details":{INFO}"#)), -32009, "m", Some(INFO));
    read(500, &aip(&format!(r#","details":{INFO}"#)), -32009, "m", Some(INFO));
    let both = aip(
        r#","details":[{"@type":"x/google.rpc.BadRequest"},{"@type":"google.rpc.ErrorInfo","reason":"INVALID_PARAMS"}]"#,
    );
    assert_eq!(read_fault(400, both.as_bytes()).code, -32602);
    read(400, &aip(""), -32602, "m", None);
    // Of a later version.
    let draft = r#"[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_GENERATION_MISMATCH"}]"#;
    read(409, &aip(&format!(r#","details":{draft}"#)), -32600, "m", Some(draft));
    read(
        400,
        r#"{"code":-32001,"message":"m","data":{"a":1}}"#,
        -32001,
        "m",
        Some(r#"{"a":1}"#),
    );
    read(
        500,
        r#"{"jsonrpc":"2.0","error":{"code":-32002,"message":"m"}}"#,
        -32002,
        "m",
        None,
    );
}

#[test]
fn the_status_tells_what_the_body_does_not() {
    let python = |status, code| read(status, r#"{"message":"m"}"#, code, "m", None);
    python(404, code::TASK_NOT_FOUND);
    python(409, code::TASK_NOT_CANCELABLE);
    python(415, code::CONTENT_TYPE_NOT_SUPPORTED);
    python(422, code::INVALID_PARAMS);
    python(501, code::UNSUPPORTED_OPERATION);
    python(502, code::INVALID_AGENT_RESPONSE);
    python(500, code::INTERNAL_ERROR);
    python(503, code::INTERNAL_ERROR);
    python(429, -31429);
    // However an agent calls it: it is the gateway that numbers so.
    read(500, r#"{"code":-31429,"message":"m"}"#, code::INTERNAL_ERROR, "m", None);
    read(200, r#"{"code":-31401,"message":"m"}"#, -31401, "m", None);
    // What frameworks and proxies answer themselves.
    read(
        404,
        r#"{"detail":"Not Found"}"#,
        code::UNSUPPORTED_OPERATION,
        "Not Found",
        None,
    );
    read(
        405,
        r#"{"detail":"Method Not Allowed"}"#,
        code::UNSUPPORTED_OPERATION,
        "Method Not Allowed",
        None,
    );
    read(404, "<!DOCTYPE html>", code::UNSUPPORTED_OPERATION, "", None);
    read(404, "", code::UNSUPPORTED_OPERATION, "", None);
    read(502, "bad gateway", code::INTERNAL_ERROR, "", None);
    read(
        403,
        r#"{"error":"insufficient_scope"}"#,
        code::INTERNAL_ERROR,
        "insufficient_scope",
        None,
    );
    // An event has no status but the one that it repeats.
    read(
        200,
        r#"{"error":{"code":404,"message":"m"}}"#,
        code::TASK_NOT_FOUND,
        "m",
        None,
    );
    read(
        200,
        r#"{"error":{"code":"x","message":7}}"#,
        code::INTERNAL_ERROR,
        "",
        None,
    );
    read(200, "", code::INTERNAL_ERROR, "", None);
}

#[test]
fn problem_documents_are_read() {
    let problem = r#"{"type":"https://a2a-protocol.org/errors/version-not-supported","title":"Not Supported","status":400,
        "detail":"0.5 is not spoken here"}"#;
    read(400, problem, -32009, "0.5 is not spoken here", None);
    read(
        404,
        r#"{"type":"about:blank","title":"Not Found"}"#,
        -32001,
        "Not Found",
        None,
    );
}

fn fault(code: i64, details: Option<&str>) -> Fault<'static> {
    Fault {
        code,
        message: Text::from("m"),
        details: details.and_then(|details| Json::owned(details.to_owned())),
    }
}

fn write(generation: Generation, fault: &Fault<'_>) -> (u16, Value) {
    let mut out = Vec::new();
    let status = write_fault(generation, fault, &mut out);
    (status, serde_json::from_slice(&out).unwrap())
}

#[test]
fn errors_have_the_statuses_of_the_table() {
    let known = |code: i64, old: u16, new: u16, name: &str, reason: &str| {
        let (status, body) = write(V0_3, &fault(code, None));
        assert_eq!((status, body), (old, json!({"code": code, "message": "m"})), "{code}");
        let (status, body) = write(V1_0, &fault(code, None));
        let info = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}]);
        let expected = json!({"error": {"code": new, "status": name, "message": "m", "details": info}});
        assert_eq!((status, body), (new, expected), "{code}");
    };
    known(-32001, 404, 404, "NOT_FOUND", "TASK_NOT_FOUND");
    known(-32002, 409, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE");
    known(
        -32003,
        501,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    );
    known(-32004, 501, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION");
    known(-32005, 415, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED");
    known(-32006, 502, 500, "INTERNAL", "INVALID_AGENT_RESPONSE");
    known(
        -32007,
        404,
        400,
        "FAILED_PRECONDITION",
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    );
    known(-32008, 400, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED");
    known(-32009, 400, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED");
    known(-32600, 400, 400, "INVALID_ARGUMENT", "INVALID_REQUEST");
    known(-32601, 404, 404, "NOT_FOUND", "METHOD_NOT_FOUND");
    known(-32602, 400, 400, "INVALID_ARGUMENT", "INVALID_PARAMS");
    known(-32700, 400, 400, "INVALID_ARGUMENT", "PARSE_ERROR");
    known(-32603, 500, 500, "INTERNAL", "INTERNAL_ERROR");
}

#[test]
fn codes_that_are_none_of_the_protocol_are_internal_errors() {
    for (code, status, name) in [
        // Told by a status alone.
        (-31429, 429, "RESOURCE_EXHAUSTED"),
        // As the gateway numbers its own.
        (-31401, 500, "INTERNAL"),
        (-31403, 500, "INTERNAL"),
        (-31503, 500, "INTERNAL"),
        (-31000, 500, "INTERNAL"),
        (-31600, 500, "INTERNAL"),
        (-1, 500, "INTERNAL"),
        (i64::MIN, 500, "INTERNAL"),
        (i64::MAX, 500, "INTERNAL"),
    ] {
        let expected = json!({"error": {"code": status, "status": name, "message": "m"}});
        assert_eq!(write(V1_0, &fault(code, None)), (status, expected));
        assert_eq!(write(V0_3, &fault(code, None)).0, status);
    }
}

#[test]
fn details_are_a_list_of_typed_objects_in_1_0() {
    let details = |details: &str| write(V1_0, &fault(-32001, Some(details))).1["error"]["details"].clone();
    let typed = r#"[{"@type":"a.example/b","x":1}]"#;
    assert_eq!(details(typed), serde_json::from_str::<Value>(typed).unwrap());
    for free in [r#"{"a":1}"#, r#""text""#, r#"[{"a":1}]"#, "[7]"] {
        assert_eq!(details(free)[0]["reason"], "TASK_NOT_FOUND", "{free}");
        assert_eq!(write(V0_3, &fault(-32001, Some(free))).1["data"].to_string(), free);
    }
}

#[test]
fn what_was_written_is_read() {
    for generation in Generation::SPOKEN {
        for code in (-32010..=-32000).chain(-32700..=-32600).chain([-31401, -31429]) {
            let written = fault(code, None);
            let mut out = Vec::new();
            let status = write_fault(generation, &written, &mut out);
            let known = generation == V0_3 || code::any_reason(code).is_some() || code == -31429;
            let expected = if known { code } else { code::INTERNAL_ERROR };
            assert_eq!(read_fault(status, &out).code, expected, "{generation} {code}");
            assert_eq!(read_fault(status, &out).message.as_str(), "m");
        }
    }
}

#[test]
fn an_agents_own_errors_are_told_from_pages() {
    let check = |status: u16, body: &str, expected: (bool, bool)| {
        let body = body.as_bytes();
        assert_eq!(
            (is_fault(status, body), is_of_agent(status, body)),
            expected,
            "{status}"
        );
    };
    let named = r#"{"error":{"code":502,"message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",
        "reason":"INVALID_AGENT_RESPONSE","domain":"a2a-protocol.org"}]}}"#;
    check(404, r#"{"message":"Task not found"}"#, (true, true));
    check(500, r#"{"error":{"code":500,"message":"boom"}}"#, (true, true));
    check(501, "Not Implemented", (true, true));
    check(405, "", (true, true));
    // What proxies say for an agent that does not answer has the form too.
    check(
        503,
        r#"{"error":{"code":503,"message":"no healthy upstream"}}"#,
        (true, false),
    );
    check(502, named, (true, true));
    check(404, "<h1>Not Found</h1>", (false, false));
    check(404, r#"{"detail":"Not Found"}"#, (false, false));
    check(500, "Internal Server Error", (false, false));
}
