//! May the caller of an open stream go on?
//!
//! Asked again whenever the configuration was replaced, because what permitted the stream may be gone: its agent, the
//! credential, the scheme, a rule, a decision point; when a credential expires; and whenever a task was given to another owner, because it may be the stream's. An idle stream waits
//! on one token, which also stands for the drain deadline; a busy one looks at one number before each burst.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::a2a::{Operation, TaskId};
use crate::authenticate::Principal;
use crate::authorize::Judgement;
use crate::observe::Outcome;

/// Who knows the configuration in force, and whose the tasks are.
pub trait Standing: Send + Sync {
    /// Another number whenever there is cause to ask.
    fn version(&self) -> u64;

    fn ask(&self, agent: &str, held: &Held, touched: Touched<'_>) -> Asked;
}

/// What permitted a stream.
pub struct Held {
    pub principal: Arc<Principal>,
    pub judgement: Option<Arc<Judgement>>,
}

impl Held {
    /// Everybody by whose credentials it was permitted: the caller, and who showed what a skill demands.
    pub fn principals(&self) -> impl Iterator<Item = &Principal> {
        let shown = self.judgement.as_ref().and_then(|judgement| judgement.shown());
        [Some(&self.principal), shown]
            .into_iter()
            .flatten()
            .map(|known| &**known)
    }
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
        /// How long the next of the credentials is good that expires.
        left: Option<Duration>,
        /// What permits the stream from now on, if that is something else.
        judgement: Option<Arc<Judgement>>,
    },
    /// A decision point has to be asked first, and until it has said so nothing goes on; `until` is the drain deadline.
    Asking {
        answer: Answer,
        until: WaitForCancellationFutureOwned,
    },
    /// With a broken end; `detail` is a closed label for the record.
    End {
        outcome: Outcome,
        detail: Option<&'static str>,
    },
}

/// What becomes of a stream about which somebody is asked.
pub type Answer = Pin<Box<dyn Future<Output = Asked> + Send>>;

pin_project_lite::pin_project! {
    /// What one stream waits on.
    pub struct Leave {
        standing: Arc<dyn Standing>,
        held: Held,
        version: u64,
        asking: Option<Answer>,
        // When the first of the credentials expires.
        expires: Option<Pin<Box<Sleep>>>,
        #[pin]
        until: WaitForCancellationFutureOwned,
    }
}

impl Leave {
    /// `version` and `until` are those of the configuration that permitted the stream; `left` is how long the credentials are
    /// good, if they expire.
    pub fn new(
        standing: Arc<dyn Standing>,
        held: Held,
        left: Option<Duration>,
        version: u64,
        until: WaitForCancellationFutureOwned,
    ) -> Self {
        Self {
            standing,
            held,
            version,
            asking: None,
            expires: left.map(|left| Box::pin(tokio::time::sleep(left))),
            until,
        }
    }

    /// There is cause to ask.
    pub fn is_outdated(&self) -> bool {
        self.version != self.standing.version() || self.is_held()
    }

    /// Somebody is asked, so that nothing of the stream may pass.
    pub fn is_held(&self) -> bool {
        self.asking.is_some()
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
            let expired = this
                .expires
                .as_mut()
                .is_some_and(|expires| expires.as_mut().poll(cx).is_ready());
            let asked = if expired {
                *this.expires = None;
                this.standing.ask(agent, this.held, touched)
            } else {
                match (this.until.as_mut().poll(cx), this.asking.as_mut()) {
                    (Poll::Pending, None) => return Poll::Pending,
                    (Poll::Pending, Some(answer)) => ready!(answer.as_mut().poll(cx)),
                    (Poll::Ready(()), _) => this.standing.ask(agent, this.held, touched),
                }
            };
            *this.asking = None;
            match asked {
                Asked::GoOn {
                    version,
                    until,
                    left,
                    judgement,
                } => {
                    *this.version = version;
                    this.until.set(until);
                    // Another may expire later, and the clock may be behind the timer.
                    if this.expires.is_none() {
                        *this.expires = left.map(|left| Box::pin(tokio::time::sleep(left)));
                    }
                    if judgement.is_some() {
                        this.held.judgement = judgement;
                    }
                }
                Asked::Asking { answer, until } => {
                    this.until.set(until);
                    *this.asking = Some(answer);
                }
                Asked::End { outcome, detail } => return Poll::Ready((outcome, detail)),
            }
        }
    }
}
