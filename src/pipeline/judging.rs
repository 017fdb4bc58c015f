//! The rules that a call must pass, and the skill that it names.

use std::net::IpAddr;
use std::sync::Arc;

use http::request;

use super::{Agent, Delegated, Downstream, Enforced, Pipeline};
use crate::a2a::Call;
use crate::a2a::metadata::{self, Metadata};
use crate::authenticate::{self, Principal, Requirement};
use crate::authorize::{
    self, Asked, Asking, Came, Decision, Judgement, Owned, Pending, Permit, Policies, Ruled, Rules, Why,
};
use crate::observe::{Reason, Record};
use crate::owners::Owners;
use crate::respond::Reject;

/// Longest name of a skill; ids in cards have some 20 characters.
const MAX_SKILL: usize = 255;

/// The listeners with their rules. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ListenerRules(pub Arc<[ListenerRule]>);

#[derive(Clone, Debug)]
pub struct ListenerRule {
    /// See `Downstream::door`.
    pub door: Option<u64>,
    pub name: Arc<str>,
    pub rules: Rules,
}

/// What an agent's policy says of calls.
#[derive(Clone, Debug, Default)]
pub struct CallPolicy {
    pub rules: Rules,
    /// The key of metadata that names the skill.
    pub skill: Option<String>,
}

/// What a skill demands by the agent's card.
pub enum SkillDemand {
    Met(Requirement),
    /// Nobody can meet it: it cannot be read, or names what is not verified here.
    Unmet,
}

/// What a call says of itself for rules.
#[derive(Debug, Default)]
pub(super) struct Stated {
    skill: Option<String>,
    /// By whom its demand was met.
    met_by: Option<Arc<Principal>>,
    metadata: Option<Metadata>,
}

impl Stated {
    pub(super) fn skill(&self) -> Option<&str> {
        self.skill.as_deref()
    }

    pub(super) fn met_by(&self) -> Option<&Arc<Principal>> {
        self.met_by.as_ref()
    }

    pub(super) fn asking(self, asked: Asked, call: Arc<Call>, owners: &Owners, came: Option<Came>) -> Asking {
        Asking {
            asked,
            call,
            skill: self.skill,
            shown: self.met_by,
            metadata: self.metadata,
            owner: owners.task_owner().cloned(),
            state: owners.task_state(),
            came,
        }
    }
}

/// By what a call is judged, and who made it where.
pub(super) struct Case<'a> {
    pub policies: Policies<'a>,
    pub asked: Asked,
    pub stated: Stated,
    /// Of the request.
    pub path: &'a str,
}

/// Who shows what, where.
pub(super) struct Shown<'a> {
    pub downstream: &'a Downstream,
    pub client: IpAddr,
    pub parts: &'a request::Parts,
    pub delegated: Option<&'a Delegated>,
}

impl Enforced {
    /// Whether what a skill demands by now is met by who showed it, or else by the caller.
    pub(super) fn admits_to(&self, judgement: &Judgement, caller: &Principal) -> bool {
        let demand = judgement.skill().and_then(|skill| self.skills.as_ref()?.get(skill));
        match demand {
            None => true,
            Some(SkillDemand::Unmet) => false,
            Some(SkillDemand::Met(requirement)) => {
                let shown = judgement.shown().map_or(caller, |shown| shown);
                requirement.readmit(shown).is_some()
            }
        }
    }
}

impl Pipeline {
    pub(super) fn policies<'a>(&'a self, downstream: &Downstream, agent: &'a Agent) -> Policies<'a> {
        let listener = self.listener(downstream);
        Policies {
            listener: listener.map_or(&self.open, |listener| &listener.rules),
            agent: &agent.policy.rules,
        }
    }

    /// `None`: this configuration has it no more, and what it carries is finished.
    fn listener(&self, downstream: &Downstream) -> Option<&ListenerRule> {
        let is_it = |listener: &&ListenerRule| match downstream.door {
            Some(_) => listener.door == downstream.door,
            None => listener.name == downstream.listener,
        };
        self.listeners.0.iter().find(is_it)
    }

    pub(super) fn asked(&self, downstream: &Downstream, agent: &Agent, client: IpAddr) -> Asked {
        self.asked_of(downstream, &agent.metrics.name, client)
    }

    /// The same where no agent is chosen yet.
    pub(super) fn asked_of(&self, downstream: &Downstream, agent: &Arc<str>, client: IpAddr) -> Asked {
        Asked {
            agent: agent.clone(),
            listener: self
                .listener(downstream)
                .map_or(&downstream.listener, |listener| &listener.name)
                .clone(),
            address: client,
            tls: downstream.peer.secure,
            now: self.observer.clock.unix_seconds(),
        }
    }

    /// What rules want to know of the call's body, and whether the caller shows what the skill demands that it names.
    pub(super) async fn about(
        &self,
        agent: &Agent,
        enforced: &Enforced,
        principal: &Arc<Principal>,
        (call, body): (&Call, &[u8]),
        shown: Shown<'_>,
    ) -> Result<Stated, Reject> {
        let policies = self.policies(shown.downstream, agent);
        let key = agent.policy.skill.as_deref();
        let is_told = policies.tells_metadata();
        if key.is_none() && !is_told && !policies.reads("message") {
            return Ok(Stated::default());
        }
        let metadata = match Metadata::read(call, body) {
            Ok(metadata) => metadata,
            // The rules that read it allow nothing.
            Err(_) if key.is_none() && !is_told => return Ok(Stated::default()),
            Err(error) => return Err(unreadable(error)),
        };
        let named = key.map_or(Ok(None), |key| metadata.get(key)).map_err(unreadable)?;
        let Some(named) = named else {
            let metadata = Some(metadata);
            return Ok(Stated {
                metadata,
                ..Stated::default()
            });
        };
        let skill = match named.as_str() {
            Some(skill) if (1..=MAX_SKILL).contains(&skill.len()) => skill.to_owned(),
            Some(_) | None => return Err(Reject::new(Reason::InvalidParams).because("the skill's name is no text")),
        };
        let skills = enforced.skills.as_ref();
        let skills = skills.ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
        let met_by = match skills.get(&skill) {
            None => None,
            Some(SkillDemand::Unmet) => return Err(Reject::new(Reason::Forbidden)),
            Some(SkillDemand::Met(requirement)) => Some(match shown.delegated {
                Some(_) => {
                    let met = requirement.readmit(principal);
                    met.ok_or_else(|| Reject::new(Reason::Forbidden))?
                }
                None => {
                    let identified =
                        authenticate::identify(requirement, &shown.downstream.peer, shown.client, shown.parts);
                    identified.await.map_err(|error| Reject::from(&error))?
                }
            }),
        };
        Ok(Stated {
            skill: Some(skill),
            met_by,
            metadata: Some(metadata),
        })
    }

    /// Asks the rules of both places, where there are any.
    pub(super) fn allowed(
        &self,
        owned: Owned,
        case: Case<'_>,
        owners: &Owners,
        record: &mut Record,
    ) -> Result<Ruled, Reject> {
        let Case {
            policies,
            asked,
            stated,
            path,
        } = case;
        let asking = |call: Arc<Call>| {
            // A stream may have to be asked about later.
            let is_told = policies.asks() || call.operation.streams();
            let came = is_told.then(|| Came {
                method: record.method.clone(),
                path: Box::from(path),
                request: record.id,
            });
            stated.asking(asked, call, owners, came)
        };
        match authorize::allowed(owned, policies, asking) {
            Ok(ruled) => {
                if let Ruled::Allowed(permit) = &ruled {
                    note(permit, record);
                }
                Ok(ruled)
            }
            Err(decision) => Err(not_allowed(&decision, record)),
        }
    }
}

/// Asks the decision points of a call that the rules allow.
pub(super) async fn decided(pending: Box<Pending>, record: &mut Record) -> Result<Permit, Reject> {
    match pending.answered().await {
        Ok(permit) => {
            note(&permit, record);
            Ok(permit)
        }
        Err(refused) => {
            record.rule = Some(refused.point);
            record.detail = Some(refused.why.as_str());
            Err(Reject::new(match refused.why {
                Why::Denied => Reason::NotAllowed,
                Why::NoAnswer | Why::TooMany => Reason::DecisionUnavailable,
            }))
        }
    }
}

fn note(permit: &Permit, record: &mut Record) {
    record.rule = permit.judgement().and_then(|judgement| judgement.decided_by()).cloned();
}

pub(super) fn not_allowed(decision: &Decision, record: &mut Record) -> Reject {
    let failed = decision.failed();
    record.rule = failed.map(|(rule, _)| rule.clone());
    record.detail = Some(if failed.is_some() { "rule_failed" } else { "no_rule" });
    Reject::new(Reason::NotAllowed)
}

fn unreadable(error: metadata::Error) -> Reject {
    Reject::new(Reason::InvalidParams).because(match error {
        metadata::Error::TooLarge => "the metadata is too large to be judged",
        metadata::Error::Malformed => "the metadata is no object",
        metadata::Error::Conflicting => "the message and its call name different skills",
    })
}
