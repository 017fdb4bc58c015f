//! What the server lost, and until when nothing follows from a record that is missing.
//!
//! An emptied server knows no owner, and the gateways do. Until each has found that out and written back what it knows, a
//! record that is not there may be anybody's. So whoever finds the loss declares it to all, under a key that expires, and
//! again every second until it has written everything back; whoever finds nothing for an id looks for that key, and
//! whether its own mark is there, in the same round trip. Nobody ends it for others: what another gateway has to write
//! back is not known here. A process that has left no mark has lost none: on a new server nothing is declared.
//!
//! What was written since the last mark shows in none. So a server that is another process than before, restarted or failed
//! over to, has lost that as far as is known here; the same one, after a network that failed, has not.
//!
//! Knows no records, and asks nothing itself: `keep` does, and `affinity` says when everything is written back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::command::{Command, Reply};

/// Seconds for which one declaration holds. A gateway that kept its connection finds the loss within a second. One that
/// lost it too tries again after 2 seconds at most; an attempt that the server's return came too late for takes 2 more by
/// default, and the next pause. That is some 7, and a second for who is busy at that moment.
const DECLARED_FOR: u32 = 10;
/// A write of the same second as a mark may have come after it.
const MARK_MARGIN: u32 = 2;

pub(super) struct Recovery {
    key: Vec<u8>,
    own: Mutex<Own>,
    /// Declared, by whomever, as far as was last seen.
    seen: AtomicBool,
    /// Some writes of this gateway are missing, and not all are written back.
    behind: AtomicBool,
}

/// Of this gateway.
#[derive(Default)]
struct Own {
    /// Since when writes may be missing, in Unix seconds; to be told.
    doubt: Option<u32>,
    /// A loss, to all.
    undeclared: bool,
    /// The server's processes, by their own names; of a cluster there are several. Empty if not known.
    runs: Vec<String>,
    /// From when to when the clock was set back: a mark in there may be older or younger than what was written then.
    set_back: Option<(u32, u32)>,
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
            behind: AtomicBool::new(false),
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

    /// Whether all of these processes were there before. From then on they are the known ones.
    pub(super) fn knows(&self, runs: Vec<String>) -> bool {
        if runs.is_empty() {
            return false;
        }
        let mut own = self.own();
        let known = runs.iter().all(|run| own.runs.contains(run));
        own.runs = runs;
        known
    }

    /// The last mark was left when the clock said `last`.
    pub(super) fn tick(&self, last: u32, now: u32) {
        if now < last {
            let mut own = self.own();
            let (from, to) = own.set_back.unwrap_or((now, last));
            own.set_back = Some((from.min(now), to.max(last)));
        }
    }

    /// Since when writes may be missing where this mark is the last one.
    pub(super) fn since(&self, mark: u32, now: u32) -> u32 {
        let set_back = self.own().set_back;
        let earliest = match set_back {
            Some((from, to)) if (from..=to).contains(&mark) => from,
            _ => mark,
        };
        earliest.min(now).saturating_sub(MARK_MARGIN)
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
        own.undeclared = true;
        self.behind.store(true, Ordering::Release);
    }

    /// Since when writes may be missing; told once.
    pub(super) fn doubts(&self) -> Option<u32> {
        self.own().doubt.take()
    }

    /// The command of `declare` was done.
    pub(super) fn declared(&self) {
        self.own().undeclared = false;
    }

    /// Everything that `doubts` told of is written back. That may be nothing, and others have more: it counts once they were
    /// told.
    pub(super) fn caught_up(&self) {
        // Under the lock: `lost` sets both.
        let own = self.own();
        if own.doubt.is_none() && !own.undeclared {
            self.behind.store(false, Ordering::Release);
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
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
                "the shared store has lost records, or may have, after a restart or a failover; every gateway writes back \
                 what it knows, and tasks and contexts that are not found meanwhile are unavailable"
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

    #[track_caller]
    fn check_since(ticks: &[(u32, u32)], mark: u32, now: u32, expected: u32) {
        let recovery = Recovery::new("a2a:");
        for &(last, now) in ticks {
            recovery.tick(last, now);
        }
        assert_eq!(recovery.since(mark, now), expected, "{ticks:?}");
    }

    #[test]
    fn writes_since_the_last_mark_may_be_missing() {
        check_since(&[], 100, 100, 98);
        check_since(&[(99, 100)], 100, 200, 98);
        check_since(&[], 0, 200, 0);
        check_since(&[], 300, 200, 198); // It was left by a clock that was ahead.
    }

    #[test]
    fn of_a_clock_that_was_set_back_no_mark_says_what_came_after_it() {
        check_since(&[(300, 100)], 300, 150, 98);
        check_since(&[(300, 100)], 120, 150, 98);
        check_since(&[(300, 100)], 250, 400, 98);
        check_since(&[(300, 100)], 301, 400, 299);
        check_since(&[(300, 100)], 99, 400, 97);
        check_since(&[(300, 100), (400, 200)], 350, 500, 98);
    }

    #[test]
    fn another_process_than_before_is_told_apart() {
        let recovery = Recovery::new("a2a:");
        let knows = |runs: &[&str]| recovery.knows(runs.iter().map(|&run| run.to_owned()).collect());
        assert!(!knows(&["a", "b"]), "the first");
        assert!(knows(&["b", "a"]));
        assert!(!knows(&[]), "not known");
        assert!(knows(&["a"]), "one has left the cluster");
        assert!(!knows(&["a", "b"]), "it was away");
        assert!(!knows(&["c"]));
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
        assert!(recovery.is_behind(), "nobody was told");
        recovery.declared();
        recovery.caught_up();
        assert!(!recovery.is_behind());
    }
}
