//! The only reader of whole bodies: counted, and given up when the sender stalls.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use tokio::time::Instant;

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
    Broken(#[source] hyper::Error),
}

/// How much is taken at once on the word of an announced length; past it, memory grows with the bytes that really come.
const AHEAD: usize = 256 * 1024;

/// Reads a body to its end. A length that was announced and is too large is refused before a byte is read.
pub async fn read_whole<B>(mut body: B, bounds: Bounds) -> Result<Bytes, Error>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
{
    let announced = body.size_hint().lower();
    if announced > bounds.bytes as u64 {
        return Err(Error::TooLarge(bounds.bytes));
    }
    let mut first: Option<Bytes> = None;
    let mut rest: Option<BytesMut> = None;
    let mut size = 0;
    let mut patience = Patience::new(bounds);
    while let Some(frame) = patience.next(&mut body).await? {
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > bounds.bytes {
            return Err(Error::TooLarge(bounds.bytes));
        }
        match (&mut first, &mut rest) {
            (None, None) => first = Some(data),
            (Some(begin), None) => {
                let mut joined =
                    BytesMut::with_capacity(usize::try_from(announced).unwrap_or(0).clamp(size, AHEAD.max(size)));
                joined.extend_from_slice(begin);
                joined.extend_from_slice(&data);
                rest = Some(joined);
            }
            (_, Some(joined)) => joined.extend_from_slice(&data),
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(match rest {
        Some(joined) => joined.freeze(),
        None => first.unwrap_or_default(),
    })
}

/// Waits for the next frame, with timers only when there really is a wait.
struct Patience {
    idle: Option<Duration>,
    end: Option<Instant>,
}

impl Patience {
    fn new(bounds: Bounds) -> Self {
        Self {
            idle: bounds.idle,
            end: bounds.whole.map(|whole| Instant::now() + whole),
        }
    }

    async fn next<B>(&mut self, body: &mut B) -> Result<Option<http_body::Frame<Bytes>>, Error>
    where
        B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
    {
        let ready = poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        let frame = match ready {
            Some(frame) => frame,
            None => {
                let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
                let idle = self.idle.map(|idle| Instant::now() + idle);
                match idle.into_iter().chain(self.end).min() {
                    Some(until) => tokio::time::timeout_at(until, next).await.map_err(|_| Error::Stalled)?,
                    None => next.await,
                }
            }
        };
        frame.transpose().map_err(Error::Broken)
    }
}
