//! What a client certificate says of its peer.

use rcgen::{DistinguishedName, DnValue};
use x509_parser::prelude::FromDer;

use super::*;
use crate::tls::PeerCertificate;

fn parse(params: CertificateParams) -> PeerCertificate {
    let identity = Ca::new("CA").issue(params);
    PeerCertificate::parse(&der(&identity)).unwrap()
}

#[test]
fn names_come_from_the_alternative_names() {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "not.a.name.example");
    params.subject_alt_names = vec![
        SanType::URI("spiffe://example.com/agents/maps".try_into().unwrap()),
        SanType::DnsName("Agent.Example".try_into().unwrap()),
        SanType::Rfc822Name("Ann@Example.com".try_into().unwrap()),
        SanType::IpAddress("192.0.2.1".parse().unwrap()),
        SanType::URI("https://example.com/x".try_into().unwrap()),
    ];
    params.not_after = date_time_ymd(2040, 2, 3);
    let identity = Ca::new("CA").issue(params);
    let certificate = PeerCertificate::parse(&der(&identity)).unwrap();
    assert_eq!(
        certificate,
        PeerCertificate {
            uris: vec![
                "spiffe://example.com/agents/maps".to_owned(),
                "https://example.com/x".to_owned()
            ],
            dns_names: vec!["agent.example".to_owned()],
            emails: vec!["Ann@Example.com".to_owned()],
            subject: "CN=not.a.name.example".to_owned(),
            fingerprint: crate::tls::sha256(&der(&identity)),
            not_after: date_time_ymd(2040, 2, 3).unix_timestamp(),
        }
    );
}

#[test]
fn a_fingerprint_is_sha256() {
    assert_eq!(
        crate::tls::sha256(b"abc")[..4],
        [0xba, 0x78, 0x16, 0xbf],
        "FIPS 180-2, B.1"
    );
}

#[test]
fn a_name_with_invisible_characters_is_none() {
    for uri in [
        "spiffe://example.com/a\nspiffe://example.com/b",
        "spiffe://example.com/a b",
        "spiffe://example.com/\0",
        "",
    ] {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        assert_eq!(parse(params).uris, Vec::<String>::new(), "{uri:?}");
    }
}

#[test]
fn a_subject_is_rfc4514_text() {
    fn check(attributes: &[(DnType, DnValue)], expected: &str) {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        assert_eq!(parse(params).subject, expected);
    }
    let text = |value: &str| DnValue::Utf8String(value.to_owned());
    let name = |value: &str, expected: &str| {
        check(&[(DnType::CommonName, text(value))], expected);
    };
    // The most specific first.
    check(
        &[
            (DnType::CountryName, text("DE")),
            (DnType::OrganizationName, text("Example")),
            (DnType::OrganizationalUnitName, text("Agents")),
            (DnType::CommonName, text("maps")),
        ],
        "CN=maps,OU=Agents,O=Example,C=DE",
    );
    check(&[], "");
    name("a,O=b", "CN=a\\,O=b");
    name("a+b;c<d>e\"f\\g=h", "CN=a\\+b\\;c\\<d\\>e\\\"f\\\\g=h");
    name(" a b ", "CN=\\ a b\\ ");
    name(" ", "CN=\\ ");
    name("#a#", "CN=\\#a#");
    name("Jürgen", "CN=Jürgen");
    name("a\nb\0c\u{85}", "CN=a\\0Ab\\00c\\C2\\85");
    check(
        &[(DnType::CommonName, DnValue::PrintableString("maps".try_into().unwrap()))],
        "CN=maps",
    );
    // RFC 4514 §4 has this one.
    check(
        &[(
            DnType::from_oid(&[1, 3, 6, 1, 4, 1, 1466, 0]),
            DnValue::PrintableString("Hi".try_into().unwrap()),
        )],
        "1.3.6.1.4.1.1466.0=#13024869",
    );
    check(
        &[(DnType::CommonName, DnValue::BmpString("ab".try_into().unwrap()))],
        "CN=#1E0400610062",
    );
}

#[test]
fn attributes_of_one_part_are_joined_by_plus() {
    // SEQUENCE { SET { CN=a, OU=b } }
    let name = [
        0x30, 0x16, 0x31, 0x14, 0x30, 0x08, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x01, b'a', 0x30, 0x08, 0x06, 0x03,
        0x55, 0x04, 0x0b, 0x0c, 0x01, b'b',
    ];
    let (_, name) = x509_parser::x509::X509Name::from_der(&name).unwrap();
    assert_eq!(crate::tls::subject::rfc4514(&name), "OU=b+CN=a");
}

#[test]
fn what_is_no_certificate_is_unreadable() {
    assert!(PeerCertificate::parse(b"").is_err());
    assert!(PeerCertificate::parse(&[0x30, 0x03, 0x02, 0x01, 0x00]).is_err());
}
