//! Whose the tasks and contexts are that a call names, as far as this gateway and those that share its store know.
//!
//! Tells; whether the caller may use them is decided by `authorize`. Where nobody can be asked, or the shared store gets
//! back what it had lost, what is not known here is unavailable rather than unknown.

use std::sync::Arc;

use crate::a2a::{Call, Operation};
use crate::affinity::{Affinity, Inquiry, Knowledge, Owner};
use crate::authorize::{self, Ownership, Permit};
use crate::observe::Reason;
use crate::respond::Reject;

/// The ids of a call, and where to ask for them.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    pub affinity: &'a Arc<Affinity>,
    pub agent: &'a str,
    pub call: &'a Call,
}

impl Named<'_> {
    /// What must be awaited before `owners`: other gateways may know what this one does not.
    pub fn inquire(&self) -> Inquiry {
        let tasks = self.call.task.iter().chain(&self.call.references);
        self.affinity.inquire(self.agent, tasks, &self.call.context)
    }

    pub fn owners(&self) -> Owners {
        let of_task = |task| self.affinity.task(self.agent, task);
        let context = self.call.context.as_ref();
        Owners {
            task: self.call.task.as_ref().and_then(of_task),
            context: context.and_then(|context| self.affinity.context(self.agent, context)),
            references: self.call.references.iter().map(of_task).collect(),
        }
    }

    /// Somebody else's task and nobody's are one answer, after one wait: where gateways share records, what is known here is
    /// asked for as well, unless something was asked already and `told` what is known, and while nobody can tell both are
    /// unavailable.
    pub async fn refused(&self, error: authorize::Error, told: Option<Knowledge>) -> Reject {
        let tasks = self.call.task.iter().chain(&self.call.references);
        let knowledge = match told {
            Some(knowledge) => knowledge,
            None => match self.affinity.inquire_anew(self.agent, tasks, &self.call.context) {
                Inquiry::Settled => Knowledge::Whole,
                Inquiry::Away => Knowledge::Partial,
                Inquiry::Asking(asking) => asking.await,
            },
        };
        if knowledge == Knowledge::Partial || self.affinity.is_away() {
            return Reject::new(Reason::OwnerUnavailable);
        }
        Reject::from(error)
    }
}

/// What is known of the ids that a call names.
pub struct Owners {
    task: Option<Owner>,
    context: Option<Owner>,
    references: Vec<Option<Owner>>,
}

impl authorize::Owners for Owners {
    fn of_task(&self) -> Option<&str> {
        self.task.as_ref().map(|owner| &*owner.principal)
    }

    fn of_context(&self) -> Option<&str> {
        self.context.as_ref().map(|owner| &*owner.principal)
    }

    fn of_references(&self) -> impl Iterator<Item = Option<&str>> {
        self.references
            .iter()
            .map(|owner| owner.as_ref().map(|owner| &*owner.principal))
    }
}

impl Owners {
    /// To whom the task belongs that the call names.
    pub fn task_owner(&self) -> Option<&Arc<str>> {
        self.task.as_ref().map(|owner| &owner.principal)
    }

    /// The last known state of that task, as 0.3 calls it.
    pub fn task_state(&self) -> Option<&'static str> {
        Some(self.task.as_ref()?.state?.as_str())
    }

    /// The endpoint that the call must go to: the task's, else the context's.
    pub fn endpoint(self, permit: &Permit, ownership: &Ownership) -> Result<Option<Arc<str>>, Reject> {
        // Of a list the context alone is not refused, and must not show by where the call goes.
        let context = self.context.filter(|owner| permit.may_use(ownership, &owner.principal));
        match (self.task, context) {
            // No single endpoint could see the contradiction (A2A 1.0 §3.4.3).
            (Some(task), Some(context)) if task.endpoint != context.endpoint => Err(Reject::new(Reason::OwnersDiffer)),
            (Some(Owner { endpoint, .. }), _) | (None, Some(Owner { endpoint, .. })) => Ok(Some(endpoint)),
            (None, None) => Ok(None),
        }
    }

    /// For when other gateways cannot be asked, or write back what the store had lost, and may know an id that this one does not: what may be somebody's is not
    /// given to anybody. Where tasks have no owners, the endpoints are asked.
    pub fn alone(self, ownership: &Ownership, call: &Call) -> Result<Self, Reject> {
        let task = call.task.is_some() && self.task.is_none();
        let context = call.context.is_some() && self.context.is_none();
        let references = self.references.iter().any(Option::is_none);
        let unavailable =
            ownership.is_enforced() && (task || references || (context && call.operation != Operation::List));
        if unavailable {
            return Err(Reject::new(Reason::OwnerUnavailable).answering(call));
        }
        Ok(self)
    }

    /// For the access log; the caller is told nothing of it.
    pub fn why_not_found(&self) -> &'static str {
        let Self {
            task,
            context,
            references,
        } = self;
        if task.is_some() || context.is_some() || references.iter().any(Option::is_some) {
            "foreign"
        } else {
            "unknown"
        }
    }
}
