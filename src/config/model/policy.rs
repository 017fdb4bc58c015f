//! Who may make which calls, and use which tasks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::super::Secret;
use crate::a2a::Operation;
use crate::expression::Expression;

/// Who may make which calls of an agent, and do what with its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `None`: `Principal` where the agent requires authentication, else `Nobody`.
    pub task_owner: Option<TaskOwner>,
    pub task_sharing: Vec<TaskSharing>,
    /// Empty: every call.
    pub allow: Vec<Allow>,
    /// The name of the decision point that must allow calls, too.
    pub decision_point: Option<String>,
    /// The key of metadata that names the skill of a call.
    pub skill: Option<String>,
}

/// A rule that allows calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    pub name: Arc<str>,
    /// Empty: every operation.
    pub operations: Vec<Operation>,
    /// Empty: calls without a skill, and those whose skill no rule names.
    pub skills: Vec<String>,
    /// `None`: always.
    pub when: Option<Expression>,
}

/// A service that is asked whether calls are allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionPoint {
    pub kind: DecisionKind,
    pub url: String,
    pub ca: Option<PathBuf>,
    /// That the gateway shows there.
    pub token: Option<Secret<String>>,
    /// For one question.
    pub timeout: Duration,
    /// How long an answer holds; zero: for one call.
    pub cache_ttl: Duration,
    /// Most questions under way.
    pub concurrent: usize,
    /// The caller's claims that are sent.
    pub claims: Vec<String>,
}

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// The Data API of Open Policy Agent.
    Opa,
    /// Envoy's HTTP service for external authorization.
    ExtAuthz,
}

/// To whom a task and a context belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskOwner {
    /// The principal whose call made them.
    Principal,
    /// Everybody who has the same value of this claim or attribute.
    Claim(String),
    /// To nobody in particular: whoever may call the agent may use all of them.
    Nobody,
}

/// Lets some callers use tasks of others. Patterns: `*` stands for any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSharing {
    /// Any of these.
    pub with: Vec<CallerPattern>,
    /// The owners whose tasks they may use.
    pub owners: Vec<String>,
    pub access: TaskAccess,
}

/// Names callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerPattern {
    Id(String),
    /// `name=value`.
    Attribute(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAccess {
    /// What only reads: get, list, subscribe, push configurations read.
    Read,
    Full,
}
