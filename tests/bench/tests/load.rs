//! The load generator asks for cards, and takes nothing for one that is not the card.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread::{self, JoinHandle};

use serde_json::Value;

const CARD: &str = r#"{"name":"Harbour","supportedInterfaces":[]}"#;

/// Answers every request on so many connections; `answer` gets its head.
fn serve(connections: usize, answer: fn(&str) -> String) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let job = thread::spawn(move || {
        let served: Vec<_> = (0..connections)
            .map(|_| {
                let (socket, _) = listener.accept().expect("a connection");
                thread::spawn(move || talk(socket, answer))
            })
            .collect();
        let heads = served.into_iter().map(|job| job.join().expect("no panic"));
        heads.flatten().collect()
    });
    (address, job)
}

fn talk(mut socket: TcpStream, answer: fn(&str) -> String) -> Vec<String> {
    let mut heads = Vec::new();
    let mut head = Vec::new();
    let mut byte = [0];
    // The caller may leave with an answer unread.
    while matches!(socket.read(&mut byte), Ok(1)) {
        head.extend_from_slice(&byte);
        if head.ends_with(b"\r\n\r\n") {
            let text = String::from_utf8(std::mem::take(&mut head)).expect("UTF-8");
            let answered = socket.write_all(answer(&text).as_bytes());
            heads.push(text);
            if answered.is_err() {
                break;
            }
        }
    }
    heads
}

fn with_body(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn card(head: &str) -> String {
    if head.contains("If-None-Match: \"1\"\r\n") {
        "HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n".to_owned()
    } else {
        with_body("200 OK\r\netag: \"1\"", CARD)
    }
}

/// What a run over two connections says on its output, and of its failure.
fn load(address: &str, words: &[&str]) -> (Value, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["card", "--target", address, "--path", "/front", "--connections", "2"])
        .args(words)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    (serde_json::from_slice(&run.stdout).unwrap_or_default(), said)
}

fn asked(words: &[&str]) -> (Value, Vec<String>) {
    let (address, server) = serve(3, card);
    let (report, said) = load(&address, words);
    assert_eq!(report["errors"], 0, "{report} {said}");
    assert_eq!(report["card_bytes"], CARD.len(), "{report}");
    (report, server.join().expect("no panic"))
}

#[test]
fn a_card_is_asked_for_over_and_over() {
    let (report, heads) = asked(&["--requests", "50", "--warmup", "10"]);
    assert_eq!(report["requests"], 50);
    assert_eq!(heads.len(), 61, "with the first one and the warm-up");
    for head in heads {
        assert!(
            head.starts_with("GET /front/.well-known/agent-card.json HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(!head.contains("If-None-Match"), "{head}");
    }
}

#[test]
fn a_known_card_is_asked_for_with_its_tag() {
    let (report, heads) = asked(&["--requests", "50", "--etag"]);
    assert_eq!(report["requests"], 50);
    let with_tag = heads.iter().filter(|head| head.contains("If-None-Match: \"1\"\r\n"));
    assert_eq!(with_tag.count(), 50, "all but the first one");
}

#[test]
fn cards_are_asked_for_at_a_rate() {
    for words in [
        &["--rps", "100", "--seconds", "1"][..],
        &["--rps", "100", "--seconds", "1", "--etag"],
    ] {
        let (report, heads) = asked(words);
        assert_eq!(report["requests"], 100);
        assert_eq!(heads.len(), 101);
    }
}

fn first_fails(answer: fn(&str) -> String, words: &[&str], why: &str) {
    let (address, server) = serve(1, answer);
    let (report, said) = load(&address, words);
    assert_eq!(report, Value::Null);
    assert!(said.contains(why), "{said}");
    server.join().expect("no panic");
}

#[test]
fn what_is_no_card_ends_the_run() {
    first_fails(|_| with_body("404 Not Found", "{}"), &[], "status 404");
    first_fails(|_| with_body("200 OK", "<html>"), &[], "no JSON");
    first_fails(
        |_| with_body("200 OK", r#"{"name":"Harbour"}"#),
        &[],
        "neither supportedInterfaces nor url",
    );
    first_fails(|_| with_body("200 OK", CARD), &["--etag"], "without an ETag");
}

fn later_fail(answer: fn(&str) -> String, why: &str) {
    let (address, server) = serve(3, answer);
    let (report, said) = load(&address, &["--requests", "2", "--etag"]);
    assert_eq!(report["errors"], 2, "{report} {said}");
    assert!(
        report["first_error"].as_str().is_some_and(|error| error.contains(why)),
        "{report}"
    );
    server.join().expect("no panic");
}

#[test]
fn another_answer_than_that_it_is_unchanged_is_an_error() {
    later_fail(
        |_| with_body("200 OK\r\netag: \"1\"", CARD),
        "status 200 instead of 304",
    );
}
