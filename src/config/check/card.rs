//! Cards that operators write or approve, and what they change in those of agents.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::model::{Card, CardFile, OnChange};
use super::super::raw::{RawCard, RawCardSkill, RawOnChange};
use super::super::{join, place};
use super::Check;
use crate::a2a::Generation;
use crate::a2a::card::{SkillPattern, is_required};

/// Members that readers of cards cannot do without are not removed.
pub fn removals(check: &mut Check<'_>, key: &str, raw: &RawCard) {
    let removed = raw.overrides.iter().filter(|(_, value)| value.is_null());
    for (name, _) in removed.filter(|(name, _)| is_required(name)) {
        check.problem(
            &join(&join(key, "overrides"), name),
            "cannot be removed: readers refuse a card without it",
        );
    }
}

/// `None`: it is named and cannot be used.
pub fn file(check: &mut Check<'_>, key: &str, raw: &RawCard, most: usize) -> Option<Option<CardFile>> {
    let own = join(key, "file");
    if raw.file.is_some() && raw.url.is_some() {
        check.problem(key, "has both `file` and `url`; keep one of them");
        return None;
    }
    read(check, &own, raw.file.as_ref(), most)
}

/// The same; what is compared is fetched.
pub fn approved(check: &mut Check<'_>, key: &str, raw: &RawCard, most: usize) -> Option<Option<CardFile>> {
    let without_effect = "has no effect beside `file`: nothing is fetched that could change";
    if raw.file.is_some() && raw.approved.is_some() {
        check.problem(&join(key, "approved"), without_effect);
        return None;
    }
    if raw.file.is_some() && !matches!(raw.on_change, RawOnChange::Publish) {
        check.problem(&join(key, "on_change"), without_effect);
        return None;
    }
    read(check, &join(key, "approved"), raw.approved.as_ref(), most)
}

fn read(check: &mut Check<'_>, key: &str, named: Option<&String>, most: usize) -> Option<Option<CardFile>> {
    let Some(named) = named else {
        return Some(None);
    };
    match CardFile::read(check.path(key, named)?, most) {
        Ok(file) => Some(Some(file)),
        Err(cause) => {
            check.problem(key, cause);
            None
        }
    }
}

/// Files with cards that readers would refuse.
pub fn faults(check: &mut Check<'_>, key: &str, card: &Card, generation: Option<Generation>) {
    for (name, file) in [("file", &card.file), ("approved", &card.approved)] {
        if let Some(fault) = file.as_ref().and_then(|file| file.fault(&card.edits, generation)) {
            check.problem(&join(key, name), fault);
        }
    }
}

pub fn on_change(raw: &RawCard) -> OnChange {
    match raw.on_change {
        RawOnChange::Publish => OnChange::Publish,
        RawOnChange::Hold => OnChange::Hold,
        RawOnChange::Alert => OnChange::Alert,
    }
}

pub fn hidden(check: &mut Check<'_>, key: &str, raw: &RawCard) -> Vec<SkillPattern> {
    let mut patterns = Vec::new();
    for (index, text) in raw.hide_skills.items() {
        if text.is_empty() {
            check.problem(
                &place(key, index),
                "is empty; write a skill's id, or a part of it and `*`",
            );
        }
        patterns.push(SkillPattern::new(text));
    }
    patterns
}

pub fn skills(check: &mut Check<'_>, key: &str, raw: &RawCard) -> BTreeMap<String, Map<String, Value>> {
    let mut skills = BTreeMap::new();
    for (id, skill) in raw.skills.items() {
        let Some(skill) = skill else { continue };
        let members = members(skill);
        if members.is_empty() {
            check.problem(
                &join(key, id),
                "changes nothing; give `name`, `description`, `tags` or `examples`",
            );
        }
        skills.insert(id.clone(), members);
    }
    skills
}

fn members(skill: &RawCardSkill) -> Map<String, Value> {
    let text = |name: &str, text: &Option<String>| Some((name.to_owned(), Value::from(text.as_deref()?)));
    let lists = [("tags", &skill.tags), ("examples", &skill.examples)];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let lists = lists.map(|(name, list)| (name.to_owned(), list.items().map(|(_, text)| text.as_str()).collect()));
    [text("name", &skill.name), text("description", &skill.description)]
        .into_iter()
        .flatten()
        .chain(lists)
        .collect()
}
