//! Whether a card has what its generation demands, each member of its type (A2A 0.3 §5.5, 1.0 §4.4).
//!
//! Looked at is what would be published: with the configured edits, and without what the gateway writes itself. Before that, what
//! a generation lets a card leave out is written down, because readers of other generations refuse a card without it: 0.1 has
//! fewer members that must be there, and ProtoJSON, in which 1.0 is printed, leaves out what is empty.

use std::fmt;

use serde_json::{Map, Value};

use super::names::{is_protobuf_spelling, same};
use super::{Edits, OriginCard};
use crate::a2a::Generation;

/// More are counted, not listed: the first ones tell what kind of card it is.
const MOST_LISTED: usize = 8;

/// What is wrong with a card, in the order of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    pub listed: Vec<Flaw>,
    pub left_out: usize,
}

/// Names members of the protocol only, never text of the card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    Missing { member: String },
    Not { member: String, wanted: &'static str },
}

impl Flaws {
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    fn add(&mut self, flaw: Flaw) {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(flaw);
        } else {
            self.left_out += 1;
        }
    }

    fn not(&mut self, member: &str, wanted: &'static str) {
        self.add(Flaw::Not {
            member: member.to_owned(),
            wanted,
        });
    }
}

impl fmt::Display for Flaws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, flaw) in self.listed.iter().enumerate() {
            let between = if index == 0 { "" } else { ", " };
            match flaw {
                Flaw::Missing { member } => write!(f, "{between}`{member}` is missing")?,
                Flaw::Not { member, wanted } => write!(f, "{between}`{member}` is not {wanted}")?,
            }
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

#[derive(Clone, Copy)]
enum Type {
    Text,
    Texts,
    Bool,
    Object(&'static Members),
    /// Of objects.
    List(&'static Members),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

type Members = [(&'static str, Type, Presence)];

use Presence::{Optional, Required};

const CARD: &Members = &[
    ("name", Type::Text, Required),
    ("description", Type::Text, Required),
    ("version", Type::Text, Required),
    // The gateway writes it where it is not there.
    ("capabilities", Type::Object(CAPABILITIES), Optional),
    ("defaultInputModes", Type::Texts, Required),
    ("defaultOutputModes", Type::Texts, Required),
    ("skills", Type::List(SKILL), Required),
    ("provider", Type::Object(PROVIDER), Optional),
];
const SKILL: &Members = &[
    ("id", Type::Text, Required),
    ("name", Type::Text, Required),
    ("description", Type::Text, Required),
    ("tags", Type::Texts, Required),
    ("examples", Type::Texts, Optional),
    ("inputModes", Type::Texts, Optional),
    ("outputModes", Type::Texts, Optional),
];
const CAPABILITIES: &Members = &[("extensions", Type::List(EXTENSION), Optional)];
const EXTENSION: &Members = &[
    ("uri", Type::Text, Required),
    ("description", Type::Text, Optional),
    ("required", Type::Bool, Optional),
    ("params", Type::Object(&[]), Optional),
];
/// One whose `url` is no link is not published.
const PROVIDER: &Members = &[("organization", Type::Text, Required)];

/// What readers would refuse in a card that is written in this generation, as it would be published.
pub fn flaws(origin: &OriginCard, edits: &Edits, written: Generation) -> Flaws {
    let mut card = origin.members.clone();
    edits.apply(&mut card, &|_| true);
    complete(&mut card, written);
    let mut flaws = Flaws::default();
    look(&card, CARD, "", &mut flaws);
    flaws
}

fn look(members: &Map<String, Value>, expected: &'static Members, place: &str, flaws: &mut Flaws) {
    for &(name, wanted, presence) in expected {
        let whole = || format!("{place}{name}");
        match member(members, name) {
            Some(value) => check(value, wanted, &whole(), flaws),
            None if presence == Required => flaws.add(Flaw::Missing { member: whole() }),
            None => {}
        }
    }
}

fn check(value: &Value, wanted: Type, member: &str, flaws: &mut Flaws) {
    let expected = match wanted {
        Type::Text if value.is_string() => return,
        Type::Bool if value.is_boolean() => return,
        Type::Texts if value.as_array().is_some_and(|list| list.iter().all(Value::is_string)) => return,
        Type::Text => return flaws.not(member, "a text"),
        Type::Bool => return flaws.not(member, "true or false"),
        Type::Texts => return flaws.not(member, "a list of texts"),
        Type::List(expected) => return each(value, expected, member, flaws),
        Type::Object(expected) => expected,
    };
    match value.as_object() {
        Some(members) => look(members, expected, &format!("{member}."), flaws),
        None => flaws.not(member, "an object"),
    }
}

fn each(value: &Value, expected: &'static Members, member: &str, flaws: &mut Flaws) {
    let Some(list) = value.as_array() else {
        return flaws.not(member, "a list");
    };
    for (index, value) in list.iter().enumerate() {
        check(value, Type::Object(expected), &format!("{member}[{index}]"), flaws);
    }
}

/// Writes down what the generation lets a card leave out. Without a name, or with a skill that nobody can name, it is no card in any.
pub(super) fn complete(card: &mut Map<String, Value>, written: Generation) {
    let text = || Value::from("");
    let list = || Value::Array(Vec::new());
    let modes = match written {
        // The default of 0.1, by its media type.
        Generation::V0_1 => Value::from(vec!["text/plain"]),
        Generation::V0_3 => return,
        Generation::V1_0 => {
            put(card, "version", text());
            put(card, "skills", list());
            list()
        }
    };
    put(card, "description", text());
    put(card, "defaultInputModes", modes.clone());
    put(card, "defaultOutputModes", modes);
    let skills = card.get_mut("skills").and_then(Value::as_array_mut);
    for skill in skills.into_iter().flatten().filter_map(Value::as_object_mut) {
        put(skill, "description", text());
        put(skill, "tags", list());
    }
}

/// Unless it is there, in any spelling.
fn put(members: &mut Map<String, Value>, name: &str, value: Value) {
    let mut there = members.iter().filter(|(known, _)| same(name, known));
    if there.all(|(_, value)| value.is_null()) {
        members.insert(name.to_owned(), value);
    }
}

/// In the spelling of JSON, else in that of protobuf; `null` counts as absent.
fn member<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let other = || members.iter().find(|(known, _)| is_protobuf_spelling(name, known));
    let found = members.get(name).or_else(|| other().map(|(_, value)| value));
    found.filter(|value| !value.is_null())
}
