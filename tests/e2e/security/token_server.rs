//! A token server by hand, which can answer whatever a test needs, and issuers of callers' tokens.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use http::Uri;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::harness::agent::Received;
use crate::harness::{Agent, Reply};

/// What it is, and what a server answers.
pub type Case = (&'static str, Box<dyn Fn() -> Reply + Send + Sync>);

/// What a form says, decoded.
pub fn form(request: &Received) -> Vec<(String, String)> {
    let text = String::from_utf8(request.body.clone()).unwrap();
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        let bytes = spaced.as_bytes();
        let mut out = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b'%' {
                out.push(u8::from_str_radix(&spaced[at + 1..at + 3], 16).unwrap());
                at += 3;
            } else {
                out.push(bytes[at]);
                at += 1;
            }
        }
        String::from_utf8(out).unwrap()
    };
    text.split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

pub fn field(request: &Received, name: &str) -> Option<String> {
    let form = form(request);
    let mut values = form.into_iter().filter(|(known, _)| known == name);
    let found = values.next().map(|(_, value)| value);
    assert!(values.next().is_none(), "{name} stands once (RFC 6749 §3.2)");
    found
}

/// The answer of RFC 6749 §5.1.
pub fn token(token: &str, expires_in: u64) -> String {
    json!({ "access_token": token, "token_type": "Bearer", "expires_in": expires_in }).to_string()
}

/// The answer of RFC 6749 §5.2.
pub fn error(status: u16, code: &str) -> Reply {
    let body = json!({ "error": code, "error_description": "never shown: s3cret" }).to_string();
    Reply::Whole(status, "content-type: application/json\r\n", body)
}

/// Gives out `t1`, `t2` and so on, which live so many seconds.
pub async fn counting(expires_in: u64) -> Agent {
    let count = AtomicUsize::new(0);
    Agent::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        Reply::Json(token(&format!("t{number}"), expires_in))
    })
    .await
}

pub fn url(server: &Agent) -> String {
    let url: Uri = format!("http://{}/token", server.address).parse().unwrap();
    url.to_string()
}

pub const ISSUER: &str = "https://login.example.com";

/// Somebody whose tokens the gateway believes.
pub struct Issuer(EncodingKey);

impl Issuer {
    /// The keys are in `keys.json` of the folder.
    pub fn new(folder: &Path) -> Self {
        let pair = KeyPair::generate().unwrap();
        let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap()).unwrap();
        jwk["kid"] = "k".into();
        std::fs::write(folder.join("keys.json"), json!({ "keys": [jwk] }).to_string()).unwrap();
        Self(key)
    }

    pub fn scheme() -> String {
        format!(
            "  token: {{ type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_file: keys.json }}"
        )
    }

    pub fn token(&self, subject: &str, more: Value) -> String {
        let mut claims = json!({ "iss": ISSUER, "aud": "a2a", "sub": subject, "exp": now() + 600 });
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some("k".to_owned());
        jsonwebtoken::encode(&header, &claims, &self.0).unwrap()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tokens of a test are good at the time of the machine, like the gateway"
)]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
