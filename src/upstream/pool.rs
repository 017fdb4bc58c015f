//! The connections to one endpoint.
//!
//! HTTP/1.1: a stack of idle connections for each class, newest first, so that what is not needed grows old and is dropped.
//! HTTP/2: connections shared by many calls, another one opened before a connection is full. The number of connections is
//! bounded; at the bound a call is refused at once rather than queued. Once what the gateway trusts or shows is another, a
//! connection that was made before serves its exchanges to the end and no new one; so does one to an address that the
//! endpoint's name does not have any more, and one of HTTP/2 on which the agent was silent for too long.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use http::{Request, response};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::answer::{self, Body};
use super::connect::{self, Connector, Io};
use super::name::Name;
use super::{Error, http1};
use crate::balance::Endpoint;
use crate::config;
use crate::drain::Drain;
use crate::observe::AgentMetrics;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Unary,
    Stream,
}

/// 80 % of the 100 streams that servers usually allow; fewer where one allows fewer.
const STREAMS_PER_CONNECTION: u32 = 80;
const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;
/// What all streams of a connection may leave unread: callers who read nothing hold up no other.
const HTTP2_CONNECTION_WINDOW: u32 = STREAMS_PER_CONNECTION * HTTP2_STREAM_WINDOW;
/// A peer that went without a goodbye is noticed within two of these.
const HTTP2_PING: Duration = Duration::from_secs(20);
/// Servers of gRPC end connections on which more than one comes within five minutes, or while there is no call.
const GRPC_PING: Duration = Duration::from_secs(310);

type Http1 = http1::Connection<Io>;
type Http2 = http2::SendRequest<Full<Bytes>>;

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

/// Nobody watches it: that the agent closed it is found when it is to be used, or by the sweep.
struct Idle {
    connection: Http1,
    since: Instant,
    place: OwnedSemaphorePermit,
    made: Made,
}

struct Multiplexed {
    sender: Http2,
    streams: AtomicUsize,
    /// How many the server allows, and this gateway opens.
    most: Arc<AtomicUsize>,
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
        while let Some(mut idle) = self.pop(class) {
            if self.is_usable(&mut idle) {
                return Ok(self.lease_http1(idle.connection, idle.place, idle.made, class, true));
            }
        }
        if let Some(shared) = self.share() {
            return Ok(Lease {
                line: Line::Http2(Share(shared)),
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
        let place = self.place(class).ok_or_else(|| Error::Busy {
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
        if speaks_http2 {
            let grpc = self.connector.speaks_grpc();
            let (sender, mut conn) = http2::Builder::new(self.drain.clone())
                .timer(TokioTimer::new())
                .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
                .initial_stream_window_size(HTTP2_STREAM_WINDOW)
                .max_header_list_size(u32::try_from(self.header_bytes).unwrap_or(u32::MAX))
                .keep_alive_interval(if grpc { GRPC_PING } else { HTTP2_PING })
                .keep_alive_timeout(HTTP2_PING)
                .keep_alive_while_idle(!grpc)
                .handshake(TokioIo::new(io))
                .await
                .map_err(|source| failed(connect::Error::Http(source)))?;
            let most = Arc::new(AtomicUsize::new(STREAMS_PER_CONNECTION as usize));
            let told = most.clone();
            self.drain.aside(poll_fn(move |cx| {
                let polled = conn.poll_unpin(cx).map(drop);
                let allowed = conn.current_max_send_streams();
                told.store(allowed.min(STREAMS_PER_CONNECTION as usize), Ordering::Release);
                polled
            }));
            let shared = Arc::new(Multiplexed {
                sender,
                streams: AtomicUsize::new(1),
                most,
                idle_since: Mutex::new(Instant::now()),
                made,
                _place: place,
            });
            lock(&self.http2).push(shared.clone());
            return Ok(Lease {
                line: Line::Http2(Share(shared)),
                reused: false,
            });
        }
        let connection = http1::Connection::new(io, self.header_bytes);
        Ok(self.lease_http1(connection, place, made, class, false))
    }

    /// For one more connection; where there is none, the oldest that idles for the other class makes room.
    fn place(&self, class: Class) -> Option<OwnedSemaphorePermit> {
        let free = || self.places.clone().try_acquire_owned().ok();
        free().or_else(|| {
            let mut idle = lock(self.stack(match class {
                Class::Unary => Class::Stream,
                Class::Stream => Class::Unary,
            }));
            if idle.is_empty() {
                return None;
            }
            drop(idle.remove(0));
            free()
        })
    }

    fn lease_http1(
        self: &Arc<Self>,
        connection: Http1,
        place: OwnedSemaphorePermit,
        made: Made,
        class: Class,
        reused: bool,
    ) -> Lease {
        let home = Home {
            pool: self.clone(),
            place,
            made,
            class,
        };
        Lease {
            line: Line::Http1(connection, home),
            reused,
        }
    }

    fn is_usable(&self, idle: &mut Idle) -> bool {
        idle.since.elapsed() < self.idle && self.is_current(idle.made) && idle.connection.check_quiet().is_ok()
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
            let most = connection.most.load(Ordering::Acquire);
            self.is_current(connection.made)
                && connection
                    .streams
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |streams| {
                        (streams < most).then_some(streams + 1)
                    })
                    .is_ok()
        });
        free.cloned()
    }

    /// No further call gets it; those that it carries go on.
    pub fn retire(&self, Shared(connection): &Shared) {
        lock(&self.http2).retain(|one| !Arc::ptr_eq(one, connection));
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
                lock(stack).retain_mut(|idle| self.is_usable(idle));
            }
            lock(&self.http2).retain(|connection| {
                let busy = connection.streams.load(Ordering::Acquire) > 0;
                let fresh = lock(&connection.idle_since).elapsed() < self.idle && self.is_current(connection.made);
                !connection.sender.is_closed() && (busy || fresh)
            });
        }
    }
}

/// A connection for one exchange. Dropped, HTTP/1.1 is closed and HTTP/2 loses one stream.
pub struct Lease {
    line: Line,
    reused: bool,
}

enum Line {
    Http1(Http1, Home),
    Http2(Share),
}

/// Where a connection goes when its exchange has ended.
pub struct Home {
    pool: Arc<Pool>,
    place: OwnedSemaphorePermit,
    made: Made,
    class: Class,
}

/// An exchange that got no answer.
pub struct Failed {
    pub error: answer::Error,
    /// The request, if nothing of it was written.
    pub unwritten: Option<Box<Request<Bytes>>>,
}

/// A connection that several calls may be on.
pub struct Shared(Arc<Multiplexed>);

/// One stream of a connection.
pub struct Share(Arc<Multiplexed>);

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

    pub fn shared(&self) -> Option<Shared> {
        match &self.line {
            Line::Http1(..) => None,
            Line::Http2(share) => Some(Shared(share.0.clone())),
        }
    }

    /// Hands the request to the connection; what it returns waits for the head of the answer.
    pub fn send(
        self,
        mut request: Request<Bytes>,
    ) -> Result<impl Future<Output = Result<(response::Parts, Body), Failed>>, Failed> {
        match self.line {
            Line::Http1(mut connection, home) => {
                // An idle one has just been looked at.
                if !self.reused
                    && let Err(error) = connection.check_quiet()
                {
                    return Err(Failed {
                        error: error.into(),
                        unwritten: Some(Box::new(request)),
                    });
                }
                let exchange = connection.send(request);
                Ok(Either::Left(exchange.map(|answered| match answered {
                    Ok((parts, body)) => Ok((parts, Body::http1(body, home))),
                    Err(error) => Err(Failed {
                        error: error.into(),
                        unwritten: None,
                    }),
                })))
            }
            Line::Http2(share) => {
                request.headers_mut().remove(http::header::HOST);
                let exchange = share.0.sender.clone().try_send_request(request.map(Full::new));
                Ok(Either::Right(exchange.map(|answered| match answered {
                    Ok(response) => {
                        let (parts, body) = response.into_parts();
                        Ok((parts, Body::http2(body, share)))
                    }
                    Err(mut failed) => {
                        let unwritten = failed.take_message();
                        Err(Failed {
                            // Its body is still at hand.
                            unwritten: unwritten.map(|request| Box::new(request.map(|_| Bytes::new()))),
                            error: failed.into_error().into(),
                        })
                    }
                })))
            }
        }
    }
}

impl Home {
    /// The answer has ended: the connection may serve the next exchange.
    pub fn take_back(self, connection: Http1) {
        if self.pool.is_current(self.made) {
            let mut idle = lock(self.pool.stack(self.class));
            // Under the lock: whoever closes the pool clears it after saying so.
            if self.pool.closed.load(Ordering::Acquire) {
                return;
            }
            idle.push(Idle {
                connection,
                since: Instant::now(),
                place: self.place,
                made: self.made,
            });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
