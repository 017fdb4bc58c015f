//! Security requirements in both forms: `security` of 0.2 and 0.3, `securityRequirements` of 1.0.
//!
//! Reading accepts either form under either name (the sample card of 1.0 and some servers mix them) and refuses whatever
//! is neither: an unreadable requirement must never count as none.

use serde_json::{Map, Value};

use super::CardError;
use super::names::member;
use crate::a2a::Generation;
use crate::a2a::security::{SchemeUse, Security};

/// Alternatives, and schemes of one: each costs every call something. Real cards have a handful.
const MOST: usize = 128;

/// The requirement of a card or of a skill; `None` when it has no member for it.
pub(super) fn read(members: &Map<String, Value>) -> Result<Option<Security>, CardError> {
    let old = read_member(members, "security")?;
    let new = read_member(members, "securityRequirements")?;
    match (old, new) {
        (Some(old), Some(new)) => {
            if sorted(&old) == sorted(&new) {
                Ok(Some(new))
            } else {
                Err(CardError::SecurityDisagrees)
            }
        }
        (old, new) => Ok(new.or(old)),
    }
}

/// The requirement of a 0.1 card: names of schemes, any of which will do. Seen in the wild as one plain string.
pub(super) fn read_authentication(members: &Map<String, Value>) -> Result<Option<Security>, CardError> {
    const NAME: &str = "authentication";
    let malformed = || CardError::Malformed { member: NAME };
    let Some(authentication) = member(members, NAME)? else {
        return Ok(None);
    };
    let Some(schemes) = member(authentication.as_object().ok_or_else(malformed)?, "schemes")? else {
        return Ok(None);
    };
    let one = |name: &str| {
        vec![SchemeUse {
            scheme: name.to_owned(),
            scopes: Vec::new(),
        }]
    };
    let alternatives = if let Some(name) = schemes.as_str() {
        vec![one(name)]
    } else {
        let names = schemes.as_array().filter(|names| names.len() <= MOST);
        let names = names.ok_or_else(malformed)?;
        names
            .iter()
            .map(|name| name.as_str().map(one).ok_or_else(malformed))
            .collect::<Result<_, _>>()?
    };
    Ok(Some(Security { alternatives }))
}

/// The value of `security` (0.3) or of `securityRequirements` (1.0).
pub(super) fn write(security: &Security, generation: Generation) -> Value {
    security
        .alternatives
        .iter()
        .map(|alternative| write_alternative(alternative, generation))
        .collect()
}

fn write_alternative(alternative: &[SchemeUse], generation: Generation) -> Value {
    // A scheme named twice is one member, with the scopes of both.
    let mut scopes: Vec<(&str, Vec<&str>)> = Vec::new();
    for wanted in alternative {
        let names = wanted.scopes.iter().map(String::as_str);
        match scopes.iter_mut().find(|(name, _)| *name == wanted.scheme) {
            Some((_, known)) => {
                for name in names {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
            None => scopes.push((&wanted.scheme, names.collect())),
        }
    }
    let schemes: Map<String, Value> = scopes
        .into_iter()
        .map(|(name, scopes)| {
            let value = match generation {
                Generation::V0_1 | Generation::V0_3 => Value::from(scopes),
                // ProtoJSON leaves an empty list out.
                Generation::V1_0 if scopes.is_empty() => Value::Object(Map::new()),
                Generation::V1_0 => one_member("list", Value::from(scopes)),
            };
            (name.to_owned(), value)
        })
        .collect();
    match generation {
        Generation::V1_0 if !schemes.is_empty() => one_member("schemes", Value::Object(schemes)),
        // Also the alternative that admits anonymous callers: `{}` in both forms.
        Generation::V0_1 | Generation::V0_3 | Generation::V1_0 => Value::Object(schemes),
    }
}

pub(super) fn one_member(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

fn read_member(members: &Map<String, Value>, name: &'static str) -> Result<Option<Security>, CardError> {
    let malformed = || CardError::Malformed { member: name };
    let Some(value) = member(members, name)? else {
        return Ok(None);
    };
    let alternatives = value
        .as_array()
        .filter(|list| list.len() <= MOST)
        .ok_or_else(malformed)?
        .iter()
        .map(|alternative| read_alternative(alternative).ok_or_else(malformed))
        .collect::<Result<_, _>>()?;
    Ok(Some(Security { alternatives }))
}

fn read_alternative(value: &Value) -> Option<Vec<SchemeUse>> {
    let members = value.as_object()?;
    // In 0.3 every value is a list, so an object under `schemes` is the form of 1.0.
    let schemes = match members.get("schemes").and_then(Value::as_object) {
        Some(schemes) if members.len() == 1 => schemes,
        Some(_) => return None,
        None => members,
    };
    if schemes.len() > MOST {
        return None;
    }
    let mut alternative = schemes
        .iter()
        .map(|(scheme, scopes)| {
            Some(SchemeUse {
                scheme: scheme.clone(),
                scopes: read_scopes(scopes)?,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    alternative.sort_by(|a, b| a.scheme.cmp(&b.scheme));
    Some(alternative)
}

/// `["a"]`, `{"list":["a"]}` or `{}`.
fn read_scopes(value: &Value) -> Option<Vec<String>> {
    let list = match value.as_object() {
        Some(members) if members.is_empty() => return Some(Vec::new()),
        Some(members) if members.len() == 1 => members.get("list")?,
        Some(_) => return None,
        None => value,
    };
    list.as_array()?
        .iter()
        .map(|scope| scope.as_str().map(str::to_owned))
        .collect()
}

/// The same requirement in an order of its own, for comparison.
pub(super) fn in_order(security: &Security) -> Security {
    let alternatives = sorted(security).into_iter().map(|alternative| {
        let uses = alternative.into_iter().map(|(scheme, scopes)| SchemeUse {
            scheme: scheme.to_owned(),
            scopes: scopes.into_iter().map(str::to_owned).collect(),
        });
        uses.collect()
    });
    Security {
        alternatives: alternatives.collect(),
    }
}

/// The same requirement whatever the order of its parts, for comparison only.
fn sorted(security: &Security) -> Vec<Vec<(&str, Vec<&str>)>> {
    let mut alternatives: Vec<Vec<(&str, Vec<&str>)>> = security
        .alternatives
        .iter()
        .map(|alternative| {
            let mut uses: Vec<_> = alternative
                .iter()
                .map(|wanted| {
                    let mut scopes: Vec<&str> = wanted.scopes.iter().map(String::as_str).collect();
                    scopes.sort_unstable();
                    scopes.dedup();
                    (wanted.scheme.as_str(), scopes)
                })
                .collect();
            uses.sort_unstable();
            uses
        })
        .collect();
    alternatives.sort_unstable();
    alternatives.dedup();
    alternatives
}
