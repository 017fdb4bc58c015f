//! The metadata that callers put into a message and into its call, for those who decide by it (A2A 1.0 §3.2.5, §4.1.4).
//!
//! Read only where somebody asks. Bounded, because rules iterate over it.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::json::{self, Kind, Limits, Strict, Value};
use super::model::Request;
use super::{Binding, Call, Operation, grpc};

/// Longest metadata of a message, or of a call, in bytes of JSON. Keys and ids of extensions take some hundred.
const MAX_BYTES: usize = 16 * 1024;
/// Most members of an object and elements of a list.
const MAX_MEMBERS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is larger than can be judged.
    TooLarge,
    /// It is no object.
    Malformed,
    /// The message and its call say different things.
    Conflicting,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    message: Map<String, Json>,
    call: Map<String, Json>,
}

impl Metadata {
    /// What stands in a body that was read as this call. Calls that send nothing have none.
    pub fn read(call: &Call, body: &[u8]) -> Result<Self, Error> {
        written(call, body, |message, call| {
            Ok(Self {
                message: members(message)?,
                call: members(call)?,
            })
        })
    }

    /// The value of one key, like `get`, however much stands beside it; the inner `None` is one that is no text.
    pub fn read_text(call: &Call, body: &[u8], key: &str, limits: Limits) -> Result<Option<Option<String>>, Error> {
        written(call, body, |message, call| {
            match (member(message, key, limits)?, member(call, key, limits)?) {
                (Some(message), Some(call)) if message != call => Err(Error::Conflicting),
                (Some(value), _) | (None, Some(value)) => Ok(Some(value)),
                (None, None) => Ok(None),
            }
        })
    }

    /// The message's value of this key, or the call's: an agent may look at either, so that both must say the same.
    pub fn get(&self, key: &str) -> Result<Option<&Json>, Error> {
        match (self.message.get(key), self.call.get(key)) {
            (Some(message), Some(call)) if message != call => Err(Error::Conflicting),
            (Some(value), _) | (None, Some(value)) => Ok(Some(value)),
            (None, None) => Ok(None),
        }
    }

    /// All of it; the message's where both have a key.
    pub fn members(&self) -> impl Iterator<Item = (&String, &Json)> {
        let call = self.call.iter().filter(|(key, _)| !self.message.contains_key(*key));
        self.message.iter().chain(call)
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    // The name of 0.3 in protobuf.
    #[serde(borrow, alias = "request")]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// The metadata of the message and of the call.
fn written<T: Default>(
    call: &Call,
    body: &[u8],
    read: impl FnOnce(Option<&RawValue>, Option<&RawValue>) -> Result<T, Error>,
) -> Result<T, Error> {
    if !matches!(call.operation, Operation::Send | Operation::Stream) {
        return Ok(T::default());
    }
    let params: Params<'_> = match call.binding {
        Binding::JsonRpc => {
            let body: Body<'_> = serde_json::from_slice(body).map_err(|_| Error::Malformed)?;
            body.params
        }
        Binding::HttpJson => serde_json::from_slice(body).map_err(|_| Error::Malformed)?,
        Binding::Grpc => {
            let request = grpc::read_request(call.generation, call.operation, body);
            let (Request::Send(request) | Request::Stream(request)) = request.map_err(|_| Error::Malformed)? else {
                return Ok(T::default());
            };
            let message = request.message.metadata.as_ref().map(|json| &*json.0);
            return read(message, request.metadata.as_ref().map(|json| &*json.0));
        }
    };
    read(params.message.and_then(|message| message.metadata), params.metadata)
}

/// The inner `None` is a value that is no text.
fn member(json: Option<&RawValue>, key: &str, limits: Limits) -> Result<Option<Option<String>>, Error> {
    let Some(json) = json.filter(|json| json.get() != "null") else {
        return Ok(None);
    };
    let mut found = None;
    let mut cursor = Strict::new(json.get().as_bytes(), limits).map_err(|_| Error::Malformed)?;
    if cursor.kind() != Kind::Object {
        return Err(Error::Malformed);
    }
    let walked = cursor.object(|cursor, name| {
        if name != *key {
            return cursor.skip();
        }
        found = Some(match cursor.value()? {
            Value::Text(text) => Some(text.decode().into_owned()),
            Value::Null | Value::Other => None,
        });
        Ok::<_, json::Error>(())
    });
    walked.map_err(|_| Error::Malformed)?;
    Ok(found)
}

fn members(json: Option<&RawValue>) -> Result<Map<String, Json>, Error> {
    let Some(json) = json else {
        return Ok(Map::new());
    };
    if json.get().len() > MAX_BYTES {
        return Err(Error::TooLarge);
    }
    match serde_json::from_str(json.get()).map_err(|_| Error::Malformed)? {
        Json::Null => Ok(Map::new()),
        Json::Object(members) if members.len() <= MAX_MEMBERS && members.values().all(is_small) => Ok(members),
        Json::Object(_) => Err(Error::TooLarge),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Err(Error::Malformed),
    }
}

fn is_small(json: &Json) -> bool {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
        Json::Array(values) => values.len() <= MAX_MEMBERS && values.iter().all(is_small),
        Json::Object(members) => members.len() <= MAX_MEMBERS && members.values().all(is_small),
    }
}
