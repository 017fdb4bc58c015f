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

/// Runs a test with memory and with a journal, which no other gateway shares.
fn on_own_stores(max_tasks: usize, test: impl Fn(&Affinity, &Time)) {
    let time = Time::new();
    test(&memory(max_tasks, &time), &time);
    let (time, folder) = (Time::new(), tempfile::tempdir().unwrap());
    let state = embedded(folder.path(), max_tasks);
    test(&Affinity::open(&state, time.clock()).unwrap(), &time);
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
fn a_name_stays_as_long_as_its_task_however_that_is_used() {
    on_own_stores(10, |stored, time| {
        name(stored, "mine", "t", WORKING);
        for _ in 0..10 {
            time.advance(DAY);
            // By the agent's id.
            assert!(endpoint_of(stored, "t").is_some());
            stored.sweep();
        }
        assert_eq!(stored.stats().aliases, 1);
        assert_eq!(stands_for(stored, "mine").as_deref(), Some("t"));
    });
}

#[test]
fn at_capacity_names_go_with_their_tasks() {
    const MAX: usize = 20;
    on_own_stores(MAX, |stored, time| {
        for n in 0..200 {
            if n % 3 == 0 {
                time.advance(1);
            }
            name(
                stored,
                &format!("n{n}"),
                &format!("t{n}"),
                if n % 2 == 0 { DONE } else { WORKING },
            );
            // By the agent's id: one now and then, and one that stays in use while names by the hundred come and go.
            endpoint_of(stored, &format!("t{}", n / 2));
            endpoint_of(stored, "t1");
        }
        assert!(stands_for(stored, "n1").is_some());
        let stats = stored.stats();
        assert_eq!(stats.tasks, MAX as u64);
        assert!(stats.aliases <= 2 * MAX as u64, "{}", stats.aliases);
        for n in 0..200 {
            let (id, task) = (format!("n{n}"), format!("t{n}"));
            let known = endpoint_of(stored, &task).is_some();
            assert_eq!(stands_for(stored, &id), known.then_some(task), "{id}");
        }
    });
}

#[test]
fn under_a_smaller_bound_names_stay_with_the_tasks_that_do() {
    let (time, folder) = (Time::new(), tempfile::tempdir().unwrap());
    let before = open(folder.path(), &time).unwrap();
    for n in 0..8 {
        name(&before, &format!("n{n}"), &format!("t{n}"), WORKING);
        time.advance(1);
    }
    for task in ["t0", "t1"] {
        learn(&before, A, task, Some(TaskState::InputRequired));
    }
    before.commit();
    before.close();
    drop(before);
    let after = Affinity::open(&embedded(folder.path(), 2), time.clock()).unwrap();
    let known = (0..8).filter(|n| stands_for(&after, &format!("n{n}")).is_some());
    assert_eq!(known.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn several_names_of_one_task_are_bounded_and_push_out_nobody_elses() {
    const MAX: usize = 50;
    let time = Time::new();
    let affinity = memory(MAX, &time);
    name(&affinity, "mine", "t", WORKING);
    time.advance(1);
    let bob: Arc<str> = Arc::from("key:bob");
    for n in 0..10 * MAX {
        let alias = alias(&bob, &format!("b{n}"));
        affinity.learn_alias("maps", &alias, &meaning("t"), &bob, WORKING);
    }
    assert_eq!(affinity.stats().aliases, 2 * MAX as u64);
    assert_eq!(stands_for(&affinity, "mine").as_deref(), Some("t"));
}

#[test]
fn names_do_not_make_their_owner_greedy() {
    const MAX: usize = 100;
    let time = Time::new();
    let affinity = memory(MAX, &time);
    let make = |owner: &str, number: usize| {
        let (owner, id): (Arc<str>, _) = (Arc::from(owner), format!("{owner}-{number}"));
        let revealed = revealed(Some(&id), Some(&id), WORKING);
        affinity.learn("maps", &Arc::from(A), &owner, Generation::V0_1, &revealed);
        affinity.learn_alias("maps", &alias(&owner, &id), &meaning(&id), &owner, WORKING);
    };
    for number in 0..91 {
        make(&format!("key:{}", number % 50), number);
    }
    time.advance(1);
    for number in 0..10 {
        make("key:ann", number);
    }
    let known = (0..10).filter(|number| stands_for(&affinity, &format!("key:ann-{number}")).is_some());
    assert_eq!(known.count(), 10, "a tenth, and the others' are older");
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
