//! Endpoints that the DNS names: SRV records (RFC 2782).
//!
//! Keeps the last good answer for each name, so that one that fails or names nobody changes nothing. Only records of the
//! lowest priority count, because the balancer has one group of endpoints; weights are not looked at. The hosts of the records
//! are looked up like those of any endpoint, when connections are made.

mod ask;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use hickory_proto::rr::rdata::SRV;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{Config, Endpoint, Problem, Srv, with_causes};
use crate::observe::Metrics;

pub use ask::Error;

/// Most endpoints of one name; of more, the first by their URLs.
pub const MOST_ENDPOINTS: usize = 64;
/// Most questions under way at once: each has a socket of its own.
pub const MOST_QUESTIONS: usize = 64;
/// For all name servers together: a start and a reload wait for it.
const PATIENCE: Duration = Duration::from_secs(5);
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// What was found last.
pub struct Names {
    known: Mutex<BTreeMap<Srv, Vec<Endpoint>>>,
    metrics: Metrics,
}

impl Names {
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            known: Mutex::default(),
            metrics: metrics.clone(),
        }
    }

    /// Gives every agent the endpoints that were found for it. Names that nothing is known of are asked for, for five seconds at
    /// most; those without an answer are the problems.
    pub async fn settle(&self, config: &mut Config) -> Vec<Problem> {
        let unknown: BTreeSet<Srv> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = config.agents.iter().filter_map(|agent| agent.upstream.srv.as_ref());
            wanted.filter(|srv| !known.contains_key(srv)).cloned().collect()
        };
        let until = Instant::now() + PATIENCE;
        let asking: Vec<_> = unknown.iter().map(|srv| timeout_at(until, find(srv))).collect();
        let found = stream::iter(asking).buffered(MOST_QUESTIONS).collect::<Vec<_>>().await;
        let found = found.into_iter().map(|found| found.unwrap_or(Err(Error::Silent)));
        let found: BTreeMap<&Srv, _> = unknown.iter().zip(found).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (srv, endpoints) in &found {
            if let Ok(endpoints) = endpoints {
                known.insert((*srv).clone(), endpoints.clone());
            }
        }
        let mut problems = Vec::new();
        for (index, agent) in config.agents.iter_mut().enumerate() {
            let Some(srv) = &agent.upstream.srv else { continue };
            if let Some(endpoints) = known.get(srv) {
                agent.upstream.endpoints.clone_from(endpoints);
                continue;
            }
            self.metrics.srv_failures.with_label_values(&[&*agent.name]).inc();
            let cause = match found.get(srv) {
                Some(Err(error)) => with_causes(error),
                Some(Ok(_)) | None => Error::Silent.to_string(),
            };
            let cause = format!("`{}` gives no endpoints: {cause}", srv.name);
            problems.push(Problem::new(format!("agents[{index}].upstream.srv"), cause));
        }
        problems
    }

    /// Asks again. Without a good answer what is known stays.
    pub async fn renew(&self, agent: &str, srv: &Srv) {
        match find(srv).await {
            Ok(endpoints) => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(srv.clone(), endpoints);
            }
            Err(error) => {
                self.metrics.srv_failures.with_label_values(&[agent]).inc();
                tracing::warn!(
                    agent,
                    name = srv.name,
                    error = with_causes(&error),
                    "no endpoints from the DNS; those known before stay"
                );
            }
        }
    }

    /// Whether other endpoints than those of the configuration are known.
    pub fn differ(&self, config: &Config) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        config.agents.iter().map(|agent| &agent.upstream).any(|upstream| {
            let found = upstream.srv.as_ref().and_then(|srv| known.get(srv));
            found.is_some_and(|found| *found != upstream.endpoints)
        })
    }

    /// Forgets what is not of this configuration.
    pub fn keep(&self, config: &Config) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|srv, _| {
            let mut agents = config.agents.iter();
            agents.any(|agent| agent.upstream.srv.as_ref() == Some(srv))
        });
    }
}

pub fn is_needed(config: &Config) -> bool {
    config.agents.iter().any(|agent| agent.upstream.srv.is_some())
}

/// Endpoints that nobody is asked for, so that the rest of the configuration can be judged: the name itself is the host.
pub fn stand_in(config: &mut Config) {
    for upstream in config.agents.iter_mut().map(|agent| &mut agent.upstream) {
        if let Some(srv) = &upstream.srv {
            let implied = if srv.secure { 443 } else { 80 };
            upstream.endpoints = srv.endpoint(&srv.name, implied).into_iter().collect();
        }
    }
}

async fn find(srv: &Srv) -> Result<Vec<Endpoint>, Error> {
    let asking = async {
        let servers = match srv.dns_server {
            Some(server) => vec![server],
            None => ask::system(Path::new(RESOLV_CONF)).await?,
        };
        ask::ask(&servers, &srv.name).await
    };
    let records = timeout(PATIENCE, asking).await.map_err(|_| Error::Silent)??;
    endpoints(srv, &records)
}

/// In the order of their URLs.
fn endpoints(srv: &Srv, records: &[SRV]) -> Result<Vec<Endpoint>, Error> {
    let usable = records.iter().filter_map(|record| {
        let target = record.target.to_ascii();
        let host = target.strip_suffix('.').unwrap_or(&target);
        // The root says that there is no such service.
        let endpoint = srv.endpoint(host, record.port).filter(|_| record.port > 0)?;
        Some((record.priority, endpoint))
    });
    let usable: Vec<(u16, Endpoint)> = usable.collect();
    let first = usable.iter().map(|(priority, _)| *priority).min().ok_or(Error::Empty)?;
    let of_first = usable.into_iter().filter(|(priority, _)| *priority == first);
    let mut endpoints: Vec<Endpoint> = of_first.map(|(_, endpoint)| endpoint).collect();
    endpoints.sort_by(|one, other| one.url.cmp(&other.url));
    endpoints.dedup();
    if endpoints.len() > MOST_ENDPOINTS {
        let found = endpoints.len();
        tracing::warn!(
            name = srv.name,
            found,
            used = MOST_ENDPOINTS,
            "more endpoints than are used"
        );
        endpoints.truncate(MOST_ENDPOINTS);
    }
    Ok(endpoints)
}
