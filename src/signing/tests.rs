//! What stands in signatures, and that the published keys check them; the checker is another library than the signer's own.

use std::path::{Path, PathBuf};

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{DecodingKey, crypto};
use rcgen::KeyPair;

use super::*;
use crate::a2a::Generation;
use crate::a2a::card::{PublishedCard, payloads};
use crate::config::CardSignatures;

const URL: &str = "https://gateway.example";

fn pem(kind: &'static rcgen::SignatureAlgorithm) -> String {
    KeyPair::generate_for(kind).unwrap().serialize_pem()
}

fn write(folder: &Path, name: &str, pem: &str, id: Option<&str>) -> SigningKey {
    let private_key = folder.join(name);
    std::fs::write(&private_key, pem).unwrap();
    SigningKey {
        private_key,
        id: id.map(str::to_owned),
    }
}

fn signer(keys: Vec<SigningKey>) -> CardSigner {
    CardSigner::build(&CardSignatures { keys }, URL).unwrap().unwrap()
}

fn card() -> PublishedCard {
    let value = json!({
        "name": "Ä", "description": "", "version": "1", "protocolVersion": "0.3.0", "url": "https://gateway.example/a",
        "supportedInterfaces": [{ "url": "https://gateway.example/a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "capabilities": { "streaming": true }, "defaultInputModes": [], "defaultOutputModes": [], "skills": []
    });
    PublishedCard {
        bytes: Bytes::from(value.to_string()),
        value,
    }
}

/// `kid` and algorithm of each signature and the payload that it is over.
fn checked(card: &Value, forms: &[Generation], set: &[u8]) -> Vec<(String, String, usize)> {
    let set: JwkSet = serde_json::from_slice(set).unwrap();
    let payloads = payloads(&unsigned(card), forms);
    let signatures = card["signatures"].as_array().unwrap();
    let check = |one: &Value| {
        let (header, signature) = (one["protected"].as_str().unwrap(), one["signature"].as_str().unwrap());
        let said: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        assert_eq!(said["typ"], "JOSE");
        assert_eq!(said["jku"], format!("{URL}{PLACE}"));
        assert_eq!(said.as_object().unwrap().len(), 4);
        let (id, algorithm) = (said["kid"].as_str().unwrap(), said["alg"].as_str().unwrap());
        let key = DecodingKey::from_jwk(set.find(id).unwrap()).unwrap();
        let holds = |payload: &String| {
            let text = format!("{header}.{}", base64(payload.as_bytes()));
            crypto::verify(signature, text.as_bytes(), &key, algorithm.parse().unwrap()).unwrap()
        };
        let over: Vec<usize> = (0..payloads.len()).filter(|index| holds(&payloads[*index])).collect();
        assert_eq!(over.len(), 1, "{said}");
        (id.to_owned(), algorithm.to_owned(), over[0])
    };
    signatures.iter().map(check).collect()
}

fn unsigned(card: &Value) -> serde_json::Map<String, Value> {
    let mut members = card.as_object().unwrap().clone();
    members.shift_remove("signatures");
    members
}

#[test]
fn the_first_key_of_each_algorithm_signs_for_each_reader() {
    let folder = tempfile::tempdir().unwrap();
    let one = |name, kind, id| write(folder.path(), name, &pem(kind), Some(id));
    let keys = vec![
        one("a.pem", &rcgen::PKCS_ED25519, "ed-1"),
        one("b.pem", &rcgen::PKCS_ED25519, "ed-2"),
        one("c.pem", &rcgen::PKCS_RSA_SHA256, "rsa-1"),
        one("d.pem", &rcgen::PKCS_ECDSA_P256_SHA256, "p-1"),
    ];
    let signer = signer(keys.clone());
    let set = key_set(&[signer.keys()]).unwrap();
    let ids: Value = serde_json::from_slice(&set).unwrap();
    let public = ids["keys"].as_array().unwrap();
    assert_eq!(public.len(), 4, "all are published");
    for private in ["d", "p", "q", "dp", "dq", "qi", "oth", "k"] {
        assert!(
            public.iter().all(|key| key.get(private).is_none()),
            "{private} is private"
        );
    }
    for (forms, count) in [
        (&Generation::SPOKEN[..], 4),
        (&[Generation::V1_0][..], 2),
        (&[Generation::V0_3][..], 3),
    ] {
        // Anew for each: what was signed once is remembered by its bytes.
        let signer = self::signer(keys.clone());
        let signed = signer.published(card(), forms);
        assert_eq!(serde_json::from_slice::<Value>(&signed.bytes).unwrap(), signed.value);
        assert_eq!(unsigned(&signed.value), *card().value.as_object().unwrap());
        let found = checked(&signed.value, forms, &set);
        let expected: Vec<_> = (0..count)
            .flat_map(|payload| {
                let algorithms = [("ed-1", "EdDSA"), ("rsa-1", "RS256"), ("p-1", "ES256")];
                algorithms.map(|(id, algorithm)| (id.to_owned(), algorithm.to_owned(), payload))
            })
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn what_is_the_same_is_signed_once() {
    let folder = tempfile::tempdir().unwrap();
    let key = write(folder.path(), "a.pem", &pem(&rcgen::PKCS_ECDSA_P256_SHA256), None);
    let signer = signer(vec![key.clone()]);
    let forms = &Generation::SPOKEN;
    let first = signer.published(card(), forms);
    assert_eq!(signer.published(card(), forms).bytes, first.bytes);
    assert_ne!(signer.extended(card(), forms).bytes, first.bytes, "ECDSA is random");
    for index in 0..1000 {
        let value = json!({ "name": index });
        let bytes = Bytes::from(value.to_string());
        signer.extended(PublishedCard { value, bytes }, forms);
    }
    assert_eq!(
        signer.published(card(), forms).bytes,
        first.bytes,
        "callers do not push it out"
    );
    let config = CardSignatures { keys: vec![key] };
    assert!(signer.is_of(&config, URL));
    assert!(!signer.is_of(&config, "https://other.example"), "it is in the header");
    std::fs::write(folder.path().join("a.pem"), pem(&rcgen::PKCS_ED25519)).unwrap();
    assert!(!signer.is_of(&config, URL), "another key behind the same name");
}

#[test]
fn one_id_is_one_key_in_the_set_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "a.pem", &pem(&rcgen::PKCS_ED25519), None);
    let other = write(folder.path(), "b.pem", &pem(&rcgen::PKCS_ED25519), Some("n"));
    let wrong = write(folder.path(), "c.pem", &pem(&rcgen::PKCS_ED25519), Some("n"));
    let read = |section, keys: &[&SigningKey]| {
        let keys: Vec<_> = keys.iter().copied().cloned().collect();
        Keys::read(section, &keys, Kinds::All).unwrap()
    };
    let assertions = read("assertions", &[&one, &other]);
    let cards = read("card_signatures", &[&one]);
    let set = key_set(&[&assertions, &cards]).unwrap();
    let set: Value = serde_json::from_slice(&set).unwrap();
    assert_eq!(set["keys"].as_array().unwrap().len(), 2, "the same key once");
    let cards = read("card_signatures", &[&one, &wrong]);
    let problems = key_set(&[&assertions, &cards]).unwrap_err();
    let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["card_signatures.keys[1]: has the id `n`, which another key has"]
    );
}

#[test]
fn keys_that_cannot_sign_are_reported_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let short = include_str!("../../tests/cards/signing/rsa-1024.pem");
    let keys = [
        write(folder.path(), "p384.pem", &pem(&rcgen::PKCS_ECDSA_P384_SHA384), None),
        write(folder.path(), "short.pem", short, None),
        SigningKey {
            private_key: PathBuf::from("/nonexistent/key"),
            id: None,
        },
    ];
    let Err(problems) = Keys::read("card_signatures", &keys, Kinds::All) else {
        panic!("accepted")
    };
    let expected = [
        (
            "card_signatures.keys[0].private_key",
            "or of RSA from 2048 to 8192 bits",
        ),
        (
            "card_signatures.keys[1].private_key",
            "or of RSA from 2048 to 8192 bits",
        ),
        ("card_signatures.keys[2].private_key", "/nonexistent/key"),
    ];
    assert_eq!(problems.len(), expected.len());
    for (problem, (key, text)) in problems.iter().zip(expected) {
        assert!(problem.key == key && problem.cause.contains(text), "{problem}");
    }
}

#[test]
fn a_thumbprint_is_that_of_the_standard() {
    // RFC 8037 §A.3.
    let members = json!({ "crv": "Ed25519", "kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    assert_eq!(
        base64(&sha256(members.to_string().as_bytes())),
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    );
}
