//! A bare pass-through proxy on hyper, done well: what any proxy on these libraries has to pay.
//!
//! It reads no body, checks no caller and remembers nothing. It does what costs the least with hyper and tokio: own
//! upstream connections, kept and reused, each polled in the job of the call that uses it; bodies collected and sent as
//! one piece, event streams handed on frame by frame; jemalloc; one thread; Nagle off on both sides; the timeout for a
//! request's head on. hyper's read buffer keeps its own limit unless `--max-buf-size` says another: a limit of 64 KiB
//! makes two reads and a copy of a body of that size, and 64 KiB calls a third dearer.
//!
//! Limits: plain HTTP/1.1 on both sides, one upstream address, no retry. Not for use outside the benchmark.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use a2a_gateway_bench::args::Args;
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpSocket, TcpStream};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A timer due before any of those timeouts, see `serve`.
const HEARTBEAT: Duration = Duration::from_secs(5);

const MAX_BODY: usize = 8 * 1024 * 1024;
const BACKLOG: u32 = 4096;

/// How many unused upstream connections are kept.
const MAX_IDLE: usize = 1024;

/// Headers that speak of one connection and are not handed on (RFC 9110 §7.6.1).
const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    hyper::header::TRANSFER_ENCODING,
    hyper::header::TE,
    hyper::header::TRAILER,
    hyper::header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

type Failure = Box<dyn Error + Send + Sync>;
type Answer = Response<Either<Full<Bytes>, Relay>>;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::read(&["multi-thread"], &["listen", "upstream", "max-buf-size"])?;
    let listen: SocketAddr = args.need("listen")?;
    let upstream: SocketAddr = args.need("upstream")?;
    let max_buf_size: usize = args.or("max-buf-size", 0)?;
    let max_buf_size = (max_buf_size > 0).then_some(max_buf_size);
    let mut runtime = if args.has("multi-thread") {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1);
        builder
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let served = runtime
        .enable_all()
        .build()?
        .block_on(serve(listen, upstream, max_buf_size));
    served.map_err(|error| error as Box<dyn Error>)
}

async fn serve(listen: SocketAddr, upstream: SocketAddr, max_buf_size: Option<usize>) -> Result<(), Failure> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    let listener = socket.listen(BACKLOG)?;
    let upstream = Arc::new(Upstream {
        address: upstream,
        host: HeaderValue::from_str(&upstream.to_string())?,
        max_buf_size,
        idle: Mutex::new(Vec::new()),
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .half_close(false);
    if let Some(size) = max_buf_size {
        http.max_buf_size(size);
    }
    // tokio wakes itself through an eventfd when a timer is set that is due before all others. With no other timer that
    // is every call's head timeout; with this one it is none.
    tokio::spawn(async {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        loop {
            heartbeat.tick().await;
        }
    });
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, as a rule: those that are open must be able to end.
                writeln!(std::io::stderr(), "accept: {error}")?;
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        stream.set_nodelay(true)?;
        let upstream = Arc::clone(&upstream);
        let service = service_fn(move |request| answer(Arc::clone(&upstream), request));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        // A caller that leaves is no event here.
        tokio::spawn(async move { drop(connection.await) });
    }
}

async fn answer(upstream: Arc<Upstream>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    Ok(forward(&upstream, request).await.unwrap_or_else(|error| {
        let mut answer = Response::new(Either::Left(Full::from(error.to_string())));
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        answer
    }))
}

async fn forward(upstream: &Arc<Upstream>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let (mut head, body) = request.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
    remove_hop_by_hop(&mut head.headers);
    head.headers.insert(HOST, upstream.host.clone());

    let mut link = upstream.link().await?;
    let response = link.sender.send_request(Request::from_parts(head, Full::new(body)));
    let mut response = pin!(response);
    let response = poll_fn(|cx| {
        link.drive(cx);
        response.as_mut().poll(cx)
    })
    .await?;

    let (mut head, body) = response.into_parts();
    remove_hop_by_hop(&mut head.headers);
    let streams = head
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let relay = Relay {
        link: Some(link),
        body,
        upstream: Arc::clone(upstream),
    };
    if streams {
        return Ok(Response::from_parts(head, Either::Right(relay)));
    }
    let body = Limited::new(relay, MAX_BODY).collect().await?.to_bytes();
    Ok(Response::from_parts(head, Either::Left(Full::new(body))))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

struct Upstream {
    address: SocketAddr,
    host: HeaderValue,
    max_buf_size: Option<usize>,
    /// The last one used is taken first, so that few are kept warm.
    idle: Mutex<Vec<Link>>,
}

impl Upstream {
    async fn link(&self) -> Result<Link, Failure> {
        loop {
            let Some(mut link) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() else {
                break;
            };
            // Nobody polled it while it lay here: see whether the agent has closed it meanwhile.
            let usable = poll_fn(|cx| Poll::Ready(link.drive(cx))).await && link.sender.is_ready();
            if usable {
                return Ok(link);
            }
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut http = hyper::client::conn::http1::Builder::new();
        if let Some(size) = self.max_buf_size {
            http.max_buf_size(size);
        }
        let (sender, connection) = http.handshake(TokioIo::new(stream)).await?;
        Ok(Link {
            sender,
            connection: Some(connection),
        })
    }

    fn keep(&self, link: Link) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if link.sender.is_ready() && idle.len() < MAX_IDLE {
            idle.push(link);
        }
    }
}

/// An upstream connection, polled by whoever uses it.
struct Link {
    sender: SendRequest<Full<Bytes>>,
    /// `None` when it has ended.
    connection: Option<Connection<TokioIo<TcpStream>, Full<Bytes>>>,
}

impl Link {
    /// Moves the connection on; false when it has ended.
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(connection) = self.connection.as_mut()
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.connection = None;
        }
        self.connection.is_some()
    }
}

/// An upstream's body together with the connection that brings it.
struct Relay {
    /// `None` once the body has ended and the connection was given back.
    link: Option<Link>,
    body: Incoming,
    upstream: Arc<Upstream>,
}

impl Relay {
    /// Gives the connection back. Whoever drops the body earlier closes the connection, and the agent learns of it.
    fn give_back(&mut self, cx: &mut Context<'_>) {
        if let Some(mut link) = self.link.take() {
            // The connection says that it can take the next request only when it is polled after the body's last byte.
            if link.drive(cx) {
                self.upstream.keep(link);
            }
        }
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(link) = self.link.as_mut() {
            link.drive(cx);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // hyper's server polls no further once `is_end_stream` holds, so the final `None` may never be asked for.
        if frame.is_none() || self.body.is_end_stream() {
            self.give_back(cx);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
