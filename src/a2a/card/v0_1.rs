//! Cards of 0.1 (A2A 0.1, `AgentCard`): the published card as callers of 0.1 read it.
//!
//! It is made of the card that everybody gets, so that it cannot say anything else: its texts, modes and skills as far as 0.1 knows
//! them, one URL, and the names of what callers may show.

use serde_json::{Map, Value};

use super::scheme::SchemeFormKind;
use super::{Publication, PublishedCard};
use crate::a2a::security::Security;

/// Members that pass as they are.
const MEMBERS: [&str; 7] = [
    "name",
    "description",
    "provider",
    "version",
    "documentationUrl",
    "defaultInputModes",
    "defaultOutputModes",
];
const SKILL: [&str; 7] = [
    "id",
    "name",
    "description",
    "tags",
    "examples",
    "inputModes",
    "outputModes",
];
/// `stateTransitionHistory` is left out: a history goes through other forms on its way.
const CAPABILITIES: [&str; 2] = ["streaming", "pushNotifications"];

/// `None` where 0.1 has no words for what callers must show: it would have to promise them too much or too little.
pub fn publish_v0_1(published: &PublishedCard, input: &Publication) -> Option<PublishedCard> {
    let whole = published.value.as_object()?;
    let mut card = chosen(whole, &MEMBERS);
    card.insert("url".to_owned(), Value::from(input.public_url.as_str()));
    let none = Map::new();
    let object = |name: &str| whole.get(name).and_then(Value::as_object).unwrap_or(&none);
    let capabilities = chosen(object("capabilities"), &CAPABILITIES);
    card.insert("capabilities".to_owned(), Value::Object(capabilities));
    if let Some(schemes) = schemes(&input.enforced, input)? {
        let authentication = Map::from_iter([("schemes".to_owned(), schemes.into())]);
        card.insert("authentication".to_owned(), Value::Object(authentication));
    }
    let skills = whole.get("skills").and_then(Value::as_array).into_iter().flatten();
    let skills = skills.filter_map(Value::as_object);
    let skills: Vec<Value> = skills.map(|skill| Value::Object(chosen(skill, &SKILL))).collect();
    card.insert("skills".to_owned(), Value::Array(skills));
    let value = Value::Object(card);
    Some(PublishedCard {
        bytes: value.to_string().into(),
        value,
    })
}

fn chosen(members: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let known = members.iter().filter(|(name, _)| names.contains(&name.as_str()));
    known.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The names of the schemes, any of which will do; `Some(None)`: nothing needs to be shown. An alternative of several schemes
/// cannot be said, and one that cannot be met by name alone (a client certificate) has no name; the others are enough.
fn schemes<'p>(enforced: &Security, input: &'p Publication) -> Option<Option<Vec<&'p str>>> {
    if enforced.is_open() {
        return Some(None);
    }
    let mut names = Vec::new();
    for alternative in &enforced.alternatives {
        let [only] = alternative.as_slice() else { continue };
        let name = match input.schemes.get(&only.scheme).map(|scheme| &scheme.kind) {
            Some(
                SchemeFormKind::HttpBearer { .. }
                | SchemeFormKind::OAuth2 { .. }
                | SchemeFormKind::OpenIdConnect { .. },
            ) => "Bearer",
            Some(SchemeFormKind::HttpBasic) => "Basic",
            Some(SchemeFormKind::HttpOther { scheme }) => scheme,
            Some(SchemeFormKind::ApiKey { .. }) => "ApiKey",
            Some(SchemeFormKind::MutualTls) | None => continue,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then_some(Some(names))
}
