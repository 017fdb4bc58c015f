//! What operators change in the card of an agent before it is published.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::names::{is_governed, same};
use super::{SkillPattern, skills};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edits {
    /// Top-level members that replace the agent's, or remove it (`null`). Names that `is_forbidden_override` refuses are ignored.
    pub overrides: Map<String, Value>,
    /// Skills that are published nowhere.
    pub hidden_skills: Vec<SkillPattern>,
    /// Members of skills that replace the agent's, by the skills' ids.
    pub skill_texts: BTreeMap<String, Map<String, Value>>,
}

impl Edits {
    /// For a reader to whom skills are shown of which `shown` is true.
    pub(super) fn apply(&self, card: &mut Map<String, Value>, shown: &dyn Fn(&str) -> bool) {
        for (name, value) in self.overrides.iter().filter(|(name, _)| !is_governed(name)) {
            card.retain(|known, _| !same(name, known) || (known == name && !value.is_null()));
            if !value.is_null() {
                card.insert(name.clone(), value.clone());
            }
        }
        skills::publish(card, self, shown);
    }
}
