//! Rates over all gateways that share a store.
//!
//! Asked after the gateway's own budget has admitted a call: whoever is over that is over the shared one too, and needs no
//! round trip to be refused. So while the store is away, or full, the own budgets go on as they stand, and nothing has to
//! be switched over. Narrow rules are asked before those of the whole agent, which are a second round trip where there are any.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::Key;
use super::limited::{Limited, Policy};
use crate::shared::{self, Command, Purpose, Reply, Store};

/// The answer of the store, to be awaited; bounded there.
pub type Asking = Pin<Box<dyn Future<Output = Result<(), Limited>> + Send>>;

pub(super) struct Global {
    pub(super) store: Store,
    pub(super) agent: Arc<str>,
}

/// A rate as the store counts it.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Microseconds from one call to the next.
    each: u64,
    burst: u32,
}

/// One rule's question.
pub(super) struct Question {
    pub(super) command: Command,
    pub(super) policy: Arc<Policy>,
    /// Of the whole agent.
    pub(super) wide: bool,
}

impl Pace {
    pub(super) fn new(count: u32, period: Duration, burst: u32) -> Self {
        let each = (period / count.max(1)).as_micros();
        Self {
            each: u64::try_from(each).unwrap_or(u64::MAX).max(1),
            burst,
        }
    }
}

impl Global {
    pub(super) fn command(&self, rule: &str, key: &Key, pace: Pace) -> Command {
        let address;
        let (kind, name) = match key {
            Key::Principal(principal) => ("p", &**principal),
            Key::Address(of) => {
                address = of.to_string();
                ("a", address.as_str())
            }
            Key::Agent => ("g", ""),
        };
        Command::Take {
            key: shared::key(self.store.prefix(), 'l', &[&self.agent, rule, kind, name]),
            each: pace.each,
            burst: pace.burst,
        }
    }
}

pub(super) async fn ask(store: Store, questions: Vec<Question>) -> Result<(), Limited> {
    let (wide, narrow): (Vec<_>, Vec<_>) = questions.into_iter().partition(|question| question.wide);
    for group in [narrow, wide] {
        if group.is_empty() {
            continue;
        }
        let (commands, policies): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|question| (question.command, question.policy))
            .unzip();
        let Ok(replies) = store.ask(Purpose::Limit, &commands).await else {
            return Ok(());
        };
        for (reply, policy) in replies.iter().zip(&policies) {
            if let Reply::Number(wait) = *reply
                && let Ok(wait @ 1..) = u64::try_from(wait)
            {
                return Err(policy.refuse(Duration::from_micros(wait)));
            }
        }
    }
    Ok(())
}
