//! `${NAME}` in values: replaced by environment variables.
//!
//! Only this form; `$$` is a dollar sign, and a dollar sign before anything else is itself, so that passwords seldom need
//! escaping. Done on the parsed tree: a variable's value is one scalar whatever it contains, never YAML. Keys are not
//! expanded.

use super::environment::Environment;
use super::tree::{Kind, Node};
use super::{Problem, join, place};

/// Replaces in the whole tree; a value that cannot be expanded becomes `Broken`.
pub fn expand(node: &mut Node, environment: &Environment, problems: &mut Vec<Problem>) {
    walk(node, "", environment, problems);
}

fn walk(node: &mut Node, key: &str, environment: &Environment, problems: &mut Vec<Problem>) {
    match &mut node.kind {
        Kind::Text(text) if text.contains('$') => match replace(text, environment) {
            Ok(Replaced::Text(text)) => node.kind = Kind::Text(text),
            Ok(Replaced::Given(text)) => node.kind = Kind::Given(text),
            Err(cause) => {
                problems.push(Problem {
                    key: key.to_owned(),
                    line: node.origin.line(),
                    cause,
                });
                node.kind = Kind::Broken;
            }
        },
        Kind::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, &place(key, index), environment, problems);
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                let key = join(key, &entry.key);
                walk(&mut entry.value, &key, environment, problems);
            }
        }
        Kind::Text(_) | Kind::Null | Kind::Literal(..) | Kind::Given(_) | Kind::Broken => {}
    }
}

enum Replaced {
    /// No variable in it, only `$$`.
    Text(String),
    Given(String),
}

fn replace(text: &str, environment: &Environment) -> Result<Replaced, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut given = false;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            after
        } else if let Some(after) = after.strip_prefix('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or("`${` without `}`; write `${NAME}`, or `$$` for a dollar sign")?;
            if !is_name(name) {
                return Err(
                    "`${…}` takes the name of an environment variable: letters, digits and `_`; write `$$` for a dollar sign"
                        .to_owned(),
                );
            }
            let value = environment
                .variable(name)
                .ok_or_else(|| format!("the environment variable `{name}` is not set"))?;
            out.push_str(value);
            given = true;
            after
        } else {
            out.push('$');
            after
        };
    }
    out.push_str(rest);
    Ok(if given {
        Replaced::Given(out)
    } else {
        Replaced::Text(out)
    })
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
