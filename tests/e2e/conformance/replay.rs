//! Recorded traffic of real SDKs, replayed: the request goes in as it was recorded, the recorded answer comes back from a
//! fake agent, and both must pass byte for byte. What the gateway answers itself is listed with its reason; a listed
//! exchange that would pass, and an unlisted one that does not, are failures.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::agent::{Agent, CARD, CARD_0_1, CARD_0_3, CARD_HYBRID, Reply};
use crate::harness::{Gateway, KEY, call};

/// Exchanges that the gateway answers itself: name, HTTP status, JSON-RPC code, why.
const ANSWERED_HERE: &[(&str, u16, i64, &str)] = &[
    (
        "error-content-type",
        415,
        -32005,
        "a body that is not application/json is no JSON-RPC call",
    ),
    ("error-batch", 200, -32600, "no A2A version defines batches"),
    ("error-parse", 200, -32700, "the body is not JSON"),
    (
        "error-invalid-request",
        200,
        -32600,
        "the body is not a JSON-RPC request",
    ),
    ("error-wrong-jsonrpc-version", 200, -32600, "only JSON-RPC 2.0"),
    (
        "1.0/jsonrpc/error-method-not-found",
        200,
        -32009,
        "a method of the other generation",
    ),
    ("error-method-not-found", 200, -32601, "unknown methods are refused"),
    ("error-invalid-params", 200, -32602, "the call names no task"),
    ("error-missing-id", 200, -32602, "the call names no task"),
    (
        "notification-no-id",
        200,
        -32600,
        "a call without an id would act unseen",
    ),
    ("id-float", 200, -32600, "fractional ids do not survive every reader"),
    (
        "0.3/jsonrpc/error-v1-method-name",
        200,
        -32009,
        "the agent does not serve the other generation",
    ),
    (
        "0.2/jsonrpc/error-v1-method-name",
        200,
        -32009,
        "the agent does not serve the other generation",
    ),
    (
        "header-a2a-version-1",
        200,
        -32009,
        "a legacy method under A2A-Version 1.x contradicts itself",
    ),
    (
        "error-legacy-method-with-version-1",
        200,
        -32009,
        "a legacy method under A2A-Version 1.x contradicts itself",
    ),
    (
        "error-list-legacy",
        200,
        -32601,
        "0.3 has no list over JSON-RPC, and unknown methods are refused",
    ),
    ("0.1/jsonrpc/error-batch", 200, -32600, "no A2A version defines batches"),
    ("0.1/jsonrpc/error-parse", 200, -32700, "the body is not JSON"),
    (
        "0.1/jsonrpc/error-invalid-params",
        200,
        -32602,
        "the call names no task",
    ),
    (
        "0.1/jsonrpc/notification-no-id",
        200,
        -32600,
        "a call without an id would act unseen",
    ),
    (
        "0.1/jsonrpc/error-unknown-method",
        200,
        -32602,
        "0.3 has it, and the call no message",
    ),
    (
        "0.1/jsonrpc/error-seed-method-sendTask",
        200,
        -32601,
        "unknown methods are refused",
    ),
    (
        "0.1/jsonrpc/error-seed-method-sendTaskSubscribe",
        200,
        -32601,
        "unknown methods are refused",
    ),
];

/// Rewritten on purpose: only the status is compared.
const REWRITTEN: &[&str] = &["extended-card", "extended-card-no-params", "extended-card-rpc"];

pub(super) struct Exchange {
    pub(super) name: String,
    pub(super) meta: Value,
    folder: PathBuf,
}

fn exchanges(generation: &str) -> Vec<Exchange> {
    // Nobody wrote an SDK for JavaScript then.
    let folders = match generation {
        "0.1" | "0.2" => &["jsonrpc"][..],
        _ => &["jsonrpc", "jsonrpc-js"],
    };
    let mut found = recorded(generation, folders);
    found.retain(|exchange| exchange.meta["request"]["method"] == "POST");
    found
}

/// All calls in these folders of a generation.
pub(super) fn recorded(generation: &str, folders: &[&str]) -> Vec<Exchange> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(generation);
    let mut found = Vec::new();
    for folder in folders {
        let folder = root.join(folder);
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")) {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let Some(name) = file.strip_suffix(".meta.json") else {
                continue;
            };
            let meta: Value = serde_json::from_slice(&std::fs::read(folder.join(&file)).unwrap()).unwrap();
            // Webhook calls are the agent's own requests to the caller's side.
            if !name.starts_with("push-delivery") {
                let name = format!(
                    "{}/{name}",
                    folder.strip_prefix(root.parent().unwrap()).unwrap().display()
                );
                found.push(Exchange {
                    name,
                    meta,
                    folder: folder.clone(),
                });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

impl Exchange {
    pub(super) fn file(&self, side: &str) -> Option<Vec<u8>> {
        self.meta[side]["body_file"].as_str().map(|file| self.read(file))
    }

    pub(super) fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    pub(super) fn headers(&self, side: &str) -> Vec<(String, String)> {
        let fields = self.meta[side]["headers"].as_array().cloned().unwrap_or_default();
        fields
            .iter()
            .filter_map(|field| {
                field
                    .as_str()?
                    .split_once(':')
                    .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            })
            .collect()
    }

    fn listed(&self) -> Option<&'static (&'static str, u16, i64, &'static str)> {
        let short = self.name.rsplit('/').next().unwrap();
        // Of 0.1 one is called like another one of later generations.
        let short = Some(short).filter(|_| !self.name.starts_with("0.1/"));
        ANSWERED_HERE
            .iter()
            .find(|(name, ..)| *name == self.name || Some(*name) == short)
    }
}

/// The recorded answer as it goes over the wire, streams in odd pieces.
pub(super) fn wire(exchange: &Exchange) -> Vec<u8> {
    let body = exchange.file("response").unwrap_or_default();
    let status = exchange.meta["response"]["status"].as_u64().expect("a status");
    let mut out = format!("HTTP/1.1 {status} X\r\n");
    let kind = exchange
        .headers("response")
        .into_iter()
        .find(|(name, _)| name == "content-type");
    let stream = kind
        .as_ref()
        .is_some_and(|(_, value)| value.starts_with("text/event-stream"));
    if let Some((name, value)) = kind {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if !stream {
        out.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        return [out.into_bytes(), body].concat();
    }
    out.push_str("transfer-encoding: chunked\r\n\r\n");
    let mut bytes = out.into_bytes();
    for piece in body.chunks(97) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

async fn replay(generation: &str, card: &str, expected: usize, translate: bool) {
    let exchanges = exchanges(generation);
    assert!(
        exchanges.len() >= expected,
        "{} recordings of {generation}",
        exchanges.len()
    );
    let answer: Arc<Mutex<Vec<u8>>> = Arc::default();
    let script = answer.clone();
    let agent = Agent::with_card(card, move |_| Reply::Raw(script.lock().unwrap().clone())).await;
    // Each recording is a conversation of its own, whose beginning is not replayed.
    let gateway = Gateway::of(
        &[agent.address],
        &format!("policy: {{ task_owner: none }}\n    translate: {translate}"),
        "",
    )
    .await;
    let mut passed = 0;
    let mut wrong = Vec::new();
    for exchange in &exchanges {
        let name = &exchange.name;
        *answer.lock().unwrap() = wire(exchange);
        let body = String::from_utf8(exchange.file("request").unwrap_or_default()).expect("text");
        let target = exchange.meta["request"]["target"].as_str().expect("a target");
        let path = match target.split_once('?') {
            Some((_, query)) => format!("/agent?{query}"),
            None => "/agent".to_owned(),
        };
        let recorded = exchange.headers("request");
        let mut fields = vec![("x-api-key", KEY)];
        let wanted = [
            "content-type",
            "a2a-version",
            "a2a-extensions",
            "x-a2a-extensions",
            "accept",
        ];
        fields.extend(
            recorded
                .iter()
                .filter(|(name, _)| wanted.contains(&name.as_str()))
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        let before = agent.received().len();
        let got = call(gateway.address, "POST", &path, &fields, &body).await;
        let received = agent.received();
        let arrived = received
            .get(before)
            .map(|request| String::from_utf8_lossy(&request.body).into_owned());
        if let Some((_, status, code, why)) = exchange.listed() {
            if arrived.is_some() || (got.status, got.code()) != (*status, *code) {
                wrong.push(format!(
                    "{name} is listed as answered here with {code} ({why}): {} {}",
                    got.status,
                    got.text()
                ));
            }
            continue;
        }
        if arrived.as_deref() != Some(&body) {
            wrong.push(format!(
                "{name}: the agent got {arrived:?}; answer {} {}",
                got.status,
                got.text()
            ));
            continue;
        }
        let status = exchange.meta["response"]["status"].as_u64().unwrap();
        let answer = exchange.file("response").unwrap_or_default();
        let rewritten = REWRITTEN.contains(&name.rsplit('/').next().unwrap());
        if u64::from(got.status) != status || !rewritten && got.text() != String::from_utf8_lossy(&answer) {
            wrong.push(format!("{name}: the caller got {} {}", got.status, got.text()));
            continue;
        }
        passed += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        passed >= expected * 3 / 4,
        "only {passed} of {} passed through",
        exchanges.len()
    );
    println!("{generation}: {passed} of {} passed untouched", exchanges.len());
}

#[tokio::test]
async fn recorded_0_1_traffic_passes_untouched() {
    replay("0.1", CARD_0_1, 25, true).await;
}

#[tokio::test]
async fn recorded_0_2_traffic_passes_untouched() {
    replay("0.2", CARD_0_3, 40, false).await;
}

#[tokio::test]
async fn recorded_0_3_traffic_passes_untouched() {
    replay("0.3", CARD_0_3, 60, false).await;
}

#[tokio::test]
async fn recorded_0_3_traffic_of_servers_of_1_0_passes_untouched() {
    replay("0.3-on-1.0-server", CARD_HYBRID, 45, false).await;
}

#[tokio::test]
async fn recorded_1_0_traffic_passes_untouched() {
    replay("1.0", CARD, 80, false).await;
}

#[test]
fn the_list_names_recordings_only() {
    let all: Vec<Exchange> = ["0.1", "0.2", "0.3", "0.3-on-1.0-server", "1.0"]
        .into_iter()
        .flat_map(exchanges)
        .collect();
    for entry in ANSWERED_HERE {
        assert!(
            all.iter().any(|exchange| exchange.listed() == Some(entry)),
            "{} is no recording any more",
            entry.0
        );
    }
}
