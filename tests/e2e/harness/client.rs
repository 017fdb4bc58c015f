//! Plain HTTP clients: bytes in, bytes out, nothing in between.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::KEY;

/// Nothing on loopback takes longer.
pub const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The JSON-RPC error code.
    pub fn code(&self) -> i64 {
        self.json()["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("no error: {}", self.text()))
    }
}

/// A call with the test's credential.
pub async fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    call(
        address,
        "POST",
        path,
        &[("X-API-Key", KEY), ("content-type", "application/json")],
        body,
    )
    .await
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    call(address, "GET", path, &[], "").await
}

/// Over a connection of its own, HTTP/1.1.
pub async fn call(address: SocketAddr, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    let response = open(address, method, path, fields, body).await;
    collect(response).await
}

/// The head of an answer; its body is still to come.
pub async fn open(
    address: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> http::Response<Incoming> {
    let stream = TcpStream::connect(address).await.expect("the gateway listens");
    let (mut sender, conn) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("a connection");
    tokio::spawn(conn);
    let request = request(method, path, &address.to_string(), fields, body.to_owned());
    tokio::time::timeout(PATIENCE, sender.send_request(request))
        .await
        .expect("in time")
        .expect("an answer")
}

/// The head of an answer to a POST over HTTP/2.
pub async fn open_http2(
    address: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> http::Response<Incoming> {
    http2(address, "POST", path, fields, body.to_owned()).await
}

/// The same as `call`, over HTTP/2 with prior knowledge.
pub async fn call_http2(address: SocketAddr, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    collect(http2(address, method, path, fields, body.to_owned()).await).await
}

/// An answer over gRPC.
#[derive(Clone, Debug)]
pub struct Rpc {
    /// The head, with `grpc-status` if there is nothing else.
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

impl Rpc {
    /// A field of the trailers, which may stand in the head.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.trailers.as_ref().unwrap_or(&self.headers);
        fields.get(name)?.to_str().ok()
    }

    pub fn status(&self) -> u32 {
        let status = self.field("grpc-status").expect("a status");
        status.parse().expect("a number")
    }

    pub async fn read(response: http::Response<Incoming>) -> Self {
        assert_eq!(response.status(), 200);
        let (parts, mut body) = response.into_parts();
        let mut rpc = Self {
            headers: parts.headers,
            body: Vec::new(),
            trailers: None,
        };
        while let Some(frame) = tokio::time::timeout(PATIENCE, body.frame()).await.expect("in time") {
            match frame.expect("a whole answer").into_data() {
                Ok(data) => rpc.body.extend_from_slice(&data),
                Err(frame) => rpc.trailers = frame.into_trailers().ok(),
            }
        }
        rpc
    }
}

/// The head of an answer to a call of gRPC; the body is that of the request as it goes out.
pub async fn open_grpc(
    address: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    body: Vec<u8>,
) -> http::Response<Incoming> {
    let builder = http2::Builder::new(TokioExecutor::new());
    open_grpc_by(&builder, address, path, fields, body).await
}

/// The same of a caller with settings of its own.
pub async fn open_grpc_by(
    builder: &http2::Builder<TokioExecutor>,
    address: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    body: Vec<u8>,
) -> http::Response<Incoming> {
    let typed = fields.iter().any(|(name, _)| *name == "content-type");
    let media_type = [("content-type", "application/grpc")];
    let more = if typed { &[][..] } else { &media_type };
    let fields = [fields, &[("te", "trailers")], more].concat();
    over_http2(builder, address, "POST", path, &fields, body).await
}

async fn http2(
    address: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> http::Response<Incoming> {
    let builder = http2::Builder::new(TokioExecutor::new());
    over_http2(&builder, address, method, path, fields, body).await
}

async fn over_http2(
    builder: &http2::Builder<TokioExecutor>,
    address: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> http::Response<Incoming> {
    let stream = TcpStream::connect(address).await.expect("the gateway listens");
    let (mut sender, conn) = builder.handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(conn);
    let request = request(method, &format!("http://{address}{path}"), "", fields, body);
    let response = tokio::time::timeout(PATIENCE, sender.send_request(request))
        .await
        .expect("in time");
    response.expect("an answer")
}

fn request(
    method: &str,
    uri: &str,
    host: &str,
    fields: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(uri);
    if !host.is_empty() && !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request = request.header("host", host);
    }
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).expect("a request")
}

pub async fn collect(response: http::Response<Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    #[expect(clippy::disallowed_methods, reason = "a test's own answers are small")]
    let body = tokio::time::timeout(PATIENCE, body.collect())
        .await
        .expect("in time")
        .expect("a whole body");
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.to_bytes().to_vec(),
    }
}

/// Reads to the end: the text, and whether the end was clean.
pub async fn read(response: http::Response<Incoming>) -> (String, bool) {
    let mut body = response.into_body();
    let mut text = String::new();
    loop {
        match tokio::time::timeout(PATIENCE, body.frame()).await.expect("in time") {
            Some(Ok(frame)) => text.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data"))),
            Some(Err(_)) => return (text, false),
            None => return (text, true),
        }
    }
}

/// Sends these bytes and reads until the gateway closes, or until it was silent for `quiet`.
pub async fn raw(address: SocketAddr, bytes: &[u8], quiet: Duration) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the gateway listens");
    // The gateway may answer and close before it has everything.
    let _refused = stream.write_all(bytes).await;
    read_quiet(&mut stream, quiet).await
}

pub async fn read_quiet(stream: &mut TcpStream, quiet: Duration) -> String {
    let mut out = Vec::new();
    let mut part = [0; 4096];
    while let Ok(Ok(count)) = tokio::time::timeout(quiet, stream.read(&mut part)).await {
        if count == 0 {
            break;
        }
        out.extend_from_slice(&part[..count]);
    }
    String::from_utf8_lossy(&out).into_owned()
}
