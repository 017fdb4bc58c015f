//! RFC 7617: a user name and a password.

use std::collections::BTreeMap;

use argon2::{Algorithm, Argon2, CustomizedPasswordHasher, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Site;
use crate::harness::{KEY, KEY_HASH, call, of_task, send};
use crate::lifecycle::reload::users;

/// RFC 7617 §2: a password may have colons; §2.1: both are UTF-8.
const PASSWORD: &str = "pass:wörd";

struct Ground {
    site: Site,
    _folder: tempfile::TempDir,
}

async fn ground() -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.yaml");
    std::fs::write(&file, users(&[("ann", PASSWORD), ("bob", "other")])).unwrap();
    let scheme = format!("type: http, scheme: basic, users_file: \"{}\"", file.display());
    Ground {
        site: Site::start(&scheme).await,
        _folder: folder,
    }
}

fn basic(text: &str) -> String {
    format!("Basic {}", STANDARD.encode(text))
}

#[tokio::test]
async fn the_right_password_of_its_user_admits() {
    let Ground { site, _folder } = ground().await;
    let right = basic(&format!("ann:{PASSWORD}"));
    for shown in [right.clone(), right.replace("Basic ", "bAsIc ")] {
        let answer = site.show(&shown).await;
        site.admits(&shown, &answer, "basic:ann").await;
    }
    for received in site.agent.received() {
        assert_eq!(received.field("authorization"), None);
    }
    site.hides(PASSWORD).await;
    site.hides(&STANDARD.encode(format!("ann:{PASSWORD}"))).await;
}

#[tokio::test]
async fn anything_else_is_refused_without_saying_what_was_wrong() {
    let Ground { site, _folder } = ground().await;
    let mut answers = Vec::new();
    for (what, shown, detail) in [
        ("a wrong password", basic("ann:wrong"), "bad-password"),
        ("somebody else's", basic("ann:other"), "bad-password"),
        ("nobody", basic(&format!("eve:{PASSWORD}")), "bad-password"),
        ("no password", basic("ann:"), "bad-password"),
        (
            "a name in another case",
            basic(&format!("Ann:{PASSWORD}")),
            "bad-password",
        ),
        (
            "the bytes of Latin-1",
            format!("Basic {}", STANDARD.encode(b"ann:pass:w\xf6rd")),
            "malformed",
        ),
        ("no colon", basic("ann"), "malformed"),
        ("no base64", "Basic ann:wrong".to_owned(), "malformed"),
        ("nothing", "Basic ".to_owned(), "malformed"),
    ] {
        let answer = site.show(&shown).await;
        site.refuses(what, &answer, detail).await;
        // RFC 7617 §2 and §2.1.
        let challenge = answer.header("www-authenticate").unwrap();
        assert_eq!(challenge, "Basic realm=\"a2a-gateway\", charset=\"UTF-8\"");
        answers.push(answer.text());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(site.agent.received().is_empty());
}

/// A password costs something to be checked: thousands of wrong ones wait for a bounded number of checks, or are told to come
/// again, and who shows something else does not wait behind them.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_wrong_passwords_cost_a_bounded_part() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.yaml");
    let dear = Params::new(1024, 1, 1, None).unwrap();
    let hash = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
        .hash_password_customized(PASSWORD.as_bytes(), b"0123456789abcdef", Some("argon2id"), None, dear)
        .unwrap();
    std::fs::write(&file, format!("users: [ {{ name: ann, password_hash: \"{hash}\" }} ]")).unwrap();
    let scheme = format!(
        "type: http, scheme: basic, users_file: \"{}\" }}\n  key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: bob, hash: \"{KEY_HASH}\" }} ]",
        file.display()
    );
    let site = Site::asking(&scheme, "[ { s: [] }, { key: [] } ]", "").await;
    site.gateway.ready().await;
    let address = site.address();
    let guesses: Vec<_> = (0..100)
        .map(|caller| {
            tokio::spawn(async move {
                let mut statuses = Vec::new();
                for guess in 0..20 {
                    let field = basic(&format!("ann:{caller}-{guess}"));
                    let fields = [("authorization", field.as_str()), ("content-type", "application/json")];
                    let answer = call(address, "POST", "/agent", &fields, &send("1", "x")).await;
                    assert!(answer.status == 401 || answer.header("retry-after").is_some());
                    statuses.push(answer.status);
                }
                statuses
            })
        })
        .collect();
    let fields = [("X-API-Key", KEY), ("content-type", "application/json")];
    for _ in 0..20 {
        let served = call(address, "POST", "/agent", &fields, &send("1", "x")).await;
        assert_eq!(served.status, 200, "{}", served.text());
    }
    let mut counts = BTreeMap::new();
    for guess in guesses {
        for status in guess.await.unwrap() {
            *counts.entry(status).or_insert(0) += 1;
        }
    }
    assert_eq!(counts.values().sum::<i32>(), 2000);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [401, 503], "{counts:?}");
    // Known again, and told that the task of bob is not there.
    let field = basic(&format!("ann:{PASSWORD}"));
    let fields = [("authorization", field.as_str()), ("content-type", "application/json")];
    let right = call(address, "POST", "/agent", &fields, &of_task("GetTask", "t")).await;
    assert_eq!(right.code(), -32001, "{}", right.text());
}
