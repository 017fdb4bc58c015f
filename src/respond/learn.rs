//! Learning who owns what, from every answer that passes and before it does.

use std::sync::Arc;

use crate::a2a::{Generation, Revealed};
use crate::affinity::{Affinity, Learned};
use crate::observe::{AgentMetrics, Record};

/// What one call's answers are learned with.
#[derive(Clone)]
pub struct Learner {
    pub affinity: Arc<Affinity>,
    pub metrics: Arc<AgentMetrics>,
    pub endpoint: Arc<str>,
    pub principal: Arc<str>,
    pub generation: Generation,
}

impl Learner {
    pub fn learn(&self, revealed: &[Revealed]) {
        for one in revealed {
            let learned = self.affinity.learn(
                &self.metrics.name,
                &self.endpoint,
                &self.principal,
                self.generation,
                one,
            );
            if learned == Learned::Conflict {
                self.metrics.owner_conflicts.inc();
                tracing::warn!(
                    agent = &*self.metrics.name,
                    endpoint = &*self.endpoint,
                    task = one.task.as_ref().map(|task| task.as_str()),
                    "an endpoint returned a task or context that another endpoint owns; the owner stays"
                );
            }
        }
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
