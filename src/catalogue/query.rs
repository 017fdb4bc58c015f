//! What a caller asks the list for: which agents, and which page.
//!
//! Parameters are read as forms write them, but that a `+` in a media type stays one. Unknown ones are ignored: a credential may be among
//! them.

use super::Entry;
use crate::http::query::{decode, pairs};

/// Which agents. Empty texts ask for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The id of a skill.
    pub skill: Option<String>,
    /// A tag of a skill.
    pub tag: Option<String>,
    /// A media type, in lower case, that the agent takes or gives.
    pub mode: Option<String>,
    /// Text in lower case, in the name or description of the agent, or the name or a tag of a skill.
    pub text: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub filter: Filter,
    pub page_size: Option<usize>,
    pub page_token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Twice,
    NoText,
    PageSize,
    Mode,
}

impl Error {
    /// For callers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Twice => "a parameter is given twice",
            Self::NoText => "a parameter is no UTF-8",
            Self::PageSize => "page_size must be a number from 1",
            Self::Mode => "mode must be a media type, as in text/plain",
        }
    }
}

impl Query {
    pub fn read(query: &str) -> Result<Self, Error> {
        let mut read = Self::default();
        let mut size = None;
        for (name, value) in pairs(query) {
            let name = decode(name);
            let place = match &*name {
                b"skill" => &mut read.filter.skill,
                b"tag" => &mut read.filter.tag,
                b"mode" => &mut read.filter.mode,
                b"q" => &mut read.filter.text,
                b"page_size" => &mut size,
                b"page_token" => &mut read.page_token,
                _ => continue,
            };
            let value = match &*name {
                b"mode" => value.to_owned(),
                _ => value.replace('+', " "),
            };
            let value = String::from_utf8(decode(&value).into_owned()).map_err(|_| Error::NoText)?;
            if place.replace(value).is_some() {
                return Err(Error::Twice);
            }
        }
        let Filter { skill, tag, mode, text } = &mut read.filter;
        for text in [skill, tag, &mut *mode, &mut *text, &mut size, &mut read.page_token] {
            *text = text.take().filter(|text| !text.is_empty());
        }
        *text = text.take().map(|text| text.to_lowercase());
        *mode = mode.take().map(|mode| essence(&mode));
        if mode.as_deref().is_some_and(|mode| !is_media_type(mode)) {
            return Err(Error::Mode);
        }
        read.page_size = size
            .map(|size| size.parse().ok().filter(|size| *size > 0).ok_or(Error::PageSize))
            .transpose()?;
        Ok(read)
    }
}

impl Filter {
    /// Whether an agent is asked for, of which those skills are seen that `shows` admits.
    pub fn admits(&self, entry: &Entry, shows: impl Fn(&str) -> bool) -> bool {
        // Who sees a skill is asked last: it may take an evaluation of rules.
        let skill = |is_it: &dyn Fn(&super::SkillSummary, &str) -> bool| {
            let mut skills = entry.skills();
            skills.any(|(skill, text)| is_it(skill, text) && shows(&skill.id))
        };
        let is_of = |modes: &[String], mode: &str| modes.iter().any(|known| essence(known) == mode);
        let summary = &entry.summary;
        self.skill.as_ref().is_none_or(|id| skill(&|known, _| known.id == *id))
            && (self.tag.as_ref()).is_none_or(|tag| skill(&|known, _| known.tags.contains(tag)))
            && self.mode.as_ref().is_none_or(|mode| {
                is_of(&summary.input_modes, mode)
                    || is_of(&summary.output_modes, mode)
                    || skill(&|known, _| is_of(&known.input_modes, mode) || is_of(&known.output_modes, mode))
            })
            && (self.text.as_ref())
                .is_none_or(|wanted| entry.text.contains(wanted) || skill(&|_, text| text.contains(wanted)))
    }

    /// What tells this question from every other one.
    pub fn purpose(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for part in [&self.skill, &self.tag, &self.mode, &self.text] {
            crate::seal::put(&mut out, part.as_deref().unwrap_or_default().as_bytes());
        }
        out
    }
}

/// A media type without its parameters, in lower case (RFC 9110 §8.3.1).
fn essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}
