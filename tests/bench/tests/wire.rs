//! Messages are read alike however their bytes are cut.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use a2a_gateway_bench::wire::{Kind, Message};

/// Reads `bytes` in pieces of `size`; the body and how many bytes belonged to the message.
fn read(kind: Kind, bytes: &[u8], size: usize) -> (Message, Vec<u8>, usize) {
    let mut message = Message::new(kind);
    let mut body = Vec::new();
    let mut taken = 0;
    for piece in bytes.chunks(size) {
        taken += message
            .feed(piece, &mut |data| body.extend_from_slice(data))
            .expect("a well-formed message");
        if message.is_done() {
            break;
        }
    }
    (message, body, taken)
}

fn check(kind: Kind, bytes: &[u8], rest: usize, expected: &[u8], done: bool) {
    for size in 1..=bytes.len() {
        let (message, body, taken) = read(kind, bytes, size);
        assert_eq!(body, expected, "body in pieces of {size}");
        assert_eq!(message.is_done(), done, "end in pieces of {size}");
        assert!(
            taken <= bytes.len() - rest,
            "took the next message's bytes in pieces of {size}"
        );
    }
}

#[test]
fn a_body_of_known_length_ends_there() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1";
    check(Kind::Response, bytes, 8, b"hello", true);
}

#[test]
fn a_chunked_body_ends_after_its_trailers() {
    let bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, harbour!\r\n0\r\nx: y\r\n\r\nHTTP";
    check(Kind::Response, bytes, 4, b"hello, harbour!", true);
}

#[test]
fn an_answer_without_a_length_lasts_until_the_connection_ends() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    check(Kind::Response, bytes, 0, b"data: 1\n\n", false);
    let (message, ..) = read(Kind::Response, bytes, bytes.len());
    assert!(message.ends_here());
    assert!(message.event_stream);
}

#[test]
fn a_request_without_a_length_has_no_body() {
    let bytes = b"GET /stats HTTP/1.1\r\nHost: a\r\n\r\n";
    check(Kind::Request, bytes, 0, b"", true);
    let (message, ..) = read(Kind::Request, bytes, 3);
    assert_eq!(message.line, b"GET /stats HTTP/1.1");
}

#[test]
fn an_answer_that_breaks_off_does_not_end() {
    let bytes = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhel";
    let (message, ..) = read(Kind::Response, bytes, bytes.len());
    assert!(!message.ends_here());
    assert!(message.close);
    assert_eq!(message.status, 502);
}

#[test]
fn an_answer_that_spares_its_body_has_none() {
    for length in ["", "Content-Length: 5\r\n"] {
        let head = format!("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n{length}\r\n");
        let bytes = format!("{head}HTTP/1.1 200 OK");
        check(Kind::Response, bytes.as_bytes(), 15, b"", true);
        let (message, ..) = read(Kind::Response, head.as_bytes(), 3);
        assert_eq!(message.etag, b"\"a\"");
        assert_eq!(message.length, None);
    }
}

#[test]
fn a_length_is_told_where_it_ends_the_body() {
    let length = |bytes: &[u8]| read(Kind::Response, bytes, bytes.len()).0.length;
    assert_eq!(length(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), Some(5));
    let chunked = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(length(chunked), None);
}
