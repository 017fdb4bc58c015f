//! The same over gRPC, between the clients and the agents of that binding: messages, statuses and their details must pass as
//! they were recorded.

use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::Operation::ExtendedCard;
use a2a_gateway::a2a::grpc::{self, Status};
use serde_json::Value;

use super::replay::{Exchange, recorded};
use crate::harness::client::{Rpc, open_grpc};
use crate::harness::grpc::{CARD_GRPC, CARD_GRPC_0_3, GrpcAgent, Piece, Reply, failed, framed, good};
use crate::harness::{Gateway, KEY};

/// Exchanges that the gateway answers itself: name, status, why.
const ANSWERED_HERE: &[(&str, u32, &str)] = &[("1.0/grpc/version-unsupported", 9, "no agent serves that version")];

/// The codes by the names that recordings have.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Exchange {
    fn messages(&self) -> Vec<Vec<u8>> {
        let files = self.meta["response"]["body_files"].as_array().expect("files");
        files
            .iter()
            .map(|file| self.read(file.as_str().expect("a file")))
            .collect()
    }

    fn status(&self) -> Status {
        let response = &self.meta["response"];
        let code = CODES
            .iter()
            .position(|code| response["status"] == *code)
            .expect("a code");
        let trailers = response["trailing_metadata"].as_array().expect("trailers").iter();
        let mut details = trailers.filter_map(|field| field.as_str()?.strip_prefix("grpc-status-details-bin: base64:"));
        Status {
            code: u32::try_from(code).expect("a code"),
            message: response["message"].as_str().expect("a message").to_owned(),
            details: details
                .next_back()
                .map(|text| grpc::decode_details(text.as_bytes()).expect("base64")),
        }
    }

    fn metadata(&self) -> Vec<(&str, &str)> {
        let fields = self.meta["request"]["metadata"].as_array().expect("metadata").iter();
        fields.filter_map(|field| field.as_str()?.split_once(": ")).collect()
    }
}

fn reply(exchange: &Exchange) -> Reply {
    let status = exchange.status();
    let messages = exchange.messages();
    if status.code != 0 && messages.is_empty() {
        return Reply::failed(&status);
    }
    let end = match status.code {
        0 => good(),
        _ => Piece::Trailers(failed(&status)),
    };
    // In odd pieces.
    let mut bytes = Vec::new();
    for message in &messages {
        let Piece::Data(framed) = framed(message) else { continue };
        bytes.extend(framed);
    }
    let pieces = bytes.chunks(97).map(|piece| Piece::Data(piece.to_vec()));
    Reply::of(pieces.chain([end]).collect())
}

async fn replay(generation: &str, card: &str, expected: usize) {
    let exchanges = recorded(generation, &["grpc"]);
    let answer: Arc<Mutex<Option<Reply>>> = Arc::default();
    let script = answer.clone();
    let agent = GrpcAgent::start(card, move |_| script.lock().unwrap().take().expect("one call")).await;
    // Each recording is a conversation of its own, whose beginning is not replayed.
    let yaml = agent.config("policy: { task_owner: none }\n    translate: false");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let mut passed = 0;
    let mut wrong = Vec::new();
    for exchange in &exchanges {
        let name = &exchange.name;
        *answer.lock().unwrap() = Some(reply(exchange));
        let path = exchange.meta["request"]["grpc_method"].as_str().expect("a method");
        let message = exchange.file("request").unwrap_or_default();
        let sent = grpc::frame(&message).unwrap().to_vec();
        let fields = [&[("x-api-key", KEY)], &*exchange.metadata()].concat();
        let before = agent.received().len();
        let rpc = Rpc::read(open_grpc(gateway.address, path, &fields, sent.clone()).await).await;
        let arrived = agent.received().get(before).cloned();
        if let Some((_, status, why)) = ANSWERED_HERE.iter().find(|(listed, ..)| listed == name) {
            if arrived.is_some() || rpc.status() != *status {
                wrong.push(format!(
                    "{name} is listed as answered here with {status} ({why}): {rpc:?}"
                ));
            }
            continue;
        }
        let Some(arrived) = arrived.filter(|it| it.path == path && it.body == sent) else {
            wrong.push(format!("{name}: the agent got something else; answer {rpc:?}"));
            continue;
        };
        for (field, value) in exchange.metadata() {
            assert_eq!(arrived.field(field), Some(value), "{name}: {field}");
        }
        let told = exchange.status();
        let all: Vec<u8> = exchange
            .messages()
            .iter()
            .flat_map(|one| grpc::frame(one).unwrap())
            .collect();
        let rewritten = grpc::method(path).unwrap().operation == ExtendedCard;
        let details = rpc.field("grpc-status-details-bin");
        let got = Status {
            code: rpc.status(),
            message: grpc::decode_message(rpc.field("grpc-message").unwrap_or_default().as_bytes()),
            details: details.map(|text| grpc::decode_details(text.as_bytes()).unwrap()),
        };
        if got != told || !rewritten && rpc.body != all {
            wrong.push(format!("{name}: the caller got {rpc:?}"));
            continue;
        }
        passed += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(passed >= expected, "only {passed} of {} passed", exchanges.len());
}

#[tokio::test]
async fn recorded_0_2_traffic_passes_untouched() {
    replay("0.2", CARD_GRPC_0_3, 25).await;
}

#[tokio::test]
async fn recorded_0_3_traffic_passes_untouched() {
    replay("0.3", CARD_GRPC_0_3, 26).await;
}

#[tokio::test]
async fn recorded_traffic_of_0_3_with_servers_of_1_0_passes_untouched() {
    replay("0.3-on-1.0-server", CARD_GRPC_0_3, 15).await;
}

#[tokio::test]
async fn recorded_1_0_traffic_passes_untouched() {
    replay("1.0", CARD_GRPC, 43).await;
}

#[test]
fn the_list_names_recordings_only() {
    let all = recorded("1.0", &["grpc"]);
    for (name, ..) in ANSWERED_HERE {
        assert!(all.iter().any(|it| it.name == *name), "{name} is no recording any more");
    }
    assert!(all.iter().all(|it| it.meta["response"]["status"] != Value::Null));
}
