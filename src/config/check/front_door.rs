//! The front door: a route of its own, agents that exist, rules that can be evaluated.

use std::time::Duration;

use super::super::model::{AgentRoute, FrontDoor, FrontRule};
use super::super::raw::{Raw, RawFrontDoor};
use super::super::{join, place};
use super::limits::Rules;
use super::{Check, DAY, agents, envelope, url};
use crate::a2a::card::is_forbidden_override;
use crate::expression::{Scope, Type};

/// What its card says of the agents behind it.
const GATHERED: [&str; 4] = ["capabilities", "defaultInputModes", "defaultOutputModes", "skills"];

/// The outer `None`: it cannot be built; the inner one: it is off.
pub fn front_door(check: &mut Check<'_>, raw: &Raw, routes: &[Option<AgentRoute>]) -> Option<Option<FrontDoor>> {
    let Some(own) = &raw.front_door else {
        return Some(None);
    };
    let route = route(check, raw, own, routes);
    let all = raw.agents.items().filter(|(_, agent)| !envelope::is_spoken_by(agent));
    let all: Vec<&String> = all.filter_map(|(_, agent)| agent.name.as_ref()).collect();
    // Agents in files of their own come and go: one that is not there is one that is not in service.
    let may_come = |name: &str| {
        let mut named = raw.agents.items().filter_map(|(_, agent)| agent.name.as_deref());
        raw.agents_directory.is_some() && !named.any(|known| known == name)
    };
    let mut agents: Vec<String> = Vec::new();
    for (index, name) in own.agents.items() {
        let key = place("front_door.agents", index);
        if agents.contains(name) {
            check.problem(&key, format!("`{name}` is named twice"));
        } else if may_come(name) || known(check, &key, name, &all) {
            agents.push(name.clone());
        }
    }
    if own.agents.is_empty() {
        agents = all.into_iter().cloned().collect();
        if agents.is_empty() && raw.agents_directory.is_none() {
            check.problem("front_door", "no agent of A2A stands behind it");
        }
    }
    for name in own.card.keys() {
        if is_forbidden_override(name) || GATHERED.contains(&name.as_str()) {
            check.problem(
                &join("front_door.card", name),
                "cannot be said here: the gateway writes it from what the agents say, serve and demand",
            );
        }
    }
    let max_age = check.time("front_door.max_age", own.max_age, Duration::ZERO, DAY * 30);
    let metadata_key = check.text("front_door.metadata_key", own.metadata_key.as_ref());
    let behind: Vec<&String> = agents.iter().collect();
    let may_come = |name: &str| own.agents.is_empty() && may_come(name);
    let mut rules = Vec::new();
    for (index, rule) in own.rules.items() {
        let key = place("front_door.rules", index);
        let when = rule
            .when
            .as_ref()
            .and_then(|source| check.expression(&join(&key, "when"), source, &Scope::front_door(), &Type::Bool));
        let agent = rule.agent.as_ref();
        let agent = agent.filter(|name| may_come(name) || known(check, &join(&key, "agent"), name, &behind));
        rules.extend(when.zip(agent.cloned()).map(|(when, agent)| FrontRule { when, agent }));
    }
    let default = own.default.as_ref();
    let default = default.filter(|name| may_come(name) || known(check, "front_door.default", name, &behind));
    let mut limits = Rules::default();
    limits.add(check, "rate_limits", &raw.rate_limits);
    limits.add(check, "front_door.limits", &own.limits);
    for (index, limit) in own.limits.items() {
        let of_tasks = [
            ("open_tasks", limit.open_tasks.is_some()),
            ("task_creations", limit.task_creations.is_some()),
        ];
        for (name, _) in of_tasks.into_iter().filter(|(_, is_set)| *is_set) {
            check.problem(
                &join(&place("front_door.limits", index), name),
                "tasks are of the agents behind it; set it in their `agents[].limits`, or in `rate_limits`",
            );
        }
    }
    Some(Some(FrontDoor {
        route: route?,
        default: default.cloned(),
        agents,
        card: own.card.clone(),
        max_age,
        metadata_key,
        rules,
        rate_limits: limits.finish(),
    }))
}

fn known(check: &mut Check<'_>, key: &str, name: &str, agents: &[&String]) -> bool {
    let is_known = agents.iter().any(|known| *known == name);
    if !is_known {
        check.problem(key, format!("no agent behind the front door is called `{name}`"));
    }
    is_known
}

fn route(check: &mut Check<'_>, raw: &Raw, own: &RawFrontDoor, routes: &[Option<AgentRoute>]) -> Option<AgentRoute> {
    let (key, route) = match (&own.path, &own.host) {
        (Some(_), Some(_)) => {
            check.problem("front_door", "has both `path` and `host`; keep one of them");
            return None;
        }
        (None, Some(text)) => {
            let key = "front_door.host";
            let Some(host) = url::host(text) else {
                check.problem(key, "is not a host name; write it without scheme, port or `*`");
                return None;
            };
            let public = raw.public_url.as_deref().map(url::Url::parse);
            if let Some(Ok(public)) = public
                && public.host == host
                && routes.iter().any(|route| matches!(route, Some(AgentRoute::Path(_))))
            {
                check.problem(
                    key,
                    "is the host of public_url, so that agents with a `path` could not be reached; give it a `path`",
                );
                return None;
            }
            (key, AgentRoute::Host(host))
        }
        (path, None) => {
            let key = "front_door.path";
            let path = path.as_deref().unwrap_or("/");
            let faults = agents::route_faults(path);
            let good = faults.is_empty();
            check.problems(key, faults);
            if !good {
                return None;
            }
            (key, AgentRoute::Path(path.trim_end_matches('/').to_owned()))
        }
    };
    let taken = routes.iter().position(|other| other.as_ref() == Some(&route));
    if let Some(index) = taken {
        let what = if own.host.is_some() { "host" } else { "path" };
        let taken = join(&place("agents", index), what);
        // The default of a path is nobody's word.
        let key = if own.path.is_none() && own.host.is_none() {
            "front_door"
        } else {
            key
        };
        check.problem(
            key,
            format!("has the place of {taken}; choose another `path` or `host`"),
        );
        return None;
    }
    Some(route)
}
