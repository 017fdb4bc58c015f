//! One small request: how the gateway reads key sets and agent cards, asks for tokens and about credentials, and tells webhooks.
//!
//! Everything is bounded: the whole exchange by one deadline, the head and the body by size. The connection is opened for
//! the request, driven by the same future and closed after it, so dropping the future leaves nothing behind. HTTP/1.1
//! only: one request a connection gains nothing from streams. A redirect is an error, because a URL that an answer names
//! is not one that the operator allowed; cookies, proxies and decompression are deliberately absent. hyper's HTTP/1 client
//! has no timer of its own, the deadline around the exchange is the only clock.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

/// hyper refuses a smaller read buffer.
const MIN_BUFFER: usize = 8 * 1024;
const MAX_FIELDS: usize = 100;
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("a2a-gateway/", env!("CARGO_PKG_VERSION")));

/// Bounds and extra header fields of one request.
#[derive(Clone, Debug)]
pub struct Options {
    pub headers: HeaderMap,
    /// Largest body.
    pub max_bytes: usize,
    /// For the whole exchange: name lookup, connect, handshake, head and body.
    pub timeout: Duration,
    /// Largest status line and header section.
    pub max_header_bytes: usize,
    /// The name to verify and to send instead of the URL's host.
    pub server_name: Option<ServerName<'static>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            headers: HeaderMap::new(),
            max_bytes: 1024 * 1024,
            timeout: Duration::from_secs(10),
            max_header_bytes: 64 * 1024,
            server_name: None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Fetched {
    /// Never a redirect; 304 stays visible for conditional requests.
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Names the operation and `host:port`; never the path, the query or a credential.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the URL cannot be fetched: {0}")]
    Url(&'static str),
    #[error("{host} has no address that may be connected to")]
    Forbidden { host: String },
    #[error("cannot connect to {host}")]
    Connect {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("the TLS handshake with {host} failed; check its certificate and the CA")]
    Tls {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("{host} did not answer the request")]
    Exchange {
        host: String,
        #[source]
        source: hyper::Error,
    },
    #[error("{host} broke off while its answer was read")]
    Body {
        host: String,
        #[source]
        source: hyper::Error,
    },
    #[error("{host} answered with a redirect ({status}), which is not followed")]
    Redirect { host: String, status: StatusCode },
    #[error("the header section from {host} is larger than {max} bytes")]
    HeaderTooLarge { host: String, max: usize },
    #[error("the answer from {host} is larger than {max} bytes")]
    BodyTooLarge { host: String, max: usize },
    #[error("{host} did not complete its answer within {after:?}")]
    Timeout { host: String, after: Duration },
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    tls: TlsConnector,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetcher")
    }
}

impl Fetcher {
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Self {
        let mut tls = Arc::unwrap_or_clone(tls);
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self {
            tls: TlsConnector::from(Arc::new(tls)),
        }
    }

    pub async fn get(&self, url: &str, options: &Options) -> Result<Fetched, Error> {
        self.ask(url, Method::GET, Bytes::new(), options).await
    }

    /// Posts to an address of the configuration, and reads what it answers.
    pub async fn submit(&self, url: &str, body: Bytes, options: &Options) -> Result<Fetched, Error> {
        self.ask(url, Method::POST, body, options).await
    }

    async fn ask(&self, url: &str, method: Method, body: Bytes, options: &Options) -> Result<Fetched, Error> {
        let target = Target::parse(url)?;
        let request = target.request(method, body, options);
        let exchange = async {
            let stream = TcpStream::connect((target.host.as_str(), target.port)).await;
            self.exchange(stream, &target, request, Wanted::Answer, options).await
        };
        target.within(options.timeout, exchange).await
    }

    /// Posts to an address that `may` be connected to. The name is looked up once, and what was judged is what is connected to.
    /// Of the answer only the status is read: there may be more of it than anybody wants.
    pub async fn post(
        &self,
        url: &str,
        body: Bytes,
        may: impl Fn(IpAddr) -> bool,
        options: &Options,
    ) -> Result<StatusCode, Error> {
        let target = Target::parse(url)?;
        let request = target.request(Method::POST, body, options);
        let exchange = async {
            let host = || target.display.clone();
            let found = lookup_host((target.host.as_str(), target.port)).await;
            let found = found.map_err(|source| Error::Connect { host: host(), source })?;
            let allowed: Vec<SocketAddr> = found.filter(|address| may(address.ip())).collect();
            if allowed.is_empty() {
                return Err(Error::Forbidden { host: host() });
            }
            let stream = TcpStream::connect(allowed.as_slice()).await;
            self.exchange(stream, &target, request, Wanted::Status, options).await
        };
        target
            .within(options.timeout, exchange)
            .await
            .map(|answer| answer.status)
    }

    async fn exchange(
        &self,
        stream: io::Result<TcpStream>,
        target: &Target,
        request: Request<Full<Bytes>>,
        wanted: Wanted,
        options: &Options,
    ) -> Result<Fetched, Error> {
        let host = || target.display.clone();
        let connect = |source| Error::Connect { host: host(), source };
        let stream = stream.map_err(connect)?;
        stream.set_nodelay(true).map_err(connect)?;
        let Some(name) = &target.secure else {
            return talk(stream, target, request, wanted, options).await;
        };
        let name = options.server_name.as_ref().unwrap_or(name);
        let stream = self
            .tls
            .connect(name.clone(), stream)
            .await
            .map_err(|source| Error::Tls { host: host(), source })?;
        talk(stream, target, request, wanted, options).await
    }
}

/// What is read of an answer.
#[derive(Clone, Copy)]
enum Wanted {
    Status,
    Answer,
}

/// One request on a fresh connection. The connection is polled beside the exchange, not spawned: it cannot outlive it.
async fn talk<I>(
    io: I,
    target: &Target,
    request: Request<Full<Bytes>>,
    wanted: Wanted,
    options: &Options,
) -> Result<Fetched, Error>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let fail = |source: hyper::Error| {
        if source.is_parse_too_large() {
            Error::HeaderTooLarge {
                host: target.display.clone(),
                max: options.max_header_bytes,
            }
        } else {
            Error::Exchange {
                host: target.display.clone(),
                source,
            }
        }
    };
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(MAX_FIELDS)
        .max_header_size(options.max_header_bytes)
        .max_buf_size(options.max_header_bytes.max(MIN_BUFFER))
        .handshake(TokioIo::new(io))
        .await
        .map_err(fail)?;
    let mut exchange = pin!(async {
        let response = sender.send_request(request).await.map_err(fail)?;
        let (head, body) = response.into_parts();
        if head.status.is_redirection() && head.status != StatusCode::NOT_MODIFIED {
            return Err(Error::Redirect {
                host: target.display.clone(),
                status: head.status,
            });
        }
        let body = match wanted {
            Wanted::Answer => read(body, target, options).await?,
            Wanted::Status => Bytes::new(),
        };
        Ok(Fetched {
            status: head.status,
            headers: head.headers,
            body,
        })
    });
    let mut connection = pin!(connection);
    let mut connected = true;
    loop {
        tokio::select! {
            biased;
            done = &mut exchange => return done,
            // Its error, if any, reaches the exchange as the error of the pending read.
            _ended = &mut connection, if connected => connected = false,
        }
    }
}

async fn read(mut body: Incoming, target: &Target, options: &Options) -> Result<Bytes, Error> {
    let too_large = || Error::BodyTooLarge {
        host: target.display.clone(),
        max: options.max_bytes,
    };
    if http_body::Body::size_hint(&body).lower() > options.max_bytes as u64 {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| Error::Body {
            host: target.display.clone(),
            source,
        })?;
        if let Some(data) = frame.data_ref() {
            if data.len() > options.max_bytes.saturating_sub(bytes.len()) {
                return Err(too_large());
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes.freeze())
}

struct Target {
    /// Without the brackets of an IPv6 literal.
    host: String,
    port: u16,
    /// The name to verify, for https.
    secure: Option<ServerName<'static>>,
    authority: HeaderValue,
    path: PathAndQuery,
    /// `host:port` for errors.
    display: String,
}

impl Target {
    fn parse(url: &str) -> Result<Self, Error> {
        let uri: Uri = url.parse().map_err(|_| Error::Url("it is malformed"))?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) | None => return Err(Error::Url("it is neither http nor https")),
        };
        let authority = uri.authority().ok_or(Error::Url("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(Error::Url("user information in it is not supported"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        if host.is_empty() {
            return Err(Error::Url("it has no host"));
        }
        let secure_name = secure
            .then(|| ServerName::try_from(host.clone()))
            .transpose()
            .map_err(|_| Error::Url("its host is not a valid name or address"))?;
        let port = authority.port_u16();
        if port.is_none() && authority.as_str() != authority.host() {
            return Err(Error::Url("its port is invalid"));
        }
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        Ok(Self {
            port,
            secure: secure_name,
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| Error::Url("its host is not a valid name or address"))?,
            path: uri
                .path_and_query()
                .cloned()
                .unwrap_or_else(|| PathAndQuery::from_static("/")),
            display: format!("{}:{port}", authority.host()),
            host,
        })
    }

    /// Boxed: handshake state is several KiB, and a request of the gateway's own is never on the path of a call.
    async fn within<T>(
        &self,
        patience: Duration,
        exchange: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(patience, Box::pin(exchange)).await {
            Ok(done) => done,
            Err(_) => Err(Error::Timeout {
                host: self.display.clone(),
                after: patience,
            }),
        }
    }

    fn request(&self, method: Method, body: Bytes, options: &Options) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from(self.path.clone());
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, USER_AGENT);
        headers.extend(options.headers.clone());
        headers.insert(header::HOST, self.authority.clone());
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        request
    }
}
