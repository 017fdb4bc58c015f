//! An agent's endpoints as operators see them, and draining one while the gateway runs.
//!
//! A drain lasts until it is taken back or the process ends; `drain` in the configuration outlives it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::records::decoded;
use super::{NOT_JSON, json_answer, unrecorded};
use crate::audit::Event;
use crate::balance::Endpoint;
use crate::config::{AuditEvent, shown_url};
use crate::parse;
use crate::pipeline::{Agent, Pipeline};

pub(super) fn is_place(path: &str) -> bool {
    place(path).is_some()
}

/// The agent, and what is wanted of its endpoints.
fn place(path: &str) -> Option<(&str, &str)> {
    let (agent, what) = path.strip_prefix("/agents/")?.split_once("/endpoints")?;
    matches!(what, "" | "/drain" | "/undrain").then_some((agent, what))
}

fn find<'a>(agents: &'a [Arc<Agent>], path: &'a str) -> Option<(&'a Agent, &'a str)> {
    let (name, what) = place(path)?;
    let name = decoded(name);
    let agent = agents.iter().find(|agent| *agent.metrics.name == *name)?;
    Some((agent, what))
}

pub(super) fn show(agents: &[Arc<Agent>], path: &str) -> Response<Full<Bytes>> {
    match find(agents, path) {
        Some((agent, "")) => list(agent),
        Some(_) => error(StatusCode::METHOD_NOT_ALLOWED, "only POST"),
        None => error(StatusCode::NOT_FOUND, "no such agent"),
    }
}

/// The body says nothing, and must be of JSON all the same: see the module above.
pub(super) fn change(pipeline: &Pipeline, client: IpAddr, parts: &request::Parts) -> Response<Full<Bytes>> {
    if !parse::is_json(parts) {
        return error(StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_JSON);
    }
    let (agent, draining) = match find(&pipeline.agents, parts.uri.path()) {
        Some((agent, "/drain")) => (agent, true),
        Some((agent, "/undrain")) => (agent, false),
        Some(_) => return error(StatusCode::METHOD_NOT_ALLOWED, "only GET"),
        None => return error(StatusCode::NOT_FOUND, "no such agent"),
    };
    let query = parts.uri.query().unwrap_or_default();
    let given = query.split('&').find_map(|pair| pair.strip_prefix("url="));
    let Some(url) = given.map(decoded) else {
        return error(
            StatusCode::BAD_REQUEST,
            "needs `?url=` with the endpoint's URL as it is listed",
        );
    };
    let Some(endpoint) = agent.endpoints.all().iter().find(|endpoint| *endpoint.url == *url) else {
        return error(StatusCode::NOT_FOUND, "the agent has no endpoint with this URL");
    };
    if endpoint.leaves().is_some() {
        return error(
            StatusCode::CONFLICT,
            "the configuration has this endpoint no more: it drains until its time is over",
        );
    }
    let audit = &pipeline.observer.audit;
    let event = match draining {
        true => AuditEvent::EndpointDrained,
        false => AuditEvent::EndpointUndrained,
    };
    if audit.wants(event) && audit.is_blocked() {
        return unrecorded();
    }
    endpoint.drain(draining);
    audit.record(&Event {
        client: Some(client),
        listener: Some("admin"),
        agent: Some(&agent.metrics.name),
        endpoint: Some(&shown_url(&url)),
        ..Event::new(event, "ok")
    });
    tracing::info!(
        agent = &*agent.metrics.name,
        endpoint = &*shown_url(&url),
        draining,
        "an operator has set whether the endpoint takes new work"
    );
    list(agent)
}

fn list(agent: &Agent) -> Response<Full<Bytes>> {
    let list: Vec<Value> = agent.endpoints.all().iter().map(|endpoint| shown(endpoint)).collect();
    json_answer(
        StatusCode::OK,
        &json!({ "agent": &*agent.metrics.name, "endpoints": list }),
    )
}

fn shown(endpoint: &Endpoint) -> Value {
    let state = endpoint.state();
    json!({
        "url": &*endpoint.url,
        "open": state.takes_new_work(),
        "healthy": state.healthy,
        "reachable": state.reachable,
        "ejected_for_seconds": state.ejected.map(|left| left.as_secs_f64()),
        "draining": state.draining,
        "removed_for_seconds": state.leaves.map(|left| left.as_secs_f64()),
        "in_flight": endpoint.in_flight(),
        "queued": endpoint.waiting(),
    })
}

/// Counts endpoints by state, for a scrape.
pub fn measure(agents: &[Arc<Agent>]) {
    for agent in agents {
        let mut counts = [0_i64; 5];
        for endpoint in agent.endpoints.all() {
            let state = endpoint.state();
            let at = if state.leaves.is_some() {
                4
            } else if state.draining {
                1
            } else if !state.healthy {
                2
            } else if state.ejected.is_some() || !state.reachable {
                3
            } else {
                0
            };
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        for (gauge, count) in agent.metrics.endpoints.iter().zip(counts) {
            gauge.set(count);
        }
    }
}

fn error(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    json_answer(status, &json!({ "error": text }))
}
