//! A fake agent over raw sockets: it shows whatever misbehaviour a test needs, and remembers what it was sent.
//!
//! The card is served by itself; every `POST` is recorded and answered by the script, and the `GET` of an extended card too, and
//! of an agent of HTTP+JSON every other request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ahash::RandomState;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What an agent was sent.
#[derive(Clone, Debug)]
pub struct Received {
    /// Request line and fields as they came.
    pub head: String,
    pub body: Vec<u8>,
    /// The certificate that the gateway showed.
    pub certificate: Option<Vec<u8>>,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Method and target.
    pub fn line(&self) -> &str {
        let line = self.head.lines().next().unwrap_or_default();
        line.rsplit_once(' ').map_or(line, |(line, _)| line)
    }

    /// The raw `id` as JSON text.
    pub fn id(&self) -> String {
        self.json()["id"].to_string()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What an agent does with one request.
pub enum Reply {
    /// 200 with this JSON.
    Json(String),
    /// The same, once the test has it; nothing more if it gives none.
    Later(oneshot::Receiver<String>),
    /// Status line, fields and body, framed by length.
    Whole(u16, &'static str, String),
    /// These bytes as they are; then the connection is closed.
    Raw(Vec<u8>),
    /// The same, and the connection goes on.
    RawKept(Vec<u8>),
    /// An event stream: chunks as they are sent; the end of the channel is a clean end, `None` breaks it off.
    Stream(mpsc::Receiver<Option<String>>),
    /// The same of JSON that is one answer.
    Pieces(mpsc::Receiver<Option<String>>),
    /// Nothing, for as long as the caller waits.
    Silence,
}

type Script = dyn Fn(&Received) -> Reply + Send + Sync;

pub struct Agent {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
    /// Connections open at this moment.
    open: Arc<AtomicUsize>,
    card: Arc<Mutex<String>>,
    /// The requests for the card.
    cards: Arc<Mutex<Vec<Received>>>,
    job: JoinHandle<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.job.abort();
    }
}

pub const CARD: &str = r#"{"name":"Fake","description":"d","version":"1","supportedInterfaces":[{"url":"http://agent.internal/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;
pub const CARD_0_3: &str = r#"{"name":"Fake","description":"d","version":"1","protocolVersion":"0.3.0","url":"http://agent.internal/","preferredTransport":"JSONRPC","capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;
/// Both generations.
pub const CARD_HYBRID: &str = r#"{"name":"Fake","description":"d","version":"1","protocolVersion":"0.3.0","url":"http://agent.internal/","preferredTransport":"JSONRPC","supportedInterfaces":[{"url":"http://agent.internal/","protocolBinding":"JSONRPC","protocolVersion":"1.0"},{"url":"http://agent.internal/","protocolBinding":"JSONRPC","protocolVersion":"0.3"}],"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;

/// Of 0.1: at the place of its generation, and without what 0.1 may leave out.
pub const CARD_0_1: &str = r#"{"name":"Fake","url":"http://agent.internal/","version":"1","capabilities":{"streaming":true,"pushNotifications":true,"stateTransitionHistory":true},"authentication":{"schemes":["Bearer"]},"skills":[{"id":"s","name":"S"}]}"#;

/// Over HTTP+JSON alone.
pub const CARD_HTTP_JSON: &str = r#"{"name":"Fake","description":"d","version":"1","supportedInterfaces":[{"url":"http://agent.internal/","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}],"capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;
pub const CARD_HTTP_JSON_0_3: &str = r#"{"name":"Fake","description":"d","version":"1","protocolVersion":"0.3.0","url":"http://agent.internal/","preferredTransport":"HTTP+JSON","capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;

impl Agent {
    /// With a 1.0 card.
    pub async fn start(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::with_card(CARD, script).await
    }

    pub async fn with_card(card: &str, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::on(socket, card, script)
    }

    /// Behind TLS.
    pub async fn over_tls(acceptor: TlsAcceptor, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::begin(socket, Some(acceptor), CARD, false, script)
    }

    pub fn on(socket: TcpListener, card: &str, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::begin(socket, None, card, false, script)
    }

    /// Whose script answers requests of every method, but for the card.
    pub async fn over_http_json(card: &str, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::begin(socket, None, card, true, script)
    }

    fn begin(
        socket: TcpListener,
        acceptor: Option<TlsAcceptor>,
        card: &str,
        every_method: bool,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let address = socket.local_addr().expect("an address");
        let (received, connections, open): (Arc<Mutex<Vec<Received>>>, Arc<AtomicUsize>, Arc<AtomicUsize>) =
            Default::default();
        let script: Arc<Script> = Arc::new(script);
        let card = Arc::new(Mutex::new(card.to_owned()));
        let shown = card.clone();
        let cards: Arc<Mutex<Vec<Received>>> = Arc::default();
        let asked = cards.clone();
        let (log, count, opened) = (received.clone(), connections.clone(), open.clone());
        let job = tokio::spawn(async move {
            // Connections end with the agent.
            let mut jobs = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = socket.accept().await {
                stream.set_nodelay(true).expect("nodelay");
                count.fetch_add(1, Ordering::SeqCst);
                let (card, script, log) = (shown.clone(), script.clone(), log.clone());
                let (acceptor, opened, asked) = (acceptor.clone(), opened.clone(), asked.clone());
                jobs.spawn(async move {
                    let (stream, certificate): (Box<dyn Io>, _) = match acceptor {
                        None => (Box::new(stream), None),
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else {
                                return;
                            };
                            let shown = stream.get_ref().1.peer_certificates();
                            let certificate = shown.and_then(|chain| Some(chain.first()?.to_vec()));
                            (Box::new(stream), certificate)
                        }
                    };
                    let connection = Connection {
                        stream,
                        certificate,
                        card,
                        every_method,
                        cards: asked,
                        script,
                        log,
                    };
                    opened.fetch_add(1, Ordering::SeqCst);
                    connection.serve().await;
                    opened.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            address,
            received,
            connections,
            open,
            card,
            cards,
            job,
        }
    }

    /// What it says of itself from now on.
    pub fn set_card(&self, card: &str) {
        card.clone_into(&mut self.card.lock().expect("card"));
    }

    /// It answers 404 where its card would be.
    pub fn hide_card(&self) {
        self.set_card("");
    }

    /// Calls so far, cards not counted.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("log").clone()
    }

    pub fn cards(&self) -> usize {
        self.card_requests().len()
    }

    pub fn card_requests(&self) -> Vec<Received> {
        self.cards.lock().expect("cards").clone()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

struct Connection {
    stream: Box<dyn Io>,
    certificate: Option<Vec<u8>>,
    card: Arc<Mutex<String>>,
    /// The script answers requests that are no `POST` too.
    every_method: bool,
    cards: Arc<Mutex<Vec<Received>>>,
    script: Arc<Script>,
    log: Arc<Mutex<Vec<Received>>>,
}

impl Connection {
    async fn serve(mut self) {
        let mut buffer = Vec::new();
        while let Some(request) = self.read(&mut buffer).await {
            let is_card = request.line().contains("/.well-known/");
            let is_call = self.every_method || request.head.contains("/authenticatedExtendedCard");
            let reply = if request.head.starts_with("GET") && (is_card || !is_call) {
                let card = self.card.lock().expect("card").clone();
                let place = if card == CARD_0_1 {
                    "agent.json"
                } else {
                    "agent-card.json"
                };
                if request.head.contains(place) {
                    self.cards.lock().expect("cards").push(request.clone());
                    if card.is_empty() {
                        Reply::Whole(404, "", "no".to_owned())
                    } else {
                        let etag = format!("\"{:x}\"", RandomState::with_seeds(1, 2, 3, 4).hash_one(&card));
                        let fields = format!("etag: {etag}\r\ncontent-type: application/json\r\n");
                        Reply::RawKept(match request.field("if-none-match") == Some(&*etag) {
                            true => format!("HTTP/1.1 304 X\r\n{fields}\r\n").into_bytes(),
                            false => whole(200, &fields, &card),
                        })
                    }
                } else {
                    Reply::Whole(404, "", "no".to_owned())
                }
            } else {
                self.log.lock().expect("log").push(request.clone());
                (self.script)(&request)
            };
            if !self.answer(reply).await {
                return;
            }
        }
    }

    /// Returns whether the connection goes on.
    async fn answer(&mut self, reply: Reply) -> bool {
        match reply {
            Reply::Json(body) => {
                self.write(whole(200, "content-type: application/json\r\n", &body))
                    .await
            }
            Reply::Later(body) => {
                let mut one = [0; 1];
                let body = tokio::select! {
                    body = body => body,
                    // The gateway hung up.
                    _ = self.stream.read(&mut one) => return false,
                };
                match body {
                    Ok(body) => {
                        self.write(whole(200, "content-type: application/json\r\n", &body))
                            .await
                    }
                    Err(_) => false,
                }
            }
            Reply::Whole(status, fields, body) => self.write(whole(status, fields, &body)).await,
            Reply::Raw(bytes) => {
                self.write(bytes).await;
                let _closed = self.stream.shutdown().await;
                false
            }
            Reply::RawKept(bytes) => self.write(bytes).await,
            Reply::Stream(chunks) => self.chunked("text/event-stream", chunks).await,
            Reply::Pieces(chunks) => self.chunked("application/json", chunks).await,
            Reply::Silence => {
                let mut one = [0; 1];
                let _gone = tokio::time::timeout(Duration::from_secs(30), self.stream.read(&mut one)).await;
                false
            }
        }
    }

    async fn chunked(&mut self, media_type: &str, mut chunks: mpsc::Receiver<Option<String>>) -> bool {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n");
        self.write(head.into()).await;
        loop {
            let mut one = [0; 1];
            tokio::select! {
                chunk = chunks.recv() => match chunk {
                    Some(Some(text)) => {
                        let framed = format!("{:x}\r\n{text}\r\n", text.len());
                        if !self.write(framed.into()).await {
                            return false;
                        }
                    }
                    // Broken off: no last chunk.
                    Some(None) => return false,
                    None => return self.write("0\r\n\r\n".into()).await,
                },
                // The gateway hung up.
                _ = self.stream.read(&mut one) => return false,
            }
        }
    }

    async fn write(&mut self, bytes: Vec<u8>) -> bool {
        self.stream.write_all(&bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    async fn read(&mut self, buffer: &mut Vec<u8>) -> Option<Received> {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.more(buffer).await?;
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end);
        let mut received = Received {
            head,
            body: Vec::new(),
            certificate: self.certificate.clone(),
        };
        let length: usize = received
            .field("content-length")
            .map_or(0, |length| length.parse().expect("a length"));
        assert!(
            received.field("transfer-encoding").is_none(),
            "the gateway sends whole bodies: {}",
            received.head
        );
        while buffer.len() < length {
            self.more(buffer).await?;
        }
        received.body = buffer.drain(..length).collect();
        Some(received)
    }

    async fn more(&mut self, buffer: &mut Vec<u8>) -> Option<()> {
        let mut part = [0; 4096];
        match self.stream.read(&mut part).await {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                buffer.extend_from_slice(&part[..count]);
                Some(())
            }
        }
    }
}

fn whole(status: u16, fields: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} X\r\n{fields}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Answers sends with a completed task of this id, gets and cancels with the task that they name.
pub fn tasks(task: impl Fn() -> String + Send + Sync + 'static) -> impl Fn(&Received) -> Reply + Send + Sync {
    move |request| {
        let call = request.json();
        let id = &call["id"];
        Reply::Json(match call["method"].as_str().unwrap_or_default() {
            "SendMessage" => {
                let task = task();
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"id":"{task}","contextId":"ctx-{task}","status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#
                )
            }
            _ => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"id":{},"contextId":"c","status":{{"state":"TASK_STATE_COMPLETED"}}}}}}"#,
                call["params"]["id"]
            ),
        })
    }
}

/// One SSE event with this 1.0 stream result.
pub fn event(id: &str, result: &str) -> String {
    format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\r\n\r\n")
}

/// The first event of a stream.
pub fn task_event(id: &str, task: &str) -> String {
    event(
        id,
        &format!(r#"{{"task":{{"id":"{task}","contextId":"ctx-{task}","status":{{"state":"TASK_STATE_WORKING"}}}}}}"#),
    )
}
