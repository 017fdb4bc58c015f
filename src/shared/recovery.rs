//! What the server lost, and until when nothing follows from a record that is missing.
//!
//! An emptied server knows no owner, and the gateways do. Until each has found that out and written back what it knows, a
//! record that is not there may be anybody's. So whoever finds the loss declares it to all, under a key that expires, and
//! again every second until it has written everything back; whoever finds nothing for an id looks for that key, and
//! whether its own mark is there, in the same round trip. Nobody ends it for others: what another gateway has to write
//! back is not known here. A process that has left no mark has lost none: on a new server nothing is declared.
//!
//! Knows no records, and asks nothing itself: `keep` does, and `affinity` says when everything is written back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::command::{Command, Reply};

/// Seconds for which one declaration holds. A gateway that kept its connection finds the loss within a second. One that
/// lost it too tries again after 2 seconds at most; an attempt that the server's return came too late for takes 2 more by
/// default, and the next pause. That is some 7, and a second for who is busy at that moment.
const DECLARED_FOR: u32 = 10;

pub(super) struct Recovery {
    key: Vec<u8>,
    own: Mutex<Own>,
    /// Declared, by whomever, as far as was last seen.
    seen: AtomicBool,
}

/// Of this gateway.
#[derive(Default)]
struct Own {
    /// Since when writes may be missing, in Unix seconds; to be told.
    doubt: Option<u32>,
    /// Some are missing, and not all are written back.
    behind: bool,
}

/// What a record that is missing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is none.
    Whole,
    /// It may have been lost.
    Declared,
    /// It may have been lost, and `keep` does not know yet.
    Found,
}

impl Recovery {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            key: format!("{prefix}recovering").into_bytes(),
            own: Mutex::default(),
            seen: AtomicBool::new(false),
        }
    }

    pub(super) fn look(&self) -> Command {
        Command::Peek { key: self.key.clone() }
    }

    /// The value is for operators.
    pub(super) fn declare(&self, now: u32) -> Command {
        Command::Put {
            key: self.key.clone(),
            record: now.to_string().into_bytes(),
            keep: DECLARED_FOR,
        }
    }

    /// Writes since then may be missing.
    pub(super) fn doubt(&self, since: u32) {
        let mut own = self.own();
        own.doubt = Some(own.doubt.map_or(since, |doubt| doubt.min(since)));
    }

    /// Writes since then are missing.
    pub(super) fn lost(&self, since: u32) {
        let mut own = self.own();
        own.doubt = Some(own.doubt.map_or(since, |doubt| doubt.min(since)));
        own.behind = true;
    }

    /// Since when writes may be missing; told once.
    pub(super) fn doubts(&self) -> Option<u32> {
        self.own().doubt.take()
    }

    /// Everything that `doubts` told of is written back.
    pub(super) fn caught_up(&self) {
        let mut own = self.own();
        if own.doubt.is_none() {
            own.behind = false;
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.own().behind
    }

    pub(super) fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Notes and logs whether it is declared.
    pub(super) fn saw(&self, declared: bool) {
        if self.seen.swap(declared, Ordering::Relaxed) == declared {
            return;
        }
        if declared {
            tracing::warn!(
                "the shared store has lost records; every gateway writes back what it knows, and tasks and contexts that \
                 are not found meanwhile are unavailable"
            );
        } else {
            tracing::info!(
                "the gateways have written back what the shared store had lost; what is not found is unknown"
            );
        }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `last` is the mark that stood before the question was asked, 0 if none was left; `mark` is what was found of it, which
/// may be newer, and `None` where it was not asked for.
pub(super) fn judge(last: u32, mark: Option<&Reply>, declared: &Reply) -> Standing {
    if mark.is_some_and(|mark| is_lost(last, time_of(mark))) {
        Standing::Found
    } else if *declared == Reply::Nothing {
        Standing::Whole
    } else {
        Standing::Declared
    }
}

/// Whether a server with a mark of `found` lacks what was written up to `last`.
pub(super) fn is_lost(last: u32, found: u32) -> bool {
    found < last
}

/// The time of a mark; 0 for what is none.
pub(super) fn time_of(mark: &Reply) -> u32 {
    match mark {
        Reply::Bytes(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        Reply::Nothing | Reply::Number(_) | Reply::Refused => None,
    }
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(last: u32, mark: Option<&str>, declared: bool, expected: Standing) {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let mark = mark.map_or(Reply::Nothing, bytes);
        let declared = if declared { bytes("100") } else { Reply::Nothing };
        assert_eq!(judge(last, Some(&mark), &declared), expected);
    }

    #[test]
    fn what_is_missing_is_nobodys_only_where_nothing_was_lost() {
        check(100, Some("100"), false, Standing::Whole);
        check(100, Some("101"), false, Standing::Whole); // Left while the question was under way.
        check(100, Some("100"), true, Standing::Declared);
        check(100, None, false, Standing::Found);
        check(100, None, true, Standing::Found);
        check(100, Some("99"), false, Standing::Found);
        check(100, Some("no time"), false, Standing::Found);
        // A process that has left no mark.
        check(0, None, false, Standing::Whole);
        check(0, None, true, Standing::Declared);
    }

    #[test]
    fn without_an_own_mark_the_declaration_counts() {
        assert_eq!(judge(100, None, &Reply::Nothing), Standing::Whole);
        assert_eq!(judge(100, None, &Reply::Bytes(Vec::new())), Standing::Declared);
    }

    #[test]
    fn it_is_behind_until_everything_is_written_back() {
        let recovery = Recovery::new("a2a:");
        recovery.doubt(50);
        assert!(!recovery.is_behind(), "writes may be missing, none is known to be");
        recovery.lost(70);
        assert_eq!(recovery.doubts(), Some(50), "the longer one");
        assert_eq!(recovery.doubts(), None, "told once");
        recovery.lost(90);
        recovery.caught_up();
        assert!(recovery.is_behind(), "lost again meanwhile");
        assert_eq!(recovery.doubts(), Some(90));
        recovery.caught_up();
        assert!(!recovery.is_behind());
    }
}
