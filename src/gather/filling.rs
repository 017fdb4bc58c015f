//! A caller's page that is being made of what endpoints have answered.
//!
//! Pure. Tasks are copied as they are merged, so that an endpoint's answer is held no longer than it is needed.

use std::collections::HashSet;

use super::walk::{Source, Step, step};
use crate::a2a::TaskId;

pub struct Filling {
    /// Most tasks.
    size: usize,
    /// The page ends with the task that reaches them.
    bytes: usize,
    pub count: usize,
    /// The elements of the array, with commas between them.
    pub tasks: Vec<u8>,
    /// A task and the source that it is of, where each has tasks of its own.
    seen: HashSet<(usize, TaskId)>,
    apart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// It is full, or there is nothing more.
    Page,
    /// It has its bytes.
    Bytes,
    /// Endpoints must be asked.
    Wait,
}

impl Filling {
    pub fn new(size: usize, bytes: usize) -> Self {
        Self {
            size,
            bytes,
            count: 0,
            tasks: Vec::new(),
            seen: HashSet::new(),
            apart: false,
        }
    }

    /// Tasks of one id are different ones where they are of different sources.
    #[must_use]
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Merges what is at hand. Tasks that are not taken are dropped.
    pub fn fill(&mut self, sources: &mut [Source], takes: impl Fn(&Source, &TaskId) -> bool) -> Filled {
        while self.count < self.size {
            if self.tasks.len() >= self.bytes {
                return Filled::Bytes;
            }
            match step(sources) {
                Step::Wait => return Filled::Wait,
                Step::End => return Filled::Page,
                Step::Task(index, task, raw) => {
                    let taken = sources.get(index).is_some_and(|source| takes(source, &task));
                    let of = if self.apart { index } else { 0 };
                    if taken && self.seen.insert((of, task)) {
                        self.add(&raw);
                    }
                }
            }
        }
        Filled::Page
    }

    fn add(&mut self, raw: &[u8]) {
        if self.count > 0 {
            self.tasks.push(b',');
        }
        self.tasks.extend_from_slice(raw);
        self.count += 1;
    }
}
