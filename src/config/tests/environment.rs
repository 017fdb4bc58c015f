//! Variables in values and over values.

use std::path::Path;

use super::super::{Store, UpstreamCredential};
use super::good;

#[test]
fn variables_are_values_and_never_yaml() {
    let agent = |url: &str, name: &str| {
        format!(
            "agents: [ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: \"{url}\" }} ], credential: {{ bearer: {{ token: \"{name}\" }} }} }} }} ]"
        )
    };
    let token = |text: &str, variables: &[(&str, &str)]| match &good(&agent("http://a", text), variables).agents[0]
        .upstream
        .credential
    {
        Some(UpstreamCredential::Bearer(token)) => token.expose().clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(token("${T}", &[("T", "secret")]), "secret");
    assert_eq!(token("a${T}b${T}", &[("T", "-")]), "a-b-");
    assert_eq!(
        token("${T}", &[("T", "[ x: ${T} ] # no")]),
        "[ x: ${T} ] # no",
        "not read as YAML, not expanded again"
    );
    assert_eq!(token("$${T}", &[("T", "secret")]), "${T}");
    assert_eq!(token("pa$word$", &[]), "pa$word$");
    assert_eq!(token("$$$${T}", &[("T", "x")]), "$${T}");
    let config = good(
        "workers: ${N}\nlog: { access: \"${B}\" }\nagents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]",
        &[("N", "7"), ("B", "false")],
    );
    assert_eq!(
        (config.workers, config.log.access),
        (Some(7), false),
        "text of a variable becomes what is wanted"
    );
}

#[test]
fn overrides_lie_over_the_file() {
    let text = "log: { level: info }\nagents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]";
    let config = good(
        text,
        &[
            ("A2A_GATEWAY__LOG__LEVEL", "debug"),
            ("A2A_GATEWAY__LIMITS__BODY_BYTES", "16MiB"),
            ("A2A_GATEWAY__WORKERS", "2"),
            ("A2A_GATEWAY__ADMIN__ENABLED", "false"),
            ("A2A_GATEWAY__PUBLIC_URL", "http://other"),
            ("A2A_GATEWAY_CONFIG", "is none of ours"),
        ],
    );
    assert_eq!(config.log.level, "debug");
    assert_eq!(config.limits.body_bytes, 16 << 20);
    assert_eq!(config.agents[0].body_bytes, 16 << 20, "inherited");
    assert_eq!(config.workers, Some(2));
    assert!(config.admin.is_none());
    assert_eq!(config.public_url, "http://other");
}

/// `0123e4` is what a library that guesses types once made 1230000 of.
#[test]
fn overrides_stay_text() {
    let text = "agents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]";
    let config = good(text, &[("A2A_GATEWAY__STATE__PATH", "0123e4")]);
    assert!(matches!(&config.state.store, Store::Embedded { path, .. } if path == Path::new("/etc/gateway/0123e4")));
}
