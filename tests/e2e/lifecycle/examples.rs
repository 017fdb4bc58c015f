//! Every example of the repository starts as it stands, but for addresses that a test must not use.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use argon2::{Algorithm, Argon2, CustomizedPasswordHasher, Params, Version};
use jsonwebtoken::EncodingKey;
use jsonwebtoken::jwk::Jwk;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::binary::run;
use super::program::Program;
use super::srv::{NameServer, Word};
use crate::harness::agent;
use crate::harness::authority::Authority;
use crate::harness::{KEY_HASH, get};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Long enough for a key.
const SECRET: &str = "a-secret-of-32-characters-or-more";

/// Name and text.
fn examples() -> Vec<(String, String)> {
    let mut examples = Vec::new();
    for folder in ["config", "deploy"] {
        for entry in std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = path.extension().filter(|extension| *extension == "yaml");
            let text = text.map(|_| std::fs::read_to_string(&path).unwrap());
            // The other kind of YAML here is for compose.
            if let Some(text) = text.filter(|text| text.contains("\nagents:")) {
                examples.push((path.file_name().unwrap().to_str().unwrap().to_owned(), text));
            }
        }
    }
    examples.sort();
    examples
}

/// Listens on ports that are free, and asks nobody outside of this machine.
fn on_loopback(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line
            .replace("http://10.0.0.", "http://127.0.0.")
            .replace("https://10.0.0.", "https://127.0.0.")
            .replace("redis://10.0.0.", "redis://127.0.0.")
            .replace("rediss://10.0.0.", "rediss://127.0.0.")
            .replace(":26379", ":1")
            .replace(":6379", ":1")
            .replace("http://agent:", "http://127.0.0.1:")
            .replace("jwks_url: https://login.example.com/", "jwks_url: https://127.0.0.1:1/")
            .replace("https://collector.internal:4318/", "https://127.0.0.1:1/")
            .replace("https://login.example.com/token", "https://127.0.0.1:1/token")
            .replace(
                "openIdConnectUrl: https://login.example.com/",
                "openIdConnectUrl: https://127.0.0.1:1/",
            )
            .replace(":9999", ":1")
            .replace(":9998", ":1")
            .replace(":9997", ":1")
            .replace(":9443", ":1");
        lines.push(match line.split_once("address: \"") {
            Some((before, after)) => {
                let (_, behind) = after.split_once('"').unwrap();
                format!("{before}address: \"127.0.0.1:0\"{behind}")
            }
            None => line,
        });
    }
    lines.join("\n")
}

/// The files that an example names.
fn named(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines
        .flat_map(|line| line.split([' ', ',', '[', ']', '{', '}', '"']))
        .filter(|word| !word.contains("://"))
        .filter(|word| {
            let extension = Path::new(word).extension().and_then(|extension| extension.to_str());
            word.starts_with("secrets/") || matches!(extension, Some("crt" | "key" | "pem" | "crl" | "yaml" | "json"))
        })
        .map(str::to_owned)
        .collect()
}

fn write_files(folder: &Path, text: &str) {
    std::fs::create_dir(folder.join("conf.d")).unwrap();
    let authority = Authority::new();
    for name in named(text) {
        let path = folder.join(&name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        let content = match extension {
            "crt" => {
                let (certificate, key) = authority.issue("agents.example.com");
                std::fs::write(folder.join(format!("{stem}.key")), key).unwrap();
                certificate
            }
            // Written with its certificate.
            "key" => continue,
            "pem" if name.starts_with("keys/") => KeyPair::generate().unwrap().serialize_pem(),
            "pem" => authority.issuer.pem(),
            "crl" => authority.revoked(&[1]),
            "json" if name.starts_with("cards/") => agent::CARD.to_owned(),
            "json" => key_set(),
            "yaml" if name.ends_with("revoked.yaml") => "tokens: []\n".to_owned(),
            "yaml" if name.ends_with("keys.yaml") => format!("keys: [ {{ id: a, hash: \"{KEY_HASH}\" }} ]\n"),
            "yaml" => format!("users: [ {{ name: ann, password_hash: \"{}\" }} ]\n", password_hash()),
            _ => format!("{SECRET}\n"),
        };
        std::fs::write(path, content).unwrap();
    }
}

fn key_set() -> String {
    let pair = KeyPair::generate().unwrap();
    let private = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
    let jwk = Jwk::from_encoding_key(&private, jsonwebtoken::Algorithm::ES256).unwrap();
    json!({ "keys": [jwk] }).to_string()
}

/// As cheap as the algorithm allows.
fn password_hash() -> String {
    let cheap = Params::new(8, 1, 1, None).unwrap();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
        .hash_password_customized(b"password", b"0123456789abcdef", Some("argon2id"), None, cheap)
        .unwrap()
        .to_string()
}

fn gateway(command: &str, file: &Path, text: &str) -> Program {
    let mut program = Command::new(env!("CARGO_BIN_EXE_a2a-gateway"));
    program.args([command, "--config"]).arg(file);
    program.env("A2A_GATEWAY__ADMIN__ADDRESS", "127.0.0.1:0");
    if !text.contains("store: memory") && !text.contains("store: redis") {
        program.env("A2A_GATEWAY__STATE__PATH", file.with_file_name("state"));
    }
    if text.contains("\naudit:") {
        program.env("A2A_GATEWAY__AUDIT__FILE", file.with_file_name("audit.log"));
    }
    for name in [
        "MAPS_KEY",
        "MAPS_TOKEN",
        "ARCHIVE_TOKEN",
        "MAIL_PASSWORD",
        "PAGE_TOKEN_KEY",
        "PUSH_KEY",
        "AUDIT_KEY",
        "COLLECTOR_TOKEN",
        "REDIS_PASSWORD",
        "LEDGER_SECRET",
        "INTROSPECTION_SECRET",
        "DECISION_TOKEN",
    ] {
        program.env(name, SECRET);
    }
    Program::start(program)
}

#[tokio::test]
async fn every_example_starts_and_ends() {
    let examples = examples();
    assert!(examples.len() >= 16, "the examples are found");
    // Names `localhost`, at a port where nobody listens.
    let names = NameServer::start(Word::Hosts(vec![(1, 1)])).await;
    for (name, text) in examples {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(&name);
        let text = on_loopback(&text).replace("10.0.0.53:53", &names.address.to_string());
        std::fs::write(&file, &text).unwrap();
        write_files(folder.path(), &text);

        let checked = gateway("check", &file, &text).end().await;
        assert_eq!(checked.code, Some(0), "{name}:\n{}", checked.stderr);

        let mut program = gateway("run", &file, &text);
        let (_, admin) = program.addresses().await;
        assert_eq!(
            run(&["health", "--admin", &admin.to_string()]).await.code,
            Some(0),
            "{name}"
        );
        let shown = get(admin, "/config").await.text();
        assert!(!shown.contains(SECRET), "{name}: {shown}");
        let ended = program.terminate().await;
        assert_eq!(ended.code, Some(0), "{name}:\n{}", ended.stderr);
        assert!(!ended.stderr.contains(SECRET), "{name}:\n{}", ended.stderr);
        if text.contains("format: json") {
            for line in ended.stderr.lines() {
                assert!(serde_json::from_str::<Value>(line).is_ok(), "{name}: no JSON: {line}");
            }
        }
    }
}
