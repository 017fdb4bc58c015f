//! A panic in one request ends that request alone.
//!
//! Input never makes the gateway panic; should a defect do it all the same, the caller gets an answer and the log a line,
//! and the connection's other requests go on.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
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
    A: Fn() -> Response<B> + Clone,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Answering<S::Future, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        Answering {
            call: AssertUnwindSafe(self.inner.call(request)).catch_unwind(),
            answer: self.answer.clone(),
        }
    }
}

pin_project_lite::pin_project! {
    pub struct Answering<F, A> {
        #[pin]
        call: CatchUnwind<AssertUnwindSafe<F>>,
        answer: A,
    }
}

impl<F, A, B, E> Future for Answering<F, A>
where
    F: Future<Output = Result<Response<B>, E>>,
    A: Fn() -> Response<B>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.call.poll(cx)) {
            Ok(answered) => answered,
            Err(panic) => {
                tracing::error!(panic = text(&*panic), "a request panicked; please report this");
                Ok((this.answer)())
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
