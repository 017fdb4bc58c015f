//! The cards of agents as operators see them: where they are from, what differs from the approved one, and approving it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header, request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::records::decoded;
use super::{NOT_JSON, json_answer, unrecorded};
use crate::a2a::card::{Difference, Differences};
use crate::card::{CardState, Differing, Unapproved};
use crate::config::{AuditEvent, OnChange};
use crate::parse;
use crate::pipeline::{Agent, Pipeline};

/// What of the cards is meant.
enum Place<'a> {
    All,
    Diff(&'a str),
    Approve(&'a str),
}

pub(super) fn is_place(path: &str) -> bool {
    place(path).is_some()
}

fn place(path: &str) -> Option<Place<'_>> {
    let rest = path.strip_prefix("/cards")?;
    if rest.is_empty() {
        return Some(Place::All);
    }
    let (agent, what) = rest.strip_prefix('/')?.rsplit_once('/')?;
    match what {
        "diff" => Some(Place::Diff(agent)),
        "approve" => Some(Place::Approve(agent)),
        _ => None,
    }
}

fn find<'a>(agents: &'a [Arc<Agent>], name: &str) -> Option<&'a Agent> {
    let name = decoded(name);
    let agent = agents.iter().find(|agent| *agent.metrics.name == *name)?;
    Some(agent).filter(|agent| !agent.speaks_envelope).map(|agent| &**agent)
}

pub(super) fn show(agents: &[Arc<Agent>], path: &str) -> Response<Full<Bytes>> {
    match place(path) {
        Some(Place::All) => {
            let with_card = agents.iter().filter(|agent| !agent.speaks_envelope);
            let cards: Vec<Value> = with_card.map(|agent| shown(agent)).collect();
            json_answer(StatusCode::OK, &json!({ "cards": cards }))
        }
        Some(Place::Diff(name)) => match find(agents, name) {
            Some(agent) => differing(agent),
            None => unknown(),
        },
        Some(Place::Approve(_)) => error(StatusCode::METHOD_NOT_ALLOWED, "only POST"),
        None => unknown(),
    }
}

/// The body says nothing, and must be of JSON all the same: see the module above.
pub(super) fn change(pipeline: &Pipeline, client: IpAddr, parts: &request::Parts) -> Response<Full<Bytes>> {
    if !parse::is_json(parts) {
        return error(StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_JSON);
    }
    let agent = match place(parts.uri.path()) {
        Some(Place::Approve(name)) => find(&pipeline.agents, name),
        Some(Place::All | Place::Diff(_)) | None => return error(StatusCode::METHOD_NOT_ALLOWED, "only GET"),
    };
    let Some(agent) = agent else {
        return unknown();
    };
    let audit = &pipeline.observer.audit;
    if audit.wants(AuditEvent::CardApproved) && audit.is_blocked() {
        return unrecorded();
    }
    match agent.card.approve(client, &parts.headers) {
        Ok(_) => json_answer(StatusCode::OK, &shown(agent)),
        Err(cause @ Unapproved::Other) => error(StatusCode::PRECONDITION_FAILED, &cause.to_string()),
        Err(cause @ (Unapproved::Nothing | Unapproved::ByFile)) => error(StatusCode::CONFLICT, &cause.to_string()),
    }
}

fn shown(agent: &Agent) -> Value {
    let store = &agent.card;
    let differing = store.approval().differing();
    let (place, etag, error) = match &*store.state() {
        CardState::Ready { card, last_error } => {
            let etag = card.published.etag.to_str().unwrap_or_default().to_owned();
            (Some(card.place.clone()), Some(etag), last_error.clone())
        }
        CardState::NotFetched { last_error } => (None, None, last_error.clone()),
        CardState::OutOfService { reason } => (None, None, Some(Arc::clone(reason))),
    };
    json!({
        "agent": &*agent.metrics.name,
        "ready": agent.is_ready(),
        "place": place,
        "etag": etag,
        "error": error.as_deref(),
        "on_change": match store.approval().on_change() {
            OnChange::Publish => "publish",
            OnChange::Hold => "hold",
            OnChange::Alert => "alert",
        },
        "approved_file": store.approval().file().map(|file| &file.path),
        "approved": differing.is_none(),
        "held": differing.is_some_and(|differing| differing.held),
    })
}

fn differing(agent: &Agent) -> Response<Full<Bytes>> {
    let differing = agent.card.approval().differing();
    let mut response = json_answer(StatusCode::OK, &shown_differing(agent, differing.as_ref()));
    if let Some(differing) = differing {
        response.headers_mut().insert(header::ETAG, differing.etag.clone());
    }
    response
}

fn shown_differing(agent: &Agent, differing: Option<&Arc<Differing>>) -> Value {
    let none = Differences::default();
    let differences = differing.map_or(&none, |differing| &differing.differences);
    let list: Vec<Value> = differences.listed.iter().map(difference).collect();
    let of = |read: fn(&Differing) -> Value| differing.map(|differing| read(differing));
    json!({
        "agent": &*agent.metrics.name,
        "place": of(|differing| differing.place.clone().into()),
        "held": of(|differing| differing.held.into()).unwrap_or(false.into()),
        "etag": of(|differing| differing.etag.to_str().unwrap_or_default().into()),
        "differences": list,
        "left_out": differences.left_out,
    })
}

fn difference(difference: &Difference) -> Value {
    json!({
        "member": difference.member,
        "approved": difference.before,
        "agent": difference.after,
        "matters": difference.matters,
    })
}

fn unknown() -> Response<Full<Bytes>> {
    error(StatusCode::NOT_FOUND, "no such agent with a card")
}

fn error(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    json_answer(status, &json!({ "error": text }))
}
