//! API keys in each place and from each source, and reloads of key files.

use super::*;

fn at(place: ApiKeyPlace, name: &str) -> Verifiers {
    build(vec![(
        "k",
        scheme(SchemeKind::ApiKey {
            place,
            name: name.to_owned(),
            keys: inline_keys(&["ann", "bob"]),
        }),
    )])
}

#[tokio::test]
async fn a_key_in_a_header_field() {
    let verifiers = at(ApiKeyPlace::Header, "X-API-Key");
    let check = async |fields: &[(&str, &str)], expected: &str| {
        let found = one(&verifiers, "k", &head("/", fields)).await;
        assert_eq!(found, expected, "{fields:?}");
    };
    check(&[("x-api-key", "secret-of-ann")], "key:ann").await;
    check(&[("X-Api-Key", "secret-of-bob")], "key:bob").await;
    check(&[], "! missing").await;
    check(&[("x-api-key", "")], "! malformed").await;
    check(&[("x-api-key", "secret-of-cid")], "! unknown-key").await;
    check(&[("x-api-key", "secret-of-ann, x")], "! unknown-key").await;
    check(&[("x-api-key", "\u{e9}")], "! unknown-key").await;
    let twice = [("x-api-key", "secret-of-ann"), ("x-api-key", "secret-of-ann")];
    check(&twice, "! ambiguous").await;
    let long = "x".repeat(1024);
    check(&[("x-api-key", &long)], "! unknown-key").await;
    let too_long = "x".repeat(1025);
    check(&[("x-api-key", &too_long)], "! too-long").await;
}

#[tokio::test]
async fn a_key_in_the_query() {
    let verifiers = at(ApiKeyPlace::Query, "api_key");
    let check = async |uri: &str, expected: &str| {
        assert_eq!(one(&verifiers, "k", &head(uri, &[])).await, expected, "{uri}");
    };
    check("/?api_key=secret-of-ann", "key:ann").await;
    check("/?a=b&api_key=secret%2Dof%2dann&c", "key:ann").await;
    check("/?api%5Fkey=secret-of-ann", "key:ann").await;
    check("/", "! missing").await;
    check("/?API_KEY=secret-of-ann", "! missing").await;
    check("/?api_key", "! malformed").await;
    check("/?api_key=secret%-of-ann", "! unknown-key").await;
    check("/?api_key=secret+of+ann", "! unknown-key").await;
    check("/?api_key=secret-of-ann&api_key=secret-of-ann", "! ambiguous").await;
    check("/?api_key=secret-of-ann&api%5fkey=x", "! ambiguous").await;
}

#[tokio::test]
async fn a_key_in_a_cookie() {
    let verifiers = at(ApiKeyPlace::Cookie, "session");
    let check = async |fields: &[(&str, &str)], expected: &str| {
        let found = one(&verifiers, "k", &head("/", fields)).await;
        assert_eq!(found, expected, "{fields:?}");
    };
    check(&[("cookie", "session=secret-of-ann")], "key:ann").await;
    check(&[("cookie", "a=b; session=secret-of-ann;c")], "key:ann").await;
    let split = [("cookie", "a=b"), ("cookie", "session=secret-of-ann")];
    check(&split, "key:ann").await;
    check(&[("cookie", "Session=secret-of-ann")], "! missing").await;
    check(&[("cookie", "session=")], "! malformed").await;
    check(&[("cookie", "session=1; session=2")], "! ambiguous").await;
    let twice = [("cookie", "session=1"), ("cookie", "session=2")];
    check(&twice, "! ambiguous").await;
}

fn key_file(text: &str) -> (NamedTempFile, Scheme) {
    let file = file(text);
    let scheme = scheme(SchemeKind::ApiKey {
        place: ApiKeyPlace::Header,
        name: "x-api-key".to_owned(),
        keys: KeySource::File(file.path().to_owned()),
    });
    (file, scheme)
}

#[tokio::test]
async fn a_file_holds_salted_and_unsalted_hashes() {
    let plain = hex(&sha256(&[b"one"]));
    let salted = hex(&sha256(&[b"\x01\xff", b"two"]));
    let other_salt = hex(&sha256(&[b"\x02", b"three"]));
    let (_file, scheme) = key_file(&format!(
        "keys:\n- {{ id: a, hash: \"sha256:{plain}\", scopes: [read] }}\n\
         - {{ id: b, hash: \"sha256:01ff:{salted}\" }}\n\
         - {{ id: c, hash: \"sha256:02:{}\" }}\n\
         - {{ id: a, hash: \"sha256:03:{}\" }}\n",
        other_salt.to_uppercase(),
        hex(&sha256(&[b"\x03", b"rotated"])),
    ));
    let verifiers = build(vec![("k", scheme)]);
    let check = async |requirement: &str, key: &str, expected: &str| {
        let parts = head("/", &[("x-api-key", key)]);
        assert_eq!(one(&verifiers, requirement, &parts).await, expected, "{key}");
    };
    check("k", "one", "key:a").await;
    check("k", "two", "key:b").await;
    check("k", "three", "key:c").await;
    check("k", "rotated", "key:a").await;
    check("k", "four", "! unknown-key").await;
    check("k:read", "one", "key:a").await;
    check("k:read", "two", "! missing-scope").await;
}

#[tokio::test]
async fn a_key_is_good_until_it_expires() {
    let time = Time::new();
    let entry = |id: &str, salt: &str, more: &str| {
        let salted = if salt.is_empty() { vec![] } else { vec![0xab] };
        let hash = hex(&sha256(&[&salted, id.as_bytes()]));
        format!("- {{ id: {id}, hash: \"sha256:{salt}{hash}\"{more} }}\n")
    };
    // Of one second after `NOW`.
    let end = ", expires: 2027-01-15T08:00:01Z, label: until then";
    let plain = [entry("ann", "", end), entry("bob", "ab:", end), entry("carl", "", "")].concat();
    let (_file, scheme) = key_file(&format!("keys:\n{plain}"));
    let verifiers = try_build(vec![("k", scheme)], &time).unwrap();
    for (seconds, expected) in [(NOW, "key:"), (NOW + 1, "! expired"), (NOW + 9, "! expired")] {
        time.set(seconds);
        for id in ["ann", "bob"] {
            let found = one(&verifiers, "k", &head("/", &[("x-api-key", id)])).await;
            let expected = if expected == "key:" {
                format!("key:{id}")
            } else {
                expected.to_owned()
            };
            assert_eq!(found, expected, "{id} at {seconds}");
        }
        assert_eq!(
            one(&verifiers, "k", &head("/", &[("x-api-key", "carl")])).await,
            "key:carl"
        );
    }
}

#[test]
fn a_file_that_is_wrong_is_refused_without_repeating_a_key() {
    let digest = hex(&sha256(&[b"one"]));
    let check = |text: &str, expected: &str| {
        let (_file, scheme) = key_file(text);
        let problems = try_build(vec![("k", scheme)], &Time::new())
            .map(|_| ())
            .expect_err(text);
        for problem in &problems {
            assert_eq!(problem.key, "security_schemes.k.keys_file", "{text}");
            assert!(!problem.cause.contains("hunter2"), "{}", problem.cause);
        }
        assert!(
            problems.iter().any(|p| p.cause.contains(expected)),
            "{text}: {problems:?}"
        );
    };
    check("keys:\n- { id: a, hash: hunter2 }\n", "sha256sum");
    check("keys:\n- { id: a, hash: \"sha256:hunter2\" }\n", "sha256sum");
    check(
        &format!("keys:\n- {{ id: a, hash: \"sha256::{digest}\" }}\n"),
        "sha256sum",
    );
    check(
        &format!("keys:\n- {{ id: a, hash: \"sha256:{}\" }}\n", digest.get(1..).unwrap()),
        "sha256sum",
    );
    check("keys:\n- { id: a, key: hunter2 }\n", "at line 2");
    check(
        &format!("keys:\n- {{ id: a, hash: \"sha256:{digest}\", expires: tomorrow }}\n"),
        "is not a time since 1970",
    );
    check("keys: hunter2\n", "expected a list `keys`");
    check("hunter2", "expected a list `keys`");
    check("keys: []\nkeys: []\n", "expected a list `keys`");
    check(
        &format!("keys:\n- {{ id: a, hash: \"sha256:{digest}\" }}\n- {{ id: b, hash: \"sha256:{digest}\" }}\n"),
        "keys[1] (b): the same hash",
    );
    check(
        &format!("keys:\n- {{ id: a, hash: \"sha256:{digest}\", attributes: [ hunter2 ] }}\n"),
        "keys[0].attributes in",
    );
    check(
        &format!("keys:\n- {{ id: \"\", hash: \"sha256:{digest}\" }}\n"),
        "the id must have",
    );
    check(
        &format!("keys:\n- {{ id: a, hash: \"sha256:{}\" }}\n", hex(&sha256(&[]))),
        "hash of nothing",
    );
}

#[test]
fn a_missing_file_and_an_impossible_name_are_refused() {
    let missing = scheme(SchemeKind::ApiKey {
        place: ApiKeyPlace::Header,
        name: "x".to_owned(),
        keys: KeySource::File("/nonexistent/keys.yaml".into()),
    });
    let problems = try_build(vec![("k", missing)], &Time::new()).map(|_| ()).unwrap_err();
    assert!(
        problems[0].cause.contains("/nonexistent/keys.yaml") && problems[0].cause.contains("No such file"),
        "{problems:?}"
    );
    for (place, name) in [
        (ApiKeyPlace::Header, "x key"),
        (ApiKeyPlace::Header, ""),
        (ApiKeyPlace::Query, "a\"b"),
        (ApiKeyPlace::Query, ""),
        (ApiKeyPlace::Cookie, "a;b"),
    ] {
        let scheme = scheme(SchemeKind::ApiKey {
            place,
            name: name.to_owned(),
            keys: inline_keys(&["ann"]),
        });
        let problems = try_build(vec![("k", scheme)], &Time::new())
            .map(|_| ())
            .expect_err(name);
        assert_eq!(problems[0].key, "security_schemes.k.name");
    }
}

#[test]
fn salted_keys_are_bounded() {
    let keys = |count: usize| {
        let keys = (0..count).map(|index| ApiKey {
            id: "a".to_owned(),
            sha256: sha256(&[index.to_string().as_bytes()]),
            salt: vec![1],
            scopes: Vec::new(),
            attributes: Vec::new(),
            expires: None,
            label: String::new(),
        });
        let scheme = scheme(SchemeKind::ApiKey {
            place: ApiKeyPlace::Header,
            name: "x".to_owned(),
            keys: KeySource::Inline(keys.collect()),
        });
        try_build(vec![("k", scheme)], &Time::new()).map(|_| ())
    };
    assert_eq!(keys(1000), Ok(()));
    assert!(keys(1001).unwrap_err()[0].cause.contains("salted"));
}

#[tokio::test]
async fn a_reload_takes_effect_for_requirements_that_are_resolved_after_it() {
    let (file, scheme) = key_file(&format!(
        "keys: [{{ id: a, hash: \"sha256:{}\" }}]",
        hex(&sha256(&[b"one"]))
    ));
    let mut verifiers = build(vec![("k", scheme)]);
    let before = verifiers.resolve(&security("k"), &Resource::default()).unwrap();
    async fn show(requirement: &Requirement, key: &str) -> String {
        outcome(requirement, &peer(), &head("/", &[("x-api-key", key)])).await
    }
    assert_eq!(reload(&mut verifiers), Ok(vec![]));
    assert!(before.is_of(&verifiers));
    assert_eq!(show(&before, "one").await, "key:a");
    rewrite(
        file.path(),
        &format!("keys: [{{ id: a, hash: \"sha256:{}\" }}]", hex(&sha256(&[b"two"]))),
    );
    assert_eq!(reload(&mut verifiers), Ok(vec!["k".to_owned()]));
    assert!(!before.is_of(&verifiers));
    assert_eq!(show(&before, "one").await, "key:a");
    let after = verifiers.resolve(&security("k"), &Resource::default()).unwrap();
    assert_eq!(show(&after, "one").await, "! unknown-key");
    assert_eq!(show(&after, "two").await, "key:a");
    rewrite(file.path(), "keys: nonsense");
    assert!(reload(&mut verifiers).is_err());
    assert!(after.is_of(&verifiers), "a bad file changes nothing");
}

#[tokio::test]
async fn a_reload_changes_all_or_nothing() {
    let keys = |key: &str| {
        format!(
            "keys: [{{ id: a, hash: \"sha256:{}\" }}]",
            hex(&sha256(&[key.as_bytes()]))
        )
    };
    let (good, first) = key_file(&keys("one"));
    let (bad, second) = key_file(&keys("one"));
    let mut verifiers = build(vec![("a", first), ("b", second)]);
    rewrite(good.path(), &keys("two"));
    rewrite(bad.path(), "keys: nonsense");
    assert_eq!(reload(&mut verifiers).unwrap_err().len(), 1);
    let parts = head("/", &[("x-api-key", "one")]);
    assert_eq!(one(&verifiers, "a", &parts).await, "key:a");
    rewrite(bad.path(), &keys("one"));
    assert_eq!(reload(&mut verifiers), Ok(vec!["a".to_owned()]));
    assert_eq!(one(&verifiers, "a", &parts).await, "! unknown-key");
}
