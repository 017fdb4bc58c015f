//! The list of agents: a path of its own, and agents that are in it.

use std::time::Duration;

use super::super::join;
use super::super::model::{AgentRoute, Catalogue, Listed};
use super::super::raw::{Raw, RawAgent, RawListed};
use super::limits::Rules;
use super::{Check, DAY, agents};
use crate::a2a::Generation;
use crate::a2a::http_json::{TargetError, read_target};

const PATH: &str = "catalogue.path";
/// A page is put together in memory.
const MOST_ON_A_PAGE: u32 = 1000;

/// The outer `None`: it cannot be built; the inner one: it is off.
pub fn catalogue(check: &mut Check<'_>, raw: &Raw, routes: &[Option<AgentRoute>]) -> Option<Option<Catalogue>> {
    let Some(own) = &raw.catalogue else {
        return Some(None);
    };
    let path = path(check, &own.path, raw, routes);
    let max_page_size = check.count("catalogue.max_page_size", own.max_page_size, 1, MOST_ON_A_PAGE);
    let page_size = check.count("catalogue.page_size", own.page_size, 1, MOST_ON_A_PAGE);
    if page_size > max_page_size && !check.was_given_up("catalogue.max_page_size") {
        check.problem(
            "catalogue.page_size",
            format!("is more than catalogue.max_page_size, which is {max_page_size}"),
        );
    }
    let max_age = check.time("catalogue.max_age", own.max_age, Duration::ZERO, DAY * 30);
    let mut rules = Rules::default();
    rules.add(check, "rate_limits", &raw.rate_limits);
    Some(Some(Catalogue {
        path: path?,
        page_size,
        max_page_size,
        max_age,
        rate: (own.rate.count, own.rate.period),
        rate_limits: rules.finish(),
    }))
}

fn path(check: &mut Check<'_>, text: &str, raw: &Raw, routes: &[Option<AgentRoute>]) -> Option<String> {
    let path = agents::own_path(check, PATH, text, raw, routes)?;
    if raw.envelope.as_ref().is_some_and(|envelope| envelope.path == path) {
        check.problem(PATH, "is envelope.path, where messages come; choose another path");
        return None;
    }
    // Before the calls of these nothing stands that would tell them apart.
    let is_rooted = |route: &Option<AgentRoute>| match route {
        Some(AgentRoute::Host(_)) => true,
        Some(AgentRoute::Path(base)) => base.is_empty(),
        Some(AgentRoute::Envelope) | None => false,
    };
    let is_call = match read_target("GET", &path, &Generation::SPOKEN) {
        Ok(_) | Err(TargetError::Method { .. }) => true,
        Err(TargetError::Unknown | TargetError::Malformed) => false,
    };
    if is_call && routes.iter().any(is_rooted) {
        check.problem(
            PATH,
            "is a path of A2A at the agents that have a `host` or `path: /`; choose another path",
        );
        return None;
    }
    Some(path)
}

/// Who sees that there is an agent.
pub fn listed(check: &mut Check<'_>, key: &str, one: &RawAgent, raw: &Raw) -> Listed {
    let listed = match one.listed {
        None | Some(RawListed::Public) => Listed::Public,
        Some(RawListed::Callers) => Listed::Callers,
        Some(RawListed::Never) => Listed::Never,
    };
    if listed != Listed::Public
        && raw.catalogue.is_none()
        && raw.front_door.is_none()
        && !check.was_given_up_whole("catalogue")
    {
        check.problem(
            &join(key, "listed"),
            "belongs to the sections `catalogue` and `front_door`, of which none is there",
        );
    }
    listed
}
