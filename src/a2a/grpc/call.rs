//! Which task and context a request names, as the agent's reader of protobuf sees it: of a field that comes twice the last
//! counts, and pieces of a message are put together. An empty id is none (proto3).
//!
//! Does not check anything that only the agent needs.

use std::fmt;

use super::methods::{Method, Shape};
use super::name::task_of;
use super::wire::{WireError, pieces, put_text, walk};
use crate::a2a::jsonrpc::{MAX_ID_BYTES, MAX_REFERENCES};
use crate::a2a::{Binding, Call, ContextId, Generation, Operation, RpcId, TaskId};

/// Why a message is no call that the gateway passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallError {
    Wire(WireError),
    MissingTaskId,
    /// A resource name that is none of a task.
    BadName,
    /// Two resource names that name different tasks.
    ConflictingNames,
    IdTooLong,
    TooManyReferences,
}

impl CallError {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wire(error) => error.as_str(),
            Self::MissingTaskId => "missing_task_id",
            Self::BadName => "bad_resource_name",
            Self::ConflictingNames => "conflicting_resource_names",
            Self::IdTooLong => "id_too_long",
            Self::TooManyReferences => "too_many_references",
        }
    }

    /// The text for the caller; quotes nothing of the message.
    pub fn message(self) -> &'static str {
        match self {
            Self::Wire(error) => error.message(),
            Self::MissingTaskId => "the task id is missing",
            Self::BadName => "the resource name does not name a task",
            Self::ConflictingNames => "the request names two different tasks",
            Self::IdTooLong => "a task or context id is too long",
            Self::TooManyReferences => "the message refers to too many tasks",
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for CallError {}

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// Reads the call that a request message of a method asks for. gRPC calls have no id of their own.
pub fn read_call(method: &Method, message: &[u8]) -> Result<Call, CallError> {
    let mut found = Found::default();
    found.request(method.shape, message)?;
    let task = match method.shape {
        Shape::Id(_) => Some(optional(found.task)?.ok_or(CallError::MissingTaskId)?),
        Shape::Name(_) | Shape::Names { .. } => Some(found.named()?),
        Shape::Send { .. } | Shape::Context(_) | Shape::Nothing => optional(found.task)?,
    };
    if found.references.len() > MAX_REFERENCES {
        return Err(CallError::TooManyReferences);
    }
    // The specification wants it empty in a send (`SendMessageConfiguration`).
    found.references.push(found.push_task);
    let references = found.references.into_iter().filter(|id| !id.is_empty());
    let references = references.map(|id| bounded(id).map(TaskId::new));
    Ok(Call {
        binding: Binding::Grpc,
        generation: method.generation,
        operation: method.operation,
        id: RpcId::null(),
        task: task.map(TaskId::new),
        context: optional(found.context)?.map(ContextId::new),
        references: references.collect::<Result<_, _>>()?,
        webhook: found.webhook,
    })
}

/// The tenant that a request names; in 0.3 there is none.
pub fn read_tenant<'a>(method: &Method, message: &'a [u8]) -> Option<&'a str> {
    let tenant = tenant_field(method)?;
    let mut found = "";
    let read = walk(message, |number, field| {
        if number == u32::from(tenant) {
            found = field.text()?;
        }
        Ok::<_, WireError>(())
    });
    read.ok()?;
    Some(found).filter(|tenant| !tenant.is_empty())
}

/// The same request with another tenant, or none. One that cannot be read stays as it is.
pub fn with_tenant(method: &Method, message: &[u8], tenant: Option<&str>) -> Vec<u8> {
    let Some(place) = tenant_field(method) else {
        return message.to_vec();
    };
    let mut out = Vec::with_capacity(message.len() + tenant.map_or(0, str::len) + 4);
    let read = pieces(message, |number, piece| {
        if number != u32::from(place) {
            out.extend_from_slice(piece);
        }
    });
    if read.is_err() {
        return message.to_vec();
    }
    if let Some(tenant) = tenant {
        put_text(&mut out, place, tenant);
    }
    out
}

fn tenant_field(method: &Method) -> Option<u8> {
    match (method.generation, method.operation) {
        (Generation::V0_1 | Generation::V0_3, _) => None,
        (Generation::V1_0, Operation::PushList) => Some(4),
        (Generation::V1_0, _) => Some(1),
    }
}

/// What the walk has gathered; empty is absent.
#[derive(Default)]
struct Found<'a> {
    /// An id or a resource name.
    task: &'a str,
    /// The resource name within a push configuration.
    inner: &'a str,
    context: &'a str,
    references: Vec<&'a str>,
    /// Of an inline push configuration. Agents of every SDK put the task of the message in its place, but one that did not
    /// would report somebody else's task to the caller's URL.
    push_task: &'a str,
    /// There is one.
    webhook: bool,
}

impl<'a> Found<'a> {
    fn request(&mut self, shape: Shape, message: &'a [u8]) -> Result<(), CallError> {
        walk(message, |number, field| {
            match shape {
                Shape::Send { message, .. } if number == message => self.message(field.message()?)?,
                Shape::Send {
                    configuration,
                    names_task,
                    ..
                } if number == configuration => {
                    self.configuration(field.message()?, names_task)?;
                }
                Shape::Id(task) | Shape::Name(task) if number == task => self.task = field.text()?,
                Shape::Names { parent, .. } if number == parent => self.task = field.text()?,
                Shape::Names { config, .. } if number == config => walk(field.message()?, |number, field| {
                    if number == 1 {
                        self.inner = field.text()?;
                    }
                    Ok::<_, CallError>(())
                })?,
                Shape::Context(context) if number == context => self.context = field.text()?,
                Shape::Send { .. }
                | Shape::Id(_)
                | Shape::Name(_)
                | Shape::Names { .. }
                | Shape::Context(_)
                | Shape::Nothing => {}
            }
            Ok(())
        })
    }

    /// `Message`, whose numbers are the same in all generations.
    fn message(&mut self, message: &'a [u8]) -> Result<(), CallError> {
        walk(message, |number, field| {
            match number {
                2 => self.context = field.text()?,
                3 => self.task = field.text()?,
                // Drafts of 1.0 that go by the name of 0.3 have them too. One too many is enough to know.
                8 if self.references.len() <= MAX_REFERENCES => self.references.push(field.text()?),
                _ => {}
            }
            Ok(())
        })
    }

    /// `SendMessageConfiguration`.
    fn configuration(&mut self, message: &'a [u8], names_task: bool) -> Result<(), CallError> {
        walk(message, |number, field| {
            if number != 2 {
                return Ok(());
            }
            self.webhook = true;
            if !names_task {
                return Ok(());
            }
            walk(field.message()?, |number, field| {
                if number == 3 {
                    self.push_task = field.text()?;
                }
                Ok(())
            })
        })
    }

    /// The task that one or two resource names name.
    fn named(&self) -> Result<&'a str, CallError> {
        let task = |name: &'a str| match name {
            "" => Ok(None),
            name => task_of(name).ok_or(CallError::BadName).and_then(bounded).map(Some),
        };
        // Clients of 0.2 leave the first out, and agents read one or the other.
        match (task(self.task)?, task(self.inner)?) {
            (Some(task), Some(inner)) if task != inner => Err(CallError::ConflictingNames),
            (Some(task), _) | (None, Some(task)) => Ok(task),
            (None, None) => Err(CallError::MissingTaskId),
        }
    }
}

fn optional(id: &str) -> Result<Option<&str>, CallError> {
    bounded(id).map(|id| Some(id).filter(|id| !id.is_empty()))
}

fn bounded(id: &str) -> Result<&str, CallError> {
    if id.len() > MAX_ID_BYTES {
        return Err(CallError::IdTooLong);
    }
    Ok(id)
}
