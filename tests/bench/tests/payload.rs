//! Bodies have the size that is asked for and are valid JSON.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use a2a_gateway_bench::payload::{self, Plan, Target};
use serde_json::Value;

fn target() -> Target {
    Target {
        authority: "127.0.0.1:1".to_owned(),
        path: "/agents/bench".to_owned(),
        credential: Some("X-API-Key: secret".to_owned()),
        old: false,
    }
}

fn body(request: &payload::Request) -> (String, Value) {
    let text = String::from_utf8(request.bytes.clone()).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert!(head.contains("X-API-Key: secret"), "{head}");
    let parsed = serde_json::from_str(body).expect("JSON");
    (body.to_owned(), parsed)
}

#[test]
fn a_message_has_exactly_the_size_asked_for() {
    for old in [false, true] {
        let target = Target { old, ..target() };
        for size in (512..4096).chain([65_536]) {
            let (text, _) = body(&payload::send_message(&target, size));
            assert_eq!(text.len(), size);
        }
    }
}

#[test]
fn a_long_message_has_many_parts() {
    let (_, parsed) = body(&payload::send_message(&target(), 65_536));
    let parts = parsed.pointer("/params/message/parts").and_then(Value::as_array);
    assert_eq!(parts.map(Vec::len), Some(64));
}

#[test]
fn every_call_has_its_own_ids() {
    let mut request = payload::send_message(&target(), 1024);
    request.number(0xabc);
    let (_, parsed) = body(&request);
    for pointer in ["/id", "/params/message/messageId"] {
        let id = parsed.pointer(pointer).and_then(Value::as_str);
        assert_eq!(id, Some("bench-0000000000000abc"), "{pointer}");
    }
}

#[test]
fn a_plan_comes_through_as_text() {
    let plan = Plan {
        events: 7,
        interval_us: 10_000,
        bytes: 256,
    };
    let (_, parsed) = body(&payload::send_streaming_message(&target(), plan));
    let text = parsed
        .pointer("/params/metadata/bench")
        .and_then(Value::as_str)
        .expect("a plan");
    assert_eq!(Plan::from_text(text), plan);
}

#[test]
fn a_card_is_asked_for_under_its_agent() {
    let open = Target {
        credential: None,
        ..target()
    };
    let text = |request: payload::Request| String::from_utf8(request.bytes).expect("UTF-8");
    assert_eq!(
        text(payload::get_card(&open, None)),
        "GET /agents/bench/.well-known/agent-card.json HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAccept: application/json\r\n\
         A2A-Version: 1.0\r\n\r\n"
    );
    let root = Target {
        path: "/".to_owned(),
        ..target()
    };
    let known = text(payload::get_card(&root, Some("\"a\"")));
    assert!(
        known.starts_with("GET /.well-known/agent-card.json HTTP/1.1\r\n"),
        "{known}"
    );
    for field in ["\r\nIf-None-Match: \"a\"\r\n", "\r\nX-API-Key: secret\r\n"] {
        assert!(known.contains(field), "{known}");
    }
}
