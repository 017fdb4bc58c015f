//! Several mistakes in one file: all of them, each once, and nothing that only follows from another one.

use std::fs;
use std::path::Path;

use a2a_gateway::app;
use a2a_gateway::config::{Environment, Problem, render};

use super::invalid::{agent, agent_key, check, environment, file, listener, scheme, section, upstream};

/// The good file with these sections, in a folder that has `broken` (no certificate, no key, no list) and nothing else
/// that cases name.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("broken"), "nothing of use\n").unwrap();
        Self(folder)
    }

    fn with(&self, sections: &[(&str, &str)]) -> std::path::PathBuf {
        let path = self.0.path().join("gateway.yaml");
        fs::write(&path, file(sections)).unwrap();
        path
    }

    /// Without the name of the folder.
    fn render(&self, problems: &[Problem]) -> String {
        let folder = format!("{}/", self.0.path().display());
        render(problems).trim_end().replace(&folder, "")
    }
}

/// What `check` and a start say of the file.
#[track_caller]
fn files(sections: &[(&str, &str)], expected: &str) {
    let folder = Folder::new();
    let path = folder.with(sections);
    let problems = match app::check(&path, &environment()) {
        Ok(()) => panic!("accepted, expected: {expected}"),
        Err(app::Error::Config(problems)) => problems,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(folder.render(&problems), expected, "{}", file(sections));
}

const NO_FILE: &str = "No such file or directory (os error 2)";
/// A mistake in the file itself.
const DRAIN: (&str, &str) = ("drain", "5");
const DRAIN_SAYS: &str = "drain (line 5): `5` has no unit; write e.g. `5s` or `5ms`";

fn with_tls(tls: &str) -> String {
    format!("[ {{ name: public, address: \"127.0.0.1:8080\", tls: {{ {tls} }} }} ]")
}

#[test]
fn a_url_says_all_that_is_wrong_with_it() {
    section(
        "public_url",
        "\"ftp://user:hunter2@a:0/b/../c//d?key=hunter2#e\"",
        "public_url (line 1): must begin with `http` or `https`, found `ftp`\n\
         public_url (line 1): must not contain user information (`user:password@`); credentials have their own keys\n\
         public_url (line 1): what it has is not a port from 1 to 65535\n\
         public_url (line 1): the path must not contain `//`\n\
         public_url (line 1): the path must not contain the segments `.` or `..`\n\
         public_url (line 1): must not have a query\n\
         public_url (line 1): must not have a fragment (`#`)",
    );
    section(
        "public_url",
        "http://a..b:70000/",
        "public_url (line 1): `70000` is not a port from 1 to 65535\n\
         public_url (line 1): `a..b` is not a host name or address",
    );
    section(
        "public_url",
        "\"http://a b/c d?e\"",
        "public_url (line 1): must be ASCII without spaces\n\
         public_url (line 1): must not have a query",
    );
}

#[test]
fn a_password_in_a_url_is_never_shown() {
    for url in [
        "http://user:hunter2@a:b/",
        "http://user:hunter2/@a/",
        "http://user:hunter2?@a/",
        "http://hunter2 @a/",
    ] {
        let text = file(&[("public_url", &format!("\"{url}\""))]);
        let problems = a2a_gateway::config::parse(&text, Path::new(""), &environment()).unwrap_err();
        let shown = render(&problems);
        assert!(!shown.is_empty() && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn wrong_urls_do_not_hide_each_other() {
    agent(
        "path: /maps, card: { url: \"ftp://a/#b\" }, upstream: { endpoints: [ { url: a }, { url: \"http://a:x/?b\" }, { url: \"http://a:x/?c\" } ] }",
        "agents[0].upstream.endpoints[0].url (line 4): must be an absolute URL with `http://` or `https://`\n\
         agents[0].upstream.endpoints[1].url (line 4): `x` is not a port from 1 to 65535\n\
         agents[0].upstream.endpoints[1].url (line 4): must not have a query\n\
         agents[0].upstream.endpoints[2].url (line 4): `x` is not a port from 1 to 65535\n\
         agents[0].upstream.endpoints[2].url (line 4): must not have a query\n\
         agents[0].upstream.endpoints[2].url (line 4): `http://a:x/?redacted` is already used by agents[0].upstream.endpoints[1].url\n\
         agents[0].card.url (line 4): must begin with `http` or `https`, found `ftp`\n\
         agents[0].card.url (line 4): must not have a fragment (`#`)",
    );
}

#[test]
fn a_route_says_all_that_is_wrong_with_it() {
    agent(
        "path: \"maps//%2e%2e/.well-known/\", upstream: { endpoints: [ { url: http://a:1 } ] }",
        "agents[0].path (line 4): must begin with `/`\n\
         agents[0].path (line 4): must not contain `//`\n\
         agents[0].path (line 4): must not contain the segments `.` or `..`\n\
         agents[0].path (line 4): must not end with `/`\n\
         agents[0].path (line 4): must not contain percent-encoded characters\n\
         agents[0].path (line 4): must not contain `.well-known`, under which cards are published",
    );
    agent(
        "path: maps, host: \"https://u:hunter2@a?k=hunter2\", upstream: { endpoints: [ { url: http://a:1 } ] }",
        "agents[0].path (line 4): must begin with `/`\n\
         agents[0].host (line 4): `https://a?redacted` is not a host name; write it without scheme, port or `*`\n\
         agents[0] (line 4): has both `path` and `host`; keep one of them",
    );
}

#[test]
fn agents_that_are_wrong_still_collide() {
    let up = "upstream: { endpoints: [ { url: http://a:1 } ] }";
    section(
        "agents",
        &format!(
            "[ {{ name: a b, path: maps, {up} }}, {{ name: a b, path: maps/, {up} }}, \
             {{ name: c, path: /c, host: c.example.com, {up} }}, {{ name: d, host: C.example.com, {up} }} ]"
        ),
        "agents[0].name (line 4): must be 1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit\n\
         agents[0].path (line 4): must begin with `/`\n\
         agents[1].name (line 4): must be 1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit\n\
         agents[1].name (line 4): `a b` is already used by agents[0].name\n\
         agents[1].path (line 4): must begin with `/`\n\
         agents[1].path (line 4): must not end with `/`\n\
         agents[1].path (line 4): `maps` is already used by agents[0].path\n\
         agents[2] (line 4): has both `path` and `host`; keep one of them\n\
         agents[3].host (line 4): `c.example.com` is already used by agents[2].host",
    );
    section(
        "agents",
        &format!("[ {{ name: a, path: /, upstream: {{ endpoints: [] }} }}, {{ name: b, path: /, {up} }} ]"),
        "agents[0].upstream.endpoints (line 4): needs at least one endpoint\n\
         agents[1].path (line 4): `/` is already used by agents[0].path",
    );
}

#[test]
fn one_part_of_a_section_does_not_hide_the_next() {
    section(
        "listeners",
        "[ { name: a b, address: x, tls: { certificates: [ { certificate: \"\", private_key: b }, { certificate: a, private_key: \"\" } ] }, trusted_proxies: [ x ] } ]",
        "listeners[0].name (line 2): must be 1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit\n\
         listeners[0].address (line 2): `x` is not an IP address with a port; write e.g. `127.0.0.1:8080`, `0.0.0.0:8443` or `[::]:8443`\n\
         listeners[0].tls.certificates[0].certificate (line 2): is empty; name a file\n\
         listeners[0].tls.certificates[1].private_key (line 2): is empty; name a file\n\
         listeners[0].trusted_proxies[0] (line 2): `x` is not an IP address or network; write e.g. `10.0.0.5` or `10.0.0.0/8`",
    );
    agent(
        "path: /maps, upstream: { endpoints: [ { url: https://a:1 } ], tls: { client_certificate: a, server_name: \"a b\" } }",
        "agents[0].upstream.tls.client_private_key (line 4): is required with the certificate\n\
         agents[0].upstream.tls.server_name (line 4): `a b` is not a host name",
    );
    agent_key(
        "limits: [ { per: agent, operations: [ get, get ] } ]",
        "agents[0].limits[0].operations[1] (line 4): `get` is named twice\n\
         agents[0].limits[0] (line 4): needs exactly one of `rate`, `task_creations`, `polls`, `concurrent`, `open_streams`, `open_tasks`, `bytes_in` and `bytes_out`",
    );
}

#[test]
fn nothing_follows_from_a_value_that_was_given_up() {
    listener(
        "tls: { certificate: a, private_key: b, client_ca: c, client_crls: [ d ], client_certificates: maybe }",
        "listeners[0].tls.client_certificates (line 2): expected `off`, `optional` or `required`, found `maybe`",
    );
    scheme(
        "type: http, scheme: bearer, issuer: i, audience: [ a ], jwks_url: \"${UNSET}\", jwks_ca: a, jwks_refresh: 1m",
        "security_schemes.one.jwks_url (line 5): the environment variable `UNSET` is not set",
    );
    agent_key(
        "limits: [ { per: agent, rate: 5, burst: 2 } ]",
        "agents[0].limits[0].rate (line 4): `5` is not a rate; write a whole number a second, minute or hour, e.g. `10/s`, `60/min` or `1000/h`",
    );
    check(
        &file(&[("security_schemes", "[]"), ("security", "[ { key: [] } ]")]),
        &environment(),
        "security_schemes (line 5): expected a mapping, found a list",
    );
    check(
        &file(&[
            ("listeners", "[ { name: a, address: \"127.0.0.1:9901\" } ]"),
            ("admin", "{ address: \"${UNSET}\" }"),
        ]),
        &environment(),
        "admin.address (line 5): the environment variable `UNSET` is not set",
    );
    section(
        "listeners",
        "[ { name: a, adress: \"127.0.0.1:1\" } ]",
        "listeners[0].adress (line 2): unknown key; did you mean `address`?",
    );
    check(
        "public_url: http://a\nlisteners: [ { name: a, address: \"127.0.0.1:1\" } ]\nagent: []",
        &environment(),
        "agent (line 3): unknown key; agents are a list, `agents`",
    );
    scheme(
        "type: http, scheme: bearer, isuer: i, audience: [ a ], jwks_file: a",
        "security_schemes.one.isuer (line 5): unknown key; did you mean `issuer`?",
    );
    upstream(
        "tls: { ca: \"\", server_name: \"a b\" }",
        "agents[0].upstream.tls (line 4): has no effect: every endpoint is http",
    );
}

#[test]
fn files_are_looked_into_although_the_configuration_has_mistakes() {
    files(
        &[
            DRAIN,
            ("listeners", &with_tls("certificate: no.crt, private_key: no.key")),
        ],
        &format!(
            "listeners[0].tls.certificate (line 2): cannot read no.crt: {NO_FILE}\n\
             listeners[0].tls.private_key (line 2): cannot read no.key: {NO_FILE}\n\
             {DRAIN_SAYS}"
        ),
    );
    files(
        &[
            DRAIN,
            (
                "security_schemes",
                "{ a: { type: apiKey, in: header, name: a, keys_file: broken }, \
                   b: { type: http, scheme: basic, users_file: no }, \
                   c: { type: http, scheme: bearer, issuer: i, audience: [ a ], jwks_file: broken }, \
                   d: { type: http, scheme: bearer, issuer: i, audience: [ a ], jwks_url: \"https://a\", jwks_ca: broken } }",
            ),
        ],
        &format!(
            "{DRAIN_SAYS}\n\
             security_schemes.a.keys_file (line 6): broken cannot be read at line 1: expected a list `keys` of `{{ id, hash, scopes, attributes, expires, label }}`, each member once and no others\n\
             security_schemes.b.users_file (line 6): cannot read no: {NO_FILE}\n\
             security_schemes.c.jwks_file (line 6): broken is refused: it is not a JSON Web Key Set\n\
             security_schemes.d.jwks_ca (line 6): broken holds no certificate"
        ),
    );
    files(
        &[
            DRAIN,
            (
                "agents",
                "[ { name: a, path: /, upstream: { endpoints: [ { url: https://a } ], tls: { ca: no.ca, client_certificate: no.crt, client_private_key: no.key } } } ]",
            ),
        ],
        &format!(
            "agents[0].upstream.tls.ca (line 4): cannot read no.ca: {NO_FILE}\n\
             agents[0].upstream.tls.client_certificate (line 4): cannot read no.crt: {NO_FILE}\n\
             agents[0].upstream.tls.client_private_key (line 4): cannot read no.key: {NO_FILE}\n\
             {DRAIN_SAYS}"
        ),
    );
}

#[test]
fn files_of_a_section_with_mistakes_are_looked_into() {
    files(
        &[(
            "listeners",
            "[ { name: public, address: x, tls: { certificate: no.crt, client_ca: no.ca, client_crls: [ no.crl ], client_certificates: required } } ]",
        )],
        &format!(
            "listeners[0].address (line 2): `x` is not an IP address with a port; write e.g. `127.0.0.1:8080`, `0.0.0.0:8443` or `[::]:8443`\n\
             listeners[0].tls.private_key (line 2): is required with the certificate\n\
             listeners[0].tls.certificate (line 2): cannot read no.crt: {NO_FILE}\n\
             listeners[0].tls.client_ca (line 2): cannot read no.ca: {NO_FILE}\n\
             listeners[0].tls.client_crls[0] (line 2): cannot read no.crl: {NO_FILE}"
        ),
    );
    files(
        &[(
            "security_schemes",
            "{ a: { type: apiKey, in: header, name: \"a b\", keys_file: broken }, b: { type: oauth2, issuer: i, audience: [ a ], jwks_file: no } }",
        )],
        &format!(
            "security_schemes.a.name (line 5): `a b` cannot be the name of a header, parameter or cookie\n\
             security_schemes.b.flows (line 5): is required with the type oauth2\n\
             security_schemes.a.keys_file (line 5): broken cannot be read at line 1: expected a list `keys` of `{{ id, hash, scopes, attributes, expires, label }}`, each member once and no others\n\
             security_schemes.b.jwks_file (line 5): cannot read no: {NO_FILE}"
        ),
    );
    files(
        &[(
            "agents",
            "[ { name: a, path: a, upstream: { endpoints: [ { url: https://a } ], tls: { ca: broken, client_certificate: no.crt }, credential: { bearer: { token_file: no.token } } } } ]",
        )],
        &format!(
            "agents[0].path (line 4): must begin with `/`\n\
             agents[0].upstream.tls.client_private_key (line 4): is required with the certificate\n\
             agents[0].upstream.credential.bearer.token_file (line 4): cannot read no.token: {NO_FILE}\n\
             agents[0].upstream.tls.ca (line 4): broken: holds no PEM certificate (BEGIN CERTIFICATE)\n\
             agents[0].upstream.tls.client_certificate (line 4): cannot read no.crt: {NO_FILE}"
        ),
    );
}

#[test]
fn the_files_of_decision_points_are_looked_into() {
    let points = "{ p: { kind: opa, url: https://a, ca: broken }, q: { kind: opa, url: https://a, ca: no, token_file: no.token } }";
    let expected = format!(
        "decision_points.q.token_file (line 5): cannot read no.token: {NO_FILE}\n\
         decision_points.p.ca (line 5): broken holds no certificate\n\
         decision_points.q.ca (line 5): cannot read no: {NO_FILE}"
    );
    files(&[("decision_points", points)], &expected);
}

/// They are published as fetched ones are, with what the configuration changes.
#[test]
fn cards_in_files_have_what_readers_need() {
    let folder = Folder::new();
    let card = r#"{"name":"n","version":"1","skills":[{"id":"s","name":"S"}]}"#;
    fs::write(folder.0.path().join("card.json"), card).unwrap();
    let render = |card: &str, protocol: &str| {
        let agent = format!(
            "[ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: http://a }} ]{protocol} }}, card: {{ {card} }} }} ]"
        );
        match app::check(&folder.with(&[("agents", &agent)]), &environment()) {
            Ok(()) => String::new(),
            Err(app::Error::Config(problems)) => folder.render(&problems),
            Err(error) => panic!("{error}"),
        }
    };
    let said = "card.json: readers refuse the card: `description` is missing, `defaultInputModes` is missing, `defaultOutputModes` is \
                missing, `skills[0].description` is missing, `skills[0].tags` is missing";
    for name in ["file", "approved"] {
        let expected = format!("agents[0].card.{name} (line 4): {said}");
        assert_eq!(render(&format!("{name}: card.json"), ""), expected);
    }
    let modes = "overrides: { description: d, defaultInputModes: [], defaultOutputModes: [] }";
    let edited = format!("file: card.json, {modes}, hide_skills: [ s ]");
    assert_eq!(render(&edited, ""), "");
    // What its generation lets a card leave out.
    assert_eq!(render("file: card.json", ", protocol: { generation: \"0.1\" }"), "");
}

/// Two parts of an agent read the same files.
#[test]
fn a_file_with_two_users_is_named_once() {
    files(
        &[(
            "agents",
            "[ { name: a, path: /, upstream: { endpoints: [ { url: https://a } ], tls: { ca: no.ca, client_certificate: no.crt, client_private_key: no.key } } } ]",
        )],
        &format!(
            "agents[0].upstream.tls.ca (line 4): cannot read no.ca: {NO_FILE}\n\
             agents[0].upstream.tls.client_certificate (line 4): cannot read no.crt: {NO_FILE}\n\
             agents[0].upstream.tls.client_private_key (line 4): cannot read no.key: {NO_FILE}"
        ),
    );
}

/// A file that has no effect, or whose key has a problem already, is not looked for.
#[test]
fn files_that_nobody_would_read_are_not_looked_for() {
    files(
        &[(
            "listeners",
            &with_tls("certificate: broken, private_key: no.key, client_ca: no.ca"),
        )],
        &format!(
            "listeners[0].tls.client_ca (line 2): has no effect while `client_certificates` is `off`; set it to `optional` or `required`\n\
             listeners[0].tls.private_key (line 2): cannot read no.key: {NO_FILE}"
        ),
    );
    files(
        &[(
            "agents",
            "[ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ], tls: { ca: no } } } ]",
        )],
        "agents[0].upstream.tls (line 4): has no effect: every endpoint is http",
    );
}

#[test]
fn what_is_found_in_files_has_the_key_and_the_line_that_were_written() {
    files(
        &[("listeners", &with_tls("certificate: no.crt, private_key: no.key"))],
        &format!(
            "listeners[0].tls.certificate (line 2): cannot read no.crt: {NO_FILE}\n\
             listeners[0].tls.private_key (line 2): cannot read no.key: {NO_FILE}"
        ),
    );
    files(
        &[(
            "listeners",
            &with_tls("certificates: [ { certificate: no.crt, private_key: no.key } ]"),
        )],
        &format!(
            "listeners[0].tls.certificates[0].certificate (line 2): cannot read no.crt: {NO_FILE}\n\
             listeners[0].tls.certificates[0].private_key (line 2): cannot read no.key: {NO_FILE}"
        ),
    );
}

#[test]
fn the_folder_of_the_store_can_be_used() {
    let state = |path: &str| format!("{{ store: embedded, path: \"{path}\" }}");
    files(
        &[("state", &state("broken"))],
        "state.path (line 3): broken is not a folder",
    );
    files(
        &[("state", &state("broken/below")), DRAIN],
        &format!("state.path (line 3): broken is not a folder\n{DRAIN_SAYS}"),
    );
    files(
        &[
            ("state", &state("broken/below")),
            (
                "security_schemes",
                "{ b: { type: http, scheme: basic, users_file: no } }",
            ),
        ],
        &format!(
            "state.path (line 3): broken is not a folder\n\
             security_schemes.b.users_file (line 5): cannot read no: {NO_FILE}"
        ),
    );
    let folder = Folder::new();
    for path in ["state", "not/yet/there", "."] {
        let yaml = folder.with(&[("state", &state(path))]);
        assert!(app::check(&yaml, &Environment::default()).is_ok(), "{path}");
        assert!(!folder.0.path().join("not").exists(), "nothing is made");
    }
}

#[test]
fn the_files_of_the_shared_store_are_read() {
    let state = |more: &str| {
        format!("{{ store: redis, redis: {{ url: \"rediss://127.0.0.1:1\", tls: {{ ca: no.ca }}{more} }} }}")
    };
    let missing = format!("state.redis.tls.ca (line 3): cannot read no.ca: {NO_FILE}");
    files(&[("state", &state(""))], &missing);
    files(&[("state", &state("")), DRAIN], &format!("{missing}\n{DRAIN_SAYS}"));
    files(
        &[("state", &state(", password_file: no"))],
        &format!("state.redis.password_file (line 3): cannot read no: {NO_FILE}\n{missing}"),
    );
}

/// Whoever may write everywhere, as tests in a container often do, is not refused.
#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new();
    let closed = folder.0.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    let may_write = fs::write(closed.join("probe"), "").is_ok();
    for (path, expected) in [
        ("closed", "closed cannot be written: Permission denied (os error 13)"),
        (
            "closed/state",
            "closed/state cannot be made: closed cannot be written: Permission denied (os error 13)",
        ),
    ] {
        let yaml = folder.with(&[("state", &format!("{{ store: embedded, path: {path} }}"))]);
        match app::check(&yaml, &Environment::default()) {
            Ok(()) => assert!(may_write, "{path}"),
            Err(app::Error::Config(problems)) => {
                assert!(!may_write);
                assert_eq!(
                    folder.render(&problems),
                    format!("state.path (line 3): {expected}"),
                    "{path}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
}
