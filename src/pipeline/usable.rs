//! What of an agent a caller may use, which is what it is shown of it: in lists of agents, and of skills in extended cards.
//!
//! Told by the rules and by what skills demand, for a message that says nothing of itself: a rule that reads its metadata may allow
//! less, and decision points are not asked. So it is for the eye alone; each call is judged by itself.

use std::net::IpAddr;
use std::sync::Arc;

use super::{Agent, Downstream, Enforced, Pipeline, SkillDemand};
use crate::a2a::card::Shown;
use crate::a2a::metadata::Metadata;
use crate::a2a::{Binding, Call, Generation, Operation, RpcId};
use crate::authenticate::Principal;
use crate::authorize::{Asked, Asking, Permit, Policies};
use crate::respond::Reject;

/// One caller, as one agent sees it.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub principal: &'a Principal,
    pub policies: Policies<'a>,
    pub asked: &'a Asked,
}

impl Pipeline {
    /// Reads an extended card with what tells which of its skills the caller is shown.
    pub(super) fn shown_to<T>(
        &self,
        agent: &Agent,
        permit: &Permit,
        (downstream, client): (&Downstream, IpAddr),
        read: impl FnOnce(Shown<'_>) -> T,
    ) -> Result<T, Reject> {
        let enforced = agent.in_service()?;
        let asked = self.asked(downstream, agent, client);
        let caller = Caller {
            principal: permit.principal(),
            policies: self.policies(downstream, agent),
            asked: &asked,
        };
        Ok(read(&|skill| caller.may_use(&enforced, skill)))
    }
}

impl Caller<'_> {
    /// Whether it may send anything, for a skill or for none.
    pub(super) fn may_send(&self, skill: Option<&str>) -> bool {
        [Operation::Send, Operation::Stream].into_iter().any(|operation| {
            let asking = Asking {
                asked: self.asked.clone(),
                call: Arc::new(begins(operation)),
                skill: skill.map(str::to_owned),
                shown: None,
                metadata: Some(Metadata::default()),
                owner: None,
                state: None,
                came: None,
            };
            self.policies.is_open() || self.policies.decide(self.principal, &asking).allows()
        })
    }

    /// Whether it may use the skill of this id.
    pub(super) fn may_use(&self, enforced: &Enforced, skill: &str) -> bool {
        let demand = enforced.skills.as_ref().and_then(|skills| skills.get(skill));
        let meets = match demand {
            None => true,
            Some(SkillDemand::Unmet) => false,
            Some(SkillDemand::Met(requirement)) => requirement.readmit(self.principal).is_some(),
        };
        meets && self.may_send(Some(skill))
    }
}

/// A message that says nothing of itself, in the words of the newest generation.
fn begins(operation: Operation) -> Call {
    Call {
        binding: Binding::JsonRpc,
        generation: Generation::V1_0,
        operation,
        id: RpcId::one(),
        task: None,
        context: None,
        references: Vec::new(),
        webhook: false,
    }
}
