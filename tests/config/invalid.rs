//! Every mistake has its text: exactly this, nothing beside it.

use std::path::Path;

use a2a_gateway::config::{self, Environment};

/// A good file, in whose places a case puts its mistake.
const GOOD: [(&str, &str); 4] = [
    ("public_url", "https://agents.example.com"),
    ("listeners", "[ { name: public, address: \"127.0.0.1:8080\" } ]"),
    ("state", "{ store: memory }"),
    (
        "agents",
        "[ { name: maps, path: /maps, upstream: { endpoints: [ { url: http://a:1 } ] } } ]",
    ),
];

/// The good file with these sections instead of, or added to, its own.
pub fn file(sections: &[(&str, &str)]) -> String {
    let given = |name: &str| sections.iter().find(|(section, _)| *section == name);
    let kept = GOOD.iter().map(|section| given(section.0).unwrap_or(section));
    let added = sections
        .iter()
        .filter(|(name, _)| GOOD.iter().all(|(good, _)| good != name));
    kept.chain(added)
        .map(|(name, text)| format!("{name}: {text}\n"))
        .collect()
}

pub fn environment() -> Environment {
    [("SET", "value"), ("EMPTY", ""), ("BREAK", "a\nb"), ("NUMBER", "12")]
        .into_iter()
        .collect()
}

#[track_caller]
pub fn check(text: &str, environment: &Environment, expected: &str) {
    match config::parse(text, Path::new("/nonexistent"), environment) {
        Ok(_) => panic!("accepted, expected: {expected}\n{text}"),
        Err(problems) => assert_eq!(config::render(&problems).trim_end(), expected, "{text}"),
    }
}

#[track_caller]
pub fn section(name: &str, text: &str, expected: &str) {
    check(&file(&[(name, text)]), &environment(), expected);
}

/// A listener on line 2.
#[track_caller]
pub fn listener(text: &str, expected: &str) {
    section(
        "listeners",
        &format!("[ {{ name: public, address: \"127.0.0.1:8080\", {text} }} ]"),
        expected,
    );
}

/// An agent on line 4, with a route and an upstream of its own.
#[track_caller]
pub fn agent(text: &str, expected: &str) {
    section("agents", &format!("[ {{ name: maps, {text} }} ]"), expected);
}

#[track_caller]
pub fn agent_key(text: &str, expected: &str) {
    agent(
        &format!("path: /maps, upstream: {{ endpoints: [ {{ url: http://a:1 }} ] }}, {text}"),
        expected,
    );
}

#[track_caller]
pub fn upstream(text: &str, expected: &str) {
    agent(
        &format!("path: /maps, upstream: {{ endpoints: [ {{ url: http://a:1 }} ], {text} }}"),
        expected,
    );
}

/// A scheme `one` on line 5.
#[track_caller]
pub fn scheme(text: &str, expected: &str) {
    section("security_schemes", &format!("{{ one: {{ {text} }} }}"), expected);
}

#[test]
fn the_good_file_is_good() {
    let config = config::parse(&file(&[]), Path::new(""), &environment());
    assert!(config.is_ok(), "{config:?}");
}

#[test]
fn syntax() {
    let no = Environment::default();
    check("", &no, "configuration: the file is empty; see config/minimal.yaml");
    check("- a", &no, "configuration: expected a mapping, found a list");
    check("a: [\n", &no, "configuration (line 1): unclosed bracket '['");
    check(
        "a:\n\t- b",
        &no,
        "configuration (line 2): tabs disallowed within this context (block indentation)",
    );
    check(
        "a: 1\nb: 2\na: 3",
        &no,
        "configuration (line 3): the key `a` is given twice",
    );
    check(
        "a: &a [ *a ]",
        &no,
        "configuration (line 1): an alias stands inside the value that it refers to",
    );
    check("a: *b", &no, "configuration (line 1): reference to unknown value");
    check(
        &format!("{}{}", "[".repeat(40), "]".repeat(40)),
        &no,
        "configuration (line 1): YAML document too large or too complex: limits breached: Depth { depth: 33 }",
    );
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (this, next) in ('a'..'i').zip('b'..='i') {
        let nine = vec![format!("*{this}"); 9].join(",");
        bomb.push_str(&format!("{next}: &{next} [{nine}]\n"));
    }
    let problems = config::parse(&bomb, Path::new(""), &Environment::default()).unwrap_err();
    let text = config::render(&problems);
    assert!(text.contains("YAML document too large or too complex"), "{text}");
}

#[test]
fn unknown_and_missing_keys() {
    section(
        "lisseners",
        "[]",
        "lisseners (line 5): unknown key; did you mean `listeners`?",
    );
    section(
        "limits",
        "{ bodyBytes: 1MiB }",
        "limits.bodyBytes (line 5): unknown key; did you mean `body_bytes`?",
    );
    section(
        "admin",
        "{ port: 1 }",
        "admin.port (line 5): unknown key; known here: `enabled` or `address`",
    );
    section(
        "auth",
        "{}",
        "auth (line 5): unknown key; write `security_schemes` and `security`",
    );
    agent(
        "path: /maps, url: http://a:1",
        "agents[0].url (line 4): unknown key; agents are reached through `upstream.endpoints: [ { url } ]`\n\
         agents[0].upstream (line 4): is required",
    );
    upstream(
        "url: http://a",
        "agents[0].upstream.url (line 4): unknown key; write `endpoints: [ { url } ]`",
    );
    agent_key(
        "rate_limits: []",
        "agents[0].rate_limits (line 4): unknown key; an agent's own rate limits are `limits`",
    );
    check(
        "limits: {}",
        &Environment::default(),
        "public_url: is required\nlisteners: is required\nagents: is required",
    );
    section(
        "listeners",
        "[ { name: a } ]",
        "listeners[0].address (line 2): is required",
    );
    section(
        "security",
        "",
        "security (line 5): has no value; give it one or remove the key",
    );
    section(
        "security",
        "[ { one: } ]\nsecurity_schemes: { one: { type: mutualTLS, allow: [ dns:a ] } }",
        "security[0].one (line 5): has no value; give it one or remove the key",
    );
}

#[test]
fn wrong_types() {
    section(
        "agents",
        "{}",
        "agents (line 4): expected a list, found a mapping; write it as `[ … ]`",
    );
    section(
        "agents",
        "[ maps ]",
        "agents[0] (line 4): expected a mapping, found text",
    );
    section(
        "admin",
        "off",
        "admin (line 5): expected a mapping, found text; write `{ enabled: false }`",
    );
    section(
        "workers",
        "many",
        "workers (line 5): expected a whole number, found `many`",
    );
    section(
        "workers",
        "\"4\"",
        "workers (line 5): expected a whole number, found text; write it without quotes",
    );
    section("workers", "-1", "workers (line 5): expected a whole number, found `-1`");
    section("workers", "0", "workers (line 5): must be from 1 to 1024, found 0");
    section(
        "log",
        "{ access: yes }",
        "log.access (line 5): expected `true` or `false`, found `yes`",
    );
    section(
        "log",
        "{ format: xml }",
        "log.format (line 5): expected `text` or `json`, found `xml`",
    );
    section(
        "public_url",
        "[ http://a ]",
        "public_url (line 1): expected text, found a list",
    );
    section(
        "state",
        "{ store: files }",
        "state.store (line 3): expected `memory`, `embedded` or `redis`, found `files`",
    );
    upstream(
        "protocol: { generation: 1.1 }",
        "agents[0].upstream.protocol.generation (line 4): expected `auto`, `0.1`, `0.3` or `1.0`, found `1.1`",
    );
    upstream(
        "protocol: { generation: 0.2 }",
        "agents[0].upstream.protocol.generation (line 4): expected `auto`, `0.1`, `0.3` or `1.0`, found `0.2`",
    );
    agent_key(
        "limits: [ { per: agent, concurrent: 1, operations: [ sent ] } ]",
        "agents[0].limits[0].operations[0] (line 4): expected `send`, `stream`, `get`, `list`, `cancel`, `subscribe`, \
         `push-create`, `push-get`, `push-list`, `push-delete` or `extended-card`, found `sent`",
    );
}

#[test]
fn units() {
    section(
        "drain",
        "30",
        "drain (line 5): `30` has no unit; write e.g. `30s` or `30ms`",
    );
    section(
        "drain",
        "1y",
        "drain (line 5): `1y` is not a duration; write whole numbers with the units d, h, m, s and ms, e.g. `30s`, `250ms` or `1h30m`",
    );
    section("drain", "2h", "drain (line 5): must be from 0s to 1h, found 2h");
    upstream(
        "send_timeout: never",
        "agents[0].upstream.send_timeout (line 4): `never` is not a duration; write whole numbers with the units d, h, m, s \
         and ms, e.g. `30s`, `250ms` or `1h30m`, or `none`",
    );
    section(
        "limits",
        "{ body_bytes: 4MB }",
        "limits.body_bytes (line 5): `4MB` is not a size; write a whole number with B, KiB, MiB or GiB, e.g. `512B`, `64KiB` or `4MiB`",
    );
    section(
        "limits",
        "{ body_bytes: 4096 }",
        "limits.body_bytes (line 5): `4096` has no unit; write e.g. `4096B` or `4096KiB`",
    );
    section(
        "rate_limits",
        "[ { per: agent, rate: 60 } ]",
        "rate_limits[0].rate (line 5): `60` is not a rate; write a whole number a second, minute or hour, e.g. `10/s`, `60/min` or `1000/h`",
    );
    section(
        "rate_limits",
        "[ { per: agent, rate: 0/s } ]",
        "rate_limits[0].rate (line 5): `0/s` would admit nothing; at least 1",
    );
}

#[test]
fn environment_in_values() {
    section(
        "public_url",
        "${UNSET}",
        "public_url (line 1): the environment variable `UNSET` is not set",
    );
    section(
        "public_url",
        "\"${SET\"",
        "public_url (line 1): `${` without `}`; write `${NAME}`, or `$$` for a dollar sign",
    );
    section(
        "public_url",
        "\"${a-b}\"",
        "public_url (line 1): `${…}` takes the name of an environment variable: letters, digits and `_`; write `$$` for a dollar sign",
    );
    section(
        "public_url",
        "${SET}",
        "public_url (line 1): must be an absolute URL with `http://` or `https://`",
    );
    section(
        "log",
        "{ access: \"${SET}\" }",
        "log.access (line 5): expected `true` or `false`, found `value`",
    );
}

#[test]
fn overrides() {
    let check_variable = |name: &str, value: &str, expected: &str| {
        check(&file(&[]), &[(name, value)].into_iter().collect(), expected);
    };
    check_variable(
        "A2A_GATEWAY__LOG__LEVL",
        "info",
        "A2A_GATEWAY__LOG__LEVL: there is no key `log.levl`: unknown key; did you mean `level`?",
    );
    check_variable(
        "A2A_GATEWAY__LOG",
        "info",
        "A2A_GATEWAY__LOG: `log` is a section; name one of its keys",
    );
    check_variable(
        "A2A_GATEWAY__AGENTS",
        "x",
        "A2A_GATEWAY__AGENTS: `agents` is a list, and a variable gives one value",
    );
    check_variable(
        "A2A_GATEWAY__SECURITY_SCHEMES__ONE__TYPE",
        "http",
        "A2A_GATEWAY__SECURITY_SCHEMES__ONE__TYPE: `security_schemes` holds entries of your own, which a variable cannot \
         name; write `${NAME}` in the file",
    );
    check_variable(
        "A2A_GATEWAY__DRAIN__X",
        "1s",
        "A2A_GATEWAY__DRAIN__X: `drain` is a single value and has no keys",
    );
    check_variable(
        "A2A_GATEWAY__log__level",
        "info",
        "A2A_GATEWAY__log__level: names of overrides are written in upper case",
    );
    check_variable(
        "A2A_GATEWAY__DRAIN",
        "5",
        "drain: `5` has no unit; write e.g. `5s` or `5ms` (set by A2A_GATEWAY__DRAIN)",
    );
    check_variable(
        "A2A_GATEWAY__LIMITS__JSON_DEPTH",
        "0",
        "limits.json_depth: must be from 1 to 1024, found 0 (set by A2A_GATEWAY__LIMITS__JSON_DEPTH)",
    );
}

/// Nothing hides anything else, whatever its kind and wherever it stands; in the order of the file.
#[test]
fn all_mistakes_at_once() {
    let text = r#"public_url: http://user:hunter2@a/
listeners:
  - name: public
    adress: 127.0.0.1:8080
    address: 127.0.0.1:8080
    tls: { certificate: a }
state: { store: files }
limits: { body_bytes: 4096, number_digits: 0 }
security: [ { corp: [] } ]
agents:
  - name: maps
    url: http://a
  - name: maps
    path: /maps/
    upstream:
      endpoints: [ { url: "http://${UNSET}" }, { url: ftp://b } ]
      connect_timeout: 5
    limits: [ { per: principal, rate: 60/min, concurrent: 1 } ]
drain: 1y
workers: many
"#;
    let environment = [("A2A_GATEWAY__LOG__LEVL", "info")].into_iter().collect();
    check(
        text,
        &environment,
        "public_url (line 1): must not contain user information (`user:password@`); credentials have their own keys\n\
         listeners[0].adress (line 4): unknown key; did you mean `address`?\n\
         listeners[0].tls.private_key (line 6): is required with the certificate\n\
         state.store (line 7): expected `memory`, `embedded` or `redis`, found `files`\n\
         limits.body_bytes (line 8): `4096` has no unit; write e.g. `4096B` or `4096KiB`\n\
         limits.number_digits (line 8): must be from 1 to 4096, found 0\n\
         security[0].corp (line 9): there is no `corp` in security_schemes\n\
         agents[0].upstream (line 11): is required\n\
         agents[0].url (line 12): unknown key; agents are reached through `upstream.endpoints: [ { url } ]`\n\
         agents[1].name (line 13): `maps` is already used by agents[0].name\n\
         agents[1].path (line 14): must not end with `/`\n\
         agents[1].upstream.endpoints[0].url (line 16): the environment variable `UNSET` is not set\n\
         agents[1].upstream.endpoints[1].url (line 16): must begin with `http` or `https`, found `ftp`\n\
         agents[1].upstream.connect_timeout (line 17): `5` has no unit; write e.g. `5s` or `5ms`\n\
         agents[1].limits[0] (line 18): needs exactly one of `rate`, `task_creations`, `polls`, `concurrent`, `open_streams`, `open_tasks`, `bytes_in` and `bytes_out`\n\
         drain (line 19): `1y` is not a duration; write whole numbers with the units d, h, m, s and ms, e.g. `30s`, `250ms` or `1h30m`\n\
         workers (line 20): expected a whole number, found `many`\n\
         A2A_GATEWAY__LOG__LEVL: there is no key `log.levl`: unknown key; did you mean `level`?",
    );
}
