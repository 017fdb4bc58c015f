//! What the protobuf forms cannot carry: each row of `LOSSES.md` that is about them.

use serde_json::{Value, json};

use super::*;
use crate::a2a::Operation;
use crate::a2a::model::wire::{Json, Text};
use crate::a2a::model::{self, Content, Request, Response};

/// A send of 1.0 as JSON, written as protobuf of a generation.
fn sent(generation: Generation, request: &Value) -> Result<Vec<u8>, Error> {
    let text = request.to_string();
    write_request(generation, Request::read(Operation::Send, &text).unwrap())
}

/// The same, read again, as JSON of 1.0.
fn returned(generation: Generation, request: &Value) -> Result<Value, Error> {
    let mut out = Vec::new();
    read_request(generation, Operation::Send, &sent(generation, request)?)?.write(&mut out)?;
    Ok(serde_json::from_slice(&out)?)
}

/// A send with these metadata.
fn with_metadata(metadata: &Value) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}, "metadata": metadata})
}

/// A send with this part.
fn with_part(part: &Value) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}})
}

#[test]
fn numbers_are_doubles_and_whole_ones_are_integers() {
    for (number, becomes) in [
        ("0", "0"),
        ("-0.0", "0"),
        ("1", "1"),
        ("1.0", "1"),
        ("-7.5", "-7.5"),
        ("1e2", "100"),
        ("9007199254740992", "9007199254740992"),
        ("9007199254740993", "9007199254740992"),
        ("9223372036854775807", "9.223372036854776e+18"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615", "1.8446744073709552e+19"),
        ("1e300", "1e+300"),
        ("0.1", "0.1"),
        ("2.3287771384510634e231", "2.3287771384510634e+231"),
    ] {
        let metadata: Value = serde_json::from_str(&format!(r#"{{"n":{number}}}"#)).unwrap();
        for generation in Generation::SPOKEN {
            let got = returned(generation, &with_metadata(&metadata)).unwrap();
            assert_eq!(got["metadata"].to_string(), format!(r#"{{"n":{becomes}}}"#), "{number}");
        }
    }
}

#[test]
fn members_of_free_form_json_come_by_name() {
    let metadata = json!({"b": [null, true, "x", {}], "a": {"d": [], "c": ""}});
    let got = returned(V1_0, &with_metadata(&metadata)).unwrap();
    assert_eq!(
        got["metadata"].to_string(),
        r#"{"a":{"c":"","d":[]},"b":[null,true,"x",{}]}"#
    );
}

#[test]
fn numbers_that_json_does_not_have_are_refused() {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let value = [varint(2 << 3 | 1), number.to_le_bytes().to_vec()].concat();
        let bytes = [text(1, "t"), message(6, [message(1, [text(1, "n"), text(2, value)])])].concat();
        for generation in Generation::SPOKEN {
            assert_eq!(read_response(generation, Operation::Get, &bytes), Err(Error::Malformed));
        }
    }
}

#[test]
fn free_form_json_is_as_deep_as_readers_follow() {
    let nested = |levels: usize, open: &str, close: &str| {
        let text = format!("{}null{}", open.repeat(levels), close.repeat(levels));
        Json::owned(text).unwrap()
    };
    // Where there is most around it.
    let page = |data: Json<'static>| {
        let said = model::Message {
            parts: vec![model::Part {
                content: Content::Data(data),
                metadata: None,
                filename: Text::default(),
                media_type: Text::default(),
            }],
            ..model::Message::default()
        };
        let status = model::TaskStatus {
            message: Some(said),
            ..model::TaskStatus::default()
        };
        model::Task {
            status,
            ..model::Task::default()
        }
    };
    for (open, close, most) in [(r#"{"a":"#, "}", 29), ("[", "]", 44)] {
        for generation in Generation::SPOKEN {
            let write = |levels| {
                let event = model::Event::Task(page(nested(levels, open, close)));
                write_response(generation, Operation::Stream, Response::Event(event))
            };
            let bytes = write(most - 3).unwrap();
            assert!(read_response(generation, Operation::Stream, &bytes).is_ok());
            assert_eq!(write(most + 1), Err(Error::Malformed));
        }
        let tasks = model::TaskPage {
            tasks: vec![page(nested(most, open, close))],
            ..model::TaskPage::default()
        };
        let bytes = write_response(V1_0, Operation::List, Response::Tasks(tasks.clone())).unwrap();
        assert_eq!(read_response(V1_0, Operation::List, &bytes), Ok(Response::Tasks(tasks)));
    }
}

#[test]
fn metadata_are_objects() {
    for metadata in [json!([]), json!("x"), json!(1), json!(true)] {
        for generation in Generation::SPOKEN {
            assert_eq!(
                sent(generation, &with_metadata(&metadata)),
                Err(Error::Malformed),
                "{metadata}"
            );
        }
    }
    assert_eq!(
        returned(V1_0, &with_metadata(&json!({}))).unwrap()["metadata"],
        json!({})
    );
    assert_eq!(
        returned(V1_0, &with_metadata(&Value::Null)).unwrap().get("metadata"),
        None
    );
}

#[test]
fn ids_that_no_resource_name_holds_are_refused() {
    let about = |id: &'static str| model::TaskRequest {
        id: Text::from(id),
        ..model::TaskRequest::default()
    };
    let name = |task: &'static str, id: &'static str| model::PushName {
        task_id: Text::from(task),
        id: Text::from(id),
        ..model::PushName::default()
    };
    for id in ["", "/", "a/b", "t/pushNotificationConfigs/c"] {
        for request in [
            Request::Cancel(about(id)),
            Request::Subscribe(about(id)),
            Request::PushGet(name(id, "c")),
            Request::PushDelete(name(id, "c")),
            Request::Get(model::GetTaskRequest {
                id: Text::from(id),
                ..model::GetTaskRequest::default()
            }),
            Request::PushList(model::PushListRequest {
                task_id: Text::from(id),
                ..model::PushListRequest::default()
            }),
            Request::PushCreate(model::PushConfig {
                task_id: Text::from(id),
                ..model::PushConfig::default()
            }),
        ] {
            assert_eq!(
                write_request(V0_3, request.clone()),
                Err(Error::Malformed),
                "{request:?}"
            );
            assert!(write_request(V1_0, request).is_ok());
        }
    }
    assert_eq!(
        write_request(V0_3, Request::PushGet(name("t", "c/d"))),
        Err(Error::Malformed)
    );
    assert_eq!(
        write_request(V0_3, Request::PushGet(name("t", "c"))),
        Ok(text(1, "tasks/t/pushNotificationConfigs/c"))
    );
    assert_eq!(
        write_request(V0_3, Request::PushGet(name("t", ""))),
        Ok(text(1, "tasks/t/pushNotificationConfigs/t"))
    );
}

#[test]
fn members_that_0_3_has_no_field_for_are_left_out() {
    let request = json!({
        "tenant": "x",
        "message": {
            "messageId": "m", "role": "ROLE_USER", "referenceTaskIds": ["r"],
            "parts": [{"text": "a", "filename": "f", "mediaType": "text/plain"}],
        },
        "configuration": {"taskPushNotificationConfig": {"tenant": "x", "taskId": "t", "id": "c", "url": "u"}},
    });
    let becomes = json!({
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]},
        "configuration": {"taskPushNotificationConfig": {"id": "c", "url": "u"}},
    });
    assert_eq!(returned(V0_3, &request), Ok(becomes));
    let cancel = Request::read(Operation::Cancel, r#"{"id":"t","metadata":{"a":1}}"#).unwrap();
    assert_eq!(write_request(V0_3, cancel), Ok(text(1, "tasks/t")));
}

#[test]
fn zero_is_unset_where_there_is_no_telling() {
    let send = |history: i32| {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": []});
        json!({"message": message, "configuration": {"historyLength": history}})
    };
    let history =
        |generation, number| returned(generation, &send(number)).unwrap()["configuration"]["historyLength"].clone();
    assert_eq!(history(V0_3, 0), Value::Null);
    assert_eq!(history(V0_3, 3), 3);
    assert_eq!(history(V1_0, 0), 0);
    for generation in Generation::SPOKEN {
        let request = Request::read(Operation::PushList, r#"{"taskId":"t","pageSize":0}"#).unwrap();
        let bytes = write_request(generation, request).unwrap();
        let Ok(Request::PushList(read)) = read_request(generation, Operation::PushList, &bytes) else {
            panic!("another request");
        };
        assert_eq!(read.page_size, None);
    }
}

#[test]
fn what_does_not_say_whether_to_block_does_not_over_grpc_of_0_3() {
    let said = message(1, [text(1, "m")]);
    for (configuration, returns) in [
        (vec![], true),
        (message(2, []), true),
        (message(2, [number(4, 0)]), true),
        (message(2, [number(4, 1)]), false),
    ] {
        let bytes = [said.clone(), configuration].concat();
        let Ok(Request::Send(request)) = read_request(V0_3, Operation::Send, &bytes) else {
            panic!("another request");
        };
        assert_eq!(request.configuration.unwrap().return_immediately, returns);
    }
    // In 1.0 it does.
    let bytes = sent(V0_3, &with_metadata(&json!({}))).unwrap();
    let Ok(Request::Send(request)) = read_request(V0_3, Operation::Send, &bytes) else {
        panic!("another request");
    };
    assert!(!request.configuration.unwrap().return_immediately);
}

#[test]
fn times_that_there_cannot_be_are_left_out() {
    let written = |time: &'static str| {
        let status = model::TaskStatus {
            timestamp: Text::from(time),
            ..model::TaskStatus::default()
        };
        let task = model::Task {
            status,
            ..model::Task::default()
        };
        let bytes = write_response(V1_0, Operation::Get, Response::Task(task)).unwrap();
        match read_response(V1_0, Operation::Get, &bytes) {
            Ok(Response::Task(task)) => task.status.timestamp.as_str().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    for (time, becomes) in [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.120+01:00", "2026-01-02T02:04:05.12Z"),
        ("2026-01-02T03:04:05.0123456789Z", "2026-01-02T03:04:05.012345678Z"),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z"),
        ("0000-12-31T23:59:59Z", ""),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
        ("9999-12-31T23:59:59-01:00", ""),
        ("soon", ""),
        ("", ""),
    ] {
        assert_eq!(written(time), becomes, "{time}");
    }
    for (seconds, nanos) in [
        (i64::MAX, 0),
        (i64::MIN, 0),
        (253_402_300_800, 0),
        (0, 1_000_000_000),
        (0, -1),
        (0, i32::MIN),
    ] {
        let time = [
            number(1, i64::cast_unsigned(seconds)),
            number(2, i64::from(nanos).cast_unsigned()),
        ]
        .concat();
        let bytes = [text(1, "t"), message(3, [number(1, 2), text(3, time)])].concat();
        let Ok(Response::Task(task)) = read_response(V0_3, Operation::Get, &bytes) else {
            panic!("another answer");
        };
        assert_eq!(task.status.timestamp.as_str(), "", "{seconds} {nanos}");
    }
    // A filter that is none would list what was not asked for.
    let list = Request::read(Operation::List, r#"{"statusTimestampAfter":"soon"}"#).unwrap();
    assert_eq!(write_request(V1_0, list), Err(Error::Malformed));
}

#[test]
fn bytes_are_read_in_either_alphabet() {
    for (base64, becomes) in [
        ("", Some("")),
        ("+/+/", Some("+/+/")),
        ("-_-_", Some("+/+/")),
        ("AA", Some("AA==")),
        ("AA==", Some("AA==")),
        ("_w", Some("/w==")),
        ("A", None),
        ("A A=", None),
        ("AA=A", None),
    ] {
        for generation in Generation::SPOKEN {
            let got = returned(generation, &with_part(&json!({"raw": base64})));
            let got = got.map(|send| send["message"]["parts"][0]["raw"].as_str().unwrap().to_owned());
            assert_eq!(got, becomes.map(str::to_owned).ok_or(Error::Malformed), "{base64}");
        }
    }
}

#[test]
fn numbers_that_no_enum_has_are_unspecified() {
    for state in [0, 9, 1000, u64::from(u32::MAX), u64::MAX] {
        let said = message(2, [text(1, "m"), number(4, state)]);
        let bytes = [text(1, "t"), message(3, [number(1, state), said])].concat();
        for generation in Generation::SPOKEN {
            let Ok(Response::Task(task)) = read_response(generation, Operation::Get, &bytes) else {
                panic!("another answer");
            };
            assert_eq!(task.status.state, crate::a2a::TaskState::Unknown);
            assert!(!task.status.state.is_terminal());
            assert_eq!(task.status.message.unwrap().role, model::Role::Unspecified);
        }
    }
}

#[test]
fn data_that_are_no_object_are_wrapped_in_0_3() {
    for data in [json!(null), json!(1), json!([1, {"a": 2}]), json!({"value": 1})] {
        for generation in Generation::SPOKEN {
            let request = with_part(&json!({"data": data}));
            let got = returned(generation, &request).unwrap();
            assert_eq!(got["message"], request["message"], "{generation}");
        }
    }
    let bytes = sent(V0_3, &with_part(&json!({"data": 1}))).unwrap();
    let mark = b"data_part_compat";
    assert!(bytes.windows(mark.len()).any(|window| window == mark));
}

#[test]
fn a_part_of_nothing_is_malformed() {
    let sent = |part: &[u8]| message(1, [text(1, "m"), text(5, part)]);
    for part in [vec![], message(2, []), message(4, []), number(9, 1)] {
        assert_eq!(read_request(V0_3, Operation::Send, &sent(&part)), Err(Error::Malformed));
    }
    for part in [vec![], message(5, []), number(9, 1)] {
        let bytes = message(2, [text(1, "m"), text(5, part)]);
        assert_eq!(read_request(V1_0, Operation::Send, &bytes), Err(Error::Malformed));
    }
    for generation in Generation::SPOKEN {
        for operation in [Operation::Send, Operation::Stream, Operation::Subscribe] {
            assert_eq!(read_response(generation, operation, &[]), Err(Error::Malformed));
        }
        assert_eq!(read_request(generation, Operation::Send, &[]), Err(Error::Malformed));
    }
    assert_eq!(
        read_response(V1_0, Operation::Send, &message(3, [text(1, "t")])),
        Err(Error::Malformed)
    );
}

#[test]
fn push_configurations_of_0_3_are_found_by_their_names() {
    let inner = |id: &str| {
        message(
            2,
            [
                text(1, id),
                text(2, "url"),
                message(4, [text(1, "a"), text(1, "b"), text(2, "k")]),
            ],
        )
    };
    let config = |name: &str, id: &str| [text(1, name), inner(id)].concat();
    for (bytes, task, id) in [
        (config("tasks/t/pushNotificationConfigs/c", ""), "t", "c"),
        (config("tasks/t/pushNotificationConfigs/c", "d"), "t", "d"),
        (config("tasks/t/pushNotificationConfigs/t", ""), "t", ""),
        (config("tasks/t/pushNotificationConfigs/", ""), "t", ""),
        (config("tasks/t", ""), "t", ""),
    ] {
        let read = |operation, bytes: &[u8]| match read_response(V0_3, operation, bytes) {
            Ok(Response::Push(config)) => config,
            other => panic!("{other:?}"),
        };
        let got = read(Operation::PushGet, &bytes);
        assert_eq!(
            (got.task_id.as_str(), got.id.as_str(), got.url.as_str()),
            (task, id, "url")
        );
        let authentication = got.authentication.unwrap();
        // Of several schemes the first.
        assert_eq!(
            (authentication.scheme.as_str(), authentication.credentials.as_str()),
            ("a", "k")
        );
        // And within a request, with or without its parent.
        for parent in ["", "tasks/t"] {
            for (config_id, id) in [("", id), ("e", if id.is_empty() || id == "c" { "e" } else { id })] {
                let request = [text(1, parent), text(2, config_id), text(3, &bytes)].concat();
                let Ok(Request::PushCreate(got)) = read_request(V0_3, Operation::PushCreate, &request) else {
                    panic!("another request");
                };
                assert_eq!((got.task_id.as_str(), got.id.as_str()), (task, id), "{config_id}");
            }
        }
    }
    let none = read_response(V0_3, Operation::PushGet, &config("c", "c"));
    assert_eq!(none, Err(Error::Malformed));
}
