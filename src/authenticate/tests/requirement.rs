//! Alternatives of schemes together: who the principal is, which scopes count, what a refused caller is asked for.

use super::*;

/// Keys `a` in X-A, `b` in X-B, certificates `m`.
fn verifiers() -> Verifiers {
    let mut a = header_keys("x-a", &["ann"]);
    if let SchemeKind::ApiKey {
        keys: KeySource::Inline(keys),
        ..
    } = &mut a.kind
    {
        keys[0].scopes = vec!["read".to_owned(), "write".to_owned()];
    }
    let allow = vec![CertificateRule::Dns("*".to_owned())];
    build(vec![
        ("a", a),
        ("b", header_keys("x-b", &["bob"])),
        ("m", scheme(SchemeKind::MutualTls { allow })),
    ])
}

const A: (&str, &str) = ("x-a", "secret-of-ann");
const B: (&str, &str) = ("x-b", "secret-of-bob");
const BAD_A: (&str, &str) = ("x-a", "wrong");
const BAD_B: (&str, &str) = ("x-b", "wrong");

async fn check(requirement: &str, fields: &[(&str, &str)], expected: &str) {
    let requirement_ = verifiers()
        .resolve(&security(requirement), &Resource::default())
        .unwrap();
    let found = outcome(&requirement_, &peer(), &head("/", fields)).await;
    assert_eq!(found, expected, "{requirement:?} with {fields:?}");
}

#[tokio::test]
async fn the_first_alternative_that_holds_names_the_principal() {
    check("a | b", &[A], "key:ann").await;
    check("a | b", &[B], "key:bob").await;
    check("a | b", &[A, B], "key:ann").await;
    check("b | a", &[A, B], "key:bob").await;
    check("a | b", &[BAD_A, B], "key:bob").await;
    check("a | b", &[BAD_A, BAD_B], "! unknown-key").await;
    check("a | b", &[], "! missing").await;
}

#[tokio::test]
async fn an_alternative_needs_all_of_its_schemes() {
    check("a + b", &[A, B], "key:ann+key:bob").await;
    check("b + a", &[A, B], "key:bob+key:ann").await;
    check("a + b", &[A], "! missing").await;
    check("a + b", &[A, BAD_B], "! unknown-key").await;
    check("a + b | b", &[B], "key:bob").await;
    check("a + b | a", &[A, BAD_B], "key:ann").await;
}

#[tokio::test]
async fn scopes_are_needed_by_each_alternative() {
    check("a:read", &[A], "key:ann").await;
    check("a:read,write", &[A], "key:ann").await;
    check("a:admin", &[A], "! missing-scope").await;
    check("a:admin | a:read", &[A], "key:ann").await;
    check("a:admin | b", &[A], "! missing-scope").await;
    check("a:admin | b", &[A, B], "key:bob").await;
    check("a:admin + b", &[A, B], "! missing-scope").await;
    check("a:admin", &[BAD_A], "! unknown-key").await;
}

#[tokio::test]
async fn only_a_caller_that_shows_nothing_is_anonymous() {
    for requirement in ["a | -", "- | a", "a + b | -"] {
        check(requirement, &[], "anonymous").await;
        check(requirement, &[BAD_A], "! unknown-key").await;
    }
    check("a | -", &[A], "key:ann").await;
    check("- | a", &[A], "key:ann").await;
    check("a:admin | -", &[A], "! missing-scope").await;
    check("a + b | -", &[A], "! missing").await;
    // A credential that the requirement does not ask for says nothing.
    check("a | -", &[BAD_B], "anonymous").await;
}

#[tokio::test]
async fn no_requirement_asks_for_nothing() {
    check("", &[], "anonymous").await;
    check("", &[BAD_A], "anonymous").await;
    check("-", &[A], "anonymous").await;
    assert!(
        verifiers()
            .resolve(&security(""), &Resource::default())
            .unwrap()
            .is_open()
    );
    assert!(
        verifiers()
            .resolve(&security("a | -"), &Resource::default())
            .unwrap()
            .is_open()
    );
    assert!(
        !verifiers()
            .resolve(&security("a"), &Resource::default())
            .unwrap()
            .is_open()
    );
}

#[tokio::test]
async fn a_certificate_may_be_all_that_is_lacking() {
    check("a + m", &[A], "! certificate-missing").await;
    check("a + m", &[], "! missing").await;
    check("a + m", &[BAD_A], "! unknown-key").await;
    let requirement = verifiers().resolve(&security("a + m"), &Resource::default()).unwrap();
    let peer = peer_with(PeerCertificate {
        dns_names: vec!["maps".to_owned()],
        not_after: i64::MAX,
        ..PeerCertificate::default()
    });
    let principal = identify(&requirement, &peer, peer.address.ip(), &head("/", &[A]))
        .await
        .unwrap();
    assert_eq!(&*principal.id, "key:ann+mtls:maps");
    let schemes: Vec<&str> = principal.schemes.iter().map(|name| &**name).collect();
    assert_eq!(schemes, ["a", "m"]);
}

#[test]
fn a_scheme_without_a_verifier_is_an_error() {
    let unknown = |text: &str| {
        let verifiers = verifiers();
        let resolved = verifiers.resolve(&security(text), &Resource::default());
        resolved.map(|_| ()).map_err(|error| error.names)
    };
    assert_eq!(unknown("a"), Ok(()));
    assert_eq!(unknown("x"), Err(vec!["x".to_owned()]));
    assert_eq!(unknown("a | y + x | x | -"), Err(vec!["x".to_owned(), "y".to_owned()]));
}

#[tokio::test]
async fn challenges_come_from_the_configuration() {
    let (_jwks, jwt) = super::jwt::issuer_scheme("https://login.example.com", &["a2a"]);
    let users = file("users: []");
    let verifiers = build(vec![
        ("a", header_keys("X-A", &["ann"])),
        (
            "q",
            scheme(SchemeKind::ApiKey {
                place: ApiKeyPlace::Query,
                name: "key".to_owned(),
                keys: inline_keys(&["ann"]),
            }),
        ),
        ("j", jwt),
        (
            "u",
            scheme(SchemeKind::Basic {
                users_file: users.path().to_owned(),
            }),
        ),
        ("m", scheme(SchemeKind::MutualTls { allow: vec![] })),
    ]);
    let check = async |requirement: &str, fields: &[(&str, &str)], expected: &[&str]| {
        let requirement_ = verifiers.resolve(&security(requirement), &Resource::default()).unwrap();
        let error = identify(&requirement_, &peer(), peer().address.ip(), &head("/", fields))
            .await
            .unwrap_err();
        assert_eq!(error.challenges(), expected, "{requirement} {fields:?}");
    };
    // RFC 9449 §7.1: beside Bearer, where either may be shown.
    let proof = |more: &str| {
        let algorithms = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 EdDSA";
        format!("DPoP realm=\"a2a-gateway\", algs=\"{algorithms}\"{more}")
    };
    check(
        "a | q",
        &[],
        &[
            "ApiKey realm=\"a2a-gateway\", header=\"x-a\"",
            "ApiKey realm=\"a2a-gateway\", query=\"key\"",
        ],
    )
    .await;
    check(
        "u | j | j:x | m",
        &[],
        &[
            "Basic realm=\"a2a-gateway\", charset=\"UTF-8\"",
            "Bearer realm=\"a2a-gateway\"",
            &proof(""),
            "MutualTLS realm=\"a2a-gateway\"",
        ],
    )
    .await;
    check(
        "j",
        &[("authorization", "Bearer hunter2")],
        &[
            "Bearer realm=\"a2a-gateway\", error=\"invalid_token\"",
            &proof(", error=\"invalid_token\""),
        ],
    )
    .await;
    let token = super::jwt::good_token();
    let shown = format!("Bearer {token}");
    check(
        "j:a,b",
        &[("authorization", &shown)],
        &[
            "Bearer realm=\"a2a-gateway\", error=\"insufficient_scope\", scope=\"a b\"",
            &proof(", error=\"insufficient_scope\", scope=\"a b\""),
        ],
    )
    .await;
    check(
        "j:a\"b",
        &[("authorization", &shown)],
        &[
            "Bearer realm=\"a2a-gateway\", error=\"insufficient_scope\"",
            &proof(", error=\"insufficient_scope\""),
        ],
    )
    .await;
    check("a:x", &[A], &[]).await;
}

#[test]
fn places_are_those_of_every_scheme() {
    let (_jwks, jwt) = super::jwt::issuer_scheme("https://login.example.com", &["a2a"]);
    let at = |place, name: &str| {
        scheme(SchemeKind::ApiKey {
            place,
            name: name.to_owned(),
            keys: inline_keys(&["ann"]),
        })
    };
    let verifiers = build(vec![
        ("a", header_keys("X-A", &["ann"])),
        ("b", header_keys("x-a", &["bob"])),
        ("c", at(ApiKeyPlace::Cookie, "session")),
        ("j", jwt),
        ("q", at(ApiKeyPlace::Query, "api_key")),
    ]);
    let requirement = verifiers.resolve(&security("a"), &Resource::default()).unwrap();
    let places = requirement.places();
    assert_eq!(places.headers, ["x-a", "authorization", "dpop"]);
    assert_eq!(places.query, ["api_key"]);

    let strip = |query: &str, expected: &str| {
        assert_eq!(places.strip_query(query), expected, "{query}");
    };
    strip("", "");
    strip("a=b&c", "a=b&c");
    strip("api_key=x", "");
    strip("a=1&api_key=x&b=2", "a=1&b=2");
    strip("api%5fkey=x&a=%31&api_key", "a=%31");

    let is_stripped = |name: &'static str| places.is_header(&http::HeaderName::from_static(name));
    assert_eq!(
        ["authorization", "x-a", "x-b", "cookie"].map(is_stripped),
        [true, true, false, false]
    );
}

#[test]
fn schemes_that_nobody_checks_are_named_in_a_line() {
    let told = |names: Vec<String>| UnknownScheme { names }.to_string();
    let few: Vec<_> = ["a", "b"].map(str::to_owned).to_vec();
    assert_eq!(
        told(few),
        "no verifier is configured for the security schemes a, b; add them to `security_schemes`"
    );
    let many = (0..1000).map(|id| format!("{id}{}", "x".repeat(1000))).collect();
    let many = told(many);
    assert!(many.contains(", 992 more;") && many.len() < 1000, "{many}");
}
