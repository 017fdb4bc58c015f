//! Agents that speak gRPC alone, over HTTP/2 with prior knowledge: a script gives the fields and the bytes of each answer, so
//! that they can be wrong. Their card is elsewhere, because no server of gRPC answers a GET.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::grpc::{self, Method, Status};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::agent::{Agent, Reply as CardReply};
use super::config_of;

pub const CARD_GRPC: &str = r#"{"name":"Fake","description":"d","version":"1","supportedInterfaces":[{"url":"agent.internal:50051","protocolBinding":"GRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;
pub const CARD_GRPC_0_3: &str = r#"{"name":"Fake","description":"d","version":"1","protocolVersion":"0.3.0","url":"agent.internal:50051","preferredTransport":"GRPC","capabilities":{"streaming":true,"pushNotifications":true},"supportsAuthenticatedExtendedCard":true,"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;

/// One call as the agent got it.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    /// With the prefix of its message.
    pub body: Vec<u8>,
}

impl Received {
    pub fn method(&self) -> &'static Method {
        grpc::method(&self.path).unwrap_or_else(|| panic!("no method: {}", self.path))
    }

    pub fn message(&self) -> Bytes {
        grpc::only_message(self.body.clone().into(), usize::MAX).expect("one message")
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What comes after the head of an answer.
#[derive(Clone, Debug)]
pub enum Piece {
    Data(Vec<u8>),
    Trailers(HeaderMap),
    /// The stream is reset.
    Broken,
}

/// What an agent does with one call.
pub struct Reply {
    pub status: u16,
    pub head: HeaderMap,
    body: Body,
}

enum Body {
    /// The head ends the answer.
    None,
    Now(Vec<Piece>),
    Later(mpsc::Receiver<Piece>),
    /// Nor is there a head.
    Never,
}

pub fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
    let all = fields.iter();
    all.map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_str(value).expect("a value"),
        )
    })
    .collect()
}

/// The trailers of a call that went well.
pub fn good() -> Piece {
    Piece::Trailers(fields(&[("grpc-status", "0")]))
}

/// The trailers of a call that did not.
pub fn failed(status: &Status) -> HeaderMap {
    let code = status.code.to_string();
    let message = grpc::encode_message(&status.message);
    let details = status.details.as_ref().map(|details| grpc::encode_details(details));
    let mut trailers = fields(&[("grpc-status", &code), ("grpc-message", &message)]);
    if let Some(details) = details {
        trailers.extend(fields(&[("grpc-status-details-bin", &details)]));
    }
    trailers
}

pub fn framed(message: &[u8]) -> Piece {
    Piece::Data(grpc::frame(message).expect("a message").to_vec())
}

impl Reply {
    fn new(body: Body) -> Self {
        Self {
            status: 200,
            head: fields(&[("content-type", "application/grpc")]),
            body,
        }
    }

    pub fn of(pieces: Vec<Piece>) -> Self {
        Self::new(Body::Now(pieces))
    }

    pub fn message(message: &[u8]) -> Self {
        Self::of(vec![framed(message), good()])
    }

    /// Nothing but a head with the status in it.
    pub fn failed(status: &Status) -> Self {
        Self::new(Body::None).with(&failed(status))
    }

    pub fn open(pieces: mpsc::Receiver<Piece>) -> Self {
        Self::new(Body::Later(pieces))
    }

    pub fn silence() -> Self {
        Self::new(Body::Never)
    }

    pub fn head_only() -> Self {
        Self::new(Body::None)
    }

    /// With these fields in the head too, or instead.
    pub fn with(mut self, more: &HeaderMap) -> Self {
        for (name, value) in more {
            self.head.insert(name, value.clone());
        }
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    async fn response(self) -> Response<BoxBody<Bytes, io::Error>> {
        let frame = |piece| match piece {
            Piece::Data(data) => Ok(Frame::data(Bytes::from(data))),
            Piece::Trailers(trailers) => Ok(Frame::trailers(trailers)),
            Piece::Broken => Err(io::Error::other("broken off")),
        };
        let body = match self.body {
            Body::Never => std::future::pending().await,
            Body::None => Empty::new().map_err(|never: Infallible| match never {}).boxed(),
            Body::Now(pieces) => BodyExt::boxed(StreamBody::new(stream::iter(pieces.into_iter().map(frame)))),
            Body::Later(pieces) => {
                BodyExt::boxed(StreamBody::new(stream::unfold(pieces, move |mut pieces| async move {
                    let piece = pieces.recv().await?;
                    Some((frame(piece), pieces))
                })))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status.try_into().expect("a status");
        *response.headers_mut() = self.head;
        response
    }
}

pub struct GrpcAgent {
    pub address: SocketAddr,
    /// Who has its card.
    pub card: Agent,
    received: Arc<Mutex<Vec<Received>>>,
    job: JoinHandle<()>,
}

impl Drop for GrpcAgent {
    fn drop(&mut self) {
        self.job.abort();
    }
}

impl GrpcAgent {
    pub async fn start(card: &str, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::begin(card, None, None, script).await
    }

    /// Allows so many streams on a connection.
    pub async fn allowing(
        streams: u32,
        card: &str,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::begin(card, None, Some(streams), script).await
    }

    /// Behind TLS, for callers who know beforehand that it is HTTP/2.
    pub async fn over_tls(
        acceptor: &TlsAcceptor,
        card: &str,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut config = (**acceptor.config()).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::begin(card, Some(TlsAcceptor::from(Arc::new(config))), None, script).await
    }

    async fn begin(
        card: &str,
        acceptor: Option<TlsAcceptor>,
        streams: Option<u32>,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = socket.local_addr().expect("an address");
        let card = Agent::with_card(card, |_| CardReply::Silence).await;
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (log, script) = (received.clone(), Arc::new(script));
        let job = tokio::spawn(async move {
            let mut jobs = JoinSet::new();
            while let Ok((socket, _)) = socket.accept().await {
                socket.set_nodelay(true).expect("nodelay");
                let (log, script) = (log.clone(), script.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (log, script) = (log.clone(), script.clone());
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.expect("a whole request").to_bytes().to_vec();
                        let received = Received {
                            path: parts.uri.path_and_query().expect("a path").to_string(),
                            headers: parts.headers,
                            body,
                        };
                        log.lock().expect("log").push(received.clone());
                        Ok::<_, Infallible>(script(&received).response().await)
                    }
                });
                let acceptor = acceptor.clone();
                jobs.spawn(async move {
                    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    server.max_concurrent_streams(streams);
                    // The gateway may hang up.
                    let _ended = match acceptor {
                        None => server.serve_connection(TokioIo::new(socket), service).await,
                        Some(acceptor) => {
                            let Ok(socket) = acceptor.accept(socket).await else {
                                return;
                            };
                            if socket.get_ref().1.alpn_protocol() != Some(b"h2") {
                                return;
                            }
                            server.serve_connection(TokioIo::new(socket), service).await
                        }
                    };
                });
            }
        });
        Self {
            address,
            card,
            received,
            job,
        }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("log").clone()
    }

    /// The configuration of a gateway in front of it, at the root. `more` is appended to the agent's keys.
    pub fn config(&self, more: &str) -> String {
        let card = format!(
            "card: {{ url: \"http://{}/.well-known/agent-card.json\" }}\n    {more}",
            self.card.address
        );
        config_of(&[self.address], &card, "").replace("path: /agent", "path: /")
    }
}
