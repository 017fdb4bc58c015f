//! The method and the target of a request as its caller wrote them: what keys stand in and proofs are made for, whatever becomes of
//! them on the way.

use http::{Method, Uri, request};

#[derive(Clone)]
struct Came(Method, Uri);

/// To be called before either is written anew; what was kept first holds.
pub fn keep(parts: &mut request::Parts) {
    if parts.extensions.get::<Came>().is_none() {
        parts.extensions.insert(Came(parts.method.clone(), parts.uri.clone()));
    }
}

pub(super) fn method(parts: &request::Parts) -> &Method {
    let came = parts.extensions.get::<Came>();
    came.map_or(&parts.method, |Came(method, _)| method)
}

pub(super) fn uri(parts: &request::Parts) -> &Uri {
    let came = parts.extensions.get::<Came>();
    came.map_or(&parts.uri, |Came(_, uri)| uri)
}
