//! Agent cards.

use proptest::collection::{btree_map, vec};
use proptest::option;
use serde_json::{Value, json};

use super::*;
use crate::a2a::Operation;
use crate::a2a::model::Response;
use crate::a2a::model::wire::Json;

/// A card as protobuf, and again as JSON.
fn returned(generation: Generation, card: &Value) -> Result<Value, Error> {
    let card = Response::Card(Json::owned(card.to_string()).unwrap());
    let bytes = write_response(generation, Operation::ExtendedCard, card)?;
    let Response::Card(card) = read_response(generation, Operation::ExtendedCard, &bytes)? else {
        panic!("another answer");
    };
    Ok(serde_json::from_str(card.get())?)
}

/// What a generation demands of every card.
fn least(generation: Generation) -> Value {
    let mut card = json!({
        "name": "n", "description": "", "version": "1", "capabilities": {}, "defaultInputModes": [], "defaultOutputModes": [],
        "skills": [],
    });
    match generation {
        Generation::V0_1 | Generation::V0_3 => {
            card["url"] = json!("https://a.example/");
            card["protocolVersion"] = json!("0.3.0");
            card["capabilities"] = json!({"streaming": false, "pushNotifications": false});
        }
        Generation::V1_0 => card["supportedInterfaces"] = json!([]),
    }
    card
}

fn with(generation: Generation, name: &str, value: Value) -> Value {
    let mut card = least(generation);
    card[name] = value;
    card
}

#[test]
fn recorded_cards_survive() {
    let card: Value = serde_json::from_str(include_str!("../../../../tests/cards/1.0.json")).unwrap();
    assert_eq!(returned(V1_0, &card), Ok(card));
    let mut card: Value = serde_json::from_str(include_str!("../../../../tests/cards/0.3.json")).unwrap();
    let got = returned(V0_3, &card).unwrap();
    // Both of which stand in `LOSSES.md`.
    card["capabilities"]
        .as_object_mut()
        .unwrap()
        .remove("stateTransitionHistory")
        .unwrap();
    let flows = card["securitySchemes"]["berthOauth"]["flows"].as_object_mut().unwrap();
    flows.remove("clientCredentials").unwrap();
    assert_eq!(got, card);
}

#[test]
fn what_a_generation_demands_is_there_even_if_empty() {
    for generation in Generation::SPOKEN {
        assert_eq!(returned(generation, &least(generation)), Ok(least(generation)));
        let mut empty = least(generation);
        empty["name"] = json!("");
        empty["version"] = json!("");
        if generation == V0_3 {
            empty["url"] = json!("");
            empty["protocolVersion"] = json!("");
        }
        assert_eq!(returned(generation, &json!({})), Ok(empty), "{generation}");
    }
    // What is unset is told from what is false.
    let card = with(
        V1_0,
        "capabilities",
        json!({"streaming": false, "extendedAgentCard": true}),
    );
    assert_eq!(returned(V1_0, &card), Ok(card));
}

#[test]
fn members_of_cards_that_have_no_field_are_left_out() {
    let capabilities = json!({"streaming": true, "pushNotifications": false, "stateTransitionHistory": true});
    let got = returned(V0_3, &with(V0_3, "capabilities", capabilities)).unwrap();
    assert_eq!(
        got["capabilities"],
        json!({"streaming": true, "pushNotifications": false})
    );
    for generation in Generation::SPOKEN {
        let mut card = with(generation, "x-own", json!({"a": 1}));
        card["iconUrl"] = Value::Null;
        card["provider"] = json!({"organization": "o", "url": "u", "x": 1});
        let expected = with(generation, "provider", json!({"organization": "o", "url": "u"}));
        assert_eq!(returned(generation, &card), Ok(expected));
    }
    // The other half of a hybrid.
    let mut hybrid = least(V1_0);
    for (name, value) in least(V0_3).as_object().unwrap() {
        hybrid[name] = value.clone();
    }
    let scheme = json!({"type": "http", "scheme": "bearer", "httpAuthSecurityScheme": {"scheme": "bearer"}});
    hybrid["securitySchemes"] = json!({"s": scheme});
    let got = |generation| returned(generation, &hybrid).unwrap();
    assert_eq!(
        got(V0_3)["securitySchemes"]["s"],
        json!({"type": "http", "scheme": "bearer"})
    );
    assert_eq!(
        got(V1_0)["securitySchemes"]["s"],
        json!({"httpAuthSecurityScheme": {"scheme": "bearer"}})
    );
    assert_eq!(got(V0_3).get("supportedInterfaces"), None);
    assert_eq!(got(V1_0).get("url"), None);
}

#[test]
fn schemes_are_told_apart() {
    let scopes = json!({"a": "b"});
    let code = json!({"authorizationUrl": "a", "tokenUrl": "t", "refreshUrl": "r", "scopes": scopes});
    let token = json!({"tokenUrl": "t", "scopes": scopes});
    let implicit = json!({"authorizationUrl": "a", "scopes": {}});
    for (old, new) in [
        (
            json!({"type": "apiKey", "in": "header", "name": "X-Key", "description": "d"}),
            json!({"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "d"}}),
        ),
        (
            json!({"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}),
            json!({"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": "JWT"}}),
        ),
        (
            json!({"type": "openIdConnect", "openIdConnectUrl": "u"}),
            json!({"openIdConnectSecurityScheme": {"openIdConnectUrl": "u"}}),
        ),
        (json!({"type": "mutualTLS"}), json!({"mtlsSecurityScheme": {}})),
        (
            json!({"type": "oauth2", "flows": {"authorizationCode": code}, "oauth2MetadataUrl": "m"}),
            json!({"oauth2SecurityScheme": {"flows": {"authorizationCode": code}, "oauth2MetadataUrl": "m"}}),
        ),
        (
            json!({"type": "oauth2", "flows": {"clientCredentials": token}}),
            json!({"oauth2SecurityScheme": {"flows": {"clientCredentials": token}}}),
        ),
        (
            json!({"type": "oauth2", "flows": {"password": token}}),
            json!({"oauth2SecurityScheme": {"flows": {"password": token}}}),
        ),
        (
            json!({"type": "oauth2", "flows": {"implicit": implicit}}),
            json!({"oauth2SecurityScheme": {"flows": {"implicit": implicit}}}),
        ),
    ] {
        let bytes = |generation, scheme: &Value| {
            let card = with(generation, "securitySchemes", json!({"s": scheme}));
            assert_eq!(returned(generation, &card), Ok(card.clone()));
            let card = Response::Card(Json::owned(card.to_string()).unwrap());
            write_response(generation, Operation::ExtendedCard, card).unwrap()
        };
        // Both write the same field.
        let [old, new] = [bytes(V0_3, &old), bytes(V1_0, &new)].map(|card| {
            let mut schemes = Vec::new();
            super::super::wire::walk::<WireError>(&card, |number, field| {
                schemes.extend(
                    Some(field)
                        .filter(|_| number == 8)
                        .map(|field| field.message().unwrap().to_vec()),
                );
                Ok(())
            })
            .unwrap();
            schemes
        });
        assert_eq!((old.len(), &old), (1, &new));
    }
}

#[test]
fn schemes_have_one_flow_and_a_known_type() {
    let scheme = |generation: Generation, scheme: Value| {
        let card = with(generation, "securitySchemes", json!({"s": scheme}));
        returned(generation, &card).unwrap()["securitySchemes"]["s"].clone()
    };
    let (token, device) = (
        json!({"tokenUrl": "t", "scopes": {}}),
        json!({"deviceAuthorizationUrl": "d", "tokenUrl": "t", "scopes": {}}),
    );
    let code = |pkce: Option<bool>| {
        let mut code = json!({"authorizationUrl": "a", "tokenUrl": "t", "scopes": {}});
        if let Some(pkce) = pkce {
            code["pkceRequired"] = pkce.into();
        }
        code
    };
    for (flows, old, new) in [
        (
            json!({"x": 1, "password": token, "clientCredentials": token}),
            json!({"password": token}),
            json!({"password": token}),
        ),
        (
            json!({"clientCredentials": token, "password": token}),
            json!({"clientCredentials": token}),
            json!({"clientCredentials": token}),
        ),
        (json!({"deviceCode": device}), json!({}), json!({"deviceCode": device})),
        (
            json!({"authorizationCode": code(Some(true))}),
            json!({"authorizationCode": code(None)}),
            json!({"authorizationCode": code(Some(true))}),
        ),
        (json!({}), json!({}), json!({})),
        (json!({"x": {}}), json!({}), json!({})),
    ] {
        assert_eq!(scheme(V0_3, json!({"type": "oauth2", "flows": flows}))["flows"], old);
        assert_eq!(
            scheme(V1_0, json!({"oauth2SecurityScheme": {"flows": flows}}))["oauth2SecurityScheme"]["flows"],
            new
        );
    }
    assert_eq!(scheme(V0_3, json!({"type": "later", "name": "x"})), json!({}));
    assert_eq!(scheme(V1_0, json!({"laterSecurityScheme": {}})), json!({}));
}

#[test]
fn requirements_keep_their_scopes_and_never_open() {
    let old = json!([{"a": []}, {"b": ["x", "y"], "c": []}, {}]);
    let new = json!([{"schemes": {"a": {}}}, {"schemes": {"b": {"list": ["x", "y"]}, "c": {}}}, {"schemes": {}}]);
    assert_eq!(
        returned(V0_3, &with(V0_3, "security", old.clone())).unwrap()["security"],
        old
    );
    assert_eq!(
        returned(V1_0, &with(V1_0, "securityRequirements", new.clone())).unwrap()["securityRequirements"],
        new
    );
    // Of 1.0 in a card of 0.3, as some SDKs write it.
    assert_eq!(returned(V0_3, &with(V0_3, "security", new)).unwrap()["security"], old);
    let skill = json!({"id": "i", "name": "n", "description": "d", "tags": [], "security": [{"a": ["x"]}]});
    let card = with(V0_3, "skills", json!([skill]));
    assert_eq!(returned(V0_3, &card), Ok(card));
    // What cannot be read is not read as nothing, which would let anybody in.
    for requirement in [
        json!({"a": {}}),
        json!({"a": "x"}),
        json!({"a": {"list": 1}}),
        json!([]),
        json!(["a"]),
        json!("a"),
    ] {
        let (old, new) = (
            with(V0_3, "security", json!([requirement])),
            with(V1_0, "securityRequirements", json!([requirement])),
        );
        assert_eq!(returned(V0_3, &old), Err(Error::Malformed), "{requirement}");
        assert_eq!(returned(V1_0, &new), Err(Error::Malformed), "{requirement}");
    }
    assert_eq!(
        returned(V1_0, &with(V1_0, "securityRequirements", json!([{"a": []}]))),
        Err(Error::Malformed)
    );
}

#[test]
fn what_is_no_card_is_malformed() {
    for generation in Generation::SPOKEN {
        for card in [
            json!([]),
            json!("x"),
            json!(null),
            json!({"name": 1}),
            json!({"skills": {}}),
        ] {
            assert_eq!(returned(generation, &card), Err(Error::Malformed), "{card}");
        }
        let deep = format!(
            r#"{{"capabilities":{{"extensions":[{{"uri":"u","params":{}1{}}}]}}}}"#,
            r#"{"a":"#.repeat(40),
            "}".repeat(40)
        );
        let deep: Value = serde_json::from_str(&deep).unwrap();
        assert_eq!(returned(generation, &deep), Err(Error::Malformed));
    }
}

#[test]
fn free_form_members_keep_their_nulls() {
    let extension = json!({"uri": "u", "params": {"a": null, "b": {"c": [null, 1]}}});
    let card = with(V1_0, "capabilities", json!({"extensions": [extension]}));
    assert_eq!(returned(V1_0, &card), Ok(card));
    let signature = json!({"protected": "p", "signature": "s", "header": {"kid": null}});
    for generation in Generation::SPOKEN {
        let card = with(generation, "signatures", json!([signature]));
        assert_eq!(returned(generation, &card), Ok(card.clone()));
    }
}

/// A card of 1.0 with whatever it may have.
fn card() -> impl Strategy<Value = Value> {
    let word = || "[a-z]{1,5}";
    let words = || vec(word(), 1..3);
    let interface = (word(), word())
        .prop_map(|(url, binding)| json!({"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}));
    let requirement = btree_map(word(), words(), 0..3).prop_map(|schemes| {
        let schemes: serde_json::Map<_, _> = schemes
            .into_iter()
            .map(|(name, list)| (name, json!({"list": list})))
            .collect();
        json!({"schemes": schemes})
    });
    let skill = (word(), words(), vec(requirement.clone(), 1..3)).prop_map(|(id, examples, requirements)| {
        json!({"id": id, "name": "n", "description": "", "tags": [], "examples": examples, "securityRequirements": requirements})
    });
    let lists = (vec(interface, 0..3), vec(skill, 0..3), vec(requirement, 1..3));
    (lists, words(), option::of(word())).prop_map(|((interfaces, skills, requirements), modes, icon)| {
        let mut card = least(V1_0);
        card["supportedInterfaces"] = interfaces.into();
        card["skills"] = skills.into();
        card["securityRequirements"] = requirements.into();
        card["defaultInputModes"] = modes.into();
        if let Some(icon) = icon {
            card["iconUrl"] = icon.into();
        }
        card
    })
}

proptest! {
    #[test]
    fn cards_survive(card in card()) {
        prop_assert_eq!(returned(V1_0, &card), Ok(card));
    }

    #[test]
    fn no_bytes_panic_a_reader_of_cards(any in vec(any::<u8>(), 0..100), like in wire_like()) {
        for bytes in [any, like] {
            for generation in Generation::SPOKEN {
                if let Ok(card) = read_response(generation, Operation::ExtendedCard, &bytes) {
                    prop_assert!(write_response(generation, Operation::ExtendedCard, card).is_ok());
                }
            }
        }
    }
}
