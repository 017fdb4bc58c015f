//! Does the tree have the shape that the schema describes? Reports every unknown key, missing key and wrong type at once.
//!
//! serde stops at its first error, so it must never meet one: this walk reports what is wrong and gives on only what
//! fits, as JSON that deserialises. A value that was given up is left out of its mapping, and is `null` in lists and in
//! maps by name, so that the places and names of the others stay. Understands exactly the part of JSON Schema that our
//! types produce.

use serde_json::{Map, Value};

use super::places::Places;
use super::tree::{Kind, Node, Origin};
use super::{Problem, join, place, suggest, units};

pub struct Fitted {
    pub value: Value,
    pub places: Places,
    pub problems: Vec<Problem>,
}

pub fn fit(root: &Node, schema: &Value) -> Fitted {
    let mut walk = Walk {
        schema,
        places: Places::default(),
        problems: Vec::new(),
    };
    let value = walk.value(root, schema, "").unwrap_or_default();
    Fitted {
        value,
        places: walk.places,
        problems: walk.problems,
    }
}

/// The schema that a `$ref` names, or the schema itself.
pub fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|name| name.strip_prefix('#'))
        .and_then(|pointer| root.pointer(pointer))
        .unwrap_or(schema)
}

struct Walk<'a> {
    schema: &'a Value,
    places: Places,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, node: &Node, schema: &'a Value, key: &str) -> Option<Value> {
        let schema = resolve(self.schema, schema);
        self.note(node, key);
        match &node.kind {
            Kind::Broken => return None,
            Kind::Null if !is_free(schema) => {
                let cause = if key.is_empty() {
                    "the file is empty; see config/minimal.yaml"
                } else {
                    "has no value; give it one or remove the key"
                };
                return self.refuse(key, cause.to_owned());
            }
            Kind::Null | Kind::Literal(..) | Kind::Text(_) | Kind::Given(_) | Kind::List(_) | Kind::Map(_) => {}
        }
        if is_free(schema) {
            return Some(self.free(node, key));
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => self.mapping(node, schema, key),
            Some("array") => self.list(node, schema, key),
            Some("integer") => self.integer(node, schema, key),
            Some("boolean") => self.boolean(node, key),
            _ => self.text(node, schema, key),
        }
    }

    fn mapping(&mut self, node: &Node, schema: &'a Value, key: &str) -> Option<Value> {
        let Kind::Map(entries) = &node.kind else {
            return self.mistyped(node, key, "a mapping");
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let property = |name: &str| properties.and_then(|all| all.get(name));
        let others = schema.get("additionalProperties");
        let mut fitted = Map::new();
        for entry in entries {
            let inner = join(key, &entry.key);
            self.places.at(&inner, entry);
            match (property(&entry.key), others) {
                (Some(schema), _) => {
                    if let Some(value) = self.value(&entry.value, schema, &inner) {
                        fitted.insert(entry.key.clone(), value);
                    }
                }
                (None, None | Some(Value::Bool(false))) => {
                    let known: Vec<&str> = properties
                        .into_iter()
                        .flat_map(serde_json::Map::keys)
                        .map(String::as_str)
                        .collect();
                    let cause = suggest::unknown(key, &entry.key, &known);
                    self.refuse(&inner, cause);
                    // What was meant is not missing as well.
                    if let Some(meant) = suggest::nearest(&entry.key, &known) {
                        self.places.give_up(&join(key, meant));
                    }
                }
                (None, Some(schema)) => {
                    let value = self.value(&entry.value, schema, &inner);
                    fitted.insert(entry.key.clone(), value.unwrap_or_default());
                }
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            let inner = join(key, name);
            if !entries.iter().any(|entry| entry.key == name) && !self.places.given_up().contains(&inner) {
                self.refuse(&inner, "is required".to_owned());
            }
        }
        Some(Value::Object(fitted))
    }

    fn list(&mut self, node: &Node, schema: &'a Value, key: &str) -> Option<Value> {
        let (Kind::List(items), Some(schema)) = (&node.kind, schema.get("items")) else {
            return self.mistyped(node, key, "a list");
        };
        let mut fitted = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let value = self.value(item, schema, &place(key, index));
            fitted.push(value.unwrap_or_default());
        }
        Some(Value::Array(fitted))
    }

    fn integer(&mut self, node: &Node, schema: &Value, key: &str) -> Option<Value> {
        let text = match &node.kind {
            Kind::Literal(text, _) | Kind::Given(text) => text,
            Kind::Text(text) if text.parse::<u64>().is_err() => text,
            Kind::Text(_) | Kind::Null | Kind::List(_) | Kind::Map(_) | Kind::Broken => {
                return self.mistyped(node, key, "a whole number");
            }
        };
        let Ok(number) = text.parse::<u64>() else {
            return self.refuse(key, format!("expected a whole number, found `{text}`"));
        };
        let bound = |name| schema.get(name).and_then(Value::as_u64);
        let least = bound("minimum").unwrap_or(0);
        let most = bound("maximum").unwrap_or(u64::from(u32::MAX));
        if number < least || number > most {
            return self.refuse(key, format!("must be from {least} to {most}, found {number}"));
        }
        Some(number.into())
    }

    fn boolean(&mut self, node: &Node, key: &str) -> Option<Value> {
        match &node.kind {
            Kind::Literal(_, Value::Bool(value)) => Some((*value).into()),
            Kind::Given(text) if text == "true" || text == "false" => Some((text == "true").into()),
            Kind::Given(text) | Kind::Text(text) => {
                self.refuse(key, format!("expected `true` or `false`, found `{text}`"))
            }
            Kind::Null | Kind::Literal(..) | Kind::List(_) | Kind::Map(_) | Kind::Broken => {
                self.mistyped(node, key, "`true` or `false`")
            }
        }
    }

    fn text(&mut self, node: &Node, schema: &Value, key: &str) -> Option<Value> {
        let (Kind::Text(text) | Kind::Given(text) | Kind::Literal(text, _)) = &node.kind else {
            return self.mistyped(node, key, "text");
        };
        if let Some(Err(cause)) = schema
            .get("x-unit")
            .and_then(Value::as_str)
            .and_then(|unit| units::verify(unit, text))
        {
            return self.refuse(key, cause);
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
            if !choices.contains(&text.as_str()) {
                let expected = suggest::list(&choices);
                return self.refuse(key, format!("expected {expected}, found `{text}`"));
            }
        }
        Some(Value::String(text.clone()))
    }

    /// Anything goes, typed by YAML's own rules.
    fn free(&mut self, node: &Node, key: &str) -> Value {
        self.note(node, key);
        match &node.kind {
            Kind::Null | Kind::Broken => Value::Null,
            Kind::Literal(_, value) => value.clone(),
            Kind::Text(text) | Kind::Given(text) => Value::String(text.clone()),
            Kind::List(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| self.free(item, &place(key, index)))
                .collect(),
            Kind::Map(entries) => entries
                .iter()
                .map(|entry| {
                    let key = join(key, &entry.key);
                    self.places.at(&key, entry);
                    (entry.key.clone(), self.free(&entry.value, &key))
                })
                .collect(),
        }
    }

    fn mistyped(&mut self, node: &Node, key: &str, expected: &str) -> Option<Value> {
        let found = node.kind.describe();
        let advice = match &node.kind {
            Kind::Text(text) if key == "admin" && text == "off" => "; write `{ enabled: false }`",
            Kind::Literal(_, Value::Bool(false)) if key == "admin" => "; write `{ enabled: false }`",
            Kind::Text(_) if expected == "a whole number" => "; write it without quotes",
            Kind::Text(_) | Kind::Map(_) if expected == "a list" => "; write it as `[ … ]`",
            Kind::Null
            | Kind::Literal(..)
            | Kind::Text(_)
            | Kind::Given(_)
            | Kind::List(_)
            | Kind::Map(_)
            | Kind::Broken => "",
        };
        self.refuse(key, format!("expected {expected}, found {found}{advice}"))
    }

    fn refuse(&mut self, key: &str, cause: String) -> Option<Value> {
        self.problems.push(self.places.problem(key, cause));
        None
    }

    fn note(&mut self, node: &Node, key: &str) {
        match &node.origin {
            Origin::Line(Some(line)) => self.places.at_value(key, *line),
            Origin::Line(None) => {}
            Origin::Variable(name) => self.places.by_variable(key, name),
        }
    }
}

/// `true`, `{}` or a schema that says nothing about types: card overrides, flows.
fn is_free(schema: &Value) -> bool {
    match schema {
        Value::Object(schema) => !schema.contains_key("type"),
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => true,
    }
}
