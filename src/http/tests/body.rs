//! Whole bodies: how pieces come together, and when a reader gives up.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::http::body::{Bounds, Error, read_whole, read_with_trailers};

enum Step {
    Data(Bytes),
    Silence(Duration),
    Trailers,
}

/// A sender that does as it is told.
struct Sender {
    steps: VecDeque<Step>,
    sleep: Option<Pin<Box<Sleep>>>,
    announced: u64,
}

impl Sender {
    fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            sleep: None,
            announced: 0,
        }
    }
}

impl Body for Sender {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.steps.pop_front() {
                Some(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Step::Trailers) => return Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::new())))),
                Some(Step::Silence(time)) => self.sleep = Some(Box::pin(tokio::time::sleep(time))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.announced);
        hint
    }
}

fn data(text: &'static str) -> Step {
    Step::Data(Bytes::from_static(text.as_bytes()))
}

fn silence(seconds: u64) -> Step {
    Step::Silence(Duration::from_secs(seconds))
}

const BOUNDS: Bounds = Bounds {
    bytes: 8,
    idle: Some(Duration::from_secs(5)),
    whole: Some(Duration::from_secs(12)),
};

#[tokio::test(start_paused = true)]
async fn pieces_come_together_in_their_order_up_to_the_bound() {
    let check = async |steps: Vec<Step>, expected: Result<&str, ()>| {
        let read = read_whole(Sender::of(steps), BOUNDS).await;
        match (read, expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected),
            (Err(Error::TooLarge(8)), Err(())) => {}
            (read, expected) => panic!("{read:?} instead of {expected:?}"),
        }
    };
    check(vec![], Ok("")).await;
    check(vec![data("abc")], Ok("abc")).await;
    check(vec![data(""), data("abc"), Step::Trailers], Ok("abc")).await;
    check(
        vec![data("ab"), silence(1), data("cd"), data("ef"), silence(1)],
        Ok("abcdef"),
    )
    .await;
    check(vec![data("abcdefgh")], Ok("abcdefgh")).await;
    check(vec![data("abcd"), data("efgh")], Ok("abcdefgh")).await;
    check(vec![data("abcdefghi")], Err(())).await;
    check(vec![data("abcd"), data("efgh"), data("i")], Err(())).await;
}

#[tokio::test]
async fn what_stands_behind_a_body_is_given_with_it() {
    for (steps, expected) in [(vec![data("abc"), Step::Trailers], true), (vec![data("abc")], false)] {
        let (read, trailers) = read_with_trailers(Sender::of(steps), BOUNDS).await.unwrap();
        assert_eq!((&*read, trailers.is_some()), (&b"abc"[..], expected));
    }
}

#[tokio::test]
async fn a_body_in_one_piece_is_not_copied() {
    let given = Bytes::from_static(b"abc");
    let read = read_whole(Sender::of([Step::Data(given.clone())]), BOUNDS)
        .await
        .unwrap();
    assert_eq!(read.as_ptr(), given.as_ptr());
}

#[tokio::test]
async fn a_length_that_is_announced_and_too_large_is_refused_unread() {
    let mut sender = Sender::of([data("abc")]);
    sender.announced = 8;
    assert_eq!(read_whole(&mut sender, BOUNDS).await.unwrap(), "abc");
    let mut sender = Sender::of([data("abc")]);
    sender.announced = 9;
    assert!(matches!(read_whole(&mut sender, BOUNDS).await, Err(Error::TooLarge(8))));
    assert_eq!(sender.steps.len(), 1, "nothing was read");
}

#[tokio::test(start_paused = true)]
async fn a_sender_may_pause_but_neither_fall_silent_nor_trickle() {
    /// How long it took, and whether the body came whole.
    async fn check(steps: Vec<Step>, bounds: Bounds, seconds: u64, whole: bool) {
        let begun = Instant::now();
        let read = read_whole(Sender::of(steps), bounds).await;
        // tokio's timers are exact to a millisecond.
        assert_eq!(begun.elapsed().as_secs(), seconds);
        match read {
            Ok(_) => assert!(whole),
            Err(Error::Stalled) => assert!(!whole),
            Err(error) => panic!("{error}"),
        }
    }
    let unbounded = Bounds {
        idle: None,
        whole: None,
        ..BOUNDS
    };
    let trickle = || {
        vec![
            data("a"),
            silence(4),
            data("b"),
            silence(4),
            data("c"),
            silence(3),
            data("d"),
        ]
    };
    check(vec![data("a"), silence(4), data("b")], BOUNDS, 4, true).await;
    check(vec![data("a"), silence(6), data("b")], BOUNDS, 5, false).await;
    check(vec![silence(6)], BOUNDS, 5, false).await;
    check(trickle(), BOUNDS, 11, true).await;
    let slower = [data("e"), silence(4), data("f")];
    check(trickle().into_iter().chain(slower).collect(), BOUNDS, 12, false).await;
    check(vec![data("a"), silence(600), data("b")], unbounded, 600, true).await;
}
