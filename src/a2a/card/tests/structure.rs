//! What a card must have, by the generation that it is written in.

use super::*;

fn whole() -> Value {
    json!({
        "name": "n", "description": "", "version": "1", "capabilities": {}, "url": "http://10.0.0.1/", "protocolVersion": "0.3.0",
        "defaultInputModes": [], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "a", "name": "A", "description": "d", "tags": []}],
    })
}

fn found(card: &Value, edits: &Edits) -> String {
    let origin = origin(card);
    flaws(&origin, edits, origin.written(None)).to_string()
}

#[track_caller]
fn check(card: &Value, expected: &str) {
    assert_eq!(found(card, &Edits::default()), expected);
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut card = whole();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    card.pointer_mut(parent).unwrap()[name] = value;
    card
}

#[test]
fn required_members_are_missed_and_null_is_none() {
    check(&whole(), "");
    let required = [
        "name",
        "description",
        "version",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    ];
    for name in required {
        let mut card = whole();
        card.as_object_mut().unwrap().remove(name);
        check(&card, &format!("`{name}` is missing"));
        check(
            &changed(&format!("/{name}"), Value::Null),
            &format!("`{name}` is missing"),
        );
    }
    for name in ["id", "name", "description", "tags"] {
        let null = changed(
            "/skills",
            json!([{"id": "a", "name": "A", "description": "d", "tags": ["t"], name: null}]),
        );
        check(&null, &format!("`skills[0].{name}` is missing"));
    }
    for name in ["provider", "capabilities", "iconUrl"] {
        check(&changed(&format!("/{name}"), Value::Null), "");
    }
}

#[test]
fn members_of_another_type_are_told() {
    for (pointer, value, expected) in [
        ("/name", json!(7), "`name` is not a text"),
        ("/skills", json!({}), "`skills` is not a list"),
        ("/skills", json!([7]), "`skills[0]` is not an object"),
        (
            "/defaultInputModes",
            json!("text/plain"),
            "`defaultInputModes` is not a list of texts",
        ),
        (
            "/defaultOutputModes",
            json!([1]),
            "`defaultOutputModes` is not a list of texts",
        ),
        ("/capabilities", json!([]), "`capabilities` is not an object"),
        (
            "/capabilities",
            json!({"extensions": {}}),
            "`capabilities.extensions` is not a list",
        ),
        (
            "/capabilities",
            json!({"extensions": [{"uri": "u"}, {"required": "yes", "params": []}]}),
            "`capabilities.extensions[1].uri` is missing, `capabilities.extensions[1].required` is not true or false, \
             `capabilities.extensions[1].params` is not an object",
        ),
        (
            "/provider",
            json!({"url": "https://example.com"}),
            "`provider.organization` is missing",
        ),
        ("/provider", json!("port"), "`provider` is not an object"),
    ] {
        check(&changed(pointer, value), expected);
    }
    let skill = json!({"id": "a", "name": "A", "description": "d", "tags": "t", "examples": [1], "inputModes": null});
    check(
        &changed("/skills", json!([skill])),
        "`skills[0].tags` is not a list of texts, `skills[0].examples` is not a list of texts",
    );
}

#[test]
fn the_list_is_bounded() {
    let skills: Vec<_> = (0..20)
        .map(|index| json!({"id": index.to_string(), "name": "n", "description": "d"}))
        .collect();
    let told = found(&changed("/skills", skills.into()), &Edits::default());
    assert!(told.starts_with("`skills[0].tags` is missing, "), "{told}");
    assert!(told.ends_with("`skills[7].tags` is missing, and 12 more"), "{told}");
}

#[test]
fn what_operators_write_counts() {
    let card = changed("/skills", json!([{"id": "a", "name": "A"}, {"id": "debug-x"}]));
    let mut card = card;
    card.as_object_mut().unwrap().remove("version");
    let edits = Edits {
        overrides: json!({"version": "1"}).as_object().unwrap().clone(),
        hidden_skills: vec![SkillPattern::new("debug-*")],
        skill_texts: BTreeMap::from([(
            "a".to_owned(),
            json!({"description": "d", "tags": ["t"]}).as_object().unwrap().clone(),
        )]),
    };
    assert_eq!(found(&card, &edits), "");
    let wrong = Edits {
        overrides: json!({"version": 1.5}).as_object().unwrap().clone(),
        ..edits
    };
    assert_eq!(found(&card, &wrong), "`version` is not a text");
}

fn complete_in(card: &Value) -> Value {
    let origin = origin(card);
    let input = Publication {
        written: origin.written(None),
        ..publication()
    };
    publish(&origin, &input).value
}

#[test]
fn what_0_1_may_leave_out_is_written_down() {
    let card = json!({"name": "n", "description": null, "url": "http://10.0.0.1/", "version": "1", "authentication": {"schemes": []},
        "skills": [{"id": "s", "name": "S"}, {"id": "t", "name": "T", "description": "d", "tags": ["t"]}]});
    check(&card, "");
    let got = complete_in(&card);
    assert_eq!(got["description"], "");
    assert_eq!(got["defaultInputModes"], json!(["text/plain"]));
    assert_eq!(got["defaultOutputModes"], json!(["text/plain"]));
    assert_eq!(
        got["skills"],
        json!([{"id": "s", "name": "S", "description": "", "tags": []}, card["skills"][1]])
    );
    let mut without = card;
    without.as_object_mut().unwrap().remove("version");
    check(&without, "`version` is missing");
}

#[test]
fn what_protobuf_leaves_out_is_written_down() {
    let interfaces = json!([{"url": "http://10.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    let card = json!({"name": "n", "supportedInterfaces": interfaces, "default_input_modes": ["a/b"], "skills": [{"id": "s", "name": "S"}]});
    check(&card, "");
    let got = complete_in(&card);
    assert_eq!((&got["description"], &got["version"]), (&json!(""), &json!("")));
    assert_eq!(got["defaultOutputModes"], json!([]));
    assert_eq!(got.get("defaultInputModes"), None, "it is there in another spelling");
    assert_eq!(got["skills"][0]["tags"], json!([]));
    check(&json!({"supportedInterfaces": interfaces}), "`name` is missing");
    check(
        &json!({"name": "n", "supportedInterfaces": interfaces, "default_input_modes": 7}),
        "`defaultInputModes` is not a list of texts",
    );
}

#[test]
fn a_card_says_in_which_generation_it_is_written() {
    let of = |card: Value, configured| origin(&card).written(configured);
    let (newest, old) = (
        json!([{"url": "u", "protocolBinding": "GRPC", "protocolVersion": "1.0"}]),
        json!({"url": "u", "protocolVersion": "0.1"}),
    );
    let hybrid = json!({"url": "u", "protocolVersion": "0.3", "supportedInterfaces": newest});
    assert_eq!(of(hybrid.clone(), None), Generation::V1_0);
    assert_eq!(of(hybrid, Some(Generation::V0_3)), Generation::V1_0);
    assert_eq!(of(old.clone(), None), Generation::V0_1);
    assert_eq!(of(whole(), None), Generation::V0_3);
    assert_eq!(of(whole(), Some(Generation::V0_1)), Generation::V0_1);
    assert_eq!(of(json!({}), Some(Generation::V1_0)), Generation::V1_0);
}
