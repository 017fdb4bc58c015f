//! Signatures of published and of extended cards (A2A 1.0 §8.4), checked with the published keys by another library.

use std::path::Path;

use a2a_gateway::a2a::card::{Reading, read, readings};
use a2a_gateway::a2a::{Generation, Operation, grpc};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{DecodingKey, crypto};
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::grpc::ask;
use crate::harness::agent::{Agent, CARD, CARD_HTTP_JSON, CARD_HYBRID, Reply};
use crate::harness::{Gateway, KEY, call, config_of, eventually, get, post};

const PLACE: &str = "/.well-known/jwks.json";
const CARD_PATH: &str = "/agent/.well-known/agent-card.json";
/// Of a message over gRPC.
const PREFIX: usize = 5;
const ONE: &str = "card_signatures: { keys: [ { private_key: one.pem } ] }";

const IN_BOTH: [Reading; 4] = [
    Reading::Whole,
    Reading::Standard(Generation::V1_0),
    Reading::Sdk(Generation::V1_0),
    Reading::Sdk(Generation::V0_3),
];

fn new_key(folder: &Path, name: &str, kind: &'static rcgen::SignatureAlgorithm) {
    let pair = KeyPair::generate_for(kind).unwrap();
    std::fs::write(folder.join(name), pair.serialize_pem()).unwrap();
}

async fn keys(gateway: &Gateway) -> JwkSet {
    let answer = get(gateway.address, PLACE).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

fn header(signature: &Value) -> Value {
    let header = URL_SAFE_NO_PAD
        .decode(signature["protected"].as_str().unwrap())
        .unwrap();
    serde_json::from_slice(&header).unwrap()
}

fn holds(signature: &Value, payload: &str, keys: &JwkSet) -> bool {
    let said = header(signature);
    assert_eq!(said["jku"], "https://gateway.example/.well-known/jwks.json");
    let Some(key) = keys.find(said["kid"].as_str().unwrap()) else {
        return false;
    };
    let text = format!(
        "{}.{}",
        signature["protected"].as_str().unwrap(),
        URL_SAFE_NO_PAD.encode(payload)
    );
    let algorithm = said["alg"].as_str().unwrap().parse().unwrap();
    let signature = signature["signature"].as_str().unwrap();
    crypto::verify(
        signature,
        text.as_bytes(),
        &DecodingKey::from_jwk(key).unwrap(),
        algorithm,
    )
    .unwrap()
}

/// How the card is read by those for whom one of its signatures holds.
fn signed(card: &Value, keys: &JwkSet) -> Vec<Reading> {
    let none = Vec::new();
    let signatures = card["signatures"].as_array().unwrap_or(&none);
    let readings = readings(&read(card.to_string().as_bytes()).unwrap());
    let mut found: Vec<Reading> = Vec::new();
    for (reading, payload) in readings {
        if !found.contains(&reading) && signatures.iter().any(|one| holds(one, &payload, keys)) {
            found.push(reading);
        }
    }
    found
}

#[tokio::test]
async fn published_cards_are_signed_by_each_algorithm() {
    let folder = tempfile::tempdir().unwrap();
    new_key(folder.path(), "one.pem", &rcgen::PKCS_ECDSA_P256_SHA256);
    new_key(folder.path(), "two.pem", &rcgen::PKCS_ED25519);
    new_key(folder.path(), "three.pem", &rcgen::PKCS_RSA_SHA256);
    let card = CARD_HYBRID.replace("\"d\"", "\"Größe 1\"");
    let agent = Agent::with_card(&card, |_| Reply::Silence).await;
    let top = "card_signatures: { keys: [ { private_key: one.pem, id: p }, { private_key: two.pem, id: e }, \
               { private_key: three.pem, id: r } ] }";
    let yaml = config_of(&[agent.address], "card: { refresh: 1s }", top);
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    let answer = get(gateway.address, CARD_PATH).await;
    let card = answer.json();
    let keys = keys(&gateway).await;
    assert_eq!(keys.keys.len(), 3);
    for (id, algorithm) in [("p", "ES256"), ("e", "EdDSA"), ("r", "RS256")] {
        let mut by_one = card.clone();
        let signatures = by_one["signatures"].as_array_mut().unwrap();
        signatures.retain(|one| header(one)["alg"] == algorithm);
        assert!(signatures.iter().all(|one| header(one)["kid"] == id));
        assert_eq!(signed(&by_one, &keys), IN_BOTH, "{algorithm}");
        by_one["supportedInterfaces"][0]["url"] = json!("https://attacker.example/");
        assert_eq!(
            signed(&by_one, &keys),
            [Reading::Sdk(Generation::V0_3)],
            "its members are the others"
        );
        by_one["url"] = json!("https://attacker.example/");
        assert_eq!(signed(&by_one, &keys), []);
    }
    // The card is fetched again and is the same: so are its bytes, though signatures on P-256 are random.
    let fetched = agent.cards();
    eventually("the card is refreshed", || async { agent.cards() > fetched + 1 }).await;
    let again = get(gateway.address, CARD_PATH).await;
    assert_eq!(again.header("etag"), answer.header("etag"));
    let known = [("if-none-match", answer.header("etag").unwrap())];
    let fresh = call(gateway.address, "GET", CARD_PATH, &known, "").await;
    assert_eq!(fresh.status, 304);
    // Another card is signed anew.
    agent.set_card(&CARD_HYBRID.replace("\"d\"", "\"other\""));
    eventually("another card", || async {
        get(gateway.address, CARD_PATH).await.header("etag") != answer.header("etag")
    })
    .await;
    assert_eq!(signed(&get(gateway.address, CARD_PATH).await.json(), &keys), IN_BOTH);
}

#[tokio::test]
async fn a_card_for_each_version_is_signed_in_its_form() {
    let folder = tempfile::tempdir().unwrap();
    new_key(folder.path(), "one.pem", &rcgen::PKCS_ED25519);
    let agent = Agent::with_card(CARD_HYBRID, |_| Reply::Silence).await;
    let more = "card: { form: by_version }\n    v0_1: true";
    let yaml = config_of(&[agent.address], more, ONE);
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    let keys = keys(&gateway).await;
    let asked = async |version: &str| {
        let fields = [("a2a-version", version)];
        call(gateway.address, "GET", CARD_PATH, &fields, "").await.json()
    };
    let of_1_0 = [
        Reading::Whole,
        Reading::Standard(Generation::V1_0),
        Reading::Sdk(Generation::V1_0),
    ];
    // Of a card without empty members and unknown ones all readings are the same, but for required members and requirements.
    let found = signed(&asked("1.0").await, &keys);
    assert!(found.contains(&of_1_0[1]) && found.contains(&of_1_0[2]), "{found:?}");
    let found = signed(&asked("0.3").await, &keys);
    assert_eq!(found, [Reading::Whole, Reading::Sdk(Generation::V0_3)]);
    let old = get(gateway.address, "/agent/.well-known/agent.json").await.json();
    assert!(
        old.get("supportedInterfaces").is_none() && old.get("signatures").is_none(),
        "{old}"
    );
}

#[tokio::test]
async fn the_extended_card_is_signed_for_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    new_key(folder.path(), "one.pem", &rcgen::PKCS_ECDSA_P256_SHA256);
    let extended = |card: &str| card.replace("\"Fake\"", "\"Extended\"");
    let rpc = Agent::start(move |request| {
        Reply::Json(format!(
            r#"{{"id":{},"jsonrpc":"2.0","result":{}}}"#,
            request.id(),
            extended(CARD)
        ))
    })
    .await;
    let rest = Agent::over_http_json(CARD_HTTP_JSON, move |_| Reply::Json(extended(CARD_HTTP_JSON))).await;
    for agent in [&rpc, &rest] {
        let yaml = config_of(&[agent.address], "", ONE).replace("path: /agent", "path: /");
        let gateway = Gateway::start_in(&yaml, folder.path()).await;
        gateway.ready().await;
        let keys = keys(&gateway).await;
        for method in ["GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}"}}"#);
            let card = post(gateway.address, "/", &body).await.json()["result"].take();
            assert_eq!(card["name"], "Extended", "{card}");
            assert_eq!(signed(&card, &keys), IN_BOTH);
        }
        for path in ["/extendedAgentCard", "/v1/card", "/agent/authenticatedExtendedCard"] {
            let answer = call(gateway.address, "GET", path, &[("x-api-key", KEY)], "").await;
            let card = answer.json();
            assert_eq!(card["name"], "Extended", "{path}: {card}");
            assert_eq!(signed(&card, &keys), IN_BOTH);
        }
        // What protobuf has no place for is lost: the members of the other generation.
        for (generation, expected) in [(Generation::V1_0, &IN_BOTH[1..3]), (Generation::V0_3, &IN_BOTH[3..])] {
            let got = ask(&gateway, generation, Operation::ExtendedCard, &json!({})).await;
            assert_eq!(got.status(), 0, "{got:?}");
            let card = grpc::to_json(generation, Operation::ExtendedCard, &got.body[PREFIX..]).unwrap();
            let card: Value = serde_json::from_slice(&card).unwrap();
            assert_eq!(card["name"], "Extended", "{card}");
            let found = signed(&card, &keys);
            assert!(expected.iter().all(|one| found.contains(one)), "{found:?}: {card}");
        }
    }
}

#[tokio::test]
async fn keys_are_changed_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one.pem", "two.pem"] {
        new_key(folder.path(), name, &rcgen::PKCS_ECDSA_P256_SHA256);
    }
    let agent = Agent::with_card(CARD, |_| Reply::Silence).await;
    let config = |keys: &[&str]| {
        let keys: Vec<_> = keys
            .iter()
            .map(|name| format!("{{ private_key: {name}.pem, id: {name} }}"))
            .collect();
        let top = format!("card_signatures: {{ keys: [ {} ] }}", keys.join(", "));
        config_of(&[agent.address], "", &top)
    };
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, config(&["one"])).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    let published = async || get(gateway.address, CARD_PATH).await.json();
    let by = |card: &Value| -> Vec<String> {
        let ids = card["signatures"].as_array().into_iter().flatten();
        let mut ids: Vec<_> = ids.map(|one| header(one)["kid"].as_str().unwrap().to_owned()).collect();
        ids.dedup();
        ids
    };
    let old = published().await;
    assert_eq!(by(&old), ["one"]);
    let fetched = agent.cards();
    for (order, signs, known) in [
        (&["one", "two"][..], "one", 2),
        (&["two", "one"][..], "two", 2),
        (&["two"][..], "two", 1),
    ] {
        std::fs::write(&file, config(order)).unwrap();
        assert!(gateway.reload().await);
        let (card, keys) = (published().await, keys(&gateway).await);
        assert_eq!(
            (by(&card), keys.keys.len()),
            (vec![signs.to_owned()], known),
            "{order:?}"
        );
        assert!(!signed(&card, &keys).is_empty());
        assert_eq!(
            signed(&old, &keys).is_empty(),
            known == 1,
            "a card of before, {order:?}"
        );
    }
    assert_eq!(agent.cards(), fetched, "nothing was asked again");
    // Another key behind the same name.
    new_key(folder.path(), "two.pem", &rcgen::PKCS_ED25519);
    assert!(gateway.reload().await);
    let card = published().await;
    assert_eq!(header(&card["signatures"][0])["alg"], "EdDSA");
    std::fs::write(&file, config_of(&[agent.address], "", "")).unwrap();
    assert!(gateway.reload().await);
    assert_eq!(published().await.get("signatures"), None);
    assert_eq!(get(gateway.address, PLACE).await.status, 404);
}
