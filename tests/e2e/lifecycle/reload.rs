//! Files that change under a running gateway: what is good is taken, what is not changes nothing and is seen.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use argon2::{Argon2, CustomizedPasswordHasher, Params, Version};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::drain::written;
use crate::adversarial::wire::Wire;
use crate::faults::JSON;
use crate::harness::authority::{Authority, CLIENT, TLS_13};
use crate::harness::{Agent, Gateway, KEY_HASH, agent, call, config_of, eventually, send};

pub(super) const OK: &str = "a2a_gateway_reloads_total{result=\"ok\"}";
pub(super) const REFUSED: &str = "a2a_gateway_reloads_total{result=\"refused\"}";
const INLINE: &str = "keys: [ { id: tester, hash: \"KEY_HASH\" } ]";

/// A gateway whose files are in `folder`; `change` makes the configuration name them.
async fn site(folder: &Path, change: impl FnOnce(String) -> String) -> (Agent, Gateway) {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let shared = "policy: { task_owner: none }";
    let gateway = Gateway::start_in(&change(config_of(&[agent.address], shared, "")), folder).await;
    gateway.ready().await;
    (agent, gateway)
}

/// The configuration with another scheme in place of the key's.
fn with_scheme(yaml: &str, scheme: &str) -> String {
    let lines: Vec<&str> = yaml
        .lines()
        .map(|line| if line.starts_with("  key:") { scheme } else { line })
        .collect();
    lines.join("\n")
}

pub(super) async fn refused(gateway: &Gateway) {
    eventually("the change is refused", || async {
        gateway.metric(REFUSED).await >= 1.0
    })
    .await;
}

/// As tools renew files: written beside, then renamed.
pub(super) fn replace(folder: &Path, name: &str, text: &str) {
    let beside = folder.join(format!("{name}.new"));
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, folder.join(name)).unwrap();
}

// Certificates.

async fn tls(folder: &Path, more: &str) -> (Agent, Gateway) {
    site(folder, |yaml| {
        let tls = format!("tls: {{ certificate: a.example.crt, private_key: a.example.key{more} }}");
        yaml.replace(
            "address: \"127.0.0.1:0\" } ]",
            &format!("address: \"127.0.0.1:0\", {tls} }} ]"),
        )
    })
    .await
}

async fn connect(gateway: &Gateway, client: &TlsConnector) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    client
        .connect(ServerName::try_from("a.example").unwrap(), stream)
        .await
        .unwrap()
}

/// The certificate that a new connection is shown.
async fn shown(gateway: &Gateway, client: &TlsConnector) -> CertificateDer<'static> {
    let stream = connect(gateway, client).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

async fn answers<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(wire: &mut Wire<S>) -> bool {
    wire.send(written(&send("1", "x"))).await;
    wire.try_answer().await.is_some_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_new_connections_and_open_ones_go_on() {
    let authority = Authority::new();
    let (_agent, gateway) = tls(authority.folder.path(), "").await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    let before = shown(&gateway, &client).await;
    let mut open = Wire::over(connect(&gateway, &client).await);
    assert!(answers(&mut open).await);
    authority.write("a.example", &authority.issue("a.example"));
    eventually("the new certificate is shown", || async {
        shown(&gateway, &client).await != before
    })
    .await;
    assert!(answers(&mut open).await, "the open connection goes on");
    assert!(
        answers(&mut Wire::over(connect(&gateway, &client).await)).await,
        "and so do new ones"
    );
}

#[tokio::test]
async fn a_certificate_renewed_behind_a_symbolic_link_is_noticed() {
    let authority = Authority::new();
    let folder = authority.folder.path();
    // As orchestrators mount secrets: files lead through a link to a folder, which is exchanged.
    for version in ["one", "two"] {
        std::fs::create_dir(folder.join(version)).unwrap();
        authority.write(&format!("{version}/a.example"), &authority.issue("a.example"));
    }
    std::os::unix::fs::symlink("one", folder.join("..data")).unwrap();
    for file in ["a.example.crt", "a.example.key"] {
        std::fs::remove_file(folder.join(file)).unwrap();
        std::os::unix::fs::symlink(Path::new("..data").join(file), folder.join(file)).unwrap();
    }
    let (_agent, gateway) = tls(folder, "").await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    let before = shown(&gateway, &client).await;
    std::os::unix::fs::symlink("two", folder.join("..data_tmp")).unwrap();
    std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    eventually("the new certificate is shown", || async {
        shown(&gateway, &client).await != before
    })
    .await;
}

#[tokio::test]
async fn a_broken_certificate_is_refused_and_the_old_one_stays_until_a_good_one_comes() {
    let authority = Authority::new();
    let (_agent, gateway) = tls(authority.folder.path(), "").await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    let before = shown(&gateway, &client).await;
    replace(
        authority.folder.path(),
        "a.example.crt",
        "-----BEGIN CERTIFICATE-----\nMIIB",
    );
    refused(&gateway).await;
    assert_eq!(shown(&gateway, &client).await, before);
    authority.write("a.example", &authority.issue("a.example"));
    eventually("the good one is shown", || async {
        shown(&gateway, &client).await != before
    })
    .await;
}

#[tokio::test]
async fn a_certificate_without_its_key_is_refused() {
    let authority = Authority::new();
    let (_agent, gateway) = tls(authority.folder.path(), "").await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    let before = shown(&gateway, &client).await;
    replace(
        authority.folder.path(),
        "a.example.crt",
        &authority.issue("a.example").0,
    );
    refused(&gateway).await;
    assert_eq!(shown(&gateway, &client).await, before);
    assert_eq!(gateway.metric(OK).await, 0.0);
}

#[tokio::test]
async fn a_new_client_ca_decides_about_new_connections() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (_agent, gateway) = tls(
        authority.folder.path(),
        ", client_certificates: required, client_ca: ca.pem",
    )
    .await;
    let (mine, others) = (
        authority.client(TLS_13, &["http/1.1"], Some(&authority)),
        authority.client(TLS_13, &["http/1.1"], Some(&other)),
    );
    let served = |client: TlsConnector| {
        let gateway = &gateway;
        async move { answers(&mut Wire::over(connect(gateway, &client).await)).await }
    };
    assert!(served(mine.clone()).await && !served(others.clone()).await);
    replace(authority.folder.path(), "ca.pem", &other.issuer.pem());
    eventually("the new CA is trusted", || served(others.clone())).await;
    assert!(!served(mine).await, "the old one is not any more");
}

#[tokio::test]
async fn a_revoked_client_is_kept_out_once_the_list_says_so() {
    let authority = Authority::new();
    std::fs::write(
        authority.folder.path().join("clients.crl"),
        authority.revoked(&[CLIENT + 1]),
    )
    .unwrap();
    let more = ", client_certificates: required, client_ca: ca.pem, client_crls: [ clients.crl ]";
    let (_agent, gateway) = tls(authority.folder.path(), more).await;
    let client = authority.client(TLS_13, &["http/1.1"], Some(&authority));
    let served = || async { answers(&mut Wire::over(connect(&gateway, &client).await)).await };
    assert!(served().await);
    replace(authority.folder.path(), "clients.crl", &authority.revoked(&[CLIENT]));
    eventually("the client is kept out", || async { !served().await }).await;
}

// Keys.

fn keys(keys: &[(&str, &str)]) -> String {
    let mut text = "keys:\n".to_owned();
    for (id, key) in keys {
        let mut hash = String::new();
        for byte in digest(&SHA256, key.as_bytes()).as_ref() {
            write!(hash, "{byte:02x}").unwrap();
        }
        writeln!(text, "  - {{ id: {id}, hash: \"sha256:{hash}\" }}").unwrap();
    }
    text
}

async fn with_keys(listed: &[(&str, &str)]) -> (TempDir, Agent, Gateway) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.yaml"), keys(listed)).unwrap();
    let inline = INLINE.replace("KEY_HASH", KEY_HASH);
    let (agent, gateway) = site(folder.path(), |yaml| yaml.replace(&inline, "keys_file: keys.yaml")).await;
    (folder, agent, gateway)
}

/// The status of a call with this field.
async fn status(gateway: &Gateway, name: &str, value: &str) -> u16 {
    call(
        gateway.address,
        "POST",
        "/agent",
        &[JSON, (name, value)],
        &send("1", "x"),
    )
    .await
    .status
}

#[tokio::test]
async fn a_new_key_is_good_and_a_removed_one_is_not() {
    let (folder, _agent, gateway) = with_keys(&[("a", "stays"), ("b", "goes")]).await;
    let admitted = async |key: &str| status(&gateway, "x-api-key", key).await;
    assert_eq!(
        (admitted("stays").await, admitted("goes").await, admitted("comes").await),
        (200, 200, 401)
    );
    replace(folder.path(), "keys.yaml", &keys(&[("a", "stays"), ("c", "comes")]));
    eventually("the new key is good", || async { admitted("comes").await == 200 }).await;
    assert_eq!((admitted("stays").await, admitted("goes").await), (200, 401));
    eventually("it is counted once", || async { gateway.metric(OK).await == 1.0 }).await;
    assert_eq!(gateway.metric(REFUSED).await, 0.0);
}

#[tokio::test]
async fn a_broken_key_file_keeps_the_old_keys() {
    for broken in ["keys: [ { id: a, hash: plain-text } ]\n", "keys: [\n", ""] {
        let (folder, _agent, gateway) = with_keys(&[("a", "old")]).await;
        replace(folder.path(), "keys.yaml", broken);
        refused(&gateway).await;
        assert_eq!(status(&gateway, "x-api-key", "old").await, 200, "{broken:?}");
        assert_eq!(status(&gateway, "x-api-key", "new").await, 401, "{broken:?}");
        replace(folder.path(), "keys.yaml", &keys(&[("a", "new")]));
        eventually("a good file is taken", || async {
            status(&gateway, "x-api-key", "new").await == 200
        })
        .await;
    }
}

#[tokio::test]
async fn a_removed_key_file_keeps_the_old_keys() {
    let (folder, _agent, gateway) = with_keys(&[("a", "old")]).await;
    std::fs::remove_file(folder.path().join("keys.yaml")).unwrap();
    refused(&gateway).await;
    assert_eq!(status(&gateway, "x-api-key", "old").await, 200);
}

#[tokio::test]
async fn a_change_between_the_first_reading_and_the_start_is_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.yaml"), keys(&[("a", "old")])).unwrap();
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let inline = INLINE.replace("KEY_HASH", KEY_HASH);
    let yaml = config_of(&[agent.address], "", "").replace(&inline, "keys_file: keys.yaml");
    let prepared = Gateway::prepare(&yaml, folder.path());
    replace(folder.path(), "keys.yaml", &keys(&[("a", "new")]));
    let gateway = prepared.start().await;
    eventually("the new key is good", || async {
        status(&gateway, "x-api-key", "new").await == 200
    })
    .await;
}

// Passwords.

/// As cheap as the algorithm allows.
pub fn users(users: &[(&str, &str)]) -> String {
    let params = Params::new(8, 1, 1, None).unwrap();
    let mut text = "users:\n".to_owned();
    for (name, password) in users {
        let hash = Argon2::new(argon2::Algorithm::Argon2id, Version::V0x13, Params::default())
            .hash_password_customized(
                password.as_bytes(),
                b"0123456789abcdef",
                Some("argon2id"),
                None,
                params.clone(),
            )
            .unwrap();
        writeln!(text, "  - {{ name: {name}, password_hash: \"{hash}\" }}").unwrap();
    }
    text
}

#[tokio::test]
async fn a_new_password_is_good_an_old_one_is_not_and_a_broken_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("users.yaml"),
        users(&[("ann", "old"), ("bob", "stays")]),
    )
    .unwrap();
    let (_agent, gateway) = site(folder.path(), |yaml| {
        let scheme = "  key: { type: http, scheme: basic, users_file: users.yaml }";
        with_scheme(&yaml, scheme)
    })
    .await;
    let admitted = async |credential: &str| {
        let coded = STANDARD.encode(credential);
        status(&gateway, "authorization", &format!("Basic {coded}")).await
    };
    // Asked twice: what is remembered of a check must not outlive the file either.
    for _ in 0..2 {
        assert_eq!((admitted("ann:old").await, admitted("ann:new").await), (200, 401));
    }
    replace(
        folder.path(),
        "users.yaml",
        "users:\n  - { name: ann, password_hash: new }\n",
    );
    refused(&gateway).await;
    assert_eq!((admitted("ann:old").await, admitted("ann:new").await), (200, 401));
    replace(folder.path(), "users.yaml", &users(&[("ann", "new"), ("bob", "stays")]));
    eventually("the new password is good", || async {
        admitted("ann:new").await == 200
    })
    .await;
    assert_eq!((admitted("ann:old").await, admitted("bob:stays").await), (401, 200));
    replace(folder.path(), "users.yaml", &users(&[("bob", "stays")]));
    eventually("a removed user is refused", || async {
        admitted("ann:new").await == 401
    })
    .await;
    assert_eq!(admitted("bob:stays").await, 200);
}

// Tokens.

/// A key pair of an issuer.
struct Issuer {
    private: EncodingKey,
    jwk: Value,
}

impl Issuer {
    fn new(name: &str) -> Self {
        let pair = KeyPair::generate().unwrap();
        let private = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&private, Algorithm::ES256).unwrap()).unwrap();
        jwk["kid"] = name.into();
        Self { private, jwk }
    }

    fn keys(&self) -> String {
        json!({ "keys": [self.jwk] }).to_string()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tokens of a test are good at the time of the machine, like the gateway"
    )]
    fn bearer(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({ "iss": "https://ci.example.com", "aud": "a2a", "sub": "ann", "exp": now + 600 });
        let mut header = Header::new(Algorithm::ES256);
        header.kid = self.jwk["kid"].as_str().map(str::to_owned);
        let token = jsonwebtoken::encode(&header, &claims, &self.private).unwrap();
        format!("Bearer {token}")
    }
}

#[tokio::test]
async fn a_new_key_set_decides_about_tokens_and_a_broken_one_does_not() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), old.keys()).unwrap();
    let (_agent, gateway) = site(folder.path(), |yaml| {
        let scheme = "  key: { type: http, scheme: bearer, issuer: \"https://ci.example.com\", audience: [ a2a ], \
                      jwks_file: keys.json }";
        with_scheme(&yaml, scheme)
    })
    .await;
    let admitted = async |issuer: &Issuer| status(&gateway, "authorization", &issuer.bearer()).await;
    assert_eq!((admitted(&old).await, admitted(&new).await), (200, 401));
    replace(folder.path(), "keys.json", "{\"keys\":[{\"kty\":");
    refused(&gateway).await;
    assert_eq!((admitted(&old).await, admitted(&new).await), (200, 401));
    replace(folder.path(), "keys.json", &new.keys());
    eventually("the new key is good", || async { admitted(&new).await == 200 }).await;
    assert_eq!(admitted(&old).await, 401);
}

#[tokio::test]
async fn a_bad_file_keeps_every_other_from_being_taken_until_it_is_good() {
    let authority = Authority::new();
    let folder = authority.folder.path();
    std::fs::write(folder.join("keys.yaml"), keys(&[("a", "old")])).unwrap();
    let inline = INLINE.replace("KEY_HASH", KEY_HASH);
    let (_agent, gateway) = site(folder, |yaml| {
        let tls = "address: \"127.0.0.1:0\", tls: { certificate: a.example.crt, private_key: a.example.key } } ]";
        yaml.replace(&inline, "keys_file: keys.yaml")
            .replace("address: \"127.0.0.1:0\" } ]", tls)
    })
    .await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    let before = shown(&gateway, &client).await;
    replace(folder, "keys.yaml", "keys: [\n");
    authority.write("a.example", &authority.issue("a.example"));
    refused(&gateway).await;
    assert_eq!(shown(&gateway, &client).await, before);
    let call = |key: &str| written(&send("1", "x")).replace(crate::harness::KEY, key);
    let mut wire = Wire::over(connect(&gateway, &client).await);
    wire.send(call("old")).await;
    assert_eq!(wire.answer().await.status, 200, "the old key is good");
    replace(folder, "keys.yaml", &keys(&[("a", "new")]));
    eventually("the new certificate is shown", || async {
        shown(&gateway, &client).await != before
    })
    .await;
    let mut wire = Wire::over(connect(&gateway, &client).await);
    wire.send(call("new")).await;
    assert_eq!(wire.answer().await.status, 200, "and the new key is good");
}
