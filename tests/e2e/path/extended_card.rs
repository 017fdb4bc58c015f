//! The extended card of A2A 0.2, which has no call for it but a GET: for callers of it and at agents of it.

use crate::harness::agent::{Agent, CARD, Received, Reply};
use crate::harness::{Answer, Gateway, KEY, call, config_of, get, post, with_upstream};

const PATH: &str = "/agent/agent/authenticatedExtendedCard";
const CARD_0_2: &str = r#"{"name":"Fake","description":"d","version":"1","protocolVersion":"0.2.6","url":"http://agent.internal/","supportsAuthenticatedExtendedCard":true,"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;

fn extended() -> String {
    CARD_0_2.replace("\"Fake\"", "\"Extended\"")
}

async fn rpc(gateway: &Gateway, method: &str) -> Answer {
    let body = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}"}}"#);
    post(gateway.address, "/agent", &body).await
}

async fn fetch(gateway: &Gateway) -> Answer {
    call(gateway.address, "GET", PATH, &[("x-api-key", KEY)], "").await
}

#[tokio::test]
async fn callers_of_0_2_get_it_at_their_path() {
    for (translates, method) in [
        (true, "GetExtendedAgentCard"),
        (false, "agent/getAuthenticatedExtendedCard"),
    ] {
        let agent = Agent::start(|request| {
            Reply::Json(format!(r#"{{"id":{},"jsonrpc":"2.0","result":{CARD}}}"#, request.id()))
        })
        .await;
        let mut yaml = config_of(&[agent.address], "", "");
        if !translates {
            yaml = with_upstream(&yaml, "protocol: { generation: \"0.3\" }")
                .replace("path: /agent", "path: /agent\n    translate: false");
        }
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        let got = fetch(&gateway).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.json()["url"], "https://gateway.example/agent");
        assert!(!got.text().contains("agent.internal"), "{}", got.text());
        assert_eq!(agent.received()[0].json()["method"], method);

        let stranger = get(gateway.address, PATH).await;
        assert_eq!(stranger.status, 401, "a credential is needed");
        let posted = call(gateway.address, "POST", PATH, &[("x-api-key", KEY)], "{}").await;
        assert_eq!((posted.status, posted.header("allow")), (405, Some("GET")));
        assert_eq!(agent.received().len(), 1);
    }
}

fn at(path: &'static str) -> impl Fn(&Received) -> Reply + Send + Sync {
    move |request| {
        if request.head.starts_with(&format!("GET {path} ")) {
            Reply::Json(extended())
        } else {
            Reply::Whole(404, "", "no".to_owned())
        }
    }
}

#[tokio::test]
async fn agents_of_0_2_are_asked_with_a_get() {
    let agent = Agent::with_card(CARD_0_2, at("/agent/authenticatedExtendedCard")).await;
    let yaml = with_upstream(
        &config_of(&[agent.address], "", ""),
        "credential: { bearer: { token: sesame } }",
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let card = get(gateway.address, "/agent/.well-known/agent.json").await.json();
    assert_eq!(card["supportsAuthenticatedExtendedCard"], true);
    assert_eq!(card["protocolVersion"], "0.2.6");

    let old = rpc(&gateway, "agent/getAuthenticatedExtendedCard").await;
    assert_eq!((old.status, &old.json()["id"]), (200, &serde_json::json!(9)));
    let new = rpc(&gateway, "GetExtendedAgentCard").await;
    let fetched = fetch(&gateway).await;
    for card in [&old.json()["result"], &new.json()["result"], &fetched.json()] {
        assert_eq!(card["name"], "Extended", "{card}");
        assert_eq!(card["url"], "https://gateway.example/agent");
        assert!(!card.to_string().contains("agent.internal"), "{card}");
    }
    let received = agent.received();
    assert_eq!(received.len(), 3);
    for request in received {
        assert_eq!(request.field("authorization"), Some("Bearer sesame"));
        assert_eq!(request.field("x-api-key"), None);
        assert_eq!(request.field("content-type"), None);
        assert!(request.field("x-request-id").is_some());
        assert!(request.body.is_empty());
    }
    assert_eq!(get(gateway.address, PATH).await.status, 401);
}

#[tokio::test]
async fn it_is_looked_for_below_and_beside_the_url_of_the_agent() {
    let agent = Agent::with_card(CARD_0_2, at("/a/agent/authenticatedExtendedCard")).await;
    let yaml = config_of(&[agent.address], "", "").replace("/\" } ] }", "/a/rpc\" } ] }");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let got = rpc(&gateway, "agent/getAuthenticatedExtendedCard").await;
    assert_eq!(got.json()["result"]["name"], "Extended", "{}", got.text());
    let lines: Vec<String> = agent
        .received()
        .iter()
        .map(|request| request.head.lines().next().unwrap().to_owned())
        .collect();
    assert_eq!(
        lines,
        [
            "GET /a/rpc/agent/authenticatedExtendedCard HTTP/1.1",
            "GET /a/agent/authenticatedExtendedCard HTTP/1.1"
        ]
    );
}

#[tokio::test]
async fn what_an_agent_of_0_2_answers_otherwise_is_an_error() {
    let check = async |reply: fn() -> Reply, status: u16, code: i64| {
        let agent = Agent::with_card(CARD_0_2, move |_| reply()).await;
        let gateway = Gateway::of(&[agent.address], "", "").await;
        let got = rpc(&gateway, "agent/getAuthenticatedExtendedCard").await;
        assert_eq!((got.status, got.code()), (status, code), "{}", got.text());
        assert!(!got.text().contains("secret"), "{}", got.text());
    };
    check(|| Reply::Whole(404, "", "secret".to_owned()), 200, -32007).await;
    check(|| Reply::Whole(401, "", "secret".to_owned()), 502, -31502).await;
    check(|| Reply::Whole(500, "", "secret".to_owned()), 502, -32006).await;
    check(
        || Reply::Whole(302, "location: /secret\r\n", String::new()),
        502,
        -32006,
    )
    .await;
    check(|| Reply::Json("secret".to_owned()), 502, -32006).await;
    check(|| Reply::Json(r#"{"url":"secret","URL":"b"}"#.to_owned()), 502, -32006).await;
    check(|| Reply::Raw(Vec::new()), 502, -31502).await;
}

#[tokio::test]
async fn nobody_is_asked_for_callers_without_a_name() {
    let agent = Agent::with_card(CARD_0_2, at("/agent/authenticatedExtendedCard")).await;
    let gateway = Gateway::of(&[agent.address], "security: []", "").await;
    let card = get(gateway.address, "/agent/.well-known/agent.json").await.json();
    assert_eq!(card["supportsAuthenticatedExtendedCard"], false);
    assert_eq!(rpc(&gateway, "agent/getAuthenticatedExtendedCard").await.code(), -32007);
    assert_eq!(fetch(&gateway).await.status, 404);
    assert!(agent.received().is_empty());
}
