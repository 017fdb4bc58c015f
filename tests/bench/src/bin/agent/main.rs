//! A dummy A2A 1.0 agent over JSON-RPC, as cheap as it can be made: one thread, one readiness loop, no library between
//! it and the bytes.
//!
//! `SendMessage` gets a completed task with ids never used before and a body as long as the request's. `GetTask` gets
//! the task that was asked for, whichever it is. `SendStreamingMessage` gets its first event at once, then what the
//! message's metadata asks for (`payload::Plan`): a number of events at a rate, or silence until the caller leaves.
//! `/stats` tells how many connections, calls and cards there were; a connection that only asks for it is not counted.
//!
//! Keeps no task. Trusts its callers: they are the proxies under test.

mod answer;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};

use a2a_gateway_bench::args::Args;
use a2a_gateway_bench::clock::now_ns;
use a2a_gateway_bench::reactor::{Outbox, Reactor, Report, TIMER, read_some};
use a2a_gateway_bench::wire::{Kind, Message};
use answer::{Answers, Stream};

/// The listener's token; connections have their place and age in theirs.
const LISTENER: u64 = u64::MAX - 1;

/// Holds any request of the benchmark in one read.
const BUFFER: usize = 256 * 1024;

/// As much as `answer` reads of a call that `load` wrote.
const BEGINNING: usize = 1024;

/// A burst of new connections waits here instead of being refused.
const BACKLOG: i32 = 4096;

#[derive(Default)]
struct Stats {
    connections: u64,
    connections_open: u64,
    calls: u64,
    cards: u64,
    streams: u64,
    streams_open: u64,
    events: u64,
}

struct Connection {
    socket: TcpStream,
    age: u32,
    request: Message,
    body: Vec<u8>,
    /// How long the body is; of a long one only the beginning is kept.
    body_length: usize,
    outbox: Outbox,
    stream: Option<Stream>,
    /// It carried something else than `/stats`.
    counted: bool,
}

struct Agent {
    reactor: Reactor,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    age: u32,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    answers: Answers,
    stats: Stats,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::read(&[], &["listen", "url"])?;
    let listen: SocketAddrV4 = args.or("listen", SocketAddrV4::new([127, 0, 0, 1].into(), 0))?;
    let listener = TcpListener::bind(listen)?;
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let url = args
        .text("url")
        .map_or_else(|| format!("http://{address}/"), str::to_owned);
    writeln!(std::io::stdout(), r#"{{"address":"{address}"}}"#)?;

    let reactor = Reactor::new()?;
    reactor.add_listener(&listener, LISTENER)?;
    let mut agent = Agent {
        reactor,
        connections: Vec::new(),
        free: Vec::new(),
        age: 0,
        due: BinaryHeap::new(),
        answers: Answers::new(&url),
        stats: Stats::default(),
    };
    let mut reports = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        reports.clear();
        agent.reactor.wait(&mut reports, None)?;
        for report in &reports {
            match report.token {
                LISTENER => agent.accept(&listener)?,
                TIMER => agent.send_due()?,
                _ => agent.serve(*report, &mut buffer)?,
            }
        }
    }
}

const fn token(place: usize, age: u32) -> u64 {
    ((age as u64) << 32) | place as u64
}

impl Agent {
    fn accept(&mut self, listener: &TcpListener) -> Result<(), Box<dyn Error>> {
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(format!("accept: {error}").into()),
        };
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        // 31 bits, so that no token is the timer's or the listener's.
        self.age = (self.age + 1) & (u32::MAX >> 1);
        self.reactor.add(&socket, token(place, self.age))?;
        if let Some(slot) = self.connections.get_mut(place) {
            *slot = Some(Connection {
                socket,
                age: self.age,
                request: Message::new(Kind::Request),
                body: Vec::new(),
                body_length: 0,
                outbox: Outbox::default(),
                stream: None,
                counted: false,
            });
        }
        Ok(())
    }

    fn serve(&mut self, report: Report, buffer: &mut [u8]) -> Result<(), Box<dyn Error>> {
        let place = (report.token & u64::from(u32::MAX)) as usize;
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return Ok(());
        };
        if token(place, connection.age) != report.token {
            return Ok(());
        }
        let had_stream = connection.stream.is_some();
        let alive = connection
            .serve(buffer, &mut self.answers, &mut self.stats)
            .unwrap_or(false)
            && !(report.closed && connection.stream.is_some());
        if !alive {
            self.close(place);
            return Ok(());
        }
        if !had_stream && let Some(stream) = &connection.stream {
            self.stats.streams += 1;
            self.stats.streams_open += 1;
            if let Some(due) = stream.due() {
                self.due.push(Reverse((due, report.token)));
                self.set_timer()?;
            }
        }
        Ok(())
    }

    fn send_due(&mut self) -> Result<(), Box<dyn Error>> {
        let now = now_ns();
        while let Some(Reverse((at, token))) = self.due.peek().copied() {
            if at > now {
                break;
            }
            self.due.pop();
            self.send_event(token);
        }
        self.set_timer()
    }

    fn send_event(&mut self, of: u64) {
        let place = (of & u64::from(u32::MAX)) as usize;
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return;
        };
        if token(place, connection.age) != of {
            return;
        }
        let Some(stream) = connection.stream.as_mut() else {
            return;
        };
        self.stats.events += 1;
        stream.write_next(&mut connection.outbox.bytes);
        let next = stream.due();
        let failed = connection.outbox.flush(&mut connection.socket).is_err();
        if failed {
            self.close(place);
        } else if let Some(next) = next {
            self.due.push(Reverse((next, of)));
        } else {
            // That was the last one: the connection can carry the next call.
            connection.stream = None;
            self.stats.streams_open -= 1;
        }
    }

    fn set_timer(&self) -> Result<(), Box<dyn Error>> {
        if let Some(Reverse((at, _))) = self.due.peek() {
            self.reactor.arm(*at)?;
        }
        Ok(())
    }

    fn close(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place).and_then(Option::take) else {
            return;
        };
        self.free.push(place);
        if connection.counted {
            self.stats.connections_open -= 1;
        }
        if connection.stream.is_some() {
            self.stats.streams_open -= 1;
        }
    }
}

impl Connection {
    /// Reads what has come and answers it. False when the caller has gone.
    fn serve(&mut self, buffer: &mut [u8], answers: &mut Answers, stats: &mut Stats) -> Result<bool, Box<dyn Error>> {
        if !self.outbox.is_empty() {
            self.outbox.flush(&mut self.socket)?;
        }
        loop {
            let Some(count) = read_some(&mut self.socket, buffer)? else {
                return Ok(true);
            };
            if count == 0 {
                return Ok(false);
            }
            let mut input = buffer.get(..count).unwrap_or_default();
            while !input.is_empty() {
                let (body, length) = (&mut self.body, &mut self.body_length);
                let taken = self.request.feed(input, &mut |data| {
                    *length += data.len();
                    if body.len() < BEGINNING || !answer::is_fast(body) {
                        body.extend_from_slice(data);
                    }
                })?;
                input = input.get(taken..).unwrap_or_default();
                if self.request.is_done() {
                    self.answer(answers, stats);
                    self.request.reset();
                    self.body.clear();
                    self.body_length = 0;
                }
            }
            if !self.outbox.is_empty() {
                self.outbox.flush(&mut self.socket)?;
            }
            if count < buffer.len() {
                return Ok(true);
            }
        }
    }

    fn answer(&mut self, answers: &mut Answers, stats: &mut Stats) {
        let out = &mut self.outbox.bytes;
        if self.request.line.starts_with(b"GET /stats ") {
            answers.write_json(out, "200 OK", &stats.to_json());
            return;
        }
        if !self.counted {
            self.counted = true;
            stats.connections += 1;
            stats.connections_open += 1;
        }
        if self.request.line.starts_with(b"GET /.well-known/agent-card.json ") {
            stats.cards += 1;
            answers.write_card(out);
        } else if self.request.line.starts_with(b"POST ") {
            stats.calls += 1;
            self.stream = answers.write_answer(out, &self.body, self.body_length);
        } else {
            answers.write_json(out, "404 Not Found", "{}");
        }
    }
}

impl Stats {
    fn to_json(&self) -> String {
        format!(
            r#"{{"connections":{},"connections_open":{},"calls":{},"cards":{},"streams":{},"streams_open":{},"events":{}}}"#,
            self.connections,
            self.connections_open,
            self.calls,
            self.cards,
            self.streams,
            self.streams_open,
            self.events
        )
    }
}
