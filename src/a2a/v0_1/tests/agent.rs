//! Agents of 0.1: what they are asked, and recorded and generated answers of theirs.

use super::*;

fn asked() -> Asked {
    Asked {
        task: Box::from("callers-task"),
        session: Box::from("s"),
    }
}

/// The parameters of 0.1 that parameters of 1.0 are.
fn written(operation: Operation, params: &Value) -> Result<Value, Error> {
    let text = params.to_string();
    let mut out = Vec::new();
    write_request(Request::read(operation, &text).unwrap(), Some(&asked()), &mut out)?;
    Ok(serde_json::from_slice(&out).unwrap())
}

/// The result of 1.0 that a result of 0.1 is.
fn read(operation: Operation, result: &Value) -> Result<Value, Error> {
    let text = result.to_string();
    let result: &RawValue = serde_json::from_str(&text).unwrap();
    let mut out = Vec::new();
    read_response(operation, Some(result), "told")?.write(&mut out).unwrap();
    Ok(serde_json::from_slice(&out).unwrap())
}

#[test]
fn each_call_has_the_name_that_its_callers_know() {
    for operation in Operation::ALL {
        let Some(name) = method_name(operation) else {
            assert_eq!(
                written(operation, &json!({"id": "p", "taskId": "t"})),
                Err(Error::Unsupported)
            );
            continue;
        };
        let known = only_0_1(name, Methods::Strict);
        assert_eq!(known.is_none(), is_shared(operation), "{name}");
        assert!(known.is_none_or(|known| known == (name, operation)), "{name}");
        assert_eq!(jsonrpc::method_name(Generation::V0_1, operation), Some(name));
    }
}

#[test]
fn a_send_names_its_task_and_its_session() {
    let params = json!({"tenant": "n", "metadata": {"k": 1},
        "message": {"messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER", "extensions": ["e"],
            "referenceTaskIds": ["r"], "metadata": {"m": 1}, "parts": [{"text": "hi", "metadata": {"p": 1}},
                {"raw": "QUI", "filename": "f", "mediaType": "text/x"}, {"url": "u"}, {"data": {"a": 1}}, {"data": [1]}]},
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 3, "returnImmediately": true}});
    let parts = json!([{"type": "text", "text": "hi", "metadata": {"p": 1}},
        {"type": "file", "file": {"name": "f", "mimeType": "text/x", "bytes": "QUI="}},
        {"type": "file", "file": {"uri": "u"}}, {"type": "data", "data": {"a": 1}},
        {"type": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true}}]);
    let expected = json!({"id": "callers-task", "sessionId": "s",
        "message": {"role": "user", "parts": parts, "metadata": {"m": 1}},
        "acceptedOutputModes": ["text/plain"], "historyLength": 3, "metadata": {"k": 1}});
    for operation in [Operation::Send, Operation::Stream] {
        assert_eq!(written(operation, &params), Ok(expected.clone()));
    }
    let nobody = json!({"message": {"messageId": "m", "parts": []}});
    assert_eq!(
        written(Operation::Send, &nobody),
        Err(Error::Malformed),
        "without a role"
    );
    let session = |asked: &Asked| {
        let text = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}).to_string();
        let mut out = Vec::new();
        write_request(Request::read(Operation::Send, &text).unwrap(), Some(asked), &mut out).unwrap();
        let written: Value = serde_json::from_slice(&out).unwrap();
        written.get("sessionId").cloned()
    };
    assert_eq!(session(&asked()), Some(json!("s")));
    let unknown = Asked {
        session: Box::default(),
        ..asked()
    };
    assert_eq!(session(&unknown), None, "the task says it");
}

#[test]
fn calls_about_a_task_say_what_0_1_has_members_for() {
    let params = json!({"tenant": "n", "id": "t", "historyLength": 2, "metadata": {"k": 1}});
    for (operation, expected) in [
        (Operation::Get, json!({"id": "t", "historyLength": 2})),
        (Operation::Cancel, json!({"id": "t", "metadata": {"k": 1}})),
        (Operation::Subscribe, json!({"id": "t"})),
    ] {
        assert_eq!(written(operation, &params), Ok(expected), "{operation:?}");
    }
}

#[test]
fn webhooks_have_the_form_of_0_1() {
    let authentication = json!({"scheme": "Bearer", "credentials": "c"});
    let hook = json!({"taskId": "t", "id": "p", "url": "https://hook.example/", "token": "k",
        "authentication": authentication});
    let config = json!({"url": "https://hook.example/", "token": "k",
        "authentication": {"schemes": ["Bearer"], "credentials": "c"}});
    let set = json!({"id": "callers-task", "pushNotificationConfig": config});
    assert_eq!(written(Operation::PushCreate, &hook), Ok(set));
    let asked = json!({"taskId": "t", "id": "p"});
    assert_eq!(written(Operation::PushGet, &asked), Ok(json!({"id": "t"})));
    let params = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []},
        "configuration": {"taskPushNotificationConfig": hook}});
    assert_eq!(written(Operation::Send, &params).unwrap()["pushNotification"], config);
    let told = json!({"id": "t", "pushNotificationConfig": config});
    let expected = json!({"taskId": "t", "id": "t", "url": "https://hook.example/", "token": "k",
        "authentication": authentication});
    for operation in [Operation::PushCreate, Operation::PushGet] {
        assert_eq!(read(operation, &told), Ok(expected.clone()), "{operation:?}");
    }
}

fn message(id: &str, role: &str, text: &str) -> Value {
    json!({"messageId": id, "role": role, "parts": [{"text": text}]})
}

#[test]
fn a_recorded_task_is_one_of_1_0() {
    let said = json!({"role": "agent", "parts": [{"type": "text", "text": "Berth allotted."}]});
    let task = json!({"id": "0692f270", "sessionId": "09eb3ae5",
        "status": {"state": "completed", "message": said, "timestamp": "2026-11-21T04:21:14.475331"},
        "artifacts": [{"name": "Berth plan", "parts": [{"type": "text", "text": "Berth 14"}], "index": 0}],
        "history": [{"role": "user", "parts": [{"type": "text", "text": "berth for 120 m"}]}, said]});
    let [asked, answered] = ["fdc52123aa37717faeb63cdb289bb830", "fbbcee058f451b2fb0fe2e9a228d3f62"];
    let expected = json!({"id": "0692f270", "contextId": "09eb3ae5",
        "status": {"state": "TASK_STATE_COMPLETED", "message": message(answered, "ROLE_AGENT", "Berth allotted."),
            "timestamp": "2026-11-21T04:21:14.475331Z"},
        "artifacts": [{"artifactId": "0", "name": "Berth plan", "parts": [{"text": "Berth 14"}]}],
        "history": [message(asked, "ROLE_USER", "berth for 120 m"),
            message(answered, "ROLE_AGENT", "Berth allotted.")]});
    assert_eq!(read(Operation::Get, &task), Ok(expected.clone()));
    assert_eq!(read(Operation::Send, &task), Ok(json!({"task": expected})));
}

#[test]
fn a_message_has_the_id_of_what_it_says_in_its_task() {
    let id = |task: &str, text: &str| {
        let message = json!({"role": "agent", "parts": [{"type": "text", "text": text}], "metadata": null});
        let told = json!({"id": task, "status": {"state": "working", "message": message}});
        read(Operation::Get, &told).unwrap()["status"]["message"]["messageId"].clone()
    };
    assert_eq!(id("t", "a"), id("t", "a"));
    assert_ne!(id("t", "a"), id("t", "b"));
    assert_ne!(id("t", "a"), id("u", "a"));
}

#[test]
fn events_are_of_the_session_that_was_told_and_of_the_artifact_at_their_place() {
    let status = |last: Option<bool>| {
        let mut event = json!({"id": "t", "status": {"state": "input-required"}, "metadata": {"k": 1}});
        if let Some(last) = last {
            event["final"] = last.into();
        }
        event
    };
    let expected = json!({"statusUpdate": {"taskId": "t", "contextId": "told", "metadata": {"k": 1},
        "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}});
    for last in [None, Some(false), Some(true)] {
        assert_eq!(read(Operation::Stream, &status(last)), Ok(expected.clone()), "{last:?}");
    }
    let mut own = status(Some(true));
    own["sessionId"] = "own".into();
    let own = read(Operation::Subscribe, &own).unwrap();
    assert_eq!(own["statusUpdate"]["contextId"], "own");
    for (flags, append, last) in [
        (json!({"index": 3}), false, false),
        (json!({"index": 3, "append": true, "lastChunk": false}), true, false),
        (json!({"index": 3, "append": true, "lastChunk": true}), true, true),
        (json!({"index": 3, "append": null, "lastChunk": null}), false, false),
    ] {
        let mut artifact = flags.clone();
        artifact["parts"] = json!([{"type": "text", "text": "x"}]);
        let told = read(Operation::Stream, &json!({"id": "t", "artifact": artifact})).unwrap();
        let update = &told["artifactUpdate"];
        assert_eq!((&update["taskId"], &update["contextId"]), (&json!("t"), &json!("told")));
        assert_eq!(update["artifact"], json!({"artifactId": "3", "parts": [{"text": "x"}]}));
        let said = ["append", "lastChunk"].map(|name| update.get(name) == Some(&json!(true)));
        assert_eq!(said, [append, last], "{flags}");
    }
    let artifact = json!({"id": "t", "artifact": {"parts": [], "index": null}});
    let first = read(Operation::Stream, &artifact).unwrap();
    assert_eq!(first["artifactUpdate"]["artifact"]["artifactId"], "0", "unless it says");
    let whole = json!({"id": "t", "sessionId": "s", "status": {"state": "working"}, "history": []});
    let task = json!({"task": {"id": "t", "contextId": "s", "status": {"state": "TASK_STATE_WORKING"}}});
    assert_eq!(read(Operation::Stream, &whole), Ok(task), "some agents stream tasks");
}

#[test]
fn what_no_agent_of_0_1_answers_is_malformed() {
    for result in [
        json!({"id": "t"}),
        json!({"id": "t", "status": {}}),
        json!({"id": "t", "artifact": {"parts": [{"type": "video"}]}}),
        json!({"id": "t", "artifact": {"parts": [], "index": -1}}),
        json!({"id": "t", "status": {"state": "working", "message": {"role": "system", "parts": []}}}),
        json!("t"),
        Value::Null,
    ] {
        assert_eq!(read(Operation::Stream, &result), Err(Error::Malformed), "{result}");
    }
    assert_eq!(read_response(Operation::Get, None, ""), Err(Error::Malformed));
    for operation in [Operation::List, Operation::PushList, Operation::ExtendedCard] {
        assert_eq!(read(operation, &json!({})), Err(Error::Unsupported));
    }
}

#[test]
fn codes_keep_their_meaning_in_later_generations() {
    for (told, later) in [
        (-32001, -32001),
        (-32002, -32002),
        (-32003, -32003),
        (-32004, -32004),
        (-32005, -32005),
        // Streaming not supported, invalid task state.
        (-32006, -32004),
        (-32009, -32004),
        (-32007, -32603),
        (-32008, -32603),
        (-32010, -32603),
        (-32011, -32603),
        (-32600, -32600),
        (7, 7),
    ] {
        assert_eq!(later_code(told), later);
    }
}

/// Without the ids of messages, which were made up.
fn without_message_ids(mut task: Value) -> Value {
    let history = task.get_mut("history").and_then(Value::as_array_mut);
    for message in history.into_iter().flatten() {
        message["messageId"] = "h".into();
    }
    if let Some(message) = task["status"].get_mut("message") {
        message["messageId"] = "m".into();
    }
    task
}

proptest! {
    #[test]
    fn a_send_to_an_agent_says_the_same(message in super::message("m"), metadata in option::of(object()), length in option::of(0..9_i32)) {
        let mut both = (json!({"id": "callers-task", "sessionId": "s", "message": message.0}), json!({"message": message.1}));
        put(&mut both, "metadata", metadata);
        if let Some(length) = length {
            both.0["historyLength"] = length.into();
            both.1["configuration"] = json!({"historyLength": length});
        }
        prop_assert_eq!(written(Operation::Stream, &both.1), Ok(both.0));
    }

    #[test]
    fn a_task_of_an_agent_says_the_same(task in super::task()) {
        let (mut old, mut new) = task;
        old["id"] = "t".into();
        new["id"] = "t".into();
        if new.get("contextId").is_none_or(|context| context == "") {
            new["contextId"] = "told".into();
        }
        prop_assert_eq!(read(Operation::Get, &old).map(without_message_ids), Ok(new));
    }

    #[test]
    fn no_answer_panics(result in object(), operation in proptest::sample::select(Operation::ALL.to_vec())) {
        let _any = read(operation, &result);
    }
}
