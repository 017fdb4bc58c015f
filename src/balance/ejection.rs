//! When failures in a row take an endpoint out, and for how long. Pure; time is given.
//!
//! No caller can get a working endpoint ejected. What a call's content may have caused counts for one caller only up to
//! half of what it takes; if one caller's failures are all that there is, the gateway asks the endpoint itself, and
//! its answer decides. That a connection cannot be made has nothing to do with any caller.

use std::time::Duration;

use crate::config::Ejection;

/// What went wrong with a call. What a caller may have done alone is not among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No connection could be made.
    Connect,
    /// The agent closed or reset the connection before or inside an answer.
    Closed,
    /// Silence past a timeout, an unreadable answer, HTTP 5xx.
    Answer,
    /// A stream broke that had begun. Does not count: an agent may give up on a caller that reads slowly.
    Stream,
}

/// What the gateway is to find out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// Whether a connection can be made.
    Gone,
    /// Whether it answers the gateway's own request.
    Failing,
}

/// The failures since the last success.
#[derive(Clone, Debug, Default)]
pub struct Run {
    connects: u32,
    /// By caller. Bounded: as many callers as it takes end the run.
    callers: Vec<(u64, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Go,
    /// Enough failures, but of too few callers.
    Doubt,
    Eject {
        /// No connection can be made.
        dead: bool,
    },
}

impl Run {
    pub fn add(&mut self, fault: Fault, caller: u64, enough: u32) -> Verdict {
        match fault {
            Fault::Connect => self.connects = self.connects.saturating_add(1),
            Fault::Closed | Fault::Answer => match self.callers.iter_mut().find(|(known, _)| *known == caller) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => self.callers.push((caller, 1)),
            },
            Fault::Stream => return Verdict::Go,
        }
        let half = enough.div_ceil(2).min(enough.saturating_sub(1)).max(1);
        let count = |most: u32| {
            let of_callers = self.callers.iter().map(|(_, count)| (*count).min(most));
            of_callers.fold(self.connects, u32::saturating_add)
        };
        if self.connects >= enough {
            Verdict::Eject { dead: true }
        } else if enough > 1 && count(half) >= enough {
            Verdict::Eject { dead: false }
        } else if count(u32::MAX) >= enough {
            Verdict::Doubt
        } else {
            Verdict::Go
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// How long an endpoint stays out, longer each time, and shorter again after quiet.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    doublings: u32,
    /// The last time, and when it ended.
    last: Option<(Duration, Duration)>,
}

impl Backoff {
    /// `now` is since the start.
    pub fn next(&mut self, config: &Ejection, now: Duration) -> Duration {
        if let Some((time, ended)) = self.last {
            // Each quiet time as long as the last ejection takes one doubling back.
            let quiet = now.saturating_sub(ended).as_nanos() / time.as_nanos().max(1);
            self.doublings = self.doublings.saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX));
        }
        let factor = 1_u32.checked_shl(self.doublings).unwrap_or(u32::MAX);
        let time = config.base.saturating_mul(factor).min(config.max);
        if time < config.max {
            self.doublings += 1;
        }
        self.last = Some((time, now + time));
        time
    }

    /// The endpoint has come back before its time.
    pub fn ended(&mut self, now: Duration) {
        if let Some((_, end)) = &mut self.last {
            *end = now.min(*end);
        }
    }
}
