//! The card: what holds for all agents, and who sees which skill.

use serde_json::{Value, json};

use super::{ANN, BOB, by, start, two, yaml};
use crate::harness::agent::CARD_0_3;
use crate::harness::{Gateway, call, eventually, get};

async fn card(gateway: &Gateway) -> Value {
    let answer = get(gateway.address, "/.well-known/agent-card.json").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn skills(card: &Value) -> Vec<&str> {
    let skills = card["skills"].as_array().unwrap();
    skills.iter().map(|skill| skill["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn it_has_the_skills_of_all_and_what_holds_for_all() {
    let (maps, weather) = two().await;
    let own = r#"card: { name: "Example Corp", provider: { organization: "Example", url: "https://example.com" } }"#;
    let gateway = start(&yaml(&maps, &weather, own, "")).await;
    let answer = get(gateway.address, "/.well-known/agent-card.json").await;
    let etag = answer.header("etag").unwrap().to_owned();
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    let card = answer.json();
    assert_eq!(card["name"], "Example Corp");
    assert_eq!(card["provider"]["organization"], "Example");
    assert_eq!(skills(&card), ["maps/route", "maps/draw", "weather/route"]);
    assert_eq!(card["defaultInputModes"], json!(["text/plain"]));
    assert_eq!(card["defaultOutputModes"], json!(["image/png", "text/plain"]));
    assert_eq!(card["skills"][0]["outputModes"], json!(["image/png"]));
    assert_eq!(card["skills"][1]["outputModes"], json!(["image/svg+xml"]));
    // Weather has no webhooks.
    assert_eq!(card["capabilities"]["streaming"], true);
    assert_eq!(card["capabilities"]["pushNotifications"], false);
    assert_eq!(card["capabilities"]["extendedAgentCard"], true);
    let extension = &card["capabilities"]["extensions"][0];
    assert_eq!(extension["uri"], "urn:a2a-gateway:extension:agent:v1");
    assert_eq!(extension["params"]["agents"], json!(["maps", "weather"]));
    for interface in card["supportedInterfaces"].as_array().unwrap() {
        let url = interface["url"].as_str().unwrap();
        assert!(
            url == "https://gateway.example/" || url == "https://gateway.example" || url == "gateway.example:443",
            "{url}"
        );
        assert!(interface.get("tenant").is_none());
    }
    assert!(!answer.text().contains("internal") && !answer.text().contains("127.0.0.1"));
    // Whoever one of them takes is taken; what maps demands stands with its skills.
    assert_eq!(card["security"], json!([{ "key": [] }, { "other": [] }]));
    assert_eq!(card["skills"][0]["security"], json!([{ "key": [] }]));
    assert!(card["skills"][2].get("security").is_none());
    assert_eq!(card["securitySchemes"].as_object().unwrap().len(), 2);

    let known = [("if-none-match", etag.as_str())];
    let again = call(gateway.address, "GET", "/.well-known/agent-card.json", &known, "").await;
    assert_eq!(again.status, 304);
    let old = get(gateway.address, "/.well-known/agent.json").await;
    assert_eq!(old.json(), card);
}

#[tokio::test]
async fn it_follows_the_cards_of_the_agents() {
    let (maps, weather) = two().await;
    let yaml = yaml(&maps, &weather, "", "card: { refresh: 100ms }");
    let gateway = start(&yaml).await;
    assert_eq!(skills(&card(&gateway).await).len(), 3);
    maps.set_card(&super::MAPS.replace(r#""id":"draw""#, r#""id":"paint""#));
    eventually("the skill is there", || async {
        skills(&card(&gateway).await).contains(&"maps/paint")
    })
    .await;
    // It speaks a binding that nobody serves: it is out of service, and so are its skills.
    maps.set_card(&super::MAPS.replace(r#""protocolVersion":"1.0""#, r#""protocolVersion":"9.0""#));
    eventually("it is gone", || async {
        skills(&card(&gateway).await) == ["weather/route"]
    })
    .await;
}

#[tokio::test]
async fn only_what_all_serve_is_offered() {
    let (maps, weather) = two().await;
    maps.set_card(CARD_0_3);
    let gateway = start(&yaml(&maps, &weather, "", "translate: false")).await;
    let answer = get(gateway.address, "/.well-known/agent-card.json").await;
    let card = answer.json();
    // Of maps nothing but JSON-RPC of 0.3, which weather serves by translation.
    assert!(card.get("supportedInterfaces").is_none(), "{card}");
    assert_eq!(card["preferredTransport"], "JSONRPC");
    let interfaces = card["additionalInterfaces"].as_array().unwrap();
    assert_eq!(interfaces.len(), 1);
    let refused = call(gateway.address, "GET", "/tasks/x", &[("X-API-Key", ANN)], "").await;
    assert_eq!(refused.status, 404);
}

#[tokio::test]
async fn the_extended_card_shows_what_its_caller_may_use() {
    let (maps, weather) = two().await;
    let policy = r#"policy: { skill: skill, allow: [ { when: "true" }, { skills: [ draw ], when: 'principal.id == "key:ann"' } ] }"#;
    let gateway = start(&yaml(&maps, &weather, "", policy)).await;
    let ask = r#"{"jsonrpc":"2.0","id":"e","method":"GetExtendedAgentCard","params":{}}"#;
    let answer = by(ANN, &gateway, ask).await;
    assert_eq!(answer.header("cache-control"), Some("private, no-store"));
    assert_eq!(
        skills(&answer.json()["result"]),
        ["maps/route", "maps/draw", "weather/route"]
    );
    let answer = by(BOB, &gateway, ask).await;
    assert_eq!(skills(&answer.json()["result"]), ["maps/route", "weather/route"]);
    // Carl is nobody to maps.
    let fields = [("X-Weather-Key", "carl-key"), ("A2A-Version", "1.0")];
    let answer = call(gateway.address, "GET", "/extendedAgentCard", &fields, "").await;
    assert_eq!(skills(&answer.json()), ["weather/route"]);
    let refused = call(
        gateway.address,
        "GET",
        "/extendedAgentCard",
        &[("A2A-Version", "1.0")],
        "",
    )
    .await;
    assert_eq!(refused.status, 401);
    assert!(maps.received().is_empty() && weather.received().is_empty());
}

#[tokio::test]
async fn agents_that_are_not_public_are_shown_to_those_who_may_call_them() {
    let (maps, weather) = two().await;
    let policy = "listed: callers\n    policy: { allow: [ { when: 'principal.id == \"key:ann\"' } ] }";
    let gateway = start(&yaml(&maps, &weather, "", policy)).await;
    let card = card(&gateway).await;
    assert_eq!(skills(&card), ["weather/route"]);
    assert_eq!(
        card["capabilities"]["extensions"][0]["params"]["agents"],
        json!(["weather"])
    );
    let ask = r#"{"jsonrpc":"2.0","id":"e","method":"GetExtendedAgentCard","params":{}}"#;
    let extended = by(ANN, &gateway, ask).await.json();
    assert_eq!(
        skills(&extended["result"]),
        ["maps/route", "maps/draw", "weather/route"]
    );
    let unclear = by(ANN, &gateway, &super::sends("", "")).await;
    assert!(
        unclear.text().contains("the agents are maps, weather:"),
        "{}",
        unclear.text()
    );
    // Bob may not call maps, and is told of no such agent.
    let extended = by(BOB, &gateway, ask).await.json();
    assert_eq!(skills(&extended["result"]), ["weather/route"]);
    let unclear = by(BOB, &gateway, &super::sends("", "")).await;
    assert!(unclear.text().contains("the agents are weather:"), "{}", unclear.text());
}

/// A gateway behind itself: its card has each skill once for each way to it, and no more with every look.
#[tokio::test]
async fn the_card_of_a_circle_of_front_doors_does_not_grow() {
    let (maps, weather) = two().await;
    let yaml = yaml(&maps, &weather, "", "").replace(
        "    path: /agents/weather\n",
        "    path: /agents/weather\n    card: { refresh: 100ms }\n",
    );
    let gateway = start(&yaml).await;
    // As it would be fetched from the front door itself, again and again.
    let mut seen = Vec::new();
    for turn in 0..6 {
        let own = get(gateway.address, "/.well-known/agent-card.json").await.text();
        let card: Value = serde_json::from_str(&own).unwrap();
        seen = skills(&card).into_iter().map(str::to_owned).collect();
        let version = format!("\"version\":\"{turn}\"");
        let told = card["version"].to_string();
        weather.set_card(&own.replace(&format!("\"version\":{told}"), &version));
        let asked = weather.cards();
        eventually("it was looked at", || async { weather.cards() > asked + 1 }).await;
    }
    assert_eq!(
        seen,
        ["maps/route", "maps/draw", "weather/maps/route", "weather/maps/draw"]
    );
}

/// Clients go on with the extended card in the place of the public one (A2A 1.0 §3.1.11).
#[tokio::test]
async fn the_extended_card_claims_what_the_public_one_does() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let public = card(&gateway).await;
    assert_eq!(public["capabilities"]["streaming"], true);
    let fields = [("X-API-Key", ANN), ("A2A-Version", "1.0")];
    let extended = call(gateway.address, "GET", "/extendedAgentCard", &fields, "")
        .await
        .json();
    for member in [
        "capabilities",
        "supportedInterfaces",
        "securityRequirements",
        "securitySchemes",
    ] {
        assert_eq!(extended[member], public[member], "{member}");
    }
    let ask = r#"{"jsonrpc":"2.0","id":"e","method":"agent/getAuthenticatedExtendedCard","params":{}}"#;
    let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
    let old = call(gateway.address, "POST", "/", &fields, ask).await.json();
    assert_eq!(old["result"]["capabilities"]["streaming"], true, "{old}");
    assert_eq!(old["result"]["supportsAuthenticatedExtendedCard"], true, "{old}");
}
