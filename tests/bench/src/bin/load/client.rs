//! One connection to the proxy under test: a request going out, an answer coming in.

use std::error::Error;
use std::net::TcpStream;

use a2a_gateway_bench::card::Card;
use a2a_gateway_bench::payload::{DIGITS, ID, Request, digits};
use a2a_gateway_bench::reactor::{Outbox, Reactor, connect, read_some};
use a2a_gateway_bench::wire::{Kind, Message};
use memchr::memmem;

use crate::Options;

/// How much of an answer is kept for the check: the ids stand at its beginning.
const KEPT: usize = 512;

pub type Failure = Box<dyn Error>;

pub struct Client {
    socket: TcpStream,
    answer: Message,
    /// The beginning of the answer's body.
    beginning: Vec<u8>,
    outbox: Outbox,
    /// The number in the call's id.
    number: u64,
}

/// What a turn on a connection brought.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Waiting,
    Answered,
}

impl Client {
    pub fn open(options: &Options, reactor: &Reactor, token: usize) -> Result<Self, Failure> {
        let socket = connect(options.address, options.source(token))
            .map_err(|error| format!("connect to {}: {error}", options.address))?;
        reactor.add(&socket, token as u64)?;
        Ok(Self {
            socket,
            answer: Message::new(Kind::Response),
            beginning: Vec::with_capacity(KEPT),
            outbox: Outbox::default(),
            number: 0,
        })
    }

    pub fn send(&mut self, request: &mut Request, number: u64) -> Result<(), Failure> {
        request.number(number);
        self.number = number;
        self.answer.reset();
        self.beginning.clear();
        self.outbox.bytes.extend_from_slice(&request.bytes);
        Ok(self.outbox.flush(&mut self.socket)?)
    }

    /// Writes and reads what can be; `body` gets the answer's bytes. An end before the answer's end is an error.
    pub fn turn(&mut self, buffer: &mut [u8], body: &mut impl FnMut(&[u8])) -> Result<Turn, Failure> {
        if !self.outbox.is_empty() {
            self.outbox.flush(&mut self.socket)?;
        }
        loop {
            let Some(count) = read_some(&mut self.socket, buffer)? else {
                return Ok(Turn::Waiting);
            };
            if count == 0 {
                return if self.answer.ends_here() {
                    Ok(Turn::Answered)
                } else if self.answer.is_untouched() {
                    Err("closed before an answer".into())
                } else {
                    Err("closed in an answer".into())
                };
            }
            let input = buffer.get(..count).unwrap_or_default();
            let beginning = &mut self.beginning;
            let taken = self.answer.feed(input, &mut |data| {
                let room = KEPT.saturating_sub(beginning.len());
                beginning.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
                body(data);
            })?;
            if taken < count {
                return Err("more bytes than one answer".into());
            }
            if self.answer.is_done() {
                return Ok(Turn::Answered);
            }
            if count < buffer.len() {
                return Ok(Turn::Waiting);
            }
        }
    }

    /// Whether the answer, or the part of it that is there, is the right one.
    pub fn check(&self) -> Result<(), Failure> {
        let shown = || String::from_utf8_lossy(&self.beginning).into_owned();
        if self.answer.status != 200 {
            return Err(format!("status {}: {}", self.answer.status, shown()).into());
        }
        let mut id = [0; ID.len() + DIGITS + 1];
        let (front, back) = id.split_at_mut(ID.len());
        front.copy_from_slice(ID.as_bytes());
        if let Some((end, number)) = back.split_last_mut() {
            number.copy_from_slice(&digits(self.number));
            *end = b'"';
        }
        if memmem::find(&self.beginning, &id).is_none() {
            return Err(format!("another call's answer: {}", shown()).into());
        }
        if memmem::find(&self.beginning, br#""result":"#).is_none() {
            return Err(format!("no result: {}", shown()).into());
        }
        Ok(())
    }

    pub const fn answer(&self) -> &Message {
        &self.answer
    }

    /// Whether the answer is this card, or says that it is unchanged.
    pub fn check_card(&self, card: &Card) -> Result<(), Failure> {
        Ok(card.check(&self.answer, &self.beginning)?)
    }

    /// The answer is an event stream.
    pub const fn is_event_stream(&self) -> bool {
        self.answer.event_stream
    }

    /// The id of the task that `SendMessage` was answered with.
    pub fn task(&self) -> Option<&str> {
        let mark = br#""task":{"id":""#;
        let at = memmem::find(&self.beginning, mark)? + mark.len();
        let rest = self.beginning.get(at..)?;
        std::str::from_utf8(rest.get(..memchr::memchr(b'"', rest)?)?).ok()
    }

    /// The connection cannot carry another call.
    pub const fn is_spent(&self) -> bool {
        self.answer.close
    }
}
