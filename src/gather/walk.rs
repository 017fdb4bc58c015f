//! Where a walk through the tasks of several endpoints stands, and the merge of their pages.
//!
//! Pure: what endpoints answer is passed in. An endpoint's own order within its pages is kept; between endpoints the latest
//! status comes first, tasks without a timestamp last, then the endpoint that stands first in the configuration.
//!
//! A place in a page that is asked for again is the endpoint's cursor and how much behind it was used. Tasks move to the
//! front when their status changes, so the count alone would skip others: the last used task is looked for first, then the
//! place is told from its timestamp. So a task that does not change is listed once; one that changes may be listed twice.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_lc_rs::digest;
use bytes::Bytes;

use crate::a2a::TaskId;
use crate::a2a::listing::{Listed, MOST_TASKS, Page, Stamp};

/// Eight bytes of a SHA-256: enough to tell the tasks of one page, or the endpoints of one agent.
pub type Mark = [u8; 8];

pub fn mark(text: &str) -> Mark {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    let mut mark = Mark::default();
    for (byte, of_hash) in mark.iter_mut().zip(hash.as_ref()) {
        *byte = *of_hash;
    }
    mark
}

/// How far an endpoint's tasks have been listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The endpoint's cursor; empty before its first page.
    pub cursor: String,
    /// How many tasks behind the cursor were used.
    pub used: usize,
    /// The last of them.
    pub last: Option<Last>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    pub task: Mark,
    pub changed: Option<Stamp>,
}

/// One endpoint in a walk.
#[derive(Debug)]
pub struct Source {
    /// The text of its URL.
    pub endpoint: Arc<str>,
    /// `None` once all its tasks were listed.
    pub place: Option<Place>,
    /// How many tasks it said that it has.
    pub total: Option<u64>,
    /// It did not answer: left out of this page.
    pub failed: bool,
    held: Option<Held>,
}

/// What is left of a page.
#[derive(Debug)]
struct Held {
    answer: Bytes,
    tasks: VecDeque<Listed>,
    next: String,
}

impl Source {
    pub fn new(endpoint: Arc<str>, place: Option<Place>, total: Option<u64>) -> Self {
        Self {
            endpoint,
            place,
            total,
            failed: false,
            held: None,
        }
    }

    /// The place to ask it from, before the merge can go on.
    pub fn wants(&self) -> Option<&Place> {
        self.place.as_ref().filter(|_| self.held.is_none() && !self.failed)
    }

    /// Takes what it answered when it was asked from its place.
    pub fn take(&mut self, answer: Bytes, page: Page) {
        let Some(place) = &mut self.place else { return };
        self.total = page.total.or(self.total);
        let Page { tasks, next, .. } = page;
        let skipped = place.skip(&tasks);
        let tasks: VecDeque<Listed> = tasks.into_iter().skip(skipped).collect();
        if tasks.is_empty() {
            self.turn(next);
        } else {
            place.used = skipped;
            self.held = Some(Held { answer, tasks, next });
        }
    }

    fn turn(&mut self, next: String) {
        self.held = None;
        self.place = match self.place.take() {
            Some(place) if !next.is_empty() => Some(Place {
                cursor: next,
                // The page was shorter than before: the rest stands behind the next cursor.
                used: place.used,
                last: place.last.filter(|_| place.used > 0),
            }),
            Some(_) | None => None,
        };
    }

    fn head(&self) -> Option<&Listed> {
        self.held.as_ref()?.tasks.front()
    }

    fn pop(&mut self) -> Option<(Listed, Bytes)> {
        let held = self.held.as_mut()?;
        let task = held.tasks.pop_front()?;
        let raw = held.answer.slice(task.at.clone());
        let next = held.tasks.is_empty().then(|| std::mem::take(&mut held.next));
        if let Some(place) = &mut self.place {
            place.used += 1;
            place.last = Some(Last {
                task: mark(task.id.as_str()),
                changed: task.changed,
            });
        }
        if let Some(next) = next {
            if let Some(place) = &mut self.place {
                place.used = 0;
            }
            self.turn(next);
        }
        Some((task, raw))
    }
}

impl Place {
    /// How many tasks of the page behind the cursor were used before; `used` becomes what is left for the pages behind it.
    fn skip(&mut self, tasks: &[Listed]) -> usize {
        let (used, last) = (std::mem::take(&mut self.used), self.last);
        let Some(last) = last.filter(|_| used > 0) else {
            return 0;
        };
        if let Some(at) = tasks.iter().position(|task| mark(task.id.as_str()) == last.task) {
            return at + 1;
        }
        let skipped = match last.changed {
            Some(changed) => {
                let later = |task: &&Listed| task.changed > Some(changed);
                tasks.iter().take_while(later).count()
            }
            None => used.min(tasks.len()),
        };
        if skipped == tasks.len() {
            self.used = used.saturating_sub(skipped);
        }
        skipped
    }

    /// How many tasks to ask for, so that `wanted` new ones can come.
    pub fn size(&self, wanted: usize) -> usize {
        (self.used + wanted).clamp(1, MOST_TASKS)
    }
}

/// What the merge gives next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A task of this source, as its endpoint wrote it.
    Task(usize, TaskId, Bytes),
    /// Sources must be asked first.
    Wait,
    /// Every source is at its end, or left out.
    End,
}

/// The next task of all sources.
pub fn step(sources: &mut [Source]) -> Step {
    if sources.iter().any(|source| source.wants().is_some()) {
        return Step::Wait;
    }
    let heads = sources.iter().enumerate();
    let heads = heads.filter_map(|(index, source)| Some((index, source.head()?.changed)));
    // `max_by_key` takes the last of equals, and the first endpoint comes first.
    let latest = heads.rev().max_by_key(|(_, changed)| *changed).map(|(index, _)| index);
    let popped = latest.and_then(|index| Some((index, sources.get_mut(index)?.pop()?)));
    match popped {
        Some((index, (task, raw))) => Step::Task(index, task.id, raw),
        None => Step::End,
    }
}

/// How many tasks there are in all; not known if an endpoint that answers does not say. One that does not answer counts with
/// what it said before.
pub fn total(sources: &[Source]) -> Option<u64> {
    let mut known = sources.iter().filter(|source| !source.failed || source.total.is_some());
    known.try_fold(0_u64, |sum, source| Some(sum.saturating_add(source.total?)))
}
