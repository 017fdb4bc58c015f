//! Support for the tests of this stage: a clock that is set, a disk that fails on demand, a view of everything held.

mod aliases;
mod bounds;
mod commit;
mod damage;
mod faults;
mod kill;
mod open;
mod outages;
mod owners;
mod recovery;
#[path = "../../../tests/e2e/harness/redis.rs"]
mod redis;
mod replay;
mod servers;
mod shared;
mod stored;
mod topologies;
mod transfers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use super::journal::Mode;
use super::journal::volume::{Disk, Volume};
use super::*;
use crate::a2a::Revealed;

const DAY: u64 = 24 * 3600;
const START: u64 = 1_800_000_000;

/// Seconds since 1970, set by the test.
#[derive(Clone)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    fn clock(&self) -> Clock {
        let seconds = Arc::clone(&self.0);
        Clock::from_fn(move || UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed)))
    }

    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

/// The disk without its waits; after `allow` more steps each one fails, a write after half of its bytes.
#[derive(Default)]
struct Faulty {
    /// Steps left, if limited.
    left: Mutex<Option<usize>>,
    steps: AtomicUsize,
}

impl Faulty {
    fn allow(&self, steps: Option<usize>) {
        *self.left.lock().unwrap() = steps;
    }

    fn step(&self) -> io::Result<()> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        match &mut *self.left.lock().unwrap() {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl Volume for Faulty {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.step()?;
        Disk.create(path)
    }

    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.step() {
            Disk.write(file, &bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        Disk.write(file, bytes, offset)
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.step()?;
        Disk.truncate(file, length)
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        self.step()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        Disk.remove(path)
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.step()
    }
}

fn memory(max_tasks: usize, time: &Time) -> Affinity {
    let state = config::State {
        store: config::Store::Memory,
        max_tasks,
        retention: Duration::from_secs(7 * DAY),
    };
    Affinity::open(&state, time.clock()).unwrap()
}

fn embedded(folder: &Path, max_tasks: usize) -> config::State {
    config::State {
        store: config::Store::Embedded {
            path: folder.to_owned(),
            sync_interval: Duration::from_secs(1),
        },
        max_tasks,
        retention: Duration::from_secs(7 * DAY),
    }
}

/// Opens a folder on a disk that does not wait.
fn open(folder: &Path, time: &Time) -> Result<Affinity, Error> {
    open_on(folder, time, &Arc::new(Faulty::default()), Mode::Strict)
}

fn recover(folder: &Path, time: &Time) -> Result<Affinity, Error> {
    open_on(folder, time, &Arc::new(Faulty::default()), Mode::Recover)
}

fn open_on(folder: &Path, time: &Time, volume: &Arc<Faulty>, mode: Mode) -> Result<Affinity, Error> {
    let volume: Arc<dyn Volume> = Arc::clone(volume) as _;
    Affinity::open_with(&embedded(folder, 10_000), time.clock(), mode, volume, COMPACT_FLOOR)
}

fn revealed(task: Option<&str>, context: Option<&str>, state: Option<TaskState>) -> Revealed {
    Revealed {
        task: task.map(TaskId::new),
        context: context.map(ContextId::new),
        state,
    }
}

/// Learns, and writes it down.
fn learn(affinity: &Affinity, endpoint: &str, task: &str, state: Option<TaskState>) -> Learned {
    let learned = affinity.learn(
        "maps",
        &Arc::from(endpoint),
        &Arc::from("key:ann"),
        Generation::V1_0,
        &revealed(Some(task), None, state),
    );
    affinity.commit();
    learned
}

/// Whoever can be asked for an owner.
trait Asked {
    fn task(&self, agent: &str, id: &TaskId) -> Option<Owner>;
}

impl Asked for Affinity {
    fn task(&self, agent: &str, id: &TaskId) -> Option<Owner> {
        Self::task(self, agent, id)
    }
}

fn endpoint_of(affinity: &impl Asked, task: &str) -> Option<String> {
    let owner = affinity.task("maps", &TaskId::new(task))?;
    Some(owner.endpoint.to_string())
}

type Key = (bool, String, String);

/// Everything held: the owner and when it was last seen, by (is a task, agent, id).
fn dump(affinity: &Affinity) -> BTreeMap<Key, (Owner, u32)> {
    let mut all = BTreeMap::new();
    for table in affinity.tables() {
        let mut cursor = table::Cursor::default();
        while table.walk(&mut cursor, &mut |put| {
            let owner = Owner {
                endpoint: Arc::from(put.endpoint),
                principal: Arc::from(put.principal),
                state: put.state,
                generation: put.generation,
            };
            let key = (put.kind == Kind::Task, put.agent.to_owned(), put.id.to_owned());
            let before = all.insert(key, (owner, put.seen));
            assert_eq!(before, None, "an id is held twice");
        }) {}
    }
    all
}

/// The counts of open tasks are those of the records.
fn counts_are_exact(affinity: &Affinity) {
    let mut counts = BTreeMap::<(String, Option<String>), u32>::new();
    for ((is_task, agent, _), owner) in owners(affinity) {
        if is_task && !owner.state.is_some_and(TaskState::is_terminal) {
            for of in [Some(owner.principal.to_string()), None] {
                *counts.entry((agent.clone(), of)).or_default() += 1;
            }
        }
    }
    let open = affinity.open_tasks();
    assert_eq!(open.keys(), counts.len(), "owners that have none stand nowhere");
    for ((agent, owner), count) in &counts {
        let known = open.of(agent, owner.as_deref().unwrap_or_default());
        let known = owner.as_ref().map_or(known.of_agent, |_| known.of_owner);
        assert_eq!(known, *count, "{agent} {owner:?}");
    }
}

fn owners(affinity: &Affinity) -> BTreeMap<Key, Owner> {
    dump(affinity)
        .into_iter()
        .map(|(key, (owner, _))| (key, owner))
        .collect()
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "lock")
        .collect();
    names.sort();
    names
}

fn first_segment(folder: &Path) -> PathBuf {
    folder.join("tasks-0000000001.log")
}
