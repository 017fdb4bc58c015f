//! What stands in an assertion, and that the published keys check it; the checker is another library than the signer's own.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use rcgen::KeyPair;
use serde_json::Value;

use std::sync::Arc;

use super::*;
use crate::config::SigningKey;
use crate::signing::key_set;

const NOW: u64 = 1_800_000_000;

fn clock() -> Clock {
    Clock::from_fn(|| UNIX_EPOCH + Duration::from_secs(NOW))
}

fn config(keys: Vec<SigningKey>) -> Assertions {
    Assertions {
        issuer: "https://gateway.example".to_owned(),
        keys,
        max_age: Duration::from_secs(300),
    }
}

fn key(folder: &Path, name: &str, pem: &str, id: Option<&str>) -> SigningKey {
    let private_key = folder.join(name);
    std::fs::write(&private_key, pem).unwrap();
    SigningKey {
        private_key,
        id: id.map(str::to_owned),
    }
}

fn told(claims: &[&str]) -> UpstreamAssertion {
    UpstreamAssertion {
        header: http::HeaderName::from_static("x-told"),
        audience: None,
        lifetime: Duration::from_secs(60),
        claims: claims.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn ann() -> Principal {
    let mut ann = Principal::absent(&Arc::from("jwt:https://i#ann%2B1"));
    ann.schemes = vec![Arc::from("token")];
    let attributes = ["groups=a%20b", "groups=c=d", "tenant=acme", "x%2By=%C3%A4"];
    ann.attributes = attributes.map(Arc::from).to_vec();
    ann
}

#[expect(clippy::disallowed_methods, reason = "an agent checks what it chooses to")]
/// The claims, checked by the published set; everything about time is looked at by the test.
fn checked(signer: &Signer, token: &str) -> Value {
    let set: JwkSet = serde_json::from_slice(&key_set(&[signer.keys()]).unwrap()).unwrap();
    let header = decode_header(token).unwrap();
    assert_eq!(header.typ.as_deref(), Some(TYPE));
    let jwk = set.find(&header.kid.unwrap()).unwrap();
    let mut validation = Validation::new(header.alg);
    validation.validate_exp = false;
    validation.set_audience(&["https://a.example"]);
    let key = DecodingKey::from_jwk(jwk).unwrap();
    let mut forged = token.to_owned();
    let last = if forged.ends_with("AA") { "BB" } else { "AA" };
    forged.replace_range(forged.len() - 10..forged.len() - 8, last);
    assert!(
        decode::<Value>(&forged, &key, &validation).is_err(),
        "the signature is looked at"
    );
    decode::<Value>(token, &key, &validation).unwrap().claims
}

#[test]
fn an_assertion_of_either_kind_of_key_is_checked_by_the_published_set() {
    let folder = tempfile::tempdir().unwrap();
    let p256 = KeyPair::generate().unwrap().serialize_pem();
    let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
    for (pem, algorithm) in [(&p256, Algorithm::ES256), (&ed25519, Algorithm::EdDSA)] {
        let signer = Signer::build(&config(vec![key(folder.path(), "a.pem", pem, None)]), &clock());
        let signer = signer.unwrap().unwrap();
        let token = signer.tell(&ann(), "maps", "https://a.example", &told(&["groups", "x+y", "none"]));
        let token = token.unwrap().unwrap();
        assert!(token.is_sensitive());
        let token = token.to_str().unwrap();
        assert_eq!(decode_header(token).unwrap().alg, algorithm);
        let mut claims = checked(&signer, token);
        let id = claims["jti"].take();
        assert!(id.as_str().unwrap().parse::<Uuid>().is_ok());
        assert_eq!(
            claims,
            json!({
                "iss": "https://gateway.example", "sub": "jwt:https://i#ann%2B1", "aud": "https://a.example",
                "iat": NOW, "exp": NOW + 60, "jti": null, "agent": "maps",
                // RFC 7519 §4.3; of what was not asked for nothing is told.
                "attributes": { "groups": ["a b", "c=d"], "x+y": ["ä"] },
            })
        );
        let again = signer
            .tell(&ann(), "maps", "https://a.example", &told(&[]))
            .unwrap()
            .unwrap();
        let again = checked(&signer, again.to_str().unwrap());
        assert_ne!(again["jti"], id, "each may be taken once");
        assert!(again.get("attributes").is_none());
    }
}

#[test]
fn nobody_is_told_of_who_is_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let pem = KeyPair::generate().unwrap().serialize_pem();
    let signer = Signer::build(&config(vec![key(folder.path(), "a.pem", &pem, None)]), &clock());
    let signer = signer.unwrap().unwrap();
    for nobody in [Principal::anonymous(), Principal::absent(&Arc::from("key:partner-7"))] {
        assert_eq!(signer.tell(&nobody, "maps", "https://a", &told(&[])), Ok(None));
    }
}

#[test]
fn the_first_key_signs_and_all_are_published() {
    let folder = tempfile::tempdir().unwrap();
    let pem = || KeyPair::generate().unwrap().serialize_pem();
    let keys = vec![
        key(folder.path(), "a.pem", &pem(), Some("first")),
        key(folder.path(), "b.pem", &pem(), None),
    ];
    let config = config(keys);
    let signer = Signer::build(&config, &clock()).unwrap().unwrap();
    let published: Value = serde_json::from_slice(&key_set(&[signer.keys()]).unwrap()).unwrap();
    let ids: Vec<_> = published["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["kid"].as_str().unwrap())
        .collect();
    assert_eq!((ids.len(), ids[0]), (2, "first"));
    assert_eq!(ids[1].len(), 43, "a thumbprint");
    assert!(
        published["keys"]
            .as_array()
            .unwrap()
            .iter()
            .all(|key| key.get("d").is_none()),
        "nothing private"
    );
    let token = signer
        .tell(&ann(), "maps", "https://a.example", &told(&[]))
        .unwrap()
        .unwrap();
    assert_eq!(
        decode_header(token.to_str().unwrap()).unwrap().kid.as_deref(),
        Some("first")
    );
    assert!(signer.is_of(&config));
    std::fs::write(folder.path().join("b.pem"), pem()).unwrap();
    assert!(!signer.is_of(&config), "another key behind the same name");
}

#[test]
fn keys_that_cannot_sign_are_reported_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let check = |keys: Vec<SigningKey>, expected: &[(&str, &str)]| {
        let Err(problems) = Signer::build(&config(keys), &clock()) else {
            panic!("accepted: {expected:?}");
        };
        let found: Vec<_> = problems
            .iter()
            .map(|one| (one.key.as_str(), one.cause.clone()))
            .collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((key, cause), (expected_key, text)) in found.iter().zip(expected) {
            assert!(key == expected_key && cause.contains(text), "{key}: {cause}");
        }
    };
    let rsa = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap().serialize_pem();
    let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384)
        .unwrap()
        .serialize_pem();
    let absent = SigningKey {
        private_key: PathBuf::from("/nonexistent/key"),
        id: None,
    };
    check(
        vec![
            key(folder.path(), "rsa.pem", &rsa, None),
            key(folder.path(), "p384.pem", &p384, None),
            key(folder.path(), "text.pem", "hunter2", None),
            absent,
        ],
        &[
            ("assertions.keys[0].private_key", "no key on the curve P-256"),
            ("assertions.keys[1].private_key", "no key on the curve P-256"),
            ("assertions.keys[2].private_key", "no private key in PEM"),
            ("assertions.keys[3].private_key", "/nonexistent/key"),
        ],
    );
    let pem = KeyPair::generate().unwrap().serialize_pem();
    let twice = || key(folder.path(), "twice.pem", &pem, None);
    check(
        vec![twice(), twice()],
        &[("assertions.keys[1]", "which another key has")],
    );
}
