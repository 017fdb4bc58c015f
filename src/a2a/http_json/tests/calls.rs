//! Which call a request makes, and what is refused.

use bytes::Bytes;

use super::*;
use crate::a2a::json::{ErrorKind, Limits};
use crate::a2a::jsonrpc::{MAX_ID_BYTES, MAX_REFERENCES, RequestErrorKind as Kind};
use crate::a2a::{Call, ContextId, RpcId, TaskId};

/// Reads a request line with its query, and a body.
fn call(line: &str, body: &str) -> Result<Call, Kind> {
    let (method, line) = line.split_once(' ').unwrap();
    let (path, query) = match line.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (line, None),
    };
    let target = target(method, path, &[V0_3, V1_0]);
    let body = Bytes::copy_from_slice(body.as_bytes());
    read_call(&target, query, &body, Limits::default()).map_err(|error| {
        assert!(error.at <= body.len());
        assert_eq!(error.id, None);
        error.kind
    })
}

fn ids(line: &str, body: &str, task: Option<&str>, context: Option<&str>) {
    let call = call(line, body).unwrap_or_else(|error| panic!("{line} {body}: {error:?}"));
    assert_eq!(call.id, RpcId::null());
    assert_eq!(call.task.as_ref().map(TaskId::as_str), task, "{line} {body}");
    assert_eq!(call.context.as_ref().map(ContextId::as_str), context, "{line} {body}");
}

fn refused(line: &str, body: &str, kind: Kind) {
    assert_eq!(call(line, body), Err(kind), "{line} {body}");
}

const PUSH: &str = "POST /v1/tasks/t/pushNotificationConfigs";

#[test]
fn sends_name_their_task_in_the_message() {
    for line in [
        "POST /message:send",
        "POST /quay/message:stream",
        "POST /v1/message:send",
    ] {
        ids(
            line,
            r#"{"message":{"taskId":"t","contextId":"c"}}"#,
            Some("t"),
            Some("c"),
        );
        ids(
            line,
            r#"{"message":{"task_id":"t","context_id":"c"}}"#,
            Some("t"),
            Some("c"),
        );
        ids(line, r#"{"message":{"taskId":"","contextId":null}}"#, None, None);
        ids(
            line,
            r#"{"message":{"messageId":"m"},"id":"x","taskId":"y"}"#,
            None,
            None,
        );
        ids(line, "{}", None, None);
        refused(line, "", Kind::Json(ErrorKind::Syntax));
        refused(line, "[]", Kind::InvalidParams);
        refused(line, "null", Kind::InvalidParams);
        refused(line, r#"{"message":"hello"}"#, Kind::InvalidParams);
        refused(line, r#"{"message":{"taskId":7}}"#, Kind::InvalidParams);
        refused(
            line,
            r#"{"message":{"taskId":"a","task_id":"b"}}"#,
            Kind::ConflictingSpellings,
        );
        refused(
            line,
            r#"{"message":{"taskId":"a","taskId":"a"}}"#,
            Kind::Json(ErrorKind::DuplicateName),
        );
        refused(line, r#"{"message":{"TaskId":"a"}}"#, Kind::LookAlikeParam);
        refused(line, r#"{"Message":{"taskId":"a"}}"#, Kind::LookAlikeParam);
        refused(line, r#"{"message":{}} x"#, Kind::Json(ErrorKind::TrailingData));
    }
    let call = call(
        "POST /message:send",
        r#"{"message":{"referenceTaskIds":["a"]},"configuration":{"taskPushNotificationConfig":{"taskId":"b"}}}"#,
    );
    assert_eq!(call.unwrap().references, [TaskId::new("a"), TaskId::new("b")]);
    let many = format!(
        r#"{{"message":{{"referenceTaskIds":[{}"x"]}}}}"#,
        r#""x","#.repeat(MAX_REFERENCES)
    );
    refused("POST /message:send", &many, Kind::TooManyReferences);
}

#[test]
fn a_message_may_stand_under_its_protobuf_name_in_0_3() {
    ids(
        "POST /v1/message:send",
        r#"{"request":{"taskId":"t"}}"#,
        Some("t"),
        None,
    );
    refused(
        "POST /v1/message:send",
        r#"{"request":{"taskId":"t"},"message":{"taskId":"t"}}"#,
        Kind::ConflictingSpellings,
    );
    refused("POST /v1/message:send", r#"{"Request":{}}"#, Kind::LookAlikeParam);
    ids("POST /message:send", r#"{"request":{"taskId":"t"}}"#, None, None);
}

#[test]
fn the_tenant_is_that_of_the_path() {
    let line = "POST /quay-7/message:send";
    ids(line, r#"{"tenant":"quay-7","message":{}}"#, None, None);
    ids(line, r#"{"tenant":"","message":{}}"#, None, None);
    refused(line, r#"{"tenant":"quay-8","message":{}}"#, Kind::ConflictingPlaces);
    refused(
        "POST /message:send",
        r#"{"tenant":"quay-7","message":{}}"#,
        Kind::ConflictingPlaces,
    );
    refused(line, r#"{"Tenant":"quay-7","message":{}}"#, Kind::LookAlikeParam);
    ids("GET /quay-7/tasks?tenant=quay-7", "", None, None);
    ids("GET /quay-7/tasks?tenant=", "", None, None);
    refused("GET /quay-7/tasks?tenant=quay-8", "", Kind::ConflictingPlaces);
    refused("GET /tasks?tenant=quay-8", "", Kind::ConflictingPlaces);
    refused(
        "POST /message:send?tenant=q",
        r#"{"message":{}}"#,
        Kind::ConflictingPlaces,
    );
}

#[test]
fn path_query_and_body_name_one_task() {
    for line in ["POST /tasks/t:cancel", "POST /tasks/t:subscribe"] {
        for body in [
            "",
            "{}",
            r#"{"id":"t"}"#,
            r#"{"id":""}"#,
            r#"{"id":null,"metadata":{"id":"x"}}"#,
        ] {
            ids(line, body, Some("t"), None);
        }
        refused(line, r#"{"id":"u"}"#, Kind::ConflictingPlaces);
        refused(line, r#"{"task_id":"u"}"#, Kind::ConflictingPlaces);
        refused(line, r#"{"id":1}"#, Kind::InvalidParams);
        refused(line, r#"{"ID":"t"}"#, Kind::LookAlikeParam);
        refused(line, r#"{"id":"t","id":"t"}"#, Kind::Json(ErrorKind::DuplicateName));
        refused(&format!("{line}?id=u"), "", Kind::ConflictingPlaces);
        ids(&format!("{line}?id=t"), "", Some("t"), None);
    }
    for line in ["POST /v1/tasks/t:cancel", "POST /v1/tasks/t:subscribe"] {
        for name in ["tasks/t", "t", ""] {
            ids(line, &json!({ "name": name }).to_string(), Some("t"), None);
        }
        for name in [
            "tasks/u",
            "u",
            "tasks/t/pushNotificationConfigs/p",
            "tasks/t/u",
            "tasks/t/",
        ] {
            refused(line, &json!({ "name": name }).to_string(), Kind::ConflictingPlaces);
        }
        refused(line, r#"{"id":"u"}"#, Kind::ConflictingPlaces);
        refused(&format!("{line}?name=tasks/u"), "", Kind::ConflictingPlaces);
    }
    ids("GET /tasks/t?id=t&historyLength=2", "", Some("t"), None);
    refused("GET /tasks/t?id=u", "", Kind::ConflictingPlaces);
    let config = "/tasks/t/pushNotificationConfigs/p";
    ids(&format!("GET {config}?taskId=t&task_id=t&id=p"), "", Some("t"), None);
    refused(&format!("GET {config}?taskId=u"), "", Kind::ConflictingPlaces);
    refused(&format!("DELETE {config}?id=q"), "", Kind::ConflictingPlaces);
    refused(
        &format!("DELETE /v1{config}?name=tasks/t/pushNotificationConfigs/q"),
        "",
        Kind::ConflictingPlaces,
    );
    ids(
        &format!("DELETE /v1{config}?name=tasks/t/pushNotificationConfigs/p"),
        "",
        Some("t"),
        None,
    );
}

#[test]
fn a_new_push_configuration_is_of_the_task_of_the_path() {
    let line = "POST /tasks/t/pushNotificationConfigs";
    ids(
        line,
        r#"{"taskId":"t","id":"p","url":"https://x.example"}"#,
        Some("t"),
        None,
    );
    ids(line, r#"{"url":"https://x.example"}"#, Some("t"), None);
    refused(
        line,
        r#"{"taskId":"u","url":"https://x.example"}"#,
        Kind::ConflictingPlaces,
    );
    refused(line, r#"{"task_id":"u"}"#, Kind::ConflictingPlaces);
    refused(line, "", Kind::Json(ErrorKind::Syntax));
    let long = "p".repeat(MAX_ID_BYTES + 1);
    refused(line, &json!({ "id": long }).to_string(), Kind::IdTooLong);

    let body = |parent: &str, id: &str, name: &str, inner: &str| {
        json!({"parent": parent, "configId": id, "config": {"name": name, "pushNotificationConfig": {"id": inner}}})
            .to_string()
    };
    let name = "tasks/t/pushNotificationConfigs/p";
    ids(PUSH, &body("tasks/t", "p", name, "p"), Some("t"), None);
    ids(
        PUSH,
        &body("tasks/t/pushNotificationConfigs", "", "p", ""),
        Some("t"),
        None,
    );
    ids(
        PUSH,
        &body("", "", "tasks/t/pushNotificationConfigs/", ""),
        Some("t"),
        None,
    );
    ids(
        PUSH,
        &json!({"name": name, "pushNotificationConfig": {"id": "p"}}).to_string(),
        Some("t"),
        None,
    );
    for (parent, id, name, inner) in [
        ("tasks/u", "p", name, "p"),
        ("task/u", "p", name, "p"),
        ("tasks/t/u", "p", name, "p"),
        ("tasks/t", "q", name, "p"),
        ("tasks/t", "p", name, "q"),
        ("tasks/t", "p", "tasks/u/pushNotificationConfigs/p", "p"),
        ("tasks/t", "p", "tasks/t/pushNotificationConfigs/q", "p"),
        ("tasks/t", "", "tasks/t/pushNotificationConfigs/p/q", ""),
    ] {
        refused(PUSH, &body(parent, id, name, inner), Kind::ConflictingPlaces);
    }
    refused(PUSH, r#"{"taskId":"u"}"#, Kind::ConflictingPlaces);
    refused(
        &format!("{PUSH}?configId=q"),
        &body("", "p", "", ""),
        Kind::ConflictingPlaces,
    );
    refused(
        &format!("{PUSH}?parent=tasks/u"),
        &body("", "p", "", ""),
        Kind::ConflictingPlaces,
    );
    refused(PUSH, r#"{"Parent":"tasks/t"}"#, Kind::LookAlikeParam);
    refused(PUSH, r#"{"config":{"Name":"tasks/t"}}"#, Kind::LookAlikeParam);
    refused(
        PUSH,
        r#"{"pushNotificationConfig":{},"config":{"pushNotificationConfig":{}}}"#,
        Kind::ConflictingSpellings,
    );
}

#[test]
fn lists_are_filtered_by_the_context_of_the_query() {
    ids(
        "GET /tasks?contextId=c%2F1&status=TASK_STATE_WORKING&A2A-Version=1.0&x=1",
        "",
        None,
        Some("c/1"),
    );
    ids("GET /tasks?context_id=c", "{}", None, Some("c"));
    ids("GET /tasks?contextId=a+b", "", None, Some("a b"));
    ids("GET /tasks?contextId=", "", None, None);
    ids("GET /tasks?context_id=c&contextId=c&&", "", None, Some("c"));
    ids("GET /tasks?unknown=1&unknown=%zz", "", None, None);
    refused("GET /tasks?contextId=a&context_id=b", "", Kind::ConflictingSpellings);
    refused("GET /tasks?contextId=a&contextId=a", "", Kind::RepeatedParam);
    refused("GET /tasks?pageSize=1&pageSize=2", "", Kind::RepeatedParam);
    refused("GET /tasks?ContextId=a", "", Kind::LookAlikeParam);
    refused("GET /tasks?context_Id=a", "", Kind::LookAlikeParam);
    refused("GET /tasks?contextId[]=a", "", Kind::LookAlikeParam);
    refused("GET /tasks?contextId.x=a", "", Kind::LookAlikeParam);
    refused("GET /tasks?contextId=%zz", "", Kind::InvalidParams);
    refused("GET /tasks?%zz=1", "", Kind::InvalidParams);
    refused("GET /tasks?contextId=%ff", "", Kind::InvalidParams);
    let long = "c".repeat(MAX_ID_BYTES);
    refused(&format!("GET /tasks?contextId={long}c"), "", Kind::IdTooLong);
    ids(&format!("GET /tasks?contextId={long}"), "", None, Some(&long));
}

#[test]
fn calls_without_a_body_have_nothing_in_it() {
    for line in [
        "GET /tasks",
        "GET /tasks/t",
        "GET /v1/tasks/t",
        "GET /tasks/t/pushNotificationConfigs",
        "GET /tasks/t/pushNotificationConfigs/p",
        "DELETE /tasks/t/pushNotificationConfigs/p",
        "GET /extendedAgentCard",
        "GET /v1/card",
    ] {
        assert!(call(line, "").is_ok(), "{line}");
        assert!(call(line, "{}").is_ok(), "{line}");
        refused(line, r#"{"id":"u"}"#, Kind::InvalidParams);
        refused(line, "[]", Kind::InvalidParams);
        refused(line, "{", Kind::Json(ErrorKind::Syntax));
    }
}

#[test]
fn ids_have_a_bound() {
    let long = "t".repeat(MAX_ID_BYTES);
    ids(&format!("GET /tasks/{long}"), "", Some(&long), None);
    refused(&format!("GET /tasks/{long}t"), "", Kind::IdTooLong);
    refused(
        &format!("GET /tasks/t/pushNotificationConfigs/{long}t"),
        "",
        Kind::IdTooLong,
    );
}

#[test]
fn a_send_says_whether_it_sets_a_webhook() {
    let message = r#""message":{"messageId":"m"}"#;
    let hook = r#""configuration":{"taskPushNotificationConfig":{"url":"https://hooks.example/"}}"#;
    for line in ["POST /message:send", "POST /message:stream"] {
        assert!(call(line, &format!("{{{message},{hook}}}")).unwrap().webhook, "{line}");
        assert!(!call(line, &format!("{{{message}}}")).unwrap().webhook, "{line}");
    }
}
