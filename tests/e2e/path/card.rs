//! The published card.

use crate::harness::agent::{self, Agent, CARD, CARD_HYBRID, Reply};
use crate::harness::authority::Authority;
use crate::harness::{Answer, Gateway, call, config_of, eventually, get, post, send, with_upstream};

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
async fn callers_of_each_version_may_have_a_card_of_their_own() {
    let agent = Agent::with_card(CARD_HYBRID, |request| {
        Reply::Json(format!(r#"{{"id":{},"jsonrpc":"2.0","result":{CARD}}}"#, request.id()))
    })
    .await;
    let gateway = Gateway::of(&[agent.address], "card: { form: by_version }", "").await;
    let ask = async |path: &str, fields: &[(&str, &str)]| call(gateway.address, "GET", path, fields, "").await;
    let mut tags = Vec::new();
    for (version, known) in [("0.3", "0.3"), ("1.0", "1.0"), ("1.0.1", "1.0")] {
        let got = ask(PATH, &[("a2a-version", version)]).await;
        assert_eq!(
            (got.status, got.header("vary")),
            (200, Some("A2A-Version")),
            "{version}"
        );
        let card = got.json();
        assert_eq!(card.get("url").is_some(), known == "0.3", "{}", got.text());
        assert_eq!(
            card.get("supportedInterfaces").is_some(),
            known == "1.0",
            "{}",
            got.text()
        );
        tags.push(got.header("etag").expect("an entity tag").to_owned());
        let in_query = ask(&format!("{PATH}?A2A-Version={version}"), &[]).await;
        assert_eq!(in_query.body, got.body);
    }
    assert_ne!(tags[0], tags[1]);
    assert_eq!(tags[1], tags[2]);
    for path in [PATH, "/agent/.well-known/agent.json"] {
        let silent = ask(path, &[]).await;
        assert_eq!(silent.header("etag"), Some(tags[0].as_str()), "no version means 0.3");
    }
    let fields = [("if-none-match", tags[1].as_str()), ("a2a-version", "1.0")];
    let known = ask(PATH, &fields).await;
    assert_eq!((known.status, known.header("vary")), (304, Some("A2A-Version")));
    let other = ask(PATH, &fields[..1]).await;
    assert_eq!(other.status, 200, "the tag of another version's card");

    let unknown = ask(PATH, &[("a2a-version", "2.0")]).await;
    let detail = &unknown.json()["error"]["details"][0];
    assert_eq!(
        (unknown.status, detail["reason"].as_str()),
        (400, Some("VERSION_NOT_SUPPORTED"))
    );
    assert_eq!(detail["metadata"]["supportedVersions"], "0.3,1.0");
    let both = ask(&format!("{PATH}?A2A-Version=0.3"), &[("a2a-version", "1.0")]).await;
    assert_eq!(both.status, 400, "two versions");

    for (method, has_url) in [
        ("GetExtendedAgentCard", false),
        ("agent/getAuthenticatedExtendedCard", true),
    ] {
        let got = post(
            gateway.address,
            "/agent",
            &format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}"}}"#),
        )
        .await;
        let card = &got.json()["result"];
        assert_eq!(card.get("url").is_some(), has_url, "{}", got.text());
        assert_eq!(card.get("supportedInterfaces").is_some(), !has_url, "{}", got.text());
    }
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

const PAGE: &str = "https://console.example";

fn allowed(answer: &Answer) -> [Option<&str>; 4] {
    [
        "access-control-allow-origin",
        "access-control-expose-headers",
        "access-control-allow-methods",
        "access-control-allow-credentials",
    ]
    .map(|name| answer.header(name))
}

/// The CORS protocol of the Fetch standard.
#[tokio::test]
async fn pages_of_named_origins_may_read_the_card_and_no_others() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let cors = format!("cors: {{ origins: [ \"{PAGE}\", \"http://localhost:3000\" ] }}");
    let gateway = Gateway::of(&[agent.address], "", &cors).await;
    let ask =
        async |method: &str, path: &str, fields: &[(&str, &str)]| call(gateway.address, method, path, fields, "").await;
    for origin in [PAGE, "http://localhost:3000"] {
        let got = ask("GET", PATH, &[("origin", origin)]).await;
        assert_eq!(got.status, 200);
        assert_eq!(allowed(&got), [Some(origin), Some("ETag"), None, None]);
        assert_eq!(got.header("vary"), Some("Origin"));
        let etag = got.header("etag").unwrap().to_owned();
        let known = ask("GET", PATH, &[("origin", origin), ("if-none-match", &etag)]).await;
        assert_eq!((known.status, allowed(&known)[0]), (304, Some(origin)));
    }
    for origin in [
        "https://console.example.evil",
        "http://console.example",
        "null",
        "https://CONSOLE.example",
    ] {
        let got = ask("GET", PATH, &[("origin", origin)]).await;
        assert_eq!((got.status, allowed(&got)), (200, [None; 4]), "{origin}");
        assert_eq!(got.header("vary"), Some("Origin"), "nobody keeps it for another page");
    }
    let got = ask("GET", PATH, &[]).await;
    assert_eq!(
        (got.status, allowed(&got), got.header("vary")),
        (200, [None; 4], Some("Origin"))
    );

    let asks = |origin| [("origin", origin), ("access-control-request-method", "GET")];
    let yes = ask("OPTIONS", PATH, &asks(PAGE)).await;
    assert_eq!((yes.status, yes.body.len()), (204, 0));
    assert_eq!(allowed(&yes), [Some(PAGE), None, Some("GET, HEAD"), None]);
    assert_eq!(yes.header("access-control-max-age"), Some("7200"));
    let headers = yes.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("A2A-Version") && !headers.contains('*'), "{headers}");
    let no = ask("OPTIONS", PATH, &asks("https://evil.example")).await;
    assert_eq!((no.status, allowed(&no)), (204, [None; 4]));
    // Neither is a question of a browser, nor one about a call answered.
    assert_eq!(ask("OPTIONS", PATH, &[]).await.status, 405);
    let about_calls = [("origin", PAGE), ("access-control-request-method", "POST")];
    let got = ask("OPTIONS", "/agent", &about_calls).await;
    assert_eq!((got.status, allowed(&got)), (405, [None; 4]));
    assert!(agent.received().is_empty());
}

#[tokio::test]
async fn what_everybody_may_read_is_the_same_for_every_page() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let gateway = Gateway::of(&[agent.address], "", "cors: { origins: [ \"*\" ], max_age: 10m }").await;
    for fields in [vec![], vec![("origin", PAGE)]] {
        let got = call(gateway.address, "GET", PATH, &fields, "").await;
        assert_eq!(allowed(&got), [Some("*"), Some("ETag"), None, None]);
        assert_eq!(got.header("vary"), None);
    }
    let asks = [("origin", PAGE), ("access-control-request-method", "GET")];
    let yes = call(gateway.address, "OPTIONS", PATH, &asks, "").await;
    assert_eq!((yes.status, yes.header("access-control-max-age")), (204, Some("600")));

    let closed = Gateway::of(&[agent.address], "", "").await;
    let got = call(closed.address, "GET", PATH, &[("origin", PAGE)], "").await;
    assert_eq!((got.status, allowed(&got)), (200, [None; 4]));
    assert_eq!(call(closed.address, "OPTIONS", PATH, &asks, "").await.status, 405);
}

/// What did not change is not sent again, and still is what it is.
#[tokio::test]
async fn agents_are_asked_for_what_is_newer() {
    let agent = Agent::with_card(CARD, |_| Reply::Silence).await;
    let gateway = Gateway::of(&[agent.address], "card: { refresh: 100ms }", "").await;
    let etag = get(gateway.address, PATH).await.header("etag").unwrap().to_owned();
    eventually("it is asked again", || async { agent.cards() >= 3 }).await;
    let requests = agent.card_requests();
    assert_eq!(requests[0].field("if-none-match"), None);
    let known = requests[1].field("if-none-match").expect("the agent's own entity tag");
    assert_eq!(requests[2].field("if-none-match"), Some(known));
    assert_ne!(known, etag, "callers never see it");
    assert_eq!(get(gateway.address, PATH).await.header("etag"), Some(&*etag));
    agent.set_card(&CARD.replace("\"Fake\"", "\"Newer\""));
    eventually("the newer card is published", || async {
        get(gateway.address, PATH).await.json()["name"] == "Newer"
    })
    .await;
}
