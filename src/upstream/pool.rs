//! The connections to one endpoint.
//!
//! HTTP/1.1: a stack of idle connections for each class, newest first, so that what is not needed grows old and is dropped.
//! HTTP/2: connections shared by many calls, another one opened before a connection is full. The number of connections is
//! bounded; at the bound a call is refused at once rather than queued. Once what the gateway trusts or shows is another, a
//! connection that was made before serves its exchanges to the end and no new one; so does one to an address that the
//! endpoint's name does not have any more.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use http::uri::Uri;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Error;
use super::connect::{self, Connector};
use super::name::Name;
use crate::balance::Endpoint;
use crate::config;
use crate::drain::Drain;
use crate::observe::AgentMetrics;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Unary,
    Stream,
}

/// 80 % of the 100 streams that servers usually allow.
const STREAMS_PER_CONNECTION: usize = 80;
/// Stream connections read small events; hyper's default would hold 8 KiB and grow.
const STREAM_READ_BUFFER: usize = 4 * 1024;
/// Half of the window is h2's budget for small DATA frames of slow readers.
const HTTP2_CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;
/// A peer that went without a goodbye is noticed within two of these.
const HTTP2_PING: Duration = Duration::from_secs(20);

type Http1 = http1::SendRequest<Full<Bytes>>;
type Http2 = http2::SendRequest<Full<Bytes>>;
type Failed = TrySendError<Request<Full<Bytes>>>;

pub struct Pool {
    endpoint: Arc<Endpoint>,
    connector: connect::Shared,
    name: Name,
    dns_refresh: Duration,
    unary: Mutex<Vec<Idle>>,
    streams: Mutex<Vec<Idle>>,
    http2: Mutex<Vec<Arc<Multiplexed>>>,
    places: Arc<Semaphore>,
    most: usize,
    idle: Duration,
    header_bytes: usize,
    /// Nothing is kept for a next exchange, because there will be none.
    closed: AtomicBool,
    drain: Drain,
    metrics: Arc<AgentMetrics>,
}

/// What a connection was made with and to; it is out of date once either is another one.
#[derive(Clone, Copy, Debug)]
struct Made {
    generation: u64,
    /// `None` where the URL has an address instead of a name.
    peer: Option<IpAddr>,
}

struct Idle {
    sender: Http1,
    since: Instant,
    place: OwnedSemaphorePermit,
    made: Made,
}

struct Multiplexed {
    sender: Http2,
    streams: AtomicUsize,
    idle_since: Mutex<Instant>,
    made: Made,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    pub fn new(
        endpoint: Arc<Endpoint>,
        connector: Arc<Connector>,
        config: &config::Upstream,
        drain: &Drain,
        metrics: &Arc<AgentMetrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: Name::of(&endpoint.uri),
            dns_refresh: config.dns_refresh,
            endpoint,
            connector,
            unary: Mutex::default(),
            streams: Mutex::default(),
            http2: Mutex::default(),
            places: Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS))),
            most: config.max_connections,
            idle: config.pool_idle,
            header_bytes: config.answer_header_bytes,
            closed: AtomicBool::new(false),
            drain: drain.clone(),
            metrics: metrics.clone(),
        })
    }

    /// A connection for one exchange: an idle one, a share of an HTTP/2 one, or a new one.
    pub async fn lease(self: &Arc<Self>, class: Class) -> Result<Lease, Error> {
        while let Some(Idle {
            mut sender,
            since,
            place,
            made,
        }) = self.pop(class)
        {
            if since.elapsed() < self.idle && self.is_current(made) && !sender.is_closed() {
                // The connection's own job may not have seen yet that the last exchange is over.
                if sender.is_ready() || sender.ready().await.is_ok() {
                    return Ok(self.lease_http1(sender, place, made, class, true));
                }
            }
        }
        if let Some(shared) = self.share() {
            return Ok(Lease {
                pool: self.clone(),
                line: Line::Http2(Share(shared)),
                class,
                reused: true,
            });
        }
        // Boxed: a handshake's state is several KiB, which every call on an open connection would carry too.
        Box::pin(self.open(class)).await
    }

    async fn open(self: &Arc<Self>, class: Class) -> Result<Lease, Error> {
        let failed = |source| Error::Connect {
            endpoint: self.endpoint.url.clone(),
            source,
        };
        let place = self.places.clone().try_acquire_owned().map_err(|_| Error::Busy {
            endpoint: self.endpoint.url.clone(),
            most: self.most,
        })?;
        let generation = self.connector.generation();
        let stream = class == Class::Stream;
        let secure = self.endpoint.uri.scheme_str() == Some("https");
        let connect = self.connector.connect(&self.name, secure, stream);
        let (io, speaks_http2) = connect.await.map_err(failed)?;
        // Of an address in the URL itself there is nothing to compare.
        let peer = self.name.can_move().then(|| connect::peer(&io)).flatten();
        let made = Made { generation, peer };
        self.metrics.upstream_connections.inc();
        let io = TokioIo::new(io);
        if speaks_http2 {
            let (sender, conn) = http2::Builder::new(self.drain.clone())
                .timer(TokioTimer::new())
                .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
                .initial_stream_window_size(HTTP2_STREAM_WINDOW)
                .max_header_list_size(u32::try_from(self.header_bytes).unwrap_or(u32::MAX))
                .keep_alive_interval(HTTP2_PING)
                .keep_alive_timeout(HTTP2_PING)
                .keep_alive_while_idle(true)
                .handshake(io)
                .await
                .map_err(|source| failed(connect::Error::Http(source)))?;
            self.drain.aside(conn.map(drop));
            let shared = Arc::new(Multiplexed {
                sender,
                streams: AtomicUsize::new(1),
                idle_since: Mutex::new(Instant::now()),
                made,
                _place: place,
            });
            lock(&self.http2).push(shared.clone());
            return Ok(Lease {
                pool: self.clone(),
                line: Line::Http2(Share(shared)),
                class,
                reused: false,
            });
        }
        let mut builder = http1::Builder::new();
        builder.max_header_size(self.header_bytes);
        if stream {
            builder.read_buf_exact_size(Some(STREAM_READ_BUFFER));
        }
        let (sender, conn) = builder
            .handshake(io)
            .await
            .map_err(|source| failed(connect::Error::Http(source)))?;
        // Errors reach whoever waits for an answer on this connection.
        // Mapped, because an async block would hold it twice.
        self.drain.aside(conn.map(drop));
        Ok(self.lease_http1(sender, place, made, class, false))
    }

    fn lease_http1(
        self: &Arc<Self>,
        sender: Http1,
        place: OwnedSemaphorePermit,
        made: Made,
        class: Class,
        reused: bool,
    ) -> Lease {
        Lease {
            pool: self.clone(),
            line: Line::Http1 { sender, place, made },
            class,
            reused,
        }
    }

    fn is_current(&self, made: Made) -> bool {
        made.generation == self.connector.generation() && made.peer.is_none_or(|peer| !self.name.is_gone(peer))
    }

    fn pop(&self, class: Class) -> Option<Idle> {
        lock(self.stack(class)).pop()
    }

    fn stack(&self, class: Class) -> &Mutex<Vec<Idle>> {
        match class {
            Class::Unary => &self.unary,
            Class::Stream => &self.streams,
        }
    }

    fn share(&self) -> Option<Arc<Multiplexed>> {
        let mut shared = lock(&self.http2);
        shared.retain(|connection| !connection.sender.is_closed());
        let free = shared.iter().find(|connection| {
            self.is_current(connection.made)
                && connection
                    .streams
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |streams| {
                        (streams < STREAMS_PER_CONNECTION).then_some(streams + 1)
                    })
                    .is_ok()
        });
        free.cloned()
    }

    /// Drops what idles, and from now on every connection when its exchange has ended.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for stack in [&self.unary, &self.streams] {
            lock(stack).clear();
        }
        lock(&self.http2).clear();
    }

    /// Follows the endpoint's name for as long as there are connections that it may leave behind; a service for as long as
    /// the process.
    pub async fn follow(self: Arc<Self>) {
        while self.name.can_move() {
            tokio::time::sleep(self.dns_refresh).await;
            if self.places.available_permits() == self.most.min(Semaphore::MAX_PERMITS) {
                continue;
            }
            let endpoint = &*self.endpoint.url;
            match self.name.refresh().await {
                Ok(true) => tracing::info!(endpoint, "the addresses of the endpoint's name have changed"),
                Ok(false) => {}
                Err(error) => tracing::warn!(endpoint, %error, "the endpoint's name cannot be looked up"),
            }
        }
    }

    /// Drops what idled too long; a service for as long as the process.
    pub async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(self.idle.max(Duration::from_secs(1)) / 2);
        loop {
            ticks.tick().await;
            for stack in [&self.unary, &self.streams] {
                lock(stack).retain(|idle| {
                    idle.since.elapsed() < self.idle && self.is_current(idle.made) && !idle.sender.is_closed()
                });
            }
            lock(&self.http2).retain(|connection| {
                let busy = connection.streams.load(Ordering::Acquire) > 0;
                let fresh = lock(&connection.idle_since).elapsed() < self.idle && self.is_current(connection.made);
                !connection.sender.is_closed() && (busy || fresh)
            });
        }
    }
}

/// A connection while one exchange uses it. Dropped: HTTP/1.1 is closed, because its answer may not have ended; HTTP/2
/// loses one stream.
pub struct Lease {
    pool: Arc<Pool>,
    line: Line,
    class: Class,
    reused: bool,
}

enum Line {
    Http1 {
        sender: Http1,
        place: OwnedSemaphorePermit,
        made: Made,
    },
    Http2(Share),
}

struct Share(Arc<Multiplexed>);

impl Drop for Share {
    fn drop(&mut self) {
        *lock(&self.0.idle_since) = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Lease {
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Hands the request to the connection; what it returns waits for the head of the answer.
    pub fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Result<Response<Incoming>, Failed>> + use<> {
        match &mut self.line {
            Line::Http1 { sender, .. } => {
                *request.uri_mut() = origin_form(request.uri());
                Either::Left(sender.try_send_request(request))
            }
            Line::Http2(share) => {
                request.headers_mut().remove(http::header::HOST);
                Either::Right(share.0.sender.clone().try_send_request(request))
            }
        }
    }

    /// The answer has ended: the connection may serve the next exchange.
    pub fn give_back(self) {
        if let Line::Http1 { sender, place, made } = self.line
            && self.pool.is_current(made)
            && !sender.is_closed()
        {
            let mut idle = lock(self.pool.stack(self.class));
            // Under the lock: whoever closes the pool clears it after saying so.
            if self.pool.closed.load(Ordering::Acquire) {
                return;
            }
            idle.push(Idle {
                sender,
                since: Instant::now(),
                place,
                made,
            });
        }
    }
}

/// RFC 9112 §3.2.1.
fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query()
        .map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
