//! Which calls are read from request bodies, where their ids stand, and what is refused with which id.

use bytes::Bytes;

use crate::a2a::Generation::{V0_1, V0_3};
use crate::a2a::json::{self, Limits};
use crate::a2a::jsonrpc::RequestErrorKind as Refused;
use crate::a2a::jsonrpc::*;
use crate::a2a::{Call, ContextId, Operation, RpcId, TaskId, v0_1};

fn read(body: &str) -> Result<Call, RequestError> {
    read_request(&Bytes::copy_from_slice(body.as_bytes()), Limits::default())
}

fn call(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
}

/// What a call names: its task and context, `-` for none.
fn check(method: &str, params: &str, expected: Result<(&str, &str), Refused>) {
    let got = read(&call(method, params));
    let got = got
        .map(|call| {
            assert_eq!(&*call.id.0, b"7");
            let task = call.task.map_or("-".to_owned(), |id| id.to_string());
            let context = call.context.map_or("-".to_owned(), |id| id.to_string());
            (task, context)
        })
        .map_err(|error| {
            assert_eq!(error.id, Some(RpcId(Bytes::from_static(b"7"))), "{method} {params}");
            error.kind
        });
    let expected = expected.map(|(task, context)| (task.to_owned(), context.to_owned()));
    assert_eq!(got, expected, "{method} {params}");
}

fn refuse(body: &str, kind: Refused, id: Option<&'static str>) {
    let error = read(body).unwrap_err();
    let id = id.map(|id| RpcId(Bytes::from_static(id.as_bytes())));
    assert_eq!((error.kind, error.id), (kind, id), "{body}");
}

#[test]
fn every_method_reads_back_by_its_name() {
    let mut count = 0;
    for generation in crate::a2a::Generation::SPOKEN {
        for operation in Operation::ALL {
            let Some(name) = method_name(generation, operation) else {
                assert_eq!((generation, operation), (V0_3, Operation::List));
                continue;
            };
            let method = method(name).unwrap();
            assert_eq!((method.generation, method.operation), (generation, operation));
            count += 1;
        }
    }
    assert_eq!(count, 21);
}

#[test]
fn methods_of_0_1_are_read_where_it_is_served() {
    let params = r#"{"id":"p-id","taskId":"p-task","sessionId":"s","contextId":"c",
        "message":{"taskId":"m-task","contextId":"m-context","referenceTaskIds":["r"]}}"#;
    let read = |method: &str, params: &str, methods| {
        let read = read_request_or_0_1(&Bytes::from(call(method, params)), Limits::default(), methods);
        read.map_err(|error| error.kind)
    };
    let check = |method: &str, methods, expected: Option<(Operation, Option<&str>)>| {
        let got = read(method, params, methods).ok();
        let got = got.map(|call| {
            assert_eq!((call.generation, call.references), (V0_1, Vec::new()), "{method}");
            (call.operation, call.task, call.context)
        });
        let expected =
            expected.map(|(operation, context)| (operation, Some(TaskId::new("p-id")), context.map(ContextId::new)));
        assert_eq!(got, expected, "{method} {methods:?}");
    };
    let (strict, lenient) = (Some(v0_1::Methods::Strict), Some(v0_1::Methods::Lenient));
    for (method, operation, context) in [
        ("tasks/send", Operation::Send, Some("s")),
        ("tasks/sendSubscribe", Operation::Stream, Some("s")),
        ("tasks/pushNotification/set", Operation::PushCreate, None),
        ("tasks/pushNotification/get", Operation::PushGet, None),
    ] {
        check(method, strict, Some((operation, context)));
        check(method, lenient, Some((operation, context)));
        check(method, None, None);
    }
    check("sendTask", lenient, Some((Operation::Send, Some("s"))));
    check("sendTaskSubscribe", lenient, Some((Operation::Stream, Some("s"))));
    check("sendTask", strict, None);
    let params = |params| read("tasks/send", params, strict);
    assert_eq!(params(r#"{"sessionId":"s"}"#), Err(Refused::MissingTaskId));
    assert_eq!(params(r#"{"id":""}"#), Err(Refused::InvalidParams));
    assert_eq!(params(r#"{"id":"t","sessionId":7}"#), Err(Refused::InvalidParams));
    for none in [
        r#"{"id":"t"}"#,
        r#"{"id":"t","sessionId":null}"#,
        r#"{"id":"t","sessionId":""}"#,
    ] {
        assert_eq!(params(none).map(|call| call.context), Ok(None), "{none}");
    }
    for (hook, expected) in [(r#"{"url":"u"}"#, true), ("null", false)] {
        let sent = format!(r#"{{"id":"t","pushNotification":{hook}}}"#);
        let got = read("tasks/send", &sent, strict).map(|call| call.webhook);
        assert_eq!(got, Ok(expected), "{sent}");
    }
    // Those that 0.3 has too are its until the task tells.
    let shared = read("tasks/get", r#"{"id":"t"}"#, strict).map(|call| call.generation);
    assert_eq!(shared, Ok(V0_3));
}

#[test]
fn ids_stand_where_the_method_keeps_them() {
    let everywhere = r#"{"id":"p-id","taskId":"p-task","contextId":"p-context","pushNotificationConfigId":"c",
        "message":{"taskId":"m-task","contextId":"m-context","messageId":"m","referenceTaskIds":["r"]}}"#;
    for (method, task, context) in [
        ("message/send", "m-task", "m-context"),
        ("message/stream", "m-task", "m-context"),
        ("tasks/get", "p-id", "-"),
        ("tasks/cancel", "p-id", "-"),
        ("tasks/resubscribe", "p-id", "-"),
        ("tasks/pushNotificationConfig/set", "p-task", "-"),
        ("tasks/pushNotificationConfig/get", "p-id", "-"),
        ("tasks/pushNotificationConfig/list", "p-id", "-"),
        ("tasks/pushNotificationConfig/delete", "p-id", "-"),
        ("agent/getAuthenticatedExtendedCard", "-", "-"),
        ("SendMessage", "m-task", "m-context"),
        ("SendStreamingMessage", "m-task", "m-context"),
        ("GetTask", "p-id", "-"),
        ("ListTasks", "-", "p-context"),
        ("CancelTask", "p-id", "-"),
        ("SubscribeToTask", "p-id", "-"),
        ("CreateTaskPushNotificationConfig", "p-task", "-"),
        ("GetTaskPushNotificationConfig", "p-task", "-"),
        ("ListTaskPushNotificationConfigs", "p-task", "-"),
        ("DeleteTaskPushNotificationConfig", "p-task", "-"),
        ("GetExtendedAgentCard", "-", "-"),
    ] {
        check(method, everywhere, Ok((task, context)));
        let snake = everywhere
            .replace("taskId", "task_id")
            .replace("contextId", "context_id")
            .replace("referenceTaskIds", "reference_task_ids");
        check(method, &snake, Ok((task, context)));
        let call = read(&call(method, everywhere)).unwrap();
        let sends = matches!(call.operation, Operation::Send | Operation::Stream);
        let references = if sends { vec![TaskId::new("r")] } else { vec![] };
        assert_eq!(call.references, references, "{method}");
    }
}

#[test]
fn calls_that_must_name_a_task_are_refused_without() {
    for method in [
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotificationConfig/list",
        "tasks/pushNotificationConfig/delete",
        "GetTask",
        "CancelTask",
        "SubscribeToTask",
    ] {
        check(method, r#"{"taskId":"x"}"#, Err(Refused::MissingTaskId));
        check(method, r#"{"id":null}"#, Err(Refused::MissingTaskId));
        check(method, r#"{"id":""}"#, Err(Refused::InvalidParams));
        check(method, r#"{"id":5}"#, Err(Refused::InvalidParams));
        check(method, "null", Err(Refused::MissingTaskId));
    }
    for method in [
        "tasks/pushNotificationConfig/set",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    ] {
        check(method, r#"{"id":"x"}"#, Err(Refused::MissingTaskId));
        check(method, r#"{"taskId":["x"]}"#, Err(Refused::InvalidParams));
    }
}

#[test]
fn sends_may_name_nothing() {
    for method in ["message/send", "SendMessage"] {
        for params in [
            "{}",
            "null",
            r#"{"message":{}}"#,
            r#"{"message":null}"#,
            r#"{"message":{"taskId":null}}"#,
        ] {
            check(method, params, Ok(("-", "-")));
        }
        for params in [
            "[]",
            "7",
            r#""x""#,
            "true",
            r#"{"message":[]}"#,
            r#"{"message":"x"}"#,
            r#"{"message":{"taskId":7}}"#,
            r#"{"message":{"contextId":{}}}"#,
            r#"{"message":{"referenceTaskIds":"x"}}"#,
            r#"{"message":{"referenceTaskIds":[""]}}"#,
            r#"{"message":{"referenceTaskIds":[null]}}"#,
        ] {
            check(method, params, Err(Refused::InvalidParams));
        }
    }
    // ProtoJSON takes the empty string for none; the models of 0.3 do not.
    let empty = r#"{"message":{"taskId":"","contextId":""}}"#;
    check("SendMessage", empty, Ok(("-", "-")));
    check("message/send", empty, Err(Refused::InvalidParams));
    check("ListTasks", r#"{"contextId":""}"#, Ok(("-", "-")));
    // Nobody asks what a method without a message calls by that name.
    check("GetTask", r#"{"id":"t","message":7}"#, Ok(("t", "-")));
}

#[test]
fn two_spellings_must_agree() {
    for (params, expected) in [
        (r#"{"message":{"taskId":"t","task_id":"t"}}"#, Ok(("t", "-"))),
        (r#"{"message":{"taskId":"t","task_id":"\u0074"}}"#, Ok(("t", "-"))),
        (r#"{"message":{"task_id":null,"taskId":null}}"#, Ok(("-", "-"))),
        (
            r#"{"message":{"referenceTaskIds":["a"],"reference_task_ids":["a"]}}"#,
            Ok(("-", "-")),
        ),
        (
            r#"{"message":{"taskId":"t","task_id":"u"}}"#,
            Err(Refused::ConflictingSpellings),
        ),
        (
            r#"{"message":{"taskId":"t","task_id":null}}"#,
            Err(Refused::ConflictingSpellings),
        ),
        (
            r#"{"message":{"task_id":"","taskId":"t"}}"#,
            Err(Refused::ConflictingSpellings),
        ),
        (
            r#"{"message":{"context_id":"c","contextId":"d"}}"#,
            Err(Refused::ConflictingSpellings),
        ),
        (
            r#"{"message":{"referenceTaskIds":["a"],"reference_task_ids":[]}}"#,
            Err(Refused::ConflictingSpellings),
        ),
        (
            r#"{"message":{"referenceTaskIds":null,"reference_task_ids":["a"]}}"#,
            Err(Refused::ConflictingSpellings),
        ),
    ] {
        check("SendMessage", params, expected);
        check("message/send", params, expected);
    }
}

#[test]
fn the_task_of_an_inline_push_configuration_is_named_too() {
    let references = |method: &str, configuration: &str| {
        let params = format!(r#"{{"configuration":{configuration},"message":{{"referenceTaskIds":["r"]}}}}"#);
        let call = read(&call(method, &params)).map_err(|error| error.kind)?;
        Ok(call
            .references
            .iter()
            .map(|id| id.as_str().to_owned())
            .collect::<Vec<_>>())
    };
    let over = "x".repeat(MAX_ID_BYTES + 1);
    let names = |ids: &[&str]| Ok(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
    for (configuration, expected) in [
        (
            r#"{"taskPushNotificationConfig":{"url":"u","taskId":"t"}}"#,
            names(&["r", "t"]),
        ),
        (
            r#"{"task_push_notification_config":{"task_id":"t"}}"#,
            names(&["r", "t"]),
        ),
        (r#"{"pushNotificationConfig":{"taskId":"\u0074"}}"#, names(&["r", "t"])),
        (
            r#"{"push_notification_config":{"task_id":"t","taskId":"t"}}"#,
            names(&["r", "t"]),
        ),
        (
            r#"{"taskPushNotificationConfig":{"taskId":"t"},"pushNotificationConfig":{"url":"u"}}"#,
            names(&["r", "t"]),
        ),
        // What clients send for a task that is still to be made.
        (
            r#"{"taskPushNotificationConfig":{"url":"u","taskId":""}}"#,
            names(&["r"]),
        ),
        (
            r#"{"taskPushNotificationConfig":{"url":"u","taskId":null}}"#,
            names(&["r"]),
        ),
        (
            r#"{"taskPushNotificationConfig":{"id":"t","metadata":{"taskId":"t"}}}"#,
            names(&["r"]),
        ),
        (
            r#"{"taskPushNotificationConfig":null,"metadata":{"taskId":"t"}}"#,
            names(&["r"]),
        ),
        ("null", names(&["r"])),
        // Some readers take a list for the members in their order.
        ("[]", Err(Refused::InvalidParams)),
        ("7", Err(Refused::InvalidParams)),
        (
            r#"{"taskPushNotificationConfig":["tenant","id","t"]}"#,
            Err(Refused::InvalidParams),
        ),
        (r#"{"push_notification_config":"t"}"#, Err(Refused::InvalidParams)),
        (
            r#"{"taskPushNotificationConfig":{"taskId":7}}"#,
            Err(Refused::InvalidParams),
        ),
        (
            r#"{"taskPushNotificationConfig":{"taskId":"t","task_id":"u"}}"#,
            Err(Refused::ConflictingSpellings),
        ),
        (
            r#"{"taskPushNotificationConfig":{"taskId":"t"},"task_push_notification_config":{"taskId":"u"}}"#,
            Err(Refused::ConflictingSpellings),
        ),
        (
            &format!(r#"{{"taskPushNotificationConfig":{{"taskId":"{over}"}}}}"#),
            Err(Refused::IdTooLong),
        ),
    ] {
        for method in ["SendMessage", "SendStreamingMessage", "message/send", "message/stream"] {
            assert_eq!(references(method, configuration), expected, "{method} {configuration}");
        }
        // Nobody asks what another method calls so.
        let params = format!(r#"{{"id":"x","configuration":{configuration}}}"#);
        check("GetTask", &params, Ok(("x", "-")));
    }
}

#[test]
fn look_alikes_are_refused_where_ids_are_read() {
    for params in [
        r#"{"ID":"x","id":"x"}"#,
        r#"{"Id":"x"}"#,
        r#"{"taskid":"x"}"#,
        r#"{"TaskId":"x"}"#,
        r#"{"TASK_ID":"x"}"#,
        r#"{"Message":{}}"#,
        r#"{"ta\u017fkId":"x"}"#,
        r#"{"tas\u212aId":"x"}"#,
        r#"{"taſKId":"x"}"#,
        r#"{"message":{"TaskID":"x"}}"#,
        r#"{"message":{"contextid":"x"}}"#,
        r#"{"message":{"ReferenceTaskIds":[]}}"#,
        r#"{"message":{"Context_Id":"x"}}"#,
        r#"{"Configuration":{}}"#,
        r#"{"configuration":{"TaskPushNotificationConfig":{}}}"#,
        r#"{"configuration":{"pushnotificationconfig":{}}}"#,
        r#"{"configuration":{"taskPushNotificationConfig":{"TaskID":"x"}}}"#,
    ] {
        check("SendMessage", params, Err(Refused::LookAlikeParam));
        check("tasks/get", params, Err(Refused::LookAlikeParam));
    }
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","Method":"CancelTask","params":{"id":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","PARAMS":{"id":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"ID":8,"method":"GetTask","params":{"id":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","param\u017f":{},"params":{"id":"x"}}"#,
    ] {
        refuse(body, Refused::LookAlikeMember, Some("7"));
    }
    // Elsewhere, and names that merely begin or end alike, are the agent's business.
    check(
        "SendMessage",
        r#"{"task":"x","ids":"y","taskIds":[],"metadata":{"ID":1,"Message":2},"configuration":{"ID":"x","TaskId":"x","taskPushNotificationConfig":{"ID":"x"}},"message":{"ID":"x","messageId":"m","metadata":{"TaskId":1},"parts":[{"TaskId":1}]}}"#,
        Ok(("-", "-")),
    );
}

#[test]
fn ids_are_strings_whole_numbers_or_null_and_kept_as_written() {
    let body = |id: &str| format!(r#"{{"method":"GetTask","params":{{"id":"t"}},"id":{id},"jsonrpc":"2.0"}}"#);
    let long = format!("\"{}\"", "x".repeat(MAX_RPC_ID_BYTES - 2));
    for id in [
        "7",
        "-1",
        "0",
        "null",
        "\"\"",
        "\"a\\u0062\\n\"",
        "123456789012345678901234567890",
        &long,
    ] {
        let call = read(&body(id)).unwrap();
        assert_eq!(call.id.0, id.as_bytes(), "{id}");
    }
    let longer = format!("\"{}\"", "x".repeat(MAX_RPC_ID_BYTES - 1));
    for id in ["1.5", "1e3", "1E3", "1.0", "true", "[]", "{}", "[1]", &longer] {
        refuse(&body(id), Refused::InvalidRequest, None);
    }
}

#[test]
fn what_is_no_request_is_refused_with_its_id_if_there_is_one() {
    for (body, kind, id) in [
        ("[]", Refused::Batch, None),
        (
            r#"[{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"x"}}]"#,
            Refused::Batch,
            None,
        ),
        ("7", Refused::InvalidRequest, None),
        ("\"x\"", Refused::InvalidRequest, None),
        ("null", Refused::InvalidRequest, None),
        ("{}", Refused::InvalidRequest, None),
        (
            r#"{"id":7,"method":"GetTask","params":{"id":"x"}}"#,
            Refused::InvalidRequest,
            Some("7"),
        ),
        (
            r#"{"jsonrpc":"1.0","id":7,"method":"GetTask"}"#,
            Refused::InvalidRequest,
            Some("7"),
        ),
        (
            r#"{"jsonrpc":2.0,"id":7,"method":"GetTask"}"#,
            Refused::InvalidRequest,
            Some("7"),
        ),
        (r#"{"jsonrpc":"2.0","id":7}"#, Refused::InvalidRequest, Some("7")),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":null}"#,
            Refused::InvalidRequest,
            Some("7"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            Refused::InvalidRequest,
            Some("7"),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"GetTask","params":{"id":"x"}}"#,
            Refused::Notification,
            None,
        ),
        (r#"{"jsonrpc":"2.0","method":"Nope"}"#, Refused::Notification, None),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":""}"#,
            Refused::UnknownMethod,
            Some("7"),
        ),
        (
            r#"{"params":{},"method":"tasks/list","jsonrpc":"2.0","id":"late"}"#,
            Refused::UnknownMethod,
            Some("\"late\""),
        ),
    ] {
        refuse(body, kind, id);
    }
    for method in [
        "tasks/list",
        "tasks/send",
        "sendTask",
        "gettask",
        "GETTASK",
        "GetTask ",
        "message/Send",
        "tasks/subscribe",
    ] {
        check(method, "{}", Err(Refused::UnknownMethod));
    }
    // A parser reads the escape, so the gateway does.
    check("GetT\\u0061sk", r#"{"id":"t"}"#, Ok(("t", "-")));
}

#[test]
fn a_body_that_is_no_json_has_an_id_only_if_it_is_beyond_doubt() {
    use json::ErrorKind::{DuplicateName, InvalidUtf8, NumberTooLong, Surrogate, Syntax, TooDeep, TrailingData};
    let deep = format!(r#"{{"id":7,"params":{}"#, "[".repeat(200));
    let digits = format!(r#"{{"id":7,"params":[{}]}}"#, "1".repeat(400));
    for (body, kind, id) in [
        (r#"{"id":7,"#, Syntax, None),
        (r#"{"id":7}}"#, TrailingData, None),
        (r#"{"id":7,"x":"\ud800"}"#, Surrogate, None),
        (r#"{"id":7,"params":{"a":1,"a":2}}"#, DuplicateName, Some("7")),
        (
            r#"{"id":7,"params":[{"message":{"a":{"b":1,"b":1}}}]}"#,
            DuplicateName,
            Some("7"),
        ),
        (r#"{"id":7,"id":8}"#, DuplicateName, None),
        (r#"{"id":7,"method":"a","method":"b"}"#, DuplicateName, None),
        (r#"{"params":{"a":1,"a":2},"id":7}"#, DuplicateName, None),
        (&deep, TooDeep, Some("7")),
        (&digits, NumberTooLong, Some("7")),
    ] {
        refuse(body, Refused::Json(kind), id);
    }
    let error = read_request(&Bytes::from_static(b"{\"id\":7,\"x\":\"\xff\"}"), Limits::default());
    assert_eq!(error.unwrap_err().kind, Refused::Json(InvalidUtf8));
}

#[test]
fn ids_and_references_have_limits() {
    let fits = "x".repeat(MAX_ID_BYTES);
    let over = "x".repeat(MAX_ID_BYTES + 1);
    check("GetTask", &format!(r#"{{"id":"{fits}"}}"#), Ok((&fits, "-")));
    check("GetTask", &format!(r#"{{"id":"{over}"}}"#), Err(Refused::IdTooLong));
    check(
        "SendMessage",
        &format!(r#"{{"message":{{"contextId":"{over}"}}}}"#),
        Err(Refused::IdTooLong),
    );
    check(
        "SendMessage",
        &format!(r#"{{"message":{{"referenceTaskIds":["{over}"]}}}}"#),
        Err(Refused::IdTooLong),
    );
    let references = |count: usize| {
        format!(
            r#"{{"message":{{"referenceTaskIds":[{}]}}}}"#,
            vec!["\"r\""; count].join(",")
        )
    };
    check("SendMessage", &references(MAX_REFERENCES), Ok(("-", "-")));
    check(
        "SendMessage",
        &references(MAX_REFERENCES + 1),
        Err(Refused::TooManyReferences),
    );
}

#[test]
fn refusals_quote_nothing_of_the_body() {
    for body in [
        call("secret-method", "{}"),
        call("GetTask", r#"{"id":["secret-id"]}"#),
        call("GetTask", r#"{"ID":"secret-id"}"#),
        "secret".to_owned(),
    ] {
        let error = read(&body).unwrap_err();
        assert!(!format!("{error} {}", error.kind.as_str()).contains("secret"));
    }
}

#[test]
fn codes_are_those_of_json_rpc() {
    for (kind, code) in [
        (Refused::Json(json::ErrorKind::Syntax), -32700),
        (Refused::Json(json::ErrorKind::DuplicateName), -32700),
        (Refused::Batch, -32600),
        (Refused::Notification, -32600),
        (Refused::InvalidRequest, -32600),
        (Refused::LookAlikeMember, -32600),
        (Refused::UnknownMethod, -32601),
        (Refused::InvalidParams, -32602),
        (Refused::MissingTaskId, -32602),
        (Refused::IdTooLong, -32602),
        (Refused::TooManyReferences, -32602),
        (Refused::ConflictingSpellings, -32602),
        (Refused::LookAlikeParam, -32602),
    ] {
        assert_eq!(kind.code(), code, "{}", kind.as_str());
    }
}

#[test]
fn a_send_says_whether_it_sets_a_webhook() {
    let sets = |method: &str, params: &str| {
        read(&call(method, params))
            .unwrap_or_else(|error| panic!("{error:?}"))
            .webhook
    };
    let message = r#""message":{"messageId":"m"}"#;
    for (method, member) in [
        ("SendMessage", "taskPushNotificationConfig"),
        ("SendStreamingMessage", "task_push_notification_config"),
        ("message/send", "pushNotificationConfig"),
        ("message/stream", "push_notification_config"),
    ] {
        let configured = |value: &str| format!(r#"{{{message},"configuration":{{"{member}":{value}}}}}"#);
        assert!(
            sets(method, &configured(r#"{"url":"https://hooks.example/"}"#)),
            "{method}"
        );
        assert!(!sets(method, &configured("null")), "{method}");
        assert!(!sets(method, &format!("{{{message}}}")), "{method}");
        // Where it means nothing.
        assert!(
            !sets(method, &format!(r#"{{{message},"pushNotification":{{"url":"u"}}}}"#)),
            "{method}"
        );
    }
    assert!(!sets(
        "GetTask",
        r#"{"id":"t","configuration":{"pushNotificationConfig":{"url":"u"}}}"#
    ));
}
