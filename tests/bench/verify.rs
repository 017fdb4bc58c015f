//! What it costs to find out who calls, without anything else of a call: by key, by a token that is remembered, and by one that
//! is not, whose signature is checked.
//!
//! Its result is a table on standard output; nothing passes or fails by it. `cargo bench --bench verify`. One thread.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a program of its own, whose result is what it prints"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use a2a_gateway::authenticate::{Requirement, Resource, Verifiers, identify};
use a2a_gateway::clock::Clock;
use a2a_gateway::config::{self, Config, Environment};
use a2a_gateway::tls::Peer;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Request, request};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use rcgen::{KeyPair, SignatureAlgorithm};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const KEY: &str = "0123456789abcdef0123456789abcdef";
/// In seconds since 1970.
const NOW: u64 = 1_800_000_000;
/// Different tokens: more than are verified in a row, so that none is remembered.
const TOKENS: usize = 2_000;
const ROUNDS: usize = 5;
const REMEMBERED: usize = 200_000;

fn main() {
    println!("| credential | ns |");
    println!("| --- | ---: |");
    let digits: String = digest(&SHA256, KEY.as_bytes())
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let scheme =
        format!("type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: bench, hash: \"sha256:{digits}\" }} ]");
    row("API key", &scheme, &[("x-api-key", KEY.to_owned())], REMEMBERED);
    for (name, algorithm, of) in [
        ("ES256", Algorithm::ES256, &rcgen::PKCS_ECDSA_P256_SHA256),
        ("EdDSA", Algorithm::EdDSA, &rcgen::PKCS_ED25519),
        ("RS256, 2048 bits", Algorithm::RS256, &rcgen::PKCS_RSA_SHA256),
    ] {
        let signer = Signer::new(algorithm, of);
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys.json");
        std::fs::write(&keys, json!({ "keys": [signer.jwk] }).to_string()).unwrap();
        let scheme = format!(
            "type: http, scheme: bearer, issuer: \"https://login.example.com\", audience: [ a2a ], jwks_file: \"{}\"",
            keys.display()
        );
        let tokens: Vec<_> = (0..TOKENS).map(|id| ("authorization", signer.token(id))).collect();
        row(&format!("token, {name}, remembered"), &scheme, &tokens[..1], REMEMBERED);
        row(&format!("token, {name}, verified"), &scheme, &tokens, TOKENS);
    }
}

/// The best of several rounds, each with verifiers that remember nothing.
fn row(name: &str, scheme: &str, credentials: &[(&'static str, String)], count: usize) {
    let shown: Vec<request::Parts> = credentials.iter().map(|(field, value)| head(field, value)).collect();
    let peer = Peer {
        address: "127.0.0.1:1".parse().unwrap(),
        secure: false,
        certificate: None,
        chain: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let requirement = requirement(scheme);
        let begun = Instant::now();
        for index in 0..count {
            let parts = shown.get(index % shown.len()).unwrap();
            let identified = runtime.block_on(identify(&requirement, &peer, peer.address.ip(), parts));
            black_box(identified.unwrap());
        }
        best = best.min(begun.elapsed());
    }
    println!("| {name} | {} |", best.as_nanos() / count as u128);
}

fn head(field: &'static str, value: &str) -> request::Parts {
    let value = match field {
        "authorization" => format!("Bearer {value}"),
        _ => value.to_owned(),
    };
    Request::post("/").header(field, value).body(()).unwrap().into_parts().0
}

fn requirement(scheme: &str) -> Requirement {
    let yaml = format!(
        "public_url: http://127.0.0.1\nlisteners: [ {{ name: l, address: \"127.0.0.1:0\" }} ]\nsecurity_schemes: {{ s: {{ {scheme} }} }}\n\
         security: [ {{ s: [] }} ]\nagents: [ {{ name: a, path: /, upstream: {{ endpoints: [ {{ url: \"http://127.0.0.1:1/\" }} ] }} }} ]\n"
    );
    let config: Config = config::parse(&yaml, std::path::Path::new("."), &Environment::default()).unwrap();
    let schemes: BTreeMap<_, _> = config.security_schemes;
    let verifiers = Verifiers::build(&schemes, &Clock::at(NOW)).unwrap();
    let resource = Resource::default();
    verifiers
        .resolve(config.agents[0].security.as_ref().unwrap(), &resource)
        .unwrap()
}

struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    jwk: serde_json::Value,
}

impl Signer {
    fn new(algorithm: Algorithm, of: &'static SignatureAlgorithm) -> Self {
        let pair = KeyPair::generate_for(of).unwrap();
        let pem = pair.serialize_pem();
        let key = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_pem(pem.as_bytes()),
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem.as_bytes()),
            _ => EncodingKey::from_rsa_pem(pem.as_bytes()),
        };
        let key = key.unwrap();
        let jwk = match algorithm {
            Algorithm::EdDSA => {
                let x = URL_SAFE_NO_PAD.encode(rcgen::PublicKeyData::der_bytes(&pair));
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
            _ => serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap(),
        };
        Self { key, algorithm, jwk }
    }

    fn token(&self, id: usize) -> String {
        let claims = json!({
            "iss": "https://login.example.com", "aud": "a2a", "sub": "ann", "exp": NOW + 3600, "jti": id, "scope": "a2a.invoke"
        });
        jsonwebtoken::encode(&jsonwebtoken::Header::new(self.algorithm), &claims, &self.key).unwrap()
    }
}
