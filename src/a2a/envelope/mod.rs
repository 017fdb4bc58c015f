//! The envelope protocol of early, unreleased A2A texts: JSON messages that say in themselves who sends them, who is meant, in which
//! session, and what they are. No transport, no task objects, no cards.
//!
//! A message is walked as strictly as a call: what it is routed and authorised by must read the same to everybody. The whole
//! of it is walked before anything is decided, so that the answer can name it. `content` is read only as far as the
//! gateway acts on it: of messages that it passes on nothing, because after `set_encryption` nobody in between can.

mod delegation;
#[cfg(test)]
mod tests;
mod write;

use std::borrow::Cow;
use std::fmt;

pub use delegation::{Done, Sent, Status, read_sent, write_send};
pub use write::{Reply, versions, write_delegated, write_error, write_response};

use super::json::{self, Kind as JsonKind, Limits, Name, Strict, Value};
use super::jsonrpc::is_look_alike;

/// Longest id of a message, a session, an agent or a task, in bytes: what is remembered of a caller is bounded by it.
pub const MAX_ID_BYTES: usize = 256;
/// Most versions that are read of an offer.
const MAX_VERSIONS: usize = 64;

/// What the gateway itself speaks of the protocol, for agents that do not speak it.
pub const VERSION: &str = "1.0.0";

/// The names that a message is read by.
const NAMES: &[&str] = &[
    "message_id",
    "session_id",
    "sender",
    "recipient",
    "message_type",
    "content",
    "metadata",
];
const PARTY_NAMES: &[&str] = &["agent_id", "agent_type"];
const CONTENT_NAMES: &[&str] = &[
    "action",
    "session_parameters",
    "supported_versions",
    "auth_method",
    "credentials",
    "task_id",
    "description",
];

/// Who sends a message, or whom it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    pub agent_id: Box<str>,
    pub agent_type: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub id: Box<str>,
    pub session: Option<Box<str>>,
    pub sender: Party,
    pub recipient: Party,
    pub kind: Kind<'a>,
    /// As it is written; `null` where there is none.
    pub content: &'a str,
    /// An object, as it is written.
    pub metadata: Option<&'a str>,
}

/// What a message is, as far as the gateway acts on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    Request,
    Response,
    Notification,
    Error,
    Control(Control),
    Authentication(Credential<'a>),
    /// Of an A2A agent; what it says is read by `write_send`.
    Delegation,
    /// `x-…`.
    Extension,
}

impl Control {
    /// Whether the gateway speaks one of the versions that are offered: the patch does not matter.
    pub fn offers_known(offered: &[Box<str>]) -> bool {
        let known = VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor);
        offered.iter().any(|version| {
            version
                .strip_prefix(known)
                .is_some_and(|patch| patch.is_empty() || patch.starts_with('.'))
        })
    }
}

impl Kind<'_> {
    /// The label in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Notification => "notification",
            Self::Error => "error",
            Self::Control(_) => "session_control",
            Self::Authentication(_) => "authentication",
            Self::Delegation => "task_delegation",
            Self::Extension => "x",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// `timeout` in seconds, if the message asks for one.
    Create {
        timeout: Option<u64>,
    },
    Terminate,
    SetEncryption,
    NegotiateVersion {
        offered: Vec<Box<str>>,
    },
    /// Another action, or one that cannot be read.
    Other,
}

/// What an `authentication` message shows.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential<'a> {
    /// A bearer token.
    Token(Cow<'a, str>),
    ApiKey(Cow<'a, str>),
    Basic {
        username: Cow<'a, str>,
        password: Cow<'a, str>,
    },
}

/// Secrets stay out of logs.
impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::ApiKey(_) => "ApiKey",
            Self::Basic { .. } => "Basic",
        })
    }
}

/// What an answer repeats of the message that it answers, as far as that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub message: Option<Box<str>>,
    pub session: Option<Box<str>>,
    pub sender: Option<Party>,
    pub recipient: Option<Party>,
}

impl Message<'_> {
    pub fn about(&self) -> About {
        About {
            message: Some(self.id.clone()),
            session: self.session.clone(),
            sender: Some(self.sender.clone()),
            recipient: Some(self.recipient.clone()),
        }
    }
}

/// Why a body is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError {
    pub kind: ErrorKind,
    pub about: About,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    Json(json::ErrorKind),
    NotObject,
    /// It has a member `jsonrpc`: a call, or something that others could read as one.
    Rpc,
    /// A name that differs from a known one only in case.
    LookAlike,
    /// A member that messages are routed by is absent, or of the wrong kind.
    Member,
    IdTooLong,
    UnknownType,
    /// The content is not what a message of its type needs.
    Content,
}

impl ErrorKind {
    pub fn is_of_json(self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json(kind) => kind.as_str(),
            Self::NotObject => "not_object",
            Self::Rpc => "jsonrpc",
            Self::LookAlike => "look_alike_member",
            Self::Member => "missing_member",
            Self::IdTooLong => "id_too_long",
            Self::UnknownType => "unknown_type",
            Self::Content => "content",
        }
    }

    /// The text for the caller; quotes nothing of the body.
    pub fn message(self) -> &'static str {
        match self {
            Self::Json(kind) => kind.message(),
            Self::NotObject => "a message is a JSON object",
            Self::Rpc => "a message has no member `jsonrpc`; calls of A2A go to the agent's own URL",
            Self::LookAlike => "the name of a member differs from a known one only in case",
            Self::Member => {
                "message_id, sender.agent_id, recipient.agent_id and message_type must be texts that are not empty, session_id a text and metadata an object if they are there"
            }
            Self::IdTooLong => "an id is too long",
            Self::UnknownType => "there is no such message_type",
            Self::Content => "the content is not what a message of this type needs",
        }
    }
}

impl From<json::Error> for ErrorKind {
    fn from(error: json::Error) -> Self {
        Self::Json(error.kind)
    }
}

/// A member: absent, what it should be, or something else.
#[derive(Clone, Debug, Default)]
enum Member<T> {
    #[default]
    Absent,
    Is(T),
    Wrong,
}

impl<T> Member<T> {
    fn good(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Wrong => None,
        }
    }
}

#[derive(Default)]
struct Members<'a> {
    id: Member<Box<str>>,
    session: Member<Box<str>>,
    sender: Member<Party>,
    recipient: Member<Party>,
    message_type: Member<Box<str>>,
    content: Option<&'a str>,
    metadata: Member<&'a str>,
    rpc: bool,
    look_alike: bool,
}

/// How an agent answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// An `error`.
    Error,
    /// A `response` whose `status` is `failure`.
    Failure,
    /// As the message asked, as far as anybody can tell.
    Done,
}

/// Reads a body as a message.
pub fn read(body: &[u8], limits: Limits) -> Result<Message<'_>, MessageError> {
    let unread = |kind| MessageError {
        kind,
        about: About::default(),
    };
    let members = walk(body, limits).map_err(unread)?;
    let about = members.about();
    members.judge(limits).map_err(|kind| MessageError { kind, about })
}

/// What an agent answered to a message, if that is a message at all: an answer to another one is none. After `set_encryption`
/// nobody can tell which one it answers, or how.
pub fn read_answer(body: &[u8], to: &Message<'_>, limits: Limits) -> Option<Told> {
    let answer = read(body, limits).ok()?;
    let (mut other, mut failed) = (false, false);
    if let Kind::Response | Kind::Error = answer.kind {
        let read = members(answer.content, limits, |cursor, name| {
            match name {
                b"in_response_to" => other = !matches!(text(cursor)?, Member::Is(id) if id == to.id),
                b"status" => failed = matches!(text(cursor)?, Member::Is(status) if &*status == "failure"),
                _ => return Ok(false),
            }
            Ok(true)
        });
        if other || read.is_err() {
            return None;
        }
    }
    Some(if matches!(answer.kind, Kind::Error) {
        Told::Error
    } else if failed {
        Told::Failure
    } else {
        Told::Done
    })
}

fn walk(body: &[u8], limits: Limits) -> Result<Members<'_>, ErrorKind> {
    let mut cursor = Strict::new(body, limits)?;
    let mut members = Members::default();
    if cursor.kind() != JsonKind::Object {
        cursor.skip()?;
        cursor.finish()?;
        return Err(ErrorKind::NotObject);
    }
    cursor.object::<json::Error>(|cursor, name| {
        match &*name.decode() {
            b"message_id" => members.id = text(cursor)?,
            b"session_id" => members.session = text(cursor)?,
            b"sender" => members.sender = party(cursor, &mut members.look_alike)?,
            b"recipient" => members.recipient = party(cursor, &mut members.look_alike)?,
            b"message_type" => members.message_type = text(cursor)?,
            b"content" => members.content = Some(cursor.raw()?),
            b"metadata" => {
                members.metadata = match (cursor.kind(), cursor.raw()?) {
                    (JsonKind::Object, raw) => Member::Is(raw),
                    (JsonKind::Null, _) => Member::Absent,
                    _ => Member::Wrong,
                };
            }
            b"jsonrpc" => {
                members.rpc = true;
                cursor.skip()?;
            }
            other => {
                members.look_alike |= is_look_alike(other, NAMES);
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    cursor.finish()?;
    Ok(members)
}

fn text(cursor: &mut Strict<'_>) -> Result<Member<Box<str>>, json::Error> {
    Ok(match cursor.value()? {
        Value::Null => Member::Absent,
        Value::Text(text) => Member::Is(text.decode().into()),
        Value::Other => Member::Wrong,
    })
}

fn party(cursor: &mut Strict<'_>, look_alike: &mut bool) -> Result<Member<Party>, json::Error> {
    if cursor.kind() != JsonKind::Object {
        cursor.skip()?;
        return Ok(Member::Wrong);
    }
    let (mut agent_id, mut agent_type) = (Member::Absent, Member::Absent);
    cursor.object::<json::Error>(|cursor, name| {
        match &*name.decode() {
            b"agent_id" => agent_id = text(cursor)?,
            b"agent_type" => agent_type = text(cursor)?,
            other => {
                *look_alike |= is_look_alike(other, PARTY_NAMES);
                cursor.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(match agent_id {
        Member::Is(agent_id) => Member::Is(Party {
            agent_id,
            agent_type: agent_type.good(),
        }),
        Member::Absent | Member::Wrong => Member::Wrong,
    })
}

impl<'a> Members<'a> {
    /// Nothing longer than what a message may say is repeated.
    fn about(&self) -> About {
        fn short(text: &Member<Box<str>>) -> Option<Box<str>> {
            text.clone().good().filter(|text| text.len() <= MAX_ID_BYTES)
        }
        fn known(party: &Member<Party>) -> Option<Party> {
            party.clone().good().filter(|party| !party.is_too_long())
        }
        About {
            message: short(&self.id),
            session: short(&self.session),
            sender: known(&self.sender),
            recipient: known(&self.recipient),
        }
    }

    fn judge(self, limits: Limits) -> Result<Message<'a>, ErrorKind> {
        if self.rpc {
            return Err(ErrorKind::Rpc);
        }
        if self.look_alike {
            return Err(ErrorKind::LookAlike);
        }
        let wrong = matches!(self.session, Member::Wrong) || matches!(self.metadata, Member::Wrong);
        let (Some(id), Some(sender), Some(recipient), Some(message_type)) = (
            self.id.good().filter(|id| !id.is_empty()),
            self.sender.good(),
            self.recipient.good(),
            self.message_type.good(),
        ) else {
            return Err(ErrorKind::Member);
        };
        let session = self.session.good();
        let empty = session.as_deref() == Some("") || sender.agent_id.is_empty() || recipient.agent_id.is_empty();
        if wrong || empty {
            return Err(ErrorKind::Member);
        }
        let too_long = [Some(&id), session.as_ref(), Some(&message_type)]
            .into_iter()
            .flatten()
            .any(|text| text.len() > MAX_ID_BYTES);
        if too_long || sender.is_too_long() || recipient.is_too_long() {
            return Err(ErrorKind::IdTooLong);
        }
        let content = self.content.unwrap_or("null");
        let kind = match &*message_type {
            "request" => Kind::Request,
            "response" => Kind::Response,
            "notification" => Kind::Notification,
            "error" => Kind::Error,
            "session_control" => Kind::Control(control(content, limits)?),
            "authentication" => Kind::Authentication(credential(content, limits)?),
            "task_delegation" => Kind::Delegation,
            other if other.len() > 2 && other.starts_with("x-") => Kind::Extension,
            _ => return Err(ErrorKind::UnknownType),
        };
        Ok(Message {
            id,
            session,
            sender,
            recipient,
            kind,
            content,
            metadata: self.metadata.good(),
        })
    }
}

impl Party {
    fn is_too_long(&self) -> bool {
        let longest = self.agent_type.as_ref().map_or(0, |text| text.len());
        self.agent_id.len().max(longest) > MAX_ID_BYTES
    }
}

/// The members of a content that has any; an encrypted one may be text.
fn members<'a>(
    content: &'a str,
    limits: Limits,
    mut member: impl FnMut(&mut Strict<'a>, &[u8]) -> Result<bool, json::Error>,
) -> Result<bool, ErrorKind> {
    let mut cursor = Strict::new(content.as_bytes(), limits)?;
    if cursor.kind() != JsonKind::Object {
        return Ok(false);
    }
    let mut look_alike = false;
    cursor.object::<json::Error>(|cursor, name: Name<'_>| {
        let name = name.decode();
        if !member(cursor, &name)? {
            let is_known = CONTENT_NAMES.iter().any(|known| known.as_bytes() == &*name);
            look_alike |= !is_known && is_look_alike(&name, CONTENT_NAMES);
            cursor.skip()?;
        }
        Ok(())
    })?;
    if look_alike {
        return Err(ErrorKind::LookAlike);
    }
    Ok(true)
}

fn control(content: &str, limits: Limits) -> Result<Control, ErrorKind> {
    let mut action = Member::Absent;
    let mut timeout = None;
    let mut offered = Vec::new();
    members(content, limits, |cursor, name| {
        match name {
            b"action" => action = text(cursor)?,
            b"session_parameters" if cursor.kind() == JsonKind::Object => {
                cursor.object::<json::Error>(|cursor, name| {
                    let raw = cursor.raw()?;
                    if name == *"timeout" {
                        timeout = raw.parse().ok();
                    }
                    Ok(())
                })?;
            }
            b"supported_versions" if cursor.kind() == JsonKind::Array => {
                cursor.array::<json::Error>(|cursor| {
                    if let Member::Is(version) = text(cursor)?
                        && offered.len() < MAX_VERSIONS
                    {
                        offered.push(version);
                    }
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(match action.good().as_deref() {
        Some("create") => Control::Create { timeout },
        Some("terminate") => Control::Terminate,
        Some("set_encryption") => Control::SetEncryption,
        Some("negotiate_version") => Control::NegotiateVersion { offered },
        Some(_) | None => Control::Other,
    })
}

fn credential(content: &str, limits: Limits) -> Result<Credential<'_>, ErrorKind> {
    let mut method = Member::Absent;
    let [mut token, mut key, mut username, mut password] = [const { None }; 4];
    members(content, limits, |cursor, name| {
        match name {
            b"auth_method" => method = text(cursor)?,
            b"credentials" if cursor.kind() == JsonKind::Object => {
                cursor.object::<json::Error>(|cursor, name| {
                    let Value::Text(text) = cursor.value()? else {
                        return Ok(());
                    };
                    match &*name.decode() {
                        b"token" => token = Some(text.decode()),
                        b"api_key" => key = Some(text.decode()),
                        b"username" => username = Some(text.decode()),
                        b"password" => password = Some(text.decode()),
                        _ => {}
                    }
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let shown = match method.good().as_deref() {
        Some("token") => token.map(Credential::Token),
        Some("api_key") => key.map(Credential::ApiKey),
        Some("basic") => username
            .zip(password)
            .map(|(username, password)| Credential::Basic { username, password }),
        Some(_) | None => None,
    };
    shown.ok_or(ErrorKind::Content)
}
