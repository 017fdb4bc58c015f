//! Rules about verified client certificates, and the last second of one.

use super::*;
use crate::config::CertificateRule;

fn certificate() -> PeerCertificate {
    PeerCertificate {
        uris: vec![
            "https://example.com/x".to_owned(),
            "spiffe://example.com/agents/maps".to_owned(),
        ],
        dns_names: vec!["Maps.Example.com".to_owned()],
        emails: vec!["maps@example.com".to_owned()],
        subject: "CN=maps,O=Example".to_owned(),
        fingerprint: [0; 32],
        not_after: i64::try_from(NOW).unwrap(),
    }
}

async fn check_rule(rule: CertificateRule, expected: &str) {
    let allow = vec![CertificateRule::Uri("spiffe://other/*".to_owned()), rule];
    let verifiers = build(vec![("m", scheme(SchemeKind::MutualTls { allow: allow.clone() }))]);
    let requirement = verifiers.resolve(&security("m"), &Resource::default()).unwrap();
    let found = outcome(&requirement, &peer_with(certificate()), &head("/", &[])).await;
    assert_eq!(found, expected, "{allow:?}");
}

#[tokio::test]
async fn a_name_that_a_rule_matches_is_the_principal() {
    let uri = |text: &str| CertificateRule::Uri(text.to_owned());
    let dns = |text: &str| CertificateRule::Dns(text.to_owned());
    let email = |text: &str| CertificateRule::Email(text.to_owned());
    let subject = |text: &str| CertificateRule::Subject(text.to_owned());
    check_rule(
        uri("spiffe://example.com/agents/*"),
        "mtls:spiffe://example.com/agents/maps",
    )
    .await;
    check_rule(uri("spiffe://example.com/agents"), "! certificate-not-allowed").await;
    check_rule(uri("SPIFFE://example.com/*"), "! certificate-not-allowed").await;
    check_rule(dns("maps.EXAMPLE.com"), "mtls:maps.example.com").await;
    check_rule(dns("*.example.com"), "mtls:maps.example.com").await;
    check_rule(dns("example.com"), "! certificate-not-allowed").await;
    check_rule(email("*@example.com"), "mtls:maps@example.com").await;
    check_rule(email("MAPS@example.com"), "! certificate-not-allowed").await;
    check_rule(subject("CN=maps,O=Example"), "mtls:CN=maps,O=Example").await;
    check_rule(subject("CN=maps"), "! certificate-not-allowed").await;
    check_rule(dns("CN=maps*"), "! certificate-not-allowed").await;
    let fingerprint = |digits: &str| CertificateRule::Fingerprint(digits.repeat(32));
    check_rule(fingerprint("00"), &format!("mtls:{}", "00".repeat(32))).await;
    check_rule(fingerprint("01"), "! certificate-not-allowed").await;
}

#[test]
fn stars_match_any_run() {
    let check = |pattern: &str, name: &str, expected: bool| {
        let matched = super::super::pattern::matches(pattern.as_bytes(), name.as_bytes());
        assert_eq!(matched, expected, "{pattern} {name}");
    };
    check("abc", "abc", true);
    check("abc", "abcd", false);
    check("abc", "xabc", false);
    check("", "", true);
    check("", "a", false);
    check("*", "", true);
    check("*", "anything", true);
    check("a*", "a", true);
    check("a*", "ba", false);
    check("*c", "abc", true);
    check("*c", "abcd", false);
    check("a*c", "ac", true);
    check("a*a", "a", false);
    check("ab*ba", "aba", false);
    check("a*b*c", "axxbyyc", true);
    check("a*b*c", "axxcyyb", false);
    check("*a*b", "ab", true);
    check("*ab*ab", "ab", false);
    check("a**b", "ab", true);
    check(&"*a".repeat(50), &"a".repeat(49), false);
}

#[tokio::test]
async fn a_certificate_is_good_until_its_last_second() {
    let time = Time::new();
    let allow = vec![CertificateRule::Dns("*".to_owned())];
    let verifiers = try_build(vec![("m", scheme(SchemeKind::MutualTls { allow }))], &time).unwrap();
    let requirement = verifiers.resolve(&security("m"), &Resource::default()).unwrap();
    let peer = peer_with(certificate());
    let parts = head("/", &[]);
    assert_eq!(outcome(&requirement, &peer, &parts).await, "mtls:maps.example.com");
    time.set(NOW + 1);
    assert_eq!(outcome(&requirement, &peer, &parts).await, "! certificate-expired");
}

#[tokio::test]
async fn no_certificate_is_a_missing_credential() {
    let allow = vec![CertificateRule::Dns("*".to_owned())];
    let verifiers = build(vec![("m", scheme(SchemeKind::MutualTls { allow }))]);
    assert_eq!(one(&verifiers, "m", &head("/", &[])).await, "! missing");
}
