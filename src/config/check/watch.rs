//! How endpoints are chosen, watched and bounded: numbers that make sense together.

use std::time::Duration;

use super::super::join;
use super::super::model::{Balance, Balancing, Ejection, HashOn, Health};
use super::super::raw::{RawBalance, RawEjection, RawHashOn, RawHealth, RawUpstream};
use super::super::units::{Percent, Time};
use super::{Check, DAY, HOUR, MILLISECOND, url};

/// A check more often than this is a load of its own.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
const MOST_IN_A_ROW: u32 = 100;

/// What a check asks for by default, in the place of a path.
pub const CARD: &str = "card";

pub fn balancing(check: &mut Check<'_>, key: &str, raw: &RawUpstream) -> Option<Balancing> {
    let balance = balance(check, key, raw);
    let health = match &raw.health {
        Some(raw) => health(check, &join(key, "health"), raw).map(Some),
        None => Some(None),
    };
    let ejection = ejection(check, &join(key, "ejection"), &raw.ejection);
    let panic_threshold = percent(check, &join(key, "panic_threshold"), raw.panic_threshold, 0);
    let slow_start_key = join(key, "slow_start");
    let slow_start = raw.slow_start.0;
    if let Some(window) = slow_start {
        check.time(&slow_start_key, Time(window), MILLISECOND, HOUR);
    }
    let max_in_flight = check.count(&join(key, "max_in_flight"), raw.max_in_flight, 1, 1_000_000);
    let queue_key = join(key, "queue");
    let queue_length = check.count(&join(&queue_key, "length"), raw.queue.length, 0, 65_535);
    let queue_timeout = check.time(&join(&queue_key, "timeout"), raw.queue.timeout, MILLISECOND, HOUR);
    Some(Balancing {
        balance,
        health: health?,
        ejection,
        panic_threshold,
        slow_start,
        max_in_flight,
        queue_length,
        queue_timeout,
    })
}

pub fn percent(check: &mut Check<'_>, key: &str, value: Percent, least: u32) -> u32 {
    check.within(key, value.0, least, 100, Percent);
    value.0
}

fn balance(check: &mut Check<'_>, key: &str, raw: &RawUpstream) -> Balance {
    let plain = match raw.balance {
        RawBalance::LeastRequest => Balance::LeastRequest,
        RawBalance::RoundRobin => Balance::RoundRobin,
        RawBalance::ConsistentHash => {
            return Balance::ConsistentHash(match raw.hash_on.unwrap_or(RawHashOn::Context) {
                RawHashOn::Context => HashOn::Context,
                RawHashOn::Principal => HashOn::Principal,
            });
        }
    };
    if raw.hash_on.is_some() && !check.was_given_up(&join(key, "balance")) {
        check.problem(
            &join(key, "hash_on"),
            "has no effect; it needs `balance: consistent_hash`",
        );
    }
    plain
}

fn health(check: &mut Check<'_>, key: &str, raw: &RawHealth) -> Option<Health> {
    let path_key = join(key, "path");
    let path = (raw.path != CARD).then(|| raw.path.clone());
    let mut sound = true;
    if let Some(path) = &path {
        let mut faults = url::path_faults(path);
        if !path.starts_with('/') {
            faults = vec!["must be `card` or begin with `/`"];
        }
        sound = faults.is_empty();
        check.problems(&path_key, faults);
    }
    let interval = check.time(&join(key, "interval"), raw.interval, LEAST_INTERVAL, DAY);
    let timeout = check.time(&join(key, "timeout"), raw.timeout, MILLISECOND, HOUR);
    if timeout > interval {
        check.problem(
            &join(key, "timeout"),
            "is longer than `interval`: a check would still run when the next begins",
        );
    }
    let mut row = |name, value: u32| {
        check.count(&join(key, name), value, 1, MOST_IN_A_ROW);
        value
    };
    let healthy_after = row("healthy_after", raw.healthy_after);
    let unhealthy_after = row("unhealthy_after", raw.unhealthy_after);
    sound.then_some(Health {
        path,
        interval,
        timeout,
        healthy_after,
        unhealthy_after,
    })
}

fn ejection(check: &mut Check<'_>, key: &str, raw: &RawEjection) -> Option<Ejection> {
    let row_key = join(key, "consecutive_failures");
    check.count(&row_key, raw.consecutive_failures, 1, MOST_IN_A_ROW);
    let base = check.time(&join(key, "base"), raw.base, MILLISECOND, DAY);
    let max = check.time(&join(key, "max"), raw.max, MILLISECOND, DAY);
    if base > max && !check.was_given_up(&join(key, "base")) {
        check.problem(&join(key, "max"), "is shorter than `base`, the first time");
    }
    let most = percent(check, &join(key, "most"), raw.most, 1);
    raw.enabled.then_some(Ejection {
        consecutive_failures: raw.consecutive_failures,
        base,
        max,
        most,
    })
}
