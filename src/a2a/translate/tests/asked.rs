//! Callers of later generations at agents of 0.1, which are told how a task is called.

use super::*;
use crate::a2a::Generation::V0_1;
use crate::a2a::v0_1::{Asked, Progress};

fn pair_of(caller: Dialect) -> Pair {
    Pair {
        caller,
        agent: rpc(V0_1),
        tenant: None,
        named: None,
        asked: Some(Box::new(Asked {
            task: Box::from("t"),
            session: Box::from("s"),
        })),
    }
}

fn id() -> RpcId {
    RpcId(Bytes::from_static(b"7"))
}

/// What the agent told, as far as it is learned from.
fn read(operation: Operation, body: &str) -> jsonrpc::Answer<'_> {
    jsonrpc::read_answer(body.as_bytes(), V0_1, operation, Limits::default()).unwrap()
}

fn told(result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "result": result}).to_string()
}

/// What a caller of JSON-RPC gets of an event.
fn events(caller: Generation, result: &Value, opens: bool) -> Vec<Value> {
    let body = told(result);
    let pair = pair_of(rpc(caller));
    let mut answer = read(Operation::Stream, &body);
    pair.complete(&mut answer).unwrap();
    let told = Told::event(body.as_bytes(), false);
    let progress = &mut Progress::default();
    let event = pair.event(Operation::Stream, &id(), told, &answer.revealed, opens, progress);
    let text = String::from_utf8(event.unwrap().bytes.to_vec()).unwrap();
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    data.map(|data| serde_json::from_str::<Value>(data).unwrap()["result"].clone())
        .collect()
}

#[test]
fn a_send_is_asked_for_under_the_name_of_its_task() {
    let parts = |kind: &str| json!([{kind: "text", "text": "x"}]);
    let expected = json!({"jsonrpc": "2.0", "id": "r-1", "method": "tasks/send", "params": {"id": "t", "sessionId": "s",
        "message": {"role": "user", "parts": parts("type")}}});
    for (caller, method, message) in [
        (
            V0_3,
            "message/send",
            json!({"kind": "message", "messageId": "m", "role": "user", "parts": parts("kind")}),
        ),
        (
            V1_0,
            "SendMessage",
            json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}),
        ),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": "r-1", "method": method, "params": {"message": message}}).to_string();
        let call = call(caller, Operation::Send);
        let asked = pair_of(rpc(caller))
            .request(&call, written(body.as_bytes()), None)
            .unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&asked.body).unwrap(),
            expected,
            "{caller}"
        );
    }
}

#[test]
fn an_answer_is_about_the_task_that_was_asked_about() {
    let check = |operation, result: &Value, expected: Result<&str, Error>| {
        let body = told(result);
        let mut answer = read(operation, &body);
        let completed = pair_of(rpc(V1_0)).complete(&mut answer);
        let got = completed.map(|()| answer.revealed[0].context.as_ref().unwrap().as_str().to_owned());
        assert_eq!(got, expected.map(str::to_owned), "{operation:?} {result}");
    };
    let task = |id: &str| json!({"id": id, "status": {"state": "working"}});
    for operation in [
        Operation::Send,
        Operation::Get,
        Operation::Cancel,
        Operation::Stream,
        Operation::Subscribe,
    ] {
        check(operation, &task("t"), Ok("s"));
        check(operation, &task("u"), Err(Error::Malformed));
        let mut own = task("t");
        own["sessionId"] = "own".into();
        check(operation, &own, Ok("own"));
    }
    check(
        Operation::Stream,
        &json!({"id": "t", "artifact": {"parts": []}}),
        Ok("s"),
    );
    check(
        Operation::Stream,
        &json!({"id": "u", "artifact": {"parts": []}}),
        Err(Error::Malformed),
    );
    // An error is about nothing.
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no"}}"#;
    assert_eq!(pair_of(rpc(V1_0)).complete(&mut read(Operation::Get, error)), Ok(()));
}

#[test]
fn a_stream_of_0_1_opens_with_its_task_in_1_0() {
    let status = json!({"id": "t", "status": {"state": "working"}, "final": false});
    let new = json!({"statusUpdate": {"taskId": "t", "contextId": "s", "status": {"state": "TASK_STATE_WORKING"}}});
    let task = json!({"task": {"id": "t", "contextId": "s", "status": {"state": "TASK_STATE_WORKING"}}});
    assert_eq!(events(V1_0, &status, true), [task.clone(), new.clone()]);
    assert_eq!(events(V1_0, &status, false), [new]);
    let artifact = json!({"id": "t", "artifact": {"index": 1, "parts": []}});
    assert_eq!(events(V1_0, &artifact, true)[0], task);
    let old = |state: &str, last: bool| json!({"kind": "status-update", "taskId": "t", "contextId": "s", "final": last, "status": {"state": state}});
    assert_eq!(events(V0_3, &status, true), [old("working", false)]);
    let last = json!({"id": "t", "status": {"state": "input-required"}, "final": true});
    assert_eq!(events(V0_3, &last, false), [old("input-required", true)]);
}

#[test]
fn its_subscribers_are_owed_the_task_which_says_the_context() {
    for caller in Generation::SPOKEN {
        let pair = pair_of(rpc(caller));
        assert!(pair.owes_task(Operation::Subscribe), "{caller}");
        assert!(!pair.owes_task(Operation::Stream), "{caller}");
    }
}

#[test]
fn its_errors_keep_their_meaning() {
    for (code, expected, reason) in [
        (-32001, -32001, Some("TASK_NOT_FOUND")),
        (-32006, -32004, Some("UNSUPPORTED_OPERATION")),
        (-32007, -32603, None),
    ] {
        let body = json!({"jsonrpc": "2.0", "error": {"code": code, "message": "m", "data": {"k": 1}}}).to_string();
        let error = |caller| {
            let whole = Told::whole(400, body.as_bytes());
            let answer = pair_of(rpc(caller)).answer(Operation::Get, &id(), whole, &[], None);
            serde_json::from_slice::<Value>(&answer.unwrap().body).unwrap()["error"].clone()
        };
        assert_eq!(error(V0_3), json!({"code": expected, "message": "m", "data": {"k": 1}}));
        let told = error(V1_0);
        assert_eq!((&told["code"], &told["message"]), (&json!(expected), &json!("m")));
        assert_eq!(told["data"][0]["reason"].as_str(), reason, "{told}");
    }
}

#[test]
fn what_0_1_has_nothing_for_is_refused() {
    for (operation, expected) in [
        (Operation::List, Error::Unsupported),
        (Operation::PushList, Error::Unsupported),
        (Operation::PushDelete, Error::Unsupported),
        (Operation::ExtendedCard, Error::Unsupported),
        (Operation::PushCreate, Error::Push),
        (Operation::PushGet, Error::Push),
    ] {
        let method = jsonrpc::method_name(V1_0, operation).unwrap();
        let params = json!({"taskId": "t", "id": "p", "url": "https://hook.example/"});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let refused = pair_of(rpc(V1_0)).request(&call(V1_0, operation), written(body.as_bytes()), None);
        assert_eq!(refused, Err(expected), "{operation:?}");
    }
}
