//! Webhooks of callers of another generation: where they may be, and that agents reach the gateway's own.

use std::time::Duration;

use super::super::model::{AgentRoute, Push, UpstreamTls};
use super::super::raw::{Raw, RawPush};
use super::super::units::Size;
use super::super::{join, place};
use super::limits::MOST_BODY;
use super::{Check, DAY, HOUR, MILLISECOND, SECOND, listeners, pages};

const MOST_LIFETIME: Duration = Duration::from_secs(365 * DAY.as_secs());
/// Below an agent's path, where notifications come.
const SEGMENT: &str = "/push";

pub fn push(check: &mut Check<'_>, raw: &RawPush) -> Option<Push> {
    let keys = pages::keys(check, "push.keys", &raw.keys);
    let url = base(check, "push.url", raw.url.as_ref());
    let mut hosts = Vec::new();
    for (index, pattern) in raw.hosts.items() {
        let pattern = pattern.to_ascii_lowercase();
        let sound = !pattern.is_empty()
            && pattern
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.*:[]".contains(&byte));
        if sound {
            hosts.push(pattern);
        } else {
            check.problem(
                &place("push.hosts", index),
                "is not a host name or a pattern of some; write e.g. `hooks.example.com` or `*.example.com`, without scheme or port",
            );
        }
    }
    let mut networks = Vec::new();
    for (index, text) in raw.networks.items() {
        networks.extend(listeners::network(check, &place("push.networks", index), text));
    }
    let ca = check.optional_path("push.ca", raw.ca.as_ref());
    let tls = UpstreamTls {
        ca,
        ..UpstreamTls::default()
    };
    check.sound.upstreams.push(("push".to_owned(), tls.clone()));
    let lifetime = check.time("push.lifetime", raw.lifetime, SECOND, MOST_LIFETIME);
    let timeout = check.time("push.timeout", raw.timeout, MILLISECOND, HOUR);
    let body_bytes = check.size("push.body_bytes", raw.body_bytes, Size::kib(1), MOST_BODY);
    let concurrent = check.count("push.concurrent", raw.concurrent, 1, 100_000);
    Some(Push {
        keys: keys?,
        url: match url {
            Some(url) => Some(url?),
            None => None,
        },
        hosts,
        networks,
        http: raw.http,
        tls,
        lifetime,
        timeout,
        body_bytes,
        concurrent,
        rate: (raw.rate.count, raw.rate.period),
    })
}

/// The address of the gateway to which paths are added; the outer `None` where none is given.
pub fn base(check: &mut Check<'_>, key: &str, text: Option<&String>) -> Option<Option<String>> {
    let url = text.map(|text| check.url(key, text))?;
    Some(url.map(|url| url.text().trim_end_matches('/').to_owned()))
}

/// What comes for one agent must not be taken for another one's call.
pub fn paths_do_not_meet(check: &mut Check<'_>, raw: &Raw, routes: &[Option<AgentRoute>]) {
    if raw.push.keys.is_empty() {
        return;
    }
    let paths = || {
        routes.iter().enumerate().filter_map(|(index, route)| match route {
            Some(AgentRoute::Path(path)) => Some((index, path)),
            Some(AgentRoute::Host(_) | AgentRoute::Envelope) | None => None,
        })
    };
    for (index, path) in paths() {
        let other = path
            .strip_suffix(SEGMENT)
            .filter(|base| paths().any(|(_, other)| other == base));
        if let Some(base) = other {
            let base = if base.is_empty() { "/" } else { base };
            check.problem(
                &join(&place("agents", index), "path"),
                format!("is where notifications for the agent at `{base}` come (`push`); choose another path"),
            );
        }
    }
}
