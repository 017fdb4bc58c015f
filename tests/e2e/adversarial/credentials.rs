//! Callers who cannot say who they are: nothing of their body is read, and nothing of them reaches an agent.

use std::time::Duration;

use super::frames::{self, Frames};
use super::site::{BOTH, CREDENTIAL, GENERATIONS, Http, JSON, Setup, Site, good, rpc};
use super::wire::Wire;
use crate::harness::{Agent, Answer, Gateway, KEY, agent, call};

fn challenged(answer: &Answer, challenges: &[&str]) {
    let found: Vec<_> = answer.headers.get_all("www-authenticate").iter().collect();
    assert_eq!(found, challenges, "the challenge of {}", answer.text());
}

const CHALLENGE: &str = "ApiKey realm=\"a2a-gateway\", header=\"x-api-key\"";

/// What it is, the credentials that are shown, and the detail in the record.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
async fn without_one_good_credential_a_call_ends_in_401_with_a_challenge() {
    let site = Site::usual().await;
    let long = "k".repeat(2000);
    let cases: [Case<'_>; 9] = [
        ("none", &[], "missing"),
        ("a wrong one", &[("x-api-key", "wrong")], "unknown-key"),
        ("an empty one", &[("x-api-key", "")], "malformed"),
        ("in another case", &[("x-api-key", "TEST-KEY")], "unknown-key"),
        ("with something behind it", &[("x-api-key", "test-key,")], "unknown-key"),
        ("2000 bytes", &[("x-api-key", &long)], "too-long"),
        ("twice, equal", &[CREDENTIAL, CREDENTIAL], "ambiguous"),
        (
            "twice, the good one last",
            &[("x-api-key", "wrong"), CREDENTIAL],
            "ambiguous",
        ),
        (
            "in another place",
            &[("authorization", "Bearer test-key"), ("cookie", "x-api-key=test-key")],
            "missing",
        ),
    ];
    for names in &GENERATIONS {
        for http in BOTH {
            for (what, credentials, detail) in cases {
                let what = format!("{what}, A2A {}, {http:?}", names.version);
                let fields: Vec<_> = credentials.iter().copied().chain([JSON]).collect();
                let answer = site.post(http, &fields, names.sending("")).await;
                site.refused(&what, &answer, rpc("unauthenticated", "null")).await;
                challenged(&answer, &[CHALLENGE]);
                let record = site.record(answer.header("x-request-id").expect("an id")).await;
                assert_eq!(record["detail"], detail, "{what}: {record}");
                assert!(record.get("principal").is_none(), "{record}");
            }
            let answer = site
                .request(http, "POST", "/agent?X-API-Key=test-key", &[JSON], names.sending(""))
                .await;
            site.refused("in the query", &answer, rpc("unauthenticated", "null"))
                .await;
        }
    }
    site.done().await;
}

#[tokio::test]
async fn a_stranger_is_refused_before_anything_else_of_the_request_is_judged() {
    // What else is wrong with a call is told only to those who may make it.
    let site = Site::usual().await;
    for http in BOTH {
        for (what, fields, body) in [
            ("no JSON", vec![JSON], "{"),
            ("no type", vec![], "{}"),
            (
                "no version",
                vec![JSON, ("a2a-version", "1"), ("a2a-version", "2")],
                "{}",
            ),
        ] {
            let answer = site.post(http, &fields, body).await;
            site.refused(what, &answer, rpc("unauthenticated", "null")).await;
        }
    }
    let broken = "POST /agent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n";
    let (answer, _wire) = site.raw(broken).await;
    site.refused("a broken body", &answer, rpc("unauthenticated", "null"))
        .await;
    let large = "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: 20971520\r\n\r\n";
    let (answer, _wire) = site.raw(large).await;
    site.refused("20 MiB", &answer, rpc("unauthenticated", "null")).await;
    site.done().await;
}

#[tokio::test]
async fn who_expects_100_is_told_401_without_it_and_without_sending_a_byte() {
    let site = Site::usual().await;
    let length = good().len();
    let head = |key: &str| {
        format!(
            "POST /agent HTTP/1.1\r\nHost: a\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    // The first answer is the refusal: nothing came before it, and no body was there to be waited for.
    let (answer, mut wire) = site.raw(head("wrong")).await;
    site.is_refusal("a wrong credential", &answer, rpc("unauthenticated", "null"));
    challenged(&answer, &[CHALLENGE]);
    wire.closes().await;
    site.works().await;

    // The same over HTTP/2: headers alone, no end of the stream.
    let mut fields = frames::call_fields();
    fields.retain(|(name, _)| *name != "x-api-key");
    fields.push(("expect", "100-continue"));
    let mut h2 = Frames::to(site.gateway.address).await;
    h2.headers(1, &frames::block(&fields), false).await;
    assert_eq!(h2.status_of(1).await, 401);
    site.note_refused("unauthenticated", 1);

    // Who may call is told to go on.
    let mut wire = Wire::to(site.gateway.address).await;
    wire.send(head(KEY)).await;
    assert_eq!(wire.answer().await.status, 100);
    wire.stays_silent(Duration::from_millis(200)).await;
    wire.send(good()).await;
    site.passed("after 100", &wire.answer().await);
    site.done().await;
}

#[tokio::test]
async fn a_credential_without_the_scope_is_403_and_not_401() {
    let schemes = "  key: { type: apiKey, in: header, name: X-API-Key, keys: [ { id: tester, hash: \"KEY_HASH\" }, \
                   { id: reader, hash: \"sha256:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a\", scopes: [read] } ] }";
    let site = Site::start(Setup {
        schemes,
        security: "[ { key: [read] } ]",
        ..Setup::default()
    })
    .await;
    for http in BOTH {
        let answer = site.post(http, &[JSON, CREDENTIAL], good()).await;
        site.is_refusal("no scope", &answer, rpc("forbidden", "null"));
        let answer = site.post(http, &[JSON, ("x-api-key", "k")], good()).await;
        site.passed("with the scope", &answer);
    }
    site.done().await;
}

#[tokio::test]
async fn wrong_credentials_never_wear_out_the_right_one() {
    let site = Site::usual().await;
    for index in 0..300 {
        let key = format!("guess-{index}");
        let answer = site.post(Http::One, &[JSON, ("x-api-key", &key)], good()).await;
        site.is_refusal("a guess", &answer, rpc("unauthenticated", "null"));
    }
    site.works().await;
    site.done().await;
}

#[tokio::test]
async fn guesses_cost_their_address_its_budget() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let limits = "rate_limits: [ { per: address, rate: 2/h, burst: 2 } ]";
    let gateway = Gateway::of(&[agent.address], "", limits).await;
    let guess = || call(gateway.address, "POST", "/agent", &[JSON, ("x-api-key", "wrong")], "{}");
    let statuses = [guess().await.status, guess().await.status, guess().await.status];
    assert_eq!(statuses, [401, 401, 429]);
    assert!(agent.received().is_empty());
}
