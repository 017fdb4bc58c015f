//! One small request at peers that answer well, badly, late or not at all.

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
