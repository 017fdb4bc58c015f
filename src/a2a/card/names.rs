//! Names of card members, and who may write them.
//!
//! Readers differ in what they take for a member: ProtoJSON takes `supported_interfaces` for `supportedInterfaces`, Go's
//! `encoding/json` takes any case and folds two letters beyond ASCII. A member that the gateway writes itself must
//! therefore vanish in every spelling, and one that it reads must stand there in exactly one that all readers agree on.

use serde_json::{Map, Value};

use super::CardError;

/// Top-level members that the gateway writes itself, or removes.
const GOVERNED: [&str; 11] = [
    "url",
    "preferredTransport",
    "protocolVersion",
    "additionalInterfaces",
    "supportedInterfaces",
    "securitySchemes",
    "security",
    "securityRequirements",
    "supportsAuthenticatedExtendedCard",
    // Broken by any rewrite.
    "signatures",
    // 0.1; says nothing that can be enforced.
    "authentication",
];

/// Other top-level members that every card has.
const REQUIRED: [&str; 7] = [
    "name",
    "description",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
];

/// Members of `capabilities` that the gateway writes itself.
const GOVERNED_CAPABILITIES: [&str; 3] = ["streaming", "pushNotifications", "extendedAgentCard"];

/// Members of a skill that the gateway writes itself.
const GOVERNED_SKILL: [&str; 2] = ["security", "securityRequirements"];

/// The members that `card.overrides` may not name, for messages. `is_forbidden_override` also knows their other spellings.
pub fn forbidden_overrides() -> &'static [&'static str] {
    &GOVERNED
}

pub fn is_forbidden_override(name: &str) -> bool {
    is_governed(name)
}

/// Whether readers refuse a card without this member (A2A 0.3 §5.5, 1.0 §4.4.1).
pub fn is_required(name: &str) -> bool {
    REQUIRED.iter().any(|required| same(required, name))
}

pub(super) fn is_governed(name: &str) -> bool {
    GOVERNED.iter().any(|governed| same(governed, name))
}

pub(super) fn is_governed_capability(name: &str) -> bool {
    GOVERNED_CAPABILITIES.iter().any(|governed| same(governed, name))
}

pub(super) fn is_governed_in_skill(name: &str) -> bool {
    GOVERNED_SKILL.iter().any(|governed| same(governed, name))
}

/// Whether some reader may take `name` for the member `canonical`.
pub(super) fn same(canonical: &str, name: &str) -> bool {
    folded(canonical).eq(folded(name))
}

/// The value of a member, in its lowerCamelCase or its protobuf spelling; `null` counts as absent.
pub(super) fn member<'a>(members: &'a Map<String, Value>, name: &'static str) -> Result<Option<&'a Value>, CardError> {
    let mut found = None;
    for (key, value) in members {
        if !same(name, key) {
            continue;
        }
        if found.is_some() || !(key == name || is_protobuf_spelling(name, key)) {
            return Err(CardError::Ambiguous { member: name });
        }
        found = Some(value);
    }
    Ok(found.filter(|value| !value.is_null()))
}

/// A member that is text and not empty.
pub(super) fn text<'a>(members: &'a Map<String, Value>, name: &'static str) -> Result<Option<&'a str>, CardError> {
    Ok(member(members, name)?
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty()))
}

pub(super) fn is_protobuf_spelling(camel: &str, name: &str) -> bool {
    let snake = camel.chars().flat_map(|c| {
        c.is_ascii_uppercase()
            .then_some('_')
            .into_iter()
            .chain(std::iter::once(c.to_ascii_lowercase()))
    });
    snake.eq(name.chars())
}

fn folded(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().filter(|c| *c != '_').map(|c| match c {
        // The long s and the Kelvin sign: the two letters beyond ASCII that fold to ASCII ones.
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    })
}
