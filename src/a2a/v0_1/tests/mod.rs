//! Recorded traffic of 0.1, what is lost, and generated requests and answers.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::a2a::translate::tests::generated::{object, put, put_all, text};
use crate::a2a::{Generation, jsonrpc};

mod agent;

type Both = (Value, Value);

const NAMES: Names<'_> = Names {
    task: "agents-task",
    message: "made-up",
};
const NEW: Names<'_> = Names { task: "", ..NAMES };
const TOLD: Told<'_> = Told {
    task: "callers-task",
    session: "",
};

/// The parameters of 1.0 that parameters of 0.1 are.
fn request(operation: Operation, params: &Value, names: Names<'_>) -> Result<Value, Error> {
    let text = params.to_string();
    let params: &RawValue = serde_json::from_str(&text).unwrap();
    let mut out = Vec::new();
    read_request(operation, Some(params), names)?.write(&mut out).unwrap();
    Ok(serde_json::from_slice(&out).unwrap())
}

/// The result of 0.1 that a result of 1.0 is.
fn answer(operation: Operation, result: &Value, told: Told<'_>) -> Result<Value, Error> {
    let text = result.to_string();
    let mut out = Vec::new();
    write_response(Response::read(operation, &text).unwrap(), told, &mut out)?;
    Ok(serde_json::from_slice(&out).unwrap())
}

fn events(progress: &mut Progress, event: &Value) -> Result<Vec<Value>, Error> {
    let text = event.to_string();
    let mut events = Vec::new();
    let event = serde_json::from_str(&text).unwrap();
    write_events(event, TOLD, progress, |event| {
        events.push(serde_json::from_slice(event).unwrap());
    })?;
    Ok(events)
}

fn send() -> Value {
    json!({"id": "callers-task", "message": {"role": "user", "parts": [{"type": "text", "text": "hi"}]}})
}

#[test]
fn an_agent_is_called_by_the_methods_own_name() {
    let check = |body: &str, operation, expected: Option<&str>| {
        let got = respelled(body.as_bytes(), operation, crate::a2a::json::Limits::default());
        assert_eq!(got.as_deref(), expected.map(str::as_bytes), "{body}");
    };
    let lenient = r#"{ "id":1, "params":{"method":"sendTask","id":"t"} ,"method" : "sendTask","x":[1.50]}"#;
    let own = r#"{ "id":1, "params":{"method":"sendTask","id":"t"} ,"method" : "tasks/send","x":[1.50]}"#;
    check(lenient, Operation::Send, Some(own));
    check(own, Operation::Send, None);
    check(&own.replace("tasks/send", "tasks\\/send"), Operation::Send, None);
    check(lenient, Operation::List, None);
    let stream = r#"{"method":"sendTaskSubscribe"}"#;
    check(stream, Operation::Stream, Some(r#"{"method":"tasks/sendSubscribe"}"#));
    for broken in ["", "[]", r#"{"method":1}"#, r#"{"method":"#] {
        check(broken, Operation::Send, None);
    }
}

#[test]
fn methods_are_those_of_the_specification_and_leniently_some_more() {
    fn check(method: &str, strict: Option<Operation>, lenient: Option<Operation>) {
        let named = |methods| only_0_1(method, methods);
        assert_eq!(named(Methods::Strict), strict.map(|it| (method, it)), "{method}");
        assert_eq!(named(Methods::Lenient), lenient.map(|it| (method, it)), "{method}");
    }
    let both = |method, operation| check(method, Some(operation), Some(operation));
    both("tasks/send", Operation::Send);
    both("tasks/sendSubscribe", Operation::Stream);
    both("tasks/pushNotification/set", Operation::PushCreate);
    both("tasks/pushNotification/get", Operation::PushGet);
    check("sendTask", None, Some(Operation::Send));
    check("sendTaskSubscribe", None, Some(Operation::Stream));
    for unknown in [
        // 0.3 has these three too.
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "message/send",
        "SendMessage",
        "Tasks/send",
        "tasks/send/",
        "sendtask",
        "",
    ] {
        check(unknown, None, None);
    }
    for operation in Operation::ALL {
        let name = jsonrpc::method_name(Generation::V0_3, operation);
        let shared = matches!(name, Some("tasks/get" | "tasks/cancel" | "tasks/resubscribe"));
        assert_eq!(is_shared(operation), shared, "{operation:?}");
    }
}

#[test]
fn a_recorded_send_is_one_of_1_0() {
    let recorded = json!({"id": "0692f270", "sessionId": "09eb3ae5",
        "message": {"role": "user", "parts": [{"type": "text", "text": "berth for 120 m", "metadata": null}],
            "metadata": null},
        "acceptedOutputModes": ["text/plain"], "pushNotification": null, "historyLength": 5, "metadata": null});
    let expected = json!({
        "message": {"messageId": "made-up", "contextId": "09eb3ae5", "role": "ROLE_USER",
            "parts": [{"text": "berth for 120 m"}]},
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 5}});
    for operation in [Operation::Send, Operation::Stream] {
        assert_eq!(request(operation, &recorded, NEW), Ok(expected.clone()));
    }
}

#[test]
fn a_recorded_task_is_told() {
    let task = json!({"id": "agents-task", "contextId": "09eb3ae5",
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-21T04:21:14.475331Z",
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Berth allotted."}]}},
        "artifacts": [{"artifactId": "a", "name": "Berth plan", "parts": [{"text": "Berth 14, from 06:30"}]}],
        "history": [{"messageId": "m0", "role": "ROLE_USER", "parts": [{"text": "berth for 120 m"}]}]});
    let expected = json!({"id": "callers-task", "sessionId": "09eb3ae5",
        "status": {"state": "completed", "message": {"role": "agent",
            "parts": [{"type": "text", "text": "Berth allotted."}]}, "timestamp": "2026-11-21T04:21:14.475331Z"},
        "artifacts": [{"name": "Berth plan", "parts": [{"type": "text", "text": "Berth 14, from 06:30"}], "index": 0}],
        "history": [{"role": "user", "parts": [{"type": "text", "text": "berth for 120 m"}]}]});
    assert_eq!(answer(Operation::Get, &task, TOLD), Ok(expected.clone()));
    assert_eq!(answer(Operation::Send, &json!({"task": task}), TOLD), Ok(expected));
}

#[test]
fn tasks_go_by_the_agents_name_there_and_by_the_callers_back() {
    let named = json!({"id": "agents-task"});
    for operation in [Operation::Cancel, Operation::Subscribe, Operation::Get] {
        let params = json!({"id": "callers-task"});
        assert_eq!(request(operation, &params, NAMES), Ok(named.clone()));
        assert_eq!(
            request(operation, &params, NEW),
            Err(Error::Malformed),
            "a task that is not known"
        );
    }
    let mut params = send();
    params["sessionId"] = "s".into();
    let known = request(Operation::Send, &params, NAMES).unwrap();
    assert_eq!(known["message"]["taskId"], "agents-task");
    let told = Told { session: "s", ..TOLD };
    let task = json!({"id": "agents-task", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
    let told = answer(Operation::Cancel, &task, told).unwrap();
    assert_eq!((&told["id"], &told["sessionId"]), (&json!("callers-task"), &json!("s")));
}

#[test]
fn the_session_is_the_context_of_a_new_task_alone() {
    let mut params = send();
    params["sessionId"] = "s".into();
    assert_eq!(
        request(Operation::Send, &params, NEW).unwrap()["message"]["contextId"],
        "s"
    );
    assert_eq!(
        request(Operation::Send, &params, NAMES).unwrap()["message"].get("contextId"),
        None
    );
}

#[test]
fn metadata_of_calls_go_where_1_0_has_them() {
    let params = json!({"id": "t", "historyLength": 10, "metadata": {"k": 1}});
    let id = "agents-task";
    assert_eq!(
        request(Operation::Get, &params, NAMES),
        Ok(json!({"id": id, "historyLength": 10}))
    );
    assert_eq!(
        request(Operation::Cancel, &params, NAMES),
        Ok(json!({"id": id, "metadata": {"k": 1}}))
    );
    assert_eq!(request(Operation::Subscribe, &params, NAMES), Ok(json!({"id": id})));
}

#[test]
fn push_configurations_have_no_id_of_their_own() {
    let config = json!({"url": "http://127.0.0.1:9/hook", "token": "t",
        "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "c"}});
    let of_1_0 = json!({"id": "0.1", "taskId": "agents-task", "url": "http://127.0.0.1:9/hook", "token": "t",
        "authentication": {"scheme": "Bearer", "credentials": "c"}});
    let params = json!({"id": "callers-task", "pushNotificationConfig": config});
    assert_eq!(request(Operation::PushCreate, &params, NAMES), Ok(of_1_0.clone()));
    let got = answer(Operation::PushGet, &of_1_0, TOLD).unwrap();
    assert_eq!(got["id"], "callers-task");
    assert_eq!(
        got["pushNotificationConfig"]["authentication"]["schemes"],
        json!(["Bearer"])
    );
    for none in [json!({"schemes": []}), json!({})] {
        let params = json!({"id": "callers-task", "pushNotificationConfig": {"url": "u", "authentication": none}});
        let of_1_0 = request(Operation::PushCreate, &params, NAMES).unwrap();
        let shown = answer(Operation::PushGet, &of_1_0, TOLD).unwrap();
        assert_eq!(
            shown["pushNotificationConfig"]["authentication"],
            json!({"schemes": []})
        );
    }
    let asked = request(Operation::PushGet, &json!({"id": "callers-task"}), NAMES);
    assert_eq!(asked, Ok(json!({"taskId": "agents-task", "id": "0.1"})));
    let mut params = send();
    params["pushNotification"] = config;
    let sent = request(Operation::Send, &params, NEW).unwrap();
    let inline = &sent["configuration"]["taskPushNotificationConfig"];
    assert_eq!(
        (inline.get("taskId"), &inline["id"], &inline["url"]),
        (None, &of_1_0["id"], &of_1_0["url"])
    );
}

#[test]
fn states_that_0_1_lacks_are_those_next_to_them() {
    for (state, told, last) in [
        ("TASK_STATE_SUBMITTED", "submitted", false),
        ("TASK_STATE_WORKING", "working", false),
        ("TASK_STATE_INPUT_REQUIRED", "input-required", true),
        ("TASK_STATE_AUTH_REQUIRED", "input-required", false),
        ("TASK_STATE_COMPLETED", "completed", true),
        ("TASK_STATE_FAILED", "failed", true),
        ("TASK_STATE_REJECTED", "failed", true),
        ("TASK_STATE_CANCELED", "canceled", true),
        ("TASK_STATE_UNSPECIFIED", "unknown", false),
    ] {
        let update = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}}});
        let expected = json!({"id": "callers-task", "status": {"state": told}, "final": last});
        assert_eq!(events(&mut Progress::default(), &update), Ok(vec![expected]), "{state}");
    }
}

#[test]
fn artifacts_are_told_by_their_place() {
    let mut progress = Progress::default();
    let mut check = |artifact: &str, append: bool, index: usize| {
        let update = json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": append, "lastChunk": !append,
            "artifact": {"artifactId": artifact, "parts": [{"text": "x"}], "extensions": ["e"]}}});
        let expected = json!({"id": "callers-task", "artifact": {"parts": [{"type": "text", "text": "x"}],
            "index": index, "append": append, "lastChunk": !append}});
        assert_eq!(events(&mut progress, &update), Ok(vec![expected]), "{artifact}");
    };
    check("b", false, 0);
    check("a", false, 1);
    check("b", true, 0);
    check("", false, 2);
}

#[test]
fn so_many_artifacts_are_told_apart_and_no_more() {
    let mut progress = Progress::default();
    for index in 0..Progress::MOST {
        assert_eq!(progress.index(&index.to_string()), Ok(index));
    }
    assert_eq!(progress.index("0"), Ok(0), "a known one");
    assert_eq!(progress.index("one more"), Err(Error::Malformed));
}

#[test]
fn a_task_on_a_stream_is_what_it_has_made_and_how_it_stands() {
    let task = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"},
        "artifacts": [{"artifactId": "a", "parts": []}, {"artifactId": "b", "parts": []}],
        "history": [{"messageId": "m", "role": "ROLE_USER", "parts": []}], "metadata": {"k": 1}}});
    let artifact = |index: usize| json!({"id": "callers-task", "artifact": {"parts": [], "index": index}});
    let status = json!({"id": "callers-task", "status": {"state": "working"}, "final": false, "metadata": {"k": 1}});
    let told = events(&mut Progress::default(), &task);
    assert_eq!(told, Ok(vec![artifact(0), artifact(1), status]));
}

#[test]
fn a_task_is_the_end_of_a_stream_where_nothing_follows() {
    let mut progress = Progress::default();
    let asks = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}});
    let status = |last: bool| json!({"id": "callers-task", "status": {"state": "input-required"}, "final": last});
    assert_eq!(events(&mut progress, &asks), Ok(vec![status(false)]));
    let end = progress.end().map(|end| serde_json::from_slice::<Value>(&end).unwrap());
    assert_eq!(end, Some(status(true)));
    assert_eq!(progress.end(), None, "one end");
    let works = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}});
    assert!(events(&mut progress, &works).is_ok());
    assert_eq!(progress.end(), None, "no end of a task");
}

#[test]
fn a_message_alone_is_a_task_that_is_done() {
    let message = json!({"message": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT",
        "parts": [{"text": "hi"}]}});
    let status = json!({"state": "completed", "message": {"role": "agent", "parts": [{"type": "text", "text": "hi"}]}});
    let task = json!({"id": "callers-task", "sessionId": "c", "status": status});
    assert_eq!(answer(Operation::Send, &message, TOLD), Ok(task));
    let event = json!({"id": "callers-task", "status": status, "final": true});
    assert_eq!(events(&mut Progress::default(), &message), Ok(vec![event]));
}

#[test]
fn ids_extensions_and_references_of_messages_are_left_out() {
    let message = json!({"messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_AGENT", "parts": [],
        "extensions": ["e"], "referenceTaskIds": ["r"]});
    let task = json!({"id": "t", "status": {"state": "TASK_STATE_WORKING", "message": message}});
    let told = answer(Operation::Get, &task, TOLD).unwrap();
    assert_eq!(told["status"]["message"], json!({"role": "agent", "parts": []}));
}

#[test]
fn parts_of_0_1_are_one_thing_each() {
    let parts = |part: Value| {
        let mut params = send();
        params["message"]["parts"] = json!([part]);
        request(Operation::Send, &params, NEW).map(|request| request["message"]["parts"][0].clone())
    };
    assert_eq!(parts(json!({"text": "no type"})), Ok(json!({"text": "no type"})));
    for broken in [
        json!({"type": "text"}),
        json!({"type": "file", "file": {"bytes": "", "uri": ""}}),
        json!({"type": "file", "file": {}}),
        json!({"type": "video", "text": "x"}),
        json!({}),
    ] {
        assert_eq!(parts(broken.clone()), Err(Error::Malformed), "{broken}");
    }
    // Data that are no object, there and back.
    let task =
        |data: &Value| json!({"id": "t", "status": {}, "artifacts": [{"artifactId": "a", "parts": [{"data": data}]}]});
    let told = answer(Operation::Get, &task(&json!([1])), TOLD).unwrap();
    let part = &told["artifacts"][0]["parts"][0];
    assert_eq!(
        *part,
        json!({"type": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}})
    );
    assert_eq!(parts(part.clone()), Ok(json!({"data": [1]})));
}

#[test]
fn requests_that_are_none_are_malformed() {
    let check = |operation, params: Value| {
        assert_eq!(request(operation, &params, NAMES), Err(Error::Malformed), "{params}");
    };
    check(Operation::Send, json!({"id": "t"}));
    check(Operation::Send, json!({"id": "t", "message": {"parts": []}}));
    check(
        Operation::Send,
        json!({"id": "t", "message": {"role": "system", "parts": []}}),
    );
    check(Operation::PushCreate, json!({"id": "t"}));
    check(Operation::Get, json!([]));
    assert_eq!(read_request(Operation::Get, None, NAMES), Err(Error::Malformed));
}

#[test]
fn what_0_1_has_no_call_for_is_unsupported() {
    for operation in [
        Operation::List,
        Operation::PushList,
        Operation::PushDelete,
        Operation::ExtendedCard,
    ] {
        assert_eq!(request(operation, &json!({"id": "t"}), NAMES), Err(Error::Unsupported));
    }
    for response in [Response::Nothing, Response::Pushes(model::PushPage::default())] {
        assert_eq!(write_response(response, TOLD, &mut Vec::new()), Err(Error::Unsupported));
    }
    let update = json!({"statusUpdate": {"taskId": "t", "status": {}}});
    assert_eq!(
        answer(Operation::Send, &update, TOLD),
        Err(Error::Malformed),
        "no answer to a send"
    );
}

#[test]
fn codes_that_mean_something_else_in_0_1_are_internal_errors() {
    for (known, told) in [
        (-32001, -32001),
        (-32002, -32002),
        (-32003, -32003),
        (-32004, -32004),
        (-32005, -32005),
        (-32006, -32603),
        (-32007, -32603),
        (-32008, -32603),
        (-32009, -32603),
        (-32603, -32603),
        (-31429, -31429),
        (7, 7),
    ] {
        assert_eq!(error_code(known), told);
    }
}

/// The same in 0.1 and in 1.0.
fn part() -> impl Strategy<Value = Both> {
    let file = |old: &'static str, new: &'static str| {
        (option::of(text()), option::of(text())).prop_map(move |(name, kind)| {
            let (mut file, mut part) = (json!({old: "QUJD"}), json!({new: "QUJD"}));
            for (of_file, of_part, value) in [("name", "filename", name), ("mimeType", "mediaType", kind)] {
                if let Some(value) = value {
                    file[of_file] = value.clone().into();
                    part[of_part] = value.into();
                }
            }
            (json!({"type": "file", "file": file}), part)
        })
    };
    let content = prop_oneof![
        text().prop_map(|text| (json!({"type": "text", "text": text}), json!({"text": text}))),
        object().prop_map(|data| (json!({"type": "data", "data": data}), json!({"data": data}))),
        file("bytes", "raw"),
        file("uri", "url"),
    ];
    (content, option::of(object())).prop_map(|(mut part, metadata)| {
        put(&mut part, "metadata", metadata);
        part
    })
}

fn message(message_id: &'static str) -> impl Strategy<Value = Both> {
    (any::<bool>(), vec(part(), 0..4), option::of(object())).prop_map(move |(user, parts, metadata)| {
        let (old, new) = if user {
            ("user", "ROLE_USER")
        } else {
            ("agent", "ROLE_AGENT")
        };
        let mut both = (json!({"role": old}), json!({"messageId": message_id, "role": new}));
        put(&mut both, "metadata", metadata);
        put_all(&mut both, "parts", parts);
        both
    })
}

fn status() -> impl Strategy<Value = Both> {
    let states = [
        ("submitted", "SUBMITTED"),
        ("working", "WORKING"),
        ("completed", "COMPLETED"),
    ];
    let state = proptest::sample::select(states.to_vec());
    (state, option::of(message("m"))).prop_map(|((old, new), message)| {
        let mut both = (json!({"state": old}), json!({"state": format!("TASK_STATE_{new}")}));
        if let Some((old, new)) = message {
            both.0["message"] = old;
            both.1["message"] = new;
        }
        both
    })
}

fn task() -> impl Strategy<Value = Both> {
    let artifact = (option::of(text()), vec(part(), 0..3), option::of(object()));
    let lists = (vec(artifact, 0..3), vec(message("h"), 0..3));
    (option::of(text()), status(), lists, option::of(object())).prop_map(
        |(session, status, (artifacts, history), metadata)| {
            let mut both = (
                json!({"id": "callers-task", "status": status.0}),
                json!({"id": "agents-task", "status": status.1}),
            );
            if let Some(session) = session {
                both.0["sessionId"] = session.clone().into();
                both.1["contextId"] = session.into();
            }
            put(&mut both, "metadata", metadata);
            let artifacts = artifacts
                .into_iter()
                .enumerate()
                .map(|(index, (name, parts, metadata))| {
                    let mut both = (json!({"index": index}), json!({"artifactId": index.to_string()}));
                    put(&mut both, "name", name);
                    put(&mut both, "metadata", metadata);
                    put_all(&mut both, "parts", parts);
                    both
                });
            let artifacts: Vec<Both> = artifacts.collect();
            for (name, all) in [("artifacts", artifacts), ("history", history)] {
                if !all.is_empty() {
                    put_all(&mut both, name, all);
                }
            }
            both
        },
    )
}

proptest! {
    #[test]
    fn a_send_says_the_same(message in message("made-up"), metadata in option::of(object()), length in option::of(0..9_i32)) {
        let mut both = (json!({"id": "t", "message": message.0}), json!({"message": message.1}));
        both.1["message"]["taskId"] = "agents-task".into();
        put(&mut both, "metadata", metadata);
        if let Some(length) = length {
            both.0["historyLength"] = length.into();
            both.1["configuration"] = json!({"historyLength": length});
        }
        prop_assert_eq!(request(Operation::Stream, &both.0, NAMES), Ok(both.1));
    }

    #[test]
    fn a_task_says_the_same(task in task()) {
        prop_assert_eq!(answer(Operation::Get, &task.1, TOLD), Ok(task.0));
    }

    #[test]
    fn nothing_panics(params in object(), operation in proptest::sample::select(Operation::ALL.to_vec())) {
        let _any = request(operation, &params, NAMES);
    }
}
