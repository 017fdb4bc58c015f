//! What the agent says, written straight into a connection's outbox.
//!
//! Calls of `load` are recognised by their first bytes and never parsed. Any other JSON-RPC body goes through
//! serde_json, so that another client gets a right answer too, only later.

use std::collections::HashMap;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use a2a_gateway_bench::clock::now_ns;
use a2a_gateway_bench::payload::{MIN_PARTS, Plan, STAMP, parts};
use memchr::memmem;
use serde_json::Value;

/// How a call of `load` begins; its id and then its method follow.
const FRONT: &[u8] = br#"{"jsonrpc":"2.0","id":"#;

/// How many body sizes are kept ready.
const SIZES: usize = 64;

/// An id is as long as a UUID and looks like one; a task's first group and its context's differ, the rest is the same.
const TASK_GROUP: &str = "7a5c0de0";
const CONTEXT_GROUP: &str = "c0de7a5c";
const GROUP: usize = 8;

const TIMESTAMP: &str = "2026-01-01T00:00:00.000000Z";

pub struct Answers {
    card: String,
    /// Sets this process's ids apart from an earlier one's.
    seed: u64,
    count: u64,
    /// Ready fillings by size.
    fillings: HashMap<usize, String>,
}

/// A stream that has sent its first event.
pub struct Stream {
    plan: Plan,
    sent: u64,
    due: u64,
    /// The events' text before and after the sender's clock.
    front: String,
    back: String,
    /// The text before and after the clock of the last one.
    last: (String, String),
}

/// What is needed of a call.
struct Call<'a> {
    /// The JSON-RPC id as it stands in the request.
    id: &'a str,
    method: &'a str,
    /// The task that `GetTask` asks for.
    task: &'a str,
    plan: &'a str,
}

impl Answers {
    pub fn new(url: &str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            card: card(url),
            seed: u64::from(since.subsec_nanos()) ^ (since.as_secs() << 20),
            count: 0,
            fillings: HashMap::new(),
        }
    }

    pub fn write_json(&self, out: &mut Vec<u8>, status: &str, body: &str) {
        write(
            out,
            format_args!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        );
    }

    pub fn write_card(&self, out: &mut Vec<u8>) {
        self.write_json(out, "200 OK", &self.card);
    }

    /// Answers a JSON-RPC body of `size` bytes with as many; gives the stream that its answer opened.
    /// When `is_fast` holds for the body, its beginning is enough.
    pub fn write_answer(&mut self, out: &mut Vec<u8>, body: &[u8], size: usize) -> Option<Stream> {
        if let Some(call) = fast(body) {
            return self.write_call(out, &call, size);
        }
        let parsed: Value = match serde_json::from_slice(body) {
            Ok(parsed) => parsed,
            Err(_) => {
                self.write_error(out, "null", -32700, "Parse error");
                return None;
            }
        };
        let text = |pointer| parsed.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let call = Call {
            id: &parsed.get("id").unwrap_or(&Value::Null).to_string(),
            method: text("/method"),
            task: text("/params/id"),
            plan: text("/params/metadata/bench"),
        };
        self.write_call(out, &call, size)
    }

    fn write_call(&mut self, out: &mut Vec<u8>, call: &Call, size: usize) -> Option<Stream> {
        match call.method {
            "SendMessage" => {
                let tail = self.next_tail();
                self.write_task(out, call.id, r#"{"task":"#, &tail, "}", size);
            }
            "GetTask" => match call.task.strip_prefix(TASK_GROUP) {
                Some(tail) => self.write_task(out, call.id, "", tail, "", size),
                None => self.write_error(out, call.id, -32001, "Task not found"),
            },
            "SendStreamingMessage" => return Some(self.write_stream(out, call)),
            _ => self.write_error(out, call.id, -32601, "Method not found"),
        }
        None
    }

    /// What follows the first group of the next task's id, and of its context's.
    fn next_tail(&mut self) -> String {
        self.count += 1;
        let seed = self.seed;
        format!(
            "-{:04x}-4{:03x}-8{:03x}-{:012x}",
            seed >> 24 & 0xffff,
            seed >> 12 & 0xfff,
            seed & 0xfff,
            self.count
        )
    }

    fn write_task(&mut self, out: &mut Vec<u8>, id: &str, open: &str, tail: &str, close: &str, size: usize) {
        const MIDDLE: &str = r#"","status":{"state":"TASK_STATE_COMPLETED","timestamp":""#;
        const ARTIFACT: &str = r#""},"artifacts":[{"artifactId":"berth-plan","parts":["#;
        const END: &str = "]}]}";
        let fixed = FRONT.len()
            + id.len()
            + r#","result":"#.len()
            + open.len()
            + r#"{"id":""#.len()
            + (GROUP + tail.len()) * 2
            + r#"","contextId":""#.len()
            + MIDDLE.len()
            + TIMESTAMP.len()
            + ARTIFACT.len()
            + END.len()
            + close.len()
            + "}".len();
        let room = size.saturating_sub(fixed).max(MIN_PARTS);
        if self.fillings.len() >= SIZES && !self.fillings.contains_key(&room) {
            self.fillings.clear();
        }
        let filling = self.fillings.entry(room).or_insert_with(|| parts(room));
        let length = fixed + filling.len();
        out.reserve(length + 128);
        write(
            out,
            format_args!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"),
        );
        for piece in [
            r#"{"jsonrpc":"2.0","id":"#,
            id,
            r#","result":"#,
            open,
            r#"{"id":""#,
            TASK_GROUP,
            tail,
            r#"","contextId":""#,
            CONTEXT_GROUP,
            tail,
            MIDDLE,
            TIMESTAMP,
            ARTIFACT,
            filling,
            END,
            close,
            "}",
        ] {
            out.extend_from_slice(piece.as_bytes());
        }
    }

    fn write_error(&self, out: &mut Vec<u8>, id: &str, code: i32, message: &str) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#);
        self.write_json(out, "200 OK", &body);
    }

    fn write_stream(&mut self, out: &mut Vec<u8>, call: &Call) -> Stream {
        let tail = self.next_tail();
        let plan = Plan::from_text(call.plan);
        let id = call.id;
        let task = format!("{TASK_GROUP}{tail}");
        let context = format!("{CONTEXT_GROUP}{tail}");
        let open = format!(r#"data: {{"jsonrpc":"2.0","id":{id},"result":{{"#);
        let ids = format!(r#""taskId":"{task}","contextId":"{context}""#);
        let status = |state: &str| {
            format!(
                r#""status":{{"state":"{state}","message":{{"messageId":"m{tail}","role":"ROLE_AGENT","parts":[{{"text":"{STAMP}"#
            )
        };
        const STATUS_END: &str = ";\"}]}}}}}\n\n";

        // The x-accel-buffering header is what agents send so that nginx passes each event on at once.
        write(
            out,
            format_args!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
                 x-accel-buffering: no\r\ntransfer-encoding: chunked\r\n\r\n"
            ),
        );
        let first = format!(
            r#"{open}"task":{{"id":"{task}","contextId":"{context}",{}"#,
            status("TASK_STATE_WORKING")
        );
        write_event(out, &first, STATUS_END, plan.bytes);
        Stream {
            plan,
            sent: 0,
            due: now_ns() + plan.interval_us * 1000,
            front: format!(
                r#"{open}"artifactUpdate":{{{ids},"artifact":{{"artifactId":"manifest","parts":[{{"text":"{STAMP}"#
            ),
            back: ";\"}]},\"append\":true}}}\n\n".to_owned(),
            last: (
                format!(r#"{open}"statusUpdate":{{{ids},{}"#, status("TASK_STATE_COMPLETED")),
                STATUS_END.to_owned(),
            ),
        }
    }
}

impl Stream {
    /// When the next event is to be sent; `None` when there is none.
    pub fn due(&self) -> Option<u64> {
        (self.sent < self.plan.events).then_some(self.due)
    }

    /// Writes the next event, after the last one also the end of the answer.
    pub fn write_next(&mut self, out: &mut Vec<u8>) {
        self.sent += 1;
        self.due += self.plan.interval_us * 1000;
        if self.sent < self.plan.events {
            write_event(out, &self.front, &self.back, self.plan.bytes);
        } else {
            write_event(out, &self.last.0, &self.last.1, self.plan.bytes);
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// Writes one event as one chunk of at least `size` bytes, stamped with the clock.
fn write_event(out: &mut Vec<u8>, front: &str, back: &str, size: usize) {
    let stamp = now_ns().to_string();
    let padding = size.saturating_sub(front.len() + stamp.len() + back.len());
    let length = front.len() + stamp.len() + back.len() + padding;
    write(out, format_args!("{length:x}\r\n{front}{stamp}"));
    // The text ends after the `;` that opens `back`: fill before its closing quote.
    let (mark, rest) = back.split_at(1);
    write(out, format_args!("{mark}{:.<padding$}{rest}\r\n", ""));
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A Vec takes whatever is written.
    drop(out.write_fmt(text));
}

/// The body begins as those of `load` do.
pub fn is_fast(body: &[u8]) -> bool {
    body.starts_with(FRONT)
}

/// Reads a call that looks as `load` writes it, by position.
fn fast(body: &[u8]) -> Option<Call<'_>> {
    let rest = body.strip_prefix(FRONT)?;
    // Never longer than the ids of `load`, so a long body is not walked.
    let near = rest.get(..rest.len().min(512))?;
    let mark = br#","method":""#;
    let at = memmem::find(near, mark)?;
    let id = std::str::from_utf8(near.get(..at)?).ok()?;
    if !id.starts_with('"') || id.contains(',') {
        return None;
    }
    let after = near.get(at + mark.len()..)?;
    let end = memchr::memchr(b'"', after)?;
    let method = std::str::from_utf8(after.get(..end)?).ok()?;
    let params = after.get(end..)?;
    let value = |mark: &[u8]| {
        let tail = params.get(memmem::find(params, mark)? + mark.len()..)?;
        std::str::from_utf8(tail.get(..memchr::memchr(b'"', tail)?)?).ok()
    };
    Some(Call {
        id,
        method,
        task: match method {
            "GetTask" => value(br#""params":{"id":""#)?,
            _ => "",
        },
        plan: match method {
            "SendStreamingMessage" => value(br#""metadata":{"bench":""#)?,
            _ => "",
        },
    })
}

fn card(url: &str) -> String {
    serde_json::json!({
        "name": "Bench",
        "description": "Answers at once.",
        "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "version": "1.0.0",
        "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "echo", "name": "Echo", "description": "Gives back as much as it gets.", "tags": ["bench"] }],
    })
    .to_string()
}
