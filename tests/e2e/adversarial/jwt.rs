//! Attacks on tokens, end to end, against a real server that gives out the keys and counts who asks.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use rcgen::KeyPair;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::site::{BOTH, Http, JSON, Setup, Site, good, rpc};
use crate::harness::eventually;

const ISSUER: &str = "https://login.example.com";

struct Rsa {
    private: EncodingKey,
    jwk: Value,
    /// The public key as PEM and as DER: what a confused verifier would take for the secret of an HMAC.
    public_pem: String,
    public_der: Vec<u8>,
}

static RSA: LazyLock<Rsa> = LazyLock::new(|| {
    let pair = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let private = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
    let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&private, Algorithm::RS256).unwrap()).unwrap();
    jwk["kid"] = "rsa".into();
    Rsa {
        private,
        jwk,
        public_pem: pair.public_key_pem(),
        public_der: rcgen::PublicKeyData::subject_public_key_info(&pair),
    }
});

/// Gives out the key, and counts.
struct Issuer {
    address: std::net::SocketAddr,
    fetches: Arc<AtomicUsize>,
    job: JoinHandle<()>,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.job.abort();
    }
}

impl Issuer {
    async fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let fetches = Arc::new(AtomicUsize::new(0));
        let counter = fetches.clone();
        let job = tokio::spawn(async move {
            loop {
                let (mut stream, _) = socket.accept().await.unwrap();
                let mut part = [0; 4096];
                let _head = stream.read(&mut part).await;
                counter.fetch_add(1, Ordering::SeqCst);
                let body = json!({ "keys": [RSA.jwk] }).to_string();
                let text = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _gone = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { address, fetches, job }
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    /// A gateway that has fetched the keys once.
    async fn site(&self) -> Site {
        let schemes = format!(
            "  token: {{ type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [a2a], jwks_url: \"http://{}/keys\" }}",
            self.address
        );
        let setup = Setup {
            schemes: &schemes,
            security: "[ { token: [] } ]",
            ..Setup::default()
        };
        let site = Site::start(setup).await;
        eventually("a good token is taken", || async {
            let answer = site
                .post(Http::One, &[JSON, ("authorization", &bearer(&good_token()))], good())
                .await;
            // Before the first fetch it is 503.
            if answer.status == 200 {
                site.note_passed(1);
            } else {
                assert_eq!(answer.status, 503);
                site.note_refused("authentication_unavailable", 1);
            }
            answer.status == 200
        })
        .await;
        assert_eq!(self.fetches(), 1);
        site
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tokens of a test are good at the time of the machine, like the gateway"
)]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": "a2a", "sub": "ann", "exp": now() + 600 })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header.to_string()),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    )
}

fn signed(header: &Value, claims: &Value) -> String {
    let message = unsigned(header, claims);
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &RSA.private, Algorithm::RS256).unwrap();
    format!("{message}.{signature}")
}

/// HS256 with the public key as its secret (RFC 8725 §2.1).
fn confused(secret: &[u8]) -> String {
    let message = unsigned(&json!({ "alg": "HS256", "typ": "JWT", "kid": "rsa" }), &claims());
    let key = EncodingKey::from_secret(secret);
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
    format!("{message}.{signature}")
}

fn header() -> Value {
    json!({ "alg": "RS256", "typ": "JWT", "kid": "rsa" })
}

fn good_token() -> String {
    signed(&header(), &claims())
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test]
async fn forged_and_misused_tokens_end_in_401_with_a_challenge_and_without_a_fetch() {
    let issuer = Issuer::start().await;
    let site = issuer.site().await;
    let good_token = good_token();
    let (message, signature) = good_token.rsplit_once('.').unwrap();
    let other = EncodingKey::from_rsa_pem(
        KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256)
            .unwrap()
            .serialize_pem()
            .as_bytes(),
    )
    .unwrap();
    let foreign = jsonwebtoken::crypto::sign(message.as_bytes(), &other, Algorithm::RS256).unwrap();
    let alg = |alg: &str| json!({ "alg": alg, "typ": "JWT", "kid": "rsa" });
    let more = |name: &str, value: Value| {
        let mut header = header();
        header[name] = value;
        signed(&header, &claims())
    };
    let root = unsigned(&header(), &with("sub", "root".into()));
    let cases = [
        (
            "expired",
            signed(&header(), &with("exp", (now() - 600).into())),
            "expired",
        ),
        (
            "not yet valid",
            signed(&header(), &with("nbf", (now() + 600).into())),
            "not-yet-valid",
        ),
        ("no expiry", signed(&header(), &without("exp")), "missing-claim"),
        (
            "an expiry that is a text",
            signed(&header(), &with("exp", "never".into())),
            "missing-claim",
        ),
        (
            "another audience",
            signed(&header(), &with("aud", "other".into())),
            "wrong-audience",
        ),
        ("no audience", signed(&header(), &without("aud")), "missing-claim"),
        (
            "another issuer",
            signed(&header(), &with("iss", "https://evil.example".into())),
            "wrong-issuer",
        ),
        ("no subject", signed(&header(), &without("sub")), "missing-claim"),
        (
            "alg none",
            format!("{}.", unsigned(&alg("none"), &claims())),
            "bad-algorithm",
        ),
        (
            "alg None, with the signature",
            format!("{}.{signature}", unsigned(&alg("None"), &claims())),
            "bad-algorithm",
        ),
        (
            "HS256 with the public key as PEM",
            confused(RSA.public_pem.as_bytes()),
            "bad-algorithm",
        ),
        (
            "HS256 with the public key as DER",
            confused(&RSA.public_der),
            "bad-algorithm",
        ),
        (
            "another algorithm of the key's kind",
            format!("{}.{signature}", unsigned(&alg("ES256"), &claims())),
            "bad-algorithm",
        ),
        ("no signature", format!("{message}."), "bad-signature"),
        (
            "the signature of something else",
            format!("{root}.{signature}"),
            "bad-signature",
        ),
        (
            "signed by somebody else",
            format!("{message}.{foreign}"),
            "bad-signature",
        ),
        ("its own key", more("jwk", RSA.jwk.clone()), "forbidden-header"),
        (
            "a place for keys",
            more("jku", format!("http://{}/keys", issuer.address).into()),
            "forbidden-header",
        ),
        ("a critical extension", more("crit", json!(["exp"])), "forbidden-header"),
        (
            "an id token by its type",
            more("typ", "secevent+jwt".into()),
            "wrong-type",
        ),
        ("two parts", message.to_owned(), "malformed"),
        ("four parts", format!("{good_token}.x"), "malformed"),
        ("no token", "x".to_owned(), "malformed"),
        ("9 KiB", "x".repeat(9 * 1024), "too-long"),
    ];
    for http in BOTH {
        for (what, token, detail) in &cases {
            println!("{what}");
            let answer = site
                .post(http, &[JSON, ("authorization", &bearer(token))], good())
                .await;
            site.is_refusal(what, &answer, rpc("unauthenticated", "null"));
            let challenge = answer.header("www-authenticate");
            assert_eq!(
                challenge,
                Some(
                    "Bearer realm=\"a2a-gateway\", error=\"invalid_token\", resource_metadata=\"https://gateway.example/.well-known/oauth-protected-resource/agent\""
                ),
                "{what}"
            );
            assert!(!answer.text().contains(signature), "{what}");
            let record = site.record(answer.header("x-request-id").unwrap()).await;
            assert_eq!(record["detail"], *detail, "{what}: {record}");
        }
        let twice = bearer(&good_token);
        let answer = site
            .post(
                http,
                &[JSON, ("authorization", &twice), ("authorization", &twice)],
                good(),
            )
            .await;
        site.is_refusal("twice", &answer, rpc("unauthenticated", "null"));
        let answer = site
            .request(
                http,
                "POST",
                &format!("/agent?access_token={good_token}"),
                &[JSON],
                good(),
            )
            .await;
        site.is_refusal("in the query", &answer, rpc("unauthenticated", "null"));
        assert_eq!(
            answer.header("www-authenticate"),
            Some(
                "Bearer realm=\"a2a-gateway\", resource_metadata=\"https://gateway.example/.well-known/oauth-protected-resource/agent\""
            ),
            "nothing was shown"
        );
        let answer = site.post(http, &[JSON, ("authorization", &twice)], good()).await;
        site.passed("the good one", &answer);
    }
    assert_eq!(issuer.fetches(), 1, "none of them is a reason to ask the issuer");
    site.done().await;
}

#[tokio::test]
async fn a_flood_of_invented_key_ids_costs_the_issuer_nothing() {
    let issuer = Issuer::start().await;
    let site = issuer.site().await;
    // The first fetch was a moment ago, and one a minute is the most.
    for index in 0..200 {
        let mut header = header();
        header["kid"] = format!("invented-{index}").into();
        let token = format!("{}.AAAA", unsigned(&header, &claims()));
        let http = BOTH[index % 2];
        let answer = site
            .post(http, &[JSON, ("authorization", &bearer(&token))], good())
            .await;
        site.is_refusal("an invented key id", &answer, rpc("unauthenticated", "null"));
    }
    assert_eq!(issuer.fetches(), 1, "at most one fetch a minute");
    let answer = site
        .post(Http::One, &[JSON, ("authorization", &bearer(&good_token()))], good())
        .await;
    site.passed("the good one", &answer);
    site.done().await;
}
