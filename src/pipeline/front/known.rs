//! Who a caller is to the agents behind the front door, and what it costs to guess.
//!
//! A credential that is wrong costs its address what it costs at the agents which may have been meant, and one that is right says nothing
//! more than it would there: nobody's credential can be tried more often at the front door than at its agent.

use std::net::IpAddr;
use std::sync::Arc;

use http::request;

use super::Came;
use super::scene::Scene;
use crate::authenticate::{self, Principal};
use crate::pipeline::{Agent, Downstream, Enforced, Pipeline};
use crate::ratelimit::{Limited, Slot, Stage};
use crate::respond::Reject;

impl Pipeline {
    /// Who the caller is to an agent, if anybody: by what it came in with, or else by what it shows besides, of which none may be guessed
    /// more often than at the agent's own address. The error is that limit.
    pub(super) async fn known_at(
        &self,
        came: &Came<'_>,
        agent: &Agent,
        enforced: &Enforced,
        head: &request::Parts,
    ) -> Result<Option<Arc<Principal>>, Reject> {
        let requirement = &enforced.requirement;
        if let Some(principal) = requirement.readmit(&came.principal) {
            return Ok(Some(principal));
        }
        if !requirement.may_know(&came.principal, &came.downstream.peer, head) {
            return Ok(None);
        }
        let mut slot = Slot::default();
        let budget = agent.limiter.admit(&mut slot, came.client, Stage::Address);
        budget.await.map_err(|limited| agent.limited(&limited))?;
        let identified = authenticate::identify(requirement, &came.downstream.peer, came.client, head).await;
        Ok(identified.ok())
    }
}

impl Came<'_> {
    /// Whether an agent knows the caller, or would have to look whether it does.
    pub(super) fn may_be_known(&self, enforced: &Enforced, head: &request::Parts) -> bool {
        let requirement = &enforced.requirement;
        requirement.readmit(&self.principal).is_some()
            || requirement.may_know(&self.principal, &self.downstream.peer, head)
    }

    /// The limit because of which an agent would not be asked who the caller is by what it shows beside what it came in with.
    pub(super) fn limit(&self, agent: &Agent, enforced: &Enforced, head: &request::Parts) -> Option<Limited> {
        let requirement = &enforced.requirement;
        let limited = agent.limiter.look(self.client).err()?;
        let asks = requirement.readmit(&self.principal).is_none()
            && requirement.may_know(&self.principal, &self.downstream.peer, head);
        asks.then_some(limited)
    }
}

impl Scene {
    /// Nobody is known by what a request shows. The error is the limit of an agent to which it may have been a guess.
    pub(super) async fn guessed(
        &self,
        downstream: &Downstream,
        client: IpAddr,
        head: &request::Parts,
    ) -> Result<(), Reject> {
        let mut told = Ok(());
        for member in &self.members {
            if !member.enforced.requirement.is_shown(&downstream.peer, head) {
                continue;
            }
            let mut slot = Slot::default();
            // Each of them, or what is shown to one would make guesses free at another.
            let budget = member.agent.limiter.admit(&mut slot, client, Stage::Address);
            if let Err(limited) = budget.await {
                told = told.and(Err(member.agent.limited(&limited)));
            }
        }
        told
    }

    /// Whether one of the agents that know the caller would ask who it is. If none would, the answer must not tell that it was right.
    pub(super) fn has_room(&self, principal: &Principal, client: IpAddr) -> Result<(), Reject> {
        let mut told = Ok(());
        for member in &self.members {
            let looked = member.agent.limiter.look(client);
            if member.enforced.requirement.readmit(principal).is_none() {
                continue;
            }
            match looked {
                Ok(()) => return Ok(()),
                Err(limited) => told = told.and(Err(member.agent.limited(&limited))),
            }
        }
        told
    }
}
