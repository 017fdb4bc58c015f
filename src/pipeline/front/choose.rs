//! To which agent a call at the front door goes.
//!
//! The agent that has the task or the context which the call names and its caller may use; else the one that the call names, by its
//! tenant, by the extension of the card or by the configured key; else that of the first rule that holds; else the default. Nothing
//! here tells a caller of somebody else's task: what it may not use is as unknown as what does not exist.

use std::sync::Arc;

use futures_util::future::join_all;
use http::request;

use super::Came;
use super::scene::Member;
use crate::a2a::card::gather::CHOICE;
use crate::a2a::json::Limits;
use crate::a2a::metadata::{self, Metadata};
use crate::a2a::{Call, Generation, Operation};
use crate::affinity::{Alias, Inquiry, Knowledge};
use crate::authorize::{self, Asking};
use crate::config::Listed;
use crate::observe::Reason;
use crate::pipeline::usable::Caller;
use crate::pipeline::{Agent, Pipeline};
use crate::respond::Reject;

pub(super) enum Chosen<'a> {
    /// And how it was found.
    One(How, &'a Member),
    /// The call is about all of them.
    All,
}

#[derive(Clone, Copy)]
pub(super) enum How {
    Affinity,
    Named,
    /// By its place.
    Rule(usize),
    Default,
}

impl How {
    /// The label of it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::Named => "named",
            Self::Rule(_) => "rule",
            Self::Default => "default",
        }
    }
}

/// What is known of the task or the context that a call names.
enum Known<'a> {
    At(&'a Member),
    /// Several agents have one of this id.
    Several(Vec<&'a Member>),
    /// At this moment nobody can tell, and why.
    Unclear(Reject),
    Nowhere,
}

/// Whose something is, if anybody's.
struct Whose {
    owner: Option<Arc<str>>,
    /// Other gateways may know more.
    partial: bool,
}

impl Pipeline {
    /// `told` is the tenant that the call names.
    pub(super) async fn choose<'c>(
        &self,
        came: &Came<'c>,
        told: Option<&str>,
        parts: &request::Parts,
    ) -> Result<Chosen<'c>, Reject> {
        match self.known(came, parts).await? {
            Known::At(member) => Ok(Chosen::One(How::Affinity, member)),
            Known::Several(members) => {
                let named = self.named(came, told)?;
                let of_them = named.filter(|named| members.iter().any(|member| std::ptr::eq(*member, *named)));
                match of_them {
                    Some(member) => Ok(Chosen::One(How::Named, member)),
                    None => Err(self.nobody(came, "several agents have a task of this id")),
                }
            }
            // Who says where it is sent is sent there.
            Known::Unclear(reject) => match self.named(came, told)? {
                Some(member) => Ok(Chosen::One(How::Named, member)),
                None => Err(reject),
            },
            Known::Nowhere => self.said(came, told),
        }
    }

    /// By what the call says alone, and not by what is under way.
    pub(super) fn said<'c>(&self, came: &Came<'c>, told: Option<&str>) -> Result<Chosen<'c>, Reject> {
        let scene = came.scene;
        if let Some(member) = self.named(came, told)? {
            return Ok(Chosen::One(How::Named, member));
        }
        if matches!(came.call.operation, Operation::List | Operation::ExtendedCard) {
            return Ok(Chosen::All);
        }
        let asking = Asking {
            asked: came.asked.clone(),
            call: Arc::new(came.call.clone()),
            skill: None,
            shown: None,
            // A rule that reads what cannot be read does not hold.
            metadata: Metadata::read(&came.call, &came.bytes).ok(),
            owner: None,
            state: None,
            came: None,
        };
        let section = &came.front.section;
        let mut rules = section.rules.iter().enumerate();
        let ruled = rules.find(|(_, rule)| authorize::condition_holds(&rule.when, &came.principal, &asking));
        if let Some((place, rule)) = ruled {
            let member = scene
                .member(&rule.agent)
                .ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
            return Ok(Chosen::One(How::Rule(place), member));
        }
        if let Some(name) = &section.default {
            let member = scene.member(name).ok_or_else(|| Reject::new(Reason::AgentNotReady))?;
            return Ok(Chosen::One(How::Default, member));
        }
        // Only where no choice is left to the caller: one agent alone is meant anyway.
        if let [only] = scene.members.as_slice()
            && section.agents.len() == 1
        {
            return Ok(Chosen::One(How::Default, only));
        }
        if came.call.task.is_some() {
            return Err(Reject::new(Reason::TaskNotFound));
        }
        Err(self.nobody(came, "name one"))
    }

    fn named<'c>(&self, came: &Came<'c>, told: Option<&str>) -> Result<Option<&'c Member>, Reject> {
        match named(came, told, self.json)? {
            Named::Nobody => Ok(None),
            Named::Agent(member) => Ok(Some(member)),
            Named::Absent => Err(Reject::new(Reason::AgentNotReady)),
            Named::Unknown => Err(self.nobody(came, "there is no agent of this name")),
        }
    }

    /// Where the task is, or else the context, that the call names and its caller may use.
    async fn known<'c>(&self, came: &Came<'c>, parts: &request::Parts) -> Result<Known<'c>, Reject> {
        let call = &came.call;
        if call.task.is_none() && call.context.is_none() {
            return Ok(Known::Nowhere);
        }
        let (mut found, mut partial, mut limited) = (Vec::new(), false, None);
        // At once: the store that gateways share takes a moment for each.
        let members = &came.scene.members;
        let all = join_all(members.iter().map(|member| self.whose(call, &member.agent))).await;
        for (member, whose) in members.iter().zip(all) {
            let (agent, enforced) = (&member.agent, &*member.enforced);
            // Whatever there is: a limit that is reached must not tell, nor send elsewhere what is here.
            if let Some(reached) = came.limit(agent, enforced, parts) {
                limited = Some((agent, reached));
                continue;
            }
            partial |= whose.partial;
            let of_0_1 = call.generation != Generation::V1_0 && agent.v0_1.is_some() && call.task.is_some();
            if whose.owner.is_none() && !of_0_1 {
                continue;
            }
            let Ok(Some(principal)) = self.known_at(came, agent, enforced, parts).await else {
                continue;
            };
            let Some(own) = enforced.ownership.owner(&principal) else {
                continue;
            };
            let mine = match (&whose.owner, &call.task) {
                (Some(owner), _) => (enforced.ownership).permits(&principal, &own, owner, call.operation),
                (None, Some(task)) => {
                    let alias = Alias::new(&own, task);
                    let name = &agent.metrics.name;
                    partial |= knowledge(self.affinity.inquire_alias(name, &alias)).await == Knowledge::Partial;
                    self.affinity.alias(name, &alias).is_some()
                }
                (None, None) => false,
            };
            if mine {
                found.push(member);
            }
        }
        // What waits for its agent goes to no other one.
        for absent in came.front.absent(came.scene) {
            if found.is_empty() && self.waits_for(came, &absent.agent, parts).await {
                return Err(Reject::new(Reason::AgentNotReady));
            }
        }
        match found.as_slice() {
            // Another gateway may know it. A list has what each agent knows.
            [] if partial && call.operation != Operation::List => {
                Ok(Known::Unclear(Reject::new(Reason::OwnerUnavailable)))
            }
            [] => Ok(match limited {
                Some((agent, reached)) => Known::Unclear(agent.limited(&reached)),
                None => Known::Nowhere,
            }),
            [only] => Ok(Known::At(only)),
            _ => Ok(Known::Several(found)),
        }
    }

    /// The owner of the task, or else of the context, that a call names, by the records of an agent.
    async fn whose(&self, call: &Call, agent: &Agent) -> Whose {
        let name = &*agent.metrics.name;
        let inquiry = self.affinity.inquire(name, &call.task, &call.context);
        let partial = knowledge(inquiry).await == Knowledge::Partial;
        let owner = match (&call.task, &call.context) {
            (Some(task), _) => self.affinity.task(name, task),
            (None, Some(context)) => self.affinity.context(name, context),
            (None, None) => None,
        };
        let owner = owner.map(|owner| owner.principal);
        Whose { owner, partial }
    }

    /// Whether the call is about what its caller may use at an agent that is not in service.
    async fn waits_for(&self, came: &Came<'_>, agent: &Agent, parts: &request::Parts) -> bool {
        let whose = self.whose(&came.call, agent).await;
        let alias = |own: &Arc<str>| {
            let alias = Alias::new(own, came.call.task.as_ref()?);
            self.affinity.alias(&agent.metrics.name, &alias)
        };
        match agent.enforced.load_full() {
            Some(enforced) => {
                let known = self.known_at(came, agent, &enforced, parts).await.ok().flatten();
                let own = known.and_then(|principal| Some((enforced.ownership.owner(&principal)?, principal)));
                own.is_some_and(|(own, principal)| match &whose.owner {
                    Some(owner) => (enforced.ownership).permits(&principal, &own, owner, came.call.operation),
                    None => alias(&own).is_some(),
                })
            }
            // Who may use it else, nobody knows yet.
            None => match &whose.owner {
                Some(owner) => *owner == came.principal.id,
                None => alias(&came.principal.id).is_some(),
            },
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

/// What a call says of the agent that it is for.
enum Named<'a> {
    Nobody,
    Agent(&'a Member),
    /// It is not in service.
    Absent,
    /// There is none of this name.
    Unknown,
}

fn named<'c>(came: &Came<'c>, told: Option<&str>, limits: Limits) -> Result<Named<'c>, Reject> {
    let keys = [Some(CHOICE), came.front.section.metadata_key.as_deref()];
    let mut name = told.map(str::to_owned);
    for key in keys.into_iter().flatten() {
        if name.is_some() {
            break;
        }
        let because = |why| Reject::new(Reason::InvalidParams).because(why);
        let value = Metadata::read_text(&came.call, &came.bytes, key, limits).map_err(|error| {
            because(match error {
                metadata::Error::Conflicting => "the message and its call name different agents",
                metadata::Error::TooLarge | metadata::Error::Malformed => "the metadata cannot be read",
            })
        })?;
        name = match value {
            None => None,
            Some(Some(text)) => Some(text),
            Some(None) => return Err(because("the agent's name is no text")),
        };
    }
    let Some(name) = name else { return Ok(Named::Nobody) };
    // Names have no slash, ids of skills have one behind it.
    let name = name.split('/').next().unwrap_or_default();
    Ok(match came.scene.member(name) {
        Some(member) => Named::Agent(member),
        None if came
            .front
            .absent(came.scene)
            .any(|absent| *absent.agent.metrics.name == *name) =>
        {
            Named::Absent
        }
        None => Named::Unknown,
    })
}
