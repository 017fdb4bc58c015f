//! One small request: how the gateway reads key sets and agent cards, and tells webhooks.
//!
//! Everything is bounded: the whole exchange by one deadline, the head and the body by size. The connection is opened for
//! the request, driven by the same future and closed after it, so dropping the future leaves nothing behind. HTTP/1.1
//! only: one request a connection gains nothing from streams. A redirect is an error, because a URL that an answer names
//! is not one that the operator allowed; cookies, proxies and decompression are deliberately absent. hyper's HTTP/1 client
//! has no timer of its own, the deadline around the exchange is the only clock.

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
        let target = Target::parse(url)?;
        let request = target.request(Method::GET, Bytes::new(), options);
        let exchange = async {
            let stream = TcpStream::connect((target.host.as_str(), target.port)).await;
            self.exchange(stream, &target, request, options).await
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
            self.exchange(stream, &target, request, options).await
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
        options: &Options,
    ) -> Result<Fetched, Error> {
        let host = || target.display.clone();
        let connect = |source| Error::Connect { host: host(), source };
        let stream = stream.map_err(connect)?;
        stream.set_nodelay(true).map_err(connect)?;
        let Some(name) = &target.secure else {
            return talk(stream, target, request, options).await;
        };
        let name = options.server_name.as_ref().unwrap_or(name);
        let stream = self
            .tls
            .connect(name.clone(), stream)
            .await
            .map_err(|source| Error::Tls { host: host(), source })?;
        talk(stream, target, request, options).await
    }
}

/// One request on a fresh connection. The connection is polled beside the exchange, not spawned: it cannot outlive it.
async fn talk<I>(io: I, target: &Target, request: Request<Full<Bytes>>, options: &Options) -> Result<Fetched, Error>
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
    let reads = request.method() == Method::GET;
    let mut exchange = pin!(async {
        let response = sender.send_request(request).await.map_err(fail)?;
        let (head, body) = response.into_parts();
        if head.status.is_redirection() && head.status != StatusCode::NOT_MODIFIED {
            return Err(Error::Redirect {
                host: target.display.clone(),
                status: head.status,
            });
        }
        let body = if reads {
            read(body, target, options).await?
        } else {
            Bytes::new()
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;

    fn provider() -> Arc<rustls::crypto::CryptoProvider> {
        Arc::new(rustls::crypto::aws_lc_rs::default_provider())
    }

    fn client(roots: rustls::RootCertStore) -> Fetcher {
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Fetcher::new(Arc::new(config))
    }

    async fn serve_one<I: AsyncRead + AsyncWrite + Unpin>(mut io: I, answer: &[u8]) -> String {
        let mut head = Vec::new();
        let mut buffer = [0; 1024];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = io.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "the request ended before its head did");
            head.extend_from_slice(&buffer[..count]);
        }
        // A client that refuses early closes before everything is written.
        let _refused = io.write_all(answer).await;
        let _refused = io.shutdown().await;
        String::from_utf8(head).unwrap()
    }

    /// A peer that reads one request, writes `answer` as it stands and closes.
    async fn peer(jobs: &mut JoinSet<String>, answer: impl Into<Vec<u8>>) -> SocketAddr {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        jobs.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            serve_one(stream, &answer).await
        });
        address
    }

    fn options() -> Options {
        Options {
            max_bytes: 8,
            max_header_bytes: 8 * 1024,
            timeout: Duration::from_secs(5),
            ..Options::default()
        }
    }

    async fn fetch(answer: impl Into<Vec<u8>>) -> Result<Fetched, Error> {
        let mut jobs = JoinSet::new();
        let address = peer(&mut jobs, answer).await;
        let url = format!("http://{address}/a?b=c");
        let fetched = client(rustls::RootCertStore::empty()).get(&url, &options()).await;
        jobs.join_next().await.unwrap().unwrap();
        fetched
    }

    #[tokio::test]
    async fn sends_one_closing_request_and_returns_the_answer() {
        let mut jobs = JoinSet::new();
        let address = peer(
            &mut jobs,
            "HTTP/1.1 404 Not Found\r\netag: \"x\"\r\ncontent-length: 2\r\n\r\nno",
        )
        .await;
        let mut asked = options();
        asked
            .headers
            .insert(header::ACCEPT, HeaderValue::from_static("text/plain"));
        let fetched = client(rustls::RootCertStore::empty())
            .get(&format!("http://{address}/a?b=c"), &asked)
            .await
            .unwrap();
        assert_eq!(fetched.status, StatusCode::NOT_FOUND);
        assert_eq!(fetched.headers[header::ETAG], "\"x\"");
        assert_eq!(fetched.body, "no");
        let request = jobs.join_next().await.unwrap().unwrap();
        assert!(request.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("host: {address}\r\n")), "{request}");
        assert!(request.contains("connection: close\r\n"), "{request}");
        assert!(request.contains("accept: text/plain\r\n"), "{request}");
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_the_bound_and_no_further() {
        let sized = |n: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {n}\r\n\r\n{}", "x".repeat(n));
        let chunked = |n: usize| {
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nxxxx\r\n{n:x}\r\n{}\r\n0\r\n\r\n",
                "x".repeat(n)
            )
        };
        let unsized_ = |n: usize| format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(n));
        for at_bound in [sized(8), chunked(4), unsized_(8)] {
            let fetched = fetch(at_bound.clone()).await;
            assert_eq!(fetched.expect(&at_bound).body.len(), 8);
        }
        for past in [sized(9), chunked(5), unsized_(9)] {
            let error = fetch(past.clone()).await.expect_err(&past);
            assert!(matches!(error, Error::BodyTooLarge { max: 8, .. }), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_header_section_past_the_bound_is_refused() {
        let error = fetch(format!(
            "HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n",
            "y".repeat(9 * 1024)
        ))
        .await
        .unwrap_err();
        assert!(matches!(error, Error::HeaderTooLarge { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_redirect_is_an_error_but_304_is_not() {
        let error = fetch("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Redirect { .. }), "{error:?}");
        let fetched = fetch("HTTP/1.1 304 Not Modified\r\n\r\n").await.unwrap();
        assert_eq!(fetched.status, StatusCode::NOT_MODIFIED);
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_an_error() {
        let error = fetch("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nxx")
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Body { .. }), "{error:?}");
        let error = fetch("").await.unwrap_err();
        assert!(matches!(error, Error::Exchange { .. }), "{error:?}");
        let error = fetch("SMTP ready\r\n\r\n").await.unwrap_err();
        assert!(matches!(error, Error::Exchange { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_silent_peer_ends_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Options {
            timeout: Duration::from_millis(50),
            ..options()
        };
        let error = client(rustls::RootCertStore::empty())
            .get(&format!("http://{address}/"), &asked)
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn errors_name_the_host_and_nothing_secret() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let fetcher = client(rustls::RootCertStore::empty());
        let error = fetcher
            .get(&format!("http://{address}/p?token=hunter2"), &options())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), format!("cannot connect to {address}"));
        for url in [
            "http://ann:hunter2@127.0.0.1/",
            "ftp://127.0.0.1/hunter2",
            "/hunter2",
            "http://127.0.0.1:99999/hunter2",
            "http://127.0.0.1:/hunter2",
            "http:///hunter2",
        ] {
            let error = fetcher.get(url, &options()).await.unwrap_err();
            assert!(matches!(error, Error::Url(_)), "{url}: {error:?}");
            assert!(!format!("{error:?}").contains("hunter2"), "{url}");
        }
    }

    async fn told(
        answer: &str,
        url: impl Fn(SocketAddr) -> String,
        may: fn(IpAddr) -> bool,
    ) -> (Result<StatusCode, Error>, String) {
        let mut jobs = JoinSet::new();
        let address = peer(&mut jobs, answer).await;
        let fetcher = client(rustls::RootCertStore::empty());
        let mut asked = options();
        asked
            .headers
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let status = fetcher
            .post(&url(address), Bytes::from_static(b"hello"), may, &asked)
            .await;
        let request = match &status {
            Err(Error::Forbidden { .. }) => String::new(),
            Ok(_) | Err(_) => jobs.join_next().await.unwrap().unwrap(),
        };
        (status, request)
    }

    #[tokio::test]
    async fn of_the_answer_to_a_post_only_the_status_is_read() {
        let literal = |address: SocketAddr| format!("http://{address}/a?b=c");
        let (status, request) = told(
            "HTTP/1.1 202 Accepted\r\ncontent-length: 1000000\r\n\r\nxx",
            literal,
            |_| true,
        )
        .await;
        assert_eq!(status.unwrap(), StatusCode::ACCEPTED);
        assert!(request.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("content-length: 5\r\n"), "{request}");
        assert!(request.contains("content-type: text/plain\r\n"), "{request}");
        let (status, _) = told("HTTP/1.1 500 No\r\n\r\n", literal, |_| true).await;
        assert_eq!(status.unwrap(), StatusCode::INTERNAL_SERVER_ERROR);
        let (status, _) = told(
            "HTTP/1.1 307 No\r\nlocation: http://127.0.0.1:1/\r\n\r\n",
            literal,
            |_| true,
        )
        .await;
        assert!(matches!(status, Err(Error::Redirect { .. })), "{status:?}");
    }

    #[tokio::test]
    async fn a_post_goes_to_no_address_that_is_not_allowed() {
        let by_name = |address: SocketAddr| format!("http://localhost:{}/", address.port());
        let literal = |address: SocketAddr| format!("http://{address}/");
        for url in [&by_name as &dyn Fn(SocketAddr) -> String, &literal] {
            let (status, _) = told("HTTP/1.1 200 OK\r\n\r\n", url, |address| !address.is_loopback()).await;
            assert!(matches!(status, Err(Error::Forbidden { .. })), "{status:?}");
        }
        // Of several addresses of a name those that are allowed.
        let (status, _) = told("HTTP/1.1 200 OK\r\n\r\n", by_name, |address| address.is_ipv4()).await;
        assert_eq!(status.unwrap(), StatusCode::OK);
    }

    #[tokio::test]
    async fn https_verifies_the_certificate() {
        let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let mut jobs = JoinSet::new();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certified.cert.der().clone()).unwrap();
        for (roots, trusted) in [(roots, true), (rustls::RootCertStore::empty(), false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let acceptor = acceptor.clone();
            jobs.spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                match acceptor.accept(stream).await {
                    Ok(stream) => serve_one(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await,
                    Err(_) => String::new(),
                }
            });
            let fetched = client(roots).get(&format!("https://{address}/"), &options()).await;
            match fetched {
                Ok(fetched) => {
                    assert!(trusted, "an unknown issuer was trusted");
                    assert_eq!(fetched.body, "ok");
                }
                Err(error) => {
                    assert!(!trusted, "{error:?}");
                    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
                }
            }
            jobs.join_next().await.unwrap().unwrap();
        }
    }
}
