//! Users and their passwords, what is remembered of a check, and files that are wrong.

use std::net::IpAddr;

use argon2::{Algorithm, Argon2, CustomizedPasswordHasher, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::basic::{MAX_WAITING, MAX_WAITING_OF_ONE};
use super::*;
use crate::http::asking::Queue;

/// As cheap as the algorithm allows.
fn hash(password: &str, algorithm: &str) -> String {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
        .hash_password_customized(
            password.as_bytes(),
            b"0123456789abcdef",
            Some(algorithm),
            None,
            Params::new(8, 1, 1, None).unwrap(),
        )
        .unwrap()
        .to_string()
}

pub(super) fn users(text: &str) -> (NamedTempFile, Scheme) {
    let file = file(text);
    let users_file = file.path().to_owned();
    (file, scheme(SchemeKind::Basic { users_file }))
}

pub(super) fn ann(password: &str) -> String {
    format!(
        "users:\n- {{ name: ann, password_hash: \"{}\", scopes: [read] }}\n",
        hash(password, "argon2id")
    )
}

pub(super) fn basic(credential: &[u8]) -> request::Parts {
    with_authorization(&format!("Basic {}", STANDARD.encode(credential)))
}

#[tokio::test]
async fn users_are_known_by_their_password() {
    let (_file, scheme) = users(&format!(
        "{}- {{ name: bob, password_hash: \"{}\" }}\n",
        ann("a:b"),
        hash("", "argon2id")
    ));
    let verifiers = build(vec![("b", scheme)]);
    let check = async |parts: request::Parts, expected: &str| {
        assert_eq!(one(&verifiers, "b", &parts).await, expected, "{parts:?}");
    };
    check(basic(b"ann:a:b"), "basic:ann").await;
    check(basic(b"ann:a:b"), "basic:ann").await;
    check(basic(b"bob:"), "basic:bob").await;
    check(basic(b"ann:a"), "! bad-password").await;
    check(basic(b"ann:"), "! bad-password").await;
    // The stand-in for unknown users is the hash of ann.
    check(basic(b"cid:a:b"), "! bad-password").await;
    check(basic(b"ANN:a:b"), "! bad-password").await;
    check(basic(b"ann"), "! malformed").await;
    check(basic(b""), "! malformed").await;
    check(basic(b"ann:\xff"), "! malformed").await;
    check(basic(b"ann:a\n"), "! malformed").await;
    check(with_authorization("Basic ***"), "! malformed").await;
    check(with_authorization("Basic"), "! malformed").await;
    check(with_authorization("bAsIc YW5uOmE6Yg=="), "basic:ann").await;
    check(with_authorization("Bearer YW5uOmE6Yg=="), "! missing").await;
    check(head("/", &[]), "! missing").await;
    let field = ("authorization", "Basic YW5uOmE6Yg==");
    check(head("/", &[field, field]), "! ambiguous").await;
    check(with_authorization(&format!("Basic {}", "A".repeat(1025))), "! too-long").await;
    let ok = one(&verifiers, "b:read", &basic(b"ann:a:b")).await;
    assert_eq!(ok, "basic:ann");
    let lacks = one(&verifiers, "b:write", &basic(b"ann:a:b")).await;
    assert_eq!(lacks, "! missing-scope");
}

#[tokio::test]
async fn a_password_is_remembered_for_a_minute_and_not_past_a_reload() {
    let time = Time::new();
    let (file, scheme) = users(&ann("one"));
    let mut verifiers = try_build(vec![("b", scheme)], &time).unwrap();
    assert_eq!(one(&verifiers, "b", &basic(b"ann:one")).await, "basic:ann");
    rewrite(file.path(), &ann("two"));
    assert_eq!(
        one(&verifiers, "b", &basic(b"ann:one")).await,
        "basic:ann",
        "the file counts only after a reload"
    );
    assert_eq!(reload(&mut verifiers), Ok(vec!["b".to_owned()]));
    assert_eq!(one(&verifiers, "b", &basic(b"ann:one")).await, "! bad-password");
    assert_eq!(one(&verifiers, "b", &basic(b"ann:two")).await, "basic:ann");
    time.set(NOW + super::super::basic::REMEMBERED_SECONDS);
    assert_eq!(one(&verifiers, "b", &basic(b"ann:two")).await, "basic:ann");
}

#[tokio::test]
async fn many_checks_at_once_all_end() {
    let (_file, scheme) = users(&ann("one"));
    let verifiers = build(vec![("b", scheme)]);
    let requirement = verifiers.resolve(&security("b"), &Resource::default()).unwrap();
    // From three addresses: one alone may not have that many.
    let checks = (0..50).map(|index| {
        let requirement = requirement.clone();
        async move {
            let parts = basic(format!("ann:{index}").as_bytes());
            let client = IpAddr::from([192, 0, 2, index % 3]);
            identify(&requirement, &peer(), client, &parts)
                .await
                .unwrap_err()
                .as_str()
        }
    });
    let mut jobs: tokio::task::JoinSet<&str> = checks.collect();
    while let Some(found) = jobs.join_next().await {
        assert_eq!(found.unwrap(), "bad-password");
    }
}

#[test]
fn one_address_does_not_fill_the_queue() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let check = |flooding: &dyn Fn(u16) -> IpAddr, other: &str| {
        let queue = Queue::new(MAX_WAITING, MAX_WAITING_OF_ONE);
        let mut held: Vec<_> = (0..25).map(|index| queue.enter(flooding(index)).unwrap()).collect();
        assert!(queue.enter(flooding(25)).is_none(), "a quarter is for one address");
        held.push(queue.enter(address(other)).expect("everybody else still waits"));
        held.remove(0);
        assert!(queue.enter(flooding(26)).is_some(), "a place that was left is free");
    };
    check(&|_| address("192.0.2.1"), "192.0.2.2");
    // One subscriber has a whole /64.
    check(
        &|index| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, index]),
        "2001:db8:0:2::",
    );
}

#[test]
fn the_queue_is_bounded_whoever_waits() {
    let queue = Queue::new(MAX_WAITING, MAX_WAITING_OF_ONE);
    let held: Vec<_> = (0..100)
        .map(|index| queue.enter(IpAddr::from([192, 0, 2, index])).unwrap())
        .collect();
    let one_more = IpAddr::from([192, 0, 2, 100]);
    assert!(queue.enter(one_more).is_none());
    drop(held);
    assert!(queue.enter(one_more).is_some());
}

#[tokio::test]
async fn an_empty_file_admits_nobody() {
    let (_file, scheme) = users("users: []");
    let verifiers = build(vec![("b", scheme)]);
    assert_eq!(one(&verifiers, "b", &basic(b"ann:one")).await, "! bad-password");
}

#[test]
fn a_file_that_is_wrong_is_refused_without_repeating_a_password() {
    let check = |text: &str, expected: &str| {
        let (_file, scheme) = users(text);
        let problems = try_build(vec![("b", scheme)], &Time::new())
            .map(|_| ())
            .expect_err(text);
        for problem in &problems {
            assert_eq!(problem.key, "security_schemes.b.users_file", "{text}");
            assert!(!problem.cause.contains("hunter2"), "{}", problem.cause);
        }
        assert!(
            problems.iter().any(|p| p.cause.contains(expected)),
            "{text}: {problems:?}"
        );
    };
    let good = hash("x", "argon2id");
    check(
        "users:\n- { name: ann, password_hash: hunter2 }\n",
        "Argon2id hash in PHC form",
    );
    check(
        &format!(
            "users:\n- {{ name: ann, password_hash: \"{}\" }}\n",
            hash("x", "argon2i")
        ),
        "Argon2id hash in PHC form",
    );
    check(
        "users:\n- { name: ann, password_hash: \"$argon2id$v=19$m=8,t=1,p=1\" }\n",
        "Argon2id hash in PHC form",
    );
    check(
        &format!(
            "users:\n- {{ name: ann, password_hash: \"{}\" }}\n",
            good.replace("m=8,", "m=262145,")
        ),
        "more than 256 MiB",
    );
    check(
        &format!("users:\n- {{ name: \"a:b\", password_hash: \"{good}\" }}\n"),
        "no colon",
    );
    check(
        &format!("users:\n- {{ name: a, password_hash: \"{good}\" }}\n- {{ name: a, password_hash: \"{good}\" }}\n"),
        "users[1].name",
    );
    check("users:\n- { name: a, password: hunter2 }\n", "at line 2");
}
