//! Only the card that came first is right later.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use a2a_gateway_bench::card::Card;
use a2a_gateway_bench::wire::{Kind, Message};

fn answer(bytes: &str) -> (Message, Vec<u8>) {
    let mut message = Message::new(Kind::Response);
    let mut body = Vec::new();
    message
        .feed(bytes.as_bytes(), &mut |data| body.extend_from_slice(data))
        .expect("a well-formed message");
    assert!(message.is_done());
    (message, body)
}

fn whole(head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {head}\r\nETag: \"a\"\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn card(body: &str, known: bool) -> Result<Card, String> {
    let (message, body) = answer(&whole("200 OK", body));
    Card::read(&message, &body, known)
}

#[track_caller]
fn check(known: bool, later: &str, expected: Result<(), &str>) {
    let card = card(r#"{"url":"http://a/","name":"one"}"#, known).expect("a card");
    let (message, body) = answer(later);
    let checked = card.check(&message, &body);
    assert_eq!(checked.as_ref().map_err(String::as_str).copied(), expected);
}

#[test]
fn a_card_has_an_address() {
    assert!(card(r#"{"url":"http://a/"}"#, false).is_ok());
    assert!(card(r#"{"supportedInterfaces":[{"url":"http://a/"}]}"#, false).is_ok());
    for none in ["[]", "null", "{}", r#"{"url":1}"#, r#"{"supportedInterfaces":"#] {
        assert!(card(none, false).is_err(), "{none}");
    }
}

#[test]
fn a_card_comes_with_its_length() {
    let (message, body) = answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
    assert!(Card::read(&message, &body, false).is_err());
}

#[test]
fn the_tag_is_sent_only_when_that_is_asked_for() {
    let known_as = |known| {
        card(r#"{"url":"http://a/"}"#, known)
            .expect("a card")
            .known_as()
            .map(str::to_owned)
    };
    assert_eq!(known_as(false), None);
    assert_eq!(known_as(true).as_deref(), Some("\"a\""));
}

#[test]
fn a_later_card_is_the_same() {
    let ok = whole("200 OK", r#"{"url":"http://a/","name":"one"}"#);
    check(false, &ok, Ok(()));
    let other = r#"{"url":"http://a/","name":"two"}"#;
    check(false, &whole("200 OK", other), Err(&format!("another card: {other}")));
    check(
        false,
        &whole("200 OK", "{}"),
        Err("a card of Some(2) bytes instead of 32"),
    );
    check(false, &whole("503 Busy", "{}"), Err("status 503 instead of 200: {}"));
}

#[test]
fn a_known_card_is_said_to_be_unchanged() {
    check(true, "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", Ok(()));
    check(
        true,
        "HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\n\r\n",
        Err("304 with another ETag"),
    );
    check(true, "HTTP/1.1 304 Not Modified\r\n\r\n", Err("304 with another ETag"));
    check(true, &whole("200 OK", "{}"), Err("status 200 instead of 304: {}"));
}
