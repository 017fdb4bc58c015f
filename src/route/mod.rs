//! Which agent a request is for, and what of it: its calls or its card.
//!
//! Agents are found by exact paths (their base, with and without a trailing slash, and the well-known card paths under it)
//! or by host. There is no other path under an agent, so a look-up is one hash.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use ahash::RandomState;

use crate::config::{Agent, AgentRoute};

/// The place of an agent in the configuration's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgentIndex(pub usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The JSON-RPC URL.
    Rpc,
    /// The public card (RFC 8615; `agent.json` is the path of 0.2).
    Card,
}

/// Which route, and where on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteMatch {
    pub agent: AgentIndex,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("no agent has this path or host")]
    NoAgent,
    #[error("the path does not belong to the agent")]
    NoPlace,
}

pub const CARD_PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

#[derive(Clone, Debug, Default)]
pub struct Routes {
    hosts: HashMap<String, AgentIndex, RandomState>,
    paths: HashMap<String, RouteMatch, RandomState>,
    bases: Vec<String>,
}

impl Routes {
    pub fn build(agents: &[Agent]) -> Self {
        let mut routes = Self::default();
        routes.fill(agents.iter().map(|agent| &agent.route));
        routes
    }

    fn fill<'a>(&mut self, agents: impl IntoIterator<Item = &'a AgentRoute>) {
        for (index, route) in agents.into_iter().enumerate() {
            let agent = AgentIndex(index);
            match route {
                AgentRoute::Host(host) => {
                    self.hosts.insert(host.clone(), agent);
                }
                AgentRoute::Path(base) => {
                    let rpc = RouteMatch {
                        agent,
                        place: Place::Rpc,
                    };
                    if !base.is_empty() {
                        self.paths.insert(base.clone(), rpc);
                    }
                    self.paths.insert(format!("{base}/"), rpc);
                    for path in CARD_PATHS {
                        let card = RouteMatch {
                            agent,
                            place: Place::Card,
                        };
                        self.paths.insert(format!("{base}{path}"), card);
                    }
                    self.bases.push(base.clone());
                }
            }
        }
    }

    /// `host` is asked only when some agent is routed by host.
    pub fn select(&self, path: &str, host: impl FnOnce() -> Option<String>) -> Result<RouteMatch, Error> {
        if !self.hosts.is_empty()
            && let Some(agent) = host().and_then(|host| self.hosts.get(&host).copied())
        {
            return match path {
                "/" | "" => Ok(RouteMatch {
                    agent,
                    place: Place::Rpc,
                }),
                path if CARD_PATHS.contains(&path) => Ok(RouteMatch {
                    agent,
                    place: Place::Card,
                }),
                _ => Err(Error::NoPlace),
            };
        }
        if let Some(found) = self.paths.get(path) {
            return Ok(*found);
        }
        let below = |base: &String| {
            !base.is_empty()
                && path
                    .strip_prefix(base.as_str())
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        Err(if self.bases.iter().any(below) {
            Error::NoPlace
        } else {
            Error::NoAgent
        })
    }
}
