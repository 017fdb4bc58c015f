//! Where each key stands: its line in the file, or the environment variable that gave it. Problems take it from here.

use std::collections::BTreeMap;

use super::Problem;
use super::tree::Entry;

#[derive(Clone, Debug, Default)]
pub struct Places {
    lines: BTreeMap<String, u32>,
    variables: BTreeMap<String, String>,
    given_up: Vec<String>,
}

impl Places {
    /// The line of a key, or of the nearest section around it that has one.
    pub fn line(&self, key: &str) -> Option<u32> {
        let mut key = key;
        loop {
            if let Some(line) = self.lines.get(key) {
                return Some(*line);
            }
            if self.variables.contains_key(key) {
                return None;
            }
            let end = key.rfind(['.', '['])?;
            key = key.get(..end)?;
        }
    }

    /// The environment variable that gave the value.
    pub fn variable(&self, key: &str) -> Option<&str> {
        self.variables.get(key).map(String::as_str)
    }

    /// The line of the key itself: a section begins below it.
    pub(super) fn at(&mut self, key: &str, entry: &Entry) {
        if let Some(line) = entry.line {
            self.lines.insert(key.to_owned(), line);
        }
    }

    /// The line of a value whose key has none.
    pub(super) fn at_value(&mut self, key: &str, line: u32) {
        self.lines.entry(key.to_owned()).or_insert(line);
    }

    pub(super) fn by_variable(&mut self, key: &str, variable: &str) {
        self.variables.insert(key.to_owned(), variable.to_owned());
    }

    /// A key that was meant, by whoever wrote another one: nothing follows from its absence.
    pub(super) fn give_up(&mut self, key: &str) {
        self.given_up.push(key.to_owned());
    }

    pub(super) fn given_up(&self) -> &[String] {
        &self.given_up
    }

    pub fn problem(&self, key: &str, cause: impl Into<String>) -> Problem {
        let mut cause = cause.into();
        if let Some(name) = self.variable(key) {
            let by = format!(" (set by {name})");
            // It may have been said already.
            if !cause.ends_with(&by) {
                cause.push_str(&by);
            }
        }
        let root = key.is_empty();
        Problem {
            key: if root { "configuration" } else { key }.to_owned(),
            line: if root { None } else { self.line(key) },
            cause,
        }
    }

    /// Gives problems that were found later, in files, the keys and lines of the configuration, in its order. A file that
    /// two users of it found broken is named once.
    pub fn locate(&self, problems: &mut Vec<Problem>) {
        let mut located: Vec<Problem> = Vec::with_capacity(problems.len());
        for problem in problems.drain(..) {
            let problem = self.problem(&self.as_written(&problem.key), problem.cause);
            if !located.contains(&problem) {
                located.push(problem);
            }
        }
        self.sort(&mut located);
        *problems = located;
    }

    /// In the order of the file; what has no line (variables) comes last.
    pub(super) fn sort(&self, problems: &mut [Problem]) {
        problems.sort_by_key(|problem| problem.line.unwrap_or(u32::MAX));
    }

    /// A listener's only certificate may stand without the list that it is the first of.
    fn as_written(&self, key: &str) -> String {
        match key.split_once(".certificates[0]") {
            Some((tls, name)) if !self.lines.contains_key(&format!("{tls}.certificates")) => format!("{tls}{name}"),
            Some(_) | None => key.to_owned(),
        }
    }
}
