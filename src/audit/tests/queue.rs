//! What waits, what is lost, what is refused. `/dev/full` is a disk that takes nothing.

use super::{begin, denied, holds, off, parsed, record, settings, told, turn};
use crate::audit::{Blocked, Stats};
use crate::config::{Audit, AuditEvent, OnFull};

const CREATES: &[AuditEvent] = &[AuditEvent::TaskCreated];

fn full(folder: &tempfile::TempDir) -> Audit {
    Audit {
        file: "/dev/full".into(),
        queue: 16,
        ..settings(folder)
    }
}

#[test]
fn what_does_not_fit_is_counted_and_told_once_the_disk_takes_writes() {
    let folder = tempfile::tempdir().unwrap();
    let trail = begin(&full(&folder));
    let names: Vec<String> = (0..20).map(|at| format!("t{at}")).collect();
    record(&trail, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let stuck = Stats {
        sequence: 0,
        waiting: 16,
        lost: 4,
        failing: true,
    };
    assert_eq!(trail.stats(), stuck);
    trail.flush(true);
    assert_eq!(trail.stats(), stuck, "each attempt ends alike");
    let good = Audit {
        queue: 16,
        ..settings(&folder)
    };
    turn(&trail, &good);
    record(&trail, &["after"]);
    let expected: Vec<String> = ["trail_opened".to_owned()]
        .into_iter()
        .chain(names.iter().take(16).cloned())
        .chain(["lost".to_owned(), "after".to_owned()])
        .collect();
    assert_eq!(told(&good.file), expected);
    assert_eq!(parsed(&good.file)[17]["count"], 4);
    assert_eq!(trail.stats().waiting, 0);
    assert!(!trail.stats().failing);
    assert_eq!(holds(std::slice::from_ref(&good.file), &[]).lines, 19);
}

#[test]
fn traffic_goes_on_where_the_configuration_says_drop() {
    let folder = tempfile::tempdir().unwrap();
    let trail = begin(&full(&folder));
    record(&trail, &["a"]);
    assert!(trail.stats().failing);
    assert!(!trail.is_blocked());
    assert!(trail.admit(CREATES).unwrap().is_none());
}

#[test]
fn nothing_is_admitted_while_writing_fails_where_the_configuration_says_block() {
    let folder = tempfile::tempdir().unwrap();
    let blocking = |settings| Audit {
        on_full: OnFull::Block,
        ..settings
    };
    let trail = begin(&blocking(full(&folder)));
    assert!(trail.stats().failing, "the first line of all cannot be written");
    assert_eq!(trail.admit(CREATES).err(), Some(Blocked));
    assert!(trail.is_blocked());
    assert!(trail.admit(&[]).unwrap().is_none(), "what leaves no line goes on");
    turn(&trail, &blocking(settings(&folder)));
    assert!(!trail.is_blocked());
    assert!(trail.admit(CREATES).unwrap().is_some());
}

#[test]
fn a_call_that_was_admitted_has_room_whatever_else_comes() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Audit {
        on_full: OnFull::Block,
        queue: 16,
        ..settings(&folder)
    };
    let trail = begin(&settings);
    let rooms: Vec<_> = (0..8).map(|_| trail.admit(CREATES).unwrap().unwrap()).collect();
    assert_eq!(trail.admit(CREATES).err(), Some(Blocked), "as many as there are places");
    trail.record(&denied("a flood"));
    assert_eq!(trail.stats().lost, 1, "refusals take no place that was promised");
    for _ in 0..16 {
        trail.record_in_room(&denied("promised"));
    }
    assert_eq!((trail.stats().waiting, trail.stats().lost), (16, 1));
    drop(rooms);
    trail.flush(false);
    assert!(trail.admit(CREATES).unwrap().is_some());
    assert_eq!(
        holds(std::slice::from_ref(&settings.file), &[]).lines,
        18,
        "opened, 16, lost"
    );
}

#[test]
fn what_is_not_wanted_is_admitted_without_room() {
    let folder = tempfile::tempdir().unwrap();
    let trail = begin(&Audit {
        on_full: OnFull::Block,
        events: vec![AuditEvent::Denied],
        ..full(&folder)
    });
    assert!(trail.admit(CREATES).unwrap().is_none());
    assert!(off().admit(CREATES).unwrap().is_none());
}

#[test]
fn what_still_waits_at_the_end_is_not_said_to_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let trail = begin(&full(&folder));
    record(&trail, &["a"]);
    trail.close();
    assert_eq!(trail.stats().sequence, 0);
}
