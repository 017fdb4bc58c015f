//! Which card of an agent somebody has approved, and what becomes of one that differs from it.
//!
//! Compared is what matters (`a2a::card::differences`). The approved card stands in a file, or is the first one in service since the
//! start. A card that is held changes nothing: neither what is published nor what is enforced. One lock is held while a card
//! is judged and published, so that two of them do not take turns; never across an await.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http::{HeaderMap, HeaderValue};

use super::serve::{entity_tag, is_meant};
use super::{CardStore, Keeper};
use crate::a2a::card::{Differences, OriginCard, differences, unapproved};
use crate::audit::Event;
use crate::config::{self, AuditEvent, CardFile, OnChange};

/// How the cards of one agent are approved, and how it stands.
pub struct Approval {
    on_change: OnChange,
    file: Option<CardFile>,
    standing: Mutex<Standing>,
    keeper: Mutex<Option<Weak<dyn KeepAgain>>>,
}

#[derive(Default)]
struct Standing {
    approved: Option<Approved>,
    differing: Option<Arc<Differing>>,
}

#[derive(Clone)]
struct Approved {
    place: String,
    card: Arc<OriginCard>,
    /// Its signature holds no more.
    ended: bool,
}

/// The agent's own card, which differs from the approved one in what matters.
#[derive(Debug)]
pub struct Differing {
    pub place: String,
    pub origin: OriginCard,
    pub differences: Differences,
    /// It is not in service; else it is, with an alert.
    pub held: bool,
    /// Tells it from other cards, but not from itself signed anew.
    pub etag: HeaderValue,
}

/// Why nothing was approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unapproved {
    #[error("the agent's own card is the approved one already")]
    Nothing,
    #[error("the agent's own card is another one by now: look at the differences again")]
    Other,
    #[error("the file of `card.approved` is what approves: save the agent's card there (`a2a-gateway card fetch`)")]
    ByFile,
}

/// Whoever keeps the cards of an agent by now.
pub trait KeepAgain: Send + Sync {
    fn keep_again(&self, place: &str, origin: OriginCard);
}

impl Approval {
    pub fn new(config: &config::Card) -> Self {
        let approved = config.approved.as_ref().map(|file| Approved {
            place: file.path.display().to_string(),
            card: Arc::new(file.card.clone()),
            ended: false,
        });
        Self {
            on_change: config.on_change,
            file: config.approved.clone(),
            standing: Mutex::new(Standing {
                approved,
                differing: None,
            }),
            keeper: Mutex::default(),
        }
    }

    /// Who keeps a card that is approved later.
    pub fn kept_by(&self, keeper: Weak<dyn KeepAgain>) {
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
    }

    pub fn on_change(&self) -> OnChange {
        self.on_change
    }

    /// The file that approves.
    pub fn file(&self) -> Option<&CardFile> {
        self.file.as_ref()
    }

    /// `None`: what the agent says is approved, as far as is known.
    pub fn differing(&self) -> Option<Arc<Differing>> {
        self.standing().differing.clone()
    }

    /// Goes on with what another configuration knew, unless a file says what is approved.
    pub fn take_over(&self, before: &CardStore) {
        if self.file.is_some() {
            return;
        }
        let known = before.approval();
        let approved = match &known.file {
            // Nobody says any more what is; what is in service is taken for it.
            Some(_) => before.current().map(|current| Approved {
                place: current.place.clone(),
                card: Arc::new(current.origin.clone()),
                ended: false,
            }),
            None => known.standing().approved.clone(),
        };
        self.standing().approved = approved;
    }

    /// Nothing that is signed no longer than until then is put in service again.
    pub(super) fn end(&self, until: Option<u64>) {
        if let Some(approved) = &mut self.standing().approved {
            approved.ended |= approved.card.until.is_some_and(|end| Some(end) <= until);
        }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every card is published.
impl Default for Approval {
    fn default() -> Self {
        Self {
            on_change: OnChange::Publish,
            file: None,
            standing: Mutex::default(),
            keeper: Mutex::default(),
        }
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approval").field("on_change", &self.on_change).finish()
    }
}

/// Publishes the card that an operator approved where nothing else is in service, before the agent was asked.
pub fn begin<K: Keeper + ?Sized>(keeper: &K) {
    let store = keeper.store();
    let approval = store.approval();
    let standing = approval.standing();
    let approved = approval.file.as_ref().and(standing.approved.as_ref());
    if let (OnChange::Hold, Some(approved), None) = (approval.on_change, approved, store.current()) {
        keeper.publish(&approved.place, (*approved.card).clone());
    }
}

/// Whether a good card is in service then.
pub(super) fn keep<K: Keeper + ?Sized>(keeper: &K, place: &str, origin: OriginCard) -> bool {
    let store = keeper.store();
    let approval = store.approval();
    let mut standing = approval.standing();
    let this = |card: &OriginCard| Approved {
        place: place.to_owned(),
        card: Arc::new(card.clone()),
        ended: false,
    };
    let by_file = approval.file.is_some();
    let Some(approved) = standing.approved.clone() else {
        let first = this(&origin);
        let good = keeper.publish(place, origin);
        standing.approved = good.then_some(first);
        return good;
    };
    let differences = match by_file {
        true => unapproved(&approved.card, &origin),
        false => differences(&approved.card, &origin),
    };
    if !differences.matter() || approval.on_change == OnChange::Publish {
        if standing.differing.take().is_some() {
            tracing::info!(agent = store.agent(), place, "the agent card is the approved one again");
        }
        let next = (!by_file).then(|| this(&origin));
        let good = keeper.publish(place, origin);
        if let Some(next) = next.filter(|_| good) {
            standing.approved = Some(next);
        }
        return good;
    }
    let held = approval.on_change == OnChange::Hold;
    let etag = entity_tag(origin.unsigned().as_bytes());
    let known = standing.differing.as_ref();
    let is_known = known.is_some_and(|known| known.held == held && known.etag == etag);
    let differing = Arc::new(Differing {
        place: place.to_owned(),
        origin,
        differences,
        held,
        etag,
    });
    if !is_known {
        warn(store, &differing);
    }
    standing.differing = Some(differing.clone());
    if !held {
        return keeper.publish(place, differing.origin.clone());
    }
    match store.current() {
        Some(current) if !self::differences(&approved.card, &current.origin).matter() => {
            store.settle();
            true
        }
        Some(_) | None if approved.ended => {
            store.refuse("the agent's own card is held, and the signature of the approved one has expired");
            false
        }
        Some(_) | None => keeper.publish(&approved.place, (*approved.card).clone()),
    }
}

fn warn(store: &CardStore, differing: &Differing) {
    let (agent, place) = (store.agent(), &*differing.place);
    let Differing {
        differences,
        held: is_held,
        ..
    } = differing;
    match is_held {
        true => tracing::warn!(
            agent,
            place,
            "the agent card differs from the approved one and is held; what was published before stays"
        ),
        false => tracing::warn!(
            agent,
            place,
            "the agent card differs from the approved one, and is published all the same"
        ),
    }
    super::tell(agent, differences);
    let event = match is_held {
        true => AuditEvent::CardHeld,
        false => AuditEvent::CardAlert,
    };
    store.record(event, &format!("{place}: {}", super::shortly(differences)));
}

impl CardStore {
    /// Takes the card that differs for the approved one, and publishes it where it was held; with `If-Match` in `asked` only one that
    /// it names. Returns what was different.
    pub fn approve(&self, client: std::net::IpAddr, asked: &HeaderMap) -> Result<Arc<Differing>, Unapproved> {
        let approval = self.approval();
        let differing = {
            let mut standing = approval.standing();
            if approval.file.is_some() {
                return Err(Unapproved::ByFile);
            }
            let known = standing.differing.as_ref().ok_or(Unapproved::Nothing)?;
            if !is_meant(asked, &known.etag) {
                return Err(Unapproved::Other);
            }
            let differing = standing.differing.take().ok_or(Unapproved::Nothing)?;
            standing.approved = Some(Approved {
                place: differing.place.clone(),
                card: Arc::new(differing.origin.clone()),
                ended: false,
            });
            differing
        };
        tracing::info!(
            agent = self.agent(),
            place = differing.place,
            "an operator has approved the agent card"
        );
        if let Some(audit) = &self.audit {
            audit.record(&Event {
                client: Some(client),
                listener: Some("admin"),
                agent: Some(self.agent()),
                detail: Some(&format!(
                    "{}: {}",
                    differing.place,
                    super::shortly(&differing.differences)
                )),
                ..Event::new(AuditEvent::CardApproved, "ok")
            });
        }
        let keeper = approval.keeper.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // An agent that is gone has no card to publish.
        if let Some(keeper) = keeper.and_then(|keeper| keeper.upgrade()) {
            keeper.keep_again(&differing.place, differing.origin.clone());
        }
        Ok(differing)
    }
}
