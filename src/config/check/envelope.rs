//! The envelope protocol: a path of its own, senders that mean somebody, recipients that can be told apart.

use super::super::model::AgentRoute;
use super::super::raw::{Raw, RawAgent, RawBinding, RawEnvelope, RawGeneration};
use super::super::units::Size;
use super::super::{AgentEnvelope, Envelope, EnvelopeSender, join, place};
use super::limits::{MOST_BODY, Rules};
use super::names::Unique;
use super::{Check, DAY, SECOND, agents, policy, security, watch};
use crate::a2a::envelope::MAX_ID_BYTES;

/// The outer `None`: it cannot be built; the inner one: it is off.
pub fn envelope(check: &mut Check<'_>, raw: &Raw, routes: &[Option<AgentRoute>]) -> Option<Option<Envelope>> {
    let Some(own) = &raw.envelope else {
        return Some(None);
    };
    if raw.agents.items().all(|(_, agent)| agent.envelope.agent_id.is_none()) {
        check.problem(
            "envelope",
            "no agent has an `envelope.agent_id`, so that every message would be refused",
        );
    }
    let path = agents::own_path(check, "envelope.path", &own.path, raw, routes);
    let security = match (&own.security, &raw.security) {
        (Some(own), _) => Some(security::security(check, "envelope.security", own, raw)),
        (None, Some(general)) => Some(security::security(check, "security", general, raw)),
        (None, None) => {
            check.problem(
                "envelope",
                "needs `security` (its own, or the general one): no card says what senders must show",
            );
            None
        }
    };
    let senders = senders(check, own);
    let mut rules = Rules::default();
    rules.add(check, "rate_limits", &raw.rate_limits);
    let session_timeout = check.time("envelope.session_timeout", own.session_timeout, SECOND, DAY * 30);
    let max_sessions = check.count("envelope.max_sessions", own.max_sessions, 1, 10_000_000);
    let duplicate_window = check.time("envelope.duplicate_window", own.duplicate_window, SECOND, DAY);
    let max_messages = check.count("envelope.max_messages", own.max_messages, 1, 10_000_000);
    let shown = &own.authentication;
    let authentication_lifetime = check.time("envelope.authentication.lifetime", shown.lifetime, SECOND, DAY);
    let max_authentications = check.count("envelope.authentication.most", shown.most, 1, 10_000_000);
    let key = "envelope.authentication.body_bytes";
    let authentication_bytes = check.size(key, shown.body_bytes, Size::kib(1), MOST_BODY);
    Some(Some(Envelope {
        path: path?,
        security: security?,
        senders,
        rate_limits: rules.finish(),
        session_timeout,
        max_sessions,
        duplicate_window,
        max_messages,
        authentication_lifetime,
        max_authentications,
        authentication_bytes,
        authentication_rate: (shown.rate.count, shown.rate.period),
    }))
}

fn senders(check: &mut Check<'_>, raw: &RawEnvelope) -> Vec<EnvelopeSender> {
    let mut senders = Vec::new();
    for (index, one) in raw.senders.items() {
        let key = place("envelope.senders", index);
        let agent_id = check.text(&join(&key, "agent_id"), one.agent_id.as_ref());
        let callers = policy::callers(check, &join(&key, "callers"), &one.callers);
        senders.extend(agent_id.map(|agent_id| EnvelopeSender { agent_id, callers }));
    }
    senders
}

/// What one agent is in the envelope protocol.
pub fn agent(
    check: &mut Check<'_>,
    key: &str,
    one: &RawAgent,
    raw: &Raw,
    agent_ids: &mut Unique,
) -> Option<AgentEnvelope> {
    let id_key = join(key, "envelope.agent_id");
    let speaks = is_spoken_by(one);
    if let Some(agent_id) = &one.envelope.agent_id {
        if raw.envelope.is_none() && !check.was_given_up_whole("envelope") {
            check.problem(&id_key, "belongs to the section `envelope`, which is not there");
        }
        agent_ids.claim(check, &id_key, agent_id);
        if agent_id.len() > MAX_ID_BYTES {
            check.problem(&id_key, format!("is longer than {MAX_ID_BYTES} bytes"));
        }
    }
    if speaks {
        speaks_nothing_else(check, key, one, raw);
    }
    let agent_id = check.text(&id_key, one.envelope.agent_id.as_ref())?;
    Some(AgentEnvelope { agent_id, speaks })
}

/// The agent speaks no A2A.
pub fn is_spoken_by(agent: &RawAgent) -> bool {
    let protocol = agent.upstream.as_ref().map(|upstream| upstream.protocol.binding);
    matches!(protocol, Some(RawBinding::Envelope))
}

fn speaks_nothing_else(check: &mut Check<'_>, key: &str, one: &RawAgent, raw: &Raw) {
    const SPEAKS: &str = "an agent with `binding: envelope`";
    if one.envelope.agent_id.is_none() {
        let key = join(key, "envelope.agent_id");
        check.problem(&key, format!("is missing: {SPEAKS} is reached by nothing else"));
    }
    for (name, given) in [("path", one.path.is_some()), ("host", one.host.is_some())] {
        if given {
            let key = join(key, name);
            check.problem(
                &key,
                format!("{SPEAKS} has no place of its own: messages come to `envelope.path`"),
            );
        }
    }
    if one.security.is_none() && raw.security.is_none() {
        check.problem(
            &join(key, "security"),
            format!("is missing: {SPEAKS} has no card that says it"),
        );
    }
    if one.policy.skill.is_some() {
        check.problem(
            &join(key, "policy.skill"),
            format!("has no effect: {SPEAKS} has no card, and its messages pass as they came"),
        );
    }
    let Some(upstream) = &one.upstream else {
        return;
    };
    if !matches!(upstream.protocol.generation, RawGeneration::Auto) {
        check.problem(
            &join(key, "upstream.protocol.generation"),
            format!("{SPEAKS} speaks no generation of A2A"),
        );
    }
    if upstream
        .health
        .as_ref()
        .is_some_and(|health| health.path == watch::CARD)
    {
        check.problem(
            &join(key, "upstream.health.path"),
            format!("names the card, and {SPEAKS} has none; name a path of its server"),
        );
    }
}
