//! What is known of a caller beside its id: what policies read.
//!
//! Made once for a credential, from what it says or from what the scheme's mapping makes of that; kept as long as the
//! credential is remembered.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value as Json, json};

use super::Invalid;
use crate::config::{Attribute, Mapping};
use crate::expression::{Expression, Value};
use crate::tls::PeerCertificate;

/// Most values of one claim that are kept of it as attributes, and most groups and scopes: a directory may list somebody's
/// every group.
const MAX_VALUES: usize = 256;
/// Longest name of a caller; ids are kept in maps and logs. OpenID Connect Core §2: `sub` has at most 255 characters; X.509
/// subjects rarely pass 300.
const MAX_NAME: usize = 1024;

/// The claim, and the attribute, that lists somebody's groups unless a mapping says otherwise.
pub const GROUPS: &str = "groups";

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// As the credential has it, not encoded.
    pub name: String,
    /// Of a token.
    pub issuer: Option<String>,
    /// Of a token: its `jti` (RFC 7519 §4.1.7).
    pub token_id: Option<String>,
    pub scopes: Vec<String>,
    pub groups: Vec<String>,
    /// Claims that the configuration names, attributes of a key or user; each name once.
    pub claims: Vec<(String, Json)>,
    value: Made,
}

/// Made when a policy first asks.
#[derive(Clone, Debug, Default)]
struct Made(OnceLock<Value>);

impl PartialEq for Made {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// How a principal is made of the claims of a token that is not kept: read in another way, it might be somebody else's.
#[derive(PartialEq, Eq)]
pub(super) struct Reading {
    /// The one that names the caller, where the mapping does not.
    pub claim: String,
    pub mapping: Mapping,
}

/// What a credential gives to a mapping.
pub(super) enum Given<'a> {
    /// Every claim of a token, and those that are kept.
    Token {
        claims: &'a BTreeMap<String, Json>,
        kept: &'a [String],
        issuer: Option<&'a str>,
    },
    /// Of a key or a user.
    Entry {
        attributes: &'a [Attribute],
    },
    Certificate(&'a PeerCertificate),
}

impl Facts {
    /// `name` and `scopes` are those that the credential has without a mapping.
    pub(super) fn new(mapping: &Mapping, name: &str, scopes: Vec<String>, given: &Given<'_>) -> Result<Self, Invalid> {
        let mut claims = given.kept();
        let variables = |variable: &str| match variable {
            "name" => Some(Value::text(name)),
            "scopes" => Some(texts(&scopes)),
            _ => given.variable(variable),
        };
        // What a credential lacks is no reason to refuse it: whoever needs it will.
        let listed = |expression: &Expression| {
            let found = expression.evaluate(variables).ok().and_then(Value::into_texts);
            found.unwrap_or_default()
        };
        let groups = match &mapping.groups {
            Some(expression) => listed(expression),
            None => found(&claims, GROUPS).map_or_else(Vec::new, |json| strings(json).unwrap_or_default()),
        };
        let mapped_scopes = mapping.scopes.as_ref().map(listed);
        let mapped_name = match &mapping.name {
            Some(expression) => {
                let name = expression.evaluate(variables).map_err(|_| Invalid::MissingClaim)?;
                Some(name.as_text().ok_or(Invalid::Malformed)?.to_owned())
            }
            None => None,
        };
        let mut mapped = Vec::new();
        for (member, expression) in &mapping.claims {
            if let Some(json) = expression.evaluate(variables).ok().and_then(|value| value.to_json()) {
                mapped.push((member.clone(), json));
            }
        }
        claims.retain(|(member, _)| !mapping.claims.iter().any(|(other, _)| other == member));
        claims.extend(mapped);
        let name = mapped_name.unwrap_or_else(|| name.to_owned());
        match name.len() {
            0 => return Err(Invalid::Malformed),
            1..=MAX_NAME => {}
            _ => return Err(Invalid::TooLong),
        }
        Ok(Self {
            name,
            issuer: given.issuer().map(str::to_owned),
            token_id: given.token_id(),
            scopes: mapped_scopes.unwrap_or(scopes),
            groups: bounded(groups),
            claims,
            value: Made::default(),
        })
    }

    /// Of somebody who proved several things: lists of all, everything else of the first that has it.
    pub(super) fn joined<'f>(all: impl Iterator<Item = &'f Self>) -> Self {
        let mut joined = Self::default();
        for facts in all {
            if joined.name.is_empty() {
                joined.name.clone_from(&facts.name);
            }
            joined.issuer = joined.issuer.or_else(|| facts.issuer.clone());
            for (list, more) in [(&mut joined.scopes, &facts.scopes), (&mut joined.groups, &facts.groups)] {
                for text in more {
                    if !list.contains(text) {
                        list.push(text.clone());
                    }
                }
            }
            for (name, json) in &facts.claims {
                if found(&joined.claims, name).is_none() {
                    joined.claims.push((name.clone(), json.clone()));
                }
            }
        }
        joined
    }

    /// The claims that are texts or lists of texts. What is neither, and what is too long, is no attribute: a policy that needs
    /// it refuses the caller, others do not care.
    pub(super) fn attributes(&self) -> Vec<Arc<str>> {
        let mut attributes = Vec::new();
        for (name, json) in &self.claims {
            for value in bounded(strings(json).unwrap_or_default()) {
                let name = name.clone();
                attributes.push(Attribute { name, value }.text());
            }
        }
        attributes
    }

    /// The variable `principal`.
    pub(super) fn value(&self, id: &Arc<str>, schemes: &[Arc<str>]) -> Value {
        let make = || {
            let claims = self.claims.iter().map(|(name, json)| (name.clone(), Value::json(json)));
            let members = [
                ("id", Value::text(&**id)),
                ("name", Value::text(&*self.name)),
                ("issuer", Value::text(self.issuer.as_deref().unwrap_or_default())),
                ("anonymous", Value::bool(schemes.is_empty())),
                (
                    "schemes",
                    Value::list(schemes.iter().map(|scheme| Value::text(&**scheme))),
                ),
                ("scopes", texts(&self.scopes)),
                (GROUPS, texts(&self.groups)),
                ("claims", Value::map(claims)),
            ];
            Value::map(members.map(|(name, value)| (name.to_owned(), value)))
        };
        self.value.0.get_or_init(make).clone()
    }

    /// The same for others than rules, of the claims only these.
    pub(super) fn told(&self, id: &str, schemes: &[Arc<str>], claims: &[String]) -> Json {
        let told = claims
            .iter()
            .filter_map(|name| Some((name.clone(), found(&self.claims, name)?.clone())));
        json!({
            "id": id,
            "name": self.name,
            "issuer": self.issuer.as_deref().unwrap_or_default(),
            "anonymous": schemes.is_empty(),
            "schemes": schemes.iter().map(|scheme| &**scheme).collect::<Vec<_>>(),
            "scopes": self.scopes,
            GROUPS: self.groups,
            "claims": told.collect::<Map<_, _>>(),
        })
    }
}

impl Given<'_> {
    fn issuer(&self) -> Option<&str> {
        match self {
            Self::Token { issuer, .. } => *issuer,
            Self::Entry { .. } | Self::Certificate(_) => None,
        }
    }

    fn token_id(&self) -> Option<String> {
        match self {
            Self::Token { claims, .. } => claims.get("jti")?.as_str().map(str::to_owned),
            Self::Entry { .. } | Self::Certificate(_) => None,
        }
    }

    fn kept(&self) -> Vec<(String, Json)> {
        match self {
            Self::Token { claims, kept, .. } => {
                let kept = kept.iter().filter_map(|name| claims.get_key_value(name));
                kept.map(|(name, json)| (name.clone(), json.clone())).collect()
            }
            Self::Entry { attributes } => {
                let mut kept: Vec<(String, Json)> = Vec::new();
                for Attribute { name, value } in *attributes {
                    let value = Json::String(value.clone());
                    match kept.iter_mut().find(|(known, _)| known == name) {
                        None => kept.push((name.clone(), value)),
                        Some((_, Json::Array(values))) => values.push(value),
                        Some((_, one)) => *one = Json::Array(vec![one.take(), value]),
                    }
                }
                kept
            }
            Self::Certificate(_) => Vec::new(),
        }
    }

    fn variable(&self, name: &str) -> Option<Value> {
        match (self, name) {
            (Self::Token { claims, .. }, "claims") => {
                let members = claims.iter().map(|(name, json)| (name.clone(), Value::json(json)));
                Some(Value::map(members))
            }
            (Self::Entry { .. }, "attributes") => {
                let kept = self.kept().into_iter();
                let listed = kept.map(|(name, json)| (name, texts(&strings(&json).unwrap_or_default())));
                Some(Value::map(listed))
            }
            (Self::Certificate(certificate), "certificate") => {
                let members = [
                    ("subject", Value::text(&*certificate.subject)),
                    ("uris", texts(&certificate.uris)),
                    ("dns_names", texts(&certificate.dns_names)),
                    ("emails", texts(&certificate.emails)),
                    ("fingerprint", Value::text(super::hex(&certificate.fingerprint))),
                ];
                Some(Value::map(members.map(|(name, value)| (name.to_owned(), value))))
            }
            (Self::Token { .. } | Self::Entry { .. } | Self::Certificate(_), _) => None,
        }
    }
}

fn found<'c>(claims: &'c [(String, Json)], name: &str) -> Option<&'c Json> {
    claims.iter().find(|(known, _)| known == name).map(|(_, json)| json)
}

fn texts(texts: &[String]) -> Value {
    Value::list(texts.iter().map(|text| Value::text(&**text)))
}

/// A text, or an array of nothing but texts.
fn strings(json: &Json) -> Option<Vec<String>> {
    match json {
        Json::String(text) => Some(vec![text.clone()]),
        Json::Array(values) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
    }
}

fn bounded(mut values: Vec<String>) -> Vec<String> {
    values.retain(|value| (1..=Attribute::MAX_VALUE).contains(&value.len()));
    values.truncate(MAX_VALUES);
    values
}
