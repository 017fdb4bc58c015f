//! How the cards of one agent are fetched, and who keeps them while one configuration takes the place of another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use tokio::sync::Notify;

use super::rules::Rules;
use crate::a2a::card::{CardError, Flaws, OriginCard, Publication};
use crate::a2a::security::Security;
use crate::authenticate::Verifiers;
use crate::card::{self, CardState, CardStore, FetchError, Keeper as _, OutOfService, Unverified, Verifier};
use crate::http::fetch;
use crate::pipeline::Agent;
use crate::upstream::{InName, Upstream};

/// One job that fetches cards, and for whom: the agent as the configuration in force has it.
pub struct Course {
    pub target: ArcSwap<Target>,
    pub at_once: Arc<Notify>,
}

impl Course {
    /// What is known of the card before anything was fetched is in force.
    pub fn begin(self: &Arc<Self>) {
        let target = self.target.load();
        let course: Arc<dyn card::KeepAgain> = self.clone();
        target.agent.card.approval().kept_by(Arc::downgrade(&course));
        if target.agent.card.current().is_none() {
            target.keep_managed();
        }
        card::begin(&**target);
    }

    /// Cards are kept by another one from now on, which begins with what is known.
    pub fn turn_to(&self, next: Arc<Target>) {
        let carried = self.target.load().agent.card.state();
        next.take_over(&self.target.load());
        let before = self.target.swap(next.clone());
        // A card may have come between.
        if !Arc::ptr_eq(&before.agent.card.state(), &carried) {
            next.take_over(&before);
        }
        if !next.agent.is_ready() {
            self.at_once.notify_one();
        }
    }
}

/// An agent and what decides about its cards.
pub struct Target {
    pub agent: Arc<Agent>,
    pub rules: Arc<Rules>,
    pub verifiers: Arc<Verifiers>,
}

impl Target {
    /// Publishes and enforces by its own rules what another one knows.
    fn take_over(&self, before: &Self) {
        let enforced = self.agent.enforced.load();
        let in_order = enforced.as_ref().is_none_or(|enforced| enforced.is_of(&self.verifiers));
        if !Arc::ptr_eq(&self.agent, &before.agent) || !in_order {
            self.carry(&before.agent.card);
        }
    }

    /// The card that the configuration has itself.
    fn keep_managed(&self) -> bool {
        let Some(file) = self.rules.managed() else {
            return false;
        };
        self.keep(&file.path.display().to_string(), file.card.clone());
        true
    }

    pub fn carry(&self, before: &CardStore) {
        if self.keep_managed() {
            return;
        }
        self.agent.card.approval().take_over(before);
        self.keep_again(before);
        // Perhaps it is approved by now.
        if let Some(differing) = before.approval().differing().filter(|differing| differing.held) {
            self.keep(&differing.place, differing.origin.clone());
        }
    }

    fn keep_again(&self, before: &CardStore) {
        match &*before.state() {
            CardState::Ready { card, .. } => {
                self.keep(&card.place, card.origin.clone());
            }
            // Until it was looked at again.
            CardState::OutOfService { reason } => self.agent.card.refuse(reason),
            CardState::NotFetched { .. } => {}
        }
    }
}

impl card::KeepAgain for Course {
    fn keep_again(&self, place: &str, origin: OriginCard) {
        self.target.load().keep(place, origin);
    }
}

impl card::Keeper for Target {
    fn store(&self) -> &CardStore {
        &self.agent.card
    }

    fn demands<'a>(&'a self, origin: &'a OriginCard) -> Result<&'a Security, CardError> {
        self.rules.demands(origin)
    }

    fn flaws(&self, origin: &OriginCard) -> Flaws {
        self.rules.flaws(origin)
    }

    fn decide(&self, origin: &OriginCard) -> Result<Publication, OutOfService> {
        self.rules.decide(origin, &self.agent, &self.verifiers)
    }
}

const SIGNATURES: &[u8] = b"\"signatures\"";

/// Asks for cards.
pub struct Source {
    pub upstream: Arc<Upstream>,
    /// The card comes from the agent's own servers.
    pub own: bool,
    pub verifier: Option<Arc<Verifier>>,
    pub options: fetch::Options,
    /// What came last, to ask only for what is newer (RFC 9110 §13.1.2).
    pub last: Mutex<Option<Last>>,
}

/// A card as its server told it, and the entity tag that it gave it.
pub struct Last {
    url: String,
    etag: HeaderValue,
    body: Bytes,
}

impl Source {
    fn known(&self, url: &str) -> Option<(HeaderValue, Bytes)> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref().filter(|last| last.url == url)?;
        Some((last.etag.clone(), last.body.clone()))
    }

    /// Another card has another tag. What is weak says no more than that its server takes two for the same (RFC 9110 §8.8.3), which the
    /// SDK for Python does with a card that is signed anew.
    fn tells(&self, etag: &HeaderValue, card: &[u8]) -> bool {
        let is_signed = || card.windows(SIGNATURES.len()).any(|text| text == SIGNATURES);
        !etag.as_bytes().starts_with(b"W/") || (self.verifier.is_none() && !is_signed())
    }

    fn keep(&self, url: &str, fetched: &fetch::Fetched) {
        let etag = fetched
            .headers
            .get(header::ETAG)
            .filter(|etag| self.tells(etag, &fetched.body));
        let last = etag.map(|etag| Last {
            url: url.to_owned(),
            etag: etag.clone(),
            body: fetched.body.clone(),
        });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}

impl card::Source for Source {
    async fn verify(&self, origin: OriginCard) -> Result<OriginCard, Unverified> {
        match &self.verifier {
            Some(verifier) => verifier.verify(origin).await,
            None => Ok(origin),
        }
    }

    fn left(&self, until: u64) -> Duration {
        self.verifier
            .as_ref()
            .map_or(Duration::MAX, |verifier| verifier.left(until))
    }

    async fn fetch(&self, url: &str) -> Result<Bytes, FetchError> {
        let mut options = self.options.clone();
        // The credential is for the agent's own servers; a card from elsewhere is fetched without it.
        let mut shown = None;
        if self.own {
            let dressed = self.upstream.dress_own(&mut options.headers).await;
            shown = dressed.map_err(|error| FetchError::Failed(error.to_string()))?;
        }
        let known = self.known(url);
        if let Some((etag, _)) = &known {
            options.headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        // Made anew by a reload.
        let fetcher = self.upstream.fetcher();
        let fetched = fetcher.get(url, &options).await.map_err(|error| {
            let cause = std::error::Error::source(&error)
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            FetchError::Failed(format!("{error}{cause}"))
        })?;
        match fetched.status {
            StatusCode::OK => {
                self.keep(url, &fetched);
                Ok(fetched.body)
            }
            StatusCode::NOT_MODIFIED => match known {
                Some((_, body)) => Ok(body),
                None => Err(FetchError::Failed(
                    "answered 304 to what was no such question".to_owned(),
                )),
            },
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => Err(FetchError::Absent),
            status => {
                if status == StatusCode::UNAUTHORIZED {
                    self.upstream.refused(&InName::Gateway, shown);
                }
                Err(FetchError::Failed(format!("answered {status}")))
            }
        }
    }
}
