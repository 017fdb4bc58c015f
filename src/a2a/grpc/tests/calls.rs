//! Which task and context requests name.

use super::*;
use crate::a2a::Operation;
use crate::a2a::jsonrpc::{MAX_ID_BYTES, MAX_REFERENCES};

/// Task, context and references.
type Named = (Option<String>, Option<String>, Vec<String>);

fn read(generation: Generation, operation: Operation, message: &[u8]) -> Result<Named, CallError> {
    let method = method(path(generation, operation).unwrap()).unwrap();
    let call = read_call(method, message)?;
    assert_eq!((call.generation, call.operation), (generation, operation));
    assert_eq!(&*call.id.0, b"null");
    let references = call.references.iter().map(ToString::to_string).collect();
    Ok((
        call.task.map(|id| id.to_string()),
        call.context.map(|id| id.to_string()),
        references,
    ))
}

fn names(task: &str, context: &str, references: &[&str]) -> Result<Named, CallError> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok((
        some(task),
        some(context),
        references.iter().map(ToString::to_string).collect(),
    ))
}

#[track_caller]
fn check(generation: Generation, operation: Operation, message: &[u8], expected: Result<Named, CallError>) {
    assert_eq!(
        read(generation, operation, message),
        expected,
        "{generation} {operation:?} {message:02x?}"
    );
}

#[test]
fn methods_are_found_by_their_paths() {
    for (at, generation, operation) in [
        ("/a2a.v1.A2AService/SendMessage", V0_3, Operation::Send),
        ("/lf.a2a.v1.A2AService/SendMessage", V1_0, Operation::Send),
        ("/a2a.v1.A2AService/TaskSubscription", V0_3, Operation::Subscribe),
        ("/lf.a2a.v1.A2AService/SubscribeToTask", V1_0, Operation::Subscribe),
        (
            "/a2a.v1.A2AService/CreateTaskPushNotification",
            V0_3,
            Operation::PushCreate,
        ),
        ("/a2a.v1.A2AService/GetTaskPushNotification", V0_3, Operation::PushGet),
        ("/a2a.v1.A2AService/ListTaskPushNotification", V0_3, Operation::PushList),
        ("/a2a.v1.A2AService/GetAgentCard", V0_3, Operation::ExtendedCard),
        (
            "/lf.a2a.v1.A2AService/ListTaskPushNotificationConfigs",
            V1_0,
            Operation::PushList,
        ),
    ] {
        let found = method(at).unwrap();
        assert_eq!((found.generation, found.operation), (generation, operation), "{at}");
        assert_eq!(Some(found.name), at.rsplit('/').next());
    }
    for at in [
        "",
        "/",
        "SendMessage",
        "a2a.v1.A2AService/SendMessage",
        "/a2a.v1.A2AService/sendMessage",
        "/a2a.v1.A2AService/SendMessage/",
        "/a2a.v1.A2AService/ListTasks",
        "/a2a.v1.A2AService/SubscribeToTask",
        "/lf.a2a.v1.A2AService/TaskSubscription",
        "/grpc.health.v1.Health/Check",
    ] {
        assert_eq!(method(at), None, "{at}");
    }
    for generation in Generation::SPOKEN {
        for operation in Operation::ALL {
            let found = path(generation, operation).and_then(method);
            let found = found.map(|method| (method.generation, method.operation));
            let has_it = (generation, operation) != (V0_3, Operation::List);
            assert_eq!(found, has_it.then_some((generation, operation)));
        }
    }
    assert_eq!(
        path(V0_3, Operation::PushCreate),
        Some("/a2a.v1.A2AService/CreateTaskPushNotificationConfig")
    );
}

#[test]
fn sends_name_what_their_message_names() {
    let inner = || [text(1, "m"), text(2, "c"), text(3, "t"), number(4, 1)].concat();
    for operation in [Operation::Send, Operation::Stream] {
        check(V0_3, operation, &text(1, inner()), names("t", "c", &[]));
        check(
            V1_0,
            operation,
            &[text(1, "tenant"), text(2, inner())].concat(),
            names("t", "c", &[]),
        );
        // Where the other generation has the message.
        check(V0_3, operation, &text(2, inner()), names("", "", &[]));
        check(V0_3, operation, &[], names("", "", &[]));
        check(V1_0, operation, &message(2, [text(1, "m")]), names("", "", &[]));
    }
}

#[test]
fn a_task_that_a_push_configuration_names_is_a_reference() {
    let configuration = |field| {
        message(
            field,
            [message(2, [text(1, "tenant"), text(3, "other"), text(4, "url")])],
        )
    };
    let sent = [message(2, [text(3, "t"), text(8, "r")]), configuration(3)].concat();
    check(V1_0, Operation::Send, &sent, names("t", "", &["r", "other"]));
    // In 0.3 a secret stands there, which may be of any length.
    let secret = message(2, [message(2, [text(1, "id"), text(3, "x".repeat(MAX_ID_BYTES + 1))])]);
    check(V0_3, Operation::Send, &secret, names("", "", &[]));
}

#[test]
fn a_send_says_whether_it_sets_a_webhook() {
    let sets = |generation, operation, message: &[u8]| {
        let method = method(path(generation, operation).unwrap()).unwrap();
        read_call(method, message).unwrap().webhook
    };
    let push = message(2, [text(1, "id"), text(2, "url")]);
    for operation in [Operation::Send, Operation::Stream] {
        assert!(sets(V1_0, operation, &message(3, [push.clone()])));
        assert!(sets(V0_3, operation, &message(2, [push.clone()])));
        assert!(!sets(V1_0, operation, &message(3, [text(1, "text/plain")])));
        assert!(!sets(V0_3, operation, &message(2, [text(1, "text/plain")])));
        assert!(!sets(V1_0, operation, &[]));
    }
}

#[test]
fn references_are_read_and_bounded() {
    let sent = |field, count| text(field, text(8, "r").repeat(count));
    check(V0_3, Operation::Send, &sent(1, 2), names("", "", &["r", "r"]));
    check(
        V1_0,
        Operation::Send,
        &sent(2, MAX_REFERENCES),
        names("", "", &["r"; MAX_REFERENCES]),
    );
    check(
        V1_0,
        Operation::Send,
        &sent(2, MAX_REFERENCES + 1),
        Err(CallError::TooManyReferences),
    );
    check(
        V1_0,
        Operation::Send,
        &sent(2, MAX_REFERENCES * 10),
        Err(CallError::TooManyReferences),
    );
    check(
        V1_0,
        Operation::Send,
        &message(2, [text(8, ""), text(8, "r")]),
        names("", "", &["r"]),
    );
}

#[test]
fn calls_about_a_task_name_it() {
    let of_0_3 = text(1, "tasks/t-1");
    for operation in [
        Operation::Get,
        Operation::Cancel,
        Operation::Subscribe,
        Operation::PushGet,
        Operation::PushList,
        Operation::PushDelete,
        Operation::PushCreate,
    ] {
        check(V0_3, operation, &of_0_3, names("t-1", "", &[]));
        check(V0_3, operation, &[], Err(CallError::MissingTaskId));
        check(V1_0, operation, &[], Err(CallError::MissingTaskId));
    }
    for (operation, field, others) in [
        (Operation::Get, 2, [1, 3]),
        (Operation::Cancel, 2, [1, 1]),
        (Operation::Subscribe, 2, [1, 1]),
        (Operation::PushCreate, 3, [1, 2]),
        (Operation::PushGet, 2, [1, 3]),
        (Operation::PushDelete, 2, [1, 3]),
        (Operation::PushList, 1, [3, 4]),
    ] {
        check(V1_0, operation, &text(field, "t-1"), names("t-1", "", &[]));
        check(V1_0, operation, &text(field, ""), Err(CallError::MissingTaskId));
        let others = others.map(|field| text(field, "o")).concat();
        check(V1_0, operation, &others, Err(CallError::MissingTaskId));
        check(
            V1_0,
            operation,
            &[others, text(field, "t-1")].concat(),
            names("t-1", "", &[]),
        );
    }
    check(V1_0, Operation::List, &text(2, "c"), names("", "c", &[]));
    check(V1_0, Operation::List, &[], names("", "", &[]));
    for generation in Generation::SPOKEN {
        check(
            generation,
            Operation::ExtendedCard,
            &text(1, "tenant"),
            names("", "", &[]),
        );
    }
}

#[test]
fn resource_names_are_read_to_their_second_segment() {
    for name in [
        "tasks/t",
        "tasks/t/",
        "tasks/t/pushNotificationConfigs/",
        "tasks/t/pushNotificationConfigs/c",
        "tasks/t/pushNotification/undefined",
        "tasks/t//tasks/u",
    ] {
        check(V0_3, Operation::PushGet, &text(1, name), names("t", "", &[]));
    }
    // Some readers look for `tasks/` anywhere, so it must be what comes first.
    for name in [
        "t",
        "/tasks/t",
        "tasks/",
        "tasks",
        "tasks//t",
        "task/t",
        "Tasks/t",
        "x/tasks/t",
        "task/a/tasks/t",
        "/",
    ] {
        check(V0_3, Operation::Get, &text(1, name), Err(CallError::BadName));
    }
}

#[test]
fn push_configurations_of_0_3_name_their_task_in_two_places() {
    let created = |parent: &str, inner: &str| [text(1, parent), text(2, "c"), message(3, [text(1, inner)])].concat();
    let check = |parent, inner, expected| check(V0_3, Operation::PushCreate, &created(parent, inner), expected);
    check("tasks/t", "tasks/t/pushNotificationConfigs/c", names("t", "", &[]));
    check("", "tasks/t/pushNotificationConfigs/c", names("t", "", &[]));
    check("tasks/t", "", names("t", "", &[]));
    check("", "", Err(CallError::MissingTaskId));
    check(
        "tasks/t",
        "tasks/u/pushNotificationConfigs/c",
        Err(CallError::ConflictingNames),
    );
    check("tasks/t", "c", Err(CallError::BadName));
    check("t", "tasks/t/pushNotificationConfigs/c", Err(CallError::BadName));
}

#[test]
fn what_comes_twice_is_read_as_agents_read_it() {
    let twice = [text(2, "first"), text(2, "last")].concat();
    check(V1_0, Operation::Get, &twice, names("last", "", &[]));
    check(
        V1_0,
        Operation::Get,
        &[twice, text(2, "")].concat(),
        Err(CallError::MissingTaskId),
    );
    let pieces = [
        message(2, [text(3, "t"), text(8, "r")]),
        message(2, [text(2, "c"), text(8, "s")]),
    ]
    .concat();
    check(V1_0, Operation::Send, &pieces, names("t", "c", &["r", "s"]));
    let pieces = [message(2, [text(3, "t")]), message(2, [text(3, "u")]), message(2, [])].concat();
    check(V1_0, Operation::Send, &pieces, names("u", "", &[]));
    let pieces = [
        message(3, [message(2, [text(3, "t")])]),
        message(3, [message(2, [text(3, "u")]), message(2, [text(4, "url")])]),
    ];
    check(V1_0, Operation::Send, &pieces.concat(), names("", "", &["u"]));
    let pieces = [message(3, [text(1, "tasks/t")]), message(3, [text(1, "tasks/u")])];
    check(V0_3, Operation::PushCreate, &pieces.concat(), names("u", "", &[]));
}

#[test]
fn other_fields_are_passed_over() {
    let groups = [
        varint(9 << 3 | 3),
        varint(1 << 3 | 3),
        text(2, "no"),
        varint(1 << 3 | 4),
        varint(9 << 3 | 4),
    ]
    .concat();
    for other in [
        number(100, u64::MAX),
        text(0x1fff_ffff, "no"),
        [varint(7 << 3 | 1), vec![0xff; 8]].concat(),
        [varint(7 << 3 | 5), vec![0xff; 4]].concat(),
        groups,
        text(9, [0xff]),
    ] {
        let sent = [other.clone(), text(2, "t"), other].concat();
        check(V1_0, Operation::Get, &sent, names("t", "", &[]));
    }
    // A tag in more bytes than it needs is the same tag.
    check(
        V1_0,
        Operation::Get,
        &[0x92, 0x80, 0x00, 0x01, b't'],
        names("t", "", &[]),
    );
}

#[test]
fn what_is_no_message_is_refused() {
    let deep = |count: usize| {
        [
            varint(9 << 3 | 3).repeat(count),
            varint(9 << 3 | 4).repeat(count),
            text(2, "t"),
        ]
        .concat()
    };
    check(V1_0, Operation::Get, &deep(100), names("t", "", &[]));
    for (sent, error) in [
        // Truncated, in the tag, the length and the content.
        (vec![0x92], WireError::Cut),
        (vec![0x12], WireError::Cut),
        (vec![0x12, 0x80], WireError::Cut),
        (vec![0x12, 2, b't'], WireError::Cut),
        ([text(2, "t"), vec![0x08]].concat(), WireError::Cut),
        (vec![0x39, 0, 0], WireError::Cut),
        (vec![0x3d, 0, 0], WireError::Cut),
        // Lengths that overflow whatever they are added to.
        ([varint(2 << 3 | 2), varint(u64::MAX)].concat(), WireError::Cut),
        ([varint(2 << 3 | 2), varint(i64::MAX as u64)].concat(), WireError::Cut),
        (
            [varint(2 << 3 | 2), varint(u64::from(u32::MAX))].concat(),
            WireError::Cut,
        ),
        // Numbers of more than 64 bits; field numbers of 0 and of more than 29 bits.
        ([vec![0x08], vec![0xff; 9], vec![0x02]].concat(), WireError::Number),
        ([vec![0x08], vec![0xff; 11]].concat(), WireError::Number),
        (number(0, 1), WireError::Number),
        (number(1 << 29, 1), WireError::Number),
        // The wire types of other fields, and none.
        (number(2, 1), WireError::Kind),
        ([varint(2 << 3 | 5), vec![0; 4]].concat(), WireError::Kind),
        (vec![9 << 3 | 6, 0], WireError::Kind),
        (vec![9 << 3 | 7, 0], WireError::Kind),
        (vec![9 << 3 | 4], WireError::Kind),
        // Groups that do not end, or end as others.
        (vec![9 << 3 | 3], WireError::Cut),
        (vec![9 << 3 | 3, 8 << 3 | 4], WireError::Kind),
        (deep(101), WireError::Deep),
        (deep(100_000), WireError::Deep),
        (text(2, [b't', 0xff]), WireError::Text),
        ([text(2, [0xff]), text(2, "t")].concat(), WireError::Text),
    ] {
        check(V1_0, Operation::Get, &sent, Err(CallError::Wire(error)));
    }
    check(
        V1_0,
        Operation::Send,
        &number(2, 1),
        Err(CallError::Wire(WireError::Kind)),
    );
    check(
        V1_0,
        Operation::Send,
        &text(2, [0x1a, 5]),
        Err(CallError::Wire(WireError::Cut)),
    );
    check(
        V1_0,
        Operation::Send,
        &message(2, [number(3, 1)]),
        Err(CallError::Wire(WireError::Kind)),
    );
}

#[test]
fn ids_are_bounded() {
    let (most, more) = ("x".repeat(MAX_ID_BYTES), "x".repeat(MAX_ID_BYTES + 1));
    check(V1_0, Operation::Get, &text(2, &most), names(&most, "", &[]));
    check(V1_0, Operation::Get, &text(2, &more), Err(CallError::IdTooLong));
    check(V1_0, Operation::List, &text(2, &more), Err(CallError::IdTooLong));
    check(
        V0_3,
        Operation::Get,
        &text(1, format!("tasks/{most}")),
        names(&most, "", &[]),
    );
    check(
        V0_3,
        Operation::Get,
        &text(1, format!("tasks/{more}")),
        Err(CallError::IdTooLong),
    );
    for field in [2, 3, 8] {
        check(
            V1_0,
            Operation::Send,
            &message(2, [text(field, &more)]),
            Err(CallError::IdTooLong),
        );
    }
}

#[test]
fn errors_have_texts() {
    let errors = [
        CallError::Wire(WireError::Cut),
        CallError::Wire(WireError::Number),
        CallError::Wire(WireError::Kind),
        CallError::Wire(WireError::Text),
        CallError::Wire(WireError::Deep),
        CallError::MissingTaskId,
        CallError::BadName,
        CallError::ConflictingNames,
        CallError::IdTooLong,
        CallError::TooManyReferences,
    ];
    let labels: std::collections::BTreeSet<_> = errors.iter().map(|error| error.as_str()).collect();
    let texts: std::collections::BTreeSet<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!((labels.len(), texts.len()), (errors.len(), errors.len()));
}

proptest! {
    #[test]
    fn nothing_panics(any in proptest::collection::vec(any::<u8>(), 0..100), like in wire_like()) {
        for bytes in [any, like] {
            for generation in Generation::SPOKEN {
                for operation in Operation::ALL {
                    if let Some(method) = path(generation, operation).and_then(method) {
                        let _read = read_call(method, &bytes);
                    }
                    let _read = read_answer(&bytes, generation, operation);
                }
            }
        }
    }
}

#[test]
fn tenants_are_read_where_a_request_has_them() {
    for &operation in &Operation::ALL {
        for generation in Generation::SPOKEN {
            let Some(method) = path(generation, operation).and_then(super::method) else {
                continue;
            };
            let place = if operation == Operation::PushList { 4 } else { 1 };
            let expected = (generation == V1_0).then_some("north");
            let request = [text(place, "south"), text(place, "north")].concat();
            assert_eq!(read_tenant(method, &request), expected, "{method:?}");
            assert_eq!(read_tenant(method, &text(place, "")), None, "{method:?}");
            assert_eq!(read_tenant(method, &[0xff]), None, "{method:?}");
        }
    }
}

#[test]
fn what_is_left_of_a_time_is_written_as_it_is_read() {
    use core::time::Duration;
    let check = |left: Duration, expected: &str| {
        assert_eq!(write_timeout(left), expected);
        assert!(read_timeout(expected).is_some());
    };
    check(Duration::ZERO, "1m");
    check(Duration::from_micros(1), "1m");
    check(Duration::from_millis(1500), "1500m");
    check(Duration::from_millis(99_999_999), "99999999m");
    check(Duration::from_millis(100_000_000), "100000S");
    check(Duration::MAX, "99999999S");
}

#[test]
fn a_server_works_unless_it_says_otherwise() {
    let check = |code: u32, message: &[u8], expected: bool| {
        let status = Status {
            code,
            ..Status::default()
        };
        assert_eq!(is_serving(message, &status), expected, "{code} {message:?}");
    };
    check(0, &number(1, 1), true);
    check(0, &number(1, 2), false);
    check(0, b"", false);
    check(0, &[0xff], false);
    check(12, b"", true);
    check(5, b"", true);
    check(14, b"", false);
}
