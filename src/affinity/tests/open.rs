//! How many tasks are open, whatever becomes of their records. After a restart: `replay`.

use super::*;

const A: &str = "http://a:1/";
const WORKING: Option<TaskState> = Some(TaskState::Working);

fn of_ann(affinity: &Affinity) -> u32 {
    counts_are_exact(affinity);
    affinity.open_tasks().of("maps", "key:ann").of_owner
}

#[test]
fn a_task_counts_until_it_has_ended() {
    let affinity = memory(10, &Time::new());
    for end in [
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Canceled,
        TaskState::Rejected,
    ] {
        let task = format!("{end:?}");
        for state in [
            None,
            Some(TaskState::Submitted),
            WORKING,
            Some(TaskState::InputRequired),
        ] {
            learn(&affinity, A, &task, state);
            assert_eq!(of_ann(&affinity), 1, "{state:?}");
        }
        // What another endpoint says of it is not believed.
        learn(&affinity, "http://b:1/", &task, Some(end));
        assert_eq!(of_ann(&affinity), 1);
        for state in [Some(end), WORKING] {
            learn(&affinity, A, &task, state);
            assert_eq!(of_ann(&affinity), 0, "an end is final");
        }
    }
    learn(&affinity, A, "ended as it began", Some(TaskState::Completed));
    assert_eq!(of_ann(&affinity), 0);
}

#[test]
fn contexts_do_not_count() {
    let affinity = memory(10, &Time::new());
    let context = revealed(None, Some("c"), None);
    affinity.learn("maps", &Arc::from(A), &Arc::from("key:ann"), Generation::V1_0, &context);
    assert_eq!(of_ann(&affinity), 0);
}

#[test]
fn a_transfer_takes_the_count_along() {
    let affinity = memory(10, &Time::new());
    learn(&affinity, A, "open", WORKING);
    learn(&affinity, A, "done", Some(TaskState::Failed));
    for task in ["open", "done", "open"] {
        affinity.transfer_task("maps", &TaskId::new(task), &Arc::from("key:bob"));
    }
    assert_eq!(of_ann(&affinity), 0);
    assert_eq!(affinity.open_tasks().of("maps", "key:bob").of_owner, 1);
    learn(&affinity, A, "open", Some(TaskState::Canceled));
    assert_eq!(affinity.open_tasks().of("maps", "key:bob").of_agent, 0);
    counts_are_exact(&affinity);
}

#[test]
fn what_is_evicted_or_forgotten_counts_no_more() {
    let time = Time::new();
    let affinity = memory(3, &time);
    for task in 0..10 {
        time.advance(1);
        learn(&affinity, A, &format!("t{task}"), WORKING);
        assert_eq!(of_ann(&affinity), 3.min(task + 1));
    }
    time.advance(8 * DAY);
    affinity.sweep();
    assert_eq!(affinity.stats().tasks, 0);
    assert_eq!(of_ann(&affinity), 0);
    learn(&affinity, A, "after the shards were emptied", WORKING);
    assert_eq!(of_ann(&affinity), 1);
}

#[test]
fn the_counts_come_back_with_the_journal() {
    let (folder, time) = (tempfile::tempdir().unwrap(), Time::new());
    let affinity = open(folder.path(), &time).unwrap();
    for task in ["a", "b", "c"] {
        learn(&affinity, A, task, WORKING);
    }
    learn(&affinity, A, "a", Some(TaskState::Completed));
    affinity.transfer_task("maps", &TaskId::new("b"), &Arc::from("key:bob"));
    drop(affinity);
    let affinity = open(folder.path(), &time).unwrap();
    assert_eq!(of_ann(&affinity), 1);
    assert_eq!(affinity.open_tasks().of("maps", "key:bob").of_owner, 1);
    assert_eq!(affinity.open_tasks().of("maps", "key:bob").of_agent, 2);
}
