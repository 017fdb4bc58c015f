//! Learning who owns what, from every answer that passes and before it does: before other gateways know it too.

use std::borrow::Cow;
use std::sync::Arc;

use crate::a2a::{Operation, Revealed, TaskId};
use crate::affinity::{Affinity, Alias, Beginning, Confirmed, Confirming, Inquiry, Learned, Meaning};
use crate::authorize::{Ownership, Permit};
use crate::observe::{AgentMetrics, Record, Witness};

/// What one call's answers are learned with.
#[derive(Clone)]
pub struct Learner {
    pub affinity: Arc<Affinity>,
    pub metrics: Arc<AgentMetrics>,
    pub endpoint: Arc<str>,
    pub permit: Permit,
    pub ownership: Ownership,
    /// Of a call of 0.1.
    pub naming: Option<Arc<Naming>>,
    /// Of a call that makes the tasks that are new, where that is recorded.
    pub witness: Option<Arc<Witness>>,
}

/// Under which name a caller of 0.1 has a task, or begins one.
#[derive(Debug)]
pub struct Naming {
    pub alias: Alias,
    /// As it was when the task was begun.
    pub session: Box<str>,
    /// The name is the call's until it has ended.
    pub beginning: Option<Beginning>,
}

/// Why an answer must not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// It tells of a task that belongs to somebody else, or of another one than the call names.
    Foreign,
    /// Another gateway began a task under the same name of the caller's, and told of it first.
    Late,
}

impl Learner {
    /// What must be awaited before `learn`: a list tells of many tasks, and other gateways may know whose they are.
    pub fn inquire(&self, revealed: &[Revealed]) -> Inquiry {
        if !self.lists() {
            return Inquiry::Settled;
        }
        let tasks = revealed.iter().filter_map(|one| one.task.as_ref());
        self.affinity.inquire(&self.metrics.name, tasks, None)
    }

    /// What the first answer to a call reveals, and the context that a send names: an answer without a task need not repeat
    /// it, and a conversation that has begun has an owner. Of an error nothing is known to have begun.
    pub fn begun<'a>(&self, revealed: &'a [Revealed], failed: bool) -> Cow<'a, [Revealed]> {
        let call = self.permit.call();
        let sends = matches!(call.operation, Operation::Send | Operation::Stream);
        let named = call.context.as_ref().filter(|_| sends && !failed);
        match named.filter(|context| revealed.iter().all(|one| one.context.as_ref() != Some(context))) {
            None => Cow::Borrowed(revealed),
            Some(context) => {
                let context = Revealed {
                    context: Some(context.clone()),
                    ..Revealed::default()
                };
                Cow::Owned(revealed.iter().cloned().chain([context]).collect())
            }
        }
    }

    /// Behind the gateway an agent sees one caller, and lists everybody's tasks. Whose one without a record is, nobody knows.
    fn lists(&self) -> bool {
        self.ownership.is_enforced() && self.permit.call().operation == Operation::List
    }

    /// What it gives must be awaited before the answer may leave, and told to `confirmed`. Without a shared store, and for
    /// what is known, that is nothing.
    pub fn learn(&self, revealed: &[Revealed]) -> Result<Option<Confirming>, Withheld> {
        self.take_in(revealed)?;
        Ok(self.confirm(revealed))
    }

    /// The same for what waits for no other answers: an event of a stream. Few reveal anything new, and one more turn of the
    /// event loop delays those that do.
    pub fn learn_at_once(&self, revealed: &[Revealed]) -> Result<Option<Confirming>, Withheld> {
        self.take_in(revealed)?;
        self.affinity.commit();
        Ok(self.confirm(revealed))
    }

    fn confirm(&self, revealed: &[Revealed]) -> Option<Confirming> {
        let alias = self.naming.as_ref().map(|naming| &naming.alias);
        self.affinity.confirm_with(&self.metrics.name, revealed, alias)
    }

    fn take_in(&self, revealed: &[Revealed]) -> Result<(), Withheld> {
        let lists = self.lists();
        for one in revealed {
            if lists && !self.is_known(one) {
                continue;
            }
            let is_new = self.witness.is_some() && one.task.is_some() && !self.is_known(one);
            let learned = self.affinity.learn(
                &self.metrics.name,
                &self.endpoint,
                self.permit.owner(),
                self.permit.call().generation,
                one,
            );
            match learned {
                Learned::Known | Learned::Updated | Learned::New | Learned::TooLong => {}
                Learned::Foreign if lists => {}
                Learned::Foreign => self.judge(one)?,
                Learned::Conflict => {
                    self.metrics.owner_conflicts.inc();
                    tracing::warn!(
                        agent = &*self.metrics.name,
                        endpoint = &*self.endpoint,
                        task = one.task.as_ref().map(|task| task.as_str()),
                        "an endpoint returned a task or context that another endpoint owns; the owner stays"
                    );
                    self.judge(one)?;
                }
            }
            if let (Learned::New, true, Some(witness), Some(task)) = (learned, is_new, &self.witness, &one.task) {
                let owner = self.permit.owner();
                witness.created(&self.metrics.name, &self.endpoint, owner, task, one.context.as_ref());
            }
            self.name(one)?;
        }
        Ok(())
    }

    /// What the caller's own name stands for from now on, unless it stands for another task already.
    fn name(&self, one: &Revealed) -> Result<(), Withheld> {
        let (Some(naming), Some(task)) = (&self.naming, &one.task) else {
            return Ok(());
        };
        let meaning = Meaning {
            task: task.clone(),
            session: naming.session.clone(),
        };
        let owner = self.permit.owner();
        let learned = self
            .affinity
            .learn_alias(&self.metrics.name, &naming.alias, &meaning, owner, one.state);
        match learned {
            Learned::Known | Learned::Updated | Learned::New | Learned::TooLong => Ok(()),
            Learned::Foreign | Learned::Conflict => Err(self.another(naming, task)),
        }
    }

    fn another(&self, naming: &Naming, task: &TaskId) -> Withheld {
        if naming.beginning.is_some() {
            return Withheld::Late;
        }
        self.metrics.owner_conflicts.inc();
        tracing::warn!(
            agent = &*self.metrics.name,
            endpoint = &*self.endpoint,
            task = task.as_str(),
            "an agent answered a call of A2A 0.1 with another task than its caller's name stands for; the answer is withheld"
        );
        Withheld::Foreign
    }

    /// Another gateway may have told another owner first, who is known here from now on: then the answer is judged again.
    pub fn confirmed(&self, confirmed: Confirmed, revealed: &[Revealed]) -> Result<(), Withheld> {
        match confirmed {
            Confirmed::Stored | Confirmed::Later => Ok(()),
            Confirmed::Conflict => {
                self.metrics.owner_conflicts.inc();
                if self.lists() {
                    return Ok(());
                }
                revealed.iter().try_for_each(|one| {
                    self.judge(one)?;
                    self.judge_name(one)
                })
            }
        }
    }

    /// Another gateway may have told first what the caller's own name stands for.
    fn judge_name(&self, one: &Revealed) -> Result<(), Withheld> {
        let (Some(naming), Some(task)) = (&self.naming, &one.task) else {
            return Ok(());
        };
        match self.affinity.alias(&self.metrics.name, &naming.alias) {
            Some(meaning) if meaning.task != *task => Err(self.another(naming, task)),
            Some(_) | None => Ok(()),
        }
    }

    fn is_known(&self, one: &Revealed) -> bool {
        let task = one.task.as_ref();
        task.is_some_and(|task| self.affinity.task(&self.metrics.name, task).is_some())
    }

    /// What is somebody else's may be shared. A context that is not goes on all the same: it is the caller's own task that is
    /// told of, and the agent that put it there.
    fn judge(&self, one: &Revealed) -> Result<(), Withheld> {
        if !self.ownership.is_enforced() {
            return Ok(());
        }
        let agent = &*self.metrics.name;
        let foreign = |owner: &str| !self.permit.may_use(&self.ownership, owner);
        let of_task = one.task.as_ref().and_then(|task| self.affinity.task(agent, task));
        if of_task.is_some_and(|owner| foreign(&owner.principal)) {
            self.metrics.owner_conflicts.inc();
            tracing::warn!(
                agent,
                endpoint = &*self.endpoint,
                task = one.task.as_ref().map(|task| task.as_str()),
                "an agent answered with a task that belongs to another caller; the answer is withheld"
            );
            return Err(Withheld::Foreign);
        }
        let of_context = one.context.as_ref().and_then(|id| self.affinity.context(agent, id));
        if of_context.is_some_and(|owner| foreign(&owner.principal)) {
            self.metrics.owner_conflicts.inc();
            tracing::warn!(
                agent,
                endpoint = &*self.endpoint,
                context = one.context.as_ref().map(|context| context.as_str()),
                "an agent answered with a context that belongs to another caller; the owner stays"
            );
        }
        Ok(())
    }
}

/// The ids that the access record shows: of an answer about one task, not of a list.
pub fn note(record: &mut Record, revealed: &[Revealed]) {
    if let [one] = revealed {
        if record.task.is_none() {
            record.task.clone_from(&one.task);
        }
        if record.context.is_none() {
            record.context.clone_from(&one.context);
        }
    }
}
