//! Reads an origin card, tolerant of how servers print it, strict about what it demands.
//!
//! A quirk in a member that the gateway writes anew anyway is ignored; one in a requirement makes the requirement an error,
//! because guessing would open the agent.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::names::{member, text};
use super::{Capabilities, CardError, Interface, MAX_DEPTH, OriginCard, SchemeForm, requirement, skills};
use crate::a2a::json::{ErrorKind, Limits, Strict};
use crate::a2a::security::Security;
use crate::a2a::{Binding, Generation};

/// The size of `bytes` is bounded by whoever fetched them.
pub fn read(bytes: &[u8]) -> Result<OriginCard, CardError> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| CardError::NotJson {
        line: error.line(),
        column: error.column(),
    })?;
    let depth = depth(&value);
    let Value::Object(mut members) = value else {
        return Err(CardError::NotObject);
    };
    if depth > MAX_DEPTH {
        return Err(CardError::TooDeep);
    }
    if has_twins(bytes) {
        return Err(CardError::DuplicateMember);
    }
    let duplicate_skills = skills::drop_twins(&mut members);
    Ok(OriginCard {
        duplicate_skills,
        ..of(members)?
    })
}

/// The card that has these members.
pub(super) fn of(members: Map<String, Value>) -> Result<OriginCard, CardError> {
    Ok(OriginCard {
        duplicate_skills: Vec::new(),
        signed: Vec::new(),
        until: None,
        interfaces: interfaces(&members)?,
        capabilities: capabilities(&members)?,
        security: security(&members),
        schemes: member(&members, "securitySchemes")?
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, scheme)| (name.clone(), SchemeForm::read(scheme)))
            .collect(),
        document: None,
        members,
    })
}

/// Two members of one name, of which another reader may take the other one.
fn has_twins(bytes: &[u8]) -> bool {
    // Whatever else it would refuse must not keep it from seeing them.
    let limits = Limits {
        digits: usize::MAX,
        ..Limits::default()
    };
    let twins = Strict::new(bytes, limits).and_then(|mut cursor| cursor.skip());
    twins.is_err_and(|error| error.kind == ErrorKind::DuplicateName)
}

fn security(members: &Map<String, Value>) -> Result<Security, CardError> {
    match requirement::read(members)? {
        Some(security) => Ok(security),
        // 0.1 has no other way to demand anything; in a younger card the member is a left-over.
        None => Ok(requirement::read_authentication(members)?.unwrap_or_default()),
    }
}

fn interfaces(members: &Map<String, Value>) -> Result<Vec<Interface>, CardError> {
    let (mut interfaces, mut known) = (Vec::new(), HashSet::new());
    let mut add = |interface: Interface| {
        if known.insert(interface.clone()) {
            interfaces.push(interface);
        }
    };
    let supported = entries(members, "supportedInterfaces")?;
    for entry in &supported {
        let generation = match text(entry, "protocolVersion")? {
            Some(version) => generation(version),
            // Required since the member exists, which is since 1.0.
            None => Some(Generation::V1_0),
        };
        let (Some(generation), Some(url)) = (generation, text(entry, "url")?) else {
            continue;
        };
        if let Some(binding) = binding(text(entry, "protocolBinding")?) {
            add(Interface {
                generation,
                binding,
                url: url.to_owned(),
                tenant: text(entry, "tenant")?.map(str::to_owned),
            });
        }
    }
    let generation = match url_version(members, !supported.is_empty())? {
        UrlVersion::Of(generation) => generation,
        UrlVersion::V0_1 => {
            // It has no other binding.
            if let Some(url) = text(members, "url")? {
                add(Interface {
                    generation: Generation::V0_1,
                    binding: Binding::JsonRpc,
                    url: url.to_owned(),
                    tenant: None,
                });
            }
            return Ok(interfaces);
        }
        UrlVersion::Unknown => return Ok(interfaces),
    };
    let mut add_url = |url: &str, binding| {
        add(Interface {
            generation,
            binding,
            url: url.to_owned(),
            tenant: None,
        });
    };
    // The default of `preferredTransport` (A2A 0.3 §5.5).
    let preferred = text(members, "preferredTransport")?.or(Some(Binding::JsonRpc.as_str()));
    if let Some(url) = text(members, "url")?
        && let Some(binding) = binding(preferred)
    {
        add_url(url, binding);
    }
    for entry in entries(members, "additionalInterfaces")? {
        if let Some(url) = text(entry, "url")?
            && let Some(binding) = binding(text(entry, "transport")?)
        {
            add_url(url, binding);
        }
    }
    Ok(interfaces)
}

/// What is spoken at `url` and at `additionalInterfaces`.
enum UrlVersion {
    Of(Generation),
    V0_1,
    /// Nothing that the gateway speaks, or nobody can tell.
    Unknown,
}

/// Members that no card of 0.1 has.
const LATER: [&str; 4] = [
    "preferredTransport",
    "additionalInterfaces",
    "securitySchemes",
    "security",
];

fn url_version(members: &Map<String, Value>, has_supported_interfaces: bool) -> Result<UrlVersion, CardError> {
    // An agent that speaks a later generation too is called in that one.
    if let Some(version) = text(members, "protocolVersion")? {
        return Ok(match generation(version) {
            Some(generation) => UrlVersion::Of(generation),
            None if is_0_1(version) && !has_supported_interfaces => UrlVersion::V0_1,
            None => UrlVersion::Unknown,
        });
    }
    // 1.0 says it elsewhere.
    if has_supported_interfaces {
        return Ok(UrlVersion::Unknown);
    }
    // 0.2 before the version came, unless it has the one member that 0.1 has and later generations lack.
    if member(members, "authentication")?.is_none() {
        return Ok(UrlVersion::Of(Generation::V0_3));
    }
    let mut later = LATER.into_iter().map(|name| member(members, name));
    let is_later = later.try_fold(false, |found, member| Ok::<_, CardError>(found || member?.is_some()))?;
    Ok(if is_later {
        UrlVersion::Unknown
    } else {
        UrlVersion::V0_1
    })
}

fn is_0_1(version: &str) -> bool {
    version == "0.1" || version.starts_with("0.1.")
}

/// The generation that a version belongs to, of those that callers may choose; patches do not matter, and 0.2 shares its names
/// with 0.3.
pub fn generation(version: &str) -> Option<Generation> {
    let mut parts = version.split('.');
    match (parts.next()?, parts.next()) {
        ("0", Some("2" | "3")) => Some(Generation::V0_3),
        ("1", None | Some("0")) => Some(Generation::V1_0),
        _ => None,
    }
}

/// A binding that the gateway speaks.
fn binding(name: Option<&str>) -> Option<Binding> {
    let name = name?;
    Binding::ALL
        .into_iter()
        .find(|binding| binding.as_str().eq_ignore_ascii_case(name))
}

/// The objects in a list; anything else in it says nothing.
fn entries<'a>(members: &'a Map<String, Value>, name: &'static str) -> Result<Vec<&'a Map<String, Value>>, CardError> {
    Ok(member(members, name)?
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect())
}

fn capabilities(members: &Map<String, Value>) -> Result<Capabilities, CardError> {
    let claims =
        |members: &Map<String, Value>, name| member(members, name).map(|value| value == Some(&Value::Bool(true)));
    let mut read = Capabilities {
        extended: claims(members, "supportsAuthenticatedExtendedCard")?,
        ..Capabilities::default()
    };
    if let Some(flags) = member(members, "capabilities")?.and_then(Value::as_object) {
        read.streaming = claims(flags, "streaming")?;
        read.push = claims(flags, "pushNotifications")?;
        read.extended |= claims(flags, "extendedAgentCard")?;
    }
    Ok(read)
}

/// Levels of nesting; a scalar has none. Recursion is bounded by the parser, which stops at 128.
fn depth(value: &Value) -> usize {
    let deepest = if let Some(list) = value.as_array() {
        list.iter().map(depth).max()
    } else if let Some(members) = value.as_object() {
        members.values().map(depth).max()
    } else {
        return 0;
    };
    deepest.unwrap_or(0) + 1
}
