//! Errors, and the texts of headers.

use core::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::a2a::jsonrpc::code;
use crate::a2a::model::Fault;
use crate::a2a::model::wire::{Json, Text};

fn fault(code: i64, message: &str, details: Option<&Value>) -> Fault<'static> {
    Fault {
        code,
        message: Text::from(message.to_owned()),
        details: details.map(|details| Json::owned(details.to_string()).unwrap()),
    }
}

fn status(code: u32, message: &str) -> Status {
    Status {
        code,
        message: message.to_owned(),
        details: None,
    }
}

fn info(reason: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"})
}

/// The codes of all errors, with their status in 0.3 and in 1.0.1.
const CODES: [(i64, u32, u32); 14] = [
    (code::TASK_NOT_FOUND, 5, 5),
    (code::TASK_NOT_CANCELABLE, 9, 9),
    (code::PUSH_NOTIFICATION_NOT_SUPPORTED, 12, 9),
    (code::UNSUPPORTED_OPERATION, 12, 9),
    (code::CONTENT_TYPE_NOT_SUPPORTED, 12, 3),
    (code::INVALID_AGENT_RESPONSE, 13, 13),
    (code::EXTENDED_AGENT_CARD_NOT_CONFIGURED, 9, 9),
    (code::EXTENSION_SUPPORT_REQUIRED, 9, 9),
    (code::VERSION_NOT_SUPPORTED, 9, 9),
    (code::PARSE_ERROR, 3, 3),
    (code::INVALID_REQUEST, 3, 3),
    (code::METHOD_NOT_FOUND, 12, 12),
    (code::INVALID_PARAMS, 3, 3),
    (code::INTERNAL_ERROR, 13, 13),
];

#[test]
fn errors_are_told_by_their_class_in_0_3() {
    for (code, old, _) in CODES {
        let written = write_fault(V0_3, &fault(code, "no: such task", None));
        assert_eq!(written.code, old, "{code}");
        let (class, text) = written.message.split_once(": ").unwrap();
        assert!(class.ends_with("Error"), "{class}");
        assert_eq!(text, "no: such task", "{code}");
        // Servers of 0.3 have no details.
        let told = status(written.code, &written.message);
        assert_eq!(read_fault(&told), fault(code, "no: such task", None));
    }
    let written = write_fault(V0_3, &fault(code::TASK_NOT_FOUND, "x", None));
    assert_eq!(written.message, "TaskNotFoundError: x");
    assert_eq!(write_fault(V0_3, &fault(-31401, "x", None)), status(2, "x"));
}

#[test]
fn errors_are_told_by_their_reason_in_0_3_too() {
    for (code, ..) in CODES {
        let written = write_fault(V0_3, &fault(code, "x", None));
        let reason = code::any_reason(code).unwrap();
        assert_eq!(read_fault(&written), fault(code, "x", Some(&json!([info(reason)]))));
    }
    // What the reason says goes before the class, which may be somebody's text.
    let mut written = write_fault(V0_3, &fault(code::TASK_NOT_FOUND, "x", None));
    written.message = "InternalError: x".to_owned();
    assert_eq!(
        read_fault(&written),
        fault(
            code::TASK_NOT_FOUND,
            "InternalError: x",
            Some(&json!([info("TASK_NOT_FOUND")]))
        )
    );
}

#[test]
fn errors_are_told_by_their_reason_in_1_0() {
    for (code, _, new) in CODES {
        let written = write_fault(V1_0, &fault(code, "x: y", None));
        assert_eq!((written.code, &*written.message), (new, "x: y"), "{code}");
        let reason = code::any_reason(code).unwrap();
        assert_eq!(read_fault(&written), fault(code, "x: y", Some(&json!([info(reason)]))));
    }
    assert_eq!(write_fault(V1_0, &fault(-31401, "x", None)), status(2, "x"));
}

#[test]
fn details_come_through() {
    let details = json!([
        {"@type": "type.googleapis.com/google.rpc.BadRequest",
         "fieldViolations": [{"field": "message.parts", "description": "at least one"}]},
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org",
         "metadata": {"a": "b"}},
    ]);
    let sent = fault(code::INVALID_PARAMS, "x", Some(&details));
    assert_eq!(read_fault(&write_fault(V1_0, &sent)), sent);
}

#[test]
fn details_that_are_not_known_are_left_out() {
    let all = [info("TASK_NOT_FOUND")];
    for details in [
        json!("free"),
        json!({"a": 1}),
        json!([]),
        json!([1, "x", null, {}, {"@type": "type.googleapis.com/google.rpc.DebugInfo", "detail": "x"}]),
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": 1}]),
    ] {
        let written = write_fault(V1_0, &fault(code::TASK_NOT_FOUND, "x", Some(&details)));
        assert_eq!(
            read_fault(&written),
            fault(code::TASK_NOT_FOUND, "x", Some(&json!(all))),
            "{details}"
        );
    }
    // Against the type, but written by some.
    let metadata = json!({"n": 1, "b": true, "o": {"a": null}, "t": "x"});
    let mut given = info("TASK_NOT_FOUND");
    given["metadata"] = metadata;
    let got = read_fault(&write_fault(
        V1_0,
        &fault(code::TASK_NOT_FOUND, "x", Some(&json!([given]))),
    ));
    let got: Value = serde_json::from_str(got.details.unwrap().get()).unwrap();
    assert_eq!(
        got[0]["metadata"],
        json!({"n": "1", "b": "true", "o": r#"{"a":null}"#, "t": "x"})
    );
    // Of another domain it is no error of the protocol.
    let other =
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "x"}]);
    let written = write_fault(V1_0, &fault(-31401, "x", Some(&other)));
    assert_eq!(read_fault(&written), fault(code::INTERNAL_ERROR, "x", Some(&other)));
}

#[test]
fn other_errors_are_what_their_status_says() {
    for (number, code) in [
        (0, code::INTERNAL_ERROR),
        (1, code::INTERNAL_ERROR),
        (2, code::INTERNAL_ERROR),
        (3, code::INVALID_PARAMS),
        (4, code::INTERNAL_ERROR),
        (5, code::TASK_NOT_FOUND),
        (7, code::INTERNAL_ERROR),
        (9, code::INTERNAL_ERROR),
        (12, code::UNSUPPORTED_OPERATION),
        (13, code::INTERNAL_ERROR),
        (14, code::INTERNAL_ERROR),
        (16, code::INTERNAL_ERROR),
        (u32::MAX, code::INTERNAL_ERROR),
    ] {
        for text in [
            "",
            "Unexpected <class 'ValueError'>: x",
            "TaskNotFoundError",
            "x TaskNotFoundError: y",
        ] {
            assert_eq!(read_fault(&status(number, text)), fault(code, text, None), "{number}");
        }
        for details in [&[][..], &[0xff], &[0x1a, 2, 0x0a, 9]] {
            let broken = Status {
                details: Some(bytes::Bytes::copy_from_slice(details)),
                ..status(number, "x")
            };
            assert_eq!(read_fault(&broken), fault(code, "x", None));
        }
    }
}

#[test]
fn messages_are_percent_encoded() {
    for (message, header) in [
        ("", ""),
        ("plain text, (with) ~marks~", "plain text, (with) ~marks~"),
        ("100%", "100%25"),
        ("a\nb\tc\u{7f}", "a%0Ab%09c%7F"),
        ("zażółć 🚢", "za%C5%BC%C3%B3%C5%82%C4%87 %F0%9F%9A%A2"),
    ] {
        assert_eq!(encode_message(message), header);
        assert_eq!(decode_message(header.as_bytes()), message);
    }
    for (header, message) in [
        (&b"%c5%bC"[..], "ż"),
        (b"%", "%"),
        (b"%4", "%4"),
        (b"%zz%41", "%zzA"),
        (b"%%41", "%A"),
        (b"%+1", "%+1"),
        (b"%FF", "\u{fffd}"),
        (b"\xff", "\u{fffd}"),
    ] {
        assert_eq!(decode_message(header), message);
    }
}

#[test]
fn details_are_base64_padded_or_not() {
    for (details, header) in [
        (&b""[..], ""),
        (b"a", "YQ"),
        (b"ab", "YWI"),
        (b"abc", "YWJj"),
        (&[0xfb, 0xff], "+/8"),
    ] {
        assert_eq!(encode_details(details), header);
        assert_eq!(decode_details(header.as_bytes()).as_deref(), Some(details));
        let padded = format!("{header}{}", "=".repeat((4 - header.len() % 4) % 4));
        assert_eq!(decode_details(padded.as_bytes()).as_deref(), Some(details));
    }
    for header in ["Y", "Y Q", "YQ,YQ", "-_8", "=", "\u{0}"] {
        assert_eq!(decode_details(header.as_bytes()), None, "{header}");
    }
}

#[test]
fn timeouts_are_read() {
    for (text, expected) in [
        ("1H", Some(Duration::from_secs(3600))),
        ("2M", Some(Duration::from_secs(120))),
        ("3S", Some(Duration::from_secs(3))),
        ("4m", Some(Duration::from_millis(4))),
        ("5u", Some(Duration::from_micros(5))),
        ("6n", Some(Duration::from_nanos(6))),
        ("0S", Some(Duration::ZERO)),
        ("00000001S", Some(Duration::from_secs(1))),
        ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
        ("100000000n", None),
        ("S", None),
        ("", None),
        ("1", None),
        ("1s", None),
        ("1h", None),
        ("-1S", None),
        ("+1S", None),
        ("1.5S", None),
        (" 1S", None),
        ("1S ", None),
        ("1é", None),
        ("1SS", None),
    ] {
        assert_eq!(read_timeout(text), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn any_message_comes_through(message in any::<String>(), header in proptest::collection::vec(any::<u8>(), 0..40)) {
        let encoded = encode_message(&message);
        prop_assert!(encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(decode_message(encoded.as_bytes()), message.clone());
        let _read = decode_message(&header);
        let _read = decode_details(&header);
        let _read = read_timeout(&message);
    }

    #[test]
    fn no_details_panic_a_reader(code in 0_u32..20, message in ".{0,20}", details in wire_like()) {
        let details = Some(bytes::Bytes::from(details));
        let fault = read_fault(&Status { code, message, details });
        for generation in Generation::SPOKEN {
            prop_assert_eq!(read_fault(&write_fault(generation, &fault)).code, fault.code);
        }
    }
}
