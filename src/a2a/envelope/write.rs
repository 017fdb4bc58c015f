//! Messages that the gateway itself answers with.

use super::delegation::Done;
use super::{About, Party, VERSION};
use crate::a2a::json::write_text;

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub id: &'a str,
    /// RFC 3339.
    pub timestamp: &'a str,
    pub about: &'a About,
}

/// Who answers where no agent does, or where it is not known which would.
const GATEWAY: (&str, &str) = ("a2a-gateway", "gateway");

/// A `response` with this status; `data` is an object as it is written. The recipient of the message answers: the gateway
/// stands for it.
pub fn write_response(reply: Reply<'_>, status: &str, data: &str) -> Vec<u8> {
    respond(reply, status, |out| out.extend_from_slice(data.as_bytes()))
}

/// The `response` to a task that was delegated.
pub fn write_delegated(reply: Reply<'_>, done: &Done<'_>) -> Vec<u8> {
    respond(reply, done.status.as_str(), |out| {
        out.push(b'{');
        if let Some(task_id) = &done.task_id {
            out.extend_from_slice(br#""task_id":"#);
            write_text(out, task_id);
            out.push(b',');
        }
        out.extend_from_slice(format!(r#""{}":{}}}"#, done.name, done.value).as_bytes());
    })
}

fn respond(reply: Reply<'_>, status: &str, data: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = open(reply, "response", reply.about.recipient.as_ref());
    out.extend_from_slice(br#""status":"#);
    write_text(&mut out, status);
    out.extend_from_slice(br#","data":"#);
    data(&mut out);
    out.extend_from_slice(b"}}");
    out
}

/// An `error`. `by_agent`: the recipient of the message says so, not the gateway. `again`: the same may go better later.
pub fn write_error(reply: Reply<'_>, by_agent: bool, code: &str, text: &str, again: bool) -> Vec<u8> {
    let sender = reply.about.recipient.as_ref().filter(|_| by_agent);
    let mut out = open(reply, "error", sender);
    out.extend_from_slice(br#""error_code":"#);
    write_text(&mut out, code);
    out.extend_from_slice(br#","error_message":"#);
    write_text(&mut out, text);
    let severity = if again { "warning" } else { "error" };
    out.extend_from_slice(format!(r#","severity":"{severity}"}}}}"#).as_bytes());
    out
}

/// Up to the first own member of `content`.
fn open(reply: Reply<'_>, message_type: &str, sender: Option<&Party>) -> Vec<u8> {
    let about = reply.about;
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(br#"{"message_id":"#);
    write_text(&mut out, reply.id);
    if let Some(session) = &about.session {
        out.extend_from_slice(br#","session_id":"#);
        write_text(&mut out, session);
    }
    out.extend_from_slice(br#","timestamp":"#);
    write_text(&mut out, reply.timestamp);
    out.extend_from_slice(br#","sender":"#);
    match sender {
        Some(party) => write_party(&mut out, &party.agent_id, party.agent_type.as_deref()),
        None => write_party(&mut out, GATEWAY.0, Some(GATEWAY.1)),
    }
    if let Some(party) = &about.sender {
        out.extend_from_slice(br#","recipient":"#);
        write_party(&mut out, &party.agent_id, party.agent_type.as_deref());
    }
    out.extend_from_slice(format!(r#","message_type":"{message_type}","content":{{"#).as_bytes());
    if let Some(message) = &about.message {
        out.extend_from_slice(br#""in_response_to":"#);
        write_text(&mut out, message);
        out.push(b',');
    }
    out
}

fn write_party(out: &mut Vec<u8>, agent_id: &str, agent_type: Option<&str>) {
    out.extend_from_slice(br#"{"agent_id":"#);
    write_text(out, agent_id);
    if let Some(agent_type) = agent_type {
        out.extend_from_slice(br#","agent_type":"#);
        write_text(out, agent_type);
    }
    out.push(b'}');
}

/// What `negotiate_version` is answered with.
pub fn versions() -> String {
    format!(r#"{{"selected_version":"{VERSION}","supported_versions":["{VERSION}"]}}"#)
}
