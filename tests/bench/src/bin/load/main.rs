//! Sends calls and measures: one thread, one readiness loop, results as one line of JSON.
//!
//! Modes
//! - `unary`: closed loop, every connection sends its next call when it has its answer. `--churn` opens a connection a
//!   call, `--follow` asks for every task that it was given (`SendMessage` and `GetTask` in turn).
//! - `rate`: open loop, `--rps` calls a second whatever the answers do. Latency counts from the moment at which a call
//!   was to be sent, so waiting for a free connection is in it. With `--follow`, all sends over, every task that they made
//!   is asked for at the same rate, and with `--other` once more through another gateway.
//! - `card`: `GET` of the card of the agent at `--path`, in a closed loop, or `--rps` a second as with `rate`; `--warmup` is a
//!   number of requests with both. With `--etag` each says that it knows the card (`If-None-Match`), and is answered with 304.
//! - `first-event`: opens streams, a few at a time, and closes each after its first event. The delay counts from the
//!   agent's stamp in the event.
//! - `events`: streams with events at a rate, to their clean end.
//! - `streams`: opens many silent streams and holds them.
//!
//! With `--old` the calls are those of A2A 0.3, which the agent does not know: a gateway has to translate them.
//!
//! Every answer is checked: status 200, the call's own id, a result; of a card, that it is the first one again, which was
//! read whole. One that fails counts as an error and never as a
//! fast call. With `--step` the program says when it is ready (warmed up, or all streams open) and goes on when a line
//! comes in, so that whoever started it can look at the proxy between the two.

mod card;
mod client;
mod streams;
mod unary;

use std::error::Error;
use std::io::{BufRead, Write};
use std::net::SocketAddrV4;

use a2a_gateway_bench::args::Args;
use a2a_gateway_bench::payload::{Plan, Target};

const SWITCHES: [&str; 5] = ["churn", "follow", "step", "old", "etag"];
const OPTIONS: [&str; 17] = [
    "target",
    "other",
    "path",
    "credential",
    "size",
    "connections",
    "requests",
    "seconds",
    "warmup",
    "rps",
    "count",
    "events",
    "interval-us",
    "event-bytes",
    "hold",
    "sources",
    "host",
];

/// Where and how to call.
pub struct Options {
    pub address: SocketAddrV4,
    pub target: Target,
    /// How many loopback addresses to call from; 0 leaves it to the system.
    pub sources: u8,
    pub connections: usize,
    /// The longest that a measured phase takes.
    pub seconds: u64,
    step: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::read(&SWITCHES, &OPTIONS)?;
    let address: SocketAddrV4 = args.need("target")?;
    let options = Options {
        address,
        target: Target {
            authority: args.text("host").map_or_else(|| address.to_string(), str::to_owned),
            path: args.text("path").unwrap_or("/").to_owned(),
            credential: args.text("credential").map(str::to_owned),
            old: args.has("old"),
        },
        sources: args.or("sources", 0)?,
        connections: args.or("connections", 64)?,
        seconds: args.or("seconds", 10)?,
        step: args.has("step"),
    };
    match args.mode.as_str() {
        "unary" => unary::closed_loop(&options, &closed(&args)?),
        "rate" => unary::open_loop(
            &options,
            &unary::Open {
                size: args.or("size", 1024)?,
                rps: args.or("rps", 2000)?,
                warmup: args.or("warmup", 0)?,
                follow: args.has("follow"),
                other: args.text("other").map(|_| args.need("other")).transpose()?,
            },
        ),
        "card" => card::run(
            &options,
            &card::Plan {
                closed: closed(&args)?,
                rps: args.text("rps").map(|_| args.need("rps")).transpose()?,
                etag: args.has("etag"),
            },
        ),
        "first-event" => streams::first_event(&options, args.or("count", 200)?, args.or("warmup", 0)?),
        "events" => streams::events(
            &options,
            Plan {
                events: args.or("events", 100)?,
                interval_us: args.or("interval-us", 10_000)?,
                bytes: args.or("event-bytes", 256)?,
            },
        ),
        "streams" => streams::hold(&options, args.or("count", 1000)?, args.or("hold", 5)?),
        other => Err(format!("'{other}' is no mode: unary, rate, card, first-event, events or streams").into()),
    }
}

fn closed(args: &Args) -> Result<unary::Closed, Box<dyn Error>> {
    Ok(unary::Closed {
        size: args.or("size", 1024)?,
        requests: args.or("requests", u64::MAX)?,
        warmup: args.or("warmup", 0)?,
        churn: args.has("churn"),
        follow: args.has("follow"),
    })
}

impl Options {
    /// Says that everything stands, and waits for leave to go on when `--step` was given.
    pub fn ready(&self, about: &serde_json::Value) -> Result<(), Box<dyn Error>> {
        if !self.step {
            return Ok(());
        }
        print(&serde_json::json!({ "ready": about }))?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            return Err("nobody is left to say go".into());
        }
        Ok(())
    }

    /// The same calls to another address.
    #[must_use]
    pub fn to(&self, address: SocketAddrV4) -> Self {
        Self {
            address,
            target: Target {
                authority: address.to_string(),
                ..self.target.clone()
            },
            ..*self
        }
    }

    /// The address to call from for the connection with this number.
    #[must_use]
    pub fn source(&self, number: usize) -> u8 {
        match self.sources {
            0 => 0,
            sources => u8::try_from(number % usize::from(sources)).map_or(1, |offset| offset + 1),
        }
    }

    #[must_use]
    pub const fn is_stepped(&self) -> bool {
        self.step
    }
}

pub fn print(value: &serde_json::Value) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}

/// Median, 99th percentile, mean and largest of `samples`, in microseconds.
pub fn summary(samples: &mut [u64]) -> serde_json::Value {
    samples.sort_unstable();
    let at = |share: f64| {
        let last = samples.len().saturating_sub(1);
        // Nearest rank; the product is far below 2^52.
        let rank = (last as f64 * share).round() as usize;
        samples.get(rank).copied().unwrap_or(0) as f64 / 1000.0
    };
    let sum: u64 = samples.iter().sum();
    let mean = sum as f64 / samples.len().max(1) as f64 / 1000.0;
    serde_json::json!({
        "count": samples.len(),
        "p50_us": at(0.5),
        "p90_us": at(0.9),
        "p99_us": at(0.99),
        "max_us": at(1.0),
        "mean_us": mean,
    })
}
