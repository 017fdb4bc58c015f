//! A request on its way to the agent (RFC 9112 §3).
//!
//! The length is always said, and by nobody else: what a head says of its own framing is left out.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{Request, header};
use tokio::io::AsyncWrite;

/// A body up to this size goes behind its head: copying it costs less than a second piece in the write.
const SMALL_BODY: usize = 4 * 1024;
/// Besides the fields and the target: the rest of the request line, `Content-Length`, the empty line.
const REST_OF_HEAD: usize = 64;

/// What is left to write of a request.
pub struct Outbound {
    head: BytesMut,
    body: Bytes,
}

impl Outbound {
    pub fn new(request: Request<Bytes>) -> Self {
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let fields: usize = parts
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 4)
            .sum();
        let small = body.len() <= SMALL_BODY;
        let room = REST_OF_HEAD + target.len() + fields + if small { body.len() } else { 0 };
        let mut head = BytesMut::with_capacity(room);
        head.put_slice(parts.method.as_str().as_bytes());
        head.put_u8(b' ');
        head.put_slice(target.as_bytes());
        head.put_slice(b" HTTP/1.1\r\n");
        for (name, value) in &parts.headers {
            if name == header::CONTENT_LENGTH || name == header::TRANSFER_ENCODING {
                continue;
            }
            head.put_slice(name.as_str().as_bytes());
            head.put_slice(b": ");
            head.put_slice(value.as_bytes());
            head.put_slice(b"\r\n");
        }
        head.put_slice(b"content-length: ");
        put_decimal(&mut head, body.len());
        head.put_slice(b"\r\n\r\n");
        if small {
            head.put_slice(&body);
            return Self {
                head,
                body: Bytes::new(),
            };
        }
        Self { head, body }
    }

    /// Ready when all of it was taken, also by what encrypts it.
    pub fn poll_write<T: AsyncWrite + Unpin>(&mut self, io: &mut T, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let io = Pin::new(&mut *io);
            let (head, body) = (&*self.head, &*self.body);
            let written = match (head, body) {
                ([], []) => break,
                ([], body) => ready!(io.poll_write(cx, body))?,
                (head, []) => ready!(io.poll_write(cx, head))?,
                (head, body) => ready!(io.poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(body)]))?,
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(self.head.len());
            self.head.advance(of_head);
            self.body.advance(written - of_head);
        }
        ready!(Pin::new(io).poll_flush(cx))?;
        // The answer may be minutes away.
        self.head = BytesMut::new();
        self.body = Bytes::new();
        Poll::Ready(Ok(()))
    }
}

fn put_decimal(out: &mut BytesMut, number: usize) {
    let mut digits = [0; 20];
    let mut left = number;
    let mut count = 0;
    for place in digits.iter_mut().rev() {
        *place = b"0123456789".get(left % 10).copied().unwrap_or(b'0');
        left /= 10;
        count += 1;
        if left == 0 {
            break;
        }
    }
    out.put_slice(digits.get(digits.len() - count..).unwrap_or_default());
}
