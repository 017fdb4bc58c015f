//! Mistakes in what a section says: each with exactly its text.

use super::invalid::{agent, agent_key, check, environment, file, listener, scheme, section, upstream};

#[test]
fn urls() {
    let public = |text: &str, cause: &str| section("public_url", text, &format!("public_url (line 1): {cause}"));
    public(
        "agents.example.com",
        "must be an absolute URL with `http://` or `https://`",
    );
    public("ftp://a", "must begin with `http` or `https`, found `ftp`");
    public("http://a/?q", "must not have a query");
    public("\"http://a/#f\"", "must not have a fragment (`#`)");
    public(
        "http://user:hunter2@a/",
        "must not contain user information (`user:password@`); credentials have their own keys",
    );
    public("http://a:0/", "`0` is not a port from 1 to 65535");
    public("http://a:70000/", "`70000` is not a port from 1 to 65535");
    public("http://a_b..c/", "`a_b..c` is not a host name or address");
    public("http://a/b/../c", "the path must not contain the segments `.` or `..`");
    public(
        "http://a/b/%2E%2e/c",
        "the path must not contain the segments `.` or `..`",
    );
    public("http://a//b", "the path must not contain `//`");
    public("\"http://a/ b\"", "must be ASCII without spaces");
}

#[test]
fn front_door() {
    let front = |text: &str, cause: &str| section("front_door", text, &format!("front_door{cause}"));
    front(
        "{ path: /maps }",
        ".path (line 5): has the place of agents[0].path; choose another `path` or `host`",
    );
    let both = [("front_door", "{ path: /all }"), ("catalogue", "{ path: /all }")];
    check(
        &file(&both),
        &environment(),
        "catalogue.path (line 6): is at or below front_door.path; choose another path",
    );
    front("{ path: all }", ".path (line 5): must begin with `/`");
    front(
        "{ path: /, host: a.example }",
        " (line 5): has both `path` and `host`; keep one of them",
    );
    front(
        "{ host: \"a b\" }",
        ".host (line 5): is not a host name; write it without scheme, port or `*`",
    );
    front(
        "{ host: agents.example.com }",
        ".host (line 5): is the host of public_url, so that agents with a `path` could not be reached; give it a `path`",
    );
    front(
        "{ agents: [ mops ] }",
        ".agents[0] (line 5): no agent behind the front door is called `mops`",
    );
    front(
        "{ agents: [ maps, maps ] }",
        ".agents[1] (line 5): `maps` is named twice",
    );
    for (name, value) in [("open_tasks", "7"), ("task_creations", "7/h")] {
        front(
            &format!("{{ limits: [ {{ per: principal, {name}: {value} }} ] }}"),
            &format!(
                ".limits[0].{name} (line 5): tasks are of the agents behind it; set it in their `agents[].limits`, or in `rate_limits`"
            ),
        );
    }
    front(
        "{ default: mops }",
        ".default (line 5): no agent behind the front door is called `mops`",
    );
    let own = "(line 5): cannot be said here: the gateway writes it from what the agents say, serve and demand";
    for member in ["skills", "capabilities", "url", "securitySchemes"] {
        front(
            &format!("{{ card: {{ {member}: [] }} }}"),
            &format!(".card.{member} {own}"),
        );
    }
    front("{ rules: [ { agent: maps } ] }", ".rules[0].when (line 5): is required");
    front(
        "{ rules: [ { when: \"true\", agent: mops } ] }",
        ".rules[0].agent (line 5): no agent behind the front door is called `mops`",
    );
    front(
        "{ rules: [ { when: \"1\", agent: maps } ] }",
        ".rules[0].when (line 5): gives int instead of bool",
    );
    front(
        "{ rules: [ { when: \"agent.name == 'x'\", agent: maps } ] }",
        ".rules[0].when (line 5): at character 1: there is no `agent` here; there are principal, operation, generation, \
         binding, task, message, source, time",
    );
}

#[test]
fn pages() {
    let cors = |text: &str, expected: &str| section("cors", text, expected);
    cors("{}", "cors.origins (line 5): is required");
    cors(
        "{ origins: [] }",
        "cors.origins (line 5): is empty, so that no page could read anything; name origins, or `*`",
    );
    cors(
        "{ origins: [ \"*\", \"https://a\" ] }",
        "cors.origins (line 5): has `*` beside others; keep `*` alone, or take it out",
    );
    let origin = "must be an origin: scheme, host and port without a path, as browsers write it";
    cors(
        "{ origins: [ \"https://a/\" ] }",
        &format!("cors.origins[0] (line 5): {origin}"),
    );
    cors(
        "{ origins: [ \"https://a/b\" ] }",
        &format!("cors.origins[0] (line 5): {origin}"),
    );
    cors(
        "{ origins: [ \"https://*.a\" ] }",
        "cors.origins[0] (line 5): `*.a` is not a host name or address",
    );
    cors(
        "{ origins: [ \"*\" ], max_age: 48h }",
        "cors.max_age (line 5): must be from 0s to 24h, found 2d",
    );
}

#[test]
fn the_catalogue() {
    let catalogue = |text: &str, expected: &str| section("catalogue", text, expected);
    catalogue("{ path: agents }", "catalogue.path (line 5): must begin with `/`");
    catalogue(
        "{ path: / }",
        "catalogue.path (line 5): must not be `/`, which is an agent's",
    );
    catalogue(
        "{ path: /a:b }",
        "catalogue.path (line 5): must not contain `:`, by which paths of A2A end",
    );
    catalogue(
        "{ path: /.well-known/agents }",
        "catalogue.path (line 5): must not contain `.well-known`, under which cards are published",
    );
    for path in ["/maps", "/maps/list"] {
        catalogue(
            &format!("{{ path: {path} }}"),
            "catalogue.path (line 5): is at or below agents[0].path; choose another path",
        );
    }
    catalogue(
        "{ page_size: 0 }",
        "catalogue.page_size (line 5): must be from 1 to 1000, found 0",
    );
    catalogue(
        "{ max_page_size: 1001 }",
        "catalogue.max_page_size (line 5): must be from 1 to 1000, found 1001",
    );
    catalogue(
        "{ page_size: 101 }",
        "catalogue.page_size (line 5): is more than catalogue.max_page_size, which is 100",
    );
    catalogue(
        "{ max_age: 31d }",
        "catalogue.max_age (line 5): must be from 0s to 30d, found 31d",
    );
    agent_key(
        "listed: callers",
        "agents[0].listed (line 4): belongs to the sections `catalogue` and `front_door`, of which none is there",
    );
    let with = |agent: &str, path: &str, expected: &str| {
        let agents = format!("[ {{ name: maps, {agent}, upstream: {{ endpoints: [ {{ url: http://a:1 }} ] }} }} ]");
        let catalogue = format!("{{ path: {path} }}");
        let text = file(&[("agents", agents.as_str()), ("catalogue", &catalogue)]);
        check(&text, &environment(), expected);
    };
    for agent in ["path: /", "host: maps.example"] {
        for path in ["/tasks", "/v1/tasks", "/tenant/tasks"] {
            with(
                agent,
                path,
                "catalogue.path (line 5): is a path of A2A at the agents that have a `host` or `path: /`; choose another path",
            );
        }
    }
    let envelope = "{ path: /agents, security: [] }";
    let agents =
        "[ { name: maps, path: /maps, upstream: { endpoints: [ { url: http://a:1 } ] }, envelope: { agent_id: a } } ]";
    check(
        &file(&[("agents", agents), ("envelope", envelope), ("catalogue", "{}")]),
        &environment(),
        "catalogue.path (line 6): is envelope.path, where messages come; choose another path",
    );
}

#[test]
fn the_audit_trail() {
    let audit = |text: &str, expected: &str| section("audit", text, expected);
    audit("{}", "audit.file (line 5): is required");
    audit("{ file: \"\" }", "audit.file (line 5): is empty; name a file");
    audit(
        "{ file: a, key: short }",
        "audit.key (line 5): has fewer than 32 characters; make one with `openssl rand -base64 32`",
    );
    audit(
        "{ file: a, key: short, key_file: b }",
        "audit (line 5): has both `key` and `key_file`; keep one of them",
    );
    audit(
        "{ file: a, max_bytes: 1KiB }",
        "audit.max_bytes (line 5): must be from 16KiB to 1024GiB, found 1KiB",
    );
    audit(
        "{ file: a, keep: 0 }",
        "audit.keep (line 5): must be from 1 to 1000, found 0",
    );
    audit(
        "{ file: a, queue: 1 }",
        "audit.queue (line 5): must be from 16 to 1000000, found 1",
    );
    audit(
        "{ file: a, sync_interval: 1ms }",
        "audit.sync_interval (line 5): must be from 10ms to 1h, found 1ms",
    );
    audit(
        "{ file: a, on_full: wait }",
        "audit.on_full (line 5): expected `block` or `drop`, found `wait`",
    );
    audit("{ file: a, otlp: {} }", "audit.otlp.url (line 5): is required");
    audit(
        "{ file: a, otlp: { url: \"http://collector.internal:4318/v1/logs\" } }",
        "audit.otlp.url (line 5): must be https: the trail says who does what; http only on a loopback address",
    );
    audit(
        "{ file: a, otlp: { url: \"http://127.0.0.1:4318/v1/logs\", ca: ca.pem } }",
        "audit.otlp.ca (line 5): has no effect: `url` is http",
    );
    audit(
        "{ file: a, otlp: { url: \"https://a/v1/logs\", header: { name: host, value: x } } }",
        "audit.otlp.header.name (line 5): `host` is written by the gateway and cannot be a credential",
    );
    audit(
        "{ file: a, otlp: { url: \"https://a/v1/logs\", header: { name: Authorization } } }",
        "audit.otlp.header (line 5): needs `value` or `value_file`",
    );
    audit(
        "{ file: a, otlp: { url: \"https://a/v1/logs\", timeout: 0s } }",
        "audit.otlp.timeout (line 5): must be from 1ms to 60s, found 0s",
    );
    audit(
        "{ file: a, otlp: { url: \"https://a/v1/logs\", queue: 1 } }",
        "audit.otlp.queue (line 5): must be from 16 to 1000000, found 1",
    );
}

#[test]
fn listeners() {
    section("listeners", "[]", "listeners (line 2): needs at least one listener");
    section(
        "listeners",
        "[ { name: a, address: localhost:80 } ]",
        "listeners[0].address (line 2): `localhost:80` is not an IP address with a port; write e.g. `127.0.0.1:8080`, \
         `0.0.0.0:8443` or `[::]:8443`",
    );
    section(
        "listeners",
        "[ { name: a, address: 1.1.1.1:1 }, { name: a, address: 1.1.1.1:2 } ]",
        "listeners[1].name (line 2): `a` is already used by listeners[0].name",
    );
    section(
        "listeners",
        "[ { name: a, address: 1.1.1.1:1 }, { name: b, address: 0.0.0.0:1 } ]",
        "listeners[1].address (line 2): `0.0.0.0:1` cannot be bound beside listeners[0].address",
    );
    section(
        "listeners",
        "[ { name: a, address: 127.0.0.1:9901 } ]",
        "listeners[0].address (line 2): `127.0.0.1:9901` cannot be bound beside admin.address",
    );
    section(
        "listeners",
        "[ { name: a b, address: 1.1.1.1:1 } ]",
        "listeners[0].name (line 2): must be 1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit",
    );
    listener(
        "tls: {}",
        "listeners[0].tls (line 2): needs `certificate` and `private_key`, or `certificates`",
    );
    listener(
        "tls: { certificate: a }",
        "listeners[0].tls.private_key (line 2): is required with the certificate",
    );
    listener(
        "tls: { certificate: a, private_key: b, certificates: [ { certificate: a, private_key: b } ] }",
        "listeners[0].tls (line 2): has both `certificates` and `certificate` with `private_key`; keep one of them",
    );
    listener(
        "tls: { certificate: a, private_key: b, client_certificates: required }",
        "listeners[0].tls.client_ca (line 2): is required, unless `client_certificates` is `off`",
    );
    listener(
        "tls: { certificate: a, private_key: b, client_ca: c }",
        "listeners[0].tls.client_ca (line 2): has no effect while `client_certificates` is `off`; set it to `optional` or `required`",
    );
    listener(
        "tls: { certificate: a, private_key: b, min_version: 1.1 }",
        "listeners[0].tls.min_version (line 2): expected `1.2` or `1.3`, found `1.1`",
    );
    listener(
        "trusted_proxies: [ 10.0.0.0/33, 0.0.0.0/0 ]",
        "listeners[0].trusted_proxies[0] (line 2): `10.0.0.0/33` is not an IP address or network; write e.g. `10.0.0.5` or `10.0.0.0/8`\n\
         listeners[0].trusted_proxies[1] (line 2): `0.0.0.0/0` would believe every caller's forwarding headers; name the proxies",
    );
}

#[test]
fn the_shared_store() {
    let redis = |inside: &str, cause: &str| {
        section(
            "state",
            &format!("{{ store: redis, redis: {{ {inside} }} }}"),
            &format!("state.redis{cause}"),
        );
    };
    let url = |text: &str, cause: &str| redis(&format!("url: \"{text}\""), &format!(".url (line 3): {cause}"));
    section(
        "state",
        "{ store: redis }",
        "state.redis (line 3): is missing; `store: redis` needs `redis: { url: ... }`, `sentinel` or `cluster`",
    );
    section(
        "state",
        "{ store: memory, redis: { url: \"redis://a\" } }",
        "state.redis (line 3): belongs to `store: redis`; the memory store has none",
    );
    redis(
        "timeout: 1s",
        " (line 3): needs exactly one of `url`, `sentinel` and `cluster`",
    );
    redis(
        "url: \"redis://a\", cluster: [ \"redis://b\" ]",
        " (line 3): needs exactly one of `url`, `sentinel` and `cluster`",
    );
    url("a:6379", "must be a URL with `redis://` or `rediss://`");
    url("http://a", "must begin with `redis://` or `rediss://`");
    url(
        "redis://ann:hunter2@a",
        "must not contain user information (`user:password@`); `username` and `password` have their own keys",
    );
    url(
        "redis://a/3",
        "must end after host and port; the database has its own key, `database`",
    );
    url("redis://a:0", "must have a port from 1 to 65535");
    url("redis://a b", "`a b` is not a host name or address");
    redis(
        "cluster: [ \"redis://a\", \"rediss://b\" ]",
        ".cluster (line 3): mixes `redis` and `rediss`; use one of them for all",
    );
    redis("cluster: []", ".cluster (line 3): needs at least one URL");
    redis(
        "cluster: [ \"redis://a\" ], database: 1",
        ".database (line 3): must be 0: a cluster has no other",
    );
    redis(
        "url: \"redis://a\", tls: { ca: ca.pem }",
        ".tls (line 3): has no effect: the URLs say `redis`, not `rediss`",
    );
    redis(
        "url: \"redis://a\", username: ann",
        " (line 3): needs `password` or `password_file`",
    );
    redis(
        "url: \"redis://a\", key_prefix: \"{a}\"",
        ".key_prefix (line 3): must be 1 to 64 printable ASCII characters without spaces and braces",
    );
    redis(
        "url: \"redis://a\", timeout: 11s",
        ".timeout (line 3): must be from 1ms to 10s, found 11s",
    );
}

#[test]
fn state_limits_and_log() {
    section(
        "state",
        "{ store: memory, path: x, sync_interval: 1s }",
        "state.path (line 3): belongs to `store: embedded`; the memory store has none\n\
         state.sync_interval (line 3): belongs to `store: embedded`; the memory store has none",
    );
    section(
        "state",
        "{ max_tasks: 0 }",
        "state.max_tasks (line 3): must be from 1 to 100000000, found 0",
    );
    section(
        "limits",
        "{ header_bytes: 2MiB }",
        "limits.header_bytes (line 5): must be from 8KiB to 1MiB, found 2MiB",
    );
    section(
        "limits",
        "{ body_bytes: 0B }",
        "limits.body_bytes (line 5): must be from 1B to 1GiB, found 0B",
    );
    section(
        "limits",
        "{ response_idle: 2h }",
        "limits.response_idle (line 5): must be from 1ms to 1h, found 2h",
    );
    section(
        "limits",
        "{ keep_alive: 0s }",
        "limits.keep_alive (line 5): must be from 1ms to 1h, found 0s",
    );
    section(
        "limits",
        "{ http2_stream_window: 2MiB }",
        "limits.http2_connection_window (line 5): is smaller than `http2_stream_window`, of which it must hold at least one",
    );
    section(
        "log",
        "{ level: \"loud, a2a_gateway=debug\" }",
        "log.level (line 5): `loud` is no level; write `error`, `warn`, `info`, `debug`, `trace` or `off`",
    );
    section(
        "log",
        "{ level: \"a=b\" }",
        "log.level (line 5): `a=b` is no filter (error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \
         \"debug\", \"trace\", or a number 0-5); write e.g. `info` or `info,a2a_gateway=debug`",
    );
}

#[test]
fn api_key_schemes() {
    let hash = "a".repeat(64);
    let keys = |list: &str, expected: &str| {
        scheme(
            &format!("type: apiKey, in: header, name: X, keys: [ {list} ]"),
            expected,
        )
    };
    scheme(
        "type: apikey",
        "security_schemes.one.type (line 5): expected `apiKey`, `http`, `oauth2`, `openIdConnect` or `mutualTLS`, found `apikey`",
    );
    scheme(
        "type: apiKey, keys_file: k",
        "security_schemes.one.in (line 5): is required with the type apiKey\n\
         security_schemes.one.name (line 5): is required with the type apiKey",
    );
    scheme(
        "type: apiKey, in: header, name: X",
        "security_schemes.one (line 5): needs `keys` or `keys_file`",
    );
    scheme(
        "type: apiKey, in: header, name: a b, keys_file: k",
        "security_schemes.one.name (line 5): `a b` cannot be the name of a header, parameter or cookie",
    );
    scheme(
        "type: apiKey, in: header, name: X, keys_file: k, issuer: x",
        "security_schemes.one.issuer (line 5): does not belong to the type apiKey",
    );
    keys(
        "",
        "security_schemes.one.keys (line 5): is empty, so that nobody could call; add a key",
    );
    keys(
        &format!("{{ id: a, key: hunter2, hash: \"sha256:{hash}\" }}"),
        "security_schemes.one.keys[0].key (line 5): unknown key; only hashes stand here: `hash: \"sha256:<64 hex digits>\"`",
    );
    keys(
        "{ id: a, hash: hunter2 }",
        "security_schemes.one.keys[0].hash (line 5): must be `sha256:<64 hex digits>` or `sha256:<salt in hex>:<64 hex digits>`",
    );
    keys(
        "{ id: a, hash: \"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\" }",
        "security_schemes.one.keys[0].hash (line 5): is the hash of an empty key",
    );
    keys(
        &format!("{{ id: a, hash: \"sha256:{hash}\" }}, {{ id: a, hash: \"sha256:{hash}\" }}"),
        "security_schemes.one.keys[1].id (line 5): `a` is already used by security_schemes.one.keys[0].id\n\
         security_schemes.one.keys[1].hash (line 5): is already the hash of another key",
    );
}

#[test]
fn token_and_other_schemes() {
    let bearer = |text: &str, expected: &str| {
        scheme(
            &format!("type: http, scheme: bearer, issuer: i, audience: [ a ], {text}"),
            expected,
        );
    };
    scheme(
        "type: http",
        "security_schemes.one.scheme (line 5): is required with the type http",
    );
    scheme(
        "type: http, scheme: basic",
        "security_schemes.one.users_file (line 5): is required with the type http with basic",
    );
    scheme(
        "type: http, scheme: bearer, jwks_file: k",
        "security_schemes.one.issuer (line 5): is required with the type http with bearer\n\
         security_schemes.one.audience (line 5): is required with the type http with bearer",
    );
    bearer(
        "leeway: 1s",
        "security_schemes.one (line 5): needs one of `jwks_file`, `jwks_url` and `introspection` (only `openIdConnectUrl` and `oauth2MetadataUrl` are followed to find keys, cards never are)",
    );
    bearer(
        "jwks_file: a, jwks_url: https://a",
        "security_schemes.one (line 5): has both `jwks_file` and `jwks_url`; keep one of them",
    );
    bearer(
        "jwks_url: http://keys.example.com",
        "security_schemes.one.jwks_url (line 5): must be https: whoever can change these keys can make tokens; http only on a loopback address",
    );
    bearer(
        "jwks_file: a, jwks_refresh: 1m",
        "security_schemes.one.jwks_refresh (line 5): belongs to `jwks_url`",
    );
    bearer(
        "jwks_file: a, users_file: b",
        "security_schemes.one.users_file (line 5): does not belong to the type http with bearer",
    );
    bearer(
        "jwks_file: a, leeway: 1h",
        "security_schemes.one.leeway (line 5): must be from 0s to 10m, found 1h",
    );
    scheme(
        "type: oauth2, issuer: i, audience: [], jwks_file: k, flows: {}",
        "security_schemes.one.flows (line 5): is empty; cards need at least one flow\n\
         security_schemes.one.audience (line 5): is empty, so that no token could pass; name this gateway's audience",
    );
    scheme(
        "type: openIdConnect, issuer: i, audience: [ a ], jwks_file: k",
        "security_schemes.one.openIdConnectUrl (line 5): is required with the type openIdConnect",
    );
    scheme(
        "type: openIdConnect, issuer: i, audience: [ a ], openIdConnectUrl: http://login.example.com",
        "security_schemes.one.openIdConnectUrl (line 5): must be https: whoever can change these keys can make tokens; http only on a loopback address",
    );
    scheme(
        "type: oauth2, flows: { x: {} }, issuer: i, audience: [ a ], jwks_cooldown: 1m",
        "security_schemes.one.jwks_cooldown (line 5): belongs to `jwks_url`\n\
         security_schemes.one (line 5): needs one of `jwks_file`, `jwks_url` and `introspection` (only `openIdConnectUrl` and `oauth2MetadataUrl` are followed to find keys, cards never are)",
    );
    bearer(
        "jwks_file: a, check: { url: https://a }",
        "security_schemes.one.check (line 5): does not belong to the type http with bearer",
    );
    bearer(
        "jwks_file: a, profile: id",
        "security_schemes.one.profile (line 5): expected `jwt` or `at+jwt`, found `id`",
    );
    bearer(
        "jwks_file: a, sender_constraint: tls",
        "security_schemes.one.sender_constraint (line 5): expected `optional`, `mtls`, `dpop` or `required`, found `tls`",
    );
    bearer(
        "jwks_file: a, sender_constraint: mtls, dpop_lifetime: 30s",
        "security_schemes.one.dpop_lifetime (line 5): has no effect while `sender_constraint` is `mtls`: tokens are bound to certificates",
    );
    bearer(
        "jwks_file: a, dpop_lifetime: 11m",
        "security_schemes.one.dpop_lifetime (line 5): must be from 1s to 10m, found 11m",
    );
    scheme(
        "type: apiKey, in: header, name: x, keys_file: k, sender_constraint: dpop",
        "security_schemes.one.sender_constraint (line 5): does not belong to the type apiKey",
    );
    bearer(
        "introspection: {}",
        "security_schemes.one.introspection.url (line 5): is required\n\
         security_schemes.one.introspection.client_id (line 5): is required",
    );
    let introspection = |text: &str, expected: &str| {
        bearer(
            &format!("introspection: {{ client_id: c, {text} }}"),
            &format!("security_schemes.one.introspection{expected}"),
        );
    };
    introspection(
        "url: https://a",
        " (line 5): needs `client_secret` or `client_secret_file`",
    );
    introspection(
        "url: https://a, client_secret: hunter2, client_secret_file: b",
        " (line 5): has both `client_secret` and `client_secret_file`; keep one of them",
    );
    introspection(
        "url: http://login.example.com, client_secret: hunter2",
        ".url (line 5): must be https: every token goes there; http only on a loopback address",
    );
    introspection(
        "url: http://localhost, client_secret: hunter2, ca: b",
        ".ca (line 5): has no effect: `url` is http",
    );
    introspection(
        "url: https://a, client_secret: hunter2, concurrent: 0",
        ".concurrent (line 5): must be from 1 to 10000, found 0",
    );
    introspection(
        "url: https://a, client_secret: hunter2, timeout: 2m",
        ".timeout (line 5): must be from 1ms to 60s, found 2m",
    );
    bearer(
        "jwks_url: https://a, profile: at+jwt, introspection: { url: https://a, client_id: c, client_secret: s }",
        "security_schemes.one.jwks_url (line 5): has no effect beside `introspection`: the issuer is asked about each token; keep one of them\n\
         security_schemes.one.profile (line 5): has no effect beside `introspection`: the issuer is asked about each token; keep one of them",
    );
    scheme(
        "type: http, scheme: digest",
        "security_schemes.one.check (line 5): is required with the type http with another scheme than bearer and basic",
    );
    scheme(
        "type: http, scheme: a b, check: { url: http://a }",
        "security_schemes.one.scheme (line 5): `a b` cannot be the name of an HTTP authentication scheme\n\
         security_schemes.one.check.url (line 5): must be https: every credential goes there; http only on a loopback address",
    );
    scheme(
        "type: mutualTLS, allow: []",
        "security_schemes.one.allow (line 5): is empty, so that no certificate could pass",
    );
    scheme(
        "type: mutualTLS, allow: [ a.example.com ]",
        "security_schemes.one.allow[0] (line 5): `a.example.com` is no rule for certificates; write a URI (`spiffe://…`), `dns:…`, \
         `email:…`, `subject:…` or `fingerprint:` with 64 hexadecimal digits",
    );
    scheme(
        "type: mutualTLS, allow: [ \"fingerprint:00:11\" ]",
        "security_schemes.one.allow[0] (line 5): `fingerprint:00:11` is no rule for certificates; write a URI (`spiffe://…`), `dns:…`, \
         `email:…`, `subject:…` or `fingerprint:` with 64 hexadecimal digits",
    );
}

#[test]
fn requirements() {
    section(
        "security",
        "[ { corp: [] } ]",
        "security[0].corp (line 5): there is no `corp` in security_schemes",
    );
    check(
        &file(&[
            ("security", "[ { patner: [] } ]"),
            (
                "security_schemes",
                "{ partner: { type: http, scheme: basic, users_file: u } }",
            ),
        ]),
        &environment(),
        "security[0].patner (line 5): there is no `patner` in security_schemes; did you mean `partner`?",
    );
    check(
        &file(&[
            ("security", "[ { machine: [ read ] } ]"),
            ("security_schemes", "{ machine: { type: mutualTLS, allow: [ dns:a ] } }"),
        ]),
        &environment(),
        "security[0].machine (line 5): client certificates carry no scopes; write `[]`\n\
         security[0].machine (line 5): needs a client certificate, but no listener asks for one; set `listeners[].tls.client_certificates`",
    );
    check(
        &file(&[
            ("security", "[ { bound: [ read ] } ]"),
            (
                "security_schemes",
                "{ bound: { type: http, scheme: bearer, issuer: i, audience: [ a ], jwks_url: https://a, sender_constraint: mtls } }",
            ),
        ]),
        &environment(),
        "security[0].bound (line 5): needs a client certificate, but no listener asks for one; set `listeners[].tls.client_certificates`",
    );
    agent_key(
        "security: [ {}, { corp: [] } ]",
        "agents[0].security[1].corp (line 4): there is no `corp` in security_schemes",
    );
}

#[test]
fn policies() {
    let owner = |text: &str, cause: &str| {
        agent_key(
            &format!("policy: {{ task_owner: {text} }}"),
            &format!("agents[0].policy.task_owner (line 4): {cause}"),
        );
    };
    owner("caller", "`caller` is none of `principal`, `claim:<name>` and `none`");
    owner(
        "\"claim:\"",
        "needs the name of a claim behind `claim:`, without `=`, e.g. `claim:tenant`",
    );
    owner(
        "\"claim:a=b\"",
        "needs the name of a claim behind `claim:`, without `=`, e.g. `claim:tenant`",
    );
    let sharing = |rule: &str, expected: &str| {
        agent_key(
            &format!("policy: {{ task_sharing: [ {{ {rule} }} ] }}"),
            &format!("agents[0].policy.task_sharing{expected}"),
        );
    };
    sharing("access: full", "[0].with (line 4): is required");
    sharing("with: []", "[0].with (line 4): is empty, so that it would mean nobody");
    sharing("with: [ \"\" ]", "[0].with[0] (line 4): is empty");
    sharing(
        "with: [ a ], owners: []",
        "[0].owners (line 4): is empty, so that it would mean nobody",
    );
    agent_key(
        "policy: { task_owner: none, task_sharing: [ { with: [ a ] } ] }",
        "agents[0].policy.task_sharing (line 4): has no effect: with `task_owner: none` every caller may use every task",
    );
}

#[test]
fn callers_of_0_1_have_tasks_of_their_own() {
    let nobodys = "agents[0].v0_1 (line 4): needs tasks that have owners, because callers of A2A 0.1 name their tasks \
                   themselves and would meet under one name; require a credential, and set `policy.task_owner` to \
                   `principal` or a claim";
    agent_key("v0_1: true, policy: { task_owner: none }", nobodys);
    agent_key("v0_1: true, lenient_methods: true, security: []", nobodys);
    agent_key(
        "v0_1: true, translate: false",
        "agents[0].v0_1 (line 4): needs `translate`: callers of A2A 0.1 are served by translation",
    );
    let agent_of_0_1 = |more: &str| {
        format!(
            "path: /a, upstream: {{ endpoints: [ {{ url: http://a:1 }} ], protocol: {{ generation: \"0.1\" }} }}{more}"
        )
    };
    agent(
        &agent_of_0_1(", translate: false"),
        "agents[0].upstream.protocol.generation (line 4): needs `translate`: callers of later versions are served nothing else",
    );
    for binding in ["grpc", "http_json"] {
        let both = agent_of_0_1("").replace("generation", &format!("binding: {binding}, generation"));
        agent(
            &both,
            "agents[0].upstream.protocol.generation (line 4): goes with `jsonrpc` alone: A2A 0.1 has no other binding",
        );
    }
    agent_key(
        "lenient_methods: true",
        "agents[0].lenient_methods (line 4): needs `v0_1`: these are methods of A2A 0.1",
    );
}

#[test]
fn routes() {
    let upstream = "upstream: { endpoints: [ { url: http://a:1 } ] }";
    let path = |text: &str, cause: &str| {
        agent(
            &format!("path: {text}, {upstream}"),
            &format!("agents[0].path (line 4): {cause}"),
        );
    };
    path("maps", "must begin with `/`");
    path("/maps/", "must not end with `/`");
    path("/a//b", "must not contain `//`");
    path("/a/./b", "must not contain the segments `.` or `..`");
    path("/a%20b", "must not contain percent-encoded characters");
    path(
        "\"/a b\"",
        "contains a character that a path cannot have; percent-encode it",
    );
    path(
        "/.well-known/a",
        "must not contain `.well-known`, under which cards are published",
    );
    agent(
        upstream,
        "agents[0] (line 4): needs `path` (e.g. `/agents/maps`, or `/`) or `host`",
    );
    agent(
        &format!("path: /a, host: b, {upstream}"),
        "agents[0] (line 4): has both `path` and `host`; keep one of them",
    );
    agent(
        &format!("host: \"a:80\", {upstream}"),
        "agents[0].host (line 4): `a:80` is not a host name; write it without scheme, port or `*`",
    );
    section("agents", "[]", "agents (line 4): needs at least one agent");
    let two = |one: &str, other: &str, expected: &str| {
        section(
            "agents",
            &format!("[ {{ {one}, {upstream} }}, {{ {other}, {upstream} }} ]"),
            expected,
        );
    };
    two(
        "name: a, path: /x",
        "name: a, path: /y",
        "agents[1].name (line 4): `a` is already used by agents[0].name",
    );
    two(
        "name: a, path: /x",
        "name: b, path: /x",
        "agents[1].path (line 4): `/x` is already used by agents[0].path",
    );
    two(
        "name: a, host: H",
        "name: b, host: h",
        "agents[1].host (line 4): `h` is already used by agents[0].host",
    );
    two(
        "name: a, path: /",
        "name: b, host: Agents.example.com",
        "agents[1].host (line 4): is the host of public_url, so that agents with a `path` could not be reached; give it a `path` too",
    );
}

#[test]
fn upstreams() {
    agent(
        "path: /a, upstream: { endpoints: [] }",
        "agents[0].upstream.endpoints (line 4): needs at least one endpoint",
    );
    agent(
        "path: /a, upstream: {}",
        "agents[0].upstream.endpoints (line 4): needs at least one endpoint",
    );
    upstream(
        "srv: { name: _a2a._tcp.maps.internal }",
        "agents[0].upstream (line 4): has both `endpoints` and `srv`; keep one of them",
    );
    agent(
        "path: /a, upstream: { srv: { name: a..b, path: rpc/../x, dns_server: localhost } }",
        "agents[0].upstream.srv.name (line 4): `a..b` is not a DNS name; write e.g. `_a2a._tcp.maps.internal`\n\
         agents[0].upstream.srv.path (line 4): must begin with `/`\n\
         agents[0].upstream.srv.path (line 4): must not contain the segments `.` or `..`\n\
         agents[0].upstream.srv.dns_server (line 4): `localhost` is not an address with a port; write e.g. `127.0.0.1:53`",
    );
    agent(
        "path: /a, upstream: { srv: { name: \"[::1]\", scheme: ftp, dns_server: \"127.0.0.1:0\" } }",
        "agents[0].upstream.srv.scheme (line 4): expected `http` or `https`, found `ftp`\n\
         agents[0].upstream.srv.name (line 4): `[::1]` is not a DNS name; write e.g. `_a2a._tcp.maps.internal`\n\
         agents[0].upstream.srv.dns_server (line 4): `127.0.0.1:0` is not an address with a port; write e.g. `127.0.0.1:53`",
    );
    agent(
        "path: /a, upstream: { srv: { scheme: http } }",
        "agents[0].upstream.srv.name (line 4): is required",
    );
    agent(
        "path: /a, upstream: { srv: { name: a, scheme: http }, tls: { ca: x } }",
        "agents[0].upstream.tls (line 4): has no effect: every endpoint is http",
    );
    upstream(
        "protocol: { binding: grpc }, http: http1",
        "agents[0].upstream.http (line 4): cannot be `http1`: `protocol.binding` is `grpc`, which needs HTTP/2",
    );
    agent(
        "path: /a, translate: false, upstream: { endpoints: [ { url: http://a:1 } ], protocol: { binding: grpc } }",
        "agents[0].translate (line 4): leaves nobody to serve: nothing can stand before the paths of gRPC; give the agent a \
         `host` or `path: /`",
    );
    agent(
        "path: /a, upstream: { endpoints: [ { url: \"http://A:80\" }, { url: http://a/ } ] }",
        "agents[0].upstream.endpoints[1].url (line 4): `http://a/` is already used by agents[0].upstream.endpoints[0].url",
    );
    upstream(
        "tls: { ca: x }",
        "agents[0].upstream.tls (line 4): has no effect: every endpoint is http",
    );
    upstream(
        "connect_timeout: 0s",
        "agents[0].upstream.connect_timeout (line 4): must be from 1ms to 24h, found 0s",
    );
    upstream(
        "health: { path: healthz }",
        "agents[0].upstream.health.path (line 4): must be `card` or begin with `/`",
    );
    upstream(
        "health: { path: /a//b }",
        "agents[0].upstream.health.path (line 4): must not contain `//`",
    );
    upstream(
        "health: { interval: 1s }",
        "agents[0].upstream.health.timeout (line 4): is longer than `interval`: a check would still run when the next begins",
    );
    upstream(
        "health: { unhealthy_after: 0 }",
        "agents[0].upstream.health.unhealthy_after (line 4): must be from 1 to 100, found 0",
    );
    upstream(
        "ejection: { most: 50 }",
        "agents[0].upstream.ejection.most (line 4): `50` is not a percentage; write a whole number with %, e.g. `50%`",
    );
    upstream(
        "ejection: { most: 0% }",
        "agents[0].upstream.ejection.most (line 4): must be from 1% to 100%, found 0%",
    );
    upstream(
        "panic_threshold: 101 %",
        "agents[0].upstream.panic_threshold (line 4): must be from 0% to 100%, found 101%",
    );
    upstream(
        "ejection: { base: 10m }",
        "agents[0].upstream.ejection.max (line 4): is shorter than `base`, the first time",
    );
    upstream(
        "slow_start: 0s",
        "agents[0].upstream.slow_start (line 4): must be from 1ms to 1h, found 0s",
    );
    upstream(
        "dns_refresh: 0s",
        "agents[0].upstream.dns_refresh (line 4): must be from 100ms to 24h, found 0s",
    );
    upstream(
        "max_in_flight: 0",
        "agents[0].upstream.max_in_flight (line 4): must be from 1 to 1000000, found 0",
    );
    upstream(
        "queue: { length: 70000 }",
        "agents[0].upstream.queue.length (line 4): must be from 0 to 65535, found 70000",
    );
    upstream(
        "hash_on: principal",
        "agents[0].upstream.hash_on (line 4): has no effect; it needs `balance: consistent_hash`",
    );
    upstream(
        "max_connections: 70000",
        "agents[0].upstream.max_connections (line 4): must be from 1 to 65535, found 70000",
    );
    agent(
        "path: /a, upstream: { endpoints: [ { url: https://a } ], tls: { client_private_key: k } }",
        "agents[0].upstream.tls.client_certificate (line 4): is required with the private key",
    );
    agent_key(
        "body_bytes: 2GiB",
        "agents[0].body_bytes (line 4): must be from 1B to 1GiB, found 2GiB",
    );
    agent_key(
        "card: { overrides: { Security_Schemes: {} } }",
        "agents[0].card.overrides.Security_Schemes (line 4): cannot be overridden: the gateway writes it from what it serves and enforces",
    );
    agent_key(
        "card: { overrides: { description: null, iconUrl: null } }",
        "agents[0].card.overrides.description (line 4): cannot be removed: readers refuse a card without it",
    );
    agent_key(
        "card: { file: a.json, url: http://a/card }",
        "agents[0].card (line 4): has both `file` and `url`; keep one of them",
    );
    agent_key(
        "card: { file: a.json }",
        "agents[0].card.file (line 4): cannot read /nonexistent/a.json: No such file or directory (os error 2)",
    );
    agent_key(
        "card: { approved: a.json }",
        "agents[0].card.approved (line 4): cannot read /nonexistent/a.json: No such file or directory (os error 2)",
    );
    agent_key(
        "card: { on_change: refuse }",
        "agents[0].card.on_change (line 4): expected `publish`, `hold` or `alert`, found `refuse`",
    );
    agent_key(
        "card: { hide_skills: [ \"\" ] }",
        "agents[0].card.hide_skills[0] (line 4): is empty; write a skill's id, or a part of it and `*`",
    );
    agent_key(
        "card: { skills: { plan: {} } }",
        "agents[0].card.skills.plan (line 4): changes nothing; give `name`, `description`, `tags` or `examples`",
    );
    agent_key(
        "card: { url: /card.json }",
        "agents[0].card.url (line 4): must be an absolute URL with `http://` or `https://`",
    );
}

const ONE_CREDENTIAL: &str =
    "needs exactly one of `header`, `bearer`, `basic`, `client_credentials` and `token_exchange`";

#[test]
fn credentials() {
    let credential = |text: &str, place: &str, cause: &str| {
        upstream(
            &format!("credential: {{ {text} }}"),
            &format!("agents[0].upstream.credential{place} (line 4): {cause}"),
        );
    };
    credential("", "", ONE_CREDENTIAL);
    credential(
        "bearer: { token: a }, basic: { username: a, password: b }",
        "",
        ONE_CREDENTIAL,
    );
    credential("bearer: {}", ".bearer", "needs `token` or `token_file`");
    credential(
        "bearer: { token: hunter2, token_file: b }",
        ".bearer",
        "has both `token` and `token_file`; keep one of them",
    );
    credential("bearer: { token: \"${EMPTY}\" }", ".bearer.token", "is empty");
    credential(
        "bearer: { token: \"${BREAK}\" }",
        ".bearer.token",
        "contains a character that a header cannot carry, such as a line break",
    );
    credential(
        "bearer: { token_file: b }",
        ".bearer.token_file",
        "cannot read /nonexistent/b: No such file or directory (os error 2)",
    );
    credential(
        "basic: { username: \"a:b\", password: c }",
        ".basic.username",
        "must not contain a colon or control characters",
    );
    credential(
        "header: { name: Host, value: a }",
        ".header.name",
        "`host` is written by the gateway and cannot be a credential",
    );
    credential(
        "header: { name: \"a b\", value: a }",
        ".header.name",
        "`a b` cannot be the name of a header",
    );
}

#[test]
fn rate_limits() {
    let one = |text: &str, place: &str, cause: &str| {
        section(
            "rate_limits",
            &format!("[ {{ per: agent, {text} }} ]"),
            &format!("rate_limits[0]{place} (line 5): {cause}"),
        );
    };
    let bounds = "needs exactly one of `rate`, `task_creations`, `polls`, `concurrent`, `open_streams`, `open_tasks`, `bytes_in` and `bytes_out`";
    one("name: a", "", bounds);
    one("rate: 1/s, concurrent: 1", "", bounds);
    one("bytes_in: 1B/s, bytes_out: 1B/s", "", bounds);
    let rates = "belongs to `rate`, `task_creations` or `polls`";
    one("concurrent: 1, burst: 1", ".burst", rates);
    one("open_tasks: 0", ".open_tasks", "would admit nothing; at least 1");
    one("bytes_in: 0B/s", ".bytes_in", "`0B/s` would admit nothing; at least 1B");
    let size = "is no number of bytes in a period; write a size a second, minute or hour, e.g. `512KiB/s`, `100MiB/min` or `1GiB/h`";
    one("bytes_out: 1GiB/day", ".bytes_out", &format!("`1GiB/day` {size}"));
    one(
        "bytes_out: 10/h",
        ".bytes_out",
        "`10` has no unit; write e.g. `10B` or `10KiB`",
    );
    let operations = [
        (
            "task_creations: 1/h",
            "task_creations",
            "is about sends that begin a task",
        ),
        ("open_tasks: 1", "open_tasks", "is about sends that begin a task"),
        ("polls: 1/s", "polls", "is about `get` and `list`"),
        ("bytes_in: 1B/s", "bytes_in", "is asked before the operation is known"),
    ];
    for (text, name, why) in operations {
        one(
            &format!("{text}, operations: [ send ]"),
            ".operations",
            &format!("does not go with `{name}`, which {why}"),
        );
    }
    section(
        "rate_limits",
        "[ { per: address, open_tasks: 1 } ]",
        "rate_limits[0].per (line 5): tasks have owners and no addresses; `open_tasks` is per `principal` or `agent`",
    );
    one("rate: 1/s, burst: 0", ".burst", "would admit nothing; at least 1");
    one("open_streams: 0", ".open_streams", "would admit nothing; at least 1");
    one(
        "concurrent: 1, operations: [ get, get ]",
        ".operations[1]",
        "`get` is named twice",
    );
    check(
        &file(&[
            ("rate_limits", "[ { name: a, per: agent, rate: 1/s } ]"),
            (
                "agents",
                "[ { name: maps, path: /maps, upstream: { endpoints: [ { url: http://a:1 } ] }, limits: [ { name: a, per: agent, rate: 1/s } ] } ]",
            ),
        ]),
        &environment(),
        "agents[0].limits[0].name (line 4): `a` is already used by rate_limits[0].name",
    );
}

#[test]
fn page_tokens() {
    let one = |text: &str, expected: &str| section("page_tokens", text, expected);
    let short = "has fewer than 32 characters; make one with `openssl rand -base64 32`";
    one(
        "{ keys: [ { value: 0123456789abcdef0123456789abcde } ] }",
        &format!("page_tokens.keys[0].value (line 5): {short}"),
    );
    one(
        "{ keys: [ { value: 0123456789abcdef0123456789abcdef }, { value: \"${SET}\" } ] }",
        &format!("page_tokens.keys[1].value (line 5): {short}"),
    );
    one(
        "{ keys: [ {} ] }",
        "page_tokens.keys[0] (line 5): needs `value` or `value_file`",
    );
    one(
        "{ keys: [ { value: a, value_file: b } ] }",
        "page_tokens.keys[0] (line 5): has both `value` and `value_file`; keep one of them",
    );
    one(
        "{ lifetime: 999ms }",
        "page_tokens.lifetime (line 5): must be from 1s to 30d, found 999ms",
    );
    one(
        "{ lifetime: 31d }",
        "page_tokens.lifetime (line 5): must be from 1s to 30d, found 31d",
    );
    one(
        "{ key: [] }",
        "page_tokens.key (line 5): unknown key; did you mean `keys`?",
    );
}

#[test]
fn push() {
    let one = |text: &str, expected: &str| section("push", text, expected);
    one(
        "{ keys: [ { value: 0123456789abcdef0123456789abcde } ] }",
        "push.keys[0].value (line 5): has fewer than 32 characters; make one with `openssl rand -base64 32`",
    );
    one(
        "{ keys: [ {} ] }",
        "push.keys[0] (line 5): needs `value` or `value_file`",
    );
    one(
        "{ url: gateway.internal }",
        "push.url (line 5): must be an absolute URL with `http://` or `https://`",
    );
    one("{ url: \"https://a/?b\" }", "push.url (line 5): must not have a query");
    let host = "is not a host name or a pattern of some; write e.g. `hooks.example.com` or `*.example.com`, without scheme or port";
    one(
        "{ hosts: [ ok.example, \"https://a.example\" ] }",
        &format!("push.hosts[1] (line 5): {host}"),
    );
    one("{ hosts: [ \"\" ] }", &format!("push.hosts[0] (line 5): {host}"));
    one(
        "{ networks: [ 10.0.0.0/8, 10.0.0 ] }",
        "push.networks[1] (line 5): `10.0.0` is not an IP address or network; write e.g. `10.0.0.5` or `10.0.0.0/8`",
    );
    for (key, value, range) in [
        ("lifetime", "999ms", "1s to 365d"),
        ("timeout", "0s", "1ms to 1h"),
        ("body_bytes", "1023B", "1KiB to 1GiB"),
        ("concurrent", "0", "1 to 100000"),
    ] {
        one(
            &format!("{{ {key}: {value} }}"),
            &format!("push.{key} (line 5): must be from {range}, found {value}"),
        );
    }
    agent_key(
        "push: { url: maps }",
        "agents[0].push.url (line 4): must be an absolute URL with `http://` or `https://`",
    );
    let agent = |name: &str, path: &str| {
        format!("{{ name: {name}, path: {path}, upstream: {{ endpoints: [ {{ url: http://a:1 }} ] }} }}")
    };
    let meet = |first: &str, second: &str, push: &str| {
        let agents = format!("[ {}, {} ]", agent("a", first), agent("b", second));
        file(&[("agents", agents.as_str()), ("push", push)])
    };
    let on = "{ keys: [ { value: 0123456789abcdef0123456789abcdef } ] }";
    let cause = |at: usize, base: &str| {
        format!(
            "agents[{at}].path (line 4): is where notifications for the agent at `{base}` come (`push`); choose another path"
        )
    };
    check(&meet("/maps", "/maps/push", on), &environment(), &cause(1, "/maps"));
    check(&meet("/push", "/", on), &environment(), &cause(0, "/"));
}

#[test]
fn envelope() {
    const KEYS: (&str, &str) = (
        "security_schemes",
        "{ key: { type: apiKey, in: header, name: k, keys: [ { id: a, hash: \"sha256:62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef\" } ] } }",
    );
    const REACHED: &str =
        "{ name: maps, path: /maps, envelope: { agent_id: m }, upstream: { endpoints: [ { url: http://a:1 } ] } }";
    // The agents stand on line 4, the section on line 5.
    let both = |agents: &str, envelope: &str, expected: &str| {
        let agents = format!("[ {agents} ]");
        let text = file(&[
            ("agents", agents.as_str()),
            ("envelope", envelope),
            KEYS,
            ("security", "[ { key: [] } ]"),
        ]);
        check(&text, &environment(), expected);
    };
    let section_of = |envelope: &str, expected: &str| both(REACHED, envelope, expected);
    section_of(
        "{ pat: /x }",
        "envelope.pat (line 5): unknown key; did you mean `path`?",
    );
    section_of("{ path: letters }", "envelope.path (line 5): must begin with `/`");
    section_of(
        "{ path: / }",
        "envelope.path (line 5): must not be `/`, which is an agent's",
    );
    section_of(
        "{ path: \"/a:b\" }",
        "envelope.path (line 5): must not contain `:`, by which paths of A2A end",
    );
    for path in ["/maps", "/maps/letters"] {
        section_of(
            &format!("{{ path: {path} }}"),
            "envelope.path (line 5): is at or below agents[0].path; choose another path",
        );
    }
    section_of(
        "{ security: [ { kez: [] } ] }",
        "envelope.security[0].kez (line 5): there is no `kez` in security_schemes; did you mean `key`?",
    );
    section_of(
        "{ senders: [ { agent_id: a, callers: [] } ] }",
        "envelope.senders[0].callers (line 5): is empty, so that it would mean nobody",
    );
    section_of(
        "{ senders: [ { agent_id: \"\", callers: [ a ] } ] }",
        "envelope.senders[0].agent_id (line 5): is empty",
    );
    for (key, value, range) in [
        ("session_timeout", "999ms", "1s to 30d"),
        ("max_sessions", "0", "1 to 10000000"),
        ("duplicate_window", "25h", "1s to 24h"),
        ("max_messages", "0", "1 to 10000000"),
    ] {
        section_of(
            &format!("{{ {key}: {value} }}"),
            &format!("envelope.{key} (line 5): must be from {range}, found {value}"),
        );
    }
    for (key, value, range) in [
        ("lifetime", "0s", "1s to 24h"),
        ("most", "0", "1 to 10000000"),
        ("body_bytes", "1023B", "1KiB to 1GiB"),
    ] {
        section_of(
            &format!("{{ authentication: {{ {key}: {value} }} }}"),
            &format!("envelope.authentication.{key} (line 5): must be from {range}, found {value}"),
        );
    }
    section(
        "envelope",
        "{}",
        "envelope (line 5): no agent has an `envelope.agent_id`, so that every message would be refused\n\
         envelope (line 5): needs `security` (its own, or the general one): no card says what senders must show",
    );
    agent_key(
        "envelope: { agent_id: m }",
        "agents[0].envelope.agent_id (line 4): belongs to the section `envelope`, which is not there",
    );
    both(
        &format!("{REACHED}, {}", REACHED.replace("maps", "other")),
        "{}",
        "agents[1].envelope.agent_id (line 4): `m` is already used by agents[0].envelope.agent_id",
    );
    let speaks = |more: &str, upstream: &str, expected: &str| {
        let agent = format!(
            "{{ name: yard, {more}, upstream: {{ protocol: {{ binding: envelope }}, endpoints: [ {{ url: http://a:1 }} ], {upstream} }} }}"
        );
        both(&format!("{REACHED}, {agent}"), "{}", expected);
    };
    const SPEAKS: &str = "an agent with `binding: envelope`";
    speaks(
        "security: []",
        "balance: round_robin",
        &format!("agents[1].envelope.agent_id (line 4): is missing: {SPEAKS} is reached by nothing else"),
    );
    speaks(
        "envelope: { agent_id: y }, path: /yard",
        "balance: round_robin",
        &format!("agents[1].path (line 4): {SPEAKS} has no place of its own: messages come to `envelope.path`"),
    );
    speaks(
        "envelope: { agent_id: y }, policy: { skill: k }",
        "balance: round_robin",
        &format!(
            "agents[1].policy.skill (line 4): has no effect: {SPEAKS} has no card, and its messages pass as they came"
        ),
    );
    speaks(
        "envelope: { agent_id: y }",
        "health: { interval: 10s }",
        &format!(
            "agents[1].upstream.health.path (line 4): names the card, and {SPEAKS} has none; name a path of its server"
        ),
    );
    let agent = "{ name: yard, envelope: { agent_id: y }, upstream: { protocol: { binding: envelope, generation: \"1.0\" }, endpoints: [ { url: http://a:1 } ] } }";
    both(
        agent,
        "{}",
        &format!("agents[0].upstream.protocol.generation (line 4): {SPEAKS} speaks no generation of A2A"),
    );
    let text = file(&[
        ("agents", &format!("[ {} ]", agent.replace(", generation: \"1.0\"", ""))),
        ("envelope", "{ security: [ { key: [] } ] }"),
        KEYS,
    ]);
    check(
        &text,
        &environment(),
        &format!("agents[0].security (line 4): is missing: {SPEAKS} has no card that says it"),
    );
}

#[test]
fn what_several_endpoints_are_asked() {
    upstream(
        "probe: { timeout: 0s }",
        "agents[0].upstream.probe.timeout (line 4): must be from 1ms to 1h, found 0s",
    );
    upstream(
        "probe: { concurrent: 0 }",
        "agents[0].upstream.probe.concurrent (line 4): must be from 1 to 10000, found 0",
    );
    upstream(
        "list: { partly: true }",
        "agents[0].upstream.list.partly (line 4): unknown key; known here: `partial`",
    );
}
