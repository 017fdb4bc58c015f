//! The rules that a call must pass, and the skill that it names.

use std::net::IpAddr;
use std::sync::Arc;

use http::request;

use super::{Agent, Delegated, Downstream, Enforced, Pipeline};
use crate::a2a::Call;
use crate::a2a::metadata::{self, Metadata};
use crate::authenticate::{self, Principal, Requirement};
use crate::authorize::{self, Asked, Asking, Came, Decision, Owned, Pending, Permit, Policies, Ruled, Rules, Why};
use crate::observe::{Reason, Record};
use crate::owners::Owners;
use crate::respond::Reject;

/// Longest name of a skill; ids in cards have some 20 characters.
const MAX_SKILL: usize = 255;

/// The rules of the listeners that have some. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ListenerRules(pub Arc<[(String, Rules)]>);

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
    metadata: Option<Metadata>,
}

impl Stated {
    pub(super) fn skill(&self) -> Option<&str> {
        self.skill.as_deref()
    }

    pub(super) fn asking(self, asked: Asked, call: Arc<Call>, owners: &Owners, came: Option<Came>) -> Asking {
        Asking {
            asked,
            call,
            skill: self.skill,
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

impl Pipeline {
    pub(super) fn policies<'a>(&'a self, listener: &str, agent: &'a Agent) -> Policies<'a> {
        let listeners = self.listeners.0.iter();
        Policies {
            listener: listeners
                .filter(|(name, _)| name == listener)
                .map(|(_, rules)| rules)
                .next()
                .unwrap_or(&self.open),
            agent: &agent.policy.rules,
        }
    }

    pub(super) fn asked(&self, downstream: &Downstream, agent: &Agent, client: IpAddr) -> Asked {
        Asked {
            agent: agent.metrics.name.clone(),
            listener: downstream.listener.clone(),
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
        let policies = self.policies(&shown.downstream.listener, agent);
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
        let Some(named) = key.and_then(|key| metadata.get(key)) else {
            let metadata = Some(metadata);
            return Ok(Stated { skill: None, metadata });
        };
        let skill = match named.as_str() {
            Some(skill) if (1..=MAX_SKILL).contains(&skill.len()) => skill.to_owned(),
            Some(_) | None => return Err(Reject::new(Reason::InvalidParams).because("the skill's name is no text")),
        };
        let skills = enforced.skills.as_ref();
        let skills = skills.ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
        match skills.get(&skill) {
            None => {}
            Some(SkillDemand::Unmet) => return Err(Reject::new(Reason::Forbidden)),
            Some(SkillDemand::Met(requirement)) => match shown.delegated {
                Some(_) => {
                    let met = requirement.readmit(principal);
                    met.ok_or_else(|| Reject::new(Reason::Forbidden))?;
                }
                None => {
                    let identified =
                        authenticate::identify(requirement, &shown.downstream.peer, shown.client, shown.parts);
                    identified.await.map_err(|error| Reject::from(&error))?;
                }
            },
        }
        Ok(Stated {
            skill: Some(skill),
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
    })
}
