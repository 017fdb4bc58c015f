//! The same over HTTP+JSON, between the clients and the agents of that binding: request lines, bodies and answers must pass
//! as they were recorded, errors and statuses included.

use std::sync::{Arc, Mutex};

use super::replay::{Exchange, recorded, wire};
use crate::harness::agent::{Agent, CARD_HTTP_JSON, CARD_HTTP_JSON_0_3, Reply};
use crate::harness::{Gateway, KEY, call};

/// Exchanges that the gateway answers itself: name, HTTP status, why.
const ANSWERED_HERE: &[(&str, u16, &str)] = &[
    ("error-parse", 400, "the body is not JSON"),
    (
        "error-content-type",
        415,
        "a body that is not declared as JSON is no call",
    ),
    ("error-not-found-path", 404, "no path of A2A"),
    (
        "error-old-v1-prefix",
        400,
        "a path of 0.3, which the agent does not serve",
    ),
    (
        "tenant-named-v1",
        400,
        "the same: who serves both takes it for a path of 0.3",
    ),
    ("error-version-unsupported", 400, "no agent serves that version"),
    (
        "0.3/http-json-js/list-tasks",
        502,
        "the agent has no such path, and its server's page is no answer of A2A",
    ),
];

/// Which of them the agent answers too.
const ANSWERED_BADLY: &str = "0.3/http-json-js/list-tasks";

/// Rewritten on purpose: only the status is compared.
const REWRITTEN: &[&str] = &["extended-card"];

/// Where the recorded agents stood.
const BASES: [&str; 3] = ["/rest/", "/bare-rest/", "/noext-rest/"];

fn listed(exchange: &Exchange) -> Option<&'static (&'static str, u16, &'static str)> {
    let short = exchange.name.rsplit('/').next().unwrap();
    ANSWERED_HERE
        .iter()
        .find(|(name, ..)| *name == exchange.name || *name == short)
}

fn exchanges(generation: &str, folders: &[&str]) -> Vec<Exchange> {
    let mut found = recorded(generation, folders);
    found.retain(|exchange| !exchange.name.ends_with("/card"));
    found
}

async fn replay(generation: &str, folders: &[&str], card: &str, expected: usize) {
    let exchanges = exchanges(generation, folders);
    let answer: Arc<Mutex<Vec<u8>>> = Arc::default();
    let script = answer.clone();
    let agent = Agent::over_http_json(card, move |_| Reply::Raw(script.lock().unwrap().clone())).await;
    let settings = "policy: { task_owner: none }\n    translate: false";
    let gateway = Gateway::of(&[agent.address], settings, "").await;
    let mut passed = 0;
    let mut wrong = Vec::new();
    for exchange in &exchanges {
        let name = &exchange.name;
        *answer.lock().unwrap() = wire(exchange);
        let body = String::from_utf8(exchange.file("request").unwrap_or_default()).expect("text");
        let request = &exchange.meta["request"];
        let target = request["target"].as_str().expect("a target");
        let base = BASES
            .iter()
            .find(|base| target.starts_with(*base))
            .expect("a known base");
        let target = &target[base.len() - 1..];
        let method = request["method"].as_str().expect("a method");
        let recorded = exchange.headers("request");
        let mut fields = vec![("x-api-key", KEY)];
        let wanted = [
            "content-type",
            "a2a-version",
            "a2a-extensions",
            "x-a2a-extensions",
            "accept",
        ];
        fields.extend(
            recorded
                .iter()
                .filter(|(name, _)| wanted.contains(&name.as_str()))
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        let before = agent.received().len();
        let got = call(gateway.address, method, &format!("/agent{target}"), &fields, &body).await;
        let arrived = agent.received().get(before).cloned();
        if let Some((_, status, why)) = listed(exchange) {
            let reaches = name == ANSWERED_BADLY;
            if arrived.is_some() != reaches || got.status != *status {
                wrong.push(format!(
                    "{name} is listed as answered here with {status} ({why}): {} {}",
                    got.status,
                    got.text()
                ));
            }
            continue;
        }
        // The version goes on as a field.
        let asked = target.split("?A2A-Version=").next().unwrap();
        let Some(arrived) = arrived.filter(|it| it.line() == format!("{method} {asked}") && it.body == body.as_bytes())
        else {
            wrong.push(format!(
                "{name}: the agent got something else; answer {} {}",
                got.status,
                got.text()
            ));
            continue;
        };
        for field in ["content-type", "accept"] {
            let given = recorded.iter().find(|(name, _)| name == field);
            assert_eq!(
                arrived.field(field),
                given.map(|(_, value)| value.as_str()),
                "{name}: {field}"
            );
        }
        let status = exchange.meta["response"]["status"].as_u64().unwrap();
        let answer = exchange.file("response").unwrap_or_default();
        let rewritten = REWRITTEN.contains(&name.rsplit('/').next().unwrap());
        if u64::from(got.status) != status || !rewritten && got.body != answer {
            wrong.push(format!("{name}: the caller got {} {}", got.status, got.text()));
            continue;
        }
        passed += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        passed >= expected,
        "only {passed} of {} passed through",
        exchanges.len()
    );
}

#[tokio::test]
async fn recorded_0_3_traffic_passes_untouched() {
    replay("0.3", FOLDERS_0_3, CARD_HTTP_JSON_0_3, 40).await;
}

#[tokio::test]
async fn recorded_traffic_of_0_3_with_servers_of_1_0_passes_untouched() {
    replay("0.3-on-1.0-server", FOLDERS_0_3, CARD_HTTP_JSON_0_3, 30).await;
}

#[tokio::test]
async fn recorded_1_0_traffic_passes_untouched() {
    replay("1.0", FOLDERS_1_0, CARD_HTTP_JSON, 80).await;
}

const FOLDERS_0_3: &[&str] = &["http-json", "http-json-js"];
const FOLDERS_1_0: &[&str] = &["http-json", "http-json-js", "http-json-tenant"];

#[test]
fn the_list_names_recordings_only() {
    let mut all = exchanges("0.3", FOLDERS_0_3);
    all.extend(exchanges("1.0", FOLDERS_1_0));
    for entry in ANSWERED_HERE {
        assert!(
            all.iter().any(|exchange| listed(exchange) == Some(entry)),
            "{} is no recording any more",
            entry.0
        );
    }
}
