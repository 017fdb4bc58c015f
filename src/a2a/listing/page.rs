//! One endpoint's page of tasks, and the page that a caller gets.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use super::Stamp;
use crate::a2a::json::{self, Kind, Limits, MAX_DEPTH, Strict, Value, write_text};
use crate::a2a::jsonrpc::MAX_REVEALED;
use crate::a2a::{RpcId, TaskId};

/// Agents' answers are bounded in bytes; tasks may nest as deep as the walk can, and their numbers are nobody's business.
const LIMITS: Limits = Limits {
    depth: MAX_DEPTH,
    digits: usize::MAX,
};

/// What one endpoint answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub tasks: Vec<Listed>,
    /// The endpoint's cursor behind this page; empty at the end.
    pub next: String,
    /// How many tasks the endpoint has in all.
    pub total: Option<u64>,
}

/// A task of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: TaskId,
    /// `status.timestamp`, if there is a readable one.
    pub changed: Option<Stamp>,
    /// Where in the answer it stands.
    pub at: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    Json(json::Error),
    /// No `result`, `tasks` that are no array, a cursor that is no text.
    Shape,
    /// A task that nobody could ask for.
    NoId,
    TooManyTasks,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => error.fmt(f),
            Self::Shape => f.write_str("the answer is no page of tasks"),
            Self::NoId => f.write_str("a listed task has no id"),
            Self::TooManyTasks => f.write_str("the answer lists too many tasks"),
        }
    }
}

impl std::error::Error for PageError {}

impl From<json::Error> for PageError {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}

/// Takes an endpoint's answer apart. What ProtoJSON leaves out at its default counts as that.
pub fn read_page(body: &[u8]) -> Result<Page, PageError> {
    let mut cursor = Strict::new(body, LIMITS)?;
    let mut page = None;
    if cursor.kind() != Kind::Object {
        return Err(PageError::Shape);
    }
    cursor.object(|cursor, name| {
        if name == *"result" && cursor.kind() == Kind::Object {
            page = Some(result(cursor)?);
            return Ok(());
        }
        cursor.skip().map_err(PageError::from)
    })?;
    cursor.finish()?;
    page.ok_or(PageError::Shape)
}

fn result(cursor: &mut Strict<'_>) -> Result<Page, PageError> {
    let mut page = Page::default();
    cursor.object(|cursor, name| {
        match &*name.decode() {
            b"tasks" => match cursor.kind() {
                Kind::Array => cursor.array(|cursor| {
                    if page.tasks.len() == MAX_REVEALED {
                        return Err(PageError::TooManyTasks);
                    }
                    page.tasks.push(task(cursor)?);
                    Ok(())
                })?,
                Kind::Null => cursor.skip()?,
                Kind::Object | Kind::Text | Kind::Number | Kind::Bool | Kind::Nothing => return Err(PageError::Shape),
            },
            b"nextPageToken" | b"next_page_token" => match cursor.value()? {
                Value::Text(text) => page.next = text.decode().into_owned(),
                Value::Null => {}
                Value::Other => return Err(PageError::Shape),
            },
            b"totalSize" | b"total_size" => page.total = cursor.raw()?.trim_matches('"').parse().ok(),
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    Ok(page)
}

fn task(cursor: &mut Strict<'_>) -> Result<Listed, PageError> {
    let start = cursor.at();
    if cursor.kind() != Kind::Object {
        return Err(PageError::Shape);
    }
    let mut id = None;
    let mut changed = None;
    cursor.object(|cursor, name| {
        match &*name.decode() {
            b"id" => {
                if let Value::Text(text) = cursor.value()? {
                    id = Some(TaskId::new(&text.decode()));
                }
            }
            b"status" if cursor.kind() == Kind::Object => cursor.object(|cursor, name| {
                if name != *"timestamp" {
                    return cursor.skip();
                }
                if let Value::Text(text) = cursor.value()? {
                    changed = Stamp::parse(&text.decode());
                }
                Ok::<_, json::Error>(())
            })?,
            _ => cursor.skip()?,
        }
        Ok::<_, json::Error>(())
    })?;
    let id = id.filter(|id| !id.as_str().is_empty()).ok_or(PageError::NoId)?;
    Ok(Listed {
        id,
        changed,
        at: start..cursor.at(),
    })
}

/// The caller's page. `tasks` are the elements of the array, with commas between them.
pub fn write_page(id: &RpcId, tasks: &[u8], next: &str, size: usize, total: u64) -> Bytes {
    let mut out = Vec::with_capacity(128 + id.0.len() + tasks.len() + next.len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(br#","result":{"tasks":["#);
    out.extend_from_slice(tasks);
    out.extend_from_slice(br#"],"nextPageToken":"#);
    write_text(&mut out, next);
    out.extend_from_slice(format!(r#","pageSize":{size},"totalSize":{total}}}}}"#).as_bytes());
    Bytes::from(out)
}
