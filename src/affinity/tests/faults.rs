//! Disks that fail, and processes that end between two steps.

use super::*;

const ENDPOINT: &str = "http://a/";

fn filled(folder: &Path, time: &Time, volume: &Arc<Faulty>) -> Affinity {
    let affinity = open_on(folder, time, volume, Mode::Strict).unwrap();
    for n in 0..50 {
        learn(&affinity, ENDPOINT, &format!("t{n}"), None);
    }
    affinity
}

#[test]
fn a_compaction_that_ends_at_any_step_loses_nothing() {
    let mut steps = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let time = Time::new();
        let volume = Arc::new(Faulty::default());
        let affinity = filled(folder.path(), &time, &volume);
        // An earlier one succeeded, so there is a snapshot to replace.
        assert!(affinity.compact());
        learn(&affinity, ENDPOINT, "after", None);
        let before = owners(&affinity);

        volume.allow(Some(steps));
        affinity.compact();
        let complete = volume.left.lock().unwrap().is_some_and(|left| left > 0);
        drop(affinity);
        let again = open(folder.path(), &time).unwrap_or_else(|error| panic!("{steps}: {error}"));
        assert_eq!(owners(&again), before, "ended after {steps} steps");
        // What the crash left does not stand in the way of the next one.
        learn(&again, ENDPOINT, "later", None);
        assert!(again.compact());
        let before = owners(&again);
        assert_eq!(files(folder.path()).len(), 2, "ended after {steps} steps");
        drop(again);
        assert_eq!(owners(&open(folder.path(), &time).unwrap()), before);
        if complete {
            assert!(steps > 12, "{steps} steps are too few to be true");
            return;
        }
        steps += 1;
    }
}

#[test]
fn traffic_goes_on_after_a_compaction_that_failed_at_any_step() {
    for steps in 0..16 {
        let folder = tempfile::tempdir().unwrap();
        let time = Time::new();
        let volume = Arc::new(Faulty::default());
        let affinity = filled(folder.path(), &time, &volume);
        volume.allow(Some(steps));
        affinity.compact();
        volume.allow(None);
        learn(&affinity, ENDPOINT, "after", Some(TaskState::Working));
        assert!(affinity.care(), "{steps}");
        assert!(!affinity.stats().degraded, "{steps}");
        learn(&affinity, ENDPOINT, "after", Some(TaskState::Completed));
        let before = owners(&affinity);
        drop(affinity);
        assert_eq!(
            owners(&open(folder.path(), &time).unwrap()),
            before,
            "failed after {steps} steps"
        );
    }
}

#[test]
fn a_full_disk_stops_no_traffic_and_loses_nothing_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let volume = Arc::new(Faulty::default());
    let affinity = filled(folder.path(), &time, &volume);
    assert!(!affinity.stats().degraded);

    volume.allow(Some(0));
    assert_eq!(learn(&affinity, ENDPOINT, "full", None), Learned::New);
    assert_eq!(learn(&affinity, ENDPOINT, "full", None), Learned::Known);
    let working = Some(TaskState::Working);
    assert_eq!(learn(&affinity, ENDPOINT, "t1", working), Learned::Updated);
    assert_eq!(endpoint_of(&affinity, "full").as_deref(), Some(ENDPOINT));
    let stats = affinity.stats();
    assert_eq!((stats.tasks, stats.write_errors), (51, 2));
    assert!(stats.degraded);
    affinity.store.journal().unwrap().sync();
    assert!(!affinity.care(), "still full");
    assert!(affinity.stats().degraded);

    volume.allow(None);
    learn(&affinity, ENDPOINT, "room", None);
    assert!(affinity.stats().degraded, "earlier records are missing");
    assert!(affinity.care());
    assert!(!affinity.stats().degraded);
    let before = owners(&affinity);
    assert_eq!(before.len(), 52);
    drop(affinity);
    assert_eq!(owners(&open(folder.path(), &time).unwrap()), before);
}

#[test]
fn a_process_that_ends_while_the_disk_is_full_loses_only_what_could_not_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let volume = Arc::new(Faulty::default());
    let affinity = filled(folder.path(), &time, &volume);
    let before = owners(&affinity);
    volume.allow(Some(0));
    // Half of this record stands in the file, and cannot be cut off.
    learn(&affinity, ENDPOINT, "a task with a rather long id", None);
    drop(affinity);
    assert_eq!(owners(&open(folder.path(), &time).unwrap()), before);
}

#[test]
fn a_write_that_fails_once_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let volume = Arc::new(Faulty::default());
    let affinity = filled(folder.path(), &time, &volume);
    volume.allow(Some(0));
    learn(&affinity, ENDPOINT, "a task with a rather long id", None);
    volume.allow(None);
    learn(&affinity, ENDPOINT, "s", None);
    let mut before = owners(&affinity);
    assert!(affinity.stats().degraded);
    drop(affinity);
    // The process ended before it was made up for: the later write stands whole behind the torn one.
    let again = open_on(folder.path(), &time, &volume, Mode::Strict).unwrap();
    before.retain(|(_, _, id), _| id != "a task with a rather long id");
    assert_eq!(owners(&again), before);
}

#[test]
fn a_sync_that_fails_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let volume = Arc::new(Faulty::default());
    let affinity = filled(folder.path(), &time, &volume);
    volume.allow(Some(0));
    affinity.store.journal().unwrap().sync();
    assert!(affinity.stats().degraded);
    volume.allow(None);
    assert!(affinity.care());
    assert!(!affinity.stats().degraded);
    assert_eq!(
        files(folder.path()),
        ["snapshot-0000000002.log", "tasks-0000000002.log"]
    );
}

#[test]
fn a_journal_that_grew_far_beyond_its_records_is_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let volume: Arc<dyn Volume> = Arc::new(Faulty::default());
    let floor = 32 * 1024;
    let state = embedded(folder.path(), 10_000);
    let affinity = Affinity::open_with(&state, time.clock(), Mode::Strict, volume, floor).unwrap();
    let mut largest = 0;
    for n in 0..2000 {
        let state = if n % 2 == 0 {
            TaskState::Working
        } else {
            TaskState::InputRequired
        };
        learn(&affinity, ENDPOINT, &format!("t{}", n % 20), Some(state));
        // Ten or more records later at the latest.
        assert!(affinity.care());
        largest = largest.max(affinity.stats().journal_bytes);
    }
    assert!(largest <= floor + 1024, "{largest}");
    // Twice as many records as the floor has room for: the factor decides.
    for n in 0..2000 {
        learn(&affinity, ENDPOINT, &format!("u{n}"), None);
        assert!(affinity.care());
    }
    let stats = affinity.stats();
    let live = affinity.tasks.encoded();
    assert!(live > floor, "{live}");
    assert!(stats.journal_bytes <= 4 * live + 1024);
    assert_eq!(stats.write_errors, 0);
    let before = owners(&affinity);
    drop(affinity);
    assert_eq!(owners(&open(folder.path(), &time).unwrap()), before);
}

#[test]
fn a_compaction_gives_up_when_the_process_ends() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let affinity = filled(folder.path(), &time, &Arc::new(Faulty::default()));
    affinity.close();
    assert!(affinity.compact(), "giving up is no failure");
    let before = owners(&affinity);
    assert_eq!(files(folder.path()), ["tasks-0000000001.log", "tasks-0000000002.log"]);
    drop(affinity);
    assert_eq!(owners(&open(folder.path(), &time).unwrap()), before);
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = open(&file, &Time::new()).map(drop).unwrap_err();
    assert!(matches!(error, Error::Folder { .. }), "{error}");
}
