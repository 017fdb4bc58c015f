//! Recorded exchanges of real implementations: requests, answers and streams read as `expected-ids.jsonl` says.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

#[path = "corpus/grpc.rs"]
mod grpc;
#[path = "corpus/webhooks.rs"]
mod webhooks;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use a2a_gateway::a2a::json::{ErrorKind, Limits};
use a2a_gateway::a2a::jsonrpc::{
    Answer, RequestErrorKind as Refused, code, method_name, read_answer, read_request, read_request_or_0_1,
};
use a2a_gateway::a2a::sse::{Content, Event, Name, Scanner};
use a2a_gateway::a2a::{Generation, Operation, RpcId, TaskState, http_json, v0_1};
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
        let mut all = Self::over("jsonrpc");
        // A GET, so nothing that is read here.
        all.retain(|exchange| !exchange.name.ends_with("/error-get-on-rpc-url") && !exchange.is_of_0_1());
        assert!(all.len() > 200, "only {} exchanges", all.len());
        all
    }

    fn of_0_1() -> Vec<Self> {
        let mut all = Self::over("jsonrpc");
        all.retain(Self::is_of_0_1);
        assert!(all.len() > 20, "only {} exchanges", all.len());
        all
    }

    fn is_of_0_1(&self) -> bool {
        self.name.starts_with("0.1/")
    }

    fn over(binding: &str) -> Vec<Self> {
        let lines = fs::read_to_string(folder().join("expected-ids.jsonl")).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str::<Json>(line).unwrap())
            .filter(|expected| expected["binding"] == binding)
            .map(|expected| Self {
                name: text(&expected["exchange"]).unwrap(),
                expected,
            })
            .collect()
    }

    fn body(&self, suffix: &str) -> Option<Vec<u8>> {
        fs::read(folder().join(format!("{}.{suffix}", self.name))).ok()
    }

    /// `None` if the request is no A2A call.
    fn call(&self) -> Option<(Generation, Operation)> {
        let recorded = match self.expected["generation"].as_str()? {
            // The same methods and members.
            "0.2" => Generation::V0_3.as_str(),
            other => other,
        };
        let generation = Generation::ALL
            .into_iter()
            .find(|generation| recorded == generation.as_str())?;
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
fn requests_of_0_1_name_what_they_were_recorded_to_name() {
    for exchange in Exchange::of_0_1() {
        let name = &exchange.name;
        let body = Bytes::from(exchange.body("req.json").unwrap());
        let got = read_request_or_0_1(&body, Limits::default(), Some(v0_1::Methods::Strict));
        let expected = &exchange.expected["request"];
        let on_purpose = REFUSED_ON_PURPOSE.iter().find(|(end, ..)| name.ends_with(end));
        if expected == "refuse" || on_purpose.is_some() {
            let kind = got.expect_err(name).kind;
            assert!(
                on_purpose.is_none_or(|(_, known, _)| kind == *known),
                "{name}: {kind:?}"
            );
            continue;
        }
        let call = got.unwrap_or_else(|error| panic!("{name}: {error}"));
        let method = exchange.expected["method"].as_str().unwrap();
        let generation = match v0_1::only_0_1(method, v0_1::Methods::Strict) {
            Some(_) => Generation::V0_1,
            None => Generation::V0_3,
        };
        assert_eq!(call.generation, generation, "{name}");
        assert_eq!(exchange.expected["operation"], call.operation.as_str(), "{name}");
        assert_eq!(call.task.map(|id| id.to_string()), text(&expected["task"]), "{name}");
        let context = call.context.map(|id| id.to_string());
        assert_eq!(context, text(&expected["context"]), "{name}");
    }
}

#[test]
fn answers_and_events_reveal_what_they_were_recorded_to_reveal() {
    let mut streams = 0;
    for exchange in Exchange::all().into_iter().chain(Exchange::of_0_1()) {
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
        let request = exchange.body("req.json").unwrap().into();
        let methods = exchange.is_of_0_1().then_some(v0_1::Methods::Strict);
        let request = read_request_or_0_1(&request, Limits::default(), methods);
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
    assert_eq!(answer.error, expected["code"].as_i64(), "{name}");
    check_revealed(name, answer, expected);
}

fn check_revealed(name: &str, answer: &Answer<'_>, expected: &Json) {
    let ids = |json: &Json| (text(&json["task"]), text(&json["context"]));
    let revealed: Vec<_> = answer
        .revealed
        .iter()
        .map(|one| {
            let task = one.task.as_ref().map(|id| id.to_string());
            (task, one.context.as_ref().map(|id| id.to_string()))
        })
        .collect();
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
        "unspecified" => TaskState::Unknown,
        "submitted" => TaskState::Submitted,
        "working" => TaskState::Working,
        "input-required" => TaskState::InputRequired,
        "auth-required" => TaskState::AuthRequired,
        "completed" => TaskState::Completed,
        "failed" => TaskState::Failed,
        "canceled" | "cancelled" => TaskState::Canceled,
        "rejected" => TaskState::Rejected,
        other => panic!("state {other}"),
    }
}

/// Exchanges over HTTP+JSON, by their path in the corpus.
struct Rest {
    exchange: Exchange,
    method: String,
    /// Below the mount.
    path: String,
    query: Option<String>,
    status: u16,
}

impl Rest {
    fn all() -> Vec<Self> {
        let all: Vec<_> = Exchange::over("http-json").into_iter().map(Self::of).collect();
        assert!(all.len() > 150, "only {} exchanges", all.len());
        all
    }

    fn of(exchange: Exchange) -> Self {
        let meta: Json = serde_json::from_slice(&exchange.body("meta.json").unwrap()).unwrap();
        let target = meta["request"]["target"].as_str().unwrap();
        let (path, query) = target
            .split_once('?')
            .map_or((target, None), |(path, query)| (path, Some(query)));
        // The agents stand under mounts of one segment.
        let (_, below) = path.trim_start_matches('/').split_once('/').unwrap();
        Self {
            method: text(&meta["request"]["method"]).unwrap(),
            path: format!("/{below}"),
            query: query.map(str::to_owned),
            status: meta["response"]["status"].as_u64().unwrap().try_into().unwrap(),
            exchange,
        }
    }

    fn target(&self) -> Result<http_json::Target, http_json::TargetError> {
        // Each agent of 1.0 was asked in its own generation alone; one that serves both was asked in 0.3.
        let served: &[Generation] = if self.exchange.name.starts_with("1.0/") {
            &[Generation::V1_0]
        } else {
            &Generation::SPOKEN
        };
        http_json::read_target(&self.method, &self.path, served)
    }

    fn request(&self) -> Bytes {
        self.exchange.body("req.json").unwrap_or_default().into()
    }

    /// The data of its events, or its one body; nothing where a stream broke off before one.
    fn answers(&self) -> Vec<Vec<u8>> {
        match self.exchange.body("res.sse") {
            Some(stream) => events_of(&[&stream]).into_iter().map(|(_, data)| data).collect(),
            None => Vec::from_iter(self.exchange.body("res.json")),
        }
    }
}

#[test]
fn rest_requests_name_what_they_were_recorded_to_name() {
    for rest in Rest::all() {
        let (name, expected) = (&rest.exchange.name, &rest.exchange.expected["request"]);
        let target = match rest.target() {
            Ok(target) => target,
            Err(error) => {
                assert_eq!(
                    (expected, error),
                    (&Json::from("refuse"), http_json::TargetError::Unknown),
                    "{name}"
                );
                continue;
            }
        };
        assert_eq!(
            Some((target.generation, target.operation)),
            rest.exchange.call(),
            "{name}"
        );
        assert_eq!(target.tenant.as_deref(), expected["tenant"].as_str(), "{name}");
        if target.operation != Operation::PushCreate {
            assert_eq!(target.config.as_deref(), expected["config"].as_str(), "{name}");
        }
        let body = rest.request();
        let call = http_json::read_call(&target, rest.query.as_deref(), &body, Limits::default());
        if name.ends_with("/error-parse") {
            let kind = call.map_err(|error| error.kind);
            assert_eq!(kind, Err(Refused::Json(ErrorKind::Syntax)), "{name}");
            continue;
        }
        let call = call.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Some((call.generation, call.operation)), rest.exchange.call(), "{name}");
        assert_eq!(call.task.map(|id| id.to_string()), text(&expected["task"]), "{name}");
        assert_eq!(
            call.context.map(|id| id.to_string()),
            text(&expected["context"]),
            "{name}"
        );
    }
}

#[test]
fn rest_requests_survive_the_model() {
    let mut count = 0;
    for rest in Rest::all() {
        let name = &rest.exchange.name;
        let Ok(target) = rest.target() else { continue };
        let body = rest.request();
        let request = match http_json::read_request(&target, rest.query.as_deref(), &body) {
            Ok(request) => request,
            // What no agent took either, and the lists of 0.3.
            Err(_) if name.contains("/error-") || name.ends_with("/list-tasks") => continue,
            Err(error) => panic!("{name}: {error:?}"),
        };
        let written = http_json::write_request(target.generation, request.clone()).unwrap();
        let again = http_json::read_target(written.verb.as_str(), &written.path, &[target.generation]).unwrap();
        assert_eq!(again, target, "{name}");
        let read = http_json::read_request(&again, written.query.as_deref(), &written.body);
        assert_eq!(read, Ok(request), "{name}");
        count += 1;
    }
    assert!(count > 150, "only {count} requests");
}

#[test]
fn rest_answers_and_events_reveal_what_they_were_recorded_to_reveal() {
    let mut streams = 0;
    for rest in Rest::all() {
        let name = &rest.exchange.name;
        let Some((generation, operation)) = rest.exchange.call() else {
            continue;
        };
        let expected = rest.exchange.expected["events"].as_array().unwrap();
        streams += usize::from(rest.exchange.body("res.sse").is_some());
        // A broken body, an empty one, or a text is no answer.
        let answers = rest.answers();
        assert_eq!(answers.len(), expected.len(), "{name}");
        let is_error = rest.status >= 400;
        for (body, expected) in answers.iter().zip(expected) {
            let answer = http_json::read_answer(body, is_error, generation, operation, Limits::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!answer.is_strange, "{name}");
            assert_eq!(answer.error.is_some(), expected["variant"] == "error", "{name}");
            if is_error {
                let told = expected["reason"].as_str().and_then(code::of_reason);
                assert!(told.is_none() || told == answer.error, "{name}: {answer:?}");
                assert_eq!(
                    http_json::read_fault(rest.status, body).code,
                    fault_of(name, told),
                    "{name}"
                );
            }
            check_revealed(name, &answer, expected);
        }
    }
    assert!(streams > 15, "only {streams} streams");
}

/// What an error is where its recording tells no reason.
const FAULTS: &[(&str, i64)] = &[
    ("0.3/http-json/error-send-to-completed", code::INVALID_PARAMS),
    ("0.3/http-json/subscribe-post", code::UNSUPPORTED_OPERATION),
    ("0.3/http-json/push-delete", code::UNSUPPORTED_OPERATION),
    ("0.3/http-json/error-parse", code::INTERNAL_ERROR),
    ("0.3/http-json-js/error-subscribe-unknown", code::INTERNAL_ERROR),
    ("-js/push-set", code::INVALID_PARAMS),
    ("/error-parse", code::PARSE_ERROR),
    ("-unknown", code::TASK_NOT_FOUND),
    ("-unknown-task", code::TASK_NOT_FOUND),
    ("-cancel-completed", code::TASK_NOT_CANCELABLE),
    ("", code::INTERNAL_ERROR),
];

fn fault_of(name: &str, told: Option<i64>) -> i64 {
    let listed = || FAULTS.iter().find(|(end, _)| name.ends_with(end)).unwrap().1;
    told.unwrap_or_else(listed)
}

#[test]
fn rest_answers_and_events_survive_the_model() {
    let mut count = 0;
    for rest in Rest::all() {
        let name = &rest.exchange.name;
        let Some((generation, operation)) = rest.exchange.call() else {
            continue;
        };
        if rest.status >= 400 || name.ends_with("/list-tasks") {
            continue;
        }
        for body in rest.answers() {
            let read = http_json::read_response(generation, operation, &body)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            // Lists are in 1.0 alone, and so are tenants and the names of files.
            let text = String::from_utf8_lossy(&body);
            let is_in_both =
                operation != Operation::List && !["\"tenant\"", "\"filename\""].iter().any(|name| text.contains(name));
            let forms = Generation::SPOKEN
                .into_iter()
                .filter(|form| *form == generation || is_in_both);
            for form in forms {
                let mut out = Vec::new();
                http_json::write_response(form, read.clone(), &mut out).unwrap();
                let again = http_json::read_response(form, operation, &out);
                assert_eq!(again, Ok(read.clone()), "{name} in {form}");
                count += 1;
            }
        }
    }
    assert!(count > 250, "only {count} answers");
}

#[test]
fn hand_written_rest_errors_have_their_code() {
    for (name, status, code) in [
        ("content-type-not-supported.400", 400, -32005),
        ("extended-agent-card-not-configured.400", 400, -32007),
        ("extension-support-required.400", 400, -32008),
        ("invalid-agent-response.500", 500, -32006),
        ("problem-json-left-over.400", 400, -32009),
        ("push-notification-not-supported.400", 400, -32003),
        ("task-not-cancelable.400", 400, -32002),
        ("task-not-found.404", 404, -32001),
        ("unsupported-operation.400", 400, -32004),
        ("version-not-supported.400", 400, -32009),
    ] {
        let path = folder().join(format!("1.0/hand-written/http-error-{name}.res.json"));
        let body = fs::read(path).unwrap();
        assert_eq!(http_json::read_fault(status, &body).code, code, "{name}");
        let answer = http_json::read_answer(&body, true, Generation::V1_0, Operation::Get, Limits::default());
        assert_eq!(answer.unwrap().error, Some(code), "{name}");
    }
}

#[test]
fn hand_written_errors_of_gateways_have_codes_too() {
    // Authentication and rates have none of their own in A2A: only that of a rate is of use to callers of an agent.
    for (name, status, code) in [
        ("401", 401, code::INTERNAL_ERROR),
        ("403", 403, code::INTERNAL_ERROR),
        ("429", 429, -31429),
    ] {
        let whole = fs::read_to_string(folder().join(format!("1.0/hand-written/http-{name}.res.txt"))).unwrap();
        let (_, body) = whole.split_once("\n\n").or(whole.split_once("\r\n\r\n")).unwrap();
        let fault = http_json::read_fault(status, body.as_bytes());
        assert_eq!(fault.code, code, "{name}");
        assert!(body.contains(fault.message.as_str()), "{name}");
    }
}

#[test]
fn hand_written_targets_are_read() {
    let target = |name: &str| {
        let whole = fs::read_to_string(folder().join(format!("1.0/hand-written/{name}.req.txt"))).unwrap();
        let line = whole.lines().next().unwrap().to_owned();
        let [method, target, _] = <[&str; 3]>::try_from(line.split(' ').collect::<Vec<_>>()).unwrap();
        let (path, query) = target.split_once('?').unwrap();
        let target = http_json::read_target(method, path, &Generation::SPOKEN).unwrap();
        let request = http_json::read_request(&target, Some(query), b"").unwrap();
        (target.operation, format!("{request:?}"))
    };
    let (operation, request) = target("list-tenant-query");
    assert_eq!(operation, Operation::List);
    for part in ["quay-7", "c-1", "20", "abc", "2026-11-01T00:00:00Z"] {
        assert!(request.contains(part), "{part}: {request}");
    }
    let (operation, request) = target("get-with-version-in-query");
    assert_eq!(operation, Operation::Get);
    assert!(request.contains("9f1c"), "{request}");
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
