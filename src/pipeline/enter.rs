//! The first stage: what a request is for, by its head alone.
//!
//! Documents for everybody, calls of an agent or of the front door, webhooks, messages of the envelope protocol. A head that is not clean, and a
//! path that nobody serves, end here.

use std::sync::Arc;

use http::{Method, request};

use super::catalogue::{Catalogue, Document};
use super::{Downstream, Enforced, Pipeline};
use crate::a2a::{Addressed, Generation, grpc, http_json};
use crate::http::hygiene;
use crate::observe::Reason;
use crate::respond::Reject;
use crate::respond::body::Held;
use crate::route::{Place, RouteMatch};
use crate::{a2a, card, push, signing};

/// What a request is for.
pub(super) enum Entry {
    /// `None`: there is none yet.
    Card(Option<Arc<card::Current>>),
    /// Another document for everybody: public keys, or how to get a token for the front door.
    Published(Arc<card::Published>),
    /// Which agents there are.
    Catalogue(Arc<Catalogue>, Document),
    /// A browser asks whether a page may read what is published.
    Preflight,
    /// How to get a token for an agent.
    Metadata(Arc<Enforced>),
    Call(RouteMatch, Addressed),
    /// A notification for the webhook that is sealed in its path, or the question whether there is one.
    Notification(RouteMatch, Box<str>),
    /// A message of the envelope protocol.
    Message,
}

impl Pipeline {
    /// The head: clean, and for an agent that is served here.
    pub(super) fn enter(
        &self,
        downstream: &Downstream,
        parts: &request::Parts,
        held: &mut Held,
    ) -> Result<Entry, Reject> {
        if let Some(reason) = downstream.refusal.of(parts) {
            return Err(Reject::new(reason));
        }
        downstream.trusted(held)?;
        hygiene::check(parts, self.head)?;
        let not_allowed = |methods| Reject::new(Reason::MethodNotAllowed).allowing(methods);
        let is_asked = || self.cors.is_some() && card::Cors::is_asked(parts);
        if let Some(desk) = &self.envelope
            && desk.path == parts.uri.path()
        {
            return match parts.method {
                Method::POST => Ok(Entry::Message),
                _ => Err(not_allowed("POST")),
            };
        }
        if let Some(keys) = &self.keys
            && signing::PLACE == parts.uri.path()
        {
            return match parts.method {
                Method::GET | Method::HEAD => Ok(Entry::Published(keys.clone())),
                Method::OPTIONS if is_asked() => Ok(Entry::Preflight),
                _ => Err(not_allowed("GET, HEAD")),
            };
        }
        if let Some(catalogue) = &self.catalogue
            && let Some(document) = catalogue.document(parts.uri.path())
        {
            return match parts.method {
                Method::GET | Method::HEAD => Ok(Entry::Catalogue(catalogue.clone(), document)),
                Method::OPTIONS if is_asked() => Ok(Entry::Preflight),
                _ => Err(not_allowed("GET, HEAD")),
            };
        }
        let route = self.routes.select(parts.uri.path(), || hygiene::host(parts))?;
        match route.place {
            Place::Rpc if parts.method != Method::POST => return Err(not_allowed("POST")),
            Place::Card | Place::Metadata if is_asked() => return Ok(Entry::Preflight),
            Place::Card | Place::Metadata if parts.method != Method::GET && parts.method != Method::HEAD => {
                return Err(not_allowed("GET, HEAD"));
            }
            Place::Rpc | Place::Card | Place::Metadata | Place::Below { .. } => {}
        }
        if let Some(front) = self.front.as_ref().filter(|front| front.index == route.agent) {
            return match route.place {
                Place::Rpc => Ok(Entry::Call(route, Addressed::JsonRpc)),
                Place::Card => Ok(Entry::Card(front.card(&self.verifiers).ok())),
                Place::Metadata => {
                    let metadata = front.scene(&self.verifiers)?.metadata.clone();
                    metadata
                        .map(Entry::Published)
                        .ok_or_else(|| Reject::new(Reason::NoRoute))
                }
                Place::Below { base } => {
                    let scene = front.scene(&self.verifiers)?;
                    Ok(Entry::Call(route, below(parts, base, scene.bindings())?))
                }
            };
        }
        let agent = self.agent(route)?;
        held.record.agent = Some(agent.metrics.clone());
        match route.place {
            Place::Rpc => Ok(Entry::Call(route, Addressed::JsonRpc)),
            Place::Card => Ok(Entry::Card(agent.card.current())),
            Place::Metadata => agent.in_service().map(Entry::Metadata),
            Place::Below { base } => {
                let path = parts.uri.path().get(base..).unwrap_or_default();
                let sealed = push::sealed(path).filter(|_| agent.relay.is_some());
                if let Some(sealed) = sealed.filter(|_| parts.method == Method::POST) {
                    return Ok(Entry::Notification(route, Box::from(sealed)));
                }
                let enforced = agent.in_service()?;
                // Some agents of 0.1 ask first whether their notifications are wanted there.
                if let Some(sealed) = sealed.filter(|_| parts.method == Method::GET && enforced.is_of_0_1()) {
                    return Ok(Entry::Notification(route, Box::from(sealed)));
                }
                Ok(Entry::Call(route, below(parts, base, &enforced.bindings)?))
            }
        }
    }
}

/// The call that a path below a base asks for, of HTTP+JSON or gRPC.
fn below(parts: &request::Parts, base: usize, bindings: &[a2a::Binding]) -> Result<Addressed, Reject> {
    let path = parts.uri.path().get(base..).unwrap_or_default();
    let not_allowed = |methods| Reject::new(Reason::MethodNotAllowed).allowing(methods);
    if hygiene::is_grpc(parts) {
        // Its paths are whole: nothing stands before them.
        if base > 0 || !bindings.contains(&a2a::Binding::Grpc) {
            return Err(Reject::new(Reason::NoRoute));
        }
        let method = grpc::method(path).ok_or_else(|| Reject::new(Reason::UnknownMethod))?;
        if parts.method != Method::POST {
            return Err(not_allowed("POST"));
        }
        return Ok(Addressed::Grpc(method));
    }
    // The extended card of 0.2 goes with JSON-RPC.
    if !bindings.contains(&a2a::Binding::HttpJson) && path != http_json::EXTENDED_CARD_OF_0_2 {
        return Err(Reject::new(Reason::NoRoute));
    }
    // Whatever is served: a path of a generation that is not must not go on as a tenant's.
    match http_json::read_target(parts.method.as_str(), path, &Generation::SPOKEN) {
        Ok(target) => Ok(Addressed::HttpJson(Box::new(target))),
        Err(http_json::TargetError::Method { allowed }) => Err(not_allowed(allowed)),
        Err(http_json::TargetError::Unknown | http_json::TargetError::Malformed) => Err(Reject::new(Reason::NoRoute)),
    }
}
