//! Where callers find what a requirement guards, and what they are told of how to get a token for it (RFC 9728).

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Map, Value, json};

use super::jwks;
use crate::a2a::security::{SchemeName, Security};
use crate::config::{Scheme, SenderConstraint, Tokens};
use crate::route::METADATA_PATH;

/// What callers are told of the place of an agent, never what a request says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// What stands before the path of every request, without a slash at its end.
    base: String,
    /// The identifier of the resource, if it has metadata.
    url: Option<String>,
}

impl Resource {
    /// `base` is the URL that the root of the gateway has for callers.
    pub fn unnamed(base: &str) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            url: None,
        }
    }

    /// One that callers are told of by this URL.
    pub fn named(base: &str, url: &str) -> Self {
        Self {
            url: Some(url.to_owned()),
            ..Self::unnamed(base)
        }
    }

    /// Whether this is the URL of a request with this path (RFC 9449 §4.3: without query and fragment, after normalisation by RFC
    /// 3986 §6.2.2 and §6.2.3).
    pub(super) fn is_at(&self, url: &str, path: &str) -> bool {
        let told = normal(&format!("{}{path}", self.base));
        told.is_some() && told == normal(url)
    }

    /// Where its metadata is: the path of the resource behind the well-known one (RFC 9728 §3.1).
    pub fn metadata_url(&self) -> Option<String> {
        let (scheme, rest) = self.url.as_ref()?.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = path.trim_end_matches('/');
        Some(format!("{scheme}://{authority}{METADATA_PATH}{path}"))
    }

    /// The parameter of challenges (RFC 9728 §5.1).
    pub(super) fn parameter(&self) -> String {
        match self.metadata_url() {
            Some(url) => format!(", resource_metadata=\"{url}\""),
            None => String::new(),
        }
    }

    /// The metadata, where tokens are asked for.
    pub(super) fn describe(
        &self,
        security: &Security,
        schemes: &BTreeMap<SchemeName, Scheme>,
        name: Option<&str>,
    ) -> Option<Bytes> {
        let url = self.url.as_ref()?;
        let uses = || {
            let uses = security.alternatives.iter().flatten();
            uses.filter_map(|one| Some((one, schemes.get(&one.scheme)?.kind.tokens()?)))
        };
        let all: Vec<&Tokens> = uses().map(|(_, tokens)| tokens).collect();
        if all.is_empty() {
            return None;
        }
        let issuers = distinct(all.iter().map(|tokens| tokens.issuer.as_str()));
        let scopes = distinct(uses().flat_map(|(one, _)| one.scopes.iter().map(String::as_str)));
        let mut metadata = Map::new();
        let mut say = |name: &str, value: Value| metadata.insert(name.to_owned(), value);
        say("resource", json!(url));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            say("resource_name", json!(name));
        }
        say("authorization_servers", json!(issuers));
        if !scopes.is_empty() {
            say("scopes_supported", json!(scopes));
        }
        say("bearer_methods_supported", json!(["header"]));
        if all.iter().any(|tokens| takes_proofs(tokens.sender)) {
            say("dpop_signing_alg_values_supported", json!(jwks::names()));
        }
        if all.iter().all(|tokens| tokens.sender == SenderConstraint::Dpop) {
            say("dpop_bound_access_tokens_required", json!(true));
        }
        let of_certificates = |tokens: &&Tokens| match tokens.sender {
            SenderConstraint::Mtls | SenderConstraint::Required => true,
            SenderConstraint::Optional | SenderConstraint::Dpop => false,
        };
        if all.iter().any(of_certificates) {
            say("tls_client_certificate_bound_access_tokens", json!(true));
        }
        Some(Bytes::from(Value::Object(metadata).to_string()))
    }
}

/// Whether tokens of some scheme may come with a proof of possession alone.
fn takes_proofs(constraint: SenderConstraint) -> bool {
    match constraint {
        SenderConstraint::Optional | SenderConstraint::Dpop | SenderConstraint::Required => true,
        SenderConstraint::Mtls => false,
    }
}

/// What is wrong with what a caller showed, as far as challenges tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    Missing,
    Invalid,
    /// The token may be good, the proof is not (RFC 9449 §7.1).
    BadProof,
    /// With the parameter that names the scopes.
    Insufficient(&'a str),
}

/// The values for `WWW-Authenticate` of a scheme of tokens: `Bearer` and `DPoP` by what its tokens may be.
pub(super) fn challenges(constraint: SenderConstraint, told: Told<'_>, at: &Resource) -> Vec<HeaderValue> {
    let mut values = Vec::new();
    let error = |name: &str| format!(", error=\"{name}\"");
    let metadata = at.parameter();
    if constraint != SenderConstraint::Dpop {
        let error = match told {
            // What is wrong is told with the scheme that it is about.
            Told::Missing => String::new(),
            Told::BadProof => match takes_proofs(constraint) {
                true => String::new(),
                false => error("invalid_token"),
            },
            Told::Invalid => error("invalid_token"),
            Told::Insufficient(scope) => format!("{}{scope}", error("insufficient_scope")),
        };
        values.push(format!("Bearer realm=\"a2a-gateway\"{error}{metadata}"));
    }
    if takes_proofs(constraint) {
        let error = match told {
            Told::Missing => String::new(),
            Told::BadProof => error("invalid_dpop_proof"),
            Told::Invalid => error("invalid_token"),
            Told::Insufficient(scope) => format!("{}{scope}", error("insufficient_scope")),
        };
        let algorithms = jwks::names().join(" ");
        values.push(format!(
            "DPoP realm=\"a2a-gateway\", algs=\"{algorithms}\"{error}{metadata}"
        ));
    }
    let values = values.into_iter().filter_map(|value| HeaderValue::try_from(value).ok());
    values.collect()
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct
}

/// Scheme, host, port and path of a URL in normal form. `None`: it is none of `http` or `https`, has a name and password, or
/// what stands in it is no URL.
fn normal(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let default = match scheme.as_str() {
        "https" => "443",
        "http" => "80",
        _ => return None,
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains('@') || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let authority = authority.to_ascii_lowercase();
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an address stand in brackets.
        Some((host, port)) if !port.contains(']') => (host, port),
        Some(_) | None => (authority.as_str(), ""),
    };
    let mut text = format!("{scheme}://{host}");
    if !port.is_empty() && port != default {
        text.push(':');
        text.push_str(port);
    }
    text.push_str(&escapes(if path.is_empty() { "/" } else { path })?);
    Some(text)
}

/// Escapes in upper case, and none where none is needed.
fn escapes(path: &str) -> Option<String> {
    let mut normal = String::with_capacity(path.len());
    let mut parts = path.split('%');
    normal.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let byte = u8::from_str_radix(digits, 16)
            .ok()
            .filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            normal.push(char::from(byte));
        } else {
            normal.push_str(&format!("%{byte:02X}"));
        }
        normal.push_str(rest);
    }
    Some(normal)
}
