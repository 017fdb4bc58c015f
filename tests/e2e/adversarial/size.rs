//! Sizes: at the bound and one past it.

use super::frames::{self, Frames};
use super::site::{CREDENTIAL, GENERATIONS, JSON, Site, good, rpc};
use super::wire::Wire;
use crate::harness::KEY;

const BODY: usize = 4 * 1024 * 1024;
const HEADER: usize = 64 * 1024;
const FIELDS: usize = 100;
const TARGET: usize = 8 * 1024;

/// A good call of exactly so many bytes.
fn call_of(bytes: usize) -> String {
    let empty = GENERATIONS[0].sending("").replace("hi", "");
    empty.replace(
        "\"text\":\"\"",
        &format!("\"text\":\"{}\"", "a".repeat(bytes - empty.len())),
    )
}

fn chunked(body: &str) -> String {
    let mut out = String::with_capacity(body.len() + body.len() / 1000);
    for piece in body.as_bytes().chunks(60_000) {
        out.push_str(&format!(
            "{:x}\r\n{}\r\n",
            piece.len(),
            std::str::from_utf8(piece).expect("ASCII")
        ));
    }
    out + "0\r\n\r\n"
}

fn head(more: &str) -> String {
    format!("POST /agent HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\n{more}\r\n")
}

#[tokio::test]
async fn a_body_passes_at_the_bound_and_not_past_it() {
    let site = Site::usual().await;
    let fits = call_of(BODY);
    let over = call_of(BODY + 1);
    assert_eq!((fits.len(), over.len()), (BODY, BODY + 1));
    for http in super::site::BOTH {
        let answer = site.post(http, &[JSON, CREDENTIAL], &fits).await;
        site.passed("at the bound", &answer);
        assert_eq!(site.agent.received().pop().expect("received").body, fits.as_bytes());
        let answer = site.post(http, &[JSON, CREDENTIAL], &over).await;
        site.refused("one past the bound", &answer, rpc("body_too_large", "null"))
            .await;
    }
    let (answer, _wire) = site.raw(head("Transfer-Encoding: chunked\r\n") + &chunked(&fits)).await;
    site.passed("chunked, at the bound", &answer);
    site.refuses(
        "chunked, one past the bound",
        head("Transfer-Encoding: chunked\r\n") + &chunked(&over),
        rpc("body_too_large", "null"),
    )
    .await;
    site.done().await;
}

#[tokio::test]
async fn a_length_past_the_bound_is_refused_before_a_byte_of_the_body_is_sent() {
    let site = Site::usual().await;
    for length in [
        (BODY + 1).to_string(),
        (20 * 1024 * 1024).to_string(),
        "999999999999999999".to_owned(),
    ] {
        // Nothing follows the head, so nothing of a body can have been waited for.
        site.refuses(
            &length,
            head(&format!("Content-Length: {length}\r\n")),
            rpc("body_too_large", "null"),
        )
        .await;
        let waiting = head(&format!("Content-Length: {length}\r\nExpect: 100-continue\r\n"));
        site.refuses("no 100 either", waiting, rpc("body_too_large", "null"))
            .await;

        let mut frames = Frames::to(site.gateway.address).await;
        let mut fields = frames::call_fields();
        fields.push(("content-length", &length));
        frames.headers(1, &frames::block(&fields), false).await;
        assert_eq!(frames.status_of(1).await, 413, "{length} over HTTP/2");
        site.note_refused("body_too_large", 1);
    }
    site.done().await;
}

#[tokio::test]
async fn twenty_mib_are_refused_and_the_caller_reads_why_though_it_sends_on() {
    let site = Site::usual().await;
    let body = call_of(20 * 1024 * 1024);
    let by_length = head(&format!("Content-Length: {}\r\n", body.len())) + &body;
    site.refuses("by length", by_length, rpc("body_too_large", "null"))
        .await;
    site.refuses(
        "chunked",
        head("Transfer-Encoding: chunked\r\n") + &chunked(&body),
        rpc("body_too_large", "null"),
    )
    .await;
    site.done().await;
}

/// A head of exactly so many bytes with so many fields.
fn head_of(bytes: usize, fields: usize) -> String {
    let good = good();
    let mut text = format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        good.len()
    );
    for index in 5..=fields {
        text.push_str(&format!("x-{index}: 1\r\n"));
    }
    if bytes > 0 {
        let room = bytes - text.len() - "x-pad: \r\n\r\n".len();
        text.push_str(&format!("x-pad: {}\r\n", "a".repeat(room)));
        assert_eq!(text.len() + 2, bytes);
    }
    format!("{text}\r\n{good}")
}

#[tokio::test]
async fn header_bombs_are_refused_at_one_past_the_bound() {
    let site = Site::usual().await;
    let (answer, _wire) = site.raw(head_of(HEADER, 0)).await;
    site.passed("64 KiB of header", &answer);
    site.refuses("one byte more", head_of(HEADER + 1, 0), rpc("header_too_large", "null"))
        .await;
    site.refuses(
        "a megabyte more",
        head_of(HEADER + 1024 * 1024, 0),
        rpc("header_too_large", "null"),
    )
    .await;
    let (answer, _wire) = site.raw(head_of(0, FIELDS)).await;
    site.passed("100 fields", &answer);
    site.refuses("101 fields", head_of(0, FIELDS + 1), rpc("header_too_large", "null"))
        .await;
    site.refuses("3000 fields", head_of(0, 3000), rpc("header_too_large", "null"))
        .await;

    let line = |target: usize| head_of(0, 0).replacen("/agent", &format!("/agent?{}", "q".repeat(target - 7)), 1);
    let (answer, _wire) = site.raw(line(TARGET)).await;
    site.passed("a target of 8 KiB", &answer);
    site.refuses("one byte more", line(TARGET + 1), rpc("target_too_long", "null"))
        .await;
    site.refuses(
        "a request line without end",
        format!("POST /{}", "a".repeat(200_000)),
        rpc("target_too_long", "null"),
    )
    .await;
    site.refuses(
        "a head without end",
        format!("POST /agent HTTP/1.1\r\nX: {}", "a".repeat(200_000)),
        rpc("header_too_large", "null"),
    )
    .await;
    site.done().await;
}

/// The bounds are the same over HTTP/2, where no line of HTTP/1.1 is read.
#[tokio::test]
async fn header_bombs_over_http2_are_refused_at_the_same_bounds() {
    let site = Site::usual().await;
    let send = async |fields: &[(&str, &str)]| {
        let mut frames = Frames::to(site.gateway.address).await;
        frames.headers(1, &frames::block(fields), false).await;
        frames.data(1, good().as_bytes(), true).await;
        frames.status_of(1).await
    };
    let names: Vec<String> = (0..200).map(|index| format!("x-{index}")).collect();
    let many = |count: usize| {
        let mut fields = frames::call_fields();
        let regular = fields.iter().filter(|(name, _)| !name.starts_with(':')).count();
        fields.extend(names.iter().take(count - regular).map(|name| (name.as_str(), "1")));
        fields
    };
    assert_eq!(send(&many(FIELDS)).await, 200, "100 fields");
    site.note_passed(1);
    assert_eq!(send(&many(FIELDS + 1)).await, 431, "101 fields");
    site.note_refused("header_too_large", 1);

    let path = |length: usize| format!("/agent?{}", "q".repeat(length - 7));
    let with_path = async |path: &str| {
        let mut fields = frames::call_fields();
        for field in &mut fields {
            if field.0 == ":path" {
                field.1 = path;
            }
        }
        send(&fields).await
    };
    assert_eq!(with_path(&path(TARGET)).await, 200, "8 KiB of target");
    site.note_passed(1);
    assert_eq!(with_path(&path(TARGET + 1)).await, 414, "one byte more");
    site.note_refused("target_too_long", 1);

    // A list past the bound is refused by the protocol's own machinery, which knows no reasons.
    let big = "a".repeat(HEADER);
    let mut fields = frames::call_fields();
    fields.push(("x-big", &big));
    assert_eq!(send(&fields).await, 431, "64 KiB in one field");
    site.works().await;
    site.done().await;
}

#[tokio::test]
async fn nothing_of_a_refused_body_is_kept_for_the_next_request() {
    let site = Site::usual().await;
    let mut wire = Wire::to(site.gateway.address).await;
    let good = good();
    let call = head(&format!("Content-Length: {}\r\n", good.len())) + &good;
    wire.send(call.repeat(3)).await;
    for _ in 0..3 {
        site.passed("in step", &wire.answer().await);
    }
    site.done().await;
}
