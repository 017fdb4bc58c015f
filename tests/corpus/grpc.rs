//! The exchanges over gRPC.

use super::*;

use a2a_gateway::a2a::grpc;
use a2a_gateway::a2a::model::Response;

fn exchanges() -> Vec<Exchange> {
    let all = Exchange::over("grpc");
    assert!(all.len() > 100, "only {} exchanges", all.len());
    all
}

impl Exchange {
    fn meta(&self) -> Json {
        serde_json::from_slice(&self.body("meta.json").unwrap()).unwrap()
    }

    fn method(&self) -> &'static grpc::Method {
        let path = text(&self.meta()["request"]["grpc_method"]).unwrap();
        grpc::method(&path).unwrap_or_else(|| panic!("{}: {path}", self.name))
    }

    fn request(&self) -> Vec<u8> {
        self.body("req.pb")
            .unwrap_or_else(|| panic!("{} has no request", self.name))
    }

    /// The messages of the answer.
    fn messages(&self) -> Vec<Vec<u8>> {
        let numbered = (0..).map_while(|index| self.body(&format!("res.{index}.pb")));
        self.body("res.pb").into_iter().chain(numbered).collect()
    }
}

#[test]
fn requests_name_what_they_were_recorded_to_name() {
    for exchange in exchanges() {
        let name = &exchange.name;
        let method = exchange.method();
        assert_eq!(exchange.expected["operation"], method.operation.as_str(), "{name}");
        // 0.2 goes by the name of 0.3.
        let generation = text(&exchange.expected["generation"]).unwrap();
        let generation = if generation == "0.2" { "0.3" } else { &generation };
        assert_eq!(generation, method.generation.as_str(), "{name}");
        let call = grpc::read_call(method, &exchange.request()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = &exchange.expected["request"];
        assert_eq!(call.task.map(|id| id.to_string()), text(&expected["task"]), "{name}");
        assert_eq!(
            call.context.map(|id| id.to_string()),
            text(&expected["context"]),
            "{name}"
        );
        assert_eq!(call.references, [], "{name}");
    }
}

#[test]
fn answers_and_events_reveal_what_they_were_recorded_to_reveal() {
    let mut events = 0;
    for exchange in exchanges() {
        let name = &exchange.name;
        let method = exchange.method();
        let none = Vec::new();
        let expected = exchange.expected["events"].as_array().unwrap_or(&none);
        let messages = exchange.messages();
        assert_eq!(messages.len(), expected.len(), "{name}");
        for (message, expected) in messages.iter().zip(expected) {
            events += 1;
            let answer = grpc::read_answer(message, method.generation, method.operation);
            let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
            check(name, &answer, expected);
            assert!(!answer.is_strange, "{name}");
        }
    }
    assert!(events > 100, "only {events} messages");
}

#[test]
fn messages_are_taken_out_of_a_stream_wherever_it_is_cut() {
    for exchange in exchanges() {
        let messages = exchange.messages();
        let stream: Vec<u8> = messages
            .iter()
            .flat_map(|message| grpc::frame(message).unwrap())
            .collect();
        for size in [1, 3, 100, stream.len().max(1)] {
            let mut frames = grpc::Frames::new(1 << 20);
            let mut read = Vec::new();
            for piece in stream.chunks(size) {
                frames.push(Bytes::copy_from_slice(piece));
                while let Some(message) = frames.take().unwrap() {
                    read.push(message.to_vec());
                }
            }
            assert_eq!(read, messages, "{} in pieces of {size}", exchange.name);
            assert!(!frames.has_partial());
        }
    }
}

/// A message as ProtoJSON, without what a reader takes for absent, its numbers as floats and its times at full length.
fn plain(json: Json) -> Json {
    match json {
        Json::Object(members) => {
            let members = members.into_iter().map(|(name, value)| {
                let value = plain(value);
                let time = value.as_str().filter(|_| name == "timestamp");
                let time = time.map(|text| Json::from(text.trim_end_matches('Z').trim_end_matches('0')));
                (name, time.unwrap_or(value))
            });
            let empty =
                |value: &Json| *value == "" || *value == Json::Array(Vec::new()) || *value == 0.0 || *value == false;
            members.filter(|(_, value)| !empty(value)).collect()
        }
        Json::Array(values) => values.into_iter().map(plain).collect(),
        Json::Number(number) => number.as_f64().into(),
        other @ (Json::Null | Json::Bool(_) | Json::String(_)) => other,
    }
}

#[test]
fn messages_of_1_0_read_as_their_own_sdk_reads_them() {
    let mut count = 0;
    for exchange in exchanges() {
        let (name, method, decoded) = (&exchange.name, exchange.method(), &exchange.meta()["decoded"]);
        if method.generation != Generation::V1_0 {
            continue;
        }
        let mut got = Vec::new();
        let request = grpc::read_request(method.generation, method.operation, &exchange.request());
        request
            .unwrap_or_else(|error| panic!("{name}: {error:?}"))
            .write(&mut got)
            .unwrap();
        let got = plain(serde_json::from_slice(&got).unwrap());
        assert_eq!(got, plain(decoded["request"].clone()), "{name}");
        let none = Vec::new();
        let expected = decoded["responses"].as_array().unwrap_or(&none);
        for (message, expected) in exchange.messages().iter().zip(expected) {
            count += 1;
            let response = grpc::read_response(method.generation, method.operation, message);
            let response = response.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            if response == Response::Nothing {
                assert_eq!(*expected, serde_json::json!({}));
                continue;
            }
            let mut got = Vec::new();
            response.write(&mut got).unwrap();
            assert_eq!(
                plain(serde_json::from_slice(&got).unwrap()),
                plain(expected.clone()),
                "{name}"
            );
        }
    }
    assert!(count > 30, "only {count} messages");
}

#[test]
fn messages_are_written_as_they_were_read() {
    for exchange in exchanges() {
        let (name, method) = (&exchange.name, exchange.method());
        let (generation, operation) = (method.generation, method.operation);
        let request = grpc::read_request(generation, operation, &exchange.request());
        let request = request.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let written = grpc::write_request(generation, request.clone()).unwrap();
        assert_eq!(
            grpc::read_request(generation, operation, &written),
            Ok(request),
            "{name}"
        );
        for message in exchange.messages() {
            let response = grpc::read_response(generation, operation, &message);
            let response = response.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let written = grpc::write_response(generation, operation, response.clone()).unwrap();
            assert_eq!(
                grpc::read_response(generation, operation, &written),
                Ok(response),
                "{name}"
            );
        }
    }
}

#[test]
fn errors_are_what_they_were_recorded_to_be() {
    let mut count = 0;
    for exchange in exchanges() {
        let (name, meta) = (&exchange.name, exchange.meta());
        let response = &meta["response"];
        let number = match response["status"].as_str().unwrap() {
            "OK" => continue,
            "UNKNOWN" => 2,
            "INVALID_ARGUMENT" => 3,
            "NOT_FOUND" => 5,
            "FAILED_PRECONDITION" => 9,
            "UNIMPLEMENTED" => 12,
            other => panic!("{name}: {other}"),
        };
        count += 1;
        let trailers = response["trailing_metadata"].as_array().unwrap();
        let details = trailers
            .iter()
            .find_map(|line| line.as_str()?.strip_prefix("grpc-status-details-bin: base64:"));
        let status = grpc::Status {
            code: number,
            message: text(&response["message"]).unwrap(),
            details: details.map(|details| grpc::decode_details(details.as_bytes()).unwrap()),
        };
        let fault = grpc::read_fault(&status);
        let (code, reason) = match name.rsplit_once('/').unwrap().1 {
            "error-agent-exception" | "error-stream-agent-exception" => (-32603, None),
            // What the servers of these versions fail at.
            "extended-card" | "push-set" => (-32603, None),
            "push-get" => (-32602, None),
            "error-cancel-completed" if exchange.expected["generation"] == "0.2" => (-32001, None),
            "error-cancel-completed" => (-32002, Some("TASK_NOT_CANCELABLE")),
            "error-content-type-not-supported" => (-32005, Some("CONTENT_TYPE_NOT_SUPPORTED")),
            "error-extension-support-required" => (-32008, Some("EXTENSION_SUPPORT_REQUIRED")),
            "error-context-mismatch" | "error-list-bad-token" | "error-list-page-size" | "error-missing-parts" => {
                (-32602, Some("INVALID_PARAMS"))
            }
            "error-send-to-completed" | "error-resubscribe-completed" | "error-subscribe-completed" => {
                match (exchange.expected["generation"].as_str(), number) {
                    (Some("1.0"), _) | (_, 9) => (-32004, Some("UNSUPPORTED_OPERATION")),
                    (_, 5) => (-32001, None),
                    _ => (-32602, None),
                }
            }
            _ => (-32001, Some("TASK_NOT_FOUND")),
        };
        assert_eq!(fault.code, code, "{name}");
        assert!(
            !fault.message.as_str().starts_with("Task") || !fault.message.as_str().contains("Error: "),
            "{name}"
        );
        if exchange.expected["generation"] == "1.0" {
            let details = fault
                .details
                .as_ref()
                .map(|details| serde_json::from_str::<Json>(details.get()).unwrap());
            let told = details.and_then(|details| text(&details[0]["reason"]));
            assert_eq!(told.as_deref(), reason, "{name}");
            // As the server itself wrote it.
            let written = grpc::write_fault(Generation::V1_0, &fault);
            if status.details.is_some() {
                assert_eq!(written.details, status.details, "{name}");
            }
            assert_eq!(written.code, if code == -32603 { 13 } else { number }, "{name}");
        }
    }
    assert!(count > 30, "only {count} errors");
}
