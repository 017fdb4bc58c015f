//! A call of the front door becomes one of the agent that was chosen: its tenant is the agent's, and what was shown for others stays behind.

use std::borrow::Cow;

use bytes::Bytes;
use http::{header, request};

use super::Came;
use super::scene::Member;
use crate::a2a::{self, Addressed, Generation, grpc, tenant};
use crate::authenticate;
use crate::http::hygiene;
use crate::observe::Reason;
use crate::pipeline::Pipeline;
use crate::respond::Reject;
use crate::route::Place;

impl Pipeline {
    /// What callers show for other agents is withheld from one that gets their credentials; others get none.
    pub(super) fn withhold(&self, member: &Member, parts: &mut request::Parts) {
        if !member.agent.forward_credentials {
            return;
        }
        let mut others = self.verifiers.places().clone();
        others.headers.push(header::AUTHORIZATION);
        for requirement in member.enforced.requirements() {
            others = others.but(&requirement.own_places());
        }
        for name in &others.headers {
            parts.headers.remove(name);
        }
        let kept = parts.uri.query().map(|query| others.strip_query(query));
        if let Some(Cow::Owned(query)) = kept {
            let target = match query.as_str() {
                "" => parts.uri.path().to_owned(),
                query => format!("{}?{query}", parts.uri.path()),
            };
            authenticate::keep(parts);
            parts.uri = target.parse().unwrap_or_default();
        }
    }

    /// Makes of the call one to the agent; what comes back is its body.
    pub(super) fn turn(
        &self,
        came: &mut Came<'_>,
        member: &Member,
        told: Option<&str>,
        place: &mut Place,
        parts: &mut request::Parts,
    ) -> Result<Bytes, Reject> {
        if came.bytes.len() > member.agent.body_bytes {
            return Err(Reject::new(Reason::BodyTooLarge));
        }
        self.address(came, member, told, place, parts)?;
        self.withhold(member, parts);
        match came.addressed {
            Addressed::Grpc(_) => grpc::frame(&came.bytes).map_err(|_| Reject::new(Reason::BodyTooLarge)),
            Addressed::JsonRpc | Addressed::HttpJson(_) => Ok(came.bytes.clone()),
        }
    }

    /// The agent is told its own tenant, whatever its caller chose it by.
    fn address(
        &self,
        came: &mut Came<'_>,
        member: &Member,
        told: Option<&str>,
        place: &mut Place,
        parts: &mut request::Parts,
    ) -> Result<(), Reject> {
        let own = own_tenant(member, came.call.generation);
        if told == own || came.call.generation != Generation::V1_0 {
            return Ok(());
        }
        let unreadable = |_: a2a::json::Error| Reject::new(Reason::ParseError);
        came.bytes = tenant::write(&came.addressed, &came.bytes, own, self.json).map_err(unreadable)?;
        hygiene::drop_digests(&mut parts.headers);
        if let Addressed::HttpJson(target) = &came.addressed {
            let base = match place {
                Place::Below { base } => *base,
                Place::Rpc | Place::Card | Place::Metadata => 0,
            };
            let path = parts.uri.path().get(base..).unwrap_or_default();
            let (target, mut path) = tenant::write_target(target, path, own);
            if let Some(query) = parts.uri.query().and_then(tenant::without_in_query) {
                path.push('?');
                path.push_str(&query);
            }
            authenticate::keep(parts);
            parts.uri = path.parse().map_err(|_| Reject::new(Reason::BadHead))?;
            came.addressed = Addressed::HttpJson(Box::new(target));
            *place = Place::Below { base: 0 };
        }
        Ok(())
    }
}

/// What an agent wants to be told with calls that come in this generation.
pub(super) fn own_tenant(member: &Member, generation: Generation) -> Option<&str> {
    let spoken = member.enforced.spoken(generation)?;
    let spoken = (spoken.generation == Generation::V1_0).then_some(spoken)?;
    spoken.tenant.as_deref()
}
