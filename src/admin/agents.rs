//! Every agent as operators see it: whether it can be called, who sees it in the catalogue, and what its published card says.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::json_answer;
use crate::card::CardState;
use crate::config::Config;
use crate::pipeline::{Agent, Pipeline};

pub(super) const PATH: &str = "/agents";

pub(super) fn list(pipeline: &Pipeline, config: &Config) -> Response<Full<Bytes>> {
    let agents: Vec<Value> = pipeline.agents.iter().map(|agent| shown(agent, config)).collect();
    json_answer(StatusCode::OK, &json!({ "agents": agents }))
}

fn shown(agent: &Agent, config: &Config) -> Value {
    let name = &*agent.metrics.name;
    let state = agent.card.state();
    let (told, cause) = match &*state {
        _ if agent.is_ready() => ("ready", None),
        CardState::OutOfService { reason } => ("out of service", Some(reason)),
        CardState::NotFetched { last_error } | CardState::Ready { last_error, .. } => {
            ("not ready", last_error.as_ref())
        }
    };
    let mut shown = json!({ "agent": name, "state": told });
    let section = config.agents.iter().find(|section| section.name == name);
    let listed = section
        .filter(|_| config.catalogue.is_some())
        .map(|section| section.listed.as_str());
    let entry = agent.card.current().map(|card| card.entry.json(|_| true));
    let more = [
        ("cause", cause.map(|cause| json!(**cause))),
        ("listed", listed.map(|listed| json!(listed))),
        ("entry", entry),
    ];
    if let Some(shown) = shown.as_object_mut() {
        shown.extend(
            more.into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?))),
        );
    }
    shown
}
