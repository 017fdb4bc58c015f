//! Records of the journal as bytes.
//!
//! A frame is `length (4) checksum (4) payload (length)`, integers little-endian. The checksum is CRC-32 over length and
//! payload, started from the salt of the file: ids come from agents and callers, and without the salt one of them could
//! write an id that reads as a frame. A payload begins with its tag; texts are `length (2) bytes`. Every record is whole
//! and absolute: replaying one twice, or a later one without an earlier one, gives what the last one says.

use crate::a2a::jsonrpc::MAX_ID_BYTES;
use crate::a2a::{Generation, TaskState};

/// Longest id, in bytes: whatever a call may name has a record, or it would be nobody's, and free to everybody.
pub(in crate::affinity) const MAX_ID: usize = MAX_ID_BYTES;
/// Longest name of an agent, endpoint or principal, in bytes. A principal may be an issuer's URL and a subject.
pub(in crate::affinity) const MAX_NAME: usize = 4096;

/// Length and checksum.
pub(super) const HEAD: usize = 8;
/// Longest payload: a put with every text at its bound is 13 KiB.
pub(super) const MAX_PAYLOAD: usize = 16 * 1024;

/// What a put takes besides its texts: head, tag, generation, state, seen, four lengths.
const PUT_FIXED: usize = HEAD + 1 + 1 + 1 + 4 + 4 * 2;

const TAG_PUT_TASK: u8 = 1;
const TAG_PUT_CONTEXT: u8 = 2;
const TAG_FORGET_TASK: u8 = 3;
const TAG_FORGET_CONTEXT: u8 = 4;
const TAG_SYNCED: u8 = 5;
const TAG_END: u8 = 6;
const TAG_PUT_ALIAS: u8 = 7;
const TAG_FORGET_ALIAS: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::affinity) enum Kind {
    Task,
    Context,
    /// A caller's own name of a task. In the place of its endpoint stands what it means.
    Alias,
}

/// All that is known of one task or context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::affinity) struct Put<'a> {
    pub kind: Kind,
    pub agent: &'a str,
    pub id: &'a str,
    pub endpoint: &'a str,
    pub principal: &'a str,
    pub generation: Generation,
    pub state: Option<TaskState>,
    pub seen: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::affinity) enum Record<'a> {
    Put(Put<'a>),
    Forget {
        kind: Kind,
        agent: &'a str,
        id: &'a str,
    },
    /// Every byte of this file before this offset is on the disk. Damage before it is damage; after it, a power loss.
    Synced(u64),
    /// The last record of a snapshot: how many stand before it.
    End(u64),
}

/// Bytes of a put in a journal.
pub(in crate::affinity) fn put_size(agent: &str, id: &str, endpoint: &str, principal: &str) -> u64 {
    (PUT_FIXED + agent.len() + id.len() + endpoint.len() + principal.len()) as u64
}

/// Appends the frame of a record. A record that breaks a bound is not written: what cannot be read back must not stand
/// between records that can. (The bounds are checked before anything is learned.)
pub(super) fn encode(buffer: &mut Vec<u8>, salt: u32, record: &Record<'_>) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEAD]);
    let whole = match *record {
        Record::Put(put) => {
            buffer.push(match put.kind {
                Kind::Task => TAG_PUT_TASK,
                Kind::Context => TAG_PUT_CONTEXT,
                Kind::Alias => TAG_PUT_ALIAS,
            });
            buffer.push(generation_code(put.generation));
            buffer.push(state_code(put.state));
            buffer.extend_from_slice(&put.seen.to_le_bytes());
            push_text(buffer, put.agent)
                && push_text(buffer, put.id)
                && push_text(buffer, put.endpoint)
                && push_text(buffer, put.principal)
        }
        Record::Forget { kind, agent, id } => {
            buffer.push(match kind {
                Kind::Task => TAG_FORGET_TASK,
                Kind::Context => TAG_FORGET_CONTEXT,
                Kind::Alias => TAG_FORGET_ALIAS,
            });
            push_text(buffer, agent) && push_text(buffer, id)
        }
        Record::Synced(offset) => {
            buffer.push(TAG_SYNCED);
            buffer.extend_from_slice(&offset.to_le_bytes());
            true
        }
        Record::End(records) => {
            buffer.push(TAG_END);
            buffer.extend_from_slice(&records.to_le_bytes());
            true
        }
    };
    let payload = buffer.len() - start - HEAD;
    let length = match u32::try_from(payload) {
        Ok(length) if whole && payload <= MAX_PAYLOAD => length.to_le_bytes(),
        Ok(_) | Err(_) => {
            buffer.truncate(start);
            return;
        }
    };
    let checksum = checksum(salt, length, buffer.get(start + HEAD..).unwrap_or_default());
    let head = buffer.iter_mut().skip(start);
    for (byte, value) in head.zip(length.into_iter().chain(checksum.to_le_bytes())) {
        *byte = value;
    }
}

/// The payload of the whole and intact frame at the start of `bytes`.
pub(super) fn payload(bytes: &[u8], salt: u32) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (expected, rest) = rest.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*length) as usize;
    if size == 0 || size > MAX_PAYLOAD {
        return None;
    }
    let payload = rest.get(..size)?;
    (checksum(salt, *length, payload) == u32::from_le_bytes(*expected)).then_some(payload)
}

pub(super) fn decode(payload: &[u8]) -> Option<Record<'_>> {
    let (&tag, rest) = payload.split_first()?;
    let mut rest = rest;
    let record = match tag {
        TAG_PUT_TASK | TAG_PUT_CONTEXT | TAG_PUT_ALIAS => {
            let [generation, state] = *take(&mut rest)?;
            Record::Put(Put {
                kind: kind_of(tag),
                generation: generation_of(generation)?,
                state: state_of(state)?,
                seen: u32::from_le_bytes(*take(&mut rest)?),
                agent: take_text(&mut rest)?,
                id: take_text(&mut rest)?,
                endpoint: take_text(&mut rest)?,
                principal: take_text(&mut rest)?,
            })
        }
        TAG_FORGET_TASK | TAG_FORGET_CONTEXT | TAG_FORGET_ALIAS => Record::Forget {
            kind: kind_of(tag),
            agent: take_text(&mut rest)?,
            id: take_text(&mut rest)?,
        },
        TAG_SYNCED => Record::Synced(u64::from_le_bytes(*take(&mut rest)?)),
        TAG_END => Record::End(u64::from_le_bytes(*take(&mut rest)?)),
        _ => return None,
    };
    rest.is_empty().then_some(record)
}

fn kind_of(tag: u8) -> Kind {
    match tag {
        TAG_PUT_TASK | TAG_FORGET_TASK => Kind::Task,
        TAG_PUT_ALIAS | TAG_FORGET_ALIAS => Kind::Alias,
        _ => Kind::Context,
    }
}

fn checksum(salt: u32, length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

pub(in crate::affinity) fn push_text(buffer: &mut Vec<u8>, text: &str) -> bool {
    let Ok(length) = u16::try_from(text.len()) else {
        return false;
    };
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(text.as_bytes());
    true
}

pub(in crate::affinity) fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

pub(in crate::affinity) fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let length = u16::from_le_bytes(*take(rest)?);
    let (text, left) = rest.split_at_checked(length.into())?;
    *rest = left;
    std::str::from_utf8(text).ok()
}

pub(in crate::affinity) fn generation_code(generation: Generation) -> u8 {
    match generation {
        Generation::V0_3 => 1,
        Generation::V1_0 => 2,
        Generation::V0_1 => 3,
    }
}

pub(in crate::affinity) fn generation_of(code: u8) -> Option<Generation> {
    Some(match code {
        1 => Generation::V0_3,
        2 => Generation::V1_0,
        3 => Generation::V0_1,
        _ => return None,
    })
}

pub(in crate::affinity) fn state_code(state: Option<TaskState>) -> u8 {
    match state {
        None => 0,
        Some(TaskState::Submitted) => 1,
        Some(TaskState::Working) => 2,
        Some(TaskState::InputRequired) => 3,
        Some(TaskState::AuthRequired) => 4,
        Some(TaskState::Completed) => 5,
        Some(TaskState::Failed) => 6,
        Some(TaskState::Canceled) => 7,
        Some(TaskState::Rejected) => 8,
        Some(TaskState::Unknown) => 9,
    }
}

pub(in crate::affinity) fn state_of(code: u8) -> Option<Option<TaskState>> {
    Some(match code {
        0 => None,
        1 => Some(TaskState::Submitted),
        2 => Some(TaskState::Working),
        3 => Some(TaskState::InputRequired),
        4 => Some(TaskState::AuthRequired),
        5 => Some(TaskState::Completed),
        6 => Some(TaskState::Failed),
        7 => Some(TaskState::Canceled),
        8 => Some(TaskState::Rejected),
        9 => Some(TaskState::Unknown),
        _ => return None,
    })
}

#[cfg(test)]
pub(in crate::affinity) fn encode_for_test(buffer: &mut Vec<u8>, salt: u32, put: &Put<'_>) {
    encode(buffer, salt, &Record::Put(*put));
}
