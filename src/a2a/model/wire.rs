//! How members of bodies are read and written: borrowed from the body where they can be, with the liberties that ProtoJSON
//! takes (null is the default value, numbers may be text, enums may be numbers).

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A string; borrowed where nothing in it is escaped. Empty is absent, as in protobuf.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Reader).map(Self)
    }
}

/// Any JSON value, as it is written: no number in it is read, so none changes.
#[derive(Clone, Debug)]
pub struct Json<'a>(pub Cow<'a, RawValue>);

impl Json<'_> {
    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// A document that is known to be JSON.
    pub fn owned(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(|raw| Self(Cow::Owned(raw)))
    }
}

impl PartialEq for Json<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de RawValue>::deserialize(deserializer).map(|raw| Self(Cow::Borrowed(raw)))
    }
}

/// Null is as good as absent.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A member whose null is a value.
pub fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json<'a>>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// A whole number, as a number or as text.
pub fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    struct Reader;

    impl<'de> Visitor<'de> for Reader {
        type Value = Option<i32>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number of 32 bits")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
            i32::try_from(number).map(Some).map_err(E::custom)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
            i32::try_from(number).map(Some).map_err(E::custom)
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
            // Printed by libraries that know only one kind of number.
            #[expect(clippy::cast_possible_truncation, reason = "compared with what it came from")]
            let whole = number as i32;
            if (f64::from(whole) - number).abs() > 0.0 {
                return Err(E::custom("a fraction"));
            }
            Ok(Some(whole))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            text.parse().map(Some).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Reader)
}

/// A protobuf enum: its name, or its number.
pub fn enumerated<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    by_name: fn(&str) -> T,
    by_number: fn(u64) -> T,
) -> Result<T, D::Error> {
    struct Reader<T>(fn(&str) -> T, fn(u64) -> T);

    impl<T> Visitor<'_> for Reader<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name or the number of an enum value")
        }

        fn visit_unit<E: de::Error>(self) -> Result<T, E> {
            Ok((self.1)(0))
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            Ok((self.1)(number))
        }

        fn visit_str<E: de::Error>(self, name: &str) -> Result<T, E> {
            Ok((self.0)(name))
        }
    }
    deserializer.deserialize_any(Reader(by_name, by_number))
}

pub fn is_false(flag: &bool) -> bool {
    !*flag
}
