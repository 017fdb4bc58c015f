//! The program fetches and compares cards as the gateway would.

use super::binary::run;
use crate::harness::agent::{Agent, CARD, Reply};
use crate::harness::{config_of, with_upstream};

#[tokio::test]
async fn a_card_is_fetched_saved_and_compared() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let yaml = with_upstream(
        &config_of(&[agent.address], "", ""),
        "credential: { bearer: { token: sesame } }",
    );
    std::fs::write(&file, &yaml).unwrap();
    let of = |what: &'static str| ["card", what, "--config", file.to_str().unwrap(), "--agent"];
    let card = async |what: &'static str, more: &[&str]| run(&[&of(what), more].concat()).await;

    let saved = card("fetch", &["agent"]).await;
    assert_eq!(saved.code, Some(0), "{}", saved.stderr);
    assert!(
        saved.stderr.contains("/.well-known/agent-card.json"),
        "{}",
        saved.stderr
    );
    let own: serde_json::Value = serde_json::from_str(CARD).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&saved.stdout).unwrap(), own);
    let shown = agent.card_requests();
    assert_eq!(shown[0].field("authorization"), Some("Bearer sesame"));

    let nothing = card("diff", &["agent"]).await;
    assert_eq!(nothing.code, Some(2), "nothing to compare with: {}", nothing.stderr);
    std::fs::write(folder.path().join("card.json"), &saved.stdout).unwrap();
    std::fs::write(
        &file,
        yaml.replace("path: /agent\n", "path: /agent\n    card: { approved: card.json }\n"),
    )
    .unwrap();
    let same = card("diff", &["agent"]).await;
    assert_eq!((same.code, &*same.stdout), (Some(0), ""), "{}", same.stderr);

    agent.set_card(
        &CARD
            .replace("agent.internal", "other.internal")
            .replace("Fake", "Other"),
    );
    let other = card("diff", &["agent"]).await;
    assert_eq!(
        (other.code, &*other.stdout),
        (
            Some(1),
            "supportedInterfaces[JSONRPC 1.0]: \"http://agent.internal/\" -> \"http://other.internal/\"\n\
             name: \"Fake\" -> \"Other\" (does not matter)\n"
        ),
        "{}",
        other.stderr
    );
    let against = folder.path().join("other.json");
    std::fs::write(
        &against,
        CARD.replace("agent.internal", "other.internal")
            .replace("Fake", "Other"),
    )
    .unwrap();
    let same = card("diff", &["agent", "--against", against.to_str().unwrap()]).await;
    assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);

    agent.hide_card();
    for (what, more) in [
        ("diff", vec!["agent"]),
        ("fetch", vec!["agent"]),
        ("fetch", vec!["nobody"]),
        ("diff", vec!["agent", "--against", "/nonexistent/card.json"]),
    ] {
        let failed = card(what, &more).await;
        assert_eq!(
            (failed.code, &*failed.stdout),
            (Some(2), ""),
            "{what} {more:?}: {}",
            failed.stderr
        );
        assert!(!failed.stderr.is_empty());
    }
    std::fs::write(folder.path().join("card.json"), "{").unwrap();
    let invalid = card("diff", &["agent"]).await;
    assert_eq!(invalid.code, Some(2), "{}", invalid.stderr);
    assert!(invalid.stderr.contains("agents[0].card.approved"), "{}", invalid.stderr);
}
