//! Which agent a request is for, and what of it: its calls or its card.
//!
//! Agents are found by exact paths (their base, with and without a trailing slash, and the well-known card paths under it)
//! or by host: one look-up. What else is below a base is found by one look-up for each of its segments that may be of one.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use ahash::RandomState;

use crate::config::AgentRoute;

/// The place of an agent in the configuration's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgentIndex(pub usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The JSON-RPC URL.
    Rpc,
    /// The public card (RFC 8615; `agent.json` is the path of 0.1 and 0.2).
    Card,
    /// What callers may know of how to get a token (RFC 9728).
    Metadata,
    /// Somewhere else below the base, which is so many bytes of the path: a call of the HTTP+JSON binding, if anything.
    Below { base: usize },
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
    #[error("there is nothing at this path of the agent")]
    NoPlace,
}

pub const CARD_PATHS: [&str; 2] = ["/.well-known/agent-card.json", OLD_CARD_PATH];
/// Where callers up to 0.2 look.
pub const OLD_CARD_PATH: &str = "/.well-known/agent.json";

/// Before the path of an agent, or alone for one with a host of its own (RFC 9728 §3.1).
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

#[derive(Clone, Debug, Default)]
pub struct Routes {
    hosts: HashMap<String, AgentIndex, RandomState>,
    paths: HashMap<String, RouteMatch, RandomState>,
    /// Most slashes of a base.
    depth: usize,
}

impl Routes {
    /// `public_url` is what callers know as the root of the gateway. Metadata stands before its path, which whoever forwards to
    /// the gateway may leave out.
    pub fn build<'a>(routes_of: impl IntoIterator<Item = &'a AgentRoute>, public_url: &str) -> Self {
        let mut routes = Self::default();
        let after_scheme = public_url.split_once("://").map_or(public_url, |(_, rest)| rest);
        let prefix = after_scheme.find('/').and_then(|at| after_scheme.get(at..));
        routes.fill(routes_of, prefix.unwrap_or_default());
        routes
    }

    fn fill<'a>(&mut self, agents: impl IntoIterator<Item = &'a AgentRoute>, prefix: &str) {
        let mut prefixed = Vec::new();
        for (index, route) in agents.into_iter().enumerate() {
            let agent = AgentIndex(index);
            match route {
                AgentRoute::Host(host) => {
                    self.hosts.insert(host.clone(), agent);
                }
                AgentRoute::Envelope => {}
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
                    let metadata = RouteMatch {
                        agent,
                        place: Place::Metadata,
                    };
                    self.paths.insert(format!("{METADATA_PATH}{base}"), metadata);
                    if !prefix.is_empty() {
                        prefixed.push((format!("{METADATA_PATH}{prefix}{base}"), metadata));
                    }
                    self.depth = self.depth.max(base.matches('/').count());
                }
            }
        }
        for (path, metadata) in prefixed {
            self.paths.entry(path).or_insert(metadata);
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
                METADATA_PATH => Ok(RouteMatch {
                    agent,
                    place: Place::Metadata,
                }),
                _ => Ok(RouteMatch {
                    agent,
                    place: Place::Below { base: 0 },
                }),
            };
        }
        if let Some(found) = self.paths.get(path) {
            return Ok(*found);
        }
        let ends = path.match_indices('/').map(|(at, _)| at).take(self.depth + 1);
        let ends: Vec<usize> = ends.collect();
        let base = ends.into_iter().rev().find_map(|end| {
            // The root is there with its slash alone.
            let known = if end == 0 { "/" } else { path.get(..end)? };
            let found = self.paths.get(known).filter(|_| end == 0 || !known.ends_with('/'))?;
            Some(RouteMatch {
                agent: found.agent,
                place: Place::Below { base: end },
            })
        });
        base.ok_or(Error::NoAgent)
    }
}
