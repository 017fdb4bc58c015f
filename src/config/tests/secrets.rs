//! Secrets arrive and do not show.

use std::path::Path;

use serde_json::json;

use super::super::{Environment, UpstreamCredential, parse, redacted, render, shown_url};
use super::{BASE, good};

#[test]
fn secrets_come_from_files_without_their_newline() {
    let folder = tempfile::tempdir().unwrap();
    for (written, expected) in [("a b\n", "a b"), ("a\r\n", "a"), ("a", "a")] {
        std::fs::write(folder.path().join("token"), written).unwrap();
        let text = format!(
            "{BASE}agents: [ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: http://a }} ], credential: {{ header: {{ name: X-Key, value_file: token }} }} }} }} ]"
        );
        let config = parse(&text, folder.path(), &Environment::default()).unwrap();
        match &config.agents[0].upstream.credential {
            Some(UpstreamCredential::Header { name, value }) => {
                assert_eq!(
                    (name.as_str(), value.expose().as_str()),
                    ("x-key", expected),
                    "{written:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_secret_knows_its_file_and_what_stands_there_by_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let secret = |credential: &str| {
        std::fs::write(&path, "first\n").unwrap();
        let text = format!(
            "{BASE}agents: [ {{ name: o, path: /o, upstream: {{ endpoints: [ {{ url: http://o }} ] }} }}, {{ name: a, path: /a, upstream: {{ endpoints: [ {{ url: http://a }} ], credential: {{ {credential} }} }} }} ]"
        );
        let mut config = parse(&text, folder.path(), &Environment::default()).unwrap();
        let credential = config.agents.remove(1).upstream.credential.unwrap();
        credential.secret().clone()
    };
    for credential in [
        "header: { name: X-Key, value_file: secret }",
        "bearer: { token_file: secret }",
        "basic: { username: u, password_file: secret }",
        "client_credentials: { token_url: https://t, client_id: u, client_secret_file: secret }",
        "token_exchange: { token_url: https://t, client_id: u, client_secret_file: secret }",
    ] {
        let found = secret(credential);
        assert_eq!(found.file(), Some(&*path), "{credential}");
        for (written, expected) in [
            ("a b\n", Some("a b")),
            ("a\r\n", Some("a")),
            ("a", Some("a")),
            ("\n", None),
        ] {
            std::fs::write(&path, written).unwrap();
            let read = found.read_again();
            assert_eq!(
                read.as_ref().ok().map(|secret| secret.expose().as_str()),
                expected,
                "{written:?}"
            );
            assert!(
                read.is_ok_and(|read| read.file() == Some(&*path)) == expected.is_some(),
                "{written:?}"
            );
        }
    }
    let inline = secret("bearer: { token: inline }");
    assert_eq!(
        (inline.file(), inline.read_again().unwrap().expose().as_str()),
        (None, "inline")
    );
}

#[test]
fn nothing_shows_a_secret() {
    let text = "
security_schemes:
  key: { type: apiKey, in: header, name: X, keys: [ { id: partner, hash: \"sha256:abab:1111111111111111111111111111111111111111111111111111111111111111\" } ] }
  opaque: { type: http, scheme: bearer, issuer: i, introspection: { url: https://i, client_id: gateway, client_secret: \"${T}\" } }
agents:
  - name: a
    path: /a
    upstream: { endpoints: [ { url: http://a } ], credential: { basic: { username: gateway, password: hunter2 } } }
    card: { overrides: { iconUrl: \"https://user:hunter2@icons.example.com/a?b@c\" } }
  - { name: b, path: /b, upstream: { endpoints: [ { url: http://a } ], credential: { bearer: { token: \"${T}\" } } } }
  - { name: c, path: /c, upstream: { endpoints: [ { url: http://a } ], credential: { header: { name: X-Key, value: hunter2 } } } }";
    let config = good(text, &[("T", "hunter2")]);
    let shown = redacted(&config);
    assert_eq!(
        shown["security_schemes"]["opaque"]["introspection"]["client_secret"],
        "[redacted]"
    );
    for text in [
        shown.to_string(),
        format!("{:?}", config.agents[1].upstream),
        format!("{:?}", config.security_schemes),
    ] {
        for secret in ["hunter2", "1111", "abab"] {
            assert!(!text.contains(secret), "{secret} shows in {text}");
        }
    }
    let agents = &shown["agents"];
    assert_eq!(
        agents[0]["upstream"]["credential"],
        json!({ "basic": { "username": "gateway", "password": "[redacted]" } })
    );
    assert_eq!(
        agents[1]["upstream"]["credential"],
        json!({ "bearer": { "token": "[redacted]" } })
    );
    assert_eq!(
        agents[2]["upstream"]["credential"],
        json!({ "header": { "name": "x-key", "value": "[redacted]" } })
    );
    assert_eq!(
        agents[0]["card"]["overrides"]["iconUrl"],
        "https://icons.example.com/a?redacted"
    );
    assert_eq!(
        shown["security_schemes"]["key"]["keys"],
        json!([{ "id": "partner", "hash": "[redacted]", "scopes": [] }])
    );
    let environment: Environment = [("T", "hunter2")].into_iter().collect();
    assert!(!format!("{environment:?}").contains("hunter2"));
}

/// What is shown is a configuration that means the same, where it hides nothing.
#[test]
fn what_is_shown_can_be_read_again() {
    let text = "
state: { store: memory }
security_schemes:
  token: { type: http, scheme: bearer, issuer: i, audience: [ a ], jwks_file: /keys }
  machine: { type: mutualTLS, allow: [ \"dns:*.x\" ] }
  found: { type: openIdConnect, openIdConnectUrl: https://i, issuer: i, audience: [ a ], jwks_ca: /ca, profile: at+jwt }
  other: { type: http, scheme: digest, check: { url: https://c, ca: /ca, concurrent: 7, cache_ttl: 1m } }
security: [ { token: [] } ]
agents:
  - name: a
    path: /
    upstream: { endpoints: [ { url: http://a } ], send_timeout: 90s }
    limits: [ { per: agent, rate: 60/min } ]";
    let shown = redacted(&good(text, &[]));
    let again = parse(&shown.to_string(), Path::new("/elsewhere"), &Environment::default())
        .unwrap_or_else(|problems| panic!("{}\n{shown:#}", render(&problems)));
    assert_eq!(redacted(&again), shown);
}

#[test]
fn urls_for_people_hide_what_may_be_secret() {
    let check = |url: &str, expected: &str| assert_eq!(shown_url(url), expected, "{url}");
    check("https://a/b", "https://a/b");
    check("https://a:1/b?key=hunter2&c", "https://a:1/b?redacted");
    check("https://a?hunter2#d", "https://a?redacted#d");
    check("https://user:hunter2@a:1/b", "https://a:1/b");
    check("https://hunter2@a/b@c", "https://a/b@c");
    check("https://user:hunter2/x@a/b", "https://a/b");
    check("https://user:hunter2?x@a/b", "https://a/b");
    check("http://[::1]:1/a@b?hunter2", "http://[::1]:1/a@b?redacted");
    check("http://[::1]/a@b", "http://[::1]/a@b");
    check("/b?hunter2", "/b?redacted");
    check("", "");
}
