//! What an agent's answer, or one event of its stream, reveals: ids, state, error, and whether it is the last.
//!
//! Agents are not trusted, but nobody is authorised by what they say, so the walk is lenient: names may repeat below the
//! levels that are read here. Broken, cut off or overlong answers are errors all the same. Members of a kind that they should
//! not have count as absent. Ids nested deeper (history, status messages) are not looked at.

use std::fmt;

use super::{MAX_ID_BYTES, id_matches};
use crate::a2a::json::{self, Kind, Lenient, Limits, Text, Value};
use crate::a2a::{ContextId, Generation, Operation, Revealed, RpcId, TaskId, TaskState};

/// Most tasks that one answer may reveal; a page of ListTasks has 100 at most (A2A 1.0 §3.1.4).
pub const MAX_REVEALED: usize = 1024;

/// One JSON-RPC response of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The id as it is written, if there is one.
    pub id: Option<&'a str>,
    /// At most one, but for a page of tasks. Empty for answers about push configurations: they only echo ids.
    pub revealed: Vec<Revealed>,
    /// The error's code; 0 if it has none that is a whole number of 64 bits.
    pub error: Option<i64>,
    /// The last event of a stream (`final` up to 0.3); in 1.0 only the end of the stream says so.
    pub is_final: bool,
    /// There is a `result`, be it null.
    pub has_result: bool,
    /// The result has a shape that this operation does not answer in this generation: what it tells of is not in `revealed`.
    pub is_strange: bool,
}

impl Answer<'_> {
    /// The answer belongs to the request of this id.
    pub fn answers(&self, request: &RpcId) -> bool {
        id_matches(request, self.id, self.error.is_some())
    }
}

/// Why an answer cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerError {
    pub kind: AnswerErrorKind,
    pub at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerErrorKind {
    Json(json::ErrorKind),
    NotObject,
    /// A task or context id that no request could name (`MAX_ID_BYTES`).
    IdTooLong,
    TooManyTasks,
}

impl AnswerErrorKind {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json(kind) => kind.as_str(),
            Self::NotObject => "not_object",
            Self::IdTooLong => "id_too_long",
            Self::TooManyTasks => "too_many_tasks",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Json(kind) => kind.message(),
            Self::NotObject => "the answer is not an object",
            Self::IdTooLong => "a task or context id is too long",
            Self::TooManyTasks => "the answer lists too many tasks",
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind.message(), self.at)
    }
}

impl std::error::Error for AnswerError {}

impl From<json::Error> for AnswerError {
    fn from(error: json::Error) -> Self {
        Self {
            kind: AnswerErrorKind::Json(error.kind),
            at: error.at,
        }
    }
}

/// Reads one response to a call of this generation and operation.
pub fn read_answer(
    body: &[u8],
    generation: Generation,
    operation: Operation,
    limits: Limits,
) -> Result<Answer<'_>, AnswerError> {
    let mut cursor = Lenient::new(body, limits)?;
    if cursor.kind() != Kind::Object {
        let at = cursor.at();
        cursor.skip()?;
        return Err(AnswerError {
            kind: AnswerErrorKind::NotObject,
            at,
        });
    }
    let variants = match generation {
        Generation::V0_1 => Variants::Tasks,
        Generation::V0_3 => Variants::Kinds,
        Generation::V1_0 => Variants::Members,
    };
    let mut answer = Answer::default();
    cursor.object(|cursor, name| {
        match &*name.decode() {
            b"id" => {
                once(answer.id.is_none(), cursor)?;
                answer.id = Some(cursor.raw()?);
            }
            b"error" => {
                once(answer.error.is_none(), cursor)?;
                answer.error = error_code(cursor)?;
            }
            b"result" => {
                once(!answer.has_result, cursor)?;
                answer.has_result = true;
                read_result(cursor, variants, operation, &mut answer)?;
            }
            _ => cursor.leap()?,
        }
        Ok::<_, AnswerError>(())
    })?;
    cursor.finish()?;
    Ok(answer)
}

fn once(first: bool, cursor: &Lenient<'_>) -> Result<(), json::Error> {
    if first {
        Ok(())
    } else {
        Err(json::Error {
            kind: json::ErrorKind::DuplicateName,
            at: cursor.at(),
        })
    }
}

fn error_code(cursor: &mut Lenient<'_>) -> Result<Option<i64>, AnswerError> {
    match cursor.kind() {
        Kind::Null => {
            cursor.leap()?;
            return Ok(None);
        }
        Kind::Object => {}
        Kind::Array | Kind::Text | Kind::Number | Kind::Bool | Kind::Nothing => {
            cursor.leap()?;
            return Ok(Some(0));
        }
    }
    let mut code = None;
    cursor.object(|cursor, name| {
        if name == *"code" {
            once(code.is_none(), cursor)?;
            code = Some(cursor.raw()?.parse().unwrap_or(0));
            Ok(())
        } else {
            cursor.leap().map_err(AnswerError::from)
        }
    })?;
    Ok(Some(code.unwrap_or(0)))
}

/// How an event says which of its variants it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::a2a) enum Variants {
    /// Whatever it is, it is about the task of its `id` (0.1).
    Tasks,
    /// By its `kind` (JSON-RPC of 0.3).
    Kinds,
    /// By the name of its only member (1.0).
    Members,
    /// The same, and a status update says whether it is the last (HTTP+JSON of 0.3).
    MembersAndFinal,
}

/// Reads a result: where the ids stand (A2A 0.3 §7, 1.0 §9.4).
pub(in crate::a2a) fn read_result<'a>(
    cursor: &mut Lenient<'a>,
    variants: Variants,
    operation: Operation,
    answer: &mut Answer<'a>,
) -> Result<(), AnswerError> {
    let about_tasks = matches!(
        operation,
        Operation::Send | Operation::Stream | Operation::Subscribe | Operation::Get | Operation::Cancel
    );
    if cursor.kind() != Kind::Object {
        answer.is_strange = about_tasks && cursor.kind() != Kind::Null;
        return Ok(cursor.leap()?);
    }
    match (operation, variants) {
        (Operation::Send | Operation::Stream | Operation::Subscribe, Variants::Members | Variants::MembersAndFinal) => {
            wrapped(cursor, variants, answer)
        }
        (
            Operation::Send | Operation::Stream | Operation::Subscribe | Operation::Get | Operation::Cancel,
            Variants::Tasks,
        ) => of_0_1(cursor, answer),
        // Nothing but a task, whatever else it says of itself.
        (Operation::Get | Operation::Cancel, _) => {
            let revealed = Item::read(cursor)?.revealed(Some(Variant::Task))?;
            answer.is_strange = revealed.task.is_none();
            reveal(answer, revealed, cursor.at())
        }
        (Operation::Send | Operation::Stream | Operation::Subscribe, Variants::Kinds) => {
            let item = Item::read(cursor)?;
            let revealed = item.revealed(None)?;
            answer.is_final = item.is_final;
            answer.is_strange = item.variant().is_none() && revealed.task.is_none() && !item.is_message;
            reveal(answer, revealed, cursor.at())
        }
        (Operation::List, _) => page(cursor, answer),
        (
            Operation::PushCreate
            | Operation::PushGet
            | Operation::PushList
            | Operation::PushDelete
            | Operation::ExtendedCard,
            _,
        ) => Ok(cursor.leap()?),
    }
}

/// A task, or an event of one, which does not say its session.
fn of_0_1<'a>(cursor: &mut Lenient<'a>, answer: &mut Answer<'a>) -> Result<(), AnswerError> {
    let mut item = Item::default();
    cursor.object(|cursor, name| {
        match &*name.decode() {
            b"id" => item.id.read(cursor)?,
            b"sessionId" => item.context.read(cursor)?,
            b"final" => item.is_final = cursor.raw()? == "true",
            b"status" => item.state = state(cursor)?,
            _ => cursor.leap()?,
        }
        Ok::<_, json::Error>(())
    })?;
    answer.is_final = item.is_final;
    let revealed = item.revealed(Some(Variant::Task))?;
    answer.is_strange = revealed.task.is_none();
    reveal(answer, revealed, cursor.at())
}

/// `result.task`, `.message`, `.statusUpdate` or `.artifactUpdate`.
fn wrapped<'a>(cursor: &mut Lenient<'a>, variants: Variants, answer: &mut Answer<'a>) -> Result<(), AnswerError> {
    answer.is_strange = true;
    cursor.object(|cursor, name| {
        let variant = match &*name.decode() {
            b"task" => Variant::Task,
            b"message" => Variant::Message,
            b"statusUpdate" | b"status_update" => Variant::Status,
            b"artifactUpdate" | b"artifact_update" => Variant::Artifact,
            _ => return Ok(cursor.leap()?),
        };
        if cursor.kind() != Kind::Object {
            return Ok(cursor.leap()?);
        }
        once(answer.revealed.is_empty(), cursor)?;
        answer.is_strange = false;
        let item = Item::read(cursor)?;
        answer.is_final = variants == Variants::MembersAndFinal && variant == Variant::Status && item.is_final;
        reveal(answer, item.revealed(Some(variant))?, cursor.at())
    })
}

/// 1.0 ListTasks: `result.tasks[]`.
fn page<'a>(cursor: &mut Lenient<'a>, answer: &mut Answer<'a>) -> Result<(), AnswerError> {
    cursor.object(|cursor, name| {
        if name != *"tasks" || cursor.kind() != Kind::Array {
            return Ok(cursor.leap()?);
        }
        cursor.array(|cursor| {
            if cursor.kind() != Kind::Object {
                return Ok(cursor.leap()?);
            }
            let item = Item::read(cursor)?;
            reveal(answer, item.revealed(Some(Variant::Task))?, cursor.at())
        })
    })
}

fn reveal(answer: &mut Answer<'_>, revealed: Revealed, at: usize) -> Result<(), AnswerError> {
    if revealed == Revealed::default() {
        return Ok(());
    }
    if answer.revealed.len() == MAX_REVEALED {
        return Err(AnswerError {
            kind: AnswerErrorKind::TooManyTasks,
            at,
        });
    }
    answer.revealed.push(revealed);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Task,
    Message,
    Status,
    Artifact,
}

/// A task, a message or an update, before it is known which.
#[derive(Default)]
struct Item<'a> {
    kind: Option<Text<'a>>,
    id: Member<'a>,
    task: Member<'a>,
    context: Member<'a>,
    has_status: bool,
    /// It has a `messageId`, as only messages do.
    is_message: bool,
    state: Option<TaskState>,
    is_final: bool,
}

/// A member that is an id, and where it stands.
#[derive(Default)]
struct Member<'a>(Option<(Value<'a>, usize)>);

impl<'a> Item<'a> {
    fn read(cursor: &mut Lenient<'a>) -> Result<Self, AnswerError> {
        let mut item = Self::default();
        cursor.object(|cursor, name| {
            match &*name.decode() {
                b"id" => item.id.read(cursor)?,
                b"taskId" | b"task_id" => item.task.read(cursor)?,
                b"contextId" | b"context_id" => item.context.read(cursor)?,
                b"kind" => match cursor.value()? {
                    Value::Text(kind) => item.kind = Some(kind),
                    Value::Null | Value::Other => {}
                },
                b"messageId" | b"message_id" => {
                    item.is_message = true;
                    cursor.leap()?;
                }
                b"final" => item.is_final = cursor.raw()? == "true",
                b"status" => {
                    item.has_status = true;
                    item.state = state(cursor)?;
                }
                _ => cursor.leap()?,
            }
            Ok::<_, json::Error>(())
        })?;
        Ok(item)
    }

    /// What its `kind` says that it is.
    fn variant(&self) -> Option<Variant> {
        match &*self.kind?.decode() {
            "task" => Some(Variant::Task),
            "message" => Some(Variant::Message),
            "status-update" => Some(Variant::Status),
            "artifact-update" => Some(Variant::Artifact),
            _ => None,
        }
    }

    /// What it reveals; without a `variant` its `kind` says what it is, or else its members do.
    fn revealed(&self, variant: Option<Variant>) -> Result<Revealed, AnswerError> {
        let task = match variant.or_else(|| self.variant()) {
            Some(Variant::Task) => &self.id,
            Some(Variant::Message | Variant::Status | Variant::Artifact) => &self.task,
            // Agents that leave `kind` out; only a task has both an id and a status.
            None if self.has_status && self.task.0.is_none() => &self.id,
            None => &self.task,
        };
        Ok(Revealed {
            task: task.text()?.as_deref().map(TaskId::new),
            context: self.context.text()?.as_deref().map(ContextId::new),
            state: self.state,
        })
    }
}

impl<'a> Member<'a> {
    fn read(&mut self, cursor: &mut Lenient<'a>) -> Result<(), json::Error> {
        once(self.0.is_none(), cursor)?;
        let at = cursor.at();
        self.0 = Some((cursor.value()?, at));
        Ok(())
    }

    /// Empty counts as absent (ProtoJSON).
    fn text(&self) -> Result<Option<std::borrow::Cow<'a, str>>, AnswerError> {
        let Some((Value::Text(text), at)) = self.0 else {
            return Ok(None);
        };
        let text = text.decode();
        if text.len() > MAX_ID_BYTES {
            return Err(AnswerError {
                kind: AnswerErrorKind::IdTooLong,
                at,
            });
        }
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// `status.state`, in the spelling of either generation.
fn state(cursor: &mut Lenient<'_>) -> Result<Option<TaskState>, json::Error> {
    if cursor.kind() != Kind::Object {
        cursor.leap()?;
        return Ok(None);
    }
    let mut state = None;
    cursor.object(|cursor, name| {
        if name != *"state" {
            return cursor.leap();
        }
        once(state.is_none(), cursor)?;
        state = Some(match cursor.value()? {
            Value::Text(text) => TaskState::from_name(&text.decode()),
            Value::Null | Value::Other => TaskState::Unknown,
        });
        Ok::<_, json::Error>(())
    })?;
    Ok(state)
}
