//! What answers reveal, how errors are read and written, and which answers are refused.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::a2a::Generation::{V0_1, V0_3, V1_0};
use crate::a2a::json::{self, Limits};
use crate::a2a::jsonrpc::*;
use crate::a2a::{Operation, Revealed, RpcId, TaskState};

/// What an answer reveals: task, context, state; `-` for none.
fn reveals(
    result: &str,
    generation: crate::a2a::Generation,
    operation: Operation,
    expected: &[(&str, &str, Option<TaskState>)],
) {
    let body = format!(r#"{{"id":7,"result":{result},"jsonrpc":"2.0"}}"#);
    let answer = read_answer(body.as_bytes(), generation, operation, Limits::default()).unwrap();
    assert_eq!((answer.id, answer.has_result, answer.error), (Some("7"), true, None));
    let got: Vec<_> = answer
        .revealed
        .iter()
        .map(|Revealed { task, context, state }| {
            (
                task.as_ref().map_or("-", |id| id.as_str()),
                context.as_ref().map_or("-", |id| id.as_str()),
                *state,
            )
        })
        .collect();
    assert_eq!(got, expected, "{result}");
}

#[test]
fn answers_of_0_1_reveal_the_task_of_their_id() {
    use TaskState::{Completed, Working};
    for (result, expected, is_final) in [
        (
            r#"{"id":"t","sessionId":"s","status":{"state":"working"},"contextId":"x","taskId":"x"}"#,
            &[("t", "s", Some(Working))][..],
            false,
        ),
        (
            r#"{"id":"t","status":{"state":"completed","message":{"id":"x","sessionId":"x"}},"final":true}"#,
            &[("t", "-", Some(Completed))],
            true,
        ),
        (r#"{"id":"t","artifact":{"id":"x"}}"#, &[("t", "-", None)], false),
        (
            r#"{"kind":"message","messageId":"m","id":"t"}"#,
            &[("t", "-", None)],
            false,
        ),
    ] {
        for operation in [
            Operation::Send,
            Operation::Stream,
            Operation::Get,
            Operation::Cancel,
            Operation::Subscribe,
        ] {
            reveals(result, V0_1, operation, expected);
            let body = format!(r#"{{"id":7,"result":{result},"jsonrpc":"2.0"}}"#);
            let answer = read_answer(body.as_bytes(), V0_1, operation, Limits::default()).unwrap();
            assert_eq!((answer.is_final, answer.is_strange), (is_final, false), "{result}");
        }
    }
    for strange in [
        r#"{"sessionId":"s","status":{"state":"working"}}"#,
        r#"{"taskId":"t"}"#,
        "[]",
    ] {
        let body = format!(r#"{{"id":7,"result":{strange}}}"#);
        let answer = read_answer(body.as_bytes(), V0_1, Operation::Send, Limits::default()).unwrap();
        assert!(answer.is_strange, "{strange}");
    }
    let twice = br#"{"id":7,"result":{"id":"t","sessionId":"s","id":"u"}}"#;
    assert!(read_answer(twice, V0_1, Operation::Get, Limits::default()).is_err());
    reveals(
        r#"{"id":"t","pushNotificationConfig":{}}"#,
        V0_1,
        Operation::PushGet,
        &[],
    );
}

#[test]
fn answers_of_0_3_reveal_by_their_kind() {
    use TaskState::{Canceled, InputRequired, Unknown, Working};
    for (result, expected) in [
        (
            r#"{"kind":"task","id":"t","contextId":"c","status":{"state":"working","message":{"taskId":"x","state":"y"}},"history":[{"taskId":"x"}]}"#,
            &[("t", "c", Some(Working))][..],
        ),
        (
            r#"{"id":"t","status":{"state":"canceled"},"contextId":"c","kind":"task"}"#,
            &[("t", "c", Some(Canceled))],
        ),
        (
            r#"{"kind":"message","messageId":"m","taskId":"t","contextId":"c"}"#,
            &[("t", "c", None)],
        ),
        (
            r#"{"kind":"message","messageId":"m","contextId":"c","id":"x"}"#,
            &[("-", "c", None)],
        ),
        (r#"{"kind":"message","messageId":"m"}"#, &[]),
        (
            r#"{"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"input-required"},"final":false}"#,
            &[("t", "c", Some(InputRequired))],
        ),
        (
            r#"{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"a"}}"#,
            &[("t", "c", None)],
        ),
        (r#"{"kind":"new-kind","taskId":"t","id":"x"}"#, &[("t", "-", None)]),
        // Without a kind.
        (
            r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}"#,
            &[("t", "c", Some(Working))],
        ),
        (
            r#"{"taskId":"t","contextId":"c","status":{"state":"odd"}}"#,
            &[("t", "c", Some(Unknown))],
        ),
        (r#"{"id":"x"}"#, &[]),
        // Of the wrong kinds.
        (r#"{"kind":"task","id":7,"contextId":null,"status":"working"}"#, &[]),
        (
            r#"{"kind":"task","id":"","contextId":"","status":{"state":7}}"#,
            &[("-", "-", Some(Unknown))],
        ),
        ("null", &[]),
        ("[1]", &[]),
        (r#""x""#, &[]),
    ] {
        for operation in [Operation::Send, Operation::Stream, Operation::Subscribe] {
            reveals(result, V0_3, operation, expected);
        }
    }
}

#[test]
fn what_a_get_or_a_cancel_answers_is_a_task_whatever_it_says() {
    for result in [
        r#"{"kind":"task","id":"t","contextId":"c"}"#,
        r#"{"kind":"message","messageId":"m","id":"t","taskId":"x","contextId":"c"}"#,
        r#"{"kind":"status-update","taskId":"x","id":"t","contextId":"c"}"#,
        r#"{"task_id":"x","id":"t","contextId":"c"}"#,
    ] {
        for operation in [Operation::Get, Operation::Cancel] {
            for generation in crate::a2a::Generation::SPOKEN {
                reveals(result, generation, operation, &[("t", "c", None)]);
            }
        }
    }
}

#[test]
fn answers_of_1_0_reveal_by_their_member() {
    use TaskState::{AuthRequired, Completed, Failed};
    for (result, expected) in [
        (
            r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}"#,
            &[("t", "c", Some(Completed))][..],
        ),
        (
            r#"{"message":{"messageId":"m","taskId":"t","contextId":"c"}}"#,
            &[("t", "c", None)],
        ),
        (
            r#"{"message":{"messageId":"m","contextId":"c","id":"x"}}"#,
            &[("-", "c", None)],
        ),
        (
            r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_FAILED"}}}"#,
            &[("t", "c", Some(Failed))],
        ),
        (
            r#"{"status_update":{"task_id":"t","context_id":"c","status":{"state":"TASK_STATE_AUTH_REQUIRED"}}}"#,
            &[("t", "c", Some(AuthRequired))],
        ),
        (
            r#"{"artifactUpdate":{"taskId":"t","contextId":"c"}}"#,
            &[("t", "c", None)],
        ),
        (r#"{"task":null,"id":"x","contextId":"x"}"#, &[]),
        ("{}", &[]),
        ("null", &[]),
    ] {
        for operation in [Operation::Send, Operation::Stream, Operation::Subscribe] {
            reveals(result, V1_0, operation, expected);
        }
    }
    let bare = r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_FAILED"},"task":{"id":"x"}}"#;
    reveals(bare, V1_0, Operation::Get, &[("t", "c", Some(Failed))]);
    reveals(bare, V1_0, Operation::Cancel, &[("t", "c", Some(Failed))]);
    reveals(
        r#"{"tasks":[{"id":"t","contextId":"c"},{"id":"u","status":{"state":"TASK_STATE_FAILED"}},7,{}],"nextPageToken":""}"#,
        V1_0,
        Operation::List,
        &[("t", "c", None), ("u", "-", Some(Failed))],
    );
    reveals(r#"{"tasks":null}"#, V1_0, Operation::List, &[]);
}

#[test]
fn a_result_of_no_known_kind_is_strange() {
    for (result, in_0_3, in_1_0) in [
        (r#"{"kind":"task","id":"t","contextId":"c","status":{}}"#, false, true),
        (r#"{"kind":"message","parts":[]}"#, false, true),
        (r#"{"kind":"status-update","contextId":"c"}"#, false, true),
        (r#"{"kind":"artifact-update","taskId":"t"}"#, false, true),
        // Without a kind.
        (r#"{"id":"t","status":{}}"#, false, true),
        (r#"{"taskId":"t","artifact":{}}"#, false, true),
        (r#"{"messageId":"m","parts":[]}"#, false, true),
        (r#"{"contextId":"c"}"#, true, true),
        (r#"{"kind":"another","contextId":"c"}"#, true, true),
        (r#"{"task":{"id":"t"}}"#, true, false),
        (r#"{"message":{"parts":[]}}"#, true, false),
        (r#"{"statusUpdate":{"taskId":"t"},"metadata":{}}"#, true, false),
        (r#"{"artifact_update":{"taskId":"t"},"task":null}"#, true, false),
        (r#"{"task":null}"#, true, true),
        (r#"{"Task":{"id":"t"}}"#, true, true),
        ("{}", true, true),
        ("[]", true, true),
        (r#""task""#, true, true),
        ("null", false, false),
    ] {
        let body = format!(r#"{{"result":{result}}}"#);
        for (generation, expected) in [(V0_3, in_0_3), (V1_0, in_1_0)] {
            for operation in [Operation::Stream, Operation::Subscribe] {
                let answer = read_answer(body.as_bytes(), generation, operation, Limits::default()).unwrap();
                assert_eq!(answer.is_strange, expected, "{result} {generation:?}");
            }
        }
    }
}

#[test]
fn answers_about_push_configurations_and_cards_reveal_nothing() {
    for generation in crate::a2a::Generation::SPOKEN {
        for operation in [
            Operation::PushCreate,
            Operation::PushGet,
            Operation::PushList,
            Operation::PushDelete,
            Operation::ExtendedCard,
        ] {
            for result in [
                r#"{"id":"x","taskId":"t","task":{"id":"x"}}"#,
                r#"[{"taskId":"t"}]"#,
                "null",
            ] {
                reveals(result, generation, operation, &[]);
            }
        }
    }
}

fn answer(body: &str) -> Result<Answer<'_>, AnswerErrorKind> {
    read_answer(body.as_bytes(), V0_3, Operation::Stream, Limits::default()).map_err(|error| error.kind)
}

#[test]
fn only_0_3_says_that_an_event_is_the_last() {
    for (event, expected) in [
        (r#"{"kind":"status-update","taskId":"t","final":true}"#, true),
        (r#"{"kind":"status-update","taskId":"t","final":false}"#, false),
        (r#"{"kind":"status-update","taskId":"t","final":"true"}"#, false),
        (r#"{"kind":"status-update","taskId":"t"}"#, false),
    ] {
        assert_eq!(
            answer(&format!(r#"{{"result":{event}}}"#)).unwrap().is_final,
            expected,
            "{event}"
        );
    }
    let body = br#"{"result":{"statusUpdate":{"taskId":"t","final":true}}}"#;
    let answer = read_answer(body, V1_0, Operation::Stream, Limits::default()).unwrap();
    assert!(!answer.is_final);
}

#[test]
fn errors_are_read_by_their_code() {
    for (body, expected) in [
        (
            r#"{"id":7,"error":{"code":-32001,"message":"x","data":[{"code":1}]}}"#,
            Some(-32001),
        ),
        (r#"{"error":{"message":"x"}}"#, Some(0)),
        (r#"{"error":{"code":1.5}}"#, Some(0)),
        (r#"{"error":{"code":99999999999999999999}}"#, Some(0)),
        (r#"{"error":"x"}"#, Some(0)),
        (r#"{"error":null,"result":null}"#, None),
        ("{}", None),
    ] {
        let answer = answer(body).unwrap();
        assert_eq!(
            (answer.error, answer.has_result),
            (expected, body.contains("result")),
            "{body}"
        );
    }
}

#[test]
fn broken_answers_are_refused() {
    use AnswerErrorKind::{Json, NotObject};
    use json::ErrorKind::{DuplicateName, InvalidUtf8, Syntax, TrailingData};
    let cut_off = format!(r#"{{"result":{}"#, "[".repeat(200));
    for (body, kind) in [
        ("", Json(Syntax)),
        ("<html>", Json(Syntax)),
        (r#"{"id":7,"result":{"kind":"task""#, Json(Syntax)),
        (r#"{"id":7,"result":{}} x"#, Json(TrailingData)),
        (&cut_off, Json(Syntax)),
        ("[]", NotObject),
        ("null", NotObject),
        (r#"{"id":7,"id":8}"#, Json(DuplicateName)),
        (r#"{"result":{},"result":{}}"#, Json(DuplicateName)),
        (r#"{"result":{"id":"a","id":"b"}}"#, Json(DuplicateName)),
        (r#"{"result":{"contextId":"a","context_id":"b"}}"#, Json(DuplicateName)),
    ] {
        assert_eq!(answer(body).unwrap_err(), kind, "{body}");
    }
    let two = br#"{"result":{"task":{"id":"a"},"message":{"contextId":"b"}}}"#;
    assert!(read_answer(two, V1_0, Operation::Send, Limits::default()).is_err());
    let id = b"{\"result\":{\"id\":\"\xff\",\"status\":{}}}";
    let broken = read_answer(id, V1_0, Operation::Get, Limits::default());
    assert_eq!(broken.unwrap_err().kind, Json(InvalidUtf8));
}

#[test]
fn what_nobody_reads_may_be_anything_with_an_end() {
    for body in [
        r#"{"x":1,"x":2,"result":{"metadata":{"a":1,"a":2}}}"#,
        r#"{"result":{"metadata":{"a":[{1 2,,"]}"}]},"id":"t","status":{}}}"#,
        r#"{"x":["\\"],"y":["\"]"],"result":{}}"#,
    ] {
        assert!(answer(body).is_ok(), "{body}");
    }
}

#[test]
fn answers_have_limits() {
    let id = |len: usize| format!(r#"{{"result":{{"kind":"task","id":"{}"}}}}"#, "x".repeat(len));
    assert!(answer(&id(MAX_ID_BYTES)).is_ok());
    assert_eq!(answer(&id(MAX_ID_BYTES + 1)), Err(AnswerErrorKind::IdTooLong));
    let page = |count: usize| {
        format!(
            r#"{{"result":{{"tasks":[{}]}}}}"#,
            vec![r#"{"id":"t"}"#; count].join(",")
        )
    };
    let list = |body: &str| {
        read_answer(body.as_bytes(), V1_0, Operation::List, Limits::default()).map(|answer| answer.revealed.len())
    };
    assert_eq!(list(&page(MAX_REVEALED)), Ok(MAX_REVEALED));
    assert_eq!(
        list(&page(MAX_REVEALED + 1)).unwrap_err().kind,
        AnswerErrorKind::TooManyTasks
    );
}

#[test]
fn answers_are_matched_to_requests() {
    for (request, answer, is_error, expected) in [
        ("7", Some("7"), false, true),
        ("7", Some("8"), false, false),
        ("7", Some("\"7\""), false, false),
        ("7", Some("7.0"), false, false),
        ("12345678901234567890", Some("12345678901234567891"), false, false),
        ("\"a\"", Some("\"a\""), false, true),
        ("\"a\"", Some("\"\\u0061\""), false, true),
        ("\"caf\\u00e9\"", Some("\"caf\u{e9}\""), false, true),
        ("\"a\"", Some("\"b\""), false, false),
        ("null", Some("null"), false, true),
        ("7", Some("null"), false, false),
        ("7", None, false, false),
        ("null", None, false, false),
        ("7", Some("null"), true, true),
        ("7", None, true, true),
        ("7", Some("8"), true, false),
        ("7", Some("[7]"), false, false),
    ] {
        let id = RpcId(Bytes::from_static(request.as_bytes()));
        assert_eq!(
            id_matches(&id, answer, is_error),
            expected,
            "{request} {answer:?} {is_error}"
        );
    }
}

#[test]
fn written_errors_read_back() {
    let data = RawValue::from_string(r#"[{"@type":"x"}]"#.to_owned()).unwrap();
    let id = RpcId(Bytes::from_static(b"\"a\\n\""));
    assert_eq!(
        write_error(&id, code::TASK_NOT_FOUND, "say \"no\"\n", Some(&data)),
        r#"{"jsonrpc":"2.0","id":"a\n","error":{"code":-32001,"message":"say \"no\"\n","data":[{"@type":"x"}]}}"#
    );
    let body = write_error(&RpcId::null(), code::PARSE_ERROR, "x", None);
    assert_eq!(
        body,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#
    );
    let answer = answer(std::str::from_utf8(&body).unwrap()).unwrap();
    assert_eq!(answer.error, Some(-32700));
    assert!(answer.answers(&id));
}
