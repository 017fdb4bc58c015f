//! Services that the gateway asks about a request before it goes on: whose a credential is, whether a call is allowed.
//!
//! Here is what all who ask have in common: whom to believe at the service (`trust`), how many questions are under way and
//! for whom (`queue`), one question for all that ask the same at once (`joined`), the bounds of an exchange, and when the log
//! hears of failures. What is asked, how an answer reads and how long it is remembered is theirs. A question is polled by
//! those who wait for it and ends when the last of them has left.

mod joined;
mod queue;
mod trust;

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;

use super::fetch::{self, Fetched};

pub use self::joined::Joined;
pub use self::queue::{Place, Queue};
pub use self::trust::{Believed, System, Trust};

/// Of an answer. The claims of somebody with hundreds of groups have some 20 KiB.
const MAX_BYTES: usize = 64 * 1024;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// One address gets a quarter of the questions, so that nobody alone takes them all.
const PART_OF_ONE: usize = 4;
/// The log tells of failures at most this often.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// What is sent.
pub enum Request {
    Get(HeaderMap),
    Post(HeaderMap, Bytes),
}

/// What the log is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    Fails,
    /// It failed, and the log was told.
    WorksAgain,
}

/// Who is asked at one URL.
pub struct Service {
    url: String,
    /// For one question, connecting included.
    timeout: Duration,
    trust: Trust,
    queue: Arc<Queue>,
    failing: Mutex<Failing>,
}

/// What the log was told: the first failure and the first success after it, and of what callers may cause over and over once
/// in a while.
#[derive(Default)]
struct Failing {
    is_told: bool,
    told: Option<Instant>,
}

impl Service {
    /// `concurrent` is the most questions under way. Blocking; the error is about the CA file.
    pub fn load(url: &str, ca: Option<&Path>, timeout: Duration, concurrent: usize) -> Result<Self, String> {
        Ok(Self {
            url: url.to_owned(),
            timeout,
            trust: Trust::load(ca, System::of(url))?,
            queue: Queue::new(concurrent, (concurrent / PART_OF_ONE).max(1)),
            failing: Mutex::default(),
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// A place among the questions under way.
    pub fn enter(&self, client: IpAddr) -> Option<Place> {
        self.queue.enter(client)
    }

    pub async fn send(&self, request: Request) -> Result<Fetched, fetch::Error> {
        let options = |headers| fetch::Options {
            headers,
            max_bytes: MAX_BYTES,
            max_header_bytes: MAX_HEADER_BYTES,
            timeout: self.timeout,
            ..fetch::Options::default()
        };
        let believed = self.trust.now();
        match request {
            Request::Get(headers) => believed.fetcher.get(&self.url, &options(headers)).await,
            Request::Post(headers, body) => believed.fetcher.submit(&self.url, body, &options(headers)).await,
        }
    }

    /// How a question ended; what the log is to be told of that.
    pub fn note(&self, failed: bool) -> Option<News> {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match failed {
            false if failing.is_told => {
                failing.is_told = false;
                Some(News::WorksAgain)
            }
            true if !failing.is_told && failing.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) => {
                *failing = Failing {
                    is_told: true,
                    told: Some(Instant::now()),
                };
                Some(News::Fails)
            }
            true | false => None,
        }
    }
}

/// Of the parts one after another.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}
