//! Callers of 0.1 at agents of later generations: whole requests, answers, errors and events.

use super::*;
use crate::a2a::Generation::V0_1;
use crate::a2a::v0_1::{Named, Progress};

fn pair_of(agent: Generation) -> Pair {
    Pair {
        caller: rpc(V0_1),
        agent: rpc(agent),
        tenant: None,
        named: Some(Box::new(Named {
            task: Box::from("mine"),
            session: Box::from("my session"),
            message: Box::from("made-up"),
        })),
        asked: None,
    }
}

fn id() -> RpcId {
    RpcId(Bytes::from_static(b"7"))
}

/// What an agent is asked for a call about this task of its own.
fn asked(agent: Generation, operation: Operation, task: Option<&str>, params: &Value) -> Value {
    let call = Call {
        task: task.map(TaskId::new),
        ..call(V0_1, operation)
    };
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "?", "params": params}).to_string();
    let written = pair_of(agent).request(&call, written(body.as_bytes()), None).unwrap();
    serde_json::from_slice(&written.body).unwrap()
}

fn told(result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "result": result}).to_string()
}

#[test]
fn a_send_begins_a_task_or_goes_to_one() {
    let params = json!({"id": "mine", "sessionId": "my session",
        "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}});
    let message = json!({"messageId": "made-up", "role": "ROLE_USER", "contextId": "my session",
        "parts": [{"text": "x"}]});
    let new = asked(V1_0, Operation::Send, None, &params);
    assert_eq!(
        (&new["method"], &new["params"]["message"]),
        (&json!("SendMessage"), &message)
    );
    let more = asked(V1_0, Operation::Stream, Some("theirs"), &params);
    let message = &more["params"]["message"];
    assert_eq!(more["method"], "SendStreamingMessage");
    assert_eq!((&message["taskId"], message.get("contextId")), (&json!("theirs"), None));
    let old = asked(V0_3, Operation::Send, Some("theirs"), &params);
    let message = &old["params"]["message"];
    assert_eq!(
        (&old["method"], &message["kind"], &message["taskId"]),
        (&json!("message/send"), &json!("message"), &json!("theirs"))
    );
}

#[test]
fn calls_about_a_task_name_the_agents() {
    for (agent, operation, method) in [
        (V1_0, Operation::Get, "GetTask"),
        (V1_0, Operation::Cancel, "CancelTask"),
        (V1_0, Operation::Subscribe, "SubscribeToTask"),
        (V0_3, Operation::Get, "tasks/get"),
        (V0_3, Operation::Cancel, "tasks/cancel"),
        (V0_3, Operation::Subscribe, "tasks/resubscribe"),
    ] {
        let asked = asked(agent, operation, Some("theirs"), &json!({"id": "mine"}));
        assert_eq!(
            (&asked["method"], &asked["params"]["id"]),
            (&json!(method), &json!("theirs"))
        );
    }
}

#[test]
fn answers_are_told_in_the_callers_names() {
    let expected = json!({"jsonrpc": "2.0", "id": 7, "result":
        {"id": "mine", "sessionId": "my session", "status": {"state": "working"}}});
    let of_1_0 = json!({"id": "theirs", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
    let of_0_3 = json!({"kind": "task", "id": "theirs", "contextId": "c", "status": {"state": "working"}});
    for (agent, operation, result) in [
        (V1_0, Operation::Get, of_1_0.clone()),
        (V1_0, Operation::Send, json!({ "task": of_1_0 })),
        (V0_3, Operation::Cancel, of_0_3.clone()),
        (V0_3, Operation::Send, of_0_3),
    ] {
        let body = told(&result);
        let read = jsonrpc::read_answer(body.as_bytes(), agent, operation, Limits::default()).unwrap();
        let whole = Told::whole(200, body.as_bytes());
        let answer = pair_of(agent)
            .answer(operation, &id(), whole, &read.revealed, None)
            .unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&answer.body).unwrap(),
            expected,
            "{agent} {operation:?}"
        );
    }
}

#[test]
fn codes_that_0_1_has_otherwise_are_internal_errors() {
    for (code, expected) in [(-32001, -32001), (-32004, -32004), (-32006, -32603), (-32009, -32603)] {
        let body = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": "m", "data": [1]}}).to_string();
        let whole = Told::whole(200, body.as_bytes());
        let answer = pair_of(V1_0).answer(Operation::Get, &id(), whole, &[], None).unwrap();
        let error = json!({"code": expected, "message": "m", "data": [1]});
        assert_eq!(serde_json::from_slice::<Value>(&answer.body).unwrap()["error"], error);
    }
}

#[test]
fn one_event_of_an_agent_may_be_several() {
    let mut progress = Progress::default();
    let mut check = |result: &Value, expected: &[Value]| {
        let body = told(result);
        let read = jsonrpc::read_answer(body.as_bytes(), V1_0, Operation::Stream, Limits::default()).unwrap();
        let told = Told::event(body.as_bytes(), false);
        let event = pair_of(V1_0).event(Operation::Stream, &id(), told, &read.revealed, true, &mut progress);
        let text = String::from_utf8(event.unwrap().bytes.to_vec()).unwrap();
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        let got: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        let expected: Vec<Value> = expected
            .iter()
            .map(|result| json!({"jsonrpc": "2.0", "id": 7, "result": result}))
            .collect();
        assert_eq!(got, expected);
    };
    let ids = json!({"taskId": "theirs", "contextId": "c"});
    let update = |name: &str, members: Value| {
        let mut update = ids.clone();
        update
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        json!({ name: update })
    };
    let task = json!({"task": {"id": "theirs", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"},
        "artifacts": [{"artifactId": "a", "parts": []}]}});
    let status = |state: &str, last: bool| json!({"id": "mine", "status": {"state": state}, "final": last});
    check(
        &task,
        &[
            json!({"id": "mine", "artifact": {"parts": [], "index": 0}}),
            status("working", false),
        ],
    );
    let asks = json!({"task": {"id": "theirs", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}});
    check(&asks, &[status("input-required", false)]);
    let artifact = json!({"artifact": {"artifactId": "b", "parts": []}, "append": false, "lastChunk": true});
    let made = json!({"id": "mine", "artifact": {"parts": [], "index": 1, "append": false, "lastChunk": true}});
    check(&update("artifactUpdate", artifact), &[made]);
    let done = json!({"status": {"state": "TASK_STATE_COMPLETED"}});
    check(&update("statusUpdate", done), &[status("completed", true)]);
    assert_eq!(
        end_of_0_1(&id(), &mut progress),
        None,
        "what was asked has been answered"
    );
}

#[test]
fn a_stream_that_ends_with_a_task_ends_with_a_final_event() {
    let told_then = |then: &Value| {
        let mut progress = Progress::default();
        let asks = json!({"id": "theirs", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}});
        for body in [told(&json!({ "task": asks })), then.to_string()] {
            let read = jsonrpc::read_answer(body.as_bytes(), V1_0, Operation::Stream, Limits::default()).unwrap();
            let told = Told::event(body.as_bytes(), read.error.is_some());
            let event = pair_of(V1_0).event(Operation::Stream, &id(), told, &read.revealed, true, &mut progress);
            assert!(event.is_ok());
        }
        end_of_0_1(&id(), &mut progress)
    };
    let again = told(&json!({"task": {"id": "theirs", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}));
    let expected = concat!(
        r#"data: {"jsonrpc":"2.0","id":7,"result":{"id":"mine","status":{"state":"completed"},"final":true}}"#,
        "\n\n"
    );
    assert_eq!(
        told_then(&serde_json::from_str(&again).unwrap()).as_deref(),
        Some(expected.as_bytes())
    );
    let error = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "m"}});
    assert_eq!(told_then(&error), None, "an error is the end");
}

#[test]
fn a_webhook_is_not_set() {
    let params = json!({"id": "mine", "message": {"role": "user", "parts": []},
        "pushNotification": {"url": "https://hooks.example/"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": params}).to_string();
    for agent in [V0_3, V1_0] {
        let refused = pair_of(agent).request(&call(V0_1, Operation::Send), written(body.as_bytes()), None);
        assert_eq!(refused, Err(Error::Push));
    }
}
