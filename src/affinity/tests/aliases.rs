//! Callers' own names of tasks: what they stand for, in every store, for how long, and for every gateway.

use tokio::runtime::Runtime;

use super::redis::Server;
use super::shared::Gateway;
use super::stored::on_every_store;
use super::*;

const A: &str = "http://a:1/";
const WORKING: Option<TaskState> = Some(TaskState::Working);
const DONE: Option<TaskState> = Some(TaskState::Completed);

fn alias(owner: &str, id: &str) -> Alias {
    Alias::new(owner, &TaskId::new(id))
}

fn meaning(task: &str) -> Meaning {
    Meaning {
        task: TaskId::new(task),
        session: Box::from("s"),
    }
}

/// An answer to a call of Ann's tells of a task, which she calls so.
fn name(affinity: &Affinity, id: &str, task: &str, state: Option<TaskState>) -> Learned {
    assert_ne!(learn(affinity, A, task, state), Learned::Conflict);
    let ann: Arc<str> = Arc::from("key:ann");
    let learned = affinity.learn_alias("maps", &alias(&ann, id), &meaning(task), &ann, state);
    affinity.commit();
    learned
}

fn stands_for(affinity: &Affinity, id: &str) -> Option<String> {
    let found = affinity.alias("maps", &alias("key:ann", id))?;
    assert_eq!(&*found.session, "s");
    Some(found.task.to_string())
}

#[test]
fn a_name_stands_for_one_task_of_its_owner() {
    on_every_store(10, |stored, _| {
        let ann: Arc<str> = Arc::from("key:ann");
        let revealed = revealed(Some("t"), None, WORKING);
        let known = |owner: &str, agent: &str| stored.alias(agent, &alias(owner, "mine"));
        assert_eq!(known("key:ann", "maps"), None, "nothing was told");
        let name = |task| {
            stored.learn("maps", &Arc::from(A), &ann, Generation::V0_1, &revealed);
            stored.learn_alias("maps", &alias(&ann, "mine"), &meaning(task), &ann, WORKING)
        };
        assert_eq!(name("t"), Learned::New);
        assert_eq!(name("t"), Learned::Known);
        assert_eq!(name("other"), Learned::Conflict);
        assert_eq!(known("key:ann", "maps"), Some(meaning("t")));
        assert_eq!(known("key:bob", "maps"), None);
        assert_eq!(known("key:ann", "books"), None, "another agent");
    });
}

#[test]
fn a_name_is_known_after_a_restart_and_a_compaction() {
    let (time, folder) = (Time::new(), tempfile::tempdir().unwrap());
    let before = open(folder.path(), &time).unwrap();
    assert_eq!(name(&before, "mine", "t", WORKING), Learned::New);
    assert_eq!(name(&before, "done", "u", DONE), Learned::New);
    let all = owners(&before);
    assert_eq!(before.stats().aliases, 2);
    drop(before);
    let after = open(folder.path(), &time).unwrap();
    assert_eq!(owners(&after), all);
    assert!(after.compact());
    drop(after);
    let after = open(folder.path(), &time).unwrap();
    assert_eq!(owners(&after), all);
    assert_eq!(stands_for(&after, "mine").as_deref(), Some("t"));
}

#[test]
fn a_name_goes_with_its_task() {
    let time = Time::new();
    let affinity = memory(2, &time);
    name(&affinity, "first", "t", WORKING);
    for task in ["u", "v"] {
        time.advance(1);
        learn(&affinity, A, task, WORKING);
    }
    assert_eq!(affinity.stats().aliases, 1);
    assert_eq!(stands_for(&affinity, "first"), None, "its task has been evicted");
    assert_eq!(affinity.stats().aliases, 0);
    assert_eq!(name(&affinity, "first", "w", WORKING), Learned::New, "free for another");
    assert_eq!(stands_for(&affinity, "first").as_deref(), Some("w"));
}

#[test]
fn a_name_that_was_dropped_stays_so_after_a_restart() {
    let (time, folder) = (Time::new(), tempfile::tempdir().unwrap());
    let volume: Arc<dyn Volume> = Arc::new(Faulty::default());
    let state = embedded(folder.path(), 1);
    let before = Affinity::open_with(&state, time.clock(), Mode::Strict, volume, COMPACT_FLOOR).unwrap();
    name(&before, "first", "t", WORKING);
    time.advance(1);
    learn(&before, A, "u", WORKING);
    assert_eq!(stands_for(&before, "first"), None);
    before.commit();
    before.close();
    drop(before);
    let after = open(folder.path(), &time).unwrap();
    assert_eq!(after.stats().aliases, 0);
}

#[test]
fn names_are_bounded_and_those_of_finished_tasks_go_first() {
    let time = Time::new();
    let affinity = memory(2, &time);
    for (id, state) in [("a", WORKING), ("b", DONE), ("c", WORKING)] {
        time.advance(1);
        name(&affinity, id, &format!("t-{id}"), state);
    }
    assert_eq!((affinity.stats().aliases, affinity.stats().evicted_aliases), (2, 1));
    let known = ["a", "b", "c"].map(|id| stands_for(&affinity, id).is_some());
    assert_eq!(known, [true, false, true]);
}

#[test]
fn names_are_forgotten_like_tasks() {
    let time = Time::new();
    let affinity = memory(10, &time);
    name(&affinity, "mine", "t", WORKING);
    time.advance(7 * DAY + 1);
    affinity.sweep();
    assert_eq!((affinity.stats().tasks, affinity.stats().aliases), (0, 0));
}

#[test]
fn gateways_that_share_a_store_know_one_meaning() {
    let (time, server) = (Time::new(), Server::start());
    Runtime::new().unwrap().block_on(async {
        let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
        let ann: Arc<str> = Arc::from("key:ann");
        let mine = alias(&ann, "mine");
        let tell = async |gateway: &Gateway, task: &str| {
            let revealed = revealed(Some(task), None, WORKING);
            let affinity = &gateway.affinity;
            affinity.learn("maps", &Arc::from(A), &ann, Generation::V0_1, &revealed);
            affinity.learn_alias("maps", &mine, &meaning(task), &ann, WORKING);
            match affinity.confirm_with("maps", &[revealed], Some(&mine)) {
                Some(confirming) => Some(confirming.await),
                None => None,
            }
        };
        let known = async |gateway: &Gateway| {
            if let Inquiry::Asking(asking) = gateway.affinity.inquire_alias("maps", &mine) {
                assert_eq!(asking.await, Knowledge::Whole);
            }
            gateway.affinity.alias("maps", &mine)
        };
        assert_eq!(known(&other).await, None);
        assert_eq!(tell(&one, "t").await, Some(Confirmed::Stored));
        // Before it has asked: both calls began a task.
        assert_eq!(tell(&other, "u").await, Some(Confirmed::Conflict));
        assert_eq!(known(&other).await, Some(meaning("t")), "who came first holds");
        assert_eq!(known(&one).await, Some(meaning("t")));
    });
}
