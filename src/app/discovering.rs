//! Asks again for endpoints that the DNS names, each agent's every `upstream.dns_refresh`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::site::Common;
use crate::discover::MOST_QUESTIONS;

/// Between who asks and who reloads.
#[derive(Default)]
pub struct Signals {
    /// The endpoints in force are not those that were found.
    pub differs: Notify,
    /// Perhaps another configuration is in force.
    pub entered: Notify,
}

pub async fn follow(common: Arc<Common>, signals: Arc<Signals>) {
    let names = common.ground.names.clone();
    let mut asked = BTreeMap::new();
    loop {
        let config = common.config.load_full();
        let now = Instant::now();
        let mut before = std::mem::take(&mut asked);
        let (mut due, mut next) = (Vec::new(), None);
        for agent in &config.agents {
            let Some(srv) = &agent.upstream.srv else { continue };
            // Whoever is new here was asked for just before.
            let last = before.remove(&(agent.name.clone(), srv.clone())).unwrap_or(now);
            let at = last + agent.upstream.dns_refresh;
            if at <= now {
                due.push(names.renew(&agent.name, srv));
            } else {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            }
            let last = if at <= now { now } else { last };
            asked.insert((agent.name.clone(), srv.clone()), last);
        }
        if due.is_empty() {
            let wait = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wait => {}
                () = signals.entered.notified() => {}
            }
            continue;
        }
        stream::iter(due)
            .for_each_concurrent(MOST_QUESTIONS, |asking| asking)
            .await;
        if names.differ(&common.config.load()) {
            signals.differs.notify_one();
        }
    }
}
