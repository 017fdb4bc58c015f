//! Floods by frames that cost the sender nothing: the connection is ended or held back, others are served meanwhile.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::frames::{
    self, CONTINUATION, DATA, END_HEADERS, Frames, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use super::site::{Setup, Site};
use super::wire::Wire;
use crate::harness::eventually;

/// Writes until the gateway closes, it takes nothing more for a second, or `times` are through. Never reads.
fn write_only(mut frames: Frames, bytes: Vec<u8>, times: usize) -> JoinHandle<Frames> {
    tokio::spawn(async move {
        for _ in 0..times {
            match tokio::time::timeout(Duration::from_secs(1), frames.send(&bytes)).await {
                Ok(true) => {}
                Ok(false) | Err(_) => break,
            }
        }
        frames
    })
}

/// While the flood runs others are served; once it is over nothing of it is left.
async fn survives(site: &Site, flood: JoinHandle<Frames>) {
    for _ in 0..5 {
        site.works().await;
    }
    drop(flood.await.expect("the flood ends"));
    site.works().await;
    nothing_is_left(site).await;
}

async fn nothing_is_left(site: &Site) {
    eventually("the flood's connection is gone", || async {
        site.gateway
            .metric("a2a_gateway_connections_open{listener=\"public\"}")
            .await
            == 0.0
    })
    .await;
    site.agent_saw_only_what_passed();
}

/// What the gateway made of the flood's requests is bounded by the flood, and of one kind.
async fn done_with_broken(site: &Site) {
    for (reason, count) in site.rejects().await {
        assert_eq!(reason, "body_malformed");
        site.note_refused("body_malformed", count);
    }
    site.done().await;
}

#[tokio::test]
async fn rapid_reset() {
    let site = Site::usual().await;
    let mut frames = Frames::to(site.gateway.address).await;
    let block = frames::block(&frames::call_fields());
    let flood = tokio::spawn(async move {
        for batch in 0..100_u32 {
            let mut bytes = Vec::new();
            for index in 0..100 {
                let stream = (batch * 100 + index) * 2 + 1;
                bytes.extend(frames::frame(HEADERS, END_HEADERS, stream, &block));
                bytes.extend(frames::frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            }
            match tokio::time::timeout(Duration::from_secs(1), frames.send(&bytes)).await {
                Ok(true) => {}
                Ok(false) | Err(_) => break,
            }
        }
        frames
    });
    survives(&site, flood).await;
    done_with_broken(&site).await;
}

#[tokio::test]
async fn resets_that_the_gateway_is_made_to_send() {
    // Each stream's window is made to overflow, which the gateway must answer with a reset of its own (RFC 9113 §6.9.1).
    let site = Site::usual().await;
    let mut frames = Frames::to(site.gateway.address).await;
    let block = frames::block(&frames::call_fields());
    let flood = tokio::spawn(async move {
        for batch in 0..50_u32 {
            let mut bytes = Vec::new();
            for index in 0..100 {
                let stream = (batch * 100 + index) * 2 + 1;
                bytes.extend(frames::frame(HEADERS, END_HEADERS, stream, &block));
                bytes.extend(frames::frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes()));
            }
            match tokio::time::timeout(Duration::from_secs(1), frames.send(&bytes)).await {
                Ok(true) => {}
                Ok(false) | Err(_) => break,
            }
        }
        frames
    });
    survives(&site, flood).await;
    done_with_broken(&site).await;
}

#[tokio::test]
async fn continuation_without_end_ends_the_connection() {
    let site = Site::usual().await;
    for piece in [vec![], frames::block(&[("x-a", &"a".repeat(4000))])] {
        let mut frames = Frames::to(site.gateway.address).await;
        frames
            .send(&frames::frame(HEADERS, 0, 1, &frames::block(&frames::call_fields())))
            .await;
        let more = frames::frame(CONTINUATION, 0, 1, &piece);
        let mut sent = 0;
        // A megabyte, or ten thousand frames of nothing, is far past every bound.
        while sent < 10_000 && frames.send(&more).await {
            sent += 1;
        }
        while let Some(frame) = frames.next().await {
            assert_ne!(frame.kind, HEADERS, "no answer while the block goes on");
        }
        site.works().await;
        nothing_is_left(&site).await;
    }
    site.done().await;
}

#[tokio::test]
async fn pings_that_nobody_reads_the_answers_of() {
    let site = Site::usual().await;
    let frames = Frames::to(site.gateway.address).await;
    let flood = write_only(frames, frames::frame(PING, 0, 0, &[1; 8]).repeat(1000), 1000);
    survives(&site, flood).await;
    site.done().await;
}

#[tokio::test]
async fn settings_that_nobody_reads_the_answers_of() {
    let site = Site::usual().await;
    let frames = Frames::to(site.gateway.address).await;
    let flood = write_only(
        frames,
        frames::frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]).repeat(1000),
        1000,
    );
    survives(&site, flood).await;
    site.done().await;
}

#[tokio::test]
async fn data_of_nothing_on_an_open_stream() {
    let site = Site::start(Setup {
        top: "limits: { request_body: 2s }",
        ..Setup::default()
    })
    .await;
    let mut frames = Frames::to(site.gateway.address).await;
    frames.headers(1, &frames::block(&frames::call_fields()), false).await;
    let flood = write_only(frames, frames::frame(DATA, 0, 1, &[]).repeat(1000), 200);
    site.works().await;
    // It is told to stop, by the body's time or by the connection's end.
    let mut frames = flood.await.expect("the flood ends");
    loop {
        match frames.telling().await {
            Some(frame) if frame.kind == HEADERS => {
                site.note_refused("body_timeout", 1);
                break;
            }
            Some(frame) => assert!([RST_STREAM, GOAWAY].contains(&frame.kind), "{frame:?}"),
            None => {
                let told = site.rejects().await;
                for (reason, count) in told {
                    let known = ["body_malformed", "body_timeout"]
                        .into_iter()
                        .find(|known| *known == reason);
                    site.note_refused(known.expect("a broken body"), count);
                }
                break;
            }
        }
    }
    drop(frames);
    site.works().await;
    nothing_is_left(&site).await;
    site.done().await;
}

#[tokio::test]
async fn a_hundred_slow_heads_leave_room_for_others() {
    let site = Site::usual().await;
    let mut held = Vec::new();
    for index in 0..100 {
        let mut wire = Wire::to(site.gateway.address).await;
        wire.send(&"POST /agent HTTP/1.1\r\nHost: a\r\n"[..1 + index % 30])
            .await;
        held.push(wire);
    }
    site.works().await;
    drop(held);
    nothing_is_left(&site).await;
    site.done().await;
}
