//! Calls with an event stream: how late an event comes, and how many streams can stay open.

use std::time::Duration;

use a2a_gateway_bench::clock::now_ns;
use a2a_gateway_bench::payload::{self, Plan, STAMP};
use a2a_gateway_bench::reactor::Reactor;
use memchr::memmem;
use serde_json::json;

use crate::client::{Client, Failure, Turn};
use crate::{Options, print, summary};

const BUFFER: usize = 256 * 1024;
const SECOND: u64 = 1_000_000_000;
const WAIT_MS: u64 = 100;

/// How many streams may be without their first event at a time while many are opened.
const OPENING: usize = 64;

/// As many failed streams end the run.
const MAX_ERRORS: usize = 100;

/// What happens to a stream after its first event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Leave,
    Hold,
    ReadToEnd,
}

struct Job<'a> {
    options: &'a Options,
    plan: Plan,
    after: After,
    /// How many streams in all, and how many may be under way at a time.
    count: usize,
    at_once: usize,
}

#[derive(Default)]
struct Streams {
    open: Vec<Option<Open>>,
    /// From the agent's stamp to here, of first and of later events.
    first_delays: Vec<u64>,
    delays: Vec<u64>,
    ended: usize,
    errors: usize,
    first_error: Option<String>,
}

struct Open {
    client: Client,
    events: Events,
    had_first: bool,
}

/// Cuts an answer's bytes into events and reads their stamps.
#[derive(Default)]
struct Events {
    partial: Vec<u8>,
}

impl Events {
    /// Calls `stamp` for every event that `data` completes and that carries one; a heartbeat does not.
    fn take(&mut self, data: &[u8], stamp: &mut impl FnMut(u64)) {
        if self.partial.is_empty() {
            let rest = each_event(data, stamp);
            self.partial.extend_from_slice(rest);
        } else {
            self.partial.extend_from_slice(data);
            let left = each_event(&self.partial, stamp).len();
            self.partial.drain(..self.partial.len() - left);
        }
    }
}

fn each_event<'a>(mut bytes: &'a [u8], stamp: &mut impl FnMut(u64)) -> &'a [u8] {
    while let Some(end) = memmem::find(bytes, b"\n\n") {
        let (event, rest) = bytes.split_at(end);
        bytes = rest.get(2..).unwrap_or_default();
        let Some(at) = memmem::find(event, STAMP.as_bytes()) else {
            continue;
        };
        let digits = event.get(at + STAMP.len()..).unwrap_or_default();
        let number = digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .fold(0, |number: u64, digit| {
                number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
            });
        stamp(number);
    }
    bytes
}

impl Streams {
    fn fail(&mut self, error: &Failure) {
        self.errors += 1;
        if self.first_error.is_none() {
            self.first_error = Some(error.to_string());
        }
    }

    fn report(&mut self, mode: &str, took: u64) -> serde_json::Value {
        json!({
            "mode": mode,
            "streams": self.first_delays.len(),
            "open": self.open.iter().flatten().count(),
            "ended": self.ended,
            "errors": self.errors,
            "first_error": self.first_error,
            "seconds": took as f64 / SECOND as f64,
            "events": self.first_delays.len() + self.delays.len(),
            "first_event": summary(&mut self.first_delays),
            "later_events": summary(&mut self.delays),
        })
    }
}

impl Job<'_> {
    /// Opens the streams and reads until every one is where `after` wants it.
    fn run(&self, reactor: &mut Reactor, streams: &mut Streams) -> Result<u64, Failure> {
        let start = now_ns();
        let stop = start + self.options.seconds * SECOND;
        let mut request = payload::send_streaming_message(&self.options.target, self.plan);
        let mut buffer = vec![0; BUFFER];
        let mut reports = Vec::new();
        // The streams whose first event has not come, or whose end is waited for.
        let mut under_way = 0;
        let mut started = 0;
        loop {
            while started < self.count && under_way < self.at_once && streams.errors < MAX_ERRORS {
                let place = streams.open.len();
                let opened = Client::open(self.options, reactor, place).and_then(|mut client| {
                    client.send(&mut request, start + started as u64)?;
                    Ok(client)
                });
                started += 1;
                match opened {
                    Ok(client) => {
                        under_way += 1;
                        streams.open.push(Some(Open {
                            client,
                            events: Events::default(),
                            had_first: false,
                        }));
                    }
                    Err(error) => {
                        streams.fail(&error);
                        streams.open.push(None);
                    }
                }
            }
            if under_way == 0 || now_ns() > stop {
                break;
            }
            reports.clear();
            reactor.wait(&mut reports, Some(WAIT_MS))?;
            for report in &reports {
                let place = usize::try_from(report.token)?;
                let before = streams.waits(place, self.after);
                streams.take(place, self.after, &mut buffer);
                if before && !streams.waits(place, self.after) {
                    under_way -= 1;
                }
            }
        }
        if under_way > 0 {
            for place in 0..streams.open.len() {
                if streams.waits(place, self.after) {
                    streams.fail(&"no event, or no end, in time".into());
                    streams.close(place);
                }
            }
        }
        Ok(now_ns() - start)
    }
}

impl Streams {
    /// Whether something of this stream is still waited for.
    fn waits(&self, place: usize, after: After) -> bool {
        self.open
            .get(place)
            .and_then(Option::as_ref)
            .is_some_and(|open| after == After::ReadToEnd || !open.had_first)
    }

    fn close(&mut self, place: usize) {
        if let Some(slot) = self.open.get_mut(place) {
            *slot = None;
        }
    }

    fn take(&mut self, place: usize, after: After, buffer: &mut [u8]) {
        let Some(Some(open)) = self.open.get_mut(place) else {
            return;
        };
        let (first_delays, delays) = (&mut self.first_delays, &mut self.delays);
        let (events, had_first) = (&mut open.events, &mut open.had_first);
        let turned = open.client.turn(buffer, &mut |data| {
            let now = now_ns();
            events.take(data, &mut |sent| {
                let delay = now.saturating_sub(sent);
                if *had_first {
                    delays.push(delay);
                } else {
                    *had_first = true;
                    first_delays.push(delay);
                }
            });
        });
        let had_first = open.had_first;
        let outcome = turned.and_then(|turn| {
            if had_first || turn == Turn::Answered {
                open.client.check()?;
                if !open.client.is_event_stream() {
                    return Err("the answer is no event stream".into());
                }
            }
            Ok(turn)
        });
        match outcome {
            Ok(Turn::Waiting) if had_first && after == After::Leave => self.close(place),
            Ok(Turn::Waiting) => {}
            Ok(Turn::Answered) => {
                self.ended += 1;
                if after != After::ReadToEnd {
                    self.fail(&"the stream ended by itself".into());
                }
                self.close(place);
            }
            Err(error) => {
                self.fail(&error);
                self.close(place);
            }
        }
    }
}

pub fn first_event(options: &Options, count: usize, warmup: usize) -> Result<(), Failure> {
    let mut reactor = Reactor::new()?;
    let mut job = Job {
        options,
        plan: Plan::default(),
        after: After::Leave,
        count: warmup,
        at_once: options.connections,
    };
    let mut warm = Streams::default();
    job.run(&mut reactor, &mut warm)?;
    options.ready(&json!({ "errors": warm.errors, "first_error": warm.first_error }))?;
    job.count = count;
    let mut streams = Streams::default();
    let took = job.run(&mut reactor, &mut streams)?;
    print(&streams.report("first-event", took))
}

pub fn events(options: &Options, plan: Plan) -> Result<(), Failure> {
    if plan.events == 0 {
        return Err("--events 0 would wait for ever".into());
    }
    options.ready(&json!({ "errors": 0 }))?;
    let mut streams = Streams::default();
    let took = Job {
        options,
        plan,
        after: After::ReadToEnd,
        count: options.connections,
        at_once: options.connections,
    }
    .run(&mut Reactor::new()?, &mut streams)?;
    let mut report = streams.report("events", took);
    // Each stream has a first event and then `plan.events`.
    let expected = options.connections as u64 * (plan.events + 1);
    if let Some(report) = report.as_object_mut() {
        report.insert("events_expected".into(), expected.into());
    }
    print(&report)
}

pub fn hold(options: &Options, count: usize, hold: u64) -> Result<(), Failure> {
    let mut reactor = Reactor::new()?;
    let mut streams = Streams::default();
    let took = Job {
        options,
        plan: Plan::default(),
        after: After::Hold,
        count,
        at_once: OPENING,
    }
    .run(&mut reactor, &mut streams)?;
    let about = streams.report("streams", took);
    if options.is_stepped() {
        options.ready(&about)?;
    } else {
        std::thread::sleep(Duration::from_secs(hold));
    }
    // What came meanwhile: a stream that the proxy ended is no longer held.
    let mut buffer = vec![0; BUFFER];
    for place in 0..streams.open.len() {
        streams.take(place, After::Hold, &mut buffer);
    }
    let report = streams.report("streams", took);
    streams.open.clear();
    print(&report)
}
