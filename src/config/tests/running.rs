//! One configuration after another: what is the same, what needs a restart, which files are read.

use super::*;
use crate::config::{Environment, Problem};

const STATE: &str = "state: { store: memory }\n";

fn with_agent(text: &str) -> Config {
    good(
        &format!("{text}agents: [ {{ name: a, path: /a, upstream: {{ endpoints: [ {{ url: http://a }} ] }} }} ]\n"),
        &[],
    )
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
        "jwks.json",
        "keys.yaml",
        "s.crt",
        "s.key",
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

fn one_agent_of(upstream: &str) -> Agent {
    let text = format!(
        "agents: [ {{ name: maps, path: /a, upstream: {{ endpoints: [ {{ url: http://a }} ], {upstream} }} }} ]"
    );
    good(&text, &[]).agents.remove(0)
}
