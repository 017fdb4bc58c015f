//! The exchanges over gRPC.

use super::*;

use a2a_gateway::a2a::grpc;

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
