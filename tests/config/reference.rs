//! `config/README.md` is the reference: it has a row for every key, with the default that the program has, and no others.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::keys_of_schema;

/// The rows of the tables of keys: key and default.
fn rows() -> BTreeMap<String, String> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/README.md")).unwrap();
    readme
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let key = cells.next()?.strip_suffix('`')?;
            Some((key.to_owned(), cells.next()?.trim().to_owned()))
        })
        .collect()
}

#[test]
fn every_key_is_documented() {
    let rows = rows();
    for (key, default) in keys_of_schema() {
        let row = rows.get(&key).unwrap_or_else(|| panic!("README.md lacks {key}"));
        let default = match default {
            None => continue,
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        assert_eq!(*row, format!("`{default}`"), "the default of {key} in README.md");
    }
}

#[test]
fn nothing_else_is_documented() {
    let keys = keys_of_schema();
    for key in rows().keys() {
        assert!(keys.contains_key(key), "README.md has {key}, which does not exist");
    }
}

#[test]
fn the_schema_describes_every_key() {
    fn walk(value: &Value, place: &str) {
        for (name, property) in value.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let described = property
                .get("description")
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty());
            assert!(described, "{place}.{name} has no description");
        }
    }
    let schema = a2a_gateway::config::schema();
    walk(&schema, "");
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        walk(definition, name);
        assert_eq!(
            definition["additionalProperties"],
            Value::Bool(false),
            "{name} takes any key"
        );
    }
    let text = schema.to_string();
    assert!(
        !text.contains("\"null\"") && !text.contains(":null"),
        "a key without a value is a mistake"
    );
}
