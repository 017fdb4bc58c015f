//! What is sent, what is taken for an answer, and what becomes of the connection: against a peer that does as it is told.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::*;

/// How a peer's bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No more come.
    Silence,
    Close,
    Reset,
}

/// An agent that has written its answer beforehand, in pieces, with a pause after each.
struct Peer {
    pieces: VecDeque<Bytes>,
    paused: bool,
    end: End,
    written: Vec<u8>,
    /// How much more of the request it takes, and whether it refuses the rest instead of not taking it.
    takes: usize,
    refuses: bool,
}

impl Peer {
    fn new(pieces: &[&[u8]], end: End) -> Self {
        Self {
            pieces: pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect(),
            paused: false,
            end,
            written: Vec::new(),
            takes: usize::MAX,
            refuses: false,
        }
    }
}

impl AsyncRead for Peer {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // An idle connection is quiet until a request was written.
        if self.written.is_empty() {
            return Poll::Pending;
        }
        self.paused = !self.paused;
        if self.paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(mut piece) = self.pieces.pop_front() else {
            return match self.end {
                End::Silence => Poll::Pending,
                End::Close => Poll::Ready(Ok(())),
                End::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            };
        };
        buf.put_slice(&piece.split_to(piece.len().min(buf.remaining())));
        if !piece.is_empty() {
            self.pieces.push_front(piece);
            self.paused = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let size = bytes.len().min(self.takes);
        if size == 0 && self.refuses {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if size == 0 {
            return Poll::Pending;
        }
        self.takes -= size;
        self.written.extend_from_slice(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const HEADER_BYTES: usize = 1024;

fn request(body: &[u8]) -> Request<Bytes> {
    Request::post("http://agent:1/rpc?x=1")
        .header("host", "agent:1")
        .body(Bytes::copy_from_slice(body))
        .unwrap()
}

/// What came of one exchange, in words.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Status, body, and whether the connection may be used again.
    Answer(u16, String, bool),
    /// Whether the agent answered with something else than HTTP.
    NoAnswer { malformed: bool },
    /// The status and what came of the body.
    Broken(u16, String),
    /// More is awaited; with the status if there was a head.
    Waits(Option<u16>),
}

/// Polls to the end, or until nobody would wake it.
async fn settle<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = async { for _ in 0..1_000 { tokio::task::yield_now().await } } => None,
    }
}

async fn exchange(peer: Peer, whole: bool) -> Outcome {
    let Some(answered) = settle(Connection::new(peer, HEADER_BYTES).send(request(b"{}"))).await else {
        return Outcome::Waits(None);
    };
    let (parts, mut body) = match answered {
        Ok(answered) => answered,
        Err(error) => {
            let malformed = error.is_malformed();
            return Outcome::NoAnswer { malformed };
        }
    };
    let status = parts.status.as_u16();
    if whole {
        body.in_one_piece();
    }
    let mut data = Vec::new();
    loop {
        match settle(poll_fn(|cx| body.poll_data(cx))).await {
            None => return Outcome::Waits(Some(status)),
            Some(Some(Ok(piece))) => data.extend_from_slice(&piece),
            Some(Some(Err(_))) => return Outcome::Broken(status, String::from_utf8(data).unwrap()),
            Some(None) => break,
        }
    }
    assert!(body.has_ended());
    let data = String::from_utf8(data).unwrap();
    Outcome::Answer(status, data, body.into_connection().is_some())
}

/// The outcome is the same wherever the answer is cut, and however its body is read.
async fn check(answer: &str, end: End, expected: Outcome) {
    let answer = answer.as_bytes();
    for at in 0..answer.len() {
        for whole in [false, true] {
            let (first, rest) = answer.split_at(at);
            let pieces: &[&[u8]] = if at == 0 { &[rest] } else { &[first, rest] };
            let outcome = exchange(Peer::new(pieces, end), whole).await;
            let text = String::from_utf8_lossy(answer);
            assert_eq!(outcome, expected, "{text:?}, {end:?}, cut at {at}, whole: {whole}");
        }
    }
    let bytes: Vec<&[u8]> = answer.chunks(1).collect();
    assert_eq!(exchange(Peer::new(&bytes, end), false).await, expected, "byte by byte");
}

fn whole(body: &str) -> Outcome {
    Outcome::Answer(200, body.to_owned(), true)
}

fn last(body: &str) -> Outcome {
    Outcome::Answer(200, body.to_owned(), false)
}

const MALFORMED: Outcome = Outcome::NoAnswer { malformed: true };
const ENDED: Outcome = Outcome::NoAnswer { malformed: false };

#[tokio::test]
async fn an_answer_ends_where_its_head_says() {
    use End::{Close, Silence};
    let ok = "HTTP/1.1 200 OK\r\n";
    check(&format!("{ok}content-length: 2\r\n\r\n{{}}"), Silence, whole("{}")).await;
    check(&format!("{ok}Content-Length:2\r\n\r\n{{}}"), Silence, whole("{}")).await;
    check(&format!("{ok}content-length: 0\r\n\r\n"), Silence, whole("")).await;
    // As most readers do: bare line feeds end lines of a head.
    check("HTTP/1.1 200\ncontent-length: 2\n\n{}", Silence, whole("{}")).await;
    let no_content = Outcome::Answer(204, String::new(), true);
    check("HTTP/1.1 204 No Content\r\n\r\n", Silence, no_content).await;
    let not_modified = Outcome::Answer(304, String::new(), true);
    check("HTTP/1.1 304 x\r\ncontent-length: 0\r\n\r\n", Silence, not_modified).await;
    // Until the agent closes.
    check(&format!("{ok}\r\n{{}}"), Close, last("{}")).await;
    check(&format!("{ok}\r\n"), Close, last("")).await;
    check(&format!("{ok}\r\n{{}}"), Silence, Outcome::Waits(Some(200))).await;
    check(
        &format!("{ok}\r\n{{}}"),
        End::Reset,
        Outcome::Broken(200, "{}".to_owned()),
    )
    .await;
    // Cut.
    check(
        &format!("{ok}content-length: 3\r\n\r\n{{}}"),
        Silence,
        Outcome::Waits(Some(200)),
    )
    .await;
    check("HTTP/1.1 200 OK\r\n", Close, ENDED).await;
    check("HTTP/1.1 200 OK\r\n", End::Reset, ENDED).await;
    check("HTTP/1.1 200 OK\r\n", Silence, Outcome::Waits(None)).await;
    assert_eq!(exchange(Peer::new(&[], Close), false).await, ENDED);
}

#[tokio::test]
async fn a_body_that_stops_before_its_length_is_broken() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}";
    for end in [End::Close, End::Reset] {
        let outcome = exchange(Peer::new(&[answer], end), false).await;
        assert_eq!(outcome, Outcome::Broken(200, "{}".to_owned()));
        let outcome = exchange(Peer::new(&[answer], end), true).await;
        assert_eq!(outcome, Outcome::Broken(200, String::new()), "one piece or none");
    }
}

#[tokio::test]
async fn what_may_not_persist_is_used_once() {
    use End::Silence;
    for line in [
        "connection: close\r\n",
        "Connection: keep-alive, Close\r\n",
        "connection: x\r\nconnection: close\r\n",
    ] {
        check(
            &format!("HTTP/1.1 200 OK\r\n{line}content-length: 2\r\n\r\n{{}}"),
            Silence,
            last("{}"),
        )
        .await;
    }
    check("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", Silence, last("{}")).await;
    let kept = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\n{}";
    check(kept, Silence, last("{}")).await;
    // Another answer already, for nobody's request.
    let two = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n";
    for whole in [false, true] {
        assert_eq!(exchange(Peer::new(&[two], Silence), whole).await, last("{}"));
        let cut = exchange(Peer::new(&[&two[..39], &two[39..]], Silence), whole).await;
        assert_eq!(cut, last("{}"), "a byte behind the body");
    }
    let empty = b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(
        exchange(Peer::new(&[empty], Silence), false).await,
        Outcome::Answer(204, String::new(), false)
    );
    // A body may still come where none can be: its bytes would be the next answer.
    for (code, line) in [
        (204, "content-length: 2\r\n"),
        (204, "transfer-encoding: chunked\r\n"),
        (304, "content-length: 2\r\n"),
    ] {
        let spent = Outcome::Answer(code, String::new(), false);
        check(&format!("HTTP/1.1 {code} x\r\n{line}\r\n"), Silence, spent).await;
    }
}

/// Each of these has two readings somewhere; here it has none.
#[tokio::test]
async fn answers_with_two_readings_are_broken() {
    let ok = "HTTP/1.1 200 OK\r\n";
    for lines in [
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: 2, 3\r\n",
        "content-length: 2,\r\n",
        "content-length: +2\r\n",
        "content-length: -2\r\n",
        "content-length: 0x2\r\n",
        "content-length: 2 2\r\n",
        "content-length: \r\n",
        "content-length: 99999999999999999999\r\n",
        "content-length: 2\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 2\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, gzip\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: \"chunked\"\r\n",
        "transfer-encoding: \r\n",
        "transfer-encoding : chunked\r\n",
        "content-length : 2\r\n",
        " content-length: 2\r\n",
        "x: 1\r\n folded\r\ncontent-length: 2\r\n",
        "x: a\0b\r\ncontent-length: 2\r\n",
        "x: a\rb\r\ncontent-length: 2\r\n",
        "x: a\x7fb\r\ncontent-length: 2\r\n",
        "x y: 1\r\ncontent-length: 2\r\n",
        ": 1\r\ncontent-length: 2\r\n",
        "no colon\r\ncontent-length: 2\r\n",
    ] {
        check(&format!("{ok}{lines}\r\n2\r\n{{}}\r\n0\r\n\r\n"), End::Close, MALFORMED).await;
    }
    let old = "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    check(old, End::Close, MALFORMED).await;
    for answer in [
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n",
        "HTTP/1.1 100 x\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 204 x\r\n\r\n",
        "HTTP/1.1 103 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 204 x\r\n\r\n",
    ] {
        check(answer, End::Close, MALFORMED).await;
    }
    // The same length said twice is one length.
    for lines in ["content-length: 2\r\ncontent-length: 2\r\n", "content-length: 2, 2\r\n"] {
        check(&format!("{ok}{lines}\r\n{{}}"), End::Silence, whole("{}")).await;
    }
    check(
        &format!("{ok}Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"),
        End::Silence,
        whole(""),
    )
    .await;
}

#[tokio::test]
async fn chunks_are_read_strictly() {
    let check = async |body: &str, end: End, expected: Outcome| {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        check(&format!("{head}{body}"), end, expected).await;
    };
    let broken = || Outcome::Broken(200, String::new());
    check("2\r\n{}\r\n0\r\n\r\n", End::Silence, whole("{}")).await;
    check("1\r\n{\r\n01\r\n}\r\n000\r\n\r\n", End::Silence, whole("{}")).await;
    check(
        "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
        End::Silence,
        whole("01234567890123456789"),
    )
    .await;
    check(
        "2;x=\"y\"\r\n{}\r\n0;z\r\nchecksum: 1\r\nx: 2\r\n\r\n",
        End::Silence,
        whole("{}"),
    )
    .await;
    check("2\r\n{}\r\n", End::Silence, Outcome::Waits(Some(200))).await;
    check("2\r\n{}\r\n0\r\n", End::Silence, Outcome::Waits(Some(200))).await;
    check("2\r\n{}\r\n0\r\n", End::Close, Outcome::Broken(200, "{}".to_owned())).await;
    check("2\r\n{}", End::Close, Outcome::Broken(200, "{}".to_owned())).await;
    for body in [
        "\r\n{}",
        "2\n{}\r\n0\r\n\r\n",
        "2 \r\n{}\r\n0\r\n\r\n",
        " 2\r\n{}\r\n0\r\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "g\r\n{}",
        ";x\r\n{}",
        "2;x\n{}\r\n0\r\n\r\n",
        "2\r{}\r\n0\r\n\r\n",
        "1000000000000000\r\n",
        "0000000000000002\r\n{}",
        "0\r\nx: 1\n\r\n",
        "0\r\n\n",
        "0\r\n\rx",
    ] {
        check(body, End::Close, broken()).await;
    }
    // What is behind a chunk is no line's end.
    for body in ["2\r\n{}x", "2\r\n{}\n", "2\r\n{}\rx", "2\r\n{}\r\nx"] {
        check(body, End::Close, Outcome::Broken(200, "{}".to_owned())).await;
    }
    let behind = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nx";
    let outcome = exchange(Peer::new(&[behind], End::Silence), false).await;
    assert_eq!(outcome, last("{}"), "a byte behind the body");
    let body = |extension: usize, trailer: usize| {
        format!(
            "2;{}\r\n{{}}\r\n0\r\nx:{}\r\n\r\n",
            "x".repeat(extension),
            "y".repeat(trailer)
        )
    };
    let of = async |body: String| {
        let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{body}");
        exchange(Peer::new(&[answer.as_bytes()], End::Silence), false).await
    };
    assert_eq!(of(body(256, 8 * 1024 - 2)).await, whole("{}"));
    assert_eq!(of(body(257, 1)).await, broken());
    assert_eq!(of(body(1, 8 * 1024 - 1)).await, Outcome::Broken(200, "{}".to_owned()));
}

#[tokio::test]
async fn heads_are_bounded() {
    let of = async |answer: String, end: End| exchange(Peer::new(&[answer.as_bytes()], end), false).await;
    let padded = |size: usize| {
        let bare = "HTTP/1.1 200 OK\r\nx: \r\ncontent-length: 2\r\n\r\n".len();
        format!(
            "HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 2\r\n\r\n{{}}",
            "y".repeat(size - bare)
        )
    };
    assert_eq!(of(padded(HEADER_BYTES), End::Silence).await, whole("{}"));
    assert_eq!(of(padded(HEADER_BYTES + 1), End::Silence).await, MALFORMED);
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEADER_BYTES));
    assert_eq!(of(endless, End::Silence).await, MALFORMED);
    let fields = |count: usize| format!("HTTP/1.1 204 x\r\n{}\r\n", "x: \r\n".repeat(count));
    assert_eq!(
        of(fields(100), End::Silence).await,
        Outcome::Answer(204, String::new(), true)
    );
    assert_eq!(of(fields(101), End::Silence).await, MALFORMED);
    let interim = |count: usize| {
        let interim = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(count);
        format!("{interim}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{{}}")
    };
    assert_eq!(of(interim(16), End::Silence).await, whole("{}"));
    assert_eq!(of(interim(17), End::Silence).await, MALFORMED);
    check(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        End::Silence,
        whole("{}"),
    )
    .await;
}

#[tokio::test]
async fn fields_are_handed_on_as_they_came_under_lower_case_names() {
    let answer = b"HTTP/1.1 200 OK\r\nX-One: a  b \r\nx-ONE:\t\xff\r\nETag: \"1\"\r\ncontent-length: 0\r\n\r\n";
    let answered = Connection::new(Peer::new(&[answer], End::Silence), HEADER_BYTES).send(request(b"{}"));
    let (parts, _) = answered.await.ok().unwrap();
    let fields: Vec<(&str, &[u8])> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let expected: [(&str, &[u8]); 4] = [
        ("x-one", b"a  b"),
        ("x-one", b"\xff"),
        ("etag", b"\"1\""),
        ("content-length", b"0"),
    ];
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn requests_are_written_in_origin_form_with_their_length() {
    let check = async |mut request: Request<Bytes>, head: &str| {
        // What a head says of its own framing is not believed.
        request
            .headers_mut()
            .insert("content-length", HeaderValue::from_static("7"));
        request
            .headers_mut()
            .insert("transfer-encoding", HeaderValue::from_static("chunked"));
        let body = request.body().clone();
        let answer: &[&[u8]] = &[b"HTTP/1.1 204 x\r\n\r\n"];
        let (_, answered) = Connection::new(Peer::new(answer, End::Silence), HEADER_BYTES)
            .send(request)
            .await
            .ok()
            .unwrap();
        let peer = answered.into_connection().unwrap().io;
        let (written, rest) = peer.written.split_at(peer.written.len() - body.len());
        assert_eq!(String::from_utf8_lossy(written), head);
        assert_eq!(rest, body);
    };
    let plain = "POST /rpc?x=1 HTTP/1.1\r\nhost: agent:1\r\ncontent-length: ";
    check(request(b""), &format!("{plain}0\r\n\r\n")).await;
    check(request(b"{}"), &format!("{plain}2\r\n\r\n")).await;
    for size in [4 * 1024, 4 * 1024 + 1, 1_234_567] {
        let body: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
        check(request(&body), &format!("{plain}{size}\r\n\r\n")).await;
    }
    let mut bare = Request::new(Bytes::new());
    *bare.method_mut() = http::Method::GET;
    *bare.uri_mut() = http::Uri::from_static("http://agent");
    bare.headers_mut().append("x", HeaderValue::from_static("1"));
    bare.headers_mut().append("x", HeaderValue::from_static(""));
    check(bare, "GET / HTTP/1.1\r\nx: 1\r\nx: \r\ncontent-length: 0\r\n\r\n").await;
}

#[tokio::test]
async fn an_agent_may_answer_before_it_took_the_whole_request() {
    let answer = b"HTTP/1.1 413 x\r\ncontent-length: 2\r\n\r\n{}";
    for refuses in [false, true] {
        let mut peer = Peer::new(&[answer], End::Silence);
        peer.takes = 100;
        peer.refuses = refuses;
        // Its answer is there before it stops to listen.
        peer.paused = true;
        let large = request(&[b'x'; 10_000]);
        let (parts, mut body) = Connection::new(peer, HEADER_BYTES).send(large).await.ok().unwrap();
        assert_eq!(parts.status, 413);
        let data = poll_fn(|cx| body.poll_data(cx)).await.unwrap().unwrap();
        assert_eq!(data, "{}");
        assert!(body.has_ended() && body.into_connection().is_none());
    }
    let mut peer = Peer::new(&[], End::Silence);
    peer.takes = 100;
    peer.refuses = true;
    let failed = Connection::new(peer, HEADER_BYTES).send(request(&[b'x'; 10_000])).await;
    assert!(matches!(failed, Err(Error::Write(_))), "not waited for");
}

#[tokio::test]
async fn a_request_goes_on_while_its_answer_is_read() {
    let (ours, mut agent) = tokio::io::duplex(1000);
    let body = vec![b'x'; 10_000];
    let sent = request(&body);
    let agent = async move {
        let mut taken = vec![0; 500];
        agent.read_exact(&mut taken).await.unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 5_000);
        agent.write_all(answer.as_bytes()).await.unwrap();
        agent.write_all(&[b'y'; 4_999]).await.unwrap();
        // As long as the agent waits for the request, the answer does not end.
        while !taken.ends_with(&[b'x'; 10_000]) {
            agent.read_buf(&mut taken).await.unwrap();
        }
        agent.write_all(b"y").await.unwrap();
        agent
    };
    let caller = async {
        let (_, mut body) = Connection::new(ours, HEADER_BYTES).send(sent).await.ok().unwrap();
        let mut size = 0;
        while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
            size += data.unwrap().len();
        }
        (size, body.into_connection().is_some())
    };
    let (came, _agent) = tokio::join!(caller, agent);
    assert_eq!(came, (5_000, true));
}

#[tokio::test]
async fn large_bodies_come_in_one_piece_up_to_the_bound() {
    let check = async |size: usize, pieces: &[usize]| {
        let (ours, mut agent) = tokio::io::duplex(30_000);
        let body: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
        let answer = [
            format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n").as_bytes(),
            &body,
        ]
        .concat();
        let agent = async move {
            agent.write_all(&answer).await.unwrap();
            agent
        };
        let caller = async {
            let (_, mut answered) = Connection::new(ours, HEADER_BYTES)
                .send(request(b"{}"))
                .await
                .ok()
                .unwrap();
            answered.in_one_piece();
            let mut came = Vec::new();
            let mut sizes = Vec::new();
            while let Some(data) = poll_fn(|cx| answered.poll_data(cx)).await {
                let data = data.unwrap();
                assert_eq!(answered.left(), Some((size - came.len() - data.len()) as u64));
                came.extend_from_slice(&data);
                sizes.extend((!data.is_empty()).then_some(data.len()));
            }
            assert!(came == body, "the bytes are those of the agent");
            assert_eq!(sizes, pieces);
            assert!(answered.into_connection().is_some());
        };
        tokio::join!(caller, agent);
    };
    check(100, &[100]).await;
    check(8 * 1024, &[8 * 1024]).await;
    check(64 * 1024, &[64 * 1024]).await;
    check(256 * 1024, &[256 * 1024]).await;
    check(600 * 1024, &[256 * 1024, 256 * 1024, 88 * 1024]).await;
}

/// Counts the reads that gave something.
struct Counting<T>(T, usize);

impl<T: AsyncRead + Unpin> AsyncRead for Counting<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(cx, buf);
        self.1 += usize::from(polled.is_ready());
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counting<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn an_answer_as_large_as_the_last_one_comes_with_one_read() {
    const LARGE: usize = 64 * 1024;
    let (ours, mut agent) = tokio::io::duplex(2 * LARGE);
    let mut connection = Connection::new(Counting(ours, 0), HEADER_BYTES);
    // A smaller one takes back what the large one made expect.
    for (size, reads) in [
        (LARGE, 2),
        (LARGE, 1),
        (LARGE - 5_000, 1),
        (LARGE + 5_000, 1),
        (100, 1),
        (LARGE, 2),
    ] {
        let (answered, ()) = tokio::join!(connection.send(request(b"{}")), async {
            let mut taken = [0; 1000];
            let _size = agent.read(&mut taken).await.unwrap();
            let body: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
            agent.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        });
        let (_, mut body) = answered.ok().unwrap();
        body.in_one_piece();
        let data = poll_fn(|cx| body.poll_data(cx)).await.unwrap().unwrap();
        assert!(data.iter().copied().eq((b'a'..=b'z').cycle().take(size)), "{size}");
        connection = body.into_connection().unwrap();
        assert_eq!(std::mem::take(&mut connection.io.1), reads, "{size}");
    }
}

#[tokio::test]
async fn one_connection_serves_one_exchange_after_another() {
    let (ours, mut agent) = tokio::io::duplex(1000);
    let mut connection = Connection::new(ours, HEADER_BYTES);
    for number in 0..3 {
        connection.check_quiet().unwrap();
        let exchange = connection.send(request(b"{}"));
        let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{number}\r\n0\r\n\r\n");
        let (answered, ()) = tokio::join!(exchange, async {
            let mut taken = [0; 1000];
            let _size = agent.read(&mut taken).await.unwrap();
            agent.write_all(answer.as_bytes()).await.unwrap();
        });
        let (_, mut body) = answered.ok().unwrap();
        let data = poll_fn(|cx| body.poll_data(cx)).await.unwrap().unwrap();
        assert_eq!(data, number.to_string());
        connection = body.into_connection().unwrap();
    }
    connection.check_quiet().unwrap();
    drop(agent);
    assert!(matches!(connection.check_quiet(), Err(Error::Ended)));
}

#[tokio::test]
async fn what_comes_unasked_spoils_an_idle_connection() {
    let (ours, mut agent) = tokio::io::duplex(1000);
    let mut connection = Connection::new(ours, HEADER_BYTES);
    connection.check_quiet().unwrap();
    agent.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
    assert!(matches!(connection.check_quiet(), Err(Error::Unasked)));
}

/// A task that looks at more than the runtime lets it do in one turn would see nothing any more.
#[tokio::test]
async fn many_ended_connections_are_found_in_one_turn() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = Vec::new();
    for number in 0..300 {
        let ours = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut agent, _) = listener.accept().await.unwrap();
        if number % 2 == 0 {
            agent.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        }
        drop(agent);
        // So that it is there to be seen.
        ours.readable().await.unwrap();
        connections.push(Connection::new(ours, HEADER_BYTES));
    }
    // One poll of one task.
    let looked =
        std::future::poll_fn(|_| Poll::Ready(connections.iter_mut().filter_map(|it| it.check_quiet().err()).count()));
    assert_eq!(looked.await, 300);
}
