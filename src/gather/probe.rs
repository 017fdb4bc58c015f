//! Which endpoint knows a task that no record tells of: after a restart without a store, or for a task that was made past
//! the gateway.
//!
//! All endpoints are asked with a get. The one that knows the task becomes its owner and gets the call; whether nobody
//! knows it or somebody did not answer is told apart, because only the first says that there is no such task. Nothing is
//! remembered of tasks that nobody knows. Callers must not be able to make a storm of this: an agent has at most so many
//! probes under way, one caller at most half of them, so that it cannot take them from the others, and calls of one caller
//! for one task share one.
//!
//! A probe is a job of its own, so that whoever began it may leave without ending it for the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahash::RandomState;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{AT_ONCE, Fleet};
use crate::a2a::answer::Whole;
use crate::a2a::jsonrpc::code;
use crate::a2a::translate::{read_tenant, write_get};
use crate::a2a::{Dialect, Generation, Operation, Revealed, TaskId};
use crate::authorize::Permit;
use crate::balance::Selected;
use crate::config;
use crate::drain::Drain;
use crate::observe::{AgentMetrics, Probed, Reason};
use crate::ratelimit::{self, Slot};
use crate::respond::answer;
use crate::upstream::Outgoing;

/// The probes of one agent.
pub struct Probes {
    under_way: Mutex<HashMap<Key, UnderWay, RandomState>>,
    concurrent: usize,
    timeout: Duration,
}

struct UnderWay {
    /// Who began it.
    caller: ratelimit::Key,
    result: watch::Receiver<Option<Found>>,
}

/// Calls that share a probe: agents may answer another caller, or for another tenant, differently.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    principal: Arc<str>,
    task: TaskId,
    generation: Generation,
    tenant: Option<Box<str>>,
}

/// Who asks for a task.
pub struct Asker {
    pub client: IpAddr,
    /// The caller's places, held as long as a probe that it began holds places at endpoints.
    pub slot: Option<Slot>,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The endpoint that knows the task.
    At(Arc<str>),
    /// Every endpoint answered that it does not.
    Nowhere,
    /// None that answered does, and some did not answer.
    Unclear,
    /// Too many probes are under way, or too many of the caller's: nobody was asked.
    Refused,
}

impl Probes {
    pub fn new(config: &config::Probe) -> Self {
        Self {
            under_way: Mutex::default(),
            concurrent: config.concurrent,
            timeout: config.timeout,
        }
    }

    /// Finds the endpoint of the task that the permitted call names. `outgoing` is that call, as it would go on, in what the
    /// agent speaks.
    pub async fn find(
        self: &Arc<Self>,
        fleet: Fleet,
        permit: &Permit,
        speaks: Dialect,
        asker: Asker,
        outgoing: &Outgoing,
        drain: &Drain,
    ) -> Found {
        let Some(permit) = permit.probe(speaks.generation) else {
            return Found::Refused;
        };
        let call = permit.call();
        let Some(task) = call.task.clone() else {
            return Found::Refused;
        };
        let (method, path) = (outgoing.method.as_str(), &outgoing.path);
        let tenant = read_tenant(speaks, method, path, &outgoing.body, fleet.json);
        let Ok(get) = write_get(speaks, &call.id, &task, tenant.as_deref()) else {
            return Found::Refused;
        };
        let key = Key {
            principal: permit.principal().id.clone(),
            task,
            generation: call.generation,
            tenant,
        };
        let metrics = fleet.metrics.clone();
        let Asker { client, slot } = asker;
        let caller = ratelimit::Key::caller(&key.principal, client);
        let found = match self.join(&key, caller) {
            Joined::Refused => Found::Refused,
            Joined::Follows(result) => wait(result).await,
            Joined::Leads(tell, result) => {
                let mut outgoing = Box::new(outgoing.clone());
                outgoing.ask(get);
                outgoing.describe(speaks, Operation::Get);
                let all = fleet.endpoints.all();
                let selected: Vec<_> = (all.iter())
                    .filter_map(|endpoint| fleet.endpoints.owner(&endpoint.url).ok()?.enter())
                    .collect();
                let everybody = selected.len() == all.len();
                let probe = Probe {
                    fleet,
                    permit,
                    speaks,
                    outgoing,
                };
                let deadline = Instant::now() + self.timeout;
                let leaves = Leaves {
                    probes: self.clone(),
                    key,
                };
                drain.job(async move {
                    let found = probe.ask_all(selected, everybody, deadline).await;
                    drop(slot);
                    // Nobody joins any more before the result is told: whoever comes later finds the record.
                    drop(leaves);
                    tell.send_replace(Some(found));
                });
                wait(result).await
            }
        };
        note(&metrics, &found);
        found
    }

    fn join(&self, key: &Key, caller: ratelimit::Key) -> Joined {
        let mut under_way = self.lock();
        if let Some(known) = under_way.get(key) {
            return Joined::Follows(known.result.clone());
        }
        let own = under_way.values().filter(|known| known.caller == caller).count();
        if under_way.len() >= self.concurrent || own >= self.concurrent.div_ceil(2) {
            return Joined::Refused;
        }
        let (tell, result) = watch::channel(None);
        let known = UnderWay {
            caller,
            result: result.clone(),
        };
        under_way.insert(key.clone(), known);
        Joined::Leads(tell, result)
    }

    /// Nothing here panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, UnderWay, RandomState>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Joined {
    Leads(watch::Sender<Option<Found>>, watch::Receiver<Option<Found>>),
    Follows(watch::Receiver<Option<Found>>),
    Refused,
}

/// Takes a probe off the list, however it ends.
struct Leaves {
    probes: Arc<Probes>,
    key: Key,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.probes.lock().remove(&self.key);
    }
}

/// A probe that ended without a result is one that nobody answered.
async fn wait(mut result: watch::Receiver<Option<Found>>) -> Found {
    let told = result.wait_for(Option::is_some).await;
    told.ok().and_then(|found| found.clone()).unwrap_or(Found::Unclear)
}

fn note(metrics: &AgentMetrics, found: &Found) {
    metrics.probed(match found {
        Found::At(_) => Probed::Found,
        Found::Nowhere => Probed::Unknown,
        Found::Unclear => Probed::Failed,
        Found::Refused => Probed::Refused,
    });
}

struct Probe {
    fleet: Fleet,
    permit: Permit,
    speaks: Dialect,
    outgoing: Box<Outgoing>,
}

/// One endpoint's word.
enum Word {
    Knows(Arc<str>, Vec<Revealed>),
    DoesNot,
    Nothing,
}

impl Probe {
    /// The first endpoint that knows the task ends it. `everybody`: no endpoint is left out.
    async fn ask_all(&self, selected: Vec<Selected>, everybody: bool, deadline: Instant) -> Found {
        let asks: Vec<_> = selected.into_iter().map(|selected| self.ask(selected)).collect();
        let mut words = stream::iter(asks).buffer_unordered(AT_ONCE);
        let mut clear = everybody;
        loop {
            match timeout_at(deadline, words.next()).await {
                Ok(Some(Word::Knows(endpoint, revealed))) => {
                    // Nobody owns tasks where they are looked for: nothing is withheld.
                    let learner = self.fleet.learner(&self.permit, &endpoint);
                    if let Ok(Some(confirming)) = learner.learn(&revealed) {
                        let _withheld = learner.confirmed(confirming.await, &revealed);
                    }
                    return Found::At(endpoint);
                }
                Ok(Some(Word::DoesNot)) => {}
                Ok(Some(Word::Nothing)) => clear = false,
                Ok(None) if clear => return Found::Nowhere,
                Ok(None) => return Found::Unclear,
                Err(_) => {
                    self.fleet.refused(Reason::UpstreamTimeout);
                    return Found::Unclear;
                }
            }
        }
    }

    async fn ask(&self, selected: Selected) -> Word {
        let outgoing = self.outgoing.clone();
        let asked = self.fleet.ask(&self.permit, self.speaks, &selected, outgoing);
        let Ok(whole) = asked.await else {
            return Word::Nothing;
        };
        self.judge(&whole, &selected)
    }

    fn judge(&self, whole: &Whole, selected: &Selected) -> Word {
        let call = self.permit.call();
        match answer::check(whole, self.speaks, call, self.fleet.json) {
            Ok(read) if read.error == Some(code::TASK_NOT_FOUND) => Word::DoesNot,
            Ok(read) if read.error.is_none() && read.revealed.iter().any(|one| one.task == call.task) => {
                Word::Knows(selected.endpoint().url.clone(), read.revealed)
            }
            Ok(_) => Word::Nothing,
            Err(reason) => {
                self.fleet.refused(reason);
                Word::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::authenticate::ANONYMOUS;

    fn probes(concurrent: usize) -> Arc<Probes> {
        let timeout = Duration::from_secs(1);
        Arc::new(Probes::new(&config::Probe { timeout, concurrent }))
    }

    /// Joins as the principal of the key, from an address that ends so.
    fn join(probes: &Probes, key: &Key, address: u8) -> Joined {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, address));
        probes.join(key, ratelimit::Key::caller(&key.principal, address))
    }

    fn key(principal: &str, task: &str, tenant: Option<&str>) -> Key {
        Key {
            principal: Arc::from(principal),
            task: TaskId::new(task),
            generation: Generation::V1_0,
            tenant: tenant.map(Box::from),
        }
    }

    #[tokio::test]
    async fn calls_of_one_caller_for_one_task_share_a_probe() {
        let probes = probes(9);
        let one = key("me", "t", None);
        let Joined::Leads(tell, result) = join(&probes, &one, 1) else {
            panic!("the first one leads");
        };
        let Joined::Follows(other) = join(&probes, &one, 2) else {
            panic!("the second one follows");
        };
        for alone in [key("you", "t", None), key("me", "u", None), key("me", "t", Some("x"))] {
            assert!(matches!(join(&probes, &alone, 1), Joined::Leads(..)), "{alone:?}");
        }
        tell.send_replace(Some(Found::Nowhere));
        assert_eq!(wait(result).await, Found::Nowhere);
        assert_eq!(wait(other).await, Found::Nowhere);
    }

    #[test]
    fn probes_are_bounded() {
        let probes = probes(2);
        let mut leading = Vec::new();
        for task in ["a", "b"] {
            let key = key(task, task, None);
            assert!(matches!(join(&probes, &key, 1), Joined::Leads(..)), "{task}");
            leading.push(Leaves {
                probes: probes.clone(),
                key,
            });
        }
        assert!(matches!(join(&probes, &key("c", "c", None), 1), Joined::Refused));
        assert!(matches!(join(&probes, &key("a", "a", None), 1), Joined::Follows(_)));
        leading.clear();
        assert!(matches!(join(&probes, &key("c", "c", None), 1), Joined::Leads(..)));
        assert_eq!(probes.lock().len(), 1, "nothing stays");
    }

    #[test]
    fn one_caller_has_at_most_half_of_them() {
        let check = |concurrent: usize, principal: &str, most: usize| {
            let probes = probes(concurrent);
            let begin = |principal: &str, address| {
                let task = format!("t{}", probes.lock().len());
                matches!(join(&probes, &key(principal, &task, None), address), Joined::Leads(..))
            };
            let begun = (0..100).take_while(|_| begin(principal, 1)).count();
            assert_eq!(begun, most, "{principal} of {concurrent}");
            let other = if principal == ANONYMOUS { principal } else { "you" };
            let rest = (0..100).take_while(|_| begin(other, 2)).count();
            assert_eq!(rest, concurrent - most, "somebody else of {concurrent}");
        };
        for principal in ["me", ANONYMOUS] {
            check(1, principal, 1);
            check(2, principal, 1);
            check(3, principal, 2);
            check(32, principal, 16);
        }
        // Where callers are known, their address says nothing.
        let probes = probes(4);
        for (task, address, leads) in [("a", 1, true), ("b", 2, true), ("c", 3, false)] {
            let joined = join(&probes, &key("me", task, None), address);
            assert_eq!(matches!(joined, Joined::Leads(..)), leads, "{task}");
        }
    }

    #[tokio::test]
    async fn a_probe_that_ends_without_a_word_leaves_it_unclear() {
        let (tell, result) = watch::channel(None);
        drop(tell);
        assert_eq!(wait(result).await, Found::Unclear);
    }
}
