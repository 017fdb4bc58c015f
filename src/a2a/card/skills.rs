//! Which skills are published, and in whose words.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Edits;
use super::names::same;

const SKILLS: &str = "skills";

/// The id of a skill, in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillPattern(String);

impl SkillPattern {
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes time in proportion to both lengths together.
    pub fn matches(&self, id: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else {
            return self.0 == id;
        };
        let Some(mut left) = id.strip_prefix(first) else {
            return false;
        };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let last = parts.pop().unwrap_or_default();
        // The first place of each is the best one: it leaves most for the others.
        for part in parts {
            let Some((_, after)) = left.split_once(part) else {
                return false;
            };
            left = after;
        }
        left.ends_with(last)
    }
}

/// Leaves in a card the skills that are published to whoever may see those that `shown` says, in the configured words. A skill
/// without an id can be named by nobody, and is shown where nothing is hidden.
pub(super) fn publish(card: &mut Map<String, Value>, edits: &Edits, shown: &dyn Fn(&str) -> bool) {
    // What readers that ignore case take for them.
    card.retain(|name, _| name == SKILLS || !same(SKILLS, name));
    let Some(skills) = card.get_mut(SKILLS).and_then(Value::as_array_mut) else {
        return;
    };
    skills.retain(|skill| {
        let Some(skill) = skill.as_object() else { return true };
        ids(skill).all(|id| shown(id) && !edits.hidden_skills.iter().any(|pattern| pattern.matches(id)))
    });
    for skill in skills.iter_mut().filter_map(Value::as_object_mut) {
        let texts = id(skill).and_then(|id| edits.skill_texts.get(id));
        for (name, value) in texts.into_iter().flatten() {
            skill.retain(|known, _| known == name || !same(name, known));
            skill.insert(name.clone(), value.clone());
        }
    }
}

/// Takes skills out whose id another one before them has, and tells where they stood: two readers could take two for it.
pub(super) fn drop_twins(card: &mut Map<String, Value>) -> Vec<(usize, Value)> {
    let (mut known, mut twins) = (BTreeSet::new(), Vec::new());
    if let Some(skills) = card.get_mut(SKILLS).and_then(Value::as_array_mut) {
        let mut at = 0;
        skills.retain_mut(|skill| {
            at += 1;
            let is_first = match skill.as_object().and_then(id) {
                Some(id) => known.insert(id.to_owned()),
                None => true,
            };
            if !is_first {
                twins.push((at - 1, skill.take()));
            }
            is_first
        });
    }
    twins
}

/// Puts them back.
pub(super) fn with_twins(card: &Map<String, Value>, twins: &[(usize, Value)]) -> Map<String, Value> {
    let mut card = card.clone();
    if let Some(skills) = card.get_mut(SKILLS).and_then(Value::as_array_mut) {
        let (mut others, mut twins) = (std::mem::take(skills).into_iter(), twins.iter().peekable());
        loop {
            let twin = twins
                .next_if(|(at, _)| *at == skills.len())
                .map(|(_, twin)| twin.clone());
            match twin.or_else(|| others.next()) {
                Some(skill) => skills.push(skill),
                None => break,
            }
        }
    }
    card
}

pub(super) fn id(skill: &Map<String, Value>) -> Option<&str> {
    skill.get("id").and_then(Value::as_str)
}

/// Every text that some reader takes for the id.
fn ids(skill: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let members = skill.iter().filter(|(name, _)| same("id", name));
    members.filter_map(|(_, value)| value.as_str())
}
