//! The canonical model: A2A 1.0 §4 as types, which read and write its JSON form.
//!
//! Whatever is translated passes through these types: a dialect that is not 1.0 has types of its own that turn into these
//! and back. Bodies that need no translation never get here. Text and free-form JSON are borrowed from the body.
//! Members that A2A 1.0 does not define are not kept (see `LOSSES.md`).

pub mod fault;
mod message;
mod part;
mod push;
mod requests;
mod task;
pub mod wire;

pub use self::fault::Fault;
pub use self::message::{Message, Role};
pub use self::part::{Content, Part};
pub use self::push::{Authentication, PushConfig, PushListRequest, PushName, PushPage};
use self::requests::TenantOnly;
pub use self::requests::{Configuration, GetTaskRequest, ListTasksRequest, SendMessageRequest, TaskRequest};
pub use self::task::{Artifact, ArtifactUpdate, Event, StatusUpdate, Task, TaskPage, TaskStatus};
use self::wire::{Json, Text};
use super::Operation;

/// Why something cannot be turned into the model, or from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not what the protocol says it should be.
    Malformed,
    /// The other generation has no such operation.
    Unsupported,
    /// A webhook would get notifications in the other generation's form.
    Push,
    /// A webhook that nobody may be sent to. Says why.
    Webhook(&'static str),
}

impl From<serde_json::Error> for Error {
    fn from(_: serde_json::Error) -> Self {
        Self::Malformed
    }
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    Send(SendMessageRequest<'a>),
    Stream(SendMessageRequest<'a>),
    Get(GetTaskRequest<'a>),
    /// Only in 1.0.
    List(ListTasksRequest<'a>),
    Cancel(TaskRequest<'a>),
    Subscribe(TaskRequest<'a>),
    PushCreate(PushConfig<'a>),
    PushGet(PushName<'a>),
    PushList(PushListRequest<'a>),
    PushDelete(PushName<'a>),
    ExtendedCard {
        tenant: Text<'a>,
    },
}

impl<'a> Request<'a> {
    /// Reads `params`.
    pub fn read(operation: Operation, params: &'a str) -> serde_json::Result<Self> {
        Ok(match operation {
            Operation::Send => Self::Send(serde_json::from_str(params)?),
            Operation::Stream => Self::Stream(serde_json::from_str(params)?),
            Operation::Get => Self::Get(serde_json::from_str(params)?),
            Operation::Cancel => Self::Cancel(serde_json::from_str(params)?),
            Operation::Subscribe => Self::Subscribe(TaskRequest {
                metadata: None,
                ..serde_json::from_str(params)?
            }),
            Operation::PushCreate => Self::PushCreate(serde_json::from_str(params)?),
            Operation::PushGet => Self::PushGet(serde_json::from_str(params)?),
            Operation::PushList => Self::PushList(serde_json::from_str(params)?),
            Operation::PushDelete => Self::PushDelete(serde_json::from_str(params)?),
            Operation::ExtendedCard => {
                let TenantOnly { tenant } = serde_json::from_str(params)?;
                Self::ExtendedCard { tenant }
            }
            Operation::List => Self::List(serde_json::from_str(params)?),
        })
    }

    /// Writes `params`.
    pub fn write(self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Send(request) | Self::Stream(request) => serde_json::to_writer(out, &request),
            Self::Get(request) => serde_json::to_writer(out, &request),
            Self::List(request) => serde_json::to_writer(out, &request),
            Self::Cancel(request) | Self::Subscribe(request) => serde_json::to_writer(out, &request),
            Self::PushCreate(config) => serde_json::to_writer(out, &config),
            Self::PushGet(name) | Self::PushDelete(name) => serde_json::to_writer(out, &name),
            Self::PushList(request) => serde_json::to_writer(out, &request),
            Self::ExtendedCard { tenant } => serde_json::to_writer(out, &TenantOnly { tenant }),
        }
    }

    /// What an agent that serves several tenants routes by (A2A 1.0 §4.4.6).
    pub fn tenant_mut(&mut self) -> &mut Text<'a> {
        match self {
            Self::Send(request) | Self::Stream(request) => &mut request.tenant,
            Self::Get(request) => &mut request.tenant,
            Self::List(request) => &mut request.tenant,
            Self::Cancel(request) | Self::Subscribe(request) => &mut request.tenant,
            Self::PushCreate(request) => &mut request.tenant,
            Self::PushGet(request) | Self::PushDelete(request) => &mut request.tenant,
            Self::PushList(request) => &mut request.tenant,
            Self::ExtendedCard { tenant } => tenant,
        }
    }
}

/// The result of a call that did not fail, or one event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    Event(Event<'a>),
    Task(Task<'a>),
    Tasks(TaskPage<'a>),
    Push(PushConfig<'a>),
    Pushes(PushPage<'a>),
    Nothing,
    /// Cards have their own way (`a2a::card`).
    Card(Json<'a>),
}

impl<'a> Response<'a> {
    /// Reads `result`.
    pub fn read(operation: Operation, result: &'a str) -> serde_json::Result<Self> {
        Ok(match operation {
            Operation::Send | Operation::Stream | Operation::Subscribe => Self::Event(serde_json::from_str(result)?),
            Operation::Get | Operation::Cancel => Self::Task(serde_json::from_str(result)?),
            Operation::PushCreate | Operation::PushGet => Self::Push(serde_json::from_str(result)?),
            Operation::PushList => Self::Pushes(serde_json::from_str(result)?),
            Operation::PushDelete => Self::Nothing,
            Operation::ExtendedCard => Self::Card(serde_json::from_str(result)?),
            Operation::List => Self::Tasks(serde_json::from_str(result)?),
        })
    }

    /// Writes `result`.
    pub fn write(self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Event(event) => serde_json::to_writer(out, &event),
            Self::Task(task) => serde_json::to_writer(out, &task),
            Self::Tasks(page) => serde_json::to_writer(out, &page),
            Self::Push(config) => serde_json::to_writer(out, &config),
            Self::Pushes(page) => serde_json::to_writer(out, &page),
            Self::Nothing => serde_json::to_writer(out, &()),
            Self::Card(card) => serde_json::to_writer(out, &card),
        }
    }
}
