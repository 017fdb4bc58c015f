//! The trail without a gateway: what lines say, what becomes of the file, what the verifier finds. No runtime: whoever tests writes.

mod damage;
mod lines;
mod queue;
mod rotation;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

use super::{Event, Trail, Verified, verify};
use crate::clock::Clock;
use crate::config::{Audit, AuditEvent, OnFull, Secret};

const KEY: &str = "a-key-of-32-characters-or-more-1";
const OTHER_KEY: &str = "a-key-of-32-characters-or-more-2";

fn settings(folder: &TempDir) -> Audit {
    Audit {
        file: folder.path().join("audit.log"),
        key: None,
        max_bytes: 1 << 20,
        keep: 3,
        on_full: OnFull::Drop,
        events: AuditEvent::ALL.to_vec(),
        queue: 64,
        sync_interval: Duration::from_secs(1),
        otlp: None,
    }
}

fn keyed(folder: &TempDir, key: &str) -> Audit {
    Audit {
        key: Some(Secret::new(key.to_owned())),
        ..settings(folder)
    }
}

fn off() -> Trail {
    Trail::new(Clock::from_fn(|| UNIX_EPOCH + Duration::from_millis(1_500)))
}

fn begin(settings: &Audit) -> Trail {
    let trail = off();
    turn(&trail, settings);
    trail
}

fn turn(trail: &Trail, settings: &Audit) {
    trail.turn(trail.open(Some(settings)).unwrap());
}

/// An event about this task.
fn denied(task: &str) -> Event<'_> {
    Event {
        task: Some(task),
        principal: Some("key:ann"),
        ..Event::new(AuditEvent::Denied, "refused")
    }
}

fn record(trail: &Trail, tasks: &[&str]) {
    tasks.iter().for_each(|task| trail.record(&denied(task)));
    trail.flush(false);
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn parsed(path: &Path) -> Vec<Value> {
    text(path)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What the lines of a file are about: their task, else their event.
fn told(path: &Path) -> Vec<String> {
    let what = |line: &Value| line.get("task").unwrap_or(&line["event"]).as_str().unwrap().to_owned();
    parsed(path).iter().map(what).collect()
}

fn holds(files: &[PathBuf], keys: &[&str]) -> Verified {
    verify(files, keys).unwrap_or_else(|broken| panic!("{broken}"))
}

fn breaks(files: &[PathBuf], keys: &[&str]) -> String {
    let broken = verify(files, keys).expect_err("the chain is broken");
    let name = broken.file.file_name().unwrap().to_str().unwrap();
    format!("{name}:{} {}", broken.line, broken.fault)
}

fn numbered(settings: &Audit, number: usize) -> PathBuf {
    PathBuf::from(format!("{}.{number}", settings.file.display()))
}
