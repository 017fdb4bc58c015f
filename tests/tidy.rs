//! The rules of this repository that a program can check, each failure with its place and what to do about it.
//!
//! Sources are read as text: comments and strings are blanked where a rule is about code (`source`). What clippy and
//! cargo-deny check already (`.clippy.toml`, `Cargo.toml`, `.cargo/deny.toml`) is not repeated here, and neither is
//! what `tests/config.rs` compares with the schema.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "helpers of tests fail their test"
)]

#[path = "tidy/deployment.rs"]
mod deployment;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/only.rs"]
mod only;
#[path = "tidy/order.rs"]
mod order;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/telemetry.rs"]
mod telemetry;
#[path = "tidy/text.rs"]
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path} cannot be read: {error}"))
}

/// Every file of the repository by its path from the root: what git tracks or would track. Where there is no git, what
/// stands there but for build products.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let mut files: Vec<String> = match listed {
        Ok(output) if output.status.success() && root().join(".git").exists() => String::from_utf8(output.stdout)
            .unwrap()
            .split_terminator('\0')
            .filter(|path| root().join(path).is_file())
            .map(str::to_owned)
            .collect(),
        _ => {
            let mut found = Vec::new();
            walk(root(), &mut found);
            found
        }
    };
    files.sort();
    files.dedup();
    assert!(
        files.len() > 200,
        "the files of the repository are found: {}",
        files.len()
    );
    files
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        let built = matches!(name, "target" | ".git" | "node_modules" | "__pycache__") || name.starts_with(".venv");
        if path.is_dir() && !built {
            walk(&path, found);
        } else if path.is_file() {
            found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// The Rust files under `src/`.
fn sources() -> Vec<String> {
    files()
        .into_iter()
        .filter(|path| path.starts_with("src/") && path.ends_with(".rs"))
        .collect()
}

/// Unit tests: `tests.rs`, or a file in a folder `tests/`.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The modules of `src/lib.rs` in their order.
fn modules() -> Vec<String> {
    read("src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// Fails with all findings at once; `remedy` says what the rule is and what to do.
fn none(findings: &[String], remedy: &str) {
    assert!(findings.is_empty(), "{remedy}\n  {}", findings.join("\n  "));
}

#[test]
fn files_are_found_with_and_without_git() {
    let mut walked = Vec::new();
    walk(root(), &mut walked);
    for path in files() {
        assert!(walked.contains(&path), "{path} is missing without git");
    }
}
