//! What is signed of a card: its canonical form (A2A 1.0 §8.4.1, 0.3 §4.4.7), as each kind of reader finds it in the document.
//!
//! Nobody signs the bytes that are sent. A reader takes the members that it knows, leaves out `signatures` and what counts as
//! absent, and writes the rest in one way; so one document has several canonical forms, and a signature over one holds for
//! the readers of that one alone:
//!
//! | Reader | Takes | Leaves out | Writes |
//! |---|---|---|---|
//! | A2A 1.0 to the letter | the members of `a2a.proto` | members at their default that are neither required nor `optional`; required ones stand there even if the card has them not | RFC 8785 |
//! | Python and JavaScript SDK 1.x | the members of `a2a.proto` | the same, and every empty text, list and object, as deep as it stands | RFC 8785 |
//! | the resolver of the Python SDK 1.x | the same of what it makes of the members of 0.3: where a scheme has a `type` it reads that form, where there are no `supportedInterfaces` it makes them of `url` | as above | as above |
//! | Python SDK 0.3 | the members of the JSON Schema of 0.3 | what is at the default of its class (`preferredTransport: JSONRPC`, `protocolVersion: 0.3.0`, the `type` of a scheme), and every empty text, list and object | `json.dumps` with sorted keys: beyond ASCII escaped, `1.0` stays `1.0` |
//! | A2A 0.3 to the letter, and whoever has no schema | all members | nothing | RFC 8785 |
//!
//! The JavaScript SDK 0.3 has no code for it. That of 1.x checks what it is given: the document, or the message that it made of it
//! once that is turned into JSON again. In a document for both generations each reader finds its own members and none of the other's.
//!
//! Where the canonical forms of 1.0 differ, that of the SDKs is the weaker one: what it leaves out can be taken away or put there
//! without breaking the signature, a security requirement without scopes among it.

mod schema;
mod text;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use self::schema::{Kind, Presence, Schema};
pub(super) use self::text::Style;
use super::names::is_protobuf_spelling;
use super::{CardError, OriginCard, read, skills};
use crate::a2a::Generation;

/// How somebody reads a card to check its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All of it.
    Whole,
    /// Of the members of a generation, what its standard keeps (1.0).
    Standard(Generation),
    /// Of the members of a generation, what the official SDKs keep.
    Sdk(Generation),
}

/// The payloads of signatures that hold for the readers of these generations; each once.
pub fn payloads(card: &Map<String, Value>, forms: &[Generation]) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |payload: String| {
        if !found.contains(&payload) {
            found.push(payload);
        }
    };
    if forms.contains(&Generation::V1_0) {
        add(standard(card));
        add(sdk_1_0(card));
    }
    if forms.contains(&Generation::V0_3) {
        add(sdk_1_0(&resolved(card)));
        add(sdk_0_3(card, Style::Python));
        add(whole(card));
    }
    found
}

/// What a signature of this card may be over, the strongest first.
pub fn readings(card: &OriginCard) -> Vec<(Reading, String)> {
    // Whoever signed it signed all its skills.
    let members = &match card.duplicate_skills.as_slice() {
        [] => Cow::Borrowed(&card.members),
        twins => Cow::Owned(skills::with_twins(&card.members, twins)),
    };
    let mut found = vec![(Reading::Whole, whole(members))];
    if members.keys().any(|name| is(name, "supportedInterfaces")) {
        found.push((Reading::Standard(Generation::V1_0), standard(members)));
        found.push((Reading::Sdk(Generation::V1_0), sdk_1_0(members)));
    }
    if members.keys().any(|name| is(name, "url")) {
        let generation = Generation::V0_3;
        found.push((Reading::Sdk(generation), sdk_0_3(members, Style::Jcs)));
        found.push((Reading::Sdk(generation), sdk_0_3(members, Style::Python)));
    }
    found
}

/// The card as far as it is signed: nothing of it is left that none of these readings looks at.
pub fn covered(card: &OriginCard, held: &[Reading]) -> Result<OriginCard, CardError> {
    if held.contains(&Reading::Whole) {
        return Ok(card.clone());
    }
    let mut members = Map::new();
    for (generation, schema) in [(Generation::V1_0, &schema::V1_0), (Generation::V0_3, &schema::V0_3)] {
        if held.iter().any(|reading| reading.generation() == Some(generation)) {
            merge(&mut members, seen(schema, &card.members));
        }
    }
    Ok(OriginCard {
        signed: held.to_vec(),
        ..read::of(members)?
    })
}

impl Reading {
    fn generation(self) -> Option<Generation> {
        match self {
            Self::Whole => None,
            Self::Standard(generation) | Self::Sdk(generation) => Some(generation),
        }
    }
}

pub(super) fn whole(card: &Map<String, Value>) -> String {
    let mut members = card.clone();
    members.shift_remove("signatures");
    Style::Jcs.write(&members)
}

pub(super) fn standard(card: &Map<String, Value>) -> String {
    Style::Jcs.write(&kept(&schema::V1_0, &seen(&schema::V1_0, card), true))
}

pub(super) fn sdk_1_0(card: &Map<String, Value>) -> String {
    let kept = kept(&schema::V1_0, &seen(&schema::V1_0, card), false);
    Style::Jcs.write(&without_empty(kept))
}

pub(super) fn sdk_0_3(card: &Map<String, Value>, style: Style) -> String {
    let kept = kept(&schema::V0_3, &seen(&schema::V0_3, card), false);
    style.write(&without_empty(kept))
}

/// The members that a schema knows, by their names in it; `null` is none.
fn seen(schema: &Schema, members: &Map<String, Value>) -> Map<String, Value> {
    let mut found = Map::new();
    for (name, value) in members {
        let known = schema.0.iter().find(|member| is(name, member.name));
        let Some(known) = known.filter(|known| known.name == name || !members.contains_key(known.name)) else {
            continue;
        };
        if !value.is_null() {
            found.insert(known.name.to_owned(), seen_value(known.kind, value));
        }
    }
    found
}

fn seen_value(kind: Kind, value: &Value) -> Value {
    let object = |schema: &Schema, value: &Value| match value.as_object() {
        Some(members) => Value::Object(seen(schema, members)),
        None => value.clone(),
    };
    match (kind, value) {
        (Kind::Object(schema), value) => object(schema, value),
        (Kind::List(schema), Value::Array(list)) => list.iter().map(|value| object(schema, value)).collect(),
        (Kind::Map(schema), Value::Object(members)) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), object(schema, value)));
            Value::Object(members.collect())
        }
        (Kind::Schemes, Value::Object(members)) => {
            let members = members.iter().map(|(name, scheme)| {
                let known = scheme.get("type").and_then(Value::as_str).and_then(schema::scheme_0_3);
                (name.clone(), known.map_or(json!({}), |known| object(known, scheme)))
            });
            Value::Object(members.collect())
        }
        (
            Kind::Text
            | Kind::Flag
            | Kind::Texts
            | Kind::TextsMap
            | Kind::Free
            | Kind::List(_)
            | Kind::Map(_)
            | Kind::Schemes,
            value,
        ) => value.clone(),
    }
}

/// Without what counts as absent; `required`: with what must not be.
fn kept(schema: &Schema, members: &Map<String, Value>, required: bool) -> Map<String, Value> {
    let mut found = Map::new();
    for member in schema.0 {
        let value = members.get(member.name);
        let value = match (member.presence, value) {
            (Presence::Never, _) | (_, None) if member.presence != Presence::Required => continue,
            (Presence::Implicit, Some(value)) if member.kind.default().as_ref() == Some(value) => continue,
            (Presence::Default(default), Some(value)) if value == default => continue,
            (_, Some(value)) => kept_value(member.kind, value, required),
            (_, None) => match member.kind.default().filter(|_| required) {
                Some(default) => default,
                None => continue,
            },
        };
        found.insert(member.name.to_owned(), value);
    }
    found
}

fn kept_value(kind: Kind, value: &Value, required: bool) -> Value {
    let object = |schema: &Schema, value: &Value| match value.as_object() {
        Some(members) => Value::Object(kept(schema, members, required)),
        None => value.clone(),
    };
    match (kind, value) {
        (Kind::Object(schema), value) => object(schema, value),
        (Kind::List(schema), Value::Array(list)) => list.iter().map(|value| object(schema, value)).collect(),
        (Kind::Map(schema), Value::Object(members)) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), object(schema, value)));
            Value::Object(members.collect())
        }
        (Kind::Schemes, Value::Object(members)) => {
            let without_type = |scheme: &Value| {
                let mut scheme = scheme.clone();
                if let Some(members) = scheme.as_object_mut() {
                    members.shift_remove("type");
                }
                scheme
            };
            let members = members
                .iter()
                .map(|(name, scheme)| (name.clone(), without_type(scheme)));
            Value::Object(members.collect())
        }
        (
            Kind::Text
            | Kind::Flag
            | Kind::Texts
            | Kind::TextsMap
            | Kind::Free
            | Kind::List(_)
            | Kind::Map(_)
            | Kind::Schemes,
            value,
        ) => value.clone(),
    }
}

fn without_empty(members: Map<String, Value>) -> Map<String, Value> {
    let members = members.into_iter();
    members
        .filter_map(|(name, value)| Some((name, filled(value)?)))
        .collect()
}

fn filled(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then_some(Value::String(text)),
        Value::Array(list) => {
            let list: Vec<_> = list.into_iter().filter_map(filled).collect();
            (!list.is_empty()).then_some(Value::Array(list))
        }
        Value::Object(members) => {
            let members = without_empty(members);
            (!members.is_empty()).then_some(Value::Object(members))
        }
        other @ (Value::Bool(_) | Value::Number(_)) => Some(other),
    }
}

/// The card of 1.0 that the resolver of the Python SDK 1.x makes of one with members of 0.3.
pub(super) fn resolved(card: &Map<String, Value>) -> Map<String, Value> {
    let mut card = card.clone();
    let mut take = |name: &str| card.shift_remove(name);
    let extended = take("supportsAuthenticatedExtendedCard") == Some(Value::Bool(true));
    let (url, transport) = (take("url"), take("preferredTransport"));
    let (version, additional) = (take("protocolVersion"), take("additionalInterfaces"));
    let security = take("security");
    if extended && let Some(capabilities) = card.get_mut("capabilities").and_then(Value::as_object_mut) {
        capabilities.entry("extendedAgentCard").or_insert(Value::Bool(true));
    }
    if let Some(url) = url.filter(|_| !card.contains_key("supportedInterfaces")) {
        let version = version.unwrap_or_else(|| json!("0.3.0"));
        let entry = |url: Option<&Value>, transport: Option<&Value>| json!({ "url": url, "protocolBinding": transport, "protocolVersion": version });
        let mut interfaces = vec![entry(Some(&url), Some(&transport.unwrap_or_else(|| json!("JSONRPC"))))];
        let additional = additional.as_ref().and_then(Value::as_array).into_iter().flatten();
        interfaces.extend(additional.map(|one| entry(one.get("url"), one.get("transport"))));
        card.insert("supportedInterfaces".to_owned(), Value::Array(interfaces));
    }
    resolve_requirement(&mut card, security);
    let skills = card.get_mut("skills").and_then(Value::as_array_mut);
    for skill in skills.into_iter().flatten().filter_map(Value::as_object_mut) {
        let security = skill.shift_remove("security");
        resolve_requirement(skill, security);
    }
    let schemes = card.get_mut("securitySchemes").and_then(Value::as_object_mut);
    for scheme in schemes
        .into_iter()
        .flatten()
        .filter_map(|(_, scheme)| scheme.as_object_mut())
    {
        let Some(kind) = scheme.shift_remove("type") else {
            continue;
        };
        let wrapper = match kind.as_str() {
            Some("apiKey") => "apiKeySecurityScheme",
            Some("http") => "httpAuthSecurityScheme",
            Some("oauth2") => "oauth2SecurityScheme",
            Some("openIdConnect") => "openIdConnectSecurityScheme",
            Some("mutualTLS") => "mtlsSecurityScheme",
            Some(_) | None => continue,
        };
        if let Some(place) = scheme.shift_remove("in") {
            scheme.insert("location".to_owned(), place);
        }
        let members = std::mem::take(scheme);
        scheme.insert(wrapper.to_owned(), Value::Object(members));
    }
    card
}

fn resolve_requirement(members: &mut Map<String, Value>, security: Option<Value>) {
    let Some(Value::Array(alternatives)) = security else {
        return;
    };
    if members.contains_key("securityRequirements") {
        return;
    }
    let alternative = |schemes: &Value| {
        let schemes = schemes.as_object().into_iter().flatten();
        let schemes: Map<_, _> = schemes
            .map(|(name, scopes)| (name.clone(), json!({ "list": scopes })))
            .collect();
        json!({ "schemes": schemes })
    };
    let alternatives = alternatives.iter().map(alternative).collect();
    members.insert("securityRequirements".to_owned(), alternatives);
}

/// `name` is the member, in one of the two spellings that ProtoJSON and the SDKs read.
fn is(name: &str, member: &str) -> bool {
    name == member || is_protobuf_spelling(member, name)
}

/// Both come of one document.
fn merge(into: &mut Map<String, Value>, other: Map<String, Value>) {
    for (name, value) in other {
        match into.get_mut(&name) {
            Some(known) => merge_value(known, value),
            None => {
                into.insert(name, value);
            }
        }
    }
}

fn merge_value(known: &mut Value, other: Value) {
    match (known, other) {
        (Value::Object(known), Value::Object(other)) => merge(known, other),
        (Value::Array(known), Value::Array(other)) => {
            for (known, other) in known.iter_mut().zip(other) {
                merge_value(known, other);
            }
        }
        (_, _) => {}
    }
}
