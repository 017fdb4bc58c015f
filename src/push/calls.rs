//! Addresses of calls that are under way, which the agent may use before it answers.
//!
//! Whose a new task is only the answer of its call says. Agents tell webhooks of the task before that, and those on the
//! Python SDK answer only after the webhook took it: a notification that waited for the answer would hold it up. So while a
//! call is under way, its own address vouches for the task that the call makes, of which there is one. It is believed no more
//! than the answer would be: both say what the agent says.
//!
//! In memory only: another gateway than the one that has the call does not know of it. Bounded by the calls under way, each of
//! which has one address of at most `MAX_SEALED` bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;

use crate::a2a::TaskId;

/// The calls of one agent. Of each the task that it makes, once that was told.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<HashMap<Arc<str>, Option<TaskId>, RandomState>>);

/// A call that may make a task, until this is dropped: to be kept until the answer was learned from.
#[derive(Debug)]
pub struct UnderWay {
    all: Arc<Calls>,
    sealed: Arc<str>,
}

impl Calls {
    pub fn begin(self: &Arc<Self>, sealed: &str) -> UnderWay {
        let sealed: Arc<str> = Arc::from(sealed);
        self.lock().insert(sealed.clone(), None);
        UnderWay {
            all: self.clone(),
            sealed,
        }
    }

    /// Whether the call that this was sealed for is under way, and makes this task: the first one that was told of.
    pub fn makes(&self, sealed: &str, task: &TaskId) -> bool {
        let mut calls = self.lock();
        let made = calls.get_mut(sealed);
        made.is_some_and(|made| made.get_or_insert_with(|| task.clone()) == task)
    }

    /// Nothing here panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Option<TaskId>, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.lock().remove(&self.sealed);
    }
}
