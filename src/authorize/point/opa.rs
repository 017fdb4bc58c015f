//! Open Policy Agent: its Data API (`POST /v1/data/<path>` with an input), over which a rule is evaluated.
//!
//! The input has what rules of the gateway read, under the same names. OPA answers 200 with the rule's value as `result`,
//! and without `result` where the rule is undefined.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Error;
use crate::authenticate::Principal;
use crate::authorize::policy::Asking;
use crate::config::Moment;
use crate::http::fetch::Fetched;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn dress(headers: &mut HeaderMap) {
    headers.insert(header::ACCEPT, JSON);
    headers.insert(header::CONTENT_TYPE, JSON);
}

/// Everything but the time, as the members of an object.
pub(super) fn input(principal: &Principal, asking: &Asking, claims: &[String]) -> String {
    let (asked, call) = (&asking.asked, &*asking.call);
    let mut input = json!({
        "principal": principal.told(claims),
        "agent": { "name": &*asked.agent },
        "operation": call.operation.as_str(),
        "generation": call.generation.as_str(),
        "binding": call.binding.as_str(),
        "skill": asking.skill.as_deref().unwrap_or_default(),
        "task": {
            "id": call.task.as_ref().map_or("", |task| task.as_str()),
            "context": call.context.as_ref().map_or("", |context| context.as_str()),
            "references": call.references.iter().map(|task| task.as_str()).collect::<Vec<_>>(),
            "owner": asking.owner.as_deref().unwrap_or_default(),
            "state": asking.state.unwrap_or_default(),
        },
        "source": {
            "address": asked.address.to_canonical().to_string(),
            "listener": &*asked.listener,
            "tls": asked.tls,
        },
    });
    // What is not known is left out, as it is missing for rules.
    if let (Some(metadata), Some(input)) = (&asking.metadata, input.as_object_mut()) {
        let members = metadata.members().map(|(key, value)| (key.clone(), value.clone()));
        let metadata: Map<String, Value> = members.collect();
        input.insert("message".to_owned(), json!({ "metadata": metadata }));
    }
    let text = input.to_string();
    text.strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .unwrap_or_default()
        .to_owned()
}

/// `now` in seconds since 1970.
pub(super) fn body(input: &str, now: u64) -> Bytes {
    Bytes::from(format!(r#"{{"input":{{{input},"time":"{}"}}}}"#, Moment(now)))
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    result: Option<&'a RawValue>,
}

/// The value of a package.
#[derive(Deserialize)]
struct Package<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    allow: Option<&'a RawValue>,
}

/// A member that is there, `null` too.
fn there<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Only the boolean allows; false and undefined deny.
pub(super) fn read(answer: &Fetched) -> Result<bool, Error> {
    if answer.status != StatusCode::OK {
        return Err(Error::Status(answer.status));
    }
    let text = std::str::from_utf8(&answer.body).map_err(|_| Error::Answer("it is not UTF-8"))?;
    let answer: Answer<'_> = object(text).ok_or(Error::Answer("it is no JSON object, or has a member twice"))?;
    let value = match answer.result.map(RawValue::get) {
        Some(text) if text.starts_with('{') => {
            let package: Package<'_> = object(text).ok_or(Error::Answer("its `result` has a member twice"))?;
            package.allow.map(RawValue::get)
        }
        value => value,
    };
    match value {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(_) => Err(Error::Answer(
            "its `result` is neither a boolean nor has one as `allow`",
        )),
    }
}

/// A list would pass for the object with these members in their order.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    let is_object = text.trim_ascii_start().starts_with('{');
    is_object.then(|| serde_json::from_str(text).ok()).flatten()
}
