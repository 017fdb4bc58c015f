//! What comes back after a restart.

use proptest::prelude::*;

use super::*;
use crate::drain::Drain;

#[derive(Clone, Debug)]
enum Act {
    Learn {
        agent: u8,
        endpoint: u8,
        principal: u8,
        generation: Generation,
        task: Option<u8>,
        context: Option<u8>,
        state: Option<TaskState>,
    },
    Ask(u8),
    Wait(u16),
    Sweep,
    Compact,
    Sync,
    /// In the order of a shutdown, or as after `kill -9`.
    Restart {
        close: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let state = proptest::option::of(prop_oneof![
        Just(TaskState::Submitted),
        Just(TaskState::Working),
        Just(TaskState::InputRequired),
        Just(TaskState::AuthRequired),
        Just(TaskState::Completed),
        Just(TaskState::Failed),
        Just(TaskState::Canceled),
        Just(TaskState::Rejected),
        Just(TaskState::Unknown),
    ]);
    let generation = prop_oneof![Just(Generation::V0_3), Just(Generation::V1_0)];
    let learn = (
        0..2_u8,
        0..3_u8,
        0..3_u8,
        generation,
        proptest::option::of(0..20_u8),
        proptest::option::of(0..12_u8),
        state,
    )
        .prop_map(
            |(agent, endpoint, principal, generation, task, context, state)| Act::Learn {
                agent,
                endpoint,
                principal,
                generation,
                task,
                context,
                state,
            },
        );
    prop_oneof![
        30 => learn,
        5 => (0..20_u8).prop_map(Act::Ask),
        5 => (0..5000_u16).prop_map(Act::Wait),
        1 => Just(Act::Sweep),
        1 => Just(Act::Compact),
        1 => Just(Act::Sync),
        2 => any::<bool>().prop_map(|close| Act::Restart { close }),
    ]
}

/// Small enough that records are evicted.
const MAX: usize = 12;

fn reopen(folder: &Path, time: &Time) -> Affinity {
    // Retention is played by `Sweep`: at a start it would also forget what the journal last saw up to an hour earlier.
    let state = config::State {
        retention: Duration::from_secs(10_000 * DAY),
        ..embedded(folder, MAX)
    };
    let volume: Arc<dyn Volume> = Arc::new(Faulty::default());
    Affinity::open_with(&state, time.clock(), Mode::Strict, volume, COMPACT_FLOOR).unwrap()
}

/// The same owners; as for when they were seen, the journal may be behind.
fn same(before: &Affinity, after: &Affinity) -> Result<(), TestCaseError> {
    let (before, after) = (dump(before), dump(after));
    prop_assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (key, (owner, seen)) in before {
        let (other, written) = &after[&key];
        prop_assert_eq!(&owner, other);
        prop_assert!(*written <= seen);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn a_restart_changes_nothing(acts in proptest::collection::vec(act(), 1..120)) {
        let folder = tempfile::tempdir().unwrap();
        let time = Time::new();
        let mut affinity = reopen(folder.path(), &time);
        for act in acts {
            match act {
                Act::Learn { agent, endpoint, principal, generation, task, context, state } => {
                    affinity.learn(
                        &format!("agent{agent}"),
                        &Arc::from(format!("http://{endpoint}/")),
                        &Arc::from(format!("key:{principal}")),
                        generation,
                        &revealed(
                            task.map(|n| format!("t{n}")).as_deref(),
                            context.map(|n| format!("c{n}")).as_deref(),
                            state,
                        ),
                    );
                    affinity.commit();
                }
                Act::Ask(task) => {
                    affinity.task("agent0", &TaskId::new(&format!("t{task}")));
                }
                Act::Wait(seconds) => time.advance(seconds.into()),
                Act::Sweep => {
                    let retention = std::mem::replace(&mut affinity.retention, 4000);
                    affinity.sweep();
                    affinity.retention = retention;
                    // Removals wait for the next write; this test wants them exact.
                    affinity.store.journal().unwrap().sync();
                }
                Act::Compact => prop_assert!(affinity.compact()),
                Act::Sync => affinity.store.journal().unwrap().sync(),
                Act::Restart { close } => {
                    if close {
                        affinity.close();
                    }
                    // The lock of the folder is taken by the copy, the map stays here for comparison.
                    let copy = tempfile::tempdir().unwrap();
                    for name in files(folder.path()) {
                        std::fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
                    }
                    let other = reopen(copy.path(), &time);
                    same(&affinity, &other)?;
                    drop(affinity);
                    affinity = reopen(folder.path(), &time);
                }
            }
            counts_are_exact(&affinity);
        }
        affinity.close();
        let before = dump(&affinity);
        drop(affinity);
        let again = reopen(folder.path(), &time);
        prop_assert_eq!(owners(&again), before.into_iter().map(|(key, (owner, _))| (key, owner)).collect());
    }
}

#[test]
fn an_unchanged_record_is_written_once_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let affinity = open(folder.path(), &time).unwrap();
    let working = Some(TaskState::Working);
    let grows = |seconds| {
        time.advance(seconds);
        let before = affinity.stats().journal_bytes;
        learn(&affinity, "http://a/", "t", working);
        affinity.stats().journal_bytes > before
    };
    assert!(grows(0), "new");
    assert!(!grows(0), "unchanged");
    assert!(!grows(3599), "unchanged for less than an hour");
    assert!(grows(1), "for an hour");
    assert!(!grows(3599));
    assert!(grows(1));
    let seen = dump(&affinity);
    drop(affinity);
    assert_eq!(dump(&open(folder.path(), &time).unwrap()), seen);
}

#[test]
fn a_smaller_bound_evicts_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let affinity = open(folder.path(), &time).unwrap();
    for n in 0..10 {
        time.advance(1);
        let state = if n == 8 {
            TaskState::Completed
        } else {
            TaskState::Working
        };
        learn(&affinity, "http://a/", &format!("t{n}"), Some(state));
    }
    drop(affinity);
    let small = Affinity::open(&embedded(folder.path(), 3), time.clock()).unwrap();
    let held: Vec<_> = dump(&small).into_keys().map(|(_, _, id)| id).collect();
    assert_eq!(held, ["t6", "t7", "t9"]);
}

#[test]
fn retention_holds_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let affinity = open(folder.path(), &time).unwrap();
    learn(&affinity, "http://a/", "old", None);
    time.advance(DAY);
    learn(&affinity, "http://a/", "young", None);
    drop(affinity);
    time.advance(6 * DAY + 1);
    let again = open(folder.path(), &time).unwrap();
    assert_eq!(endpoint_of(&again, "old"), None);
    assert!(endpoint_of(&again, "young").is_some());
}

#[test]
fn the_folder_and_its_files_are_the_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/state");
    let affinity = open(&path, &Time::new()).unwrap();
    affinity.compact();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("lock")), 0o600);
    assert_eq!(files(&path), ["snapshot-0000000002.log", "tasks-0000000002.log"]);
    for name in files(&path) {
        assert_eq!(mode(&path.join(name)), 0o600);
    }
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let first = open(folder.path(), &time).unwrap();
    let error = open(folder.path(), &time).map(drop).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert!(error.to_string().contains("another process uses"));
    drop(first);
    assert!(open(folder.path(), &time).is_ok());
}

#[tokio::test]
async fn the_services_sync_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let state = config::State {
        store: config::Store::Embedded {
            path: folder.path().to_owned(),
            sync_interval: Duration::from_millis(10),
        },
        ..embedded(folder.path(), 10)
    };
    let affinity = Arc::new(Affinity::open(&state, Time::new().clock()).unwrap());
    let drain = Drain::new();
    affinity.start(&drain);
    learn(&affinity, "http://a/", "t", None);
    let written = affinity.stats().journal_bytes;
    let mut rounds = 0;
    while affinity.stats().journal_bytes == written {
        // The mark of a sync is written with the next one.
        rounds += 1;
        assert!(rounds < 500, "nothing was synced");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(drain.run(Duration::from_secs(5), Duration::from_secs(5)).await);
    let last = Arc::clone(&affinity);
    tokio::task::spawn_blocking(move || last.close()).await.unwrap();
    drop(affinity);
    let again = Affinity::open(&state, Time::new().clock()).unwrap();
    assert_eq!(endpoint_of(&again, "t").as_deref(), Some("http://a/"));
}
