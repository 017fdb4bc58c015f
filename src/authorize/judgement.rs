//! What a call was allowed by, so that an open stream can be judged again by another configuration.
//!
//! By rules at once; by decision points that have not allowed it, when they have been asked. The call, its time and its task are
//! as they were.

use std::sync::Arc;

use super::point::{Point, Refused, Why};
use super::policy::{Asking, Decision, Policies, Rules, points};
use crate::authenticate::Principal;

/// A decision and what it was made from.
#[derive(Debug)]
pub struct Judgement {
    listener: Rules,
    agent: Rules,
    principal: Arc<Principal>,
    asking: Arc<Asking>,
    decision: Decision,
}

/// What another configuration says of a call that was allowed.
pub enum Again {
    Stands,
    /// No rule allows it.
    Falls,
    /// Its rules allow it, and there are decision points to be asked.
    Asks(Box<Asks>),
}

/// A judgement that holds when decision points have said so.
#[derive(Debug)]
pub struct Asks {
    points: Vec<Arc<Point>>,
    judgement: Judgement,
}

impl Asks {
    /// Asks them, each in its turn.
    pub async fn answered(self) -> Result<Arc<Judgement>, Refused> {
        let Judgement { principal, asking, .. } = &self.judgement;
        for point in &self.points {
            let verdict = point.ask_in_turn(principal, asking).await;
            verdict.map_err(|why| refused(point, why))?;
        }
        Ok(Arc::new(self.judgement))
    }
}

impl Judgement {
    pub(super) fn new(policies: Policies<'_>, principal: &Arc<Principal>, asking: Asking, decision: Decision) -> Self {
        Self {
            listener: policies.listener.clone(),
            agent: policies.agent.clone(),
            principal: principal.clone(),
            asking: Arc::new(asking),
            decision,
        }
    }

    /// The skill that the call names, if it names one.
    pub fn skill(&self) -> Option<&str> {
        self.asking.skill.as_deref()
    }

    /// Who showed what the skill demands.
    pub fn shown(&self) -> Option<&Arc<Principal>> {
        self.asking.shown.as_ref()
    }

    /// The rule that decided, else the decision point that was asked last.
    pub fn decided_by(&self) -> Option<&Arc<str>> {
        let point = || points(&self.listener, &self.agent).last();
        self.decision.rule().or_else(|| point().map(|point| point.label()))
    }

    /// Asks the decision points, the listener's first. Both have to allow the call.
    pub(super) async fn ask_points(&self) -> Result<(), Refused> {
        for point in points(&self.listener, &self.agent) {
            let verdict = point.ask(&self.principal, &self.asking).await;
            verdict.map_err(|why| refused(point, why))?;
        }
        Ok(())
    }

    /// By other rules and decision points, for somebody who may be another by now.
    pub fn again(&self, policies: Policies<'_>, principal: &Arc<Principal>) -> Again {
        let is_known = *self.principal == **principal;
        let same_rules = policies.listener.are_like(&self.listener) && policies.agent.are_like(&self.agent);
        let decided = (!is_known || !same_rules).then(|| policies.decide(principal, &self.asking));
        if decided.as_ref().is_some_and(|decision| !decision.allows()) {
            return Again::Falls;
        }
        let has_allowed = |point: &Arc<Point>| points(&self.listener, &self.agent).any(|known| known.is_like(point));
        let asked = policies.points().filter(|point| !is_known || !has_allowed(point));
        let asked: Vec<Arc<Point>> = asked.cloned().collect();
        if asked.is_empty() {
            return Again::Stands;
        }
        Again::Asks(Box::new(Asks {
            points: asked,
            judgement: Self {
                listener: policies.listener.clone(),
                agent: policies.agent.clone(),
                principal: principal.clone(),
                asking: self.asking.clone(),
                decision: decided.unwrap_or_else(|| self.decision.clone()),
            },
        }))
    }
}

fn refused(point: &Point, why: Why) -> Refused {
    let point = point.label().clone();
    Refused { point, why }
}
