//! Endpoints without sockets; time is passed in.

mod budget;
mod choice;
mod ejection;
mod health;
mod queue;
mod succession;

use super::*;
use crate::config::{Balance, Balancing, Ejection, HashOn, Health};
use crate::observe::Metrics;

const NOBODY: Ask<'static> = Ask {
    context: None,
    principal: None,
};

fn url(at: usize) -> String {
    format!("http://127.0.0.1:{}/", 9000 + at)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// As a file without a word about it says.
pub fn balancing(balance: Balance) -> Balancing {
    Balancing {
        balance,
        health: None,
        ejection: Some(Ejection {
            consecutive_failures: 5,
            base: seconds(10),
            max: seconds(300),
            most: 50,
        }),
        panic_threshold: 50,
        slow_start: None,
        max_in_flight: 1024,
        queue_length: 100,
        queue_timeout: seconds(1),
    }
}

pub fn build(urls: &[String], config: &Balancing) -> Endpoints {
    let list: Vec<config::Endpoint> = urls
        .iter()
        .map(|url| config::Endpoint {
            url: url.clone(),
            drain: false,
        })
        .collect();
    let metrics = Metrics::new().expect("metrics").agent("agent");
    Endpoints::build(&list, config, 20, &metrics).expect("valid URLs")
}

fn with(count: usize, config: &Balancing) -> Endpoints {
    build(&(0..count).map(url).collect::<Vec<_>>(), config)
}

fn endpoints(count: usize, balance: Balance) -> Endpoints {
    with(count, &balancing(balance))
}

/// Which endpoints got some of many calls.
fn chosen(endpoints: &Endpoints, now: Duration) -> Vec<usize> {
    let mut found: Vec<usize> = (0..200)
        .filter_map(|_| endpoints.choose_at(NOBODY, &[], now).ok())
        .map(|endpoint| endpoint.index)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}
