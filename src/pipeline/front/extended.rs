//! The extended card of the front door: what its caller may use of the agents behind it.

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderValue, header, request};

use super::Came;
use super::scene::{Member, parts};
use crate::a2a::card::{self, Finish, gather};
use crate::authenticate::Principal;
use crate::authorize::Asked;
use crate::config::Listed;
use crate::observe::Reason;
use crate::pipeline::translate::Translating;
use crate::pipeline::usable::Caller;
use crate::pipeline::{Enforced, Pipeline};
use crate::respond::Reject;
use crate::respond::answered::Answered;

/// A caller, as one agent knows it.
struct Known<'a> {
    principal: Arc<Principal>,
    asked: Asked,
    enforced: &'a Enforced,
}

impl Pipeline {
    pub(super) async fn extended_of_all(&self, came: &Came<'_>, head: &request::Parts) -> Result<Answered, Reject> {
        if came.principal.is_anonymous() {
            return Err(Reject::new(Reason::ExtendedCardNotConfigured));
        }
        let mut known: HashMap<&str, Known<'_>> = HashMap::new();
        for member in &came.scene.members {
            if let Some(principal) = self.known_at(came, &member.agent, &member.enforced, head).await? {
                let caller = Known {
                    principal,
                    asked: self.asked(came.downstream, &member.agent, came.client),
                    enforced: &member.enforced,
                };
                known.insert(&member.agent.metrics.name, caller);
            }
        }
        let sees = |agent: &str, skill: &str| {
            let (Some(known), Some(member)) = (known.get(agent), came.scene.member(agent)) else {
                return false;
            };
            let caller = Caller {
                principal: &known.principal,
                policies: self.policies(came.downstream, &member.agent),
                asked: &known.asked,
            };
            caller.may_use(known.enforced, skill)
        };
        let publication = came.scene.publication.of(came.call.generation);
        let is_named =
            |member: &Member| member.listed != Listed::Never && known.contains_key(&*member.agent.metrics.name);
        let parts = parts(&came.scene.members, is_named);
        let origin = gather::gather(&parts, &publication.enforced, &came.front.section.card, sees);
        let signer = came.front.store.signer();
        let sign = |card| match &signer {
            Some(signer) => signer.extended(card, &publication.served),
            None => card,
        };
        let finish = Finish {
            shown: &|_| true,
            sign: &sign,
            believed: None,
        };
        let bytes =
            card::answer_extended(&came.call.id, &origin.to_bytes(), &publication, finish).map_err(|error| {
                tracing::warn!(%error, "the extended card of the front door cannot be published");
                Reject::new(Reason::Internal)
            })?;
        let mut answered = Translating::told(&came.call, came.call.generation, bytes)?;
        let headers = &mut answered.parts.headers;
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        headers.insert(header::VARY, HeaderValue::from_static("Authorization"));
        Ok(answered)
    }
}
