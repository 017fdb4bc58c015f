//! Names that appear in metrics, logs and routes: which characters they may have, and that no two are the same.

use std::collections::BTreeMap;

use super::Check;

/// Longest name; it becomes a label value of many series.
const MAX_NAME: usize = 64;

pub fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// A name that may stand in metrics and logs.
pub fn name(check: &mut Check<'_>, key: &str, text: Option<&String>) -> Option<String> {
    let text = text?;
    if !is_name(text) {
        check.problem(
            key,
            format!("must be 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`, beginning with a letter or digit"),
        );
        return None;
    }
    Some(text.clone())
}

/// Remembers who used a value first.
#[derive(Default)]
pub struct Unique(BTreeMap<String, String>);

impl Unique {
    /// Reports a value that another key has already; the key of the later one is at fault.
    pub fn claim(&mut self, check: &mut Check<'_>, key: &str, value: &str) {
        if let Some(first) = self.0.get(value) {
            check.problem(key, format!("`{value}` is already used by {first}"));
        } else {
            self.0.insert(value.to_owned(), key.to_owned());
        }
    }
}
