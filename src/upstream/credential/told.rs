//! What the agent is told of the caller of a call, beside what the gateway shows of itself.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderMap;

use super::Error;
use crate::assertion::Signer;
use crate::authenticate::Principal;
use crate::balance::Endpoint;
use crate::config::UpstreamAssertion;

pub struct Told {
    config: UpstreamAssertion,
    agent: Arc<str>,
    /// Of the configuration in force.
    signer: ArcSwapOption<Signer>,
}

impl Told {
    pub fn new(config: &UpstreamAssertion, agent: &Arc<str>) -> Self {
        Self {
            config: config.clone(),
            agent: agent.clone(),
            signer: ArcSwapOption::empty(),
        }
    }

    pub fn sign_with(&self, signer: Option<&Arc<Signer>>) {
        self.signer.store(signer.cloned());
    }

    /// Adds it to what goes to the endpoint. Of callers that are nobody nothing is told.
    pub fn add(&self, principal: &Principal, endpoint: &Endpoint, headers: &mut HeaderMap) -> Result<(), Error> {
        let signer = self.signer.load_full().ok_or(Error::Unavailable)?;
        let origin;
        let audience = match &self.config.audience {
            Some(audience) => audience,
            None => {
                let uri = &endpoint.uri;
                let authority = uri.authority().map_or("", |authority| authority.as_str());
                origin = format!("{}://{authority}", uri.scheme_str().unwrap_or("https"));
                &origin
            }
        };
        let told = signer.tell(principal, &self.agent, audience, &self.config);
        match told.map_err(|_| Error::Unavailable)? {
            Some(value) => headers.insert(self.config.header.clone(), value),
            None => headers.remove(&self.config.header),
        };
        Ok(())
    }
}
