//! The only reader of whole bodies: counted, and given up when the sender stalls.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use tokio::time::{Instant, Sleep};

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub bytes: usize,
    /// Between two pieces.
    pub idle: Option<Duration>,
    /// From the first look to the end.
    pub whole: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the body stalled")]
    Stalled,
    #[error("the body broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How much is taken at once on the word of an announced length; past it, memory grows with the bytes that really come.
const AHEAD: usize = 256 * 1024;

/// Reads a body to its end. A length that was announced and is too large is refused before a byte is read.
pub fn read_whole<B>(body: B, bounds: Bounds) -> ReadWhole<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    ReadWhole {
        body,
        bounds,
        pieces: Pieces::None,
        trailers: None,
        end: None,
        stall: None,
        waits: false,
    }
}

/// The same, with what stands behind the body.
pub async fn read_with_trailers<B>(body: B, bounds: Bounds) -> Result<(Bytes, Option<Box<HeaderMap>>), Error>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    let mut reading = read_whole(body, bounds);
    let bytes = (&mut reading).await?;
    Ok((bytes, reading.trailers))
}

/// A body that is being read. A state machine by hand: calls wait in it, and the compiler's would be three times its size.
pub struct ReadWhole<B> {
    body: B,
    bounds: Bounds,
    pieces: Pieces,
    trailers: Option<Box<HeaderMap>>,
    /// When the whole must be here; known from the first wait on, which is in the first look.
    end: Option<Instant>,
    /// Only once there was a wait.
    stall: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

enum Pieces {
    None,
    /// Usually all of the body: nothing is copied.
    One(Bytes),
    Joined(BytesMut),
}

impl<B> Future for ReadWhole<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    type Output = Result<Bytes, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.pieces, Pieces::None) && this.body.size_hint().lower() > this.bounds.bytes as u64 {
            return Poll::Ready(Err(Error::TooLarge(this.bounds.bytes)));
        }
        loop {
            let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
                ready!(this.poll_stall(cx));
                return Poll::Ready(Err(Error::Stalled));
            };
            this.waits = false;
            let Some(frame) = frame.transpose().map_err(|error| Error::Broken(error.into()))? else {
                break;
            };
            match frame.into_data() {
                Ok(data) => {
                    let left = usize::try_from(this.body.size_hint().lower()).unwrap_or(0);
                    let size = this.pieces.add(data, left);
                    if size > this.bounds.bytes {
                        return Poll::Ready(Err(Error::TooLarge(this.bounds.bytes)));
                    }
                }
                Err(frame) => this.trailers = frame.into_trailers().ok().map(Box::new),
            }
            if this.body.is_end_stream() {
                break;
            }
        }
        Poll::Ready(Ok(std::mem::replace(&mut this.pieces, Pieces::None).whole()))
    }
}

impl<B> ReadWhole<B> {
    /// Ready when the sender has been silent for too long, or the whole took too long.
    fn poll_stall(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waits {
            self.waits = true;
            let now = Instant::now();
            if self.end.is_none() {
                self.end = self.bounds.whole.map(|whole| now + whole);
            }
            let idle = self.bounds.idle.map(|idle| now + idle);
            let Some(until) = idle.into_iter().chain(self.end).min() else {
                return Poll::Pending;
            };
            match &mut self.stall {
                Some(stall) => stall.as_mut().reset(until),
                None => self.stall = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
        match &mut self.stall {
            Some(stall) => stall.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Pieces {
    /// Adds a piece and gives the size of all; `left` more bytes are announced.
    fn add(&mut self, data: Bytes, left: usize) -> usize {
        *self = match std::mem::replace(self, Self::None) {
            Self::None => Self::One(data),
            Self::One(first) => {
                let size = first.len() + data.len();
                let room = size.saturating_add(left).min(AHEAD.max(size));
                let mut joined = BytesMut::with_capacity(room);
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&data);
                Self::Joined(joined)
            }
            Self::Joined(mut joined) => {
                joined.extend_from_slice(&data);
                Self::Joined(joined)
            }
        };
        match self {
            Self::None => 0,
            Self::One(data) => data.len(),
            Self::Joined(joined) => joined.len(),
        }
    }

    fn whole(self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::One(data) => data,
            Self::Joined(joined) => joined.freeze(),
        }
    }
}
