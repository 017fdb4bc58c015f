//! What several endpoints are asked for one call: the tasks of a caller, and where a task is that no record tells of.

use std::sync::Arc;

use super::send::Way;
use super::{Agent, Enforced, Pipeline};
use crate::a2a::Dialect;
use crate::authorize::{Ownership, Permit};
use crate::gather::Fleet;
use crate::gather::list::Asked;
use crate::gather::probe::{Asker, Found};
use crate::observe::{Reason, Record};
use crate::respond::Reject;
use crate::respond::answered::Answered;
use crate::upstream::Outgoing;

impl Pipeline {
    /// The tasks of all endpoints that the caller may see.
    #[expect(clippy::too_many_arguments, reason = "what a list is made of, once")]
    pub(super) async fn list(
        &self,
        agent: &Agent,
        permit: &Permit,
        enforced: &Enforced,
        speaks: Dialect,
        owner: Option<Arc<str>>,
        outgoing: &Outgoing,
        record: &mut Record,
    ) -> Result<Answered, Reject> {
        agent.endpoints.retries.called(record.started());
        let asked = Asked {
            fleet: &self.fleet(agent, &enforced.ownership),
            permit,
            speaks,
            owner,
            tokens: &self.tokens,
            now: self.observer.clock.unix_seconds(),
            partial: agent.list_partial,
        };
        asked.gather(outgoing, record).await
    }

    /// The endpoint of a task that no record tells of.
    pub(super) async fn find(
        &self,
        agent: &Agent,
        permit: &Permit,
        speaks: Dialect,
        ownership: &Ownership,
        asker: Asker,
        outgoing: &Outgoing,
    ) -> Result<Way, Reject> {
        let fleet = self.fleet(agent, ownership);
        let probes = &agent.probes;
        let found = probes.find(fleet, permit, speaks, asker, outgoing, &self.drain).await;
        match found {
            Found::At(endpoint) => Ok(Way::Owned(endpoint)),
            Found::Nowhere => Err(Reject::new(Reason::TaskNotFound)),
            Found::Unclear => Err(Reject::new(Reason::EndpointUnavailable)),
            Found::Refused => Ok(Way::Free),
        }
    }

    fn fleet(&self, agent: &Agent, ownership: &Ownership) -> Fleet {
        Fleet {
            endpoints: agent.endpoints.clone(),
            upstream: agent.upstream.clone(),
            metrics: agent.metrics.clone(),
            affinity: self.affinity.clone(),
            ownership: ownership.clone(),
            json: self.json,
        }
    }
}
