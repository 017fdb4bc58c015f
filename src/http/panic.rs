//! A panic in one request ends that request alone.
//!
//! Input never makes the gateway panic; should a defect do it all the same, the caller gets an answer and the log a line,
//! and the connection's other requests go on.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use http::Response;
use tower::{Layer, Service};

/// Answers a panicking request with what `answer` makes.
#[derive(Clone)]
pub struct CatchPanic<A> {
    answer: A,
}

impl<A> CatchPanic<A> {
    pub fn new(answer: A) -> Self {
        Self { answer }
    }
}

impl<S, A: Clone> Layer<S> for CatchPanic<A> {
    type Service = Caught<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Caught {
            inner,
            answer: self.answer.clone(),
        }
    }
}

#[derive(Clone)]
pub struct Caught<S, A> {
    inner: S,
    answer: A,
}

impl<S, A, R, B> Service<R> for Caught<S, A>
where
    S: Service<R, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    A: Fn() -> Response<B> + Clone + Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    /// Boxed, so that what a request needed on its way is given back while its answer streams.
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let answer = self.answer.clone();
        let call = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        Box::pin(async move {
            match call.await {
                Ok(answered) => answered,
                Err(panic) => {
                    tracing::error!(panic = text(&*panic), "a request panicked; please report this");
                    Ok(answer())
                }
            }
        })
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
