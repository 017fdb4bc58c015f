//! What one message of an agent's answer reveals: ids, state, and whether it is the last.
//!
//! Read as the caller's reader of protobuf sees it: the last of several variants counts, pieces of one are put together.
//! Ids nested deeper (history, status messages) are not looked at. Errors stand in the trailers (`fault`), not here.

use std::fmt;

use super::wire::{Field, WireError, walk};
use crate::a2a::jsonrpc::{Answer, MAX_ID_BYTES, MAX_REVEALED};
use crate::a2a::{ContextId, Generation, Operation, Revealed, TaskId, TaskState};

/// Why an answer cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerError {
    Wire(WireError),
    /// A task or context id that no request could name (`MAX_ID_BYTES`).
    IdTooLong,
    TooManyTasks,
}

impl AnswerError {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wire(error) => error.as_str(),
            Self::IdTooLong => "id_too_long",
            Self::TooManyTasks => "too_many_tasks",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Wire(error) => error.message(),
            Self::IdTooLong => "a task or context id is too long",
            Self::TooManyTasks => "the answer lists too many tasks",
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for AnswerError {}

impl From<WireError> for AnswerError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// Reads one message of the answer to a call of this generation and operation.
pub fn read_answer(
    message: &[u8],
    generation: Generation,
    operation: Operation,
) -> Result<Answer<'static>, AnswerError> {
    let mut answer = Answer {
        has_result: true,
        ..Answer::default()
    };
    match operation {
        Operation::Send | Operation::Stream | Operation::Subscribe => {
            let Some((variant, item)) = payload(message, operation)? else {
                answer.is_strange = true;
                return Ok(answer);
            };
            answer.is_final = generation == Generation::V0_3 && variant == Variant::Status && item.is_final;
            reveal(&mut answer, &item)?;
        }
        Operation::Get | Operation::Cancel => {
            let mut item = Item::default();
            item.read(Variant::Task, message)?;
            answer.is_strange = item.task.is_empty();
            reveal(&mut answer, &item)?;
        }
        Operation::List => walk(message, |number, field| {
            if number != 1 {
                return Ok(());
            }
            let mut item = Item::default();
            item.read(Variant::Task, field.message()?)?;
            reveal(&mut answer, &item)
        })?,
        Operation::PushCreate
        | Operation::PushGet
        | Operation::PushList
        | Operation::PushDelete
        | Operation::ExtendedCard => {}
    }
    Ok(answer)
}

/// The variant of `StreamResponse`, or of `SendMessageResponse`, which has but the first two.
fn payload(message: &[u8], operation: Operation) -> Result<Option<(Variant, Item<'_>)>, AnswerError> {
    let mut payload: Option<(Variant, Item<'_>)> = None;
    walk(message, |number, field| {
        let variant = match number {
            1 => Variant::Task,
            2 => Variant::Message,
            3 if operation != Operation::Send => Variant::Status,
            4 if operation != Operation::Send => Variant::Artifact,
            _ => return Ok(()),
        };
        let mut item = match payload.take() {
            Some((before, item)) if before == variant => item,
            Some(_) | None => Item::default(),
        };
        item.read(variant, field.message()?)?;
        payload = Some((variant, item));
        Ok::<_, AnswerError>(())
    })?;
    Ok(payload)
}

fn reveal(answer: &mut Answer<'_>, item: &Item<'_>) -> Result<(), AnswerError> {
    let revealed = Revealed {
        task: id(item.task)?.map(TaskId::new),
        context: id(item.context)?.map(ContextId::new),
        state: item.state,
    };
    if revealed == Revealed::default() {
        return Ok(());
    }
    if answer.revealed.len() == MAX_REVEALED {
        return Err(AnswerError::TooManyTasks);
    }
    answer.revealed.push(revealed);
    Ok(())
}

/// Empty counts as absent (proto3).
fn id(id: &str) -> Result<Option<&str>, AnswerError> {
    if id.len() > MAX_ID_BYTES {
        return Err(AnswerError::IdTooLong);
    }
    Ok(Some(id).filter(|id| !id.is_empty()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Task,
    Message,
    Status,
    Artifact,
}

#[derive(Default)]
struct Item<'a> {
    task: &'a str,
    context: &'a str,
    /// If there is a status.
    state: Option<TaskState>,
    is_final: bool,
}

impl<'a> Item<'a> {
    /// Reads a piece of it. The numbers are the same in all generations, but for the flag, which only 0.3 has there.
    fn read(&mut self, variant: Variant, message: &'a [u8]) -> Result<(), AnswerError> {
        walk(message, |number, field| {
            match (number, variant) {
                (1, Variant::Task | Variant::Status | Variant::Artifact) | (3, Variant::Message) => {
                    self.task = field.text()?;
                }
                (2, _) => self.context = field.text()?,
                (3, Variant::Task | Variant::Status) => self.status(field.message()?)?,
                (4, Variant::Status) => self.is_final = matches!(field, Field::Varint(1..)),
                _ => {}
            }
            Ok(())
        })
    }

    fn status(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.state.get_or_insert(TaskState::Unknown);
        walk(message, |number, field| {
            if number == 1 {
                self.state = Some(TaskState::from_number(field.enumerated()?));
            }
            Ok(())
        })
    }
}
