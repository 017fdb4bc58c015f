//! One card for several agents: the card of an agent in front of them, as if it had been fetched.
//!
//! Made of what is published of each, so that nothing of their own cards comes in that the gateway would not say of them. Skills are
//! those of all, their ids with the name of their agent before them; what an agent demands more than the one in front stands with its
//! skills. Modes are those of all; a capability is one that every agent has.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{OriginCard, Publication, SchemeForm, publish, requirement};
use crate::a2a::Generation;
use crate::a2a::card::Capabilities;
use crate::a2a::security::{SchemeName, Security};

/// Names the agent that a call is for, as a key of a message's `metadata`, or else of the call's: a name, or the id of a skill of the card.
pub const CHOICE: &str = "urn:a2a-gateway:extension:agent:v1";

/// One of the agents.
pub struct Part<'a> {
    pub name: &'a str,
    /// Whoever reads the card is told that there is this agent.
    pub named: bool,
    pub origin: &'a OriginCard,
    pub publication: &'a Publication,
}

/// What the agent in front demands: whatever any of them takes.
pub fn any_of<'a>(all: impl IntoIterator<Item = &'a Security>) -> Security {
    let mut alternatives = Vec::new();
    for security in all {
        if security.alternatives.is_empty() && !alternatives.contains(&Vec::new()) {
            alternatives.push(Vec::new());
        }
        for alternative in &security.alternatives {
            if !alternatives.contains(alternative) {
                alternatives.push(alternative.clone());
            }
        }
    }
    // Nothing is asked for anywhere.
    if alternatives.iter().all(Vec::is_empty) {
        alternatives.clear();
    }
    Security { alternatives }
}

/// `sees` tells whether a skill of an agent, by its own id, is shown; `members` are those of the card that nobody else says.
pub fn gather(
    parts: &[Part<'_>],
    enforced: &Security,
    members: &Map<String, Value>,
    sees: impl Fn(&str, &str) -> bool,
) -> OriginCard {
    let (mut input, mut output, mut skills) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let one = Publication {
            served: vec![Generation::V1_0],
            ..part.publication.clone()
        };
        let Value::Object(card) = publish(part.origin, &one).value else {
            continue;
        };
        let modes = |name: &str| card.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let own = (modes("defaultInputModes"), modes("defaultOutputModes"));
        for (all, own) in [(&mut input, &own.0), (&mut output, &own.1)] {
            for mode in own {
                if !all.contains(mode) {
                    all.push(mode.clone());
                }
            }
        }
        let listed = card.get("skills").and_then(Value::as_array).into_iter().flatten();
        // Behind a circle of front doors each would show the others' skills, again and again.
        let is_front = declares(&card);
        for skill in listed.filter_map(Value::as_object) {
            let id = skill.get("id").and_then(Value::as_str).unwrap_or_default();
            let is_own = is_front && id.rsplit('/').skip(1).any(|passed| passed == part.name);
            if !is_own && part.named && sees(part.name, id) {
                skills.push(Value::Object(self::skill(part, skill, id, &own, enforced)));
            }
        }
    }
    let all = |claims: fn(&Capabilities) -> bool, served: fn(&Publication) -> bool| {
        let holds = |part: &Part<'_>| claims(&part.origin.capabilities) && served(part.publication);
        !parts.is_empty() && parts.iter().all(holds)
    };
    let capabilities = Capabilities {
        streaming: all(|claims| claims.streaming, |publication| publication.streaming),
        push: all(|claims| claims.push, |publication| publication.push),
        extended: true,
    };
    let names: Vec<&str> = parts.iter().filter(|part| part.named).map(|part| part.name).collect();
    let extension = json!({
        "uri": CHOICE,
        "description": "Names the agent that a call is for: a key of metadata whose value is a name or the id of a skill",
        "required": false,
        "params": { "agents": names },
    });
    let mut card = Map::new();
    for (name, value) in [
        ("name", json!("a2a-gateway")),
        ("description", json!("The agents behind this gateway")),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
    ] {
        card.insert(name.to_owned(), value);
    }
    card.extend(members.clone());
    for (name, value) in [
        (
            "capabilities",
            json!({
                "streaming": capabilities.streaming,
                "pushNotifications": capabilities.push,
                "extendedAgentCard": capabilities.extended,
                "extensions": [extension],
            }),
        ),
        ("defaultInputModes", input.into()),
        ("defaultOutputModes", output.into()),
        ("skills", skills.into()),
    ] {
        card.insert(name.to_owned(), value);
    }
    OriginCard {
        members: card,
        interfaces: Vec::new(),
        capabilities,
        security: Ok(enforced.clone()),
        schemes: BTreeMap::new(),
        duplicate_skills: Vec::new(),
        signed: Vec::new(),
        until: None,
        document: None,
    }
}

/// The schemes of all: one name is one scheme of the configuration.
pub fn schemes(parts: &[Part<'_>]) -> BTreeMap<SchemeName, SchemeForm> {
    let all = parts.iter().flat_map(|part| &part.publication.schemes);
    all.map(|(name, form)| (name.clone(), form.clone())).collect()
}

/// It is the card of a front door.
fn declares(card: &Map<String, Value>) -> bool {
    let extensions = card.get("capabilities").and_then(|all| all.get("extensions"));
    let extensions = extensions.and_then(Value::as_array).into_iter().flatten();
    extensions.filter_map(|one| one.get("uri")).any(|uri| uri == CHOICE)
}

fn skill(
    part: &Part<'_>,
    skill: &Map<String, Value>,
    id: &str,
    (input, output): &(Vec<Value>, Vec<Value>),
    enforced: &Security,
) -> Map<String, Value> {
    let mut skill = skill.clone();
    let own = requirement::read(&skill).ok().flatten();
    skill.insert("id".to_owned(), format!("{}/{id}", part.name).into());
    for (name, modes) in [("inputModes", input), ("outputModes", output)] {
        let says = skill
            .get(name)
            .and_then(Value::as_array)
            .is_some_and(|modes| !modes.is_empty());
        if !says {
            skill.insert(name.to_owned(), modes.clone().into());
        }
    }
    let demanded = both(&part.publication.enforced, &own.unwrap_or_default());
    if demanded != *enforced && !demanded.alternatives.is_empty() {
        let written = requirement::write(&demanded, Generation::V1_0);
        skill.insert("securityRequirements".to_owned(), written);
    }
    skill
}

/// What meets the one and the other.
fn both(one: &Security, other: &Security) -> Security {
    if one.alternatives.is_empty() {
        return other.clone();
    }
    if other.alternatives.is_empty() {
        return one.clone();
    }
    let mut alternatives = Vec::new();
    for first in &one.alternatives {
        for second in &other.alternatives {
            let mut all = first.clone();
            all.extend(second.iter().filter(|wanted| !first.contains(wanted)).cloned());
            if !alternatives.contains(&all) {
                alternatives.push(all);
            }
        }
    }
    Security { alternatives }
}
