//! How much is held, and who goes first.

use super::*;
use crate::affinity::journal::record::{MAX_ID, MAX_NAME};

const A: &str = "http://a:1/";
const DONE: Option<TaskState> = Some(TaskState::Completed);
const LIVE: Option<TaskState> = Some(TaskState::Working);

/// Learns tasks a second apart under a bound, and tells which are left.
#[track_caller]
fn check(max: usize, tasks: &[(&str, Option<TaskState>)], left: &[&str], evicted: (u64, u64)) {
    let time = Time::new();
    let affinity = memory(max, &time);
    for (id, state) in tasks {
        time.advance(1);
        let learned = learn(&affinity, A, id, *state);
        assert_ne!(learned, Learned::Conflict);
        assert!(
            endpoint_of(&affinity, id).is_some(),
            "{id} is the newest and was refused"
        );
        assert!(affinity.stats().tasks <= max.max(1) as u64, "over the bound");
    }
    let held: Vec<_> = dump(&affinity).into_keys().map(|(_, _, id)| id).collect();
    assert_eq!(held, left);
    let stats = affinity.stats();
    assert_eq!((stats.evicted_finished, stats.evicted_live), evicted);
}

#[test]
fn finished_tasks_go_first_then_the_longest_unseen() {
    let three = [("a", LIVE), ("b", DONE), ("c", LIVE)];
    check(3, &three, &["a", "b", "c"], (0, 0));
    check(3, &[&three[..], &[("d", LIVE)]].concat(), &["a", "c", "d"], (1, 0));
    check(
        3,
        &[&three[..], &[("d", LIVE), ("e", LIVE)]].concat(),
        &["c", "d", "e"],
        (1, 1),
    );
    check(
        3,
        &[("a", DONE), ("b", DONE), ("c", DONE), ("d", LIVE)],
        &["b", "c", "d"],
        (1, 0),
    );
    // Seen again: a is younger than b.
    check(
        2,
        &[("a", LIVE), ("b", LIVE), ("a", LIVE), ("c", LIVE)],
        &["a", "c"],
        (0, 1),
    );
    // Finished later, but unseen for less long than the other finished one.
    check(
        3,
        &[("a", LIVE), ("b", DONE), ("c", LIVE), ("a", DONE), ("d", LIVE)],
        &["a", "c", "d"],
        (1, 0),
    );
    // The newest is finished at once and stays, though live ones must go for it.
    check(2, &[("a", LIVE), ("b", LIVE), ("c", DONE)], &["b", "c"], (0, 1));
    check(1, &[("a", LIVE), ("b", LIVE)], &["b"], (0, 1));
    // No room at all is no bound that a newest could be held to: it is one.
    check(0, &[("a", LIVE), ("b", DONE)], &["b"], (0, 1));
}

#[test]
fn many_more_than_the_bound_leave_the_youngest() {
    let time = Time::new();
    let affinity = memory(100, &time);
    for n in 0..1000 {
        time.advance(1);
        learn(&affinity, A, &format!("{n:04}"), LIVE);
    }
    let held: Vec<_> = dump(&affinity).into_keys().map(|(_, _, id)| id).collect();
    let youngest: Vec<_> = (900..1000).map(|n| format!("{n:04}")).collect();
    assert_eq!(held, youngest);
    assert_eq!(affinity.stats().evicted_live, 900);
}

#[test]
fn a_task_that_is_asked_for_is_seen() {
    let time = Time::new();
    let affinity = memory(2, &time);
    for id in ["a", "b"] {
        learn(&affinity, A, id, LIVE);
        time.advance(1);
    }
    assert!(endpoint_of(&affinity, "a").is_some());
    learn(&affinity, A, "c", LIVE);
    assert_eq!(endpoint_of(&affinity, "b"), None);
    assert!(endpoint_of(&affinity, "a").is_some());
}

#[test]
fn contexts_have_the_same_bound_of_their_own() {
    let time = Time::new();
    let affinity = memory(2, &time);
    for n in 0..3 {
        time.advance(1);
        affinity.learn(
            "maps",
            &Arc::from(A),
            &Arc::from("key:ann"),
            Generation::V1_0,
            &revealed(Some(&format!("t{n}")), Some(&format!("c{n}")), DONE),
        );
    }
    let stats = affinity.stats();
    assert_eq!((stats.tasks, stats.contexts), (2, 2));
    assert_eq!((stats.evicted_finished, stats.evicted_contexts), (1, 1));
    assert_eq!(affinity.context("maps", &ContextId::new("c0")), None);
    assert!(affinity.context("maps", &ContextId::new("c2")).is_some());
}

#[test]
fn what_was_unseen_for_longer_than_retention_is_forgotten() {
    let time = Time::new();
    let affinity = memory(10, &time);
    learn(&affinity, A, "old", DONE);
    time.advance(1);
    learn(&affinity, A, "seen", LIVE);
    time.advance(7 * DAY - 1);
    affinity.sweep();
    assert_eq!(affinity.stats().tasks, 2, "exactly at the bound both stay");
    time.advance(1);
    affinity.sweep();
    assert_eq!(endpoint_of(&affinity, "old"), None);
    assert!(endpoint_of(&affinity, "seen").is_some(), "and is seen now");
    assert_eq!(affinity.stats().expired, 1);
    time.advance(7 * DAY);
    affinity.sweep();
    assert_eq!(affinity.stats().tasks, 1);
    time.advance(1);
    affinity.sweep();
    assert_eq!(affinity.stats().tasks, 0);
    assert_eq!(learn(&affinity, A, "old", LIVE), Learned::New);
}

#[test]
fn a_clock_that_was_wrong_for_a_while_keeps_nothing_forever() {
    let time = Time::new();
    let affinity = memory(10, &time);
    time.set(START + 3650 * DAY);
    learn(&affinity, A, "future", LIVE);
    time.set(START);
    learn(&affinity, A, "present", LIVE);
    affinity.sweep();
    assert_eq!(affinity.stats().tasks, 2);
    time.advance(7 * DAY + 1);
    affinity.sweep();
    assert_eq!(affinity.stats().tasks, 0);
}

#[test]
fn an_id_or_a_name_has_a_bound() {
    let affinity = memory(10, &Time::new());
    let text = |length| "x".repeat(length);
    let check = |id: usize, name: usize, expected: Learned| {
        for context in [false, true] {
            let id = text(id);
            let revealed = revealed((!context).then_some(&id), context.then_some(id.as_str()), LIVE);
            for place in 0..3 {
                let affinity = memory(10, &Time::new());
                let name = |wanted| {
                    if wanted == place { text(name) } else { text(1) }
                };
                let learned = affinity.learn(
                    &name(0),
                    &Arc::from(name(1)),
                    &Arc::from(name(2)),
                    Generation::V1_0,
                    &revealed,
                );
                assert_eq!(learned, expected, "place {place}, context {context}");
                let held = dump(&affinity).len();
                assert_eq!(held, usize::from(expected == Learned::New));
            }
        }
    };
    check(MAX_ID, MAX_NAME, Learned::New);
    check(MAX_ID + 1, MAX_NAME, Learned::TooLong);
    check(MAX_ID, MAX_NAME + 1, Learned::TooLong);
    assert_eq!(endpoint_of(&affinity, &text(100_000)), None);
}

#[test]
fn names_that_no_record_uses_are_dropped() {
    let time = Time::new();
    let affinity = memory(10, &time);
    for n in 0..10_000 {
        time.advance(1);
        affinity.learn(
            "maps",
            &Arc::from(A),
            &Arc::from(format!("key:{n}")),
            Generation::V1_0,
            &revealed(Some(&format!("t{n}")), None, LIVE),
        );
    }
    assert!(affinity.names.len() <= 1024, "{}", affinity.names.len());
    let owner = affinity.task("maps", &TaskId::new("t9999")).unwrap();
    assert_eq!(&*owner.principal, "key:9999");
}

#[test]
fn a_record_takes_at_most_200_bytes_besides_its_id() {
    let affinity = memory(100_000, &Time::new());
    let empty = affinity.stats().bytes;
    let count = 40_000;
    for n in 0..count {
        learn(&affinity, A, &format!("{n:036}"), LIVE);
    }
    let each = (affinity.stats().bytes - empty) / count - 36;
    assert!(each <= 200, "{each}");
}

#[test]
fn threads_that_meet_keep_the_bound_and_the_count() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let state = embedded(folder.path(), 50);
    let volume: Arc<dyn Volume> = Arc::new(Faulty::default());
    let affinity = Affinity::open_with(&state, time.clock(), Mode::Strict, volume, 64 * 1024).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (affinity, time) = (&affinity, &time);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..3000 {
                    let task = format!("t{}", random.u32(..200));
                    let context = format!("c{}", random.u32(..60));
                    let state = if random.bool() { LIVE } else { DONE };
                    affinity.learn(
                        "maps",
                        &Arc::from(format!("http://{}/", random.u8(..2))),
                        &Arc::from("key:ann"),
                        Generation::V1_0,
                        &revealed(Some(&task), Some(&context), state),
                    );
                    affinity.task("maps", &TaskId::new(&task));
                    if random.u8(..100) == 0 {
                        time.advance(1);
                        affinity.sweep();
                        affinity.care();
                    }
                }
            });
        }
    });
    // Who finds that another thread has made its record meanwhile gives back room that it evicted for.
    for n in 0..50 {
        let revealed = revealed(Some(&format!("last{n}")), Some(&format!("last{n}")), LIVE);
        let (endpoint, ann) = (Arc::from(A), Arc::from("key:ann"));
        affinity.learn("maps", &endpoint, &ann, Generation::V1_0, &revealed);
    }
    let stats = affinity.stats();
    assert_eq!((stats.tasks, stats.contexts), (50, 50));
    let held = owners(&affinity);
    assert_eq!(held.len(), 100);
    affinity.close();
    drop(affinity);
    let again = Affinity::open(&state, time.clock()).unwrap();
    assert_eq!(owners(&again), held, "the journal has the order of the map");
    assert_eq!(again.stats().evicted_live, 0);
}

#[test]
fn a_caller_who_makes_tasks_without_end_pushes_out_nobody_elses() {
    const MAX: usize = 5_000;
    const HOSTILE: usize = 200_000;
    /// More of them: `A2A_GATEWAY_TEST_HOSTILE_IDS=1000000 cargo test --lib bounds`.
    const MORE: &str = "A2A_GATEWAY_TEST_HOSTILE_IDS";
    let hostile = std::env::var_os(MORE).map_or(HOSTILE, |text| {
        let number = text.to_str().and_then(|text| text.parse().ok());
        number.expect("a number of ids")
    });
    let time = Time::new();
    let affinity = memory(MAX, &time);
    let make = |principal: &str, task: &str| {
        let (endpoint, principal) = (Arc::from(A), Arc::from(principal));
        let revealed = revealed(Some(task), Some(task), LIVE);
        affinity.learn("maps", &endpoint, &principal, Generation::V1_0, &revealed)
    };
    let others: Vec<String> = (0..MAX / 5).map(|number| format!("others-{number}")).collect();
    for (number, task) in others.iter().enumerate() {
        assert_eq!(make(&format!("key:{}", number % 50), task), Learned::New);
    }
    for number in 0..hostile {
        if number % 1000 == 0 {
            time.advance(1);
        }
        assert_eq!(make("key:hostile", &format!("h{number}")), Learned::New);
    }
    let lost = others.iter().filter(|task| endpoint_of(&affinity, task).is_none());
    assert_eq!(
        lost.count(),
        0,
        "older than everything of the hostile caller, and still there"
    );
    assert_eq!(
        (affinity.stats().tasks, affinity.stats().contexts),
        (MAX as u64, MAX as u64)
    );
    assert!(endpoint_of(&affinity, &format!("h{}", hostile - 1)).is_some());
}
