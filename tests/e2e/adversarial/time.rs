//! Callers who take their time: each wait is bounded, and the one who waits is told where that is possible.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::frames::{self, Frames, GOAWAY};
use super::site::{Setup, Site, good, rpc};
use super::wire::Wire;
use crate::harness::client::PATIENCE;
use crate::harness::{KEY, eventually};

const STEP: Duration = Duration::from_millis(100);

fn setup(limits: &str) -> Setup<'_> {
    Setup {
        top: limits,
        ..Setup::default()
    }
}

fn head(length: usize) -> String {
    format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_head_that_does_not_come_whole_ends_in_408_and_the_end_of_the_connection() {
    let site = Site::start(setup("limits: { request_header: 1s }")).await;
    let good = head(good().len()) + &good();
    for part in [
        &good[..9],
        "POST /agent HTTP/1.1\r\nHost: a\r\nX: 1\r",
        &good[..good.find("\r\n\r\n").unwrap() + 3],
    ] {
        site.refuses(part, part, rpc("header_timeout", "null")).await;
    }
    // Byte by byte makes it no longer.
    let mut wire = Wire::to(site.gateway.address).await;
    let dripping = async {
        for byte in good.as_bytes().iter().cycle() {
            wire.send([*byte]).await;
            tokio::time::sleep(STEP).await;
            if tokio::time::timeout(Duration::from_millis(1), wire.more())
                .await
                .is_ok()
            {
                break;
            }
        }
        wire.answer().await
    };
    let answer = tokio::time::timeout(PATIENCE, dripping).await.expect("in time");
    site.refused("byte by byte", &answer, rpc("header_timeout", "null"))
        .await;
    wire.closes().await;
    // The same for a second head on a connection that began well.
    let (answer, mut wire) = site.raw(&good).await;
    site.passed("the first", &answer);
    wire.send(&good[..20]).await;
    site.refused("the second", &wire.answer().await, rpc("header_timeout", "null"))
        .await;
    wire.closes().await;
    site.done().await;
}

#[tokio::test]
async fn who_says_nothing_is_left_without_a_word() {
    let site = Site::start(setup("limits: { request_header: 500ms, keep_alive: 500ms }")).await;
    Wire::to(site.gateway.address).await.closes().await;
    for begin in ["P", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut wire = Wire::to(site.gateway.address).await;
        wire.send(begin).await;
        wire.closes().await;
    }
    // After a call the connection is kept for a while.
    let (answer, mut wire) = site.raw(head(good().len()) + &good()).await;
    site.passed("a call", &answer);
    wire.closes().await;
    // Over HTTP/2: nothing behind the preface, and a header block that does not end.
    for begin in [
        vec![],
        frames::frame(frames::HEADERS, 0, 1, &frames::block(&frames::call_fields())),
    ] {
        let mut frames = Frames::to(site.gateway.address).await;
        frames.send(&begin).await;
        while let Some(frame) = frames.next().await {
            assert!(
                [frames::SETTINGS, frames::PING, frames::WINDOW_UPDATE, GOAWAY].contains(&frame.kind),
                "no answer: {frame:?}"
            );
        }
    }
    site.works().await;
    site.done().await;
}

#[tokio::test]
async fn an_http2_connection_without_a_request_is_left_as_soon_as_one_over_http1() {
    let site = Site::start(setup("limits: { request_header: 1s }")).await;
    let ended = "a2a_gateway_connections_ended_total{limit=\"request_header\"}";
    let headers = frames::frame(frames::HEADERS, 0, 1, &frames::block(&frames::call_fields()));
    let ping = frames::frame(frames::PING, 0, 0, &[7; 8]);
    for (count, begin) in [(1.0, vec![]), (2.0, headers), (3.0, ping)] {
        let mut frames = Frames::to(site.gateway.address).await;
        frames.send(&begin).await;
        while frames.next().await.is_some() {}
        assert_eq!(site.gateway.metric(ended).await, count);
    }
    // Who has called once is kept.
    let mut frames = Frames::to(site.gateway.address).await;
    for stream in [1, 3] {
        frames
            .headers(stream, &frames::block(&frames::call_fields()), false)
            .await;
        frames.data(stream, good().as_bytes(), true).await;
        while frames.telling().await.expect("open").kind != frames::DATA {}
        site.note_passed(1);
        // Longer than a first request may take.
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
    assert_eq!(site.gateway.metric(ended).await, 3.0);
    site.works().await;
    site.done().await;
}

#[tokio::test]
async fn a_body_that_stalls_or_drips_ends_in_408() {
    let site = Site::start(setup("limits: { request_body_idle: 600ms, request_body: 1500ms }")).await;
    let good = good();
    // Not a byte; then the first half.
    for half in ["", &good[..good.len() / 2]] {
        site.refuses("stalled", head(good.len()) + half, rpc("body_timeout", "null"))
            .await;
    }
    let chunked = head(0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    for part in ["", "4", "4\r\n{", "4\r\n    \r\n", "4\r\n    \r\n0\r\n"] {
        site.refuses(
            "chunks stalled",
            format!("{chunked}{part}"),
            rpc("body_timeout", "null"),
        )
        .await;
    }
    // Never still for long, but never done.
    let mut wire = Wire::to(site.gateway.address).await;
    wire.send(head(good.len())).await;
    let dripping = async {
        loop {
            wire.send(" ").await;
            tokio::time::sleep(STEP).await;
            if tokio::time::timeout(Duration::from_millis(1), wire.more())
                .await
                .is_ok()
            {
                break wire.answer().await;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, dripping).await.expect("in time");
    site.refused("byte by byte", &answer, rpc("body_timeout", "null")).await;

    // Over HTTP/2 only the stream ends: the next one of the same connection is served.
    let mut frames = Frames::to(site.gateway.address).await;
    let block = frames::block(&frames::call_fields());
    frames.headers(1, &block, false).await;
    frames.data(1, &good.as_bytes()[..10], false).await;
    assert_eq!(frames.status_of(1).await, 408);
    site.note_refused("body_timeout", 1);
    frames.headers(3, &block, false).await;
    frames.data(3, good.as_bytes(), true).await;
    assert_eq!(frames.status_of(3).await, 200);
    site.note_passed(1);
    site.done().await;
}

#[tokio::test]
async fn a_body_that_is_cut_short_ends_in_400_and_reaches_nobody() {
    let site = Site::usual().await;
    let good = good();
    let chunked = head(0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let whole = format!("{:x}\r\n{good}\r\n", good.len());
    for bytes in [
        head(good.len() + 1) + &good,
        head(good.len()),
        format!("{chunked}{whole}"),
        format!("{chunked}{whole}0\r\n"),
    ] {
        // It closes its own side only, and reads on.
        let mut wire = Wire::to(site.gateway.address).await;
        wire.send(&bytes).await;
        wire.stream.shutdown().await.expect("shut down");
        site.refused("half closed", &wire.answer().await, rpc("body_malformed", "null"))
            .await;
    }
    // It is gone altogether.
    let mut wire = Wire::to(site.gateway.address).await;
    wire.send(head(good.len()) + &good[..10]).await;
    drop(wire);
    site.note_refused("body_malformed", 1);
    eventually("it is counted", || async {
        site.rejects().await["body_malformed"] == 5
    })
    .await;
    site.works().await;
    site.done().await;
}
