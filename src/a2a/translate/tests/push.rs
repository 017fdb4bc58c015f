//! Webhooks in requests and answers, and what is told them.

use super::*;
use crate::a2a::Generation::V0_1;
use crate::a2a::model::PushConfig;
use crate::a2a::model::wire::Text;

/// Puts `gateway:` before the URLs of webhooks, and takes it away.
struct Prefix;

impl Webhooks for Prefix {
    fn register(&self, config: &mut PushConfig<'_>) -> Result<(), Error> {
        config.url = Text::from(format!("gateway:{}", config.url.as_str()));
        config.token = Text::default();
        Ok(())
    }

    fn show(&self, config: &mut PushConfig<'_>) {
        let url = config.url.as_str().strip_prefix("gateway:").map(str::to_owned);
        config.url = url.map_or(Text::default(), Text::from);
    }
}

fn registered(pair: &Pair, operation: Operation, params: &Value) -> Value {
    let caller = pair.caller.generation;
    let method = jsonrpc::method_name(caller, operation).unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": "r-1", "method": method, "params": params }).to_string();
    let out = pair.request(&call(caller, operation), written(body.as_bytes()), Some(&Prefix));
    serde_json::from_slice::<Value>(&out.unwrap().body).unwrap()["params"].clone()
}

#[test]
fn another_address_is_registered_wherever_a_webhook_stands() {
    let old = json!({"id": "p1", "url": "u", "token": "s"});
    let new = json!({"id": "p1", "url": "gateway:u"});
    let create = registered(
        &pair(V0_3),
        Operation::PushCreate,
        &json!({"taskId": "t1", "pushNotificationConfig": old}),
    );
    assert_eq!(create, json!({"taskId": "t1", "id": "p1", "url": "gateway:u"}));
    let create = registered(
        &pair(V1_0),
        Operation::PushCreate,
        &json!({"taskId": "t1", "id": "p1", "url": "u", "token": "s"}),
    );
    assert_eq!(create, json!({"taskId": "t1", "pushNotificationConfig": new}));
    for operation in [Operation::Send, Operation::Stream] {
        let params = json!({"message": message_0_3(), "configuration": {"pushNotificationConfig": old}});
        let sent = registered(&pair(V0_3), operation, &params);
        assert_eq!(sent["configuration"]["taskPushNotificationConfig"], new);
        let params = json!({"message": message_1_0(), "configuration": {"taskPushNotificationConfig": old}});
        let sent = registered(&pair(V1_0), operation, &params);
        assert_eq!(sent["configuration"]["pushNotificationConfig"], new);
    }
    // The agent calls those of its own generation in the right form.
    let same = Pair {
        caller: rpc(V1_0),
        agent: rpc(V1_0),
        tenant: None,
        named: None,
        asked: None,
    };
    let create = registered(&same, Operation::PushCreate, &json!({"taskId": "t1", "url": "u"}));
    assert_eq!(create, json!({"taskId": "t1", "url": "u"}));
}

#[test]
fn the_callers_own_webhook_is_shown() {
    let id = RpcId(Bytes::from_static(b"1"));
    let shown = |caller, operation, result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let out = pair(caller)
            .answer(operation, &id, Told::whole(200, body.as_bytes()), &[], Some(&Prefix))
            .unwrap();
        serde_json::from_slice::<Value>(&out.body).unwrap()["result"].clone()
    };
    let old = |url: &str| json!({"taskId": "t1", "pushNotificationConfig": {"id": "p1", "url": url}});
    let new = |url: &str| json!({"taskId": "t1", "id": "p1", "url": url});
    for operation in [Operation::PushCreate, Operation::PushGet] {
        assert_eq!(shown(V0_3, operation, new("gateway:u")), old("u"));
        assert_eq!(shown(V1_0, operation, old("gateway:u")), new("u"));
    }
    let page = |url: &str| json!({"configs": [new(url), new(url)], "nextPageToken": ""});
    assert_eq!(
        shown(V0_3, Operation::PushList, page("gateway:u")),
        json!([old("u"), old("u")])
    );
    assert_eq!(
        shown(V1_0, Operation::PushList, json!([old("gateway:u"), old("gateway:u")])),
        page("u")
    );
}

/// What an agent of a generation posted, for a webhook of another.
fn posted(body: &str, by: Generation, to: Generation) -> Result<Notification, Error> {
    let named = v0_1::Named {
        task: Box::from("mine"),
        ..v0_1::Named::default()
    };
    let pair = Pair {
        caller: rpc(to),
        agent: rpc(by),
        tenant: None,
        named: (to == V0_1).then(|| Box::new(named)),
        asked: None,
    };
    pair.notification(body.as_bytes(), Limits::default())
}

fn told(body: &Value, to: Generation) -> Result<Value, Error> {
    Ok(match posted(&body.to_string(), V0_3, to)?.relayed {
        Relayed::Body(body) => serde_json::from_slice(&body).unwrap(),
        Relayed::Task => json!("task"),
        Relayed::Nothing => json!("nothing"),
    })
}

#[test]
fn notifications_are_told_in_the_form_of_their_webhook() {
    let check = |body: Value, to: Generation, expected: &Value| assert_eq!(told(&body, to).as_ref(), Ok(expected));
    let (old, new) = (task_0_3(), json!({ "task": task_1_0() }));
    check(new.clone(), V0_3, &old);
    check(old.clone(), V1_0, &new);
    // In the form of its webhook already: official servers of 1.0 post theirs everywhere.
    check(new.clone(), V1_0, &new);
    check(old.clone(), V0_3, &old);
    let mut bare = old.clone();
    bare.as_object_mut().unwrap().remove("kind");
    check(bare, V1_0, &new);
    let status =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}});
    check(status.clone(), V1_0, &status);
    check(status.clone(), V0_3, &json!("task"));
    check(status, V0_1, &json!("task"));
    let artifact = json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1",
        "artifact": {"artifactId": "a1", "parts": [{"text": "14"}]}}});
    check(artifact.clone(), V1_0, &artifact);
    check(artifact, V0_3, &json!("task"));
    let update = json!({"kind": "status-update", "taskId": "t1", "contextId": "c1", "status": {"state": "completed"}, "final": true});
    check(update.clone(), V0_3, &json!("task"));
    let update_1_0 =
        json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}});
    check(update, V1_0, &update_1_0);
    let message = json!({"message": {"messageId": "m1", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}});
    check(message.clone(), V1_0, &message);
    check(message.clone(), V0_3, &json!("nothing"));
    check(message, V0_1, &json!("nothing"));
    let mut of_task = message_1_0();
    of_task["role"] = json!("ROLE_AGENT");
    check(json!({ "message": of_task }), V0_3, &json!("task"));
    check(json!({ "message": of_task }), V0_1, &json!("task"));
}

#[test]
fn webhooks_of_0_1_are_told_of_tasks_under_the_names_of_their_callers() {
    for task in [task_0_3(), json!({ "task": task_1_0() })] {
        let mut got = told(&task, V0_1).unwrap();
        assert_eq!((&got["id"], &got["sessionId"]), (&json!("mine"), &json!("c1")));
        assert_eq!(got["status"]["state"], "input-required");
        let part = got["artifacts"][0]["parts"][0].take();
        assert_eq!((&part["type"], got.get("kind")), (&json!("text"), None), "{got}");
    }
}

#[test]
fn a_notification_reveals_its_task() {
    let check = |body: Value, task: &str, state: Option<TaskState>| {
        let read = posted(&body.to_string(), V0_3, V1_0).unwrap();
        let expected = Revealed {
            task: Some(TaskId::new(task)),
            context: Some(ContextId::new("c1")),
            state,
        };
        assert_eq!(read.revealed, expected, "{body}");
    };
    check(task_0_3(), "t1", Some(TaskState::InputRequired));
    check(json!({ "task": task_1_0() }), "t1", Some(TaskState::InputRequired));
    let status = json!({"taskId": "t2", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}});
    check(json!({ "statusUpdate": status }), "t2", Some(TaskState::Completed));
}

#[test]
fn what_is_no_notification_is_malformed() {
    let check = |body: &str| {
        for to in [V0_1, V0_3, V1_0] {
            let read = posted(body, V0_3, to);
            assert_eq!(read.map(|_| ()), Err(Error::Malformed), "{body}");
        }
    };
    for body in [
        "",
        "null",
        "[]",
        "{}",
        "7",
        r#"{"task":null}"#,
        r#"{"kind":"task"}"#,
        r#"{"kind":"other","id":"t1"}"#,
        r#"{"status":{"state":"working"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"id":"t1","status":{"state":"working"}}}"#,
        r#"{"task":{"id":"t1","status":{"state":"TASK_STATE_WORKING"}},"message":{"messageId":"m","role":"ROLE_AGENT","parts":[]}}"#,
        // What would be another result of the answer that it is read as.
        r#"{"task":{"id":"t1"}},"result":{"task":{"id":"t2"}}"#,
        r#"{"kind":"task","id":"t1","status":{"state":"working"}} {}"#,
    ] {
        check(body);
    }
}

#[test]
fn a_task_that_was_asked_for_is_told_whole() {
    let pair = pair(V0_3);
    let asked = Call {
        task: Some(TaskId::new("t1")),
        ..call(V1_0, Operation::Get)
    };
    let body: Value = serde_json::from_slice(&pair.ask_task(&asked).unwrap().body).unwrap();
    assert_eq!(
        body,
        json!({"jsonrpc": "2.0", "id": "r-1", "method": "GetTask", "params": {"id": "t1"}})
    );
    let answer = json!({"jsonrpc": "2.0", "id": "r-1", "result": task_1_0()}).to_string();
    let judged = judged(V0_3, Operation::Get, &answer);
    let told = pair.task_notification(answer.as_bytes(), &judged).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&told).unwrap(), task_0_3());
    assert_eq!(
        pair.task_notification(answer.as_bytes(), &[]),
        Err(Error::Malformed),
        "not what was judged"
    );
    let failed = br#"{"jsonrpc":"2.0","id":"r-1","error":{"code":-32001,"message":"no"}}"#;
    assert_eq!(pair.task_notification(failed, &[]), Err(Error::Malformed));
}

#[test]
fn what_an_agent_of_0_1_posts_is_a_task() {
    let told = |body: &Value, to| {
        let read = posted(&body.to_string(), V0_1, to)?;
        let Relayed::Body(relayed) = read.relayed else {
            panic!("a task is whole");
        };
        assert_eq!(read.revealed.task, Some(TaskId::new("t")));
        assert_eq!(read.revealed.context, Some(ContextId::new("s")));
        Ok(serde_json::from_slice::<Value>(&relayed).unwrap())
    };
    let task = json!({"id": "t", "sessionId": "s", "status": {"state": "completed"},
        "artifacts": [{"parts": [{"type": "text", "text": "x"}], "index": 4}]});
    let parts = |kind: Value| json!([{"artifactId": "4", "parts": [kind]}]);
    let new = json!({"task": {"id": "t", "contextId": "s", "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": parts(json!({"text": "x"}))}});
    assert_eq!(told(&task, V1_0), Ok(new));
    let old = json!({"kind": "task", "id": "t", "contextId": "s", "status": {"state": "completed"},
        "artifacts": parts(json!({"kind": "text", "text": "x"}))});
    assert_eq!(told(&task, V0_3), Ok(old));
    for broken in [json!({"status": {"state": "completed"}}), json!({"id": "t"}), json!([])] {
        assert_eq!(told(&broken, V1_0), Err(Error::Malformed), "{broken}");
    }
}
