//! Records of tasks and contexts: where they live, whose they are, and the operator's word that they are somebody else's.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{json_answer, unrecorded};
use crate::a2a::{ContextId, TaskId, TaskState};
use crate::affinity::{Affinity, Inquiry, Knowledge, Owner};
use crate::audit::Event;
use crate::config::AuditEvent;
use crate::pipeline::Pipeline;

/// What a path names.
pub(super) struct Place {
    agent: String,
    id: Id,
}

enum Id {
    Task(TaskId),
    Context(ContextId),
}

impl Place {
    /// `/tasks/{agent}/{id}` or `/contexts/{agent}/{id}`; the id is percent-encoded.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (kind, rest) = path.strip_prefix('/')?.split_once('/')?;
        let (agent, id) = rest.split_once('/')?;
        let id = decoded(id);
        Some(Self {
            agent: agent.to_owned(),
            id: match kind {
                "tasks" => Id::Task(TaskId::new(&id)),
                "contexts" => Id::Context(ContextId::new(&id)),
                _ => return None,
            },
        })
    }

    fn name(&self) -> (&'static str, &str) {
        match &self.id {
            Id::Task(id) => ("task", id.as_str()),
            Id::Context(id) => ("context", id.as_str()),
        }
    }

    fn transferred(&self) -> AuditEvent {
        match &self.id {
            Id::Task(_) => AuditEvent::TaskTransferred,
            Id::Context(_) => AuditEvent::ContextTransferred,
        }
    }

    /// As the store has it: what is given away here must not be older than what another gateway gave away. `Err`: no record
    /// here, and other gateways cannot be asked.
    async fn find(&self, affinity: &Arc<Affinity>) -> Result<Option<Owner>, ()> {
        let (task, context) = match &self.id {
            Id::Task(id) => (Some(id), None),
            Id::Context(id) => (None, Some(id)),
        };
        let knowledge = match affinity.inquire_anew(&self.agent, task, context) {
            Inquiry::Settled => Knowledge::Whole,
            Inquiry::Away => Knowledge::Partial,
            Inquiry::Asking(asking) => asking.await,
        };
        let owner = match &self.id {
            Id::Task(id) => affinity.task(&self.agent, id),
            Id::Context(id) => affinity.context(&self.agent, id),
        };
        if owner.is_none() && knowledge == Knowledge::Partial {
            return Err(());
        }
        Ok(owner)
    }

    fn described(&self, owner: &Owner) -> Value {
        let (kind, id) = self.name();
        json!({
            "agent": self.agent,
            kind: id,
            "endpoint": &*owner.endpoint,
            "owner": &*owner.principal,
            "generation": owner.generation.as_str(),
            "finished": owner.state.is_some_and(TaskState::is_terminal),
        })
    }
}

pub(super) async fn show(affinity: &Arc<Affinity>, place: &Place) -> Response<Full<Bytes>> {
    match place.find(affinity).await {
        Ok(Some(owner)) => json_answer(StatusCode::OK, &place.described(&owner)),
        Ok(None) => unknown(),
        Err(()) => away(),
    }
}

/// `{"owner": "…"}`, as it stands in records: the id of a principal, or `tenant=acme` where a claim owns.
pub(super) async fn transfer(
    pipeline: &Pipeline,
    client: IpAddr,
    place: &Place,
    body: &Value,
) -> Response<Full<Bytes>> {
    let (affinity, audit) = (&pipeline.affinity, &pipeline.observer.audit);
    let owner = body
        .get("owner")
        .and_then(Value::as_str)
        .filter(|owner| !owner.is_empty());
    let Some(owner) = owner else {
        return json_answer(
            StatusCode::BAD_REQUEST,
            &json!({ "error": "the body must be {\"owner\": \"…\"}" }),
        );
    };
    let event = place.transferred();
    if audit.wants(event) && audit.is_blocked() {
        return unrecorded();
    }
    let new: Arc<str> = Arc::from(owner);
    // Other gateways first: what only this one believed would be undone by them.
    if place.find(affinity).await.is_err() {
        return away();
    }
    let told = match &place.id {
        Id::Task(id) => affinity.tell_task_owner(&place.agent, id, &new).await,
        Id::Context(id) => affinity.tell_context_owner(&place.agent, id, &new).await,
    };
    if told.is_err() {
        return away();
    }
    let before = match &place.id {
        Id::Task(id) => affinity.transfer_task(&place.agent, id, &new),
        Id::Context(id) => affinity.transfer_context(&place.agent, id, &new),
    };
    let Some(before) = before else {
        return unknown();
    };
    let (kind, id) = place.name();
    let (task, context) = match &place.id {
        Id::Task(id) => (Some(id.as_str()), None),
        Id::Context(id) => (None, Some(id.as_str())),
    };
    audit.record(&Event {
        client: Some(client),
        listener: Some("admin"),
        agent: Some(&place.agent),
        task,
        context,
        owner: Some(owner),
        owner_before: Some(&before.principal),
        ..Event::new(event, "ok")
    });
    tracing::info!(
        agent = place.agent,
        kind,
        id,
        from = &*before.principal,
        to = owner,
        "an operator gave a record to another owner"
    );
    let after = Owner {
        principal: new,
        ..before
    };
    json_answer(StatusCode::OK, &place.described(&after))
}

fn away() -> Response<Full<Bytes>> {
    json_answer(
        StatusCode::SERVICE_UNAVAILABLE,
        &json!({ "error": "the store that gateways share cannot be asked; try again when it is back" }),
    )
}

fn unknown() -> Response<Full<Bytes>> {
    json_answer(
        StatusCode::NOT_FOUND,
        &json!({ "error": "there is no such record, or the name is too long for one" }),
    )
}

/// Percent-decoding; what is no valid escape stays as it is.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
