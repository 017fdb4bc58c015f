//! A future that rests beside a busy one.
//!
//! A task is woken for any of the futures in it and polls them all. Timers and tokens that fire once in minutes need not be
//! asked on every packet of their connection: `Woken` polls its future only when the future itself asked to be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

pin_project_lite::pin_project! {
    pub struct Woken<F> {
        bell: Arc<Bell>,
        #[pin]
        future: F,
    }
}

struct Bell {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<F> Woken<F> {
    pub fn new(future: F) -> Self {
        let bell = Bell {
            rung: AtomicBool::new(true),
            task: AtomicWaker::new(),
        };
        Self {
            bell: Arc::new(bell),
            future,
        }
    }
}

impl<F: Future> Future for Woken<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // Before the look, so that a ring after it finds the task.
        this.bell.task.register(cx.waker());
        if !this.bell.rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let waker = Waker::from(this.bell.clone());
        this.future.poll(&mut Context::from_waker(&waker))
    }
}
