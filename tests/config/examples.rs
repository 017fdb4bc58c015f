//! The files in `config/`: each parses and checks, together they show every key.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use a2a_gateway::config::{self, Environment};
use serde_json::Value;

use super::keys_of_schema;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config");

fn examples() -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Long enough for a key.
const SECRET: &str = "a-secret-of-32-characters-or-more";

/// The secrets that the examples take from their surroundings.
fn environment() -> Environment {
    [
        "MAPS_KEY",
        "MAPS_TOKEN",
        "ARCHIVE_TOKEN",
        "MAIL_PASSWORD",
        "PAGE_TOKEN_KEY",
        "PUSH_KEY",
        "AUDIT_KEY",
        "COLLECTOR_TOKEN",
        "REDIS_PASSWORD",
        "LEDGER_SECRET",
        "INTROSPECTION_SECRET",
        "DECISION_TOKEN",
    ]
    .into_iter()
    .map(|name| (name, SECRET))
    .collect()
}

/// With what every card must have.
const CARD: &str =
    r#"{"name":"n","description":"d","version":"1","defaultInputModes":[],"defaultOutputModes":[],"skills":[]}"#;

fn write_secrets(folder: &Path, example: &str) {
    for (place, _) in example.match_indices(" cards/") {
        let name = example[place + 1..].split([' ', '\n', '}']).next().unwrap();
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, CARD).unwrap();
    }
    for key in [
        "value_file: ",
        "token_file: ",
        "password_file: ",
        "key_file: ",
        "secret_file: ",
    ] {
        for (place, _) in example.match_indices(key) {
            let name = example[place + key.len()..].split([' ', '\n', '}']).next().unwrap();
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{SECRET}\n")).unwrap();
        }
    }
}

#[test]
fn every_example_is_good() {
    let examples = examples();
    assert!(examples.len() >= 15, "the examples are found");
    for (name, text) in examples {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(&name);
        fs::write(&file, &text).unwrap();
        write_secrets(folder.path(), &text);
        let config = config::load(&file, &environment())
            .unwrap_or_else(|problems| panic!("{name}:\n{}", config::render(&problems)));
        let shown = config::redacted(&config).to_string();
        assert!(!shown.contains(SECRET), "{name} shows a secret: {shown}");
    }
}

#[test]
fn every_example_is_listed() {
    let readme = fs::read_to_string(format!("{FOLDER}/README.md")).unwrap();
    for (name, _) in examples() {
        assert!(
            readme.contains(&format!("[{name}]({name})")),
            "{name} is missing in README.md"
        );
    }
}

#[test]
fn the_full_example_has_every_key_with_its_default() {
    let text = fs::read_to_string(format!("{FOLDER}/full.yaml")).unwrap();
    let tree: Value = serde_saphyr::from_str(&text).unwrap();
    // One file has one store: the keys of the shared one stand in examples of their own.
    let shared: Vec<Value> = ["redis", "sentinel", "cluster"]
        .map(|name| fs::read_to_string(format!("{FOLDER}/state-{name}.yaml")).unwrap())
        .iter()
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect();
    // A key is given in one of two ways.
    let other_ways = ["audit", "front-door", "srv"]
        .map(|name| fs::read_to_string(format!("{FOLDER}/{name}.yaml")).unwrap())
        .map(|text| serde_saphyr::from_str::<Value>(&text).unwrap());
    for (key, default) in keys_of_schema() {
        // The general rules show one key; the rest stands under the agent.
        let path = match key.strip_prefix("rate_limits[].") {
            Some(rest) => format!("agents[].limits[].{rest}"),
            None => key.clone(),
        };
        let mut found = Vec::new();
        let trees = match key.starts_with("state.redis") {
            true => shared.as_slice(),
            false
                if key.starts_with("agents[].upstream.srv")
                    || matches!(
                        key.as_str(),
                        "audit.key" | "audit.otlp.header.value" | "front_door.host"
                    ) =>
            {
                &other_ways
            }
            false => std::slice::from_ref(&tree),
        };
        for tree in trees {
            find(tree, &path.replace("[]", ".[]"), &mut found);
        }
        assert!(!found.is_empty(), "full.yaml lacks {key}");
        // Those that say something with another value than the default.
        let shows_more = BTreeSet::from([
            "listeners[].tls.client_certificates",
            "agents[].card.overrides",
            "front_door.card",
        ]);
        if let Some(default) = default.filter(|_| !shows_more.contains(key.as_str())) {
            assert!(
                found.contains(&&default),
                "full.yaml gives {key} without its default {default}: {found:?}"
            );
        }
    }
}

fn find<'a>(tree: &'a Value, path: &str, found: &mut Vec<&'a Value>) {
    let (segment, rest) = path
        .split_once('.')
        .map_or((path, None), |(segment, rest)| (segment, Some(rest)));
    let inner: Vec<&Value> = match (segment, tree) {
        ("[]", Value::Array(items)) => items.iter().collect(),
        ("<name>", Value::Object(entries)) => entries.values().collect(),
        (name, Value::Object(entries)) => entries.get(name).into_iter().collect(),
        _ => Vec::new(),
    };
    for value in inner {
        match rest {
            Some(rest) => find(value, rest, found),
            None => found.push(value),
        }
    }
}
