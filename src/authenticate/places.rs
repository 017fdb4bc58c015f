//! Where credentials stand in a request: to read them, and to strip them before the request goes on.
//!
//! Reading and stripping share one walk over the query, so that a spelling that is accepted as a credential is also the
//! spelling that is removed. Cookies never go on, whatever they hold.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, header};

use crate::http::query::{decode, pairs, split};

/// Every place that a configured scheme reads, whichever agent asks for it; but cookies, of which none goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialPlaces {
    pub headers: Vec<HeaderName>,
    /// Names of query parameters, decoded.
    pub query: Vec<String>,
}

impl CredentialPlaces {
    /// The query of a request target without the parameters that are credentials; borrowed if there are none.
    pub fn strip_query<'q>(&self, query: &'q str) -> Cow<'q, str> {
        let credential = |name: &str| {
            let name = decode(name);
            self.query.iter().any(|known| known.as_bytes() == &*name)
        };
        if self.query.is_empty() || !pairs(query).any(|(name, _)| credential(name)) {
            return Cow::Borrowed(query);
        }
        let mut kept = String::with_capacity(query.len());
        for pair in query.split('&') {
            let (name, _) = split(pair);
            if !credential(name) {
                if !kept.is_empty() {
                    kept.push('&');
                }
                kept.push_str(pair);
            }
        }
        Cow::Owned(kept)
    }

    /// Without those that are among the others.
    #[must_use]
    pub fn but(mut self, others: &Self) -> Self {
        self.headers.retain(|name| !others.headers.contains(name));
        self.query.retain(|name| !others.query.contains(name));
        self
    }

    /// The header field is a credential.
    pub fn is_header(&self, name: &HeaderName) -> bool {
        self.headers.contains(name)
    }
}

/// The only value of a name, or the fact that there are several.
pub(super) enum Found<T> {
    Nothing,
    One(T),
    Several,
}

impl<T> Found<T> {
    pub(super) fn only(mut values: impl Iterator<Item = T>) -> Self {
        match (values.next(), values.next()) {
            (None, _) => Self::Nothing,
            (Some(value), None) => Self::One(value),
            (Some(_), Some(_)) => Self::Several,
        }
    }
}

/// The values of a query parameter, percent-decoded. `+` stays `+`: keys are opaque text, not form fields.
pub(super) fn query_values<'q>(query: &'q str, name: &'q str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    pairs(query)
        .filter(move |(found, _)| *decode(found) == *name.as_bytes())
        .map(|(_, value)| decode(value))
}

pub(super) fn cookie_values<'h>(headers: &'h HeaderMap, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    cookies(headers)
        .filter(move |(found, _)| *found == name.as_bytes())
        .map(|(_, value)| value.unwrap_or_default())
}

/// RFC 6265 §4.2.1, over all `Cookie` fields: HTTP/2 may split them (RFC 9113 §8.2.3).
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            (
                parts.next().unwrap_or_default().trim_ascii(),
                parts.next().map(<[u8]>::trim_ascii),
            )
        })
}
