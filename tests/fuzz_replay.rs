//! The seeds of the fuzz targets, checked on every test run: whole, cut short everywhere, and streams cut in two everywhere.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "fuzz/checks.rs"]
mod checks;

use std::fs;
use std::path::{Path, PathBuf};

/// Every seed of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = tests().join("fuzz/corpus").join(target);
    let seeds = files(folder, "");
    assert!(seeds.len() >= 10, "only {} for {target}", seeds.len());
    seeds
}

/// Every recording of a kind.
fn recordings(suffix: &str) -> Vec<Vec<u8>> {
    let recordings = files(tests().join("corpus"), suffix);
    assert!(recordings.len() > 20, "only {} {suffix}", recordings.len());
    recordings
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn files(folder: PathBuf, suffix: &str) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(suffix) {
                files.push(fs::read(path).unwrap());
            }
        }
    }
    files
}

/// Longer inputs are cut at a part of the places, so that a run stays within seconds.
const CUTS: usize = 150;

fn cuts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let step = input.len() / CUTS + 1;
    (0..=input.len()).step_by(step).map(|at| input.split_at(at).0)
}

#[test]
fn requests() {
    for input in seeds("request").into_iter().chain(recordings(".req.json")) {
        checks::request(&input);
        cuts(&input).for_each(checks::request);
    }
}

#[test]
fn answers() {
    for input in seeds("answer") {
        checks::answer(&input);
        cuts(&input).for_each(checks::answer);
    }
    for input in recordings(".res.json") {
        checks::answer(&input);
    }
}

#[test]
fn envelopes() {
    for input in seeds("envelope") {
        checks::envelope(&input);
        cuts(&input).for_each(checks::envelope);
    }
    for input in files(tests().join("corpus/envelope-001"), ".json") {
        checks::envelope(&input);
        cuts(&input).for_each(checks::envelope);
    }
    recordings(".res.json").iter().for_each(|input| checks::envelope(input));
}

#[test]
fn rest() {
    for input in seeds("rest") {
        checks::rest(&input);
        cuts(&input).for_each(checks::rest);
    }
    for (line, recordings) in [
        ("POST /v1/message:send", recordings(".req.json")),
        ("POST /message:stream", recordings(".req.json")),
        ("POST /v1/tasks/t/pushNotificationConfigs", recordings(".req.json")),
        ("GET /tasks", recordings(".res.json")),
    ] {
        for body in recordings {
            checks::rest(&[line.as_bytes(), b"\n", &body].concat());
        }
    }
}

#[test]
fn streams() {
    for input in seeds("sse") {
        checks::sse(&input);
        for most in [0, 1, 30, 300, 100_000] {
            checks::cut_everywhere(&input, most);
            for piece in 1..40 {
                checks::cut(&input, most, piece);
            }
        }
    }
    for input in recordings(".res.sse") {
        for piece in 1..40 {
            checks::cut(&input, 500, piece);
        }
    }
}

#[test]
fn connections_to_agents() {
    for input in seeds("upstream") {
        checks::upstream(&input);
        let answer = input.get(1..).unwrap();
        cuts(answer).for_each(checks::answer_cut_everywhere);
    }
}

#[test]
fn messages() {
    for input in seeds("grpc").into_iter().chain(recordings(".pb")) {
        checks::grpc::message(&input);
        cuts(&input).for_each(checks::grpc::message);
    }
}

#[test]
fn frames() {
    for input in seeds("frames") {
        checks::grpc::frames(&input);
        for most in [0, 1, 30, 300, 100_000] {
            for piece in 1..40 {
                checks::grpc::cut_frames(&input, most, piece);
            }
        }
    }
}

#[test]
fn statuses() {
    for input in seeds("status") {
        checks::grpc::status(&input);
        cuts(&input).for_each(checks::grpc::status);
    }
}
