//! The endpoints that the configuration in force has no more, until their time is over.
//!
//! One job an agent, as long as it has any. What works for such an endpoint ends with its time or with the job.

use std::sync::Arc;

use tokio_util::sync::DropGuard;

use crate::balance::Endpoint;
use crate::config::shown_url;
use crate::drain::Drain;
use crate::pipeline::Agent;

/// `attend` begins the services of one endpoint.
pub fn see_off(agent: &Agent, scope: &Drain, attend: impl Fn(&Arc<Endpoint>, &Drain)) {
    // The first to go last.
    let mut leaving: Vec<(Arc<Endpoint>, DropGuard)> = Vec::new();
    for endpoint in agent.endpoints.leaving() {
        let (own, jobs) = scope.scope();
        attend(endpoint, &own);
        leaving.push((endpoint.clone(), jobs));
        tracing::info!(
            agent = &*agent.metrics.name,
            endpoint = &*shown_url(&endpoint.url),
            left = ?endpoint.leaves().unwrap_or_default(),
            "endpoint is not configured any more: it takes no new work, its tasks go on"
        );
    }
    if leaving.is_empty() {
        return;
    }
    let (endpoints, upstream) = (agent.endpoints.clone(), agent.upstream.clone());
    let name = agent.metrics.name.clone();
    scope.service(async move {
        while let Some((endpoint, jobs)) = leaving.pop() {
            tokio::time::sleep(endpoint.leaves().unwrap_or_default()).await;
            endpoints.part(&endpoint);
            upstream.close(&endpoint);
            drop(jobs);
            tracing::info!(
                agent = &*name,
                endpoint = &*shown_url(&endpoint.url),
                "endpoint that was removed is gone"
            );
        }
    });
}
