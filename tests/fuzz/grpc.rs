//! What holds for any message, stream and header of the gRPC binding.
//!
//! The reader that decodes a message whole stands as the second opinion on what the reader of ids says of it.

use a2a_gateway::a2a::grpc;
use a2a_gateway::a2a::jsonrpc::{Answer, MAX_ID_BYTES, MAX_REVEALED};
use a2a_gateway::a2a::model::{Event, Request, Response, Task};
use a2a_gateway::a2a::{Call, Generation, Operation, Revealed};
use bytes::Bytes;

/// A message, as the request and as the answer of every method.
pub fn message(message: &[u8]) {
    for generation in Generation::SPOKEN {
        for operation in Operation::ALL {
            if let Some(method) = grpc::path(generation, operation).and_then(grpc::method) {
                request(method, message);
                answer(method, message);
            }
        }
    }
}

fn request(method: &grpc::Method, message: &[u8]) {
    let (generation, operation) = (method.generation, method.operation);
    let read = grpc::read_request(generation, operation, message);
    let call = match grpc::read_call(method, message) {
        Ok(call) => call,
        Err(error) => {
            // A send of 0.3 is looked through for what only drafts of 1.0 have.
            let sends = matches!(operation, Operation::Send | Operation::Stream);
            let is_draft = generation == Generation::V0_3 && sends;
            let is_broken = matches!(error, grpc::CallError::Wire(_)) && !is_draft;
            assert!(!is_broken || read.is_err(), "{error} but {read:?}");
            return;
        }
    };
    assert_eq!((call.generation, call.operation), (generation, operation));
    for id in call.task.iter().chain(&call.references).map(|id| id.as_str()) {
        assert!((1..=MAX_ID_BYTES).contains(&id.len()));
    }
    let Ok(request) = read else {
        return;
    };
    agrees(&call, &request);
    for to in Generation::SPOKEN {
        let Ok(written) = grpc::write_request(to, request.clone()) else {
            // Within a resource name of 0.3 the id of a configuration has no slash, beside it it can.
            let nameless = matches!(&request, Request::PushCreate(config) if config.id.as_str().contains('/'));
            assert!(
                to != generation || nameless,
                "what was read is not written: {request:?}"
            );
            continue;
        };
        let target = grpc::path(to, operation).and_then(grpc::method);
        let again = grpc::read_call(target.expect("an operation of it"), &written).expect("what was written is a call");
        assert_eq!((&again.task, &again.context), (&call.task, &call.context), "for {to}");
        if to == generation {
            assert_eq!(grpc::read_request(to, operation, &written).as_ref(), Ok(&request));
        }
    }
}

/// The call names what the request names.
fn agrees(call: &Call, request: &Request<'_>) {
    let (task, context, references) = match request {
        Request::Send(request) | Request::Stream(request) => {
            let message = &request.message;
            // 0.3 has none at this place, and the model none of drafts that go by its name.
            let of_push = request.configuration.as_ref();
            let of_push = of_push.and_then(|it| it.task_push_notification_config.as_ref());
            let mut references: Vec<_> = message.reference_task_ids.iter().map(|id| id.as_str()).collect();
            references.extend(of_push.map(|config| config.task_id.as_str()));
            (message.task_id.as_str(), message.context_id.as_str(), Some(references))
        }
        Request::Get(request) => (request.id.as_str(), "", None),
        Request::List(request) => ("", request.context_id.as_str(), None),
        Request::Cancel(request) | Request::Subscribe(request) => (request.id.as_str(), "", None),
        Request::PushCreate(config) => (config.task_id.as_str(), "", None),
        Request::PushGet(name) | Request::PushDelete(name) => (name.task_id.as_str(), "", None),
        Request::PushList(request) => (request.task_id.as_str(), "", None),
        Request::ExtendedCard { .. } => ("", "", None),
    };
    assert_eq!(call.task.as_ref().map_or("", |id| id.as_str()), task);
    assert_eq!(call.context.as_ref().map_or("", |id| id.as_str()), context);
    let mut told = call.references.iter().map(|id| id.as_str());
    for id in references.iter().flatten().filter(|id| !id.is_empty()) {
        assert!(told.any(|told| told == *id), "{id} is not among what the call touches");
    }
}

fn answer(method: &grpc::Method, message: &[u8]) {
    let (generation, operation) = (method.generation, method.operation);
    let read = grpc::read_response(generation, operation, message);
    let answer = grpc::read_answer(message, generation, operation);
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let is_broken = matches!(error, grpc::AnswerError::Wire(_));
            assert!(!is_broken || read.is_err(), "{error} but {read:?}");
            return;
        }
    };
    assert!(answer.revealed.len() <= MAX_REVEALED);
    let Ok(response) = read else {
        return;
    };
    if let Some(told) = told(&response) {
        assert_eq!(ids(&answer), told, "{response:?}");
    }
    // Compared as written, since a number of free-form JSON need not be equal to itself.
    if let Ok(written) = grpc::write_response(generation, operation, response) {
        let again = grpc::read_response(generation, operation, &written).expect("what was written is read");
        assert_eq!(grpc::write_response(generation, operation, again), Ok(written));
    }
}

type Ids = Vec<(String, String)>;

/// What an answer reveals, without states.
fn ids(answer: &Answer<'_>) -> Ids {
    let id = |revealed: &Revealed| {
        (
            revealed.task.as_ref().map(ToString::to_string).unwrap_or_default(),
            revealed.context.as_ref().map(ToString::to_string).unwrap_or_default(),
        )
    };
    let ids = answer.revealed.iter().map(id);
    ids.filter(|(task, context)| !task.is_empty() || !context.is_empty())
        .collect()
}

fn told(response: &Response<'_>) -> Option<Ids> {
    let task = |task: &Task<'_>| (task.id.as_str().to_owned(), task.context_id.as_str().to_owned());
    let ids = match response {
        Response::Event(Event::Task(it)) => vec![task(it)],
        Response::Event(Event::Message(it)) => {
            vec![(it.task_id.as_str().to_owned(), it.context_id.as_str().to_owned())]
        }
        Response::Event(Event::StatusUpdate(it)) => {
            vec![(it.task_id.as_str().to_owned(), it.context_id.as_str().to_owned())]
        }
        Response::Event(Event::ArtifactUpdate(it)) => {
            vec![(it.task_id.as_str().to_owned(), it.context_id.as_str().to_owned())]
        }
        Response::Task(it) => vec![task(it)],
        Response::Tasks(page) => page.tasks.iter().map(task).collect(),
        Response::Push(_) | Response::Pushes(_) | Response::Nothing | Response::Card(_) => return None,
    };
    let ids = ids.into_iter();
    Some(
        ids.filter(|(task, context)| !task.is_empty() || !context.is_empty())
            .collect(),
    )
}

/// The first byte chooses how long a message may be, the second how the stream is cut.
pub fn frames(input: &[u8]) {
    if let [most, piece, stream @ ..] = input {
        cut_frames(stream, usize::from(*most) * 4, usize::from(*piece) + 1);
    }
}

/// A stream has the same messages whole and in pieces.
pub fn cut_frames(stream: &[u8], most: usize, piece: usize) {
    let whole = take(std::iter::once(stream), most);
    assert_eq!(whole, take(stream.chunks(piece), most), "in pieces of {piece}");
    let written: Vec<u8> = whole.messages.iter().flat_map(|message| framed(message)).collect();
    assert!(stream.starts_with(&written), "messages that did not come");
    if whole.error.is_none() {
        assert_eq!(whole.is_partial, written.len() < stream.len());
    }
}

fn framed(message: &[u8]) -> Bytes {
    grpc::frame(message).expect("short enough")
}

#[derive(Debug, PartialEq)]
struct Taken {
    messages: Vec<Vec<u8>>,
    error: Option<grpc::FrameError>,
    /// Of no meaning beside an error.
    is_partial: bool,
}

fn take<'a>(pieces: impl Iterator<Item = &'a [u8]>, most: usize) -> Taken {
    let mut frames = grpc::Frames::new(most);
    let mut messages = Vec::new();
    for piece in pieces {
        frames.push(Bytes::copy_from_slice(piece));
        loop {
            match frames.take() {
                Ok(Some(message)) => {
                    assert!(message.len() <= most);
                    messages.push(message.to_vec());
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(frames.take(), Err(error), "an error stays");
                    return Taken {
                        messages,
                        error: Some(error),
                        is_partial: false,
                    };
                }
            }
        }
    }
    Taken {
        messages,
        error: None,
        is_partial: frames.has_partial(),
    }
}

/// The texts of headers and trailers; as an error, `grpc-status` in the first byte, its message in the first line, the details behind it.
pub fn status(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let encoded = grpc::encode_message(&text);
    assert!(encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    assert_eq!(grpc::decode_message(encoded.as_bytes()), text);
    let message = grpc::decode_message(input);
    assert_eq!(grpc::decode_message(grpc::encode_message(&message).as_bytes()), message);
    let details = grpc::encode_details(input);
    assert_eq!(grpc::decode_details(details.as_bytes()).as_deref(), Some(input));
    if let Some(decoded) = grpc::decode_details(input) {
        let again = grpc::encode_details(&decoded);
        assert_eq!(grpc::decode_details(again.as_bytes()), Some(decoded));
    }
    if let Some(timeout) = grpc::read_timeout(&text) {
        assert!(text.len() <= 9 && timeout.as_secs() <= 99_999_999 * 3600);
    }
    let [code, rest @ ..] = input else {
        return;
    };
    let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (message, details) = rest.split_at(line);
    let fault = grpc::read_fault(&grpc::Status {
        code: u32::from(*code),
        message: grpc::decode_message(message),
        details: details.get(1..).map(Bytes::copy_from_slice),
    });
    for generation in Generation::SPOKEN {
        let written = grpc::write_fault(generation, &fault);
        let again = grpc::read_fault(&written);
        // A reason that nobody knows is passed on alone, whatever error its status was taken for.
        if fault.details.is_none() {
            assert_eq!(
                (again.code, &again.message),
                (fault.code, &fault.message),
                "in {generation}"
            );
            assert_eq!(grpc::write_fault(generation, &again), written);
        }
    }
}
