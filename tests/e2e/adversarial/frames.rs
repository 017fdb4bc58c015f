//! HTTP/2 frames written by hand (RFC 9113 §4), header blocks without compression (RFC 7541 §6.2.2).

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::KEY;
use crate::harness::client::PATIENCE;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const REFUSED_STREAM: u32 = 7;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The code of a RST_STREAM or GOAWAY.
    pub fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }
}

pub struct Frames {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Frames {
    /// With the preface and empty settings sent.
    pub async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the gateway listens");
        stream.set_nodelay(true).expect("nodelay");
        Self::over(stream).await
    }

    pub async fn over(stream: TcpStream) -> Self {
        let mut frames = Self {
            stream,
            buffer: Vec::new(),
        };
        frames.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await;
        frames
    }

    /// False once the gateway has closed.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// In one HEADERS frame, or with CONTINUATION frames behind it.
    pub async fn headers(&mut self, stream: u32, block: &[u8], end_stream: bool) -> bool {
        let end_stream = if end_stream { END_STREAM } else { 0 };
        let mut pieces = block.chunks(16_384).peekable();
        let mut bytes = Vec::new();
        let mut kind = HEADERS;
        while let Some(piece) = pieces.next() {
            let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            let flags = last | if kind == HEADERS { end_stream } else { 0 };
            bytes.extend(frame(kind, flags, stream, piece));
            kind = CONTINUATION;
        }
        self.send(&bytes).await
    }

    pub async fn data(&mut self, stream: u32, data: &[u8], end_stream: bool) -> bool {
        self.send(&frame(DATA, if end_stream { END_STREAM } else { 0 }, stream, data))
            .await
    }

    /// The next frame; `None` when the gateway has closed.
    pub async fn next(&mut self) -> Option<Frame> {
        while self.buffer.len() < 9 {
            self.more().await?;
        }
        let length = u32::from_be_bytes([0, self.buffer[0], self.buffer[1], self.buffer[2]]) as usize;
        while self.buffer.len() < 9 + length {
            self.more().await?;
        }
        let whole: Vec<u8> = self.buffer.drain(..9 + length).collect();
        Some(Frame {
            kind: whole[3],
            stream: u32::from_be_bytes(whole[5..9].try_into().expect("four bytes")) & 0x7fff_ffff,
            payload: whole[9..].to_vec(),
        })
    }

    /// The next frame that is neither SETTINGS, WINDOW_UPDATE nor PING.
    pub async fn telling(&mut self) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            if [DATA, HEADERS, RST_STREAM, GOAWAY].contains(&frame.kind) {
                return Some(frame);
            }
        }
    }

    /// The status of the answer on this stream.
    pub async fn status_of(&mut self, stream: u32) -> u16 {
        loop {
            let frame = self.telling().await.expect("an answer before the end");
            if frame.stream == stream {
                assert_eq!(frame.kind, HEADERS, "an answer, not {frame:?}");
                return status(&frame.payload);
            }
            assert_ne!(frame.kind, GOAWAY, "an answer, not {frame:?}");
        }
    }

    async fn more(&mut self) -> Option<()> {
        self.buffer.reserve(16 * 1024);
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await;
        matches!(read.expect("in time"), Ok(1..)).then_some(())
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The fields of a good call without its length.
pub fn call_fields() -> Vec<(&'static str, &'static str)> {
    vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "gateway.example"),
        (":path", "/agent"),
        ("content-type", "application/json"),
        ("x-api-key", KEY),
    ]
}

/// Each field literal, never indexed.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(&mut block, text.len());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// RFC 7541 §5.1 with a prefix of seven bits.
fn integer(block: &mut Vec<u8>, value: usize) {
    let byte = |value: usize| u8::try_from(value).expect("seven bits");
    if value < 127 {
        block.push(byte(value));
        return;
    }
    block.push(127);
    let mut left = value - 127;
    while left >= 128 {
        block.push(byte(left % 128) | 128);
        left /= 128;
    }
    block.push(byte(left));
}

/// The status is the first field of an answer; the first answer of a connection cannot refer to an earlier one.
fn status(block: &[u8]) -> u16 {
    // An update of the table's size may stand first.
    let begin = block.iter().position(|byte| byte & 0xe0 != 0x20).expect("a field");
    match &block[begin..] {
        // RFC 7541 appendix A.
        [byte @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500][usize::from(byte - 0x88)],
        // A literal with the name of entry 8, by index or added to the table.
        [0x08 | 0x18 | 0x48, length, text @ ..] => {
            let text = &text[..usize::from(length & 0x7f)];
            if length & 0x80 == 0 {
                std::str::from_utf8(text).expect("digits").parse().expect("a status")
            } else {
                huffman_digits(text)
            }
        }
        other => panic!("no status first: {other:x?}"),
    }
}

/// RFC 7541 appendix B: 0 to 2 have five bits, 3 to 9 have six.
fn huffman_digits(text: &[u8]) -> u16 {
    let bits: Vec<u8> = text
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let take = |at: usize, count: usize| {
        bits[at..at + count]
            .iter()
            .fold(0_u16, |value, bit| value * 2 + u16::from(*bit))
    };
    let (mut at, mut value) = (0, 0);
    for _ in 0..3 {
        let five = take(at, 5);
        if five <= 2 {
            value = value * 10 + five;
            at += 5;
        } else {
            value = value * 10 + (take(at, 6) - 0b01_1001 + 3);
            at += 6;
        }
    }
    value
}
