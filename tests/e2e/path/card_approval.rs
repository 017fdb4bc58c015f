//! Cards that change: published, held until they are approved, or published with an alert; cards of the operator's own.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::agent::{self, Agent, CARD, Reply, tasks};
use crate::harness::{Answer, Gateway, call, config_of, eventually, get, post, send};

const PATH: &str = "/agent/.well-known/agent-card.json";

/// With one skill of this id.
fn with_skill(card: &str, id: &str) -> String {
    let skill = format!(r#""skills":[{{"id":"{id}","name":"S","description":"d","tags":[]}}]"#);
    card.replace("\"skills\":[]", &skill)
}

async fn published(gateway: &Gateway) -> Value {
    let got = get(gateway.address, PATH).await;
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()
}

/// Waits until the gateway has fetched the card twice more: the first may have been under way.
async fn fetched(agent: &Agent) {
    let before = agent.cards();
    eventually("the card is fetched", || async { agent.cards() >= before + 2 }).await;
}

async fn approve(gateway: &Gateway, path: &str) -> Answer {
    call(gateway.admin, "POST", path, &[("content-type", "application/json")], "").await
}

async fn unapproved(gateway: &Gateway) -> f64 {
    gateway.metric("a2a_gateway_card_unapproved{agent=\"agent\"}").await
}

async fn diff(gateway: &Gateway) -> Value {
    get(gateway.admin, "/cards/agent/diff").await.json()
}

async fn gateway(agent: &Agent, card: &str) -> Gateway {
    Gateway::of(&[agent.address], &format!("card: {{ refresh: 1s, {card} }}"), "").await
}

#[tokio::test]
async fn a_changed_card_is_published_by_default() {
    let agent = Agent::with_card(&with_skill(CARD, "one"), |_| Reply::Silence).await;
    let gateway = gateway(&agent, "on_change: publish").await;
    agent.set_card(&with_skill(CARD, "two"));
    eventually("the new card is published", || async {
        published(&gateway).await["skills"][0]["id"] == "two"
    })
    .await;
    assert_eq!(unapproved(&gateway).await, 0.0);
    let list = get(gateway.admin, "/cards").await.json();
    assert_eq!(list["cards"][0]["agent"], "agent");
    assert_eq!(
        (&list["cards"][0]["approved"], &list["cards"][0]["held"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        approve(&gateway, "/cards/agent/approve").await.status,
        409,
        "nothing differs"
    );
}

#[tokio::test]
async fn a_card_that_differs_is_held_until_it_is_approved() {
    let agent = Agent::with_card(&with_skill(CARD, "one"), tasks(|| "t".to_owned())).await;
    let gateway = gateway(&agent, "on_change: hold").await;
    let elsewhere = with_skill(CARD, "two")
        .replace("agent.internal", "other.internal")
        .replace("\"d\"", "\"new\"");
    agent.set_card(&elsewhere);
    eventually("the card is held", || async { unapproved(&gateway).await == 1.0 }).await;
    let card = published(&gateway).await;
    assert_eq!(
        (&card["skills"][0]["id"], &card["description"]),
        (&json!("one"), &json!("d"))
    );
    let got = diff(&gateway).await;
    let members: Vec<_> = got["differences"].as_array().unwrap().iter().collect();
    assert_eq!(got["held"], true);
    assert_eq!(members[0]["member"], "supportedInterfaces[JSONRPC 1.0]");
    assert_eq!(members[0]["approved"], "\"http://agent.internal/\"");
    assert_eq!(members[0]["agent"], "\"http://other.internal/\"");
    assert_eq!(
        (&members[1]["member"], &members[1]["agent"]),
        (&json!("skills[one]"), &Value::Null)
    );
    assert_eq!(members.last().unwrap()["matters"], false, "the description: {got}");
    assert_eq!(
        post(gateway.address, "/agent", &send("1", "hi")).await.status,
        200,
        "calls go on"
    );

    // What does not matter alone is published.
    agent.set_card(&with_skill(CARD, "one").replacen("\"d\"", "\"newer\"", 1));
    eventually("the text is published", || async {
        published(&gateway).await["description"] == "newer"
    })
    .await;
    assert_eq!(unapproved(&gateway).await, 0.0);

    agent.set_card(&elsewhere);
    eventually("the card is held again", || async { unapproved(&gateway).await == 1.0 }).await;
    let page = call(gateway.admin, "POST", "/cards/agent/approve", &[], "").await;
    assert_eq!(page.status, 415, "a page cannot send this");
    assert_eq!(approve(&gateway, "/cards/nobody/approve").await.status, 404);
    assert_eq!(get(gateway.admin, "/cards/agent/approve").await.status, 405);
    let got = approve(&gateway, "/cards/agent/approve").await;
    assert_eq!(
        (got.status, &got.json()["approved"]),
        (200, &json!(true)),
        "{}",
        got.text()
    );
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two", "at once");
    assert_eq!(unapproved(&gateway).await, 0.0);
    fetched(&agent).await;
    assert_eq!(unapproved(&gateway).await, 0.0, "and it stays approved");
}

#[tokio::test]
async fn what_a_held_card_demands_is_not_enforced() {
    let open = CARD.replacen('{', "{\"securitySchemes\":{\"key\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-API-Key\"}},\"security\":[{\"key\":[]}],", 1);
    let agent = Agent::with_card(&open, tasks(|| "t".to_owned())).await;
    let yaml = config_of(
        &[agent.address],
        "card: { refresh: 1s, on_change: hold }\n    policy: { task_owner: none }",
        "",
    );
    let gateway = Gateway::start(&yaml.replace("\nsecurity: [ { key: [] } ]", "")).await;
    gateway.ready().await;
    let stranger = || {
        call(
            gateway.address,
            "POST",
            "/agent",
            &[("content-type", "application/json")],
            "{}",
        )
    };
    assert_eq!(stranger().await.status, 401);
    agent.set_card(CARD);
    eventually("the card is held", || async { unapproved(&gateway).await == 1.0 }).await;
    assert_eq!(stranger().await.status, 401, "the demand of the approved card");
    assert_eq!(diff(&gateway).await["differences"][0]["member"], "security");
}

#[tokio::test]
async fn a_card_that_differs_can_be_published_with_an_alert() {
    let agent = Agent::with_card(&with_skill(CARD, "one"), |_| Reply::Silence).await;
    let gateway = gateway(&agent, "on_change: alert").await;
    agent.set_card(&with_skill(CARD, "two"));
    eventually("the alert is told", || async { unapproved(&gateway).await == 1.0 }).await;
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two");
    assert_eq!(diff(&gateway).await["held"], false);
    fetched(&agent).await;
    assert_eq!(unapproved(&gateway).await, 1.0, "as long as nobody approves");
    assert_eq!(approve(&gateway, "/cards/agent/approve").await.status, 200);
    assert_eq!(unapproved(&gateway).await, 0.0);
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[tokio::test]
async fn a_file_approves_and_is_served_until_the_agents_card_is_like_it() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::with_card(&with_skill(CARD, "two"), tasks(|| "t".to_owned())).await;
    write(folder.path(), "card.json", &with_skill(CARD, "one"));
    let file = folder.path().join("gateway.yaml");
    let yaml = config_of(
        &[agent.address],
        "card: { refresh: 1s, on_change: hold, approved: card.json }",
        "",
    );
    std::fs::write(&file, &yaml).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    eventually("the agent's card is held", || async {
        unapproved(&gateway).await == 1.0
    })
    .await;
    assert_eq!(published(&gateway).await["skills"][0]["id"], "one");
    assert_eq!(
        post(gateway.address, "/agent", &send("1", "hi")).await.status,
        200,
        "it is served"
    );
    let refused = approve(&gateway, "/cards/agent/approve").await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("card.approved"), "{}", refused.text());

    // Saved, it is approved.
    write(folder.path(), "card.json", &with_skill(CARD, "two"));
    assert!(gateway.reload().await);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two");
    assert_eq!(unapproved(&gateway).await, 0.0);
    write(folder.path(), "card.json", "{");
    assert!(!gateway.reload().await, "a broken file changes nothing");
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two");

    // What was held is published where nothing is held any more.
    write(folder.path(), "card.json", &with_skill(CARD, "three"));
    assert!(gateway.reload().await);
    eventually("it differs", || async { unapproved(&gateway).await == 1.0 }).await;
    assert_eq!(published(&gateway).await["skills"][0]["id"], "three");
    std::fs::write(&file, yaml.replace("hold", "publish")).unwrap();
    assert!(gateway.reload().await);
    eventually("the agent's card is published", || async {
        published(&gateway).await["skills"][0]["id"] == "two"
    })
    .await;
    assert_eq!(unapproved(&gateway).await, 0.0);
}

#[tokio::test]
async fn an_approved_card_is_served_while_the_agent_cannot_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    agent.hide_card();
    write(folder.path(), "card.json", CARD);
    let yaml = config_of(&[agent.address], "card: { on_change: hold, approved: card.json }", "");
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    assert_eq!(published(&gateway).await["name"], "Fake");
    assert_eq!(post(gateway.address, "/agent", &send("1", "hi")).await.status, 200);
}

#[tokio::test]
async fn an_approval_outlives_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::with_card(&with_skill(CARD, "one"), |_| Reply::Silence).await;
    let file = folder.path().join("gateway.yaml");
    let yaml = config_of(&[agent.address], "card: { refresh: 1s, on_change: hold }", "");
    std::fs::write(&file, &yaml).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    agent.set_card(&with_skill(CARD, "two"));
    eventually("the card is held", || async { unapproved(&gateway).await == 1.0 }).await;
    std::fs::write(&file, yaml.replace("on_change", "max_age: 7s, on_change")).unwrap();
    assert!(gateway.reload().await);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "one");
    assert_eq!(unapproved(&gateway).await, 1.0, "still held");
    assert_eq!(approve(&gateway, "/cards/agent/approve").await.status, 200);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two");
}

#[tokio::test]
async fn a_card_can_be_the_operators_own() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(tasks(|| "t".to_owned())).await;
    agent.hide_card();
    write(folder.path(), "card.json", &with_skill(CARD, "one"));
    let file = folder.path().join("gateway.yaml");
    let yaml = config_of(&[agent.address], "card: { file: card.json }", "");
    std::fs::write(&file, &yaml).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    let card = published(&gateway).await;
    assert_eq!(card["skills"][0]["id"], "one");
    assert!(!card.to_string().contains("agent.internal"), "{card}");
    assert_eq!(post(gateway.address, "/agent", &send("1", "hi")).await.status, 200);

    write(folder.path(), "card.json", &with_skill(CARD, "two"));
    assert!(gateway.reload().await);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two");
    write(
        folder.path(),
        "card.json",
        r#"{"name":"a","Name":"b","url":"x","URL":"y"}"#,
    );
    assert!(!gateway.reload().await, "the same checks");
    assert_eq!(agent.cards(), 0, "the agent is not asked");

    // A fetched one again, and back.
    agent.set_card(&with_skill(CARD, "fetched"));
    write(folder.path(), "card.json", &with_skill(CARD, "two"));
    std::fs::write(
        &file,
        yaml.replace("card: { file: card.json }", "card: { refresh: 1s }"),
    )
    .unwrap();
    assert!(gateway.reload().await);
    eventually("the agent's card is published", || async {
        get(gateway.address, PATH).await.text().contains("fetched")
    })
    .await;
    std::fs::write(&file, &yaml).unwrap();
    assert!(gateway.reload().await);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two");
}

#[tokio::test]
async fn skills_are_hidden_and_told_in_other_words() {
    let two = r#""skills":[{"id":"plan","name":"S","description":"d","tags":[]},{"id":"debug-x","name":"D","description":"d","tags":[]},{"id":"plan","name":"twin","description":"d","tags":[]}]"#;
    let card = agent::CARD_HYBRID
        .replace("\"skills\":[]", two)
        .replacen('{', "{\"iconUrl\":\"https://icons.example/a\",", 1)
        .replace("\"streaming\":true", "\"streaming\":true,\"extendedAgentCard\":true");
    let extended = card.clone();
    let agent = Agent::with_card(&card, move |request| {
        Reply::Json(format!(
            r#"{{"id":{},"jsonrpc":"2.0","result":{extended}}}"#,
            request.id()
        ))
    })
    .await;
    let settings = r#"card: { hide_skills: [ "debug-*" ], skills: { plan: { description: "in our words" } }, overrides: { iconUrl: null } }"#;
    let gateway = Gateway::of(&[agent.address], settings, "").await;
    let body = r#"{"jsonrpc":"2.0","id":9,"method":"GetExtendedAgentCard"}"#;
    let extended = post(gateway.address, "/agent", body).await.json()["result"].clone();
    for card in [published(&gateway).await, extended] {
        let skills = json!([{"id": "plan", "name": "S", "description": "in our words", "tags": []}]);
        assert_eq!(card["skills"], skills, "{card}");
        assert_eq!(card.get("iconUrl"), None);
    }
}

#[tokio::test]
async fn what_differs_is_in_the_audit_trail() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::with_card(&with_skill(CARD, "one"), |_| Reply::Silence).await;
    let file = folder.path().join("gateway.yaml");
    let yaml = config_of(
        &[agent.address],
        "card: { refresh: 1s, on_change: hold }",
        "audit: { file: audit.log }",
    );
    std::fs::write(&file, &yaml).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    let lines = async |event: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.path().join("audit.log")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["event"] == event).collect()
    };
    let wait = async |event: &str, count: usize| {
        eventually(event, || async { lines(event).await.len() >= count }).await;
        lines(event).await
    };
    wait("card_published", 1).await;
    agent.set_card(&with_skill(CARD, "two"));
    let held = wait("card_held", 1).await;
    let detail = held[0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("skills[one]: {") && detail.contains("skills[two]: absent -> {"),
        "{detail}"
    );
    fetched(&agent).await;
    assert_eq!(lines("card_held").await.len(), 1, "once, not with every fetch");
    assert_eq!(approve(&gateway, "/cards/agent/approve").await.status, 200);
    let approved = wait("card_approved", 1).await;
    assert_eq!(
        (&approved[0]["listener"], &approved[0]["agent"]),
        (&json!("admin"), &json!("agent"))
    );
    let published = wait("card_published", 2).await;
    assert!(
        published[1]["detail"].as_str().unwrap().contains("skills[two]"),
        "{published:?}"
    );
    assert_eq!(published.len(), 2);
    std::fs::write(&file, yaml.replace("hold", "alert")).unwrap();
    assert!(gateway.reload().await);
    agent.set_card(&with_skill(CARD, "three"));
    wait("card_alert", 1).await;
}

#[tokio::test]
async fn what_was_approved_outlives_whatever_a_reload_changes() {
    let folder = tempfile::tempdir().unwrap();
    let one = Agent::with_card(&with_skill(CARD, "one"), |_| Reply::Silence).await;
    let other = Agent::with_card(&with_skill(CARD, "two"), |_| Reply::Silence).await;
    let file = folder.path().join("gateway.yaml");
    let yaml = |agent: &Agent, refresh: &str| {
        let card = format!("card: {{ refresh: {refresh}, on_change: hold }}");
        config_of(&[agent.address], &card, "")
    };
    std::fs::write(&file, yaml(&one, "1s")).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    // While no card is in service, and asked at other times.
    one.set_card(r#"{"name":"a","url":"x","URL":"y"}"#);
    eventually("it is out of service", || async {
        get(gateway.admin, "/ready").await.status == 503
    })
    .await;
    std::fs::write(&file, yaml(&one, "2s")).unwrap();
    assert!(gateway.reload().await);
    one.set_card(&with_skill(CARD, "two"));
    eventually("the card is held", || async { unapproved(&gateway).await == 1.0 }).await;
    assert_eq!(published(&gateway).await["skills"][0]["id"], "one");
    // Another server.
    one.set_card(&with_skill(CARD, "one"));
    eventually("it is the approved one", || async { unapproved(&gateway).await == 0.0 }).await;
    std::fs::write(&file, yaml(&other, "1s")).unwrap();
    assert!(gateway.reload().await);
    fetched(&other).await;
    assert_eq!(unapproved(&gateway).await, 1.0);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "one");
    assert_eq!(approve(&gateway, "/cards/agent/approve").await.status, 200);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "two");
}

#[tokio::test]
async fn nothing_is_approved_that_nobody_saw() {
    let agent = Agent::with_card(&with_skill(CARD, "one"), |_| Reply::Silence).await;
    let gateway = gateway(&agent, "on_change: hold").await;
    agent.set_card(&with_skill(CARD, "two"));
    eventually("the card is held", || async { unapproved(&gateway).await == 1.0 }).await;
    let seen = get(gateway.admin, "/cards/agent/diff").await;
    let tag = seen.header("etag").unwrap_or("\"none\"").to_owned();
    // The agent changes its card between the look and the yes.
    agent.set_card(&with_skill(CARD, "three"));
    fetched(&agent).await;
    let yes = async |tag: &str| {
        let fields = [("content-type", "application/json"), ("if-match", tag)];
        call(gateway.admin, "POST", "/cards/agent/approve", &fields, "").await
    };
    assert_eq!(yes(&tag).await.status, 412, "another card than the one that was seen");
    assert_eq!(published(&gateway).await["skills"][0]["id"], "one");
    assert_eq!(unapproved(&gateway).await, 1.0);
    // Signed anew it is the same card.
    let seen = get(gateway.admin, "/cards/agent/diff").await;
    let tag = seen.header("etag").unwrap().to_owned();
    let signed = r#""signatures":[{"protected":"a","signature":"b"}],"skills""#;
    agent.set_card(&with_skill(CARD, "three").replace("\"skills\"", signed));
    fetched(&agent).await;
    assert_eq!(yes(&tag).await.status, 200);
    assert_eq!(published(&gateway).await["skills"][0]["id"], "three");
}

#[tokio::test]
async fn a_held_card_that_is_signed_anew_each_time_is_told_once() {
    let agent = Agent::with_card(&with_skill(CARD, "one"), |_| Reply::Silence).await;
    let folder = tempfile::tempdir().unwrap();
    let yaml = config_of(
        &[agent.address],
        "card: { refresh: 1s, on_change: hold }",
        "audit: { file: audit.log }",
    );
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    for signature in ["a", "b", "c"] {
        let signed = format!(r#""signatures":[{{"protected":"a","signature":"{signature}"}}],"skills""#);
        agent.set_card(&with_skill(CARD, "two").replace("\"skills\"", &signed));
        fetched(&agent).await;
    }
    assert_eq!(unapproved(&gateway).await, 1.0);
    assert_eq!(approve(&gateway, "/cards/agent/approve").await.status, 200);
    let text = async || std::fs::read_to_string(folder.path().join("audit.log")).unwrap_or_default();
    eventually("all is written", || async { text().await.contains("card_approved") }).await;
    assert_eq!(text().await.matches("\"card_held\"").count(), 1);
}
