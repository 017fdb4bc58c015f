//! Entries, questions and documents, without sockets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::query::{Error, Filter, Query};
use super::{Entry, Listed, ai, api, table};
use crate::a2a::card::{Publication, publish, read};
use crate::a2a::security::Security;
use crate::a2a::{Binding, Generation};

fn entry(card: &Value, public_url: &str) -> Arc<Entry> {
    let origin = read(card.to_string().as_bytes()).unwrap();
    let publication = Publication {
        public_url: public_url.to_owned(),
        served: Generation::SPOKEN.to_vec(),
        by_version: false,
        v0_1: true,
        written: Generation::V0_3,
        bindings: vec![Binding::Grpc, Binding::JsonRpc],
        spoken: Binding::Grpc,
        enforced: Security::default(),
        schemes: std::collections::BTreeMap::default(),
        streaming: true,
        push: true,
        push_v0_1: true,
        extended: true,
        upstream: Vec::new(),
        original: false,
        edits: crate::a2a::card::Edits::default(),
    };
    Arc::new(Entry::of(&publish(&origin, &publication), &publication))
}

fn card(more: &Value) -> Value {
    let mut card = json!({
        "name": "N", "description": "d", "version": "1", "skills": [],
        "supportedInterfaces": [{ "url": "http://a.internal", "protocolBinding": "GRPC", "protocolVersion": "1.0" }],
        "capabilities": {}, "defaultInputModes": [], "defaultOutputModes": [],
    });
    for (name, value) in more.as_object().unwrap() {
        card[name] = value.clone();
    }
    card
}

#[test]
fn an_entry_tells_how_the_agent_is_called() {
    let entry = entry(&card(&json!({})), "https://g.example/");
    let shown = entry.json(|_| true);
    assert_eq!(shown["url"], "https://g.example/");
    assert_eq!(shown["cardUrl"], "https://g.example/.well-known/agent-card.json");
    assert_eq!(shown["protocolVersions"], json!(["0.1", "0.3", "1.0"]));
    assert_eq!(shown["protocolBindings"], json!(["GRPC", "JSONRPC"]));
    assert_eq!(shown["credentialRequired"], false);
    assert_eq!(shown["securitySchemes"], json!([]));
}

/// Whatever stands where text and lists belong says nothing, and a member in two spellings neither.
#[test]
fn an_entry_of_an_odd_card_has_what_can_be_read() {
    let odd = card(&json!({
        "name": 7, "description": ["x"], "iconUrl": {}, "provider": "somebody",
        "default_input_modes": ["a/b"], "defaultInputModes": ["c/d"],
        "defaultOutputModes": ["e/f", 5, null],
        "skills": [ 1, {}, { "id": 2 }, { "id": "s", "tags": [1, "t"], "name": null }, { "id": "s" } ],
    }));
    let shown = entry(&odd, "https://g.example/a").json(|_| true);
    assert_eq!((&shown["name"], &shown["description"]), (&json!(""), &json!("")));
    assert!(shown.get("iconUrl").is_none() && shown.get("provider").is_none());
    assert_eq!(shown["defaultInputModes"], json!([]));
    assert_eq!(shown["defaultOutputModes"], json!(["e/f"]));
    let skill = json!({ "id": "s", "name": "", "description": "", "tags": ["t"] });
    assert_eq!(shown["skills"], json!([skill]), "of two of one id the first");
}

#[test]
fn questions_are_read_as_forms_write_them() {
    let filter = |query: &str| Query::read(query).map(|query| query.filter);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        filter("skill=a+b&tag=%2B&mode=a/b+c&q=%C3%84+x"),
        Ok(Filter {
            skill: text("a b"),
            tag: text("+"),
            mode: text("a/b+c"),
            text: text("\u{e4} x"),
        })
    );
    assert_eq!(
        filter("skill=&tag&mode=&q=&page_size=&page_token="),
        Ok(Filter::default())
    );
    assert_eq!(filter("Skill=a&x&&="), Ok(Filter::default()), "unknown ones");
    assert_eq!(filter("%71=a&q=b"), Err(Error::Twice));
    assert_eq!(filter("m%6fde=a/b+c").unwrap().mode, text("a/b+c"));
    assert_eq!(Query::read("page_size=007").unwrap().page_size, Some(7));
}

#[test]
fn other_questions_have_other_tokens() {
    let of = |skill: &str, tag: &str| {
        let filter = Filter {
            skill: Some(skill.to_owned()),
            tag: Some(tag.to_owned()),
            ..Filter::default()
        };
        filter.purpose()
    };
    assert_eq!(of("a", "b"), of("a", "b"));
    assert_ne!(of("ab", ""), of("a", "b"));
    assert_ne!(of("a", "b"), of("b", "a"));
}

#[test]
fn what_is_not_seen_is_not_found() {
    let skills = json!([{ "id": "a", "name": "A", "description": "", "tags": ["t"], "inputModes": ["x/y"] }]);
    let entry = entry(&card(&json!({ "skills": skills })), "https://g.example/a");
    for query in ["skill=a", "tag=t", "mode=x/y", "q=t"] {
        let filter = Query::read(query).unwrap().filter;
        assert!(filter.admits(&entry, |_| true), "{query}");
        assert!(!filter.admits(&entry, |_| false), "{query}");
    }
    assert!(Filter::default().admits(&entry, |_| false));
}

#[test]
fn the_ai_catalog_names_agents_by_domain_or_else_by_url() {
    let entry = entry(&card(&json!({ "name": "" })), "https://g.example/a");
    let listed = [Listed {
        agent: "a",
        entry: &entry,
        metadata_url: None,
    }];
    let read = |public_url: &str| -> Value { serde_json::from_slice(&ai::document(public_url, listed)).unwrap() };
    for (public_url, host, named) in [
        ("https://g.example:8443/sub", "g.example", true),
        ("http://192.0.2.1:80", "192.0.2.1", false),
        ("http://[2001:db8::1]", "[2001:db8::1]", false),
        ("http://[2001:db8::1]:80", "[2001:db8::1]", false),
    ] {
        let catalog = read(public_url);
        assert_eq!(catalog["host"]["identifier"], host);
        let identifier = if named {
            format!("urn:air:{host}:a2a:a")
        } else {
            "https://g.example/a/.well-known/agent-card.json".to_owned()
        };
        assert_eq!(catalog["entries"][0]["identifier"], identifier);
        assert_eq!(catalog["entries"][0]["displayName"], "a", "every entry has a name");
    }
    let empty: Value = serde_json::from_slice(&ai::document("https://g.example", [])).unwrap();
    assert_eq!(empty["entries"], json!([]));
}

#[test]
fn an_empty_api_catalogue_is_one() {
    assert_eq!(&api::document([])[..], br#"{"linkset":[]}"#);
}

#[test]
fn the_table_has_a_line_for_each_agent_and_obeys_nobody() {
    let list = json!({ "agents": [
        { "agent": "maps", "state": "ready", "listed": "public", "entry": {
            "name": "M\u{1b}[31m\n\u{202e}x", "url": "https://g.example/maps",
            "protocolVersions": ["0.3", "1.0"], "protocolBindings": ["JSONRPC"],
        } },
        { "agent": "a-longer-name", "state": "out of service" },
        { "agent": "z", "state": "ready", "entry": { "name": "x".repeat(100) } },
    ] });
    let table = table::table(&list);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("AGENT          STATE           LISTED  NAME"));
    assert!(lines[1].starts_with("maps           ready           public  M?[31m??x"));
    assert!(
        lines[1].ends_with("0.3,1.0   JSONRPC   https://g.example/maps"),
        "{}",
        lines[1]
    );
    assert!(lines[2].starts_with("a-longer-name  out of service  -       -"));
    assert!(lines[3].contains(&format!("{}…", "x".repeat(59))));
    assert_eq!(table::table(&json!({})).lines().count(), 1);
}
