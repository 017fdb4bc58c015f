//! One page of the tasks of several endpoints.
//!
//! Rounds: whichever endpoint has nothing at hand is asked for its next tasks, all of them together, then as much is merged
//! as can be. Usually one round makes a page; more are needed when tasks are left out because the caller may not see them.
//! A page that meets a bound (`ROUNDS`, the time, the bytes) is shorter than asked for, perhaps empty, and has a token: the
//! next call goes on where it stopped.
//!
//! An endpoint that does not answer fails the call, unless `upstream.list.partial` is set or it leaves: then it is left out, counted in
//! the answer's `A2A-Gateway-Partial`, and asked again for the next page. A walk on which only such endpoints are left ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::filling::{Filled, Filling};
use super::token::{Binding, MAX_CURSOR, Stood, Tokens, Walked};
use super::walk::{Place, Source, mark, total};
use super::{AT_ONCE, Fleet, token};
use crate::a2a::jsonrpc::code;
use crate::a2a::listing::{self, Listing, MOST_TASKS, Page, read_listing};
use crate::a2a::translate::{write_list, written_list};
use crate::a2a::{self, Dialect, Operation, Revealed, TaskId};
use crate::affinity::Inquiry;
use crate::authorize::Permit;
use crate::balance::{Endpoint, Selected};
use crate::observe::{Gathering, Outcome, Reason, Record};
use crate::respond::answered::Answered;
use crate::respond::{Reject, answer};
use crate::upstream::Outgoing;

/// Most rounds for one page. Eight hundred tasks of each endpoint are looked through for it, which is more than most
/// callers own of as many; whoever owns fewer goes on with the next call, so that no call costs agents more than this.
const ROUNDS: usize = 8;

/// The time of a page and that of an endpoint's answer may end in the same tick of the timer: then nothing failed.
const TICK: Duration = Duration::from_millis(1);

/// What is listed, of what, for whom.
pub struct Asked<'a> {
    pub fleet: &'a Fleet,
    pub permit: &'a Permit,
    /// What the endpoints speak. The call itself is one of JSON-RPC, and so is what is made of their answers.
    pub speaks: Dialect,
    /// The endpoint that owns the context which is asked for.
    pub owner: Option<Arc<str>>,
    pub tokens: &'a Tokens,
    /// Unix seconds.
    pub now: u64,
    /// Endpoints that do not answer are left out.
    pub partial: bool,
}

/// The page that the caller gets.
struct Gathered {
    bytes: Bytes,
    outcome: Outcome,
    /// Endpoints that did not answer.
    left_out: usize,
}

/// What one endpoint made of a round.
enum Word {
    Page(Bytes, Page),
    /// Its own error.
    Error(Bytes, i64),
    /// Nothing before the time was over.
    Late,
    Failed,
}

impl Asked<'_> {
    /// `outgoing` is the caller's call, as it would go on to one endpoint.
    pub async fn gather(&self, outgoing: &Outgoing, record: &mut Record) -> Result<Answered, Reject> {
        let gathered = self.page(outgoing, record).await;
        self.fleet.metrics.gathered(match &gathered {
            Ok((gathered, _)) if gathered.left_out > 0 => Gathering::Partial,
            Ok((_, true)) => Gathering::Short,
            Ok((_, false)) => Gathering::Whole,
            Err(_) => Gathering::Failed,
        });
        let (gathered, _) = gathered?;
        Ok(Answered::gathered(gathered.bytes, gathered.outcome, gathered.left_out))
    }

    /// The page, and whether a bound made it short.
    async fn page(&self, outgoing: &Outgoing, record: &mut Record) -> Result<(Gathered, bool), Reject> {
        let listing = read_listing(&outgoing.body, self.fleet.json).map_err(|error| {
            record.detail = Some(error.as_str());
            Reject::new(Reason::InvalidParams).because(error.message())
        })?;
        if self.speaks.binding != a2a::Binding::JsonRpc {
            // What its parser would not take is the caller's mistake.
            write_list(self.speaks.binding, &listing.request(listing.size, ""))?;
        }
        let question = listing.question();
        let binding = Binding {
            agent: &self.fleet.metrics.name,
            principal: &self.permit.principal().id,
            question: &question,
        };
        let (mut sources, listed) = match &listing.token {
            None => (self.begin()?, 0),
            Some(token) => self.resume(binding, token).inspect_err(|_| {
                record.detail = Some("page_token");
            })?,
        };
        let deadline = Instant::now() + self.fleet.upstream.patience();
        let mut filling = Filling::new(listing.size, self.fleet.upstream.answer_bytes());
        let mut rounds = 0;
        let short = loop {
            match filling.fill(&mut sources, |source, task| self.takes(&source.endpoint, task)) {
                Filled::Page => break false,
                Filled::Bytes => break true,
                // What is late in a later round is no failure: the time of this page is over.
                Filled::Wait if rounds == ROUNDS || (rounds > 0 && Instant::now() >= deadline) => break true,
                Filled::Wait => rounds += 1,
            }
            let answers = self.round(&listing, outgoing, &sources, deadline).await;
            if let Some(passed) = self.take(&mut sources, answers, rounds == 1, listing.token.is_none())? {
                return Ok((passed, false));
            }
        };
        let listed = listed + filling.count as u64;
        let left_out = sources.iter().filter(|source| source.failed).count();
        // Only endpoints that do not answer are left: the walk ends, or it would go on for as long as they are away.
        let goes_on = sources.iter().any(|source| source.place.is_some() && !source.failed);
        let next = if goes_on {
            self.seal(binding, &sources, listed)?
        } else {
            String::new()
        };
        // The sum of what the endpoints say, where all of it is the caller's. Else what was listed so far: exact on the last
        // page, and less than all on those before.
        let total = total(&sources)
            .filter(|_| !self.fleet.ownership.is_enforced())
            .unwrap_or(listed);
        let id = &self.permit.call().id;
        let bytes = listing::write_page(id, &filling.tasks, &next, listing.size, total);
        let gathered = Gathered {
            bytes,
            outcome: Outcome::Ok,
            left_out,
        };
        Ok((gathered, short))
    }

    /// Before the first page: every endpoint, or the one that has the context.
    fn begin(&self) -> Result<Vec<Source>, Reject> {
        let all = self.fleet.endpoints.all().iter().map(|endpoint| &endpoint.url);
        let asked = all.filter(|url| self.owner.as_ref().is_none_or(|owner| owner == *url));
        let sources: Vec<Source> = asked
            .map(|url| Source::new(url.clone(), Some(Place::default()), None))
            .collect();
        if sources.is_empty() {
            return Err(Reject::new(Reason::OwnerUnavailable));
        }
        Ok(sources)
    }

    /// Where the token says. Endpoints that are not configured any more are left out, as a new list would leave them out.
    fn resume(&self, binding: Binding<'_>, token: &str) -> Result<(Vec<Source>, u64), Reject> {
        let walked = self.tokens.open(binding, token, self.now).map_err(|error| {
            let because = match error {
                token::Error::Expired => "the page token has expired; list again without one",
                token::Error::Invalid | token::Error::Key | token::Error::TooLong => "the page token is not valid here",
            };
            Reject::new(Reason::InvalidParams).because(because)
        })?;
        let sources = self.fleet.endpoints.all().iter().filter_map(|endpoint| {
            let own = mark(&endpoint.url);
            let stood = walked.endpoints.iter().find(|stood| stood.endpoint == own)?;
            Some(Source::new(endpoint.url.clone(), stood.place.clone(), stood.total))
        });
        Ok((sources.collect(), walked.listed))
    }

    fn seal(&self, binding: Binding<'_>, sources: &[Source], listed: u64) -> Result<String, Reject> {
        let endpoints = sources.iter().map(|source| Stood {
            endpoint: mark(&source.endpoint),
            total: source.total,
            place: source.place.clone(),
        });
        let walked = Walked {
            listed,
            endpoints: endpoints.collect(),
        };
        self.tokens.seal(binding, &walked, self.now).map_err(|error| {
            tracing::warn!(agent = &*self.fleet.metrics.name, %error, "a list cannot go on");
            Reject::new(Reason::Internal)
        })
    }

    /// Asks every endpoint that has nothing at hand.
    async fn round(
        &self,
        listing: &Listing<'_>,
        outgoing: &Outgoing,
        sources: &[Source],
        deadline: Instant,
    ) -> Vec<(usize, Word)> {
        // What a caller may not see is dropped: then as many as there can be, or a page takes many rounds.
        let wanted = if self.fleet.ownership.is_enforced() {
            MOST_TASKS
        } else {
            listing.size
        };
        let asks = sources.iter().enumerate().filter_map(|(index, source)| {
            let place = source.wants()?;
            let mut outgoing = Box::new(outgoing.clone());
            outgoing.body = listing.request(place.size(wanted), &place.cursor);
            let answered = self.ask(&source.endpoint, outgoing);
            Some(async move {
                let answered = timeout_at(deadline, answered).await.unwrap_or_else(|_| {
                    self.fleet.refused(Reason::UpstreamTimeout);
                    Word::Late
                });
                match answered {
                    Word::Failed if Instant::now() + TICK >= deadline => (index, Word::Late),
                    Word::Page(..) | Word::Error(..) | Word::Failed | Word::Late => (index, answered),
                }
            })
        });
        let asks: Vec<_> = asks.collect();
        stream::iter(asks).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await
    }

    /// A place in the line, like that of every other call.
    async fn place(&self, endpoint: &Arc<Endpoint>) -> Result<Selected, Reason> {
        self.fleet.metrics.queued.inc();
        endpoint
            .wait()
            .await
            .map_err(|error| self.fleet.refused(Reject::from(error).reason))
    }

    async fn ask(&self, url: &Arc<str>, mut outgoing: Box<Outgoing>) -> Word {
        if self.speaks.binding != a2a::Binding::JsonRpc {
            match write_list(self.speaks.binding, &outgoing.body) {
                Ok(written) => outgoing.ask(written),
                Err(_) => return self.broken(url, &"its cursor fits in no question"),
            }
            outgoing.describe(self.speaks, Operation::List);
        }
        let Ok(endpoint) = self.fleet.endpoints.owner(url) else {
            return Word::Failed;
        };
        let selected = match endpoint.enter() {
            Some(selected) => selected,
            None => match self.place(endpoint).await {
                Ok(selected) => selected,
                Err(_) => return Word::Failed,
            },
        };
        let asked = self.fleet.ask(self.permit, self.speaks, &selected, outgoing);
        let Ok(whole) = asked.await else {
            return Word::Failed;
        };
        let call = self.permit.call();
        let error = match answer::check(&whole, self.speaks, call, self.fleet.json) {
            Ok(read) => {
                self.learn(url, &read.revealed).await;
                read.error
            }
            Err(reason) => {
                self.fleet.refused(reason);
                return Word::Failed;
            }
        };
        let bytes = if self.speaks.binding == a2a::Binding::JsonRpc {
            whole.body
        } else {
            match written_list(self.speaks.binding, &call.id, whole.found(error.is_some())) {
                Ok(bytes) => bytes,
                Err(_) => return self.broken(url, &"its answer cannot be told in JSON"),
            }
        };
        if let Some(code) = error {
            return Word::Error(bytes, code);
        }
        match listing::read_page(&bytes) {
            Ok(page) if page.next.len() <= MAX_CURSOR => Word::Page(bytes, page),
            Ok(_) => self.broken(url, &"its cursor is too long"),
            Err(error) => self.broken(url, &error),
        }
    }

    fn broken(&self, url: &str, error: &dyn std::fmt::Display) -> Word {
        let agent = &*self.fleet.metrics.name;
        tracing::warn!(agent, endpoint = url, %error, "an endpoint's list cannot be read");
        self.fleet.refused(Reason::UpstreamBadAnswer);
        Word::Failed
    }

    /// Takes a round's answers in. Gives the answer that goes on as it is: the error that every endpoint answers a first
    /// page with, but for those that leave and do not answer, is about what the caller asks.
    fn take(
        &self,
        sources: &mut [Source],
        answers: Vec<(usize, Word)>,
        is_first: bool,
        is_new: bool,
    ) -> Result<Option<Gathered>, Reject> {
        // One that leaves may be down for good, which is why it was removed: it fails no list, and says nothing about one.
        let leaves = |source: &Source| !self.fleet.endpoints.is_configured(&source.endpoint);
        let refuses = |(index, answered): &(usize, Word)| match answered {
            Word::Error(..) => true,
            Word::Failed | Word::Late => sources.get(*index).is_some_and(leaves),
            Word::Page(..) => false,
        };
        let of_caller = is_first && is_new && answers.iter().all(refuses);
        let (mut failed, mut needed) = (false, false);
        for (index, answered) in answers {
            let Some(source) = sources.get_mut(index) else { continue };
            match answered {
                Word::Page(bytes, page) => source.take(bytes, page),
                Word::Error(bytes, _) if of_caller => {
                    return Ok(Some(Gathered {
                        bytes,
                        outcome: Outcome::AgentError,
                        left_out: 0,
                    }));
                }
                // It took the question for the pages before: its cursor does not hold any more.
                Word::Error(_, code::INVALID_PARAMS)
                    if source.wants().is_some_and(|place| !place.cursor.is_empty()) =>
                {
                    return Err(Reject::new(Reason::InvalidParams)
                        .because("the page token does not hold any more; list again without one"));
                }
                Word::Error(_, code) => {
                    let agent = &*self.fleet.metrics.name;
                    let endpoint = &*source.endpoint;
                    tracing::warn!(agent, endpoint, code, "an endpoint answered a list with an error");
                    source.failed = true;
                }
                Word::Late if !is_first => {}
                Word::Late | Word::Failed => source.failed = true,
            }
            if source.failed {
                failed = true;
                needed |= !leaves(source);
            }
        }
        let nobody = sources.iter().all(|source| source.failed);
        if failed && (nobody || (needed && !self.partial)) {
            return Err(Reject::new(Reason::EndpointUnavailable));
        }
        Ok(None)
    }

    /// A task that the caller may see, and not one of the same id that another endpoint owns: calls about it go there. What
    /// nobody is known to own may be anybody's.
    fn takes(&self, endpoint: &str, task: &TaskId) -> bool {
        let Fleet {
            affinity,
            metrics,
            ownership,
            ..
        } = self.fleet;
        let Some(owner) = affinity.task(&metrics.name, task) else {
            return !ownership.is_enforced();
        };
        let is_here = *owner.endpoint == *endpoint
            || self
                .fleet
                .endpoints
                .all()
                .iter()
                .all(|other| other.url != owner.endpoint);
        is_here && self.permit.may_use(ownership, &owner.principal)
    }

    /// Takes in where the tasks are; the answer goes on task by task, so that it is no matter if one must not.
    async fn learn(&self, endpoint: &Arc<str>, revealed: &[Revealed]) {
        let learner = self.fleet.learner(self.permit, endpoint);
        if let Inquiry::Asking(asking) = learner.inquire(revealed) {
            asking.await;
        }
        let learned = revealed.iter().filter_map(|one| {
            let confirming = learner.learn(std::slice::from_ref(one)).ok()??;
            Some(async {
                let _withheld = learner.confirmed(confirming.await, std::slice::from_ref(one));
            })
        });
        join_all(learned).await;
    }
}
