//! The tasks of all agents behind the front door.
//!
//! Each is asked as a caller would ask it, with its own limits, rules and owners, and its answer merged with the others'. Agents that
//! have no lists, or whose tasks are not for this caller, have none in it.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Uri, header, request};
use http_body_util::Full;
use tokio::time::Instant;

use super::scene::Member;
use super::turn::own_tenant;
use super::{Came, NAME};
use crate::a2a::jsonrpc::code;
use crate::a2a::listing::read_listing;
use crate::a2a::translate::{Original, Pair};
use crate::a2a::{Addressed, Binding, Dialect, Generation, Operation, jsonrpc, tenant};
use crate::authenticate;
use crate::gather::span::{Span, Told};
use crate::gather::token;
use crate::http::{grpc, hygiene};
use crate::observe::{Outcome, Reason, Record};
use crate::pipeline::Pipeline;
use crate::pipeline::translate::Translating;
use crate::respond::Reject;
use crate::respond::answered::{Answered, Content};
use crate::respond::body::Held;
use crate::route::{Place, RouteMatch};

/// In which agents are asked.
const ASKED: Dialect = Dialect {
    generation: Generation::V1_0,
    binding: Binding::JsonRpc,
};
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Pipeline {
    pub(super) async fn list_all(&self, came: &Came<'_>, head: &request::Parts) -> Result<Answered, Reject> {
        if came.call.generation != Generation::V1_0 {
            return Err(Reject::new(Reason::UnsupportedOperation));
        }
        let body = match came.call.binding {
            Binding::JsonRpc => came.bytes.clone(),
            Binding::HttpJson | Binding::Grpc => {
                let pair = Pair::plain(came.call.dialect(), ASKED);
                let original = Original {
                    addressed: &came.addressed,
                    query: head.uri.query(),
                    body: &came.bytes,
                };
                Bytes::from(pair.request(&came.call, original, None)?.body)
            }
        };
        let listing = read_listing(&body, self.json)
            .map_err(|error| Reject::new(Reason::InvalidParams).because(error.message()))?;
        let question = listing.question();
        let members = &came.scene.members;
        let patience = members.iter().map(|member| member.agent.upstream.patience()).max();
        let span = Span {
            listing: &listing,
            binding: token::Binding {
                agent: NAME,
                principal: &came.principal.id,
                question: &question,
            },
            id: &came.call.id,
            tokens: &self.tokens,
            now: self.observer.clock.unix_seconds(),
            deadline: Instant::now() + patience.unwrap_or_default(),
            bytes: members
                .iter()
                .map(|member| member.agent.upstream.answer_bytes())
                .max()
                .unwrap_or_default(),
        };
        let names: Vec<_> = came.scene.names().cloned().collect();
        let lacking: Vec<AtomicUsize> = members.iter().map(|_| AtomicUsize::new(0)).collect();
        let ask = |index: usize, body: Bytes| -> BoxFuture<'_, Result<Told, Reject>> {
            match members.get(index).zip(lacking.get(index)) {
                Some((member, lacking)) => Box::pin(self.listed_of(came, member, body, head, lacking)),
                None => Box::pin(async { Ok(Told::Nothing) }),
            }
        };
        let away = self.lacking(came, head)?;
        let page = span.page(&names, ask).await?;
        let lacking: usize = lacking.iter().map(|lacking| lacking.load(Ordering::Relaxed)).sum();
        let lacking = away + lacking;
        let answered = Translating::told(&came.call, Generation::V1_0, page)?;
        Ok(Answered {
            left_out: lacking,
            ..answered
        })
    }

    /// How many endpoints are left out because their agents are not in service. The error: the caller has an open task there.
    fn lacking(&self, came: &Came<'_>, head: &request::Parts) -> Result<usize, Reject> {
        let mut lacking = 0;
        for absent in came.front.absent(came.scene) {
            let agent = &absent.agent;
            let enforced = agent.enforced.load_full();
            if enforced
                .as_ref()
                .is_some_and(|enforced| !came.may_be_known(enforced, head))
            {
                continue;
            }
            let own = enforced.and_then(|enforced| {
                let principal = enforced.requirement.readmit(&came.principal)?;
                enforced.ownership.owner(&principal)
            });
            let own = own.unwrap_or_else(|| came.principal.id.clone());
            // One that never worked takes nobody else's list down.
            let open = self.affinity.open_tasks().of(&agent.metrics.name, &own);
            if open.of_owner > 0 && !agent.list_partial {
                return Err(Reject::new(Reason::AgentNotReady));
            }
            lacking += agent.endpoints.all().len();
        }
        Ok(lacking)
    }

    /// One agent's page, asked as its caller would; `lacking` becomes how many of its endpoints are left out at most.
    async fn listed_of(
        &self,
        came: &Came<'_>,
        member: &Member,
        body: Bytes,
        head: &request::Parts,
        lacking: &AtomicUsize,
    ) -> Result<Told, Reject> {
        if !came.may_be_known(&member.enforced, head) {
            return Ok(Told::Nothing);
        }
        let internal = |_: crate::a2a::json::Error| Reject::new(Reason::Internal);
        let own = own_tenant(member, Generation::V1_0);
        let body = tenant::write(&Addressed::JsonRpc, &body, own, self.json).map_err(internal)?;
        let mut parts = head.clone();
        authenticate::keep(&mut parts);
        self.withhold(member, &mut parts);
        parts.method = Method::POST;
        parts.uri = Uri::from_static("/");
        let headers = &mut parts.headers;
        for name in [
            header::CONTENT_LENGTH,
            header::CONTENT_ENCODING,
            header::TE,
            header::TRANSFER_ENCODING,
        ] {
            headers.remove(name);
        }
        hygiene::drop_digests(headers);
        grpc::drop_request_fields(headers);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::ACCEPT, JSON);
        headers.insert(hygiene::A2A_VERSION, HeaderValue::from_static("1.0"));
        let record = Record::begin(&self.observer, &came.downstream.listener, came.client, Method::POST);
        let mut held = Held { record, slot: None };
        held.record.id = came.id;
        held.record.trace = came.trace;
        held.record.agent = Some(member.agent.metrics.clone());
        let route = RouteMatch {
            agent: member.index,
            place: Place::Rpc,
        };
        let called = self.call(
            route,
            Addressed::JsonRpc,
            came.client,
            came.downstream,
            &mut parts,
            Full::new(body),
            &mut held,
            None,
        );
        let answered = match Box::pin(called).await {
            Ok(answered) => answered,
            Err(reject) => {
                held.record.outcome = Outcome::Rejected(reject.reason);
                return if is_none_of(reject.reason) {
                    Ok(Told::Nothing)
                } else {
                    Err(reject)
                };
            }
        };
        held.record.status = answered.parts.status.as_u16();
        lacking.fetch_max(answered.left_out, Ordering::Relaxed);
        let Content::Whole(bytes, outcome) = answered.content else {
            held.record.outcome = Outcome::Rejected(Reason::UpstreamBadAnswer);
            return Err(Reject::new(Reason::UpstreamBadAnswer));
        };
        held.record.outcome = outcome;
        // They count for the agent's limits, as if its answer had gone to the caller.
        held.leaves(bytes.len());
        if outcome != Outcome::AgentError {
            return Ok(Told::Page(bytes));
        }
        let read = jsonrpc::read_answer(&bytes, Generation::V1_0, Operation::List, self.json).ok();
        match read.and_then(|read| read.error) {
            Some(code::METHOD_NOT_FOUND | code::UNSUPPORTED_OPERATION | code::VERSION_NOT_SUPPORTED) => {
                Ok(Told::Nothing)
            }
            Some(code::INVALID_PARAMS) => Ok(Told::Refused),
            Some(_) | None => Err(Reject::new(Reason::EndpointUnavailable)),
        }
    }
}

/// The caller has no tasks there, or there are no lists.
fn is_none_of(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Unauthenticated
            | Reason::Forbidden
            | Reason::NotAllowed
            | Reason::VersionNotSupported
            | Reason::UnsupportedOperation
            | Reason::UnknownMethod
    )
}
