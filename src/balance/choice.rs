//! One endpoint out of those that may be chosen: by what is under way, in turns, or by a hash.
//!
//! The hash is rendezvous hashing: every endpoint draws a number for a key, and the highest draw has it. An endpoint that
//! comes takes only the keys in which it draws highest, one that goes loses only its own. The draw is a fixed function of
//! the endpoint's URL and the key, so that gateways agree and a restart changes nothing; whoever chooses a key can choose
//! its endpoint too, as naming one context in every call would. Knows nothing of health. Nothing is allocated or locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Endpoint;
use crate::config::{Balance, HashOn};

/// What a hash may keep together.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub context: Option<&'a str>,
    /// `None` of an anonymous caller: a hash would take all of them for one.
    pub principal: Option<&'a str>,
}

#[derive(Debug)]
pub struct Choice {
    balance: Balance,
    next: AtomicUsize,
}

impl Choice {
    pub fn new(balance: Balance, endpoints: usize) -> Self {
        Self {
            balance,
            // A restarted gateway should not send every first call to the first endpoint.
            next: AtomicUsize::new(fastrand::usize(..endpoints.max(1))),
        }
    }

    /// The call has one place by its key.
    pub fn is_bound(&self, ask: Ask<'_>) -> bool {
        self.key(ask).is_some()
    }

    /// One of those that `may` be chosen. `share` is how much of its part an endpoint should have, if not all of it.
    pub fn among<'a>(
        &self,
        list: &'a [Arc<Endpoint>],
        ask: Ask<'_>,
        may: impl Fn(&Endpoint) -> bool,
        share: impl Fn(&Endpoint) -> Option<f64>,
    ) -> Option<&'a Arc<Endpoint>> {
        let eligible = || list.iter().filter(|endpoint| may(endpoint));
        if let Some(key) = self.key(ask) {
            let drawn = |endpoint: &Endpoint| {
                let share = share(endpoint).unwrap_or(1.0);
                weighted(draw(endpoint.seed, key), share)
            };
            return eligible().max_by(|one, other| drawn(one).total_cmp(&drawn(other)));
        }
        if eligible().any(|endpoint| share(endpoint).is_some()) {
            let weight = |endpoint: &Endpoint| {
                let calls = u32::try_from(endpoint.in_flight()).unwrap_or(u32::MAX);
                share(endpoint).unwrap_or(1.0) / (f64::from(calls) + 1.0)
            };
            let mut left = fastrand::f64() * eligible().map(|endpoint| weight(endpoint)).sum::<f64>();
            return eligible()
                .find(|endpoint| {
                    left -= weight(endpoint);
                    left <= 0.0
                })
                .or_else(|| eligible().last());
        }
        let count = eligible().count();
        if count == 0 {
            // Nobody's turn has passed.
            return None;
        }
        let pick = |at: usize| eligible().nth(at % count);
        match self.balance {
            Balance::RoundRobin => pick(self.next.fetch_add(1, Ordering::Relaxed)),
            // Two random choices: as even as looking at all, without herding onto the idlest.
            Balance::LeastRequest | Balance::ConsistentHash(_) => {
                let first = fastrand::usize(..count);
                let second = first + 1 + fastrand::usize(..count.saturating_sub(1).max(1));
                match (pick(first), pick(second)) {
                    (Some(one), Some(other)) if other.in_flight() < one.in_flight() => Some(other),
                    (one, _) => one,
                }
            }
        }
    }

    fn key(&self, ask: Ask<'_>) -> Option<u64> {
        let Balance::ConsistentHash(on) = self.balance else {
            return None;
        };
        // A context and a principal of one text are two keys.
        let of_context = |context| hash(1, context);
        let of_principal = |principal| hash(2, principal);
        match (on, ask.context) {
            (HashOn::Context, Some(context)) => Some(of_context(context)),
            (HashOn::Context, None) | (HashOn::Principal, _) => ask.principal.map(of_principal),
        }
    }
}

/// What an endpoint's draws begin with.
pub fn seed(url: &str) -> u64 {
    hash(0, url)
}

fn draw(seed: u64, key: u64) -> u64 {
    mixed(seed ^ mixed(key))
}

/// The draw of an endpoint that should have only a part of its share: it wins so much less often, and what it does not win
/// goes where it would go without it. Keeps the order of whole draws.
fn weighted(drawn: u64, weight: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits are kept, which is what the quotient can hold"
    )]
    let uniform = ((drawn >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    weight / -uniform.ln()
}

/// Tells one principal from another.
pub fn caller(principal: &str) -> u64 {
    hash(2, principal)
}

/// FNV-1a: simple, and the same on every machine and in every release.
fn hash(kind: u8, text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mixed(text.bytes().fold(step(0xcbf2_9ce4_8422_2325, kind), step))
}

/// The finaliser of SplitMix64: every bit of the input changes half of the output.
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
