//! What is different between two cards.

use super::*;

fn changed(before: &Value, after: &Value) -> Vec<String> {
    let found = differences(&origin(before), &origin(after));
    assert_eq!(found.matter(), found.listed.iter().any(|difference| difference.matters));
    found.listed.iter().map(ToString::to_string).collect()
}

fn card() -> Value {
    json!({"name": "n", "version": "1", "url": "http://a/", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0",
        "additionalInterfaces": [{"url": "http://a/", "transport": "JSONRPC"}],
        "supportedInterfaces": [{"url": "http://a/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "securitySchemes": {"b": {"type": "http", "scheme": "bearer"}}, "security": [{"b": ["x", "y"]}],
        "skills": [{"id": "plan", "description": "Plans", "tags": []}, {"id": "find"}]})
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut card = card();
    change(&mut card);
    card
}

#[test]
fn interfaces_security_and_skills_matter() {
    let check = |change: fn(&mut Value), expected: &[&str]| {
        let after = with(change);
        assert_eq!(changed(&card(), &after), expected);
        assert!(differences(&origin(&card()), &origin(&after)).matter(), "{expected:?}");
    };
    check(
        |card| card["url"] = json!("http://b/"),
        &[r#"url[JSONRPC 0.3.0]: "http://a/" -> "http://b/""#],
    );
    check(
        |card| card["protocolVersion"] = json!("0.2.6"),
        &[
            r#"url[JSONRPC 0.3.0]: "http://a/" -> absent"#,
            r#"url[JSONRPC 0.2.6]: absent -> "http://a/""#,
        ],
    );
    check(
        |card| card["supportedInterfaces"][0]["tenant"] = json!("t"),
        &[r#"supportedInterfaces[JSONRPC 1.0]: "http://a/" -> "http://a/" tenant "t""#],
    );
    // Of a binding that the gateway does not speak, too.
    check(
        |card| {
            let more = json!({"url": "ws://b/", "protocolBinding": "urn:ws", "protocolVersion": "1.0"});
            card["supportedInterfaces"].as_array_mut().unwrap().push(more);
        },
        &[r#"supportedInterfaces[urn:ws 1.0]: absent -> "ws://b/""#],
    );
    check(
        |card| {
            let more = json!({"url": "http://b/", "transport": "JSONRPC"});
            card["additionalInterfaces"].as_array_mut().unwrap().push(more);
        },
        &[r#"additionalInterfaces[JSONRPC #2]: absent -> "http://b/""#],
    );
    check(
        |card| card["security"] = json!([]),
        &[r#"security: [{"b":["x","y"]}] -> []"#],
    );
    check(
        |card| card["security"] = json!("junk"),
        &[
            "security: [{\"b\":[\"x\",\"y\"]}] -> the requirement in `security` of the card cannot be read; correct the agent's \
             card, or set `security` for this agent",
        ],
    );
    check(
        |card| card["securitySchemes"]["b"] = json!({"type": "http", "scheme": "basic"}),
        &[r#"securitySchemes[b]: {"type":"http","scheme":"bearer"} -> {"type":"http","scheme":"basic"}"#],
    );
    check(
        |card| card["skills"][0]["description"] = json!("Plans and pays"),
        &[r#"skills[plan].description: "Plans" -> "Plans and pays""#],
    );
    check(
        |card| card["skills"][1] = json!({"id": "pay"}),
        &[
            r#"skills[find]: {"id":"find"} -> absent"#,
            r#"skills[pay]: absent -> {"id":"pay"}"#,
        ],
    );
    check(
        |card| card["skills"][1]["security"] = json!([{"b": []}]),
        &[r#"skills[find].security: absent -> [{"b":[]}]"#],
    );
}

#[test]
fn other_members_and_forms_do_not_matter() {
    let check = |change: fn(&mut Value), expected: &[&str]| {
        let after = with(change);
        assert_eq!(changed(&card(), &after), expected);
        assert!(!differences(&origin(&card()), &origin(&after)).matter(), "{expected:?}");
    };
    check(|_| {}, &[]);
    check(|card| card["version"] = json!("2"), &[r#"version: "1" -> "2""#]);
    check(
        |card| card["capabilities"] = json!({"streaming": true}),
        &[r#"capabilities: absent -> {"streaming":true}"#],
    );
    check(
        |card| card["signatures"] = json!([{"protected": "a", "signature": "b"}]),
        &[],
    );
    check(|card| card["security"] = json!([{"b": ["y", "x"]}]), &[]);
    check(|card| card["skills"].as_array_mut().unwrap().reverse(), &[]);
    check(
        |card| {
            card["securitySchemes"]["b"] = json!({"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "d"}});
            card["securityRequirements"] = json!([{"schemes": {"b": {"list": ["x", "y"]}}}]);
        },
        &[],
    );
}

#[test]
fn differences_are_bounded_and_clean() {
    let before = json!({"name": "n"});
    let after = with(|card| {
        card["name"] = json!(format!("\u{1b}[31m\u{202e}{}", "x".repeat(1000)));
        card["skills"] = (0..100).map(|id| json!({"id": id.to_string()})).collect();
    });
    let found = differences(&origin(&before), &origin(&after));
    assert_eq!(found.listed.len() + found.left_out, 100 + 3 + 2 + 2);
    assert_eq!(found.listed.len(), 32);
    assert!(found.to_string().ends_with(&format!("and {} more\n", found.left_out)));
    let name = &json!({"name": after["name"]});
    let found = differences(&origin(&before), &origin(name));
    let shown = found.listed[0].after.as_ref().unwrap();
    assert_eq!(shown.chars().count(), 201, "{shown}");
    assert!(shown.starts_with("\"\\u001b[31m\u{fffd}xxx"), "{shown}");
    assert!(!shown.contains(|c: char| c.is_control()));
    // What nobody sees would make two addresses look like one.
    let hidden = ["\u{ad}", "\u{61c}", "\u{200b}", "\u{2060}", "\u{feff}", "\u{e0061}"];
    for hidden in hidden {
        let after = with(|card| card["url"] = json!(format!("http://a{hidden}/")));
        let found = differences(&origin(&card()), &origin(&after));
        assert_eq!(found.listed[0].after.as_deref(), Some("\"http://a\u{fffd}/\""));
    }
}

#[test]
fn nothing_hides_behind_the_name_of_something_else() {
    let check = |before: &Value, after: &Value| {
        let found = differences(&origin(before), &origin(after));
        assert!(found.matter(), "{before} {after}");
    };
    // A second spelling, which is not published.
    let spelled = |id: &str| json!({"skills": [{"id": id}], "Skills": []});
    check(&spelled("a"), &spelled("b"));
    // An id that looks like the place of a skill without one.
    let placed = |text: &str| json!({"skills": [{"id": "#2", "description": text}, {"description": "d"}]});
    check(&placed("Plans"), &placed("Pays"));
    // What is no text says another generation.
    let versioned = |version: Value| {
        let interface = json!({"url": "http://a/", "protocolBinding": "JSONRPC", "protocolVersion": version});
        json!({ "supportedInterfaces": [interface] })
    };
    check(&versioned(json!("0.3")), &versioned(json!(0.3)));
}

/// Cards of a hostile agent, as large as `card.max_bytes` lets them be: a look at every pair would take minutes.
#[test]
fn as_much_as_fits_is_compared_in_one_pass() {
    let plain = json!({"name": "n"});
    let interfaces: Value = (0..150_000).map(|_| json!({})).collect();
    let found = differences(
        &origin(&plain),
        &origin(&json!({"name": "n", "supportedInterfaces": interfaces})),
    );
    assert_eq!(found.listed.len() + found.left_out, 150_000);
    let schemes: Map<String, Value> = (0..100_000).map(|id| (id.to_string(), json!([]))).collect();
    let found = differences(&origin(&plain), &origin(&json!({"name": "n", "security": [schemes]})));
    assert_eq!(found.listed.len(), 1);
    let interfaces: Value = (0..30_000)
        .map(|id| json!({"url": format!("http://{id:05}/"), "transport": "JSONRPC"}))
        .collect();
    let read = origin(&json!({"name": "n", "protocolVersion": "0.3.0", "additionalInterfaces": interfaces}));
    assert_eq!(read.interfaces.len(), 30_000);
    let mut card = json!({"name": "n", "protocolVersion": "0.3.0", "additionalInterfaces": interfaces});
    for id in 0..10_000 {
        card[format!("iconUrl{}", "_".repeat(id % 100 + 1)).as_str()] = json!("http://a/");
        card[format!("i{}conUrl{}", "_".repeat(id / 100), "_".repeat(id % 100)).as_str()] = json!("http://a/");
    }
    let published = published(&card, |_| {});
    assert_eq!(published["name"], "n");
}
