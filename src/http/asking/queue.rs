//! Places for checks that cost something, of which one address gets a part only.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::forwarded;

/// The subscriber of each check, in no order.
pub struct Queue {
    taken: Mutex<Vec<IpAddr>>,
    most: usize,
    most_of_one: usize,
}

impl Queue {
    pub fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            most,
            most_of_one,
        })
    }

    pub fn enter(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let subscriber = forwarded::subscriber(client);
        let mut taken = self.lock();
        let of_one = taken.iter().filter(|known| **known == subscriber).count();
        if taken.len() >= self.most || of_one >= self.most_of_one {
            return None;
        }
        taken.push(subscriber);
        Some(Place {
            queue: Arc::clone(self),
            subscriber,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Left on drop.
pub struct Place {
    queue: Arc<Queue>,
    subscriber: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.queue.lock();
        if let Some(place) = taken.iter().position(|known| *known == self.subscriber) {
            taken.swap_remove(place);
        }
    }
}
