//! Messages as they are read, refused and answered.

use super::*;
use crate::a2a::{ContextId, Generation, Operation};

const HEAD: &str =
    r#""message_id":"m1","sender":{"agent_id":"pilot"},"recipient":{"agent_id":"harbour","agent_type":"expert"}"#;

fn of_type(message_type: &str, content: &str) -> String {
    format!(r#"{{{HEAD},"message_type":"{message_type}","content":{content}}}"#)
}

fn kind(body: &str) -> Result<String, ErrorKind> {
    match read(body.as_bytes(), Limits::default()) {
        Ok(message) => Ok(format!("{:?}", message.kind)),
        Err(error) => Err(error.kind),
    }
}

#[test]
fn every_type_is_what_it_says() {
    let check = |message_type: &str, content: &str, expected: Result<&str, ErrorKind>| {
        let read = kind(&of_type(message_type, content));
        assert_eq!(
            read.as_deref().map_err(|kind| *kind),
            expected,
            "{message_type} {content}"
        );
    };
    for (message_type, expected) in [
        ("request", "Request"),
        ("response", "Response"),
        ("notification", "Notification"),
        ("error", "Error"),
        ("x-tide_watch", "Extension"),
    ] {
        for content in ["{}", "null", "7", r#""sealed""#, r#"{"action":"create"}"#] {
            check(message_type, content, Ok(expected));
        }
    }
    check("task_delegation", r#"{"description":"d"}"#, Ok("Delegation"));
    let control = |content: &str, expected: &str| {
        check("session_control", content, Ok(&format!("Control({expected})")));
    };
    control(r#"{"action":"create"}"#, "Create { timeout: None }");
    control(
        r#"{"session_parameters":{"timeout":300},"action":"create"}"#,
        "Create { timeout: Some(300) }",
    );
    control(
        r#"{"session_parameters":{"timeout":-1},"action":"create"}"#,
        "Create { timeout: None }",
    );
    control(r#"{"action":"terminate","reason":"r"}"#, "Terminate");
    control(
        r#"{"action":"set_encryption","encryption_parameters":{}}"#,
        "SetEncryption",
    );
    control(
        r#"{"action":"negotiate_version","supported_versions":["1.0.0",7]}"#,
        r#"NegotiateVersion { offered: ["1.0.0"] }"#,
    );
    control(r#"{"action":"dance"}"#, "Other");
    control(r#""sealed""#, "Other");
    control("null", "Other");
    for unknown in ["", "Request", "x-", "x", "task_delegated", "jsonrpc"] {
        check(unknown, "{}", Err(ErrorKind::UnknownType));
    }
}

#[test]
fn credentials_are_read_and_never_shown() {
    let shown = |content: &str| match read(of_type("authentication", content).as_bytes(), Limits::default()) {
        Ok(Message {
            kind: Kind::Authentication(credential),
            ..
        }) => {
            assert!(!format!("{credential:?}").contains("s3cret"));
            Ok(match credential {
                Credential::Token(token) => format!("token {token}"),
                Credential::ApiKey(key) => format!("key {key}"),
                Credential::Basic { username, password } => format!("basic {username} {password}"),
            })
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.kind),
    };
    let check = |content: &str, expected: &str| assert_eq!(shown(content).as_deref(), Ok(expected), "{content}");
    check(
        r#"{"auth_method":"token","credentials":{"token":"s3cret","expiration":"x"}}"#,
        "token s3cret",
    );
    check(
        r#"{"credentials":{"api_key":"s3cret"},"auth_method":"api_key"}"#,
        "key s3cret",
    );
    check(
        r#"{"auth_method":"basic","credentials":{"username":"ann","password":"s3\u0063ret"}}"#,
        "basic ann s3cret",
    );
    for content in [
        "null",
        r#""s3cret""#,
        r#"{"auth_method":"token"}"#,
        r#"{"auth_method":"token","credentials":"s3cret"}"#,
        r#"{"auth_method":"token","credentials":{"api_key":"s3cret"}}"#,
        r#"{"auth_method":"token","credentials":{"token":7}}"#,
        r#"{"auth_method":"basic","credentials":{"username":"ann"}}"#,
        r#"{"auth_method":"kerberos","credentials":{"token":"s3cret"}}"#,
        r#"{"credentials":{"token":"s3cret"}}"#,
    ] {
        assert_eq!(shown(content), Err(ErrorKind::Content), "{content}");
    }
}

#[test]
fn what_two_readers_could_take_for_two_things_is_refused() {
    let check = |body: &str, expected: ErrorKind| {
        assert_eq!(kind(body), Err(expected), "{body}");
    };
    let duplicate = ErrorKind::Json(json::ErrorKind::DuplicateName);
    let with = |more: &str| format!(r#"{{{HEAD},"message_type":"request",{more}}}"#);
    check(&with(r#""recipient":{"agent_id":"other"}"#), duplicate);
    check(&with(r#""r\u0065cipient":{"agent_id":"other"}"#), duplicate);
    check(&with(r#""content":{"a":{"b":1,"b":2}}"#), duplicate);
    check(&with(r#""Recipient":{"agent_id":"other"}"#), ErrorKind::LookAlike);
    check(&with(r#""SESSION_ID":"s""#), ErrorKind::LookAlike);
    check(&with(r#""jsonrpc":"2.0""#), ErrorKind::Rpc);
    check(
        &of_type("session_control", r#"{"action":"create","Action":"terminate"}"#),
        ErrorKind::LookAlike,
    );
    check(
        r#"{"message_id":"m","message_type":"request","sender":{"agent_id":"a"},"recipient":{"agent_id":"b","Agent_ID":"c"}}"#,
        ErrorKind::LookAlike,
    );
    check("[]", ErrorKind::NotObject);
    check("\"x\"", ErrorKind::NotObject);
    check("", ErrorKind::Json(json::ErrorKind::Syntax));
    check("{", ErrorKind::Json(json::ErrorKind::Syntax));
    check(
        &with(&format!("\"content\":{}{}", "[".repeat(200), "]".repeat(200))),
        ErrorKind::Json(json::ErrorKind::TooDeep),
    );
    assert_eq!(
        kind(&with("\"action\":1, \"ACTION\":2")).as_deref(),
        Ok("Request"),
        "what nobody routes by"
    );
}

#[test]
fn what_is_routed_by_must_be_there() {
    let whole = [
        r#""message_id":"m""#,
        r#""sender":{"agent_id":"a"}"#,
        r#""recipient":{"agent_id":"b"}"#,
        r#""message_type":"request""#,
    ];
    assert!(kind(&format!("{{{}}}", whole.join(","))).is_ok());
    for left_out in 0..whole.len() {
        let members: Vec<_> = (whole.iter().enumerate())
            .filter(|(index, _)| *index != left_out)
            .map(|(_, member)| *member)
            .collect();
        assert_eq!(
            kind(&format!("{{{}}}", members.join(","))),
            Err(ErrorKind::Member),
            "{members:?}"
        );
    }
    for wrong in [
        r#""message_id":"""#,
        r#""message_id":7"#,
        r#""message_id":null"#,
        r#""sender":"a""#,
        r#""sender":{"agent_id":""}"#,
        r#""sender":{"agent_id":["a"]}"#,
        r#""recipient":{"agent_type":"x"}"#,
        r#""message_type":{}"#,
    ] {
        let name = wrong.split(':').next().unwrap();
        let members: Vec<_> = (whole.iter())
            .map(|member| if member.starts_with(name) { wrong } else { member })
            .collect();
        assert_eq!(
            kind(&format!("{{{}}}", members.join(","))),
            Err(ErrorKind::Member),
            "{wrong}"
        );
    }
    for (more, good) in [
        (r#""session_id":null"#, true),
        (r#""session_id":"""#, false),
        (r#""session_id":7"#, false),
        (r#""metadata":{"x_a":1}"#, true),
        (r#""metadata":null"#, true),
        (r#""metadata":"x""#, false),
    ] {
        let read = kind(&format!("{{{},{more}}}", whole.join(",")));
        assert_eq!(read.is_ok(), good, "{more}");
    }
}

#[test]
fn ids_are_bounded() {
    let longest = "i".repeat(MAX_ID_BYTES);
    let too_long = "i".repeat(MAX_ID_BYTES + 1);
    let body = |id: &str, session: &str, agent: &str| {
        format!(
            r#"{{"message_id":"{id}","session_id":"{session}","sender":{{"agent_id":"{agent}"}},"recipient":{{"agent_id":"b"}},"message_type":"request"}}"#
        )
    };
    assert!(kind(&body(&longest, &longest, &longest)).is_ok());
    for long in [
        body(&too_long, "s", "a"),
        body("m", &too_long, "a"),
        body("m", "s", &too_long),
    ] {
        let error = read(long.as_bytes(), Limits::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::IdTooLong);
        let About {
            message,
            session,
            sender,
            ..
        } = error.about;
        let sender = sender.map(|party| party.agent_id);
        let repeated = [message, session, sender];
        assert!(repeated.iter().flatten().all(|text| text.len() <= MAX_ID_BYTES));
        assert_eq!(repeated.iter().flatten().count(), 2, "the others are known");
    }
}

#[test]
fn a_refused_message_can_be_answered() {
    let error = read(of_type("dance", "{}").as_bytes(), Limits::default()).unwrap_err();
    let reply = Reply {
        id: "r1",
        timestamp: "2026-01-01T00:00:00Z",
        about: &error.about,
    };
    let written = write_error(reply, false, "invalid_request", "no \"such\" type", false);
    let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
    let expected = serde_json::json!({
        "message_id": "r1",
        "timestamp": "2026-01-01T00:00:00Z",
        "sender": {"agent_id": "a2a-gateway", "agent_type": "gateway"},
        "recipient": {"agent_id": "pilot"},
        "message_type": "error",
        "content": {
            "in_response_to": "m1", "error_code": "invalid_request", "error_message": "no \"such\" type", "severity": "error",
        },
    });
    assert_eq!(written, expected);
    let nothing = About::default();
    let reply = Reply {
        about: &nothing,
        ..reply
    };
    let written = write_error(reply, false, "parse_error", "t", true);
    let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(
        (&written["recipient"], &written["content"]["in_response_to"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(written["content"]["severity"], "warning");
}

const DELEGATED: &str = r#"{"task_id":"task-77","task_type":"berth","description":"Find a berth","parameters":{"loa":1.20e2},"deadline":"d"}"#;

#[test]
fn a_delegated_task_is_a_send() {
    let body = format!(
        r#"{{{HEAD},"session_id":"s","message_type":"task_delegation","content":{DELEGATED},"metadata":{{"x_a":1.0}}}}"#
    );
    let message = read(body.as_bytes(), Limits::default()).unwrap();
    let context = ContextId::new("c1");
    let (written, task_id) = write_send(&message, Some(&context), Limits::default()).unwrap();
    assert_eq!(task_id.as_deref(), Some("task-77"));
    let text = String::from_utf8(written.clone()).unwrap();
    assert!(text.contains(DELEGATED), "as it is written: {text}");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap(),
        serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {
            "messageId": "m1", "contextId": "c1", "role": "ROLE_USER",
            "parts": [
                {"text": "Find a berth"},
                {"data": serde_json::from_str::<serde_json::Value>(DELEGATED).unwrap()},
            ],
            "metadata": {"x_a": 1.0},
        }}})
    );
    let call = crate::a2a::jsonrpc::read_request(&written.into(), Limits::default()).unwrap();
    assert_eq!((call.operation, call.generation), (Operation::Send, Generation::V1_0));
    assert_eq!((call.context, call.task), (Some(context), None), "no task is named");
}

#[test]
fn a_delegation_says_what_is_to_be_done() {
    for content in [
        "null",
        r#""sealed""#,
        "[]",
        "{}",
        r#"{"description":""}"#,
        r#"{"description":7}"#,
        r#"{"description":"d","task_id":7}"#,
    ] {
        let body = of_type("task_delegation", content);
        let message = read(body.as_bytes(), Limits::default()).unwrap();
        let written = write_send(&message, None, Limits::default());
        assert_eq!(written, Err(ErrorKind::Content), "{content}");
    }
}

#[test]
fn what_became_of_a_task_is_told_by_its_state() {
    let about = read(of_type("task_delegation", DELEGATED).as_bytes(), Limits::default())
        .unwrap()
        .about();
    let check = |answer: &str, expected: serde_json::Value| {
        let reply = Reply {
            id: "r1",
            timestamp: "t",
            about: &about,
        };
        let written = match read_sent(answer.as_bytes(), Some("task-77".into())).unwrap() {
            Sent::Done(done) => write_delegated(reply, &done),
            Sent::Failed { code, text } => write_error(reply, true, &code, &text, false),
        };
        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(written["sender"]["agent_id"], "harbour", "the agent answers");
        assert_eq!(written["content"], expected, "{answer}");
    };
    for (state, status) in [
        ("TASK_STATE_COMPLETED", "success"),
        ("TASK_STATE_FAILED", "failure"),
        ("TASK_STATE_CANCELED", "failure"),
        ("TASK_STATE_REJECTED", "failure"),
        ("TASK_STATE_WORKING", "in_progress"),
        ("TASK_STATE_INPUT_REQUIRED", "in_progress"),
        ("TASK_STATE_NEW", "in_progress"),
    ] {
        check(
            &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"task":{{"id":"t","status":{{"state":"{state}"}}}}}}}}"#),
            serde_json::json!({"in_response_to": "m1", "status": status,
                "data": {"task_id": "task-77", "task": {"id": "t", "status": {"state": state}}}}),
        );
    }
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":"no"}]}}}"#,
        serde_json::json!({"in_response_to": "m1", "status": "success",
            "data": {"task_id": "task-77", "message": {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "no"}]}}}),
    );
    check(
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"not \"that\""}}"#,
        serde_json::json!({"in_response_to": "m1", "error_code": "unsupported_operation",
            "error_message": "not \"that\"", "severity": "error"}),
    );
    check(
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"m"}}"#,
        serde_json::json!({"in_response_to": "m1", "error_code": "agent_error", "error_message": "m", "severity": "error"}),
    );
    for broken in [
        "",
        "{}",
        r#"{"result":null}"#,
        r#"{"result":{"statusUpdate":{"taskId":"t","contextId":"c"}}}"#,
    ] {
        assert!(read_sent(broken.as_bytes(), None).is_err(), "{broken}");
    }
}

#[test]
fn versions_agree_but_for_the_patch() {
    let check = |offered: &[&str], known: bool| {
        let offered: Vec<Box<str>> = offered.iter().map(|version| Box::from(*version)).collect();
        assert_eq!(Control::offers_known(&offered), known, "{offered:?}");
    };
    check(&["1.0.0"], true);
    check(&["1.1.0", "1.0"], true);
    check(&["1.0.7"], true);
    check(&["1.1.0", "10.0", "1.00"], false);
    check(&[], false);
}

#[test]
fn an_answer_to_another_message_is_none() {
    let asked = of_type("request", "{}");
    let asked = read(asked.as_bytes(), Limits::default()).unwrap();
    let check = |message_type: &str, content: &str, is_one: bool| {
        let answer = of_type(message_type, content);
        let read = read_answer(answer.as_bytes(), &asked, Limits::default());
        assert_eq!(read.is_some(), is_one, "{message_type} {content}");
    };
    check("response", r#"{"in_response_to":"m1"}"#, true);
    check("response", r#"{"in_response_to":"m2"}"#, false);
    check("error", r#"{"in_response_to":"m2"}"#, false);
    check("error", r#"{"in_response_to":7}"#, false);
    check("response", r#""sealed""#, true);
    check("response", "{}", true);
    check("notification", r#"{"in_response_to":"m2"}"#, true);
    let told = |message_type: &str, content: &str| {
        let answer = of_type(message_type, content);
        read_answer(answer.as_bytes(), &asked, Limits::default())
    };
    assert_eq!(told("response", r#"{"status":"success"}"#), Some(Told::Done));
    assert_eq!(told("response", r#"{"status":"failure"}"#), Some(Told::Failure));
    assert_eq!(told("error", r#"{"status":"failure"}"#), Some(Told::Error));
    assert_eq!(told("notification", r#"{"status":"failure"}"#), Some(Told::Done));
    assert!(read_answer(b"<html>", &asked, Limits::default()).is_none());
    assert!(read_answer(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, &asked, Limits::default()).is_none());
}
