//! Calls with one answer: as fast as they come back, or at a fixed rate.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use a2a_gateway_bench::card::Card;
use a2a_gateway_bench::clock::now_ns;
use a2a_gateway_bench::payload::{self, Request, Target};
use a2a_gateway_bench::reactor::{Reactor, Report, TIMER};
use serde_json::json;

use crate::client::{Client, Failure, Turn};
use crate::{Options, print, summary};

/// Holds any answer of the benchmark in one read.
pub const BUFFER: usize = 256 * 1024;

const SECOND: u64 = 1_000_000_000;

/// How long the last answers may take after the last call was sent.
pub const GRACE: u64 = 10 * SECOND;

/// How long one wait lasts at most, so that the end of a phase is seen without any report.
pub const WAIT_MS: u64 = 100;

/// As many errors end the run: what follows would measure error answers.
const MAX_ERRORS: u64 = 100;

/// What is asked again and again.
pub enum Calls {
    /// `SendMessage` of so many bytes.
    Send(usize),
    Card(Card),
}

impl Calls {
    fn request(&self, target: &Target) -> Request {
        match self {
            Self::Send(size) => payload::send_message(target, *size),
            Self::Card(card) => payload::get_card(target, card.known_as()),
        }
    }

    fn check(&self, client: &Client) -> Result<(), Failure> {
        match self {
            Self::Send(_) => client.check(),
            Self::Card(card) => client.check_card(card),
        }
    }
}

pub struct Closed {
    pub size: usize,
    pub requests: u64,
    pub warmup: u64,
    pub churn: bool,
    pub follow: bool,
}

pub struct Open {
    pub size: usize,
    pub rps: u64,
    /// Seconds.
    pub warmup: u64,
    /// The sends over, each task is asked for at the same rate.
    pub follow: bool,
    /// Another way to the same agent: each task is asked for there, too.
    pub other: Option<SocketAddrV4>,
}

/// The counts of one phase.
#[derive(Default)]
pub struct Tally {
    sent: u64,
    latencies: Vec<u64>,
    pub errors: u64,
    pub first_error: Option<String>,
    connects: u64,
    /// What the agent made, where somebody asks for it later.
    tasks: Option<Vec<String>>,
}

impl Tally {
    fn fail(&mut self, error: &Failure) {
        self.errors += 1;
        if self.first_error.is_none() {
            self.first_error = Some(error.to_string());
        }
    }

    fn is_hopeless(&self) -> bool {
        self.errors >= MAX_ERRORS
    }

    pub fn report(&mut self, mode: &str, took: u64) -> serde_json::Value {
        let seconds = took as f64 / SECOND as f64;
        json!({
            "mode": mode,
            "requests": self.latencies.len(),
            "errors": self.errors,
            "first_error": self.first_error,
            "connects": self.connects,
            "seconds": seconds,
            "rps": self.latencies.len() as f64 / seconds,
            "latency": summary(&mut self.latencies),
        })
    }
}

struct Slot {
    client: Option<Client>,
    /// When the call that is under way was sent, or was to be sent.
    since: u64,
    busy: bool,
    /// What is to be sent next instead of a send: `GetTask`.
    next: Option<Request>,
}

pub struct Load<'a> {
    options: &'a Options,
    calls: Calls,
    reactor: Reactor,
    slots: Vec<Slot>,
    request: Request,
    /// In every call's ids: unlike any earlier one's, of an earlier run too.
    number: u64,
    buffer: Vec<u8>,
    reports: Vec<Report>,
}

impl<'a> Load<'a> {
    pub fn new(options: &'a Options, calls: Calls) -> Result<Self, Failure> {
        let mut load = Self {
            options,
            reactor: Reactor::new()?,
            slots: Vec::new(),
            request: calls.request(&options.target),
            calls,
            number: now_ns(),
            buffer: vec![0; BUFFER],
            reports: Vec::new(),
        };
        for place in 0..options.connections {
            load.slots.push(Slot {
                client: Some(Client::open(options, &load.reactor, place)?),
                since: 0,
                busy: false,
                next: None,
            });
        }
        Ok(load)
    }

    /// Sends a call on the slot's connection; opens one when there is none.
    fn send(&mut self, place: usize, since: u64, tally: &mut Tally) {
        let Some(slot) = self.slots.get_mut(place) else {
            return;
        };
        self.number += 1;
        tally.sent += 1;
        slot.since = since;
        slot.busy = true;
        let mut next = slot.next.take();
        let request = next.as_mut().unwrap_or(&mut self.request);
        let sent = match slot.client.as_mut() {
            Some(client) => client.send(request, self.number),
            None => Client::open(self.options, &self.reactor, place).and_then(|mut client| {
                tally.connects += 1;
                client.send(request, self.number)?;
                slot.client = Some(client);
                Ok(())
            }),
        };
        if let Err(error) = sent {
            tally.fail(&error);
            slot.client = None;
            slot.busy = false;
        }
    }

    /// Takes what came on a connection; true when its call is over, however it ended.
    fn take(&mut self, place: usize, tally: &mut Tally) -> bool {
        let Some(slot) = self.slots.get_mut(place) else {
            return false;
        };
        let Some(client) = slot.client.as_mut() else {
            return false;
        };
        if !slot.busy {
            // An idle connection has something to say only when it is being closed.
            if client.turn(&mut self.buffer, &mut |_| {}).is_err() {
                slot.client = None;
            }
            return false;
        }
        let outcome = match client.turn(&mut self.buffer, &mut |_| {}) {
            Ok(Turn::Waiting) => return false,
            Ok(Turn::Answered) => self.calls.check(client),
            Err(error) => Err(error),
        };
        slot.busy = false;
        let spent = client.is_spent();
        match outcome {
            Ok(()) => tally.latencies.push(now_ns().saturating_sub(slot.since)),
            Err(error) => {
                tally.fail(&error);
                slot.client = None;
            }
        }
        if spent {
            slot.client = None;
        }
        true
    }

    pub fn run_closed(&mut self, plan: &Closed, requests: u64, tally: &mut Tally) -> Result<u64, Failure> {
        let start = now_ns();
        let stop = start + self.options.seconds * SECOND;
        for place in 0..self.slots.len() {
            if tally.sent < requests {
                self.send(place, now_ns(), tally);
            }
        }
        let mut reports = std::mem::take(&mut self.reports);
        while self.slots.iter().any(|slot| slot.busy) {
            if now_ns() > stop + GRACE || tally.is_hopeless() {
                break;
            }
            reports.clear();
            self.reactor.wait(&mut reports, Some(WAIT_MS))?;
            for report in &reports {
                let place = usize::try_from(report.token)?;
                if !self.take(place, tally) {
                    continue;
                }
                self.prepare(place, plan);
                let now = now_ns();
                if tally.sent < requests && now < stop {
                    self.send(place, now, tally);
                }
            }
        }
        self.give_up(tally);
        self.reports = reports;
        Ok(now_ns() - start)
    }

    /// Readies a slot for its next call: a new connection, or the question for the task that it has just been given.
    fn prepare(&mut self, place: usize, plan: &Closed) {
        let Some(slot) = self.slots.get_mut(place) else {
            return;
        };
        if plan.follow {
            slot.next = slot
                .client
                .as_ref()
                .and_then(Client::task)
                .map(|task| payload::get_task(&self.options.target, task));
        }
        if plan.churn {
            slot.client = None;
        }
    }

    /// Whatever is still under way has failed.
    fn give_up(&mut self, tally: &mut Tally) {
        for slot in self.slots.iter_mut().filter(|slot| slot.busy) {
            tally.fail(&"no answer in time".into());
            slot.busy = false;
            slot.client = None;
        }
    }

    /// Sends for so many seconds.
    pub fn run_open(&mut self, rps: u64, seconds: u64, tally: &mut Tally) -> Result<u64, Failure> {
        self.run_steadily(SECOND / rps.max(1), seconds * SECOND, Vec::new(), tally)
    }

    /// Asks for each of the tasks.
    fn run_gets(&mut self, rps: u64, tasks: &[String], tally: &mut Tally) -> Result<u64, Failure> {
        let interval = SECOND / rps.max(1);
        let ask = |task: &String| payload::get_task(&self.options.target, task);
        let gets: Vec<Request> = tasks.iter().map(ask).collect();
        self.run_steadily(interval, interval * gets.len() as u64, gets, tally)
    }

    /// A call each `interval` nanoseconds for `length` of them: one of `calls` while there are any, else a send.
    fn run_steadily(
        &mut self,
        interval: u64,
        length: u64,
        calls: Vec<Request>,
        tally: &mut Tally,
    ) -> Result<u64, Failure> {
        let mut calls = calls.into_iter();
        let start = now_ns() + interval;
        let stop = start + length;
        let mut next = start;
        let mut due = VecDeque::new();
        let mut free: Vec<usize> = (0..self.slots.len()).collect();
        let mut reports = std::mem::take(&mut self.reports);
        self.reactor.arm(next)?;
        loop {
            let now = now_ns();
            let over = next >= stop && due.is_empty() && free.len() == self.slots.len();
            if over || now > stop + GRACE || tally.is_hopeless() {
                break;
            }
            reports.clear();
            self.reactor.wait(&mut reports, Some(WAIT_MS))?;
            for report in &reports {
                if report.token == TIMER {
                    continue;
                }
                let place = usize::try_from(report.token)?;
                if self.take(place, tally) {
                    free.push(place);
                    if let Some(tasks) = &mut tally.tasks {
                        tasks.extend(self.task(place));
                    }
                }
            }
            let now = now_ns();
            let before = next;
            while next <= now && next < stop {
                due.push_back(next);
                next += interval;
            }
            if next != before && next < stop {
                self.reactor.arm(next)?;
            }
            while let Some(since) = due.front().copied() {
                let Some(place) = free.pop() else {
                    break;
                };
                due.pop_front();
                if let Some(slot) = self.slots.get_mut(place) {
                    slot.next = calls.next();
                }
                self.send(place, since, tally);
                if self.slots.get(place).is_some_and(|slot| !slot.busy) {
                    free.push(place);
                }
            }
        }
        for _ in due {
            tally.fail(&"never sent: no connection was free".into());
        }
        self.give_up(tally);
        self.reports = reports;
        Ok(now_ns() - start)
    }

    /// The task that the last answer of this slot brought.
    fn task(&self, place: usize) -> Option<String> {
        let client = self.slots.get(place)?.client.as_ref()?;
        client.task().map(str::to_owned)
    }
}

pub fn closed_loop(options: &Options, plan: &Closed) -> Result<(), Failure> {
    let mut load = Load::new(options, Calls::Send(plan.size))?;
    let mut warm = Tally::default();
    if plan.warmup > 0 {
        load.run_closed(plan, plan.warmup, &mut warm)?;
    }
    options.ready(&json!({ "errors": warm.errors, "first_error": warm.first_error }))?;
    let mut tally = Tally::default();
    let took = load.run_closed(plan, plan.requests, &mut tally)?;
    print(&tally.report("unary", took))
}

pub fn open_loop(options: &Options, plan: &Open) -> Result<(), Failure> {
    let elsewhere = plan.other.map(|address| options.to(address));
    let mut load = Load::new(options, Calls::Send(plan.size))?;
    let mut other = elsewhere
        .as_ref()
        .map(|options| Load::new(options, Calls::Send(plan.size)))
        .transpose()?;
    let mut warm = Tally::default();
    if plan.warmup > 0 {
        for load in std::iter::once(&mut load).chain(&mut other) {
            load.run_open(plan.rps, plan.warmup, &mut warm)?;
        }
    }
    options.ready(&json!({ "errors": warm.errors, "first_error": warm.first_error }))?;
    let mut tally = Tally {
        tasks: Some(Vec::new()).filter(|_| plan.follow || other.is_some()),
        ..Tally::default()
    };
    let took = load.run_open(plan.rps, options.seconds, &mut tally)?;
    let tasks = tally.tasks.take().unwrap_or_default();
    let mut report = tally.report("rate", took);
    let mut get = |name: &str, load: &mut Load<'_>| -> Result<(), Failure> {
        tally.latencies.clear();
        load.run_gets(plan.rps, &tasks, &mut tally)?;
        report[name] = summary(&mut tally.latencies);
        Ok(())
    };
    if plan.follow {
        get("gets", &mut load)?;
    }
    if let Some(other) = &mut other {
        get("gets_elsewhere", other)?;
    }
    report["errors"] = tally.errors.into();
    report["first_error"] = tally.first_error.into();
    print(&report)
}
