//! The JSON-RPC bodies that the benchmark sends and answers with, at an exact size.
//!
//! A body is filled with text parts of about 1 KiB, so that a reader meets as many values as a real long message has. The
//! text holds what costs a JSON reader something: escapes and characters of more than one byte.

/// One line of text as it stands in JSON.
const LINE: &str = r#"Berth 14 is free from 06:30. Café \"Anker\" opens – tide at 07:12.\n"#;

/// The longest text part, with its braces.
const PART: usize = 1024;

const OPEN: &str = r#"{"text":""#;
const OLD_OPEN: &str = r#"{"kind":"text","text":""#;
const CLOSE: &str = r#""}"#;

/// The smallest filling: one part without text.
pub const MIN_PARTS: usize = OPEN.len() + CLOSE.len();

/// How an id of `load` begins; `DIGITS` hexadecimal digits follow.
pub const ID: &str = "bench-";
pub const DIGITS: usize = 16;

/// Where a card is, under its agent's path.
pub const CARD: &str = "/.well-known/agent-card.json";

/// Stands before the sender's clock in an event's text, which ends at the next `;`.
pub const STAMP: &str = "sent-ns=";

/// The text parts (without the array's brackets) that fill exactly `size` bytes, but at least `MIN_PARTS`.
#[must_use]
pub fn parts(size: usize) -> String {
    parts_in(OPEN, size)
}

fn parts_in(open: &str, size: usize) -> String {
    let least = open.len() + CLOSE.len();
    let mut out = String::with_capacity(size);
    let mut left = size.max(least);
    // A further part needs its comma and at least `least`.
    while left > PART + 1 + least {
        part(&mut out, open, PART);
        out.push(',');
        left -= PART + 1;
    }
    part(&mut out, open, left);
    out
}

fn part(out: &mut String, open: &str, size: usize) {
    out.push_str(open);
    let mut left = size - open.len() - CLOSE.len();
    while left >= LINE.len() {
        out.push_str(LINE);
        left -= LINE.len();
    }
    out.extend(std::iter::repeat_n('.', left));
    out.push_str(CLOSE);
}

/// A request with places for a number that makes it unlike any other.
#[derive(Clone)]
pub struct Request {
    pub bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Request {
    /// Writes `number` into the request's ids.
    pub fn number(&mut self, number: u64) {
        let digits = digits(number);
        for place in &self.places {
            if let Some(target) = self.bytes.get_mut(*place..*place + DIGITS) {
                target.copy_from_slice(&digits);
            }
        }
    }
}

#[must_use]
pub fn digits(number: u64) -> [u8; DIGITS] {
    let mut out = [b'0'; DIGITS];
    let mut rest = number;
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef".get((rest & 15) as usize).copied().unwrap_or(b'0');
        rest >>= 4;
    }
    out
}

/// Where a request goes and what its head says.
#[derive(Clone)]
pub struct Target {
    pub authority: String,
    pub path: String,
    /// A field of the head that shows who calls, e.g. `X-API-Key: secret`.
    pub credential: Option<String>,
    /// The calls are those of A2A 0.3 instead of 1.0.
    pub old: bool,
}

/// The wanted behaviour of a stream, read by `agent` in the message's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Events after the first; 0 keeps the stream silent and open until the caller leaves.
    pub events: u64,
    pub interval_us: u64,
    /// The smallest size of an event.
    pub bytes: usize,
}

impl Plan {
    #[must_use]
    pub fn to_text(self) -> String {
        format!(
            "events={} interval_us={} bytes={}",
            self.events, self.interval_us, self.bytes
        )
    }

    /// Reads what `to_text` writes; other words are passed over.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut plan = Self::default();
        for word in text.split_ascii_whitespace() {
            let Some((name, value)) = word.split_once('=') else {
                continue;
            };
            let value = value.parse().unwrap_or(0);
            match name {
                "events" => plan.events = value,
                "interval_us" => plan.interval_us = value,
                "bytes" => plan.bytes = usize::try_from(value).unwrap_or(0),
                _ => {}
            }
        }
        plan
    }
}

/// `SendMessage` with a body of exactly `size` bytes, or the smallest possible.
#[must_use]
pub fn send_message(target: &Target, size: usize) -> Request {
    let zeros = "0".repeat(DIGITS);
    let (method, message, open) = if target.old {
        ("message/send", r#""kind":"message","role":"user""#, OLD_OPEN)
    } else {
        ("SendMessage", r#""role":"ROLE_USER""#, OPEN)
    };
    let front = format!(
        r#"{{"jsonrpc":"2.0","id":"{ID}{zeros}","method":"{method}","params":{{"message":{{"messageId":"{ID}{zeros}",{message},"parts":["#,
    );
    let back = r#"]},"configuration":{}}}"#;
    let filling = parts_in(open, size.saturating_sub(front.len() + back.len()));
    request(target, "application/json", &[&front, &filling, back])
}

/// `SendStreamingMessage` that asks the agent for `plan`.
#[must_use]
pub fn send_streaming_message(target: &Target, plan: Plan) -> Request {
    let (method, message, open) = if target.old {
        ("message/stream", r#""kind":"message","role":"user""#, OLD_OPEN)
    } else {
        ("SendStreamingMessage", r#""role":"ROLE_USER""#, OPEN)
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"{ID}{zeros}","method":"{method}","params":{{"metadata":{{"bench":"{plan}"}},"message":{{"messageId":"{ID}{zeros}",{message},"parts":[{open}manifest of the night ship{CLOSE}]}}}}}}"#,
        zeros = "0".repeat(DIGITS),
        plan = plan.to_text(),
    );
    request(target, "text/event-stream", &[&body])
}

/// `GetTask` of `task`.
#[must_use]
pub fn get_task(target: &Target, task: &str) -> Request {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"{ID}{zeros}","method":"GetTask","params":{{"id":"{task}"}}}}"#,
        zeros = "0".repeat(DIGITS),
    );
    request(target, "application/json", &[&body])
}

/// `GET` of the card of the agent at the target's path, with `If-None-Match` where the caller knows one.
#[must_use]
pub fn get_card(target: &Target, known_as: Option<&str>) -> Request {
    let Target { authority, path, .. } = target;
    let path = path.trim_end_matches('/');
    let known = known_as.map_or_else(String::new, |etag| format!("If-None-Match: {etag}\r\n"));
    let (version, key) = (version(target), credential(target));
    let text = format!(
        "GET {path}{CARD} HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json\r\n{version}{key}{known}\r\n"
    );
    Request {
        bytes: text.into_bytes(),
        places: Vec::new(),
    }
}

const fn version(target: &Target) -> &'static str {
    if target.old { "" } else { "A2A-Version: 1.0\r\n" }
}

fn credential(target: &Target) -> String {
    let field = target.credential.as_ref();
    field.map_or_else(String::new, |field| format!("{field}\r\n"))
}

fn request(target: &Target, accept: &str, body: &[&str]) -> Request {
    let Target { authority, path, .. } = target;
    let length: usize = body.iter().map(|part| part.len()).sum();
    let (version, key) = (version(target), credential(target));
    let mut text = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
         {version}{key}Content-Length: {length}\r\n\r\n"
    );
    for part in body {
        text.push_str(part);
    }
    let marker = format!("{ID}{}", "0".repeat(DIGITS));
    let places = text.match_indices(&marker).map(|(at, _)| at + ID.len()).collect();
    Request {
        bytes: text.into_bytes(),
        places,
    }
}
