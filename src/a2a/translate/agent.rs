//! The agent's side of translation: requests written in the dialect that it speaks, its answers read, and the questions that
//! the gateway asks it by itself.
//!
//! Lists of several endpoints are gathered in JSON-RPC of 1.0, whose `result` is what HTTP+JSON answers as a whole, and what
//! the message of gRPC is in JSON: `write_list` and `written_list` turn one endpoint's question and answer.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Error, Pair, Read, RequestBody, Told, Written, error, open};
use crate::a2a::answer::Failed;
use crate::a2a::grpc::{self, PREFIX_BYTES};
use crate::a2a::http_json::{self, Verb};
use crate::a2a::model::wire::Text;
use crate::a2a::model::{self, Request, Response};
use crate::a2a::{Binding, Call, Dialect, Generation, Operation, RpcId, TaskId, json, jsonrpc, v0_1, v0_3};

/// An answer of JSON-RPC.
#[derive(Deserialize)]
struct AnswerBody<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Pair {
    pub(super) fn write_request(&self, call: &Call, request: Request<'_>, size: usize) -> Result<Written, Error> {
        let Dialect { generation, binding } = self.agent;
        match binding {
            Binding::JsonRpc => {}
            Binding::HttpJson => return http_json::write_request(generation, request),
            Binding::Grpc => return called(generation, call.operation, request),
        }
        let method = jsonrpc::method_name(generation, call.operation).ok_or(Error::Unsupported)?;
        let mut out = Vec::with_capacity(size);
        open(&mut out, &call.id);
        out.extend_from_slice(format!(r#","method":"{method}","params":"#).as_bytes());
        let before = out.len();
        match generation {
            Generation::V0_1 => v0_1::write_request(request, self.asked.as_deref(), &mut out)?,
            Generation::V0_3 => v0_3::write_request(request, &mut out)?,
            Generation::V1_0 => request.write(&mut out)?,
        }
        if out.len() == before {
            out.extend_from_slice(b"{}");
        }
        out.push(b'}');
        Ok(posted(out))
    }

    pub(super) fn read_answer<'a>(&'a self, operation: Operation, told: Told<'a>) -> Result<Read<'a>, Error> {
        let Dialect { generation, binding } = self.agent;
        let fault = |fault| error::told(fault, generation, self.caller.generation);
        match (binding, told.failed) {
            (_, Some(Failed::Grpc(status))) => Ok(Err(match self.caller.generation {
                Generation::V0_1 | Generation::V0_3 => fault(grpc::read_fault(status)),
                // By what stands in the details: the status and the text of gRPC do not go on.
                Generation::V1_0 => fault(grpc::read_fault(status)).named(),
            })),
            (Binding::JsonRpc, _) => {
                let AnswerBody { result, error } = serde_json::from_slice(told.body)?;
                if let Some(failed) = error.filter(|error| error.get() != "null") {
                    return Ok(Err(fault(error::read(failed, self.caller.binding)?)));
                }
                Ok(Ok(match generation {
                    Generation::V0_1 => {
                        let session = self.asked.as_ref().map_or("", |asked| &*asked.session);
                        v0_1::read_response(operation, result, session)?
                    }
                    Generation::V0_3 => v0_3::read_response(operation, result)?,
                    Generation::V1_0 => Response::read(operation, result.map_or("null", RawValue::get))?,
                }))
            }
            (Binding::HttpJson, Some(Failed::Http(status))) => Ok(Err(fault(http_json::read_fault(status, told.body)))),
            (Binding::HttpJson, None) => Ok(Ok(http_json::read_response(generation, operation, told.body)?)),
            (Binding::Grpc, None) => Ok(Ok(grpc::read_response(generation, operation, told.body)?)),
            (Binding::Grpc, Some(Failed::Http(_))) => Err(Error::Malformed),
        }
    }

    /// Push configurations of 1.0 come in pages, and callers of 0.3 know none: they are owed all of them at once.
    pub fn owes_pages(&self, operation: Operation) -> bool {
        let generations = (self.caller.generation, self.agent.generation);
        operation == Operation::PushList && generations == (Generation::V0_3, Generation::V1_0)
    }

    /// What asks for the page after this one; `None` if it is the last.
    pub fn next_page(&self, call: &Call, page: &[u8]) -> Result<Option<Written>, Error> {
        let Ok(Response::Pushes(page)) = self.read_answer(call.operation, whole(page))? else {
            return Ok(None);
        };
        if page.next_page_token.is_empty() {
            return Ok(None);
        }
        let task = call.task.as_ref().map_or("", |task| task.as_str());
        let request = model::PushListRequest {
            tenant: self.tenant.as_deref().map(Text::from).unwrap_or_default(),
            task_id: Text::from(task),
            page_size: None,
            page_token: page.next_page_token,
        };
        self.write_request(call, Request::PushList(request), 256).map(Some)
    }

    /// One answer of the agent's dialect, of all these pages.
    pub fn join_pages(&self, call: &Call, pages: &[Bytes]) -> Result<Vec<u8>, Error> {
        let mut joined = model::PushPage::default();
        for page in pages {
            let Ok(Response::Pushes(page)) = self.read_answer(call.operation, whole(page))? else {
                return Err(Error::Malformed);
            };
            joined.configs.extend(page.configs);
        }
        let mut out = Vec::with_capacity(pages.iter().map(Bytes::len).sum());
        match self.agent.binding {
            Binding::HttpJson => Response::Pushes(joined).write(&mut out)?,
            Binding::JsonRpc => {
                open(&mut out, &call.id);
                out.extend_from_slice(br#","result":"#);
                Response::Pushes(joined).write(&mut out)?;
                out.push(b'}');
            }
            Binding::Grpc => {
                out = grpc::write_response(self.agent.generation, call.operation, Response::Pushes(joined))?;
            }
        }
        Ok(out)
    }
}

/// The gateway's own get of a task, without its history. `tenant` is what `read_tenant` gave.
pub fn write_get(speaks: Dialect, id: &RpcId, task: &TaskId, tenant: Option<&str>) -> Result<Written, Error> {
    let request = || {
        Request::Get(model::GetTaskRequest {
            tenant: Text::from(tenant.unwrap_or_default()),
            id: Text::from(task.as_str()),
            history_length: Some(0),
        })
    };
    match speaks.binding {
        Binding::JsonRpc => Ok(posted(jsonrpc::write_get(speaks.generation, id, task, tenant).into())),
        Binding::HttpJson => http_json::write_request(speaks.generation, request()),
        Binding::Grpc => called(speaks.generation, Operation::Get, request()),
    }
}

/// The tenant of a call, as an agent of this dialect is told it: agents scope tasks by it.
pub fn read_tenant(speaks: Dialect, method: &str, path: &str, body: &[u8], limits: json::Limits) -> Option<Box<str>> {
    match speaks.binding {
        // As it is written. The body is a call, so it can be read.
        Binding::JsonRpc => jsonrpc::read_tenant(body, limits).ok().flatten().map(Box::from),
        Binding::HttpJson => http_json::read_target(method, path, &[speaks.generation]).ok()?.tenant,
        Binding::Grpc => {
            let message = body.get(PREFIX_BYTES..).unwrap_or_default();
            grpc::read_tenant(grpc::method(path)?, message).map(Box::from)
        }
    }
}

/// A ListTasks call of JSON-RPC 1.0 as an agent of another binding is asked it.
pub fn write_list(binding: Binding, body: &[u8]) -> Result<Written, Error> {
    let RequestBody { params } = serde_json::from_slice(body)?;
    let request = Request::read(Operation::List, params.map_or("{}", RawValue::get))?;
    match binding {
        Binding::JsonRpc => Ok(posted(body.to_owned())),
        Binding::HttpJson => http_json::write_request(Generation::V1_0, request),
        Binding::Grpc => called(Generation::V1_0, Operation::List, request),
    }
}

/// What an agent of another binding answered to it, as JSON-RPC 1.0 has it. Tasks in JSON stay as they are written.
pub fn written_list(binding: Binding, id: &RpcId, told: Told<'_>) -> Result<Bytes, Error> {
    let mut out = Vec::with_capacity(64 + id.0.len() + told.body.len());
    open(&mut out, id);
    match told.failed {
        None => {
            out.extend_from_slice(br#","result":"#);
            match binding {
                Binding::Grpc => {
                    out.extend_from_slice(&grpc::to_json(Generation::V1_0, Operation::List, told.body)?);
                }
                Binding::JsonRpc | Binding::HttpJson => out.extend_from_slice(told.body),
            }
        }
        Some(failed) => {
            out.extend_from_slice(br#","error":"#);
            let fault = match failed {
                Failed::Http(status) => http_json::read_fault(status, told.body),
                Failed::Grpc(status) => grpc::read_fault(status),
            };
            error::write(&fault, &mut out)?;
        }
    }
    out.push(b'}');
    Ok(out.into())
}

/// A request of gRPC: the method is the path, and the message is framed.
fn called(generation: Generation, operation: Operation, request: Request<'_>) -> Result<Written, Error> {
    let path = grpc::path(generation, operation).ok_or(Error::Unsupported)?;
    let message = grpc::write_request(generation, request)?;
    let framed = grpc::frame(&message).map_err(|_| Error::Malformed)?;
    Ok(Written {
        verb: Verb::Post,
        path: path.to_owned(),
        query: None,
        body: framed.into(),
    })
}

/// A request whose body says everything.
fn posted(body: Vec<u8>) -> Written {
    Written {
        verb: Verb::Post,
        path: String::new(),
        query: None,
        body,
    }
}

/// A page that was found to be no error.
fn whole(body: &[u8]) -> Told<'_> {
    Told { body, failed: None }
}
