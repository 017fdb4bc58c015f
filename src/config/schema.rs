//! The JSON Schema of the configuration: for editors, and what `shape` checks against. Made from the types in `raw`.

use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use serde_json::Value;

use super::raw::Raw;

/// The whole schema, draft 2020-12.
pub fn schema() -> Value {
    SCHEMA.clone()
}

pub(super) fn shared() -> &'static Value {
    &SCHEMA
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    SchemaSettings::draft2020_12()
        .with_transform(without_null)
        .into_generator()
        .into_root_schema_for::<Raw>()
        .to_value()
});

/// A key without a value is a mistake, not a way to say "default": `security:` with nothing behind it must not pass for
/// anything. So what is optional for serde is not nullable for users.
fn without_null(schema: &mut Schema) {
    transform_subschemas(&mut without_null, schema);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [name] = types.as_slice() {
            let name = name.clone();
            object.insert("type".to_owned(), name);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    if let Some(Value::Array(any)) = object.get_mut("anyOf") {
        any.retain(|choice| choice.get("type") != Some(&Value::String("null".to_owned())));
        if let [Value::Object(only)] = any.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}
