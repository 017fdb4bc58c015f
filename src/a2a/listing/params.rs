//! The parameters of a ListTasks call, and the same call to one endpoint.
//!
//! Only `pageSize` and `pageToken` are understood here; everything else is the question, which goes on as it came, members
//! that no version has included, and is compared as it is written.

use std::fmt;

use bytes::Bytes;

use crate::a2a::json::{self, Kind, Limits, Strict, Value, write_text};
use crate::a2a::jsonrpc::is_look_alike;

/// Most tasks of one page, and how many a page has if nobody says (A2A 1.0 §3.1.4).
pub const MOST_TASKS: usize = 100;
const USUAL_TASKS: usize = 50;

/// Names that an agent could read whatever their case: two of them would be two readings.
const NAMES: &[&str] = &[
    "contextId",
    "context_id",
    "status",
    "pageSize",
    "page_size",
    "pageToken",
    "page_token",
    "historyLength",
    "history_length",
    "statusTimestampAfter",
    "status_timestamp_after",
    "includeArtifacts",
    "include_artifacts",
    "tenant",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingError {
    /// Cannot happen to a body that is a call.
    Json(json::Error),
    PageSize,
    PageToken,
    /// Two spellings of one parameter, or a name that differs from a known one only in case.
    Names,
}

impl ListingError {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json(error) => error.kind.as_str(),
            Self::PageSize => "page_size",
            Self::PageToken => "page_token",
            Self::Names => "conflicting_spellings",
        }
    }

    /// The text for the caller; quotes nothing of the body.
    pub fn message(self) -> &'static str {
        match self {
            Self::Json(error) => error.kind.message(),
            Self::PageSize => "pageSize must be a whole number from 1 to 100",
            Self::PageToken => "pageToken must be a string",
            Self::Names => "a parameter stands there in two spellings",
        }
    }
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ListingError {}

impl From<json::Error> for ListingError {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}

/// A ListTasks call, taken apart.
#[derive(Debug)]
pub struct Listing<'a> {
    /// Most tasks of the caller's page.
    pub size: usize,
    /// The token of an earlier page.
    pub token: Option<String>,
    /// What stands before the value of `params`, and behind it.
    before: &'a [u8],
    after: &'a [u8],
    has_params: bool,
    /// The parameters that are the question: names as they read and as they are written, values as they are written.
    question: Vec<Parameter<'a>>,
}

#[derive(Debug)]
struct Parameter<'a> {
    name: Vec<u8>,
    written: &'a [u8],
    value: &'a str,
}

/// Reads a body that is a ListTasks call.
pub fn read_listing(body: &[u8], limits: Limits) -> Result<Listing<'_>, ListingError> {
    let mut cursor = Strict::new(body, limits)?;
    let opening = cursor.at() + 1;
    let mut listing = Listing {
        size: USUAL_TASKS,
        token: None,
        before: body.get(..opening).unwrap_or_default(),
        after: body.get(opening..).unwrap_or_default(),
        has_params: false,
        question: Vec::new(),
    };
    let mut seen = Seen::default();
    cursor.object(|cursor, name| {
        if name != *"params" {
            return Ok(cursor.skip()?);
        }
        let start = cursor.at();
        if cursor.kind() == Kind::Object {
            cursor.object(|cursor, name| {
                let read = name.decode();
                match &*read {
                    b"pageSize" | b"page_size" => {
                        seen.first(|seen| &mut seen.size)?;
                        listing.size = size(cursor)?;
                    }
                    b"pageToken" | b"page_token" => {
                        seen.first(|seen| &mut seen.token)?;
                        listing.token = token(cursor)?;
                    }
                    other => {
                        if is_look_alike(other, NAMES) && !NAMES.iter().any(|known| known.as_bytes() == other) {
                            return Err(ListingError::Names);
                        }
                        listing.question.push(Parameter {
                            name: other.to_owned(),
                            written: name.raw(),
                            value: cursor.raw()?,
                        });
                    }
                }
                Ok(())
            })?;
        } else {
            cursor.skip()?;
        }
        listing.before = body.get(..start).unwrap_or_default();
        listing.after = body.get(cursor.at()..).unwrap_or_default();
        listing.has_params = true;
        Ok::<_, ListingError>(())
    })?;
    Ok(listing)
}

/// The parameters that may stand there once, in either spelling.
#[derive(Default)]
struct Seen {
    size: bool,
    token: bool,
}

impl Seen {
    fn first(&mut self, which: impl FnOnce(&mut Self) -> &mut bool) -> Result<(), ListingError> {
        let seen = which(self);
        if std::mem::replace(seen, true) {
            return Err(ListingError::Names);
        }
        Ok(())
    }
}

/// A number, also as ProtoJSON may write it: `"5"`.
fn size(cursor: &mut Strict<'_>) -> Result<usize, ListingError> {
    let parsed = match cursor.kind() {
        Kind::Null => {
            cursor.skip()?;
            return Ok(USUAL_TASKS);
        }
        Kind::Text => cursor.text()?.decode().parse(),
        Kind::Object | Kind::Array | Kind::Number | Kind::Bool | Kind::Nothing => cursor.raw()?.parse(),
    };
    parsed
        .ok()
        .filter(|size| (1..=MOST_TASKS).contains(size))
        .ok_or(ListingError::PageSize)
}

fn token(cursor: &mut Strict<'_>) -> Result<Option<String>, ListingError> {
    match cursor.value()? {
        // ProtoJSON: the default value is as good as none.
        Value::Text(text) => Ok(Some(text.decode().into_owned()).filter(|text| !text.is_empty())),
        Value::Null => Ok(None),
        Value::Other => Err(ListingError::PageToken),
    }
}

impl Listing<'_> {
    /// What is asked, whatever the order of the members: the same for every page of one walk.
    pub fn question(&self) -> Vec<u8> {
        let mut members: Vec<_> = self.question.iter().filter(|member| member.value != "null").collect();
        members.sort_by(|one, other| one.name.cmp(&other.name));
        let mut out = Vec::new();
        for member in members {
            for part in [member.name.as_slice(), member.value.as_bytes()] {
                out.extend_from_slice(&(part.len() as u64).to_be_bytes());
                out.extend_from_slice(part);
            }
        }
        out
    }

    /// The call to one endpoint: the caller's, with this size and the endpoint's own cursor, if it has given one.
    pub fn request(&self, size: usize, cursor: &str) -> Bytes {
        let mut out = Vec::with_capacity(self.before.len() + self.after.len() + cursor.len() + 128);
        out.extend_from_slice(self.before);
        if !self.has_params {
            out.extend_from_slice(br#""params":"#);
        }
        out.push(b'{');
        for member in &self.question {
            out.push(b'"');
            out.extend_from_slice(member.written);
            out.extend_from_slice(b"\":");
            out.extend_from_slice(member.value.as_bytes());
            out.push(b',');
        }
        out.extend_from_slice(format!(r#""pageSize":{size}"#).as_bytes());
        if !cursor.is_empty() {
            out.extend_from_slice(br#","pageToken":"#);
            write_text(&mut out, cursor);
        }
        out.push(b'}');
        if !self.has_params {
            out.push(b',');
        }
        out.extend_from_slice(self.after);
        Bytes::from(out)
    }
}
