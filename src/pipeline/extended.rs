//! The extended card of an agent that has no call for it: up to 0.2 it is fetched with a GET beside the agent's URL.
//!
//! Asked for as the public card is, on a connection of its own and within the same bounds, but for a permitted call, with
//! what it shows, and at a place among the endpoint's calls. What comes is put as the answer of a call, so that it is
//! rewritten and translated like every other extended card. Asked once: whoever wants it may ask again.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Response, header};

use super::send::place;
use super::translate::{CONDITIONS, OF_ANOTHER_BODY, Translating, drop_fields};
use super::{Agent, Downstream, Enforced, Pipeline};
use crate::a2a::answer::Whole;
use crate::a2a::card::{CardError, Finish, OriginCard, Publication, PublishedCard, Shown};
use crate::a2a::{self, Operation};
use crate::authenticate::Principal;
use crate::authorize::Permit;
use crate::balance::{Ask, Fault};
use crate::card;
use crate::http::{fetch, grpc, hygiene};
use crate::observe::{Outcome, Reason, Record};
use crate::respond::answered::Answered;
use crate::respond::{Reject, answer};
use crate::upstream::Outgoing;

impl Enforced {
    /// The call is answered by a GET.
    pub(super) fn fetches(&self, operation: Operation) -> bool {
        operation == Operation::ExtendedCard && self.extended_is_fetched
    }
}

/// Refuses whoever has not proved who it is (A2A 1.0 §3.1.11), and says how to where the agent has an extended card.
pub(super) fn known(
    agent: &Agent,
    enforced: &Enforced,
    principal: &Principal,
    operation: Operation,
) -> Result<(), Reject> {
    if operation != Operation::ExtendedCard || !principal.is_anonymous() {
        return Ok(());
    }
    let has_one = || {
        agent
            .card
            .current()
            .is_some_and(|current| current.origin.capabilities.extended)
    };
    let missing = enforced.requirement.missing().filter(|_| has_one());
    Err(missing.map_or_else(
        || Reject::new(Reason::ExtendedCardNotConfigured),
        |missing| Reject::from(&missing),
    ))
}

/// What is for one caller alone is kept by nobody, and is no version of anything.
pub(super) fn private(mut answered: Answered) -> Answered {
    let headers = &mut answered.parts.headers;
    for name in [header::ETAG, header::LAST_MODIFIED, header::EXPIRES, header::AGE] {
        headers.remove(name);
    }
    let private = HeaderValue::from_static("private, no-store");
    headers.insert(header::CACHE_CONTROL, private);
    headers.append(header::VARY, HeaderValue::from_static("Authorization"));
    answered
}

/// The answer to a call for the extended card.
pub(super) async fn ask(
    pipeline: &Pipeline,
    downstream: &Downstream,
    agent: &Agent,
    permit: &Permit,
    outgoing: Box<Outgoing>,
    translating: Option<Translating>,
    record: &mut Record,
) -> Result<Answered, Reject> {
    let call = permit.call();
    let current = agent.card.current().ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
    let card = fetched(agent, permit, outgoing, record).await?;
    let publication = current.publication.of(call.generation);
    let at = (downstream, record.address);
    let sign = &signing(agent, &publication);
    let believed = believed(agent, || a2a::card::read(&card).map(Some)).await?;
    let believed = believed.as_ref();
    let read = |shown: Shown<'_>| {
        let finish = Finish { shown, sign, believed };
        a2a::card::answer_extended(&call.id, &card, &publication, finish)
    };
    let bytes = pipeline.shown_to(agent, permit, at, read)?;
    let bytes = bytes.map_err(|error| unpublished(agent, &error))?;
    let (mut parts, ()) = Response::new(()).into_parts();
    let json = HeaderValue::from_static("application/json");
    parts.headers.insert(header::CONTENT_TYPE, json);
    match translating {
        Some(translating) => translating.finish(call, parts, &Whole::http(200, bytes), &[], Outcome::Ok),
        None => Ok(Answered::whole(parts, bytes, Outcome::Ok)),
    }
}

/// What of the card is signed by somebody who is believed, where somebody must be; `read` gives `None` for an error of the agent.
pub(super) async fn believed(
    agent: &Agent,
    read: impl FnOnce() -> Result<Option<OriginCard>, CardError>,
) -> Result<Option<OriginCard>, Reject> {
    let Some(verifier) = agent.card.verifier() else {
        return Ok(None);
    };
    let Some(card) = read().map_err(|error| unpublished(agent, &error))? else {
        return Ok(None);
    };
    let verified = verifier.verify(card).await;
    verified.map(Some).map_err(|error| unpublished(agent, &error))
}

pub(super) fn unpublished(agent: &Agent, error: &dyn fmt::Display) -> Reject {
    let agent = &*agent.metrics.name;
    tracing::warn!(agent, %error, "the extended card cannot be published");
    Reject::new(Reason::UpstreamBadAnswer)
}

/// As published cards are signed, in the forms that its caller reads.
pub(super) fn signing(agent: &Agent, publication: &Publication) -> impl Fn(PublishedCard) -> PublishedCard {
    let signer = agent.card.signer();
    move |card| match &signer {
        Some(signer) => signer.extended(card, &publication.served),
        None => card,
    }
}

async fn fetched(
    agent: &Agent,
    permit: &Permit,
    outgoing: Box<Outgoing>,
    record: &mut Record,
) -> Result<Bytes, Reject> {
    let principal = permit.principal();
    let asked = Ask {
        context: None,
        principal: Some(&*principal.id),
    };
    let endpoint = agent.endpoints.choose(asked, &[])?;
    record.endpoint = Some(endpoint.url.clone());
    let _selected = match endpoint.enter() {
        Some(selected) => selected,
        None => place(agent, endpoint).await?,
    };
    let mut outgoing = outgoing;
    let shown = agent.upstream.dress(permit, endpoint, &mut outgoing).await;
    let shown = shown.map_err(|error| Reject::from(&error))?;
    let Outgoing {
        headers,
        query,
        in_name,
        ..
    } = *outgoing;
    let mut options = agent.card_options.clone();
    options.headers = headers;
    let headers = &mut options.headers;
    drop_fields(headers, &CONDITIONS);
    drop_fields(headers, &OF_ANOTHER_BODY);
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_ENCODING);
    headers.remove(hygiene::A2A_VERSION);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let failed = |reason, fault| {
        agent.metrics.upstream_failed(reason);
        if let Some(fault) = fault {
            endpoint.failed(fault, &principal.id);
        }
        Reject::new(reason)
    };
    for mut url in card::extended_places(&endpoint.url) {
        if let Some(query) = &query {
            url.push('?');
            url.push_str(query);
        }
        let got = agent.upstream.fetcher().get(&url, &options).await.map_err(|error| {
            tracing::warn!(agent = &*agent.metrics.name, %error, "the extended card cannot be fetched");
            let (reason, fault) = judged(&error);
            failed(reason, fault)
        })?;
        if grpc::is_unauthenticated(got.status, &got.headers) {
            agent.upstream.refused(&in_name, shown);
        }
        let is_there = answer::is_there(got.status).map_err(|reason| {
            let fault = got.status.is_server_error().then_some(Fault::Answer);
            failed(reason, fault)
        })?;
        if is_there {
            endpoint.succeeded();
            return Ok(got.body);
        }
    }
    Err(Reject::new(Reason::ExtendedCardNotConfigured))
}

/// What a failed fetch is to the caller, and what it says of the endpoint.
fn judged(error: &fetch::Error) -> (Reason, Option<Fault>) {
    match error {
        fetch::Error::Url(_) | fetch::Error::Forbidden { .. } => (Reason::Internal, None),
        fetch::Error::Connect { .. } | fetch::Error::Tls { .. } => (Reason::UpstreamConnect, Some(Fault::Connect)),
        fetch::Error::Exchange { .. } | fetch::Error::Body { .. } => (Reason::UpstreamClosed, Some(Fault::Closed)),
        fetch::Error::Redirect { .. } | fetch::Error::HeaderTooLarge { .. } => {
            (Reason::UpstreamBadAnswer, Some(Fault::Answer))
        }
        fetch::Error::BodyTooLarge { .. } => (Reason::UpstreamAnswerTooLarge, None),
        fetch::Error::Timeout { .. } => (Reason::UpstreamTimeout, Some(Fault::Answer)),
    }
}
