//! Good tokens of every algorithm, and the attacks on verifiers that are known.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};

use super::*;
use crate::config::{JwksSource, SenderConstraint, TokenProfile, TokenProof, Tokens};

pub(super) const ISSUER: &str = "https://login.example.com";

/// A private key and its public half as a JWK.
pub(super) struct Key {
    private: EncodingKey,
    pub(super) jwk: Value,
}

impl Key {
    fn rsa() -> Self {
        let pair = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        let private = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&private, Algorithm::RS256).unwrap()).unwrap();
        jwk.as_object_mut().unwrap().remove("alg");
        Self { private, jwk }
    }

    pub(super) fn ec() -> Self {
        Self::curve(&rcgen::PKCS_ECDSA_P256_SHA256, "P-256", 32)
    }

    fn curve(algorithm: &'static rcgen::SignatureAlgorithm, name: &str, size: usize) -> Self {
        let pair = KeyPair::generate_for(algorithm).unwrap();
        let point = pair.der_bytes();
        let (x, y) = (&point[1..=size], &point[1 + size..]);
        Self {
            private: EncodingKey::from_ec_der(&pair.serialize_der()),
            jwk: json!({
                "kty": "EC", "crv": name, "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
            }),
        }
    }

    fn ed() -> Self {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        Self {
            private: EncodingKey::from_ed_der(&pair.serialize_der()),
            jwk: json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(pair.der_bytes())}),
        }
    }

    pub(super) fn public(&self, more: Value) -> Value {
        let mut jwk = self.jwk.clone();
        for (name, value) in more.as_object().unwrap() {
            jwk[name] = value.clone();
        }
        jwk
    }

    /// A token with exactly this header and these claims, whatever they say.
    pub(super) fn sign_as(&self, algorithm: Algorithm, header: &str, claims: &str) -> String {
        let message = unsigned(header, claims);
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.private, algorithm).unwrap();
        format!("{message}.{signature}")
    }
}

fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

static RSA: LazyLock<Key> = LazyLock::new(Key::rsa);
static EC: LazyLock<Key> = LazyLock::new(Key::ec);
static EC384: LazyLock<Key> = LazyLock::new(|| Key::curve(&rcgen::PKCS_ECDSA_P384_SHA384, "P-384", 48));
static ED: LazyLock<Key> = LazyLock::new(Key::ed);

fn keys() -> Value {
    json!({"keys": [
        RSA.public(json!({"kid": "rsa"})),
        EC.public(json!({"kid": "ec", "use": "sig"})),
        EC384.public(json!({"kid": "ec384", "key_ops": ["verify"]})),
        ED.public(json!({"kid": "ed", "alg": "EdDSA"})),
    ]})
}

pub(super) fn jwt_scheme(issuer: &str, audience: &[&str], keys: JwksSource) -> Scheme {
    scheme(SchemeKind::Bearer {
        bearer_format: None,
        tokens: Tokens {
            issuer: issuer.to_owned(),
            audience: audience.iter().map(|&text| text.to_owned()).collect(),
            proof: TokenProof::Signature {
                keys,
                profile: TokenProfile::Jwt,
            },
            sender: SenderConstraint::Optional,
            dpop_lifetime: Duration::from_secs(60),
            leeway: Duration::from_secs(60),
            principal_claim: "sub".to_owned(),
            claims: vec!["tenant".to_owned(), "groups".to_owned()],
        },
    })
}

pub(super) fn issuer_scheme(issuer: &str, audience: &[&str]) -> (NamedTempFile, Scheme) {
    let file = file(&keys().to_string());
    let source = JwksSource::File(file.path().to_owned());
    (file, jwt_scheme(issuer, audience, source))
}

pub(super) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "a2a", "sub": "ann", "exp": NOW + 600})
}

/// The usual claims with some replaced; `null` takes one away.
fn claims_but(more: Value) -> String {
    let mut claims = claims();
    for (name, value) in more.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims.to_string()
}

const HEADER: &str = r#"{"alg":"ES256","kid":"ec"}"#;

fn token(claims: &str) -> String {
    EC.sign_as(Algorithm::ES256, HEADER, claims)
}

pub(super) fn good_token() -> String {
    token(&claims().to_string())
}

/// One whose claims are the usual ones with some replaced.
pub(super) fn token_with(more: &Value) -> String {
    token(&claims_but(more.clone()))
}

struct Fixture {
    verifiers: Verifiers,
    time: Time,
    file: NamedTempFile,
}

fn fixture() -> Fixture {
    let time = Time::new();
    let (file, scheme) = issuer_scheme(ISSUER, &["a2a", "other"]);
    Fixture {
        verifiers: try_build(vec![("j", scheme)], &time).unwrap(),
        time,
        file,
    }
}

impl Fixture {
    async fn show(&self, token: &str) -> String {
        let parts = with_authorization(&format!("Bearer {token}"));
        one(&self.verifiers, "j", &parts).await
    }
}

const ANN: &str = "jwt:https://login.example.com#ann";

async fn check_claims(more: Value, expected: &str) {
    let fixture = fixture();
    let claims = claims_but(more);
    assert_eq!(fixture.show(&token(&claims)).await, expected, "{claims}");
}

async fn check_header(header: &str, expected: &str) {
    let fixture = fixture();
    let token = EC.sign_as(Algorithm::ES256, header, &claims().to_string());
    assert_eq!(fixture.show(&token).await, expected, "{header}");
}

#[tokio::test]
async fn every_supported_algorithm_is_accepted_with_its_key() {
    let fixture = fixture();
    for (key, kid, algorithm) in [
        (&RSA, "rsa", Algorithm::RS256),
        (&RSA, "rsa", Algorithm::RS384),
        (&RSA, "rsa", Algorithm::RS512),
        (&RSA, "rsa", Algorithm::PS256),
        (&RSA, "rsa", Algorithm::PS384),
        (&RSA, "rsa", Algorithm::PS512),
        (&EC, "ec", Algorithm::ES256),
        (&EC384, "ec384", Algorithm::ES384),
        (&ED, "ed", Algorithm::EdDSA),
    ] {
        let header = json!({"alg": algorithm, "kid": kid}).to_string();
        let token = key.sign_as(algorithm, &header, &claims().to_string());
        assert_eq!(fixture.show(&token).await, ANN, "{algorithm:?}");
    }
}

#[tokio::test]
async fn a_token_without_a_signature_is_refused() {
    let fixture = fixture();
    for algorithm in ["none", "None", "NONE", ""] {
        let header = json!({"alg": algorithm, "kid": "ec"}).to_string();
        let message = unsigned(&header, &claims().to_string());
        assert_eq!(fixture.show(&format!("{message}.")).await, "! bad-algorithm");
    }
    let message = unsigned(HEADER, &claims().to_string());
    assert_eq!(fixture.show(&format!("{message}.")).await, "! bad-signature");
    assert_eq!(fixture.show(&message).await, "! malformed");
}

#[tokio::test]
async fn a_public_key_is_no_shared_secret() {
    let fixture = fixture();
    let modulus = URL_SAFE_NO_PAD.decode(RSA.jwk["n"].as_str().unwrap()).unwrap();
    for secret in [modulus.as_slice(), RSA.jwk["n"].as_str().unwrap().as_bytes()] {
        let message = unsigned(r#"{"alg":"HS256","kid":"rsa"}"#, &claims().to_string());
        let key = EncodingKey::from_secret(secret);
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
        assert_eq!(fixture.show(&format!("{message}.{signature}")).await, "! bad-algorithm");
    }
}

#[tokio::test]
async fn the_key_decides_the_algorithm() {
    let fixture = fixture();
    for (header, expected) in [
        (r#"{"alg":"ES256","kid":"rsa"}"#, "! bad-algorithm"),
        (r#"{"alg":"ES256","kid":"ec384"}"#, "! bad-algorithm"),
        (r#"{"alg":"RS256","kid":"ec"}"#, "! bad-algorithm"),
        (r#"{"alg":"ES512","kid":"ec"}"#, "! bad-algorithm"),
        (r#"{"alg":"ES256","kid":"other"}"#, "! unknown-key-id"),
        (r#"{"alg":"ES256","kid":""}"#, "! unknown-key-id"),
        (r#"{"alg":"ES256"}"#, ANN),
        (r#"{"alg":"ES256","kid":null}"#, ANN),
    ] {
        let token = EC.sign_as(Algorithm::ES256, header, &claims().to_string());
        assert_eq!(fixture.show(&token).await, expected, "{header}");
    }
    let foreign = Key::ec().sign_as(Algorithm::ES256, HEADER, &claims().to_string());
    assert_eq!(fixture.show(&foreign).await, "! bad-signature");
}

#[tokio::test]
async fn a_missing_key_id_is_allowed_only_if_one_key_fits() {
    let time = Time::new();
    let two = json!({"keys": [
        EC.public(json!({"kid": "a"})), Key::ec().public(json!({"kid": "b"})),
    ]});
    let file = file(&two.to_string());
    let scheme = jwt_scheme(ISSUER, &["a2a"], JwksSource::File(file.path().to_owned()));
    let verifiers = try_build(vec![("j", scheme)], &time).unwrap();
    let token = EC.sign_as(Algorithm::ES256, r#"{"alg":"ES256"}"#, &claims().to_string());
    let parts = with_authorization(&format!("Bearer {token}"));
    assert_eq!(one(&verifiers, "j", &parts).await, "! unknown-key-id");
}

#[tokio::test]
async fn a_token_cannot_bring_its_key_or_extensions() {
    let own = json!({"alg": "ES256", "jwk": EC.jwk}).to_string();
    check_header(&own, "! forbidden-header").await;
    for header in [
        r#"{"alg":"ES256","kid":"ec","jku":"https://evil.example/keys"}"#,
        r#"{"alg":"ES256","kid":"ec","x5u":"https://evil.example/cert"}"#,
        r#"{"alg":"ES256","kid":"ec","x5c":["MIIB"]}"#,
        r#"{"alg":"ES256","kid":"ec","crit":["b64"],"b64":false}"#,
        r#"{"alg":"ES256","kid":"ec","crit":[]}"#,
        r#"{"alg":"ES256","kid":"ec","jwk":null}"#,
    ] {
        check_header(header, "! forbidden-header").await;
    }
    check_header(r#"{"alg":"ES256","kid":"ec","x5t":"abc","zzz":1}"#, ANN).await;
}

#[tokio::test]
async fn the_type_must_be_an_access_token() {
    for (kind, expected) in [
        ("JWT", ANN),
        ("jwt", ANN),
        ("at+jwt", ANN),
        ("application/at+jwt", ANN),
        ("", "! wrong-type"),
        ("logout+jwt", "! wrong-type"),
        ("dpop+jwt", "! wrong-type"),
        ("id_token", "! wrong-type"),
    ] {
        let header = json!({"alg": "ES256", "kid": "ec", "typ": kind}).to_string();
        check_header(&header, expected).await;
    }
}

#[tokio::test]
async fn the_issuer_must_be_ours() {
    check_claims(json!({"iss": "https://evil.example"}), "! wrong-issuer").await;
    check_claims(json!({"iss": format!("{ISSUER}/")}), "! wrong-issuer").await;
    check_claims(json!({"iss": null}), "! missing-claim").await;
    check_claims(json!({"iss": [ISSUER]}), "! malformed").await;
    check_claims(json!({"iss": [ISSUER, "https://evil.example"]}), "! malformed").await;
    check_claims(json!({"iss": 1}), "! malformed").await;
}

#[tokio::test]
async fn the_audience_must_name_us() {
    check_claims(json!({"aud": "other"}), ANN).await;
    check_claims(json!({"aud": ["x", "a2a"]}), ANN).await;
    check_claims(json!({"aud": "x"}), "! wrong-audience").await;
    check_claims(json!({"aud": ["x", "y"]}), "! wrong-audience").await;
    check_claims(json!({"aud": []}), "! wrong-audience").await;
    check_claims(json!({"aud": ""}), "! wrong-audience").await;
    check_claims(json!({"aud": "A2A"}), "! wrong-audience").await;
    check_claims(json!({"aud": null}), "! missing-claim").await;
    // The library counts a malformed claim as absent.
    check_claims(json!({"aud": 1}), "! missing-claim").await;
    check_claims(json!({"aud": {"a2a": 1}}), "! missing-claim").await;
    check_claims(json!({"aud": ["a2a", 1]}), "! missing-claim").await;
}

#[tokio::test]
async fn times_are_checked_to_the_second() {
    check_claims(json!({"exp": null}), "! missing-claim").await;
    check_claims(json!({"exp": "9999999999"}), "! missing-claim").await;
    check_claims(json!({"exp": -1}), "! missing-claim").await;
    check_claims(json!({"exp": NOW - 59}), ANN).await;
    check_claims(json!({"exp": NOW - 60}), "! expired").await;
    check_claims(json!({"exp": NOW as f64 - 59.5}), "! expired").await;
    check_claims(json!({"exp": u64::MAX}), ANN).await;
    check_claims(json!({"exp": 1e300}), "! missing-claim").await;
    check_claims(json!({"nbf": NOW + 60}), ANN).await;
    check_claims(json!({"nbf": NOW + 61}), "! not-yet-valid").await;
    check_claims(json!({"nbf": "0"}), "! malformed").await;
    check_claims(json!({"nbf": -1}), "! malformed").await;
    check_claims(json!({"iat": NOW + 60}), ANN).await;
    check_claims(json!({"iat": NOW + 61}), "! not-yet-valid").await;
    check_claims(json!({"iat": "0"}), "! malformed").await;
}

#[tokio::test]
async fn the_principal_is_a_name() {
    check_claims(json!({"sub": null}), "! missing-claim").await;
    check_claims(json!({"sub": ""}), "! malformed").await;
    check_claims(json!({"sub": 7}), "! malformed").await;
    check_claims(json!({"sub": ["ann"]}), "! malformed").await;
    check_claims(
        json!({"sub": "ann+key:bob \n"}),
        "jwt:https://login.example.com#ann%2Bkey:bob%20%0A",
    )
    .await;
    let long = "x".repeat(255);
    check_claims(json!({"sub": long}), &format!("jwt:{ISSUER}#{long}")).await;
    check_claims(json!({"sub": "x".repeat(256)}), "! too-long").await;
}

#[tokio::test]
async fn scopes_come_from_scope_or_scp() {
    let fixture = fixture();
    for (more, expected) in [
        (json!({}), "! missing-scope"),
        (json!({"scope": "read"}), "! missing-scope"),
        (json!({"scope": "read  write x"}), ANN),
        (json!({"scp": "read write"}), ANN),
        (json!({"scp": ["read", "write"]}), ANN),
        (json!({"scope": "readwrite"}), "! missing-scope"),
        (json!({"scope": "", "scp": ["read", "write"]}), "! missing-scope"),
        (json!({"scope": 1}), "! malformed"),
        (json!({"scp": [1]}), "! malformed"),
    ] {
        let token = token(&claims_but(more.clone()));
        let parts = with_authorization(&format!("Bearer {token}"));
        let found = one(&fixture.verifiers, "j:read,write", &parts).await;
        assert_eq!(found, expected, "{more}");
        let again = one(&fixture.verifiers, "j:read,write", &parts).await;
        assert_eq!(again, expected, "{more}, remembered");
    }
}

#[tokio::test]
async fn claims_that_a_policy_asks_for_become_attributes() {
    let fixture = fixture();
    let requirement = fixture.verifiers.resolve(&security("j"), &Resource::default()).unwrap();
    let long = "x".repeat(256);
    for (more, expected) in [
        (json!({}), vec![]),
        (json!({"tenant": "acme", "team": "red"}), vec!["tenant=acme"]),
        (json!({"groups": ["ops", "dev"]}), vec!["groups=ops", "groups=dev"]),
        // Neither a text nor a list of texts is no attribute; nor is what is too long to be one.
        (json!({"tenant": 7, "groups": ["ops", 1]}), vec![]),
        (json!({"tenant": "", "groups": [long, "ops"]}), vec!["groups=ops"]),
        (json!({"tenant": "a b+c=d"}), vec!["tenant=a%20b%2Bc=d"]),
    ] {
        let parts = with_authorization(&format!("Bearer {}", token(&claims_but(more.clone()))));
        let peer = peer();
        let principal = identify(&requirement, &peer, peer.address.ip(), &parts).await.unwrap();
        let found: Vec<&str> = principal.attributes.iter().map(|text| &**text).collect();
        assert_eq!(found, expected, "{more}");
    }
}

#[tokio::test]
async fn what_is_not_a_token_is_refused() {
    let fixture = fixture();
    let good = good_token();
    let (header, rest) = good.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let twice = claims().to_string().replacen('{', "{\"sub\":\"bob\",", 1);
    for (token, expected) in [
        (String::new(), "! malformed"),
        ("x".to_owned(), "! malformed"),
        ("..".to_owned(), "! malformed"),
        (format!("{good}.x"), "! malformed"),
        (format!("{good}="), "! malformed"),
        (format!("{good} x"), "! malformed"),
        (format!("{}.{payload}.{signature}", encode("[]")), "! malformed"),
        (format!("{}.{payload}.{signature}", encode("{}")), "! malformed"),
        (format!("{header}.{}.{signature}", encode("null")), "! malformed"),
        (format!("{header}.{}.{signature}", encode("{")), "! malformed"),
        (format!("{header}.{}.{signature}", encode(&twice)), "! malformed"),
        (
            format!(
                "{}.{payload}.{signature}",
                encode(r#"{"alg":"none","alg":"ES256","kid":"ec"}"#)
            ),
            "! malformed",
        ),
        (
            format!("{header}.{payload}.{}", signature.get(1..).unwrap()),
            "! malformed",
        ),
        (format!("{header}.{payload}.{}", encode("x")), "! bad-signature"),
        (
            format!("{header}.{}.{signature}", encode(&claims_but(json!({"sub": "bob"})))),
            "! bad-signature",
        ),
    ] {
        assert_eq!(fixture.show(&token).await, expected, "{token}");
    }
    assert_eq!(fixture.show(&token(&twice)).await, "! malformed");
}

#[tokio::test]
async fn a_token_is_bounded_before_it_is_read() {
    let fixture = fixture();
    let sized = |size: usize| {
        let empty = token(&claims_but(json!({"pad": ""}))).len();
        // Four characters for three bytes.
        let mut pad = (size - empty) * 3 / 4;
        loop {
            let token = token(&claims_but(json!({"pad": "x".repeat(pad)})));
            if token.len() >= size {
                return token;
            }
            pad += 1;
        }
    };
    let largest = super::super::token::MAX_TOKEN;
    let at_bound = sized(largest - 1);
    assert!(at_bound.len() <= largest);
    assert_eq!(fixture.show(&at_bound).await, ANN);
    let past = sized(largest + 1);
    assert_eq!(fixture.show(&past).await, "! too-long");
    assert_eq!(fixture.show(&"x".repeat(largest)).await, "! malformed");
    assert_eq!(fixture.show(&"x".repeat(largest + 1)).await, "! too-long");
}

#[tokio::test]
async fn the_field_is_read_strictly() {
    let fixture = fixture();
    let good = good_token();
    let check = async |parts: request::Parts, expected: &str| {
        assert_eq!(one(&fixture.verifiers, "j", &parts).await, expected, "{parts:?}");
    };
    check(with_authorization(&format!("bEARER   {good}")), ANN).await;
    check(with_authorization("Bearer"), "! malformed").await;
    check(with_authorization(&good), "! missing").await;
    check(with_authorization(&format!("Basic {good}")), "! missing").await;
    check(with_authorization(&format!("Bearer {good}, Bearer x")), "! malformed").await;
    let field = format!("Bearer {good}");
    let field = ("authorization", field.as_str());
    check(head("/", &[field, field]), "! ambiguous").await;
    check(head("/", &[field, ("authorization", "Basic x")]), "! ambiguous").await;
    check(head("/", &[]), "! missing").await;
    check(head(&format!("/?access_token={good}"), &[]), "! missing").await;
}

#[tokio::test]
async fn a_verified_token_is_remembered_until_it_expires() {
    let fixture = fixture();
    let token = token(&claims_but(json!({"exp": NOW + 10})));
    assert_eq!(fixture.show(&token).await, ANN);
    fixture.time.set(NOW + 69);
    assert_eq!(fixture.show(&token).await, ANN, "within the leeway");
    fixture.time.set(NOW + 70);
    assert_eq!(fixture.show(&token).await, "! expired");
}

#[tokio::test]
async fn a_remembered_token_is_not_checked_again() {
    let fixture = fixture();
    let token = token(&claims_but(json!({"nbf": NOW})));
    fixture.time.set(NOW - 1000);
    assert_eq!(fixture.show(&token).await, "! not-yet-valid");
    fixture.time.set(NOW);
    assert_eq!(fixture.show(&token).await, ANN);
    // Only a check that is not made misses that the clock went back.
    fixture.time.set(NOW - 1000);
    assert_eq!(fixture.show(&token).await, ANN);
}

#[tokio::test]
async fn a_verified_token_is_forgotten_when_the_keys_change() {
    let mut fixture = fixture();
    let token = good_token();
    assert_eq!(fixture.show(&token).await, ANN);
    let others = json!({"keys": [RSA.public(json!({"kid": "rsa"}))]});
    rewrite(fixture.file.path(), &others.to_string());
    assert_eq!(reload(&mut fixture.verifiers), Ok(vec!["j".to_owned()]));
    assert_eq!(fixture.show(&token).await, "! unknown-key-id");
    rewrite(fixture.file.path(), "{\"keys\": []}");
    assert!(reload(&mut fixture.verifiers).is_err());
    rewrite(fixture.file.path(), &keys().to_string());
    assert_eq!(reload(&mut fixture.verifiers), Ok(vec!["j".to_owned()]));
    assert_eq!(fixture.show(&token).await, ANN);
}

#[tokio::test]
async fn two_issuers_each_know_their_own() {
    let (_a, ours) = issuer_scheme(ISSUER, &["a2a"]);
    let (_b, theirs) = issuer_scheme("https://partner.example", &["a2a"]);
    let verifiers = build(vec![("a", ours), ("b", theirs)]);
    let show = async |more: Value| {
        let token = token(&claims_but(more));
        let parts = with_authorization(&format!("Bearer {token}"));
        one(&verifiers, "a | b", &parts).await
    };
    assert_eq!(show(json!({})).await, ANN);
    let theirs = json!({"iss": "https://partner.example"});
    assert_eq!(show(theirs).await, "jwt:https://partner.example#ann");
    let expired = json!({"iss": "https://partner.example", "exp": 1});
    assert_eq!(show(expired).await, "! expired");
    assert_eq!(show(json!({"exp": 1})).await, "! expired");
    assert_eq!(show(json!({"iss": "x"})).await, "! wrong-issuer");
}

#[test]
fn a_key_set_without_a_usable_key_is_refused() {
    let check = |keys: Value, expected: Option<&str>| {
        let text = keys.to_string();
        let file = file(&text);
        let scheme = jwt_scheme(ISSUER, &["a2a"], JwksSource::File(file.path().to_owned()));
        let built = try_build(vec![("j", scheme)], &Time::new()).map(|_| ());
        match (built, expected) {
            (Ok(()), None) => {}
            (Err(problems), Some(expected)) => {
                assert_eq!(problems[0].key, "security_schemes.j.jwks_file");
                assert!(problems[0].cause.contains(expected), "{text}: {problems:?}");
            }
            (built, expected) => panic!("{text}: {built:?}, expected {expected:?}"),
        }
    };
    let one = |key: Value| json!({"keys": [key]});
    let unusable = Some("no key that can check");
    check(one(EC.jwk.clone()), None);
    check(one(json!({"kty": "oct", "k": "c2VjcmV0"})), unusable);
    check(one(json!({"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"})), unusable);
    check(one(EC.public(json!({"use": "enc"}))), unusable);
    check(one(EC.public(json!({"key_ops": ["sign"]}))), unusable);
    check(one(EC.public(json!({"alg": "ES384"}))), unusable);
    check(one(EC.public(json!({"alg": "HS256"}))), unusable);
    check(one(EC.public(json!({"crv": "secp256k1"}))), unusable);
    check(one(EC.public(json!({"x": "AAAA"}))), unusable);
    check(one(RSA.public(json!({"alg": "RSA-OAEP"}))), unusable);
    check(
        one(RSA.public(json!({"n": URL_SAFE_NO_PAD.encode([255; 128])}))),
        unusable,
    );
    check(one(ED.public(json!({"crv": "X25519"}))), unusable);
    check(one(ED.public(json!({"alg": "Ed25519"}))), None);
    check(one(json!(7)), unusable);
    check(json!({"keys": []}), unusable);
    check(json!({"keys": {}}), Some("not a JSON Web Key Set"));
    check(json!([]), Some("not a JSON Web Key Set"));
    let mut many = vec![json!({"kty": "x"}); 99];
    many.push(EC.jwk.clone());
    check(json!({"keys": many}), None);
    many.push(EC.jwk.clone());
    check(json!({"keys": many}), Some("101 keys"));
}

#[tokio::test]
async fn an_alg_in_the_key_narrows_it() {
    let keys = json!({"keys": [RSA.public(json!({"kid": "rsa", "alg": "PS256"}))]});
    let file = file(&keys.to_string());
    let scheme = jwt_scheme(ISSUER, &["a2a"], JwksSource::File(file.path().to_owned()));
    let verifiers = build(vec![("j", scheme)]);
    for (algorithm, good) in [(Algorithm::PS256, true), (Algorithm::RS256, false)] {
        let header = json!({"alg": algorithm, "kid": "rsa"}).to_string();
        let token = RSA.sign_as(algorithm, &header, &claims_but(json!({"exp": u64::MAX})));
        let parts = with_authorization(&format!("Bearer {token}"));
        let expected = if good { ANN } else { "! bad-algorithm" };
        assert_eq!(one(&verifiers, "j", &parts).await, expected);
    }
}

#[test]
fn a_configuration_that_would_accept_too_much_is_refused() {
    let check = |issuer: &str, audience: &[&str], key: &str| {
        let (_file, scheme) = issuer_scheme(issuer, audience);
        let problems = try_build(vec![("j", scheme)], &Time::new()).map(|_| ()).unwrap_err();
        assert_eq!(problems[0].key, format!("security_schemes.j.{key}"));
    };
    check("", &["a2a"], "issuer");
    check("https://a.example#b", &["a2a"], "issuer");
    check(ISSUER, &[], "audience");
    check(ISSUER, &[""], "audience");
}
