//! RFC 7662 §2: opaque tokens, about which the issuer is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::tokens::{but, now};
use super::{ISSUER, Server, Site};
use crate::harness::agent::{Agent, Reply};
use crate::harness::authority::Authority;
use crate::harness::eventually;

const PLACE: &str = "/introspect";
const ANN: &str = "jwt:https://login.example.com#ann";

/// `more` are keys of `introspection`, `beside` such of the scheme.
fn scheme(server: &Server, more: &str, beside: &str) -> String {
    format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", {beside} introspection: {{ url: \"{}\", client_id: \"gate way:1\", client_secret: \"s&cr%t\", {more} }}",
        server.url(PLACE)
    )
}

async fn site(server: &Server, more: &str) -> Site {
    Site::start(&scheme(server, more, "audience: [ a2a, b ],")).await
}

fn active() -> Value {
    json!({ "active": true, "sub": "ann", "aud": ["other", "a2a"], "exp": now() + 600, "scope": "read write" })
}

#[tokio::test]
async fn an_active_token_costs_one_question_that_shows_who_asks() {
    let server = Server::start().await;
    server.says(PLACE, 200, active());
    let site = site(&server, "cache_ttl: 1h").await;
    for _ in 0..3 {
        let answer = site.bearer("opaque~+/-._0=").await;
        site.admits("an active token", &answer, ANN).await;
    }
    let questions = server.questions(PLACE);
    assert_eq!(questions.len(), 1, "it is remembered");
    let question = &questions[0];
    assert_eq!(question.line(), "POST /introspect");
    assert_eq!(
        question.field("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    // RFC 6749 §2.3.1: `gate+way%3A1:s%26cr%25t`.
    assert_eq!(
        question.field("authorization"),
        Some("Basic Z2F0ZSt3YXklM0ExOnMlMjZjciUyNXQ=")
    );
    assert_eq!(
        String::from_utf8_lossy(&question.body),
        "token=opaque%7E%2B%2F-._0%3D&token_type_hint=access_token"
    );
    for received in site.agent.received() {
        assert_eq!(received.field("authorization"), None, "the token stays here");
    }
    assert_eq!(site.questions("good").await, 1.0);
    for secret in ["s&cr%t", "s%26cr%25t", "Z2F0ZSt3YXk", "opaque~"] {
        site.hides(secret).await;
    }
}

#[tokio::test]
async fn the_secret_may_stand_in_the_body() {
    let server = Server::start().await;
    server.says(PLACE, 200, active());
    let site = site(&server, "authentication: post").await;
    site.admits("an active token", &site.bearer("t").await, ANN).await;
    let question = &server.questions(PLACE)[0];
    assert_eq!(question.field("authorization"), None);
    assert_eq!(
        String::from_utf8_lossy(&question.body),
        "client_id=gate+way%3A1&client_secret=s%26cr%25t&token=t&token_type_hint=access_token"
    );
}

/// RFC 7662 §2.2: of all answers only those whose `active` is the boolean true admit, and then the rest must hold.
#[tokio::test]
async fn only_what_says_so_admits() {
    let server = Server::start().await;
    let site = site(&server, "timeout: 5s").await;
    let with = |more: Value| but(active(), &more).to_string();
    let twice = |member: &str| format!("{}, {member}}}", active().to_string().trim_end_matches('}'));
    let unclear = "";
    let cases = [
        ("inactive", 200, r#"{"active":false}"#.to_owned(), "inactive"),
        (
            "inactive, whatever else",
            200,
            with(json!({"active": false})),
            "inactive",
        ),
        ("true as a text", 200, with(json!({"active": "true"})), unclear),
        ("1", 200, with(json!({"active": 1})), unclear),
        ("not said", 200, with(json!({"active": null})), unclear),
        ("said twice", 200, twice(r#""active":true"#), unclear),
        ("two callers", 200, twice(r#""sub":"root""#), unclear),
        ("a list", 200, format!("[{}]", active()), unclear),
        ("a page", 200, "<html>".to_owned(), unclear),
        ("nothing", 200, String::new(), unclear),
        ("more behind it", 200, format!("{} {{}}", active()), unclear),
        ("too much", 200, with(json!({"x": "x".repeat(64 * 1024)})), unclear),
        ("a server that fails", 500, with(json!({})), unclear),
        ("a redirect", 302, with(json!({})), unclear),
        ("no content", 204, String::new(), unclear),
        ("a wrong secret of the gateway's", 401, with(json!({})), unclear),
        ("a forbidden question", 403, with(json!({})), unclear),
        (
            "somebody else's",
            200,
            with(json!({"iss": "https://evil.example"})),
            "wrong-issuer",
        ),
        ("two issuers", 200, with(json!({"iss": [ISSUER]})), "malformed"),
        (
            "for somebody else",
            200,
            with(json!({"aud": "other"})),
            "wrong-audience",
        ),
        ("for nobody", 200, with(json!({"aud": null})), "missing-claim"),
        ("of nobody", 200, with(json!({"sub": null})), "missing-claim"),
        ("expired", 200, with(json!({"exp": now() - 60})), "expired"),
        (
            "an expiry that is a text",
            200,
            with(json!({"exp": "never"})),
            "malformed",
        ),
        ("not yet valid", 200, with(json!({"nbf": now() + 600})), "not-yet-valid"),
        ("bound to a key", 200, with(json!({"token_type": "DPoP"})), "wrong-type"),
    ];
    for (index, (what, status, body, detail)) in cases.iter().enumerate() {
        server.says(PLACE, *status, body);
        let answer = site.bearer(&format!("t{index}")).await;
        if detail.is_empty() {
            site.cannot_tell(what, &answer).await;
        } else {
            site.refuses(what, &answer, detail).await;
        }
    }
    assert_eq!(server.asked(PLACE), cases.len());
    assert_eq!(site.agent.received().len(), 0, "none of them reaches the agent");
    for more in [
        json!({"iss": ISSUER}),
        json!({"exp": null}),
        json!({"aud": "b", "token_type": "bearer"}),
        json!({"nbf": now()}),
    ] {
        let body = with(more);
        server.says(PLACE, 200, &body);
        let answer = site.bearer(&format!("good{}", body.len())).await;
        site.admits(&body, &answer, ANN).await;
    }
}

#[tokio::test]
async fn a_server_is_believed_about_whom_a_token_is_for_where_no_audience_is_configured() {
    let server = Server::start().await;
    server.says(PLACE, 200, json!({ "active": true, "sub": "ann" }));
    let site = Site::start(&scheme(&server, "", "")).await;
    site.admits("no audience", &site.bearer("t").await, ANN).await;
}

#[tokio::test]
async fn what_no_token_can_be_is_asked_of_nobody() {
    let server = Server::start().await;
    server.says(PLACE, 200, active());
    let site = site(&server, "").await;
    let long = "x".repeat(8 * 1024 + 1);
    for (token, detail) in [
        ("a b", "malformed"),
        ("=", "malformed"),
        ("a=b", "malformed"),
        ("a,b", "malformed"),
        ("a\"b", "malformed"),
        (&*long, "too-long"),
    ] {
        site.refuses(token, &site.bearer(token).await, detail).await;
    }
    assert_eq!(server.asked(PLACE), 0);
    assert_eq!(site.show("Basic YTpi").await.status, 401, "another scheme");
    assert_eq!(server.asked(PLACE), 0);
    site.admits("the longest", &site.bearer(&long[1..]).await, ANN).await;
}

#[tokio::test]
async fn a_revoked_token_goes_on_for_the_cache_ttl_and_no_longer() {
    let server = Server::start().await;
    server.says(PLACE, 200, active());
    let short = site(&server, "cache_ttl: 100ms").await;
    let long = site(&server, "cache_ttl: 1h").await;
    short.admits("before", &short.bearer("t").await, ANN).await;
    long.admits("before", &long.bearer("t").await, ANN).await;
    server.says(PLACE, 200, json!({ "active": false }));
    eventually("the token is refused", || async {
        short.bearer("t").await.status == 401
    })
    .await;
    long.admits("remembered", &long.bearer("t").await, ANN).await;
}

#[tokio::test]
async fn a_wrong_token_again_and_again_costs_one_question() {
    let server = Server::start().await;
    server.says(PLACE, 200, json!({ "active": false }));
    let site = site(&server, "negative_ttl: 1h").await;
    for _ in 0..10 {
        site.refuses("inactive", &site.bearer("t").await, "inactive").await;
    }
    assert_eq!(server.asked(PLACE), 1);
    assert_eq!(site.questions("bad").await, 1.0);
}

#[tokio::test]
async fn requests_with_one_token_share_one_question() {
    let server = Server::start().await;
    let (answer, coming) = oneshot::channel();
    let coming = std::sync::Mutex::new(Some(coming));
    server.does(PLACE, move |_| {
        Reply::Later(coming.lock().unwrap().take().expect("one question"))
    });
    let site = Arc::new(site(&server, "timeout: 15s").await);
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let site = site.clone();
        calls.spawn(async move { site.bearer("t").await });
    }
    eventually("a question", || async { server.asked(PLACE) == 1 }).await;
    answer.send(active().to_string()).unwrap();
    while let Some(answer) = calls.join_next().await {
        site.admits("one of many", &answer.unwrap(), ANN).await;
    }
    assert_eq!(server.asked(PLACE), 1);
}

/// Whoever asked first may leave: the others go on with its question, or ask one of their own.
#[tokio::test]
async fn a_caller_is_answered_whoever_else_leaves() {
    let server = Server::start().await;
    let (answer, coming) = oneshot::channel();
    let coming = std::sync::Mutex::new(Some(coming));
    server.does(PLACE, move |_| match coming.lock().unwrap().take() {
        Some(coming) => Reply::Later(coming),
        None => Reply::Json(active().to_string()),
    });
    let site = Arc::new(site(&server, "timeout: 15s").await);
    let begin = || {
        let site = site.clone();
        tokio::spawn(async move { site.bearer("t").await })
    };
    let first = begin();
    eventually("a question", || async { server.asked(PLACE) == 1 }).await;
    let second = begin();
    eventually("two connections", || async {
        let line = "a2a_gateway_connections_total{listener=\"public\"}";
        site.gateway.metric(line).await >= 2.0
    })
    .await;
    first.abort();
    let _gone = first.await;
    // Nobody takes it where the second came too late to share the question.
    let _not_needed = answer.send(active().to_string());
    site.admits("the second", &second.await.unwrap(), ANN).await;
}

#[tokio::test]
async fn more_questions_than_allowed_are_not_asked() {
    let server = Server::start().await;
    server.does(PLACE, |_| Reply::Silence);
    let site = Arc::new(site(&server, "concurrent: 1, timeout: 60s").await);
    let stuck = tokio::spawn({
        let site = site.clone();
        async move { site.bearer("stuck").await }
    });
    eventually("a question", || async { server.asked(PLACE) == 1 }).await;
    for index in 0..5 {
        let answer = site.bearer(&format!("t{index}")).await;
        site.cannot_tell("one too many", &answer).await;
    }
    assert_eq!(server.asked(PLACE), 1);
    assert_eq!(site.questions("refused").await, 5.0);
    // Whoever waited left, so there is a place again.
    stuck.abort();
    let _gone = stuck.await;
    server.says(PLACE, 200, active());
    eventually("the place is free", || async { site.bearer("t").await.status == 200 }).await;
}

#[tokio::test]
async fn one_address_gets_a_quarter_of_the_questions() {
    let server = Server::start().await;
    server.does(PLACE, |_| Reply::Silence);
    let site = Arc::new(site(&server, "concurrent: 8, timeout: 60s").await);
    let mut stuck = JoinSet::new();
    for index in 0..2 {
        let site = site.clone();
        stuck.spawn(async move { site.bearer(&format!("stuck{index}")).await });
    }
    eventually("two questions", || async { server.asked(PLACE) == 2 }).await;
    site.cannot_tell("one too many", &site.bearer("t").await).await;
    assert_eq!(server.asked(PLACE), 2);
    assert_eq!(site.questions("refused").await, 1.0);
}

#[tokio::test]
async fn a_slow_server_admits_nobody_and_is_asked_again() {
    let server = Server::start().await;
    server.does(PLACE, |_| Reply::Silence);
    let site = site(&server, "timeout: 50ms").await;
    site.cannot_tell("slow", &site.bearer("t").await).await;
    server.says(PLACE, 200, active());
    eventually("it is asked again", || async { site.bearer("t").await.status == 200 }).await;
    assert!(site.questions("failed").await >= 1.0);
}

#[tokio::test]
async fn while_the_server_is_away_only_what_it_said_goes_on() {
    let server = Server::start().await;
    let away = Arc::new(AtomicUsize::new(0));
    let count = away.clone();
    server.does(PLACE, move |_| {
        // Every second answer fails.
        if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            Reply::Json(active().to_string())
        } else {
            Reply::Whole(503, "", String::new())
        }
    });
    let site = site(&server, "cache_ttl: 1h").await;
    site.admits("first", &site.bearer("a").await, ANN).await;
    site.cannot_tell("it flaps", &site.bearer("b").await).await;
    site.admits("and is back", &site.bearer("b").await, ANN).await;
    site.cannot_tell("it flaps", &site.bearer("c").await).await;
    drop(server);
    for token in ["a", "b"] {
        site.admits("remembered", &site.bearer(token).await, ANN).await;
    }
    site.cannot_tell("unknown", &site.bearer("c").await).await;
    assert_eq!(away.load(Ordering::SeqCst), 4, "nothing that was remembered was asked");
}

/// RFC 7662 §4: a token goes to nobody but the server, and nobody else is believed about one.
#[tokio::test]
async fn over_tls_only_who_the_ca_vouches_for_is_asked() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let acceptor = authority.open_server("localhost");
    let server = Agent::over_tls(acceptor, |_| Reply::Json(active().to_string())).await;
    let site = async |ca: &Authority| {
        let scheme = format!(
            "type: http, scheme: bearer, issuer: \"{ISSUER}\", introspection: {{ url: \"https://localhost:{}/\", client_id: c, client_secret: s, ca: \"{}\" }}",
            server.address.port(),
            ca.folder.path().join("ca.pem").display()
        );
        Site::start(&scheme).await
    };
    let good = site(&authority).await;
    good.admits("over TLS", &good.bearer("t").await, ANN).await;
    assert_eq!(server.received().len(), 1);
    let other = site(&stranger).await;
    other.cannot_tell("somebody else", &other.bearer("t").await).await;
    assert_eq!(server.received().len(), 1, "the token did not go there");
}

#[tokio::test]
async fn scopes_of_the_answer_count() {
    let server = Server::start().await;
    server.says(PLACE, 200, active());
    let scheme = scheme(&server, "", "audience: [ a2a ],");
    let site = Site::asking(&scheme, "[ { s: [ write ] } ]", "").await;
    site.gateway.ready().await;
    site.admits("enough", &site.bearer("t").await, ANN).await;
    let site = Site::asking(&scheme, "[ { s: [ admin ] } ]", "").await;
    site.gateway.ready().await;
    let answer = site.bearer("t").await;
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.header("www-authenticate"),
        Some(
            "Bearer realm=\"a2a-gateway\", error=\"insufficient_scope\", scope=\"admin\", resource_metadata=\"https://gateway.example/.well-known/oauth-protected-resource/agent\""
        )
    );
}

#[tokio::test]
async fn a_new_secret_is_shown_after_a_reload() {
    let server = Server::start().await;
    server.says(PLACE, 200, active());
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "old\n").unwrap();
    let scheme = format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", introspection: {{ url: \"{}\", client_id: c, client_secret_file: \"{}\", authentication: post, cache_ttl: 0s }}",
        server.url(PLACE),
        secret.display()
    );
    let site = Site::start(&scheme).await;
    let shown = || String::from_utf8(server.questions(PLACE).pop().unwrap().body).unwrap();
    site.admits("before", &site.bearer("t").await, ANN).await;
    assert!(shown().contains("client_secret=old&"), "{}", shown());
    std::fs::write(&secret, "new\n").unwrap();
    assert!(site.gateway.reload().await);
    site.admits("after", &site.bearer("t").await, ANN).await;
    assert!(shown().contains("client_secret=new&"), "{}", shown());
    std::fs::write(&secret, "").unwrap();
    assert!(!site.gateway.reload().await, "an empty secret is refused");
    site.admits("and nothing changes", &site.bearer("t").await, ANN).await;
    assert!(shown().contains("client_secret=new&"), "{}", shown());
}
