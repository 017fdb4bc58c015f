//! What a request line addresses: the one table for both directions (A2A 0.3 §3.2.3, 1.0 §11.3).
//!
//! A path is split at its slashes, then each segment is decoded. Servers that decode first would find other segments in a
//! path with an escaped slash; such a path is refused if it is a call of A2A to them. Names are compared exactly; one that
//! differs only in case is refused, because some routers do not mind it.

use std::borrow::Cow;

use super::{Verb, percent};
use crate::a2a::{Generation, Operation};

/// What a request line addresses below the base of an agent; ids and tenant as they read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub generation: Generation,
    pub operation: Operation,
    /// The first segment, only in 1.0.
    pub tenant: Option<Box<str>>,
    pub task: Option<Box<str>>,
    /// The push configuration.
    pub config: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// No path of A2A.
    Unknown,
    /// A path of A2A under another method.
    Method { allowed: &'static str },
    /// No path (RFC 3986 §3.3), or one that not every server would read the same.
    Malformed,
}

/// The extended card of 0.2, where it is not part of this binding, which came with 0.3 (A2A 0.2.6 §5.3).
pub const EXTENDED_CARD_OF_0_2: &str = "/agent/authenticatedExtendedCard";

/// The first segment of the paths of 0.3.
const V1: &str = "v1";
const CONFIGS: &str = "pushNotificationConfigs";
/// Names that a first segment has of its own, so that they cannot be tenants. `v1` is one where 0.3 is served.
const RESERVED: [&str; 5] = [
    "tasks",
    "message:send",
    "message:stream",
    "extendedAgentCard",
    ".well-known",
];
/// Most segments of a path: of a push configuration under a tenant.
const MOST_SEGMENTS: usize = 5;

/// Reads a request line. `path` begins with `/`, below the agent's mount, without the query and as it was sent. `served` are
/// the generations of the agent: `v1` is a tenant where 1.0 is the only one.
pub fn read_target(method: &str, path: &str, served: &[Generation]) -> Result<Target, TargetError> {
    let whole = path.strip_prefix('/').ok_or(TargetError::Malformed)?;
    if !whole.bytes().all(|byte| is_path_byte(byte) || byte == b'/') {
        return Err(TargetError::Malformed);
    }
    let mut segments: [Cow<'_, str>; MOST_SEGMENTS] = Default::default();
    let mut count = 0;
    for segment in whole.split('/') {
        let slot = segments.get_mut(count).ok_or(TargetError::Unknown)?;
        *slot = percent::decode(segment).ok_or(TargetError::Malformed)?;
        count += 1;
    }
    let segments = segments.each_ref().map(|segment| &**segment);
    let segments = segments.get(..count).unwrap_or_default();
    let target = find(method, segments, served);
    if reads_otherwise(method, segments, served) {
        return Err(TargetError::Malformed);
    }
    target
}

/// Something else to a server that undoes escapes before it splits, resolves dot segments or merges slashes.
fn reads_otherwise(method: &str, segments: &[&str], served: &[Generation]) -> bool {
    if !segments.iter().any(|segment| segment.contains('/')) {
        return segments.iter().any(|segment| is_dots(segment));
    }
    let split: Vec<&str> = segments
        .iter()
        .flat_map(|segment| segment.split('/'))
        .filter(|segment| !segment.is_empty())
        .collect();
    split.iter().any(|segment| is_dots(segment)) || find(method, &split, served) != Err(TargetError::Unknown)
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

fn find(method: &str, segments: &[&str], served: &[Generation]) -> Result<Target, TargetError> {
    if segments.iter().any(|segment| segment.is_empty()) {
        return Err(TargetError::Unknown);
    }
    let only_1_0 = served == [Generation::V1_0];
    match segments {
        [first, rest @ ..] if *first == V1 && !only_1_0 => find_in(method, rest, Generation::V0_3, None),
        ["agent", "authenticatedExtendedCard"] if !only_1_0 => find_in(method, &["card"], Generation::V0_3, None),
        _ => match find_in(method, segments, Generation::V1_0, None) {
            Err(TargetError::Unknown) => match segments {
                [tenant, rest @ ..] if can_be_tenant(tenant, only_1_0) => {
                    find_in(method, rest, Generation::V1_0, Some(tenant))
                }
                _ => Err(TargetError::Unknown),
            },
            found => found,
        },
    }
}

fn can_be_tenant(name: &str, only_1_0: bool) -> bool {
    let is_reserved = RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name));
    !is_reserved && (only_1_0 || !name.eq_ignore_ascii_case(V1))
}

fn find_in(
    method: &str,
    segments: &[&str],
    generation: Generation,
    tenant: Option<&str>,
) -> Result<Target, TargetError> {
    use Generation::{V0_3, V1_0};
    use Operation::{
        Cancel, ExtendedCard, Get, List, PushCreate, PushDelete, PushGet, PushList, Send, Stream, Subscribe,
    };
    let (operations, allowed, task, config): (&[(Verb, Operation)], _, _, _) = match (segments, generation) {
        (["message:send"], _) => (&[(Verb::Post, Send)], "POST", None, None),
        (["message:stream"], _) => (&[(Verb::Post, Stream)], "POST", None, None),
        (["tasks"], _) => (&[(Verb::Get, List)], "GET", None, None),
        (["extendedAgentCard"], V1_0) | (["card"], V0_3) => (&[(Verb::Get, ExtendedCard)], "GET", None, None),
        (["tasks", last], _) => match last.rsplit_once(':') {
            Some(("", _)) => return Err(TargetError::Unknown),
            Some((task, "cancel")) => (&[(Verb::Post, Cancel)], "POST", Some(task), None),
            // The tables of the specifications have POST, their protobuf annotations GET.
            Some((task, "subscribe")) => (
                &[(Verb::Get, Subscribe), (Verb::Post, Subscribe)],
                "GET, POST",
                Some(task),
                None,
            ),
            Some((_, verb)) if is_almost_verb(verb) => return Err(TargetError::Unknown),
            Some(_) | None => (&[(Verb::Get, Get)], "GET", Some(*last), None),
        },
        (["tasks", task, configs], _) if *configs == CONFIGS => (
            &[(Verb::Get, PushList), (Verb::Post, PushCreate)],
            "GET, POST",
            Some(*task),
            None,
        ),
        // So the annotation in the protobuf of 0.3 has it.
        (["task", task, configs], V0_3) if *configs == CONFIGS => {
            (&[(Verb::Post, PushCreate)], "POST", Some(*task), None)
        }
        (["tasks", task, configs, config], _) if *configs == CONFIGS => (
            &[(Verb::Get, PushGet), (Verb::Delete, PushDelete)],
            "GET, DELETE",
            Some(*task),
            Some(*config),
        ),
        _ => return Err(TargetError::Unknown),
    };
    let found = operations.iter().find(|(verb, _)| verb.as_str() == method);
    let (_, operation) = found.ok_or(TargetError::Method { allowed })?;
    Ok(Target {
        generation,
        operation: *operation,
        tenant: tenant.map(Box::from),
        task: task.map(Box::from),
        config: config.map(Box::from),
    })
}

fn is_almost_verb(name: &str) -> bool {
    ["cancel", "subscribe"]
        .iter()
        .any(|verb| verb.eq_ignore_ascii_case(name))
}

/// `pchar` (RFC 3986 §3.3).
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@".contains(&byte)
}

impl Target {
    /// The method and the path by which an agent of this generation is asked. `None`: it has no path that reads as this.
    pub(super) fn write(&self) -> Option<(Verb, String)> {
        let mut path = String::with_capacity(96);
        let mut push = |segment: &str| {
            path.push('/');
            percent::encode(segment, &mut path);
        };
        match (self.generation, &self.tenant) {
            (Generation::V0_1 | Generation::V0_3, _) => push(V1),
            (Generation::V1_0, Some(tenant)) => push(tenant),
            (Generation::V1_0, None) => {}
        }
        if let Some(task) = &self.task {
            push("tasks");
            push(task);
        }
        let (verb, tail) = match self.operation {
            Operation::Send => (Verb::Post, "/message:send"),
            Operation::Stream => (Verb::Post, "/message:stream"),
            Operation::Get => (Verb::Get, ""),
            Operation::List => (Verb::Get, "/tasks"),
            Operation::Cancel => (Verb::Post, ":cancel"),
            // Servers of 0.3 in Python know GET alone, those of 1.0 in Java POST alone; the others know both.
            Operation::Subscribe => match self.generation {
                Generation::V0_1 | Generation::V0_3 => (Verb::Get, ":subscribe"),
                Generation::V1_0 => (Verb::Post, ":subscribe"),
            },
            Operation::PushCreate => (Verb::Post, "/pushNotificationConfigs"),
            Operation::PushList => (Verb::Get, "/pushNotificationConfigs"),
            Operation::PushGet => (Verb::Get, "/pushNotificationConfigs/"),
            Operation::PushDelete => (Verb::Delete, "/pushNotificationConfigs/"),
            Operation::ExtendedCard => match self.generation {
                Generation::V0_1 | Generation::V0_3 => (Verb::Get, "/card"),
                Generation::V1_0 => (Verb::Get, "/extendedAgentCard"),
            },
        };
        path.push_str(tail);
        if let Some(config) = &self.config {
            percent::encode(config, &mut path);
        }
        let read = read_target(verb.as_str(), &path, &[self.generation]);
        (read.as_ref() == Ok(self)).then_some((verb, path))
    }
}
