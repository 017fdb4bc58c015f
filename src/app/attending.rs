//! What works for one endpoint of an agent, as long as it is one.

use std::sync::Arc;

use crate::balance::Endpoint;
use crate::card;
use crate::config;
use crate::drain::Drain;
use crate::pipeline::Agent;
use crate::upstream::Probe;

/// The services that work for one endpoint.
pub(super) fn attend(config: &config::Agent, agent: &Agent, endpoint: &Arc<Endpoint>, scope: &Drain) {
    agent.upstream.start(endpoint, scope);
    if let Some(probe) = probe(config, agent, endpoint) {
        scope.service(probe.run());
    }
}

/// What asks an endpoint by itself, where anything is to be asked.
fn probe(config: &config::Agent, agent: &Agent, endpoint: &Arc<Endpoint>) -> Option<Probe> {
    let health = &config.upstream.balancing.health;
    if health.is_none() && !agent.endpoints.is_passive() {
        return None;
    }
    let path = health.as_ref().and_then(|health| health.path.as_deref());
    let urls = match path {
        Some(path) => vec![at_root(&endpoint.url, path)],
        None => {
            let own = config::Endpoint {
                url: endpoint.url.to_string(),
                drain: false,
            };
            let places = card::places(&[own], None).into_iter();
            places.flat_map(|place| place.urls).collect()
        }
    };
    Some(Probe {
        upstream: agent.upstream.clone(),
        endpoint: endpoint.clone(),
        urls,
        health: health.clone(),
        options: agent.card_options.clone(),
    })
}

/// A path of the server that an endpoint is at.
fn at_root(url: &str, path: &str) -> String {
    let after_scheme = url.find("://").map_or(0, |at| at + "://".len());
    let rest = url.get(after_scheme..).unwrap_or_default();
    let end = after_scheme + rest.find(['/', '?', '#']).unwrap_or(rest.len());
    format!("{}{path}", url.get(..end).unwrap_or_default())
}
