//! Members and errors that only the draft of A2A 1.1 has, between callers and agents of 1.0: bytes pass untouched.

use std::path::Path;

use crate::harness::agent::{Agent, CARD, CARD_HTTP_JSON, Received, Reply};
use crate::harness::{Answer, Gateway, KEY, call};

const JSON: &str = "content-type: application/json\r\n";

fn draft(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus/1.1-draft")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// A call to an agent that answers it so, below the agent's path: what the caller gets, and what the agent was asked.
async fn exchange(
    card: &'static str,
    (method, path, version): (&str, &str, &str),
    body: &str,
    (status, head, told): (u16, &'static str, &str),
) -> (Answer, Option<Received>) {
    let told = told.to_owned();
    let agent = Agent::over_http_json(card, move |_| Reply::Whole(status, head, told.clone())).await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", "").await;
    let fields = [
        ("x-api-key", KEY),
        ("content-type", "application/json"),
        ("a2a-version", version),
    ];
    let got = call(gateway.address, method, &format!("/agent{path}"), &fields, body).await;
    (got, agent.received().pop())
}

#[tokio::test]
async fn calls_and_answers_in_json_rpc_pass_untouched() {
    for (request, answer) in [
        ("get-long-poll.req.json", "get-long-poll.res.json"),
        (
            "send-if-generation-match.req.json",
            "error-generation-mismatch.res.json",
        ),
    ] {
        let (request, answer) = (
            draft(&format!("jsonrpc/{request}")),
            draft(&format!("jsonrpc/{answer}")),
        );
        let (got, asked) = exchange(CARD, ("POST", "", "1.0"), &request, (200, JSON, &answer)).await;
        assert_eq!(got.text(), answer);
        assert_eq!(String::from_utf8(asked.expect("a call").body).unwrap(), request);
    }
}

#[tokio::test]
async fn a_stream_passes_untouched() {
    let stream = draft("jsonrpc/stream.res.sse");
    let message = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}"#;
    let send =
        format!(r#"{{"jsonrpc":"2.0","id":"d-3","method":"SendStreamingMessage","params":{{"message":{message}}}}}"#);
    let head = "content-type: text/event-stream\r\n";
    let (got, _) = exchange(CARD, ("POST", "", "1.0"), &send, (200, head, &stream)).await;
    assert_eq!(got.text(), stream);
}

#[tokio::test]
async fn calls_and_errors_over_http_json_pass_untouched() {
    let request = draft("http-json/get-long-poll.req.txt");
    let target = request.split(' ').nth(1).expect("a target");
    let error = draft("http-json/error-generation-mismatch.409.res.json");
    let (got, asked) = exchange(CARD_HTTP_JSON, ("GET", target, "1.0"), "", (409, JSON, &error)).await;
    assert_eq!((got.status, got.text()), (409, error.clone()));
    assert!(asked.expect("a call").head.starts_with(&format!("GET {target} ")));
    // Under its own version it is one that no card offers yet.
    let (got, asked) = exchange(CARD_HTTP_JSON, ("GET", target, "1.1"), "", (409, JSON, &error)).await;
    assert_eq!(got.status, 400);
    assert!(got.text().contains("VERSION_NOT_SUPPORTED"), "{}", got.text());
    assert!(asked.is_none());
}
