//! Connections whose caller takes nothing: how long what waits for it is held (`limits.response_idle`).
//!
//! It stands below TLS, where bytes really leave. No timer runs while writes go through at once.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use prometheus::IntCounter;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// How long, and what counts those who took longer.
#[derive(Clone, Debug)]
pub struct Patience {
    pub most: Duration,
    pub ended: IntCounter,
}

/// A connection that ends when nothing of what is written leaves for too long.
#[derive(Debug)]
pub struct Patient {
    stream: TcpStream,
    patience: Patience,
    /// Runs while a write waits.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub fn new(stream: TcpStream, patience: Patience) -> Self {
        Self {
            stream,
            patience,
            sleep: None,
        }
    }

    /// What a write came to; `again` writes the same once more.
    fn poll_progress(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        again: impl FnOnce(&SockRef<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.sleep = None;
            return written;
        }
        let most = self.patience.most;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(most)));
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        // The kernel tells of room only once a third of its buffer is free, which a slow reader may not have managed; a
        // write finds any room at all.
        let socket = SockRef::from(&self.stream);
        Poll::Ready(match again(&socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.patience.ended.inc();
                // The kernel is not to hold for minutes what the caller did not take.
                let _unset = socket.set_linger(Some(Duration::ZERO));
                Err(io::ErrorKind::TimedOut.into())
            }
            written => written,
        })
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.poll_progress(cx, written, |socket| socket.send(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.poll_progress(cx, written, |socket| socket.send_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A socket holds nothing back, so that neither this nor a shutdown waits for the caller.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
