//! Callers of A2A 0.1, who name their tasks themselves: which task of the agent a name stands for.
//!
//! A send under a name that stands for nothing begins a task, and holds the name until an answer, or a notification to its
//! webhook, has told of it. Methods that
//! 0.1 shares with 0.3 are of 0.1 where the id is such a name of the caller's, and what they always were elsewhere: nothing
//! is looked up for other calls, nor where 0.1 is not served.
//!
//! An agent of 0.1 calls a task as its caller does, so that there is nothing to look up but whose the task is. A send under an id
//! that nobody has begins one there; shared methods are of the generation in which the task was begun.

use std::sync::Arc;

use super::{Agent, Enforced, Pipeline};
use crate::a2a::{Binding, Call, Generation, Operation, TaskId, v0_1};
use crate::affinity::{Alias, Beginning, Inquiry, Knowledge};
use crate::authorize::Admitted;
use crate::observe::{Reason, Record};
use crate::respond::Reject;
use crate::respond::learn::Naming;

/// A call under a name of its caller's.
pub(super) struct Named {
    pub words: Box<v0_1::Named>,
    pub naming: Arc<Naming>,
}

/// The task that a send of 0.1 begins at an agent of 0.1.
pub(super) struct Fresh {
    pub task: TaskId,
    /// Nobody else begins one under the same id.
    _hold: Beginning,
}

impl Enforced {
    pub(super) fn is_of_0_1(&self) -> bool {
        self.spoken.iter().any(|spoken| spoken.generation == Generation::V0_1)
    }

    /// The call may be a send of 0.1 to an agent of 0.1, which begins the task that it names if nobody has it.
    pub(super) fn may_begin(&self, call: &Call) -> bool {
        let sends = matches!(call.operation, Operation::Send | Operation::Stream);
        sends && call.generation == Generation::V0_1 && self.is_of_0_1()
    }
}

/// The call may be one of 0.1, where that is served.
pub(super) fn may_name(agent: &Agent, enforced: &Enforced, call: &Call) -> bool {
    let names = match call.generation {
        Generation::V0_1 => true,
        Generation::V0_3 => call.binding == Binding::JsonRpc && v0_1::is_shared(call.operation),
        Generation::V1_0 => false,
    };
    names && (agent.v0_1.is_some() || enforced.is_of_0_1())
}

impl Pipeline {
    /// The call as one about the agent's task, in its generation.
    pub(super) async fn read_name(
        &self,
        agent: &Agent,
        enforced: &Enforced,
        admitted: &Admitted,
        call: Call,
        record: &mut Record,
    ) -> Result<(Call, Option<Named>, Option<Fresh>), Reject> {
        if enforced.is_of_0_1() {
            let (call, fresh) = self.begin(agent, enforced, call, record).await?;
            return Ok((call, None, fresh));
        }
        let (call, named) = self.name(agent, enforced, admitted, call, record).await?;
        Ok((call, named, None))
    }

    async fn name(
        &self,
        agent: &Agent,
        enforced: &Enforced,
        admitted: &Admitted,
        call: Call,
        record: &mut Record,
    ) -> Result<(Call, Option<Named>), Reject> {
        let is_certain = call.generation == Generation::V0_1;
        // Names of callers who are nobody, or who share all their tasks, would meet.
        if !enforced.ownership.is_enforced() || admitted.principal().is_anonymous() {
            if is_certain {
                let refused = Reject::new(Reason::UnsupportedOperation);
                return Err(refused.because(OWNERLESS).answering(&call));
            }
            return Ok((call, None));
        }
        let Some(id) = call.task.clone() else {
            return Ok((call, None));
        };
        let alias = Alias::new(admitted.owner(), &id);
        let name = &*agent.metrics.name;
        let knowledge = match self.affinity.inquire_alias(name, &alias) {
            Inquiry::Settled => Knowledge::Whole,
            Inquiry::Away => Knowledge::Partial,
            Inquiry::Asking(asking) => asking.await,
        };
        let mut meaning = self.affinity.alias(name, &alias);
        let mut beginning = None;
        if meaning.is_none() {
            if !is_certain {
                return Ok((call, None));
            }
            // It may stand for a task that other gateways know.
            if knowledge == Knowledge::Partial {
                return Err(Reject::new(Reason::OwnerUnavailable).answering(&call));
            }
            beginning = agent.beginnings.begin(&alias);
            meaning = self.affinity.alias(name, &alias);
            if meaning.is_some() {
                beginning = None;
            } else if beginning.is_none() {
                return Err(Reject::new(Reason::TaskBeginning).answering(&call));
            } else if !matches!(call.operation, Operation::Send | Operation::Stream) {
                return Err(Reject::new(Reason::TaskNotFound).answering(&call));
            }
        }
        let (task, context, session) = match meaning {
            // The task says which context it is of.
            Some(meaning) => (Some(meaning.task), None, meaning.session),
            None => {
                let session = call.context.as_ref().map_or("", |context| context.as_str());
                let session = Box::from(session);
                (None, call.context, session)
            }
        };
        let words = Box::new(v0_1::Named {
            task: Box::from(id.as_str()),
            session: session.clone(),
            message: Box::from(record.id.as_str()),
        });
        let call = Call {
            generation: Generation::V0_1,
            task,
            context,
            ..call
        };
        record.dialect = Some(call.dialect());
        record.task.clone_from(&call.task);
        let naming = Arc::new(Naming {
            alias,
            session,
            beginning,
        });
        Ok((call, Some(Named { words, naming })))
    }

    /// The same at an agent of 0.1, and a hold on the id of the task that it begins.
    async fn begin(
        &self,
        agent: &Agent,
        enforced: &Enforced,
        call: Call,
        record: &mut Record,
    ) -> Result<(Call, Option<Fresh>), Reject> {
        let Some(id) = call.task.clone() else {
            return Ok((call, None));
        };
        let name = &*agent.metrics.name;
        let knowledge = match self.affinity.inquire(name, [&id], &None) {
            Inquiry::Settled => Knowledge::Whole,
            Inquiry::Away => Knowledge::Partial,
            Inquiry::Asking(asking) => asking.await,
        };
        let known = || self.affinity.task(name, &id);
        if call.generation != Generation::V0_1 {
            let begun = known().map_or(Generation::V0_1, |owner| owner.generation);
            let call = match begun {
                Generation::V0_1 => Call {
                    generation: Generation::V0_1,
                    ..call
                },
                Generation::V0_3 | Generation::V1_0 => call,
            };
            record.dialect = Some(call.dialect());
            return Ok((call, None));
        }
        // Where tasks are nobody's, the agent alone knows which there are.
        if !enforced.may_begin(&call) || !enforced.ownership.is_enforced() || known().is_some() {
            return Ok((call, None));
        }
        // Other gateways may know it.
        if knowledge == Knowledge::Partial {
            return Err(Reject::new(Reason::OwnerUnavailable).answering(&call));
        }
        // Whoever begins it, of whichever owner: the agent has one task of this id.
        let beginning = agent.beginnings.begin(&Alias::new("", &id));
        match (known(), beginning) {
            (Some(_), _) => Ok((call, None)),
            (None, None) => Err(Reject::new(Reason::TaskBeginning).answering(&call)),
            (None, Some(hold)) => {
                let fresh = Fresh { task: id, _hold: hold };
                Ok((Call { task: None, ..call }, Some(fresh)))
            }
        }
    }
}

const OWNERLESS: &str = "callers of A2A 0.1 name their tasks, and here tasks have no owners to tell the names apart";
