//! Calling agents: connections, timeouts, what may be tried again.
//!
//! A call needs a `Permit`. A send that was written is never sent twice (A2A sends are not idempotent): another try
//! happens only when a connection gives the request back unwritten, when connecting failed, or for reads.
//!
//! Streams have connections of their own: an event stream holds its connection for minutes, with smaller buffers, and over
//! HTTP/2 one slow reader of small events could cost every stream of the connection.

mod answer;
mod connect;
mod credential;
pub mod http1;
mod name;
mod pool;
mod probe;
#[cfg(test)]
mod tests;
mod whole;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header, request};
use tokio::time::Instant;

use crate::a2a::grpc::write_timeout;
use crate::a2a::http_json::{Verb, Written};
use crate::a2a::{Binding, Dialect, Generation, Operation};
use crate::authenticate::CredentialPlaces;
use crate::authorize::Permit;
use crate::balance::{Endpoint, Endpoints, Fault, RetryBudget, Selected};
use crate::config::{self, Problem};
use crate::drain::Drain;
use crate::http::fetch::Fetcher;
use crate::http::{body, grpc, hygiene};
use crate::observe::AgentMetrics;

pub use answer::Body;
use credential::{Credential, Told};
pub use credential::{Error as NoCredential, InName, Shown, Subject};
use pool::{Class, Failed, Pool, Shared};
pub use probe::Probe;
pub use whole::Head;

const JSON: &str = "application/json";

/// The pools of one agent's endpoints and how its calls are made.
pub struct Upstream {
    pools: Vec<Arc<Pool>>,
    connector: connect::Shared,
    credential: Option<Credential>,
    told: Option<Told>,
    retries: Arc<RetryBudget>,
    first_byte: Duration,
    send: Option<Duration>,
    answer: body::Bounds,
    metrics: Arc<AgentMetrics>,
}

/// What the files of an upstream and its credential were found to be, where that is something else.
pub struct Renewal {
    tls: Option<connect::Loaded>,
    credential: Option<credential::Renewed>,
}

impl Renewal {
    /// Nothing is different.
    pub fn is_empty(&self) -> bool {
        self.tls.is_none() && self.credential.is_none()
    }
}

/// No call begins any more; those under way give their connections back to nobody.
impl Drop for Upstream {
    fn drop(&mut self) {
        for pool in &self.pools {
            pool.close();
        }
    }
}

/// The request towards the agent, but for what depends on the endpoint.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Without `Host` and `Content-Length`; the agent's credential is set anew with each try.
    pub headers: http::HeaderMap,
    pub in_name: InName,
    pub method: Method,
    /// Behind the endpoint's own path; empty: none.
    pub path: String,
    /// Added to the endpoint's own query.
    pub query: Option<String>,
    pub body: Bytes,
    /// When the caller stops waiting, where the agent can be told.
    pub deadline: Option<Instant>,
}

/// The head of an agent's answer, with what is to come.
pub struct Answer {
    pub parts: http::response::Parts,
    /// With the connection.
    pub body: Body,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot connect to {endpoint}")]
    Connect {
        endpoint: Arc<str>,
        #[source]
        source: connect::Error,
    },
    #[error("all {most} connections to {endpoint} are in use")]
    Busy { endpoint: Arc<str>, most: usize },
    #[error("{endpoint} did not begin its answer in time")]
    FirstByte { endpoint: Arc<str> },
    #[error("{endpoint} closed the connection before its answer was whole")]
    Closed {
        endpoint: Arc<str>,
        #[source]
        source: answer::Error,
    },
    #[error("{endpoint} sent a broken answer")]
    Broken {
        endpoint: Arc<str>,
        #[source]
        source: answer::Error,
    },
    #[error("cannot read the answer of {endpoint}")]
    Body {
        endpoint: Arc<str>,
        #[source]
        source: body::Error,
    },
    #[error("there is nothing to show the agent")]
    Credential(#[source] NoCredential),
}

/// A call that got no answer.
#[derive(Debug)]
pub struct Failure {
    pub error: Error,
    /// The request, if the agent cannot have seen it: it may go elsewhere.
    pub unsent: Option<Box<Outgoing>>,
}

impl Error {
    /// What it says of the endpoint; `None`: nothing.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Connect { source, .. } => (!source.is_local()).then_some(Fault::Connect),
            // How much an agent may send is the gateway's own affair.
            Self::Busy { .. }
            | Self::Credential(_)
            | Self::Body {
                source: body::Error::TooLarge(_),
                ..
            } => None,
            Self::FirstByte { .. }
            | Self::Broken { .. }
            | Self::Body {
                source: body::Error::Stalled,
                ..
            } => Some(Fault::Answer),
            Self::Closed { .. }
            | Self::Body {
                source: body::Error::Broken(_),
                ..
            } => Some(Fault::Closed),
        }
    }
}

impl Upstream {
    /// `key` is the place in the configuration, for problems (`agents[0].upstream`); `before` has a credential that is shown
    /// alike.
    pub fn build(
        config: &config::Upstream,
        endpoints: &Endpoints,
        key: &str,
        before: Option<&Self>,
        drain: &Drain,
        metrics: &Arc<AgentMetrics>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let connector = connect::Connector::build(config, key)
            .map_err(|found| problems.extend(found))
            .ok();
        let before = before.and_then(|before| before.credential.as_ref());
        let credential = config
            .credential
            .as_ref()
            .map(|credential| Credential::build(credential, &format!("{key}.credential"), before, drain, metrics))
            .transpose()
            .map_err(|found| problems.extend(found))
            .ok();
        let (Some(connector), Some(credential)) = (connector, credential) else {
            return Err(problems);
        };
        let connector = Arc::new(connector);
        let pools = endpoints
            .all()
            .iter()
            .map(|endpoint| Pool::new(endpoint.clone(), connector.clone(), config, drain, metrics))
            .collect();
        Ok(Self {
            pools,
            connector,
            credential,
            told: config.assertion.as_ref().map(|told| Told::new(told, &metrics.name)),
            retries: endpoints.retries.clone(),
            first_byte: config.first_byte_timeout,
            send: config.send_timeout,
            answer: body::Bounds {
                bytes: config.answer_bytes,
                idle: Some(config.idle_timeout),
                whole: None,
            },
            metrics: metrics.clone(),
        })
    }

    /// What is trusted and shown by now, of a configuration that differs from the one it was built from in the credential's
    /// value at most. Nothing changes before `take`. Blocking: reads files.
    pub fn renewed(&self, config: &config::Upstream, key: &str) -> Result<Renewal, Vec<Problem>> {
        let mut problems = Vec::new();
        let tls = self.connector.read_again(key).map_err(|found| problems.extend(found));
        let credential = self.credential.as_ref().zip(config.credential.as_ref());
        let credential = credential.and_then(|(known, configured)| {
            let renewed = known.renewed(configured, &format!("{key}.credential"));
            renewed.map_err(|found| problems.extend(found)).ok().flatten()
        });
        match tls {
            Ok(tls) if problems.is_empty() => Ok(Renewal { tls, credential }),
            Ok(_) | Err(()) => Err(problems),
        }
    }

    /// For new connections and new requests.
    pub fn take(&self, renewal: Renewal) {
        if let Some(loaded) = renewal.tls {
            self.connector.take(loaded);
        }
        if let Some((credential, renewed)) = self.credential.as_ref().zip(renewal.credential) {
            credential.take(renewed);
        }
    }

    /// What the agent is called in, from now on: gRPC needs HTTP/2.
    pub fn speak(&self, binding: Binding) {
        self.connector.speak(binding);
    }

    /// How long one endpoint may take to begin the answer to a read.
    pub fn patience(&self) -> Duration {
        self.first_byte
    }

    /// Most bytes of a whole answer.
    pub fn answer_bytes(&self) -> usize {
        self.answer.bytes
    }

    /// For small requests beside the calls, with the same trust and the same certificate.
    pub fn fetcher(&self) -> Fetcher {
        self.connector.fetcher()
    }

    /// Gets the tokens that the gateway itself shows.
    pub fn serve(&self, drain: &Drain) {
        if let Some(Credential::Grant(grant)) = &self.credential {
            drain.service(grant.clone().run());
        }
    }

    /// Drops connections to the endpoint that idled too long, or that are to where it is no more.
    pub fn start(&self, endpoint: &Endpoint, drain: &Drain) {
        if let Some(pool) = self.pools.get(endpoint.index) {
            drain.service(pool.clone().sweep());
            drain.service(pool.clone().follow());
        }
    }

    /// No call of the endpoint begins any more; those under way go on.
    pub fn close(&self, endpoint: &Endpoint) {
        if let Some(pool) = self.pools.get(endpoint.index) {
            pool.close();
        }
    }

    /// Sends a call to the selected endpoint and waits for the head of the answer.
    pub async fn send(
        &self,
        permit: &Permit,
        selected: &Selected,
        mut outgoing: Box<Outgoing>,
    ) -> Result<Answer, Failure> {
        let operation = permit.call().operation;
        let patience = match operation {
            Operation::Send | Operation::Stream | Operation::Subscribe => self.send,
            Operation::Get
            | Operation::List
            | Operation::Cancel
            | Operation::PushCreate
            | Operation::PushGet
            | Operation::PushList
            | Operation::PushDelete
            | Operation::ExtendedCard => Some(self.first_byte),
        };
        let endpoint = selected.endpoint();
        let again = self.again(&outgoing, operation.is_read());
        let shown = self.dress(permit, endpoint, &mut outgoing).await;
        let shown = shown.map_err(|source| Failure {
            error: Error::Credential(source),
            unsent: None,
        })?;
        let in_name = shown.map(|_| outgoing.in_name.clone());
        let answer = self.within(patience, endpoint, class_of(permit), outgoing).await?;
        match (shown, in_name) {
            (Some(shown), Some(in_name)) if grpc::is_unauthenticated(answer.parts.status, &answer.parts.headers) => {
                let again = again.map(|again| (again, permit, &**endpoint, patience));
                Box::pin(self.accepted(answer, shown, in_name, again)).await
            }
            (Some(_) | None, _) => Ok(answer),
        }
    }

    /// Connecting has its own bound; this one is about the agent's silence.
    async fn within(
        &self,
        patience: Option<Duration>,
        endpoint: &Endpoint,
        class: Class,
        outgoing: Box<Outgoing>,
    ) -> Result<Answer, Failure> {
        let mut line = None;
        let in_time = {
            let exchange = pin!(self.exchange(endpoint, class, outgoing, &mut line));
            match patience {
                Some(patience) => tokio::time::timeout(patience, exchange).await,
                None => Ok(exchange.await),
            }
        };
        in_time.unwrap_or_else(|_| {
            // It may be dead, which a ping would find out much later.
            if let (Some(pool), Some(line)) = (self.pools.get(endpoint.index), line) {
                pool.retire(&line);
            }
            Err(Failure {
                error: Error::FirstByte {
                    endpoint: endpoint.url.clone(),
                },
                unsent: None,
            })
        })
    }

    /// `line` is the connection that the call is on, if others are too.
    async fn exchange(
        &self,
        endpoint: &Endpoint,
        class: Class,
        mut outgoing: Box<Outgoing>,
        line: &mut Option<Shared>,
    ) -> Result<Answer, Failure> {
        let Some(pool) = self.pools.get(endpoint.index) else {
            let error = Error::Busy {
                endpoint: endpoint.url.clone(),
                most: 0,
            };
            return Err(Failure::unsent(error, outgoing));
        };
        loop {
            let lease = match pool.lease(class).await {
                Ok(lease) => lease,
                Err(error) => return Err(Failure::unsent(error, outgoing)),
            };
            let reused = lease.reused();
            *line = lease.shared();
            let sent = match lease.send(outgoing.request(endpoint)) {
                Ok(exchange) => exchange.await,
                Err(failed) => Err(failed),
            };
            let Failed {
                error: source,
                unwritten,
            } = match sent {
                Ok((parts, body)) => return Ok(Answer { parts, body }),
                Err(failed) => failed,
            };
            let url = endpoint.url.clone();
            let Some(unwritten) = unwritten else {
                let error = if source.is_malformed() {
                    Error::Broken { endpoint: url, source }
                } else {
                    Error::Closed { endpoint: url, source }
                };
                return Err(Failure { error, unsent: None });
            };
            outgoing.take_back(*unwritten);
            if !reused {
                return Err(Failure::unsent(Error::Closed { endpoint: url, source }, outgoing));
            }
            // The connection ended while it idled: the request came back unwritten.
            self.metrics.upstream_retries.inc();
        }
    }
}

impl Outgoing {
    /// Asks something else with the same head, but for the query, which stays the caller's own in JSON-RPC.
    pub fn ask(&mut self, written: Written) {
        let Written {
            verb,
            path,
            query,
            body,
        } = written;
        self.method = match verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Delete => Method::DELETE,
        };
        if !path.is_empty() {
            self.query = query;
        }
        hygiene::drop_digests(&mut self.headers);
        self.path = path;
        self.body = body.into();
    }

    /// Says what the body is, what is awaited, and but over JSON-RPC the generation, by which some servers tell what is asked.
    pub fn describe(&mut self, speaks: Dialect, operation: Operation) {
        let headers = &mut self.headers;
        if speaks.binding != Binding::JsonRpc {
            match speaks.generation {
                Generation::V0_1 | Generation::V0_3 => headers.remove(hygiene::A2A_VERSION),
                Generation::V1_0 => headers.insert(hygiene::A2A_VERSION, HeaderValue::from_static("1.0")),
            };
        }
        if speaks.binding == Binding::Grpc {
            // Whoever sent them, in whatever binding.
            grpc::drop_request_fields(headers);
            headers.remove(header::ACCEPT);
            headers.insert(header::CONTENT_TYPE, grpc::MEDIA_TYPE);
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
            return;
        }
        let accepted = match speaks {
            _ if operation.streams() => "text/event-stream",
            // Servers answer in the type that their patch of 1.0 has (A2A 1.0 §11.1).
            Dialect {
                generation: Generation::V1_0,
                binding: Binding::HttpJson,
            } => "application/a2a+json, application/json",
            _ => JSON,
        };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
        // Every server takes the general type; some refuse a post without one.
        if self.method == Method::POST {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        } else {
            headers.remove(header::CONTENT_TYPE);
        }
    }

    /// The request to an endpoint. Takes the headers; if it comes back unwritten, `take_back` has them again.
    fn request(&mut self, endpoint: &Endpoint) -> Request<Bytes> {
        let mut headers = std::mem::take(&mut self.headers);
        headers.insert(header::HOST, endpoint.host.clone());
        if let Some(deadline) = self.deadline {
            let left = write_timeout(deadline.saturating_duration_since(Instant::now()));
            headers.insert(grpc::TIMEOUT, hygiene::value(&left));
        }
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = target(&endpoint.uri, &self.path, self.query.as_deref());
        *request.headers_mut() = headers;
        request
    }

    fn take_back(&mut self, unwritten: Request<Bytes>) {
        self.headers = unwritten.into_parts().0.headers;
        self.headers.remove(header::HOST);
    }
}

impl Failure {
    /// The connection ended before the answer, and the agent may have seen the call.
    pub fn is_of_dead_connection(&self) -> bool {
        matches!(self.error, Error::Closed { .. }) && self.unsent.is_none()
    }

    fn unsent(error: Error, outgoing: Box<Outgoing>) -> Self {
        Self {
            error,
            unsent: Some(outgoing),
        }
    }
}

fn class_of(permit: &Permit) -> Class {
    if permit.call().operation.streams() {
        Class::Stream
    } else {
        Class::Unary
    }
}

/// The endpoint's URL with the call's path and query behind its own. The pool cuts it to the form that the connection needs.
fn target(endpoint: &Uri, path: &str, query: Option<&str>) -> Uri {
    if path.is_empty() && query.is_none() {
        return endpoint.clone();
    }
    let mut joined = endpoint.path().to_owned();
    if !path.is_empty() {
        // The path begins with a slash.
        joined.truncate(joined.trim_end_matches('/').len());
        joined.push_str(path);
    }
    let mut separator = '?';
    for query in endpoint.query().into_iter().chain(query) {
        joined.push(separator);
        joined.push_str(query);
        separator = '&';
    }
    let mut parts = endpoint.clone().into_parts();
    if let Ok(joined) = joined.parse() {
        parts.path_and_query = Some(joined);
    }
    Uri::from_parts(parts).unwrap_or_else(|_| endpoint.clone())
}

/// What callers show that an agent is not shown.
pub enum Withheld<'a> {
    /// Everything: what stands where a configured scheme reads, and `Authorization`.
    All(&'a CredentialPlaces),
    /// What stands there, where what was verified for this agent does not.
    Others(CredentialPlaces),
    /// Nothing was asked for, so that all may be meant for the agent.
    Nothing,
}

/// The caller's head as it goes on: clean, without what is withheld, and without what tells agents who calls (`own`). Takes the headers.
///
/// Boxed: several futures within each other hold it in turn.
pub fn outgoing(parts: &mut request::Parts, withheld: &Withheld<'_>, own: &[HeaderName], body: Bytes) -> Box<Outgoing> {
    let places = match withheld {
        Withheld::All(places) => Some(*places),
        Withheld::Others(places) => Some(places),
        Withheld::Nothing => None,
    };
    // A credential for another scheme than the configured ones is one all the same.
    let by_name = matches!(withheld, Withheld::All(_));
    let is_credential = |name: &HeaderName| {
        own.contains(name)
            || by_name && *name == header::AUTHORIZATION
            || places.is_some_and(|places| places.is_header(name))
    };
    let headers = hygiene::forwarded(std::mem::take(&mut parts.headers), is_credential);
    let query = parts.uri.query().and_then(|query| {
        let query = places.map_or(Cow::Borrowed(query), |places| places.strip_query(query));
        hygiene::forwarded_query(&query)
    });
    Box::new(Outgoing {
        headers,
        in_name: InName::Caller(None),
        method: Method::POST,
        path: String::new(),
        query,
        body,
        deadline: None,
    })
}
