//! The configuration as users meet it: every example is good, every mistake has its text, every key is documented.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::string_slice,
    reason = "helpers of tests fail their test"
)]

#[path = "config/examples.rs"]
mod examples;
#[path = "config/invalid.rs"]
mod invalid;
#[path = "config/invalid_credentials.rs"]
mod invalid_credentials;
#[path = "config/invalid_decisions.rs"]
mod invalid_decisions;
#[path = "config/invalid_sections.rs"]
mod invalid_sections;
#[path = "config/reference.rs"]
mod reference;
#[path = "config/together.rs"]
mod together;

use std::collections::BTreeMap;

use serde_json::Value;

/// Every key of the schema: its path (`agents[].name`, `security_schemes.<name>.type`), and its default if it has one.
/// The keys of `agents[].limits` are those of `rate_limits`, those of a listener's rules those of an agent's.
fn keys_of_schema() -> BTreeMap<String, Option<Value>> {
    let schema = a2a_gateway::config::schema();
    let mut keys = BTreeMap::new();
    collect(&schema, &schema, "", &mut keys);
    keys
}

fn collect(root: &Value, schema: &Value, path: &str, keys: &mut BTreeMap<String, Option<Value>>) {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(name) => root.pointer(name.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let elsewhere = ["agents[].limits[]", "front_door.limits[]", "listeners[].policy.allow[]"];
    if elsewhere.contains(&path) {
        return;
    }
    if let Some(items) = schema.get("items") {
        collect(root, items, &format!("{path}[]"), keys);
    }
    if let Some(others) = schema.get("additionalProperties").filter(|others| others.is_object()) {
        collect(root, others, &format!("{path}.<name>"), keys);
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        keys.insert(path.clone(), property.get("default").cloned());
        collect(root, property, &path, keys);
    }
}
