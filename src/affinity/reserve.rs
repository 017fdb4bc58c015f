//! Contexts that callers begin: reserved for one endpoint while calls that name them are under way.
//!
//! A record is made by an answer. Until the first one has come, calls of one new conversation would each be balanced, and
//! two that came at once would split it for ever. So the first call that names an unknown context reserves it for its
//! endpoint, and later ones follow for as long as any of them is under way: until its answer was learned from, and the
//! record takes over, or until it ended otherwise, so that nobody is held to an endpoint that taught nothing.
//!
//! Keyed like the records, by agent (each has its own `Reservations`) and context id. In memory only. Bounded by the calls
//! under way: each holds at most one reservation, of an id that could become a record.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ahash::RandomState;

use super::journal::record::MAX_ID;
use super::{Owner, lock};
use crate::a2a::ContextId;

/// The reservations of one agent.
#[derive(Debug, Default)]
pub struct Reservations(Mutex<HashMap<ContextId, Held, RandomState>>);

#[derive(Debug)]
struct Held {
    endpoint: Arc<str>,
    /// Whose the context is going to be.
    owner: Arc<str>,
    /// Under way, wherever they go.
    calls: usize,
}

/// What a call of a new conversation is to do.
#[derive(Debug)]
pub enum Reserved {
    /// Go to the endpoint of the reservation, and keep it until the answer was learned from.
    Held(Reservation),
    /// An answer has told the owner since it was looked for.
    Owned(Owner),
    /// Somebody else begins a conversation of this name at this moment.
    Foreign,
    /// Go anywhere: what this context is called will not be remembered.
    Unnamed,
}

/// A call's part in the reservation of its context; given up on drop.
#[derive(Debug)]
pub struct Reservation {
    all: Arc<Reservations>,
    context: ContextId,
    /// Where this call goes. Others may have moved on.
    endpoint: Arc<str>,
}

impl Reservations {
    /// For `chosen`, unless other calls hold the context for another endpoint. `owner` is asked under the lock, and whoever
    /// teaches an owner gives up a reservation only afterwards: one of the two is always seen.
    ///
    /// `permits` is asked whether the caller may take part in what belongs to another owner.
    pub fn reserve(
        self: &Arc<Self>,
        context: &ContextId,
        chosen: &Arc<str>,
        own: &Arc<str>,
        permits: impl FnOnce(&str) -> bool,
        owner: impl FnOnce() -> Option<Owner>,
    ) -> Reserved {
        if !(1..=MAX_ID).contains(&context.as_str().len()) {
            return Reserved::Unnamed;
        }
        let mut all = lock(&self.0);
        let endpoint = if let Some(held) = all.get_mut(context) {
            if !permits(&held.owner) {
                return Reserved::Foreign;
            }
            held.calls += 1;
            held.endpoint.clone()
        } else if let Some(owner) = owner() {
            return Reserved::Owned(owner);
        } else {
            let held = Held {
                endpoint: chosen.clone(),
                owner: own.clone(),
                calls: 1,
            };
            all.insert(context.clone(), held);
            chosen.clone()
        };
        Reserved::Held(Reservation {
            all: self.clone(),
            context: context.clone(),
            endpoint,
        })
    }
}

impl Reservation {
    pub fn endpoint(&self) -> &Arc<str> {
        &self.endpoint
    }

    /// Other calls of the conversation are under way.
    pub fn is_shared(&self) -> bool {
        lock(&self.all.0).get(&self.context).is_some_and(|held| held.calls > 1)
    }

    /// The call could not be sent to its endpoint: follows the others if they have moved on, else moves all to `chosen`.
    pub fn elsewhere(mut self, chosen: &Arc<str>, owner: impl FnOnce() -> Option<Owner>) -> Reserved {
        let all = self.all.clone();
        let mut all = lock(&all.0);
        if let Some(owner) = owner() {
            // `self` takes the lock again to be dropped.
            drop(all);
            return Reserved::Owned(owner);
        }
        if let Some(held) = all.get_mut(&self.context) {
            if held.endpoint == self.endpoint {
                held.endpoint = chosen.clone();
            }
            self.endpoint = held.endpoint.clone();
        }
        Reserved::Held(self)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        if let Some(held) = all.get_mut(&self.context) {
            held.calls -= 1;
            if held.calls == 0 {
                all.remove(&self.context);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Generation;

    const NOBODY: fn() -> Option<Owner> = || None;

    fn reserve(all: &Arc<Reservations>, context: &str, chosen: &str) -> Reservation {
        held(reserve_for("ann", all, context, chosen, NOBODY))
    }

    fn reserve_for(
        own: &str,
        all: &Arc<Reservations>,
        context: &str,
        chosen: &str,
        owner: impl FnOnce() -> Option<Owner>,
    ) -> Reserved {
        let permits = |owner: &str| owner == own;
        all.reserve(
            &ContextId::new(context),
            &Arc::from(chosen),
            &Arc::from(own),
            permits,
            owner,
        )
    }

    fn owner_at_a() -> Option<Owner> {
        Some(Owner {
            endpoint: Arc::from("a"),
            principal: Arc::from("ann"),
            state: None,
            generation: Generation::V1_0,
        })
    }

    fn held(reserved: Reserved) -> Reservation {
        match reserved {
            Reserved::Held(reservation) => reservation,
            Reserved::Owned(_) | Reserved::Foreign | Reserved::Unnamed => panic!("{reserved:?}"),
        }
    }

    #[test]
    fn the_first_call_chooses_and_later_ones_follow_while_one_is_under_way() {
        let all = Arc::default();
        let first = reserve(&all, "c", "a");
        assert_eq!(&**first.endpoint(), "a");
        assert!(!first.is_shared());
        let second = reserve(&all, "c", "b");
        assert_eq!(&**second.endpoint(), "a");
        assert!(first.is_shared() && second.is_shared());
        assert_eq!(&**reserve(&all, "other", "b").endpoint(), "b");
        drop(first);
        assert_eq!(&**reserve(&all, "c", "b").endpoint(), "a", "the second still holds it");
        drop(second);
        assert_eq!(&**reserve(&all, "c", "b").endpoint(), "b");
        assert!(lock(&all.0).is_empty(), "nothing stays");
    }

    #[test]
    fn an_owner_that_was_learned_meanwhile_ends_the_search() {
        let all: Arc<Reservations> = Arc::default();
        let reserved = reserve_for("ann", &all, "c", "b", owner_at_a);
        assert!(
            matches!(&reserved, Reserved::Owned(owner) if &*owner.endpoint == "a"),
            "{reserved:?}"
        );
        let moved = reserve(&all, "c", "b").elsewhere(&Arc::from("d"), owner_at_a);
        assert!(
            matches!(&moved, Reserved::Owned(owner) if &*owner.endpoint == "a"),
            "{moved:?}"
        );
        assert!(lock(&all.0).is_empty(), "nothing stays");
    }

    #[test]
    fn a_conversation_that_somebody_begins_is_nobody_elses() {
        let all = Arc::default();
        let first = reserve(&all, "c", "a");
        let foreign = reserve_for("bob", &all, "c", "a", NOBODY);
        assert!(matches!(foreign, Reserved::Foreign), "{foreign:?}");
        assert!(!first.is_shared(), "a refused call takes no part");
        drop(first);
        let free = reserve_for("bob", &all, "c", "b", NOBODY);
        assert!(matches!(free, Reserved::Held(_)), "{free:?}");
    }

    #[test]
    fn who_moves_on_takes_later_calls_along() {
        let all = Arc::default();
        let first = reserve(&all, "c", "a");
        let second = reserve(&all, "c", "a");
        let first = held(first.elsewhere(&Arc::from("b"), NOBODY));
        assert_eq!(&**first.endpoint(), "b");
        assert_eq!(&**reserve(&all, "c", "a").endpoint(), "b");
        // The others have left `a` already: no third endpoint.
        let second = held(second.elsewhere(&Arc::from("d"), NOBODY));
        assert_eq!(&**second.endpoint(), "b");
        drop((first, second));
        assert!(lock(&all.0).is_empty(), "nothing stays");
    }

    #[test]
    fn what_cannot_be_remembered_is_not_reserved() {
        let all: Arc<Reservations> = Arc::default();
        let check = |length: usize, named: bool| {
            let reserved = reserve_for("ann", &all, &"c".repeat(length), "a", NOBODY);
            assert_eq!(matches!(reserved, Reserved::Held(_)), named, "{length}");
        };
        check(0, false);
        check(1, true);
        check(MAX_ID, true);
        check(MAX_ID + 1, false);
    }
}
