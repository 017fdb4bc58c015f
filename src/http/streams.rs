//! The streams of HTTP/2 connections: one whose caller gives it no window (RFC 9113 §5.2) ends in time, though the rest of the
//! connection moves (`limits.response_idle`). What stands still below, `listener::Patient` sees.
//!
//! The last piece of an answer, 64 KiB at most, belongs to h2 once its stream has any window: a caller who then gives no more
//! can hold so much a stream (`limits.http2_streams`), for as long as its connection lives.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use crate::drain::Drain;
use crate::listener::Patience;

tokio::task_local! {
    static OFFER: Cell<Offer>;
}

/// What hyper was given of a stream's answer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Offer {
    pieces: u64,
    /// It has not come back for more.
    untaken: bool,
}

/// hyper was given a piece of an answer's body, or was told to wait for one. It comes for the next piece when the last one
/// has left, so that a stream whose caller gives no window is one that hyper does not come back to.
pub fn offered(piece: bool) {
    // Over HTTP/1.1 nobody asks.
    let _nobody = OFFER.try_with(|offer| {
        offer.set(Offer {
            pieces: offer.get().pieces + u64::from(piece),
            untaken: piece,
        });
    });
}

/// Runs the streams of HTTP/2 connections as jobs.
#[derive(Clone)]
pub struct Streams(Arc<(Drain, Patience)>);

impl Streams {
    pub fn new(drain: &Drain, patience: Patience) -> Self {
        Self(Arc::new((drain.clone(), patience)))
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, job: F) {
        let stream = Stream {
            job,
            seen: Offer::default(),
            sleep: None,
            streams: self.clone(),
        };
        let (drain, _) = &*self.0;
        drain.job(OFFER.scope(Cell::default(), stream));
    }
}

pin_project_lite::pin_project! {
    /// Dropped with its job, the stream is reset.
    struct Stream<F> {
        #[pin]
        job: F,
        seen: Offer,
        sleep: Option<Pin<Box<Sleep>>>,
        streams: Streams,
    }
}

impl<F: Future> Future for Stream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.job.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let offer = OFFER.with(Cell::get);
        if offer != *this.seen {
            *this.seen = offer;
            *this.sleep = None;
        }
        if !offer.untaken {
            return Poll::Pending;
        }
        let (_, patience) = &*this.streams.0;
        let sleep = this
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience.most)));
        ready!(sleep.as_mut().poll(cx));
        patience.ended.inc();
        Poll::Ready(())
    }
}
