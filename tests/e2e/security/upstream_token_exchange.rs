//! A token for each caller at an agent, for the one that it showed: OAuth 2.0 token exchange (RFC 8693).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::token_server::{Case, Issuer, error, field, form, token, url};
use crate::harness::agent::{CARD, CARD_HTTP_JSON, Received};
use crate::harness::authority::Authority;
use crate::harness::{
    Agent, Answer, Gateway, KEY, KEY_HASH, OPEN, Reply, agent, call, config_of, eventually, of_task, send,
    with_upstream,
};

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

struct Site {
    issuer: Issuer,
    gateway: Gateway,
    folder: TempDir,
}

/// `more` is added to the exchange, `upstream` to the upstream.
fn config(agents: &[&Agent], server: &Agent, more: &str, upstream: &str) -> String {
    let exchange = format!(
        "{upstream} credential: {{ token_exchange: {{ token_url: \"{}\", client_id: gateway, client_secret: s3cret {more} }} }}",
        url(server)
    );
    let addresses: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    with_upstream(&config_of(&addresses, OPEN, ""), &exchange)
        .replace(
            "security_schemes:\n",
            &format!("security_schemes:\n{}\n", Issuer::scheme()),
        )
        .replace("security: [ { key: [] } ]", "security: [ { token: [] }, { key: [] } ]")
}

async fn site(yaml: &str) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path());
    let gateway = Gateway::start_in(yaml, folder.path()).await;
    gateway.ready().await;
    Site {
        issuer,
        gateway,
        folder,
    }
}

impl Site {
    fn token(&self, subject: &str) -> String {
        self.issuer.token(subject, json!({}))
    }

    async fn ask(&self, token: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let fields = [("authorization", &*bearer), ("content-type", "application/json")];
        call(self.gateway.address, "POST", "/agent", &fields, body).await
    }

    async fn send(&self, token: &str) -> Answer {
        self.ask(token, &send("1", "x")).await
    }

    async fn obtained(&self, result: &str) -> f64 {
        let name = "a2a_gateway_upstream_tokens_total";
        self.gateway
            .metric(&format!("{name}{{agent=\"agent\",result=\"{result}\"}}"))
            .await
    }
}

fn working() -> impl Fn(&Received) -> Reply + Send + Sync {
    agent::tasks(|| "t".to_owned())
}

/// Whose token it is, as a token server reads it.
fn subject(request: &Received) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let token = field(request, "subject_token").unwrap();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    claims["sub"].as_str().unwrap().to_owned()
}

/// Gives `<subject>-<number>`, which lives so many seconds.
async fn exchanging(expires_in: u64) -> Agent {
    let count = AtomicUsize::new(0);
    Agent::start(move |request| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        Reply::Json(token(&format!("{}-{number}", subject(request)), expires_in))
    })
    .await
}

fn shown(agent: &Agent) -> Vec<String> {
    let received = agent.received();
    let values = received.iter().map(|call| {
        assert_eq!(call.field("x-api-key"), None, "{}", call.head);
        call.field("authorization").unwrap_or_default().to_owned()
    });
    values.collect()
}

fn refused(answer: &Answer, code: i64, text: &str) {
    assert_eq!(answer.code(), code, "{}", answer.text());
    assert_eq!(i64::from(answer.status), -31000 - code, "{}", answer.text());
    assert!(answer.text().contains(text), "{}", answer.text());
    let again = (answer.status == 503).then_some("5");
    assert_eq!(answer.header("retry-after"), again);
}

const UNAVAILABLE: (i64, &str) = (-31503, "no credential for the agent");
const REFUSED: (i64, &str) = (-31403, "gives no access to this agent");
const MISSING: (i64, &str) = (-31403, "takes a bearer token");

#[tokio::test]
async fn each_callers_calls_go_with_the_token_that_was_given_for_its_own() {
    let agent = Agent::start(working()).await;
    let server = exchanging(600).await;
    let more = ", audience: maps, resource: \"https://agent.example/\", scopes: [ read ], \
                requested_token_type: \"urn:ietf:params:oauth:token-type:jwt\"";
    let site = site(&config(&[&agent], &server, more, "")).await;
    let (ann, bob) = (site.token("ann"), site.token("bob"));
    for (token, expected) in [(&ann, "ann-1"), (&bob, "bob-2"), (&ann, "ann-1"), (&bob, "bob-2")] {
        let answer = site.send(token).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(shown(&agent).pop(), Some(format!("Bearer {expected}")));
        let call = agent.received().pop().unwrap();
        let whole = format!("{}{}", call.head, String::from_utf8_lossy(&call.body));
        assert!(!whole.contains(token.as_str()), "the caller's token stays: {whole}");
    }
    let asked = server.received();
    assert_eq!(asked.len(), 2, "each token is exchanged once");
    assert_eq!(asked[0].field("authorization"), Some("Basic Z2F0ZXdheTpzM2NyZXQ="));
    let expected = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", &ann),
        ("subject_token_type", ACCESS_TOKEN),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("scope", "read"),
        ("audience", "maps"),
        ("resource", "https://agent.example/"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(form(&asked[0]), expected, "RFC 8693 §2.1");
}

#[tokio::test]
async fn calls_with_one_token_share_one_exchange() {
    let agent = Agent::start(working()).await;
    let (give, given) = oneshot::channel();
    let first = Mutex::new(Some(given));
    let server = Agent::start(move |_| match first.lock().unwrap().take() {
        Some(given) => Reply::Later(given),
        None => Reply::Json(token("another", 600)),
    })
    .await;
    let site = Arc::new(site(&config(&[&agent], &server, "", "")).await);
    let ann = site.token("ann");
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let (site, ann) = (site.clone(), ann.clone());
            tokio::spawn(async move { site.send(&ann).await })
        })
        .collect();
    eventually("all calls have come", || async {
        let open = "a2a_gateway_connections_total{listener=\"public\"}";
        site.gateway.metric(open).await >= 20.0
    })
    .await;
    assert!(agent.received().is_empty(), "nothing is sent without a token");
    give.send(token("one", 600)).unwrap();
    for answer in join_all(calls).await {
        assert_eq!(answer.unwrap().status, 200);
    }
    assert_eq!(shown(&agent), vec!["Bearer one"; 20]);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn callers_who_show_no_bearer_token_are_refused() {
    let agent = Agent::start(working()).await;
    let server = exchanging(600).await;
    let yaml = config(&[&agent], &server, "", "");
    // What ends is no token because of that.
    let expires = format!("{KEY_HASH}\", expires: \"2100-01-01T00:00:00Z\"");
    let ending = yaml.replace(&format!("{KEY_HASH}\""), &expires);
    assert_ne!(ending, yaml);
    for (what, yaml, fields) in [
        ("a key", yaml.clone(), vec![("x-api-key", KEY)]),
        (
            "a key beside somebody's token, which nobody looked at",
            yaml.replace("{ token: [] }, ", ""),
            vec![("x-api-key", KEY), ("authorization", "Bearer forged")],
        ),
        (
            "a key that ends, beside somebody's token",
            ending.replace("{ token: [] }, ", ""),
            vec![("x-api-key", KEY), ("authorization", "Bearer forged")],
        ),
        (
            "the same, where a good token would do",
            ending,
            vec![("x-api-key", KEY), ("authorization", "Bearer forged")],
        ),
        (
            "nothing",
            yaml.replace("{ token: [] }, { key: [] } ]", "{} ]"),
            vec![("authorization", "Bearer forged")],
        ),
    ] {
        let site = site(&yaml).await;
        for body in [send("1", "x"), of_task("GetTask", "t")] {
            let fields: Vec<_> = fields
                .iter()
                .copied()
                .chain([("content-type", "application/json")])
                .collect();
            let answer = call(site.gateway.address, "POST", "/agent", &fields, &body).await;
            assert_eq!(answer.status, 403, "{what}: {}", answer.text());
            refused(&answer, MISSING.0, MISSING.1);
        }
        let failures = "a2a_gateway_upstream_failures_total";
        assert_eq!(
            site.gateway.metric(failures).await,
            0.0,
            "{what}: the agent was not asked"
        );
        let rejects = "a2a_gateway_rejects_total{fault=\"downstream\",reason=\"caller_token_missing\"}";
        assert_eq!(site.gateway.metric(rejects).await, 2.0, "{what}");
    }
    assert!(agent.received().is_empty() && server.received().is_empty());
}

#[tokio::test]
async fn what_the_server_refuses_is_the_callers_and_remembered_for_a_while() {
    for code in [
        "invalid_grant",
        "invalid_target",
        "invalid_request",
        "invalid_scope",
        "access_denied",
    ] {
        let agent = Agent::start(working()).await;
        let allows = Arc::new(AtomicBool::new(false));
        let allowed = allows.clone();
        let server = Agent::start(move |request| match &*subject(request) {
            "ann" if !allowed.load(Ordering::SeqCst) => error(400, code),
            subject => Reply::Json(token(subject, 600)),
        })
        .await;
        let site = site(&config(&[&agent], &server, ", refused_for: 500ms", "")).await;
        let ann = site.token("ann");
        let answer = site.send(&ann).await;
        refused(&answer, REFUSED.0, REFUSED.1);
        assert!(
            !answer.text().contains("s3cret"),
            "nothing of the server's text: {}",
            answer.text()
        );
        assert_eq!(
            site.send(&site.token("bob")).await.status,
            200,
            "others are not concerned"
        );
        allows.store(true, Ordering::SeqCst);
        let mut answers = Vec::new();
        eventually("the right is seen", || {
            let asking = site.send(&ann);
            async { asking.await.status == 200 }
        })
        .await;
        answers.push(site.send(&ann).await.status);
        assert_eq!(answers, [200]);
        assert_eq!(shown(&agent), ["Bearer bob", "Bearer ann", "Bearer ann"], "{code}");
        assert_eq!(site.obtained("refused").await, 1.0);
    }
}

#[tokio::test]
async fn a_refused_caller_who_tries_on_does_not_load_the_server() {
    let agent = Agent::start(working()).await;
    let server = Agent::start(|_| error(400, "invalid_grant")).await;
    let site = site(&config(&[&agent], &server, ", refused_for: 1h", "")).await;
    let ann = site.token("ann");
    for _ in 0..20 {
        let answer = site.send(&ann).await;
        refused(&answer, REFUSED.0, REFUSED.1);
    }
    assert_eq!(server.received().len(), 1);
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn a_server_that_fails_makes_calls_unavailable() {
    let typed = |issued: &str| {
        let mut told: serde_json::Value = serde_json::from_str(&token("a", 600)).unwrap();
        told["issued_token_type"] = issued.into();
        told.to_string()
    };
    let refresh = typed("urn:ietf:params:oauth:token-type:refresh_token");
    let cases: Vec<Case> = vec![
        ("an error", Box::new(|| Reply::Whole(500, "", token("a", 600)))),
        // The gateway's own fault: nothing that the caller could mend.
        ("an unknown client", Box::new(|| error(401, "invalid_client"))),
        ("no right to exchange", Box::new(|| error(400, "unauthorized_client"))),
        (
            "an error without a code",
            Box::new(|| Reply::Whole(400, "", "no".to_owned())),
        ),
        (
            "a redirect",
            Box::new(|| Reply::Whole(307, "location: /other\r\n", String::new())),
        ),
        // RFC 8693 §2.2.1: what cannot be shown as a bearer token.
        (
            "no access token",
            Box::new(|| Reply::Json(r#"{"access_token":"a","token_type":"N_A"}"#.to_owned())),
        ),
        ("a refresh token", Box::new(move || Reply::Json(refresh.clone()))),
        ("nothing", Box::new(|| Reply::Silence)),
    ];
    for (what, reply) in cases {
        let agent = Agent::start(working()).await;
        let server = Agent::start(move |_| reply()).await;
        let site = site(&config(&[&agent], &server, ", timeout: 300ms", "")).await;
        let answer = site.send(&site.token("ann")).await;
        assert_eq!(answer.status, 503, "{what}: {}", answer.text());
        refused(&answer, UNAVAILABLE.0, UNAVAILABLE.1);
        assert!(agent.received().is_empty(), "{what}");
        assert_eq!(server.received().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_token_is_used_no_longer_than_it_and_the_callers_hold() {
    let agent = Agent::start(working()).await;
    let server = exchanging(1).await;
    let site = site(&config(&[&agent], &server, "", "")).await;
    let ann = site.token("ann");
    eventually("another one is shown after the first", || async {
        assert_eq!(site.send(&ann).await.status, 200);
        shown(&agent).pop().unwrap() != "Bearer ann-1"
    })
    .await;

    // The caller's own has two seconds; within the leeway it is taken for half a minute more.
    let server = exchanging(600).await;
    let site = self::site(&config(&[&agent], &server, "", "")).await;
    let short = site
        .issuer
        .token("bob", json!({ "exp": super::token_server::now() + 2 }));
    assert_eq!(site.send(&short).await.status, 200);
    assert_eq!(shown(&agent).pop().unwrap(), "Bearer bob-1");
    eventually("what was given for it has ended with it", || async {
        assert_eq!(site.send(&short).await.status, 200);
        shown(&agent).pop().unwrap() != "Bearer bob-1"
    })
    .await;
}

#[tokio::test]
async fn a_token_goes_on_while_its_server_is_away() {
    let agent = Agent::start(working()).await;
    let count = AtomicUsize::new(0);
    let server = Agent::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Json(token("first", 12)),
        _ => Reply::Whole(500, "", String::new()),
    })
    .await;
    let site = site(&config(&[&agent], &server, "", "")).await;
    let ann = site.token("ann");
    eventually("another one was asked for, and the first goes on", || async {
        let answer = site.send(&ann).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(shown(&agent).pop().unwrap(), "Bearer first");
        server.received().len() > 1
    })
    .await;
    eventually("that failed", || async { site.obtained("failed").await >= 1.0 }).await;
    assert_eq!(site.send(&ann).await.status, 200);
    assert_eq!(shown(&agent).pop().unwrap(), "Bearer first");
}

#[tokio::test]
async fn what_the_gateway_asks_for_no_caller_shows_nothing() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON, |request| match request.line() {
        "GET /healthz" => Reply::Json("{}".to_owned()),
        line => panic!("{line}"),
    })
    .await;
    let server = exchanging(600).await;
    let health = "health: { path: /healthz, interval: 1s, timeout: 1s },";
    let site = site(&config(&[&agent], &server, "", health)).await;
    eventually("the endpoint is checked", || async { !agent.received().is_empty() }).await;
    assert_eq!(shown(&agent)[0], "");
    let cards = agent.card_requests();
    assert!(!cards.is_empty() && cards.iter().all(|card| card.field("authorization").is_none()));
    assert!(server.received().is_empty());
    assert!(site.gateway.shutdown().await);
}

#[tokio::test]
async fn what_is_asked_for_a_caller_goes_with_its_token() {
    // A list of two endpoints, a task that nobody has a record of, the extended card.
    let answers = |request: &Received| {
        let call = request.json();
        let id = &call["id"];
        Reply::Json(match call["method"].as_str().unwrap() {
            "ListTasks" => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}})
                    .to_string()
            }
            "GetExtendedAgentCard" => {
                let card: serde_json::Value = serde_json::from_str(CARD).unwrap();
                json!({"jsonrpc": "2.0", "id": id, "result": card}).to_string()
            }
            _ => {
                let task = json!({"id": call["params"]["id"], "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
                json!({"jsonrpc": "2.0", "id": id, "result": task}).to_string()
            }
        })
    };
    let (one, two) = (Agent::start(answers).await, Agent::start(answers).await);
    let server = exchanging(600).await;
    let site = site(&config(&[&one, &two], &server, "", "")).await;
    let ann = site.token("ann");
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;
    let card = r#"{"jsonrpc":"2.0","id":"l","method":"GetExtendedAgentCard"}"#;
    for (what, body) in [("list", list), ("search", &*of_task("GetTask", "t9")), ("card", card)] {
        let answer = site.ask(&ann, body).await;
        assert!(
            answer.status == 200 && answer.json().get("error").is_none(),
            "{what}: {}",
            answer.text()
        );
    }
    assert!(
        one.received().len() + two.received().len() >= 5,
        "both were asked for the list and the task"
    );
    for agent in [&one, &two] {
        assert!(agent.received().len() >= 2);
        assert!(
            shown(agent).iter().all(|shown| shown == "Bearer ann-1"),
            "{:?}",
            shown(agent)
        );
    }
    // Where there is no token all of these are refused for that, not for the endpoints.
    let server = Agent::start(|_| error(400, "invalid_grant")).await;
    let site = self::site(&config(&[&one, &two], &server, "", "")).await;
    let ann = site.token("ann");
    let before = one.received().len() + two.received().len();
    for body in [list, &*of_task("GetTask", "t9"), card] {
        let answer = site.ask(&ann, body).await;
        refused(&answer, REFUSED.0, REFUSED.1);
    }
    assert_eq!(one.received().len() + two.received().len(), before);
}

/// RFC 7662 §2.2: `exp` is optional. Such a token is asked about again, and what was given for it holds as long as it says.
#[tokio::test]
async fn a_token_of_which_no_end_is_told_is_exchanged_too() {
    let agent = Agent::start(working()).await;
    let server = Agent::start(|request| match request.line() {
        "POST /introspect" => Reply::Json(json!({ "active": true, "sub": "ann", "aud": "a2a" }).to_string()),
        _ => Reply::Json(token("exchanged", 600)),
    })
    .await;
    let introspection = format!(
        "introspection: {{ url: \"http://{}/introspect\", client_id: g, client_secret: s }}",
        server.address
    );
    let yaml = config(&[&agent], &server, "", "").replace("jwks_file: keys.json", &introspection);
    let site = site(&yaml).await;
    for _ in 0..2 {
        let answer = site.send("opaque").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(shown(&agent), ["Bearer exchanged", "Bearer exchanged"]);
    assert_eq!(server.received().len(), 2, "one question, one exchange");
}

#[tokio::test]
async fn another_ca_of_the_token_server_counts_from_the_next_reload_on() {
    let (authority, other) = (Authority::new(), Authority::new());
    let agent = Agent::start(working()).await;
    let server = Agent::over_tls(authority.open_server("localhost"), |request| {
        Reply::Json(token(&subject(request), 600))
    })
    .await;
    let secure = format!("https://localhost:{}/token", server.address.port());
    let yaml = config(&[&agent], &server, ", ca: server.pem", "").replace(&url(&server), &secure);
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path());
    std::fs::write(folder.path().join("server.pem"), other.issuer.pem()).unwrap();
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    let site = Site {
        issuer,
        gateway,
        folder,
    };
    let refused_for = async |subject: &str| {
        let answer = site.send(&site.token(subject)).await;
        refused(&answer, UNAVAILABLE.0, UNAVAILABLE.1);
    };
    refused_for("ann").await;
    assert!(
        server.received().is_empty(),
        "no token goes to who cannot show who it is"
    );
    std::fs::write(site.folder.path().join("server.pem"), authority.issuer.pem()).unwrap();
    assert!(site.gateway.reload().await);
    eventually("what failed is tried again", || async {
        site.send(&site.token("ann")).await.status == 200
    })
    .await;
    std::fs::write(site.folder.path().join("server.pem"), other.issuer.pem()).unwrap();
    assert!(site.gateway.reload().await);
    let asked = server.received().len();
    refused_for("bob").await;
    assert_eq!(server.received().len(), asked);
}

#[tokio::test]
async fn one_caller_cannot_have_every_exchange() {
    let agent = Agent::start(working()).await;
    let server = Agent::start(|request| match &*subject(request) {
        "mallory" => Reply::Silence,
        subject => Reply::Json(token(subject, 600)),
    })
    .await;
    let site = Arc::new(site(&config(&[&agent], &server, ", concurrent: 2", "")).await);
    // Two tokens of one caller.
    let slow = site.token("mallory");
    let waiting = tokio::spawn({
        let (site, slow) = (site.clone(), slow.clone());
        async move { site.send(&slow).await }
    });
    eventually("an exchange is under way", || async { server.received().len() == 1 }).await;
    let other = site.issuer.token("mallory", json!({ "jti": "2" }));
    let answer = site.send(&other).await;
    refused(&answer, UNAVAILABLE.0, UNAVAILABLE.1);
    assert_eq!(site.obtained("busy").await, 1.0);
    assert_eq!(
        site.send(&site.token("ann")).await.status,
        200,
        "half is for the others"
    );
    assert!(!waiting.is_finished(), "the first one still waits");
    waiting.abort();
}

#[tokio::test]
async fn a_read_that_the_agent_answers_401_is_repeated_with_another_token() {
    let works = working();
    let agent = Agent::start(move |request| match request.field("authorization") {
        Some("Bearer ann-1") => Reply::Whole(401, "", String::new()),
        _ => works(request),
    })
    .await;
    let server = exchanging(600).await;
    let site = site(&config(&[&agent], &server, ", cooldown: 1ms", "")).await;
    let ann = site.token("ann");
    let answer = site.ask(&ann, &of_task("GetTask", "t")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(shown(&agent), ["Bearer ann-1", "Bearer ann-2"]);
    assert_eq!(server.received().len(), 2);
}
