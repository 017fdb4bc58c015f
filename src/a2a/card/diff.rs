//! What is different between two cards of one agent, and whether it matters.
//!
//! What matters is where the agent says that it is, what it demands and which skills it has: by that callers and agents trust it
//! with things. Texts, capabilities and the rest do not. Signatures are not compared: they may be made anew each time.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::names::{is_governed, member};
use super::{CardError, OriginCard, SchemeForm, covered, requirement, skills};
use crate::a2a::Generation;
use crate::a2a::security::Security;

/// More than this of one card nobody reads.
const MOST: usize = 32;
/// Characters of one value.
const LONGEST: usize = 200;

/// One member in both cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// E.g. `supportedInterfaces[JSONRPC 1.0]` or `skills[plan].description`; bounded like the values.
    pub member: String,
    /// As JSON, cut to a length that people read, without characters that would change how it shows; `None`: absent.
    pub before: Option<String>,
    pub after: Option<String>,
    pub matters: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.as_deref().map_or("absent", |value| value).to_owned();
        write!(f, "{}: {} -> {}", self.member, shown(&self.before), shown(&self.after))
    }
}

/// Those that matter come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// At most 32.
    pub listed: Vec<Difference>,
    /// How many more there are.
    pub left_out: usize,
}

impl Differences {
    pub fn matter(&self) -> bool {
        self.listed.first().is_some_and(|difference| difference.matters)
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

impl fmt::Display for Differences {
    /// One a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.listed {
            let remark = if difference.matters { "" } else { " (does not matter)" };
            writeln!(f, "{difference}{remark}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}

/// What of an agent's own card is not as in an approved one: of a card that is signed for some readers, what those look at.
pub fn unapproved(approved: &OriginCard, own: &OriginCard) -> Differences {
    let part = (!own.signed.is_empty()).then(|| covered(approved, &own.signed));
    match part {
        Some(Ok(part)) => differences(&part, own),
        // What of it cannot be read is different.
        Some(Err(_)) | None => differences(approved, own),
    }
}

pub fn differences(before: &OriginCard, after: &OriginCard) -> Differences {
    let mut found = Found::default();
    found.compare(&interfaces(before), &interfaces(after));
    found.compare(&demands(before), &demands(after));
    schemes(&mut found, before, after);
    found.matters = true;
    found.skills(before, after);
    found.matters = false;
    found.compare(&others(before), &others(after));
    let Found { mut listed, .. } = found;
    listed.sort_by_key(|difference| !difference.matters);
    let left_out = listed.len().saturating_sub(MOST);
    listed.truncate(MOST);
    Differences { listed, left_out }
}

struct Found {
    listed: Vec<Difference>,
    matters: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            listed: Vec::new(),
            matters: true,
        }
    }
}

impl Found {
    fn compare<V: PartialEq + Shown>(&mut self, before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) {
        for (name, value) in before {
            let other = after.get(name);
            if other != Some(value) {
                self.add(name, Some(value), other);
            }
        }
        for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
            self.add(name, None, Some(value));
        }
    }

    fn add<V: Shown>(&mut self, name: &str, before: Option<&V>, after: Option<&V>) {
        self.listed.push(Difference {
            member: cut(name),
            before: before.map(|value| cut(&value.text())),
            after: after.map(|value| cut(&value.text())),
            matters: self.matters,
        });
    }

    /// One that is added or removed as a whole, of others their members.
    fn skills(&mut self, before: &OriginCard, after: &OriginCard) {
        let (before, after) = (skills_of(before), skills_of(after));
        for (name, skill) in &before {
            match (skill.as_object(), after.get(name)) {
                (_, None) => self.add(name, Some(*skill), None),
                (Some(old), Some(new)) if new.is_object() => {
                    let named = |skill: &Map<String, Value>| -> BTreeMap<String, Value> {
                        let members = skill.iter();
                        members
                            .map(|(member, value)| (format!("{name}.{member}"), value.clone()))
                            .collect()
                    };
                    if let Some(new) = new.as_object().filter(|new| *new != old) {
                        self.compare(&named(old), &named(new));
                    }
                }
                (_, Some(new)) if new == skill => {}
                (_, Some(new)) => self.add(name, Some(*skill), Some(*new)),
            }
        }
        for (name, skill) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
            self.add(name, None, Some(*skill));
        }
    }
}

trait Shown {
    fn text(&self) -> String;
}

impl Shown for Value {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Shown for String {
    fn text(&self) -> String {
        self.clone()
    }
}

/// All that the card says of where its agent is, of whatever binding and version.
fn interfaces(card: &OriginCard) -> BTreeMap<String, String> {
    let members = &card.members;
    let mut found = BTreeMap::new();
    let text = |entry: &Map<String, Value>, name| match member(entry, name) {
        Ok(None) => None,
        Ok(Some(Value::String(text))) => Some(plain(text)),
        Ok(Some(value)) => Some(format!("({value})")),
        Err(_) => Some("(ambiguous)".to_owned()),
    };
    let mut counts = BTreeMap::<String, usize>::new();
    let mut add = |place: String, url: Option<String>, tenant: Option<String>| {
        let mut value = Value::from(url).to_string();
        if let Some(tenant) = tenant.filter(|tenant| !tenant.is_empty()) {
            value = format!("{value} tenant {}", Value::from(tenant));
        }
        // One binding may have several.
        let count = counts.entry(place.clone()).or_default();
        *count += 1;
        let name = match count {
            1 => format!("{place}]"),
            count => format!("{place} #{count}]"),
        };
        found.insert(name, value);
    };
    for entry in objects(members, "supportedInterfaces") {
        let binding = text(entry, "protocolBinding").unwrap_or_default();
        let version = text(entry, "protocolVersion").unwrap_or_default();
        let place = format!("supportedInterfaces[{binding} {version}");
        add(place, text(entry, "url"), text(entry, "tenant"));
    }
    if let Some(url) = text(members, "url") {
        let binding = text(members, "preferredTransport").unwrap_or_default();
        let version = text(members, "protocolVersion").unwrap_or_default();
        add(format!("url[{binding} {version}"), Some(url), None);
    }
    for entry in objects(members, "additionalInterfaces") {
        let binding = text(entry, "transport").unwrap_or_default();
        add(format!("additionalInterfaces[{binding}"), text(entry, "url"), None);
    }
    found
}

/// As it is, unless it could be taken for something else that stands in the same place.
fn plain(text: &str) -> String {
    match text.starts_with(['"', '(', '#']) || text.contains([' ', ']']) {
        true => Value::from(text).to_string(),
        false => text.to_owned(),
    }
}

fn objects<'a>(
    members: &'a Map<String, Value>,
    name: &'static str,
) -> impl Iterator<Item = &'a Map<String, Value>> + use<'a> {
    let list = member(members, name).ok().flatten().and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

fn demands(card: &OriginCard) -> BTreeMap<String, String> {
    let said = |security: &Result<Security, CardError>| match security {
        // In whatever order and form.
        Ok(security) => requirement::write(&requirement::in_order(security), Generation::V0_3).to_string(),
        Err(error) => error.to_string(),
    };
    BTreeMap::from([("security".to_owned(), said(&card.security))])
}

fn schemes(found: &mut Found, before: &OriginCard, after: &OriginCard) {
    let kind = |scheme: Option<&Option<SchemeForm>>| scheme.and_then(Option::as_ref).map(|form| form.kind.clone());
    let written = |card: &OriginCard, name: &str| {
        let schemes = member(&card.members, "securitySchemes").ok().flatten();
        schemes.and_then(|schemes| schemes.get(name)).cloned()
    };
    let names = before.schemes.keys().chain(after.schemes.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    for name in names {
        let kinds = (kind(before.schemes.get(name)), kind(after.schemes.get(name)));
        let (old, new) = (written(before, name), written(after, name));
        let same = match kinds {
            (Some(before), Some(after)) => before == after,
            (None, None) => old == new,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            found.add(&format!("securitySchemes[{name}]"), old.as_ref(), new.as_ref());
        }
    }
}

/// In the one spelling that is published.
fn skills_of(card: &OriginCard) -> BTreeMap<String, &Value> {
    let list = card.members.get("skills").and_then(Value::as_array);
    let list = list.into_iter().flatten().enumerate();
    list.map(|(at, skill)| match skill.as_object().and_then(skills::id) {
        Some(id) => (format!("skills[{}]", plain(id)), skill),
        None => (format!("skills[#{}]", at + 1), skill),
    })
    .collect()
}

fn others(card: &OriginCard) -> BTreeMap<String, Value> {
    let members = card.members.iter();
    let others = members.filter(|(name, _)| !is_governed(name) && *name != "skills");
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A card is text of strangers: nothing of it may act on who reads a log or a terminal.
fn cut(text: &str) -> String {
    // Also what nobody sees: two texts would look alike.
    let acts = |c: &char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    let mut chars = text.chars().map(|c| if acts(&c) { '\u{fffd}' } else { c });
    let mut short: String = chars.by_ref().take(LONGEST).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}
