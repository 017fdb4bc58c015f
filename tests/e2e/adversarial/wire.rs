//! Bytes to a socket and answers off it.

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::Answer;
use crate::harness::client::PATIENCE;

/// One connection, TLS or not.
pub struct Wire<S = TcpStream> {
    pub stream: S,
    buffer: Vec<u8>,
}

impl Wire {
    pub async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the gateway listens");
        stream.set_nodelay(true).expect("nodelay");
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Sends as much as the gateway takes: it may answer and close before it has everything.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _refused = self.stream.write_all(bytes.as_ref()).await;
        let _refused = self.stream.flush().await;
    }

    /// The next answer; an interim one (1xx) is an answer of its own, without a body.
    pub async fn answer(&mut self) -> Answer {
        self.try_answer().await.unwrap_or_else(|| {
            panic!(
                "closed before an answer was whole: {:?}",
                String::from_utf8_lossy(&self.buffer)
            )
        })
    }

    /// `None` if the gateway closes first.
    pub async fn try_answer(&mut self) -> Option<Answer> {
        let mut answer = self.answer_head().await?;
        if answer.status < 200 {
            return Some(answer);
        }
        let length = answer
            .header("content-length")
            .expect("framed by length")
            .parse()
            .expect("a length");
        while self.buffer.len() < length {
            self.more().await?;
        }
        answer.body = self.buffer.drain(..length).collect();
        Some(answer)
    }

    /// Head of an answer whose body stays on the wire.
    pub async fn answer_head(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            self.more().await?;
        };
        let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let head = String::from_utf8(head).expect("an answer's head is text");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.1 "))
            .expect("a status line");
        let status = status[..3].parse().expect("a status");
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').expect("a field");
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, HeaderValue::from_str(value.trim()).expect("a value"));
        }
        Some(Answer {
            status,
            headers,
            body: Vec::new(),
        })
    }

    /// The gateway closes, without another byte.
    pub async fn closes(&mut self) {
        while self.more().await.is_some() {}
        assert_eq!(
            String::from_utf8_lossy(&self.buffer),
            "",
            "nothing follows the last answer"
        );
    }

    /// Not a byte comes for so long, and the connection stays.
    pub async fn stays_silent(&mut self, quiet: Duration) {
        let mut part = [0; 1024];
        let read = tokio::time::timeout(quiet, self.stream.read(&mut part)).await;
        assert!(
            read.is_err(),
            "not silent: {read:?} {:?}",
            String::from_utf8_lossy(&part)
        );
    }

    /// `None` at the end of the stream, or when it was reset.
    pub async fn more(&mut self) -> Option<()> {
        self.buffer.reserve(16 * 1024);
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await;
        matches!(read.expect("an answer in time"), Ok(1..)).then_some(())
    }

    pub fn received(&self) -> &[u8] {
        &self.buffer
    }
}
