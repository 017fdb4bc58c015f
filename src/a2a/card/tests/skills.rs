//! Which skills are published, and in whose words.

use super::*;

#[test]
fn patterns_stand_for_any_text() {
    let check = |pattern: &str, id: &str, expected: bool| {
        assert_eq!(SkillPattern::new(pattern).matches(id), expected, "{pattern} and {id}");
    };
    for (pattern, id) in [
        ("a", "a"),
        ("*", ""),
        ("*", "a"),
        ("a*", "a"),
        ("a*", "abc"),
        ("*c", "abc"),
        ("a*c", "ac"),
        ("a*b*c", "aXbXbc"),
        ("a**c", "abc"),
        ("*b*", "abc"),
    ] {
        check(pattern, id, true);
    }
    for (pattern, id) in [
        ("a", "A"),
        ("a", "ab"),
        ("a*", "b"),
        ("a*a", "a"),
        ("a*b*b", "ab"),
        ("", "a"),
    ] {
        check(pattern, id, false);
    }
    // As long as both together, not as their product.
    check(&"*a".repeat(10_000), &"a".repeat(9_999), false);
}

#[test]
fn hidden_skills_are_in_no_form() {
    let card = json!({"name": "n", "url": "http://10.0.0.9/", "skills": [
        {"id": "plan"}, {"id": "debug-all"}, {"Id": "debug-more"}, {"id": "find"}, "junk", {"name": "without"}],
        "Skills": [{"id": "debug-all"}]});
    for served in [
        vec![Generation::V0_3],
        vec![Generation::V1_0],
        Generation::SPOKEN.to_vec(),
    ] {
        let hide = |input: &mut Publication| {
            input.served = served;
            input.edits.hidden_skills = vec![SkillPattern::new("debug-*"), SkillPattern::new("none")];
        };
        let found = published(&card, hide);
        assert_eq!(
            found["skills"],
            json!([{"id": "plan"}, {"id": "find"}, "junk", {"name": "without"}])
        );
        assert!(!found.to_string().contains("debug"), "{found}");
    }
    let answer = |card: &Value, shown: Shown<'_>| {
        let input = Publication {
            edits: Edits {
                hidden_skills: vec![SkillPattern::new("debug-*")],
                ..Edits::default()
            },
            ..publication()
        };
        let bytes = rewrite_extended_card(&card.to_string().into(), &input, showing(shown)).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()["skills"].clone()
    };
    let found = answer(&card, &|id| id != "find");
    assert_eq!(found, json!([{"id": "plan"}, "junk", {"name": "without"}]));
}

#[test]
fn the_first_of_several_skills_with_one_id_is_the_one() {
    let card = json!({"name": "n", "skills": [
        {"id": "a", "name": "first", "security": [{"bearer": []}]}, {"id": "b"}, {"id": "a", "name": "second"}, {"id": "a"}]});
    let read = origin(&card);
    let duplicates = read.duplicate_skills.iter();
    let duplicates: Vec<_> = duplicates.map(|(at, skill)| (*at, &skill["id"])).collect();
    assert_eq!(duplicates, [(2, &json!("a")), (3, &json!("a"))]);
    assert_eq!(read.skill_security().count(), 1);
    let found = published(&card, |_| {});
    assert_eq!(found["skills"].as_array().unwrap().len(), 2);
    assert_eq!(found["skills"][0]["name"], "first");
}

#[test]
fn texts_of_skills_are_replaced() {
    let card =
        json!({"name": "n", "skills": [{"id": "a", "name": "theirs", "description": "d", "Tags": ["t"]}, {"id": "b"}]});
    let found = published(&card, |input| {
        let texts = json!({"name": "ours", "tags": ["u"]});
        let texts = texts.as_object().unwrap().clone();
        input.edits.skill_texts = BTreeMap::from([("a".to_owned(), texts.clone()), ("unknown".to_owned(), texts)]);
    });
    assert_eq!(
        found["skills"],
        json!([{"id": "a", "name": "ours", "description": "d", "tags": ["u"]}, {"id": "b"}])
    );
}

#[test]
fn overrides_remove_members_in_every_spelling() {
    let card =
        json!({"name": "n", "iconUrl": "http://x/", "icon_url": "http://x/", "x-kept": 1, "url": "http://10.0.0.9/"});
    let found = published(&card, |input| {
        let removed = json!({"iconUrl": null, "provider": null, "url": null});
        input.edits.overrides = removed.as_object().unwrap().clone();
    });
    assert_eq!((found.get("iconUrl"), found.get("icon_url")), (None, None));
    assert_eq!(
        (&found["x-kept"], &found["url"]),
        (&json!(1), &json!(PUBLIC)),
        "{found}"
    );
    assert!(is_required("Default_Input_Modes") && !is_required("iconUrl"));
}

#[test]
fn links_that_are_no_text_are_left_out() {
    let inner = json!({"url": "http://10.0.0.9:9999/x"});
    for card in [
        json!({"name": "n", "iconUrl": inner.clone()}),
        json!({"name": "n", "documentationUrl": [inner.clone()]}),
        json!({"name": "n", "provider": {"organization": "o", "url": inner.clone()}}),
        json!({"name": "n", "provider": "http://10.0.0.9:9999/x"}),
    ] {
        let found = published(&card, |_| {});
        assert!(!found.to_string().contains("10.0.0.9"), "{found}");
    }
    let kept = json!({"organization": "o", "url": "https://example.com/"});
    assert_eq!(published(&json!({"provider": kept}), |_| {})["provider"], kept);
}
