//! Callers over their budget: told so with everything that they need to come back, and nobody else pays for them.

use std::sync::Mutex;

use tokio::net::TcpSocket;
use tokio::sync::mpsc;

use super::site::{BOTH, CREDENTIAL, GENERATIONS, Http, JSON, Setup, Site, good, rpc, task};
use super::wire::Wire;
use crate::harness::agent::{self, Received, task_event};
use crate::harness::client::open;
use crate::harness::{Agent, Answer, Gateway, KEY, Reply, eventually, get, post, send};

const OTHER: (&str, &str) = ("x-api-key", "k");
/// Two callers: `test-key` and `k`.
const SCHEMES: &str = "  key: { type: apiKey, in: header, name: X-API-Key, keys: [ { id: tester, hash: \"KEY_HASH\" }, \
                       { id: other, hash: \"sha256:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a\" } ] }";

fn limited(rules: &str) -> String {
    format!("limits: [ {rules} ]")
}

async fn site(rules: &str) -> Site {
    Site::start(Setup {
        schemes: SCHEMES,
        agent: &limited(rules),
        ..Setup::default()
    })
    .await
}

/// The fields of a refusal by a rule on rate: seconds to wait, the same in both.
fn told_to_wait(answer: &Answer, policy: &str, name: &str, most: u64) {
    assert_eq!(answer.header("ratelimit-policy"), Some(policy));
    let wait: u64 = answer
        .header("retry-after")
        .expect("Retry-After")
        .parse()
        .expect("seconds");
    assert!((1..=most).contains(&wait), "{wait} s");
    assert_eq!(
        answer.header("ratelimit"),
        Some(format!("\"{name}\";r=0;t={wait}").as_str())
    );
}

#[tokio::test]
async fn a_rate_passes_its_burst_and_not_one_more() {
    for http in BOTH {
        let site = site("{ per: principal, rate: 2/min, burst: 3 }").await;
        for _ in 0..3 {
            site.passed("within the burst", &site.post(http, &[JSON, CREDENTIAL], good()).await);
        }
        for _ in 0..3 {
            let answer = site.post(http, &[JSON, CREDENTIAL], good()).await;
            // Before the body is read, so nobody knows its id.
            site.is_refusal("past the burst", &answer, rpc("rate_limited", "null"));
            told_to_wait(&answer, "\"principal-rate\";q=2;w=60", "principal-rate", 30);
        }
        site.passed("somebody else", &site.post(http, &[JSON, OTHER], good()).await);
        let answer = site.post(http, &[JSON, ("x-api-key", "wrong")], good()).await;
        site.is_refusal("a stranger is a stranger", &answer, rpc("unauthenticated", "null"));
        site.done().await;
    }
}

#[tokio::test]
async fn a_rule_for_some_operations_leaves_the_others_alone() {
    let site = site("{ name: sends, per: principal, rate: 1/h, operations: [send] }").await;
    let [now, legacy] = GENERATIONS;
    site.passed(
        "the first",
        &site.post(Http::One, &[JSON, CREDENTIAL], now.sending("")).await,
    );
    for (http, names) in [(Http::One, now), (Http::Two, legacy)] {
        let answer = site.post(http, &[JSON, CREDENTIAL], names.sending("")).await;
        site.is_refusal("the second", &answer, rpc("rate_limited", "7"));
        told_to_wait(&answer, "\"sends\";q=1;w=3600", "sends", 3600);
        let get = names.call(names.get, r#"{"id":"t1"}"#);
        site.passed("a get", &site.post(http, &[JSON, CREDENTIAL], get).await);
    }
    site.done().await;
}

#[tokio::test]
async fn an_invented_address_is_nobodys_budget() {
    let rules = limited("{ per: address, rate: 1/h }");
    let site = Site::start(Setup {
        agent: &rules,
        ..Setup::default()
    })
    .await;
    let from = |address: &'static str| {
        [
            JSON,
            CREDENTIAL,
            ("x-forwarded-for", address),
            ("forwarded", "for=5.5.5.5"),
            ("x-real-ip", "5.5.5.5"),
        ]
    };
    site.passed("the first", &site.post(Http::One, &from("1.1.1.1"), good()).await);
    for (http, address) in [(Http::One, "2.2.2.2"), (Http::Two, "3.3.3.3"), (Http::One, "")] {
        let answer = site.post(http, &from(address), good()).await;
        site.is_refusal(address, &answer, rpc("rate_limited", "null"));
        told_to_wait(&answer, "\"address-rate\";q=1;w=3600", "address-rate", 3600);
        let record = site.record(answer.header("x-request-id").expect("an id")).await;
        assert_eq!(record["address"], "127.0.0.1");
    }
    site.done().await;
}

#[tokio::test]
async fn a_trusted_proxy_speaks_for_its_callers_but_not_for_what_they_wrote() {
    let rules = limited("{ per: address, rate: 1/h }");
    let setup = Setup {
        listener: ", trusted_proxies: [ 127.0.0.0/8 ]",
        agent: &rules,
        ..Setup::default()
    };
    let site = Site::start(setup).await;
    let from = |address: &'static str| [JSON, CREDENTIAL, ("x-forwarded-for", address)];
    for address in ["1.1.1.1", "2.2.2.2"] {
        site.passed(address, &site.post(Http::One, &from(address), good()).await);
        assert_eq!(
            site.agent.received().pop().expect("received").field("x-forwarded-for"),
            Some(address)
        );
    }
    // The last address is the proxy's word, those before it the caller's.
    for (http, address) in [
        (Http::One, "1.1.1.1"),
        (Http::Two, "9.9.9.9, 1.1.1.1"),
        (Http::One, "9.9.9.9,2.2.2.2, 127.0.0.1"),
    ] {
        let answer = site.post(http, &from(address), good()).await;
        site.is_refusal(address, &answer, rpc("rate_limited", "null"));
    }
    // What is no address at all leaves the proxy's own.
    site.passed("junk", &site.post(Http::One, &from("1.1.1.1, junk"), good()).await);
    let answer = site.post(Http::One, &from("3.3.3.3, unknown"), good()).await;
    site.is_refusal("junk again", &answer, rpc("rate_limited", "null"));
    site.done().await;
}

/// Streams that the test feeds and ends; other calls are answered at once.
type Feed = mpsc::Sender<Option<String>>;

async fn streaming_site(rules: &str, streams: usize) -> (Site, Vec<Feed>) {
    let (feeds, chunks): (Vec<Feed>, Vec<_>) = (0..streams).map(|_| mpsc::channel(4)).unzip();
    let chunks = Mutex::new(chunks);
    let script = move |request: &crate::harness::agent::Received| {
        if String::from_utf8_lossy(&request.body).contains("treaming") {
            Reply::Stream(chunks.lock().expect("chunks").remove(0))
        } else {
            task(request)
        }
    };
    let setup = Setup {
        schemes: SCHEMES,
        agent: &limited(rules),
        ..Setup::default()
    };
    (Site::with(setup, script).await, feeds)
}

async fn open_stream(site: &Site, feed: &Feed) -> http::Response<hyper::body::Incoming> {
    feed.send(Some(task_event("7", "t1"))).await.expect("the agent waits");
    let response = open(
        site.gateway.address,
        "POST",
        "/agent",
        &[JSON, CREDENTIAL],
        &GENERATIONS[0].streaming(),
    )
    .await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    site.note_passed(1);
    response
}

#[tokio::test]
async fn a_place_is_held_until_the_stream_ends_or_the_caller_leaves() {
    let rule = "{ per: principal, concurrent: 1 }";
    let (site, mut feeds) = streaming_site(rule, 2).await;
    let refused = async |http| {
        let answer = site.post(http, &[JSON, CREDENTIAL], good()).await;
        site.is_refusal("while the stream is open", &answer, rpc("rate_limited", "null"));
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some("\"principal-concurrent\";q=1;qu=\"concurrent-requests\"")
        );
        assert_eq!(answer.header("ratelimit"), Some("\"principal-concurrent\";r=0"));
        assert_eq!(answer.header("retry-after"), Some("1"));
    };
    let free_again = async || {
        eventually("the place is free", || async {
            let answer = site.post(Http::One, &[JSON, CREDENTIAL], good()).await;
            if answer.status == 200 {
                site.note_passed(1)
            } else {
                site.note_refused("rate_limited", 1)
            }
            answer.status == 200
        })
        .await;
    };
    // It ends by itself.
    let response = open_stream(&site, &feeds[0]).await;
    for http in BOTH {
        refused(http).await;
    }
    site.passed("somebody else", &site.post(Http::One, &[JSON, OTHER], good()).await);
    drop(feeds.remove(0));
    crate::harness::client::collect(response).await;
    free_again().await;
    // Its caller leaves.
    let response = open_stream(&site, &feeds[0]).await;
    refused(Http::One).await;
    drop(response);
    free_again().await;
    site.done().await;
}

#[tokio::test]
async fn open_streams_are_counted_and_other_calls_are_not() {
    let (site, mut feeds) = streaming_site("{ per: agent, open_streams: 2 }", 3).await;
    let first = open_stream(&site, &feeds[0]).await;
    let second = open_stream(&site, &feeds[1]).await;
    for http in BOTH {
        for credential in [CREDENTIAL, OTHER] {
            let answer = site.post(http, &[JSON, credential], GENERATIONS[0].streaming()).await;
            site.is_refusal("a third stream", &answer, rpc("rate_limited", "7"));
            assert_eq!(answer.header("retry-after"), Some("1"));
            assert_eq!(
                answer.header("ratelimit-policy"),
                Some("\"agent-streams\";q=2;qu=\"concurrent-requests\"")
            );
        }
        site.passed("a send", &site.post(http, &[JSON, CREDENTIAL], good()).await);
    }
    drop(feeds.remove(0));
    crate::harness::client::collect(first).await;
    let third = open_stream(&site, &feeds[1]).await;
    drop((second, third));
    site.done().await;
}

#[tokio::test]
async fn a_place_is_held_until_the_last_byte_of_a_whole_answer() {
    let large = 14 * 1024 * 1024;
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"task":{{"id":"t1","contextId":"c1","status":{{"state":"TASK_STATE_COMPLETED"}},"metadata":{{"x":"{}"}}}}}}}}"#,
        "x".repeat(large)
    );
    let first = Mutex::new(Some(answer));
    let script = move |request: &crate::harness::agent::Received| match first.lock().expect("first").take() {
        Some(answer) => Reply::Json(answer),
        None => task(request),
    };
    let rules = limited("{ per: principal, concurrent: 1 }");
    let site = Site::with(
        Setup {
            schemes: SCHEMES,
            agent: &rules,
            ..Setup::default()
        },
        script,
    )
    .await;
    // A small window, so that the kernel does not swallow the whole answer.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a small buffer");
    let stream = socket.connect(site.gateway.address).await.expect("the gateway listens");
    let mut wire = Wire::over(stream);
    let good = good();
    let head = format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        good.len()
    );
    wire.send(head + &good).await;
    let mut slow = wire.answer_head().await.expect("a head");
    site.note_passed(1);
    // The agent is done with it, and the caller has its head; but most of the answer is still to be sent.
    for _ in 0..3 {
        let answer = site.post(Http::One, &[JSON, CREDENTIAL], &good).await;
        site.is_refusal("while the answer is being sent", &answer, rpc("rate_limited", "null"));
    }
    let length: usize = slow
        .header("content-length")
        .expect("a length")
        .parse()
        .expect("a length");
    while wire.received().len() < length {
        wire.more().await.expect("the rest of the answer");
    }
    slow.body = wire.received().to_vec();
    assert!(slow.text().ends_with("}}}}"), "whole");
    eventually("the place is free", || async {
        let answer = site.post(Http::One, &[JSON, CREDENTIAL], &good).await;
        if answer.status == 200 {
            site.note_passed(1)
        } else {
            site.note_refused("rate_limited", 1)
        }
        answer.status == 200
    })
    .await;
    site.done().await;
}

#[tokio::test]
async fn a_caller_who_leaves_early_has_its_place_until_the_agent_is_done() {
    let (pieces, rest) = mpsc::channel(1);
    let rest = Mutex::new(Some(rest));
    let others = agent::tasks(|| "other".to_owned());
    let agent = Agent::start(move |request: &Received| match rest.lock().expect("rest").take() {
        Some(rest) => Reply::Pieces(rest),
        None => others(request),
    })
    .await;
    let gateway = Gateway::of(&[agent.address], &limited("{ per: principal, concurrent: 1 }"), "").await;
    let address = gateway.address;
    let leaving = tokio::spawn(async move { post(address, "/agent", &send("1", "x")).await });
    // More than the buffers on the way hold: once it is written, the gateway reads the answer.
    let begun = format!(r#"{{"jsonrpc":"2.0","id":1,"x":"{}"#, "x".repeat(10 * 1024 * 1024));
    pieces.send(Some(begun)).await.expect("the agent answers");
    let end = r#"","result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}"#;
    pieces.send(Some(" ".to_owned())).await.expect("the agent answers");
    eventually("the answer is being read", || async { pieces.capacity() == 1 }).await;
    leaving.abort();
    assert_eq!(gateway.access(1).await[0]["outcome"], "downstream_gone");
    for _ in 0..3 {
        let answer = post(address, "/agent", &send("2", "x")).await;
        assert_eq!(
            answer.status,
            429,
            "its place at the endpoint is taken: {}",
            answer.text()
        );
    }
    pieces.send(Some(end.to_owned())).await.expect("the agent answers");
    drop(pieces);
    eventually("the place is free", || async {
        post(address, "/agent", &send("3", "x")).await.status == 200
    })
    .await;
    let found = get(gateway.admin, "/tasks/agent/t").await;
    assert_eq!(found.status, 200, "the task was learned all the same");
}
