//! Agents: routes that do not overlap, cards that the gateway may change.

use super::super::model::{Agent, AgentRoute, Card, CardForm, CardKeys, CardVerify, Policy, TaskOwner};
use super::super::raw::{Raw, RawAgent, RawCard, RawCardForm, RawCardVerify};
use super::super::redact::shown_url;
use super::super::units::Size;
use super::super::{join, place};
use super::limits::{MOST_BODY, Rules};
use super::names::{self, Unique};
use super::{
    Check, DAY, MILLISECOND, card, catalogue, credential, envelope, policy, push, security, tokens, upstream, url,
};
use crate::a2a::card::{Edits, is_forbidden_override};
use crate::a2a::security::Security;
use crate::a2a::{Binding, Generation, v0_1};

#[derive(Default)]
struct Taken {
    names: Unique,
    paths: Unique,
    hosts: Unique,
    agent_ids: Unique,
    /// In the order of the agents.
    routes: Vec<Option<AgentRoute>>,
}

/// `routes` gets those of the agents, in their order.
pub fn agents(check: &mut Check<'_>, raw: &Raw, routes: &mut Vec<Option<AgentRoute>>) -> Option<Vec<Agent>> {
    if raw.agents.is_empty() && raw.agents_directory.is_none() {
        check.problem("agents", "needs at least one agent");
    }
    if let Some(requirement) = &raw.security {
        security::security(check, "security", requirement, raw);
    }
    // For its problems: every agent repeats the general rules silently.
    Rules::default().add(check, "rate_limits", &raw.rate_limits);
    let mut taken = Taken::default();
    let mut agents = Vec::new();
    let mut complete = true;
    for (index, one) in raw.agents.items() {
        let (key, before) = (place("agents", index), check.problems.len());
        let checked = agent(check, &key, one, raw, &mut taken);
        match check.spare(index, &key, before).or(checked) {
            Some(agent) => agents.push(agent),
            None => complete = false,
        }
    }
    hosts_hide_nothing(check, raw);
    push::paths_do_not_meet(check, raw, &taken.routes);
    *routes = taken.routes;
    complete.then_some(agents)
}

impl Check<'_> {
    /// What stands in for an agent of which something is wrong that was found after so many problems.
    fn spare(&mut self, index: usize, key: &str, before: usize) -> Option<Agent> {
        let spare = self.spares.get(index)?;
        let (own, others): (Vec<_>, Vec<_>) = (self.problems.split_off(before).into_iter())
            .partition(|problem| problem.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')));
        self.problems.extend(others);
        let is_bad = !own.is_empty();
        self.kept.extend(own);
        is_bad.then(|| spare.clone())
    }
}

/// A host belongs to one agent as a whole, so it must not be the one that agents with paths are published under.
fn hosts_hide_nothing(check: &mut Check<'_>, raw: &Raw) {
    let Some(Ok(public)) = raw.public_url.as_deref().map(url::Url::parse) else {
        return;
    };
    if raw.agents.items().all(|(_, agent)| agent.path.is_none()) {
        return;
    }
    for (index, agent) in raw.agents.items() {
        if agent.host.as_deref().and_then(url::host) == Some(public.host.clone()) {
            check.problem(
                &join(&place("agents", index), "host"),
                "is the host of public_url, so that agents with a `path` could not be reached; give it a `path` too",
            );
        }
    }
}

fn agent(check: &mut Check<'_>, key: &str, one: &RawAgent, raw: &Raw, taken: &mut Taken) -> Option<Agent> {
    let name_key = join(key, "name");
    let name = names::name(check, &name_key, one.name.as_ref());
    if let Some(text) = &one.name {
        taken.names.claim(check, &name_key, text);
    }
    let route = route(check, key, one, taken);
    taken.routes.push(route.clone());
    let upstream = one
        .upstream
        .as_ref()
        .and_then(|raw| upstream::upstream(check, &join(key, "upstream"), raw));
    credential::of_agent(check, key, one, &raw.assertions);
    let card = card(check, &join(key, "card"), &one.card);
    if let (Some(card), Some(upstream)) = (&card, &upstream) {
        card::faults(check, &join(key, "card"), card, upstream.generation);
    }
    let security = match &one.security {
        Some(own) => Some(security::security(check, &join(key, "security"), own, raw)),
        None => raw
            .security
            .as_ref()
            .map(|general| security::security(check, "security", general, raw)),
    };
    let policy = policy::policy(check, &join(key, "policy"), &one.policy, &raw.decision_points);
    let mut rules = Rules::default();
    rules.add(check, "rate_limits", &raw.rate_limits);
    rules.add(check, &join(key, "limits"), &one.limits);
    let body_bytes = match one.body_bytes {
        Some(size) => check.size(&join(key, "body_bytes"), size, Size(1), MOST_BODY),
        None => raw.limits.body_bytes.0,
    };
    let v0_1 = v0_1(check, key, one, security.as_ref(), &policy);
    if let (Some(AgentRoute::Path(path)), Some(upstream)) = (&route, &upstream)
        && upstream.binding == Some(Binding::Grpc)
        && one.translate == Some(false)
        && !path.is_empty()
    {
        check.problem(
            &join(key, "translate"),
            "leaves nobody to serve: nothing can stand before the paths of gRPC; give the agent a `host` or `path: /`",
        );
    }
    if let Some(upstream) = &upstream
        && upstream.generation == Some(Generation::V0_1)
    {
        let generation = join(key, "upstream.protocol.generation");
        if one.translate == Some(false) {
            check.problem(
                &generation,
                "needs `translate`: callers of later versions are served nothing else",
            );
        }
        if upstream.binding.is_some_and(|binding| binding != Binding::JsonRpc) {
            check.problem(&generation, "goes with `jsonrpc` alone: A2A 0.1 has no other binding");
        }
    }
    let envelope = envelope::agent(check, key, one, raw, &mut taken.agent_ids);
    let push_url = push::base(check, &join(key, "push.url"), one.push.url.as_ref());
    Some(Agent {
        name: name?,
        route: route?,
        upstream: upstream?,
        card: card?,
        security,
        rate_limits: rules.finish(),
        policy,
        forward_credentials: one.forward_credentials,
        translate: one.translate.unwrap_or(true),
        v0_1,
        push_url: match push_url {
            Some(url) => Some(url?),
            None => None,
        },
        envelope,
        listed: catalogue::listed(check, key, one, raw),
        body_bytes,
    })
}

/// What the agent's own card demands may still make it a key without effect.
fn v0_1(
    check: &mut Check<'_>,
    key: &str,
    one: &RawAgent,
    security: Option<&Security>,
    policy: &Policy,
) -> Option<v0_1::Methods> {
    let methods = match (one.v0_1, one.lenient_methods) {
        (true, false) => v0_1::Methods::Strict,
        (true, true) => v0_1::Methods::Lenient,
        (false, false) => return None,
        (false, true) => {
            check.problem(
                &join(key, "lenient_methods"),
                "needs `v0_1`: these are methods of A2A 0.1",
            );
            return None;
        }
    };
    let key = &join(key, "v0_1");
    if one.translate == Some(false) {
        check.problem(key, "needs `translate`: callers of A2A 0.1 are served by translation");
    }
    let nobodys = match policy.task_owner {
        Some(TaskOwner::Nobody) => true,
        Some(TaskOwner::Principal | TaskOwner::Claim(_)) => false,
        None => security.is_some_and(Security::is_open),
    };
    if nobodys {
        check.problem(
            key,
            "needs tasks that have owners, because callers of A2A 0.1 name their tasks themselves and would meet under one \
             name; require a credential, and set `policy.task_owner` to `principal` or a claim",
        );
    }
    Some(methods)
}

/// Also of an agent whose route is wrong it is known what another one must not have.
fn route(check: &mut Check<'_>, key: &str, raw: &RawAgent, taken: &mut Taken) -> Option<AgentRoute> {
    let path = raw.path.as_deref().map(|path| {
        let key = join(key, "path");
        let faults = route_faults(path);
        let good = faults.is_empty();
        check.problems(&key, faults);
        let plain = path.trim_end_matches('/');
        taken
            .paths
            .claim(check, &key, if plain.is_empty() { path } else { plain });
        good.then(|| AgentRoute::Path(plain.to_owned()))
    });
    let host = raw.host.as_deref().map(|text| {
        let key = join(key, "host");
        let Some(host) = url::host(text) else {
            check.problem(
                &key,
                format!(
                    "`{}` is not a host name; write it without scheme, port or `*`",
                    shown_url(text)
                ),
            );
            return None;
        };
        taken.hosts.claim(check, &key, &host);
        Some(AgentRoute::Host(host))
    });
    match (path, host) {
        (Some(route), None) | (None, Some(route)) => route,
        (Some(_), Some(_)) => {
            check.problem(key, "has both `path` and `host`; keep one of them");
            None
        }
        (None, None) if envelope::is_spoken_by(raw) => Some(AgentRoute::Envelope),
        (None, None) => {
            check.problem(key, "needs `path` (e.g. `/agents/maps`, or `/`) or `host`");
            None
        }
    }
}

/// A path that is no agent's, for something of the gateway itself.
pub fn own_path(
    check: &mut Check<'_>,
    key: &str,
    path: &str,
    raw: &Raw,
    routes: &[Option<AgentRoute>],
) -> Option<String> {
    let mut faults = route_faults(path);
    if path == "/" {
        faults.push("must not be `/`, which is an agent's");
    }
    if path.contains(':') {
        faults.push("must not contain `:`, by which paths of A2A end");
    }
    let good = faults.is_empty();
    check.problems(key, faults);
    for (index, route) in routes.iter().enumerate() {
        let Some(AgentRoute::Path(base)) = route else {
            continue;
        };
        let below = || {
            path.strip_prefix(base.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        };
        if path == base || (!base.is_empty() && below()) {
            // The front door stands behind the agents.
            let taken = match index < raw.agents.items().count() {
                true => join(&place("agents", index), "path"),
                false => "front_door.path".to_owned(),
            };
            check.problem(key, format!("is at or below {taken}; choose another path"));
            return None;
        }
    }
    good.then(|| path.to_owned())
}

pub fn route_faults(path: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if path == "/" {
        return faults;
    }
    if !path.starts_with('/') {
        faults.push("must begin with `/`");
    }
    faults.extend(url::path_faults(path));
    if path.ends_with('/') {
        faults.push("must not end with `/`");
    }
    if path.contains('%') {
        // Encoded spellings of a path are compared with nothing: two texts would mean one route.
        faults.push("must not contain percent-encoded characters");
    }
    if path
        .split('/')
        .any(|segment| segment.eq_ignore_ascii_case(".well-known"))
    {
        faults.push("must not contain `.well-known`, under which cards are published");
    }
    faults
}

fn card(check: &mut Check<'_>, key: &str, raw: &RawCard) -> Option<Card> {
    let sound = raw
        .url
        .as_deref()
        .is_none_or(|text| check.plain_url(&join(key, "url"), text).is_some());
    for name in raw.overrides.keys() {
        if is_forbidden_override(name) {
            check.problem(
                &join(&join(key, "overrides"), name),
                "cannot be overridden: the gateway writes it from what it serves and enforces",
            );
        }
    }
    card::removals(check, key, raw);
    let verify_key = join(key, "verify");
    let verify = raw.verify.as_ref().map(|raw| card_verify(check, &verify_key, raw));
    let refresh = check.time(&join(key, "refresh"), raw.refresh, MILLISECOND * 100, DAY);
    let max_bytes = check.size(&join(key, "max_bytes"), raw.max_bytes, Size::kib(1), Size::mib(16));
    let max_age = check.time(&join(key, "max_age"), raw.max_age, std::time::Duration::ZERO, DAY * 30);
    let edits = Edits {
        overrides: raw.overrides.clone(),
        hidden_skills: card::hidden(check, &join(key, "hide_skills"), raw),
        skill_texts: card::skills(check, &join(key, "skills"), raw),
    };
    let (file, approved) = (
        card::file(check, key, raw, max_bytes),
        card::approved(check, key, raw, max_bytes),
    );
    let (Some(file), Some(approved)) = (file, approved) else {
        return None;
    };
    let verify = match verify {
        Some(verify) => Some(verify?),
        None => None,
    };
    sound.then(|| Card {
        url: raw.url.clone(),
        file,
        approved,
        on_change: card::on_change(raw),
        refresh,
        max_bytes,
        max_age,
        edits,
        form: match raw.form {
            RawCardForm::Hybrid => CardForm::Hybrid,
            RawCardForm::ByVersion => CardForm::ByVersion,
        },
        verify,
        original: raw.original,
    })
}

fn card_verify(check: &mut Check<'_>, key: &str, raw: &RawCardVerify) -> Option<CardVerify> {
    const WHY: &str = "whoever can change these keys can sign cards";
    let mut complete = true;
    let keys = match (&raw.jwks_file, &raw.jwks_url) {
        (Some(_), Some(_)) => {
            check.problem(key, "has both `jwks_file` and `jwks_url`; keep one of them");
            return None;
        }
        (Some(file), None) => {
            let file = check.path(&join(key, "jwks_file"), file);
            complete &= file.is_some();
            file.map(CardKeys::File)
        }
        (None, Some(url)) => {
            complete &= tokens::private_url(check, &join(key, "jwks_url"), url, WHY).is_some();
            Some(CardKeys::Url(url.clone()))
        }
        (None, None) if raw.jku.items().next().is_none() => {
            check.problem(
                key,
                "needs one of `jwks_file`, `jwks_url` and `jku`: nobody's signature would be believed",
            );
            return None;
        }
        (None, None) => None,
    };
    let mut jku = Vec::new();
    for (index, url) in raw.jku.items() {
        complete &= tokens::private_url(check, &place(&join(key, "jku"), index), url, WHY).is_some();
        jku.push(url.clone());
    }
    let ca = check.optional_path(&join(key, "jwks_ca"), raw.jwks_ca.as_ref());
    if raw.jwks_ca.is_some() && raw.jwks_url.is_none() && jku.is_empty() {
        check.problem(&join(key, "jwks_ca"), "belongs to `jwks_url` and `jku`");
    }
    complete.then_some(CardVerify { keys, jku, ca })
}
