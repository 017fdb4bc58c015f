//! May the caller of an open stream go on?
//!
//! Asked again whenever the configuration was replaced, because what permitted the stream may be gone: its agent, the
//! credential, the scheme; and whenever a task was given to another owner, because it may be the stream's. An idle stream waits
//! on one token, which also stands for the drain deadline; a busy one looks at one number before each burst.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::a2a::{Operation, TaskId};
use crate::authenticate::Principal;
use crate::observe::Outcome;

/// Who knows the configuration in force, and whose the tasks are.
pub trait Standing: Send + Sync {
    /// Another number whenever there is cause to ask.
    fn version(&self) -> u64;

    fn ask(&self, agent: &str, principal: &Principal, touched: Touched<'_>) -> Asked;
}

/// What a stream does, and to which task, as far as that is known.
#[derive(Clone, Copy)]
pub struct Touched<'a> {
    pub operation: Operation,
    pub task: Option<&'a TaskId>,
}

pub enum Asked {
    /// Until there is cause to ask again, or the drain deadline.
    GoOn {
        version: u64,
        until: WaitForCancellationFutureOwned,
    },
    /// With a broken end; `detail` is a closed label for the record.
    End {
        outcome: Outcome,
        detail: Option<&'static str>,
    },
}

pin_project_lite::pin_project! {
    /// What one stream waits on.
    pub struct Leave {
        standing: Arc<dyn Standing>,
        principal: Arc<Principal>,
        version: u64,
        #[pin]
        until: WaitForCancellationFutureOwned,
    }
}

impl Leave {
    /// `version` and `until` are those of the configuration that permitted the stream.
    pub fn new(
        standing: Arc<dyn Standing>,
        principal: Arc<Principal>,
        version: u64,
        until: WaitForCancellationFutureOwned,
    ) -> Self {
        Self {
            standing,
            principal,
            version,
            until,
        }
    }

    /// There is cause to ask.
    pub fn is_outdated(&self) -> bool {
        self.version != self.standing.version()
    }

    /// Resolves when the stream has to end.
    pub fn poll(
        self: Pin<&mut Self>,
        agent: &str,
        touched: Touched<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<(Outcome, Option<&'static str>)> {
        let mut this = self.project();
        loop {
            ready!(this.until.as_mut().poll(cx));
            match this.standing.ask(agent, this.principal, touched) {
                Asked::GoOn { version, until } => {
                    *this.version = version;
                    this.until.set(until);
                }
                Asked::End { outcome, detail } => return Poll::Ready((outcome, detail)),
            }
        }
    }
}
