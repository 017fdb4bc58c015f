//! What holds for any input: used by the fuzz targets and by the replay of their seeds.
//!
//! serde_json, which builds a tree, stands as the second opinion on what a body says.
#![expect(clippy::expect_used, reason = "a check fails by a panic")]

pub mod grpc;

use a2a_gateway::a2a::json::{ErrorKind, Limits};
use a2a_gateway::a2a::jsonrpc::{
    AnswerErrorKind, MAX_ID_BYTES, MAX_REVEALED, RequestErrorKind, method_name, read_answer, read_request,
    read_request_or_0_1, write_error,
};
use a2a_gateway::a2a::sse::{Content, Name, Scanner};
use a2a_gateway::a2a::translate::{Original, Pair, Told};
use a2a_gateway::a2a::{
    Addressed, Binding, Call, Dialect, Generation, Operation, Revealed, RpcId, envelope, http_json, v0_1,
};
use a2a_gateway::upstream::http1::Connection;
use bytes::Bytes;
use serde_json::Value as Json;
use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub fn request(body: &[u8]) {
    let tree = serde_json::from_slice::<Json>(body);
    let bytes = Bytes::copy_from_slice(body);
    let with_0_1 = read_request_or_0_1(&bytes, Limits::default(), Some(v0_1::Methods::Lenient));
    if let Ok(call) = &with_0_1 {
        turn_request(call, body);
    }
    match read_request(&bytes, Limits::default()) {
        Ok(call) => {
            assert_eq!(with_0_1.as_ref(), Ok(&call), "what was a call stays it");
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

pub fn envelope(body: &[u8]) {
    fn text<'a>(tree: &'a Json, at: &str) -> Option<&'a str> {
        tree.pointer(at)?.as_str()
    }
    let tree = serde_json::from_slice::<Json>(body);
    let about = match envelope::read(body, Limits::default()) {
        Ok(message) => {
            assert!(is_json(&tree), "{message:?} but {tree:?}");
            if let Ok(tree) = &tree {
                assert_eq!(text(tree, "/message_id"), Some(&*message.id));
                assert_eq!(text(tree, "/session_id"), message.session.as_deref());
                assert_eq!(text(tree, "/sender/agent_id"), Some(&*message.sender.agent_id));
                assert_eq!(text(tree, "/recipient/agent_id"), Some(&*message.recipient.agent_id));
                let told = text(tree, "/message_type").expect("a type");
                assert!(told == message.kind.as_str() || (told.starts_with("x-") && message.kind.as_str() == "x"));
            }
            if let Ok((send, _)) = envelope::write_send(&message, None, Limits::default()) {
                let call = read_request(&Bytes::from(send), Limits::default()).expect("a send");
                assert_eq!((call.operation, call.task, call.context), (Operation::Send, None, None));
            }
            message.about()
        }
        Err(error) => {
            if let envelope::ErrorKind::Json(kind) = error.kind {
                assert!(tree.is_err() || kind.is_well_formed(), "{kind:?} but {tree:?}");
            }
            error.about
        }
    };
    let reply = envelope::Reply {
        id: "r",
        timestamp: "t",
        about: &about,
    };
    let answer = envelope::write_error(reply, false, "c", "text", false);
    let answer: Json = serde_json::from_slice(&answer).expect("an answer is JSON");
    assert_eq!(text(&answer, "/content/in_response_to"), about.message.as_deref());
    let _sent = envelope::read_sent(body, None);
}

/// Between the generations over JSON-RPC.
fn pair(caller: Generation, agent: Generation) -> Pair {
    let rpc = |generation| Dialect {
        generation,
        binding: Binding::JsonRpc,
    };
    let (named, asked) = (v0_1::Named::default(), v0_1::Asked::default());
    Pair {
        caller: rpc(caller),
        agent: rpc(agent),
        tenant: None,
        named: (caller == Generation::V0_1).then(|| Box::new(named)),
        asked: (agent == Generation::V0_1).then(|| Box::new(asked)),
    }
}

/// What an agent of another generation is asked is JSON.
fn turn_request(call: &Call, body: &[u8]) {
    let original = Original {
        addressed: &Addressed::JsonRpc,
        query: None,
        body,
    };
    for agent in Generation::ALL {
        if let Ok(written) = pair(call.generation, agent).request(call, original, None) {
            serde_json::from_slice::<Json>(&written.body).expect("a request is JSON");
        }
    }
}

/// What a caller of another generation is told is JSON, and only of ids that the agent's answer was judged by.
fn turn_answer(body: &[u8], agent: Generation, operation: Operation, revealed: &[Revealed]) {
    for caller in Generation::ALL {
        let told = Told { body, failed: None };
        if let Ok(answer) = pair(caller, agent).answer(operation, &RpcId::null(), told, revealed, None) {
            serde_json::from_slice::<Json>(&answer.body).expect("an answer is JSON");
        }
    }
}

pub fn answer(body: &[u8]) {
    let tree = serde_json::from_slice::<Json>(body);
    for generation in Generation::ALL {
        for operation in Operation::ALL {
            match read_answer(body, generation, operation, Limits::default()) {
                Ok(answer) => {
                    assert!(is_json(&tree), "{answer:?} but {tree:?}");
                    assert!(answer.revealed.len() <= MAX_REVEALED);
                    turn_answer(body, generation, operation, &answer.revealed);
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

/// A request over HTTP+JSON: `METHOD path?query` in the first line, the body behind it; then the body as an answer.
pub fn rest(input: &[u8]) {
    let split = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, body) = input.split_at(split);
    let body = Bytes::copy_from_slice(body.get(1..).unwrap_or_default());
    let line = String::from_utf8_lossy(line);
    let (method, target) = line.split_once(' ').unwrap_or(("GET", &line));
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    for served in [&Generation::SPOKEN[..], &[Generation::V1_0]] {
        if let Ok(target) = http_json::read_target(method, path, served) {
            rest_request(&target, query, &body);
        }
    }
    for generation in Generation::SPOKEN {
        for operation in Operation::ALL {
            for is_error in [false, true] {
                let read = http_json::read_answer(&body, is_error, generation, operation, Limits::default());
                assert!(!is_error || read.expect("an error is read").error.is_some());
            }
            if let Ok(response) = http_json::read_response(generation, operation, &body) {
                let mut out = Vec::new();
                http_json::write_response(generation, response, &mut out).expect("what was read is written");
                http_json::read_response(generation, operation, &out).expect("what was written is read");
            }
        }
        let fault = http_json::read_fault(500, &body);
        let mut out = Vec::new();
        let status = http_json::write_fault(generation, &fault, &mut out);
        assert_eq!(http_json::read_fault(status, &out).message, fault.message);
    }
}

/// What is routed by is what the path names, and what is written for an agent is what was read.
fn rest_request(target: &http_json::Target, query: Option<&str>, body: &Bytes) {
    let call = http_json::read_call(target, query, body, Limits::default());
    if let Ok(call) = &call {
        assert_eq!((call.generation, call.operation), (target.generation, target.operation));
        if !matches!(call.operation, Operation::Send | Operation::Stream) {
            assert_eq!(call.task.as_ref().map(|id| id.as_str()), target.task.as_deref());
        }
        for id in call.task.iter().map(|id| id.as_str()) {
            assert!((1..=MAX_ID_BYTES).contains(&id.len()));
        }
    }
    let Ok(request) = http_json::read_request(target, query, body) else {
        return;
    };
    if let (Ok(call), Ok(written)) = (call, http_json::write_request(target.generation, request)) {
        let served = [target.generation];
        let again = http_json::read_target(written.verb.as_str(), &written.path, &served).expect("a path is read");
        assert_eq!(
            (again.operation, &again.task, &again.config),
            (target.operation, &target.task, &target.config)
        );
        let body = Bytes::from(written.body);
        let routed = http_json::read_call(&again, written.query.as_deref(), &body, Limits::default());
        let routed = routed.expect("what was written is a call");
        assert_eq!((routed.task, routed.context), (call.task, call.context));
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

/// What an agent sends on a connection, which it then closes. The first byte says where it is cut.
pub fn upstream(input: &[u8]) {
    if let [cut, answer @ ..] = input {
        let whole = exchange(&[answer]);
        let (front, back) = answer.split_at(answer.len() * usize::from(*cut) / 256);
        assert_eq!(exchange(&[front, back]), whole);
    }
}

/// An answer says the same whole and cut at any one place.
pub fn answer_cut_everywhere(answer: &[u8]) {
    let whole = exchange(&[answer]);
    for at in 0..=answer.len() {
        let (front, back) = answer.split_at(at);
        assert_eq!(exchange(&[front, back]), whole, "cut at {at}");
    }
}

/// The status and data of an answer, and whether it came to its end; `None` if there is none.
fn exchange(pieces: &[&[u8]]) -> Option<(u16, Vec<u8>, bool)> {
    let pieces = pieces.iter().filter(|piece| !piece.is_empty());
    let peer = Peer(pieces.map(|piece| Bytes::copy_from_slice(piece)).collect());
    let request = http::Request::new(Bytes::new());
    let mut cx = Context::from_waker(Waker::noop());
    let mut exchange = pin!(Connection::new(peer, 64 * 1024).send(request));
    // It lets others go first, twice.
    let answered = (0..3).find_map(|_| match exchange.as_mut().poll(&mut cx) {
        Poll::Ready(answered) => Some(answered),
        Poll::Pending => None,
    });
    let answered = answered.expect("nothing is waited for");
    let (parts, mut body) = answered.ok()?;
    let mut data = Vec::new();
    let clean = loop {
        let polled = body.poll_data(&mut cx);
        assert!(polled.is_ready(), "nothing is waited for");
        match polled {
            Poll::Ready(Some(Ok(piece))) => data.extend_from_slice(&piece),
            Poll::Ready(Some(Err(_))) | Poll::Pending => break false,
            Poll::Ready(None) => break true,
        }
    };
    assert_eq!(clean, body.has_ended());
    Some((parts.status.as_u16(), data, clean))
}

/// The pieces of an answer that are left; then the end.
struct Peer(VecDeque<Bytes>);

impl AsyncRead for Peer {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            read.put_slice(&piece.split_to(piece.len().min(read.remaining())));
            if !piece.is_empty() {
                self.0.push_front(piece);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
