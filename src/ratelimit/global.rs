//! Limits over all gateways that share a store.
//!
//! Asked after the gateway's own budget has admitted a call: whoever is over that is over the shared one too, and needs no
//! round trip to be refused. So while the store is away, or full, the own budgets go on as they stand, and nothing has to
//! be switched over. Narrow rules are asked before those of the whole agent, which are a second round trip where there are any;
//! what the narrow ones gave is given back when a wide one refuses.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::ledger::{Account, BytePace, Lease, Ledger, Watched};
use super::limited::{Kind, Limited, Policy};
use super::{Key, TASKS_TRY_AGAIN, TRY_AGAIN};
use crate::shared::{self, Command, Purpose, Reply, Store};

/// The answer of the store, to be awaited; bounded there.
pub type Asking = Pin<Box<dyn Future<Output = Result<Granted, Limited>> + Send>>;

/// The places that the store gave.
#[derive(Debug, Default)]
pub struct Granted {
    pub leases: Vec<Lease>,
    /// Of the task that a send may begin.
    pub of_task: Vec<Lease>,
    /// Everything was asked that was to be.
    pub whole: bool,
}

pub(super) struct Global {
    pub(super) ledger: Arc<Ledger>,
    pub(super) agent: Arc<str>,
}

/// What of a rule is shared.
#[derive(Clone, Copy)]
pub(super) enum Share {
    Rate(Pace),
    /// So many calls or streams.
    Places(u32),
    /// So many tasks.
    Tasks(u32),
    Bytes(BytePace),
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
    command: Command,
    policy: Arc<Policy>,
    /// Of the whole agent.
    wide: bool,
    /// The place that is asked for.
    lease: Option<Lease>,
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
    pub(super) fn store(&self) -> &Store {
        self.ledger.store()
    }

    /// Open tasks are told from now on as far as limits are about them.
    pub(super) fn watch(&self, watched: Watched) {
        self.ledger.watch(&self.agent, watched);
    }

    /// `owner` is whose task a send begins, where that is asked.
    pub(super) fn question(&self, policy: &Arc<Policy>, key: &Key, share: Share, owner: Option<&str>) -> Question {
        let (command, lease) = match share {
            Share::Rate(Pace { each, burst }) => {
                let key = self.key('l', policy.rule(), key);
                (Command::Take { key, each, burst }, None)
            }
            Share::Places(limit) => {
                let (lease, command) = self.ledger.lease(self.key('p', policy.rule(), key), limit);
                (command, Some(lease))
            }
            Share::Tasks(limit) => {
                let of = owner.filter(|_| *key != Key::Agent);
                let (lease, command) = self.ledger.lease(self.ledger.tasks(&self.agent, of), limit);
                (command, Some(lease))
            }
            Share::Bytes(pace) => {
                let key = self.key('b', policy.rule(), key);
                let most = pace.period();
                (Command::Owe { key, amount: 0, most }, None)
            }
        };
        Question {
            command,
            policy: Arc::clone(policy),
            wide: *key == Key::Agent,
            lease,
        }
    }

    /// What the bytes of a request are charged to.
    pub(super) fn account(&self, rule: &str, key: &Key, pace: BytePace) -> Account {
        Account::new(&self.ledger, self.key('b', rule, key), pace)
    }

    /// Where the store counts for this key.
    pub(super) fn key(&self, kind: char, rule: &str, key: &Key) -> Vec<u8> {
        let address;
        let (whose, name) = match key {
            Key::Principal(principal) => ("p", &**principal),
            Key::Address(of) => {
                address = of.to_string();
                ("a", address.as_str())
            }
            Key::Agent => ("g", ""),
        };
        shared::key(self.store().prefix(), kind, &[&self.agent, rule, whose, name])
    }
}

pub(super) async fn ask(store: Store, questions: Vec<Question>) -> Result<Granted, Limited> {
    let mut granted = Granted::default();
    let (wide, narrow): (Vec<_>, Vec<_>) = questions.into_iter().partition(|question| question.wide);
    for group in [narrow, wide] {
        if group.is_empty() {
            continue;
        }
        let (commands, asked): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|question| (question.command, (question.policy, question.lease)))
            .unzip();
        let Ok(replies) = store.ask(Purpose::Limit, &commands).await else {
            return Ok(granted);
        };
        for (reply, (policy, lease)) in replies.iter().zip(asked) {
            if let Reply::Number(wait) = *reply
                && let Ok(wait @ 1..) = u64::try_from(wait)
            {
                return Err(policy.refuse(match policy.kind() {
                    Kind::Concurrent | Kind::OpenStreams => TRY_AGAIN,
                    Kind::OpenTasks => TASKS_TRY_AGAIN,
                    Kind::Rate | Kind::TaskCreations | Kind::Polls | Kind::BytesIn | Kind::BytesOut => {
                        Duration::from_micros(wait)
                    }
                }));
            }
            match policy.kind() {
                Kind::OpenTasks => granted.of_task.extend(lease),
                Kind::Rate
                | Kind::TaskCreations
                | Kind::Polls
                | Kind::Concurrent
                | Kind::OpenStreams
                | Kind::BytesIn
                | Kind::BytesOut => granted.leases.extend(lease),
            }
        }
    }
    granted.whole = true;
    Ok(granted)
}
