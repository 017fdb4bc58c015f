//! The endpoints of an agent, how busy they are, and the choice among them.
//!
//! A call with an owner goes to the owner or nowhere. Health, ejection and draining of endpoints belong here too once
//! endpoints are watched; until then every configured endpoint is eligible.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::{self, Balance};
use crate::http::hygiene;

/// One address of an upstream.
#[derive(Debug)]
pub struct Endpoint {
    /// The normalised URL: the endpoint's identity in task records, across restarts.
    pub url: Arc<str>,
    pub uri: http::Uri,
    /// The `Host` of requests to it.
    pub host: http::HeaderValue,
    /// The place in the configured list.
    pub index: usize,
    in_flight: AtomicUsize,
}

impl Endpoint {
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub struct Endpoints {
    list: Vec<Arc<Endpoint>>,
    balance: Balance,
    next: AtomicUsize,
}

/// The endpoint for one call; counted as in flight until dropped.
#[derive(Debug)]
pub struct Selected(Arc<Endpoint>);

impl Selected {
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the endpoint that owns the task is not configured any more")]
    OwnerGone,
    #[error("every endpoint was tried")]
    NoneLeft,
}

impl Endpoints {
    /// # Errors
    /// The URL that is none; the configuration's check refuses it before.
    pub fn build(endpoints: &[config::Endpoint], balance: Balance) -> Result<Self, http::uri::InvalidUri> {
        let list = endpoints
            .iter()
            .enumerate()
            .map(|(index, endpoint)| {
                let uri: http::Uri = endpoint.url.parse()?;
                let host = uri.authority().map_or("", |authority| authority.as_str());
                Ok(Arc::new(Endpoint {
                    url: Arc::from(endpoint.url.as_str()),
                    host: hygiene::value(host),
                    uri,
                    index,
                    in_flight: AtomicUsize::new(0),
                }))
            })
            .collect::<Result<Vec<_>, http::uri::InvalidUri>>()?;
        // A restarted gateway should not send every first call to the first endpoint.
        let next = AtomicUsize::new(fastrand::usize(..list.len().max(1)));
        Ok(Self { list, balance, next })
    }

    pub fn all(&self) -> &[Arc<Endpoint>] {
        &self.list
    }

    /// The endpoint that owns the task or context of a call.
    pub fn owner(&self, url: &str) -> Result<Selected, Error> {
        self.list
            .iter()
            .find(|endpoint| &*endpoint.url == url)
            .map(select)
            .ok_or(Error::OwnerGone)
    }

    /// An endpoint for new work, none of `tried`.
    pub fn choose(&self, tried: &[usize]) -> Result<Selected, Error> {
        if let ([only], []) = (self.list.as_slice(), tried) {
            return Ok(select(only));
        }
        let left: Vec<&Arc<Endpoint>> = self
            .list
            .iter()
            .filter(|endpoint| !tried.contains(&endpoint.index))
            .collect();
        let pick = |at: usize| left.get(at % left.len().max(1)).copied();
        let chosen = match self.balance {
            Balance::RoundRobin => pick(self.next.fetch_add(1, Ordering::Relaxed)),
            // Two random choices: as even as looking at all, without herding onto the idlest.
            Balance::LeastRequest => {
                let first = fastrand::usize(..left.len().max(1));
                let second = first + 1 + fastrand::usize(..left.len().saturating_sub(1).max(1));
                match (pick(first), pick(second)) {
                    (Some(one), Some(other)) if other.in_flight() < one.in_flight() => Some(other),
                    (one, _) => one,
                }
            }
        };
        chosen.map(select).ok_or(Error::NoneLeft)
    }
}

fn select(endpoint: &Arc<Endpoint>) -> Selected {
    endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
    Selected(endpoint.clone())
}
