//! Requests to and from the model.

use super::*;
use crate::a2a::model::wire::{Json, Text};
use crate::a2a::model::{self, Configuration, ListTasksRequest, PushListRequest, PushName, TaskRequest};

/// A request line and a body as the canonical `params` would say them.
fn params(line: &str, body: &Value) -> Result<Value, Error> {
    let (method, line) = line.split_once(' ').unwrap();
    let (path, query) = match line.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (line, None),
    };
    let target = target(method, path, &[V0_3, V1_0]);
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let mut out = Vec::new();
    read_request(&target, query, &body)?.write(&mut out)?;
    Ok(serde_json::from_slice(&out).unwrap())
}

#[test]
fn requests_of_1_0_are_read() {
    let check = |line, body, expected| assert_eq!(params(line, &body), Ok(expected), "{line}");
    let send = json!({"message": message_1_0(), "configuration": {"historyLength": 1}, "metadata": {"a": 1}});
    let mut for_tenant = send.clone();
    for_tenant["tenant"] = json!("quay-7");
    check("POST /message:send", send.clone(), send.clone());
    check("POST /quay-7/message:stream", send, for_tenant.clone());
    check("POST /quay-7/message:stream", for_tenant.clone(), for_tenant);
    check("GET /tasks/t", Value::Null, json!({"id": "t"}));
    check(
        "GET /q/tasks/t?history_length=0",
        Value::Null,
        json!({"tenant": "q", "id": "t", "historyLength": 0}),
    );
    check(
        "GET /tasks?contextId=c%201&status=TASK_STATE_WORKING&pageSize=3&page_token=a%2Bb&historyLength=0\
         &statusTimestampAfter=2026-01-01T00%3A00%3A00Z&includeArtifacts=true&A2A-Version=1.0&other=1",
        Value::Null,
        json!({"contextId": "c 1", "status": "TASK_STATE_WORKING", "pageSize": 3, "pageToken": "a+b", "historyLength": 0,
            "statusTimestampAfter": "2026-01-01T00:00:00Z", "includeArtifacts": true}),
    );
    check(
        "GET /tasks?status=2&includeArtifacts=false",
        Value::Null,
        json!({"status": "TASK_STATE_WORKING", "includeArtifacts": false}),
    );
    check(
        "GET /tasks?status=TASK_STATE_UNSPECIFIED&pageSize=",
        Value::Null,
        json!({}),
    );
    check("POST /tasks/t:cancel", Value::Null, json!({"id": "t"}));
    check(
        "POST /tasks/t:cancel",
        json!({"metadata": {"why": 1}}),
        json!({"id": "t", "metadata": {"why": 1}}),
    );
    check("GET /tasks/t:subscribe", Value::Null, json!({"id": "t"}));
    check("POST /tasks/t:subscribe", json!({"id": "t"}), json!({"id": "t"}));
    check(
        "POST /tasks/t/pushNotificationConfigs",
        json!({"id": "p", "url": "https://x.example", "authentication": {"scheme": "Bearer"}}),
        json!({"taskId": "t", "id": "p", "url": "https://x.example", "authentication": {"scheme": "Bearer"}}),
    );
    check(
        "GET /tasks/t/pushNotificationConfigs/p",
        Value::Null,
        json!({"taskId": "t", "id": "p"}),
    );
    check(
        "DELETE /tasks/t/pushNotificationConfigs/p",
        Value::Null,
        json!({"taskId": "t", "id": "p"}),
    );
    check(
        "GET /tasks/t/pushNotificationConfigs?pageSize=2&pageToken=x",
        Value::Null,
        json!({"taskId": "t", "pageSize": 2, "pageToken": "x"}),
    );
    check("GET /q/extendedAgentCard", Value::Null, json!({"tenant": "q"}));
}

#[test]
fn requests_of_0_3_are_read() {
    let check = |line, body, expected| assert_eq!(params(line, &body), Ok(expected), "{line}");
    check(
        "POST /v1/message:send",
        json!({"message": message_0_3(), "configuration": {"blocking": true, "historyLength": 2,
            "acceptedOutputModes": ["text/plain"]}, "metadata": {"a": 1}}),
        json!({"message": message_1_0(), "configuration": {"historyLength": 2, "acceptedOutputModes": ["text/plain"]},
            "metadata": {"a": 1}}),
    );
    check(
        "GET /v1/tasks/t?historyLength=2",
        Value::Null,
        json!({"id": "t", "historyLength": 2}),
    );
    check(
        "POST /v1/tasks/t:cancel",
        json!({"name": "tasks/t"}),
        json!({"id": "t"}),
    );
    check("GET /v1/tasks/t:subscribe", Value::Null, json!({"id": "t"}));
    check(
        "GET /v1/tasks/t/pushNotificationConfigs/p",
        Value::Null,
        json!({"taskId": "t", "id": "p"}),
    );
    check(
        "DELETE /v1/tasks/t/pushNotificationConfigs/p",
        Value::Null,
        json!({"taskId": "t", "id": "p"}),
    );
    check(
        "GET /v1/tasks/t/pushNotificationConfigs",
        Value::Null,
        json!({"taskId": "t"}),
    );
    check("GET /v1/card", Value::Null, json!({}));
}

#[test]
fn push_configurations_of_0_3_may_say_their_id_anywhere() {
    let line = "POST /v1/tasks/t/pushNotificationConfigs";
    let inner = |id: Option<&str>| {
        let mut config = json!({"url": "https://x.example", "authentication": {"schemes": ["Bearer", "Basic"]}});
        if let Some(id) = id {
            config["id"] = json!(id);
        }
        config
    };
    let expected =
        json!({"taskId": "t", "id": "p", "url": "https://x.example", "authentication": {"scheme": "Bearer"}});
    let name = "tasks/t/pushNotificationConfigs/p";
    for (line, body) in [
        (
            line,
            json!({"parent": "tasks/t", "configId": "p", "config": {"name": name, "pushNotificationConfig": inner(Some("p"))}}),
        ),
        (
            line,
            json!({"config_id": "p", "config": {"push_notification_config": inner(None)}}),
        ),
        (
            line,
            json!({"config": {"name": name, "pushNotificationConfig": inner(None)}}),
        ),
        (line, json!({"config": {"pushNotificationConfig": inner(Some("p"))}})),
        (line, json!({"name": name, "pushNotificationConfig": inner(None)})),
        (
            "POST /v1/task/t/pushNotificationConfigs?configId=p",
            json!({"pushNotificationConfig": inner(None)}),
        ),
    ] {
        assert_eq!(params(line, &body), Ok(expected.clone()), "{body}");
    }
    for body in [
        json!({}),
        json!({"parent": "tasks/t"}),
        json!({"config": {}}),
        json!([]),
    ] {
        assert_eq!(params(line, &body), Err(Error::Malformed), "{body}");
    }
}

#[test]
fn unset_blocking_is_false_in_0_3() {
    let send = |configuration: Option<Value>| {
        let mut body = json!({"message": message_0_3()});
        if let Some(configuration) = configuration {
            body["configuration"] = configuration;
        }
        params("POST /v1/message:send", &body).unwrap()["configuration"].clone()
    };
    let at_once = json!({"returnImmediately": true});
    assert_eq!(send(None), at_once);
    assert_eq!(send(Some(json!({}))), at_once);
    assert_eq!(send(Some(json!({"blocking": false}))), at_once);
    assert_eq!(send(Some(json!({"blocking": true}))), Value::Null);
    let configuration = |returns| {
        let request = model::SendMessageRequest {
            message: serde_json::from_str(r#"{"messageId":"m","role":"ROLE_USER","parts":[]}"#).unwrap(),
            configuration: Some(Configuration {
                return_immediately: returns,
                ..Configuration::default()
            }),
            ..model::SendMessageRequest::default()
        };
        let written = write_request(V0_3, Request::Send(request)).unwrap();
        sent(&written).3["configuration"].clone()
    };
    assert_eq!(configuration(true), json!({}));
    assert_eq!(configuration(false), json!({"blocking": true}));
}

#[test]
fn a_history_of_nothing_cannot_be_asked_for_in_0_3() {
    assert_eq!(
        params("GET /v1/tasks/t?historyLength=0", &Value::Null),
        Ok(json!({"id": "t"}))
    );
    let request = model::GetTaskRequest {
        id: Text::from("t"),
        history_length: Some(0),
        ..model::GetTaskRequest::default()
    };
    assert_eq!(write_request(V0_3, Request::Get(request.clone())).unwrap().query, None);
    let written = write_request(V1_0, Request::Get(request)).unwrap();
    assert_eq!(written.query.as_deref(), Some("historyLength=0"));
}

#[test]
fn requests_are_written() {
    let check = |generation, request: &Request<'static>, expected: (&str, &str, Option<&str>, Value)| {
        let written = write_request(generation, request.clone()).unwrap();
        assert_eq!(sent(&written), expected);
    };
    let body = json!({"message": message_1_0(), "configuration": {"historyLength": 2}}).to_string();
    let send: model::SendMessageRequest<'static> = serde_json::from_str(Box::leak(body.into_boxed_str())).unwrap();
    let on_1_0 = json!({"message": message_1_0(), "configuration": {"historyLength": 2}});
    let on_0_3 = json!({"message": message_0_3(), "configuration": {"historyLength": 2, "blocking": true}});
    let stream = Request::Stream(send.clone());
    check(
        V1_0,
        &Request::Send(send),
        ("POST", "/message:send", None, on_1_0.clone()),
    );
    check(V1_0, &stream, ("POST", "/message:stream", None, on_1_0));
    check(V0_3, &stream, ("POST", "/v1/message:stream", None, on_0_3));

    let task = TaskRequest {
        tenant: Text::from("quay 7"),
        id: Text::from("b:c?%"),
        metadata: Json::owned(r#"{"why":1}"#.to_owned()),
    };
    let cancel = Request::Cancel(task.clone());
    let on_1_0 = json!({"tenant": "quay 7", "id": "b:c?%", "metadata": {"why": 1}});
    let path = "/quay%207/tasks/b%3Ac%3F%25";
    check(V1_0, &cancel, ("POST", &format!("{path}:cancel"), None, on_1_0));
    // The protobuf of 0.3 has no metadata here.
    let on_0_3 = json!({"name": "tasks/b:c?%"});
    check(V0_3, &cancel, ("POST", "/v1/tasks/b%3Ac%3F%25:cancel", None, on_0_3));
    let subscribe = Request::Subscribe(task);
    let line = format!("{path}:subscribe");
    check(V1_0, &subscribe, ("POST", &line, None, Value::Null));
    let line = "/v1/tasks/b%3Ac%3F%25:subscribe";
    check(V0_3, &subscribe, ("GET", line, None, Value::Null));

    let list = Request::List(ListTasksRequest {
        context_id: Text::from("c 1&"),
        status: crate::a2a::TaskState::Canceled,
        page_size: Some(3),
        page_token: Text::from("a+b"),
        history_length: Some(0),
        status_timestamp_after: Text::from("2026-01-01T00:00:00Z"),
        include_artifacts: Some(false),
        ..ListTasksRequest::default()
    });
    let query = "contextId=c%201%26&status=TASK_STATE_CANCELED&pageSize=3&pageToken=a%2Bb&historyLength=0\
                 &statusTimestampAfter=2026-01-01T00%3A00%3A00Z&includeArtifacts=false";
    check(V1_0, &list, ("GET", "/tasks", Some(query), Value::Null));
    assert_eq!(write_request(V0_3, list), Err(Error::Unsupported));

    let config = Request::PushCreate(model::PushConfig {
        id: Text::from("p"),
        task_id: Text::from("t"),
        url: Text::from("https://x.example"),
        ..model::PushConfig::default()
    });
    let flat = json!({"id": "p", "taskId": "t", "url": "https://x.example"});
    check(V1_0, &config, ("POST", "/tasks/t/pushNotificationConfigs", None, flat));
    let nested = json!({"parent": "tasks/t", "configId": "p", "config": {"name": "tasks/t/pushNotificationConfigs/p",
        "pushNotificationConfig": {"id": "p", "url": "https://x.example"}}});
    check(
        V0_3,
        &config,
        ("POST", "/v1/tasks/t/pushNotificationConfigs", None, nested),
    );

    let name = PushName {
        task_id: Text::from("t"),
        id: Text::from("p"),
        ..PushName::default()
    };
    let path = "/tasks/t/pushNotificationConfigs/p";
    check(V1_0, &Request::PushGet(name.clone()), ("GET", path, None, Value::Null));
    check(
        V0_3,
        &Request::PushDelete(name),
        ("DELETE", &format!("/v1{path}"), None, Value::Null),
    );
    let pushes = Request::PushList(PushListRequest {
        task_id: Text::from("t"),
        page_size: Some(2),
        page_token: Text::from("x"),
        ..PushListRequest::default()
    });
    let query = Some("pageSize=2&pageToken=x");
    check(
        V1_0,
        &pushes,
        ("GET", "/tasks/t/pushNotificationConfigs", query, Value::Null),
    );
    check(
        V0_3,
        &pushes,
        ("GET", "/v1/tasks/t/pushNotificationConfigs", query, Value::Null),
    );
    let card = Request::ExtendedCard {
        tenant: Text::default(),
    };
    check(V1_0, &card, ("GET", "/extendedAgentCard", None, Value::Null));
    check(V0_3, &card, ("GET", "/v1/card", None, Value::Null));
}

#[test]
fn what_no_path_can_carry_is_not_written() {
    let get = |tenant: &'static str, id: &'static str| {
        let request = model::GetTaskRequest {
            tenant: Text::from(tenant),
            id: Text::from(id),
            history_length: None,
        };
        write_request(V1_0, Request::Get(request)).map(|written| written.path)
    };
    assert_eq!(get("", "t"), Ok("/tasks/t".to_owned()));
    assert_eq!(get("v1", "t"), Ok("/v1/tasks/t".to_owned()));
    for (tenant, id) in [
        ("", ""),
        ("", "."),
        ("", ".."),
        ("", "a/../b"),
        ("", "t:cancel"),
        ("", "t:Subscribe"),
        ("", "t/pushNotificationConfigs"),
        ("tasks", "t"),
        ("Message:send", "t"),
        (".well-known", "t"),
    ] {
        assert_eq!(get(tenant, id), Err(Error::Malformed), "{tenant} {id}");
    }
}

#[test]
fn a_name_of_0_3_has_no_slash_in_an_id() {
    let cancel = |id: &'static str| {
        let request = TaskRequest {
            id: Text::from(id),
            ..TaskRequest::default()
        };
        write_request(V0_3, Request::Cancel(request)).map(|written| written.path)
    };
    assert_eq!(cancel("a"), Ok("/v1/tasks/a:cancel".to_owned()));
    assert_eq!(cancel("a/b"), Err(Error::Malformed));
    let create = |task: &'static str, id: &'static str| {
        let config = model::PushConfig {
            task_id: Text::from(task),
            id: Text::from(id),
            ..model::PushConfig::default()
        };
        write_request(V0_3, Request::PushCreate(config)).map(|written| written.path)
    };
    assert_eq!(create("a", "b"), Ok("/v1/tasks/a/pushNotificationConfigs".to_owned()));
    assert_eq!(create("a/b", "c"), Err(Error::Malformed));
    assert_eq!(create("a", "b/c"), Err(Error::Malformed));
}

#[test]
fn requests_that_are_none_are_malformed() {
    let check = |line, body| assert_eq!(params(line, &body), Err(Error::Malformed), "{line} {body}");
    check("POST /message:send", json!({}));
    check("POST /message:send", json!({"message": message_0_3()["content"]}));
    check(
        "POST /v1/message:send",
        json!({"jsonrpc": "2.0", "params": {"message": message_0_3()}}),
    );
    check(
        "POST /v1/message:send",
        json!({"message": {"content": [{"text": "a", "data": {"data": {}}}]}}),
    );
    check(
        "POST /v1/message:send",
        json!({"message": {"content": [{"file": {"mimeType": "text/plain"}}]}}),
    );
    check("POST /v1/message:send", json!({"message": {"content": [{}]}}));
    let as_json_rpc =
        json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "a"}]});
    check("POST /v1/message:send", json!({ "message": as_json_rpc }));
    check("GET /tasks/t?historyLength=x", Value::Null);
    check("GET /tasks?pageSize=1.5", Value::Null);
    check("GET /tasks?status=working", Value::Null);
    check("GET /tasks?status=TASK_STATE_ASLEEP", Value::Null);
    check("GET /tasks?status=99", Value::Null);
    check("GET /tasks?includeArtifacts=yes", Value::Null);
    check("GET /tasks?pageSize=1&pageSize=1", Value::Null);
    assert_eq!(params("GET /v1/tasks", &Value::Null), Err(Error::Unsupported));
}

#[test]
fn what_no_query_can_carry_is_not_written() {
    let list = |length: usize| {
        let request = model::ListTasksRequest {
            page_token: Text::from("x".repeat(length)),
            ..model::ListTasksRequest::default()
        };
        write_request(V1_0, Request::List(request)).map(|written| written.path)
    };
    // The path, and the name of the parameter.
    let most = 32 * 1024 - "/tasks".len() - "pageToken=".len();
    assert_eq!(list(most), Ok("/tasks".to_owned()));
    assert_eq!(list(most + 1), Err(Error::Malformed));
}
