//! What the agent is shown instead of the caller's credential: a fixed value, a token of the gateway's own, or one for the
//! caller's.
//!
//! Whatever is sent to an agent is dressed here, with each try. A token that is to be had is waited for before a request
//! goes out, within the time of its server; without one nothing is sent. The caller's own token goes to the token server
//! alone.

mod exchange;
mod fixed;
mod grant;
mod server;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::Instant;

use super::{Answer, Failure, Outgoing, Upstream};
use crate::assertion::Signer;
use crate::authorize::Permit;
use crate::balance::Endpoint;
use crate::config::{Problem, UpstreamCredential};
use crate::drain::Drain;
use crate::observe::AgentMetrics;

use self::exchange::Exchange;
pub use self::exchange::Subject;
use self::fixed::Fixed;
use self::grant::Grant;
pub(super) use self::told::Told;

/// Why there is nothing to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no token at the moment")]
    Unavailable,
    #[error("the caller showed no bearer token that could be exchanged")]
    NoSubject,
    #[error("the token server gives no token for the caller's")]
    Refused,
}

/// In whose name a request goes to the agent.
#[derive(Clone, Debug)]
pub enum InName {
    /// The gateway's own.
    Gateway,
    /// A caller's, with the bearer token that it showed, where one is wanted.
    Caller(Option<Arc<Subject>>),
}

pub(super) enum Credential {
    Fixed(Fixed),
    Grant(Arc<Grant>),
    Exchange(Arc<Exchange>),
}

/// What is configured by now, where it is something else.
pub(super) enum Renewed {
    Value(HeaderValue),
    Server(server::Renewed),
}

/// The number of the token that a request shows, if it was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown(u64);

/// A field, and the number of the token in it.
type Field = (HeaderName, HeaderValue, Option<Shown>);

impl Credential {
    /// `key` is where it stands in the configuration; `before` was built from one that is shown alike. Blocking: reads files.
    pub fn build(
        configured: &UpstreamCredential,
        key: &str,
        before: Option<&Self>,
        drain: &Drain,
        metrics: &Arc<AgentMetrics>,
    ) -> Result<Self, Vec<Problem>> {
        Ok(match configured {
            UpstreamCredential::Header { .. } | UpstreamCredential::Bearer(_) | UpstreamCredential::Basic { .. } => {
                Self::Fixed(Fixed::build(configured, key).map_err(|problem| vec![problem])?)
            }
            UpstreamCredential::ClientCredentials(server) => {
                let before = before.and_then(|before| match before {
                    Self::Grant(grant) => Some(&**grant),
                    Self::Fixed(_) | Self::Exchange(_) => None,
                });
                let key = format!("{key}.client_credentials");
                Self::Grant(Arc::new(Grant::build(server, &key, before, metrics)?))
            }
            UpstreamCredential::TokenExchange(exchange) => {
                let before = before.and_then(|before| match before {
                    Self::Exchange(exchange) => Some(&**exchange),
                    Self::Fixed(_) | Self::Grant(_) => None,
                });
                let key = format!("{key}.token_exchange");
                Self::Exchange(Arc::new(Exchange::build(exchange, &key, before, drain, metrics)?))
            }
        })
    }

    /// Of a configuration that is shown alike. Blocking: reads files.
    pub fn renewed(&self, configured: &UpstreamCredential, key: &str) -> Result<Option<Renewed>, Vec<Problem>> {
        let (server, name) = match self {
            Self::Fixed(fixed) => {
                let renewed = fixed.renewed(configured, key).map_err(|problem| vec![problem])?;
                return Ok(renewed.map(Renewed::Value));
            }
            Self::Grant(grant) => (grant.server(), "client_credentials"),
            Self::Exchange(exchange) => (exchange.server(), "token_exchange"),
        };
        let Some(configured) = configured.server() else {
            return Ok(None);
        };
        let renewed = server.renewed(configured, &format!("{key}.{name}"))?;
        Ok((!renewed.is_empty()).then_some(Renewed::Server(renewed)))
    }

    pub fn take(&self, renewed: Renewed) {
        match (self, renewed) {
            (Self::Fixed(fixed), Renewed::Value(value)) => fixed.take(value),
            (Self::Grant(grant), Renewed::Server(renewed)) => grant.take(renewed),
            (Self::Exchange(exchange), Renewed::Server(renewed)) => exchange.server().take(renewed),
            (Self::Fixed(_), Renewed::Server(_)) | (Self::Grant(_) | Self::Exchange(_), Renewed::Value(_)) => {}
        }
    }

    fn is_got(&self) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Grant(_) | Self::Exchange(_) => true,
        }
    }

    /// What is there; `None`: it has to be waited for.
    fn at_hand(&self, in_name: &InName) -> Option<Result<Option<Field>, Error>> {
        Some(match (self, in_name) {
            (Self::Fixed(fixed), _) => Ok(Some((fixed.name().clone(), fixed.value(), None))),
            (Self::Grant(grant), _) => {
                let token = grant.current()?;
                Ok(Some(authorization((token.value.clone(), token.number))))
            }
            (Self::Exchange(_), InName::Gateway) => Ok(None),
            (Self::Exchange(_), InName::Caller(None)) => Err(Error::NoSubject),
            (Self::Exchange(exchange), InName::Caller(Some(subject))) => {
                exchange.at_hand(subject)?.map(|token| Some(authorization(token)))
            }
        })
    }

    /// The same, waiting for what is to be had.
    async fn field(&self, in_name: &InName) -> Result<Option<Field>, Error> {
        if let Some(known) = self.at_hand(in_name) {
            return known;
        }
        match (self, in_name) {
            (Self::Grant(grant), _) => {
                let token = grant.token().await?;
                Ok(Some(authorization((token.value.clone(), token.number))))
            }
            (Self::Exchange(exchange), InName::Caller(Some(subject))) => {
                let token = exchange.token(subject).await?;
                Ok(Some(authorization(token)))
            }
            // At hand always.
            (Self::Fixed(_) | Self::Exchange(_), InName::Gateway | InName::Caller(_)) => Ok(None),
        }
    }

    /// The agent did not take this token.
    fn refused(&self, in_name: &InName, Shown(number): Shown) {
        match (self, in_name) {
            (Self::Grant(grant), _) => grant.refused(number),
            (Self::Exchange(exchange), InName::Caller(Some(subject))) => exchange.refused(subject, number),
            (Self::Fixed(_) | Self::Exchange(_), InName::Gateway | InName::Caller(_)) => {}
        }
    }

    /// The same; whether there is another one after a while.
    async fn follows(&self, in_name: &InName, Shown(number): Shown) -> bool {
        match (self, in_name) {
            (Self::Grant(grant), _) => grant.after(number).await.is_some(),
            (Self::Exchange(exchange), InName::Caller(Some(subject))) => exchange.after(subject, number).await,
            (Self::Fixed(_) | Self::Exchange(_), InName::Gateway | InName::Caller(_)) => false,
        }
    }
}

fn authorization((value, number): (HeaderValue, u64)) -> Field {
    (header::AUTHORIZATION, value, Some(Shown(number)))
}

impl Upstream {
    /// Agents are told of callers by these keys from now on.
    pub fn sign_with(&self, signer: Option<&Arc<Signer>>) {
        if let Some(told) = &self.told {
            told.sign_with(signer);
        }
    }

    /// Whether calls go with a token for the caller's own.
    pub fn wants_subject(&self) -> bool {
        matches!(self.credential, Some(Credential::Exchange(_)))
    }

    /// Waits for what a request is to show, so that what fails fails before anything else is begun; `None`: it is there.
    pub fn obtain<'a>(&'a self, in_name: &'a InName) -> Option<BoxFuture<'a, Result<(), Error>>> {
        let credential = self.credential.as_ref()?;
        if let Some(Ok(_)) = credential.at_hand(in_name) {
            return None;
        }
        Some(Box::pin(async move { credential.field(in_name).await.map(|_| ()) }))
    }

    /// Adds what a request of the gateway's own shows. Callers' credentials have no part in it.
    pub async fn dress_own(&self, headers: &mut HeaderMap) -> Result<Option<Shown>, Error> {
        match &self.credential {
            None => Ok(None),
            Some(credential) => Ok(put(headers, credential.field(&InName::Gateway).await?)),
        }
    }

    /// Adds what a call shows, and what is told of its caller.
    pub async fn dress(
        &self,
        permit: &Permit,
        endpoint: &Endpoint,
        outgoing: &mut Outgoing,
    ) -> Result<Option<Shown>, Error> {
        if let Some(told) = &self.told {
            told.add(permit.principal(), endpoint, &mut outgoing.headers)?;
        }
        let Some(credential) = &self.credential else {
            return Ok(None);
        };
        let field = match credential.at_hand(&outgoing.in_name) {
            Some(known) => known?,
            None => Box::pin(credential.field(&outgoing.in_name)).await?,
        };
        Ok(put(&mut outgoing.headers, field))
    }

    /// The agent answered 401 to what was shown: that is got anew, at most once a `cooldown`.
    pub fn refused(&self, in_name: &InName, shown: Option<Shown>) {
        if let Some((credential, shown)) = self.credential.as_ref().zip(shown) {
            credential.refused(in_name, shown);
        }
    }

    /// A read that may be repeated, should the agent refuse what it shows.
    pub(super) fn again(&self, outgoing: &Outgoing, is_read: bool) -> Option<Box<Outgoing>> {
        let got = self.credential.as_ref().is_some_and(Credential::is_got);
        (got && is_read).then(|| Box::new(outgoing.clone()))
    }

    /// The answer to a call, or to the same read with another token where the agent refused the first. Paid like every other try.
    pub(super) async fn accepted(
        &self,
        answer: Answer,
        shown: Shown,
        in_name: InName,
        again: Option<(Box<Outgoing>, &Permit, &Endpoint, Option<Duration>)>,
    ) -> Result<Answer, Failure> {
        let Some((mut outgoing, permit, endpoint, patience)) = again else {
            self.refused(&in_name, Some(shown));
            return Ok(answer);
        };
        let follows = match &self.credential {
            Some(credential) => credential.follows(&in_name, shown).await,
            None => false,
        };
        if !follows || self.dress(permit, endpoint, &mut outgoing).await.is_err() {
            return Ok(answer);
        }
        if !self.retries.repeat(Instant::now().into_std()) {
            self.metrics.retries_refused.inc();
            return Ok(answer);
        }
        self.metrics.upstream_retries.inc();
        drop(answer);
        let class = super::class_of(permit);
        self.within(patience, endpoint, class, outgoing).await
    }
}

fn put(headers: &mut HeaderMap, field: Option<Field>) -> Option<Shown> {
    let (name, value, shown) = field?;
    headers.insert(name, value);
    shown
}
