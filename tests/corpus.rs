//! Recorded exchanges of real implementations: requests, answers and streams read as `expected-ids.jsonl` says.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use a2a_gateway::a2a::json::{ErrorKind, Limits};
use a2a_gateway::a2a::jsonrpc::{Answer, RequestErrorKind as Refused, method_name, read_answer, read_request};
use a2a_gateway::a2a::sse::{Content, Event, Name, Scanner};
use a2a_gateway::a2a::{Generation, Operation, RpcId, TaskState};
use bytes::Bytes;
use serde_json::Value as Json;

/// Exchanges, by the end of their name, that an agent took or may take, and that the gateway refuses.
const REFUSED_ON_PURPOSE: &[(&str, Refused, &str)] = &[
    (
        "/notification-no-id",
        Refused::Notification,
        "some agents act on it, and no answer could be matched to it",
    ),
    (
        "/id-float",
        Refused::InvalidRequest,
        "not every agent can repeat a fraction as it is written",
    ),
    (
        "/error-wrong-jsonrpc-version",
        Refused::InvalidRequest,
        "the agents refuse it as well",
    ),
    (
        "/error-invalid-params",
        Refused::MissingTaskId,
        "without a task id there is nothing to route by or to authorise",
    ),
    (
        "/error-missing-id",
        Refused::MissingTaskId,
        "without a task id there is nothing to route by or to authorise",
    ),
];

/// What requests that are no A2A call are refused as, by the end of their name.
const REFUSED: &[(&str, Refused)] = &[
    ("/error-batch", Refused::Batch),
    ("/error-parse", Refused::Json(ErrorKind::Syntax)),
    ("/error-invalid-request", Refused::InvalidRequest),
    ("/error-method-not-found", Refused::UnknownMethod),
    ("/error-list-legacy", Refused::UnknownMethod),
];

struct Exchange {
    name: String,
    expected: Json,
}

impl Exchange {
    fn all() -> Vec<Self> {
        let lines = fs::read_to_string(folder().join("expected-ids.jsonl")).unwrap();
        let all: Vec<_> = lines
            .lines()
            .map(|line| serde_json::from_str::<Json>(line).unwrap())
            .filter(|expected| expected["binding"] == "jsonrpc")
            // A GET, so nothing that is read here.
            .filter(|expected| expected["exchange"] != "0.3/jsonrpc/error-get-on-rpc-url")
            .map(|expected| Self {
                name: text(&expected["exchange"]).unwrap(),
                expected,
            })
            .collect();
        assert!(all.len() > 200, "only {} exchanges", all.len());
        all
    }

    fn body(&self, suffix: &str) -> Option<Vec<u8>> {
        fs::read(folder().join(format!("{}.{suffix}", self.name))).ok()
    }

    /// `None` if the request is no A2A call.
    fn call(&self) -> Option<(Generation, Operation)> {
        let generation = Generation::ALL
            .into_iter()
            .find(|generation| self.expected["generation"] == generation.as_str())?;
        let operation = Operation::ALL
            .into_iter()
            .find(|operation| self.expected["operation"] == operation.as_str())?;
        Some((generation, operation))
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn text(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

#[test]
fn requests_name_what_they_were_recorded_to_name() {
    let mut unused: BTreeSet<&str> = REFUSED_ON_PURPOSE
        .iter()
        .map(|(name, ..)| *name)
        .chain(REFUSED.iter().map(|(name, _)| *name))
        .collect();
    for exchange in Exchange::all() {
        let name = &exchange.name;
        let Some(body) = exchange.body("req.json") else {
            panic!("{name} has no request");
        };
        let got = read_request(&Bytes::from(body), Limits::default());
        let expected = &exchange.expected["request"];
        let refused = if expected == "refuse" {
            let found = REFUSED.iter().find(|(end, _)| name.ends_with(end));
            Some(found.map_or_else(|| panic!("{name} is in no table"), |(end, kind)| (*end, *kind)))
        } else {
            REFUSED_ON_PURPOSE
                .iter()
                .find(|(end, ..)| name.ends_with(end))
                .map(|(end, kind, _)| (*end, *kind))
        };
        if let Some((end, kind)) = refused {
            unused.remove(end);
            assert_eq!(got.map_err(|error| error.kind), Err(kind), "{name}");
            continue;
        }
        let call = got.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Some((call.generation, call.operation)), exchange.call(), "{name}");
        assert_eq!(
            method_name(call.generation, call.operation),
            exchange.expected["method"].as_str(),
            "{name}"
        );
        assert_eq!(call.task.map(|id| id.to_string()), text(&expected["task"]), "{name}");
        assert_eq!(
            call.context.map(|id| id.to_string()),
            text(&expected["context"]),
            "{name}"
        );
    }
    assert!(unused.is_empty(), "matched nothing: {unused:?}");
}

#[test]
fn answers_and_events_reveal_what_they_were_recorded_to_reveal() {
    let mut streams = 0;
    for exchange in Exchange::all() {
        let name = &exchange.name;
        let expected = exchange.expected["events"].as_array().unwrap();
        let bodies = if let Some(stream) = exchange.body("res.sse") {
            streams += 1;
            events_of(&[&stream]).into_iter().map(|(_, data)| data).collect()
        } else {
            vec![
                exchange
                    .body("res.json")
                    .unwrap_or_else(|| panic!("{name} has no answer")),
            ]
        };
        assert_eq!(bodies.len(), expected.len(), "{name}");
        let request = read_request(&exchange.body("req.json").unwrap().into(), Limits::default());
        let (generation, operation) = exchange.call().unwrap_or((Generation::V1_0, Operation::Send));
        for (body, expected) in bodies.iter().zip(expected) {
            let answer = read_answer(body, generation, operation, Limits::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            check(name, &answer, expected);
            assert!(!answer.is_strange, "{name}");
            let says_nothing = !answer.has_result && answer.error.is_none();
            assert!(!says_nothing || operation == Operation::PushDelete, "{name}");
            if let Ok(call) = &request {
                assert!(answer.answers(&call.id), "{name}");
                let other = RpcId(Bytes::from_static(b"\"another\""));
                assert!(!answer.answers(&other) || answer.error.is_some(), "{name}");
            }
        }
    }
    assert!(streams > 20, "only {streams} streams");
}

fn check(name: &str, answer: &Answer<'_>, expected: &Json) {
    let ids = |json: &Json| (text(&json["task"]), text(&json["context"]));
    let revealed: Vec<_> = answer
        .revealed
        .iter()
        .map(|one| {
            let task = one.task.as_ref().map(|id| id.to_string());
            (task, one.context.as_ref().map(|id| id.to_string()))
        })
        .collect();
    assert_eq!(answer.error, expected["code"].as_i64(), "{name}");
    assert_eq!(answer.is_final, expected["final"] == true, "{name}");
    let variant = expected["variant"].as_str().unwrap();
    match variant {
        "error" => assert!(!answer.has_result, "{name}"),
        // Some agents leave the member out, some say null.
        "empty" => {}
        _ => assert!(answer.has_result, "{name}"),
    }
    match variant {
        "task" | "message" | "status" | "artifact" => {
            let expected_ids = Some(ids(expected)).filter(|ids| *ids != (None, None));
            assert_eq!(revealed, Vec::from_iter(expected_ids), "{name}");
            let state = answer.revealed.first().and_then(|one| one.state);
            assert_eq!(state, expected["state"].as_str().map(state_of), "{name}");
        }
        "list" => {
            let tasks = expected["tasks"].as_array().unwrap();
            assert_eq!(revealed, tasks.iter().map(ids).collect::<Vec<_>>(), "{name}");
        }
        "error" | "empty" | "card" | "push-config" | "push-list" => {
            assert_eq!(revealed, [], "{name}");
        }
        other => panic!("{name}: variant {other}"),
    }
}

fn state_of(wire: &str) -> TaskState {
    let name = wire.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-");
    match name.as_str() {
        "submitted" => TaskState::Submitted,
        "working" => TaskState::Working,
        "input-required" => TaskState::InputRequired,
        "auth-required" => TaskState::AuthRequired,
        "completed" => TaskState::Completed,
        "failed" => TaskState::Failed,
        "canceled" => TaskState::Canceled,
        "rejected" => TaskState::Rejected,
        other => panic!("state {other}"),
    }
}

#[test]
fn streams_read_the_same_wherever_they_are_cut() {
    let mut count = 0;
    for stream in streams() {
        let whole = events_of(&[&stream]);
        assert!(!whole.is_empty());
        for at in 0..=stream.len() {
            assert_eq!(events_of(&[&stream[..at], &stream[at..]]), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(events_of(&bytes), whole);
        count += 1;
    }
    assert!(count > 20, "only {count} streams");
}

#[test]
fn hand_written_errors_have_their_code() {
    for (name, code) in [
        ("bad-request", -32602),
        ("content-type-not-supported", -32005),
        ("extended-agent-card-not-configured", -32007),
        ("extension-support-required", -32008),
        ("invalid-agent-response", -32006),
        ("push-notification-not-supported", -32003),
        ("task-not-cancelable", -32002),
        ("task-not-found", -32001),
        ("unsupported-operation", -32004),
        ("version-not-supported", -32009),
    ] {
        let path = folder().join(format!("1.0/hand-written/jsonrpc-error-{name}.res.json"));
        let body = fs::read(path).unwrap();
        let answer = read_answer(&body, Generation::V1_0, Operation::Get, Limits::default()).unwrap();
        assert_eq!(answer.error, Some(code), "{name}");
    }
}

#[test]
fn hand_written_streams_have_their_events() {
    for (name, expected) in [
        ("stream-error-first-event-go", vec![(Name::Message, Some(-32001))]),
        (
            "stream-error-in-the-middle-python-js",
            vec![(Name::Message, None), (Name::Error, Some(-32603))],
        ),
        ("stream-go-style", vec![(Name::Message, None); 2]),
        ("stream-ping-comments", vec![(Name::Message, None); 2]),
    ] {
        let stream = fs::read(folder().join(format!("1.0/hand-written/{name}.res.sse"))).unwrap();
        let got: Vec<_> = events_of(&[&stream])
            .iter()
            .map(|(event, data)| {
                let answer = read_answer(data, Generation::V1_0, Operation::Stream, Limits::default());
                let answer = answer.unwrap();
                assert!(!answer.is_strange, "{name}");
                (*event, answer.error)
            })
            .collect();
        assert_eq!(got, expected, "{name}");
    }
}

/// Every recorded stream.
fn streams() -> Vec<Vec<u8>> {
    let mut streams = Vec::new();
    let mut folders = vec![folder()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "sse") {
                streams.push(fs::read(path).unwrap());
            }
        }
    }
    streams
}

/// The names and data of the events of a stream that arrives in these chunks; it must end between events.
fn events_of(chunks: &[&[u8]]) -> Vec<(Name, Vec<u8>)> {
    let mut scanner = Scanner::new(1 << 20);
    let mut events = Vec::new();
    for chunk in chunks {
        scanner.push(chunk, |event: Event<'_>| match event.content {
            Content::Data { name, data } => events.push((name, data.to_vec())),
            Content::TooLarge => panic!("{event:?}"),
        });
    }
    assert!(!scanner.has_partial());
    events
}
