//! What HTTP/2 allows to be said in two places, or at all, and A2A has no use for.

use super::frames::{self, END_HEADERS, Frames, GOAWAY, HEADERS, REFUSED_STREAM, RST_STREAM};
use super::site::{CREDENTIAL, JSON, Setup, Site, good};

/// RFC 9113 §7.
const PROTOCOL_ERROR: u32 = 1;

/// The fields of a good call with some of them replaced, or added where they are new.
fn fields<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields: Vec<(&str, &str)> = frames::call_fields();
    for (name, value) in changes {
        match fields.iter_mut().find(|(known, _)| known == name) {
            Some(field) => field.1 = value,
            None if name.starts_with(':') => fields.insert(0, (name, value)),
            None => fields.push((name, value)),
        }
    }
    fields
}

/// A good call with these fields on a connection of its own; its status.
async fn status(site: &Site, fields: &[(&str, &str)]) -> u16 {
    let mut frames = Frames::to(site.gateway.address).await;
    frames.headers(1, &frames::block(fields), false).await;
    frames.data(1, good().as_bytes(), true).await;
    frames.status_of(1).await
}

#[tokio::test]
async fn an_authority_and_a_host_that_disagree_are_refused() {
    let site = Site::usual().await;
    assert_eq!(
        status(&site, &fields(&[("host", "gateway.example")])).await,
        200,
        "they agree"
    );
    site.note_passed(1);
    let mut only_host = fields(&[("host", "gateway.example")]);
    only_host.retain(|(name, _)| *name != ":authority");
    assert_eq!(status(&site, &only_host).await, 200, "only Host");
    site.note_passed(1);
    let mut neither = only_host.clone();
    neither.retain(|(name, _)| *name != "host");
    let mut twice = fields(&[("host", "gateway.example")]);
    twice.push(("host", "gateway.example"));
    let cases = [
        ("another host", fields(&[("host", "evil.example")])),
        ("another port", fields(&[("host", "gateway.example:81")])),
        ("two hosts", twice),
        ("neither", neither),
        (
            "a user in the authority",
            fields(&[(":authority", "user@gateway.example")]),
        ),
        ("port 0", fields(&[(":authority", "gateway.example:0")])),
    ];
    for (what, fields) in cases {
        assert_eq!(status(&site, &fields).await, 400, "{what}");
        site.note_refused("bad_head", 1);
        site.works().await;
    }
    site.done().await;
}

#[tokio::test]
async fn targets_are_as_plain_as_over_http1() {
    let site = Site::usual().await;
    for path in [
        "/agent/../agent",
        "/agent%2f",
        "//agent",
        "/agent\u{e9}",
        "/agent?\u{e9}",
    ] {
        assert_eq!(status(&site, &fields(&[(":path", path)])).await, 400, "{path}");
        site.note_refused("bad_head", 1);
        site.works().await;
    }
    site.done().await;
}

#[tokio::test]
async fn connect_in_any_form_and_trace_are_refused() {
    let site = Site::usual().await;
    let mut connect = fields(&[(":method", "CONNECT")]);
    connect.retain(|(name, _)| ![":scheme", ":path"].contains(name));
    assert_eq!(status(&site, &connect).await, 405, "CONNECT");
    site.note_refused("method_not_allowed", 1);
    assert_eq!(status(&site, &fields(&[(":method", "TRACE")])).await, 405, "TRACE");
    site.note_refused("method_not_allowed", 1);
    // RFC 8441 §4: without the setting, `:protocol` is malformed.
    let mut extended = fields(&[(":method", "CONNECT")]);
    extended.insert(0, (":protocol", "websocket"));
    is_protocol_error(&site, "extended CONNECT", &frames::block(&extended)).await;
    site.done().await;
}

/// The stream or the connection ends with this error, and no answer comes.
async fn is_protocol_error(site: &Site, what: &str, block: &[u8]) {
    let mut frames = Frames::to(site.gateway.address).await;
    frames.headers(1, block, false).await;
    frames.data(1, good().as_bytes(), true).await;
    let end = frames
        .telling()
        .await
        .unwrap_or_else(|| panic!("{what}: the connection ended without a word"));
    assert!([RST_STREAM, GOAWAY].contains(&end.kind), "{what}: {end:?}");
    assert_eq!(end.error(), PROTOCOL_ERROR, "{what}: {end:?}");
    site.works().await;
    site.agent_saw_only_what_passed();
}

#[tokio::test]
async fn malformed_header_blocks_end_their_stream() {
    let site = Site::usual().await;
    let added = |name, value| fields(&[(name, value)]);
    let mut late_pseudo = frames::call_fields();
    late_pseudo.swap(3, 5);
    let mut two_paths = frames::call_fields();
    two_paths.insert(0, (":path", "/other"));
    let mut no_path = frames::call_fields();
    no_path.retain(|(name, _)| *name != ":path");
    let cases = [
        ("connection", added("connection", "x-hop")),
        ("transfer-encoding", added("transfer-encoding", "chunked")),
        ("upgrade", added("upgrade", "h2c")),
        ("keep-alive", added("keep-alive", "timeout=5")),
        ("te", added("te", "gzip")),
        ("an upper case name", added("X-Upper", "1")),
        ("a carriage return in a value", added("x-a", "1\r\nx-b: 2")),
        ("a NUL in a value", added("x-a", "1\0")),
        ("a line feed in a name", added("x-a\nx-b", "1")),
        ("an unknown pseudo field", added(":evil", "1")),
        ("a pseudo field behind the others", late_pseudo),
        ("two paths", two_paths),
        ("no path", no_path),
        ("an empty path", added(":path", "")),
        ("a status", added(":status", "200")),
        (
            "a length that is longer than the body",
            added("content-length", "100000"),
        ),
        ("a length that is shorter than the body", added("content-length", "3")),
    ];
    for (what, fields) in cases {
        println!("{what}");
        is_protocol_error(&site, what, &frames::block(&fields)).await;
    }
    // Whatever was told or not: nothing passed, and each that got as far as a body is recorded as broken.
    let broken = site.rejects().await;
    for (reason, count) in broken {
        assert_eq!(reason, "body_malformed", "only lengths that lie are seen at all");
        site.note_refused("body_malformed", count);
    }
    site.done().await;
}

#[tokio::test]
async fn a_stream_past_the_limit_is_refused_and_the_others_are_not() {
    let site = Site::usual().await;
    let mut frames = Frames::to(site.gateway.address).await;
    let block = frames::block(&frames::call_fields());
    // Their bodies are still to come, so none of them ends.
    for index in 0..100 {
        frames.headers(2 * index + 1, &block, false).await;
    }
    // Answered by now, if they were refused: a PING comes back behind everything before it.
    frames.send(&frames::frame(frames::PING, 0, 0, &[7; 8])).await;
    loop {
        let frame = frames.next().await.expect("open");
        assert!(
            ![HEADERS, RST_STREAM, GOAWAY].contains(&frame.kind),
            "100 are the bound: {frame:?}"
        );
        if frame.kind == frames::PING && frame.payload == [7; 8] {
            break;
        }
    }
    frames.headers(201, &block, false).await;
    let refused = frames.telling().await.expect("open");
    assert_eq!(
        (refused.kind, refused.stream, refused.error()),
        (RST_STREAM, 201, REFUSED_STREAM),
        "the 101st"
    );
    site.works().await;
    // One ends, and there is room for another.
    frames.data(1, good().as_bytes(), true).await;
    assert_eq!(frames.status_of(1).await, 200);
    site.note_passed(1);
    frames.headers(203, &block, false).await;
    frames.data(203, good().as_bytes(), true).await;
    loop {
        let frame = frames.telling().await.expect("open");
        if frame.stream == 203 {
            assert_eq!(frame.kind, HEADERS, "an answer: {frame:?}");
            break;
        }
    }
    site.note_passed(1);
    drop(frames);
    site.works().await;
    // The 99 others broke off.
    let left = "a2a_gateway_calls_total{agent=\"agent\",operation=\"none\",outcome=\"downstream_gone\"}";
    crate::harness::eventually("they are recorded", || async {
        let told: usize = site.rejects().await.values().sum();
        told as f64 + site.gateway.metric(left).await >= 99.0
    })
    .await;
    for count in site.rejects().await.into_values() {
        site.note_refused("body_malformed", count);
    }
    site.done().await;
}

#[tokio::test]
async fn a_refusal_keeps_the_connection_for_the_other_streams() {
    let site = Site::start(Setup::default()).await;
    let mut sender = site.http2().await;
    let mut send = async |path: &str, body: &str| {
        let request = http::Request::builder()
            .method("POST")
            .uri(format!("http://gateway.example{path}"))
            .header(JSON.0, JSON.1)
            .header(CREDENTIAL.0, CREDENTIAL.1)
            .body(http_body_util::Full::from(body.to_owned()))
            .expect("a request");
        sender.ready().await.expect("the connection is open");
        crate::harness::client::collect(sender.send_request(request).await.expect("an answer")).await
    };
    let too_large = "x".repeat(5 * 1024 * 1024);
    for (path, body, reason, id) in [
        ("/agent/../x", "{}", "bad_head", "null"),
        ("/agent", "{", "parse_error", "null"),
        ("/agent", &too_large, "body_too_large", "null"),
    ] {
        let answer = send(path, body).await;
        site.is_refusal(path, &answer, super::site::rpc(reason, id));
        assert_eq!(
            answer.header("connection"),
            None,
            "no such field in HTTP/2 (RFC 9113 §8.2.2)"
        );
        site.passed("the next stream", &send("/agent", &good()).await);
    }
    site.done().await;
}

#[tokio::test]
async fn a_connection_that_breaks_the_protocol_ends_and_no_other_does() {
    let site = Site::usual().await;
    let block = frames::block(&frames::call_fields());
    let cases: [(&str, Vec<u8>); 8] = [
        (
            "a frame past the largest size",
            [&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1][..], &[0; 20_000]].concat(),
        ),
        (
            "a HEADERS frame of the gateway's streams",
            frames::frame(HEADERS, END_HEADERS, 2, &block),
        ),
        ("DATA on no stream", frames::frame(frames::DATA, 0, 0, b"x")),
        (
            "DATA on a stream that never was",
            frames::frame(frames::DATA, 0, 9, b"x"),
        ),
        (
            "CONTINUATION of nothing",
            frames::frame(frames::CONTINUATION, END_HEADERS, 1, &block),
        ),
        ("a PING of seven bytes", frames::frame(frames::PING, 0, 0, &[0; 7])),
        (
            "broken header compression",
            frames::frame(HEADERS, END_HEADERS, 1, &[0xff; 40]),
        ),
        (
            "PUSH_PROMISE of a client",
            frames::frame(5, END_HEADERS, 1, &[0, 0, 0, 2]),
        ),
    ];
    for (what, bytes) in cases {
        println!("{what}");
        let mut frames = Frames::to(site.gateway.address).await;
        frames.send(&bytes).await;
        while let Some(frame) = frames.next().await {
            assert_ne!(frame.kind, HEADERS, "{what}: no answer");
        }
        site.works().await;
    }
    site.done().await;
}
