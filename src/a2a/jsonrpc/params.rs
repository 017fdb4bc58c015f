//! What `params` of a request says, whatever its method.
//!
//! Gathered before the method is known; `judge` then takes what the method asks for. Members of the same meaning in
//! camelCase and snake_case share a field: ProtoJSON readers take both (A2A 1.0), and so do the Python models of 0.3.
//! Bodies of the HTTP+JSON binding have the same members (`a2a::http_json`).

use std::borrow::Cow;

use super::MAX_ID_BYTES;
use super::methods::{Method, Place};
use super::request::{MAX_REFERENCES, Problem, RequestErrorKind, is_look_alike, problem};
use crate::a2a::json::{self, Kind, Name, Strict, Text, Value};
use crate::a2a::{Binding, Call, ContextId, Generation, Operation, RpcId, TaskId};

/// Members of `params`, of `params.message` and of an inline push configuration. Both spellings of a member share one field.
#[derive(Default)]
pub(in crate::a2a) struct Params<'a> {
    /// Where `params` is, if it is no object.
    pub(super) bad: Option<usize>,
    pub(in crate::a2a) id: Field<'a>,
    pub(in crate::a2a) task: Field<'a>,
    context: Field<'a>,
    session: Field<'a>,
    /// Where `params.message` is, if it is no object.
    bad_message: Option<usize>,
    /// Where a configuration is, if it is no object.
    pub(in crate::a2a) bad_configuration: Option<usize>,
    message_task: Field<'a>,
    message_context: Field<'a>,
    references: References<'a>,
    /// Of the push configuration in `params.configuration`. Agents of every SDK put the task of the message in its place, but
    /// one that did not would report somebody else's task to the caller's URL.
    push_task: Field<'a>,
    /// There is one.
    push: bool,
    /// The same in 0.1.
    push_of_0_1: bool,
    pub(in crate::a2a) look_alike: Option<usize>,
}

impl<'a> Params<'a> {
    pub(in crate::a2a) fn member(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        match &*name.decode() {
            b"id" => self.id.set(cursor.value()?, at),
            b"taskId" | b"task_id" => self.task.set(cursor.value()?, at),
            b"contextId" | b"context_id" => self.context.set(cursor.value()?, at),
            b"sessionId" => self.session.set(cursor.value()?, at),
            b"message" => return self.message(cursor),
            b"pushNotification" => {
                self.push_of_0_1 |= cursor.kind() == Kind::Object;
                cursor.skip()?;
            }
            b"configuration" => {
                if cursor.kind() == Kind::Object {
                    return cursor.object(|cursor, name| self.configuration_member(cursor, name));
                }
                self.skip_null(cursor, at)?;
            }
            b"metadata" => cursor.skip()?,
            other => {
                if is_look_alike(other, PARAMS) {
                    self.look_alike = Some(at);
                }
                cursor.skip()?;
            }
        }
        Ok(())
    }

    /// Reads the value of `message`.
    pub(in crate::a2a) fn message(&mut self, cursor: &mut Strict<'a>) -> Result<(), json::Error> {
        match cursor.kind() {
            Kind::Object => cursor.object(|cursor, name| self.message_member(cursor, name)),
            Kind::Null => cursor.skip(),
            Kind::Array | Kind::Text | Kind::Number | Kind::Bool | Kind::Nothing => {
                self.bad_message = Some(cursor.at());
                cursor.skip()
            }
        }
    }

    fn message_member(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        match &*name.decode() {
            b"taskId" | b"task_id" => self.message_task.set(cursor.value()?, at),
            b"contextId" | b"context_id" => self.message_context.set(cursor.value()?, at),
            b"referenceTaskIds" | b"reference_task_ids" => self.references.read(cursor)?,
            // Skills are named there, and rules read it (`a2a::metadata`).
            b"metadata" => cursor.skip()?,
            other => {
                if is_look_alike(other, MESSAGE) {
                    self.look_alike = Some(at);
                }
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn configuration_member(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let (at, name) = (cursor.at(), name.decode());
        if CONFIGURATION.iter().any(|known| known.as_bytes() == &*name) {
            if cursor.kind() == Kind::Object {
                self.push = true;
                return cursor.object(|cursor, name| self.push_member(cursor, name));
            }
            return self.skip_null(cursor, at);
        } else if is_look_alike(&name, CONFIGURATION) {
            self.look_alike = Some(at);
        }
        cursor.skip()
    }

    /// What ids are read from is an object or absent: some readers take a list for the members in their order.
    pub(in crate::a2a) fn skip_null(&mut self, cursor: &mut Strict<'a>, at: usize) -> Result<(), json::Error> {
        if cursor.kind() != Kind::Null {
            self.bad_configuration = Some(at);
        }
        cursor.skip()
    }

    fn push_member(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        match &*name.decode() {
            b"taskId" | b"task_id" => self.push_task.set(cursor.value()?, at),
            other => {
                if is_look_alike(other, PUSH) {
                    self.look_alike = Some(at);
                }
                cursor.skip()?;
            }
        }
        Ok(())
    }

    pub(in crate::a2a) fn judge(&self, method: &Method, id: RpcId, end: usize) -> Result<Call, Problem> {
        if let Some(at) = self.bad {
            return problem(RequestErrorKind::InvalidParams, at);
        }
        if let Some(at) = self.look_alike {
            return problem(RequestErrorKind::LookAlikeParam, at);
        }
        let in_message = method.task == Place::Message || method.context == Place::Message;
        if let Some(at) = self.bad_message.or(self.bad_configuration).filter(|_| in_message) {
            return problem(RequestErrorKind::InvalidParams, at);
        }
        let task = match method.task {
            Place::ParamsId => Some(self.id.required(end)?),
            Place::ParamsTaskId => Some(self.task.required(end)?),
            Place::Message => self.message_task.optional(method.generation)?,
            Place::Nowhere | Place::ParamsContextId | Place::ParamsSessionId => None,
        };
        let context = match method.context {
            Place::ParamsContextId => self.context.optional(method.generation)?,
            Place::ParamsSessionId => self.session.optional(method.generation)?,
            Place::Message => self.message_context.optional(method.generation)?,
            Place::Nowhere | Place::ParamsId | Place::ParamsTaskId => None,
        };
        let mut references = Vec::new();
        if in_message {
            references = self.references.ids()?;
            // The specification wants it empty in a send (`SendMessageConfiguration`).
            let named = self.push_task.text()?.filter(|(task, _)| !task.is_empty());
            references.extend(named.map(|(task, _)| TaskId::new(&task)));
        }
        let sends = matches!(method.operation, Operation::Send | Operation::Stream);
        let webhook = match method.generation {
            Generation::V0_1 => sends && self.push_of_0_1,
            Generation::V0_3 | Generation::V1_0 => in_message && self.push,
        };
        Ok(Call {
            binding: Binding::JsonRpc,
            generation: method.generation,
            operation: method.operation,
            id,
            task: task.as_deref().map(TaskId::new),
            context: context.as_deref().map(ContextId::new),
            references,
            webhook,
        })
    }
}

/// A member that is an id, in one or two spellings.
#[derive(Default)]
pub(in crate::a2a) struct Field<'a> {
    /// The value, and where it stands.
    value: Option<(Value<'a>, usize)>,
    conflict: Option<usize>,
}

impl<'a> Field<'a> {
    /// A second call is the other spelling: the walk refuses repeated names.
    pub(in crate::a2a) fn set(&mut self, value: Value<'a>, at: usize) {
        match (self.value, value) {
            (None, _) => self.value = Some((value, at)),
            (Some((Value::Text(first), _)), Value::Text(second)) if first == second => {}
            (Some((Value::Null, _)), Value::Null) => {}
            (Some(_), _) => self.conflict = Some(at),
        }
    }

    fn required(&self, end: usize) -> Result<Cow<'a, str>, Problem> {
        match self.text()? {
            Some((text, at)) if text.is_empty() => problem(RequestErrorKind::InvalidParams, at),
            Some((text, _)) => Ok(text),
            None => problem(RequestErrorKind::MissingTaskId, end),
        }
    }

    fn optional(&self, generation: Generation) -> Result<Option<Cow<'a, str>>, Problem> {
        match self.text()? {
            Some((text, at)) if text.is_empty() => match generation {
                Generation::V0_3 => problem(RequestErrorKind::InvalidParams, at),
                // Of a `sessionId` an empty one is none; ProtoJSON: the default value is as good as none.
                Generation::V0_1 | Generation::V1_0 => Ok(None),
            },
            Some((text, _)) => Ok(Some(text)),
            None => Ok(None),
        }
    }

    /// The value and where it stands; within its bounds.
    pub(in crate::a2a) fn text(&self) -> Result<Option<(Cow<'a, str>, usize)>, Problem> {
        if let Some(at) = self.conflict {
            return problem(RequestErrorKind::ConflictingSpellings, at);
        }
        match self.value {
            None | Some((Value::Null, _)) => Ok(None),
            Some((Value::Other, at)) => problem(RequestErrorKind::InvalidParams, at),
            Some((Value::Text(text), at)) => {
                let text = text.decode();
                if text.len() > MAX_ID_BYTES {
                    return problem(RequestErrorKind::IdTooLong, at);
                }
                Ok(Some((text, at)))
            }
        }
    }
}

/// `referenceTaskIds`, in one or two spellings.
#[derive(Default)]
struct References<'a> {
    /// The ids, and where the array stands; null is an empty array.
    ids: Option<(Vec<Text<'a>>, usize)>,
    /// The first thing that is wrong.
    wrong: Option<(RequestErrorKind, usize)>,
}

impl<'a> References<'a> {
    fn read(&mut self, cursor: &mut Strict<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        let mut ids = Vec::new();
        match cursor.kind() {
            Kind::Null => cursor.skip()?,
            Kind::Array => cursor.array(|cursor| {
                let at = cursor.at();
                match cursor.value()? {
                    Value::Text(_) if ids.len() == MAX_REFERENCES => {
                        self.wrong(RequestErrorKind::TooManyReferences, at);
                    }
                    Value::Text(id) if id.raw().is_empty() => {
                        self.wrong(RequestErrorKind::InvalidParams, at);
                    }
                    Value::Text(id) => ids.push(id),
                    Value::Null | Value::Other => self.wrong(RequestErrorKind::InvalidParams, at),
                }
                Ok::<_, json::Error>(())
            })?,
            Kind::Object | Kind::Text | Kind::Number | Kind::Bool | Kind::Nothing => {
                self.wrong(RequestErrorKind::InvalidParams, at);
                cursor.skip()?;
            }
        }
        match &self.ids {
            None => self.ids = Some((ids, at)),
            Some((first, _)) if *first == ids => {}
            Some(_) => self.wrong(RequestErrorKind::ConflictingSpellings, at),
        }
        Ok(())
    }

    fn wrong(&mut self, kind: RequestErrorKind, at: usize) {
        self.wrong.get_or_insert((kind, at));
    }

    fn ids(&self) -> Result<Vec<TaskId>, Problem> {
        if let Some((kind, at)) = self.wrong {
            return problem(kind, at);
        }
        let Some((ids, at)) = &self.ids else {
            return Ok(Vec::new());
        };
        ids.iter()
            .map(|id| {
                let id = id.decode();
                if id.len() > MAX_ID_BYTES {
                    return problem(RequestErrorKind::IdTooLong, *at);
                }
                Ok(TaskId::new(&id))
            })
            .collect()
    }
}

const PARAMS: &[&str] = &[
    "id",
    "taskId",
    "task_id",
    "contextId",
    "context_id",
    "message",
    "configuration",
    "metadata",
];
/// The inline push configuration of 1.0 and of 0.3.
const CONFIGURATION: &[&str] = &[
    "taskPushNotificationConfig",
    "task_push_notification_config",
    "pushNotificationConfig",
    "push_notification_config",
];
const PUSH: &[&str] = &["taskId", "task_id"];
const MESSAGE: &[&str] = &[
    "taskId",
    "task_id",
    "contextId",
    "context_id",
    "referenceTaskIds",
    "reference_task_ids",
    "metadata",
];
