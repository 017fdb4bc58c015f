//! Cards that are none, come late or never, or say what no card should.

use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::harness::agent::{Agent, CARD, CARD_0_3, CARD_HYBRID, Received, Reply, tasks};
use crate::harness::{Gateway, config_of, eventually, get, post, send};

const PATH: &str = "/agent/.well-known/agent-card.json";

/// An agent whose card, at a place of its own, is what `card` makes.
async fn with_card(card: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Agent {
    let calls = tasks(|| "t".to_owned());
    Agent::over_http_json("", move |request| match request.line() {
        "GET /card" => card(request),
        _ => calls(request),
    })
    .await
}

fn yaml(agent: &Agent, more: &str) -> String {
    let card = format!(
        "card: {{ url: \"http://{}/card\", refresh: 1s, {more} }}",
        agent.address
    );
    config_of(&[agent.address], &card, "")
}

async fn last_error(gateway: &Gateway) -> String {
    let state = get(gateway.admin, "/ready").await.json()["agents"]["agent"].clone();
    state["last_error"].as_str().unwrap_or_default().to_owned()
}

type Make = fn() -> Reply;

/// Cards that are none, and what is said of them.
fn bad() -> Vec<(Make, &'static str)> {
    vec![
        (
            || Reply::Json(format!("{{\"name\":\"{}\"}}", "x".repeat(4096))),
            "larger",
        ),
        (
            || Reply::Whole(302, "location: http://127.0.0.1:1/card\r\n", String::new()),
            "redirect",
        ),
        (
            || Reply::Whole(200, "content-type: text/html\r\n", "<html>".to_owned()),
            "is not JSON",
        ),
        (|| Reply::Json("[1]".to_owned()), "not a JSON object"),
        (
            || Reply::Json(CARD_0_3.replace(",\"skills\":[]", "")),
            "readers refuse the card: `skills` is missing",
        ),
        (
            || Reply::Json(CARD.replace("\"skills\":[]", "\"skills\":{}")),
            "readers refuse the card: `skills` is not a list",
        ),
        (|| Reply::Json("[".repeat(1000)), "is not JSON"),
        (|| Reply::Whole(500, "", "no".to_owned()), "500"),
        (|| Reply::Whole(204, "", String::new()), "204"),
        (
            || Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{".to_vec()),
            "",
        ),
        (|| Reply::Raw(Vec::new()), ""),
    ]
}

#[tokio::test]
async fn what_is_no_card_puts_nothing_in_service() {
    for (reply, said) in bad() {
        let agent = with_card(move |_| reply()).await;
        let gateway = Gateway::start(&yaml(&agent, "max_bytes: 1KiB")).await;
        eventually("the card was asked for", || async {
            !last_error(&gateway).await.is_empty()
        })
        .await;
        let error = last_error(&gateway).await;
        assert!(error.contains(said), "{said}: {error}");
        assert_eq!(get(gateway.address, PATH).await.status, 503, "{said}");
    }
}

#[tokio::test]
async fn the_last_good_card_stays_whatever_comes_after() {
    let next: Arc<Mutex<Option<Make>>> = Arc::default();
    let shown = next.clone();
    let agent = with_card(move |_| match *shown.lock().unwrap() {
        None => Reply::Json(CARD.to_owned()),
        Some(reply) => reply(),
    })
    .await;
    let gateway = Gateway::start(&yaml(&agent, "max_bytes: 1KiB")).await;
    gateway.ready().await;
    for (reply, said) in bad() {
        *next.lock().unwrap() = Some(reply);
        eventually(said, || async {
            let error = last_error(&gateway).await;
            !error.is_empty() && error.contains(said)
        })
        .await;
        assert_eq!(get(gateway.address, PATH).await.json()["name"], "Fake", "{said}");
        assert_eq!(
            post(gateway.address, "/agent", &send("1", "hi")).await.status,
            200,
            "{said}"
        );
        *next.lock().unwrap() = None;
        eventually("it is refreshed again", || async {
            last_error(&gateway).await.is_empty()
        })
        .await;
    }
    // Nor does one that does not come hold anybody up.
    *next.lock().unwrap() = Some(|| Reply::Silence);
    let before = agent.received().len();
    eventually("it is asked for", || async { agent.received().len() > before }).await;
    assert_eq!(get(gateway.address, PATH).await.json()["name"], "Fake");
    assert_eq!(post(gateway.address, "/agent", &send("1", "hi")).await.status, 200);
}

/// A card that lacks what readers need is not published, and does not loosen what callers must show either.
#[tokio::test]
async fn a_card_that_readers_refuse_and_that_demands_something_else_ends_the_last_good_one() {
    let card = Arc::new(Mutex::new(CARD_0_3.to_owned()));
    let shown = card.clone();
    let agent = with_card(move |_| Reply::Json(shown.lock().unwrap().clone())).await;
    // What the card demands is enforced.
    let yaml = yaml(&agent, "").replace("security: [ { key: [] } ]\n", "") + "    policy: { task_owner: none }\n";
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let mut wrong: serde_json::Value = serde_json::from_str(CARD_0_3).unwrap();
    wrong["skills"] = json!([{"id": "s", "name": "S", "description": "d"}]);
    *card.lock().unwrap() = wrong.to_string();
    eventually("the card is refused", || async {
        last_error(&gateway).await.contains("`skills[0].tags` is missing")
    })
    .await;
    let cards = get(gateway.admin, "/cards").await.json()["cards"][0].clone();
    assert!(
        cards["error"].as_str().unwrap().contains("`skills[0].tags` is missing"),
        "{cards}"
    );
    assert_eq!(cards["ready"], true, "{cards}");
    assert_eq!(get(gateway.address, PATH).await.json()["skills"], json!([]));

    wrong["securitySchemes"] = json!({"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}});
    wrong["security"] = json!([{"key": []}]);
    *card.lock().unwrap() = wrong.to_string();
    eventually("it is out of service", || async {
        get(gateway.address, PATH).await.status == 503
    })
    .await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "hi")).await.status, 503);
    *card.lock().unwrap() = CARD_0_3.to_owned();
    eventually("it is back", || async {
        get(gateway.address, PATH).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn what_a_card_lacks_can_be_configured() {
    let card = json!({"name": "Fake", "url": "http://agent.internal/", "protocolVersion": "0.3.0", "version": "1",
        "defaultOutputModes": [], "skills": [{"id": "s", "name": "S", "description": "d"}, {"id": "debug"}]});
    let agent = with_card(move |_| Reply::Json(card.to_string())).await;
    let more = "overrides: { description: Maps, defaultInputModes: [ text/plain ] }, skills: { s: { tags: [ maps ] } }, hide_skills: [ debug ]";
    let gateway = Gateway::start(&yaml(&agent, more)).await;
    gateway.ready().await;
    let published = get(gateway.address, PATH).await.json();
    assert_eq!(published["description"], "Maps");
    assert_eq!(
        published["skills"],
        json!([{"id": "s", "name": "S", "description": "d", "tags": ["maps"]}])
    );
}

#[tokio::test]
async fn what_a_card_says_of_elsewhere_is_not_published() {
    let skills = json!([
        {"id": "s", "name": "<script>alert(1)</script>", "description": "<img src=x onerror=alert(1)>", "tags": []},
        {"id": "s", "name": "twin", "description": "d", "tags": []}]);
    let more = json!({
        "additionalInterfaces": [
            {"url": "http://elsewhere.internal/rpc", "transport": "JSONRPC"},
            {"url": "ws://elsewhere.internal/ws", "transport": "urn:example:websocket"}],
        "securitySchemes": {
            "key": {"scheme": {"$case": "apiKeySecurityScheme", "value": {"location": "header", "name": "X-API-Key"}}},
            "other": {"scheme": {"$case": "httpAuthSecurityScheme", "value": {"scheme": "Bearer"}}}},
        "security": [{"key": []}],
        "documentationUrl": "http://elsewhere.internal/docs",
        "iconUrl": "javascript:alert(1)",
        "skills": skills,
    });
    let mut card: serde_json::Value = serde_json::from_str(CARD_HYBRID).unwrap();
    card.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let entry = json!({"url": "ws://elsewhere.internal/ws", "protocolBinding": "urn:example:websocket", "protocolVersion": "1.0"});
    card["supportedInterfaces"].as_array_mut().unwrap().push(entry);
    let agent = Agent::with_card(&card.to_string(), tasks(|| "t".to_owned())).await;
    // What the card demands is enforced.
    let yaml = config_of(&[agent.address], "policy: { task_owner: none }", "");
    let gateway = Gateway::start(&yaml.replace("\nsecurity: [ { key: [] } ]", "")).await;
    gateway.ready().await;
    let got = get(gateway.address, PATH).await;
    let published = got.json();
    for gone in ["internal", "urn:example", "\"other\"", "$case", "twin"] {
        assert!(!got.text().contains(gone), "{gone}: {}", got.text());
    }
    assert_eq!(published["securitySchemes"]["key"]["type"], "apiKey");
    assert_eq!(published["security"], json!([{"key": []}]));
    // Text is text: whoever shows it to people has to write it as such, and what it comes as says that it is no page.
    assert_eq!(published["skills"], json!([skills[0]]));
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(get(gateway.address, "/agent/v1/tasks/t1").await.status, 401);
    assert_eq!(post(gateway.address, "/agent", &send("1", "hi")).await.status, 200);
}

#[tokio::test]
async fn a_card_of_as_many_interfaces_as_fit_holds_nobody_up() {
    let entries = [r#"{"url":"a","protocolBinding":"b","protocolVersion":"c"}"#; 18_000].join(",");
    let card = CARD.replace(
        "\"supportedInterfaces\":[",
        &format!("\"supportedInterfaces\":[{entries},"),
    );
    let shown = Arc::new(card);
    let agent = with_card(move |_| Reply::Json(shown.to_string())).await;
    let gateway = Gateway::start(&yaml(&agent, "")).await;
    gateway.ready().await;
    // The second one is compared with the first.
    let cards = || {
        agent
            .received()
            .iter()
            .filter(|request| request.line() == "GET /card")
            .count()
    };
    eventually("it is asked for again", || async { cards() > 3 }).await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "hi")).await.status, 200);
}
