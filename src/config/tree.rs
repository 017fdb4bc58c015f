//! The file as a tree: every value with the place it came from, scalars as they were written.
//!
//! Scalars stay text here, because only the schema knows what is wanted: the version `1.0` must not become the number 1,
//! and a port that comes from the environment must become one. Anchors, aliases and merge keys are resolved by the
//! parser, within its budget against alias bombs; duplicate keys are refused by it. Syntax errors are the only ones that
//! hide others: what follows them cannot be read.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Spanned, options::DuplicateKeyPolicy};

use super::Problem;

/// Most nodes of a file, aliases resolved. A thousand agents with every key given stay far below.
const MAX_EVENTS: usize = 200_000;
/// Most aliases of a file.
const MAX_ALIASES: usize = 10_000;
/// Deepest nesting; our own keys need 7, card overrides some more.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub origin: Origin,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Null,
    /// Unquoted, and a number or boolean by YAML's rules: what was written, and what it is to YAML.
    Literal(String, serde_json::Value),
    Text(String),
    /// Text that an environment variable had a part in; may stand for a number or a boolean.
    Given(String),
    List(Vec<Node>),
    /// In the order of the file.
    Map(Vec<Entry>),
    /// Already reported; stands in the place of a value.
    Broken,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub line: Option<u32>,
    pub value: Node,
}

#[derive(Clone, Debug)]
pub enum Origin {
    Line(Option<u32>),
    /// The name of an environment variable.
    Variable(String),
}

impl Origin {
    pub fn line(&self) -> Option<u32> {
        match self {
            Self::Line(line) => *line,
            Self::Variable(_) => None,
        }
    }
}

impl Kind {
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Null | Self::Broken => "nothing",
            Self::Literal(_, serde_json::Value::Bool(_)) => "a boolean",
            Self::Literal(..) => "a number",
            Self::Text(_) | Self::Given(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

pub fn parse(text: &str) -> Result<Node, Problem> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: MAX_EVENTS,
            max_aliases: MAX_ALIASES,
            max_depth: MAX_DEPTH,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_EVENTS,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Parsed>>(text, options) {
        Ok(parsed) => Ok(place(parsed, text)),
        Err(error) => Err(Problem {
            key: "configuration".to_owned(),
            line: error.location().and_then(|location| line(&location)),
            cause: message(&error),
        }),
    }
}

/// The parser's own words for users, without its excerpt of the file, which may show secrets, and without the place,
/// which we give.
fn message(error: &serde_saphyr::Error) -> String {
    if let serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } = error {
        return format!("the key `{key}` is given twice");
    }
    if let serde_saphyr::Error::RecursiveReferencesRequireWeakTypes { .. } = error {
        return "an alias stands inside the value that it refers to".to_owned();
    }
    let text = error.render_with_options(serde_saphyr::render_options! {
        formatter: &serde_saphyr::UserMessageFormatter,
        snippets: serde_saphyr::SnippetMode::Off,
    });
    match text.split_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

fn line(location: &serde_saphyr::Location) -> Option<u32> {
    u32::try_from(location.line()).ok().filter(|line| *line > 0)
}

enum Parsed {
    Null,
    Literal(serde_json::Value),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

fn place(parsed: Spanned<Parsed>, text: &str) -> Node {
    let kind = match parsed.value {
        Parsed::Null => Kind::Null,
        Parsed::Text(text) => Kind::Text(text),
        Parsed::Literal(value) => {
            let written = written(&parsed.defined, text);
            Kind::Literal(written.unwrap_or_else(|| value.to_string()), value)
        }
        Parsed::List(items) => Kind::List(items.into_iter().map(|item| place(item, text)).collect()),
        Parsed::Map(entries) => Kind::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    line: line(&key.referenced),
                    key: key.value,
                    value: place(value, text),
                })
                .collect(),
        ),
    };
    Node {
        kind,
        origin: Origin::Line(line(&parsed.referenced)),
    }
}

/// The scalar as it stands in the file.
fn written(location: &serde_saphyr::Location, text: &str) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    let slice = text.get(start..start.checked_add(length)?)?.trim();
    (!slice.is_empty()).then(|| slice.to_owned())
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedVisitor)
    }
}

struct ParsedVisitor;

impl<'de> Visitor<'de> for ParsedVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Null)
    }

    fn visit_none<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Parsed, E> {
        Ok(Parsed::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Parsed, E> {
        Ok(Parsed::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Parsed, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Parsed::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Parsed::Map(entries))
    }
}
