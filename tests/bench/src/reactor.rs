//! A readiness loop on epoll, edge triggered, and a timer with nanosecond settings.
//!
//! Edge triggered means: after a report, read until a read comes back short and write until nothing is left or the
//! socket says that it would block. A socket is registered once, for both directions, and leaves by being closed.
//! epoll's own timeout counts milliseconds, too coarse to send 2,000 requests a second, hence the timerfd.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use crate::clock::timespec;

/// How many reports one wait takes: a bound on how long a burst delays the timer.
const BATCH: usize = 256;

/// The token of the timer's reports.
pub const TIMER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub token: u64,
    /// The other side went away, or the socket failed.
    pub closed: bool,
}

pub struct Reactor {
    epoll: OwnedFd,
    timer: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Reactor {
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        // The counter of expiries is never read: setting the timer anew clears it.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), flags)?;
        Ok(Self {
            epoll,
            timer,
            events: Vec::with_capacity(BATCH),
        })
    }

    pub fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            flags,
        )?)
    }

    /// Registers a listening socket, level triggered: one accept a report is enough.
    pub fn add_listener(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            epoll::EventFlags::IN,
        )?)
    }

    /// Sets the timer to go off once, at `at` (`CLOCK_MONOTONIC`).
    pub fn arm(&self, at: u64) -> io::Result<()> {
        let setting = Itimerspec {
            it_interval: timespec(0),
            // 0 would switch it off.
            it_value: timespec(at.max(1)),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(())
    }

    /// Waits for reports, at most `timeout_ms`, and appends them to `reports`.
    pub fn wait(&mut self, reports: &mut Vec<Report>, timeout_ms: Option<u64>) -> io::Result<()> {
        let timeout = timeout_ms.map(|ms| timespec(ms * 1_000_000));
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        reports.extend(self.events.iter().map(|event| {
            let flags = event.flags;
            Report {
                token: event.data.u64(),
                closed: flags.intersects(gone),
            }
        }));
        Ok(())
    }
}

/// Connects to `target` from 127.0.0.`source`, so that one target can have more callers than one address has ports.
/// `source` 0 leaves the choice to the system. Blocking: on loopback the system completes it without the other process.
pub fn connect(target: SocketAddrV4, source: u8) -> io::Result<TcpStream> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if source > 0 {
        let address = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, source), 0);
        rustix::net::bind(&socket, &SocketAddr::V4(address))?;
    }
    rustix::net::connect(&socket, &SocketAddr::V4(target))?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// One read: `None` when there is nothing for now, `Some(0)` at the end.
pub fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match stream.read(buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Bytes on their way out; what the socket did not take waits for its next report.
#[derive(Default)]
pub struct Outbox {
    pub bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    pub fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }
}
