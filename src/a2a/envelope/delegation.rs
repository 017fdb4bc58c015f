//! A task that is delegated to an A2A agent: a send of A2A 1.0, and what the agent answered to it.
//!
//! The send is a call like any other from there on: where the agent speaks another dialect, it is translated. What is not
//! carried stands in `a2a/LOSSES.md`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ErrorKind, MAX_ID_BYTES, Member, Message, members, text};
use crate::a2a::json::Limits;
use crate::a2a::jsonrpc::{code, method_name};
use crate::a2a::model::wire::{Json, Text};
use crate::a2a::model::{self, Content, Event, Part, Request, Response, Role};
use crate::a2a::{ContextId, Generation, Operation, TaskState};

/// What became of a delegated task.
#[derive(Clone, Debug, PartialEq)]
pub struct Done<'a> {
    pub status: Status,
    /// As the delegation names it.
    pub task_id: Option<Box<str>>,
    /// `task` or `message`.
    pub name: &'static str,
    /// The same of A2A 1.0, as it is written.
    pub value: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Success,
    /// The task has not ended.
    InProgress,
    /// It ended otherwise than completed.
    Failure,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::InProgress => "in_progress",
            Self::Failure => "failure",
        }
    }
}

/// What an agent answered to a send.
#[derive(Clone, Debug, PartialEq)]
pub enum Sent<'a> {
    Done(Done<'a>),
    /// An error of A2A: its name here, and the agent's own text.
    Failed {
        code: String,
        text: Cow<'a, str>,
    },
}

/// The send that a delegation asks for, as a call of JSON-RPC 1.0, and the id of the task as the delegation names it. The
/// agent's context of an earlier one in the session goes along.
pub fn write_send(
    message: &Message<'_>,
    context: Option<&ContextId>,
    limits: Limits,
) -> Result<(Vec<u8>, Option<Box<str>>), ErrorKind> {
    let (mut task_id, mut description) = (Member::Absent, Member::Absent);
    let is_object = members(message.content, limits, |cursor, name| {
        match name {
            b"task_id" => task_id = text(cursor)?,
            b"description" => description = text(cursor)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let description = description.good().filter(|text| !text.is_empty());
    let (true, Some(description)) = (is_object, description) else {
        return Err(ErrorKind::Content);
    };
    let task_id = match task_id {
        Member::Is(id) if id.len() > MAX_ID_BYTES => return Err(ErrorKind::IdTooLong),
        Member::Is(id) => Some(id),
        Member::Absent => None,
        Member::Wrong => return Err(ErrorKind::Content),
    };
    let raw = |text| serde_json::from_str::<&RawValue>(text).map(|raw| Json(Cow::Borrowed(raw)));
    let content = raw(message.content).map_err(|_| ErrorKind::Content)?;
    let metadata = message.metadata.map(raw).transpose().map_err(|_| ErrorKind::Content)?;
    let part = |content| Part {
        content,
        metadata: None,
        filename: Text::default(),
        media_type: Text::default(),
    };
    let request = Request::Send(model::SendMessageRequest {
        message: model::Message {
            message_id: Text::from(&*message.id),
            context_id: context.map(|context| Text::from(context.as_str())).unwrap_or_default(),
            role: Role::User,
            parts: vec![
                part(Content::Text(Text::from(&*description))),
                part(Content::Data(content)),
            ],
            metadata,
            ..model::Message::default()
        },
        ..model::SendMessageRequest::default()
    });
    let method = method_name(Generation::V1_0, Operation::Send).unwrap_or_default();
    let mut out = Vec::with_capacity(512 + 2 * message.content.len());
    out.extend_from_slice(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":"#).as_bytes());
    request.write(&mut out).map_err(|_| ErrorKind::Content)?;
    out.push(b'}');
    Ok((out, task_id))
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<Failure<'a>>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    code: i64,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Variants<'a> {
    #[serde(borrow, default)]
    task: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

/// The answer to such a send, in JSON-RPC 1.0.
pub fn read_sent(body: &[u8], task_id: Option<Box<str>>) -> Result<Sent<'_>, model::Error> {
    let answer: Answer<'_> = serde_json::from_slice(body)?;
    if let Some(Failure { code, message }) = answer.error {
        let name = code::any_reason(code).unwrap_or("AGENT_ERROR");
        return Ok(Sent::Failed {
            code: name.to_ascii_lowercase(),
            text: message,
        });
    }
    let result = answer.result.ok_or(model::Error::Malformed)?.get();
    let status = match Response::read(Operation::Send, result)? {
        Response::Event(Event::Message(_)) => Status::Success,
        Response::Event(Event::Task(task)) => match task.status.state {
            TaskState::Completed => Status::Success,
            TaskState::Failed | TaskState::Canceled | TaskState::Rejected => Status::Failure,
            TaskState::Submitted
            | TaskState::Working
            | TaskState::InputRequired
            | TaskState::AuthRequired
            | TaskState::Unknown => Status::InProgress,
        },
        Response::Event(Event::StatusUpdate(_) | Event::ArtifactUpdate(_))
        | Response::Task(_)
        | Response::Tasks(_)
        | Response::Push(_)
        | Response::Pushes(_)
        | Response::Nothing
        | Response::Card(_) => return Err(model::Error::Malformed),
    };
    let variants: Variants<'_> = serde_json::from_str(result)?;
    let (name, value) = match (variants.task, variants.message) {
        (Some(task), _) => ("task", task),
        (None, Some(message)) => ("message", message),
        (None, None) => return Err(model::Error::Malformed),
    };
    Ok(Sent::Done(Done {
        status,
        task_id,
        name,
        value: value.get(),
    }))
}
