//! Agents behind the front door that are not in service: what belongs to them waits for them, and goes to nobody else.

use std::path::Path;

use super::{ANN, BOB, MAPS, WEATHER, by, making, sends, start, task_of, yaml};
use crate::harness::agent::Agent;
use crate::harness::tasks::Tasks;
use crate::harness::{Gateway, eventually, of_task};

const LIST: &str = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;
const NOT_READY: i64 = -31503;

async fn gone(gateway: &Gateway) {
    eventually("maps is out of service", || async {
        let card = crate::harness::get(gateway.address, "/.well-known/agent-card.json").await;
        card.status == 200 && !card.text().contains("maps/")
    })
    .await;
}

async fn check(gateway: &Gateway, weather: &Agent, task: &str) {
    let follows = |member: &str, id: &str| sends("", &format!(r#""{member}":"{id}""#));
    let asked = [
        of_task("GetTask", task),
        of_task("CancelTask", task),
        follows("contextId", &format!("ctx-{task}")),
        follows("taskId", task),
        sends(r#""tenant":"maps""#, ""),
        sends(r#""metadata":{"urn:a2a-gateway:extension:agent:v1":"maps"}"#, ""),
    ];
    for body in asked {
        let answer = by(ANN, gateway, &body).await;
        assert_eq!(
            (answer.status, answer.code()),
            (503, NOT_READY),
            "{body}: {}",
            answer.text()
        );
    }
    assert!(weather.received().is_empty(), "nothing of it went elsewhere");
    // For others it does not exist, wherever it is.
    let theirs = by(BOB, gateway, &of_task("GetTask", task)).await;
    let nobodys = by(BOB, gateway, &of_task("GetTask", "no-such-task")).await;
    assert_eq!(theirs.body, nobodys.body);
}

#[tokio::test]
async fn what_belongs_to_an_agent_out_of_service_goes_nowhere_else() {
    let (maps, weather) = (making("m", MAPS).await, making("w", WEATHER).await);
    let yaml = yaml(&maps, &weather, "default: weather", "card: { refresh: 100ms }");
    let gateway = start(&yaml).await;
    let task = task_of(&by(ANN, &gateway, &sends(r#""tenant":"maps""#, "")).await);
    maps.set_card(&MAPS.replace(r#""protocolVersion":"1.0""#, r#""protocolVersion":"9.0""#));
    gone(&gateway).await;
    check(&gateway, &weather, &task).await;
}

#[tokio::test]
async fn what_belongs_to_an_agent_that_is_not_known_yet_goes_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let (maps, weather) = (making("m", MAPS).await, making("w", WEATHER).await);
    let yaml = yaml(&maps, &weather, "default: weather", "")
        .replace("state: { store: memory }", "state: { store: embedded, path: state }");
    let gateway = Gateway::start_in(&yaml, Path::new(folder.path())).await;
    gateway.ready().await;
    let task = task_of(&by(ANN, &gateway, &sends(r#""tenant":"maps""#, "")).await);
    assert!(gateway.shutdown().await);
    maps.hide_card();
    let gateway = Gateway::start_in(&yaml, Path::new(folder.path())).await;
    gone(&gateway).await;
    check(&gateway, &weather, &task).await;
    // Her task is missed, and nothing that is known of others.
    let listed = by(ANN, &gateway, LIST).await;
    assert_eq!((listed.status, listed.code()), (503, NOT_READY), "{}", listed.text());
    let listed = by(BOB, &gateway, LIST).await;
    assert_eq!(listed.status, 200, "{}", listed.text());
    assert_eq!(listed.header("a2a-gateway-partial"), Some("1"));
}

#[tokio::test]
async fn a_list_does_not_leave_out_an_agent_out_of_service_silently() {
    let maps = Agent::with_card(MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(WEATHER, Tasks::default().script("w")).await;
    for (more, expected) in [("", None), (", list: { partial: true }", Some("1"))] {
        maps.set_card(MAPS);
        let endpoints = format!("endpoints: [ {{ url: \"http://{}/\" }} ]", maps.address);
        let yaml = yaml(&maps, &weather, "", "card: { refresh: 100ms }");
        let gateway = start(&yaml.replace(&endpoints, &format!("{endpoints}{more}"))).await;
        for tenant in ["maps", "weather"] {
            by(ANN, &gateway, &sends(&format!(r#""tenant":"{tenant}""#), "")).await;
        }
        maps.set_card(&MAPS.replace(r#""protocolVersion":"1.0""#, r#""protocolVersion":"9.0""#));
        gone(&gateway).await;
        let listed = by(ANN, &gateway, LIST).await;
        match expected {
            None => assert_eq!((listed.status, listed.code()), (503, NOT_READY), "{}", listed.text()),
            Some(_) => assert_eq!(
                listed.json()["result"]["tasks"].as_array().unwrap().len(),
                1,
                "{}",
                listed.text()
            ),
        }
        assert_eq!(listed.header("a2a-gateway-partial"), expected);
    }
}
