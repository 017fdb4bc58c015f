//! Lists of agents for callers: one entry an agent, made when its card changes, and the documents that are put together from entries.
//!
//! An entry is made of the published card alone, so that nothing of the agent's own servers can stand in it. Texts of cards go out as JSON
//! text. Knows nothing of callers: which agents and skills somebody may see is decided by whoever asks. No sockets, no clock.

pub mod ai;
pub mod api;
pub mod query;
pub mod table;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::a2a::Generation;
use crate::a2a::card::{Publication, PublishedCard, SkillSummary, Summary};
use crate::route::CARD_PATHS;

/// One agent as lists tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub summary: Summary,
    /// Where it is called.
    pub url: String,
    pub card_url: String,
    generations: Vec<&'static str>,
    bindings: Vec<&'static str>,
    /// A caller that shows nothing is refused.
    needs_credential: bool,
    /// What is searched by text: in lower case, name and description.
    text: String,
    skills: Vec<Skill>,
}

/// What is searched of a skill, in lower case: name and tags.
#[derive(Clone, Debug, PartialEq)]
struct Skill {
    text: String,
}

impl Entry {
    /// `card` is what `publication` made of the agent's own.
    pub fn of(card: &PublishedCard, publication: &Publication) -> Self {
        let nothing = Map::new();
        let summary = Summary::of(card.value.as_object().unwrap_or(&nothing));
        let of_0_1 = publication.v0_1.then_some(Generation::V0_1);
        let served = publication.served.iter().copied();
        let served = served.filter(|generation| *generation != Generation::V0_1);
        let url = publication.public_url.clone();
        let [card_path, ..] = CARD_PATHS;
        Self {
            card_url: format!("{}{card_path}", url.trim_end_matches('/')),
            url,
            generations: of_0_1.into_iter().chain(served).map(Generation::as_str).collect(),
            bindings: publication.bindings.iter().map(|binding| binding.as_str()).collect(),
            needs_credential: !publication.enforced.is_open(),
            text: format!("{}\n{}", summary.name, summary.description).to_lowercase(),
            skills: (summary.skills.iter())
                .map(|skill| Skill {
                    text: format!("{}\n{}", skill.name, skill.tags.join("\n")).to_lowercase(),
                })
                .collect(),
            summary,
        }
    }

    /// As it stands in the list, with those skills that `shows` admits.
    pub fn json(&self, shows: impl Fn(&str) -> bool) -> Value {
        let summary = &self.summary;
        let mut shown = Map::new();
        let mut say = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        say("name", json!(summary.name));
        say("description", json!(summary.description));
        say("url", json!(self.url));
        say("cardUrl", json!(self.card_url));
        for (name, text) in [
            ("version", &summary.version),
            ("documentationUrl", &summary.documentation_url),
            ("iconUrl", &summary.icon_url),
        ] {
            if let Some(text) = text {
                say(name, json!(text));
            }
        }
        if let Some(provider) = &summary.provider {
            let mut told = Map::new();
            for (name, text) in [("organization", &provider.organization), ("url", &provider.url)] {
                if let Some(text) = text {
                    told.insert(name.to_owned(), json!(text));
                }
            }
            say("provider", Value::Object(told));
        }
        say("protocolVersions", json!(self.generations));
        say("protocolBindings", json!(self.bindings));
        let capabilities = json!({
            "streaming": summary.streaming,
            "pushNotifications": summary.push,
            "extendedAgentCard": summary.extended,
        });
        say("capabilities", capabilities);
        say("defaultInputModes", json!(summary.input_modes));
        say("defaultOutputModes", json!(summary.output_modes));
        let skills = summary.skills.iter().filter(|skill| shows(&skill.id));
        say("skills", skills.map(of_skill).collect());
        say("credentialRequired", json!(self.needs_credential));
        say("securitySchemes", json!(summary.schemes));
        Value::Object(shown)
    }

    /// The skills with what is searched of them.
    fn skills(&self) -> impl Iterator<Item = (&SkillSummary, &str)> {
        let texts = self.skills.iter().map(|skill| skill.text.as_str());
        self.summary.skills.iter().zip(texts)
    }
}

fn of_skill(skill: &SkillSummary) -> Value {
    let mut shown = json!({
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": skill.tags,
    });
    for (name, modes) in [("inputModes", &skill.input_modes), ("outputModes", &skill.output_modes)] {
        if let (Some(shown), false) = (shown.as_object_mut(), modes.is_empty()) {
            shown.insert(name.to_owned(), json!(modes));
        }
    }
    shown
}

/// An agent in the documents for everybody.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// Its name in the configuration, which is its own as long as it is there.
    pub agent: &'a str,
    pub entry: &'a Entry,
    /// Where its metadata of a protected resource is, if it has any.
    pub metadata_url: Option<&'a str>,
}
