//! Answers and events: what they reveal, and their translation.

use super::*;
use crate::a2a::json::{ErrorKind, Limits};
use crate::a2a::jsonrpc::{Answer, AnswerError, AnswerErrorKind};
use crate::a2a::{ContextId, Revealed, TaskId, TaskState};

fn read<'a>(generation: Generation, operation: Operation, body: &'a str) -> Result<Answer<'a>, AnswerError> {
    read_answer(body.as_bytes(), false, generation, operation, Limits::default())
}

fn revealed(task: Option<&str>, context: Option<&str>, state: Option<TaskState>) -> Revealed {
    Revealed {
        task: task.map(TaskId::new),
        context: context.map(ContextId::new),
        state,
    }
}

#[test]
fn answers_reveal_their_ids() {
    use Operation::{Cancel, Get, List, Send, Stream, Subscribe};
    let check = |generation, operation, body: &str, expected: Revealed, is_final: bool| {
        let answer = read(generation, operation, body).unwrap();
        assert_eq!(answer.revealed, [expected], "{body}");
        assert_eq!((answer.is_final, answer.is_strange), (is_final, false), "{body}");
        assert!(answer.has_result && answer.error.is_none() && answer.id.is_none());
    };
    let working = Some(TaskState::Working);
    for generation in Generation::SPOKEN {
        let task = r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}"#;
        let shown = || revealed(Some("t"), Some("c"), working);
        for operation in [Get, Cancel] {
            check(generation, operation, task, shown(), false);
        }
        for operation in [Send, Stream, Subscribe] {
            check(generation, operation, &format!(r#"{{"task":{task}}}"#), shown(), false);
            let message = r#"{"message":{"messageId":"m","taskId":"t","contextId":"c"}}"#;
            check(
                generation,
                operation,
                message,
                revealed(Some("t"), Some("c"), None),
                false,
            );
            let update = r#"{"statusUpdate":{"taskId":"t","contextId":"c","final":true,
                "status":{"state":"TASK_STATE_WORKING"}}}"#;
            check(generation, operation, update, shown(), generation == V0_3);
            let update = r#"{"artifact_update":{"task_id":"t","context_id":"c","artifact":{}}}"#;
            check(
                generation,
                operation,
                update,
                revealed(Some("t"), Some("c"), None),
                false,
            );
        }
        check(generation, List, &format!(r#"{{"tasks":[{task}]}}"#), shown(), false);
    }
    let cancelled = r#"{"id":"t","status":{"state":"TASK_STATE_CANCELLED"}}"#;
    check(
        V0_3,
        Cancel,
        cancelled,
        revealed(Some("t"), None, Some(TaskState::Canceled)),
        false,
    );
}

#[test]
fn what_is_no_answer_is_strange() {
    use Operation::{Get, Send, Stream};
    for generation in Generation::SPOKEN {
        for (operation, body) in [
            (Send, "{}"),
            (Send, r#"{"id":"t","status":{}}"#),
            (Stream, r#"{"kind":"task","id":"t","status":{"state":"working"}}"#),
            (Get, r#"{"task":{"id":"t"}}"#),
            (Get, "7"),
        ] {
            let answer = read(generation, operation, body).unwrap();
            assert!(answer.is_strange && answer.revealed.is_empty(), "{body}");
        }
    }
}

#[test]
fn pushes_cards_and_deletes_reveal_nothing() {
    use Operation::{ExtendedCard, PushCreate, PushDelete, PushGet, PushList};
    for generation in Generation::SPOKEN {
        for operation in [PushCreate, PushGet, PushList, PushDelete, ExtendedCard] {
            let answer = read(generation, operation, r#"{"taskId":"t","configs":[]}"#).unwrap();
            assert!(answer.revealed.is_empty() && !answer.is_strange && answer.has_result);
        }
        let nothing = read(generation, PushDelete, "").unwrap();
        assert!(nothing.has_result && nothing.error.is_none());
        let broken = read(generation, PushGet, "").map_err(|error| error.kind);
        assert_eq!(broken, Err(AnswerErrorKind::Json(ErrorKind::Syntax)));
    }
}

#[test]
fn broken_answers_are_errors() {
    for body in ["", "{", r#"{"task":{"id":"t"}"#, r#"{"task":{}} x"#, "nothing"] {
        assert!(read(V1_0, Operation::Send, body).is_err(), "{body}");
    }
    let twice = read(V1_0, Operation::Get, r#"{"id":"a","id":"b"}"#).map_err(|error| error.kind);
    assert_eq!(twice, Err(AnswerErrorKind::Json(ErrorKind::DuplicateName)));
}

#[test]
fn errors_have_a_code_if_their_body_tells() {
    let of = |body: &str| {
        let answer = read_answer(body.as_bytes(), true, V1_0, Operation::Get, Limits::default()).unwrap();
        assert!(answer.revealed.is_empty() && !answer.has_result);
        answer.error
    };
    let info = r#"{"error":{"code":404,"message":"x","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",
        "reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}"#;
    assert_eq!(of(info), Some(-32001));
    assert_eq!(of(r#"{"code":-32002,"message":"x"}"#), Some(-32002));
    for body in [
        "",
        "<html>",
        "{",
        "[]",
        r#"{"message":"Task not found"}"#,
        r#"{"error":{"code":500}}"#,
    ] {
        assert_eq!(of(body), Some(0), "{body}");
    }
    // An event like any other, in which the agent tells of its error.
    let answer = read(V1_0, Operation::Stream, info).unwrap();
    assert_eq!(
        (answer.error, answer.has_result, answer.is_strange),
        (Some(-32001), false, false)
    );
}

/// What becomes of an answer of one generation in the other.
fn turned(from: Generation, operation: Operation, body: &Value) -> Result<Value, Error> {
    let to = if from == V0_3 { V1_0 } else { V0_3 };
    written(to, read_response(from, operation, body.to_string().as_bytes())?)
}

#[test]
fn answers_go_both_ways() {
    let check = |operation, old: Value, new: Value| {
        assert_eq!(turned(V0_3, operation, &old), Ok(new.clone()));
        assert_eq!(turned(V1_0, operation, &new), Ok(old));
    };
    let status =
        |state: &str, message| json!({"state": state, "timestamp": "2026-11-21T04:06:25.490745Z", "message": message});
    let artifacts = json!([{"artifactId": "a1", "name": "Plan", "description": "Where to moor", "parts": [{"text": "14"}],
        "metadata": {"v": 1}, "extensions": ["https://ext.example/1"]}]);
    let old = json!({"id": "t1", "contextId": "c1", "status": status("TASK_STATE_CANCELLED", message_0_3()),
        "artifacts": artifacts, "history": [message_0_3()], "metadata": {"k": null}});
    let new = json!({"id": "t1", "contextId": "c1", "status": status("TASK_STATE_CANCELED", message_1_0()),
        "artifacts": artifacts, "history": [message_1_0()], "metadata": {"k": null}});
    check(Operation::Get, old.clone(), new.clone());
    check(Operation::Cancel, old.clone(), new.clone());
    for operation in [Operation::Send, Operation::Stream, Operation::Subscribe] {
        check(operation, json!({ "task": old }), json!({ "task": new }));
        check(
            operation,
            json!({"message": message_0_3()}),
            json!({"message": message_1_0()}),
        );
    }
    let chunk = json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "append": true, "lastChunk": true,
        "artifact": {"artifactId": "a1", "parts": [{"text": "x"}]}, "metadata": {"n": 1}}});
    check(Operation::Stream, chunk.clone(), chunk);
    for (old, new, last) in [
        ("TASK_STATE_WORKING", "TASK_STATE_WORKING", false),
        ("TASK_STATE_AUTH_REQUIRED", "TASK_STATE_AUTH_REQUIRED", false),
        ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED", true),
        ("TASK_STATE_CANCELLED", "TASK_STATE_CANCELED", true),
        ("TASK_STATE_REJECTED", "TASK_STATE_REJECTED", true),
    ] {
        let update = |state: &str| json!({"taskId": "t1", "contextId": "c1", "status": {"state": state}});
        let mut old = update(old);
        if last {
            old["final"] = json!(true);
        }
        check(
            Operation::Stream,
            json!({ "statusUpdate": old }),
            json!({"statusUpdate": update(new)}),
        );
    }
    let old = json!({"name": "tasks/t1/pushNotificationConfigs/p", "pushNotificationConfig":
        {"id": "p", "url": "https://x.example", "token": "k", "authentication": {"schemes": ["Bearer"], "credentials": "s"}}});
    let new = json!({"taskId": "t1", "id": "p", "url": "https://x.example", "token": "k",
        "authentication": {"scheme": "Bearer", "credentials": "s"}});
    check(Operation::PushGet, old.clone(), new.clone());
    check(Operation::PushCreate, old.clone(), new.clone());
    check(
        Operation::PushList,
        json!({"configs": [old], "nextPageToken": "x"}),
        json!({"configs": [new], "nextPageToken": "x"}),
    );
    check(Operation::PushDelete, json!({}), json!({}));
    check(
        Operation::ExtendedCard,
        json!({"name": "Harbour"}),
        json!({"name": "Harbour"}),
    );
}

#[test]
fn names_and_spellings_of_protobuf_are_read_in_0_3() {
    let old = json!({"msg": {"message_id": "m", "context_id": "c", "task_id": "t", "role": 2,
        "content": [{"file": {"file_with_uri": "u", "mime_type": "text/plain"}}, {"file": {"file_with_bytes": "_-8"}}],
        "metadata": null, "extensions": null}});
    let new = json!({"message": {"messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_AGENT",
        "parts": [{"url": "u", "mediaType": "text/plain"}, {"raw": "_-8"}]}});
    assert_eq!(turned(V0_3, Operation::Send, &old), Ok(new.clone()));
    let bytes = turned(V1_0, Operation::Send, &new).unwrap()["message"]["content"][1]["file"]["fileWithBytes"].clone();
    assert_eq!(bytes, "/+8=");
    let old = json!({"status_update": {"task_id": "t", "context_id": "c", "status": {"state": 5,
        "update": {"messageId": "m"}, "timestamp": "2026-11-21T05:06:25+01:00"}}});
    let new = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED",
        "message": {"messageId": "m", "role": "ROLE_UNSPECIFIED", "parts": []}, "timestamp": "2026-11-21T04:06:25Z"}}});
    assert_eq!(turned(V0_3, Operation::Stream, &old), Ok(new));
    for (name, task, id) in [
        ("tasks/t/pushNotificationConfigs/p", "t", "p"),
        ("task/t/pushNotificationConfigs/p", "t", "p"),
        ("tasks/t/pushNotificationConfigs/", "t", ""),
        ("tasks/t/pushNotificationConfigs", "t", ""),
        ("tasks/t", "t", ""),
        (
            "tasks/a/pushNotificationConfigs/b/pushNotificationConfigs/p",
            "a/pushNotificationConfigs/b",
            "p",
        ),
        ("p", "", "p"),
        ("", "", ""),
    ] {
        let body = json!({"name": name, "push_notification_config": {"url": "u"}});
        let got = turned(V0_3, Operation::PushGet, &body).unwrap();
        let part = |name: &str| got[name].as_str().unwrap_or_default().to_owned();
        assert_eq!((&*part("taskId"), &*part("id")), (task, id), "{name}");
    }
}

#[test]
fn answers_that_are_none_are_malformed() {
    for generation in Generation::SPOKEN {
        for body in ["", "x", "[]", "{}", r#"{"task":{},"message":{}}"#, "\u{feff}{}"] {
            let read = read_response(generation, Operation::Send, body.as_bytes());
            assert_eq!(read, Err(Error::Malformed), "{body}");
        }
        assert_eq!(
            read_response(generation, Operation::Get, b"\xff"),
            Err(Error::Malformed)
        );
        assert_eq!(
            read_response(generation, Operation::PushDelete, b"\xff"),
            Ok(Response::Nothing)
        );
    }
    assert_eq!(read_response(V0_3, Operation::List, b"{}"), Err(Error::Unsupported));
    let page = read_response(V1_0, Operation::List, br#"{"tasks":[]}"#).unwrap();
    assert_eq!(written(V0_3, page.clone()), Err(Error::Unsupported));
    let empty = json!({"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0});
    assert_eq!(written(V1_0, page), Ok(empty));
}

/// What the protobuf of 0.3 has no member for, and what becomes of it (`LOSSES.md`).
#[test]
fn what_0_3_has_no_member_for_is_left_out() {
    let part = |part: Value| {
        let new = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [part]}});
        turned(V1_0, Operation::Send, &new).unwrap()["message"]["content"][0].clone()
    };
    let named = json!({"raw": "", "filename": "a.txt", "mediaType": "text/plain", "metadata": {"a": 1}});
    assert_eq!(
        part(named),
        json!({"file": {"fileWithBytes": "", "mimeType": "text/plain"}})
    );
    assert_eq!(
        part(json!({"text": "a", "mediaType": "text/markdown"})),
        json!({"text": "a"})
    );
    assert_eq!(
        part(json!({"data": [1, 2]})),
        json!({"data": {"data": {"value": [1, 2]}}})
    );
    assert_eq!(part(json!({"data": null})), json!({"data": {"data": {"value": null}}}));
    let message = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [], "referenceTaskIds": ["t0"]}});
    let old = turned(V1_0, Operation::Send, &message).unwrap();
    assert_eq!(
        old,
        json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "content": []}})
    );
    let without_role = json!({"message": {"messageId": "m", "parts": []}});
    assert_eq!(
        turned(V1_0, Operation::Send, &without_role).unwrap()["message"]["role"],
        "ROLE_AGENT"
    );
}
