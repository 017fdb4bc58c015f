//! Those who are asked about credentials, on the loopback: how long it holds what they said, and in which configuration.

use http::StatusCode;
use serde_json::{Value, json};

use super::jwt::{ISSUER, issuer_scheme};
use super::remote::Issuer;
use super::*;
use crate::config::{Asking, Client, ClientAuthentication, Secret, SenderConstraint, TokenProof, Tokens};

const ANN: &str = "jwt:https://login.example.com#ann";
const HOUR: Duration = Duration::from_secs(3600);

fn asking(url: &str) -> Asking {
    Asking {
        url: url.to_owned(),
        ca: None,
        timeout: Duration::from_secs(5),
        cache_ttl: HOUR,
        negative_ttl: HOUR,
        concurrent: 4,
    }
}

fn introspection(url: &str, issuer: &str, audience: &[&str]) -> Scheme {
    scheme(SchemeKind::Bearer {
        bearer_format: None,
        tokens: Tokens {
            issuer: issuer.to_owned(),
            audience: audience.iter().map(|&text| text.to_owned()).collect(),
            proof: TokenProof::Introspection {
                asking: asking(url),
                client: Client {
                    id: "gateway".to_owned(),
                    secret: Secret::new("secret".to_owned()),
                    authentication: ClientAuthentication::Basic,
                },
            },
            sender: SenderConstraint::Optional,
            dpop_lifetime: Duration::from_secs(60),
            leeway: Duration::from_secs(60),
            principal_claim: "sub".to_owned(),
            claims: vec!["tenant".to_owned()],
        },
    })
}

fn check(url: &str, name: &str) -> Scheme {
    scheme(SchemeKind::Http {
        scheme: name.to_owned(),
        check: asking(url),
        claims: vec!["tenant".to_owned()],
    })
}

async fn saying(answer: &Value) -> (Issuer, String) {
    let server = Issuer::start(StatusCode::OK, answer.to_string()).await;
    let url = format!("http://{}/", server.address);
    (server, url)
}

fn active(more: &[(&str, Value)]) -> Value {
    let mut answer = json!({"active": true, "sub": "ann", "aud": "a2a", "tenant": "acme"});
    for (name, value) in more {
        answer[name] = value.clone();
    }
    answer
}

#[tokio::test]
async fn what_was_said_holds_until_the_expiry_that_it_names() {
    let (server, url) = saying(&active(&[("exp", json!(NOW + 10))])).await;
    let time = Time::new();
    let verifiers = try_build(vec![("t", introspection(&url, ISSUER, &["a2a"]))], &time).unwrap();
    let token = with_authorization("Bearer opaque");
    let check = async |seconds: u64, expected: &str, questions: usize| {
        time.set(seconds);
        assert_eq!(one(&verifiers, "t", &token).await, expected, "{seconds}");
        assert_eq!(server.fetches(), questions, "{seconds}");
    };
    check(NOW, ANN, 1).await;
    check(NOW + 9, ANN, 1).await;
    // The leeway is for clocks, not for what is remembered.
    check(NOW + 10, ANN, 2).await;
    check(NOW + 69, ANN, 3).await;
    check(NOW + 70, "! expired", 4).await;
    check(NOW + 71, "! expired", 4).await;
}

#[tokio::test]
async fn somebody_has_one_id_whatever_form_the_token_has() {
    let (_server, url) = saying(&active(&[])).await;
    let requirement = build(vec![("t", introspection(&url, ISSUER, &["a2a"]))])
        .resolve(&security("t"), &Resource::default())
        .unwrap();
    let peer = peer();
    let token = with_authorization("Bearer opaque");
    let principal = identify(&requirement, &peer, peer.address.ip(), &token).await.unwrap();
    assert_eq!(&*principal.id, ANN);
    assert_eq!(principal.attribute("tenant").map(|text| &**text), Some("tenant=acme"));
    assert_eq!(principal.expires(), None);
    let (_file, signed) = issuer_scheme(ISSUER, &["a2a"]);
    let (_file, other_audience) = issuer_scheme(ISSUER, &["b"]);
    let (_file, other_issuer) = issuer_scheme("https://other.example", &["a2a"]);
    for (after, expected, what) in [
        (introspection(&url, ISSUER, &["a2a"]), Some(ANN), "nothing changed"),
        (signed, Some(ANN), "tokens are signed by now"),
        (other_audience, None, "for somebody else by now"),
        (other_issuer, None, "of another issuer by now"),
        (introspection(&url, ISSUER, &["b"]), None, "for somebody else by now"),
        (
            introspection(&url, ISSUER, &[]),
            None,
            "who it is for is for the server to say",
        ),
        (check(&url, "bearish"), None, "another kind of scheme"),
    ] {
        let verifiers = build(vec![("t", after)]);
        let next = verifiers.resolve(&security("t"), &Resource::default()).unwrap();
        let again = next.readmit(&principal);
        assert_eq!(again.as_ref().map(|again| &*again.id), expected, "{what}");
        assert_eq!(verifiers.know_still(&principal), expected.is_some(), "{what}");
    }
}

#[tokio::test]
async fn a_token_for_nobody_in_particular_stays_one() {
    let (_server, url) = saying(&active(&[("aud", json!("elsewhere")), ("exp", json!(NOW + 10))])).await;
    let verifiers = build(vec![("t", introspection(&url, ISSUER, &[]))]);
    let requirement = verifiers.resolve(&security("t"), &Resource::default()).unwrap();
    let peer = peer();
    let token = with_authorization("Bearer opaque");
    let principal = identify(&requirement, &peer, peer.address.ip(), &token).await.unwrap();
    assert_eq!(principal.expires(), Some(NOW + 10));
    assert!(verifiers.know_still(&principal));
    let (_file, signed) = issuer_scheme(ISSUER, &["a2a", "elsewhere"]);
    assert!(!build(vec![("t", signed)]).know_still(&principal));
}

#[tokio::test]
async fn who_vouched_is_a_part_of_what_a_credential_proves() {
    let (server, url) = saying(&json!({"sub": "a+b", "tenant": "acme", "scope": "read"})).await;
    let verifiers = build(vec![("h", check(&url, "Digest"))]);
    let requirement = verifiers.resolve(&security("h:read"), &Resource::default()).unwrap();
    let peer = peer();
    let shown = with_authorization("Digest x");
    let principal = identify(&requirement, &peer, peer.address.ip(), &shown).await.unwrap();
    assert_eq!(&*principal.id, "http:digest:a%2Bb");
    assert_eq!(principal.attribute("tenant").map(|text| &**text), Some("tenant=acme"));
    assert!(principal.is_at(&peer));
    assert_eq!(format!("{:?}", principal.evidence[0].credential), "Vouched");
    for (after, holds, what) in [
        (check(&url, "digest"), true, "the same"),
        (check(&format!("{url}other"), "digest"), false, "somebody else is asked"),
        (check(&url, "hoba"), false, "another scheme"),
        (introspection(&url, ISSUER, &[]), false, "tokens"),
    ] {
        let next = build(vec![("h", after)]);
        assert_eq!(next.know_still(&principal), holds, "{what}");
        let requirement = next.resolve(&security("h:read"), &Resource::default()).unwrap();
        assert_eq!(requirement.readmit(&principal).is_some(), holds, "{what}");
        let requirement = next.resolve(&security("h:write"), &Resource::default()).unwrap();
        assert!(requirement.readmit(&principal).is_none(), "{what}");
    }
    assert_eq!(server.fetches(), 1, "nobody is asked again for that");
}

#[test]
fn a_ca_file_must_hold_certificates() {
    let ca = file("no certificate");
    let with_ca = |mut asking: Asking| {
        asking.ca = Some(ca.path().to_owned());
        asking
    };
    let mut checked = check("https://check.example", "digest");
    let mut asked = introspection("https://login.example", ISSUER, &[]);
    if let SchemeKind::Http { check, .. } = &mut checked.kind {
        *check = with_ca(check.clone());
    }
    if let SchemeKind::Bearer { tokens, .. } = &mut asked.kind
        && let TokenProof::Introspection { asking, .. } = &mut tokens.proof
    {
        *asking = with_ca(asking.clone());
    }
    for (scheme, key) in [(checked, "check.ca"), (asked, "introspection.ca")] {
        rewrite(ca.path(), "no certificate");
        let problems = try_build(vec![("s", scheme.clone())], &Time::new())
            .map(|_| ())
            .unwrap_err();
        assert_eq!(problems[0].key, format!("security_schemes.s.{key}"));
        let certificate = |name: &str| {
            rcgen::generate_simple_self_signed(vec![name.to_owned()])
                .unwrap()
                .cert
                .pem()
        };
        rewrite(ca.path(), &certificate("a"));
        let mut verifiers = build(vec![("s", scheme)]);
        assert_eq!(reload(&mut verifiers), Ok(vec![]));
        rewrite(ca.path(), &certificate("b"));
        assert_eq!(reload(&mut verifiers), Ok(vec!["s".to_owned()]));
    }
}
