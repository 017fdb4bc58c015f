//! Fetches the card of an agent, again and again.
//!
//! Servers are asked in the order of the configuration; the first that has a card wins. While there is none, attempts follow
//! each other with growing pauses; the same pauses, where shorter than the refresh interval, follow a failed refresh. Whoever
//! keeps the cards can ask for one at once. Runs until it is dropped; dropping it at any point leaves the store consistent.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::{CardStore, Place, Unverified, approval};
use crate::a2a::card::{CardError, Flaws, OriginCard, Publication, read};
use crate::a2a::security::Security;
use crate::config::{OnChange, shown_url};

/// The first pause after a failure: shorter than anybody waits for an agent that is still starting.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause: what an operator waits at most after repairing an agent.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How a card is fetched: with the bounds on size and time, and the credential, that the agent's configuration sets.
pub trait Source {
    fn fetch(&self, url: &str) -> impl Future<Output = Result<Bytes, FetchError>> + Send;

    /// The card as far as it is signed by somebody who is believed; where nobody is asked for, all of it.
    fn verify(&self, origin: OriginCard) -> impl Future<Output = Result<OriginCard, Unverified>> + Send {
        std::future::ready(Ok(origin))
    }

    /// How long a signature that ends `until` then holds; nothing where it has ended.
    fn left(&self, until: u64) -> Duration {
        let _nobody_asks = until;
        Duration::MAX
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server answers, but has nothing at this path (404, 405, 410): another path may have it.
    #[error("nothing there")]
    Absent,
    /// The server cannot be asked, or failed: other paths at it would fail alike.
    #[error("{0}")]
    Failed(String),
}

/// Why an agent may not be served with the card that it has, for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutOfService(pub String);

impl From<CardError> for OutOfService {
    fn from(error: CardError) -> Self {
        Self(error.to_string())
    }
}

/// Who keeps the cards that are fetched.
pub trait Keeper {
    fn store(&self) -> &CardStore;

    /// What is served and enforced with this card.
    fn decide(&self, origin: &OriginCard) -> Result<Publication, OutOfService>;

    /// What callers of an agent with this card have to show.
    fn demands<'a>(&'a self, origin: &'a OriginCard) -> Result<&'a Security, CardError>;

    /// What readers would refuse in the published card.
    fn flaws(&self, origin: &OriginCard) -> Flaws;

    /// Whether it left a good card in service: this one, or the approved one if this one is held.
    fn keep(&self, place: &str, origin: OriginCard) -> bool {
        let flaws = self.flaws(&origin);
        if flaws.is_empty() {
            return approval::keep(self, place, origin);
        }
        let store = self.store();
        let error = format!("{place}: readers refuse the card: {flaws}");
        // Of a card that says something else about its callers the last good one is none any more.
        let stays = store.approval().on_change() == OnChange::Hold
            || (store.current()).is_none_or(|current| self.demands(&origin) == Ok(&current.publication.enforced));
        match stays {
            true => store.fail(&error),
            false => store.refuse(&error),
        }
        false
    }

    /// Puts a card in service. Whether it is.
    fn publish(&self, place: &str, origin: OriginCard) -> bool {
        match self.decide(&origin) {
            Ok(publication) => {
                self.store().accept(place, origin, publication);
                true
            }
            Err(OutOfService(reason)) => {
                self.store().refuse(&reason);
                false
            }
        }
    }
}

/// `keeper` is asked after each attempt, because it may be another one by then; `at_once` ends a pause.
pub async fn refresh_loop<S, K>(
    source: S,
    places: Vec<Place>,
    interval: Duration,
    at_once: Arc<Notify>,
    keeper: impl Fn() -> Arc<K> + Sync,
) where
    S: Source + Sync,
    K: Keeper + Send + Sync,
{
    let interval = interval.max(FIRST_PAUSE);
    let mut failures = 0_u32;
    loop {
        let found = find(&source, &places).await;
        let keeper = keeper();
        let is_kept = kept(found, &*keeper);
        // Whatever came: what is in service may be older.
        let left = until(keeper.store()).map(|end| source.left(end));
        let has_ended = left.is_some_and(|left| left.is_zero());
        if has_ended {
            keeper.store().end();
        }
        let pause = if is_kept && !has_ended {
            failures = 0;
            interval
        } else {
            failures = failures.saturating_add(1);
            pause_after(failures).min(interval)
        };
        // To look for another card when its signature ends.
        let left = left.filter(|_| !has_ended);
        let pause = left.map_or(pause, |left| pause.min(left.max(FIRST_PAUSE)));
        tokio::select! {
            () = tokio::time::sleep(jittered(pause, fastrand::f64())) => {}
            () = at_once.notified() => failures = 0,
        }
    }
}

/// When the card in service ends.
fn until(store: &CardStore) -> Option<u64> {
    store.current().and_then(|current| current.origin.until)
}

/// Whether it left a fresh card in service.
fn kept(found: Result<Found, Missed>, keeper: &impl Keeper) -> bool {
    match found {
        Ok(Found { place, origin }) => keeper.keep(&place, origin),
        Err(Missed::NoCard(errors)) => {
            keeper.store().fail(&errors);
            false
        }
        Err(Missed::Untrusted(reason)) => {
            keeper.store().refuse(&reason);
            false
        }
    }
}

/// Looks for a card once, and says where it is.
pub async fn look<S: Source>(source: &S, places: &[Place]) -> Result<(String, OriginCard), String> {
    match find(source, places).await {
        Ok(Found { place, origin }) => Ok((place, origin)),
        Err(Missed::NoCard(cause) | Missed::Untrusted(cause)) => Err(cause),
    }
}

struct Found {
    /// As people may see it.
    place: String,
    origin: OriginCard,
}

enum Missed {
    /// What was tried, and what came of it.
    NoCard(String),
    /// There is a card, and it must not be used: looking on would let another one outvote it.
    Untrusted(String),
}

async fn find<S: Source>(source: &S, places: &[Place]) -> Result<Found, Missed> {
    let mut errors = Vec::new();
    for place in places {
        for url in &place.urls {
            let fetched = source.fetch(url).await;
            let url = shown_url(url);
            match fetched {
                Ok(bytes) => match read(&bytes) {
                    Ok(mut origin) => {
                        origin.document = Some(bytes);
                        let verified = source.verify(origin).await;
                        return match verified {
                            Ok(origin) => Ok(Found { place: url, origin }),
                            Err(Unverified::Untrusted(reason)) => Err(Missed::Untrusted(format!("{url}: {reason}"))),
                            Err(Unverified::Unknown(error)) => Err(Missed::NoCard(format!("{url}: {error}"))),
                        };
                    }
                    // A server that answers every path with its front page.
                    Err(error) if error.is_no_card() => errors.push(format!("{url}: {error}")),
                    Err(error) => return Err(Missed::Untrusted(format!("{url}: {error}"))),
                },
                Err(FetchError::Absent) => errors.push(format!("{url}: {}", FetchError::Absent)),
                Err(error @ FetchError::Failed(_)) => {
                    errors.push(format!("{url}: {error}"));
                    break;
                }
            }
        }
    }
    Err(Missed::NoCard(errors.join("; ")))
}

pub(super) fn pause_after(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1));
    doubled.map_or(LONGEST_PAUSE, |factor| {
        FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
    })
}

/// Takes off up to a quarter, so that gateways started together do not ask together. `random` is in `0.0..1.0`.
pub(super) fn jittered(pause: Duration, random: f64) -> Duration {
    pause.mul_f64(1.0 - 0.25 * random)
}
