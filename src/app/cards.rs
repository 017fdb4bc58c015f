//! The card of one agent, fetched as the gateway would, without running it: to be saved, and to be compared with one that was.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::{Error, Prepared, prepare};
use super::{agents, course};
use crate::a2a::card::{Differences, OriginCard, unapproved};
use crate::card::{self, FetchError};
use crate::clock::Clock;
use crate::config::{CardFile, Config, Store};

/// How long a token for the agent may take that the fetch shows.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

/// An agent's own card.
pub struct Fetched {
    /// Where it was; for people.
    pub place: String,
    /// As the agent writes it.
    pub value: Value,
    pub origin: OriginCard,
}

#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("there is no agent `{0}` in the configuration")]
    Agent(String),
    #[error("the card of `{0}` is not fetched: it has none, or `card.file` is its card")]
    NotFetched(String),
    #[error("no card: {0}")]
    NoCard(String),
    #[error("{0}")]
    File(String),
    #[error("there is nothing to compare with: give --against FILE, or set `card.approved` for this agent")]
    NothingApproved,
    #[error(transparent)]
    Gateway(#[from] Error),
}

/// Must run inside the runtime.
pub async fn fetch(mut config: Config, name: &str) -> Result<Fetched, Failed> {
    config.agents.retain(|agent| agent.name == name);
    if config.agents.is_empty() {
        return Err(Failed::Agent(name.to_owned()));
    }
    // Records of a running gateway are its own.
    config.state.store = Store::Memory;
    let prepared = tokio::task::spawn_blocking(move || prepare(config, Clock::system(), None)).await;
    let Prepared {
        config, ground, next, ..
    } = match prepared {
        Ok(prepared) => Box::pin(prepared?.discovering()).await?,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    };
    // A token has to be got first.
    let mut agents = config.agents.iter();
    let is_got = agents.any(|agent| {
        agent
            .upstream
            .credential
            .as_ref()
            .is_some_and(|it| it.server().is_some())
    });
    let fetching = next.agents.into_iter().next();
    let fetching = fetching.and_then(|agent| agent.fetching(&ground.drain));
    let Some(fetching) = fetching else {
        return Err(Failed::NotFetched(name.to_owned()));
    };
    let patience = if is_got { PATIENCE } else { Duration::ZERO };
    let end = tokio::time::Instant::now() + patience;
    let found = loop {
        let found = once(&fetching).await;
        if found.is_ok() || tokio::time::Instant::now() >= end {
            break found;
        }
        tokio::time::sleep(PAUSE).await;
    };
    ground.drain.run(Duration::ZERO, Duration::ZERO).await;
    found.map_err(Failed::NoCard)
}

async fn once(fetching: &agents::Fetching) -> Result<Fetched, String> {
    let seen = Seen {
        source: &fetching.source,
        last: Mutex::default(),
    };
    let (place, origin) = card::look(&seen, &fetching.places).await?;
    let last = seen.last.into_inner().unwrap_or_else(PoisonError::into_inner);
    let value = serde_json::from_slice(&last).map_err(|error| error.to_string())?;
    Ok(Fetched { place, value, origin })
}

/// Keeps what came last, which is what was found.
struct Seen<'a> {
    source: &'a course::Source,
    last: Mutex<Bytes>,
}

impl card::Source for Seen<'_> {
    async fn fetch(&self, url: &str) -> Result<Bytes, FetchError> {
        let bytes = self.source.fetch(url).await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = bytes.clone();
        Ok(bytes)
    }
}

/// What of the agent's own card is not as in a file, by default the approved one of the configuration. Must run inside the runtime.
pub async fn diff(config: Config, name: &str, against: Option<PathBuf>) -> Result<Differences, Failed> {
    let section = config.agents.iter().find(|agent| agent.name == name);
    let section = section.ok_or_else(|| Failed::Agent(name.to_owned()))?;
    let approved = match against {
        Some(path) => CardFile::read(path, section.card.max_bytes).map_err(Failed::File)?,
        None => section.card.approved.clone().ok_or(Failed::NothingApproved)?,
    };
    let fetched = fetch(config, name).await?;
    Ok(unapproved(&approved.card, &fetched.origin))
}
