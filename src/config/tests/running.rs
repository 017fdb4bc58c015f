//! One configuration after another: what is the same, what needs a restart, which files are read.

use super::*;
use crate::config::{Environment, Problem};

const STATE: &str = "state: { store: memory }\n";

const AGENT: &str = "agents: [ { name: a, path: /a, upstream: { endpoints: [ { url: http://a } ] } } ]\n";

fn with_agent(text: &str) -> Config {
    good(&format!("{text}{AGENT}"), &[])
}

#[test]
fn what_is_read_at_the_start_only_is_named() {
    fn check(before: &str, after: &str, expected: &[&str]) {
        let (before, after) = (with_agent(before), with_agent(after));
        let keys = |problems: Vec<Problem>| problems.into_iter().map(|problem| problem.key).collect::<Vec<_>>();
        assert_eq!(keys(before.needs_restart(&after)), expected);
        assert_eq!(before.says_the_same(&after), expected.is_empty());
        assert!(before.needs_restart(&before).is_empty());
    }
    check(STATE, STATE, &[]);
    check(STATE, "state: { store: memory } # a remark\n", &[]);
    check(STATE, "state: { store: embedded, path: a }\n", &["state.store"]);
    check(
        STATE,
        "state: { store: redis, redis: { url: redis://a } }\n",
        &["state.store"],
    );
    check(
        "state: { store: embedded, path: a }\n",
        "state: { store: embedded, path: b, sync_interval: 3s, max_tasks: 7, retention: 1h }\nworkers: 1\n",
        &[
            "state.path",
            "state.sync_interval",
            "state.max_tasks",
            "state.retention",
            "workers",
        ],
    );
    check(
        "",
        "admin: { address: 127.0.0.1:9 }\nlog: { format: json }\n",
        &["admin.address", "log.format"],
    );
    check("", "admin: { enabled: false }\n", &["admin.enabled"]);
}

#[test]
fn every_key_of_the_shared_store_is_read_at_the_start_only() {
    fn check(before: &str, after: &str, expected: &[&str]) {
        let of = |redis: &str| with_agent(&format!("state: {{ store: redis, redis: {{ {redis} }} }}\n"));
        let problems = of(before).needs_restart(&of(after));
        let keys: Vec<String> = problems.into_iter().map(|problem| problem.key).collect();
        assert_eq!(keys, expected, "{before} to {after}");
    }
    let url = "url: redis://a";
    check(url, url, &[]);
    check(url, "url: redis://a:6379/", &[]);
    for other in ["redis://b", "redis://a:6380", "rediss://a"] {
        check(url, &format!("url: \"{other}\""), &["state.redis.url"]);
    }
    let password = |text: &str| format!("{url}, password: {text}");
    check(&password("one"), &password("one"), &[]);
    check(&password("one"), &password("two"), &["state.redis.password"]);
    check(url, &password("one"), &["state.redis.password"]);
    check(
        url,
        &format!(
            "{url}, database: 3, username: u, password: p, timeout: 1s, connect_timeout: 1s, cache_ttl: 1s, key_prefix: x"
        ),
        &[
            "state.redis.database",
            "state.redis.username",
            "state.redis.password",
            "state.redis.timeout",
            "state.redis.connect_timeout",
            "state.redis.cache_ttl",
            "state.redis.key_prefix",
        ],
    );
    let secure = "url: rediss://a";
    let files = "tls: { ca: ca.pem, client_certificate: c.crt, client_private_key: c.key }";
    check(
        secure,
        &format!("{secure}, {files}"),
        &[
            "state.redis.tls.ca",
            "state.redis.tls.client_certificate",
            "state.redis.tls.client_private_key",
        ],
    );
    let sentinel = "sentinel: { urls: [ redis://a ], master: m }";
    let cluster = "cluster: [ redis://a ]";
    check(url, sentinel, &["state.redis"]);
    check(sentinel, cluster, &["state.redis"]);
    check(cluster, url, &["state.redis"]);
    check(cluster, "cluster: [ redis://a, redis://b ]", &["state.redis.cluster"]);
    check(
        sentinel,
        "sentinel: { urls: [ redis://b ], master: n }",
        &["state.redis.sentinel.urls", "state.redis.sentinel.master"],
    );
    check(
        sentinel,
        "sentinel: { urls: [ rediss://a ], master: m }",
        &["state.redis.sentinel.urls"],
    );
}

#[test]
fn what_the_file_of_a_stores_password_holds_is_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let of = |redis: &str| {
        let text = format!("{BASE}state: {{ store: redis, redis: {{ {redis} }} }}\n{AGENT}");
        parse(&text, folder.path(), &Environment::default()).unwrap_or_else(|problems| panic!("{}", render(&problems)))
    };
    let keys = |before: &Config, after: &Config| -> Vec<String> {
        let problems = before.needs_restart(after);
        problems.into_iter().map(|problem| problem.key).collect()
    };
    write("one", "first\n");
    write("two", "first\n");
    for (section, before, other) in [
        (
            "state.redis",
            "url: redis://a, password_file: one",
            "url: redis://a, password_file: two",
        ),
        (
            "state.redis.sentinel",
            "sentinel: { urls: [ redis://a ], master: m, password_file: one }",
            "sentinel: { urls: [ redis://a ], master: m, password_file: two }",
        ),
    ] {
        write("one", "first\n");
        let started = of(before);
        write("one", "second\n");
        assert!(started.needs_restart(&of(before)).is_empty(), "{before}");
        let file = format!("{section}.password_file");
        assert_eq!(keys(&started, &of(other)), [file.as_str()], "another file");
        let none = before.replace(", password_file: one", "");
        assert_eq!(keys(&started, &of(&none)), [file.as_str()], "no file");
    }
    let inline = of("url: redis://a, password: second");
    assert_eq!(
        keys(&of("url: redis://a, password_file: one"), &inline),
        ["state.redis.password_file"]
    );
}

#[test]
fn everything_else_may_change() {
    let before = with_agent("");
    for text in [
        "drain: 1s\n",
        "log: { level: warn }\n",
        "log: { access: false }\n",
        "limits: { header_fields: 7 }\n",
        "rate_limits: [ { per: address, rate: 1/s } ]\n",
    ] {
        let after = with_agent(text);
        assert!(before.needs_restart(&after).is_empty(), "{text}");
        assert!(!before.says_the_same(&after), "{text}");
    }
}

#[test]
fn every_named_file_is_told_once() {
    let text = "
security_schemes:
  a: { type: apiKey, in: header, name: X-A, keys_file: keys.yaml }
  b: { type: http, scheme: basic, users_file: users.yaml }
  c: { type: http, scheme: bearer, issuer: https://i, audience: [ a ], jwks_file: jwks.json }
  d: { type: http, scheme: bearer, issuer: https://j, audience: [ a ], jwks_url: https://j/keys, jwks_ca: ca.pem }
agents:
  - name: a
    path: /a
    security: [ { a: [] } ]
    upstream:
      endpoints: [ { url: https://a } ]
      tls: { ca: ca.pem, client_certificate: c.crt, client_private_key: c.key }
      credential: { client_credentials: { token_url: https://t, client_id: g, client_secret: s, ca: tokens-ca.pem } }
      assertion: {}
    card: { verify: { jwks_file: card-keys.json, jku: [ https://k ], jwks_ca: card-ca.pem } }
assertions: { keys: [ { private_key: sign.pem } ] }
card_signatures: { keys: [ { private_key: cards.pem } ] }
";
    let text = BASE.replace(
        "127.0.0.1:0,",
        "127.0.0.1:0, tls: { certificate: s.crt, private_key: s.key, client_certificates: optional, client_ca: ca.pem, client_crls: [ c.crl ] },",
    ) + text;
    let config = parse(&text, Path::new("/f"), &Environment::default())
        .unwrap_or_else(|problems| panic!("{}", render(&problems)));
    let files: Vec<String> = config.files().iter().map(|file| file.display().to_string()).collect();
    let expected = [
        "c.crl",
        "c.crt",
        "c.key",
        "ca.pem",
        "card-ca.pem",
        "card-keys.json",
        "cards.pem",
        "jwks.json",
        "keys.yaml",
        "s.crt",
        "s.key",
        "sign.pem",
        "tokens-ca.pem",
        "users.yaml",
    ];
    assert_eq!(files, expected.map(|name| format!("/f/{name}")));
}

#[test]
fn upstreams_differ_unless_it_is_in_the_secret_alone() {
    let of = |keys: &str| one_agent_of(keys).upstream;
    let base = of("credential: { bearer: { token: one } }");
    assert!(base.differs_in_secret_at_most(&base));
    assert!(base.differs_in_secret_at_most(&of("credential: { bearer: { token: two } }")));
    for other in [
        "connect_timeout: 7s, credential: { bearer: { token: one } }",
        "credential: { basic: { username: a, password: one } }",
        "credential: { header: { name: X-A, value: one } }",
        "connect_timeout: 5s",
    ] {
        assert!(!base.differs_in_secret_at_most(&of(other)), "{other}");
    }
    let header = of("credential: { header: { name: X-A, value: one } }");
    assert!(!header.differs_in_secret_at_most(&of("credential: { header: { name: X-B, value: one } }")));
}

#[test]
fn what_is_got_from_token_servers_is_got_alike_unless_more_than_the_secret_differs() {
    let of = |grant: &str, keys: &str| {
        one_agent_of(&format!(
            "credential: {{ {grant}: {{ token_url: https://t, client_id: g, {keys} }} }}"
        ))
        .upstream
    };
    for grant in ["client_credentials", "token_exchange"] {
        let base = of(grant, "client_secret: one");
        assert!(base.differs_in_secret_at_most(&of(grant, "client_secret: two")));
        for other in [
            "scopes: [ a ]",
            "audience: a",
            "resource: urn:a",
            "authentication: post",
            "ca: a.pem",
            "timeout: 1s",
        ] {
            let other = of(grant, &format!("client_secret: one, {other}"));
            assert!(!base.differs_in_secret_at_most(&other), "{grant}: {other:?}");
        }
    }
    let granted = of("client_credentials", "client_secret: one");
    assert!(!granted.differs_in_secret_at_most(&of("token_exchange", "client_secret: one")));
}

fn one_agent_of(upstream: &str) -> Agent {
    let text = format!(
        "agents: [ {{ name: maps, path: /a, upstream: {{ endpoints: [ {{ url: http://a }} ], {upstream} }} }} ]"
    );
    good(&text, &[]).agents.remove(0)
}
