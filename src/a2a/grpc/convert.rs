//! What the conversions of both generations share: from members of the model to fields, and back.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT};

use super::Error;
use super::value::{Struct, Timestamp};
use crate::a2a::TaskState;
use crate::a2a::model::Role;
use crate::a2a::model::wire::{Json, Text};

/// Each of a list.
pub(super) fn all<A, B: TryFrom<A, Error = Error>>(list: Vec<A>) -> Result<Vec<B>, Error> {
    list.into_iter().map(B::try_from).collect()
}

pub(super) fn maybe<A, B: TryFrom<A, Error = Error>>(one: Option<A>) -> Result<Option<B>, Error> {
    one.map(B::try_from).transpose()
}

pub(super) fn string(text: Text<'_>) -> String {
    text.0.into_owned()
}

pub(super) fn strings(texts: Vec<Text<'_>>) -> Vec<String> {
    texts.into_iter().map(string).collect()
}

pub(super) fn texts(strings: Vec<String>) -> Vec<Text<'static>> {
    strings.into_iter().map(Text::from).collect()
}

pub(super) fn metadata(fields: Option<Struct>) -> Result<Option<Json<'static>>, Error> {
    fields.as_ref().map(Struct::write).transpose()
}

pub(super) fn fields(metadata: Option<Json<'_>>) -> Result<Option<Struct>, Error> {
    metadata.as_ref().map(Struct::read).transpose()
}

/// Of the enum's number. What is not known is not terminal.
pub(super) fn state(number: i32) -> TaskState {
    TaskState::from_number(u64::try_from(number).unwrap_or_default())
}

pub(super) fn role(number: i32) -> Role {
    Role::from_number(u64::try_from(number).unwrap_or_default())
}

/// A time that is none is left out, as empty text is.
pub(super) fn time(text: &Text<'_>) -> Option<Timestamp> {
    Timestamp::read(text.as_str())
}

pub(super) fn time_text(time: Option<Timestamp>) -> Text<'static> {
    time.map(Timestamp::write).unwrap_or_default()
}

/// Zero is unset where a field cannot be told from one that is not there.
pub(super) fn nonzero(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}

pub(super) fn base64(bytes: &[u8]) -> Text<'static> {
    Text::from(STANDARD.encode(bytes))
}

/// ProtoJSON takes base64 in either alphabet, padded or not.
pub(super) fn bytes(base64: &Text<'_>) -> Result<Vec<u8>, Error> {
    let text = base64.as_str();
    let read = if text.contains(['-', '_']) {
        STANDARD_PAD_INDIFFERENT.decode(text.replace('-', "+").replace('_', "/"))
    } else {
        STANDARD_PAD_INDIFFERENT.decode(text)
    };
    read.map_err(|_| Error::Malformed)
}
