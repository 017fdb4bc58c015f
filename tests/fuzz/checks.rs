//! What holds for any input: used by the fuzz targets and by the replay of their seeds.
//!
//! serde_json, which builds a tree, stands as the second opinion on what a body says.
#![expect(clippy::expect_used, reason = "a check fails by a panic")]

use a2a_gateway::a2a::json::{ErrorKind, Limits};
use a2a_gateway::a2a::jsonrpc::{
    AnswerErrorKind, MAX_ID_BYTES, MAX_REVEALED, RequestErrorKind, method_name, read_answer, read_request, write_error,
};
use a2a_gateway::a2a::sse::{Content, Name, Scanner};
use a2a_gateway::a2a::{Call, Generation, Operation, RpcId};
use bytes::Bytes;
use serde_json::Value as Json;

pub fn request(body: &[u8]) {
    let tree = serde_json::from_slice::<Json>(body);
    match read_request(&Bytes::copy_from_slice(body), Limits::default()) {
        Ok(call) => {
            // Numbers that no float can hold are none of ours.
            if let Ok(tree) = tree {
                agrees(&call, &tree);
            }
        }
        Err(error) => {
            assert!(error.at <= body.len());
            let RequestErrorKind::Json(kind) = error.kind else {
                assert!(is_json(&tree), "{error} but {tree:?}");
                return;
            };
            assert!(tree.is_err() || kind.is_well_formed(), "{error} but {tree:?}");
            let id = error.id.unwrap_or_else(RpcId::null);
            let answer = write_error(&id, error.kind.code(), error.kind.message(), None);
            serde_json::from_slice::<Json>(&answer).expect("an error is JSON");
        }
    }
}

fn is_json(tree: &Result<Json, serde_json::Error>) -> bool {
    match tree {
        Ok(_) => true,
        Err(error) => error.to_string().contains("out of range"),
    }
}

/// The call is what the tree says.
fn agrees(call: &Call, tree: &Json) {
    assert_eq!(tree["jsonrpc"], "2.0");
    assert_eq!(tree["method"].as_str(), method_name(call.generation, call.operation));
    let id = serde_json::from_slice::<Json>(&call.id.0).expect("an id is JSON");
    assert_eq!(id, tree["id"]);
    let params = &tree["params"];
    let member = |of: &Json, camel: &str, snake: &str| {
        let text = of[camel].as_str().or(of[snake].as_str());
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let (task, context) = match (call.operation, call.generation) {
        (Operation::Send | Operation::Stream, _) => (
            member(&params["message"], "taskId", "task_id"),
            member(&params["message"], "contextId", "context_id"),
        ),
        (Operation::List, _) => (None, member(params, "contextId", "context_id")),
        (Operation::ExtendedCard, _) => (None, None),
        (Operation::PushCreate, _)
        | (Operation::PushGet | Operation::PushList | Operation::PushDelete, Generation::V1_0) => {
            (member(params, "taskId", "task_id"), None)
        }
        (
            Operation::Get
            | Operation::Cancel
            | Operation::Subscribe
            | Operation::PushGet
            | Operation::PushList
            | Operation::PushDelete,
            _,
        ) => (member(params, "id", "id"), None),
    };
    assert_eq!(call.task.as_ref().map(|id| id.as_str().to_owned()), task);
    assert_eq!(call.context.as_ref().map(|id| id.as_str().to_owned()), context);
}

pub fn answer(body: &[u8]) {
    let tree = serde_json::from_slice::<Json>(body);
    for generation in Generation::ALL {
        for operation in Operation::ALL {
            match read_answer(body, generation, operation, Limits::default()) {
                Ok(answer) => {
                    assert!(is_json(&tree), "{answer:?} but {tree:?}");
                    assert!(answer.revealed.len() <= MAX_REVEALED);
                    for revealed in answer.revealed {
                        for id in [
                            revealed.task.as_ref().map(|id| id.as_str()),
                            revealed.context.as_ref().map(|id| id.as_str()),
                        ] {
                            assert!(id.is_none_or(|id| (1..=MAX_ID_BYTES).contains(&id.len())));
                        }
                    }
                }
                Err(error) => {
                    assert!(error.at <= body.len());
                    match error.kind {
                        AnswerErrorKind::Json(ErrorKind::DuplicateName)
                        | AnswerErrorKind::NotObject
                        | AnswerErrorKind::IdTooLong
                        | AnswerErrorKind::TooManyTasks => {}
                        AnswerErrorKind::Json(kind) => {
                            assert!(tree.is_err() || kind.is_well_formed(), "{error} but {tree:?}");
                        }
                    }
                }
            }
        }
    }
}

/// The first byte chooses how large an event may be, the second how the stream is cut.
pub fn sse(input: &[u8]) {
    if let [most, piece, stream @ ..] = input {
        cut(stream, usize::from(*most) * 4, usize::from(*piece) + 1);
    }
}

/// A stream says the same whole and in pieces.
pub fn cut(stream: &[u8], most: usize, piece: usize) {
    let whole = scan(std::iter::once(stream), most);
    let pieces = scan(stream.chunks(piece), most);
    assert_eq!(whole, pieces);
}

/// A stream says the same whole and cut at any one place.
pub fn cut_everywhere(stream: &[u8], most: usize) {
    let whole = scan(std::iter::once(stream), most);
    for at in 0..=stream.len() {
        let (front, back) = stream.split_at(at);
        assert_eq!(scan([front, back].into_iter(), most), whole, "cut at {at}");
    }
}

/// An event; `None` if it was too large.
type Found = Option<(Name, Vec<u8>)>;

/// The events of a stream, and whether it ends within one.
fn scan<'a>(chunks: impl Iterator<Item = &'a [u8]>, most: usize) -> (Vec<Found>, bool) {
    let mut scanner = Scanner::new(most);
    let mut events = Vec::new();
    for chunk in chunks {
        let mut last = 0;
        scanner.push(chunk, |event| {
            assert!((last..=chunk.len()).contains(&event.end));
            last = event.end;
            events.push(match event.content {
                Content::Data { name, data } => {
                    assert!(!data.is_empty() && data.len() <= most && !data.contains(&b'\r'));
                    Some((name, data.to_vec()))
                }
                Content::TooLarge => None,
            });
        });
    }
    (events, scanner.has_partial())
}
