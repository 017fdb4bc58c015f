//! The card of an agent: fetched, published, served, kept fresh.
//!
//! One store an agent. It holds either nothing yet, or the origin card with what is published from it, or the reason why
//! the agent may not be served. A card that cannot be fetched, is no card or lacks what readers need changes nothing: the last
//! good one stays. A card that was fetched and cannot be trusted takes the agent out of service, because what it demands of
//! callers is not known any more. Knows nothing of how cards are fetched (`Source`) and of what is enforced (`Keeper`).

mod approval;
mod cors;
mod places;
mod refresh;
mod serve;
#[cfg(test)]
mod tests;
mod verify;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::a2a::card::{
    Differences, KeyPlace, OriginCard, Publication, SchemeForm, SchemeFormKind, differences, publish, publish_v0_1,
};
use crate::a2a::{self, Generation};
use crate::audit::{Event, Trail};
use crate::catalogue::Entry;
use crate::config::{self, ApiKeyPlace, AuditEvent, Scheme, SchemeKind};
use crate::signing::CardSigner;

pub use approval::{Approval, Differing, KeepAgain, Unapproved, begin};
pub use cors::Cors;
pub use places::{Place, extended_places, places};
pub use refresh::{FetchError, Keeper, OutOfService, Source, look, refresh_loop};
pub use serve::{Published, confide, serve};
pub use verify::{Unverified, Verifier};

/// Differences in one line of the audit trail: the log has the others.
const MOST_RECORDED: usize = 8;

/// What is known of an agent's card. The texts name upstream addresses: for the log and the admin listener only.
#[derive(Clone, Debug)]
pub enum CardState {
    /// No card has been read since the start.
    NotFetched {
        /// Why the last attempt failed; `None` before the first one ended.
        last_error: Option<Arc<str>>,
    },
    Ready {
        card: Arc<Current>,
        /// Why the last refresh failed; the card is the last good one then.
        last_error: Option<Arc<str>>,
    },
    /// The agent must not be served (fail closed).
    OutOfService { reason: Arc<str> },
}

/// A card in service.
#[derive(Clone, Debug)]
pub struct Current {
    /// Where the origin card was found; for people, so without what may be secret in it.
    pub place: String,
    pub origin: OriginCard,
    /// What the public card was made from; extended cards are rewritten with the same.
    pub publication: Publication,
    /// For callers who ask for no version.
    pub published: Published,
    /// Where callers of each generation have a card of their own.
    versions: Vec<(Generation, Published)>,
    /// For callers of 0.1, who look for it at a place of their own (`route::OLD_CARD_PATH`).
    pub v0_1: Option<Published>,
    /// How lists of agents tell of it.
    pub entry: Arc<Entry>,
    /// As the agent wrote it, where that may be known.
    pub original: Option<Published>,
}

/// No card is served in the version that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no card of this version")]
pub struct NoVersion;

impl Current {
    fn new(
        place: &str,
        origin: OriginCard,
        publication: Publication,
        max_age: Duration,
        signer: Option<&CardSigner>,
    ) -> Self {
        let write = |publication: &Publication| {
            let card = publish(&origin, publication);
            let card = match signer {
                Some(signer) => signer.published(card, &publication.served),
                None => card,
            };
            Published::new(card.bytes, max_age)
        };
        let versions = publication.versions().iter();
        let v0_1 = publication
            .v0_1
            .then(|| write_v0_1(&origin, &publication, max_age))
            .flatten();
        let versions: Vec<_> = versions
            .map(|generation| (*generation, write(&publication.of(*generation)).varying()))
            .collect();
        Self {
            place: place.to_owned(),
            // No version at all means the oldest (A2A 1.0 §3.6.2).
            published: match versions.first() {
                Some((_, oldest)) => oldest.clone(),
                None => write(&publication),
            },
            versions,
            v0_1,
            entry: Arc::new(Entry::of(&publish(&origin, &publication), &publication)),
            original: (origin.document.clone())
                .filter(|_| publication.original)
                .map(|document| Published::new(document, max_age)),
            origin,
            publication,
        }
    }

    /// Callers may choose among cards by the version that they ask for.
    pub fn varies(&self) -> bool {
        !self.versions.is_empty()
    }

    /// The card for a caller who asks for this version, without a patch part.
    pub fn asked(&self, version: Option<&[u8]>) -> Result<&Published, NoVersion> {
        let Some(version) = version else {
            return Ok(&self.published);
        };
        let generation = std::str::from_utf8(version).ok().and_then(a2a::card::generation);
        let mut versions = self.versions.iter();
        let found = versions.find(|(known, _)| Some(*known) == generation);
        found.map(|(_, published)| published).ok_or(NoVersion)
    }
}

fn write_v0_1(origin: &OriginCard, publication: &Publication, max_age: Duration) -> Option<Published> {
    let publication = Publication {
        push: publication.push_v0_1,
        ..publication.clone()
    };
    let card = publish_v0_1(&publish(origin, &publication), &publication)?;
    Some(Published::new(card.bytes, max_age))
}

#[derive(Debug)]
pub struct CardStore {
    agent: Arc<str>,
    max_age: Duration,
    state: ArcSwap<CardState>,
    approval: Approval,
    signer: ArcSwapOption<CardSigner>,
    verifier: Option<Arc<Verifier>>,
    /// Held while the state changes.
    changing: Mutex<()>,
    audit: Option<Trail>,
}

impl CardStore {
    /// `max_age` is how long clients may keep the published card without asking again.
    pub fn new(agent: &str, max_age: Duration) -> Self {
        Self {
            agent: Arc::from(agent),
            max_age,
            approval: Approval::default(),
            state: ArcSwap::from_pointee(CardState::NotFetched { last_error: None }),
            signer: ArcSwapOption::empty(),
            verifier: None,
            changing: Mutex::new(()),
            audit: None,
        }
    }

    /// Cards that differ from an approved one are dealt with as the configuration says.
    #[must_use]
    pub fn approving(mut self, config: &config::Card) -> Self {
        self.approval = Approval::new(config);
        self
    }

    /// Extended cards are believed as far as this one believes them.
    #[must_use]
    pub fn believing(mut self, verifier: Option<Arc<Verifier>>) -> Self {
        self.verifier = verifier;
        self
    }

    /// For extended cards; `None`: whatever they say is believed.
    pub fn verifier(&self) -> Option<&Arc<Verifier>> {
        self.verifier.as_ref()
    }

    /// What changes is recorded there.
    #[must_use]
    pub fn telling(mut self, audit: &Trail) -> Self {
        self.audit = Some(audit.clone());
        self
    }

    fn record(&self, event: AuditEvent, detail: &str) {
        if let Some(audit) = &self.audit {
            audit.record(&Event {
                agent: Some(&self.agent),
                detail: Some(detail),
                ..Event::new(event, "ok")
            });
        }
    }

    pub fn approval(&self) -> &Approval {
        &self.approval
    }

    pub fn max_age(&self) -> Duration {
        self.max_age
    }

    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// For readiness and the admin listener.
    pub fn state(&self) -> Arc<CardState> {
        self.state.load_full()
    }

    /// The card in service, if the agent may be served.
    pub fn current(&self) -> Option<Arc<Current>> {
        match self.state.load().as_ref() {
            CardState::Ready { card, .. } => Some(Arc::clone(card)),
            CardState::NotFetched { .. } | CardState::OutOfService { .. } => None,
        }
    }

    /// Cards are signed by these keys from then on, the one in service too.
    pub fn sign_with(&self, signer: Option<&Arc<CardSigner>>) {
        let changing = self.changing();
        let before = self.signer.swap(signer.cloned());
        let is_same = match (&before, signer) {
            (Some(before), Some(signer)) => Arc::ptr_eq(before, signer),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_same {
            return;
        }
        if let CardState::Ready { card, last_error } = &*self.state() {
            let publication = card.publication.clone();
            self.publish(&card.place, card.origin.clone(), publication, last_error.clone());
        }
        drop(changing);
    }

    /// For extended cards.
    pub fn signer(&self) -> Option<Arc<CardSigner>> {
        self.signer.load_full()
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        // Nothing is half done where somebody panicked: the state is swapped as one.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a card.
    pub fn accept(&self, place: &str, origin: OriginCard, publication: Publication) {
        let _changing = self.changing();
        self.publish(place, origin, publication, None);
    }

    fn publish(&self, place: &str, origin: OriginCard, publication: Publication, error: Option<Arc<str>>) {
        let signed = origin.is_signed();
        let signer = self.signer.load();
        let current = Current::new(place, origin, publication, self.max_age, signer.as_deref());
        let agent = self.agent.as_ref();
        let etag = &current.published.etag;
        let known = matches!(self.state.load().as_ref(), CardState::Ready { card, .. } if card.published.etag == etag);
        if current.publication.v0_1 && current.v0_1.is_none() && !known {
            tracing::warn!(
                agent,
                "A2A 0.1 has no words for what callers must show; its callers get the card of later versions"
            );
        }
        let told = |what: &str| format!("{what}: {place}, etag {}", etag.to_str().unwrap_or_default());
        match self.state.load().as_ref() {
            CardState::Ready { card, last_error } => {
                if last_error.is_some() && error.is_none() {
                    tracing::info!(agent, place, "agent card can be refreshed again");
                }
                let changes = differences(&card.origin, &current.origin);
                if card.published.etag != etag || !changes.is_empty() {
                    tracing::info!(agent, place, ?etag, "agent card changed");
                    tell(agent, &changes);
                    let detail = format!("{}; {}", told("changed"), shortly(&changes));
                    self.record(AuditEvent::CardPublished, &detail);
                }
            }
            CardState::NotFetched { .. } => {
                tracing::info!(agent, place, ?etag, "agent card published");
                self.record(AuditEvent::CardPublished, &told("first"));
            }
            CardState::OutOfService { .. } => {
                tracing::info!(agent, place, ?etag, "agent is back in service");
                self.record(AuditEvent::AgentInService, &told("back"));
            }
        }
        if !known && !current.origin.duplicate_skills.is_empty() {
            let skills = current.origin.duplicate_skills.len();
            let first = current.origin.duplicate_skills.first();
            let first = first.and_then(|(_, skill)| skill.get("id")?.as_str());
            tracing::warn!(
                agent,
                skills,
                first,
                "skills of the agent card have the id of another one before them, and are left out"
            );
        }
        if signed {
            tracing::debug!(
                agent,
                "the agent's own signatures are not published: they do not hold for the published card"
            );
        }
        self.state.store(Arc::new(CardState::Ready {
            card: Arc::new(current),
            last_error: error,
        }));
    }

    /// Takes the agent out of service.
    pub fn refuse(&self, reason: &str) {
        let _changing = self.changing();
        let agent = self.agent.as_ref();
        match self.state.load().as_ref() {
            CardState::OutOfService { reason: known } if known.as_ref() == reason => return,
            CardState::OutOfService { .. } | CardState::NotFetched { .. } | CardState::Ready { .. } => {
                tracing::error!(agent, reason, "agent is out of service");
                self.record(AuditEvent::AgentOutOfService, reason);
            }
        }
        self.state.store(Arc::new(CardState::OutOfService {
            reason: Arc::from(reason),
        }));
    }

    /// The signature of the card in service has ended.
    fn end(&self) {
        self.approval
            .end(self.current().and_then(|current| current.origin.until));
        self.refuse("the signature of the card has expired, and no other card came");
    }

    /// A card came, and what is in service stays.
    fn settle(&self) {
        if let CardState::Ready {
            card,
            last_error: Some(_),
        } = self.state.load().as_ref()
        {
            self.state.store(Arc::new(CardState::Ready {
                card: Arc::clone(card),
                last_error: None,
            }));
        }
    }

    /// Remembers why no card came; what is in service stays.
    pub fn fail(&self, error: &str) {
        let _changing = self.changing();
        let agent = self.agent.as_ref();
        let last_error = Some(Arc::from(error));
        let state = match self.state.load().as_ref() {
            CardState::NotFetched { last_error: before } => {
                if before.is_none() {
                    tracing::warn!(agent, error, "agent has no card yet; trying again");
                } else {
                    tracing::debug!(agent, error, "agent still has no card");
                }
                CardState::NotFetched { last_error }
            }
            CardState::Ready {
                card,
                last_error: before,
            } => {
                if before.is_none() {
                    tracing::warn!(agent, error, "agent card cannot be refreshed; the last good one stays");
                }
                CardState::Ready {
                    card: Arc::clone(card),
                    last_error,
                }
            }
            CardState::OutOfService { .. } => return,
        };
        self.state.store(Arc::new(state));
    }
}

/// One line each; they are bounded, and their texts clean.
fn tell(agent: &str, differences: &Differences) {
    for difference in &differences.listed {
        let (member, matters) = (&*difference.member, difference.matters);
        let (before, after) = (difference.before.as_deref(), difference.after.as_deref());
        tracing::info!(
            agent,
            member,
            before,
            after,
            matters,
            "a member of the agent card is different"
        );
    }
    if differences.left_out > 0 {
        let more = differences.left_out;
        tracing::info!(agent, more, "more members of the agent card are different");
    }
}

/// For one line of the audit trail.
fn shortly(differences: &Differences) -> String {
    let listed = differences.listed.iter().take(MOST_RECORDED);
    let members: Vec<String> = listed.map(ToString::to_string).collect();
    let more = differences.listed.len().saturating_sub(MOST_RECORDED) + differences.left_out;
    match (members.is_empty(), more) {
        (true, _) => "the same members".to_owned(),
        (false, 0) => members.join("; "),
        (false, more) => format!("{}; and {more} more", members.join("; ")),
    }
}

/// What a card says about a configured scheme.
pub fn scheme_form(scheme: &Scheme) -> SchemeForm {
    let kind = match &scheme.kind {
        SchemeKind::ApiKey { place, name, .. } => SchemeFormKind::ApiKey {
            place: match place {
                ApiKeyPlace::Header => KeyPlace::Header,
                ApiKeyPlace::Query => KeyPlace::Query,
                ApiKeyPlace::Cookie => KeyPlace::Cookie,
            },
            name: name.clone(),
        },
        SchemeKind::Bearer { bearer_format, .. } => SchemeFormKind::HttpBearer {
            bearer_format: bearer_format.clone(),
        },
        SchemeKind::Basic { .. } => SchemeFormKind::HttpBasic,
        SchemeKind::Http { scheme, .. } => SchemeFormKind::HttpOther { scheme: scheme.clone() },
        SchemeKind::OAuth2 {
            flows, metadata_url, ..
        } => SchemeFormKind::OAuth2 {
            flows: flows.as_object().cloned().unwrap_or_default(),
            metadata_url: metadata_url.clone(),
        },
        SchemeKind::OpenIdConnect { url, .. } => SchemeFormKind::OpenIdConnect { url: url.clone() },
        SchemeKind::MutualTls { .. } => SchemeFormKind::MutualTls,
    };
    SchemeForm {
        description: scheme.description.clone(),
        kind,
    }
}
