//! Agent cards in protobuf and in JSON, each in the form of its own generation (A2A 0.3 §5.5, 1.0 §4.4, §4.5).
//!
//! The messages are what serde reads and writes, so that a field stands in one place with its number and its name. Members
//! that the protobuf form does not have are left out (`LOSSES.md`); those that a generation demands are written even if empty.
//! Knows nothing of what a gateway publishes (`a2a::card`).

mod scheme;
mod v0_3;
mod v1_0;

use prost::Message;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Error;
use super::value::Struct;
use crate::a2a::Generation;
use crate::a2a::model::wire::Json;

/// A card as the JSON of its generation.
pub(super) fn read(generation: Generation, message: &[u8]) -> Result<Json<'static>, Error> {
    fn json<M: Message + Default + Serialize>(message: &[u8]) -> Result<Json<'static>, Error> {
        Json::owned(serde_json::to_string(&M::decode(message)?)?).ok_or(Error::Malformed)
    }
    match generation {
        Generation::V0_1 | Generation::V0_3 => json::<v0_3::Card>(message),
        Generation::V1_0 => json::<v1_0::Card>(message),
    }
}

/// The message of a card that is the JSON of its generation.
pub(super) fn write(generation: Generation, card: &Json<'_>) -> Result<Vec<u8>, Error> {
    fn message<M: Message + DeserializeOwned>(card: Value) -> Result<Vec<u8>, Error> {
        Ok(serde_json::from_value::<M>(card)?.encode_to_vec())
    }
    if !card.is_object() {
        return Err(Error::Malformed);
    }
    let mut card = serde_json::from_str(card.get())?;
    clean(&mut card)?;
    match generation {
        Generation::V0_1 | Generation::V0_3 => message::<v0_3::Card>(card),
        Generation::V1_0 => message::<v1_0::Card>(card),
    }
}

/// Takes out nulls, which are as good as absent but in free-form JSON. Refuses lists in lists, which serde would read as
/// objects with their members in order: an empty one as a requirement of nothing.
fn clean(value: &mut Value) -> Result<(), Error> {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            let mut members = members
                .iter_mut()
                .filter(|(name, _)| !matches!(name.as_str(), "params" | "header"));
            members.try_for_each(|(_, value)| clean(value))
        }
        Value::Array(values) if values.iter().any(Value::is_array) => Err(Error::Malformed),
        Value::Array(values) => values.iter_mut().try_for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
struct Provider {
    #[prost(string, tag = "1")]
    url: String,
    #[prost(string, tag = "2")]
    organization: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
struct Extension {
    #[prost(string, tag = "1")]
    uri: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    description: String,
    #[prost(bool, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    required: bool,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_default")]
    params: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
struct Signature {
    #[prost(string, tag = "1")]
    protected: String,
    #[prost(string, tag = "2")]
    signature: String,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    header: Option<Struct>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
