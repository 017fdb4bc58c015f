//! What task records cost: looking up and inserting, memory, the embedded store's inserts and its start.
//!
//! Its result is a table on standard output; nothing passes or fails by it. `cargo bench --bench store -- [TASKS…]`, by
//! default with 1 and 10 million live tasks. The time of making up ids is measured alone and taken off.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program of its own, whose result is what it prints"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_gateway::a2a::{ContextId, Generation, Revealed, TaskId, TaskState};
use a2a_gateway::affinity::{Affinity, Learned};
use a2a_gateway::clock::Clock;
use a2a_gateway::config::{State, Store};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// As long as a UUID is.
const ID: usize = 36;
const AGENT: &str = "maps";
const MILLION: usize = 1_000_000;
const LOOKUPS: usize = MILLION;

fn main() {
    let wanted: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let counts = if wanted.is_empty() {
        vec![MILLION, 10 * MILLION]
    } else {
        wanted
    };
    println!(
        "| live tasks | insert, ns | look-up of a known task, ns | of an unknown one, ns | bytes a task beside its id |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for &count in &counts {
        memory(count);
    }
    println!();
    println!("| embedded store: tasks | inserts a second | µs an insert | start, s | journal, MiB |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for count in counts.into_iter().filter(|&count| count <= MILLION) {
        embedded(count);
    }
}

fn state(store: Store, count: usize) -> State {
    State {
        store,
        max_tasks: count * 2,
        retention: Duration::from_secs(7 * 24 * 3600),
    }
}

/// Different for each number, and in no order.
fn id(number: usize) -> TaskId {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = String::with_capacity(ID);
    write!(text, "{mixed:016x}-{number:019}").unwrap();
    TaskId(text.into())
}

struct Names {
    endpoint: Arc<str>,
    principals: Vec<Arc<str>>,
}

impl Names {
    fn new() -> Self {
        Self {
            endpoint: Arc::from("http://10.0.0.11:9999/"),
            principals: (0..100)
                .map(|number| Arc::from(format!("key:partner-{number}")))
                .collect(),
        }
    }

    fn learn(&self, affinity: &Affinity, number: usize, context: Option<ContextId>) {
        let revealed = Revealed {
            task: Some(id(number)),
            context,
            state: Some(TaskState::Working),
        };
        let principal = &self.principals[number % self.principals.len()];
        let learned = affinity.learn(AGENT, &self.endpoint, principal, Generation::V1_0, &revealed);
        affinity.commit();
        assert_eq!(learned, Learned::New);
    }
}

fn per(begin: Instant, count: usize) -> f64 {
    begin.elapsed().as_nanos() as f64 / count as f64
}

fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0
}

fn memory(count: usize) {
    let names = Names::new();
    let begin = Instant::now();
    for number in 0..count.min(MILLION) {
        black_box(id(number));
    }
    let making = per(begin, count.min(MILLION));
    let before = resident();
    let affinity = Affinity::open(&state(Store::Memory, count), Clock::system()).unwrap();
    let begin = Instant::now();
    for number in 0..count {
        names.learn(&affinity, number, None);
    }
    let insert = per(begin, count) - making;
    let bytes = (resident() - before) / count as f64 - ID as f64;
    let look_up = |from: usize| {
        let mut random = fastrand::Rng::with_seed(1);
        let begin = Instant::now();
        for _ in 0..LOOKUPS {
            black_box(affinity.task(AGENT, &id(from + random.usize(..count))));
        }
        per(begin, LOOKUPS) - making
    };
    let known = look_up(0);
    let unknown = look_up(count);
    println!("| {count} | {insert:.0} | {known:.0} | {unknown:.0} | {bytes:.0} |");
}

fn embedded(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = |path: &Path| Store::Embedded {
        path: path.to_owned(),
        sync_interval: Duration::from_secs(1),
    };
    let names = Names::new();
    let affinity = Affinity::open(&state(store(folder.path()), count), Clock::system()).unwrap();
    let begin = Instant::now();
    for number in 0..count {
        names.learn(&affinity, number, None);
    }
    let each = per(begin, count);
    affinity.close();
    drop(affinity);
    let size: u64 = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    let begin = Instant::now();
    let affinity = Affinity::open(&state(store(folder.path()), count), Clock::system()).unwrap();
    let start = begin.elapsed().as_secs_f64();
    assert_eq!(affinity.stats().tasks, count as u64);
    println!(
        "| {count} | {:.0} | {:.1} | {start:.2} | {} |",
        1e9 / each,
        each / 1000.0,
        size >> 20
    );
}
