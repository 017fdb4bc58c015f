//! The published card over HTTP: whole, or "not modified".
//!
//! Everything is computed when the card changes; a request copies three header values. Knows GET and HEAD only: which
//! methods are allowed is decided before.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LINK, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub body: Bytes,
    /// Strong: over the very bytes that are served, never the origin's.
    pub etag: HeaderValue,
    pub cache_control: HeaderValue,
    media_type: HeaderValue,
    /// The fields by which callers get something else at the same place.
    vary: Option<HeaderValue>,
    link: Option<HeaderValue>,
}

impl Published {
    pub fn new(body: Bytes, max_age: Duration) -> Self {
        Self {
            etag: entity_tag(&body),
            body,
            cache_control: ascii(format!("public, max-age={}", max_age.as_secs())),
            media_type: JSON,
            vary: None,
            link: None,
        }
    }

    /// One of several for callers of different versions (A2A 1.0 §3.6.1).
    pub fn varying(self) -> Self {
        self.varying_by(HeaderValue::from_static("A2A-Version"))
    }

    /// Something else stands at the same place for requests that differ in these fields.
    pub fn varying_by(mut self, fields: HeaderValue) -> Self {
        self.vary = Some(fields);
        self
    }

    /// Of another media type than `application/json`.
    pub fn of_type(mut self, media_type: &'static str) -> Self {
        self.media_type = HeaderValue::from_static(media_type);
        self
    }

    /// With a `Link` field (RFC 8288).
    pub fn linking(mut self, link: HeaderValue) -> Self {
        self.link = Some(link);
        self
    }
}

/// What one caller is told and nobody keeps.
pub fn confide(body: Bytes, request: &Parts) -> Response<Bytes> {
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(if request.method == Method::HEAD {
        Bytes::new()
    } else {
        body
    });
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CONTENT_LENGTH, length);
    response
}

pub fn serve(published: &Published, request: &Parts) -> Response<Bytes> {
    let fresh = is_known(&request.headers, published.etag.as_bytes());
    let body = if fresh || request.method == Method::HEAD {
        Bytes::new()
    } else {
        published.body.clone()
    };
    let mut response = Response::new(body);
    if fresh {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(ETAG, published.etag.clone());
    headers.insert(CACHE_CONTROL, published.cache_control.clone());
    for (name, value) in [(VARY, &published.vary), (LINK, &published.link)] {
        if let Some(value) = value {
            headers.insert(name, value.clone());
        }
    }
    if !fresh {
        headers.insert(CONTENT_TYPE, published.media_type.clone());
        headers.insert(CONTENT_LENGTH, HeaderValue::from(published.body.len()));
    }
    response
}

/// Whether `If-None-Match` names this entity tag, by weak comparison (RFC 9110 §13.1.2). What is not a list of entity
/// tags names nothing from there on, which costs a body at most.
fn is_known(headers: &HeaderMap, etag: &[u8]) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .any(|list| names(list.as_bytes(), etag))
}

/// Whether `If-Match`, if it is there, names this entity tag (RFC 9110 §13.1.1), which has no comma in it.
pub(super) fn is_meant(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let mut lists = headers.get_all(IF_MATCH).iter().peekable();
    let is_named = |list: &HeaderValue| {
        let mut tags = list.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        tags.any(|tag| tag == b"*" || tag == etag.as_bytes())
    };
    lists.peek().is_none() || lists.any(is_named)
}

/// A strong one.
pub(super) fn entity_tag(bytes: &[u8]) -> HeaderValue {
    use std::fmt::Write as _;

    let mut etag = String::with_capacity(66);
    etag.push('"');
    for byte in digest(&SHA256, bytes).as_ref() {
        let _infallible = write!(etag, "{byte:02x}");
    }
    etag.push('"');
    ascii(etag)
}

fn names(list: &[u8], etag: &[u8]) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    while !rest.is_empty() {
        let tag = rest.strip_prefix(b"W/").unwrap_or(rest);
        // A comma may stand inside the quotes.
        let end = tag
            .strip_prefix(b"\"")
            .and_then(|opened| opened.iter().position(|byte| *byte == b'"'))
            .map(|closing| closing + 2);
        let Some((tag, after)) = end.and_then(|end| tag.split_at_checked(end)) else {
            return false;
        };
        if tag == etag {
            return true;
        }
        rest = match after.trim_ascii_start() {
            [] => return false,
            [b',', after @ ..] => after.trim_ascii_start(),
            _ => return false,
        };
    }
    false
}

#[expect(clippy::expect_used, reason = "both callers print digits and ASCII letters only")]
fn ascii(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("printable ASCII")
}
