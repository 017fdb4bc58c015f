//! The store that several gateways share: where it is, who asks it, for how long.

use std::time::Duration;

use super::super::model::{Redis, RedisAddress, RedisLogin, RedisServers, Store, UpstreamTls};
use super::super::raw::{List, RawRedis, RawRedisTls, RawSentinel};
use super::super::units::SecretText;
use super::super::{join, place};
use super::{Check, DAY, MILLISECOND, SECOND, listeners, url};

const KEY: &str = "state.redis";
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// Longer ones cost memory in every key.
const LONGEST_PREFIX: usize = 64;
/// A call must not wait longer for the store than for most agents.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(10);

pub fn redis(check: &mut Check<'_>, raw: Option<&RawRedis>) -> Option<Store> {
    let Some(raw) = raw else {
        check.problem(
            KEY,
            "is missing; `store: redis` needs `redis: { url: ... }`, `sentinel` or `cluster`",
        );
        return None;
    };
    let servers = servers(check, raw);
    let secure = servers.as_ref().map(|(_, secure)| *secure);
    let login = login(
        check,
        KEY,
        raw.username.as_ref(),
        raw.password.as_ref(),
        raw.password_file.as_ref(),
    );
    let tls = tls(check, &raw.tls, secure);
    if raw.cluster.is_some() && raw.database != 0 {
        check.problem(&join(KEY, "database"), "must be 0: a cluster has no other");
    }
    let timeout = check.time(&join(KEY, "timeout"), raw.timeout, MILLISECOND, LONGEST_TIMEOUT);
    let connect_timeout = check.time(
        &join(KEY, "connect_timeout"),
        raw.connect_timeout,
        MILLISECOND,
        SECOND * 60,
    );
    let cache_ttl = check.time(&join(KEY, "cache_ttl"), raw.cache_ttl, SECOND, DAY);
    let key_prefix = prefix(check, &raw.key_prefix);
    let (servers, secure) = servers?;
    Some(Store::Redis(Box::new(Redis {
        servers,
        secure,
        database: raw.database,
        login: login?,
        tls: tls?,
        timeout,
        connect_timeout,
        cache_ttl,
        key_prefix: key_prefix?,
    })))
}

fn servers(check: &mut Check<'_>, raw: &RawRedis) -> Option<(RedisServers, bool)> {
    match (&raw.url, &raw.sentinel, &raw.cluster) {
        (Some(text), None, None) => {
            let (address, secure) = address(check, &join(KEY, "url"), text, PORT)?;
            Some((RedisServers::Standalone(address), secure))
        }
        (None, Some(raw), None) => sentinel(check, raw),
        (None, None, Some(nodes)) => {
            let (nodes, secure) = addresses(check, &join(KEY, "cluster"), nodes, PORT)?;
            Some((RedisServers::Cluster(nodes), secure))
        }
        _ => {
            check.problem(KEY, "needs exactly one of `url`, `sentinel` and `cluster`");
            None
        }
    }
}

fn sentinel(check: &mut Check<'_>, raw: &RawSentinel) -> Option<(RedisServers, bool)> {
    let key = join(KEY, "sentinel");
    let found = addresses(check, &join(&key, "urls"), &raw.urls, SENTINEL_PORT);
    let master = check.text(&join(&key, "master"), raw.master.as_ref());
    let login = login(check, &key, raw.username.as_ref(), None, raw.password_file.as_ref());
    let (sentinels, secure) = found?;
    let servers = RedisServers::Sentinel {
        sentinels,
        master: master?,
        login: login?,
    };
    Some((servers, secure))
}

fn addresses(check: &mut Check<'_>, key: &str, urls: &List<String>, port: u16) -> Option<(Vec<RedisAddress>, bool)> {
    if urls.is_empty() {
        check.problem(key, "needs at least one URL");
    }
    let mut found = Vec::new();
    let mut whole = true;
    for (index, text) in urls.items() {
        match address(check, &place(key, index), text, port) {
            Some(one) => found.push(one),
            None => whole = false,
        }
    }
    let secure = found.first()?.1;
    if found.iter().any(|(_, other)| *other != secure) {
        check.problem(key, "mixes `redis` and `rediss`; use one of them for all");
        return None;
    }
    whole.then(|| (found.into_iter().map(|(address, _)| address).collect(), secure))
}

fn address(check: &mut Check<'_>, key: &str, text: &str, default: u16) -> Option<(RedisAddress, bool)> {
    let Some((scheme, rest)) = text.split_once("://") else {
        check.problem(key, "must be a URL with `redis://` or `rediss://`");
        return None;
    };
    let secure = scheme.eq_ignore_ascii_case("rediss");
    if !secure && !scheme.eq_ignore_ascii_case("redis") {
        check.problem(key, "must begin with `redis://` or `rediss://`");
        return None;
    }
    // What stands before an `@` may be a password: nothing of such a text is repeated.
    if rest.contains('@') {
        check.problem(
            key,
            "must not contain user information (`user:password@`); `username` and `password` have their own keys",
        );
        return None;
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        check.problem(
            key,
            "must end after host and port; the database has its own key, `database`",
        );
        return None;
    }
    let (name, port) = url::split_port(authority);
    let Ok(port) = port else {
        check.problem(key, "must have a port from 1 to 65535");
        return None;
    };
    let Some(host) = url::host(name) else {
        check.problem(key, format!("`{name}` is not a host name or address"));
        return None;
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let address = RedisAddress {
        host: bare.unwrap_or(&host).to_owned(),
        port: port.unwrap_or(default),
    };
    Some((address, secure))
}

/// Nobody, or somebody with a password.
fn login(
    check: &mut Check<'_>,
    key: &str,
    username: Option<&String>,
    password: Option<&SecretText>,
    file: Option<&String>,
) -> Option<RedisLogin> {
    if username.is_none() && password.is_none() && file.is_none() {
        return Some(RedisLogin::default());
    }
    let (_, password) = check.secret(key, "password", password, file)?;
    let username = match username {
        Some(_) => Some(check.text(&join(key, "username"), username)?),
        None => None,
    };
    Some(RedisLogin {
        username,
        password: Some(password),
    })
}

fn tls(check: &mut Check<'_>, raw: &RawRedisTls, secure: Option<bool>) -> Option<UpstreamTls> {
    let key = join(KEY, "tls");
    let is_given = raw.ca.is_some() || raw.client_certificate.is_some() || raw.client_private_key.is_some();
    if is_given && secure == Some(false) {
        check.problem(&key, "has no effect: the URLs say `redis`, not `rediss`");
        return None;
    }
    let ca = check.optional_path(&join(&key, "ca"), raw.ca.as_ref());
    let client = (raw.client_certificate.is_some() || raw.client_private_key.is_some()).then(|| {
        listeners::pair(
            check,
            (&join(&key, "client_certificate"), raw.client_certificate.as_ref()),
            (&join(&key, "client_private_key"), raw.client_private_key.as_ref()),
        )
    });
    let tls = UpstreamTls {
        ca,
        client: client.clone().flatten(),
        server_name: None,
    };
    if secure == Some(true) {
        check.sound.upstreams.push((key, tls.clone()));
    }
    (client.is_none() || tls.client.is_some()).then_some(tls)
}

fn prefix(check: &mut Check<'_>, text: &str) -> Option<String> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"{}".contains(&byte));
    if plain && (1..=LONGEST_PREFIX).contains(&text.len()) {
        return Some(text.to_owned());
    }
    check.problem(
        &join(KEY, "key_prefix"),
        format!("must be 1 to {LONGEST_PREFIX} printable ASCII characters without spaces and braces"),
    );
    None
}
