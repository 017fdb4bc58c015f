//! Cards as real servers print them, and what a hostile or careless one may contain.

mod canonical;
mod diff;
mod generated;
mod golden;
mod interfaces;
mod skills;
mod structure;
mod v0_1;

use serde_json::{Value, json};

use super::*;
use crate::a2a::security::SchemeUse;

const PUBLIC: &str = "https://agents.example.com/agents/harbour";

/// Schemes with their scopes, an OR of ANDs.
type Alternatives<'a> = &'a [&'a [(&'a str, &'a [&'a str])]];

fn security(alternatives: Alternatives<'_>) -> Security {
    Security {
        alternatives: alternatives
            .iter()
            .map(|alternative| {
                alternative
                    .iter()
                    .map(|(scheme, scopes)| SchemeUse {
                        scheme: (*scheme).to_owned(),
                        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
                    })
                    .collect()
            })
            .collect(),
    }
}

fn scheme(kind: SchemeFormKind) -> SchemeForm {
    SchemeForm {
        description: None,
        kind,
    }
}

/// For a caller who is shown these skills, unsigned.
fn showing(shown: Shown<'_>) -> Finish<'_> {
    Finish {
        shown,
        sign: &|card| card,
        believed: None,
    }
}

fn plain() -> Finish<'static> {
    showing(&|_| true)
}

fn publication() -> Publication {
    let flows = json!({
        "authorizationCode": { "authorizationUrl": "https://id.example.com/authorize",
            "tokenUrl": "https://id.example.com/token", "scopes": { "berth.write": "Allot berths" } },
        "clientCredentials": { "tokenUrl": "https://id.example.com/token", "scopes": {} },
    });
    let schemes = [
        (
            "bearer",
            scheme(SchemeFormKind::HttpBearer {
                bearer_format: Some("JWT".to_owned()),
            }),
        ),
        (
            "berthOauth",
            scheme(SchemeFormKind::OAuth2 {
                flows: flows.as_object().unwrap().clone(),
                metadata_url: None,
            }),
        ),
        (
            "key",
            SchemeForm {
                description: Some("Handed out by the office".to_owned()),
                kind: SchemeFormKind::ApiKey {
                    place: KeyPlace::Header,
                    name: "X-API-Key".to_owned(),
                },
            },
        ),
        ("mtls", scheme(SchemeFormKind::MutualTls)),
        ("unused", scheme(SchemeFormKind::HttpBasic)),
    ];
    Publication {
        public_url: PUBLIC.to_owned(),
        served: Generation::SPOKEN.to_vec(),
        by_version: false,
        original: false,
        v0_1: false,
        written: Generation::V0_3,
        bindings: vec![Binding::JsonRpc],
        spoken: Binding::JsonRpc,
        enforced: security(&[
            &[("bearer", &[])],
            &[("key", &[]), ("mtls", &[])],
            &[("berthOauth", &["berth.write"])],
        ]),
        schemes: schemes
            .into_iter()
            .map(|(name, form)| (name.to_owned(), form))
            .collect(),
        streaming: true,
        push: true,
        push_v0_1: false,
        extended: true,
        upstream: vec![
            "http://10.0.0.9:9999/rpc".to_owned(),
            "https://cards.internal/maps".to_owned(),
        ],
        edits: Edits::default(),
    }
}

fn origin(card: &Value) -> OriginCard {
    read(card.to_string().as_bytes()).unwrap()
}

fn published(card: &Value, change: impl FnOnce(&mut Publication)) -> Value {
    let mut input = publication();
    change(&mut input);
    publish(&origin(card), &input).value
}

#[test]
fn only_objects_of_bounded_depth_are_cards() {
    fn check(card: &str, expected: Option<CardError>) {
        assert_eq!(read(card.as_bytes()).err(), expected, "{card:.60}");
    }
    let nested = |levels: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1));
    check("{}", None);
    check("[]", Some(CardError::NotObject));
    check("null", Some(CardError::NotObject));
    check("", Some(CardError::NotJson { line: 1, column: 0 }));
    check("<html>", Some(CardError::NotJson { line: 1, column: 1 }));
    check(&nested(MAX_DEPTH), None);
    check(&nested(MAX_DEPTH + 1), Some(CardError::TooDeep));
    assert!(read(nested(100_000).as_bytes()).unwrap_err().is_no_card());
    assert!(read(b"{\"name\":\"\xff\"}").unwrap_err().is_no_card());
}

#[test]
fn a_card_of_one_version_has_nothing_of_the_other() {
    let card = json!({"name": "n", "url": "http://10.0.0.9:9999/rpc", "protocolVersion": "0.3.0",
        "supportsAuthenticatedExtendedCard": true, "security": [{"bearer": []}],
        "capabilities": {"streaming": true, "stateTransitionHistory": true},
        "skills": [{"id": "s", "security": [{"bearer": []}]}]});
    let input = Publication {
        by_version: true,
        ..publication()
    };
    let origin = origin(&card);
    let of = |generation| publish(&origin, &input.of(generation)).value;
    let (old, new) = (of(Generation::V0_3), of(Generation::V1_0));
    let names = |card: &Value| card.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (name, in_old) in [
        ("url", true),
        ("protocolVersion", true),
        ("preferredTransport", true),
        ("additionalInterfaces", true),
        ("supportsAuthenticatedExtendedCard", true),
        ("security", true),
        ("supportedInterfaces", false),
        ("securityRequirements", false),
    ] {
        assert_eq!(old.get(name).is_some(), in_old, "{name}: {:?}", names(&old));
        assert_eq!(new.get(name).is_some(), !in_old, "{name}: {:?}", names(&new));
    }
    assert_eq!(old["capabilities"].get("extendedAgentCard"), None);
    assert_eq!(new["capabilities"]["extendedAgentCard"], true);
    assert_eq!(old["capabilities"]["stateTransitionHistory"], true);
    assert_eq!(new["capabilities"].get("stateTransitionHistory"), None);
    assert_eq!(names(&old["securitySchemes"]["mtls"]), ["type"]);
    assert_eq!(names(&new["securitySchemes"]["mtls"]), ["mtlsSecurityScheme"]);
    assert_eq!(names(&old["skills"][0]), ["id", "security"]);
    assert_eq!(names(&new["skills"][0]), ["id", "securityRequirements"]);
    let versions = new["supportedInterfaces"].as_array().unwrap().iter();
    let versions: Vec<_> = versions.map(|interface| &interface["protocolVersion"]).collect();
    assert_eq!(versions, ["1.0"]);
}

#[test]
fn the_extended_card_of_0_2_is_fetched() {
    fn check(card: Value, expected: bool) {
        assert_eq!(origin(&card).is_extended_fetched(), expected, "{card}");
    }
    let new = json!([{"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    check(
        json!({"url": "u", "protocolVersion": "0.2.6", "supportsAuthenticatedExtendedCard": true}),
        true,
    );
    check(
        json!({"url": "u", "protocolVersion": "0.2", "supportsAuthenticatedExtendedCard": true}),
        true,
    );
    // Before cards said their version.
    check(json!({"url": "u", "supportsAuthenticatedExtendedCard": true}), true);
    check(json!({"url": "u", "protocolVersion": "0.2.6"}), false);
    check(
        json!({"url": "u", "protocolVersion": "0.3.0", "supportsAuthenticatedExtendedCard": true}),
        false,
    );
    check(
        json!({"url": "u", "protocolVersion": "0.20", "supportsAuthenticatedExtendedCard": true}),
        false,
    );
    // There is a call for it in 1.0.
    check(
        json!({"url": "u", "protocolVersion": "0.2.6", "supportsAuthenticatedExtendedCard": true,
            "supportedInterfaces": new}),
        false,
    );
}

#[test]
fn an_extended_card_that_was_fetched_is_put_into_an_answer() {
    let card = json!({"name": "n", "url": "http://10.0.0.9:9999/rpc", "protocolVersion": "0.2.6"});
    let id = crate::a2a::RpcId(Bytes::from_static(b"\"9007199254740993\""));
    let answer = |card: &str| answer_extended(&id, card.as_bytes(), &publication(), plain());
    let got: Value = serde_json::from_slice(&answer(&card.to_string()).unwrap()).unwrap();
    assert_eq!(
        (&got["jsonrpc"], &got["id"]),
        (&json!("2.0"), &json!("9007199254740993"))
    );
    assert_eq!(got["result"], publish(&origin(&card), &publication()).value);
    assert_eq!(answer("<html>").unwrap_err(), CardError::NotJson { line: 1, column: 1 });
    assert_eq!(
        answer(r#"{},"error":{}"#).unwrap_err(),
        CardError::NotJson { line: 1, column: 3 }
    );
}

#[test]
fn versions_have_cards_of_their_own_where_there_are_several() {
    fn check(served: &[Generation], by_version: bool, versions: &[Generation]) {
        let input = Publication {
            served: served.to_vec(),
            by_version,
            ..publication()
        };
        assert_eq!(input.versions(), versions, "{served:?} {by_version}");
        for generation in Generation::SPOKEN {
            let own = versions.contains(&generation);
            let expected = if own { vec![generation] } else { served.to_vec() };
            assert_eq!(input.of(generation).served, expected);
        }
    }
    check(&Generation::SPOKEN, true, &Generation::SPOKEN);
    check(&Generation::SPOKEN, false, &[]);
    check(&[Generation::V1_0], true, &[]);
    check(&[Generation::V0_3], true, &[]);
}

#[test]
fn a_card_with_two_members_of_one_name_is_refused() {
    fn check(card: &str) {
        let error = read(card.as_bytes()).err();
        assert_eq!(error, Some(CardError::DuplicateMember), "{card}");
    }
    check(r#"{"url":"a","url":"b"}"#);
    check(r#"{"url":"a","\u0075rl":"b"}"#);
    check(r#"{"security":[],"skills":[{"id":"a","id":"b"}],"security":[]}"#);
    check(r#"{"skills":[{"id":"a","id":"b"}]}"#);
    // Behind a number of any length.
    check(&format!(r#"{{"x":1.{},"url":"a","url":"b"}}"#, "0".repeat(400)));
    assert!(read(br#"{"skills":[{"id":"a"},{"id":"a"}]}"#).is_ok());
}

#[test]
fn a_member_in_a_spelling_that_readers_disagree_about_is_refused() {
    fn check(card: Value, member: &'static str) {
        let error = read(card.to_string().as_bytes()).unwrap_err();
        assert_eq!(error, CardError::Ambiguous { member }, "{card}");
        assert!(!error.is_no_card());
    }
    check(json!({"URL": "u"}), "url");
    check(json!({"url": "u", "Url": "v"}), "url");
    check(
        json!({"supportedInterfaces": [], "supported_interfaces": []}),
        "supportedInterfaces",
    );
    check(json!({"\u{17f}upportedInterfaces": []}), "supportedInterfaces");
    check(json!({"supportedInterfaces": [{"URL": "u"}]}), "url");
    check(json!({"capabilities": {"Streaming": true}}), "streaming");
}

#[test]
fn capabilities_are_claimed_by_true_only() {
    fn check(card: Value, streaming: bool, push: bool, extended: bool) {
        let expected = Capabilities {
            streaming,
            push,
            extended,
        };
        assert_eq!(origin(&card).capabilities, expected, "{card}");
    }
    check(json!({}), false, false, false);
    check(json!({"capabilities": "all"}), false, false, false);
    check(json!({"capabilities": {"streaming": true}}), true, false, false);
    check(
        json!({"capabilities": {"push_notifications": true}}),
        false,
        true,
        false,
    );
    check(
        json!({"capabilities": {"streaming": "true", "pushNotifications": 1}}),
        false,
        false,
        false,
    );
    check(json!({"capabilities": {"extendedAgentCard": true}}), false, false, true);
    check(json!({"supportsAuthenticatedExtendedCard": true}), false, false, true);
}

#[test]
fn a_requirement_that_costs_each_call_too_much_is_not_read() {
    let list = |count: u32| (0..count).map(|id| json!({id.to_string(): []})).collect::<Value>();
    let schemes = |count: u32| json!([(0..count).map(|id| (id.to_string(), json!([]))).collect::<Map<_, _>>()]);
    let names = |count: u32| json!({"schemes": (0..count).map(|id| id.to_string()).collect::<Value>()});
    for count in [128, 129] {
        for card in [
            json!({"security": list(count)}),
            json!({"securityRequirements": list(count)}),
            json!({"security": schemes(count)}),
            json!({"authentication": names(count)}),
        ] {
            assert_eq!(origin(&card).security.is_ok(), count == 128, "{card}");
        }
    }
}

#[test]
fn requirements_are_read_in_every_form_or_not_at_all() {
    fn check(card: Value, expected: Result<Alternatives<'_>, CardError>) {
        assert_eq!(origin(&card).security, expected.map(security), "{card}");
    }
    const OLD: CardError = CardError::Malformed { member: "security" };
    const NEW: CardError = CardError::Malformed {
        member: "securityRequirements",
    };

    check(json!({}), Ok(&[]));
    check(json!({"security": null}), Ok(&[]));
    check(json!({"security": []}), Ok(&[]));
    check(json!({"security": [{}]}), Ok(&[&[]]));
    check(json!({"securityRequirements": [{"schemes": {}}]}), Ok(&[&[]]));
    check(
        json!({"security": [{"b": []}, {"o": ["openid"], "k": []}]}),
        Ok(&[&[("b", &[])], &[("k", &[]), ("o", &["openid"])]]),
    );
    check(
        json!({"securityRequirements": [{"schemes": {"b": {}}}, {"schemes": {"o": {"list": ["openid"]}, "k": {"list": []}}}]}),
        Ok(&[&[("b", &[])], &[("k", &[]), ("o", &["openid"])]]),
    );
    check(
        json!({"security_requirements": [{"schemes": {"b": {}}}]}),
        Ok(&[&[("b", &[])]]),
    );
    // Either form under either name.
    check(json!({"security": [{"schemes": {"b": {}}}]}), Ok(&[&[("b", &[])]]));
    check(json!({"securityRequirements": [{"b": []}]}), Ok(&[&[("b", &[])]]));
    check(json!({"security": [{"schemes": ["s"]}]}), Ok(&[&[("schemes", &["s"])]]));
    // 0.1, with the string that was seen instead of a list.
    check(
        json!({"authentication": {"schemes": ["A", "B"]}}),
        Ok(&[&[("A", &[])], &[("B", &[])]]),
    );
    check(json!({"authentication": {"schemes": "A"}}), Ok(&[&[("A", &[])]]));
    check(
        json!({"authentication": {"schemes": "A"}, "security": [{"b": []}]}),
        Ok(&[&[("b", &[])]]),
    );
    check(json!({"authentication": {}}), Ok(&[]));

    // Both forms agree whatever their order.
    check(
        json!({"security": [{"k": [], "o": ["y", "x"]}, {"b": []}],
            "securityRequirements": [{"schemes": {"b": {}}}, {"schemes": {"o": {"list": ["x", "y"]}, "k": {}}}]}),
        Ok(&[&[("b", &[])], &[("k", &[]), ("o", &["x", "y"])]]),
    );
    for (old, new) in [
        (json!([{"b": []}]), json!([{"schemes": {"c": {}}}])),
        (json!([{"b": []}]), json!([{"schemes": {"b": {"list": ["x"]}}}])),
        (json!([{"b": []}]), json!([])),
        (json!([]), json!([{"schemes": {"b": {}}}])),
        (json!([{"b": []}, {}]), json!([{"schemes": {"b": {}}}])),
    ] {
        check(
            json!({"security": old, "securityRequirements": new}),
            Err(CardError::SecurityDisagrees),
        );
    }

    check(json!({"security": {"b": []}}), Err(OLD));
    check(json!({"security": "none"}), Err(OLD));
    check(json!({"security": [null]}), Err(OLD));
    check(json!({"security": ["b"]}), Err(OLD));
    check(json!({"security": [{"b": null}]}), Err(OLD));
    check(json!({"security": [{"b": [1]}]}), Err(OLD));
    check(json!({"security": [{"schemes": {"b": {}}, "c": []}]}), Err(OLD));
    check(
        json!({"securityRequirements": [{"schemes": {"b": {"lists": []}}}]}),
        Err(NEW),
    );
    check(
        json!({"securityRequirements": [{"schemes": {"b": {"list": "x"}}}]}),
        Err(NEW),
    );
    check(
        json!({"Security": []}),
        Err(CardError::Ambiguous { member: "security" }),
    );
    check(
        json!({"authentication": {"schemes": [1]}}),
        Err(CardError::Malformed {
            member: "authentication",
        }),
    );
}

#[test]
fn schemes_survive_every_form() {
    let described = |kind| SchemeForm {
        description: Some("why".to_owned()),
        kind,
    };
    let flows = json!({"clientCredentials": {"tokenUrl": "t", "scopes": {}}});
    let kinds = [
        SchemeFormKind::ApiKey {
            place: KeyPlace::Cookie,
            name: "k".to_owned(),
        },
        SchemeFormKind::HttpBearer { bearer_format: None },
        SchemeFormKind::HttpBearer {
            bearer_format: Some("JWT".to_owned()),
        },
        SchemeFormKind::HttpBasic,
        SchemeFormKind::HttpOther {
            scheme: "SCRAM-SHA-256".to_owned(),
        },
        SchemeFormKind::OAuth2 {
            flows: flows.as_object().unwrap().clone(),
            metadata_url: Some("m".to_owned()),
        },
        SchemeFormKind::OpenIdConnect { url: "o".to_owned() },
        SchemeFormKind::MutualTls,
    ];
    let forms: [&[Generation]; 3] = [&[Generation::V0_3], &[Generation::V1_0], &Generation::SPOKEN];
    for kind in kinds {
        for written in [scheme(kind.clone()), described(kind)] {
            for form in forms {
                let value = written.write(form);
                assert_eq!(SchemeForm::read(&value).as_ref(), Some(&written), "{value}");
            }
        }
    }
}

#[test]
fn schemes_are_read_as_javascript_servers_print_them() {
    fn check(value: Value, expected: Option<SchemeFormKind>) {
        let read = SchemeForm::read(&value).map(|form| form.kind);
        assert_eq!(read, expected, "{value}");
    }
    check(
        json!({"scheme": {"$case": "httpAuthSecurityScheme",
            "value": {"description": "", "scheme": "Bearer", "bearerFormat": "JWT"}}}),
        Some(SchemeFormKind::HttpBearer {
            bearer_format: Some("JWT".to_owned()),
        }),
    );
    check(
        json!({"scheme": {"$case": "mtlsSecurityScheme", "value": {}}}),
        Some(SchemeFormKind::MutualTls),
    );
    check(json!({"mtlsSecurityScheme": {}}), Some(SchemeFormKind::MutualTls));
    check(json!({"scheme": {"$case": "other", "value": {}}}), None);
    check(
        json!({"type": "http", "scheme": "digest"}),
        Some(SchemeFormKind::HttpOther {
            scheme: "digest".to_owned(),
        }),
    );
    check(json!({"type": "http", "scheme": ""}), None);
    check(json!({"type": "apiKey", "in": "body", "name": "k"}), None);
    check(json!({"type": "openIdConnect"}), None);
    check(json!({}), None);
    check(json!([]), None);
}

#[test]
fn oauth_publishes_one_flow_in_1_0_and_no_device_flow_in_0_3() {
    fn check(flows: Value, old: Value, new: Value) {
        let form = scheme(SchemeFormKind::OAuth2 {
            flows: flows.as_object().unwrap().clone(),
            metadata_url: None,
        });
        let expected = json!({"type": "oauth2", "flows": old, "oauth2SecurityScheme": {"flows": new}});
        assert_eq!(form.write(&Generation::SPOKEN), expected, "{flows}");
    }
    check(
        json!({"clientCredentials": 1, "authorizationCode": 2}),
        json!({"clientCredentials": 1, "authorizationCode": 2}),
        json!({"clientCredentials": 1}),
    );
    check(json!({"deviceCode": 1}), json!({}), json!({"deviceCode": 1}));
    check(
        json!({"x-odd": 1, "password": 2}),
        json!({"password": 2}),
        json!({"password": 2}),
    );
    check(json!({}), json!({}), json!({}));
}

#[test]
fn the_card_takes_the_forms_of_what_is_served() {
    fn check(card: Value, served: &[Generation], old: bool, versions: &[&str]) {
        let value = published(&card, |input| input.served = served.to_vec());
        assert_eq!(value.get("url").is_some(), old, "{value}");
        assert_eq!(value.get("preferredTransport").is_some(), old, "{value}");
        assert_eq!(value.get("additionalInterfaces").is_some(), old, "{value}");
        assert_eq!(value.get("security").is_some(), old, "{value}");
        let supported = value.get("supportedInterfaces").and_then(Value::as_array);
        let found: Vec<_> = supported
            .into_iter()
            .flatten()
            .map(|entry| entry["protocolVersion"].as_str().unwrap())
            .collect();
        assert_eq!(found, versions, "{value}");
        assert_eq!(
            value.get("securityRequirements").is_some(),
            !versions.is_empty(),
            "{value}"
        );
    }
    use Generation::{V0_3, V1_0};
    let entry = |version| json!({"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": version});
    let old = json!({"url": "u", "protocolVersion": "0.3.0"});
    let new = json!({"supportedInterfaces": [entry("1.0")]});
    let listed = json!({"supportedInterfaces": [entry("0.3"), entry("1.0")]});
    let both = json!({"url": "u", "protocolVersion": "0.3", "supportedInterfaces": [entry("1.0")]});

    // What the agent does not speak is translated.
    check(old.clone(), &[V0_3, V1_0], true, &["1.0", "0.3"]);
    check(new.clone(), &[V0_3, V1_0], true, &["1.0", "0.3"]);
    check(listed, &[V0_3, V1_0], true, &["1.0", "0.3"]);
    check(both.clone(), &[V0_3, V1_0], true, &["1.0", "0.3"]);
    check(both.clone(), &[V0_3], true, &[]);
    check(both.clone(), &[V1_0], false, &["1.0"]);
    // The configuration says what the card does not.
    check(old, &[V1_0], false, &["1.0"]);
    check(new, &[V0_3], true, &[]);
    check(json!({}), &[V0_3, V1_0], true, &["1.0", "0.3"]);
    check(both, &[], false, &[]);
}

#[test]
fn capabilities_are_never_more_than_both_sides_have() {
    fn check(claimed: bool, served: bool, expected: bool) {
        let card = json!({"url": "u", "protocolVersion": "0.3", "supportsAuthenticatedExtendedCard": claimed,
            "supportedInterfaces": [{"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"streaming": claimed, "pushNotifications": claimed, "extendedAgentCard": claimed, "x": 1}});
        let value = published(&card, |input| {
            (input.streaming, input.push, input.extended) = (served, served, served);
            let boast = json!({"streaming": true, "pushNotifications": true, "extendedAgentCard": true, "x": 1});
            input.edits.overrides.insert("capabilities".to_owned(), boast);
        });
        let flags =
            json!({"x": 1, "streaming": expected, "pushNotifications": expected, "extendedAgentCard": expected});
        assert_eq!(value["capabilities"], flags);
        assert_eq!(value["supportsAuthenticatedExtendedCard"], expected);
    }
    check(true, true, true);
    check(true, false, false);
    check(false, true, false);
}

#[test]
fn an_open_agent_has_no_extended_card_and_no_requirement() {
    fn check(enforced: Security, requirement: Option<Value>) {
        let card = json!({"url": "u", "security": [{"bearer": []}], "securitySchemes": {"bearer": {"type": "mutualTLS"}},
            "supportsAuthenticatedExtendedCard": true});
        let value = published(&card, |input| input.enforced = enforced);
        assert_eq!(value["supportsAuthenticatedExtendedCard"], false, "{value}");
        assert_eq!(value.get("security"), requirement.as_ref(), "{value}");
    }
    check(security(&[]), None);
    check(security(&[&[("bearer", &[])], &[]]), Some(json!([{"bearer": []}, {}])));
}

#[test]
fn a_requirement_is_published_even_without_its_scheme() {
    let value = published(&json!({"url": "u"}), |input| {
        input.enforced = security(&[&[("gone", &["a"]), ("gone", &["b", "a"])]]);
    });
    assert_eq!(value["security"], json!([{"gone": ["a", "b"]}]));
    assert_eq!(value.get("securitySchemes"), None);
}

#[test]
fn skills_keep_requirements_that_the_card_still_explains() {
    fn check(skill: Value, expected: Value) {
        let card = json!({"url": "u", "protocolVersion": "0.3", "skills": [skill],
            "supportedInterfaces": [{"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
        assert_eq!(published(&card, |_| {})["skills"][0], expected, "{skill}");
    }
    let kept = json!({"id": "s", "security": [{"berthOauth": ["berth.write"]}],
        "securityRequirements": [{"schemes": {"berthOauth": {"list": ["berth.write"]}}}]});
    check(
        json!({"id": "s", "security": [{"berthOauth": ["berth.write"]}]}),
        kept.clone(),
    );
    check(
        json!({"id": "s", "security_requirements": [{"schemes": {"berthOauth": {"list": ["berth.write"]}}}]}),
        kept.clone(),
    );
    check(kept.clone(), kept);
    check(json!({"id": "s", "security": [{"elsewhere": []}]}), json!({"id": "s"}));
    check(
        json!({"id": "s", "security": [{"bearer": []}, {"unused": []}]}),
        json!({"id": "s"}),
    );
    check(json!({"id": "s", "security": "junk"}), json!({"id": "s"}));
    check(json!({"id": "s", "Security": [{"bearer": []}]}), json!({"id": "s"}));
    check(json!({"id": "s", "securityRequirements": []}), json!({"id": "s"}));
    check(json!("junk"), json!("junk"));
}

#[test]
fn links_to_the_agents_own_servers_are_left_out() {
    fn check(link: &str, stays: bool) {
        let provider = json!({"organization": "Harbour Board", "url": link});
        let card = json!({"name": "Harbour", "version": "1", "url": "http://Agent.internal/rpc",
            "additionalInterfaces": [{"url": "10.0.0.7:41302", "transport": "GRPC"}],
            "documentationUrl": link, "icon_url": link, "provider": provider});
        let value = published(&card, |_| {});
        for (name, expected) in [
            ("documentationUrl", json!(link)),
            ("icon_url", json!(link)),
            ("provider", provider),
        ] {
            assert_eq!(value.get(name), stays.then_some(&expected), "{name}: {link}");
        }
    }
    // What the configuration names.
    check("http://10.0.0.9:9999/docs", false);
    check("HTTPS://Cards.Internal./docs", false);
    check("https://cards.internal:443?x", false);
    check("https://user@cards.internal#x", false);
    check(" https:\\\\cards.internal\\docs", false);
    check("//cards.internal/docs", false);
    // What the card names.
    check("http://agent.internal/docs", false);
    check("http://agent.internal:80", false);
    check("grpc://10.0.0.7:41302", false);
    // Other servers, other ports, no server at all.
    check("https://docs.harbour.example/agent", true);
    check("http://10.0.0.9:9998/docs", true);
    check("https://agent.internal/docs", true);
    check("https://cards.internal.example/", true);
    check("https://harbour.example/?from=https://cards.internal/", true);
    check("/docs", true);
    check("", true);
}

#[test]
fn links_to_the_gateway_and_those_of_overrides_stay() {
    let card = json!({"name": "Harbour", "version": "1", "url": PUBLIC, "documentationUrl": PUBLIC,
        "iconUrl": "http://10.0.0.9:9999/icon"});
    let overrides = json!({"iconUrl": "https://cards.internal/icon"});
    let value = published(&card, |input| {
        input.edits.overrides = overrides.as_object().unwrap().clone();
    });
    assert_eq!(value["documentationUrl"], PUBLIC);
    assert_eq!(value["iconUrl"], "https://cards.internal/icon");
}

#[test]
fn overrides_replace_what_is_not_governed() {
    let card = json!({"name": "Harbour", "url": "http://10.0.0.1/", "version": "1"});
    let overrides = json!({"name": "Port", "iconUrl": "https://example.com/i", "url": "http://evil.example/",
        "supported_interfaces": [1], "SECURITY": [], "signatures": [1]});
    let value = published(&card, |input| {
        input.edits.overrides = overrides.as_object().unwrap().clone();
    });
    assert_eq!(value["name"], "Port");
    assert_eq!(value["iconUrl"], "https://example.com/i");
    assert_eq!(value["url"], PUBLIC);
    for name in ["supported_interfaces", "SECURITY", "signatures"] {
        assert_eq!(value.get(name), None, "{name}");
        assert!(is_forbidden_override(name), "{name}");
    }
    for name in forbidden_overrides() {
        assert!(is_forbidden_override(name), "{name}");
    }
    assert!(!is_forbidden_override("provider"));
    assert!(!is_forbidden_override("urls"));
}

#[test]
fn a_tenant_is_kept_when_it_is_one() {
    fn check(tenant: Value, expected: Option<&str>) {
        let card = json!({"supportedInterfaces": [
            {"url": "g", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "other"},
            {"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": tenant}]});
        let value = published(&card, |_| {});
        let entry = &value["supportedInterfaces"][0];
        assert_eq!(entry.get("tenant").and_then(Value::as_str), expected, "{entry}");
    }
    check(json!("quay-7"), Some("quay-7"));
    check(json!(""), None);
    check(json!(null), None);
    check(json!(7), None);
}

#[test]
fn an_answer_with_an_extended_card_keeps_its_id() {
    let card = r#"{"name":"N","url":"http://10.0.0.1/"}"#;
    let public = String::from_utf8(publish(&read(card.as_bytes()).unwrap(), &publication()).bytes.to_vec()).unwrap();
    let check = |answer: String, expected: Result<String, CardError>| {
        let found = rewrite_extended_answer(&Bytes::from(answer.clone()), &publication(), plain());
        let found = found.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
        assert_eq!(found, expected, "{answer}");
    };
    let huge = "123456789012345678901234567890";
    check(
        format!(r#"{{ "jsonrpc":"2.0", "id": {huge}, "result" :{card}, "x":[1, 2e0] }}"#),
        Ok(format!(
            r#"{{"jsonrpc":"2.0","id":{huge},"result":{public},"x":[1, 2e0]}}"#
        )),
    );
    check(
        format!(r#"{{"id":"\u0031","error":null,"result":{card}}}"#),
        Ok(format!(r#"{{"id":"\u0031","error":null,"result":{public}}}"#)),
    );
    let error = r#"{ "error":{"code":-32007,"message":"m"}, "id":"h-1" }"#.to_owned();
    check(error.clone(), Ok(error));
    for broken in [
        "[]".to_owned(),
        "{".to_owned(),
        "{}".to_owned(),
        r#"{"id":1,"error":null}"#.to_owned(),
        format!(r#"{{"result":{card},"result":{card}}}"#),
        format!(r#"{{"result":{card},"Result":{card}}}"#),
        format!(r#"{{"Result":{card}}}"#),
        format!(r#"{{"result":{card},"error":{{}}}}"#),
        format!(r#"{{"result":{card}}} x"#),
    ] {
        check(broken, Err(CardError::NotAnAnswer));
    }
    check(r#"{"result":null}"#.to_owned(), Err(CardError::NotObject));
    check(
        r#"{"result":{"URL":"u"}}"#.to_owned(),
        Err(CardError::Ambiguous { member: "url" }),
    );
    // What an extended card demands is enforced by nobody, so a contradiction in it hurts nobody.
    let contradictory = format!(r#"{{"result":{},"id":1}}"#, card.replace('}', r#","security":7}"#));
    check(contradictory, Ok(format!(r#"{{"result":{public},"id":1}}"#)));
}
