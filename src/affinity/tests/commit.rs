//! Group commit: what leaves has been written, and one write serves all answers of a turn.

use std::future::Future;

use super::*;

const ENDPOINT: &str = "http://a/";

fn take_in(affinity: &Affinity, task: &str) -> Learned {
    let revealed = revealed(Some(task), None, None);
    let (endpoint, principal) = (Arc::from(ENDPOINT), Arc::from("key:ann"));
    affinity.learn("maps", &endpoint, &principal, Generation::V1_0, &revealed)
}

fn confirm(affinity: &Arc<Affinity>, task: &str) -> Option<Confirming> {
    affinity.confirm("maps", &[revealed(Some(task), None, None)])
}

/// As a process that is killed leaves it.
fn found_after_kill(folder: &Path, time: &Time) -> usize {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let found = open(copy.path(), time).unwrap().stats().tasks;
    usize::try_from(found).unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}

#[test]
fn the_answers_of_a_turn_are_written_at_once() {
    let (folder, time, volume) = (tempfile::tempdir().unwrap(), Time::new(), Arc::new(Faulty::default()));
    let affinity = Arc::new(open_on(folder.path(), &time, &volume, Mode::Strict).unwrap());
    let before = volume.steps.load(Ordering::Relaxed);
    let answers = (0..20).map(|number| {
        let (affinity, task) = (Arc::clone(&affinity), format!("t{number}"));
        async move {
            assert_eq!(take_in(&affinity, &task), Learned::New);
            let confirming = confirm(&affinity, &task);
            assert_eq!(confirming.expect("what is new is awaited").await, Confirmed::Stored);
        }
    });
    run(futures_util::future::join_all(answers));
    assert_eq!(volume.steps.load(Ordering::Relaxed) - before, 1);
    assert_eq!(found_after_kill(folder.path(), &time), 20);
}

#[test]
fn an_answer_that_repeats_what_is_not_written_waits_too() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let affinity = Arc::new(open(folder.path(), &time).unwrap());
    assert_eq!(take_in(&affinity, "t"), Learned::New);
    assert_eq!(found_after_kill(folder.path(), &time), 0);
    assert_eq!(take_in(&affinity, "t"), Learned::Known);
    let repeated = confirm(&affinity, "t").expect("nobody has written it");
    assert_eq!(run(repeated), Confirmed::Stored);
    assert_eq!(found_after_kill(folder.path(), &time), 1);
    assert!(confirm(&affinity, "t").is_none(), "it is written");
}

#[test]
fn what_nobody_awaits_any_more_is_written_by_the_next() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let affinity = Arc::new(open(folder.path(), &time).unwrap());
    assert_eq!(take_in(&affinity, "gone"), Learned::New);
    drop(confirm(&affinity, "gone"));
    assert_eq!(take_in(&affinity, "next"), Learned::New);
    run(confirm(&affinity, "next").unwrap());
    assert_eq!(found_after_kill(folder.path(), &time), 2);
}

#[test]
fn much_that_waits_is_written_unasked() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let affinity = Arc::new(open(folder.path(), &time).unwrap());
    for number in 0..1000 {
        take_in(&affinity, &format!("{number:0100}"));
    }
    let found = found_after_kill(folder.path(), &time);
    assert!(found > 0 && found < 1000, "{found}: 64 KiB, and what came after waits");
    assert!(confirm(&affinity, &format!("{:0100}", 999)).is_some());
}

#[test]
fn an_operators_word_is_written_when_it_is_given() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let affinity = Arc::new(open(folder.path(), &time).unwrap());
    learn(&affinity, ENDPOINT, "t", None);
    assert!(
        affinity
            .transfer_task("maps", &TaskId::new("t"), &Arc::from("key:bob"))
            .is_some()
    );
    assert!(confirm(&affinity, "t").is_none());
}
