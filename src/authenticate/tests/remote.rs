//! Key sets at a URL, against a real server on the loopback. Durations are short instead of paused.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::Algorithm;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::jwt::{ISSUER, Key, claims, jwt_scheme};
use super::*;
use crate::config::{FetchedKeys, JwksSource, KeysPlace};
use crate::drain::Drain;

const LONG: Duration = Duration::from_secs(3600);

/// Serves a key set that the test changes, and counts who asks.
pub(super) struct Issuer {
    pub(super) address: SocketAddr,
    fetches: Arc<AtomicUsize>,
    answer: Arc<Mutex<(StatusCode, String)>>,
    _jobs: JoinSet<()>,
}

impl Issuer {
    pub(super) async fn start(status: StatusCode, body: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let fetches = Arc::new(AtomicUsize::new(0));
        let answer = Arc::new(Mutex::new((status, body)));
        let (counter, content) = (Arc::clone(&fetches), Arc::clone(&answer));
        let mut jobs = JoinSet::new();
        jobs.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service_fn(|_request| {
                    counter.fetch_add(1, Ordering::SeqCst);
                    let (status, body) = content.lock().unwrap().clone();
                    let mut response = Response::new(Full::new(Bytes::from(body)));
                    *response.status_mut() = status;
                    std::future::ready(Ok::<_, Infallible>(response))
                });
                let _closed = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
        Self {
            address,
            fetches,
            answer,
            _jobs: jobs,
        }
    }

    async fn serving(keys: &[(&str, &Key)]) -> Self {
        Self::start(StatusCode::OK, set(keys)).await
    }

    pub(super) fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    pub(super) fn serve(&self, status: StatusCode, body: String) {
        *self.answer.lock().unwrap() = (status, body);
    }

    fn verifiers(&self, refresh: Duration, cooldown: Duration) -> Verifiers {
        let url = format!("http://{}/keys", self.address);
        build(vec![(
            "j",
            jwt_scheme(
                ISSUER,
                &["a2a"],
                JwksSource::Fetched(FetchedKeys {
                    place: KeysPlace::Url(url),
                    ca: None,
                    refresh,
                    cooldown,
                }),
            ),
        )])
    }
}

fn set(keys: &[(&str, &Key)]) -> String {
    let keys: Vec<_> = keys.iter().map(|(kid, key)| key.public(json!({"kid": kid}))).collect();
    json!({"keys": keys}).to_string()
}

fn token(key: &Key, kid: &str) -> String {
    let header = json!({"alg": "ES256", "kid": kid}).to_string();
    key.sign_as(Algorithm::ES256, &header, &claims().to_string())
}

async fn show(verifiers: &Verifiers, token: &str) -> String {
    let parts = with_authorization(&format!("Bearer {token}"));
    one(verifiers, "j", &parts).await
}

/// Waits, at most five seconds, for something that then stays true.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to pass: {what}");
}

const ANN: &str = "jwt:https://login.example.com#ann";

#[tokio::test]
async fn nobody_is_admitted_before_the_first_fetch() {
    let key = Key::ec();
    let issuer = Issuer::start(StatusCode::SERVICE_UNAVAILABLE, String::new()).await;
    let verifiers = issuer.verifiers(LONG, LONG);
    let token = token(&key, "a");
    assert!(!verifiers.ready());
    assert_eq!(show(&verifiers, &token).await, "! unavailable");
    assert_eq!(issuer.fetches(), 0, "nothing is fetched before the start");
    let drain = Drain::new();
    verifiers.start(&drain);
    verifiers.start(&drain);
    eventually("a first fetch", || issuer.fetches() == 1).await;
    assert_eq!(verifiers.waiting_for(), ["j"]);
    assert_eq!(show(&verifiers, &token).await, "! unavailable");
    assert_eq!(show(&verifiers, "x.y.z").await, "! malformed");
    issuer.serve(StatusCode::OK, set(&[("a", &key)]));
    eventually("readiness", || verifiers.ready()).await;
    assert_eq!(show(&verifiers, &token).await, ANN);
}

#[tokio::test]
async fn a_flood_of_unknown_key_ids_causes_one_fetch() {
    let key = Key::ec();
    let issuer = Issuer::serving(&[("a", &key)]).await;
    let verifiers = issuer.verifiers(LONG, Duration::from_millis(500));
    let drain = Drain::new();
    verifiers.start(&drain);
    eventually("readiness", || verifiers.ready()).await;
    assert_eq!(issuer.fetches(), 1);
    // Within the cooldown of the first fetch: none.
    for index in 0..50 {
        let found = show(&verifiers, &token(&key, &format!("x{index}"))).await;
        assert_eq!(found, "! unknown-key-id");
    }
    assert_eq!(issuer.fetches(), 1);
    tokio::time::sleep(Duration::from_millis(600)).await;
    // Past it: one, however many ask at once.
    let mut flood = JoinSet::new();
    for index in 0..50 {
        let (verifiers, token) = (verifiers.clone(), token(&key, &format!("y{index}")));
        flood.spawn(async move { show(&verifiers, &token).await });
    }
    while let Some(found) = flood.join_next().await {
        assert_eq!(found.unwrap(), "! unknown-key-id");
    }
    assert_eq!(issuer.fetches(), 2);
    assert_eq!(show(&verifiers, &token(&key, "a")).await, ANN);
}

#[tokio::test]
async fn tokens_of_another_issuer_and_bad_signatures_cause_no_fetch() {
    let key = Key::ec();
    let issuer = Issuer::serving(&[("a", &key)]).await;
    let verifiers = issuer.verifiers(LONG, Duration::ZERO);
    let drain = Drain::new();
    verifiers.start(&drain);
    eventually("readiness", || verifiers.ready()).await;
    let mut claims = claims();
    claims["iss"] = json!("https://evil.example");
    let header = r#"{"alg":"ES256","kid":"x"}"#;
    let foreign = key.sign_as(Algorithm::ES256, header, &claims.to_string());
    assert_eq!(show(&verifiers, &foreign).await, "! wrong-issuer");
    let forged = token(&Key::ec(), "a");
    assert_eq!(show(&verifiers, &forged).await, "! bad-signature");
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn a_rotated_key_is_found_by_the_first_token_that_names_it() {
    let (old, new) = (Key::ec(), Key::ec());
    let issuer = Issuer::serving(&[("old", &old)]).await;
    let verifiers = issuer.verifiers(LONG, Duration::ZERO);
    let drain = Drain::new();
    verifiers.start(&drain);
    eventually("readiness", || verifiers.ready()).await;
    let old_token = token(&old, "old");
    assert_eq!(show(&verifiers, &old_token).await, ANN);
    issuer.serve(StatusCode::OK, set(&[("new", &new)]));
    assert_eq!(show(&verifiers, &token(&new, "new")).await, ANN);
    assert_eq!(
        show(&verifiers, &old_token).await,
        "! unknown-key-id",
        "a key that was taken back is no longer good, remembered or not"
    );
}

#[tokio::test]
async fn a_rotation_without_key_ids_is_found_too() {
    let (old, new) = (Key::ec(), Key::ec());
    let plain = |key: &Key| json!({"keys": [key.jwk]}).to_string();
    let issuer = Issuer::start(StatusCode::OK, plain(&old)).await;
    let verifiers = issuer.verifiers(LONG, Duration::ZERO);
    let drain = Drain::new();
    verifiers.start(&drain);
    eventually("readiness", || verifiers.ready()).await;
    issuer.serve(StatusCode::OK, plain(&new));
    let token = new.sign_as(Algorithm::ES256, r#"{"alg":"ES256"}"#, &claims().to_string());
    assert_eq!(show(&verifiers, &token).await, ANN);
}

#[tokio::test]
async fn keys_are_refreshed_and_survive_an_outage() {
    let (old, new) = (Key::ec(), Key::ec());
    let issuer = Issuer::serving(&[("old", &old)]).await;
    let verifiers = issuer.verifiers(Duration::from_millis(50), LONG);
    let drain = Drain::new();
    verifiers.start(&drain);
    eventually("readiness", || verifiers.ready()).await;
    let good = token(&old, "old");
    for (status, body) in [
        (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
        (StatusCode::FOUND, String::new()),
        (StatusCode::OK, "<html>".to_owned()),
        (StatusCode::OK, json!({"keys": []}).to_string()),
        (StatusCode::OK, json!({"keys": [{"kty": "oct", "k": "AA"}]}).to_string()),
        (StatusCode::OK, " ".repeat(1024 * 1024 + 1)),
    ] {
        issuer.serve(status, body);
        let before = issuer.fetches();
        eventually("two more fetches", || issuer.fetches() >= before + 2).await;
        assert_eq!(show(&verifiers, &good).await, ANN, "{status}");
    }
    issuer.serve(StatusCode::OK, set(&[("new", &new)]));
    let before = issuer.fetches();
    eventually("two more fetches", || issuer.fetches() >= before + 2).await;
    assert_eq!(show(&verifiers, &token(&new, "new")).await, ANN);
    assert_eq!(show(&verifiers, &good).await, "! unknown-key-id");
}

#[tokio::test]
async fn the_job_ends_with_the_verifiers() {
    let issuer = Issuer::serving(&[("a", &Key::ec())]).await;
    let verifiers = issuer.verifiers(Duration::from_millis(20), LONG);
    let drain = Drain::new();
    verifiers.start(&drain);
    eventually("some fetches", || issuer.fetches() >= 3).await;
    let requirement = verifiers.resolve(&security("j"), &Resource::default()).unwrap();
    drop(verifiers);
    let before = issuer.fetches();
    eventually("more fetches for the requirement", || issuer.fetches() >= before + 2).await;
    drop(requirement);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let ended = issuer.fetches();
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(issuer.fetches(), ended);
}

/// The job of a source goes on in the next configuration while it is the same source: of discovery the issuer is a part.
#[tokio::test]
async fn keys_found_by_discovery_are_handed_on_while_the_issuer_is_the_same() {
    let key = Key::ec();
    let issuer = Issuer::start(StatusCode::OK, String::new()).await;
    // One answer for both: a document with the keys in it.
    let mut document: serde_json::Value = serde_json::from_str(&set(&[("a", &key)])).unwrap();
    document["issuer"] = ISSUER.into();
    document["jwks_uri"] = format!("http://{}/keys", issuer.address).into();
    issuer.serve(StatusCode::OK, document.to_string());
    let scheme = |name: &str, audience: &str| {
        let source = JwksSource::Fetched(FetchedKeys {
            place: KeysPlace::Discovery {
                url: format!("http://{}/document", issuer.address),
                issuer: name.to_owned(),
            },
            ca: None,
            refresh: LONG,
            cooldown: LONG,
        });
        BTreeMap::from([("j".to_owned(), jwt_scheme(name, &[audience], source))])
    };
    let clock = Time::new().clock();
    let drain = Drain::new();
    let verifiers = Verifiers::build(&scheme(ISSUER, "a2a"), &clock).unwrap();
    verifiers.start(&drain);
    eventually("readiness", || verifiers.ready()).await;
    assert_eq!(issuer.fetches(), 2);
    let next = verifiers.renewed(&scheme(ISSUER, "other"), &clock).unwrap().take();
    next.start(&drain);
    assert!(next.ready(), "the keys are known already");
    assert_eq!(show(&next, &token(&key, "a")).await, "! wrong-audience");
    let next = next
        .renewed(&scheme("https://other.example", "a2a"), &clock)
        .unwrap()
        .take();
    assert!(!next.ready(), "a document is of one issuer");
    next.start(&drain);
    eventually("another look at the document", || issuer.fetches() == 3).await;
    assert!(!next.ready());
}

#[test]
fn a_ca_file_must_hold_certificates() {
    let ca = file("no certificate");
    let source = JwksSource::Fetched(FetchedKeys {
        place: KeysPlace::Url("https://login.example.com/keys".to_owned()),
        ca: Some(ca.path().to_owned()),
        refresh: LONG,
        cooldown: LONG,
    });
    let scheme = jwt_scheme(ISSUER, &["a2a"], source);
    let problems = try_build(vec![("j", scheme.clone())], &Time::new())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(problems[0].key, "security_schemes.j.jwks_ca");

    let certificate = |name: &str| {
        rcgen::generate_simple_self_signed(vec![name.to_owned()])
            .unwrap()
            .cert
            .pem()
    };
    rewrite(ca.path(), &certificate("a"));
    let mut verifiers = build(vec![("j", scheme)]);
    assert_eq!(reload(&mut verifiers), Ok(vec![]));
    rewrite(ca.path(), &certificate("b"));
    assert_eq!(reload(&mut verifiers), Ok(vec!["j".to_owned()]));
    rewrite(ca.path(), "no certificate");
    assert!(reload(&mut verifiers).is_err());
}
