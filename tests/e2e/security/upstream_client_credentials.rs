//! A token of the gateway's own for an agent: OAuth 2.0 client credentials (RFC 6749 §4.4), shown as RFC 6750 §2.1 says.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::grpc::{self, Status};
use a2a_gateway::a2a::{Binding, Generation, Operation};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::token_server::{Case, counting, error, field, form, token, url};
use crate::harness::agent::{CARD_HTTP_JSON, Received};
use crate::harness::authority::Authority;
use crate::harness::caller::{Caller, dialect};
use crate::harness::client::{collect, open};
use crate::harness::grpc::{CARD_GRPC, GrpcAgent, Reply as GrpcReply};
use crate::harness::{
    Agent, Answer, Gateway, KEY, OPEN, Reply, agent, config_of, eventually, of_task, post, send, with_upstream,
};

/// A gateway whose agent takes tokens of this server. `more` is added to the grant.
fn config(agent: &Agent, server: &Agent, more: &str) -> String {
    let upstream = format!(
        "credential: {{ client_credentials: {{ token_url: \"{}\", client_id: \"gate way\", client_secret: \"s3cret:+\" {more} }} }}",
        url(server)
    );
    with_upstream(&config_of(&[agent.address], OPEN, ""), &upstream)
}

async fn called(gateway: &Gateway) -> Answer {
    post(gateway.address, "/agent", &send("1", "x")).await
}

/// What the agent saw last.
fn shown(agent: &Agent) -> String {
    let received = agent.received().pop().expect("a call");
    assert_eq!(
        received.field("x-api-key"),
        None,
        "the caller's own credential: {}",
        received.head
    );
    received.field("authorization").unwrap_or_default().to_owned()
}

fn working() -> impl Fn(&Received) -> Reply + Send + Sync {
    agent::tasks(|| "t".to_owned())
}

/// Not sent to the agent, and worth another try.
fn is_unavailable(answer: &Answer) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.code(), -31503);
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(
        answer.text().contains("no credential for the agent"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn calls_that_wait_for_a_token_share_one_request() {
    let agent = Agent::start(working()).await;
    let (give, given) = oneshot::channel();
    let first = Mutex::new(Some(given));
    let server = Agent::start(move |_| match first.lock().unwrap().take() {
        Some(given) => Reply::Later(given),
        None => Reply::Json(token("another", 600)),
    })
    .await;
    let scopes = ", scopes: [ read, \"write:all\" ], audience: \"https://agent.example\", resource: \"urn:agent\"";
    let gateway = Gateway::start(&config(&agent, &server, scopes)).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let address = gateway.address;
            tokio::spawn(async move { post(address, "/agent", &send("1", "x")).await })
        })
        .collect();
    eventually("all calls have come", || async {
        gateway
            .metric("a2a_gateway_connections_total{listener=\"public\"}")
            .await
            >= 20.0
    })
    .await;
    assert!(agent.received().is_empty(), "nothing is sent without a token");
    give.send(token("first", 600)).unwrap();
    for answer in join_all(calls).await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(agent.received().len(), 20);
    assert!(
        agent
            .received()
            .iter()
            .all(|call| call.field("authorization") == Some("Bearer first"))
    );
    shown(&agent);
    let asked = server.received();
    assert_eq!(asked.len(), 1, "one request for all");
    let asked = &asked[0];
    assert_eq!(asked.line(), "POST /token");
    assert_eq!(asked.field("content-type"), Some("application/x-www-form-urlencoded"));
    // RFC 6749 §2.3.1: both are form-urlencoded first.
    let basic = format!("Basic {}", STANDARD.encode("gate+way:s3cret%3A%2B"));
    assert_eq!(asked.field("authorization"), Some(&*basic));
    let said = form(asked);
    let expected = [
        ("grant_type", "client_credentials"),
        ("scope", "read write:all"),
        ("audience", "https://agent.example"),
        ("resource", "urn:agent"),
    ];
    assert_eq!(said, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(
        gateway
            .metric("a2a_gateway_upstream_tokens_total{agent=\"agent\",result=\"token\"}")
            .await,
        1.0
    );
}

#[tokio::test]
async fn id_and_secret_stand_in_the_body_where_that_is_asked_for() {
    let agent = Agent::start(working()).await;
    let server = counting(600).await;
    let gateway = Gateway::start(&config(&agent, &server, ", authentication: post")).await;
    gateway.ready().await;
    assert_eq!(called(&gateway).await.status, 200);
    let asked = &server.received()[0];
    assert_eq!(asked.field("authorization"), None);
    assert_eq!(field(asked, "client_id").as_deref(), Some("gate way"));
    assert_eq!(field(asked, "client_secret").as_deref(), Some("s3cret:+"));
}

#[tokio::test]
async fn cards_and_health_checks_carry_the_token_too() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON, |request| match request.line() {
        "GET /healthz" => Reply::Json("{}".to_owned()),
        line => panic!("{line}"),
    })
    .await;
    let server = counting(600).await;
    let yaml = config(&agent, &server, "").replace(
        "credential: {",
        "health: { path: /healthz, interval: 1s, timeout: 1s }, credential: {",
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    eventually("the endpoint is checked", || async { !agent.received().is_empty() }).await;
    assert_eq!(shown(&agent), "Bearer t1");
    let cards = agent.card_requests();
    assert!(!cards.is_empty());
    for card in cards {
        assert_eq!(card.field("authorization"), Some("Bearer t1"), "{}", card.head);
    }
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_token_is_followed_by_another_before_it_ends() {
    let agent = Agent::start(working()).await;
    let server = counting(2).await;
    let gateway = Gateway::start(&config(&agent, &server, "")).await;
    gateway.ready().await;
    eventually("the third token is shown", || async {
        let answer = called(&gateway).await;
        assert_eq!(answer.status, 200, "no call fails meanwhile: {}", answer.text());
        shown(&agent) == "Bearer t3"
    })
    .await;
}

#[tokio::test]
async fn a_token_goes_on_while_its_server_is_away_and_nothing_is_sent_after_its_end() {
    let agent = Agent::start(working()).await;
    let away = Arc::new(AtomicBool::new(false));
    let (is_away, count) = (away.clone(), AtomicUsize::new(0));
    let server = Agent::start(move |_| {
        if is_away.load(Ordering::SeqCst) {
            return Reply::Whole(500, "", "no".to_owned());
        }
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        Reply::Json(token(&format!("t{number}"), 3))
    })
    .await;
    let gateway = Gateway::start(&config(&agent, &server, "")).await;
    gateway.ready().await;
    assert_eq!(called(&gateway).await.status, 200);
    away.store(true, Ordering::SeqCst);
    let last = format!("Bearer t{}", server.received().len());
    let asked = server.received().len();
    eventually("the server has failed", || async { server.received().len() > asked }).await;
    // Whether it still holds now is a question of time; while it is sent it is the one that was there.
    eventually("the token has ended", || async {
        let before = agent.received().len();
        let answer = called(&gateway).await;
        if answer.status == 200 {
            assert_eq!(shown(&agent), last);
            return false;
        }
        is_unavailable(&answer);
        assert_eq!(agent.received().len(), before, "nothing is sent without a token");
        true
    })
    .await;
    away.store(false, Ordering::SeqCst);
    eventually("there is a token again", || async {
        called(&gateway).await.status == 200
    })
    .await;
    assert_ne!(shown(&agent), last);
}

#[tokio::test]
async fn what_a_broken_server_answers_is_never_shown_to_the_agent() {
    let elsewhere = counting(600).await;
    let redirect: &'static str = Box::leak(format!("location: {}\r\n", url(&elsewhere)).into_boxed_str());
    let told = |text: &'static str| move || Reply::Json(text.to_owned());
    let cases: Vec<Case> = vec![
        // RFC 6749 §7.1: a type that is not understood is not used.
        (
            "another type",
            Box::new(told(r#"{"access_token":"a","token_type":"mac","expires_in":600}"#)),
        ),
        ("no type", Box::new(told(r#"{"access_token":"a","expires_in":600}"#))),
        (
            "no token",
            Box::new(told(r#"{"token_type":"Bearer","expires_in":600}"#)),
        ),
        (
            "an empty token",
            Box::new(told(r#"{"access_token":"","token_type":"Bearer"}"#)),
        ),
        (
            "two fields in one",
            Box::new(told(r#"{"access_token":"a\r\nx-admin: 1","token_type":"Bearer"}"#)),
        ),
        (
            "two tokens",
            Box::new(told(r#"{"access_token":"a","access_token":"b","token_type":"Bearer"}"#)),
        ),
        (
            "a token that has ended",
            Box::new(told(r#"{"access_token":"a","token_type":"Bearer","expires_in":0}"#)),
        ),
        (
            "a life that is none",
            Box::new(told(r#"{"access_token":"a","token_type":"Bearer","expires_in":-5}"#)),
        ),
        ("no JSON", Box::new(told("<html>"))),
        (
            "far too much",
            Box::new(|| Reply::Json(format!("{{\"x\":\"{}\"}}", "x".repeat(100_000)))),
        ),
        (
            "a redirect",
            Box::new(move || Reply::Whole(302, redirect, String::new())),
        ),
        (
            "a redirect of the post",
            Box::new(move || Reply::Whole(307, redirect, String::new())),
        ),
        (
            "an error of the server",
            Box::new(|| Reply::Whole(500, "", token("a", 600))),
        ),
        ("an unknown client", Box::new(|| error(401, "invalid_client"))),
        ("another success", Box::new(|| Reply::Whole(201, "", token("a", 600)))),
        (
            "half an answer",
            Box::new(|| Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{".to_vec())),
        ),
        ("nothing", Box::new(|| Reply::Silence)),
    ];
    for (what, reply) in cases {
        let agent = Agent::start(working()).await;
        let server = Agent::start(move |_| reply()).await;
        let gateway = Gateway::start(&config(&agent, &server, ", timeout: 300ms")).await;
        let answer = called(&gateway).await;
        assert_eq!(answer.status, 503, "{what}: {}", answer.text());
        is_unavailable(&answer);
        assert!(
            agent.received().is_empty() && agent.card_requests().is_empty(),
            "{what}"
        );
    }
    assert_eq!(elsewhere.connections(), 0, "no redirect is followed");
}

#[tokio::test]
async fn the_server_is_believed_by_the_ca_that_is_named() {
    let authority = Authority::new();
    let agent = Agent::start(working()).await;
    let server = Agent::over_tls(authority.open_server("localhost"), |_| Reply::Json(token("t", 600))).await;
    let secure = format!("https://localhost:{}/token", server.address.port());
    let yaml = |more: &str| config(&agent, &server, more).replace(&url(&server), &secure);
    let folder = authority.folder.path();
    let gateway = Gateway::start_in(&yaml(", ca: ca.pem"), folder).await;
    gateway.ready().await;
    assert_eq!(called(&gateway).await.status, 200);
    assert_eq!(shown(&agent), "Bearer t");
    let (asked, sent) = (server.received().len(), agent.received().len());
    let gateway = Gateway::start_in(&yaml(""), folder).await;
    is_unavailable(&called(&gateway).await);
    assert_eq!(
        (server.received().len(), agent.received().len()),
        (asked, sent),
        "the secret goes to nobody who cannot show who it is"
    );
}

/// Refuses the first tokens.
fn picky(refused: usize) -> impl Fn(&Received) -> Reply + Send + Sync {
    let works = working();
    move |request| {
        let number: usize = request.field("authorization").unwrap_or_default()["Bearer t".len()..]
            .parse()
            .unwrap();
        if number <= refused {
            return Reply::Whole(
                401,
                "www-authenticate: Bearer error=\"invalid_token\"\r\n",
                String::new(),
            );
        }
        works(request)
    }
}

#[tokio::test]
async fn a_read_that_the_agent_answers_401_is_repeated_with_another_token_and_a_send_is_not() {
    let server = counting(600).await;
    let agent = Agent::start(picky(1)).await;
    let gateway = Gateway::start(&config(&agent, &server, ", cooldown: 1ms")).await;
    gateway.ready().await;
    let answer = post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen: Vec<_> = agent.received();
    let seen: Vec<_> = seen.iter().map(|call| call.field("authorization").unwrap()).collect();
    assert_eq!(seen, ["Bearer t1", "Bearer t2"]);
    assert_eq!(server.received().len(), 2);

    let agent = Agent::start(picky(3)).await;
    let server = counting(600).await;
    let gateway = Gateway::start(&config(&agent, &server, ", cooldown: 1ms")).await;
    gateway.ready().await;
    let answer = called(&gateway).await;
    assert_eq!((answer.status, answer.code()), (502, -31502), "{}", answer.text());
    assert_eq!(agent.received().len(), 1, "it may have begun");
    eventually("another token is got, and later sends work", || async {
        called(&gateway).await.status == 200
    })
    .await;
    assert_eq!(shown(&agent), "Bearer t4");
}

#[tokio::test]
async fn over_grpc_calls_and_health_checks_carry_the_token_and_a_refusal_is_known_by_its_status() {
    let server = counting(600).await;
    let agent = GrpcAgent::start(CARD_GRPC, |request| {
        if request.path == grpc::HEALTH {
            // That it serves (grpc.health.v1).
            return GrpcReply::message(b"\x08\x01");
        }
        if request.field("authorization") == Some("Bearer t1") {
            return GrpcReply::failed(&Status {
                code: 16,
                ..Status::default()
            });
        }
        let task = json!({"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
        let message = grpc::from_json(Generation::V1_0, Operation::Get, task.to_string().as_bytes());
        GrpcReply::message(&message.unwrap())
    })
    .await;
    let upstream = format!(
        "health: {{ interval: 1s, timeout: 1s }}, credential: {{ client_credentials: {{ token_url: \"{}\", client_id: g, \
         client_secret: s, cooldown: 1ms }} }}",
        url(&server)
    );
    let gateway = Gateway::start(&with_upstream(&agent.config(OPEN), &upstream)).await;
    gateway.ready().await;
    let shown = |path: &str| {
        let received = agent.received();
        let calls = received
            .iter()
            .filter(|call| (call.path == grpc::HEALTH) == (path == grpc::HEALTH));
        let shown = calls.map(|call| call.field("authorization").unwrap_or_default().to_owned());
        shown.collect::<Vec<_>>()
    };
    eventually("its health is asked", || async { !shown(grpc::HEALTH).is_empty() }).await;
    assert_eq!(shown(grpc::HEALTH)[0], "Bearer t1");
    let caller = Caller(dialect(Generation::V1_0, Binding::JsonRpc));
    let got = caller.ask(&gateway, Operation::Get, &json!({"id": "t1"})).await;
    assert_eq!(got.unwrap()[0]["id"], "t1");
    assert_eq!(shown("calls"), ["Bearer t1", "Bearer t2"]);
}

#[tokio::test]
async fn a_stream_carries_the_token_and_outlives_it() {
    let (events, chunks) = mpsc::channel(4);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |request| {
        assert_eq!(request.field("authorization"), Some("Bearer t1"));
        Reply::Stream(chunks.lock().unwrap().take().expect("one call"))
    })
    .await;
    let server = counting(2).await;
    let gateway = Gateway::start(&config(&agent, &server, "")).await;
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let fields = [("x-api-key", KEY), ("content-type", "application/json")];
    events.send(Some(agent::task_event("1", "t"))).await.unwrap();
    let response = open(gateway.address, "POST", "/agent", &fields, &body).await;
    assert_eq!(response.status(), 200);
    eventually("the token has been followed by two", || async {
        server.received().len() >= 3
    })
    .await;
    events.send(Some(agent::task_event("1", "t"))).await.unwrap();
    drop(events);
    let text = collect(response).await.text();
    assert_eq!(text.matches("data: ").count(), 2, "{text}");
}

#[tokio::test]
async fn an_agent_that_refuses_every_token_does_not_load_the_server() {
    let server = counting(600).await;
    let agent = Agent::start(|_| Reply::Whole(401, "", String::new())).await;
    let gateway = Gateway::start(&config(&agent, &server, ", cooldown: 1h")).await;
    gateway.ready().await;
    for _ in 0..20 {
        assert_eq!(called(&gateway).await.status, 502);
        let read = post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
        assert_eq!(read.status, 502, "{}", read.text());
    }
    assert_eq!(agent.received().len(), 40, "nothing is repeated without another token");
    assert_eq!(server.received().len(), 1);
}

/// Gives a token that is named after the secret.
async fn by_secret() -> Agent {
    Agent::start(|request| {
        let secret = field(request, "client_secret").unwrap();
        match &*secret {
            "wrong" => error(401, "invalid_client"),
            secret => Reply::Json(token(&format!("of-{secret}"), 600)),
        }
    })
    .await
}

#[tokio::test]
async fn another_secret_in_the_file_is_shown_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "one\n").unwrap();
    let agent = Agent::start(working()).await;
    let server = by_secret().await;
    let yaml = config(&agent, &server, ", authentication: post")
        .replace("client_secret: \"s3cret:+\"", "client_secret_file: secret");
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    assert_eq!(called(&gateway).await.status, 200);
    assert_eq!(shown(&agent), "Bearer of-one");
    std::fs::write(&file, "two\n").unwrap();
    eventually("a token for the new secret is shown", || async {
        assert_eq!(called(&gateway).await.status, 200, "the old one goes on meanwhile");
        shown(&agent) == "Bearer of-two"
    })
    .await;
    // One that the server does not take leaves the token that is there.
    std::fs::write(&file, "wrong\n").unwrap();
    assert!(gateway.reload().await);
    eventually("it was tried", || async {
        let refused = "a2a_gateway_upstream_tokens_total{agent=\"agent\",result=\"refused\"}";
        gateway.metric(refused).await >= 1.0
    })
    .await;
    assert_eq!(called(&gateway).await.status, 200);
    assert_eq!(shown(&agent), "Bearer of-two");
    // It is tried at once again, not after the pause that failures make.
    std::fs::write(&file, "three\n").unwrap();
    assert!(gateway.reload().await);
    eventually("a token for the third secret is shown", || async {
        called(&gateway).await;
        shown(&agent) == "Bearer of-three"
    })
    .await;
}

#[tokio::test]
async fn a_reload_that_makes_connections_anew_keeps_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.yaml");
    let agent = Agent::start(working()).await;
    let count = AtomicUsize::new(0);
    let server = Agent::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Json(token("t1", 600)),
        _ => Reply::Whole(500, "", String::new()),
    })
    .await;
    let yaml = config(&agent, &server, "");
    std::fs::write(&path, &yaml).unwrap();
    let gateway = Gateway::from_file(&path).await;
    gateway.ready().await;
    assert_eq!(called(&gateway).await.status, 200);
    std::fs::write(
        &path,
        yaml.replace("credential: {", "connect_timeout: 6s, credential: {"),
    )
    .unwrap();
    assert!(gateway.reload().await);
    let answer = called(&gateway).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(shown(&agent), "Bearer t1");
    assert_eq!(server.received().len(), 1);
    // Another client is somebody else: nothing of the old one's goes on.
    std::fs::write(&path, yaml.replace("gate way", "other")).unwrap();
    assert!(gateway.reload().await);
    is_unavailable(&called(&gateway).await);
}
