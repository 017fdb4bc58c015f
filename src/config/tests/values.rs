//! What is said and what is not: every kind of value where it belongs, defaults, inheritance.

#![expect(clippy::wildcard_enum_match_arm, reason = "any other variant fails the test")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::super::{
    AgentRoute, ApiKeyPlace, Asking, Balance, CallerPattern, CardForm, CertificateRule, Client, ClientAuthentication,
    Config, DecisionKind, DecisionPoint, Environment, FetchedKeys, JwksSource, KeySource, KeysPlace, LimitBound,
    RateOf, SchemeKind, Secret, Store, TokenProfile, TokenProof, parse, redacted,
};
use super::{good, one_agent};
use crate::a2a::security::{SchemeUse, Security};
use crate::a2a::{Generation, Operation};

#[test]
fn general_values_arrive() {
    let config = good(
        "drain: 1m\nworkers: 3\nagents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]",
        &[],
    );
    assert_eq!(config.public_url, "https://agents.example.com/base");
    assert_eq!(config.drain, Duration::from_secs(60));
    assert_eq!(config.workers, Some(3));
    let proxies: Vec<String> = config.listeners[0]
        .trusted_proxies
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(proxies, ["10.0.0.5/32", "10.1.0.0/16"]);
    assert_eq!(config.agents[0].route, AgentRoute::Path(String::new()));
    assert_eq!(config.admin.unwrap().address.to_string(), "127.0.0.1:9901");
    match config.state.store {
        Store::Embedded { path, sync_interval } => {
            assert_eq!(path, PathBuf::from("/var/lib/a2a-gateway"));
            assert_eq!(sync_interval, Duration::from_secs(1));
        }
        Store::Memory | Store::Redis(_) => panic!("embedded is the default"),
    }
}

#[test]
fn paths_start_at_the_folder_of_the_file() {
    let text = "
state: { path: state }
security_schemes:
  a: { type: http, scheme: basic, users_file: users.yaml }
  b: { type: http, scheme: basic, users_file: /run/users.yaml }
agents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]";
    let config = good(text, &[]);
    let users = |name: &str| match &config.security_schemes[name].kind {
        SchemeKind::Basic { users_file } => users_file.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(users("a"), PathBuf::from("/etc/gateway/users.yaml"));
    assert_eq!(users("b"), PathBuf::from("/run/users.yaml"));
    assert!(matches!(&config.state.store, Store::Embedded { path, .. } if path == Path::new("/etc/gateway/state")));
}

#[test]
fn the_admin_listener_can_be_switched_off() {
    let text =
        "admin: { enabled: false }\nagents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]";
    assert!(good(text, &[]).admin.is_none());
}

/// A listener may have the address that the admin listener leaves free.
#[test]
fn a_switched_off_admin_listener_takes_no_address() {
    let text = "
public_url: http://a
listeners: [ { name: a, address: 127.0.0.1:9901 } ]
admin: { enabled: false }
agents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]";
    assert!(parse(text, Path::new(""), &Environment::default()).is_ok());
}

#[test]
fn versions_need_no_quotes() {
    assert_eq!(one_agent("path: /").upstream.generation, None);
    for (text, expected) in [
        ("0.1", Generation::V0_1),
        ("0.3", Generation::V0_3),
        ("1.0", Generation::V1_0),
        ("\"1.0\"", Generation::V1_0),
    ] {
        let text = format!(
            "agents: [ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: http://a }} ], protocol: {{ generation: {text} }} }} }} ]"
        );
        assert_eq!(good(&text, &[]).agents[0].upstream.generation, Some(expected), "{text}");
    }
}

#[test]
fn aliases_and_merges_work() {
    let text = "
agents:
  - &one { name: a, path: /a, upstream: &up { endpoints: [ { url: http://a } ], balance: round_robin } }
  - { <<: *one, name: b, path: /b }
  - { name: c, host: C.example.com, upstream: *up }";
    let config = good(text, &[]);
    assert!(
        config
            .agents
            .iter()
            .all(|agent| agent.upstream.balancing.balance == Balance::RoundRobin)
    );
    assert_eq!(config.agents[1].route, AgentRoute::Path("/b".to_owned()));
    assert_eq!(config.agents[2].route, AgentRoute::Host("c.example.com".to_owned()));
}

#[test]
fn security_is_inherited_replaced_or_left_to_the_card() {
    let scheme = "security_schemes: { people: { type: http, scheme: basic, users_file: u } }";
    let upstream = "upstream: { endpoints: [ { url: http://a } ] }";
    let text = format!(
        "{scheme}\nsecurity: [ {{ people: [ read ] }}, {{}} ]\nagents:\n  - {{ name: a, path: /a, {upstream} }}\n  - {{ name: b, path: /b, {upstream}, security: [] }}"
    );
    let config = good(&text, &[]);
    let people = SchemeUse {
        scheme: "people".to_owned(),
        scopes: vec!["read".to_owned()],
    };
    assert_eq!(
        config.agents[0].security,
        Some(Security {
            alternatives: vec![vec![people], vec![]]
        })
    );
    assert_eq!(
        config.agents[1].security,
        Some(Security::default()),
        "`[]` is open, and said"
    );
    let silent = good(
        &format!("{scheme}\nagents: [ {{ name: a, path: /a, {upstream} }} ]"),
        &[],
    );
    assert_eq!(silent.agents[0].security, None, "the card decides");
}

#[test]
fn each_bound_of_a_limit_is_shown_under_its_key_and_names_it() {
    let bounds = [
        ("task_creations", "20/h", "principal-task-creations"),
        ("polls", "60/min", "principal-polls"),
        ("open_tasks", "7", "principal-open-tasks"),
        ("bytes_in", "100MiB/h", "principal-bytes-in"),
        ("bytes_out", "1GiB/min", "principal-bytes-out"),
    ];
    let rules: Vec<String> = bounds
        .iter()
        .map(|(key, bound, _)| format!("{{ per: principal, {key}: {bound} }}"))
        .collect();
    let text = format!(
        "
rate_limits: [ {} ]
agents:
  - name: a
    path: /
    upstream: {{ endpoints: [ {{ url: http://a }} ] }}",
        rules.join(", ")
    );
    let config = good(&text, &[]);
    assert_eq!(
        config.agents[0].rate_limits[1].operations,
        [Operation::Get, Operation::List]
    );
    let shown = redacted(&config);
    let shown = shown["agents"][0]["limits"].as_array().expect("limits");
    for ((key, bound, name), shown) in bounds.iter().zip(shown) {
        let value = shown[key]
            .as_str()
            .map_or_else(|| shown[key].to_string(), str::to_owned);
        assert_eq!((shown["name"].as_str(), &*value), (Some(*name), *bound));
    }
}

#[test]
fn rate_limits_are_general_first_and_have_names() {
    let text = "
rate_limits: [ { per: address, rate: 10/s }, { per: address, rate: 100/min, burst: 5 } ]
agents:
  - name: a
    path: /
    upstream: { endpoints: [ { url: http://a } ] }
    limits: [ { name: address-rate, per: principal, concurrent: 2 }, { per: agent, open_streams: 3, operations: [ push-create ] } ]";
    let rules = good(text, &[]).agents.remove(0).rate_limits;
    let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(
        names,
        ["address-rate-2", "address-rate-3", "address-rate", "agent-streams"],
        "given names are kept"
    );
    let rate = |count, seconds, burst| LimitBound::Rate {
        count,
        period: Duration::from_secs(seconds),
        burst,
        of: RateOf::Calls,
    };
    assert_eq!(rules[0].bound, rate(10, 1, 10), "the burst is the count of the rate");
    assert_eq!(rules[1].bound, rate(100, 60, 5));
    assert_eq!(rules[2].bound, LimitBound::Concurrent(2));
    assert_eq!(rules[3].bound, LimitBound::OpenStreams(3));
    assert_eq!(rules[3].operations, [Operation::PushCreate]);
    assert!(rules[0].operations.is_empty());
}

#[test]
fn schemes_arrive() {
    let hash = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789ab";
    let hash = hash.get(..64).unwrap();
    let text = format!(
        "
security_schemes:
  key: {{ type: apiKey, in: cookie, name: session, keys: [ {{ id: a, hash: \"sha256:00ff:{hash}\", scopes: [ x ] }} ] }}
  token:
    type: http
    scheme: bearer
    issuer: https://i/
    audience: [ a, b ]
    jwks_url: http://127.0.0.1:1/keys?x=1
  machine: {{ type: mutualTLS, allow: [ \"spiffe://x/*\", \"dns:*.x\", \"email:*@x\", \"subject:CN=a,O=b\", \"fingerprint:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff\" ] }}
agents: [ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: http://a }} ] }} }} ]"
    );
    let schemes = good(&text, &[]).security_schemes;
    match &schemes["key"].kind {
        SchemeKind::ApiKey {
            place: ApiKeyPlace::Cookie,
            name,
            keys: KeySource::Inline(keys),
        } => {
            assert_eq!(name, "session");
            assert_eq!(keys[0].salt, [0x00, 0xff]);
            assert_eq!(keys[0].sha256[..4], [0x01, 0x23, 0x45, 0x67]);
            assert_eq!(keys[0].scopes, ["x"]);
        }
        other => panic!("{other:?}"),
    }
    match &schemes["token"].kind {
        SchemeKind::Bearer { tokens, .. } => {
            assert_eq!(
                (tokens.issuer.as_str(), tokens.principal_claim.as_str()),
                ("https://i/", "sub")
            );
            assert_eq!(tokens.leeway, Duration::from_secs(30));
            let keys = FetchedKeys {
                place: KeysPlace::Url("http://127.0.0.1:1/keys?x=1".to_owned()),
                ca: None,
                refresh: Duration::from_secs(900),
                cooldown: Duration::from_secs(60),
            };
            let proof = TokenProof::Signature {
                keys: JwksSource::Fetched(keys),
                profile: TokenProfile::Jwt,
            };
            assert_eq!(tokens.proof, proof);
        }
        other => panic!("{other:?}"),
    }
    match &schemes["machine"].kind {
        SchemeKind::MutualTls { allow } => assert_eq!(
            *allow,
            [
                CertificateRule::Uri("spiffe://x/*".to_owned()),
                CertificateRule::Dns("*.x".to_owned()),
                CertificateRule::Email("*@x".to_owned()),
                CertificateRule::Subject("CN=a,O=b".to_owned()),
                CertificateRule::Fingerprint("00112233445566778899aabbccddeeff".repeat(2)),
            ]
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn card_overrides_keep_their_types() {
    let agent = one_agent("path: /, card: { overrides: { version: 1.50, tags: [ 1, \"1\", ~, true, yes ], name: x } }");
    assert_eq!(
        serde_json::Value::from(agent.card.edits.overrides),
        json!({ "version": 1.5, "tags": [1, "1", null, true, "yes"], "name": "x" })
    );
}

#[test]
fn a_card_is_one_for_all_unless_it_is_by_version() {
    assert_eq!(one_agent("path: /").card.form, CardForm::Hybrid);
    assert_eq!(
        one_agent("path: /, card: { form: by_version }").card.form,
        CardForm::ByVersion
    );
}

#[test]
fn keys_are_found_through_documents_where_nothing_else_says_how() {
    let scheme = |text: &str| {
        let text = format!(
            "
security_schemes: {{ one: {{ issuer: https://i, audience: [ a ], {text} }} }}
agents: [ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: http://a }} ] }} }} ]"
        );
        let kind = good(&text, &[]).security_schemes["one"].kind.clone();
        match &kind.tokens().unwrap().proof {
            TokenProof::Signature { keys, profile } => (keys.clone(), *profile),
            TokenProof::Introspection { .. } => panic!("{kind:?}"),
        }
    };
    let discovery = |url: &str, refresh: u64| {
        let (url, issuer) = (url.to_owned(), "https://i".to_owned());
        JwksSource::Fetched(FetchedKeys {
            place: KeysPlace::Discovery { url, issuer },
            ca: None,
            refresh: Duration::from_secs(refresh),
            cooldown: Duration::from_secs(60),
        })
    };
    let (keys, profile) = scheme("type: openIdConnect, openIdConnectUrl: https://i/d");
    assert_eq!((keys, profile), (discovery("https://i/d", 900), TokenProfile::Jwt));
    let (keys, profile) =
        scheme("type: oauth2, flows: { x: {} }, oauth2MetadataUrl: https://i/m, jwks_refresh: 1m, profile: at+jwt");
    assert_eq!(
        (keys, profile),
        (discovery("https://i/m", 60), TokenProfile::AccessToken)
    );
    let (keys, _) = scheme("type: openIdConnect, openIdConnectUrl: http://i/d, jwks_file: /k");
    assert_eq!(keys, JwksSource::File("/k".into()), "the document is for cards alone");
}

#[test]
fn somebody_is_asked_about_credentials() {
    let text = "
security_schemes:
  opaque:
    type: http
    scheme: Bearer
    issuer: https://i
    introspection: { url: https://i/introspect, client_id: gateway, client_secret: \"${S}\", authentication: post, cache_ttl: 1m }
  other: { type: http, scheme: Digest, check: { url: \"http://[::1]:1/check\", concurrent: 3 } }
agents: [ { name: a, path: /, upstream: { endpoints: [ { url: http://a } ] } } ]";
    let schemes = good(text, &[("S", "hunter2")]).security_schemes;
    let seconds = Duration::from_secs;
    match &schemes["opaque"].kind {
        SchemeKind::Bearer { tokens, .. } => {
            assert!(tokens.audience.is_empty());
            let proof = TokenProof::Introspection {
                asking: Asking {
                    url: "https://i/introspect".to_owned(),
                    ca: None,
                    timeout: seconds(2),
                    cache_ttl: seconds(60),
                    negative_ttl: seconds(5),
                    concurrent: 64,
                },
                client: Client {
                    id: "gateway".to_owned(),
                    secret: Secret::new("hunter2".to_owned()),
                    authentication: ClientAuthentication::Post,
                },
            };
            assert_eq!(tokens.proof, proof);
        }
        other => panic!("{other:?}"),
    }
    match &schemes["other"].kind {
        SchemeKind::Http { scheme, check, .. } => {
            assert_eq!(scheme, "Digest");
            assert_eq!((check.cache_ttl, check.concurrent), (Duration::ZERO, 3));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_decision_point_is_told_is_kept_of_tokens() {
    let text = |points: &str| {
        format!(
            "
security_schemes:
  t: {{ type: http, scheme: bearer, issuer: i, audience: [ a ], jwks_url: https://i/keys }}
decision_points:
{points}
agents: [ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: http://a }} ] }}, policy: {{ decision_point: p }} }} ]"
        )
    };
    let config = good(
        &text("  p: { kind: opa, url: \"http://[::1]:1/v1/data/a\", claims: [ tenant ], token: \"${S}\" }"),
        &[("S", "hunter2")],
    );
    let tokens = |config: &Config| match &config.security_schemes["t"].kind {
        SchemeKind::Bearer { tokens, .. } => tokens.claims.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(tokens(&config), ["tenant", "groups"]);
    let point = DecisionPoint {
        kind: DecisionKind::Opa,
        url: "http://[::1]:1/v1/data/a".to_owned(),
        ca: None,
        token: Some(Secret::new("hunter2".to_owned())),
        timeout: Duration::from_millis(500),
        cache_ttl: Duration::ZERO,
        concurrent: 256,
        claims: vec!["tenant".to_owned()],
    };
    assert_eq!(config.decision_points["p"], point);
    assert_eq!(config.agents[0].policy.decision_point.as_deref(), Some("p"));
    let config = good(&text("  p: { kind: ext_authz, url: https://a }"), &[]);
    assert!(tokens(&config).is_empty(), "it is told none");
}

#[test]
fn an_id_is_told_from_an_attribute_by_its_kind() {
    let text = "
agents:
  - name: a
    path: /
    upstream: { endpoints: [ { url: http://a } ] }
    policy:
      task_sharing:
        - { owners: [ \"*\" ], with: [ \"http:digest:a=b\", \"jwt:https://i#a=b\", \"http://x/tenant=b\", tenant=b ], access: read }";
    let with = &good(text, &[]).agents[0].policy.task_sharing[0].with;
    let id = |text: &str| CallerPattern::Id(text.to_owned());
    let attribute = |text: &str| CallerPattern::Attribute(text.to_owned());
    let expected = [
        id("http:digest:a=b"),
        id("jwt:https://i#a=b"),
        attribute("http://x/tenant=b"),
        attribute("tenant=b"),
    ];
    assert_eq!(*with, expected);
}
