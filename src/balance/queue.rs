//! How many calls an endpoint has under way, and where further ones wait: first come, first served.
//!
//! A place is held until the last byte of an answer. While there is room nothing is locked: two reads and a write of
//! counters. A waiter that leaves gives up its place in the line, and what it was just handed goes to the next one. Nobody
//! overtakes: while anybody waits, new calls line up behind.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Endpoint, Error, Selected, lock};
use crate::config::Balancing;

#[derive(Debug)]
pub struct Slots {
    in_flight: AtomicUsize,
    most: usize,
    /// The length of the line, to be read without its lock. Only changed under it.
    waiting: AtomicUsize,
    line: Mutex<Line>,
    length: usize,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Line {
    waiters: VecDeque<(u64, oneshot::Sender<Selected>)>,
    /// The number of the next one who comes.
    next: u64,
}

impl Slots {
    pub fn new(config: &Balancing) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            most: config.max_in_flight,
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
            length: config.queue_length,
            patience: config.queue_timeout,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub fn has_room(&self) -> bool {
        self.in_flight() < self.most
    }

    /// Whoever waits has checked for room after its number was raised, and whoever leaves lowers the one before it reads
    /// the other: one of the two sees the other, because all four are in one order (`SeqCst`).
    fn take(&self) -> bool {
        self.in_flight
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |taken| {
                (taken < self.most).then_some(taken + 1)
            })
            .is_ok()
    }
}

/// A place at once, if there is one and nobody waits for it.
pub fn enter(endpoint: &Arc<Endpoint>) -> Option<Selected> {
    let slots = &endpoint.slots;
    (slots.waiting.load(Ordering::SeqCst) == 0 && slots.take()).then(|| Selected(endpoint.clone()))
}

/// A place once the calls before this one have theirs.
pub async fn wait(endpoint: &Arc<Endpoint>) -> Result<Selected, Error> {
    let mut place = line_up(endpoint)?;
    match tokio::time::timeout(endpoint.slots.patience, &mut place.handed).await {
        Ok(Ok(selected)) => Ok(selected),
        Ok(Err(_)) | Err(_) => Err(Error::Busy),
    }
}

/// The end of a call.
pub fn leave(endpoint: &Arc<Endpoint>) {
    endpoint.slots.in_flight.fetch_sub(1, Ordering::SeqCst);
    if endpoint.slots.waiting.load(Ordering::SeqCst) > 0 {
        hand_over(endpoint);
    }
}

/// A place in the line; given up on drop.
#[derive(Debug)]
pub struct Waiting {
    endpoint: Arc<Endpoint>,
    number: u64,
    pub handed: oneshot::Receiver<Selected>,
}

pub fn line_up(endpoint: &Arc<Endpoint>) -> Result<Waiting, Error> {
    let slots = &endpoint.slots;
    let (hand, handed) = oneshot::channel();
    let number = {
        let mut line = lock(&slots.line);
        if line.waiters.len() >= slots.length {
            return Err(Error::Busy);
        }
        let number = line.next;
        line.next += 1;
        line.waiters.push_back((number, hand));
        slots.waiting.fetch_add(1, Ordering::SeqCst);
        number
    };
    let waiting = Waiting {
        endpoint: endpoint.clone(),
        number,
        handed,
    };
    // Somebody may have left before anybody was seen to wait.
    hand_over(endpoint);
    Ok(waiting)
}

fn hand_over(endpoint: &Arc<Endpoint>) {
    let slots = &endpoint.slots;
    loop {
        let hand = {
            let mut line = lock(&slots.line);
            if line.waiters.is_empty() || !slots.take() {
                return;
            }
            slots.waiting.fetch_sub(1, Ordering::SeqCst);
            line.waiters.pop_front()
        };
        let selected = Selected(endpoint.clone());
        if let Some((_, hand)) = hand {
            // Of somebody who has just left; dropping it makes room again.
            let _given_up = hand.send(selected);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let slots = &self.endpoint.slots;
        let mut line = lock(&slots.line);
        if let Some(at) = line.waiters.iter().position(|(number, _)| *number == self.number) {
            line.waiters.remove(at);
            slots.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
