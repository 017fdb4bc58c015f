//! What the gateway asks several endpoints of an agent by itself: their tasks, for a list, and which of them knows a task.
//!
//! Both only read. Bounded in how many endpoints are asked at once (`AT_ONCE`), in time, and by what one answer may have;
//! nothing goes on for a caller who left, but for a probe, which several callers may wait for. Where tasks have owners, a task
//! that nobody is known to own is neither shown to a caller nor given to one. No lock is held across an await.

mod filling;
pub mod list;
pub mod probe;
pub mod span;
#[cfg(test)]
mod tests;
pub mod token;
pub mod walk;

use std::sync::Arc;
use std::time::Instant;

use crate::a2a::answer::Whole;
use crate::a2a::{Dialect, json};
use crate::affinity::Affinity;
use crate::authorize::{Ownership, Permit};
use crate::balance::{Endpoints, Fault, Selected};
use crate::observe::{AgentMetrics, Reason};
use crate::respond::answer::{self, Standing};
use crate::respond::learn::Learner;
use crate::upstream::{self, Answer, Head, Outgoing, Upstream};

/// Endpoints asked at once for one call: a few replicas all together, and no burst at an agent that has dozens.
pub const AT_ONCE: usize = 8;

/// One agent, as far as asking it goes.
#[derive(Clone)]
pub struct Fleet {
    pub endpoints: Arc<Endpoints>,
    pub upstream: Arc<Upstream>,
    pub metrics: Arc<AgentMetrics>,
    pub affinity: Arc<Affinity>,
    pub ownership: Ownership,
    pub json: json::Limits,
}

impl Fleet {
    fn learner(&self, permit: &Permit, endpoint: &Arc<str>) -> Learner {
        Learner {
            affinity: self.affinity.clone(),
            metrics: self.metrics.clone(),
            endpoint: endpoint.clone(),
            permit: permit.clone(),
            ownership: self.ownership.clone(),
            naming: None,
            witness: None,
        }
    }

    /// One endpoint's whole answer to a read, with its status. A failure has been counted and logged.
    async fn ask(
        &self,
        permit: &Permit,
        speaks: Dialect,
        selected: &Selected,
        outgoing: Box<Outgoing>,
    ) -> Result<Whole, Reason> {
        let failed = |error: &upstream::Error| {
            if let Some(fault) = error.fault() {
                selected.endpoint().failed(fault, &permit.principal().id);
            }
            answer::failed(&self.metrics, error).reason
        };
        let again = outgoing.clone();
        let mut sent = self.upstream.send(permit, selected, outgoing).await;
        if let Err(failure) = &sent
            && failure.is_of_dead_connection()
        {
            // A read on a connection that died: once more, on a new one, paid like every other try.
            let reason = failed(&failure.error);
            if !self.endpoints.retries.repeat(Instant::now()) {
                self.metrics.retries_refused.inc();
                return Err(reason);
            }
            self.metrics.upstream_retries.inc();
            sent = self.upstream.send(permit, selected, again).await;
        }
        let Answer { mut parts, body } = sent.map_err(|failure| failed(&failure.error))?;
        answer::check_head(&parts, speaks).map_err(|reason| self.refused(reason))?;
        let head = Head::of(&mut parts, &body, speaks);
        if answer::is_stream(&parts, &head, permit.call().operation) {
            return Err(self.refused(Reason::UpstreamBadAnswer));
        }
        let standing = Standing::of(&parts);
        let whole = self.upstream.whole(head, body, selected.endpoint()).await;
        let whole = whole.map_err(|error| failed(&error))?;
        match standing.told(speaks, &whole).with(true) {
            Some(true) => selected.endpoint().succeeded(),
            Some(false) => selected.endpoint().failed(Fault::Answer, &permit.principal().id),
            None => {}
        }
        Ok(whole)
    }

    fn refused(&self, reason: Reason) -> Reason {
        self.metrics.upstream_failed(reason);
        reason
    }
}
