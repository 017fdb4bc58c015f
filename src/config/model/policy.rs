//! Who may make which calls, and use which tasks.

use std::sync::Arc;

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
