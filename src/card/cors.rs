//! Which pages may read what the gateway publishes (Fetch standard, CORS protocol): cards, the key set, how to get a token.
//!
//! None of it depends on who asks, so no page is ever told to send credentials. Calls are not for pages: whoever lets one make them gives it a
//! credential, and knows a better place for that.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::config;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Empty: those of every page.
    origins: Vec<String>,
    max_age: HeaderValue,
}

impl Cors {
    pub fn new(config: &config::Cors) -> Self {
        Self {
            origins: config.origins.clone(),
            max_age: HeaderValue::from(config.max_age.as_secs()),
        }
    }

    /// A browser asks whether a page may ask.
    pub fn is_asked(request: &Parts) -> bool {
        let has = |name| request.headers.contains_key(name);
        request.method == Method::OPTIONS && has(ORIGIN) && has(ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// What it is answered.
    pub fn preflight(&self, request: &Parts) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        if self.say(&request.headers, headers) {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
            let asked = HeaderValue::from_static("A2A-Version, A2A-Extensions, If-None-Match");
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked);
            headers.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        }
        response
    }

    /// Says in an answer whose pages may read it.
    pub fn dress(&self, request: &HeaderMap, headers: &mut HeaderMap) {
        if self.say(request, headers) {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("ETag"));
        }
    }

    /// Whether the page that asks may.
    fn say(&self, request: &HeaderMap, headers: &mut HeaderMap) -> bool {
        if self.origins.is_empty() {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            return true;
        }
        // What is kept for one page is not for another.
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let Some(origin) = request.get(ORIGIN) else {
            return false;
        };
        let is_named = self.origins.iter().any(|named| named.as_bytes() == origin.as_bytes());
        if is_named {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        }
        is_named
    }
}
