//! What a published card tells of its agent in few words, for lists of agents.
//!
//! Only members that are known by name, and of those only text and flags: whatever else a card has is for its readers. A member in
//! two spellings says nothing.

use serde_json::{Map, Value};

use super::names::member;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub name: String,
    pub description: String,
    pub version: Option<String>,
    pub documentation_url: Option<String>,
    pub icon_url: Option<String>,
    pub provider: Option<Provider>,
    pub streaming: bool,
    pub push: bool,
    pub extended: bool,
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    /// Those with an id.
    pub skills: Vec<SkillSummary>,
    /// The names of the schemes of which something must be shown.
    pub schemes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provider {
    pub organization: Option<String>,
    pub url: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillSummary {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    /// Empty: those of the agent.
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
}

impl Summary {
    pub fn of(card: &Map<String, Value>) -> Self {
        let capabilities = object(card, "capabilities");
        let claims = |name| {
            let claim = capabilities.and_then(|capabilities| find(capabilities, name));
            claim.and_then(Value::as_bool).unwrap_or_default()
        };
        let of_0_3 = find(card, "supportsAuthenticatedExtendedCard").and_then(Value::as_bool);
        let skills = find(card, "skills").and_then(Value::as_array);
        let skills = skills.into_iter().flatten().filter_map(Value::as_object);
        Self {
            name: text(card, "name").unwrap_or_default(),
            description: text(card, "description").unwrap_or_default(),
            version: text(card, "version"),
            documentation_url: text(card, "documentationUrl"),
            icon_url: text(card, "iconUrl"),
            provider: object(card, "provider").map(|provider| Provider {
                organization: text(provider, "organization"),
                url: text(provider, "url"),
            }),
            streaming: claims("streaming"),
            push: claims("pushNotifications"),
            extended: claims("extendedAgentCard") || of_0_3.unwrap_or_default(),
            input_modes: texts(card, "defaultInputModes"),
            output_modes: texts(card, "defaultOutputModes"),
            skills: skills.filter_map(SkillSummary::of).collect(),
            schemes: (object(card, "securitySchemes").into_iter())
                .flat_map(|schemes| schemes.keys().cloned())
                .collect(),
        }
    }
}

impl SkillSummary {
    fn of(skill: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            id: text(skill, "id")?,
            name: text(skill, "name").unwrap_or_default(),
            description: text(skill, "description").unwrap_or_default(),
            tags: texts(skill, "tags"),
            input_modes: texts(skill, "inputModes"),
            output_modes: texts(skill, "outputModes"),
        })
    }
}

fn find<'a>(members: &'a Map<String, Value>, name: &'static str) -> Option<&'a Value> {
    member(members, name).ok().flatten()
}

fn object<'a>(members: &'a Map<String, Value>, name: &'static str) -> Option<&'a Map<String, Value>> {
    find(members, name).and_then(Value::as_object)
}

fn text(members: &Map<String, Value>, name: &'static str) -> Option<String> {
    find(members, name).and_then(Value::as_str).map(str::to_owned)
}

fn texts(members: &Map<String, Value>, name: &'static str) -> Vec<String> {
    let list = find(members, name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
