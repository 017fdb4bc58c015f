//! One page of the tasks of several agents, each of which answers with pages of its own (A2A 1.0 §3.1.4).
//!
//! The merge of the pages of an agent's endpoints, one level up: a cursor is the agent's own page token. Tasks of one id may be at
//! several agents, and are different tasks. An agent that does not answer fails the page, because nobody could tell what is missing.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::AT_ONCE;
use super::filling::{Filled, Filling};
use super::token::{self, Binding, Stood, Tokens, Walked};
use super::walk::{Place, Source, mark, total};
use crate::a2a::RpcId;
use crate::a2a::listing::{self, Listing, read_page};
use crate::observe::Reason;
use crate::respond::Reject;

/// As many rounds as for the endpoints of one agent.
const ROUNDS: usize = 8;
/// Longest token of an agent: room for the cursors of a dozen endpoints.
const MAX_CURSOR: usize = 64 * 1024;

/// What one agent told.
pub enum Told {
    Page(Bytes),
    /// It has no tasks for this caller.
    Nothing,
    /// It does not take the question.
    Refused,
}

/// What is listed, for whom.
pub struct Span<'a> {
    pub listing: &'a Listing<'a>,
    pub binding: Binding<'a>,
    pub id: &'a RpcId,
    pub tokens: &'a Tokens,
    /// Unix seconds.
    pub now: u64,
    pub deadline: Instant,
    /// A page ends with the task that reaches them.
    pub bytes: usize,
}

impl Span<'_> {
    /// `ask` gets the place of an agent in `names`, and the call to it.
    pub async fn page<F>(&self, names: &[Arc<str>], ask: impl Fn(usize, Bytes) -> F) -> Result<Bytes, Reject>
    where
        F: Future<Output = Result<Told, Reject>>,
    {
        let (mut sources, before) = match &self.listing.token {
            None => {
                let new = |name: &Arc<str>| Source::new(name.clone(), Some(Place::default()), None);
                (names.iter().map(new).collect(), 0)
            }
            Some(token) => self.resume(names, token)?,
        };
        let mut filling = Filling::new(self.listing.size, self.bytes).apart();
        for _ in 0..=ROUNDS {
            match filling.fill(&mut sources, |_, _| true) {
                Filled::Page | Filled::Bytes => break,
                Filled::Wait => self.round(&mut sources, names, &ask).await?,
            }
        }
        let listed = before + filling.count as u64;
        let next = match sources.iter().any(|source| source.place.is_some()) {
            true => self.seal(&sources, listed)?,
            false => String::new(),
        };
        let total = total(&sources).unwrap_or(listed);
        Ok(listing::write_page(
            self.id,
            &filling.tasks,
            &next,
            self.listing.size,
            total,
        ))
    }

    async fn round<F>(
        &self,
        sources: &mut [Source],
        names: &[Arc<str>],
        ask: &impl Fn(usize, Bytes) -> F,
    ) -> Result<(), Reject>
    where
        F: Future<Output = Result<Told, Reject>>,
    {
        let asks = sources.iter().enumerate().filter_map(|(index, source)| {
            let place = source.wants()?;
            let agent = names.iter().position(|name| *name == source.endpoint)?;
            let request = self.listing.request(place.size(self.listing.size), &place.cursor);
            let asked = ask(agent, request);
            Some(async move { (index, timeout_at(self.deadline, asked).await) })
        });
        let asks: Vec<_> = asks.collect();
        let answers = stream::iter(asks).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        for (index, told) in answers {
            let told = told.map_err(|_| Reject::new(Reason::UpstreamTimeout))??;
            let Some(source) = sources.get_mut(index) else { continue };
            match told {
                Told::Page(bytes) => {
                    let page = read_page(&bytes).ok().filter(|page| page.next.len() <= MAX_CURSOR);
                    let page = page.ok_or_else(|| Reject::new(Reason::UpstreamBadAnswer))?;
                    source.take(bytes, page);
                }
                Told::Nothing => {
                    source.place = None;
                    source.total = Some(0);
                }
                Told::Refused => {
                    let resumed = source.place.as_ref().is_some_and(|place| !place.cursor.is_empty());
                    let because = match resumed {
                        true => "the page token does not hold any more; list again without one",
                        false => "an agent does not take these parameters",
                    };
                    return Err(Reject::new(Reason::InvalidParams).because(because));
                }
            }
        }
        Ok(())
    }

    /// Where the token says. Agents that are there no more are left out.
    fn resume(&self, names: &[Arc<str>], token: &str) -> Result<(Vec<Source>, u64), Reject> {
        let walked = self.tokens.open(self.binding, token, self.now).map_err(|error| {
            let because = match error {
                token::Error::Expired => "the page token has expired; list again without one",
                token::Error::Invalid | token::Error::Key | token::Error::TooLong => "the page token is not valid here",
            };
            Reject::new(Reason::InvalidParams).because(because)
        })?;
        let sources = names.iter().filter_map(|name| {
            let own = mark(name);
            let stood = walked.endpoints.iter().find(|stood| stood.endpoint == own)?;
            Some(Source::new(name.clone(), stood.place.clone(), stood.total))
        });
        Ok((sources.collect(), walked.listed))
    }

    fn seal(&self, sources: &[Source], listed: u64) -> Result<String, Reject> {
        let endpoints = sources.iter().map(|source| Stood {
            endpoint: mark(&source.endpoint),
            total: source.total,
            place: source.place.clone(),
        });
        let walked = Walked {
            listed,
            endpoints: endpoints.collect(),
        };
        self.tokens.seal(self.binding, &walked, self.now).map_err(|error| {
            tracing::warn!(%error, "a list cannot go on");
            Reject::new(Reason::Internal)
        })
    }
}
