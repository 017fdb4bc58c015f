//! The published card.

use crate::harness::agent::{self, Agent, CARD, CARD_HYBRID, Reply};
use crate::harness::authority::Authority;
use crate::harness::{Gateway, call, config_of, get, post, send, with_upstream};

const PATH: &str = "/agent/.well-known/agent-card.json";

#[tokio::test]
async fn the_card_says_what_the_gateway_does() {
    let agent = Agent::with_card(CARD_HYBRID, |_| Reply::Silence).await;
    let links = format!(
        "{{\"documentationUrl\":\"http://{}/docs\",\"iconUrl\":\"https://icons.example/a\",",
        agent.address
    );
    agent.set_card(&CARD_HYBRID.replacen('{', &links, 1));
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let got = get(gateway.address, PATH).await;
    assert_eq!(got.status, 200, "no credential is needed");
    let card = got.json();
    assert_eq!(card["iconUrl"], "https://icons.example/a");
    assert_eq!(card.get("documentationUrl"), None, "a link past the gateway");
    assert_eq!(card["url"], "https://gateway.example/agent");
    assert_eq!(card["supportedInterfaces"][0]["url"], "https://gateway.example/agent");
    assert!(!got.text().contains("agent.internal"), "{}", got.text());
    assert_eq!(card["security"], serde_json::json!([{ "key": [] }]));
    assert_eq!(
        card["securityRequirements"],
        serde_json::json!([{ "schemes": { "key": {} } }])
    );
    assert_eq!(got.header("cache-control"), Some("public, max-age=300"));
    let etag = got.header("etag").expect("an entity tag").to_owned();
    let known = call(gateway.address, "GET", PATH, &[("if-none-match", &etag)], "").await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    let head = call(gateway.address, "HEAD", PATH, &[], "").await;
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some(got.body.len().to_string().as_str()))
    );
    assert_eq!(
        get(gateway.address, "/agent/.well-known/agent.json").await.body,
        got.body,
        "the old path too"
    );
}

#[tokio::test]
async fn other_methods_and_places_are_refused_in_the_callers_form() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let got = call(gateway.address, "POST", PATH, &[], "{}").await;
    assert_eq!(
        (got.status, got.header("allow"), got.code()),
        (405, Some("GET, HEAD"), -31405)
    );
    let got = get(gateway.address, "/agent").await;
    assert_eq!((got.status, got.header("allow")), (405, Some("POST")));
    assert_eq!(got.json()["error"]["code"], 405);
    let got = get(gateway.address, "/nobody").await;
    assert_eq!(
        (got.status, got.json()["error"]["status"].as_str()),
        (404, Some("NOT_FOUND"))
    );
    let got = post(gateway.address, "/nobody", "{}").await;
    assert_eq!((got.status, got.code()), (404, -31404));
    assert_eq!(got.json()["id"], serde_json::Value::Null);
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn the_extended_card_is_rewritten_too() {
    let agent =
        Agent::start(|request| Reply::Json(format!(r#"{{"id":{},"jsonrpc":"2.0","result":{CARD}}}"#, request.id())))
            .await;
    let gateway = Gateway::of(&[agent.address], "", "").await;
    let got = post(
        gateway.address,
        "/agent",
        r#"{"jsonrpc":"2.0","id":9,"method":"GetExtendedAgentCard"}"#,
    )
    .await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(
        got.json()["result"]["supportedInterfaces"][0]["url"],
        "https://gateway.example/agent"
    );
    assert!(!got.text().contains("agent.internal"), "{}", got.text());
}

#[tokio::test]
async fn the_card_of_an_endpoint_given_by_address_is_fetched_under_its_name() {
    let authority = Authority::new();
    let agent = Agent::over_tls(authority.server("a.example"), agent::tasks(|| "t".to_owned())).await;
    let upstream = "tls: { server_name: a.example, ca: ca.pem, client_certificate: b.example.crt, \
                    client_private_key: b.example.key }";
    let yaml = with_upstream(&config_of(&[agent.address], "", ""), upstream).replace(
        &format!("url: \"http://{}", agent.address),
        &format!("url: \"https://{}", agent.address),
    );
    let gateway = Gateway::start_in(&yaml, authority.folder.path()).await;
    gateway.ready().await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
}
