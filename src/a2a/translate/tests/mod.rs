//! Calls, answers, events and errors between 0.3 and 1.0, member by member.

mod asked;
mod bindings;
pub(in crate::a2a) mod generated;
mod named;
mod push;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::a2a::Generation::{V0_3, V1_0};
use crate::a2a::json::Limits;
use crate::a2a::{ContextId, TaskId, TaskState, jsonrpc};

fn rpc(generation: Generation) -> Dialect {
    Dialect {
        generation,
        binding: Binding::JsonRpc,
    }
}

fn pair(caller: Generation) -> Pair {
    Pair {
        caller: rpc(caller),
        agent: rpc(if caller == V0_3 { V1_0 } else { V0_3 }),
        tenant: None,
        named: None,
        asked: None,
    }
}

fn written(body: &[u8]) -> Original<'_> {
    Original {
        addressed: &Addressed::JsonRpc,
        query: None,
        body,
    }
}

fn call(generation: Generation, operation: Operation) -> Call {
    Call {
        binding: Binding::JsonRpc,
        generation,
        operation,
        id: RpcId(Bytes::from_static(b"\"r-1\"")),
        task: None,
        context: None,
        references: Vec::new(),
        webhook: false,
    }
}

/// What becomes of the parameters of a call.
fn params(caller: Generation, operation: Operation, params: &Value) -> Result<Value, Error> {
    let method = jsonrpc::method_name(caller, operation).unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": "r-1", "method": method, "params": params }).to_string();
    let out = pair(caller).request(&call(caller, operation), written(body.as_bytes()), None)?;
    assert_eq!(
        (out.verb, out.path.as_str(), out.query),
        (http_json::Verb::Post, "", None)
    );
    let out: Value = serde_json::from_slice(&out.body).unwrap();
    assert_eq!(out["jsonrpc"], "2.0");
    assert_eq!(out["id"], "r-1");
    assert_eq!(
        out["method"],
        jsonrpc::method_name(pair(caller).agent.generation, operation).unwrap()
    );
    Ok(out["params"].clone())
}

/// What an answer to this caller is judged by.
fn judged(caller: Generation, operation: Operation, body: &str) -> Vec<Revealed> {
    let agent = pair(caller).agent.generation;
    let read = jsonrpc::read_answer(body.as_bytes(), agent, operation, Limits::default());
    read.map(|read| read.revealed).unwrap_or_default()
}

/// What becomes of a result for this caller.
fn result(caller: Generation, operation: Operation, result: &Value) -> Result<Value, Error> {
    let body = json!({ "result": result, "id": "r-1", "jsonrpc": "2.0" }).to_string();
    let id = RpcId(Bytes::from_static(b"\"r-1\""));
    let told = Told::whole(200, body.as_bytes());
    let out = pair(caller).answer(operation, &id, told, &judged(caller, operation, &body), None)?;
    assert_eq!(out.standing, Standing::Unsaid);
    let out: Value = serde_json::from_slice(&out.body).unwrap();
    assert_eq!(out["id"], "r-1");
    Ok(out["result"].clone())
}

fn message_0_3() -> Value {
    json!({
        "kind": "message", "messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "user",
        "parts": [
            {"kind": "text", "text": "berth for 120 m", "metadata": {"lang": "en"}},
            {"kind": "file", "file": {"bytes": "SGFyYm91cg==", "mimeType": "text/plain", "name": "plan.txt"}},
            {"kind": "file", "file": {"uri": "https://files.example/a.pdf", "mimeType": "application/pdf"}},
            {"kind": "data", "data": {"loa": 120, "imo": 9_007_199_254_740_993_u64}},
        ],
        "metadata": {"trace": 1}, "extensions": ["https://ext.example/1"], "referenceTaskIds": ["t0"],
    })
}

fn message_1_0() -> Value {
    json!({
        "messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "ROLE_USER",
        "parts": [
            {"text": "berth for 120 m", "metadata": {"lang": "en"}},
            {"raw": "SGFyYm91cg==", "filename": "plan.txt", "mediaType": "text/plain"},
            {"url": "https://files.example/a.pdf", "mediaType": "application/pdf"},
            {"data": {"loa": 120, "imo": 9_007_199_254_740_993_u64}},
        ],
        "metadata": {"trace": 1}, "extensions": ["https://ext.example/1"], "referenceTaskIds": ["t0"],
    })
}

fn task_0_3() -> Value {
    json!({
        "kind": "task", "id": "t1", "contextId": "c1",
        "status": {"state": "input-required", "timestamp": "2026-11-21T04:06:25.490745Z", "message": message_0_3()},
        "artifacts": [{"artifactId": "a1", "name": "Plan", "description": "Where to moor",
            "parts": [{"kind": "text", "text": "14"}], "metadata": {"v": 1}, "extensions": ["https://ext.example/1"]}],
        "history": [message_0_3()], "metadata": {"k": null},
    })
}

fn task_1_0() -> Value {
    json!({
        "id": "t1", "contextId": "c1",
        "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-11-21T04:06:25.490745Z", "message": message_1_0()},
        "artifacts": [{"artifactId": "a1", "name": "Plan", "description": "Where to moor",
            "parts": [{"text": "14"}], "metadata": {"v": 1}, "extensions": ["https://ext.example/1"]}],
        "history": [message_1_0()], "metadata": {"k": null},
    })
}

#[test]
fn sends_go_both_ways() {
    let old = json!({
        "message": message_0_3(),
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 3, "blocking": false},
        "metadata": {"deep": {"n": 9_007_199_254_740_993_u64}},
    });
    let new = json!({
        "message": message_1_0(),
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 3, "returnImmediately": true},
        "metadata": {"deep": {"n": 9_007_199_254_740_993_u64}},
    });
    for operation in [Operation::Send, Operation::Stream] {
        assert_eq!(params(V0_3, operation, &old), Ok(new.clone()));
        assert_eq!(params(V1_0, operation, &new), Ok(old.clone()));
    }
}

#[test]
fn the_other_calls_go_both_ways() {
    use Operation::{Cancel, ExtendedCard, Get, PushDelete, PushGet, PushList, Subscribe};
    let check = |operation, old: Value, new: Value| {
        assert_eq!(params(V0_3, operation, &old), Ok(new.clone()));
        assert_eq!(params(V1_0, operation, &new), Ok(old));
    };
    check(
        Get,
        json!({"id": "t1", "historyLength": 0}),
        json!({"id": "t1", "historyLength": 0}),
    );
    check(Get, json!({"id": "t1"}), json!({"id": "t1"}));
    check(
        Cancel,
        json!({"id": "t1", "metadata": {"why": 1}}),
        json!({"id": "t1", "metadata": {"why": 1}}),
    );
    check(Subscribe, json!({"id": "t1"}), json!({"id": "t1"}));
    let (old, new) = (
        json!({"id": "t1", "pushNotificationConfigId": "p1"}),
        json!({"taskId": "t1", "id": "p1"}),
    );
    check(PushGet, old.clone(), new.clone());
    check(PushDelete, old, new);
    check(PushList, json!({"id": "t1"}), json!({"taskId": "t1"}));
    check(ExtendedCard, json!({}), json!({}));
}

#[test]
fn a_push_configuration_without_an_id_has_that_of_its_task() {
    let without = json!({"id": "t1"});
    assert_eq!(
        params(V0_3, Operation::PushGet, &without),
        Ok(json!({"taskId": "t1", "id": "t1"}))
    );
}

#[test]
fn spellings_of_protobuf_are_read() {
    let snake = json!({
        "message": {"message_id": "m1", "context_id": "c1", "task_id": "t1", "role": 1, "reference_task_ids": ["t0"],
            "parts": [{"raw": "_-8", "media_type": "text/plain"}], "metadata": null, "extensions": null},
        "configuration": {"history_length": "7", "return_immediately": true, "accepted_output_modes": []},
    });
    let expected = json!({
        "message": {"kind": "message", "messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "user",
            "referenceTaskIds": ["t0"],
            "parts": [{"kind": "file", "file": {"bytes": "/+8=", "mimeType": "text/plain"}}]},
        "configuration": {"historyLength": 7, "blocking": false},
    });
    assert_eq!(params(V1_0, Operation::Send, &snake), Ok(expected));
}

#[test]
fn what_is_no_call_of_the_callers_generation_is_malformed() {
    let part = |part: Value| json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}});
    let refused = [
        json!({}),
        json!({"message": "hello"}),
        json!({"message": {"messageId": "m", "parts": []}}),
        json!({"message": {"messageId": 7, "role": "ROLE_USER", "parts": []}}),
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{}]}}),
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}, "configuration": {"historyLength": 1.5}}),
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}, "configuration": {"historyLength": "x"}}),
        part(json!({"text": "a", "url": "b"})),
        part(json!({"text": 1})),
        part(json!({"kind": "text"})),
    ];
    for params_of_1_0 in refused {
        assert_eq!(
            params(V1_0, Operation::Send, &params_of_1_0),
            Err(Error::Malformed),
            "{params_of_1_0}"
        );
    }
    let part = |part: Value| json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [part]}});
    let refused = [
        part(json!({"kind": "text"})),
        part(json!({"kind": "video", "text": "a"})),
        part(json!({"kind": "file", "file": {}})),
        part(json!({"kind": "file", "file": {"bytes": "", "uri": ""}})),
        json!({"message": {"kind": "message", "messageId": "m", "role": "system", "parts": []}}),
    ];
    for params_of_0_3 in refused {
        assert_eq!(
            params(V0_3, Operation::Send, &params_of_0_3),
            Err(Error::Malformed),
            "{params_of_0_3}"
        );
    }
}

#[test]
fn tasks_and_messages_come_back_both_ways() {
    for operation in [Operation::Get, Operation::Cancel] {
        assert_eq!(result(V0_3, operation, &task_1_0()), Ok(task_0_3()));
        assert_eq!(result(V1_0, operation, &task_0_3()), Ok(task_1_0()));
    }
    for operation in [Operation::Send, Operation::Stream, Operation::Subscribe] {
        assert_eq!(result(V0_3, operation, &json!({"task": task_1_0()})), Ok(task_0_3()));
        assert_eq!(result(V1_0, operation, &task_0_3()), Ok(json!({"task": task_1_0()})));
        assert_eq!(
            result(V0_3, operation, &json!({"message": message_1_0()})),
            Ok(message_0_3())
        );
        assert_eq!(
            result(V1_0, operation, &message_0_3()),
            Ok(json!({"message": message_1_0()}))
        );
    }
}

#[test]
fn events_come_both_ways() {
    let old = json!({"kind": "artifact-update", "taskId": "t1", "contextId": "c1", "append": true, "lastChunk": true,
        "artifact": {"artifactId": "a1", "parts": [{"kind": "text", "text": "x"}]}, "metadata": {"n": 1}});
    let new = json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "append": true, "lastChunk": true,
        "artifact": {"artifactId": "a1", "parts": [{"text": "x"}]}, "metadata": {"n": 1}}});
    assert_eq!(result(V0_3, Operation::Stream, &new), Ok(old.clone()));
    assert_eq!(result(V1_0, Operation::Stream, &old), Ok(new));

    let states = [
        ("submitted", "TASK_STATE_SUBMITTED", false),
        ("working", "TASK_STATE_WORKING", false),
        ("input-required", "TASK_STATE_INPUT_REQUIRED", true),
        ("auth-required", "TASK_STATE_AUTH_REQUIRED", false),
        ("completed", "TASK_STATE_COMPLETED", true),
        ("failed", "TASK_STATE_FAILED", true),
        ("canceled", "TASK_STATE_CANCELED", true),
        ("rejected", "TASK_STATE_REJECTED", true),
    ];
    for (state_0_3, state_1_0, last) in states {
        let old = json!({"kind": "status-update", "taskId": "t1", "contextId": "c1", "final": last,
            "status": {"state": state_0_3}});
        let new = json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": state_1_0}}});
        assert_eq!(result(V0_3, Operation::Stream, &new), Ok(old.clone()));
        assert_eq!(result(V1_0, Operation::Stream, &old), Ok(new));
    }
    let unset = json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {}}});
    let unknown = json!({"kind": "status-update", "taskId": "t1", "contextId": "c1", "final": false,
        "status": {"state": "unknown"}});
    assert_eq!(result(V0_3, Operation::Stream, &unset), Ok(unknown.clone()));
    assert_eq!(result(V1_0, Operation::Stream, &unknown), Ok(unset));
}

#[test]
fn agents_that_leave_kind_out_are_understood() {
    let check = |old: Value, member: &str| {
        let new = result(V1_0, Operation::Stream, &old).unwrap();
        assert!(new.get(member).is_some(), "{new}");
    };
    check(
        json!({"id": "t1", "contextId": "c1", "status": {"state": "working"}}),
        "task",
    );
    check(json!({"messageId": "m1", "role": "agent", "parts": []}), "message");
    check(
        json!({"taskId": "t1", "contextId": "c1", "status": {"state": "working"}}),
        "statusUpdate",
    );
    check(
        json!({"taskId": "t1", "contextId": "c1", "artifact": {"artifactId": "a", "parts": []}}),
        "artifactUpdate",
    );
}

#[test]
fn times_are_told_in_utc() {
    let task = |time: &str| json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working", "timestamp": time}});
    let check = |time: &str, expected: Option<&str>| {
        let new = result(V1_0, Operation::Get, &task(time)).unwrap();
        assert_eq!(
            new["status"].get("timestamp").and_then(Value::as_str),
            expected,
            "{time}"
        );
    };
    check("2026-11-21T04:06:25.490745Z", Some("2026-11-21T04:06:25.490745Z"));
    check("2026-11-21T04:06:25.490745+00:00", Some("2026-11-21T04:06:25.490745Z"));
    check("2026-11-21T06:06:25+02:00", Some("2026-11-21T04:06:25Z"));
    check("2026-11-21T04:06:25.490745", Some("2026-11-21T04:06:25.490745Z"));
    check(
        "2026-11-21T04:06:25.123456789012Z",
        Some("2026-11-21T04:06:25.123456789Z"),
    );
    check("2026-11-21T04:06:60Z", Some("2026-11-21T04:07:00Z"));
    check("yesterday", None);
    // Years that a protobuf timestamp does not have.
    check("0001-01-01T00:00:00+02:00", None);
    check("9999-12-31T23:59:59-05:00", None);
    check("0000-06-01T00:00:00Z", None);
}

#[test]
fn data_that_are_no_object_are_wrapped_and_unwrapped() {
    for value in [json!([1, "two"]), json!("three"), json!(4), json!(true), json!(null)] {
        for metadata in [None, Some(json!({"kept": 1}))] {
            let mut new = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"data": value}]});
            let mut expected = json!({"data_part_compat": true});
            if let Some(metadata) = metadata {
                new["parts"][0]["metadata"] = metadata;
                expected = json!({"kept": 1, "data_part_compat": true});
            }
            let new = json!({ "message": new });
            let old = result(V0_3, Operation::Send, &new).unwrap();
            assert_eq!(
                old["parts"][0],
                json!({"kind": "data", "data": {"value": value}, "metadata": expected})
            );
            assert_eq!(result(V1_0, Operation::Send, &old), Ok(new));
        }
    }
    // Not ours.
    let part = json!({"kind": "data", "data": {"value": 1, "more": 2}, "metadata": {"data_part_compat": true}});
    let old = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [part]});
    let new = result(V1_0, Operation::Send, &old).unwrap();
    assert_eq!(
        new["message"]["parts"][0],
        json!({"data": {"value": 1, "more": 2}, "metadata": {"data_part_compat": true}})
    );
}

#[test]
fn push_configurations_come_both_ways() {
    let old = json!({"taskId": "t1", "pushNotificationConfig": {"id": "p1", "url": "https://hook.example", "token": "s",
        "authentication": {"schemes": ["Bearer"], "credentials": "c"}}});
    let new = json!({"taskId": "t1", "id": "p1", "url": "https://hook.example", "token": "s",
        "authentication": {"scheme": "Bearer", "credentials": "c"}});
    assert_eq!(result(V0_3, Operation::PushGet, &new), Ok(old.clone()));
    assert_eq!(result(V1_0, Operation::PushGet, &old), Ok(new.clone()));
    let page = json!({"configs": [new], "nextPageToken": ""});
    assert_eq!(result(V0_3, Operation::PushList, &page), Ok(json!([old])));
    assert_eq!(result(V1_0, Operation::PushList, &json!([old])), Ok(page));
    for caller in Generation::SPOKEN {
        assert_eq!(result(caller, Operation::PushDelete, &json!(null)), Ok(json!(null)));
    }
    // Some agents leave the result out.
    let id = RpcId(Bytes::from_static(b"1"));
    let told = Told::whole(200, br#"{"jsonrpc":"2.0","id":1}"#);
    let deleted = pair(V1_0).answer(Operation::PushDelete, &id, told, &[], None);
    assert_eq!(deleted.unwrap().body, br#"{"jsonrpc":"2.0","id":1,"result":null}"#);
}

#[test]
fn webhooks_that_nobody_relays_are_refused_wherever_they_stand() {
    let config = json!({"url": "https://hook.example"});
    let old = json!({"taskId": "t1", "pushNotificationConfig": config});
    assert_eq!(params(V0_3, Operation::PushCreate, &old), Err(Error::Push));
    assert_eq!(
        params(V1_0, Operation::PushCreate, &json!({"taskId": "t1", "url": "u"})),
        Err(Error::Push)
    );
    for operation in [Operation::Send, Operation::Stream] {
        let old = json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": config}});
        assert_eq!(params(V0_3, operation, &old), Err(Error::Push));
        let new = json!({"message": message_1_0(), "configuration": {"taskPushNotificationConfig": config}});
        assert_eq!(params(V1_0, operation, &new), Err(Error::Push));
    }
}

#[test]
fn what_the_other_generation_lacks_is_unsupported() {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} }).to_string();
    let refused = pair(V1_0).request(&call(V1_0, Operation::List), written(list.as_bytes()), None);
    assert_eq!(refused, Err(Error::Unsupported));
}

#[test]
fn the_agents_tenant_is_told() {
    let pair = Pair {
        tenant: Some(Arc::from("north")),
        ..pair(V0_3)
    };
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "t1"} }).to_string();
    let out = pair
        .request(&call(V0_3, Operation::Get), written(body.as_bytes()), None)
        .unwrap();
    let out: Value = serde_json::from_slice(&out.body).unwrap();
    assert_eq!(out["params"], json!({"tenant": "north", "id": "t1"}));
}

#[test]
fn errors_keep_their_code_and_text() {
    let answer = |caller, error: &Value| -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string();
        let id = RpcId(Bytes::from_static(b"1"));
        let out = pair(caller)
            .answer(Operation::Get, &id, Told::whole(200, body.as_bytes()), &[], None)
            .unwrap();
        let out: Value = serde_json::from_slice(&out.body).unwrap();
        assert!(out.get("result").is_none());
        out["error"].clone()
    };
    let reasons = [
        (-32001, "TASK_NOT_FOUND"),
        (-32002, "TASK_NOT_CANCELABLE"),
        (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        (-32004, "UNSUPPORTED_OPERATION"),
        (-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
        (-32006, "INVALID_AGENT_RESPONSE"),
        (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    ];
    for (code, reason) in reasons {
        let info = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
            "domain": "a2a-protocol.org"}]);
        let new = json!({"code": code, "message": "no", "data": info});
        assert_eq!(answer(V1_0, &json!({"code": code, "message": "no", "data": null})), new);
        // 0.3 leaves open what stands there.
        assert_eq!(answer(V0_3, &new), new);
    }
    let plain = json!({"code": -32602, "message": "no"});
    assert_eq!(
        answer(
            V1_0,
            &json!({"code": -32602, "message": "no", "data": [{"loc": ["a"]}]})
        ),
        plain
    );
    assert_eq!(answer(V0_3, &plain), plain);
}

#[test]
fn a_task_makes_the_first_event_unless_it_has_ended() {
    let id = RpcId(Bytes::from_static(b"1"));
    let pair = pair(V1_0);
    let event = |state: &str| {
        let body = json!({"jsonrpc": "2.0", "id": "probe", "result": {"kind": "task", "id": "t1", "contextId": "c1",
            "status": {"state": state}}})
        .to_string();
        pair.task_event(&id, body.as_bytes(), &judged(V1_0, Operation::Get, &body))
    };
    let first = event("working").unwrap().unwrap();
    let data = first.strip_prefix(b"data: ").unwrap();
    let first: Value = serde_json::from_slice(data).unwrap();
    let task = json!({"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}});
    assert_eq!(first, json!({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}));
    for ended in ["completed", "failed", "canceled", "rejected"] {
        assert_eq!(event(ended), Ok(None));
    }
    assert!(pair.owes_task(Operation::Subscribe));
    assert!(!pair.owes_task(Operation::Stream));
}

#[test]
fn members_that_no_generation_defines_are_left_out() {
    let mut old = json!({"message": message_0_3()});
    let new = params(V0_3, Operation::Send, &old).unwrap();
    old["draft"] = json!(1);
    old["message"]["draft"] = json!({"a": 1});
    old["message"]["parts"][0]["draft"] = json!([1]);
    assert_eq!(params(V0_3, Operation::Send, &old), Ok(new.clone()));
    let expected = params(V1_0, Operation::Send, &new);
    let mut new = new;
    new["draft"] = json!(1);
    new["message"]["generation"] = json!("5");
    assert_eq!(params(V1_0, Operation::Send, &new), expected);
    let mut task = task_1_0();
    task["generation"] = json!("5");
    assert_eq!(result(V0_3, Operation::Get, &task), Ok(task_0_3()));
}

#[test]
fn metadata_of_calls_that_have_none_are_left_out() {
    let old = json!({"id": "t1", "metadata": {"trace": 1}});
    for operation in [Operation::Get, Operation::Subscribe] {
        assert_eq!(params(V0_3, operation, &old), Ok(json!({"id": "t1"})));
    }
    assert_eq!(params(V0_3, Operation::PushList, &old), Ok(json!({"taskId": "t1"})));
}

#[test]
fn names_and_types_of_parts_that_have_none_are_left_out() {
    let part = |part: Value| json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}});
    let check = |new: Value, expected: Value| {
        let old = params(V1_0, Operation::Send, &part(new)).unwrap();
        assert_eq!(old["message"]["parts"][0], expected);
    };
    check(
        json!({"text": "x", "mediaType": "text/markdown", "filename": "a.md"}),
        json!({"kind": "text", "text": "x"}),
    );
    check(
        json!({"data": {}, "mediaType": "application/json"}),
        json!({"kind": "data", "data": {}}),
    );
}

#[test]
fn a_message_without_a_role_is_the_agents() {
    let new = json!({"message": {"messageId": "m", "parts": []}});
    let old = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": []});
    assert_eq!(result(V0_3, Operation::Send, &new), Ok(old));
    assert_eq!(params(V1_0, Operation::Send, &new), Err(Error::Malformed));
}

#[test]
fn blocking_is_the_default() {
    let send = |configuration: Value| json!({"message": message_0_3(), "configuration": configuration});
    for blocking in [json!({"blocking": true}), json!({}), json!({"blocking": null})] {
        let new = params(V0_3, Operation::Send, &send(blocking)).unwrap();
        assert_eq!(new["configuration"], json!({}));
        let old = params(V1_0, Operation::Send, &new).unwrap();
        // Agents on the JavaScript SDK 1.x answer at once when a configuration of 0.3 does not say it.
        assert_eq!(old["configuration"], json!({"blocking": true}));
    }
}

#[test]
fn of_several_schemes_the_first_is_told() {
    let old = json!({"taskId": "t1", "pushNotificationConfig": {"url": "u",
        "authentication": {"schemes": ["Basic", "Bearer"]}}});
    let new = json!({"taskId": "t1", "url": "u", "authentication": {"scheme": "Basic"}});
    assert_eq!(result(V1_0, Operation::PushGet, &old), Ok(new));
}

#[test]
fn false_flags_are_left_out() {
    let old = json!({"kind": "artifact-update", "taskId": "t1", "contextId": "c1", "append": false, "lastChunk": false,
        "artifact": {"artifactId": "a1", "parts": []}});
    let new =
        json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "artifact": {"artifactId": "a1", "parts": []}}});
    assert_eq!(result(V1_0, Operation::Stream, &old), Ok(new));
}

#[test]
fn tokens_of_pages_are_nobodys_where_there_are_no_pages() {
    let new = json!({"taskId": "t1", "pageToken": "x"});
    assert_eq!(params(V1_0, Operation::PushList, &new), Err(Error::Malformed));
}

#[test]
fn a_stream_of_1_0_opens_with_its_task() {
    let id = RpcId(Bytes::from_static(b"1"));
    let events = |caller, result: &Value, opens: bool| -> Vec<Value> {
        let data = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
        let judged = judged(caller, Operation::Stream, &data);
        let out = pair(caller).event(
            Operation::Stream,
            &id,
            Told::event(data.as_bytes(), false),
            &judged,
            opens,
            &mut v0_1::Progress::default(),
        );
        let out = out.unwrap();
        let text = std::str::from_utf8(&out.bytes).unwrap();
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        data.map(|data| serde_json::from_str::<Value>(data).unwrap()["result"].clone())
            .collect()
    };
    let old = json!({"kind": "status-update", "taskId": "t1", "contextId": "c1", "final": true, "status": {"state": "failed"}});
    let update = json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_FAILED"}}});
    let task = |state: &str| json!({"task": {"id": "t1", "contextId": "c1", "status": {"state": state}}});
    assert_eq!(events(V1_0, &old, true), [task("TASK_STATE_FAILED"), update.clone()]);
    assert_eq!(events(V1_0, &old, false), std::slice::from_ref(&update));
    assert_eq!(events(V0_3, &update, true), [old]);
    let old = json!({"kind": "artifact-update", "taskId": "t1", "contextId": "c1", "artifact": {"artifactId": "a", "parts": []}});
    assert_eq!(events(V1_0, &old, true)[0], task("TASK_STATE_WORKING"));
    assert_eq!(events(V1_0, &task_0_3(), true), [json!({"task": task_1_0()})]);
    assert_eq!(events(V1_0, &message_0_3(), true), [json!({"message": message_1_0()})]);
}

#[test]
fn the_spellings_of_python_models_are_read() {
    let message = json!({"kind": "message", "message_id": "m1", "context_id": "c1", "task_id": "t1", "role": "user",
        "reference_task_ids": ["t0"], "parts": [{"kind": "file", "file": {"bytes": "AA==", "mime_type": "x/y"}}]});
    let send = json!({"message": message, "configuration": {"accepted_output_modes": ["a/b"], "history_length": 2}});
    let expected = json!({
        "message": {"messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "ROLE_USER", "referenceTaskIds": ["t0"],
            "parts": [{"raw": "AA==", "mediaType": "x/y"}]},
        "configuration": {"acceptedOutputModes": ["a/b"], "historyLength": 2}});
    assert_eq!(params(V0_3, Operation::Send, &send), Ok(expected));
    let delete = json!({"id": "t1", "push_notification_config_id": "p1"});
    assert_eq!(
        params(V0_3, Operation::PushDelete, &delete),
        Ok(json!({"taskId": "t1", "id": "p1"}))
    );
    let update = json!({"task_id": "t1", "context_id": "c1", "status": {"state": "working"}});
    let expected =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}});
    assert_eq!(result(V1_0, Operation::Stream, &update), Ok(expected));
}

#[test]
fn an_answer_about_other_ids_than_were_judged_is_none() {
    let id = RpcId(Bytes::from_static(b"1"));
    let revealed = |task: &str, context: &str| Revealed {
        task: Some(TaskId::new(task)),
        context: Some(ContextId::new(context)),
        state: None,
    };
    let body = json!({ "jsonrpc": "2.0", "id": 1, "result": task_0_3() }).to_string();
    let check = |judged: &[Revealed], expected: bool| {
        let body = body.as_bytes();
        let told = Told::whole(200, body);
        let pair = pair(V1_0);
        assert_eq!(
            pair.answer(Operation::Get, &id, told, judged, None).is_ok(),
            expected,
            "{judged:?}"
        );
        assert_eq!(
            pair.event(
                Operation::Stream,
                &id,
                told,
                judged,
                false,
                &mut v0_1::Progress::default()
            )
            .is_ok(),
            expected,
            "{judged:?}"
        );
        assert_eq!(pair.task_event(&id, body, judged).is_ok(), expected, "{judged:?}");
    };
    check(&[revealed("t1", "c1")], true);
    check(&[revealed("t2", "c1")], false);
    check(&[revealed("t1", "c2")], false);
    check(&[], false);
}
