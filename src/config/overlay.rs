//! `A2A_GATEWAY__SECTION__KEY`: environment variables laid over the file.
//!
//! Only single values under keys of ours. Elements of lists and entries of maps are the user's names, and the case of a
//! name does not survive an environment variable; what stands there can be given with `${NAME}` in the file instead.

use config::Source;
use serde_json::Value;

use super::environment::Environment;
use super::tree::{Entry, Kind, Node, Origin};
use super::{Problem, join, shape, suggest};

const PREFIX: &str = "A2A_GATEWAY";
const SEPARATOR: &str = "__";

/// Lays every override over the tree; a variable that names nothing of ours is a problem, because it was meant for us.
pub fn lay(root: &mut Node, environment: &Environment, schema: &Value, problems: &mut Vec<Problem>) {
    let prefix = format!("{PREFIX}{SEPARATOR}");
    for (name, value) in environment.starting_with(&prefix) {
        let laid = path(name, value).and_then(|(path, text)| {
            find(&path, schema)?;
            let node = Node {
                kind: Kind::Given(text),
                origin: Origin::Variable(name.to_owned()),
            };
            insert(root, &path, node);
            Ok(())
        });
        if let Err(cause) = laid {
            problems.push(Problem::new(name, cause));
        }
    }
}

/// The key that a variable names, and its value. Values stay text (`try_parsing` would turn `0123e4` into 1230000).
fn path(name: &str, value: &str) -> Result<(Vec<String>, String), String> {
    if name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err("names of overrides are written in upper case".to_owned());
    }
    let source = config::Environment::with_prefix(PREFIX)
        .prefix_separator(SEPARATOR)
        .separator(SEPARATOR)
        .try_parsing(false)
        .source(Some([(name.to_owned(), value.to_owned())].into_iter().collect()));
    let laid = source.collect().map_err(|error| error.to_string())?;
    let (path, value) = laid.into_iter().next().ok_or("names no key of the configuration")?;
    let value = value.into_string().map_err(|error| error.to_string())?;
    Ok((path.split('.').map(str::to_owned).collect(), value))
}

/// Is there a single value at this path?
fn find(path: &[String], schema: &Value) -> Result<(), String> {
    let mut at = schema;
    let mut key = String::new();
    for segment in path {
        let section = shape::resolve(schema, at);
        let Some(properties) = section.get("properties").and_then(Value::as_object) else {
            return Err(match section.get("type").and_then(Value::as_str) {
                Some("object" | "array") => format!(
                    "`{key}` holds entries of your own, which a variable cannot name; write `${{NAME}}` in the file"
                ),
                _ => format!("`{key}` is a single value and has no keys"),
            });
        };
        let known: Vec<&str> = properties
            .keys()
            .map(String::as_str)
            .filter(|name| !name.bytes().any(|byte| byte.is_ascii_uppercase()))
            .collect();
        let Some(property) = properties.get(segment).filter(|_| known.contains(&segment.as_str())) else {
            return Err(format!(
                "there is no key `{}`: {}",
                join(&key, segment),
                suggest::unknown(&key, segment, &known)
            ));
        };
        at = property;
        key = join(&key, segment);
    }
    match shape::resolve(schema, at).get("type").and_then(Value::as_str) {
        Some("object") => Err(format!("`{key}` is a section; name one of its keys")),
        Some("array") => Err(format!("`{key}` is a list, and a variable gives one value")),
        _ => Ok(()),
    }
}

fn insert(node: &mut Node, path: &[String], value: Node) {
    let Some((key, rest)) = path.split_first() else {
        *node = value;
        return;
    };
    if matches!(node.kind, Kind::Null) {
        node.kind = Kind::Map(Vec::new());
    }
    // Anything else is of the wrong type and will be reported as such.
    let Kind::Map(entries) = &mut node.kind else {
        return;
    };
    match entries.iter_mut().find(|entry| entry.key == *key) {
        Some(entry) => {
            if rest.is_empty() {
                entry.line = None;
            }
            insert(&mut entry.value, rest, value);
        }
        None => {
            let mut inner = Node {
                kind: Kind::Map(Vec::new()),
                origin: Origin::Line(None),
            };
            insert(&mut inner, rest, value);
            entries.push(Entry {
                key: key.clone(),
                line: None,
                value: inner,
            });
        }
    }
}
