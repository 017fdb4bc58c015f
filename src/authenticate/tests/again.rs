//! Callers whom an earlier configuration admitted, asked of another one: same person, same credential, enough of them.

use super::*;

/// By what the schemes are before and after.
struct Case {
    before: Vec<(&'static str, Scheme)>,
    after: Vec<(&'static str, Scheme)>,
    /// What the caller showed.
    parts: request::Parts,
}

impl Case {
    /// `expected` is the id by the second requirement; `None` if the caller would be refused.
    async fn check(self, before: &str, after: &str, expected: Option<&str>, what: &str) {
        let first = build(self.before)
            .resolve(&security(before), &Resource::default())
            .unwrap();
        let peer = peer_with(PeerCertificate {
            dns_names: vec!["maps".to_owned()],
            not_after: i64::MAX,
            ..PeerCertificate::default()
        });
        let principal = identify(&first, &peer, peer.address.ip(), &self.parts).await.unwrap();
        let verifiers = build(self.after);
        let second = verifiers.resolve(&security(after), &Resource::default()).unwrap();
        let again = second.readmit(&principal);
        assert_eq!(again.as_ref().map(|again| &*again.id), expected, "{what}");
    }
}

fn key_schemes(of_a: &[&str], of_b: &[&str]) -> Vec<(&'static str, Scheme)> {
    vec![("a", header_keys("x-a", of_a)), ("b", header_keys("x-b", of_b))]
}

async fn keys(after: Vec<(&'static str, Scheme)>, requirements: (&str, &str), expected: Option<&str>, what: &str) {
    let case = Case {
        before: key_schemes(&["ann"], &["bob"]),
        after,
        parts: head("/", &[("x-a", "secret-of-ann"), ("x-b", "secret-of-bob")]),
    };
    case.check(requirements.0, requirements.1, expected, what).await;
}

#[tokio::test]
async fn keys_are_good_while_they_are_listed_for_the_same_caller() {
    let same = || key_schemes(&["ann"], &["bob"]);
    keys(same(), ("a", "a"), Some("key:ann"), "nothing changed").await;
    keys(
        key_schemes(&["eve", "ann"], &[]),
        ("a", "a"),
        Some("key:ann"),
        "others came and went",
    )
    .await;
    keys(key_schemes(&["eve"], &["bob"]), ("a", "a"), None, "the key is gone").await;
    keys(same(), ("a", "b"), None, "b was not asked for").await;
    keys(same(), ("a + b", "b"), Some("key:bob"), "b was shown too").await;
    keys(same(), ("a", "a + b"), None, "b was not shown").await;
    keys(
        key_schemes(&["eve"], &["bob"]),
        ("a + b", "a | b"),
        Some("key:bob"),
        "one is enough",
    )
    .await;
    keys(same(), ("a", "a:read"), None, "a scope is missing").await;
    keys(same(), ("a", "a | -"), Some("key:ann"), "anonymous callers come too").await;
    keys(same(), ("a", ""), Some("anonymous"), "nothing is asked for").await;
    keys(same(), ("", "a"), None, "an anonymous caller has to show one").await;
    keys(same(), ("", "a | -"), Some("anonymous"), "or not").await;
    keys(
        key_schemes(&["eve"], &[]),
        ("a", "a | -"),
        None,
        "a wrong key makes nobody anonymous",
    )
    .await;
    let mut renamed = header_keys("x-a", &["ann"]);
    if let SchemeKind::ApiKey {
        keys: KeySource::Inline(keys),
        ..
    } = &mut renamed.kind
    {
        keys[0].id = "eve".to_owned();
    }
    keys(vec![("a", renamed)], ("a", "a"), None, "the key is somebody else's").await;
    let other = vec![("a", header_keys("x-other", &["ann"]))];
    keys(other, ("a", "a"), Some("key:ann"), "where it is shown does not matter").await;
}

#[tokio::test]
async fn certificates_are_good_while_a_rule_admits_them() {
    let rules = |pattern: &str| {
        let allow = vec![CertificateRule::Dns(pattern.to_owned())];
        vec![("m", scheme(SchemeKind::MutualTls { allow }))]
    };
    for (pattern, expected) in [("m*", Some("mtls:maps")), ("maps", Some("mtls:maps")), ("routes", None)] {
        let case = Case {
            before: rules("*"),
            after: rules(pattern),
            parts: head("/", &[]),
        };
        case.check("m", "m", expected, pattern).await;
    }
}

#[tokio::test]
async fn a_user_is_good_while_the_password_is_the_same() {
    let (_one, before) = super::basic::users(&super::basic::ann("one"));
    for (file, expected) in [
        (super::basic::users(&super::basic::ann("one")), Some("basic:ann")),
        (super::basic::users(&super::basic::ann("two")), None),
        (super::basic::users("users: []"), None),
    ] {
        let (_file, after) = file;
        let case = Case {
            before: vec![("b", before.clone())],
            after: vec![("b", after)],
            parts: super::basic::basic(b"ann:one"),
        };
        case.check("b", "b", expected, "a user").await;
    }
}

#[tokio::test]
async fn a_token_is_good_while_its_issuer_and_an_audience_of_it_are_expected() {
    const OTHER: &str = "https://other.example";
    let (_one, before) = super::jwt::issuer_scheme(super::jwt::ISSUER, &["a2a", "x"]);
    for (issuer, audience, requirement, expected) in [
        (
            super::jwt::ISSUER,
            "a2a",
            "j",
            Some("jwt:https://login.example.com#ann"),
        ),
        (super::jwt::ISSUER, "x", "j", None),
        (super::jwt::ISSUER, "a2a", "j:read", None),
        (OTHER, "a2a", "j", None),
    ] {
        let (_file, after) = super::jwt::issuer_scheme(issuer, &[audience]);
        let case = Case {
            before: vec![("j", before.clone())],
            after: vec![("j", after)],
            parts: with_authorization(&format!("Bearer {}", super::jwt::good_token())),
        };
        case.check("j", requirement, expected, audience).await;
    }
}

#[test]
fn what_recognises_a_credential_does_not_show() {
    let key = Credential::Key {
        sha256: [7; 32],
        salt: vec![7],
        expires: None,
    };
    assert_eq!(format!("{key:?}"), "Key");
}
