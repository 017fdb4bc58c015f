//! Explains what would become of a request: a gateway that is built from its configuration, without sockets, task records and calls.
//!
//! What it needs to judge it asks for as a running one would: keys at URLs and the card of the agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, request};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::site::Common;
use super::{Error, Prepared, prepare};
use crate::affinity::Affinity;
use crate::authenticate;
use crate::card::CardState;
use crate::clock::Clock;
use crate::config::{Config, Store, files};
use crate::http::framing::Refusal;
use crate::http::hygiene;
use crate::pipeline::{Agent, Downstream, Explanation};
use crate::tls::{Peer, PeerCertificate};

/// How long keys and cards may take that are fetched.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// Most fields of a head, far more than any limit of the configuration that is sensible.
const MAX_FIELDS: usize = 1000;

/// A request as it would come.
pub struct Asked {
    parts: request::Parts,
    body: Bytes,
}

/// What the connection would tell.
#[derive(Clone, Debug)]
pub struct From {
    /// `None`: the first one.
    pub listener: Option<String>,
    pub address: IpAddr,
    /// The certificate that the listener has verified.
    pub certificate: Option<PeerCertificate>,
}

impl Default for From {
    fn default() -> Self {
        Self {
            listener: None,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            certificate: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("no HTTP request: write the request line, the fields, an empty line and the body (RFC 9112)")]
    Request,
    #[error(transparent)]
    File(#[from] files::Error),
    #[error("there is no listener `{0}`")]
    Listener(String),
    #[error("{0} holds no certificate in PEM")]
    Certificate(String),
    #[error(transparent)]
    Gateway(#[from] Error),
}

impl Asked {
    /// From a file. Blocking.
    pub fn read(path: &Path) -> Result<Self, Refused> {
        Self::parse(&files::read_any(path)?)
    }

    /// Reads a message of HTTP/1.1, whose lines may end in a line feed alone.
    pub fn parse(text: &[u8]) -> Result<Self, Refused> {
        let mut fields = vec![httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        let Ok(httparse::Status::Complete(end)) = parsed.parse(text) else {
            return Err(Refused::Request);
        };
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
            return Err(Refused::Request);
        };
        let mut request = Request::builder().method(method).uri(target);
        for field in parsed.headers.iter() {
            request = request.header(field.name, field.value);
        }
        let (mut parts, ()) = request.body(()).map_err(|_| Refused::Request)?.into_parts();
        if !parts.headers.contains_key(http::header::HOST) {
            let host = HeaderValue::from_static("gateway");
            parts.headers.insert(http::header::HOST, host);
        }
        authenticate::prepare(&mut parts);
        let body = text.get(end..).unwrap_or_default().trim_ascii_end();
        Ok(Self {
            parts,
            body: Bytes::copy_from_slice(body),
        })
    }
}

/// The first certificate of a PEM file. Blocking.
pub fn certificate(path: &Path) -> Result<PeerCertificate, Refused> {
    let none = || Refused::Certificate(path.display().to_string());
    let pem = files::read(path).map_err(|_| none())?;
    let der = CertificateDer::from_pem_slice(&pem).map_err(|_| none())?;
    PeerCertificate::parse(&der).map_err(|_| none())
}

/// Must run inside the runtime.
pub async fn explain(mut config: Config, clock: Clock, asked: &Asked, from: &From) -> Result<Explanation, Refused> {
    let named = from.listener.as_deref();
    let found = config
        .listeners
        .iter()
        .find(|known| named.is_none_or(|named| known.name == named));
    let listener = found
        .cloned()
        .ok_or_else(|| Refused::Listener(named.unwrap_or_default().to_owned()))?;
    // Records of a running gateway are its own.
    config.state.store = Store::Memory;
    let prepared = tokio::task::spawn_blocking(move || prepare(config, clock, None)).await;
    let Prepared {
        config, ground, next, ..
    } = match prepared {
        Ok(prepared) => prepared?,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    };
    let drain = ground.drain.clone();
    let affinity = Affinity::open(&config.state, ground.clock.clone()).map_err(Error::Store)?;
    let common = Common::new(ground, affinity, None, &config, &next);
    let sockets = config.listeners.iter().map(|_| None).collect();
    let _site = common.enter(config.clone(), next, sockets, None);
    let pipeline = common.current.load();
    let route = pipeline
        .routes
        .select(asked.parts.uri.path(), || hygiene::host(&asked.parts));
    let agent = route.ok().and_then(|route| pipeline.agents.get(route.agent.0));
    // What an agent speaks, and what its skills demand, its card tells.
    let known = |agent: &Arc<Agent>| {
        let mut sections = config.agents.iter();
        let section = sections.find(|section| *section.name == *agent.metrics.name);
        let is_told = section.is_some_and(|section| section.upstream.generation.is_some());
        let needs_card = !is_told || agent.policy.skill.is_some();
        let is_fetched = !matches!(*agent.card.state(), CardState::NotFetched { .. });
        is_fetched || (!needs_card && agent.enforced.load().is_some())
    };
    let ready = || pipeline.verifiers.ready() && agent.is_none_or(known);
    let waiting = async {
        while !ready() {
            tokio::time::sleep(LOOK).await;
        }
    };
    // What is not there by then is told as a caller would be told it.
    let _late = tokio::time::timeout(PATIENCE, waiting).await;
    let downstream = Arc::new(Downstream {
        peer: Peer {
            address: SocketAddr::new(from.address, 0),
            secure: listener.tls.is_some(),
            certificate: from.certificate.clone().map(Arc::new),
            chain: None,
        },
        listener: Arc::from(listener.name.as_str()),
        door: None,
        trusted_proxies: listener.trusted_proxies.clone().into(),
        address: hygiene::value(&from.address.to_string()),
        refusal: Refusal::default(),
        current: common.current.clone(),
        acceptor: None,
    });
    let client = crate::http::forwarded::client(from.address, &asked.parts.headers, &downstream.trusted_proxies);
    let section = |name: &str| config.agents.iter().find(|agent| agent.name == name).cloned();
    let explained = pipeline
        .explain(&downstream, client, &asked.parts, asked.body.clone(), section)
        .await;
    drain.run(Duration::ZERO, Duration::ZERO).await;
    Ok(explained)
}
