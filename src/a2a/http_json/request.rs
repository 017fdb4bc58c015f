//! Requests from and to the canonical model.
//!
//! Read after `call` has refused what is not clear: ids and tenant are those of the path.

use std::borrow::Cow;

use serde::Deserialize;

use super::Verb;
use super::query::{Query, Writer};
use super::target::Target;
use crate::a2a::model::wire::{Json, Text};
use crate::a2a::model::{self, Request};
use crate::a2a::translate::Error;
use crate::a2a::v0_3::rest;
use crate::a2a::{Generation, Operation, TaskState};

/// Longest path and query, together: what the URL of a request can hold beside that of its endpoint, and more than most servers
/// take. Only what JSON-RPC has in a body can be longer.
const MAX_LINE: usize = 32 * 1024;

/// A request for an agent, but for its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub verb: Verb,
    /// Below the URL of the agent's interface, beginning with `/`; empty: that URL itself, as in other bindings.
    pub path: String,
    pub query: Option<String>,
    /// Empty: none.
    pub body: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct CancelBody<'a> {
    #[serde(default)]
    metadata: Option<Json<'a>>,
}

/// Reads a request of which `target` is the path.
pub fn read_request<'a>(target: &'a Target, query: Option<&'a str>, body: &'a [u8]) -> Result<Request<'a>, Error> {
    let mut query = Query::read(query, target.generation, target.operation).map_err(|_| Error::Malformed)?;
    let tenant = Text::from(target.tenant.as_deref().unwrap_or_default());
    let id = || Text::from(target.task.as_deref().unwrap_or_default());
    let name = |tenant| model::PushName {
        tenant,
        task_id: id(),
        id: Text::from(target.config.as_deref().unwrap_or_default()),
    };
    Ok(match target.operation {
        Operation::Send => Request::Send(read_send(target, tenant, body)?),
        Operation::Stream => Request::Stream(read_send(target, tenant, body)?),
        Operation::Get => Request::Get(model::GetTaskRequest {
            tenant,
            id: id(),
            history_length: read_history(target.generation, &mut query)?,
        }),
        Operation::List => Request::List(read_list(tenant, target.generation, &mut query)?),
        Operation::Cancel => Request::Cancel(model::TaskRequest {
            tenant,
            id: id(),
            metadata: match target.generation {
                Generation::V1_0 if !body.is_empty() => serde_json::from_slice::<CancelBody<'a>>(body)?.metadata,
                Generation::V0_1 | Generation::V0_3 | Generation::V1_0 => None,
            },
        }),
        Operation::Subscribe => Request::Subscribe(model::TaskRequest {
            tenant,
            id: id(),
            metadata: None,
        }),
        Operation::PushCreate => Request::PushCreate(match target.generation {
            Generation::V0_1 | Generation::V0_3 => {
                let config = rest::read_config(body)?;
                let id = Some(config.id).filter(|id| !id.is_empty());
                model::PushConfig {
                    id: id.or_else(|| query.take("configId").map(Text)).unwrap_or_default(),
                    task_id: Text::from(target.task.as_deref().unwrap_or_default()),
                    ..config
                }
            }
            Generation::V1_0 => model::PushConfig {
                tenant,
                task_id: id(),
                ..serde_json::from_slice(body)?
            },
        }),
        Operation::PushGet => Request::PushGet(name(tenant)),
        Operation::PushDelete => Request::PushDelete(name(tenant)),
        Operation::PushList => Request::PushList(model::PushListRequest {
            tenant,
            task_id: id(),
            page_size: number(&mut query, "pageSize")?,
            page_token: text(&mut query, "pageToken"),
        }),
        Operation::ExtendedCard => Request::ExtendedCard { tenant },
    })
}

fn read_send<'a>(target: &Target, tenant: Text<'a>, body: &'a [u8]) -> Result<model::SendMessageRequest<'a>, Error> {
    match target.generation {
        Generation::V0_1 | Generation::V0_3 => rest::read_send(body),
        Generation::V1_0 => Ok(model::SendMessageRequest {
            tenant,
            ..serde_json::from_slice(body)?
        }),
    }
}

fn read_list<'a>(
    tenant: Text<'a>,
    generation: Generation,
    query: &mut Query<'a>,
) -> Result<model::ListTasksRequest<'a>, Error> {
    if generation == Generation::V0_3 {
        return Err(Error::Unsupported);
    }
    Ok(model::ListTasksRequest {
        tenant,
        context_id: text(query, "contextId"),
        status: match query.text("status") {
            None => TaskState::Unknown,
            Some(status) => state(status).ok_or(Error::Malformed)?,
        },
        page_size: number(query, "pageSize")?,
        page_token: text(query, "pageToken"),
        history_length: number(query, "historyLength")?,
        status_timestamp_after: text(query, "statusTimestampAfter"),
        include_artifacts: match query.text("includeArtifacts") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(Error::Malformed),
        },
    })
}

/// A state that there is: a filter by another one must not become none.
fn state(name: &str) -> Option<TaskState> {
    if name == "TASK_STATE_UNSPECIFIED" || name == "0" {
        return Some(TaskState::Unknown);
    }
    let state = match name.parse() {
        Ok(number) => TaskState::from_number(number),
        Err(_) if name.starts_with("TASK_STATE_") => TaskState::from_name(name),
        Err(_) => TaskState::Unknown,
    };
    Some(state).filter(|state| *state != TaskState::Unknown)
}

/// In the protobuf of 0.3 zero is as good as unset.
fn read_history(generation: Generation, query: &mut Query<'_>) -> Result<Option<i32>, Error> {
    let length = number(query, "historyLength")?;
    Ok(length.filter(|length| generation == Generation::V1_0 || *length != 0))
}

fn text<'a>(query: &mut Query<'a>, name: &str) -> Text<'a> {
    Text(query.take(name).unwrap_or(Cow::Borrowed("")))
}

fn number(query: &mut Query<'_>, name: &str) -> Result<Option<i32>, Error> {
    let number = query.text(name).map(str::parse).transpose();
    number.map_err(|_| Error::Malformed)
}

/// Writes a request in the form of a generation. Malformed: an id or a tenant that no path can carry, parameters that no query
/// can.
pub fn write_request(generation: Generation, request: Request<'_>) -> Result<Written, Error> {
    let target = target_of(generation, &request);
    let (verb, path) = target.write().ok_or(Error::Malformed)?;
    let mut query = Writer::default();
    let mut body = Vec::new();
    match request {
        Request::Send(request) | Request::Stream(request) => {
            body.reserve(512);
            match generation {
                Generation::V0_1 | Generation::V0_3 => rest::write_send(request, &mut body)?,
                Generation::V1_0 => serde_json::to_writer(&mut body, &request)?,
            }
        }
        Request::Get(request) => {
            // Zero, which would be none, is as good as unset in 0.3.
            let unset = generation == Generation::V0_3 && request.history_length == Some(0);
            query.put_number("historyLength", request.history_length.filter(|_| !unset));
        }
        Request::List(request) => {
            if generation == Generation::V0_3 {
                return Err(Error::Unsupported);
            }
            write_list(&request, &mut query);
        }
        Request::Cancel(request) => match generation {
            Generation::V0_1 | Generation::V0_3 => rest::write_cancel(request.id.as_str(), &mut body)?,
            Generation::V1_0 => serde_json::to_writer(&mut body, &request)?,
        },
        Request::PushCreate(config) => match generation {
            Generation::V0_1 | Generation::V0_3 => rest::write_config(config, &mut body)?,
            Generation::V1_0 => serde_json::to_writer(&mut body, &config)?,
        },
        Request::PushList(request) => {
            query.put_number("pageSize", request.page_size);
            query.put("pageToken", request.page_token.as_str());
        }
        Request::Subscribe(_) | Request::PushGet(_) | Request::PushDelete(_) | Request::ExtendedCard { .. } => {}
    }
    let query = query.finish();
    if path.len() + query.as_ref().map_or(0, String::len) > MAX_LINE {
        return Err(Error::Malformed);
    }
    Ok(Written {
        verb,
        path,
        query,
        body,
    })
}

fn write_list(request: &model::ListTasksRequest<'_>, query: &mut Writer) {
    query.put("contextId", request.context_id.as_str());
    if request.status != TaskState::Unknown {
        query.put("status", request.status.name(Generation::V1_0));
    }
    query.put_number("pageSize", request.page_size);
    query.put("pageToken", request.page_token.as_str());
    query.put_number("historyLength", request.history_length);
    query.put("statusTimestampAfter", request.status_timestamp_after.as_str());
    match request.include_artifacts {
        None => {}
        Some(true) => query.put("includeArtifacts", "true"),
        Some(false) => query.put("includeArtifacts", "false"),
    }
}

fn target_of(generation: Generation, request: &Request<'_>) -> Target {
    let (operation, tenant, task, config) = match request {
        Request::Send(request) => (Operation::Send, &request.tenant, None, None),
        Request::Stream(request) => (Operation::Stream, &request.tenant, None, None),
        Request::Get(request) => (Operation::Get, &request.tenant, Some(&request.id), None),
        Request::List(request) => (Operation::List, &request.tenant, None, None),
        Request::Cancel(request) => (Operation::Cancel, &request.tenant, Some(&request.id), None),
        Request::Subscribe(request) => (Operation::Subscribe, &request.tenant, Some(&request.id), None),
        Request::PushCreate(config) => (Operation::PushCreate, &config.tenant, Some(&config.task_id), None),
        Request::PushGet(name) => (Operation::PushGet, &name.tenant, Some(&name.task_id), Some(&name.id)),
        Request::PushDelete(name) => (Operation::PushDelete, &name.tenant, Some(&name.task_id), Some(&name.id)),
        Request::PushList(request) => (Operation::PushList, &request.tenant, Some(&request.task_id), None),
        Request::ExtendedCard { tenant } => (Operation::ExtendedCard, tenant, None, None),
    };
    let owned = |text: &Text<'_>| Box::from(text.as_str());
    Target {
        generation,
        operation,
        tenant: Some(tenant)
            .filter(|tenant| generation == Generation::V1_0 && !tenant.is_empty())
            .map(owned),
        task: task.map(owned),
        config: config.map(owned),
    }
}
