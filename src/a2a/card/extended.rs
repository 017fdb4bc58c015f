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
use super::{CardError, OriginCard, Publication, PublishedCard, read};
use crate::a2a::RpcId;

/// Whether a caller is shown the skill of this id.
pub type Shown<'a> = &'a dyn Fn(&str) -> bool;

/// For whom an extended card is written, and by whom it is signed.
#[derive(Clone, Copy)]
pub struct Finish<'a> {
    pub shown: Shown<'a>,
    /// What is done to the card before it is sent.
    pub sign: &'a dyn Fn(PublishedCard) -> PublishedCard,
    /// What of the card is believed, instead of all of it.
    pub believed: Option<&'a OriginCard>,
}

impl Finish<'_> {
    fn publish(self, card: &[u8], publication: &Publication) -> Result<PublishedCard, CardError> {
        let published = match self.believed {
            Some(believed) => publish_for(believed, publication, self.shown),
            None => publish_for(&read(card)?, publication, self.shown),
        };
        Ok((self.sign)(published))
    }
}

/// The same for an answer that is nothing but the card (HTTP+JSON).
pub fn rewrite_extended_card(
    answer: &Bytes,
    publication: &Publication,
    finish: Finish<'_>,
) -> Result<Bytes, CardError> {
    Ok(finish.publish(answer, publication)?.bytes)
}

/// The size of `answer` is bounded by whoever read it.
pub fn rewrite_extended_answer(
    answer: &Bytes,
    publication: &Publication,
    finish: Finish<'_>,
) -> Result<Bytes, CardError> {
    let members = Members::read(answer)?;
    let Some(card) = members.card()? else {
        return Ok(answer.clone());
    };
    let published = finish.publish(card, publication)?;

    let mut bytes = Vec::with_capacity(answer.len() + published.bytes.len());
    for (name, raw) in &members.0 {
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

/// The card in a JSON-RPC answer; `None` is an answer with an error.
pub fn read_extended_answer(answer: &Bytes) -> Result<Option<OriginCard>, CardError> {
    Members::read(answer)?.card()?.map(read).transpose()
}

/// The JSON-RPC answer to a call, of a card that was fetched. The size of `card` is bounded by whoever fetched it.
pub fn answer_extended(
    id: &RpcId,
    card: &[u8],
    publication: &Publication,
    finish: Finish<'_>,
) -> Result<Bytes, CardError> {
    let published = finish.publish(card, publication)?;
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

impl<'a> Members<'a> {
    fn read(answer: &'a Bytes) -> Result<Self, CardError> {
        serde_json::from_slice(answer).map_err(|_not_an_object| CardError::NotAnAnswer)
    }

    /// The result; `None`: there is an error.
    fn card(&self) -> Result<Option<&'a [u8]>, CardError> {
        let error = value(&self.0, "error")?.filter(|error| error.get() != "null");
        match (value(&self.0, "result")?, error) {
            (None, Some(_)) => Ok(None),
            (Some(result), None) => Ok(Some(result.get().as_bytes())),
            (None, None) | (Some(_), Some(_)) => Err(CardError::NotAnAnswer),
        }
    }
}

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
