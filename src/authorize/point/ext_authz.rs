//! External authorization as Envoy asks an HTTP service (`ext_authz`, `http_service`): a request without a body, whose answer is
//! its status. 200 allows.
//!
//! What is known of the call stands in header fields. What in them is not visible ASCII is percent-encoded, and so is `%`, so
//! that each value reads in one way; the path is as it came.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::Error;
use crate::authenticate::Principal;
use crate::authorize::policy::Asking;
use crate::http::asking::sha256;
use crate::http::fetch::Fetched;
use crate::http::hygiene::{X_FORWARDED_FOR, X_REQUEST_ID};

const PRINCIPAL: HeaderName = HeaderName::from_static("x-a2a-principal");
const AGENT: HeaderName = HeaderName::from_static("x-a2a-agent");
const OPERATION: HeaderName = HeaderName::from_static("x-a2a-operation");
const GENERATION: HeaderName = HeaderName::from_static("x-a2a-generation");
const BINDING: HeaderName = HeaderName::from_static("x-a2a-binding");
const SKILL: HeaderName = HeaderName::from_static("x-a2a-skill");
const TASK: HeaderName = HeaderName::from_static("x-a2a-task");
const CONTEXT: HeaderName = HeaderName::from_static("x-a2a-context");
const METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const PATH: HeaderName = HeaderName::from_static("x-forwarded-uri");

pub(super) fn dress(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
}

/// What is sent of the call. A field of which nothing is known is not there.
pub(super) fn told(principal: &Principal, asking: &Asking) -> HeaderMap {
    let (asked, call) = (&asking.asked, &*asking.call);
    let address = asked.address.to_canonical().to_string();
    let mut told = HeaderMap::with_capacity(16);
    for (name, value) in [
        (PRINCIPAL, Some(&*principal.id)),
        (AGENT, Some(&*asked.agent)),
        (OPERATION, Some(call.operation.as_str())),
        (GENERATION, Some(call.generation.as_str())),
        (BINDING, Some(call.binding.as_str())),
        (SKILL, asking.skill.as_deref()),
        (TASK, call.task.as_ref().map(|task| task.as_str())),
        (CONTEXT, call.context.as_ref().map(|context| context.as_str())),
        (X_FORWARDED_FOR, Some(&*address)),
    ] {
        let value = value.and_then(|value| HeaderValue::try_from(encoded(value)).ok());
        told.extend(value.map(|value| (name, value)));
    }
    if let Some(came) = &asking.came {
        let path = HeaderValue::from_str(&came.path).ok();
        told.extend(path.map(|path| (PATH, path)));
        let method = HeaderValue::from_str(came.method.as_str()).ok();
        told.extend(method.map(|method| (METHOD, method)));
        told.insert(X_REQUEST_ID, came.request.header());
    }
    told
}

/// Of everything but the id of the request.
pub(super) fn digest(told: &HeaderMap) -> [u8; 32] {
    let same = told.iter().filter(|(name, _)| **name != X_REQUEST_ID);
    // No name has a colon and no value a line feed, so that two of them never read as one.
    let parts = same.flat_map(|(name, value)| [name.as_str().as_bytes(), b":", value.as_bytes(), b"\n"]);
    sha256(&parts.collect::<Vec<_>>())
}

pub(super) fn read(answer: &Fetched) -> Result<bool, Error> {
    match answer.status {
        StatusCode::OK => Ok(true),
        status if status.is_client_error() => Ok(false),
        status => Err(Error::Status(status)),
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _written = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
