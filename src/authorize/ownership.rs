//! Whose task is it: the owner of what a caller makes, and what callers may do with tasks of others.
//!
//! Owners are compared as texts, those that stand in task records. Knows nothing of records.

use std::sync::Arc;

use crate::a2a::Operation;
use crate::authenticate::Principal;
use crate::authenticate::pattern;
use crate::config::{CallerPattern, Policy, TaskAccess, TaskOwner, TaskSharing};

/// The rule of one agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ownership(Arc<Rule>);

#[derive(Debug)]
struct Rule {
    owner: TaskOwner,
    sharing: Vec<TaskSharing>,
}

impl Ownership {
    /// `open`: the agent admits anonymous callers. Those are nobody, so that by default nothing belongs to them.
    pub fn new(policy: &Policy, open: bool) -> Self {
        let default = if open { TaskOwner::Nobody } else { TaskOwner::Principal };
        Self(Arc::new(Rule {
            owner: policy.task_owner.clone().unwrap_or(default),
            sharing: policy.task_sharing.clone(),
        }))
    }

    /// Tasks belong to somebody, and others must not see them.
    pub fn is_enforced(&self) -> bool {
        self.0.owner != TaskOwner::Nobody
    }

    /// The owner of what this caller makes; `None` if it lacks the claim that owns.
    pub fn owner(&self, principal: &Principal) -> Option<Arc<str>> {
        match &self.0.owner {
            TaskOwner::Principal | TaskOwner::Nobody => Some(principal.id.clone()),
            TaskOwner::Claim(name) => principal.attribute(name).cloned(),
        }
    }

    /// Whether a caller, whose own tasks belong to `own`, may do this with what belongs to `owner`.
    pub fn permits(&self, principal: &Principal, own: &str, owner: &str, operation: Operation) -> bool {
        !self.is_enforced()
            || own == owner
            || self
                .0
                .sharing
                .iter()
                .any(|rule| shares(rule, principal, owner, operation))
    }
}

fn shares(rule: &TaskSharing, principal: &Principal, owner: &str, operation: Operation) -> bool {
    let allows = match rule.access {
        TaskAccess::Full => true,
        TaskAccess::Read => operation.is_read() || operation == Operation::Subscribe,
    };
    let matches = |pattern: &str, name: &str| pattern::matches(pattern.as_bytes(), name.as_bytes());
    let caller = || {
        rule.with.iter().any(|with| match with {
            CallerPattern::Id(id) => matches(id, &principal.id),
            CallerPattern::Attribute(wanted) => principal.attributes.iter().any(|has| matches(wanted, has)),
        })
    };
    let owned = || rule.owners.iter().any(|of| matches(of, owner));
    allows && caller() && owned()
}
