//! One downstream connection from its first byte to its end: which HTTP version, how long it may idle, how it drains.
//!
//! HTTP/2 over cleartext is recognised by its preface (prior knowledge, RFC 9113 §3.3), over TLS by ALPN. Every timer that
//! hyper leaves to its users is set here: the first byte, an idle connection, a dead peer, the end of a drain.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::IntCounter;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::Service;

use super::activity::{Active, Activity};
use super::framing::{self, Guard, Refusal};
use super::streams::{self, Streams};
use super::woken::Woken;
use crate::config::Limits;
use crate::drain::Drain;
use crate::listener::{Patience, Patient};
use crate::observe::Metrics;

/// What the handshake agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
    /// Cleartext: the first bytes tell.
    Sniff,
}

/// How long a connection may take to send its broken ends after the drain deadline, and for a first request that was on its
/// way when the drain began.
const LAST_WORDS: Duration = Duration::from_secs(1);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection in service.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Settings {
    bounds: framing::Bounds,
    keep_alive: Duration,
    http1: hyper::server::conn::http1::Builder,
    http2: hyper::server::conn::http2::Builder<Streams>,
    drain: Drain,
    patience: Patience,
    ended: Ended,
}

/// Connections that were ended, by the limit.
struct Ended {
    pipelined: IntCounter,
    /// There was no request in time.
    unused: IntCounter,
}

impl Settings {
    pub fn new(limits: &Limits, drain: &Drain, metrics: &Metrics) -> Self {
        let ended = |limit| metrics.connections_ended.with_label_values(&[limit]);
        let mut http1 = hyper::server::conn::http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            // `framing` bounds the head and its time; hyper's own bounds stand behind it.
            .header_read_timeout(None)
            .half_close(false);
        // Up to its own 100 hyper keeps the fields of a head on the stack, past it on the heap.
        if limits.header_fields > 100 {
            http1.max_headers(limits.header_fields + 1);
        }
        // `max_buf_size` stays hyper's: the guard bounds the head, and a smaller buffer cuts a 64 KiB body in two reads.
        let patience = Patience {
            most: limits.response_idle,
            ended: ended("response_idle"),
        };
        let mut http2 = hyper::server::conn::http2::Builder::new(Streams::new(drain, patience.clone()));
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(limits.http2_stream_window)
            .initial_connection_window_size(limits.http2_connection_window)
            .max_concurrent_streams(limits.http2_streams)
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(1024)
            .max_send_buf_size(limits.stream_buffer_bytes)
            .keep_alive_interval(limits.http2_ping)
            .keep_alive_timeout(limits.http2_ping);
        Self {
            bounds: framing::Bounds {
                header_bytes: limits.header_bytes,
                header_fields: limits.header_fields,
                target_bytes: limits.target_bytes,
                header_timeout: limits.request_header,
            },
            keep_alive: limits.keep_alive,
            http1,
            http2,
            drain: drain.clone(),
            patience,
            ended: Ended {
                pipelined: ended("header_bytes"),
                unused: ended("request_header"),
            },
        }
    }

    /// The connection as it is to be used, below TLS.
    pub fn patient(&self, stream: TcpStream) -> Patient {
        Patient::new(stream, self.patience.clone())
    }

    /// Begins to serve a connection; what it returns goes on until the connection ends. In two steps, so that a connection
    /// in service, of which there may be many, holds nothing that only its beginning needed.
    ///
    /// `service` is made per connection; it learns refused heads from `Refusal`. `None`: the caller left before a request.
    pub async fn begin<IO, S, F, B>(
        self: Arc<Self>,
        mut io: IO,
        protocol: Protocol,
        service: impl FnOnce(Refusal) -> S,
    ) -> Option<Serving>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future = F> + Clone + Send + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let accepted = Instant::now();
        let activity = Activity::new();
        let refusal = Refusal::default();
        let service = Counted {
            inner: service(refusal.clone()),
            activity: activity.clone(),
        };
        let (protocol, seen) = match protocol {
            Protocol::Sniff => {
                let sniffed = tokio::time::timeout(self.bounds.header_timeout, sniff(&mut io));
                match self.unless_leaving(sniffed).await {
                    Some(Ok(Ok(Some(sniffed)))) => sniffed,
                    // Closed or broken before a request, or nothing at all came: nobody waits for an answer.
                    Some(Err(_)) => {
                        self.ended.unused.inc();
                        return None;
                    }
                    Some(Ok(Ok(None) | Err(_))) | None => return None,
                }
            }
            known @ (Protocol::Http1 | Protocol::Http2) => (known, Vec::new()),
        };
        let io = Prefixed { seen, at: 0, io };
        Some(if protocol == Protocol::Http2 {
            let conn = self.http2.serve_connection(TokioIo::new(io), service);
            let unused = Some(accepted + self.bounds.header_timeout);
            Box::pin(self.watch(Box::pin(conn), activity, unused, |conn| conn.graceful_shutdown()))
        } else {
            let io = Guard::new(
                io,
                self.bounds,
                refusal,
                accepted,
                activity.clone(),
                self.ended.pipelined.clone(),
            );
            let conn = self.http1.serve_connection(TokioIo::new(io), service);
            // The guard waits for the first head.
            Box::pin(self.watch(Box::pin(conn), activity, None, |conn| conn.graceful_shutdown()))
        })
    }

    /// What a connection does before its first request; `None` if a drain begins first and a moment later there is none yet.
    pub async fn unless_leaving<T>(&self, beginning: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = beginning => Some(done),
            () = async {
                self.drain.draining().await;
                tokio::time::sleep(LAST_WORDS).await;
            } => None,
        }
    }

    /// The connection is boxed, because a future that takes it by value would hold it several times over.
    ///
    /// `unused`: until when there must be a first request.
    async fn watch<C>(
        self: Arc<Self>,
        mut conn: Pin<Box<C>>,
        activity: Activity,
        unused: Option<Instant>,
        shut: impl Fn(Pin<&mut C>),
    ) where
        C: Future<Output = Result<(), hyper::Error>>,
    {
        let mut idle = pin!(match unused {
            Some(until) => tokio::time::sleep_until(until),
            None => tokio::time::sleep(self.keep_alive),
        });
        let mut draining = pin!(self.drain.draining());
        let mut deadline = pin!(self.drain.deadline());
        let (mut drained, mut told) = (false, false);
        loop {
            let event = pin!(Woken::new(async {
                tokio::select! {
                    biased;
                    () = idle.as_mut() => Event::Idle,
                    () = draining.as_mut(), if !drained => Event::Drain,
                    () = deadline.as_mut() => Event::Deadline,
                }
            }));
            let event = tokio::select! {
                biased;
                // An error here is the caller's: a reset, a broken frame. Requests have recorded themselves.
                _ended = conn.as_mut() => return,
                event = event => event,
            };
            match event {
                Event::Idle => match activity.idle_for(self.keep_alive) {
                    // hyper would wait for a first request even now.
                    _ if drained && !activity.is_used() => return,
                    _ if unused.is_some() && !activity.is_used() => {
                        if told {
                            return;
                        }
                        // A request that was on its way is still answered.
                        self.ended.unused.inc();
                        shut(conn.as_mut());
                        told = true;
                        idle.as_mut().reset(Instant::now() + LAST_WORDS);
                    }
                    Err(left) => idle.as_mut().reset(Instant::now() + left),
                    // A peer that ignores the goodbye is left after one more period.
                    Ok(()) if told => return,
                    Ok(()) => {
                        shut(conn.as_mut());
                        told = true;
                        idle.as_mut().reset(Instant::now() + self.keep_alive);
                    }
                },
                Event::Drain => {
                    shut(conn.as_mut());
                    drained = true;
                    if !activity.is_used() {
                        idle.as_mut().reset(Instant::now() + LAST_WORDS);
                    }
                }
                Event::Deadline => {
                    // The bodies see the same deadline and end as broken; give the connection time to say so.
                    let _late = tokio::time::timeout(LAST_WORDS, conn.as_mut()).await;
                    return;
                }
            }
        }
    }
}

/// What happens to a connection beside its traffic.
enum Event {
    Idle,
    Drain,
    Deadline,
}

/// Reads until the bytes are, or cannot become, the HTTP/2 preface.
async fn sniff<IO: AsyncRead + Unpin>(io: &mut IO) -> io::Result<Option<(Protocol, Vec<u8>)>> {
    let mut seen = Vec::with_capacity(PREFACE.len());
    loop {
        let mut byte = [0_u8; 24];
        let room = PREFACE.len() - seen.len();
        let count = io.read(byte.get_mut(..room).unwrap_or_default()).await?;
        if count == 0 {
            return Ok(None);
        }
        seen.extend_from_slice(byte.get(..count).unwrap_or_default());
        if !PREFACE.starts_with(&seen) {
            return Ok(Some((Protocol::Http1, seen)));
        }
        if seen.len() == PREFACE.len() {
            return Ok(Some((Protocol::Http2, seen)));
        }
    }
}

/// A stream whose first bytes were read already.
struct Prefixed<IO> {
    seen: Vec<u8>,
    at: usize,
    io: IO,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Prefixed<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.seen.is_empty() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let rest = this.seen.get(this.at..).unwrap_or_default();
        let step = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..step).unwrap_or_default());
        this.at += step;
        if this.at < this.seen.len() {
            return Poll::Ready(Ok(()));
        }
        this.seen = Vec::new();
        // What is there already belongs to the same head: one look instead of two.
        match Pin::new(&mut this.io).poll_read(cx, buf) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Prefixed<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// The service as hyper calls it: counted, and always ready, as every stage is; so nothing waits for `poll_ready`.
struct Counted<S> {
    inner: S,
    activity: Activity,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    B: Body,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = CountedFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        CountedFuture {
            active: Some(self.activity.enter()),
            inner: self.inner.clone().call(request),
        }
    }
}

pin_project_lite::pin_project! {
    struct CountedFuture<F> {
        active: Option<Active>,
        #[pin]
        inner: F,
    }
}

impl<F, B, E> Future for CountedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        let active = this.active.take();
        if let Some(active) = &active
            && response.body().size_hint().exact().is_none()
        {
            active.streams();
        }
        Poll::Ready(Ok(response.map(|body| CountedBody { _active: active, body })))
    }
}

pin_project_lite::pin_project! {
    struct CountedBody<B> {
        _active: Option<Active>,
        #[pin]
        body: B,
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = self.project().body.poll_frame(cx);
        streams::offered(matches!(frame, Poll::Ready(Some(Ok(_)))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
