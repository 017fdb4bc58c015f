//! Which calls are allowed: the rules of the listener that a call came in by, and those of its agent.
//!
//! Of each place that has rules, one must allow the call. A rule that cannot be evaluated allows nothing. What only reads the
//! head of a request is asked before its body is read, and may refuse it then; everything is asked again when the call is known.

use std::net::IpAddr;
use std::sync::Arc;

use http::Method;

use super::Error;
use super::point::Point;
use crate::a2a::metadata::Metadata;
use crate::a2a::{Call, TaskId};
use crate::authenticate::Principal;
use crate::config::Allow;
use crate::expression::{Expression, Failure, Value};
use crate::observe::record::RequestId;

/// The variables that are known before the body is.
const HEAD: [&str; 4] = ["principal", "agent", "source", "time"];

/// The rules of a listener or of an agent, and who is asked beside them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    allow: Arc<[Allow]>,
    point: Option<Arc<Point>>,
}

impl Rules {
    pub fn new(allow: &[Allow]) -> Self {
        Self {
            allow: Arc::from(allow),
            point: None,
        }
    }

    /// With a decision point that must allow calls, too.
    #[must_use]
    pub fn asking(mut self, point: Option<Arc<Point>>) -> Self {
        self.point = point;
        self
    }

    /// Every call is allowed, and nobody is asked.
    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.point.is_none()
    }

    pub fn point(&self) -> Option<&Arc<Point>> {
        self.point.as_ref()
    }

    /// The rules say the same, whoever is asked beside them.
    pub(super) fn are_like(&self, other: &Self) -> bool {
        self.allow == other.allow
    }

    /// Whether some rule reads this variable.
    pub fn reads(&self, variable: &str) -> bool {
        let expressions = self.allow.iter().filter_map(|rule| rule.when.as_ref());
        expressions.into_iter().any(|expression| expression.reads(variable))
    }

    /// Whether no rule can allow any call of this caller.
    fn refuses(&self, principal: &Principal, asked: &Asked) -> bool {
        let may_allow = |rule: &Allow| match &rule.when {
            Some(when) if when.reads_only(&HEAD) => {
                holds(when.evaluate(|name| asked.variable(principal, name))) == Ok(true)
            }
            Some(_) | None => true,
        };
        !self.allow.is_empty() && !self.allow.iter().any(may_allow)
    }

    /// The first rule that allows the call; every call is where there is none.
    fn judge(&self, principal: &Principal, asking: &Asking) -> Judged {
        if self.allow.is_empty() {
            return Judged::Open;
        }
        let is_named = |skill: &str| {
            self.allow
                .iter()
                .any(|rule| rule.skills.iter().any(|named| named == skill))
        };
        // Rules for no skill stand for a skill without rules.
        let skill = asking.skill.as_deref().filter(|skill| is_named(skill));
        let stands = |rule: &&Allow| {
            let operation = rule.operations.is_empty() || rule.operations.contains(&asking.call.operation);
            operation
                && match skill {
                    Some(skill) => rule.skills.iter().any(|named| named == skill),
                    None => rule.skills.is_empty(),
                }
        };
        let mut failed = None;
        for rule in self.allow.iter().filter(stands) {
            let Some(when) = &rule.when else {
                return Judged::Allowed(rule.name.clone());
            };
            match holds(when.evaluate(|name| asking.variable(principal, name))) {
                Ok(true) => return Judged::Allowed(rule.name.clone()),
                Ok(false) => {}
                Err(failure) => failed = failed.or(Some((rule.name.clone(), failure))),
            }
        }
        Judged::Denied { failed }
    }
}

/// Whether an expression holds for a call; one that cannot be evaluated does not.
pub fn condition_holds(when: &Expression, principal: &Principal, asking: &Asking) -> bool {
    holds(when.evaluate(|name| asking.variable(principal, name))) == Ok(true)
}

fn holds(given: Result<Value, Failure>) -> Result<bool, Failure> {
    given?.as_bool().ok_or(Failure::Type)
}

/// What the rules of one place say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// There are none.
    Open,
    /// By the rule of this name.
    Allowed(Arc<str>),
    /// `failed` is the first rule that could not be evaluated.
    Denied { failed: Option<(Arc<str>, Failure)> },
}

/// What both places say, the listener's first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub listener: Judged,
    pub agent: Judged,
}

impl Decision {
    pub fn allows(&self) -> bool {
        [&self.listener, &self.agent]
            .iter()
            .all(|judged| matches!(judged, Judged::Open | Judged::Allowed(_)))
    }

    /// The rule that decided: the agent's, else the listener's.
    pub fn rule(&self) -> Option<&Arc<str>> {
        [&self.agent, &self.listener]
            .into_iter()
            .find_map(|judged| match judged {
                Judged::Allowed(rule) => Some(rule),
                Judged::Open | Judged::Denied { .. } => None,
            })
    }

    /// The rule that could not be evaluated.
    pub fn failed(&self) -> Option<&(Arc<str>, Failure)> {
        [&self.listener, &self.agent]
            .into_iter()
            .find_map(|judged| match judged {
                Judged::Denied { failed } => failed.as_ref(),
                Judged::Open | Judged::Allowed(_) => None,
            })
    }
}

/// Who asks, by what the head of a request tells beside the principal.
#[derive(Clone, Debug)]
pub struct Asked {
    pub agent: Arc<str>,
    pub listener: Arc<str>,
    /// As seen through trusted proxies.
    pub address: IpAddr,
    pub tls: bool,
    /// Seconds since 1970.
    pub now: u64,
}

impl Asked {
    fn variable(&self, principal: &Principal, name: &str) -> Option<Value> {
        Some(match name {
            "principal" => principal.value(),
            "agent" => object([("name", Value::text(&*self.agent))]),
            "source" => object([
                ("address", Value::text(self.address.to_canonical().to_string())),
                ("listener", Value::text(&*self.listener)),
                ("tls", Value::bool(self.tls)),
            ]),
            "time" => Value::time(self.now),
            _ => return None,
        })
    }
}

/// What is asked for.
#[derive(Debug)]
pub struct Asking {
    pub asked: Asked,
    pub call: Arc<Call>,
    pub skill: Option<String>,
    /// Who showed what the skill demands, where that is more than the agent does.
    pub shown: Option<Arc<Principal>>,
    /// `None`: no rule reads it, or it cannot be judged.
    pub metadata: Option<Metadata>,
    /// Whose the task is that the call names, and its last known state.
    pub owner: Option<Arc<str>>,
    pub state: Option<&'static str>,
    /// `None`: it is of no use, because no decision point will be told.
    pub came: Option<Came>,
}

/// The request that a call came in.
#[derive(Clone, Debug)]
pub struct Came {
    pub method: Method,
    /// Without the query, where credentials may stand.
    pub path: Box<str>,
    pub request: RequestId,
}

impl Asking {
    fn variable(&self, principal: &Principal, name: &str) -> Option<Value> {
        let call = &*self.call;
        Some(match name {
            "operation" => Value::text(call.operation.as_str()),
            "generation" => Value::text(call.generation.as_str()),
            "binding" => Value::text(call.binding.as_str()),
            "skill" => Value::text(self.skill.as_deref().unwrap_or_default()),
            "task" => {
                let id = |task: &TaskId| Value::text(task.as_str());
                let context = call.context.as_ref().map_or("", |context| context.as_str());
                object([
                    ("id", call.task.as_ref().map_or_else(|| Value::text(""), id)),
                    ("context", Value::text(context)),
                    ("references", Value::list(call.references.iter().map(id))),
                    ("owner", Value::text(self.owner.as_deref().unwrap_or_default())),
                    ("state", Value::text(self.state.unwrap_or_default())),
                ])
            }
            "message" => {
                let members = self.metadata.as_ref()?.members();
                let metadata = members.map(|(key, json)| (key.clone(), Value::json(json)));
                object([("metadata", Value::map(metadata))])
            }
            _ => return self.asked.variable(principal, name),
        })
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::map(members.map(|(name, value)| (name.to_owned(), value)))
}

/// The rules of both places.
#[derive(Clone, Copy, Debug)]
pub struct Policies<'a> {
    pub listener: &'a Rules,
    pub agent: &'a Rules,
}

impl Policies<'_> {
    pub fn is_open(&self) -> bool {
        self.listener.is_open() && self.agent.is_open()
    }

    /// Whether some rule reads this variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.listener.reads(variable) || self.agent.reads(variable)
    }

    /// The decision points to be asked, the listener's first; one that is both's once.
    pub fn points(&self) -> impl Iterator<Item = &Arc<Point>> {
        points(self.listener, self.agent)
    }

    /// Whether there are decision points to be asked.
    pub fn asks(&self) -> bool {
        self.points().next().is_some()
    }

    /// Whether one of them is told of a message's metadata.
    pub fn tells_metadata(&self) -> bool {
        self.points().any(|point| point.reads_metadata())
    }

    /// Before the body is read.
    pub(super) fn admit(&self, principal: &Principal, asked: &Asked) -> Result<(), Error> {
        match self.listener.refuses(principal, asked) || self.agent.refuses(principal, asked) {
            true => Err(Error::NotAllowed),
            false => Ok(()),
        }
    }

    pub fn decide(&self, principal: &Principal, asking: &Asking) -> Decision {
        Decision {
            listener: self.listener.judge(principal, asking),
            agent: self.agent.judge(principal, asking),
        }
    }
}

/// The decision points of both places.
pub(super) fn points<'a>(listener: &'a Rules, agent: &'a Rules) -> impl Iterator<Item = &'a Arc<Point>> {
    let first = listener.point.as_ref();
    let same = |point: &&Arc<Point>| first.is_some_and(|first| Arc::ptr_eq(first, point));
    let second = agent.point.as_ref().filter(|point| !same(point));
    first.into_iter().chain(second)
}
