//! Tokens that are bound to their sender: what is remembered of proofs, URLs in normal form, thumbprints, and callers whose
//! tokens another configuration would not take.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::json;

use super::super::jwks::Key;
use super::super::replays::{Proof, Replays};
use super::super::token::Refusal;
use super::*;
use crate::config::SenderConstraint;

fn proof(key: u8, id: u8, until: u64) -> Proof {
    Proof {
        key: [key; 32],
        id: [id; 32],
        made: until - 10,
        until,
    }
}

const REPLAYED: Result<(), Refusal> = Err(Refusal::Because(Invalid::ReplayedProof));

#[test]
fn a_proof_is_remembered_to_its_last_second() {
    let replays = Replays::of(100);
    let shown = proof(1, 1, NOW + 10);
    assert_eq!(replays.insert(&shown, NOW), Ok(()));
    for now in [NOW, NOW + 10] {
        assert_eq!(replays.insert(&shown, now), REPLAYED, "{now}");
    }
    assert_eq!(replays.insert(&proof(1, 2, NOW + 20), NOW + 11), Ok(()));
    // Then nobody takes it for its time, and its room is free.
    assert_eq!(replays.insert(&proof(1, 1, NOW + 30), NOW + 11), Ok(()));
}

/// A reload may give proofs more time, and another scheme may have more: what was forgotten is not taken again then.
#[test]
fn a_proof_that_gets_more_time_is_taken_once_all_the_same() {
    let replays = Replays::of(100);
    let shown = proof(1, 1, NOW + 10);
    let with_more_time = Proof {
        until: NOW + 600,
        ..shown.clone()
    };
    assert_eq!(replays.insert(&shown, NOW), Ok(()));
    assert_eq!(replays.insert(&with_more_time, NOW + 11), REPLAYED, "it was forgotten");
    assert_eq!(replays.insert(&proof(1, 2, NOW + 22), NOW + 12), Ok(()), "a later one");

    let replays = Replays::of(100);
    replays.keep_for(600);
    assert_eq!(replays.insert(&shown, NOW), Ok(()));
    let older = Proof {
        made: NOW - 100,
        until: NOW + 500,
        ..proof(1, 3, NOW)
    };
    assert_eq!(replays.insert(&older, NOW + 11), Ok(()), "nothing was forgotten");
    assert_eq!(replays.insert(&with_more_time, NOW + 11), REPLAYED, "it is remembered");
}

/// What is not remembered could be taken twice: nothing is forgotten for something new.
#[test]
fn without_room_no_proof_is_taken() {
    let replays = Replays::of(8);
    for id in 0..2 {
        assert_eq!(replays.insert(&proof(1, id, NOW + 10), NOW), Ok(()));
    }
    assert_eq!(
        replays.insert(&proof(1, 2, NOW + 10), NOW),
        Err(Refusal::Full),
        "a key has a quarter of the room"
    );
    for id in 10..16 {
        assert_eq!(
            replays.insert(&proof(id, id, NOW + 10), NOW),
            Ok(()),
            "others have the rest"
        );
    }
    assert_eq!(replays.insert(&proof(20, 20, NOW + 10), NOW), Err(Refusal::Full));
    assert_eq!(
        replays.insert(&proof(1, 0, NOW + 10), NOW),
        REPLAYED,
        "a replay is one all the same"
    );
    for id in 0..2 {
        assert_eq!(
            replays.insert(&proof(1, id, NOW + 30), NOW + 11),
            Ok(()),
            "later there is room"
        );
    }
}

/// One request may be asked for its proof by several.
#[test]
fn a_request_shows_its_proof_as_often_as_it_is_asked() {
    let replays = Replays::of(100);
    let shown = proof(1, 1, NOW + 10);
    let request = || {
        let mut parts = head("/", &[("dpop", "x")]);
        prepare(&mut parts);
        parts
    };
    let first = request();
    for _ in 0..2 {
        assert_eq!(replays.take(&first, &shown, NOW), Ok(()));
    }
    assert_eq!(replays.take(&request(), &shown, NOW), REPLAYED);
    let mut without = head("/", &[]);
    prepare(&mut without);
    assert!(without.extensions.is_empty(), "others pay nothing");
}

/// RFC 3986 §6.2.2 and §6.2.3.
#[test]
fn urls_are_compared_in_normal_form() {
    let check = |base: &str, path: &str, url: &str, expected: bool| {
        assert_eq!(
            Resource::unnamed(base).is_at(url, path),
            expected,
            "{url} for {base}{path}"
        );
    };
    check("https://a.example", "/x", "https://a.example/x", true);
    check("https://a.example", "/x", "https://A.EXAMPLE:443/x", true);
    check("https://a.example:8443", "/x", "https://a.example:8443/x", true);
    check("https://a.example:8443", "/x", "https://a.example/x", false);
    check("http://a.example", "/x", "http://a.example:80/x", true);
    check("http://a.example", "/x", "http://a.example:443/x", false);
    check("https://[::1]", "/x", "https://[::1]:443/x", true);
    check("https://[::1]:9", "/x", "https://[::1]/x", false);
    check("https://a.example", "/", "https://a.example", true);
    check("https://a.example", "/", "https://a.example?x", true);
    check("https://a.example/p", "/x", "https://a.example/p/x", true);
    check("https://a.example/p", "/x", "https://a.example/x", false);
    check("https://a.example", "/%7ea%2fb", "https://a.example/~a%2Fb", true);
    check("https://a.example", "/a/b", "https://a.example/a%2Fb", false);
    check("https://a.example", "/a", "https://a.example/b/../a", false);
    check("https://a.example", "/a", "https://a.example/A", false);
    check("https://a.example", "/a%zz", "https://a.example/a%zz", false);
    check("https://a.example", "/a", "https://a.example@b.example/a", false);
    check("https://a.example", "/a", "https:// a.example/a", false);
    check("https://a.example", "/a", "ftp://a.example/a", false);
    check("https://a.example", "/a", "", false);
    check("", "/a", "/a", false);
}

#[test]
fn thumbprints_are_those_of_the_standards() {
    let check = |jwk: &serde_json::Value, algorithm, expected: &str| {
        let (_, thumbprint) = Key::shown(&jwk.to_string(), algorithm).unwrap();
        assert_eq!(URL_SAFE_NO_PAD.encode(thumbprint), expected);
    };
    // RFC 7638 §3.1.
    let rsa = json!({
        "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
    });
    check(&rsa, Algorithm::RS256, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    // RFC 8037 Appendix A.3.
    let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    check(&ed, Algorithm::EdDSA, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    // Not for this algorithm, and not for others to see.
    assert!(Key::shown(&ed.to_string(), Algorithm::ES256).is_none());
    let mut private = ed;
    private["d"] = json!("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
    assert!(Key::shown(&private.to_string(), Algorithm::EdDSA).is_none());
}

fn constrained(constraint: SenderConstraint) -> (NamedTempFile, Scheme) {
    let (file, mut scheme) = super::jwt::issuer_scheme(super::jwt::ISSUER, &["a2a"]);
    if let SchemeKind::Bearer { tokens, .. } = &mut scheme.kind {
        tokens.sender = constraint;
    }
    (file, scheme)
}

/// A stream, or a session, of a caller whose token was good.
#[tokio::test]
async fn another_configuration_takes_what_is_bound_as_it_wants() {
    let certificate = PeerCertificate {
        fingerprint: [7; 32],
        not_after: i64::MAX,
        ..PeerCertificate::default()
    };
    let other = PeerCertificate {
        fingerprint: [8; 32],
        ..certificate.clone()
    };
    let (_keys, before) = constrained(SenderConstraint::Optional);
    let before = build(vec![("j", before)]);
    let requirement = before.resolve(&security("j"), &Resource::default()).unwrap();
    let peer_ = peer_with(certificate.clone());
    let admitted = async |cnf: Option<serde_json::Value>| {
        let token = super::jwt::token_with(&json!({ "cnf": cnf.unwrap_or_default() }));
        let parts = with_authorization(&format!("Bearer {token}"));
        identify(&requirement, &peer_, peer_.address.ip(), &parts)
            .await
            .unwrap()
    };
    let plain = admitted(None).await;
    let bound = admitted(Some(json!({ "x5t#S256": URL_SAFE_NO_PAD.encode([7; 32]) }))).await;
    for (who, at, expected) in [
        (&plain, peer(), true),
        (&bound, peer_with(certificate), true),
        (&bound, peer_with(other), false),
        (&bound, peer(), false),
    ] {
        assert_eq!(who.is_at(&at), expected, "{who:?} {at:?}");
    }
    for (constraint, of_plain, of_bound) in [
        (SenderConstraint::Optional, true, true),
        (SenderConstraint::Mtls, false, true),
        (SenderConstraint::Required, false, true),
        (SenderConstraint::Dpop, false, false),
    ] {
        let (_keys, after) = constrained(constraint);
        let after = build(vec![("j", after)]);
        let requirement = after.resolve(&security("j"), &Resource::default()).unwrap();
        for (who, expected) in [(&plain, of_plain), (&bound, of_bound)] {
            assert_eq!(requirement.readmit(who).is_some(), expected, "{constraint:?} {who:?}");
            assert_eq!(after.know_still(who), expected, "{constraint:?} {who:?}");
        }
    }
}

/// A connection may outlive the certificate that it showed.
#[tokio::test]
async fn an_expired_certificate_carries_no_token() {
    let (_keys, scheme) = constrained(SenderConstraint::Mtls);
    let requirement = build(vec![("j", scheme)]);
    let requirement = requirement.resolve(&security("j"), &Resource::default()).unwrap();
    let cnf = json!({ "cnf": { "x5t#S256": URL_SAFE_NO_PAD.encode([7; 32]) } });
    let parts = with_authorization(&format!("Bearer {}", super::jwt::token_with(&cnf)));
    let now = i64::try_from(NOW).unwrap();
    for (not_after, expected) in [
        (now, "jwt:https://login.example.com#ann"),
        (now - 1, "! certificate-expired"),
    ] {
        let peer = peer_with(PeerCertificate {
            fingerprint: [7; 32],
            not_after,
            ..PeerCertificate::default()
        });
        assert_eq!(outcome(&requirement, &peer, &parts).await, expected);
    }
}
