//! What expressions read and give: values of the library, made from and turned into those of everybody else.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the library's values all but a few are none of those that are asked for"
)]

use std::fmt;
use std::sync::Arc;

/// What variables hold and evaluations give. Cheap to clone.
#[derive(Clone, PartialEq)]
pub struct Value(pub(super) cel::Value);

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value")
    }
}

impl Value {
    pub fn bool(value: bool) -> Self {
        Self(cel::Value::Bool(value))
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self(cel::Value::String(Arc::new(text.into())))
    }

    pub fn list(values: impl IntoIterator<Item = Self>) -> Self {
        let values = values.into_iter().map(|value| value.0);
        Self(cel::Value::List(Arc::new(values.collect())))
    }

    pub fn map(members: impl IntoIterator<Item = (String, Self)>) -> Self {
        let members = members.into_iter().map(|(name, value)| (name.into(), value.0));
        Self(cel::Value::Map(cel::objects::Map {
            map: Arc::new(members.collect()),
        }))
    }

    /// Seconds since 1970; the last day of 9999 beyond what CEL has.
    pub fn time(unix: u64) -> Self {
        const LAST: i64 = 253_402_300_799;
        let seconds = i64::try_from(unix).unwrap_or(LAST).min(LAST);
        let time = chrono::DateTime::from_timestamp(seconds, 0).unwrap_or_default();
        Self(cel::Value::Timestamp(time.fixed_offset()))
    }

    /// Whole numbers become `int`, else `uint`, else `double`.
    pub fn json(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self(cel::Value::Null),
            serde_json::Value::Bool(value) => Self::bool(*value),
            serde_json::Value::Number(number) => Self(match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => cel::Value::Int(int),
                (None, Some(uint)) => cel::Value::UInt(uint),
                (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            }),
            serde_json::Value::String(text) => Self::text(text),
            serde_json::Value::Array(values) => Self::list(values.iter().map(Self::json)),
            serde_json::Value::Object(members) => {
                Self::map(members.iter().map(|(name, value)| (name.clone(), Self::json(value))))
            }
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.0 {
            cel::Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.0 {
            cel::Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// `None` for what JSON does not have.
    pub fn to_json(&self) -> Option<serde_json::Value> {
        json(&self.0)
    }

    /// The texts of a list of texts, or of one text.
    pub fn into_texts(self) -> Option<Vec<String>> {
        match self.0 {
            cel::Value::String(text) => Some(vec![Arc::unwrap_or_clone(text)]),
            cel::Value::List(values) => values
                .iter()
                .map(|value| match value {
                    cel::Value::String(text) => Some(String::clone(text)),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }
}

fn json(value: &cel::Value) -> Option<serde_json::Value> {
    Some(match value {
        cel::Value::Null => serde_json::Value::Null,
        cel::Value::Bool(value) => (*value).into(),
        cel::Value::Int(int) => (*int).into(),
        cel::Value::UInt(uint) => (*uint).into(),
        cel::Value::Float(double) => serde_json::Number::from_f64(*double)?.into(),
        cel::Value::String(text) => text.as_str().into(),
        cel::Value::List(values) => values.iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        cel::Value::Map(map) => {
            let members = map.map.iter().map(|(name, value)| match name {
                cel::objects::Key::String(name) => Some((String::clone(name), json(value)?)),
                cel::objects::Key::Int(_) | cel::objects::Key::Uint(_) | cel::objects::Key::Bool(_) => None,
            });
            serde_json::Value::Object(members.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
