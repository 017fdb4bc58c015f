//! To which agent a call at the front door goes.
//!
//! The agent that has the task or the context which the call names and its caller may use; else the one that the call names, by its
//! tenant, by the extension of the card or by the configured key; else that of the first rule that holds; else the default. Nothing
//! here tells a caller of somebody else's task: what it may not use is as unknown as what does not exist.

use std::sync::{Arc, OnceLock};

use http::request;

use super::{Came, Member};
use crate::a2a::card::gather::CHOICE;
use crate::a2a::metadata::Metadata;
use crate::a2a::{Generation, Operation};
use crate::affinity::{Alias, Inquiry, Knowledge};
use crate::authorize::{self, Asking};
use crate::config::Listed;
use crate::observe::Reason;
use crate::pipeline::Pipeline;
use crate::pipeline::usable::Caller;
use crate::respond::Reject;

pub(super) enum Chosen<'a> {
    /// And how it was found.
    One(&'static str, &'a Member),
    /// The call is about all of them.
    All,
}

/// What is known of the task or the context that a call names.
enum Known<'a> {
    At(&'a Member),
    /// Several agents have one of this id.
    Several(Vec<&'a Member>),
    Nowhere,
}

impl Pipeline {
    /// `told` is the tenant that the call names.
    pub(super) async fn choose<'c>(
        &self,
        came: &Came<'c>,
        told: Option<&str>,
        parts: &request::Parts,
    ) -> Result<Chosen<'c>, Reject> {
        let scene = came.scene;
        // Read where it is needed: a call about a task that is known goes there whatever it says.
        let metadata = OnceLock::new();
        let metadata = || {
            let read = metadata.get_or_init(|| Metadata::read(&came.call, &came.bytes).ok());
            read.as_ref()
        };
        let named = || match named(came, told, metadata)? {
            Some(None) => Err(self.nobody(came, "there is no agent of this name")),
            Some(found) => Ok(found),
            None => Ok(None),
        };
        match self.known(came, parts).await? {
            Known::At(member) => return Ok(Chosen::One("affinity", member)),
            Known::Several(members) => {
                let named = named()?;
                let of_them = named.filter(|named| members.iter().any(|member| std::ptr::eq(*member, *named)));
                return match of_them {
                    Some(member) => Ok(Chosen::One("named", member)),
                    None => Err(self.nobody(came, "several agents have a task of this id")),
                };
            }
            Known::Nowhere => {}
        }
        if let Some(member) = named()? {
            return Ok(Chosen::One("named", member));
        }
        if matches!(came.call.operation, Operation::List | Operation::ExtendedCard) {
            return Ok(Chosen::All);
        }
        let member = |name: &str| scene.members.iter().find(|member| *member.agent.metrics.name == *name);
        let asking = Asking {
            asked: came.asked.clone(),
            call: Arc::new(came.call.clone()),
            skill: None,
            shown: None,
            metadata: metadata().cloned(),
            owner: None,
            state: None,
            came: None,
        };
        let section = &came.front.section;
        let ruled =
            (section.rules.iter()).find(|rule| authorize::condition_holds(&rule.when, &came.principal, &asking));
        if let Some(rule) = ruled {
            let member = member(&rule.agent).ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
            return Ok(Chosen::One("rule", member));
        }
        if let Some(name) = &section.default {
            let member = member(name).ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
            return Ok(Chosen::One("default", member));
        }
        // Only where no choice is left to the caller: one agent alone is meant anyway.
        if let [only] = scene.members.as_slice()
            && section.agents.len() == 1
        {
            return Ok(Chosen::One("default", only));
        }
        if came.call.task.is_some() {
            return Err(Reject::new(Reason::TaskNotFound));
        }
        Err(self.nobody(came, "name one"))
    }

    /// Where the task is, or else the context, that the call names and its caller may use.
    async fn known<'c>(&self, came: &Came<'c>, parts: &request::Parts) -> Result<Known<'c>, Reject> {
        let call = &came.call;
        if call.task.is_none() && call.context.is_none() {
            return Ok(Known::Nowhere);
        }
        let (mut found, mut partial) = (Vec::new(), false);
        for member in &came.scene.members {
            let name = &*member.agent.metrics.name;
            let inquiry = self.affinity.inquire(name, &call.task, &call.context);
            partial |= knowledge(inquiry).await == Knowledge::Partial;
            let owner = match &call.task {
                Some(task) => self.affinity.task(name, task),
                None => None,
            };
            let context = call.context.as_ref().filter(|_| call.task.is_none());
            let owner = owner.or_else(|| self.affinity.context(name, context?));
            let of_0_1 = call.generation != Generation::V1_0 && member.agent.v0_1.is_some() && call.task.is_some();
            if owner.is_none() && !of_0_1 {
                continue;
            }
            // Nor does a limit that is reached tell that there is such a task.
            let Ok(Some(principal)) = self.known_at(came, member, parts).await else {
                continue;
            };
            let ownership = &member.enforced.ownership;
            let Some(own) = ownership.owner(&principal) else {
                continue;
            };
            let mine = match (owner, &call.task) {
                (Some(owner), _) => ownership.permits(&principal, &own, &owner.principal, call.operation),
                (None, Some(task)) => {
                    let alias = Alias::new(&own, task);
                    partial |= knowledge(self.affinity.inquire_alias(name, &alias)).await == Knowledge::Partial;
                    self.affinity.alias(name, &alias).is_some()
                }
                (None, None) => false,
            };
            if mine {
                found.push(member);
            }
        }
        match found.as_slice() {
            // Another gateway may know it.
            [] if partial && call.task.is_some() => Err(Reject::new(Reason::OwnerUnavailable)),
            [] => Ok(Known::Nowhere),
            [only] => Ok(Known::At(only)),
            _ => Ok(Known::Several(found)),
        }
    }

    /// Names the agents to which the caller may send.
    fn nobody(&self, came: &Came<'_>, why: &str) -> Reject {
        let may_send = |member: &&Member| {
            let principal = member.enforced.requirement.readmit(&came.principal);
            principal
                .filter(|_| member.listed != Listed::Never)
                .is_some_and(|principal| {
                    let caller = Caller {
                        principal: &principal,
                        policies: self.policies(came.downstream, &member.agent),
                        asked: &self.asked(came.downstream, &member.agent, came.client),
                    };
                    caller.may_send(None)
                })
        };
        let open = came.scene.members.iter().filter(may_send);
        let names: Vec<&str> = open.map(|member| &*member.agent.metrics.name).collect();
        let names = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        };
        Reject::new(Reason::AgentNotNamed).because(format!(
            "{why}; the agents are {names}: as `tenant`, or in the metadata as `{CHOICE}`"
        ))
    }
}

async fn knowledge(inquiry: Inquiry) -> Knowledge {
    match inquiry {
        Inquiry::Settled => Knowledge::Whole,
        Inquiry::Away => Knowledge::Partial,
        Inquiry::Asking(asking) => asking.await,
    }
}

/// The agent that the call names; the inner `None`: there is none of this name.
fn named<'c, 'm>(
    came: &Came<'c>,
    told: Option<&str>,
    metadata: impl Fn() -> Option<&'m Metadata>,
) -> Result<Option<Option<&'c Member>>, Reject> {
    let keys = [Some(CHOICE), came.front.section.metadata_key.as_deref()];
    let mut name = told.map(str::to_owned);
    for key in keys.into_iter().flatten() {
        if name.is_some() {
            break;
        }
        let Some(metadata) = metadata() else { break };
        let value = metadata.get(key);
        let value = value.map_err(|_| {
            Reject::new(Reason::InvalidParams).because("the message and its call name different agents")
        })?;
        if let Some(value) = value {
            let text = value.as_str();
            let no_text = || Reject::new(Reason::InvalidParams).because("the agent's name is no text");
            name = Some(text.ok_or_else(no_text)?.to_owned());
        }
    }
    let Some(name) = name else { return Ok(None) };
    // Names have no slash, ids of skills have one behind it.
    let name = name.split('/').next().unwrap_or_default();
    let member = came
        .scene
        .members
        .iter()
        .find(|member| *member.agent.metrics.name == *name);
    Ok(Some(member))
}
