//! The table of rejections as a whole, and what the head of an agent's answer is taken for.

use std::collections::BTreeSet;

use http::{Response, StatusCode, response};

use super::answer::{Standing, check, check_head, is_stream};
use super::reject::{code, retry_after, status, text};
use crate::a2a::answer::{End, Whole};
use crate::a2a::grpc;
use crate::a2a::{Binding, Call, Dialect, Generation, Operation, RpcId, json};
use crate::observe::{Fault, Reason};
use crate::upstream::Head;

#[test]
fn codes_tell_what_the_protocol_defines_from_what_is_ours() {
    for &reason in Reason::ALL {
        let (status, code) = (i64::from(status(reason).as_u16()), code(reason));
        let of_json_rpc = (-32700..=-32600).contains(&code);
        let of_a2a = (-32009..=-32001).contains(&code);
        assert!(
            of_json_rpc || of_a2a || code == -31000 - status,
            "{reason:?}: {code} with {status}"
        );
    }
}

#[test]
fn statuses_agree_with_whose_fault_it_is() {
    for &reason in Reason::ALL {
        let status = status(reason);
        let agrees = match reason.fault() {
            Fault::Downstream => status == StatusCode::OK || status.is_client_error(),
            Fault::Upstream => matches!(status.as_u16(), 502..=504 | 508),
            // What time mends is no defect.
            Fault::Internal if retry_after(reason).is_some() => status == StatusCode::SERVICE_UNAVAILABLE,
            Fault::Internal => status == StatusCode::INTERNAL_SERVER_ERROR,
        };
        assert!(agrees, "{reason:?}: {status}");
    }
}

#[test]
fn another_try_is_offered_where_time_mends_it() {
    for &reason in Reason::ALL {
        if retry_after(reason).is_some() {
            assert!(matches!(status(reason).as_u16(), 409 | 429 | 502 | 503), "{reason:?}");
        }
    }
}

#[test]
fn each_reason_has_a_text_of_its_own() {
    let texts: BTreeSet<&str> = Reason::ALL.iter().map(|&reason| text(reason)).collect();
    assert_eq!(texts.len(), Reason::ALL.len(), "{texts:?}");
}

fn head(status: u16, content_type: Option<&str>) -> response::Parts {
    let mut answer = Response::builder().status(status);
    if let Some(content_type) = content_type {
        answer = answer.header("content-type", content_type);
    }
    answer.body(()).unwrap().into_parts().0
}

fn speaks(binding: Binding) -> Dialect {
    Dialect {
        generation: Generation::V1_0,
        binding,
    }
}

#[test]
fn heads_that_end_a_call_are_known() {
    let check = |status: u16, expected: Result<(), Reason>| {
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            assert_eq!(check_head(&head(status, None), speaks(binding)), expected, "{status}");
        }
    };
    check(200, Ok(()));
    check(400, Ok(()));
    check(404, Ok(()));
    check(500, Ok(()));
    check(401, Err(Reason::UpstreamRefused));
    check(403, Err(Reason::UpstreamRefused));
    check(407, Err(Reason::UpstreamRefused));
    check(101, Err(Reason::UpstreamBadAnswer));
    check(307, Err(Reason::UpstreamBadAnswer));
}

#[test]
fn heads_of_grpc_are_known_by_their_type() {
    let check = |status: u16, content_type: Option<&str>, expected: Result<(), Reason>| {
        let parts = head(status, content_type);
        assert_eq!(
            check_head(&parts, speaks(Binding::Grpc)),
            expected,
            "{status} {content_type:?}"
        );
    };
    let bad = Err(Reason::UpstreamBadAnswer);
    check(200, Some("application/grpc"), Ok(()));
    check(200, Some("application/grpc+proto"), Ok(()));
    check(200, Some("application/grpc; x=y"), Ok(()));
    check(200, Some("application/grpc-web"), bad);
    check(200, Some("application/json"), bad);
    check(200, None, bad);
    check(204, Some("application/grpc"), bad);
    check(503, Some("application/grpc"), bad);
    check(403, Some("application/grpc"), Err(Reason::UpstreamRefused));
}

#[test]
fn event_streams_are_known_by_their_type() {
    let check = |status: u16, content_type: Option<&str>, expected: bool| {
        let parts = head(status, content_type);
        let known = is_stream(&parts, &Head::Http(status), Operation::Get);
        assert_eq!(known, expected, "{status} {content_type:?}");
    };
    check(200, Some("text/event-stream"), true);
    check(200, Some("Text/Event-Stream ; charset=utf-8"), true);
    check(200, Some("application/json"), false);
    check(200, Some("text/event-streams"), false);
    check(200, None, false);
    check(500, Some("text/event-stream"), false);
}

#[test]
fn streams_of_grpc_are_known_by_what_was_asked() {
    let parts = head(200, Some("application/grpc"));
    let check = |head: &Head, operation, expected| {
        assert_eq!(is_stream(&parts, head, operation), expected, "{operation:?}");
    };
    check(&Head::Grpc, Operation::Stream, true);
    check(&Head::Grpc, Operation::Subscribe, true);
    check(&Head::Grpc, Operation::Send, false);
    check(&Head::Ended(Some(grpc::Status::default())), Operation::Stream, false);
    check(&Head::Ended(None), Operation::Subscribe, false);
}

#[test]
fn a_status_of_grpc_says_whether_its_endpoint_works() {
    let check = |code: u32, expected: (Result<bool, Reason>, Option<bool>)| {
        let status = grpc::Status {
            code,
            ..grpc::Status::default()
        };
        let whole = Whole {
            body: bytes::Bytes::from_static(b"\n\x01t"),
            end: End::Grpc(status),
        };
        let read = check(&whole, speaks(Binding::Grpc), &call(), json::Limits::default());
        let standing = Standing::of(&head(200, None)).told(speaks(Binding::Grpc), &whole);
        let got = (read.map(|read| read.error.is_some()), standing);
        let works = got.1.with(got.0.is_ok());
        assert_eq!((got.0, works), expected, "{code}");
    };
    check(0, (Ok(false), Some(true)));
    check(5, (Ok(true), Some(true)));
    check(2, (Ok(true), Some(true)));
    check(14, (Ok(true), Some(false)));
    check(7, (Err(Reason::UpstreamRefused), None));
    check(16, (Err(Reason::UpstreamRefused), None));
}

fn call() -> Call {
    Call {
        binding: Binding::JsonRpc,
        generation: Generation::V1_0,
        operation: Operation::Get,
        id: RpcId::one(),
        task: None,
        context: None,
        references: Vec::new(),
        webhook: false,
    }
}

#[test]
fn an_error_over_http_json_is_the_agents_own_by_its_form() {
    let call = call();
    let check = |binding, status: u16, body: &str, code: Result<Option<i64>, Reason>, works: Option<bool>| {
        let parts = head(status, None);
        let whole = Whole::http(status, body.to_owned().into());
        let read = check(&whole, speaks(binding), &call, json::Limits::default());
        let standing = Standing::of(&parts).told(speaks(binding), &whole);
        let got = (read.as_ref().map(|read| read.error), standing.with(read.is_ok()));
        assert_eq!(got, (code.as_ref().map(|code| *code), works), "{status}");
    };
    let error = r#"{"error":{"code":500,"message":"boom"}}"#;
    let bad = Err(Reason::UpstreamBadAnswer);
    check(Binding::HttpJson, 200, r#"{"id":"t"}"#, Ok(None), Some(true));
    check(
        Binding::HttpJson,
        404,
        r#"{"message":"no"}"#,
        Ok(Some(-32001)),
        Some(true),
    );
    check(Binding::HttpJson, 500, error, Ok(Some(-32603)), Some(true));
    check(Binding::HttpJson, 500, "<p>", bad, Some(false));
    check(Binding::HttpJson, 503, error, Ok(Some(-32603)), Some(false));
    check(Binding::HttpJson, 404, "<p>", bad, None);
    check(Binding::HttpJson, 200, r#"{"status":"ok"}"#, bad, Some(false));
    check(
        Binding::JsonRpc,
        500,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603}}"#,
        Ok(Some(-32603)),
        Some(false),
    );
}
