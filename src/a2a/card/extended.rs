//! Rewrites the extended card inside a JSON-RPC answer, or where it is the whole answer, or puts one that was fetched into an
//! answer of JSON-RPC.
//!
//! The card is published like the public one. The other members of the answer, the id above all, stay byte for byte;
//! only white space between them is lost. An answer with an error passes untouched.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::names::same;
use super::publish::publish_for;
use super::{CardError, Publication, read};
use crate::a2a::RpcId;

/// Whether a caller is shown the skill of this id.
pub type Shown<'a> = &'a dyn Fn(&str) -> bool;

/// The same for an answer that is nothing but the card (HTTP+JSON).
pub fn rewrite_extended_card(answer: &Bytes, publication: &Publication, shown: Shown<'_>) -> Result<Bytes, CardError> {
    Ok(publish_for(&read(answer)?, publication, shown).bytes)
}

/// The size of `answer` is bounded by whoever read it.
pub fn rewrite_extended_answer(
    answer: &Bytes,
    publication: &Publication,
    shown: Shown<'_>,
) -> Result<Bytes, CardError> {
    let Members(members) = serde_json::from_slice(answer).map_err(|_not_an_object| CardError::NotAnAnswer)?;
    let error = value(&members, "error")?.filter(|error| error.get() != "null");
    let result = value(&members, "result")?;
    let card = match (result, error) {
        (None, Some(_)) => return Ok(answer.clone()),
        (Some(result), None) => read(result.get().as_bytes())?,
        (None, None) | (Some(_), Some(_)) => return Err(CardError::NotAnAnswer),
    };
    let published = publish_for(&card, publication, shown);

    let mut bytes = Vec::with_capacity(answer.len() + published.bytes.len());
    for (name, raw) in &members {
        bytes.push(if bytes.is_empty() { b'{' } else { b',' });
        bytes.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
        bytes.push(b':');
        if name == "result" {
            bytes.extend_from_slice(&published.bytes);
        } else {
            bytes.extend_from_slice(raw.get().as_bytes());
        }
    }
    bytes.push(b'}');
    Ok(Bytes::from(bytes))
}

/// The JSON-RPC answer to a call, of a card that was fetched. The size of `card` is bounded by whoever fetched it.
pub fn answer_extended(
    id: &RpcId,
    card: &[u8],
    publication: &Publication,
    shown: Shown<'_>,
) -> Result<Bytes, CardError> {
    let published = publish_for(&read(card)?, publication, shown);
    let mut bytes = Vec::with_capacity(64 + id.0.len() + published.bytes.len());
    bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    bytes.extend_from_slice(&id.0);
    bytes.extend_from_slice(br#","result":"#);
    bytes.extend_from_slice(&published.bytes);
    bytes.push(b'}');
    Ok(Bytes::from(bytes))
}

/// A second spelling would bring a card past the gateway to readers that ignore case.
fn value<'a>(members: &[(String, &'a RawValue)], name: &str) -> Result<Option<&'a RawValue>, CardError> {
    let mut found = members.iter().filter(|(member, _)| same(name, member));
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some((member, raw)), None) if member == name => Ok(Some(raw)),
        (Some(_), _) => Err(CardError::NotAnAnswer),
    }
}

/// The members of an object in order, their values as text.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}
