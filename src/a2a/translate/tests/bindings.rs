//! Agents of other bindings than JSON-RPC: what they are asked, what they tell, and the lists among it.

use super::*;

#[test]
fn an_agent_of_http_json_is_asked_by_its_paths_and_told_from_its_bodies() {
    let over = |caller, generation| Pair {
        caller: rpc(caller),
        agent: Dialect {
            generation,
            binding: Binding::HttpJson,
        },
        tenant: (generation == V1_0).then(|| Arc::from("north")),
        named: None,
        asked: None,
    };
    let get = json!({"jsonrpc": "2.0", "id": "r-1", "method": "tasks/get", "params": {"id": "t1"}}).to_string();
    let asked = |pair: Pair| {
        let written = pair.request(&call(V0_3, Operation::Get), written(get.as_bytes()), None);
        written.unwrap().path
    };
    assert_eq!(asked(over(V0_3, V0_3)), "/v1/tasks/t1");
    assert_eq!(asked(over(V0_3, V1_0)), "/north/tasks/t1");
    let id = RpcId(Bytes::from_static(b"\"r-1\""));
    let pair = over(V0_3, V1_0);
    let told = |told| -> Value {
        let judged = [Revealed {
            task: Some(TaskId::new("t1")),
            context: Some(ContextId::new("c1")),
            state: None,
        }];
        let answer = pair.answer(Operation::Get, &id, told, &judged, None).unwrap();
        serde_json::from_slice(&answer.body).unwrap()
    };
    let task = task_1_0().to_string();
    assert_eq!(told(Told::whole(200, task.as_bytes()))["result"], task_0_3());
    let error = told(Told::whole(404, br#"{"message":"Task not found"}"#));
    assert_eq!(error["error"], json!({"code": -32001, "message": "Task not found"}));
    // Pages are joined without an envelope, as they came.
    let call = Call {
        task: Some(TaskId::new("t1")),
        ..call(V0_3, Operation::PushList)
    };
    let page = json!({"configs": [{"taskId": "t1", "id": "p"}], "nextPageToken": "n"}).to_string();
    let next = pair.next_page(&call, page.as_bytes()).unwrap().unwrap();
    assert_eq!(
        (next.path.as_str(), next.query.as_deref()),
        ("/north/tasks/t1/pushNotificationConfigs", Some("pageToken=n"))
    );
    let joined = pair.join_pages(&call, &[page.clone().into(), page.into()]).unwrap();
    let joined: Value = serde_json::from_slice(&joined).unwrap();
    assert_eq!(joined["configs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn lists_are_asked_and_told_in_both_bindings() {
    let body = br#"{"jsonrpc":"2.0","id":7,"method":"ListTasks","params":{"contextId":"c","pageSize":3,"draft":1}}"#;
    let written = write_list(Binding::HttpJson, body).unwrap();
    assert_eq!(
        (written.path.as_str(), written.query.as_deref()),
        ("/tasks", Some("contextId=c&pageSize=3"))
    );
    let wrong = br#"{"params":{"pageSize":"x"}}"#;
    assert_eq!(write_list(Binding::HttpJson, wrong), Err(Error::Malformed));
    let id = RpcId(Bytes::from_static(b"7"));
    let told = |told| String::from_utf8(written_list(Binding::HttpJson, &id, told).unwrap().to_vec()).unwrap();
    let page = told(Told::whole(200, br#"{"tasks": [ {"x":1.0} ]}"#));
    assert_eq!(page, r#"{"jsonrpc":"2.0","id":7,"result":{"tasks": [ {"x":1.0} ]}}"#);
    let error = told(Told::whole(400, br#"{"error":{"code":400,"message":"no"}}"#));
    assert_eq!(
        error,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}"#
    );
}

/// A message of gRPC that says this in the canonical model.
fn message(generation: Generation, operation: Operation, response: &Value) -> Vec<u8> {
    grpc::from_json(generation, operation, response.to_string().as_bytes()).unwrap()
}

#[test]
fn an_agent_of_grpc_is_asked_and_told_in_messages() {
    for generation in Generation::SPOKEN {
        let agent = Dialect {
            generation,
            binding: Binding::Grpc,
        };
        let pair = Pair {
            caller: rpc(V0_3),
            agent,
            tenant: (generation == V1_0).then(|| Arc::from("north")),
            named: None,
            asked: None,
        };
        let get =
            json!({"jsonrpc": "2.0", "id": "r-1", "method": "tasks/get", "params": {"id": "t1", "historyLength": 2}});
        let get = get.to_string();
        let asked = pair
            .request(&call(V0_3, Operation::Get), written(get.as_bytes()), None)
            .unwrap();
        assert_eq!((asked.verb, asked.query), (http_json::Verb::Post, None));
        assert_eq!(Some(&*asked.path), grpc::path(generation, Operation::Get));
        let asked = grpc::only_message(asked.body.into(), usize::MAX).unwrap();
        let mut params = Vec::new();
        let asked = grpc::read_request(generation, Operation::Get, &asked).unwrap();
        asked.write(&mut params).unwrap();
        let mut expected = json!({"id": "t1", "historyLength": 2});
        if generation == V1_0 {
            expected["tenant"] = json!("north");
        }
        assert_eq!(serde_json::from_slice::<Value>(&params).unwrap(), expected);
        let id = RpcId(Bytes::from_static(b"\"r-1\""));
        let task = message(
            generation,
            Operation::Get,
            &json!({"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}),
        );
        let judged = [Revealed {
            task: Some(TaskId::new("t1")),
            context: Some(ContextId::new("c1")),
            state: None,
        }];
        let told = |operation, told| -> Value {
            let answer = pair.answer(operation, &id, told, &judged, None).unwrap();
            serde_json::from_slice(&answer.body).unwrap()
        };
        let got = told(Operation::Get, Told::whole(200, &task));
        assert_eq!(got["result"]["id"], "t1");
        let status = grpc::Status {
            code: 5,
            message: "TaskNotFoundError: no".to_owned(),
            details: None,
        };
        let error = told(Operation::Get, Told::ended(&status));
        assert_eq!(error["error"], json!({"code": -32001, "message": "no"}));
        assert_eq!(
            pair.answer(Operation::Get, &id, Told::whole(200, b"\xff"), &judged, None),
            Err(Error::Malformed)
        );
        // What the gateway asks by itself.
        let get = write_get(agent, &id, &TaskId::new("t1"), Some("north")).unwrap();
        let tenant = read_tenant(agent, "POST", &get.path, &get.body, Limits::default());
        assert_eq!(tenant.as_deref(), (generation == V1_0).then_some("north"));
    }
}

#[test]
fn pages_and_lists_of_grpc_are_turned() {
    let agent = Dialect {
        generation: V1_0,
        binding: Binding::Grpc,
    };
    let pair = Pair {
        caller: rpc(V0_3),
        agent,
        tenant: None,
        named: None,
        asked: None,
    };
    let call = Call {
        task: Some(TaskId::new("t1")),
        ..call(V0_3, Operation::PushList)
    };
    let config = json!({"taskId": "t1", "id": "p", "url": "u"});
    let page = message(
        V1_0,
        Operation::PushList,
        &json!({"configs": [config], "nextPageToken": "n"}),
    );
    let next = pair.next_page(&call, &page).unwrap().unwrap();
    assert_eq!(Some(&*next.path), grpc::path(V1_0, Operation::PushList));
    let joined = pair.join_pages(&call, &[page.clone().into(), page.into()]).unwrap();
    let joined = grpc::to_json(V1_0, Operation::PushList, &joined).unwrap();
    let joined: Value = serde_json::from_slice(&joined).unwrap();
    assert_eq!(joined["configs"].as_array().map(Vec::len), Some(2));
    let body = br#"{"jsonrpc":"2.0","id":7,"method":"ListTasks","params":{"contextId":"c","pageSize":3}}"#;
    let written = write_list(Binding::Grpc, body).unwrap();
    assert_eq!(Some(&*written.path), grpc::path(V1_0, Operation::List));
    let id = RpcId(Bytes::from_static(b"7"));
    let told = |told| -> Value { serde_json::from_slice(&written_list(Binding::Grpc, &id, told).unwrap()).unwrap() };
    let page = json!({"tasks": [{"id": "t1", "status": {"state": "TASK_STATE_WORKING"}}], "nextPageToken": "",
        "pageSize": 3, "totalSize": 1});
    let list = message(V1_0, Operation::List, &page);
    assert_eq!(
        told(Told::whole(200, &list)),
        json!({"jsonrpc": "2.0", "id": 7, "result": page})
    );
    let status = grpc::Status {
        code: 3,
        message: "no".to_owned(),
        details: None,
    };
    assert_eq!(
        told(Told::ended(&status))["error"],
        json!({"code": -32602, "message": "no"})
    );
}

#[test]
fn codes_that_the_gateway_numbers_its_own_errors_by_are_unknown_ones_of_an_agent() {
    let told = |caller: Binding, code: i64| {
        let dialect = |generation, binding| Dialect { generation, binding };
        let pair = Pair {
            caller: dialect(V1_0, caller),
            agent: rpc(V0_3),
            tenant: None,
            named: None,
            asked: None,
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}).to_string();
        let told = Told::whole(200, body.as_bytes());
        let answer = pair.answer(Operation::Get, &RpcId::one(), told, &[], None);
        answer.unwrap()
    };
    for code in [-31400, -31401, -31403, -31429, -31503, -31599] {
        assert_eq!(told(Binding::HttpJson, code).standing, Standing::Http(500), "{code}");
        let Standing::Grpc(status) = told(Binding::Grpc, code).standing else {
            panic!("no status");
        };
        assert_eq!((status.code, &*status.message), (2, "no"), "{code}");
        // The code is all that there is to keep.
        let same: Value = serde_json::from_slice(&told(Binding::JsonRpc, code).body).unwrap();
        assert_eq!(same["error"]["code"], code);
    }
}

#[test]
fn errors_of_grpc_are_named_to_callers_of_1_0() {
    let status = |reason: Option<&str>| grpc::Status {
        code: 12,
        message: "UnsupportedOperationError: no".to_owned(),
        details: reason.and_then(|reason| grpc::write_refusal(12, "", reason, None).details),
    };
    let check = |generation: Generation, reason: Option<&str>, expected: &[&str]| {
        let pair = Pair {
            caller: rpc(V1_0),
            agent: Dialect {
                generation,
                binding: Binding::Grpc,
            },
            tenant: None,
            named: None,
            asked: None,
        };
        let status = status(reason);
        let answer = pair
            .answer(Operation::Get, &RpcId::one(), Told::ended(&status), &[], None)
            .unwrap();
        let told: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(told["error"]["code"], -32004);
        let details = told["error"]["data"].as_array().unwrap().iter();
        let reasons: Vec<_> = details.map(|detail| detail["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, expected, "{generation} {reason:?}");
    };
    check(V1_0, None, &["UNSUPPORTED_OPERATION"]);
    check(V1_0, Some("busy"), &["UNSUPPORTED_OPERATION", "BUSY"]);
    check(V1_0, Some("unsupported_operation"), &["UNSUPPORTED_OPERATION"]);
    check(V0_3, None, &["UNSUPPORTED_OPERATION"]);
    check(V0_3, Some("busy"), &["UNSUPPORTED_OPERATION"]);
}
