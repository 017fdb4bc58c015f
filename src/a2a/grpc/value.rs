//! The well-known types of protobuf that A2A has: free-form JSON as `Struct` and `Value`, and times.
//!
//! Free-form numbers are doubles there (`LOSSES.md`). What a reader of protobuf would not follow, because it is nested too
//! deeply, is not written.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Error;
use crate::a2a::listing::Stamp;
use crate::a2a::model::wire::{Json, Text};

/// `google.protobuf.Struct`: a JSON object.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) fields: BTreeMap<String, Value>,
}

/// `google.protobuf.Value`: any JSON value.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Value {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Kind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Object(Struct),
    #[prost(message, tag = "6")]
    List(List),
}

/// `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct List {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<Value>,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// Deepest nesting of messages that free-form JSON may have. Readers give up at 100, of which the messages around it take
/// six at most; an object takes three (value, object, member), a list two.
const MAX_LEVELS: usize = 90;

impl Value {
    /// Any JSON value.
    pub(super) fn read(json: &Json<'_>) -> Result<Self, Error> {
        let value: Self = serde_json::from_str(json.get())?;
        if value.levels() > MAX_LEVELS {
            return Err(Error::Malformed);
        }
        Ok(value)
    }

    pub(super) fn write(&self) -> Result<Json<'static>, Error> {
        write(self)
    }

    fn levels(&self) -> usize {
        1 + match &self.kind {
            Some(Kind::Object(object)) => object.levels(),
            Some(Kind::List(list)) => 1 + list.values.iter().map(Self::levels).max().unwrap_or_default(),
            Some(Kind::Null(_) | Kind::Number(_) | Kind::Text(_) | Kind::Bool(_)) | None => 0,
        }
    }
}

impl Struct {
    /// A JSON object; nothing else will do.
    pub(super) fn read(json: &Json<'_>) -> Result<Self, Error> {
        match Value::read(json)?.kind {
            Some(Kind::Object(object)) => Ok(object),
            Some(Kind::Null(_) | Kind::Number(_) | Kind::Text(_) | Kind::Bool(_) | Kind::List(_)) | None => {
                Err(Error::Malformed)
            }
        }
    }

    pub(super) fn write(&self) -> Result<Json<'static>, Error> {
        write(self)
    }

    fn levels(&self) -> usize {
        2 + self.fields.values().map(Value::levels).max().unwrap_or_default()
    }
}

fn write(value: &impl Serialize) -> Result<Json<'static>, Error> {
    let raw = serde_json::value::to_raw_value(value)?;
    Ok(Json(std::borrow::Cow::Owned(raw)))
}

/// The seconds of the years 1 to 9999, which are those that protobuf and RFC 3339 have.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const ATTO_PER_NANO: u64 = 1_000_000_000;

impl Timestamp {
    /// `None` for whatever is no time.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Stamp { seconds, fraction } = Stamp::parse(text)?;
        let nanos = i32::try_from(fraction / ATTO_PER_NANO).ok()?;
        SECONDS.contains(&seconds).then_some(Self { seconds, nanos })
    }

    /// Nothing, for a time that there cannot be.
    pub(super) fn write(self) -> Text<'static> {
        let nanos = u64::try_from(self.nanos).ok().filter(|nanos| *nanos < ATTO_PER_NANO);
        match nanos {
            Some(nanos) if SECONDS.contains(&self.seconds) => Text::from(
                Stamp {
                    seconds: self.seconds,
                    fraction: nanos * ATTO_PER_NANO,
                }
                .to_string(),
            ),
            Some(_) | None => Text::default(),
        }
    }
}

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.fields)
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = BTreeMap::deserialize(deserializer).map(|fields| Self { fields })?;
        if object.levels() > MAX_LEVELS {
            return Err(de::Error::custom("nested too deeply"));
        }
        Ok(object)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.kind {
            None | Some(Kind::Null(_)) => serializer.serialize_unit(),
            Some(Kind::Number(number)) => match whole(*number) {
                Some(whole) => serializer.serialize_i64(whole),
                None if number.is_finite() => serializer.serialize_f64(*number),
                None => Err(S::Error::custom("JSON has no such number")),
            },
            Some(Kind::Text(text)) => serializer.serialize_str(text),
            Some(Kind::Bool(flag)) => serializer.serialize_bool(*flag),
            Some(Kind::Object(object)) => object.serialize(serializer),
            Some(Kind::List(list)) => serializer.collect_seq(&list.values),
        }
    }
}

/// The whole number that a double is, if 64 bits hold it: JSON knows integers, and callers that sent one expect one.
fn whole(number: f64) -> Option<i64> {
    // 2^63; from there on a cast gives another number.
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction, and fits")]
    (number.trunc().total_cmp(&number).is_eq() && (-END..END).contains(&number)).then_some(number as i64)
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Kind, E> {
                Ok(Kind::Null(0))
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Kind, E> {
                Ok(Kind::Bool(flag))
            }

            #[expect(clippy::cast_precision_loss, reason = "protobuf has no other number")]
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Kind, E> {
                Ok(Kind::Number(number as f64))
            }

            #[expect(clippy::cast_precision_loss, reason = "protobuf has no other number")]
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Kind, E> {
                Ok(Kind::Number(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Kind, E> {
                Ok(Kind::Number(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Kind, E> {
                Ok(Kind::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = items.next_element()? {
                    values.push(value);
                }
                Ok(Kind::List(List { values }))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Kind, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = members.next_entry()? {
                    fields.insert(name, value);
                }
                Ok(Kind::Object(Struct { fields }))
            }
        }
        deserializer
            .deserialize_any(Reader)
            .map(|kind| Self { kind: Some(kind) })
    }
}
